// What a connection's peer must do about what was sent to it: take it, at least a little in every
// timeouts.write_ms. The kernel takes replies long before the peer does, so it is asked: how much
// has arrived, how much has not, and what memory that holds. Asked once a second while something is
// under way, never on an idle connection.
//
// Part of a connection; its worker's thread.
#ifndef GW_HTTP_SEND_GUARD_H
#define GW_HTTP_SEND_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct gw_conn;
struct gw_limits;

struct gw_send_guard {
    bool waits;  // something was written that was not seen to arrive
    bool timing; // ... and must go on from `mark`
    uint64_t mark_bytes;
    uint64_t mark_ms;
    uint64_t goal_bytes;
    uint64_t held_bytes; // kernel memory of the socket when last asked
};

// What the kernel says of a socket.
struct gw_send_state {
    uint64_t arrived_bytes; // since its beginning
    uint64_t waiting_bytes; // sent and not arrived, or not sent
};

// The rule by itself: true when the peer took too little since the mark.
bool gw_send_guard_step(struct gw_send_guard *guard, const struct gw_send_state *state,
                        const struct gw_limits *limits, uint64_t now_ms);
// Asks the kernel, counts what the socket holds, and applies the rule. True: to be closed.
bool gw_send_guard_overdue(struct gw_conn *conn, uint64_t now_ms);
// The connection ends: its socket holds nothing any more.
void gw_send_guard_end(struct gw_conn *conn);
// Closing frees what the kernel holds at once (a reset), instead of trying to deliver it.
void gw_send_guard_abort(struct gw_conn *conn);

// Bounds of kernel memory and of time for every connection of a listening socket, which pass them
// on to those they accept.
void gw_send_guard_bound(int listening_fd, const struct gw_limits *limits);

#endif
