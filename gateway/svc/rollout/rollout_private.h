// A rollout as the control thread knows it. Only files of gateway/svc include this.
#ifndef GW_ROLLOUT_PRIVATE_H
#define GW_ROLLOUT_PRIVATE_H

#include "policy/slices.h"
#include "svc/plan/draw.h"
#include "svc/plan/kept_off.h"
#include "svc/plan/release.h"
#include "svc/rollout/rollouts.h"
#include "svc/tally/offers.h"

// What a look at a stage's segments depends on: unchanged, it would see the same.
struct gw_segments_asked {
    uint64_t succeeded;
    uint64_t failed;
    struct pol_sample control;
    struct pol_trial trial; // with LOGRANK
};

// How far the offers of a rollout to devices of one standing are.
struct gw_rollout_pace {
    struct pol_pace_state state;
    bool begun;       // the next two are set
    uint64_t made;    // of the release's offers when pacing began in this process
    uint64_t offered; // ... and what the tally had then
};

// Of a rollout that goes back, or is back: how far had it come? Found when it is asked.
enum gw_rollout_start {
    GW_START_UNKNOWN,
    GW_START_NEVER,  // a draft
    GW_START_STAGES, // in a stage
    GW_START_FULL,   // complete, or guarded: a baseline
};

// Of a rollout that goes back (way_back.h).
struct gw_spared {
    uint64_t since_us;   // of the way back that was looked at
    uint64_t signature;  // of the plan's task then
    uint64_t on_version; // counted on the version when the pass began
    uint64_t devices;    // ... of them, and not waited for
};

struct gw_rollout {
    const struct gw_release *release;
    struct gw_task *task;
    struct pol_rollout state; // times are gw_core_now_us
    enum pol_verdict verdict;
    enum pol_reason reason;
    enum pol_reason cause; // see struct gw_rollout_view
    uint32_t failure_ppm;
    uint64_t created_us;
    uint64_t rollback_since_us; // 0: never rolled back
    uint64_t closed_us;         // completed or rolled back; 0: open
    bool accept_empty;          // its start need not reach a known device
    struct gw_simulation simulation;
    uint64_t log_seq; // of the last line
    uint64_t revision;
    char created_by[GW_LOG_BY_MAX + 1];
    struct pol_hazard control_hazard; // of the control cohorts of the stages before
    struct pol_test_report shown;
    struct pol_counts observed; // logged last
    uint64_t observed_us;
    enum pol_verdict observed_verdict;
    enum pol_reason observed_reason;
    uint32_t quarantine_count;
    struct gw_quarantined quarantine[GW_QUARANTINE_MAX];
    struct pol_held lifted;                  // out of quarantine, in the stage that is open
    struct gw_segments_asked segments_asked; // when they were last looked at
    uint64_t segments_logged; // failures in the last look that was logged; 0: none of this stage
    struct gw_rollout_pace paces[GW_STANDING_COUNT];
    struct gw_offers *allowances; // of each standing, the tally's
    struct gw_kept_off *kept_off; // what workers know of the quarantine, likewise
    int64_t moved_s;              // of its trial's time (svc/tally/trial_blocks.h)
    bool halted;    // it has to go back, but that could not be stored yet: no new offers
    bool late_said; // that it fails although it is completed (late_failures.h)
    struct gw_spared spared;
    uint64_t spared_on_version;  // counted on it at the last tick; way_back.c's
    enum gw_rollout_start start; // rollout_state.c's
};

// The time moved by so much: a trial's time goes on as if it had not. In memory alone, at once;
// gw_rollout_move stores it.
void gw_rollout_time_moved(struct gw_core *core, struct gw_rollout *rollout, int64_t by_us);
// A rollout's times when the time moved by so much, as if it had not. The store's codes.
BASE_NODISCARD enum base_status gw_rollout_move(struct gw_core *core, struct gw_rollout *rollout,
                                                int64_t by_us);
bool gw_rollouts_tick(struct gw_core *core);
enum base_status gw_rollouts_load(struct gw_core *core, struct base_error *error);

#endif
