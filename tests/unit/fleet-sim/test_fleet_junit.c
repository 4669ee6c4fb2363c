// The JUnit file of a run: its counts are those of its cases, what compared nothing is skipped with
// the reason, and texts from outside cannot end what they stand in.
#include "test_kit.h"

#include "report/run_result.h"
#include "report/thresholds.h"

#include <string.h>

#define FILE_BYTES_MAX (1u << 16)

static struct sim_options options;
static struct sim_run_result result;
static char text[FILE_BYTES_MAX];

// All that passed: one invariant compared ten devices, and a threshold holds.
static void passed(void)
{
    memset(&options, 0, sizeof(options));
    memset(&result, 0, sizeof(result));
    options.devices = 10;
    options.seed = 5;
    options.local = true;
    result.options = &options;
    result.duration_s = 2.5;
    result.counters.wakes = result.counters.arrived = 10;
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        result.verdict.oracle[i] = (struct sim_oracle_result){.checked = true, .holds = true};
    }
    result.verdict.oracle[SIM_ORACLE_RECOVERED].population = 10;
    result.verdict.oracle[SIM_ORACLE_LAW].checked = false;
    result.verdict.holds = true;
    (void)snprintf(result.about.began, sizeof(result.about.began), "2026-11-23T22:46:20Z");
    (void)snprintf(result.about.machine, sizeof(result.about.machine), "build-7, Linux 6.1");
    options.threshold_count = 1;
    assert_int_equal(sim_threshold_parse(BASE_STR("arrived <= 10"), &options.thresholds[0], NULL),
                     BASE_OK);
    sim_thresholds_judge(&result);
}

static uint32_t occurrences(const char *part)
{
    uint32_t count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

static void said(const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s is not in:\n%s", part, text);
    }
}

static void written(uint32_t failures, uint32_t skipped)
{
    char counts[96];
    memset(text, 0, sizeof(text));
    FILE *file = fmemopen(text, sizeof(text) - 1, "w");
    assert_non_null(file);
    assert_int_equal(sim_junit_write(&result, file), BASE_OK);
    assert_int_equal(fclose(file), 0);
    uint32_t tests = SIM_ORACLE_COUNT + options.threshold_count + 1;
    (void)snprintf(counts, sizeof(counts),
                   "tests=\"%u\" failures=\"%u\" errors=\"0\" skipped=\"%u\"", tests, failures,
                   skipped);
    said(counts);
    assert_int_equal(occurrences("<testcase "), tests);
    assert_int_equal(occurrences("<failure "), failures);
    assert_int_equal(occurrences("<skipped "), skipped);
    assert_int_equal(occurrences("</testcase>"), failures + skipped);
}

static void what_compared_nothing_is_skipped(void **state)
{
    (void)state;
    passed();
    written(0, SIM_ORACLE_COUNT - 1);
    said(
        "name=\"walle-fleet-sim simulate\" timestamp=\"2026-11-23T22:46:20\" hostname=\"build-7\"");
    said("time=\"2.500\"");
    said("<skipped message=\"compared nothing: no device did its work for real (--real-every)\"/>");
    said("<skipped message=\"compared nothing: no task ran\"/>");
    said("<skipped message=\"compared nothing: no device behaved towards a gateway "
         "(--behaviour)\"/>");
    said("classname=\"walle-fleet-sim.threshold\" name=\"arrived &lt;= 10\" time=\"0.000\"/>");
    said("classname=\"walle-fleet-sim.goal\" name=\"the run showed what it was to show\" "
         "time=\"2.500\"/>");
}

static void what_failed_says_how(void **state)
{
    (void)state;
    passed(); // an invariant: the goal was not judged
    result.verdict.oracle[SIM_ORACLE_RECOVERED].holds = false;
    result.verdict.oracle[SIM_ORACLE_RECOVERED].violations = 3;
    result.verdict.holds = false;
    result.outcome = SIM_OUTCOME_FAILED;
    written(1, SIM_ORACLE_COUNT);
    said("<failure message=\"broken: 3 of 10\" type=\"recovered\"/>");
    said("<skipped message=\"not judged, for an invariant broke\"/>");
    passed(); // one that found something wrong compared something, whatever its population
    result.verdict.oracle[SIM_ORACLE_EXACT].holds = false;
    result.verdict.oracle[SIM_ORACLE_EXACT].violations = 1;
    result.verdict.holds = false;
    result.outcome = SIM_OUTCOME_FAILED;
    written(1, SIM_ORACLE_COUNT - 1);
    said("type=\"exact\"");
    passed(); // a threshold: the goal was reached
    result.counters.arrived = 11;
    sim_thresholds_judge(&result);
    result.outcome = SIM_OUTCOME_THRESHOLD;
    written(1, SIM_ORACLE_COUNT - 1);
    said("<failure message=\"arrived &lt;= 10: 11, does not hold\" type=\"threshold\"/>");
    passed();
    result.outcome = SIM_OUTCOME_INTERRUPTED;
    (void)snprintf(result.ended, sizeof(result.ended), "interrupted by a signal");
    written(1, SIM_ORACLE_COUNT - 1);
    said("<failure message=\"interrupted by a signal\" type=\"interrupted\"/>");
}

static void texts_end_nothing(void **state)
{
    (void)state;
    passed();
    result.outcome = SIM_OUTCOME_FAILED;
    (void)snprintf(result.cause, sizeof(result.cause), "%s",
                   "a<b>&\"c\"\x01\n\x1b[2J\xff\xef\xbf\xbf]]>\xc3\xa4\xc3");
    (void)snprintf(options.command, sizeof(options.command), "run --where 'a < \"b\" && c'");
    (void)snprintf(result.ended, sizeof(result.ended), "</system-out>");
    written(1, SIM_ORACLE_COUNT - 1);
    said("message=\"a&lt;b&gt;&amp;&quot;c&quot;\\u0001\\u000a\\u001b[2J\\xff?]]&gt;"
         "\xc3\xa4\\xc3\"");
    said("value=\"run --where &#39;a &lt; &quot;b&quot; &amp;&amp; c&#39;\"/>");
    said("<system-out>&lt;/system-out&gt;</system-out>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_compared_nothing_is_skipped),
        cmocka_unit_test(what_failed_says_how),
        cmocka_unit_test(texts_end_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
