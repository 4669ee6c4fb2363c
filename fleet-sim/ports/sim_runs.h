// Whole runs that devices share, in virtual time: a run whose script looked at nothing that differs
// between devices (dev_vm_result.looked) follows from its version's files, so it is made once and
// told to all who would make it. Not shared are runs that used up their time, and those that store
// or upload.
//
// One per shard, owned by its thread. Who may share is the caller's to say.
#ifndef SIM_SIM_RUNS_H
#define SIM_SIM_RUNS_H

#include "base/ports.h"
#include "ports/sim_end.h"
#include "wire/digest.h"

#define SIM_RUNS_MAX 64 // versions whose run is kept, each in place of an older one

struct sim_kept_run {
    bool kept;
    struct wire_sha256 version;
    struct sim_task_end end; // its result is `result`
    char *result;
};

struct sim_runs {
    const struct base_alloc_port *alloc;
    struct sim_kept_run items[SIM_RUNS_MAX]; // by the first bytes of the version
    uint64_t shared;
    uint64_t compared; // runs made for real, with what is kept
    uint64_t mismatches;
};

void sim_runs_init(struct sim_runs *runs, const struct base_alloc_port *alloc);
void sim_runs_done(struct sim_runs *runs);
// How the version's run ends; false: it is not kept. What `out` points to is valid until another
// run is kept.
bool sim_runs_share(struct sim_runs *runs, const struct wire_sha256 *version,
                    struct sim_task_end *out);
// Keeps the end of a run that looked at nothing, if it is one to share. Without memory it is not
// kept.
void sim_runs_keep(struct sim_runs *runs, const struct wire_sha256 *version,
                   const struct sim_task_end *end);
// Compares the end of a run made for real with what is kept of its version, if anything is.
void sim_runs_compare(struct sim_runs *runs, const struct wire_sha256 *version,
                      const struct sim_task_end *end);

#endif
