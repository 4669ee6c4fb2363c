// What a version declares to the device's data pipeline: which behaviour starts it, which events it
// then gets, and what it may upload. Part of the manifest, so the release's signatures cover it.
//
//   declaration := u8 version (1; 2: leaves follow at the end; 3: leaves and a store do; 4: and how
//                  it runs beside others),
//     varint trigger_count,   count x { varint size, pattern },   (docs/PIPELINE.md "Triggers")
//     u8 events, varint events_max, varint events_s,
//     varint attribute_count, count x text8,                      (ascending; "*" alone: all)
//     varint upload_count,
//       count x { text8 name, u8 class, u16 schema version, varint size, schema },
//     u8 result_upload,                                           (index, 255: it stays)
//     [2: varint size, leaves]                                    (wire/leaves/leaves.h)
//     [3: varint size, leaves (0: not declared), varint store KiB (not 0), u8 keep]
//     [4: varint size, leaves, varint store KiB (0: none), u8 keep, u8 priority (0: not declared,
//         else one more than it), varint deadline ms (0: none), u8 runs at once (0: one)]
//
// Only what is declared leaves the device: an upload of another name is refused on the device and
// at the gateway, and attributes that no live task declares are not even recorded. What an upload
// may hold, and what may go to models in the cloud, is in `leaves`; a device from before refuses a
// version that has them, for it would not keep to them. So it does one with a store (walle.store,
// wire/store/store_image.h), which it does not have, and one that says how it runs, for it would
// not run it so.
#ifndef WIRE_DECLARATION_H
#define WIRE_DECLARATION_H

#include "wire/batch.h"
#include "wire/store/store_image.h"

#define WIRE_DECLARATION_VERSION        1
#define WIRE_DECLARATION_LEAVES         2 // the version with leaves
#define WIRE_DECLARATION_STORE          3 // the version with a store
#define WIRE_DECLARATION_RUNS           4 // the version that says how it runs beside others
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
#define WIRE_RUN_PRIORITY_MAX           3                   // goes last; 0 goes first
#define WIRE_RUN_DEADLINE_MS_MAX        (24 * 3600 * 1000u) // from when the run is due
#define WIRE_RUN_AT_ONCE_MAX            2                   // one of the clock, one of behaviour

enum wire_declared_events {
    WIRE_EVENTS_NONE,    // the run gets none
    WIRE_EVENTS_MATCHED, // those that matched the trigger (the embedding that starts latest)
    WIRE_EVENTS_VISIT,   // all of the page visit of the event that completed the match
    WIRE_EVENTS_TIME,    // all of the last events_s seconds
    WIRE_EVENTS_END
};

// Whose store it is.
enum wire_store_keep {
    WIRE_STORE_VERSIONS,  // the task's: each version finds what the one before left
    WIRE_STORE_A_VERSION, // one version's: another one finds none, and begins anew with its first
                          // change
    WIRE_STORE_KEEP_END
};

// How a version runs beside others (core/sched/run_sched.h of the device). Zero-initialised, it
// says nothing.
struct wire_declared_runs {
    uint8_t priority;     // one more than the priority; 0: what starts a run says it
    uint32_t deadline_ms; // a run is to be over so long after it is due; 0: whenever
    uint8_t at_once;      // runs of the task under way at once; 0: one
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
    uint32_t store_kib;     // keys and values of walle.store; 0: it has no store
    enum wire_store_keep store_keep;
    struct wire_declared_runs runs;
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
// Does it say anything?
bool wire_declared_runs_any(const struct wire_declared_runs *runs);
// The upload of that name, or NULL.
const struct wire_upload *wire_declaration_upload(const struct wire_declaration *declaration,
                                                  struct base_str name);

#endif
