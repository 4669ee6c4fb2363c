// Open connections by peer address, over all workers: what the per-address and the total limit are
// checked against; IPv6 by /64. Safe to call from any thread (one mutex, taken once per accept and
// close).
#ifndef GW_PEER_TABLE_H
#define GW_PEER_TABLE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gw_peer_table;

struct gw_peer_address {
    uint8_t bytes[16]; // IPv6, or IPv4 mapped into it
};

// What counts as one address: an IPv4 address, and of an IPv6 address its /64, since one host can
// have all of those.
struct gw_peer_address gw_peer_network(const struct gw_peer_address *address);

bool gw_peer_is_v4(const struct gw_peer_address *address);
// Room for `connections_max` connections, allocated once. NOMEM, INVALID for 0.
BASE_NODISCARD enum base_status gw_peer_table_new(uint32_t connections_max,
                                                  struct gw_peer_table **out_table);
void gw_peer_table_free(struct gw_peer_table *table); // accepts NULL
// Counts one more connection, or says LIMIT (nothing is counted then).
BASE_NODISCARD enum base_status gw_peer_table_take(struct gw_peer_table *table,
                                                   const struct gw_peer_address *address,
                                                   uint64_t total_max, uint64_t address_max);
// Undoes one take of this address.
void gw_peer_table_give(struct gw_peer_table *table, const struct gw_peer_address *address);
uint32_t gw_peer_table_total(struct gw_peer_table *table);
uint32_t gw_peer_table_count(struct gw_peer_table *table, const struct gw_peer_address *address);

#endif
