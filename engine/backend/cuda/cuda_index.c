// Moves decided by contents for the CUDA kernels: gather, scatter, one-hot. Elements of any type
// but strings; arithmetic of a scatter in float32. Indices computed from coordinates are left to
// the host, which names the coordinate that is wrong. Called by cuda_prepare.c on the planning
// thread.
#include "backend/cuda/cuda_describe.h"

#include "base/check.h"

static uint32_t bytes_of(const struct eng_program *program, uint32_t tensor)
{
    return (uint32_t)eng_dtype_bytes(eng_cuda_type(program, tensor));
}

static uint32_t number_of(const struct eng_program *program, const struct eng_command *command)
{
    base_assert(command >= program->commands &&
                command < program->commands + program->command_count);
    return (uint32_t)(command - program->commands);
}

static bool describe_gather(const struct eng_program *program, const struct eng_command *command,
                            struct eng_cuda_wish *wish)
{
    wish->kernel = ENG_CUDA_GATHER;
    wish->params.gather = (struct eng_cuda_gather){
        .gather = command->u.gather,
        .count = eng_desc_count(&eng_cuda_tensor(program, command->outputs[0])->desc),
        .index_count = eng_desc_count(&eng_cuda_tensor(program, command->inputs[1])->desc),
        .bytes = bytes_of(program, command->inputs[0]),
        .index_bytes = bytes_of(program, command->inputs[1]),
        .command = number_of(program, command)};
    return command->u.gather.coords.depth == 0;
}

static bool describe_scatter(const struct eng_program *program, const struct eng_command *command,
                             struct eng_cuda_wish *wish)
{
    const struct eng_scatter *scatter = &command->u.scatter;
    wish->kernel = ENG_CUDA_SCATTER;
    wish->params.scatter =
        (struct eng_cuda_scatter){.scatter = *scatter,
                                  .bytes = bytes_of(program, command->inputs[0]),
                                  .index_bytes = bytes_of(program, command->inputs[1]),
                                  .command = number_of(program, command)};
    return scatter->coords.depth == 0 && (scatter->fn == ENG_SCATTER_SET ||
                                          eng_cuda_type(program, command->inputs[0]) == ENG_F32);
}

static bool describe_one_hot(const struct eng_program *program, const struct eng_command *command,
                             struct eng_cuda_wish *wish)
{
    const enum eng_dtype from = eng_cuda_type(program, command->inputs[0]);
    wish->kernel = ENG_CUDA_ONE_HOT;
    wish->params.one_hot =
        (struct eng_cuda_one_hot){.one_hot = command->u.one_hot,
                                  .from = from,
                                  .bytes = bytes_of(program, command->outputs[0])};
    return from == ENG_F32 || eng_cuda_is_int(from);
}

bool eng_cuda_describe_index(const struct eng_program *program, const struct eng_command *command,
                             struct eng_cuda_wish *wish)
{
    const enum eng_dtype indices = eng_cuda_type(program, command->inputs[1]);
    if (eng_cuda_type(program, command->outputs[0]) == ENG_STRING) {
        return false;
    }
    if (command->op == ENG_OP_ONE_HOT) {
        return describe_one_hot(program, command, wish);
    }
    if (indices != ENG_I32 && indices != ENG_I64) {
        return false;
    }
    return command->op == ENG_OP_GATHER ? describe_gather(program, command, wish)
                                        : describe_scatter(program, command, wish);
}
