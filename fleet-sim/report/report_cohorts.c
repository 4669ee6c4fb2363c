// Where the failures are: the slice of the population that explains them, and the failure rate of
// each cohort, worst first. report_html.c calls it on the coordinator's thread. Who failed was
// counted by slice_mining.c from the ledgers.
#include "report/report_parts.h"

#include "base/check.h"
#include "base/text/html_text.h"
#include "report/report_svg.h"

#include <stdlib.h>

#define COHORTS_MAX 256 // values of all traits
#define BAR_WIDTH   300.0

// A few devices of each way to fail, and the command that looks at one.
static void failing_write(const struct sim_run_result *result, FILE *file)
{
    char text[SIM_FAILING_TEXT_MAX];
    char look[SIM_LOOK_TEXT_MAX];
    (void)fputs("<table><tr><th>failed as<th class=n>devices<th>which</tr>\n", file);
    for (uint32_t i = 0; i < SIM_OUTCOMES; i++) {
        const struct sim_failing *way = &result->failing[i];
        if (way->devices > 0) {
            sim_failing_text(way, text);
            (void)fprintf(file, "<tr><td>%s<td class=n>%llu<td><code>%s</code></tr>\n",
                          wire_outcome_name((enum wire_outcome_kind)i),
                          (unsigned long long)way->devices, text);
        }
    }
    if (result->failing_slice.devices > 0) {
        sim_failing_text(&result->failing_slice, text);
        (void)fprintf(file,
                      "<tr><td>any, in the slice above<td class=n>%llu<td><code>%s</code></tr>\n",
                      (unsigned long long)result->failing_slice.devices, text);
    }
    (void)fputs("</table>\n", file);
    if (sim_look_text(result, look)) {
        (void)fputs("<p class=note>What one of them did: <code>", file);
        base_html_text(file, look);
        (void)fputs("</code></p>\n", file);
    }
}

void sim_page_slice(const struct sim_run_result *result, FILE *file)
{
    char version[SIM_RELEASE_TEXT_MAX];
    char text[SIM_SLICE_TEXT_MAX];
    if (result->focus == SIM_VERSION_NONE || result->slice.failed_total == 0) {
        return;
    }
    sim_release_text(result, result->focus, version);
    (void)fputs("<h2>Where the failures are</h2>\n", file);
    if (result->slice.cond_count == 0) {
        (void)fputs("<p>", file);
        base_html_text(file, version);
        (void)fprintf(file, " failed on %llu of %llu devices: %s.</p>\n",
                      (unsigned long long)result->slice.failed_total,
                      (unsigned long long)result->slice.devices_total,
                      sim_slice_none(&result->slice));
        failing_write(result, file);
        return;
    }
    sim_slice_text(&result->slice, text);
    (void)fprintf(file, "<div class=slice>%.1f %% of the failures of ",
                  sim_slice_support(&result->slice) * 100);
    base_html_text(file, version);
    (void)fputs(" are on devices with <code>", file);
    base_html_text(file, text);
    (void)fprintf(
        file,
        "</code>, of which %.1f %% failed (%llu of %llu; %llu failures on %llu devices "
        "in all).</div>\n",
        sim_slice_precision(&result->slice) * 100, (unsigned long long)result->slice.failed,
        (unsigned long long)result->slice.devices, (unsigned long long)result->slice.failed_total,
        (unsigned long long)result->slice.devices_total);
    failing_write(result, file);
}

struct line {
    const char *name; // of the value
    enum sim_trait trait;
    uint32_t value;
    const struct sim_cohort *cohort;
    double rate, low, high;
};

// Highest rate first; of equal ones the larger cohort, of which more is known.
static int worse_first(const void *left, const void *right)
{
    const struct line *a = left;
    const struct line *b = right;
    if (a->rate < b->rate || a->rate > b->rate) {
        return a->rate < b->rate ? 1 : -1;
    }
    if (a->cohort->devices != b->cohort->devices) {
        return a->cohort->devices < b->cohort->devices ? 1 : -1;
    }
    return a->trait != b->trait ? (int)a->trait - (int)b->trait : (int)a->value - (int)b->value;
}

static uint32_t lines_gather(const struct sim_run_result *result, struct line lines[COHORTS_MAX])
{
    const struct sim_people *people = result->options->people;
    uint32_t count = 0;
    for (uint32_t t = 0; t < SIM_TRAIT_COUNT; t++) {
        for (uint32_t v = 0; v < sim_trait_value_count(people, (enum sim_trait)t); v++) {
            const struct sim_cohort *c = sim_mining_cohort(result->mining, (enum sim_trait)t, v);
            if (c->devices == 0 || count == COHORTS_MAX) {
                continue;
            }
            struct line *line = &lines[count++];
            *line = (struct line){.trait = (enum sim_trait)t, .value = v, .cohort = c};
            line->name = sim_trait_text(people, line->trait, v);
            line->rate = (double)c->failed / (double)c->devices;
            sim_wilson(c->failed, c->devices, &line->low, &line->high);
        }
    }
    qsort(lines, count, sizeof(lines[0]), worse_first);
    return count;
}

static void line_write(const struct line *line, double scale, double fleet, FILE *file)
{
    // Its interval does not reach down to what the whole fleet has.
    bool apart = line->low > fleet;
    double unit = BAR_WIDTH / scale;
    base_assert(scale > 0);
    (void)fprintf(file, "<tr%s><td>%s = ", apart ? " class=apart" : "",
                  sim_trait_name(line->trait));
    base_html_text(file, line->name);
    (void)fprintf(
        file, "<td class=n>%llu<td class=n>%llu<td class=n>%.2f %%<td class=n>%.2f to %.2f %%",
        (unsigned long long)line->cohort->devices, (unsigned long long)line->cohort->failed,
        line->rate * 100, line->low * 100, line->high * 100);
    (void)fprintf(file,
                  "<td class=bars><svg viewBox=\"0 0 300 14\"><rect class=bar x=0 y=3 "
                  "width=%.1f height=8 /><line class=whisker x1=%.1f x2=%.1f y1=7 y2=7 "
                  "/></svg></tr>\n",
                  line->rate * unit, line->low * unit, line->high * unit);
}

// Cohorts in which nothing failed, in one sentence: the smallest of them says least.
static void clean_write(const struct line *lines, uint32_t count, FILE *file)
{
    double high = 0;
    if (count == 0) {
        return;
    }
    (void)fprintf(file, "<p class=note>No failure in %u cohort%s: ", count, count > 1 ? "s" : "");
    for (uint32_t i = 0; i < count; i++) {
        (void)fprintf(file, "%s%s = ", i > 0 ? ", " : "", sim_trait_name(lines[i].trait));
        base_html_text(file, lines[i].name);
        (void)fprintf(file, " (%llu)", (unsigned long long)lines[i].cohort->devices);
        high = lines[i].high > high ? lines[i].high : high;
    }
    (void)fprintf(file,
                  ". In parentheses the devices; the upper end of the interval is %.2f %% in the "
                  "smallest of them.</p>\n",
                  high * 100);
}

static void table_write(const struct line *lines, uint32_t failed, double fleet, FILE *file)
{
    double scale = 0.01;
    (void)fprintf(file,
                  "<p class=note>Devices that ran it, and those on which a run failed, highest "
                  "rate first; the interval is the 95 %% one (Wilson), drawn as a line. The whole "
                  "fleet has %.2f %%; <b>bold</b> is a cohort whose interval lies above that. With "
                  "as many cohorts as here one or two do so by chance.</p>\n",
                  fleet * 100);
    (void)fputs("<div class=wide><table><tr><th>cohort<th class=n>devices<th class=n>failed<th "
                "class=n>rate<th class=n>interval<th class=bars></tr>\n",
                file);
    for (uint32_t i = 0; i < failed; i++) {
        scale = lines[i].high > scale ? lines[i].high : scale;
    }
    for (uint32_t i = 0; i < failed; i++) {
        line_write(&lines[i], scale, fleet, file);
    }
    (void)fputs("</table></div>\n", file);
}

void sim_page_cohorts(const struct sim_run_result *result, FILE *file)
{
    char version[SIM_RELEASE_TEXT_MAX];
    if (result->mining == NULL) {
        return;
    }
    uint64_t devices = result->slice.devices_total;
    sim_release_text(result, result->focus, version);
    (void)fputs("<h2>Failure rate per cohort, ", file);
    base_html_text(file, version);
    (void)fputs("</h2>\n", file);
    if (result->slice.failed_total == 0) {
        double low, high;
        sim_wilson(0, devices, &low, &high);
        (void)fprintf(file,
                      "<p>No run failed on any of the %llu devices that ran it (95 %% interval of "
                      "the failure rate: 0 to %.4f %%).</p>\n",
                      (unsigned long long)devices, high * 100);
        return;
    }
    struct line lines[COHORTS_MAX];
    uint32_t count = lines_gather(result, lines);
    uint32_t failed = 0;
    while (failed < count && lines[failed].cohort->failed > 0) {
        failed++;
    }
    double fleet = devices > 0 ? (double)result->slice.failed_total / (double)devices : 0;
    table_write(lines, failed, fleet, file);
    clean_write(lines + failed, count - failed, file);
}
