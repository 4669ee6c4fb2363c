// What a phone would have to hold: POST /api/v1/rollouts/cost, and the note of an operator who
// accepts more than it can. `prepare` on the worker, the rest on the control thread. api.c's table
// names the route, and api_rollouts.c asks for the note when a rollout is made. The request has an
// arena of its own, with a bound, that ends with the exchange's; adding up is set_cost.c.
#include "api/api_call.h"
#include "api/target_body.h"

#include "base/alloc.h"
#include "base/text/str_cut.h"
#include "pipeline/pipeline.h"
#include "svc/reply.h"
#include "svc/rollout/set_cost.h"

#include <stdio.h>

#define COST_ARENA_MAX (16u * 1024 * 1024)

static enum base_status parse_cost(const uint8_t *bytes, size_t size, struct base_arena *arena,
                                   struct gw_set_cost_spec *out, struct base_error *error)
{
    static const char *const names[] = {"task", "manifest", "target", NULL};
    struct base_str manifest = {NULL, 0};
    struct gw_json_at root;

    BASE_TRY(gw_json_parse(bytes, size, arena, &root, error));
    BASE_TRY(gw_json_only(&root, names, error));
    BASE_TRY(gw_json_text(&root, gw_json_required("task", WIRE_TASK_NAME_MAX), &out->task, error));
    BASE_TRY(gw_json_text(&root, gw_json_required("manifest", WIRE_SHA256_HEX), &manifest, error));
    if (wire_sha256_parse(manifest, &out->manifest) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "manifest: not a SHA-256 in hex");
    }
    return gw_target_parse(&root, "target", arena, &out->target, error);
}

static void release_arena(void *ctx)
{
    base_arena_done(ctx);
}

bool gw_api_cost_prepare(struct gw_api_call *call)
{
    const struct gw_exchange *exchange = gw_api_exchange(call);
    struct base_error error = {0};
    struct base_arena *own = base_arena_zalloc(exchange->arena, sizeof(*own));

    call->cost = base_arena_zalloc(exchange->arena, sizeof(*call->cost));
    if (own == NULL || call->cost == NULL) {
        return gw_api_fail(call, BASE_ERR_NOMEM, "out of memory");
    }
    base_arena_init(own, base_alloc_heap(), 0, COST_ARENA_MAX);
    enum base_status status = base_arena_on_done(exchange->arena, release_arena, own);
    if (status == BASE_OK) {
        status = parse_cost(exchange->request.body, exchange->request.body_bytes, own, call->cost,
                            &error);
    }
    return status == BASE_OK ? gw_api_no_query(call) : gw_api_fail(call, status, error.text);
}

// ---- The answer

static json_t *cost_object(const struct dev_declaration_cost *cost)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "tasks", (json_int_t)cost->tasks, "patterns",
                     (json_int_t)cost->patterns, "declaration_bytes",
                     (json_int_t)cost->declaration_bytes, "work", (json_int_t)cost->work,
                     "trigger_bytes", (json_int_t)cost->trigger_bytes, "scratch_bytes",
                     (json_int_t)cost->scratch_bytes);
}

static json_t *budget_object(void)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i}", "tasks", DEV_PIPELINE_TASKS_MAX,
                     "declaration_bytes", DEV_PIPELINE_DECLARATION_BYTES, "work",
                     DEV_TRIGGER_WORK_MAX, "trigger_bytes", DEV_PIPELINE_TRIGGER_BYTES,
                     "scratch_bytes", DEV_PIPELINE_SCRATCH_BYTES);
}

static json_t *task_list(const struct gw_set_cost *cost)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < cost->listed; ++i) {
        const struct gw_set_cost_task *task = &cost->tasks[i];
        char manifest[WIRE_SHA256_HEX + 1];
        json_t *item = cost_object(&task->cost);
        wire_sha256_hex(&task->manifest, manifest);
        (void)json_object_set_new(item, "task", json_string(task->task));
        (void)json_object_set_new(item, "manifest", json_string(manifest));
        (void)json_object_set_new(item, "rollout",
                                  task->rollout != 0 ? gw_json_hex(task->rollout) : json_null());
        (void)json_array_append_new(list, item);
    }
    return list;
}

void gw_api_cost(struct gw_core *core, struct gw_api_call *call)
{
    const struct base_alloc_port *heap = base_alloc_heap();
    struct base_error error = {0};

    if (!gw_api_sees_task(core, call, call->cost->task)) {
        gw_api_failed(core, call, BASE_ERR_NOT_FOUND, NULL, "task: no such task");
        return;
    }
    struct gw_set_cost *cost = heap->alloc(heap->ctx, sizeof(*cost));
    enum base_status status =
        cost != NULL ? gw_set_cost_find(core, call->cost, cost, &error) : BASE_ERR_NOMEM;
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "cost");
    } else {
        gw_api_answer_take(call, 200,
                           json_pack("{s:b, s:b, s:s, s:o, s:o, s:o}", "declares", cost->declares,
                                     "fits", cost->fits, "why", cost->why, "tasks", task_list(cost),
                                     "sum", cost_object(&cost->sum), "budget", budget_object()));
    }
    heap->release(heap->ctx, cost);
}

// ---- The note

// Both texts in one, cut where a log line ends, but not within a character.
static struct base_str note(struct base_arena *arena, const struct gw_set_cost *cost,
                            struct base_str reason)
{
    char what[BASE_ERROR_TEXT_MAX];
    size_t room = reason.size + sizeof(what) + 32;
    char *text = base_arena_alloc(arena, room);

    if (text == NULL) {
        return reason;
    }
    gw_set_cost_text(cost, what);
    int size = snprintf(text, room, "[accepts cost: %s] %.*s", what, (int)reason.size, reason.data);
    const struct base_str whole = {text, (size_t)size};
    return (struct base_str){text, base_str_fit(whole, GW_LOG_REASON_MAX)};
}

void gw_api_note_cost(struct gw_core *core, struct gw_api_call *call)
{
    const struct base_alloc_port *heap = base_alloc_heap();
    const struct gw_rollout_spec *spec = &call->rollout.spec;
    const struct gw_set_cost_spec ask = {
        .task = spec->task, .manifest = spec->manifest, .target = spec->target};
    struct gw_set_cost *cost = heap->alloc(heap->ctx, sizeof(*cost));

    // What cannot be found out is not accepted: the rollout is then refused for the same reason.
    if (cost == NULL || gw_set_cost_find(core, &ask, cost, NULL) != BASE_OK) {
        call->rollout.spec.accept_cost = false;
    } else if (!cost->fits) {
        call->rollout.who.comment =
            note(gw_api_exchange(call)->arena, cost, call->rollout.who.comment);
    }
    heap->release(heap->ctx, cost);
}
