// Signing of a whole rollout: a statement for each stage that reaches devices, and the body that is
// posted. Called by cli_release.c for `rollout start` and `task sign`, and by tests; one thread.
// Id, salt, counter and time are the caller's, so the same draft gives the same body. A simulate
// stage has no statement: no device takes part in it.
#include "cli/rollout/rollout_draft.h"

#include "cli/stages/ladder.h"
#include "cli/stages/tolerance_json.h"

static json_t *hex_text(uint64_t id)
{
    char text[WIRE_DEVICE_HEX + 1];

    wire_device_hex(id, text);
    return json_string(text);
}

// One signed statement as base64url text.
static enum base_status sign_text(const struct signing_keys *keys,
                                  const struct wire_release *release, json_t **out_text)
{
    uint8_t envelope[WIRE_STATEMENT_BYTES_MAX];
    char text[BASE_B64_ENCODED(WIRE_STATEMENT_BYTES_MAX)];
    size_t size = 0;

    BASE_TRY(signing_release_all(keys, release, envelope, sizeof(envelope), &size));
    json_t *value = json_stringn(text, base_b64_encode(envelope, size, text));
    if (value == NULL) {
        return BASE_ERR_NOMEM;
    }
    *out_text = value;
    return BASE_OK;
}

static struct wire_release common(const struct rollout_draft *draft)
{
    return (struct wire_release){.task_name = base_str_of(draft->task),
                                 .floor = draft->floor,
                                 .rollout_id = draft->id,
                                 .salt = draft->salt,
                                 .issued_s = draft->issued_s,
                                 .expires_s = draft->expires_s};
}

static enum base_status sign_stage(const struct rollout_draft *draft,
                                   const struct signing_keys *keys, json_t *stage)
{
    struct wire_release release = common(draft);
    json_t *text = NULL;
    const char *wrong = NULL;

    release.release_counter = draft->release_counter;
    release.manifest = draft->manifest;
    release.manifest_bytes = draft->manifest_bytes;
    release.max_bucket = ladder_max_bucket(stage);
    release.stage_kind = (uint8_t)ladder_kind(stage);
    release.shadow_slow_percent = ladder_times(stage, "max_slowdown");
    release.shadow_memory_percent = ladder_times(stage, "max_memory");
    if (!tolerance_json_read(stage, &release.tolerances, &wrong)) {
        return BASE_ERR_INVALID;
    }
    release.arm_salt = draft->arm_salt;
    release.arm_from = draft->arm_from;
    release.arm_to = draft->arm_to;
    BASE_TRY(sign_text(keys, &release, &text));
    return json_object_set_new(stage, "statement", text) == 0 ? BASE_OK : BASE_ERR_NOMEM;
}

enum base_status rollout_draft_body(const struct rollout_draft *draft,
                                    const struct signing_keys *keys, struct rollout_ladder ladder,
                                    json_t **out_body, struct base_error *error)
{
    char manifest[WIRE_SHA256_HEX + 1];
    enum base_status status = BASE_OK;
    size_t index;
    json_t *stage;

    json_array_foreach(ladder.stages, index, stage)
    {
        if (status == BASE_OK && ladder_kind(stage) != POL_STAGE_SIMULATE) {
            status = sign_stage(draft, keys, stage);
        }
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "cannot sign the statements: %s",
                              base_status_text(status));
    }
    wire_sha256_hex(&draft->manifest, manifest);
    json_t *body = json_pack(
        "{s:o, s:s, s:s, s:o, s:I, s:O, s:O}", "id", hex_text(draft->id), "task", draft->task,
        "manifest", manifest, "salt", hex_text(draft->salt), "release_counter",
        (json_int_t)draft->release_counter, "target", ladder.target, "stages", ladder.stages);
    if (body != NULL && draft->priority > 0) {
        (void)json_object_set_new(body, "priority", json_integer((json_int_t)draft->priority));
    }
    if (body != NULL && draft->arm_to > 0) {
        (void)json_object_set_new(body, "arm",
                                  json_pack("{s:o, s:f, s:f}", "salt", hex_text(draft->arm_salt),
                                            "from", draft->arm_from / 100.0, "to",
                                            draft->arm_to / 100.0));
    }
    if (body == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    *out_body = body;
    return BASE_OK;
}
