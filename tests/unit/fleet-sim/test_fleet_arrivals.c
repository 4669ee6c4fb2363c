// Curves of arrivals: every shape has the counts that its words say, a device's time grows with its
// number, groups of devices follow the same curve, and a wrong word is named.
#include "test_kit.h"

#include "people/arrivals.h"

#include <math.h>

static struct sim_arrivals *curve(const char *shape, uint32_t devices)
{
    const struct sim_arrival_fleet fleet = {.devices = devices};
    struct base_error error = {.text = ""};
    struct sim_arrivals *arrivals = NULL;
    if (sim_arrivals_new(shape, &fleet, &arrivals, &error) != BASE_OK) {
        fail_msg("%s: %s", shape, error.text);
    }
    return arrivals;
}

static void close_to(const char *what, double got, double expected, double by)
{
    if (!(fabs(got - expected) <= by)) {
        fail_msg("%s: %.6f, not %.6f", what, got, expected);
    }
}

static void shapes_have_the_counts_that_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        uint32_t devices;
        double second;
        double come;
    } table[] = {
        {"steady:250", 1000, 2, 500},
        {"steady:0.5", 1000, 100, 50},
        {"steady:250", 1000, 4, 1000},
        {"steady:250", 1000, 900, 1000},
        {"ramp:0:100:10", 2000, 5, 125},
        {"ramp:0:100:10", 2000, 10, 500},
        {"ramp:0:100:10", 2000, 15, 1000},
        {"ramp:100:20:10", 2000, 10, 600},
        {"ramp:100:20:10", 300, 90, 300}, // all have come before the ramp ends
        {"spike:10:500:20", 2000, 20, 200},
        {"spike:10:500:20", 2000, 21, 710},
        {"spike:10:500:20", 2000, 31, 810},
        {"spike:10:50000:20", 2000, 21, 2000},
        {"points:420=7000000,1140=22000000", 22000000, 210, 3500000},
        {"points:420=7000000,1140=22000000", 22000000, 420, 7000000},
        {"points:420=7000000,1140=22000000", 22000000, 780, 14500000},
        {"points:420=7000000,1140=22000000", 22000000, 1140, 22000000},
        {"points:420=7000000,1140=22000000", 2200, 420, 700}, // the same curve of fewer
        {"points:0=5,10=10", 1000, 0, 500},
        {"points:10=1,20=1,30=2", 1000, 15, 500},
        {"diurnal:0", 24000, 86400, 24000},
        {"diurnal:0", 100000, 3600, 2400},
        {"diurnal:20", 100000, 7200, 16300},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        struct sim_arrivals *arrivals = curve(table[i].shape, table[i].devices);
        double come = sim_arrivals_by(arrivals, table[i].second);
        close_to(table[i].shape, come, table[i].come, 0.6);
        if (table[i].come > 0 && table[i].come < table[i].devices) {
            double when = sim_arrivals_when(arrivals, table[i].come);
            close_to(table[i].shape, sim_arrivals_by(arrivals, when), table[i].come, 0.6);
        }
        sim_arrivals_free(arrivals);
    }
}

static void zones_shift_the_day(void **state)
{
    (void)state;
    struct sim_arrival_fleet fleet = {.devices = 100000};
    struct sim_arrivals *arrivals = NULL;
    fleet.zone_weights[8] = 30; // at 16 of UTC it is midnight there
    fleet.zone_weights[0] = 10;
    assert_int_equal(sim_arrivals_new("diurnal:16", &fleet, &arrivals, NULL), BASE_OK);
    double expected = 100000 * (0.75 * 0.024 + 0.25 * 0.044);
    close_to("an hour", sim_arrivals_by(arrivals, 3600), expected, 1);
    sim_arrivals_free(arrivals);
}

static void times_grow_with_the_number(void **state)
{
    (void)state;
    static const char *const shapes[] = {"steady:3.25", "ramp:0:40:30", "spike:7:300:11",
                                         "points:0=3,4=10,9=10,12.5=90", "diurnal:7"};
    for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
        struct sim_arrivals *arrivals = curve(shapes[i], 5000);
        struct base_prng prng;
        uint64_t before_us = 0;
        base_prng_seed(&prng, i);
        for (uint32_t d = 0; d < 5000; d++) {
            const struct sim_arrival arrival = {d, 5000, base_prng_next(&prng)};
            uint64_t us = sim_arrivals_us(arrivals, &arrival);
            assert_true(us >= before_us);
            assert_true(us == sim_arrivals_us(arrivals, &arrival));
            double come = sim_arrivals_by(arrivals, (double)us / 1e6 + 1e-5);
            if (come < d - 0.1) {
                fail_msg("%s: device %u at %llu us, when %f had come", shapes[i], d,
                         (unsigned long long)us, come);
            }
            before_us = us;
        }
        assert_true((double)before_us / 1e6 <= sim_arrivals_span(arrivals));
        sim_arrivals_free(arrivals);
    }
}

// A third of the fleet follows the whole curve.
static void groups_follow_the_same_curve(void **state)
{
    (void)state;
    struct sim_arrivals *arrivals = curve("points:420=7,1140=22", 6600);
    uint32_t early = 0;
    for (uint32_t d = 0; d < 2200; d++) {
        const struct sim_arrival arrival = {d, 2200, 0};
        early += sim_arrivals_us(arrivals, &arrival) < 420000000;
    }
    assert_int_equal(early, 700);
    sim_arrivals_free(arrivals);
}

static void wrong_words_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        const char *said;
    } table[] = {
        {"", "steady:R, ramp"},
        {"steady", "steady:R is expected"},
        {"steady:0", "above 0"},
        {"steady:1:2", "steady:R is expected"},
        {"steady:1.1234567", "steady:R is expected"},
        {"steady:10000001", "steady:R is expected"},
        {"ramp:1:2", "ramp:A:B:S is expected"},
        {"ramp:1:0:3", "above 0"},
        {"ramp:1:2:0", "above 0"},
        {"spike:0:1:2", "spike:R:N:S is expected"},
        {"points:1", "points:S=N"},
        {"points:1=2,", "points:S=N"},
        {"points:1=2,1=3", "no later"},
        {"points:2=2,1=3", "no later"},
        {"points:1=2,2=1", "do not get fewer"},
        {"points:1=0", "nobody"},
        {"points:-1=4", "a second is expected"},
        {"points:1=x", "a number of devices"},
        {"diurnal:24", "H from 0 to 23"},
        {"trace:/nowhere/at/all", "/nowhere/at/all: No such file"},
        {"wave:3", "is expected"},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        const struct sim_arrival_fleet fleet = {.devices = 10};
        struct base_error error = {.text = ""};
        struct sim_arrivals *arrivals = NULL;
        enum base_status status = sim_arrivals_new(table[i].shape, &fleet, &arrivals, &error);
        if (status == BASE_OK || strstr(error.text, table[i].said) == NULL) {
            fail_msg("%s: '%s', not '%s'", table[i].shape, error.text, table[i].said);
        }
        assert_null(arrivals);
    }
}

static void traces_are_read_line_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *said; // NULL: it is good
    } table[] = {
        {"# a curve\n\n0 0\n10.5 20 # of them\n\t20   40\r\n", NULL},
        {"10 20\n10\n", "curve:2: a number of devices"},
        {"10 20\n\n20 30 40\n", "curve:3: two numbers"},
        {"10 20\n5 30", "curve:2: the seconds go on"},
        {"", "curve:0: the last point has nobody"},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        const struct sim_arrival_fleet fleet = {.devices = 4000};
        struct base_error error = {.text = ""};
        struct sim_arrivals *arrivals = NULL;
        double points[SIM_ARRIVAL_POINTS_MAX];
        enum base_status status =
            sim_arrivals_trace("curve", base_str_of(table[i].text), &fleet, &arrivals, &error);
        if (table[i].said != NULL) {
            assert_int_equal(status, BASE_ERR_INVALID);
            if (strstr(error.text, table[i].said) == NULL) {
                fail_msg("'%s', not '%s'", error.text, table[i].said);
            }
            continue;
        }
        assert_int_equal(status, BASE_OK);
        close_to("trace", sim_arrivals_by(arrivals, 10.5), 2000, 0.1);
        assert_int_equal(sim_arrivals_points(arrivals, points), 0);
        sim_arrivals_free(arrivals);
    }
}

static void points_are_named(void **state)
{
    (void)state;
    double points[SIM_ARRIVAL_POINTS_MAX];
    struct sim_arrivals *arrivals = curve("points:420=7,1140=22", 22);
    assert_int_equal(sim_arrivals_points(arrivals, points), 2);
    close_to("first", points[0], 420, 1e-9);
    close_to("second", points[1], 1140, 1e-9);
    sim_arrivals_free(arrivals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_have_the_counts_that_they_say),
        cmocka_unit_test(zones_shift_the_day),
        cmocka_unit_test(times_grow_with_the_number),
        cmocka_unit_test(groups_follow_the_same_curve),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(traces_are_read_line_by_line),
        cmocka_unit_test(points_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
