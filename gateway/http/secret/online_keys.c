// Online keys on OpenSSL. Opened on the main thread at start; signing and verifying from any
// thread: a key is not changed after it was made. gateway_main.c opens them and hands the core a
// port to sign with, so the core never sees a private key. A file of zeros, which is what a torn
// disk leaves, is no key and is refused.
#include "http/secret/online_keys.h"

#include "http/secret/secret_file.h"
#include "signing/signing.h"

#include <openssl/evp.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEED_BYTES 32 // a private key (RFC 8032 section 5.1.5)

struct gw_online_keys {
    EVP_PKEY *keys[GW_ONLINE_COUNT];
    char paths[GW_ONLINE_COUNT][PATH_MAX];
    struct gw_signer_port port;
};

static const char *const names[GW_ONLINE_COUNT] = {"timestamp", "snapshot", "director"};

static enum base_status sign(void *ctx, enum gw_online_role role, const uint8_t *message,
                             size_t size, uint8_t out[WIRE_SIGNATURE_BYTES])
{
    const struct gw_online_keys *keys = ctx;
    size_t out_size = WIRE_SIGNATURE_BYTES;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context == NULL) {
        return BASE_ERR_NOMEM;
    }
    bool ok = EVP_DigestSignInit(context, NULL, NULL, NULL, keys->keys[role]) == 1 &&
              EVP_DigestSign(context, out, &out_size, message, size) == 1 &&
              out_size == WIRE_SIGNATURE_BYTES;
    EVP_MD_CTX_free(context);
    return ok ? BASE_OK : BASE_ERR_NOMEM;
}

static EVP_PKEY *draw(uint8_t seed[SEED_BYTES])
{
    size_t size = SEED_BYTES;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (key != NULL && EVP_PKEY_get_raw_private_key(key, seed, &size) != 1) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    return key;
}

// A key that is there. A file of zeros is what a disk leaves of one, and a key that everybody
// knows.
static enum base_status read_seed(const char *path, uint8_t seed[SEED_BYTES],
                                  struct base_error *error)
{
    static const uint8_t zeros[SEED_BYTES];
    static const char advice[] = "restore it from a copy, or remove it and name the key that is "
                                 "made in a next root (walle root rotate)";
    struct base_error why = {0};
    enum base_status status = gw_secret_file_read(path, seed, SEED_BYTES, &why);
    struct stat about;
    bool cut = status == BASE_ERR_INVALID && stat(path, &about) == 0 && S_ISREG(about.st_mode) &&
               about.st_size != SEED_BYTES;
    if (cut || (status == BASE_OK && memcmp(seed, zeros, SEED_BYTES) == 0)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s is damaged (%s): %s", path,
                              cut ? "not 32 bytes" : "zeros", advice);
    }
    return status == BASE_OK ? BASE_OK : base_error_set(error, status, "%s", why.text);
}

static enum base_status open_one(struct gw_online_keys *keys, const char *dir,
                                 enum gw_online_role role, struct base_error *error)
{
    char *path = keys->paths[role];
    uint8_t seed[SEED_BYTES];
    struct stat about;
    int length = snprintf(path, PATH_MAX, "%s/keys/%s.key", dir, names[role]);
    if (length < 0 || length >= PATH_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "path too long: %.100s", dir);
    }
    keys->port.places[role] = path;
    if (stat(path, &about) != 0 && errno == ENOENT) {
        keys->keys[role] = draw(seed);
        if (keys->keys[role] != NULL) {
            BASE_TRY(gw_secret_file_write(path, seed, sizeof(seed), error));
        }
    } else {
        BASE_TRY(read_seed(path, seed, error));
        keys->keys[role] = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof(seed));
    }
    explicit_bzero(seed, sizeof(seed));
    size_t size = WIRE_PUBLIC_KEY_BYTES;
    if (keys->keys[role] == NULL ||
        EVP_PKEY_get_raw_public_key(keys->keys[role], keys->port.keys[role], &size) != 1) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: not an Ed25519 key", path);
    }
    return BASE_OK;
}

enum base_status gw_online_keys_open(const char *dir, struct gw_online_keys **out_keys,
                                     struct base_error *error)
{
    char folder[PATH_MAX];
    int length = snprintf(folder, sizeof(folder), "%s/keys", dir);
    if (length < 0 || (size_t)length >= sizeof(folder)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "path too long: %.100s", dir);
    }
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return base_error_set(error, BASE_ERR_IO, "%s: %s", folder, strerror(errno));
    }
    struct gw_online_keys *keys = calloc(1, sizeof(*keys));
    if (keys == NULL) {
        return BASE_ERR_NOMEM;
    }
    keys->port.ctx = keys;
    keys->port.sign = sign;
    keys->port.verify = signing_verify;
    for (int role = 0; role < GW_ONLINE_COUNT; role++) {
        enum base_status status = open_one(keys, dir, (enum gw_online_role)role, error);
        if (status != BASE_OK) {
            gw_online_keys_free(keys);
            return status;
        }
    }
    *out_keys = keys;
    return BASE_OK;
}

enum base_status gw_online_keys_check(const char *dir, struct base_error *error)
{
    char path[PATH_MAX];
    uint8_t seed[SEED_BYTES];
    for (int role = 0; role < GW_ONLINE_COUNT; role++) {
        int length = snprintf(path, sizeof(path), "%s/keys/%s.key", dir, names[role]);
        if (length < 0 || (size_t)length >= sizeof(path)) {
            return base_error_set(error, BASE_ERR_TOO_LARGE, "path too long: %.100s", dir);
        }
        if (access(path, F_OK) == 0) {
            BASE_TRY(read_seed(path, seed, error));
            explicit_bzero(seed, sizeof(seed));
        }
    }
    return BASE_OK;
}

void gw_online_keys_free(struct gw_online_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    for (int role = 0; role < GW_ONLINE_COUNT; role++) {
        EVP_PKEY_free(keys->keys[role]);
    }
    free(keys);
}

const struct gw_signer_port *gw_online_keys_port(const struct gw_online_keys *keys)
{
    return &keys->port;
}
