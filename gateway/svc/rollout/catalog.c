// Tasks and versions. Control thread; see catalog.h.
//
//   task row    := u8 version(3), u64 created_s, u64 release_counter,
//                  (version 2: u64 that says nothing,) u16 tenant, u8 name_size, name
//   version row := u8 version(2), u64 created_s, u64 manifest_bytes, u32 file_count,
//                  u64 files_bytes, u32 subjects, u8 text_size, text
#include "svc/rollout/catalog.h"

#include "svc/core_private.h"

#include "base/cursor.h"
#include "pipeline/declaration_check.h"
#include "pipeline/pipeline.h"
#include "policy/bucket.h"
#include "svc/content/blob.h"
#include "svc/content/exclusive.h"
#include "svc/content/tunnel_dicts.h"
#include "svc/tunnel_seam.h"
#include "svc/access/audit.h"
#include "svc/access/operators.h"
#include "svc/rollout/catalog_private.h"
#include "svc/trust/director.h"
#include "wire/leaves/leaves_check.h"

#include <stdlib.h>
#include <string.h>

#define ROW_VERSION   2
#define TASK_VERSION  3
#define TASK_OLDEST   2
#define ROW_BYTES_MAX 256

// ---- Arrays in memory, ascending by id

static uint32_t task_position(const struct gw_catalog *catalog, uint64_t task_id)
{
    uint32_t low = 0;
    uint32_t high = catalog->task_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (catalog->tasks[middle]->task_id < task_id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint32_t rollout_position(const struct gw_catalog *catalog, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = catalog->rollout_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (catalog->rollouts[middle]->release->id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct gw_task *gw_catalog_find_task(struct gw_core *core, uint64_t task_id)
{
    uint32_t at = task_position(core->catalog, task_id);
    bool there = at < core->catalog->task_count && core->catalog->tasks[at]->task_id == task_id;
    return there ? core->catalog->tasks[at] : NULL;
}

struct gw_rollout *gw_catalog_find_rollout(struct gw_core *core, uint64_t id)
{
    uint32_t at = rollout_position(core->catalog, id);
    bool there =
        at < core->catalog->rollout_count && core->catalog->rollouts[at]->release->id == id;
    return there ? core->catalog->rollouts[at] : NULL;
}

static bool reserve(void **items, uint32_t count, uint32_t *capacity)
{
    if (count < *capacity) {
        return true;
    }
    uint32_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *grown = realloc(*items, wanted * sizeof(void *));
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}

static enum base_status insert_task(struct gw_core *core, struct gw_task *task)
{
    struct gw_catalog *catalog = core->catalog;
    if (!reserve((void **)&catalog->tasks, catalog->task_count, &catalog->task_capacity)) {
        return BASE_ERR_NOMEM;
    }
    uint32_t at = task_position(catalog, task->task_id);
    memmove(&catalog->tasks[at + 1], &catalog->tasks[at],
            (catalog->task_count - at) * sizeof(catalog->tasks[0]));
    catalog->tasks[at] = task;
    task->slot = catalog->slot_count++;
    catalog->task_count++;
    return BASE_OK;
}

enum base_status gw_catalog_insert_rollout(struct gw_core *core, struct gw_rollout *rollout)
{
    struct gw_catalog *catalog = core->catalog;
    if (!reserve((void **)&catalog->rollouts, catalog->rollout_count, &catalog->rollout_capacity)) {
        return BASE_ERR_NOMEM;
    }
    uint32_t at = rollout_position(catalog, rollout->release->id);
    memmove(&catalog->rollouts[at + 1], &catalog->rollouts[at],
            (catalog->rollout_count - at) * sizeof(catalog->rollouts[0]));
    catalog->rollouts[at] = rollout;
    catalog->rollout_count++;
    return BASE_OK;
}

void gw_catalog_remove_rollout(struct gw_core *core, struct gw_rollout *rollout)
{
    struct gw_catalog *catalog = core->catalog;
    uint32_t at = rollout_position(catalog, rollout->release->id);
    if (at < catalog->rollout_count && catalog->rollouts[at] == rollout) {
        catalog->rollout_count--;
        memmove(&catalog->rollouts[at], &catalog->rollouts[at + 1],
                (catalog->rollout_count - at) * sizeof(catalog->rollouts[0]));
    }
}

enum base_status gw_catalog_new(struct gw_catalog **out_catalog)
{
    *out_catalog = calloc(1, sizeof(**out_catalog));
    return *out_catalog != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

void gw_catalog_free(struct gw_catalog *catalog)
{
    for (uint32_t i = 0; catalog != NULL && i < catalog->rollout_count; i++) {
        gw_release_unref(catalog->rollouts[i]->release);
        free(catalog->rollouts[i]);
    }
    for (uint32_t i = 0; catalog != NULL && i < catalog->task_count; i++) {
        free(catalog->tasks[i]);
    }
    if (catalog != NULL) {
        free(catalog->rollouts);
        free(catalog->tasks);
        free(catalog);
    }
}

// ---- Rows

size_t gw_task_encode(const struct gw_task *task, uint8_t *out, size_t capacity)
{
    struct base_writer writer;
    size_t name_size = strlen(task->name);
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, TASK_VERSION);
    base_writer_u64(&writer, task->created_s);
    base_writer_u64(&writer, task->release_counter);
    base_writer_u16(&writer, task->tenant);
    base_writer_u8(&writer, (uint8_t)name_size);
    base_writer_bytes(&writer, task->name, name_size);
    return base_writer_size(&writer);
}

// Which rollouts it has is known when these are loaded.
static bool load_task(void *ctx, struct base_span key, struct base_span value)
{
    struct gw_core *core = ctx;
    struct gw_task *task = calloc(1, sizeof(*task));
    if (task == NULL) {
        return false;
    }
    struct base_reader reader;
    base_reader_init(&reader, value.data, value.size);
    uint8_t version = base_reader_u8(&reader);
    task->created_s = base_reader_u64(&reader);
    task->release_counter = base_reader_u64(&reader);
    if (version == TASK_OLDEST) {
        (void)base_reader_u64(&reader);
    }
    task->tenant = base_reader_u16(&reader);
    size_t size = base_reader_u8(&reader);
    bool ok = version >= TASK_OLDEST && version <= TASK_VERSION && size <= WIRE_TASK_NAME_MAX;
    if (ok) {
        base_reader_copy(&reader, task->name, size);
    }
    ok = ok && base_reader_finish(&reader) == BASE_OK &&
         gw_key_read_u64(key.data, key.size, 0, &task->task_id);
    if (!ok || insert_task(core, task) != BASE_OK) {
        atomic_fetch_add_explicit(&core->reports.records_corrupt, 1, memory_order_relaxed);
        free(task);
    }
    return true;
}

enum base_status gw_catalog_load(struct gw_core *core, struct base_error *error)
{
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    struct gw_key from = gw_key_u64(0);
    enum base_status status = gw_store_read_scan(read, GW_TABLE_TASKS, &from, load_task, core);
    gw_store_read_end(read);
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "cannot load the tasks: %s",
                                              base_status_text(status));
}

struct put_op {
    struct gw_store_op op;
    enum gw_table table;
    struct gw_key key;
    const uint8_t *row;
    size_t size;
};

static enum base_status put_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct put_op *put = (struct put_op *)self;
    return gw_store_txn_put(txn, put->table, &put->key, put->row, put->size);
}

static enum base_status put_row(struct gw_core *core, enum gw_table table, struct gw_key key,
                                const uint8_t *row, size_t size)
{
    struct put_op put = {.table = table, .key = key, .row = row, .size = size};
    put.op.apply = put_apply;
    return gw_audit_submit_wait(core, &put.op);
}

// ---- Tasks

static void view_task(struct gw_core *core, const struct gw_task *task, struct gw_task_view *out)
{
    memset(out, 0, sizeof(*out));
    memcpy(out->name, task->name, sizeof(out->name));
    out->task_id = task->task_id;
    out->tenant = task->tenant;
    out->release_counter = task->release_counter;
    out->created_s = task->created_s;
    out->open_count = task->open_count;
    for (uint32_t i = 0; i < task->open_count; i++) {
        out->open_rollouts[i] = task->open[i]->release->id;
    }
    out->open_rollout = task->open_count > 0 ? out->open_rollouts[0] : 0;
    const struct gw_rollout *baseline = gw_task_baseline(core, task);
    if (baseline != NULL) {
        struct gw_version_view version;
        out->baseline_rollout = baseline->release->id;
        out->baseline_manifest = baseline->release->manifest;
        if (gw_catalog_version_get(core, base_str_of(task->name), &out->baseline_manifest,
                                   &version) == BASE_OK) {
            memcpy(out->baseline_version, version.version, sizeof(out->baseline_version));
        }
    }
}

static enum base_status place_for_task(struct gw_core *core, uint16_t tenant,
                                       struct base_error *error)
{
    struct gw_tenant_holding holding = {
        .tenant = tenant, .what = "tasks", .max = GW_TASKS_MAX, .all = core->catalog->task_count};
    for (uint32_t i = 0; i < core->catalog->task_count; i++) {
        holding.own += core->catalog->tasks[i]->tenant == tenant;
    }
    return gw_tenant_may_add(&holding, error);
}

enum base_status gw_catalog_task_create(struct gw_core *core, uint16_t tenant, struct base_str name,
                                        bool *out_created, struct base_error *error)
{
    const char *fault = wire_task_name_fault(name);
    if (fault != NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "name: it %s", fault);
    }
    uint64_t task_id = wire_task_id(name);
    const struct gw_task *known = gw_catalog_find_task(core, task_id);
    if (known != NULL) {
        if (!base_str_equal(base_str_of(known->name), name)) {
            return base_error_set(error, BASE_ERR_CONFLICT, "name: its id collides with task %s",
                                  known->name);
        }
        if (known->tenant != tenant) {
            return base_error_set(error, BASE_ERR_CONFLICT, "name: taken on this gateway");
        }
        *out_created = false;
        return BASE_OK;
    }
    BASE_TRY(place_for_task(core, tenant, error));
    struct gw_task *task = calloc(1, sizeof(*task));
    if (task == NULL) {
        return BASE_ERR_NOMEM;
    }
    task->task_id = task_id;
    task->tenant = tenant;
    task->created_s = gw_core_now_s(core);
    memcpy(task->name, name.data, name.size);
    uint8_t row[ROW_BYTES_MAX];
    size_t size = gw_task_encode(task, row, sizeof(row));
    enum base_status status = put_row(core, GW_TABLE_TASKS, gw_key_u64(task_id), row, size);
    if (status == BASE_OK) {
        status = insert_task(core, task);
    }
    if (status != BASE_OK) {
        free(task);
        return base_error_set(error, status, "the task could not be stored: %s",
                              base_status_text(status));
    }
    *out_created = true;
    return BASE_OK;
}

enum base_status gw_catalog_task_get(struct gw_core *core, struct base_str name,
                                     struct gw_task_view *out)
{
    const struct gw_task *task = gw_catalog_find_task(core, wire_task_id(name));
    if (task == NULL || !base_str_equal(base_str_of(task->name), name)) {
        return BASE_ERR_NOT_FOUND;
    }
    view_task(core, task, out);
    return BASE_OK;
}

bool gw_catalog_task_owner(struct gw_core *core, struct base_str name, uint16_t *out_tenant)
{
    const struct gw_task *task = gw_catalog_find_task(core, wire_task_id(name));
    if (task == NULL || !base_str_equal(base_str_of(task->name), name)) {
        return false;
    }
    *out_tenant = task->tenant;
    return true;
}

bool gw_catalog_rollout_owner(struct gw_core *core, uint64_t id, uint16_t *out_tenant,
                              const char **out_task)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    if (rollout == NULL) {
        return false;
    }
    *out_tenant = rollout->task->tenant;
    *out_task = rollout->task->name;
    return true;
}

void gw_catalog_task_list(struct gw_core *core, uint64_t after_id, struct gw_task_view *out,
                          struct gw_page *page)
{
    const struct gw_catalog *catalog = core->catalog;
    uint32_t at = after_id == 0 ? 0 : task_position(catalog, after_id);
    if (after_id != 0 && at < catalog->task_count && catalog->tasks[at]->task_id == after_id) {
        at++;
    }
    uint32_t limit = gw_page_room(page);
    uint32_t count = 0;
    for (; at < catalog->task_count && count < limit; at++) {
        view_task(core, catalog->tasks[at], &out[count++]);
    }
    page->count = count;
    page->more = at < catalog->task_count;
}

// ---- Versions

static enum base_status decode_version(struct base_span value, struct gw_version_view *out)
{
    struct base_reader reader;
    base_reader_init(&reader, value.data, value.size);
    uint8_t version = base_reader_u8(&reader);
    out->created_s = base_reader_u64(&reader);
    out->manifest_bytes = base_reader_u64(&reader);
    out->file_count = base_reader_u32(&reader);
    out->files_bytes = base_reader_u64(&reader);
    out->subjects = base_reader_u32(&reader);
    size_t size = base_reader_u8(&reader);
    if (version != ROW_VERSION || size > GW_VERSION_TEXT_MAX) {
        return BASE_ERR_CORRUPT;
    }
    memset(out->version, 0, sizeof(out->version));
    base_reader_copy(&reader, out->version, size);
    return base_reader_finish(&reader) == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}

static size_t encode_version(const struct gw_version_view *view, uint8_t *out, size_t capacity)
{
    struct base_writer writer;
    size_t size = strlen(view->version);
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, ROW_VERSION);
    base_writer_u64(&writer, view->created_s);
    base_writer_u64(&writer, view->manifest_bytes);
    base_writer_u32(&writer, view->file_count);
    base_writer_u64(&writer, view->files_bytes);
    base_writer_u32(&writer, view->subjects);
    base_writer_u8(&writer, (uint8_t)size);
    base_writer_bytes(&writer, view->version, size);
    return base_writer_size(&writer);
}

enum base_status gw_catalog_version_get(struct gw_core *core, struct base_str task,
                                        const struct wire_sha256 *manifest,
                                        struct gw_version_view *out)
{
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    struct gw_key key = gw_key_u64_sha(wire_task_id(task), manifest);
    struct base_span value;
    enum base_status status = gw_store_read_get(read, GW_TABLE_VERSIONS, &key, &value);
    if (status == BASE_OK) {
        status = decode_version(value, out);
    }
    gw_store_read_end(read);
    out->manifest = *manifest;
    out->version_id = wire_version_id(manifest);
    return status;
}

struct version_list {
    uint64_t task_id;
    const struct wire_sha256 *after;
    struct gw_version_view *out;
    uint32_t limit;
    uint32_t count;
    bool more;
};

static bool list_version(void *ctx, struct base_span key, struct base_span value)
{
    struct version_list *list = ctx;
    uint64_t task_id;
    if (!gw_key_read_u64(key.data, key.size, 0, &task_id) || task_id != list->task_id ||
        key.size != 9 + WIRE_SHA256_BYTES) {
        return false;
    }
    if (list->after != NULL && memcmp(key.data + 9, list->after->bytes, WIRE_SHA256_BYTES) == 0) {
        return true;
    }
    if (list->count == list->limit) {
        list->more = true;
        return false;
    }
    struct gw_version_view *out = &list->out[list->count];
    if (decode_version(value, out) == BASE_OK) {
        memcpy(out->manifest.bytes, key.data + 9, WIRE_SHA256_BYTES);
        out->version_id = wire_version_id(&out->manifest);
        list->count++;
    }
    return true;
}

enum base_status gw_catalog_version_list(struct gw_core *core, struct base_str task,
                                         const struct wire_sha256 *after,
                                         struct gw_version_view *out, struct gw_page *page)
{
    struct version_list list = {
        .task_id = wire_task_id(task), .after = after, .out = out, .limit = gw_page_room(page)};
    if (gw_catalog_find_task(core, list.task_id) == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    struct wire_sha256 zero = {{0}};
    struct gw_key from = gw_key_u64_sha(list.task_id, after != NULL ? after : &zero);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status =
        gw_store_read_scan(read, GW_TABLE_VERSIONS, &from, list_version, &list);
    gw_store_read_end(read);
    if (status == BASE_OK) {
        page->count = list.count;
        page->more = list.more;
    }
    return status;
}

// Checks the manifest's content against the task and the blobs that are there.
static void *heap_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void heap_release(void *ctx, void *memory)
{
    (void)ctx;
    free(memory);
}

// Can a device afford what the version declares?
static enum base_status check_declaration(const struct wire_manifest *manifest,
                                          struct base_error *error)
{
    static const struct base_alloc_port heap = {.alloc = heap_alloc, .release = heap_release};
    struct wire_declaration declaration;
    if (manifest->declaration.size == 0) {
        return BASE_OK;
    }
    if (manifest->declaration.size > DEV_PIPELINE_DECLARATION_BYTES) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "declaration: %zu bytes, a device has %d for all of its tasks",
                              manifest->declaration.size, DEV_PIPELINE_DECLARATION_BYTES);
    }
    BASE_TRY(wire_declaration_parse((const uint8_t *)manifest->declaration.data,
                                    manifest->declaration.size, &declaration));
    enum base_status status = dev_declaration_check(&declaration, &heap, error);
    return status == BASE_ERR_LIMIT || status == BASE_ERR_TOO_LARGE
               ? base_error_set(error, BASE_ERR_INVALID, "%s", error->text)
               : status;
}

static enum base_status check_manifest(struct gw_core *core, struct gw_version_new *wish,
                                       const struct wire_manifest *manifest,
                                       struct gw_version_view *view, struct base_error *error)
{
    if (!base_str_equal(manifest->task_name, wish->task)) {
        return base_error_set(error, BASE_ERR_INVALID, "manifest: it is for task %.*s",
                              (int)manifest->task_name.size, manifest->task_name.data);
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        const struct wire_manifest_file *file = &manifest->files[i];
        uint64_t size;
        enum base_status status =
            gw_store_blob_held(core->store, GW_STORE_NOBODY, &file->digest, &size);
        if (status == BASE_ERR_NOT_FOUND) {
            if (count < wish->missing_capacity) {
                wish->missing[count] = file->digest;
            }
            count++;
        } else if (status != BASE_OK) {
            return status;
        } else if (size != file->bytes) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "manifest: file %.*s has %llu bytes, not %llu",
                                  (int)file->name.size, file->name.data, (unsigned long long)size,
                                  (unsigned long long)file->bytes);
        }
        view->files_bytes += file->bytes;
    }
    wish->missing_count = count < wish->missing_capacity ? count : wish->missing_capacity;
    if (count > 0) {
        return base_error_set(error, BASE_ERR_CONFLICT, "%u blobs are missing", count);
    }
    view->file_count = manifest->file_count;
    size_t size =
        manifest->version.size < GW_VERSION_TEXT_MAX ? manifest->version.size : GW_VERSION_TEXT_MAX;
    memset(view->version, 0, sizeof(view->version));
    if (size > 0) {
        memcpy(view->version, manifest->version.data, size);
    }
    return BASE_OK;
}

static enum base_status check_exclusive(struct gw_core *core, struct gw_version_new *wish,
                                        const struct wire_manifest *manifest,
                                        struct gw_version_view *view, struct base_error *error)
{
    const struct gw_task *task = gw_catalog_find_task(core, wire_task_id(wish->task));
    if (manifest->exclusive == WIRE_EXCLUSIVE_NONE) {
        return wire_sha256_is_zero(&wish->exclusive)
                   ? BASE_OK
                   : base_error_set(error, BASE_ERR_INVALID,
                                    "exclusive: the manifest names no exclusive files");
    }
    struct gw_exclusive_new exclusive = {.manifest = manifest,
                                         .list = wish->exclusive,
                                         .tenant = task->tenant,
                                         .missing = wish->missing,
                                         .missing_capacity = wish->missing_capacity};
    enum base_status status = gw_exclusive_add(core, &exclusive, error);
    wish->missing_count = exclusive.missing_count;
    view->subjects = exclusive.subjects;
    return status;
}

enum base_status gw_catalog_declare(struct gw_core *core, const struct wire_manifest *manifest,
                                    struct base_error *error)
{
    uint16_t tenant = 0;
    if (gw_core_tunnel(core) == NULL || manifest->declaration.size == 0) {
        return BASE_OK;
    }
    if (!gw_catalog_task_owner(core, manifest->task_name, &tenant)) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no such task");
    }
    return gw_core_declare_uploads(core, tenant, manifest, error);
}

static enum base_status add_version(struct gw_core *core, struct gw_version_new *wish,
                                    const struct gw_store_bytes *bytes,
                                    struct gw_version_view *view, struct base_error *error)
{
    struct wire_manifest *manifest = calloc(1, sizeof(*manifest));
    if (manifest == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = wire_manifest_parse(bytes->data, bytes->size, manifest);
    if (status != BASE_OK) {
        status = base_error_set(error, BASE_ERR_INVALID, "the blob is no manifest");
    } else {
        status = check_manifest(core, wish, manifest, view, error);
    }
    if (status == BASE_OK) {
        status = check_declaration(manifest, error);
    }
    if (status == BASE_OK && core->set.leaves_required &&
        !wire_leaves_declared(manifest->declaration)) {
        status = base_error_set(error, BASE_ERR_INVALID,
                                "the version does not say what may leave devices: task.json needs "
                                "\"leaves\" (task.leaves = required)");
    }
    if (status == BASE_OK) {
        status = check_exclusive(core, wish, manifest, view, error);
    }
    if (status == BASE_OK) {
        status = gw_tunnel_dicts_learn(core, manifest, error);
    }
    if (status == BASE_OK) {
        status = gw_catalog_declare(core, manifest, error);
    }
    free(manifest);
    BASE_TRY(status);
    view->created_s = gw_core_now_s(core);
    view->manifest_bytes = bytes->size;
    uint8_t row[ROW_BYTES_MAX];
    size_t size = encode_version(view, row, sizeof(row));
    return put_row(core, GW_TABLE_VERSIONS,
                   gw_key_u64_sha(wire_task_id(wish->task), &view->manifest), row, size);
}

enum base_status gw_catalog_manifest_load(struct gw_core *core, const struct wire_sha256 *manifest,
                                          struct gw_store_bytes *out)
{
    return gw_store_blob_load(core->store, manifest, out);
}

enum base_status gw_catalog_version_add(struct gw_core *core, struct gw_version_new *wish,
                                        struct gw_version_view *out, bool *out_created,
                                        struct base_error *error)
{
    wish->missing_count = 0;
    if (gw_catalog_find_task(core, wire_task_id(wish->task)) == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no such task");
    }
    if (gw_catalog_version_get(core, wish->task, &wish->manifest, out) == BASE_OK) {
        *out_created = false;
        return BASE_OK;
    }
    struct gw_store_bytes bytes;
    uint64_t size;
    enum base_status status =
        gw_store_blob_held(core->store, GW_STORE_NOBODY, &wish->manifest, &size);
    if (status == BASE_OK) {
        status = gw_store_blob_load(core->store, &wish->manifest, &bytes);
    }
    if (status == BASE_ERR_NOT_FOUND) {
        if (wish->missing_capacity > 0) {
            wish->missing[0] = wish->manifest;
            wish->missing_count = 1;
        }
        return base_error_set(error, BASE_ERR_CONFLICT, "the manifest's blob is missing");
    }
    BASE_TRY(status);
    memset(out, 0, sizeof(*out));
    out->manifest = wish->manifest;
    out->version_id = wire_version_id(&wish->manifest);
    status = add_version(core, wish, &bytes, out, error);
    gw_store_bytes_done(&bytes);
    if (status == BASE_OK) {
        *out_created = true;
    }
    return status;
}
