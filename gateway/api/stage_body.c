// Conduct of a stage between JSON and the policy's form. Parsing on a worker's thread, views on the
// control thread. rollout_body.c parses with it, api_views.c shows with it, and both directions
// stand in one file so that what is shown can be sent again. Each field's range is checked where it
// is taken, and the error names its path.
#include "api/stage_body.h"

#include "api/rollout_body.h"
#include "api/tolerance_body.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ONE             1e6 // parts per million
#define SILENCE_MAX     100.0
#define RATE_MAX        100000000u
#define STEP_MAX        1000000000u
#define WINDOW_TEXT_MAX 8

static const char *const days[7] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};

static enum base_status parse_share(const struct gw_json_at *at, struct pol_field field,
                                    uint32_t fallback_ppm, uint32_t *out_ppm,
                                    struct base_error *error)
{
    double share = fallback_ppm / ONE;

    BASE_TRY(gw_json_real(at, field, &share, error));
    *out_ppm = (uint32_t)lround(share * ONE);
    return BASE_OK;
}

static enum base_status parse_seconds(const struct gw_json_at *at, struct pol_field field,
                                      uint32_t fallback, uint32_t *out, struct base_error *error)
{
    uint64_t seconds = fallback;

    BASE_TRY(gw_json_u64(at, field, &seconds, error));
    *out = (uint32_t)seconds;
    return BASE_OK;
}

static enum base_status parse_rule(const struct gw_json_at *at, enum pol_gate_rule *out,
                                   struct base_error *error)
{
    struct base_str text = BASE_STR("threshold");

    BASE_TRY(gw_json_text(at, gw_json_optional("rule", 16), &text, error));
    for (unsigned i = 0; i < POL_GATE_RULE_COUNT; ++i) {
        if (base_str_equal(text, base_str_of(pol_gate_rule_name((enum pol_gate_rule)i)))) {
            *out = (enum pol_gate_rule)i;
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_ERR_INVALID,
                          "%srule: '%.*s' is neither threshold, sequential nor logrank", at->path,
                          (int)text.size, text.data);
}

static enum base_status parse_gate(const struct gw_json_at *at, enum pol_stage_kind kind,
                                   struct pol_gate *out, struct base_error *error)
{
    uint64_t min_sample = 1;
    double dwell_s = 0;
    double silence = 0;
    uint32_t no_data_s = 0;

    BASE_TRY(parse_rule(at, &out->rule, error));
    BASE_TRY(gw_json_u64(at, gw_json_optional("min_sample", UINT32_MAX), &min_sample, error));
    BASE_TRY(
        gw_json_real(at, gw_json_optional("min_dwell_s", GW_API_DWELL_S_MAX), &dwell_s, error));
    BASE_TRY(parse_share(at, gw_json_required("max_failure", 1), 0, &out->max_failure_ppm, error));
    BASE_TRY(parse_share(at, gw_json_optional("max_rise", 1), POL_TEST_NOT_ASKED,
                         &out->max_rise_ppm, error));
    BASE_TRY(
        parse_share(at, gw_json_optional("tolerated_rise", 1), 0, &out->tolerated_rise_ppm, error));
    BASE_TRY(
        parse_share(at, gw_json_optional("alpha", 1), POL_GATE_ALPHA_PPM, &out->alpha_ppm, error));
    BASE_TRY(
        parse_share(at, gw_json_optional("beta", 1), POL_GATE_BETA_PPM, &out->beta_ppm, error));
    BASE_TRY(parse_share(at, gw_json_optional("min_answered", 1), POL_GATE_MIN_ANSWERED_PPM,
                         &out->min_answered_ppm, error));
    BASE_TRY(gw_json_real(at, gw_json_optional("max_silence", SILENCE_MAX), &silence, error));
    BASE_TRY(parse_seconds(at, gw_json_optional("no_data_s", GW_API_DWELL_S_MAX), GW_API_NO_DATA_S,
                           &no_data_s, error));
    if (kind != POL_STAGE_GRAY && kind != POL_STAGE_BETA) {
        out->max_rise_ppm = POL_TEST_NOT_ASKED; // nobody is left to compare with
    }
    out->min_sample = (uint32_t)min_sample;
    out->min_dwell_us = (uint64_t)llround(dwell_s * 1e6);
    out->max_silence_percent = (uint32_t)lround(silence * 100);
    out->no_data_us = (uint64_t)no_data_s * 1000000u;
    if (!pol_gate_check(out)) {
        return base_error_set(error, BASE_ERR_INVALID, "%salpha, beta: above 0 and below one half",
                              at->path);
    }
    return BASE_OK;
}

static enum base_status parse_rate(const struct gw_json_at *at, struct pol_pace *out,
                                   struct base_error *error)
{
    static const char *const names[] = {"per_minute", "factor",         "step",
                                        "of",         "max_per_minute", NULL};
    const json_t *value = json_object_get(at->object, "rate");
    struct base_str of = BASE_STR("offered");
    struct gw_json_at rate;
    uint64_t per_minute = 0;
    uint64_t most = 0;
    double factor = 1;

    BASE_TRY(
        gw_json_u64(at, gw_json_optional("in_flight", UINT32_MAX), &out->in_flight_max, error));
    if (value == NULL || json_is_null(value)) {
        return BASE_OK;
    }
    if (!json_is_object(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "%srate: not an object", at->path);
    }
    rate.object = value;
    (void)snprintf(rate.path, sizeof(rate.path), "%.80srate.", at->path);
    BASE_TRY(gw_json_only(&rate, names, error));
    BASE_TRY(gw_json_u64(&rate, gw_json_required("per_minute", RATE_MAX), &per_minute, error));
    BASE_TRY(
        gw_json_real(&rate, (struct pol_field){"factor", .min = 1, .max = 10}, &factor, error));
    BASE_TRY(gw_json_u64(&rate, gw_json_optional("step", STEP_MAX), &out->step, error));
    BASE_TRY(gw_json_text(&rate, gw_json_optional("of", 16), &of, error));
    BASE_TRY(gw_json_u64(&rate, gw_json_optional("max_per_minute", RATE_MAX), &most, error));
    out->by_success = base_str_equal(of, BASE_STR("succeeded"));
    if (!out->by_success && !base_str_equal(of, BASE_STR("offered"))) {
        return base_error_set(error, BASE_ERR_INVALID, "%sof: neither offered nor succeeded",
                              rate.path);
    }
    out->per_minute = (uint32_t)per_minute;
    out->max_per_minute = (uint32_t)most;
    out->factor_percent = (uint32_t)lround(factor * 100);
    if (!pol_pace_check(out)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%sfactor: a ramp needs a step and a per_minute above 0", rate.path);
    }
    return BASE_OK;
}

// ---- Windows

static enum base_status parse_days(const struct gw_json_at *at, uint8_t *out,
                                   struct base_error *error)
{
    const json_t *list = NULL;
    unsigned mask = 0;

    BASE_TRY(gw_json_array(at, gw_json_optional("days", 7), &list, error));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const char *text = json_string_value(json_array_get(list, i));
        unsigned before = mask;
        for (unsigned k = 0; k < 7; ++k) {
            mask |= text != NULL && strcmp(text, days[k]) == 0 ? 1u << k : 0;
        }
        if (mask == before) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "%sdays[%zu]: mon tue wed thu fri sat sun, each once", at->path,
                                  i);
        }
    }
    *out = mask != 0 ? (uint8_t)mask : 127;
    return BASE_OK;
}

static enum base_status parse_window(const struct gw_json_at *at, struct pol_window *out,
                                     struct base_error *error)
{
    static const char *const names[] = {"days", "start", "minutes", "clock", NULL};
    struct base_str start = {NULL, 0};
    struct base_str clock = BASE_STR("utc");
    uint64_t minutes = 0;

    BASE_TRY(gw_json_only(at, names, error));
    BASE_TRY(parse_days(at, &out->weekdays, error));
    BASE_TRY(gw_json_text(at, gw_json_required("start", WINDOW_TEXT_MAX), &start, error));
    BASE_TRY(gw_json_u64(at, gw_json_required("minutes", POL_WINDOW_MINUTES_MAX), &minutes, error));
    BASE_TRY(gw_json_text(at, gw_json_optional("clock", WINDOW_TEXT_MAX), &clock, error));
    const char *t = start.data;
    bool digits = start.size == 5 && t[2] == ':' && t[0] >= '0' && t[0] <= '2' && t[1] >= '0' &&
                  t[1] <= '9' && t[3] >= '0' && t[3] <= '5' && t[4] >= '0' && t[4] <= '9';
    out->start_min =
        digits ? (uint16_t)((t[0] - '0') * 600 + (t[1] - '0') * 60 + (t[3] - '0') * 10 + t[4] - '0')
               : UINT16_MAX;
    out->minutes = (uint16_t)minutes;
    out->device_time = base_str_equal(clock, BASE_STR("device"));
    if (!out->device_time && !base_str_equal(clock, BASE_STR("utc"))) {
        return base_error_set(error, BASE_ERR_INVALID, "%sclock: neither utc nor device", at->path);
    }
    if (!pol_window_check(out)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%sstart: hours and minutes as \"22:00\"; minutes: 1 to %u", at->path,
                              POL_WINDOW_MINUTES_MAX);
    }
    return BASE_OK;
}

static enum base_status parse_windows(const struct gw_json_at *at, struct pol_stage *out,
                                      struct base_error *error)
{
    const json_t *list = NULL;

    BASE_TRY(gw_json_array(at, gw_json_optional("windows", POL_WINDOWS_MAX), &list, error));
    out->window_count = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < out->window_count; ++i) {
        struct gw_json_at item;
        BASE_TRY(gw_json_enter(at, "windows", i, &item, error));
        BASE_TRY(parse_window(&item, &out->windows[i], error));
    }
    return BASE_OK;
}

static enum base_status parse_retries(const struct gw_json_at *at, struct pol_stage *out,
                                      struct base_error *error)
{
    const json_t *value = json_object_get(at->object, "retries");
    const char *names[POL_FAILURE_COUNT + 1] = {NULL};
    struct gw_json_at retries;

    if (value == NULL || json_is_null(value)) {
        return BASE_OK;
    }
    if (!json_is_object(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "%sretries: not an object", at->path);
    }
    retries.object = value;
    (void)snprintf(retries.path, sizeof(retries.path), "%.80sretries.", at->path);
    for (unsigned i = 0; i < POL_FAILURE_COUNT; ++i) {
        names[i] = pol_failure_name((enum pol_failure)i);
    }
    BASE_TRY(gw_json_only(&retries, names, error));
    for (unsigned i = 0; i < POL_FAILURE_COUNT; ++i) {
        uint64_t count = 0;
        BASE_TRY(gw_json_u64(&retries, gw_json_optional(names[i], POL_RETRIES_MAX), &count, error));
        out->retries[i] = (uint8_t)count;
        if (count > 0 && out->gate.rule == POL_GATE_LOGRANK) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "%s%s: the rule logrank counts a device's first failure",
                                  at->path, names[i]);
        }
    }
    return BASE_OK;
}

// A gray stage that is compared with control is by default given one as large as itself.
static enum base_status parse_control(const struct gw_json_at *at, struct pol_stage *out,
                                      struct base_error *error)
{
    bool trial = out->gate.rule == POL_GATE_LOGRANK;
    bool compared = trial || out->gate.rule == POL_GATE_SEQUENTIAL;
    bool beside = out->kind == POL_STAGE_GRAY || // of a trial both are of the same audience
                  (out->kind == POL_STAGE_BETA && trial && out->max_bucket < POL_BUCKET_COUNT);
    double percent = !compared                               ? 0
                     : beside                                ? out->max_bucket / 100.0
                     : out->kind == POL_STAGE_BETA && !trial ? GW_API_BETA_CONTROL_PERCENT
                                                             : 0;

    BASE_TRY(gw_json_real(at, gw_json_optional("control", 100), &percent, error));
    out->control_buckets = (uint16_t)lround(percent * 100);
    return BASE_OK;
}

// A bound on a shadow's cost, as a multiple of the active version's. 0, or left out: none.
static enum base_status parse_shadow(const struct gw_json_at *at, const char *key,
                                     enum pol_stage_kind kind, uint16_t *out,
                                     struct base_error *error)
{
    double times = 0;

    BASE_TRY(
        gw_json_real(at, gw_json_optional(key, POL_SHADOW_PERCENT_MAX / 100.0), &times, error));
    *out = (uint16_t)lround(times * 100);
    if (*out != 0 && kind != POL_STAGE_SHADOW) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: for a shadow stage only", at->path,
                              key);
    }
    if (*out != 0 && *out < POL_SHADOW_PERCENT_MIN) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: at least 1 (0: not judged)", at->path,
                              key);
    }
    return BASE_OK;
}

static enum base_status parse_on_fail(const struct gw_json_at *at, enum pol_on_fail *out,
                                      struct base_error *error)
{
    struct base_str text = BASE_STR("roll_back");

    BASE_TRY(gw_json_text(at, gw_json_optional("on_fail", 16), &text, error));
    for (unsigned i = 0; i < POL_ON_FAIL_COUNT; ++i) {
        if (base_str_equal(text, base_str_of(pol_on_fail_name((enum pol_on_fail)i)))) {
            *out = (enum pol_on_fail)i;
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_ERR_INVALID,
                          "%son_fail: '%.*s' is neither roll_back nor hold", at->path,
                          (int)text.size, text.data);
}

static enum base_status parse_on_pass(const struct gw_json_at *at, enum pol_on_pass *out,
                                      struct base_error *error)
{
    struct base_str text = BASE_STR("advance");

    BASE_TRY(gw_json_text(at, gw_json_optional("on_pass", 16), &text, error));
    for (unsigned i = 0; i < POL_ON_PASS_COUNT; ++i) {
        if (base_str_equal(text, base_str_of(pol_on_pass_name((enum pol_on_pass)i)))) {
            *out = (enum pol_on_pass)i;
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_ERR_INVALID, "%son_pass: '%.*s' is neither advance nor pause",
                          at->path, (int)text.size, text.data);
}

// What verdicts do, and how long devices are judged.
static enum base_status parse_verdicts(const struct gw_json_at *at, struct pol_stage *out,
                                       struct base_error *error)
{
    BASE_TRY(parse_seconds(at, gw_json_optional("window_s", POL_STAGE_WINDOW_S_MAX), 0,
                           &out->window_s, error));
    BASE_TRY(parse_seconds(at, gw_json_optional("guard_s", POL_STAGE_GUARD_S_MAX),
                           GW_STAGE_DEFAULT_S, &out->guard_s, error));
    BASE_TRY(parse_on_fail(at, &out->on_fail, error));
    return parse_on_pass(at, &out->on_pass, error);
}

enum base_status gw_stage_body_parse(const struct gw_json_at *at, struct pol_stage *stage,
                                     struct base_error *error)
{
    const double long_s = GW_API_DWELL_S_MAX;

    BASE_TRY(parse_gate(at, stage->kind, &stage->gate, error));
    BASE_TRY(parse_rate(at, &stage->pace, error));
    BASE_TRY(parse_windows(at, stage, error));
    BASE_TRY(parse_retries(at, stage, error));
    BASE_TRY(parse_control(at, stage, error));
    BASE_TRY(parse_seconds(at, gw_json_optional("execution_timeout_s", GW_API_EXECUTION_S_MAX), 0,
                           &stage->execution_timeout_s, error));
    BASE_TRY(parse_seconds(at, gw_json_optional("offline_expiry_s", long_s), 0,
                           &stage->offline_expiry_s, error));
    uint32_t silence = stage->gate.rule != POL_GATE_THRESHOLD ? GW_STAGE_DEFAULT_S : 0;
    BASE_TRY(parse_seconds(at, gw_json_optional("silence_s", long_s), silence, &stage->silence_s,
                           error));
    BASE_TRY(parse_seconds(at, gw_json_optional("observe_s", long_s), GW_STAGE_DEFAULT_S,
                           &stage->observe_s, error));
    BASE_TRY(parse_shadow(at, "max_slowdown", stage->kind, &stage->shadow_slow_percent, error));
    BASE_TRY(parse_shadow(at, "max_memory", stage->kind, &stage->shadow_memory_percent, error));
    BASE_TRY(gw_tolerance_parse(at, stage, error));
    BASE_TRY(parse_verdicts(at, stage, error));
    return gw_json_bool(at, "approval", &stage->approval, error);
}

// ---- Views

static json_t *rate_object(const struct pol_pace *pace)
{
    if (pace->per_minute == 0) {
        return json_null();
    }
    return json_pack("{s:I, s:f, s:I, s:s, s:I}", "per_minute", (json_int_t)pace->per_minute,
                     "factor", pace->factor_percent > 0 ? pace->factor_percent / 100.0 : 1.0,
                     "step", (json_int_t)pace->step, "of",
                     pace->by_success ? "succeeded" : "offered", "max_per_minute",
                     (json_int_t)pace->max_per_minute);
}

static json_t *window_list(const struct pol_stage *stage)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < stage->window_count && i < POL_WINDOWS_MAX; ++i) {
        const struct pol_window *window = &stage->windows[i];
        char start[16];
        json_t *names = json_array();
        for (unsigned k = 0; k < 7; ++k) {
            if ((window->weekdays >> k & 1) != 0) {
                (void)json_array_append_new(names, json_string(days[k]));
            }
        }
        (void)snprintf(start, sizeof(start), "%02u:%02u", window->start_min / 60u,
                       window->start_min % 60u);
        (void)json_array_append_new(list, json_pack("{s:o, s:s, s:i, s:s}", "days", names, "start",
                                                    start, "minutes", (int)window->minutes, "clock",
                                                    window->device_time ? "device" : "utc"));
    }
    return list;
}

static json_t *retry_object(const struct pol_stage *stage)
{
    json_t *object = json_object();

    for (unsigned i = 0; i < POL_FAILURE_COUNT; ++i) {
        if (stage->retries[i] > 0) {
            (void)json_object_set_new(object, pol_failure_name((enum pol_failure)i),
                                      json_integer(stage->retries[i]));
        }
    }
    return object;
}

static json_t *gate_object(const struct pol_gate *gate)
{
    return json_pack(
        "{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:b}", "rule",
        pol_gate_rule_name(gate->rule), "min_sample", (json_int_t)gate->min_sample, "min_dwell_s",
        (double)gate->min_dwell_us / 1e6, "max_failure", gate->max_failure_ppm / ONE, "max_rise",
        gate->max_rise_ppm / ONE, "tolerated_rise", gate->tolerated_rise_ppm / ONE, "alpha",
        gate->alpha_ppm / ONE, "beta", gate->beta_ppm / ONE, "min_answered",
        gate->min_answered_ppm / ONE, "max_silence", gate->max_silence_percent / 100.0, "no_data_s",
        (json_int_t)(gate->no_data_us / 1000000u), "of_offered", (int)gate->of_offered);
}

json_t *gw_stage_body_view(const struct pol_stage *stage)
{
    json_t *root = gate_object(&stage->gate);
    json_t *rest = json_pack(
        "{s:o, s:I, s:o, s:I, s:I, s:I, s:I, s:f, s:o, s:b, s:f, s:f, s:o, s:I, s:I, s:s, s:s}",
        "rate", rate_object(&stage->pace), "in_flight", (json_int_t)stage->pace.in_flight_max,
        "windows", window_list(stage), "execution_timeout_s",
        (json_int_t)stage->execution_timeout_s, "offline_expiry_s",
        (json_int_t)stage->offline_expiry_s, "silence_s", (json_int_t)stage->silence_s, "observe_s",
        (json_int_t)stage->observe_s, "control", stage->control_buckets / 100.0, "retries",
        retry_object(stage), "approval", (int)stage->approval, "max_slowdown",
        stage->shadow_slow_percent / 100.0, "max_memory", stage->shadow_memory_percent / 100.0,
        "tolerance", gw_tolerance_view(stage), "window_s", (json_int_t)stage->window_s, "guard_s",
        (json_int_t)stage->guard_s, "on_fail", pol_on_fail_name(stage->on_fail), "on_pass",
        pol_on_pass_name(stage->on_pass));

    if (root != NULL && (rest == NULL || json_object_update_new(root, rest) != 0)) {
        json_decref(root);
        return NULL;
    }
    return root;
}
