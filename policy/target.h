// Eligibility: does a device with these attributes belong to this audience?
//
// A target is a conjunction of typed conditions on named attributes. No conditions: everybody. An
// absent attribute fails every condition except ABSENT (NE and NOT_IN included: what is not known
// is not assumed). LT, LE, GT and GE are defined for INTEGER and VERSION only; all operands of a
// condition have one type. Beside the conditions there may be an expression of the targeting
// language (policy/expr.h); then a device belongs when all conditions hold and the expression is
// true. The caller owns all memory; nothing is kept.
#ifndef POL_TARGET_H
#define POL_TARGET_H

#include "policy/reason.h"
#include "policy/semver.h"

#define POL_TARGET_CONDS_MAX    32u
#define POL_TARGET_OPERANDS_MAX 256u

enum pol_type {
    POL_TYPE_STRING,
    POL_TYPE_INTEGER,
    POL_TYPE_VERSION, // as an operand: the attribute, a string, is parsed as a semantic version
    POL_TYPE_BOOLEAN,
    POL_TYPE_COUNT
};

struct pol_text {
    const char *data;
    uint32_t size;
};

struct pol_value {
    enum pol_type type;
    union {
        struct pol_text text;
        int64_t integer;
        struct pol_semver version;
        bool boolean;
    };
};

struct pol_attr {
    struct pol_text name;
    struct pol_value value; // STRING, INTEGER or BOOLEAN
};

struct pol_attrs {
    const struct pol_attr *items;
    uint32_t count;
};

enum pol_op {
    POL_OP_EQ,
    POL_OP_NE,
    POL_OP_LT,
    POL_OP_LE,
    POL_OP_GT,
    POL_OP_GE,
    POL_OP_IN,
    POL_OP_NOT_IN,
    POL_OP_PRESENT,
    POL_OP_ABSENT,
    POL_OP_COUNT
};

struct pol_cond {
    struct pol_text attr;
    enum pol_op op;
    const struct pol_value *operands; // 1 for comparisons, 1.. for IN/NOT_IN, 0 for PRESENT/ABSENT
    uint32_t operand_count;
};

struct pol_expr;

struct pol_target {
    const struct pol_cond *conds;
    uint32_t cond_count;
    const struct pol_expr *expr; // NULL: none
};

struct pol_match {
    bool matched;
    enum pol_reason reason;
    // What decided when matched is false: the condition, or with EXPR_FALSE and EXPR_UNKNOWN the
    // test of the expression.
    uint32_t cond_index;
};

struct pol_match pol_target_match(const struct pol_target *target, const struct pol_attrs *attrs);

// Is the target well formed (counts, operators defined for their types)? MATCHED when it is;
// otherwise the reason, with the condition's index in *out_cond_index.
enum pol_reason pol_target_check(const struct pol_target *target, uint32_t *out_cond_index);

// A necessary condition for an index: every matching device has `attr` equal, as `==` of the
// language has it, to one of `values`; a text attribute may be the version N.0.0 of an INTEGER. The
// shortest list is given, borrowed from the target. False: there is none, and *out has no values.
struct pol_anchor {
    struct pol_text attr;
    const struct pol_value *values; // STRING, INTEGER or BOOLEAN
    uint32_t value_count;
};
bool pol_target_anchor(const struct pol_target *target, struct pol_anchor *out);
// Might one device match both? False only when it is certain that none can: both need the same
// attribute, and no value that one of them lists is in the other's list.
bool pol_targets_meet(const struct pol_target *a, const struct pol_target *b);

#endif
