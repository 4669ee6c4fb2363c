// Evidence and verdicts of the sequential tests: numbers from an independent computation, what they
// promise about errors (by simulation and by exact enumeration), monotonicity and extreme counts.
#include "test_kit.h"

#include <math.h>

#include "policy/stat/evidence.h"
#include "policy/stat/sequential.h"

// ---- Numbers computed from the definitions in 40 digits ----

struct two_row {
    uint32_t n1;
    uint32_t f1;
    uint32_t n0;
    uint32_t f0;
    double rise;
    double above;
    double below;
};

static const struct two_row two_rows[] = {
    {10, 1, 10, 0, 0, -0.458388379, -0.985001320},
    {40, 8, 40, 1, 0, 1.159887677, -2.606375676},
    {40, 8, 40, 1, 0.05, -0.020691418, -2.378403844},
    {100, 3, 400, 2, 0, 1.062200219, -1.961530913},
    {100, 3, 400, 2, 0.005, 0.359799617, -1.821174383},
    {200, 0, 200, 0, 0.02, -1.895326270, 3.080134396},
    {500, 2, 500, 3, 0.02, -3.041174136, 4.788881010},
    {1000, 20, 1000, 5, 0, 2.361593309, -3.632619094},
    {1000, 5, 1000, 20, 0.01, -4.358952950, 9.044854146},
    {3, 3, 0, 0, 0, -0.947384695, -1.550390132},
    {50, 50, 50, 0, 0, 30.650272605, -6.356630256},
    {1000, 5, 10000, 60, 0.03, -8.382551099, 18.727140699},
    {0, 0, 50, 2, 0.01, -0.955576517, -2.518601612},
    {30, 0, 10, 9, 0.1, -3.484323785, 6.352834087},
    {2000, 9, 500, 3, 0.002, -2.669037409, -1.769770216},
    {300, 30, 300, 4, -0.01, 10.885680174, -4.776824271},
};

struct one_row {
    uint32_t n;
    uint32_t f;
    double limit;
    double over;
    double under;
    double differs;
};

static const struct one_row one_rows[] = {
    {10, 0, 0.02, -0.680630436, 0.131303987, -1.534125223},
    {10, 3, 0.02, 4.194945762, -1.711129492, 4.363683348},
    {1000, 35, 0.02, 2.872660649, -3.719492524, 1.020952791},
    {1000, 5, 0.02, -3.731464022, 6.682043373, 4.494634532},
    {200, 0, 0.02, -2.124006509, 3.203188150, 0.818392838},
    {100000, 2100, 0.02, -1.951473771, -20.470290983, -3.471892659},
    {50, 50, 0.5, 32.624302802, -4.710671537, 32.126482624},
    {1, 1, 0.000001, 3.410507861, -1.023912148, 13.122363377},
};

static struct pol_arm arm(double trials, double failures)
{
    return (struct pol_arm){.events = failures, .exposure = trials};
}

static void near(const char *what, size_t row, double found, double expected)
{
    if (!(fabs(found - expected) < 1e-4)) {
        fail_msg("row %zu: %s is %.6f, not %.6f", row, what, found, expected);
    }
}

static void evidence_against_known_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(two_rows); i++) {
        const struct two_row *row = &two_rows[i];
        struct pol_arm updated = arm(row->n1, row->f1);
        struct pol_arm control = arm(row->n0, row->f0);
        near("above", i, pol_evidence_above(updated, control, row->rise, 1), row->above);
        near("below", i, pol_evidence_below(updated, control, row->rise, 1), row->below);
    }
    for (size_t i = 0; i < TEST_COUNT(one_rows); i++) {
        const struct one_row *row = &one_rows[i];
        near("over", i, pol_evidence_over(arm(row->n, row->f), row->limit), row->over);
        near("under", i, pol_evidence_under(arm(row->n, row->f), row->limit), row->under);
        near("differs", i, pol_evidence_differs(arm(row->n, row->f), row->limit), row->differs);
    }
}

// ---- Exact error rates: the chance of ever crossing, by enumeration ----

// Whoever looks after every device crosses 1/alpha with probability at most alpha. Enumerates all
// paths of two arms in a given order of completion: reach[f1][f0] is the probability of being there
// without having crossed.
#define PATH_FAILURES 48

struct path {
    double p1;
    double p0;
    double rise; // asked about
    double bar;
    bool above;
    const char *order; // repeated: 'u' an updated device, 'c' a control device
    uint32_t length;
};

static bool crossed(const struct path *path, uint32_t n1, uint32_t f1, uint32_t n0, uint32_t f0)
{
    struct pol_arm updated = arm(n1, f1);
    struct pol_arm control = arm(n0, f0);
    double evidence = path->above ? pol_evidence_above(updated, control, path->rise, 1)
                                  : pol_evidence_below(updated, control, path->rise, 1);
    return evidence >= path->bar;
}

static double crossing(const struct path *path)
{
    static double reach[PATH_FAILURES + 1][PATH_FAILURES + 1];
    memset(reach, 0, sizeof(reach));
    reach[0][0] = 1;
    double crossing = 0;
    uint32_t n[2] = {0, 0};
    size_t orders = strlen(path->order);
    for (uint32_t i = 0; i < path->length; i++) {
        bool updated = path->order[i % orders] == 'u';
        n[updated]++;
        double p = updated ? path->p1 : path->p0;
        for (uint32_t f1 = PATH_FAILURES + 1; f1-- > 0;) {
            for (uint32_t f0 = PATH_FAILURES + 1; f0-- > 0;) {
                uint32_t before1 = f1 - (updated ? 1 : 0);
                uint32_t before0 = f0 - (updated ? 0 : 1);
                bool possible = before1 <= PATH_FAILURES && before0 <= PATH_FAILURES;
                double here =
                    reach[f1][f0] * (1 - p) + (possible ? reach[before1][before0] * p : 0);
                if (here > 1e-12 && crossed(path, n[1], f1, n[0], f0)) {
                    crossing += here;
                    here = 0;
                }
                reach[f1][f0] = here;
            }
        }
    }
    return crossing;
}

// The enumeration looks at f1, f0 in falling order, so that reach[before] is still the old value.
static void never_crosses_too_often(void **state)
{
    (void)state;
    static const char *const orders[] = {"uc", "uccc", "uuuc",
                                         "cccccccccccccccccccuuuuuuuuuuuuuuuuuuuu"};
    static const double rates[] = {0.002, 0.02, 0.1};
    for (size_t o = 0; o < TEST_COUNT(orders); o++) {
        for (size_t r = 0; r < TEST_COUNT(rates); r++) {
            double p = rates[r];
            double bar = log(1 / 0.05);
            struct path rows[] = {
                {p, p, 0, bar, true, orders[o], 160},
                {p + 0.02, p, 0.02, bar, true, orders[o], 160},
                {p + 0.05, p, 0.05, log(10), false, orders[o], 160},
                {p / 2, p, 0, bar, true, orders[o], 80}, // inside the null, not at its border
            };
            for (size_t i = 0; i < TEST_COUNT(rows); i++) {
                double found = crossing(&rows[i]);
                if (!(found <= exp(-rows[i].bar))) {
                    fail_msg("order %s, rate %g, row %zu: crosses with %.5f", orders[o], p, i,
                             found);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evidence_against_known_numbers),
        cmocka_unit_test(never_crosses_too_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
