// The first page of report.html, for who must approve: what the verdict is and what it covers, what
// ran when and where, among what faults, what became of each rollout, what was not tested.
// report_html.c calls it on the coordinator's thread. On paper it ends with its page.
#include "report/report_parts.h"

#include "base/check.h"
#include "base/version.h"
#include "base/text/html_text.h"
#include "ports/sim_delay.h"
#include "report/report_svg.h"
#include "report/thresholds.h"
#include "report/truth_gap.h"

#include <string.h>

static void tile(FILE *file, const char *value, const char *label)
{
    (void)fputs("<div class=tile><b>", file);
    base_html_text(file, value);
    (void)fputs("</b><span>", file);
    base_html_text(file, label);
    (void)fputs("</span></div>\n", file);
}

// Thousands are set apart, so that large numbers can be read.
static void spaced_number(double value, char spaced[64])
{
    char text[48];
    (void)snprintf(text, sizeof(text), "%.0f", value);
    size_t digits = strlen(text);
    size_t at = 0;
    base_assert(digits + digits / 3 < 64);
    for (size_t i = 0; i < digits; i++) {
        if (i > 0 && (digits - i) % 3 == 0) {
            spaced[at++] = ' ';
        }
        spaced[at++] = text[i];
    }
    spaced[at] = 0;
}

static void tile_count(FILE *file, double value, const char *label)
{
    char spaced[64];
    spaced_number(value, spaced);
    tile(file, spaced, label);
}

static void tile_time(FILE *file, const struct base_hist *hist, const char *label)
{
    char text[48];
    double ms = (double)base_hist_quantile(hist, 0.99) / 1000;
    if (hist->count == 0) {
        (void)snprintf(text, sizeof(text), "none");
    } else if (ms < 10000) {
        (void)snprintf(text, sizeof(text), "%.1f ms", ms);
    } else {
        (void)snprintf(text, sizeof(text), "%.1f s", ms / 1000);
    }
    tile(file, text, label);
}

static void about_row(const char *name, const char *value, FILE *file)
{
    if (value[0] != '\0') {
        (void)fprintf(file, "<tr><th>%s<td>", name);
        base_html_text(file, value);
        (void)fputs("</tr>\n", file);
    }
}

// ---- What of what

// "1 %", "0.05 %".
static void share(uint32_t ppm, FILE *file)
{
    (void)fprintf(file, "%.6g %%", ppm / 10000.0);
}

static void share_of(uint32_t ppm, const char *what, FILE *file)
{
    if (ppm > 0) {
        (void)fputs("; ", file);
        share(ppm, file);
        (void)fprintf(file, " %s", what);
    }
}

static void population_row(const struct sim_run_result *result, FILE *file)
{
    const struct sim_options *options = result->options;
    char devices[64];
    spaced_number(options->devices, devices);
    (void)fprintf(file,
                  "<tr><th>population<td>%s virtual devices, drawn with seed %llu, %.2f %% "
                  "on the beta channel",
                  devices, (unsigned long long)options->seed, options->beta_per_10000 / 100.0);
    if (options->population[0] != '\0') {
        (void)fputs("; by the tables of <code>", file);
        base_html_text(file, options->population);
        (void)fputs("</code>", file);
    } else {
        (void)fputs("; by the built-in tables", file);
    }
    if (options->where.cond_count > 0) {
        (void)fputs("; only such as --where asks for", file);
    }
    if (options->target != NULL) {
        (void)fputs("; only such as <code>", file);
        base_html_text(file, options->target_text);
        (void)fputs("</code> means", file);
    }
    uint32_t values =
        result->systems_of > 0 ? sim_trait_value_count(options->people, SIM_TRAIT_OS) : 0;
    for (uint32_t v = 0; v < values; v++) {
        if (result->systems[v] > 0) {
            (void)fputs("; ", file);
            base_html_text(file, sim_trait_text(options->people, SIM_TRAIT_OS, v));
            (void)fprintf(file, " %.1f %%", 100.0 * result->systems[v] / result->systems_of);
        }
    }
    share_of(options->zombie_ppm, "come once and never again", file);
    share_of(options->clone_ppm, "have the id of another one", file);
    share_of(options->reinstall_ppm, "are installed anew once", file);
    share_of(options->wrong_clock_ppm, "have a clock that is wrong", file);
    (void)fputs("</tr>\n", file);
}

static void online_row(const struct sim_options *options, FILE *file)
{
    if (options->arrivals_shape[0] != '\0') {
        (void)fputs("<tr><th>online<td>they come as <code>", file);
        base_html_text(file, options->arrivals_shape);
        (void)fputs("</code> says", file);
    } else {
        char rate[64];
        spaced_number(options->arrival_rate, rate);
        (void)fprintf(file, "<tr><th>online<td>%s a second come", rate);
    }
    (void)fputs(options->presence ? "; later on while people have the app open, through their day"
                                  : "; later on whenever they are due",
                file);
    (void)fputs("</tr>\n", file);
}

static void links_row(const struct sim_run_result *result, FILE *file)
{
    const struct sim_options *options = result->options;
    (void)fputs("<tr><th>links<td>", file);
    if (options->local) {
        (void)fputs("none: answers come from the same process", file);
    } else if (options->virtual_dir[0] == '\0') {
        (void)fprintf(file,
                      "%u connections that devices share, %u of a device's own; as fast as this "
                      "machine",
                      result->budget.carriers, result->budget.dedicated);
    } else if (options->network_links) {
        (void)fputs("as each device's class of network has it: delay, loss, bandwidth, times "
                    "without a link",
                    file);
    } else {
        (void)fprintf(file, "all alike: a message takes %u ms, and none is lost",
                      SIM_DELAY_US / 1000);
    }
    (void)fputs("</tr>\n", file);
}

// ---- Faults

static void kills_row(const struct sim_run_result *result, FILE *file)
{
    uint64_t kills = result->counters.crashes;
    (void)fputs("<tr><th>kills<td>", file);
    if (result->options->kill_ppm == 0 && kills == 0) {
        (void)fputs("none", file);
    } else {
        char spaced[64];
        spaced_number((double)kills, spaced);
        (void)fprintf(file, "%s processes died in the middle of their work", spaced);
        share_of(result->options->kill_ppm, "of wakes were to end so", file);
    }
    (void)fputs("</tr>\n", file);
}

// The rules of one kind, and how often it happened.
static void fault_kind(const struct sim_run_result *result, enum sim_fault_kind kind, FILE *file)
{
    const struct sim_fault_plan *plan = &result->options->faults;
    const struct sim_fault_about *about = sim_fault_about(kind);
    const char *comma = " ";
    (void)fprintf(file, "%s:%s", sim_fault_family_name(about->family), about->name);
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        const struct sim_fault_rule *rule = &plan->rules[i];
        if (rule->kind != kind) {
            continue;
        }
        (void)fputs(comma, file);
        share(rule->probability_ppm, file);
        (void)fprintf(file, " of %ss", about->each);
        if (about->amount != NULL) {
            (void)fprintf(file, ", %s: %u", about->amount, rule->amount);
        }
        (void)fputs(rule->picky ? ", on some devices alone" : "", file);
        comma = "; ";
    }
    (void)fprintf(file, " (%llu times)", (unsigned long long)result->faults[kind]);
}

static void faults_row(const struct sim_run_result *result, FILE *file)
{
    const struct sim_fault_plan *plan = &result->options->faults;
    const char *comma = "";
    (void)fprintf(file, "<tr><th>faults<td>%s", plan->rule_count == 0 ? "none" : "");
    for (uint32_t k = 0; k < SIM_FAULT_KIND_COUNT; k++) {
        if (sim_fault_plan_has(plan, (enum sim_fault_kind)k)) {
            (void)fputs(comma, file);
            fault_kind(result, (enum sim_fault_kind)k, file);
            comma = "; ";
        }
    }
    if (plan->rule_count > 0 && plan->until_s > 0) {
        (void)fprintf(file, "; all of them until second %u", plan->until_s);
    }
    if (result->options->bad.rule_count > 0) {
        (void)fprintf(file, "; failures put into the bad versions, by %u rules of --bad",
                      result->options->bad.rule_count);
    }
    (void)fputs("</tr>\n", file);
}

// ---- When and where

// Of each rollout, where they are not those of the one before.
static void stages_rows(const struct sim_run_result *result, FILE *file)
{
    const char *before = "";
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        const char *stages = result->rollouts[i].seen.stages;
        if (stages[0] != '\0' && strcmp(stages, before) != 0) {
            about_row("stages", stages, file);
            before = stages;
        }
    }
}

// When, of what, where, by what.
static void about_section(const struct sim_run_result *result, FILE *file)
{
    const struct sim_about *about = &result->about;
    char where[SIM_GATEWAY_TEXT_MAX];
    char when[2 * SIM_ABOUT_DATE_MAX + 8];
    char release[WIRE_TASK_NAME_MAX + SIM_LABEL_MAX + 8];
    char fidelity[SIM_FIDELITY_TEXT_MAX];
    sim_fidelity_text(result, fidelity);
    sim_gateway_text(result->options, where);
    (void)snprintf(when, sizeof(when), "%s to %s", about->began, about->ended);
    (void)snprintf(release, sizeof(release), "%s %s", about->task, about->version);
    (void)fputs("<table class=about>\n", file);
    about_row("date", when, file);
    about_row("task", release[1] != '\0' ? release : "no device was offered a release", file);
    about_row("manifest", about->manifest, file);
    stages_rows(result, file);
    population_row(result, file);
    online_row(result->options, file);
    links_row(result, file);
    about_row("fidelity", fidelity, file);
    kills_row(result, file);
    faults_row(result, file);
    about_row("where", where, file);
    about_row("machine", about->machine, file);
    about_row("digest", result->digest, file);
    about_row("product", "walle-fleet-sim " BASE_PRODUCT_VERSION, file);
    (void)fputs("</table>\n", file);
}

// ---- The verdict

static void cell_start(const char *what, const char *class, const char *word, FILE *file)
{
    (void)fprintf(file, "<tr><th>%s<td class=%s>%s<td>", what, class, word);
}

struct verdict_word {
    const char *class;
    const char *word;
};

// A version that is called bad and came through is the worst of all ends.
static struct verdict_word rollout_word(const struct sim_run_result *result,
                                        const struct sim_rollout_told *told)
{
    bool over = sim_rollout_over(told->seen.state);
    bool bad =
        told->version != SIM_VERSION_NONE && sim_versions_get(result->versions, told->version).bad;
    if (told->wrong) {
        return (struct verdict_word){"bad", "not as meant"};
    }
    if (bad && over && !sim_rollout_back(told->seen.state)) {
        return (struct verdict_word){"bad", "not stopped"};
    }
    return over ? (struct verdict_word){"good", "as meant"}
                : (struct verdict_word){"note", "under way"};
}

// Every rollout of the task that the run saw, and its end.
static void rollout_rows(const struct sim_run_result *result, FILE *file)
{
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        const struct sim_rollout_told *told = &result->rollouts[i];
        char text[SIM_ROLLOUT_TEXT_MAX];
        sim_rollout_text(told, text);
        const struct verdict_word word = rollout_word(result, told);
        cell_start("rollout", word.class, word.word, file);
        base_html_text(file, told->seen.task);
        (void)fputc(' ', file);
        base_html_text(file, told->seen.version);
        (void)fputs(": ", file);
        base_html_text(file, text);
        (void)fprintf(file, " <span class=note>(%016llx)</span></tr>\n",
                      (unsigned long long)told->seen.id);
    }
    if (result->rollouts_left_out > 0) {
        (void)fprintf(file, "<tr><th>rollouts<td class=note>not listed<td>%u more</tr>\n",
                      result->rollouts_left_out);
    }
}

static void release_rows(const struct sim_run_result *result, FILE *file)
{
    for (uint8_t v = 1; v < result->version_count && v < SIM_VERSIONS_MAX; v++) {
        const struct sim_version_counters *c = &result->counters.version[v];
        char release[SIM_RELEASE_TEXT_MAX];
        if (result->uncounted[v] || c->offered == 0) {
            continue;
        }
        sim_release_text(result, v, release);
        bool bad = sim_versions_get(result->versions, v).bad; // it was to fail
        cell_start("devices",
                   bad             ? "note"
                   : c->failed > 0 ? "bad"
                                   : "good",
                   bad             ? "called bad"
                   : c->failed > 0 ? "some failed"
                                   : "none failed",
                   file);
        base_html_text(file, release);
        (void)fprintf(file,
                      ": %llu offered, %llu ran it to a good end, %llu failed, %llu without an end "
                      "so far; %lld run it now</tr>\n",
                      (unsigned long long)c->offered, (unsigned long long)c->ran,
                      (unsigned long long)c->failed, (unsigned long long)result->undecided[v],
                      (long long)c->current);
    }
}

static void invariant_row(const struct sim_run_result *result, FILE *file)
{
    uint32_t broken = 0, held = 0;
    const char *comma = ": ";
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        const struct sim_oracle_result *oracle = &result->verdict.oracle[i];
        bool bad = oracle->checked && !oracle->holds;
        broken += bad;
        held += !bad && sim_oracle_nothing((enum sim_oracle)i, oracle) == NULL;
    }
    cell_start("invariants", broken > 0 ? "bad" : "good", broken > 0 ? "broken" : "hold", file);
    (void)fprintf(file, "%u held on every device, %u broke, %u had nothing to compare", held,
                  broken, (uint32_t)SIM_ORACLE_COUNT - held - broken);
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        const struct sim_oracle_result *oracle = &result->verdict.oracle[i];
        if (oracle->checked && !oracle->holds) {
            (void)fprintf(file, "%snot so: ", comma);
            base_html_text(file, sim_oracle_text((enum sim_oracle)i));
            (void)fprintf(file, " (%llu of %llu)", (unsigned long long)oracle->violations,
                          (unsigned long long)oracle->population);
            comma = "; ";
        }
    }
    (void)fputs("</tr>\n", file);
}

static void threshold_row(const struct sim_run_result *result, FILE *file)
{
    uint32_t count = result->options->threshold_count;
    uint32_t missed = 0;
    for (uint32_t i = 0; i < count; i++) {
        missed += !result->thresholds[i].holds;
    }
    if (count == 0) {
        cell_start("thresholds", "note", "none", file);
        (void)fputs("none was asked for (--threshold)</tr>\n", file);
        return;
    }
    cell_start("thresholds", missed > 0 ? "bad" : "good", missed > 0 ? "missed" : "hold", file);
    (void)fprintf(file, "%u of %u hold</tr>\n", count - missed, count);
}

static void gap_row(const struct sim_run_result *result, FILE *file)
{
    struct sim_gap gap;
    uint8_t version = result->decided != SIM_VERSION_NONE ? result->decided : result->focus;
    if (version == SIM_VERSION_NONE) {
        return;
    }
    sim_gap_of(result, version, &gap);
    if (gap.why_not != NULL) {
        cell_start("truth gap", "note", "not known", file);
        (void)fprintf(file, "%s</tr>\n", gap.why_not);
        return;
    }
    uint64_t truth = gap.truth[SIM_GAP_FAILED], said = gap.said[SIM_GAP_FAILED];
    bool same = memcmp(gap.truth, gap.said, sizeof(gap.truth)) == 0;
    cell_start("truth gap", same ? "good" : "bad", same ? "0" : "there is one", file);
    (void)fprintf(file,
                  "really %llu failed and %llu ran well, the gateway counts %llu and %llu</tr>\n",
                  (unsigned long long)truth, (unsigned long long)gap.truth[SIM_GAP_RAN],
                  (unsigned long long)said, (unsigned long long)gap.said[SIM_GAP_RAN]);
}

static void verdict_section(const struct sim_run_result *result, FILE *file)
{
    char spoilt[SIM_LAG_TEXT_MAX];
    (void)fputs("<table class=verdict>\n", file);
    rollout_rows(result, file);
    release_rows(result, file);
    invariant_row(result, file);
    threshold_row(result, file);
    gap_row(result, file);
    (void)fputs("</table>\n", file);
    if (sim_lag_text(result, spoilt)) {
        (void)fprintf(file, "<p class=warn>%s</p>\n", spoilt);
    }
}

// ---- What was not tested

static void untested(bool is_untested, const char *text, FILE *file)
{
    if (is_untested) {
        (void)fprintf(file, "<li>%s\n", text);
    }
}

static void untested_absent(const struct sim_run_result *result, FILE *file)
{
    const struct sim_options *options = result->options;
    uint64_t online =
        options->local || result->counters.checkins > 0 ? sim_result_online_count(result) : 0;
    if (online < options->devices) {
        (void)fprintf(file, "<li>%llu of the %u devices: they never came online\n",
                      (unsigned long long)(options->devices - online), options->devices);
    }
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        const struct sim_oracle_result *oracle = &result->verdict.oracle[i];
        const char *nothing = sim_oracle_nothing((enum sim_oracle)i, oracle);
        if (nothing != NULL) {
            (void)fputs("<li>that ", file);
            base_html_text(file, sim_oracle_text((enum sim_oracle)i));
            (void)fputs(": ", file);
            base_html_text(file, nothing);
            (void)fputc('\n', file);
        }
    }
}

// Families that no fault is of, and faults that were asked for and never came.
static void untested_faults(const struct sim_run_result *result, FILE *file)
{
    const struct sim_fault_plan *plan = &result->options->faults;
    bool drawn[SIM_FAULT_FAMILY_COUNT] = {false};
    const char *comma = "<li>faults of ";
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        drawn[sim_fault_about(plan->rules[i].kind)->family] = true;
    }
    for (uint32_t i = 0; i < SIM_FAULT_FAMILY_COUNT; i++) {
        if (!drawn[i]) {
            (void)fprintf(file, "%s%s", comma, sim_fault_family_name((enum sim_fault_family)i));
            comma = ", ";
        }
    }
    (void)fputs(comma[0] == ',' ? " (--fault)\n" : "", file);
    for (uint32_t k = 0; k < SIM_FAULT_KIND_COUNT; k++) {
        if (sim_fault_plan_has(plan, (enum sim_fault_kind)k) && result->faults[k] == 0) {
            const struct sim_fault_about *about = sim_fault_about((enum sim_fault_kind)k);
            (void)fprintf(file, "<li>%s:%s: it was asked for and never happened\n",
                          sim_fault_family_name(about->family), about->name);
        }
    }
}

// Did devices leave a version, or a release go back, called bad or not?
static bool went_back(const struct sim_run_result *result)
{
    bool back = result->counters.rollbacks > 0;
    for (uint32_t v = 1; v < SIM_VERSIONS_MAX; v++) {
        back = back || result->counters.version[v].rolled_back > 0;
    }
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        const struct sim_rollout_told *told = &result->rollouts[i];
        bool offered = told->version != SIM_VERSION_NONE &&
                       result->counters.version[told->version].offered > 0;
        back = back || (offered && sim_rollout_back(told->seen.state));
    }
    return back;
}

static void untested_section(const struct sim_run_result *result, FILE *file)
{
    const struct sim_options *options = result->options;
    bool virtual = options->virtual_dir[0] != '\0';
    bool behaved = options->behaviour[0] != '\0' && strcmp(options->behaviour, "none") != 0;
    (void)fputs("<h2>What was not tested</h2>\n<ul>\n", file);
    untested(options->local, "a gateway: neither stages nor the way back nor the network", file);
    untested(virtual,
             "sockets, TLS and the speed of a gateway: the run is in virtual time, where a message "
             "takes as long as the simulator says",
             file);
    untested(!options->local && !virtual && options->dedicated == 0,
             "a connection for each device: they share carriers", file);
    untested(!options->local && options->bad_version_count == 0 && !went_back(result),
             "a bad release and the way back (--bad, --bad-version)", file);
    untested(virtual && !options->network_links,
             "networks: every message comes, and after the same time (--links network)", file);
    untested(options->kill_ppm == 0 && result->counters.crashes == 0,
             "processes killed in the middle of their work (--kills)", file);
    untested(options->wrong_clock_ppm == 0, "devices whose clock is wrong (--wrong-clocks)", file);
    untested(!behaved, "what users do: no triggers, no records, no tunnel (--behaviour)", file);
    untested(!options->local && !virtual && !options->hints, "hint streams (--hints)", file);
    untested(!options->local && !virtual && !(options->business_rate > 0),
             "check-ins that ride on an app's requests (--business)", file);
    untested_faults(result, file);
    untested(result->counters.real_devices == 0,
             "the same work done twice, shared and for real (--real-every)", file);
    untested_absent(result, file);
    (void)fputs("</ul>\n", file);
}

// ---- Head

static void title(const struct sim_run_result *result, FILE *file)
{
    char text[64];
    spaced_number(result->options->devices, text);
    const char *word = result->outcome == SIM_OUTCOME_INTERRUPTED
                           ? "interrupted: neither passed nor failed"
                           : sim_outcome_name(result->outcome);
    (void)fprintf(file, "<h1>Fleet run: %s devices, <span class=%s>%s</span></h1>\n", text,
                  result->outcome == SIM_OUTCOME_PASSED ? "good" : "bad", word);
    if (result->outcome == SIM_OUTCOME_PASSED) {
        (void)fputs("<p>Passed means: the release did what it was to do, and every invariant held "
                    "on every device, by what the simulator saw there and not by what devices "
                    "reported",
                    file);
        (void)fprintf(file, "%s.</p>\n",
                      result->options->threshold_count > 0 ? "; and every threshold holds" : "");
    }
    (void)fputs("<p class=note>Ended: ", file);
    base_html_text(file, result->ended);
    if (result->cause[0] != '\0') {
        (void)fputs(".</p>\n<p class=bad>Because: ", file);
        base_html_text(file, result->cause);
    } else if (result->outcome == SIM_OUTCOME_FAILED && !result->verdict.holds) {
        (void)fputs(".</p>\n<p class=bad>Because: an invariant broke, see below", file);
    }
    (void)fputs(".</p>\n", file);
}

static void tiles(const struct sim_run_result *result, FILE *file)
{
    char text[64];
    const struct sim_options *options = result->options;
    (void)fputs("<div class=tiles>\n", file);
    tile_count(file, (double)sim_result_online_count(result),
               options->local || result->counters.checkins > 0 ? "devices came online"
                                                               : "devices came up, none online");
    (void)snprintf(text, sizeof(text), "%.1f s", result->duration_s);
    tile(file, text, result->digest[0] != '\0' ? "duration, virtual" : "duration");
    if (result->rate > 0) {
        tile_count(file, result->rate, "devices/s, offer to first run");
    }
    tile_count(file, (double)result->counters.runs, "task runs");
    tile_count(file, (double)result->counters.wakes, "wakes, each a recovery");
    if (result->counters.marked > 0) {
        tile_count(file, (double)result->counters.marked, "placebos: ran again what they have");
    }
    if (options->local) {
        tile_count(file, (double)result->failed, "devices on which the version failed");
    } else {
        tile_time(file, &result->latencies.checkin_us, "check-in p99, from intended");
        tile_time(file, &result->latencies.lag_us, "generator lag p99");
    }
    if (options->bad_version_count > 0) {
        tile_count(file, (double)result->verdict.exposed, "devices ran a version of --bad-version");
        tile_count(file, (double)result->verdict.still_bad, "of them still on it");
    }
    (void)snprintf(text, sizeof(text), "%.0f MiB", (double)result->peak_rss_bytes / 1048576);
    tile(file, text, "simulator memory, peak");
    (void)fputs("</div>\n", file);
}

void sim_page_first(const struct sim_run_result *result, FILE *file)
{
    (void)fputs("<section class=first>\n", file);
    title(result, file);
    verdict_section(result, file);
    about_section(result, file);
    tiles(result, file);
    untested_section(result, file);
    (void)fputs("</section>\n", file);
}
