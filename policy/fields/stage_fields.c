// Tables of a stage's fields. Constants; any thread.
//
// Both who take a stage go through a table in its order: the gateway (api/stage_body.c) and the
// command (cli/stages/stage_check.c). What members have to do with each other is said there, by
// functions. The numbers of a row are in the unit that people write.
#include "policy/fields/stage_fields.h"

#include "policy/rollout.h"

#include <float.h>

#define PPM        1e6
#define WORD_BYTES 16
#define TIME_BYTES 8
#define TIMES_MAX  (POL_SHADOW_PERCENT_MAX / 100.0)

// The rows of shares that are judged by, and of spans of whole seconds.
#define SHARE POL_FIELD_REAL, .unit = POL_UNIT_SHARE, .max = 1
#define SPAN  POL_FIELD_WHOLE, .unit = POL_UNIT_SECOND

const struct pol_field pol_stage_fields[POL_STAGE_FIELD_COUNT] = {
    [POL_STAGE_FIELD_NAME] = {"name", POL_FIELD_TEXT, .required = true, .max = POL_STAGE_NAME_MAX},
    [POL_STAGE_FIELD_KIND] = {"kind", POL_FIELD_WORD, .required = true, .max = WORD_BYTES,
                              .words = POL_WORDS_STAGE_KIND},
    // Of a gray or shadow stage it is required.
    [POL_STAGE_FIELD_PERCENT] = {"percent", POL_FIELD_REAL, .unit = POL_UNIT_PERCENT, .min = 0.01,
                                 .max = 100, .fallback = 100},
    [POL_STAGE_FIELD_AUDIENCE] = {"audience", POL_FIELD_NESTED},
    [POL_STAGE_FIELD_RULE] = {"rule", POL_FIELD_WORD, .max = WORD_BYTES,
                              .words = POL_WORDS_GATE_RULE, .fallback = POL_GATE_THRESHOLD},
    [POL_STAGE_FIELD_MIN_SAMPLE] = {"min_sample", POL_FIELD_WHOLE, .max = UINT32_MAX,
                                    .fallback = 1},
    [POL_STAGE_FIELD_MIN_DWELL] = {"min_dwell_s", POL_FIELD_REAL, .unit = POL_UNIT_SECOND_US,
                                   .max = POL_STAGE_LONG_S},
    [POL_STAGE_FIELD_MAX_FAILURE] = {"max_failure", SHARE, .required = true, .is_filled = true},
    [POL_STAGE_FIELD_MAX_RISE] = {"max_rise", SHARE, .fallback = POL_TEST_NOT_ASKED / PPM},
    [POL_STAGE_FIELD_TOLERATED_RISE] = {"tolerated_rise", SHARE},
    [POL_STAGE_FIELD_ALPHA] = {"alpha", SHARE, .fallback = POL_GATE_ALPHA_PPM / PPM},
    [POL_STAGE_FIELD_BETA] = {"beta", SHARE, .fallback = POL_GATE_BETA_PPM / PPM},
    [POL_STAGE_FIELD_MIN_ANSWERED] = {"min_answered", SHARE,
                                      .fallback = POL_GATE_MIN_ANSWERED_PPM / PPM},
    [POL_STAGE_FIELD_MAX_SILENCE] = {"max_silence", POL_FIELD_REAL, .unit = POL_UNIT_TIMES,
                                     .max = POL_STAGE_SILENCE_MAX},
    [POL_STAGE_FIELD_NO_DATA] = {"no_data_s", POL_FIELD_WHOLE, .unit = POL_UNIT_SECOND_US,
                                 .max = POL_STAGE_LONG_S, .fallback = POL_STAGE_NO_DATA_S},
    [POL_STAGE_FIELD_RATE] = {"rate", POL_FIELD_NESTED},
    [POL_STAGE_FIELD_IN_FLIGHT] = {"in_flight", POL_FIELD_WHOLE, .max = UINT32_MAX},
    [POL_STAGE_FIELD_WINDOWS] = {"windows", POL_FIELD_NESTED, .max = POL_WINDOWS_MAX},
    [POL_STAGE_FIELD_CONTROL] = {"control", POL_FIELD_REAL, .unit = POL_UNIT_PERCENT, .max = 100,
                                 .fallback = POL_FIELD_BY_REST},
    [POL_STAGE_FIELD_EXECUTION_TIMEOUT] = {"execution_timeout_s", SPAN, .max = POL_EXECUTION_S_MAX},
    [POL_STAGE_FIELD_OFFLINE_EXPIRY] = {"offline_expiry_s", SPAN, .max = POL_STAGE_LONG_S},
    [POL_STAGE_FIELD_SILENCE] = {"silence_s", SPAN, .max = POL_STAGE_LONG_S,
                                 .fallback = POL_FIELD_BY_REST},
    [POL_STAGE_FIELD_OBSERVE] = {"observe_s", SPAN, .max = POL_STAGE_LONG_S,
                                 .fallback = POL_FIELD_BY_REST},
    [POL_STAGE_FIELD_RETRIES] = {"retries", POL_FIELD_NESTED},
    [POL_STAGE_FIELD_MAX_SLOWDOWN] = {"max_slowdown", POL_FIELD_REAL, .unit = POL_UNIT_TIMES,
                                      .max = TIMES_MAX},
    [POL_STAGE_FIELD_MAX_MEMORY] = {"max_memory", POL_FIELD_REAL, .unit = POL_UNIT_TIMES,
                                    .max = TIMES_MAX},
    [POL_STAGE_FIELD_TOLERANCE] = {"tolerance", POL_FIELD_NESTED},
    [POL_STAGE_FIELD_WINDOW] = {"window_s", SPAN, .max = POL_STAGE_WINDOW_S_MAX},
    [POL_STAGE_FIELD_GUARD] = {"guard_s", SPAN, .max = POL_STAGE_GUARD_S_MAX,
                               .fallback = POL_FIELD_BY_REST},
    [POL_STAGE_FIELD_ON_FAIL] = {"on_fail", POL_FIELD_WORD, .max = WORD_BYTES,
                                 .words = POL_WORDS_ON_FAIL, .fallback = POL_ON_FAIL_ROLL_BACK},
    [POL_STAGE_FIELD_ON_PASS] = {"on_pass", POL_FIELD_WORD, .max = WORD_BYTES,
                                 .words = POL_WORDS_ON_PASS, .fallback = POL_ON_PASS_ADVANCE},
    [POL_STAGE_FIELD_APPROVAL] = {"approval", POL_FIELD_FLAG},
    [POL_STAGE_FIELD_MAX_SENT] = {"max_sent", SHARE, .fallback = 1},
    [POL_STAGE_FIELD_MIN_AGREED] = {"min_agreed", SHARE},
    [POL_STAGE_FIELD_MAX_CLOUD_MS] = {"max_cloud_ms", POL_FIELD_WHOLE, .max = POL_FALLBACK_MS_MAX},
    [POL_STAGE_FIELD_STATEMENT] = {"statement", POL_FIELD_NESTED}, // base64url of an envelope
};

const struct pol_field pol_rate_fields[POL_RATE_FIELD_COUNT] = {
    [POL_RATE_FIELD_PER_MINUTE] = {"per_minute", POL_FIELD_WHOLE, .required = true,
                                   .max = POL_PACE_RATE_MAX},
    [POL_RATE_FIELD_FACTOR] = {"factor", POL_FIELD_REAL, .unit = POL_UNIT_TIMES, .min = 1,
                               .max = POL_PACE_FACTOR_MAX, .fallback = 1},
    [POL_RATE_FIELD_STEP] = {"step", POL_FIELD_WHOLE, .max = POL_PACE_STEP_MAX},
    [POL_RATE_FIELD_OF] = {"of", POL_FIELD_WORD, .max = WORD_BYTES, .words = POL_WORDS_PACE_OF},
    [POL_RATE_FIELD_MAX_PER_MINUTE] = {"max_per_minute", POL_FIELD_WHOLE, .max = POL_PACE_RATE_MAX},
};

const struct pol_field pol_window_fields[POL_WINDOW_FIELD_COUNT] = {
    [POL_WINDOW_FIELD_DAYS] = {"days", POL_FIELD_NESTED, .max = 7},
    [POL_WINDOW_FIELD_START] = {"start", POL_FIELD_TEXT, .required = true, .max = TIME_BYTES},
    [POL_WINDOW_FIELD_MINUTES] = {"minutes", POL_FIELD_WHOLE, .required = true,
                                  .max = POL_WINDOW_MINUTES_MAX},
    [POL_WINDOW_FIELD_CLOCK] = {"clock", POL_FIELD_WORD, .max = TIME_BYTES,
                                .words = POL_WORDS_CLOCK},
};

const struct pol_field pol_tolerance_fields[POL_TOLERANCE_FIELD_COUNT] = {
    [POL_TOLERANCE_FIELD_ABSOLUTE] = {"absolute", POL_FIELD_REAL, .max = DBL_MAX},
    [POL_TOLERANCE_FIELD_RELATIVE] = {"relative", POL_FIELD_REAL, .max = 1},
    [POL_TOLERANCE_FIELD_FIELDS] = {"fields", POL_FIELD_NESTED},
};

const struct pol_field pol_cond_fields[POL_COND_FIELD_COUNT] = {
    [POL_COND_FIELD_ATTR] = {"attr", POL_FIELD_TEXT, .required = true, .max = 32},
    [POL_COND_FIELD_OP] = {"op", POL_FIELD_WORD, .required = true, .max = WORD_BYTES,
                           .words = POL_WORDS_OP},
    [POL_COND_FIELD_VALUE] = {"value", POL_FIELD_NESTED},
    [POL_COND_FIELD_TYPE] = {"type", POL_FIELD_WORD, .max = WORD_BYTES, .words = POL_WORDS_TYPE},
};

const char *const pol_weekdays[7] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
