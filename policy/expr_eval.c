// Evaluation of compiled expressions. Called by target.c, once per cohort and release on the
// gateway's workers, for explanations and dry runs on its control thread (svc/view/why.c,
// svc/device/preview.c, svc/device/reach.c); depends on the arguments alone. One pass over the code
// with a stack that the compiler has bounded. An attribute that is missing or of a type that cannot
// be compared is unknown, and Kleene's && and || carry that on, so a `not` never makes it true.
#include "policy/expr_program.h"

#include "policy/glob.h"
#include "policy/stat/assert.h"

#include <string.h>

struct outcome {
    enum pol_truth truth;
    uint32_t test;
};

static const struct pol_value *find(const struct pol_attrs *attrs, struct pol_text name)
{
    for (uint32_t i = 0; i < attrs->count; i++) {
        const struct pol_attr *attr = &attrs->items[i];
        if (attr->name.size == name.size && attr->name.data[0] == name.data[0] &&
            memcmp(attr->name.data, name.data, name.size) == 0) {
            return &attr->value;
        }
    }
    return NULL;
}

static enum pol_truth truth_of(bool holds)
{
    return holds ? POL_TRUE : POL_FALSE;
}

// The attribute as a value that can stand beside literals of `type`. Text becomes a version beside
// versions and integers. False: it cannot.
static bool read_as(const struct pol_value *value, enum pol_type type, struct pol_value *out)
{
    if (value->type == type) {
        *out = *value;
        return true;
    }
    bool versions = type == POL_TYPE_VERSION || type == POL_TYPE_INTEGER;
    if (!versions || value->type != POL_TYPE_STRING) {
        return false;
    }
    out->type = POL_TYPE_VERSION;
    return pol_semver_parse(value->text.data, value->text.size, &out->version);
}

// <0, 0, >0; texts and booleans: 0 or not. `value` went through read_as.
static int compare(const struct pol_value *value, const struct pol_value *literal)
{
    pol_assert(value->type == literal->type ||
               (value->type == POL_TYPE_VERSION && literal->type == POL_TYPE_INTEGER));
    switch (literal->type) {
    case POL_TYPE_STRING: {
        uint32_t size = literal->text.size;
        return value->text.size != size ||
               (size > 0 && memcmp(value->text.data, literal->text.data, size) != 0);
    }
    case POL_TYPE_BOOLEAN:
        return value->boolean != literal->boolean;
    case POL_TYPE_VERSION:
        return pol_semver_compare(&value->version, &literal->version);
    case POL_TYPE_INTEGER:
    case POL_TYPE_COUNT:
        break;
    }
    if (value->type == POL_TYPE_INTEGER) {
        return (value->integer > literal->integer) - (value->integer < literal->integer);
    }
    // A version beside N is beside N.0.0; every version is above a negative number.
    if (literal->integer < 0) {
        return 1;
    }
    if (literal->integer > UINT32_MAX) {
        return -1;
    }
    struct pol_semver whole = {.numbers = {(uint32_t)literal->integer, 0, 0, 0}};
    return pol_semver_compare(&value->version, &whole);
}

static bool in_set(const struct pol_value *value, const struct pol_value *literals, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (compare(value, &literals[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool holds(const struct pol_test *test, const struct pol_value *value,
                  const struct pol_value *literals)
{
    bool range = test->op == POL_TEST_RANGE || test->op == POL_TEST_NOT_RANGE;
    pol_assert(test->literal_count >= (range ? 2 : 1));
    switch ((enum pol_test_op)test->op) {
    case POL_TEST_EQ:
        return compare(value, literals) == 0;
    case POL_TEST_NE:
        return compare(value, literals) != 0;
    case POL_TEST_LT:
        return compare(value, literals) < 0;
    case POL_TEST_LE:
        return compare(value, literals) <= 0;
    case POL_TEST_GT:
        return compare(value, literals) > 0;
    case POL_TEST_GE:
        return compare(value, literals) >= 0;
    case POL_TEST_IN:
        return in_set(value, literals, test->literal_count);
    case POL_TEST_NOT_IN:
        return !in_set(value, literals, test->literal_count);
    case POL_TEST_RANGE:
        return compare(value, literals) >= 0 && compare(value, literals + 1) <= 0;
    case POL_TEST_NOT_RANGE:
        return compare(value, literals) < 0 || compare(value, literals + 1) > 0;
    case POL_TEST_LIKE:
    case POL_TEST_NOT_LIKE:
        return pol_glob_match(literals->text.data, literals->text.size, value->text.data,
                              value->text.size) == (test->op == POL_TEST_LIKE);
    case POL_TEST_HAS:
        break;
    }
    return false;
}

static enum pol_truth eval_test(const struct pol_expr *expr, const struct pol_test *test,
                                const struct pol_attrs *attrs)
{
    const struct pol_value *value = find(attrs, test->attr);
    if (test->op == POL_TEST_HAS) {
        return truth_of(value != NULL);
    }
    if (value == NULL) {
        return POL_UNKNOWN;
    }
    pol_assert(test->literal + test->literal_count <= expr->literal_count);
    const struct pol_value *literals = &expr->literals[test->literal];
    struct pol_value read;
    if (!read_as(value, literals->type, &read)) {
        return POL_UNKNOWN;
    }
    return truth_of(holds(test, &read, literals));
}

// Kleene's `&&`, and `||` as its mirror: `strong` decides alone, then unknown, then the other.
static struct outcome combine(struct outcome left, struct outcome right, enum pol_truth strong)
{
    if (left.truth == strong) {
        return left;
    }
    if (right.truth == strong || left.truth != POL_UNKNOWN) {
        return right;
    }
    return left;
}

enum pol_truth pol_expr_eval(const struct pol_expr *expr, const struct pol_attrs *attrs,
                             uint32_t *out_test)
{
    struct outcome stack[POL_EXPR_STACK_MAX];
    uint32_t depth = 0;
    struct outcome now = {POL_UNKNOWN, 0};
    for (uint32_t at = 0; at < expr->code_count;) {
        struct pol_code code = expr->code[at++];
        switch ((enum pol_code_kind)code.kind) {
        case POL_CODE_TEST:
            now = (struct outcome){eval_test(expr, &expr->tests[code.arg], attrs), code.arg};
            break;
        case POL_CODE_NOT:
            if (now.truth != POL_UNKNOWN) {
                now.truth = now.truth == POL_TRUE ? POL_FALSE : POL_TRUE;
            }
            break;
        case POL_CODE_AND_SKIP:
        case POL_CODE_OR_SKIP:
            if (now.truth == (code.kind == POL_CODE_AND_SKIP ? POL_FALSE : POL_TRUE)) {
                at = code.arg;
            } else {
                pol_assert(depth < POL_EXPR_STACK_MAX);
                stack[depth++] = now;
            }
            break;
        case POL_CODE_AND:
            now = combine(stack[--depth], now, POL_FALSE);
            break;
        case POL_CODE_OR:
            now = combine(stack[--depth], now, POL_TRUE);
            break;
        }
    }
    pol_assert(depth == 0); // every operand found its operator
    if (out_test != NULL) {
        *out_test = now.test;
    }
    return now.truth;
}

struct pol_text pol_expr_test_text(const struct pol_expr *expr, uint32_t index)
{
    return index < expr->test_count ? expr->tests[index].text : (struct pol_text){NULL, 0};
}

struct pol_text pol_expr_test_attr(const struct pol_expr *expr, uint32_t index)
{
    return index < expr->test_count ? expr->tests[index].attr : (struct pol_text){NULL, 0};
}

struct pol_text pol_expr_text(const struct pol_expr *expr)
{
    return (struct pol_text){expr->text, expr->text_size};
}
