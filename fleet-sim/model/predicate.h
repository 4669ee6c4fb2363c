// Predicates in text, for the command line: `os == android && os_version < 12 && ram_mb in
// [2048, 3072]`.
//
//   predicate := "all" | cond { ("&&" | "and") cond }
//   cond      := name op value | name ("in" | "not_in") "[" value { "," value } "]"
//              | name ("present" | "absent")
//   op        := == | != | < | <= | > | >=
//   value     := word | "quoted text" | number | version | true | false
// The meaning is policy/target.h's. A value's type follows the attribute where it is a well-known
// one (versions compare as versions, ram_mb as a number), else its spelling.
#ifndef SIM_PREDICATE_H
#define SIM_PREDICATE_H

#include "base/error.h"
#include "base/str.h"
#include "policy/target.h"

#define SIM_PREDICATE_CONDS_MAX    8
#define SIM_PREDICATE_OPERANDS_MAX 64
#define SIM_PREDICATE_TEXT_MAX     512

// Holds its own text: conditions point into it, so it must not be moved after the parse.
struct sim_predicate {
    char text[SIM_PREDICATE_TEXT_MAX];
    struct pol_cond conds[SIM_PREDICATE_CONDS_MAX];
    struct pol_value operands[SIM_PREDICATE_OPERANDS_MAX];
    uint32_t cond_count;
    uint32_t operand_count;
};

// INVALID and TOO_LARGE with the column (1-based) in `error`.
BASE_NODISCARD enum base_status sim_predicate_parse(struct base_str text, struct sim_predicate *out,
                                                    struct base_error *error);
bool sim_predicate_match(const struct sim_predicate *predicate, const struct pol_attrs *attrs);

#endif
