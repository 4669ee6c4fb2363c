// One request of the operator API on its way: worker, control thread, worker. Private to
// gateway/api.
#ifndef GW_API_CALL_H
#define GW_API_CALL_H

#include "api/api.h"
#include "api/api_json.h"
#include "api/api_routes.h"
#include "api/rollout_body.h"
#include "svc/access/operators.h"
#include "svc/view/rollout_page.h"

struct gw_api_route;
struct gw_preview_spec;
struct gw_set_cost_spec;
struct gw_api_records;

#define GW_API_SCAN_MAX 4096u // items looked at for one page: a page may be short

// What a route is about: who may touch it, and what the audit log shows before and after.
enum gw_api_subject {
    GW_API_NOTHING,       // nobody's: lists (which show what is the actor's), the actor itself
    GW_API_BLOB,          // content, named by `digest`
    GW_API_BLOBS,         // content, a pack of it
    GW_API_TASK,          // segments[1]
    GW_API_TASK_NEW,      // `text`
    GW_API_VERSION_NEW,   // `digest`, of task segments[1]
    GW_API_ROLLOUT,       // `id`
    GW_API_ROLLOUT_NEW,   // `rollout`
    GW_API_ROLLOUT_ASKED, // `id`, which a question with a body is about: nothing changes
    GW_API_DEVICE,        // `id`
    GW_API_TOKEN,         // `id`
    GW_API_TENANT_NEW,    // `text`
    GW_API_KILL,          // `digest`; all tenants'
    GW_API_GATEWAY,       // all tenants'
    GW_API_SUBJECT_COUNT
};

// Lives in the exchange's arena, zeroed.
struct gw_api_call {
    struct gw_control_call control; // first: the core hands this back
    const struct gw_api_route *route;
    struct base_str segments[GW_API_SEGMENTS_MAX]; // decoded, behind /api/v1/
    uint32_t segment_count;
    struct gw_actor actor;
    uint64_t request_id;
    bool settled;               // the reply is filled already: it is a refusal
    struct base_str keep;       // what is kept of the answer for its key; empty: all of it
    struct gw_token_view token; // wish of a new token
    // Filled by `prepare` of the route.
    struct gw_rollout_body rollout;
    struct gw_preview_spec *preview;
    struct gw_set_cost_spec *cost;
    struct gw_api_records *records;
    struct gw_rollout_who who;
    bool accept_keys; // of a root that names others
    struct wire_sha256 digest;
    struct wire_sha256 exclusive; // list of a new version's exclusive files; zero: none
    uint64_t id;
    uint64_t completed;
    uint64_t failed;
    const uint8_t *evidence; // an envelope; NULL: numbers
    size_t evidence_bytes;
    struct base_str text; // task name, or the name of a user
    enum pol_command command;
    // Paging.
    uint32_t limit;
    struct base_str after; // as given
    uint64_t after_id;
    struct wire_sha256 after_digest;
    struct gw_rollout_ask ask; // which rollouts a list shows
};

struct gw_api_route {
    enum gw_method method;
    const char *pattern; // "tasks/*/versions"
    enum gw_role role;   // the least that may
    enum gw_api_subject subject;
    // On the worker: checks the request. False: the reply is filled and nothing is to be done.
    bool (*prepare)(struct gw_api_call *call);
    // On the control thread: fills the reply.
    void (*work)(struct gw_core *core, struct gw_api_call *call);
    unsigned flags; // api_routes.h
};

static inline struct gw_exchange *gw_api_exchange(const struct gw_api_call *call)
{
    return call->control.exchange;
}

// ---- Helpers of `prepare`: false after filling the reply with what is wrong
bool gw_api_fail(struct gw_api_call *call, enum base_status status, const char *detail);
// Refuses a parameter by its name; `why` says what the resource takes.
bool gw_api_unknown(struct gw_api_call *call, struct base_str name, const char *why);
bool gw_api_path_id(struct gw_api_call *call); // segments[1] as 16 hex digits into `id`
// ?limit= and ?after=; other parameters are refused. `after` stays text.
bool gw_api_paging(struct gw_api_call *call);
// The same with a list's own parameters: *out_known, and false after filling the reply when the
// value is wrong.
typedef bool (*gw_api_filter_fn)(struct gw_api_call *call, struct base_str name,
                                 struct base_str value, bool *out_known);
bool gw_api_paging_with(struct gw_api_call *call, gw_api_filter_fn filter);
bool gw_api_query_with(struct gw_api_call *call, gw_api_filter_fn filter); // these alone
bool gw_api_paging_id(struct gw_api_call *call); // and `after` as 16 hex digits into after_id
bool gw_api_no_query(struct gw_api_call *call);
// The request's body as an object with these fields and no other (NULL ends the list); it lives as
// long as the exchange. INVALID, TOO_LARGE, NOMEM, with where in `error`.
BASE_NODISCARD enum base_status gw_api_body(const struct gw_api_call *call,
                                            const char *const *names, struct gw_json_at *out_root,
                                            struct base_error *error);
// Who does it and why, into `who`: "reason", which must be there, and "by". INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status gw_api_who(struct gw_api_call *call, const struct gw_json_at *root,
                                           struct base_error *error);
// Percent-decodes a parameter into the arena. False: a bad escape, or too long.
bool gw_api_decode(struct gw_api_call *call, struct base_str text, struct base_str *out);

// ---- The way of a call on the control thread, by file
// api_guard.c: may the actor touch this? False: the reply says 403 or 404.
bool gw_api_permits(struct gw_core *core, struct gw_api_call *call);
bool gw_api_sees_task(struct gw_core *core, const struct gw_api_call *call, struct base_str task);
// if-match against the subject's revision. False: the reply says 412.
bool gw_api_matches(struct gw_core *core, struct gw_api_call *call);
// The header `etag` of an answer about something with a revision.
void gw_api_etag(struct gw_api_call *call, uint64_t revision);
// api_change.c: a request that changes something, from its check to its entry in the audit log.
void gw_api_change(struct gw_core *core, struct gw_api_call *call);
// api_audit.c: an entry as text, to free() (NULL: no memory). Takes both.
char *gw_api_entry_take(struct gw_core *core, const struct gw_api_call *call, const char *outcome,
                        json_t *before, json_t *after);
// The request as one line of the gateway's log: who, what, and what came of it.
void gw_api_entry_log(struct gw_core *core, const struct gw_api_call *call, const char *outcome);
// The subject as it is now, short; a new reference, null when there is nothing.
json_t *gw_api_subject_now(struct gw_core *core, const struct gw_api_call *call);
// The table of routes, for tests.
const struct gw_api_route *gw_api_routes(size_t *out_count);

// ---- Helpers of `work`
void gw_api_answer_take(struct gw_api_call *call, int status, json_t *root); // takes root
// Takes root; its text, which lives as long as the call. Empty: out of memory.
struct base_str gw_api_text_take(struct gw_api_call *call, json_t *root);
// {"items": [...], "next": key or null}; takes both, `next` NULL is null. A list with fewer than
// `expected` items lost some to want of memory and becomes a 503.
void gw_api_page_take(struct gw_api_call *call, json_t *items, size_t expected, json_t *next);
// Problem for a failed call of the core. `error` may hold the text; one that holds none is told as
// "what: why", why being the status. Without `error`, `what` is the whole text; NULL: the status.
void gw_api_failed(struct gw_core *core, struct gw_api_call *call, enum base_status status,
                   const struct base_error *error, const char *what);

// ---- Handlers: those of the rows
#define GW_API_DECLARE(method, pattern, role, subject, prepare, work, flags)                       \
    bool prepare(struct gw_api_call *call);                                                        \
    void work(struct gw_core *core, struct gw_api_call *call);
GW_API_ROUTE_MAP(GW_API_DECLARE)
#undef GW_API_DECLARE

// api_cost.c. What an operator accepts is written down with the reason, in log and audit log.
void gw_api_note_cost(struct gw_core *core, struct gw_api_call *call);

// The user a device is bound to as a new reference; null: nobody's.
json_t *gw_api_user_of(struct gw_core *core, const struct gw_api_call *call);

// The caller is a session of the console, which ends; so must what it makes.
bool gw_api_in_session(const struct gw_api_call *call);

// The console page and its headers, for GET and HEAD of `/`.
void gw_api_console(struct gw_exchange *exchange);

#endif
