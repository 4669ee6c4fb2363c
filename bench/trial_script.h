// A rollout of one stage as it will happen to its devices: who comes when, what becomes of it, when
// that is heard of. All of it is drawn from a seed before anything is played, so that the gateway's
// core (core_play.h) and its blocks alone (trial_play.h) can be shown the same rollout.
//
// Half of the fleet is the stage's share and half its control band: the stage is as large as the
// cell says. Every device has the old version and comes once, in the first COME_S seconds; what
// becomes of it is reported when the cell's delay is over, unless the report is lost. One thread.
#ifndef TRIAL_SCRIPT_H
#define TRIAL_SCRIPT_H

#include "trial_cell.h"

#include "policy/rollout.h"

#define TRIAL_SCRIPT_INTERVAL_S 60u // between check-ins, as devices are told: blocks are a tenth
#define TRIAL_SCRIPT_COME_S     120u
#define TRIAL_SCRIPT_WINDOW_S   180u
#define TRIAL_SCRIPT_STEPS                                                                         \
    (TRIAL_SCRIPT_COME_S + TRIAL_SCRIPT_WINDOW_S + TRIAL_SCRIPT_INTERVAL_S / 10 + 5)
#define TRIAL_SCRIPT_BEGIN_S UINT64_C(1700000005) // Unix time of step -1
#define TRIAL_SCRIPT_ID      UINT64_C(0x22)       // the rollout
#define TRIAL_SCRIPT_NONE    UINT32_MAX
#define TRIAL_SCRIPT_MODELS  8u

#define TRIAL_SCRIPT_MODEL_MAX 8u

struct trial_device {
    uint64_t id;
    uint32_t next_to_come; // at the same step
    uint32_t next_to_report;
    uint32_t offered_s; // of whoever plays it
    uint8_t model;
    bool updated; // by its bucket
    bool fails;
    bool drawn; // into the trial, when it came: whoever plays the script says so
};

struct trial_script {
    uint32_t capacity;
    uint32_t count;
    struct trial_device *devices;
    uint32_t comes[TRIAL_SCRIPT_STEPS]; // first device of each step, a second long; else NONE
    uint32_t reports[TRIAL_SCRIPT_STEPS];
    uint64_t segments[TRIAL_SCRIPT_MODELS]; // of the devices of each model
};

struct trial_script *trial_script_new(uint32_t devices_max); // of both cohorts; NULL: no memory
void trial_script_free(struct trial_script *script);         // accepts NULL
// 2 * cell->devices <= devices_max, else false.
bool trial_script_draw(struct trial_script *script, const struct trial_cell *cell, uint64_t seed);
// Is there something to look at, at this step? What it brings is judged in the next one; now and
// then one looks without.
bool trial_script_is_due(const struct trial_script *script, uint32_t step);
// The value of the attribute `model`, by which devices are in segments.
void trial_script_model(uint32_t model, char out[TRIAL_SCRIPT_MODEL_MAX]);
// The one stage, and one behind it that waits for an approval.
void trial_script_stages(const struct pol_gate *gate, struct pol_stage out[2]);

// How a rollout ended.
struct trial_seen {
    bool stopped; // the rollout went back, ever
    bool passed;  // the stage did
    enum pol_reason reason;
    uint32_t steps; // until then, or all
    uint32_t held;  // segments
    struct pol_trial trial;
};
bool trial_seen_equal(const struct trial_seen *a, const struct trial_seen *b);

#endif
