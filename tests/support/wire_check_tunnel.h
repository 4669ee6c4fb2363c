// What must hold for any bytes given to the parsers of the tunnel: no crash, and what is accepted
// encodes back to the very same bytes. Used by the property tests and by the fuzz targets.
#ifndef WIRE_CHECK_TUNNEL_H
#define WIRE_CHECK_TUNNEL_H

#include "wire/batch.h"
#include "wire/tunnel_frame.h"
#include "wire_check.h"

#define WIRE_CHECK_ONE(name, type)                                                                 \
    static inline enum base_status wire_check_tunnel_##name(const uint8_t *payload, size_t size,   \
                                                            uint8_t *again, size_t *out_size)      \
    {                                                                                              \
        struct type value;                                                                         \
        BASE_TRY(wire_tunnel_##name##_parse(payload, size, &value));                               \
        base_check(wire_tunnel_##name##_encode(&value, again,                                      \
                                               WIRE_TUNNEL_HEAD + WIRE_TUNNEL_FRAME_MAX,           \
                                               out_size) == BASE_OK);                              \
        return BASE_OK;                                                                            \
    }
WIRE_CHECK_ONE(hello, wire_tunnel_hello)
WIRE_CHECK_ONE(batch, wire_tunnel_batch)
WIRE_CHECK_ONE(chunk, wire_tunnel_chunk)
WIRE_CHECK_ONE(loss, wire_tunnel_loss_frame)
WIRE_CHECK_ONE(welcome, wire_tunnel_welcome)
WIRE_CHECK_ONE(ack, wire_tunnel_ack)
WIRE_CHECK_ONE(credit, wire_tunnel_credit)
WIRE_CHECK_ONE(throttle, wire_tunnel_throttle)
WIRE_CHECK_ONE(reject, wire_tunnel_reject)
WIRE_CHECK_ONE(needfull, wire_tunnel_needfull)
WIRE_CHECK_ONE(fork, wire_tunnel_fork)
WIRE_CHECK_ONE(drain, wire_tunnel_drain)

static inline enum base_status wire_check_tunnel_payload(enum wire_tunnel_type type,
                                                         const uint8_t *payload, size_t size,
                                                         uint8_t *again, size_t *out_size)
{
    switch (type) {
    case WIRE_TUNNEL_HELLO:
        return wire_check_tunnel_hello(payload, size, again, out_size);
    case WIRE_TUNNEL_BATCH:
        return wire_check_tunnel_batch(payload, size, again, out_size);
    case WIRE_TUNNEL_CHUNK:
        return wire_check_tunnel_chunk(payload, size, again, out_size);
    case WIRE_TUNNEL_LOSS:
        return wire_check_tunnel_loss(payload, size, again, out_size);
    case WIRE_TUNNEL_WELCOME:
        return wire_check_tunnel_welcome(payload, size, again, out_size);
    case WIRE_TUNNEL_ACK:
        return wire_check_tunnel_ack(payload, size, again, out_size);
    case WIRE_TUNNEL_CREDIT:
        return wire_check_tunnel_credit(payload, size, again, out_size);
    case WIRE_TUNNEL_THROTTLE:
        return wire_check_tunnel_throttle(payload, size, again, out_size);
    case WIRE_TUNNEL_REJECT:
        return wire_check_tunnel_reject(payload, size, again, out_size);
    case WIRE_TUNNEL_NEEDFULL:
        return wire_check_tunnel_needfull(payload, size, again, out_size);
    case WIRE_TUNNEL_FORK:
        return wire_check_tunnel_fork(payload, size, again, out_size);
    case WIRE_TUNNEL_DRAIN:
        return wire_check_tunnel_drain(payload, size, again, out_size);
    case WIRE_TUNNEL_PING:
    case WIRE_TUNNEL_PONG: {
        uint64_t value = 0;
        BASE_TRY(wire_tunnel_ping_parse(payload, size, &value));
        base_check(wire_tunnel_ping_encode(type, value, again,
                                           WIRE_TUNNEL_HEAD + WIRE_TUNNEL_FRAME_MAX,
                                           out_size) == BASE_OK);
        return BASE_OK;
    }
    }
    base_check(false);
    return BASE_ERR_BUG;
}

// One whole frame, head included.
static inline enum base_status wire_check_tunnel_frame(const uint8_t *bytes, size_t size)
{
    static uint8_t again[WIRE_TUNNEL_HEAD + WIRE_TUNNEL_FRAME_MAX];
    enum wire_tunnel_type type;
    size_t payload = 0;
    size_t again_size = 0;
    BASE_TRY(wire_tunnel_head(bytes, size, &type, &payload));
    if (size - WIRE_TUNNEL_HEAD != payload) {
        return size - WIRE_TUNNEL_HEAD < payload ? BASE_ERR_TRUNCATED : BASE_ERR_INVALID;
    }
    BASE_TRY(
        wire_check_tunnel_payload(type, bytes + WIRE_TUNNEL_HEAD, payload, again, &again_size));
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_batch(const uint8_t *bytes, size_t size)
{
    static struct wire_record records[WIRE_TUNNEL_RECORDS_MAX];
    static uint8_t again[WIRE_TUNNEL_RAW_MAX];
    struct wire_batch batch;
    uint32_t bad = 0;
    enum base_status status = wire_batch_parse(bytes, size, &batch, &bad);
    if (status != BASE_OK) {
        base_check(batch.record_count == 0);
        base_check(bad == WIRE_TUNNEL_NO_RECORD || bad < WIRE_TUNNEL_RECORDS_MAX);
        return status;
    }
    uint32_t count = 0;
    while (count < batch.record_count && wire_batch_next(&batch, &records[count])) {
        count++;
    }
    struct wire_record none;
    size_t again_size = 0;
    base_check(count == batch.record_count);
    base_check(!wire_batch_next(&batch, &none));
    base_check(wire_batch_encode(
                   &(struct wire_batch_content){batch.uploads, batch.upload_count, records, count},
                   again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

#endif
