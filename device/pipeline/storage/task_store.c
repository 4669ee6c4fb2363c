// Rows of walle.store: "store" and the task's id, big-endian, in DEV_SPACE_STATE. Called by the
// pipeline (a run's end, tasks that went) and by who starts runs (posix_query.c, vm_features.c), on
// the pipeline's thread. An image above a quarter of collect's buffer is a large value: the caller
// has a group open, which commits with its end.
#include "pipeline/storage/task_store.h"

#include "base/check.h"

#include <string.h>

#define KEY_PREFIX       "store"
#define KEY_PREFIX_BYTES 5
#define KEY_BYTES        (KEY_PREFIX_BYTES + 8)

static void key_make(uint64_t task_id, uint8_t key[KEY_BYTES])
{
    memcpy(key, KEY_PREFIX, KEY_PREFIX_BYTES);
    for (unsigned i = 0; i < 8; i++) {
        key[KEY_PREFIX_BYTES + i] = (uint8_t)(task_id >> (56 - 8 * i));
    }
}

static uint64_t key_task(const uint8_t *key)
{
    uint64_t task_id = 0;
    for (unsigned i = 0; i < 8; i++) {
        task_id = task_id << 8 | key[KEY_PREFIX_BYTES + i];
    }
    return task_id;
}

struct dev_task_store_of dev_task_store_of(struct base_str task, struct base_str declaration,
                                           const struct wire_sha256 *version)
{
    struct wire_declaration declared;
    bool per_version = declaration.size > 0 &&
                       wire_declaration_parse((const uint8_t *)declaration.data, declaration.size,
                                              &declared) == BASE_OK &&
                       declared.store_keep == WIRE_STORE_A_VERSION;
    return (struct dev_task_store_of){.task_id = wire_task_id(task),
                                      .per_version = per_version,
                                      .version = wire_version_id(version)};
}

enum base_status dev_task_store_load(struct dev_collect *collect,
                                     const struct dev_task_store_of *of,
                                     uint8_t out[WIRE_STORE_IMAGE_MAX], size_t *out_size)
{
    struct wire_store store;
    uint8_t key[KEY_BYTES];
    size_t size = 0;
    key_make(of->task_id, key);
    enum base_status status =
        dev_collect_get(collect, (struct dev_kv_key){DEV_SPACE_STATE, key, sizeof(key)}, out,
                        WIRE_STORE_IMAGE_MAX, &size);
    bool lost = status == BASE_ERR_NOT_FOUND || status == BASE_ERR_TOO_LARGE ||
                (status == BASE_OK && (wire_store_parse(out, size, &store) != BASE_OK ||
                                       (of->per_version && store.tag != of->version)));
    if (!lost && status != BASE_OK) {
        return status;
    }
    if (lost) {
        wire_store_init(&store, out, of->per_version ? of->version : 0);
    }
    *out_size = store.size;
    return BASE_OK;
}

enum base_status dev_task_store_save(struct dev_collect *collect, uint64_t now_us, uint64_t task_id,
                                     const struct wire_store *store)
{
    uint8_t key_bytes[KEY_BYTES];
    const struct dev_kv_key key = {DEV_SPACE_STATE, key_bytes, sizeof(key_bytes)};
    key_make(task_id, key_bytes);
    base_assert(store->size <= WIRE_STORE_IMAGE_MAX);
    if (store->keys == 0) {
        return dev_collect_delete(collect, now_us, key, true);
    }
    return dev_collect_put(collect, now_us, key, (struct base_span){store->bytes, store->size},
                           true);
}

// ---- Tasks that are gone

struct keeping {
    const uint64_t *task_ids;
    uint32_t count;
    uint64_t gone[DEV_TASK_STORES_MAX];
    uint32_t gone_count;
    uint32_t left;
};

static bool row_visit(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                      size_t value_size)
{
    struct keeping *keeping = ctx;
    (void)value, (void)value_size;
    if (key_size != KEY_BYTES) {
        return true;
    }
    uint64_t task_id = key_task(key);
    for (uint32_t i = 0; i < keeping->count; i++) {
        if (keeping->task_ids[i] == task_id) {
            keeping->left++;
            return true;
        }
    }
    if (keeping->gone_count == DEV_TASK_STORES_MAX) {
        keeping->left++; // at the next time
        return true;
    }
    keeping->gone[keeping->gone_count++] = task_id;
    return true;
}

enum base_status dev_task_store_keep(struct dev_collect *collect, uint64_t now_us,
                                     const uint64_t *task_ids, uint32_t count, uint32_t *out_left)
{
    struct keeping keeping = {.task_ids = task_ids, .count = count};
    const struct dev_kv_range rows = {
        .space = DEV_SPACE_STATE, .prefix = KEY_PREFIX, .prefix_size = KEY_PREFIX_BYTES};
    BASE_TRY(dev_collect_scan(collect, now_us, &rows, row_visit, &keeping));
    for (uint32_t i = 0; i < keeping.gone_count; i++) {
        uint8_t key[KEY_BYTES];
        key_make(keeping.gone[i], key);
        BASE_TRY(dev_collect_delete(collect, now_us,
                                    (struct dev_kv_key){DEV_SPACE_STATE, key, sizeof(key)}, true));
    }
    *out_left = keeping.left;
    return BASE_OK;
}
