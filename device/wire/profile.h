// The profile: what a device says it has, in the request header `walle-profile` (base64url of the
// bytes below).
//
//   profile := u8 version(3), u8 flags, varint tasks_max, varint interval_s, varint task_count,
//              u64 digest, varint attrs_size, attrs, [flags & PAIRS: task_count x pair,
//              varint refused_count, refused_count x u64 refused]
//   pair    := u64 task_id, u64 version_id, u64 blocked_version_id, varint floor, varint approved
//
// Of devices of before: version 2 has pairs without `approved`; version 1 besides has neither
// tasks_max and interval_s nor refused statements, and no flag but PAIRS.
//
// `digest` is an order-free set hash of (task_id, version_id), of blocked versions and of refused
// statements; it is all the gateway needs in the common case. Pairs are sent when there are few of
// them (WIRE_PROFILE_INLINE_PAIRS) or when the last answer asked for them.
#ifndef WIRE_PROFILE_H
#define WIRE_PROFILE_H

#include "wire/attrs.h"
#include "wire/digest.h"

#define WIRE_PROFILE_VERSION       3
#define WIRE_PROFILE_VERSION_2     2
#define WIRE_PROFILE_VERSION_FIRST 1
#define WIRE_PROFILE_FLAG_PAIRS    0x01u
#define WIRE_PROFILE_FLAG_OWN_PACE 0x02u // nobody is to change its interval
#define WIRE_PROFILE_FLAG_AGAIN    0x04u // it knows marks (wire/trust/again.h)
#define WIRE_PROFILE_TASKS_MAX     256
#define WIRE_PROFILE_REFUSED_MAX   64
#define WIRE_PROFILE_INLINE_PAIRS  8
#define WIRE_PROFILE_BYTES_MAX     8192
#define WIRE_PROFILE_TEXT_MAX      BASE_B64_ENCODED(WIRE_PROFILE_BYTES_MAX)

struct wire_profile_pair {
    uint64_t task_id;
    uint64_t version_id;         // active version; 0: none
    uint64_t blocked_version_id; // version this device refuses because it failed here; 0: none
    uint64_t floor;              // no release of the task below it is followed
    uint64_t approved;           // release counter by which it has version_id; 0: none, or not said
};

struct wire_profile {
    uint8_t version; // 0, for writing: today's, or the first one when tasks_max is 0
    uint8_t flags;
    uint32_t tasks_max;  // it holds no more; 0: not said, the profile is of version 1
    uint32_t interval_s; // between its check-ins; 0 exactly when tasks_max is
    uint32_t task_count;
    uint64_t digest;
    const uint8_t
        *attrs; // raw attribute block, borrowed: hash it to find the cohort without parsing it
    size_t attrs_bytes;
    const uint8_t
        *pairs; // raw pairs, borrowed; read with wire_profile_pair_next; NULL without PAIRS
    size_t pairs_bytes;
    const uint8_t *refused; // marks, u64 each, borrowed; sent with the pairs alone
    uint32_t refused_count;
};

// Contribution of one task to the set digest; contributions add (mod 2^64), the empty set is 0. A
// task with neither an active nor a blocked version contributes 0, as if it were not there.
uint64_t wire_profile_term(uint64_t task_id, uint64_t version_id, uint64_t blocked_version_id);

// A statement is named by the hash of its envelope among those a device refuses. A version that
// failed here before the one that failed last is named there too, whatever statement it comes by.
uint64_t wire_profile_mark(const uint8_t *envelope, size_t size);
uint64_t wire_profile_version_mark(uint64_t task_id, uint64_t version_id);
// What either adds to the digest.
uint64_t wire_profile_refused_term(uint64_t mark);
// Does the device refuse the statement, or the version?
bool wire_profile_refuses(const struct wire_profile *profile, uint64_t mark);

// `pairs` NULL leaves them and what is refused out and clears the flag; the digest is computed by
// the caller from all tasks. attrs_bytes 0 writes the empty block. TOO_LARGE, INVALID.
BASE_NODISCARD enum base_status wire_profile_encode(const struct wire_profile *profile,
                                                    const struct wire_profile_pair *pairs,
                                                    uint8_t *out, size_t capacity,
                                                    size_t *out_size);
// Checks the frame (sizes, flags, pair count), and that no task and no refused statement is there
// twice; attributes are left raw. UNSUPPORTED version, INVALID, TRUNCATED.
BASE_NODISCARD enum base_status wire_profile_parse(const uint8_t *bytes, size_t size,
                                                   struct wire_profile *out);
// Iterates over the pairs of a profile that was read; `reader` initialised over them.
// INVALID/TRUNCATED on damage.
BASE_NODISCARD enum base_status wire_profile_pair_next(const struct wire_profile *profile,
                                                       struct base_reader *reader,
                                                       struct wire_profile_pair *out);

#endif
