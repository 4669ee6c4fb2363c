// The dry run: POST /api/v1/rollouts/preview. The body is checked on the worker; the work is done
// on the background thread, so that a walk over all devices keeps no command waiting. api.c's table
// names the route as one for that thread; the walk is preview.c. The spec has an arena of its own,
// with a bound, that ends with the exchange's.
#include "api/api_call.h"
#include "api/api_views.h"
#include "api/stage_body.h"
#include "api/target_body.h"

#include "base/alloc.h"
#include "svc/plan/plan.h"
#include "svc/device/preview.h"
#include "svc/reply.h"

#include <string.h>

#define PREVIEW_ARENA_MAX (16u * 1024 * 1024)

static enum base_status parse_stages(const struct gw_json_at *at, struct base_arena *arena,
                                     struct gw_preview_spec *out, struct base_error *error)
{
    const json_t *list = NULL;

    BASE_TRY(gw_json_array(at, gw_json_optional("stages", POL_STAGES_MAX), &list, error));
    size_t count = list != NULL ? json_array_size(list) : 0;
    struct pol_stage *stages = base_arena_zalloc(arena, (count + 1) * sizeof(*stages));
    if (stages == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; ++i) {
        struct gw_json_at item;
        BASE_TRY(gw_json_enter(at, "stages", i, &item, error));
        // The other members of a rollout's stage do not matter to who is meant.
        BASE_TRY(gw_stage_reach_parse(&item, arena, &stages[i], error));
    }
    out->stages = stages;
    out->stage_count = (uint32_t)count;
    return BASE_OK;
}

static void release_plan(void *ctx)
{
    gw_plan_unref(ctx);
}

// The task whose other rollouts matter, when the actor may see it; one that nobody knows has none.
// The plan lives as long as the exchange.
static enum base_status choose_task(const struct gw_api_call *call, struct base_str name,
                                    struct gw_preview_spec *out)
{
    if (name.size == 0 || !gw_actor_covers(&call->actor, name)) {
        return BASE_OK;
    }
    struct gw_plan *plan = gw_worker_plan_ref(call->control.worker);
    enum base_status status = base_arena_on_done(gw_api_exchange(call)->arena, release_plan, plan);
    if (status != BASE_OK) {
        gw_plan_unref(plan);
        return status;
    }
    const struct gw_plan_task *task = gw_plan_find(plan, wire_task_id(name));
    out->task = task != NULL && task->tenant == call->actor.tenant ? task : NULL;
    return BASE_OK;
}

static enum base_status parse_task(const struct gw_api_call *call, const struct gw_json_at *root,
                                   struct gw_preview_spec *out, struct base_error *error)
{
    struct base_str name = {NULL, 0};
    uint64_t priority = 0;

    if (json_object_get(root->object, "rollout") != NULL) {
        BASE_TRY(gw_json_id(root, "rollout", &out->self, error));
    }

    BASE_TRY(gw_json_text(root, gw_json_optional("task", WIRE_TASK_NAME_MAX), &name, error));
    BASE_TRY(gw_json_u64(root, gw_json_optional("priority", GW_PRIORITY_MAX), &priority, error));
    out->priority = (uint16_t)priority;
    return choose_task(call, name, out);
}

static enum base_status parse_preview(const struct gw_api_call *call, struct base_arena *arena,
                                      struct gw_preview_spec *out, struct base_error *error)
{
    static const char *const names[] = {"target", "stages",   "salt",    "arm",
                                        "task",   "priority", "rollout", NULL};
    const struct gw_request *request = &gw_api_exchange(call)->request;
    struct gw_json_at root;

    BASE_TRY(gw_json_parse(request->body, request->body_bytes, arena, &root, error));
    BASE_TRY(gw_json_only(&root, names, error));
    BASE_TRY(gw_target_parse(&root, "target", arena, &out->target, error));
    if (json_object_get(root.object, "salt") != NULL) {
        BASE_TRY(gw_json_id(&root, "salt", &out->salt, error));
    }
    BASE_TRY(gw_arm_parse(&root, &out->arm, error));
    BASE_TRY(parse_task(call, &root, out, error));
    return parse_stages(&root, arena, out, error);
}

static void release_arena(void *ctx)
{
    base_arena_done(ctx);
}

bool gw_api_preview_prepare(struct gw_api_call *call)
{
    const struct gw_exchange *exchange = gw_api_exchange(call);
    struct base_error error = {0};
    struct base_arena *own = base_arena_zalloc(exchange->arena, sizeof(*own));

    call->preview = base_arena_zalloc(exchange->arena, sizeof(*call->preview));
    if (own == NULL || call->preview == NULL) {
        return gw_api_fail(call, BASE_ERR_NOMEM, "out of memory");
    }
    call->preview->tenant = call->actor.tenant;
    base_arena_init(own, base_alloc_heap(), 0, PREVIEW_ARENA_MAX);
    enum base_status status = base_arena_on_done(exchange->arena, release_arena, own);
    if (status == BASE_OK) {
        status = parse_preview(call, own, call->preview, &error);
    }
    return status == BASE_OK ? gw_api_no_query(call) : gw_api_fail(call, status, error.text);
}

// ---- The answer

static json_t *stage_list(const struct gw_preview_spec *spec, const struct gw_preview *seen)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < spec->stage_count; ++i) {
        (void)json_array_append_new(list, json_pack("{s:s, s:f, s:I, s:I}", "kind",
                                                    pol_stage_kind_name(spec->stages[i].kind),
                                                    "percent", spec->stages[i].max_bucket / 100.0,
                                                    "devices", (json_int_t)seen->stages[i].devices,
                                                    "total", (json_int_t)seen->stages[i].total));
    }
    return list;
}

static json_t *segment_object(const struct gw_preview *seen)
{
    json_t *object = json_object();

    for (uint32_t i = 0; i < GW_PREVIEW_ATTRS; ++i) {
        const struct gw_preview_attr *attr = &seen->attrs[i];
        json_t *values = json_array();
        for (uint32_t k = 0; k < attr->count; ++k) {
            const struct gw_preview_value *value = &attr->values[k];
            (void)json_array_append_new(values, json_pack("{s:s, s:I, s:I}", "value", value->value,
                                                          "matched", (json_int_t)value->matched,
                                                          "known", (json_int_t)value->known));
        }
        (void)json_object_set_new(object, attr->name,
                                  json_pack("{s:o, s:I, s:I}", "values", values, "other",
                                            (json_int_t)attr->other_matched, "without",
                                            (json_int_t)attr->without_matched));
    }
    return object;
}

static json_t *reason_list(const struct gw_preview *seen)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < seen->reason_count; ++i) {
        const struct gw_preview_reason *reason = &seen->reasons[i];
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:I}", "reason", pol_reason_name(reason->reason),
                            "reason_text", pol_reason_text(reason->reason), "where", reason->text,
                            "devices", (json_int_t)reason->devices));
    }
    return list;
}

static json_t *unknown_list(const struct gw_preview *seen)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < seen->unknown_count; ++i) {
        const struct gw_reach_unknown *unknown = &seen->unknown[i];
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:i, s:s?}", "attribute", unknown->attr,
                                              "stage", (int)unknown->stage, "did_you_mean",
                                              unknown->like[0] != '\0' ? unknown->like : NULL));
    }
    return list;
}

// Those with devices.
static json_t *beside_list(const struct gw_preview_beside items[GW_TASK_OPEN_MAX])
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < GW_TASK_OPEN_MAX; ++i) {
        if (items[i].devices > 0) {
            (void)json_array_append_new(list, json_pack("{s:o, s:I}", "rollout",
                                                        gw_json_hex(items[i].rollout), "devices",
                                                        (json_int_t)items[i].devices));
        }
    }
    return list;
}

void gw_api_preview(struct gw_core *core, struct gw_api_call *call)
{
    const struct base_alloc_port *heap = base_alloc_heap();
    struct gw_preview *seen = heap->alloc(heap->ctx, sizeof(*seen));
    enum base_status status = BASE_ERR_NOMEM;

    if (seen != NULL) {
        status = gw_preview_run(core, call->preview, seen);
    }
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "the preview could not be made");
    } else {
        gw_api_answer_take(
            call, 200,
            json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:b, s:o, s:o, s:o, s:o, s:o}",
                      "devices", (json_int_t)seen->devices, "matched", (json_int_t)seen->matched,
                      "outside_arm", (json_int_t)seen->outside_arm, "elsewhere",
                      (json_int_t)seen->elsewhere, "followed", beside_list(seen->followed),
                      "waiting", beside_list(seen->waiting), "blocks", (json_int_t)seen->blocks,
                      "exact", call->preview->salt != 0, "stages", stage_list(call->preview, seen),
                      "segments", segment_object(seen), "unmatched", reason_list(seen), "unknown",
                      unknown_list(seen), "target", gw_view_target(&call->preview->target)));
    }
    heap->release(heap->ctx, seen);
}
