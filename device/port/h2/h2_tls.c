// TLS for the HTTP/2 client: one shared context with ALPN h2, TLS 1.3 only, and a small table of
// sessions for resumption, the newest per peer.
//
// A context may serve connections on several threads: the table is the only shared mutable state
// here and has a mutex of its own.
#include "h2_tls.h"

#include "h2_internal.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define TLS_PEERS_MAX 16

struct tls_peer {
    char authority[H2_AUTHORITY_MAX];
    SSL_SESSION *session;
};

struct h2_tls {
    SSL_CTX *context;
    bool verify;
    uint64_t born_s;
    pthread_mutex_t mutex; // guards peers and next_peer
    struct tls_peer peers[TLS_PEERS_MAX];
    uint32_t next_peer; // replaced next when all are taken
};

static struct tls_peer *peer_find(struct h2_tls *tls, const char *authority)
{
    for (uint32_t i = 0; i < TLS_PEERS_MAX; i++) {
        if (tls->peers[i].session != NULL && strcmp(tls->peers[i].authority, authority) == 0) {
            return &tls->peers[i];
        }
    }
    return NULL;
}

// What is kept is a copy, and what a connection gets is another: OpenSSL declares the session of a
// connection that ends without a goodbye unfit, and those are the ones that come back.
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    struct h2_client *client = SSL_get_app_data(ssl);
    struct h2_tls *tls = client->tls;
    SSL_SESSION *copy = SSL_SESSION_dup(session);
    if (copy == NULL) {
        ERR_clear_error();
        return 0; // OpenSSL keeps its reference
    }
    pthread_mutex_lock(&tls->mutex);
    struct tls_peer *peer = peer_find(tls, client->authority);
    if (peer == NULL) {
        peer = &tls->peers[tls->next_peer];
        tls->next_peer = (tls->next_peer + 1) % TLS_PEERS_MAX;
    }
    SSL_SESSION_free(peer->session);
    memcpy(peer->authority, client->authority, sizeof(peer->authority));
    peer->session = copy;
    pthread_mutex_unlock(&tls->mutex);
    return 0;
}

void h2_tls_forget(struct h2_client *client)
{
    struct h2_tls *tls = client->tls;
    pthread_mutex_lock(&tls->mutex);
    struct tls_peer *peer = peer_find(tls, client->authority);
    if (peer != NULL) {
        SSL_SESSION_free(peer->session);
        peer->session = NULL;
    }
    pthread_mutex_unlock(&tls->mutex);
}

static bool context_setup(struct h2_tls *tls, const char *ca_pem_path)
{
    static const uint8_t alpn[] = {2, 'h', '2'};
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    tls->context = context;
    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_alpn_protos(context, alpn, sizeof(alpn)) != 0) {
        return false;
    }
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, on_new_session);
    if (ca_pem_path == NULL) {
        return true;
    }
    tls->verify = true;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    return SSL_CTX_load_verify_file(context, ca_pem_path) == 1;
}

// OpenSSL writes with write(2), which raises SIGPIPE on a connection the peer closed. A program
// that has not decided about the signal must not die of it.
static void ignore_sigpipe(void)
{
    struct sigaction action = {0};
    if (sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
        action.sa_handler = SIG_IGN;
        (void)sigaction(SIGPIPE, &action, NULL);
    }
}

enum base_status h2_tls_new(const char *ca_pem_path, struct h2_tls **out_tls)
{
    struct h2_tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL) {
        return BASE_ERR_NOMEM;
    }
    ignore_sigpipe();
    pthread_mutex_init(&tls->mutex, NULL);
    if (!context_setup(tls, ca_pem_path)) {
        h2_tls_free(tls);
        return ca_pem_path != NULL ? BASE_ERR_INVALID : BASE_ERR_NOMEM;
    }
    *out_tls = tls;
    return BASE_OK;
}

enum base_status h2_tls_certificate(struct h2_tls *tls, const char *certificate_path,
                                    const char *key_path)
{
    bool ok = SSL_CTX_use_certificate_chain_file(tls->context, certificate_path) == 1 &&
              SSL_CTX_use_PrivateKey_file(tls->context, key_path, SSL_FILETYPE_PEM) == 1 &&
              SSL_CTX_check_private_key(tls->context) == 1;
    return ok ? BASE_OK : BASE_ERR_INVALID;
}

void h2_tls_born(struct h2_tls *tls, uint64_t born_s)
{
    tls->born_s = born_s;
}

void h2_tls_free(struct h2_tls *tls)
{
    if (tls == NULL) {
        return;
    }
    for (uint32_t i = 0; i < TLS_PEERS_MAX; i++) {
        SSL_SESSION_free(tls->peers[i].session);
    }
    SSL_CTX_free(tls->context);
    pthread_mutex_destroy(&tls->mutex);
    free(tls);
}

// The peer's certificate must name the host: as an address when it is one, as a DNS name otherwise.
static bool set_peer_name(SSL *ssl, const char *host, bool verify)
{
    struct in6_addr address;
    bool numeric =
        inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
    if (!numeric && SSL_set_tlsext_host_name(ssl, host) != 1) {
        return false;
    }
    if (!verify) {
        return true;
    }
    if (numeric) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    return SSL_set1_host(ssl, host) == 1;
}

// A device that is turned on for the first time could otherwise never ask what time it is.
static bool set_peer_time(SSL *ssl, const struct h2_tls *tls)
{
    bool believed = base_clock_wall_us() / 1000000 >= tls->born_s;
    return believed ||
           X509_VERIFY_PARAM_set_flags(SSL_get0_param(ssl), X509_V_FLAG_NO_CHECK_TIME) == 1;
}

enum base_status h2_tls_attach(struct h2_client *client, const struct h2_options *options)
{
    struct h2_tls *tls = options->tls;
    char host[H2_AUTHORITY_MAX];
    memcpy(host, options->host.data, options->host.size); // the caller checked the size
    host[options->host.size] = '\0';
    client->tls = tls;
    client->ssl = SSL_new(tls->context);
    if (client->ssl == NULL) {
        return BASE_ERR_NOMEM;
    }
    SSL_set_app_data(client->ssl, client);
    if (!set_peer_name(client->ssl, host, tls->verify) || !set_peer_time(client->ssl, tls) ||
        SSL_set_fd(client->ssl, client->socket) != 1) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_lock(&tls->mutex);
    struct tls_peer *peer = peer_find(tls, client->authority);
    SSL_SESSION *session = peer != NULL ? SSL_SESSION_dup(peer->session) : NULL;
    pthread_mutex_unlock(&tls->mutex);
    if (session != NULL) {
        (void)SSL_set_session(client->ssl, session); // without it: a full handshake
        SSL_SESSION_free(session);
    }
    SSL_set_connect_state(client->ssl);
    return BASE_OK;
}

size_t h2_tls_early_room(const struct h2_client *client)
{
    const SSL_SESSION *session = SSL_get0_session(client->ssl);
    return session != NULL && SSL_SESSION_is_resumable(session) == 1
               ? SSL_SESSION_get_max_early_data(session)
               : 0;
}

bool h2_tls_is_h2(const struct h2_client *client)
{
    const unsigned char *name = NULL;
    unsigned int size = 0;
    SSL_get0_alpn_selected(client->ssl, &name, &size);
    return size == 2 && memcmp(name, "h2", 2) == 0;
}
