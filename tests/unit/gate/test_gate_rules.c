// The rivals' rules as their documentation states them, corner by corner.
#include "test_kit.h"

#include "gate_rules.h"

static void hawkbit_divides_by_the_group(void **state)
{
    (void)state;
    struct rule_hawkbit rule = {.success_percent = 50, .error_percent = 10};
    // 500 of 500 answers failed, but 2,000 of 20,000 is not more than 10 %.
    struct rule_group group = {.total = 20000, .finished = 0, .error = 500};
    assert_int_equal(rule_hawkbit_tick(&rule, &group), RULE_WAIT);
    group.error = 2000;
    assert_int_equal(rule_hawkbit_tick(&rule, &group), RULE_WAIT);
    group.error = 2001;
    assert_int_equal(rule_hawkbit_tick(&rule, &group), RULE_STOP);
    group = (struct rule_group){.total = 100, .finished = 50, .error = 10};
    assert_int_equal(rule_hawkbit_tick(&rule, &group), RULE_NEXT);
    group.error = 11; // the error condition comes first
    assert_int_equal(rule_hawkbit_tick(&rule, &group), RULE_STOP);
    // Everybody is done: the success action, below the success threshold.
    rule = (struct rule_hawkbit){.success_percent = 80, .error_percent = 50};
    group = (struct rule_group){.total = 100, .finished = 55, .error = 45};
    assert_int_equal(rule_hawkbit_tick(&rule, &group), RULE_NEXT);
    group = (struct rule_group){.total = 0};
    assert_int_equal(rule_hawkbit_tick(&rule, &group), RULE_NEXT);
}

static void aws_waits_for_executions(void **state)
{
    (void)state;
    struct rule_aws_criterion criterion = {
        .failure = RULE_AWS_ALL, .min_executed = 100, .threshold_hundredth = 1250};
    struct rule_executions executions = {.notified = 1000, .succeeded = 0, .failed = 99};
    assert_false(rule_aws_aborts(&criterion, &executions));
    executions.failed = 100;
    assert_true(rule_aws_aborts(&criterion, &executions));
    executions = (struct rule_executions){.succeeded = 175, .failed = 10, .timed_out = 15};
    assert_true(rule_aws_aborts(&criterion, &executions)); // exactly 12.5 %
    executions.succeeded = 176;
    assert_false(rule_aws_aborts(&criterion, &executions));
    executions.rejected = 1; // ALL includes rejections
    assert_true(rule_aws_aborts(&criterion, &executions));
    criterion.failure = RULE_AWS_TIMED_OUT;
    assert_false(rule_aws_aborts(&criterion, &executions));
    criterion.failure = RULE_AWS_FAILED;
    assert_false(rule_aws_aborts(&criterion, &executions));
}

static void aws_rate_doubles(void **state)
{
    (void)state;
    // The example of the documentation: base 50, factor 2, every 1,000 notified.
    struct rule_aws_rate rate = {.base_per_minute = 50,
                                 .increment_tenth = 20,
                                 .notified_things = 1000,
                                 .maximum_per_minute = 1000};
    assert_int_equal((int)rule_aws_per_minute(&rate, 999), 50);
    assert_int_equal((int)rule_aws_per_minute(&rate, 1000), 100);
    assert_int_equal((int)rule_aws_per_minute(&rate, 2000), 200);
    assert_int_equal((int)rule_aws_per_minute(&rate, 4000), 800);
    assert_int_equal((int)rule_aws_per_minute(&rate, 5000), 1000);
    assert_int_equal((int)rule_aws_per_minute(&rate, UINT64_MAX), 1000);
    rate.increment_tenth = 10;
    assert_int_equal((int)rule_aws_per_minute(&rate, UINT64_MAX), 50);
}

static void argo_counts_measurements(void **state)
{
    (void)state;
    struct rule_argo rule = {.count = 3,
                             .failure_limit = 1,
                             .consecutive_error_limit = 2,
                             .success_at_most = 0.05,
                             .failure_above = 0.1};
    struct rule_argo_run run = {0, 0, 0, 0};
    assert_int_equal(rule_argo_measure(&rule, &run, 20, 100), RULE_ARGO_RUNNING);
    assert_int_equal(rule_argo_measure(&rule, &run, 1, 100), RULE_ARGO_RUNNING);
    struct rule_argo_run failing = run;
    assert_int_equal(rule_argo_measure(&rule, &run, 5, 100), RULE_ARGO_SUCCESSFUL);
    assert_int_equal(rule_argo_measure(&rule, &failing, 11, 100), RULE_ARGO_FAILED);
    run = (struct rule_argo_run){0, 0, 0, 0}; // between the two conditions
    assert_int_equal(rule_argo_measure(&rule, &run, 7, 100), RULE_ARGO_INCONCLUSIVE);
    run = (struct rule_argo_run){0, 0, 0, 0}; // no data is an error
    rule.count = 10;
    assert_int_equal(rule_argo_measure(&rule, &run, 0, 0), RULE_ARGO_RUNNING);
    assert_int_equal(rule_argo_measure(&rule, &run, 0, 0), RULE_ARGO_RUNNING);
    struct rule_argo_run again = run;
    assert_int_equal(rule_argo_measure(&rule, &run, 0, 0), RULE_ARGO_ERROR);
    assert_int_equal(rule_argo_measure(&rule, &again, 0, 5), RULE_ARGO_RUNNING);
    assert_int_equal(rule_argo_measure(&rule, &again, 0, 0), RULE_ARGO_RUNNING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hawkbit_divides_by_the_group),
        cmocka_unit_test(aws_waits_for_executions),
        cmocka_unit_test(aws_rate_doubles),
        cmocka_unit_test(argo_counts_measurements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
