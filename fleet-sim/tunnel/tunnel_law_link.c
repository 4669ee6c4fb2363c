// The network between a device and the gateway, and the gateway's workers and sink, on the run's
// one thread and clock.
//
// A link is one stream. When the device's end is gone the gateway's may live on
// and still deliver what was under way: such links are on their own until their last event.
#include "tunnel/tunnel_law.h"

#include "base/check.h"
#include "tunnel/tunnel_zstd.h"
#include "zstd/codec_zstd.h"

#include <stdlib.h>
#include <string.h>

#define SINK_US       4000
#define SINK_SLOW     200 // one group in so many
#define SINK_SLOW_US  5000000
#define ZOMBIE_MAX_US 8000000
#define MEMORY_BYTES  (UINT64_C(2) << 20) // of the gateway: with so many more of each device
#define MEMORY_DEVICE 512
#define PIPE_MAX      (64u * 1024) // of bytes on their way up; beyond it the transport is busy

struct pipe {
    uint8_t *bytes;
    size_t size;
    size_t capacity;
};

struct law_link {
    struct law_sim *sim;
    struct law_device *device; // NULL: its end is gone
    struct gw_session *session;
    uint32_t stream;
    bool opened; // the gateway knows it
    bool ended;  // by the gateway
    bool up_due; // an event is pending
    bool down_due;
    bool end_due;
    bool announced;
    bool held; // its event is being handled
    uint64_t device_id;
    struct pipe up;
    struct pipe down;
};

static void append(struct pipe *pipe, const uint8_t *bytes, size_t size)
{
    if (pipe->size + size > pipe->capacity) {
        pipe->capacity = 2 * (pipe->size + size);
        pipe->bytes = realloc(pipe->bytes, pipe->capacity);
        base_check(pipe->bytes != NULL);
    }
    memcpy(pipe->bytes + pipe->size, bytes, size);
    pipe->size += size;
}

// Frees the link when neither end nor an event needs it.
static void release(struct law_link *link)
{
    if (link->device != NULL || link->session != NULL || link->up_due || link->down_due ||
        link->end_due || link->held) {
        return;
    }
    free(link->up.bytes);
    free(link->down.bytes);
    free(link);
}

static uint64_t latency(const struct law_link *link)
{
    return link->device != NULL ? link->device->latency_us : 20000;
}

static void schedule(struct law_link *link, bool *due, enum law_event_kind kind, uint64_t delay_us)
{
    if (!*due) {
        *due = true;
        law_at(link->sim, link->sim->now_us + delay_us, kind, link);
    }
}

// ---- The gateway's end

static bool port_write(void *ctx, const uint8_t *bytes, size_t size)
{
    struct law_link *link = ctx;
    if (link->device != NULL) {
        append(&link->down, bytes, size);
        schedule(link, &link->down_due, LAW_DOWN, latency(link));
    }
    return true;
}

static void port_end(void *ctx, bool reset)
{
    struct law_link *link = ctx;
    if (reset) {
        law_problem(link->sim, &link->sim->phones[link->device_id - 1],
                    "the gateway reset a stream of an honest device");
    }
    link->ended = true;
    schedule(link, &link->end_due, LAW_END, 0);
}

static void open_session(struct law_link *link)
{
    const struct gw_session_port port = {.ctx = link, .write = port_write, .end = port_end};
    base_check(gw_session_open(link->sim->worker, link->device_id, 0, &port, &link->session) ==
               BASE_OK);
    link->opened = true;
}

static void deliver(struct law_link *link, size_t size)
{
    if (!link->opened) {
        open_session(link);
    }
    if (link->session != NULL && !link->ended && size > 0) {
        // All of it at once, or in two pieces with a frame cut through.
        size_t cut = size > 1 ? (size_t)base_prng_below(&link->sim->prng, size) : 0;
        enum base_status status = gw_session_receive(link->session, link->up.bytes, cut);
        if (status == BASE_OK && !link->ended) {
            status = gw_session_receive(link->session, link->up.bytes + cut, size - cut);
        }
        if (status != BASE_OK) {
            law_problem(link->sim, &link->sim->phones[link->device_id - 1],
                        "the gateway takes an honest device for a liar: %s",
                        base_status_text(status));
        }
    }
    memmove(link->up.bytes, link->up.bytes + size, link->up.size - size);
    link->up.size -= size;
    law_gateway_settle(link->sim);
}

static void close_session(struct law_link *link)
{
    gw_session_close(link->session);
    link->session = NULL;
    law_gateway_settle(link->sim);
}

// ---- Events

void law_link_up(struct law_link *link)
{
    link->up_due = false;
    link->held = true;
    deliver(link, link->up.size);
    if (link->device == NULL) { // what a lost connection still delivers ends with its end
        close_session(link);
    } else {
        dev_tunnel_on_writable(link->device->tunnel, link->stream, link->sim->now_us);
        law_device_wake(link->device);
        if (link->device != NULL && !link->announced) {
            link->announced = true;
            schedule(link, &link->down_due, LAW_DOWN, latency(link));
        }
    }
    link->held = false;
    release(link);
}

void law_link_down(struct law_link *link)
{
    struct law_device *device = link->device;
    link->down_due = false;
    link->held = true;
    if (device != NULL) {
        struct pipe bytes = link->down;
        link->down = (struct pipe){0};
        dev_tunnel_on_open(device->tunnel, link->stream, link->sim->now_us);
        if (bytes.size > 0) {
            dev_tunnel_on_bytes(device->tunnel, link->stream, link->sim->now_us, bytes.bytes,
                                bytes.size);
        }
        free(bytes.bytes);
        law_device_wake(device);
    }
    link->held = false;
    release(link);
}

void law_link_end(struct law_link *link)
{
    link->end_due = false;
    link->held = true;
    if (link->session != NULL) {
        close_session(link);
        // What was written before the end arrives first.
        schedule(link, &link->end_due, LAW_END, latency(link) + 1);
        link->held = false;
        return;
    }
    struct law_device *device = link->device;
    if (device != NULL) {
        device->links[link->stream] = NULL;
        link->device = NULL;
        dev_tunnel_on_closed(device->tunnel, link->stream, link->sim->now_us, BASE_OK, 0);
        law_device_wake(device);
    }
    link->held = false;
    release(link);
}

// ---- The device's end

enum base_status law_link_open(struct law_device *device, uint32_t stream)
{
    if (device->offline) {
        return BASE_ERR_CLOSED;
    }
    base_check(device->links[stream] == NULL);
    struct law_link *link = calloc(1, sizeof(*link));
    base_check(link != NULL);
    link->sim = device->sim;
    link->device = device;
    link->stream = stream;
    link->device_id = device->phone->index + 1;
    device->links[stream] = link;
    return BASE_OK;
}

enum base_status law_link_send(struct law_device *device, uint32_t stream, const uint8_t *bytes,
                               size_t size)
{
    struct law_link *link = device->links[stream];
    base_check(link != NULL);
    if (link->up.size + size > PIPE_MAX) {
        return BASE_ERR_BUSY;
    }
    append(&link->up, bytes, size);
    schedule(link, &link->up_due, LAW_UP, device->latency_us);
    return BASE_OK;
}

void law_link_close(struct law_device *device, uint32_t stream)
{
    struct law_link *link = device->links[stream];
    struct law_sim *sim = device->sim;
    if (link == NULL) {
        return;
    }
    device->links[stream] = NULL;
    link->device = NULL;
    if (!sim->calm && law_chance(sim, 2) && (link->up_due || link->up.size > 0)) {
        // The other end lives on for a while, with all that was sent or the first part of it.
        sim->counts.zombies++;
        link->up.size -= law_chance(sim, 2) ? base_prng_below(&sim->prng, link->up.size + 1) : 0;
        if (!link->up_due) {
            schedule(link, &link->up_due, LAW_UP, base_prng_below(&sim->prng, ZOMBIE_MAX_US));
        }
    } else {
        link->up.size = 0;
        if (!link->up_due) {
            close_session(link);
        }
    }
    release(link);
}

void law_links_drop(struct law_device *device, bool told)
{
    for (uint32_t stream = 0; stream < WIRE_TUNNEL_CLASSES; stream++) {
        if (device->links[stream] != NULL) {
            law_link_close(device, stream);
            if (told && device->alive && !device->kv.killed) {
                dev_tunnel_on_closed(device->tunnel, stream, device->sim->now_us, BASE_ERR_CLOSED,
                                     0);
            }
        }
    }
}

// ---- Worker and sink

static void post(void *ctx, struct gw_message *message)
{
    struct law_sim *sim = ctx;
    message->next = NULL;
    *sim->messages_end = message;
    sim->messages_end = &message->next;
}

void law_gateway_settle(struct law_sim *sim)
{
    gw_tunnel_worker_flush(sim->worker);
    while (sim->messages != NULL) {
        struct gw_message *message = sim->messages;
        sim->messages = message->next;
        if (sim->messages == NULL) {
            sim->messages_end = &sim->messages;
        }
        message->run(message);
    }
}

static enum base_status submit(void *ctx, struct gw_sink_batch *batch)
{
    struct law_sim *sim = ctx;
    batch->next = NULL;
    *sim->landing_end = batch;
    sim->landing_end = &batch->next;
    if (!sim->sink_busy) {
        bool slow = !sim->calm && law_chance(sim, SINK_SLOW);
        sim->sink_busy = true;
        law_at(sim, sim->now_us + (slow ? base_prng_below(&sim->prng, SINK_SLOW_US) : SINK_US),
               LAW_SINK, sim);
    }
    return BASE_OK;
}

// One group: all of it is durable, or none.
void law_sink_lands(struct law_sim *sim)
{
    struct gw_sink_batch *batch = sim->landing;
    bool fails = !sim->calm && !sim->options.calm && law_chance(sim, 5000);
    sim->landing = NULL;
    sim->landing_end = &sim->landing;
    sim->sink_busy = false;
    sim->counts.sink_failures += fails ? 1 : 0;
    while (batch != NULL) {
        struct gw_sink_batch *next = batch->next;
        if (!fails) {
            law_take_batch(sim, batch);
        }
        batch->done(batch, fails ? BASE_ERR_IO : BASE_OK);
        batch = next;
    }
    law_gateway_settle(sim);
}

static uint64_t clock_us(void *ctx)
{
    const struct law_sim *sim = ctx;
    return sim->now_us;
}

enum base_status law_gateway_start(struct law_sim *sim)
{
    struct base_error error = {.status = BASE_OK};
    const struct gw_tunnel_options options = {
        .sink = {sim, submit},
        .clock = {sim, clock_us, clock_us},
        .memory_bytes = MEMORY_BYTES + sim->options.devices * MEMORY_DEVICE,
        .thin_percent = 1, // so that bulk is sampled now and then
        .device_batches_per_s = 1000,
    };
    sim->messages_end = &sim->messages;
    sim->landing_end = &sim->landing;
    BASE_TRY(gw_tunnel_zstd_new(&sim->zstd));
    BASE_TRY(dev_codec_new(1, &sim->codec));
    BASE_TRY(gw_tunnel_new(&options, &sim->tunnel, &error));
    return gw_tunnel_worker_new(sim->tunnel, sim, post, &sim->worker);
}

void law_gateway_stop(struct law_sim *sim)
{
    gw_tunnel_worker_free(sim->worker);
    gw_tunnel_free(sim->tunnel);
    gw_tunnel_zstd_free(sim->zstd);
    dev_codec_free(sim->codec);
}
