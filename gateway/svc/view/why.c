// Explaining a device: what it should run, and for each rollout of the task why it does or does not
// get it. api_devices.c calls on the control thread; the answer is a copy of what is known and no
// promise about the next check-in. The decision is asked from want.c with the device's record for a
// profile; here reasons are put in order, so that the test that decided is named first.
#include "svc/view/why.h"

#include "svc/device/causes.h"
#include "svc/plan/offer_room.h"
#include "svc/rollout/told_facts.h"
#include "svc/plan/want.h"
#include "svc/device/device_table.h"
#include "svc/rollout/catalog_private.h"
#include "svc/trust/director.h"
#include "svc/rollout/device_views.h"

#include "policy/bucket.h"
#include "policy/expr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_PERCENT (POL_BUCKET_COUNT / 100.0) // that 1 % of the devices are

#define REASON_BYTES 176u // of the first half of a sentence

static void outcome_of(struct gw_core *core, const struct gw_device_view *device,
                       struct gw_why_rollout *out)
{
    for (uint32_t i = 0; i < device->outcome_count; i++) {
        const struct gw_device_outcome *outcome = &device->outcomes[i];
        struct gw_cause cause;
        if (outcome->rollout_id != out->id || (outcome->shadow && out->bits != 0)) {
            continue; // what came of the version itself says more than what its shadow did
        }
        out->bits = outcome->bits;
        out->tries = outcome->tries;
        out->last_kind = outcome->last_kind;
        out->offered_s = outcome->offered_s;
        out->fingerprint = outcome->fingerprint;
        out->privacy_refusals = outcome->figures.privacy_refusals;
        if (outcome->fingerprint != 0 &&
            gw_cause_get(core, out->id, outcome->fingerprint, &cause) == BASE_OK) {
            memcpy(out->detail, cause.detail, sizeof(out->detail));
            out->last_kind = cause.kind; // how it failed says more than that it went back
        }
    }
}

// The condition that decided, as it was given.
static void deciding_test(const struct pol_target *target, const struct pol_match *match,
                          struct gw_why_rollout *out)
{
    if (match->cond_index < target->cond_count) {
        const struct pol_cond *cond = &target->conds[match->cond_index];
        snprintf(out->test, sizeof(out->test), "%.*s", (int)cond->attr.size, cond->attr.data);
    } else if (target->expr != NULL) {
        struct pol_text text =
            pol_expr_test_text(target->expr, match->cond_index - target->cond_count);
        snprintf(out->test, sizeof(out->test), "%.*s", (int)text.size, text.data);
    }
}

static void admission_of(const struct gw_rollout *rollout, uint64_t device_id,
                         const struct pol_attrs *attrs, struct gw_why_rollout *out)
{
    const struct gw_release *release = rollout->release;
    struct pol_match target = pol_target_match(&release->target, attrs);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < release->stage_count; i++) {
        if (pol_target_match(&release->stages[i].audience, attrs).matched) {
            mask |= UINT32_C(1) << i;
        }
    }
    out->targeted = target.matched;
    out->bucket = pol_bucket(device_id, release->salt);
    struct pol_match admitted = pol_rollout_admits(
        &rollout->state, release->stages, release->stage_count,
        (struct pol_candidate){
            .targeted = target.matched, .audience_mask = mask, .bucket = out->bucket});
    out->admitted = admitted.matched;
    out->reason = admitted.reason;
    out->stage = admitted.matched ? (uint16_t)admitted.cond_index : rollout->state.stage_index;
    out->max_bucket = release->stages[out->stage].max_bucket;
    memcpy(out->stage_name, release->stage_names[out->stage], sizeof(out->stage_name));
    if (!target.matched) {
        deciding_test(&release->target, &target, out);
    }
}

static void explain_rollout(struct gw_core *core, const struct gw_rollout *rollout,
                            const struct gw_device_view *device, const struct pol_attrs *attrs,
                            struct gw_why_rollout *out)
{
    struct gw_version_view version;
    memset(out, 0, sizeof(*out));
    out->id = rollout->release->id;
    out->version_id = rollout->release->version_id;
    out->manifest = rollout->release->manifest;
    if (gw_catalog_version_get(core, base_str_of(rollout->task->name), &out->manifest, &version) ==
        BASE_OK) {
        memcpy(out->version, version.version, sizeof(out->version));
    }
    out->state = rollout->state.state;
    out->killed = gw_director_kills(core, &rollout->release->manifest);
    out->baseline = gw_task_baseline(core, rollout->task) == rollout;
    admission_of(rollout, device->device_id, attrs, out);
    outcome_of(core, device, out);
}

static int newer(const void *a, const void *b)
{
    const struct gw_rollout *x = *(struct gw_rollout *const *)a;
    const struct gw_rollout *y = *(struct gw_rollout *const *)b;
    return x->created_us > y->created_us ? -1 : x->created_us < y->created_us;
}

static uint32_t newest_of(struct gw_core *core, const struct gw_task *task,
                          const struct gw_rollout *out[GW_WHY_ROLLOUTS_MAX])
{
    const struct gw_catalog *catalog = core->catalog;
    struct gw_rollout **all = calloc(catalog->rollout_count + 1, sizeof(struct gw_rollout *));
    uint32_t count = 0;
    for (uint32_t i = 0; all != NULL && i < catalog->rollout_count; i++) {
        if (catalog->rollouts[i]->task == task) {
            all[count++] = catalog->rollouts[i];
        }
    }
    if (count > 1) {
        qsort(all, count, sizeof(struct gw_rollout *), newer);
    }
    count = count < GW_WHY_ROLLOUTS_MAX ? count : GW_WHY_ROLLOUTS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = all[i];
    }
    free(all);
    return count;
}

static const struct gw_why_rollout *item_of(const struct gw_why_view *view, uint64_t id)
{
    for (uint32_t i = 0; i < view->rollout_count; i++) {
        if (view->rollouts[i].id == id) {
            return &view->rollouts[i];
        }
    }
    return NULL;
}

static bool refuses(const struct gw_plan_task *task, const struct gw_device_facts *facts,
                    uint64_t version_id)
{
    return version_id == facts->blocked || gw_want_failed_before(facts, task->task_id, version_id);
}

static const char *why_refused(const struct gw_why_rollout *item)
{
    return item != NULL && gw_outcome_is_not_for_it(item->bits) ? "the newer version is not for it"
                                                                : "the newer version failed on it";
}

// A baseline that it refuses and that was approved after what it should run; NULL: none.
static const struct gw_release *refused_later_base(const struct gw_plan_task *task,
                                                   const struct gw_device_facts *facts,
                                                   const struct gw_release *should)
{
    for (uint32_t i = 0; i < task->base_count; i++) {
        const struct gw_release *base =
            gw_plan_claim_release(task, (uint8_t)(GW_PLAN_OPEN_MAX + i));
        bool later = should == NULL || base->release_counter > should->release_counter;
        if (later && refuses(task, facts, base->version_id)) {
            return base;
        }
    }
    return NULL;
}

// Which rollout it follows, and what keeps that from it.
static void say_followed(const struct gw_why_rollout *item, bool paused, char out[REASON_BYTES])
{
    bool control = !paused && (item->bits & GW_OUTCOME_CONTROL) != 0;
    snprintf(out, REASON_BYTES, "the rollout that it follows, %016llx%s%s, %s",
             (unsigned long long)item->id, item->version[0] != '\0' ? " of " : "", item->version,
             control  ? "has it for control, which keeps what it has"
             : paused ? "is paused"
                      : "does not let it in yet");
}

// Why not an open rollout, or a later baseline than the one it should run (NULL: none).
static const char *why_not_newer(const struct gw_plan_task *task, const struct gw_why_view *view,
                                 const struct gw_device_facts *facts,
                                 const struct gw_release *should, char reason[REASON_BYTES])
{
    for (uint32_t i = 0; i < task->open_count; i++) {
        const struct gw_plan_open *open = &task->open[i];
        const struct gw_why_rollout *item = item_of(view, open->release->id);
        if (item == NULL || !item->targeted ||
            !pol_arm_has(&open->release->arm, *facts->device_id)) {
            continue;
        }
        if (refuses(task, facts, open->release->version_id)) {
            return why_refused(item);
        }
        say_followed(item, open->state.state == POL_ROLLOUT_PAUSED, reason);
        return reason;
    }
    const struct gw_release *base = refused_later_base(task, facts, should);
    return base != NULL ? why_refused(item_of(view, base->id)) : "no open rollout lets it in";
}

// Does the device hold as many tasks as it can, with others before this one among those that it
// should and does not hold? As of its last look for news.
static bool has_no_room(struct gw_core *core, const struct gw_device_view *device,
                        const struct gw_want *want, const struct pol_attrs *attrs,
                        uint32_t *out_tasks_max)
{
    struct gw_device_snapshot known;
    const struct gw_plan *plan = core->plan;
    if (!gw_device_table_get(core->table, device->device_id, &known) || known.tasks_max == 0) {
        return false;
    }
    uint32_t ahead = 0;
    for (uint32_t i = 0; i < plan->task_count && ahead < known.room; i++) {
        const struct gw_plan_task *task = plan->tasks[i];
        struct gw_device_facts facts;
        struct gw_told told;
        gw_told_facts(core, device, task->task_id, &told, &facts);
        if (task->shadow || task->tenant != device->tenant || facts.have != 0 ||
            facts.blocked != 0) {
            continue;
        }
        struct gw_want other = gw_want_of(task, &facts, attrs);
        ahead += other.statement != NULL && gw_offer_before(other.release, want->release);
    }
    *out_tasks_max = known.tasks_max;
    return ahead >= known.room;
}

static void name_refused(const struct gw_device_view *device, uint64_t task_id,
                         const struct gw_device_facts *facts, struct gw_why_view *view)
{
    for (uint32_t i = 0; i < device->outcome_count; i++) {
        const struct gw_device_outcome *outcome = &device->outcomes[i];
        uint64_t version_id = outcome->version_id;
        bool named = version_id == facts->blocked || version_id == facts->have;
        for (uint32_t k = 0; k < view->refused_before_count && !named; k++) {
            named = view->refused_before[k] == version_id;
        }
        if (!named && outcome->task_id == task_id && !outcome->shadow &&
            view->refused_before_count < GW_WHY_REFUSED_MAX &&
            gw_want_failed_before(facts, task_id, version_id)) {
            view->refused_before[view->refused_before_count++] = version_id;
        }
    }
}

// The device that is asked about.
struct asked {
    const struct gw_device_view *device; // what is known of it
    const struct gw_device_facts *facts; // ... of it and the task
    const struct pol_attrs *attrs;
};

// What it should run, from the plan that check-ins are answered from.
static void conclude(struct gw_core *core, const struct asked *asked,
                     const struct gw_plan_task *task, struct gw_why_view *view)
{
    const struct gw_device_facts *facts = asked->facts;
    if (task == NULL) {
        snprintf(view->why, sizeof(view->why), "%s", pol_desired_rule_text(POL_DESIRED_NONE));
        return;
    }
    struct gw_want want = gw_want_of(task, facts, asked->attrs);
    uint32_t tasks_max = 0;
    char reason[REASON_BYTES];
    if (want.statement != NULL && facts->have == 0 && facts->blocked == 0 &&
        has_no_room(core, asked->device, &want, asked->attrs, &tasks_max)) {
        snprintf(view->why, sizeof(view->why),
                 "it holds %u tasks at most, and others come first: those it has, then by "
                 "priority and approval",
                 tasks_max);
        return;
    }
    const struct gw_why_rollout *item =
        want.release != NULL ? item_of(view, want.release->id) : NULL;
    struct gw_version_view version;
    if (want.release != NULL &&
        gw_catalog_version_get(core, base_str_of(want.release->task), &want.release->manifest,
                               &version) == BASE_OK) {
        memcpy(view->should_version, version.version, sizeof(view->should_version));
    }
    view->should_version_id = want.version_id;
    view->should_rollout = want.release != NULL ? want.release->id : 0;
    if (want.rule == POL_DESIRED_FOLLOWED && item != NULL && item->bits == 0 &&
        gw_device_table_is_full(core->table, asked->device->device_id)) {
        snprintf(view->why, sizeof(view->why),
                 "stage %s lets it in, when one of the %u open rollouts it is in ends",
                 item->stage_name, GW_DEVICE_MARKS_MAX);
    } else if (want.rule == POL_DESIRED_FOLLOWED && item != NULL) {
        snprintf(view->why, sizeof(view->why),
                 "stage %s lets it in: its bucket, %.2f %%, is below %g %%", item->stage_name,
                 item->bucket / BUCKETS_PERCENT, item->max_bucket / BUCKETS_PERCENT);
    } else if (want.rule == POL_DESIRED_BASELINE) {
        snprintf(view->why, sizeof(view->why), "%s, so the baseline runs",
                 why_not_newer(task, view, facts, want.release, reason));
    } else if (want.rule == POL_DESIRED_NONE) {
        snprintf(view->why, sizeof(view->why), "%s, and %s",
                 why_not_newer(task, view, facts, NULL, reason),
                 want.floored ? "the baselines for it are older than its floor allows"
                              : "there is no baseline for it");
    } else if (want.rule == POL_DESIRED_KEEPS && asked->device->attrs_size == 0) {
        snprintf(view->why, sizeof(view->why),
                 "it keeps what it has: nothing but its reports is known of it, no check-in has "
                 "said its attributes yet");
    } else {
        snprintf(view->why, sizeof(view->why), "%s", pol_desired_rule_text(want.rule));
    }
}

enum base_status gw_device_why(struct gw_core *core, uint64_t device_id, struct base_str task_name,
                               struct gw_why_view *out, struct base_error *error)
{
    struct gw_device_view *device = calloc(1, sizeof(*device));
    const struct gw_rollout *rollouts[GW_WHY_ROLLOUTS_MAX];
    struct gw_attrs_view attrs = {0};
    if (device == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(out, 0, sizeof(*out));
    const struct gw_task *task = gw_catalog_find_task(core, wire_task_id(task_name));
    enum base_status status = gw_device_get(core, device_id, device);
    if (status != BASE_OK) {
        status = base_error_set(error, status, "no such device");
    } else if (task == NULL || !base_str_equal(base_str_of(task->name), task_name)) {
        status = base_error_set(error, BASE_ERR_NOT_FOUND, "no such task");
    } else if (device->attrs_size > 0) { // else known by its reports alone
        status = gw_attrs_view(device->attrs_bytes, device->attrs_size, &attrs);
    }
    if (status == BASE_OK) {
        out->device_id = device_id;
        out->last_seen_s = device->last_seen_s;
        (void)gw_faults_last(core, device_id, &out->fault);
        memcpy(out->task, task->name, sizeof(out->task));
        out->rollout_count = newest_of(core, task, rollouts);
        for (uint32_t i = 0; i < out->rollout_count; i++) {
            explain_rollout(core, rollouts[i], device, &attrs.attrs, &out->rollouts[i]);
        }
        struct gw_device_facts facts;
        struct gw_told told;
        gw_told_facts(core, device, task->task_id, &told, &facts);
        name_refused(device, task->task_id, &facts, out);
        out->has_version_id = facts.have;
        out->has_counter = facts.approved;
        out->refused_version_id = facts.blocked;
        out->floor = facts.floor;
        const struct asked asked = {device, &facts, &attrs.attrs};
        conclude(core, &asked, gw_plan_find(core->plan, task->task_id), out);
    }
    free(device);
    return status;
}
