// Conduct of a stage between JSON and the policy's form. Parsing on a worker's thread, views on the
// control thread. rollout_body.c parses with it, api_views.c shows with it, and both directions
// stand in one file so that what is shown can be sent again. Ranges, words and defaults are those
// of policy/fields/stage_fields.h; the error names the field's path.
#include "api/stage_body.h"

#include "api/rollout_body.h"
#include "api/target_body.h"
#include "api/tolerance_body.h"

#include "base/check.h"
#include "policy/fields/stage_fields.h"

#include <stdio.h>
#include <string.h>

#define ONE 1e6 // parts per million
#define PPM 1000000u

static uint32_t u32(uint64_t kept)
{
    base_assert(kept <= UINT32_MAX);
    return (uint32_t)kept;
}

// ---- Gate and pace

static enum base_status fill_gate(const struct gw_json_at *at, const uint64_t *kept,
                                  enum pol_stage_kind kind, struct pol_gate *out,
                                  struct base_error *error)
{
    out->rule = (enum pol_gate_rule)kept[POL_STAGE_FIELD_RULE];
    out->min_sample = u32(kept[POL_STAGE_FIELD_MIN_SAMPLE]);
    out->min_dwell_us = kept[POL_STAGE_FIELD_MIN_DWELL];
    out->max_failure_ppm = u32(kept[POL_STAGE_FIELD_MAX_FAILURE]);
    out->max_rise_ppm = u32(kept[POL_STAGE_FIELD_MAX_RISE]);
    out->tolerated_rise_ppm = u32(kept[POL_STAGE_FIELD_TOLERATED_RISE]);
    out->alpha_ppm = u32(kept[POL_STAGE_FIELD_ALPHA]);
    out->beta_ppm = u32(kept[POL_STAGE_FIELD_BETA]);
    out->min_answered_ppm = u32(kept[POL_STAGE_FIELD_MIN_ANSWERED]);
    out->max_silence_percent = u32(kept[POL_STAGE_FIELD_MAX_SILENCE]);
    out->no_data_us = kept[POL_STAGE_FIELD_NO_DATA];
    if (kind != POL_STAGE_GRAY && kind != POL_STAGE_BETA) {
        out->max_rise_ppm = POL_TEST_NOT_ASKED; // nobody is left to compare with
    }
    if (!pol_gate_check(out)) {
        return base_error_set(error, BASE_ERR_INVALID, "%salpha, beta: above 0 and below one half",
                              at->path);
    }
    return BASE_OK;
}

static enum base_status parse_rate(const struct gw_json_at *at, struct pol_pace *out,
                                   struct base_error *error)
{
    const char *names[POL_RATE_FIELD_COUNT + 1];
    uint64_t kept[POL_RATE_FIELD_COUNT];
    struct gw_json_at rate;

    BASE_TRY(gw_json_inside(at, "rate", &rate, error));
    if (rate.object == NULL) {
        return BASE_OK;
    }
    pol_field_names(pol_rate_fields, POL_RATE_FIELD_COUNT, names);
    BASE_TRY(gw_json_only(&rate, names, error));
    BASE_TRY(gw_json_fields(&rate, pol_rate_fields, POL_RATE_FIELD_COUNT, kept, error));
    out->per_minute = u32(kept[POL_RATE_FIELD_PER_MINUTE]);
    out->factor_percent = u32(kept[POL_RATE_FIELD_FACTOR]);
    out->step = kept[POL_RATE_FIELD_STEP];
    out->by_success = kept[POL_RATE_FIELD_OF] != 0;
    out->max_per_minute = u32(kept[POL_RATE_FIELD_MAX_PER_MINUTE]);
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

    BASE_TRY(gw_json_array(at, pol_window_fields[POL_WINDOW_FIELD_DAYS], &list, error));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const char *text = json_string_value(json_array_get(list, i));
        unsigned before = mask;
        for (unsigned k = 0; k < 7; ++k) {
            mask |= text != NULL && strcmp(text, pol_weekdays[k]) == 0 ? 1u << k : 0;
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
    const char *names[POL_WINDOW_FIELD_COUNT + 1];
    uint64_t kept[POL_WINDOW_FIELD_COUNT];
    struct base_str start = {NULL, 0};

    pol_field_names(pol_window_fields, POL_WINDOW_FIELD_COUNT, names);
    BASE_TRY(gw_json_only(at, names, error));
    BASE_TRY(parse_days(at, &out->weekdays, error));
    BASE_TRY(gw_json_text(at, pol_window_fields[POL_WINDOW_FIELD_START], &start, error));
    BASE_TRY(gw_json_fields(at, pol_window_fields, POL_WINDOW_FIELD_COUNT, kept, error));
    const char *t = start.data;
    bool digits = start.size == 5 && t[2] == ':' && t[0] >= '0' && t[0] <= '2' && t[1] >= '0' &&
                  t[1] <= '9' && t[3] >= '0' && t[3] <= '5' && t[4] >= '0' && t[4] <= '9';
    out->start_min =
        digits ? (uint16_t)((t[0] - '0') * 600 + (t[1] - '0') * 60 + (t[3] - '0') * 10 + t[4] - '0')
               : UINT16_MAX;
    out->minutes = (uint16_t)kept[POL_WINDOW_FIELD_MINUTES];
    out->device_time = kept[POL_WINDOW_FIELD_CLOCK] != 0;
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

    BASE_TRY(gw_json_array(at, pol_stage_fields[POL_STAGE_FIELD_WINDOWS], &list, error));
    out->window_count = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < out->window_count; ++i) {
        struct gw_json_at item;
        BASE_TRY(gw_json_enter(at, "windows", i, &item, error));
        BASE_TRY(parse_window(&item, &out->windows[i], error));
    }
    return BASE_OK;
}

// ---- Retries, control, shadows

static enum base_status parse_retries(const struct gw_json_at *at, struct pol_stage *out,
                                      struct base_error *error)
{
    const char *names[POL_FAILURE_COUNT + 1] = {NULL};
    struct gw_json_at retries;

    BASE_TRY(gw_json_inside(at, "retries", &retries, error));
    if (retries.object == NULL) {
        return BASE_OK;
    }
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
                                  retries.path, names[i]);
        }
    }
    return BASE_OK;
}

// How large the control is of a stage that does not say it. A gray stage that is compared with
// control is given one as large as itself.
static uint16_t control_of(const struct pol_stage *stage)
{
    bool trial = stage->gate.rule == POL_GATE_LOGRANK;
    bool compared = trial || stage->gate.rule == POL_GATE_SEQUENTIAL;
    bool beside = stage->kind == POL_STAGE_GRAY || // of a trial both are of the same audience
                  (stage->kind == POL_STAGE_BETA && trial && stage->max_bucket < POL_BUCKET_COUNT);

    return !compared                                 ? 0
           : beside                                  ? stage->max_bucket
           : stage->kind == POL_STAGE_BETA && !trial ? GW_API_BETA_CONTROL_BUCKETS
                                                     : 0;
}

// A bound on a shadow's cost, as a multiple of the active version's. 0, or left out: none.
static enum base_status check_shadow(const struct gw_json_at *at, enum pol_stage_field field,
                                     enum pol_stage_kind kind, uint64_t percent,
                                     struct base_error *error)
{
    const char *key = pol_stage_fields[field].name;

    if (percent != 0 && kind != POL_STAGE_SHADOW) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: for a shadow stage only", at->path,
                              key);
    }
    if (percent != 0 && percent < POL_SHADOW_PERCENT_MIN) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: at least 1 (0: not judged)", at->path,
                              key);
    }
    return BASE_OK;
}

static enum base_status fill_shadow(const struct gw_json_at *at, const uint64_t *kept,
                                    struct pol_stage *out, struct base_error *error)
{
    uint64_t slow = kept[POL_STAGE_FIELD_MAX_SLOWDOWN];
    uint64_t memory = kept[POL_STAGE_FIELD_MAX_MEMORY];

    BASE_TRY(check_shadow(at, POL_STAGE_FIELD_MAX_SLOWDOWN, out->kind, slow, error));
    BASE_TRY(check_shadow(at, POL_STAGE_FIELD_MAX_MEMORY, out->kind, memory, error));
    out->shadow_slow_percent = (uint16_t)slow;
    out->shadow_memory_percent = (uint16_t)memory;
    return gw_tolerance_parse(at, out, error);
}

// ---- Stages

// Spans, words and what else stands for itself, once the gate is there.
static void fill_rest(const uint64_t *kept, struct pol_stage *out)
{
    uint64_t silence_s = kept[POL_STAGE_FIELD_SILENCE];
    uint64_t observe_s = kept[POL_STAGE_FIELD_OBSERVE];
    uint64_t guard_s = kept[POL_STAGE_FIELD_GUARD];
    uint64_t control = kept[POL_STAGE_FIELD_CONTROL];
    bool watched = out->gate.rule != POL_GATE_THRESHOLD;

    out->pace.in_flight_max = kept[POL_STAGE_FIELD_IN_FLIGHT];
    out->execution_timeout_s = u32(kept[POL_STAGE_FIELD_EXECUTION_TIMEOUT]);
    out->offline_expiry_s = u32(kept[POL_STAGE_FIELD_OFFLINE_EXPIRY]);
    out->silence_s = silence_s != POL_FIELD_UNSAID ? u32(silence_s)
                     : watched                     ? GW_STAGE_DEFAULT_S
                                                   : 0;
    out->observe_s = observe_s != POL_FIELD_UNSAID ? u32(observe_s) : GW_STAGE_DEFAULT_S;
    out->control_buckets = control != POL_FIELD_UNSAID ? (uint16_t)control : control_of(out);
    out->window_s = u32(kept[POL_STAGE_FIELD_WINDOW]);
    out->guard_s = guard_s != POL_FIELD_UNSAID ? u32(guard_s) : GW_STAGE_DEFAULT_S;
    out->on_fail = (enum pol_on_fail)kept[POL_STAGE_FIELD_ON_FAIL];
    out->on_pass = (enum pol_on_pass)kept[POL_STAGE_FIELD_ON_PASS];
    out->approval = kept[POL_STAGE_FIELD_APPROVAL] != 0;
    out->cloud = (struct pol_fallback_limits){
        .min_kept_ppm = PPM - u32(kept[POL_STAGE_FIELD_MAX_SENT]),
        .min_agreed_ppm = u32(kept[POL_STAGE_FIELD_MIN_AGREED]),
        .late_ms = u32(kept[POL_STAGE_FIELD_MAX_CLOUD_MS]),
    };
}

enum base_status gw_stage_reach_parse(const struct gw_json_at *at, struct base_arena *arena,
                                      struct pol_stage *stage, struct base_error *error)
{
    struct pol_field percent = pol_stage_fields[POL_STAGE_FIELD_PERCENT];
    double share = percent.fallback;
    unsigned kind = 0;

    BASE_TRY(gw_json_word(at, pol_stage_fields[POL_STAGE_FIELD_KIND], &kind, error));
    stage->kind = (enum pol_stage_kind)kind;
    percent.required = stage->kind == POL_STAGE_GRAY || stage->kind == POL_STAGE_SHADOW;
    BASE_TRY(gw_json_real(at, percent, &share, error));
    stage->max_bucket = (uint16_t)pol_field_kept(&percent, share);
    return gw_target_parse(at, "audience", arena, &stage->audience, error);
}

enum base_status gw_stage_body_parse(const struct gw_json_at *at, struct pol_stage *stage,
                                     struct base_error *error)
{
    uint64_t kept[POL_STAGE_FIELD_COUNT];

    BASE_TRY(gw_json_fields(at, pol_stage_fields, POL_STAGE_FIELD_COUNT, kept, error));
    BASE_TRY(fill_gate(at, kept, stage->kind, &stage->gate, error));
    BASE_TRY(parse_rate(at, &stage->pace, error));
    BASE_TRY(parse_windows(at, stage, error));
    BASE_TRY(parse_retries(at, stage, error));
    BASE_TRY(fill_shadow(at, kept, stage, error));
    fill_rest(kept, stage);
    return BASE_OK;
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
                (void)json_array_append_new(names, json_string(pol_weekdays[k]));
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
        "{s:o, s:I, s:o, s:I, s:I, s:I, s:I, s:f, s:o, s:b, s:f, s:f, s:o, s:I, s:I, s:s, s:s, "
        "s:f, s:f, s:I}",
        "rate", rate_object(&stage->pace), "in_flight", (json_int_t)stage->pace.in_flight_max,
        "windows", window_list(stage), "execution_timeout_s",
        (json_int_t)stage->execution_timeout_s, "offline_expiry_s",
        (json_int_t)stage->offline_expiry_s, "silence_s", (json_int_t)stage->silence_s, "observe_s",
        (json_int_t)stage->observe_s, "control", stage->control_buckets / 100.0, "retries",
        retry_object(stage), "approval", (int)stage->approval, "max_slowdown",
        stage->shadow_slow_percent / 100.0, "max_memory", stage->shadow_memory_percent / 100.0,
        "tolerance", gw_tolerance_view(stage), "window_s", (json_int_t)stage->window_s, "guard_s",
        (json_int_t)stage->guard_s, "on_fail", pol_on_fail_name(stage->on_fail), "on_pass",
        pol_on_pass_name(stage->on_pass), "max_sent", (PPM - stage->cloud.min_kept_ppm) / ONE,
        "min_agreed", stage->cloud.min_agreed_ppm / ONE, "max_cloud_ms",
        (json_int_t)stage->cloud.late_ms);

    if (root != NULL && (rest == NULL || json_object_update_new(root, rest) != 0)) {
        json_decref(root);
        return NULL;
    }
    return root;
}
