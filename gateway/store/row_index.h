// Which rows a transaction wrote of which ids: a map from ids to row numbers in memory, 16 bytes a
// place, at most three quarters of them taken. Ids are the outside's to choose, so places follow
// from the process's key.
//
// The caller owns the struct and what locks it needs. Putting cannot fail where room was made.
#ifndef GW_ROW_INDEX_H
#define GW_ROW_INDEX_H

#include "base/keyed_hash.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gw_row_entry {
    uint64_t id;
    uint64_t seq; // 0: the place is free
};

struct gw_row_index {
    struct gw_row_entry *entries;
    size_t capacity; // a power of two, or 0
    size_t count;
    struct base_hash_key key;
};

void gw_row_index_init(struct gw_row_index *index, const struct base_hash_key *key);
void gw_row_index_done(struct gw_row_index *index);
bool gw_row_index_has_room(const struct gw_row_index *index, size_t more);
// Makes room in place. NOMEM.
BASE_NODISCARD enum base_status gw_row_index_reserve(struct gw_row_index *index, size_t more);
// 0: there is none.
uint64_t gw_row_index_get(const struct gw_row_index *index, uint64_t id);
// There is room; seq > 0.
void gw_row_index_put(struct gw_row_index *index, uint64_t id, uint64_t seq);
void gw_row_index_remove(struct gw_row_index *index, uint64_t id);
// Keeps its memory.
void gw_row_index_clear(struct gw_row_index *index);

#endif
