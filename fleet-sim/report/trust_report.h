// What a run under a root says about trust: which roots there were, how many devices ended on
// which, what they refused. Coordinator's thread, after the shards ended.
#ifndef SIM_TRUST_REPORT_H
#define SIM_TRUST_REPORT_H

#include "model/ledger.h"
#include "model/root_chain.h"

#define SIM_TRUST_TEXT_MAX 400
#define SIM_ROOT_NUMBERS   256 // what a ledger entry can say

struct sim_trust_result {
    bool has_root;         // false: a key was pinned
    struct wire_root born; // texts are borrowed from the options and the shards' stores
    struct wire_root newest;
    uint64_t devices[SIM_ROOT_NUMBERS]; // that came online, by the root they ended on
    uint64_t online;
    char task[WIRE_TASK_NAME_MAX + 1]; // the task followed; empty: none was offered
};

// One sentence for people. Empty without a root.
void sim_trust_text(const struct sim_trust_result *trust, const struct sim_counters *counters,
                    char out[SIM_TRUST_TEXT_MAX]);

#endif
