// Models in the cloud for virtual devices (walle.cloud): what is asked is computed by the engine,
// as the gateway's inference service would. How long it takes, how many instances there are and
// what a device may ask is said by options (cloud/cloud_load.h); waiting is part of the run's time,
// and a call beyond the device's quota or the queue is refused as the gateway would. Whether there
// is a way to the cloud the device's own runtime says (dev_cloud_look), so a device without a
// gateway is offline here too.
//
// A folder of models is as `walle-infer --models` has it, DIR/MODEL/VERSION/model.onnx; the highest
// version is served, and model.conf is not looked at. The cloud is the whole fleet's, with a lock;
// each shard has a side of it, on its thread. In virtual time shards take their calls to it in
// their order (sim_cloud_side.in_order), so what comes of it does not depend on threads. A device
// whose id another one has, or that is installed anew, has a quota of its own here.
#ifndef SIM_CLOUD_H
#define SIM_CLOUD_H

#include "base/error.h"
#include "base/hist.h"
#include "model/cloud_sums.h"
#include "model/model_store.h"
#include "vm/vm.h"

struct dev_runtime;
struct pol_ratelimit;

#define SIM_CLOUD_MODELS_MAX 64
#define SIM_CLOUD_MS_DEFAULT 60 // from the call to its answer
#define SIM_CLOUD_FILE_MAX   ((size_t)1 << 30)

struct sim_cloud;
struct sim_cloud_options {
    const char *dir;
    uint32_t call_ms;              // from a call to its answer, where nobody waits
    const char *load;              // words of cloud/cloud_load.h
    struct dev_model_store *store; // outlives the cloud
};
// NOT_FOUND, INVALID, TOO_LARGE, IO with what and where; NOMEM.
BASE_NODISCARD enum base_status sim_cloud_new(const struct sim_cloud_options *options,
                                              struct sim_cloud **out, struct base_error *error);
void sim_cloud_free(struct sim_cloud *cloud); // accepts NULL

// A shard's side. Zero: there is no cloud.
struct sim_cloud_side {
    struct sim_cloud *cloud;
    struct pol_ratelimit *quotas; // of the shard's devices, from their first call on
    uint32_t devices;
    struct sim_cloud_sums *sums; // the shard's
    struct base_hist *took_us;   // of calls that were answered
    void *ctx;
    void (*in_order)(void *ctx); // returns when it is this shard's turn; NULL: there is no order
};
// `sums` and `cloud` outlive it. NOMEM.
BASE_NODISCARD enum base_status sim_cloud_side_init(struct sim_cloud_side *side,
                                                    struct sim_cloud *cloud, uint32_t devices,
                                                    struct sim_cloud_sums *sums);
void sim_cloud_side_done(struct sim_cloud_side *side); // accepts a zero one

// One run of a device.
struct sim_cloud_run {
    struct sim_cloud_side *side;
    uint32_t device; // of the shard
    uint64_t at_us;  // when it began, by the shard's clock
    const struct dev_runtime *runtime;
    struct base_str declaration; // of the version that runs
    uint64_t waited_us;          // for all its calls
    uint8_t *answer;             // of the last one
};
// `run` is zero but for the first five, and stays where it is until sim_cloud_run_done.
struct dev_vm_cloud_port sim_cloud_port(struct sim_cloud_run *run);
void sim_cloud_run_done(struct sim_cloud_run *run);

#endif
