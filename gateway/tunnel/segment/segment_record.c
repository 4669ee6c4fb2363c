// Encoding and checking of segments' heads and records: the log's writer, its reader, the repair at
// open and the fuzz target. Any thread. The layout is in segment_record.h. Nothing is trusted
// before the check of the record holds, and sizes are compared with the segment's before anything
// is read. No state.
#include "tunnel/segment/segment_record.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/hash.h"

#include <string.h>

static const char magic[8] = {'W', 'A', 'L', 'L', 'E', 'S', 'E', 'G'};

#define CHECKED_FROM 12u // of a record: behind size and check
#define HEAD_CHECKED 32u // of a segment's head

void gw_segment_head_encode(const struct gw_segment_head *head, uint8_t out[GW_SEGMENT_HEAD])
{
    struct base_writer writer;
    base_writer_init(&writer, out, GW_SEGMENT_HEAD);
    base_writer_bytes(&writer, magic, sizeof(magic));
    base_writer_u32(&writer, GW_SEGMENT_VERSION);
    base_writer_u32(&writer, 0);
    base_writer_u64(&writer, head->base);
    base_writer_u64(&writer, head->made_ms);
    base_writer_u64(&writer, base_hash64(out, HEAD_CHECKED));
}

enum base_status gw_segment_head_parse(const uint8_t *bytes, size_t size,
                                       struct gw_segment_head *out)
{
    if (size < GW_SEGMENT_HEAD) {
        return BASE_ERR_TRUNCATED;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, GW_SEGMENT_HEAD);
    const uint8_t *own = base_reader_bytes(&reader, sizeof(magic));
    uint32_t version = base_reader_u32(&reader);
    uint32_t zero = base_reader_u32(&reader);
    struct gw_segment_head head = {.base = base_reader_u64(&reader)};
    head.made_ms = base_reader_u64(&reader);
    if (memcmp(own, magic, sizeof(magic)) != 0 ||
        base_reader_u64(&reader) != base_hash64(bytes, HEAD_CHECKED) || zero != 0) {
        return BASE_ERR_CORRUPT;
    }
    if (version != GW_SEGMENT_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    *out = head;
    return BASE_OK;
}

// The payload's check starts from the head's, so that both are one chain without a copy.
static uint64_t check_of(const uint8_t *head, const uint8_t *payload, size_t size)
{
    uint64_t check = base_hash64(head + CHECKED_FROM, GW_SEGMENT_RECORD_HEAD - CHECKED_FROM);
    return size > 0 ? base_hash64_seed(payload, size, check) : check;
}

static void put_body(struct base_writer *writer, const struct gw_sink_batch *from)
{
    const struct wire_tunnel_batch *batch = &from->batch;
    const struct wire_tunnel_loss_frame *loss = &from->loss;
    bool is_loss = from->is_loss;
    // Or the record would not be read again.
    base_assert((is_loss ? loss->class_id : batch->class_id) < WIRE_TUNNEL_CLASSES);
    base_assert(is_loss ? loss->numbers > 0 : batch->sent_bytes > 0);
    base_writer_u8(writer, is_loss ? GW_SEGMENT_LOSS : GW_SEGMENT_BATCH);
    base_writer_u8(writer, is_loss ? loss->class_id : batch->class_id);
    base_writer_u8(writer, is_loss ? loss->reason : batch->codec);
    base_writer_u8(writer, 0);
    base_writer_u32(writer, from->tenant);
    base_writer_u64(writer, from->device);
    base_writer_u32(writer, is_loss ? loss->epoch : batch->epoch);
    base_writer_u32(writer, is_loss ? loss->numbers : 1);
    base_writer_u64(writer, is_loss ? loss->number : batch->number);
    base_writer_u64(writer, is_loss ? loss->first_seq : batch->first_seq);
    base_writer_u64(writer, is_loss ? loss->count : batch->count);
    base_writer_u64(writer, is_loss ? loss->prev_hash : batch->prev_hash);
    base_writer_u64(writer, is_loss ? loss->hash : batch->hash);
    base_writer_u64(writer, from->received_ms);
    base_writer_u64(writer, from->device_ms);
    base_writer_u32(writer, is_loss ? 0 : batch->dict);
    base_writer_u32(writer, is_loss ? 0 : batch->raw_bytes);
    base_writer_u32(writer, is_loss ? 0 : batch->sent_bytes);
    base_writer_u32(writer, 0);
}

uint32_t gw_segment_record_encode(const struct gw_sink_batch *batch,
                                  uint8_t out[GW_SEGMENT_RECORD_HEAD])
{
    uint32_t payload = batch->is_loss ? 0 : batch->batch.sent_bytes;
    struct base_writer writer;
    base_writer_init(&writer, out + CHECKED_FROM, GW_SEGMENT_RECORD_HEAD - CHECKED_FROM);
    put_body(&writer, batch);
    base_assert(base_writer_size(&writer) == GW_SEGMENT_RECORD_HEAD - CHECKED_FROM);
    uint32_t size = GW_SEGMENT_RECORD_HEAD + payload;
    base_writer_init(&writer, out, CHECKED_FROM);
    base_writer_u32(&writer, size);
    base_writer_u64(&writer, check_of(out, batch->batch.bytes, payload));
    return size;
}

enum base_status gw_segment_record_size(const uint8_t *bytes, size_t size, uint32_t *out_size)
{
    if (size < sizeof(uint32_t)) {
        return BASE_ERR_TRUNCATED;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    uint32_t whole = base_reader_u32(&reader);
    if (whole < GW_SEGMENT_RECORD_HEAD || whole > GW_SEGMENT_RECORD_MAX) {
        return BASE_ERR_CORRUPT;
    }
    *out_size = whole;
    return BASE_OK;
}

// Fields both kinds have, into the LOSS; a batch takes them from there.
static void get_common(struct base_reader *reader, uint8_t class_id, uint8_t codec,
                       struct gw_sink_batch *out)
{
    struct wire_tunnel_loss_frame *loss = &out->loss;
    loss->class_id = class_id;
    loss->reason = codec;
    loss->epoch = base_reader_u32(reader);
    loss->numbers = base_reader_u32(reader);
    loss->number = base_reader_u64(reader);
    loss->first_seq = base_reader_u64(reader);
    loss->count = base_reader_u64(reader);
    loss->prev_hash = base_reader_u64(reader);
    loss->hash = base_reader_u64(reader);
    out->received_ms = base_reader_u64(reader);
    out->device_ms = base_reader_u64(reader);
}

static struct wire_tunnel_batch to_batch(const struct wire_tunnel_loss_frame *from)
{
    return (struct wire_tunnel_batch){
        .class_id = from->class_id,
        .epoch = from->epoch,
        .number = from->number,
        .first_seq = from->first_seq,
        .count = (uint32_t)from->count,
        .prev_hash = from->prev_hash,
        .hash = from->hash,
        .codec = from->reason,
    };
}

enum base_status gw_segment_record_parse(const uint8_t *bytes, size_t size,
                                         struct gw_sink_batch *out)
{
    uint32_t whole;
    BASE_TRY(gw_segment_record_size(bytes, size, &whole));
    if (whole != size) {
        return BASE_ERR_CORRUPT;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    (void)base_reader_u32(&reader);
    uint64_t check = base_reader_u64(&reader);
    const uint8_t *payload = bytes + GW_SEGMENT_RECORD_HEAD;
    if (check != check_of(bytes, payload, size - GW_SEGMENT_RECORD_HEAD)) {
        return BASE_ERR_CORRUPT;
    }
    struct gw_sink_batch batch = {0};
    uint8_t kind = base_reader_u8(&reader);
    uint8_t class_id = base_reader_u8(&reader);
    uint8_t codec = base_reader_u8(&reader);
    uint8_t zero = base_reader_u8(&reader);
    batch.tenant = base_reader_u32(&reader);
    batch.device = base_reader_u64(&reader);
    get_common(&reader, class_id, codec, &batch);
    uint32_t dict = base_reader_u32(&reader);
    uint32_t raw_bytes = base_reader_u32(&reader);
    uint32_t sent_bytes = base_reader_u32(&reader);
    (void)base_reader_u32(&reader); // what lay in memory, in logs of before
    base_assert(base_reader_offset(&reader) == GW_SEGMENT_RECORD_HEAD); // all of it, no more
    batch.is_loss = kind == GW_SEGMENT_LOSS;
    if (zero != 0 || class_id >= WIRE_TUNNEL_CLASSES ||
        (!batch.is_loss && kind != GW_SEGMENT_BATCH) || batch.loss.numbers == 0 ||
        sent_bytes != size - GW_SEGMENT_RECORD_HEAD || raw_bytes > WIRE_TUNNEL_RAW_MAX ||
        (!batch.is_loss && (batch.loss.count > WIRE_TUNNEL_RECORDS_MAX || sent_bytes == 0))) {
        return BASE_ERR_CORRUPT;
    }
    if (!batch.is_loss) {
        batch.batch = to_batch(&batch.loss);
        batch.batch.dict = dict;
        batch.batch.raw_bytes = raw_bytes;
        batch.batch.sent_bytes = batch.batch.part_bytes = sent_bytes;
        batch.batch.bytes = payload;
        batch.loss = (struct wire_tunnel_loss_frame){0};
    }
    *out = batch;
    return BASE_OK;
}
