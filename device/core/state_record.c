// Looking at a stored record without living from it. Called by programs that show a device's folder
// (device/agent/agent_status.c), on their own thread. It decodes into a runtime with no ports that
// is never booted, so the record has one decoder (device_state.c) and nothing here can write, count
// or recover.
#include "device/state_record.h"

#include "core/device_state.h"

#include "core/trust/device_trust.h"

enum base_status dev_record_open(void *memory, size_t memory_bytes, const struct dev_config *config,
                                 const struct base_span *record, struct dev_runtime **out_runtime)
{
    struct dev_runtime *runtime = NULL;
    BASE_TRY(dev_init(memory, memory_bytes, config, NULL, &runtime));
    BASE_TRY(dev_state_decode(runtime, record->data, record->size));
    *out_runtime = runtime;
    return BASE_OK;
}

void dev_record_view(const struct dev_runtime *runtime, struct dev_record_view *out_view)
{
    struct dev_trust_view trust = dev_trust_view(runtime);
    *out_view = (struct dev_record_view){
        .tasks = runtime->task_count,
        .stopped = dev_past_count(runtime),
        .refusals = runtime->refusals.count,
        .outcomes = runtime->outcomes.count,
        .interval_s = runtime->told_interval_s,
        .root_version = trust.root_version,
        .timestamp_version = trust.timestamp_version,
        .timestamp_expires_s = trust.timestamp_expires_s,
    };
}

enum base_status dev_record_task(const struct dev_runtime *runtime, uint32_t index,
                                 struct dev_record_task *out_task)
{
    if (index >= runtime->task_count) {
        return BASE_ERR_NOT_FOUND;
    }
    const struct dev_task *task = &runtime->tasks[index];
    *out_task = (struct dev_record_task){
        .name = dev_task_name(task),
        .state = dev_update_state_name((enum dev_update_state)task->slots.state),
        .active = task->slots.active.manifest,
        .kept = task->slots.kept.manifest,
        .accepted = task->offer.accepted,
        .active_counter = task->slots.active.by.counter,
        .newest_counter = task->offer.newest.counter,
        .floor = task->slots.floor,
        .blocked = task->slots.blocked,
        .lease_until_s = task->lease.held ? task->lease.until_s : 0,
        .last_run_s = task->runs.last_s,
        .runs = task->runs.count,
        .crashes = task->runs.crashes,
        .running = task->runs.running,
        .shadow = task->shadow,
    };
    return BASE_OK;
}

enum base_status dev_record_refusal(const struct dev_runtime *runtime, uint32_t index,
                                    uint64_t *out_mark, bool *out_stands)
{
    const struct dev_refusals *refusals = &runtime->refusals;
    if (index >= refusals->count) {
        return BASE_ERR_NOT_FOUND;
    }
    *out_mark = refusals->marks[index];
    *out_stands = dev_refusals_stands(refusals, refusals->marks[index]);
    return BASE_OK;
}

enum base_status dev_record_stopped(const struct dev_runtime *runtime, uint32_t index,
                                    uint64_t *out_task_id, uint64_t *out_floor)
{
    if (index >= dev_past_count(runtime)) {
        return BASE_ERR_NOT_FOUND;
    }
    *out_task_id = runtime->sweep->past[index].task_id;
    *out_floor = runtime->sweep->past[index].floor;
    return BASE_OK;
}
