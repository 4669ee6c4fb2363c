// Plays one simulated rollout under a rule: ours, as the gateway has it (its tally, its trials and
// policy/), or one of the rivals' documented rules with every setting of a grid at once.
//
// All rules see the same fleet. Stages are 1 %, 5 %, 20 % and 100 %; offers of ours and of AWS
// follow the same ramp (50 a minute, doubled every 1,000, at most 1,000), hawkBit and Argo know no
// rate: devices get the update at their next check-in.
#ifndef GATE_PLAY_H
#define GATE_PLAY_H

#include "gate_world.h"

#include "policy/gate.h"

enum gate_end {
    GATE_END_COMPLETED, // everybody has it
    GATE_END_STOPPED,   // the rule stopped it
    GATE_END_HELD,      // it stood still at the end of the day
    GATE_END_COUNT
};

struct gate_outcome {
    enum gate_end end;
    double at_s; // of the end; of the first quarantine where that contained the fault
    uint64_t exposed;
    uint64_t harmed;
    uint32_t quarantined; // slices (ours)
    bool found;           // the bad slice is among them
    uint32_t stage;       // where it ended
};

// Our gate, by stage.
struct gate_ours {
    enum pol_gate_rule rule;         // LOGRANK, or THRESHOLD, which reads of the rest what it has
    uint32_t alpha_ppm[GATE_STAGES]; // together that of the rollout
    uint32_t beta_ppm;
    uint32_t max_failure_ppm;
    uint32_t max_rise_ppm[GATE_STAGES];
    uint32_t min_sample;
    uint32_t min_dwell_s[GATE_STAGES]; // longer than silence takes to show
    uint32_t window_s;
    uint32_t silence_s;
    uint32_t max_silence_percent; // hazard against control's
    uint32_t control_ratio;       // devices of control for each of a stage
};

struct gate_ours gate_ours_standard(enum pol_gate_rule rule);

struct gate_ours_play;
struct gate_ours_play *gate_ours_new(uint32_t devices_max); // NULL: no memory
void gate_ours_free(struct gate_ours_play *play);           // accepts NULL
// False: no memory.
bool gate_play_ours(struct gate_ours_play *play, struct gate_world *world,
                    const struct gate_fleet *fleet, const struct gate_ours *settings,
                    struct gate_outcome *out);

// Offers of this step by the ramp that ours and AWS share; fractions are carried in `credit`.
uint64_t gate_ramp_offers(double *credit, uint64_t offered);

// Settings of the rivals' grids; names are what a person would configure.
#define GATE_HAWKBIT_SETTINGS 120u
#define GATE_AWS_SETTINGS     160u
#define GATE_ARGO_SETTINGS    512u
#define GATE_SETTING_NAME_MAX 96u

void gate_play_hawkbit(struct gate_world *world, const struct gate_fleet *fleet,
                       struct gate_outcome out[GATE_HAWKBIT_SETTINGS]);
void gate_play_aws(struct gate_world *world, const struct gate_fleet *fleet,
                   struct gate_outcome out[GATE_AWS_SETTINGS]);
void gate_play_argo(struct gate_world *world, const struct gate_fleet *fleet,
                    struct gate_outcome out[GATE_ARGO_SETTINGS]);
void gate_hawkbit_name(uint32_t setting, char out[GATE_SETTING_NAME_MAX]);
void gate_aws_name(uint32_t setting, char out[GATE_SETTING_NAME_MAX]);
void gate_argo_name(uint32_t setting, char out[GATE_SETTING_NAME_MAX]);

#endif
