// What `rollout status`, `explain` and the cost table say in words: plurals of one, evidence beyond
// all that is asked for, what is in a sum.
#include "test_kit.h"

#include "cli/base/duration.h"
#include "cli/rollout/rollout_cost.h"
#include "cli/rollout/rollout_explain.h"
#include "cli/rollout/rollout_show.h"

#include <stdlib.h>

static const char rollout_text[] =
    "{\"id\": \"00000000000000aa\", \"task\": \"t\", \"version\": \"1.0.0\", \"state\": "
    "\"running\", \"verdict\": \"no_data\", \"reason\": \"no_completions\", \"reason_text\": "
    "\"none\", \"stage\": {\"index\": 0, \"name\": \"full\"}, \"test\": {\"updated\": 0.5, "
    "\"control\": 0, \"evidence\": 3.3e27, \"good_evidence\": 0.5}, \"counts\": {\"offered\": 1, "
    "\"silent\": 1, \"unproven\": 1}, \"fingerprints\": [{\"devices\": 1, \"kind\": "
    "\"fail_exception\", \"detail\": \"x\"}], \"stages\": [{\"name\": \"full\", \"kind\": "
    "\"full\", \"percent\": 100, \"rule\": \"sequential\", \"alpha\": 0.05, \"beta\": 0.1, "
    "\"min_sample\": 1, \"min_dwell_s\": 0, \"min_answered\": 0.9, \"execution_timeout_s\": 60, "
    "\"counts\": {\"offered\": 1, \"silent\": 1}}]}";

static const char cost_text[] =
    "{\"declares\": true, \"fits\": true, \"tasks\": [{\"task\": \"t\"}], \"sum\": {\"tasks\": 1}, "
    "\"budget\": {\"tasks\": 24}}";

static char *said(const char *json, void (*say)(FILE *file, const json_t *root))
{
    char *text = NULL;
    size_t size = 0;
    json_t *root = json_loads(json, 0, NULL);
    assert_non_null(root);
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    say(file, root);
    fclose(file);
    json_decref(root);
    return text;
}

static void explain(FILE *file, const json_t *root)
{
    rollout_explain(file, root, "", 0);
}

static void show(FILE *file, const json_t *root)
{
    (void)rollout_show(file, root);
}

static void expect(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("not said: %s\nbut: %s", part, text);
    }
}

static void spans_are_said_in_their_unit(void **state)
{
    (void)state;
    static const struct {
        uint64_t seconds;
        const char *text;
        bool exact;
    } cases[] = {{0, "0 seconds", true},
                 {1, "1 second", true},
                 {119, "119 seconds", true},
                 {120, "2 minutes", true},
                 {150, "3 minutes", false},
                 {149, "2 minutes", false},
                 {7200, "2 hours", true},
                 {86400, "24 hours", true},
                 {100000, "28 hours", false},
                 {172800, "2 days", true},
                 {UINT64_MAX, "213503982334601 days", false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[DURATION_TEXT_MAX];
        assert_int_equal(duration_text(cases[i].seconds, text), cases[i].exact);
        assert_string_equal(text, cases[i].text);
    }
}

static void a_failed_stage_says_what_accepting_it_does(void **state)
{
    (void)state;
    static const char held[] =
        "{\"id\": \"aa\", \"state\": \"paused\", \"stage_failed\": true, \"verdict\": \"fail\", "
        "\"reason_text\": \"now\", \"cause\": {\"reason\": \"x\", \"text\": \"then\"}, \"stage\": "
        "{\"index\": %d}, \"stages\": [{\"name\": \"gray\"}, {\"name\": \"full\"}]}";
    for (int last = 0; last < 2; last++) {
        char json[sizeof(held) + 8];
        (void)snprintf(json, sizeof(json), held, last);
        char *text = said(json, explain);
        expect(text, "Verdict fail: then; now,");
        expect(text, last ? "not judged again, and the version is everybody's at once"
                          : "not judged again, and the next one opens at once");
        free(text);
    }
}

// The verdict is of the open stage and of the last look at it, the counts beside it are of all
// stages and of now: what is waited for is said so that both are true.
static void what_is_waited_for_agrees_with_the_counts(void **state)
{
    (void)state;
    static const char waiting[] =
        "{\"id\": \"aa\", \"state\": \"running\", \"verdict\": \"no_data\", \"reason\": "
        "\"no_completions\", \"reason_text\": \"no device completed yet\", \"stage\": {\"index\": "
        "1, "
        "\"name\": \"gray\"}, \"counts\": {\"offered\": 36, \"succeeded\": %u, \"failed\": 1}, "
        "\"stages\": [{\"name\": \"beta\"}, {\"name\": \"gray\", \"counts\": {\"offered\": %u, "
        "\"timed_out\": %u}}]}";
    static const struct {
        unsigned before;
        unsigned now;
        const char *text;
    } cases[] = {
        {35, 0,
         "waiting: no device completed stage gray yet (36 completed those before); 36 offered"},
        {33, 2, "waiting: the 2 that completed stage gray so far are not judged yet; 36 offered"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char json[sizeof(waiting) + 16];
        (void)snprintf(json, sizeof(json), waiting, cases[i].before, cases[i].now, cases[i].now);
        char *text = said(json, rollout_show_line);
        expect(text, cases[i].text);
        assert_null(strstr(text, "no device completed yet"));
        free(text);
    }
    char *text = said(rollout_text, rollout_show_line);
    expect(text, "waiting: none; 1 offered");
    free(text);
}

static void one_is_no_plural(void **state)
{
    (void)state;
    char *text = said(rollout_text, explain);
    assert_null(strstr(text, " 1 devices"));
    assert_null(strstr(text, "\n1 devices"));
    expect(text, "at least 1 device completed");
    expect(text, "1 device was offered it");
    expect(text, "On 1 device: ");
    expect(text, "Missing: 1 more device ");
    expect(text, "not counted: 1 device that did");
    free(text);
    text = said(rollout_text, show);
    assert_null(strstr(text, " 1 devices"));
    free(text);
    text = said(cost_text, rollout_cost_print);
    expect(text, "together, 1 task ");
    expect(text, "a phone has, 24 with triggers");
    free(text);
}

static void huge_evidence_is_told_by_its_size(void **state)
{
    (void)state;
    char *text = said(rollout_text, show);
    expect(text, "against \"no worse\" 3.3e+27 of 20, against \"too bad\" 0.50 of 10 needed");
    free(text);
}

static void what_is_silent_is_said(void **state)
{
    (void)state;
    char *text = said(rollout_text, show);
    expect(text, "  silent: activated it and were not heard of since; who had run well before is "
                 "among the ok, too\n");
    free(text);
}

// A stage that is over keeps what its control came to.
static void control_stays_with_its_stage(void **state)
{
    (void)state;
    static const char two[] =
        "{\"stage\": {\"index\": 1}, \"stages\": [{\"name\": \"gray\", \"kind\": \"gray\", "
        "\"percent\": 1, \"counts\": {\"control\": 50, \"control_completed\": 48, "
        "\"control_failed\": 2}}, {\"name\": \"full\", \"kind\": \"full\", \"counts\": {}}]}";
    char *text = said(two, show);
    expect(text, "0 under way; control 50, 48 completed, 2 failed\n");
    expect(text, "0 under way\n");
    free(text);
}

// ---- A trial, whose windows end

#define TRIAL(under_way, unanswered, window_s)                                                     \
    "{\"id\": \"00000000000000aa\", \"state\": \"running\", \"verdict\": \"inconclusive\", "       \
    "\"reason\": "                                                                                 \
    "\"sample_too_small\", \"stage\": {\"index\": 0, \"name\": \"gray\"}, \"trial\": "             \
    "{\"updated\": "                                                                               \
    "{\"offered\": 100, \"failed\": 0, \"succeeded\": 20, \"under_way\": " #under_way              \
    ", \"unanswered\": " #unanswered "}, \"control\": {}, \"compares\": false, "                   \
    "\"windows_end_s\": 1795466000}, \"stages\": [{\"name\": "                                     \
    "\"gray\", \"kind\": \"gray\", \"rule\": \"logrank\", \"min_sample\": 50, \"min_answered\": "  \
    "0.9, "                                                                                        \
    "\"window_s\": " #window_s ", \"counts\": {\"offered\": 100}}]}"

static void a_trial_says_when_its_windows_end(void **state)
{
    (void)state;
    char *text = said(TRIAL(80, 0, 600), show);
    expect(text, "windows: 600 s each from the end of a device's block; those of all offered by "
                 "now end by 2026-11-23T");
    free(text);
    text = said(TRIAL(80, 0, 600), explain);
    expect(text, "Missing: 30 more devices");
    assert_null(strstr(text, "in vain"));
    free(text);
}

static void a_window_that_is_too_short_is_named(void **state)
{
    (void)state;
    char *text = said(TRIAL(0, 80, 5), explain);
    expect(text, "It waits in vain, unless more devices come: 80 of 100 were not heard of within "
                 "the stage's window of 5 s");
    expect(text, "\"window_s\"");
    assert_null(strstr(text, "Missing: "));
    free(text);
    text = said(TRIAL(0, 80, 5), show);
    expect(text, "were over 2026-11-23T");
    free(text);
    text = said(TRIAL(0, 10, 5), explain);
    assert_null(strstr(text, "in vain"));
    free(text);
}

// ---- Words beside counts

static void what_is_waited_for_is_no_finding(void **state)
{
    (void)state;
    static const char passed[] =
        "{\"state\": \"running\", \"verdict\": \"no_data\", \"reason\": \"failures_within_limit\", "
        "\"reason_text\": \"failures are within the limit\", \"stage\": {\"index\": 1, \"name\": "
        "\"gray-10\"}, \"counts\": {\"succeeded\": 9}, \"stages\": []}";
    char *text = said(passed, show);
    expect(text, "verdict waiting: stage gray-10 has just opened\n");
    free(text);
    text = said(rollout_text, show);
    expect(text, "verdict waiting: none\n");
    free(text);
}

static void nobody_is_under_way_in_what_was_taken_back(void **state)
{
    (void)state;
    static const char back[] =
        "{\"state\": \"rolled_back\", \"verdict\": \"fail\", \"counts\": {\"offered\": 9, "
        "\"under_way\": "
        "7}, \"stages\": [{\"name\": \"full\", \"kind\": \"full\", \"counts\": {\"offered\": 9, "
        "\"under_way\": 7}}]}";
    char *text = said(back, show);
    expect(text, "7 never answered");
    assert_null(strstr(text, "under way"));
    free(text);
}

static void show_failed(FILE *file, const json_t *root)
{
    rollout_show_failed(file, root);
}

// A line that ends a rollout has the counts of its own look.
static void a_share_is_of_the_counts_beside_it(void **state)
{
    (void)state;
    char *text = said("{\"failure_ratio\": 0.5, \"counts\": {\"succeeded\": 90, \"failed\": 8, "
                      "\"timed_out\": 2}}",
                      show_failed);
    assert_string_equal(text, "10.00 % of 100 completed had failed");
    free(text);
    text = said("{\"failure_ratio\": 0.5, \"counts\": {\"trial\": {\"updated\": {\"offered\": 40, "
                "\"failed\": 1}}}}",
                show_failed);
    assert_string_equal(text, "2.50 % of 40 offered had failed");
    free(text);
}

static void late_failures_end_with_1(void **state)
{
    (void)state;
    json_t *root =
        json_pack("{s:s, s:{s:i, s:i}}", "state", "completed", "late", "failed", 5, "completed", 8);
    assert_int_equal(rollout_exit(root), CLI_EXIT_FAILED);
    (void)json_object_set_new(root, "late", json_null());
    assert_int_equal(rollout_exit(root), CLI_EXIT_OK);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_said_in_their_unit),
        cmocka_unit_test(a_failed_stage_says_what_accepting_it_does),
        cmocka_unit_test(what_is_waited_for_agrees_with_the_counts),
        cmocka_unit_test(one_is_no_plural),
        cmocka_unit_test(huge_evidence_is_told_by_its_size),
        cmocka_unit_test(what_is_silent_is_said),
        cmocka_unit_test(control_stays_with_its_stage),
        cmocka_unit_test(a_trial_says_when_its_windows_end),
        cmocka_unit_test(a_window_that_is_too_short_is_named),
        cmocka_unit_test(what_is_waited_for_is_no_finding),
        cmocka_unit_test(nobody_is_under_way_in_what_was_taken_back),
        cmocka_unit_test(a_share_is_of_the_counts_beside_it),
        cmocka_unit_test(late_failures_end_with_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
