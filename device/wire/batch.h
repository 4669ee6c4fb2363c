// The uncompressed payload of a tunnel batch: records of tasks, in columns, because columns
// compress better than rows.
//
//   batch := u8 version (1), varint upload_count, uploads x { text8 task, text8 upload, u16 schema
//   },
//            varint record_count, varint first wall_ms,
//            record_count x varint upload, record_count x u8 format,
//            (record_count - 1) x zigzag wall_ms - the one before, record_count x varint size,
//            bodies
//
// An upload is what a task declares in task.json: name, class and schema. Record i has the
// id (device, class, epoch, first_seq + i).
#ifndef WIRE_BATCH_H
#define WIRE_BATCH_H

#include "base/cursor.h"
#include "wire/digest.h"

#define WIRE_BATCH_VERSION     1
#define WIRE_BATCH_UPLOADS_MAX 64
#define WIRE_UPLOAD_NAME_MAX   32            // [a-z][a-z0-9_-]*
#define WIRE_RECORD_BYTES_MAX  (1000 * 1000) // of one record's body
#define WIRE_WALL_MS_MAX       ((UINT64_C(1) << 48) - 1)

enum wire_record_format {
    WIRE_RECORD_BYTES,
    WIRE_RECORD_JSON,   // one JSON value, UTF-8
    WIRE_RECORD_EVENTS, // a block of behaviour events (wire/event_block.h)
    WIRE_RECORD_FORMAT_END
};

// Which upload of which task, in which version of its schema.
struct wire_upload_key {
    struct base_str task;
    struct base_str name;
    uint16_t schema;
};

struct wire_record {
    uint32_t upload; // index
    enum wire_record_format format;
    uint64_t wall_ms;
    const uint8_t *bytes;
    uint32_t size;
};

// What a run sends: one record on its way into the tunnel, from the pipeline on
// (pipeline/pipeline.h) until it lies in an open batch (tunnel/tunnel.h).
struct wire_upload_record {
    uint8_t class_id;
    struct wire_upload_key key;
    struct base_str schema; // as declared, JSON; empty: anything goes. The tunnel does not ask it
    enum wire_record_format format;
    uint64_t wall_ms;
    const uint8_t *bytes;
    uint32_t size;
};

// Takes records (borrowed during the call); OK: it has an account of it from here on.
struct wire_upload_port {
    void *ctx;
    enum base_status (*offer)(void *ctx, uint64_t now_us, const struct wire_upload_record *record);
};

bool wire_upload_key_ok(const struct wire_upload_key *key); // both names are well-formed
bool wire_upload_key_equal(const struct wire_upload_key *a, const struct wire_upload_key *b);

// What a batch holds. Borrowed during the call.
struct wire_batch_content {
    const struct wire_upload_key *uploads; // all different
    uint32_t upload_count;                 // 1 to WIRE_BATCH_UPLOADS_MAX
    const struct wire_record *records;
    uint32_t record_count; // 1 to WIRE_TUNNEL_RECORDS_MAX
};

// Builds in the caller's buffer without copying bodies twice: uploads and records are given whole.
// INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status wire_batch_encode(const struct wire_batch_content *content,
                                                  uint8_t *out, size_t capacity, size_t *out_size);

// A checked view of a payload: every size and column was validated; nothing is copied.
struct wire_batch {
    uint32_t upload_count;
    struct wire_upload_key uploads[WIRE_BATCH_UPLOADS_MAX];
    uint32_t record_count;
    struct base_reader upload_column; // the walk's own
    struct base_reader format_column;
    struct base_reader time_column;
    struct base_reader size_column;
    struct base_reader bodies;
    uint64_t wall_ms;
};
// INVALID (and the record it is about in *out_record, WIRE_TUNNEL_NO_RECORD: the whole), TRUNCATED,
// TOO_LARGE, UNSUPPORTED.
BASE_NODISCARD enum base_status wire_batch_parse(const uint8_t *bytes, size_t size,
                                                 struct wire_batch *out, uint32_t *out_record);
// Walks the records once, in order; false: no more.
bool wire_batch_next(struct wire_batch *batch, struct wire_record *out);

#endif
