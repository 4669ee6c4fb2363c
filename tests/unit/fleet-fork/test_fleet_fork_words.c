// Words of a fork: acts of a run at a second, and branches made of them.
#include "test_kit.h"

#include "fork/fork.h"

static enum base_status add(struct sim_acts *acts, struct sim_fault_plan *plan, const char *text)
{
    struct base_error error = {.status = BASE_OK};
    enum base_status status = sim_act_add(acts, plan, base_str_of(text), &error);
    assert_true(status == BASE_OK || error.text[0] != '\0');
    return status;
}

static void acts_are_words_and_faults(void **state)
{
    (void)state;
    static struct sim_acts acts;
    static struct sim_fault_plan plan;
    assert_int_equal(add(&acts, &plan, "12 pause"), BASE_OK);
    assert_int_equal(add(&acts, &plan, "30  abort "), BASE_OK);
    assert_int_equal(acts.count, 2);
    assert_int_equal(acts.list[0].at_s, 12);
    assert_string_equal(acts.list[0].word, "pause");
    assert_int_equal(acts.list[1].at_s, 30);
    assert_string_equal(acts.list[1].word, "abort");
    assert_int_equal(plan.rule_count, 0);
    assert_int_equal(add(&acts, &plan, "7 fault network:loss @ 5%"), BASE_OK);
    assert_int_equal(plan.rule_count, 1);
    assert_int_equal(plan.rules[0].kind, SIM_FAULT_LOSS);
    assert_int_equal(plan.rules[0].from_s, 7);
    assert_false(sim_fault_begun(&plan.rules[0], 6999999));
    assert_true(sim_fault_begun(&plan.rules[0], 7000000));
    // The earlier end of all faults holds.
    assert_int_equal(add(&acts, &plan, "40 calm"), BASE_OK);
    assert_int_equal(plan.until_s, 40);
    assert_int_equal(add(&acts, &plan, "50 calm"), BASE_OK);
    assert_int_equal(plan.until_s, 40);
    assert_int_equal(add(&acts, &plan, "20 calm"), BASE_OK);
    assert_int_equal(plan.until_s, 20);
    assert_int_equal(acts.count, 2);
}

static void odd_acts_are_refused(void **state)
{
    (void)state;
    static const char *const odd[] = {"",
                                      "pause",
                                      "0 pause",
                                      "-1 pause",
                                      "1000001 pause",
                                      "5 paus",
                                      "5 pause x",
                                      "5 fault loss",
                                      "5 fault",
                                      "5",
                                      "5 fault network:loss @ 5% where x",
                                      "5.5 pause"};
    static struct sim_acts acts;
    static struct sim_fault_plan plan;
    for (size_t i = 0; i < TEST_COUNT(odd); i++) {
        assert_int_equal(add(&acts, &plan, odd[i]), BASE_ERR_INVALID);
    }
    assert_int_equal(acts.count, 0);
    assert_int_equal(plan.rule_count, 0);
    for (uint32_t i = 0; i < SIM_ACTS_MAX; i++) {
        assert_int_equal(add(&acts, &plan, "5 promote"), BASE_OK);
    }
    assert_int_equal(add(&acts, &plan, "5 promote"), BASE_ERR_LIMIT);
}

static struct sim_fork *fork_new(void)
{
    static struct sim_fork fork;
    sim_fork_done(&fork);
    fork = (struct sim_fork){.at_s = 100, .count = 1};
    fork.branches = calloc(SIM_BRANCHES_MAX, sizeof(*fork.branches));
    assert_non_null(fork.branches);
    (void)snprintf(fork.branches[0].name, sizeof(fork.branches[0].name), "as-it-was");
    return &fork;
}

static void branches_have_names_and_deeds(void **state)
{
    (void)state;
    struct base_error error = {.status = BASE_OK};
    struct sim_fork *fork = fork_new();
    assert_int_equal(sim_branch_add(fork, "pause", &error), BASE_OK);
    assert_int_equal(sim_branch_add(fork, "slow: pause ; +60 resume", &error), BASE_OK);
    assert_int_equal(sim_branch_add(fork, "fault network:loss @ 5% where os == \"ios\"", &error),
                     BASE_OK);
    assert_int_equal(sim_branch_add(fork, "net:+5 fault gateway:down 60 @ 1; calm", &error),
                     BASE_OK);
    assert_int_equal(sim_branches_place(fork, &error), BASE_OK);
    assert_int_equal(fork->count, 5);
    assert_string_equal(fork->branches[1].name, "pause");
    assert_string_equal(fork->branches[1].acts[0], "100 pause");
    assert_string_equal(fork->branches[2].name, "slow");
    assert_int_equal(fork->branches[2].act_count, 2);
    assert_string_equal(fork->branches[2].acts[0], "100 pause");
    assert_string_equal(fork->branches[2].acts[1], "160 resume");
    assert_string_equal(fork->branches[3].name, "fault");
    assert_string_equal(fork->branches[3].acts[0],
                        "100 fault network:loss @ 5% where os == \"ios\"");
    assert_string_equal(fork->branches[4].acts[0], "105 fault gateway:down 60 @ 1");
    assert_string_equal(fork->branches[4].acts[1], "100 calm");
    sim_fork_done(fork);
}

static void odd_branches_are_refused(void **state)
{
    (void)state;
    static const char *const odd[] = {"",
                                      ":pause",
                                      "x:",
                                      "x: pause;",
                                      "as-it-was: pause",
                                      "a b: pause",
                                      "../x: pause",
                                      "x: stop",
                                      "x: +a pause",
                                      "x: +5",
                                      "a-name-that-is-longer-than-a-folder: pause"};
    for (size_t i = 0; i < TEST_COUNT(odd); i++) {
        struct base_error error = {.status = BASE_OK};
        struct sim_fork *fork = fork_new();
        enum base_status status = sim_branch_add(fork, odd[i], &error);
        if (status == BASE_OK) {
            status = sim_branches_place(fork, &error);
        }
        if (status == BASE_OK) {
            fail_msg("'%s' is taken", odd[i]);
        }
        assert_true(error.text[0] != '\0');
        sim_fork_done(fork);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acts_are_words_and_faults),
        cmocka_unit_test(odd_acts_are_refused),
        cmocka_unit_test(branches_have_names_and_deeds),
        cmocka_unit_test(odd_branches_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
