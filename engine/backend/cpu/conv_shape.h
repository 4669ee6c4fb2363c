// A convolution's shape in one form for every kernel: three spatial dims (missing ones are 1, in
// front), counted in pixels, channels last.
#ifndef ENG_CPU_CONV_SHAPE_H
#define ENG_CPU_CONV_SHAPE_H

#include "program/program.h"

struct eng_conv_shape {
    int64_t batch, groups, in_channels, out_channels;  // channels of all groups together
    int64_t in[3], out[3];                             // depth, height, width
    int64_t kernel[3], stride[3], dilation[3], pad[3]; // pad: before; what lies behind follows
    bool padded; // some tap of some output lies outside the input
    bool exact;  // as the command has it
};

// Of a CONV command. UNSUPPORTED: not float32, not channels-last, or empty.
BASE_NODISCARD enum base_status eng_conv_shape_of(const struct eng_program *program,
                                                  const struct eng_command *command,
                                                  struct eng_conv_shape *out);
// The same from input and output themselves; for gradients, whose commands have other operands.
BASE_NODISCARD enum base_status eng_conv_shape_from(const struct eng_conv *conv,
                                                    const struct eng_desc *input,
                                                    const struct eng_desc *output,
                                                    struct eng_conv_shape *out);
static inline int64_t eng_conv_taps(const struct eng_conv_shape *shape)
{
    return shape->kernel[0] * shape->kernel[1] * shape->kernel[2];
}
double eng_conv_flops(const struct eng_conv_shape *shape);

#endif
