// Runs that behaviour started: the one start the data pipeline has handed over waits for its turn,
// runs with its events, and is told of when it ended. A shadow of the task gets the same events
// right after.
//
// The start itself is kept by the pipeline, which gives it again after a restart; nothing here is
// stored. Called by the tick, by the run code and by the embedding (dev_run_triggered).
#include "core/run/runs_at_once.h"

#include "base/check.h"

static bool has_active(const struct dev_task *task)
{
    return dev_update_has_active((enum dev_update_state)task->slots.state);
}

enum base_status dev_run_triggered(struct dev_runtime *runtime, uint64_t task_id,
                                   const struct dev_run_input *input)
{
    const struct dev_task *task = dev_task_find(runtime, task_id);
    if (runtime->triggered->phase != DEV_TRIGGERED_NONE) {
        return BASE_ERR_BUSY;
    }
    if (task == NULL || task->shadow || !has_active(task)) {
        return BASE_ERR_NOT_FOUND;
    }
    *runtime->triggered = (struct dev_triggered){
        .input = *input,
        .task_id = task_id,
        .phase = DEV_TRIGGERED_WAITING,
    };
    return BASE_OK;
}

static void tell(struct dev_runtime *runtime, const struct dev_task_end *end)
{
    const struct dev_ports *ports = runtime->ports;
    if (ports->on_triggered != NULL) {
        ports->on_triggered(ports->app, runtime->triggered->input.token, end);
    }
}

static void release(struct dev_runtime *runtime)
{
    const struct dev_ports *ports = runtime->ports;
    base_assert(runtime->triggered->phase != DEV_TRIGGERED_NONE);
    runtime->triggered->phase = DEV_TRIGGERED_NONE;
    if (ports->on_input_free != NULL) {
        ports->on_input_free(ports->app, runtime->triggered->input.token);
    }
}

static struct dev_task *task_of(struct dev_runtime *runtime)
{
    struct dev_task *task = dev_task_find(runtime, runtime->triggered->task_id);
    return task != NULL && has_active(task) ? task : NULL;
}

// Does a shadow of the task wait to run on the same input?
static bool shadow_waits(struct dev_runtime *runtime)
{
    const struct dev_task *task = task_of(runtime);
    const struct dev_task *shadow = task != NULL ? dev_shadow_other(runtime, task) : NULL;
    return shadow != NULL && has_active(shadow) && shadow->runs.due_us != UINT64_MAX;
}

// Is the run with the input under way?
static bool has_run(const struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->settings.runs_max; i++) {
        if (runtime->run[i].run != 0 && runtime->run[i].triggered) {
            return true;
        }
    }
    return false;
}

bool dev_triggered_for(const struct dev_runtime *runtime, const struct dev_task *task)
{
    const struct dev_triggered *triggered = runtime->triggered;
    bool starts = triggered->phase == DEV_TRIGGERED_RUNNING && !has_run(runtime);
    return (starts && task->id == triggered->task_id) ||
           (triggered->phase == DEV_TRIGGERED_BESIDE && task->shadow &&
            wire_shadow_task_id(task->id) == triggered->task_id);
}

const struct dev_run_input *dev_triggered_input(const struct dev_runtime *runtime)
{
    base_assert(runtime->triggered->phase != DEV_TRIGGERED_NONE);
    return &runtime->triggered->input;
}

bool dev_triggered_is_busy(const struct dev_runtime *runtime)
{
    return runtime->triggered->phase != DEV_TRIGGERED_NONE;
}

void dev_triggered_failed(struct dev_runtime *runtime, const struct dev_task_end *end)
{
    tell(runtime, end);
    release(runtime);
}

bool dev_triggered_start(struct dev_runtime *runtime, struct dev_task *task, uint64_t now_us)
{
    struct dev_triggered *triggered = runtime->triggered;
    // Known to be damaged: nothing is read.
    bool damaged = (task->content.damaged & DEV_UNPROVEN_ACTIVE) != 0;
    if (!damaged && !dev_run_marked(runtime, task, now_us)) {
        return false;
    }
    triggered->phase = DEV_TRIGGERED_RUNNING;
    enum base_status status = damaged ? BASE_ERR_CORRUPT : dev_run_start(runtime, task);
    if (status == BASE_OK) {
        runtime->stats.triggered++;
        return true;
    }
    struct dev_task_end end = {0};
    if (!dev_run_start_failed(runtime, task, status, now_us, &end)) {
        triggered->phase = DEV_TRIGGERED_WAITING;
        triggered->not_before_us = now_us + DEV_RUN_RETRY_US;
        return false;
    }
    dev_triggered_failed(runtime, &end);
    return false;
}

// Is a run under way that the next one waits for?
static bool is_held(const struct dev_runtime *runtime)
{
    return runtime->at_once == NULL ? dev_run_is_busy(runtime) : has_run(runtime);
}

struct dev_task *dev_triggered_ready(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_triggered *triggered = runtime->triggered;
    if (is_held(runtime) || runtime->dirty) {
        return NULL;
    }
    if (triggered->phase == DEV_TRIGGERED_BESIDE && !shadow_waits(runtime)) {
        release(runtime);
    }
    if (triggered->phase != DEV_TRIGGERED_WAITING) {
        return NULL;
    }
    struct dev_task *task = task_of(runtime);
    if (task == NULL) {
        dev_triggered_failed(runtime, NULL);
    }
    return now_us >= triggered->not_before_us ? task : NULL;
}

static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_task *task = dev_triggered_ready(runtime, now_us);
    if (task != NULL && runtime->at_once == NULL) { // otherwise it waits with the others
        (void)dev_triggered_start(runtime, task, now_us);
    }
}

void dev_triggered_end(struct dev_runtime *runtime, const struct dev_task *task,
                       const struct dev_task_end *end)
{
    if (!task->shadow) {
        base_assert(runtime->triggered->phase == DEV_TRIGGERED_RUNNING);
        tell(runtime, end);
    }
    // The next step sees whether its shadow is to run on the same.
    runtime->triggered->phase = DEV_TRIGGERED_BESIDE;
}

void dev_triggered_stopped(struct dev_runtime *runtime)
{
    // Of a shadow alone: the run itself was told of.
    bool told = runtime->triggered->phase == DEV_TRIGGERED_BESIDE;
    runtime->triggered->phase = told ? DEV_TRIGGERED_BESIDE : DEV_TRIGGERED_WAITING;
}

static void init(struct dev_runtime *runtime, uint64_t first_us)
{
    (void)first_us;
    runtime->triggered->phase = DEV_TRIGGERED_NONE;
}

static uint64_t due_us_of(const struct dev_runtime *runtime)
{
    struct dev_runtime *looked_at = (struct dev_runtime *)(uintptr_t)runtime;
    const struct dev_task *task = NULL;
    if (is_held(runtime) || runtime->dirty) {
        return UINT64_MAX;
    }
    switch (runtime->triggered->phase) {
    case DEV_TRIGGERED_WAITING:
        task = runtime->at_once != NULL ? task_of(looked_at) : NULL;
        return task != NULL && dev_at_once_holds(runtime, task) ? UINT64_MAX
                                                                : runtime->triggered->not_before_us;
    case DEV_TRIGGERED_BESIDE:
        return runtime->at_once != NULL && shadow_waits(looked_at) ? UINT64_MAX : 0;
    default:
        return UINT64_MAX;
    }
}

const struct dev_part dev_triggered_part = {
    .name = "triggered", .init = init, .step = step, .due_us = due_us_of};
