// The report codec: what happened to versions on a device.
//
// Devices encode in their loop, gateways parse on their workers; nothing is allocated, details are
// borrowed from the input.
#include "wire/report.h"

#include "base/check.h"
#include "base/ckd.h"
#include "wire/wiretext.h"

_Static_assert(64 + WIRE_REPORT_MAX * (WIRE_OUTCOME_BYTES_MAX + 1 + WIRE_REPORT_DETAIL_MAX) <=
                   WIRE_REPORT_BYTES_MAX,
               "the largest report fits");

// Sequence numbers start at 1, so that 0 can mean "nothing durable yet", and must not wrap.
static bool numbers_ok(uint64_t first_seq, uint64_t count)
{
    uint64_t end;
    return first_seq > 0 && count > 0 && base_ckd_add_u64(first_seq, count, &end);
}

// Reports are of the lowest version that says what they say: a gateway of before takes most of
// them.
static bool any_figures(const struct wire_report *report)
{
    for (uint32_t i = 0; i < report->count; i++) {
        if (wire_figures_any(&report->outcomes[i].figures)) {
            return true;
        }
    }
    return false;
}

enum base_status wire_report_encode(const struct wire_report *report, uint8_t *out, size_t capacity,
                                    size_t *out_size)
{
    if (report->count > WIRE_REPORT_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (!numbers_ok(report->first_seq, report->count)) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    base_writer_init(&writer, out,
                     capacity < WIRE_REPORT_BYTES_MAX ? capacity : WIRE_REPORT_BYTES_MAX);
    base_writer_u8(&writer, any_figures(report) ? WIRE_REPORT_VERSION : WIRE_REPORT_PLAIN);
    base_writer_u64(&writer, report->device_id);
    base_writer_u32(&writer, report->epoch);
    base_writer_u64(&writer, report->first_seq);
    base_writer_varint(&writer, report->count);
    for (uint32_t i = 0; i < report->count; i++) {
        const struct wire_outcome *outcome = &report->outcomes[i];
        if (!wire_outcome_kind_ok(outcome->kind)) {
            return BASE_ERR_INVALID;
        }
        wire_outcome_write(&writer, outcome);
        wire_text_write(&writer, outcome->detail, WIRE_REPORT_DETAIL_MAX);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    base_assert(*out_size <= capacity && *out_size <= WIRE_REPORT_BYTES_MAX);
    return BASE_OK;
}

static enum base_status parse_into(struct base_reader *reader, struct wire_report *out)
{
    base_assert(out->count == 0);
    uint8_t version = base_reader_u8(reader);
    BASE_TRY(reader->status);
    if (version != WIRE_REPORT_VERSION && version != WIRE_REPORT_PLAIN) {
        return BASE_ERR_UNSUPPORTED;
    }
    out->device_id = base_reader_u64(reader);
    out->epoch = base_reader_u32(reader);
    out->first_seq = base_reader_u64(reader);
    uint64_t count = base_reader_varint(reader);
    BASE_TRY(reader->status);
    if (count > WIRE_REPORT_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (!numbers_ok(out->first_seq, count)) {
        return BASE_ERR_INVALID;
    }
    for (uint32_t i = 0; i < count && reader->status == BASE_OK; i++) {
        struct wire_outcome *outcome = &out->outcomes[i];
        if (wire_outcome_read(reader, outcome) && version == WIRE_REPORT_PLAIN) {
            base_reader_fail(reader, BASE_ERR_INVALID);
        }
        outcome->detail = wire_text_read(reader, WIRE_REPORT_DETAIL_MAX);
    }
    BASE_TRY(base_reader_finish(reader));
    out->count = (uint32_t)count;
    return BASE_OK;
}

enum base_status wire_report_parse(const uint8_t *bytes, size_t size, struct wire_report *out)
{
    out->count = 0;
    if (size > WIRE_REPORT_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    return parse_into(&reader, out);
}
