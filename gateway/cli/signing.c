// Ed25519 keys and signed release statements, on OpenSSL. Called by the commands `key new` and
// `rollout start`, and by tests; one thread.
#include "cli/signing.h"

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

enum base_status signing_key_load(const char *path, struct signing_key **out_key,
                                  struct base_error *error)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
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
    bool written = PEM_write_PKCS8PrivateKey(file, key->pkey, NULL, NULL, 0, NULL, NULL) == 1;
    written = fflush(file) == 0 && fsync(fd) == 0 && written;
    if (fclose(file) != 0 || !written) {
        (void)unlink(path);
        return base_error_set(error, BASE_ERR_IO, "%s: cannot write the key", path);
    }
    return BASE_OK;
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

static enum base_status sign_bytes(const struct signing_key *key, const uint8_t *bytes, size_t size,
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

enum base_status signing_release(const struct signing_key *key, const struct wire_release *release,
                                 uint8_t *out, size_t capacity, size_t *out_size)
{
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    uint8_t message[SIGNED_BYTES_MAX];
    size_t payload_size = 0;
    size_t message_size = 0;
    struct wire_sha256 key_id;
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_RELEASE, .signature_count = 1};

    BASE_TRY(wire_release_encode(release, payload, sizeof(payload), &payload_size));
    BASE_TRY(wire_envelope_signed_bytes(envelope.type, payload, payload_size, message,
                                        sizeof(message), &message_size));
    BASE_TRY(signing_sha256(key->public_key, sizeof(key->public_key), &key_id));
    memcpy(envelope.signatures[0].key_id, key_id.bytes, sizeof(key_id.bytes));
    BASE_TRY(sign_bytes(key, message, message_size, envelope.signatures[0].bytes));
    envelope.payload = payload;
    envelope.payload_bytes = payload_size;
    return wire_envelope_encode(
        &envelope, out, capacity < WIRE_STATEMENT_BYTES_MAX ? capacity : WIRE_STATEMENT_BYTES_MAX,
        out_size);
}

enum base_status signing_sha256(const void *bytes, size_t size, struct wire_sha256 *out_digest)
{
    unsigned digest_size = 0;

    if (EVP_Digest(bytes, size, out_digest->bytes, &digest_size, EVP_sha256(), NULL) != 1) {
        return BASE_ERR_NOMEM;
    }
    return BASE_OK;
}
