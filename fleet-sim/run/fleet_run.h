// The coordinator of a run: preflight, shards, live view, timeline, verdict, reports.
#ifndef SIM_FLEET_RUN_H
#define SIM_FLEET_RUN_H

#include "base/buffer.h"
#include "model/sim_exit.h"
#include "report/run_result.h"
#include "run/fleet.h"

#include <signal.h>

// Runs to the end and writes the reports. `interrupted` becomes non-zero when the run is to end
// early but in order. Texts for people go to `log`.
enum sim_exit sim_fleet_run(const struct sim_options *options,
                            const volatile sig_atomic_t *interrupted, FILE *log);

// fleet_facts.c: faults stand between the transports, which are all there, and the devices. NOMEM.
BASE_NODISCARD enum base_status sim_fleet_faults_wrap(struct sim_shard *const *shards,
                                                      uint32_t count, struct base_error *error);
// Is everybody who is to come there, and where the rollout's end has them? Between two windows.
bool sim_fleet_rests(struct sim_shard *const *shards, uint32_t count,
                     const struct sim_watch_view *view);
// What went wrong, and where everybody was in the end; after the ledgers are in the result.
void sim_fleet_faults_gather(struct sim_shard *const *shards, uint32_t count,
                             struct sim_run_result *result);

// fleet_finish.c: everything after the shards' threads have ended.
struct sim_fleet;
struct sim_mining *sim_mine(struct sim_shard *const *shards, uint32_t count, uint8_t version,
                            struct sim_slice *out_slice);
// Latencies of all shards, and what their stores came to.
void sim_fleet_latencies(struct sim_shard *const *shards, uint32_t count,
                         struct sim_run_result *result);
// Devices that the focus version failed on, by how each failed first. After sim_mine.
void sim_fleet_failing(struct sim_shard *const *shards, uint32_t count,
                       struct sim_run_result *result);
// Which systems the devices of the whole fleet have, whether a release reached them or not.
void sim_fleet_systems(struct sim_shard *const *shards, uint32_t count,
                       struct sim_run_result *result);
// The version the report explains: the one that failed on most devices, else the last one that ran.
uint8_t sim_focus_version(const struct sim_counters *counters);

// fleet_ports.c: the cloud that the options have, if they have one (NULL), and a shard's side of
// it. The codes of sim_cloud_new; NOMEM.
BASE_NODISCARD enum base_status sim_fleet_cloud(const struct sim_options *options,
                                                struct dev_model_store *models,
                                                struct sim_cloud **out, struct base_error *error);
BASE_NODISCARD enum base_status sim_shard_cloud(struct sim_shard *shard, struct sim_cloud *cloud,
                                                struct base_error *error);

// fleet_local.c: content of the simulate stage from a build folder into a shard's store, and its
// responder.
BASE_NODISCARD enum base_status sim_local_load(struct sim_shard *shard,
                                               const struct sim_options *options,
                                               struct base_error *error);
// MiB of all files that the manifest at `path` names, at least 1; 1 when it cannot be read, which
// loading says.
uint32_t sim_local_content_mib(const char *path);
// FOLDER/{sha256} into the store.
BASE_NODISCARD enum base_status sim_local_blob(struct sim_store *store, const char *folder,
                                               const struct wire_sha256 *name,
                                               struct base_error *error);
// fleet_exclusive.c: the exclusive files of the version, when it has some: the list lies beside the
// manifest, the rest in the blob folder. INVALID, HASH and what reading gives.
BASE_NODISCARD enum base_status sim_exclusive_load(struct sim_shard *shard,
                                                   const struct sim_options *options,
                                                   struct base_error *error);

#endif
