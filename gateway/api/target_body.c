// Parser of targets: a list of conditions, or a text of the targeting language. Called on a
// worker's thread by the handlers of rollouts and of dry runs, and by the fuzz target. Those are
// rollout_body.c, api_preview.c and api_cost.c. Both forms end as the same conditions of
// policy/target.h. Values get the type of a well-known attribute where the body does not say one.
#include "api/target_body.h"

#include "policy/expr.h"
#include "policy/fields/stage_fields.h"

#include <math.h>
#include <string.h>

// The type named by the condition; POL_TYPE_COUNT when it is left to the JSON type.
static enum base_status parse_type(const struct gw_json_at *at, enum pol_type *out,
                                   struct base_error *error)
{
    const json_t *value = json_object_get(at->object, "type");
    unsigned place = POL_TYPE_COUNT;

    if (!json_is_string(value) || json_string_length(value) > 0) {
        BASE_TRY(gw_json_word(at, pol_cond_fields[POL_COND_FIELD_TYPE], &place, error));
    }
    *out = (enum pol_type)place;
    return BASE_OK;
}

static enum pol_type type_of(const json_t *value)
{
    if (json_is_string(value)) {
        return POL_TYPE_STRING;
    }
    if (json_is_integer(value)) {
        return POL_TYPE_INTEGER;
    }
    return json_is_boolean(value) ? POL_TYPE_BOOLEAN : POL_TYPE_COUNT;
}

static enum base_status parse_operand(const struct gw_json_at *at, enum pol_type type,
                                      const json_t *value, struct pol_value *out,
                                      struct base_error *error)
{
    enum pol_type natural = type_of(value);

    memset(out, 0, sizeof(*out));
    if (natural == POL_TYPE_COUNT) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%svalue: not a text, a whole number, true or false", at->path);
    }
    out->type = type == POL_TYPE_COUNT ? natural : type;
    if ((out->type == POL_TYPE_VERSION ? POL_TYPE_STRING : out->type) != natural) {
        return base_error_set(error, BASE_ERR_INVALID, "%svalue: does not fit type \"%s\"",
                              at->path, pol_words_at(POL_WORDS_TYPE, out->type));
    }
    size_t size = natural == POL_TYPE_STRING ? json_string_length(value) : 0;
    if (size > GW_API_OPERAND_TEXT_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%svalue: %zu bytes; at most %u", at->path,
                              size, GW_API_OPERAND_TEXT_MAX);
    }
    switch (out->type) {
    case POL_TYPE_STRING:
        out->text = (struct pol_text){json_string_value(value), (uint32_t)size};
        break;
    case POL_TYPE_VERSION:
        if (!pol_semver_parse(json_string_value(value), (uint32_t)size, &out->version)) {
            return base_error_set(error, BASE_ERR_INVALID, "%svalue: '%.60s' is not a version",
                                  at->path, json_string_value(value));
        }
        break;
    case POL_TYPE_INTEGER:
        out->integer = json_integer_value(value);
        break;
    case POL_TYPE_BOOLEAN:
        out->boolean = json_is_true(value);
        break;
    case POL_TYPE_COUNT:
        break;
    }
    return BASE_OK;
}

static enum base_status parse_operands(const struct gw_json_at *at, struct base_arena *arena,
                                       struct pol_cond *cond, struct base_error *error)
{
    const json_t *value = json_object_get(at->object, "value");
    bool listed = cond->op == POL_OP_IN || cond->op == POL_OP_NOT_IN;
    enum pol_type type;

    BASE_TRY(parse_type(at, &type, error));
    if (cond->op == POL_OP_PRESENT || cond->op == POL_OP_ABSENT) {
        return value == NULL ? BASE_OK
                             : base_error_set(error, BASE_ERR_INVALID,
                                              "%svalue: present and absent take none", at->path);
    }
    if (value == NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "%svalue: missing", at->path);
    }
    if (listed != json_is_array(value)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%svalue: in and not_in take a list, others "
                              "one value",
                              at->path);
    }
    size_t count = listed ? json_array_size(value) : 1;
    if (count == 0 || count > POL_TARGET_OPERANDS_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "%svalue: %zu items; 1 to %u", at->path,
                              count, POL_TARGET_OPERANDS_MAX);
    }
    struct pol_value *operands = base_arena_zalloc(arena, count * sizeof(*operands));
    if (operands == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; ++i) {
        const json_t *item = listed ? json_array_get(value, i) : value;
        BASE_TRY(parse_operand(at, type, item, &operands[i], error));
    }
    cond->operands = operands;
    cond->operand_count = (uint32_t)count;
    return BASE_OK;
}

static enum base_status parse_cond(const struct gw_json_at *at, struct base_arena *arena,
                                   struct pol_cond *out, struct base_error *error)
{
    const char *names[POL_COND_FIELD_COUNT + 1];
    struct base_str attr = {NULL, 0};
    unsigned op = 0;

    pol_field_names(pol_cond_fields, POL_COND_FIELD_COUNT, names);
    BASE_TRY(gw_json_only(at, names, error));
    BASE_TRY(gw_json_text(at, pol_cond_fields[POL_COND_FIELD_ATTR], &attr, error));
    if (attr.size == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%sattr: empty", at->path);
    }
    out->attr = (struct pol_text){attr.data, (uint32_t)attr.size};
    BASE_TRY(gw_json_word(at, pol_cond_fields[POL_COND_FIELD_OP], &op, error));
    out->op = (enum pol_op)op;
    return parse_operands(at, arena, out, error);
}

// The list of conditions at `key`.
static enum base_status parse_conditions(const struct gw_json_at *at, const char *key,
                                         struct base_arena *arena, struct pol_target *out,
                                         struct base_error *error)
{
    const json_t *list = NULL;
    uint32_t bad = 0;

    BASE_TRY(gw_json_array(at, gw_json_optional(key, POL_TARGET_CONDS_MAX), &list, error));
    size_t count = list != NULL ? json_array_size(list) : 0;
    if (count == 0) {
        *out = (struct pol_target){.conds = NULL, .cond_count = 0};
        return BASE_OK;
    }
    struct pol_cond *conds = base_arena_zalloc(arena, count * sizeof(*conds));
    if (conds == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; ++i) {
        struct gw_json_at item;
        BASE_TRY(gw_json_enter(at, key, i, &item, error));
        BASE_TRY(parse_cond(&item, arena, &conds[i], error));
    }
    *out = (struct pol_target){.conds = conds, .cond_count = (uint32_t)count};
    enum pol_reason reason = pol_target_check(out, &bad);
    if (reason != POL_REASON_MATCHED) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s[%u]: %s", at->path, key, bad,
                              pol_reason_text(reason));
    }
    return BASE_OK;
}

static enum base_status parse_expression(const struct gw_json_at *at, const char *key,
                                         struct base_arena *arena, struct pol_target *out,
                                         struct base_error *error)
{
    const json_t *value = json_object_get(at->object, key);
    struct pol_expr_error where = {0};
    const struct pol_expr *expr = NULL;
    size_t bytes = 0;
    size_t size = json_string_length(value);
    // The program keeps at most POL_EXPR_TEXT_MAX bytes of it; more is refused by the compiler.
    uint32_t text_size = size > POL_EXPR_TEXT_MAX ? POL_EXPR_TEXT_MAX + 1 : (uint32_t)size;
    struct pol_text text = {json_string_value(value), text_size};
    bool ok = pol_expr_compile(text, (struct pol_expr_space){NULL, 0}, &expr, &bytes, &where);

    if (ok) {
        void *memory = base_arena_alloc(arena, bytes);
        if (memory == NULL) {
            return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
        ok = pol_expr_compile(text, (struct pol_expr_space){memory, bytes}, &expr, &bytes, &where);
    }
    if (!ok) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: line %u, column %u: %s", at->path,
                              key, where.line, where.column, where.message);
    }
    *out = (struct pol_target){.expr = expr};
    return BASE_OK;
}

enum base_status gw_target_parse(const struct gw_json_at *at, const char *key,
                                 struct base_arena *arena, struct pol_target *out,
                                 struct base_error *error)
{
    const json_t *value = json_object_get(at->object, key);

    if (json_is_string(value)) {
        return parse_expression(at, key, arena, out, error);
    }
    if (value != NULL && !json_is_array(value) && !json_is_null(value)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s%s: neither an expression nor a list of conditions", at->path,
                              key);
    }
    return parse_conditions(at, key, arena, out, error);
}

enum base_status gw_arm_parse(const struct gw_json_at *root, struct pol_arm *out,
                              struct base_error *error)
{
    static const char *const names[] = {"salt", "from", "to", NULL};
    struct gw_json_at at;
    double from = 0;
    double to = 0;

    BASE_TRY(gw_json_inside(root, "arm", &at, error));
    if (at.object == NULL) {
        return BASE_OK;
    }
    BASE_TRY(gw_json_only(&at, names, error));
    BASE_TRY(gw_json_id(&at, "salt", &out->salt, error));
    BASE_TRY(gw_json_real(&at, gw_json_required("from", 99.99), &from, error));
    BASE_TRY(gw_json_real(&at, (struct pol_field){"to", .required = true, .min = 0.01, .max = 100},
                          &to, error));
    out->from = (uint16_t)lround(from * 100);
    out->to = (uint16_t)lround(to * 100);
    if (out->from >= out->to) {
        return base_error_set(error, BASE_ERR_INVALID, "arm.to: not above from");
    }
    return BASE_OK;
}
