// Handlers of devices. Control thread.
#include "api/api_call.h"
#include "api/api_views.h"

#include "base/alloc.h"
#include "svc/devices.h"
#include "svc/reply.h"

void gw_api_device_get(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_device_view view;
    enum base_status status = gw_device_get(core, call->id, &view);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "no such device");
        return;
    }
    json_t *outcomes = json_array();
    for (uint32_t i = 0; i < view.outcome_count && i < GW_DEVICE_OUTCOMES_MAX; ++i) {
        struct gw_rollout_view rollout;
        bool known = gw_rollout_get(core, view.outcomes[i].rollout_id, &rollout) == BASE_OK;
        (void)json_array_append_new(
            outcomes, gw_view_outcome(&view.outcomes[i], known ? rollout.task : NULL));
    }
    json_t *root = gw_view_device(&view);
    bool whole = json_array_size(outcomes) == view.outcome_count;
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
    uint32_t left = call->limit;
    bool more = true;

    if (views == NULL) {
        gw_api_failed(core, call, BASE_ERR_NOMEM, NULL, NULL);
        return;
    }
    json_t *items = json_array();
    enum base_status status = BASE_OK;
    while (left > 0 && more && status == BASE_OK) {
        uint32_t count = 0;
        uint32_t ask = left < GW_API_VIEWS_BATCH ? left : GW_API_VIEWS_BATCH;
        status = gw_device_list(core, has_after, after, ask, views, &count, &more);
        if (status != BASE_OK || count == 0) {
            break;
        }
        for (uint32_t i = 0; i < count; ++i) {
            (void)json_array_append_new(items, gw_view_device(&views[i]));
        }
        after = views[count - 1].device_id;
        has_after = true;
        left -= count;
    }
    heap->release(heap->ctx, views);
    if (status != BASE_OK) {
        json_decref(items);
        gw_api_failed(core, call, status, NULL, NULL);
        return;
    }
    gw_api_page_take(call, items, call->limit - left, more ? gw_json_hex(after) : NULL);
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
    enum base_status status = gw_device_why(core, call->id, call->text, view, &error);
    if (status == BASE_OK) {
        gw_api_answer_take(call, 200, gw_view_why(view));
    } else {
        gw_api_failed(core, call, status, &error, NULL);
    }
    heap->release(heap->ctx, view);
}
