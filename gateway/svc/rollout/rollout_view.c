// What a rollout is, for who asks: its page, lists and commands' answers. rollouts.c fills a view
// with every command, rollout_page.c through it; control thread. The counts are those of the tally
// and the last walk, as the gate gets them, so what a view says of the verdict and of power is
// about the decision that will be made. Of a stage whose gate compares nothing there is no power.
#include "svc/rollout/rollout_state.h"

#include "svc/core_private.h"
#include "policy/desired.h"
#include "svc/rollout/catalog_private.h"
#include "svc/rollout/late_failures.h"
#include "svc/rollout/simulation.h"
#include "svc/tally/tally.h"
#include "svc/trust/director.h"

#include <string.h>

// ---- Power

// Devices that came in with the stages before are in the walk's count of this one too.
static uint64_t came_before(const struct gw_rollout_view *view, uint32_t stage)
{
    uint64_t before = 0;
    for (uint32_t k = 0; k < stage && view->stages[stage].kind != POL_STAGE_BETA; k++) {
        bool within =
            view->stages[k].kind == POL_STAGE_GRAY ||
            (view->stages[k].kind == POL_STAGE_BETA && view->stages[stage].kind == POL_STAGE_FULL);
        before += within ? view->stages[k].counts.offered : 0;
    }
    return before;
}

static struct pol_stage_size size_of(const struct gw_rollout *rollout,
                                     const struct gw_rollout_view *view, uint64_t now_us)
{
    uint32_t at = rollout->state.stage_index;
    const struct pol_stage *stage = &rollout->release->stages[at];
    const struct gw_rollout_counts *counts = &view->stages[at].counts;
    uint64_t before = came_before(view, at);
    uint64_t since_us = rollout->state.stage_since_us;
    struct pol_stage_size size = {
        .devices = counts->eligible > before ? counts->eligible - before : 0,
        .control = counts->control,
        .in_stage_us = now_us > since_us ? now_us - since_us : 0,
    };
    size.devices = size.devices > counts->offered ? size.devices : counts->offered;
    if (size.control == 0 && stage->max_bucket > 0) { // none drawn yet: as its band will have it
        uint16_t from;
        uint16_t to;
        pol_stage_control_band(stage, &from, &to);
        size.control = size.devices * (uint64_t)(to - from) / stage->max_bucket;
    }
    return size;
}

static void view_power(struct gw_core *core, const struct gw_rollout *rollout,
                       struct gw_rollout_view *out)
{
    enum pol_rollout_state state = rollout->state.state;
    const struct pol_stage *stage = &rollout->release->stages[rollout->state.stage_index];
    bool open =
        state == POL_ROLLOUT_RUNNING || state == POL_ROLLOUT_WAITING || state == POL_ROLLOUT_PAUSED;
    bool asked = stage->gate.rule != POL_GATE_THRESHOLD && stage->kind != POL_STAGE_SIMULATE;
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    out->has_power = false;
    if (!open || !asked || rollout->state.before_first) {
        return;
    }
    gw_rollout_seen(core, rollout, &seen, &counts);
    struct pol_stage_size size = size_of(rollout, out, gw_core_now_us(core));
    out->has_power = pol_stage_power(&stage->gate, &counts, &size, &out->power);
    if (state != POL_ROLLOUT_RUNNING) { // nobody else comes in
        out->power.seconds = 0;
    }
}

// ---- What comes first

// May the devices of both arms be the same?
static bool arms_meet(const struct pol_arm *a, const struct pol_arm *b)
{
    bool both = a->to != 0 && b->to != 0;
    return !both || a->salt != b->salt || (a->from < b->to && b->from < a->to);
}

// Do devices follow it, or would they?
static bool is_followed(const struct gw_core *core, const struct gw_rollout *rollout)
{
    enum pol_claim_state claim;
    return pol_rollout_claims(&rollout->state, &claim) &&
           (claim == POL_CLAIM_OPEN || claim == POL_CLAIM_PAUSED) &&
           !gw_director_kills(core, &rollout->release->manifest);
}

// May a device be in both?
static bool releases_meet(const struct gw_release *a, const struct gw_release *b)
{
    return pol_targets_meet(&a->target, &b->target) && arms_meet(&a->arm, &b->arm);
}

static void beside_add(struct gw_core *core, const struct gw_rollout *other, struct gw_beside *out,
                       uint32_t *count)
{
    struct gw_beside *item = &out[(*count)++];
    struct gw_version_view version;
    memset(item, 0, sizeof(*item));
    item->rollout = other->release->id;
    item->state = other->state.state;
    if (gw_catalog_version_get(core, base_str_of(other->task->name), &other->release->manifest,
                               &version) == BASE_OK) {
        memcpy(item->version, version.version, sizeof(item->version));
    }
}

// In the order in which devices ask them; none of a rollout that is neither open nor guarded, of
// one whose target no device can match beside this one's, or in another arm of the same experiment.
// Every open one comes before one that is guarded, and none waits for that. Whether any known
// device is in both targets is not looked for (svc/device/preview.h does).
static void view_beside(struct gw_core *core, const struct gw_rollout *rollout,
                        struct gw_rollout_view *out)
{
    const struct gw_task *task = rollout->task;
    bool guarding = rollout->state.guarding && rollout->state.state != POL_ROLLOUT_ROLLING_BACK;
    uint32_t own = 0;
    while (own < task->open_count && task->open[own] != rollout) {
        own++;
    }
    bool open =
        !guarding && own < task->open_count && rollout->state.state != POL_ROLLOUT_ROLLING_BACK;
    for (uint32_t i = 0; (open || guarding) && i < task->open_count; i++) {
        const struct gw_rollout *other = task->open[i];
        if (other == rollout || !is_followed(core, other) ||
            !releases_meet(other->release, rollout->release)) {
            continue;
        }
        if (guarding || i < own) {
            beside_add(core, other, out->behind, &out->behind_count);
        } else if (is_followed(core, rollout)) {
            beside_add(core, other, out->before, &out->before_count);
        }
    }
}

// ---- Views

// Of the counts that are beside it. A PASS opens the next stage: beside an open one it is of the
// stage before, or not acted on yet; of this one nothing is known. What was found of a version says
// nothing of it once it is killed.
static void view_verdict(struct gw_core *core, const struct gw_rollout *rollout,
                         struct gw_rollout_view *out)
{
    struct pol_decision now = {.verdict = rollout->verdict,
                               .reason = rollout->reason,
                               .failure_ppm = rollout->failure_ppm,
                               .shown = rollout->shown};
    struct pol_decision found;
    if (!out->killed && gw_rollout_finds(core, rollout, &found)) {
        now = found;
    }
    bool before = rollout->state.state == POL_ROLLOUT_RUNNING && now.verdict == POL_VERDICT_PASS;
    bool killed = out->killed && rollout->state.state == POL_ROLLOUT_COMPLETED;
    out->verdict = before || killed ? POL_VERDICT_NO_DATA : now.verdict;
    out->reason = killed ? POL_REASON_KILLED : before ? POL_REASON_NO_COMPLETIONS : now.reason;
    out->failure_ppm = before || killed ? 0 : now.failure_ppm;
    out->shown = now.shown;
    out->cause = rollout->cause;
}

static void view_guard(struct gw_core *core, const struct gw_rollout *rollout,
                       struct gw_rollout_view *out)
{
    const struct gw_release *release = rollout->release;
    out->guarding = rollout->state.guarding;
    if (out->guarding) {
        uint64_t now_us = gw_core_sure_us(core);
        uint64_t over_us = rollout->state.stage_since_us +
                           release->stages[release->stage_count - 1].guard_s * UINT64_C(1000000);
        struct gw_rollout_counts seen;
        struct pol_counts counts;
        gw_rollout_seen(core, rollout, &seen, &counts);
        out->guard_left_s = over_us > now_us ? (over_us - now_us) / 1000000u : 0;
        out->outstanding = counts.outstanding;
    }
}

// What the tally has of it.
static void view_counted(struct gw_core *core, struct gw_rollout_view *out)
{
    struct gw_tally_view seen;
    gw_tally_view(core->tally, out->id, gw_core_now_s(core), &seen);
    out->counts = seen.counts;
    for (uint32_t i = 0; i < seen.stage_count && i < out->stage_count; i++) {
        out->stages[i].counts = seen.stages[i];
    }
    out->fingerprint_count = seen.fingerprint_count;
    memcpy(out->fingerprints, seen.fingerprints,
           seen.fingerprint_count * sizeof(seen.fingerprints[0]));
    out->slice_count = seen.slice_count;
    memcpy(out->slices, seen.slices, seen.slice_count * sizeof(seen.slices[0]));
}

void gw_rollout_view_of(struct gw_core *core, const struct gw_rollout *rollout,
                        struct gw_rollout_view *out)
{
    const struct gw_release *release = rollout->release;
    memset(out, 0, sizeof(*out));
    out->id = release->id;
    memcpy(out->task, release->task, sizeof(out->task));
    out->manifest = release->manifest;
    out->version_id = release->version_id;
    out->salt = release->salt;
    out->release_counter = release->release_counter;
    out->floor = release->floor;
    out->created_s = rollout->created_us / 1000000u;
    out->stage_since_s = rollout->state.stage_since_us / 1000000u;
    out->execution_timeout_s = release->execution_timeout_s;
    out->priority = release->priority;
    out->arm = release->arm;
    out->trust_unproven = release->trust_unproven;
    out->state = rollout->state.state;
    out->stage_failed = rollout->state.stage_failed;
    out->before_first = rollout->state.before_first;
    out->killed = gw_director_kills(core, &release->manifest);
    out->paged = rollout->state.paged;
    out->passed = rollout->state.passed;
    view_guard(core, rollout, out);
    out->stage_index = rollout->state.stage_index;
    out->stage_count = release->stage_count;
    out->revision = rollout->revision;
    memcpy(out->created_by, rollout->created_by, sizeof(out->created_by));
    out->quarantine_count = rollout->quarantine_count;
    memcpy(out->quarantine, rollout->quarantine, sizeof(out->quarantine));
    view_verdict(core, rollout, out);
    for (uint32_t i = 0; i < release->stage_count; i++) {
        memcpy(out->stages[i].name, release->stage_names[i], sizeof(out->stages[i].name));
        out->stages[i].kind = release->stages[i].kind;
        out->stages[i].max_bucket = release->stages[i].max_bucket;
        out->stages[i].conduct = release->stages[i];
        out->stages[i].conduct.audience = (struct pol_target){0};
    }
    view_counted(core, out);
    view_beside(core, rollout, out);
    out->late = gw_late_failures(core, rollout, &out->late_failed, &out->late_completed);
    out->simulation = rollout->simulation;
    if (release->stages[0].kind == POL_STAGE_SIMULATE &&
        gw_simulation_counts(&rollout->simulation)) {
        struct gw_rollout_counts *counts = &out->stages[0].counts;
        counts->succeeded = rollout->simulation.completed - rollout->simulation.failed;
        counts->failed = rollout->simulation.failed;
    }
    gw_rollout_view_trial(core, rollout, &out->trial);
    view_power(core, rollout, out);
}
