// How models in the cloud are served in a simulation: how long a call keeps an instance, how many
// instances there are, how many calls may wait, and how many a device may make in a minute. It is
// said in words, as no clock of the host is asked and no model is measured while a run lasts:
//
//     service_ms=20,instances=2,queue=256,per_min=600,big.service_ms=35.5
//
// What has a model's name in front is of that model alone. Measured with `walle-infer`, the time
// of a call is walle_infer_run_seconds_total by its calls.
//
// A calendar is the time of one model's instances, in steps of a millisecond: each call takes the
// first of it that is free from its arrival on. So calls need not come in the order of their
// arrival: a script that makes many books them all at once, and others find the gaps. All have one
// priority, none are batched.
//
// Pure; who shares a calendar between threads guards it.
#ifndef SIM_CLOUD_LOAD_H
#define SIM_CLOUD_LOAD_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_CLOUD_SERVICE_MS    0.0   // nobody has said it: a call keeps nobody waiting
#define SIM_CLOUD_SERVICE_MAX   60000 // milliseconds
#define SIM_CLOUD_INSTANCES     1
#define SIM_CLOUD_INSTANCES_MAX 4096
#define SIM_CLOUD_QUEUE         256 // as a gateway's models without a model.conf
#define SIM_CLOUD_QUEUE_MAX     4096
#define SIM_CLOUD_PER_MIN       600 // as infer.device_calls_per_min
#define SIM_CLOUD_PER_MIN_MAX   1000000
#define SIM_CLOUD_AHEAD_MS      131072u // that a calendar goes beyond the present

struct sim_cloud_load {
    uint32_t service_us; // 0: a call waits for nobody
    uint32_t instances;
    uint32_t queue;   // calls that may wait
    uint32_t per_min; // of each device, over all models; 0: no limit
};

// What the words say of this model (empty: of all, and of each of `knows` is asked whether there is
// such a model). INVALID with the word.
struct sim_cloud_names {
    void *ctx;
    bool (*knows)(void *ctx, struct base_str model);
};
BASE_NODISCARD enum base_status sim_cloud_load_read(const char *words, struct base_str model,
                                                    const struct sim_cloud_names *names,
                                                    struct sim_cloud_load *out,
                                                    struct base_error *error);

struct sim_cloud_calendar;
// NOMEM.
BASE_NODISCARD enum base_status sim_cloud_calendar_new(const struct sim_cloud_load *load,
                                                       struct sim_cloud_calendar **out);
void sim_cloud_calendar_free(struct sim_cloud_calendar *calendar); // accepts NULL
// A call arrives: how long it waits until it is served, to the millisecond. False, and nothing is
// taken: as many wait as may, or it would wait longer than `most_us`.
bool sim_cloud_calendar_take(struct sim_cloud_calendar *calendar, uint64_t at_us, uint64_t most_us,
                             uint64_t *out_wait_us);

#endif
