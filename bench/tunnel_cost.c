// What a batch costs the gateway's tunnel, without sockets: one thread feeds the sessions of many
// devices with prepared frames of about one kilobyte, the log's thread writes and syncs, and all
// are acknowledged in the end. Prints one line of JSON.
//
//   tunnel_cost [--devices N] [--batches N per device] [--bytes N] [--dir DIR] [--schema]
#include "tunnel/gw_tunnel.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define FRAME_MAX 8192

struct settings {
    uint64_t devices;
    uint64_t batches;
    uint64_t bytes;
    const char *dir;
    bool schema;
};

struct peer {
    struct gw_session *session;
    uint64_t acked;
    uint8_t *frames; // one behind the other
    size_t *ends;
};

struct inbox {
    pthread_mutex_t lock;
    pthread_cond_t posted;
    struct gw_message *first;
    struct gw_message **last;
};

static struct settings settings = {2000, 60, 1000, "/tmp/walle-tunnel-cost", false};
static struct inbox inbox;

static void post(void *ctx, struct gw_message *message)
{
    struct inbox *to = ctx;
    pthread_mutex_lock(&to->lock);
    message->next = NULL;
    *to->last = message;
    to->last = &message->next;
    pthread_cond_signal(&to->posted);
    pthread_mutex_unlock(&to->lock);
}

static void pump(bool wait)
{
    pthread_mutex_lock(&inbox.lock);
    while (wait && inbox.first == NULL) {
        pthread_cond_wait(&inbox.posted, &inbox.lock);
    }
    struct gw_message *message = inbox.first;
    inbox.first = NULL;
    inbox.last = &inbox.first;
    pthread_mutex_unlock(&inbox.lock);
    while (message != NULL) {
        struct gw_message *next = message->next;
        message->run(message);
        message = next;
    }
}

static bool on_write(void *ctx, const uint8_t *bytes, size_t size)
{
    struct peer *peer = ctx;
    while (size >= WIRE_TUNNEL_HEAD) {
        enum wire_tunnel_type type;
        size_t payload;
        struct wire_tunnel_ack ack;
        if (wire_tunnel_head(bytes, size, &type, &payload) != BASE_OK) {
            return false;
        }
        if (type == WIRE_TUNNEL_ACK &&
            wire_tunnel_ack_parse(bytes + WIRE_TUNNEL_HEAD, payload, &ack) == BASE_OK) {
            peer->acked = ack.high_water;
        }
        bytes += WIRE_TUNNEL_HEAD + payload;
        size -= WIRE_TUNNEL_HEAD + payload;
    }
    return true;
}

static void on_end(void *ctx, bool reset)
{
    (void)ctx;
    fprintf(stderr, "a stream ended (%d)\n", reset);
    exit(1);
}

static void need(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "tunnel_cost: %s\n", what);
        exit(1);
    }
}

// A feature like an item page view's: about a kilobyte of JSON in one record.
static size_t make_payload(uint64_t device, uint64_t number, uint8_t *out)
{
    char body[FRAME_MAX];
    struct wire_upload_key upload = {BASE_STR("shop.ipv"), BASE_STR("feature"), 1};
    size_t size = (size_t)snprintf(
        body, sizeof(body), "{\"item\":\"i-%llu\",\"dwell\":%llu.25,\"clicks\":%llu,\"log\":[",
        (unsigned long long)(device * 31 + number), (unsigned long long)(number % 600),
        (unsigned long long)(number % 9));
    for (uint64_t i = 0; size < settings.bytes - 40; i++) {
        size +=
            (size_t)snprintf(body + size, sizeof(body) - size, "%s{\"k\":\"scroll\",\"v\":%llu}",
                             i > 0 ? "," : "", (unsigned long long)((device ^ i * 7) % 1000));
    }
    size += (size_t)snprintf(body + size, sizeof(body) - size, "]}");
    const struct wire_record record = {.format = WIRE_RECORD_JSON,
                                       .wall_ms = 1795000000000,
                                       .bytes = (const uint8_t *)body,
                                       .size = (uint32_t)size};
    size_t wrote = 0;
    need(wire_batch_encode(&(struct wire_batch_content){&upload, 1, &record, 1}, out, FRAME_MAX,
                           &wrote) == BASE_OK,
         "encode");
    return wrote;
}

static void prepare(struct peer *peer, uint64_t device)
{
    uint8_t payload[FRAME_MAX];
    uint64_t hash = wire_tunnel_chain_first(device, 1, 1);
    size_t capacity = settings.batches * (settings.bytes + 256);
    size_t at = 0;
    peer->frames = malloc(capacity);
    peer->ends = calloc(settings.batches, sizeof(*peer->ends));
    need(peer->frames != NULL && peer->ends != NULL, "memory");
    for (uint64_t n = 0; n < settings.batches; n++) {
        size_t size = make_payload(device, n, payload);
        struct wire_tunnel_batch batch = {.class_id = 1,
                                          .epoch = 1,
                                          .number = n,
                                          .first_seq = n,
                                          .count = 1,
                                          .prev_hash = hash,
                                          .hash = wire_tunnel_chain(hash, payload, size),
                                          .raw_bytes = (uint32_t)size,
                                          .sent_bytes = (uint32_t)size,
                                          .bytes = payload,
                                          .part_bytes = (uint32_t)size};
        size_t wrote = 0;
        need(wire_tunnel_batch_encode(&batch, peer->frames + at, capacity - at, &wrote) == BASE_OK,
             "batch");
        at += wrote;
        peer->ends[n] = at;
        hash = batch.hash;
    }
}

static void open_peer(struct gw_tunnel_worker *worker, struct peer *peer, uint64_t device)
{
    uint8_t frame[512];
    size_t size = 0;
    const struct gw_session_port port = {.ctx = peer, .write = on_write, .end = on_end};
    const struct wire_tunnel_hello hello = {
        .device = device,
        .app = BASE_STR("1"),
        .os = BASE_STR("1"),
        .class_count = 1,
        .classes[0] = {.class_id = 1,
                       .epoch = 1,
                       .next = settings.batches,
                       .tail_hash = wire_tunnel_chain_first(device, 1, 1)}};
    need(gw_session_open(worker, device, 0, &port, &peer->session) == BASE_OK, "open");
    need(wire_tunnel_hello_encode(&hello, frame, sizeof(frame), &size) == BASE_OK, "hello");
    need(gw_session_receive(peer->session, frame, size) == BASE_OK, "HELLO");
}

static double cpu_s(int who)
{
    struct rusage usage;
    (void)getrusage(who, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void feed(struct gw_tunnel_worker *worker, struct peer *peers)
{
    for (uint64_t n = 0; n < settings.batches; n++) {
        for (uint64_t d = 0; d < settings.devices; d++) {
            struct peer *peer = &peers[d];
            size_t from = n > 0 ? peer->ends[n - 1] : 0;
            need(gw_session_receive(peer->session, peer->frames + from, peer->ends[n] - from) ==
                     BASE_OK,
                 "BATCH");
            if (d % 16 == 15) { // as often as a loop turns
                gw_tunnel_worker_flush(worker);
                pump(false);
            }
        }
    }
    for (uint64_t d = 0; d < settings.devices; d++) {
        while (peers[d].acked < settings.batches) {
            pump(true);
        }
    }
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--schema") == 0) {
            settings.schema = true;
        } else if (more && strcmp(argv[i], "--dir") == 0) {
            settings.dir = argv[++i];
        } else {
            uint64_t *into = strcmp(argv[i], "--devices") == 0   ? &settings.devices
                             : strcmp(argv[i], "--batches") == 0 ? &settings.batches
                             : strcmp(argv[i], "--bytes") == 0   ? &settings.bytes
                                                                 : NULL;
            need(into != NULL && more && base_str_u64(base_str_of(argv[++i]), into) == BASE_OK,
                 "usage: --devices N --batches N --bytes N --dir DIR --schema");
        }
    }
    need(settings.bytes >= 200 && settings.bytes <= 4000, "--bytes is 200 to 4000");
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    struct gw_tunnel *tunnel = NULL;
    struct gw_tunnel_worker *worker = NULL;
    struct base_error error = {0};
    const struct gw_tunnel_options options = {.dir = settings.dir,
                                              .device_batches_per_s = 1000000,
                                              .memory_bytes = UINT64_C(1) << 30,
                                              .clock = *base_clock_real()};
    inbox.last = &inbox.first;
    pthread_mutex_init(&inbox.lock, NULL);
    pthread_cond_init(&inbox.posted, NULL);
    need(gw_tunnel_new(&options, &tunnel, &error) == BASE_OK, error.text);
    need(gw_tunnel_worker_new(tunnel, &inbox, post, &worker) == BASE_OK, "worker");
    const struct wire_upload_key upload = {BASE_STR("shop.ipv"), BASE_STR("feature"), 1};
    static const char schema[] =
        "{\"fields\":{\"item\":\"string\",\"dwell\":{\"type\":\"number\",\"min\":0},\"clicks\":"
        "\"integer\",\"log\":{\"type\":\"list\",\"items\":{\"fields\":{\"k\":\"string\",\"v\":"
        "\"integer\"}}}}}";
    need(!settings.schema ||
             gw_tunnel_declare(tunnel, &(struct gw_upload){0, upload, 1, base_str_of(schema)},
                               &error) == BASE_OK,
         error.text);
    struct peer *peers = calloc(settings.devices, sizeof(*peers));
    need(peers != NULL, "memory");
    uint64_t first = base_clock_wall_us(); // other devices in every run
    for (uint64_t d = 0; d < settings.devices; d++) {
        prepare(&peers[d], first + d);
        open_peer(worker, &peers[d], first + d);
    }
    double all_before = cpu_s(RUSAGE_SELF);
    double own_before = cpu_s(RUSAGE_THREAD);
    uint64_t start_us = base_clock_mono_us();
    feed(worker, peers);
    double wall_s = (double)(base_clock_mono_us() - start_us) / 1e6;
    double own_s = cpu_s(RUSAGE_THREAD) - own_before;
    double all_s = cpu_s(RUSAGE_SELF) - all_before;
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(tunnel, &stats);
    double count = (double)(settings.devices * settings.batches);
    printf("{\"batches\":%.0f,\"wall_s\":%.3f,\"batches_per_s\":%.0f,\"worker_us\":%.2f,"
           "\"writer_us\":%.2f,\"batches_per_core_s\":%.0f,\"syncs\":%llu,\"sync_ms\":%.2f,"
           "\"bytes\":%.0f,\"schema\":%s}\n",
           count, wall_s, count / wall_s, own_s / count * 1e6, (all_s - own_s) / count * 1e6,
           count / all_s, (unsigned long long)stats.segments.syncs,
           (double)stats.segments.sync_us / 1e3 / (double)(stats.segments.syncs + 1),
           (double)stats.bytes_total / count, settings.schema ? "true" : "false");
    for (uint64_t d = 0; d < settings.devices; d++) {
        gw_session_close(peers[d].session);
        free(peers[d].frames);
        free(peers[d].ends);
    }
    free(peers);
    gw_tunnel_worker_free(worker);
    pump(false);
    gw_tunnel_free(tunnel);
    return 0;
}
