// Signing of releases with Ed25519 (RFC 8032), on OpenSSL: the only place that holds the
// private keys of people. The gateway's own are in http/secret/online_keys.c.
//
// A key file is PKCS #8 PEM, readable by its owner alone; beside it FILE.pub holds the public key
// as 64 hex digits. The gateway never sees such a key: it stores and hands out statements that
// devices verify.
#ifndef SIGNING_H
#define SIGNING_H

#include "base/error.h"
#include "wire/trust/root.h"
#include "wire/trust/statement.h"

struct signing_key; // an opened private key

// Draws a key pair. IO when the system gives no randomness, NOMEM.
BASE_NODISCARD enum base_status signing_key_new(struct signing_key **out_key);
// Reads a PEM file. IO: cannot read; INVALID: no Ed25519 private key in it. `error` says which.
BASE_NODISCARD enum base_status signing_key_load(const char *path, struct signing_key **out_key,
                                                 struct base_error *error);
// Writes PEM, mode 0600; never replaces a file. EXISTS, IO.
BASE_NODISCARD enum base_status signing_key_save(const struct signing_key *key, const char *path,
                                                 struct base_error *error);
// The key of 32 bytes (RFC 8032, section 5.1.5), as a gateway keeps its own. NOMEM.
#define SIGNING_SEED_BYTES 32
BASE_NODISCARD enum base_status signing_key_of_seed(const uint8_t seed[SIGNING_SEED_BYTES],
                                                    struct signing_key **out_key);
// One signature over bytes. NOMEM.
BASE_NODISCARD enum base_status signing_key_sign(const struct signing_key *key,
                                                 const uint8_t *bytes, size_t size,
                                                 uint8_t out[WIRE_SIGNATURE_BYTES]);
void signing_key_free(struct signing_key *key); // accepts NULL
void signing_key_public(const struct signing_key *key, uint8_t out[WIRE_PUBLIC_KEY_BYTES]);

// Several people sign: the keys of one invocation.
#define SIGNING_KEYS_MAX WIRE_STATEMENT_SIGNATURES
struct signing_keys {
    struct signing_key *keys[SIGNING_KEYS_MAX];
    uint32_t count;
};
// Loads the files named in `paths`, one a line. IO, INVALID, LIMIT, EXISTS (one key twice).
BASE_NODISCARD enum base_status signing_keys_load(const char *paths, struct signing_keys *out,
                                                  struct base_error *error);
void signing_keys_done(struct signing_keys *keys);

// Bytes of `envelope` with a signature by each key added: to a payload that nobody signed yet, or
// to the signatures of others (a key that signed already is replaced). INVALID, TOO_LARGE (past
// `capacity`, or more than WIRE_STATEMENT_SIGNATURES), NOMEM.
BASE_NODISCARD enum base_status signing_envelope(const struct signing_keys *keys,
                                                 const struct wire_envelope *envelope, uint8_t *out,
                                                 size_t capacity, size_t *out_size);
BASE_NODISCARD enum base_status signing_release_all(const struct signing_keys *keys,
                                                    const struct wire_release *release,
                                                    uint8_t *out, size_t capacity,
                                                    size_t *out_size);
// SHA-256 and Ed25519 of this program, for wire/trust/root.h.
struct wire_verifier signing_verifier(void);
// Its check of one Ed25519 signature, for ports that have the same form; `ctx` is not looked at.
// SIGNATURE.
BASE_NODISCARD enum base_status signing_verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                               const uint8_t *message, size_t size,
                                               const uint8_t signature[WIRE_SIGNATURE_BYTES]);

// Envelope of `release` with one signature by `key`. INVALID, TOO_LARGE (past `capacity` or
// WIRE_STATEMENT_BYTES_MAX), NOMEM.
BASE_NODISCARD enum base_status signing_release(const struct signing_key *key,
                                                const struct wire_release *release, uint8_t *out,
                                                size_t capacity, size_t *out_size);

// SHA-256 of bytes. NOMEM.
BASE_NODISCARD enum base_status signing_sha256(const void *bytes, size_t size,
                                               struct wire_sha256 *out_digest);

#endif
