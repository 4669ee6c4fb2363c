// Logging a browser in at the console: POST console/code for who has a token, POST console/session
// for who has the code. Control thread.
#include "api/api_call.h"

#include "svc/console_login.h"
#include "svc/reply.h"

// What the request shows behind "Bearer ": the access check has seen to it that it is there.
static struct base_str shown(struct gw_api_call *call)
{
    size_t prefix = BASE_STR("Bearer ").size;
    struct base_str field = gw_api_exchange(call)->request.authorization;
    return field.size >= prefix ? (struct base_str){field.data + prefix, field.size - prefix}
                                : (struct base_str){"", 0};
}

static void answer(struct gw_api_call *call, json_t *root)
{
    gw_api_answer_take(call, 200, root);
    gw_reply_header(&gw_api_exchange(call)->reply, BASE_STR("cache-control"), BASE_STR("no-store"));
}

void gw_api_console_code(struct gw_core *core, struct gw_api_call *call)
{
    char text[GW_SECRET_TEXT_BYTES + 1];
    // Else a session would open the next one, for ever.
    if (base_str_starts(shown(call), BASE_STR(GW_SECRET_SESSION))) {
        gw_reply_problem(gw_api_exchange(call), 400, "a session of the console opens no other one");
    } else if (gw_login_code(core, call->actor.token_id, text) != BASE_OK) {
        gw_reply_problem(gw_api_exchange(call), 501, "this program has no randomness");
    } else {
        answer(call,
               json_pack("{s:s, s:I}", "code", text, "expires_in_s", (json_int_t)GW_LOGIN_CODE_S));
    }
}

void gw_api_console_session(struct gw_core *core, struct gw_api_call *call)
{
    char text[GW_SECRET_TEXT_BYTES + 1];
    if (gw_login_open(core, shown(call), text) != BASE_OK) {
        gw_reply_problem(gw_api_exchange(call), 400,
                         "a code of console/code is shown here, once and within %u s",
                         GW_LOGIN_CODE_S);
        return;
    }
    answer(call, json_pack("{s:s, s:s, s:s, s:I}", "token", text, "name", call->actor.name, "role",
                           gw_role_name(call->actor.role), "expires_in_s",
                           (json_int_t)GW_LOGIN_SESSION_S));
}
