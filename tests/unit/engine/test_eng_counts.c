// What the decomposition promises: few kinds of commands, many operators on top of them.
#include "engine/engine.h"
#include "lower/op_forms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ATOMIC_MAX    61
#define OPERATORS_MIN 110

// An operator has a row for each range of opsets: counted once.
static bool seen_before(size_t index)
{
    const struct eng_operator_info *info = eng_operator(index);
    for (size_t i = 0; i < index; i++) {
        const struct eng_operator_info *other = eng_operator(i);
        if (strcmp(info->name, other->name) == 0 && strcmp(info->domain, other->domain) == 0) {
            return true;
        }
    }
    return false;
}

static void few_commands_carry_many_operators(void **state)
{
    (void)state;
    size_t distinct = 0;
    size_t by_kind[4] = {0};
    static const char *const kinds[4] = {"atomic", "transform", "composite", "control"};
    for (size_t i = 0; i < eng_operator_count(); i++) {
        if (seen_before(i)) {
            continue;
        }
        distinct++;
        for (size_t k = 0; k < 4; k++) {
            by_kind[k] += strcmp(eng_operator(i)->kind, kinds[k]) == 0;
        }
    }
    print_message("%zu operators (%zu atomic, %zu transform, %zu composite, %zu control) on %zu "
                  "atomic commands and "
                  "raster\n",
                  distinct, by_kind[0], by_kind[1], by_kind[2], by_kind[3], eng_atomic_count());
    assert_in_range(eng_atomic_count(), 1, ATOMIC_MAX);
    assert_true(distinct >= OPERATORS_MIN);
    assert_int_equal(by_kind[0] + by_kind[1] + by_kind[2] + by_kind[3], distinct);
    assert_null(eng_operator(eng_operator_count()));
    assert_null(eng_atomic_name(eng_atomic_count()));
}

static void ranges_of_one_operator_do_not_overlap(void **state)
{
    (void)state;
    for (size_t i = 0; i < eng_operator_count(); i++) {
        const struct eng_operator_info *a = eng_operator(i);
        assert_true(a->opset_min <= a->opset_max);
        for (size_t k = 0; k < i; k++) {
            const struct eng_operator_info *b = eng_operator(k);
            bool same = strcmp(a->name, b->name) == 0 && strcmp(a->domain, b->domain) == 0;
            if (same && a->opset_min <= b->opset_max && b->opset_min <= a->opset_max) {
                fail_msg("%s: opsets %d-%d and %d-%d", a->name, a->opset_min, a->opset_max,
                         b->opset_min, b->opset_max);
            }
        }
    }
}

// Without its form a node of the operator could have any attribute.
static void every_operator_has_a_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < eng_operator_count(); i++) {
        const struct eng_operator_info *info = eng_operator(i);
        if (!eng_op_form_known(info->domain, info->name)) {
            fail_msg("%s %s has no form in op_forms.c", info->domain, info->name);
        }
    }
    assert_false(eng_op_form_known("", "NoSuchOperator"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_commands_carry_many_operators),
        cmocka_unit_test(ranges_of_one_operator_do_not_overlap),
        cmocka_unit_test(every_operator_has_a_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
