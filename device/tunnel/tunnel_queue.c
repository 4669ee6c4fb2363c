// Records in: the open batch of a class, closing it into the store, and what has to be in the store
// before a batch may be sent.
//
// Called by dev_tunnel_offer and dev_tunnel_step, on the runtime's thread.
#include "tunnel/tunnel_private.h"

#include "base/hash.h"

static const struct wire_topic *find_topic(const struct tunnel_open *open,
                                           const struct wire_topic *topic, uint32_t *out_index)
{
    for (uint32_t i = 0; i < open->topic_count; i++) {
        if (wire_topic_equal(&open->topics[i], topic)) {
            *out_index = i;
            return &open->topics[i];
        }
    }
    return NULL;
}

bool tunnel_fits(const struct dev_tunnel *t, const struct tunnel_class *c,
                 const struct wire_upload_record *record)
{
    uint32_t index = 0;
    bool topic_fits = c->open.topic_count < DEV_TUNNEL_TOPICS ||
                      find_topic(&c->open, &record->topic, &index) != NULL;
    return topic_fits && c->open.count < t->config.open_records &&
           record->size <= t->config.open_bytes - c->open.body_bytes;
}

static struct base_str keep_text(struct tunnel_class *c, const struct dev_tunnel *t,
                                 struct base_str text)
{
    uint8_t *at = c->open.bytes + t->config.open_bytes + c->open.text_bytes;
    base_check(c->open.text_bytes + text.size <= TUNNEL_TEXT_SLACK);
    memcpy(at, text.data, text.size);
    c->open.text_bytes += (uint32_t)text.size;
    return (struct base_str){(const char *)at, text.size};
}

void tunnel_append(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                   const struct wire_upload_record *record)
{
    struct tunnel_open *open = &c->open;
    uint32_t topic = open->topic_count;
    if (find_topic(open, &record->topic, &topic) == NULL) {
        open->topics[topic].schema = record->topic.schema;
        open->topics[topic].task = keep_text(c, t, record->topic.task);
        open->topics[topic].upload = keep_text(c, t, record->topic.upload);
        open->topic_count++;
    }
    uint8_t *body = open->bytes + open->body_bytes;
    if (record->size > 0) {
        memcpy(body, record->bytes, record->size);
    }
    open->records[open->count] = (struct wire_record){
        .topic = topic,
        .format = record->format,
        .wall_ms = record->wall_ms,
        .bytes = body,
        .size = record->size,
    };
    open->since_us = open->count == 0 ? now_us : open->since_us;
    open->body_bytes += record->size;
    open->count++;
}

static void empty_open(struct tunnel_class *c)
{
    c->open.count = 0;
    c->open.topic_count = 0;
    c->open.body_bytes = 0;
    c->open.text_bytes = 0;
}

// ---- Into the store

bool tunnel_is_stored(const struct dev_tunnel *t, uint64_t mark)
{
    // A group that was given up takes its changes back, and the count with them.
    uint64_t changes = dev_collect_changes(t->collect);
    return dev_collect_durable(t->collect) >= (mark < changes ? mark : changes);
}

enum base_status tunnel_promise(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                uint64_t end)
{
    if (end <= c->s.bound) {
        return BASE_OK;
    }
    struct tunnel_state state = c->s;
    state.bound = c->send_next + t->config.window; // ahead, so that this is not for each batch
    state.bound = state.bound > end ? state.bound : end;
    uint64_t mark = dev_collect_changes(t->collect) + 1;
    BASE_TRY(tunnel_put_state(t, c, now_us, &state, true));
    c->s = state;
    c->bound_mark = mark;
    return BASE_OK;
}

static bool is_up(const struct dev_tunnel *t, const struct tunnel_class *c)
{
    return t->streams[c->stream].state != TUNNEL_CLOSED;
}

// Is there room in the class's quota, be it by dropping what is older?
static bool make_room(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us, uint64_t bytes)
{
    uint64_t quota = t->config.quota_bytes[c->id];
    if (c->queue_bytes + bytes <= quota) {
        return true;
    }
    if (bytes > quota) {
        return false;
    }
    // A sixteenth at a time, so that a full queue does not drop with every batch.
    uint64_t need = c->queue_bytes + bytes - quota;
    need = need < quota / 16 ? quota / 16 : need;
    (void)tunnel_drop_oldest(t, c, now_us, need, WIRE_TUNNEL_LOSS_QUOTA);
    return c->queue_bytes + bytes <= quota;
}

// The store itself is full: what is least important goes first.
static void make_any_room(struct dev_tunnel *t, const struct tunnel_class *c, uint64_t now_us,
                          uint64_t bytes)
{
    uint64_t freed = 0;
    for (unsigned id = WIRE_TUNNEL_CLASSES - 1; id > 0 && id >= c->id && freed < bytes; id--) {
        if (t->classes[id] != NULL) {
            freed += tunnel_drop_oldest(t, t->classes[id], now_us, bytes - freed,
                                        WIRE_TUNNEL_LOSS_QUOTA);
        }
    }
}

static enum base_status put_batch(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                  const struct tunnel_entry *entry)
{
    bool high = c->id <= 1 || is_up(t, c);
    enum base_status status = tunnel_put_entry(t, c, now_us, c->next, entry, t->raw, high);
    if (status == BASE_ERR_FULL) {
        // Dropping does not touch raw.
        make_any_room(t, c, now_us, TUNNEL_ENTRY_HEAD + entry->payload_bytes);
        status = tunnel_put_entry(t, c, now_us, c->next, entry, t->raw, high);
    }
    return status;
}

// raw holds the payload of `count` records: it becomes the next entry.
static enum base_status enqueue(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                uint32_t count, size_t size)
{
    uint64_t bytes = TUNNEL_KEY + TUNNEL_ENTRY_HEAD + size;
    if (!make_room(t, c, now_us, bytes)) {
        tunnel_count_loss(c, WIRE_TUNNEL_LOSS_QUOTA, count);
        return BASE_OK;
    }
    const struct tunnel_entry entry = {
        .numbers = 1,
        .seq = c->next_seq,
        .count = count,
        .closed_us = now_us,
        .payload_hash = base_hash64(t->raw, size),
        .payload_bytes = (uint32_t)size,
    };
    BASE_TRY(put_batch(t, c, now_us, &entry));
    if (c->send_next == c->next) {
        c->progress_us = now_us; // it begins to wait
    }
    t->raw_class = c;
    t->raw_slot = c->next;
    t->raw_entry = entry;
    c->next++;
    c->next_seq += count;
    c->queued += count;
    c->queue_bytes += bytes;
    c->tail_loss = false;
    if (is_up(t, c) && tunnel_promise(t, c, now_us, c->next) != BASE_OK) {
        return BASE_OK; // sending asks again
    }
    return BASE_OK;
}

static bool sampled_away(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t now_us)
{
    if (c->sample_ppm >= WIRE_TUNNEL_SAMPLE_ALL || c->sample_end_us <= now_us) {
        return false;
    }
    uint64_t seq = c->next_seq;
    for (unsigned reason = 0; reason < TUNNEL_LOST; reason++) {
        seq += c->pending[reason];
    }
    return !wire_tunnel_keeps(t->config.device_id, c->id, c->s.epoch, seq, c->sample_ppm);
}

static enum base_status close_records(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                      const struct wire_topic *topics, uint32_t topic_count,
                                      const struct wire_record *records, uint32_t count)
{
    if (sampled_away(t, c, now_us)) {
        tunnel_count_loss(c, WIRE_TUNNEL_LOSS_POLICY, count);
        return BASE_OK;
    }
    size_t size = 0;
    tunnel_unload(t);
    BASE_TRY(
        wire_batch_encode(topics, topic_count, records, count, t->raw, t->raw_capacity, &size));
    return enqueue(t, c, now_us, count, size);
}

enum base_status tunnel_close(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    const struct tunnel_open *open = &c->open;
    if (open->count > 0) {
        BASE_TRY(close_records(t, c, now_us, open->topics, open->topic_count, open->records,
                               open->count));
        empty_open(c);
    }
    tunnel_place_pending(t, c, now_us);
    return BASE_OK;
}

enum base_status tunnel_close_large(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                    const struct wire_upload_record *record)
{
    const struct wire_record one = {
        .format = record->format,
        .wall_ms = record->wall_ms,
        .bytes = record->bytes,
        .size = record->size,
    };
    BASE_TRY(close_records(t, c, now_us, &record->topic, 1, &one, 1));
    tunnel_place_pending(t, c, now_us);
    return BASE_OK;
}

// ---- When

static bool radio_is_on(const struct dev_tunnel *t, uint64_t now_us)
{
    return t->radio_us != 0 && now_us <= t->radio_us + DEV_TUNNEL_RADIO_MS * TUNNEL_MS;
}

static uint64_t wait_ms(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t now_us)
{
    bool full =
        c->open.count >= t->config.open_records || c->open.body_bytes >= t->config.open_bytes;
    if (c->id == 0 || t->flush || full) {
        return 0;
    }
    if (c->id == 1) {
        return radio_is_on(t, now_us) ? 0 : DEV_TUNNEL_COALESCE_MS;
    }
    return DEV_TUNNEL_BATCH_AGE_MS;
}

bool tunnel_is_due(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t now_us,
                   uint64_t *out_when_us)
{
    *out_when_us = UINT64_MAX;
    if (c->open.count == 0) {
        return false;
    }
    *out_when_us = base_sat_add_u64(c->open.since_us, wait_ms(t, c, now_us) * TUNNEL_MS);
    return *out_when_us <= now_us;
}

// Is a class 0 or 1 about to be sent, so that the others may go along?
static bool goes_along(const struct dev_tunnel *t, uint64_t now_us)
{
    for (unsigned id = 0; id < 2; id++) {
        const struct tunnel_class *c = t->classes[id];
        if (c != NULL && c->send_next < c->next && tunnel_can_send(t, c, now_us)) {
            return true;
        }
    }
    return false;
}

static void close_one(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us)
{
    if (c->retry_us > now_us) {
        return;
    }
    if (tunnel_close(t, c, now_us) != BASE_OK) {
        c->retry_us = base_sat_add_u64(now_us, TUNNEL_IO_RETRY_MS * TUNNEL_MS);
    }
}

void tunnel_close_due(struct dev_tunnel *t, uint64_t now_us)
{
    uint64_t when = 0;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        struct tunnel_class *c = t->classes[id];
        if (c == NULL) {
            continue;
        }
        bool due = tunnel_is_due(t, c, now_us, &when);
        bool along = id >= 2 && c->open.count > 0 && is_up(t, c) && goes_along(t, now_us);
        if (due || along) {
            close_one(t, c, now_us);
        } else {
            tunnel_place_pending(t, c, now_us);
        }
    }
}
