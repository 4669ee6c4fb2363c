// Frames from the gateway. A frame that cannot be meant by an honest gateway ends the stream; none
// can make the device hold more than its buffers or forget what was not shown to be durable.
//
// Called by the transport's callbacks, on the runtime's thread.
#include "tunnel/tunnel_chain.h"
#include "tunnel/tunnel_private.h"
#include "tunnel/tunnel_reject.h"

#include "base/check.h"

#include <string.h>

#define DRAIN_MS 10000 // what is under way may still be acknowledged

struct frame {
    enum wire_tunnel_type type;
    const uint8_t *payload;
    size_t size;
};

// The class, when the stream carries it; NULL: the frame is wrong.
static struct tunnel_class *class_of(struct dev_tunnel *tunnel, uint32_t stream, uint8_t class_id)
{
    struct tunnel_class *class = class_id < WIRE_TUNNEL_CLASSES ? tunnel->classes[class_id] : NULL;
    return class != NULL && class->stream == stream ? class : NULL;
}

static int64_t more_credit(int64_t have, uint32_t more)
{
    int64_t sum = have + more;
    return sum < WIRE_TUNNEL_CREDIT_MAX ? sum : WIRE_TUNNEL_CREDIT_MAX;
}

// An interrupted batch goes on where the gateway has it, if it still comes out the same.
static void resume(struct tunnel_class *class, const struct wire_tunnel_welcome_class *entry)
{
    base_assert(class->welcomed);
    struct tunnel_part *part = &class->part;
    bool same = entry->partial_bytes > 0 && part->known && !part->active &&
                class->flight_count == 0 && part->epoch == class->state.epoch &&
                part->slot == class->send_next &&
                entry->partial_batch == tunnel_number(class, part->slot) &&
                entry->partial_bytes < part->sent_bytes;
    if (same) {
        part->active = true;
        part->offset = entry->partial_bytes;
        class->maybe_sent = class->maybe_sent > part->slot ? class->maybe_sent : part->slot + 1;
    }
}

static enum base_status fork_class(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                   uint64_t now_us)
{
    tunnel->stats.forks++;
    return tunnel_new_epoch(tunnel, class, now_us);
}

static enum base_status welcome_class(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                      uint64_t now_us,
                                      const struct wire_tunnel_welcome_class *entry, bool *out_fork)
{
    if (entry->epoch != class->state.epoch) {
        return BASE_ERR_INVALID;
    }
    switch (tunnel_judge(tunnel, class, now_us, entry->high_water, entry->hash)) {
    case TUNNEL_FORKED:
        *out_fork = true;
        return fork_class(tunnel, class, now_us);
    case TUNNEL_UNKNOWN:
        return BASE_ERR_IO;
    case TUNNEL_SAME:
        break;
    }
    class->welcomed = true;
    class->credit_bytes = (int64_t)entry->credit_bytes - class->used_bytes;
    class->credit_records = (int64_t)entry->credit_records - class->used_records;
    resume(class, entry);
    return BASE_OK;
}

static enum base_status on_welcome(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                                   const uint8_t *payload, size_t size)
{
    base_assert(tunnel->streams[stream].state != TUNNEL_CLOSED);
    struct wire_tunnel_welcome welcome;
    BASE_TRY(wire_tunnel_welcome_parse(payload, size, &welcome));
    uint8_t named = 0;
    for (uint32_t i = 0; i < welcome.class_count; i++) {
        const struct tunnel_class *class = class_of(tunnel, stream, welcome.classes[i].class_id);
        if (class == NULL || class->welcomed) {
            return BASE_ERR_INVALID;
        }
        named |= (uint8_t)(1u << class->id);
    }
    if (named != tunnel->streams[stream].classes) {
        return BASE_ERR_INVALID;
    }
    tunnel->dict = welcome.dict;
    bool fork = false;
    for (uint32_t i = 0; i < welcome.class_count; i++) {
        struct tunnel_class *class = tunnel->classes[welcome.classes[i].class_id];
        BASE_TRY(welcome_class(tunnel, class, now_us, &welcome.classes[i], &fork));
    }
    if (fork) {
        tunnel_give_up(tunnel, stream, now_us, "a new epoch begins");
    }
    return BASE_OK;
}

static enum base_status on_ack(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                               const uint8_t *payload, size_t size)
{
    struct wire_tunnel_ack ack;
    BASE_TRY(wire_tunnel_ack_parse(payload, size, &ack));
    struct tunnel_class *class = class_of(tunnel, stream, ack.class_id);
    if (class == NULL || !class->welcomed || ack.epoch != class->state.epoch) {
        return BASE_ERR_INVALID;
    }
    uint64_t slot = class->state.base_slot + ack.high_water;
    if (slot > class->maybe_sent) {
        return BASE_ERR_INVALID; // never sent
    }
    if (ack.level != WIRE_TUNNEL_DURABLE || slot <= class->state.tail) {
        return BASE_OK;
    }
    if (class->part.active && slot > class->send_next) {
        return BASE_ERR_INVALID; // half of it was sent
    }
    tunnel->streams[stream].moved_us = now_us;
    base_assert(slot > class->state.tail && slot <= class->next);
    class->acked = slot;
    tunnel_settle(tunnel, class, now_us);
    tunnel_fruit(tunnel, now_us);
    tunnel->streams[stream].fruitful = true;
    return BASE_OK;
}

static enum base_status on_credit(struct dev_tunnel *tunnel, uint32_t stream,
                                  const uint8_t *payload, size_t size)
{
    struct wire_tunnel_credit credit;
    BASE_TRY(wire_tunnel_credit_parse(payload, size, &credit));
    struct tunnel_class *class = class_of(tunnel, stream, credit.class_id);
    if (class == NULL || !class->welcomed) {
        return BASE_ERR_INVALID;
    }
    class->credit_bytes = more_credit(class->credit_bytes, credit.bytes);
    class->credit_records = more_credit(class->credit_records, credit.records);
    return BASE_OK;
}

static enum base_status on_reject(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                                  const uint8_t *payload, size_t size)
{
    struct wire_tunnel_reject reject;
    BASE_TRY(wire_tunnel_reject_parse(payload, size, &reject));
    struct tunnel_class *class = class_of(tunnel, stream, reject.class_id);
    if (class == NULL || !class->welcomed) {
        return BASE_ERR_INVALID;
    }
    enum base_status status = tunnel_on_reject(tunnel, class, now_us, &reject);
    if (status == BASE_ERR_INVALID) {
        return status;
    }
    if (status != BASE_OK) { // the store did not take it: the batch goes again and is refused again
        class->retry_us = base_sat_add_u64(now_us, TUNNEL_IO_RETRY_MS * TUNNEL_MS);
    }
    return BASE_OK;
}

static enum base_status on_needfull(struct dev_tunnel *tunnel, uint32_t stream,
                                    const uint8_t *payload, size_t size)
{
    struct wire_tunnel_needfull needfull;
    BASE_TRY(wire_tunnel_needfull_parse(payload, size, &needfull));
    struct tunnel_class *class = class_of(tunnel, stream, needfull.class_id);
    if (class == NULL || !class->welcomed) {
        return BASE_ERR_INVALID;
    }
    uint64_t slot = class->state.base_slot + needfull.number;
    uint32_t index = 0;
    bool within = class->part.active && slot == class->send_next && class->part.dict != 0;
    bool sent = tunnel_in_flight(tunnel, class, slot, &index) &&
                tunnel_flight_at(tunnel, class, index)->with_dict;
    if (!within && !sent) {
        return BASE_ERR_INVALID;
    }
    tunnel->stats.needfulls++;
    class->no_dict = true;
    tunnel_go_back(tunnel, class, slot);
    return BASE_OK;
}

static enum base_status on_fork(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                                const uint8_t *payload, size_t size)
{
    struct wire_tunnel_fork fork;
    BASE_TRY(wire_tunnel_fork_parse(payload, size, &fork));
    struct tunnel_class *class = class_of(tunnel, stream, fork.class_id);
    if (class == NULL || fork.epoch != class->state.epoch) {
        return BASE_ERR_INVALID;
    }
    BASE_TRY(fork_class(tunnel, class, now_us));
    tunnel_give_up(tunnel, stream, now_us, "a new epoch begins");
    return BASE_OK;
}

static enum base_status on_throttle(struct dev_tunnel *tunnel, uint64_t now_us,
                                    const uint8_t *payload, size_t size)
{
    struct wire_tunnel_throttle throttle;
    BASE_TRY(wire_tunnel_throttle_parse(payload, size, &throttle));
    tunnel_throttle(tunnel, now_us, &throttle);
    return BASE_OK;
}

static enum base_status on_drain(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                                 const uint8_t *payload, size_t size)
{
    struct wire_tunnel_drain drain;
    BASE_TRY(wire_tunnel_drain_parse(payload, size, &drain));
    tunnel_drain(tunnel, now_us, &drain);
    tunnel->streams[stream].draining = true;
    tunnel->streams[stream].drain_us = base_sat_add_u64(now_us, DRAIN_MS * TUNNEL_MS);
    return BASE_OK;
}

static enum base_status on_frame(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                                 const struct frame *frame)
{
    base_assert(stream < WIRE_TUNNEL_CLASSES && frame->size <= DEV_TUNNEL_ANSWER_MAX);
    const uint8_t *payload = frame->payload;
    size_t size = frame->size;
    uint64_t pong = 0;
    switch (frame->type) {
    case WIRE_TUNNEL_WELCOME:
        return on_welcome(tunnel, stream, now_us, payload, size);
    case WIRE_TUNNEL_ACK:
        return on_ack(tunnel, stream, now_us, payload, size);
    case WIRE_TUNNEL_CREDIT:
        return on_credit(tunnel, stream, payload, size);
    case WIRE_TUNNEL_THROTTLE:
        return on_throttle(tunnel, now_us, payload, size);
    case WIRE_TUNNEL_REJECT:
        return on_reject(tunnel, stream, now_us, payload, size);
    case WIRE_TUNNEL_NEEDFULL:
        return on_needfull(tunnel, stream, payload, size);
    case WIRE_TUNNEL_FORK:
        return on_fork(tunnel, stream, now_us, payload, size);
    case WIRE_TUNNEL_DRAIN:
        return on_drain(tunnel, stream, now_us, payload, size);
    case WIRE_TUNNEL_PONG:
        return wire_tunnel_ping_parse(payload, size, &pong);
    case WIRE_TUNNEL_HELLO:
    case WIRE_TUNNEL_BATCH:
    case WIRE_TUNNEL_CHUNK:
    case WIRE_TUNNEL_LOSS:
    case WIRE_TUNNEL_PING:
        break; // a device says these
    }
    return BASE_ERR_INVALID;
}

static void refuse(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                   enum base_status status)
{
    if (status != BASE_ERR_IO && status != BASE_ERR_BUSY && status != BASE_ERR_FULL) {
        tunnel->stats.bad_frames++;
    }
    tunnel_give_up(tunnel, stream, now_us, base_status_text(status));
}

// The frame at the beginning of the input; its size, 0: not all of it is there.
static enum base_status take_frame(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                                   uint32_t *out_used)
{
    const struct tunnel_stream *s = &tunnel->streams[stream];
    struct frame frame = {.payload = s->input + WIRE_TUNNEL_HEAD};
    *out_used = 0;
    enum base_status status = wire_tunnel_head(s->input, s->input_size, &frame.type, &frame.size);
    if (status == BASE_ERR_TRUNCATED) {
        return BASE_OK;
    }
    BASE_TRY(status);
    if (frame.size > DEV_TUNNEL_ANSWER_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (s->input_size < WIRE_TUNNEL_HEAD + frame.size) {
        return BASE_OK;
    }
    *out_used = (uint32_t)(WIRE_TUNNEL_HEAD + frame.size);
    return on_frame(tunnel, stream, now_us, &frame);
}

void dev_tunnel_on_bytes(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                         const uint8_t *bytes, size_t size)
{
    if (stream >= WIRE_TUNNEL_CLASSES) {
        return;
    }
    struct tunnel_stream *s = &tunnel->streams[stream];
    s->heard_us = now_us;
    tunnel->radio_us = now_us;
    while (s->state != TUNNEL_CLOSED) {
        base_assert(s->input_size <= sizeof(s->input));
        size_t room = sizeof(s->input) - s->input_size;
        size_t take = size < room ? size : room;
        if (take > 0) {
            memcpy(s->input + s->input_size, bytes, take);
            s->input_size += (uint32_t)take;
            bytes += take;
            size -= take;
        }
        uint32_t used = 0;
        enum base_status status = take_frame(tunnel, stream, now_us, &used);
        if (status != BASE_OK) {
            refuse(tunnel, stream, now_us, status);
            return;
        }
        if (used == 0) {
            return; // the buffer holds the largest frame, so all of `bytes` is in it
        }
        if (s->state != TUNNEL_CLOSED) {
            base_assert(used <= s->input_size);
            memmove(s->input, s->input + used, s->input_size - used);
            s->input_size -= used;
        }
    }
}
