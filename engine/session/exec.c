// Programs on backends: steps, memory, the run loop.
//
// Called by sessions (segments, constant folding) and the trainer on the thread that owns the
// session. Backends spread a step over the pool themselves.
#include "session/exec.h"

#include "backend/run_device.h"
#include "backend/pack.h"
#include "base/carve.h"
#include "base/check.h"
#include "base/clock.h"
#include "program/plan_memory.h"
#include "session/exec_device.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u

static bool is_loose(const struct eng_tensor *tensor)
{
    return tensor->kind == ENG_CONST && tensor->desc.dtype == ENG_F32 &&
           (uintptr_t)tensor->data % sizeof(float) != 0;
}

static enum base_status choose_backend(const struct eng_prepare *ctx,
                                       const struct eng_program *program,
                                       const struct eng_command *command, struct eng_step *out_step)
{
    enum base_status status = BASE_ERR_UNSUPPORTED;
    if (ctx->error != NULL) {
        ctx->error->text[0] = '\0';
    }
    if (ctx->device != NULL) {
        status = ctx->device->prepare(ctx, program, command, out_step);
    }
    if (status == BASE_ERR_UNSUPPORTED && ctx->kernels != NULL) {
        *out_step = (struct eng_step){0};
        status = eng_cpu_prepare(ctx, program, command, out_step);
    }
    if (status == BASE_ERR_UNSUPPORTED) {
        *out_step = (struct eng_step){0};
        status = eng_ref_prepare(ctx, program, command, out_step);
    }
    return status;
}

// Prepares while the loose inputs are read from aligned copies, which then go away: whoever packs
// reads them now or never.
static enum base_status choose_aligned(const struct eng_prepare *ctx,
                                       const struct eng_program *program,
                                       const struct eng_command *command, struct eng_step *out_step)
{
    for (uint32_t i = 0; i < command->input_count; i++) {
        uint32_t number = command->inputs[i];
        if (number == ENG_NONE || !is_loose(&program->tensors[number])) {
            continue;
        }
        struct eng_tensor *tensor = &program->tensors[number];
        base_assert(tensor->alias == ENG_NONE); // constants have none
        const void *raw = tensor->data;
        size_t bytes = eng_desc_bytes(&tensor->desc);
        void *copy = malloc(bytes);
        if (copy == NULL) {
            return BASE_ERR_NOMEM;
        }
        memcpy(copy, raw, bytes);
        tensor->data = copy;
        enum base_status status = choose_aligned(ctx, program, command, out_step);
        tensor->data = raw;
        free(copy);
        return status;
    }
    return choose_backend(ctx, program, command, out_step);
}

enum base_status eng_exec_step(const struct eng_prepare *ctx, const struct eng_program *program,
                               const struct eng_command *command, struct eng_step *out_step)
{
    *out_step = (struct eng_step){0};
    enum base_status status = choose_aligned(ctx, program, command, out_step);
    if (status == BASE_ERR_UNSUPPORTED && (ctx->error == NULL || ctx->error->text[0] == '\0')) {
        return base_error_set(ctx->error, status, "no backend runs the command '%s'",
                              eng_atomic_text(command->op));
    }
    if (status == BASE_OK) {
        out_step->program = program;
        out_step->command = command;
        out_step->work = eng_command_work(program, command);
        base_assert(out_step->run != NULL);
    }
    return status;
}

// Weights that are packed now are not read again in the form of the file; if some other step does
// read them, their pages come back by themselves.
static void release_packed(const struct eng_prepare *ctx, const struct eng_program *program,
                           const struct eng_command *command)
{
    if (ctx->model == NULL || ctx->packs == NULL) {
        return;
    }
    for (uint32_t i = 0; i < command->input_count; i++) {
        uint32_t tensor = command->inputs[i];
        const struct eng_tensor *t = tensor != ENG_NONE ? &program->tensors[tensor] : NULL;
        if (t != NULL && t->identity != NULL && eng_pack_has(ctx->packs, t->identity)) {
            eng_model_release_pages(ctx->model, t->identity, eng_desc_bytes(&t->desc));
        }
    }
}

static enum base_status prepare_steps(struct eng_exec *exec, const struct eng_prepare *ctx,
                                      size_t *out_scratch)
{
    base_assert(exec->step_count == 0);
    const struct eng_program *program = exec->program;
    size_t scratch = 0;
    exec->steps = base_arena_zalloc(ctx->arena, (program->command_count + 1) * sizeof *exec->steps);
    if (exec->steps == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < program->command_count; i++) {
        BASE_TRY(eng_watch_look(ctx->watch, ctx->error));
        BASE_TRY(eng_exec_step(ctx, program, &program->commands[i], &exec->steps[i]));
        if (!exec->steps[i].on_device && exec->steps[i].scratch_bytes > scratch) {
            scratch = exec->steps[i].scratch_bytes;
        }
        release_packed(ctx, program, &program->commands[i]);
    }
    // Once more for all: packing one may have brought neighbours in the file back.
    for (uint32_t i = 0; i < program->command_count; i++) {
        release_packed(ctx, program, &program->commands[i]);
    }
    exec->step_count = program->command_count;
    *out_scratch = scratch;
    return BASE_OK;
}

size_t eng_exec_buffer_limit(const struct eng_prepare *ctx)
{
    size_t limit = ctx->buffer_bytes_max;
    return limit != 0 && limit < ENG_BUFFER_BYTES_MAX ? limit : ENG_BUFFER_BYTES_MAX;
}

// Offsets of the TEMP tensors in one buffer.
static enum base_status lay_out(struct eng_exec *exec, const struct eng_prepare *ctx,
                                struct eng_memory_plan *out_plan)
{
    size_t limit = eng_exec_buffer_limit(ctx);
    enum base_status status = eng_program_plan_memory(exec->program, ctx->arena, limit, out_plan);
    if (status == BASE_ERR_TOO_LARGE) {
        return base_error_set(ctx->error, status,
                              "the plan needs more than %zu bytes of activations", limit);
    }
    BASE_TRY(status);
    base_assert(out_plan->total_bytes <= limit);
    base_assert(out_plan->total_bytes <= out_plan->unshared_bytes);
    exec->buffer_bytes = out_plan->total_bytes;
    exec->activation_bytes = out_plan->unshared_bytes;
    return BASE_OK;
}

// Aliases point where their tensors do; those of inputs move with them, run by run.
static enum base_status place_aliases(struct eng_exec *exec, const struct eng_prepare *ctx)
{
    const struct eng_program *program = exec->program;
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        count += program->tensors[i].alias != ENG_NONE;
    }
    exec->aliases = base_arena_zalloc(ctx->arena, (count + 1u) * sizeof *exec->aliases);
    if (exec->aliases == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        uint32_t root = program->tensors[i].alias;
        if (root == ENG_NONE) {
            continue;
        }
        base_assert(root < program->tensor_count && program->tensors[root].alias == ENG_NONE);
        exec->data[i] = exec->data[root];
        if (program->tensors[root].kind == ENG_INPUT || program->tensors[root].kind == ENG_PARAM) {
            exec->aliases[exec->alias_count++] = i;
        }
    }
    base_assert(exec->alias_count <= count);
    return BASE_OK;
}

// Constants that lie at an odd address and are read as numbers get an aligned copy.
static enum base_status align_constants(struct eng_exec *exec, const struct eng_prepare *ctx)
{
    const struct eng_program *program = exec->program;
    base_assert(exec->step_count == program->command_count); // who reads what is known
    bool *is_read = base_arena_zalloc(ctx->arena, program->tensor_count + 1u);
    if (is_read == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < exec->step_count; i++) {
        const struct eng_command *command = exec->steps[i].command;
        for (uint32_t j = 0; j < command->input_count; j++) {
            if (command->inputs[j] != ENG_NONE && (j > 31 || !(exec->steps[i].loose >> j & 1))) {
                is_read[command->inputs[j]] = true;
            }
        }
    }
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        const struct eng_tensor *tensor = &program->tensors[i];
        if (is_loose(tensor) && (is_read[i] || tensor->is_output)) {
            exec->data[i] =
                base_arena_copy(ctx->arena, tensor->data, eng_desc_bytes(&tensor->desc));
            if (exec->data[i] == NULL) {
                return BASE_ERR_NOMEM;
            }
        }
    }
    return BASE_OK;
}

static enum base_status place(struct eng_exec *exec, const struct eng_prepare *ctx,
                              const struct eng_memory_plan *plan)
{
    const struct eng_program *program = exec->program;
    exec->data = base_arena_zalloc(ctx->arena, (program->tensor_count + 1) * sizeof *exec->data);
    if (exec->data == NULL) {
        return BASE_ERR_NOMEM;
    }
    exec->buffer = aligned_alloc(ALIGNMENT, exec->buffer_bytes + ALIGNMENT);
    if (exec->buffer == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        const struct eng_tensor *tensor = &program->tensors[i];
        if (tensor->kind == ENG_CONST) {
            exec->data[i] = (void *)(uintptr_t)tensor->data; // steps only read it
        } else if (plan->offsets[i] != ENG_PLAN_NOWHERE) {
            base_assert(plan->offsets[i] % ALIGNMENT == 0);
            base_assert(plan->offsets[i] + eng_desc_bytes(&tensor->desc) <= exec->buffer_bytes);
            exec->data[i] = exec->buffer + plan->offsets[i];
        }
    }
    BASE_TRY(align_constants(exec, ctx));
    return place_aliases(exec, ctx);
}

enum base_status eng_exec_init(struct eng_exec *exec, const struct eng_program *program,
                               const struct eng_prepare *ctx)
{
    *exec = (struct eng_exec){.program = program};
    struct eng_memory_plan plan;
    size_t scratch = 0;
    BASE_TRY(lay_out(exec, ctx, &plan)); // what is too large fails before anything is packed
    BASE_TRY(prepare_steps(exec, ctx, &scratch));
    if (scratch > eng_exec_buffer_limit(ctx)) {
        return base_error_set(ctx->error, BASE_ERR_TOO_LARGE,
                              "a step needs %zu bytes beside the activations, more than %zu",
                              scratch, eng_exec_buffer_limit(ctx));
    }
    if (scratch > 0) {
        scratch = base_aligned(scratch, ALIGNMENT);
        exec->scratch = aligned_alloc(ALIGNMENT, scratch);
        if (exec->scratch == NULL) {
            return BASE_ERR_NOMEM;
        }
        exec->scratch_bytes = scratch;
        base_assert(exec->scratch_bytes % ALIGNMENT == 0);
    }
    BASE_TRY(place(exec, ctx, &plan));
    return ctx->device != NULL ? eng_exec_device_init(exec, ctx) : BASE_OK;
}

void eng_exec_done(struct eng_exec *exec)
{
    eng_exec_device_done(exec->device);
    free(exec->buffer);
    free(exec->scratch);
    *exec = (struct eng_exec){0};
}

enum base_status eng_exec_name_failure(const struct eng_step *step, const struct eng_exec_run *run,
                                       enum base_status status)
{
    base_assert(status != BASE_OK);
    if (run->graph == NULL || run->error == NULL || step->command->node >= run->graph->node_count) {
        return status;
    }
    char text[BASE_ERROR_TEXT_MAX];
    memcpy(text, run->error->text, sizeof text);
    text[sizeof text - 1] = '\0';
    return eng_node_error(&run->graph->nodes[step->command->node], run->error, status, "%s",
                          text[0] != '\0' ? text : base_status_text(status));
}

enum base_status eng_exec_run(const struct eng_exec *exec, const struct eng_exec_run *run)
{
    base_assert(exec->step_count == exec->program->command_count);
    struct base_error local = {0};
    struct eng_run state = {
        .data = exec->data,
        .pool = run->pool,
        .scratch = exec->scratch,
        .watch = run->watch,
        .error = run->error != NULL ? run->error : &local,
    };
    for (uint32_t i = 0; i < exec->alias_count; i++) {
        uint32_t alias = exec->aliases[i];
        exec->data[alias] = exec->data[exec->program->tensors[alias].alias];
    }
    if (exec->device != NULL) {
        return eng_exec_device_run(exec, run, &state);
    }
    for (uint32_t i = 0; i < exec->step_count; i++) {
        const struct eng_step *step = &exec->steps[i];
        BASE_TRY(eng_watch_spend(run->watch, step->work, run->error));
        uint64_t begin_us = run->events != NULL ? base_clock_mono_us() : 0;
        enum base_status status = eng_step_run(step, &state);
        if (status != BASE_OK) {
            return eng_exec_name_failure(step, run, status);
        }
        if (run->events != NULL) {
            run->events[i] = (struct eng_event){begin_us, base_clock_mono_us() - begin_us};
        }
    }
    return BASE_OK;
}
