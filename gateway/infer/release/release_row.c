// See release_row.h. Rows are JSON, so that a later version of the program reads what an earlier
// one wrote; they lie sealed in the store. What counts of an open stage is not kept: after a
// restart it is measured anew. Called by release_book.c with its lock held, and at the start.
#include "infer/release/release_row.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Writing

json_t *gw_release_versions_view(const struct gw_release_model *model)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < model->version_count; i++) {
        const struct gw_release_version *version = &model->versions[i];
        char hex[WIRE_SHA256_HEX + 1];
        wire_sha256_hex(&version->digest, hex);
        (void)json_array_append_new(
            list, json_pack("{s:I, s:s, s:I, s:I, s:s}", "version", (json_int_t)version->number,
                            "sha256", hex, "bytes", (json_int_t)version->bytes, "time_s",
                            (json_int_t)version->added_s, "by", version->by));
    }
    return list;
}

static json_t *events_json(const struct gw_release_model *model)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < model->event_count; i++) {
        const struct gw_release_event *event = &model->events[i];
        (void)json_array_append_new(list, json_pack("{s:I, s:I, s:s, s:s, s:s}", "time_s",
                                                    (json_int_t)event->time_s, "stage",
                                                    (json_int_t)event->stage, "what", event->what,
                                                    "why", event->why, "by", event->by));
    }
    return list;
}

static json_t *release_json(const struct gw_release_model *model)
{
    const struct pol_rollout *rollout = &model->rollout;
    char salt[17];
    (void)snprintf(salt, sizeof(salt), "%016llx", (unsigned long long)model->salt);
    json_t *out =
        json_pack("{s:I, s:I, s:s, s:i, s:i, s:b, s:b, s:b, s:b, s:o}", "candidate",
                  (json_int_t)model->candidate, "from", (json_int_t)model->from, "salt", salt,
                  "state", (int)rollout->state, "stage", (int)rollout->stage_index, "before_first",
                  rollout->before_first, "stage_failed", rollout->stage_failed, "paged",
                  rollout->paged, "passed", rollout->passed, "events", events_json(model));
    if (out != NULL && !gw_release_plan_write(&model->plan, out)) {
        json_decref(out);
        out = NULL;
    }
    return out;
}

char *gw_release_row(const struct gw_release_model *model)
{
    json_t *row = json_pack("{s:i, s:s, s:o, s:I, s:I}", "row", 1, "model", model->name, "versions",
                            gw_release_versions_view(model), "serving", (json_int_t)model->serving,
                            "highest", (json_int_t)model->highest);
    if (row != NULL && model->candidate != 0) {
        (void)json_object_set_new(row, "release", release_json(model));
    }
    char *text = row != NULL ? json_dumps(row, JSON_COMPACT) : NULL;
    json_decref(row);
    return text;
}

// ---- Reading

static uint64_t number_of(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

static void text_of(const json_t *object, const char *name, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(object, name));
    (void)snprintf(out, size, "%s", text != NULL ? text : "");
}

static bool read_versions(const json_t *list, struct gw_release_model *out)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > GW_INFER_VERSIONS_MAX) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        struct gw_release_version *version = &out->versions[i];
        const char *hex = json_string_value(json_object_get(item, "sha256"));
        version->number = number_of(item, "version");
        version->bytes = number_of(item, "bytes");
        version->added_s = number_of(item, "time_s");
        text_of(item, "by", version->by, sizeof(version->by));
        if (hex == NULL || version->number == 0 ||
            base_hex_decode(base_str_of(hex), version->digest.bytes,
                            sizeof(version->digest.bytes)) != BASE_OK) {
            return false;
        }
    }
    out->version_count = (uint32_t)count;
    return true;
}

static bool read_events(const json_t *list, struct gw_release_model *out)
{
    size_t count = json_array_size(list);
    if (count > GW_RELEASE_EVENTS_MAX) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        struct gw_release_event *event = &out->events[i];
        event->time_s = number_of(item, "time_s");
        event->stage = (uint32_t)number_of(item, "stage");
        text_of(item, "what", event->what, sizeof(event->what));
        text_of(item, "why", event->why, sizeof(event->why));
        text_of(item, "by", event->by, sizeof(event->by));
    }
    out->event_count = (uint32_t)count;
    return true;
}

static bool read_salt(const char *hex, uint64_t *out)
{
    uint8_t bytes[sizeof(*out)];
    if (hex == NULL || base_hex_decode(base_str_of(hex), bytes, sizeof(bytes)) != BASE_OK) {
        return false;
    }
    *out = 0;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        *out = *out << 8 | bytes[i];
    }
    return true;
}

static bool read_release(const json_t *release, uint64_t now_us, struct gw_release_model *out)
{
    struct base_error why = {0};
    struct pol_rollout *rollout = &out->rollout;
    const char *salt = json_string_value(json_object_get(release, "salt"));
    uint64_t state = number_of(release, "state");
    uint64_t stage = number_of(release, "stage");
    out->candidate = number_of(release, "candidate");
    out->from = number_of(release, "from");
    if (out->candidate == 0 || !read_salt(salt, &out->salt) || state >= POL_ROLLOUT_STATE_COUNT ||
        gw_release_plan_read(release, &out->plan, &why) != BASE_OK || stage >= out->plan.count) {
        return false;
    }
    *rollout =
        (struct pol_rollout){.state = (enum pol_rollout_state)state,
                             .stage_index = (uint16_t)stage,
                             .before_first = json_is_true(json_object_get(release, "before_first")),
                             .stage_failed = json_is_true(json_object_get(release, "stage_failed")),
                             .paged = json_is_true(json_object_get(release, "paged")),
                             .passed = json_is_true(json_object_get(release, "passed")),
                             .stage_since_us = now_us};
    gw_release_plan_stages(&out->plan, out->stages);
    return read_events(json_object_get(release, "events"), out);
}

enum base_status gw_release_row_read(struct base_str row, uint64_t now_us,
                                     struct gw_release_model *out)
{
    json_t *root = json_loadb(row.data, row.size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *release = json_object_get(root, "release");
    memset(out, 0, sizeof(*out));
    text_of(root, "model", out->name, sizeof(out->name));
    out->serving = number_of(root, "serving");
    out->highest = number_of(root, "highest");
    bool good = number_of(root, "row") == 1 && gw_infer_name_ok(base_str_of(out->name)) &&
                read_versions(json_object_get(root, "versions"), out) &&
                (release == NULL || read_release(release, now_us, out));
    json_decref(root);
    return good ? BASE_OK : BASE_ERR_CORRUPT;
}

// ---- For people

const char *gw_release_reason_text(enum pol_reason reason)
{
    switch (reason) {
    case POL_REASON_ROLLOUT_PAUSED:
        return "the release is paused: the serving version answers every call";
    case POL_REASON_NO_COMPLETIONS:
        return "no call was counted yet";
    case POL_REASON_SAMPLE_TOO_SMALL:
        return "too few calls for a verdict";
    case POL_REASON_NO_DATA_TOO_LONG:
        return "no call for too long: somebody must look";
    case POL_REASON_ROLLBACK_COMPLETE:
        return "the serving version answers every call again";
    default:
        return pol_reason_text(reason);
    }
}

static json_t *answer_json(const struct gw_release_answer *answer)
{
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "verdict",
        pol_verdict_name(answer->verdict), "reason", pol_reason_name(answer->reason), "text",
        gw_release_reason_text(answer->reason), "calls", (json_int_t)answer->calls, "bad",
        (json_int_t)answer->bad, "serving_calls", (json_int_t)answer->base_calls, "serving_bad",
        (json_int_t)answer->base_bad, "limit_us", (json_int_t)answer->limit_us, "callers",
        (json_int_t)answer->most.callers, "serving_callers", (json_int_t)answer->base_most.callers);
}

static json_t *seen_json(const struct gw_infer_seen *seen)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "calls", (json_int_t)seen->calls, "failed",
                     (json_int_t)seen->failed, "p50_us",
                     (json_int_t)base_hist_quantile(&seen->us, 0.5), "p99_us",
                     (json_int_t)base_hist_quantile(&seen->us, 0.99));
}

static json_t *shadow_json(const struct gw_infer_trial *trial)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "agreed", (json_int_t)trial->agreed, "differed",
                     (json_int_t)trial->differed, "failed", (json_int_t)trial->shadows_failed,
                     "dropped", (json_int_t)trial->dropped, "p99_us",
                     (json_int_t)base_hist_quantile(&trial->shadow_us, 0.99));
}

json_t *gw_release_view(const struct gw_release_model *model)
{
    json_t *questions = json_object();
    if (model->candidate == 0) {
        json_decref(questions);
        return json_null();
    }
    for (uint32_t i = 0; i < GW_RELEASE_QUESTION_COUNT; i++) {
        if (model->look.answers[i].asked) {
            (void)json_object_set_new(questions,
                                      gw_release_question_name((enum gw_release_question)i),
                                      answer_json(&model->look.answers[i]));
        }
    }
    json_t *out =
        json_pack("{s:I, s:I, s:s, s:i, s:i, s:b, s:{s:o, s:o, s:I}, s:o, s:o, s:o}", "candidate",
                  (json_int_t)model->candidate, "from", (json_int_t)model->from, "state",
                  pol_rollout_state_name(model->rollout.state), "stage",
                  (int)model->rollout.stage_index + 1, "stage_count", (int)model->plan.count,
                  "stage_failed", model->rollout.stage_failed, "seen", "serving",
                  seen_json(&model->trial.serving), "candidate", seen_json(&model->trial.candidate),
                  "uncounted", (json_int_t)model->trial.uncounted, "shadows",
                  shadow_json(&model->trial), "questions", questions, "events", events_json(model));
    if (out != NULL && !gw_release_plan_write(&model->plan, out)) {
        json_decref(out);
        out = NULL;
    }
    return out;
}
