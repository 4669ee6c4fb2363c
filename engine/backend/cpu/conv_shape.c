// Reads a CONV command into the one shape the kernels work with: three spatial dims, channels last,
// floats. Called on the planning thread by all that prepare convolutions (conv_prepare.c,
// conv_chain.c) or their gradients (conv_grad.c, conv_grad_input.c). What does not fit that shape
// is UNSUPPORTED here and is left to the reference backend, so no kernel checks types or layouts
// again.
#include "backend/cpu/conv_shape.h"

#include "base/check.h"
#include "model/graph.h"

static bool is_channels_last(const struct eng_program *program, uint32_t tensor)
{
    return program->tensors[tensor].desc.dtype == ENG_F32 &&
           program->tensors[tensor].layout == ENG_CHANNELS_LAST;
}

static bool is_float(const struct eng_program *program, uint32_t tensor)
{
    return tensor == ENG_NONE || program->tensors[tensor].desc.dtype == ENG_F32;
}

enum base_status eng_conv_shape_of(const struct eng_program *program,
                                   const struct eng_command *command, struct eng_conv_shape *out)
{
    const struct eng_conv *conv = &command->u.conv;
    if (!is_channels_last(program, command->inputs[0]) ||
        !is_channels_last(program, command->outputs[0]) || !is_float(program, command->inputs[1]) ||
        !is_float(program, conv->epilogue.bias) ||
        (conv->epilogue.residual != ENG_NONE &&
         !is_channels_last(program, conv->epilogue.residual))) {
        return BASE_ERR_UNSUPPORTED;
    }
    return eng_conv_shape_from(conv, &program->tensors[command->inputs[0]].desc,
                               &program->tensors[command->outputs[0]].desc, out);
}

enum base_status eng_conv_shape_from(const struct eng_conv *conv, const struct eng_desc *input,
                                     const struct eng_desc *output, struct eng_conv_shape *out)
{
    struct eng_conv_shape s = {
        .batch = input->dims[0],
        .groups = conv->groups,
        .in_channels = input->dims[1],
        .out_channels = output->dims[1],
        .exact = conv->exact,
    };
    base_assert(conv->spatial >= 1 && conv->spatial <= 3);
    base_assert(input->rank == conv->spatial + 2 && output->rank == input->rank);
    if (eng_desc_count(input) == 0 || eng_desc_count(output) == 0 || s.groups < 1) {
        return BASE_ERR_UNSUPPORTED;
    }
    for (uint32_t d = 0; d < 3; d++) {
        s.in[d] = s.out[d] = s.kernel[d] = s.stride[d] = s.dilation[d] = 1;
        if (d + conv->spatial < 3) {
            continue;
        }
        const uint32_t from = d + conv->spatial - 3;
        s.in[d] = input->dims[2 + from];
        s.out[d] = output->dims[2 + from];
        s.kernel[d] = conv->kernel[from];
        s.stride[d] = conv->stride[from];
        s.dilation[d] = conv->dilation[from];
        s.pad[d] = conv->pad_begin[from];
        const int64_t last = (s.out[d] - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d];
        s.padded = s.padded || s.pad[d] != 0 || last >= s.in[d];
    }
    *out = s;
    return BASE_OK;
}

double eng_conv_flops(const struct eng_conv_shape *shape)
{
    base_assert(shape->groups > 0 && shape->in_channels % shape->groups == 0);
    return 2.0 * (double)(shape->batch * shape->out[0] * shape->out[1] * shape->out[2]) *
           (double)shape->out_channels * (double)(shape->in_channels / shape->groups) *
           (double)eng_conv_taps(shape);
}
