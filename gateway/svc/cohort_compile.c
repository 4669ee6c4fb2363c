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
        bool in = pol_rollout_admits(&running, release->stages, release->stage_count, true, mask,
                                     (uint16_t)middle)
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

// What the task means for devices of this tenant with these attributes. False: nothing.
static bool evaluate(const struct gw_plan_task *task, uint16_t tenant,
                     const struct pol_attrs *attrs, struct gw_cohort_task *out)
{
    if (task->tenant != tenant) {
        return false;
    }
    *out =
        (struct gw_cohort_task){.task_id = task->task_id, .slot = task->slot, .open = GW_OPEN_NONE};
    if (task->baseline != NULL && pol_target_match(&task->baseline->target, attrs).matched) {
        out->baseline = true;
        out->term = version_term(task, task->baseline);
    }
    for (uint32_t i = 0; i < task->open_count; i++) {
        if (pol_target_match(&task->open[i].release->target, attrs).matched) {
            out->open = (uint8_t)i;
            out->limit = open_limit(&task->open[i], attrs);
            break;
        }
    }
    if (out->limit == POL_BUCKET_COUNT) {
        out->term = version_term(task, task->open[out->open].release);
    }
    uint64_t flags = (uint64_t)out->open << 32 | (uint64_t)out->limit << 8 | out->baseline;
    out->signature = base_hash64_seed(&flags, sizeof(flags), task->signature);
    return out->baseline || out->open != GW_OPEN_NONE;
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

// Room for one more. The array of a large cohort is no larger than it must be, by an eighth.
static bool reserve_task(struct gw_cohorts *cohorts, struct gw_cohort *cohort)
{
    if (cohort->task_count < cohort->task_capacity) {
        return true;
    }
    uint32_t wanted = cohort->task_capacity + cohort->task_capacity / 8 + 8;
    struct gw_cohort_task *grown = realloc(cohort->tasks, (size_t)wanted * sizeof(grown[0]));
    if (grown == NULL) {
        return false;
    }
    cohorts->bytes += (uint64_t)(wanted - cohort->task_capacity) * sizeof(grown[0]);
    cohort->tasks = grown;
    cohort->task_capacity = wanted;
    return true;
}

static void drop_task(struct gw_cohort *cohort, uint32_t at)
{
    cohort->digest -= cohort->tasks[at].term;
    cohort->tasks_signature -= cohort->tasks[at].signature;
    cohort->task_count--;
    memmove(&cohort->tasks[at], &cohort->tasks[at + 1],
            (cohort->task_count - at) * sizeof(cohort->tasks[0]));
}

static enum base_status put_task(struct gw_cohorts *cohorts, struct gw_cohort *cohort, uint32_t at,
                                 const struct gw_cohort_task *entry)
{
    if (!reserve_task(cohorts, cohort)) {
        return BASE_ERR_NOMEM;
    }
    memmove(&cohort->tasks[at + 1], &cohort->tasks[at],
            (cohort->task_count - at) * sizeof(cohort->tasks[0]));
    cohort->tasks[at] = *entry;
    cohort->task_count++;
    cohort->digest += entry->term;
    cohort->tasks_signature += entry->signature;
    return BASE_OK;
}

// The task may have changed, or be new to the cohort.
static enum base_status update_task(struct gw_cohorts *cohorts, struct gw_cohort *cohort,
                                    const struct pol_attrs *attrs, const struct gw_plan_task *task)
{
    struct gw_cohort_task entry;
    uint32_t at = position(cohort, task->task_id);
    cohorts->evaluated++;
    if (at < cohort->task_count && cohort->tasks[at].task_id == task->task_id) {
        drop_task(cohort, at);
    }
    return evaluate(task, cohort->tenant, attrs, &entry) ? put_task(cohorts, cohort, at, &entry)
                                                         : BASE_OK;
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
        struct gw_cohort_task entry;
        cohorts->evaluated++;
        if (evaluate(plan->tasks[cohorts->candidates.items[i]], cohort->tenant, attrs, &entry)) {
            BASE_TRY(put_task(cohorts, cohort, cohort->task_count, &entry));
        }
    }
    return apply_changes(cohorts, cohort, attrs, plan, gw_plan_index_generation(plan->index));
}

static bool is_partial(const struct gw_cohort_task *entry)
{
    return entry->limit > 0 && entry->limit < POL_BUCKET_COUNT;
}

static enum base_status list_partials(struct gw_cohorts *cohorts, struct gw_cohort *cohort,
                                      const struct gw_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cohort->task_count; i++) {
        count += is_partial(&cohort->tasks[i]);
    }
    if (count > cohort->partial_capacity) {
        struct gw_partial *grown = realloc(cohort->partials, (size_t)count * sizeof(grown[0]));
        if (grown == NULL) {
            return BASE_ERR_NOMEM;
        }
        cohorts->bytes += (uint64_t)(count - cohort->partial_capacity) * sizeof(grown[0]);
        cohort->partials = grown;
        cohort->partial_capacity = count;
    }
    cohort->partial_count = 0;
    for (uint32_t i = 0; i < cohort->task_count; i++) {
        const struct gw_cohort_task *entry = &cohort->tasks[i];
        if (is_partial(entry)) {
            const struct gw_plan_task *task = plan->tasks[entry->slot];
            const struct gw_release *release = task->open[entry->open].release;
            cohort->partials[cohort->partial_count++] =
                (struct gw_partial){pol_salt_mix(release->salt),
                                    version_term(task, release) - entry->term, entry->limit};
        }
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
        bool in = pol_bucket_mixed(device_id, partial->salt_mix) < partial->limit;
        digest += in ? partial->delta : 0;
    }
    return digest;
}

void gw_cohort_facts(const struct gw_cohort_task *entry, const struct gw_plan_task *task,
                     struct gw_device_facts *facts)
{
    facts->baseline_matched = entry->baseline;
    if (entry->open != GW_OPEN_NONE) {
        facts->open = &task->open[entry->open];
        facts->admitted = entry->limit > 0 &&
                          pol_bucket(facts->device_id, facts->open->release->salt) < entry->limit;
    }
}
