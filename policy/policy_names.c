// Names of the policy's enumerations, for logs, the API and people. Any thread.
//
// Switches rather than tables, so that the compiler tells when an enumerator is missing.
#include "policy/desired.h"
#include "policy/stat/assert.h"
#include "policy/rollout.h"

const char *pol_stage_kind_name(enum pol_stage_kind kind)
{
    switch (kind) {
    case POL_STAGE_SIMULATE:
        return "simulate";
    case POL_STAGE_BETA:
        return "beta";
    case POL_STAGE_GRAY:
        return "gray";
    case POL_STAGE_FULL:
        return "full";
    case POL_STAGE_SHADOW:
        return "shadow";
    case POL_STAGE_KIND_COUNT:
        break;
    }
    return "unknown";
}

const char *pol_rollout_state_name(enum pol_rollout_state state)
{
    pol_assert((unsigned)state <= POL_ROLLOUT_STATE_COUNT);
    switch (state) {
    case POL_ROLLOUT_DRAFT:
        return "draft";
    case POL_ROLLOUT_RUNNING:
        return "running";
    case POL_ROLLOUT_PAUSED:
        return "paused";
    case POL_ROLLOUT_ROLLING_BACK:
        return "rolling_back";
    case POL_ROLLOUT_ROLLED_BACK:
        return "rolled_back";
    case POL_ROLLOUT_COMPLETED:
        return "completed";
    case POL_ROLLOUT_WAITING:
        return "waiting_approval";
    case POL_ROLLOUT_GUARDING:
        return "guarding";
    case POL_ROLLOUT_STATE_COUNT:
        break;
    }
    return "unknown";
}

const char *pol_on_fail_name(enum pol_on_fail on_fail)
{
    switch (on_fail) {
    case POL_ON_FAIL_ROLL_BACK:
        return "roll_back";
    case POL_ON_FAIL_HOLD:
        return "hold";
    case POL_ON_FAIL_COUNT:
        break;
    }
    return "unknown";
}

const char *pol_on_pass_name(enum pol_on_pass on_pass)
{
    switch (on_pass) {
    case POL_ON_PASS_ADVANCE:
        return "advance";
    case POL_ON_PASS_PAUSE:
        return "pause";
    case POL_ON_PASS_COUNT:
        break;
    }
    return "unknown";
}

const char *pol_verdict_name(enum pol_verdict verdict)
{
    switch (verdict) {
    case POL_VERDICT_NO_DATA:
        return "no_data";
    case POL_VERDICT_INCONCLUSIVE:
        return "inconclusive";
    case POL_VERDICT_PASS:
        return "pass";
    case POL_VERDICT_FAIL:
        return "fail";
    case POL_VERDICT_COUNT:
        break;
    }
    return "unknown";
}

const char *pol_action_name(enum pol_action action)
{
    pol_assert((unsigned)action <= POL_ACTION_COUNT);
    switch (action) {
    case POL_ACTION_HOLD:
        return "hold";
    case POL_ACTION_ADVANCE:
        return "advance";
    case POL_ACTION_COMPLETE:
        return "complete";
    case POL_ACTION_PAUSE:
        return "pause";
    case POL_ACTION_RESUME:
        return "resume";
    case POL_ACTION_ROLL_BACK:
        return "roll_back";
    case POL_ACTION_FINISH_ROLL_BACK:
        return "finish_roll_back";
    case POL_ACTION_WAIT:
        return "wait";
    case POL_ACTION_PAGE:
        return "page";
    case POL_ACTION_KILL:
        return "kill";
    case POL_ACTION_REFUSE:
        return "refuse";
    case POL_ACTION_GUARD:
        return "guard";
    case POL_ACTION_COUNT:
        break;
    }
    return "unknown";
}

const char *pol_command_name(enum pol_command command)
{
    pol_assert((unsigned)command <= POL_COMMAND_COUNT);
    switch (command) {
    case POL_COMMAND_START:
        return "start";
    case POL_COMMAND_PAUSE:
        return "pause";
    case POL_COMMAND_RESUME:
        return "resume";
    case POL_COMMAND_RESUME_ACCEPT_RISK:
        return "resume_accept_risk";
    case POL_COMMAND_PROMOTE:
        return "promote";
    case POL_COMMAND_ABORT:
        return "abort";
    case POL_COMMAND_APPROVE:
        return "approve";
    case POL_COMMAND_UNDO:
        return "undo";
    case POL_COMMAND_KILL:
        return "kill";
    case POL_COMMAND_COUNT:
        break;
    }
    return "unknown";
}

const char *pol_gate_rule_name(enum pol_gate_rule rule)
{
    switch (rule) {
    case POL_GATE_THRESHOLD:
        return "threshold";
    case POL_GATE_SEQUENTIAL:
        return "sequential";
    case POL_GATE_LOGRANK:
        return "logrank";
    case POL_GATE_RULE_COUNT:
        break;
    }
    return "unknown";
}

static const char *const rule_texts[] = {
#define POL_DESIRED_TEXT(name, text) [POL_DESIRED_##name] = (text),
    POL_DESIRED_MAP(POL_DESIRED_TEXT)
#undef POL_DESIRED_TEXT
};

const char *pol_desired_rule_text(enum pol_desired_rule rule)
{
    return (unsigned)rule < POL_DESIRED_RULE_COUNT ? rule_texts[rule] : "unknown";
}

const char *pol_desired_rule_name(enum pol_desired_rule rule)
{
    switch (rule) {
    case POL_DESIRED_FOLLOWED:
        return "followed";
    case POL_DESIRED_PAUSED:
        return "paused";
    case POL_DESIRED_STAYS:
        return "stays";
    case POL_DESIRED_BASELINE:
        return "baseline";
    case POL_DESIRED_KEEPS:
        return "keeps";
    case POL_DESIRED_NONE:
        return "none";
    case POL_DESIRED_RULE_COUNT:
        break;
    }
    return "unknown";
}
