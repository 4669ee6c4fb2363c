// The tally: how many devices of each rollout and stage are in which state.
//
// Counters are never incremented by events. A change says what a device's bits in a rollout were
// and what they are now; the tally takes the old contribution out and puts the new one in. So a
// report that arrives twice, or is applied again after a restart, changes nothing. Changes come
// from the store's writer thread after they are on disk, and from the start-up scan; readers are
// the control thread and metrics. One mutex, held for a batch.
//
// Devices that did not show who they are are counted apart, unless the rollout trusts them: gates,
// segments and fingerprints see the others alone (gw_release_standing).
#ifndef GW_TALLY_H
#define GW_TALLY_H

#include "base/keyed_hash.h"
#include "svc/plan/kept_off.h"
#include "svc/plan/release.h"
#include "svc/tally/offers.h"
#include "svc/tally/rollout_counts.h"
#include "svc/tally/trial_blocks.h"
#include "svc/plan/fleet_segment.h"

#define GW_TALLY_STAGE_ALL UINT32_MAX

// A device may be in a rollout twice: with its shadow, and later for good. Under this id the tally,
// marks and records know it as the former. The same function leads back.
static inline uint64_t gw_shadow_key(uint64_t rollout_id)
{
    return rollout_id ^ UINT64_C(0x5348414457000000);
}

struct gw_tally;

struct gw_tally_change {
    uint64_t rollout_id;
    uint64_t fingerprint;
    uint32_t offered_s;
    uint16_t old_bits; // 0: the device was not in the rollout
    uint16_t new_bits;
    uint8_t stage;
    uint8_t kind;         // of the report that failed it; 0: none
    const uint8_t *attrs; // raw block of the device, for slices; may be NULL
    uint32_t attrs_size;
    uint64_t device_id; // this and what follows is of trials (svc/tally/trial_blocks.h)
    uint64_t segment;
    uint32_t old_answered_s;
    uint32_t old_failed_s;
    uint32_t answered_s;
    uint32_t failed_s;
    struct base_str detail; // of the failure
};

// What the writer thread needs to know of a rollout.
struct gw_tally_rollout {
    uint32_t index; // process-local number, small
    uint8_t stage_now;
    bool open;                        // not yet completed or rolled back
    bool offers;                      // gw_rollout_offers_unmarked
    bool shadow;                      // it is known by gw_shadow_key
    const struct gw_release *release; // lives as long as the tally
    struct gw_offers *allowances;     // of each standing, likewise; a shadow's are the rollout's
    uint16_t tenant;                  // only whose devices are believed
    int64_t moved_s;                  // of its trial's time (svc/tally/trial_blocks.h)
};

// Where a rollout is.
struct gw_tally_phase {
    uint32_t stage_now;
    bool open;   // not yet completed or rolled back
    bool offers; // gw_rollout_offers_unmarked
    int64_t moved_s;
};

// What the control thread's walk over all devices found for one stage (watch.c): what depends on
// who is silent, and on how many there are that were not offered anything.
struct gw_tally_watch {
    uint64_t eligible;
    uint64_t online;
    uint64_t silent;
    uint64_t silent_succeeded;
    uint64_t observed_s;
    uint64_t expired;
    uint64_t expired_late; // of the expired, those the execution timeout has passed for
    uint64_t control_silent;
    uint64_t control_silent_done;
    uint64_t control_observed_s;
    struct pol_hazard trial[POL_COHORT_COUNT]; // of devices that are compared, from their blocks on
    // Of the current stage, all stages' devices: known, let in, and without an answer that may come
    // in time still.
    uint64_t outstanding;
    uint64_t since_us; // when that stage, or the guard, began
};

BASE_NODISCARD enum base_status gw_tally_new(const struct base_hash_key *key,
                                             struct gw_tally **out_tally);
void gw_tally_free(struct gw_tally *tally);

// Registers a rollout, with its shadow when it has a shadow stage; keeps a reference of its
// release. NOMEM.
BASE_NODISCARD enum base_status gw_tally_add(struct gw_tally *tally,
                                             const struct gw_release *release);
void gw_tally_own(struct gw_tally *tally, uint64_t rollout_id, uint16_t tenant);
void gw_tally_set(struct gw_tally *tally, uint64_t rollout_id, const struct gw_tally_phase *phase);
// Tells the time, and gives back memory of offers that nobody can answer in time any more: of some
// rollouts at each call. To be called before records are loaded, and at every tick.
void gw_tally_tick(struct gw_tally *tally, uint32_t now_s);
// Somebody accepted another time, at `from_s`: who waits has the execution timeout anew, from then.
// 0: nobody ever did. To be called before records are loaded, and at each acceptance.
void gw_tally_time_moved(struct gw_tally *tally, uint32_t from_s);
bool gw_tally_find(struct gw_tally *tally, uint64_t rollout_id, struct gw_tally_rollout *out);
bool gw_tally_is_open(struct gw_tally *tally, uint32_t index);
// The allowances of one that was added.
struct gw_offers *gw_tally_allowances(struct gw_tally *tally, uint64_t rollout_id);
// The segments that are kept off one that was added: none at first.
struct gw_kept_off *gw_tally_kept_off(struct gw_tally *tally, uint64_t rollout_id);
uint64_t gw_tally_rollout_id(struct gw_tally *tally, uint32_t index); // 0: no such index

void gw_tally_apply(struct gw_tally *tally, const struct gw_tally_change *changes, uint32_t count);
// Contributions that left the device records (see report_intake.c).
void gw_tally_add_archived(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage,
                           enum gw_standing standing, const struct gw_rollout_counts *counts);

// A segment's devices in one stage.
struct gw_tally_segment {
    uint64_t segment;
    uint64_t completed;
    uint64_t failed;
    char text[GW_SEGMENT_TEXT_MAX + 1];
};
#define GW_TALLY_SEGMENTS_MAX 256u // of a rollout, all stages; further ones are counted in none
// Copies the segments of a stage that have completions, or of every stage one after the other;
// returns how many.
uint32_t gw_tally_segments(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage,
                           struct gw_tally_segment *out, uint32_t capacity);
// Replaces what is known of a stage from the walk.
void gw_tally_set_watch(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage,
                        const struct gw_tally_watch *watch);
// The text of a fingerprint, from the store. Known: it has a text, or no further one is remembered.
void gw_tally_name_cause(struct gw_tally *tally, uint64_t rollout_id, uint64_t fingerprint,
                         uint8_t kind, struct base_str detail);
bool gw_tally_knows_cause(struct gw_tally *tally, uint64_t rollout_id, uint64_t fingerprint);
// One text more is kept of what no device failed for good with. False: there are
// GW_CAUSES_ASIDE_MAX of them.
bool gw_tally_keeps_aside(struct gw_tally *tally, uint64_t rollout_id);
// Devices of the stage that are outstanding, when a walk that ended began after `since_us`;
// otherwise 1, for nobody knows.
uint64_t gw_tally_outstanding(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage,
                              uint64_t since_us);
// Counts of one stage or of all. False: no such rollout.
bool gw_tally_counts(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage, uint32_t now_s,
                     struct gw_rollout_counts *out);
// Counts of all stages of the devices of one standing, as if there were no others.
void gw_tally_standing(struct gw_tally *tally, uint64_t rollout_id, enum gw_standing standing,
                       uint32_t now_s, struct gw_rollout_counts *out);
// The trial of a stage with the rule LOGRANK, as far as `look` may go, and how the cohorts were
// watched. False: the stage has none.
bool gw_tally_trial(struct gw_tally *tally, uint64_t rollout_id, const struct gw_trial_look *look,
                    struct pol_trial *out, struct pol_hazard out_hazards[POL_COHORT_COUNT]);
// Its segments (gw_trial_blocks_slices); none where it has no trial.
// When the last window of those offered by now ends, in its time; 0: nobody was.
uint64_t gw_tally_trial_end_s(struct gw_tally *tally, uint64_t rollout_id, uint32_t stage);
void gw_tally_trial_slices(struct gw_tally *tally, uint64_t rollout_id,
                           const struct gw_trial_look *look, const struct pol_held *lifted,
                           struct pol_slices *out);

// What is shown of a rollout.
struct gw_tally_view {
    struct gw_rollout_counts counts; // all stages
    uint32_t stage_count;            // 0: no such rollout
    struct gw_rollout_counts stages[POL_STAGES_MAX];
    uint32_t fingerprint_count;
    struct gw_rollout_fingerprint fingerprints[GW_ROLLOUT_FINGERPRINTS];
    uint32_t slice_count;
    struct gw_rollout_slice slices[GW_ROLLOUT_SLICES];
};
void gw_tally_view(struct gw_tally *tally, uint64_t rollout_id, uint32_t now_s,
                   struct gw_tally_view *out);

#endif
