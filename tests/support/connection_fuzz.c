// A worker of the gateway's transport with the stub core, and one client after another on socket
// pairs; see the header. One thread.
#include "connection_fuzz.h"

#include "http/conn.h"
#include "http/worker.h"

#include "base/check.h"
#include "http/worker_life.h"
#include "stub_core.h"
#include "stub_tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS 8

static struct gw_http_worker *worker;

static void on_stopped(void *ctx, struct gw_http_worker *which)
{
    (void)ctx;
    (void)which;
}

static void set_up(void)
{
    static struct gw_http_config config;
    static struct gw_peer_table *peers;
    static struct gw_peer_rates *rates;
    static struct gw_core *core;
    static struct gw_tunnel *tunnel;
    const struct gw_tunnel_options tunnel_options = {0};
    struct gw_core_options core_options = {0};
    struct base_error error;
    gw_http_config_defaults(&config);
    config.limits.connections = 16;
    config.limits.header_bytes_per_s = 0; // a connection that waits does not see its peer's end
    base_check(gw_core_new(&core_options, &core, &error) == BASE_OK);
    base_check(gw_peer_table_new(16, &peers) == BASE_OK);
    base_check(gw_peer_rates_new(4, &rates) == BASE_OK);
    base_check(gw_tunnel_new(&tunnel_options, &tunnel, &error) == BASE_OK);
    const struct gw_http_worker_options options = {.core = core,
                                                   .tunnel = tunnel,
                                                   .peers = peers,
                                                   .rates = rates,
                                                   .config = &config,
                                                   .stopped = on_stopped};
    base_check(gw_http_worker_new(&options, &worker, &error) == BASE_OK);
}

// Lets the worker work and empties the client's side, so that both make progress.
static void turn(int client)
{
    char sink[16384];
    base_check(event_base_loop(worker->base, EVLOOP_NONBLOCK) >= 0);
    while (read(client, sink, sizeof(sink)) > 0) {
    }
}

void connection_fuzz_run(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    static const struct gw_conn_origin origin = {.peer = {{1}}, .loopback = true};
    if (worker == NULL) {
        set_up();
    }
    int ends[2];
    base_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    gw_http_worker_now(worker);
    base_check(gw_peer_table_take(worker->peers, &origin.peer, 16, 16) == BASE_OK);
    base_check(gw_conn_new(worker, ends[0], false, &origin) == BASE_OK);
    gw_http_worker_flush(worker);
    base_check(write(ends[1], preface, sizeof(preface)) == sizeof(preface));
    size_t at = 0;
    while (at < size && worker->conns != NULL) {
        ssize_t written = send(ends[1], data + at, size - at, MSG_NOSIGNAL);
        if (written < 0 && errno != EAGAIN) {
            break;
        }
        at += written > 0 ? (size_t)written : 0;
        turn(ends[1]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        turn(ends[1]);
    }
    close(ends[1]);
    for (int i = 0; i < ROUNDS; i++) {
        base_check(event_base_loop(worker->base, EVLOOP_NONBLOCK) >= 0);
    }
    (void)stub_core_let_go(worker->svc);
    base_check(worker->conns == NULL && worker->unfinished == 0);
    base_check(stub_tunnel_counts.open == 0);
    base_check(gw_peer_table_total(worker->peers) == 0);
}
