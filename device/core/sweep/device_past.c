// Tasks that are over: what is remembered of one that was stopped, so that its place is free for
// another. That is what no gateway may make a device forget (the floor, and the newest approval
// with its content); what failed of it is among the refusals. Nothing is forgotten for room: when
// there is none, the task keeps its place.
//
// Called by the tick, and by the offer code when such a task comes again.
#include "core/sweep/device_past.h"

#include "core/run/device_run.h"
#include "core/slots/device_slots.h"

#include "base/check.h"

#include <string.h>

static struct dev_past *find(const struct dev_runtime *runtime, uint64_t task_id)
{
    for (uint32_t i = 0; i < runtime->sweep->past_count; i++) {
        if (runtime->sweep->past[i].task_id == task_id) {
            return &runtime->sweep->past[i];
        }
    }
    return NULL;
}

// Stopped, and nothing came since.
static bool is_over(const struct dev_task *task)
{
    return !task->shadow && task->slots.state == DEV_UPDATE_EMPTY &&
           task->offer.accepted_by.counter == 0 && task->offer.newest.counter != 0;
}

static void retire(struct dev_runtime *runtime, struct dev_task *task)
{
    base_check(runtime->sweep->past_count < runtime->settings.tasks_max);
    dev_slot_block(runtime, task, 0); // what failed last becomes one of those before
    runtime->sweep->past[runtime->sweep->past_count++] = (struct dev_past){
        .task_id = task->id,
        .floor = task->slots.floor,
        .newest = task->offer.newest,
        .newest_manifest = task->offer.newest_manifest,
    };
    dev_task_drop(runtime, task);
}

static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    (void)now_us;
    if (!runtime->sweep->past_due || runtime->garbage || dev_run_is_busy(runtime)) {
        return;
    }
    runtime->sweep->past_due = false;
    for (uint32_t i = runtime->task_count; i > 0; i--) {
        struct dev_task *task = &runtime->tasks[i - 1];
        bool over = is_over(task) && runtime->sweep->past_count < runtime->settings.tasks_max;
        if (over && task->incoming.leftover) {
            runtime->sweep->past_due = true; // when that is collected
        } else if (over) {
            retire(runtime, task);
        }
    }
}

bool dev_past_recall(const struct dev_runtime *runtime, uint64_t task_id, struct dev_past *out)
{
    const struct dev_past *past = find(runtime, task_id);
    if (past != NULL) {
        *out = *past;
    }
    return past != NULL;
}

void dev_past_forget(struct dev_runtime *runtime, uint64_t task_id)
{
    struct dev_past *past = find(runtime, task_id);
    if (past != NULL) {
        runtime->sweep->past_count--;
        size_t behind = (size_t)(&runtime->sweep->past[runtime->sweep->past_count] - past);
        memmove(past, past + 1, behind * sizeof(*past));
        runtime->sweep->past_due = true; // there is room for another
    }
}

uint64_t dev_floor(const struct dev_runtime *runtime, struct base_str task_name)
{
    uint64_t task_id = wire_task_id(task_name);
    const struct dev_past *past = find(runtime, task_id);
    uint64_t floor = past != NULL ? past->floor : 0;
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        floor = runtime->tasks[i].id == task_id ? runtime->tasks[i].slots.floor : floor;
    }
    return floor;
}

bool dev_past_valid(const struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->sweep->past_count; i++) {
        const struct dev_past *past = &runtime->sweep->past[i];
        bool again = find(runtime, past->task_id) != past;
        for (uint32_t k = 0; k < runtime->task_count; k++) {
            again = again || runtime->tasks[k].id == past->task_id;
        }
        if (again || past->newest.counter == 0 || past->floor > past->newest.counter) {
            return false;
        }
    }
    return runtime->sweep->past_count <= runtime->settings.tasks_max;
}

static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    if (event->kind == DEV_PART_EVENT_ANEW) {
        runtime->sweep->past_count = 0;
    } else if (event->kind == DEV_PART_EVENT_RESTORED || event->kind == DEV_PART_EVENT_ENDED) {
        runtime->sweep->past_due = true;
    }
    return false;
}

const struct dev_part dev_past_part = {.name = "past",
                                       .step = step,
                                       .on_event = on_event,
                                       .hears = DEV_PART_HEARS(ANEW) | DEV_PART_HEARS(RESTORED) |
                                                DEV_PART_HEARS(ENDED)};

// ---- The record

uint32_t dev_past_count(const struct dev_runtime *runtime)
{
    return runtime->sweep->past_count;
}

void dev_past_clear(struct dev_runtime *runtime)
{
    runtime->sweep->past_count = 0;
}

void dev_past_write(const struct dev_runtime *runtime, struct base_writer *writer)
{
    base_writer_varint(writer, runtime->sweep->past_count);
    for (uint32_t i = 0; i < runtime->sweep->past_count; i++) {
        const struct dev_past *past = &runtime->sweep->past[i];
        base_writer_u64(writer, past->task_id);
        base_writer_varint(writer, past->floor);
        base_writer_varint(writer, past->newest.counter);
        base_writer_u64(writer, past->newest.rollout_id);
        base_writer_bytes(writer, past->newest_manifest.bytes, WIRE_SHA256_BYTES);
    }
}

void dev_past_read(struct dev_runtime *runtime, struct base_reader *reader)
{
    uint32_t count = (uint32_t)base_reader_varint_max(reader, runtime->settings.tasks_max);
    for (uint32_t i = 0; i < count && reader->status == BASE_OK; i++) {
        struct dev_past *past = &runtime->sweep->past[i];
        past->task_id = base_reader_u64(reader);
        past->floor = base_reader_varint(reader);
        past->newest.counter = base_reader_varint(reader);
        past->newest.rollout_id = base_reader_u64(reader);
        base_reader_copy(reader, past->newest_manifest.bytes, WIRE_SHA256_BYTES);
        runtime->sweep->past_count = i + 1;
    }
    if (reader->status == BASE_OK && !dev_past_valid(runtime)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}
