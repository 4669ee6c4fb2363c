// Parser of the rollout body: conditions, stages, statements. Called on a worker's thread by the
// rollout handlers, and by the fuzz target.
#include "api/rollout_body.h"

#include "api/api_json.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *text;
    enum pol_op op;
} operators[] = {
    {"==", POL_OP_EQ},         {"!=", POL_OP_NE},         {"<", POL_OP_LT},
    {"<=", POL_OP_LE},         {">", POL_OP_GT},          {">=", POL_OP_GE},
    {"in", POL_OP_IN},         {"not_in", POL_OP_NOT_IN}, {"present", POL_OP_PRESENT},
    {"absent", POL_OP_ABSENT},
};

static const char *const type_names[POL_TYPE_COUNT] = {
    [POL_TYPE_STRING] = "string",
    [POL_TYPE_INTEGER] = "integer",
    [POL_TYPE_VERSION] = "version",
    [POL_TYPE_BOOLEAN] = "boolean",
};

static bool text_is(struct base_str text, const char *literal)
{
    return base_str_equal(text, base_str_of(literal));
}

static enum base_status parse_operator(const struct gw_json_at *at, enum pol_op *out,
                                       struct base_error *error)
{
    struct base_str text = {NULL, 0};

    BASE_TRY(gw_json_text(at, "op", true, 16, &text, error));
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); ++i) {
        if (text_is(text, operators[i].text)) {
            *out = operators[i].op;
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_ERR_INVALID,
                          "%sop: '%.*s' is none of == != < <= > >= in not_in present absent",
                          at->path, (int)text.size, text.data);
}

// The type named by the condition; POL_TYPE_COUNT when it is left to the JSON type.
static enum base_status parse_type(const struct gw_json_at *at, enum pol_type *out,
                                   struct base_error *error)
{
    struct base_str text = {NULL, 0};

    *out = POL_TYPE_COUNT;
    BASE_TRY(gw_json_text(at, "type", false, 16, &text, error));
    if (text.size == 0) {
        return BASE_OK;
    }
    for (unsigned i = 0; i < POL_TYPE_COUNT; ++i) {
        if (text_is(text, type_names[i])) {
            *out = (enum pol_type)i;
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_ERR_INVALID,
                          "%stype: '%.*s' is none of string integer version boolean", at->path,
                          (int)text.size, text.data);
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
                              at->path, type_names[out->type]);
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
    static const char *const names[] = {"attr", "op", "value", "type", NULL};
    struct base_str attr = {NULL, 0};

    BASE_TRY(gw_json_only(at, names, error));
    BASE_TRY(gw_json_text(at, "attr", true, 32, &attr, error));
    if (attr.size == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%sattr: empty", at->path);
    }
    out->attr = (struct pol_text){attr.data, (uint32_t)attr.size};
    BASE_TRY(parse_operator(at, &out->op, error));
    return parse_operands(at, arena, out, error);
}

// The list of conditions at `key`; absent is everybody.
static enum base_status parse_target(const struct gw_json_at *at, const char *key,
                                     struct base_arena *arena, struct pol_target *out,
                                     struct base_error *error)
{
    const json_t *list = NULL;
    uint32_t bad = 0;

    BASE_TRY(gw_json_array(at, key, false, POL_TARGET_CONDS_MAX, &list, error));
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
        BASE_TRY(gw_json_enter(at, key, i, json_array_get(list, i), &item, error));
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

// base64url text at `key` into the arena.
static enum base_status parse_envelope(const struct gw_json_at *at, const char *key, bool required,
                                       struct base_arena *arena, const uint8_t **out,
                                       size_t *out_size, struct base_error *error)
{
    struct base_str text = {NULL, 0};

    BASE_TRY(
        gw_json_text(at, key, required, BASE_B64_ENCODED(WIRE_STATEMENT_BYTES_MAX), &text, error));
    if (text.size == 0) {
        return required ? base_error_set(error, BASE_ERR_INVALID, "%s%s: empty", at->path, key)
                        : BASE_OK;
    }
    uint8_t *bytes = base_arena_alloc(arena, WIRE_STATEMENT_BYTES_MAX);
    if (bytes == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    if (base_b64_decode(text, bytes, WIRE_STATEMENT_BYTES_MAX, out_size) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: not base64url", at->path, key);
    }
    *out = bytes;
    return BASE_OK;
}

static enum base_status parse_kind(const struct gw_json_at *at, enum pol_stage_kind *out,
                                   struct base_error *error)
{
    struct base_str text = {NULL, 0};

    BASE_TRY(gw_json_text(at, "kind", true, 16, &text, error));
    for (unsigned i = 0; i < POL_STAGE_KIND_COUNT; ++i) {
        if (text_is(text, pol_stage_kind_name((enum pol_stage_kind)i))) {
            *out = (enum pol_stage_kind)i;
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_ERR_INVALID,
                          "%skind: '%.*s' is none of simulate beta gray full", at->path,
                          (int)text.size, text.data);
}

static enum base_status parse_gate(const struct gw_json_at *at, struct pol_gate *out,
                                   struct base_error *error)
{
    uint64_t min_sample = 1;
    double dwell_s = 0;
    double failure = 0;

    BASE_TRY(gw_json_u64(at, "min_sample", false, UINT32_MAX, &min_sample, error));
    BASE_TRY(gw_json_real(at, "min_dwell_s", false, 0, GW_API_DWELL_S_MAX, &dwell_s, error));
    BASE_TRY(gw_json_real(at, "max_failure", true, 0, 1, &failure, error));
    out->min_sample = (uint32_t)min_sample;
    out->min_dwell_us = (uint64_t)llround(dwell_s * 1e6);
    out->max_failure_ppm = (uint32_t)lround(failure * 1e6);
    return BASE_OK;
}

static enum base_status parse_stage(const struct gw_json_at *at, struct base_arena *arena,
                                    struct gw_stage_spec *out, struct base_error *error)
{
    static const char *const names[] = {"name",        "kind",       "percent",
                                        "audience",    "min_sample", "min_dwell_s",
                                        "max_failure", "statement",  NULL};
    double percent = 100;

    BASE_TRY(gw_json_only(at, names, error));
    BASE_TRY(gw_json_text(at, "name", true, GW_STAGE_NAME_MAX, &out->name, error));
    BASE_TRY(parse_kind(at, &out->stage.kind, error));
    BASE_TRY(
        gw_json_real(at, "percent", out->stage.kind == POL_STAGE_GRAY, 0.01, 100, &percent, error));
    out->stage.max_bucket = (uint16_t)lround(percent * 100);
    BASE_TRY(parse_target(at, "audience", arena, &out->stage.audience, error));
    BASE_TRY(parse_gate(at, &out->stage.gate, error));
    return parse_envelope(at, "statement", out->stage.kind != POL_STAGE_SIMULATE, arena,
                          &out->statement, &out->statement_bytes, error);
}

static enum base_status parse_stages(const struct gw_json_at *at, struct base_arena *arena,
                                     struct gw_rollout_spec *out, struct base_error *error)
{
    const json_t *list = NULL;

    BASE_TRY(gw_json_array(at, "stages", true, POL_STAGES_MAX, &list, error));
    size_t count = json_array_size(list);
    if (count == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "stages: empty");
    }
    struct gw_stage_spec *stages = base_arena_zalloc(arena, count * sizeof(*stages));
    if (stages == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; ++i) {
        struct gw_json_at item;
        BASE_TRY(gw_json_enter(at, "stages", i, json_array_get(list, i), &item, error));
        BASE_TRY(parse_stage(&item, arena, &stages[i], error));
    }
    out->stages = stages;
    out->stage_count = (uint32_t)count;
    return BASE_OK;
}

static enum base_status parse_identity(const struct gw_json_at *at, struct gw_rollout_spec *out,
                                       struct base_error *error)
{
    struct base_str manifest = {NULL, 0};
    uint64_t timeout_s = 0;

    BASE_TRY(gw_json_id(at, "id", &out->id, error));
    BASE_TRY(gw_json_text(at, "task", true, WIRE_TASK_NAME_MAX, &out->task, error));
    BASE_TRY(gw_json_text(at, "manifest", true, WIRE_SHA256_HEX, &manifest, error));
    if (wire_sha256_parse(manifest, &out->manifest) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "manifest: not a SHA-256 in hex");
    }
    BASE_TRY(gw_json_id(at, "salt", &out->salt, error));
    BASE_TRY(gw_json_u64(at, "release_counter", true, (UINT64_C(1) << 53) - 1,
                         &out->release_counter, error));
    BASE_TRY(
        gw_json_u64(at, "execution_timeout_s", false, GW_API_EXECUTION_S_MAX, &timeout_s, error));
    out->execution_timeout_s = (uint32_t)timeout_s;
    return BASE_OK;
}

enum base_status gw_rollout_body_parse(const uint8_t *bytes, size_t size, struct base_arena *arena,
                                       struct gw_rollout_body *out, struct base_error *error)
{
    static const char *const names[] = {"id",
                                        "task",
                                        "manifest",
                                        "salt",
                                        "release_counter",
                                        "execution_timeout_s",
                                        "target",
                                        "stages",
                                        "revert",
                                        "reason",
                                        "by",
                                        NULL};
    struct gw_rollout_body body = {0};
    struct gw_json_at root;

    BASE_TRY(gw_json_parse(bytes, size, arena, &root, error));
    BASE_TRY(gw_json_only(&root, names, error));
    BASE_TRY(parse_identity(&root, &body.spec, error));
    BASE_TRY(parse_target(&root, "target", arena, &body.spec.target, error));
    BASE_TRY(parse_stages(&root, arena, &body.spec, error));
    BASE_TRY(parse_envelope(&root, "revert", true, arena, &body.spec.revert,
                            &body.spec.revert_bytes, error));
    BASE_TRY(gw_json_text(&root, "reason", false, GW_LOG_REASON_MAX, &body.who.comment, error));
    BASE_TRY(gw_json_text(&root, "by", false, GW_LOG_BY_MAX, &body.who.by, error));
    *out = body;
    return BASE_OK;
}
