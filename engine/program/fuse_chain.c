// Depthwise convolutions together with those of single pixels before and behind them: what
// MobileNets are made of. The tensors between are several times as large as those around; as one
// command a backend goes through the image in bands of rows, and they never leave the cache. Called
// by fuse.c on the planning thread, after bias, residual and activation have moved in.
#include "program/fuse.h"
#include "base/check.h"
#include "program/fuse_index.h"

#include <string.h>

static bool is_plain_conv(const struct eng_fuse *fuse, const struct eng_command *command)
{
    if (command == NULL || command->op != ENG_OP_CONV || command->u.conv.spatial != 2) {
        return false;
    }
    const struct eng_tensor *tensors = fuse->program->tensors;
    for (uint32_t i = 0; i < command->input_count; i++) {
        if (!eng_fuse_is_f32(fuse, command->inputs[i])) {
            return false;
        }
    }
    const struct eng_tensor *x = &tensors[command->inputs[0]];
    const struct eng_tensor *y = &tensors[command->outputs[0]];
    return x->layout == ENG_CHANNELS_LAST && y->layout == ENG_CHANNELS_LAST &&
           eng_desc_count(&x->desc) > 0 && eng_desc_count(&y->desc) > 0 &&
           tensors[command->inputs[1]].kind == ENG_CONST;
}

static bool is_depthwise(const struct eng_fuse *fuse, const struct eng_command *command)
{
    if (!is_plain_conv(fuse, command)) {
        return false;
    }
    const struct eng_tensor *tensors = fuse->program->tensors;
    const int64_t channels = tensors[command->inputs[0]].desc.dims[1];
    return command->u.conv.groups == channels && channels > 1 &&
           tensors[command->outputs[0]].desc.dims[1] == channels;
}

// One pixel in, one pixel out, all channels of one with all of the other.
static bool is_point(const struct eng_fuse *fuse, const struct eng_command *command)
{
    if (!is_plain_conv(fuse, command) || command->u.conv.groups != 1) {
        return false;
    }
    const struct eng_conv *conv = &command->u.conv;
    for (uint32_t d = 0; d < conv->spatial; d++) {
        if (conv->kernel[d] != 1 || conv->stride[d] != 1 || conv->pad_begin[d] != 0 ||
            conv->pad_end[d] != 0) {
            return false;
        }
    }
    return true;
}

// The convolution of single pixels whose result the depthwise one alone reads.
static uint32_t find_before(const struct eng_fuse *fuse, uint32_t depthwise)
{
    const uint32_t x = fuse->program->commands[depthwise].inputs[0];
    const uint32_t before = fuse->producer[x];
    if (before == ENG_NONE || fuse->gone[before] || eng_fuse_only_reader(fuse, x) != depthwise ||
        !is_point(fuse, &fuse->program->commands[before]) ||
        fuse->program->commands[before].u.conv.epilogue.residual != ENG_NONE) {
        return ENG_NONE;
    }
    return before;
}

// The one that alone reads the depthwise one's result.
static uint32_t find_behind(const struct eng_fuse *fuse, uint32_t depthwise)
{
    const struct eng_command *command = &fuse->program->commands[depthwise];
    const uint32_t y = command->outputs[0];
    const uint32_t behind = eng_fuse_only_reader(fuse, y);
    if (behind == ENG_NONE || behind <= depthwise ||
        command->u.conv.epilogue.residual != ENG_NONE ||
        !is_point(fuse, &fuse->program->commands[behind]) ||
        fuse->program->commands[behind].inputs[0] != y) {
        return ENG_NONE;
    }
    return behind;
}

static enum base_status make_chain(struct eng_fuse *fuse, const uint32_t *parts, uint32_t count)
{
    base_assert(count > 1 && count <= ENG_CHAIN_MAX);
    struct eng_program *program = fuse->program;
    struct eng_conv_chain *chain = base_arena_zalloc(program->arena, sizeof *chain);
    struct eng_command command = {.op = ENG_OP_CONV_CHAIN, .input_count = 1, .u.chain = chain};
    for (uint32_t i = 0; i < count; i++) {
        command.input_count += program->commands[parts[i]].input_count - 1;
    }
    command.inputs = base_arena_alloc(program->arena, command.input_count * sizeof(uint32_t));
    if (chain == NULL || command.inputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    uint32_t at = 0;
    command.inputs[at++] = program->commands[parts[0]].inputs[0];
    for (uint32_t i = 0; i < count; i++) {
        const struct eng_command *conv = &program->commands[parts[i]];
        chain->convs[chain->count++] = *conv;
        memcpy(command.inputs + at, conv->inputs + 1, (conv->input_count - 1) * sizeof(uint32_t));
        at += conv->input_count - 1;
    }
    const uint32_t last = parts[count - 1];
    command.node = program->commands[last].node;
    const uint32_t y = program->commands[last].outputs[0];
    eng_fuse_replace(fuse, last, &command); // the others go: nobody reads their results
    fuse->producer[y] = last;
    return BASE_OK;
}

static int64_t bytes_of(const struct eng_fuse *fuse, uint32_t tensor)
{
    return eng_fuse_count(fuse, tensor) * (int64_t)sizeof(float);
}

enum base_status eng_fuse_chains(struct eng_fuse *fuse, int64_t bytes_min)
{
    struct eng_program *program = fuse->program;
    for (uint32_t c = 0; c < program->command_count; c++) {
        if (fuse->gone[c] || !is_depthwise(fuse, &program->commands[c])) {
            continue;
        }
        const uint32_t before = find_before(fuse, c), behind = find_behind(fuse, c);
        base_assert((before == ENG_NONE || before < c) && (behind == ENG_NONE || behind > c));
        uint32_t parts[ENG_CHAIN_MAX], count = 0;
        int64_t between = 0;
        if (before != ENG_NONE) {
            parts[count++] = before;
            between += bytes_of(fuse, program->commands[c].inputs[0]);
        }
        parts[count++] = c;
        if (behind != ENG_NONE) {
            parts[count++] = behind;
            between += bytes_of(fuse, program->commands[c].outputs[0]);
        }
        if (count > 1 && between >= bytes_min) {
            BASE_TRY(make_chain(fuse, parts, count));
        }
    }
    return BASE_OK;
}
