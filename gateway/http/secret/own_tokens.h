// The tokens a gateway makes for itself at its first start, as files in its data folder, and how
// the programs of its user find the operators' one.
//
// DIR/admin.token opens the operator API. It is made when there is no other way in: no
// admin.token_file, and no administrator's token in the store. It is never written over; whoever
// removes it gets a new one at the next start. DIR/enroll.token is for devices.
//
// Main thread: read before the core opens, kept by the core's start, noted when the listeners are
// known, and the notes taken away before they close.
#ifndef GW_OWN_TOKENS_H
#define GW_OWN_TOKENS_H

#include "base/error.h"
#include "base/os/gateway_note.h"
#include "base/log.h"
#include "svc/core.h"

#define GW_ADMIN_TOKEN_FILE "admin.token"
#define GW_OWN_NOTES        2u // TLS and clear

struct gw_own_tokens {
    const char *dir;
    char admin[BASE_GATEWAY_TOKEN_MAX]; // in use; empty: none until the core's start makes one
    bool noted;                         // `admin` is the one of DIR/admin.token
    bool made_admin;
    bool made_enrol;
    struct base_gateway_note *notes[GW_OWN_NOTES];
};

// Sees that nobody else writes to the data folder, and reads the admin token: from `file`, or from
// DIR/admin.token when `file` is empty. `dir` must outlive it. INVALID with what is wrong and how
// to mend it; NOT_FOUND: `file` is not there; IO.
BASE_NODISCARD enum base_status gw_own_tokens_read(struct gw_own_tokens *tokens, const char *dir,
                                                   const char *file, struct base_error *error);
// What the core's start calls with tokens it made.
struct gw_first_token gw_own_tokens_port(struct gw_own_tokens *tokens);
// Says on standard output what was made (of the devices' token only where `devices` enrol), in the
// log where the files are, and leaves a note for each
// address (TLS first; "" is none) when the token is DIR/admin.token. What fails is logged:
// operators can still name a token.
void gw_own_tokens_announce(struct gw_own_tokens *tokens, const char *const addresses[GW_OWN_NOTES],
                            bool devices, const struct base_log *log);
// Takes the notes away; again: nothing.
void gw_own_tokens_done(struct gw_own_tokens *tokens);

#endif
