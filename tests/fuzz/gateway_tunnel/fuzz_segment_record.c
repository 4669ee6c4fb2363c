// Bytes of the segment log, as a damaged disk may hand them back: refused, or read and written
// again the same. Input: u8 which, then the bytes; or the fields of a record that is written and
// read.
#include "fuzz_target.h"

#include "tunnel/segment/segment_record.h"

#include "base/cursor.h"

#include <stdlib.h>
#include <string.h>

static void check_record(const uint8_t *data, size_t size)
{
    struct gw_sink_batch batch;
    uint8_t head[GW_SEGMENT_RECORD_HEAD];
    const uint8_t zero[4] = {0};
    if (gw_segment_record_parse(data, size, &batch) != BASE_OK ||
        memcmp(data + sizeof(head) - sizeof(zero), zero, sizeof(zero)) != 0) {
        return; // none, or of a log of before
    }
    if (gw_segment_record_encode(&batch, head) != size || memcmp(head, data, sizeof(head)) != 0) {
        abort();
    }
}

static void check_fields(const uint8_t *data, size_t size)
{
    uint8_t record[GW_SEGMENT_RECORD_HEAD + 4096];
    struct base_reader reader;
    struct gw_sink_batch batch = {0};
    base_reader_init(&reader, data, size);
    batch.is_loss = base_reader_u8(&reader) % 2 == 1;
    batch.device = base_reader_u64(&reader);
    batch.tenant = base_reader_u32(&reader);
    batch.received_ms = base_reader_u64(&reader);
    batch.loss.class_id = batch.batch.class_id = base_reader_u8(&reader) % 4;
    batch.loss.reason = batch.batch.codec = base_reader_u8(&reader);
    batch.loss.number = batch.batch.number = base_reader_u64(&reader);
    batch.loss.numbers = 1 + base_reader_u8(&reader);
    batch.loss.count = batch.batch.count = 1 + base_reader_u8(&reader);
    size_t left = base_reader_left(&reader) < 4096 ? base_reader_left(&reader) : 4096;
    if (reader.status != BASE_OK || (left == 0 && !batch.is_loss)) {
        return;
    }
    batch.batch.sent_bytes = batch.batch.raw_bytes = batch.is_loss ? 0 : (uint32_t)left;
    batch.batch.bytes = base_reader_bytes(&reader, left);
    uint32_t whole = gw_segment_record_encode(&batch, record);
    if (!batch.is_loss) {
        memcpy(record + GW_SEGMENT_RECORD_HEAD, batch.batch.bytes, left);
    }
    struct gw_sink_batch back;
    uint32_t told;
    if (gw_segment_record_size(record, whole, &told) != BASE_OK || told != whole ||
        gw_segment_record_parse(record, whole, &back) != BASE_OK || back.device != batch.device ||
        back.is_loss != batch.is_loss || back.tenant != batch.tenant) {
        abort();
    }
    // Any flipped bit shows.
    size_t at = (size_t)(batch.device % whole);
    record[at] ^= (uint8_t)(1u << (batch.tenant % 8));
    if (gw_segment_record_parse(record, whole, &back) == BASE_OK) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_segment_head head;
    uint8_t bytes[GW_SEGMENT_HEAD];
    if (size == 0) {
        return 0;
    }
    switch (data[0] % 3) {
    case 0:
        if (gw_segment_head_parse(data + 1, size - 1, &head) == BASE_OK) {
            gw_segment_head_encode(&head, bytes);
            if (memcmp(bytes, data + 1, sizeof(bytes)) != 0) {
                abort();
            }
        }
        break;
    case 1:
        check_record(data + 1, size - 1);
        break;
    default:
        check_fields(data + 1, size - 1);
        break;
    }
    return 0;
}
