// Fuzz target of the rollout body: any bytes give a specification within every limit, or an error
// with a text.
#include "api/rollout_body.h"
#include "base/alloc.h"
#include "base/check.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_arena arena;
    struct gw_rollout_body body;
    struct base_error error = {0};

    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    if (gw_rollout_body_parse(data, size, &arena, &body, &error) == BASE_OK) {
        base_check(body.spec.id != 0 && body.spec.stage_count >= 1);
        base_check(body.spec.stage_count <= POL_STAGES_MAX);
        base_check(body.spec.target.cond_count <= POL_TARGET_CONDS_MAX);
        for (uint32_t i = 0; i < body.spec.stage_count; ++i) {
            const struct gw_stage_spec *stage = &body.spec.stages[i];
            base_check(stage->stage.max_bucket >= 1 && stage->stage.max_bucket <= 10000);
            base_check(stage->stage.kind == POL_STAGE_SIMULATE || stage->statement != NULL);
        }
    } else {
        base_check(error.text[0] != '\0');
    }
    base_arena_done(&arena);
    return 0;
}
