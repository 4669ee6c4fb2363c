// Attribute blocks, each distinct one kept once: a device remembers a 32-bit number instead of a
// hundred bytes. Blocks are never dropped; past the limit new ones are not kept (number 0).
// Thread-safe, one mutex; a worker comes here once per new cohort, the writer once per record.
#ifndef GW_ATTR_POOL_H
#define GW_ATTR_POOL_H

#include "base/keyed_hash.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_ATTR_POOL_MAX      262144u
#define GW_ATTR_POOL_UNPROVEN (GW_ATTR_POOL_MAX / 2) // above it only proven devices bring new ones

#define GW_ATTR_POOL_EACH_MAX 32u // new blocks that a device may bring in an hour

struct gw_attr_pool;

// Who brings a block: a device, which says so or has shown it, or the store.
struct gw_attr_bringer {
    uint64_t device_id; // 0: the store, which brings as many as it has
    bool proven;
    uint32_t now_s;
};

// `key` is copied: strangers choose attributes.
BASE_NODISCARD enum base_status gw_attr_pool_new(const struct base_hash_key *key,
                                                 struct gw_attr_pool **out_pool);
void gw_attr_pool_free(struct gw_attr_pool *pool);
// The block's number, 0 when it could not be kept.
uint32_t gw_attr_pool_intern(struct gw_attr_pool *pool, const uint8_t *block, size_t size,
                             const struct gw_attr_bringer *by);
// Borrowed until the pool is freed; {NULL, 0} for number 0 or unknown ones.
const uint8_t *gw_attr_pool_get(struct gw_attr_pool *pool, uint32_t number, size_t *out_size);
uint32_t gw_attr_pool_count(struct gw_attr_pool *pool);
// Look-ups that went past BASE_PROBE_LONG places.
uint64_t gw_attr_pool_probes_long(struct gw_attr_pool *pool);

#endif
