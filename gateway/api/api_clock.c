// Handlers of the gateway's clock: what it is compared with, and an operator's word that it is
// right. `prepare` on the worker, the rest on the control thread. The table in api.c names them;
// what doubt means and what accepting does is clock_guard.c. The acceptance needs a reason, because
// it may pause rollouts.
#include "api/api_call.h"

#include "svc/control.h"
#include "svc/trust/director.h"
#include "svc/reply.h"

void gw_api_clock_get(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_clock_view view;
    gw_clock_view(core, &view);
    gw_api_answer_take(call, 200,
                       json_pack("{s:s, s:I, s:I, s:I}", "state", gw_clock_doubt_name(view.doubt),
                                 "wall_s", (json_int_t)(view.wall_us / 1000000), "time_s",
                                 (json_int_t)(view.time_us / 1000000), "signed_s",
                                 (json_int_t)(view.sure_us / 1000000)));
}

bool gw_api_clock_prepare(struct gw_api_call *call)
{
    static const char *const names[] = {"reason", "by", NULL};
    struct base_error error = {0};
    struct gw_json_at root;
    enum base_status status = gw_api_body(call, names, &root, &error);

    if (status == BASE_OK) {
        status = gw_api_who(call, &root, &error);
    }
    return status == BASE_OK ? gw_api_no_query(call) : gw_api_fail(call, status, error.text);
}

void gw_api_clock_accept(struct gw_core *core, struct gw_api_call *call)
{
    struct base_error error = {0};
    struct gw_clock_accepted accepted = {0};
    enum base_status status =
        gw_clock_accept(core, call->who.by, call->who.comment, &accepted, &error);
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "clock");
        return;
    }
    gw_api_answer_take(call, 200,
                       json_pack("{s:I, s:I}", "moved_s", (json_int_t)(accepted.moved_us / 1000000),
                                 "paused", (json_int_t)accepted.paused));
}
