// The map of what is staged for a packed table: open addressing, the next place where one is taken,
// and removal that moves the following ones back, so that no marks of removed ones gather. Called
// by store_packed.c on the writer thread alone.
#include "store/row_index.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 64u

void gw_row_index_init(struct gw_row_index *index, const struct base_hash_key *key)
{
    *index = (struct gw_row_index){.key = *key};
}

void gw_row_index_done(struct gw_row_index *index)
{
    free(index->entries);
    *index = (struct gw_row_index){.key = index->key};
}

bool gw_row_index_has_room(const struct gw_row_index *index, size_t more)
{
    size_t most = index->capacity / 4 * 3;
    base_assert(index->count <= most);
    return more <= most - index->count;
}

static size_t place_of(const struct gw_row_index *index, uint64_t id)
{
    return (size_t)base_keyed64_u64(&index->key, id) & (index->capacity - 1);
}

// Where the id is, or the free place where it would be.
static size_t find(const struct gw_row_index *index, uint64_t id)
{
    base_assert(index->count < index->capacity); // else nothing ends the search
    size_t at = place_of(index, id);
    while (index->entries[at].seq != 0 && index->entries[at].id != id) {
        at = (at + 1) & (index->capacity - 1);
    }
    return at;
}

// A copy with room for so many more.
static enum base_status make_larger(const struct gw_row_index *index, size_t more,
                                    struct gw_row_index *out)
{
    size_t capacity = index->capacity != 0 ? index->capacity : CAPACITY_FIRST;
    if (more > SIZE_MAX / 4 / sizeof(struct gw_row_entry) - index->count) {
        return BASE_ERR_NOMEM;
    }
    while (capacity / 4 * 3 < index->count + more) {
        capacity *= 2;
    }
    struct gw_row_index larger = {.capacity = capacity, .key = index->key};
    larger.entries = calloc(capacity, sizeof(larger.entries[0]));
    if (larger.entries == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t i = 0; i < index->capacity; i++) {
        if (index->entries[i].seq != 0) {
            gw_row_index_put(&larger, index->entries[i].id, index->entries[i].seq);
        }
    }
    base_assert(larger.count == index->count);
    *out = larger;
    return BASE_OK;
}

enum base_status gw_row_index_reserve(struct gw_row_index *index, size_t more)
{
    if (gw_row_index_has_room(index, more)) {
        return BASE_OK;
    }
    struct gw_row_index larger;
    BASE_TRY(make_larger(index, more, &larger));
    gw_row_index_done(index);
    *index = larger;
    return BASE_OK;
}

uint64_t gw_row_index_get(const struct gw_row_index *index, uint64_t id)
{
    return index->count == 0 ? 0 : index->entries[find(index, id)].seq;
}

void gw_row_index_put(struct gw_row_index *index, uint64_t id, uint64_t seq)
{
    base_assert(seq > 0);
    base_check(index->count < index->capacity);
    size_t at = find(index, id);
    index->count += index->entries[at].seq == 0;
    index->entries[at] = (struct gw_row_entry){id, seq};
}

void gw_row_index_remove(struct gw_row_index *index, uint64_t id)
{
    if (index->count == 0) {
        return;
    }
    size_t mask = index->capacity - 1;
    size_t hole = find(index, id);
    if (index->entries[hole].seq == 0) {
        return;
    }
    // Those behind it whose own place is not between the hole and them move into it.
    for (size_t at = (hole + 1) & mask; index->entries[at].seq != 0; at = (at + 1) & mask) {
        size_t home = place_of(index, index->entries[at].id);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            index->entries[hole] = index->entries[at];
            hole = at;
        }
    }
    index->entries[hole] = (struct gw_row_entry){0, 0};
    index->count--;
}

void gw_row_index_clear(struct gw_row_index *index)
{
    if (index->count > 0) {
        memset(index->entries, 0, index->capacity * sizeof(index->entries[0]));
        index->count = 0;
    }
}
