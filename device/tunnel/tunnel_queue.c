// Records in: the open batch of a class, closing it into the store, and what has to be in the store
// before a batch may be sent.
//
// Called by dev_tunnel_offer and dev_tunnel_step, on the runtime's thread.
#include "tunnel/tunnel_queue.h"

#include "tunnel/tunnel_drop.h"
#include "tunnel/tunnel_private.h"
#include "tunnel/tunnel_send.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

static const struct wire_upload_key *find_upload(const struct tunnel_open *open,
                                                 const struct wire_upload_key *upload,
                                                 uint32_t *out_index)
{
    for (uint32_t i = 0; i < open->upload_count; i++) {
        if (wire_upload_key_equal(&open->uploads[i], upload)) {
            *out_index = i;
            return &open->uploads[i];
        }
    }
    return NULL;
}

bool tunnel_fits(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                 const struct wire_upload_record *record)
{
    uint32_t index = 0;
    bool upload_fits = class->open.upload_count < DEV_TUNNEL_UPLOADS ||
                       find_upload(&class->open, &record->key, &index) != NULL;
    return upload_fits && class->open.count < tunnel->config.open_records &&
           record->size <= tunnel->config.open_bytes - class->open.body_bytes;
}

static struct base_str keep_text(struct tunnel_class *class, const struct dev_tunnel *tunnel,
                                 struct base_str text)
{
    uint8_t *at = class->open.bytes + tunnel->config.open_bytes + class->open.text_bytes;
    base_check(class->open.text_bytes + text.size <= TUNNEL_TEXT_SLACK);
    memcpy(at, text.data, text.size);
    class->open.text_bytes += (uint32_t)text.size;
    return (struct base_str){(const char *)at, text.size};
}

void tunnel_append(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us,
                   const struct wire_upload_record *record)
{
    base_assert(tunnel_fits(tunnel, class, record));
    struct tunnel_open *open = &class->open;
    uint32_t upload = open->upload_count;
    if (find_upload(open, &record->key, &upload) == NULL) {
        open->uploads[upload].schema = record->key.schema;
        open->uploads[upload].task = keep_text(class, tunnel, record->key.task);
        open->uploads[upload].name = keep_text(class, tunnel, record->key.name);
        open->upload_count++;
    }
    uint8_t *body = open->bytes + open->body_bytes;
    if (record->size > 0) {
        memcpy(body, record->bytes, record->size);
    }
    open->records[open->count] = (struct wire_record){
        .upload = upload,
        .format = record->format,
        .wall_ms = record->wall_ms,
        .bytes = body,
        .size = record->size,
    };
    open->since_us = open->count == 0 ? now_us : open->since_us;
    open->body_bytes += record->size;
    open->count++;
}

static void empty_open(struct tunnel_class *class)
{
    class->open.count = 0;
    class->open.upload_count = 0;
    class->open.body_bytes = 0;
    class->open.text_bytes = 0;
}

// ---- Into the store

bool tunnel_is_stored(const struct dev_tunnel *tunnel, uint64_t mark)
{
    // A group that was given up takes its changes back, and the count with them.
    uint64_t changes = dev_collect_changes(tunnel->collect);
    return dev_collect_durable(tunnel->collect) >= (mark < changes ? mark : changes);
}

enum base_status tunnel_promise(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                uint64_t now_us, uint64_t end)
{
    base_assert(end <= class->next);
    if (end <= class->state.bound) {
        return BASE_OK;
    }
    struct tunnel_state state = class->state;
    state.bound =
        class->send_next + tunnel->config.window; // ahead, so that this is not for each batch
    state.bound = state.bound > end ? state.bound : end;
    uint64_t mark = dev_collect_changes(tunnel->collect) + 1;
    BASE_TRY(tunnel_put_state(tunnel, class, now_us, &state, true));
    class->state = state;
    class->bound_mark = mark;
    return BASE_OK;
}

static bool is_up(const struct dev_tunnel *tunnel, const struct tunnel_class *class)
{
    return tunnel->streams[class->stream].state != TUNNEL_CLOSED;
}

// Is there room in the class's quota, be it by dropping what is older?
static bool make_room(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us,
                      uint64_t bytes)
{
    uint64_t quota = tunnel->config.quota_bytes[class->id];
    if (class->queue_bytes + bytes <= quota) {
        return true;
    }
    if (bytes > quota) {
        return false;
    }
    // A sixteenth at a time, so that a full queue does not drop with every batch.
    uint64_t need = class->queue_bytes + bytes - quota;
    need = need < quota / 16 ? quota / 16 : need;
    (void)tunnel_drop_oldest(tunnel, class, now_us, need, WIRE_TUNNEL_LOSS_QUOTA);
    return class->queue_bytes + bytes <= quota;
}

// The store itself is full: what is least important goes first.
static void make_any_room(struct dev_tunnel *tunnel, const struct tunnel_class *class,
                          uint64_t now_us, uint64_t bytes)
{
    uint64_t freed = 0;
    for (unsigned id = WIRE_TUNNEL_CLASSES - 1; id > 0 && id >= class->id && freed < bytes; id--) {
        if (tunnel->classes[id] != NULL) {
            freed += tunnel_drop_oldest(tunnel, tunnel->classes[id], now_us, bytes - freed,
                                        WIRE_TUNNEL_LOSS_QUOTA);
        }
    }
}

// raw holds what was put into the store: it is the next entry.
static void entered(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us,
                    const struct tunnel_entry *entry)
{
    base_assert(entry->payload_bytes <= tunnel->buffers.raw_capacity);
    if (class->send_next == class->next) {
        class->progress_us = now_us; // it begins to wait
    }
    tunnel->buffers.raw_class = class;
    tunnel->buffers.raw_slot = class->next;
    tunnel->buffers.raw_entry = *entry;
    class->next++;
    class->next_seq += entry->count;
    class->queued += entry->count;
    class->queue_bytes += TUNNEL_KEY + TUNNEL_ENTRY_HEAD + entry->payload_bytes;
    class->tail_loss = false;
    enum base_status status =
        is_up(tunnel, class) ? tunnel_promise(tunnel, class, now_us, class->next) : BASE_OK;
    (void)status; // sending asks again
}

static bool sampled_away(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                         uint64_t now_us)
{
    if (class->sample_ppm >= WIRE_TUNNEL_SAMPLE_ALL || class->sample_end_us <= now_us) {
        return false;
    }
    uint64_t seq = class->next_seq;
    for (unsigned reason = 0; reason < TUNNEL_LOST; reason++) {
        seq += class->pending[reason];
    }
    return !wire_tunnel_keeps(tunnel->config.device_id, class->id, class->state.epoch, seq,
                              class->sample_ppm);
}

// What is open, or the large record alone. Borrowed from both and from *one.
static struct wire_batch_content content_of(const struct tunnel_open *open,
                                            const struct wire_upload_record *large,
                                            struct wire_record *one)
{
    if (large == NULL) {
        return (struct wire_batch_content){open->uploads, open->upload_count, open->records,
                                           open->count};
    }
    base_assert(open->count == 0);
    *one = (struct wire_record){.format = large->format,
                                .wall_ms = large->wall_ms,
                                .bytes = large->bytes,
                                .size = large->size};
    return (struct wire_batch_content){&large->key, 1, one, 1};
}

enum base_status tunnel_close(struct dev_tunnel *tunnel, struct tunnel_class *class,
                              uint64_t now_us, const struct wire_upload_record *large)
{
    struct wire_record one;
    const struct wire_batch_content content = content_of(&class->open, large, &one);
    uint32_t count = content.record_count;
    uint8_t *raw = tunnel->buffers.raw;
    size_t size = 0;
    if (count > 0 && sampled_away(tunnel, class, now_us)) {
        tunnel_count_loss(class, WIRE_TUNNEL_LOSS_POLICY, count);
        count = 0;
    }
    if (count > 0) {
        tunnel_unload(tunnel);
        BASE_TRY(wire_batch_encode(&content, raw, tunnel->buffers.raw_capacity, &size));
        base_assert(size > 0 && size <= tunnel->buffers.raw_capacity);
    }
    if (count > 0 && !make_room(tunnel, class, now_us, TUNNEL_KEY + TUNNEL_ENTRY_HEAD + size)) {
        tunnel_count_loss(class, WIRE_TUNNEL_LOSS_QUOTA, count);
        count = 0;
    }
    if (count > 0) {
        const struct tunnel_entry entry = {
            .numbers = 1,
            .seq = class->next_seq,
            .count = count,
            .closed_us = now_us,
            .payload_hash = base_hash64(raw, size),
            .payload_bytes = (uint32_t)size,
        };
        const struct tunnel_placing placing = {
            .slot = class->next,
            .entry = &entry,
            .payload = raw,
            .high = class->id <= 1 || is_up(tunnel, class),
        };
        enum base_status status = tunnel_put_entry(tunnel, class, now_us, &placing);
        if (status == BASE_ERR_FULL) {
            make_any_room(tunnel, class, now_us, TUNNEL_ENTRY_HEAD + size); // keeps raw
            status = tunnel_put_entry(tunnel, class, now_us, &placing);
        }
        BASE_TRY(status);
        entered(tunnel, class, now_us, &entry);
    }
    empty_open(class);
    tunnel_place_pending(tunnel, class, now_us);
    return BASE_OK;
}

// ---- When

static bool radio_is_on(const struct dev_tunnel *tunnel, uint64_t now_us)
{
    return tunnel->radio_us != 0 && now_us <= tunnel->radio_us + DEV_TUNNEL_RADIO_MS * TUNNEL_MS;
}

static uint64_t wait_ms(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                        uint64_t now_us)
{
    bool full = class->open.count >= tunnel->config.open_records ||
                class->open.body_bytes >= tunnel->config.open_bytes;
    if (class->id == 0 || tunnel->flush || full) {
        return 0;
    }
    if (class->id == 1) {
        return radio_is_on(tunnel, now_us) ? 0 : DEV_TUNNEL_COALESCE_MS;
    }
    return DEV_TUNNEL_BATCH_AGE_MS;
}

bool tunnel_is_due(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                   uint64_t now_us, uint64_t *out_when_us)
{
    *out_when_us = UINT64_MAX;
    if (class->open.count == 0) {
        return false;
    }
    *out_when_us =
        base_sat_add_u64(class->open.since_us, wait_ms(tunnel, class, now_us) * TUNNEL_MS);
    return *out_when_us <= now_us;
}

// Is a class 0 or 1 about to be sent, so that the others may go along?
static bool goes_along(const struct dev_tunnel *tunnel, uint64_t now_us)
{
    for (unsigned id = 0; id < 2; id++) {
        const struct tunnel_class *class = tunnel->classes[id];
        if (class != NULL && class->send_next < class->next &&
            tunnel_can_send(tunnel, class, now_us)) {
            return true;
        }
    }
    return false;
}

static void close_one(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us)
{
    if (class->retry_us > now_us) {
        return;
    }
    if (tunnel_close(tunnel, class, now_us, NULL) != BASE_OK) {
        class->retry_us = base_sat_add_u64(now_us, TUNNEL_IO_RETRY_MS * TUNNEL_MS);
    }
}

void tunnel_close_due(struct dev_tunnel *tunnel, uint64_t now_us)
{
    uint64_t when = 0;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        struct tunnel_class *class = tunnel->classes[id];
        if (class == NULL) {
            continue;
        }
        bool due = tunnel_is_due(tunnel, class, now_us, &when);
        bool along =
            id >= 2 && class->open.count > 0 && is_up(tunnel, class) && goes_along(tunnel, now_us);
        if (due || along) {
            close_one(tunnel, class, now_us);
        } else {
            tunnel_place_pending(tunnel, class, now_us);
        }
    }
}
