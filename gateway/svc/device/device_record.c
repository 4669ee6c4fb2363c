// Codec of device records. Pure; the writer thread and the start-up scan call it. Records of before
// are read, too; the next write of the device makes its record one of now. An outcome that moved
// out of its record is still written as all once were (svc/device/past_outcomes.h).
#include "svc/device/device_record.h"

#include "base/check.h"
#include "base/cursor.h"

#include <string.h>

//   record  := u8 version(5), u8 flags (1: has an epoch, 2: proven, 4: epoch is not 0, 8: nor is
//              previous_epoch), u32 first_seen_s, varint last_seen_s - first_seen_s, [4: u32
//              epoch], [8: u32 previous_epoch], varint report_seq, varint interval_s, varint
//              attrs_size, attrs, varint count, count x small outcome
//   small   := u64 rollout_id, u8 stage (16 added: it has figures, 32: a fingerprint, 64: tries,
//              128: it was activated), u16 bits, u8 last_kind, varint offered_s - first_seen_s,
//              varint updated_s - offered_s, [64: u8 tries], [128: varint activated_s - offered_s],
//              [32: u64 fingerprint], [bits & DRAWN: u32 answered_s, u32 failed_s, u64 segment],
//              [16: figures, as reports have them (wire/outcome.h)]
//
// Times that follow each other are near, so most differences take a byte; they are modulo 2^32, for
// a clock may have been set back. There are millions of records, most of them with one outcome.
//
// Of before, still read; the next write of the device makes it one of now:
//
//   record  := u8 version(4), u8 flags (1: has an epoch, 2: proven), u32 first_seen_s,
//              u32 last_seen_s, u32 epoch, u32 previous_epoch, u64 report_seq, u32 interval_s (2
//              lacks it), varint attrs_size, attrs, varint count, count x outcome
//
// An outcome that moved out of its record (svc/device/past_outcomes.h) is still written so:
//
//   outcome := u64 rollout_id, u64 fingerprint, u32 offered_s, u32 updated_s, u32 activated_s,
//              u8 stage (16 added: it has figures), u8 tries, u16 bits, u8 last_kind,
//              [bits & DRAWN, which 3 and 2 lack: u32 answered_s, u32 failed_s, u64 segment],
//              [figures]

#define RECORD_VERSION  5
#define RECORD_WIDE     4 // its numbers have all their bytes
#define RECORD_OLDEST   2 // has no interval
#define FLAG_EPOCH      1u
#define FLAG_PROVEN     2u
#define FLAG_NUMBER     4u // the epoch's is not 0
#define FLAG_PREVIOUS   8u
#define HAS_FIGURES     16u // in the byte of the stage
#define HAS_FINGERPRINT 32u
#define HAS_TRIES       64u
#define HAS_ACTIVATED   128u
#define STAGE_MASK      15u

static void write_drawn(struct base_writer *writer, const struct gw_record_outcome *outcome)
{
    if ((outcome->bits & GW_OUTCOME_DRAWN) != 0) {
        base_writer_u32(writer, outcome->answered_s);
        base_writer_u32(writer, outcome->failed_s);
        base_writer_u64(writer, outcome->segment);
    }
}

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
    write_drawn(writer, outcome);
    if (figures) {
        wire_figures_write(writer, &outcome->figures);
    }
}

// A time as what it is later than another.
static void write_since(struct base_writer *writer, uint32_t time_s, uint32_t since_s)
{
    base_writer_varint(writer, (uint32_t)(time_s - since_s));
}

static uint32_t read_since(struct base_reader *reader, uint32_t since_s)
{
    return since_s + (uint32_t)base_reader_varint_max(reader, UINT32_MAX);
}

static void write_small(struct base_writer *writer, const struct gw_record_outcome *outcome,
                        uint32_t first_seen_s)
{
    const unsigned has = (wire_figures_any(&outcome->figures) ? HAS_FIGURES : 0) |
                         (outcome->fingerprint != 0 ? HAS_FINGERPRINT : 0) |
                         (outcome->tries != 0 ? HAS_TRIES : 0) |
                         (outcome->activated_s != 0 ? HAS_ACTIVATED : 0);
    base_assert(outcome->stage <= STAGE_MASK);
    base_writer_u64(writer, outcome->rollout_id);
    base_writer_u8(writer, (uint8_t)(outcome->stage | has));
    base_writer_u16(writer, outcome->bits);
    base_writer_u8(writer, outcome->last_kind);
    write_since(writer, outcome->offered_s, first_seen_s);
    write_since(writer, outcome->updated_s, outcome->offered_s);
    if ((has & HAS_TRIES) != 0) {
        base_writer_u8(writer, outcome->tries);
    }
    if ((has & HAS_ACTIVATED) != 0) {
        write_since(writer, outcome->activated_s, outcome->offered_s);
    }
    if ((has & HAS_FINGERPRINT) != 0) {
        base_writer_u64(writer, outcome->fingerprint);
    }
    write_drawn(writer, outcome);
    if ((has & HAS_FIGURES) != 0) {
        wire_figures_write(writer, &outcome->figures);
    }
}

static uint8_t flags_of(const struct gw_device_record *record)
{
    return (uint8_t)((record->has_epoch ? FLAG_EPOCH : 0) | (record->proven ? FLAG_PROVEN : 0) |
                     (record->epoch != 0 ? FLAG_NUMBER : 0) |
                     (record->previous_epoch != 0 ? FLAG_PREVIOUS : 0));
}

size_t gw_device_record_encode(const struct gw_device_record *record,
                               uint8_t out[GW_DEVICE_RECORD_BYTES_MAX])
{
    struct base_writer writer;
    base_writer_init(&writer, out, GW_DEVICE_RECORD_BYTES_MAX);
    base_writer_u8(&writer, RECORD_VERSION);
    base_writer_u8(&writer, flags_of(record));
    base_writer_u32(&writer, record->first_seen_s);
    write_since(&writer, record->last_seen_s, record->first_seen_s);
    if (record->epoch != 0) {
        base_writer_u32(&writer, record->epoch);
    }
    if (record->previous_epoch != 0) {
        base_writer_u32(&writer, record->previous_epoch);
    }
    base_writer_varint(&writer, record->report_seq);
    base_writer_varint(&writer, record->interval_s);
    base_writer_varint(&writer, record->attrs_size);
    base_writer_bytes(&writer, record->attrs, record->attrs_size);
    base_writer_varint(&writer, record->outcome_count);
    for (uint32_t i = 0; i < record->outcome_count; i++) {
        write_small(&writer, &record->outcomes[i], record->first_seen_s);
    }
    // 34 + 2 + 512 + 1 + 32 * 103 bytes at most.
    base_check(writer.status == BASE_OK);
    return base_writer_size(&writer);
}

static void read_drawn(struct base_reader *reader, struct gw_record_outcome *out)
{
    bool drawn = (out->bits & GW_OUTCOME_DRAWN) != 0;
    out->answered_s = drawn ? base_reader_u32(reader) : 0;
    out->failed_s = drawn ? base_reader_u32(reader) : 0;
    out->segment = drawn ? base_reader_u64(reader) : 0;
}

static void read_figures(struct base_reader *reader, bool there, struct gw_record_outcome *out)
{
    out->figures = (struct wire_figures){0};
    if (there) {
        wire_figures_read(reader, &out->figures);
    }
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
    read_drawn(reader, out);
    read_figures(reader, (stage & HAS_FIGURES) != 0, out);
    return out->stage <= STAGE_MASK ? BASE_OK : BASE_ERR_CORRUPT;
}

// The reader says whether there were bytes enough.
static void read_small(struct base_reader *reader, uint32_t first_seen_s,
                       struct gw_record_outcome *out)
{
    out->rollout_id = base_reader_u64(reader);
    unsigned stage = base_reader_u8(reader);
    out->stage = (uint8_t)(stage & STAGE_MASK);
    out->bits = base_reader_u16(reader);
    out->last_kind = base_reader_u8(reader);
    out->offered_s = read_since(reader, first_seen_s);
    out->updated_s = read_since(reader, out->offered_s);
    out->tries = (stage & HAS_TRIES) != 0 ? base_reader_u8(reader) : 0;
    out->activated_s = (stage & HAS_ACTIVATED) != 0 ? read_since(reader, out->offered_s) : 0;
    out->fingerprint = (stage & HAS_FINGERPRINT) != 0 ? base_reader_u64(reader) : 0;
    read_drawn(reader, out);
    read_figures(reader, (stage & HAS_FIGURES) != 0, out);
}

static void read_numbers(struct base_reader *reader, unsigned flags, struct gw_device_record *out)
{
    out->first_seen_s = base_reader_u32(reader);
    out->last_seen_s = read_since(reader, out->first_seen_s);
    out->epoch = (flags & FLAG_NUMBER) != 0 ? base_reader_u32(reader) : 0;
    out->previous_epoch = (flags & FLAG_PREVIOUS) != 0 ? base_reader_u32(reader) : 0;
    out->report_seq = base_reader_varint(reader);
    out->interval_s = (uint32_t)base_reader_varint_max(reader, UINT32_MAX);
}

static void read_wide_numbers(struct base_reader *reader, unsigned version,
                              struct gw_device_record *out)
{
    base_assert(version <= RECORD_WIDE);
    out->first_seen_s = base_reader_u32(reader);
    out->last_seen_s = base_reader_u32(reader);
    out->epoch = base_reader_u32(reader);
    out->previous_epoch = base_reader_u32(reader);
    out->report_seq = base_reader_u64(reader);
    out->interval_s = version > RECORD_OLDEST ? base_reader_u32(reader) : 0;
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
    unsigned flags = base_reader_u8(&reader);
    out->has_epoch = (flags & FLAG_EPOCH) != 0;
    out->proven = (flags & FLAG_PROVEN) != 0;
    if (version <= RECORD_WIDE) {
        read_wide_numbers(&reader, version, out);
    } else {
        read_numbers(&reader, flags, out);
    }
    out->attrs_size = (uint32_t)base_reader_varint_max(&reader, WIRE_ATTRS_BYTES_MAX);
    base_reader_copy(&reader, out->attrs, out->attrs_size);
    out->outcome_count = (uint32_t)base_reader_varint_max(&reader, GW_DEVICE_OUTCOMES_MAX);
    for (uint32_t i = 0; i < out->outcome_count; i++) {
        if (version <= RECORD_WIDE) {
            BASE_TRY(gw_record_outcome_read(&reader, &out->outcomes[i]));
        } else {
            read_small(&reader, out->first_seen_s, &out->outcomes[i]);
        }
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
