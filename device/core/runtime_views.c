// What may be seen of a runtime from outside: whether it is idle, what it counted, what runs, and
// whether its state is one that can be. Called by the embedding app, the agent, the simulator and
// tests, on the runtime's thread. Nothing here changes anything.
#include "core/base/runtime.h"

#include "core/control/device_control.h"
#include "core/device_state.h"
#include "core/pull/device_pull.h"
#include "core/run/device_run.h"
#include "core/trust/device_trust.h"

#include "base/hash.h"

bool dev_is_idle(const struct dev_runtime *runtime)
{
    bool waiting = dev_control_is_busy(runtime) || !dev_pull_is_idle(runtime) ||
                   dev_run_is_busy(runtime) || dev_triggered_is_busy(runtime) ||
                   dev_trust_is_busy(runtime) || runtime->dirty || runtime->outcomes.count > 0;
    uint64_t now_us = dev_now_us(runtime);
    for (uint32_t i = 0; i < runtime->task_count && !waiting; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        waiting =
            dev_update_is_pulling((enum dev_update_state)task->slots.state) ||
            (task->runs.due_us <= now_us && (task->content.damaged & DEV_UNPROVEN_ACTIVE) == 0);
    }
    return !waiting && !dev_pull_is_due(runtime, now_us);
}

void dev_stats(const struct dev_runtime *runtime, struct dev_stats *out_stats)
{
    *out_stats = runtime->stats;
    out_stats->root_version =
        dev_trust_is_rooted(runtime) ? dev_trust_view(runtime).root_version : 0;
}

uint32_t dev_task_count(const struct dev_runtime *runtime)
{
    return runtime->task_count;
}

enum base_status dev_task_view(const struct dev_runtime *runtime, uint32_t index,
                               struct dev_task_view *out_view)
{
    if (index >= runtime->task_count) {
        return BASE_ERR_NOT_FOUND;
    }
    const struct dev_task *task = &runtime->tasks[index];
    *out_view = (struct dev_task_view){
        .name = dev_task_name(task),
        .active = task->slots.active.manifest,
        .previous = task->slots.kept.manifest,
        .exclusive = task->slots.active.exclusive,
        .blocked_version_id = task->slots.blocked,
        .release_counter = task->offer.newest.counter,
        .placebo_rollout = task->slots.placebo ? task->slots.again.rollout_id : 0,
        .on_trial = dev_update_on_trial((enum dev_update_state)task->slots.state),
        .shadow = task->shadow,
    };
    return BASE_OK;
}

uint64_t dev_active_mark(const struct dev_runtime *runtime)
{
    uint64_t mark = 0;
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        if (!task->shadow && !wire_sha256_is_zero(&task->slots.active.manifest)) {
            // What was declared in content that was damaged could not be read; and every activation
            // has it read, as that of an update.
            mark += base_hash64_seed(task->slots.active.manifest.bytes, WIRE_SHA256_BYTES,
                                     task->id + task->content.renewed);
        }
    }
    return mark;
}

enum base_status dev_active_open(struct dev_runtime *runtime, uint32_t index,
                                 const uint8_t **out_bytes, size_t *out_size)
{
    if (index >= runtime->task_count || runtime->tasks[index].shadow ||
        wire_sha256_is_zero(&runtime->tasks[index].slots.active.manifest)) {
        return BASE_ERR_NOT_FOUND;
    }
    return dev_content_open(runtime, &runtime->tasks[index].slots.active.manifest,
                            WIRE_MANIFEST_BYTES_MAX, out_bytes, out_size);
}

void dev_active_close(struct dev_runtime *runtime, uint32_t index, const uint8_t *bytes,
                      size_t size)
{
    dev_content_close(runtime, &runtime->tasks[index].slots.active.manifest, bytes, size);
}

static bool tasks_valid(const struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        if (!dev_task_valid(&runtime->tasks[i])) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (runtime->tasks[i].id == runtime->tasks[j].id) {
                return false;
            }
        }
    }
    return true;
}

bool dev_validate(const struct dev_runtime *runtime)
{
    const struct dev_outcome_queue *outcomes = &runtime->outcomes;
    if (runtime->task_count > runtime->settings.tasks_max || !tasks_valid(runtime)) {
        return false;
    }
    if (outcomes->size > outcomes->capacity || outcomes->count > outcomes->count_max ||
        (outcomes->count == 0) != (outcomes->size == 0) || outcomes->first_seq == 0) {
        return false;
    }
    return dev_past_valid(runtime) && dev_pull_valid(runtime) && dev_run_valid(runtime);
}
