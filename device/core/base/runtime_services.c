// What every part of the runtime needs: clocks, chance, names of exchanges, the tasks, and telling
// the other parts. Called by all of them, on the runtime's thread. Nothing here knows a part: they
// are reached through the table that the runtime was given (core/runtime.c).
#include "core/base/runtime.h"

#include "base/check.h"

uint64_t dev_now_us(const struct dev_runtime *runtime)
{
    return runtime->ports->clock.mono_us(runtime->ports->clock.ctx);
}

struct dev_time_now dev_clocks(const struct dev_runtime *runtime)
{
    const struct base_clock_port *clock = &runtime->ports->clock;
    return (struct dev_time_now){.own_s = clock->wall_us(clock->ctx) / 1000000,
                                 .mono_us = clock->mono_us(clock->ctx)};
}

uint64_t dev_wall_s(const struct dev_runtime *runtime)
{
    struct dev_time_now now = dev_clocks(runtime);
    return dev_time_bracket(&runtime->time, &now).used_s;
}

uint64_t dev_random(struct dev_runtime *runtime)
{
    return runtime->ports->random.next(runtime->ports->random.ctx);
}

uint64_t dev_random_below_us(struct dev_runtime *runtime, uint64_t span_us)
{
    return span_us > 0 ? dev_random(runtime) % span_us : 0;
}

uint32_t dev_exchange_new(struct dev_runtime *runtime)
{
    runtime->next_exchange = runtime->next_exchange + 1 != 0 ? runtime->next_exchange + 1 : 1;
    return runtime->next_exchange;
}

bool dev_flush(struct dev_runtime *runtime, uint64_t now_us)
{
    if (runtime->dirty) {
        dev_tell_at(runtime, DEV_PART_EVENT_STORE, now_us);
    }
    return !runtime->dirty;
}

void dev_garbage_made(struct dev_runtime *runtime)
{
    runtime->garbage = true;
    runtime->dirty = true;
    dev_tell_that(runtime, DEV_PART_EVENT_GARBAGE);
}

struct dev_task *dev_task_find(struct dev_runtime *runtime, uint64_t task_id)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        if (runtime->tasks[i].id == task_id) {
            return &runtime->tasks[i];
        }
    }
    return NULL;
}

struct base_str dev_task_name(const struct dev_task *task)
{
    return (struct base_str){task->name, task->name_size};
}

// ---- Events

bool dev_tell(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    bool taken = false;
    uint32_t bit = UINT32_C(1) << event->kind;
    base_assert(event->kind < DEV_PART_EVENT_COUNT);
    base_assert((runtime->telling & bit) == 0);
    runtime->telling |= bit;
    for (const struct dev_part *const *part = runtime->parts; *part != NULL; part++) {
        taken = ((*part)->hears & bit) != 0 && (*part)->on_event(runtime, event);
        if (taken) {
            break;
        }
    }
    runtime->telling &= ~bit;
    return taken;
}

void dev_tell_that(struct dev_runtime *runtime, enum dev_part_event_kind kind)
{
    (void)dev_tell(runtime, &(struct dev_part_event){.kind = kind});
}

void dev_tell_at(struct dev_runtime *runtime, enum dev_part_event_kind kind, uint64_t at_us)
{
    (void)dev_tell(runtime, &(struct dev_part_event){.kind = kind, .at_us = at_us});
}

void dev_tell_of(struct dev_runtime *runtime, enum dev_part_event_kind kind, struct dev_task *task)
{
    base_assert(task >= runtime->tasks);
    base_assert(task < runtime->tasks + runtime->task_count);
    (void)dev_tell(runtime, &(struct dev_part_event){.kind = kind, .task = task});
}
