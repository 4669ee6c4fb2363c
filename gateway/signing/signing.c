// Ed25519 keys and signed statements, on OpenSSL. Called by the command (keys, releases, roots:
// gateway/cli), by the simulator for evidence, and by tests, each on one thread. The gateway uses
// signing_verify alone, on its own online keys (http/secret/online_keys.c), and never loads a
// private key through this file. It is a library of its own so that `walle` and walle-fleet-sim
// need nothing else of the gateway.
#include "signing/signing.h"

#include "base/os/errno_status.h"
#include "base/os/private_file.h"
#include "ed25519/ed25519_verify.h"

#include <openssl/evp.h>
#include <openssl/pem.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIGNED_BYTES_MAX (WIRE_STATEMENT_BYTES_MAX + 64)

struct signing_key {
    EVP_PKEY *pkey;
    uint8_t public_key[WIRE_PUBLIC_KEY_BYTES];
};

// Takes `pkey`, success or failure.
static enum base_status key_take(EVP_PKEY *pkey, struct signing_key **out_key)
{
    size_t size = WIRE_PUBLIC_KEY_BYTES;
    struct signing_key *key = calloc(1, sizeof(*key));

    if (key == NULL) {
        EVP_PKEY_free(pkey);
        return BASE_ERR_NOMEM;
    }
    key->pkey = pkey;
    if (EVP_PKEY_get_raw_public_key(pkey, key->public_key, &size) != 1 ||
        size != WIRE_PUBLIC_KEY_BYTES) {
        signing_key_free(key);
        return BASE_ERR_INVALID;
    }
    *out_key = key;
    return BASE_OK;
}

enum base_status signing_key_new(struct signing_key **out_key)
{
    EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");

    return pkey == NULL ? BASE_ERR_IO : key_take(pkey, out_key);
}

enum base_status signing_key_of_seed(const uint8_t seed[SIGNING_SEED_BYTES],
                                     struct signing_key **out_key)
{
    EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, SIGNING_SEED_BYTES);

    return pkey == NULL ? BASE_ERR_NOMEM : key_take(pkey, out_key);
}

enum base_status signing_key_load(const char *path, struct signing_key **out_key,
                                  struct base_error *error)
{
    int fd = -1;
    BASE_TRY(base_private_open(path, false, &fd, error));
    FILE *file = fdopen(fd, "r");
    if (file == NULL) {
        close(fd);
        return base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
    }
    EVP_PKEY *pkey = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    if (pkey == NULL || EVP_PKEY_get_id(pkey) != EVP_PKEY_ED25519) {
        EVP_PKEY_free(pkey);
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s: no Ed25519 private key in it (walle key new makes one)", path);
    }
    enum base_status status = key_take(pkey, out_key);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "%s: %s", path, base_status_text(status));
}

enum base_status signing_key_save(const struct signing_key *key, const char *path,
                                  struct base_error *error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return base_error_set(error, errno == EEXIST ? BASE_ERR_EXISTS : BASE_ERR_IO, "%s: %s",
                              path, strerror(errno));
    }
    FILE *file = fdopen(fd, "w");
    if (file == NULL) {
        close(fd);
        return base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
    }
    errno = 0; // the PEM writer need not be stopped by the system
    bool written = PEM_write_PKCS8PrivateKey(file, key->pkey, NULL, NULL, 0, NULL, NULL) == 1 &&
                   fflush(file) == 0 && fsync(fd) == 0;
    int number = written ? 0 : errno;
    if (fclose(file) != 0 && written) {
        number = errno;
        written = false;
    }
    if (written) {
        return BASE_OK;
    }
    (void)unlink(path);
    return base_error_set(error, number != 0 ? base_status_of_errno(number) : BASE_ERR_IO,
                          "%s: cannot write the key%s%s", path, number != 0 ? ": " : "",
                          number != 0 ? strerror(number) : "");
}

void signing_key_free(struct signing_key *key)
{
    if (key != NULL) {
        EVP_PKEY_free(key->pkey);
        free(key);
    }
}

void signing_key_public(const struct signing_key *key, uint8_t out[WIRE_PUBLIC_KEY_BYTES])
{
    memcpy(out, key->public_key, WIRE_PUBLIC_KEY_BYTES);
}

enum base_status signing_key_sign(const struct signing_key *key, const uint8_t *bytes, size_t size,
                                  uint8_t out[WIRE_SIGNATURE_BYTES])
{
    size_t signature_size = WIRE_SIGNATURE_BYTES;
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    if (context == NULL) {
        return BASE_ERR_NOMEM;
    }
    bool signed_ok = EVP_DigestSignInit(context, NULL, NULL, NULL, key->pkey) == 1 &&
                     EVP_DigestSign(context, out, &signature_size, bytes, size) == 1 &&
                     signature_size == WIRE_SIGNATURE_BYTES;
    EVP_MD_CTX_free(context);
    return signed_ok ? BASE_OK : BASE_ERR_NOMEM;
}

// What is signed of an envelope: the payload, or its hash.
static enum base_status signed_bytes(const struct wire_envelope *envelope,
                                     uint8_t message[SIGNED_BYTES_MAX], size_t *out_size)
{
    struct wire_sha256 digest;
    const uint8_t *payload = envelope->payload;
    size_t payload_bytes = envelope->payload_bytes;

    if (wire_envelope_is_hashed(envelope->type)) {
        BASE_TRY(signing_sha256(payload, payload_bytes, &digest));
        payload = digest.bytes;
        payload_bytes = sizeof(digest.bytes);
    }
    return wire_envelope_signed_bytes(envelope->type, (struct base_span){payload, payload_bytes},
                                      message, SIGNED_BYTES_MAX, out_size);
}

static enum base_status add_signature(const struct signing_key *key, const uint8_t *message,
                                      size_t size, struct wire_envelope *envelope)
{
    struct wire_sha256 key_id;
    uint32_t at = 0;

    BASE_TRY(signing_sha256(key->public_key, sizeof(key->public_key), &key_id));
    while (at < envelope->signature_count &&
           memcmp(envelope->signatures[at].key_id, key_id.bytes, sizeof(key_id.bytes)) != 0) {
        at++;
    }
    if (at == WIRE_STATEMENT_SIGNATURES) {
        return BASE_ERR_TOO_LARGE;
    }
    memcpy(envelope->signatures[at].key_id, key_id.bytes, sizeof(key_id.bytes));
    BASE_TRY(signing_key_sign(key, message, size, envelope->signatures[at].bytes));
    envelope->signature_count += at == envelope->signature_count ? 1 : 0;
    return BASE_OK;
}

enum base_status signing_envelope(const struct signing_keys *keys,
                                  const struct wire_envelope *envelope, uint8_t *out,
                                  size_t capacity, size_t *out_size)
{
    struct wire_envelope with = *envelope;
    uint8_t message[SIGNED_BYTES_MAX];
    size_t size = 0;

    BASE_TRY(signed_bytes(envelope, message, &size));
    for (uint32_t i = 0; i < keys->count; i++) {
        BASE_TRY(add_signature(keys->keys[i], message, size, &with));
    }
    return wire_envelope_encode(&with, out, capacity, out_size);
}

enum base_status signing_release_all(const struct signing_keys *keys,
                                     const struct wire_release *release, uint8_t *out,
                                     size_t capacity, size_t *out_size)
{
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_RELEASE, .payload = payload};

    BASE_TRY(wire_release_encode(release, payload, sizeof(payload), &envelope.payload_bytes));
    return signing_envelope(keys, &envelope, out, capacity, out_size);
}

enum base_status signing_release(const struct signing_key *key, const struct wire_release *release,
                                 uint8_t *out, size_t capacity, size_t *out_size)
{
    struct signing_keys keys = {.count = 1};

    keys.keys[0] = (struct signing_key *)(uintptr_t)key; // only read
    return signing_release_all(&keys, release, out, capacity, out_size);
}

// ---- Several keys, and verifying

enum base_status signing_keys_load(const char *paths, struct signing_keys *out,
                                   struct base_error *error)
{
    memset(out, 0, sizeof(*out));
    for (const char *at = paths; *at != '\0';) {
        char path[1024];
        size_t size = strcspn(at, "\n");
        if (size >= sizeof(path) || out->count == SIGNING_KEYS_MAX) {
            signing_keys_done(out);
            return base_error_set(error, BASE_ERR_LIMIT, "more than %d keys, or a path too long",
                                  SIGNING_KEYS_MAX);
        }
        memcpy(path, at, size);
        path[size] = '\0';
        at += size + (at[size] == '\n' ? 1 : 0);
        enum base_status status = signing_key_load(path, &out->keys[out->count], error);
        if (status != BASE_OK) {
            signing_keys_done(out);
            return status;
        }
        out->count++;
        for (uint32_t i = 0; i + 1 < out->count; i++) {
            if (memcmp(out->keys[i]->public_key, out->keys[out->count - 1]->public_key,
                       WIRE_PUBLIC_KEY_BYTES) == 0) {
                signing_keys_done(out);
                return base_error_set(error, BASE_ERR_EXISTS, "%s: the same key twice", path);
            }
        }
    }
    return BASE_OK;
}

void signing_keys_done(struct signing_keys *keys)
{
    for (uint32_t i = 0; i < keys->count; i++) {
        signing_key_free(keys->keys[i]);
    }
    memset(keys, 0, sizeof(*keys));
}

static void verifier_sha256(void *ctx, const void *bytes, size_t size,
                            const struct wire_sha256 *hoped, struct wire_sha256 *out)
{
    (void)ctx;
    (void)hoped;
    if (signing_sha256(bytes, size, out) != BASE_OK) {
        memset(out, 0, sizeof(*out));
    }
}

enum base_status signing_verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                const uint8_t *message, size_t size,
                                const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    (void)ctx;
    return ed25519_verify(key, message, size, signature);
}

struct wire_verifier signing_verifier(void)
{
    return (struct wire_verifier){NULL, verifier_sha256, signing_verify};
}

enum base_status signing_sha256(const void *bytes, size_t size, struct wire_sha256 *out_digest)
{
    unsigned digest_size = 0;

    if (EVP_Digest(bytes, size, out_digest->bytes, &digest_size, EVP_sha256(), NULL) != 1) {
        return BASE_ERR_NOMEM;
    }
    return BASE_OK;
}
