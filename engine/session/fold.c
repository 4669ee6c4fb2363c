// Programs over constants, executed while lowering: one command after the other, each prepared and
// run at once.
//
// Called by lowering through the session's options, thousands of times for a loop; so temporaries
// come from an arena that is reset and kept, and scratch memory only grows.
#include "session/fold.h"

#include "base/alloc.h"
#include "base/carve.h"
#include "base/check.h"
#include "base/ckd.h"
#include "session/exec.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT  64u
#define FOLD_CHUNK ((size_t)64 << 10)
#define FOLD_BYTES_MAX                                                                             \
    ((size_t)2 << 30) // of one program computed while lowering, and of its scratch

void eng_fold_init(struct eng_fold *fold, const struct eng_kernels *kernels, struct eng_pool *pool)
{
    *fold = (struct eng_fold){.kernels = kernels, .pool = pool};
    base_arena_init(&fold->arena, base_alloc_heap(), FOLD_CHUNK, FOLD_BYTES_MAX);
}

void eng_fold_done(struct eng_fold *fold)
{
    base_arena_done(&fold->arena);
    free(fold->scratch);
    *fold = (struct eng_fold){0};
}

static void *aligned(struct base_arena *arena, size_t bytes)
{
    uint8_t *memory = base_arena_alloc(arena, bytes + ALIGNMENT);
    if (memory == NULL) {
        return NULL;
    }
    return memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT) % ALIGNMENT;
}

static enum base_status reserve_scratch(struct eng_fold *fold, size_t bytes)
{
    if (bytes <= fold->scratch_bytes) {
        return BASE_OK;
    }
    if (bytes > fold->arena.limit_bytes) {
        return BASE_ERR_TOO_LARGE;
    }
    bytes = base_aligned(bytes, ALIGNMENT);
    void *fresh = aligned_alloc(ALIGNMENT, bytes);
    if (fresh == NULL) {
        return BASE_ERR_NOMEM;
    }
    free(fold->scratch);
    fold->scratch = fresh;
    fold->scratch_bytes = bytes;
    return BASE_OK;
}

// Memory for a command's outputs: the result arena for what the caller wants, ours for the rest.
static enum base_status place_outputs(struct eng_fold *fold, const struct eng_program *program,
                                      const struct eng_command *command, const bool *is_result,
                                      struct base_arena *arena, void **data)
{
    for (uint32_t i = 0; i < command->output_count; i++) {
        uint32_t tensor = command->outputs[i];
        if (tensor == ENG_NONE) {
            continue;
        }
        data[tensor] = aligned(is_result[tensor] ? arena : &fold->arena,
                               eng_desc_bytes(&program->tensors[tensor].desc));
        if (data[tensor] == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    return BASE_OK;
}

// Aliases among a command's inputs point where their tensors were put.
static void find_inputs(const struct eng_program *program, const struct eng_command *command,
                        void **data)
{
    for (uint32_t i = 0; i < command->input_count; i++) {
        uint32_t tensor = command->inputs[i];
        if (tensor != ENG_NONE && program->tensors[tensor].alias != ENG_NONE) {
            data[tensor] = data[program->tensors[tensor].alias];
        }
    }
}

static enum base_status run_commands(struct eng_fold *fold, const struct eng_program *program,
                                     const bool *is_result, struct base_arena *arena, void **data,
                                     struct base_error *error)
{
    struct eng_prepare prepare = {
        .arena = &fold->arena,
        .kernels = fold->kernels,
        .pool = fold->pool,
        .precision = fold->precision,
        .error = error,
    };
    for (uint32_t i = 0; i < program->command_count; i++) {
        const struct eng_command *command = &program->commands[i];
        struct eng_step step;
        BASE_TRY(eng_exec_step(&prepare, program, command, &step));
        BASE_TRY(reserve_scratch(fold, step.scratch_bytes));
        BASE_TRY(place_outputs(fold, program, command, is_result, arena, data));
        find_inputs(program, command, data);
        struct eng_run run = {
            .data = data, .pool = fold->pool, .scratch = fold->scratch, .error = error};
        BASE_TRY(step.run(&step, &run));
        fold->work = base_sat_add_u64(fold->work, step.work);
    }
    return BASE_OK;
}

static enum base_status run_program(struct eng_fold *fold, const struct eng_program *program,
                                    const uint32_t *outputs, uint32_t count,
                                    struct eng_array *out_arrays, struct base_arena *arena,
                                    struct base_error *error)
{
    void **data = base_arena_zalloc(&fold->arena, (program->tensor_count + 1) * sizeof *data);
    bool *is_result = base_arena_zalloc(&fold->arena, program->tensor_count + 1);
    if (data == NULL || is_result == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        const struct eng_tensor *tensor = &program->tensors[i];
        if (tensor->kind != ENG_CONST) {
            continue;
        }
        data[i] = (void *)(uintptr_t)tensor->data; // steps only read it
        if ((uintptr_t)tensor->data % 4 != 0 && tensor->desc.dtype == ENG_F32) {
            size_t bytes = eng_desc_bytes(&tensor->desc);
            data[i] = aligned(&fold->arena, bytes);
            if (data[i] == NULL) {
                return BASE_ERR_NOMEM;
            }
            memcpy(data[i], tensor->data, bytes);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        base_assert(outputs[i] < program->tensor_count);
        is_result[outputs[i]] = true;
        if (program->tensors[outputs[i]].alias != ENG_NONE) {
            is_result[program->tensors[outputs[i]].alias] = true;
        }
    }
    BASE_TRY(run_commands(fold, program, is_result, arena, data, error));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t root = program->tensors[outputs[i]].alias;
        if (root != ENG_NONE) {
            data[outputs[i]] = data[root];
        }
        if (data[outputs[i]] == NULL) {
            return base_error_set(error, BASE_ERR_BUG, "a folded program leaves output %u unset",
                                  i);
        }
        out_arrays[i] = (struct eng_array){program->tensors[outputs[i]].desc, data[outputs[i]]};
    }
    return BASE_OK;
}

enum base_status eng_fold_run(void *ctx, struct eng_program *program, const uint32_t *outputs,
                              uint32_t count, struct eng_array *out_arrays,
                              struct base_arena *arena, struct base_error *error)
{
    struct eng_fold *fold = ctx;
    struct base_error local = {0};
    BASE_TRY(eng_watch_look(fold->watch, error));
    enum base_status status = run_program(fold, program, outputs, count, out_arrays, arena,
                                          error != NULL ? error : &local);
    base_arena_reset(&fold->arena);
    return status;
}
