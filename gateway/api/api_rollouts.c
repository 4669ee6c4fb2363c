// Handlers of rollouts: creation, commands, the simulate stage's result, queries, the log.
// `prepare` on the worker, the rest on the control thread. The table in api.c names them; who the
// subject belongs to was asked before (api_guard.c), and what changes it runs inside api_change.c.
// Bodies are parsed by rollout_body.c and shown by api_views.c: here is what a request means, not
// what it looks like. A list looks at GW_API_SCAN_MAX rollouts at most for one page, which then may
// be short.
#include "api/api_call.h"
#include "api/api_views.h"

#include "base/alloc.h"
#include "svc/view/kill_list.h"
#include "svc/reply.h"
#include "svc/view/rollout_page.h"
#include "svc/rollout/rollouts.h"

#include <string.h>

// The most a body of GW_API_BODY_MAX becomes: every two bytes an operand, and some.
#define SPEC_ARENA_MAX (16u * 1024 * 1024)

_Static_assert(sizeof(struct pol_value) * (GW_API_BODY_MAX / 2) < SPEC_ARENA_MAX, "operands fit");

static void release_arena(void *ctx)
{
    base_arena_done(ctx);
}

// A specification may be larger than what a stream's arena holds: it gets one of its own, released
// with the exchange.
static struct base_arena *spec_arena(struct base_arena *arena)
{
    struct base_arena *own = base_arena_zalloc(arena, sizeof(*own));

    if (own == NULL) {
        return NULL;
    }
    base_arena_init(own, base_alloc_heap(), 0, SPEC_ARENA_MAX);
    return base_arena_on_done(arena, release_arena, own) == BASE_OK ? own : NULL;
}

bool gw_api_rollout_prepare(struct gw_api_call *call)
{
    const struct gw_exchange *exchange = gw_api_exchange(call);
    struct base_arena *arena = spec_arena(exchange->arena);
    struct base_error error = {0};

    if (arena == NULL) {
        return gw_api_fail(call, BASE_ERR_NOMEM, "out of memory");
    }
    enum base_status status = gw_rollout_body_parse(
        exchange->request.body, exchange->request.body_bytes, arena, &call->rollout, &error);

    if (status == BASE_OK && call->rollout.evidence != NULL &&
        call->route->subject == GW_API_ROLLOUT_NEW) {
        status = base_error_set(&error, BASE_ERR_INVALID,
                                "evidence: post it to the rollout's simulation, once it started");
    }
    return status == BASE_OK ? gw_api_no_query(call) : gw_api_fail(call, status, error.text);
}

// Who killed its version, when and why; null: nobody did, or it is off the list again.
static json_t *kill_of(struct gw_core *core, const struct gw_rollout_view *view)
{
    struct gw_kill_view kill;

    gw_kill_get(core, &view->manifest, &kill);
    return kill.is_killed ? json_pack("{s:o, s:o, s:o, s:I}", "by", gw_view_text(kill.by), "reason",
                                      gw_view_text(kill.reason), "time", gw_view_time(kill.time_us),
                                      "time_s", (json_int_t)(kill.time_us / 1000000u))
                          : json_null();
}

// For whom each stage is, as its target is told.
static void add_audiences(struct gw_core *core, const struct gw_rollout_view *view, json_t *root)
{
    size_t index;
    json_t *stage;

    json_array_foreach(json_object_get(root, "stages"), index, stage)
    {
        const struct pol_target *audience = gw_rollout_audience(core, view->id, (uint32_t)index);
        if (audience != NULL) {
            (void)json_object_set_new(stage, "audience", gw_view_target(audience));
        }
    }
}

// The rollout with its version's text, as the answer.
static void answer_rollout(struct gw_core *core, struct gw_api_call *call, int status,
                           const struct gw_rollout_view *view)
{
    struct gw_version_view version;
    bool known =
        gw_catalog_version_get(core, base_str_of(view->task), &view->manifest, &version) == BASE_OK;

    const struct pol_target *target = gw_rollout_target(core, view->id);
    json_t *root = gw_view_rollout(view, known ? version.version : NULL);

    if (root != NULL && target != NULL) {
        (void)json_object_set_new(root, "target", gw_view_target(target));
        add_audiences(core, view, root);
    }
    if (root != NULL) {
        (void)json_object_set_new(root, "kill", kill_of(core, view));
    }
    gw_api_answer_take(call, status, root);
    gw_api_etag(call, view->revision);
}

void gw_api_rollout_create(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_rollout_view view;
    struct base_error error = {0};

    if (call->rollout.spec.accept_cost) {
        gw_api_note_cost(core, call);
    }
    enum base_status status =
        gw_rollout_create(core, &call->rollout.spec, &call->rollout.who, &view, &error);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "rollout");
        return;
    }
    answer_rollout(core, call, 201, &view);
}

void gw_api_rollout_check(struct gw_core *core, struct gw_api_call *call)
{
    const struct gw_rollout_body *body = &call->rollout;
    struct base_error error = {0};

    if (!gw_api_sees_task(core, call, body->spec.task)) {
        gw_api_failed(core, call, BASE_ERR_NOT_FOUND, NULL, "task: no such task");
        return;
    }
    enum base_status status = gw_rollout_check(
        core, &body->spec, (struct base_span){body->evidence, body->evidence_bytes}, &error);
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "rollout");
        return;
    }
    gw_api_answer_take(call, 200, json_pack("{s:b}", "starts", 1));
}

void gw_api_rollout_get(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_rollout_view view;
    enum base_status status = gw_rollout_get(core, call->id, &view);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "no such rollout");
        return;
    }
    answer_rollout(core, call, 200, &view);
}

// ---- List

static bool sees_task(void *ctx, uint16_t tenant, struct base_str task)
{
    const struct gw_actor *actor = ctx;

    return tenant == actor->tenant && gw_actor_covers(actor, task);
}

static json_t *rollout_item(struct gw_core *core, uint64_t id)
{
    struct gw_rollout_view view;
    struct gw_version_view version;

    if (gw_rollout_get(core, id, &view) != BASE_OK) {
        return NULL;
    }
    bool known =
        gw_catalog_version_get(core, base_str_of(view.task), &view.manifest, &version) == BASE_OK;
    return gw_view_rollout(&view, known ? version.version : NULL);
}

// The beginning of an id, in hex: those from it with zeros behind to it with 'f's.
static bool take_prefix(struct gw_api_call *call, struct base_str value)
{
    char from[WIRE_DEVICE_HEX + 1];
    char to[WIRE_DEVICE_HEX + 1];

    if (value.size == 0 || value.size > WIRE_DEVICE_HEX) {
        return gw_api_fail(call, BASE_ERR_INVALID, "query: id is 1 to 16 hex digits");
    }
    memset(from, '0', WIRE_DEVICE_HEX);
    memset(to, 'f', WIRE_DEVICE_HEX);
    memcpy(from, value.data, value.size);
    memcpy(to, value.data, value.size);
    struct base_str texts[] = {{from, WIRE_DEVICE_HEX}, {to, WIRE_DEVICE_HEX}};
    return (wire_device_parse(texts[0], &call->ask.id_from) == BASE_OK &&
            wire_device_parse(texts[1], &call->ask.id_to) == BASE_OK) ||
           gw_api_fail(call, BASE_ERR_INVALID, "query: id is 1 to 16 lower-case hex digits");
}

static bool take_state(struct gw_api_call *call, struct base_str value)
{
    for (unsigned i = 0; i < POL_ROLLOUT_STATE_COUNT; ++i) {
        const char *name = pol_rollout_state_name((enum pol_rollout_state)i);
        if (base_str_equal(value, base_str_of(name))) {
            call->ask.has_state = true;
            call->ask.state = (enum pol_rollout_state)i;
            return true;
        }
    }
    return gw_api_fail(call, BASE_ERR_INVALID,
                       "query: state is draft, running, waiting_approval, paused, guarding, "
                       "rolling_back, rolled_back or completed");
}

static bool take_filter(struct gw_api_call *call, struct base_str name, struct base_str value,
                        bool *out_known)
{
    *out_known = true;
    if (base_str_equal(name, BASE_STR("id"))) {
        return take_prefix(call, value);
    }
    if (base_str_equal(name, BASE_STR("state"))) {
        return take_state(call, value);
    }
    if (base_str_equal(name, BASE_STR("task"))) {
        return gw_api_decode(call, value, &call->ask.task) ||
               gw_api_fail(call, BASE_ERR_INVALID, "query: task is not a name");
    }
    *out_known = false;
    return base_str_equal(name, BASE_STR("limit")) || base_str_equal(name, BASE_STR("after")) ||
           gw_api_unknown(call, name, "the parameters are limit, after, id, state and task");
}

bool gw_api_rollout_list_prepare(struct gw_api_call *call)
{
    if (!gw_api_paging_with(call, take_filter)) {
        return false;
    }
    return call->after.size == 0 || wire_device_parse(call->after, &call->after_id) == BASE_OK ||
           gw_api_fail(call, BASE_ERR_INVALID, "query: after is 16 lower-case hex digits");
}

void gw_api_rollout_list(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_rollout_page page;

    call->ask.sees = sees_task;
    call->ask.ctx = &call->actor;
    call->ask.after = call->after_id;
    call->ask.limit = call->limit;
    if (gw_rollout_page(core, &call->ask, &page) != BASE_OK) {
        gw_reply_problem(gw_api_exchange(call), 400, "query: after: no such rollout");
        return;
    }
    json_t *items = json_array();
    for (uint32_t i = 0; i < page.count; ++i) {
        (void)json_array_append_new(items, rollout_item(core, page.ids[i]));
    }
    gw_api_page_take(call, items, page.count,
                     page.more ? gw_json_hex(page.ids[page.count - 1]) : NULL);
}

// ---- Log

bool gw_api_log_prepare(struct gw_api_call *call)
{
    if (wire_device_parse(call->segments[1], &call->id) != BASE_OK) {
        return gw_api_fail(call, BASE_ERR_INVALID, "path: an id is 16 lower-case hex digits");
    }
    if (!gw_api_paging(call)) {
        return false;
    }
    return call->after.size == 0 || base_str_u64(call->after, &call->after_id) == BASE_OK ||
           gw_api_fail(call, BASE_ERR_INVALID, "query: after is the number of a log line");
}

struct log_page {
    struct gw_rollout_log_view views[GW_API_VIEWS_BATCH];
    struct gw_view_names names;
    json_t *items;
    uint64_t after;
    uint32_t left;
    uint32_t slices; // in the lines so far
    bool more;
};

// Adds lines while there is room; those of slices are long, so many of them end a page early.
static enum base_status fill_page(struct gw_core *core, uint64_t id, struct log_page *page)
{
    while (page->left > 0 && page->more) {
        struct gw_page lines = {.limit = page->left < GW_API_VIEWS_BATCH ? page->left
                                                                         : GW_API_VIEWS_BATCH};
        BASE_TRY(gw_rollout_log(core, id, page->after, page->views, &lines));
        page->more = lines.more;
        for (uint32_t i = 0; i < lines.count; ++i) {
            if (page->slices > GW_API_LOG_SLICES_MAX) {
                page->more = true;
                return BASE_OK;
            }
            (void)json_array_append_new(page->items, gw_view_log(&page->views[i], &page->names));
            page->after = page->views[i].seq;
            page->slices += page->views[i].record.slices.failing_count;
            page->left--;
        }
        if (lines.count == 0) {
            break;
        }
    }
    return BASE_OK;
}

void gw_api_rollout_log(struct gw_core *core, struct gw_api_call *call)
{
    const struct base_alloc_port *heap = base_alloc_heap();
    struct log_page *page = heap->alloc(heap->ctx, sizeof(*page));

    if (page == NULL) {
        gw_api_failed(core, call, BASE_ERR_NOMEM, NULL, NULL);
        return;
    }
    page->items = json_array();
    page->after = call->after_id;
    page->left = call->limit;
    page->slices = 0;
    page->more = true;
    page->names.count = gw_rollout_segment_names(core, call->id, page->names.items);
    enum base_status status = fill_page(core, call->id, page);
    if (status != BASE_OK) {
        json_decref(page->items);
        gw_api_failed(core, call, status, NULL, "no such rollout");
    } else {
        gw_api_page_take(call, page->items, call->limit - page->left,
                         page->more ? json_integer((json_int_t)page->after) : NULL);
    }
    heap->release(heap->ctx, page);
}

// ---- Commands

// An empty body is an empty object.
static enum base_status parse_optional(struct gw_api_call *call, struct gw_json_at *out_root,
                                       struct base_error *error)
{
    const struct gw_exchange *exchange = gw_api_exchange(call);
    const struct gw_request *request = &exchange->request;

    if (request->body_bytes == 0) {
        return gw_json_parse((const uint8_t *)"{}", 2, exchange->arena, out_root, error);
    }
    return gw_json_parse(request->body, request->body_bytes, exchange->arena, out_root, error);
}

static enum base_status parse_who(struct gw_api_call *call, const struct gw_json_at *root,
                                  struct base_error *error)
{
    BASE_TRY(gw_json_reason(root, false, GW_LOG_REASON_MAX, &call->who.comment, error));
    return gw_json_text(root, gw_json_optional("by", GW_LOG_BY_MAX), &call->who.by, error);
}

// What takes away a version that was everybody's is not done without a word.
static bool needs_reason(enum pol_command command)
{
    return command == POL_COMMAND_KILL || command == POL_COMMAND_UNDO ||
           command == POL_COMMAND_ABORT;
}

static enum base_status parse_command(struct gw_api_call *call, struct base_error *error)
{
    static const char *const names[] = {"reason",       "by",          "accept_risk",
                                        "accept_empty", "if_revision", NULL};
    struct gw_json_at root;
    bool accept_risk = false;

    BASE_TRY(parse_optional(call, &root, error));
    BASE_TRY(gw_json_only(&root, names, error));
    BASE_TRY(parse_who(call, &root, error));
    BASE_TRY(gw_json_bool(&root, "accept_risk", &accept_risk, error));
    BASE_TRY(gw_json_u64(&root, gw_json_optional("if_revision", UINT32_MAX), &call->who.if_revision,
                         error));
    for (unsigned i = 0; i < POL_COMMAND_COUNT; ++i) {
        if (base_str_equal(call->segments[2], base_str_of(pol_command_name((enum pol_command)i)))) {
            call->command = (enum pol_command)i;
        }
    }
    BASE_TRY(gw_json_bool(&root, "accept_empty", &call->who.accept_empty, error));
    if (call->who.accept_empty && call->command != POL_COMMAND_START) {
        return base_error_set(error, BASE_ERR_INVALID, "accept_empty: only start takes it");
    }
    if (needs_reason(call->command) && call->who.comment.size == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "reason: %s needs one",
                              pol_command_name(call->command));
    }
    if (!accept_risk) {
        return BASE_OK;
    }
    if (call->command != POL_COMMAND_RESUME) {
        return base_error_set(error, BASE_ERR_INVALID, "accept_risk: only resume takes it");
    }
    if (call->who.comment.size == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "reason: accept_risk needs one");
    }
    call->command = POL_COMMAND_RESUME_ACCEPT_RISK;
    return BASE_OK;
}

bool gw_api_command_prepare(struct gw_api_call *call)
{
    struct base_error error = {0};

    if (!gw_api_path_id(call)) {
        return false;
    }
    enum base_status status = parse_command(call, &error);
    return status == BASE_OK || gw_api_fail(call, status, error.text);
}

void gw_api_rollout_command(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_rollout_view view;
    struct base_error error = {0};
    enum base_status status = gw_rollout_command(core, call->id, call->command, &call->who, &error);

    if (status == BASE_OK) {
        status = gw_rollout_get(core, call->id, &view);
    }
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error,
                      status == BASE_ERR_NOT_FOUND ? "no such rollout" : "command");
        return;
    }
    answer_rollout(core, call, 200, &view);
}

// ---- Would a draft start?

static enum base_status parse_evidence(struct gw_api_call *call, const struct gw_json_at *root,
                                       struct base_error *error)
{
    struct base_str text = {NULL, 0};

    BASE_TRY(gw_json_text(root, gw_json_required("evidence", BASE_B64_ENCODED(WIRE_META_BYTES_MAX)),
                          &text, error));
    uint8_t *bytes = base_arena_alloc(gw_api_exchange(call)->arena, WIRE_META_BYTES_MAX);
    if (bytes == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    if (base_b64_decode(text, bytes, WIRE_META_BYTES_MAX, &call->evidence_bytes) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "evidence: not base64url");
    }
    call->evidence = bytes;
    return BASE_OK;
}

static enum base_status parse_start_check(struct gw_api_call *call, struct base_error *error)
{
    static const char *const names[] = {"accept_empty", "evidence", NULL};
    struct gw_json_at root;

    BASE_TRY(parse_optional(call, &root, error));
    BASE_TRY(gw_json_only(&root, names, error));
    BASE_TRY(gw_json_bool(&root, "accept_empty", &call->who.accept_empty, error));
    return json_object_get(root.object, "evidence") != NULL ? parse_evidence(call, &root, error)
                                                            : BASE_OK;
}

bool gw_api_start_check_prepare(struct gw_api_call *call)
{
    struct base_error error = {0};

    if (!gw_api_path_id(call)) {
        return false;
    }
    enum base_status status = parse_start_check(call, &error);
    return status == BASE_OK || gw_api_fail(call, status, error.text);
}

void gw_api_start_check(struct gw_core *core, struct gw_api_call *call)
{
    struct base_error error = {0};
    enum base_status status =
        gw_rollout_check_start(core, call->id, call->who.accept_empty,
                               (struct base_span){call->evidence, call->evidence_bytes}, &error);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error,
                      status == BASE_ERR_NOT_FOUND ? "no such rollout" : "start");
        return;
    }
    gw_api_answer_take(call, 200, json_pack("{s:b}", "starts", 1));
}

// Numbers that somebody types in place of evidence.
static enum base_status parse_override(struct gw_api_call *call, const struct gw_json_at *root,
                                       struct base_error *error)
{
    bool override = false;

    BASE_TRY(gw_json_u64(root, gw_json_required("completed", UINT32_MAX), &call->completed, error));
    BASE_TRY(gw_json_u64(root, gw_json_required("failed", UINT32_MAX), &call->failed, error));
    BASE_TRY(gw_json_bool(root, "override", &override, error));
    if (call->failed > call->completed) {
        return base_error_set(error, BASE_ERR_INVALID, "failed: more than completed");
    }
    if (!override) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "evidence: missing; numbers alone need override, a reason, and "
                              "another person's approval");
    }
    if (call->who.comment.size == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "reason: override needs one");
    }
    return BASE_OK;
}

static enum base_status parse_simulation(struct gw_api_call *call, struct base_error *error)
{
    static const char *const names[] = {"evidence", "completed", "failed", "override",
                                        "reason",   "by",        NULL};
    static const char *const alone[] = {"evidence", "reason", "by", NULL};
    struct gw_json_at root;

    BASE_TRY(parse_optional(call, &root, error));
    BASE_TRY(gw_json_only(&root, names, error));
    BASE_TRY(parse_who(call, &root, error));
    if (json_object_get(root.object, "evidence") == NULL) {
        return parse_override(call, &root, error);
    }
    BASE_TRY(gw_json_only(&root, alone, error));
    return parse_evidence(call, &root, error);
}

bool gw_api_simulation_prepare(struct gw_api_call *call)
{
    struct base_error error = {0};

    if (!gw_api_path_id(call)) {
        return false;
    }
    enum base_status status = parse_simulation(call, &error);
    return status == BASE_OK || gw_api_fail(call, status, error.text);
}

void gw_api_rollout_simulation(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_rollout_view view;
    struct base_error error = {0};
    enum base_status status =
        call->evidence != NULL
            ? gw_rollout_evidence(core, call->id,
                                  (struct base_span){call->evidence, call->evidence_bytes},
                                  &call->who, &error)
            : gw_rollout_override(core, call->id,
                                  (struct pol_sample){call->completed, call->failed}, &call->who,
                                  &error);

    if (status == BASE_OK) {
        status = gw_rollout_get(core, call->id, &view);
    }
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error,
                      status == BASE_ERR_NOT_FOUND ? "no such rollout" : "simulation");
        return;
    }
    answer_rollout(core, call, 200, &view);
}

// ---- Quarantine

static enum base_status parse_lift(struct gw_api_call *call, struct base_error *error)
{
    static const char *const names[] = {"segment", "reason", "by", NULL};
    struct gw_json_at root;

    BASE_TRY(parse_optional(call, &root, error));
    BASE_TRY(gw_json_only(&root, names, error));
    BASE_TRY(
        gw_json_text(&root, gw_json_required("segment", GW_SEGMENT_TEXT_MAX), &call->text, error));
    return parse_who(call, &root, error);
}

bool gw_api_lift_prepare(struct gw_api_call *call)
{
    struct base_error error = {0};

    if (!gw_api_path_id(call)) {
        return false;
    }
    enum base_status status = parse_lift(call, &error);
    return status == BASE_OK || gw_api_fail(call, status, error.text);
}

void gw_api_rollout_lift(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_rollout_view view;
    struct base_error error = {0};
    enum base_status status = gw_rollout_lift(core, call->id, call->text, &call->who, &error);

    if (status == BASE_OK) {
        status = gw_rollout_get(core, call->id, &view);
    }
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error,
                      status == BASE_ERR_NOT_FOUND ? "no such rollout" : "lift");
        return;
    }
    answer_rollout(core, call, 200, &view);
}
