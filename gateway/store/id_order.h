// The ids of a packed table in their order, in memory: a sorted array, and those that came since,
// as they came. On disk such a list would cost a page of 4 KB for nearly every new id. An id that
// went may still stand here: who walks asks for its row.
//
// The caller owns the struct and what locks it needs. Adding cannot fail where room was made.
#ifndef GW_ID_ORDER_H
#define GW_ID_ORDER_H

#include "base/status.h"
#include "store/row_index.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_ID_CHUNK 256u

struct gw_id_order {
    uint64_t *sorted;
    size_t sorted_count;
    uint64_t *fresh;
    size_t fresh_count;
    size_t fresh_capacity;
};

// Ids in order, each once.
struct gw_id_chunk {
    uint64_t ids[GW_ID_CHUNK];
    uint32_t count;
};

void gw_id_order_done(struct gw_id_order *order);
bool gw_id_order_has_room(const struct gw_id_order *order, size_t more);
// NOMEM.
BASE_NODISCARD enum base_status gw_id_order_reserve(struct gw_id_order *order, size_t more);
void gw_id_order_add(struct gw_id_order *order, uint64_t id);
// The smallest ids from `from` on; fewer than GW_ID_CHUNK: there are no more.
void gw_id_order_next(const struct gw_id_order *order, uint64_t from, struct gw_id_chunk *out);
// Into a chunk, unless it is full of smaller ones.
void gw_id_chunk_insert(struct gw_id_chunk *chunk, uint64_t id);
// Have so many come that they should be sorted?
bool gw_id_order_is_due(const struct gw_id_order *order);
// A copy, all sorted, without what is not in `live`; `order` stays as it is, so that it can be read
// meanwhile. NOMEM.
BASE_NODISCARD enum base_status gw_id_order_settled(const struct gw_id_order *order,
                                                    const struct gw_row_index *live,
                                                    struct gw_id_order *out);

#endif
