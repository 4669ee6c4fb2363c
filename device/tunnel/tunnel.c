// The tunnel's life: memory, boot, records in, the step, figures.
//
// Called by the device's runtime, all on one thread. What happens in a step: acknowledgements that
// the store did not take are settled, streams that went silent are given up, batches that are due
// are closed, the store commits, streams are opened, frames are sent.
#include "tunnel/tunnel_private.h"

#include "base/carve.h"

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

static void make_class(struct dev_tunnel *t, unsigned id, struct base_carver *carver)
{
    const struct class_places places = class_carve(&t->config, carver);
    struct tunnel_class *c = places.class;
    *c = (struct tunnel_class){.id = (uint8_t)id, .sample_ppm = WIRE_TUNNEL_SAMPLE_ALL};
    c->stream = t->config.one_stream ? 0 : (uint8_t)id;
    c->flight = places.flight;
    c->open.records = places.records;
    c->open.bytes = places.bytes;
    t->classes[id] = c;
    t->streams[c->stream].classes |= (uint8_t)(1u << id);
}

enum base_status dev_tunnel_init(void *memory, size_t memory_bytes,
                                 const struct dev_tunnel_config *config,
                                 const struct dev_tunnel_ports *ports, struct dev_collect *collect,
                                 struct dev_tunnel **out)
{
    const struct dev_tunnel_config full = complete(config);
    if (memory == NULL || (uintptr_t)memory % _Alignof(struct dev_tunnel) != 0 ||
        !config_ok(&full) || memory_bytes < total_bytes(&full)) {
        return BASE_ERR_INVALID;
    }
    struct base_carver carver = {.block = memory, .capacity = memory_bytes, .alignment = ALIGNMENT};
    struct dev_tunnel *t = base_carve(&carver, 1, sizeof(*t));
    *t = (struct dev_tunnel){.config = full, .ports = *ports, .collect = collect};
    if (full.app.size > 0) {
        memcpy(t->app, full.app.data, full.app.size);
    }
    if (full.os.size > 0) {
        memcpy(t->os, full.os.data, full.os.size);
    }
    t->config.app.data = t->app;
    t->config.os.data = t->os;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if ((full.classes & 1u << id) != 0) {
            make_class(t, id, &carver);
        }
    }
    t->raw_capacity = payload_capacity(&full);
    t->pack_capacity = pack_capacity(&full);
    t->raw = (uint8_t *)base_carve(&carver, 1, TUNNEL_ROOM + t->raw_capacity) + TUNNEL_ROOM;
    t->pack = (uint8_t *)base_carve(&carver, 1, TUNNEL_ROOM + t->pack_capacity) + TUNNEL_ROOM;
    *out = t;
    return BASE_OK;
}

enum base_status dev_tunnel_boot(struct dev_tunnel *tunnel, uint64_t now_us)
{
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (tunnel->classes[id] != NULL) {
            BASE_TRY(tunnel_boot_class(tunnel, tunnel->classes[id], now_us));
        }
    }
    BASE_TRY(tunnel_boot_quarantine(tunnel, now_us));
    tunnel->booted = true;
    return BASE_OK;
}

// ---- Records in

static enum base_status check_record(const struct dev_tunnel *t,
                                     const struct wire_upload_record *record)
{
    if (!t->booted || record->class_id >= WIRE_TUNNEL_CLASSES ||
        t->classes[record->class_id] == NULL || !wire_topic_ok(&record->topic) ||
        (unsigned)record->format >= WIRE_RECORD_FORMAT_END || record->wall_ms > WIRE_WALL_MS_MAX) {
        return BASE_ERR_INVALID;
    }
    bool large = record->size > t->config.batch_bytes_max || record->size > WIRE_RECORD_BYTES_MAX;
    return large ? BASE_ERR_TOO_LARGE : BASE_OK;
}

static bool take_record(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                        const struct wire_upload_record *record)
{
    if (!tunnel_fits(t, c, record) && tunnel_close(t, c, now_us) != BASE_OK) {
        return false;
    }
    if (tunnel_fits(t, c, record)) {
        tunnel_append(t, c, now_us, record);
        return true;
    }
    return tunnel_close_large(t, c, now_us, record) == BASE_OK;
}

enum base_status dev_tunnel_offer(struct dev_tunnel *tunnel, uint64_t now_us,
                                  const struct wire_upload_record *record, uint64_t *out_seq)
{
    BASE_TRY(check_record(tunnel, record));
    struct tunnel_class *c = tunnel->classes[record->class_id];
    c->produced++;
    bool taken = take_record(tunnel, c, now_us, record);
    if (!taken) { // the store takes nothing and the open batch is full
        tunnel_count_loss(c, WIRE_TUNNEL_LOSS_QUOTA, 1);
    }
    if (out_seq != NULL) {
        uint64_t behind = c->next_seq + c->open.count - c->s.base_seq;
        *out_seq = taken ? behind - 1 : UINT64_MAX;
    }
    return BASE_OK;
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
    tunnel->retry_us = now_us;
}

// ---- The step

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t class_due(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t now_us)
{
    uint64_t due = UINT64_MAX;
    bool is_due = tunnel_is_due(t, c, now_us, &due);
    if (c->retry_us > now_us) { // the store or a read failed
        due = is_due ? c->retry_us : due;
        due = c->send_next < c->next ? earlier(due, c->retry_us) : due;
    }
    if (c->hold_us > now_us && c->s.tail < c->next) {
        due = earlier(due, c->hold_us);
    }
    for (unsigned reason = 0; reason < TUNNEL_LOST; reason++) {
        if (c->pending[reason] > 0) {
            due = earlier(due, now_us + TUNNEL_IO_RETRY_MS * TUNNEL_MS);
        }
    }
    return c->ack_waits ? earlier(due, now_us + TUNNEL_IO_RETRY_MS * TUNNEL_MS) : due;
}

static uint64_t next_due(const struct dev_tunnel *t, uint64_t now_us, uint64_t collect_us)
{
    uint64_t due = earlier(collect_us, tunnel_stream_due(t, now_us));
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        if (t->classes[id] != NULL) {
            due = earlier(due, class_due(t, t->classes[id], now_us));
        }
    }
    return t->more ? now_us : due;
}

static void flush_if_asked(struct dev_tunnel *t, uint64_t now_us)
{
    if (t->flush) {
        t->flush = dev_collect_flush(t->collect, now_us) != BASE_OK;
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
        uint64_t wait = retry_after_s * 1000 * TUNNEL_MS;
        uint64_t hold = base_sat_add_u64(now_us, wait + tunnel_draw(tunnel, wait / 8));
        tunnel->hold_us = tunnel->hold_us > hold ? tunnel->hold_us : hold;
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

static uint64_t lost_of(const struct tunnel_class *c, unsigned reason)
{
    return c->s.lost[reason] + c->waiting[reason] + c->pending[reason];
}

bool dev_tunnel_is_idle(const struct dev_tunnel *tunnel)
{
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        const struct tunnel_class *c = tunnel->classes[id];
        if (c == NULL) {
            continue;
        }
        uint64_t pending = 0;
        for (unsigned reason = 0; reason < TUNNEL_LOST; reason++) {
            pending += c->pending[reason];
        }
        if (c->s.tail != c->next || c->open.count > 0 || pending > 0) {
            return false;
        }
    }
    return true;
}

void dev_tunnel_stats(const struct dev_tunnel *tunnel, struct dev_tunnel_stats *out)
{
    *out = tunnel->stats;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        const struct tunnel_class *c = tunnel->classes[id];
        if (c == NULL) {
            continue;
        }
        struct dev_tunnel_class_stats *stats = &out->classes[id];
        *stats = (struct dev_tunnel_class_stats){
            .produced = c->produced,
            .durable = c->s.durable,
            .queued = c->queued + c->open.count,
            .batches_sent = c->batches_sent,
            .batches_resent = c->batches_resent,
            .bytes_sent = c->bytes_sent,
            .raw_bytes = c->raw_bytes,
            .epoch = c->s.epoch,
            .next = tunnel_number(c, c->next),
            .tail = tunnel_number(c, c->s.tail),
        };
        for (unsigned reason = WIRE_TUNNEL_LOSS_QUOTA; reason < TUNNEL_LOST; reason++) {
            stats->lost[reason] = reason != WIRE_TUNNEL_LOSS_SPLIT ? lost_of(c, reason) : 0;
        }
    }
}

static bool law_holds(const struct tunnel_class *c)
{
    uint64_t lost = 0;
    for (unsigned reason = WIRE_TUNNEL_LOSS_QUOTA; reason < TUNNEL_LOST; reason++) {
        lost += reason != WIRE_TUNNEL_LOSS_SPLIT ? lost_of(c, reason) : 0;
    }
    return c->produced == c->s.durable + c->queued + c->open.count + lost;
}

static bool class_ok(const struct dev_tunnel *t, const struct tunnel_class *c)
{
    uint64_t at = c->s.tail;
    for (uint32_t i = 0; i < c->flight_count; i++) {
        at += c->flight[(c->flight_head + i) % t->config.window].numbers;
    }
    bool order = c->s.base_slot <= c->s.tail && c->s.tail <= c->send_next &&
                 c->send_next <= c->next && c->s.base_seq <= c->s.tail_seq &&
                 c->s.tail_seq <= c->next_seq;
    bool seen = c->maybe_sent >= c->send_next && c->maybe_sent <= c->next;
    bool flight = c->flight_count <= t->config.window && at == c->send_next;
    bool open = c->open.count <= t->config.open_records &&
                c->open.body_bytes <= t->config.open_bytes &&
                c->open.topic_count <= DEV_TUNNEL_TOPICS;
    // What may be there is promised in the store, unless it is acknowledged already.
    bool promised = c->s.bound >= c->maybe_sent || c->maybe_sent == c->s.tail;
    return order && seen && flight && open && promised;
}

bool dev_tunnel_validate(const struct dev_tunnel *tunnel)
{
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        const struct tunnel_class *c = tunnel->classes[id];
        if (c != NULL && tunnel->booted && (!law_holds(c) || !class_ok(tunnel, c))) {
            return false;
        }
    }
    return true;
}
