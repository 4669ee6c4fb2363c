// Whether a signature is good: Ed25519 (RFC 8032) on OpenSSL. The one place that asks it, for the
// device's port of cryptography and for the verifier of gateway/signing.
#ifndef ED25519_VERIFY_H
#define ED25519_VERIFY_H

#include "base/status.h"
#include "wire/trust/root.h"

// SIGNATURE: it is not that key's over these bytes, the key is none, or there is no memory. Any
// thread.
BASE_NODISCARD enum base_status ed25519_verify(const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                               const uint8_t *message, size_t size,
                                               const uint8_t signature[WIRE_SIGNATURE_BYTES]);

#endif
