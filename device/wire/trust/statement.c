// Release statements and the envelope that carries their signatures.
//
// The command signs, the gateway stores and forwards, the device verifies and obeys. Cryptography
// is elsewhere: here are the bytes it is over. Any thread, nothing is allocated.
#include "wire/trust/statement.h"

#include "base/check.h"
#include "wire/manifest.h"
#include "wire/wiretext.h"

#include <string.h>

#define ENVELOPE_MAGIC      "WLS1"
#define ENVELOPE_MAGIC_SIZE 4
#define BUCKETS             10000u

// The first byte of a release's payload. Those without a floor are what was signed before there was
// one: they are read, and written no more. 2 and 3 were orders and stay unused.
enum release_kind {
    KIND_PLAIN = 1,
    KIND_ARM = 4,
    KIND_FLOOR = 5,
    KIND_FLOOR_ARM = 6,
};

// The arm's salt is another than the rollout's, or arm and stage would not be independent.
static bool arm_ok(const struct wire_release *release)
{
    if (release->arm_to == 0) {
        return release->arm_from == 0 && release->arm_salt == 0;
    }
    return release->arm_salt != 0 && release->arm_salt != release->salt &&
           release->arm_from < release->arm_to && release->arm_to <= BUCKETS;
}

bool wire_release_is_shadow(const struct wire_release *release)
{
    return release->stage_kind == WIRE_STAGE_SHADOW;
}

uint64_t wire_release_task_id(const struct wire_release *release)
{
    uint64_t task_id = wire_task_id(release->task_name);
    return wire_release_is_shadow(release) ? wire_shadow_task_id(task_id) : task_id;
}

static bool shadow_percent_ok(const struct wire_release *release, uint16_t percent)
{
    return percent == 0 || (wire_release_is_shadow(release) && percent >= WIRE_SHADOW_PERCENT_MIN &&
                            percent <= WIRE_SHADOW_PERCENT_MAX);
}

static bool shadow_ok(const struct wire_release *release)
{
    return shadow_percent_ok(release, release->shadow_slow_percent) &&
           shadow_percent_ok(release, release->shadow_memory_percent) &&
           (release->tolerances.count == 0 || wire_release_is_shadow(release)) &&
           wire_tolerances_ok(&release->tolerances);
}

// What holds for every release, whichever way it came.
static bool release_ok(const struct wire_release *release)
{
    if (!wire_task_name_ok(release->task_name) || release->release_counter == 0 ||
        release->floor > release->release_counter) {
        return false;
    }
    if (release->max_bucket == 0 || release->max_bucket > BUCKETS) {
        return false;
    }
    if (release->manifest_bytes == 0 || release->manifest_bytes > WIRE_MANIFEST_BYTES_MAX ||
        wire_sha256_is_zero(&release->manifest)) {
        return false;
    }
    return arm_ok(release) && shadow_ok(release);
}

enum base_status wire_release_encode(const struct wire_release *release, uint8_t *out,
                                     size_t capacity, size_t *out_size)
{
    if (!release_ok(release)) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    bool arm = release->arm_to != 0;
    base_writer_u8(&writer, arm ? KIND_FLOOR_ARM : KIND_FLOOR);
    wire_text_write(&writer, release->task_name, WIRE_TASK_NAME_MAX);
    base_writer_u64(&writer, release->release_counter);
    base_writer_u64(&writer, release->floor);
    base_writer_bytes(&writer, release->manifest.bytes, WIRE_SHA256_BYTES);
    base_writer_varint(&writer, release->manifest_bytes);
    base_writer_u64(&writer, release->rollout_id);
    base_writer_u64(&writer, release->salt);
    base_writer_u16(&writer, release->max_bucket);
    base_writer_u8(&writer, release->stage_kind);
    base_writer_u64(&writer, release->issued_s);
    base_writer_u64(&writer, release->expires_s);
    if (arm) {
        base_writer_u64(&writer, release->arm_salt);
        base_writer_u16(&writer, release->arm_from);
        base_writer_u16(&writer, release->arm_to);
    }
    if (wire_release_is_shadow(release)) {
        base_writer_u16(&writer, release->shadow_slow_percent);
        base_writer_u16(&writer, release->shadow_memory_percent);
        wire_tolerances_write(&writer, &release->tolerances);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    base_assert(wire_release_kind(out, *out_size) == (arm ? KIND_FLOOR_ARM : KIND_FLOOR));
    return BASE_OK;
}

uint8_t wire_release_kind(const uint8_t *payload, size_t size)
{
    return size > 0 ? payload[0] : 0;
}

enum base_status wire_release_parse(const uint8_t *payload, size_t size, struct wire_release *out)
{
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    struct wire_release release = {0};
    uint8_t kind = base_reader_u8(&reader);
    bool arm = kind == KIND_ARM || kind == KIND_FLOOR_ARM;
    bool floor = kind == KIND_FLOOR || kind == KIND_FLOOR_ARM;
    BASE_TRY(reader.status);
    if (!arm && !floor && kind != KIND_PLAIN) {
        return BASE_ERR_UNSUPPORTED;
    }
    release.task_name = wire_text_read(&reader, WIRE_TASK_NAME_MAX);
    release.release_counter = base_reader_u64(&reader);
    release.floor = floor ? base_reader_u64(&reader) : 0;
    base_reader_copy(&reader, release.manifest.bytes, WIRE_SHA256_BYTES);
    release.manifest_bytes = base_reader_varint(&reader);
    release.rollout_id = base_reader_u64(&reader);
    release.salt = base_reader_u64(&reader);
    release.max_bucket = base_reader_u16(&reader);
    release.stage_kind = base_reader_u8(&reader);
    release.issued_s = base_reader_u64(&reader);
    release.expires_s = base_reader_u64(&reader);
    if (arm) {
        release.arm_salt = base_reader_u64(&reader);
        release.arm_from = base_reader_u16(&reader);
        release.arm_to = base_reader_u16(&reader);
    }
    if (wire_release_is_shadow(&release)) {
        release.shadow_slow_percent = base_reader_u16(&reader);
        release.shadow_memory_percent = base_reader_u16(&reader);
        wire_tolerances_read(&reader, &release.tolerances);
    }
    base_assert(kind != 0 && (arm || release.arm_to == 0));
    BASE_TRY(base_reader_finish(&reader));
    if (!release_ok(&release) || arm != (release.arm_to != 0)) {
        return BASE_ERR_INVALID;
    }
    *out = release;
    return BASE_OK;
}

enum base_status wire_stop_encode(uint64_t task_id, uint8_t *out, size_t capacity, size_t *out_size)
{
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u64(&writer, task_id);
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

enum base_status wire_stop_parse(const uint8_t *payload, size_t size, uint64_t *out_task_id)
{
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    uint64_t task_id = base_reader_u64(&reader);
    BASE_TRY(base_reader_finish(&reader));
    *out_task_id = task_id;
    return BASE_OK;
}

// Each key id counts once, so it may be there once.
static bool key_ids_differ(const struct wire_signature *signatures, uint32_t count)
{
    base_assert(count <= WIRE_STATEMENT_SIGNATURES);
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (memcmp(signatures[i].key_id, signatures[j].key_id, WIRE_SHA256_BYTES) == 0) {
                return false;
            }
        }
    }
    return true;
}

size_t wire_envelope_bytes_max(uint8_t type)
{
    switch (type) {
    case WIRE_ENVELOPE_TYPE_RELEASE:
    case WIRE_ENVELOPE_TYPE_DIRECTOR:
    case WIRE_ENVELOPE_TYPE_STOP:
        return WIRE_STATEMENT_BYTES_MAX;
    case WIRE_ENVELOPE_TYPE_ANSWER:
        return WIRE_ANSWER_BYTES_MAX;
    case WIRE_ENVELOPE_TYPE_ROOT:
    case WIRE_ENVELOPE_TYPE_TIMESTAMP:
    case WIRE_ENVELOPE_TYPE_EVIDENCE:
        return WIRE_META_BYTES_MAX;
    case WIRE_ENVELOPE_TYPE_SNAPSHOT:
        return WIRE_SNAPSHOT_BYTES_MAX;
    default:
        return 0;
    }
}

bool wire_envelope_is_director(const uint8_t *bytes, size_t size)
{
    return size > ENVELOPE_MAGIC_SIZE && memcmp(bytes, ENVELOPE_MAGIC, ENVELOPE_MAGIC_SIZE) == 0 &&
           (bytes[ENVELOPE_MAGIC_SIZE] == WIRE_ENVELOPE_TYPE_DIRECTOR ||
            bytes[ENVELOPE_MAGIC_SIZE] == WIRE_ENVELOPE_TYPE_ANSWER);
}

bool wire_envelope_is_hashed(uint8_t type)
{
    return type == WIRE_ENVELOPE_TYPE_ROOT || type == WIRE_ENVELOPE_TYPE_SNAPSHOT ||
           type == WIRE_ENVELOPE_TYPE_TIMESTAMP || type == WIRE_ENVELOPE_TYPE_EVIDENCE;
}

static enum base_status envelope_check(const struct wire_envelope *envelope)
{
    if (wire_envelope_bytes_max(envelope->type) == 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    bool is_signed = envelope->signature_count > 0;
    if (envelope->payload_bytes == 0 || is_signed == (envelope->type == WIRE_ENVELOPE_TYPE_STOP) ||
        envelope->signature_count > WIRE_STATEMENT_SIGNATURES) {
        return BASE_ERR_INVALID;
    }
    return key_ids_differ(envelope->signatures, envelope->signature_count) ? BASE_OK
                                                                           : BASE_ERR_INVALID;
}

enum base_status wire_envelope_encode(const struct wire_envelope *envelope, uint8_t *out,
                                      size_t capacity, size_t *out_size)
{
    BASE_TRY(envelope_check(envelope));
    struct base_writer writer;
    size_t most = wire_envelope_bytes_max(envelope->type);
    base_assert(most > 0); // it was checked
    base_writer_init(&writer, out, capacity < most ? capacity : most);
    base_writer_bytes(&writer, ENVELOPE_MAGIC, ENVELOPE_MAGIC_SIZE);
    base_writer_u8(&writer, envelope->type);
    base_writer_varint(&writer, envelope->payload_bytes);
    base_writer_bytes(&writer, envelope->payload, envelope->payload_bytes);
    base_writer_u8(&writer, (uint8_t)envelope->signature_count);
    for (uint32_t i = 0; i < envelope->signature_count; i++) {
        base_writer_bytes(&writer, envelope->signatures[i].key_id, WIRE_SHA256_BYTES);
        base_writer_bytes(&writer, envelope->signatures[i].bytes, WIRE_SIGNATURE_BYTES);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

static void read_signatures(struct base_reader *reader, struct wire_envelope *envelope)
{
    envelope->signature_count = base_reader_u8(reader);
    if (envelope->signature_count > WIRE_STATEMENT_SIGNATURES) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    for (uint32_t i = 0; i < envelope->signature_count; i++) {
        base_reader_copy(reader, envelope->signatures[i].key_id, WIRE_SHA256_BYTES);
        base_reader_copy(reader, envelope->signatures[i].bytes, WIRE_SIGNATURE_BYTES);
    }
}

enum base_status wire_envelope_parse(const uint8_t *bytes, size_t size, struct wire_envelope *out)
{
    if (size > WIRE_SNAPSHOT_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    const uint8_t *magic = base_reader_bytes(&reader, ENVELOPE_MAGIC_SIZE);
    BASE_TRY(reader.status);
    if (memcmp(magic, ENVELOPE_MAGIC, ENVELOPE_MAGIC_SIZE) != 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct wire_envelope envelope = {.type = base_reader_u8(&reader)};
    BASE_TRY(reader.status);
    size_t most = wire_envelope_bytes_max(envelope.type);
    if (most == 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    if (size > most) {
        return BASE_ERR_TOO_LARGE;
    }
    uint64_t payload_bytes = base_reader_varint_max(&reader, most);
    envelope.payload_bytes = (size_t)payload_bytes;
    envelope.payload = base_reader_bytes(&reader, envelope.payload_bytes);
    read_signatures(&reader, &envelope);
    BASE_TRY(base_reader_finish(&reader));
    BASE_TRY(envelope_check(&envelope));
    base_assert(envelope.payload_bytes <= most);
    *out = envelope;
    return BASE_OK;
}

enum base_status wire_envelope_signed_bytes(uint8_t type, struct base_span payload, uint8_t *out,
                                            size_t capacity, size_t *out_size)
{
    base_assert(wire_envelope_bytes_max(type) > 0);
    base_assert(!wire_envelope_is_hashed(type) || payload.size == WIRE_SHA256_BYTES);
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_bytes(&writer, WIRE_STATEMENT_DOMAIN, sizeof WIRE_STATEMENT_DOMAIN);
    base_writer_u8(&writer, type);
    base_writer_bytes(&writer, payload.data, payload.size);
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}
