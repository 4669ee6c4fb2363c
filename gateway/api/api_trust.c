// Handlers of trust: the gateway's online keys and what it publishes, new roots, the kill list.
// `prepare` on the worker, the rest on the control thread. The table in api.c names them; checking
// a root and signing what follows is the core's (director_trust.c, director.c). Nothing secret
// passes through: keys are shown as public ones, a new root comes signed. api_audit.c shows a kill
// with the view from here.
#include "api/api_call.h"
#include "api/api_views.h"

#include "base/alloc.h"
#include "base/text/str_cut.h"
#include "svc/trust/director.h"
#include "svc/view/kill_list.h"
#include "svc/rollout/kill_rollouts.h"
#include "svc/reply.h"
#include "svc/rollout/kill_commands.h"

#include <string.h>

static json_t *key_text(const uint8_t key[WIRE_PUBLIC_KEY_BYTES])
{
    char hex[2 * WIRE_PUBLIC_KEY_BYTES + 1];
    base_hex_encode(key, WIRE_PUBLIC_KEY_BYTES, hex);
    return json_stringn(hex, 2 * WIRE_PUBLIC_KEY_BYTES);
}

// Who operates all tenants sees all kills, and those of versions that nobody here released; others
// those of their tenant's versions.
static bool sees_kill_of(const struct gw_actor *actor, uint16_t tenant)
{
    return actor->every_tenant || tenant == actor->tenant;
}

// With a task's name, who and why: those of versions of the actor's scenarios.
static bool sees_kill(const struct gw_actor *actor, const struct gw_kill_view *view)
{
    return sees_kill_of(actor, view->tenant) &&
           (view->task[0] == '\0' || gw_actor_covers(actor, base_str_of(view->task)));
}

// The kills whose hashes the actor may see: every device gets these, whatever their scenario.
struct seen_kills {
    json_t *list;
    uint32_t told;
    uint32_t untold;
};

static struct seen_kills see_kills(const struct gw_trust_view *view, const struct gw_actor *actor)
{
    struct seen_kills seen = {.list = json_array()};
    for (uint32_t i = 0; i < view->kill_count; i++) {
        const struct gw_kill *kill = &view->kills[i];
        char hex[WIRE_SHA256_HEX + 1];
        if (!sees_kill_of(actor, kill->tenant)) {
            continue;
        }
        wire_sha256_hex(&kill->manifest, hex);
        (void)json_array_append_new(seen.list, json_string(hex));
        seen.told += kill->told == GW_KILL_TOLD ? 1 : 0;
        seen.untold += kill->told == GW_KILL_UNTOLD ? 1 : 0;
    }
    return seen;
}

static json_t *evidence_keys_list(const struct gw_trust_view *view)
{
    json_t *keys = json_array();
    for (uint32_t i = 0; i < view->evidence_key_count; i++) {
        (void)json_array_append_new(keys, key_text(view->evidence_keys[i]));
    }
    return keys;
}

bool gw_api_trust_prepare(struct gw_api_call *call)
{
    return gw_api_no_query(call);
}

void gw_api_trust_get(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_trust_view view;
    gw_trust_view(core, &view);
    struct seen_kills kills = see_kills(&view, &call->actor);
    gw_api_answer_take(
        call, 200,
        json_pack("{s:b, s:o, s:o, s:o, s:I, s:I, s:b, s:I, s:I, s:o, s:I, s:I, s:o}", "enabled",
                  view.enabled, "timestamp_key", key_text(view.keys[GW_ONLINE_TIMESTAMP]),
                  "snapshot_key", key_text(view.keys[GW_ONLINE_SNAPSHOT]), "director_key",
                  key_text(view.keys[GW_ONLINE_DIRECTOR]), "root_version",
                  (json_int_t)view.root_version, "root_expires_s", (json_int_t)view.root_expires_s,
                  "keys_match", view.keys_match, "timestamp_version",
                  (json_int_t)view.timestamp_version, "lease_s", (json_int_t)view.lease_s, "kills",
                  kills.list, "kills_signed", (json_int_t)kills.told, "kills_untold",
                  (json_int_t)kills.untold, "evidence_keys", evidence_keys_list(&view)));
}

// ?accept_keys=true&reason=TEXT: the body is the root and nothing else.
static bool take_root_parameter(struct gw_api_call *call, struct base_str name,
                                struct base_str value, bool *out_known)
{
    *out_known = true;
    if (base_str_equal(name, BASE_STR("accept_keys"))) {
        call->accept_keys = base_str_equal(value, BASE_STR("true"));
        return call->accept_keys || base_str_equal(value, BASE_STR("false")) ||
               gw_api_fail(call, BASE_ERR_INVALID, "query: accept_keys is true or false");
    }
    if (base_str_equal(name, BASE_STR("reason"))) {
        return (gw_api_decode(call, value, &call->who.comment) &&
                call->who.comment.size <= GW_TRUST_REASON_MAX) ||
               gw_api_fail(call, BASE_ERR_INVALID, "query: reason is too long, or badly escaped");
    }
    *out_known = false;
    return true;
}

bool gw_api_root_prepare(struct gw_api_call *call)
{
    if (!gw_api_query_with(call, take_root_parameter)) {
        return false;
    }
    return !call->accept_keys || base_str_trim(call->who.comment).size > 0 ||
           gw_api_fail(call, BASE_ERR_INVALID, "query: accept_keys needs a reason");
}

void gw_api_root_put(struct gw_core *core, struct gw_api_call *call)
{
    const struct gw_request *request = &gw_api_exchange(call)->request;
    const struct gw_root_put put = {
        .bytes = request->body, .size = request->body_bytes, .accept_keys = call->accept_keys};
    struct base_error error = {0};
    struct gw_trust_view view;
    uint64_t version = 0;
    bool created = false;
    enum base_status status = gw_trust_root_put(core, &put, &version, &created, &error);
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "root");
        return;
    }
    gw_trust_view(core, &view);
    gw_api_answer_take(
        call, created ? 201 : 200,
        json_pack("{s:I, s:b}", "version", (json_int_t)version, "keys_match", view.keys_match));
}

// ---- The kill list

static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? gw_view_text(text) : json_null();
}

json_t *gw_view_kill(const struct gw_kill_view *view)
{
    char hex[WIRE_SHA256_HEX + 1];
    json_t *rollouts = json_array();

    wire_sha256_hex(&view->manifest, hex);
    for (uint32_t i = 0; i < view->rollout_count && i < GW_KILL_ROLLOUTS_MAX; i++) {
        (void)json_array_append_new(rollouts, gw_json_hex(view->rollouts[i]));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:b, s:b, s:o, s:I}", "manifest",
                     hex, "version_id", gw_json_hex(view->version_id), "task",
                     text_or_null(view->task), "version", text_or_null(view->version), "time",
                     view->is_killed ? gw_view_time(view->time_us) : json_null(), "time_s",
                     (json_int_t)(view->time_us / 1000000u), "by", gw_view_text(view->by), "reason",
                     gw_view_text(view->reason), "signed", (int)view->is_signed, "untold",
                     (int)view->is_untold, "rollouts", rollouts, "rollout_count",
                     (json_int_t)view->rollout_count);
}

void gw_api_kills_get(struct gw_core *core, struct gw_api_call *call)
{
    const struct base_alloc_port *heap = base_alloc_heap();
    struct gw_kill_view *views = heap->alloc(heap->ctx, GW_API_VIEWS_BATCH * sizeof(*views));
    const struct wire_sha256 *after = call->after.size > 0 ? &call->after_digest : NULL;
    struct wire_sha256 last = {{0}};
    uint32_t found = 0;
    bool more = true;

    if (views == NULL) {
        gw_api_failed(core, call, BASE_ERR_NOMEM, NULL, NULL);
        return;
    }
    json_t *items = json_array();
    while (found < call->limit && more) {
        uint32_t ask = call->limit - found;
        uint32_t count = gw_kill_list(
            core, after, ask < GW_API_VIEWS_BATCH ? ask : GW_API_VIEWS_BATCH, views, &more);
        for (uint32_t i = 0; i < count; i++) {
            last = views[i].manifest;
            after = &last;
            if (sees_kill(&call->actor, &views[i])) {
                (void)json_array_append_new(items, gw_view_kill(&views[i]));
                found++;
            }
        }
        more = more && count > 0;
    }
    heap->release(heap->ctx, views);
    char hex[WIRE_SHA256_HEX + 1];
    if (more) {
        wire_sha256_hex(&last, hex);
    }
    gw_api_page_take(call, items, found, more ? json_string(hex) : NULL);
}

bool gw_api_kill_prepare(struct gw_api_call *call)
{
    static const char *const names[] = {"manifest", "reason", "by", NULL};
    struct base_error error = {0};
    struct gw_json_at root;
    struct base_str manifest = {NULL, 0};
    enum base_status status = gw_api_body(call, names, &root, &error);

    if (status == BASE_OK) {
        status =
            gw_json_text(&root, gw_json_required("manifest", WIRE_SHA256_HEX), &manifest, &error);
    }
    if (status == BASE_OK && wire_sha256_parse(manifest, &call->digest) != BASE_OK) {
        status = base_error_set(&error, BASE_ERR_INVALID,
                                "manifest: a version is named by 64 hex digits");
    }
    if (status == BASE_OK) {
        status = gw_api_who(call, &root, &error);
    }
    return status == BASE_OK ? gw_api_no_query(call) : gw_api_fail(call, status, error.text);
}

void gw_api_kill(struct gw_core *core, struct gw_api_call *call)
{
    struct base_error error = {0};
    struct gw_kill_view view;
    bool created = false;
    char by[GW_TRUST_BY_MAX + 1];
    gw_kill_by(&call->who, by);
    const struct gw_kill_order order = {&call->digest, base_str_of(by), call->who.comment};
    enum base_status status = gw_trust_kill(core, &order, &created, &error);
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "kill");
        return;
    }
    gw_kill_get(core, &call->digest, &view);
    json_t *answer = gw_view_kill(&view);
    (void)json_object_set_new(answer, "already", json_boolean(!created));
    gw_api_answer_take(call, created ? 201 : 200, answer);
}

bool gw_api_unkill_prepare(struct gw_api_call *call)
{
    static const char *const names[] = {"reason", "by", NULL};
    struct base_error error = {0};
    struct gw_json_at root;
    enum base_status status = gw_api_body(call, names, &root, &error);

    if (status == BASE_OK && wire_sha256_parse(call->segments[1], &call->digest) != BASE_OK) {
        status =
            base_error_set(&error, BASE_ERR_INVALID, "path: a version is named by 64 hex digits");
    }
    if (status == BASE_OK) {
        status = gw_api_who(call, &root, &error);
    }
    return status == BASE_OK ? gw_api_no_query(call) : gw_api_fail(call, status, error.text);
}

void gw_api_unkill(struct gw_core *core, struct gw_api_call *call)
{
    struct base_error error = {0};
    struct gw_kill_back back;
    char hex[WIRE_SHA256_HEX + 1];
    char by[GW_TRUST_BY_MAX + 1];
    gw_kill_by(&call->who, by);
    enum base_status status = gw_trust_unkill(
        core, &(struct gw_kill_order){&call->digest, base_str_of(by), call->who.comment}, &error);
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "kill");
        return;
    }
    gw_kill_note_end(core, &call->digest, &call->who);
    gw_kill_back(core, &call->digest, &back);
    wire_sha256_hex(&call->digest, hex);
    json_t *rollouts = json_array();
    for (uint32_t i = 0; i < back.rollout_count && i < GW_KILL_ROLLOUTS_MAX; i++) {
        (void)json_array_append_new(rollouts, gw_json_hex(back.rollouts[i]));
    }
    gw_api_answer_take(call, 200,
                       json_pack("{s:s, s:o, s:I, s:I, s:I}", "manifest", hex, "rollouts", rollouts,
                                 "rollout_count", (json_int_t)back.rollout_count, "devices",
                                 (json_int_t)back.devices, "floored", (json_int_t)back.floored));
}
