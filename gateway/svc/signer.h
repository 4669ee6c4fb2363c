// The online keys as a port: what signs timestamps, snapshots and the director's answers, and what
// checks a root before it is served. The gateway never holds a release or root key.
//
// The program implements it (http/secret/online_keys.c); tests bring their own. Both functions may
// be called from any thread at once.
#ifndef GW_SIGNER_H
#define GW_SIGNER_H

#include "wire/digest.h"

#include <stddef.h>

enum gw_online_role {
    GW_ONLINE_TIMESTAMP,
    GW_ONLINE_SNAPSHOT,
    GW_ONLINE_DIRECTOR,
    GW_ONLINE_COUNT
};

struct gw_signer_port {
    void *ctx;
    uint8_t keys[GW_ONLINE_COUNT][WIRE_PUBLIC_KEY_BYTES];
    const char *places[GW_ONLINE_COUNT]; // where each is kept, for the log; NULL: nowhere to say
    enum base_status (*sign)(void *ctx, enum gw_online_role role, const uint8_t *message,
                             size_t size, uint8_t out[WIRE_SIGNATURE_BYTES]);
    // Ed25519. OK or SIGNATURE.
    enum base_status (*verify)(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                               const uint8_t *message, size_t size,
                               const uint8_t signature[WIRE_SIGNATURE_BYTES]);
};

#endif
