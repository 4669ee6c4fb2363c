// Deadlines and memory of a connection's output in the kernel. Called by conn.c from the timer of a
// connection, and by listener.c for a listening socket. The system calls are made on TCP sockets;
// on others (tests) they fail, and nothing is held.
#include "http/send_guard.h"

#include "http/config/http_limits.h"
#include "http/conn.h"
#include "http/loop/figure.h"
#include "http/memory/overload.h"
#include "http/worker.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif
#define MEMINFO_RMEM   0 // indices of SO_MEMINFO's answer (linux/sock_diag.h)
#define MEMINFO_QUEUED 5
#define MEMINFO_COUNT  9
#define UNSENT_BYTES   (128 * 1024) // in the kernel, not yet on the wire

// As much of tcp_info as has tcpi_bytes_acked (Linux 4.1), which the C library's may lack.
struct tcp_state {
    uint8_t bytes[8];
    uint32_t words[24];
    uint64_t pacing_rate;
    uint64_t max_pacing_rate;
    uint64_t bytes_acked;
};

bool gw_send_guard_step(struct gw_send_guard *guard, const struct gw_send_state *state,
                        const struct gw_limits *limits, uint64_t now_ms)
{
    if (guard->timing && state->arrived_bytes - guard->mark_bytes < guard->goal_bytes) {
        return now_ms - guard->mark_ms > limits->write_ms;
    }
    uint64_t goal = limits->reply_rate_bytes * limits->write_ms / 1000;
    guard->timing = true;
    guard->mark_bytes = state->arrived_bytes;
    guard->mark_ms = now_ms;
    guard->goal_bytes = goal < state->waiting_bytes ? goal : state->waiting_bytes;
    if (guard->goal_bytes == 0) {
        guard->goal_bytes = 1;
    }
    return false;
}

static bool look(int fd, struct gw_send_state *out)
{
    struct tcp_state tcp = {.bytes_acked = 0};
    socklen_t size = sizeof(tcp);
    int waiting = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &tcp, &size) != 0 || size < sizeof(tcp) ||
        ioctl(fd, SIOCOUTQ, &waiting) != 0) {
        return false;
    }
    out->arrived_bytes = tcp.bytes_acked;
    out->waiting_bytes = (uint64_t)waiting;
    return true;
}

static void hold(struct gw_conn *conn, uint64_t bytes)
{
    gw_overload_sockets(conn->worker->overload, conn->sending.held_bytes, bytes);
    gw_stat_add(&conn->worker->stats->socket_bytes, bytes - conn->sending.held_bytes);
    conn->sending.held_bytes = bytes;
}

static uint64_t held_by(int fd)
{
    uint32_t memory[MEMINFO_COUNT] = {0};
    socklen_t size = sizeof(memory);
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &size) != 0) {
        return 0;
    }
    return (uint64_t)memory[MEMINFO_RMEM] + memory[MEMINFO_QUEUED];
}

bool gw_send_guard_overdue(struct gw_conn *conn, uint64_t now_ms)
{
    struct gw_send_guard *guard = &conn->sending;
    struct gw_send_state state = {0};
    if (!guard->waits) {
        return false;
    }
    if (!look(conn->fd, &state) || (state.waiting_bytes == 0 && conn->rest == NULL)) {
        guard->waits = false;
        guard->timing = false;
        hold(conn, 0);
        return false;
    }
    hold(conn, held_by(conn->fd));
    return gw_send_guard_step(guard, &state, &conn->worker->limits, now_ms);
}

void gw_send_guard_end(struct gw_conn *conn)
{
    hold(conn, 0);
}

void gw_send_guard_abort(struct gw_conn *conn)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void gw_send_guard_bound(int listening_fd, const struct gw_limits *limits)
{
    int buffer = (int)limits->socket_buffer_bytes;
    int unsent = UNSENT_BYTES;
    unsigned int user_ms = (unsigned int)limits->write_ms;
    if (buffer > 0) {
        (void)setsockopt(listening_fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
        (void)setsockopt(listening_fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    }
    (void)setsockopt(listening_fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    // What is closed with output under way goes after as long, too.
    (void)setsockopt(listening_fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof(user_ms));
}
