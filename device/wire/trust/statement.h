// The release statement: signed permission for a version to run in one stage, and its envelope.
// Also the order to run nothing of a task.
//
//   envelope     := "WLS1", u8 type, varint payload_size, payload,
//                   u8 signature_count, count x { key_id[32], signature[64] }
//   signed bytes := "walle-meta-v1\0", u8 type, payload as received; of the large types (ROOT,
//                   SNAPSHOT, TIMESTAMP, EVIDENCE) the SHA-256 of the payload instead, of an
//                   ANSWER the head of the tree that it is in (wire/trust/answer.h)
//   key_id = SHA-256 of the 32-byte public key; each key id counts once.
//   payload(RELEASE) := u8 kind, u8 task_name_size, task_name, u64 release_counter,
//                       [kind 5, 6: u64 floor], manifest[32], varint manifest_bytes,
//                       u64 rollout_id, u64 salt, u16 max_bucket, u8 stage_kind, u64 issued_s,
//                       u64 expires_s, [kind 4, 6: u64 arm_salt, u16 arm_from, u16 arm_to],
//                       [stage_kind 4: u16 shadow_slow_percent, u16 shadow_memory_percent,
//                        tolerances (wire/tolerance.h)]
//   kind             := 5 | 6 for an arm; read are also 1 and 4, the same without a floor. 2 and 3
//                       are used up.
//
//   payload(STOP) := u64 task_id; a STOP is not signed, it counts where the director names it
//
// Payloads of the other types are in wire/trust/root.h, wire/trust/meta.h, wire/trust/answer.h and
// wire/trust/run_evidence.h.
#ifndef WIRE_STATEMENT_H
#define WIRE_STATEMENT_H

#include "base/cursor.h"
#include "base/span.h"
#include "wire/digest.h"
#include "wire/tolerance.h"

BASE_C_BEGIN

#define WIRE_STATEMENT_BYTES_MAX  1024
#define WIRE_ANSWER_BYTES_MAX     (WIRE_STATEMENT_BYTES_MAX + 4 + 8 * WIRE_SHA256_BYTES) // and path
#define WIRE_STATEMENT_SIGNATURES 8
#define WIRE_STATEMENT_DOMAIN     "walle-meta-v1" // signed with its NUL
// Of enum pol_stage_kind, which this module does not know.
#define WIRE_STAGE_BETA         1
#define WIRE_STAGE_GRAY         2
#define WIRE_STAGE_SHADOW       4
#define WIRE_SHADOW_PERCENT_MIN 100
#define WIRE_SHADOW_PERCENT_MAX 10000

// What an envelope is about, and how large it may be: each is under its own limit before anything
// is read.
#define WIRE_META_BYTES_MAX     8192
#define WIRE_SNAPSHOT_BYTES_MAX (1024 * 1024)
enum wire_envelope_type {
    WIRE_ENVELOPE_TYPE_RELEASE = 1,
    WIRE_ENVELOPE_TYPE_ROOT = 2,
    WIRE_ENVELOPE_TYPE_SNAPSHOT = 3,
    WIRE_ENVELOPE_TYPE_TIMESTAMP = 4,
    WIRE_ENVELOPE_TYPE_DIRECTOR = 5,
    WIRE_ENVELOPE_TYPE_STOP = 6,     // the only one without signatures
    WIRE_ENVELOPE_TYPE_EVIDENCE = 7, // of a simulation, for gateways; devices take none
    WIRE_ENVELOPE_TYPE_ANSWER = 8,   // a director's, as one of many under a signature
};

struct wire_release {
    struct base_str task_name; // borrowed from the payload
    uint64_t release_counter;  // strictly increasing per task
    uint64_t floor;            // oldest counter of the task that may follow it; at most its own
    struct wire_sha256 manifest;
    uint64_t manifest_bytes;
    uint64_t rollout_id;
    uint64_t salt;       // of the rollout: the device computes its bucket with it
    uint16_t max_bucket; // 1..10000
    uint8_t stage_kind;  // enum pol_stage_kind
    uint64_t issued_s;   // Unix seconds
    uint64_t expires_s;
    // The arm of an experiment: devices whose bucket under arm_salt is within
    // [arm_from, arm_to). arm_to 0: no arm, and the others are 0 too.
    uint64_t arm_salt;
    uint16_t arm_from;
    uint16_t arm_to;
    // Of a shadow stage alone: a run beside the active version's that takes more than this
    // percentage of its time, or of its memory, has failed. 0: not judged.
    uint16_t shadow_slow_percent;
    uint16_t shadow_memory_percent;
    struct wire_tolerances tolerances; // of its result; likewise
};

struct wire_signature {
    uint8_t key_id[WIRE_SHA256_BYTES];
    uint8_t bytes[WIRE_SIGNATURE_BYTES];
};

struct wire_envelope {
    uint8_t type;
    const uint8_t *payload; // borrowed
    size_t payload_bytes;
    struct wire_signature signatures[WIRE_STATEMENT_SIGNATURES];
    uint32_t signature_count;
};

// Payload of a release, of kind 5 or 6. TOO_LARGE, INVALID (task name, bucket, counter 0, a floor
// above the counter, manifest and its size, arm, what a shadow may cost).
BASE_NODISCARD enum base_status wire_release_encode(const struct wire_release *release,
                                                    uint8_t *out, size_t capacity,
                                                    size_t *out_size);
// As above, TRUNCATED, and UNSUPPORTED for a kind that is not known: wire_release_kind names it.
BASE_NODISCARD enum base_status wire_release_parse(const uint8_t *payload, size_t size,
                                                   struct wire_release *out);
// What kind a payload says it is of, known or not; 0: it is empty.
uint8_t wire_release_kind(const uint8_t *payload, size_t size);
// Does it let the version run as a shadow, and not for good?
bool wire_release_is_shadow(const struct wire_release *release);
// Under which id the version is spoken of: the task's, or its shadow's.
uint64_t wire_release_task_id(const struct wire_release *release);
// The payload of a STOP: run nothing of this task. TRUNCATED, INVALID.
BASE_NODISCARD enum base_status wire_stop_encode(uint64_t task_id, uint8_t *out, size_t capacity,
                                                 size_t *out_size);
BASE_NODISCARD enum base_status wire_stop_parse(const uint8_t *payload, size_t size,
                                                uint64_t *out_task_id);
// Duplicate key ids, zero or too many signatures, signatures of a STOP, trailing bytes: INVALID;
// other magic or type: UNSUPPORTED; over the type's limit: TOO_LARGE.
BASE_NODISCARD enum base_status wire_envelope_encode(const struct wire_envelope *envelope,
                                                     uint8_t *out, size_t capacity,
                                                     size_t *out_size);
BASE_NODISCARD enum base_status wire_envelope_parse(const uint8_t *bytes, size_t size,
                                                    struct wire_envelope *out);
// Largest envelope of a type; 0: no such type.
size_t wire_envelope_bytes_max(uint8_t type);
// Does the envelope say that it is a director's answer, alone or one of many? To sort what comes,
// before it is parsed.
bool wire_envelope_is_director(const uint8_t *bytes, size_t size);
// Is it the SHA-256 of the payload that is signed?
bool wire_envelope_is_hashed(uint8_t type);
// The bytes a signature is over: domain, type, payload (of a hashed type: give the digest as the
// payload, of an ANSWER the head of its tree). TOO_LARGE past `capacity`.
BASE_NODISCARD enum base_status wire_envelope_signed_bytes(uint8_t type, struct base_span payload,
                                                           uint8_t *out, size_t capacity,
                                                           size_t *out_size);

BASE_C_END

#endif
