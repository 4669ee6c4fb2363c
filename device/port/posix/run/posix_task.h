// A worker for task runs, one run at a time: on its thread, or in processes behind a wall.
#ifndef POSIX_TASK_H
#define POSIX_TASK_H

#include "base/error.h"
#include "device/port.h"
#include "posix/run/posix_bell.h"
#include "posix/run/posix_given.h"
#include "posix/run/posix_leave.h"

#include <event2/event.h>

struct dev_feature_store;
struct dev_model_store;
struct posix_task;

struct posix_task_options {
    struct event_base *base;
    // NULL: scripts run on the worker's thread; otherwise in processes of that program
    // (posix/run/posix_child.h), whose codes posix_task_new gives.
    const char *runner_path;
    void *ctx;
    void (*woke)(void *ctx); // something was handed to the runtime: tick it
};

// What the workers of a device share; it outlives them. Zero-initialised, but for the ledger.
struct posix_task_shared {
    struct dev_model_store *models; // made for the first job on a thread that has a model; loop
    struct posix_leave_ledger ledger;
    struct posix_given_list given; // loop
    struct posix_bell bell;        // rung by who has something for the loop; posix_tasks.c answers
};
void posix_task_shared_done(struct posix_task_shared *shared);

BASE_NODISCARD enum base_status posix_task_new(const struct posix_task_options *options,
                                               struct posix_task_shared *shared,
                                               struct posix_task **out_task,
                                               struct base_error *error);
void posix_task_free(struct posix_task *task);
void posix_task_attach(struct posix_task *task, struct dev_runtime *runtime);
// Loop, behind the bell: takes what the worker has for it. True: something was handed to the
// runtime, which is to be ticked.
bool posix_task_serve(struct posix_task *task);
// What scripts may ask (walle.data.query). NULL: nothing.
void posix_task_features(struct posix_task *task, struct dev_feature_store *features);
// As dev_task_port's. BUSY: a run is under way. A run that is not this worker's is not cancelled.
BASE_NODISCARD enum base_status posix_task_start(struct posix_task *task, uint32_t run,
                                                 const struct dev_task_job *job);
void posix_task_cancel(struct posix_task *task, uint32_t run);

#endif
