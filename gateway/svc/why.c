// Explaining a device. Control thread; a copy of what is known, no promise about the next check-in.
#include "svc/why.h"

#include "svc/causes.h"

#include "policy/bucket.h"
#include "policy/expr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        &rollout->state, release->stages, release->stage_count, target.matched, mask, out->bucket);
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
    out->killed = rollout->state.killed;
    out->baseline = rollout->task->baseline == rollout;
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
    const struct gw_catalog *catalog = &core->catalog;
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

static void should(struct gw_why_view *view, const struct gw_why_rollout *item)
{
    view->should_version_id = item->version_id;
    view->should_rollout = item->id;
    memcpy(view->should_version, item->version, sizeof(view->should_version));
}

// What it should run: the newest open rollout that lets it in and did not fail there, else the
// baseline.
static void conclude(struct gw_why_view *view)
{
    const struct gw_why_rollout *failed = NULL;
    for (uint32_t i = 0; i < view->rollout_count; i++) {
        const struct gw_why_rollout *item = &view->rollouts[i];
        bool open = item->state == POL_ROLLOUT_RUNNING || item->state == POL_ROLLOUT_WAITING;
        if (open && item->admitted && (item->bits & GW_OUTCOME_FAILED) != 0) {
            failed = failed != NULL ? failed : item;
        } else if (open && item->admitted) {
            should(view, item);
            snprintf(view->why, sizeof(view->why), "stage %s lets it in: bucket %u is below %u",
                     item->stage_name, item->bucket, item->max_bucket);
            return;
        }
    }
    for (uint32_t i = 0; i < view->rollout_count; i++) {
        const struct gw_why_rollout *item = &view->rollouts[i];
        if (item->baseline && item->targeted) {
            should(view, item);
            snprintf(view->why, sizeof(view->why), "%s",
                     failed != NULL ? "the newer version failed on it, so the baseline runs"
                                    : "no open rollout lets it in, so the baseline runs");
            return;
        }
    }
    snprintf(view->why, sizeof(view->why), "%s",
             failed != NULL ? "the version failed on it, and there is no baseline"
                            : "no rollout lets it in, and there is no baseline for it");
}

enum base_status gw_device_why(struct gw_core *core, uint64_t device_id, struct base_str task_name,
                               struct gw_why_view *out, struct base_error *error)
{
    struct gw_device_view *device = calloc(1, sizeof(*device));
    const struct gw_rollout *rollouts[GW_WHY_ROLLOUTS_MAX];
    struct gw_attrs_view attrs;
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
    } else {
        status = gw_attrs_view(device->attrs_bytes, device->attrs_size, &attrs);
    }
    if (status == BASE_OK) {
        out->device_id = device_id;
        out->last_seen_s = device->last_seen_s;
        memcpy(out->task, task->name, sizeof(out->task));
        out->rollout_count = newest_of(core, task, rollouts);
        for (uint32_t i = 0; i < out->rollout_count; i++) {
            explain_rollout(core, rollouts[i], device, &attrs.attrs, &out->rollouts[i]);
        }
        conclude(out);
    }
    free(device);
    return status;
}
