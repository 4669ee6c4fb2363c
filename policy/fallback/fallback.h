// Device or cloud: from which confidence on a result of the device's small model stands; below it
// the input goes on to the cloud's big model. Pure: counts in, a choice out.
//
// The threshold is chosen from labelled scores: inputs whose right answer is known, with what both
// models said and how confident the small one was. Counts go into cuts, thresholds that were fixed
// before anything was seen. A cut is taken when the scores show that it does what is asked, and not
// merely on average of this sample.
//
// Why the choice holds. Cuts are tried from the one that sends everything towards the one that
// sends nothing, each at the whole level, and the first that is not shown ends it (fixed-sequence
// testing; Angelopoulos, Bates, Candes, Jordan, Lei, "Learn then Test", 2021). To choose wrongly,
// the first wrong cut must have been shown, whose chance is at most alpha. The scores must be drawn
// from the inputs that the rule is for, each by itself, and may not be those that either model
// learnt from.
#ifndef POL_FALLBACK_H
#define POL_FALLBACK_H

#include "policy/stat/binomial.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POL_FALLBACK_NEVER  0u       // the device's result always stands
#define POL_FALLBACK_ALWAYS 1000001u // it never does: above every confidence

// One input with a label.
struct pol_scored {
    uint32_t confidence_ppm; // of the device's model; at most 1,000,000
    bool device_right;
    bool cloud_right;
};

// What becomes of scored inputs when the device's result stands from `confidence_ppm` on.
struct pol_cut {
    uint32_t confidence_ppm;
    uint64_t sent;
    uint64_t right;  // answers, of whoever gave them
    uint64_t lost;   // not sent and wrong, where the cloud is right
    uint64_t gained; // not sent and right, where the cloud is wrong
};

#define POL_CUTS 119

// Cuts by rising threshold, the first POL_FALLBACK_NEVER, the last POL_FALLBACK_ALWAYS: steps of a
// hundredth, above 0.99 of a thousandth, above 0.999 of a ten-thousandth.
struct pol_cuts {
    uint64_t total;
    struct pol_cut at[POL_CUTS];
};

void pol_cuts_init(struct pol_cuts *out_cuts);
// Before pol_cuts_sum: counts one more.
void pol_cuts_add(struct pol_cuts *cuts, struct pol_scored scored);
// Once, behind the last: from counts between thresholds to those of cuts.
void pol_cuts_sum(struct pol_cuts *cuts);

enum pol_aim {
    POL_AIM_ACCURACY, // right answers: at least `aim` of all
    POL_AIM_WITHIN,   // right answers: at most `aim` of all fewer than the cloud alone
    POL_AIM_SHARE,    // sent: at most `aim` of these inputs; the largest such cut
    POL_AIM_COUNT
};

// Index of the cut that does it with the fewest sent, at level `alpha`; POL_CUTS: none does, or the
// scores do not show it. `aim` in 0 to 1; cuts->total > 0.
size_t pol_cuts_choose(const struct pol_cuts *cuts, enum pol_aim aim, double value, double alpha);
// Intervals at one cut, for all cuts together: a picture of all of them is wrong somewhere with a
// chance of at most `alpha` (Bonferroni).
struct pol_interval pol_cut_accuracy(const struct pol_cuts *cuts, size_t index, double alpha);
struct pol_interval pol_cut_share(const struct pol_cuts *cuts, size_t index, double alpha);

#endif
