// walle.np's loops, compiled for every processor and for those with AVX2, on the same numbers: the
// same results bit for bit, at every length around a vector's and in every form that has a loop of
// its own; products within rounding. Skipped where the processor has no AVX2.
#include "vm/np/np_fold.h"
#include "vm/np/np_loops.h"
#include "vm/np/np_product.h"
#include "vm/np/loops/np_vector.h"
#include "vm/np/np_wide.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#define LENGTH 131 // elements: several vectors of the smallest type and a rest
#define SPARE  (LENGTH * NP_ITEM_MAX * 2)

#if defined(__x86_64__)

static uint64_t next_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 24;
}

// Numbers of the type, among them zeros, equals, negatives, infinities and a NaN where `odd`.
static void fill(enum np_type type, uint8_t *at, size_t count, uint64_t seed, bool odd)
{
    static const double reals[] = {0.0, -0.0, 1.0, 1.5, -2.25, 7.0, 1e30, -3.0};
    for (size_t i = 0; i < count; i++) {
        uint64_t drawn = next_of(&seed);
        double real = drawn % 3 == 0 ? reals[drawn / 3 % 8] : (double)(int64_t)(drawn % 4001) / 7.0;
        real = odd && drawn % 37 == 0 ? (double)NAN : real;
        real = odd && drawn % 41 == 0 ? -(double)INFINITY : real;
        int64_t whole = (int64_t)(drawn % 201) - 100;
        switch (type) {
        case NP_BOOL:
            at[i] = drawn & 1;
            break;
        case NP_U8:
            at[i] = (uint8_t)whole;
            break;
        case NP_I32:
            ((int32_t *)(void *)at)[i] = (int32_t)whole;
            break;
        case NP_F32:
            ((float *)(void *)at)[i] = (float)real;
            break;
        case NP_F64:
            ((double *)(void *)at)[i] = real;
            break;
        default:
            ((int64_t *)(void *)at)[i] = type == NP_U64 ? whole + 100 : whole;
            break;
        }
    }
}

struct operands {
    enum np_type result;
    _Alignas(64) uint8_t to[2][SPARE];
    _Alignas(64) uint8_t left[SPARE];
    _Alignas(64) uint8_t right[SPARE];
};

// Which of two NaN comes out of a sum of them is the compiler's.
static void nan_same(uint8_t *at, enum np_type type)
{
    for (size_t i = 0; type == NP_F64 && i < SPARE / sizeof(double); i++) {
        double *value = (double *)(void *)at + i;
        *value = isnan(*value) ? (double)NAN : *value;
    }
    for (size_t i = 0; type == NP_F32 && i < SPARE / sizeof(float); i++) {
        float *value = (float *)(void *)at + i;
        *value = isnan(*value) ? NAN : *value;
    }
}

// Both loops on copies of the same memory; what they leave there is compared whole.
static void both_run(struct operands *operands, np_loop *plain, np_loop *wide, const int64_t *steps,
                     size_t count)
{
    memset(operands->to, 1, sizeof(operands->to));
    uint8_t *first[] = {operands->to[0], operands->left, operands->right};
    uint8_t *second[] = {operands->to[1], operands->left, operands->right};
    plain(first, steps, count);
    wide(second, steps, count);
    nan_same(operands->to[0], operands->result);
    nan_same(operands->to[1], operands->result);
    if (memcmp(operands->to[0], operands->to[1], SPARE) != 0) {
        fail_msg("%zu elements, steps %d %d %d: not the same", count, (int)steps[0], (int)steps[1],
                 (int)steps[2]);
    }
}

static void same_in_all_forms(struct operands *operands, np_loop *plain, np_loop *wide,
                              int64_t to_item, int64_t item)
{
    const int64_t forms[][NP_OPERANDS] = {{to_item, item, item},
                                          {to_item, item, 0},
                                          {to_item, 0, item},
                                          {2 * to_item, 2 * item, item}};
    assert_int_equal(plain == NULL, wide == NULL);
    for (size_t i = 0; plain != NULL && i < sizeof(forms) / sizeof(forms[0]); i++) {
        for (size_t count = 0; count <= LENGTH; count += count < 18 ? 1 : 113) {
            both_run(operands, plain, wide, forms[i], count);
        }
    }
}

static void test_elements(void **state)
{
    (void)state;
    static struct operands operands;
    if (!dev_np_is_wide()) {
        skip();
    }
    for (int type = 0; type < NP_TYPES; type++) {
        int64_t item = (int64_t)dev_np_item((enum np_type)type);
        fill((enum np_type)type, operands.left, 2 * LENGTH, 1, true);
        fill((enum np_type)type, operands.right, 2 * LENGTH, 2, true);
        for (int f = 0; f < NP_BINARIES; f++) {
            if (f == NP_LDEXP || (f == NP_POWER && type <= NP_U64)) {
                continue; // of whole, or of no negative numbers alone, which is seen to before
            }
            operands.result = f >= NP_EQUAL ? NP_BOOL : (enum np_type)type;
            same_in_all_forms(&operands, dev_np_binary_plain((enum np_binary)f, (enum np_type)type),
                              dev_np_binary_wide((enum np_binary)f, (enum np_type)type),
                              f >= NP_EQUAL ? 1 : item, item);
        }
        for (int f = 0; f < NP_UNARIES; f++) {
            operands.result = f >= NP_ISNAN ? NP_BOOL : (enum np_type)type;
            same_in_all_forms(&operands, dev_np_unary_plain((enum np_unary)f, (enum np_type)type),
                              dev_np_unary_wide((enum np_unary)f, (enum np_type)type),
                              f >= NP_ISNAN ? 1 : item, item);
            if (dev_np_is_wider()) {
                same_in_all_forms(&operands,
                                  dev_np_unary_plain((enum np_unary)f, (enum np_type)type),
                                  dev_np_unary_wider((enum np_unary)f, (enum np_type)type),
                                  f >= NP_ISNAN ? 1 : item, item);
            }
        }
    }
}

static void test_folds(void **state)
{
    (void)state;
    static struct operands operands;
    if (!dev_np_is_wide()) {
        skip();
    }
    for (int type = 0; type < NP_TYPES; type++) {
        int64_t item = (int64_t)dev_np_item((enum np_type)type);
        for (uint64_t seed = 1; seed < 9; seed++) {
            fill((enum np_type)type, operands.left, 2 * LENGTH, seed, seed > 4);
            for (int f = 0; f < NP_FOLDS; f++) {
                operands.result = dev_np_fold_type((enum np_fold)f, (enum np_type)type);
                int64_t wide_item = (int64_t)dev_np_item(operands.result);
                const int64_t forms[][NP_OPERANDS] = {{0, item}, {wide_item, item}, {0, 2 * item}};
                for (size_t i = 0; i < 3; i++) {
                    both_run(&operands, dev_np_fold_plain((enum np_fold)f, (enum np_type)type),
                             dev_np_fold_wide((enum np_fold)f, (enum np_type)type), forms[i],
                             LENGTH);
                }
            }
        }
    }
}

// The place of the first extreme, and of the first NaN, against a search element by element.
static void test_places(void **state)
{
    (void)state;
    static double values[1500];
    for (uint64_t seed = 1; seed < 40; seed++) {
        size_t count = 1 + (size_t)(seed * 37 % 1500);
        fill(NP_F64, (uint8_t *)values, count, seed, seed % 3 == 0);
        size_t wanted = 0;
        for (size_t i = 1; i < count && !isnan(values[wanted]); i++) {
            wanted = values[i] > values[wanted] || isnan(values[i]) ? i : wanted;
        }
        const uint8_t *from = (const uint8_t *)values;
        assert_int_equal(dev_np_places_plain(true, NP_F64)(from, 8, count), wanted);
        if (dev_np_is_wide()) {
            assert_int_equal(dev_np_places_wide(true, NP_F64)(from, 8, count), wanted);
        }
    }
}

#define ROWS    7
#define DEPTH   NP_PANEL_DEPTH
#define COLUMNS 5

static void test_tiles(void **state)
{
    (void)state;
    static double left[ROWS][DEPTH];
    _Alignas(NP_PANEL_BYTES) static double packed[DEPTH][NP_PANEL_BYTES / sizeof(double)];
    fill(NP_F64, (uint8_t *)left, (size_t)ROWS * DEPTH, 3, false);
    for (size_t k = 0; k < DEPTH; k++) {
        for (size_t j = 0; j < COLUMNS; j++) {
            packed[k][j] = (double)(k % 11) - (double)j;
        }
    }
    for (int which = 0; which < (dev_np_is_wide() ? 2 : 1); which++) {
        double to[ROWS][COLUMNS];
        memset(to, 0, sizeof(to));
        const struct np_tile tile = {(uint8_t *)to,
                                     (const uint8_t *)left,
                                     (const uint8_t *)packed,
                                     sizeof(to[0]),
                                     sizeof(left[0]),
                                     ROWS,
                                     DEPTH,
                                     COLUMNS};
        (which == 0 ? dev_np_tiles_plain : dev_np_tiles_wide)(NP_F64)(&tile);
        for (size_t i = 0; i < ROWS; i++) {
            for (size_t j = 0; j < COLUMNS; j++) {
                double sum = 0;
                double size = 1;
                for (size_t k = 0; k < DEPTH; k++) {
                    sum += left[i][k] * packed[k][j];
                    size += fabs(left[i][k] * packed[k][j]);
                }
                if (!(fabs(to[i][j] - sum) <= 1e-14 * size)) {
                    fail_msg("row %zu, column %zu: %.17g, not %.17g", i, j, to[i][j], sum);
                }
            }
        }
    }
}

static void test_casts(void **state)
{
    (void)state;
    static struct operands operands;
    if (!dev_np_is_wide()) {
        skip();
    }
    for (int from = 0; from < NP_TYPES; from++) {
        fill((enum np_type)from, operands.left, 2 * LENGTH, 5, true);
        for (int to = 0; to < NP_TYPES; to++) {
            operands.result = (enum np_type)to;
            same_in_all_forms(&operands, dev_np_casting_plain((enum np_type)to, (enum np_type)from),
                              dev_np_casting_wide((enum np_type)to, (enum np_type)from),
                              (int64_t)dev_np_item((enum np_type)to),
                              (int64_t)dev_np_item((enum np_type)from));
        }
    }
}

static void within(const char *what, double value, double made, double wanted)
{
    if (!(fabs(made - wanted) <= 1e-15 * fabs(wanted) + 1e-18)) {
        fail_msg("%s of %.17g: %.17g, not %.17g", what, value, made, wanted);
    }
}

// The sums and products beside the C library, over all they are asked for.
static void test_vectors(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int i = 0; i < 200000; i++) {
        double part = (double)(next_of(&seed) & 0xffffffff) / 4294967296.0 - 0.5;
        double scale = i % 2 == 0 ? 1 : 0.001;
        within("exp", 1399 * scale * part, np_exp(1399 * scale * part), exp(1399 * scale * part));
        within("sin", 199999 * scale * part, np_turned(199999 * scale * part, 0),
               sin(199999 * scale * part));
        within("cos", 20 * part, np_turned(20 * part, 1), cos(20 * part));
        double positive = ldexp(part + 0.75, i % 2000 - 1000);
        within("log", positive, np_log(positive), log(positive));
        within("log", 1 + part, np_log(1 + part), log(1 + part));
    }
}

// What is out of reach of them is the C library's, alone among others that are not.
static void test_vectors_far(void **state)
{
    (void)state;
    static const enum np_unary functions[] = {NP_EXP, NP_LOG, NP_SIN, NP_COS, NP_TANH};
    static const double odd[] = {-0.0, 0.0, 750, -750,     1e300,    1e-310,
                                 -5,   3e5, NAN, INFINITY, -INFINITY};
    for (size_t f = 0; f < sizeof(functions) / sizeof(functions[0]); f++) {
        double values[300];
        for (size_t i = 0; i < 300; i++) {
            values[i] = i % 13 < 11 ? odd[i % 13] : 1.5;
        }
        const double given[] = {odd[0], odd[1], odd[2], odd[3], odd[4],  odd[5],
                                odd[6], odd[7], odd[8], odd[9], odd[10], 1.5};
        uint8_t *at[] = {(uint8_t *)values, (uint8_t *)values};
        const int64_t steps[] = {8, 8};
        dev_np_unary_loop(functions[f], NP_F64)(at, steps, 300);
        for (size_t i = 0; i < 12; i++) {
            double (*const library[])(double) = {exp, log, sin, cos, tanh};
            double wanted = library[f](given[i]);
            double made = values[i == 11 ? 11 : i];
            assert_int_equal(isnan(made), isnan(wanted));
            if (!isnan(wanted) && made != wanted) {
                assert_int_equal(signbit(made) != 0, signbit(wanted) != 0);
                within("odd", given[i], made, wanted);
            }
            assert_true(isnan(wanted) || (signbit(made) != 0) == (signbit(wanted) != 0));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),   cmocka_unit_test(test_folds),
        cmocka_unit_test(test_places),     cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_casts),      cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_vectors_far)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 0; // there are no loops of another kind here
}
#endif
