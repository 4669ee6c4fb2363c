// Reading the PROXY protocol's header from a socket; called by conn.c in the first state of a
// connection that a trusted balancer opened. Worker's thread. Bytes are looked at (MSG_PEEK) before
// they are taken, so that none behind the header is: the next one belongs to TLS or HTTP/2. Limits
// then count for the client that the header names and no longer for the balancer.
#include "http/conn_intro.h"

#include "http/config/http_limits.h"
#include "http/conn.h"
#include "http/listener.h"
#include "http/parse/proxy_header.h"
#include "http/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#define WARN_MS 1000u // the log says one wrong header in so long

struct gw_conn_intro {
    uint32_t size; // taken from the socket
    uint8_t bytes[GW_PROXY_HEADER_MAX];
};

enum base_status gw_conn_intro_new(struct gw_conn *conn)
{
    conn->intro = malloc(sizeof(*conn->intro));
    if (conn->intro == NULL) {
        return BASE_ERR_NOMEM;
    }
    conn->intro->size = 0;
    return BASE_OK;
}

void gw_conn_intro_free(struct gw_conn *conn)
{
    free(conn->intro);
    conn->intro = NULL;
}

// The client takes the place of the balancer.
static enum base_status change_peer(struct gw_conn *conn, const struct gw_peer_address *client)
{
    struct gw_http_worker *worker = conn->worker;
    const struct gw_limits *limits = &worker->limits;
    // The balancer's own place in the lists is not its client's: it is the client that is a hop, or
    // is not. A hop carries many, so their rates are not its own.
    bool hop = gw_address_set_has(&worker->trust.hops, client);
    if (!hop) {
        BASE_TRY(gw_listener_admit(worker, client, conn->tls));
    }
    gw_peer_table_give(worker->peers, &conn->peer);
    if (gw_peer_table_take(worker->peers, client, limits->connections,
                           limits->connections_per_address) != BASE_OK) {
        conn->counted = false;
        return BASE_ERR_LIMIT;
    }
    conn->peer = *client;
    conn->hop = hop;
    return BASE_OK;
}

static void warn(struct gw_http_worker *worker)
{
    if (worker->now_ms >= worker->intro_warn_ms) {
        worker->intro_warn_ms = worker->now_ms + WARN_MS;
        base_log_warn(worker->log, "listener",
                      "a connection from listen.proxy_from does not begin with a PROXY header of "
                      "version 1 or 2 and at most %u bytes: closed",
                      GW_PROXY_HEADER_MAX);
    }
}

// Takes bytes that were looked at.
static bool consume(struct gw_conn *conn, size_t size)
{
    struct gw_conn_intro *intro = conn->intro;
    ssize_t taken = size > 0 ? recv(conn->fd, intro->bytes + intro->size, size, 0) : 0;
    intro->size += taken > 0 ? (uint32_t)taken : 0;
    return taken == (ssize_t)size;
}

enum base_status gw_conn_intro_read(struct gw_conn *conn)
{
    struct gw_conn_intro *intro = conn->intro;
    struct gw_proxy_header header;
    size_t used = 0;
    ssize_t seen =
        recv(conn->fd, intro->bytes + intro->size, sizeof(intro->bytes) - intro->size, MSG_PEEK);
    if (seen <= 0) {
        bool later = seen < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
        return later ? BASE_ERR_BUSY : BASE_ERR_CLOSED;
    }
    size_t have = intro->size + (size_t)seen;
    enum base_status status = gw_proxy_header_parse(intro->bytes, have, &header, &used);
    if (status == BASE_ERR_INVALID) {
        warn(conn->worker);
        return status;
    }
    if (!consume(conn, status == BASE_OK ? used - intro->size : (size_t)seen)) {
        return BASE_ERR_IO;
    }
    if (status == BASE_OK && header.has_client) {
        return change_peer(conn, &header.client);
    }
    return status;
}
