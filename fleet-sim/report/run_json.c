// run.json: the run in numbers, for programs. Written once, at the end, by run_result.c on the
// coordinator's thread. It reads the gathered result and computes no more than quantiles; what
// behaviour came to is an object that behaviour_report.c makes.
#include "base/version.h"
#include "report/behaviour_report.h"
#include "report/delay_ideal.h"
#include "report/measures.h"
#include "report/run_result.h"
#include "report/truth_gap.h"

#include <jansson.h>

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *quantiles(const struct base_hist *hist)
{
    static const struct {
        const char *name;
        double quantile;
    } all[] = {{"p25", 0.25}, {"p50", 0.5},  {"p75", 0.75},   {"p90", 0.9},
               {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}};
    json_t *root = json_pack("{s:o, s:f, s:o}", "count", number(hist->count), "mean",
                             base_hist_mean(hist), "max", number(hist->count > 0 ? hist->max : 0));
    for (size_t i = 0; root != NULL && i < sizeof(all) / sizeof(all[0]); i++) {
        (void)json_object_set_new(root, all[i].name,
                                  number(base_hist_quantile(hist, all[i].quantile)));
    }
    return root;
}

static json_t *versions(const struct sim_run_result *result)
{
    json_t *list = json_array();
    for (uint32_t v = 1; v < result->version_count; v++) {
        const struct sim_version_counters *c = &result->counters.version[v];
        if (v < SIM_VERSIONS_MAX && result->uncounted[v]) {
            continue;
        }
        struct sim_version version = sim_versions_get(result->versions, (uint8_t)v);
        char hex[WIRE_SHA256_HEX + 1];
        wire_sha256_hex(&version.manifest, hex);
        (void)json_array_append_new(
            list, json_pack("{s:i, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:I}",
                            "number", (int)v, "task", version.task, "version", version.label,
                            "manifest", hex, "bad", (int)version.bad, "offered", number(c->offered),
                            "downloaded", number(c->downloaded), "activated", number(c->activated),
                            "ran", number(c->ran), "failed", number(c->failed), "rolled_back",
                            number(c->rolled_back), "current", (json_int_t)c->current));
    }
    return list;
}

// Of one version: each count as it is, as the gateway has it, and how far apart they are. The share
// is null where the truth is 0 and the gap is not.
static json_t *gap_rows(const struct sim_gap *gap)
{
    json_t *all = json_object();
    for (uint32_t row = 0; row < SIM_GAP_ROWS; row++) {
        double percent = 0;
        bool share = sim_gap_share(gap, (enum sim_gap_row)row, &percent);
        json_int_t apart = (json_int_t)gap->said[row] - (json_int_t)gap->truth[row];
        bool said = gap->why_not == NULL;
        json_t *item = json_pack("{s:o, s:o, s:o, s:o}", "truth", number(gap->truth[row]),
                                 "gateway", said ? number(gap->said[row]) : json_null(), "gap",
                                 said ? json_integer(apart) : json_null(), "percent",
                                 said && share ? json_real(percent) : json_null());
        (void)json_object_set_new(all, sim_gap_name((enum sim_gap_row)row), item);
    }
    return all;
}

static json_t *truth_gap(const struct sim_run_result *result)
{
    json_t *list = json_array();
    for (uint32_t v = 1; v < result->version_count && v < SIM_VERSIONS_MAX; v++) {
        struct sim_version version = sim_versions_get(result->versions, (uint8_t)v);
        struct sim_gap gap;
        if (result->uncounted[v] || result->counters.version[v].offered == 0) {
            continue;
        }
        sim_gap_of(result, (uint8_t)v, &gap);
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:b, s:s?, s:o, s:o, s:o}", "task", version.task, "version",
                            version.label, "said", gap.why_not == NULL, "not_said_because",
                            gap.why_not, "rollouts", number(gap.rollouts), "unproven",
                            number(gap.unproven), "devices", gap_rows(&gap)));
    }
    return list;
}

// as_meant: null while it is under way.
static json_t *rollouts(const struct sim_run_result *result)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        const struct sim_rollout_told *told = &result->rollouts[i];
        const struct sim_rollout_seen *seen = &told->seen;
        char id[WIRE_DEVICE_HEX + 1];
        wire_device_hex(seen->id, id);
        bool ended = sim_rollout_over(seen->state) || told->wrong;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:b}", "id", id, "task",
                            seen->task, "version", seen->version, "state", seen->state, "stage",
                            seen->stage, "stages", seen->stages, "reason", seen->reason, "as_meant",
                            ended ? json_boolean(!told->wrong) : json_null(), "over_before",
                            (int)seen->old));
    }
    return list;
}

static json_t *uncounted(const struct sim_run_result *result)
{
    json_t *list = json_array();
    for (uint32_t v = 1; v < result->version_count && v < SIM_VERSIONS_MAX; v++) {
        char text[SIM_RELEASE_TEXT_MAX];
        if (result->uncounted[v]) {
            sim_release_text(result, (uint8_t)v, text);
            (void)json_array_append_new(list, json_string(text));
        }
    }
    return list;
}

static json_t *oracles(const struct sim_run_result *result)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        const struct sim_oracle_result *oracle = &result->verdict.oracle[i];
        const char *nothing = sim_oracle_nothing((enum sim_oracle)i, oracle);
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:b, s:b, s:o, s:o, s:b, s:s?, s:o?}", "name",
                            sim_oracle_name((enum sim_oracle)i), "text",
                            sim_oracle_text((enum sim_oracle)i), "checked", (int)oracle->checked,
                            "holds", (int)oracle->holds, "violations", number(oracle->violations),
                            "of", number(oracle->population), "compared", nothing == NULL,
                            "compared_nothing_because", nothing, "device",
                            oracle->names_device ? number(oracle->device) : NULL));
    }
    return list;
}

static json_t *slice(const struct sim_run_result *result)
{
    if (result->slice.cond_count == 0) {
        return json_null();
    }
    char text[SIM_SLICE_TEXT_MAX];
    char version[SIM_LABEL_MAX];
    sim_slice_text(&result->slice, text);
    sim_version_text(result, result->focus, version);
    return json_pack("{s:s, s:s, s:f, s:f, s:o, s:o, s:o, s:o}", "version", version, "predicate",
                     text, "precision", sim_slice_precision(&result->slice), "support",
                     sim_slice_support(&result->slice), "devices", number(result->slice.devices),
                     "failed", number(result->slice.failed), "failed_total",
                     number(result->slice.failed_total), "first",
                     sim_failing_json(&result->failing_slice));
}

// How devices failed first with the version that the slice is of, each way with a few of them.
static json_t *failing(const struct sim_run_result *result)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < SIM_OUTCOMES; i++) {
        const struct sim_failing *way = &result->failing[i];
        if (way->devices > 0) {
            (void)json_array_append_new(
                list, json_pack("{s:s, s:o, s:o}", "outcome",
                                wire_outcome_name((enum wire_outcome_kind)i), "devices",
                                number(way->devices), "first", sim_failing_json(way)));
        }
    }
    return list;
}

static json_t *totals(const struct sim_run_result *result)
{
    const struct sim_counters *c = &result->counters;
    const struct {
        const char *name;
        uint64_t count;
    } all[] = {
        {"arrived", c->arrived},
        {"wakes", c->wakes},
        {"skipped", c->skipped},
        {"checkins", c->checkins},
        {"requests", c->requests},
        {"request_errors", c->request_errors},
        {"response_bytes", c->response_bytes},
        {"runs", c->runs},
        {"run_failures", c->run_failures},
        {"crashes", c->crashes},
        {"reinstalls", c->reinstalls},
        {"activations", c->activations},
        {"marked", c->marked},
        {"rollbacks", c->rollbacks},
        {"refused_offers", c->refused_offers},
        {"reconnects", c->reconnects},
        {"shared_hash_bytes", c->shared_hash_bytes},
        {"real_hash_bytes", c->real_hash_bytes},
        {"exclusive_runs", c->exclusive_runs},
        {"enrolled", c->enrolled},
        {"unenrolled", c->unenrolled},
        {"enrol_refused", c->enrol_refused},
        {"enrolled_before", c->enrolled_before},
        {"unauthorized", c->unauthorized},
        {"no_room", c->no_room},
    };
    json_t *root = json_object();
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        (void)json_object_set_new(root, all[i].name, number(all[i].count));
    }
    return root;
}

// What a sample of the devices did for real beside the work that all others share.
static json_t *for_real(const struct sim_run_result *result)
{
    const struct sim_counters *c = &result->counters;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "real_every",
                     number(result->options->real_every), "devices", number(c->real_devices),
                     "compared", number(c->real_compared), "disagreed", number(c->memo_mismatches),
                     "signatures_verified", number(c->real_signatures), "signatures_shared",
                     number(c->shared_signatures), "bytes_hashed", number(c->real_hash_bytes),
                     "bytes_shared", number(c->shared_hash_bytes), "bytecode_checked",
                     number(c->real_checks), "bytecode_shared", number(c->shared_checks),
                     "runs_shared", number(c->shared_runs));
}

// What devices asked the gateway for, and what rode on their apps' requests.
static json_t *requests(const struct sim_run_result *result)
{
    const struct sim_counters *c = &result->counters;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "business", number(c->business),
                     "business_failed", number(c->business_failed), "rides", number(c->rides),
                     "ride_reports", number(c->ride_reports), "own_checkins",
                     number(c->own_checkins), "own_reports", number(c->own_reports), "pulls",
                     number(c->pulls));
}

// Calls of models in the cloud: asked = kept + sent, sent = answered + late + refused.
static json_t *cloud(const struct sim_run_result *result)
{
    const struct sim_cloud_sums *c = &result->counters.cloud;
    if (result->options->cloud_models[0] == '\0') {
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "asked",
                     number(c->asked), "kept", number(c->kept), "sent", number(c->sent), "answered",
                     number(c->answered), "late", number(c->late), "refused", number(c->refused),
                     "over_quota", number(c->over_quota), "busy", number(c->busy), "waited",
                     number(c->waited), "served_us", number(c->served_us));
}

// How truly devices were played, tier by tier.
static json_t *fidelity(const struct sim_run_result *result)
{
    const struct sim_fidelity fidelity = sim_fidelity_of(result);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b}", "release_path",
                     number(fidelity.release_path), "behaviour", number(fidelity.behaviour),
                     "unshared", number(fidelity.unshared), "own_connection",
                     number(fidelity.own_connection), "byte_exact", number(fidelity.byte_exact),
                     "http2", (int)fidelity.http2, "tls", (int)fidelity.tls, "own_tls",
                     (int)fidelity.own_tls);
}

static json_t *bytes_one_way(const struct sim_bytes_sum *sum)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "wire", number(sum->wire), "handshake",
                     number(sum->handshake), "body", number(sum->body), "modelled",
                     number(sum->modelled));
}

// What devices that speak real bytes came to; null: none does.
static json_t *bytes_exact(const struct sim_run_result *result)
{
    const struct sim_bytes_tally *b = &result->bytes;
    if (result->options->byte_devices == 0) {
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "devices",
                     number(b->devices), "connections", number(b->connections), "handshakes",
                     number(b->handshakes), "answers", number(b->answers), "cut", number(b->cut),
                     "mismatches", number(b->mismatches), "answer_us", number(b->us), "modelled_us",
                     number(b->modelled_us), "up", bytes_one_way(&b->up), "down",
                     bytes_one_way(&b->down));
}

static json_t *trust(const struct sim_run_result *result)
{
    const struct sim_trust_result *t = &result->trust;
    const struct sim_counters *c = &result->counters;
    if (!t->has_root) {
        return json_null();
    }
    json_t *devices = json_array();
    for (uint32_t i = 0; i < SIM_ROOT_NUMBERS; i++) {
        if (t->devices[i] > 0) {
            (void)json_array_append_new(
                devices, json_pack("{s:i, s:o}", "root", (int)i, "devices", number(t->devices[i])));
        }
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "born", number(t->born.version), "newest",
                     number(t->newest.version), "devices", devices, "refused_metadata",
                     number(c->refused_metadata), "leases_lost", number(c->leases_lost), "killed",
                     number(c->kills));
}

static json_t *latencies(const struct sim_run_result *result)
{
    json_t *all = json_object();
    const char *name = NULL;
    const struct base_hist *hist = NULL;
    for (uint32_t i = 0; (hist = sim_latency_at(result, i, &name)) != NULL; i++) {
        (void)json_object_set_new(all, name, quantiles(hist));
    }
    return all;
}

// Value null: nothing was measured.
static json_t *thresholds(const struct sim_run_result *result)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < result->options->threshold_count; i++) {
        const struct sim_threshold *threshold = &result->options->thresholds[i];
        const struct sim_threshold_result *got = &result->thresholds[i];
        bool latency = sim_measure_at(threshold->measure)->kind == SIM_MEASURE_LATENCY;
        char name[SIM_THRESHOLD_TEXT_MAX];
        (void)snprintf(name, sizeof(name), "%s%s%s", sim_measure_at(threshold->measure)->name,
                       latency ? "_" : "", latency ? sim_latency_part(threshold->part) : "");
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:f, s:o, s:b}", "threshold", threshold->text, "metric",
                            name, "limit", threshold->limit, "value",
                            got->measured ? json_real(got->value) : json_null(), "holds",
                            (int)got->holds));
    }
    return list;
}

// Neither true nor false of a run that was cut short.
static json_t *passed(const struct sim_run_result *result)
{
    return result->outcome == SIM_OUTCOME_INTERRUPTED
               ? json_null()
               : json_boolean(result->outcome == SIM_OUTCOME_PASSED);
}

static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *about(const struct sim_run_result *result)
{
    const struct sim_about *a = &result->about;
    const struct sim_options *options = result->options;
    char gateway[SIM_TEXT_MAX + 24] = "";
    if (options->virtual_dir[0] != '\0') {
        (void)snprintf(gateway, sizeof(gateway), "virtual:%s", options->virtual_dir);
    } else if (!options->local) {
        (void)snprintf(gateway, sizeof(gateway), "%s://%s:%u", options->tls ? "https" : "http",
                       options->host, options->port);
    }
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:s, s:s}", "began", a->began, "ended",
                     a->ended, "task", text_or_null(a->task), "version", text_or_null(a->version),
                     "manifest", text_or_null(a->manifest), "gateway", text_or_null(gateway),
                     "machine", a->machine, "product", "walle-fleet-sim " BASE_PRODUCT_VERSION);
}

// What devices saved, and how it was kept.
static json_t *saved_states(const struct sim_states_stats *states)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "devices", number(states->kept), "bytes",
                     number(states->bytes), "bases", number(states->bases), "without_base",
                     number(states->whole), "checked", number(states->checked), "disagreed",
                     number(states->mismatches));
}

// What went wrong around the devices, as often as it did; null: nothing was to.
static json_t *faults(const struct sim_run_result *result)
{
    if (result->options->faults.rule_count == 0) {
        return json_null();
    }
    json_t *object = json_object();
    for (uint32_t k = 0; k < SIM_FAULT_KIND_COUNT; k++) {
        char name[64];
        const struct sim_fault_about *about = sim_fault_about((enum sim_fault_kind)k);
        (void)snprintf(name, sizeof(name), "%s:%s", sim_fault_family_name(about->family),
                       about->name);
        if (result->faults[k] > 0) {
            (void)json_object_set_new(object, name, number(result->faults[k]));
        }
    }
    return object;
}

// When a rollout went on, stopped or ended.
static json_t *marks(const struct sim_run_result *result)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < result->timeline->mark_count; i++) {
        const struct sim_mark *mark = &result->timeline->marks[i];
        (void)json_array_append_new(array,
                                    json_pack("{s:f, s:s}", "t_s", mark->t_s, "text", mark->text));
    }
    return array;
}

enum base_status sim_run_json_write(const struct sim_run_result *result, FILE *file)
{
    const struct sim_options *options = result->options;
    json_t *root = json_pack(
        "{s:o, s:s, s:b, s:o, s:s, s:s*, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:o, s:s}", "passed",
        passed(result), "outcome", sim_outcome_name(result->outcome), "interrupted",
        (int)result->interrupted, "about", about(result), "ended", result->ended, "failed_because",
        result->cause[0] != '\0' ? result->cause : NULL, "devices", number(options->devices),
        "carriers", number(result->budget.carriers), "dedicated", number(result->budget.dedicated),
        "completed", number(result->completed), "failed", number(result->failed), "duration_s",
        result->duration_s, "rate", result->rate, "seed", number(options->seed), "command",
        options->command);
    char spoilt[SIM_LAG_TEXT_MAX];
    (void)sim_lag_text(result, spoilt);
    if (root != NULL) {
        (void)json_object_set_new(root, "marks", marks(result));
        (void)json_object_set_new(root, "fidelity", fidelity(result));
        (void)json_object_set_new(root, "byte_exact", bytes_exact(result));
        (void)json_object_set_new(root, "truth_gap", truth_gap(result));
        (void)json_object_set_new(root, "latency_warning", text_or_null(spoilt));
        (void)json_object_set_new(root, "saved_states", saved_states(&result->states));
        (void)json_object_set_new(root, "faults", faults(result));
        (void)json_object_set_new(root, "failing", failing(result));
        (void)json_object_set_new(root, "cloud", cloud(result));
    }
    if (root != NULL && result->digest[0] != '\0') {
        (void)json_object_set_new(root, "virtual",
                                  json_pack("{s:s, s:f, s:f, s:o}", "digest", result->digest,
                                            "took_s", result->took_s, "dormant_bytes",
                                            result->dormant_bytes, "folder_bytes",
                                            number(result->folder_bytes)));
    }
    if (root != NULL && !options->local) {
        (void)json_object_set_new(root, "delay_over_ideal", sim_ideal_json(result));
    }
    json_t *rest = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "exposed", number(result->verdict.exposed), "exposed_back_as_before",
        number(result->verdict.back_as_before), "exposed_none_before",
        number(result->verdict.none_before), "peak_rss_bytes", number(result->peak_rss_bytes),
        "totals", totals(result), "requests", requests(result), "versions", versions(result),
        "rollouts", rollouts(result), "not_counted", uncounted(result), "oracles", oracles(result),
        "thresholds", thresholds(result), "verified_for_real", for_real(result), "failing_slice",
        slice(result), "latency_us", latencies(result), "content_bytes",
        number(result->store_bytes), "trust", trust(result), "behaviour",
        sim_behaviour_json(result));
    enum base_status status = BASE_ERR_NOMEM;
    if (root != NULL && rest != NULL && json_object_update(root, rest) == 0) {
        status = json_dumpf(root, file, JSON_INDENT(2)) == 0 && fputc('\n', file) != EOF
                     ? BASE_OK
                     : BASE_ERR_IO;
    }
    json_decref(root);
    json_decref(rest);
    return status;
}
