// The stages of a model's release and what each of them asks, and the JSON that says so:
//
//     {"version": 3, "reason": "...",
//      "stages": [{"shadow": 0.1, "min_calls": 500, "max_differ": 0.01},
//                 {"share": 0.05, "min_s": 60, "max_rise": 0.01, "max_slow": 1.5}],
//      "tolerance": {"absolute": 0.001, "relative": 0.0001}}     or {"argmax": true}
//
// The machine that goes through stages is policy/rollout.h's and the tests are those of its gates:
// a caller's share is a gray stage, shadows alone are a shadow stage. Pure; any thread.
#ifndef GW_RELEASE_PLAN_H
#define GW_RELEASE_PLAN_H

#include "base/error.h"
#include "infer/split/infer_agree.h"
#include "infer/split/infer_split.h"
#include "policy/rollout.h"

#include <jansson.h>

#define GW_RELEASE_STAGES_MAX    POL_STAGES_MAX
#define GW_RELEASE_SHARE_MAX     0.9 // of callers: the rest are who the candidate is compared with
#define GW_RELEASE_CALLS_MAX     1000000000u
#define GW_RELEASE_SECONDS_MAX   (30u * 24 * 3600) // of min_s
#define GW_RELEASE_SLOW_MAX      100.0             // of max_slow
#define GW_RELEASE_TOLERANCE_MAX 1e300
#define GW_RELEASE_PER_CALLER    50u // calls of one caller count in each arm, where none is named

struct gw_release_stage {
    double share;  // of callers; 0: none
    double shadow; // of the other calls
    uint32_t min_calls;
    uint32_t min_s;
    double max_rise;     // of the share of calls that fail, over that of the serving version
    double max_slow;     // times the serving version's p99; 0: not asked
    double max_differ;   // share of shadows that differ or fail
    uint32_t per_caller; // so many calls of one caller count in each arm; 0: all
    bool hold;           // when it fails: paused, not rolled back
    bool pause;          // when it passed: paused until somebody promotes it
};

struct gw_release_plan {
    struct gw_release_stage stages[GW_RELEASE_STAGES_MAX];
    uint32_t count;
    struct gw_infer_agree agree;
};

// Of an object's "stages" and "tolerance", where they are: others are the default's, which are
// shadows, then 1 %, 10 % and half of the callers. INVALID with the member that is wrong.
BASE_NODISCARD enum base_status
gw_release_plan_read(const json_t *body, struct gw_release_plan *out, struct base_error *error);
// Adds the same two members to `body`. False: no memory.
bool gw_release_plan_write(const struct gw_release_plan *plan, json_t *body);

// The stages of the machine; their gates are the question's that is asked (release_gate.h).
void gw_release_plan_stages(const struct gw_release_plan *plan,
                            struct pol_stage out[GW_RELEASE_STAGES_MAX]);
uint16_t gw_release_buckets(double share); // at least 1 of a share that is not 0

#endif
