// Any bytes as an ONNX model, lowered: an error, or a program that keeps every promise of
// program.h. Small programs of constants are run, so that contents are known where models need
// them.
#include "fuzz_target.h"

#include "base/alloc.h"
#include "base/check.h"
#include "lower/lower.h"
#include "session/fold.h"

#include <stdlib.h>

#define MEMORY_MAX   ((size_t)512 << 20)
#define ELEMENTS_MAX (1 << 16) // of one tensor of a program that is run
#define RUNS_MAX     256

struct runner {
    struct eng_fold fold;
    uint32_t runs;
};

// Work is bounded here; what a command costs can be the product of its tensors' sizes.
static enum base_status run_small(void *ctx, struct eng_program *program,
                                  const struct eng_contents *wanted, struct base_error *error)
{
    struct runner *runner = ctx;
    base_check(eng_program_validate(program, error) == BASE_OK);
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        if (eng_desc_count(&program->tensors[i].desc) > ELEMENTS_MAX) {
            return base_error_set(error, BASE_ERR_LIMIT, "too much work for this test");
        }
    }
    if (++runner->runs > RUNS_MAX) {
        return base_error_set(error, BASE_ERR_LIMIT, "too many runs for this test");
    }
    return eng_fold_run(&runner->fold, program, wanted, error);
}

static enum base_status bind_inputs(struct eng_lower *l, const struct eng_graph *graph)
{
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const struct eng_value *value = &graph->values[graph->inputs[i]];
        struct eng_desc desc = value->desc;
        uint32_t tensor;
        if (eng_dtype_bytes(desc.dtype) == 0) {
            return BASE_ERR_UNSUPPORTED;
        }
        for (uint32_t d = 0; d < desc.rank; d++) {
            desc.dims[d] = desc.dims[d] < 0 ? 2 : desc.dims[d];
        }
        BASE_TRY(eng_lower_bind(l, graph->inputs[i], &desc, ENG_PLAIN, NULL, &tensor));
    }
    return BASE_OK;
}

static void lower(const struct eng_graph *graph, struct base_arena *arena, bool no_merge,
                  struct runner *runner)
{
    struct base_error error = {0};
    struct eng_program program;
    eng_program_init(&program, arena);
    const struct eng_lower_options options = {
        .no_merge = no_merge, .runner_ctx = runner, .run_program = run_small};
    struct eng_lower *l = eng_lower_new(arena, &program, graph, &options, &error);
    if (l == NULL || bind_inputs(l, graph) != BASE_OK) {
        return;
    }
    uint32_t next;
    enum base_status status = eng_lower_run(l, 0, &next);
    if (status == BASE_ERR_BUSY) {
        uint32_t count;
        const uint32_t *wanted = eng_lower_wanted(l, &count);
        base_check(count > 0);
        for (uint32_t i = 0; i < count; i++) {
            base_check(program.tensors[wanted[i]].kind != ENG_VIRTUAL);
        }
    } else if (status != BASE_OK && status != BASE_ERR_NOMEM) {
        base_check(error.status != BASE_OK && error.text[0] != '\0');
    }
    base_check(status == BASE_ERR_NOMEM || eng_program_validate(&program, &error) == BASE_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct eng_model *model;
    struct base_error error = {0};
    if (eng_model_load_memory(data, size, NULL, &model, &error) != BASE_OK) {
        return 0;
    }
    struct runner runner = {.runs = 0};
    eng_fold_init(&runner.fold, NULL, NULL);
    runner.fold.arena.limit_bytes = MEMORY_MAX;
    for (int merge = 0; merge < 2; merge++) {
        struct base_arena arena;
        base_arena_init(&arena, base_alloc_heap(), 1 << 16, MEMORY_MAX);
        lower(model->graph, &arena, merge == 0, &runner);
        base_arena_done(&arena);
    }
    eng_fold_done(&runner.fold);
    eng_model_unref(model);
    return 0;
}
