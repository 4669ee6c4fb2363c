// Silence: for how long a device was not heard of, from when on that is silence, and how devices
// that are compared are watched for it. Pure.
#ifndef GW_SILENCE_H
#define GW_SILENCE_H

#include "svc/plan/release.h"

struct gw_silence_clock {
    uint32_t now_s;
    uint32_t started_s; // of the gateway: nobody was silent before
};

// Seconds since the device was heard of. After a restart nobody is silent at once, for what the
// disk knows of their last check-in may be an hour old.
uint32_t gw_silence_quiet_s(const struct gw_silence_clock *clock, uint32_t last_seen_s);
// From when on it is silence. A stage's silence is meant for devices that check in as the gateway
// said when the rollout was made; one that does so less often, by its own setting or because it was
// not told yet, gets as many of its own intervals. `interval_s` 0: it did not say.
uint32_t gw_silence_after_s(const struct gw_release *release, const struct pol_stage *stage,
                            uint32_t interval_s);

// A device of a trial.
struct gw_silence_device {
    uint32_t offered_s;
    uint32_t last_seen_s;
    uint32_t interval_s; // between its check-ins; 0: it did not say
    uint16_t bits;       // enum gw_outcome_bit
    uint8_t stage;
};

// Adds a device of a trial to what is known of its cohort. In a stage that compares, those that are
// compared are watched, from the end of their block, whether or not they have begun by then, so
// that both cohorts are watched at the same ages, and for a second at least: who was never heard of
// again since before it is silent, too. In a stage that compares nobody all are, as updated ones,
// from their offer: each check-in stands for the interval behind it, so that a young installation
// shows no more than an old one. Time counts as far as it is known by now who fell silent in it,
// and not within gw_silence_after_s of the gateway's start. Who failed says no more.
void gw_silence_watch(const struct gw_silence_clock *clock, const struct gw_release *release,
                      const struct gw_silence_device *device,
                      struct pol_hazard hazards[POL_COHORT_COUNT]);
// What of a stage with the rule LOGRANK is judged: both cohorts, or, where it compares nobody, all
// of its devices and `before`, what control of the stages before has taught.
void gw_silence_judged(const struct gw_release *release, uint32_t stage,
                       const struct pol_hazard hazards[POL_COHORT_COUNT],
                       const struct pol_hazard *before, struct pol_counts *out);
// A stage is over: what its own control has taught is added to *before.
void gw_silence_keep(const struct gw_release *release, uint32_t stage,
                     const struct pol_counts *counts, struct pol_hazard *before);

#endif
