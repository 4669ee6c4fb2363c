// The peers' load generators: command line, threads and report. Called by the main of each; every
// connection has a thread here.
#include "tunnel_peer.h"

#include "base/clock.h"
#include "base/prng.h"
#include "base/str.h"
#include "tunnel_report.h"
#include "tunnel_sockets.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGUMENTS       13
#define WARM            20
#define CONNECTIONS_MAX 64

static struct peer_arguments arguments;
static struct tunnel_report report;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the report
static atomic_uint_fast64_t acknowledged;
static const struct peer_client *peer;

_Noreturn void peer_fail(const char *what, const char *why)
{
    fprintf(stderr, "peer: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

uint64_t peer_number(const char *text)
{
    uint64_t value = 0;
    if (base_str_u64(base_str_of(text), &value) != BASE_OK) {
        peer_fail(text, "not a number");
    }
    return value;
}

const struct peer_arguments *peer_read(int argc, char **argv)
{
    struct peer_arguments *out = &arguments;
    struct base_prng prng;
    if (argc != ARGUMENTS) {
        peer_fail("usage",
                  "HOST PORT CA MODE BYTES CONNECTIONS COUNT LOW HIGH SECONDS PID SOCKETS");
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
    out->phone = strcmp(argv[12], "phone") == 0;
    out->tuned = out->phone || strcmp(argv[12], "ours") == 0;
    if (out->bytes > PEER_BYTES_MAX) {
        peer_fail(argv[5], "too large");
    }
    base_prng_seed(&prng, 1);
    for (uint64_t i = 0; i < out->bytes; i++) {
        out->payload[i] = (uint8_t)base_prng_next(&prng);
    }
    return out;
}

void peer_acknowledged(void)
{
    atomic_fetch_add(&acknowledged, 1);
}

static void pause_a_while(struct base_prng *prng)
{
    uint64_t span = arguments.gap_high_ms - arguments.gap_low_ms + 1;
    usleep((useconds_t)((arguments.gap_low_ms + base_prng_next(prng) % span) * 1000));
}

static void *run_connection(void *ctx)
{
    uint64_t index = (uint64_t)(uintptr_t)ctx;
    struct base_prng prng;
    base_prng_seed(&prng, index + 1);
    void *link = peer->connect(index);
    int fd = peer->socket(link);
    if (fd < 0) {
        peer_fail("socket", "not found");
    }
    if (arguments.tuned) {
        tunnel_sockets_client(fd, arguments.phone);
    }
    if (arguments.flood) {
        peer->flood(link);
    }
    uint64_t wrote_us = 0;
    for (uint64_t i = 0; i < WARM + arguments.count; i++) {
        uint64_t began_us = base_clock_mono_us();
        if (arguments.tuned) {
            tunnel_sockets_upload(fd, began_us - wrote_us);
        }
        wrote_us = began_us;
        peer->send(link);
        uint64_t took_us = base_clock_mono_us() - began_us;
        if (i >= WARM) {
            pthread_mutex_lock(&lock);
            tunnel_report_add(&report, took_us);
            pthread_mutex_unlock(&lock);
        }
        pause_a_while(&prng);
    }
    return NULL;
}

void peer_run(const struct peer_client *client)
{
    pthread_t threads[CONNECTIONS_MAX];
    uint64_t count =
        arguments.connections < CONNECTIONS_MAX ? arguments.connections : CONNECTIONS_MAX;
    peer = client;
    for (uint64_t i = 0; i < count; i++) {
        (void)pthread_create(&threads[i], NULL, run_connection, (void *)(uintptr_t)i);
    }
    if (arguments.flood) {
        sleep(1);
    }
    tunnel_report_begin(&report, arguments.pid);
    uint64_t before = atomic_load(&acknowledged);
    if (arguments.flood) {
        sleep((unsigned)arguments.seconds);
        report.done = atomic_load(&acknowledged) - before;
    } else {
        for (uint64_t i = 0; i < count; i++) {
            (void)pthread_join(threads[i], NULL);
        }
    }
    tunnel_report_print(&report, arguments.bytes);
    (void)fflush(stdout);
    _exit(EXIT_SUCCESS); // threads of the flood are under way
}
