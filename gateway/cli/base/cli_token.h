// The bearer token of a call: as given, or the one that a gateway of this user on this machine left
// word of (base/os/gateway_note.h).
#ifndef CLI_TOKEN_H
#define CLI_TOKEN_H

#include "base/os/gateway_note.h"
#include "cli/base/cli.h"
#include "cli/base/cli_http.h"

struct cli_token {
    const char *text; // NULL: none
    bool found;       // by a note: to be sent to `note.address` alone, while the note holds
    struct base_gateway_found note;
};

// --token, else WALLE_TOKEN, else what a note about the URL says; an empty text given means none. A
// note that nobody should trust is said on standard error, once, and not used. `out` must stay
// where it is.
void cli_token_choose(const struct cli *cli, const char *url, struct cli_token *out);
// Whether a token that was found may still be sent. Asked when the connection is there.
bool cli_token_holds(const struct cli *cli, const char *url, const struct cli_token *token);

// Where a browser finds the console of the gateway of this URL: there, or, for a clear one, at the
// TLS address the gateway noted. False: not known.
bool cli_token_browse(const struct cli *cli, const char *url, char out[CLI_HTTP_URL_MAX]);

#endif
