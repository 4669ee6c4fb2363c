// Runs of tasks: on a worker thread, or in processes behind a wall.
#ifndef POSIX_TASK_H
#define POSIX_TASK_H

#include "base/error.h"
#include "device/port.h"

#include <event2/event.h>

struct posix_task;
struct posix_task_options {
    struct event_base *base;
    // NULL: scripts run on the worker thread; otherwise in processes of that program
    // (posix/run/posix_child.h), whose codes posix_task_new gives.
    const char *runner_path;
    void *ctx;
    void (*woke)(void *ctx); // something was handed to the runtime: tick it
};
BASE_NODISCARD enum base_status posix_task_new(const struct posix_task_options *options,
                                               struct posix_task **out_task,
                                               struct base_error *error);
void posix_task_free(struct posix_task *task);
void posix_task_attach(struct posix_task *task, struct dev_runtime *runtime);
// What scripts may ask (walle.data.query). NULL: nothing.
struct dev_feature_store;
void posix_task_features(struct posix_task *task, struct dev_feature_store *features);
struct dev_task_port posix_task_table(struct posix_task *task);

#endif
