// Codec of device records. Pure; the writer thread and the start-up scan call it.
//
//   record  := u8 version(4), u8 flags (1: has an epoch, 2: proven), u32 first_seen_s,
//              u32 last_seen_s, u32 epoch, u32 previous_epoch, u64 report_seq, u32 interval_s (2
//              lacks it), varint attrs_size, attrs, varint count, count x outcome
//   outcome := u64 rollout_id, u64 fingerprint, u32 offered_s, u32 updated_s, u32 activated_s,
//              u8 stage (16 added: it has figures), u8 tries, u16 bits, u8 last_kind,
//              [bits & DRAWN, which 3 and 2 lack: u32 answered_s, u32 failed_s, u64 segment],
//              [figures, as reports have them (wire/outcome.h)]
#include "svc/device/device_record.h"

#include "base/check.h"
#include "base/cursor.h"

#include <string.h>

#define RECORD_VERSION 4
#define RECORD_OLDEST  2 // has no interval
#define FLAG_EPOCH     1u
#define FLAG_PROVEN    2u
#define HAS_FIGURES    16u // in the byte of the stage

void gw_record_outcome_write(struct base_writer *writer, const struct gw_record_outcome *outcome)
{
    bool figures = wire_figures_any(&outcome->figures);
    base_writer_u64(writer, outcome->rollout_id);
    base_writer_u64(writer, outcome->fingerprint);
    base_writer_u32(writer, outcome->offered_s);
    base_writer_u32(writer, outcome->updated_s);
    base_writer_u32(writer, outcome->activated_s);
    base_writer_u8(writer, (uint8_t)(outcome->stage | (figures ? HAS_FIGURES : 0)));
    base_writer_u8(writer, outcome->tries);
    base_writer_u16(writer, outcome->bits);
    base_writer_u8(writer, outcome->last_kind);
    if ((outcome->bits & GW_OUTCOME_DRAWN) != 0) {
        base_writer_u32(writer, outcome->answered_s);
        base_writer_u32(writer, outcome->failed_s);
        base_writer_u64(writer, outcome->segment);
    }
    if (figures) {
        wire_figures_write(writer, &outcome->figures);
    }
}

size_t gw_device_record_encode(const struct gw_device_record *record,
                               uint8_t out[GW_DEVICE_RECORD_BYTES_MAX])
{
    struct base_writer writer;
    base_writer_init(&writer, out, GW_DEVICE_RECORD_BYTES_MAX);
    base_writer_u8(&writer, RECORD_VERSION);
    base_writer_u8(&writer, (uint8_t)((record->has_epoch ? FLAG_EPOCH : 0) |
                                      (record->proven ? FLAG_PROVEN : 0)));
    base_writer_u32(&writer, record->first_seen_s);
    base_writer_u32(&writer, record->last_seen_s);
    base_writer_u32(&writer, record->epoch);
    base_writer_u32(&writer, record->previous_epoch);
    base_writer_u64(&writer, record->report_seq);
    base_writer_u32(&writer, record->interval_s);
    base_writer_varint(&writer, record->attrs_size);
    base_writer_bytes(&writer, record->attrs, record->attrs_size);
    base_writer_varint(&writer, record->outcome_count);
    for (uint32_t i = 0; i < record->outcome_count; i++) {
        gw_record_outcome_write(&writer, &record->outcomes[i]);
    }
    // 34 + 2 + 512 + 1 + 32 * 90 bytes at most.
    base_check(writer.status == BASE_OK);
    return base_writer_size(&writer);
}

enum base_status gw_record_outcome_read(struct base_reader *reader, struct gw_record_outcome *out)
{
    out->rollout_id = base_reader_u64(reader);
    out->fingerprint = base_reader_u64(reader);
    out->offered_s = base_reader_u32(reader);
    out->updated_s = base_reader_u32(reader);
    out->activated_s = base_reader_u32(reader);
    unsigned stage = base_reader_u8(reader);
    out->stage = (uint8_t)(stage & ~HAS_FIGURES);
    out->tries = base_reader_u8(reader);
    out->bits = base_reader_u16(reader);
    out->last_kind = base_reader_u8(reader);
    bool drawn = (out->bits & GW_OUTCOME_DRAWN) != 0;
    out->answered_s = drawn ? base_reader_u32(reader) : 0;
    out->failed_s = drawn ? base_reader_u32(reader) : 0;
    out->segment = drawn ? base_reader_u64(reader) : 0;
    out->figures = (struct wire_figures){0};
    if ((stage & HAS_FIGURES) != 0) {
        wire_figures_read(reader, &out->figures);
    }
    return out->stage < 16 ? BASE_OK : BASE_ERR_CORRUPT;
}

enum base_status gw_device_record_decode(const uint8_t *bytes, size_t size,
                                         struct gw_device_record *out)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    if (version < RECORD_OLDEST || version > RECORD_VERSION) {
        return BASE_ERR_CORRUPT;
    }
    uint8_t flags = base_reader_u8(&reader);
    out->has_epoch = (flags & FLAG_EPOCH) != 0;
    out->proven = (flags & FLAG_PROVEN) != 0;
    out->first_seen_s = base_reader_u32(&reader);
    out->last_seen_s = base_reader_u32(&reader);
    out->epoch = base_reader_u32(&reader);
    out->previous_epoch = base_reader_u32(&reader);
    out->report_seq = base_reader_u64(&reader);
    out->interval_s = version > RECORD_OLDEST ? base_reader_u32(&reader) : 0;
    out->attrs_size = (uint32_t)base_reader_varint_max(&reader, WIRE_ATTRS_BYTES_MAX);
    base_reader_copy(&reader, out->attrs, out->attrs_size);
    out->outcome_count = (uint32_t)base_reader_varint_max(&reader, GW_DEVICE_OUTCOMES_MAX);
    for (uint32_t i = 0; i < out->outcome_count; i++) {
        BASE_TRY(gw_record_outcome_read(&reader, &out->outcomes[i]));
    }
    return base_reader_finish(&reader) == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}

struct gw_record_outcome *gw_device_record_find(struct gw_device_record *record,
                                                uint64_t rollout_id)
{
    for (uint32_t i = 0; i < record->outcome_count; i++) {
        if (record->outcomes[i].rollout_id == rollout_id) {
            return &record->outcomes[i];
        }
    }
    return NULL;
}

uint16_t gw_outcome_step(uint16_t bits, const struct wire_outcome *said)
{
    enum wire_outcome_kind kind = said->kind;
    uint32_t next = bits;
    if ((bits & GW_OUTCOME_CONTROL) != 0 && (bits & GW_OUTCOME_OFFERED) == 0) {
        next |= kind == WIRE_OUTCOME_RAN ? (uint32_t)GW_OUTCOME_RAN : 0;
        next |= wire_outcome_blames(kind) ? (uint32_t)GW_OUTCOME_FAILED | GW_OUTCOME_RAN : 0;
        return (uint16_t)next;
    }
    switch (kind) {
    case WIRE_OUTCOME_DOWNLOADED:
        next |= GW_OUTCOME_DOWNLOADED;
        break;
    case WIRE_OUTCOME_ACTIVATED:
        // It is on the version now, whatever it went back from earlier.
        next |= GW_OUTCOME_DOWNLOADED | GW_OUTCOME_ACTIVATED;
        next &= ~(uint32_t)(GW_OUTCOME_ROLLED_BACK | GW_OUTCOME_REMOVED | GW_OUTCOME_RETRY |
                            GW_OUTCOME_RETRY_GIVEN | GW_OUTCOME_WITHDRAWN);
        break;
    case WIRE_OUTCOME_RAN:
        next |= GW_OUTCOME_RAN;
        break;
    case WIRE_OUTCOME_SHADOW_AGREED:
        next |= GW_OUTCOME_DOWNLOADED | GW_OUTCOME_RAN | GW_OUTCOME_SHADOW;
        break;
    case WIRE_OUTCOME_ROLLED_BACK:
        next |= GW_OUTCOME_ROLLED_BACK;
        next |= said->fingerprint != 0 ? (uint32_t)GW_OUTCOME_WITHDRAWN : 0;
        break;
    case WIRE_OUTCOME_NOT_APPLICABLE:
        next |= GW_OUTCOME_NOT_APPLICABLE;
        break;
    case WIRE_OUTCOME_REMOVED:
        next |= GW_OUTCOME_REMOVED;
        break;
    default:
        if (wire_outcome_blames(kind)) {
            next |= GW_OUTCOME_FAILED;
        }
        break;
    }
    return (uint16_t)(next | GW_OUTCOME_OFFERED);
}
