// What stands between a request and its handler: whose the subject is, which revision the caller
// means. Control thread. api.c asks before a query is run and api_change.c before a change;
// handlers of lists ask for each task whether the actor sees it. What is another tenant's is
// answered as if it were not there: a 403 would tell that it is.
#include "api/api_call.h"

#include "svc/access/credentials.h"
#include "svc/reply.h"

#include <stdio.h>
#include <string.h>

#define ETAG_MAX 32u

bool gw_api_sees_task(struct gw_core *core, const struct gw_api_call *call, struct base_str task)
{
    uint16_t tenant = 0;

    return gw_catalog_task_owner(core, task, &tenant) && tenant == call->actor.tenant &&
           gw_actor_covers(&call->actor, task);
}

static bool refuse(struct gw_api_call *call, int status, const char *detail)
{
    gw_reply_problem(gw_api_exchange(call), status, "%s", detail);
    return false;
}

static bool sees_rollout(struct gw_core *core, const struct gw_api_call *call)
{
    uint16_t tenant = 0;
    const char *task = NULL;

    return gw_catalog_rollout_owner(core, call->id, &tenant, &task) &&
           tenant == call->actor.tenant && gw_actor_covers(&call->actor, base_str_of(task));
}

// A device, a tenant, what all tenants share: of no single scenario, so that a token with scenarios
// may read it and change nothing.
static bool is_whole(struct gw_api_call *call)
{
    return call->actor.scope_count == 0 || call->route->method == GW_METHOD_GET ||
           refuse(call, 403,
                  "this is of no single scenario: to change it needs a token without scopes");
}

// What is another tenant's, or outside the token's scenarios, is not there. Only where the caller
// itself names something new is it told that this is outside: that gives nothing away.
bool gw_api_permits(struct gw_core *core, struct gw_api_call *call)
{
    switch (call->route->subject) {
    case GW_API_TASK:
    case GW_API_VERSION_NEW:
        return gw_api_sees_task(core, call, call->segments[1]) || refuse(call, 404, "no such task");
    case GW_API_TASK_NEW:
        return gw_actor_covers(&call->actor, call->text) ||
               refuse(call, 403, "name: outside the scenarios of the token");
    case GW_API_ROLLOUT:
    case GW_API_ROLLOUT_ASKED:
        return sees_rollout(core, call) || refuse(call, 404, "no such rollout");
    case GW_API_ROLLOUT_NEW:
        return gw_api_sees_task(core, call, call->rollout.spec.task) ||
               refuse(call, 404, "task: no such task");
    case GW_API_DEVICE:
        if (gw_device_tenant(core, call->id) != call->actor.tenant) {
            return refuse(call, 404, "no such device");
        }
        return is_whole(call);
    case GW_API_TENANT_NEW:
        if (!call->actor.every_tenant) {
            return refuse(call, 403, "only an operator of all tenants makes new ones");
        }
        return is_whole(call);
    case GW_API_KILL:
    case GW_API_GATEWAY:
        if (!call->actor.every_tenant) {
            return refuse(call, 403,
                          "this concerns all tenants: it needs an operator of all of them");
        }
        return is_whole(call);
    case GW_API_TOKEN: // the core looks at tenant and scenarios
    case GW_API_BLOB:
    case GW_API_BLOBS:
    case GW_API_NOTHING:
    case GW_API_SUBJECT_COUNT:
        break;
    }
    return true;
}

// Revision of the subject; 0: it has none, or is not there.
static uint64_t revision_of(struct gw_core *core, const struct gw_api_call *call)
{
    if (call->route->subject == GW_API_ROLLOUT) {
        struct gw_rollout_view view;
        return gw_rollout_get(core, call->id, &view) == BASE_OK ? view.revision : 0;
    }
    if (call->route->subject == GW_API_TOKEN && call->id != 0) {
        struct gw_token_view view;
        return gw_token_get(core, &call->actor, call->id, &view) == BASE_OK ? view.revision : 0;
    }
    return 0;
}

static int write_etag(uint64_t revision, char out[ETAG_MAX])
{
    return snprintf(out, ETAG_MAX, "\"r%llu\"", (unsigned long long)revision);
}

bool gw_api_matches(struct gw_core *core, struct gw_api_call *call)
{
    struct base_str wanted = gw_api_exchange(call)->request.if_match;
    char etag[ETAG_MAX];

    if (wanted.size == 0) {
        return true;
    }
    uint64_t revision = revision_of(core, call);
    if (revision != 0 && base_str_equal(wanted, BASE_STR("*"))) {
        return true;
    }
    int size = write_etag(revision, etag);
    if (revision != 0 && base_str_equal(wanted, (struct base_str){etag, (size_t)size})) {
        return true;
    }
    if (revision == 0) {
        return refuse(call, 412, "if-match: this has no revision");
    }
    gw_reply_problem(gw_api_exchange(call), 412, "if-match: it is at %s now", etag);
    return false;
}

void gw_api_etag(struct gw_api_call *call, uint64_t revision)
{
    struct gw_exchange *exchange = gw_api_exchange(call);
    char etag[ETAG_MAX];
    int size = write_etag(revision, etag);
    const char *copy = base_arena_text(exchange->arena, etag, (size_t)size);

    if (copy != NULL && exchange->reply.status < 400) {
        gw_reply_header(&exchange->reply, BASE_STR("etag"), (struct base_str){copy, (size_t)size});
    }
}
