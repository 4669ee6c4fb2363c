// What the files of trust share: device_trust.c, which brings metadata; trust_store.c, which keeps
// it; trust_judge.c, which judges by it.
#ifndef DEV_TRUST_PARTS_H
#define DEV_TRUST_PARTS_H

#include "core/trust/device_trust.h"

#define DEV_ROOT_STEPS_MAX 256 // of the root chain in one cycle; the next cycle goes on
#define DEV_CROSSED_MAX    6   // times in one cycle that what came crossed what was published
#define DEV_TRUST_LOOK_US  (60 * 1000000ull) // between two looks for keys that are not known

enum dev_trust_phase {
    DEV_TRUST_IDLE,
    DEV_TRUST_NEXT, // asks for all that comes next: a root, or the timestamp with the snapshot
    // A gateway that knows no such question is asked one by one.
    DEV_TRUST_ROOT, // asks for the next root until there is none
    DEV_TRUST_TIMESTAMP,
    DEV_TRUST_SNAPSHOT, // also in the answer to NEXT, behind the timestamp
    DEV_TRUST_ENOUGH,   // nothing is missing behind the timestamp: the answer is to end
};

// What only a device with a root needs: behind the tasks in the caller's memory.
struct dev_trust_work {
    struct wire_director director;
    // Of its question, which goes before it: when it went out, by both clocks. Then when the answer
    // came, by the time that leases go by, and whether it holds for what it was asked.
    uint64_t asked_us;
    uint64_t asked_s;
    uint64_t answered_s;
    bool holds;
    uint8_t buffer[WIRE_NEXT_HEAD_BYTES + WIRE_META_BYTES_MAX];
    struct wire_root born; // of the settings, unless who gave it had opened it
};

struct dev_trust {
    // Stored.
    uint64_t root_version;
    uint64_t timestamp_version; // 0: none
    uint64_t timestamp_expires_s;
    uint64_t order;               // of the last director's answer that was followed
    struct wire_sha256 root;      // blob of the newest root; zero: the one of the settings
    struct wire_sha256 timestamp; // blob; zero: none
    // Not stored.
    struct dev_trust_work *work; // NULL without a root
    struct dev_hash_state hash;  // of the snapshot under way
    struct wire_sha256 snapshot; // under way
    uint64_t snapshot_bytes;
    uint64_t deadline_us;
    uint64_t not_before_us;
    uint64_t look_not_before_us; // for a newer root, for a signature's sake
    size_t fill;
    size_t window; // bytes since the deadline was moved
    uint32_t exchange;
    uint32_t steps;   // of the root chain in this cycle
    uint32_t crossed; // times in this cycle that what came was older, or not what was just named
    int status;
    uint8_t phase;
    bool wanted;      // a cycle is to be done
    bool lost;        // `root` is named, and not here: it is brought first, by its hash
    bool late;        // a timestamp or snapshot had run out, and none was taken since
    bool overdue;     // the answer under way came under a root that ran out
    bool changed;     // something new came in this cycle: check in again
    bool misdirected; // it began with one that does not: what follows is not looked at
    bool directed;    // the answer under way began with a director's answer that holds
    bool asked;       // a nonce is out
    bool brought;     // metadata comes with the answer to a check-in: `fill` bytes are here
    uint8_t nonce[WIRE_NONCE_BYTES];
    uint8_t scenario_size; // whose snapshot is missing; 0: none
    char scenario[WIRE_SCENARIO_MAX];
    uint64_t untaken; // hash of the scenario whose snapshot was refused last; 0: none
    struct dev_backoff backoff;
    struct dev_backoff mending; // of cycles that damaged metadata asks for
    uint64_t damaged_us;        // it was found so last; 0: never since boot
};

// Asks for a cycle when the timestamp ran out. Called after a check-in.
void dev_trust_age(struct dev_runtime *runtime);
// Something signed was refused: counted, logged, and reported once.
void dev_trust_refused(struct dev_runtime *runtime, const char *what, enum base_status status);

#endif
