// `walle-fleet-sim conform OUT_REAL OUT_VIRTUAL`: is virtual time true to real time? The course:
// options, both folders, the table, the verdict. fleet_main.c calls it on the main thread. The
// distances are made in distances.c.
#include "compare/compare.h"

#include "base/os/output_file.h"
#include "model/sim_exit.h"
#include "words/command_words.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WITHIN_POINTS 2.0
#define LAG_S         10.0
#define LAG_MAX_S     120.0 // so far a lag is looked for, to tell it

enum key { KEY_WITHIN = 256, KEY_LAG, KEY_JSON };

static const struct argp_option table[] = {
    {"within", KEY_WITHIN, "POINTS", 0,
     "Curves may be so far apart at any second, in points of a hundred: of the fleet, and of the "
     "devices that the curve reached (2)",
     0},
    {"lag", KEY_LAG, "SECONDS", 0,
     "One run may be so much later than the other, either way, 0 to 120 (10)", 0},
    {"json", KEY_JSON, "FILE", 0, "Write the comparison there as JSON", 0},
    {0, 0, 0, 0, 0, 0},
};

struct options {
    const char *folders[2]; // real, virtual
    uint32_t folder_count;
    double within;
    double lag_s;
    const char *json;
};

// A number of 0 to `most`; what else it is is refused.
static double take_number(const char *value, double most, const char *what,
                          struct argp_state *state)
{
    char *end = NULL;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || !(number >= 0) || number > most) {
        argp_error(state, "%s %.60s: %s, 0 to %.0f, are expected",
                   strcmp(what, "points") == 0 ? "--within" : "--lag", value, what, most);
    }
    return number;
}

static error_t on_option(int key, char *value, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case KEY_WITHIN:
        options->within = take_number(value, 100, "points", state);
        return 0;
    case KEY_LAG:
        options->lag_s = take_number(value, LAG_MAX_S, "seconds", state);
        return 0;
    case KEY_JSON:
        options->json = value;
        return 0;
    case ARGP_KEY_ARG:
        if (options->folder_count == 2) {
            argp_error(state, "'%.60s': two folders are compared, no more", value);
        }
        options->folders[options->folder_count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (options->folder_count < 2) {
            argp_error(state, "two folders of runs are expected (--out of each)");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct comparison {
    const struct options *options;
    struct sim_run_files runs[2];
    struct sim_shift shift;
    uint32_t unequal;
    bool near;
    json_t *curves;
    json_t *latencies;
    json_t *facts;
};

// Other devices, or other draws: a distance of these would say nothing.
static enum base_status check_alike(const struct comparison *comparison, struct base_error *error)
{
    static const char *const keys[] = {"devices", "seed"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_int_t left = json_integer_value(json_object_get(comparison->runs[0].json, keys[i]));
        json_int_t right = json_integer_value(json_object_get(comparison->runs[1].json, keys[i]));
        if (left != right) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "%s is %lld in one run, %lld in the "
                                  "other: nothing is compared",
                                  keys[i], (long long)left, (long long)right);
        }
    }
    if (comparison->runs[0].curve_count == 0 || comparison->runs[1].curve_count == 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "no device was offered a release: nothing is compared");
    }
    return BASE_OK;
}

static void curve_compare(struct comparison *comparison, const char *name,
                          const struct sim_steps *pair[2], FILE *out)
{
    const char *stage = strchr(name, ',');
    double lag_s = comparison->shift.lag_s;
    double own_s = 0;
    double fleet_s = 0;
    double own =
        sim_curve_distance(pair[0], pair[1], sim_curves_end(pair[0], pair[1]), lag_s, &own_s);
    double fleet =
        sim_curve_distance(pair[0], pair[1], comparison->runs[0].devices, lag_s, &fleet_s);
    bool near = fmax(own, fleet) <= comparison->options->within;
    stage = stage != NULL ? stage + 1 : "";
    (void)fprintf(out,
                  "curve         %.8s %-11s %6.3f points of the fleet apart at most, %.3f of its "
                  "own, at second %.0f%s\n",
                  name, stage, fleet, own, own_s, near ? "" : "  TOO FAR");
    (void)json_array_append_new(comparison->curves,
                                json_pack("{s:s#, s:s, s:f, s:f, s:f}", "manifest", name,
                                          (int)strcspn(name, ","), "stage", stage, "points", fleet,
                                          "points_own", own, "at_s", own_s));
}

// A lag that is no lag to be taken away is looked for too, so that it can be told.
static void lag_tell(const struct comparison *comparison, FILE *out)
{
    const struct sim_run_files *runs = comparison->runs;
    (void)fprintf(out, "lag           %.2f s (the first run is later by that; at most %g may be)\n",
                  comparison->shift.lag_s, comparison->options->lag_s);
    if (!comparison->near) {
        struct sim_shift any = sim_shift_best(&runs[0], &runs[1], LAG_MAX_S);
        if (any.distance < comparison->shift.distance) {
            (void)fprintf(out, "TOO LATE      a lag of %.2f s would make it %.3f points\n",
                          any.lag_s, any.distance);
        }
    }
}

static void curves_compare(struct comparison *comparison, FILE *out)
{
    const struct options *options = comparison->options;
    const struct sim_run_files *runs[2] = {&comparison->runs[0], &comparison->runs[1]};
    const struct sim_steps *pair[2];
    const char *name;
    comparison->shift = sim_shift_best(runs[0], runs[1], options->lag_s);
    comparison->near = comparison->shift.distance <= options->within;
    lag_tell(comparison, out);
    for (uint32_t i = 0; (name = sim_curves_at(runs, i, pair)) != NULL; i++) {
        curve_compare(comparison, name, pair, out);
    }
}

static void latencies_compare(struct comparison *comparison, FILE *out)
{
    const struct sim_run_files *left = &comparison->runs[0];
    const struct sim_run_files *right = &comparison->runs[1];
    for (uint32_t i = 0; i < left->latency_count; i++) {
        const struct sim_steps *latency = &left->latencies[i];
        const struct sim_steps *other =
            sim_steps_find(right->latencies, right->latency_count, latency->name);
        if (other == NULL || latency->count == 0 || other->count == 0) {
            continue; // one of them measured nothing
        }
        double apart = sim_ks_distance(latency, other);
        (void)fprintf(out, "latency       %-22s KS distance %.3f\n", latency->name, apart);
        (void)json_object_set_new(comparison->latencies, latency->name, json_real(apart));
    }
}

static void facts_compare(struct comparison *comparison, FILE *out)
{
    struct sim_fact fact;
    uint32_t count = 0;
    for (; sim_fact_at(&comparison->runs[0], &comparison->runs[1], count, &fact); count++) {
        if (!fact.equal) {
            comparison->unequal++;
            (void)fprintf(out, "NOT EQUAL     %s: %s, and %s\n", fact.name, fact.left, fact.right);
        }
        (void)json_array_append_new(comparison->facts,
                                    json_pack("{s:s, s:s, s:s, s:b}", "name", fact.name, "first",
                                              fact.left, "second", fact.right, "equal",
                                              (int)fact.equal));
    }
    (void)fprintf(out, "facts         %u of %u are equal\n", count - comparison->unequal, count);
}

static enum base_status json_write(struct comparison *comparison, struct base_error *error)
{
    const struct options *options = comparison->options;
    struct base_output_file file;
    if (options->json == NULL) {
        return BASE_OK;
    }
    json_t *root = json_pack(
        "{s:b, s:f, s:f, s:f, s:f, s:O, s:O, s:O}", "conforms",
        (int)(comparison->near && comparison->unequal == 0), "within", options->within, "lag_max_s",
        options->lag_s, "lag_s", comparison->shift.lag_s, "points", comparison->shift.distance,
        "curves", comparison->curves, "facts", comparison->facts, "ks", comparison->latencies);
    if (root == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    enum base_status status = base_output_open(&file, options->json, error);
    if (status == BASE_OK) {
        bool good =
            json_dumpf(root, file.file, JSON_INDENT(2)) == 0 && fputc('\n', file.file) != EOF;
        status = good ? BASE_OK : base_error_set(error, BASE_ERR_IO, "%s", options->json);
        status = base_output_close(&file, status, error);
    }
    json_decref(root);
    return status;
}

// A run compared with itself would always conform.
static enum base_status check_two(const struct options *options, struct base_error *error)
{
    struct stat left;
    struct stat right;
    bool same = stat(options->folders[0], &left) == 0 && stat(options->folders[1], &right) == 0 &&
                left.st_dev == right.st_dev && left.st_ino == right.st_ino;
    return same ? base_error_set(error, BASE_ERR_INVALID,
                                 "%.100s and %.100s are the same folder: nothing is compared",
                                 options->folders[0], options->folders[1])
                : BASE_OK;
}

static enum base_status compare(struct comparison *comparison, FILE *out, struct base_error *error)
{
    BASE_TRY(check_two(comparison->options, error));
    for (uint32_t i = 0; i < 2; i++) {
        BASE_TRY(sim_run_files_read(comparison->options->folders[i], &comparison->runs[i], error));
    }
    BASE_TRY(check_alike(comparison, error));
    comparison->curves = json_array();
    comparison->latencies = json_object();
    comparison->facts = json_array();
    curves_compare(comparison, out);
    latencies_compare(comparison, out);
    facts_compare(comparison, out);
    bool conforms = comparison->near && comparison->unequal == 0;
    (void)fprintf(out, "%s: at most %.3f points apart once the lag is removed (%.3g may be), %s\n",
                  conforms ? "conforms" : "DOES NOT CONFORM", comparison->shift.distance,
                  comparison->options->within,
                  comparison->unequal == 0 ? "and all counts are equal" : "and counts differ");
    return json_write(comparison, error);
}

int sim_conform_main(int argc, char **argv, FILE *out)
{
    static char name[] = "walle-fleet-sim conform";
    struct base_error error = {0};
    struct options options = {.within = WITHIN_POINTS, .lag_s = LAG_S};
    const struct argp parser = {
        table,
        on_option,
        "OUT_REAL OUT_VIRTUAL",
        "Is the same run over real sockets and in virtual time the same? Compares what two runs of "
        "one seed left in their --out: coverage curves once a lag of at most --lag is removed, "
        "each "
        "by the fleet and by its own end, all that either counts, and the "
        "distributions of latencies (their distance is told, and is no bar: virtual messages take "
        "as long as the simulator says).\vExit status: 0 they conform, 1 they do not, 2 usage or "
        "runs that cannot be compared, 4 files or memory.",
        NULL,
        NULL,
        NULL};
    argv[0] = name;
    if (!sim_command_read(&parser, 0, argc, argv, &options)) {
        return SIM_EXIT_USAGE;
    }
    struct comparison comparison = {.options = &options};
    enum base_status status = compare(&comparison, out, &error);
    bool conforms = comparison.near && comparison.unequal == 0;
    for (uint32_t i = 0; i < 2; i++) {
        sim_run_files_done(&comparison.runs[i]);
    }
    json_decref(comparison.curves);
    json_decref(comparison.latencies);
    json_decref(comparison.facts);
    if (status != BASE_OK) {
        (void)fprintf(stderr, "walle-fleet-sim conform: %s\n", error.text);
        return status == BASE_ERR_INVALID ? SIM_EXIT_USAGE : SIM_EXIT_LOCAL;
    }
    return conforms ? SIM_EXIT_OK : SIM_EXIT_FAILED;
}
