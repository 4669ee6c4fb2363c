// Distances of two runs: the lag is found and taken away, a curve that is missing is far away, and
// distributions are compared at every step.
#include "test_kit.h"

#include "compare/compare.h"

#include <math.h>

#define POINTS 200u

// `devices` come evenly over `span_s`, from `from_s` on.
static void ramp(struct sim_run_files *files, const char *name, double from_s, double span_s)
{
    struct sim_steps *steps = &files->curves[files->curve_count++];
    (void)snprintf(steps->name, sizeof(steps->name), "%s", name);
    steps->x = calloc(POINTS, sizeof(double));
    steps->y = calloc(POINTS, sizeof(double));
    assert_non_null(steps->x);
    assert_non_null(steps->y);
    steps->count = steps->capacity = POINTS;
    for (uint32_t i = 0; i < POINTS; i++) {
        steps->x[i] = from_s + span_s * (i + 1) / POINTS;
        steps->y[i] = files->devices * (i + 1) / POINTS;
    }
}

static void the_lag_is_removed(void **state)
{
    (void)state;
    static const struct {
        double from_s, span_s; // of the first run; the second one: 10, 100
        double lag_s, points;
    } table[] = {
        {10, 100, 0, 0}, {13.5, 100, 3.5, 0}, {2, 100, -8, 0}, {10, 110, 5, 4.6}, {10, 200, 50, 25},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        struct sim_run_files left = {.devices = 1000};
        struct sim_run_files right = {.devices = 1000};
        ramp(&left, "a,ran", table[i].from_s, table[i].span_s);
        ramp(&right, "a,ran", 10, 100);
        struct sim_shift shift = sim_shift_best(&left, &right);
        if (fabs(shift.distance - table[i].points) > 1.0 ||
            fabs(shift.lag_s - table[i].lag_s) > 1.1) {
            fail_msg("row %zu: lag %.2f, %.2f points", i, shift.lag_s, shift.distance);
        }
        sim_run_files_done(&left);
        sim_run_files_done(&right);
    }
}

static void a_missing_curve_is_far_away(void **state)
{
    (void)state;
    struct sim_run_files left = {.devices = 1000};
    struct sim_run_files right = {.devices = 1000};
    ramp(&left, "a,offered", 10, 100);
    ramp(&left, "a,ran", 10, 100);
    ramp(&right, "a,offered", 10, 100);
    assert_true(fabs(sim_shift_best(&left, &right).distance - 100) < 1);
    sim_run_files_done(&left);
    sim_run_files_done(&right);
}

static void distributions(void **state)
{
    (void)state;
    static double x[] = {1, 2, 3, 4};
    static double y[] = {25, 50, 75, 100};
    static double twice[] = {50, 100, 150, 200};
    static double later[] = {2, 3, 4, 5};
    static double far[] = {10, 20, 30, 40};
    const struct sim_steps one = {.x = x, .y = y, .count = 4};
    const struct sim_steps more = {.x = x, .y = twice, .count = 4};
    const struct sim_steps shifted = {.x = later, .y = y, .count = 4};
    const struct sim_steps away = {.x = far, .y = y, .count = 4};
    const struct sim_steps none = {.count = 0};
    assert_true(sim_ks_distance(&one, &one) < 1e-9);
    assert_true(sim_ks_distance(&one, &more) < 1e-9); // twice as many, as fast
    assert_true(fabs(sim_ks_distance(&one, &shifted) - 0.25) < 1e-9);
    assert_true(fabs(sim_ks_distance(&away, &one) - 1) < 1e-9);
    assert_true(fabs(sim_ks_distance(&none, &one) - 1) < 1e-9);
}

static void facts(void **state)
{
    (void)state;
    static const char *const texts[2] = {
        "{\"outcome\":\"passed\",\"exposed\":0,\"completed\":5,\"failed\":1,\"versions\":[{"
        "\"task\":\"t\","
        "\"version\":\"1\",\"manifest\":\"aa\",\"ran\":5}],\"rollouts\":[{\"id\":\"r\",\"state\":"
        "\"completed\"}],\"oracles\":[{\"name\":\"back\",\"holds\":true}]}",
        "{\"outcome\":\"passed\",\"exposed\":0,\"completed\":5,\"failed\":2,\"versions\":[{"
        "\"task\":\"t\","
        "\"version\":\"1\",\"manifest\":\"aa\",\"ran\":6}],\"rollouts\":[{\"id\":\"r\",\"state\":"
        "\"running\"}],\"oracles\":[{\"name\":\"back\",\"holds\":false}]}"};
    static const char *const differ[] = {"failed", "t 1: ran", "rollouts r: state",
                                         "oracles back: holds"};
    struct sim_run_files runs[2] = {{.devices = 1}, {.devices = 1}};
    struct sim_fact fact;
    uint32_t found = 0;
    for (uint32_t i = 0; i < 2; i++) {
        runs[i].json = json_loads(texts[i], 0, NULL);
        assert_non_null(runs[i].json);
    }
    for (uint32_t i = 0; sim_fact_at(&runs[0], &runs[1], i, &fact); i++) {
        bool absent = strcmp(fact.left, "none") == 0; // of the counts that neither has
        if (!fact.equal && !absent) {
            assert_true(found < TEST_COUNT(differ));
            assert_string_equal(fact.name, differ[found++]);
        }
    }
    assert_int_equal(found, TEST_COUNT(differ));
    sim_run_files_done(&runs[0]);
    sim_run_files_done(&runs[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lag_is_removed),
        cmocka_unit_test(a_missing_curve_is_far_away),
        cmocka_unit_test(distributions),
        cmocka_unit_test(facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
