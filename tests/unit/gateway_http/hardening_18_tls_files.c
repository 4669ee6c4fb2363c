// The development certificate and the keys of session tickets: what they allow, how long they live,
// and that a ticket outlives its key's turn. Files in a scratch folder, handshakes in memory.
#include "http/secret/dev_certificate.h"
#include "http/tls/tls_context.h"
#include "http/secret/ticket_keys.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PERIOD_S 43200u
#define NOW_S    UINT64_C(1790000000)

static char dir[64];

static const char *in_dir(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/walle-tls-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static X509 *read_certificate(void)
{
    BIO *file = BIO_new_file(in_dir("cert.pem"), "r");
    assert_non_null(file);
    X509 *certificate = PEM_read_bio_X509(file, NULL, NULL, NULL);
    BIO_free(file);
    assert_non_null(certificate);
    return certificate;
}

// ---- The certificate

static void certificate_is_no_authority(void **state)
{
    (void)state;
    struct base_error error = {0};
    assert_int_equal(gw_dev_certificate_make(in_dir("cert.pem"), in_dir("key.pem"), &error),
                     BASE_OK);
    X509 *certificate = read_certificate();
    assert_int_equal(X509_check_ca(certificate), 0);
    // It says so itself, and not only by what its key may be used for.
    assert_int_equal(X509_get_extension_flags(certificate) & (EXFLAG_BCONS | EXFLAG_CA),
                     EXFLAG_BCONS);
    assert_int_equal(X509_get_pathlen(certificate), -1);
    assert_int_equal(X509_get_key_usage(certificate), KU_DIGITAL_SIGNATURE);
    assert_int_equal(X509_get_extended_key_usage(certificate), XKU_SSL_SERVER);
    time_t soon = time(NULL) + 91 * 86400;
    assert_true(X509_cmp_time(X509_get0_notAfter(certificate), &soon) < 0);

    // A certificate that its key signed, for a client who trusts the development certificate.
    BIO *file = BIO_new_file(in_dir("key.pem"), "r");
    EVP_PKEY *key = PEM_read_bio_PrivateKey(file, NULL, NULL, NULL);
    BIO_free(file);
    X509 *forged = X509_new();
    X509_NAME *name = X509_NAME_new();
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                                (const unsigned char *)"bank", -1, -1, 0),
                     1);
    X509_set_version(forged, 2);
    X509_set_subject_name(forged, name);
    X509_set_issuer_name(forged, X509_get_subject_name(certificate));
    X509_gmtime_adj(X509_getm_notBefore(forged), 0);
    X509_gmtime_adj(X509_getm_notAfter(forged), 3600);
    X509_set_pubkey(forged, key);
    assert_true(X509_sign(forged, key, EVP_sha256()) > 0);

    X509_STORE *store = X509_STORE_new();
    assert_int_equal(X509_STORE_add_cert(store, certificate), 1);
    X509 *const shown[] = {certificate, forged};
    const int wanted[] = {1, 0};
    for (int i = 0; i < 2; i++) {
        X509_STORE_CTX *context = X509_STORE_CTX_new();
        assert_int_equal(X509_STORE_CTX_init(context, store, shown[i], NULL), 1);
        int valid = X509_verify_cert(context);
        print_message("%s: %s\n", i == 0 ? "itself" : "forged",
                      X509_verify_cert_error_string(X509_STORE_CTX_get_error(context)));
        assert_int_equal(valid > 0, wanted[i]);
        X509_STORE_CTX_free(context);
    }
    X509_STORE_free(store);
    X509_NAME_free(name);
    X509_free(forged);
    EVP_PKEY_free(key);
    X509_free(certificate);
}

static void certificate_is_renewed(void **state)
{
    (void)state;
    struct base_error error = {0};
    uint64_t now_s = (uint64_t)time(NULL);
    assert_true(gw_dev_certificate_due(in_dir("nothing.pem"), now_s));
    assert_int_equal(gw_dev_certificate_make(in_dir("cert.pem"), in_dir("key.pem"), &error),
                     BASE_OK);
    assert_false(gw_dev_certificate_due(in_dir("cert.pem"), now_s));
    assert_false(gw_dev_certificate_due(in_dir("cert.pem"), now_s + 59 * 86400));
    assert_true(gw_dev_certificate_due(in_dir("cert.pem"), now_s + 61 * 86400));
    FILE *file = fopen(in_dir("other.pem"), "w");
    fputs("not a certificate\n", file);
    fclose(file);
    assert_false(gw_dev_certificate_due(in_dir("other.pem"), now_s + 61 * 86400));
}

// ---- Ticket keys

static unsigned count_keys(const struct gw_ticket_keys *keys)
{
    unsigned count = 0;
    for (unsigned i = 0; i < GW_TICKET_KEYS_MAX; i++) {
        count += keys->keys[i].made_s != 0;
    }
    return count;
}

static struct gw_ticket_keys load(uint64_t now_s, uint64_t period_s)
{
    struct gw_ticket_keys keys;
    struct base_error error = {0};
    enum base_status status =
        gw_ticket_keys_load(in_dir("ticket.key"), now_s, period_s, &keys, &error);
    if (status != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return keys;
}

static void keys_take_turns(void **state)
{
    (void)state;
    (void)unlink(in_dir("ticket.key"));
    struct gw_ticket_keys first = load(NOW_S, PERIOD_S);
    assert_int_equal(count_keys(&first), 1);
    struct stat about;
    assert_int_equal(stat(in_dir("ticket.key"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    struct gw_ticket_keys same = load(NOW_S + PERIOD_S - 1, PERIOD_S);
    assert_memory_equal(&first, &same, sizeof(first));

    struct gw_ticket_keys second = load(NOW_S + PERIOD_S, PERIOD_S);
    assert_int_equal(count_keys(&second), 2);
    assert_memory_equal(&second.keys[1], &first.keys[0], sizeof(first.keys[0]));
    assert_memory_not_equal(second.keys[0].bytes, first.keys[0].bytes, GW_TICKET_KEY_BYTES);
    // A ticket of the first key's last moment lives a day from there.
    struct gw_ticket_keys third = load(NOW_S + 2 * PERIOD_S, PERIOD_S);
    assert_int_equal(count_keys(&third), 3);
    struct gw_ticket_keys fourth = load(NOW_S + 3 * PERIOD_S + 1, PERIOD_S);
    assert_int_equal(count_keys(&fourth), 3);
    assert_memory_equal(&fourth.keys[2], &second.keys[0], sizeof(first.keys[0]));
    // Long off: nothing of before opens a ticket.
    struct gw_ticket_keys late = load(NOW_S + 100 * PERIOD_S, PERIOD_S);
    assert_int_equal(count_keys(&late), 2);
    struct gw_ticket_keys later = load(NOW_S + 200 * PERIOD_S, PERIOD_S);
    assert_memory_not_equal(&later.keys[1], &fourth.keys[0], sizeof(first.keys[0]));
    // A clock that goes back keeps them, and turns them again in time.
    struct gw_ticket_keys back = load(NOW_S, PERIOD_S);
    assert_memory_equal(back.keys[0].bytes, later.keys[0].bytes, GW_TICKET_KEY_BYTES);
    struct gw_ticket_keys on = load(NOW_S + 200 * PERIOD_S, 0);
    assert_memory_equal(on.keys[0].bytes, later.keys[0].bytes, GW_TICKET_KEY_BYTES); // 0: never
}

static void key_files(void **state)
{
    (void)state;
    struct gw_ticket_keys keys;
    struct base_error error = {0};
    uint8_t bytes[GW_TICKET_KEY_BYTES];
    memset(bytes, 7, sizeof(bytes));
    FILE *file = fopen(in_dir("ticket.key"), "w"); // of an older gateway
    fwrite(bytes, 1, sizeof(bytes), file);
    fclose(file);
    chmod(in_dir("ticket.key"), 0600);
    keys = load(NOW_S, PERIOD_S);
    assert_int_equal(count_keys(&keys), 1);
    assert_memory_equal(keys.keys[0].bytes, bytes, sizeof(bytes));

    chmod(in_dir("ticket.key"), 0644);
    assert_int_equal(gw_ticket_keys_load(in_dir("ticket.key"), NOW_S, PERIOD_S, &keys, &error),
                     BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "chmod 600"));
    chmod(in_dir("ticket.key"), 0600);
    assert_int_equal(truncate(in_dir("ticket.key"), 79), 0);
    assert_int_equal(gw_ticket_keys_load(in_dir("ticket.key"), NOW_S, PERIOD_S, &keys, &error),
                     BASE_ERR_INVALID);
    (void)unlink(in_dir("ticket.key"));
}

// ---- Handshakes

static SSL_CTX *server_context(uint64_t now_s)
{
    char certificate[128];
    char key[128];
    char tickets[128];
    snprintf(certificate, sizeof(certificate), "%s/cert.pem", dir);
    snprintf(key, sizeof(key), "%s/key.pem", dir);
    snprintf(tickets, sizeof(tickets), "%s/ticket.key", dir);
    const struct gw_tls_files files = {.certificate = certificate,
                                       .key = key,
                                       .ticket_key = tickets,
                                       .client_ca = "",
                                       .make_certificate = true,
                                       .ticket_period_s = PERIOD_S,
                                       .now_s = now_s};
    struct base_error error = {0};
    SSL_CTX *context = NULL;
    if (gw_tls_context_new(&files, NULL, &context, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_false(gw_tls_context_due(&files));
    return context;
}

static SSL_SESSION *kept;

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    (void)ssl;
    SSL_SESSION_free(kept);
    kept = session;
    return 1;
}

// Shakes hands; whether the session that was kept was resumed. What the server gave is kept in its
// place.
static bool shake(SSL_CTX *server_side, SSL_CTX *client_side)
{
    SSL *server = SSL_new(server_side);
    SSL *client = SSL_new(client_side);
    BIO *a = NULL;
    BIO *b = NULL;
    assert_int_equal(BIO_new_bio_pair(&a, 0, &b, 0), 1);
    SSL_set_bio(server, a, a);
    SSL_set_bio(client, b, b);
    SSL_set_accept_state(server);
    SSL_set_connect_state(client);
    if (kept != NULL) {
        SSL_set_session(client, kept);
    }
    char byte;
    for (int i = 0; i < 20 && !(SSL_is_init_finished(server) && SSL_is_init_finished(client));
         i++) {
        (void)SSL_do_handshake(client);
        (void)SSL_do_handshake(server);
    }
    assert_true(SSL_is_init_finished(server) && SSL_is_init_finished(client));
    (void)SSL_read(client, &byte, 1); // the ticket
    bool resumed = SSL_session_reused(server) == 1;
    SSL_shutdown(client);
    SSL_free(client);
    SSL_free(server);
    return resumed;
}

static void tickets_outlive_a_turn(void **state)
{
    (void)state;
    uint64_t now_s = (uint64_t)time(NULL);
    static const unsigned char h2[] = {2, 'h', '2'};
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_session_cache_mode(client, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(client, keep_session);
    SSL_CTX_set_alpn_protos(client, h2, sizeof(h2));

    SSL_CTX *server = server_context(now_s);
    assert_false(shake(server, client));
    assert_non_null(kept);
    SSL_CTX_free(server);
    server = server_context(now_s + 1); // a restart
    assert_true(shake(server, client));
    SSL_SESSION *before = SSL_SESSION_dup(kept);
    SSL_CTX_free(server);
    server = server_context(now_s + PERIOD_S + 10); // another key's turn
    assert_true(shake(server, client));
    SSL_CTX_free(server);
    server = server_context(now_s + 2 * PERIOD_S + 20);
    SSL_SESSION_free(kept);
    kept = before; // two turns old, still within the day it lives
    assert_true(shake(server, client));
    before = SSL_SESSION_dup(kept);
    SSL_CTX_free(server);
    server = server_context(now_s + 20 * PERIOD_S); // its key is gone
    server = (SSL_CTX_free(server), server_context(now_s + 40 * PERIOD_S));
    SSL_SESSION_free(kept);
    kept = before;
    assert_false(shake(server, client));
    SSL_CTX_free(server);
    SSL_SESSION_free(kept);
    kept = NULL;
    SSL_CTX_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificate_is_no_authority),
        cmocka_unit_test(certificate_is_renewed),
        cmocka_unit_test(keys_take_turns),
        cmocka_unit_test(key_files),
        cmocka_unit_test(tickets_outlive_a_turn),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
