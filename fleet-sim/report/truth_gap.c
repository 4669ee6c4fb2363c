// What the gateway believes beside what is true. report_html.c, run_summary.c and run_json.c call
// it on the coordinator's thread, when the run is over. The truth is from the ledgers' counters,
// the belief from the rollouts as the gateway told them last. Nothing is guessed: what the gateway
// was not asked, or did not say, is said to be so, and is no gap of zero.
#include "report/truth_gap.h"

#include "base/check.h"
#include "base/text/html_text.h"
#include "report/report_svg.h"

#include <math.h>

static const struct {
    const char *name;
    const char *text;
} rows[SIM_GAP_ROWS] = {
    [SIM_GAP_OFFERED] = {"offered", "were offered it"},
    [SIM_GAP_RAN] = {"ran", "ran it to a good end"},
    [SIM_GAP_FAILED] = {"failed", "failed with it, or are taken to have, as they did not answer"},
    [SIM_GAP_UNDECIDED] = {"undecided", "were offered it, with no end so far"},
    [SIM_GAP_BACK] = {"rolled_back", "went back from it"},
    [SIM_GAP_CURRENT] = {"current", "run it now"},
};

const char *sim_gap_name(enum sim_gap_row row)
{
    base_assert(row < SIM_GAP_ROWS);
    return rows[row].name;
}

const char *sim_gap_text(enum sim_gap_row row)
{
    base_assert(row < SIM_GAP_ROWS);
    return rows[row].text;
}

static void take_truth(const struct sim_run_result *result, uint8_t version, struct sim_gap *out)
{
    const struct sim_version_counters *c = &result->counters.version[version];
    out->truth[SIM_GAP_OFFERED] = c->offered;
    out->truth[SIM_GAP_RAN] = c->ran;
    out->truth[SIM_GAP_FAILED] = c->failed;
    out->truth[SIM_GAP_UNDECIDED] = result->undecided[version];
    out->truth[SIM_GAP_BACK] = c->rolled_back;
    out->truth[SIM_GAP_CURRENT] = c->current > 0 ? (uint64_t)c->current : 0;
}

static void take_said(const struct sim_rollout_told *told, struct sim_gap *out)
{
    struct sim_gateway_counts said;
    sim_gateway_counts_since(&told->seen, &said);
    out->rollouts++;
    out->unproven += said.unproven;
    out->said[SIM_GAP_OFFERED] += said.offered;
    out->said[SIM_GAP_RAN] += said.succeeded;
    out->said[SIM_GAP_FAILED] += said.failed;
    out->said[SIM_GAP_UNDECIDED] += said.under_way;
    out->said[SIM_GAP_BACK] += said.rolled_back;
    // Each rollout of a version counts all that run it.
    uint64_t current = said.on_version;
    out->said[SIM_GAP_CURRENT] =
        current > out->said[SIM_GAP_CURRENT] ? current : out->said[SIM_GAP_CURRENT];
}

void sim_gap_of(const struct sim_run_result *result, uint8_t version, struct sim_gap *out)
{
    base_assert(version < SIM_VERSIONS_MAX);
    *out = (struct sim_gap){.why_not = NULL};
    take_truth(result, version, out);
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        if (result->rollouts[i].version == version) {
            take_said(&result->rollouts[i], out);
        }
    }
    if (result->options->local) {
        out->why_not = "the gateway was not asked: there is none in a simulation";
    } else if (out->rollouts == 0) {
        out->why_not = result->gateway_denied
                           ? "the gateway was asked and did not say: it shows its rollouts to "
                             "operators only (--token-file)"
                           : "the gateway was asked and named no rollout of this version";
    }
}

bool sim_gap_share(const struct sim_gap *gap, enum sim_gap_row row, double *out_percent)
{
    double truth = (double)gap->truth[row];
    double apart = (double)gap->said[row] - truth;
    *out_percent = truth > 0 ? apart / truth * 100 : 0;
    return truth > 0 || gap->said[row] == 0;
}

static long long apart_of(const struct sim_gap *gap, enum sim_gap_row row)
{
    return (long long)gap->said[row] - (long long)gap->truth[row];
}

static void row_write(const struct sim_gap *gap, enum sim_gap_row row, FILE *file)
{
    double percent = 0;
    long long apart = apart_of(gap, row);
    (void)fprintf(file, "<tr><td>%s<td class=n>%llu", sim_gap_text(row),
                  (unsigned long long)gap->truth[row]);
    if (gap->why_not != NULL) {
        (void)fputs("<td class=\"n note\">not said<td class=n><td class=n></tr>\n", file);
        return;
    }
    bool share = sim_gap_share(gap, row, &percent);
    (void)fprintf(file, "<td class=n>%llu<td class=\"n%s\">", (unsigned long long)gap->said[row],
                  apart != 0 ? " bad" : "");
    (void)fprintf(file, apart != 0 ? "%+lld" : "%lld", apart);
    if (share) {
        (void)fprintf(file,
                      fabs(percent) > 0 ? "<td class=n>%+.2f %%</tr>\n" : "<td class=n>0 %%</tr>\n",
                      percent);
    } else {
        (void)fputs("<td class=\"n note\">of none</tr>\n", file);
    }
}

static void version_write(const struct sim_run_result *result, uint8_t version, FILE *file)
{
    struct sim_gap gap;
    char release[SIM_RELEASE_TEXT_MAX];
    sim_gap_of(result, version, &gap);
    sim_release_text(result, version, release);
    (void)fputs("<table class=fit><tr><th>devices of ", file);
    base_html_text(file, release);
    (void)fputs("<th class=n>really<th class=n>the gateway counts<th class=n>gap<th class=n>of "
                "the truth</tr>\n",
                file);
    for (uint32_t row = 0; row < SIM_GAP_ROWS; row++) {
        row_write(&gap, (enum sim_gap_row)row, file);
    }
    (void)fputs("</table>\n", file);
    if (gap.why_not != NULL) {
        (void)fprintf(file, "<p class=note>%s.</p>\n", gap.why_not);
    }
    if (gap.rollouts > 1) {
        (void)fprintf(file, "<p class=note>The gateway's counts are of %u rollouts.</p>\n",
                      gap.rollouts);
    }
    if (gap.unproven > 0) {
        (void)fprintf(file,
                      "<p class=note>%llu more devices told the gateway something and did not show "
                      "who they are: it counts them apart (trust_unproven).</p>\n",
                      (unsigned long long)gap.unproven);
    }
}

void sim_page_gap(const struct sim_run_result *result, FILE *file)
{
    uint32_t written = 0;
    (void)fputs("<h2>What the gateway believes</h2>\n<p class=note>What really became of the "
                "release, beside what the gateway counts, which is what devices could tell. The "
                "gate decides by the latter. The gateway keeps no counts by cohort.</p>\n",
                file);
    for (uint8_t v = 1; v < result->version_count && v < SIM_VERSIONS_MAX; v++) {
        if (!result->uncounted[v] && result->counters.version[v].offered > 0) {
            version_write(result, v, file);
            written++;
        }
    }
    if (written == 0) {
        (void)fputs("<p>No device was offered a release.</p>\n", file);
    }
}

static void line_print(const struct sim_gap *gap, const char *release, FILE *log)
{
    const char *comma = "";
    (void)fprintf(log, "  truth gap   %s: ", release);
    if (gap->why_not != NULL) {
        (void)fprintf(log, "%s\n", gap->why_not);
        return;
    }
    for (uint32_t row = 0; row < SIM_GAP_ROWS; row++) {
        long long apart = apart_of(gap, (enum sim_gap_row)row);
        if (apart != 0) {
            (void)fprintf(log, "%s%s %llu, the gateway counts %llu", comma,
                          sim_gap_name((enum sim_gap_row)row), (unsigned long long)gap->truth[row],
                          (unsigned long long)gap->said[row]);
            comma = "; ";
        }
    }
    (void)fputs(comma[0] == '\0' ? "0: the gateway counts what is true\n" : "\n", log);
}

void sim_gap_print(const struct sim_run_result *result, FILE *log)
{
    for (uint8_t v = 1; v < result->version_count && v < SIM_VERSIONS_MAX; v++) {
        if (!result->uncounted[v] && result->counters.version[v].offered > 0) {
            struct sim_gap gap;
            char release[SIM_RELEASE_TEXT_MAX];
            sim_gap_of(result, v, &gap);
            sim_release_text(result, v, release);
            line_print(&gap, release, log);
        }
    }
}
