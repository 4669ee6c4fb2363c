// What a plan means for a cohort. Worker's thread.
//
// A cohort is the sum of its tasks: a task adds its term to the digest and its signature to the
// cohort's, and either can be taken out again. So a change of the plan costs what changed.
#include "svc/cohort.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/prng.h"
#include "policy/bucket.h"
#include "wire/profile.h"

#include <stdlib.h>
#include <string.h>

enum base_status gw_attrs_view(const uint8_t *block, size_t size, struct gw_attrs_view *out)
{
    BASE_TRY(wire_attrs_parse(block, size, &out->wire));
    for (uint32_t i = 0; i < out->wire.count; i++) {
        const struct wire_attr *from = &out->wire.items[i];
        struct pol_attr *to = &out->items[i];
        to->name = (struct pol_text){from->name.data, (uint32_t)from->name.size};
        switch (from->type) {
        case WIRE_ATTR_STRING:
            to->value.type = POL_TYPE_STRING;
            to->value.text = (struct pol_text){from->text.data, (uint32_t)from->text.size};
            break;
        case WIRE_ATTR_INTEGER:
            to->value.type = POL_TYPE_INTEGER;
            to->value.integer = from->integer;
            break;
        case WIRE_ATTR_BOOLEAN:
        case WIRE_ATTR_TYPE_COUNT:
            to->value.type = POL_TYPE_BOOLEAN;
            to->value.boolean = from->integer != 0;
            break;
        }
    }
    out->attrs = (struct pol_attrs){out->items, out->wire.count};
    return BASE_OK;
}

uint64_t gw_cohort_bytes(const struct gw_cohort *cohort)
{
    return sizeof(*cohort) + cohort->attrs_size +
           (uint64_t)cohort->task_capacity * sizeof(cohort->tasks[0]) +
           (uint64_t)cohort->partial_capacity * sizeof(cohort->partials[0]);
}

// ---- One task

// How far an open rollout reaches into this cohort: devices with bucket < limit are in. Found by
// asking the policy, so that there is one rule for admission; a pause is no answer here, because a
// device that was let in keeps what it has.
static uint16_t open_limit(const struct gw_plan_open *open, const struct pol_attrs *attrs)
{
    const struct gw_release *release = open->release;
    uint32_t mask = 0;
    for (uint32_t i = 0; i < release->stage_count; i++) {
        if (pol_target_match(&release->stages[i].audience, attrs).matched) {
            mask |= 1u << i;
        }
    }
    struct pol_rollout running = open->state;
    running.state = POL_ROLLOUT_RUNNING;
    uint32_t low = 0; // buckets below are in
    uint32_t high = POL_BUCKET_COUNT;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        uint16_t bucket = (uint16_t)middle;
        bool in = open->shadow ? pol_rollout_shadows(&running, release->stages,
                                                     release->stage_count, true, mask, bucket)
                                     .matched
                               : pol_rollout_admits(&running, release->stages, release->stage_count,
                                                    true, mask, bucket)
                                     .matched;
        if (in) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (uint16_t)low;
}

static uint64_t version_term(const struct gw_plan_task *task, const struct gw_release *release)
{
    return wire_profile_term(task->task_id, release->version_id, 0);
}

static bool is_arm(const struct gw_plan_open *open)
{
    return open->release->arm.to != 0;
}

// What the task means for devices of this tenant with these attributes, in at most GW_PLAN_OPEN_MAX
// entries. Returns how many; 0: nothing.
static uint32_t evaluate(const struct gw_plan_task *task, uint16_t tenant,
                         const struct pol_attrs *attrs, struct gw_cohort_task *out)
{
    if (task->tenant != tenant) {
        return 0;
    }
    uint64_t flags[1 + GW_PLAN_OPEN_MAX] = {0};
    uint32_t count = 0;
    struct gw_cohort_task first = {
        .task_id = task->task_id, .slot = task->slot, .open = GW_OPEN_NONE};
    if (task->baseline != NULL && pol_target_match(&task->baseline->target, attrs).matched &&
        (task->baseline_quarantine == 0 || !gw_release_quarantines(task->baseline, attrs))) {
        first.baseline = true;
        first.term = version_term(task, task->baseline);
        flags[0] = 1;
    }
    for (uint32_t i = 0; i < task->open_count; i++) {
        const struct gw_plan_open *open = &task->open[i];
        if (!pol_target_match(&open->release->target, attrs).matched) {
            continue;
        }
        out[count] = (struct gw_cohort_task){
            .task_id = task->task_id, .slot = task->slot, .open = (uint8_t)i};
        out[count].quarantined =
            open->quarantine != 0 && gw_release_quarantines(open->release, attrs);
        out[count].paused = open->state.state == POL_ROLLOUT_PAUSED;
        out[count].limit = out[count].quarantined ? 0 : open_limit(open, attrs);
        flags[1 + i] =
            (uint64_t)1 << 32 | (uint64_t)out[count].quarantined << 33 | out[count].limit;
        count++;
        if (!is_arm(open)) {
            break; // it takes everybody that the ones before did not
        }
    }
    if (count == 0 && !first.baseline) {
        return 0;
    }
    if (count == 1 && out[0].limit == POL_BUCKET_COUNT && !is_arm(&task->open[out[0].open])) {
        first.term = version_term(task, task->open[out[0].open].release);
    }
    if (count == 0) {
        out[0] = first;
    }
    out[0].signature = base_hash64_seed(flags, sizeof(flags), task->signature);
    out[0].term = first.term;
    out[0].baseline = first.baseline;
    return count == 0 ? 1 : count;
}

// ---- The list of tasks

static uint32_t position(const struct gw_cohort *cohort, uint64_t task_id)
{
    uint32_t low = 0;
    uint32_t high = cohort->task_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (cohort->tasks[middle].task_id < task_id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Room for `more`. The array of a large cohort is no larger than it must be, by an eighth.
static bool reserve_tasks(struct gw_cohorts *cohorts, struct gw_cohort *cohort, uint32_t more)
{
    if (cohort->task_count + more <= cohort->task_capacity) {
        return true;
    }
    uint32_t wanted = cohort->task_capacity + cohort->task_capacity / 8 + 8 + more;
    struct gw_cohort_task *grown = realloc(cohort->tasks, (size_t)wanted * sizeof(grown[0]));
    if (grown == NULL) {
        return false;
    }
    cohorts->bytes += (uint64_t)(wanted - cohort->task_capacity) * sizeof(grown[0]);
    cohort->tasks = grown;
    cohort->task_capacity = wanted;
    return true;
}

// Takes the entries of a task, if there are any, out.
static void drop_task(struct gw_cohort *cohort, uint32_t at, uint64_t task_id)
{
    uint32_t count = 0;
    while (at + count < cohort->task_count && cohort->tasks[at + count].task_id == task_id) {
        cohort->digest -= cohort->tasks[at + count].term;
        cohort->tasks_signature -= cohort->tasks[at + count].signature;
        count++;
    }
    if (count == 0) {
        return;
    }
    cohort->task_count -= count;
    memmove(&cohort->tasks[at], &cohort->tasks[at + count],
            (cohort->task_count - at) * sizeof(cohort->tasks[0]));
}

static enum base_status put_task(struct gw_cohorts *cohorts, struct gw_cohort *cohort, uint32_t at,
                                 const struct gw_cohort_task *entries, uint32_t count)
{
    if (count == 0) {
        return BASE_OK;
    }
    if (!reserve_tasks(cohorts, cohort, count)) {
        return BASE_ERR_NOMEM;
    }
    memmove(&cohort->tasks[at + count], &cohort->tasks[at],
            (cohort->task_count - at) * sizeof(cohort->tasks[0]));
    for (uint32_t i = 0; i < count; i++) {
        cohort->tasks[at + i] = entries[i];
        cohort->digest += entries[i].term;
        cohort->tasks_signature += entries[i].signature;
    }
    cohort->task_count += count;
    return BASE_OK;
}

// The task may have changed, or be new to the cohort.
static enum base_status update_task(struct gw_cohorts *cohorts, struct gw_cohort *cohort,
                                    const struct pol_attrs *attrs, const struct gw_plan_task *task)
{
    struct gw_cohort_task entries[GW_PLAN_OPEN_MAX];
    uint32_t at = position(cohort, task->task_id);
    cohorts->evaluated++;
    drop_task(cohort, at, task->task_id);
    return put_task(cohorts, cohort, at, entries, evaluate(task, cohort->tenant, attrs, entries));
}

// ---- A cohort

// The changes since `generation`, the latest state of each.
static enum base_status apply_changes(struct gw_cohorts *cohorts, struct gw_cohort *cohort,
                                      const struct pol_attrs *attrs, const struct gw_plan *plan,
                                      uint64_t generation)
{
    uint32_t at = plan->change_count;
    while (at > 0 && plan->changes[at - 1].generation > generation) {
        at--;
    }
    for (; at < plan->change_count; at++) {
        BASE_TRY(update_task(cohorts, cohort, attrs, plan->tasks[plan->changes[at].slot]));
    }
    return BASE_OK;
}

// From nothing: the tasks that the index names, then what changed since it was built.
static enum base_status compile(struct gw_cohorts *cohorts, struct gw_cohort *cohort,
                                const struct pol_attrs *attrs, const struct gw_plan *plan)
{
    cohort->task_count = 0;
    cohort->digest = 0;
    cohort->tasks_signature = 0;
    cohorts->compiled++;
    BASE_TRY(gw_plan_index_find(plan->index, attrs, &cohorts->candidates));
    for (uint32_t i = 0; i < cohorts->candidates.count; i++) {
        struct gw_cohort_task entries[GW_PLAN_OPEN_MAX];
        uint32_t count =
            evaluate(plan->tasks[cohorts->candidates.items[i]], cohort->tenant, attrs, entries);
        cohorts->evaluated++;
        BASE_TRY(put_task(cohorts, cohort, cohort->task_count, entries, count));
    }
    return apply_changes(cohorts, cohort, attrs, plan, gw_plan_index_generation(plan->index));
}

// How many entries from `at` on are of one task.
static uint32_t group_size(const struct gw_cohort *cohort, uint32_t at)
{
    uint32_t count = 1;
    while (at + count < cohort->task_count &&
           cohort->tasks[at + count].task_id == cohort->tasks[at].task_id) {
        count++;
    }
    return count;
}

// Does it depend on the device who follows? A rollout that reaches nobody yet still keeps its
// devices from the ones behind it.
static bool is_partial(const struct gw_cohort_task *entries, uint32_t count,
                       const struct gw_plan *plan)
{
    if (entries[0].open == GW_OPEN_NONE) {
        return false;
    }
    bool arm = is_arm(&plan->tasks[entries[0].slot]->open[entries[0].open]);
    bool share = entries[0].limit > 0 && entries[0].limit < POL_BUCKET_COUNT;
    return count > 1 || share || (arm && entries[0].limit > 0);
}

static bool reserve_partials(struct gw_cohorts *cohorts, struct gw_cohort *cohort, uint32_t count)
{
    if (count <= cohort->partial_capacity) {
        return true;
    }
    struct gw_partial *grown = realloc(cohort->partials, (size_t)count * sizeof(grown[0]));
    if (grown == NULL) {
        return false;
    }
    cohorts->bytes += (uint64_t)(count - cohort->partial_capacity) * sizeof(grown[0]);
    cohort->partials = grown;
    cohort->partial_capacity = count;
    return true;
}

static void add_partial(struct gw_cohort *cohort, const struct gw_plan *plan,
                        const struct gw_cohort_task *entry, uint64_t term, bool last)
{
    const struct gw_plan_task *task = plan->tasks[entry->slot];
    const struct gw_release *release = task->open[entry->open].release;
    cohort->partials[cohort->partial_count++] = (struct gw_partial){
        .salt_mix = pol_salt_mix(release->salt),
        .delta = version_term(task, release) - term,
        .arm = release->arm.to != 0 ? &release->arm : NULL,
        .limit = entry->limit,
        .last = last,
    };
}

// Borrows arms from releases: the plan that the cohort was computed from keeps them.
static enum base_status list_partials(struct gw_cohorts *cohorts, struct gw_cohort *cohort,
                                      const struct gw_plan *plan)
{
    uint32_t count = 0;
    cohort->paused = false;
    for (uint32_t at = 0; at < cohort->task_count;) {
        uint32_t size = group_size(cohort, at);
        cohort->paused = cohort->paused || cohort->tasks[at].paused;
        count += is_partial(&cohort->tasks[at], size, plan) ? size : 0;
        at += size;
    }
    if (!reserve_partials(cohorts, cohort, count)) {
        return BASE_ERR_NOMEM;
    }
    cohort->partial_count = 0;
    for (uint32_t at = 0; at < cohort->task_count;) {
        uint32_t size = group_size(cohort, at);
        const struct gw_cohort_task *entries = &cohort->tasks[at];
        bool partial = is_partial(entries, size, plan);
        for (uint32_t i = 0; partial && i < size; i++) {
            add_partial(cohort, plan, &entries[i], entries[0].term, i + 1 == size);
        }
        at += size;
    }
    return BASE_OK;
}

enum base_status gw_cohort_refresh(struct gw_cohorts *cohorts, struct gw_cohort *cohort,
                                   const struct gw_plan *plan)
{
    struct gw_attrs_view view;
    uint64_t generation = cohort->generation;
    BASE_TRY(gw_attrs_view(cohort->attrs, cohort->attrs_size, &view));
    cohort->generation = 0;
    if (generation != 0 && generation >= plan->changes_from) {
        BASE_TRY(apply_changes(cohorts, cohort, &view.attrs, plan, generation));
    } else {
        BASE_TRY(compile(cohorts, cohort, &view.attrs, plan));
    }
    BASE_TRY(list_partials(cohorts, cohort, plan));
    // A device that comes to another tenant is not settled there.
    cohort->signature =
        cohort->tasks_signature + plan->retired_signature + base_mix64(cohort->tenant);
    cohort->generation = plan->generation;
    return BASE_OK;
}

// ---- A device of the cohort

uint64_t gw_cohort_expected(const struct gw_cohort *cohort, uint64_t device_id)
{
    uint64_t digest = cohort->digest;
    for (uint32_t i = 0; i < cohort->partial_count; i++) {
        const struct gw_partial *partial = &cohort->partials[i];
        if (partial->arm != NULL && !pol_arm_has(partial->arm, device_id)) {
            continue;
        }
        bool in = pol_bucket_mixed(device_id, partial->salt_mix) < partial->limit;
        digest += in ? partial->delta : 0;
        while (!cohort->partials[i].last) {
            i++;
        }
    }
    return digest;
}

void gw_cohort_facts(const struct gw_cohort_task *entries, uint32_t count,
                     const struct gw_plan_task *task, struct gw_device_facts *facts)
{
    facts->baseline_matched = count > 0 && entries[0].baseline;
    for (uint32_t i = 0; i < count && entries[i].open != GW_OPEN_NONE; i++) {
        const struct gw_release *release = task->open[entries[i].open].release;
        if (pol_arm_has(&release->arm, facts->device_id)) {
            facts->open = &task->open[entries[i].open];
            facts->quarantined = entries[i].quarantined;
            facts->admitted = entries[i].limit > 0 &&
                              pol_bucket(facts->device_id, release->salt) < entries[i].limit;
            return;
        }
    }
}
