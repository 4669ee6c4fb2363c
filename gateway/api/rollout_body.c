// Parser of the rollout body: stages, statements (targets: target_body.c). Called on a worker's
// thread by the rollout handlers, and by the fuzz target. It is one parser for creating a rollout
// and for asking whether one could be created, so the two cannot differ. Signed statements are
// taken as bytes here; the core opens them. Pure: nothing but the arena is written.
#include "api/rollout_body.h"

#include "api/api_json.h"
#include "api/stage_body.h"
#include "api/target_body.h"

#include "base/span.h"
#include "policy/fields/stage_fields.h"

#include <string.h>

// What the field's base64url text stands for, into the arena; absent leaves *out as it is.
static enum base_status parse_envelope(const struct gw_json_at *at, struct pol_field field,
                                       struct base_arena *arena, struct base_span *out,
                                       struct base_error *error)
{
    const size_t bytes_max = BASE_B64_DECODED_MAX((size_t)field.max);
    struct base_str text = {NULL, 0};
    size_t size = 0;

    BASE_TRY(gw_json_text(at, field, &text, error));
    if (text.size == 0) {
        return field.required
                   ? base_error_set(error, BASE_ERR_INVALID, "%s%s: empty", at->path, field.name)
                   : BASE_OK;
    }
    uint8_t *bytes = base_arena_alloc(arena, bytes_max);
    if (bytes == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    if (base_b64_decode(text, bytes, bytes_max, &size) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: not base64url", at->path, field.name);
    }
    *out = (struct base_span){bytes, size};
    return BASE_OK;
}

_Static_assert(GW_STAGE_NAME_MAX == POL_STAGE_NAME_MAX, "the names that the core takes");

static enum base_status parse_stage(const struct gw_json_at *at, struct base_arena *arena,
                                    struct gw_stage_spec *out, struct base_error *error)
{
    const char *names[POL_STAGE_FIELD_COUNT + 1];

    pol_field_names(pol_stage_fields, POL_STAGE_FIELD_COUNT, names);
    BASE_TRY(gw_json_only(at, names, error));
    BASE_TRY(gw_json_text(at, pol_stage_fields[POL_STAGE_FIELD_NAME], &out->name, error));
    BASE_TRY(gw_stage_reach_parse(at, arena, &out->stage, error));
    BASE_TRY(gw_stage_body_parse(at, &out->stage, error));
    struct pol_field signed_one = {"statement", .required = out->stage.kind != POL_STAGE_SIMULATE,
                                   .max = BASE_B64_ENCODED(WIRE_STATEMENT_BYTES_MAX)};
    struct base_span statement = {NULL, 0};
    BASE_TRY(parse_envelope(at, signed_one, arena, &statement, error));
    out->statement = statement.data;
    out->statement_bytes = statement.size;
    return BASE_OK;
}

// The last stage guards what all of them let in.
static enum base_status fill_guards(struct gw_stage_spec *stages, size_t count,
                                    struct base_error *error)
{
    for (size_t i = 0; i < count; ++i) {
        uint32_t *guard_s = &stages[i].stage.guard_s;
        bool last = i + 1 == count;
        if (*guard_s == GW_STAGE_DEFAULT_S) {
            *guard_s = last ? POL_STAGE_GUARD_S : 0;
        } else if (!last && *guard_s != 0) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "stages[%zu].guard_s: for the last stage only", i);
        }
    }
    return BASE_OK;
}

static enum base_status parse_stages(const struct gw_json_at *at, struct base_arena *arena,
                                     struct gw_rollout_spec *out, struct base_error *error)
{
    const json_t *list = NULL;

    BASE_TRY(gw_json_array(at, gw_json_required("stages", POL_STAGES_MAX), &list, error));
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
        BASE_TRY(gw_json_enter(at, "stages", i, &item, error));
        BASE_TRY(parse_stage(&item, arena, &stages[i], error));
    }
    out->stages = stages;
    out->stage_count = (uint32_t)count;
    return fill_guards(stages, count, error);
}

static enum base_status parse_identity(const struct gw_json_at *at, struct gw_rollout_spec *out,
                                       struct base_error *error)
{
    struct base_str manifest = {NULL, 0};
    uint64_t timeout_s = 0;

    BASE_TRY(gw_json_id(at, "id", &out->id, error));
    BASE_TRY(gw_json_text(at, gw_json_required("task", WIRE_TASK_NAME_MAX), &out->task, error));
    BASE_TRY(gw_json_text(at, gw_json_required("manifest", WIRE_SHA256_HEX), &manifest, error));
    if (wire_sha256_parse(manifest, &out->manifest) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "manifest: not a SHA-256 in hex");
    }
    BASE_TRY(gw_json_id(at, "salt", &out->salt, error));
    BASE_TRY(gw_json_u64(at, gw_json_required("release_counter", (UINT64_C(1) << 53) - 1),
                         &out->release_counter, error));
    BASE_TRY(gw_json_u64(at, gw_json_optional("execution_timeout_s", POL_EXECUTION_S_MAX),
                         &timeout_s, error));
    out->execution_timeout_s = (uint32_t)timeout_s;
    return BASE_OK;
}

static enum base_status parse_order(const struct gw_json_at *at, struct gw_rollout_spec *out,
                                    struct base_error *error)
{
    uint64_t priority = 0;

    BASE_TRY(gw_json_u64(at, gw_json_optional("priority", GW_PRIORITY_MAX), &priority, error));
    out->priority = (uint16_t)priority;
    return gw_arm_parse(at, &out->arm, error);
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
                                        "priority",
                                        "arm",
                                        "target",
                                        "stages",
                                        "reason",
                                        "by",
                                        "accept_cost",
                                        "accept_empty",
                                        "trust_unproven",
                                        "evidence",
                                        NULL};
    struct gw_rollout_body body = {0};
    struct base_span evidence = {NULL, 0};
    struct gw_json_at root;

    BASE_TRY(gw_json_parse(bytes, size, arena, &root, error));
    BASE_TRY(gw_json_only(&root, names, error));
    BASE_TRY(parse_identity(&root, &body.spec, error));
    BASE_TRY(parse_order(&root, &body.spec, error));
    BASE_TRY(gw_target_parse(&root, "target", arena, &body.spec.target, error));
    BASE_TRY(parse_stages(&root, arena, &body.spec, error));
    BASE_TRY(gw_json_reason(&root, false, GW_LOG_REASON_MAX, &body.who.comment, error));
    BASE_TRY(gw_json_text(&root, gw_json_optional("by", GW_LOG_BY_MAX), &body.who.by, error));
    BASE_TRY(gw_json_bool(&root, "accept_cost", &body.spec.accept_cost, error));
    BASE_TRY(gw_json_bool(&root, "accept_empty", &body.spec.accept_empty, error));
    BASE_TRY(gw_json_bool(&root, "trust_unproven", &body.spec.trust_unproven, error));
    BASE_TRY(parse_envelope(&root,
                            gw_json_optional("evidence", BASE_B64_ENCODED(WIRE_META_BYTES_MAX)),
                            arena, &evidence, error));
    body.evidence = evidence.data;
    body.evidence_bytes = evidence.size;
    if (body.spec.accept_cost && body.who.comment.size == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "reason: accept_cost needs one");
    }
    *out = body;
    return BASE_OK;
}
