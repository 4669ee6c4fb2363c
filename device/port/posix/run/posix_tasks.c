// The workers of a device: a run goes to the first that is idle, in the order they were made, so
// few are there where few runs coincide. Called by posix_port.c and by the runtime, on the loop's
// thread; what the workers share beyond that is guarded where it lies (the model store,
// posix_leave.c).
#include "posix/run/posix_tasks.h"

#include "base/check.h"
#include "device/device.h"

#include <stdlib.h>

struct posix_tasks {
    struct posix_task_options options;
    struct posix_task_shared shared;
    struct dev_runtime *runtime;
    struct dev_feature_store *features;
    uint32_t runs_max;
    uint32_t count;
    struct posix_task *workers[DEV_RUNS_MAX];
};

static enum base_status worker_add(struct posix_tasks *tasks, struct base_error *error)
{
    struct posix_task *worker = NULL;
    base_check(tasks->count < tasks->runs_max);
    BASE_TRY(posix_task_new(&tasks->options, &tasks->shared, &worker, error));
    posix_task_attach(worker, tasks->runtime);
    posix_task_features(worker, tasks->features);
    tasks->workers[tasks->count++] = worker;
    return BASE_OK;
}

// Loop: some of the workers rang.
static void serve(void *ctx)
{
    struct posix_tasks *tasks = ctx;
    bool handed = false;
    for (uint32_t i = 0; i < tasks->count; i++) {
        handed = posix_task_serve(tasks->workers[i]) || handed;
    }
    if (handed) {
        tasks->options.woke(tasks->options.ctx);
    }
}

static enum base_status start(void *ctx, uint32_t run, const struct dev_task_job *job)
{
    struct posix_tasks *tasks = ctx;
    struct base_error error;
    for (uint32_t i = 0; i < tasks->count; i++) {
        enum base_status status = posix_task_start(tasks->workers[i], run, job);
        if (status != BASE_ERR_BUSY) {
            return status;
        }
    }
    if (tasks->count == tasks->runs_max) {
        return BASE_ERR_BUSY;
    }
    if (worker_add(tasks, &error) != BASE_OK) {
        return BASE_ERR_NOMEM; // the first could be made, so this one can be later
    }
    return posix_task_start(tasks->workers[tasks->count - 1], run, job);
}

static void cancel(void *ctx, uint32_t run)
{
    struct posix_tasks *tasks = ctx;
    for (uint32_t i = 0; i < tasks->count; i++) {
        posix_task_cancel(tasks->workers[i], run);
    }
}

enum base_status posix_tasks_new(const struct posix_task_options *options, uint32_t runs_max,
                                 struct posix_tasks **out_tasks, struct base_error *error)
{
    base_check(runs_max > 0 && runs_max <= DEV_RUNS_MAX);
    struct posix_tasks *tasks = calloc(1, sizeof(*tasks));
    if (tasks == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    tasks->options = *options;
    tasks->runs_max = runs_max;
    posix_leave_ledger_init(&tasks->shared.ledger);
    enum base_status status = posix_bell_open(&tasks->shared.bell, options->base, serve, tasks);
    if (status == BASE_OK) {
        status = worker_add(tasks, error);
    } else {
        (void)base_error_set(error, status, "task workers: %s", base_status_text(status));
    }
    if (status != BASE_OK) {
        posix_tasks_free(tasks);
        return status;
    }
    *out_tasks = tasks;
    return BASE_OK;
}

void posix_tasks_free(struct posix_tasks *tasks)
{
    if (tasks == NULL) {
        return;
    }
    for (uint32_t i = 0; i < tasks->count; i++) {
        posix_task_free(tasks->workers[i]);
    }
    posix_bell_close(&tasks->shared.bell);
    posix_task_shared_done(&tasks->shared);
    free(tasks);
}

void posix_tasks_attach(struct posix_tasks *tasks, struct dev_runtime *runtime)
{
    tasks->runtime = runtime;
    for (uint32_t i = 0; i < tasks->count; i++) {
        posix_task_attach(tasks->workers[i], runtime);
    }
}

void posix_tasks_features(struct posix_tasks *tasks, struct dev_feature_store *features)
{
    tasks->features = features;
    for (uint32_t i = 0; i < tasks->count; i++) {
        posix_task_features(tasks->workers[i], features);
    }
}

struct dev_task_port posix_tasks_table(struct posix_tasks *tasks)
{
    return (struct dev_task_port){
        .ctx = tasks, .start = start, .cancel = cancel, .proves_models = true};
}
