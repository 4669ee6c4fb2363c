// Counts by actor: who a request is from, as far as that is proven, and how much of something it
// has. Belongs to whoever made it: not safe for two threads. Keys are hashed with a seed of the
// table's own, so nobody can choose ones that collide. An entry goes when its counts are zero:
// the table is as large as what is held.
#ifndef GW_ACTOR_TABLE_H
#define GW_ACTOR_TABLE_H

#include "base/status.h"

#include <stdint.h>

#define GW_ACTOR_COUNTS 4u

struct gw_actor_table;

enum gw_actor_kind {
    GW_ACTOR_STRANGER, // known by its address alone
    GW_ACTOR_DEVICE,   // showed its credential or certificate
    GW_ACTOR_OPERATOR, // showed a token
    GW_ACTOR_KIND_COUNT
};

struct gw_actor_key {
    uint8_t kind;      // enum gw_actor_kind
    uint8_t bytes[16]; // an id, or an address
};

BASE_NODISCARD enum base_status gw_actor_table_new(struct gw_actor_table **out_table); // NOMEM
void gw_actor_table_free(struct gw_actor_table *table); // accepts NULL
// Count number `which` of the actor; 0 for one that is not there.
uint64_t gw_actor_table_get(const struct gw_actor_table *table, const struct gw_actor_key *key,
                            uint32_t which);
// NOMEM: nothing was added.
BASE_NODISCARD enum base_status gw_actor_table_add(struct gw_actor_table *table,
                                                   const struct gw_actor_key *key, uint32_t which,
                                                   uint64_t amount);
// No more than was added.
void gw_actor_table_sub(struct gw_actor_table *table, const struct gw_actor_key *key,
                        uint32_t which, uint64_t amount);
// How many actors have something.
uint32_t gw_actor_table_size(const struct gw_actor_table *table);

#endif
