// A stage's JSON as the policy's stage: what a replay judges by is what the gateway judged by.
#include "test_kit.h"

#include "cli/stages/stage_json.h"

static struct pol_stage stage_of(const char *text)
{
    struct pol_stage stage;
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    stage_json_read(json, &stage);
    json_decref(json);
    return stage;
}

// True in what a gateway answers, false in rollouts of before and in a stages file, which says
// nothing of it.
static void shares_are_of_who_was_offered_where_it_is_said(void **state)
{
    (void)state;
    assert_true(stage_of("{\"kind\": \"full\", \"of_offered\": true}").gate.of_offered);
    assert_false(stage_of("{\"kind\": \"full\", \"of_offered\": false}").gate.of_offered);
    assert_false(stage_of("{\"kind\": \"full\"}").gate.of_offered);
}

static void a_gate_is_read_whole(void **state)
{
    (void)state;
    struct pol_stage stage =
        stage_of("{\"kind\": \"gray\", \"percent\": 12.5, \"rule\": \"logrank\", "
                 "\"max_failure\": 0.25, \"max_rise\": 0.02, \"alpha\": 0.01, \"beta\": 0.2, "
                 "\"tolerated_rise\": 0.005, \"min_sample\": 7, \"min_dwell_s\": 1.5, "
                 "\"no_data_s\": 60, \"min_answered\": 0.8, \"max_silence\": 1.5, \"window_s\": "
                 "90, \"guard_s\": 30, \"on_fail\": \"hold\", \"on_pass\": \"pause\", "
                 "\"control\": 20, \"approval\": true, \"rate\": {\"per_minute\": 9}}");
    const struct pol_gate *gate = &stage.gate;
    assert_int_equal(stage.kind, POL_STAGE_GRAY);
    assert_int_equal(stage.max_bucket, 1250);
    assert_int_equal(stage.control_buckets, 2000);
    assert_int_equal(stage.window_s, 90);
    assert_int_equal(stage.guard_s, 30);
    assert_int_equal(stage.on_fail, POL_ON_FAIL_HOLD);
    assert_int_equal(stage.on_pass, POL_ON_PASS_PAUSE);
    assert_int_equal(stage.pace.per_minute, 9);
    assert_true(stage.approval);
    assert_int_equal(gate->rule, POL_GATE_LOGRANK);
    assert_int_equal(gate->max_failure_ppm, 250000);
    assert_int_equal(gate->max_rise_ppm, 20000);
    assert_int_equal(gate->alpha_ppm, 10000);
    assert_int_equal(gate->beta_ppm, 200000);
    assert_int_equal(gate->tolerated_rise_ppm, 5000);
    assert_int_equal(gate->min_sample, 7);
    assert_int_equal(gate->min_dwell_us, 1500000);
    assert_int_equal(gate->no_data_us, 60000000);
    assert_int_equal(gate->min_answered_ppm, 800000);
    assert_int_equal(gate->max_silence_percent, 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_of_who_was_offered_where_it_is_said),
        cmocka_unit_test(a_gate_is_read_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
