// Writing the reports of a run into its folder, and the texts about it that several reports share.
// fleet_run.c calls it once on the coordinator's thread, when all is gathered; run_json.c,
// report_html.c and run_summary.c ask for the texts, so that a run bears the same name in each of
// them.
#include "report/run_result.h"

#include "model/repro_line.h"
#include "base/check.h"

#include "base/os/output_file.h"
#include "report/measures.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_GATEWAY "https://127.0.0.1:8443"

double sim_result_rate(const struct sim_timeline *timeline, uint8_t version)
{
    if (version == SIM_VERSION_NONE || version >= SIM_ROW_VERSIONS || timeline->count == 0) {
        return 0;
    }
    double total = (double)timeline->rows[timeline->count - 1].version[version].ran;
    double from_s = 0, from = 0, to_s = -1, to = 0; // nobody had run it when the run began
    for (uint32_t i = 0; i < timeline->count; i++) {
        const struct sim_row *row = &timeline->rows[i];
        double ran = (double)row->version[version].ran;
        if (ran <= total * 0.05) {
            from_s = row->t_s;
            from = ran;
        }
        if (ran >= total * 0.95) {
            to_s = row->t_s;
            to = ran;
            break;
        }
    }
    return to_s > from_s ? (to - from) / (to_s - from_s) : 0;
}

static const struct {
    const char *name;
    const char *text;
} outcomes[SIM_OUTCOME_COUNT] = {
    [SIM_OUTCOME_PASSED] = {"passed", "passed"},
    [SIM_OUTCOME_FAILED] = {"failed", "FAILED"},
    [SIM_OUTCOME_INTERRUPTED] = {"interrupted", "INTERRUPTED: neither passed nor failed"},
    [SIM_OUTCOME_NO_GATEWAY] = {"no gateway", "NO GATEWAY"},
    [SIM_OUTCOME_NOBODY_ONLINE] = {"nobody online", "NOBODY ONLINE"},
    [SIM_OUTCOME_REFUSED] = {"devices refused", "DEVICES REFUSED"},
    [SIM_OUTCOME_UNREACHED] = {"nobody reached", "NOBODY REACHED"},
    [SIM_OUTCOME_NO_RELEASE] = {"no release", "NO RELEASE"},
    [SIM_OUTCOME_UNCOUNTED] = {"not counted", "NOT COUNTED"},
    [SIM_OUTCOME_NO_ROOM] = {"no room", "NO ROOM"},
    [SIM_OUTCOME_THRESHOLD] = {"threshold missed", "THRESHOLD MISSED"},
};

const char *sim_outcome_name(enum sim_outcome outcome)
{
    return outcomes[outcome].name;
}

const char *sim_outcome_text(enum sim_outcome outcome)
{
    return outcomes[outcome].text;
}

const char *sim_result_online(const struct sim_run_result *result)
{
    return result->options->local || result->counters.checkins > 0 ? "online"
                                                                   : "came up, and not online,";
}

uint64_t sim_result_online_count(const struct sim_run_result *result)
{
    const struct sim_counters *counters = &result->counters;
    bool any = result->options->local || counters->checkins > 0;
    base_assert(counters->unenrolled <= counters->arrived);
    return counters->arrived - (any ? counters->unenrolled : 0);
}

void sim_gateway_text(const struct sim_options *options, char out[SIM_GATEWAY_TEXT_MAX])
{
    if (options->local) {
        (void)snprintf(out, SIM_GATEWAY_TEXT_MAX, "in this process, no gateway");
        return;
    }
    if (options->virtual_dir[0] != '\0') {
        (void)snprintf(out, SIM_GATEWAY_TEXT_MAX, "the gateway's core in virtual time, from %s",
                       options->virtual_dir);
        return;
    }
    (void)snprintf(out, SIM_GATEWAY_TEXT_MAX, "gateway %s:%u %s", options->host, options->port,
                   options->tls ? "by TLS" : "in clear text");
}

void sim_for_real_text(const struct sim_run_result *result, char out[SIM_FOR_REAL_TEXT_MAX])
{
    const struct sim_counters *c = &result->counters;
    (void)snprintf(out, SIM_FOR_REAL_TEXT_MAX,
                   "%llu devices did all of it for real (--real-every %u): %llu hashes, "
                   "signatures, checks of bytecode and runs made both ways, %llu disagreed; of all "
                   "signatures %llu were verified, %llu were the same bytes as one of these%s; of "
                   "%llu runs %llu were those of another device with the same files",
                   (unsigned long long)c->real_devices, result->options->real_every,
                   (unsigned long long)c->real_compared, (unsigned long long)c->memo_mismatches,
                   (unsigned long long)c->real_signatures, (unsigned long long)c->shared_signatures,
                   result->options->own_signatures ? " or as the core had signed (--own-signatures)"
                                                   : "",
                   (unsigned long long)c->runs, (unsigned long long)c->shared_runs);
}

struct sim_fidelity sim_fidelity_of(const struct sim_run_result *result)
{
    const struct sim_options *options = result->options;
    bool sockets = !options->local && options->virtual_dir[0] == '\0';
    bool online = options->local || result->counters.checkins > 0;
    return (struct sim_fidelity){
        .release_path = online ? sim_result_online_count(result) : 0,
        .behaviour = result->counters.behaviour.devices,
        .unshared = result->counters.real_devices,
        .own_connection = sockets ? result->budget.dedicated : 0,
        .byte_exact = result->bytes.devices,
        .http2 = sockets,
        .tls = sockets && options->tls,
        .own_tls = sockets && (options->own_host[0] != '\0' ? options->own_tls : options->tls),
    };
}

// What real bytes cost, beside what an ordinary device is charged with for the same.
static void bytes_text(const struct sim_bytes_tally *bytes, char *out, size_t room)
{
    uint64_t answers = bytes->answers > 0 ? bytes->answers : 1;
    (void)snprintf(
        out, room,
        ", but on %llu, which speak real HTTP/2 and TLS: %llu connections, %llu handshakes, %llu "
        "answers as the model has them but for %llu mismatches; %llu bytes up (handshakes %llu, "
        "bodies %llu; charged to an ordinary device: %llu), %llu down (%llu, %llu; %llu); %.1f ms "
        "to an answer (an ordinary device: %.1f ms)",
        (unsigned long long)bytes->devices, (unsigned long long)bytes->connections,
        (unsigned long long)bytes->handshakes, (unsigned long long)bytes->answers,
        (unsigned long long)bytes->mismatches, (unsigned long long)bytes->up.wire,
        (unsigned long long)bytes->up.handshake, (unsigned long long)bytes->up.body,
        (unsigned long long)bytes->up.modelled, (unsigned long long)bytes->down.wire,
        (unsigned long long)bytes->down.handshake, (unsigned long long)bytes->down.body,
        (unsigned long long)bytes->down.modelled, (double)bytes->us / 1000 / (double)answers,
        (double)bytes->modelled_us / 1000 / (double)answers);
}

void sim_fidelity_text(const struct sim_run_result *result, char out[SIM_FIDELITY_TEXT_MAX])
{
    const struct sim_fidelity fidelity = sim_fidelity_of(result);
    static const char *const tls[] = {"without TLS", "with TLS"};
    char wire[128] = "messages are handed over: no HTTP/2, no TLS";
    if (fidelity.http2) {
        (void)snprintf(wire, sizeof(wire),
                       "messages are HTTP/2 on sockets %s, %llu devices have a connection to "
                       "themselves, %s",
                       tls[fidelity.tls], (unsigned long long)fidelity.own_connection,
                       tls[fidelity.own_tls]);
    }
    int size = snprintf(
        out, SIM_FIDELITY_TEXT_MAX,
        "the release path on %llu devices; a user's behaviour, triggers, tasks%s on "
        "%llu; nothing shared with others on %llu; %s",
        (unsigned long long)fidelity.release_path, result->options->local ? "" : " and the tunnel",
        (unsigned long long)fidelity.behaviour, (unsigned long long)fidelity.unshared, wire);
    if (result->options->byte_devices > 0 && size > 0 && size < SIM_FIDELITY_TEXT_MAX) {
        bytes_text(&result->bytes, out + size, SIM_FIDELITY_TEXT_MAX - (size_t)size);
    }
}

#define LAG_US_MIN    10000 // less is no lateness that a latency could suffer from
#define LAG_PARTS     10    // ... nor is what is less than this part of the check-in's p99
#define SKIPPED_PARTS 1000  // nor fewer wakes put off than this part of them

bool sim_lag_text(const struct sim_run_result *result, char out[SIM_LAG_TEXT_MAX])
{
    const struct sim_counters *c = &result->counters;
    uint64_t lag_us = base_hist_quantile(&result->latencies.lag_us, 0.99);
    uint64_t checkin_us = base_hist_quantile(&result->latencies.checkin_us, 0.99);
    bool late = lag_us >= LAG_US_MIN && lag_us * LAG_PARTS >= checkin_us;
    bool skipped = c->skipped > 0 && c->skipped * SKIPPED_PARTS >= c->wakes;
    out[0] = '\0';
    if (late) {
        (void)snprintf(out, SIM_LAG_TEXT_MAX,
                       "Latencies from the intended wake are not the gateway's here: the simulator "
                       "itself woke devices %.1f ms late (p99; the check-in's p99 is %.1f ms). "
                       "Fewer devices a second (--arrival-rate), or a machine of its own.",
                       (double)lag_us / 1000, (double)checkin_us / 1000);
    } else if (skipped) {
        (void)snprintf(out, SIM_LAG_TEXT_MAX,
                       "Latencies from the intended wake are not the gateway's here: %llu of %llu "
                       "wakes were put off, as no memory for one more device was free (--awake).",
                       (unsigned long long)c->skipped, (unsigned long long)c->wakes);
    }
    return out[0] != '\0';
}

void sim_release_text(const struct sim_run_result *result, uint8_t version,
                      char out[SIM_RELEASE_TEXT_MAX])
{
    struct sim_version item = sim_versions_get(result->versions, version);
    char name[SIM_LABEL_MAX];
    sim_version_name(&item, name);
    (void)snprintf(out, SIM_RELEASE_TEXT_MAX, "%s%s%s", item.task, item.task[0] != 0 ? " " : "",
                   name);
}

void sim_rollout_text(const struct sim_rollout_told *rollout, char out[SIM_ROLLOUT_TEXT_MAX])
{
    const struct sim_rollout_seen *seen = &rollout->seen;
    bool back = sim_rollout_back(seen->state);
    bool over = sim_rollout_over(seen->state);
    const char *state = strcmp(seen->state, "rolled_back") == 0    ? "rolled back"
                        : strcmp(seen->state, "rolling_back") == 0 ? "rolling back"
                                                                   : seen->state;
    const char *judged = rollout->wrong   ? "; no --bad-version names it"
                         : rollout->meant ? "; as --bad-version wants"
                         : back           ? "; offered to none of these devices"
                                          : "";
    (void)snprintf(out, SIM_ROLLOUT_TEXT_MAX, "%s%s%s%s%s%s", state,
                   !over && !back ? " when the run ended, at " : "",
                   !over && !back ? seen->stage : "", back && seen->reason[0] != '\0' ? ": " : "",
                   back ? seen->reason : "", judged);
}

void sim_version_text(const struct sim_run_result *result, uint8_t version, char out[SIM_LABEL_MAX])
{
    struct sim_version item = sim_versions_get(result->versions, version);
    sim_version_name(&item, out);
}

static enum base_status csv_write(const struct sim_run_result *result, FILE *file)
{
    return sim_timeline_write(result->timeline, file, result->version_count);
}

// Every latency as it was measured: devices or requests by the upper edge of their bucket.
static enum base_status latency_write(const struct sim_run_result *result, FILE *file)
{
    const char *name = NULL;
    const struct base_hist *hist = NULL;
    (void)fputs("latency,upto_us,count\n", file);
    for (uint32_t i = 0; (hist = sim_latency_at(result, i, &name)) != NULL; i++) {
        for (uint32_t b = 0; b < BASE_HIST_BUCKETS; b++) {
            if (hist->buckets[b] > 0) {
                (void)fprintf(file, "%s,%llu,%u\n", name, (unsigned long long)base_hist_edge(b),
                              hist->buckets[b]);
            }
        }
    }
    return ferror(file) != 0 ? BASE_ERR_IO : BASE_OK;
}

static enum base_status repro_write(const struct sim_run_result *result, FILE *file)
{
    return fprintf(file, "%s\n", result->options->repro) < 0 ? BASE_ERR_IO : BASE_OK;
}

const struct sim_failing_device *sim_result_failing(const struct sim_run_result *result)
{
    const struct sim_failing *most = &result->failing[0];
    for (uint32_t i = 1; i < SIM_OUTCOMES; i++) {
        most = result->failing[i].devices > most->devices ? &result->failing[i] : most;
    }
    most = result->failing_slice.devices > 0 ? &result->failing_slice : most;
    return most->told > 0 ? &most->first[0] : NULL;
}

// With all that it needs where it is pasted: the task, and the gateway where it is not the one that
// `walle` asks by itself.
static void why_text(const struct sim_run_result *result, const char *id,
                     char out[SIM_LOOK_TEXT_MAX])
{
    const struct sim_options *options = result->options;
    const char *words[9] = {"walle", "device", "why", id};
    uint32_t count = 4;
    char url[SIM_TEXT_MAX + 24];
    (void)snprintf(url, sizeof(url), "http%s://%s:%u", options->tls ? "s" : "", options->host,
                   options->port);
    if (result->about.task[0] != '\0') {
        words[count++] = "--task";
        words[count++] = result->about.task;
    }
    if (strcmp(url, DEFAULT_GATEWAY) != 0) {
        words[count++] = "--gateway";
        words[count++] = url;
    }
    base_assert(count < sizeof(words) / sizeof(words[0]));
    sim_repro_words(words, out, SIM_LOOK_TEXT_MAX);
}

bool sim_look_text(const struct sim_run_result *result, char out[SIM_LOOK_TEXT_MAX])
{
    const struct sim_options *options = result->options;
    const struct sim_failing_device *device = sim_result_failing(result);
    char id[WIRE_DEVICE_HEX + 1];
    out[0] = '\0';
    if (device == NULL || options->local) {
        return false;
    }
    wire_device_hex(device->id, id);
    const char *const replay[] = {"walle-fleet-sim", "replay", options->out, "--device", id, NULL};
    if (options->virtual_dir[0] != '\0') {
        sim_repro_words(replay, out, SIM_LOOK_TEXT_MAX);
    } else {
        why_text(result, id, out);
    }
    return out[0] != '\0';
}

static enum base_status attrs_write(const struct sim_run_result *result, FILE *file)
{
    json_t *attrs = sim_failing_attrs(sim_result_failing(result));
    bool good =
        attrs != NULL && json_dumpf(attrs, file, JSON_INDENT(1)) == 0 && fputc('\n', file) != EOF;
    json_decref(attrs);
    return good ? BASE_OK : BASE_ERR_IO;
}

typedef enum base_status (*write_fn)(const struct sim_run_result *result, FILE *file);

static enum base_status write_to(const struct sim_run_result *result, const char *path,
                                 write_fn write, struct base_error *error)
{
    struct base_output_file out;
    BASE_TRY(base_output_open(&out, path, error));
    enum base_status status = write(result, out.file);
    if (status != BASE_OK) {
        (void)base_error_set(error, status, "%s: %s", path, base_status_text(status));
    }
    return base_output_close(&out, status, error);
}

static enum base_status write_one(const struct sim_run_result *result, const char *name,
                                  write_fn write, struct base_error *error)
{
    char path[SIM_TEXT_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/%s", result->options->out, name);
    return write_to(result, path, write, error);
}

enum base_status sim_result_write(const struct sim_run_result *result, struct base_error *error)
{
    BASE_TRY(write_one(result, "run.json", sim_run_json_write, error));
    BASE_TRY(write_one(result, "timeline.csv", csv_write, error));
    BASE_TRY(write_one(result, "latency.csv", latency_write, error));
    BASE_TRY(write_one(result, "coverage.csv", sim_coverage_write, error));
    BASE_TRY(write_one(result, "report.html", sim_report_html_write, error));
    BASE_TRY(write_one(result, SIM_REPRO_FILE, repro_write, error));
    if (sim_result_failing(result) != NULL) {
        BASE_TRY(write_one(result, SIM_FAILING_ATTRS_FILE, attrs_write, error));
    } else { // that of the run before this one, in the same folder
        char path[SIM_TEXT_MAX + 32];
        (void)snprintf(path, sizeof(path), "%s/" SIM_FAILING_ATTRS_FILE, result->options->out);
        (void)remove(path);
    }
    const char *junit = result->options->junit;
    return junit[0] != '\0' ? write_to(result, junit, sim_junit_write, error) : BASE_OK;
}
