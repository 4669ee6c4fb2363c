// The summary in words, for the log: what was seen, what failed, which oracle broke. fleet_run.c
// calls it once, as the last report, on the coordinator's thread. It computes nothing of its own:
// numbers and texts come from the result that the files of the run were written from.
#include "report/run_summary.h"

#include "base/version.h"
#include "report/behaviour_report.h"
#include "report/delay_ideal.h"
#include "report/latency_text.h"
#include "report/thresholds.h"
#include "report/truth_gap.h"

// What devices have for themselves: credentials and exclusive files.
static void print_own(const struct sim_run_result *result, FILE *log)
{
    const bool kept = result->options->credentials[0] != '\0'; // in a file
    if (kept) {
        (void)fprintf(log,
                      "  enrolled    %llu devices, %llu refusals; %llu other requests refused as "
                      "nobody's or a stranger's\n",
                      (unsigned long long)result->counters.enrolled,
                      (unsigned long long)result->counters.enrol_refused,
                      (unsigned long long)result->counters.unauthorized);
    }
    if (result->outcome != SIM_OUTCOME_NOBODY_ONLINE && result->counters.enrolled_before > 0) {
        (void)fprintf(log,
                      "  WARNING     devices were refused that are enrolled already, with "
                      "credentials that %s does not hold; %llu devices have none, and never came "
                      "online\n",
                      kept ? result->options->credentials : "this run",
                      (unsigned long long)result->counters.unenrolled);
    }
    if (result->counters.exclusive_runs > 0) {
        (void)fprintf(log, "  exclusive   %llu of %llu runs had files of their own\n",
                      (unsigned long long)result->counters.exclusive_runs,
                      (unsigned long long)result->counters.runs);
    }
}

// One line of a version that devices met.
static void print_version(const struct sim_run_result *result, uint8_t version, FILE *log)
{
    const struct sim_version_counters *c = &result->counters.version[version];
    char text[SIM_RELEASE_TEXT_MAX];
    sim_release_text(result, version, text);
    (void)fprintf(log,
                  "  %s: %llu offered, %llu activated, %llu ran, %llu failed, %lld run it now%s\n",
                  text, (unsigned long long)c->offered, (unsigned long long)c->activated,
                  (unsigned long long)c->ran, (unsigned long long)c->failed, (long long)c->current,
                  sim_versions_get(result->versions, version).bad ? " (bad)" : "");
}

// Versions of other tasks, by name.
static void print_uncounted(const struct sim_run_result *result, FILE *log)
{
    const char *before = "  also met    ";
    for (uint8_t v = 1; v < result->version_count && v < SIM_VERSIONS_MAX; v++) {
        char text[SIM_RELEASE_TEXT_MAX];
        if (result->uncounted[v]) {
            sim_release_text(result, v, text);
            (void)fprintf(log, "%s%s", before, text);
            before = ", ";
        }
    }
    if (before[0] == ',') {
        bool named = result->options->task[0] != '\0' || result->options->local;
        (void)fprintf(log, ": not counted here (%s)\n",
                      named ? "--task" : "the run is of the task offered first; --task names one");
    }
}

static void print_room(const struct sim_run_result *result, FILE *log)
{
    if (result->counters.no_room > 0) {
        (void)fprintf(log,
                      "  WARNING     %llu devices hold %u tasks, and have no room for the one that "
                      "the run is of: they are not offered it (--tasks)\n",
                      (unsigned long long)result->counters.no_room, result->options->tasks);
    }
}

// Rules of --bad that went wrong nowhere, as no device is like them. Of a simulation they are
// refused.
static void print_rules(const struct sim_run_result *result, FILE *log)
{
    const struct sim_bad_release *bad = &result->options->bad;
    for (uint32_t i = 0; !result->options->local && i < bad->rule_count; i++) {
        if (!sim_options_meet(result->options, &bad->rules[i].predicate)) {
            (void)fprintf(log,
                          "  WARNING     --bad, rule %u of %u: no device of this run is like its "
                          "predicate, so it went wrong on none\n",
                          i + 1, bad->rule_count);
        }
    }
}

// When, of what, where, by what.
static void print_about(const struct sim_run_result *result, FILE *log)
{
    const struct sim_about *about = &result->about;
    char where[SIM_GATEWAY_TEXT_MAX];
    sim_gateway_text(result->options, where);
    if (about->manifest[0] != '\0') {
        (void)fprintf(log, "  release     %s%s%s, manifest %s\n", about->task,
                      about->version[0] != '\0' ? " " : "", about->version, about->manifest);
    } else {
        (void)fprintf(log, "  release     no device was offered one\n");
    }
    (void)fprintf(log, "  run         %s to %s, %s; walle-fleet-sim %s on %s\n", about->began,
                  about->ended, where, BASE_PRODUCT_VERSION, about->machine);
}

// Every rollout of the task that the run saw, and its end.
static void print_rollouts(const struct sim_run_result *result, FILE *log)
{
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        const struct sim_rollout_seen *seen = &result->rollouts[i].seen;
        char text[SIM_ROLLOUT_TEXT_MAX];
        sim_rollout_text(&result->rollouts[i], text);
        (void)fprintf(log, "  rollout     %016llx of %s %s: %s\n", (unsigned long long)seen->id,
                      seen->task, seen->version, text);
    }
    if (result->rollouts_left_out > 0) {
        (void)fprintf(log, "  rollouts    %u more are not listed\n", result->rollouts_left_out);
    }
}

static void print_business(const struct sim_run_result *result, FILE *log)
{
    const struct sim_counters *c = &result->counters;
    if (!(result->options->business_rate > 0)) {
        return;
    }
    (void)fprintf(log,
                  "  business    %llu requests, on which %llu check-ins and %llu reports rode; of "
                  "their own: %llu check-ins, %llu reports, %llu pulls\n",
                  (unsigned long long)c->business, (unsigned long long)c->rides,
                  (unsigned long long)c->ride_reports, (unsigned long long)c->own_checkins,
                  (unsigned long long)c->own_reports, (unsigned long long)c->pulls);
    if (c->business_failed > 0) {
        (void)fprintf(log,
                      "  WARNING     %llu of %llu business requests failed: no answer, or a status "
                      "of 500 and above (the service behind the gateway's proxy)\n",
                      (unsigned long long)c->business_failed, (unsigned long long)c->business);
    }
    if (c->rides == 0) {
        (void)fprintf(log, "  WARNING     no business request was answered through the gateway's "
                           "proxy: does its proxy.upstream name a service that runs?\n");
    }
}

// A few devices of each way to fail, and how one of them is looked at.
static void print_cloud(const struct sim_run_result *result, FILE *log)
{
    const struct sim_cloud_sums *c = &result->counters.cloud;
    char p50[SIM_LATENCY_TEXT_MAX];
    char p99[SIM_LATENCY_TEXT_MAX];
    if (result->options->cloud_models[0] == '\0') {
        return;
    }
    (void)fprintf(
        log,
        "  cloud       %llu calls, %llu sent: %llu answered (p50 %s, p99 %s), %llu late, "
        "%llu refused (%llu over the quota, %llu busy); %llu waited, instances were taken "
        "for %.1f s\n",
        (unsigned long long)c->asked, (unsigned long long)c->sent, (unsigned long long)c->answered,
        sim_latency_text(base_hist_quantile(&result->cloud_us, 0.5), p50),
        sim_latency_text(base_hist_quantile(&result->cloud_us, 0.99), p99),
        (unsigned long long)c->late, (unsigned long long)c->refused,
        (unsigned long long)c->over_quota, (unsigned long long)c->busy,
        (unsigned long long)c->waited, (double)c->served_us / 1e6);
}

static void print_failing(const struct sim_run_result *result, FILE *log)
{
    char text[SIM_FAILING_TEXT_MAX];
    char look[SIM_LOOK_TEXT_MAX];
    for (uint32_t i = 0; i < SIM_OUTCOMES; i++) {
        if (result->failing[i].devices > 0) {
            sim_failing_text(&result->failing[i], text);
            (void)fprintf(log, "  %-11s %s\n", wire_outcome_name((enum wire_outcome_kind)i), text);
        }
    }
    if (sim_look_text(result, look)) {
        (void)fprintf(log, "  one of them %s\n", look);
    }
}

static void print_harmed(const struct sim_run_result *result, FILE *log)
{
    const struct sim_verdict *verdict = &result->verdict;
    (void)fprintf(log,
                  "  harmed      %llu devices (%.2f %%) ever ran the bad version; %llu still do, "
                  "%llu are back on the version they had",
                  (unsigned long long)verdict->exposed,
                  100.0 * (double)verdict->exposed / result->options->devices,
                  (unsigned long long)verdict->still_bad,
                  (unsigned long long)verdict->back_as_before);
    if (verdict->none_before > 0) {
        (void)fprintf(log, ", %llu had none before", (unsigned long long)verdict->none_before);
    }
    (void)fputc('\n', log);
}

static void print_failures(const struct sim_run_result *result, FILE *log)
{
    if (result->slice.cond_count > 0) {
        char text[SIM_SLICE_TEXT_MAX];
        sim_slice_text(&result->slice, text);
        (void)fprintf(log, "  failures    %s: %.1f %% of them, %.1f %% of its devices\n", text,
                      sim_slice_support(&result->slice) * 100,
                      sim_slice_precision(&result->slice) * 100);
    }
    if (sim_slice_none(&result->slice) != NULL) {
        (void)fprintf(log, "  failures    on %llu devices: %s\n",
                      (unsigned long long)result->slice.failed_total,
                      sim_slice_none(&result->slice));
    }
    print_failing(result, log);
    if (result->verdict.oracle[SIM_ORACLE_BACK].checked) {
        print_harmed(result, log);
    }
}

static void print_figures(const struct sim_run_result *result, FILE *log)
{
    char trust[SIM_TRUST_TEXT_MAX];
    sim_trust_text(&result->trust, &result->counters, trust);
    if (trust[0] != 0) {
        (void)fprintf(log, "  trust       %s\n", trust);
    }
    char checkin[SIM_LATENCY_TEXT_MAX];
    char lag[SIM_LATENCY_TEXT_MAX];
    (void)fprintf(
        log,
        "  rate        %.0f devices/s from offer to first run; check-in p99 %s, lag p99 "
        "%s\n",
        result->rate,
        sim_latency_text(base_hist_quantile(&result->latencies.checkin_us, 0.99), checkin),
        sim_latency_text(base_hist_quantile(&result->latencies.lag_us, 0.99), lag));
}

// Invariants that held because there was nothing to hold them against say so.
static void print_compared(const struct sim_run_result *result, FILE *log)
{
    char fidelity[SIM_FIDELITY_TEXT_MAX];
    sim_fidelity_text(result, fidelity);
    (void)fprintf(log, "  fidelity    %s\n", fidelity);
    char real[SIM_FOR_REAL_TEXT_MAX];
    sim_for_real_text(result, real);
    (void)fprintf(log, "  real        %s\n", real);
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        const struct sim_oracle_result *oracle = &result->verdict.oracle[i];
        const char *nothing = sim_oracle_nothing((enum sim_oracle)i, oracle);
        // Of those that do not apply, the one that faults are there for.
        bool asked =
            oracle->checked || (i == SIM_ORACLE_ENDED && result->options->faults.rule_count > 0);
        if (asked && nothing != NULL) {
            (void)fprintf(log, "  NOT TRIED   %s: %s\n", sim_oracle_text((enum sim_oracle)i),
                          nothing);
        }
    }
}

static void print_faults(const struct sim_run_result *result, FILE *log)
{
    const char *comma = "  faults      ";
    for (uint32_t k = 0; k < SIM_FAULT_KIND_COUNT; k++) {
        const struct sim_fault_about *about = sim_fault_about((enum sim_fault_kind)k);
        if (result->faults[k] > 0 ||
            sim_fault_plan_has(&result->options->faults, (enum sim_fault_kind)k)) {
            (void)fprintf(log, "%s%s:%s %llu", comma, sim_fault_family_name(about->family),
                          about->name, (unsigned long long)result->faults[k]);
            comma = ", ";
        }
    }
    if (comma[0] == ',') {
        (void)fputc('\n', log);
    }
}

static void print_broken(const struct sim_run_result *result, FILE *log)
{
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        const struct sim_oracle_result *oracle = &result->verdict.oracle[i];
        if (oracle->checked && !oracle->holds) {
            (void)fprintf(
                log, "  BROKEN      %s: %llu of %llu", sim_oracle_text((enum sim_oracle)i),
                (unsigned long long)oracle->violations, (unsigned long long)oracle->population);
            if (oracle->names_device) {
                (void)fprintf(log, "; device %llu is one", (unsigned long long)oracle->device);
            }
            (void)fputc('\n', log);
        }
    }
}

static void print_thresholds(const struct sim_run_result *result, FILE *log)
{
    for (uint32_t i = 0; i < result->options->threshold_count; i++) {
        char said[SIM_THRESHOLD_SAID_MAX];
        sim_threshold_said(result, i, said);
        (void)fprintf(log, "  %s   %s\n", result->thresholds[i].holds ? "threshold" : "MISSED   ",
                      said);
    }
}

static void print_memory(const struct sim_run_result *result, FILE *log)
{
    (void)fprintf(log, "  memory      %.0f MiB at peak, %.1f MiB of content\n",
                  (double)result->peak_rss_bytes / 1048576, (double)result->store_bytes / 1048576);
    if (result->digest[0] != '\0') {
        (void)fprintf(log,
                      "  dormant     %.0f bytes a device that sleeps, its share of the gateway's "
                      "memory and store (%.0f MiB) included\n",
                      result->dormant_bytes, (double)result->folder_bytes / 1048576);
    }
}

void sim_summary_print(const struct sim_run_result *result, const struct sim_watch_view *view,
                       int exit_status, FILE *log)
{
    const bool refused = result->outcome == SIM_OUTCOME_REFUSED; // the rest says little then
    (void)fprintf(log, "\n%s after %.1f s: %s%s%s\n", sim_outcome_text(result->outcome),
                  result->duration_s, result->ended, refused ? "; " : "",
                  refused ? result->cause : "");
    if (result->digest[0] != '\0') {
        (void)fprintf(log, "  time        virtual: it took %.1f s here, %.1f times as fast\n",
                      result->took_s, result->took_s > 0 ? result->duration_s / result->took_s : 0);
        (void)fprintf(log, "  digest      %s: the same options and folder give the same run\n",
                      result->digest);
    }
    print_about(result, log);
    print_rollouts(result, log);
    (void)fprintf(log, "  devices     %llu %s of %u; %u carriers, %u connections of their own\n",
                  (unsigned long long)sim_result_online_count(result), sim_result_online(result),
                  result->options->devices, result->budget.carriers, result->budget.dedicated);
    for (uint8_t v = 1; v < result->version_count && v < SIM_VERSIONS_MAX; v++) {
        if (!result->uncounted[v]) {
            print_version(result, v, log);
        }
    }
    print_uncounted(result, log);
    print_room(result, log);
    print_rules(result, log);
    print_own(result, log);
    print_business(result, log);
    print_cloud(result, log);
    if (view != NULL && view->denied) {
        (void)fprintf(log, "  WARNING     the gateway shows its rollouts to operators only: "
                           "--token-file\n");
    }
    sim_gap_print(result, log);
    print_failures(result, log);
    print_figures(result, log);
    char spoilt[SIM_LAG_TEXT_MAX];
    if (sim_lag_text(result, spoilt)) {
        (void)fprintf(log, "  WARNING     %s\n", spoilt);
    }
    sim_ideal_print(result, log);
    sim_behaviour_print(result, log);
    print_thresholds(result, log);
    print_faults(result, log);
    print_compared(result, log);
    print_broken(result, log);
    print_memory(result, log);
    (void)fprintf(log, "  report      %s/report.html\n", result->options->out);
    if (result->outcome != SIM_OUTCOME_PASSED) { // the last word
        (void)fprintf(log, "%s%s%s (exit status %d)\n", sim_outcome_text(result->outcome),
                      result->cause[0] != '\0' ? ": " : "", result->cause, exit_status);
    }
}
