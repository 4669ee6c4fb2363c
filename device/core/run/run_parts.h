// What the files of the runs share: device_run.c, which starts them; device_trigger.c, the one that
// behaviour asks for; device_shadow.c, those beside an active version.
#ifndef DEV_RUN_PARTS_H
#define DEV_RUN_PARTS_H

#include "core/run/device_run.h"
#include "core/run/device_shadow.h"
#include "core/run/result_compare.h"

#define DEV_RUN_RETRY_US  (1000 * 1000ull) // when the task port was busy
#define DEV_RUN_FILES_MAX (WIRE_MANIFEST_FILES_MAX + WIRE_EXCLUSIVE_FILES_MAX)

// Comparisons of a shadow with the active version: so many; of a task that runs only once so many
// as it takes to judge the time, which a single run says too little about.
#define DEV_SHADOW_RUNS          20
#define DEV_SHADOW_TIMED_RUNS    5
#define DEV_SHADOW_REFERENCES    10    // runs of the active version for it since boot
#define DEV_SHADOW_SLOW_US       2000  // less more time a run is never slow
#define DEV_SHADOW_HEAVY_BYTES   16384 // less more memory is never heavy
#define DEV_RESULT_BYTES_DEFAULT 4096  // longest result of an active version that is kept

// A run under way. There are as many places as may run at once.
struct dev_run {
    struct wire_sha256 version;
    const uint8_t *manifest; // mapped
    struct wire_sha256 exclusive;
    const uint8_t *exclusive_manifest; // mapped; NULL: no exclusive files
    uint32_t manifest_bytes;
    uint32_t exclusive_bytes;
    uint64_t rollout;
    uint32_t run;      // 0: none
    uint32_t next_run; // in the first place alone: the number given last
    uint32_t task;
    bool reference;                   // for a shadow alone: nobody is told
    bool triggered;                   // with the input of runtime->triggered
    bool quiet;                       // of a failure only its place leaves (wire/leaves/leaves.h)
    bool beside;                      // another run of the task may be under way with it
    uint32_t refused;                 // records that the embedding did not let leave
    const struct dev_blob_set *blobs; // of the app, to be given back (run_blobs.h); NULL: none
};

enum dev_triggered_phase {
    DEV_TRIGGERED_NONE,
    DEV_TRIGGERED_WAITING,
    DEV_TRIGGERED_RUNNING,
    DEV_TRIGGERED_BESIDE, // the run ended; its shadow gets the same input
};

// The one run that behaviour asks for.
struct dev_triggered {
    struct dev_run_input input;
    uint64_t task_id;
    uint64_t not_before_us;
    enum dev_triggered_phase phase;
};

// What the app handed to a run, for the shadow that is compared with it (run_blobs.h).
struct dev_kept_blobs {
    const struct dev_blob_set *set; // NULL: nothing
    uint64_t shadow_id;             // 0: none
};

// The result itself, for as long as the comparison takes; of one shadow at a time.
struct dev_kept_result {
    char *bytes; // behind the tasks in the caller's memory
    uint32_t capacity;
    uint32_t size;
    uint64_t shadow_id; // whose comparison it is for; 0: none
    struct dev_kept_blobs blobs;
};

// ---- device_run.c
// The place of the run that is started, or whose end is told.
struct dev_run *dev_run_current(const struct dev_runtime *runtime);
// The place of the task's run; NULL: none is under way.
struct dev_run *dev_run_of(const struct dev_runtime *runtime, const struct dev_task *task);
// The active version's run that is due; its mark is stored. False: it did not start, and is told of
// or due again.
bool dev_run_begin(struct dev_runtime *runtime, struct dev_task *task, uint64_t now_us);
// The active version cannot run here: told as the end of a run.
void dev_run_cannot(struct dev_runtime *runtime, struct dev_task *task,
                    const struct dev_task_end *end);
// Cancelled; it is due again.
void dev_run_stop(struct dev_runtime *runtime, struct dev_run *run);
BASE_NODISCARD enum base_status dev_run_start(struct dev_runtime *runtime, struct dev_task *task);
// The mark of a run on trial is on disk; otherwise it must not start yet.
bool dev_run_marked(struct dev_runtime *runtime, struct dev_task *task, uint64_t now_us);
// The version could not even be started. *out_end is what that came to; false: try again at
// task->runs.due_us.
bool dev_run_start_failed(struct dev_runtime *runtime, struct dev_task *task,
                          enum base_status status, uint64_t now_us, struct dev_task_end *out_end);

// ---- device_trigger.c
// What waits for its turn, as it can start now; NULL: nothing. Lets go of what is over.
struct dev_task *dev_triggered_ready(struct dev_runtime *runtime, uint64_t now_us);
bool dev_triggered_start(struct dev_runtime *runtime, struct dev_task *task, uint64_t now_us);
// A run with the input ended, or was stopped.
void dev_triggered_end(struct dev_runtime *runtime, const struct dev_task *task,
                       const struct dev_task_end *end);
void dev_triggered_stopped(struct dev_runtime *runtime);
// ... cannot be: `end` is what it came to.
void dev_triggered_failed(struct dev_runtime *runtime, const struct dev_task_end *end);
// Does a run of `task` that starts now get the input?
bool dev_triggered_for(const struct dev_runtime *runtime, const struct dev_task *task);
const struct dev_run_input *dev_triggered_input(const struct dev_runtime *runtime);

// ---- device_shadow.c
// A run of the active version of `task` ended: its shadow runs next, to be compared with it.
void dev_shadow_beside(struct dev_runtime *runtime, const struct dev_task *task,
                       const struct dev_task_end *end);
// A run of the shadow ended.
void dev_shadow_judge(struct dev_runtime *runtime, struct dev_task *shadow,
                      const struct dev_task_end *end);

#endif
