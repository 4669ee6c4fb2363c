// Parser of predicates: a small recursive-free scanner over one line. Called while options are
// read, on the main thread. fleet_options.c calls it for --where and --target, bad_release.c for
// the left side of a rule. Matching is done by the shards and changes nothing. Bounds:
// SIM_PREDICATE_CONDS_MAX conditions, SIM_PREDICATE_OPERANDS_MAX values, SIM_PREDICATE_TEXT_MAX
// bytes; the caller gets the column of what it could not read.
#include "model/predicate.h"

#include "model/population.h"

#include <string.h>

struct scanner {
    struct sim_predicate *out;
    const char *at;
    const char *end;
    struct base_error *error;
};

static enum base_status fail(struct scanner *scan, const char *at, enum base_status status,
                             const char *what)
{
    (void)base_error_set(scan->error, status, "%s", what);
    if (scan->error != NULL) {
        scan->error->line = 1;
        scan->error->column = (uint32_t)(at - scan->out->text) + 1;
    }
    return status;
}

static void skip_blanks(struct scanner *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t')) {
        scan->at++;
    }
}

static bool is_word(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_' || letter == '.' || letter == '-' ||
           letter == '+' || letter == '/';
}

static struct base_str word(struct scanner *scan)
{
    skip_blanks(scan);
    const char *start = scan->at;
    while (scan->at < scan->end && is_word(*scan->at)) {
        scan->at++;
    }
    return (struct base_str){start, (size_t)(scan->at - start)};
}

static bool take(struct scanner *scan, const char *token)
{
    skip_blanks(scan);
    size_t size = strlen(token);
    if ((size_t)(scan->end - scan->at) < size || memcmp(scan->at, token, size) != 0) {
        return false;
    }
    scan->at += size;
    return true;
}

// Type of an operand: the well-known attribute's own, or POL_TYPE_COUNT when the spelling decides.
static enum pol_type known_type(struct pol_text attr)
{
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        const char *name = sim_trait_name((enum sim_trait)i);
        if (strlen(name) == attr.size && memcmp(name, attr.data, attr.size) == 0) {
            return sim_trait_type((enum sim_trait)i);
        }
    }
    return POL_TYPE_COUNT;
}

static enum pol_type spelled_type(struct base_str text)
{
    int64_t ignored;
    struct pol_semver version;
    if (base_str_equal(text, BASE_STR("true")) || base_str_equal(text, BASE_STR("false"))) {
        return POL_TYPE_BOOLEAN;
    }
    if (base_str_i64(text, &ignored) == BASE_OK) {
        return POL_TYPE_INTEGER;
    }
    if (memchr(text.data, '.', text.size) != NULL &&
        pol_semver_parse(text.data, (uint32_t)text.size, &version)) {
        return POL_TYPE_VERSION;
    }
    return POL_TYPE_STRING;
}

static enum base_status operand(struct scanner *scan, struct pol_text attr)
{
    skip_blanks(scan);
    const char *start = scan->at;
    bool quoted = take(scan, "\"");
    struct base_str text;
    if (quoted) {
        const char *close = memchr(scan->at, '"', (size_t)(scan->end - scan->at));
        if (close == NULL) {
            return fail(scan, start, BASE_ERR_INVALID, "text is not closed with a quote");
        }
        text = (struct base_str){scan->at, (size_t)(close - scan->at)};
        scan->at = close + 1;
    } else {
        text = word(scan);
        if (text.size == 0) {
            return fail(scan, start, BASE_ERR_INVALID, "a value is expected here");
        }
    }
    if (scan->out->operand_count == SIM_PREDICATE_OPERANDS_MAX) {
        return fail(scan, start, BASE_ERR_TOO_LARGE, "too many values");
    }
    struct pol_value *value = &scan->out->operands[scan->out->operand_count];
    value->type = known_type(attr);
    if (value->type == POL_TYPE_COUNT) {
        value->type = quoted ? POL_TYPE_STRING : spelled_type(text);
    }
    switch (value->type) {
    case POL_TYPE_INTEGER:
        if (base_str_i64(text, &value->integer) != BASE_OK) {
            return fail(scan, start, BASE_ERR_INVALID, "a whole number is expected here");
        }
        break;
    case POL_TYPE_VERSION:
        if (!pol_semver_parse(text.data, (uint32_t)text.size, &value->version)) {
            return fail(scan, start, BASE_ERR_INVALID, "a version is expected here");
        }
        break;
    case POL_TYPE_BOOLEAN:
        value->boolean = base_str_equal(text, BASE_STR("true"));
        break;
    default:
        value->type = POL_TYPE_STRING;
        value->text = (struct pol_text){text.data, (uint32_t)text.size};
        break;
    }
    scan->out->operand_count++;
    return BASE_OK;
}

static enum base_status operands_in_list(struct scanner *scan, struct pol_text attr)
{
    if (!take(scan, "[")) {
        return fail(scan, scan->at, BASE_ERR_INVALID, "'[' is expected after in and not_in");
    }
    do {
        BASE_TRY(operand(scan, attr));
    } while (take(scan, ","));
    if (!take(scan, "]")) {
        return fail(scan, scan->at, BASE_ERR_INVALID, "',' or ']' is expected here");
    }
    return BASE_OK;
}

static bool comparison(struct scanner *scan, enum pol_op *out)
{
    static const struct {
        const char *token;
        enum pol_op op;
    } ops[] = {{"==", POL_OP_EQ}, {"!=", POL_OP_NE}, {"<=", POL_OP_LE},
               {">=", POL_OP_GE}, {"<", POL_OP_LT},  {">", POL_OP_GT}};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (take(scan, ops[i].token)) {
            *out = ops[i].op;
            return true;
        }
    }
    return false;
}

static enum base_status condition(struct scanner *scan)
{
    skip_blanks(scan);
    const char *start = scan->at;
    struct base_str name = word(scan);
    if (name.size == 0) {
        return fail(scan, start, BASE_ERR_INVALID, "an attribute name is expected here");
    }
    if (scan->out->cond_count == SIM_PREDICATE_CONDS_MAX) {
        return fail(scan, start, BASE_ERR_TOO_LARGE, "too many conditions");
    }
    struct pol_cond *cond = &scan->out->conds[scan->out->cond_count];
    cond->attr = (struct pol_text){name.data, (uint32_t)name.size};
    cond->operands = &scan->out->operands[scan->out->operand_count];
    uint32_t first = scan->out->operand_count;
    skip_blanks(scan);
    const char *op_at = scan->at;
    if (comparison(scan, &cond->op)) {
        BASE_TRY(operand(scan, cond->attr));
    } else {
        struct base_str op = word(scan);
        if (base_str_equal(op, BASE_STR("present"))) {
            cond->op = POL_OP_PRESENT;
        } else if (base_str_equal(op, BASE_STR("absent"))) {
            cond->op = POL_OP_ABSENT;
        } else if (base_str_equal(op, BASE_STR("in"))) {
            cond->op = POL_OP_IN;
            BASE_TRY(operands_in_list(scan, cond->attr));
        } else if (base_str_equal(op, BASE_STR("not_in"))) {
            cond->op = POL_OP_NOT_IN;
            BASE_TRY(operands_in_list(scan, cond->attr));
        } else {
            return fail(scan, op_at, BASE_ERR_INVALID,
                        "one of == != < <= > >= in not_in present absent is expected here");
        }
    }
    cond->operand_count = scan->out->operand_count - first;
    scan->out->cond_count++;
    return BASE_OK;
}

enum base_status sim_predicate_parse(struct base_str text, struct sim_predicate *out,
                                     struct base_error *error)
{
    memset(out, 0, sizeof(*out));
    if (text.size >= sizeof(out->text)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "predicate is longer than %u characters",
                              (unsigned)sizeof(out->text) - 1);
    }
    if (text.size > 0) {
        memcpy(out->text, text.data, text.size);
    }
    struct scanner scan = {out, out->text, out->text + text.size, error};
    if (take(&scan, "all")) {
        skip_blanks(&scan);
        if (scan.at == scan.end) {
            return BASE_OK;
        }
        scan.at = out->text;
    }
    do {
        BASE_TRY(condition(&scan));
        if (!take(&scan, "&&")) {
            const char *before = scan.at;
            if (!base_str_equal(word(&scan), BASE_STR("and"))) {
                scan.at = before;
                break;
            }
        }
    } while (true);
    skip_blanks(&scan);
    if (scan.at != scan.end) {
        return fail(&scan, scan.at, BASE_ERR_INVALID, "'&&' or the end is expected here");
    }
    uint32_t bad = 0;
    struct pol_target target = {.conds = out->conds, .cond_count = out->cond_count};
    enum pol_reason reason = pol_target_check(&target, &bad);
    if (reason != POL_REASON_MATCHED && reason != POL_REASON_NO_CONDITIONS) {
        const char *at = bad < out->cond_count ? out->conds[bad].attr.data : out->text;
        return fail(&scan, at, BASE_ERR_INVALID, pol_reason_text(reason));
    }
    return BASE_OK;
}

bool sim_predicate_match(const struct sim_predicate *predicate, const struct pol_attrs *attrs)
{
    struct pol_target target = {.conds = predicate->conds, .cond_count = predicate->cond_count};
    return pol_target_match(&target, attrs).matched;
}
