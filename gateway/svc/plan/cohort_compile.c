// What a plan means for a cohort. Worker's thread.
//
// A cohort is the sum of its tasks: a task adds its term to the digest and its signature to the
// cohort's, and either can be taken out again. So a change of the plan costs what changed.
#include "svc/plan/cohort.h"

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

// Bit k: these attributes are in the audience of stage k.
static uint32_t audiences(const struct gw_release *release, const struct pol_attrs *attrs)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < release->stage_count; i++) {
        if (pol_target_match(&release->stages[i].audience, attrs).matched) {
            mask |= 1u << i;
        }
    }
    return mask;
}

// How far a release reaches into this cohort: devices with bucket < limit are in. Found by asking
// the policy, so that there is one rule for admission; a pause is no answer here, because a device
// that was let in keeps what it has.
static uint16_t reach(const struct gw_release *release, const struct pol_rollout *state,
                      bool shadow, const struct pol_attrs *attrs)
{
    uint32_t mask = audiences(release, attrs);
    uint32_t low = 0; // buckets below are in
    uint32_t high = POL_BUCKET_COUNT;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        uint16_t bucket = (uint16_t)middle;
        bool in = shadow ? pol_rollout_shadows(state, release->stages, release->stage_count,
                                               (struct pol_candidate){.targeted = true,
                                                                      .audience_mask = mask,
                                                                      .bucket = bucket})
                               .matched
                         : pol_rollout_admits(state, release->stages, release->stage_count,
                                              (struct pol_candidate){.targeted = true,
                                                                     .audience_mask = mask,
                                                                     .bucket = bucket})
                               .matched;
        if (in) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (uint16_t)low;
}

static bool open_claim(const struct gw_plan_open *open, bool shadow, const struct pol_attrs *attrs,
                       struct gw_cohort_task *out)
{
    struct pol_rollout running = open->state;
    running.state = POL_ROLLOUT_RUNNING;
    out->quarantined = open->quarantine != 0 && gw_kept_off_has(open->kept_off, attrs);
    out->paused = open->state.state == POL_ROLLOUT_PAUSED;
    if (!pol_target_match(&open->release->target, attrs).matched) {
        out->limit = 0;
        return false;
    }
    out->limit = out->quarantined ? 0 : reach(open->release, &running, shadow, attrs);
    return true;
}

static bool base_claim(const struct gw_plan_base *base, const struct pol_attrs *attrs,
                       struct gw_cohort_task *out)
{
    const struct gw_release *release = base->release;
    const struct pol_rollout completed = {.state = POL_ROLLOUT_COMPLETED,
                                          .stage_index = (uint16_t)(release->stage_count - 1)};
    out->quarantined = base->quarantine != 0 && gw_kept_off_has(base->kept_off, attrs);
    out->limit = 0;
    if (!out->quarantined && pol_target_match(&release->target, attrs).matched) {
        out->limit = reach(release, &completed, false, attrs);
    }
    return out->limit > 0;
}

bool gw_cohort_trial(const struct gw_plan_open *open, const struct pol_attrs *attrs,
                     struct pol_trial_span *out)
{
    const struct gw_release *release = open->release;
    const struct pol_rollout *state = &open->state;
    bool asked = release->stages[state->stage_index].gate.rule == POL_GATE_LOGRANK;
    bool kept_off = open->quarantine != 0 && gw_kept_off_has(open->kept_off, attrs);
    return asked && !kept_off && pol_target_match(&release->target, attrs).matched &&
           pol_rollout_trial(state, release->stages, release->stage_count,
                             audiences(release, attrs), out);
}

bool gw_cohort_claim(const struct gw_plan_task *task, uint8_t number, const struct pol_attrs *attrs,
                     struct gw_cohort_task *out_entry)
{
    *out_entry =
        (struct gw_cohort_task){.task_id = task->task_id, .slot = task->slot, .claim = number};
    return number < GW_PLAN_OPEN_MAX
               ? open_claim(&task->open[number], task->shadow, attrs, out_entry)
               : base_claim(&task->bases[number - GW_PLAN_OPEN_MAX], attrs, out_entry);
}

static uint64_t version_term(const struct gw_plan_task *task, const struct gw_release *release)
{
    return wire_profile_term(task->task_id, release->version_id, 0);
}

static bool is_base(const struct gw_cohort_task *entry)
{
    return entry->claim >= GW_PLAN_OPEN_MAX;
}

// Everybody who comes to it is in.
static bool takes_all(const struct gw_cohort_task *entry, const struct gw_plan_task *task)
{
    bool held = is_base(entry) && task->bases[entry->claim - GW_PLAN_OPEN_MAX].held;
    return entry->limit == POL_BUCKET_COUNT && !held &&
           gw_plan_claim_release(task, entry->claim)->arm.to == 0;
}

static uint32_t count_opens(const struct gw_cohort_task *entries, uint32_t count)
{
    uint32_t opens = 0;
    while (opens < count && !is_base(&entries[opens])) {
        opens++;
    }
    return opens;
}

// What every device of the cohort that is in no part has of the task: of one open rollout that
// takes all, or of a first base that does.
static const struct gw_cohort_task *whole(const struct gw_cohort_task *entries, uint32_t count,
                                          const struct gw_plan_task *task)
{
    uint32_t opens = count_opens(entries, count);
    if (opens == 1 && takes_all(&entries[0], task)) {
        return &entries[0];
    }
    return opens < count && takes_all(&entries[opens], task) ? &entries[opens] : NULL;
}

static uint64_t sign_entries(const struct gw_plan_task *task, const struct gw_cohort_task *entries,
                             uint32_t count)
{
    uint64_t flags[GW_PLAN_CLAIMS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        flags[i] = (uint64_t)entries[i].claim << 32 | (uint64_t)entries[i].quarantined << 31 |
                   entries[i].limit;
    }
    return base_hash64_seed(flags, count * sizeof(flags[0]), task->signature);
}

// What the task means for devices of this tenant with these attributes, in at most
// GW_PLAN_CLAIMS_MAX entries. Returns how many; 0: nothing.
static uint32_t evaluate(const struct gw_plan_task *task, uint16_t tenant,
                         const struct pol_attrs *attrs, struct gw_cohort_task *out)
{
    uint32_t count = 0;
    bool full = false;
    if (task->tenant != tenant) {
        return 0;
    }
    for (uint32_t i = 0; i < task->open_count && !full; i++) {
        if (gw_cohort_claim(task, (uint8_t)i, attrs, &out[count])) {
            full =
                task->open[i].release->arm.to == 0; // everybody that the ones before did not take
            count++;
        }
    }
    full = false;
    for (uint32_t i = 0; i < task->base_count && !full; i++) {
        if (gw_cohort_claim(task, (uint8_t)(GW_PLAN_OPEN_MAX + i), attrs, &out[count])) {
            full = takes_all(&out[count], task);
            count++;
        }
    }
    if (count > 0) {
        const struct gw_cohort_task *all = whole(out, count, task);
        out[0].term = all != NULL ? version_term(task, gw_plan_claim_release(task, all->claim)) : 0;
        out[0].signature = sign_entries(task, out, count);
    }
    return count;
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
    struct gw_cohort_task entries[GW_PLAN_CLAIMS_MAX];
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
        struct gw_cohort_task entries[GW_PLAN_CLAIMS_MAX];
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

// How many of a task's entries depend on the device: none, the open ones alone when the base behind
// them takes all, or all of them. A rollout that reaches nobody yet still keeps its devices from
// the ones behind it.
static uint32_t count_partials(const struct gw_cohort_task *entries, uint32_t count,
                               const struct gw_plan_task *task)
{
    uint32_t opens = count_opens(entries, count);
    const struct gw_cohort_task *all = whole(entries, count, task);
    if (all == NULL) {
        return opens == count && opens == 1 && entries[0].limit == 0 ? 0 : count;
    }
    bool nobody = opens == 1 && entries[0].limit == 0;
    return all == &entries[0] || nobody ? 0 : opens;
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

// Up to which bucket devices behind the share are control in a trial; 0: there is none.
static uint16_t control_of(const struct gw_plan_task *task, const struct gw_cohort_task *entry,
                           const struct pol_attrs *attrs)
{
    struct pol_trial_span span;
    bool open = !is_base(entry) && !task->shadow;
    return open && gw_cohort_trial(&task->open[entry->claim], attrs, &span) &&
                   span.middle == entry->limit
               ? span.to
               : 0;
}

// The first `parts` entries of a task, which are the claims on a part of the cohort.
static void add_partials(struct gw_cohort *cohort, const struct gw_plan_task *task,
                         const struct pol_attrs *attrs, const struct gw_cohort_task *entries,
                         uint32_t parts)
{
    for (uint32_t i = 0; i < parts; i++) {
        const struct gw_cohort_task *entry = &entries[i];
        const struct gw_release *release = gw_plan_claim_release(task, entry->claim);
        uint16_t control = control_of(task, entry, attrs);
        base_assert(cohort->partial_count < cohort->partial_capacity);
        cohort->trial = cohort->trial || control > 0;
        cohort->partials[cohort->partial_count++] = (struct gw_partial){
            .salt_mix = pol_salt_mix(release->salt),
            .delta = version_term(task, release) - entries[0].term,
            .arm = release->arm.to != 0 ? &release->arm : NULL,
            .limit = entry->limit,
            .control = control,
            .base = is_base(entry),
            .last = i + 1 == parts,
            .alone = parts == 1 && release->arm.to == 0,
        };
    }
}

// Borrows arms from releases: the plan that the cohort was computed from keeps them.
static enum base_status list_partials(struct gw_cohorts *cohorts, struct gw_cohort *cohort,
                                      const struct pol_attrs *attrs, const struct gw_plan *plan)
{
    uint32_t count = 0;
    cohort->trial = false;
    cohort->paused = false;
    for (uint32_t at = 0; at < cohort->task_count;) {
        uint32_t size = group_size(cohort, at);
        cohort->paused = cohort->paused || cohort->tasks[at].paused;
        count += count_partials(&cohort->tasks[at], size, plan->tasks[cohort->tasks[at].slot]);
        at += size;
    }
    if (!reserve_partials(cohorts, cohort, count)) {
        return BASE_ERR_NOMEM;
    }
    cohort->partial_count = 0;
    for (uint32_t at = 0; at < cohort->task_count;) {
        uint32_t size = group_size(cohort, at);
        const struct gw_cohort_task *entries = &cohort->tasks[at];
        const struct gw_plan_task *task = plan->tasks[entries[0].slot];
        add_partials(cohort, task, attrs, entries, count_partials(entries, size, task));
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
    BASE_TRY(list_partials(cohorts, cohort, &view.attrs, plan));
    // A device that comes to another tenant is not settled there.
    // Who refuses a version is asked beyond what the tasks' entries are about, by its attributes.
    cohort->signature = cohort->tasks_signature + base_mix64(plan->recalls) +
                        base_mix64(cohort->tenant) + cohort->hash;
    cohort->generation = plan->generation;
    return BASE_OK;
}

// ---- A device of the cohort

uint64_t gw_cohort_expected(const struct gw_cohort *cohort, uint64_t device_id)
{
    uint64_t digest = cohort->digest;
    bool follows = false; // an open rollout of the group
    for (uint32_t i = 0; i < cohort->partial_count; i++) {
        const struct gw_partial *partial = &cohort->partials[i];
        if (partial->alone) { // nearly all are
            bool in = pol_bucket_mixed(device_id, partial->salt_mix) < partial->limit;
            digest += in ? partial->delta : 0;
            continue;
        }
        bool comes = partial->base || !follows;
        if (comes && (partial->arm == NULL || pol_arm_has(partial->arm, device_id))) {
            if (pol_bucket_mixed(device_id, partial->salt_mix) < partial->limit) {
                digest += partial->delta;
                while (!cohort->partials[i].last) {
                    i++;
                }
            }
            follows = !partial->base;
        }
        follows = follows && !cohort->partials[i].last;
    }
    return digest;
}

bool gw_cohort_draws(const struct gw_cohort *cohort, uint64_t device_id)
{
    for (uint32_t i = 0; i < cohort->partial_count; i++) {
        const struct gw_partial *partial = &cohort->partials[i];
        if (partial->control == 0) {
            continue;
        }
        uint16_t bucket = pol_bucket_mixed(device_id, partial->salt_mix);
        if (bucket >= partial->limit && bucket < partial->control) {
            return true;
        }
    }
    return false;
}
