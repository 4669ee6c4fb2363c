// Lines of a rollout's log as JSON documents: what was decided, and what a replay decides it from
// again. docs/API.md describes every member. Control thread. api_rollouts.c calls it for each line
// of a page. It is apart from api_views.c because a line needs more than people read: `walle
// rollout replay` takes these members and finds each decision again.
#include "api/api_views.h"

#include "api/api_json.h"

static const char *kind_name(enum gw_log_kind kind)
{
    switch (kind) {
    case GW_LOG_CREATED:
        return "created";
    case GW_LOG_COMMAND:
        return "command";
    case GW_LOG_DECISION:
        return "decision";
    case GW_LOG_SIMULATION:
        return "simulation";
    case GW_LOG_OBSERVATION:
        return "observation";
    case GW_LOG_CLOCK:
        return "clock";
    case GW_LOG_QUARANTINE:
        return "quarantine";
    case GW_LOG_SLICES:
        return "slices";
    case GW_LOG_KILL:
        return "kill";
    }
    return "unknown";
}

static const char *what_of(const struct gw_rollout_log_view *view)
{
    switch (view->kind) {
    case GW_LOG_COMMAND:
        return pol_command_name(view->record.command);
    case GW_LOG_DECISION:
    case GW_LOG_OBSERVATION:
        return pol_action_name(view->record.action);
    case GW_LOG_CREATED:
        return "create";
    case GW_LOG_SIMULATION:
        return "simulation";
    case GW_LOG_CLOCK:
        return "clock";
    case GW_LOG_QUARANTINE:
        return view->record.kind == POL_RECORD_LIFT ? "lift" : "quarantine";
    case GW_LOG_SLICES:
        return "look";
    case GW_LOG_KILL:
        return view->record.action == POL_ACTION_KILL ? "kill" : "unkill";
    }
    return "unknown";
}

// With the rule logrank: everything a replay needs of the trial. NULL: no memory.
static json_t *trial_object(const struct pol_trial *trial)
{
    json_t *wealth = json_array();

    for (uint32_t i = 0; i < POL_LOGRANK_RATIOS; ++i) {
        (void)json_array_append_new(wealth, json_integer(trial->rise.wealth[i]));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "wealth", wealth, "updated",
                     gw_view_outcomes(&trial->all[POL_COHORT_UPDATED]), "control",
                     gw_view_outcomes(&trial->all[POL_COHORT_CONTROL]), "updated_over",
                     gw_view_outcomes(&trial->over[POL_COHORT_UPDATED]), "control_over",
                     gw_view_outcomes(&trial->over[POL_COHORT_CONTROL]), "beside",
                     gw_view_outcomes(&trial->beside), "compared", (json_int_t)trial->compared,
                     "lead_offered", (json_int_t)trial->lead.trials, "lead_failed",
                     (json_int_t)trial->lead.failures);
}

static bool has_trial(const struct pol_trial *trial)
{
    return trial->all[POL_COHORT_UPDATED].offered > 0 || trial->all[POL_COHORT_CONTROL].offered > 0;
}

// The counts as they were judged.
static json_t *judged_object(const struct gw_rollout_log_view *view)
{
    const struct pol_counts *counts = &view->record.counts;

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, "
        "s:I}",
        "offered", (json_int_t)counts->offered, "downloaded", (json_int_t)counts->downloaded,
        "activated", (json_int_t)counts->activated, "succeeded", (json_int_t)counts->succeeded,
        "failed", (json_int_t)counts->failed, "timed_out", (json_int_t)counts->timed_out, "silent",
        (json_int_t)counts->silent, "not_applicable", (json_int_t)counts->not_applicable,
        "to_roll_back", (json_int_t)counts->to_roll_back, "rolled_back",
        (json_int_t)view->rolled_back, "control_completed", (json_int_t)counts->control.trials,
        "control_failed", (json_int_t)counts->control.failures, "observed_s",
        (json_int_t)counts->hazard.device_seconds, "hazard_silent",
        (json_int_t)counts->hazard.silent, "control_observed_s",
        (json_int_t)counts->control_hazard.device_seconds, "control_silent",
        (json_int_t)counts->control_hazard.silent, "unproven", (json_int_t)counts->unproven,
        "under_way", (json_int_t)counts->under_way, "outstanding", (json_int_t)counts->outstanding);
}

// ---- Segments

static json_t *name_of(const struct gw_view_names *names, uint64_t segment)
{
    for (uint32_t i = 0; i < names->count; ++i) {
        if (names->items[i].segment == segment) {
            return gw_view_text(names->items[i].text);
        }
    }
    return json_null();
}

static json_t *held_list(const struct gw_view_names *names, const struct pol_held *held)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < held->count; ++i) {
        (void)json_array_append_new(list,
                                    json_pack("{s:o, s:o}", "segment", gw_json_hex(held->names[i]),
                                              "name", name_of(names, held->names[i])));
    }
    return list;
}

static json_t *slices_object(const struct gw_view_names *names, const struct pol_slices *slices)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < slices->failing_count; ++i) {
        const struct pol_slice *slice = &slices->failing[i];
        (void)json_array_append_new(
            list,
            json_pack("{s:o, s:o, s:I, s:I, s:f}", "segment", gw_json_hex(slice->name), "name",
                      name_of(names, slice->name), "completed", (json_int_t)slice->seen.trials,
                      "failed", (json_int_t)slice->seen.failures, "rise", slice->rise));
    }
    if (json_array_size(list) != slices->failing_count) { // a list that lost an item is none
        json_decref(list);
        return NULL;
    }
    return json_pack("{s:I, s:I, s:I, s:o}", "held", (json_int_t)slices->held_count, "count",
                     (json_int_t)slices->count, "completed", (json_int_t)slices->completed,
                     "failing", list);
}

static bool add_slices(json_t *root, const struct pol_record *record,
                       const struct gw_view_names *names)
{
    if (record->kind == POL_RECORD_LIFT) {
        return json_object_set_new(root, "lifted", held_list(names, &record->held)) == 0;
    }
    if (record->kind != POL_RECORD_SLICES) {
        return true;
    }
    return json_object_set_new(root, "slices", slices_object(names, &record->slices)) == 0 &&
           json_object_set_new(root, "held", held_list(names, &record->held)) == 0;
}

json_t *gw_view_log(const struct gw_rollout_log_view *view, const struct gw_view_names *names)
{
    const struct pol_record *record = &view->record;
    const struct pol_rollout *after = &record->after;
    json_t *root = json_pack(
        "{s:I, s:o, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:f, s:o, s:o, s:o}", "seq",
        (json_int_t)view->seq, "time", gw_view_time(view->wall_us), "kind", kind_name(view->kind),
        "what", what_of(view), "state", pol_rollout_state_name(after->state), "stage_index",
        (int)after->stage_index, "verdict", pol_verdict_name(record->verdict), "reason",
        pol_reason_name(record->reason), "reason_text", pol_reason_text(record->reason),
        "failure_ratio", view->failure_ppm / 1e6, "counts", judged_object(view), "by",
        gw_view_text(view->by), "comment", gw_view_text(view->comment));
    // What a replay needs beside: the exact clock and the rest of the state.
    json_t *rest = json_pack("{s:s, s:I, s:I, s:I, s:b, s:b, s:b, s:b, s:b, s:b}", "action",
                             pol_action_name(record->action), "now_us", (json_int_t)record->now_us,
                             "revision", (json_int_t)view->revision, "stage_since_us",
                             (json_int_t)after->stage_since_us, "before_first",
                             (int)after->before_first, "stage_failed", (int)after->stage_failed,
                             "paged", (int)after->paged, "killed", (int)after->killed, "guarding",
                             (int)after->guarding, "passed", (int)after->passed);

    if (root != NULL && has_trial(&record->counts.trial) &&
        json_object_set_new(json_object_get(root, "counts"), "trial",
                            trial_object(&record->counts.trial)) != 0) {
        json_decref(root);
        root = NULL;
    }
    if (root != NULL && (rest == NULL || json_object_update_new(root, rest) != 0 ||
                         !add_slices(root, record, names))) {
        json_decref(root);
        return NULL;
    }
    return root;
}
