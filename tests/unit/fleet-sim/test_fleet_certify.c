// What a certificate is made of: its pack of bad releases, what it takes of a run, the figures of a
// row, and the bounds that it states.
#include "test_kit.h"

#include "certify/certify.h"
#include "model/ledger.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void bounds_are_what_they_say(void **state)
{
    (void)state;
    assert_true(sim_certify_share(0, 1) == 0);
    assert_true(fabs(sim_certify_share(1, 1) - 0.05) < 1e-12);
    assert_true(sim_certify_share(58, 1) < 0.95 && sim_certify_share(59, 1) > 0.95);
    // Nothing seen: 1 - 0.05^(1/n). The others by summing the distribution.
    assert_true(fabs(sim_certify_rate_bound(0, 20, 1) - (1 - pow(0.05, 1.0 / 20))) < 1e-9);
    assert_true(sim_certify_rate_bound(20, 20, 1) == 1);
    // Several at once: each has its part of the 5 %.
    assert_true(sim_certify_share(96, 7) < 0.95 && sim_certify_share(97, 7) > 0.95);
    assert_true(fabs(sim_certify_rate_bound(0, 20, 7) - (1 - pow(0.05 / 7, 1.0 / 20))) < 1e-9);
    for (uint32_t seen = 1; seen < 10; seen++) {
        double rate = sim_certify_rate_bound(seen, 10, 1);
        double sum = 0;
        double ways = 1;
        for (uint32_t k = 0; k <= seen; k++) {
            sum += ways * pow(rate, k) * pow(1 - rate, 10 - k);
            ways = ways * (10 - k) / (k + 1);
        }
        assert_true(fabs(sum - 0.05) < 1e-6);
        assert_true(rate > (double)seen / 10);
    }
}

static void the_products_pack_can_be_read(void **state)
{
    (void)state;
    static struct sim_certify_pack pack;
    struct base_error error = {0};
    assert_int_equal(sim_certify_pack_read("", &pack, &error), BASE_OK);
    assert_true(pack.count > 3);
    assert_string_equal(pack.cases[0].name, "healthy");
    assert_string_equal(pack.cases[0].rule, "");
    for (uint32_t i = 1; i < pack.count; i++) {
        struct sim_bad_rule rule;
        assert_int_equal(sim_bad_rule_parse(base_str_of(pack.cases[i].rule), &rule, &error),
                         BASE_OK);
    }
    assert_int_equal(sim_certify_pack_read("/nowhere/at/all", &pack, &error), BASE_ERR_NOT_FOUND);
}

static void packs_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        const char *words;
    } rows[] = {
#define ROW(text, words) {text, sizeof(text) - 1, words}
        ROW("a: all => crash\n\na: all => hang\n", ":3: 'a' is the name of an earlier rule"),
        ROW("healthy: all => crash\n", ":1: 'healthy' is the release without a rule"),
        ROW("a: all => crash\0 @ 1%\n", ":1: a NUL byte"),
        ROW("a: all => crash\n# \0\n", ":2: a NUL byte"),
        ROW("a\x1b[2J: all => crash\n", ":1: NAME: RULE is expected, a name of 1 to 32 characters"),
        ROW("a: all => crash\n\0", ":2: a NUL byte"),
    };
    char path[] = "/tmp/walle-pack-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        static struct sim_certify_pack pack;
        struct base_error error = {0};
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, rows[i].text, rows[i].size, 0), rows[i].size);
        assert_int_equal(sim_certify_pack_read(path, &pack, &error), BASE_ERR_INVALID);
        print_message("%s\n", error.text);
        assert_non_null(strstr(error.text, rows[i].words));
    }
    close(fd);
    unlink(path);
}

// A line may have so many bytes, its end not counted, and the last one needs no end.
static void lines_of_a_pack(void **state)
{
    (void)state;
    char path[] = "/tmp/walle-pack-XXXXXX";
    char text[600];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t size = 509; size <= 512; size++) {
        static struct sim_certify_pack pack;
        struct base_error error = {0};
        memset(text, ' ', sizeof(text));
        memcpy(text, "a: all => crash", 15);
        text[size] = '\n';
        memcpy(text + size + 1, "b: all => hang", 14);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, text, size + 15, 0), size + 15);
        enum base_status status = sim_certify_pack_read(path, &pack, &error);
        print_message("%zu: %s\n", size, error.text);
        assert_int_equal(status, size <= 510 ? BASE_OK : BASE_ERR_TOO_LARGE);
        assert_int_equal(pack.count, size <= 510 ? 3 : 1);
    }
    close(fd);
    unlink(path);
}

// ---- What is taken of a run

static const struct sim_certify_options of_rollout = {.rollout = "00000000000000a1",
                                                      .version = "1.0.0"};

// run.json of a run: how its rollout stood, and an invariant that may have broken.
static json_t *report_of(const char *state, const char *oracle, bool holds)
{
    return json_pack(
        "{s:i, s:f, s:[{s:f, s:s}, {s:f, s:s}, {s:f, s:s}], s:[{s:s, s:b}, {s:s, s:b}], "
        "s:[{s:s, s:s, s:s, s:b}, {s:s, s:s, s:s, s:b}]}",
        "exposed", 77, "duration_s", 400.0, "marks", "t_s", 1.0, "text", "1.0.0 beta", "t_s", 9.0,
        "text", "1.0.0 rolling_back", "t_s", 30.0, "text", "1.0.0 rolled_back", "oracles", "name",
        "verified", "holds", 1, "name", oracle, "holds", (int)holds, "rollouts", "id",
        "00000000000000a2", "version", "7.0.0", "state", "completed", "over_before", 0, "id",
        "00000000000000a1", "version", "1.0.0", "state", state, "over_before", 0);
}

static void what_is_taken_of_a_run(void **state)
{
    (void)state;
    const char *back = sim_oracle_name(SIM_ORACLE_BACK);
    const struct {
        const char *state;
        const char *broken; // NULL: none
        bool healthy;
        bool good, stopped, completed;
    } rows[] = {
        {"completed", NULL, true, true, false, true},
        {"completed", NULL, false, true, false, true},
        {"rolled_back", NULL, true, true, true, false},
        {"rolled_back", NULL, false, true, true, false},
        {"rolling_back", NULL, false, true, true, false},
        {"paused", NULL, false, true, true, false},
        {"running", NULL, false, false, false, false}, // no end of its own
        // Devices that the folder knows of before never come: its stages passed.
        {"guarding", NULL, true, true, false, true},
        {"guarding", back, false, true, false, true},
        {"guarding", "verified", true, false, false, true},
        {"completed", "verified", true, false, false, true},
        {"rolled_back", "verified", false, false, true, false},
        // A bad release that came through stays: nobody is back, and that is what is measured. One
        // that was stopped must be back, and a healthy one has nothing to go back from.
        {"completed", back, false, true, false, true},
        {"rolled_back", back, false, false, true, false},
        {"completed", back, true, false, false, true},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct sim_certify_run run;
        struct base_error error = {0};
        json_t *report = report_of(rows[i].state, rows[i].broken != NULL ? rows[i].broken : back,
                                   rows[i].broken == NULL);
        assert_non_null(report);
        print_message("%s, %s broke\n", rows[i].state, rows[i].broken);
        assert_int_equal(sim_certify_run_read(report, &of_rollout, rows[i].healthy, &run, &error),
                         BASE_OK);
        assert_int_equal(run.good, rows[i].good);
        assert_int_equal(run.stopped, rows[i].stopped);
        assert_int_equal(run.completed, rows[i].completed);
        assert_int_equal(run.harmed, rows[i].healthy ? 0 : 77);
        assert_true(run.stopped_s == (rows[i].stopped ? 9.0 : 0)); // the first word of it
        assert_true(run.ended_s == 400.0);
        assert_string_equal(run.state, rows[i].state);
        assert_int_equal(run.broken[0] == '\0', rows[i].broken == NULL || rows[i].good);
        assert_true(run.broken[0] == '\0' || strcmp(run.broken, rows[i].broken) == 0);
        json_decref(report);
    }
}

static void what_is_no_run_of_it(void **state)
{
    (void)state;
    struct sim_certify_run run;
    struct base_error error = {0};
    json_t *report = report_of("completed", "back", true);
    struct sim_certify_options other = of_rollout;
    (void)snprintf(other.version, sizeof(other.version), "2.0.0");
    assert_int_equal(sim_certify_run_read(report, &other, false, &run, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "is of another one"));
    other = of_rollout;
    other.rollout[15] = '3';
    assert_int_equal(sim_certify_run_read(report, &other, false, &run, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "no such rollout"));
    json_object_set_new(json_array_get(json_object_get(report, "rollouts"), 1), "over_before",
                        json_true());
    assert_int_equal(sim_certify_run_read(report, &of_rollout, false, &run, &error),
                     BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "it is over"));
    json_decref(report);
}

// ---- What it says

static json_t *case_at(const json_t *root, size_t at)
{
    return json_array_get(json_object_get(root, "cases"), at);
}

static json_int_t whole(const json_t *item, const char *name)
{
    return json_integer_value(json_object_get(item, name));
}

static double part(const json_t *item, const char *name)
{
    return json_number_value(json_object_get(item, name));
}

static char *page_of(const char *folder)
{
    static char page[1u << 16];
    char path[320];
    (void)snprintf(path, sizeof(path), "%s/certificate.html", folder);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
    (void)fclose(file);
    (void)unlink(path);
    return page;
}

static void assert_figures(const char *folder)
{
    char path[320];
    (void)snprintf(path, sizeof(path), "%s/certificate.json", folder);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    const json_t *crash = case_at(root, 1);
    const json_t *mild = case_at(root, 2);
    assert_int_equal(whole(crash, "harmed_p50"), 30);
    assert_int_equal(whole(crash, "harmed_max"), 90);
    assert_int_equal(whole(crash, "good"), 5);
    assert_int_equal(whole(crash, "not_stopped"), 0);
    assert_true(part(crash, "stopped_s_p50") == 3 && part(crash, "stopped_s_max") == 9);
    assert_int_equal(whole(mild, "good"), 4);
    assert_int_equal(whole(mild, "stopped"), 3);
    assert_int_equal(whole(mild, "not_stopped"), 1); // of those that ended as a run should
    assert_true(part(mild, "stopped_s_p50") == 3 && part(mild, "stopped_s_max") == 4);
    const json_t *bounds = json_object_get(root, "bounds");
    assert_int_equal(whole(bounds, "statements"), 3);
    assert_true(part(bounds, "share") == sim_certify_share(5, 3));
    assert_true(part(bounds, "share_alone") == sim_certify_share(5, 1));
    assert_true(part(bounds, "false_stop") == sim_certify_rate_bound(1, 5, 3));
    assert_true(part(bounds, "false_stop_alone") == sim_certify_rate_bound(1, 5, 1));
    json_decref(root);
    (void)unlink(path);
}

// The middle and the most of a row are those of its runs, whatever order they came in.
static void a_row_is_of_its_runs(void **state)
{
    (void)state;
    static struct sim_certify_options options;
    static const struct sim_certify_pack pack = {
        .cases = {{"healthy", ""}, {"crash", "all => crash"}, {"mild", "all => hang @ 1%"}},
        .count = 3};
    static struct sim_certify_run runs[15];
    static const uint64_t harmed[5] = {40, 10, 90, 20, 30};
    static const char *const said[] = {
        "<tr><th>task<td>shop/score 1.0.0</tr>",
        "<tr><th>manifest<td>ab12</tr>",
        "<tr><th>stages<td>gray 1 %: at most 2 % may fail</tr>",
        "<tr><th>limits<td>800 devices a run, 40 a second come online; 5 seeds; a run ends after "
        "900 s of virtual time</tr>",
        "<tr><th>releases<td>the pack of the product</tr>",
        "<tr><th>date<td>began 2026-01-02T03:04:05Z, took 12 s</tr>",
        "<tr><th>machine<td>a machine</tr>",
        "<tr><th>product<td>walle-fleet-sim ",
        "of healthy releases the gate stops at most 74.6&nbsp;% (it stopped 1 of 5): all 3 "
        "statements hold together",
        "run, from the one that harmed fewest",
        "5 of 5<td class=n>30<td class=n>90<td class=n>3 s<td class=n>9 s</tr>",
        "3 of 5, not stopped in 1 of 5<td class=n>800<td class=n>800<td",
        "or broke an invariant: 1 of 15.",
    };
    char folder[] = "/tmp/walle-certificate-XXXXXX";
    struct base_error error = {0};
    struct sim_certify_result result = {
        .options = &options, .pack = &pack, .runs = runs, .took_s = 12};
    assert_non_null(mkdtemp(folder));
    options = (struct sim_certify_options){
        .seeds = 5, .devices = 800, .arrival_rate = 40, .horizon_s = 900};
    (void)snprintf(options.version, sizeof(options.version), "1.0.0");
    (void)snprintf(options.out, sizeof(options.out), "%s", folder);
    (void)snprintf(result.about.stages, sizeof(result.about.stages),
                   "gray 1 %%: at most 2 %% may fail");
    result.about.run = (struct sim_about){.began = "2026-01-02T03:04:05Z",
                                          .task = "shop/score",
                                          .manifest = "ab12",
                                          .machine = "a machine"};
    for (uint32_t i = 0; i < 5; i++) {
        runs[i] = (struct sim_certify_run){.good = true, .completed = i > 0, .stopped = i == 0};
        runs[5 + i] = (struct sim_certify_run){.good = true,
                                               .stopped = true,
                                               .harmed = harmed[i],
                                               .stopped_s = (double)harmed[i] / 10};
        runs[10 + i] = (struct sim_certify_run){
            .good = i > 0, .stopped = i > 1, .completed = i < 2, .harmed = 800, .stopped_s = i};
    }
    FILE *log = tmpfile();
    assert_int_equal(sim_certify_report(&result, log, &error), BASE_ERR_CONFLICT); // one run
    assert_non_null(strstr(error.text, "1 runs did not end by themselves"));
    (void)fclose(log);
    assert_figures(folder);
    const char *page = page_of(folder);
    for (size_t i = 0; i < TEST_COUNT(said); i++) {
        if (strstr(page, said[i]) == NULL) {
            fail_msg("the page does not say '%s'", said[i]);
        }
    }
    assert_null(strstr(page, "seconds of the run"));
    assert_int_equal(rmdir(folder), 0);
}

// Who reads why nothing is certified can tell a limit from a release that was stopped.
static void nothing_is_certified_with_the_states(void **state)
{
    (void)state;
    static const struct sim_certify_options options = {
        .seeds = 3, .devices = 8, .horizon_s = 600, .out = "out"};
    static const struct sim_certify_pack pack = {.cases = {{"healthy", ""}}, .count = 1};
    struct sim_certify_run runs[3] = {{.state = "running", .ended_s = 600},
                                      {.state = "scheduled", .ended_s = 600},
                                      {.state = "running", .broken = "kept", .ended_s = 42}};
    char said[2048] = {0};
    struct sim_certify_result result = {.options = &options, .pack = &pack, .runs = runs};
    struct base_error error = {0};
    FILE *log = tmpfile();
    assert_non_null(log);
    assert_int_equal(sim_certify_report(&result, log, &error), BASE_ERR_CONFLICT);
    assert_string_equal(error.text, "nothing is certified: no run of 'healthy' ended well "
                                    "(--duration 600); its rollouts: running (2), scheduled (1); "
                                    "see out");
    rewind(log);
    assert_true(fread(said, 1, sizeof(said) - 1, log) > 0);
    assert_non_null(strstr(said, "run-0, healthy: no invariant broke; its rollout was running "
                                 "after 600 s\nrun-1, healthy: "));
    assert_non_null(strstr(said, "run-2, healthy: kept broke; its rollout was running after 42 s"));
    (void)fclose(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_what_they_say),
        cmocka_unit_test(the_products_pack_can_be_read),
        cmocka_unit_test(packs_that_are_refused),
        cmocka_unit_test(lines_of_a_pack),
        cmocka_unit_test(what_is_taken_of_a_run),
        cmocka_unit_test(what_is_no_run_of_it),
        cmocka_unit_test(a_row_is_of_its_runs),
        cmocka_unit_test(nothing_is_certified_with_the_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
