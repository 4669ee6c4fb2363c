// Frames of the tunnel from the gateway and what all frames share: head, chain, PING.
//
// Called by devices in their loop and by gateways on their workers; there is no state and nothing
// is allocated. The frames that carry records are in tunnel_batch_frame.c.
#include "wire/tunnel_frame.h"

#include "base/check.h"
#include "base/hash.h"
#include "wire/tunnel_parts.h"
#include "wire/wiretext.h"

static bool type_ok(unsigned type)
{
    return (type >= WIRE_TUNNEL_HELLO && type <= WIRE_TUNNEL_PING) ||
           (type >= WIRE_TUNNEL_WELCOME && type <= WIRE_TUNNEL_PONG);
}

enum base_status wire_tunnel_head(const uint8_t *bytes, size_t size,
                                  enum wire_tunnel_type *out_type, size_t *out_size)
{
    if (size < WIRE_TUNNEL_HEAD) {
        return BASE_ERR_TRUNCATED;
    }
    if (!type_ok(bytes[0])) {
        return BASE_ERR_UNSUPPORTED;
    }
    size_t payload = (size_t)bytes[1] | (size_t)bytes[2] << 8 | (size_t)bytes[3] << 16;
    if (payload > WIRE_TUNNEL_FRAME_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    *out_type = (enum wire_tunnel_type)bytes[0];
    *out_size = payload;
    return BASE_OK;
}

// ---- Parts all frames are made of

void wire_tunnel_begin(struct base_writer *writer, enum wire_tunnel_type type, uint8_t *out,
                       size_t capacity)
{
    base_assert(type_ok(type));
    base_writer_init(writer, out, capacity);
    base_writer_u32(writer, type); // the size follows when it is known
}

void wire_tunnel_patch(struct base_writer *writer, size_t payload)
{
    base_assert(base_writer_size(writer) >= WIRE_TUNNEL_HEAD);
    base_assert(payload <= WIRE_TUNNEL_FRAME_MAX);
    for (size_t i = 0; i < 3; i++) {
        writer->start[1 + i] = (uint8_t)(payload >> (8 * i));
    }
}

enum base_status wire_tunnel_end(struct base_writer *writer, size_t *out_size)
{
    BASE_TRY(writer->status);
    size_t size = base_writer_size(writer);
    base_assert(size >= WIRE_TUNNEL_HEAD);
    size_t payload = size - WIRE_TUNNEL_HEAD;
    if (payload > WIRE_TUNNEL_FRAME_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    wire_tunnel_patch(writer, payload);
    *out_size = size;
    return BASE_OK;
}

void wire_tunnel_write_class(struct base_writer *writer, uint8_t class_id)
{
    if (class_id >= WIRE_TUNNEL_CLASSES) {
        base_writer_fail(writer, BASE_ERR_INVALID);
    }
    base_writer_u8(writer, class_id);
}

uint8_t wire_tunnel_read_class(struct base_reader *reader)
{
    uint8_t class_id = base_reader_u8(reader);
    if (class_id >= WIRE_TUNNEL_CLASSES) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return 0;
    }
    return class_id;
}

void wire_tunnel_write_max(struct base_writer *writer, uint64_t value, uint64_t max)
{
    base_assert(max <= WIRE_TUNNEL_NUMBER_MAX);
    if (value > max) {
        base_writer_fail(writer, BASE_ERR_INVALID);
    }
    base_writer_varint(writer, value);
}

static void write_u32_max(struct base_writer *writer, uint32_t value, uint32_t max)
{
    if (value > max) {
        base_writer_fail(writer, BASE_ERR_INVALID);
    }
    base_writer_u32(writer, value);
}

static uint32_t read_u32_max(struct base_reader *reader, uint32_t max)
{
    uint32_t value = base_reader_u32(reader);
    if (value > max) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return 0;
    }
    return value;
}

// The high water itself is missing by its meaning, so bit 0 is never set.
static void write_sack(struct base_writer *writer, uint64_t sack)
{
    if ((sack & 1) != 0) {
        base_writer_fail(writer, BASE_ERR_INVALID);
    }
    base_writer_u64(writer, sack);
}

static uint64_t read_sack(struct base_reader *reader)
{
    uint64_t sack = base_reader_u64(reader);
    if ((sack & 1) != 0) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    return sack;
}

// ---- WELCOME

static void write_welcome_class(struct base_writer *writer,
                                const struct wire_tunnel_welcome_class *entry)
{
    wire_tunnel_write_class(writer, entry->class_id);
    base_writer_u32(writer, entry->epoch);
    wire_tunnel_write_max(writer, entry->high_water, WIRE_TUNNEL_NUMBER_MAX);
    write_sack(writer, entry->sack);
    base_writer_u64(writer, entry->hash);
    wire_tunnel_write_max(writer, entry->credit_bytes, WIRE_TUNNEL_CREDIT_MAX);
    wire_tunnel_write_max(writer, entry->credit_records, WIRE_TUNNEL_CREDIT_MAX);
    wire_tunnel_write_max(writer, entry->partial_bytes, WIRE_TUNNEL_RAW_MAX);
    if (entry->partial_bytes > 0) {
        wire_tunnel_write_max(writer, entry->partial_batch, WIRE_TUNNEL_NUMBER_MAX);
    } else if (entry->partial_batch != 0) {
        base_writer_fail(writer, BASE_ERR_INVALID);
    }
}

enum base_status wire_tunnel_welcome_encode(const struct wire_tunnel_welcome *value, uint8_t *out,
                                            size_t capacity, size_t *out_size)
{
    if (value->class_count == 0 || value->class_count > WIRE_TUNNEL_CLASSES) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_WELCOME, out, capacity);
    base_writer_u64(&writer, value->wall_ms);
    base_writer_u32(&writer, value->dict);
    base_writer_u8(&writer, (uint8_t)value->class_count);
    for (uint32_t i = 0; i < value->class_count; i++) {
        if (i > 0 && value->classes[i].class_id <= value->classes[i - 1].class_id) {
            return BASE_ERR_INVALID;
        }
        write_welcome_class(&writer, &value->classes[i]);
    }
    return wire_tunnel_end(&writer, out_size);
}

static void read_welcome_class(struct base_reader *reader, struct wire_tunnel_welcome_class *entry)
{
    entry->class_id = wire_tunnel_read_class(reader);
    entry->epoch = base_reader_u32(reader);
    entry->high_water = base_reader_varint_max(reader, WIRE_TUNNEL_NUMBER_MAX);
    entry->sack = read_sack(reader);
    entry->hash = base_reader_u64(reader);
    entry->credit_bytes = (uint32_t)base_reader_varint_max(reader, WIRE_TUNNEL_CREDIT_MAX);
    entry->credit_records = (uint32_t)base_reader_varint_max(reader, WIRE_TUNNEL_CREDIT_MAX);
    entry->partial_bytes = (uint32_t)base_reader_varint_max(reader, WIRE_TUNNEL_RAW_MAX);
    if (entry->partial_bytes > 0) {
        entry->partial_batch = base_reader_varint_max(reader, WIRE_TUNNEL_NUMBER_MAX);
    }
}

enum base_status wire_tunnel_welcome_parse(const uint8_t *payload, size_t size,
                                           struct wire_tunnel_welcome *out)
{
    *out = (struct wire_tunnel_welcome){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->wall_ms = base_reader_u64(&reader);
    out->dict = base_reader_u32(&reader);
    uint32_t count = base_reader_u8(&reader);
    BASE_TRY(reader.status);
    if (count == 0 || count > WIRE_TUNNEL_CLASSES) {
        return BASE_ERR_INVALID;
    }
    for (uint32_t i = 0; i < count; i++) {
        read_welcome_class(&reader, &out->classes[i]);
        if (i > 0 && out->classes[i].class_id <= out->classes[i - 1].class_id) {
            base_reader_fail(&reader, BASE_ERR_INVALID);
        }
    }
    BASE_TRY(base_reader_finish(&reader));
    out->class_count = count;
    return BASE_OK;
}

// ---- ACK, CREDIT, THROTTLE

enum base_status wire_tunnel_ack_encode(const struct wire_tunnel_ack *value, uint8_t *out,
                                        size_t capacity, size_t *out_size)
{
    if (value->level != WIRE_TUNNEL_RECEIVED && value->level != WIRE_TUNNEL_DURABLE) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_ACK, out, capacity);
    wire_tunnel_write_class(&writer, value->class_id);
    base_writer_u8(&writer, value->level);
    base_writer_u32(&writer, value->epoch);
    wire_tunnel_write_max(&writer, value->high_water, WIRE_TUNNEL_NUMBER_MAX);
    write_sack(&writer, value->sack);
    return wire_tunnel_end(&writer, out_size);
}

enum base_status wire_tunnel_ack_parse(const uint8_t *payload, size_t size,
                                       struct wire_tunnel_ack *out)
{
    *out = (struct wire_tunnel_ack){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->class_id = wire_tunnel_read_class(&reader);
    out->level = base_reader_u8(&reader);
    if (out->level != WIRE_TUNNEL_RECEIVED && out->level != WIRE_TUNNEL_DURABLE) {
        base_reader_fail(&reader, BASE_ERR_INVALID);
    }
    out->epoch = base_reader_u32(&reader);
    out->high_water = base_reader_varint_max(&reader, WIRE_TUNNEL_NUMBER_MAX);
    out->sack = read_sack(&reader);
    return base_reader_finish(&reader);
}

enum base_status wire_tunnel_credit_encode(const struct wire_tunnel_credit *value, uint8_t *out,
                                           size_t capacity, size_t *out_size)
{
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_CREDIT, out, capacity);
    wire_tunnel_write_class(&writer, value->class_id);
    wire_tunnel_write_max(&writer, value->bytes, WIRE_TUNNEL_CREDIT_MAX);
    wire_tunnel_write_max(&writer, value->records, WIRE_TUNNEL_CREDIT_MAX);
    return wire_tunnel_end(&writer, out_size);
}

enum base_status wire_tunnel_credit_parse(const uint8_t *payload, size_t size,
                                          struct wire_tunnel_credit *out)
{
    *out = (struct wire_tunnel_credit){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->class_id = wire_tunnel_read_class(&reader);
    out->bytes = (uint32_t)base_reader_varint_max(&reader, WIRE_TUNNEL_CREDIT_MAX);
    out->records = (uint32_t)base_reader_varint_max(&reader, WIRE_TUNNEL_CREDIT_MAX);
    return base_reader_finish(&reader);
}

enum base_status wire_tunnel_throttle_encode(const struct wire_tunnel_throttle *value, uint8_t *out,
                                             size_t capacity, size_t *out_size)
{
    if (value->class_mask == 0 || value->class_mask >> WIRE_TUNNEL_CLASSES != 0) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_THROTTLE, out, capacity);
    base_writer_u8(&writer, value->class_mask);
    write_u32_max(&writer, value->not_before_ms, WIRE_TUNNEL_DELAY_MS_MAX);
    write_u32_max(&writer, value->spread_ms, WIRE_TUNNEL_DELAY_MS_MAX);
    write_u32_max(&writer, value->sample_ppm, WIRE_TUNNEL_SAMPLE_ALL);
    return wire_tunnel_end(&writer, out_size);
}

enum base_status wire_tunnel_throttle_parse(const uint8_t *payload, size_t size,
                                            struct wire_tunnel_throttle *out)
{
    *out = (struct wire_tunnel_throttle){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->class_mask = base_reader_u8(&reader);
    if (out->class_mask == 0 || out->class_mask >> WIRE_TUNNEL_CLASSES != 0) {
        base_reader_fail(&reader, BASE_ERR_INVALID);
    }
    out->not_before_ms = read_u32_max(&reader, WIRE_TUNNEL_DELAY_MS_MAX);
    out->spread_ms = read_u32_max(&reader, WIRE_TUNNEL_DELAY_MS_MAX);
    out->sample_ppm = read_u32_max(&reader, WIRE_TUNNEL_SAMPLE_ALL);
    return base_reader_finish(&reader);
}

// ---- REJECT, NEEDFULL, FORK, DRAIN, PING

static bool reject_ok(const struct wire_tunnel_reject *reject)
{
    bool record_ok =
        reject->record < WIRE_TUNNEL_RECORDS_MAX || reject->record == WIRE_TUNNEL_NO_RECORD;
    bool more_ok = reject->more == 0 || reject->record != WIRE_TUNNEL_NO_RECORD;
    return record_ok && more_ok && reject->status <= -100 && reject->status > -1000;
}

enum base_status wire_tunnel_reject_encode(const struct wire_tunnel_reject *value, uint8_t *out,
                                           size_t capacity, size_t *out_size)
{
    if (!reject_ok(value)) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_REJECT, out, capacity);
    wire_tunnel_write_class(&writer, value->class_id);
    wire_tunnel_write_max(&writer, value->number, WIRE_TUNNEL_NUMBER_MAX);
    base_writer_u32(&writer, value->record);
    base_writer_u16(&writer, (uint16_t)-value->status);
    if (value->more != 0) {
        base_writer_u64(&writer, value->more);
    }
    return wire_tunnel_end(&writer, out_size);
}

enum base_status wire_tunnel_reject_parse(const uint8_t *payload, size_t size,
                                          struct wire_tunnel_reject *out)
{
    *out = (struct wire_tunnel_reject){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->class_id = wire_tunnel_read_class(&reader);
    out->number = base_reader_varint_max(&reader, WIRE_TUNNEL_NUMBER_MAX);
    out->record = base_reader_u32(&reader);
    out->status = -(int32_t)base_reader_u16(&reader);
    bool has_more = base_reader_left(&reader) > 0;
    out->more = has_more ? base_reader_u64(&reader) : 0;
    if (!reject_ok(out) || has_more != (out->more != 0)) {
        base_reader_fail(&reader, BASE_ERR_INVALID);
    }
    return base_reader_finish(&reader);
}

enum base_status wire_tunnel_needfull_encode(const struct wire_tunnel_needfull *value, uint8_t *out,
                                             size_t capacity, size_t *out_size)
{
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_NEEDFULL, out, capacity);
    wire_tunnel_write_class(&writer, value->class_id);
    wire_tunnel_write_max(&writer, value->number, WIRE_TUNNEL_NUMBER_MAX);
    return wire_tunnel_end(&writer, out_size);
}

enum base_status wire_tunnel_needfull_parse(const uint8_t *payload, size_t size,
                                            struct wire_tunnel_needfull *out)
{
    *out = (struct wire_tunnel_needfull){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->class_id = wire_tunnel_read_class(&reader);
    out->number = base_reader_varint_max(&reader, WIRE_TUNNEL_NUMBER_MAX);
    return base_reader_finish(&reader);
}

enum base_status wire_tunnel_fork_encode(const struct wire_tunnel_fork *value, uint8_t *out,
                                         size_t capacity, size_t *out_size)
{
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_FORK, out, capacity);
    wire_tunnel_write_class(&writer, value->class_id);
    base_writer_u32(&writer, value->epoch);
    wire_tunnel_write_max(&writer, value->high_water, WIRE_TUNNEL_NUMBER_MAX);
    base_writer_u64(&writer, value->hash);
    return wire_tunnel_end(&writer, out_size);
}

enum base_status wire_tunnel_fork_parse(const uint8_t *payload, size_t size,
                                        struct wire_tunnel_fork *out)
{
    *out = (struct wire_tunnel_fork){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->class_id = wire_tunnel_read_class(&reader);
    out->epoch = base_reader_u32(&reader);
    out->high_water = base_reader_varint_max(&reader, WIRE_TUNNEL_NUMBER_MAX);
    out->hash = base_reader_u64(&reader);
    return base_reader_finish(&reader);
}

enum base_status wire_tunnel_drain_encode(const struct wire_tunnel_drain *value, uint8_t *out,
                                          size_t capacity, size_t *out_size)
{
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_DRAIN, out, capacity);
    write_u32_max(&writer, value->reconnect_after_ms, WIRE_TUNNEL_DELAY_MS_MAX);
    write_u32_max(&writer, value->spread_ms, WIRE_TUNNEL_DELAY_MS_MAX);
    return wire_tunnel_end(&writer, out_size);
}

enum base_status wire_tunnel_drain_parse(const uint8_t *payload, size_t size,
                                         struct wire_tunnel_drain *out)
{
    *out = (struct wire_tunnel_drain){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->reconnect_after_ms = read_u32_max(&reader, WIRE_TUNNEL_DELAY_MS_MAX);
    out->spread_ms = read_u32_max(&reader, WIRE_TUNNEL_DELAY_MS_MAX);
    return base_reader_finish(&reader);
}

enum base_status wire_tunnel_ping_encode(enum wire_tunnel_type type, uint64_t value, uint8_t *out,
                                         size_t capacity, size_t *out_size)
{
    if (type != WIRE_TUNNEL_PING && type != WIRE_TUNNEL_PONG) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    wire_tunnel_begin(&writer, type, out, capacity);
    base_writer_u64(&writer, value);
    return wire_tunnel_end(&writer, out_size);
}

enum base_status wire_tunnel_ping_parse(const uint8_t *payload, size_t size, uint64_t *out)
{
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    uint64_t value = base_reader_u64(&reader);
    BASE_TRY(base_reader_finish(&reader));
    *out = value;
    return BASE_OK;
}

bool wire_tunnel_keeps(uint64_t device, uint8_t class_id, uint32_t epoch, uint64_t first_seq,
                       uint32_t sample_ppm)
{
    uint8_t bytes[8 + 1 + 4 + 8];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof bytes);
    base_writer_u64(&writer, device);
    base_writer_u8(&writer, class_id);
    base_writer_u32(&writer, epoch);
    base_writer_u64(&writer, first_seq);
    uint64_t drawn = (base_hash64(bytes, sizeof bytes) >> 32) * WIRE_TUNNEL_SAMPLE_ALL >> 32;
    return drawn < sample_ppm;
}

// ---- The chain

uint64_t wire_tunnel_chain_first(uint64_t device, uint8_t class_id, uint32_t epoch)
{
    uint8_t bytes[8 + 1 + 4];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof bytes);
    base_writer_u64(&writer, device);
    base_writer_u8(&writer, class_id);
    base_writer_u32(&writer, epoch);
    return base_hash64(bytes, sizeof bytes);
}

uint64_t wire_tunnel_chain(uint64_t prev_hash, const uint8_t *payload, size_t size)
{
    return base_hash64_seed(payload, size, prev_hash);
}

uint64_t wire_tunnel_chain_loss(const struct wire_tunnel_loss_frame *loss)
{
    uint8_t bytes[1 + 8 + 4 + 8 + 8 + 1];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof bytes);
    base_writer_u8(&writer, 'L');
    base_writer_u64(&writer, loss->number);
    base_writer_u32(&writer, loss->numbers);
    base_writer_u64(&writer, loss->first_seq);
    base_writer_u64(&writer, loss->count);
    base_writer_u8(&writer, loss->reason);
    return base_hash64_seed(bytes, sizeof bytes, loss->prev_hash);
}
