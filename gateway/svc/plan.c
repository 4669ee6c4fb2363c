// Plans and the decision for one task on one device. Built on the control thread, read by workers.
// The decision is a pure function.
#include "svc/plan.h"

#include "base/check.h"
#include "policy/bucket.h"

#include <stdlib.h>

struct gw_plan *gw_plan_new(uint64_t generation, uint32_t task_count)
{
    struct gw_plan *plan =
        calloc(1, sizeof(*plan) + (size_t)task_count * sizeof(struct gw_plan_task));
    if (plan == NULL) {
        return NULL;
    }
    atomic_init(&plan->refs, 1);
    plan->generation = generation;
    plan->task_count = task_count;
    return plan;
}

struct gw_plan *gw_plan_ref(struct gw_plan *plan)
{
    atomic_fetch_add_explicit(&plan->refs, 1, memory_order_relaxed);
    return plan;
}

void gw_plan_unref(struct gw_plan *plan)
{
    if (plan == NULL || atomic_fetch_sub_explicit(&plan->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (uint32_t i = 0; i < plan->task_count; i++) {
        struct gw_plan_task *task = &plan->tasks[i];
        gw_release_unref(task->baseline);
        gw_release_unref(task->open);
        for (uint32_t k = 0; k < task->retired_count; k++) {
            gw_release_unref(task->retired[k]);
        }
    }
    gw_meta_unref(plan->meta);
    free(plan);
}

bool gw_plan_validate(const struct gw_plan *plan)
{
    for (uint32_t i = 0; i < plan->task_count; i++) {
        const struct gw_plan_task *task = &plan->tasks[i];
        if (i > 0 && plan->tasks[i - 1].task_id >= task->task_id) {
            return false;
        }
        if (task->retired_count > GW_PLAN_RETIRED_MAX) {
            return false;
        }
        if (task->open == NULL) {
            continue;
        }
        bool state_ok = task->open_state.state == POL_ROLLOUT_RUNNING ||
                        task->open_state.state == POL_ROLLOUT_PAUSED;
        if (!state_ok || task->open_state.stage_index >= task->open->stage_count) {
            return false;
        }
    }
    return true;
}

// The statement that lets the device into the open rollout: of the latest open stage whose audience
// and share it is in, since a later stage's signed share may be smaller than an earlier audience.
static const struct gw_statement *stage_statement(const struct gw_plan_task *task,
                                                  uint64_t device_id, const struct pol_attrs *attrs)
{
    const struct gw_release *release = task->open;
    uint16_t bucket = pol_bucket(device_id, release->salt);
    for (uint32_t i = task->open_state.stage_index + 1u; i > 0; i--) {
        const struct pol_stage *stage = &release->stages[i - 1];
        if (stage->kind != POL_STAGE_SIMULATE && bucket < stage->max_bucket &&
            pol_target_match(&stage->audience, attrs).matched) {
            return &release->statements[i - 1];
        }
    }
    return NULL;
}

static const struct gw_statement *last_statement(const struct gw_release *release)
{
    const struct gw_statement *statement = &release->statements[release->stage_count - 1];
    return statement->size > 0 ? statement : NULL;
}

static struct gw_want want_open(const struct gw_plan_task *task,
                                const struct gw_device_facts *facts, const struct pol_attrs *attrs)
{
    struct gw_want want = {.version_id = task->open->version_id};
    bool counter_ok = facts->counter <= task->open->release_counter;
    if (facts->have != want.version_id && counter_ok) {
        want.statement = stage_statement(task, facts->device_id, attrs);
        want.release = task->open;
        want.install_open = want.statement != NULL;
        want.stage = (uint8_t)task->open_state.stage_index;
    }
    return want;
}

// The way back from a retired release: when the device runs it, or when the baseline's own
// statement has a counter below what the device has accepted.
static void take_revert(const struct gw_plan_task *task, const struct gw_device_facts *facts,
                        struct gw_want *want)
{
    for (uint32_t i = 0; i < task->retired_count; i++) {
        const struct gw_release *retired = task->retired[i];
        bool leaves_it = facts->have == retired->version_id;
        bool leads_there = retired->revert_version_id == want->version_id;
        bool counter_ok = facts->counter <= retired->release_counter + 1;
        if (counter_ok && (leads_there || (leaves_it && want->version_id == 0))) {
            want->statement = &retired->revert;
            want->release = retired;
            if (leaves_it) {
                return;
            }
        }
    }
}

static struct gw_want want_baseline(const struct gw_plan_task *task,
                                    const struct gw_device_facts *facts)
{
    struct gw_want want = {0};
    const struct gw_release *baseline = task->baseline;
    if (baseline != NULL && facts->baseline_matched && baseline->version_id != facts->blocked) {
        want.version_id = baseline->version_id;
    }
    if (facts->have == want.version_id) {
        return want;
    }
    bool on_retired = false;
    for (uint32_t i = 0; i < task->retired_count; i++) {
        on_retired = on_retired || facts->have == task->retired[i]->version_id;
    }
    if (want.version_id == 0) {
        if (on_retired && facts->have != 0) {
            take_revert(task, facts, &want);
        }
        return want;
    }
    if (!on_retired && facts->counter <= baseline->release_counter) {
        want.statement = last_statement(baseline);
        want.release = baseline;
        return want;
    }
    take_revert(task, facts, &want);
    if (want.statement == NULL && facts->counter <= baseline->release_counter) {
        want.statement = last_statement(baseline);
        want.release = baseline;
    }
    return want;
}

const struct gw_statement *gw_plan_held(const struct gw_plan_task *task,
                                        const struct gw_device_facts *facts,
                                        const struct pol_attrs *attrs)
{
    const struct gw_release *open = task->open;
    const struct gw_release *baseline = task->baseline;
    if (open != NULL && facts->have == open->version_id &&
        facts->counter == open->release_counter && !task->open_state.stage_failed) {
        return stage_statement(task, facts->device_id, attrs);
    }
    if (baseline != NULL && facts->have == baseline->version_id &&
        facts->counter == baseline->release_counter) {
        return last_statement(baseline);
    }
    return NULL;
}

struct gw_want gw_plan_decide(const struct gw_plan_task *task, const struct gw_device_facts *facts,
                              const struct pol_attrs *attrs)
{
    if (task->open != NULL && facts->admitted && task->open->version_id != facts->blocked) {
        // While paused nobody new is offered it, and who has it keeps it.
        bool paused = task->open_state.state == POL_ROLLOUT_PAUSED;
        if (!paused || facts->have == task->open->version_id) {
            return want_open(task, facts, attrs);
        }
    }
    // Paused, with a device that was let in and has it: fine. Not let in and has it (its attributes
    // changed): it keeps it too, the way back is for rollbacks.
    if (task->open != NULL && facts->have == task->open->version_id) {
        return (struct gw_want){.version_id = facts->have};
    }
    return want_baseline(task, facts);
}
