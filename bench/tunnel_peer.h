// What the peers' load generators have in common: all but the peer's client library.
//   PROGRAM HOST PORT CA MODE BYTES CONNECTIONS COUNT GAP_LOW_MS GAP_HIGH_MS SECONDS PID SOCKETS
// MODE latency: on each connection COUNT messages, one at a time with a pause drawn from the range.
// MODE flood: PEER_WINDOW messages under way on each connection, for SECONDS.
// SOCKETS ours: with the options that a device of ours sets. phone: without what phones' kernels
// lack of these. own: as the peer's library makes them.
#ifndef BENCH_TUNNEL_PEER_H
#define BENCH_TUNNEL_PEER_H

#include <stdbool.h>
#include <stdint.h>

#define PEER_WINDOW    1000
#define PEER_BYTES_MAX 65536

struct peer_arguments {
    const char *host;
    const char *port;
    const char *ca;
    bool flood;
    bool tuned;
    bool phone;
    uint64_t bytes;
    uint64_t connections;
    uint64_t count;
    uint64_t gap_low_ms;
    uint64_t gap_high_ms;
    uint64_t seconds;
    uint64_t pid;
    uint8_t payload[PEER_BYTES_MAX];
};

// Each call on the connection's own thread.
struct peer_client {
    void *(*connect)(uint64_t index);
    void (*send)(void *link);  // one message; returns when it was acknowledged
    void (*flood)(void *link); // without end; peer_acknowledged for each acknowledgement
    int (*socket)(void *link);
};

_Noreturn void peer_fail(const char *what, const char *why);
uint64_t peer_number(const char *text);
// The command line, for the whole run.
const struct peer_arguments *peer_read(int argc, char **argv);
void peer_acknowledged(void); // any thread
// Runs and reports; does not return.
_Noreturn void peer_run(const struct peer_client *client);

#endif
