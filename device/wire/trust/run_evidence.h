// The evidence of a simulate stage: what a run of virtual devices came to, signed, so that nobody
// types it. The simulator writes it, the gateway takes the counts of the stage from it.
//
// It is the payload of an envelope (wire/trust/statement.h, type EVIDENCE; the SHA-256 is signed),
// and it is bound to what was simulated: manifest and task, the target as canonical text
// (policy/target_text.h), the population by its seed, size and hash, the root that the devices were
// born with, and the simulator's version. It names no rollout: the same run may speak for several
// rollouts of the same version to the same target.
//
//   payload(EVIDENCE) := u8 format (2), text8 simulator, text8 task, manifest[32],
//                        u64 root_version, root[32], varint target_size, target,
//                        u64 seed, population[32], u64 drawn, u64 matched, u64 completed,
//                        u64 failed, u64 began_s, u64 ended_s,
//                        u8 class_count, class_count x { u8 outcome, u64 devices, text8 detail },
//                        u8 oracle_count, oracle_count x { text8 name, u8 holds }
//
// Classes ascend by outcome (wire/report.h, failures alone): how many of the failed devices failed
// first so, and what most of those said. Format 1 lacks the details; it is still read. Oracles have
// distinct names. root_version 0: no root, a pinned key; root[] is then zero.
#ifndef WIRE_RUN_EVIDENCE_H
#define WIRE_RUN_EVIDENCE_H

#include "wire/report.h"
#include "wire/trust/statement.h"

#define WIRE_EVIDENCE_FORMAT        2
#define WIRE_EVIDENCE_FORMAT_OLDEST 1
#define WIRE_EVIDENCE_DETAIL_MAX    96 // bytes of what a class says
#define WIRE_EVIDENCE_SIMULATOR_MAX 32
#define WIRE_EVIDENCE_TARGET_MAX    5120 // of canonical text
#define WIRE_EVIDENCE_CLASSES_MAX   32
#define WIRE_EVIDENCE_ORACLES_MAX   16
#define WIRE_EVIDENCE_ORACLE_MAX    32 // bytes of a name

struct wire_evidence_class {
    uint8_t outcome; // enum wire_outcome_kind, a failure
    uint64_t devices;
    struct base_str detail; // of most of them; empty: nothing was said
};

struct wire_evidence_oracle {
    struct base_str name;
    bool holds;
};

// Texts are borrowed: of the caller to encode, from the payload when parsed.
struct wire_evidence {
    uint8_t format;            // as it was parsed; to encode, 0 takes the newest
    struct base_str simulator; // version of walle-fleet-sim: "0.1.0"
    struct base_str task;
    struct wire_sha256 manifest;
    uint64_t root_version; // of the root the devices were born with; 0: none
    struct wire_sha256 root;
    struct base_str target; // canonical; empty: everybody
    uint64_t seed;
    struct wire_sha256 population; // of id and attributes of every device, in their order
    uint64_t drawn;                // devices drawn to find those that match
    uint64_t matched;              // by the target: the devices of the run
    uint64_t completed;            // of them: ran it, well or not
    uint64_t failed;               // of those
    uint64_t began_s;              // Unix seconds
    uint64_t ended_s;
    uint32_t class_count; // what is left of `failed` has none
    struct wire_evidence_class classes[WIRE_EVIDENCE_CLASSES_MAX];
    uint32_t oracle_count; // that were checked
    struct wire_evidence_oracle oracles[WIRE_EVIDENCE_ORACLES_MAX];
};

// Payload. INVALID (empty or unprintable texts, counts that do not fit together, a run that ended
// before it began), TOO_LARGE; of the parser also TRUNCATED, and UNSUPPORTED for another format.
BASE_NODISCARD enum base_status wire_evidence_encode(const struct wire_evidence *evidence,
                                                     uint8_t *out, size_t capacity,
                                                     size_t *out_size);
BASE_NODISCARD enum base_status wire_evidence_parse(const uint8_t *payload, size_t size,
                                                    struct wire_evidence *out);
// Are both versions of the same series, "0.1" of "0.1.0"?
bool wire_evidence_same_series(struct base_str a, struct base_str b);

#endif
