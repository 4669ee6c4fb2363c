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
    base_assert(fold->scratch != NULL || fold->scratch_bytes == 0);
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

// A program while it is run.
struct folding {
    struct eng_fold *fold;
    const struct eng_program *program;
    const struct eng_contents *wanted;
    void **data;     // by tensor
    bool *is_result; // by tensor: wanted, or what something wanted names
    struct base_error *error;
};

// Memory for a command's outputs: the result arena for what the caller wants, ours for the rest.
static enum base_status place_outputs(const struct folding *folding,
                                      const struct eng_command *command)
{
    void **data = folding->data;
    for (uint32_t i = 0; i < command->output_count; i++) {
        uint32_t tensor = command->outputs[i];
        if (tensor == ENG_NONE) {
            continue;
        }
        base_assert(data[tensor] == NULL); // one command writes a tensor
        base_assert(folding->program->tensors[tensor].alias == ENG_NONE);
        data[tensor] =
            aligned(folding->is_result[tensor] ? folding->wanted->arena : &folding->fold->arena,
                    eng_desc_bytes(&folding->program->tensors[tensor].desc));
        if (data[tensor] == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    return BASE_OK;
}

// Aliases among a command's inputs point where their tensors were put.
static void find_inputs(const struct folding *folding, const struct eng_command *command)
{
    for (uint32_t i = 0; i < command->input_count; i++) {
        uint32_t tensor = command->inputs[i];
        if (tensor != ENG_NONE && folding->program->tensors[tensor].alias != ENG_NONE) {
            folding->data[tensor] = folding->data[folding->program->tensors[tensor].alias];
        }
    }
}

static enum base_status run_commands(const struct folding *folding)
{
    struct eng_fold *fold = folding->fold;
    const struct eng_program *program = folding->program;
    struct eng_prepare prepare = {
        .arena = &fold->arena,
        .kernels = fold->kernels,
        .pool = fold->pool,
        .precision = fold->precision,
        .error = folding->error,
    };
    for (uint32_t i = 0; i < program->command_count; i++) {
        const struct eng_command *command = &program->commands[i];
        struct eng_step step;
        BASE_TRY(eng_exec_step(&prepare, program, command, &step));
        BASE_TRY(reserve_scratch(fold, step.scratch_bytes));
        BASE_TRY(place_outputs(folding, command));
        find_inputs(folding, command);
        base_assert(step.scratch_bytes <= fold->scratch_bytes);
        struct eng_run run = {.data = folding->data,
                              .pool = fold->pool,
                              .scratch = fold->scratch,
                              .error = folding->error};
        BASE_TRY(step.run(&step, &run));
        fold->work = base_sat_add_u64(fold->work, step.work);
    }
    return BASE_OK;
}

static enum base_status place_constants(const struct folding *folding)
{
    const struct eng_program *program = folding->program;
    void **data = folding->data;
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        const struct eng_tensor *tensor = &program->tensors[i];
        base_assert(tensor->kind == ENG_CONST || tensor->kind == ENG_TEMP);
        if (tensor->kind != ENG_CONST) {
            continue;
        }
        data[i] = (void *)(uintptr_t)tensor->data; // steps only read it
        if ((uintptr_t)tensor->data % 4 != 0 && tensor->desc.dtype == ENG_F32) {
            size_t bytes = eng_desc_bytes(&tensor->desc);
            data[i] = aligned(&folding->fold->arena, bytes);
            if (data[i] == NULL) {
                return BASE_ERR_NOMEM;
            }
            memcpy(data[i], tensor->data, bytes);
        }
    }
    return BASE_OK;
}

static enum base_status run_program(struct folding *folding)
{
    const struct eng_program *program = folding->program;
    const struct eng_contents *wanted = folding->wanted;
    struct base_arena *arena = &folding->fold->arena;
    void **data = base_arena_zalloc(arena, (program->tensor_count + 1) * sizeof *data);
    folding->data = data;
    folding->is_result = base_arena_zalloc(arena, program->tensor_count + 1);
    if (data == NULL || folding->is_result == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(place_constants(folding));
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint32_t tensor = wanted->tensors[i];
        base_assert(tensor < program->tensor_count);
        folding->is_result[tensor] = true;
        if (program->tensors[tensor].alias != ENG_NONE) {
            folding->is_result[program->tensors[tensor].alias] = true;
        }
    }
    BASE_TRY(run_commands(folding));
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint32_t tensor = wanted->tensors[i], root = program->tensors[tensor].alias;
        if (root != ENG_NONE) {
            data[tensor] = data[root];
        }
        if (data[tensor] == NULL) {
            return base_error_set(folding->error, BASE_ERR_BUG,
                                  "a folded program leaves output %u unset", i);
        }
        wanted->arrays[i] = (struct eng_array){program->tensors[tensor].desc, data[tensor]};
    }
    return BASE_OK;
}

enum base_status eng_fold_run(void *ctx, struct eng_program *program,
                              const struct eng_contents *wanted, struct base_error *error)
{
    struct eng_fold *fold = ctx;
    struct base_error local = {0};
    struct folding folding = {.fold = fold,
                              .program = program,
                              .wanted = wanted,
                              .error = error != NULL ? error : &local};
    base_assert(wanted->arena != &fold->arena); // ours is emptied before they are read
    BASE_TRY(eng_watch_look(fold->watch, error));
    enum base_status status = run_program(&folding);
    base_arena_reset(&fold->arena);
    return status;
}
