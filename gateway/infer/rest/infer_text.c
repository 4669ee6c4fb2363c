// Writes what infer_text.h says, from copies that infer_models.c made: nothing of the service is
// looked at here. infer_http.c calls, and /metrics does; on a worker's thread. Names of models are
// plain (infer_settings.h), names of tensors are whatever a file says, so JSON is made by jansson.
#include "infer/rest/infer_text.h"

#include "base/alloc.h"
#include "base/version.h"
#include "infer/codec/oip_tensor.h"
#include "infer/device/device_call.h"
#include "infer/release/model_release.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 512

// The text of `root`, which is used up.
static struct base_str dump_take(struct base_arena *arena, json_t *root)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    size_t size = text != NULL ? strlen(text) : 0;
    const char *copy = text != NULL ? base_arena_copy(arena, text, size) : NULL;
    free(text);
    json_decref(root);
    return (struct base_str){copy, copy != NULL ? size : 0};
}

static json_t *text_json(struct base_str text)
{
    return json_stringn(text.data != NULL ? text.data : "", text.size);
}

struct base_str gw_infer_server_json(struct base_arena *arena)
{
    return dump_take(arena, json_pack("{s:s, s:s, s:[s, s, s, s]}", "name", "walle", "version",
                                      BASE_PRODUCT_VERSION, "extensions", "binary_tensor_data",
                                      "classification", "model_repository", "statistics"));
}

static json_t *ports_json(const struct eng_port_info *ports, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *shape = json_array();
        for (uint32_t k = 0; ports[i].has_shape && k < ports[i].desc.rank; k++) {
            (void)json_array_append_new(shape, json_integer(ports[i].desc.dims[k]));
        }
        (void)json_array_append_new(
            list, json_pack("{s:s, s:o, s:o}", "name", ports[i].name, "datatype",
                            text_json(gw_oip_dtype_name(ports[i].desc.dtype)), "shape", shape));
    }
    return list;
}

struct base_str gw_infer_metadata_json(struct base_arena *arena,
                                       const struct gw_infer_metadata *metadata)
{
    json_t *versions = json_array();
    for (size_t i = 0; i < metadata->version_count; i++) {
        (void)json_array_append_new(versions, text_json(metadata->versions[i]));
    }
    return dump_take(arena,
                     json_pack("{s:o, s:o, s:s, s:o, s:o}", "name", text_json(metadata->name),
                               "versions", versions, "platform", "onnx", "inputs",
                               ports_json(metadata->inputs, metadata->input_count), "outputs",
                               ports_json(metadata->outputs, metadata->output_count)));
}

struct base_str gw_infer_index_json(struct base_arena *arena, const struct gw_infer_row *rows,
                                    size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *row =
            json_pack("{s:o, s:s, s:o}", "name", text_json(rows[i].name), "state",
                      rows[i].ready ? "READY" : "UNAVAILABLE", "reason", text_json(rows[i].reason));
        if (rows[i].version.size > 0) {
            (void)json_object_set_new(row, "version", text_json(rows[i].version));
        }
        (void)json_array_append_new(list, row);
    }
    return dump_take(arena, list);
}

static json_t *count_json(uint64_t count, uint64_t us)
{
    return json_pack("{s:I, s:I}", "count", (json_int_t)count, "ns", (json_int_t)(us * 1000));
}

static json_t *stats_json(const struct gw_infer_row *row)
{
    const struct gw_infer_figures *figures = &row->figures;
    json_t *stats = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o}", "success",
        count_json(figures->calls, figures->queue_us + figures->run_us), "fail",
        count_json(figures->failed, 0), "queue", count_json(figures->calls, figures->queue_us),
        "compute_infer", count_json(figures->batches, figures->run_us), "cache_hit",
        count_json(figures->cache_hits, 0), "cache_miss", count_json(figures->cache_misses, 0));
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I}}", "name", text_json(row->name),
        "version", text_json(row->version), "inference_count", (json_int_t)figures->rows,
        "execution_count", (json_int_t)figures->batches, "inference_stats", stats, "walle",
        "refused", (json_int_t)figures->refused, "timed_out", (json_int_t)figures->timed_out,
        "cancelled", (json_int_t)figures->cancelled, "invalid", (json_int_t)figures->invalid,
        "waiting", (json_int_t)figures->waiting, "running", (json_int_t)figures->running);
}

struct base_str gw_infer_stats_json(struct base_arena *arena, const struct gw_infer_row *rows,
                                    size_t count, struct base_str version)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        if (rows[i].ready && (version.size == 0 || base_str_equal(version, rows[i].version))) {
            (void)json_array_append_new(list, stats_json(&rows[i]));
        }
    }
    return dump_take(arena, json_pack("{s:o}", "model_stats", list));
}

// ---- Metrics

struct metric {
    const char *name;
    const char *type;
    const char *help;
    size_t offset;      // of a uint64_t in the figures
    const char *result; // a label; NULL: none
    double scale;
};

#define COUNTER(text, field, help, result, scale)                                                  \
    {                                                                                              \
        text, "counter", help, offsetof(struct gw_infer_figures, field), result, scale             \
    }

static const struct metric metrics[] = {
    COUNTER("infer_calls_total", calls, "Calls of models, by how they ended.", "ok", 1),
    COUNTER("infer_calls_total", failed, NULL, "failed", 1),
    COUNTER("infer_calls_total", refused, NULL, "refused", 1),
    COUNTER("infer_calls_total", timed_out, NULL, "timed_out", 1),
    COUNTER("infer_calls_total", cancelled, NULL, "cancelled", 1),
    COUNTER("infer_calls_total", invalid, NULL, "invalid", 1),
    COUNTER("infer_rows_total", rows, "Rows of calls that ended well.", NULL, 1),
    COUNTER("infer_batches_total", batches, "Runs of models.", NULL, 1),
    COUNTER("infer_queue_seconds_total", queue_us, "Waited for a run, by all calls.", NULL, 1e-6),
    COUNTER("infer_run_seconds_total", run_us, "Runs of models, together.", NULL, 1e-6),
    COUNTER("infer_cache_hits_total", cache_hits, "Calls answered from the cache.", NULL, 1),
    COUNTER("infer_cache_misses_total", cache_misses, "Calls that it had no answer to.", NULL, 1),
    {"infer_cache_bytes", "gauge", "Answers that are kept.",
     offsetof(struct gw_infer_figures, cache_bytes), NULL, 1},
};

struct lines {
    void (*add)(void *ctx, const char *text);
    void *ctx;
    const struct gw_infer_row *rows;
    size_t count;
};

static void head(const struct lines *lines, const char *name, const char *type, const char *help)
{
    char line[LINE_MAX_BYTES];
    (void)snprintf(line, sizeof(line), "# HELP walle_%s %s\n# TYPE walle_%s %s\n", name, help, name,
                   type);
    lines->add(lines->ctx, line);
}

static void add_metric(const struct lines *lines, const struct metric *metric)
{
    char line[LINE_MAX_BYTES];
    if (metric->help != NULL) {
        head(lines, metric->name, metric->type, metric->help);
    }
    for (size_t i = 0; i < lines->count; i++) {
        const struct gw_infer_row *row = &lines->rows[i];
        uint64_t value;
        memcpy(&value, (const char *)&row->figures + metric->offset, sizeof(value));
        if (!row->ready) {
            continue;
        }
        (void)snprintf(line, sizeof(line), "walle_%s{model=\"%.*s\",version=\"%.*s\"%s%s%s} %.*f\n",
                       metric->name, (int)row->name.size, row->name.data, (int)row->version.size,
                       row->version.data, metric->result != NULL ? ",result=\"" : "",
                       metric->result != NULL ? metric->result : "",
                       metric->result != NULL ? "\"" : "", metric->scale < 1 ? 6 : 0,
                       (double)value * metric->scale);
        lines->add(lines->ctx, line);
    }
}

static void add_gauge(const struct lines *lines, const char *name, const char *help, bool waiting)
{
    char line[LINE_MAX_BYTES];
    head(lines, name, "gauge", help);
    for (size_t i = 0; i < lines->count; i++) {
        const struct gw_infer_row *row = &lines->rows[i];
        if (row->ready) {
            (void)snprintf(line, sizeof(line), "walle_%s{model=\"%.*s\",version=\"%.*s\"} %u\n",
                           name, (int)row->name.size, row->name.data, (int)row->version.size,
                           row->version.data,
                           waiting ? row->figures.waiting : row->figures.running);
            lines->add(lines->ctx, line);
        }
    }
}

void gw_infer_metrics(void *service, void (*add)(void *ctx, const char *text), void *ctx)
{
    struct base_arena arena;
    struct gw_infer_row *rows = NULL;
    struct lines lines = {.add = add, .ctx = ctx};
    const struct gw_infer_call all = {.priority = 0};
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    if (gw_infer_rows(service, &all, &arena, &rows, &lines.count) == BASE_OK) {
        lines.rows = rows;
        for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
            add_metric(&lines, &metrics[i]);
        }
        add_gauge(&lines, "infer_waiting", "Calls that wait for a run.", true);
        add_gauge(&lines, "infer_running", "Runs under way.", false);
    }
    gw_release_metrics(service, add, ctx);
    base_arena_done(&arena);
    gw_device_call_metrics(service, add, ctx);
}
