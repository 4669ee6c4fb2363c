// The page of live metrics, from counters that were summed already. fleet_metrics.c asks for it
// when somebody scrapes, on the coordinator's thread. Every sample is of the run as a whole; names
// say what is counted, in base units, and labels are escaped, for versions and tasks come from
// outside. Figures are those of run.json as they come to be.
#include "report/live_metrics.h"

#include "base/version.h"
#include "base/visible.h"

#include <stddef.h>

#define LABEL_BYTES_MAX 256

// By enum sim_exchange_kind.
static const char *const kinds[SIM_REQUEST_KINDS] = {
    "checkin", "blob", "report", "hints", "tunnel", "metadata", "enrolment", "business", "other"};

#define AT(member) offsetof(struct sim_counters, member)

// Counters that have one sample.
static const struct {
    const char *name;
    const char *help;
    const char *type;
    size_t at;
} plain[] = {
    {"walle_fleet_devices_online", "Virtual devices that came online since the start.", "gauge",
     AT(arrived)},
    {"walle_fleet_devices_awake", "Virtual devices in memory now.", "gauge", AT(awake)},
    {"walle_fleet_connections", "Connections to the gateway that are up.", "gauge", AT(links_up)},
    {"walle_fleet_wakes_total", "Boots of a virtual device.", "counter", AT(wakes)},
    {"walle_fleet_wakes_skipped_total", "Wakes put off because no memory was free.", "counter",
     AT(skipped)},
    {"walle_fleet_checkins_total", "Check-ins that were answered.", "counter", AT(checkins)},
    {"walle_fleet_request_errors_total", "Requests without an answer of use.", "counter",
     AT(request_errors)},
    {"walle_fleet_response_bytes_total", "Bytes of bodies that the gateway sent.", "counter",
     AT(response_bytes)},
    {"walle_fleet_reconnects_total", "Connections that were opened again.", "counter",
     AT(reconnects)},
    {"walle_fleet_activations_total", "Versions activated.", "counter", AT(activations)},
    {"walle_fleet_rollbacks_total", "Activations undone.", "counter", AT(rollbacks)},
    {"walle_fleet_refused_offers_total", "Offers that a device refused.", "counter",
     AT(refused_offers)},
    {"walle_fleet_runs_total", "Runs of a task.", "counter", AT(runs)},
    {"walle_fleet_run_failures_total", "Runs of a task that failed.", "counter", AT(run_failures)},
    {"walle_fleet_crashes_total", "Virtual processes killed.", "counter", AT(crashes)},
    {"walle_fleet_devices_exposed", "Virtual devices that ever ran a bad version.", "gauge",
     AT(exposed)},
    {"walle_fleet_signatures_verified_total", "Signatures verified for real.", "counter",
     AT(real_signatures)},
};

// Invariants that can break while the run lasts.
static const struct {
    enum sim_oracle oracle;
    size_t at;
} invariants[] = {
    {SIM_ORACLE_VERIFIED, AT(unverified_runs)}, {SIM_ORACLE_PERMITTED, AT(unpermitted_runs)},
    {SIM_ORACLE_SEALED, AT(bad_seals)},         {SIM_ORACLE_EXACT, AT(memo_mismatches)},
    {SIM_ORACLE_RECOVERED, AT(boot_failures)},  {SIM_ORACLE_STOOD, AT(marked_lost)},
};

static uint64_t counter(const struct sim_counters *counters, size_t at)
{
    return *(const uint64_t *)(const void *)((const char *)(const void *)counters + at);
}

static void head(const char *name, const char *help, const char *type, FILE *file)
{
    (void)fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

// A label's value between its quotes.
static void label(const char *text, FILE *file)
{
    char shown[LABEL_BYTES_MAX];
    (void)base_visible_text(base_str_of(text), shown, sizeof(shown));
    for (const char *at = shown; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            (void)fputc('\\', file);
        }
        (void)fputc(*at, file);
    }
}

// Seconds: quantiles since the start, which no histogram of fixed buckets would give as well.
static void summary(const char *name, const char *help, const struct base_hist *hist, FILE *file)
{
    static const double quantiles[] = {0.5, 0.9, 0.99, 0.999};
    head(name, help, "summary", file);
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
        (void)fprintf(file, "%s{quantile=\"%g\"} ", name, quantiles[i]);
        if (hist->count == 0) {
            (void)fputs("NaN\n", file); // as the format has it of nothing
        } else {
            (void)fprintf(file, "%.6f\n", (double)base_hist_quantile(hist, quantiles[i]) / 1e6);
        }
    }
    (void)fprintf(file, "%s_sum %.6f\n%s_count %llu\n", name, (double)hist->sum / 1e6, name,
                  (unsigned long long)hist->count);
}

struct version_figure {
    const char *name;
    const char *help;
    const char *type;
    size_t at; // in struct sim_version_counters
};

static void version_samples(const struct sim_metrics_now *now, const struct version_figure *figure,
                            FILE *file)
{
    uint32_t count = sim_versions_count(now->versions);
    head(figure->name, figure->help, figure->type, file);
    for (uint32_t v = 1; v < count && v < SIM_VERSIONS_MAX; v++) {
        const struct sim_version_counters *c = &now->counters->version[v];
        struct sim_version version = sim_versions_get(now->versions, (uint8_t)v);
        char hex[WIRE_SHA256_HEX + 1];
        const void *place = (const char *)(const void *)c + figure->at;
        int64_t value = *(const int64_t *)place;
        if (c->offered == 0) {
            continue; // of a task that the run does not follow
        }
        wire_sha256_hex(&version.manifest, hex);
        (void)fprintf(file, "%s{task=\"", figure->name);
        label(version.task, file);
        (void)fputs("\",version=\"", file);
        label(version.label, file);
        (void)fprintf(file, "\",manifest=\"%s\"} %lld\n", hex, (long long)(value > 0 ? value : 0));
    }
}

static void versions(const struct sim_metrics_now *now, FILE *file)
{
    static const struct version_figure figures[] = {
        {"walle_fleet_offers_total", "Devices that were offered the version.", "counter",
         offsetof(struct sim_version_counters, offered)},
        {"walle_fleet_version_activated_total", "Devices that activated the version.", "counter",
         offsetof(struct sim_version_counters, activated)},
        {"walle_fleet_version_ran_total", "Devices that ran the version to a good end.", "counter",
         offsetof(struct sim_version_counters, ran)},
        {"walle_fleet_version_failed_total", "Devices on which a run of the version failed.",
         "counter", offsetof(struct sim_version_counters, failed)},
        {"walle_fleet_version_rolled_back_total", "Activations of the version undone.", "counter",
         offsetof(struct sim_version_counters, rolled_back)},
        {"walle_fleet_version_current", "Devices on which the version is active and has run.",
         "gauge", offsetof(struct sim_version_counters, current)},
    };
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        version_samples(now, &figures[i], file);
    }
}

enum base_status sim_metrics_write(const struct sim_metrics_now *now, FILE *file)
{
    const struct sim_counters *counters = now->counters;
    head("walle_fleet_build_info", "What runs.", "gauge", file);
    (void)fprintf(file, "walle_fleet_build_info{version=\"%s\"} 1\n", BASE_PRODUCT_VERSION);
    head("walle_fleet_devices", "Virtual devices of the run.", "gauge", file);
    (void)fprintf(file, "walle_fleet_devices %u\n", now->options->devices);
    head("walle_fleet_running_seconds", "Time since the start of the run.", "gauge", file);
    (void)fprintf(file, "walle_fleet_running_seconds %.3f\n", now->running_s);
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        head(plain[i].name, plain[i].help, plain[i].type, file);
        (void)fprintf(file, "%s %llu\n", plain[i].name,
                      (unsigned long long)counter(counters, plain[i].at));
    }
    head("walle_fleet_requests_total", "Requests made, by kind.", "counter", file);
    for (uint32_t k = 0; k < SIM_REQUEST_KINDS; k++) {
        (void)fprintf(file, "walle_fleet_requests_total{kind=\"%s\"} %llu\n", kinds[k],
                      (unsigned long long)counters->requests_of[k]);
    }
    head("walle_fleet_invariant_violations_total", "What must never happen, and did.", "counter",
         file);
    for (size_t i = 0; i < sizeof(invariants) / sizeof(invariants[0]); i++) {
        (void)fprintf(file, "walle_fleet_invariant_violations_total{invariant=\"%s\"} %llu\n",
                      sim_oracle_name(invariants[i].oracle),
                      (unsigned long long)counter(counters, invariants[i].at));
    }
    versions(now, file);
    summary("walle_fleet_generator_lag_seconds", "How much later than meant devices woke.",
            now->lag_us, file);
    summary("walle_fleet_checkin_seconds",
            "From the wake that was meant, or the request, to the answer of a check-in.",
            now->checkin_us, file);
    return ferror(file) != 0 ? BASE_ERR_IO : BASE_OK;
}
