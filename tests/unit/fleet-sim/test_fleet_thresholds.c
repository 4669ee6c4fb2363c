// Thresholds: what may be written, what is refused where, and what holds. A measure of which there
// is nothing never holds, whichever way it is compared.
#include "test_kit.h"

#include "report/measures.h"
#include "report/thresholds.h"

#include <string.h>

static struct sim_options options;
static struct sim_versions versions;
static struct sim_run_result result;

static void add(const char *text)
{
    struct base_error error = {0};
    struct sim_threshold *place = &options.thresholds[options.threshold_count++];
    if (sim_threshold_parse(base_str_of(text), place, &error) != BASE_OK) {
        fail_msg("%s: %s", text, error.text);
    }
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t column;
        const char *words;
    } rows[] = {
        {"", 1, "the name of a metric is expected"},
        {"   ", 4, "the name of a metric is expected"},
        {"<5", 1, "the name of a metric is expected"},
        {"checkin_p98<1s", 1, "no metric is called checkin_p98: checkin_p90 is one"},
        {" Runs<1", 2, "the name of a metric is expected"},
        {"unheard_of_by_anybody_ever_and_far_too_long<1", 1, "no metric is called unheard_of"},
        {"checkin<1s", 8, "which part of the latency"},
        {"runs", 5, "one of < <= > >= == != is expected"},
        {"runs=5", 5, "one of < <= > >= == != is expected"},
        {"runs=<5", 5, "one of < <= > >= == != is expected"},
        {"runs<", 6, "a number is expected"},
        {"runs<-1", 6, "a number is expected"},
        {"runs<inf", 6, "a number is expected"},
        {"runs<nan", 6, "a number is expected"},
        {"runs<1e999", 6, "a number is expected"},
        {"checkin_p99>=1e308m", 14, "a number is expected"},
        {"runs<5%", 7, "a number without a unit"},
        {"runs<5 devices", 8, "something stands behind the value"},
        {"checkin_p99<200", 16, "a latency has us, ms, s or m"},
        {"checkin_p99<200h", 16, "a latency has us, ms, s or m"},
        {"runs<0x10", 6, "decimal digits"},
        {"checkin_p99<0X1p3s", 13, "decimal digits"},
        {"failed_share<=1", 15, "1 of a share may be meant as 1% or as 100%"},
        {"failed_share<=1.0", 15, "1 of a share may be meant as 1% or as 100%"},
        {"failed_share<=2", 15, "a share is expected"},
        {"failed_share<=101%", 15, "a share is expected"},
        {"failed_share<=1s", 15, "a share is expected"},
        {"coverage>=99% of them", 15, "something stands behind the value"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct sim_threshold threshold = {.measure = 77};
        struct base_error error = {0};
        print_message("%s\n", rows[i].text);
        assert_int_equal(sim_threshold_parse(base_str_of(rows[i].text), &threshold, &error),
                         BASE_ERR_INVALID);
        print_message("  column %u: %s\n", error.column, error.text);
        assert_int_equal(error.column, rows[i].column);
        assert_non_null(strstr(error.text, rows[i].words));
        assert_int_equal(threshold.measure, 77); // as it was
    }
    char text[2 * SIM_THRESHOLD_TEXT_MAX];
    for (size_t size = SIM_THRESHOLD_TEXT_MAX - 1; size <= SIM_THRESHOLD_TEXT_MAX; size++) {
        struct sim_threshold threshold;
        memset(text, ' ', size);
        text[size] = '\0';
        memcpy(text, "runs<5", 6);
        assert_int_equal(sim_threshold_parse(base_str_of(text), &threshold, NULL),
                         size < SIM_THRESHOLD_TEXT_MAX ? BASE_OK : BASE_ERR_INVALID);
    }
}

// Ten devices ran the version, two of them failed; 100 check-ins of 1 to 100 ms.
static void measured(void)
{
    static const struct wire_sha256 manifest = {.bytes = {7}};
    memset(&options, 0, sizeof(options));
    memset(&result, 0, sizeof(result));
    options.devices = 16;
    result.options = &options;
    result.versions = &versions;
    for (uint32_t i = 0; i < SIM_EXCHANGE_KIND_COUNT; i++) {
        base_hist_init(&result.latencies.request_us[i]);
    }
    base_hist_init(&result.latencies.lag_us);
    base_hist_init(&result.latencies.checkin_us);
    base_hist_init(&result.offer_to_run_us);
    for (uint32_t i = 1; i <= 100; i++) {
        base_hist_add(&result.latencies.request_us[SIM_EXCHANGE_CHECKIN], i * 1000);
    }
    sim_versions_init(&versions);
    uint8_t version = sim_versions_intern(&versions, &manifest);
    sim_versions_describe(&versions, version, BASE_STR("shop/score"), BASE_STR("2.0.0"));
    result.counters.version[version].offered = 10;
    result.counters.version[version].current = 8;
    result.counters.arrived = result.counters.wakes = 10;
    result.counters.checkins = result.counters.requests = 1000;
    result.counters.request_errors = 1;
    result.completed = 10;
    result.failed = 2;
}

static void judged(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *said;
        bool holds;
    } rows[] = {
        {"checkin_p99<200ms", "checkin_p99<200ms: 100.000 ms, holds", true},
        {"checkin_max == 0.1s", ": 100.000 ms, holds", true},
        {"checkin_max != 100000us", ": 100.000 ms, does not hold", false},
        {"checkin_max >= 0.001m", ": 100.000 ms, holds", true},
        {"checkin_max>0.1s", ": 100.000 ms, does not hold", false},
        {"checkin_max<100ms", ": 100.000 ms, does not hold", false},
        {"checkin_p50<50ms", "checkin_p50<50ms: 5", false}, // the upper edge of its bucket
        {"checkin_p50<53ms", "checkin_p50<53ms: 5", true},
        {"checkin_mean<51ms", ": 50.500 ms, holds", true},
        {"offer_to_run_p90<30s", ": nothing was measured, so it does not hold", false},
        {"offer_to_run_max>=0s", ": nothing was measured, so it does not hold", false},
        {"failed==2", ": 2, holds", true},
        {"failed_share<=20%", ": 20 %, holds", true},
        {"failed_share < 0.2", ": 20 %, does not hold", false},
        {"request_errors_share<=0.1%", ": 0.1 %, holds", true},
        {"request_errors<=1", ": 1, holds", true},
        {"coverage>=50%", ": 50 %, holds", true},
        {"coverage<=100%", ": 50 %, holds", true},
        {"coverage<0.51", ": 50 %, holds", true},
        {"coverage>=5e-1", ": 50 %, holds", true},
        {"coverage>50%", ": 50 %, does not hold", false},
        {"runs>=1", ": 0, does not hold", false},
        {"run_failures<=0", ": nothing was measured, so it does not hold", false},
        {"exposed<=3", ": nothing was measured, so it does not hold", false},
        {"rollbacks==0", ": nothing was measured, so it does not hold", false},
        {"rate>0", ": nothing was measured, so it does not hold", false},
    };
    measured();
    uint32_t missed = 0;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        char said[SIM_THRESHOLD_SAID_MAX];
        options.threshold_count = 0;
        add(rows[i].text);
        sim_thresholds_judge(&result);
        sim_threshold_said(&result, 0, said);
        print_message("%s\n", said);
        assert_non_null(strstr(said, rows[i].said));
        assert_int_equal(result.thresholds[0].holds, rows[i].holds);
        assert_int_equal(sim_thresholds_missed(&result), rows[i].holds ? 0 : 1);
        missed += rows[i].holds ? 0 : 1;
    }
    options.threshold_count = 0;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        add(rows[i].text);
    }
    sim_thresholds_judge(&result);
    assert_int_equal(sim_thresholds_missed(&result), missed);
    sim_versions_done(&versions);
}

// Every measure can be named, and of a run of which there is nothing none holds but its length and
// what is no measure of devices.
static void nothing_never_holds(void **state)
{
    (void)state;
    for (uint32_t i = 0; sim_measure_at(i) != NULL; i++) {
        const struct sim_measure *measure = sim_measure_at(i);
        bool latency = measure->kind == SIM_MEASURE_LATENCY;
        for (uint32_t part = 0; part < (latency ? SIM_LATENCY_PARTS : 1); part++) {
            char text[SIM_THRESHOLD_TEXT_MAX];
            measured();
            memset(&result.counters, 0, sizeof(result.counters));
            base_hist_init(&result.latencies.request_us[SIM_EXCHANGE_CHECKIN]);
            result.completed = 0;
            sim_versions_done(&versions);
            sim_versions_init(&versions);
            (void)snprintf(text, sizeof(text), "%s%s%s>=0%s", measure->name, latency ? "_" : "",
                           latency ? sim_latency_part(part) : "", latency ? "s" : "");
            add(text);
            assert_int_equal(options.thresholds[0].measure, i);
            assert_int_equal(options.thresholds[0].part, part);
            sim_thresholds_judge(&result);
            print_message("%s: %d\n", text, result.thresholds[0].holds);
            assert_int_equal(result.thresholds[0].holds, strcmp(measure->name, "duration_s") == 0);
            sim_versions_done(&versions);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(judged),
        cmocka_unit_test(nothing_never_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
