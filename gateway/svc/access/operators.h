// Who may do what: tenants, operators' tokens with roles and scopes, and the check of a request.
//
// Who a token stands for is its owner: a person may have several, and what needs another person is
// not had with a second one. The configured token and the gateway's own are one person, whatever
// name a request gives beside them.
//
// A tenant owns tasks, rollouts, devices and tokens; nobody sees another tenant's. Tenant 0,
// "default", is always there. A token stands for a person or a machine: it has a name, a role, a
// tenant (or all of them) and the scenarios it may touch. A scenario is the first part of a task's
// name, up to its first '/'. Enrolment tokens are tokens with a role of their own that opens
// nothing but POST /v1/enroll.
//
// SHARED MUTABLE STATE. The tables live in memory behind one mutex: workers authenticate with them,
// the control thread changes them, after the store has.
#ifndef GW_OPERATORS_H
#define GW_OPERATORS_H

#include "base/error.h"
#include "base/keyed_hash.h"
#include "svc/core.h"
#include "svc/access/secret.h"
#include "svc/page.h"
#include "wire/manifest.h"

#define GW_TENANTS_MAX       1024u
#define GW_TENANT_NAME_MAX   32u
#define GW_TENANT_DEFAULT    0u
#define GW_TENANT_EVERY      UINT16_MAX // of a token: acts in the tenant a request names
#define GW_TENANT_SHARE_PART 2u // of what the others leave: all tenants but "default" get that part
#define GW_TOKENS_MAX        4096u // of all tenants; then the longest dead makes room
#define GW_TOKEN_NAME_MAX    64u
#define GW_TOKEN_SCOPES_MAX  16u
#define GW_TOKEN_SEEN_S      60u // last use is stored when it is this much newer than the stored one
#define GW_TOKEN_ROW_MAX     2048u

// Failed authentications of one address, at the API and at enrolment each: so many at once, then
// one every so often (svc/access/peer_limits.h). What succeeds is never limited.
#define GW_ACCESS_BURST       20u
#define GW_ACCESS_INTERVAL_US UINT64_C(3000000)
#define GW_ACCESS_NOTES_BURST 60u // refused strangers noted in the audit log, a minute

struct gw_core;
struct gw_operators;

// Each may do what those before it may, but ENROL, which is no operator's.
enum gw_role {
    GW_ROLE_ENROL,    // enrols devices
    GW_ROLE_VIEWER,   // reads
    GW_ROLE_RELEASER, // tasks, versions, rollouts
    GW_ROLE_APPROVER, // approves rollouts of others
    GW_ROLE_ADMIN,    // tokens, tenants, devices, the audit log
    GW_ROLE_COUNT
};

const char *gw_role_name(enum gw_role role);
// GW_ROLE_COUNT: no such role.
enum gw_role gw_role_of(struct base_str name);

// Who sent a request; a copy.
struct gw_actor {
    uint64_t token_id; // 0: the configured token, or the gateway's own
    enum gw_role role;
    uint16_t tenant; // acts in this one
    bool every_tenant;
    char name[GW_TOKEN_NAME_MAX + 1];
    char person[GW_TOKEN_NAME_MAX + 1]; // the owner; without one the name
    uint32_t scope_count;               // 0: every scenario
    char scopes[GW_TOKEN_SCOPES_MAX][WIRE_TASK_NAME_MAX + 1];
};

// Are these two names of one person? Letters of ASCII count in either case, blanks not at all.
bool gw_same_person(struct base_str a, struct base_str b);
// Is a task of this name within the actor's scenarios?
bool gw_actor_covers(const struct gw_actor *actor, struct base_str task);
struct gw_token_view;
// Does every scenario of the token lie within the actor's? One without scenarios has all of them.
bool gw_actor_holds(const struct gw_actor *actor, const struct gw_token_view *token);
// A scenario, or the beginning of one with '*' behind it.
bool gw_scope_ok(struct base_str scope);

// ---- Tokens; on the control thread but for _authenticate

struct gw_token_view {
    uint64_t id;
    enum gw_role role;
    uint16_t tenant;
    uint64_t created_s;
    uint64_t expires_s; // 0: never
    uint64_t revoked_s; // 0: not
    uint64_t last_used_s;
    uint64_t created_by; // token id
    uint32_t uses;       // enrolments
    uint32_t uses_max;   // 0: any number
    uint32_t revision;
    char name[GW_TOKEN_NAME_MAX + 1];  // printable ASCII
    char owner[GW_TOKEN_NAME_MAX + 1]; // likewise; empty: the name is the owner's
    uint32_t scope_count;
    char scopes[GW_TOKEN_SCOPES_MAX][WIRE_TASK_NAME_MAX + 1];
};

// What is stored: the view and the hash of the secret.
struct gw_token {
    struct gw_token_view view;
    struct wire_sha256 hash;
    uint64_t stored_used_s;
    uint32_t uses_taken; // of enrolments under way: neither counted nor stored
};

BASE_NODISCARD enum base_status gw_operators_new(const struct base_hash_key *key,
                                                 struct gw_operators **out_operators);
void gw_operators_free(struct gw_operators *operators); // accepts NULL
// Tenants and tokens from the store.
BASE_NODISCARD enum base_status gw_operators_load(struct gw_core *core, struct base_error *error);

// Makes a token of `wish` (name, owner, role, tenant, expiry, uses_max, scopes). `out_text` is the
// secret: kept nowhere. LIMIT, CONFLICT (the tenant has its share), INVALID, UNSUPPORTED, FULL, IO.
BASE_NODISCARD enum base_status
gw_token_create(struct gw_core *core, const struct gw_token_view *wish, struct gw_token_view *out,
                char out_text[GW_SECRET_TEXT_BYTES + 1], struct base_error *error);
// At start: makes an enrolment token when there never was one, so that devices can show who they
// are from the first day. Revoked like any other; it is not made again then. Makes an
// administrator's token, too, when none is configured and none in the store opens the default
// tenant. That one is not stored: it lives as the port keeps it. What `port` answers; UNSUPPORTED,
// IO.
#define GW_FIRST_TOKEN_NAME "first start"
struct gw_first_token;
BASE_NODISCARD enum base_status gw_operators_first(struct gw_core *core,
                                                   const struct gw_first_token *port,
                                                   struct base_error *error);
// NOT_FOUND also for a token of another tenant than the actor's, or of more than its scenarios.
BASE_NODISCARD enum base_status gw_token_get(struct gw_core *core, const struct gw_actor *actor,
                                             uint64_t id, struct gw_token_view *out);
// OK also when it was revoked before.
BASE_NODISCARD enum base_status gw_token_revoke(struct gw_core *core, const struct gw_actor *actor,
                                                uint64_t id, struct gw_token_view *out,
                                                struct base_error *error);
// The actor's tenant's tokens whose scenarios lie within its own, by id; `after` 0 begins.
void gw_token_list(struct gw_core *core, const struct gw_actor *actor, uint64_t after,
                   struct gw_token_view *out, struct gw_page *page);
// Stores when tokens were last used, as far as that is news.
void gw_operators_flush(struct gw_core *core);

// The row of a token as it is now, for a transaction under way; 0: no such token. Any thread.
size_t gw_operators_token_row(struct gw_core *core, uint64_t id, uint8_t out[GW_TOKEN_ROW_MAX]);

// Stored form. Returns the size.
size_t gw_token_encode(const struct gw_token *token, uint8_t out[GW_TOKEN_ROW_MAX]);
BASE_NODISCARD enum base_status gw_token_decode(const uint8_t *bytes, size_t size,
                                                struct gw_token *out);

// ---- Tenants

struct gw_tenant {
    uint16_t id;
    uint64_t created_s;
    char name[GW_TENANT_NAME_MAX + 1];
};

// How many of `max` that all tenants share one may hold when the others hold `others`: the default
// one, which is of who runs the gateway, all that is left; any other half of it, so that whatever
// one holds there is some for the next.
uint32_t gw_tenant_share(uint16_t tenant, uint32_t max, uint32_t others);
struct gw_tenant_holding {
    uint16_t tenant;
    const char *what; // "tasks"
    uint32_t max;     // of all tenants
    uint32_t all;     // there are
    uint32_t own;     // of them the tenant's
};
// May the tenant have one more? LIMIT: there are as many as there may be; CONFLICT: it has its
// share.
BASE_NODISCARD enum base_status gw_tenant_may_add(const struct gw_tenant_holding *holding,
                                                  struct base_error *error);
bool gw_tenant_name_ok(struct base_str name);
// OK also when it is there (*out_created false).
BASE_NODISCARD enum base_status gw_tenant_create(struct gw_core *core, struct base_str name,
                                                 struct gw_tenant *out, bool *out_created,
                                                 struct base_error *error);
// By name. False: there is none. Any thread.
bool gw_tenant_find(struct gw_core *core, struct base_str name, uint16_t *out_id);
// By id; an unknown one is "unknown". Any thread.
void gw_tenant_name(struct gw_core *core, uint16_t id, char out[GW_TENANT_NAME_MAX + 1]);
// In the order of ids, beginning behind `after`; -1 begins.
void gw_tenant_list(struct gw_core *core, int32_t after, struct gw_tenant *out,
                    struct gw_page *page);

// ---- Checking a request; any worker

// Who sent this request to the operator API, and in which tenant it acts. False: `exchange`'s reply
// says why not (401, 403, 404 for a tenant that is not there, 429).
bool gw_access_check(struct gw_core *core, struct gw_exchange *exchange, struct gw_actor *out);
// Does a setting of this kind let in who shows no token? One that does shows a token that holds.
bool gw_access_without_token(enum gw_metrics_access access, const struct gw_request *request);
enum gw_metrics_for {
    GW_METRICS_FOR_NOBODY,   // the reply is filled, as above
    GW_METRICS_FOR_STRANGER, // settings let everybody: nothing with a task's name
    GW_METRICS_FOR_ACTOR,    // an operator: names of what they may see
    GW_METRICS_FOR_ALL,      // this machine: all names
};
// May this request read /metrics, and whose names are in it? By core.h's gw_metrics_access, or with
// the token of any operator; *out_actor is written with GW_METRICS_FOR_ACTOR.
enum gw_metrics_for gw_access_metrics(struct gw_core *core, struct gw_exchange *exchange,
                                      struct gw_actor *out_actor);
// The enrolment token of a request: takes one of its uses, which is then counted or undone; none
// for what is `asked_again`, which a token that is used up is good for too. False: the reply is
// filled.
bool gw_access_enrolment(struct gw_core *core, struct gw_exchange *exchange, bool asked_again,
                         uint64_t *out_token_id, uint16_t *out_tenant);
// The use is one now, with the credential in the writer's transaction: rows of the token have it
// from here on, and none before.
void gw_access_enrolment_count(struct gw_core *core, uint64_t token_id);
// The use was not needed after all.
void gw_access_enrolment_undo(struct gw_core *core, uint64_t token_id, bool counted);

#endif
