// Stages of a model's release: what is read of them and what is refused, the questions that decide,
// and the row that keeps it all.
#include "test_kit.h"

#include "infer/release/release_row.h"

#define SECOND_US UINT64_C(1000000)

// ---- Reading

static enum base_status read_text(const char *text, struct gw_release_plan *out,
                                  struct base_error *error)
{
    json_t *body = json_loads(text, 0, NULL);
    assert_non_null(body);
    enum base_status status = gw_release_plan_read(body, out, error);
    json_decref(body);
    return status;
}

static void test_plans(void **state)
{
    struct gw_release_plan plan;
    struct base_error error = {0};
    (void)state;
    assert_int_equal(read_text("{}", &plan, &error), BASE_OK);
    assert_int_equal(plan.count, 4);
    assert_true(plan.stages[0].share == 0 && plan.stages[0].shadow > 0);
    assert_true(plan.stages[3].share == 0.5);
    assert_int_equal(plan.stages[3].per_caller, GW_RELEASE_PER_CALLER);
    assert_int_equal(
        read_text("{\"stages\": [{\"shadow\": 1, \"max_differ\": 0.5, \"on_pass\": \"pause\"},"
                  "{\"share\": 0.9, \"min_calls\": 7, \"min_s\": 0, \"on_fail\": \"hold\"}],"
                  "\"tolerance\": {\"absolute\": 0.5, \"relative\": 1}}",
                  &plan, &error),
        BASE_OK);
    assert_int_equal(plan.count, 2);
    assert_true(plan.stages[0].pause && !plan.stages[0].hold && plan.stages[1].hold);
    assert_int_equal(plan.stages[1].min_calls, 7);
    assert_true(plan.stages[1].max_slow == 1.5 && plan.agree.absolute == 0.5);
    struct pol_stage *stages = calloc(GW_RELEASE_STAGES_MAX, sizeof(*stages));
    gw_release_plan_stages(&plan, stages);
    assert_int_equal(pol_stages_check(stages, plan.count), POL_REASON_MATCHED);
    assert_int_equal(stages[0].max_bucket, 10000);
    assert_int_equal(stages[1].max_bucket, 9000);
    free(stages);
    assert_int_equal(gw_release_buckets(0), 0);
    assert_int_equal(gw_release_buckets(0.000001), 1);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *body;
        const char *says;
    } cases[] = {
        {"{\"stages\": []}", "stages: is a list of 1 to 16"},
        {"{\"stages\": 1}", "stages: is a list of 1 to 16"},
        {"{\"stages\": [1]}", "stages[0]: is an object"},
        {"{\"stages\": [{}]}", "stages[0]: has neither \"share\" nor \"shadow\""},
        {"{\"stages\": [{\"shadow\": 0.5}]}",
         "stages[0]: share: the last stage needs one, shadows prove no latency"},
        {"{\"stages\": [{\"share\": 0.5}, {\"share\": 0.4}]}",
         "stages[1]: share: is smaller than before"},
        {"{\"stages\": [{\"share\": 0.91}]}", "stages[0]: share: is a number from 0 to 0.9"},
        {"{\"stages\": [{\"share\": \"much\"}]}", "stages[0]: share: is a number from 0 to 0.9"},
        {"{\"stages\": [{\"share\": 0.5, \"min_calls\": 1.5}]}",
         "stages[0]: min_calls: is a whole number from 1 to 1e+09"},
        {"{\"stages\": [{\"share\": 0.5, \"per_caller\": 10001}]}",
         "stages[0]: per_caller: is a whole number from 0 to 10000"},
        {"{\"stages\": [{\"share\": 0.5, \"on_fail\": \"go on\"}]}",
         "stages[0]: on_fail: is \"roll_back\" or \"hold\""},
        {"{\"stages\": [{\"share\": 0.5, \"max\": 1}]}", "stages[0]: there is no member \"max\""},
        {"{\"tolerance\": {\"relative\": 2}}",
         "tolerance: \"absolute\" from 0, \"relative\" from 0 to 1, or \"argmax\" true or false"},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct gw_release_plan plan;
        struct base_error error = {0};
        assert_int_equal(read_text(cases[i].body, &plan, &error), BASE_ERR_INVALID);
        assert_string_equal(error.text, cases[i].says);
    }
}

// ---- Judging

struct game {
    struct gw_release_plan plan;
    struct pol_stage stages[GW_RELEASE_STAGES_MAX];
    struct pol_rollout rollout;
    struct gw_infer_trial trial;
    struct gw_release_look look;
};

static struct game *game_new(const char *body)
{
    struct base_error error = {0};
    struct game *game = calloc(1, sizeof(*game));
    assert_non_null(game);
    if (read_text(body, &game->plan, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    gw_release_plan_stages(&game->plan, game->stages);
    gw_infer_trial_init(&game->trial);
    game->rollout =
        pol_rollout_command(&game->rollout, game->stages, game->plan.count, POL_COMMAND_START, 0)
            .next;
    assert_int_equal(game->rollout.state, POL_ROLLOUT_RUNNING);
    return game;
}

static void calls(struct gw_infer_seen *seen, uint32_t count, uint32_t failed, uint64_t us)
{
    seen->calls += count;
    seen->failed += failed;
    for (uint32_t i = failed; i < count; i++) {
        base_hist_add(&seen->us, us + i % 10);
    }
}

static const struct pol_decision *judge(struct game *game, uint64_t now_us)
{
    const struct gw_release_course course = {&game->plan, game->stages, &game->rollout};
    gw_release_judge(&course, &game->trial, now_us, &game->look);
    return &game->look.decision;
}

static const char one_stage[] =
    "{\"stages\": [{\"share\": 0.5, \"min_calls\": 500, \"min_s\": 9}]}";

static void test_a_good_version_passes(void **state)
{
    struct game *game = game_new(one_stage);
    (void)state;
    assert_int_equal(judge(game, SECOND_US)->verdict, POL_VERDICT_NO_DATA);
    calls(&game->trial.serving, 4000, 0, 1000);
    calls(&game->trial.candidate, 499, 0, 1000);
    assert_int_equal(judge(game, 20 * SECOND_US)->action, POL_ACTION_HOLD); // too few
    calls(&game->trial.candidate, 3501, 0, 1000);
    assert_int_equal(judge(game, 8 * SECOND_US)->action, POL_ACTION_HOLD); // too early
    const struct pol_decision *decision = judge(game, 9 * SECOND_US);
    assert_int_equal(decision->verdict, POL_VERDICT_PASS);
    assert_int_equal(decision->action, POL_ACTION_COMPLETE);
    assert_true(game->look.answers[GW_RELEASE_ERRORS].asked);
    assert_true(game->look.answers[GW_RELEASE_SLOW].asked);
    assert_false(game->look.answers[GW_RELEASE_DIFFER].asked);
    free(game);
}

// Failures of the candidate's calls, where the serving version has none.
static void test_failures_go_back(void **state)
{
    struct game *game = game_new(one_stage);
    (void)state;
    calls(&game->trial.serving, 500, 0, 1000);
    calls(&game->trial.candidate, 200, 20, 1000);
    const struct pol_decision *decision = judge(game, SECOND_US);
    assert_int_equal(decision->verdict, POL_VERDICT_FAIL);
    assert_int_equal(decision->action, POL_ACTION_ROLL_BACK);
    assert_int_equal(decision->reason, POL_REASON_RISE_OVER_CONTROL);
    assert_int_equal(game->look.decided, GW_RELEASE_ERRORS);
    free(game);
}

// Failures of both alike are nobody's fault.
static void test_failures_of_both(void **state)
{
    struct game *game = game_new(one_stage);
    (void)state;
    calls(&game->trial.serving, 4000, 200, 1000);
    calls(&game->trial.candidate, 4000, 200, 1000);
    assert_int_not_equal(judge(game, 20 * SECOND_US)->verdict, POL_VERDICT_FAIL);
    free(game);
}

static void test_slow_goes_back(void **state)
{
    struct game *game = game_new(one_stage);
    (void)state;
    calls(&game->trial.serving, 2000, 0, 1000);
    calls(&game->trial.candidate, 300, 0, 1000);
    calls(&game->trial.candidate, 30, 0, 1700); // of 330: its p99 is over one and a half times 1009
    const struct pol_decision *decision = judge(game, SECOND_US);
    assert_int_equal(decision->verdict, POL_VERDICT_FAIL);
    assert_int_equal(game->look.decided, GW_RELEASE_SLOW);
    assert_in_range(game->look.answers[GW_RELEASE_SLOW].limit_us, 1500, 1600);
    assert_int_equal(game->look.answers[GW_RELEASE_SLOW].bad, 30);
    free(game);
}

// A little slower, within what the stage allows; and where it does not ask, however slow.
static void test_slower_is_allowed(void **state)
{
    struct game *game = game_new(one_stage);
    (void)state;
    calls(&game->trial.serving, 5000, 0, 1000);
    calls(&game->trial.candidate, 5000, 0, 1300);
    assert_int_equal(judge(game, 20 * SECOND_US)->verdict, POL_VERDICT_PASS);
    calls(&game->trial.serving, 50000, 0, 1000);
    calls(&game->trial.candidate, 49850, 0, 1000);
    calls(&game->trial.candidate, 150, 0, 9000); // 0.3 % of them: its p99 is what it was
    assert_int_not_equal(judge(game, 20 * SECOND_US)->verdict, POL_VERDICT_FAIL);
    free(game);
    game = game_new("{\"stages\": [{\"share\": 0.5, \"min_s\": 0, \"max_slow\": 0}]}");
    calls(&game->trial.serving, 5000, 0, 1000);
    calls(&game->trial.candidate, 5000, 0, 1000000);
    assert_int_equal(judge(game, SECOND_US)->verdict, POL_VERDICT_PASS);
    assert_false(game->look.answers[GW_RELEASE_SLOW].asked);
    free(game);
}

// Nothing is said of latency before the serving version's p99 is known.
static void test_no_control(void **state)
{
    struct game *game = game_new(one_stage);
    (void)state;
    calls(&game->trial.serving, 99, 0, 1000);
    calls(&game->trial.candidate, 5000, 0, 90000);
    assert_int_equal(judge(game, 20 * SECOND_US)->action, POL_ACTION_HOLD);
    assert_int_equal(game->look.answers[GW_RELEASE_SLOW].calls, 0);
    free(game);
}

static void test_shadows(void **state)
{
    static const char body[] =
        "{\"stages\": [{\"shadow\": 1, \"min_s\": 0, \"min_calls\": 100}, {\"share\": 0.5}]}";
    struct game *game = game_new(body);
    (void)state;
    game->trial.agreed = 2000;
    game->trial.dropped = 9999; // nothing is known of these
    const struct pol_decision *decision = judge(game, SECOND_US);
    assert_int_equal(decision->action, POL_ACTION_ADVANCE);
    assert_int_equal(decision->next.stage_index, 1);
    free(game);
    for (uint32_t failed = 0; failed < 2; failed++) {
        game = game_new(body);
        game->trial.agreed = 180;
        game->trial.differed = failed ? 0 : 20;
        game->trial.shadows_failed = failed ? 20 : 0;
        decision = judge(game, SECOND_US);
        assert_int_equal(decision->action, POL_ACTION_ROLL_BACK);
        assert_int_equal(game->look.decided, GW_RELEASE_DIFFER);
        free(game);
    }
}

// One bad answer outweighs two good ones, and an open one holds.
static void test_the_worst_decides(void **state)
{
    struct game *game = game_new(
        "{\"stages\": [{\"share\": 0.5, \"shadow\": 1, \"min_s\": 0, \"on_fail\": \"hold\"}]}");
    (void)state;
    calls(&game->trial.serving, 9000, 0, 1000);
    calls(&game->trial.candidate, 9000, 0, 1000);
    assert_int_equal(judge(game, SECOND_US)->action, POL_ACTION_HOLD); // no shadow yet
    game->trial.agreed = 900;
    game->trial.differed = 100;
    const struct pol_decision *decision = judge(game, SECOND_US);
    assert_int_equal(decision->action, POL_ACTION_PAUSE);
    assert_true(decision->next.stage_failed);
    assert_int_equal(game->look.answers[GW_RELEASE_ERRORS].verdict, POL_VERDICT_PASS);
    free(game);
}

// Of 1,000 calls of the candidate, where the serving version fails none, so many failures stop it.
static uint32_t failures_that_stop(const char *body)
{
    uint32_t failed = 0;
    enum pol_verdict verdict = POL_VERDICT_NO_DATA;
    while (verdict != POL_VERDICT_FAIL && failed < 1000) {
        struct game *game = game_new(body);
        failed++;
        calls(&game->trial.serving, 1000, 0, 1000);
        calls(&game->trial.candidate, 1000, failed, 1000);
        game->trial.agreed = 1000;
        verdict = judge(game, SECOND_US)->verdict;
        assert_true(verdict != POL_VERDICT_FAIL || game->look.decided == GW_RELEASE_ERRORS);
        free(game);
    }
    return failed;
}

// The chance to stop a good version is of all questions together: the more are asked, the more each
// of them has to see.
static void test_each_question_has_its_share(void **state)
{
    static const char *const bodies[] = {
        "{\"stages\": [{\"share\": 0.5, \"max_slow\": 0}]}",
        "{\"stages\": [{\"share\": 0.5}]}",
        "{\"stages\": [{\"share\": 0.5, \"shadow\": 1}]}",
    };
    (void)state;
    uint32_t before = 0;
    for (uint32_t i = 0; i < TEST_COUNT(bodies); i++) {
        uint32_t failed = failures_that_stop(bodies[i]);
        print_message("  %u questions: %u failures\n", i + 1, failed);
        assert_true(failed > before);
        before = failed;
        struct game *game = game_new(bodies[i]);
        (void)judge(game, SECOND_US);
        assert_int_equal(game->stages[0].gate.alpha_ppm, GW_RELEASE_ALPHA_PPM / (i + 1));
        free(game);
    }
}

// What one caller did alone neither stops a stage nor lets it pass; the same of many does.
static void test_one_caller_decides_nothing(void **state)
{
    static const struct {
        uint32_t calls, bad, slow; // of the candidate
        struct gw_infer_most most; // of these of one caller
        uint32_t serving_bad;
        struct gw_infer_most serving_most;
        enum pol_verdict verdict;
    } cases[] = {
        {3000, 100, 0, {50, 5, 7}, 0, {50, 0, 7}, POL_VERDICT_FAIL},
        {3000, 100, 0, {0, 100, 7}, 0, {50, 0, 7}, POL_VERDICT_INCONCLUSIVE},
        {300, 50, 0, {0, 50, 7}, 0, {50, 0, 7}, POL_VERDICT_INCONCLUSIVE},
        {3000, 0, 150, {20, 0, 7}, 0, {50, 0, 7}, POL_VERDICT_FAIL},
        {3000, 0, 150, {150, 0, 7}, 0, {50, 0, 7}, POL_VERDICT_INCONCLUSIVE},
        {4000, 0, 0, {50, 0, 7}, 0, {50, 0, 7}, POL_VERDICT_PASS},
        {4000, 0, 0, {3900, 0, 7}, 0, {50, 0, 7}, POL_VERDICT_INCONCLUSIVE},
        {4000, 60, 0, {50, 5, 7}, 200, {50, 5, 7}, POL_VERDICT_PASS},
        {4000, 60, 0, {50, 5, 7}, 200, {50, 200, 7}, POL_VERDICT_INCONCLUSIVE},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct game *game = game_new(one_stage);
        calls(&game->trial.serving, 4000, cases[i].serving_bad, 1000);
        calls(&game->trial.candidate, cases[i].calls - cases[i].slow, cases[i].bad, 1000);
        calls(&game->trial.candidate, cases[i].slow, 0, 9000);
        game->trial.candidate.most = cases[i].most;
        game->trial.serving.most = cases[i].serving_most;
        enum pol_verdict verdict = judge(game, 20 * SECOND_US)->verdict;
        if (verdict != cases[i].verdict) {
            fail_msg("case %zu: %s", i, pol_verdict_name(verdict));
        }
        assert_int_equal(game->look.decision.action == POL_ACTION_HOLD,
                         verdict == POL_VERDICT_INCONCLUSIVE);
        assert_int_equal(game->look.answers[GW_RELEASE_ERRORS].most.callers, 7);
        assert_int_equal(game->look.answers[GW_RELEASE_SLOW].most.callers, 7);
        free(game);
    }
    for (uint32_t one = 0; one < 2; one++) {
        struct game *game =
            game_new("{\"stages\": [{\"shadow\": 1, \"min_s\": 0}, {\"share\": 0.5}]}");
        game->trial.agreed = 900;
        game->trial.differed = 100;
        game->trial.shadows_most = (struct gw_infer_most){50, one ? 100 : 5, 7};
        assert_int_equal(judge(game, SECOND_US)->verdict,
                         one ? POL_VERDICT_INCONCLUSIVE : POL_VERDICT_FAIL);
        free(game);
    }
}

// The p99 is that of others than the one who called most, and waits until there are enough.
static void test_one_caller_makes_no_p99(void **state)
{
    struct game *game = game_new(one_stage);
    (void)state;
    calls(&game->trial.serving, 949, 0, 1000);
    calls(&game->trial.serving, 50, 0, 90000);
    game->trial.serving.most.good = 50;
    calls(&game->trial.candidate, 3000, 0, 50000);
    (void)judge(game, SECOND_US);
    assert_int_equal(game->look.answers[GW_RELEASE_SLOW].limit_us, 0);
    calls(&game->trial.serving, 1, 0, 1000);
    assert_int_equal(judge(game, SECOND_US)->verdict, POL_VERDICT_FAIL);
    assert_int_equal(game->look.decided, GW_RELEASE_SLOW);
    assert_in_range(game->look.answers[GW_RELEASE_SLOW].limit_us, 1500, 1600);
    free(game);
}

// ---- The row

static void test_rows(void **state)
{
    struct gw_release_model *model = calloc(1, sizeof(*model));
    struct gw_release_model *other = calloc(1, sizeof(*other));
    struct base_error error = {0};
    (void)state;
    snprintf(model->name, sizeof(model->name), "din");
    model->versions[0] = (struct gw_release_version){.number = 7, .bytes = 99, .by = "ana"};
    memset(model->versions[0].digest.bytes, 0xab, WIRE_SHA256_BYTES);
    model->version_count = 1;
    model->serving = 6;
    model->highest = 5;
    char *row = gw_release_row(model);
    assert_non_null(row);
    assert_int_equal(gw_release_row_read(base_str_of(row), 0, other), BASE_OK);
    assert_int_equal(other->candidate, 0);
    free(row);
    model->candidate = 7;
    model->from = 6;
    model->salt = UINT64_C(0xfedcba9876543210);
    assert_int_equal(read_text(one_stage, &model->plan, &error), BASE_OK);
    model->rollout = (struct pol_rollout){.state = POL_ROLLOUT_PAUSED, .stage_failed = true};
    model->events[0] = (struct gw_release_event){.time_s = 5, .stage = 1, .what = "pause"};
    model->event_count = 1;
    row = gw_release_row(model);
    assert_non_null(row);
    assert_int_equal(gw_release_row_read(base_str_of(row), 77, other), BASE_OK);
    assert_string_equal(other->name, "din");
    assert_int_equal(other->versions[0].number, 7);
    assert_string_equal(other->versions[0].by, "ana");
    assert_memory_equal(&other->versions[0].digest, &model->versions[0].digest, WIRE_SHA256_BYTES);
    assert_int_equal(other->serving, 6);
    assert_int_equal(other->highest, 5);
    assert_true(other->salt == model->salt);
    assert_int_equal(other->rollout.state, POL_ROLLOUT_PAUSED);
    assert_true(other->rollout.stage_failed);
    assert_int_equal(other->rollout.stage_since_us, 77);
    assert_int_equal(other->plan.stages[0].min_calls, 500);
    assert_string_equal(other->events[0].what, "pause");
    // Cut anywhere it is no row, and nothing is read behind its end.
    size_t size = strlen(row);
    for (size_t i = 0; i < size; i++) {
        char *copy = malloc(i > 0 ? i : 1);
        memcpy(copy, row, i);
        assert_int_equal(gw_release_row_read((struct base_str){copy, i}, 0, other),
                         BASE_ERR_CORRUPT);
        free(copy);
    }
    free(row);
    free(model);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_a_good_version_passes),
        cmocka_unit_test(test_failures_go_back),
        cmocka_unit_test(test_failures_of_both),
        cmocka_unit_test(test_slow_goes_back),
        cmocka_unit_test(test_slower_is_allowed),
        cmocka_unit_test(test_no_control),
        cmocka_unit_test(test_shadows),
        cmocka_unit_test(test_the_worst_decides),
        cmocka_unit_test(test_each_question_has_its_share),
        cmocka_unit_test(test_one_caller_decides_nothing),
        cmocka_unit_test(test_one_caller_makes_no_p99),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
