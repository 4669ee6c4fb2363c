// How `walle` finds the token of a gateway of the same user on the same machine.
//
// A gateway leaves a note for each address it listens on, in walle/gateways of its user's state
// folder (base/os/private_file.h): a file named like the address that holds the path of the token
// file, never the token. It keeps the file locked while it listens, and takes it away before it
// stops listening. So a note that can be locked is of a gateway that died: nobody believes it, and
// whoever finds it removes it. That matters because the port of a dead gateway is free: another
// user's program may listen there now, and would be shown the token.
//
// A token found like this goes to this machine or to the very address the gateway noted, and in
// clear text to this machine alone.
#ifndef BASE_GATEWAY_NOTE_H
#define BASE_GATEWAY_NOTE_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define BASE_GATEWAY_ADDRESS_MAX    64   // characters of ADDR:PORT or [ADDR]:PORT
#define BASE_GATEWAY_TOKEN_MAX      512  // bytes of a token in a file
#define BASE_GATEWAY_NOTE_BYTES_MAX 8192 // bytes of a note
#define BASE_GATEWAY_NOTE_TRIES     50   // to lock it, 10 ms apart: a reader holds it for a moment
#define BASE_GATEWAY_NOTES_SWEPT                                                                   \
    1024 // looked at when one is made, so that dead ones do not pile up

struct base_gateway_note;

// Notes that who asks for `address` (numeric, with its port) finds its token in `token_path`, a
// file that is there, and its console at `tls_address` ("": nowhere). The note lives until
// base_gateway_note_free. INVALID, LIMIT (another gateway that lives has noted the address), NOMEM,
// IO; NOT_FOUND: this user has no home.
BASE_NODISCARD enum base_status base_gateway_note_new(const char *address, const char *token_path,
                                                      const char *tls_address,
                                                      struct base_gateway_note **out_note,
                                                      struct base_error *error);
// Takes the note away. Before the address is given up. Accepts NULL.
void base_gateway_note_free(struct base_gateway_note *note);

// Whom a request is for.
struct base_gateway_target {
    struct base_str host; // as in a URL: a numeric IPv6 address in brackets
    uint16_t port;
    bool sealed; // TLS, and the certificate is checked
};

struct base_gateway_found {
    char token[BASE_GATEWAY_TOKEN_MAX];
    // Where the gateway is for sure: localhost may lead elsewhere.
    char address[BASE_GATEWAY_ADDRESS_MAX];
    char tls_address[BASE_GATEWAY_ADDRESS_MAX]; // of the same gateway, for browsers; empty: none
};

// NOT_FOUND: no gateway of this user noted the target, or the token may not go there (`error` is
// left alone). INVALID, IO: a note or a token file that nobody should trust, and why.
BASE_NODISCARD enum base_status base_gateway_note_find(const struct base_gateway_target *target,
                                                       struct base_gateway_found *out,
                                                       struct base_error *error);

#endif
