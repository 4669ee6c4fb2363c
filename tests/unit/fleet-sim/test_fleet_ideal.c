// Delay over ideal: a curve that lags by a known time is found to lag by it at every share and at
// the points of the arrivals, what was never reached says so, and a version that came late is not
// held against the devices that were there before it.
#include "test_kit.h"

#include "report/delay_ideal.h"

#include <math.h>

#define DEVICES 2200u

struct rig {
    struct sim_options options;
    struct sim_run_result result;
    struct sim_versions versions;
    struct sim_timeline timeline;
    struct test_alloc alloc;
};

// A second a row: as many ran it as had come `lag_s` before, at most `most`; nobody before
// `from_s`.
static void begin(struct rig *rig, const char *shape, double lag_s, double from_s, uint64_t most)
{
    const struct sim_arrival_fleet fleet = {.devices = DEVICES};
    struct wire_sha256 digest = {{0xab}};
    memset(rig, 0, sizeof(*rig));
    test_alloc_init(&rig->alloc, SIZE_MAX);
    sim_versions_init(&rig->versions);
    uint8_t version = sim_versions_intern(&rig->versions, &digest);
    sim_versions_describe(&rig->versions, version, BASE_STR("ipv"), BASE_STR("1.0.0"));
    rig->options.devices = DEVICES;
    assert_int_equal(sim_arrivals_new(shape, &fleet, &rig->options.arrivals, NULL), BASE_OK);
    assert_int_equal(sim_timeline_init(&rig->timeline, &rig->alloc.port), BASE_OK);
    for (uint32_t t = 1; t <= 1200; t++) {
        struct sim_row row = {.t_s = t};
        row.arrived = (uint64_t)sim_arrivals_by(rig->options.arrivals, t);
        double came = t > lag_s ? sim_arrivals_by(rig->options.arrivals, t - lag_s) : 0;
        uint64_t ran = came < (double)most ? (uint64_t)came : most;
        row.version[version].ran = t > from_s ? ran : 0;
        row.version[version].offered = t > from_s ? ran + 1 : 0;
        sim_timeline_add(&rig->timeline, &row);
    }
    rig->result.options = &rig->options;
    rig->result.versions = &rig->versions;
    rig->result.version_count = sim_versions_count(&rig->versions);
    rig->result.timeline = &rig->timeline;
    rig->result.rate_version = version;
}

static void end(struct rig *rig)
{
    sim_arrivals_free(rig->options.arrivals);
    sim_timeline_done(&rig->timeline);
    sim_versions_done(&rig->versions);
    assert_int_equal(rig->alloc.live, 0);
}

static void close_to(double got, double expected, double by)
{
    if (!(fabs(got - expected) <= by)) {
        fail_msg("%.4f, not %.4f", got, expected);
    }
}

static void a_lag_is_found_everywhere(void **state)
{
    (void)state;
    static struct rig rig;
    struct sim_ideal ideal;
    begin(&rig, "points:420=7,1140=22", 12, 0, DEVICES);
    sim_ideal_compare(&rig.result, &ideal);
    assert_int_equal(ideal.version, 1);
    assert_int_equal(ideal.point_count, 2);
    for (uint32_t i = 0; i < SIM_IDEAL_SHARES; i++) {
        close_to(ideal.shares[i].reached_s - ideal.shares[i].ideal_s, 12, 1);
    }
    close_to(ideal.points[0].ideal_s, 420, 0.001);
    close_to(ideal.points[0].devices, 700, 0.01);
    close_to(ideal.points[0].ran, 700 - 12 * 700.0 / 420, 1.5);
    close_to(ideal.points[1].ran, 2200 - 12 * 1500.0 / 720, 1.5);
    end(&rig);
}

static void what_is_not_reached_says_so(void **state)
{
    (void)state;
    static struct rig rig;
    struct sim_ideal ideal;
    char *text = NULL;
    begin(&rig, "points:420=7,1140=22", 0, 0, 2000);
    sim_ideal_compare(&rig.result, &ideal);
    assert_true(ideal.shares[1].reached_s > 0); // 90 %
    assert_true(ideal.shares[2].reached_s < 0); // 99 %
    json_t *json = sim_ideal_json(&rig.result);
    assert_non_null(json);
    text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6));
    assert_non_null(strstr(text, "\"delay_s\":null"));
    assert_non_null(strstr(text, "\"version\":\"ipv 1.0.0\""));
    free(text);
    json_decref(json);
    end(&rig);
}

// Half of the fleet was online when the version came at 500 s.
static void a_version_that_comes_later(void **state)
{
    (void)state;
    static struct rig rig;
    struct sim_ideal ideal;
    begin(&rig, "points:420=11,1140=22", 0, 500, DEVICES);
    sim_ideal_compare(&rig.result, &ideal);
    close_to(ideal.released_s, 500, 0.001);
    close_to(ideal.shares[0].ideal_s, 500, 0.001); // not 420
    close_to(ideal.shares[0].reached_s - ideal.shares[0].ideal_s, 1, 1);
    end(&rig);
}

// Devices may come a little before the shape says: what is compared are those that came.
static void no_delay_is_negative(void **state)
{
    (void)state;
    static struct rig rig;
    struct sim_ideal ideal;
    begin(&rig, "points:420=7,1140=22", 0, 0, DEVICES);
    for (uint32_t i = 0; i < rig.timeline.count; i++) {
        struct sim_row *row = &rig.timeline.rows[i];
        row->arrived = row->arrived + 40 < DEVICES ? row->arrived + 40 : DEVICES;
        row->version[1].ran = row->arrived; // at once
    }
    sim_ideal_compare(&rig.result, &ideal);
    for (uint32_t i = 0; i < SIM_IDEAL_SHARES; i++) {
        close_to(ideal.shares[i].reached_s - ideal.shares[i].ideal_s, 0, 1e-9);
        close_to(ideal.shares[i].ran, ideal.shares[i].devices, 1e-6);
    }
    for (uint32_t i = 0; i < ideal.point_count; i++) {
        assert_true(ideal.points[i].reached_s >= ideal.points[i].ideal_s);
        assert_true(ideal.points[i].ran <= ideal.points[i].devices);
    }
    end(&rig);
}

static void without_a_version_there_is_nothing(void **state)
{
    (void)state;
    static struct rig rig;
    begin(&rig, "steady:10", 0, 0, DEVICES);
    rig.result.rate_version = SIM_VERSION_NONE;
    json_t *json = sim_ideal_json(&rig.result);
    assert_true(json_is_null(json));
    rig.result.rate_version = 1;
    rig.options.local = true; // a simulation has no gateway
    json = sim_ideal_json(&rig.result);
    assert_true(json_is_null(json));
    end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lag_is_found_everywhere),
        cmocka_unit_test(what_is_not_reached_says_so),
        cmocka_unit_test(a_version_that_comes_later),
        cmocka_unit_test(no_delay_is_negative),
        cmocka_unit_test(without_a_version_there_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
