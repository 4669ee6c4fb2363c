// How an operator's browser logs in: a code that is good once and for a minute, exchanged for a
// session of the console.
//
// The code goes through what others may see (a link, a browser's history); the session does not.
// Who holds a session is the token that asked for its code: what that token may not do it may not
// either, and it ends when the token does, after GW_LOGIN_SESSION_S, or with the process. A token
// made in a session ends, too: after GW_LOGIN_TOKEN_S_MAX at the latest.
//
// SHARED MUTABLE STATE. One small table behind one mutex; any thread.
#ifndef GW_CONSOLE_LOGIN_H
#define GW_CONSOLE_LOGIN_H

#include "svc/access/operators.h"

#define GW_SECRET_CODE         "wlc_" // of a login
#define GW_SECRET_SESSION      "wcs_" // of the console
#define GW_LOGIN_CODES_MAX     1024u  // codes of logins; then nobody gets another
#define GW_LOGIN_CODES_EACH    16u    // ... of one token; then its oldest is worth nothing
#define GW_LOGIN_CODE_S        60u
#define GW_LOGIN_SESSIONS_MAX  1024u // sessions of the console; then nobody opens another
#define GW_LOGIN_SESSIONS_EACH 64u   // ... of one token; then its oldest ends
#define GW_LOGIN_SESSION_S     43200u
#define GW_LOGIN_TOKEN_S_MAX   2592000u // 30 days: how long a token lives that a session makes

struct gw_logins;

BASE_NODISCARD enum base_status gw_logins_new(struct gw_logins **out_logins); // NOMEM
void gw_logins_free(struct gw_logins *logins);                                // accepts NULL

// Draws a code for whoever `token_id` is (0: the configured token). UNSUPPORTED: no randomness;
// BUSY: others hold all there may be.
BASE_NODISCARD enum base_status gw_login_code(struct gw_core *core, uint64_t token_id,
                                              char out_text[GW_SECRET_TEXT_BYTES + 1]);
// Uses the code up and opens a session. NOT_FOUND: no such code, or no more; UNSUPPORTED; BUSY, and
// the code stays good.
BASE_NODISCARD enum base_status gw_login_open(struct gw_core *core, struct base_str code,
                                              char out_text[GW_SECRET_TEXT_BYTES + 1]);
// Whose the secret is: a session's, or with `code` a code's that is still good. False: nobody's.
bool gw_login_find(struct gw_core *core, struct base_str given, bool code, uint64_t *out_token_id);

#endif
