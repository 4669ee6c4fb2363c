// The socket under an HTTP/2 client connection: connect, TLS handshake, and moving bytes between
// the kernel and the codec.
//
// An idle connection holds no buffers: reading and writing go through scratch memory that all
// connections of a thread share. It is never in use twice at a time, because callbacks only queue
// frames and never read or write. Writing is put off to the end of the loop turn, so that all
// requests made in a turn leave in one system call. Runs on the thread of the event base.
#include "h2_socket.h"

#include "h2_body.h"
#include "h2_internal.h"
#include "h2_tls.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef TCP_RTO_MIN_US
#define TCP_RTO_MIN_US 45 // Linux 6.16
#endif

static _Thread_local uint8_t read_scratch[H2_SCRATCH_BYTES];
static _Thread_local uint8_t write_scratch[H2_SCRATCH_BYTES];

enum move {
    MOVE_DONE,    // some bytes moved
    MOVE_BLOCKED, // try again when the socket is ready
    MOVE_EOF,
    MOVE_FAILED,
};

static enum move ssl_verdict(SSL *ssl, int result)
{
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return MOVE_BLOCKED;
    case SSL_ERROR_ZERO_RETURN:
        return MOVE_EOF;
    default:
        return MOVE_FAILED;
    }
}

static enum move socket_read(struct h2_client *client, size_t *out_size)
{
    if (client->ssl != NULL) {
        ERR_clear_error();
        int result = SSL_read_ex(client->ssl, read_scratch, sizeof(read_scratch), out_size);
        return result == 1 ? MOVE_DONE : ssl_verdict(client->ssl, result);
    }
    ssize_t result = recv(client->socket, read_scratch, sizeof(read_scratch), 0);
    if (result < 0) {
        return errno == EAGAIN || errno == EINTR ? MOVE_BLOCKED : MOVE_FAILED;
    }
    *out_size = (size_t)result;
    return result == 0 ? MOVE_EOF : MOVE_DONE;
}

static enum move socket_write(struct h2_client *client, const uint8_t *bytes, size_t size,
                              size_t *out_size)
{
    if (client->ssl != NULL) {
        ERR_clear_error();
        int result = SSL_write_ex(client->ssl, bytes, size, out_size);
        return result == 1 ? MOVE_DONE : ssl_verdict(client->ssl, result);
    }
    ssize_t result = send(client->socket, bytes, size, MSG_NOSIGNAL);
    if (result < 0) {
        return errno == EAGAIN || errno == EINTR ? MOVE_BLOCKED : MOVE_FAILED;
    }
    *out_size = (size_t)result;
    return MOVE_DONE;
}

// Writes until all is gone or the socket is full; *out_sent says how far it came.
static enum move write_all(struct h2_client *client, const uint8_t *bytes, size_t size,
                           size_t *out_sent)
{
    size_t sent = 0;
    enum move move = MOVE_DONE;
    while (sent < size && move == MOVE_DONE) {
        size_t step = 0;
        move = socket_write(client, bytes + sent, size - sent, &step);
        if (move == MOVE_DONE) {
            sent += step;
        }
    }
    client->bytes_written += sent;
    *out_sent = sent;
    return move;
}

static bool backlog_keep(struct h2_client *client, const uint8_t *bytes, size_t size)
{
    client->backlog = malloc(size);
    if (client->backlog == NULL) {
        return false;
    }
    memcpy(client->backlog, bytes, size);
    client->backlog_bytes = size;
    client->backlog_sent = 0;
    return true;
}

static enum move backlog_write(struct h2_client *client)
{
    size_t sent = 0;
    enum move move = write_all(client, client->backlog + client->backlog_sent,
                               client->backlog_bytes - client->backlog_sent, &sent);
    client->backlog_sent += sent;
    if (move == MOVE_DONE) {
        free(client->backlog);
        client->backlog = NULL;
    }
    return move;
}

// Writes `size` bytes of the scratch; what the socket does not take becomes the backlog.
static enum move scratch_write(struct h2_client *client, size_t size)
{
    size_t sent = 0;
    enum move move = write_all(client, write_scratch, size, &sent);
    if (move == MOVE_BLOCKED && !backlog_keep(client, write_scratch + sent, size - sent)) {
        return MOVE_FAILED;
    }
    return move;
}

// Fills the scratch from the codec, writes it, and again until the codec has no more. A frame the
// codec gave is copied before it is asked for the next one.
static enum move codec_write(struct h2_client *client)
{
    size_t fill = 0;
    for (;;) {
        const uint8_t *frame = NULL;
        ssize_t got = nghttp2_session_mem_send(client->session, &frame);
        if (got < 0) {
            return MOVE_FAILED;
        }
        if (got == 0) {
            return fill == 0 ? MOVE_DONE : scratch_write(client, fill);
        }
        size_t size = (size_t)got; // a frame is at most 16 KiB and 9 bytes
        if (size > sizeof(write_scratch) - fill) {
            size_t room = sizeof(write_scratch) - fill;
            memcpy(write_scratch + fill, frame, room);
            enum move move = scratch_write(client, sizeof(write_scratch));
            if (move == MOVE_BLOCKED) {
                // The rest of this frame must follow the backlog.
                uint8_t *grown = realloc(client->backlog, client->backlog_bytes + size - room);
                if (grown == NULL) {
                    return MOVE_FAILED;
                }
                memcpy(grown + client->backlog_bytes, frame + room, size - room);
                client->backlog = grown;
                client->backlog_bytes += size - room;
            }
            if (move != MOVE_DONE) {
                return move;
            }
            memcpy(write_scratch, frame + room, size - room);
            fill = size - room;
            continue;
        }
        memcpy(write_scratch + fill, frame, size);
        fill += size;
    }
}

// Nothing to say and nothing to hear any more, after GOAWAY.
static bool session_is_over(const struct h2_client *client)
{
    return nghttp2_session_want_read(client->session) == 0 &&
           nghttp2_session_want_write(client->session) == 0;
}

static bool set_congestion(const struct h2_client *client, const char *name)
{
    return setsockopt(client->socket, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) ==
           0;
}

// Requests with bodies are under way, on a connection that is worth the calls.
static bool uploads(const struct h2_client *client)
{
    return client->bodies > 0 && !client->small;
}

static bool all_arrived(const struct h2_client *client)
{
    int under_way = 0;
    return ioctl(client->socket, SIOCOUTQ, &under_way) != 0 || under_way == 0;
}

// An upload after a pause goes out under a BBR that was just begun. Begun anew it keeps the
// connection's window and paces by it; left alone it would have learned from small uploads, or from
// calls one after the other, that the link is slow, and stretch the next over a round trip or two.
// Other algorithms close the window in a pause, and with one lost packet in a hundred keep it so
// small that 30 KB take three round trips. A kernel without BBR keeps the one it has.
static void begin_upload(struct h2_client *client)
{
    uint64_t now_us = base_clock_mono_us();
    if (now_us - client->wrote_us > H2_PAUSE_US && all_arrived(client) &&
        set_congestion(client, "bbr")) {
        (void)set_congestion(client, "reno");
        (void)set_congestion(client, "bbr");
    }
    client->wrote_us = now_us;
}

static void flush(struct h2_client *client)
{
    if (client->phase != H2_PHASE_OPEN) {
        return;
    }
    if (uploads(client)) {
        begin_upload(client);
    }
    enum move move = client->backlog != NULL ? backlog_write(client) : MOVE_DONE;
    if (move == MOVE_DONE) {
        move = codec_write(client);
    }
    if (client->owing && (move == MOVE_DONE || move == MOVE_BLOCKED)) {
        h2_body_tell(client);
    }
    if (client->phase != H2_PHASE_OPEN) {
        return; // it was freed meanwhile
    }
    if (move == MOVE_BLOCKED) {
        event_add(&client->write_event, NULL);
    } else if (move != MOVE_DONE) {
        h2_client_fail(client, BASE_ERR_IO);
    } else if (session_is_over(client)) {
        h2_client_fail(client, BASE_ERR_CLOSED);
    }
}

void h2_socket_flush_later(struct h2_client *client)
{
    if (client->phase == H2_PHASE_OPEN && !client->flush_pending) {
        client->flush_pending = true;
        event_active(&client->flush_event, 0, 0);
    }
}

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct h2_client *client = arg;
    h2_client_enter(client);
    client->flush_pending = false;
    if (client->backlog == NULL) { // otherwise the write event goes on
        flush(client);
    }
    (void)h2_client_leave(client);
}

// ---- Early data: the requests that may be played back, before the handshake is complete

static bool all_early(const struct h2_client *client)
{
    bool all = client->streams != NULL;
    for (const struct h2_stream *stream = client->streams; stream != NULL; stream = stream->next) {
        all = all && stream->early;
    }
    return all;
}

// Puts all that the codec has into the backlog.
static bool gather(struct h2_client *client)
{
    for (;;) {
        const uint8_t *frame = NULL;
        client->gathering = true;
        ssize_t got = nghttp2_session_mem_send(client->session, &frame);
        client->gathering = false;
        if (got <= 0) {
            return got == 0;
        }
        uint8_t *grown = realloc(client->backlog, client->backlog_bytes + (size_t)got);
        if (grown == NULL) {
            return false;
        }
        memcpy(grown + client->backlog_bytes, frame, (size_t)got);
        client->backlog = grown;
        client->backlog_bytes += (size_t)got;
    }
}

// False: the connection failed. What does not go as early data goes behind the handshake.
static bool send_early(struct h2_client *client)
{
    size_t room = h2_tls_early_room(client);
    if (room == 0 || !all_early(client)) {
        return true;
    }
    if (!gather(client)) {
        return false;
    }
    size_t size = client->backlog_bytes < room ? client->backlog_bytes : room;
    ERR_clear_error();
    if (size > 0 &&
        SSL_write_early_data(client->ssl, client->backlog, size, &client->early_sent) != 1) {
        client->early_sent = 0; // the handshake says whether the connection is any good
    }
    return true;
}

// The backlog holds what was sent as early data until it is known to have been taken.
static void early_is_over(struct h2_client *client)
{
    client->resumed = SSL_session_reused(client->ssl) == 1;
    client->was_early =
        client->early_sent > 0 && SSL_get_early_data_status(client->ssl) == SSL_EARLY_DATA_ACCEPTED;
    if (client->backlog == NULL) {
        return;
    }
    client->backlog_sent = client->was_early ? client->early_sent : 0;
    client->bytes_written += client->backlog_sent;
    if (client->backlog_sent == client->backlog_bytes) {
        free(client->backlog);
        client->backlog = NULL;
    } else {
        event_add(&client->write_event, NULL);
    }
    h2_body_resume_all(client);
}

static void connection_open(struct h2_client *client)
{
    event_del(&client->timer_event);
    client->phase = H2_PHASE_OPEN;
    event_add(&client->read_event, NULL);
    if (client->ssl != NULL) {
        early_is_over(client);
    }
    h2_socket_flush_later(client);
    if (client->events.state != NULL) {
        client->events.state(client->events.ctx, client, BASE_OK);
    }
}

static const char *handshake_fault(const struct h2_client *client)
{
    long verdict = SSL_get_verify_result(client->ssl);
    return verdict != X509_V_OK ? X509_verify_cert_error_string(verdict)
                                : "the TLS handshake failed";
}

static void handshake(struct h2_client *client)
{
    ERR_clear_error();
    int result = SSL_do_handshake(client->ssl);
    if (result == 1) {
        event_del(&client->write_event);
        if (h2_tls_is_h2(client)) {
            connection_open(client);
        } else {
            client->why = "it speaks no HTTP/2";
            h2_client_fail(client, BASE_ERR_IO);
        }
        return;
    }
    switch (SSL_get_error(client->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        event_add(&client->read_event, NULL);
        break;
    case SSL_ERROR_WANT_WRITE:
        event_add(&client->write_event, NULL);
        break;
    default:
        h2_tls_forget(client);
        client->why = handshake_fault(client);
        client->unbelieved = SSL_get_verify_result(client->ssl) != X509_V_OK;
        h2_client_fail(client, BASE_ERR_IO);
        break;
    }
}

static void connected(struct h2_client *client)
{
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(client->socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        client->why = error != 0 ? strerrordesc_np(error) : NULL;
        h2_client_fail(client, BASE_ERR_IO);
    } else if (client->ssl != NULL) {
        client->phase = H2_PHASE_TLS;
        if (send_early(client)) {
            handshake(client);
        } else {
            h2_client_fail(client, BASE_ERR_NOMEM);
        }
    } else {
        connection_open(client);
    }
}

// One turn of reading. A short read on clear text means the socket is empty: no second call.
static void receive(struct h2_client *client)
{
    if (uploads(client)) {
        // An acknowledgement of the gateway's that is itself acknowledged at once keeps its idea of
        // the round trip right, and so its retransmissions early. The kernel forgets the option.
        int on = 1;
        (void)setsockopt(client->socket, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
    }
    for (int i = 0; i < H2_READS_PER_TURN && client->phase == H2_PHASE_OPEN; i++) {
        size_t size = 0;
        enum move move = socket_read(client, &size);
        if (move == MOVE_BLOCKED) {
            return;
        }
        if (move != MOVE_DONE) {
            h2_client_fail(client, move == MOVE_EOF ? BASE_ERR_CLOSED : BASE_ERR_IO);
            return;
        }
        client->bytes_read += size;
        if (nghttp2_session_mem_recv(client->session, read_scratch, size) < 0) {
            h2_client_fail(client, BASE_ERR_IO);
            return;
        }
        if (client->ssl == NULL && size < sizeof(read_scratch)) {
            return;
        }
    }
    // TLS may hold decrypted bytes the kernel knows nothing of.
    if (client->phase == H2_PHASE_OPEN && client->ssl != NULL && SSL_has_pending(client->ssl)) {
        event_active(&client->read_event, EV_READ, 0);
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct h2_client *client = arg;
    h2_client_enter(client);
    if (client->phase == H2_PHASE_TLS) {
        handshake(client);
    } else if (client->phase == H2_PHASE_OPEN) {
        receive(client);
        if (client->phase == H2_PHASE_OPEN &&
            (nghttp2_session_want_write(client->session) != 0 || session_is_over(client))) {
            h2_socket_flush_later(client);
        }
    }
    (void)h2_client_leave(client);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct h2_client *client = arg;
    h2_client_enter(client);
    if (client->phase == H2_PHASE_CONNECTING) {
        connected(client);
    } else if (client->phase == H2_PHASE_TLS) {
        handshake(client);
    } else {
        flush(client);
    }
    (void)h2_client_leave(client);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct h2_client *client = arg;
    h2_client_enter(client);
    h2_client_fail(client, BASE_ERR_TIMEOUT);
    (void)h2_client_leave(client);
}

static enum base_status address_of(struct base_str host, uint16_t port,
                                   struct sockaddr_storage *out, socklen_t *out_size)
{
    char text[H2_AUTHORITY_MAX];
    if (host.size == 0 || host.size >= sizeof(text)) {
        return BASE_ERR_INVALID;
    }
    memcpy(text, host.data, host.size);
    text[host.size] = '\0';
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(text, NULL, &hints, &found) != 0 || found == NULL) {
        return BASE_ERR_IO;
    }
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *out_size = found->ai_addrlen;
    freeaddrinfo(found);
    if (out->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)(void *)out)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)(void *)out)->sin_port = htons(port);
    }
    return BASE_OK;
}

// Binding without choosing a port lets connect() pick one that is free for this very peer, so that
// one source address carries 64 thousand connections per destination.
static enum base_status bind_source(int fd, struct base_str source)
{
    struct sockaddr_storage local = {0};
    socklen_t size = 0;
    int on = 1;
    BASE_TRY(address_of(source, 0, &local, &size));
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&local, size) != 0) {
        return BASE_ERR_IO;
    }
    return BASE_OK;
}

// A last segment that was lost has no followers that would show it: it is sent again after a round
// trip and H2_RTO_MIN_US, where the kernel can, rather than 200 ms.
static void lossy_link_options(int fd)
{
    int rto_us = H2_RTO_MIN_US;
    int unsent = H2_UNSENT_BYTES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_RTO_MIN_US, &rto_us, sizeof(rto_us));
    // What waits does so here, where what is urgent can overtake it.
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
}

static void socket_options(int fd, bool small)
{
    int on = 1;
    unsigned int timeout_ms = H2_USER_TIMEOUT_MS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (!small) { // the many connections of a simulated fleet are spared the timers
        lossy_link_options(fd);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    }
}

static enum base_status socket_connect(struct h2_client *client, const struct h2_options *options)
{
    struct sockaddr_storage peer = {0};
    socklen_t size = 0;
    BASE_TRY(address_of(options->host, options->port, &peer, &size));
    client->socket = socket(peer.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (client->socket < 0) {
        return errno == EMFILE || errno == ENFILE ? BASE_ERR_LIMIT : BASE_ERR_IO;
    }
    socket_options(client->socket, client->small);
    if (options->source_address.size > 0) {
        BASE_TRY(bind_source(client->socket, options->source_address));
    }
    if (connect(client->socket, (struct sockaddr *)&peer, size) != 0 && errno != EINPROGRESS) {
        return BASE_ERR_IO;
    }
    return BASE_OK;
}

enum base_status h2_socket_open(struct h2_client *client, const struct h2_options *options)
{
    if (!options->connected) {
        BASE_TRY(socket_connect(client, options));
    }
    if (options->tls != NULL) {
        BASE_TRY(h2_tls_attach(client, options));
    }
    uint32_t timeout_ms =
        options->connect_timeout_ms > 0 ? options->connect_timeout_ms : H2_CONNECT_MS;
    struct timeval timeout = {.tv_sec = timeout_ms / 1000,
                              .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    event_assign(&client->read_event, client->base, client->socket, EV_READ | EV_PERSIST,
                 on_readable, client);
    event_assign(&client->write_event, client->base, client->socket, EV_WRITE, on_writable, client);
    event_assign(&client->flush_event, client->base, -1, 0, on_flush, client);
    event_assign(&client->timer_event, client->base, -1, EV_TIMEOUT, on_timer, client);
    client->phase = H2_PHASE_CONNECTING;
    if (event_add(&client->write_event, NULL) != 0 ||
        event_add(&client->timer_event, &timeout) != 0) {
        return BASE_ERR_NOMEM;
    }
    return BASE_OK;
}

void h2_socket_close(struct h2_client *client)
{
    if (event_initialized(&client->read_event)) {
        event_del(&client->read_event);
        event_del(&client->write_event);
        event_del(&client->flush_event);
        event_del(&client->timer_event);
    }
    if (client->ssl != NULL) {
        // Without the notice OpenSSL would declare the session unfit for resumption.
        if (client->phase == H2_PHASE_OPEN) {
            ERR_clear_error();
            (void)SSL_shutdown(client->ssl);
        }
        SSL_free(client->ssl);
        client->ssl = NULL;
    }
    if (client->socket >= 0) {
        (void)close(client->socket);
        client->socket = -1;
    }
    free(client->backlog);
    client->backlog = NULL;
    client->phase = H2_PHASE_GONE;
}
