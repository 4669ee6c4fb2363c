// The pull's lane: which version's content is brought or proven next, and the doors of the part.
// One at a time: a damaged version that cannot run, then what was accepted or named by a mark, then
// the check; and what waits for the check ends it.
//
// Called by the tick, by other parts' events, and by the transport.
#include "core/pull/pull_parts.h"

#include "core/run/device_run.h"

#include "base/check.h"

#include <string.h>

static struct dev_task *task_of(struct dev_runtime *runtime)
{
    base_check(runtime->pull->task < runtime->task_count);
    return &runtime->tasks[runtime->pull->task];
}

// What is damaged is deleted: not while a run may have it mapped.
static bool paused(const struct dev_runtime *runtime)
{
    return dev_pull_repairing(runtime) && dev_run_is_busy(runtime);
}

// What waits for the lane, in this order: a damaged version that cannot run; accepted versions, and
// active ones that a mark names; the check. *out_due_us: when the first of them is due; UINT64_MAX:
// there is none.
struct work {
    uint32_t task;
    enum dev_pull_copy copy;
    bool check; // nothing waits for it
};

static bool repair_due(const struct dev_task *task, enum dev_pull_copy copy, uint64_t now_us,
                       uint64_t *inout_due_us)
{
    uint64_t due_us = 0;
    if (!dev_repair_wanted(task, copy, &due_us)) {
        return false;
    }
    *inout_due_us = due_us < *inout_due_us ? due_us : *inout_due_us;
    return due_us <= now_us;
}

static bool work_find(const struct dev_runtime *runtime, uint64_t now_us, struct work *out,
                      uint64_t *out_due_us)
{
    unsigned best = 0; // 3: damaged, 2: accepted or named by a mark, 1: check
    *out_due_us = UINT64_MAX;
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        bool pulling = dev_update_is_pulling((enum dev_update_state)task->slots.state);
        *out_due_us = pulling ? 0 : *out_due_us;
        bool still = !dev_run_is_busy(runtime);
        bool active = still && repair_due(task, DEV_COPY_ACTIVE, now_us, out_due_us);
        bool kept = still && repair_due(task, DEV_COPY_KEPT, now_us, out_due_us);
        bool urgent = active && (task->content.damaged & DEV_UNPROVEN_ACTIVE) != 0;
        bool again = active && task->offer.again.rollout_id != 0;
        unsigned rank = urgent ? 3 : pulling || again ? 2 : active || kept ? 1 : 0;
        if (rank > best) {
            best = rank;
            *out = (struct work){.task = i, .check = rank == 1};
            out->copy = rank == 2 && pulling  ? DEV_COPY_ACCEPTED
                        : rank == 3 || active ? DEV_COPY_ACTIVE
                                              : DEV_COPY_KEPT;
        }
    }
    return best > 0;
}

static void work_choose(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_pull *pull = runtime->pull;
    struct work work;
    uint64_t due_us = 0;
    if (work_find(runtime, now_us, &work, &due_us)) {
        dev_pull_idle(pull);
        pull->task = work.task;
        pull->copy = (uint8_t)work.copy;
        pull->version = wire_version_id(dev_copy_version(task_of(runtime), work.copy));
        pull->phase = DEV_PULL_PICK;
        pull->not_before_us = 0;
    }
}

// Is there something that a check waits for: content to be brought, or a mark to be followed?
static bool check_waits(struct dev_runtime *runtime, uint64_t now_us)
{
    const struct dev_pull *pull = runtime->pull;
    struct work work = {.check = true};
    uint64_t due_us = 0;
    if (!pull->proving || !work_find(runtime, now_us, &work, &due_us) || work.check ||
        (work.task == pull->task && work.copy == (enum dev_pull_copy)pull->copy)) {
        return false;
    }
    return work.copy == DEV_COPY_ACCEPTED || runtime->tasks[work.task].offer.again.rollout_id != 0;
}

// A repair is over when its version is not where it was.
static void repair_review(struct dev_runtime *runtime, uint64_t now_us)
{
    const struct dev_pull *pull = runtime->pull;
    if (pull->phase == DEV_PULL_IDLE || !dev_pull_repairing(runtime)) {
        return;
    }
    const struct wire_sha256 *version =
        dev_copy_version(task_of(runtime), (enum dev_pull_copy)pull->copy);
    bool gone = wire_version_id(version) != pull->version;
    if (gone || check_waits(runtime, now_us)) {
        dev_pull_stop(runtime);
    }
}

static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_pull *pull = runtime->pull;
    base_assert(dev_pull_valid(runtime));
    repair_review(runtime, now_us);
    if (pull->phase == DEV_PULL_IDLE) {
        work_choose(runtime, now_us);
    }
    if (pull->phase == DEV_PULL_BODY && now_us >= pull->deadline_us) {
        dev_pull_retry(runtime, "download stalled");
    }
    // A step ends when it must wait, when a slice was hashed, or when something is to be stored.
    while (!runtime->dirty && now_us >= pull->not_before_us && !paused(runtime)) {
        enum dev_pull_phase phase = (enum dev_pull_phase)pull->phase;
        if (phase == DEV_PULL_PICK) {
            dev_pull_pick(runtime);
        } else if (phase == DEV_PULL_REHASH) {
            dev_pull_rehash(runtime);
            if (pull->phase == DEV_PULL_REHASH) {
                return;
            }
        } else if (phase == DEV_PULL_DECODE) {
            dev_pull_decode(runtime);
            if (pull->phase == DEV_PULL_DECODE) {
                return;
            }
        } else if (phase == DEV_PULL_ASK) {
            dev_pull_ask(runtime, now_us);
        } else {
            return;
        }
    }
}

static uint64_t due_us_of(const struct dev_runtime *runtime)
{
    const struct dev_pull *pull = runtime->pull;
    if (runtime->dirty) {
        return UINT64_MAX;
    }
    if (pull->phase == DEV_PULL_BODY) {
        return pull->deadline_us;
    }
    if (pull->phase != DEV_PULL_IDLE) {
        return paused(runtime) ? UINT64_MAX : pull->not_before_us;
    }
    struct work work;
    uint64_t due_us = UINT64_MAX;
    (void)work_find(runtime, 0, &work, &due_us);
    return due_us;
}

static void init(struct dev_runtime *runtime, uint64_t first_us)
{
    struct dev_pull *pull = runtime->pull;
    (void)first_us; // what was accepted is brought at once
    pull->phase = DEV_PULL_IDLE;
    pull->exchange = 0;
    memset(&pull->delta, 0, sizeof(pull->delta));
    dev_backoff_init(&pull->backoff, runtime->settings.backoff_base_ms,
                     runtime->settings.backoff_cap_ms);
}

void dev_pull_accepted(struct dev_task *task)
{
    task->incoming.failure_reported = false;
}

void dev_pull_leftovers(struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        if (task->incoming.leftover && !task->offer.made) {
            task->incoming.leftover = false;
            dev_garbage_made(runtime);
        }
    }
}

static void forget(struct dev_runtime *runtime, const struct dev_task *task)
{
    if (runtime->pull->phase != DEV_PULL_IDLE && task_of(runtime) == task) {
        dev_pull_stop(runtime);
    }
}

// Those behind the task move up.
static void dropped(struct dev_runtime *runtime, const struct dev_task *task)
{
    uint32_t index = (uint32_t)(task - runtime->tasks);
    forget(runtime, task);
    runtime->pull->task -= runtime->pull->task > index ? 1 : 0;
}

static bool came(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    if (event->exchange == 0 || event->exchange != runtime->pull->exchange) {
        return false;
    }
    if (event->kind == DEV_PART_EVENT_HEAD) {
        dev_pull_head(runtime, event->head);
    } else if (event->kind == DEV_PART_EVENT_BODY) {
        dev_pull_body(runtime, event->body.data, event->body.size);
    } else {
        dev_pull_end(runtime, event->status);
    }
    return true;
}

static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    switch (event->kind) {
    case DEV_PART_EVENT_STOPPED:
        dev_pull_stop(runtime);
        return false;
    case DEV_PART_EVENT_UNWANTED:
        forget(runtime, event->task);
        dev_proof_clear(event->task);
        return false;
    case DEV_PART_EVENT_DROPPED:
        dropped(runtime, event->task);
        return false;
    case DEV_PART_EVENT_NEEDED:
        if (!dev_pull_is_idle(runtime) && dev_delta_in_use(runtime->pull)) {
            event->need->blob(event->need->ctx, &runtime->pull->delta.name);
        }
        return false;
    default:
        return came(runtime, event);
    }
}

bool dev_pull_is_due(const struct dev_runtime *runtime, uint64_t now_us)
{
    return due_us_of(runtime) <= now_us;
}

bool dev_pull_is_idle(const struct dev_runtime *runtime)
{
    return runtime->pull->phase == DEV_PULL_IDLE;
}

bool dev_pull_valid(const struct dev_runtime *runtime)
{
    const struct dev_pull *pull = runtime->pull;
    if ((pull->exchange != 0) != (pull->phase == DEV_PULL_BODY)) {
        return false;
    }
    if (pull->phase == DEV_PULL_IDLE) {
        return true;
    }
    return pull->task < runtime->task_count && pull->hashed <= pull->have &&
           pull->have <= pull->expected &&
           (pull->copy != DEV_COPY_ACCEPTED ||
            dev_update_is_pulling((enum dev_update_state)runtime->tasks[pull->task].slots.state));
}

const struct dev_part dev_pull_part = {.name = "pull",
                                       .init = init,
                                       .step = step,
                                       .due_us = due_us_of,
                                       .on_event = on_event,
                                       .hears = DEV_PART_HEARS(STOPPED) | DEV_PART_HEARS(UNWANTED) |
                                                DEV_PART_HEARS(DROPPED) | DEV_PART_HEARS(NEEDED) |
                                                DEV_PART_HEARS_EXCHANGE};
