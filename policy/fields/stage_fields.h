// The members of a stage as people write it, in a file for `walle` and in the API's JSON: one table
// for all who read it. docs/API.md says what they mean.
#ifndef POL_STAGE_FIELDS_H
#define POL_STAGE_FIELDS_H

#include "policy/fields/field.h"

#define POL_STAGE_NAME_MAX    32u               // bytes, printable ASCII
#define POL_STAGE_LONG_S      (30u * 24 * 3600) // the longest wait that a stage may ask for
#define POL_EXECUTION_S_MAX   (7u * 24 * 3600)  // from an offer to completion
#define POL_STAGE_NO_DATA_S   3600u       // default: one nobody completed in for so long pages
#define POL_PACE_RATE_MAX     100000000u  // devices in a minute
#define POL_PACE_STEP_MAX     1000000000u // devices between two steps of a ramp
#define POL_PACE_FACTOR_MAX   10          // of a ramp's step
#define POL_STAGE_SILENCE_MAX 100         // times the share that is silent in control

enum pol_stage_field {
    // Who is in it.
    POL_STAGE_FIELD_NAME,
    POL_STAGE_FIELD_KIND,
    POL_STAGE_FIELD_PERCENT,
    POL_STAGE_FIELD_AUDIENCE,
    // How it is judged and gone through.
    POL_STAGE_FIELD_RULE,
    POL_STAGE_FIELD_MIN_SAMPLE,
    POL_STAGE_FIELD_MIN_DWELL,
    POL_STAGE_FIELD_MAX_FAILURE,
    POL_STAGE_FIELD_MAX_RISE,
    POL_STAGE_FIELD_TOLERATED_RISE,
    POL_STAGE_FIELD_ALPHA,
    POL_STAGE_FIELD_BETA,
    POL_STAGE_FIELD_MIN_ANSWERED,
    POL_STAGE_FIELD_MAX_SILENCE,
    POL_STAGE_FIELD_NO_DATA,
    POL_STAGE_FIELD_RATE,
    POL_STAGE_FIELD_IN_FLIGHT,
    POL_STAGE_FIELD_WINDOWS,
    POL_STAGE_FIELD_CONTROL,
    POL_STAGE_FIELD_EXECUTION_TIMEOUT,
    POL_STAGE_FIELD_OFFLINE_EXPIRY,
    POL_STAGE_FIELD_SILENCE,
    POL_STAGE_FIELD_OBSERVE,
    POL_STAGE_FIELD_RETRIES,
    POL_STAGE_FIELD_MAX_SLOWDOWN,
    POL_STAGE_FIELD_MAX_MEMORY,
    POL_STAGE_FIELD_TOLERANCE,
    POL_STAGE_FIELD_WINDOW,
    POL_STAGE_FIELD_GUARD,
    POL_STAGE_FIELD_ON_FAIL,
    POL_STAGE_FIELD_ON_PASS,
    POL_STAGE_FIELD_APPROVAL,
    POL_STAGE_FIELD_MAX_SENT,
    POL_STAGE_FIELD_MIN_AGREED,
    POL_STAGE_FIELD_MAX_CLOUD_MS,
    POL_STAGE_FIELD_STATEMENT, // last: of what is sent alone
    POL_STAGE_FIELD_COUNT
};

enum pol_rate_field {
    POL_RATE_FIELD_PER_MINUTE,
    POL_RATE_FIELD_FACTOR,
    POL_RATE_FIELD_STEP,
    POL_RATE_FIELD_OF,
    POL_RATE_FIELD_MAX_PER_MINUTE,
    POL_RATE_FIELD_COUNT
};

enum pol_window_field {
    POL_WINDOW_FIELD_DAYS,
    POL_WINDOW_FIELD_START,
    POL_WINDOW_FIELD_MINUTES,
    POL_WINDOW_FIELD_CLOCK,
    POL_WINDOW_FIELD_COUNT
};

enum pol_tolerance_field {
    POL_TOLERANCE_FIELD_ABSOLUTE,
    POL_TOLERANCE_FIELD_RELATIVE,
    POL_TOLERANCE_FIELD_FIELDS, // last: of the tolerance itself alone, not of one of these
    POL_TOLERANCE_FIELD_COUNT
};

// A condition of an audience, or of a rollout's target.
enum pol_cond_field {
    POL_COND_FIELD_ATTR,
    POL_COND_FIELD_OP,
    POL_COND_FIELD_VALUE,
    POL_COND_FIELD_TYPE,
    POL_COND_FIELD_COUNT
};

extern const struct pol_field pol_stage_fields[POL_STAGE_FIELD_COUNT];
extern const struct pol_field pol_rate_fields[POL_RATE_FIELD_COUNT];
extern const struct pol_field pol_window_fields[POL_WINDOW_FIELD_COUNT];
extern const struct pol_field pol_tolerance_fields[POL_TOLERANCE_FIELD_COUNT];
extern const struct pol_field pol_cond_fields[POL_COND_FIELD_COUNT];
extern const char *const pol_weekdays[7]; // of a window's days, from Monday on

#endif
