// Frames of the tunnel from the device: HELLO, BATCH, CHUNK, LOSS.
//
// Called by devices in their loop and by gateways on their workers; there is no state, nothing is
// allocated, texts and payloads are borrowed from the input.
#include "wire/tunnel_frame.h"

#include "base/check.h"
#include "base/span.h"
#include "wire/tunnel_parts.h"
#include "wire/wiretext.h"

// ---- HELLO

static bool dicts_ok(const uint32_t *dicts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (dicts[i] == 0) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (dicts[i] == dicts[j]) {
                return false;
            }
        }
    }
    return true;
}

static bool hello_ok(const struct wire_tunnel_hello *hello)
{
    if (hello->dict_count > WIRE_TUNNEL_DICTS_MAX || hello->class_count == 0 ||
        hello->class_count > WIRE_TUNNEL_CLASSES || !dicts_ok(hello->dicts, hello->dict_count) ||
        !wire_text_printable(hello->app) || !wire_text_printable(hello->os)) {
        return false;
    }
    for (uint32_t i = 0; i < hello->class_count; i++) {
        const struct wire_tunnel_hello_class *entry = &hello->classes[i];
        if (entry->class_id >= WIRE_TUNNEL_CLASSES ||
            (i > 0 && entry->class_id <= hello->classes[i - 1].class_id) ||
            entry->tail > entry->next || entry->next > WIRE_TUNNEL_NUMBER_MAX) {
            return false;
        }
    }
    return true;
}

enum base_status wire_tunnel_hello_encode(const struct wire_tunnel_hello *value, uint8_t *out,
                                          size_t capacity, size_t *out_size)
{
    if (!hello_ok(value)) {
        return BASE_ERR_INVALID;
    }
    _Static_assert(WIRE_TUNNEL_DICTS_MAX <= UINT8_MAX && WIRE_TUNNEL_CLASSES <= UINT8_MAX,
                   "their counts are bytes");
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_HELLO, out, capacity);
    base_writer_u8(&writer, value->single_reject ? 1 : WIRE_TUNNEL_VERSION);
    base_writer_u64(&writer, value->device);
    wire_text_write(&writer, value->app, WIRE_TUNNEL_TEXT_MAX);
    wire_text_write(&writer, value->os, WIRE_TUNNEL_TEXT_MAX);
    base_writer_u64(&writer, value->wall_ms);
    base_writer_u8(&writer, (uint8_t)value->dict_count);
    for (uint32_t i = 0; i < value->dict_count; i++) {
        base_writer_u32(&writer, value->dicts[i]);
    }
    base_writer_u8(&writer, (uint8_t)value->class_count);
    for (uint32_t i = 0; i < value->class_count; i++) {
        const struct wire_tunnel_hello_class *entry = &value->classes[i];
        base_writer_u8(&writer, entry->class_id);
        base_writer_u32(&writer, entry->epoch);
        base_writer_varint(&writer, entry->tail);
        base_writer_varint(&writer, entry->next);
        base_writer_u64(&writer, entry->tail_hash);
    }
    return wire_tunnel_end(&writer, out_size);
}

static void read_hello_lists(struct base_reader *reader, struct wire_tunnel_hello *out)
{
    base_assert(out->dict_count == 0 && out->class_count == 0);
    out->dict_count = base_reader_u8(reader);
    if (out->dict_count > WIRE_TUNNEL_DICTS_MAX) {
        base_reader_fail(reader, BASE_ERR_TOO_LARGE);
        return;
    }
    for (uint32_t i = 0; i < out->dict_count; i++) {
        out->dicts[i] = base_reader_u32(reader);
    }
    out->class_count = base_reader_u8(reader);
    if (out->class_count > WIRE_TUNNEL_CLASSES) {
        base_reader_fail(reader, BASE_ERR_TOO_LARGE);
        return;
    }
    for (uint32_t i = 0; i < out->class_count; i++) {
        struct wire_tunnel_hello_class *entry = &out->classes[i];
        entry->class_id = base_reader_u8(reader);
        entry->epoch = base_reader_u32(reader);
        entry->tail = base_reader_varint(reader);
        entry->next = base_reader_varint(reader);
        entry->tail_hash = base_reader_u64(reader);
    }
}

enum base_status wire_tunnel_hello_parse(const uint8_t *payload, size_t size,
                                         struct wire_tunnel_hello *out)
{
    *out = (struct wire_tunnel_hello){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    uint8_t version = base_reader_u8(&reader);
    BASE_TRY(reader.status);
    if (version < 1 || version > WIRE_TUNNEL_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    out->single_reject = version == 1;
    out->device = base_reader_u64(&reader);
    out->app = wire_text_read(&reader, WIRE_TUNNEL_TEXT_MAX);
    out->os = wire_text_read(&reader, WIRE_TUNNEL_TEXT_MAX);
    out->wall_ms = base_reader_u64(&reader);
    read_hello_lists(&reader, out);
    BASE_TRY(base_reader_finish(&reader));
    return hello_ok(out) ? BASE_OK : BASE_ERR_INVALID;
}

// ---- BATCH

static bool batch_ok(const struct wire_tunnel_batch *batch)
{
    bool sizes_ok = batch->raw_bytes >= 1 && batch->raw_bytes <= WIRE_TUNNEL_RAW_MAX &&
                    batch->sent_bytes >= 1 && batch->sent_bytes <= batch->raw_bytes &&
                    (batch->codec != WIRE_TUNNEL_PLAIN || batch->sent_bytes == batch->raw_bytes);
    bool codec_ok = batch->codec < WIRE_TUNNEL_CODEC_END &&
                    (batch->codec == WIRE_TUNNEL_ZSTD_DICT) == (batch->dict != 0);
    bool numbers_ok = batch->number < WIRE_TUNNEL_NUMBER_MAX && batch->count >= 1 &&
                      batch->count <= WIRE_TUNNEL_RECORDS_MAX &&
                      batch->first_seq <= WIRE_TUNNEL_NUMBER_MAX - batch->count;
    return sizes_ok && codec_ok && numbers_ok && batch->class_id < WIRE_TUNNEL_CLASSES;
}

static uint32_t part_of(uint32_t sent_bytes)
{
    base_assert(sent_bytes > 0);
    return sent_bytes < WIRE_TUNNEL_PART_MAX ? sent_bytes : WIRE_TUNNEL_PART_MAX;
}

// The head of a frame whose payload ends with `bytes` that are not written here.
static enum base_status end_head(struct base_writer *writer, uint32_t bytes, size_t *out_size)
{
    base_assert(writer->status != BASE_OK || base_writer_size(writer) >= WIRE_TUNNEL_HEAD);
    BASE_TRY(writer->status);
    size_t size = base_writer_size(writer);
    wire_tunnel_patch(writer, size - WIRE_TUNNEL_HEAD + bytes);
    *out_size = size;
    return BASE_OK;
}

enum base_status wire_tunnel_batch_head_encode(const struct wire_tunnel_batch *value, uint8_t *out,
                                               size_t capacity, size_t *out_size)
{
    if (!batch_ok(value) || value->part_bytes != part_of(value->sent_bytes)) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_BATCH, out, capacity);
    base_writer_u8(&writer, value->class_id);
    base_writer_u32(&writer, value->epoch);
    base_writer_varint(&writer, value->number);
    base_writer_varint(&writer, value->first_seq);
    base_writer_varint(&writer, value->count);
    base_writer_u64(&writer, value->prev_hash);
    base_writer_u64(&writer, value->hash);
    base_writer_u8(&writer, value->codec);
    base_writer_varint(&writer, value->raw_bytes);
    if (value->codec != WIRE_TUNNEL_PLAIN) {
        base_writer_varint(&writer, value->sent_bytes);
    }
    if (value->codec == WIRE_TUNNEL_ZSTD_DICT) {
        base_writer_u32(&writer, value->dict);
    }
    base_assert(base_writer_size(&writer) <= WIRE_TUNNEL_BYTES_HEAD_MAX);
    return end_head(&writer, value->part_bytes, out_size);
}

// The head is there; the payload's bytes behind it make the frame.
static enum base_status append(uint8_t *out, size_t capacity, size_t head, struct base_span bytes,
                               size_t *out_size)
{
    base_assert(head <= capacity);
    struct base_writer writer;
    base_writer_init(&writer, out + head, capacity - head);
    base_writer_bytes(&writer, bytes.data, bytes.size);
    BASE_TRY(writer.status);
    *out_size = head + bytes.size;
    return BASE_OK;
}

enum base_status wire_tunnel_batch_encode(const struct wire_tunnel_batch *value, uint8_t *out,
                                          size_t capacity, size_t *out_size)
{
    size_t head = 0;
    BASE_TRY(wire_tunnel_batch_head_encode(value, out, capacity, &head));
    return append(out, capacity, head, (struct base_span){value->bytes, value->part_bytes},
                  out_size);
}

enum base_status wire_tunnel_batch_parse(const uint8_t *payload, size_t size,
                                         struct wire_tunnel_batch *out)
{
    *out = (struct wire_tunnel_batch){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->class_id = base_reader_u8(&reader);
    out->epoch = base_reader_u32(&reader);
    out->number = base_reader_varint(&reader);
    out->first_seq = base_reader_varint(&reader);
    out->count = (uint32_t)base_reader_varint_max(&reader, WIRE_TUNNEL_RECORDS_MAX);
    out->prev_hash = base_reader_u64(&reader);
    out->hash = base_reader_u64(&reader);
    out->codec = base_reader_u8(&reader);
    out->raw_bytes = (uint32_t)base_reader_varint_max(&reader, WIRE_TUNNEL_RAW_MAX);
    out->sent_bytes = out->raw_bytes;
    if (out->codec != WIRE_TUNNEL_PLAIN) {
        out->sent_bytes = (uint32_t)base_reader_varint_max(&reader, WIRE_TUNNEL_RAW_MAX);
    }
    if (out->codec == WIRE_TUNNEL_ZSTD_DICT) {
        out->dict = base_reader_u32(&reader);
    }
    BASE_TRY(reader.status);
    if (!batch_ok(out)) {
        return BASE_ERR_INVALID;
    }
    out->part_bytes = part_of(out->sent_bytes);
    base_assert(out->part_bytes <= out->sent_bytes && out->sent_bytes <= out->raw_bytes);
    out->bytes = base_reader_bytes(&reader, out->part_bytes);
    return base_reader_finish(&reader);
}

// ---- CHUNK

static bool chunk_ok(const struct wire_tunnel_chunk *chunk)
{
    return chunk->class_id < WIRE_TUNNEL_CLASSES && chunk->number < WIRE_TUNNEL_NUMBER_MAX &&
           chunk->size >= 1 && chunk->size <= WIRE_TUNNEL_CHUNK_MAX &&
           chunk->offset <= WIRE_TUNNEL_RAW_MAX - chunk->size;
}

enum base_status wire_tunnel_chunk_head_encode(const struct wire_tunnel_chunk *value, uint8_t *out,
                                               size_t capacity, size_t *out_size)
{
    if (!chunk_ok(value)) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_CHUNK, out, capacity);
    base_writer_u8(&writer, value->class_id);
    base_writer_varint(&writer, value->number);
    base_writer_varint(&writer, value->offset);
    return end_head(&writer, value->size, out_size);
}

enum base_status wire_tunnel_chunk_encode(const struct wire_tunnel_chunk *value, uint8_t *out,
                                          size_t capacity, size_t *out_size)
{
    size_t head = 0;
    BASE_TRY(wire_tunnel_chunk_head_encode(value, out, capacity, &head));
    return append(out, capacity, head, (struct base_span){value->bytes, value->size}, out_size);
}

enum base_status wire_tunnel_chunk_parse(const uint8_t *payload, size_t size,
                                         struct wire_tunnel_chunk *out)
{
    *out = (struct wire_tunnel_chunk){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->class_id = base_reader_u8(&reader);
    out->number = base_reader_varint(&reader);
    out->offset = (uint32_t)base_reader_varint_max(&reader, WIRE_TUNNEL_RAW_MAX);
    BASE_TRY(reader.status);
    if (base_reader_left(&reader) > WIRE_TUNNEL_CHUNK_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    out->size = (uint32_t)base_reader_left(&reader);
    if (out->size == 0) {
        return BASE_ERR_TRUNCATED;
    }
    if (!chunk_ok(out)) {
        return BASE_ERR_INVALID;
    }
    out->bytes = base_reader_bytes(&reader, out->size);
    return base_reader_finish(&reader);
}

// ---- LOSS

static bool loss_ok(const struct wire_tunnel_loss_frame *loss)
{
    return loss->class_id < WIRE_TUNNEL_CLASSES && loss->reason >= WIRE_TUNNEL_LOSS_QUOTA &&
           loss->reason < WIRE_TUNNEL_LOSS_END && loss->numbers >= 1 && loss->count >= 1 &&
           loss->number <= WIRE_TUNNEL_NUMBER_MAX - loss->numbers &&
           loss->count <= WIRE_TUNNEL_NUMBER_MAX &&
           loss->first_seq <= WIRE_TUNNEL_NUMBER_MAX - loss->count;
}

enum base_status wire_tunnel_loss_encode(const struct wire_tunnel_loss_frame *value, uint8_t *out,
                                         size_t capacity, size_t *out_size)
{
    if (!loss_ok(value)) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    wire_tunnel_begin(&writer, WIRE_TUNNEL_LOSS, out, capacity);
    base_writer_u8(&writer, value->class_id);
    base_writer_u32(&writer, value->epoch);
    base_writer_varint(&writer, value->number);
    base_writer_varint(&writer, value->numbers);
    base_writer_varint(&writer, value->first_seq);
    base_writer_varint(&writer, value->count);
    base_writer_u8(&writer, value->reason);
    base_writer_u64(&writer, value->prev_hash);
    base_writer_u64(&writer, value->hash);
    return wire_tunnel_end(&writer, out_size);
}

enum base_status wire_tunnel_loss_parse(const uint8_t *payload, size_t size,
                                        struct wire_tunnel_loss_frame *out)
{
    *out = (struct wire_tunnel_loss_frame){0};
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    out->class_id = base_reader_u8(&reader);
    out->epoch = base_reader_u32(&reader);
    out->number = base_reader_varint_max(&reader, WIRE_TUNNEL_NUMBER_MAX);
    out->numbers = (uint32_t)base_reader_varint_max(&reader, UINT32_MAX);
    out->first_seq = base_reader_varint_max(&reader, WIRE_TUNNEL_NUMBER_MAX);
    out->count = base_reader_varint_max(&reader, WIRE_TUNNEL_NUMBER_MAX);
    out->reason = base_reader_u8(&reader);
    out->prev_hash = base_reader_u64(&reader);
    out->hash = base_reader_u64(&reader);
    BASE_TRY(base_reader_finish(&reader));
    return loss_ok(out) ? BASE_OK : BASE_ERR_INVALID;
}
