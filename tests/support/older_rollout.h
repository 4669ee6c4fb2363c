// Makes a stored rollout one of before: from before releases named a floor, when a way back was
// signed with each of them.
#ifndef OLDER_ROLLOUT_H
#define OLDER_ROLLOUT_H

#include "test_kit.h"

#include "core_rig.h"
#include "older_release.h"
#include "svc/rollout/catalog_private.h"

#define OLDER_FIRST    6 // versions of a stored release
#define OLDER_LAST     7
#define OLDER_ROW_MAX  16384
#define OLDER_TRUST_AT 43  // where a release of version 7 or above says which devices count
#define NEWER_PACE     4u  // bytes of the interval behind that, from version 9
#define NEWER_VERDICTS 14u // ... of what a stage's verdicts do, in front of its statement, from 10
#define NEWER_CLOUD    12u // ... and behind that of decisions between device and cloud, from 12
#define OLDER_FLOOR    8   // from here on statements name a floor, and none leads back
#define OLDER_VERDICTS 10  // ... and stages say what verdicts do
#define OLDER_CLOUD    12  // ... and what decisions between device and cloud may come to

struct older_rollout {
    struct gw_store_op op;
    uint64_t id;
    const char *task;
    uint64_t back_counter;
    size_t spec_bytes; // of the release, at the end of the row
    uint8_t version;   // that the release gets
    uint8_t kind;      // that its statements say instead of 1 or 4; 0: those
    uint8_t row[OLDER_ROW_MAX];
};

static inline size_t older_varint_bytes(uint64_t value)
{
    size_t size = 1;
    for (; value >= 128; value >>= 7) {
        size++;
    }
    return size;
}

static inline void older_envelope(struct base_writer *writer, struct wire_envelope *envelope)
{
    uint8_t out[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    assert_int_equal(wire_envelope_encode(envelope, out, sizeof(out), &size), BASE_OK);
    base_writer_varint(writer, size);
    base_writer_bytes(writer, out, size);
}

// The statement at `bytes` with an older payload; signatures are not looked at here.
static inline void older_statement(struct base_writer *writer, const uint8_t *bytes, size_t size,
                                   uint8_t kind)
{
    struct wire_envelope envelope;
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    assert_int_equal(wire_envelope_parse(bytes, size, &envelope), BASE_OK);
    envelope.payload_bytes = older_release(envelope.payload, envelope.payload_bytes, payload);
    envelope.payload = payload;
    payload[0] = kind != 0 ? kind : payload[0];
    older_envelope(writer, &envelope);
}

// The statement that led back: of kind 3, to nothing, and nobody looks behind its counter.
static inline void older_way_back(struct base_writer *writer, const struct older_rollout *older)
{
    uint8_t payload[128] = {0};
    struct base_writer inner;
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_RELEASE,
                                     .payload = payload,
                                     .payload_bytes = sizeof(payload),
                                     .signature_count = 1};
    base_writer_init(&inner, payload, sizeof(payload));
    base_writer_u8(&inner, 3);
    base_writer_u8(&inner, (uint8_t)strlen(older->task));
    base_writer_bytes(&inner, older->task, strlen(older->task));
    base_writer_u64(&inner, older->back_counter);
    older_envelope(writer, &envelope);
}

// From version 12: the version, trust_unproven, no interval, a way back behind the task, the
// statements, and nothing of verdicts or of the cloud; each as the older version had it.
static inline void older_spec(struct base_writer *writer, const struct older_rollout *older,
                              const uint8_t *spec, size_t size)
{
    static const size_t prefix = 2; // of a statement: its size is so many bytes long
    const size_t rest = OLDER_TRUST_AT + 1 + (older->version > OLDER_FLOOR ? 0 : NEWER_PACE);
    const size_t verdicts = (older->version < OLDER_VERDICTS ? NEWER_VERDICTS : 0) +
                            (older->version < OLDER_CLOUD ? NEWER_CLOUD : 0);
    size_t at = OLDER_TRUST_AT + 1 + NEWER_PACE + WIRE_SHA256_BYTES + 1 + strlen(older->task);
    const uint8_t *found;
    assert_int_equal(spec[0], 12);
    base_writer_u8(writer, older->version);
    base_writer_bytes(writer, spec + 1, OLDER_TRUST_AT - 1);
    if (older->version > OLDER_FIRST) {
        base_writer_u8(writer, spec[OLDER_TRUST_AT]);
    }
    base_writer_bytes(writer, spec + rest, at - rest);
    if (older->version < OLDER_FLOOR) {
        older_way_back(writer, older);
    }
    while ((found = memmem(spec + at, size - at, "WLS1", 4)) != NULL) {
        struct base_reader reader;
        base_reader_init(&reader, found - prefix, prefix);
        size_t statement = (size_t)base_reader_varint(&reader);
        assert_int_equal(older_varint_bytes(statement), prefix);
        size_t start = (size_t)(found - spec);
        base_writer_bytes(writer, spec + at, start - prefix - verdicts - at);
        if (older->version < OLDER_FLOOR) {
            older_statement(writer, found, statement, older->kind);
        } else {
            base_writer_bytes(writer, found - prefix, prefix + statement);
        }
        at = start + statement;
    }
    base_writer_bytes(writer, spec + at, size - at);
}

static inline enum base_status older_row(struct gw_store_txn *txn, struct gw_store_op *op)
{
    static uint8_t spec[OLDER_ROW_MAX];
    struct older_rollout *older = (struct older_rollout *)op;
    struct gw_key key = gw_key_u64(older->id);
    struct base_span value;
    struct base_writer row;
    struct base_writer inner;
    BASE_TRY(gw_store_txn_get(txn, GW_TABLE_ROLLOUTS, &key, &value));
    const uint8_t *bytes = value.data;
    size_t head = value.size - older->spec_bytes;
    base_writer_init(&inner, spec, sizeof(spec));
    older_spec(&inner, older, bytes + head, older->spec_bytes);
    base_writer_init(&row, older->row, sizeof(older->row));
    base_writer_bytes(&row, bytes, head - older_varint_bytes(older->spec_bytes));
    base_writer_varint(&row, base_writer_size(&inner));
    base_writer_bytes(&row, spec, base_writer_size(&inner));
    assert_int_equal(row.status, BASE_OK);
    return gw_store_txn_put(txn, GW_TABLE_ROLLOUTS, &key, older->row, base_writer_size(&row));
}

// Stops the gateway and makes the rollout's row one of before; its way back has the counter behind
// its own.
static inline void older_rollout(struct rig *rig, uint64_t id, uint8_t version, uint8_t kind)
{
    static struct older_rollout older;
    static char task[WIRE_TASK_NAME_MAX + 1];
    const struct gw_rollout *rollout = gw_catalog_find_rollout(rig->core, id);
    assert_non_null(rollout);
    memcpy(task, rollout->release->task, sizeof(task));
    memset(&older, 0, sizeof(older));
    older.op.apply = older_row;
    older.id = id;
    older.task = task;
    older.back_counter = rollout->release->release_counter + 1;
    older.spec_bytes = rollout->release->spec_bytes;
    older.version = version;
    older.kind = kind;
    rig_stop(rig);
    const struct gw_store_options options = {.dir = rig->dir, .commit_delay_us = 1};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    if (gw_store_open(&options, &store, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(gw_store_submit_wait(store, &older.op), BASE_OK);
    gw_store_close(store);
}

#endif
