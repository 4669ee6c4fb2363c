// Frames to the device: acknowledgements, credit, and all ways to say no. The other session files
// send through it, and gw_tunnel.c settles a session when something of it has landed; worker's
// thread. ACK says DURABLE, which is on disk. Credit comes in quarters of the whole and none while
// memory is short: then devices are asked to wait, those with records that can wait first.
#include "tunnel/session_output.h"

#include "tunnel/session_private.h"

#include "base/check.h"

#include <string.h>

#define FRAME_MAX     128u // of those made here
#define OVERLOAD_MS   1000u
#define OVERLOAD_FADE 5000u
#define OVERLOAD_US   UINT64_C(5000000)
#define LATER_CLASSES 0x0cu // 2 and 3
// A device forgets a sample after WIRE_TUNNEL_SAMPLE_MS.
#define THIN_AGAIN_US (UINT64_C(1000) * WIRE_TUNNEL_SAMPLE_MS / 2)

bool gw_session_send(struct gw_session *session, const uint8_t *bytes, size_t size)
{
    if (session->state == GW_SESSION_ENDED) {
        return false;
    }
    if (session->port.write(session->port.ctx, bytes, size)) {
        return true;
    }
    session->state = GW_SESSION_ENDED; // a peer that does not read
    session->port.end(session->port.ctx, true);
    return false;
}

// `size` by pointer: the encoder, called in the arguments, writes it.
static void send_frame(struct gw_session *session, enum base_status status, const uint8_t *frame,
                       const size_t *size)
{
    base_check(status == BASE_OK); // what is sent fits, it is all ours
    (void)gw_session_send(session, frame, *size);
}

void gw_session_fork(struct gw_session *session, struct gw_session_class *class,
                     const struct gw_mark *mark)
{
    uint8_t frame[FRAME_MAX];
    size_t size = 0;
    const struct wire_tunnel_fork fork = {.class_id = class->class_id,
                                          .epoch = mark->epoch,
                                          .high_water = mark->high_water,
                                          .hash = mark->hash};
    class->forked = true;
    gw_count(&session->worker->counters.forks_total, 1);
    send_frame(session, wire_tunnel_fork_encode(&fork, frame, sizeof(frame), &size), frame, &size);
}

void gw_session_away(struct gw_session *session, uint32_t after_ms, uint32_t spread_ms)
{
    uint8_t frame[FRAME_MAX];
    size_t size = 0;
    const struct wire_tunnel_drain drain = {.reconnect_after_ms = after_ms, .spread_ms = spread_ms};
    gw_count(&session->worker->counters.sent_away_total, 1);
    send_frame(session, wire_tunnel_drain_encode(&drain, frame, sizeof(frame), &size), frame,
               &size);
    if (session->state != GW_SESSION_ENDED) {
        session->state = GW_SESSION_ENDED;
        session->port.end(session->port.ctx, false);
    }
}

static void send_throttle(struct gw_session *session, const struct wire_tunnel_throttle *throttle)
{
    uint8_t frame[FRAME_MAX];
    size_t size = 0;
    gw_count(&session->worker->counters.throttles_total, 1);
    send_frame(session, wire_tunnel_throttle_encode(throttle, frame, sizeof(frame), &size), frame,
               &size);
}

// One frame for the classes of the mask that have one sample.
static void throttle(struct gw_session *session, uint32_t mask, uint32_t not_before_ms,
                     uint32_t spread_ms)
{
    while (mask != 0 && session->state != GW_SESSION_ENDED) {
        struct wire_tunnel_throttle throttle = {.not_before_ms = not_before_ms,
                                                .spread_ms = spread_ms};
        for (uint32_t i = 0; i < session->class_count; i++) {
            const struct gw_session_class *class = &session->classes[i];
            uint32_t bit = 1u << class->class_id;
            if ((mask & bit) != 0 &&
                (throttle.class_mask == 0 || throttle.sample_ppm == class->sample_ppm)) {
                throttle.class_mask |= (uint8_t)bit;
                throttle.sample_ppm = class->sample_ppm;
            }
        }
        mask &= ~(uint32_t)throttle.class_mask;
        send_throttle(session, &throttle);
    }
}

static uint32_t class_mask(const struct gw_session *session)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < session->class_count; i++) {
        mask |= 1u << session->classes[i].class_id;
    }
    return mask;
}

void gw_session_throttle(struct gw_session *session, uint32_t not_before_ms, uint32_t spread_ms)
{
    throttle(session, class_mask(session), not_before_ms, spread_ms);
}

// ---- Thinning

void gw_session_thin(struct gw_session *session)
{
    struct gw_tunnel_worker *worker = session->worker;
    if ((worker->thin_step == 0 && !session->thinned) || session->state != GW_SESSION_OPEN) {
        return;
    }
    uint64_t now_us = gw_tunnel_now_us(worker->tunnel);
    bool again = now_us - session->thinned_us >= THIN_AGAIN_US;
    uint32_t mask = 0;
    session->thinned = false;
    for (uint32_t i = 0; i < session->class_count; i++) {
        struct gw_session_class *class = &session->classes[i];
        uint32_t ppm = gw_thin_ppm(worker->thin_step, class->class_id);
        base_assert(ppm <= WIRE_TUNNEL_SAMPLE_ALL && class->class_id < WIRE_TUNNEL_CLASSES);
        bool stands = ppm < WIRE_TUNNEL_SAMPLE_ALL;
        if (ppm != class->sample_ppm || (stands && again)) {
            mask |= 1u << class->class_id;
        }
        class->sample_ppm = ppm;
        session->thinned = session->thinned || stands;
    }
    worker->thinned = worker->thinned || session->thinned;
    if (mask != 0) {
        session->thinned_us = now_us;
        gw_count(&worker->counters.thinned_total, 1);
        throttle(session, mask, 0, 0);
    }
}

// ---- ACK and CREDIT

// What is owed to a class, read under the lock.
struct owed {
    uint64_t high_water;
    uint64_t free_bytes; // came back, or was dropped
    uint64_t free_records;
};

static bool look(struct gw_session_class *class, struct owed *out)
{
    struct gw_session *session = class->session;
    struct gw_mark_shard *shard = gw_marks_lock(session->worker->tunnel->marks, session->device);
    bool owner = class->lane->owner == class;
    if (owner) {
        out->high_water = gw_lane_mark(shard, class->lane).high_water;
        out->free_bytes = class->landed_bytes + class->dropped_bytes;
        out->free_records = class->landed_records + class->dropped_records;
    }
    gw_marks_unlock(shard);
    return owner;
}

static size_t add_ack(struct gw_session_class *class, const struct owed *owed, uint8_t *out,
                      size_t capacity)
{
    size_t size = 0;
    if (owed->high_water <= class->acked || class->forked) {
        return 0;
    }
    const struct wire_tunnel_ack ack = {.class_id = class->class_id,
                                        .level = WIRE_TUNNEL_DURABLE,
                                        .epoch = class->lane->epoch,
                                        .high_water = owed->high_water};
    class->acked = owed->high_water;
    base_check(wire_tunnel_ack_encode(&ack, out, capacity, &size) == BASE_OK);
    return size;
}

// Credit in quarters of the whole, so that it is not a frame for each batch.
static size_t add_credit(struct gw_session_class *class, const struct owed *owed, uint8_t *out,
                         size_t capacity)
{
    const struct gw_tunnel *tunnel = class->session->worker->tunnel;
    // Negative while a batch is under way that was begun on an earlier stream (session_hello.c).
    int64_t bytes = (int64_t)(owed->free_bytes + tunnel->credit_bytes - class->granted_bytes);
    int64_t records =
        (int64_t)(owed->free_records + GW_TUNNEL_CREDIT_RECORDS - class->granted_records);
    bytes = bytes > 0 ? bytes : 0;
    records = records > 0 ? records : 0;
    size_t size = 0;
    if (bytes < tunnel->credit_bytes / 4 && records < GW_TUNNEL_CREDIT_RECORDS / 4) {
        return 0;
    }
    const struct wire_tunnel_credit credit = {
        .class_id = class->class_id, .bytes = (uint32_t)bytes, .records = (uint32_t)records};
    class->granted_bytes += credit.bytes;
    class->granted_records += credit.records;
    base_check(wire_tunnel_credit_encode(&credit, out, capacity, &size) == BASE_OK);
    return size;
}

// No credit now: whoever has records that can wait is asked to, and is looked at again when memory
// is back.
static void hold_back(struct gw_session *session)
{
    session->starving = true;
    session->worker->starving = true;
    uint64_t now_us = gw_tunnel_now_us(session->worker->tunnel);
    if (session->throttled_us == 0 || now_us - session->throttled_us >= OVERLOAD_US) {
        session->throttled_us = now_us;
        uint32_t mask = class_mask(session) & LATER_CLASSES;
        throttle(session, mask != 0 ? mask : class_mask(session), OVERLOAD_MS, OVERLOAD_FADE);
    }
}

void gw_session_settle(struct gw_session *session)
{
    uint8_t frames[2 * WIRE_TUNNEL_CLASSES * FRAME_MAX];
    size_t size = 0;
    bool crowded = gw_tunnel_is_crowded(session->worker->tunnel);
    for (uint32_t i = 0; i < session->class_count && session->state == GW_SESSION_OPEN; i++) {
        struct owed owed;
        if (!look(&session->classes[i], &owed)) {
            continue;
        }
        size += add_ack(&session->classes[i], &owed, frames + size, sizeof(frames) - size);
        if (!crowded) {
            size += add_credit(&session->classes[i], &owed, frames + size, sizeof(frames) - size);
        }
    }
    base_assert(size <= sizeof(frames));
    if (size > 0) {
        (void)gw_session_send(session, frames, size);
    }
    gw_session_thin(session);
    if (crowded && session->state == GW_SESSION_OPEN) {
        hold_back(session);
    }
}
