// Names: each is its enumerator in lower case; values outside have a name too.
#include "test_kit.h"

#include "policy/rollout.h"

#include <ctype.h>

static void lower(const char *enumerator, char out[64])
{
    size_t size = strlen(enumerator);
    assert_true(size < 64);
    for (size_t i = 0; i <= size; i++) {
        out[i] = (char)tolower((unsigned char)enumerator[i]);
    }
}

static void reasons(void **state)
{
    (void)state;
    char name[64];
#define CHECK(NAME, text)                                                                          \
    lower(#NAME, name);                                                                            \
    assert_string_equal(pol_reason_name(POL_REASON_##NAME), name);                                 \
    assert_string_equal(pol_reason_text(POL_REASON_##NAME), text);
    POL_REASON_MAP(CHECK)
#undef CHECK
    assert_string_equal(pol_reason_name(POL_REASON_COUNT), "unknown");
    assert_string_equal(pol_reason_text((enum pol_reason)999), "unknown reason");
}

static void others(void **state)
{
    (void)state;
    static const char *const kinds[] = {"simulate", "beta", "gray", "full", "shadow", "unknown"};
    for (unsigned i = 0; i <= POL_STAGE_KIND_COUNT; i++) {
        assert_string_equal(pol_stage_kind_name((enum pol_stage_kind)i), kinds[i]);
    }
    static const char *const states[] = {
        "draft",     "running",          "paused",   "rolling_back", "rolled_back",
        "completed", "waiting_approval", "guarding", "unknown"};
    for (unsigned i = 0; i <= POL_ROLLOUT_STATE_COUNT; i++) {
        assert_string_equal(pol_rollout_state_name((enum pol_rollout_state)i), states[i]);
    }
    static const char *const verdicts[] = {"no_data", "inconclusive", "pass", "fail", "unknown"};
    for (unsigned i = 0; i <= POL_VERDICT_COUNT; i++) {
        assert_string_equal(pol_verdict_name((enum pol_verdict)i), verdicts[i]);
    }
    static const char *const actions[] = {
        "hold", "advance", "complete", "pause",  "resume", "roll_back", "finish_roll_back",
        "wait", "page",    "kill",     "refuse", "guard",  "unknown"};
    for (unsigned i = 0; i <= POL_ACTION_COUNT; i++) {
        assert_string_equal(pol_action_name((enum pol_action)i), actions[i]);
    }
    static const char *const on_fails[] = {"roll_back", "hold", "unknown"};
    for (unsigned i = 0; i <= POL_ON_FAIL_COUNT; i++) {
        assert_string_equal(pol_on_fail_name((enum pol_on_fail)i), on_fails[i]);
    }
    static const char *const on_passes[] = {"advance", "pause", "unknown"};
    for (unsigned i = 0; i <= POL_ON_PASS_COUNT; i++) {
        assert_string_equal(pol_on_pass_name((enum pol_on_pass)i), on_passes[i]);
    }
    static const char *const commands[] = {"start",   "pause",  "resume",  "resume_accept_risk",
                                           "promote", "abort",  "approve", "undo",
                                           "kill",    "unknown"};
    for (unsigned i = 0; i <= POL_COMMAND_COUNT; i++) {
        assert_string_equal(pol_command_name((enum pol_command)i), commands[i]);
    }
}

static void gates_and_failures(void **state)
{
    (void)state;
    assert_string_equal(pol_gate_rule_name(POL_GATE_THRESHOLD), "threshold");
    assert_string_equal(pol_gate_rule_name(POL_GATE_SEQUENTIAL), "sequential");
    assert_string_equal(pol_gate_rule_name(POL_GATE_RULE_COUNT), "unknown");
    static const char *const failures[] = {"verify", "download", "load",   "exception", "timeout",
                                           "memory", "crash",    "output", "unknown"};
    for (unsigned i = 0; i <= POL_FAILURE_COUNT; i++) {
        assert_string_equal(pol_failure_name((enum pol_failure)i), failures[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons),
        cmocka_unit_test(others),
        cmocka_unit_test(gates_and_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
