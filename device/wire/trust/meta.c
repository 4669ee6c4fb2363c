// Snapshot, timestamp, director and the question: bytes only.
//
// The gateway writes, devices read; the gateway reads the question on its workers. Pure, any
// thread, nothing is allocated: a snapshot's entries stay raw and are walked.
#include "wire/trust/meta.h"

#include "base/check.h"
#include "wire/manifest.h"
#include "wire/trust/statement.h"
#include "wire/wiretext.h"

#include <string.h>

_Static_assert(WIRE_ASK_TEXT == BASE_B64_ENCODED(WIRE_ASK_BYTES), "a question has one length");
_Static_assert(WIRE_ASK_TEXT_MAX == BASE_B64_ENCODED(WIRE_ASK_BYTES_MAX), "... of each kind");

bool wire_scenario_ok(struct base_str scenario)
{
    for (size_t i = 0; i < scenario.size; i++) {
        char c = scenario.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!letter && (i == 0 || (c != '.' && c != '_' && c != '-'))) {
            return false;
        }
    }
    return scenario.size > 0 && scenario.size <= WIRE_SCENARIO_MAX;
}

struct base_str wire_scenario_of(struct base_str task)
{
    const char *slash = task.size > 0 ? memchr(task.data, '/', task.size) : NULL;
    struct base_str scenario = BASE_STR("default");
    if (slash != NULL) {
        scenario = (struct base_str){task.data, (size_t)(slash - task.data)};
    }
    return wire_scenario_ok(scenario) ? scenario : (struct base_str){NULL, 0};
}

static int text_order(struct base_str a, struct base_str b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = memcmp(a.data, b.data, size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

// ---- Snapshot

static bool entries_ascend(const struct wire_snapshot_entry *before,
                           const struct wire_snapshot_entry *after)
{
    return before->task_id < after->task_id ||
           (before->task_id == after->task_id && before->counter < after->counter);
}

static bool snapshot_ok(const struct wire_snapshot *snapshot)
{
    return wire_scenario_ok(snapshot->scenario) && snapshot->version > 0 &&
           snapshot->issued_s < snapshot->expires_s;
}

enum base_status wire_snapshot_encode(const struct wire_snapshot *snapshot,
                                      const struct wire_snapshot_entry *entries, uint8_t *out,
                                      size_t capacity, size_t *out_size)
{
    if (!snapshot_ok(snapshot)) {
        return BASE_ERR_INVALID;
    }
    if (snapshot->count > WIRE_SNAPSHOT_ENTRIES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    _Static_assert(64 + WIRE_SCENARIO_MAX +
                           WIRE_SNAPSHOT_ENTRIES_MAX * (8 + 10 + WIRE_SHA256_BYTES) <=
                       WIRE_SNAPSHOT_BYTES_MAX,
                   "the largest snapshot fits");
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    wire_text_write(&writer, snapshot->scenario, WIRE_SCENARIO_MAX);
    base_writer_u64(&writer, snapshot->version);
    base_writer_u64(&writer, snapshot->issued_s);
    base_writer_u64(&writer, snapshot->expires_s);
    base_writer_varint(&writer, snapshot->count);
    for (uint32_t i = 0; i < snapshot->count; i++) {
        if (entries[i].counter == 0 || (i > 0 && !entries_ascend(&entries[i - 1], &entries[i]))) {
            return BASE_ERR_INVALID;
        }
        base_writer_u64(&writer, entries[i].task_id);
        base_writer_varint(&writer, entries[i].counter);
        base_writer_bytes(&writer, entries[i].manifest.bytes, WIRE_SHA256_BYTES);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

enum base_status wire_snapshot_next(struct base_reader *reader, struct wire_snapshot_entry *out)
{
    out->task_id = base_reader_u64(reader);
    out->counter = base_reader_varint(reader);
    base_reader_copy(reader, out->manifest.bytes, WIRE_SHA256_BYTES);
    if (reader->status == BASE_OK && out->counter == 0) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    return reader->status;
}

enum base_status wire_snapshot_parse(const uint8_t *payload, size_t size, struct wire_snapshot *out)
{
    struct base_reader reader;
    struct wire_snapshot_entry before = {0};
    base_reader_init(&reader, payload, size);
    struct wire_snapshot snapshot = {.scenario = wire_text_read(&reader, WIRE_SCENARIO_MAX)};
    snapshot.version = base_reader_u64(&reader);
    snapshot.issued_s = base_reader_u64(&reader);
    snapshot.expires_s = base_reader_u64(&reader);
    snapshot.count = (uint32_t)base_reader_varint_max(&reader, WIRE_SNAPSHOT_ENTRIES_MAX);
    BASE_TRY(reader.status);
    if (!snapshot_ok(&snapshot)) {
        return BASE_ERR_INVALID;
    }
    snapshot.entries = reader.at;
    for (uint32_t i = 0; i < snapshot.count; i++) {
        struct wire_snapshot_entry entry;
        BASE_TRY(wire_snapshot_next(&reader, &entry));
        if (i > 0 && !entries_ascend(&before, &entry)) {
            return BASE_ERR_INVALID;
        }
        before = entry;
    }
    snapshot.entries_bytes = (size_t)(reader.at - snapshot.entries);
    BASE_TRY(base_reader_finish(&reader));
    base_assert(snapshot.entries_bytes >= (size_t)snapshot.count * (8 + 1 + WIRE_SHA256_BYTES));
    *out = snapshot;
    return BASE_OK;
}

bool wire_snapshot_lists(const struct wire_snapshot *snapshot,
                         const struct wire_snapshot_entry *release, uint64_t *out_highest)
{
    struct base_reader reader;
    struct wire_snapshot_entry entry;
    bool listed = false;
    *out_highest = 0;
    base_reader_init(&reader, snapshot->entries, snapshot->entries_bytes);
    for (uint32_t i = 0; i < snapshot->count; i++) {
        if (wire_snapshot_next(&reader, &entry) != BASE_OK || entry.task_id > release->task_id) {
            break;
        }
        if (entry.task_id == release->task_id) {
            *out_highest = entry.counter;
            listed = listed || (entry.counter == release->counter &&
                                wire_sha256_equal(&entry.manifest, &release->manifest));
        }
    }
    return listed;
}

// ---- Timestamp

static bool timestamp_ok(const struct wire_timestamp *timestamp)
{
    base_assert(timestamp->scenario_count <= WIRE_TIMESTAMP_SCENARIOS_MAX);
    base_assert(timestamp->kill_count <= WIRE_TIMESTAMP_KILLS_MAX);
    if (timestamp->version == 0 || timestamp->issued_s >= timestamp->expires_s) {
        return false;
    }
    for (uint32_t i = 0; i < timestamp->scenario_count; i++) {
        const struct wire_timestamp_scenario *scenario = &timestamp->scenarios[i];
        if (!wire_scenario_ok(scenario->name) || scenario->version == 0 || scenario->bytes == 0 ||
            scenario->bytes > WIRE_SNAPSHOT_BYTES_MAX) {
            return false;
        }
        if (i > 0 && text_order(timestamp->scenarios[i - 1].name, scenario->name) >= 0) {
            return false;
        }
    }
    for (uint32_t i = 1; i < timestamp->kill_count; i++) {
        if (memcmp(timestamp->kills[i - 1].bytes, timestamp->kills[i].bytes, WIRE_SHA256_BYTES) >=
            0) {
            return false;
        }
    }
    return true;
}

enum base_status wire_timestamp_encode(const struct wire_timestamp *timestamp, uint8_t *out,
                                       size_t capacity, size_t *out_size)
{
    if (timestamp->scenario_count > WIRE_TIMESTAMP_SCENARIOS_MAX ||
        timestamp->kill_count > WIRE_TIMESTAMP_KILLS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (!timestamp_ok(timestamp)) {
        return BASE_ERR_INVALID;
    }
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u64(&writer, timestamp->version);
    base_writer_u64(&writer, timestamp->issued_s);
    base_writer_u64(&writer, timestamp->expires_s);
    base_writer_varint(&writer, timestamp->scenario_count);
    for (uint32_t i = 0; i < timestamp->scenario_count; i++) {
        const struct wire_timestamp_scenario *scenario = &timestamp->scenarios[i];
        wire_text_write(&writer, scenario->name, WIRE_SCENARIO_MAX);
        base_writer_u64(&writer, scenario->version);
        base_writer_varint(&writer, scenario->bytes);
        base_writer_bytes(&writer, scenario->digest.bytes, WIRE_SHA256_BYTES);
    }
    base_writer_varint(&writer, timestamp->kill_count);
    for (uint32_t i = 0; i < timestamp->kill_count; i++) {
        base_writer_bytes(&writer, timestamp->kills[i].bytes, WIRE_SHA256_BYTES);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    base_assert(*out_size <= capacity);
    return BASE_OK;
}

enum base_status wire_timestamp_parse(const uint8_t *payload, size_t size,
                                      struct wire_timestamp *out)
{
    _Static_assert(sizeof(out->kills[0]) == WIRE_SHA256_BYTES, "they are copied in one piece");
    struct base_reader reader;
    base_reader_init(&reader, payload, size);
    memset(out, 0, sizeof(*out));
    out->version = base_reader_u64(&reader);
    out->issued_s = base_reader_u64(&reader);
    out->expires_s = base_reader_u64(&reader);
    out->scenario_count = (uint32_t)base_reader_varint_max(&reader, WIRE_TIMESTAMP_SCENARIOS_MAX);
    for (uint32_t i = 0; i < out->scenario_count; i++) {
        struct wire_timestamp_scenario *scenario = &out->scenarios[i];
        scenario->name = wire_text_read(&reader, WIRE_SCENARIO_MAX);
        scenario->version = base_reader_u64(&reader);
        scenario->bytes = base_reader_varint(&reader);
        base_reader_copy(&reader, scenario->digest.bytes, WIRE_SHA256_BYTES);
    }
    out->kill_count = (uint32_t)base_reader_varint_max(&reader, WIRE_TIMESTAMP_KILLS_MAX);
    base_reader_copy(&reader, out->kills, (size_t)out->kill_count * WIRE_SHA256_BYTES);
    enum base_status status = base_reader_finish(&reader);
    if (status == BASE_OK && !timestamp_ok(out)) {
        status = BASE_ERR_INVALID;
    }
    if (status != BASE_OK) {
        memset(out, 0, sizeof(*out));
    }
    return status;
}

const struct wire_timestamp_scenario *
wire_timestamp_scenario(const struct wire_timestamp *timestamp, struct base_str name)
{
    base_assert(timestamp->scenario_count <= WIRE_TIMESTAMP_SCENARIOS_MAX);
    for (uint32_t i = 0; i < timestamp->scenario_count; i++) {
        if (base_str_equal(timestamp->scenarios[i].name, name)) {
            return &timestamp->scenarios[i];
        }
    }
    return NULL;
}

bool wire_timestamp_kills(const struct wire_timestamp *timestamp,
                          const struct wire_sha256 *manifest)
{
    base_assert(timestamp->kill_count <= WIRE_TIMESTAMP_KILLS_MAX);
    for (uint32_t i = 0; i < timestamp->kill_count; i++) {
        if (wire_sha256_equal(&timestamp->kills[i], manifest)) {
            return true;
        }
    }
    return false;
}

// ---- Director

static bool director_ok(const struct wire_director *director)
{
    base_assert(director->count <= WIRE_DIRECTOR_ENTRIES_MAX);
    for (uint32_t i = 0; i < director->count; i++) {
        const struct wire_director_entry *entry = &director->entries[i];
        bool stop = entry->manifest_bytes == 0 && wire_sha256_is_zero(&entry->manifest);
        if ((entry->counter == 0 && !stop) || entry->manifest_bytes > WIRE_MANIFEST_BYTES_MAX ||
            (i > 0 && director->entries[i - 1].task_id >= entry->task_id)) {
            return false;
        }
    }
    return director->issued_s > 0;
}

enum base_status wire_director_encode(const struct wire_director *director, uint8_t *out,
                                      size_t capacity, size_t *out_size)
{
    if (director->count > WIRE_DIRECTOR_ENTRIES_MAX ||
        director->again_count > WIRE_DIRECTOR_ENTRIES_MAX - director->count) {
        return BASE_ERR_TOO_LARGE;
    }
    if (!director_ok(director)) {
        return BASE_ERR_INVALID;
    }
    _Static_assert(WIRE_DIRECTOR_ENTRIES_MAX <= WIRE_AGAIN_MAX, "as many marks can be written");
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_u64(&writer, director->device_id);
    base_writer_bytes(&writer, director->nonce, WIRE_NONCE_BYTES);
    base_writer_u64(&writer, director->order);
    base_writer_u64(&writer, director->issued_s);
    base_writer_u64(&writer, director->timestamp_version);
    base_writer_u32(&writer, director->lease_s);
    base_writer_varint(&writer, director->count);
    for (uint32_t i = 0; i < director->count; i++) {
        const struct wire_director_entry *entry = &director->entries[i];
        base_writer_u64(&writer, entry->task_id);
        base_writer_varint(&writer, entry->counter);
        base_writer_varint(&writer, entry->manifest_bytes);
        base_writer_bytes(&writer, entry->manifest.bytes, WIRE_SHA256_BYTES);
    }
    if (director->again_count > 0) {
        wire_again_write(&writer, director->again, director->again_count);
    }
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

enum base_status wire_director_parse(const uint8_t *payload, size_t size, struct wire_director *out)
{
    _Static_assert(sizeof(out->again) / sizeof(out->again[0]) >= WIRE_AGAIN_MAX,
                   "room for all that is read");
    struct base_reader reader;
    struct wire_director director;
    memset(&director, 0, sizeof(director));
    base_reader_init(&reader, payload, size);
    director.device_id = base_reader_u64(&reader);
    base_reader_copy(&reader, director.nonce, WIRE_NONCE_BYTES);
    director.order = base_reader_u64(&reader);
    director.issued_s = base_reader_u64(&reader);
    director.timestamp_version = base_reader_u64(&reader);
    director.lease_s = base_reader_u32(&reader);
    director.count = (uint32_t)base_reader_varint_max(&reader, WIRE_DIRECTOR_ENTRIES_MAX);
    for (uint32_t i = 0; i < director.count; i++) {
        struct wire_director_entry *entry = &director.entries[i];
        entry->task_id = base_reader_u64(&reader);
        entry->counter = base_reader_varint(&reader);
        entry->manifest_bytes = base_reader_varint(&reader);
        base_reader_copy(&reader, entry->manifest.bytes, WIRE_SHA256_BYTES);
    }
    if (base_reader_left(&reader) > 0) {
        wire_again_read(&reader, director.again, &director.again_count);
    }
    BASE_TRY(base_reader_finish(&reader));
    if (director.again_count > WIRE_DIRECTOR_ENTRIES_MAX - director.count) {
        return BASE_ERR_TOO_LARGE;
    }
    if (!director_ok(&director)) {
        return BASE_ERR_INVALID;
    }
    *out = director;
    return BASE_OK;
}

// ---- Timestamp and snapshot in one answer

void wire_next_head(size_t timestamp_bytes, uint8_t out[WIRE_NEXT_HEAD_BYTES])
{
    base_assert(timestamp_bytes <= WIRE_META_BYTES_MAX);
    out[0] = WIRE_NEXT_MARK;
    out[1] = (uint8_t)timestamp_bytes;
    out[2] = (uint8_t)(timestamp_bytes >> 8);
}

size_t wire_next_timestamp_bytes(const uint8_t head[WIRE_NEXT_HEAD_BYTES])
{
    return (size_t)(head[1] | head[2] << 8);
}

// ---- The question

static bool asks_for_metadata(uint8_t flags)
{
    return (flags & WIRE_ASK_FLAG_METADATA) != 0;
}

size_t wire_ask_text(const struct wire_ask *ask, char *out)
{
    uint8_t bytes[WIRE_ASK_BYTES_MAX];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_u8(&writer, ask->flags);
    base_writer_bytes(&writer, ask->nonce, WIRE_NONCE_BYTES);
    base_writer_u64(&writer, ask->order);
    if (asks_for_metadata(ask->flags)) {
        base_writer_u64(&writer, ask->root_version);
        base_writer_u64(&writer, ask->timestamp_version);
    }
    base_assert(writer.status == BASE_OK);
    size_t size = base_b64_encode(bytes, base_writer_size(&writer), out);
    base_assert(size == (asks_for_metadata(ask->flags) ? WIRE_ASK_TEXT_MAX : WIRE_ASK_TEXT));
    out[size] = '\0';
    return size;
}

enum base_status wire_ask_parse(struct base_str text, struct wire_ask *out)
{
    uint8_t bytes[WIRE_ASK_BYTES_MAX];
    struct wire_ask ask = {0};
    size_t size = 0;
    base_assert(out != NULL);
    if ((text.size != WIRE_ASK_TEXT && text.size != WIRE_ASK_TEXT_MAX) ||
        base_b64_decode(text, bytes, sizeof(bytes), &size) != BASE_OK ||
        (bytes[0] & ~WIRE_ASK_FLAGS_KNOWN) != 0 ||
        asks_for_metadata(bytes[0]) != (size == WIRE_ASK_BYTES_MAX)) {
        return BASE_ERR_INVALID;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    ask.flags = base_reader_u8(&reader);
    base_reader_copy(&reader, ask.nonce, WIRE_NONCE_BYTES);
    ask.order = base_reader_u64(&reader);
    if (asks_for_metadata(ask.flags)) {
        ask.root_version = base_reader_u64(&reader);
        ask.timestamp_version = base_reader_u64(&reader);
    }
    BASE_TRY(base_reader_finish(&reader));
    *out = ask;
    return ask.order < UINT64_MAX ? BASE_OK : BASE_ERR_INVALID; // its answer has the next one
}
