// Handlers of blobs, tasks and versions. `prepare` on the worker, the rest on the control thread.
// The table in api.c names them. Exclusive files have routes of their own, for many small ones in
// one body too, because they are stored apart from blobs that anybody may fetch. A version that
// lacks blobs is answered with their names, at most GW_API_MISSING_MAX of them.
#include "api/api_call.h"
#include "api/api_views.h"
#include "api/declares_view.h"
#include "api/leaves_view.h"

#include "base/alloc.h"
#include "svc/content/blob.h"
#include "svc/rollout/catalog.h"
#include "svc/reply.h"
#include "wire/http_status.h"

#include <string.h>

// ---- Blobs

bool gw_api_blob_prepare(struct gw_api_call *call)
{
    if (wire_sha256_parse(call->segments[1], &call->digest) != BASE_OK) {
        return gw_api_fail(call, BASE_ERR_INVALID, "path: a blob is named by its SHA-256 in hex");
    }
    return gw_api_no_query(call);
}

static void put_blob(struct gw_core *core, struct gw_api_call *call, bool exclusive)
{
    const struct gw_request *request = &gw_api_exchange(call)->request;
    const struct gw_store_item item = {call->digest, request->body, request->body_bytes};
    struct base_error error = {0};
    bool created = false;
    enum base_status status =
        exclusive ? gw_blob_put_exclusive(core, call->actor.tenant, &item, &created, &error)
                  : gw_blob_put(core, &item, &created, &error);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "blob");
        return;
    }
    gw_api_answer_take(call, created ? 201 : 200,
                       json_pack("{s:s%, s:I}", "sha256", call->segments[1].data,
                                 call->segments[1].size, "bytes", (json_int_t)request->body_bytes));
}

void gw_api_blob_put(struct gw_core *core, struct gw_api_call *call)
{
    put_blob(core, call, false);
}

void gw_api_exclusive_put(struct gw_core *core, struct gw_api_call *call)
{
    put_blob(core, call, true);
}

// Many at once: a version with many subjects has many small files.
void gw_api_exclusive_pack(struct gw_core *core, struct gw_api_call *call)
{
    const struct gw_request *request = &gw_api_exchange(call)->request;
    struct base_error error = {0};
    struct gw_blob_pack pack = {0};
    enum base_status status = gw_blobs_put_exclusive(
        core, call->actor.tenant, (struct base_span){request->body, request->body_bytes}, &pack,
        &error);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "pack");
        return;
    }
    gw_api_answer_take(call, pack.created > 0 ? 201 : 200,
                       json_pack("{s:I, s:I}", "blobs", (json_int_t)pack.count, "stored",
                                 (json_int_t)pack.created));
}

// Did the tenant bring it, or is it for everybody? Content itself is not shown to operators.
void gw_api_exclusive_get(struct gw_core *core, struct gw_api_call *call)
{
    if (!gw_blob_held(core, call->actor.tenant, &call->digest)) {
        gw_api_failed(core, call, BASE_ERR_NOT_FOUND, NULL, "no such blob");
        return;
    }
    gw_api_answer_take(
        call, 200, json_pack("{s:s%}", "sha256", call->segments[1].data, call->segments[1].size));
}

// ---- Tasks

bool gw_api_task_prepare(struct gw_api_call *call)
{
    static const char *const names[] = {"name", NULL};
    struct base_error error = {0};
    struct gw_json_at root;
    enum base_status status = gw_api_body(call, names, &root, &error);

    if (status == BASE_OK) {
        status =
            gw_json_text(&root, gw_json_required("name", WIRE_TASK_NAME_MAX), &call->text, &error);
    }
    const char *fault = status == BASE_OK ? wire_task_name_fault(call->text) : NULL;
    if (fault != NULL) {
        status = base_error_set(&error, BASE_ERR_INVALID, "name: it %s", fault);
    }
    return status == BASE_OK ? gw_api_no_query(call) : gw_api_fail(call, status, error.text);
}

void gw_api_task_create(struct gw_core *core, struct gw_api_call *call)
{
    struct base_error error = {0};
    struct gw_task_view view;
    bool created = false;
    enum base_status status =
        gw_catalog_task_create(core, call->actor.tenant, call->text, &created, &error);

    if (status == BASE_OK) {
        status = gw_catalog_task_get(core, call->text, &view);
    }
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "task");
        return;
    }
    gw_api_answer_take(call, created ? 201 : 200, gw_view_task(&view));
}

bool gw_api_task_get_prepare(struct gw_api_call *call)
{
    const struct base_str query = gw_api_exchange(call)->request.query;
    const struct base_str prefix = BASE_STR("rollout=");

    if (!base_str_starts(query, prefix)) {
        return gw_api_no_query(call);
    }
    const struct base_str id = {query.data + prefix.size, query.size - prefix.size};
    if (wire_device_parse(id, &call->id) != BASE_OK) {
        return gw_api_fail(call, BASE_ERR_INVALID,
                           "query: rollout: an id is 16 lower-case hex digits");
    }
    return true;
}

void gw_api_task_get(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_task_view view;
    struct gw_floored floored;
    enum base_status status = gw_catalog_task_get(core, call->segments[1], &view);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "no such task");
        return;
    }
    status = gw_floored_of(core, view.task_id, call->id, &floored);
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "the task has no such rollout");
        return;
    }
    json_t *answer = gw_view_task(&view);
    (void)json_object_set_new(answer, "floored", gw_view_floored(&floored));
    gw_api_answer_take(call, 200, answer);
}

void gw_api_task_list(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_task_view views[GW_API_VIEWS_BATCH];
    json_t *items = json_array();
    uint64_t after = call->after_id;
    uint32_t found = 0;
    uint32_t looked = 0;
    bool more = true;

    while (found < call->limit && more && looked < GW_API_SCAN_MAX) {
        uint32_t ask = call->limit - found;
        struct gw_page page = {.limit = ask < GW_API_VIEWS_BATCH ? ask : GW_API_VIEWS_BATCH};
        gw_catalog_task_list(core, after, views, &page);
        for (uint32_t i = 0; i < page.count; ++i) {
            after = views[i].task_id;
            if (gw_api_sees_task(core, call, base_str_of(views[i].name))) {
                (void)json_array_append_new(items, gw_view_task(&views[i]));
                found++;
            }
        }
        looked += page.count;
        more = page.more;
    }
    gw_api_page_take(call, items, found, more ? gw_json_hex(after) : NULL);
}

// ---- Versions

bool gw_api_version_prepare(struct gw_api_call *call)
{
    static const char *const names[] = {"manifest", "exclusive", NULL};
    struct base_error error = {0};
    struct gw_json_at root;
    struct base_str manifest = {NULL, 0};
    struct base_str exclusive = {NULL, 0};
    enum base_status status = gw_api_body(call, names, &root, &error);

    if (status == BASE_OK) {
        status =
            gw_json_text(&root, gw_json_required("manifest", WIRE_SHA256_HEX), &manifest, &error);
    }
    if (status == BASE_OK && wire_sha256_parse(manifest, &call->digest) != BASE_OK) {
        status = base_error_set(&error, BASE_ERR_INVALID, "manifest: not a SHA-256 in hex");
    }
    if (status == BASE_OK) {
        status =
            gw_json_text(&root, gw_json_optional("exclusive", WIRE_SHA256_HEX), &exclusive, &error);
    }
    if (status == BASE_OK && exclusive.size > 0 &&
        wire_sha256_parse(exclusive, &call->exclusive) != BASE_OK) {
        status = base_error_set(&error, BASE_ERR_INVALID, "exclusive: not a SHA-256 in hex");
    }
    return status == BASE_OK ? gw_api_no_query(call) : gw_api_fail(call, status, error.text);
}

// 409 that names the blobs to put first.
static void answer_missing(struct gw_api_call *call, const struct wire_sha256 *missing,
                           uint32_t count)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < count; ++i) {
        char hex[WIRE_SHA256_HEX + 1];
        wire_sha256_hex(&missing[i], hex);
        (void)json_array_append_new(list, json_string(hex));
    }
    if (json_array_size(list) != count) {
        json_decref(list);
        gw_reply_busy(gw_api_exchange(call), 1);
        return;
    }
    gw_api_answer_take(call, 409,
                       json_pack("{s:s, s:s, s:i, s:s, s:o}", "type", "about:blank", "title",
                                 wire_status_title(409), "status", 409, "detail",
                                 "blobs are missing: put them, then register the version again",
                                 "missing", list));
    if (gw_api_exchange(call)->reply.status == 409) {
        gw_api_exchange(call)->reply.headers[0].value = BASE_STR("application/problem+json");
    }
}

void gw_api_version_add(struct gw_core *core, struct gw_api_call *call)
{
    struct wire_sha256 *missing =
        base_arena_alloc(gw_api_exchange(call)->arena, GW_API_MISSING_MAX * sizeof(*missing));
    struct base_error error = {0};
    struct gw_version_view view;
    bool created = false;
    struct gw_version_new wish = {.task = call->segments[1],
                                  .manifest = call->digest,
                                  .exclusive = call->exclusive,
                                  .missing = missing,
                                  .missing_capacity = missing != NULL ? GW_API_MISSING_MAX : 0};
    enum base_status status = gw_catalog_version_add(core, &wish, &view, &created, &error);

    if (status == BASE_ERR_CONFLICT && wish.missing_count > 0) {
        answer_missing(call, missing, wish.missing_count);
    } else if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "version");
    } else {
        gw_api_answer_take(call, created ? 201 : 200, gw_view_version(&view));
    }
}

bool gw_api_version_page(struct gw_api_call *call)
{
    if (!gw_api_paging(call)) {
        return false;
    }
    return call->after.size == 0 ||
           wire_sha256_parse(call->after, &call->after_digest) == BASE_OK ||
           gw_api_fail(call, BASE_ERR_INVALID, "query: after is a SHA-256 in hex");
}

void gw_api_version_list(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_version_view views[GW_API_VIEWS_BATCH];
    const struct wire_sha256 *after = call->after.size > 0 ? &call->after_digest : NULL;
    json_t *items = json_array();
    json_t *next = NULL;
    uint32_t left = call->limit;
    bool more = true;

    while (left > 0 && more) {
        struct gw_page page = {.limit = left < GW_API_VIEWS_BATCH ? left : GW_API_VIEWS_BATCH};
        enum base_status status =
            gw_catalog_version_list(core, call->segments[1], after, views, &page);
        if (status != BASE_OK) {
            json_decref(items);
            gw_api_failed(core, call, status, NULL, "no such task");
            return;
        }
        for (uint32_t i = 0; i < page.count; ++i) {
            json_t *item = gw_view_version(&views[i]);
            (void)json_object_set_new(item, "leaves", gw_view_leaves(core, &views[i].manifest));
            (void)json_array_append_new(items, item);
        }
        more = page.more;
        if (page.count == 0) {
            break;
        }
        call->after_digest = views[page.count - 1].manifest;
        after = &call->after_digest;
        left -= page.count;
    }
    if (more && after != NULL) {
        char hex[WIRE_SHA256_HEX + 1];
        wire_sha256_hex(after, hex);
        next = json_string(hex);
    }
    gw_api_page_take(call, items, call->limit - left, next);
}

bool gw_api_version_path(struct gw_api_call *call)
{
    if (wire_sha256_parse(call->segments[3], &call->digest) != BASE_OK) {
        return gw_api_fail(call, BASE_ERR_INVALID,
                           "path: a version is named by its manifest's SHA-256 in hex");
    }
    return gw_api_no_query(call);
}

void gw_api_version_get(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_version_view view;
    enum base_status status = gw_catalog_version_get(core, call->segments[1], &call->digest, &view);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "no such task or version");
        return;
    }
    struct gw_present present;
    gw_present_of(core, wire_task_id(call->segments[1]), &view.manifest, &present);
    json_t *answer = gw_view_version(&view);
    (void)json_object_set_new(answer, "present", gw_view_present(&present));
    (void)json_object_set_new(answer, "leaves", gw_view_leaves(core, &view.manifest));
    (void)json_object_set_new(answer, "declares", gw_view_declares(core, &view.manifest));
    gw_api_answer_take(call, 200, answer);
}
