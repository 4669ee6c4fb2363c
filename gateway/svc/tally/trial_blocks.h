// The blocks of a rollout's trials (policy/trial.h): who was offered in them, and what became of
// that, as sums over the records of devices.
//
// A block has the devices of one stage that were offered within the same block_s seconds: it is
// found from a device's record alone, so that a restart finds the same. What a device adds depends
// on its record alone too: it failed, or succeeded, within the window that begins at the block's
// end, or it did not. Failures are put in the order of the seconds in which the gateway heard of
// them, those of one second by a hash of the device: in any order of changes a look finds the same
// wealth, if it looks at whole seconds.
//
// Devices that are compared with nobody have blocks of their own (GW_OUTCOME_ALONE). Not
// thread-safe: the tally's mutex guards it.
#ifndef GW_TRIAL_BLOCKS_H
#define GW_TRIAL_BLOCKS_H

#include "base/prng.h"
#include "base/status.h"
#include "policy/slices.h"
#include "svc/plan/release.h"

// A device may have been drawn so long before it was marked as such.
#define GW_TRIAL_LAG_S 2u

struct gw_trial_blocks;

// One device in one rollout. `bits` 0: it is not in it.
struct gw_trial_entry {
    uint64_t order;   // of failures within a second: says nothing of the cohort
    uint64_t segment; // it was of when it was offered; 0: none
    uint32_t offered_s;
    uint32_t answered_s; // when its first success was heard of; 0: never
    uint32_t failed_s;   // ... its first failure
    uint16_t bits;       // enum gw_outcome_bit
    uint8_t stage;
};

// Of failures heard of in one second: by who the device is alone.
static inline uint64_t gw_trial_order(uint64_t device_id)
{
    return base_mix64(base_mix64(device_id) + 1);
}

// What a look may go by.
struct gw_trial_look {
    uint32_t stage;
    uint32_t heard_s;            // all reports of this second and those before are in
    uint32_t offers_s;           // ... all offers
    const struct pol_held *held; // segments whose devices are left out
};

// The release must outlive it. NULL: no memory.
struct gw_trial_blocks *gw_trial_blocks_new(const struct gw_release *release);
void gw_trial_blocks_free(struct gw_trial_blocks *blocks); // accepts NULL
// A device's part comes or goes; what takes no part in a trial changes nothing. Without memory the
// part is left out, and gw_trial_blocks_lost says how many were.
void gw_trial_blocks_add(struct gw_trial_blocks *blocks, const struct gw_trial_entry *entry);
void gw_trial_blocks_take(struct gw_trial_blocks *blocks, const struct gw_trial_entry *entry);
uint64_t gw_trial_blocks_lost(const struct gw_trial_blocks *blocks);

// The trial of a stage, as far as a look may go.
void gw_trial_blocks_judged(struct gw_trial_blocks *blocks, const struct gw_trial_look *look,
                            struct pol_trial *out);
// The segments of a stage, each with its own blocks: those held are counted, those lifted are not
// listed. Segments beyond POL_SLICES_MAX are not looked at.
void gw_trial_blocks_slices(struct gw_trial_blocks *blocks, const struct gw_trial_look *look,
                            const struct pol_held *lifted, struct pol_slices *out);

// When the last window of a stage ends, of those offered by now; 0: nobody was. In a trial's time.
// `blocks` may be NULL.
uint64_t gw_trial_blocks_end_s(const struct gw_trial_blocks *blocks, uint32_t stage);

// A trial goes by its rollout's own time, which no acceptance of another time moves: the gateway's,
// less what was accepted since the rollout began (`moved_s`). All times of devices in a trial are
// such, and those of a look.
uint32_t gw_trial_time_s(uint32_t gateway_s, int64_t moved_s);
uint32_t gw_trial_gateway_s(uint32_t trial_s, int64_t moved_s); // the other way

// When the block of a device ends that was offered then, and its window in a stage.
uint32_t gw_trial_block_end_s(const struct gw_release *release, uint32_t offered_s);
uint64_t gw_trial_window_end_s(const struct gw_release *release, uint32_t stage,
                               uint32_t offered_s);

#endif
