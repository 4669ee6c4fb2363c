// Reading and judging thresholds. fleet_options.c reads them when the command line is read, and
// fleet_run.c has them judged when all was gathered; the reports ask for the words. Main thread.
// What is wrong with one is said with its column, and a name that nobody knows with the nearest.
#include "report/thresholds.h"

#include "base/text/likeness.h"
#include "base/text/real.h"
#include "report/measures.h"

#include <math.h>
#include <string.h>

#define NAME_MAX_CHARS 40u

static const char *const comparisons[SIM_COMPARISON_COUNT] = {
    [SIM_COMPARISON_LESS] = "<",   [SIM_COMPARISON_AT_MOST] = "<=",
    [SIM_COMPARISON_MORE] = ">",   [SIM_COMPARISON_AT_LEAST] = ">=",
    [SIM_COMPARISON_EQUAL] = "==", [SIM_COMPARISON_OTHER] = "!=",
};

// Units of a latency, in microseconds.
static const struct {
    const char *name;
    double us;
} units[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}};

struct reader {
    const char *text;
    size_t at;
    struct base_error *error;
};

static enum base_status wrong_at(struct reader *reader, size_t at, const char *what)
{
    (void)base_error_set(reader->error, BASE_ERR_INVALID, "%s", what);
    if (reader->error != NULL) {
        reader->error->column = (uint32_t)at + 1;
    }
    return BASE_ERR_INVALID;
}

static void skip_spaces(struct reader *reader)
{
    reader->at += strspn(reader->text + reader->at, " \t");
}

// The full name of a part of a latency, or of any other measure.
static void full_name(uint32_t measure, uint32_t part, char out[NAME_MAX_CHARS])
{
    bool latency = sim_measure_at(measure)->kind == SIM_MEASURE_LATENCY;
    (void)snprintf(out, NAME_MAX_CHARS, "%s%s%s", sim_measure_at(measure)->name, latency ? "_" : "",
                   latency ? sim_latency_part(part) : "");
}

static uint32_t parts_of(uint32_t measure)
{
    return sim_measure_at(measure)->kind == SIM_MEASURE_LATENCY ? SIM_LATENCY_PARTS : 1;
}

static enum base_status unknown_name(struct reader *reader, size_t from, struct base_str name)
{
    char best[NAME_MAX_CHARS] = "";
    struct base_nearest nearest = base_nearest_to(name);
    char text[BASE_ERROR_TEXT_MAX];
    for (uint32_t m = 0; sim_measure_at(m) != NULL; m++) {
        for (uint32_t p = 0; p < parts_of(m); p++) {
            char whole[NAME_MAX_CHARS];
            uint32_t before = nearest.best;
            full_name(m, p, whole);
            base_nearest_offer(&nearest, whole);
            if (nearest.best < before) {
                memcpy(best, whole, sizeof(best));
            }
        }
    }
    (void)snprintf(text, sizeof(text), "no metric is called %.*s%s%s%s (--help lists them)",
                   (int)(name.size < NAME_MAX_CHARS ? name.size : NAME_MAX_CHARS), name.data,
                   best[0] != '\0' ? ": " : "", best, best[0] != '\0' ? " is one" : "");
    return wrong_at(reader, from, text);
}

static enum base_status read_name(struct reader *reader, struct sim_threshold *out)
{
    size_t from = reader->at;
    size_t size = strspn(reader->text + from, "abcdefghijklmnopqrstuvwxyz_0123456789");
    struct base_str name = {reader->text + from, size};
    if (size == 0) {
        return wrong_at(reader, from, "the name of a metric is expected, as in checkin_p99<200ms");
    }
    reader->at += size;
    for (uint32_t m = 0; sim_measure_at(m) != NULL; m++) {
        for (uint32_t p = 0; p < parts_of(m); p++) {
            char whole[NAME_MAX_CHARS];
            full_name(m, p, whole);
            if (base_str_equal(name, base_str_of(whole))) {
                out->measure = (uint8_t)m;
                out->part = (uint8_t)p;
                return BASE_OK;
            }
        }
        if (parts_of(m) > 1 && base_str_equal(name, base_str_of(sim_measure_at(m)->name))) {
            return wrong_at(reader, reader->at,
                            "which part of the latency: _p50, _p90, _p99, _p999, _max or _mean?");
        }
    }
    return unknown_name(reader, from, name);
}

static enum base_status read_comparison(struct reader *reader, struct sim_threshold *out)
{
    size_t size = strspn(reader->text + reader->at, "<>=!");
    struct base_str word = {reader->text + reader->at, size};
    for (uint32_t i = 0; i < SIM_COMPARISON_COUNT; i++) {
        if (base_str_equal(word, base_str_of(comparisons[i]))) {
            out->comparison = (uint8_t)i;
            reader->at += size;
            return BASE_OK;
        }
    }
    return wrong_at(reader, reader->at, "one of < <= > >= == != is expected");
}

// Takes the unit behind a number into account.
static enum base_status read_unit(struct reader *reader, size_t from, struct sim_threshold *out)
{
    size_t size = strcspn(reader->text + reader->at, " \t");
    struct base_str unit = {reader->text + reader->at, size};
    enum sim_measure_kind kind = sim_measure_at(out->measure)->kind;
    size_t at = reader->at;
    reader->at += size;
    if (kind == SIM_MEASURE_LATENCY) {
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
            if (base_str_equal(unit, base_str_of(units[i].name))) {
                out->limit *= units[i].us;
                return BASE_OK;
            }
        }
        return wrong_at(reader, at, "a latency has us, ms, s or m behind its number");
    }
    if (kind == SIM_MEASURE_SHARE) {
        bool percent = base_str_equal(unit, BASE_STR("%"));
        if (size == 0 && out->limit == 1) {
            return wrong_at(reader, from, "1 of a share may be meant as 1% or as 100%: which?");
        }
        out->limit = percent ? out->limit / 100 : out->limit;
        if ((percent || size == 0) && out->limit <= 1) {
            return BASE_OK;
        }
        return wrong_at(reader, from, "a share is expected: 1% or 0.01");
    }
    return size == 0 ? BASE_OK : wrong_at(reader, at, "a number without a unit is expected");
}

static enum base_status read_value(struct reader *reader, struct sim_threshold *out)
{
    size_t from = reader->at;
    const char *text = reader->text + from;
    const char *end = text;
    if (strchr("0123456789.", text[0]) != NULL && text[0] != '\0') {
        out->limit = base_real_read(text, &end);
    }
    if (end - text > 1 && (text[1] == 'x' || text[1] == 'X')) {
        return wrong_at(reader, from, "a number of decimal digits is expected");
    }
    if (end == text || !isfinite(out->limit)) {
        return wrong_at(reader, from, "a number is expected");
    }
    reader->at += (size_t)(end - text);
    BASE_TRY(read_unit(reader, from, out));
    return isfinite(out->limit) ? BASE_OK : wrong_at(reader, from, "a number is expected");
}

enum base_status sim_threshold_parse(struct base_str text, struct sim_threshold *out,
                                     struct base_error *error)
{
    struct sim_threshold read = {0};
    struct reader reader = {.text = read.text, .error = error};
    if (text.size >= sizeof(read.text) || memchr(text.data, '\0', text.size) != NULL) {
        return wrong_at(&reader, 0, "too long");
    }
    memcpy(read.text, text.data, text.size);
    skip_spaces(&reader);
    BASE_TRY(read_name(&reader, &read));
    skip_spaces(&reader);
    BASE_TRY(read_comparison(&reader, &read));
    skip_spaces(&reader);
    BASE_TRY(read_value(&reader, &read));
    skip_spaces(&reader);
    if (reader.text[reader.at] != '\0') {
        return wrong_at(&reader, reader.at, "something stands behind the value");
    }
    *out = read;
    return BASE_OK;
}

// Shares are quotients: the last digits of two that mean the same may differ.
static bool compare(enum sim_comparison comparison, double value, double limit)
{
    bool same = fabs(value - limit) <= 1e-12 * fabs(limit);
    switch (comparison) {
    case SIM_COMPARISON_LESS:
        return !same && value < limit;
    case SIM_COMPARISON_AT_MOST:
        return same || value < limit;
    case SIM_COMPARISON_MORE:
        return !same && value > limit;
    case SIM_COMPARISON_AT_LEAST:
        return same || value > limit;
    case SIM_COMPARISON_EQUAL:
        return same;
    default:
        return !same;
    }
}

void sim_thresholds_judge(struct sim_run_result *result)
{
    const struct sim_options *options = result->options;
    for (uint32_t i = 0; i < options->threshold_count; i++) {
        const struct sim_threshold *threshold = &options->thresholds[i];
        struct sim_threshold_result *out = &result->thresholds[i];
        out->measured = sim_measure_read(result, threshold->measure, threshold->part, &out->value);
        out->holds = out->measured && compare((enum sim_comparison)threshold->comparison,
                                              out->value, threshold->limit);
    }
}

uint32_t sim_thresholds_missed(const struct sim_run_result *result)
{
    uint32_t missed = 0;
    for (uint32_t i = 0; i < result->options->threshold_count; i++) {
        missed += result->thresholds[i].holds ? 0 : 1;
    }
    return missed;
}

void sim_threshold_said(const struct sim_run_result *result, uint32_t at,
                        char out[SIM_THRESHOLD_SAID_MAX])
{
    const struct sim_threshold *threshold = &result->options->thresholds[at];
    const struct sim_threshold_result *got = &result->thresholds[at];
    char value[SIM_MEASURE_TEXT_MAX];
    if (!got->measured) {
        (void)snprintf(out, SIM_THRESHOLD_SAID_MAX, "%s: nothing was measured, so it does not hold",
                       threshold->text);
        return;
    }
    (void)snprintf(out, SIM_THRESHOLD_SAID_MAX, "%s: %s, %s", threshold->text,
                   sim_measure_text(sim_measure_at(threshold->measure)->kind, got->value, value),
                   got->holds ? "holds" : "does not hold");
}

void sim_thresholds_help(char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t m = 0; sim_measure_at(m) != NULL && used < size; m++) {
        const struct sim_measure *measure = sim_measure_at(m);
        bool latency = measure->kind == SIM_MEASURE_LATENCY;
        int wrote = snprintf(out + used, size - used, "  %s%s: %s\n", measure->name,
                             latency ? "_PART" : "", measure->about);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}
