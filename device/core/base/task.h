// The record of a task: what the device holds of it, by which statements, and what came of it.
// Which part of the runtime writes which member stands at struct dev_task; what of it is stored
// says device_state.c.
#ifndef DEV_TASK_H
#define DEV_TASK_H

#include "core/base/update_state.h"
#include "wire/cloud/cloud_counts.h"
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

// A version that is here.
struct dev_version {
    struct wire_sha256 manifest;  // zero: none
    struct wire_sha256 exclusive; // manifest of its exclusive files; zero: none
    struct dev_approval by;       // the statement that it is here by
    uint64_t rollout;             // that what comes of it is told for
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

// The versions of the task, as the slots part keeps them, and what is known of them.
struct dev_slots {
    struct dev_version active; // runs
    struct dev_version kept;   // last good one beside it
    uint64_t floor;            // no release below it is followed: of what ran well here
    uint64_t active_floor;     // that the statement of `active` names; the task's once that ran
    uint64_t blocked;          // version id that is refused, because it failed here last; those
                               // before it are among the refusals
    struct dev_again again;    // the last mark that was followed
    uint32_t every_s;          // of the active version
    uint8_t state;             // enum dev_update_state
    bool triggered;            // behaviour starts the active version too
    bool placebo; // that mark was of the active version: what comes of it is told for its rollout
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

// What the active version decided between device and cloud since its activation.
struct dev_clouds {
    struct wire_cloud_counts counts;
    uint16_t told; // .counts.asked when they were told last; 0: never
};
_Static_assert(sizeof(struct dev_clouds) <= sizeof(struct wire_tolerances),
               "it takes no room of its own in a task's runs");

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
    struct dev_beside beside;
    union {
        struct wire_tolerances tolerances; // of a shadow
        struct dev_clouds clouds;          // of any other; a shadow decides nothing
    };
    uint8_t crashes;    // on trial
    uint8_t references; // runs of the active version for this shadow alone
    bool reference;     // the run that is due is one of these
    bool running;       // one on trial was started and has not ended
    bool beside_quiet;  // of the result in `beside` nothing is told
};

// Of the stored content of the versions, what the slots part knows or doubts; not stored.
struct dev_content {
    uint8_t unproven;       // versions whose content is to be hashed again
    uint8_t damaged;        // ... is known to be damaged: if it is the active one, it does not run
    uint8_t repairs;        // of the active version since a run of it was good
    uint8_t renewed;        // times since boot it was mended or activated again, modulo 256
    uint32_t damage_mark;   // of the file told last; 0: none
    uint64_t repair_due_us; // not before
};

// What the device holds of one task, or of its shadow: that is a task of the same name with an id
// of its own, whose active version is the shadow.
//
// Who it is stands there from when the offer gave it a place. Each of the other members is written
// by the part of the runtime (folder of device/core) that is named behind it, and by no other:
// those call what its header offers, or tell it what happened (core/base/part.h). The reader of the
// stored record fills in what is stored.
struct dev_task {
    uint64_t id;
    struct dev_slots slots;       // slots
    struct dev_content content;   // slots
    struct dev_offer offer;       // offer
    struct dev_incoming incoming; // pull
    struct dev_runs runs;         // run
    struct dev_lease lease;       // trust
    uint64_t listed;              // trust: highest counter a snapshot listed for the task
    bool shadow;
    uint8_t name_size;
    char name[WIRE_TASK_NAME_MAX];
};

#endif
