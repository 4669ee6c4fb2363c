// How far two runs are apart: their curves once the lag is taken away, their latencies, and the
// facts that have no distance but are equal or not. conform_main.c calls it; any thread may, for it
// is pure.
#include "compare/compare.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

#define COARSE_S 1.0
#define FINE_S   0.02

static double end_of(const struct sim_steps *steps)
{
    return steps != NULL && steps->count > 0 ? steps->x[steps->count - 1] : 0;
}

static double total_of(const struct sim_steps *steps)
{
    return steps->count > 0 ? steps->y[steps->count - 1] : 0;
}

static double value_at(const struct sim_steps *steps, double x)
{
    return steps != NULL ? sim_steps_at(steps, x) : 0;
}

const char *sim_curves_at(const struct sim_run_files *const runs[2], uint32_t at,
                          const struct sim_steps *out[2])
{
    const struct sim_run_files *first = runs[0];
    const struct sim_run_files *second = runs[1];
    if (at < first->curve_count) {
        out[0] = &first->curves[at];
        out[1] = sim_steps_find(second->curves, second->curve_count, out[0]->name);
        return out[0]->name;
    }
    at -= first->curve_count;
    for (uint32_t i = 0; i < second->curve_count; i++) {
        out[0] = NULL;
        out[1] = &second->curves[i];
        bool alone = sim_steps_find(first->curves, first->curve_count, out[1]->name) == NULL;
        if (alone && at-- == 0) {
            return out[1]->name;
        }
    }
    return NULL;
}

// Whole seconds of a clock that is in the middle between the two of the runs, so that the order of
// the runs makes no difference.
double sim_curve_distance(const struct sim_steps *left, const struct sim_steps *right, double of,
                          double lag_s, double *out_at_s)
{
    double half_s = lag_s / 2;
    double end = fmax(end_of(left) - half_s, end_of(right) + half_s);
    double most = 0;
    base_assert(of > 0);
    *out_at_s = 0;
    for (double t = -fabs(half_s); t <= end + 1; t += 1) {
        double apart = fabs(value_at(left, t + half_s) - value_at(right, t - half_s)) / of;
        if (apart * 100 > most) {
            most = apart * 100;
            *out_at_s = t - half_s;
        }
    }
    return most;
}

double sim_curves_end(const struct sim_steps *left, const struct sim_steps *right)
{
    double most = fmax(left != NULL ? total_of(left) : 0, right != NULL ? total_of(right) : 0);
    return most > 0 ? most : 1; // none came in either
}

// Of the fleet and of its own end: the latter is never the smaller one, as long as no more came
// than there are devices.
static double worst_at(const struct sim_run_files *left, const struct sim_run_files *right,
                       double lag_s)
{
    const struct sim_run_files *runs[2] = {left, right};
    const struct sim_steps *pair[2];
    double worst = 0;
    for (uint32_t i = 0; sim_curves_at(runs, i, pair) != NULL; i++) {
        double at_s = 0;
        double of = fmin(left->devices, sim_curves_end(pair[0], pair[1]));
        worst = fmax(worst, sim_curve_distance(pair[0], pair[1], of, lag_s, &at_s));
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

struct sim_shift sim_shift_best(const struct sim_run_files *left, const struct sim_run_files *right,
                                double lag_max_s)
{
    struct sim_shift best = {0, worst_at(left, right, 0)};
    base_assert(lag_max_s >= 0);
    for (double lag = 0; lag < lag_max_s + COARSE_S; lag += COARSE_S) {
        double at = fmin(lag, lag_max_s);
        better(&best, at, worst_at(left, right, at));
        better(&best, -at, worst_at(left, right, -at));
    }
    double around = fabs(best.lag_s);
    double most = fmin(around + COARSE_S, lag_max_s);
    for (double lag = fmax(around - COARSE_S, 0); lag <= most; lag += FINE_S) {
        better(&best, lag, worst_at(left, right, lag));
        better(&best, -lag, worst_at(left, right, -lag));
    }
    return best;
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

static const char *const of_run[] = {"outcome", "exposed", "completed", "failed"};
static const char *const of_version[] = {"offered", "downloaded",  "activated", "ran",
                                         "failed",  "rolled_back", "current"};
static const char *const of_rollout[] = {"state"};
static const char *const of_oracle[] = {"holds"};

#define COUNT_OF(list) ((uint32_t)(sizeof(list) / sizeof((list)[0])))

// A list of run.json, by what its items are told apart, and what of each has to be equal.
static const struct facts_list {
    const char *name;
    const char *key;
    const char *const *facts;
    uint32_t fact_count;
} lists[] = {
    {"versions", "manifest", of_version, COUNT_OF(of_version)},
    {"rollouts", "id", of_rollout, COUNT_OF(of_rollout)},
    {"oracles", "name", of_oracle, COUNT_OF(of_oracle)},
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

// How many items before number `end` have `key` as `item` has it.
static uint32_t like_before(const json_t *list, const json_t *item, const char *key, size_t end)
{
    uint32_t count = 0;
    for (size_t i = 0; i < end; i++) {
        count += strcmp(text_of(json_array_get(list, i), key), text_of(item, key)) == 0;
    }
    return count;
}

// The one whose `key` is the same, after `skip` such ones; NULL: there is none.
static const json_t *like(const json_t *list, const json_t *item, const char *key, uint32_t skip)
{
    size_t index;
    const json_t *other;
    json_array_foreach(list, index, other)
    {
        if (strcmp(text_of(other, key), text_of(item, key)) == 0 && skip-- == 0) {
            return other;
        }
    }
    return NULL;
}

// The items of both runs, side by side: all of the first run, then those that only the second one
// has. False: there is none at this number.
static bool pair_at(const json_t *const both[2], const char *key, size_t at, const json_t *out[2])
{
    size_t first = json_array_size(both[0]);
    if (at < first) {
        out[0] = json_array_get(both[0], at);
        out[1] = like(both[1], out[0], key, like_before(both[0], out[0], key, at));
        return true;
    }
    at -= first;
    for (size_t i = 0; i < json_array_size(both[1]); i++) {
        out[0] = NULL;
        out[1] = json_array_get(both[1], i);
        uint32_t skip = like_before(both[1], out[1], key, i);
        if (like(both[0], out[1], key, skip) == NULL && at-- == 0) {
            return true;
        }
    }
    return false;
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

static bool item_fact(const struct sim_run_files *const runs[2], const struct facts_list *list,
                      uint32_t at, struct sim_fact *out)
{
    const json_t *both[2] = {json_object_get(runs[0]->json, list->name),
                             json_object_get(runs[1]->json, list->name)};
    const char *fact = list->facts[at % list->fact_count];
    const json_t *pair[2];
    if (!pair_at(both, list->key, at / list->fact_count, pair)) {
        return false;
    }
    const json_t *named = pair[0] != NULL ? pair[0] : pair[1];
    bool version = list->facts == of_version;
    (void)snprintf(out->name, sizeof(out->name), "%.40s %.40s: %s",
                   version ? text_of(named, "task") : list->name,
                   text_of(named, version ? "version" : list->key), fact);
    fact_take(json_object_get(pair[0], fact), json_object_get(pair[1], fact), out);
    return true;
}

static uint32_t facts_in(const struct sim_run_files *const runs[2], const struct facts_list *list)
{
    const json_t *both[2] = {json_object_get(runs[0]->json, list->name),
                             json_object_get(runs[1]->json, list->name)};
    const json_t *pair[2];
    uint32_t items = 0;
    while (pair_at(both, list->key, items, pair)) {
        items++;
    }
    return items * list->fact_count;
}

bool sim_fact_at(const struct sim_run_files *left, const struct sim_run_files *right, uint32_t at,
                 struct sim_fact *out)
{
    const struct sim_run_files *runs[2] = {left, right};
    memset(out, 0, sizeof(*out));
    if (at < COUNT_OF(of_run)) {
        (void)snprintf(out->name, sizeof(out->name), "%s", of_run[at]);
        fact_take(json_object_get(left->json, of_run[at]), json_object_get(right->json, of_run[at]),
                  out);
        return true;
    }
    at -= COUNT_OF(of_run);
    for (uint32_t i = 0; i < COUNT_OF(lists); i++) {
        uint32_t count = facts_in(runs, &lists[i]);
        if (at < count) {
            return item_fact(runs, &lists[i], at, out);
        }
        at -= count;
    }
    return false;
}
