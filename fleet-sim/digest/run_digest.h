// What happened in a run in virtual time, as numbers that two runs can be compared by.
//
// Each line (a shard, or the gateway's core) has a recorder, which takes its events in their order:
// a wake, a request, an answer, the end of a task's run, a state that was saved. The events of a
// line and a second come to one leaf of 128 bits; a second without events has the leaf zero. The
// digest of the run is the root of a tree over all leaves. It is no proof against an adversary: the
// hash is not cryptographic. It says whether two runs are the same, and where they part.
//
// digest.bin, in the folder of the run's reports, has the leaves, little-endian:
//   file := "WSIMDIGE", u32 version(1), u32 lines, u32 seconds, u32 shards, leaf for each line of
//           each second
//   leaf := u64, u64
// Lines are the shards in their order, then the core. The last second is what became of each
// device.
//
// Threads. A recorder belongs to whoever runs its line; the rest is the coordinator's, while no
// line runs.
#ifndef SIM_RUN_DIGEST_H
#define SIM_RUN_DIGEST_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_DIGEST_FILE        "digest.bin"
#define SIM_DIGEST_HEX         32
#define SIM_DIGEST_LINES_MAX   256
#define SIM_DIGEST_SECONDS_MAX (1u << 20) // twelve days
#define SIM_DIGEST_BYTES_MAX   (1u << 30) // of the file
#define SIM_TRACE_FILE         "trace.txt"

enum sim_event_kind {
    SIM_EVENT_WAKE,    // value: wakes of the device before
    SIM_EVENT_REQUEST, // ... enum sim_exchange_kind
    SIM_EVENT_ANSWER,  // ... HTTP status
    SIM_EVENT_FAULT,   // ... enum base_status of an exchange without an answer
    SIM_EVENT_RUN,     // ... enum wire_outcome_kind
    SIM_EVENT_SAVED,   // ... hash of the state
    SIM_EVENT_KILLED,  // ... wakes so far
    SIM_EVENT_HANDLED, // the core took a request: hash of what was asked
    SIM_EVENT_REPLIED, // the core answered: hash of what it said
    SIM_EVENT_BECAME,  // at the end: hash of the device's record in the ledger
    SIM_EVENT_STREAM,  // bytes of a tunnel's stream, sent or come: their hash
    SIM_EVENT_KIND_COUNT
};

struct sim_event {
    uint64_t at_us; // since the start of the run
    uint64_t index; // of the device in the population
    uint64_t value;
    enum sim_event_kind kind;
};

struct sim_leaf {
    uint64_t words[2];
};

// Zeroed: it takes nothing.
struct sim_recorder {
    struct sim_leaf *leaves; // by second
    uint32_t capacity;
    uint32_t count; // seconds that have a leaf, the one that lasts included
    uint64_t start_us;
    bool taking;
    bool lost;       // out of memory, or the run is too long: the digest says nothing
    uint32_t second; // that is traced
    FILE *trace;     // NULL: none
};

// Takes events from now on.
void sim_recorder_begin(struct sim_recorder *recorder, uint64_t start_us);
void sim_recorder_done(struct sim_recorder *recorder);
// One more event, never before the last one. `at_us` is of the line's clock.
void sim_recorder_take(struct sim_recorder *recorder, uint64_t at_us,
                       const struct sim_event *event);
// Name of a kind, as a trace has it.
const char *sim_event_name(enum sim_event_kind kind);

// The leaves of all lines. Zeroed is empty.
struct sim_digest {
    uint32_t lines;
    uint32_t seconds;
    struct sim_leaf *leaves; // those of a second lie together
};

// NOMEM; LIMIT: a recorder lost something.
BASE_NODISCARD enum base_status sim_digest_make(struct sim_recorder *const *recorders,
                                                uint32_t count, struct sim_digest *out);
void sim_digest_done(struct sim_digest *digest);
// Root of the tree, in hex.
void sim_digest_root(const struct sim_digest *digest, char out[SIM_DIGEST_HEX + 1]);
// FOLDER/digest.bin. NOMEM, IO, FULL.
BASE_NODISCARD enum base_status sim_digest_write(const struct sim_digest *digest,
                                                 const char *folder, struct base_error *error);
// CORRUPT: it is none, or of another version; NOT_FOUND, NOMEM, IO, TOO_LARGE.
BASE_NODISCARD enum base_status sim_digest_read(const char *folder, struct sim_digest *out,
                                                struct base_error *error);
// Where two runs part first: the earliest second, and its first line that differs. False: nowhere.
bool sim_digest_part(const struct sim_digest *a, const struct sim_digest *b, uint32_t *out_line,
                     uint32_t *out_second);

#endif
