// Replay: the rollout machine run again over a recorded log.
//
// The log of a rollout holds, in order, every input that decided (counts as they were judged, those
// of slices too, operators' commands, the clock) and what was decided. Every decision is a pure
// function of that list: running it again over the same stages gives the same decisions, and over
// other stages (a stricter limit, another alpha) it tells where they would have differed. From the
// first difference on, the recorded counts are those of a world that did not happen; a what-if ends
// there.
#ifndef POL_REPLAY_H
#define POL_REPLAY_H

#include "policy/rollout.h"
#include "policy/slices.h"

enum pol_record_kind {
    POL_RECORD_NOTE,    // decided nothing by itself: creation, the result of a simulation
    POL_RECORD_TICK,    // time and counts
    POL_RECORD_COMMAND, // an operator's
    POL_RECORD_CLOCK,   // the clock had gone back: the stage began at now_us
    POL_RECORD_SLICES,  // a look at the slices of the open stage: `slices`, and control in `counts`
    POL_RECORD_LIFT,    // an operator's: the slices in `held` are held no more
    POL_RECORD_KIND_COUNT
};

struct pol_record {
    enum pol_record_kind kind;
    enum pol_command command; // COMMAND
    uint64_t now_us;
    struct pol_counts counts; // TICK, SLICES
    struct pol_slices slices; // SLICES
    struct pol_held held;     // SLICES: found to be bad, and held from then on; LIFT
    // What was decided then.
    enum pol_action action;
    enum pol_verdict verdict;
    enum pol_reason reason;
    struct pol_rollout after;
};

struct pol_replay {
    struct pol_rollout rollout; // as the replay has it
    struct pol_held held;       // likewise
    struct pol_held lifted;     // since the stage opened
    struct pol_held found;      // by the last record
    uint64_t records;
    uint64_t decisions;   // records that moved the rollout, or held a slice
    uint64_t differences; // records on which replay and log disagree
    bool apart; // they differ in what they did: what the log says next comes of another past
};

// At the beginning: a draft.
void pol_replay_init(struct pol_replay *replay, uint64_t created_us);
// Runs one record. *out_differs says whether action, verdict, reason, the state after it or the
// slices held are other than recorded, or the record does not fit what came before it.
struct pol_decision pol_replay_step(struct pol_replay *replay, const struct pol_stage *stages,
                                    uint32_t stage_count, const struct pol_record *record,
                                    bool *out_differs);
bool pol_rollout_equal(const struct pol_rollout *a, const struct pol_rollout *b);

#endif
