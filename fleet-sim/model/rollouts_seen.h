// The rollouts that a run saw, by what the gateway says of them once a second: those that were
// under way while it lasted, those that began, those whose state changed. What had ended before is
// known as old, so that a run is not judged by it.
//
// Owned by the coordinator's thread, as the watch is. At most SIM_ROLLOUTS_MAX are kept: old ones
// make place for others, and beyond that new ones are counted.
#ifndef SIM_ROLLOUTS_SEEN_H
#define SIM_ROLLOUTS_SEEN_H

#include "wire/digest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_ROLLOUTS_MAX        256
#define SIM_ROLLOUT_VERSION_MAX 64
#define SIM_ROLLOUT_STATE_MAX   24
#define SIM_ROLLOUT_STAGE_MAX   64
#define SIM_ROLLOUT_REASON_MAX  160
#define SIM_ROLLOUT_STAGES_MAX  2048 // in words, of all of them

// What the gateway counts of a rollout's devices, by what it heard of them.
struct sim_gateway_counts {
    uint64_t offered;
    uint64_t succeeded;
    uint64_t failed;    // with those that did not answer in time
    uint64_t under_way; // no answer: still in time, or silent since they activated it
    uint64_t rolled_back;
    uint64_t on_version;
    uint64_t unproven; // in none of the others: they did not show who they are
};

struct sim_rollout_seen {
    uint64_t id;
    uint64_t created_s; // by the gateway's clock
    char task[WIRE_TASK_NAME_MAX + 1];
    char version[SIM_ROLLOUT_VERSION_MAX];
    char manifest[WIRE_SHA256_HEX + 1];
    char state[SIM_ROLLOUT_STATE_MAX]; // the last one that was heard of
    char stage[SIM_ROLLOUT_STAGE_MAX];
    char reason[SIM_ROLLOUT_REASON_MAX];
    char stages[SIM_ROLLOUT_STAGES_MAX]; // each with its gate; empty: the gateway did not say
    bool old;                            // it was over before the run looked first
    bool uncounted; // devices ran it, and its gate counts none of them: they are strangers to it
    struct sim_gateway_counts counts; // of now
    struct sim_gateway_counts before; // ... when the run looked first; all 0: it began later
};

struct json_t;

struct sim_rollouts_seen {
    struct sim_rollout_seen items[SIM_ROLLOUTS_MAX];
    uint32_t count;
    uint32_t left_out;
    bool begun;            // the gateway has answered once
    uint64_t begun_with_s; // the newest rollout then was created at this moment
};

// `bytes` is one rollout or a page of them, as the gateway sent it; what is not understood changes
// nothing.
void sim_rollouts_take(struct sim_rollouts_seen *seen, const char *bytes, size_t size);
// Likewise, parsed; NULL: it was no JSON.
void sim_rollouts_read(struct sim_rollouts_seen *seen, const struct json_t *root);
// What the gateway counts since the run looked first, in *out. False: it named no such rollout.
bool sim_rollouts_said(const struct sim_rollouts_seen *seen, uint64_t id,
                       struct sim_gateway_counts *out);
void sim_gateway_counts_since(const struct sim_rollout_seen *rollout,
                              struct sim_gateway_counts *out);
// Does this state end a rollout? One that is guarded may yet go back, so its state is told last.
bool sim_rollout_over(const char *state);
// It was taken back, or is being.
bool sim_rollout_back(const char *state);

#endif
