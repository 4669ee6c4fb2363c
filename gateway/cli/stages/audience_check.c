// Audiences of stages. Called by stage_check.c; one thread, no state. Expressions are compiled by
// the policy's own compiler, and conditions are put together as the policy has them and asked of
// it; the gateway does the same (api/target_body.c).
#include "cli/stages/audience_check.h"

#include "cli/base/cli_json.h"

#include "policy/expr.h"
#include "policy/semver.h"
#include "policy/fields/stage_fields.h"
#include "policy/target.h"

#include <stdlib.h>
#include <string.h>

#define OPERAND_MAX 128u // bytes of a text

static enum cli_exit read_operand(const struct check_place *at, const json_t *value,
                                  struct pol_value *out)
{
    const char *type = cli_json_text(at->object, "type", "");
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);
    enum pol_type natural = text != NULL             ? POL_TYPE_STRING
                            : json_is_integer(value) ? POL_TYPE_INTEGER
                            : json_is_boolean(value) ? POL_TYPE_BOOLEAN
                                                     : POL_TYPE_COUNT;

    if (natural == POL_TYPE_COUNT) {
        return check_refuse(at, "value", "not a text, a whole number, true or false");
    }
    unsigned place = natural;
    (void)pol_words_find(POL_WORDS_TYPE, type, strlen(type), &place); // not said: its own
    *out = (struct pol_value){.type = (enum pol_type)place};
    if ((out->type == POL_TYPE_VERSION ? POL_TYPE_STRING : out->type) != natural) {
        return cli_fail(CLI_EXIT_USAGE, "%svalue: does not fit type \"%s\"", at->path, type);
    }
    if (size > OPERAND_MAX) {
        return cli_fail(CLI_EXIT_USAGE, "%svalue: %zu bytes; at most %u", at->path, size,
                        OPERAND_MAX);
    }
    if (out->type == POL_TYPE_VERSION && !pol_semver_parse(text, (uint32_t)size, &out->version)) {
        return cli_fail(CLI_EXIT_USAGE, "%svalue: '%.60s' is not a version", at->path,
                        cli_shown(text));
    }
    if (out->type == POL_TYPE_STRING) {
        out->text = (struct pol_text){text, (uint32_t)size};
    } else if (out->type == POL_TYPE_INTEGER) {
        out->integer = json_integer_value(value);
    } else if (out->type == POL_TYPE_BOOLEAN) {
        out->boolean = json_is_true(value);
    }
    return CLI_EXIT_OK;
}

static enum cli_exit read_operands(const struct check_place *at, struct pol_cond *cond,
                                   struct pol_value *operands)
{
    const json_t *value = json_object_get(at->object, "value");
    bool listed = cond->op == POL_OP_IN || cond->op == POL_OP_NOT_IN;
    size_t count = listed ? json_array_size(value) : 1;
    enum cli_exit code = CLI_EXIT_OK;

    if (cond->op == POL_OP_PRESENT || cond->op == POL_OP_ABSENT) {
        return value == NULL ? CLI_EXIT_OK
                             : check_refuse(at, "value", "present and absent take none");
    }
    if (value == NULL) {
        return check_refuse(at, "value", "missing");
    }
    if (listed != json_is_array(value)) {
        return check_refuse(at, "value", "in and not_in take a list, others one value");
    }
    if (count == 0 || count > POL_TARGET_OPERANDS_MAX) {
        return cli_fail(CLI_EXIT_USAGE, "%svalue: %zu items; 1 to %u", at->path, count,
                        POL_TARGET_OPERANDS_MAX);
    }
    for (size_t i = 0; code == CLI_EXIT_OK && i < count; ++i) {
        code = read_operand(at, listed ? json_array_get(value, i) : value, &operands[i]);
    }
    cond->operands = operands;
    cond->operand_count = (uint32_t)count;
    return code;
}

static enum cli_exit check_condition(const struct check_place *stage, size_t index,
                                     const struct check_place *at, struct pol_value *operands)
{
    const char *names[POL_COND_FIELD_COUNT + 1];
    struct pol_cond cond = {.op = POL_OP_EQ};
    unsigned op = POL_OP_EQ;
    uint32_t bad = 0;
    enum cli_exit code;

    pol_field_names(pol_cond_fields, POL_COND_FIELD_COUNT, names);
    code = check_only(at, names);
    code = code == CLI_EXIT_OK ? check_fields(at, pol_cond_fields, POL_COND_FIELD_COUNT) : code;
    if (code != CLI_EXIT_OK) {
        return code;
    }
    const char *attr = json_string_value(json_object_get(at->object, "attr"));
    if (attr[0] == '\0') {
        return check_refuse(at, "attr", "empty");
    }
    cond.attr = (struct pol_text){attr, (uint32_t)strlen(attr)};
    const json_t *word = json_object_get(at->object, "op");
    (void)pol_words_find(POL_WORDS_OP, json_string_value(word), json_string_length(word), &op);
    cond.op = (enum pol_op)op;
    code = read_operands(at, &cond, operands);
    const struct pol_target target = {.conds = &cond, .cond_count = 1};
    enum pol_reason reason =
        code == CLI_EXIT_OK ? pol_target_check(&target, &bad) : POL_REASON_MATCHED;
    return reason == POL_REASON_MATCHED ? code
                                        : cli_fail(CLI_EXIT_USAGE, "%saudience[%zu]: %s",
                                                   stage->path, index, pol_reason_text(reason));
}

static enum cli_exit check_conditions(const struct check_place *stage)
{
    const json_t *list = NULL;
    enum cli_exit code = check_list(stage, "audience", POL_TARGET_CONDS_MAX, &list);
    struct pol_value *operands = calloc(POL_TARGET_OPERANDS_MAX, sizeof(*operands));

    if (operands == NULL) {
        return cli_fail(CLI_EXIT_LOCAL, "out of memory");
    }
    for (size_t i = 0; code == CLI_EXIT_OK && i < json_array_size(list); ++i) {
        struct check_place at;
        code = check_item(stage, "audience", i, json_array_get(list, i), &at);
        code = code == CLI_EXIT_OK ? check_condition(stage, i, &at, operands) : code;
    }
    free(operands);
    return code;
}

enum cli_exit audience_check(const struct check_place *stage)
{
    const json_t *audience = json_object_get(stage->object, "audience");
    size_t size = json_string_length(audience);
    struct pol_expr_error where = {0};
    const struct pol_expr *expr = NULL;
    size_t bytes = 0;

    if (!json_is_string(audience)) {
        return audience == NULL || json_is_null(audience) || json_is_array(audience)
                   ? check_conditions(stage)
                   : check_refuse(stage, "audience",
                                  "neither an expression nor a list of conditions");
    }
    struct pol_text text = {json_string_value(audience),
                            size > POL_EXPR_TEXT_MAX ? POL_EXPR_TEXT_MAX + 1 : (uint32_t)size};
    return pol_expr_compile(text, (struct pol_expr_space){NULL, 0}, &expr, &bytes, &where)
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_USAGE, "%saudience: line %u, column %u: %s", stage->path,
                          where.line, where.column, where.message);
}
