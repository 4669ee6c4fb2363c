// A run in virtual time: logical shards, the gateway's core in this process, and the windows in
// which they go on apart from each other (virtual/windows.h), on as many threads as are asked for.
// How many shards there are depends on the number of devices alone, so the number of threads does
// not change what happens.
#ifndef SIM_FLEET_VIRTUAL_H
#define SIM_FLEET_VIRTUAL_H

#include "base/buffer.h"
#include "report/run_result.h"
#include "run/fleet.h"

struct sim_virtual;

// The clock, from where the gateway's folder stopped. NOT_FOUND, NOMEM.
BASE_NODISCARD enum base_status sim_virtual_new(const struct sim_options *options,
                                                struct sim_virtual **out_virtual,
                                                struct base_error *error);
// After the shards ended; accepts NULL.
void sim_virtual_free(struct sim_virtual *virtual);
// The coordinator's: it shows a time that all shards and the core have come to.
const struct base_clock_port *sim_virtual_clock(const struct sim_virtual *virtual);
// What a shard, by its number in *share, has of the run: a clock of its own, and the memo of all.
void sim_virtual_share(const struct sim_virtual *virtual, struct sim_share *share);
// Opens the gateway for the devices of all shards, which are set up, and starts the threads. What
// opening it gives.
BASE_NODISCARD enum base_status sim_virtual_attach(struct sim_virtual *virtual,
                                                   struct sim_shard *const *shards,
                                                   struct base_error *error);
// Everything that is due before `until_us`, and what comes of it; then it is `until_us`.
void sim_virtual_run(struct sim_virtual *virtual, uint64_t until_us);
// What the options have an operator do by now, on this rollout (0: none is known). CONFLICT: the
// gateway refused it, or there is no rollout; the run is not what it was to be.
BASE_NODISCARD enum base_status sim_virtual_act(struct sim_virtual *virtual, uint64_t rollout,
                                                struct base_error *error);
// As sim_watch_options.answer; `ctx` is the struct sim_virtual.
int sim_virtual_answer(void *ctx, const char *path, struct base_buffer *out);
// When every device sleeps: what the run takes of memory; and the root over all that happened, by
// which two runs are the same or not, with its leaves in the folder of the reports
// (digest/run_digest.h). Where there is no digest, or it cannot be written, `log` is told why.
void sim_virtual_gather(struct sim_virtual *virtual, struct sim_run_result *result, FILE *log);

#endif
