// Streams: opening with HELLO, watching for silence, closing.
//
// Called by dev_tunnel_step and by the transport's callbacks, on the runtime's thread.
#include "tunnel/tunnel_private.h"

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

static bool belongs(const struct dev_tunnel *t, uint32_t stream, unsigned id)
{
    return t->classes[id] != NULL && t->classes[id]->stream == stream;
}

// Is there anything to do on the stream, now or when the gateway lets us?
static bool is_wanted(const struct dev_tunnel *t, uint32_t stream, uint64_t now_us)
{
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (belongs(t, stream, id) && tunnel_wants_stream(t, t->classes[id]) &&
            t->classes[id]->hold_us <= now_us) {
            return true;
        }
    }
    return false;
}

static bool has_flight(const struct dev_tunnel *t, uint32_t stream)
{
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (belongs(t, stream, id) &&
            (t->classes[id]->flight_count > 0 || t->classes[id]->part.active)) {
            return true;
        }
    }
    return false;
}

// ---- HELLO

static void add_class(const struct tunnel_class *c, struct wire_tunnel_hello *hello)
{
    hello->classes[hello->class_count++] = (struct wire_tunnel_hello_class){
        .class_id = c->id,
        .epoch = c->s.epoch,
        .tail = tunnel_number(c, c->s.tail),
        .next = tunnel_number(c, c->next),
        .tail_hash = c->s.tail_hash,
    };
}

static enum base_status send_hello(struct dev_tunnel *t, uint32_t stream, uint64_t now_us)
{
    struct wire_tunnel_hello hello = {
        .device = t->config.device_id,
        .app = t->config.app,
        .os = t->config.os,
        .wall_ms = t->wall_ms > 0 ? t->wall_ms + (now_us - t->wall_us) / TUNNEL_MS : 0,
    };
    if (t->ports.codec.dicts != NULL) {
        uint32_t count = t->ports.codec.dicts(t->ports.codec.ctx, hello.dicts);
        hello.dict_count = count < WIRE_TUNNEL_DICTS_MAX ? count : WIRE_TUNNEL_DICTS_MAX;
    }
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (belongs(t, stream, id)) {
            add_class(t->classes[id], &hello);
        }
    }
    uint8_t frame[512];
    size_t size = 0;
    BASE_TRY(wire_tunnel_hello_encode(&hello, frame, sizeof(frame), &size));
    return t->ports.transport.send(t->ports.transport.ctx, stream, frame, size, true);
}

static void say_hello(struct dev_tunnel *t, uint32_t stream, uint64_t now_us)
{
    enum base_status status = send_hello(t, stream, now_us);
    if (status == BASE_OK) {
        t->streams[stream].said_hello = true;
        t->radio_us = now_us;
    } else if (status != BASE_ERR_BUSY) {
        tunnel_give_up(t, stream, now_us, base_status_text(status));
    }
}

static void begin_class(struct tunnel_class *c)
{
    tunnel_restart_sending(c);
    c->welcomed = false;
    c->optimistic = c->s.tail == c->maybe_sent;
    c->blocked = false;
    c->no_dict = false;
    c->credit_bytes = WIRE_TUNNEL_FIRST_CREDIT;
    c->credit_records = WIRE_TUNNEL_RECORDS_MAX;
    c->used_bytes = 0;
    c->used_records = 0;
}

static void open_stream(struct dev_tunnel *t, uint32_t stream, uint64_t now_us)
{
    struct tunnel_stream *s = &t->streams[stream];
    uint8_t class_id = 0;
    while (!belongs(t, stream, class_id)) {
        class_id++;
    }
    enum base_status status = t->ports.transport.open(t->ports.transport.ctx, stream, class_id);
    if (status != BASE_OK) {
        tunnel_failed(t, now_us);
        return;
    }
    t->stats.connects++;
    *s = (struct tunnel_stream){
        .state = TUNNEL_OPENING, .classes = s->classes, .heard_us = now_us, .pinged_us = now_us};
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (belongs(t, stream, id)) {
            begin_class(t->classes[id]);
        }
    }
    say_hello(t, stream, now_us);
}

void tunnel_open_streams(struct dev_tunnel *t, uint64_t now_us)
{
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        struct tunnel_stream *s = &t->streams[i];
        if (s->classes == 0) {
            continue;
        }
        if (s->state == TUNNEL_CLOSED) {
            if (is_wanted(t, i, now_us) && tunnel_may_connect(t, now_us)) {
                open_stream(t, i, now_us);
            }
        } else if (!s->said_hello) {
            say_hello(t, i, now_us);
        }
    }
}

// ---- The end of a stream

void tunnel_stream_gone(struct dev_tunnel *t, uint32_t stream, uint64_t now_us)
{
    struct tunnel_stream *s = &t->streams[stream];
    *s = (struct tunnel_stream){.classes = s->classes};
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (!belongs(t, stream, id)) {
            continue;
        }
        struct tunnel_class *c = t->classes[id];
        c->welcomed = false;
        c->optimistic = false;
        c->sample_ppm = WIRE_TUNNEL_SAMPLE_ALL; // the gateway says it again on the next stream
        if (!c->ack_waits) {
            tunnel_restart_sending(c);
        }
        c->part.active = false;
        if (c->s.bound > c->maybe_sent) {
            // The promise is taken back, so that what was not sent may be dropped after a kill too.
            struct tunnel_state state = c->s;
            state.bound = c->maybe_sent;
            if (tunnel_put_state(t, c, now_us, &state, false) == BASE_OK) {
                c->s = state;
            }
        }
    }
}

void tunnel_give_up(struct dev_tunnel *t, uint32_t stream, uint64_t now_us, const char *why)
{
    if (t->streams[stream].state == TUNNEL_CLOSED) {
        return;
    }
    base_log_debug(t->ports.log, "tunnel", "stream %u given up: %s", (unsigned)stream, why);
    t->ports.transport.close(t->ports.transport.ctx, stream);
    tunnel_stream_gone(t, stream, now_us);
    tunnel_failed(t, now_us);
}

// ---- Silence

static bool expects_answer(const struct dev_tunnel *t, uint32_t stream, uint64_t now_us)
{
    const struct tunnel_stream *s = &t->streams[stream];
    return s->state != TUNNEL_CLOSED &&
           (s->state == TUNNEL_OPENING || has_flight(t, stream) || is_wanted(t, stream, now_us));
}

static void ping(struct dev_tunnel *t, uint32_t stream, uint64_t now_us)
{
    uint8_t frame[WIRE_TUNNEL_HEAD + 8];
    size_t size = 0;
    struct tunnel_stream *s = &t->streams[stream];
    if (!s->said_hello ||
        wire_tunnel_ping_encode(WIRE_TUNNEL_PING, now_us, frame, sizeof(frame), &size) != BASE_OK) {
        return;
    }
    s->pinged_us = now_us;
    // What cannot be sent now shows by its silence.
    (void)t->ports.transport.send(t->ports.transport.ctx, stream, frame, size, false);
}

static void watch(struct dev_tunnel *t, uint32_t stream, uint64_t now_us)
{
    struct tunnel_stream *s = &t->streams[stream];
    if (s->state == TUNNEL_CLOSED) {
        return;
    }
    if (s->draining && (s->drain_us <= now_us || !has_flight(t, stream))) {
        t->ports.transport.close(t->ports.transport.ctx, stream);
        tunnel_stream_gone(t, stream, now_us);
        return;
    }
    if (!expects_answer(t, stream, now_us)) {
        s->heard_us = now_us;
        s->pinged_us = now_us;
        return;
    }
    if (now_us >= s->heard_us + SILENCE_US) {
        tunnel_give_up(t, stream, now_us, "nothing heard");
    } else if (has_flight(t, stream) && now_us >= s->moved_us + UNMOVED_US) {
        tunnel_give_up(t, stream, now_us, "nothing acknowledged");
    } else if (now_us >= s->heard_us + SILENCE_US / 2 && s->pinged_us <= s->heard_us) {
        ping(t, stream, now_us);
    }
}

void tunnel_watch_streams(struct dev_tunnel *t, uint64_t now_us)
{
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        watch(t, i, now_us);
    }
}

// ---- When next

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t closed_due(const struct dev_tunnel *t, uint32_t stream)
{
    uint64_t due = UINT64_MAX;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (belongs(t, stream, id) && tunnel_wants_stream(t, t->classes[id])) {
            due = earlier(due, t->classes[id]->hold_us);
        }
    }
    if (due == UINT64_MAX) {
        return due;
    }
    due = due > t->retry_us ? due : t->retry_us;
    return due > t->hold_us ? due : t->hold_us;
}

uint64_t tunnel_stream_due(const struct dev_tunnel *t, uint64_t now_us)
{
    uint64_t due = UINT64_MAX;
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        const struct tunnel_stream *s = &t->streams[i];
        if (s->classes == 0) {
            continue;
        }
        if (s->state == TUNNEL_CLOSED) {
            due = earlier(due, closed_due(t, i));
        } else if (s->draining) {
            due = earlier(due, s->drain_us);
        } else if (expects_answer(t, i, now_us)) {
            bool pinged = s->pinged_us > s->heard_us;
            due = earlier(due, s->heard_us + (pinged ? SILENCE_US : SILENCE_US / 2));
            due = has_flight(t, i) ? earlier(due, s->moved_us + UNMOVED_US) : due;
        }
    }
    return due;
}
