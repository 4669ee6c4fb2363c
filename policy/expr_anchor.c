// Anchors: which values of which attribute a device must have to match at all. Called when the
// gateway builds its index of releases.
//
// For every part of the expression two necessary conditions are kept, one for it being true and one
// for it being false; `!` swaps them. Of `a && b` being true either one is necessary and the
// shorter is kept; of `a || b` only the union is, which can be given when both are on the same
// attribute and their literals are neighbours (os == "a" || os == "b").
#include "policy/expr_program.h"

#include "policy/stat/assert.h"

#include <string.h>

struct anchor {
    const struct pol_test *test; // NULL: none
    uint32_t literal;
    uint32_t count;
};

struct anchors {
    struct anchor when_true;
    struct anchor when_false;
};

static struct anchors anchors_of(const struct pol_expr *expr, const struct pol_test *test)
{
    struct anchors none = {{NULL, 0, 0}, {NULL, 0, 0}};
    if (test->literal_count == 0 || expr->literals[test->literal].type == POL_TYPE_VERSION) {
        return none;
    }
    struct anchor anchor = {test, test->literal, test->literal_count};
    if (test->op == POL_TEST_EQ || test->op == POL_TEST_IN) {
        return (struct anchors){anchor, none.when_false};
    }
    if (test->op == POL_TEST_NE || test->op == POL_TEST_NOT_IN) {
        return (struct anchors){none.when_true, anchor};
    }
    return none;
}

// Booleans tell fewer devices apart than texts and numbers do.
static uint32_t cost(const struct pol_expr *expr, struct anchor anchor)
{
    bool boolean = expr->literals[anchor.literal].type == POL_TYPE_BOOLEAN;
    return 2 * anchor.count + (boolean ? 1 : 0);
}

static struct anchor shorter(const struct pol_expr *expr, struct anchor a, struct anchor b)
{
    if (a.test == NULL || b.test == NULL) {
        return a.test != NULL ? a : b;
    }
    return cost(expr, b) < cost(expr, a) ? b : a;
}

static struct anchor both(struct anchor a, struct anchor b)
{
    bool joined = a.test != NULL && b.test != NULL && a.literal + a.count == b.literal &&
                  a.test->attr.size == b.test->attr.size &&
                  memcmp(a.test->attr.data, b.test->attr.data, a.test->attr.size) == 0;
    return joined ? (struct anchor){a.test, a.literal, a.count + b.count}
                  : (struct anchor){NULL, 0, 0};
}

bool pol_expr_anchor(const struct pol_expr *expr, struct pol_anchor *out)
{
    struct anchors stack[POL_EXPR_STACK_MAX];
    uint32_t depth = 0;
    struct anchors now = {{NULL, 0, 0}, {NULL, 0, 0}};
    for (uint32_t at = 0; at < expr->code_count; at++) {
        struct pol_code code = expr->code[at];
        struct anchors left;
        switch ((enum pol_code_kind)code.kind) {
        case POL_CODE_TEST:
            now = anchors_of(expr, &expr->tests[code.arg]);
            break;
        case POL_CODE_NOT:
            now = (struct anchors){now.when_false, now.when_true};
            break;
        case POL_CODE_AND_SKIP:
        case POL_CODE_OR_SKIP:
            pol_assert(depth < POL_EXPR_STACK_MAX);
            stack[depth++] = now;
            break;
        case POL_CODE_AND:
            left = stack[--depth];
            now = (struct anchors){shorter(expr, left.when_true, now.when_true),
                                   both(left.when_false, now.when_false)};
            break;
        case POL_CODE_OR:
            left = stack[--depth];
            now = (struct anchors){both(left.when_true, now.when_true),
                                   shorter(expr, left.when_false, now.when_false)};
            break;
        }
    }
    pol_assert(depth == 0);
    if (now.when_true.test == NULL) {
        return false;
    }
    pol_assert(now.when_true.literal + now.when_true.count <= expr->literal_count);
    *out = (struct pol_anchor){
        .attr = now.when_true.test->attr,
        .values = &expr->literals[now.when_true.literal],
        .value_count = now.when_true.count,
    };
    return true;
}
