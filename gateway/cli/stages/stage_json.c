// Reading stages for commands that calculate or show: plan_show.c, rollout_power.c,
// rollout_replay.c. One thread. It is no check: a stage came from ladder.c or from the gateway,
// which looked at every field. What is missing takes the gateway's default, what calculations do
// not need stays zero.
#include "cli/stages/stage_json.h"

#include "cli/base/cli_json.h"
#include "cli/stages/ladder.h"

#include "policy/fields/stage_fields.h"

#include <math.h>
#include <string.h>

unsigned stage_json_name(const char *text, unsigned count, const char *(*name)(unsigned index),
                         unsigned fallback)
{
    for (unsigned i = 0; i < count; ++i) {
        if (strcmp(text, name(i)) == 0) {
            return i;
        }
    }
    return fallback;
}

// What is kept of a number or a word of the stage, or of what stands in for it.
static uint32_t kept(const json_t *json, enum pol_stage_field row)
{
    const struct pol_field *field = &pol_stage_fields[row];
    const json_t *value = json_object_get(json, field->name);
    unsigned place = 0;

    if (json_is_number(value)) {
        return (uint32_t)pol_field_kept(field, json_number_value(value));
    }
    return (uint32_t)(json_is_string(value) &&
                              pol_words_find(field->words, json_string_value(value),
                                             json_string_length(value), &place)
                          ? place
                          : pol_field_kept(field, field->fallback));
}

void stage_json_read(const json_t *json, struct pol_stage *out)
{
    const json_t *control = json_object_get(json, "control");
    struct pol_gate *gate = &out->gate;

    memset(out, 0, sizeof(*out));
    out->kind = ladder_kind(json);
    out->max_bucket = ladder_max_bucket(json);
    out->shadow_slow_percent = ladder_times(json, "max_slowdown");
    out->shadow_memory_percent = ladder_times(json, "max_memory");
    out->approval = json_is_true(json_object_get(json, "approval"));
    gate->rule = (enum pol_gate_rule)kept(json, POL_STAGE_FIELD_RULE);
    gate->min_sample = (uint32_t)cli_json_u64(json, "min_sample");
    gate->min_dwell_us =
        (uint64_t)llround(json_number_value(json_object_get(json, "min_dwell_s")) * 1e6);
    gate->max_failure_ppm = json_is_number(json_object_get(json, "max_failure"))
                                ? kept(json, POL_STAGE_FIELD_MAX_FAILURE)
                                : POL_TEST_NOT_ASKED; // a plan may be asked without
    gate->max_rise_ppm = kept(json, POL_STAGE_FIELD_MAX_RISE);
    gate->tolerated_rise_ppm = kept(json, POL_STAGE_FIELD_TOLERATED_RISE);
    gate->alpha_ppm = kept(json, POL_STAGE_FIELD_ALPHA);
    gate->beta_ppm = kept(json, POL_STAGE_FIELD_BETA);
    gate->max_silence_percent =
        (uint32_t)lround(json_number_value(json_object_get(json, "max_silence")) * 100);
    gate->no_data_us = cli_json_u64(json, "no_data_s") * 1000000u;
    gate->min_answered_ppm = kept(json, POL_STAGE_FIELD_MIN_ANSWERED);
    gate->of_offered = json_is_true(json_object_get(json, "of_offered"));
    out->window_s = (uint32_t)cli_json_u64(json, "window_s");
    out->guard_s = (uint32_t)cli_json_u64(json, "guard_s");
    out->on_fail = (enum pol_on_fail)kept(json, POL_STAGE_FIELD_ON_FAIL);
    out->on_pass = (enum pol_on_pass)kept(json, POL_STAGE_FIELD_ON_PASS);
    out->cloud = (struct pol_fallback_limits){
        .min_kept_ppm = 1000000u - kept(json, POL_STAGE_FIELD_MAX_SENT),
        .min_agreed_ppm = kept(json, POL_STAGE_FIELD_MIN_AGREED),
        .late_ms = kept(json, POL_STAGE_FIELD_MAX_CLOUD_MS),
    };
    out->pace.per_minute = (uint32_t)cli_json_u64(json_object_get(json, "rate"), "per_minute");
    out->control_buckets = json_is_number(control)
                               ? (uint16_t)lround(json_number_value(control) * 100)
                               : (uint16_t)(out->kind == POL_STAGE_GRAY ? out->max_bucket : 0);
}
