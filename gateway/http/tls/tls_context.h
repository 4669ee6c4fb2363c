// The gateway's TLS side: one SSL_CTX built from certificate, key and ticket key files, replaced as
// a whole on reload and when ticket keys or the development certificate are due. TLS 1.3 only; ALPN
// `h2`, else `http/1.1`, which a client that says nothing gets, too; stateless session tickets
// whose keys survive a restart (ticket_keys.h).
#ifndef GW_TLS_CONTEXT_H
#define GW_TLS_CONTEXT_H

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"

#include <openssl/ssl.h>

struct gw_early_guard;

// Paths of the files. With `make_certificate` a missing pair is made, and one that soon runs out
// made anew: the development certificate (dev_certificate.h). Missing ticket keys are always made.
// All of mode 0600.
struct gw_tls_files {
    const char *certificate; // PEM, leaf first
    const char *key;         // PEM
    const char *ticket_key;  // ticket_keys.h
    const char *client_ca;   // PEM: who signs clients' certificates; empty: none are asked for
    bool make_certificate;
    uint64_t ticket_period_s;     // a new ticket key after so long; 0: never
    uint64_t now_s;               // wall clock
    uint32_t early_bytes;         // early data a connection may bring; 0: none
    struct gw_early_guard *guard; // asked whether it may; NULL: no early data
};

// IO, INVALID, NOMEM with a text that names the file. The caller owns the context
// (SSL_CTX_up_ref / SSL_CTX_free).
BASE_NODISCARD enum base_status gw_tls_context_new(const struct gw_tls_files *files,
                                                   const struct base_log *log,
                                                   SSL_CTX **out_context, struct base_error *error);
// Would gw_tls_context_new take the files there are? Nothing is made or written. IO, INVALID,
// NOMEM.
BASE_NODISCARD enum base_status gw_tls_files_check(const struct gw_tls_files *files,
                                                   struct base_error *error);
// Would gw_tls_context_new put another key or certificate in place of one there is?
bool gw_tls_context_due(const struct gw_tls_files *files);
// The DNS names of the context's certificate. False: `each` said false.
bool gw_tls_context_names(const SSL_CTX *context, bool (*each)(void *ctx, struct base_str name),
                          void *ctx);

#endif
