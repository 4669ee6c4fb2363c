// Accepting connections on a worker's loop: in batches, within the connection limits, and pausing
// (never spinning) when the process has no descriptor left. worker.c makes and configures it, on
// the worker's thread; server.c binds and checks addresses on the main thread before. Clear HTTP/2
// is bound to loopback addresses only. conn_intro.c asks again for the client behind a balancer.
#include "http/listener.h"

#include "http/config/http_limits.h"
#include "http/config/http_trust.h"
#include "http/conn.h"
#include "http/loop/figure.h"
#include "http/memory/overload.h"
#include "http/worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_BATCH   64
#define LISTEN_BACKLOG 4096
#define FD_PAUSE_MS    100

struct gw_listener {
    struct gw_http_worker *worker;
    struct event *event;
    int fd;
    bool tls;
    bool paused;
    uint64_t paused_ms;
};

// ---- Addresses

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } at;
    socklen_t size;
};

static bool parse_host(const char *host, uint16_t port, struct address *out)
{
    memset(out, 0, sizeof(*out));
    if (strcmp(host, "localhost") == 0) {
        host = "127.0.0.1";
    }
    if (inet_pton(AF_INET, host, &out->at.v4.sin_addr) == 1) {
        out->at.v4.sin_family = AF_INET;
        out->at.v4.sin_port = htons(port);
        out->size = sizeof(out->at.v4);
        return true;
    }
    if (inet_pton(AF_INET6, host, &out->at.v6.sin6_addr) == 1) {
        out->at.v6.sin6_family = AF_INET6;
        out->at.v6.sin6_port = htons(port);
        out->size = sizeof(out->at.v6);
        return true;
    }
    return false;
}

static enum base_status parse_address(const char *text, struct address *out,
                                      struct base_error *error)
{
    const char *colon = strrchr(text, ':');
    size_t host_size = colon != NULL ? (size_t)(colon - text) : 0;
    uint64_t port = 0;
    char host[GW_ADDRESS_TEXT_MAX];
    if (colon != NULL && host_size >= 2 && text[0] == '[' && colon[-1] == ']') {
        text++;
        host_size -= 2;
    }
    bool ok = colon != NULL && host_size > 0 && host_size < sizeof(host) &&
              base_str_u64(base_str_of(colon + 1), &port) == BASE_OK && port <= 65535;
    if (ok) {
        memcpy(host, text, host_size);
        host[host_size] = '\0';
        ok = parse_host(host, (uint16_t)port, out);
    }
    return ok ? BASE_OK
              : base_error_set(error, BASE_ERR_INVALID,
                               "'%.60s' is not ADDR:PORT with a numeric address", text);
}

static bool is_loopback(const struct address *address)
{
    if (address->at.any.sa_family == AF_INET) {
        return (ntohl(address->at.v4.sin_addr.s_addr) >> 24) == 127;
    }
    const struct in6_addr *v6 = &address->at.v6.sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

static void peer_of(const struct address *address, struct gw_peer_address *out)
{
    memset(out, 0, sizeof(*out));
    if (address->at.any.sa_family == AF_INET) {
        out->bytes[10] = out->bytes[11] = 0xff;
        memcpy(out->bytes + 12, &address->at.v4.sin_addr, 4);
    } else {
        memcpy(out->bytes, &address->at.v6.sin6_addr, 16);
    }
}

static void print_address(const struct address *address, char *out)
{
    char host[INET6_ADDRSTRLEN] = "?";
    bool v4 = address->at.any.sa_family == AF_INET;
    if (v4) {
        (void)inet_ntop(AF_INET, &address->at.v4.sin_addr, host, sizeof(host));
    } else {
        (void)inet_ntop(AF_INET6, &address->at.v6.sin6_addr, host, sizeof(host));
    }
    in_port_t port = v4 ? address->at.v4.sin_port : address->at.v6.sin6_port;
    (void)snprintf(out, GW_ADDRESS_TEXT_MAX, v4 ? "%s:%u" : "[%s]:%u", host, ntohs(port));
}

static bool is_wildcard(const struct address *address)
{
    return address->at.any.sa_family == AF_INET
               ? address->at.v4.sin_addr.s_addr == INADDR_ANY
               : IN6_IS_ADDR_UNSPECIFIED(&address->at.v6.sin6_addr);
}

bool gw_listener_same(const char *left, const char *right)
{
    struct address x;
    struct address y;
    if (parse_address(left, &x, NULL) != BASE_OK || parse_address(right, &y, NULL) != BASE_OK) {
        return false;
    }
    bool v4 = x.at.any.sa_family == AF_INET;
    in_port_t port = v4 ? x.at.v4.sin_port : x.at.v6.sin6_port;
    bool families = x.at.any.sa_family == y.at.any.sa_family;
    in_port_t other = y.at.any.sa_family == AF_INET ? y.at.v4.sin_port : y.at.v6.sin6_port;
    if (port == 0 || port != other) {
        return false;
    }
    if (!families) { // [::] takes the port of the other family too
        return is_wildcard(v4 ? &y : &x);
    }
    return is_wildcard(&x) || is_wildcard(&y) ||
           (v4 ? x.at.v4.sin_addr.s_addr == y.at.v4.sin_addr.s_addr
               : IN6_ARE_ADDR_EQUAL(&x.at.v6.sin6_addr, &y.at.v6.sin6_addr));
}

// SO_REUSEPORT would let a second process of the same user share the port, and its connections,
// silently. A bind without it tells; what a process in TIME_WAIT left does not count.
static bool is_taken(const struct address *where)
{
    int one = 1;
    int fd = socket(where->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool taken = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                 bind(fd, &where->at.any, where->size) != 0 && errno == EADDRINUSE;
    if (fd >= 0) {
        close(fd);
    }
    return taken;
}

enum base_status gw_listener_free_to_bind(const char *address, struct base_error *error)
{
    struct address where;
    BASE_TRY(parse_address(address, &where, error));
    if (is_taken(&where)) {
        return base_error_set(error, BASE_ERR_IO, "%.60s: another process listens there", address);
    }
    return BASE_OK;
}

static enum base_status parse_listen(const char *address, bool loopback_only, struct address *out,
                                     struct base_error *error)
{
    BASE_TRY(parse_address(address, out, error));
    return !loopback_only || is_loopback(out)
               ? BASE_OK
               : base_error_set(error, BASE_ERR_DENIED,
                                "%.60s: clear HTTP/2 is served on loopback addresses only",
                                address);
}

enum base_status gw_listener_check(const char *address, bool loopback_only,
                                   struct base_error *error)
{
    struct address where;
    return parse_listen(address, loopback_only, &where, error);
}

enum base_status gw_listener_bind(const char *address, bool loopback_only, int *out_fd,
                                  char *out_text, struct base_error *error)
{
    struct address where;
    BASE_TRY(parse_listen(address, loopback_only, &where, error));
    int fd = socket(where.at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return base_error_set(error, BASE_ERR_IO, "%.60s: %s", address, strerror(errno));
    }
    int one = 1;
    bool ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
              setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) == 0 &&
              bind(fd, &where.at.any, where.size) == 0 && listen(fd, LISTEN_BACKLOG) == 0;
    where.size = sizeof(where.at);
    ok = ok && getsockname(fd, &where.at.any, &where.size) == 0;
    if (!ok) {
        enum base_status status =
            base_error_set(error, BASE_ERR_IO, "%.60s: %s", address, strerror(errno));
        close(fd);
        return status;
    }
    print_address(&where, out_text);
    *out_fd = fd;
    return BASE_OK;
}

// ---- Accepting

enum base_status gw_listener_admit(struct gw_http_worker *worker,
                                   const struct gw_peer_address *peer, bool tls)
{
    const struct gw_limits *limits = &worker->limits;
    const struct gw_peer_use connect = {
        GW_PEER_CONNECTS, {limits->connects_per_s, limits->connects_burst}, 1};
    const struct gw_peer_use handshake = {
        GW_PEER_HANDSHAKES, {limits->handshakes_per_s, limits->handshakes_burst}, 1};
    bool may = gw_peer_rates_take(worker->rates, peer, &connect, worker->now_us) &&
               (!tls || gw_peer_rates_take(worker->rates, peer, &handshake, worker->now_us));
    if (!may) {
        gw_stat_add(&worker->stats->connects_refused, 1);
    }
    return may ? BASE_OK : BASE_ERR_LIMIT;
}

static void take(struct gw_listener *listener, int fd, const struct address *from)
{
    struct gw_http_worker *worker = listener->worker;
    const struct gw_trust *trust = &worker->trust;
    struct gw_conn_origin origin = {.loopback = is_loopback(from)};
    peer_of(from, &origin.peer);
    origin.proxied = trust->proxy_protocol && gw_address_set_has(&trust->proxies, &origin.peer);
    origin.hop = gw_address_set_has(&trust->hops, &origin.peer);
    // Who carries others is not these: rates are paid when it is known who it is, or not at all.
    bool carries = origin.proxied || origin.hop;
    origin.loopback = origin.loopback && !carries;
    // Operators on this machine can still do something about it.
    if ((gw_overload_now(worker->overload) == GW_OVERLOAD_CRITICAL && !origin.loopback) ||
        (!carries && gw_listener_admit(worker, &origin.peer, listener->tls) != BASE_OK) ||
        gw_peer_table_take(worker->peers, &origin.peer, worker->limits.connections,
                           worker->limits.connections_per_address) != BASE_OK) {
        gw_stat_add(&worker->stats->rejected_total, 1);
        close(fd);
        return;
    }
    if (gw_conn_new(worker, fd, listener->tls, &origin) != BASE_OK) {
        gw_stat_add(&worker->stats->rejected_total, 1);
    }
}

// Out of descriptors or memory: the connection stays in the backlog; the worker's tick resumes.
static void pause_accepting(struct gw_listener *listener)
{
    if (event_del(listener->event) == 0) {
        listener->paused = true;
        listener->paused_ms = listener->worker->now_ms;
        base_log_warn(listener->worker->log, "listener", "accepting pauses: %s", strerror(errno));
    }
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    (void)what;
    struct gw_listener *listener = ctx;
    gw_http_worker_now(listener->worker);
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct address from = {.size = sizeof(from.at)};
        int got = accept4(fd, &from.at.any, &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (got >= 0) {
            take(listener, got, &from);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(listener);
            break;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            break;
        } // else: that one went away before it was taken; the next may be there
    }
    gw_http_worker_flush(listener->worker);
}

void gw_listener_configure(struct gw_listener *listener)
{
    int one = 1;
    if (listener != NULL) { // accepted sockets take these over
        (void)setsockopt(listener->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        gw_send_guard_bound(listener->fd, &listener->worker->limits);
    }
}

void gw_listener_resume(struct gw_listener *listener)
{
    if (listener->paused && listener->worker->now_ms - listener->paused_ms >= FD_PAUSE_MS &&
        event_add(listener->event, NULL) == 0) {
        listener->paused = false;
    }
}

enum base_status gw_listener_new(struct gw_http_worker *worker, int fd, bool tls,
                                 struct gw_listener **out_listener)
{
    struct gw_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        close(fd);
        return BASE_ERR_NOMEM;
    }
    listener->worker = worker;
    listener->fd = fd;
    listener->tls = tls;
    gw_listener_configure(listener);
    listener->event = event_new(worker->base, fd, EV_READ | EV_PERSIST, on_readable, listener);
    if (listener->event == NULL || event_add(listener->event, NULL) != 0) {
        gw_listener_free(listener);
        return BASE_ERR_NOMEM;
    }
    *out_listener = listener;
    return BASE_OK;
}

void gw_listener_free(struct gw_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    if (listener->event != NULL) {
        event_free(listener->event);
    }
    close(listener->fd);
    free(listener);
}
