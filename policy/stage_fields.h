// The members of a stage as people write it, in a file for `walle` and in the API's JSON: one list
// for all who read it.
#ifndef POL_STAGE_FIELDS_H
#define POL_STAGE_FIELDS_H

// What a stage is called and who is in it.
#define POL_STAGE_FIELDS_HEAD "name", "kind", "percent", "audience"
// How it is gone through and judged.
#define POL_STAGE_FIELDS_BODY                                                                      \
    "rule", "min_sample", "min_dwell_s", "max_failure", "max_rise", "tolerated_rise", "alpha",     \
        "beta", "max_silence", "no_data_s", "rate", "in_flight", "windows", "execution_timeout_s", \
        "offline_expiry_s", "silence_s", "observe_s", "control", "retries", "approval",            \
        "max_slowdown", "max_memory", "tolerance", "min_answered", "window_s", "guard_s",          \
        "on_fail", "on_pass"

#endif
