// What the pull keeps while it brings something, for its own files. Nothing of it is stored.
#ifndef DEV_PULL_STATE_H
#define DEV_PULL_STATE_H

#include "core/pull/device_pull.h"
#include "core/slots/device_repair.h"
#include "wire/trust/exclusive_files.h"

#define DEV_PULL_ATTEMPTS_MAX  8 // without progress, then the pull is given up until offered again
#define DEV_PULL_GAIN_BYTES    256           // that were never here before: progress
#define DEV_PULL_CORRUPT_MAX   2             // whole downloads with a wrong hash, then likewise
#define DEV_DELTA_BYTES_MIN    128           // smaller files come whole
#define DEV_DELTA_ATTEMPTS_MAX 3             // without a byte of a delta, then the file comes whole
#define DEV_HASH_SLICE_BYTES   (1024 * 1024) // of a partial blob hashed again in one tick

enum dev_pull_phase {
    DEV_PULL_IDLE,
    DEV_PULL_PICK,   // find the next blob that is missing
    DEV_PULL_REHASH, // hash what is there of it
    DEV_PULL_ASK,    // request the rest
    DEV_PULL_BODY,   // response under way
    DEV_PULL_DECODE, // make the blob from a delta
};

// What the pull brings now.
enum dev_pull_kind {
    DEV_PULL_SHARED,
    DEV_PULL_PROOF,     // which exclusive files there are for this device
    DEV_PULL_EXCLUSIVE, // their manifest, or one of them
};

// The difference that brings the blob of the pull.
struct dev_delta {
    struct wire_sha256 dictionary; // zero: the blob comes whole
    struct wire_sha256 name;       // under which the difference is stored
    struct wire_sha256 given_up;   // blob that no delta could make
    uint64_t have;                 // bytes stored of it
    void *decoder;                 // NULL: not decoding; otherwise the two are mapped
    const uint8_t *old_bytes;
    size_t old_size;
    const uint8_t *bytes;
    size_t size;
    uint8_t codings; // DEV_DELTA_*: there is memory for these
    bool asked;      // by the request under way
    bool body;       // the response under way is a delta
};

struct dev_pull {
    struct dev_delta delta;
    struct dev_hash_state hash;
    struct wire_sha256 blob;
    struct wire_sha256 root; // of the tree of exclusive files
    uint8_t proof[WIRE_PROOF_BYTES_MAX];
    uint32_t proof_bytes;
    uint32_t next;     // file that comes next in an answer with all of a version
    uint64_t version;  // id of the one that is brought
    uint64_t expected; // bytes of the blob
    uint64_t have;     // of these stored
    uint64_t hashed;
    uint64_t reached; // most that was ever stored of the blob, or of its delta
    uint64_t not_before_us;
    uint64_t deadline_us; // an exchange has brought DEV_RATE_WINDOW_BYTES more by then
    uint32_t exchange;
    uint32_t task;   // index
    uint32_t file;   // files before this one are complete
    uint32_t window; // bytes since the deadline was moved
    uint32_t source; // where content is asked for: one on with each failure
    uint32_t retry_after_s;
    int status;
    uint16_t gained;  // bytes beyond `reached` since the last progress, DEV_PULL_GAIN_BYTES at most
    uint8_t attempts; // since the last progress
    uint8_t corrupt;  // whole downloads that were worthless
    uint8_t phase;
    uint8_t kind;  // enum dev_pull_kind
    uint8_t copy;  // enum dev_pull_copy
    bool any_size; // the blob's size is not known; `expected` is the most it may have
    bool proving;  // the sealed blob is hashed again
    bool fresh;    // the blob was sealed by this pull
    bool reserved; // room for all of it
    bool required; // the version is not for a device without exclusive files
    bool refused;  // the response under way is of no use
    bool whole;    // ... is to have all of a version (pull_whole.c)
    bool single;   // this pull asks for content one by one
    struct dev_backoff backoff;
};

#endif
