// Views of the core as JSON documents; docs/API.md describes every member. Control thread. Callers
// are the handlers of catalogue, rollouts, devices and tokens, and api_audit.c, which takes parts
// of a view. A view is a copy that the core filled, so nothing here looks into the core's own
// tables. A function returns a new reference; NULL means that memory ran out.
#include "api/api_views.h"

#include "api/api_json.h"
#include "api/stage_body.h"
#include "base/alloc.h"
#include "policy/target_text.h"
#include "svc/access/credentials.h"
#include "svc/tally/rollout_counts.h"
#include "svc/rollout/simulation.h"
#include "wire/cloud/cloud_counts.h"

#include <stddef.h>
#include <stdio.h>
#include <time.h>

#define TIME_TEXT_MAX 32

static json_t *hex_or_null(uint64_t id)
{
    return id != 0 ? gw_json_hex(id) : json_null();
}

static json_t *time_or_null(uint64_t seconds)
{
    return seconds != 0 ? json_integer((json_int_t)seconds) : json_null();
}

static json_t *digest_text(const struct wire_sha256 *digest)
{
    char text[WIRE_SHA256_HEX + 1];

    wire_sha256_hex(digest, text);
    return json_string(text);
}

json_t *gw_view_text(const char *text)
{
    json_t *value = json_string(text);

    if (value == NULL) {
        char ascii[256];
        size_t size = 0;
        for (const char *at = text; *at != '\0' && size + 1 < sizeof(ascii); ++at) {
            ascii[size++] = (unsigned char)*at < 0x80 ? *at : '?';
        }
        value = json_stringn(ascii, size);
    }
    return value;
}

json_t *gw_view_time(uint64_t wall_us)
{
    char text[TIME_TEXT_MAX];
    time_t seconds = (time_t)(wall_us / 1000000);
    struct tm parts;

    if (gmtime_r(&seconds, &parts) == NULL) {
        return json_null();
    }
    size_t size = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
    int more =
        snprintf(text + size, sizeof(text) - size, ".%03uZ", (unsigned)(wall_us / 1000 % 1000));
    return more > 0 ? json_string(text) : json_null();
}

json_t *gw_view_token(struct gw_core *core, const struct gw_token_view *view)
{
    char tenant[GW_TENANT_NAME_MAX + 1] = "*";
    json_t *scopes = json_array();

    if (view->tenant != GW_TENANT_EVERY) {
        gw_tenant_name(core, view->tenant, tenant);
    }
    for (uint32_t i = 0; i < view->scope_count; ++i) {
        (void)json_array_append_new(scopes, json_string(view->scopes[i]));
    }
    return json_pack("{s:o, s:s, s:s, s:s, s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "id",
                     gw_json_hex(view->id), "name", view->name, "owner",
                     view->owner[0] != '\0' ? view->owner : view->name, "role",
                     gw_role_name(view->role), "tenant", tenant, "scopes", scopes, "created_s",
                     (json_int_t)view->created_s, "expires_s", time_or_null(view->expires_s),
                     "revoked_s", time_or_null(view->revoked_s), "last_used_s",
                     time_or_null(view->last_used_s), "created_by", hex_or_null(view->created_by),
                     "uses", (json_int_t)view->uses, "uses_max", (json_int_t)view->uses_max,
                     "revision", (json_int_t)view->revision);
}

json_t *gw_view_task(const struct gw_task_view *view)
{
    json_t *baseline = json_null();

    if (view->baseline_rollout != 0) {
        baseline =
            json_pack("{s:o, s:o, s:s}", "rollout", gw_json_hex(view->baseline_rollout), "manifest",
                      digest_text(&view->baseline_manifest), "version", view->baseline_version);
    }
    json_t *open = json_array();

    for (uint32_t i = 0; i < view->open_count; i++) {
        (void)json_array_append_new(open, gw_json_hex(view->open_rollouts[i]));
    }
    return json_pack("{s:s, s:o, s:I, s:I, s:o, s:o, s:o}", "name", view->name, "id",
                     gw_json_hex(view->task_id), "release_counter",
                     (json_int_t)view->release_counter, "created_s", (json_int_t)view->created_s,
                     "open_rollout", hex_or_null(view->open_rollout), "open_rollouts", open,
                     "baseline", baseline);
}

json_t *gw_view_floored(const struct gw_floored *view)
{
    return view->devices == 0 && view->untargeted == 0
               ? json_null()
               : json_pack("{s:o, s:I, s:o, s:I, s:I, s:i}", "rollout", gw_json_hex(view->rollout),
                           "floor", (json_int_t)view->floor, "baseline",
                           view->baseline > 0 ? json_integer((json_int_t)view->baseline)
                                              : json_null(),
                           "devices", (json_int_t)view->devices, "untargeted",
                           (json_int_t)view->untargeted, "open", (int)view->open);
}

json_t *gw_view_present(const struct gw_present *view)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < view->rollout_count && i < GW_PRESENT_ROLLOUTS_MAX; i++) {
        const struct gw_present_rollout *item = &view->rollouts[i];
        (void)json_array_append_new(list,
                                    json_pack("{s:o, s:s, s:I}", "rollout", gw_json_hex(item->id),
                                              "state", pol_rollout_state_name(item->state),
                                              "devices", (json_int_t)item->devices));
    }
    json_t *present = json_pack("{s:I, s:I, s:o}", "devices", (json_int_t)view->devices,
                                "rollout_count", (json_int_t)view->rollout_count, "rollouts", list);
    if (view->rollout_count == 0) {
        json_decref(present);
        return json_null();
    }
    return present;
}

json_t *gw_view_version(const struct gw_version_view *view)
{
    return json_pack("{s:o, s:s, s:o, s:I, s:I, s:I, s:I, s:I}", "manifest",
                     digest_text(&view->manifest), "version", view->version, "version_id",
                     gw_json_hex(view->version_id), "manifest_bytes",
                     (json_int_t)view->manifest_bytes, "files", (json_int_t)view->file_count,
                     "files_bytes", (json_int_t)view->files_bytes, "exclusive_subjects",
                     (json_int_t)view->subjects, "created_s", (json_int_t)view->created_s);
}

static json_t *counts_object(const struct gw_rollout_counts *counts)
{
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
        {"eligible", offsetof(struct gw_rollout_counts, eligible)},
        {"online", offsetof(struct gw_rollout_counts, online)},
        {"offered", offsetof(struct gw_rollout_counts, offered)},
        {"downloaded", offsetof(struct gw_rollout_counts, downloaded)},
        {"activated", offsetof(struct gw_rollout_counts, activated)},
        {"succeeded", offsetof(struct gw_rollout_counts, succeeded)},
        {"failed", offsetof(struct gw_rollout_counts, failed)},
        {"timed_out", offsetof(struct gw_rollout_counts, timed_out)},
        {"under_way", offsetof(struct gw_rollout_counts, under_way)},
        {"silent", offsetof(struct gw_rollout_counts, silent)},
        {"expired", offsetof(struct gw_rollout_counts, expired)},
        {"retrying", offsetof(struct gw_rollout_counts, retrying)},
        {"not_applicable", offsetof(struct gw_rollout_counts, not_applicable)},
        {"rolled_back", offsetof(struct gw_rollout_counts, rolled_back)},
        {"on_version", offsetof(struct gw_rollout_counts, on_version)},
        {"control", offsetof(struct gw_rollout_counts, control)},
        {"control_offered", offsetof(struct gw_rollout_counts, control_offered)},
        {"control_activated", offsetof(struct gw_rollout_counts, control_activated)},
        {"control_completed", offsetof(struct gw_rollout_counts, control_completed)},
        {"control_failed", offsetof(struct gw_rollout_counts, control_failed)},
        {"control_silent", offsetof(struct gw_rollout_counts, control_silent)},
        {"unproven", offsetof(struct gw_rollout_counts, unproven)},
        {"unproven_completed", offsetof(struct gw_rollout_counts, unproven_completed)},
        {"unproven_failed", offsetof(struct gw_rollout_counts, unproven_failed)},
    };
    json_t *object = json_object();

    for (size_t i = 0; object != NULL && i < sizeof(fields) / sizeof(fields[0]); ++i) {
        const uint64_t *value = (const uint64_t *)((const char *)counts + fields[i].offset);
        if (json_object_set_new(object, fields[i].name, json_integer((json_int_t)*value)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *stage_object(const struct gw_rollout_stage_view *stage)
{
    json_t *root = json_pack("{s:s, s:s, s:f, s:o}", "name", stage->name, "kind",
                             pol_stage_kind_name(stage->kind), "percent", stage->max_bucket / 100.0,
                             "counts", counts_object(&stage->counts));
    json_t *conduct = gw_stage_body_view(&stage->conduct);

    if (root != NULL && (conduct == NULL || json_object_update_new(root, conduct) != 0)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

json_t *gw_view_outcomes(const struct pol_outcomes *outcomes)
{
    return json_pack("{s:I, s:I, s:I}", "offered", (json_int_t)outcomes->offered, "failed",
                     (json_int_t)outcomes->failed, "succeeded", (json_int_t)outcomes->succeeded);
}

static uint64_t not_answered(const struct pol_outcomes *outcomes)
{
    return outcomes->offered - outcomes->failed - outcomes->succeeded;
}

// One cohort of a trial: under way are those whose window is not over.
static json_t *cohort_object(const struct pol_trial *trial, enum pol_cohort cohort)
{
    json_t *root = gw_view_outcomes(&trial->all[cohort]);
    uint64_t unanswered = not_answered(&trial->over[cohort]);
    uint64_t under_way = not_answered(&trial->all[cohort]) - unanswered;

    if (root != NULL &&
        (json_object_set_new(root, "under_way", json_integer((json_int_t)under_way)) != 0 ||
         json_object_set_new(root, "unanswered", json_integer((json_int_t)unanswered)) != 0)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

// The open stage's trial, with the rule logrank; control is a placebo: offered what it has.
static json_t *trial_object(const struct gw_rollout_view *view)
{
    const struct pol_trial *trial = &view->trial.trial;

    return !view->trial.there
               ? json_null()
               : json_pack("{s:o, s:o, s:I, s:b, s:b, s:o}", "updated",
                           cohort_object(trial, POL_COHORT_UPDATED), "control",
                           cohort_object(trial, POL_COHORT_CONTROL), "compared",
                           (json_int_t)trial->compared, "compares", (int)pol_trial_compares(trial),
                           "placebo", 1, "windows_end_s", time_or_null(view->trial.windows_end_s));
}

// What the tests of a gate have shown so far.
static json_t *shown_object(const struct gw_rollout_view *view)
{
    const struct pol_test_report *shown = &view->shown;

    if (view->stage_index >= view->stage_count ||
        view->stages[view->stage_index].conduct.gate.rule == POL_GATE_THRESHOLD) {
        return json_null();
    }
    return json_pack("{s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "result",
                     pol_test_result_name(shown->result), "by_control", (int)shown->by_control,
                     "updated", shown->updated_ppm / 1e6, "control", shown->control_ppm / 1e6,
                     "low", shown->low_ppm / 1e6, "high", shown->high_ppm / 1e6, "rise_low",
                     shown->rise_low_ppm / 1e6, "rise_high", shown->rise_high_ppm / 1e6, "evidence",
                     shown->evidence, "good_evidence", shown->good_evidence);
}

static json_t *ppm_or_null(uint32_t ppm)
{
    return ppm < POL_TEST_NOT_ASKED ? json_real(ppm / 1e6) : json_null();
}

// What the open stage can see; null where no rise is declared.
static json_t *power_object(const struct gw_rollout_view *view)
{
    const struct pol_stage_power *power = &view->power;

    if (!view->has_power) {
        return json_null();
    }
    bool reachable = power->needed < POL_POWER_DEVICES_MAX;
    return json_pack(
        "{s:f, s:I, s:I, s:o, s:b, s:o, s:o, s:f, s:b, s:o}", "rise", power->rise_ppm / 1e6,
        "completed", (json_int_t)power->completed, "devices", (json_int_t)power->devices, "needed",
        reachable ? json_integer((json_int_t)power->needed) : json_null(), "can_detect",
        (int)power->can_detect, "sees", ppm_or_null(power->sees_ppm), "best",
        ppm_or_null(power->best_ppm), "base", power->base_ppm / 1e6, "base_measured",
        (int)power->base_measured, "seconds", time_or_null(power->seconds));
}

// {"index","name","kind","percent"} of the stage that is open, or was last.
static json_t *current_stage(const struct gw_rollout_view *view)
{
    if (view->stage_index >= view->stage_count || view->stage_index >= POL_STAGES_MAX) {
        return json_null();
    }
    const struct gw_rollout_stage_view *stage = &view->stages[view->stage_index];
    return json_pack("{s:i, s:s, s:s, s:f, s:I}", "index", (int)view->stage_index, "name",
                     stage->name, "kind", pol_stage_kind_name(stage->kind), "percent",
                     stage->max_bucket / 100.0, "since_s", (json_int_t)view->stage_since_s);
}

// A list that lost an item to want of memory is none.
static json_t *whole_take(json_t *list, size_t expected)
{
    if (list != NULL && json_array_size(list) != expected) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *stage_list(const struct gw_rollout_view *view)
{
    uint32_t stage_count = view->stage_count < POL_STAGES_MAX ? view->stage_count : POL_STAGES_MAX;
    json_t *list = json_array();

    for (uint32_t i = 0; i < stage_count; ++i) {
        (void)json_array_append_new(list, stage_object(&view->stages[i]));
    }
    return whole_take(list, stage_count);
}

static json_t *fingerprint_list(const struct gw_rollout_view *view)
{
    uint32_t count = view->fingerprint_count < GW_ROLLOUT_FINGERPRINTS ? view->fingerprint_count
                                                                       : GW_ROLLOUT_FINGERPRINTS;
    json_t *list = json_array();

    for (uint32_t i = 0; i < count; ++i) {
        const struct gw_rollout_fingerprint *item = &view->fingerprints[i];
        (void)json_array_append_new(
            list,
            json_pack("{s:o, s:s, s:I, s:o}", "fingerprint", gw_json_hex(item->fingerprint), "kind",
                      wire_outcome_name((enum wire_outcome_kind)item->kind), "devices",
                      (json_int_t)item->devices, "detail", gw_view_text(item->detail)));
    }
    return whole_take(list, count);
}

// Rollouts that devices of its target follow before it, or after it.
static json_t *beside_list(const struct gw_beside items[GW_TASK_OPEN_MAX], uint32_t count)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < count && i < GW_TASK_OPEN_MAX; ++i) {
        const struct gw_beside *item = &items[i];
        (void)json_array_append_new(
            list, json_pack("{s:o, s:s, s:s}", "rollout", gw_json_hex(item->rollout), "version",
                            item->version, "state", pol_rollout_state_name(item->state)));
    }
    return whole_take(list, count);
}

static json_t *slice_list(const struct gw_rollout_view *view)
{
    uint32_t count = view->slice_count < GW_ROLLOUT_SLICES ? view->slice_count : GW_ROLLOUT_SLICES;
    json_t *list = json_array();

    for (uint32_t i = 0; i < count; ++i) {
        const struct gw_rollout_slice *slice = &view->slices[i];
        (void)json_array_append_new(list, json_pack("{s:s, s:o, s:I, s:I}", "attr", slice->attr,
                                                    "value", gw_view_text(slice->value),
                                                    "completed", (json_int_t)slice->completed,
                                                    "failed", (json_int_t)slice->failed));
    }
    return whole_take(list, count);
}

static json_t *quarantine_list(const struct gw_rollout_view *view)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < view->quarantine_count && i < GW_QUARANTINE_MAX; ++i) {
        (void)json_array_append_new(list, gw_view_text(view->quarantine[i].text));
    }
    return list;
}

static json_t *arm_object(const struct pol_arm *arm)
{
    return arm->to == 0 ? json_null()
                        : json_pack("{s:o, s:f, s:f}", "salt", gw_json_hex(arm->salt), "from",
                                    arm->from / 100.0, "to", arm->to / 100.0);
}

static json_t *class_list(const struct gw_simulation *simulation)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < simulation->class_count && i < GW_SIMULATION_CLASSES_MAX; ++i) {
        const struct gw_simulation_class *one = &simulation->classes[i];
        (void)json_array_append_new(
            list, json_pack("{s:s, s:I, s:o}", "kind",
                            wire_outcome_name((enum wire_outcome_kind)one->outcome), "devices",
                            (json_int_t)one->devices, "detail", gw_view_text(one->detail)));
    }
    return whole_take(list, simulation->class_count);
}

// Where the result of the simulate stage came from; null when there is none.
static json_t *simulation_object(const struct gw_rollout_view *view)
{
    const struct gw_simulation *simulation = &view->simulation;
    json_t *out = json_pack(
        "{s:s, s:I, s:I}", "source", gw_simulation_source_name(simulation->source), "completed",
        (json_int_t)simulation->completed, "failed", (json_int_t)simulation->failed);
    json_t *more = NULL;

    if (simulation->source == GW_SIMULATION_NONE) {
        json_decref(out);
        return json_null();
    }
    if (simulation->source == GW_SIMULATION_EVIDENCE) {
        char seed[24];
        (void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)simulation->seed);
        more = json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:o}", "evidence",
                         digest_text(&simulation->evidence), "simulator", simulation->simulator,
                         "seed", seed, "drawn", (json_int_t)simulation->drawn, "matched",
                         (json_int_t)simulation->matched, "not_run",
                         (json_int_t)simulation->not_run, "classes", class_list(simulation));
    } else if (simulation->source != GW_SIMULATION_TYPED) {
        more = json_pack("{s:o, s:o, s:o}", "by", gw_view_text(simulation->by), "reason",
                         gw_view_text(simulation->reason), "approved_by",
                         simulation->approved_by[0] != '\0' ? gw_view_text(simulation->approved_by)
                                                            : json_null());
    }
    if (out != NULL && more != NULL) {
        (void)json_object_update(out, more);
    }
    json_decref(more);
    return out;
}

// Of a rollout whose last stage is over, and that is judged still; null otherwise.
static json_t *guard_object(const struct gw_rollout_view *view)
{
    return view->guarding ? json_pack("{s:I, s:I, s:I}", "since_s", (json_int_t)view->stage_since_s,
                                      "left_s", (json_int_t)view->guard_left_s, "outstanding",
                                      (json_int_t)view->outstanding)
                          : json_null();
}

// Failures above the rule, of a rollout that no gate judges any more; null otherwise.
static json_t *late_object(const struct gw_rollout_view *view)
{
    return view->late ? json_pack("{s:I, s:I}", "failed", (json_int_t)view->late_failed,
                                  "completed", (json_int_t)view->late_completed)
                      : json_null();
}

// Why it goes or went back, or was paused; null otherwise.
static json_t *cause_object(const struct gw_rollout_view *view)
{
    return view->cause != POL_REASON_NONE
               ? json_pack("{s:s, s:s}", "reason", pol_reason_name(view->cause), "text",
                           pol_reason_text(view->cause))
               : json_null();
}

json_t *gw_view_target(const struct pol_target *target)
{
    const struct base_alloc_port *heap = base_alloc_heap();
    char *text = heap->alloc(heap->ctx, WIRE_EVIDENCE_TARGET_MAX + 1);
    size_t size = 0;
    json_t *out = NULL;

    if (text != NULL && pol_target_text(target, text, WIRE_EVIDENCE_TARGET_MAX + 1, &size)) {
        out = json_stringn(text, size);
    }
    heap->release(heap->ctx, text);
    return out != NULL ? out : json_null();
}

// Among whom the failed are counted (failure_ratio).
static const char *failure_of(const struct gw_rollout_view *view)
{
    uint32_t last = view->stage_count > 0 ? view->stage_count - 1 : 0;
    const struct gw_rollout_stage_view *stage =
        &view->stages[view->stage_index < last ? view->stage_index : last];
    bool trial = stage->conduct.gate.rule == POL_GATE_LOGRANK && stage->kind != POL_STAGE_SIMULATE;
    return trial ? "offered" : "completed";
}

json_t *gw_view_rollout(const struct gw_rollout_view *view, const char *version)
{
    json_t *root = json_pack(
        "{s:o, s:s, s:o, s:s?, s:o, s:o, s:I, s:I, s:i, s:s, s:b}", "id", gw_json_hex(view->id),
        "task", view->task, "manifest", digest_text(&view->manifest), "version", version,
        "version_id", gw_json_hex(view->version_id), "salt", gw_json_hex(view->salt),
        "release_counter", (json_int_t)view->release_counter, "created_s",
        (json_int_t)view->created_s, "execution_timeout_s", (int)view->execution_timeout_s, "state",
        pol_rollout_state_name(view->state), "stage_failed", (int)view->stage_failed);
    json_t *rest = json_pack(
        "{s:i, s:o, s:I, s:s, s:b, s:b, s:o, s:o, s:s, s:s, s:s, s:f, s:o, s:o, s:o, s:o}",
        "priority", (int)view->priority, "arm", arm_object(&view->arm), "revision",
        (json_int_t)view->revision, "created_by", view->created_by, "before_first",
        (int)view->before_first, "killed", (int)view->killed, "test", shown_object(view), "stage",
        current_stage(view), "verdict", pol_verdict_name(view->verdict), "reason",
        pol_reason_name(view->reason), "reason_text", pol_reason_text(view->reason),
        "failure_ratio", view->failure_ppm / 1e6, "counts", counts_object(&view->counts), "stages",
        stage_list(view), "fingerprints", fingerprint_list(view), "slices", slice_list(view));

    if (root != NULL &&
        (rest == NULL || json_object_update_new(root, rest) != 0 ||
         json_object_set_new(root, "quarantine", quarantine_list(view)) != 0 ||
         json_object_set_new(root, "behind", beside_list(view->behind, view->behind_count)) != 0 ||
         json_object_set_new(root, "before", beside_list(view->before, view->before_count)) != 0 ||
         json_object_set_new(root, "simulation", simulation_object(view)) != 0 ||
         json_object_set_new(root, "trust_unproven", json_boolean(view->trust_unproven)) != 0 ||
         json_object_set_new(root, "floor", json_integer((json_int_t)view->floor)) != 0 ||
         json_object_set_new(root, "trial", trial_object(view)) != 0 ||
         json_object_set_new(root, "failure_of", json_string(failure_of(view))) != 0 ||
         json_object_set_new(root, "cause", cause_object(view)) != 0 ||
         json_object_set_new(root, "guard", guard_object(view)) != 0 ||
         json_object_set_new(root, "late", late_object(view)) != 0 ||
         json_object_set_new(root, "paged", json_boolean(view->paged)) != 0 ||
         json_object_set_new(root, "passed", json_boolean(view->passed)) != 0 ||
         json_object_set_new(root, "power", power_object(view)) != 0)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static json_t *attribute(const struct wire_attr *attr)
{
    switch (attr->type) {
    case WIRE_ATTR_STRING: {
        json_t *text =
            json_stringn(attr->text.data != NULL ? attr->text.data : "", attr->text.size);
        return text != NULL ? text : json_string("?");
    }
    case WIRE_ATTR_INTEGER:
        return json_integer(attr->integer);
    case WIRE_ATTR_BOOLEAN:
        return json_boolean(attr->integer != 0);
    case WIRE_ATTR_TYPE_COUNT:
        break;
    }
    return json_null();
}

// A device may say anything.
static json_int_t shown(uint64_t figure)
{
    return figure > INT64_MAX ? INT64_MAX : (json_int_t)figure;
}

json_t *gw_view_device(const struct gw_device_view *view)
{
    json_t *attrs = json_object();
    bool whole = true;

    for (uint32_t i = 0; i < view->attrs.count && i < WIRE_ATTRS_MAX; ++i) {
        const struct wire_attr *attr = &view->attrs.items[i];
        char name[WIRE_ATTR_NAME_MAX + 1];
        (void)snprintf(name, sizeof(name), "%.*s", (int)attr->name.size, attr->name.data);
        whole = json_object_set_new(attrs, name, attribute(attr)) == 0 && whole;
    }
    if (!whole) {
        json_decref(attrs);
        return NULL;
    }
    return json_pack("{s:o, s:s, s:b, s:I, s:I, s:I, s:I, s:o}", "id", gw_json_hex(view->device_id),
                     "credential",
                     gw_credential_state_name((enum gw_credential_state)view->credential), "proven",
                     (int)view->proven, "first_seen_s", (json_int_t)view->first_seen_s,
                     "last_seen_s", (json_int_t)view->last_seen_s, "epoch", (json_int_t)view->epoch,
                     "report_seq", shown(view->report_seq), "attrs", attrs);
}

static json_t *state_list(uint16_t outcome_bits)
{
    static const struct {
        unsigned bit;
        const char *name;
    } bits[] = {
        {GW_OUTCOME_OFFERED, "offered"},
        {GW_OUTCOME_DOWNLOADED, "downloaded"},
        {GW_OUTCOME_ACTIVATED, "activated"},
        {GW_OUTCOME_RAN, "ran"},
        {GW_OUTCOME_FAILED, "failed"},
        {GW_OUTCOME_ROLLED_BACK, "rolled_back"},
        {GW_OUTCOME_NOT_APPLICABLE, "not_applicable"},
        {GW_OUTCOME_REMOVED, "removed"},
        {GW_OUTCOME_CONTROL, "control"},
        {GW_OUTCOME_RETRY, "retrying"},
        {GW_OUTCOME_PROVEN, "proven"},
    };
    json_t *states = json_array();
    size_t state_count = 0;

    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); ++i) {
        if ((outcome_bits & bits[i].bit) != 0) {
            (void)json_array_append_new(states, json_string(bits[i].name));
            state_count++;
        }
    }
    return whole_take(states, state_count);
}

// Of decisions between device and cloud, since the version was activated; nothing where none was.
static void cloud_show(json_t *root, const struct wire_figures *figures)
{
    struct wire_cloud_counts counts;
    if (!wire_cloud_figures_get(figures, &counts)) {
        return;
    }
    uint32_t p95_ms = WIRE_CLOUD_TIME_MS; // its answers' step of time
    while (p95_ms < WIRE_CLOUD_TIME_MS_LAST &&
           wire_cloud_later(&counts, p95_ms) * 20u > counts.answered) {
        p95_ms *= 2;
    }
    (void)json_object_set_new(root, "cloud_asked", json_integer(counts.asked));
    (void)json_object_set_new(root, "cloud_sent", json_integer(counts.sent));
    (void)json_object_set_new(root, "cloud_answered", json_integer(counts.answered));
    (void)json_object_set_new(root, "cloud_differed", json_integer(counts.differed));
    if (counts.answered > 0 && wire_cloud_later(&counts, p95_ms) * 20u <= counts.answered) {
        (void)json_object_set_new(root, "cloud_p95_ms", json_integer(p95_ms));
    }
}

// What is 0 is not known, and left out.
static json_t *figures_object(const struct wire_figures *figures)
{
    json_t *root = json_object();
#define FIGURE_SHOW(name)                                                                          \
    if (figures->name != 0) {                                                                      \
        (void)json_object_set_new(root, #name, json_integer(shown(figures->name)));                \
    }
    FIGURE_SHOW(heap_peak_bytes)
    FIGURE_SHOW(left_out)
    FIGURE_SHOW(privacy_refusals)
#undef FIGURE_SHOW
    cloud_show(root, figures);
    return root;
}

json_t *gw_view_outcome(const struct gw_device_outcome *outcome, const char *task,
                        const char *detail)
{
    json_t *states = state_list(outcome->bits);
    const char *last = outcome->last_kind != 0
                           ? wire_outcome_name((enum wire_outcome_kind)outcome->last_kind)
                           : NULL;
    return json_pack("{s:s?, s:o, s:o, s:o, s:b, s:i, s:o, s:s?, s:o, s:o, s:o, s:I, s:I}", "task",
                     task, "task_id", gw_json_hex(outcome->task_id), "version_id",
                     gw_json_hex(outcome->version_id), "rollout", hex_or_null(outcome->rollout_id),
                     "shadow", (int)outcome->shadow, "stage", (int)outcome->stage, "states", states,
                     "last", last, "figures", figures_object(&outcome->figures), "fingerprint",
                     hex_or_null(outcome->fingerprint), "detail",
                     detail[0] != '\0' ? gw_view_text(detail) : json_null(), "offered_s",
                     (json_int_t)outcome->offered_s, "updated_s", (json_int_t)outcome->updated_s);
}

static const char *text_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

// The policy's words are of stages that are open; those of a completed rollout are not any more.
static const char *why_text(const struct gw_why_rollout *item)
{
    if (item->killed) {
        return "its version was killed";
    }
    bool over = item->state == POL_ROLLOUT_COMPLETED || item->state == POL_ROLLOUT_GUARDING;
    if (over && item->reason == POL_REASON_IN_STAGE) {
        return "inside a stage that the rollout completed";
    }
    if (over && item->reason == POL_REASON_OUTSIDE_BUCKET) {
        return "bucket beyond the stages that the rollout completed";
    }
    if (over && item->reason == POL_REASON_OUTSIDE_AUDIENCE) {
        return "not in the audience of a stage that the rollout completed";
    }
    return pol_reason_text(item->reason);
}

static json_t *why_rollout(const struct gw_why_rollout *item)
{
    const char *last =
        item->last_kind != 0 ? wire_outcome_name((enum wire_outcome_kind)item->last_kind) : NULL;
    json_t *root = json_pack(
        "{s:o, s:o, s:o, s:s, s:b, s:b, s:b, s:i, s:b, s:s, s:i, s:s, s:s, s:s?}", "rollout",
        gw_json_hex(item->id), "manifest", digest_text(&item->manifest), "version_id",
        gw_json_hex(item->version_id), "state", pol_rollout_state_name(item->state), "baseline",
        (int)item->baseline, "killed", (int)item->killed, "targeted", (int)item->targeted, "bucket",
        (int)item->bucket, "admitted", (int)item->admitted, "stage", item->stage_name, "max_bucket",
        (int)item->max_bucket, "reason", pol_reason_name(item->reason), "reason_text",
        why_text(item), "test", item->test[0] != '\0' ? item->test : NULL);
    json_t *rest = json_pack(
        "{s:s?, s:o, s:s?, s:i, s:I, s:I, s:o, s:o}", "version", text_or_null(item->version),
        "states", state_list(item->bits), "last", last, "tries", (int)item->tries, "offered_s",
        (json_int_t)item->offered_s, "privacy_refusals", shown(item->privacy_refusals),
        "fingerprint", hex_or_null(item->fingerprint), "detail", gw_view_text(item->detail));

    if (root != NULL && (rest == NULL || json_object_update_new(root, rest) != 0)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static json_t *fault_or_null(const struct gw_fault *fault)
{
    return fault->what == GW_FAULT_NONE
               ? json_null()
               : json_pack("{s:s, s:i, s:s, s:I}", "what", gw_fault_what_name(fault->what),
                           "status", fault->status, "detail", fault->detail, "time_s",
                           (json_int_t)fault->at_s);
}

json_t *gw_view_why(const struct gw_why_view *view)
{
    json_t *rollouts = json_array();
    json_t *refused = json_array();

    for (uint32_t i = 0; i < view->refused_before_count; ++i) {
        (void)json_array_append_new(refused, gw_json_hex(view->refused_before[i]));
    }

    for (uint32_t i = 0; i < view->rollout_count; ++i) {
        (void)json_array_append_new(rollouts, why_rollout(&view->rollouts[i]));
    }
    return json_pack("{s:o, s:s, s:I, s:o, s:o, s:I, s:o, s:o, s:I, s:s?, s:o, s:o, s:s, s:o}",
                     "device", gw_json_hex(view->device_id), "task", view->task, "last_seen_s",
                     (json_int_t)view->last_seen_s, "last_failure", fault_or_null(&view->fault),
                     "has_version_id", hex_or_null(view->has_version_id), "has_release_counter",
                     (json_int_t)view->has_counter, "refused_version_id",
                     hex_or_null(view->refused_version_id), "refused_before",
                     whole_take(refused, view->refused_before_count), "floor",
                     (json_int_t)view->floor, "should_version", text_or_null(view->should_version),
                     "should_version_id", hex_or_null(view->should_version_id), "should_rollout",
                     hex_or_null(view->should_rollout), "why", view->why, "rollouts",
                     whole_take(rollouts, view->rollout_count));
}
