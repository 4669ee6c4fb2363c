// Names and texts of reasons, for logs, the API and people.
//
// Called from any thread; the tables are constant. Names are spelled here by hand because they are
// lower case; a test checks that each is its enumerator in lower case.
#include "policy/reason.h"

const char *pol_reason_text(enum pol_reason reason)
{
    switch (reason) {
#define CASE_TEXT(name, text)                                                                      \
    case POL_REASON_##name:                                                                        \
        return text;
        POL_REASON_MAP(CASE_TEXT)
#undef CASE_TEXT
    case POL_REASON_COUNT:
        break;
    }
    return "unknown reason";
}

const char *pol_reason_name(enum pol_reason reason)
{
    switch (reason) {
    case POL_REASON_NONE:
        return "none";
    case POL_REASON_MATCHED:
        return "matched";
    case POL_REASON_NO_CONDITIONS:
        return "no_conditions";
    case POL_REASON_ATTRIBUTE_MISSING:
        return "attribute_missing";
    case POL_REASON_TYPE_MISMATCH:
        return "type_mismatch";
    case POL_REASON_CONDITION_FALSE:
        return "condition_false";
    case POL_REASON_TOO_MANY_CONDITIONS:
        return "too_many_conditions";
    case POL_REASON_NO_OPERAND:
        return "no_operand";
    case POL_REASON_BAD_OPERATOR:
        return "bad_operator";
    case POL_REASON_EXPR_FALSE:
        return "expr_false";
    case POL_REASON_EXPR_UNKNOWN:
        return "expr_unknown";
    case POL_REASON_IN_STAGE:
        return "in_stage";
    case POL_REASON_OUTSIDE_BUCKET:
        return "outside_bucket";
    case POL_REASON_OUTSIDE_AUDIENCE:
        return "outside_audience";
    case POL_REASON_NOT_TARGETED:
        return "not_targeted";
    case POL_REASON_ROLLOUT_NOT_STARTED:
        return "rollout_not_started";
    case POL_REASON_ROLLOUT_PAUSED:
        return "rollout_paused";
    case POL_REASON_ROLLOUT_ROLLED_BACK:
        return "rollout_rolled_back";
    case POL_REASON_DWELL_NOT_REACHED:
        return "dwell_not_reached";
    case POL_REASON_SAMPLE_TOO_SMALL:
        return "sample_too_small";
    case POL_REASON_NO_COMPLETIONS:
        return "no_completions";
    case POL_REASON_FAILURES_OVER_LIMIT:
        return "failures_over_limit";
    case POL_REASON_FAILURES_WITHIN_LIMIT:
        return "failures_within_limit";
    case POL_REASON_SIMULATION_PENDING:
        return "simulation_pending";
    case POL_REASON_LAST_STAGE_PASSED:
        return "last_stage_passed";
    case POL_REASON_OPERATOR:
        return "operator";
    case POL_REASON_WRONG_STATE:
        return "wrong_state";
    case POL_REASON_STAGE_FAILED:
        return "stage_failed";
    case POL_REASON_ROLLBACK_COMPLETE:
        return "rollback_complete";
    case POL_REASON_ROLLBACK_RUNNING:
        return "rollback_running";
    case POL_REASON_STAGES_INVALID:
        return "stages_invalid";
    case POL_REASON_COUNT:
        break;
    }
    return "unknown";
}
