// Slices of the fleet: which segments of an open stage are held.
//
// A look takes every slice of the stage with completions, asks the gate's questions of each on its
// own counts beside the stage's control, and puts the evidence into one test over all of them
// (pol_slices_reject). What is held is out of later looks and of the stage's counts, until somebody
// lifts it; what was lifted is not held again in that stage, whose gate judges it with the rest.
// Pure: the same look gives the same slices, so a replay of logged looks finds what was held, and
// where other limits had held something else.
#ifndef POL_SLICES_H
#define POL_SLICES_H

#include "policy/gate.h"

#define POL_HELD_MAX 16u // slices of one rollout

struct pol_slice {
    uint64_t name; // not 0
    // Completed, and failed among them; with LOGRANK all that were offered the version.
    struct pol_sample seen;
    // LOGRANK: pol_logrank_evidence of the slice's own blocks, which have the slice's devices of
    // both cohorts and are closed with the blocks of the stage.
    double rise;
};

// What a look sees. Slices without failures have no evidence: of them only the number matters.
struct pol_slices {
    uint32_t held_count;    // slices held already
    uint32_t count;         // slices with completions (LOGRANK: offers), those held among them;
                            // <= POL_SLICES_MAX
    uint32_t failing_count; // <= count
    uint64_t completed;     // such devices of the slices that are not held
    struct pol_slice failing[POL_SLICES_MAX]; // have failures, and are neither held nor lifted
};

struct pol_held {
    uint32_t count;
    uint64_t names[POL_HELD_MAX];
};

bool pol_held_has(const struct pol_held *held, uint64_t name);
// Adds what is not in it yet, while there is room.
void pol_held_add(struct pol_held *held, const struct pol_held *more);
// Takes a name out of those held and adds it to those lifted in this stage; when they are too many,
// the one lifted first is forgotten. False: it is not held.
bool pol_held_lift(struct pol_held *held, struct pol_held *lifted, uint64_t name);
bool pol_held_equal(const struct pol_held *a, const struct pol_held *b);

// The slices to hold from now on, in the order of `failing`. With
// SEQUENTIAL the false discovery rate is POL_GATE_SLICES_PERCENT of the gate's alpha, with
// THRESHOLD, which has none, POL_GATE_ALPHA_PPM. None when they make up half of all completions:
// then it is the release, and the gate decides; none when they were more than may be held.
//
// With LOGRANK each slice is compared with its own control, so that one that always failed more
// than others is let be; `control` is not read. The two questions have evidence of different kinds
// (over failures as they are heard of, over devices as they are offered), so that they are not
// averaged: e-BH is done for each at its part of the level, and the rates of their false
// discoveries add up. It holds at the first look that holds a slice, which the evidence itself may
// choose.
void pol_slices_judge(const struct pol_gate *gate, const struct pol_slices *slices,
                      const struct pol_sample *control, struct pol_held *out_found);

#endif
