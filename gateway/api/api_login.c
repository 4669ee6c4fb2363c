// Logging a browser in at the console: POST console/code for who has a token, POST console/session
// for who has the code. Control thread. api.c's table names both; console_login.c keeps codes and
// sessions. A code is good once and for GW_LOGIN_CODE_S seconds, so that no token stands in a
// browser's address. A session opens no other one: it would live for ever. Logging in is a line of
// the gateway's log and no change.
#include "api/api_call.h"

#include "svc/access/console_login.h"
#include "svc/reply.h"

// What the request shows behind "Bearer ": the access check has seen to it that it is there.
static struct base_str shown(const struct gw_api_call *call)
{
    size_t prefix = BASE_STR("Bearer ").size;
    struct base_str field = gw_api_exchange(call)->request.authorization;
    return field.size >= prefix ? (struct base_str){field.data + prefix, field.size - prefix}
                                : (struct base_str){"", 0};
}

bool gw_api_in_session(const struct gw_api_call *call)
{
    return base_str_starts(shown(call), BASE_STR(GW_SECRET_SESSION));
}

// The code or session was not made.
static void refuse(struct gw_api_call *call, enum base_status status)
{
    struct gw_exchange *exchange = gw_api_exchange(call);
    if (status == BASE_ERR_BUSY) {
        gw_reply_problem(exchange, 429, "too many operators log in at the console at once");
        gw_reply_header(&exchange->reply, BASE_STR("retry-after"), BASE_STR("60"));
    } else {
        gw_reply_problem(exchange, 501, "this program has no randomness");
    }
}

static void answer(struct gw_api_call *call, json_t *root)
{
    gw_api_answer_take(call, 200, root);
    gw_reply_header(&gw_api_exchange(call)->reply, BASE_STR("cache-control"), BASE_STR("no-store"));
}

// Who logs in is a line of the gateway's log, as who changes something.
static void say(struct gw_core *core, const struct gw_api_call *call)
{
    gw_api_entry_log(core, call, gw_api_exchange(call)->reply.status < 400 ? "done" : "refused");
}

static void make_code(struct gw_core *core, struct gw_api_call *call)
{
    char text[GW_SECRET_TEXT_BYTES + 1];
    // Else a session would open the next one, for ever.
    if (gw_api_in_session(call)) {
        gw_reply_problem(gw_api_exchange(call), 400, "a session of the console opens no other one");
        return;
    }
    enum base_status status = gw_login_code(core, call->actor.token_id, text);
    if (status != BASE_OK) {
        refuse(call, status);
    } else {
        answer(call,
               json_pack("{s:s, s:I}", "code", text, "expires_in_s", (json_int_t)GW_LOGIN_CODE_S));
    }
}

void gw_api_console_code(struct gw_core *core, struct gw_api_call *call)
{
    make_code(core, call);
    say(core, call);
}

static void open_session(struct gw_core *core, struct gw_api_call *call)
{
    char text[GW_SECRET_TEXT_BYTES + 1];
    enum base_status status = gw_login_open(core, shown(call), text);
    if (status != BASE_OK && status != BASE_ERR_NOT_FOUND) {
        refuse(call, status);
        return;
    }
    if (status != BASE_OK) {
        gw_reply_problem(gw_api_exchange(call), 400,
                         "a code of console/code is shown here, once and within %u s",
                         GW_LOGIN_CODE_S);
        return;
    }
    answer(call, json_pack("{s:s, s:s, s:s, s:I}", "token", text, "name", call->actor.name, "role",
                           gw_role_name(call->actor.role), "expires_in_s",
                           (json_int_t)GW_LOGIN_SESSION_S));
}

void gw_api_console_session(struct gw_core *core, struct gw_api_call *call)
{
    open_session(core, call);
    say(core, call);
}
