// tunnel_devices: real devices' tunnels (device/tunnel over the posix transport) against a gateway,
// each with a connection and a store of its own. Offers records, waits until all are durable or
// declared lost, and checks the law on every device: produced = durable + queued + lost. Goes
// through restarts of the gateway. Prints one JSON line.
//
//   tunnel_devices HOST:PORT --devices 200 --records 500 --bytes 300 --seconds 60
//
// Exit status 1: the law was broken. 2: not all was delivered in time. One thread.
#include "base/clock.h"
#include "base/prng.h"
#include "base/str.h"
#include "mem/mem_kv.h"
#include "posix/posix_http.h"
#include "posix/posix_tunnel.h"
#include "tunnel/tunnel.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_MAX 60000
#define LOOK_MS    50
#define EXIT_LAW   1
#define EXIT_LATE  2
#define US_PER_S   1000000u

struct arguments {
    char host[64];
    uint16_t port;
    bool clear;
    uint64_t devices;
    uint64_t records; // of each device
    uint64_t bytes;   // of a record, at most
    uint64_t seconds;
    uint64_t share; // records come in the first `seconds` / `share`
    uint64_t seed;
    uint64_t first_device;
};

struct run;

struct device {
    struct run *run;
    struct mem_kv kv;
    struct dev_kv_port kv_port;
    struct posix_http *http;
    struct posix_tunnel *transport;
    struct dev_collect *collect;
    struct dev_tunnel *tunnel;
    struct event *step_event;
    struct event *produce_event;
    struct base_prng prng;
    struct dev_tunnel_config config;
    uint64_t id;
    uint64_t offered;
};

struct run {
    struct arguments arguments;
    struct event_base *base;
    struct h2_tls *tls;
    struct device *devices;
    uint64_t began_us;
    uint64_t ended_us;
    uint8_t record[RECORD_MAX];
};

static _Noreturn void fail(const char *what, long number)
{
    fprintf(stderr, "tunnel_devices: %s (%ld)\n", what, number);
    exit(EXIT_LATE);
}

static void must(enum base_status status, const char *what)
{
    if (status != BASE_OK) {
        fail(what, status);
    }
}

// ---- A device's loop

static void woke(void *ctx)
{
    struct device *device = ctx;
    event_active(device->step_event, EV_TIMEOUT, 0);
}

static void on_step(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct device *device = arg;
    uint64_t now_us = base_clock_mono_us();
    uint64_t due_us = dev_tunnel_step(device->tunnel, now_us);
    if (due_us != UINT64_MAX) {
        uint64_t wait_us = due_us > now_us ? due_us - now_us : 0;
        struct timeval wait = {.tv_sec = (time_t)(wait_us / US_PER_S),
                               .tv_usec = (suseconds_t)(wait_us % US_PER_S)};
        (void)event_add(device->step_event, &wait);
    }
}

static void produce_later(struct device *device)
{
    const struct arguments *arguments = &device->run->arguments;
    uint64_t mean_us = arguments->seconds * US_PER_S / arguments->share / arguments->records;
    uint64_t wait_us = base_prng_next(&device->prng) % (2 * mean_us + 1);
    struct timeval wait = {.tv_sec = (time_t)(wait_us / US_PER_S),
                           .tv_usec = (suseconds_t)(wait_us % US_PER_S)};
    (void)event_add(device->produce_event, &wait);
}

static void on_produce(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct device *device = arg;
    const struct arguments *arguments = &device->run->arguments;
    uint64_t draw = base_prng_next(&device->prng);
    const struct wire_upload_record record = {
        .class_id = (uint8_t)(draw % WIRE_TUNNEL_CLASSES),
        .key = {BASE_STR("bench/tunnel"), BASE_STR("feature"), 1},
        .format = WIRE_RECORD_BYTES,
        .wall_ms = base_clock_wall_us() / 1000,
        .bytes = device->run->record,
        .size = (uint32_t)(1 + (draw >> 8) % arguments->bytes),
    };
    must(dev_tunnel_offer(device->tunnel, base_clock_mono_us(), &record, NULL), "offer");
    woke(device);
    if (++device->offered < arguments->records) {
        produce_later(device);
    } else {
        dev_tunnel_flush(device->tunnel, base_clock_mono_us());
    }
}

static void *block(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
    if (memory == NULL) {
        fail("memory", (long)size);
    }
    return memory;
}

static uint64_t draw_random(void *ctx)
{
    return base_prng_next(ctx);
}

static void open_device(struct run *run, struct device *device, uint64_t index)
{
    const struct arguments *arguments = &run->arguments;
    device->run = run;
    device->id = arguments->first_device + index;
    base_prng_seed(&device->prng, arguments->seed * 1000003 + index);
    mem_kv_init(&device->kv);
    device->kv_port = mem_kv_port(&device->kv);
    device->step_event = event_new(run->base, -1, EV_TIMEOUT, on_step, device);
    device->produce_event = event_new(run->base, -1, EV_TIMEOUT, on_produce, device);
    if (device->step_event == NULL || device->produce_event == NULL) {
        fail("memory", 0);
    }
    const struct posix_http_options options = {
        .base = run->base,
        .host = base_str_of(arguments->host),
        .port = arguments->port,
        .tls = run->tls,
        .ctx = device,
        .woke = woke,
    };
    must(posix_http_new(&options, &device->http), "transport");
    must(posix_tunnel_new(device->http, device->id, device, woke, &device->transport), "transport");
    must(dev_collect_init(block(dev_collect_bytes()), dev_collect_bytes(), &device->kv_port,
                          &device->collect),
         "store");
    must(dev_collect_boot(device->collect, base_clock_mono_us()), "store");
    device->config = (struct dev_tunnel_config){
        .device_id = device->id, .app = BASE_STR("1.0.0"), .os = BASE_STR("linux")};
    const struct dev_tunnel_ports ports = {
        .collect = device->collect,
        .random = {.ctx = &device->prng, .next = draw_random},
        .transport = posix_tunnel_table(device->transport),
    };
    must(dev_tunnel_init(block(dev_tunnel_bytes(&device->config)),
                         dev_tunnel_bytes(&device->config), &device->config, &ports,
                         &device->tunnel),
         "tunnel");
    posix_tunnel_attach(device->transport, device->tunnel);
    must(dev_tunnel_boot(device->tunnel, base_clock_mono_us()), "boot");
    produce_later(device);
    woke(device);
}

// ---- The law

struct sums {
    uint64_t produced;
    uint64_t durable;
    uint64_t queued;
    uint64_t lost;
    uint64_t sent;
    uint64_t resent;
    uint64_t connects;
    uint64_t forks;
    uint64_t rejects;
    uint64_t bad_frames;
    uint64_t broken; // devices
};

static void add_device(const struct device *device, struct sums *sums)
{
    struct dev_tunnel_stats stats;
    struct sums own = {0};
    dev_tunnel_stats(device->tunnel, &stats);
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        const struct dev_tunnel_class_stats *one = &stats.classes[i];
        own.produced += one->produced;
        own.durable += one->durable;
        own.queued += one->queued;
        for (uint32_t reason = 0; reason < WIRE_TUNNEL_LOSS_END; reason++) {
            own.lost += one->lost[reason];
        }
        sums->sent += one->batches_sent;
        sums->resent += one->batches_resent;
    }
    bool holds = own.produced == own.durable + own.queued + own.lost &&
                 own.produced == device->offered && dev_tunnel_validate(device->tunnel);
    sums->produced += own.produced;
    sums->durable += own.durable;
    sums->queued += own.queued;
    sums->lost += own.lost;
    sums->connects += stats.connects;
    sums->forks += stats.forks;
    sums->rejects += stats.rejects;
    sums->bad_frames += stats.bad_frames;
    sums->broken += holds ? 0 : 1;
}

static struct sums look(const struct run *run)
{
    struct sums sums = {0};
    for (uint64_t i = 0; i < run->arguments.devices; i++) {
        add_device(&run->devices[i], &sums);
    }
    return sums;
}

static bool all_idle(const struct run *run)
{
    bool idle = true;
    for (uint64_t i = 0; i < run->arguments.devices && idle; i++) {
        const struct device *device = &run->devices[i];
        idle = device->offered == run->arguments.records && dev_tunnel_is_idle(device->tunnel);
    }
    return idle;
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct run *run = arg;
    uint64_t now_us = base_clock_mono_us();
    bool late = now_us - run->began_us > run->arguments.seconds * US_PER_S;
    if (late || all_idle(run) || look(run).broken > 0) {
        run->ended_us = now_us;
        event_base_loopbreak(run->base);
    }
}

static int report(const struct run *run)
{
    struct sums sums = look(run);
    bool delivered = all_idle(run);
    printf("{\"devices\":%" PRIu64 ",\"seconds\":%.2f,\"produced\":%" PRIu64 ",\"durable\":%" PRIu64
           ",\"queued\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"batches\":%" PRIu64
           ",\"resent\":%" PRIu64 ",\"connects\":%" PRIu64 ",\"forks\":%" PRIu64
           ",\"rejects\":%" PRIu64 ",\"bad_frames\":%" PRIu64 ",\"law_broken\":%" PRIu64
           ",\"idle\":%s,\"seed\":%" PRIu64 "}\n",
           run->arguments.devices, (double)(run->ended_us - run->began_us) / US_PER_S,
           sums.produced, sums.durable, sums.queued, sums.lost, sums.sent, sums.resent,
           sums.connects, sums.forks, sums.rejects, sums.bad_frames, sums.broken,
           delivered ? "true" : "false", run->arguments.seed);
    (void)fflush(stdout);
    if (sums.broken > 0) {
        return EXIT_LAW;
    }
    return delivered ? EXIT_SUCCESS : EXIT_LATE;
}

// ---- Set-up

static const struct argp_option options[] = {
    {"devices", 'd', "N", 0, NULL, 0},
    {"records", 'r', "N", 0, "of each device", 0},
    {"bytes", 'b', "N", 0, "of a record, at most", 0},
    {"seconds", 't', "N", 0, "then it is over", 0},
    {"share", 'p', "N", 0, "records come in the first SECONDS / N (default 3)", 0},
    {"seed", 's', "N", 0, NULL, 0},
    {"first-device", 'f', "N", 0, NULL, 0},
    {"clear", 'c', NULL, 0, "without TLS", 0},
    {0},
};

static uint64_t *place_of(struct arguments *arguments, int key)
{
    switch (key) {
    case 'd':
        return &arguments->devices;
    case 'r':
        return &arguments->records;
    case 'b':
        return &arguments->bytes;
    case 't':
        return &arguments->seconds;
    case 'p':
        return &arguments->share;
    case 's':
        return &arguments->seed;
    case 'f':
        return &arguments->first_device;
    default:
        return NULL;
    }
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    uint64_t *number = place_of(arguments, key);
    uint64_t port = 0;
    const char *colon = value != NULL ? strrchr(value, ':') : NULL;
    if (number != NULL) {
        if (base_str_u64(base_str_of(value), number) != BASE_OK) {
            argp_error(state, "'%s' is not a number", value);
        }
        return 0;
    }
    if (key == 'c') {
        arguments->clear = true;
        return 0;
    }
    if (key != ARGP_KEY_ARG) {
        return ARGP_ERR_UNKNOWN;
    }
    if (colon == NULL || (size_t)(colon - value) >= sizeof(arguments->host) ||
        base_str_u64(base_str_of(colon + 1), &port) != BASE_OK || port > UINT16_MAX) {
        argp_error(state, "'%s' is not HOST:PORT", value);
        return EINVAL;
    }
    memcpy(arguments->host, value, (size_t)(colon - value));
    arguments->port = (uint16_t)port;
    return 0;
}

static void close_device(struct device *device)
{
    dev_tunnel_stop(device->tunnel);
    posix_tunnel_free(device->transport);
    posix_http_free(device->http);
    event_free(device->step_event);
    event_free(device->produce_event);
    free(device->tunnel);
    free(device->collect);
    mem_kv_done(&device->kv);
}

int main(int argc, char **argv)
{
    static const struct argp argp = {options, parse, "HOST:PORT", NULL, NULL, NULL, NULL};
    static struct run run = {.arguments = {.devices = 100,
                                           .records = 100,
                                           .bytes = 300,
                                           .seconds = 30,
                                           .share = 3,
                                           .seed = 1,
                                           .first_device = 1}};
    struct base_prng prng;
    if (argp_parse(&argp, argc, argv, 0, NULL, &run.arguments) != 0) {
        return EXIT_LATE;
    }
    base_prng_seed(&prng, run.arguments.seed);
    for (size_t i = 0; i < sizeof(run.record); i++) {
        run.record[i] = (uint8_t)base_prng_next(&prng);
    }
    run.base = event_base_new();
    run.devices = calloc(run.arguments.devices, sizeof(*run.devices));
    struct event *look_event =
        run.base != NULL ? event_new(run.base, -1, EV_PERSIST, on_look, &run) : NULL;
    if (look_event == NULL || run.devices == NULL || run.arguments.bytes > RECORD_MAX ||
        run.arguments.bytes == 0 || run.arguments.share == 0 || run.arguments.records == 0) {
        fail("arguments", 0);
    }
    if (!run.arguments.clear) {
        must(h2_tls_new(NULL, &run.tls), "TLS");
    }
    run.began_us = base_clock_mono_us();
    for (uint64_t i = 0; i < run.arguments.devices; i++) {
        open_device(&run, &run.devices[i], i);
    }
    struct timeval every = {.tv_usec = LOOK_MS * 1000};
    (void)event_add(look_event, &every);
    (void)event_base_loop(run.base, 0);
    int status = report(&run);
    for (uint64_t i = 0; i < run.arguments.devices; i++) {
        close_device(&run.devices[i]);
    }
    event_free(look_event);
    free(run.devices);
    h2_tls_free(run.tls);
    event_base_free(run.base);
    return status;
}
