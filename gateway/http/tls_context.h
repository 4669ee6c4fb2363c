// The gateway's TLS side: one SSL_CTX built from certificate, key and ticket key files, replaced as
// a whole on reload. TLS 1.3 only, ALPN `h2` required, stateless session tickets whose key survives
// a restart.
#ifndef GW_TLS_CONTEXT_H
#define GW_TLS_CONTEXT_H

#include "base/error.h"
#include "base/log.h"

#include <openssl/ssl.h>

struct gw_early_guard;

// Paths of the files. With `make_certificate` a missing pair is made: a self-signed ECDSA
// certificate for localhost, 127.0.0.1 and ::1 (development). A missing ticket key is always made.
// All of mode 0600.
struct gw_tls_files {
    const char *certificate; // PEM, leaf first
    const char *key;         // PEM
    const char *ticket_key;  // GW_TLS_TICKET_KEY_BYTES of random bytes
    const char *client_ca;   // PEM: who signs clients' certificates; empty: none are asked for
    bool make_certificate;
    uint32_t early_bytes;         // early data a connection may bring; 0: none
    struct gw_early_guard *guard; // asked whether it may; NULL: no early data
};

#define GW_TLS_TICKET_KEY_BYTES 80

// IO, INVALID, NOMEM with a text that names the file. The caller owns the context
// (SSL_CTX_up_ref / SSL_CTX_free).
BASE_NODISCARD enum base_status gw_tls_context_new(const struct gw_tls_files *files,
                                                   const struct base_log *log,
                                                   SSL_CTX **out_context, struct base_error *error);

#endif
