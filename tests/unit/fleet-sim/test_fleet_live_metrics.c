// The page of live metrics: every sample has its help and type, what nothing was measured of is
// NaN, and labels from outside cannot end what they stand in.
#include "test_kit.h"

#include "report/live_metrics.h"

#include <string.h>

static char page[1u << 16];

static struct sim_options options;
static struct sim_versions versions;
static struct sim_counters counters;
static struct base_hist lag_us;
static struct base_hist checkin_us;

static void written(void)
{
    const struct sim_metrics_now now = {.options = &options,
                                        .versions = &versions,
                                        .running_s = 1.5,
                                        .counters = &counters,
                                        .lag_us = &lag_us,
                                        .checkin_us = &checkin_us};
    memset(page, 0, sizeof(page));
    FILE *file = fmemopen(page, sizeof(page) - 1, "w");
    assert_non_null(file);
    assert_int_equal(sim_metrics_write(&now, file), BASE_OK);
    assert_int_equal(fclose(file), 0);
}

static void has(const char *line)
{
    char whole[256];
    (void)snprintf(whole, sizeof(whole), "\n%s\n", line);
    if (strstr(page, whole) == NULL) {
        fail_msg("no line %s in:\n%s", line, page);
    }
}

static void begin(void)
{
    memset(&options, 0, sizeof(options));
    memset(&counters, 0, sizeof(counters));
    options.devices = 7;
    base_hist_init(&lag_us);
    base_hist_init(&checkin_us);
    sim_versions_init(&versions);
}

static void nothing_yet(void **state)
{
    (void)state;
    begin();
    written();
    has("walle_fleet_devices 7");
    has("walle_fleet_running_seconds 1.500");
    has("walle_fleet_devices_online 0");
    has("walle_fleet_generator_lag_seconds{quantile=\"0.99\"} NaN");
    has("walle_fleet_generator_lag_seconds_count 0");
    assert_null(strstr(page, "walle_fleet_offers_total{"));
    sim_versions_done(&versions);
}

static void under_way(void **state)
{
    (void)state;
    static const struct wire_sha256 manifests[] = {{.bytes = {1}}, {.bytes = {2}}};
    begin();
    counters.arrived = 5;
    counters.response_bytes = UINT64_MAX;
    counters.boot_failures = 3;
    sim_counters_request(&counters, 0);
    sim_counters_request(&counters, 1);
    sim_counters_request(&counters, 1);
    sim_counters_request(&counters, SIM_REQUEST_KINDS + 5); // of a kind that has no name
    assert_int_equal(counters.requests, 4);
    for (uint32_t i = 1; i <= 1000; i++) {
        base_hist_add(&lag_us, i * 1000);
    }
    for (size_t i = 0; i < TEST_COUNT(manifests); i++) {
        uint8_t number = sim_versions_intern(&versions, &manifests[i]);
        counters.version[number].offered = 4 * (1 - i); // the other one is of another task
        counters.version[number].current = -1;
        sim_versions_describe(&versions, number, BASE_STR("shop/\"a\\\n"), BASE_STR("1.0.0"));
    }
    written();
    has("walle_fleet_devices_online 5");
    has("walle_fleet_response_bytes_total 18446744073709551615");
    has("walle_fleet_requests_total{kind=\"checkin\"} 1");
    has("walle_fleet_requests_total{kind=\"blob\"} 2");
    has("walle_fleet_requests_total{kind=\"other\"} 1");
    has("walle_fleet_invariant_violations_total{invariant=\"recovered\"} 3");
    has("walle_fleet_generator_lag_seconds_count 1000");
    has("walle_fleet_generator_lag_seconds_sum 500.500000");
    has("walle_fleet_offers_total{task=\"shop/\\\"a\\\\\\\\u000a\",version=\"1.0.0\",manifest="
        "\"0100000000000000000000000000000000000000000000000000000000000000\"} 4");
    has("walle_fleet_version_current{task=\"shop/\\\"a\\\\\\\\u000a\",version=\"1.0.0\",manifest="
        "\"0100000000000000000000000000000000000000000000000000000000000000\"} 0");
    assert_null(strstr(page, "\"02000000"));
    sim_versions_done(&versions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_yet),
        cmocka_unit_test(under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
