// Handlers of devices: one, a list, the user it is bound to, and why it does or does not get a
// task. The table in api.c names them. `prepare` runs on the worker's thread, all the rest on the
// control thread, and views are fetched a batch at a time for a list. Whether the device is of the
// actor's tenant has been asked before, by api_guard.c.
#include "api/api_call.h"
#include "api/api_views.h"

#include "base/alloc.h"
#include "svc/rollout/catalog.h"
#include "svc/access/device_user.h"
#include "svc/device/devices.h"
#include "svc/reply.h"
#include "svc/rollout/device_views.h"

void gw_api_device_get(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_device_view view;
    enum base_status status = gw_device_get(core, call->id, &view);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "no such device");
        return;
    }
    json_t *outcomes = json_array();
    uint32_t shown = 0;
    for (uint32_t i = 0; i < view.outcome_count && i < GW_DEVICE_OUTCOMES_MAX; ++i) {
        const char *task = NULL;
        uint16_t tenant = 0;
        bool known = gw_catalog_rollout_owner(core, view.outcomes[i].rollout_id, &tenant, &task);
        // Of scenarios that are not the caller's nothing is told.
        if (known &&
            (tenant != call->actor.tenant || !gw_actor_covers(&call->actor, base_str_of(task)))) {
            continue;
        }
        char detail[WIRE_REPORT_DETAIL_MAX + 1];
        gw_device_failure(core, &view.outcomes[i], detail);
        (void)json_array_append_new(
            outcomes, gw_view_outcome(&view.outcomes[i], known ? task : NULL, detail));
        shown++;
    }
    json_t *root = gw_view_device(&view);
    (void)json_object_set_new(root, "user", gw_api_user_of(core, call));
    bool whole = json_array_size(outcomes) == shown;
    if (json_object_set_new(root, "outcomes", outcomes) != 0 || !whole) {
        json_decref(root);
        root = NULL;
    }
    gw_api_answer_take(call, 200, root);
}

void gw_api_device_list(struct gw_core *core, struct gw_api_call *call)
{
    const struct base_alloc_port *heap = base_alloc_heap();
    struct gw_device_view *views = heap->alloc(heap->ctx, GW_API_VIEWS_BATCH * sizeof(*views));
    bool has_after = call->after.size > 0;
    uint64_t after = call->after_id;
    uint32_t found = 0;
    uint32_t looked = 0;
    bool more = true;

    if (views == NULL) {
        gw_api_failed(core, call, BASE_ERR_NOMEM, NULL, NULL);
        return;
    }
    json_t *items = json_array();
    enum base_status status = BASE_OK;
    while (found < call->limit && more && status == BASE_OK && looked < GW_API_SCAN_MAX) {
        uint32_t ask = call->limit - found;
        struct gw_page page = {.limit = ask < GW_API_VIEWS_BATCH ? ask : GW_API_VIEWS_BATCH};
        status = gw_device_list(core, has_after, after, views, &page);
        more = page.more;
        if (status != BASE_OK || page.count == 0) {
            break;
        }
        for (uint32_t i = 0; i < page.count; ++i) {
            if (views[i].tenant == call->actor.tenant) {
                (void)json_array_append_new(items, gw_view_device(&views[i]));
                found++;
            }
        }
        after = views[page.count - 1].device_id;
        has_after = true;
        looked += page.count;
    }
    heap->release(heap->ctx, views);
    if (status != BASE_OK) {
        json_decref(items);
        gw_api_failed(core, call, status, NULL, NULL);
        return;
    }
    gw_api_page_take(call, items, found, more ? gw_json_hex(after) : NULL);
}

// ---- Whose a device is

json_t *gw_api_user_of(struct gw_core *core, const struct gw_api_call *call)
{
    char user[WIRE_SUBJECT_MAX + 1];

    return gw_device_user_get(core, call->actor.tenant, call->id, user) == BASE_OK
               ? json_string(user)
               : json_null();
}

// {"user": "ana"}, or null to unbind. The field must be there: to forget it is no wish.
bool gw_api_user_prepare(struct gw_api_call *call)
{
    static const char *const names[] = {"user", NULL};
    struct base_error error = {0};
    struct gw_json_at root;

    if (!gw_api_path_id(call)) {
        return false;
    }
    enum base_status status = gw_api_body(call, names, &root, &error);
    if (status == BASE_OK && json_object_get(root.object, "user") == NULL) {
        status = base_error_set(&error, BASE_ERR_INVALID, "user: missing; null unbinds");
    }
    if (status == BASE_OK) {
        status =
            gw_json_text(&root, gw_json_optional("user", WIRE_SUBJECT_MAX), &call->text, &error);
    }
    if (status == BASE_OK && !json_is_null(json_object_get(root.object, "user")) &&
        !wire_user_ok(call->text)) {
        status = base_error_set(&error, BASE_ERR_INVALID,
                                "user: 1 to %u of A-Z a-z 0-9 . _ @ + -, the first a letter or "
                                "digit",
                                WIRE_SUBJECT_MAX);
    }
    return status == BASE_OK || gw_api_fail(call, status, error.text);
}

void gw_api_device_user(struct gw_core *core, struct gw_api_call *call)
{
    enum base_status status = gw_device_user_set(core, call->actor.tenant, call->id, call->text);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "the change could not be stored");
        return;
    }
    gw_api_answer_take(
        call, 200,
        json_pack("{s:o, s:o}", "id", gw_json_hex(call->id), "user", gw_api_user_of(core, call)));
}

// ---- Why

bool gw_api_why_prepare(struct gw_api_call *call)
{
    const struct base_str query = gw_api_exchange(call)->request.query;
    const struct base_str prefix = BASE_STR("task=");

    if (wire_device_parse(call->segments[1], &call->id) != BASE_OK) {
        return gw_api_fail(call, BASE_ERR_INVALID, "path: an id is 16 lower-case hex digits");
    }
    if (!base_str_starts(query, prefix) ||
        !gw_api_decode(call, (struct base_str){query.data + prefix.size, query.size - prefix.size},
                       &call->text)) {
        return gw_api_fail(call, BASE_ERR_INVALID, "query: task=NAME is needed, and nothing else");
    }
    return true;
}

void gw_api_device_why(struct gw_core *core, struct gw_api_call *call)
{
    const struct base_alloc_port *heap = base_alloc_heap();
    struct gw_why_view *view = heap->alloc(heap->ctx, sizeof(*view));
    struct base_error error = {0};

    if (view == NULL) {
        gw_api_failed(core, call, BASE_ERR_NOMEM, NULL, NULL);
        return;
    }
    if (!gw_api_sees_task(core, call, call->text)) {
        heap->release(heap->ctx, view);
        gw_api_failed(core, call, BASE_ERR_NOT_FOUND, NULL, "no such task");
        return;
    }
    enum base_status status = gw_device_why(core, call->id, call->text, view, &error);
    if (status == BASE_OK) {
        gw_api_answer_take(call, 200, gw_view_why(view));
    } else {
        gw_api_failed(core, call, status, &error, NULL);
    }
    heap->release(heap->ctx, view);
}
