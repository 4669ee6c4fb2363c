// Slice mining, and the files a run leaves: the slice that was planted is found, none is named on
// too little, run.json parses, and the page is well formed and refers to nothing outside.
#include "test_kit.h"

#include "model/predicate.h"
#include "report/run_result.h"

#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#define DEVICES 20000u

// Failures: devices of `where`, `percent` of them, and one in `noise` of the others (0: none).
static struct sim_mining *mine(struct test_alloc *alloc, const char *where, uint32_t percent,
                               uint32_t noise, uint32_t devices, struct sim_slice *out)
{
    struct sim_population population = {.seed = 99, .beta_per_10000 = 100};
    static struct sim_predicate predicate;
    struct sim_mining *mining;
    assert_int_equal(sim_predicate_parse(base_str_of(where), &predicate, NULL), BASE_OK);
    assert_int_equal(sim_mining_new(&alloc->port, &mining), BASE_OK);
    for (uint32_t i = 0; i < devices; i++) {
        struct sim_traits traits;
        struct pol_attr items[SIM_ATTRS_COUNT];
        struct pol_attrs attrs;
        sim_population_draw(&population, i, &traits);
        sim_traits_policy(&traits, items, &attrs);
        bool failed = sim_predicate_match(&predicate, &attrs)
                          ? sim_draw(1, i, SIM_STREAM_BEHAVIOUR) % 100 < percent
                          : noise > 0 && i % noise == 0;
        sim_mining_add(mining, &traits, failed);
    }
    sim_mining_best(mining, out);
    return mining;
}

static void planted_slices_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *where;
        uint32_t percent;
        uint32_t noise;
        const char *found;
    } table[] = {
        {"os == ios", 90, 200, "os == ios"},
        {"os == android && os_version < 12", 90, 0, "os_version < 12"}, // only Android has these
        {"ram_mb >= 8192", 70, 500, "ram_mb >= 8192"},
        {"app_version >= 9.3 && network == wifi", 95, 300, "app_version >= 9.3 && network == wifi"},
        {"region == eu", 100, 0, "region == eu"},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        struct test_alloc alloc;
        struct sim_slice slice;
        char text[SIM_SLICE_TEXT_MAX];
        test_alloc_init(&alloc, SIZE_MAX);
        struct sim_mining *mining =
            mine(&alloc, table[i].where, table[i].percent, table[i].noise, DEVICES, &slice);
        sim_slice_text(&slice, text);
        assert_non_null(strstr(text, table[i].found));
        assert_true(sim_slice_support(&slice) > 0.8);
        assert_true(sim_slice_precision(&slice) > table[i].percent / 100.0 - 0.1);
        assert_null(sim_slice_none(&slice));
        sim_mining_free(mining);
        assert_int_equal(alloc.live, 0);
    }
}

static void too_little_names_no_slice(void **state)
{
    (void)state;
    static const struct {
        const char *where;
        uint32_t percent;
        uint32_t noise;
        uint32_t devices;
        const char *why; // NULL: nothing failed
    } table[] = {
        {"os == symbian", 0, 0, 1000, NULL},
        {"os == symbian", 0, 1000, 1000, "too few failures"}, // one device
        {"os == symbian", 0, 112, 1000, "too few failures"},  // nine
        {"all", 100, 0, 1000, "no slice"},                    // everybody
        {"os == symbian", 0, 50, DEVICES, "no slice"},        // spread over the fleet
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        struct test_alloc alloc;
        struct sim_slice slice;
        test_alloc_init(&alloc, SIZE_MAX);
        struct sim_mining *mining = mine(&alloc, table[i].where, table[i].percent, table[i].noise,
                                         table[i].devices, &slice);
        char text[SIM_SLICE_TEXT_MAX];
        sim_slice_text(&slice, text);
        if (slice.cond_count != 0) {
            fail_msg("row %zu: named '%s'", i, text);
        }
        if (table[i].why == NULL) {
            assert_null(sim_slice_none(&slice));
        } else {
            assert_non_null(sim_slice_none(&slice));
            assert_non_null(strstr(sim_slice_none(&slice), table[i].why));
        }
        sim_mining_free(mining);
    }
}

static void wilson_intervals(void **state)
{
    (void)state;
    static const struct {
        uint64_t failed, total;
        double low, high;
    } table[] = {
        {0, 0, 0, 1},
        {0, 10, 0, 0.2775},
        {10, 10, 0.7225, 1},
        {5, 10, 0.2366, 0.7634},
        {1, 100, 0.0018, 0.0545},
        {500, 1000, 0.4691, 0.5309},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        double low, high;
        sim_wilson(table[i].failed, table[i].total, &low, &high);
        assert_true(fabs(low - table[i].low) < 0.0002 && fabs(high - table[i].high) < 0.0002);
    }
}

// ---- Report files ----

static char *read_all(const char *folder, const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *text = calloc(1, 1u << 20);
    assert_non_null(text);
    size_t size = fread(text, 1, (1u << 20) - 1, file);
    assert_true(size > 0 && size < (1u << 20) - 1);
    (void)fclose(file);
    return text;
}

static uint32_t occurrences(const char *text, const char *part)
{
    uint32_t count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

static void assert_page_is_sound(const char *page)
{
    static const char *const outside[] = {"http://", "https://", "src=",    "href=",   "url(",
                                          "@import", "<script",  "<iframe", "<object", "<link"};
    for (size_t i = 0; i < TEST_COUNT(outside); i++) {
        if (strstr(page, outside[i]) != NULL) {
            fail_msg("the page contains %s", outside[i]);
        }
    }
    static const char *const pairs[][2] = {
        {"<svg", "</svg>"},     {"<table", "</table>"}, {"<h2", "</h2>"},     {"<div", "</div>"},
        {"<text", "</text>"},   {"<style", "</style>"}, {"<code", "</code>"}, {"<html", "</html>"},
        {"<title", "</title>"}, {"<body", "</body>"},
    };
    for (size_t i = 0; i < TEST_COUNT(pairs); i++) {
        uint32_t opened = occurrences(page, pairs[i][0]);
        uint32_t closed = occurrences(page, pairs[i][1]);
        if (opened == 0 || opened != closed) {
            fail_msg("%u %s and %u %s", opened, pairs[i][0], closed, pairs[i][1]);
        }
    }
    assert_null(strstr(page, "nan"));
    assert_null(strstr(page, "inf "));
    assert_int_equal(occurrences(page, "<line"),
                     occurrences(page, "/>") -
                         (occurrences(page, "<rect") + occurrences(page, "<polyline") +
                          occurrences(page, "<path") + occurrences(page, "<circle")));
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static void fill_timeline(struct sim_timeline *timeline, uint8_t version)
{
    struct base_hist hist;
    base_hist_init(&hist);
    for (uint32_t s = 0; s < 30; s++) {
        struct sim_counters counters = {.arrived = 1000, .requests = s * 700, .checkins = s * 90};
        struct sim_gateway_load load = {s * 700.0, 3, 20, 90e6 + s * 1e6, s * 0.3};
        struct sim_row row;
        counters.version[version] = (struct sim_version_counters){.offered = s * 30,
                                                                  .downloaded = s * 29,
                                                                  .activated = s * 29,
                                                                  .ran = s * 28,
                                                                  .failed = s,
                                                                  .current = s * 28};
        base_hist_add(&hist, 1000 + s * 10);
        sim_row_fill(&row, &(struct sim_second){s * 1.5, &counters, &hist, &hist, &load});
        sim_timeline_add(timeline, &row);
    }
    sim_timeline_mark(timeline, 3, "1.0.0 gray-1");
    sim_timeline_mark(timeline, 3.2, "1.0.0 <full> & \"all\"");
}

static void assert_files_say_it(const char *folder, uint32_t rows)
{
    char *text = read_all(folder, "run.json");
    json_error_t where;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    assert_non_null(root);
    assert_true(json_is_true(json_object_get(root, "passed")));
    assert_int_equal(json_integer_value(json_object_get(root, "devices")), 1000);
    json_t *item = json_array_get(json_object_get(root, "versions"), 0);
    assert_string_equal(json_string_value(json_object_get(item, "version")), "1.0.0");
    assert_int_equal(json_integer_value(json_object_get(item, "ran")), 28 * 29);
    json_t *slice = json_object_get(root, "failing_slice");
    assert_string_equal(json_string_value(json_object_get(slice, "predicate")), "os == ios");
    assert_int_equal(json_array_size(json_object_get(root, "oracles")), SIM_ORACLE_COUNT);
    json_decref(root);
    free(text);

    text = read_all(folder, "report.html");
    assert_page_is_sound(text);
    assert_non_null(strstr(text, "os == ios"));
    assert_non_null(strstr(text, "<b>12 345</b><span>placebos: ran again what they have"));
    assert_null(strstr(text, "<full>")); // escaped
    free(text);

    text = read_all(folder, "timeline.csv");
    uint32_t lines = occurrences(text, "\n");
    assert_int_equal(lines, rows + 1);
    uint32_t commas = 0;
    for (const char *at = text; *at != '\n'; at++) {
        commas += *at == ',';
    }
    assert_int_equal(occurrences(text, ","), commas * lines); // every row has every column
    free(text);
}

static void files_are_well_formed(void **state)
{
    (void)state;
    static struct sim_options options = {.devices = 1000, .seed = 5, .real_every = 100};
    static struct sim_run_result result;
    static struct sim_versions versions;
    struct sim_timeline timeline;
    struct test_alloc alloc;
    struct base_error error = {0};
    struct wire_sha256 digest = {{0xab}};
    char folder[] = "/tmp/walle-report-XXXXXX";
    assert_non_null(mkdtemp(folder));
    (void)snprintf(options.out, sizeof(options.out), "%s", folder);
    (void)snprintf(options.command, sizeof(options.command),
                   "walle-fleet-sim run --where 'a < \"b\" && c'");
    test_alloc_init(&alloc, SIZE_MAX);
    sim_versions_init(&versions);
    uint8_t version = sim_versions_intern(&versions, &digest);
    sim_versions_describe(&versions, version, BASE_STR("ipv"), BASE_STR("1.0.0"));
    assert_int_equal(sim_timeline_init(&timeline, &alloc.port), BASE_OK);
    fill_timeline(&timeline, version);
    result = (struct sim_run_result){.options = &options,
                                     .versions = &versions,
                                     .version_count = sim_versions_count(&versions),
                                     .timeline = &timeline,
                                     .focus = version,
                                     .outcome = SIM_OUTCOME_PASSED,
                                     .ended = "30 s are over"};
    result.counters.version[version] = timeline.rows[timeline.count - 1].version[version];
    result.counters.marked = 12345;
    base_hist_init(&result.latencies.lag_us);
    base_hist_init(&result.latencies.checkin_us);
    base_hist_init(&result.offer_to_run_us);
    for (uint32_t i = 0; i < SIM_EXCHANGE_KIND_COUNT; i++) {
        base_hist_init(&result.latencies.request_us[i]);
    }
    base_hist_add(&result.latencies.checkin_us, 2500);
    result.mining = mine(&alloc, "os == ios", 90, 100, 1000, &result.slice);
    result.rate = sim_result_rate(&timeline, version);
    assert_true(result.rate > 18 && result.rate < 19); // 28 a row of 1.5 s
    assert_int_equal(sim_result_write(&result, &error), BASE_OK);

    assert_files_say_it(folder, timeline.count);

    (void)snprintf(options.out, sizeof(options.out), "%s/none", folder);
    assert_int_equal(sim_result_write(&result, &error), BASE_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "run.json"));
    sim_mining_free(result.mining);
    sim_timeline_done(&timeline);
    sim_versions_done(&versions);
    assert_int_equal(alloc.live, 0);
    assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_slices_are_found),
        cmocka_unit_test(too_little_names_no_slice),
        cmocka_unit_test(wilson_intervals),
        cmocka_unit_test(files_are_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
