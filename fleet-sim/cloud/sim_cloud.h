// Models in the cloud for virtual devices (walle.cloud): what is asked is computed by the engine,
// as the gateway's inference service would; how long it takes is said by an option and is part of
// the run's time. Whether there is a way to the cloud the device's own runtime says
// (dev_cloud_look), so a device without a gateway is offline here too. Calls are not queued and
// nothing is charged.
//
// A folder of models is as `walle-infer --models` has it, DIR/MODEL/VERSION/model.onnx; the highest
// version is served, and model.conf is not looked at. Each shard has its own.
#ifndef SIM_CLOUD_H
#define SIM_CLOUD_H

#include "base/error.h"
#include "model/model_store.h"
#include "vm/vm.h"

struct dev_runtime;

#define SIM_CLOUD_MODELS_MAX 64
#define SIM_CLOUD_MS_DEFAULT 60 // from the call to its answer
#define SIM_CLOUD_FILE_MAX   ((size_t)1 << 30)

struct sim_cloud;
// NOT_FOUND, INVALID, TOO_LARGE, IO with what and where; NOMEM. `store` outlives it.
BASE_NODISCARD enum base_status sim_cloud_new(const char *dir, uint32_t call_ms,
                                              struct dev_model_store *store, struct sim_cloud **out,
                                              struct base_error *error);
void sim_cloud_free(struct sim_cloud *cloud); // accepts NULL

// One run of a device.
struct sim_cloud_run {
    struct sim_cloud *cloud;
    const struct dev_runtime *runtime;
    struct base_str declaration; // of the version that runs
    uint64_t waited_us;          // for all its calls
    uint8_t *answer;             // of the last one
};
// `run` is zero but for the first three, and stays where it is until sim_cloud_run_done.
struct dev_vm_cloud_port sim_cloud_port(struct sim_cloud_run *run);
void sim_cloud_run_done(struct sim_cloud_run *run);

#endif
