// Session ticket keys: their file, their turnover, and OpenSSL's callback. The file is touched on
// the main thread; the callback runs on every worker's, on a copy that nobody changes.
// tls_context.c calls. A context owns its copy and wipes it when it goes; a new key means a new
// context. Tickets are stateless: what opens one is in this file alone, so a restart ends none.
#include "http/secret/ticket_keys.h"

#include "base/cursor.h"
#include "http/secret/secret_file.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC      UINT64_C(0x31737965656b7477)
#define FILE_BYTES (8u + GW_TICKET_KEYS_MAX * (8u + GW_TICKET_KEY_BYTES))
#define NAME_BYTES 16u
#define MAC_AT     NAME_BYTES
#define AES_AT     (NAME_BYTES + 32u)
#define IV_BYTES   16

static int data_index = -1; // of the copy in a context
static pthread_once_t data_once = PTHREAD_ONCE_INIT;

// ---- The file

static enum base_status parse(const uint8_t *bytes, size_t size, struct gw_ticket_keys *out)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    if (base_reader_u64(&reader) != MAGIC) {
        return BASE_ERR_INVALID;
    }
    for (unsigned i = 0; i < GW_TICKET_KEYS_MAX; i++) {
        out->keys[i].made_s = base_reader_u64(&reader);
        base_reader_copy(&reader, out->keys[i].bytes, GW_TICKET_KEY_BYTES);
    }
    return base_reader_finish(&reader);
}

static enum base_status read_file(const char *path, uint64_t now_s, struct gw_ticket_keys *out,
                                  struct base_error *error)
{
    struct stat about;
    uint8_t bytes[FILE_BYTES];
    if (stat(path, &about) != 0) {
        return BASE_OK; // none yet
    }
    if (about.st_size == GW_TICKET_KEY_BYTES) {
        out->keys[0].made_s = now_s;
        return gw_secret_file_read(path, out->keys[0].bytes, GW_TICKET_KEY_BYTES, error);
    }
    enum base_status status = gw_secret_file_read(path, bytes, sizeof(bytes), error);
    if (status == BASE_OK && parse(bytes, sizeof(bytes), out) != BASE_OK) {
        status = base_error_set(error, BASE_ERR_INVALID,
                                "%s: no ticket keys; remove it, and all tickets end", path);
    }
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return status;
}

static enum base_status write_file(const char *path, const struct gw_ticket_keys *keys,
                                   struct base_error *error)
{
    uint8_t bytes[FILE_BYTES];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_u64(&writer, MAGIC);
    for (unsigned i = 0; i < GW_TICKET_KEYS_MAX; i++) {
        base_writer_u64(&writer, keys->keys[i].made_s);
        base_writer_bytes(&writer, keys->keys[i].bytes, GW_TICKET_KEY_BYTES);
    }
    enum base_status status = gw_secret_file_write(path, bytes, sizeof(bytes), error);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return status;
}

// ---- Turnover

bool gw_ticket_keys_due(const struct gw_ticket_keys *keys, uint64_t now_s, uint64_t period_s)
{
    uint64_t made_s = keys->keys[0].made_s;
    return made_s == 0 || (period_s != 0 && now_s >= made_s && now_s - made_s >= period_s);
}

// A key is done with when no ticket that it sealed lives: the one in front of it was made longer
// ago than that.
static void drop_old(struct gw_ticket_keys *keys, uint64_t now_s)
{
    for (unsigned i = 1; i < GW_TICKET_KEYS_MAX; i++) {
        uint64_t replaced_s = keys->keys[i - 1].made_s;
        if (replaced_s == 0 || (now_s > replaced_s && now_s - replaced_s > GW_TICKET_LIFE_S)) {
            OPENSSL_cleanse(&keys->keys[i], sizeof(keys->keys[i]));
        }
    }
}

static bool put_new(struct gw_ticket_keys *keys, uint64_t now_s)
{
    memmove(&keys->keys[1], &keys->keys[0], (GW_TICKET_KEYS_MAX - 1) * sizeof(keys->keys[0]));
    keys->keys[0].made_s = now_s > 0 ? now_s : 1;
    return RAND_bytes(keys->keys[0].bytes, GW_TICKET_KEY_BYTES) == 1;
}

enum base_status gw_ticket_keys_load(const char *path, uint64_t now_s, uint64_t period_s,
                                     struct gw_ticket_keys *out, struct base_error *error)
{
    struct gw_ticket_keys keys = {0};
    enum base_status status = read_file(path, now_s, &keys, error);
    // A clock that was ahead when a key was made would keep it for as long.
    for (unsigned i = 0; i < GW_TICKET_KEYS_MAX; i++) {
        keys.keys[i].made_s = keys.keys[i].made_s > now_s ? now_s : keys.keys[i].made_s;
    }
    if (status == BASE_OK && gw_ticket_keys_due(&keys, now_s, period_s)) {
        status = put_new(&keys, now_s)
                     ? BASE_OK
                     : base_error_set(error, BASE_ERR_IO, "%s: no random bytes", path);
        drop_old(&keys, now_s);
        if (status == BASE_OK) {
            status = write_file(path, &keys, error);
        }
    }
    if (status == BASE_OK) {
        *out = keys;
    }
    OPENSSL_cleanse(&keys, sizeof(keys));
    return status;
}

// ---- OpenSSL

static void wipe(void *parent, void *data, CRYPTO_EX_DATA *all, int index, long number,
                 void *pointer)
{
    (void)parent;
    (void)all;
    (void)index;
    (void)number;
    (void)pointer;
    OPENSSL_clear_free(data, sizeof(struct gw_ticket_keys));
}

static void make_data_index(void)
{
    data_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, wipe);
}

static bool start(const struct gw_ticket_key *key, const unsigned char *iv, EVP_CIPHER_CTX *cipher,
                  EVP_MAC_CTX *mac, bool seal)
{
    OSSL_PARAM params[3] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY,
                                          (void *)(uintptr_t)(key->bytes + MAC_AT), 32),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)(uintptr_t) "SHA256", 0),
        OSSL_PARAM_construct_end()};
    return EVP_MAC_CTX_set_params(mac, params) == 1 &&
           EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->bytes + AES_AT, iv, seal) == 1;
}

// OpenSSL's contract: negative, failed; 0, no such key; 1, done; 2, done, and a newer ticket would
// be better.
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int seal)
{
    const struct gw_ticket_keys *keys = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), data_index);
    if (keys == NULL) {
        return -1;
    }
    if (seal != 0) {
        memcpy(name, keys->keys[0].bytes, NAME_BYTES);
        return RAND_bytes(iv, IV_BYTES) == 1 && start(&keys->keys[0], iv, cipher, mac, true) ? 1
                                                                                             : -1;
    }
    for (unsigned i = 0; i < GW_TICKET_KEYS_MAX; i++) {
        const struct gw_ticket_key *key = &keys->keys[i];
        if (key->made_s != 0 && memcmp(name, key->bytes, NAME_BYTES) == 0) {
            return start(key, iv, cipher, mac, false) ? 2 : -1;
        }
    }
    return 0;
}

enum base_status gw_ticket_keys_use(const struct gw_ticket_keys *keys, SSL_CTX *context)
{
    (void)pthread_once(&data_once, make_data_index);
    struct gw_ticket_keys *copy = OPENSSL_memdup(keys, sizeof(*keys));
    if (copy == NULL || data_index < 0 || SSL_CTX_set_ex_data(context, data_index, copy) != 1) {
        OPENSSL_clear_free(copy, sizeof(*keys));
        return BASE_ERR_NOMEM;
    }
    SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket);
    return BASE_OK;
}
