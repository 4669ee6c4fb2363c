// Which row of a packed table is the newest of each id, and the ids in their order: a tree of three
// levels in memory, about 12 bytes an id where millions of them have ids like random numbers. On
// disk such an order would cost a page of 4 KB for nearly every new id.
//
// The ids of a leaf lie between two bounds, so each is kept as what it is more than the lower one,
// in as few bytes as the leaf needs; so are rows. Leaves grow a few places at a time. However ids
// are chosen, a look takes as many steps as the logarithm of their number.
//
// What becomes durable must not fail for want of memory: gw_id_rows_prepare makes the place of an
// id and of its row before, gw_id_rows_set fills it. A place without a row is as none.
//
// The caller owns the struct and what locks it needs.
#ifndef GW_ID_ROWS_H
#define GW_ID_ROWS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_ID_CHUNK 256u

struct gw_id_branch;

struct gw_id_rows {
    struct gw_id_branch **branches; // in the order of their ids
    uint64_t *bounds;               // the lowest id that is a branch's
    size_t branch_count;
    size_t branch_room;
    size_t count; // ids that have a row
};

// Ids in order, each once.
struct gw_id_chunk {
    uint64_t ids[GW_ID_CHUNK];
    uint32_t count;
};

// Zero is empty.
void gw_id_rows_done(struct gw_id_rows *rows);
// 0: there is none.
uint64_t gw_id_rows_get(const struct gw_id_rows *rows, uint64_t id);
// Makes a place for the id and this row of it. NOMEM: all is as before.
BASE_NODISCARD enum base_status gw_id_rows_prepare(struct gw_id_rows *rows, uint64_t id,
                                                   uint64_t row);
// It was prepared for this row, > 0, or for a larger one.
void gw_id_rows_set(struct gw_id_rows *rows, uint64_t id, uint64_t row);
// The id's place goes, too.
void gw_id_rows_remove(struct gw_id_rows *rows, uint64_t id);
// The place of an id goes if it has no row.
void gw_id_rows_give_up(struct gw_id_rows *rows, uint64_t id);
// The smallest ids from `from` on that have rows; fewer than GW_ID_CHUNK: there are no more.
void gw_id_rows_next(const struct gw_id_rows *rows, uint64_t from, struct gw_id_chunk *out);
// Into a chunk, unless it is full of smaller ones.
void gw_id_chunk_insert(struct gw_id_chunk *chunk, uint64_t id);
size_t gw_id_rows_bytes(const struct gw_id_rows *rows);
bool gw_id_rows_validate(const struct gw_id_rows *rows);

#endif
