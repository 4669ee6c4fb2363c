// How far two runs are apart: their curves once the lag is taken away, their latencies, and the
// facts that have no distance but are equal or not. conform_main.c calls it; any thread may, for it
// is pure.
#include "compare/compare.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

#define LAG_MAX_S   120.0
#define COARSE_S    1.0
#define FINE_S      0.02
#define SECONDS_MAX 100000.0

static double end_of(const struct sim_steps *steps)
{
    return steps != NULL && steps->count > 0 ? steps->x[steps->count - 1] : 0;
}

static double value_at(const struct sim_steps *steps, double x)
{
    return steps != NULL ? sim_steps_at(steps, x) : 0;
}

double sim_curve_distance(const struct sim_steps *left, const struct sim_steps *right,
                          const struct sim_run_files *runs[2], double lag_s, double *out_at_s)
{
    double end = end_of(left) - lag_s > end_of(right) ? end_of(left) - lag_s : end_of(right);
    double most = 0;
    base_assert(runs[0]->devices > 0 && runs[1]->devices > 0);
    end = end < SECONDS_MAX ? end : SECONDS_MAX;
    *out_at_s = 0;
    for (double t = 0; t <= end + 1; t += 1) {
        double apart = fabs(value_at(left, t + lag_s) / runs[0]->devices -
                            value_at(right, t) / runs[1]->devices);
        if (apart * 100 > most) {
            most = apart * 100;
            *out_at_s = t;
        }
    }
    return most;
}

static double worst_at(const struct sim_run_files *left, const struct sim_run_files *right,
                       double lag_s)
{
    const struct sim_run_files *runs[2] = {left, right};
    double worst = 0;
    for (uint32_t i = 0; i < left->curve_count; i++) {
        const struct sim_steps *other =
            sim_steps_find(right->curves, right->curve_count, left->curves[i].name);
        double at_s = 0;
        double apart = sim_curve_distance(&left->curves[i], other, runs, lag_s, &at_s);
        worst = apart > worst ? apart : worst;
    }
    return worst;
}

// Of equally good lags the smallest one.
static void better(struct sim_shift *best, double lag_s, double distance)
{
    bool nearer = distance < best->distance - 1e-9;
    bool equal = fabs(distance - best->distance) <= 1e-9;
    if (nearer || (equal && fabs(lag_s) < fabs(best->lag_s))) {
        *best = (struct sim_shift){lag_s, distance};
    }
}

struct sim_shift sim_shift_best(const struct sim_run_files *left, const struct sim_run_files *right)
{
    struct sim_shift best = {0, worst_at(left, right, 0)};
    for (double lag = -LAG_MAX_S; lag <= LAG_MAX_S; lag += COARSE_S) {
        better(&best, lag, worst_at(left, right, lag));
    }
    double around = best.lag_s;
    for (double lag = around - COARSE_S; lag <= around + COARSE_S; lag += FINE_S) {
        better(&best, lag, worst_at(left, right, lag));
    }
    return best;
}

static double total_of(const struct sim_steps *steps)
{
    return steps->count > 0 ? steps->y[steps->count - 1] : 0;
}

double sim_ks_distance(const struct sim_steps *left, const struct sim_steps *right)
{
    const struct sim_steps *both[2] = {left, right};
    double most = 0;
    if (!(total_of(left) > 0) || !(total_of(right) > 0)) {
        return 1;
    }
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < both[k]->count; i++) {
            double x = both[k]->x[i];
            double apart = fabs(sim_steps_at(left, x) / total_of(left) -
                                sim_steps_at(right, x) / total_of(right));
            most = apart > most ? apart : most;
        }
    }
    return most;
}

// ---- Facts

static const char *const counts[] = {"offered", "downloaded",  "activated", "ran",
                                     "failed",  "rolled_back", "current"};

#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

// The one whose `key` is the same; NULL: the other run has none.
static const json_t *like(const json_t *list, const json_t *item, const char *key)
{
    size_t index;
    const json_t *other;
    json_array_foreach(list, index, other)
    {
        if (strcmp(text_of(other, key), text_of(item, key)) == 0) {
            return other;
        }
    }
    return NULL;
}

static void value_text(const json_t *value, char out[48])
{
    if (json_is_string(value)) {
        (void)snprintf(out, 48, "%s", json_string_value(value));
    } else if (json_is_boolean(value)) {
        (void)snprintf(out, 48, "%s", json_is_true(value) ? "holds" : "broken");
    } else if (json_is_integer(value)) {
        (void)snprintf(out, 48, "%lld", (long long)json_integer_value(value));
    } else {
        (void)snprintf(out, 48, "none");
    }
}

static void fact_take(const json_t *left, const json_t *right, struct sim_fact *out)
{
    value_text(left, out->left);
    value_text(right, out->right);
    out->equal = left != NULL && json_equal(left, right) != 0;
}

static bool run_fact(const struct sim_run_files *left, const struct sim_run_files *right,
                     uint32_t at, struct sim_fact *out)
{
    static const char *const keys[] = {"outcome", "exposed", "completed", "failed"};
    if (at >= sizeof(keys) / sizeof(keys[0])) {
        return false;
    }
    (void)snprintf(out->name, sizeof(out->name), "%s", keys[at]);
    fact_take(json_object_get(left->json, keys[at]), json_object_get(right->json, keys[at]), out);
    return true;
}

static bool version_fact(const struct sim_run_files *left, const struct sim_run_files *right,
                         uint32_t at, struct sim_fact *out)
{
    const json_t *versions = json_object_get(left->json, "versions");
    const json_t *version = json_array_get(versions, at / COUNTS);
    const char *key = counts[at % COUNTS];
    if (version == NULL) {
        return false;
    }
    (void)snprintf(out->name, sizeof(out->name), "%.40s %.40s: %s", text_of(version, "task"),
                   text_of(version, "version"), key);
    const json_t *other = like(json_object_get(right->json, "versions"), version, "manifest");
    fact_take(json_object_get(version, key), json_object_get(other, key), out);
    return true;
}

static bool list_fact(const struct sim_run_files *runs[2], const char *list, const char *keys[2],
                      uint32_t at, struct sim_fact *out)
{
    const json_t *item = json_array_get(json_object_get(runs[0]->json, list), at);
    if (item == NULL) {
        return false;
    }
    (void)snprintf(out->name, sizeof(out->name), "%s %.40s: %s", list, text_of(item, keys[0]),
                   keys[1]);
    const json_t *other = like(json_object_get(runs[1]->json, list), item, keys[0]);
    fact_take(json_object_get(item, keys[1]), json_object_get(other, keys[1]), out);
    return true;
}

bool sim_fact_at(const struct sim_run_files *left, const struct sim_run_files *right, uint32_t at,
                 struct sim_fact *out)
{
    const struct sim_run_files *runs[2] = {left, right};
    memset(out, 0, sizeof(*out));
    if (run_fact(left, right, at, out)) {
        return true;
    }
    uint32_t number = 0;
    while (run_fact(left, right, number, out)) {
        number++;
    }
    at -= number;
    uint32_t versions =
        (uint32_t)(json_array_size(json_object_get(left->json, "versions")) * COUNTS);
    if (at < versions) {
        return version_fact(left, right, at, out);
    }
    at -= versions;
    uint32_t rollouts = (uint32_t)json_array_size(json_object_get(left->json, "rollouts"));
    if (at < rollouts) {
        return list_fact(runs, "rollouts", (const char *[]){"id", "state"}, at, out);
    }
    return list_fact(runs, "oracles", (const char *[]){"name", "holds"}, at - rollouts, out);
}
