// Entries of the audit log: what is written in them, and GET /api/v1/audit. api_change.c asks for
// the subject before and after a change and for the entry, api_login.c for the line of the
// gateway's log; the route's `prepare` runs on the worker, all the rest on the control thread. An
// entry shows a subject in short: what an operator's hand changes of it, and nothing that belongs
// to another tenant.
#include "api/api_call.h"
#include "api/api_views.h"

#include "svc/access/audit.h"
#include "svc/content/blob.h"
#include "svc/access/credentials.h"
#include "svc/trust/director.h"
#include "svc/view/kill_list.h"
#include "svc/reply.h"

#include <stdlib.h>
#include <string.h>

#define PATH_SHOWN_MAX    512u
#define DETAIL_LOGGED_MAX 300u

// Text from outside: what is not UTF-8 is told by its length alone.
static json_t *text_or_size(struct base_str text)
{
    size_t size = text.size < PATH_SHOWN_MAX ? text.size : PATH_SHOWN_MAX;
    json_t *value = json_stringn(text.data != NULL ? text.data : "", size);

    return value != NULL ? value : json_integer((json_int_t)text.size);
}

// ---- The subject

// What of a rollout changes by an operator's hand.
static json_t *short_rollout(struct gw_core *core, uint64_t id)
{
    static const char *const names[] = {
        "id",    "revision",     "task",    "manifest",        "version_id", "state",
        "stage", "stage_failed", "verdict", "release_counter", "simulation",
    };
    struct gw_rollout_view view;

    if (id == 0 || gw_rollout_get(core, id, &view) != BASE_OK) {
        return json_null();
    }
    json_t *whole = gw_view_rollout(&view, NULL);
    json_t *out = json_object();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        json_t *value = json_object_get(whole, names[i]);
        if (value != NULL) {
            (void)json_object_set(out, names[i], value);
        }
    }
    json_decref(whole);
    return out;
}

static json_t *short_task(struct gw_core *core, const struct gw_api_call *call,
                          struct base_str name)
{
    struct gw_task_view view;

    // Another tenant's is not shown, not even here.
    return gw_api_sees_task(core, call, name) && gw_catalog_task_get(core, name, &view) == BASE_OK
               ? gw_view_task(&view)
               : json_null();
}

static json_t *short_blob(struct gw_core *core, const struct gw_api_call *call)
{
    char hex[WIRE_SHA256_HEX + 1];

    wire_sha256_hex(&call->digest, hex);
    return gw_blob_held(core, call->actor.tenant, &call->digest)
               ? json_pack("{s:s, s:I}", "sha256", hex, "bytes",
                           (json_int_t)gw_api_exchange(call)->request.body_bytes)
               : json_null();
}

// A version, on the kill list or not.
static json_t *short_kill(struct gw_core *core, const struct wire_sha256 *manifest)
{
    struct gw_kill_view view;

    gw_kill_get(core, manifest, &view);
    json_t *out = gw_view_kill(&view);
    (void)json_object_set_new(out, "killed", json_boolean(view.is_killed));
    return out;
}

static json_t *short_trust(struct gw_core *core)
{
    struct gw_trust_view view;
    struct gw_clock_view clock;

    gw_trust_view(core, &view);
    gw_clock_view(core, &clock);
    return json_pack("{s:I, s:I, s:I, s:s}", "root_version", (json_int_t)view.root_version,
                     "timestamp_version", (json_int_t)view.timestamp_version, "kills",
                     (json_int_t)view.kill_count, "clock", gw_clock_doubt_name(clock.doubt));
}

json_t *gw_api_subject_now(struct gw_core *core, const struct gw_api_call *call)
{
    struct gw_version_view version;
    struct gw_token_view token;
    uint16_t tenant = 0;

    switch (call->route->subject) {
    case GW_API_BLOB:
        return short_blob(core, call);
    case GW_API_TASK:
        return short_task(core, call, call->segments[1]);
    case GW_API_TASK_NEW:
        return short_task(core, call, call->text);
    case GW_API_VERSION_NEW:
        return gw_catalog_version_get(core, call->segments[1], &call->digest, &version) == BASE_OK
                   ? gw_view_version(&version)
                   : json_null();
    case GW_API_ROLLOUT:
        return short_rollout(core, call->id);
    case GW_API_ROLLOUT_NEW:
        return short_rollout(core, call->rollout.spec.id);
    case GW_API_DEVICE:
        return json_pack("{s:o, s:s, s:o}", "id", gw_json_hex(call->id), "credential",
                         gw_credential_state_name(gw_device_credential(core, call->id)), "user",
                         gw_api_user_of(core, call));
    case GW_API_TOKEN:
        return call->id != 0 && gw_token_get(core, &call->actor, call->id, &token) == BASE_OK
                   ? gw_view_token(core, &token)
                   : json_null();
    case GW_API_TENANT_NEW:
        return gw_tenant_find(core, call->text, &tenant)
                   ? json_pack("{s:s%}", "name", call->text.data, call->text.size)
                   : json_null();
    case GW_API_KILL:
        return short_kill(core, &call->digest);
    case GW_API_GATEWAY:
        return short_trust(core);
    case GW_API_BLOBS:
    case GW_API_ROLLOUT_ASKED:
    case GW_API_NOTHING:
    case GW_API_SUBJECT_COUNT:
        break;
    }
    return json_null();
}

// ---- Writing

static const char *method_name(enum gw_method method)
{
    switch (method) {
    case GW_METHOD_POST:
        return "POST";
    case GW_METHOD_PUT:
        return "PUT";
    case GW_METHOD_PATCH:
        return "PATCH";
    case GW_METHOD_DELETE:
        return "DELETE";
    case GW_METHOD_OPTIONS:
        return "OPTIONS";
    default:
        return "OTHER";
    }
}

static json_t *actor_object(const struct gw_api_call *call)
{
    const struct gw_actor *actor = &call->actor;

    if (actor->name[0] == '\0') {
        return json_null(); // nobody we know
    }
    return json_pack("{s:o, s:s, s:s}", "token",
                     actor->token_id != 0 ? gw_json_hex(actor->token_id) : json_null(), "name",
                     actor->name, "role", gw_role_name(actor->role));
}

// What the refusal said.
static json_t *detail_of(const struct gw_reply *reply)
{
    json_t *problem = reply->status >= 400 && reply->body != NULL
                          ? json_loadb((const char *)reply->body, reply->body_bytes, 0, NULL)
                          : NULL;
    json_t *detail = json_incref(json_object_get(problem, "detail"));

    json_decref(problem);
    return detail != NULL ? detail : json_null();
}

static json_t *reason_of(const struct gw_api_call *call)
{
    struct base_str reason =
        call->who.comment.size > 0 ? call->who.comment : call->rollout.who.comment;

    return reason.size > 0 ? text_or_size(reason) : json_null();
}

static json_t *entry_object(struct gw_core *core, const struct gw_api_call *call,
                            const char *outcome, bool ended)
{
    const struct gw_exchange *exchange = gw_api_exchange(call);
    char tenant[GW_TENANT_NAME_MAX + 1];

    gw_tenant_name(core, call->actor.tenant, tenant);
    return json_pack("{s:o, s:o, s:o, s:s, s:s, s:o, s:s, s:o, s:o, s:o}", "time",
                     gw_view_time(gw_core_time_us(core)), "request", gw_json_hex(call->request_id),
                     "actor", actor_object(call), "tenant", tenant, "method",
                     method_name(exchange->request.method), "path",
                     text_or_size(exchange->request.path), "outcome", outcome, "status",
                     ended ? json_integer(exchange->reply.status) : json_null(), "detail",
                     ended ? detail_of(&exchange->reply) : json_null(), "reason", reason_of(call));
}

char *gw_api_entry_take(struct gw_core *core, const struct gw_api_call *call, const char *outcome,
                        json_t *before, json_t *after)
{
    bool ended = strcmp(outcome, "interrupted") != 0;
    json_t *entry = entry_object(core, call, outcome, ended);
    char *text = NULL;

    for (int tries = 0; tries < 2 && entry != NULL; ++tries) {
        // The second time without what is too long.
        bool whole = tries == 0;
        (void)json_object_set(entry, "before", whole && before != NULL ? before : json_null());
        (void)json_object_set(entry, "after", whole && after != NULL ? after : json_null());
        text = json_dumps(entry, JSON_COMPACT);
        if (text == NULL || strlen(text) <= GW_AUDIT_TEXT_MAX) {
            break;
        }
        free(text);
        text = NULL;
    }
    json_decref(entry);
    json_decref(before);
    json_decref(after);
    return text;
}

// ---- Reading

bool gw_api_audit_prepare(struct gw_api_call *call)
{
    if (!gw_api_paging(call)) {
        return false;
    }
    return call->after.size == 0 || base_str_u64(call->after, &call->after_id) == BASE_OK ||
           gw_api_fail(call, BASE_ERR_INVALID, "query: after is the number of an entry");
}

struct page {
    struct gw_api_call *call;
    json_t *items;
    uint32_t count;
    size_t bytes;
    uint64_t last;
    bool more;
    bool whole;
};

#define PAGE_BYTES_MAX (4u * 1024 * 1024) // of texts in one answer

// The task that an entry is about. False: none, or it does not say which.
static bool task_of(struct gw_api_call *call, const json_t *entry, struct base_str *out)
{
    static const char *const states[] = {"after", "before"};
    const struct base_str tasks = BASE_STR(GW_API_PATH "tasks");
    const json_t *name = json_object_get(entry, "path");
    struct base_str path = {json_string_value(name), json_string_length(name)};

    if (base_str_starts(path, tasks) && path.size > tasks.size + 1) {
        path = (struct base_str){path.data + tasks.size + 1, path.size - tasks.size - 1};
        const char *slash = memchr(path.data, '/', path.size);
        path.size = slash != NULL ? (size_t)(slash - path.data) : path.size;
        return gw_api_decode(call, path, out);
    }
    const char *member = base_str_starts(path, tasks) ? "name" : "task";
    for (size_t i = 0; i < 2; ++i) {
        name = json_object_get(json_object_get(entry, states[i]), member);
        if (json_is_string(name)) {
            *out = (struct base_str){json_string_value(name), json_string_length(name)};
            return true;
        }
    }
    return false;
}

// A token with scenarios sees what concerns a task of these, and what it did itself.
static bool sees_entry(struct gw_api_call *call, const struct gw_audit_view *view)
{
    char id[WIRE_DEVICE_HEX + 1];
    struct base_str task;

    if (view->tenant != call->actor.tenant || call->actor.scope_count == 0) {
        return view->tenant == call->actor.tenant;
    }
    json_t *entry = json_loadb(view->text.data, view->text.size, 0, NULL);
    const char *by = json_string_value(json_object_get(json_object_get(entry, "actor"), "token"));
    wire_device_hex(call->actor.token_id, id);
    bool sees = (by != NULL && strcmp(by, id) == 0) ||
                (task_of(call, entry, &task) && gw_actor_covers(&call->actor, task));
    json_decref(entry);
    return sees;
}

// An entry that is not the reader's comes without its text: with the text's hash the chain can
// still be followed.
static bool add_entry(void *ctx, const struct gw_audit_view *view)
{
    struct page *page = ctx;
    bool own = page->count < page->call->limit && sees_entry(page->call, view);
    char hash[WIRE_SHA256_HEX + 1];
    char text[WIRE_SHA256_HEX + 1];

    if (page->count == page->call->limit || page->bytes > PAGE_BYTES_MAX) {
        page->more = true;
        return false;
    }
    wire_sha256_hex(&view->hash, hash);
    wire_sha256_hex(&view->text_hash, text);
    json_t *entry = own ? json_stringn(view->text.data, view->text.size) : json_null();
    json_t *item = json_pack("{s:I, s:i, s:s, s:s, s:o}", "seq", (json_int_t)view->seq, "tenant",
                             (int)view->tenant, "hash", hash, "entry_sha256", text, "entry", entry);
    page->whole = item != NULL && json_array_append_new(page->items, item) == 0 && page->whole;
    page->count++;
    page->bytes += own || page->call->actor.scope_count > 0 ? view->text.size : 0; // looked at, too
    page->last = view->seq;
    return page->whole;
}

void gw_api_audit_list(struct gw_core *core, struct gw_api_call *call)
{
    struct page page = {.call = call, .items = json_array(), .whole = true};
    struct wire_sha256 head;
    uint64_t seq = 0;
    char hex[WIRE_SHA256_HEX + 1];
    struct base_error error = {0};
    enum base_status status = gw_audit_list(core, call->after_id, add_entry, &page, &error);

    if (status != BASE_OK || !page.whole) {
        json_decref(page.items);
        gw_api_failed(core, call, status != BASE_OK ? status : BASE_ERR_NOMEM, &error, "audit log");
        return;
    }
    gw_audit_head(core, &seq, &head);
    wire_sha256_hex(&head, hex);
    gw_api_answer_take(call, 200,
                       json_pack("{s:o, s:o, s:{s:I, s:s}}", "items", page.items, "next",
                                 page.more ? json_integer((json_int_t)page.last) : json_null(),
                                 "head", "seq", (json_int_t)seq, "hash", hex));
}

// ---- The gateway's log

// A push asks so which blobs are to be put first.
static bool asks_for_blobs(const struct gw_reply *reply, const char *text)
{
    static const char begins[] = "blobs are missing";

    return reply->status == 409 && text != NULL && strncmp(text, begins, sizeof(begins) - 1) == 0;
}

void gw_api_entry_log(struct gw_core *core, const struct gw_api_call *call, const char *outcome)
{
    const struct gw_exchange *exchange = gw_api_exchange(call);
    const struct gw_actor *actor = &call->actor;
    bool bulk = call->route != NULL &&
                (call->route->subject == GW_API_BLOB || call->route->subject == GW_API_BLOBS);
    char tenant[GW_TENANT_NAME_MAX + 1];
    json_t *detail = detail_of(&exchange->reply);
    const char *text = json_string_value(detail);
    bool asked = asks_for_blobs(&exchange->reply, text); // once for the manifest, once for the rest
    bool refused = exchange->reply.status >= 400 && !asked;
    enum base_log_level level = exchange->reply.status >= 500 ? BASE_LOG_ERROR
                                : refused                     ? BASE_LOG_WARN
                                : bulk || asked               ? BASE_LOG_DEBUG
                                                              : BASE_LOG_INFO;

    char by[2 * GW_TOKEN_NAME_MAX + 1];
    char said[DETAIL_LOGGED_MAX + 1];

    gw_tenant_name(core, actor->tenant, tenant);
    base_log_write(gw_core_log(core), level, "api",
                   "request=%016llx actor=\"%s\" role=%s tenant=%s method=%s path=%.*s outcome=%s "
                   "status=%d%s%s%s",
                   (unsigned long long)call->request_id,
                   base_log_quoted(actor->name, by, sizeof(by)),
                   actor->name[0] != '\0' ? gw_role_name(actor->role) : "none", tenant,
                   method_name(exchange->request.method), (int)exchange->request.path.size,
                   exchange->request.path.data, outcome, exchange->reply.status,
                   text != NULL ? " detail=\"" : "", base_log_quoted(text, said, sizeof(said)),
                   text != NULL ? "\"" : "");
    json_decref(detail);
}
