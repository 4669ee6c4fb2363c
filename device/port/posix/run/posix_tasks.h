// Task runs of the posix port, several at once: a worker (posix/run/posix_task.h) for each, made
// when it is first needed and kept. Models are loaded once for all of them, and shared read-only.
// Everything here is called on the loop's thread, and the runtime is called on it.
#ifndef POSIX_TASKS_H
#define POSIX_TASKS_H

#include "posix/run/posix_task.h"

struct posix_tasks;

// `runs_max`: 1 to DEV_RUNS_MAX. NOMEM, and the codes of posix_task_new; `error` says what.
BASE_NODISCARD enum base_status posix_tasks_new(const struct posix_task_options *options,
                                                uint32_t runs_max, struct posix_tasks **out_tasks,
                                                struct base_error *error);
void posix_tasks_free(struct posix_tasks *tasks); // interrupts what runs; accepts NULL
void posix_tasks_attach(struct posix_tasks *tasks, struct dev_runtime *runtime);
// What scripts may ask (walle.data.query). NULL: nothing.
void posix_tasks_features(struct posix_tasks *tasks, struct dev_feature_store *features);
struct dev_task_port posix_tasks_table(struct posix_tasks *tasks);

#endif
