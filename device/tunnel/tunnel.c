// The tunnel's life: memory, boot, records in, the step, figures.
//
// Called by the device's runtime, all on one thread. What happens in a step: acknowledgements that
// the store did not take are settled, streams that went silent are given up, batches that are due
// are closed, the store commits, streams are opened, frames are sent.
#include "tunnel/tunnel.h"

#include "tunnel/tunnel_boot.h"
#include "tunnel/tunnel_chain.h"
#include "tunnel/tunnel_drop.h"
#include "tunnel/tunnel_private.h"
#include "tunnel/tunnel_queue.h"
#include "tunnel/tunnel_send.h"

#include "base/carve.h"
#include "base/check.h"

#include <string.h>

#define ALIGNMENT 16

static const uint32_t QUOTA[WIRE_TUNNEL_CLASSES] = {256 * 1024, 1024 * 1024, 6 * 1024 * 1024,
                                                    1024 * 1024};

// ---- Memory

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static struct dev_tunnel_config complete(const struct dev_tunnel_config *config)
{
    struct dev_tunnel_config full = *config;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        full.quota_bytes[id] = or_default(full.quota_bytes[id], QUOTA[id]);
    }
    full.fresh_ms = or_default(full.fresh_ms, DEV_TUNNEL_FRESH_MS);
    full.classes = full.classes != 0 ? full.classes : (1u << WIRE_TUNNEL_CLASSES) - 1;
    full.batch_bytes_max = or_default(full.batch_bytes_max, DEV_TUNNEL_BATCH_MAX);
    full.open_bytes = or_default(full.open_bytes, DEV_TUNNEL_BATCH_BYTES);
    full.open_bytes =
        full.open_bytes < full.batch_bytes_max ? full.open_bytes : full.batch_bytes_max;
    full.open_records = or_default(full.open_records, DEV_TUNNEL_BATCH_RECORDS);
    full.window = or_default(full.window, WIRE_TUNNEL_WINDOW);
    return full;
}

// HELLO takes no others.
static bool is_plain_text(struct base_str text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < 0x20 || text.data[i] > 0x7e) {
            return false;
        }
    }
    return text.size <= WIRE_TUNNEL_TEXT_MAX;
}

static bool config_ok(const struct dev_tunnel_config *config)
{
    return config->classes >> WIRE_TUNNEL_CLASSES == 0 && config->batch_bytes_max >= 256 &&
           config->batch_bytes_max <= WIRE_TUNNEL_RAW_MAX &&
           config->open_records <= DEV_TUNNEL_BATCH_RECORDS &&
           config->window <= WIRE_TUNNEL_WINDOW && is_plain_text(config->app) &&
           is_plain_text(config->os);
}

// Columns and names around the bodies of a batch.
static uint32_t payload_capacity(const struct dev_tunnel_config *config)
{
    return config->batch_bytes_max + TUNNEL_TEXT_SLACK + 16 * config->open_records;
}

struct class_places {
    struct tunnel_class *class;
    struct tunnel_flight *flight;
    struct wire_record *records;
    uint8_t *bytes;
};

static struct class_places class_carve(const struct dev_tunnel_config *config,
                                       struct base_carver *carver)
{
    struct class_places places;
    places.class = base_carve(carver, 1, sizeof(*places.class));
    places.flight = base_carve(carver, config->window, sizeof(*places.flight));
    places.records = base_carve(carver, config->open_records, sizeof(*places.records));
    places.bytes = base_carve(carver, 1, config->open_bytes + TUNNEL_TEXT_SLACK);
    return places;
}

static uint32_t pack_capacity(const struct dev_tunnel_config *config)
{
    return payload_capacity(config) + TUNNEL_ROOM + TUNNEL_TEXT_SLACK;
}

static size_t total_bytes(const struct dev_tunnel_config *config)
{
    struct base_carver carver = {.capacity = SIZE_MAX, .alignment = ALIGNMENT};
    (void)base_carve(&carver, 1, sizeof(struct dev_tunnel));
    for (int i = 0; i < __builtin_popcount(config->classes); i++) {
        (void)class_carve(config, &carver);
    }
    // raw and pack; a split batch lies in pack as two, each with room in front.
    (void)base_carve(&carver, 1, TUNNEL_ROOM + payload_capacity(config));
    (void)base_carve(&carver, 1, TUNNEL_ROOM + pack_capacity(config));
    return carver.used;
}

size_t dev_tunnel_bytes(const struct dev_tunnel_config *config)
{
    const struct dev_tunnel_config full = complete(config);
    return config_ok(&full) ? total_bytes(&full) : 0;
}

static void make_class(struct dev_tunnel *tunnel, unsigned id, struct base_carver *carver)
{
    base_assert(id < WIRE_TUNNEL_CLASSES && tunnel->classes[id] == NULL);
    const struct class_places places = class_carve(&tunnel->config, carver);
    struct tunnel_class *class = places.class;
    *class = (struct tunnel_class){.id = (uint8_t)id, .sample_ppm = WIRE_TUNNEL_SAMPLE_ALL};
    class->stream = tunnel->config.one_stream ? 0 : (uint8_t)id;
    class->flight = places.flight;
    class->open.records = places.records;
    class->open.bytes = places.bytes;
    tunnel->classes[id] = class;
    tunnel->streams[class->stream].classes |= (uint8_t)(1u << id);
}

enum base_status dev_tunnel_init(void *memory, size_t memory_bytes,
                                 const struct dev_tunnel_config *config,
                                 const struct dev_tunnel_ports *ports, struct dev_tunnel **out)
{
    const struct dev_tunnel_config full = complete(config);
    if (memory == NULL || (uintptr_t)memory % _Alignof(struct dev_tunnel) != 0 ||
        !config_ok(&full) || memory_bytes < total_bytes(&full)) {
        return BASE_ERR_INVALID;
    }
    struct base_carver carver = {.block = memory, .capacity = memory_bytes, .alignment = ALIGNMENT};
    struct dev_tunnel *tunnel = base_carve(&carver, 1, sizeof(*tunnel));
    *tunnel = (struct dev_tunnel){.config = full, .ports = *ports, .collect = ports->collect};
    if (full.app.size > 0) {
        memcpy(tunnel->app, full.app.data, full.app.size);
    }
    if (full.os.size > 0) {
        memcpy(tunnel->os, full.os.data, full.os.size);
    }
    tunnel->config.app.data = tunnel->app;
    tunnel->config.os.data = tunnel->os;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if ((full.classes & 1u << id) != 0) {
            make_class(tunnel, id, &carver);
        }
    }
    tunnel->buffers.raw_capacity = payload_capacity(&full);
    tunnel->buffers.pack_capacity = pack_capacity(&full);
    tunnel->buffers.raw =
        (uint8_t *)base_carve(&carver, 1, TUNNEL_ROOM + tunnel->buffers.raw_capacity) + TUNNEL_ROOM;
    tunnel->buffers.pack =
        (uint8_t *)base_carve(&carver, 1, TUNNEL_ROOM + tunnel->buffers.pack_capacity) +
        TUNNEL_ROOM;
    base_assert(!carver.full && carver.used == total_bytes(&full));
    *out = tunnel;
    return BASE_OK;
}

enum base_status dev_tunnel_boot(struct dev_tunnel *tunnel, uint64_t now_us)
{
    base_assert(!tunnel->booted);
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (tunnel->classes[id] != NULL) {
            BASE_TRY(tunnel_boot_class(tunnel, tunnel->classes[id], now_us));
        }
    }
    BASE_TRY(tunnel_boot_quarantine(tunnel, now_us));
    tunnel->booted = true;
    base_assert(dev_tunnel_validate(tunnel));
    return BASE_OK;
}

// ---- Records in

static enum base_status check_record(const struct dev_tunnel *tunnel,
                                     const struct wire_upload_record *record)
{
    if (!tunnel->booted || record->class_id >= WIRE_TUNNEL_CLASSES ||
        tunnel->classes[record->class_id] == NULL || !wire_upload_key_ok(&record->key) ||
        (unsigned)record->format >= WIRE_RECORD_FORMAT_END || record->wall_ms > WIRE_WALL_MS_MAX) {
        return BASE_ERR_INVALID;
    }
    bool large =
        record->size > tunnel->config.batch_bytes_max || record->size > WIRE_RECORD_BYTES_MAX;
    return large ? BASE_ERR_TOO_LARGE : BASE_OK;
}

static enum base_status offer(void *ctx, uint64_t now_us, const struct wire_upload_record *record)
{
    struct dev_tunnel *tunnel = ctx;
    BASE_TRY(check_record(tunnel, record));
    struct tunnel_class *class = tunnel->classes[record->class_id];
    class->produced++;
    bool fits = tunnel_fits(tunnel, class, record);
    bool closed = !fits && tunnel_close(tunnel, class, now_us, NULL) == BASE_OK;
    fits = fits || (closed && tunnel_fits(tunnel, class, record));
    if (fits) {
        tunnel_append(tunnel, class, now_us, record);
    }
    bool taken = fits || (closed && tunnel_close(tunnel, class, now_us, record) == BASE_OK);
    if (!taken) { // the store takes nothing and the open batch is full
        tunnel_count_loss(class, WIRE_TUNNEL_LOSS_QUOTA, 1);
    }
    uint64_t behind = class->next_seq + class->open.count - class->state.base_seq;
    tunnel->offered_seq = taken ? behind - 1 : UINT64_MAX;
    return BASE_OK;
}

enum base_status dev_tunnel_offer(struct dev_tunnel *tunnel, uint64_t now_us,
                                  const struct wire_upload_record *record, uint64_t *out_seq)
{
    BASE_TRY(offer(tunnel, now_us, record));
    if (out_seq != NULL) {
        *out_seq = tunnel->offered_seq;
    }
    return BASE_OK;
}

struct wire_upload_port dev_tunnel_uploads(struct dev_tunnel *tunnel)
{
    return (struct wire_upload_port){.ctx = tunnel, .offer = offer};
}

enum base_status dev_tunnel_unmade(struct dev_tunnel *tunnel, uint8_t class_id, uint64_t count)
{
    if (!tunnel->booted || class_id >= WIRE_TUNNEL_CLASSES || tunnel->classes[class_id] == NULL) {
        return BASE_ERR_INVALID;
    }
    tunnel->classes[class_id]->produced += count;
    tunnel_count_loss(tunnel->classes[class_id], WIRE_TUNNEL_LOSS_STARTS, count);
    return BASE_OK;
}

void dev_tunnel_flush(struct dev_tunnel *tunnel, uint64_t now_us)
{
    (void)now_us;
    tunnel->flush = true;
}

void dev_tunnel_set_wall(struct dev_tunnel *tunnel, uint64_t now_us, uint64_t wall_ms)
{
    tunnel->wall_ms = wall_ms;
    tunnel->wall_us = now_us;
}

void dev_tunnel_wake(struct dev_tunnel *tunnel, uint64_t now_us)
{
    tunnel_hurry(tunnel, now_us);
}

// ---- The step

static uint64_t earlier(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

static uint64_t class_due(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                          uint64_t now_us)
{
    uint64_t due = UINT64_MAX;
    bool is_due = tunnel_is_due(tunnel, class, now_us, &due);
    if (class->retry_us > now_us) { // the store or a read failed
        due = is_due ? class->retry_us : due;
        due = class->send_next < class->next ? earlier(due, class->retry_us) : due;
    }
    if (class->hold_us > now_us && class->state.tail < class->next) {
        due = earlier(due, class->hold_us);
    }
    for (unsigned reason = 0; reason < TUNNEL_LOST; reason++) {
        if (class->pending[reason] > 0) {
            due = earlier(due, now_us + TUNNEL_IO_RETRY_MS * TUNNEL_MS);
        }
    }
    return class->ack_waits ? earlier(due, now_us + TUNNEL_IO_RETRY_MS * TUNNEL_MS) : due;
}

static uint64_t next_due(const struct dev_tunnel *tunnel, uint64_t now_us, uint64_t collect_us)
{
    uint64_t due = earlier(collect_us, tunnel_stream_due(tunnel, now_us));
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (tunnel->classes[id] != NULL) {
            due = earlier(due, class_due(tunnel, tunnel->classes[id], now_us));
        }
    }
    return tunnel->more ? now_us : due;
}

static void flush_if_asked(struct dev_tunnel *tunnel, uint64_t now_us)
{
    if (tunnel->flush) {
        tunnel->flush = dev_collect_flush(tunnel->collect, now_us) != BASE_OK;
    }
}

uint64_t dev_tunnel_step(struct dev_tunnel *tunnel, uint64_t now_us)
{
    if (!tunnel->booted) {
        return UINT64_MAX;
    }
    tunnel->more = false;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (tunnel->classes[id] != NULL && tunnel->classes[id]->ack_waits) {
            tunnel_settle(tunnel, tunnel->classes[id], now_us);
        }
    }
    tunnel_watch_streams(tunnel, now_us);
    tunnel_close_due(tunnel, now_us);
    (void)dev_collect_step(tunnel->collect, now_us);
    flush_if_asked(tunnel, now_us);
    tunnel_open_streams(tunnel, now_us);
    tunnel_send_due(tunnel, now_us);
    base_assert(dev_tunnel_validate(tunnel));
    return next_due(tunnel, now_us, dev_collect_step(tunnel->collect, now_us));
}

// ---- The transport's callbacks

void dev_tunnel_on_open(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us)
{
    if (stream < WIRE_TUNNEL_CLASSES && tunnel->streams[stream].state == TUNNEL_OPENING) {
        tunnel->streams[stream].state = TUNNEL_UP;
        tunnel->streams[stream].heard_us = now_us;
    }
}

void dev_tunnel_on_writable(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us)
{
    (void)now_us;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (tunnel->classes[id] != NULL && tunnel->classes[id]->stream == stream) {
            tunnel->classes[id]->blocked = false;
        }
    }
}

void dev_tunnel_on_closed(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                          enum base_status status, uint32_t retry_after_s)
{
    if (stream >= WIRE_TUNNEL_CLASSES || tunnel->streams[stream].state == TUNNEL_CLOSED) {
        return;
    }
    base_log_debug(tunnel->ports.log, "tunnel", "stream %u closed: %s", (unsigned)stream,
                   base_status_text(status));
    bool drained = tunnel->streams[stream].draining;
    tunnel_stream_gone(tunnel, stream, now_us);
    if (!drained) {
        tunnel_failed(tunnel, now_us);
    }
    if (retry_after_s > 0) {
        tunnel_retry_after(tunnel, now_us, retry_after_s);
    }
}

void dev_tunnel_stop(struct dev_tunnel *tunnel)
{
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        if (tunnel->streams[i].state != TUNNEL_CLOSED) {
            tunnel->ports.transport.close(tunnel->ports.transport.ctx, i);
            tunnel->streams[i] = (struct tunnel_stream){.classes = tunnel->streams[i].classes};
        }
    }
    tunnel->booted = false;
}

// ---- Figures

static uint64_t lost_of(const struct tunnel_class *class, unsigned reason)
{
    base_assert(reason < TUNNEL_LOST);
    return class->state.lost[reason] + class->waiting[reason] + class->pending[reason];
}

bool dev_tunnel_is_idle(const struct dev_tunnel *tunnel)
{
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        const struct tunnel_class *class = tunnel->classes[id];
        if (class == NULL) {
            continue;
        }
        uint64_t pending = 0;
        for (unsigned reason = 0; reason < TUNNEL_LOST; reason++) {
            pending += class->pending[reason];
        }
        if (class->state.tail != class->next || class->open.count > 0 || pending > 0) {
            return false;
        }
    }
    return true;
}

void dev_tunnel_stats(const struct dev_tunnel *tunnel, struct dev_tunnel_stats *out)
{
    *out = tunnel->stats;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        const struct tunnel_class *class = tunnel->classes[id];
        if (class == NULL) {
            continue;
        }
        base_assert(class->state.base_slot <= class->state.tail &&
                    class->state.tail <= class->next);
        struct dev_tunnel_class_stats *stats = &out->classes[id];
        *stats = (struct dev_tunnel_class_stats){
            .produced = class->produced,
            .durable = class->state.durable,
            .queued = class->queued + class->open.count,
            .batches_sent = class->batches_sent,
            .batches_resent = class->batches_resent,
            .bytes_sent = class->bytes_sent,
            .raw_bytes = class->raw_bytes,
            .epoch = class->state.epoch,
            .next = tunnel_number(class, class->next),
            .tail = tunnel_number(class, class->state.tail),
        };
        for (unsigned reason = WIRE_TUNNEL_LOSS_QUOTA; reason < TUNNEL_LOST; reason++) {
            stats->lost[reason] = reason != WIRE_TUNNEL_LOSS_SPLIT ? lost_of(class, reason) : 0;
        }
    }
}

static bool law_holds(const struct tunnel_class *class)
{
    uint64_t lost = 0;
    for (unsigned reason = WIRE_TUNNEL_LOSS_QUOTA; reason < TUNNEL_LOST; reason++) {
        lost += reason != WIRE_TUNNEL_LOSS_SPLIT ? lost_of(class, reason) : 0;
    }
    return class->produced == class->state.durable + class->queued + class->open.count + lost;
}

static bool class_ok(const struct dev_tunnel *tunnel, const struct tunnel_class *class)
{
    uint64_t at = class->state.tail;
    for (uint32_t i = 0; i < class->flight_count; i++) {
        at += class->flight[(class->flight_head + i) % tunnel->config.window].numbers;
    }
    bool order = class->state.base_slot <= class->state.tail &&
                 class->state.tail <= class->send_next && class->send_next <= class->next &&
                 class->state.base_seq <= class->state.tail_seq &&
                 class->state.tail_seq <= class->next_seq;
    bool seen = class->maybe_sent >= class->send_next && class->maybe_sent <= class->next;
    bool flight = class->flight_count <= tunnel->config.window && at == class->send_next;
    bool open = class->open.count <= tunnel->config.open_records &&
                class->open.body_bytes <= tunnel->config.open_bytes &&
                class->open.upload_count <= DEV_TUNNEL_UPLOADS;
    // What may be there is promised in the store, unless it is acknowledged already.
    bool promised =
        class->state.bound >= class->maybe_sent || class->maybe_sent == class->state.tail;
    return order && seen && flight && open && promised;
}

bool dev_tunnel_validate(const struct dev_tunnel *tunnel)
{
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        const struct tunnel_class *class = tunnel->classes[id];
        if (class != NULL && tunnel->booted && (!law_holds(class) || !class_ok(tunnel, class))) {
            return false;
        }
    }
    return true;
}
