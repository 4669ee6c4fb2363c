// One rollout as it happens: check-ins, offers, installations, reports, deaths, in steps of two
// seconds. Rules look at the tallies between steps, or hear of what happens as it does, and open
// stages or stop; the world itself decides nothing.
#ifndef GATE_WORLD_H
#define GATE_WORLD_H

#include "gate_fleet.h"

#include <stddef.h>

#define GATE_STEP_S    2u
#define GATE_HORIZON_S 43200u
#define GATE_STEPS     (GATE_HORIZON_S / GATE_STEP_S)
#define GATE_STAGES    4u

struct gate_stage_tally {
    uint32_t from; // devices from..to-1 belong to the stage
    uint32_t to;
    uint64_t offered;   // the update
    uint64_t completed; // reported, failures included
    uint64_t failed;
    uint64_t timed_out; // offered, no report in time
};

enum gate_what { GATE_OFFERED, GATE_SUCCEEDED, GATE_FAILED };

// A device was offered something, or reported.
struct gate_news {
    enum gate_what what;
    uint32_t device;
    uint32_t stage;
    bool control; // it is offered the version it has
    bool alone;   // updated, and compared with nobody
};

struct gate_settings {
    bool pushed;     // devices are told at once (paced by the sender); else at their check-in
    float timeout_s; // from the offer to a report
    // NULL: whoever comes late belongs to its stage. Else it belongs to the stage that is open when
    // it comes, and is compared with nobody.
    void (*heard)(void *ctx, const struct gate_news *news);
    void *ctx;
};

struct gate_world {
    const struct gate_fleet *fleet;
    struct gate_settings settings;
    struct gate_stage_tally stages[GATE_STAGES];
    uint32_t stage_count; // opened
    uint32_t control_to;  // devices from the newest stage's end to here are its control
    uint32_t alone_price; // offers that one to a device counts for that is compared with nobody
    uint64_t owed;        // offers of the next step
    uint32_t step;
    uint64_t exposed;              // devices that got an update that is bad for their kind
    uint64_t harmed;               // of those, broken by it
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

// Opens the next stage: devices up to `to` (exclusive), and the `control` devices behind those.
void gate_world_open(struct gate_world *world, uint32_t to, uint32_t control);
// Lets two seconds pass, with at most `offers` new offers, of either kind.
void gate_world_step(struct gate_world *world, uint64_t offers);
// When a device that was offered something was last heard of.
double gate_world_seen_s(const struct gate_world *world, uint32_t device);
// The rollout is complete: everybody who is left gets the update, but for held slices.
void gate_world_flood(struct gate_world *world);

#endif
