// Who a client certificate says its bearer is. The certificate has been verified by the handshake.
#ifndef GW_TLS_IDENTITY_H
#define GW_TLS_IDENTITY_H

#include "base/str.h"

#include <openssl/ssl.h>

#define GW_TLS_TENANT_MAX 32u

// A device: the subject's common name is its id, 16 lower-case hex digits; the organisation, when
// there is one, its tenant.
struct gw_tls_identity {
    uint64_t device_id;
    uint8_t tenant_bytes;
    char tenant[GW_TLS_TENANT_MAX];
};

// What the peer's certificate names, to free(). NULL: no certificate, or it names no device.
struct gw_tls_identity *gw_tls_identity_of(const SSL *ssl);

#endif
