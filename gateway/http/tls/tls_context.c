// Builds the SSL_CTX of the gateway. Called by the main thread at start and on reload; the result
// is handed to every worker by message. That is server.c. Certificate, key and client authorities
// are read from files of bounded size; whatever is wrong with one names the file. A context is
// never changed: on reload a new one is made, and connections keep the one they began with. Early
// data is bounded by a guard against repeated ClientHellos (early_guard), as tickets are stateless.
#include "http/tls/tls_context.h"

#include "base/clock.h"
#include "base/os/private_file.h"
#include "base/os/regular_file.h"
#include "http/secret/dev_certificate.h"
#include "http/guard/early_guard.h"
#include "http/secret/ticket_keys.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICKETS_PER_HANDSHAKE 1
#define EARLY_SKIPPED_MAX     16384 // refused early data is read over

static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_size,
                       const unsigned char *in, unsigned int in_size, void *ctx)
{
    // The one in front is taken where a client knows both.
    static const unsigned char known[] = {2, 'h', '2', 8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    (void)ssl;
    (void)ctx;
    unsigned char *found = NULL;
    if (SSL_select_next_proto(&found, out_size, known, sizeof(known), in, in_size) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *out = found;
    return SSL_TLSEXT_ERR_OK;
}

// The oldest error of OpenSSL's queue as text; the queue is emptied.
static enum base_status openssl_failed(struct base_error *error, const char *what, const char *file)
{
    char reason[128] = "no reason given";
    unsigned long code = ERR_get_error();
    if (code != 0) {
        ERR_error_string_n(code, reason, sizeof(reason));
    }
    ERR_clear_error();
    return base_error_set(error, BASE_ERR_INVALID, "%s: %s: %s", file, what, reason);
}

static enum base_status make_files(const struct gw_tls_files *files, const struct base_log *log,
                                   struct base_error *error)
{
    // The certificate is written last: without it a key is the rest of a start that was cut off.
    if (files->make_certificate && gw_dev_certificate_due(files->certificate, files->now_s)) {
        BASE_TRY(gw_dev_certificate_make(files->certificate, files->key, error));
        base_log_info(log, "tls",
                      "made a self-signed development certificate, good for %u days: %s",
                      GW_DEV_CERTIFICATE_DAYS, files->certificate);
    }
    return BASE_OK;
}

// Who reads the key is the gateway, to every device. Of root's keys a group of the system's may be
// let in (ssl-cert): the program could not read them otherwise.
static enum base_status check_key_file(const char *path, struct base_error *error)
{
    struct stat about;
    int fd = -1;
    BASE_TRY(base_regular_holds(path, BASE_PEM_BYTES_MAX, error));
    if (geteuid() != 0 && stat(path, &about) == 0 && about.st_uid == 0 &&
        (about.st_mode & (S_IWGRP | S_IRWXO)) == 0) {
        return BASE_OK;
    }
    BASE_TRY(base_private_open(path, false, &fd, error));
    close(fd);
    return BASE_OK;
}

static enum base_status use_ticket_keys(SSL_CTX *context, const struct gw_tls_files *files,
                                        struct base_error *error)
{
    struct gw_ticket_keys keys;
    BASE_TRY(
        gw_ticket_keys_load(files->ticket_key, files->now_s, files->ticket_period_s, &keys, error));
    enum base_status status = gw_ticket_keys_use(&keys, context);
    OPENSSL_cleanse(&keys, sizeof(keys));
    return status == BASE_OK ? BASE_OK : base_error_set(error, status, "no memory for ticket keys");
}

bool gw_tls_context_due(const struct gw_tls_files *files)
{
    if (files->make_certificate && gw_dev_certificate_due(files->certificate, files->now_s)) {
        return true;
    }
    struct gw_ticket_keys keys;
    // Period 0: as they are. What cannot be read is not due; a reload says what is wrong.
    bool due = gw_ticket_keys_load(files->ticket_key, files->now_s, 0, &keys, NULL) == BASE_OK &&
               gw_ticket_keys_due(&keys, files->now_s, files->ticket_period_s);
    OPENSSL_cleanse(&keys, sizeof(keys));
    return due;
}

// Clients may show a certificate; one that does not verify ends the handshake.
static enum base_status use_client_ca(SSL_CTX *context, const char *path, struct base_error *error)
{
    if (path[0] == '\0') {
        return BASE_OK;
    }
    BASE_TRY(base_regular_holds(path, BASE_PEM_BYTES_MAX, error));
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);
    if (names == NULL || SSL_CTX_load_verify_file(context, path) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return openssl_failed(error, "not PEM certificates", path);
    }
    SSL_CTX_set_client_CA_list(context, names); // takes them
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    return BASE_OK;
}

static enum base_status use_pair(SSL_CTX *context, const struct gw_tls_files *files,
                                 struct base_error *error)
{
    ERR_clear_error();
    BASE_TRY(base_regular_holds(files->certificate, BASE_PEM_BYTES_MAX, error));
    if (SSL_CTX_use_certificate_chain_file(context, files->certificate) != 1) {
        return openssl_failed(error, "not a PEM certificate chain", files->certificate);
    }
    BASE_TRY(check_key_file(files->key, error));
    if (SSL_CTX_use_PrivateKey_file(context, files->key, SSL_FILETYPE_PEM) != 1) {
        return openssl_failed(error, "not a PEM private key", files->key);
    }
    if (SSL_CTX_check_private_key(context) != 1) {
        return openssl_failed(error, "does not belong to the certificate", files->key);
    }
    return BASE_OK;
}

static enum base_status use_files(SSL_CTX *context, const struct gw_tls_files *files,
                                  struct base_error *error)
{
    BASE_TRY(use_pair(context, files, error));
    BASE_TRY(use_client_ca(context, files->client_ca, error));
    return use_ticket_keys(context, files, error);
}

// A certificate that is due is made anew at the start, and tickets' keys that are not there are.
static enum base_status try_files(SSL_CTX *context, const struct gw_tls_files *files,
                                  struct base_error *error)
{
    struct gw_ticket_keys keys;
    if (!files->make_certificate || !gw_dev_certificate_due(files->certificate, files->now_s)) {
        BASE_TRY(use_pair(context, files, error));
    }
    BASE_TRY(use_client_ca(context, files->client_ca, error));
    if (access(files->ticket_key, F_OK) == 0) { // period 0: as they are
        BASE_TRY(gw_ticket_keys_load(files->ticket_key, files->now_s, 0, &keys, error));
        OPENSSL_cleanse(&keys, sizeof(keys));
    }
    return BASE_OK;
}

enum base_status gw_tls_files_check(const struct gw_tls_files *files, struct base_error *error)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a TLS context");
    }
    enum base_status status = try_files(context, files, error);
    SSL_CTX_free(context);
    return status;
}

bool gw_tls_context_names(const SSL_CTX *context, bool (*each)(void *ctx, struct base_str name),
                          void *ctx)
{
    X509 *certificate = SSL_CTX_get0_certificate(context);
    GENERAL_NAMES *names = certificate != NULL
                               ? X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL)
                               : NULL;
    bool ok = true;
    for (int i = 0; names != NULL && ok && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS) {
            const ASN1_STRING *text = name->d.dNSName;
            ok = each(ctx, (struct base_str){(const char *)ASN1_STRING_get0_data(text),
                                             (size_t)ASN1_STRING_length(text)});
        }
    }
    GENERAL_NAMES_free(names);
    return ok;
}

static void set_options(SSL_CTX *context)
{
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
    // Idle connections hold no record buffers, and a write may continue from moved memory.
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                      "TLS_CHACHA20_POLY1305_SHA256");
    SSL_CTX_set1_groups_list(context, "X25519:P-256");
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); // tickets hold the state
    SSL_CTX_set_num_tickets(context, TICKETS_PER_HANDSHAKE);
    SSL_CTX_set_timeout(context, GW_TICKET_LIFE_S);
    SSL_CTX_set_session_id_context(context, (const unsigned char *)"walle", 5);
    SSL_CTX_set_read_ahead(context, 1); // one read per batch of records, not two per record
    SSL_CTX_set_alpn_select_cb(context, select_alpn, NULL);
}

static int allow_early_data(SSL *ssl, void *ctx)
{
    uint8_t random[GW_EARLY_RANDOM_BYTES];
    return SSL_get_client_random(ssl, random, sizeof(random)) == sizeof(random) &&
                   gw_early_guard_first(ctx, random, base_clock_mono_us() / 1000)
               ? 1
               : 0;
}

// OpenSSL's own protection against replays would keep every ticket in the memory of this process,
// so that a restart ended them all. Ours remembers ClientHellos instead, and tickets stay
// stateless.
static void use_early_data(SSL_CTX *context, const struct gw_tls_files *files)
{
    uint32_t bytes = files->guard != NULL ? files->early_bytes : 0;
    SSL_CTX_set_options(context, SSL_OP_NO_ANTI_REPLAY);
    SSL_CTX_set_max_early_data(context, bytes);
    SSL_CTX_set_recv_max_early_data(context, EARLY_SKIPPED_MAX);
    SSL_CTX_set_allow_early_data_cb(context, allow_early_data, files->guard);
}

enum base_status gw_tls_context_new(const struct gw_tls_files *files, const struct base_log *log,
                                    SSL_CTX **out_context, struct base_error *error)
{
    BASE_TRY(make_files(files, log, error));
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a TLS context");
    }
    set_options(context);
    use_early_data(context, files);
    enum base_status status = use_files(context, files, error);
    if (status != BASE_OK) {
        SSL_CTX_free(context);
        return status;
    }
    *out_context = context;
    return BASE_OK;
}
