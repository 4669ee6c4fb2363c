// Evidence of a simulate stage as bytes (format in run_evidence.h). The simulator encodes it and
// signs that (report/evidence_file.c), the gateway parses it (svc/rollout/simulation.c); pure, any
// thread. The encoder refuses what the parser would, by the same checks, so that no run ends in a
// file that no gateway takes. Two simulators are of one series when their versions differ behind
// the last dot only: the gateway takes what its own series made.
#include "wire/trust/run_evidence.h"

#include "base/check.h"
#include "wire/wiretext.h"

#include <string.h>

// Printable ASCII.
static bool text_ok(struct base_str text, size_t max)
{
    base_assert(max > 0);
    if (text.size == 0 || text.size > max) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < 0x20 || text.data[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

// May be empty; the oldest format has none.
static bool detail_ok(uint8_t format, struct base_str detail)
{
    return detail.size == 0 ||
           (format != WIRE_EVIDENCE_FORMAT_OLDEST && text_ok(detail, WIRE_EVIDENCE_DETAIL_MAX));
}

static bool is_zero(const struct wire_sha256 *digest)
{
    static const struct wire_sha256 zero;
    return wire_sha256_equal(digest, &zero);
}

static bool classes_ok(const struct wire_evidence *evidence)
{
    uint64_t left = evidence->failed;
    if (evidence->class_count > WIRE_EVIDENCE_CLASSES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < evidence->class_count; i++) {
        const struct wire_evidence_class *one = &evidence->classes[i];
        if (!wire_outcome_is_failure((enum wire_outcome_kind)one->outcome) || one->devices == 0 ||
            one->devices > left || !detail_ok(evidence->format, one->detail) ||
            (i > 0 && one->outcome <= evidence->classes[i - 1].outcome)) {
            return false;
        }
        left -= one->devices;
    }
    return true;
}

static bool oracles_ok(const struct wire_evidence *evidence)
{
    if (evidence->oracle_count > WIRE_EVIDENCE_ORACLES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < evidence->oracle_count; i++) {
        if (!text_ok(evidence->oracles[i].name, WIRE_EVIDENCE_ORACLE_MAX)) {
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (base_str_equal(evidence->oracles[i].name, evidence->oracles[k].name)) {
                return false;
            }
        }
    }
    return true;
}

static bool evidence_ok(const struct wire_evidence *evidence)
{
    return evidence->format <= WIRE_EVIDENCE_FORMAT &&
           text_ok(evidence->simulator, WIRE_EVIDENCE_SIMULATOR_MAX) && evidence->task.size > 0 &&
           evidence->task.size <= WIRE_TASK_NAME_MAX &&
           evidence->target.size <= WIRE_EVIDENCE_TARGET_MAX &&
           (evidence->root_version == 0) == is_zero(&evidence->root) &&
           evidence->matched <= evidence->drawn && evidence->completed <= evidence->matched &&
           evidence->failed <= evidence->completed && evidence->began_s <= evidence->ended_s &&
           classes_ok(evidence) && oracles_ok(evidence);
}

enum base_status wire_evidence_encode(const struct wire_evidence *evidence, uint8_t *out,
                                      size_t capacity, size_t *out_size)
{
    _Static_assert(WIRE_EVIDENCE_CLASSES_MAX <= UINT8_MAX && WIRE_EVIDENCE_ORACLES_MAX <= UINT8_MAX,
                   "their counts are bytes");
    struct base_writer writer;
    if (!evidence_ok(evidence)) {
        return BASE_ERR_INVALID;
    }
    uint8_t format = evidence->format > 0 ? evidence->format : WIRE_EVIDENCE_FORMAT;
    base_writer_init(&writer, out, capacity);
    base_writer_u8(&writer, format);
    wire_text_write(&writer, evidence->simulator, WIRE_EVIDENCE_SIMULATOR_MAX);
    wire_text_write(&writer, evidence->task, WIRE_TASK_NAME_MAX);
    base_writer_bytes(&writer, evidence->manifest.bytes, WIRE_SHA256_BYTES);
    base_writer_u64(&writer, evidence->root_version);
    base_writer_bytes(&writer, evidence->root.bytes, WIRE_SHA256_BYTES);
    base_writer_varint(&writer, evidence->target.size);
    base_writer_bytes(&writer, evidence->target.data, evidence->target.size);
    base_writer_u64(&writer, evidence->seed);
    base_writer_bytes(&writer, evidence->population.bytes, WIRE_SHA256_BYTES);
    const uint64_t numbers[] = {evidence->drawn,  evidence->matched, evidence->completed,
                                evidence->failed, evidence->began_s, evidence->ended_s};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        base_writer_u64(&writer, numbers[i]);
    }
    base_writer_u8(&writer, (uint8_t)evidence->class_count);
    for (uint32_t i = 0; i < evidence->class_count; i++) {
        base_writer_u8(&writer, evidence->classes[i].outcome);
        base_writer_u64(&writer, evidence->classes[i].devices);
        if (format > WIRE_EVIDENCE_FORMAT_OLDEST) {
            wire_text_write(&writer, evidence->classes[i].detail, WIRE_EVIDENCE_DETAIL_MAX);
        }
    }
    base_writer_u8(&writer, (uint8_t)evidence->oracle_count);
    for (uint32_t i = 0; i < evidence->oracle_count; i++) {
        wire_text_write(&writer, evidence->oracles[i].name, WIRE_EVIDENCE_ORACLE_MAX);
        base_writer_u8(&writer, evidence->oracles[i].holds ? 1 : 0);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

static void read_oracles(struct base_reader *reader, struct wire_evidence *out)
{
    out->oracle_count = base_reader_u8(reader);
    if (out->oracle_count > WIRE_EVIDENCE_ORACLES_MAX) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    for (uint32_t i = 0; i < out->oracle_count; i++) {
        out->oracles[i].name = wire_text_read(reader, WIRE_EVIDENCE_ORACLE_MAX);
        uint8_t holds = base_reader_u8(reader);
        if (holds > 1) {
            base_reader_fail(reader, BASE_ERR_INVALID);
        }
        out->oracles[i].holds = holds == 1;
    }
}

static void read_classes(struct base_reader *reader, uint8_t format, struct wire_evidence *out)
{
    base_assert(format >= WIRE_EVIDENCE_FORMAT_OLDEST && format <= WIRE_EVIDENCE_FORMAT);
    out->class_count = base_reader_u8(reader);
    if (out->class_count > WIRE_EVIDENCE_CLASSES_MAX) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    for (uint32_t i = 0; i < out->class_count; i++) {
        out->classes[i].outcome = base_reader_u8(reader);
        out->classes[i].devices = base_reader_u64(reader);
        if (format > WIRE_EVIDENCE_FORMAT_OLDEST) {
            out->classes[i].detail = wire_text_read(reader, WIRE_EVIDENCE_DETAIL_MAX);
        }
    }
}

static void read_run(struct base_reader *reader, struct wire_evidence *out)
{
    out->seed = base_reader_u64(reader);
    base_reader_copy(reader, out->population.bytes, WIRE_SHA256_BYTES);
    out->drawn = base_reader_u64(reader);
    out->matched = base_reader_u64(reader);
    out->completed = base_reader_u64(reader);
    out->failed = base_reader_u64(reader);
    out->began_s = base_reader_u64(reader);
    out->ended_s = base_reader_u64(reader);
}

enum base_status wire_evidence_parse(const uint8_t *payload, size_t size, struct wire_evidence *out)
{
    _Static_assert(WIRE_EVIDENCE_FORMAT_OLDEST > 0, "0 lets the encoder choose");
    struct base_reader reader;
    struct wire_evidence evidence = {0};
    base_reader_init(&reader, payload, size);
    uint8_t format = base_reader_u8(&reader);
    BASE_TRY(reader.status);
    if (format < WIRE_EVIDENCE_FORMAT_OLDEST || format > WIRE_EVIDENCE_FORMAT) {
        return BASE_ERR_UNSUPPORTED;
    }
    evidence.format = format;
    evidence.simulator = wire_text_read(&reader, WIRE_EVIDENCE_SIMULATOR_MAX);
    evidence.task = wire_text_read(&reader, WIRE_TASK_NAME_MAX);
    base_reader_copy(&reader, evidence.manifest.bytes, WIRE_SHA256_BYTES);
    evidence.root_version = base_reader_u64(&reader);
    base_reader_copy(&reader, evidence.root.bytes, WIRE_SHA256_BYTES);
    evidence.target.size = (size_t)base_reader_varint_max(&reader, WIRE_EVIDENCE_TARGET_MAX);
    evidence.target.data = (const char *)base_reader_bytes(&reader, evidence.target.size);
    read_run(&reader, &evidence);
    read_classes(&reader, format, &evidence);
    read_oracles(&reader, &evidence);
    BASE_TRY(base_reader_finish(&reader));
    if (!evidence_ok(&evidence)) {
        return BASE_ERR_INVALID;
    }
    *out = evidence;
    return BASE_OK;
}

static struct base_str series_of(struct base_str version)
{
    while (version.size > 0 && version.data[version.size - 1] != '.') {
        version.size--;
    }
    return version;
}

bool wire_evidence_same_series(struct base_str a, struct base_str b)
{
    struct base_str left = series_of(a);
    return left.size > 0 && base_str_equal(left, series_of(b));
}
