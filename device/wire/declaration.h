// What a version declares to the device's data pipeline: which behaviour starts it, which events it
// then gets, and what it may upload. Part of the manifest, so the release's signatures cover it.
//
//   declaration := u8 version (1; 2: leaves follow at the end),
//     varint trigger_count,   count x { varint size, pattern },   (docs/PIPELINE.md "Triggers")
//     u8 events, varint events_max, varint events_s,
//     varint attribute_count, count x text8,                      (ascending; "*" alone: all)
//     varint upload_count,
//       count x { text8 name, u8 class, u16 schema version, varint size, schema },
//     u8 result_upload,                                           (index, 255: it stays)
//     [2: varint size, leaves]                                    (wire/leaves/leaves.h)
//
// Only what is declared leaves the device: an upload of another name is refused on the device and
// at the gateway, and attributes that no live task declares are not even recorded. What an upload
// may hold, and what may go to models in the cloud, is in `leaves`; a device from before refuses a
// version that has them, for it would not keep to them.
#ifndef WIRE_DECLARATION_H
#define WIRE_DECLARATION_H

#include "wire/batch.h"

#define WIRE_DECLARATION_VERSION        1
#define WIRE_DECLARATION_LEAVES         2 // the version with leaves
#define WIRE_DECLARATION_BYTES_MAX      (32 * 1024)
#define WIRE_DECLARATION_TRIGGERS_MAX   16
#define WIRE_DECLARATION_PATTERN_MAX    512 // bytes of a pattern's text
#define WIRE_DECLARATION_ATTRIBUTES_MAX 64
#define WIRE_DECLARATION_UPLOADS_MAX    16
#define WIRE_DECLARATION_SCHEMA_MAX     4096
#define WIRE_DECLARATION_LEAVES_MAX     4096            // bytes of what may leave
#define WIRE_DECLARATION_EVENTS_MAX     1024            // a run gets at most
#define WIRE_DECLARATION_EVENTS_S_MAX   (7 * 24 * 3600) // and at most so old
#define WIRE_DECLARATION_NO_UPLOAD      255

enum wire_declared_events {
    WIRE_EVENTS_NONE,    // the run gets none
    WIRE_EVENTS_MATCHED, // those that matched the trigger (the embedding that starts latest)
    WIRE_EVENTS_VISIT,   // all of the page visit of the event that completed the match
    WIRE_EVENTS_TIME,    // all of the last events_s seconds
    WIRE_EVENTS_END
};

struct wire_upload {
    struct base_str name; // [a-z][a-z0-9_-]*
    uint8_t class_id;
    uint16_t schema_version;
    struct base_str schema; // JSON; empty: anything goes
};

// Borrowed from the input. Zero-initialised, it declares nothing.
struct wire_declaration {
    uint32_t trigger_count;
    struct base_str triggers[WIRE_DECLARATION_TRIGGERS_MAX];
    enum wire_declared_events events;
    uint32_t events_max; // newest are kept; 0: WIRE_DECLARATION_EVENTS_MAX
    uint32_t events_s;   // TIME
    uint32_t attribute_count;
    struct base_str attributes[WIRE_DECLARATION_ATTRIBUTES_MAX];
    uint32_t upload_count;
    struct wire_upload uploads[WIRE_DECLARATION_UPLOADS_MAX];
    uint8_t result_upload;
    struct base_str leaves; // bytes; empty: not declared
};

// INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status wire_declaration_encode(const struct wire_declaration *declaration,
                                                        uint8_t *out, size_t capacity,
                                                        size_t *out_size);
// Checks form, not meaning: patterns, schemas and leaves have parsers of their own. INVALID,
// TRUNCATED, TOO_LARGE, UNSUPPORTED. *out is defined on success only.
BASE_NODISCARD enum base_status wire_declaration_parse(const uint8_t *bytes, size_t size,
                                                       struct wire_declaration *out);
bool wire_upload_name_ok(struct base_str name);
// The upload of that name, or NULL.
const struct wire_upload *wire_declaration_upload(const struct wire_declaration *declaration,
                                                  struct base_str name);

#endif
