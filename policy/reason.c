// Names and texts of reasons, for logs, the API and people.
//
// Called from any thread; the tables are constant. Names are spelled here by hand because they are
// lower case; a test checks that each is its enumerator in lower case.
#include "policy/reason.h"

#include <stdbool.h>
#include <stddef.h>

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

static const char *const names[POL_REASON_COUNT] = {
    [POL_REASON_NONE] = "none",
    [POL_REASON_MATCHED] = "matched",
    [POL_REASON_NO_CONDITIONS] = "no_conditions",
    [POL_REASON_ATTRIBUTE_MISSING] = "attribute_missing",
    [POL_REASON_TYPE_MISMATCH] = "type_mismatch",
    [POL_REASON_CONDITION_FALSE] = "condition_false",
    [POL_REASON_TOO_MANY_CONDITIONS] = "too_many_conditions",
    [POL_REASON_NO_OPERAND] = "no_operand",
    [POL_REASON_BAD_OPERATOR] = "bad_operator",
    [POL_REASON_EXPR_FALSE] = "expr_false",
    [POL_REASON_EXPR_UNKNOWN] = "expr_unknown",
    [POL_REASON_IN_STAGE] = "in_stage",
    [POL_REASON_OUTSIDE_BUCKET] = "outside_bucket",
    [POL_REASON_OUTSIDE_AUDIENCE] = "outside_audience",
    [POL_REASON_NOT_TARGETED] = "not_targeted",
    [POL_REASON_ROLLOUT_NOT_STARTED] = "rollout_not_started",
    [POL_REASON_ROLLOUT_PAUSED] = "rollout_paused",
    [POL_REASON_ROLLOUT_ROLLED_BACK] = "rollout_rolled_back",
    [POL_REASON_DWELL_NOT_REACHED] = "dwell_not_reached",
    [POL_REASON_SAMPLE_TOO_SMALL] = "sample_too_small",
    [POL_REASON_NO_COMPLETIONS] = "no_completions",
    [POL_REASON_FAILURES_OVER_LIMIT] = "failures_over_limit",
    [POL_REASON_FAILURES_WITHIN_LIMIT] = "failures_within_limit",
    [POL_REASON_SIMULATION_PENDING] = "simulation_pending",
    [POL_REASON_LAST_STAGE_PASSED] = "last_stage_passed",
    [POL_REASON_OPERATOR] = "operator",
    [POL_REASON_WRONG_STATE] = "wrong_state",
    [POL_REASON_STAGE_FAILED] = "stage_failed",
    [POL_REASON_ROLLBACK_COMPLETE] = "rollback_complete",
    [POL_REASON_ROLLBACK_RUNNING] = "rollback_running",
    [POL_REASON_NO_DATA_TOO_LONG] = "no_data_too_long",
    [POL_REASON_RISE_OVER_CONTROL] = "rise_over_control",
    [POL_REASON_SILENT_OVER_CONTROL] = "silent_over_control",
    [POL_REASON_EVIDENCE_OPEN] = "evidence_open",
    [POL_REASON_EVIDENCE_GOOD] = "evidence_good",
    [POL_REASON_APPROVAL_PENDING] = "approval_pending",
    [POL_REASON_KILLED] = "killed",
    [POL_REASON_STAGES_INVALID] = "stages_invalid",
    [POL_REASON_NO_PROVEN] = "no_proven",
    [POL_REASON_UNDER_WAY] = "under_way",
    [POL_REASON_TOO_FEW_ANSWERED] = "too_few_answered",
    [POL_REASON_STAGE_PASSED] = "stage_passed",
    [POL_REASON_GUARDING] = "guarding",
    [POL_REASON_GUARD_OVER] = "guard_over",
    [POL_REASON_NOBODY_OUTSTANDING] = "nobody_outstanding",
    [POL_REASON_STARTED] = "started",
    [POL_REASON_PAUSED] = "paused",
    [POL_REASON_RESUMED] = "resumed",
    [POL_REASON_RISK_ACCEPTED] = "risk_accepted",
    [POL_REASON_PROMOTED] = "promoted",
    [POL_REASON_ABORTED] = "aborted",
    [POL_REASON_APPROVED] = "approved",
    [POL_REASON_UNDONE] = "undone",
};

const char *pol_reason_name(enum pol_reason reason)
{
    bool known = (unsigned)reason < POL_REASON_COUNT && names[reason] != NULL;
    return known ? names[reason] : "unknown";
}
