// One rollout as it happens: offers, installations, reports, deaths, control devices, in steps of
// two seconds. Rules look at the tallies between steps and open stages or stop; the world itself
// decides nothing.
#ifndef GATE_WORLD_H
#define GATE_WORLD_H

#include "gate_fleet.h"

#include <stddef.h>

#define GATE_STEP_S    2u
#define GATE_HORIZON_S 43200u
#define GATE_STEPS     (GATE_HORIZON_S / GATE_STEP_S)
#define GATE_STAGES    4u
// A device that was not seen for three check-ins is silent.
#define GATE_SILENCE_S 900.0f

struct gate_arm_tally {
    uint64_t completed; // reported, failures included
    uint64_t failed;
    uint64_t silent; // fell silent after a good report
    uint64_t observed_s;
    uint32_t watched; // devices under observation now
};

struct gate_stage_tally {
    uint32_t from; // devices from..to-1 belong to the stage
    uint32_t to;
    uint64_t offered;
    uint64_t timed_out; // offered, no report in time
    struct gate_arm_tally updated;
    struct gate_arm_tally control;
    // By slice: completed or timed out, and failed.
    uint32_t slice_updated[GATE_SLICES][2];
    uint32_t slice_control[GATE_SLICES][2];
};

struct gate_settings {
    bool pushed;          // devices are told at once (paced by the sender); else at their check-in
    float timeout_s;      // from the offer to a report
    double control_ratio; // control devices for each device of a stage; 0: none
};

struct gate_world {
    const struct gate_fleet *fleet;
    struct gate_settings settings;
    struct gate_stage_tally stages[GATE_STAGES];
    uint32_t stage_count; // opened
    uint32_t step;
    uint64_t exposed;              // devices that got an update that is bad for their kind
    uint64_t harmed;               // of those, broken by it
    uint32_t unsettled;            // devices of open stages that have no outcome yet
    bool held_slices[GATE_SLICES]; // no offers to these
    struct gate_calendar *calendar;
};

bool gate_world_init(struct gate_world *world, uint32_t devices_max);
void gate_world_done(struct gate_world *world);
// Starts over with another rollout.
void gate_world_reset(struct gate_world *world, const struct gate_fleet *fleet,
                      const struct gate_settings *settings);

static inline double gate_world_now_s(const struct gate_world *world)
{
    return (double)world->step * GATE_STEP_S;
}

// Opens the next stage: devices up to `to` (exclusive).
void gate_world_open(struct gate_world *world, uint32_t to);
// Lets two seconds pass, with at most `offers` new offers.
void gate_world_step(struct gate_world *world, uint64_t offers);
// The rollout is complete: everybody who is left gets the update, but for held slices.
void gate_world_flood(struct gate_world *world);

#endif
