// Plans: built by plan_of_catalog.c on the control thread, handed to workers by core.c. Tasks are
// shared with the plan before where nothing changed, so a new plan costs what changed and not what
// there is; each names the generation it changed in, for workers that hold something computed from
// an older plan. References are counted, the last one frees.
#include "svc/plan/plan.h"

#include "svc/plan/plan_index.h"

#include "base/check.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

// ---- Tasks of a plan

static struct gw_plan_task *task_ref(struct gw_plan_task *task)
{
    atomic_fetch_add_explicit(&task->refs, 1, memory_order_relaxed);
    return task;
}

static void task_unref(struct gw_plan_task *task)
{
    if (task == NULL || atomic_fetch_sub_explicit(&task->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (uint32_t i = 0; i < task->base_count; i++) {
        gw_release_unref(task->bases[i].release);
    }
    for (uint32_t i = 0; i < task->open_count; i++) {
        gw_release_unref(task->open[i].release);
    }
    free(task);
}

static bool same_open(const struct gw_plan_open *a, const struct gw_plan_open *b)
{
    return a->release == b->release && a->state.state == b->state.state &&
           a->state.stage_index == b->state.stage_index && a->quarantine == b->quarantine &&
           a->state.stage_failed == b->state.stage_failed; // leases end with it
}

static bool same_base(const struct gw_plan_base *a, const struct gw_plan_base *b)
{
    return a->release == b->release && a->quarantine == b->quarantine && a->guarded == b->guarded &&
           a->held == b->held;
}

// Do both decide the same for every device? A stage's time does not matter.
static bool same_task(const struct gw_plan_task *a, const struct gw_plan_task *b)
{
    bool same = a->task_id == b->task_id && a->shadow == b->shadow && a->begun == b->begun &&
                a->base_count == b->base_count && a->open_count == b->open_count;
    for (uint32_t i = 0; same && i < a->base_count; i++) {
        same = same_base(&a->bases[i], &b->bases[i]);
    }
    for (uint32_t i = 0; same && i < a->open_count; i++) {
        same = same_open(&a->open[i], &b->open[i]);
    }
    return same;
}

static void sign_task(struct gw_plan_task *task)
{
    uint64_t facts[1 + 2 * GW_PLAN_BASES_MAX + 2 * GW_PLAN_OPEN_MAX] = {task->task_id};
    uint64_t *next = &facts[1];
    for (uint32_t i = 0; i < task->base_count; i++) {
        *next++ = task->bases[i].release->id ^ task->bases[i].quarantine;
        *next++ = task->bases[i].held;
    }
    for (uint32_t i = 0; i < task->open_count; i++) {
        const struct gw_plan_open *open = &task->open[i];
        *next++ = open->release->id ^ open->quarantine;
        *next++ = (uint64_t)open->state.state << 32 | open->state.stage_index;
    }
    task->signature = base_hash64(facts, sizeof(facts));
}

static void write_stop(struct gw_plan_task *task)
{
    uint8_t payload[sizeof(uint64_t)];
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_STOP, .payload = payload};
    enum base_status status =
        wire_stop_encode(task->task_id, payload, sizeof(payload), &envelope.payload_bytes);
    if (status == BASE_OK) {
        status = wire_envelope_encode(&envelope, task->stop, sizeof(task->stop), &task->stop_bytes);
    }
    base_check(status == BASE_OK); // its size is known
}

struct claim_mark {
    uint64_t id;
    uint64_t quarantine;
};

static uint32_t list_marks(const struct gw_plan_task *task, struct claim_mark *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < task->open_count; i++) {
        out[count++] = (struct claim_mark){task->open[i].release->id, task->open[i].quarantine};
    }
    for (uint32_t i = 0; i < task->base_count; i++) {
        out[count++] = (struct claim_mark){task->bases[i].release->id, task->bases[i].quarantine};
    }
    return count;
}

// Is a claim gone that the task had, or is somebody kept off it who was not?
static bool has_lost(const struct gw_plan_task *before, const struct gw_plan_task *now)
{
    struct claim_mark old[GW_PLAN_CLAIMS_MAX];
    struct claim_mark new[GW_PLAN_CLAIMS_MAX];
    uint32_t old_count = list_marks(before, old);
    uint32_t new_count = list_marks(now, new);
    for (uint32_t i = 0; i < old_count; i++) {
        uint32_t at = 0;
        while (at < new_count && memcmp(&old[i], &new[at], sizeof(old[i])) != 0) {
            at++;
        }
        if (at == new_count) {
            return true;
        }
    }
    return false;
}

// Does the change reach who keeps what it has? A task that begins does: a device may have a version
// from before a copy of the store that knows nothing of it.
static bool recalls(const struct gw_plan_task *before, const struct gw_plan_task *now)
{
    bool begins = now->begun && (before == NULL || !before->begun);
    return begins || (before != NULL && has_lost(before, now));
}

static bool offers(const struct gw_plan_task *task, uint64_t release)
{
    for (uint32_t i = 0; i < task->open_count; i++) {
        if (task->open[i].release->id == release) {
            return task->open[i].state.state != POL_ROLLOUT_PAUSED;
        }
    }
    for (uint32_t i = 0; i < task->base_count; i++) {
        if (task->bases[i].release->id == release) {
            return !task->bases[i].held;
        }
    }
    return false;
}

// Does a claim offer that was there, and offered nothing?
static bool goes_on(const struct gw_plan_task *before, const struct gw_plan_task *now)
{
    bool found = false;
    for (uint32_t i = 0; i < before->open_count; i++) {
        found = found || (before->open[i].state.state == POL_ROLLOUT_PAUSED &&
                          offers(now, before->open[i].release->id));
    }
    for (uint32_t i = 0; i < before->base_count; i++) {
        found = found || (before->bases[i].held && offers(now, before->bases[i].release->id));
    }
    return found;
}

static struct gw_plan_task *task_new(const struct gw_plan_task *from)
{
    struct gw_plan_task *task = malloc(sizeof(*task));
    if (task == NULL) {
        return NULL;
    }
    memcpy(task, from, sizeof(*task));
    atomic_init(&task->refs, 1);
    for (uint32_t i = 0; i < task->base_count; i++) {
        (void)gw_release_ref(task->bases[i].release);
    }
    for (uint32_t i = 0; i < task->open_count; i++) {
        (void)gw_release_ref(task->open[i].release);
    }
    sign_task(task);
    write_stop(task);
    return task;
}

// ---- Plans

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
        task_unref(plan->tasks[i]);
    }
    gw_plan_index_unref(plan->index);
    free(plan->by_id);
    free(plan);
}

struct building {
    struct gw_plan *plan;
    const struct gw_plan *previous;
    gw_plan_fill_fn fill;
    const void *ctx;
};

static bool trusts_unproven(const struct gw_plan_task *task)
{
    bool trusts = false;
    for (uint32_t i = 0; i < task->open_count; i++) {
        trusts = trusts || task->open[i].release->trust_unproven;
    }
    return trusts;
}

// Takes over what did not change. False: no memory. *out_changed: how many did.
static bool fill_tasks(struct building *building, uint32_t *changed, uint32_t *out_changed)
{
    struct gw_plan *plan = building->plan;
    const struct gw_plan *previous = building->previous;
    uint32_t count = 0;
    plan->recalls = previous != NULL ? previous->recalls : 0;
    plan->went_on = previous != NULL ? previous->went_on : 0;
    for (uint32_t i = 0; i < plan->task_count; i++) {
        struct gw_plan_task task = {0};
        building->fill(building->ctx, i, &task);
        uint32_t slot = task.slot;
        bool known = previous != NULL && slot < previous->task_count;
        plan->by_id[i] = slot;
        if (known && same_task(previous->tasks[slot], &task)) {
            plan->tasks[slot] = task_ref(previous->tasks[slot]);
        } else {
            plan->tasks[slot] = task_new(&task);
            changed[count++] = slot;
        }
        if (plan->tasks[slot] == NULL) {
            return false;
        }
        const struct gw_plan_task *before = known ? previous->tasks[slot] : NULL;
        plan->recalls += previous != NULL && recalls(before, plan->tasks[slot]) ? 1 : 0;
        if (before != NULL && goes_on(before, plan->tasks[slot])) {
            plan->went_on = plan->generation;
        }
        plan->trusts_unproven = plan->trusts_unproven || trusts_unproven(plan->tasks[slot]);
    }
    *out_changed = count;
    return true;
}

// The changes since long ago while they fit; otherwise these only, and when not even those fit
// none: then what is older than this plan is computed anew.
static void note_changes(struct gw_plan *plan, const struct gw_plan *previous,
                         const uint32_t *changed, uint32_t count)
{
    bool goes_on = previous != NULL && previous->change_count + count <= GW_PLAN_CHANGES_MAX;
    plan->changes_from = plan->generation;
    if (goes_on) {
        plan->changes_from = previous->changes_from;
        plan->change_count = previous->change_count;
        memcpy(plan->changes, previous->changes, previous->change_count * sizeof(plan->changes[0]));
    } else if (previous != NULL && count <= GW_PLAN_CHANGES_MAX) {
        plan->changes_from = previous->generation;
    } else {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        plan->changes[plan->change_count++] = (struct gw_plan_change){plan->generation, changed[i]};
    }
}

static bool complete(struct building *building, bool *out_changed)
{
    struct gw_plan *plan = building->plan;
    const struct gw_plan *previous = building->previous;
    uint32_t *changed = malloc((plan->task_count + 1) * sizeof(changed[0]));
    plan->by_id = malloc((plan->task_count + 1) * sizeof(plan->by_id[0]));
    uint32_t count = 0;
    bool ok = changed != NULL && plan->by_id != NULL && fill_tasks(building, changed, &count);
    *out_changed = !ok || previous == NULL || count > 0;
    if (ok && *out_changed) {
        note_changes(plan, previous, changed, count);
        if (previous != NULL && gw_plan_index_generation(previous->index) >= plan->changes_from) {
            plan->index = gw_plan_index_ref(previous->index);
        } else {
            ok = gw_plan_index_new(plan, &plan->index) == BASE_OK;
        }
    }
    free(changed);
    return ok && *out_changed;
}

struct gw_plan *gw_plan_build(const struct gw_plan *previous, uint32_t count, gw_plan_fill_fn fill,
                              const void *ctx, bool *out_changed)
{
    struct gw_plan *plan = calloc(1, sizeof(*plan) + (size_t)count * sizeof(plan->tasks[0]));
    *out_changed = true;
    if (plan == NULL) {
        return NULL;
    }
    atomic_init(&plan->refs, 1);
    plan->generation = previous != NULL ? previous->generation + 1 : 1;
    plan->task_count = count;
    struct building building = {plan, previous, fill, ctx};
    if (!complete(&building, out_changed)) {
        gw_plan_unref(plan);
        return NULL;
    }
    return plan;
}

static bool task_ok(const struct gw_plan_task *task)
{
    if (task->open_count > GW_PLAN_OPEN_MAX || task->base_count > GW_PLAN_BASES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < task->open_count; i++) {
        const struct gw_plan_open *open = &task->open[i];
        bool state_ok =
            open->state.state == POL_ROLLOUT_RUNNING || open->state.state == POL_ROLLOUT_PAUSED;
        if (!state_ok || open->state.stage_index >= open->release->stage_count) {
            return false;
        }
    }
    return true;
}

bool gw_plan_validate(const struct gw_plan *plan)
{
    bool ok = plan->change_count <= GW_PLAN_CHANGES_MAX && plan->index != NULL &&
              gw_plan_index_generation(plan->index) >= plan->changes_from &&
              gw_plan_index_generation(plan->index) <= plan->generation;
    for (uint32_t i = 0; ok && i < plan->change_count; i++) {
        ok = plan->changes[i].generation > plan->changes_from &&
             plan->changes[i].slot < plan->task_count &&
             (i == 0 || plan->changes[i - 1].generation <= plan->changes[i].generation);
    }
    for (uint32_t i = 0; ok && i < plan->task_count; i++) {
        ok = plan->by_id[i] < plan->task_count && plan->tasks[i]->slot == i &&
             task_ok(plan->tasks[i]) &&
             (i == 0 ||
              plan->tasks[plan->by_id[i - 1]]->task_id < plan->tasks[plan->by_id[i]]->task_id);
    }
    return ok;
}

const struct gw_plan_task *gw_plan_find(const struct gw_plan *plan, uint64_t task_id)
{
    uint32_t low = 0;
    uint32_t high = plan->task_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (plan->tasks[plan->by_id[middle]]->task_id < task_id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool there = low < plan->task_count && plan->tasks[plan->by_id[low]]->task_id == task_id;
    return there ? plan->tasks[plan->by_id[low]] : NULL;
}

// ---- Claims

const struct gw_release *gw_plan_claim_release(const struct gw_plan_task *task, uint8_t number)
{
    return number < GW_PLAN_OPEN_MAX ? task->open[number].release
                                     : task->bases[number - GW_PLAN_OPEN_MAX].release;
}

uint32_t gw_plan_claim_newest(const struct gw_plan_task *task, uint8_t number)
{
    return number < GW_PLAN_OPEN_MAX ? task->open[number].state.stage_index
                                     : gw_plan_claim_release(task, number)->stage_count - 1;
}

uint16_t gw_plan_claim_share(const struct gw_plan_task *task, uint8_t number)
{
    const struct gw_release *release = gw_plan_claim_release(task, number);
    uint32_t newest = gw_plan_claim_newest(task, number);
    uint32_t first = task->shadow ? newest : 0;
    uint16_t widest = 0;
    for (uint32_t i = first; i <= newest; i++) {
        const struct pol_stage *stage = &release->stages[i];
        bool shadow = stage->kind == POL_STAGE_SHADOW;
        if (stage->kind != POL_STAGE_SIMULATE && shadow == task->shadow &&
            stage->max_bucket > widest) {
            widest = stage->max_bucket;
        }
    }
    return widest;
}
