// The key-value port in memory with faults. Called by collective storage (device/pipeline,
// device/tunnel) in the simulator, in `walle task run` with events, in benchmarks and in tests; one
// thread each. Rows of a space lie sorted in one array, found by halves: stores here are small, and
// an order of their own is what scans need. A commit is applied whole or not at all, as a store's
// would be; running out of memory ends the program.
#include "mem/mem_kv.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static int compare(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    size_t least = a_size < b_size ? a_size : b_size;
    int order = least > 0 ? memcmp(a, b, least) : 0;
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

// Index of the first row with a key >= `key`.
static uint32_t lower(const struct mem_kv_space *space, const uint8_t *key, size_t key_size)
{
    uint32_t low = 0;
    uint32_t high = space->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct mem_kv_row *row = &space->rows[middle];
        if (compare(row->bytes, row->key_size, key, key_size) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct mem_kv_row *find(const struct mem_kv_space *space, const uint8_t *key,
                               size_t key_size)
{
    uint32_t at = lower(space, key, key_size);
    if (at == space->count || space->rows[at].key_size != key_size ||
        memcmp(space->rows[at].bytes, key, key_size) != 0) {
        return NULL;
    }
    return &space->rows[at];
}

static uint64_t row_bytes(const struct mem_kv_row *row)
{
    return row != NULL ? (uint64_t)row->key_size + row->value_size : 0;
}

static void row_delete(struct mem_kv *kv, struct mem_kv_space *space, struct mem_kv_row *row)
{
    uint32_t at = (uint32_t)(row - space->rows);
    kv->bytes -= row_bytes(row);
    free(row->bytes);
    space->count--;
    memmove(row, row + 1, (space->count - at) * sizeof(*row));
}

static void row_insert(struct mem_kv_space *space, uint32_t at)
{
    if (space->count == space->capacity) {
        space->capacity = space->capacity > 0 ? space->capacity * 2 : 8;
        struct mem_kv_row *rows = realloc(space->rows, space->capacity * sizeof(*rows));
        base_check(rows != NULL);
        space->rows = rows;
    }
    memmove(&space->rows[at + 1], &space->rows[at], (space->count - at) * sizeof(space->rows[0]));
    space->rows[at] = (struct mem_kv_row){0};
    space->count++;
}

static void apply(struct mem_kv *kv, const struct dev_kv_change *change)
{
    struct mem_kv_space *space = &kv->spaces[change->space];
    struct mem_kv_row *row = find(space, change->key, change->key_size);
    kv->changes++;
    if (change->value == NULL) {
        if (row != NULL) {
            row_delete(kv, space, row);
        }
        return;
    }
    if (row == NULL) {
        uint32_t at = lower(space, change->key, change->key_size);
        row_insert(space, at);
        row = &space->rows[at];
    }
    kv->bytes -= row_bytes(row);
    uint8_t *bytes = malloc((size_t)change->key_size + change->value_size);
    base_check(bytes != NULL);
    memcpy(bytes, change->key, change->key_size);
    if (change->value_size > 0) {
        memcpy(bytes + change->key_size, change->value, change->value_size);
    }
    free(row->bytes);
    *row = (struct mem_kv_row){bytes, change->key_size, change->value_size};
    kv->bytes += row_bytes(row);
}

static uint64_t bytes_after(const struct mem_kv *kv, const struct dev_kv_change *changes,
                            uint32_t count)
{
    uint64_t bytes = kv->bytes;
    for (uint32_t i = 0; i < count; i++) {
        const struct dev_kv_change *change = &changes[i];
        bytes -= row_bytes(find(&kv->spaces[change->space], change->key, change->key_size));
        bytes += change->value != NULL ? (uint64_t)change->key_size + change->value_size : 0;
    }
    return bytes;
}

static void check_changes(const struct dev_kv_change *changes, uint32_t count)
{
    base_check(count > 0);
    base_check(count <= DEV_KV_CHANGES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        base_check(changes[i].key_size > 0);
        for (uint32_t j = 0; j < i; j++) {
            base_check(changes[i].space != changes[j].space ||
                       compare(changes[i].key, changes[i].key_size, changes[j].key,
                               changes[j].key_size) != 0);
        }
    }
}

static enum base_status kv_commit(void *ctx, const struct dev_kv_change *changes, uint32_t count)
{
    struct mem_kv *kv = ctx;
    if (kv->killed) {
        return BASE_ERR_IO;
    }
    check_changes(changes, count);
    kv->commits++;
    kv->killed = kv->commits == kv->kill_at;
    bool fails = kv->commits == kv->fail_at || (kv->fail_from > 0 && kv->commits >= kv->fail_from);
    if (fails || (kv->killed && !kv->kill_applied)) {
        return fails ? kv->fail_status : BASE_ERR_IO;
    }
    if (kv->bytes_limit > 0 && bytes_after(kv, changes, count) > kv->bytes_limit) {
        return BASE_ERR_FULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        apply(kv, &changes[i]);
    }
    return kv->killed ? BASE_ERR_IO : BASE_OK;
}

static enum base_status kv_get(void *ctx, struct dev_kv_key key, void *out, size_t capacity,
                               size_t *out_size)
{
    struct mem_kv *kv = ctx;
    if (kv->killed) {
        return BASE_ERR_IO;
    }
    BASE_TRY(kv->read_status);
    kv->gets++;
    const struct mem_kv_row *row = find(&kv->spaces[key.space], key.data, key.size);
    if (row == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    *out_size = row->value_size;
    if (row->value_size > capacity) {
        return BASE_ERR_TOO_LARGE;
    }
    if (row->value_size > 0) {
        memcpy(out, row->bytes + row->key_size, row->value_size);
    }
    return BASE_OK;
}

static enum base_status kv_scan(void *ctx, const struct dev_kv_range *range, dev_kv_visit_fn visit,
                                void *visit_ctx)
{
    struct mem_kv *kv = ctx;
    if (kv->killed) {
        return BASE_ERR_IO;
    }
    BASE_TRY(kv->read_status);
    kv->scans++;
    const struct mem_kv_space *rows = &kv->spaces[range->space];
    size_t prefix_size = range->prefix_size;
    bool later = compare(range->from, range->from_size, range->prefix, prefix_size) > 0;
    uint32_t at = later ? lower(rows, range->from, range->from_size)
                        : lower(rows, range->prefix, prefix_size);
    for (; at < rows->count; at++) {
        const struct mem_kv_row *row = &rows->rows[at];
        if (row->key_size < prefix_size ||
            (prefix_size > 0 && memcmp(row->bytes, range->prefix, prefix_size) != 0) ||
            !visit(visit_ctx, row->bytes, row->key_size, row->bytes + row->key_size,
                   row->value_size)) {
            break;
        }
    }
    return BASE_OK;
}

void mem_kv_init(struct mem_kv *kv)
{
    memset(kv, 0, sizeof(*kv));
    kv->fail_status = BASE_ERR_IO;
}

static void clear(struct mem_kv *kv)
{
    for (unsigned i = 0; i < DEV_SPACE_COUNT; i++) {
        for (uint32_t r = 0; r < kv->spaces[i].count; r++) {
            free(kv->spaces[i].rows[r].bytes);
        }
        free(kv->spaces[i].rows);
        kv->spaces[i] = (struct mem_kv_space){0};
    }
    kv->bytes = 0;
}

void mem_kv_done(struct mem_kv *kv)
{
    clear(kv);
}

struct dev_kv_port mem_kv_port(struct mem_kv *kv)
{
    return (struct dev_kv_port){.ctx = kv, .commit = kv_commit, .get = kv_get, .scan = kv_scan};
}

void mem_kv_revive(struct mem_kv *kv)
{
    kv->fail_at = 0;
    kv->fail_from = 0;
    kv->kill_at = 0;
    kv->killed = false;
    kv->read_status = BASE_OK;
}

void mem_kv_copy(struct mem_kv *to, const struct mem_kv *from)
{
    clear(to);
    for (unsigned i = 0; i < DEV_SPACE_COUNT; i++) {
        for (uint32_t r = 0; r < from->spaces[i].count; r++) {
            const struct mem_kv_row *row = &from->spaces[i].rows[r];
            const struct dev_kv_change change = {
                .space = (enum dev_space)i,
                .key = row->bytes,
                .key_size = row->key_size,
                .value = row->bytes + row->key_size,
                .value_size = row->value_size,
            };
            apply(to, &change);
        }
    }
}

enum base_status mem_kv_damage(struct mem_kv *kv, enum dev_space space, const void *key,
                               size_t key_size, size_t at)
{
    struct mem_kv_row *row = find(&kv->spaces[space], key, key_size);
    if (row == NULL || at >= row->value_size) {
        return BASE_ERR_NOT_FOUND;
    }
    row->bytes[row->key_size + at] ^= 0x5a;
    return BASE_OK;
}
