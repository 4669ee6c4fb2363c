// Slice mining, and the files a run leaves: the slice that was planted is found, none is named on
// too little, run.json parses, and the page is well formed and refers to nothing outside.
#include "test_kit.h"

#include "model/predicate.h"
#include "report/report_svg.h"
#include "report/truth_gap.h"

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
    assert_int_equal(sim_mining_new(&alloc->port, NULL, &mining), BASE_OK);
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
        const struct sim_gateway_counts said = {.offered = s * 30, .succeeded = s * 27};
        sim_row_fill(&row, &(struct sim_second){s * 1.5, &counters, &hist, &hist, &load,
                                                s > 2 ? version : SIM_VERSION_NONE, &said});
        sim_timeline_add(timeline, &row);
    }
    sim_timeline_mark(timeline, 3, "1.0.0 gray-1");
    sim_timeline_mark(timeline, 3.2, "1.0.0 <full> & \"all\"");
}

// Rates of the cohort table come highest first.
static void assert_rates_fall(const char *page)
{
    double before = 100;
    uint32_t rows = 0;
    const char *at = strstr(page, "<th class=n>interval");
    assert_non_null(at);
    const char *end = strstr(at, "</table>");
    for (at = strstr(at, "<td class=bars>"); at != NULL && at < end;
         at = strstr(at + 1, "<td class=bars>"), rows++) {
        const char *rate = at;
        while (strncmp(rate, " to ", 4) != 0) { // "0.10 to 1.20 %"
            rate--;
        }
        while (strncmp(rate, " %", 2) != 0) { // of the rate's cell
            rate--;
        }
        while (rate[-1] != '>') {
            rate--;
        }
        double now = strtod(rate, NULL);
        if (now > before) {
            fail_msg("%.2f after %.2f", now, before);
        }
        before = now;
    }
    assert_true(rows > 3);
}

#define LABELS_MAX 64

// Two texts of marks in one picture never meet: neither in a row nor across rows.
static void assert_labels_apart(const char *page)
{
    struct {
        double from, to, y;
    } seen[LABELS_MAX];
    uint32_t count = 0;
    for (const char *at = page; (at = strpbrk(at, "<")) != NULL; at++) {
        double x = 0, y = 0;
        char anchor[8] = "";
        if (strncmp(at, "<svg class=chart", 16) == 0) {
            count = 0;
        }
        if (sscanf(at, "<text class=marktext x=%lf y=%lf text-anchor=%5[a-z]", &x, &y, anchor) !=
            3) {
            continue;
        }
        const char *text = strchr(at, '>') + 1;
        double width = 6.0 * (double)(strstr(text, "</text>") - text);
        bool left = strcmp(anchor, "end") == 0;
        assert_true(count < LABELS_MAX);
        seen[count].from = left ? x - width : x;
        seen[count].to = left ? x : x + width;
        seen[count].y = y;
        for (uint32_t i = 0; i < count; i++) {
            bool apart = seen[i].to < seen[count].from || seen[count].to < seen[i].from ||
                         fabs(seen[i].y - y) > 11;
            if (!apart) {
                fail_msg("a label at %.0f, %.0f lies on another at %.0f", x, y, seen[i].from);
            }
        }
        count++;
    }
}

// Who the devices were, among what faults, and which of these nobody met.
static void assert_first_page_names(const char *page)
{
    static const char *const said[] = {
        "; by the tables of <code>phones &amp; co.conf</code>",
        "; 1 % come once and never again",
        "<tr><th>online<td>2 500 a second come; later on whenever they are due",
        "<tr><th>links<td>20 connections that devices share, 3 of a device's own",
        "<tr><th>kills<td>none",
        "<tr><th>faults<td>network:loss 1 % of exchanges; 0.5 % of exchanges, on some devices alone"
        " (342 times); storage:full 5 % of wakes, the first write that fails: 4 (0 times); all of "
        "them until second 90</tr>",
        "<li>faults of gateway, process, clock, device (--fault)",
        "<li>storage:full: it was asked for and never happened",
    };
    const char *end = strstr(page, "</section>");
    assert_non_null(end);
    for (size_t i = 0; i < TEST_COUNT(said); i++) {
        const char *at = strstr(page, said[i]);
        if (at == NULL || at > end) {
            fail_msg("the first page does not say '%s'", said[i]);
        }
    }
    assert_null(strstr(page, "network:loss: it was asked for and never happened"));
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
    assert_non_null(strstr(text, "ran, by the gateway&#39;s count"));
    assert_rates_fall(text);
    assert_labels_apart(text);
    assert_non_null(strstr(text, "processes killed in the middle of their work (--kills)"));
    assert_non_null(strstr(text, "the gateway was asked and named no rollout of this version"));
    assert_first_page_names(text);
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

// A crowd of marks: each has its own place, and what found none is counted.
static void labels_find_a_place(void **state)
{
    (void)state;
    static const double x[] = {0, 100};
    static const double y[] = {0, 5};
    static double mark_x[60];
    static const char *mark_text[60];
    for (uint32_t i = 0; i < 60; i++) {
        mark_x[i] = i < 40 ? 1 + i * 0.1 : 97 + (i - 40) * 0.1; // at both ends
        mark_text[i] = i % 3 == 0 ? "gray" : i % 3 == 1 ? "rolling_back" : "a long name of a stage";
    }
    const struct sim_chart chart = {.unit_y = "devices",
                                    .x = x,
                                    .point_count = 2,
                                    .series = {{"line", y, false}},
                                    .series_count = 1,
                                    .mark_x = mark_x,
                                    .mark_text = mark_text,
                                    .mark_count = 60};
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    sim_chart_write(&chart, file);
    assert_int_equal(fclose(file), 0);
    assert_labels_apart(text);
    assert_int_equal(occurrences(text, "<line class=mark"), 60);
    assert_non_null(strstr(text, "more without a name"));
    free(text);
}

// Only what lies in the axis is drawn, and the axis says where it begins.
static void an_axis_of_its_own(void **state)
{
    (void)state;
    static const double x[] = {0, 100, 110, 120, 300};
    static const double y[] = {900, 1, 2, 3, 900};
    const struct sim_chart chart = {.unit_y = "devices",
                                    .x = x,
                                    .x_from = 100,
                                    .x_to = 120,
                                    .point_count = 5,
                                    .series = {{"line", y, false}},
                                    .series_count = 1};
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    sim_chart_write(&chart, file);
    assert_int_equal(fclose(file), 0);
    const char *points = strstr(text, "points=\"");
    assert_non_null(points);
    assert_int_equal(occurrences(points, ","), 3);
    assert_non_null(strstr(text, ">100</text>"));
    assert_null(strstr(text, ">300</text>"));
    assert_null(strstr(text, ">500</text>")); // of the points outside
    free(text);
}

// What the log and the page print can be pasted.
static void the_command_that_looks_is_whole(void **state)
{
    (void)state;
    static struct sim_options options = {.host = "127.0.0.1", .port = 8443, .tls = true};
    static struct sim_run_result result;
    char look[SIM_LOOK_TEXT_MAX];
    result = (struct sim_run_result){.options = &options, .about = {.task = "shop/score"}};
    assert_false(sim_look_text(&result, look)); // nothing failed
    result.failing[0].devices = result.failing[0].told = 1;
    result.failing[0].first[0].id = 0xabc;
    assert_true(sim_look_text(&result, look));
    assert_string_equal(look, "walle device why 0000000000000abc --task shop/score");
    options.tls = false;
    options.port = 8080;
    assert_true(sim_look_text(&result, look));
    assert_string_equal(look, "walle device why 0000000000000abc --task shop/score --gateway "
                              "http://127.0.0.1:8080");
    (void)snprintf(options.virtual_dir, sizeof(options.virtual_dir), "gateway");
    (void)snprintf(options.out, sizeof(options.out), "out");
    assert_true(sim_look_text(&result, look));
    assert_string_equal(look, "walle-fleet-sim replay out --device 0000000000000abc");
}

// ---- What the gateway believes ----

static void the_truth_gap_is_named(void **state)
{
    (void)state;
    static struct sim_options options = {.devices = 1000};
    static struct sim_run_result result;
    struct sim_gap gap;
    double percent = 0;
    // Two rollouts of it, one of another version between them. No two counts are alike.
    result = (struct sim_run_result){.options = &options, .rollout_count = 3};
    result.counters.version[1] = (struct sim_version_counters){
        .offered = 1000, .ran = 900, .failed = 80, .rolled_back = 50, .current = 870};
    result.undecided[1] = 20;
    result.rollouts[0].version = result.rollouts[2].version = 1;
    result.rollouts[0].seen.counts = (struct sim_gateway_counts){.offered = 300,
                                                                 .succeeded = 250,
                                                                 .failed = 15,
                                                                 .under_way = 35,
                                                                 .rolled_back = 10,
                                                                 .on_version = 861};
    result.rollouts[1].version = 2;
    result.rollouts[1].seen.counts = (struct sim_gateway_counts){.offered = 7, .failed = 7};
    struct sim_rollout_seen *seen = &result.rollouts[2].seen;
    seen->before = (struct sim_gateway_counts){.offered = 500, .succeeded = 500};
    seen->counts = (struct sim_gateway_counts){.offered = 1200,
                                               .succeeded = 1150,
                                               .failed = 45,
                                               .under_way = 5,
                                               .rolled_back = 15,
                                               .on_version = 850};
    sim_gap_of(&result, 1, &gap);
    static const struct {
        enum sim_gap_row row;
        uint64_t truth, said;
        double percent;
    } table[] = {
        {SIM_GAP_OFFERED, 1000, 1000, 0}, {SIM_GAP_RAN, 900, 900, 0},
        {SIM_GAP_FAILED, 80, 60, -25},    {SIM_GAP_UNDECIDED, 20, 40, 100},
        {SIM_GAP_BACK, 50, 25, -50},      {SIM_GAP_CURRENT, 870, 861, -100.0 * 9 / 870},
    };
    assert_int_equal(gap.rollouts, 2);
    assert_null(gap.why_not);
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        enum sim_gap_row row = table[i].row;
        assert_int_equal(gap.truth[row], table[i].truth);
        assert_int_equal(gap.said[row], table[i].said);
        assert_true(sim_gap_share(&gap, row, &percent));
        assert_true(fabs(percent - table[i].percent) < 1e-9);
    }
    result.counters.version[1].rolled_back = 0;
    sim_gap_of(&result, 1, &gap);
    assert_false(sim_gap_share(&gap, SIM_GAP_BACK, &percent)); // of none
    result.rollouts[0].version = 2;
    result.rollout_count = 2;
    sim_gap_of(&result, 1, &gap);
    assert_non_null(strstr(gap.why_not, "named no rollout"));
    result.gateway_denied = true;
    sim_gap_of(&result, 1, &gap);
    assert_non_null(strstr(gap.why_not, "operators only"));
    options.local = true;
    sim_gap_of(&result, 1, &gap);
    assert_non_null(strstr(gap.why_not, "was not asked"));
    options.local = false;
}

static void counts_begin_with_the_run(void **state)
{
    (void)state;
    static struct sim_rollouts_seen seen;
    struct sim_gateway_counts said;
    const char *first =
        "{\"items\":[{\"id\":\"00000000000000aa\",\"state\":\"running\",\"created_s\":5,\"counts\":"
        "{\"offered\":10,\"succeeded\":4,\"failed\":1,\"timed_out\":1}}]}";
    const char *second =
        "{\"items\":[{\"id\":\"00000000000000bb\",\"state\":\"running\",\"created_s\":9,\"counts\":"
        "{\"offered\":3}},{\"id\":\"00000000000000aa\",\"state\":\"completed\",\"created_s\":5,"
        "\"counts\":{\"offered\":25,\"succeeded\":14,\"failed\":2,\"timed_out\":3,\"silent\":2,"
        "\"under_way\":1}}]}";
    memset(&seen, 0, sizeof(seen));
    sim_rollouts_take(&seen, first, strlen(first));
    sim_rollouts_take(&seen, second, strlen(second));
    assert_true(sim_rollouts_said(&seen, 0xaa, &said));
    assert_int_equal(said.offered, 15);
    assert_int_equal(said.succeeded, 10);
    assert_int_equal(said.failed, 3); // with those that did not answer
    assert_int_equal(said.under_way, 3);
    assert_true(sim_rollouts_said(&seen, 0xbb, &said));
    assert_int_equal(said.offered, 3); // it began later
    assert_false(sim_rollouts_said(&seen, 0xcc, &said));
}

// ---- Lateness ----

static void a_late_generator_is_named(void **state)
{
    (void)state;
    static const struct {
        uint64_t lag_us, checkin_us, skipped;
        const char *said; // NULL: nothing
    } table[] = {
        {0, 40000, 0, NULL},          {9000, 9500, 0, NULL},         {20000, 400000, 0, NULL},
        {30000, 80000, 0, "30.0 ms"}, {900000, 8000000, 0, "900.0"}, {0, 40000, 5, "5 of 1000"},
    };
    static struct sim_run_result result;
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        char text[SIM_LAG_TEXT_MAX];
        base_hist_init(&result.latencies.lag_us);
        base_hist_init(&result.latencies.checkin_us);
        base_hist_add(&result.latencies.lag_us, table[i].lag_us);
        base_hist_add(&result.latencies.checkin_us, table[i].checkin_us);
        result.counters.wakes = 1000;
        result.counters.skipped = table[i].skipped;
        if (sim_lag_text(&result, text) != (table[i].said != NULL)) {
            fail_msg("row %zu: '%s'", i, text);
        }
        if (table[i].said != NULL && strstr(text, table[i].said) == NULL) {
            fail_msg("row %zu: '%s' says no %s", i, text, table[i].said);
        }
    }
}

// ---- Fidelity ----

static void how_truly_it_was_played_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *own_host;
        bool local, tls, own_tls;
        const char *said;
        bool http2, tls_is, own_tls_is;
        uint64_t own;
    } table[] = {
        {"", "", true, false, false,
         "the release path on 90 devices; a user's behaviour, triggers, tasks on 7; nothing shared "
         "with others on 2; messages are handed over: no HTTP/2, no TLS",
         false, false, false, 0},
        {"gateway", "", false, true, true,
         "triggers, tasks and the tunnel on 7; nothing shared with others on 2; messages are "
         "handed over: no HTTP/2, no TLS",
         false, false, false, 0},
        {"", "", false, true, false,
         "messages are HTTP/2 on sockets with TLS, 3 devices have a connection to themselves, with "
         "TLS",
         true, true, true, 3},
        {"", "127.0.0.1", false, false, true,
         "sockets without TLS, 3 devices have a connection to themselves, with TLS", true, false,
         true, 3},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        static struct sim_options options;
        static struct sim_run_result result;
        char text[SIM_FIDELITY_TEXT_MAX];
        options = (struct sim_options){.local = table[i].local, .tls = table[i].tls};
        options.own_tls = table[i].own_tls;
        (void)snprintf(options.virtual_dir, sizeof(options.virtual_dir), "%s", table[i].dir);
        (void)snprintf(options.own_host, sizeof(options.own_host), "%s", table[i].own_host);
        result = (struct sim_run_result){.options = &options, .budget = {.dedicated = 3}};
        result.counters.arrived = 90;
        result.counters.checkins = 200;
        result.counters.real_devices = 2;
        result.counters.behaviour.devices = 7;
        struct sim_fidelity fidelity = sim_fidelity_of(&result);
        sim_fidelity_text(&result, text);
        if (strstr(text, table[i].said) == NULL) {
            fail_msg("row %zu: '%s' says not '%s'", i, text, table[i].said);
        }
        assert_int_equal(fidelity.release_path, 90);
        assert_int_equal(fidelity.http2, table[i].http2);
        assert_int_equal(fidelity.tls, table[i].tls_is);
        assert_int_equal(fidelity.own_tls, table[i].own_tls_is);
        assert_int_equal(fidelity.own_connection, table[i].own);
    }
    // What real bytes cost is said beside what they are charged for.
    char text[SIM_FIDELITY_TEXT_MAX];
    static struct sim_options few = {.byte_devices = 4, .virtual_dir = "gateway"};
    static struct sim_run_result spoke;
    spoke = (struct sim_run_result){
        .options = &few,
        .bytes = {4, 5, 6, 10, 0, 1, 0, 20000, 15000, {900, 200, 30, 31}, {800, 300, 40, 41}}};
    sim_fidelity_text(&spoke, text);
    assert_non_null(strstr(text, "no HTTP/2, no TLS, but on 4, which speak real HTTP/2 and TLS: 5 "
                                 "connections, 6 handshakes, 10 answers as the model has them but "
                                 "for 1 mismatches; 900 bytes up (handshakes 200, bodies 30; "
                                 "charged to an ordinary device: 31), 800 down (300, 40; 41); 2.0 "
                                 "ms to an answer (an ordinary device: 1.5 ms)"));
    assert_int_equal(sim_fidelity_of(&spoke).byte_exact, 4);
    // Who came up and was told nothing was played no release to.
    static struct sim_options options;
    static struct sim_run_result result;
    result = (struct sim_run_result){.options = &options};
    result.counters.arrived = 90;
    assert_int_equal(sim_fidelity_of(&result).release_path, 0);
}

// The fleet's systems, of whichever devices ran the release; and a way back that nobody called bad.
static void assert_page_of_fleet(const char *folder, bool back)
{
    char *text = read_all(folder, "report.html");
    assert_non_null(strstr(text, "; android 75.0 %; ios 25.0 %;"));
    assert_non_null(strstr(text, "<tr><th>fidelity<td>the release path on "));
    assert_int_equal(strstr(text, "<li>a bad release and the way back") == NULL, back);
    free(text);
}

// All that was measured is one check-in.
static void one_checkin(struct sim_run_result *result)
{
    base_hist_init(&result->latencies.lag_us);
    base_hist_init(&result->latencies.checkin_us);
    base_hist_init(&result->offer_to_run_us);
    for (uint32_t i = 0; i < SIM_EXCHANGE_KIND_COUNT; i++) {
        base_hist_init(&result->latencies.request_us[i]);
    }
    base_hist_add(&result->latencies.checkin_us, 2500);
}

static void files_are_well_formed(void **state)
{
    (void)state;
    static struct sim_options options = {.devices = 1000,
                                         .seed = 5,
                                         .real_every = 100,
                                         .population = "phones & co.conf",
                                         .zombie_ppm = 10000,
                                         .arrival_rate = 2500,
                                         .faults = {.until_s = 90}};
    static const char *const faults[] = {"network:loss @ 1%", "network:loss @ 0.5% where os == ios",
                                         "storage:full @ 5%"};
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
    for (size_t i = 0; i < TEST_COUNT(faults); i++) {
        assert_int_equal(sim_fault_add(&options.faults, base_str_of(faults[i]), NULL), BASE_OK);
    }
    result.faults[SIM_FAULT_LOSS] = 342;
    result.budget = (struct sim_budget){.carriers = 20, .dedicated = 3};
    result.counters.version[version] = timeline.rows[timeline.count - 1].version[version];
    result.counters.marked = 12345;
    one_checkin(&result);
    result.mining = mine(&alloc, "os == ios", 90, 100, 1000, &result.slice);
    result.systems_of = 8; // not those of the mining
    result.systems[0] = 6;
    result.systems[2] = 2;
    result.rate = sim_result_rate(&timeline, version);
    assert_true(result.rate > 18 && result.rate < 19); // 28 a row of 1.5 s
    assert_int_equal(sim_result_write(&result, &error), BASE_OK);

    assert_files_say_it(folder, timeline.count);
    assert_page_of_fleet(folder, false);
    result.counters.version[version].rolled_back = 1;
    assert_int_equal(sim_result_write(&result, &error), BASE_OK);
    assert_page_of_fleet(folder, true);

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
        cmocka_unit_test(labels_find_a_place),
        cmocka_unit_test(an_axis_of_its_own),
        cmocka_unit_test(the_command_that_looks_is_whole),
        cmocka_unit_test(the_truth_gap_is_named),
        cmocka_unit_test(counts_begin_with_the_run),
        cmocka_unit_test(a_late_generator_is_named),
        cmocka_unit_test(how_truly_it_was_played_is_said),
        cmocka_unit_test(files_are_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
