// Evaluation of targets: typed conditions on attributes.
//
// Called by the gateway once per (cohort, target) and by the simulator's own checks; answers depend
// on the arguments alone. Order is defined for integers and versions only: text has no order that
// people agree on ("9" and "10"), so asking for one is a malformed target.
#include "policy/target.h"

#include "policy/stat/assert.h"

#include "policy/expr.h"

#include <stddef.h>
#include <string.h>

enum comparison {
    COMPARE_LESS,
    COMPARE_EQUAL,
    COMPARE_GREATER,
    COMPARE_OTHER, // comparable for equality only, and not equal
    COMPARE_IMPOSSIBLE
};

static bool text_equal(struct pol_text a, struct pol_text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static const struct pol_value *find(const struct pol_attrs *attrs, struct pol_text name)
{
    for (uint32_t i = 0; i < attrs->count; i++) {
        if (text_equal(attrs->items[i].name, name)) {
            return &attrs->items[i].value;
        }
    }
    return NULL;
}

static enum comparison order_of(int64_t difference_sign)
{
    if (difference_sign == 0) {
        return COMPARE_EQUAL;
    }
    return difference_sign < 0 ? COMPARE_LESS : COMPARE_GREATER;
}

static enum comparison compare_version(const struct pol_value *attr,
                                       const struct pol_semver *wanted)
{
    if (attr->type == POL_TYPE_VERSION) {
        return order_of(pol_semver_compare(&attr->version, wanted));
    }
    struct pol_semver version;
    if (attr->type != POL_TYPE_STRING ||
        !pol_semver_parse(attr->text.data, attr->text.size, &version)) {
        return COMPARE_IMPOSSIBLE;
    }
    return order_of(pol_semver_compare(&version, wanted));
}

static enum comparison compare(const struct pol_value *attr, const struct pol_value *operand)
{
    if (operand->type == POL_TYPE_VERSION) {
        return compare_version(attr, &operand->version);
    }
    if (attr->type != operand->type) {
        return COMPARE_IMPOSSIBLE;
    }
    switch (operand->type) {
    case POL_TYPE_STRING:
        return text_equal(attr->text, operand->text) ? COMPARE_EQUAL : COMPARE_OTHER;
    case POL_TYPE_INTEGER:
        return order_of((attr->integer > operand->integer) - (attr->integer < operand->integer));
    case POL_TYPE_BOOLEAN:
        return attr->boolean == operand->boolean ? COMPARE_EQUAL : COMPARE_OTHER;
    case POL_TYPE_VERSION:
    case POL_TYPE_COUNT:
        break;
    }
    return COMPARE_IMPOSSIBLE;
}

static bool is_ordering(enum pol_op op)
{
    return op == POL_OP_LT || op == POL_OP_LE || op == POL_OP_GT || op == POL_OP_GE;
}

static bool is_ordered(enum pol_type type)
{
    return type == POL_TYPE_INTEGER || type == POL_TYPE_VERSION;
}

// Is the condition well formed? MATCHED when it is.
static enum pol_reason check_cond(const struct pol_cond *cond)
{
    if ((unsigned)cond->op >= POL_OP_COUNT) {
        return POL_REASON_BAD_OPERATOR;
    }
    if (cond->attr.size == 0) {
        return POL_REASON_ATTRIBUTE_MISSING;
    }
    if (cond->op == POL_OP_PRESENT || cond->op == POL_OP_ABSENT) {
        return cond->operand_count == 0 ? POL_REASON_MATCHED : POL_REASON_BAD_OPERATOR;
    }
    if (cond->operand_count == 0 || cond->operands == NULL) {
        return POL_REASON_NO_OPERAND;
    }
    bool set = cond->op == POL_OP_IN || cond->op == POL_OP_NOT_IN;
    if (!set && cond->operand_count != 1) {
        return POL_REASON_BAD_OPERATOR;
    }
    if (cond->operand_count > POL_TARGET_OPERANDS_MAX) {
        return POL_REASON_TOO_MANY_CONDITIONS;
    }
    enum pol_type type = cond->operands[0].type;
    if ((unsigned)type >= POL_TYPE_COUNT || (is_ordering(cond->op) && !is_ordered(type))) {
        return POL_REASON_BAD_OPERATOR;
    }
    for (uint32_t i = 1; i < cond->operand_count; i++) {
        if (cond->operands[i].type != type) {
            return POL_REASON_TYPE_MISMATCH;
        }
    }
    pol_assert(cond->operand_count == 1 || !is_ordering(cond->op)); // an order is to one
    return POL_REASON_MATCHED;
}

static enum pol_reason verdict(bool holds)
{
    return holds ? POL_REASON_MATCHED : POL_REASON_CONDITION_FALSE;
}

static enum pol_reason match_set(const struct pol_cond *cond, const struct pol_value *attr)
{
    pol_assert(cond->operand_count <= POL_TARGET_OPERANDS_MAX); // check_cond saw it
    bool found = false;
    for (uint32_t i = 0; i < cond->operand_count && !found; i++) {
        enum comparison order = compare(attr, &cond->operands[i]);
        if (order == COMPARE_IMPOSSIBLE) {
            return POL_REASON_TYPE_MISMATCH;
        }
        found = order == COMPARE_EQUAL;
    }
    return verdict(found == (cond->op == POL_OP_IN));
}

static enum pol_reason match_comparison(const struct pol_cond *cond, const struct pol_value *attr)
{
    pol_assert(cond->operand_count == 1);
    enum comparison order = compare(attr, &cond->operands[0]);
    if (order == COMPARE_IMPOSSIBLE) {
        return POL_REASON_TYPE_MISMATCH;
    }
    switch (cond->op) {
    case POL_OP_EQ:
        return verdict(order == COMPARE_EQUAL);
    case POL_OP_NE:
        return verdict(order != COMPARE_EQUAL);
    case POL_OP_LT:
        return verdict(order == COMPARE_LESS);
    case POL_OP_LE:
        return verdict(order != COMPARE_GREATER);
    case POL_OP_GT:
        return verdict(order == COMPARE_GREATER);
    case POL_OP_GE:
        return verdict(order != COMPARE_LESS);
    default:
        return POL_REASON_BAD_OPERATOR;
    }
}

// MATCHED when the condition holds, else the reason why not.
static enum pol_reason match_cond(const struct pol_cond *cond, const struct pol_attrs *attrs)
{
    enum pol_reason formed = check_cond(cond);
    if (formed != POL_REASON_MATCHED) {
        return formed;
    }
    const struct pol_value *attr = find(attrs, cond->attr);
    if (cond->op == POL_OP_ABSENT) {
        return verdict(attr == NULL);
    }
    if (attr == NULL) {
        return POL_REASON_ATTRIBUTE_MISSING;
    }
    if (cond->op == POL_OP_PRESENT) {
        return POL_REASON_MATCHED;
    }
    if (cond->op == POL_OP_IN || cond->op == POL_OP_NOT_IN) {
        return match_set(cond, attr);
    }
    return match_comparison(cond, attr);
}

static struct pol_match match_expr(const struct pol_expr *expr, const struct pol_attrs *attrs)
{
    uint32_t test = 0;
    enum pol_truth truth = pol_expr_eval(expr, attrs, &test);
    if (truth == POL_TRUE) {
        return (struct pol_match){.matched = true, .reason = POL_REASON_MATCHED};
    }
    return (struct pol_match){
        .reason = truth == POL_FALSE ? POL_REASON_EXPR_FALSE : POL_REASON_EXPR_UNKNOWN,
        .cond_index = test,
    };
}

struct pol_match pol_target_match(const struct pol_target *target, const struct pol_attrs *attrs)
{
    if (target->cond_count == 0 && target->expr == NULL) {
        return (struct pol_match){.matched = true, .reason = POL_REASON_NO_CONDITIONS};
    }
    if (target->cond_count > POL_TARGET_CONDS_MAX) {
        return (struct pol_match){.reason = POL_REASON_TOO_MANY_CONDITIONS};
    }
    for (uint32_t i = 0; i < target->cond_count; i++) {
        enum pol_reason reason = match_cond(&target->conds[i], attrs);
        if (reason != POL_REASON_MATCHED) {
            return (struct pol_match){.reason = reason, .cond_index = i};
        }
    }
    return target->expr != NULL ? match_expr(target->expr, attrs)
                                : (struct pol_match){.matched = true, .reason = POL_REASON_MATCHED};
}

enum pol_reason pol_target_check(const struct pol_target *target, uint32_t *out_cond_index)
{
    *out_cond_index = 0;
    if (target->cond_count > POL_TARGET_CONDS_MAX) {
        return POL_REASON_TOO_MANY_CONDITIONS;
    }
    for (uint32_t i = 0; i < target->cond_count; i++) {
        enum pol_reason reason = check_cond(&target->conds[i]);
        if (reason != POL_REASON_MATCHED) {
            *out_cond_index = i;
            return reason;
        }
    }
    return POL_REASON_MATCHED;
}

bool pol_target_anchor(const struct pol_target *target, struct pol_anchor *out)
{
    *out = (struct pol_anchor){.value_count = 0};
    bool there = target->expr != NULL && pol_expr_anchor(target->expr, out);
    for (uint32_t i = 0; i < target->cond_count; i++) {
        const struct pol_cond *cond = &target->conds[i];
        bool equality = cond->op == POL_OP_EQ || cond->op == POL_OP_IN;
        if (equality && cond->operand_count > 0 && cond->operands[0].type != POL_TYPE_VERSION &&
            (!there || cond->operand_count < out->value_count)) {
            *out = (struct pol_anchor){cond->attr, cond->operands, cond->operand_count};
            there = true;
        }
    }
    return there;
}

// Values of two types may be one device's: the text 9.0.0 is 9 as well.
static bool may_be_same(const struct pol_value *a, const struct pol_value *b)
{
    if (a->type != b->type) {
        return true;
    }
    switch (a->type) {
    case POL_TYPE_STRING:
        return text_equal(a->text, b->text);
    case POL_TYPE_INTEGER:
        return a->integer == b->integer;
    case POL_TYPE_BOOLEAN:
        return a->boolean == b->boolean;
    case POL_TYPE_VERSION:
    case POL_TYPE_COUNT:
        break;
    }
    return true;
}

bool pol_targets_meet(const struct pol_target *a, const struct pol_target *b)
{
    struct pol_anchor left;
    struct pol_anchor right;
    if (!pol_target_anchor(a, &left) || !pol_target_anchor(b, &right) ||
        !text_equal(left.attr, right.attr)) {
        return true;
    }
    for (uint32_t i = 0; i < left.value_count; i++) {
        for (uint32_t k = 0; k < right.value_count; k++) {
            if (may_be_same(&left.values[i], &right.values[k])) {
                return true;
            }
        }
    }
    return false;
}
