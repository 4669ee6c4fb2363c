// Streams of a shard's devices to the gateway's side of the tunnel, in virtual time, and what it
// hands to its sink. virtual/core_link.c hands exchanges of the kind TUNNEL over, fleet_virtual.c
// steps it with the shard, on whichever thread runs that. A shard has few streams at once, so what
// is due next is looked for among all of them.
#include "virtual/core_tunnel.h"

#include "base/check.h"
#include "device/port.h"
#include "tunnel/gw_tunnel.h"
#include "virtual/core_gateway.h"
#include "wire/digest.h"

#include <stdlib.h>
#include <string.h>

#define STATUS_OPEN 200
#define COUNT_FIRST (UINT32_C(1) << 30) // messages of streams are drawn apart from exchanges

enum piece_kind {
    PIECE_OPEN,  // up
    PIECE_CLOSE, // up: the device's end is gone
    PIECE_HEAD,  // down
    PIECE_END,   // down
    PIECE_BYTES,
};

struct piece {
    struct piece *next;
    uint64_t due_us;
    enum piece_kind kind;
    enum base_status status; // of an end
    size_t size;
    uint8_t bytes[];
};

struct way {
    struct piece *first;
    struct piece *last;
    uint64_t last_us; // nothing overtakes what was sent before
    size_t bytes;
};

struct stream {
    struct sim_core_tunnel *tunnel;
    struct sim_exchange *exchange; // NULL: the device's end is gone
    struct gw_session *session;    // NULL: not there yet, or no more
    uint64_t device;
    uint64_t index; // of the device in the population
    uint32_t sent;  // messages, both ways
    bool unproven;
    bool full;  // a write was too much; the device waits for room
    bool ended; // by the gateway: the session is to be closed
    struct way up;
    struct way down;
};

struct sim_core_tunnel {
    struct sim_core_tunnel_options options;
    struct gw_tunnel *tunnel;
    struct gw_tunnel_worker *worker;
    struct gw_message *messages;
    struct gw_message **messages_end;
    struct gw_sink_batch *landing;
    struct gw_sink_batch **landing_end;
    uint64_t land_us; // UINT64_MAX: nothing waits
    uint64_t start_us;
    uint64_t down_until_us; // the gateway is not there before
    uint64_t due_us;        // of the first piece or group
    uint64_t records;
    struct stream **streams;
    uint32_t stream_count; // places, some of them NULL
};

static uint64_t now_us(const struct sim_core_tunnel *tunnel)
{
    return tunnel->options.clock.mono_us(tunnel->options.clock.ctx);
}

// ---- Pieces on their way

static bool add(struct stream *stream, struct way *way, const struct piece *like,
                const uint8_t *bytes)
{
    struct sim_core_tunnel *tunnel = stream->tunnel;
    const struct sim_delay_port *delay = &tunnel->options.delay;
    struct piece *piece = malloc(sizeof(*piece) + like->size);
    if (piece == NULL) {
        base_log_error(tunnel->options.log, "fleet", "out of memory: a piece of a stream is lost");
        return false;
    }
    const struct sim_message message = {
        .device = stream->index,
        .at_us = like->due_us - tunnel->start_us,
        .bytes = (uint32_t)like->size,
        .count = COUNT_FIRST + stream->sent++,
        .up = way == &stream->up,
    };
    *piece = *like;
    piece->next = NULL;
    piece->due_us = like->due_us + sim_delay_us(delay, &message);
    piece->due_us = piece->due_us > way->last_us ? piece->due_us : way->last_us;
    if (like->size > 0) {
        memcpy(piece->bytes, bytes, like->size);
    }
    *(way->first == NULL ? &way->first : &way->last->next) = piece;
    way->last = piece;
    way->last_us = piece->due_us;
    way->bytes += piece->size;
    tunnel->due_us = piece->due_us < tunnel->due_us ? piece->due_us : tunnel->due_us;
    return true;
}

static struct piece *take(struct way *way)
{
    struct piece *piece = way->first;
    base_assert(piece != NULL);
    way->first = piece->next;
    way->bytes -= piece->size;
    return piece;
}

static void drop(struct way *way)
{
    while (way->first != NULL) {
        free(take(way));
    }
}

static void tell_end(struct stream *stream, enum base_status status, uint64_t at_us)
{
    const struct piece piece = {.due_us = at_us, .kind = PIECE_END, .status = status};
    if (stream->exchange != NULL) {
        (void)add(stream, &stream->down, &piece, NULL);
    }
}

// ---- The gateway's end

static bool port_write(void *ctx, const uint8_t *bytes, size_t size)
{
    struct stream *stream = ctx;
    const struct piece piece = {
        .due_us = now_us(stream->tunnel), .kind = PIECE_BYTES, .size = size};
    return stream->exchange == NULL || add(stream, &stream->down, &piece, bytes);
}

static void port_end(void *ctx, bool reset)
{
    struct stream *stream = ctx;
    if (!stream->ended) {
        stream->ended = true;
        tell_end(stream, reset ? BASE_ERR_CLOSED : BASE_OK, now_us(stream->tunnel));
    }
}

static void post(void *ctx, struct gw_message *message)
{
    struct sim_core_tunnel *tunnel = ctx;
    message->next = NULL;
    *tunnel->messages_end = message;
    tunnel->messages_end = &message->next;
}

static enum base_status submit(void *ctx, struct gw_sink_batch *batch)
{
    struct sim_core_tunnel *tunnel = ctx;
    batch->next = NULL;
    *tunnel->landing_end = batch;
    tunnel->landing_end = &batch->next;
    if (tunnel->land_us == UINT64_MAX) {
        tunnel->land_us = now_us(tunnel) + SIM_CORE_COMMIT_US;
        tunnel->due_us = tunnel->land_us < tunnel->due_us ? tunnel->land_us : tunnel->due_us;
    }
    return BASE_OK;
}

static void session_close(struct stream *stream)
{
    gw_session_close(stream->session);
    stream->session = NULL;
}

// Acknowledgements are written, what the worker has to do is done, streams that ended are closed.
static void settle(struct sim_core_tunnel *tunnel)
{
    gw_tunnel_worker_flush(tunnel->worker);
    while (tunnel->messages != NULL) {
        struct gw_message *message = tunnel->messages;
        tunnel->messages = message->next;
        if (tunnel->messages == NULL) {
            tunnel->messages_end = &tunnel->messages;
        }
        message->run(message);
    }
    for (uint32_t i = 0; i < tunnel->stream_count; i++) {
        struct stream *stream = tunnel->streams[i];
        if (stream != NULL && stream->ended && stream->session != NULL) {
            session_close(stream);
        }
    }
}

// All that waits, as one group.
static void land(struct sim_core_tunnel *tunnel, enum base_status status)
{
    struct gw_sink_batch *batch = tunnel->landing;
    tunnel->landing = NULL;
    tunnel->landing_end = &tunnel->landing;
    tunnel->land_us = UINT64_MAX;
    while (batch != NULL) {
        struct gw_sink_batch *next = batch->next;
        tunnel->records += status == BASE_OK && !batch->is_loss ? batch->batch.count : 0;
        batch->done(batch, status);
        batch = next;
    }
    settle(tunnel);
}

static void arrive(struct stream *stream, const struct piece *piece)
{
    struct sim_core_tunnel *tunnel = stream->tunnel;
    const struct gw_session_port port = {
        .ctx = stream, .write = port_write, .end = port_end, .unproven = stream->unproven};
    enum base_status status = BASE_OK;
    if (piece->kind == PIECE_OPEN) {
        status = now_us(tunnel) < tunnel->down_until_us
                     ? BASE_ERR_IO
                     : gw_session_open(tunnel->worker, stream->device, 0, &port, &stream->session);
        const struct piece head = {.due_us = now_us(tunnel), .kind = PIECE_HEAD};
        if (status == BASE_OK && stream->exchange != NULL) {
            (void)add(stream, &stream->down, &head, NULL);
        }
    } else if (piece->kind == PIECE_CLOSE) {
        session_close(stream);
    } else if (stream->session != NULL && !stream->ended) {
        status = gw_session_receive(stream->session, piece->bytes, piece->size);
    }
    if (status != BASE_OK && !stream->ended) {
        stream->ended = true;
        tell_end(stream, status, now_us(tunnel));
    }
    settle(tunnel);
}

// ---- The device's end

static void told(struct stream *stream, const struct piece *piece)
{
    const struct sim_transport_events *events = &stream->tunnel->options.events;
    struct sim_exchange *exchange = stream->exchange;
    const struct dev_response_head head = {.status = STATUS_OPEN};
    if (exchange == NULL) {
        return;
    }
    switch (piece->kind) {
    case PIECE_HEAD:
        events->head(events->ctx, exchange, &head);
        break;
    case PIECE_BYTES:
        events->body(events->ctx, exchange, piece->bytes, piece->size);
        break;
    default:
        base_assert(piece->kind == PIECE_END);
        stream->exchange = NULL;
        drop(&stream->up); // nobody takes it any more
        session_close(stream);
        events->end(events->ctx, exchange, piece->status);
        break;
    }
}

static void tell_room(struct stream *stream)
{
    const struct sim_transport_events *events = &stream->tunnel->options.events;
    if (stream->full && stream->exchange != NULL && stream->up.bytes == 0) {
        stream->full = false;
        events->writable(events->ctx, stream->exchange);
    }
}

static struct stream *stream_of(struct sim_core_tunnel *tunnel, const struct sim_exchange *exchange)
{
    base_assert(exchange->stream >= 0 && (uint32_t)exchange->stream < tunnel->stream_count);
    struct stream *stream = tunnel->streams[exchange->stream];
    base_assert(stream != NULL && stream->exchange == exchange);
    return stream;
}

static bool place_find(struct sim_core_tunnel *tunnel, uint32_t *out_place)
{
    uint32_t place = 0;
    while (place < tunnel->stream_count && tunnel->streams[place] != NULL) {
        place++;
    }
    if (place == tunnel->stream_count) {
        struct stream **grown =
            realloc(tunnel->streams, sizeof(*grown) * 2 * ((size_t)tunnel->stream_count + 1));
        if (grown == NULL) {
            return false;
        }
        tunnel->streams = grown;
        memset(&grown[place], 0, sizeof(*grown) * ((size_t)tunnel->stream_count + 2));
        tunnel->stream_count = 2 * (tunnel->stream_count + 1);
    }
    *out_place = place;
    return true;
}

enum base_status sim_core_tunnel_open(struct sim_core_tunnel *tunnel, struct sim_exchange *exchange,
                                      struct base_str device)
{
    uint32_t place = 0;
    uint64_t id = 0;
    BASE_TRY(wire_device_parse(device, &id));
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL || !place_find(tunnel, &place)) {
        free(stream);
        return BASE_ERR_NOMEM;
    }
    *stream = (struct stream){
        .tunnel = tunnel,
        .exchange = exchange,
        .device = id,
        .index = exchange->index,
        .unproven = exchange->credential.size == 0,
    };
    const struct piece piece = {.due_us = now_us(tunnel), .kind = PIECE_OPEN};
    if (!add(stream, &stream->up, &piece, NULL)) {
        free(stream);
        return BASE_ERR_NOMEM;
    }
    tunnel->streams[place] = stream;
    exchange->stream = (int32_t)place;
    return BASE_OK;
}

enum base_status sim_core_tunnel_write(struct sim_core_tunnel *tunnel,
                                       struct sim_exchange *exchange, const uint8_t *bytes,
                                       size_t size)
{
    struct stream *stream = stream_of(tunnel, exchange);
    const struct piece piece = {.due_us = now_us(tunnel), .kind = PIECE_BYTES, .size = size};
    if (stream->up.bytes > 0 && stream->up.bytes + size > SIM_STREAM_UP_MAX) {
        stream->full = true;
        return BASE_ERR_BUSY;
    }
    return add(stream, &stream->up, &piece, bytes) ? BASE_OK : BASE_ERR_NOMEM;
}

void sim_core_tunnel_cancel(struct sim_core_tunnel *tunnel, struct sim_exchange *exchange)
{
    struct stream *stream = stream_of(tunnel, exchange);
    const struct piece piece = {.due_us = now_us(tunnel), .kind = PIECE_CLOSE};
    stream->exchange = NULL;
    if (!add(stream, &stream->up, &piece, NULL)) {
        stream->ended = true; // closed when the worker is settled next
    }
}

// ---- Time

// The stream whose first piece comes first, of equals the first place, on its way up; NULL: none.
static struct stream *first_due(const struct sim_core_tunnel *tunnel, bool *out_up,
                                uint64_t *out_due_us)
{
    struct stream *found = NULL;
    *out_due_us = UINT64_MAX;
    for (uint32_t i = 0; i < tunnel->stream_count; i++) {
        struct stream *stream = tunnel->streams[i];
        for (int up = 1; stream != NULL && up >= 0; up--) {
            const struct way *way = up == 1 ? &stream->up : &stream->down;
            if (way->first != NULL && way->first->due_us < *out_due_us) {
                found = stream;
                *out_up = up == 1;
                *out_due_us = way->first->due_us;
            }
        }
    }
    return found;
}

// Streams that neither end needs any more go.
static void sweep(struct sim_core_tunnel *tunnel)
{
    for (uint32_t i = 0; i < tunnel->stream_count; i++) {
        struct stream *stream = tunnel->streams[i];
        if (stream != NULL && stream->exchange == NULL && stream->session == NULL &&
            stream->up.first == NULL) {
            drop(&stream->down);
            free(stream);
            tunnel->streams[i] = NULL;
        }
    }
}

void sim_core_tunnel_deliver(struct sim_core_tunnel *tunnel)
{
    uint64_t now = now_us(tunnel);
    while (tunnel->due_us <= now) {
        bool up = false;
        uint64_t due_us = 0;
        struct stream *stream = first_due(tunnel, &up, &due_us);
        if (tunnel->land_us <= due_us && tunnel->land_us <= now) {
            land(tunnel, BASE_OK);
        } else if (due_us <= now) {
            struct piece *piece = take(up ? &stream->up : &stream->down);
            if (up) {
                arrive(stream, piece);
                tell_room(stream);
            } else {
                told(stream, piece);
            }
            free(piece);
            sweep(tunnel);
        }
        (void)first_due(tunnel, &up, &due_us);
        tunnel->due_us = due_us < tunnel->land_us ? due_us : tunnel->land_us;
    }
}

uint64_t sim_core_tunnel_due_us(const struct sim_core_tunnel *tunnel)
{
    return tunnel->due_us;
}

void sim_core_tunnel_cut(struct sim_core_tunnel *tunnel, uint64_t at_us)
{
    tunnel->down_until_us = at_us + SIM_CORE_DOWN_US;
    for (uint32_t i = 0; i < tunnel->stream_count; i++) {
        struct stream *stream = tunnel->streams[i];
        if (stream != NULL) {
            drop(&stream->up);
            drop(&stream->down);
            stream->ended = true;
            tell_end(stream, BASE_ERR_IO, at_us);
        }
    }
    land(tunnel, BASE_ERR_IO);
    sweep(tunnel);
}

// ---- Life

enum base_status sim_core_tunnel_new(const struct sim_core_tunnel_options *options,
                                     struct sim_core_tunnel **out, struct base_error *error)
{
    struct sim_core_tunnel *tunnel = calloc(1, sizeof(*tunnel));
    if (tunnel == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a shard's tunnels");
    }
    tunnel->options = *options;
    tunnel->messages_end = &tunnel->messages;
    tunnel->landing_end = &tunnel->landing;
    tunnel->land_us = UINT64_MAX;
    tunnel->due_us = UINT64_MAX;
    tunnel->start_us = now_us(tunnel);
    const struct gw_tunnel_options side = {
        .sink = {tunnel, submit}, .clock = options->clock, .log = options->log};
    enum base_status status = gw_tunnel_new(&side, &tunnel->tunnel, error);
    if (status == BASE_OK) {
        status = gw_tunnel_worker_new(tunnel->tunnel, tunnel, post, &tunnel->worker);
    }
    if (status != BASE_OK) {
        sim_core_tunnel_free(tunnel);
        return base_error_set(error, status, "no gateway for a shard's tunnels: %s",
                              base_status_text(status));
    }
    *out = tunnel;
    return BASE_OK;
}

void sim_core_tunnel_free(struct sim_core_tunnel *tunnel)
{
    if (tunnel == NULL) {
        return;
    }
    for (uint32_t i = 0; i < tunnel->stream_count; i++) {
        if (tunnel->streams[i] != NULL) {
            tunnel->streams[i]->exchange = NULL;
            tunnel->streams[i]->ended = true;
            drop(&tunnel->streams[i]->up);
        }
    }
    if (tunnel->worker != NULL) {
        land(tunnel, BASE_ERR_IO);
    }
    sweep(tunnel);
    gw_tunnel_worker_free(tunnel->worker);
    gw_tunnel_free(tunnel->tunnel);
    free(tunnel->streams);
    free(tunnel);
}

uint64_t sim_core_tunnel_records(const struct sim_core_tunnel *tunnel)
{
    return tunnel->records;
}
