// Reading stages for commands that calculate or show: plan_show.c, rollout_power.c,
// rollout_replay.c. One thread. It is no check: a stage came from ladder.c or from the gateway,
// which looked at every field. What is missing takes the gateway's default, what calculations do
// not need stays zero.
#include "cli/stages/stage_json.h"

#include "cli/base/cli_json.h"
#include "cli/stages/ladder.h"

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

static uint32_t share(const json_t *json, const char *key, uint32_t fallback_ppm)
{
    const json_t *value = json_object_get(json, key);

    return json_is_number(value) ? (uint32_t)lround(json_number_value(value) * 1e6) : fallback_ppm;
}

static const char *on_fail_name(unsigned i)
{
    return pol_on_fail_name((enum pol_on_fail)i);
}

static const char *on_pass_name(unsigned i)
{
    return pol_on_pass_name((enum pol_on_pass)i);
}

static const char *rule_name(unsigned i)
{
    return pol_gate_rule_name((enum pol_gate_rule)i);
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
    gate->rule = (enum pol_gate_rule)stage_json_name(
        cli_json_text(json, "rule", ""), POL_GATE_RULE_COUNT, rule_name, POL_GATE_THRESHOLD);
    gate->min_sample = (uint32_t)cli_json_u64(json, "min_sample");
    gate->min_dwell_us =
        (uint64_t)llround(json_number_value(json_object_get(json, "min_dwell_s")) * 1e6);
    gate->max_failure_ppm = share(json, "max_failure", POL_TEST_NOT_ASKED);
    gate->max_rise_ppm = share(json, "max_rise", POL_TEST_NOT_ASKED);
    gate->tolerated_rise_ppm = share(json, "tolerated_rise", 0);
    gate->alpha_ppm = share(json, "alpha", POL_GATE_ALPHA_PPM);
    gate->beta_ppm = share(json, "beta", POL_GATE_BETA_PPM);
    gate->max_silence_percent =
        (uint32_t)lround(json_number_value(json_object_get(json, "max_silence")) * 100);
    gate->no_data_us = cli_json_u64(json, "no_data_s") * 1000000u;
    gate->min_answered_ppm = share(json, "min_answered", POL_GATE_MIN_ANSWERED_PPM);
    gate->of_offered = json_is_true(json_object_get(json, "of_offered"));
    out->window_s = (uint32_t)cli_json_u64(json, "window_s");
    out->guard_s = (uint32_t)cli_json_u64(json, "guard_s");
    out->on_fail = (enum pol_on_fail)stage_json_name(
        cli_json_text(json, "on_fail", ""), POL_ON_FAIL_COUNT, on_fail_name, POL_ON_FAIL_ROLL_BACK);
    out->on_pass = (enum pol_on_pass)stage_json_name(
        cli_json_text(json, "on_pass", ""), POL_ON_PASS_COUNT, on_pass_name, POL_ON_PASS_ADVANCE);
    out->pace.per_minute = (uint32_t)cli_json_u64(json_object_get(json, "rate"), "per_minute");
    out->control_buckets = json_is_number(control)
                               ? (uint16_t)lround(json_number_value(control) * 100)
                               : (uint16_t)(out->kind == POL_STAGE_GRAY ? out->max_bucket : 0);
}
