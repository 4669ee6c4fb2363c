// The payload of a tunnel batch: records in columns.
//
// Devices encode in their loop, gateways parse on their workers and the tools that read segments
// do. Nothing is allocated; a parsed batch borrows from its input.
#include "wire/batch.h"

#include "base/check.h"
#include "wire/declaration.h"
#include "wire/tunnel_frame.h"
#include "wire/wiretext.h"

bool wire_upload_key_ok(const struct wire_upload_key *key)
{
    return wire_task_name_ok(key->task) && wire_upload_name_ok(key->name);
}

bool wire_upload_key_equal(const struct wire_upload_key *a, const struct wire_upload_key *b)
{
    return a->schema == b->schema && base_str_equal(a->task, b->task) &&
           base_str_equal(a->name, b->name);
}

static bool keys_ok(const struct wire_upload_key *uploads, uint32_t count)
{
    base_assert(count <= WIRE_BATCH_UPLOADS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (!wire_upload_key_ok(&uploads[i])) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (wire_upload_key_equal(&uploads[i], &uploads[j])) {
                return false;
            }
        }
    }
    return true;
}

static enum base_status check_record(const struct wire_record *record, uint32_t upload_count)
{
    base_assert(upload_count > 0 && upload_count <= WIRE_BATCH_UPLOADS_MAX);
    if (record->upload >= upload_count || record->wall_ms > WIRE_WALL_MS_MAX ||
        (unsigned)record->format >= WIRE_RECORD_FORMAT_END) {
        return BASE_ERR_INVALID;
    }
    return record->size > WIRE_RECORD_BYTES_MAX ? BASE_ERR_TOO_LARGE : BASE_OK;
}

static enum base_status check_input(const struct wire_batch_content *content)
{
    uint32_t upload_count = content->upload_count;
    if (upload_count > WIRE_BATCH_UPLOADS_MAX || content->record_count > WIRE_TUNNEL_RECORDS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (upload_count == 0 || content->record_count == 0 ||
        !keys_ok(content->uploads, upload_count)) {
        return BASE_ERR_INVALID;
    }
    for (uint32_t i = 0; i < content->record_count; i++) {
        BASE_TRY(check_record(&content->records[i], upload_count));
    }
    return BASE_OK;
}

enum base_status wire_batch_encode(const struct wire_batch_content *content, uint8_t *out,
                                   size_t capacity, size_t *out_size)
{
    const struct wire_upload_key *uploads = content->uploads;
    const struct wire_record *records = content->records;
    uint32_t upload_count = content->upload_count;
    uint32_t record_count = content->record_count;
    BASE_TRY(check_input(content));
    _Static_assert(WIRE_WALL_MS_MAX <= INT64_MAX, "two of them have a difference");
    struct base_writer writer;
    base_writer_init(&writer, out, capacity < WIRE_TUNNEL_RAW_MAX ? capacity : WIRE_TUNNEL_RAW_MAX);
    base_writer_u8(&writer, WIRE_BATCH_VERSION);
    base_writer_varint(&writer, upload_count);
    for (uint32_t i = 0; i < upload_count; i++) {
        wire_text_write(&writer, uploads[i].task, WIRE_TASK_NAME_MAX);
        wire_text_write(&writer, uploads[i].name, WIRE_UPLOAD_NAME_MAX);
        base_writer_u16(&writer, uploads[i].schema);
    }
    base_writer_varint(&writer, record_count);
    base_writer_varint(&writer, records[0].wall_ms);
    for (uint32_t i = 0; i < record_count; i++) {
        base_writer_varint(&writer, records[i].upload);
    }
    for (uint32_t i = 0; i < record_count; i++) {
        base_writer_u8(&writer, (uint8_t)records[i].format);
    }
    for (uint32_t i = 1; i < record_count; i++) {
        base_writer_zigzag(&writer, (int64_t)records[i].wall_ms - (int64_t)records[i - 1].wall_ms);
    }
    for (uint32_t i = 0; i < record_count; i++) {
        base_writer_varint(&writer, records[i].size);
    }
    for (uint32_t i = 0; i < record_count; i++) {
        base_writer_bytes(&writer, records[i].bytes, records[i].size);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

// ---- Parsing: every column once over, then a walk that cannot fail.

static enum base_status read_keys(struct base_reader *reader, struct wire_batch *out)
{
    uint64_t count = base_reader_varint(reader);
    BASE_TRY(reader->status);
    if (count > WIRE_BATCH_UPLOADS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    for (uint32_t i = 0; i < count; i++) {
        out->uploads[i].task = wire_text_read(reader, WIRE_TASK_NAME_MAX);
        out->uploads[i].name = wire_text_read(reader, WIRE_UPLOAD_NAME_MAX);
        out->uploads[i].schema = base_reader_u16(reader);
    }
    BASE_TRY(reader->status);
    out->upload_count = (uint32_t)count;
    return count > 0 && keys_ok(out->uploads, out->upload_count) ? BASE_OK : BASE_ERR_INVALID;
}

// The part of `reader` between its place now and where it stood, as a reader of its own.
static struct base_reader column_from(const struct base_reader *reader, const uint8_t *start)
{
    base_assert(start <= reader->at);
    struct base_reader column;
    base_reader_init(&column, start, (size_t)(reader->at - start));
    return column;
}

static enum base_status check_uploads_and_formats(struct base_reader *reader,
                                                  struct wire_batch *out, uint32_t *out_record)
{
    base_assert(out->upload_count > 0);
    const uint8_t *start = reader->at;
    for (uint32_t i = 0; i < out->record_count; i++) {
        *out_record = i;
        (void)base_reader_varint_max(reader, out->upload_count - 1);
        BASE_TRY(reader->status);
    }
    out->upload_column = column_from(reader, start);
    start = reader->at;
    for (uint32_t i = 0; i < out->record_count; i++) {
        *out_record = i;
        if (base_reader_u8(reader) >= WIRE_RECORD_FORMAT_END) {
            base_reader_fail(reader, BASE_ERR_INVALID);
        }
        BASE_TRY(reader->status);
    }
    out->format_column = column_from(reader, start);
    return BASE_OK;
}

static enum base_status check_times(struct base_reader *reader, struct wire_batch *out,
                                    uint32_t *out_record)
{
    base_assert(out->record_count > 0);
    const uint8_t *start = reader->at;
    int64_t at_ms = (int64_t)out->wall_ms;
    for (uint32_t i = 1; i < out->record_count; i++) {
        *out_record = i;
        int64_t step = base_reader_zigzag(reader);
        BASE_TRY(reader->status);
        if (step > (int64_t)WIRE_WALL_MS_MAX - at_ms || step < -at_ms) {
            return BASE_ERR_INVALID;
        }
        at_ms += step;
    }
    out->time_column = column_from(reader, start);
    return BASE_OK;
}

static enum base_status check_sizes(struct base_reader *reader, struct wire_batch *out,
                                    uint32_t *out_record)
{
    const uint8_t *start = reader->at;
    uint64_t total = 0;
    for (uint32_t i = 0; i < out->record_count; i++) {
        *out_record = i;
        uint64_t size = base_reader_varint(reader);
        BASE_TRY(reader->status);
        if (size > WIRE_RECORD_BYTES_MAX) {
            return BASE_ERR_TOO_LARGE;
        }
        total += size;
    }
    out->size_column = column_from(reader, start);
    *out_record = WIRE_TUNNEL_NO_RECORD;
    start = reader->at;
    (void)base_reader_bytes(reader, total);
    BASE_TRY(base_reader_finish(reader));
    out->bodies = column_from(reader, start);
    return BASE_OK;
}

enum base_status wire_batch_parse(const uint8_t *bytes, size_t size, struct wire_batch *out,
                                  uint32_t *out_record)
{
    out->record_count = 0;
    *out_record = WIRE_TUNNEL_NO_RECORD;
    if (size > WIRE_TUNNEL_RAW_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    BASE_TRY(reader.status);
    if (version != WIRE_BATCH_VERSION) {
        return BASE_ERR_UNSUPPORTED;
    }
    BASE_TRY(read_keys(&reader, out));
    base_assert(out->upload_count > 0 && out->upload_count <= WIRE_BATCH_UPLOADS_MAX);
    uint64_t count = base_reader_varint(&reader);
    out->wall_ms = base_reader_varint_max(&reader, WIRE_WALL_MS_MAX);
    BASE_TRY(reader.status);
    if (count > WIRE_TUNNEL_RECORDS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (count == 0) {
        return BASE_ERR_INVALID;
    }
    out->record_count = (uint32_t)count;
    enum base_status status = check_uploads_and_formats(&reader, out, out_record);
    status = status == BASE_OK ? check_times(&reader, out, out_record) : status;
    status = status == BASE_OK ? check_sizes(&reader, out, out_record) : status;
    if (status != BASE_OK) {
        out->record_count = 0;
        // What ends too early is no record's fault.
        *out_record = status == BASE_ERR_TRUNCATED ? WIRE_TUNNEL_NO_RECORD : *out_record;
        return status;
    }
    return BASE_OK;
}

bool wire_batch_next(struct wire_batch *batch, struct wire_record *out)
{
    if (base_reader_left(&batch->format_column) == 0 || batch->record_count == 0) {
        return false;
    }
    // The first record's time stands before the columns, so only later ones step on.
    if (base_reader_offset(&batch->format_column) > 0) {
        batch->wall_ms += (uint64_t)base_reader_zigzag(&batch->time_column);
    }
    out->upload = (uint32_t)base_reader_varint(&batch->upload_column);
    out->format = (enum wire_record_format)base_reader_u8(&batch->format_column);
    out->wall_ms = batch->wall_ms;
    out->size = (uint32_t)base_reader_varint(&batch->size_column);
    base_assert(out->upload < batch->upload_count && out->size <= WIRE_RECORD_BYTES_MAX);
    out->bytes = base_reader_bytes(&batch->bodies, out->size);
    base_assert(out->bytes != NULL || out->size == 0);
    return true;
}
