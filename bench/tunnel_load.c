// tunnel_load: many devices' tunnel streams against a gateway, by the frames themselves, on the
// device's HTTP/2 client. Prints one JSON line.
//
//   tunnel_load HOST:PORT --mode latency --bytes 3000 --count 500 --connections 8
//     on each connection one device with one stream; a batch, its durable acknowledgement, a pause
//     drawn from --gap-ms A to B, again. Times are from the call that sends to the durable ACK.
//   tunnel_load HOST:PORT --mode flood --bytes 1000 --seconds 5 --connections 8 --devices 400
//     every device keeps --window batches under way; counts durable batches.
//   tunnel_load HOST:PORT --mode idle --connections 20 --devices 20000 --pid PID
//     opens the streams, waits until the server has given back what it can, and tells its memory.
//   --phone: on a kernel as phones have it, which does not know TCP_RTO_MIN_US (Linux 6.16).
//
// Wrong answers (REJECT, FORK, a closed stream) fail the run. One thread.
#include "base/clock.h"
#include "base/prng.h"
#include "base/str.h"
#include "h2/h2_client.h"
#include "tunnel_report.h"
#include "tunnel_sockets.h"
#include "wire/batch.h"
#include "wire/digest.h"
#include "wire/tunnel_frame.h"

#include <argp.h>
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAYLOAD_MAX  (64 * 1024)
#define FRAME_MAX    (PAYLOAD_MAX + 256)
#define INPUT_MAX    8192
#define CLASS_ID     1
#define IDLE_MS      6000 // the server trims idle connections after three seconds
#define WARM_BATCHES 20   // of a latency run, not counted

struct arguments {
    char host[64];
    uint16_t port;
    bool clear;
    bool flood;
    bool idle;
    bool phone;
    uint64_t bytes;
    uint64_t count;
    uint64_t connections;
    uint64_t devices;
    uint64_t window;
    uint64_t seconds;
    uint64_t gap_low_ms;
    uint64_t gap_high_ms;
    uint64_t seed;
    uint64_t first_device;
    uint64_t pid; // of the gateway, whose CPU time is told
};

struct load;

struct connection {
    struct load *load;
    struct h2_client *client;
};

struct device {
    struct load *load;
    struct connection *connection;
    struct event *timer; // latency mode
    uint64_t id;
    int32_t stream;
    uint32_t epoch;
    uint64_t next;
    uint64_t first_seq;
    uint64_t hash;
    uint64_t tail; // durable below
    int64_t credit_bytes;
    int64_t credit_records;
    uint64_t sent_us;
    uint64_t done; // batches of a latency run
    uint64_t input_bytes;
    bool welcome;
    bool waits_room;
    uint8_t input[INPUT_MAX];
};

struct load {
    struct arguments arguments;
    struct event_base *base;
    struct event *timer;
    struct h2_tls *tls;
    struct connection *connections;
    struct device *devices;
    struct base_prng prng;
    uint64_t ready; // devices that were welcomed
    uint64_t finished;
    bool measuring;
    struct tunnel_report report;
    uint64_t acks;
    uint64_t busy;
    uint8_t payload[PAYLOAD_MAX];
    size_t payload_bytes;
    uint8_t frame[FRAME_MAX];
};

static _Noreturn void fail(const char *what, long number)
{
    fprintf(stderr, "tunnel_load: %s (%ld)\n", what, number);
    exit(EXIT_FAILURE);
}

// ---- A phone's kernel

static bool on_phone; // before the first socket, once

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size);

// The device's own sockets are refused what such a kernel refuses.
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    if (on_phone && level == IPPROTO_TCP && option == TCP_RTO_MIN_US) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return __real_setsockopt(fd, level, option, value, size);
}

// ---- Sending

static bool send_batch(struct device *device)
{
    struct load *load = device->load;
    const int64_t size = (int64_t)load->payload_bytes;
    if (device->credit_bytes < size || device->credit_records < 1 || device->waits_room) {
        return false;
    }
    struct wire_tunnel_batch batch = {
        .class_id = CLASS_ID,
        .epoch = device->epoch,
        .number = device->next,
        .first_seq = device->first_seq,
        .count = 1,
        .prev_hash = device->hash,
        .hash = wire_tunnel_chain(device->hash, load->payload, load->payload_bytes),
        .codec = WIRE_TUNNEL_PLAIN,
        .raw_bytes = (uint32_t)load->payload_bytes,
        .sent_bytes = (uint32_t)load->payload_bytes,
        .bytes = load->payload,
        .part_bytes = (uint32_t)load->payload_bytes,
    };
    size_t frame = 0;
    if (wire_tunnel_batch_encode(&batch, load->frame, sizeof(load->frame), &frame) != BASE_OK) {
        fail("encode", 0);
    }
    enum base_status status =
        h2_client_write(device->connection->client, device->stream, load->frame, frame, false);
    if (status == BASE_ERR_BUSY) {
        device->waits_room = true;
        load->busy++;
        return false;
    }
    if (status != BASE_OK) {
        fail("write", status);
    }
    device->credit_bytes -= size;
    device->credit_records--;
    device->next++;
    device->first_seq++;
    device->hash = batch.hash;
    return true;
}

static void fill_window(struct device *device)
{
    while (device->next - device->tail < device->load->arguments.window && send_batch(device)) {
    }
}

static void next_sample(struct device *device)
{
    device->sent_us = base_clock_mono_us();
    if (!send_batch(device)) {
        fail("no credit for one batch", (long)device->credit_bytes);
    }
}

static void on_gap(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    next_sample(arg);
}

static void pause_device(struct device *device)
{
    const struct arguments *arguments = &device->load->arguments;
    uint64_t span = arguments->gap_high_ms - arguments->gap_low_ms + 1;
    uint64_t ms = arguments->gap_low_ms + base_prng_next(&device->load->prng) % span;
    struct timeval wait = {.tv_sec = (time_t)(ms / 1000),
                           .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    (void)event_add(device->timer, &wait);
}

// ---- Answers

static void sample_done(struct device *device)
{
    struct load *load = device->load;
    uint64_t now_us = base_clock_mono_us();
    device->done++;
    if (device->done > WARM_BATCHES) {
        tunnel_report_add(&load->report, now_us - device->sent_us);
    }
    if (device->done < WARM_BATCHES + load->arguments.count) {
        pause_device(device);
    } else if (++load->finished == load->arguments.devices) {
        event_base_loopbreak(load->base);
    }
}

static void on_ack(struct device *device, const struct wire_tunnel_ack *ack)
{
    struct load *load = device->load;
    load->acks++;
    if (ack->level != WIRE_TUNNEL_DURABLE || ack->high_water <= device->tail) {
        return;
    }
    if (load->measuring) {
        load->report.done += ack->high_water - device->tail;
    }
    device->tail = ack->high_water;
    if (load->arguments.flood) {
        fill_window(device);
    } else if (device->tail == device->next) {
        sample_done(device);
    }
}

static void on_welcome(struct device *device, const struct wire_tunnel_welcome *welcome)
{
    struct load *load = device->load;
    device->welcome = true;
    device->credit_bytes = welcome->classes[0].credit_bytes;
    device->credit_records = welcome->classes[0].credit_records;
    load->ready++;
    if (load->ready == load->arguments.devices) {
        event_base_loopbreak(load->base);
    }
}

static void on_frame(struct device *device, enum wire_tunnel_type type, const uint8_t *payload,
                     size_t size)
{
    struct wire_tunnel_welcome welcome;
    struct wire_tunnel_ack ack;
    struct wire_tunnel_credit credit;
    switch (type) {
    case WIRE_TUNNEL_WELCOME:
        if (wire_tunnel_welcome_parse(payload, size, &welcome) != BASE_OK) {
            fail("malformed WELCOME", 0);
        }
        on_welcome(device, &welcome);
        break;
    case WIRE_TUNNEL_ACK:
        if (wire_tunnel_ack_parse(payload, size, &ack) != BASE_OK) {
            fail("malformed ACK", 0);
        }
        on_ack(device, &ack);
        break;
    case WIRE_TUNNEL_CREDIT:
        if (wire_tunnel_credit_parse(payload, size, &credit) != BASE_OK) {
            fail("malformed CREDIT", 0);
        }
        device->credit_bytes += credit.bytes;
        device->credit_records += credit.records;
        if (device->load->arguments.flood) {
            fill_window(device);
        }
        break;
    case WIRE_TUNNEL_PONG:
        break;
    default:
        fail("the gateway answered with a frame of type", type);
    }
}

static void on_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    (void)ctx;
    struct device *device = user;
    while (size > 0) {
        size_t room = sizeof(device->input) - device->input_bytes;
        size_t take = size < room ? size : room;
        memcpy(device->input + device->input_bytes, bytes, take);
        device->input_bytes += take;
        bytes += take;
        size -= take;
        size_t at = 0;
        for (;;) {
            enum wire_tunnel_type type;
            size_t payload = 0;
            if (wire_tunnel_head(device->input + at, device->input_bytes - at, &type, &payload) !=
                    BASE_OK ||
                payload > device->input_bytes - at - WIRE_TUNNEL_HEAD) {
                break;
            }
            on_frame(device, type, device->input + at + WIRE_TUNNEL_HEAD, payload);
            at += WIRE_TUNNEL_HEAD + payload;
        }
        device->input_bytes -= at;
        memmove(device->input, device->input + at, device->input_bytes);
    }
}

static void on_head(void *ctx, void *user, const struct h2_head *head)
{
    (void)ctx;
    (void)user;
    if (head->status != 200) {
        fail("the gateway answered with status", head->status);
    }
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    (void)ctx;
    (void)user;
    fail("a stream ended", status);
}

static void on_state(void *ctx, struct h2_client *client, enum base_status status)
{
    (void)ctx;
    (void)client;
    if (status != BASE_OK) {
        fail("a connection ended", status);
    }
}

static void on_writable(void *ctx, void *user)
{
    (void)ctx;
    struct device *device = user;
    device->waits_room = false;
    if (device->load->arguments.flood) {
        fill_window(device);
    }
}

// ---- Set-up

static void open_device(struct device *device)
{
    char hex[17];
    wire_device_hex(device->id, hex);
    const struct h2_header headers[] = {
        {BASE_STR("walle-device"), {hex, 16}},
        {BASE_STR("priority"), BASE_STR("u=1")},
    };
    const struct h2_request request = {
        .method = BASE_STR("POST"),
        .path = BASE_STR("/v1/tunnel"),
        .headers = headers,
        .header_count = 2,
        .open_body = true,
        .early = true,
    };
    if (h2_client_request(device->connection->client, &request, device, &device->stream) !=
        BASE_OK) {
        fail("request", 0);
    }
    device->epoch = 0x00010000u | (uint32_t)(base_entropy_u64() & 0xffff); // of this run alone
    device->hash = wire_tunnel_chain_first(device->id, CLASS_ID, device->epoch);
    const struct wire_tunnel_hello hello = {
        .device = device->id,
        .app = BASE_STR("1.0.0"),
        .os = BASE_STR("linux"),
        .wall_ms = base_clock_wall_us() / 1000,
        .class_count = 1,
        .classes = {{.class_id = CLASS_ID, .epoch = device->epoch, .tail_hash = device->hash}},
    };
    uint8_t bytes[512];
    size_t size = 0;
    if (wire_tunnel_hello_encode(&hello, bytes, sizeof(bytes), &size) != BASE_OK ||
        h2_client_write(device->connection->client, device->stream, bytes, size, true) != BASE_OK) {
        fail("HELLO", 0);
    }
}

// One record that makes the payload as large as asked, of bytes that do not compress.
static void make_payload(struct load *load)
{
    static uint8_t body[PAYLOAD_MAX];
    const struct wire_upload_key upload = {BASE_STR("bench/tunnel"), BASE_STR("feature"), 1};
    struct wire_record record = {
        .format = WIRE_RECORD_BYTES, .wall_ms = base_clock_wall_us() / 1000, .bytes = body};
    for (size_t i = 0; i < sizeof(body); i++) {
        body[i] = (uint8_t)base_prng_next(&load->prng);
    }
    for (size_t less = 0; less < 200; less++) {
        record.size = (uint32_t)(load->arguments.bytes - less);
        if (wire_batch_encode(&(struct wire_batch_content){&upload, 1, &record, 1}, load->payload,
                              load->arguments.bytes, &load->payload_bytes) == BASE_OK) {
            return;
        }
    }
    fail("payload", (long)load->arguments.bytes);
}

static void set_up(struct load *load)
{
    const struct arguments *arguments = &load->arguments;
    const struct h2_events events = {.head = on_head,
                                     .body = on_body,
                                     .end = on_end,
                                     .state = on_state,
                                     .writable = on_writable,
                                     .ctx = load};
    load->base = event_base_new();
    load->connections = calloc(arguments->connections, sizeof(*load->connections));
    load->devices = calloc(arguments->devices, sizeof(*load->devices));
    if (load->base == NULL || load->connections == NULL || load->devices == NULL ||
        (!arguments->clear && h2_tls_new(NULL, &load->tls) != BASE_OK)) {
        fail("memory", 0);
    }
    for (uint64_t i = 0; i < arguments->connections; i++) {
        const struct h2_options options = {.host = base_str_of(arguments->host),
                                           .port = arguments->port,
                                           .tls = load->tls,
                                           .window_bytes = 256 * 1024};
        load->connections[i].load = load;
        if (h2_client_new(load->base, &options, &events, &load->connections[i].client) != BASE_OK) {
            fail("connect", 0);
        }
    }
    for (uint64_t i = 0; i < arguments->devices; i++) {
        struct device *device = &load->devices[i];
        device->load = load;
        device->connection = &load->connections[i % arguments->connections];
        device->id = arguments->first_device + i;
        device->timer = event_new(load->base, -1, EV_TIMEOUT, on_gap, device);
        open_device(device);
    }
}

// ---- Runs

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct load *load = arg;
    event_base_loopbreak(load->base);
}

static void loop_for(struct load *load, uint64_t ms)
{
    struct timeval wait = {.tv_sec = (time_t)(ms / 1000),
                           .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    (void)event_add(load->timer, &wait);
    (void)event_base_loop(load->base, 0);
}

static void run(struct load *load)
{
    const struct arguments *arguments = &load->arguments;
    uint64_t before = tunnel_report_memory(arguments->pid);
    loop_for(load, 30000);
    (void)event_del(load->timer);
    if (load->ready != arguments->devices) {
        fail("devices that were welcomed", (long)load->ready);
    }
    if (arguments->idle) {
        loop_for(load, IDLE_MS);
        uint64_t after = tunnel_report_memory(arguments->pid);
        printf("{\"streams\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"each\":%.0f}\n",
               arguments->devices, after - before,
               ((double)after - (double)before) / (double)arguments->devices);
        return;
    }
    for (uint64_t i = 0; i < arguments->devices; i++) {
        if (arguments->flood) {
            fill_window(&load->devices[i]);
        } else {
            pause_device(&load->devices[i]);
        }
    }
    if (arguments->flood) {
        loop_for(load, 1000); // warm
    }
    load->measuring = true;
    tunnel_report_begin(&load->report, arguments->pid);
    loop_for(load, arguments->seconds * 1000);
    tunnel_report_print(&load->report, load->payload_bytes);
}

enum option_key {
    OPTION_MODE = 0x100,
    OPTION_BYTES,
    OPTION_COUNT,
    OPTION_CONNECTIONS,
    OPTION_DEVICES,
    OPTION_WINDOW,
    OPTION_SECONDS,
    OPTION_GAP,
    OPTION_GAP_TO,
    OPTION_SEED,
    OPTION_FIRST,
    OPTION_PID,
    OPTION_CLEAR,
    OPTION_PHONE,
};

static const struct argp_option options[] = {
    {"mode", OPTION_MODE, "MODE", 0, "latency, flood or idle", 0},
    {"bytes", OPTION_BYTES, "N", 0, "of a batch's payload", 0},
    {"count", OPTION_COUNT, "N", 0, "latency: batches of each device", 0},
    {"connections", OPTION_CONNECTIONS, "N", 0, NULL, 0},
    {"devices", OPTION_DEVICES, "N", 0, "flood: in all; latency has one a connection", 0},
    {"window", OPTION_WINDOW, "N", 0, "flood: batches under way of each device", 0},
    {"seconds", OPTION_SECONDS, "N", 0, "at most, for latency", 0},
    {"gap-ms", OPTION_GAP, "A", 0, "latency: pause between two, from", 0},
    {"gap-to-ms", OPTION_GAP_TO, "B", 0, "... to", 0},
    {"seed", OPTION_SEED, "N", 0, NULL, 0},
    {"first-device", OPTION_FIRST, "N", 0, NULL, 0},
    {"pid", OPTION_PID, "PID", 0, "of the server, whose CPU time is told", 0},
    {"clear", OPTION_CLEAR, NULL, 0, "without TLS", 0},
    {"phone", OPTION_PHONE, NULL, 0, "sockets do not know TCP_RTO_MIN_US", 0},
    {0},
};

static uint64_t *place_of(struct arguments *arguments, int key)
{
    switch (key) {
    case OPTION_BYTES:
        return &arguments->bytes;
    case OPTION_COUNT:
        return &arguments->count;
    case OPTION_CONNECTIONS:
        return &arguments->connections;
    case OPTION_DEVICES:
        return &arguments->devices;
    case OPTION_WINDOW:
        return &arguments->window;
    case OPTION_SECONDS:
        return &arguments->seconds;
    case OPTION_GAP:
        return &arguments->gap_low_ms;
    case OPTION_GAP_TO:
        return &arguments->gap_high_ms;
    case OPTION_SEED:
        return &arguments->seed;
    case OPTION_FIRST:
        return &arguments->first_device;
    case OPTION_PID:
        return &arguments->pid;
    default:
        return NULL;
    }
}

static void set_address(struct argp_state *state, struct arguments *arguments, const char *value)
{
    const char *colon = strrchr(value, ':');
    uint64_t port = 0;
    if (colon == NULL || (size_t)(colon - value) >= sizeof(arguments->host) ||
        base_str_u64(base_str_of(colon + 1), &port) != BASE_OK || port > UINT16_MAX) {
        argp_error(state, "'%s' is not HOST:PORT", value);
        return;
    }
    memcpy(arguments->host, value, (size_t)(colon - value));
    arguments->port = (uint16_t)port;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    uint64_t *number = place_of(arguments, key);
    if (number != NULL) {
        if (base_str_u64(base_str_of(value), number) != BASE_OK) {
            argp_error(state, "'%s' is not a number", value);
        }
        return 0;
    }
    switch (key) {
    case OPTION_MODE:
        arguments->flood = strcmp(value, "flood") == 0;
        arguments->idle = strcmp(value, "idle") == 0;
        return 0;
    case OPTION_CLEAR:
        arguments->clear = true;
        return 0;
    case OPTION_PHONE:
        arguments->phone = true;
        return 0;
    case ARGP_KEY_ARG:
        set_address(state, arguments, value);
        return 0;
    case ARGP_KEY_END:
        if (arguments->port == 0) {
            argp_error(state, "HOST:PORT is missing");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = {options, parse, "HOST:PORT", NULL, NULL, NULL, NULL};
    struct load *load = calloc(1, sizeof(*load));
    if (load == NULL) {
        return EXIT_FAILURE;
    }
    load->arguments = (struct arguments){.bytes = 1000,
                                         .count = 100,
                                         .connections = 8,
                                         .devices = 8,
                                         .window = 64,
                                         .seconds = 5,
                                         .gap_low_ms = 200,
                                         .gap_high_ms = 500,
                                         .seed = 1,
                                         .first_device = 1};
    if (argp_parse(&argp, argc, argv, 0, NULL, &load->arguments) != 0) {
        return EXIT_FAILURE;
    }
    if (!load->arguments.flood && !load->arguments.idle) {
        load->arguments.devices = load->arguments.connections;
    }
    if (load->arguments.bytes < 300 || load->arguments.bytes > PAYLOAD_MAX ||
        load->arguments.gap_high_ms < load->arguments.gap_low_ms) {
        fail("arguments", 0);
    }
    on_phone = load->arguments.phone;
    base_prng_seed(&load->prng, load->arguments.seed);
    make_payload(load);
    set_up(load);
    load->timer = event_new(load->base, -1, EV_TIMEOUT, on_time, load);
    run(load);
    (void)fflush(stdout);
    _exit(EXIT_SUCCESS); // the streams are open: their end would be a failure
}
