// A worker that its caller runs. It is made as server.c makes one, with a certificate of its own,
// and its loop is gone through once at a call: what it would do by a timer is done when the
// caller's clock says so. Only fleet-sim/bytes has one, on the thread of its gateway's core.
#include "http/hand/hand_worker.h"

#include "base/check.h"
#include "http/conn.h"
#include "http/guard/peer_rates.h"
#include "http/guard/peer_table.h"
#include "http/secret/dev_certificate.h"
#include "http/tls/tls_context.h"
#include "http/worker.h"

#include <event2/event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATH_MAX_BYTES 512
#define RATE_PLACES    64u
#define TICK_US        (GW_WORKER_TICK_MS * UINT64_C(1000))
#define TURNS_MAX      64 // of the loop, for what the core still has

struct gw_hand {
    struct gw_http_worker *worker;
    struct gw_peer_table *peers;
    struct gw_peer_rates *rates;
    SSL_CTX *tls;
    struct gw_http_config config;
    struct base_clock_port clock;
};

static enum base_status make_tls(struct gw_hand *hand, const struct gw_hand_options *options,
                                 struct base_error *error)
{
    char certificate[PATH_MAX_BYTES];
    char key[PATH_MAX_BYTES];
    char tickets[PATH_MAX_BYTES];
    int a = snprintf(certificate, sizeof(certificate), "%s/hand.crt", options->dir);
    int b = snprintf(key, sizeof(key), "%s/hand.key", options->dir);
    int c = snprintf(tickets, sizeof(tickets), "%s/hand.tickets", options->dir);
    if (a < 0 || b < 0 || c < 0 || (size_t)c >= sizeof(tickets)) { // the longest of them
        return base_error_set(error, BASE_ERR_INVALID, "%.60s...: path too long", options->dir);
    }
    BASE_TRY(gw_dev_certificate_steady(certificate, key, error));
    const struct gw_tls_files files = {
        .certificate = certificate,
        .key = key,
        .ticket_key = tickets,
        .client_ca = "",
        .now_s = options->clock.wall_us(options->clock.ctx) / 1000000,
    };
    enum base_status status = gw_tls_context_new(&files, options->log, &hand->tls, error);
    // They are read, and a run that is killed leaves no key behind.
    (void)unlink(certificate);
    (void)unlink(key);
    (void)unlink(tickets);
    return status;
}

static enum base_status set_up(struct gw_hand *hand, const struct gw_hand_options *options,
                               struct base_error *error)
{
    gw_http_config_defaults(&hand->config);
    hand->config.limits.connections = GW_HAND_CONNECTIONS_MAX;
    hand->config.limits.connections_per_address = GW_HAND_CONNECTIONS_MAX;
    BASE_TRY(make_tls(hand, options, error));
    if (gw_peer_table_new(GW_HAND_CONNECTIONS_MAX, &hand->peers) != BASE_OK ||
        gw_peer_rates_new(RATE_PLACES, &hand->rates) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a worker");
    }
    const struct gw_http_worker_options worker = {
        .core = options->core,
        .peers = hand->peers,
        .rates = hand->rates,
        .config = &hand->config,
        .tls = hand->tls,
        .log = options->log,
        .clock = &hand->clock,
        .tap = &options->tap,
    };
    return gw_http_worker_new(&worker, &hand->worker, error);
}

enum base_status gw_hand_new(const struct gw_hand_options *options, struct gw_hand **out_hand,
                             struct base_error *error)
{
    struct gw_hand *hand = calloc(1, sizeof(*hand));
    if (hand == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a worker");
    }
    hand->clock = options->clock;
    enum base_status status = set_up(hand, options, error);
    if (status != BASE_OK) {
        gw_hand_free(hand);
        return status;
    }
    *out_hand = hand;
    return BASE_OK;
}

void gw_hand_free(struct gw_hand *hand)
{
    if (hand == NULL) {
        return;
    }
    if (hand->worker != NULL) {
        gw_hand_hang_up(hand);
        for (int i = 0; i < TURNS_MAX && hand->worker->unfinished > 0; i++) {
            gw_hand_run(hand);
        }
        base_check(hand->worker->unfinished == 0);
        gw_http_worker_free(hand->worker);
    }
    SSL_CTX_free(hand->tls);
    gw_peer_rates_free(hand->rates);
    gw_peer_table_free(hand->peers);
    free(hand);
}

// An address of 10.0.0.0/8, as an IPv4 one is written among those of IPv6.
static struct gw_peer_address address_of(uint32_t peer)
{
    struct gw_peer_address address = {.bytes = {0}};
    address.bytes[10] = address.bytes[11] = 0xff;
    address.bytes[12] = 10;
    for (int i = 0; i < 3; i++) {
        address.bytes[13 + i] = (uint8_t)(peer >> (16 - 8 * i));
    }
    return address;
}

enum base_status gw_hand_take(struct gw_hand *hand, int fd, uint32_t peer)
{
    const struct gw_conn_origin origin = {.peer = address_of(peer)};
    const struct gw_limits *limits = &hand->config.limits;
    enum base_status status = gw_peer_table_take(hand->peers, &origin.peer, limits->connections,
                                                 limits->connections_per_address);
    if (status != BASE_OK) {
        (void)close(fd);
        return status;
    }
    gw_http_worker_tick(hand->worker); // the clock may have stood long
    return gw_conn_new(hand->worker, fd, true, &origin);
}

void gw_hand_run(struct gw_hand *hand)
{
    struct gw_http_worker *worker = hand->worker;
    uint64_t now_us = gw_http_worker_mono_us(worker);
    if (worker->alarm_us <= now_us) {
        gw_http_worker_alarm(worker);
    }
    if (worker->conns != NULL && now_us >= worker->tick_ms * 1000 + TICK_US) {
        gw_http_worker_tick(worker);
    }
    (void)event_base_loop(worker->base, EVLOOP_NONBLOCK);
}

uint64_t gw_hand_due_us(const struct gw_hand *hand)
{
    const struct gw_http_worker *worker = hand->worker;
    uint64_t due = worker->conns != NULL ? worker->tick_ms * 1000 + TICK_US : UINT64_MAX;
    return worker->alarm_us < due ? worker->alarm_us : due;
}

bool gw_hand_waits(const struct gw_hand *hand)
{
    return atomic_load(&hand->worker->mailbox.head) != NULL;
}

void gw_hand_hang_up(struct gw_hand *hand)
{
    while (hand->worker->conns != NULL) {
        gw_conn_free(hand->worker->conns);
    }
    hand->worker->alarm_us = 0; // what the core gathers it lets go of at the next run
}
