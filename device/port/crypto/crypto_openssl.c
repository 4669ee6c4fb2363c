// The device's cryptography on OpenSSL: SHA-256 (with the processor's own instructions where it has
// them) and Ed25519.
//
// Stateless: any thread. The streaming hash lives wholly in the caller's struct dev_hash_state.
// OpenSSL's low-level SHA256 calls are deprecated in favour of EVP, whose contexts are allocated; a
// device must be able to hash without allocating, and the low-level calls run the same code.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "device/port.h"

#include "ed25519/ed25519_verify.h"

#include <openssl/sha.h>

_Static_assert(sizeof(SHA256_CTX) <= sizeof(struct dev_hash_state), "the state holds a SHA-256");
_Static_assert(_Alignof(SHA256_CTX) <= _Alignof(struct dev_hash_state), "and is aligned for it");

static SHA256_CTX *context_of(struct dev_hash_state *state)
{
    return (SHA256_CTX *)(void *)state->opaque;
}

static void hash_begin(void *ctx, struct dev_hash_state *state, const struct wire_sha256 *expected)
{
    (void)ctx;
    (void)expected;
    (void)SHA256_Init(context_of(state));
}

static void hash_update(void *ctx, struct dev_hash_state *state, const uint8_t *bytes, size_t size)
{
    (void)ctx;
    (void)SHA256_Update(context_of(state), bytes, size);
}

static void hash_end(void *ctx, struct dev_hash_state *state, struct wire_sha256 *out_digest)
{
    (void)ctx;
    (void)SHA256_Final(out_digest->bytes, context_of(state));
}

static enum base_status verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                               const uint8_t *message, size_t size,
                               const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    (void)ctx;
    return ed25519_verify(key, message, size, signature);
}

const struct dev_crypto_port *dev_crypto_openssl(void)
{
    static const struct dev_crypto_port port = {
        .hash_begin = hash_begin,
        .hash_update = hash_update,
        .hash_end = hash_end,
        .verify = verify,
    };
    return &port;
}
