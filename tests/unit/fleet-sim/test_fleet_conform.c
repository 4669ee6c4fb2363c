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
        struct sim_shift shift = sim_shift_best(&left, &right, 120);
        if (fabs(shift.distance - table[i].points) > 1.0 ||
            fabs(shift.lag_s - table[i].lag_s) > 1.1) {
            fail_msg("row %zu: lag %.2f, %.2f points", i, shift.lag_s, shift.distance);
        }
        sim_run_files_done(&left);
        sim_run_files_done(&right);
    }
}

// A ramp of all devices and one of `few`, the latter `late_s` later in the first run.
static struct sim_shift of_two(uint32_t few, double all_s, double late_s, double lag_max_s,
                               bool swap)
{
    struct sim_run_files runs[2] = {{.devices = 100000}, {.devices = 100000}};
    for (uint32_t k = 0; k < 2; k++) {
        ramp(&runs[k], "a,ran", 10 + (k == 0 ? all_s : 0), 100);
        ramp(&runs[k], "b,ran", 10 + (k == 0 ? late_s : 0), 100);
        for (uint32_t i = 0; i < POINTS; i++) {
            runs[k].curves[1].y[i] *= few / runs[k].devices;
        }
    }
    struct sim_shift shift = sim_shift_best(&runs[swap ? 1 : 0], &runs[swap ? 0 : 1], lag_max_s);
    sim_run_files_done(&runs[0]);
    sim_run_files_done(&runs[1]);
    return shift;
}

static void what_is_late_is_far_away(void **state)
{
    (void)state;
    static const struct {
        uint32_t few;
        double all_s, late_s, lag_max_s;
        double points;
    } table[] = {
        {1000, 110, 110, 10, 100},   {1000, 110, 110, 120, 0}, {1000, 9.5, 9.5, 10, 0},
        {1000, 10.5, 10.5, 10, 0.5}, {1000, 2, 2, 0, 2},       {1000, 0, 600, 10, 100},
        {1000, 0, 6, 10, 3},         {1000, 2.5, 2.5, 2.5, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        struct sim_shift there =
            of_two(table[i].few, table[i].all_s, table[i].late_s, table[i].lag_max_s, false);
        struct sim_shift back =
            of_two(table[i].few, table[i].all_s, table[i].late_s, table[i].lag_max_s, true);
        if (fabs(there.distance - table[i].points) > 0.6 ||
            fabs(there.distance - back.distance) > 1e-9 || fabs(there.lag_s + back.lag_s) > 1e-9 ||
            fabs(there.lag_s) > table[i].lag_max_s) {
            fail_msg("row %zu: lag %.2f, %.2f points; the other way round %.2f, %.2f", i,
                     there.lag_s, there.distance, back.lag_s, back.distance);
        }
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
    assert_true(fabs(sim_shift_best(&left, &right, 120).distance - 100) < 1);
    assert_true(fabs(sim_shift_best(&right, &left, 120).distance - 100) < 1);
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

#define VERSION(manifest, counts)                                                                  \
    "{\"task\":\"t\",\"version\":\"" manifest "\",\"manifest\":\"" manifest "\"," counts "}"
#define COUNTS(offered, ran)                                                                       \
    "\"offered\":" offered ",\"downloaded\":9,\"activated\":9,\"ran\":" ran                        \
    ",\"failed\":1,\"rolled_back\":2,\"current\":3"
#define RUN(totals, versions, state, holds)                                                        \
    "{" totals ",\"versions\":[" versions "],\"rollouts\":[{\"id\":\"r\",\"state\":\"" state       \
    "\"}],\"oracles\":[{\"name\":\"back\",\"holds\":" holds "}]}"
#define TOTALS "\"outcome\":\"passed\",\"exposed\":0,\"completed\":5,\"failed\":1"
#define PLAIN  RUN(TOTALS, VERSION("aa", COUNTS("9", "5")), "completed", "true")

// The names of those that are not equal, with a comma between; how many facts there are is told.
static uint32_t unequal(const char *first, const char *second, char *out, size_t size)
{
    struct sim_run_files runs[2] = {{.devices = 1}, {.devices = 1}};
    const char *const texts[2] = {first, second};
    struct sim_fact fact;
    uint32_t count = 0;
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < 2; i++) {
        runs[i].json = json_loads(texts[i], 0, NULL);
        assert_non_null(runs[i].json);
    }
    for (; sim_fact_at(&runs[0], &runs[1], count, &fact); count++) {
        if (!fact.equal) {
            at += (size_t)snprintf(out + at, size - at, "%s%s", at > 0 ? "," : "", fact.name);
            assert_true(at < size);
        }
    }
    sim_run_files_done(&runs[0]);
    sim_run_files_done(&runs[1]);
    return count;
}

static void facts(void **state)
{
    (void)state;
    static const struct {
        const char *second; // the first one is PLAIN
        const char *unequal;
        uint32_t facts;
    } table[] = {
        {PLAIN, "", 13},
        {RUN("\"outcome\":\"failed\",\"exposed\":0,\"completed\":5,\"failed\":1",
             VERSION("aa", COUNTS("9", "5")), "completed", "true"),
         "outcome", 13},
        {RUN("\"outcome\":\"passed\",\"exposed\":1,\"completed\":6,\"failed\":2",
             VERSION("aa", COUNTS("9", "5")), "completed", "true"),
         "exposed,completed,failed", 13},
        {RUN(TOTALS, VERSION("aa", COUNTS("8", "6")), "completed", "true"),
         "t aa: offered,t aa: ran", 13},
        {RUN(TOTALS,
             VERSION("aa", "\"offered\":9,\"downloaded\":8,\"activated\":8,\"ran\":5,\"failed\":0,"
                           "\"rolled_back\":0,\"current\":4"),
             "completed", "true"),
         "t aa: downloaded,t aa: activated,t aa: failed,t aa: rolled_back,t aa: current", 13},
        {RUN(TOTALS, VERSION("aa", COUNTS("9", "5")), "halted", "false"),
         "rollouts r: state,oracles back: holds", 13},
        // What only one of them has.
        {RUN(TOTALS, VERSION("aa", COUNTS("9", "5")) "," VERSION("bb", COUNTS("9", "5")),
             "completed", "true"),
         "t bb: offered,t bb: downloaded,t bb: activated,t bb: ran,t bb: failed,t bb: rolled_back,"
         "t bb: current",
         20},
        {RUN(TOTALS, VERSION("aa", COUNTS("9", "5")),
             "completed\"},{\"id\":\"s\",\"state\":\"halted",
             "true},{\"name\":\"loss\",\"holds\":false"),
         "rollouts s: state,oracles loss: holds", 15},
        // Two that are named alike are two.
        {RUN(TOTALS, VERSION("aa", COUNTS("9", "5")),
             "completed\"},{\"id\":\"r\",\"state\":\"halted", "true"),
         "rollouts r: state", 14},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        char there[512];
        char back[512];
        uint32_t counts[2] = {unequal(PLAIN, table[i].second, there, sizeof(there)),
                              unequal(table[i].second, PLAIN, back, sizeof(back))};
        if (counts[0] != table[i].facts || counts[1] != counts[0] ||
            strcmp(there, table[i].unequal) != 0 || strcmp(back, there) != 0) {
            fail_msg("row %zu: %u facts: %s; the other way round %u: %s", i, counts[0], there,
                     counts[1], back);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lag_is_removed),
        cmocka_unit_test(what_is_late_is_far_away),
        cmocka_unit_test(a_missing_curve_is_far_away),
        cmocka_unit_test(distributions),
        cmocka_unit_test(facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
