// What the online roles say: snapshot, timestamp and director, and what a device asks with.
//
//   snapshot  := text8 scenario, u64 version, u64 issued_s, u64 expires_s,
//                varint count, count x { u64 task_id, varint counter, manifest[32] }
//   timestamp := u64 version, u64 issued_s, u64 expires_s,
//                varint count, count x { text8 scenario, u64 version, varint bytes, sha256[32] },
//                varint kill_count, kill_count x manifest[32]
//   director  := u64 device_id, nonce[32], u64 order, u64 issued_s, u64 timestamp_version,
//                u32 lease_s, varint count, count x { u64 task_id, varint counter, varint bytes,
//                manifest[32] }, [marks (wire/trust/again.h)]
//   ask       := u8 flags, nonce[32], u64 order, [flags & METADATA: u64 root_version,
//                u64 timestamp_version]
//   next      := u8 2, u16 bytes, timestamp's envelope, [snapshot's envelope]
//
// A scenario is a task's name before its first '/', "default" for a name without one. Its snapshot
// lists every release that may be offered now; all lists ascend and are free of repeats. The
// timestamp names each snapshot by its hash. The director's answer is for one device and one
// question, and carries the order after the last one that this device followed; without a mark it
// ends behind its entries. All are payloads of envelopes (wire/trust/statement.h) but the question,
// and `next`: an answer with what a device would ask for one by one.
#ifndef WIRE_META_H
#define WIRE_META_H

#include "base/cursor.h"
#include "wire/trust/again.h"
#include "wire/digest.h"

#define WIRE_SCENARIO_MAX            32 // [a-z0-9._-]+
#define WIRE_SNAPSHOT_ENTRIES_MAX    16384
#define WIRE_TIMESTAMP_SCENARIOS_MAX 32
#define WIRE_TIMESTAMP_KILLS_MAX     64
#define WIRE_DIRECTOR_ENTRIES_MAX    16 // and marks; fits an envelope of WIRE_STATEMENT_BYTES_MAX
#define WIRE_NONCE_BYTES             32
#define WIRE_ASK_BYTES               (1 + WIRE_NONCE_BYTES + 8)
#define WIRE_ASK_TEXT                55 // base64url of it
#define WIRE_ASK_BYTES_MAX           (WIRE_ASK_BYTES + 16)
#define WIRE_ASK_TEXT_MAX            76    // ... with METADATA
#define WIRE_ASK_FLAG_LEASE          0x01u // a version runs here on a lease: renew it
#define WIRE_ASK_FLAG_TREE           0x02u // an answer may be one of many under a signature
#define WIRE_ASK_FLAG_METADATA       0x04u // metadata may come with the answer
#define WIRE_ASK_FLAGS_KNOWN         (WIRE_ASK_FLAG_LEASE | WIRE_ASK_FLAG_TREE | WIRE_ASK_FLAG_METADATA)

// Scenario of a task: a part of `task`, or "default". Empty when it is over WIRE_SCENARIO_MAX.
struct base_str wire_scenario_of(struct base_str task);
bool wire_scenario_ok(struct base_str scenario);

// ---- Snapshot

struct wire_snapshot_entry {
    uint64_t task_id;
    uint64_t counter;
    struct wire_sha256 manifest;
};

struct wire_snapshot {
    struct base_str scenario; // borrowed
    uint64_t version;
    uint64_t issued_s;
    uint64_t expires_s;
    uint32_t count;
    const uint8_t *entries; // borrowed, raw, checked: read with wire_snapshot_next
    size_t entries_bytes;
};

// `entries` ascend by (task_id, counter). INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status wire_snapshot_encode(const struct wire_snapshot *snapshot,
                                                     const struct wire_snapshot_entry *entries,
                                                     uint8_t *out, size_t capacity,
                                                     size_t *out_size);
BASE_NODISCARD enum base_status wire_snapshot_parse(const uint8_t *payload, size_t size,
                                                    struct wire_snapshot *out);
// Iterates; `reader` initialised over entries. INVALID, TRUNCATED on damage.
BASE_NODISCARD enum base_status wire_snapshot_next(struct base_reader *reader,
                                                   struct wire_snapshot_entry *out);
// Is this release listed? *out_highest: the task's highest counter, 0 when it is not there at all.
bool wire_snapshot_lists(const struct wire_snapshot *snapshot,
                         const struct wire_snapshot_entry *release, uint64_t *out_highest);

// ---- Timestamp

struct wire_timestamp_scenario {
    struct base_str name; // borrowed
    uint64_t version;
    uint64_t bytes; // of the snapshot's envelope
    struct wire_sha256 digest;
};

struct wire_timestamp {
    uint64_t version;
    uint64_t issued_s;
    uint64_t expires_s;
    uint32_t scenario_count;
    struct wire_timestamp_scenario scenarios[WIRE_TIMESTAMP_SCENARIOS_MAX];
    uint32_t kill_count;
    struct wire_sha256 kills[WIRE_TIMESTAMP_KILLS_MAX]; // manifests of versions to stop
};

BASE_NODISCARD enum base_status wire_timestamp_encode(const struct wire_timestamp *timestamp,
                                                      uint8_t *out, size_t capacity,
                                                      size_t *out_size);
BASE_NODISCARD enum base_status wire_timestamp_parse(const uint8_t *payload, size_t size,
                                                     struct wire_timestamp *out);
const struct wire_timestamp_scenario *
wire_timestamp_scenario(const struct wire_timestamp *timestamp, struct base_str name);
bool wire_timestamp_kills(const struct wire_timestamp *timestamp,
                          const struct wire_sha256 *manifest);

// ---- Director

struct wire_director_entry {
    uint64_t task_id;
    uint64_t counter; // 0: a STOP, with nothing behind it
    uint64_t manifest_bytes;
    struct wire_sha256 manifest;
};

struct wire_director {
    uint64_t device_id;
    uint8_t nonce[WIRE_NONCE_BYTES];
    uint64_t order; // one above what the device says it followed last
    uint64_t issued_s;
    uint64_t timestamp_version; // newest the gateway serves
    uint32_t lease_s; // versions of beta and gray stages may run so much longer; 0: not at all
    uint32_t count;
    struct wire_director_entry entries[WIRE_DIRECTOR_ENTRIES_MAX]; // by task id
    uint32_t again_count;                    // with `count` at most WIRE_DIRECTOR_ENTRIES_MAX
    struct wire_again again[WIRE_AGAIN_MAX]; // by task id
};

// INVALID, TOO_LARGE (entries and marks together).
BASE_NODISCARD enum base_status wire_director_encode(const struct wire_director *director,
                                                     uint8_t *out, size_t capacity,
                                                     size_t *out_size);
BASE_NODISCARD enum base_status wire_director_parse(const uint8_t *payload, size_t size,
                                                    struct wire_director *out);

// ---- Timestamp and snapshot in one answer

#define WIRE_NEXT_MARK       2 // no envelope begins with it
#define WIRE_NEXT_HEAD_BYTES 3 // in front of the timestamp

// `timestamp_bytes`: of its envelope, at most WIRE_META_BYTES_MAX.
void wire_next_head(size_t timestamp_bytes, uint8_t out[WIRE_NEXT_HEAD_BYTES]);
// The bytes of the timestamp's envelope that a head says; any number.
size_t wire_next_timestamp_bytes(const uint8_t head[WIRE_NEXT_HEAD_BYTES]);

// ---- The question: request header `walle-nonce`

struct wire_ask {
    uint8_t flags;
    uint8_t nonce[WIRE_NONCE_BYTES];
    uint64_t order; // of the last answer that the device followed; 0: none
    // With METADATA: what is in force there. Else 0.
    uint64_t root_version;
    uint64_t timestamp_version;
};

// `out`: exactly WIRE_ASK_TEXT characters and a NUL, with METADATA WIRE_ASK_TEXT_MAX. Returns how
// many.
size_t wire_ask_text(const struct wire_ask *ask, char *out);
// INVALID: size, alphabet, unknown flags.
BASE_NODISCARD enum base_status wire_ask_parse(struct base_str text, struct wire_ask *out);

#endif
