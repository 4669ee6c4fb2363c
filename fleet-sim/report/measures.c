// The measures of a run by name. thresholds.c looks them up when options are read and again when
// the run is over, run_json.c takes the latencies from here, and the help lists them; main thread.
// Each count has what it is of: where that is zero nothing was measured, and a zero says nothing.
#include "report/measures.h"

#include <stddef.h>
#include <stdio.h>

// A latency is a histogram of the result; a count or share is read from two counters.
struct source {
    struct sim_measure measure;
    size_t at; // of a latency: in struct sim_run_result; of a count: in struct sim_counters
    size_t of; // in struct sim_counters
    bool (*read)(const struct sim_run_result *result, double *out_value);
};

#define HIST(member)    .at = offsetof(struct sim_run_result, member)
#define COUNTER(member) .at = offsetof(struct sim_counters, member)
#define OF(member)      .of = offsetof(struct sim_counters, member)
#define LATENCY(n, a, m)                                                                           \
    {                                                                                              \
        {n, SIM_MEASURE_LATENCY, a}, HIST(m)                                                       \
    }
#define COUNT(m, a, o)                                                                             \
    {                                                                                              \
        {#m, SIM_MEASURE_COUNT, a}, COUNTER(m), OF(o)                                              \
    }
#define SHARE(m, a, o)                                                                             \
    {                                                                                              \
        {#m "_share", SIM_MEASURE_SHARE, a}, COUNTER(m), OF(o)                                     \
    }

// The version the run is about: --version, else the one that came last.
static uint8_t about_version(const struct sim_run_result *result)
{
    const struct sim_options *options = result->options;
    uint64_t task_id = sim_options_task_id(options);
    return options->version[0] == '\0'
               ? sim_versions_newest(result->versions, task_id)
               : sim_versions_find(result->versions, task_id, base_str_of(options->version));
}

static bool read_coverage(const struct sim_run_result *result, double *out_value)
{
    uint8_t version = about_version(result);
    if (version == SIM_VERSION_NONE) {
        return false;
    }
    int64_t current = result->counters.version[version].current;
    *out_value = (double)(current > 0 ? current : 0) / result->options->devices;
    return true;
}

static bool read_completed(const struct sim_run_result *result, double *out_value)
{
    *out_value = (double)result->completed;
    return result->counters.arrived > 0;
}

static bool read_failed(const struct sim_run_result *result, double *out_value)
{
    *out_value = (double)result->failed;
    return result->completed > 0;
}

static bool read_failed_share(const struct sim_run_result *result, double *out_value)
{
    *out_value = result->completed > 0 ? (double)result->failed / (double)result->completed : 0;
    return result->completed > 0;
}

// Nobody is exposed to a version that no one calls bad.
static bool read_exposed(const struct sim_run_result *result, double *out_value)
{
    *out_value = (double)result->verdict.exposed;
    return result->options->bad_version_count > 0 && result->completed > 0;
}

static bool read_exposed_share(const struct sim_run_result *result, double *out_value)
{
    bool measured = read_exposed(result, out_value);
    *out_value /= result->options->devices;
    return measured;
}

static bool read_rate(const struct sim_run_result *result, double *out_value)
{
    *out_value = result->rate;
    return result->rate > 0;
}

static bool read_memory(const struct sim_run_result *result, double *out_value)
{
    *out_value = (double)result->peak_rss_bytes / 1048576;
    return result->peak_rss_bytes > 0;
}

static bool read_duration(const struct sim_run_result *result, double *out_value)
{
    *out_value = result->duration_s;
    return true;
}

static const struct source sources[] = {
    LATENCY("generator_lag", "wake later than meant", latencies.lag_us),
    LATENCY("checkin_from_intended", "check-in, from the wake that was meant",
            latencies.checkin_us),
    LATENCY("checkin", "check-in, from its request", latencies.request_us[SIM_EXCHANGE_CHECKIN]),
    LATENCY("blob", "file", latencies.request_us[SIM_EXCHANGE_BLOB]),
    LATENCY("report", "report, until it is durable", latencies.request_us[SIM_EXCHANGE_REPORT]),
    LATENCY("metadata", "root, timestamp or snapshot", latencies.request_us[SIM_EXCHANGE_META]),
    LATENCY("enrolment", "enrolment", latencies.request_us[SIM_EXCHANGE_ENROL]),
    LATENCY("business", "request of an app", latencies.request_us[SIM_EXCHANGE_BUSINESS]),
    LATENCY("offer_to_run", "first offer to first run", offer_to_run_us),
    LATENCY("cloud", "call of a model in the cloud, to its answer", cloud_us),
    {{"coverage", SIM_MEASURE_SHARE, "devices that run --version (the newest), of all"},
     .read = read_coverage},
    {{"completed", SIM_MEASURE_COUNT, "devices that ran it, well or not"}, .read = read_completed},
    {{"failed", SIM_MEASURE_COUNT, "... on which a run failed"}, .read = read_failed},
    {{"failed_share", SIM_MEASURE_SHARE, "of those that ran it"}, .read = read_failed_share},
    {{"exposed", SIM_MEASURE_COUNT, "devices that ever ran a bad version"}, .read = read_exposed},
    {{"exposed_share", SIM_MEASURE_SHARE, "of all"}, .read = read_exposed_share},
    {{"rate", SIM_MEASURE_NUMBER, "devices a second from offer to first run"}, .read = read_rate},
    {{"peak_mib", SIM_MEASURE_NUMBER, "memory of the simulator"}, .read = read_memory},
    {{"duration_s", SIM_MEASURE_NUMBER, "length of the run"}, .read = read_duration},
    COUNT(arrived, "devices that came online", wakes),
    COUNT(wakes, "boots of a device", arrived),
    COUNT(skipped, "wakes put off: no memory was free", wakes),
    SHARE(skipped, "of the wakes", wakes),
    COUNT(checkins, "check-ins answered", arrived),
    COUNT(requests, "requests of all kinds", arrived),
    COUNT(request_errors, "... without an answer, or with one of no use", requests),
    SHARE(request_errors, "of the requests", requests),
    COUNT(reconnects, "connections opened again", requests),
    COUNT(unauthorized, "requests refused as nobody's", requests),
    COUNT(business_failed, "app's requests that failed", business),
    SHARE(business_failed, "of the app's requests", business),
    COUNT(activations, "versions activated", checkins),
    COUNT(rollbacks, "activations undone", activations),
    COUNT(refused_offers, "offers that a device refused", checkins),
    COUNT(refused_metadata, "roots, timestamps and the like refused", checkins),
    COUNT(runs, "runs of a task", arrived),
    COUNT(run_failures, "... that failed", runs),
    SHARE(run_failures, "of the runs", runs),
    COUNT(crashes, "processes killed", wakes),
    {{"cloud_sent", SIM_MEASURE_COUNT, "calls of models in the cloud that left a device"},
     COUNTER(cloud.sent),
     OF(cloud.asked)},
    {{"cloud_refused_share", SIM_MEASURE_SHARE, "... that were refused"},
     COUNTER(cloud.refused),
     OF(cloud.sent)},
    COUNT(enrol_refused, "enrolments refused", requests),
};

#define SOURCES (sizeof(sources) / sizeof(sources[0]))

static const struct {
    const char *name;
    double quantile;
} parts[SIM_LATENCY_PARTS] = {{"p50", 0.5},    {"p90", 0.9}, {"p99", 0.99},
                              {"p999", 0.999}, {"max", 0},   {"mean", 0}};

const struct base_hist *sim_latency_at(const struct sim_run_result *result, uint32_t at,
                                       const char **out_name)
{
    if (at >= SOURCES || sources[at].measure.kind != SIM_MEASURE_LATENCY) {
        return NULL;
    }
    *out_name = sources[at].measure.name;
    const char *base = (const char *)(const void *)result;
    return (const struct base_hist *)(const void *)(base + sources[at].at);
}

const struct sim_measure *sim_measure_at(uint32_t at)
{
    return at < SOURCES ? &sources[at].measure : NULL;
}

const char *sim_latency_part(uint32_t part)
{
    return part < SIM_LATENCY_PARTS ? parts[part].name : NULL;
}

static bool read_latency(const struct base_hist *hist, uint32_t part, double *out_value)
{
    double quantile = parts[part].quantile;
    *out_value = quantile > 0                    ? (double)base_hist_quantile(hist, quantile)
                 : part + 1 == SIM_LATENCY_PARTS ? base_hist_mean(hist)
                                                 : (double)hist->max;
    return hist->count > 0;
}

static uint64_t counter(const struct sim_counters *counters, size_t at)
{
    return *(const uint64_t *)(const void *)((const char *)(const void *)counters + at);
}

bool sim_measure_read(const struct sim_run_result *result, uint32_t at, uint32_t part,
                      double *out_value)
{
    const char *name = NULL;
    const struct base_hist *hist = sim_latency_at(result, at, &name);
    double value = 0;
    bool measured = false;
    if (hist != NULL) {
        measured = part < SIM_LATENCY_PARTS && read_latency(hist, part, &value);
    } else if (at < SOURCES && sources[at].read != NULL) {
        measured = sources[at].read(result, &value);
    } else if (at < SOURCES) {
        uint64_t of = counter(&result->counters, sources[at].of);
        value = (double)counter(&result->counters, sources[at].at);
        value =
            sources[at].measure.kind == SIM_MEASURE_SHARE && of > 0 ? value / (double)of : value;
        measured = of > 0;
    }
    *out_value = measured ? value : 0;
    return measured;
}

const char *sim_measure_text(enum sim_measure_kind kind, double value,
                             char out[SIM_MEASURE_TEXT_MAX])
{
    if (kind == SIM_MEASURE_LATENCY) {
        bool seconds = value >= 1e7;
        (void)snprintf(out, SIM_MEASURE_TEXT_MAX, "%.*f %s", seconds ? 2 : 3,
                       value / (seconds ? 1e6 : 1e3), seconds ? "s" : "ms");
    } else if (kind == SIM_MEASURE_SHARE) {
        (void)snprintf(out, SIM_MEASURE_TEXT_MAX, "%.6g %%", value * 100);
    } else {
        (void)snprintf(out, SIM_MEASURE_TEXT_MAX, kind == SIM_MEASURE_COUNT ? "%.0f" : "%.1f",
                       value);
    }
    return out;
}
