// How a version failed on virtual devices, in the words of its runs: each way once, with the number
// of devices it was the first failure of. Few are told apart; what comes after them has no words.
//
// One per ledger, of the shard's thread while the run lasts; the coordinator adds them up.
#ifndef SIM_FAILURES_H
#define SIM_FAILURES_H

#include "base/str.h"
#include "wire/trust/run_evidence.h"

#define SIM_FAILURES_MAX 64 // ways that are told apart

struct sim_failure {
    uint64_t devices;
    uint8_t version;
    uint8_t outcome;                           // enum wire_outcome_kind, a failure
    char detail[WIRE_EVIDENCE_DETAIL_MAX + 1]; // printable ASCII; empty: no words
};

struct sim_failures {
    uint32_t count;
    struct sim_failure items[SIM_FAILURES_MAX];
};

// `detail` is cut at WIRE_EVIDENCE_DETAIL_MAX; what is not printable is shown as '?'.
void sim_failures_add(struct sim_failures *failures, uint8_t version,
                      enum wire_outcome_kind outcome, struct base_str detail);
void sim_failures_merge(struct sim_failures *into, const struct sim_failures *from);
// The way that most devices went of this version and outcome; NULL: none is known.
const struct sim_failure *sim_failures_top(const struct sim_failures *failures, uint8_t version,
                                           enum wire_outcome_kind outcome);

#endif
