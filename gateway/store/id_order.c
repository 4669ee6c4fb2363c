// The order of ids behind a packed table. New ones gather until they are an eighth of all; then
// they are sorted in among the others, so that each id is moved a few times only. A walk looks for
// the next ones in both. Called by store_packed.c and packed_read.c, under the table's lock.
#include "store/id_order.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define FRESH_MIN   4096u
#define FRESH_SHARE 8u

void gw_id_order_done(struct gw_id_order *order)
{
    free(order->sorted);
    free(order->fresh);
    *order = (struct gw_id_order){.sorted = NULL};
}

bool gw_id_order_has_room(const struct gw_id_order *order, size_t more)
{
    base_assert(order->fresh_count <= order->fresh_capacity);
    return more <= order->fresh_capacity - order->fresh_count;
}

enum base_status gw_id_order_reserve(struct gw_id_order *order, size_t more)
{
    if (gw_id_order_has_room(order, more)) {
        return BASE_OK;
    }
    if (more > SIZE_MAX / 4 / sizeof(order->fresh[0]) - order->fresh_capacity) {
        return BASE_ERR_NOMEM;
    }
    size_t capacity = order->fresh_capacity * 2 + more;
    uint64_t *fresh = realloc(order->fresh, capacity * sizeof(fresh[0]));
    if (fresh == NULL) {
        return BASE_ERR_NOMEM;
    }
    order->fresh = fresh;
    order->fresh_capacity = capacity;
    return BASE_OK;
}

void gw_id_order_add(struct gw_id_order *order, uint64_t id)
{
    base_check(order->fresh_count < order->fresh_capacity);
    order->fresh[order->fresh_count++] = id;
}

// The first place whose id is not below.
static size_t lower_bound(const uint64_t *ids, size_t count, uint64_t id)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (ids[middle] < id) {
            low = middle + 1;
        } else {
            count = middle;
        }
    }
    return low;
}

void gw_id_chunk_insert(struct gw_id_chunk *chunk, uint64_t id)
{
    base_assert(chunk->count <= GW_ID_CHUNK);
    if (chunk->count == GW_ID_CHUNK && id >= chunk->ids[GW_ID_CHUNK - 1]) {
        return;
    }
    size_t at = lower_bound(chunk->ids, chunk->count, id);
    if (at < chunk->count && chunk->ids[at] == id) {
        return;
    }
    chunk->count -= chunk->count == GW_ID_CHUNK; // the largest falls out
    memmove(&chunk->ids[at + 1], &chunk->ids[at], (chunk->count - at) * sizeof(chunk->ids[0]));
    chunk->ids[at] = id;
    chunk->count++;
}

void gw_id_order_next(const struct gw_id_order *order, uint64_t from, struct gw_id_chunk *out)
{
    size_t at = lower_bound(order->sorted, order->sorted_count, from);
    size_t count = order->sorted_count - at;
    out->count = count < GW_ID_CHUNK ? (uint32_t)count : GW_ID_CHUNK;
    if (out->count > 0) {
        memcpy(out->ids, order->sorted + at, out->count * sizeof(out->ids[0]));
    }
    for (size_t i = 0; i < order->fresh_count; i++) {
        if (order->fresh[i] >= from) {
            gw_id_chunk_insert(out, order->fresh[i]);
        }
    }
}

bool gw_id_order_is_due(const struct gw_id_order *order)
{
    return order->fresh_count >= FRESH_MIN &&
           order->fresh_count >= order->sorted_count / FRESH_SHARE;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

enum base_status gw_id_order_settled(const struct gw_id_order *order,
                                     const struct gw_row_index *live, struct gw_id_order *out)
{
    struct gw_id_order settled = {.sorted = NULL};
    size_t fresh_count = order->fresh_count;
    size_t room = order->sorted_count + fresh_count;
    uint64_t *fresh = malloc((fresh_count + 1) * sizeof(fresh[0]));
    settled.sorted = malloc((room + 1) * sizeof(settled.sorted[0]));
    if (fresh == NULL || settled.sorted == NULL) {
        free(fresh);
        free(settled.sorted);
        return BASE_ERR_NOMEM;
    }
    if (fresh_count > 0) {
        memcpy(fresh, order->fresh, fresh_count * sizeof(fresh[0]));
        qsort(fresh, fresh_count, sizeof(fresh[0]), compare_ids);
    }
    size_t i = 0;
    size_t k = 0;
    while (i < order->sorted_count || k < fresh_count) {
        bool first = k == fresh_count || (i < order->sorted_count && order->sorted[i] <= fresh[k]);
        uint64_t id = first ? order->sorted[i++] : fresh[k++];
        bool again = settled.sorted_count > 0 && settled.sorted[settled.sorted_count - 1] == id;
        if (!again && gw_row_index_get(live, id) != 0) {
            settled.sorted[settled.sorted_count++] = id;
        }
    }
    base_assert(settled.sorted_count <= room);
    free(fresh);
    *out = settled;
    return BASE_OK;
}
