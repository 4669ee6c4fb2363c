// What one device of a run in virtual time does and is told, event by event, for
// `walle-fleet-sim replay` (digest/story_lines.h has the file). The digest of a run is the same
// with it.
#ifndef SIM_DEVICE_STORY_H
#define SIM_DEVICE_STORY_H

#include "base/buffer.h"
#include "base/error.h"
#include "device/device.h"
#include "digest/story_lines.h"
#include "ports/sim_transport.h"

struct sim_awake;
struct sim_options;
struct sim_shard;
struct sim_task_end;
struct wire_release;

struct sim_tale {
    struct sim_story story;
    struct dev_stats last; // of the device's runtime, as they were told
};

// NULL where the options name no device. NOT_FOUND: the fleet has none such; IO, NOMEM.
BASE_NODISCARD enum base_status sim_tale_new(const struct sim_options *options, uint64_t start_us,
                                             struct sim_tale **out_tale, struct base_error *error);
// What is true of the device at the end, and what the gateway answers to these questions of an
// operator: `ask` adds the body to its buffer. `task`: that the run followed; empty: none.
typedef int (*sim_story_ask_fn)(void *ctx, const char *path, struct base_buffer *out);
struct sim_story_end {
    const struct sim_shard *shard; // the device's, or any other
    const char *task;
    sim_story_ask_fn ask;
    void *ctx;
};
void sim_tale_end(struct sim_tale *tale, const struct sim_story_end *end);
// Closes the file; accepts NULL. IO: not all of it could be written.
enum base_status sim_tale_free(struct sim_tale *tale, struct base_error *error);

// ---- Where a device lives; nothing happens unless it is the one.

void sim_story_woke(const struct sim_awake *awake, uint64_t intended_us);
void sim_story_booted(const struct sim_awake *awake, enum base_status status);
void sim_story_slept(const struct sim_awake *awake, uint32_t due_ms);
void sim_story_killed(const struct sim_awake *awake);
void sim_story_saved(const struct sim_awake *awake, size_t bytes);
void sim_story_asked(const struct sim_exchange *exchange, const struct dev_request *request);
void sim_story_answered(const struct sim_exchange *exchange, int status);
void sim_story_failed(const struct sim_exchange *exchange, enum base_status status);
// A release was signed by as many keys as it takes.
void sim_story_offered(const struct sim_awake *awake, const struct wire_release *release);
// Its runtime has these counters by now.
void sim_story_seen(const struct sim_awake *awake, const struct dev_stats *stats);
// A run of the shard's job begins; `injected`: a bad release's rule hits it.
void sim_story_runs(const struct sim_awake *awake, bool injected);
void sim_story_ran(const struct sim_awake *awake, const struct sim_task_end *end);

#endif
