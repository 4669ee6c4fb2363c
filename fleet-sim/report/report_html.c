// report.html: one self-contained page, readable in light and dark, on a phone and on paper,
// without a script. What to decide by comes first (report_first.c), then what the gateway believes,
// coverage over time, who failed, how long things took, what the gateway had to do, and how to
// repeat the run. run_result.c has it written on the coordinator's thread.
#include "report/behaviour_report.h"

#include "base/text/html_text.h"
#include "report/delay_ideal.h"
#include "report/report_parts.h"
#include "report/report_svg.h"
#include "report/thresholds.h"
#include "report/truth_gap.h"

#define DARK                                                                                       \
    "--bg:#14181f;--fg:#e4e8ee;--soft:#98a3b3;--line:#313946;--card:#1c222c;--good:#4cc38a;"       \
    "--bad:#ff7b6b;--c0:#6ea0ff;--c1:#f0ac54;--c2:#4cc9a0;--c3:#b692f0;--c4:#f27d98;--c5:#7ccbdc;" \
    "--c6:#c7b56a;--c7:#9aa3af"
#define LIGHT                                                                                      \
    "--bg:#fff;--fg:#1c2430;--soft:#5b6675;--line:#d9dee6;--card:#f5f7fa;--good:#1a7f4b;"          \
    "--bad:#c0392b;--c0:#2f6fde;--c1:#e08a1e;--c2:#1f9d73;--c3:#8e5bd0;--c4:#d64a6b;--c5:#4aa3b8;" \
    "--c6:#8a7a3d;--c7:#6b7280"

static const char page_head[] =
    "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
    "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
    "<title>Fleet run</title>\n<style>\n"
    ":root{color-scheme:light dark;" LIGHT "}\n"
    "@media screen and (prefers-color-scheme:dark){:root{" DARK "}}\n"
    "body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:0 auto;"
    "max-width:960px;padding:24px;overflow-wrap:break-word}\n"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 8px}"
    ".note{color:var(--soft);margin:4px 0}\n"
    ".good{color:var(--good)}.bad{color:var(--bad)}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;"
    "margin:18px 0}.tile{background:var(--card);border-radius:8px;padding:10px 14px}"
    ".tile b{display:block;font-size:21px;font-weight:600}.tile span{color:var(--soft);"
    "font-size:13px}\n"
    "table{border-collapse:collapse;width:100%;font-size:14px;margin-top:14px}th,td{text-align:"
    "left;vertical-align:top;padding:4px "
    "10px 4px 0;border-bottom:1px solid var(--line)}td.n,th.n{text-align:right;white-space:nowrap}"
    "\n.about th,.verdict th{width:7em;white-space:nowrap}.about "
    "td{overflow-wrap:anywhere}.verdict td:nth-child(2){width:7em;"
    "font-weight:600}.apart td{font-weight:600}td.bars,th.bars{width:220px;padding-left:14px}\n"
    "ul{margin:4px 0;padding-left:1.3em;font-size:14px}\n"
    "svg{width:100%;height:auto;display:block}.grid{stroke:var(--line)}.tick{fill:var(--soft);"
    "font-size:11px}.mark{stroke:var(--soft);stroke-dasharray:2 3}.marktext{fill:var(--soft);"
    "font-size:11px}.line{fill:none;stroke-width:2}.dashed{stroke-dasharray:5 4}\n"
    ".bar{fill:var(--c4)}.whisker{stroke:var(--fg);stroke-width:1.5}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:14px;font-size:13px;color:var(--soft)}"
    ".key{display:inline-block;width:14px;height:4px;border-radius:2px;margin-right:6px;"
    "vertical-align:middle}\n"
    "code{background:var(--card);padding:2px 6px;border-radius:4px;overflow-wrap:anywhere}\n"
    ".slice,.warn{background:var(--card);border-left:4px solid var(--bad);padding:10px "
    "14px;border-radius:4px}\n"
    ".fit th.n{white-space:normal}\n"
    // On a phone charts and wide tables keep their size and are pushed aside with a finger; those
    // that fit break their cells.
    "@media screen and (max-width:700px){body{padding:14px}.wide{overflow-x:auto}"
    "svg.chart{min-width:640px}.wide table{min-width:560px}.tiles{grid-template-columns:1fr 1fr}"
    ".fit{font-size:12px}.fit th,.fit td{padding-right:6px}.fit td.n{white-space:normal}"
    ".about th,.verdict th{width:1em}.verdict td:nth-child(2){width:4em}}\n"
    // On paper the first page is one, and no chart or row is cut.
    "@page{margin:14mm}\n@media print{body{max-width:none;padding:0;font-size:11px}h1{font-size:"
    "18px}h2{font-size:14px;margin:14px 0 4px;break-after:avoid}table,ul{font-size:10.5px;"
    "margin-top:6px}th,td{padding:2px 8px 2px 0}.tile b{font-size:14px}.tile span{font-size:10px}"
    ".tiles{gap:6px;margin:8px 0;grid-template-columns:repeat(6,1fr)}.tile{padding:4px 8px}"
    ".legend{font-size:10px}svg,tr,.tile,.slice,.warn{break-inside:avoid}.first{break-after:page}"
    "h2+.note{break-after:avoid}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}\n";

static void css_series(FILE *file)
{
    for (uint32_t i = 0; i < SIM_SERIES_MAX; i++) {
        (void)fprintf(file, ".line.s%u{stroke:var(--c%u)}.key.s%u{background:var(--c%u)}\n", i, i,
                      i, i);
    }
    (void)fputs("</style></head><body>\n", file);
}

static void trust_section(const struct sim_run_result *result, FILE *file)
{
    char text[SIM_TRUST_TEXT_MAX];
    sim_trust_text(&result->trust, &result->counters, text);
    if (text[0] != 0) {
        (void)fputs("<p class=note>Trust: ", file);
        base_html_text(file, text);
        (void)fputs(".</p>\n", file);
    }
}

// ---- Words ----

// What states and cohorts of a rollout mean, for a run against a gateway: the lines drawn in the
// charts are named so.
static void words_section(const struct sim_run_result *result, FILE *file)
{
    if (result->options->local) {
        return;
    }
    (void)fputs(
        "<h2>Words</h2>\n<p class=note><b>Under way</b>: offered the version, not yet answered, "
        "and "
        "still in time: neither good nor bad. The rule <b>threshold</b> stops a version when more "
        "than its share of those that answered failed, and those under way could not bring it back "
        "below; it passes one when enough answered. The rule <b>logrank</b> compares with devices "
        "that are offered the version they have, once more (<b>placebo</b>), each by what is heard "
        "of it in a window of its own. <b>Guarding</b>: the last stage has passed, everybody is "
        "let "
        "in, and who fails late still takes the version back.</p>\n",
        file);
}

static void oracle_section(const struct sim_run_result *result, FILE *file)
{
    (void)fputs("<h2>What had to hold</h2>\n<p class=note>Computed from what the simulator saw on "
                "every device, not from what devices reported.</p>\n<table>\n",
                file);
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        const struct sim_oracle_result *oracle = &result->verdict.oracle[i];
        const char *nothing = sim_oracle_nothing((enum sim_oracle)i, oracle);
        if (nothing != NULL && oracle->violations == 0) {
            (void)fputs("<tr><td class=note>compared nothing<td>", file);
            base_html_text(file, sim_oracle_text((enum sim_oracle)i));
            (void)fputs("<td class=\"n note\">", file);
            base_html_text(file, nothing);
            (void)fputs("</tr>\n", file);
            continue;
        }
        (void)fprintf(file, "<tr><td class=%s>%s<td>%s<td class=n>%llu of %llu</tr>\n",
                      oracle->holds ? "good" : "bad", oracle->holds ? "holds" : "broken",
                      sim_oracle_text((enum sim_oracle)i), (unsigned long long)oracle->violations,
                      (unsigned long long)oracle->population);
    }
    (void)fputs("</table>\n", file);
}

static void threshold_section(const struct sim_run_result *result, FILE *file)
{
    if (result->options->threshold_count == 0) {
        return;
    }
    (void)fputs("<h2>Thresholds</h2>\n<p class=note>What was asked of the measures of this run. "
                "A quantile is at most 3.2 % above what was measured, never below.</p>\n<table>\n",
                file);
    for (uint32_t i = 0; i < result->options->threshold_count; i++) {
        char said[SIM_THRESHOLD_SAID_MAX];
        bool holds = result->thresholds[i].holds;
        sim_threshold_said(result, i, said);
        (void)fprintf(file, "<tr><td class=%s>%s<td>", holds ? "good" : "bad",
                      holds ? "holds" : "missed");
        base_html_text(file, said);
        (void)fputs("</tr>\n", file);
    }
    (void)fputs("</table>\n", file);
}

static void repeat_section(const struct sim_run_result *result, FILE *file)
{
    (void)fputs("<h2>To repeat it</h2>\n<p><code>", file);
    base_html_text(file, result->options->repro[0] != '\0' ? result->options->repro
                                                           : result->options->command);
    (void)fprintf(file,
                  "</code></p>\n<p class=note>Seed %llu. Devices share %u carrier connections as "
                  "HTTP/2 streams, %u have a connection of their own: shared connections hide "
                  "handshakes and add head-of-line blocking. ",
                  (unsigned long long)result->options->seed, result->budget.carriers,
                  result->budget.dedicated);
    char real[SIM_FOR_REAL_TEXT_MAX];
    sim_for_real_text(result, real);
    (void)fprintf(file, "Work on immutable content is shared; %s.</p>\n</body></html>\n", real);
}

enum base_status sim_report_html_write(const struct sim_run_result *result, FILE *file)
{
    struct sim_columns *columns = NULL;
    BASE_TRY(sim_columns_new(result->timeline, &columns));
    (void)fputs(page_head, file);
    css_series(file);
    sim_page_first(result, file);
    sim_page_gap(result, file);
    trust_section(result, file);
    sim_page_slice(result, file);
    sim_page_coverage(result, columns, file);
    sim_ideal_section(result, file);
    sim_behaviour_section(result, file);
    sim_page_cohorts(result, file);
    sim_page_latency(result, columns, file);
    sim_page_load(result, columns, file);
    words_section(result, file);
    threshold_section(result, file);
    oracle_section(result, file);
    repeat_section(result, file);
    sim_columns_free(columns);
    return ferror(file) != 0 ? BASE_ERR_IO : BASE_OK;
}
