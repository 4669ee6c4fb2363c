// The record of a task: what the device holds of it, by which statements, and what came of it.
// Which part of the runtime writes which member stands at struct dev_task; what of it is stored
// says device_state.c.
#ifndef DEV_TASK_H
#define DEV_TASK_H

#include "core/base/update_state.h"
#include "wire/digest.h"
#include "wire/tolerance.h"
#include "wire/trust/statement.h"

// Bits of dev_content.unproven and .damaged.
#define DEV_UNPROVEN_ACTIVE 1u
#define DEV_UNPROVEN_KEPT   2u

// A signed statement that the device followed: whose content it was is beside it.
struct dev_approval {
    uint64_t counter; // 0: none, or not known
    uint64_t rollout_id;
};

// The run of the active version that its shadow is compared with.
struct dev_beside {
    uint64_t digest; // of the result
    uint64_t duration_us;
    uint32_t run_index;
    uint32_t heap_peak_bytes;
};

// A mark that was followed, or is to be.
struct dev_again {
    uint64_t rollout_id; // 0: none
    uint8_t attempt;
};

// The lease of the accepted version, as the trust part keeps it: without one it runs as long as it
// may, and with one only while `until_s` is ahead.
struct dev_lease {
    bool held;
    uint8_t stage;    // stage kind of the accepted statement
    uint64_t until_s; // since 1970
};

// What was followed of the task's statements and marks, as the offer part keeps it.
struct dev_offer {
    struct wire_sha256 accepted; // the version that the last accepted statement names
    struct dev_approval accepted_by;
    uint64_t accepted_floor;    // that the statement names; the task's once the version ran
    struct dev_approval newest; // of the highest counter ever
    struct wire_sha256 newest_manifest;
    struct dev_again again;  // a mark, followed when the content of the active version is proven
    uint32_t accepted_bytes; // of the manifest
    bool made;               // by the check-in under way; not stored
    bool moved;              // another version came into place since that began; not stored
    bool over;               // this shadow is to be dropped; not stored
};

// The pull of the accepted version, as the pull part keeps it beside its lane.
struct dev_incoming {
    struct wire_sha256 exclusive; // manifest of its exclusive files; zero: none
    uint32_t exclusive_bytes;
    bool asked;            // whose these are, which is so only while it is pulled
    bool failure_reported; // of the accepted statement
    bool leftover; // content of a pull that was given up is there, for when it is offered again
};

// The runs of the active version, and of a shadow how it compares, as the run part keeps them.
struct dev_runs {
    uint64_t due_us;       // UINT64_MAX: not due
    uint64_t last_s;       // when the last one ended, since 1970; 0: none did
    uint64_t failure_mark; // of the last failure reported; 0: none
    uint64_t shadow_us;    // time of all runs of the shadow
    uint64_t beside_us;    // ... and of those beside them
    uint32_t count;        // since its activation
    uint16_t slow_percent; // of the shadow's statement
    uint16_t memory_percent;
    struct wire_tolerances tolerances;
    struct dev_beside beside;
    uint8_t crashes;    // on trial
    uint8_t references; // runs of the active version for this shadow alone
    bool reference;     // the run that is due is one of these
    bool running;       // one on trial was started and has not ended
};

// Of the stored content of the versions, what is known or doubted; not stored.
struct dev_content {
    uint8_t unproven;       // versions whose content is to be hashed again
    uint8_t damaged;        // ... is known to be damaged: if it is the active one, it does not run
    uint8_t repairs;        // of the active version since a run of it was good
    uint8_t renewed;        // times since boot it was mended or activated again, modulo 256
    uint32_t damage_mark;   // of the file told last; 0: none
    uint64_t repair_due_us; // not before
};

// What the device holds of one task, or of its shadow: that is a task of the same name with an id
// of its own, whose active version is the shadow. All but the members behind the name is stored.
//
// A part of the runtime (a folder of device/core) writes its own members and asks the owner for a
// change of others. Three are written by their owner alone, which tests/tidy sees to:
//   trust  lease
//   slots  content
//   run    runs
// Of the others some have a second writer still, named behind the owner:
//   trust  listed
//   slots  state, floor, blocked, kept..., again, placebo, moved, every_s, triggered, active...;
//          offer: the statement by which a version is active that it names again, and `moved` anew
//          for each check-in; run: what a shadow was blocked for; sweep: the floor of a task that
//          comes back
//   offer  id, name, shadow, accepted..., newest..., again_next, offered, over; slots: empties what
//          was followed; run: a shadow that is over; sweep: `newest` of a task that comes back
//   pull   accepted_asked, accepted_exclusive..., failure_reported, leftover; offer and slots:
//          anew for each statement; sweep: a leftover that is collected
// The reader of the stored record fills in what is stored.
struct dev_task {
    uint64_t id;
    uint64_t floor;            // no release below it is followed: of what ran well here
    uint64_t active_floor;     // that the statement of `active` names; the task's once that ran
    struct wire_sha256 active; // runs
    struct wire_sha256 kept;   // last good one beside it
    // By which statement each of the three is here, and the one of the highest counter ever.
    struct dev_approval active_by;
    struct dev_approval kept_by;
    // Exclusive manifests of the three; zero: no exclusive files. The last one is known once
    // accepted_asked is set, which is only while it is pulled.
    struct wire_sha256 active_exclusive;
    struct wire_sha256 kept_exclusive;
    uint64_t active_rollout;
    uint64_t kept_rollout;
    uint64_t blocked; // version id this device refuses, because it failed here last; those before
                      // it are among the refusals
    uint32_t every_s; // of the active version
    uint8_t state;    // enum dev_update_state
    bool triggered;   // behaviour starts the active version too
    struct dev_lease lease;
    uint64_t listed;        // highest counter a snapshot listed for the task
    struct dev_again again; // the last mark that was followed
    bool placebo; // ... was of the active version: what comes of it is told for that rollout
    bool shadow;
    uint8_t name_size;
    char name[WIRE_TASK_NAME_MAX];
    struct dev_content content;
    struct dev_runs runs;
    struct dev_offer offer;
    struct dev_incoming incoming;
};

#endif
