// The tree behind a packed table: an array of branches, of which each has up to BRANCH_MAX leaves
// of up to LEAF_MAX ids. A full leaf is split in two halves, and so is a full branch. Called by
// store_packed.c, on the writer thread to change it and from any thread to look, under its lock.
#include "store/id_rows.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define LEAF_MAX     128u
#define LEAF_STEP    8u // places that a leaf grows by
#define BRANCH_MAX   128u
#define PLACES_FIRST 16u // of branches
#define WIDTH_MAX    8u
#define PAD          WIDTH_MAX // a number is read with the seven bytes behind its first

// An entry is an id without the leaf's bound, then a row, of so many bytes each.
struct leaf {
    uint16_t count;
    uint16_t room;
    uint8_t id_bytes;
    uint8_t row_bytes;
    uint8_t bytes[]; // room x entry, then PAD
};

struct gw_id_branch {
    uint32_t count;
    uint64_t bounds[BRANCH_MAX]; // the lowest id that is a leaf's
    struct leaf *leaves[BRANCH_MAX];
};

// Where an id is or would be.
struct place {
    size_t branch;
    uint32_t leaf;
    uint32_t at;
    bool found;
};

// What a leaf holds, with all bytes.
struct entries {
    uint64_t ids[LEAF_MAX + 1];
    uint64_t rows[LEAF_MAX + 1];
    uint32_t count;
    uint8_t row_bytes; // at least, for places may be prepared whose rows are not there yet
};

// ---- Numbers of some bytes

static uint64_t number_get(const uint8_t *from, unsigned width)
{
    uint64_t number;
    memcpy(&number, from, sizeof(number));
    return number & (UINT64_MAX >> (64 - 8 * width));
}

static void number_set(uint8_t *to, unsigned width, uint64_t number)
{
    memcpy(to, &number, width);
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low bytes come first");

static uint8_t width_of(uint64_t number)
{
    return (uint8_t)((71u - (unsigned)__builtin_clzll(number | 1)) / 8);
}

// ---- A leaf

static size_t leaf_stride(const struct leaf *leaf)
{
    return (size_t)leaf->id_bytes + leaf->row_bytes;
}

static size_t leaf_bytes(size_t room, size_t stride)
{
    return sizeof(struct leaf) + room * stride + PAD;
}

static uint64_t leaf_id(const struct leaf *leaf, uint32_t at)
{
    return number_get(leaf->bytes + at * leaf_stride(leaf), leaf->id_bytes);
}

static uint64_t leaf_row(const struct leaf *leaf, uint32_t at)
{
    return number_get(leaf->bytes + at * leaf_stride(leaf) + leaf->id_bytes, leaf->row_bytes);
}

static void leaf_set_row(struct leaf *leaf, uint32_t at, uint64_t row)
{
    base_assert(at < leaf->count);
    base_check(width_of(row) <= leaf->row_bytes);
    number_set(leaf->bytes + at * leaf_stride(leaf) + leaf->id_bytes, leaf->row_bytes, row);
}

// The first place whose id is not below, both without the bound.
static uint32_t leaf_find(const struct leaf *leaf, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = leaf->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (leaf_id(leaf, middle) < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void leaf_put(struct leaf *leaf, uint32_t at, uint64_t id, uint64_t row)
{
    uint8_t *entry = leaf->bytes + at * leaf_stride(leaf);
    number_set(entry, leaf->id_bytes, id);
    number_set(entry + leaf->id_bytes, leaf->row_bytes, row);
}

// A leaf of these entries from `from` on, with room for so many; ids count from `less`. NULL: no
// memory.
static struct leaf *leaf_new(const struct entries *all, uint32_t from, uint32_t count,
                             uint64_t less)
{
    uint64_t ids = 0;
    uint64_t rows = 0;
    uint32_t room = (count + LEAF_STEP - 1) / LEAF_STEP * LEAF_STEP;
    base_assert(from + count <= all->count);
    for (uint32_t i = from; i < from + count; i++) {
        ids |= all->ids[i] - less;
        rows |= all->rows[i];
    }
    const uint8_t id_bytes = width_of(ids);
    const uint8_t row_width = width_of(rows);
    const uint8_t row_bytes = row_width > all->row_bytes ? row_width : all->row_bytes;
    struct leaf *leaf = calloc(1, leaf_bytes(room, (size_t)id_bytes + row_bytes));
    if (leaf == NULL) {
        return NULL;
    }
    leaf->count = (uint16_t)count;
    leaf->room = (uint16_t)room;
    leaf->id_bytes = id_bytes;
    leaf->row_bytes = row_bytes;
    for (uint32_t i = 0; i < count; i++) {
        leaf_put(leaf, i, all->ids[from + i] - less, all->rows[from + i]);
    }
    return leaf;
}

static void leaf_read(const struct leaf *leaf, struct entries *out)
{
    out->count = leaf->count;
    out->row_bytes = leaf->row_bytes;
    for (uint32_t i = 0; i < leaf->count; i++) {
        out->ids[i] = leaf_id(leaf, i);
        out->rows[i] = leaf_row(leaf, i);
    }
}

static void entries_insert(struct entries *entries, uint32_t at, uint64_t id, uint64_t row)
{
    base_assert(at <= entries->count && entries->count <= LEAF_MAX);
    size_t behind = entries->count - at;
    memmove(&entries->ids[at + 1], &entries->ids[at], behind * sizeof(entries->ids[0]));
    memmove(&entries->rows[at + 1], &entries->rows[at], behind * sizeof(entries->rows[0]));
    entries->ids[at] = id;
    entries->rows[at] = row;
    entries->count++;
}

// The place of an id without a row, where one is.
static void leaf_insert(struct leaf *leaf, uint32_t at, uint64_t id)
{
    size_t stride = leaf_stride(leaf);
    uint8_t *entry = leaf->bytes + at * stride;
    base_assert(at <= leaf->count && leaf->count < leaf->room);
    memmove(entry + stride, entry, (leaf->count - at) * stride);
    leaf->count++;
    leaf_put(leaf, at, id, 0);
}

// ---- The tree

// The last bound that is not above the id. The first is above none.
static size_t last_bound(const uint64_t *bounds, size_t count, uint64_t id)
{
    size_t low = 0;
    while (count - low > 1) {
        size_t middle = low + (count - low) / 2;
        if (bounds[middle] <= id) {
            low = middle;
        } else {
            count = middle;
        }
    }
    return low;
}

static void find(const struct gw_id_rows *rows, uint64_t id, struct place *out)
{
    base_assert(rows->branch_count > 0);
    out->branch = last_bound(rows->bounds, rows->branch_count, id);
    const struct gw_id_branch *branch = rows->branches[out->branch];
    out->leaf = (uint32_t)last_bound(branch->bounds, branch->count, id);
    const struct leaf *leaf = branch->leaves[out->leaf];
    uint64_t rest = id - branch->bounds[out->leaf];
    out->at = leaf_find(leaf, rest);
    out->found = out->at < leaf->count && leaf_id(leaf, out->at) == rest;
}

void gw_id_rows_done(struct gw_id_rows *rows)
{
    for (size_t b = 0; b < rows->branch_count; b++) {
        for (uint32_t i = 0; i < rows->branches[b]->count; i++) {
            free(rows->branches[b]->leaves[i]);
        }
        free(rows->branches[b]);
    }
    free(rows->branches);
    free(rows->bounds);
    *rows = (struct gw_id_rows){.branches = NULL};
}

static bool has_branch_room(struct gw_id_rows *rows)
{
    if (rows->branch_count < rows->branch_room) {
        return true;
    }
    size_t room = rows->branch_room == 0 ? PLACES_FIRST : rows->branch_room * 2;
    struct gw_id_branch **branches = realloc(rows->branches, room * sizeof(branches[0]));
    if (branches == NULL) {
        return false;
    }
    rows->branches = branches;
    uint64_t *bounds = realloc(rows->bounds, room * sizeof(bounds[0]));
    if (bounds == NULL) {
        return false;
    }
    rows->bounds = bounds;
    rows->branch_room = room;
    return true;
}

// The first branch with an empty leaf, which everything falls into.
static bool begin(struct gw_id_rows *rows)
{
    static const struct entries none;
    if (rows->branch_count > 0) {
        return true;
    }
    struct gw_id_branch *branch = calloc(1, sizeof(*branch));
    struct leaf *leaf = leaf_new(&none, 0, 0, 0);
    if (branch == NULL || leaf == NULL || !has_branch_room(rows)) {
        free(branch);
        free(leaf);
        return false;
    }
    branch->leaves[0] = leaf;
    branch->count = 1;
    rows->branches[0] = branch;
    rows->bounds[0] = 0;
    rows->branch_count = 1;
    return true;
}

// The upper half of a full branch becomes one of its own. False: no memory.
static bool split_branch(struct gw_id_rows *rows, size_t at)
{
    struct gw_id_branch *lower = rows->branches[at];
    struct gw_id_branch *upper = has_branch_room(rows) ? calloc(1, sizeof(*upper)) : NULL;
    if (upper == NULL) {
        return false;
    }
    base_assert(lower->count == BRANCH_MAX);
    const uint32_t half = BRANCH_MAX / 2;
    upper->count = BRANCH_MAX - half;
    memcpy(upper->leaves, lower->leaves + half, upper->count * sizeof(upper->leaves[0]));
    memcpy(upper->bounds, lower->bounds + half, upper->count * sizeof(upper->bounds[0]));
    lower->count = half;
    size_t behind = rows->branch_count - at - 1;
    memmove(rows->branches + at + 2, rows->branches + at + 1, behind * sizeof(rows->branches[0]));
    memmove(rows->bounds + at + 2, rows->bounds + at + 1, behind * sizeof(rows->bounds[0]));
    rows->branches[at + 1] = upper;
    rows->bounds[at + 1] = upper->bounds[0];
    rows->branch_count++;
    return true;
}

// Puts two leaves of these entries in place of one. The branch has room.
static bool split_leaf(struct gw_id_branch *branch, uint32_t at, const struct entries *all)
{
    const uint64_t less = branch->bounds[at];
    uint32_t half = all->count / 2;
    base_assert(branch->count < BRANCH_MAX && half > 0);
    struct leaf *lower = leaf_new(all, 0, half, 0);
    struct leaf *upper = leaf_new(all, half, all->count - half, all->ids[half]);
    if (lower == NULL || upper == NULL) {
        free(lower);
        free(upper);
        return false;
    }
    uint32_t behind = branch->count - at - 1;
    memmove(branch->leaves + at + 2, branch->leaves + at + 1, behind * sizeof(branch->leaves[0]));
    memmove(branch->bounds + at + 2, branch->bounds + at + 1, behind * sizeof(branch->bounds[0]));
    free(branch->leaves[at]);
    branch->leaves[at] = lower;
    branch->leaves[at + 1] = upper;
    branch->bounds[at + 1] = less + all->ids[half];
    branch->count++;
    return true;
}

// The leaf of a place that has none for this id or row, anew with one. False: no memory.
static bool make_anew(struct gw_id_rows *rows, const struct place *place, uint64_t id, uint64_t row)
{
    struct gw_id_branch *branch = rows->branches[place->branch];
    struct entries all;
    leaf_read(branch->leaves[place->leaf], &all);
    if (place->found) {
        all.rows[place->at] = row;
    } else {
        entries_insert(&all, place->at, id - branch->bounds[place->leaf], row);
    }
    if (all.count > LEAF_MAX) {
        return split_leaf(branch, place->leaf, &all);
    }
    struct leaf *leaf = leaf_new(&all, 0, all.count, 0);
    if (leaf == NULL) {
        return false;
    }
    free(branch->leaves[place->leaf]);
    branch->leaves[place->leaf] = leaf;
    return true;
}

// A few places more.
static bool leaf_grow(struct leaf **leaf)
{
    const size_t room = (size_t)(*leaf)->room + LEAF_STEP;
    struct leaf *larger = realloc(*leaf, leaf_bytes(room, leaf_stride(*leaf)));
    if (larger == NULL) {
        return false;
    }
    base_assert(room <= LEAF_MAX);
    larger->room = (uint16_t)room;
    *leaf = larger;
    return true;
}

// Can the leaf of a place have one for this id and row, with all its numbers as they are?
static bool fits(const struct leaf *leaf, const struct place *place, uint64_t rest, uint64_t row)
{
    return width_of(row) <= leaf->row_bytes &&
           (place->found || (leaf->count < LEAF_MAX && width_of(rest) <= leaf->id_bytes));
}

enum base_status gw_id_rows_prepare(struct gw_id_rows *rows, uint64_t id, uint64_t row)
{
    struct place place;
    if (!begin(rows)) {
        return BASE_ERR_NOMEM;
    }
    find(rows, id, &place);
    struct gw_id_branch *branch = rows->branches[place.branch];
    struct leaf **leaf = &branch->leaves[place.leaf];
    const uint64_t rest = id - branch->bounds[place.leaf];
    if (fits(*leaf, &place, rest, row)) {
        if (!place.found && (*leaf)->count == (*leaf)->room && !leaf_grow(leaf)) {
            return BASE_ERR_NOMEM;
        }
        if (!place.found) {
            leaf_insert(*leaf, place.at, rest);
        }
        return BASE_OK;
    }
    if (branch->count == BRANCH_MAX && !split_branch(rows, place.branch)) {
        return BASE_ERR_NOMEM;
    }
    find(rows, id, &place);
    const uint64_t before = place.found ? gw_id_rows_get(rows, id) : 0;
    if (!make_anew(rows, &place, id, row)) {
        return BASE_ERR_NOMEM;
    }
    find(rows, id, &place);
    base_assert(place.found);
    leaf_set_row(rows->branches[place.branch]->leaves[place.leaf], place.at, before);
    return BASE_OK;
}

uint64_t gw_id_rows_get(const struct gw_id_rows *rows, uint64_t id)
{
    struct place place;
    if (rows->branch_count == 0) {
        return 0;
    }
    find(rows, id, &place);
    return place.found ? leaf_row(rows->branches[place.branch]->leaves[place.leaf], place.at) : 0;
}

void gw_id_rows_set(struct gw_id_rows *rows, uint64_t id, uint64_t row)
{
    struct place place;
    base_assert(row > 0);
    find(rows, id, &place);
    base_check(place.found);
    struct leaf *leaf = rows->branches[place.branch]->leaves[place.leaf];
    rows->count += leaf_row(leaf, place.at) == 0;
    leaf_set_row(leaf, place.at, row);
}

// The bound of a branch's first leaf is the branch's, so that leaf stays.
static void drop_leaf(struct gw_id_branch *branch, uint32_t at)
{
    uint32_t behind = branch->count - at - 1;
    base_assert(at > 0 && branch->leaves[at]->count == 0);
    free(branch->leaves[at]);
    memmove(branch->leaves + at, branch->leaves + at + 1, behind * sizeof(branch->leaves[0]));
    memmove(branch->bounds + at, branch->bounds + at + 1, behind * sizeof(branch->bounds[0]));
    branch->count--;
}

// What a leaf has too much is given back. Without memory it keeps it.
static void shrink(struct leaf **leaf)
{
    struct entries all;
    if ((*leaf)->room < (*leaf)->count + 2 * LEAF_STEP) {
        return;
    }
    leaf_read(*leaf, &all);
    struct leaf *smaller = leaf_new(&all, 0, all.count, 0);
    if (smaller != NULL) {
        base_assert(smaller->room <= (*leaf)->room);
        free(*leaf);
        *leaf = smaller;
    }
}

static void remove_at(struct gw_id_rows *rows, const struct place *place)
{
    struct gw_id_branch *branch = rows->branches[place->branch];
    struct leaf *leaf = branch->leaves[place->leaf];
    size_t stride = leaf_stride(leaf);
    uint8_t *entry = leaf->bytes + place->at * stride;
    base_assert(place->at < leaf->count);
    rows->count -= leaf_row(leaf, place->at) != 0;
    memmove(entry, entry + stride, (leaf->count - place->at - 1) * stride);
    leaf->count--;
    if (leaf->count == 0 && place->leaf > 0) {
        drop_leaf(branch, place->leaf);
    } else {
        shrink(&branch->leaves[place->leaf]);
    }
}

void gw_id_rows_remove(struct gw_id_rows *rows, uint64_t id)
{
    struct place place;
    if (rows->branch_count == 0) {
        return;
    }
    find(rows, id, &place);
    if (place.found) {
        remove_at(rows, &place);
    }
}

void gw_id_rows_give_up(struct gw_id_rows *rows, uint64_t id)
{
    if (gw_id_rows_get(rows, id) == 0) {
        gw_id_rows_remove(rows, id);
    }
}

// ---- In order

static uint32_t chunk_place(const struct gw_id_chunk *chunk, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = chunk->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (chunk->ids[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
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
    uint32_t at = chunk_place(chunk, id);
    if (at < chunk->count && chunk->ids[at] == id) {
        return;
    }
    chunk->count -= chunk->count == GW_ID_CHUNK; // the largest falls out
    memmove(&chunk->ids[at + 1], &chunk->ids[at], (chunk->count - at) * sizeof(chunk->ids[0]));
    chunk->ids[at] = id;
    chunk->count++;
}

// To the next leaf. False: there is none.
static bool step(const struct gw_id_rows *rows, struct place *place)
{
    place->at = 0;
    place->leaf++;
    if (place->leaf == rows->branches[place->branch]->count) {
        place->leaf = 0;
        place->branch++;
    }
    return place->branch < rows->branch_count;
}

void gw_id_rows_next(const struct gw_id_rows *rows, uint64_t from, struct gw_id_chunk *out)
{
    struct place place;
    bool more = rows->branch_count > 0;
    out->count = 0;
    if (more) {
        find(rows, from, &place);
    }
    for (; more && out->count < GW_ID_CHUNK; more = step(rows, &place)) {
        const struct gw_id_branch *branch = rows->branches[place.branch];
        const struct leaf *leaf = branch->leaves[place.leaf];
        for (; place.at < leaf->count && out->count < GW_ID_CHUNK; place.at++) {
            if (leaf_row(leaf, place.at) != 0) {
                out->ids[out->count++] = branch->bounds[place.leaf] + leaf_id(leaf, place.at);
            }
        }
    }
}

size_t gw_id_rows_bytes(const struct gw_id_rows *rows)
{
    size_t bytes = rows->branch_room * (sizeof(rows->branches[0]) + sizeof(rows->bounds[0]));
    for (size_t b = 0; b < rows->branch_count; b++) {
        const struct gw_id_branch *branch = rows->branches[b];
        bytes += sizeof(*branch);
        for (uint32_t i = 0; i < branch->count; i++) {
            bytes += leaf_bytes(branch->leaves[i]->room, leaf_stride(branch->leaves[i]));
        }
    }
    return bytes;
}

// Ids rise, also from leaf to leaf, and as many as counted have rows.
bool gw_id_rows_validate(const struct gw_id_rows *rows)
{
    size_t count = 0;
    uint64_t least = 0;
    bool ok = rows->branch_count == 0 || rows->bounds[0] == 0;
    for (size_t b = 0; b < rows->branch_count; b++) {
        const struct gw_id_branch *branch = rows->branches[b];
        ok = ok && branch->count > 0 && branch->bounds[0] == rows->bounds[b];
        for (uint32_t i = 0; i < branch->count; i++) {
            const struct leaf *leaf = branch->leaves[i];
            ok = ok && branch->bounds[i] >= least && leaf->count <= leaf->room;
            for (uint32_t k = 0; k < leaf->count; k++) {
                uint64_t id = branch->bounds[i] + leaf_id(leaf, k);
                ok = ok && id >= least;
                least = id < UINT64_MAX ? id + 1 : id;
                count += leaf_row(leaf, k) != 0;
            }
        }
    }
    return ok && count == rows->count;
}
