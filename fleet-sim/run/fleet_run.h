// The coordinator of a run: preflight, shards, live view, timeline, verdict, reports.
#ifndef SIM_FLEET_RUN_H
#define SIM_FLEET_RUN_H

#include "base/buffer.h"
#include "report/run_result.h"
#include "run/fleet.h"

#include <signal.h>

enum sim_exit {
    SIM_EXIT_OK = 0,
    SIM_EXIT_FAILED = 1, // an invariant broke, the release failed, a goal was not reached
    SIM_EXIT_USAGE = 2,
    SIM_EXIT_REFUSED = 3,       // preflight
    SIM_EXIT_LOCAL = 4,         // files, memory
    SIM_EXIT_INTERRUPTED = 5,   // by a signal, before its end
    SIM_EXIT_NOBODY_FITS = 6,   // no virtual device is what --where and --target ask for
    SIM_EXIT_NO_GATEWAY = 7,    // nothing answered
    SIM_EXIT_NOBODY_ONLINE = 8, // it answered, and no device came online
    SIM_EXIT_UNREACHED = 9,     // devices came online, and no release reached one
    SIM_EXIT_NO_RELEASE = 10,   // devices came online, and there was no release to judge
    SIM_EXIT_THRESHOLD = 99,    // all else passed, and a threshold does not hold
};

// Runs to the end and writes the reports. `interrupted` becomes non-zero when the run is to end
// early but in order. Texts for people go to `log`.
enum sim_exit sim_fleet_run(const struct sim_options *options,
                            const volatile sig_atomic_t *interrupted, FILE *log);

// fleet_finish.c: everything after the shards' threads have ended.
struct sim_fleet;
struct sim_mining *sim_mine(struct sim_shard *const *shards, uint32_t count, uint8_t version,
                            struct sim_slice *out_slice);
// The version the report explains: the one that failed on most devices, else the last one that ran.
uint8_t sim_focus_version(const struct sim_counters *counters);

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
