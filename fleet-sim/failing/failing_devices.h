// Devices that failed in one way, counted, the first few of them by name: the way from a figure of
// the reports to a device that can be looked at.
//
// Filled once, after the run, on the coordinator's thread, in any order of devices: those with the
// lowest indices are kept, so that the same run names the same ones however it was cut into shards.
#ifndef SIM_FAILING_DEVICES_H
#define SIM_FAILING_DEVICES_H

#include "model/population.h"

#include <jansson.h>

#define SIM_FAILING_TOLD_MAX 5u // devices that are named of one way to fail
// Attributes of one that failed, in the folder of a run's reports.
#define SIM_FAILING_ATTRS_FILE "failing_attrs.json"
#define SIM_FAILING_TEXT_MAX   (SIM_FAILING_TOLD_MAX * 18u + 32u)

struct sim_failing_device {
    uint64_t index; // in the population
    uint64_t id;
    struct sim_traits traits;
};

struct sim_failing {
    uint64_t devices;
    uint32_t told;                                         // devices of `first`
    struct sim_failing_device first[SIM_FAILING_TOLD_MAX]; // indices ascend
};

// A device, at most once.
void sim_failing_add(struct sim_failing *failing, const struct sim_failing_device *device);
// "00000000000001a5, 00000000000002b6 and 94 more". Empty without devices.
void sim_failing_text(const struct sim_failing *failing, char out[SIM_FAILING_TEXT_MAX]);
// [{"index": 421, "id": "00000000000001a5", "attrs": {"os": "ios"}}]; NULL: no memory.
json_t *sim_failing_json(const struct sim_failing *failing);
// The device's attributes as `walle task run --attrs` reads them; NULL: no memory.
json_t *sim_failing_attrs(const struct sim_failing_device *device);

#endif
