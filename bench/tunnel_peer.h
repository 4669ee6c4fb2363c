// Command line of the peers' load generators, the same for both:
//   PROGRAM HOST PORT CA MODE BYTES CONNECTIONS COUNT GAP_LOW_MS GAP_HIGH_MS SECONDS PID
// MODE latency: on each connection COUNT messages, one at a time with a pause drawn from the range.
// MODE flood: WINDOW messages under way on each connection, for SECONDS.
#ifndef BENCH_TUNNEL_PEER_H
#define BENCH_TUNNEL_PEER_H

#include "base/clock.h"
#include "base/prng.h"
#include "base/str.h"
#include "tunnel_report.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PEER_ARGUMENTS 12
#define PEER_WARM      20
#define PEER_WINDOW    1000
#define PEER_BYTES_MAX 65536

struct peer_arguments {
    const char *host;
    const char *port;
    const char *ca;
    bool flood;
    uint64_t bytes;
    uint64_t connections;
    uint64_t count;
    uint64_t gap_low_ms;
    uint64_t gap_high_ms;
    uint64_t seconds;
    uint64_t pid;
    uint8_t payload[PEER_BYTES_MAX];
};

static _Noreturn void peer_fail(const char *what, const char *why)
{
    fprintf(stderr, "peer: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static uint64_t peer_number(const char *text)
{
    uint64_t value = 0;
    if (base_str_u64(base_str_of(text), &value) != BASE_OK) {
        peer_fail(text, "not a number");
    }
    return value;
}

static void peer_read(struct peer_arguments *out, int argc, char **argv)
{
    struct base_prng prng;
    if (argc != PEER_ARGUMENTS) {
        peer_fail("usage", "HOST PORT CA MODE BYTES CONNECTIONS COUNT LOW HIGH SECONDS PID");
    }
    out->host = argv[1];
    out->port = argv[2];
    out->ca = argv[3];
    out->flood = strcmp(argv[4], "flood") == 0;
    out->bytes = peer_number(argv[5]);
    out->connections = peer_number(argv[6]);
    out->count = peer_number(argv[7]);
    out->gap_low_ms = peer_number(argv[8]);
    out->gap_high_ms = peer_number(argv[9]);
    out->seconds = peer_number(argv[10]);
    out->pid = peer_number(argv[11]);
    if (out->bytes > PEER_BYTES_MAX) {
        peer_fail(argv[5], "too large");
    }
    base_prng_seed(&prng, 1);
    for (uint64_t i = 0; i < out->bytes; i++) {
        out->payload[i] = (uint8_t)base_prng_next(&prng);
    }
}

static void peer_pause(const struct peer_arguments *arguments, struct base_prng *prng)
{
    uint64_t span = arguments->gap_high_ms - arguments->gap_low_ms + 1;
    usleep((useconds_t)((arguments->gap_low_ms + base_prng_next(prng) % span) * 1000));
}

#endif
