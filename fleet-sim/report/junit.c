// The JUnit file of a run. run_result.c writes it beside the reports, on the main thread, when all
// was gathered. It keeps to what the schemas of Ant and Jenkins have in common: the counts stand on
// the suite, and every case has a class, a name and a time. Texts come from outside too (names of
// tasks, reasons), so they are made visible first and then escaped.
#include "report/run_result.h"

#include "base/version.h"
#include "base/visible.h"
#include "base/text/html_text.h"
#include "report/report_svg.h"
#include "report/thresholds.h"

#include <string.h>

#define TEXT_MAX (2u * SIM_CAUSE_MAX)
#define GOAL     "the run showed what it was to show"

enum verdict { PASSES, FAILS, SKIPPED };

struct test_case {
    const char *kind; // of what: the class
    const char *name;
    enum verdict verdict;
    const char *type;    // of a failure
    const char *message; // of a failure, or why it was skipped
    double time_s;
};

// Of what is no character of XML 1.0, U+FFFE and U+FFFF are left when a text was made visible.
static void escaped(const char *text, FILE *file)
{
    char shown[TEXT_MAX];
    (void)base_visible_text(base_str_of(text), shown, sizeof(shown));
    for (char *at = shown; (at = strstr(at, "\xef\xbf")) != NULL; at++) {
        if (at[2] == '\xbe' || at[2] == '\xbf') {
            *at = '?';
            memmove(at + 1, at + 3, strlen(at + 3) + 1);
        }
    }
    base_html_text(file, shown);
}

static void attribute(const char *name, const char *value, FILE *file)
{
    (void)fprintf(file, " %s=\"", name);
    escaped(value, file);
    (void)fputc('"', file);
}

static void property(const char *name, const char *value, FILE *file)
{
    (void)fputs("      <property", file);
    attribute("name", name, file);
    attribute("value", value, file);
    (void)fputs("/>\n", file);
}

static void write_case(const struct test_case *test, FILE *file)
{
    char kind[64];
    (void)snprintf(kind, sizeof(kind), "walle-fleet-sim.%s", test->kind);
    (void)fputs("    <testcase", file);
    attribute("classname", kind, file);
    attribute("name", test->name, file);
    (void)fprintf(file, " time=\"%.3f\"", test->time_s);
    if (test->verdict == PASSES) {
        (void)fputs("/>\n", file);
        return;
    }
    bool fails = test->verdict == FAILS;
    (void)fprintf(file, ">\n      <%s", fails ? "failure" : "skipped");
    attribute("message", test->message, file);
    if (fails) {
        attribute("type", test->type, file);
    }
    (void)fputs("/>\n    </testcase>\n", file);
}

// Each of these fills the case with number `at` of its kind; `text` has room for its message.

static void oracle_case(const struct sim_run_result *result, uint32_t at, char text[TEXT_MAX],
                        struct test_case *out)
{
    const struct sim_oracle_result *oracle = &result->verdict.oracle[at];
    const char *nothing = sim_oracle_nothing((enum sim_oracle)at, oracle);
    *out = (struct test_case){.kind = "invariant", .name = sim_oracle_text((enum sim_oracle)at)};
    if (oracle->checked && !oracle->holds) {
        (void)snprintf(text, TEXT_MAX, "broken: %llu of %llu",
                       (unsigned long long)oracle->violations,
                       (unsigned long long)oracle->population);
        out->verdict = FAILS;
        out->type = sim_oracle_name((enum sim_oracle)at);
        out->message = text;
    } else if (nothing != NULL) {
        (void)snprintf(text, TEXT_MAX, "compared nothing: %s", nothing);
        out->verdict = SKIPPED;
        out->message = text;
    }
}

static void threshold_case(const struct sim_run_result *result, uint32_t at, char text[TEXT_MAX],
                           struct test_case *out)
{
    *out = (struct test_case){.kind = "threshold",
                              .name = result->options->thresholds[at].text,
                              .verdict = result->thresholds[at].holds ? PASSES : FAILS,
                              .type = "threshold",
                              .message = text};
    sim_threshold_said(result, at, text);
}

static void goal_case(const struct sim_run_result *result, struct test_case *out)
{
    enum sim_outcome outcome = result->outcome;
    *out = (struct test_case){.kind = "goal",
                              .name = GOAL,
                              .verdict = FAILS,
                              .type = sim_outcome_name(outcome),
                              .message = result->cause[0] != '\0' ? result->cause : result->ended,
                              .time_s = result->duration_s};
    if (outcome == SIM_OUTCOME_PASSED || outcome == SIM_OUTCOME_THRESHOLD) {
        out->verdict = PASSES;
    } else if (outcome == SIM_OUTCOME_FAILED && !result->verdict.holds) {
        out->verdict = SKIPPED;
        out->message = "not judged, for an invariant broke";
    }
}

static void nth_case(const struct sim_run_result *result, uint32_t at, char text[TEXT_MAX],
                     struct test_case *out)
{
    text[0] = '\0';
    if (at < SIM_ORACLE_COUNT) {
        oracle_case(result, at, text, out);
    } else if (at < SIM_ORACLE_COUNT + result->options->threshold_count) {
        threshold_case(result, at - SIM_ORACLE_COUNT, text, out);
    } else {
        goal_case(result, out);
    }
}

static void write_head(const struct sim_run_result *result, const uint32_t counts[3], FILE *file)
{
    const struct sim_about *about = &result->about;
    char where[SIM_GATEWAY_TEXT_MAX];
    char host[SIM_ABOUT_MACHINE_MAX];
    char began[SIM_ABOUT_DATE_MAX];
    char seed[24];
    (void)snprintf(host, sizeof(host), "%s", about->machine);
    host[strcspn(host, ",")] = '\0';
    (void)snprintf(began, sizeof(began), "%s", about->began); // the schemas have no zone there
    began[strcspn(began, "Z")] = '\0';
    (void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)result->options->seed);
    sim_gateway_text(result->options, where);
    (void)fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite", file);
    attribute("package", "walle", file);
    attribute("id", "0", file);
    attribute("name", result->options->local ? "walle-fleet-sim simulate" : "walle-fleet-sim run",
              file);
    attribute("timestamp", began, file);
    attribute("hostname", host[0] != '\0' ? host : "localhost", file);
    (void)fprintf(file, " tests=\"%u\" failures=\"%u\" errors=\"0\" skipped=\"%u\" time=\"%.3f\"",
                  counts[PASSES] + counts[FAILS] + counts[SKIPPED], counts[FAILS], counts[SKIPPED],
                  result->duration_s);
    (void)fputs(">\n    <properties>\n", file);
    property("outcome", sim_outcome_name(result->outcome), file);
    property("task", about->task, file);
    property("version", about->version, file);
    property("manifest", about->manifest, file);
    property("devices were", where, file);
    property("seed", seed, file);
    property("command", result->options->command, file);
    property("product", "walle-fleet-sim " BASE_PRODUCT_VERSION, file);
    (void)fputs("    </properties>\n", file);
}

enum base_status sim_junit_write(const struct sim_run_result *result, FILE *file)
{
    uint32_t count = SIM_ORACLE_COUNT + result->options->threshold_count + 1;
    uint32_t counts[3] = {0};
    char text[TEXT_MAX];
    struct test_case test;
    for (uint32_t i = 0; i < count; i++) {
        nth_case(result, i, text, &test);
        counts[test.verdict]++;
    }
    write_head(result, counts, file);
    for (uint32_t i = 0; i < count; i++) {
        nth_case(result, i, text, &test);
        write_case(&test, file);
    }
    (void)fputs("    <system-out>", file);
    escaped(result->ended, file);
    (void)fputs("</system-out>\n    <system-err/>\n  </testsuite>\n</testsuites>\n", file);
    return ferror(file) != 0 ? BASE_ERR_IO : BASE_OK;
}
