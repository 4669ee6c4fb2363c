// Streams: opening with HELLO, watching for silence, closing.
//
// Called by dev_tunnel_step and by the transport's callbacks, on the runtime's thread.
#include "tunnel/tunnel_link.h"

#include "tunnel/tunnel_chain.h"
#include "tunnel/tunnel_private.h"
#include "tunnel/tunnel_send.h"

#include "base/check.h"

#define SILENCE_US (DEV_TUNNEL_SILENCE_MS * TUNNEL_MS)
#define UNMOVED_US (DEV_TUNNEL_UNMOVED_MS * TUNNEL_MS)

enum base_status dev_tunnel_ending(int http_status, enum base_status status)
{
    switch (http_status) {
    case 0:
    case DEV_TUNNEL_STATUS_OPEN:
        return status == BASE_OK ? BASE_ERR_CLOSED : status;
    case 401: // not known
    case 403: // revoked
        return BASE_ERR_DENIED;
    case 404: // there are no tunnels here
        return BASE_ERR_UNSUPPORTED;
    case 425: // too early
    case 429:
    case 503:
        return BASE_ERR_BUSY;
    default:
        return BASE_ERR_IO;
    }
}

static bool belongs(const struct dev_tunnel *tunnel, uint32_t stream, unsigned id)
{
    base_assert(id < WIRE_TUNNEL_CLASSES);
    return tunnel->classes[id] != NULL && tunnel->classes[id]->stream == stream;
}

// Is there anything to do on the stream, now or when the gateway lets us?
static bool is_wanted(const struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us)
{
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (belongs(tunnel, stream, id) && tunnel_wants_stream(tunnel, tunnel->classes[id]) &&
            tunnel->classes[id]->hold_us <= now_us) {
            return true;
        }
    }
    return false;
}

static bool has_flight(const struct dev_tunnel *tunnel, uint32_t stream)
{
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (belongs(tunnel, stream, id) &&
            (tunnel->classes[id]->flight_count > 0 || tunnel->classes[id]->part.active)) {
            return true;
        }
    }
    return false;
}

// ---- HELLO

static void add_class(const struct tunnel_class *class, struct wire_tunnel_hello *hello)
{
    base_assert(hello->class_count < WIRE_TUNNEL_CLASSES);
    hello->classes[hello->class_count++] = (struct wire_tunnel_hello_class){
        .class_id = class->id,
        .epoch = class->state.epoch,
        .tail = tunnel_number(class, class->state.tail),
        .next = tunnel_number(class, class->next),
        .tail_hash = class->state.tail_hash,
    };
}

static enum base_status send_hello(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us)
{
    struct wire_tunnel_hello hello = {
        .device = tunnel->config.device_id,
        .app = tunnel->config.app,
        .os = tunnel->config.os,
        .wall_ms =
            tunnel->wall_ms > 0 ? tunnel->wall_ms + (now_us - tunnel->wall_us) / TUNNEL_MS : 0,
    };
    if (tunnel->ports.codec.dicts != NULL) {
        uint32_t count = tunnel->ports.codec.dicts(tunnel->ports.codec.ctx, hello.dicts);
        hello.dict_count = count < WIRE_TUNNEL_DICTS_MAX ? count : WIRE_TUNNEL_DICTS_MAX;
    }
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (belongs(tunnel, stream, id)) {
            add_class(tunnel->classes[id], &hello);
        }
    }
    base_assert(hello.class_count > 0); // a stream without classes is not opened
    uint8_t frame[512];
    size_t size = 0;
    BASE_TRY(wire_tunnel_hello_encode(&hello, frame, sizeof(frame), &size));
    return tunnel->ports.transport.send(tunnel->ports.transport.ctx, stream, frame, size, true);
}

static void say_hello(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us)
{
    base_assert(tunnel->streams[stream].state != TUNNEL_CLOSED);
    enum base_status status = send_hello(tunnel, stream, now_us);
    if (status == BASE_OK) {
        tunnel->streams[stream].said_hello = true;
        tunnel->radio_us = now_us;
    } else if (status != BASE_ERR_BUSY) {
        tunnel_give_up(tunnel, stream, now_us, base_status_text(status));
    }
}

static void begin_class(struct tunnel_class *class)
{
    tunnel_restart_sending(class);
    class->welcomed = false;
    class->optimistic = class->state.tail == class->maybe_sent;
    class->blocked = false;
    class->no_dict = false;
    class->credit_bytes = WIRE_TUNNEL_FIRST_CREDIT;
    class->credit_records = WIRE_TUNNEL_RECORDS_MAX;
    class->used_bytes = 0;
    class->used_records = 0;
}

static void open_stream(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us)
{
    struct tunnel_stream *s = &tunnel->streams[stream];
    base_assert(s->classes != 0 && s->state == TUNNEL_CLOSED);
    uint8_t class_id = 0;
    while (!belongs(tunnel, stream, class_id)) {
        class_id++;
    }
    enum base_status status =
        tunnel->ports.transport.open(tunnel->ports.transport.ctx, stream, class_id);
    if (status != BASE_OK) {
        tunnel_failed(tunnel, now_us);
        return;
    }
    tunnel->stats.connects++;
    *s = (struct tunnel_stream){
        .state = TUNNEL_OPENING, .classes = s->classes, .heard_us = now_us, .pinged_us = now_us};
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (belongs(tunnel, stream, id)) {
            begin_class(tunnel->classes[id]);
        }
    }
    say_hello(tunnel, stream, now_us);
}

void tunnel_open_streams(struct dev_tunnel *tunnel, uint64_t now_us)
{
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        struct tunnel_stream *s = &tunnel->streams[i];
        if (s->classes == 0) {
            continue;
        }
        if (s->state == TUNNEL_CLOSED) {
            if (is_wanted(tunnel, i, now_us) && tunnel_may_connect(tunnel, now_us)) {
                open_stream(tunnel, i, now_us);
            }
        } else if (!s->said_hello) {
            say_hello(tunnel, i, now_us);
        }
    }
}

// ---- The end of a stream

void tunnel_stream_gone(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us)
{
    base_assert(stream < WIRE_TUNNEL_CLASSES);
    struct tunnel_stream *s = &tunnel->streams[stream];
    *s = (struct tunnel_stream){.classes = s->classes};
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (!belongs(tunnel, stream, id)) {
            continue;
        }
        struct tunnel_class *class = tunnel->classes[id];
        class->welcomed = false;
        class->optimistic = false;
        class->sample_ppm = WIRE_TUNNEL_SAMPLE_ALL; // the gateway says it again on the next stream
        if (!class->ack_waits) {
            tunnel_restart_sending(class);
        }
        class->part.active = false;
        if (class->state.bound > class->maybe_sent) {
            // The promise is taken back, so that what was not sent may be dropped after a kill too.
            struct tunnel_state state = class->state;
            state.bound = class->maybe_sent;
            if (tunnel_put_state(tunnel, class, now_us, &state, false) == BASE_OK) {
                class->state = state;
            }
        }
    }
}

void tunnel_give_up(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us, const char *why)
{
    if (tunnel->streams[stream].state == TUNNEL_CLOSED) {
        return;
    }
    base_log_debug(tunnel->ports.log, "tunnel", "stream %u given up: %s", (unsigned)stream, why);
    tunnel->ports.transport.close(tunnel->ports.transport.ctx, stream);
    tunnel_stream_gone(tunnel, stream, now_us);
    tunnel_failed(tunnel, now_us);
}

// ---- Silence

static bool expects_answer(const struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us)
{
    const struct tunnel_stream *s = &tunnel->streams[stream];
    return s->state != TUNNEL_CLOSED && (s->state == TUNNEL_OPENING || has_flight(tunnel, stream) ||
                                         is_wanted(tunnel, stream, now_us));
}

static void ping(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us)
{
    uint8_t frame[WIRE_TUNNEL_HEAD + 8];
    size_t size = 0;
    struct tunnel_stream *s = &tunnel->streams[stream];
    if (!s->said_hello ||
        wire_tunnel_ping_encode(WIRE_TUNNEL_PING, now_us, frame, sizeof(frame), &size) != BASE_OK) {
        return;
    }
    s->pinged_us = now_us;
    // What cannot be sent now shows by its silence.
    (void)tunnel->ports.transport.send(tunnel->ports.transport.ctx, stream, frame, size, false);
}

static void watch(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us)
{
    struct tunnel_stream *s = &tunnel->streams[stream];
    if (s->state == TUNNEL_CLOSED) {
        return;
    }
    base_assert(s->classes != 0);
    if (s->draining && (s->drain_us <= now_us || !has_flight(tunnel, stream))) {
        tunnel->ports.transport.close(tunnel->ports.transport.ctx, stream);
        tunnel_stream_gone(tunnel, stream, now_us);
        return;
    }
    if (!expects_answer(tunnel, stream, now_us)) {
        s->heard_us = now_us;
        s->pinged_us = now_us;
        return;
    }
    if (now_us >= s->heard_us + SILENCE_US) {
        tunnel_give_up(tunnel, stream, now_us, "nothing heard");
    } else if (has_flight(tunnel, stream) && now_us >= s->moved_us + UNMOVED_US) {
        tunnel_give_up(tunnel, stream, now_us, "nothing acknowledged");
    } else if (now_us >= s->heard_us + SILENCE_US / 2 && s->pinged_us <= s->heard_us) {
        ping(tunnel, stream, now_us);
    }
}

void tunnel_watch_streams(struct dev_tunnel *tunnel, uint64_t now_us)
{
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        watch(tunnel, i, now_us);
    }
}

// ---- When next

static uint64_t earlier(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

static uint64_t closed_due(const struct dev_tunnel *tunnel, uint32_t stream)
{
    uint64_t due = UINT64_MAX;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (belongs(tunnel, stream, id) && tunnel_wants_stream(tunnel, tunnel->classes[id])) {
            due = earlier(due, tunnel->classes[id]->hold_us);
        }
    }
    if (due == UINT64_MAX) {
        return due;
    }
    return tunnel_not_before(tunnel, due);
}

uint64_t tunnel_stream_due(const struct dev_tunnel *tunnel, uint64_t now_us)
{
    uint64_t due = UINT64_MAX;
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        const struct tunnel_stream *s = &tunnel->streams[i];
        if (s->classes == 0) {
            continue;
        }
        if (s->state == TUNNEL_CLOSED) {
            due = earlier(due, closed_due(tunnel, i));
        } else if (s->draining) {
            due = earlier(due, s->drain_us);
        } else if (expects_answer(tunnel, i, now_us)) {
            bool pinged = s->pinged_us > s->heard_us;
            due = earlier(due, s->heard_us + (pinged ? SILENCE_US : SILENCE_US / 2));
            due = has_flight(tunnel, i) ? earlier(due, s->moved_us + UNMOVED_US) : due;
        }
    }
    return due;
}
