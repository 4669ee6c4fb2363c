// The virtual fleet of the gate bench: who is there, how fast, and what an update does to whom.
//
// A fleet is drawn once for each simulated rollout from its seed and shared by all rules, so that
// every rule decides about the same devices with the same fates. Devices are numbered by bucket: a
// stage of 5 % is the first twentieth.
#ifndef GATE_FLEET_H
#define GATE_FLEET_H

#include "base/prng.h"

#include <stdbool.h>
#include <stdint.h>

#define GATE_SLICES 25u
// The slice a crash on one slice hits, and its share of the fleet.
#define GATE_BAD_SLICE       0u
#define GATE_BAD_SLICE_SHARE 0.03
// Never, as a time in seconds.
#define GATE_NEVER_S 1e9f

// How devices answer (seconds).
#define GATE_CHECKIN_S     300.0 // time between check-ins
#define GATE_ABSENT_SHARE  0.1   // switched off when the rollout starts
#define GATE_ABSENT_MEAN_S 14400.0
#define GATE_INSTALL_S     60.0 // median from offer to activation, log-normal
#define GATE_INSTALL_SIGMA 0.8
#define GATE_FIRST_RUN_S   20.0     // mean from activation to the report of the first run
#define GATE_VANISH_S      360000.0 // mean until a device goes away for reasons of its own
#define GATE_DEATH_S       600.0    // mean from activation to a silent death

struct gate_scenario {
    const char *name;
    double base_low; // failure rate of the version before, log-uniform between rollouts
    double base_high;
    double rise;          // added by the update
    double slice_failure; // failure rate of the update on the bad slice; 0: no bad slice
    double dying;         // share of updated devices that go silent for good
};

struct gate_device {
    float phase_s;   // of its check-ins
    float present_s; // first time it can check in
    float install_s; // offer to activation
    float report_s;  // activation to report
    float vanish_s;  // when it goes away by itself
    float death_s;   // after activation; GATE_NEVER_S: does not die
    uint8_t slice;
    bool fails_before; // with the version before (as control)
    bool fails_after;  // with the update
};

struct gate_fleet {
    const struct gate_scenario *scenario;
    struct gate_device *devices; // count of them
    uint32_t count;
    uint64_t seed;
    double base;
};

// Storage is the fleet's until gate_fleet_done. False: out of memory.
bool gate_fleet_init(struct gate_fleet *fleet, uint32_t count);
void gate_fleet_done(struct gate_fleet *fleet);
void gate_fleet_draw(struct gate_fleet *fleet, const struct gate_scenario *scenario, uint64_t seed);

// A name for a device, which says nothing of its number.
uint64_t gate_device_id(const struct gate_fleet *fleet, uint32_t index);

// The update is bad for this device's kind: being offered it is an exposure.
bool gate_exposes(const struct gate_fleet *fleet, const struct gate_device *device);
// The update breaks this device, which the version before would not have.
bool gate_harms(const struct gate_device *device);

// Scenarios by name; NULL at the end of the list.
const struct gate_scenario *gate_scenario_at(uint32_t index);
const struct gate_scenario *gate_scenario_find(const char *name);

#endif
