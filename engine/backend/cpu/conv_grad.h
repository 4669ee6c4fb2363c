// What the gradients of convolutions share. Included by conv_grad*.c, conv_wino_live.c and
// conv_prepare.c only.
#ifndef ENG_CPU_CONV_GRAD_H
#define ENG_CPU_CONV_GRAD_H

#include "backend/backend.h"
#include "backend/cpu/conv_shape.h"

// Output channels whose weights are stored together: a line of the sums.
#define ENG_GRAD_STORE_CHANNELS 16

// conv_wino_live.c: 3 x 3, stride 1, weights that change. Inputs x (dy), w; is_turned: the gradient
// of the input, as a convolution of dy's `shape`. UNSUPPORTED: another shape, or it does not pay.
BASE_NODISCARD enum base_status eng_conv_prepare_live(const struct eng_prepare *ctx,
                                                      const struct eng_command *command,
                                                      const struct eng_conv_shape *shape,
                                                      bool is_turned, struct eng_step *out_step);

// conv_grad_wino.c: the gradient of such weights; `shape` is the forward convolution's. UNSUPPORTED
// likewise.
BASE_NODISCARD enum base_status eng_conv_prepare_grad_wino(const struct eng_prepare *ctx,
                                                           const struct eng_command *command,
                                                           const struct eng_conv_shape *shape,
                                                           struct eng_step *out_step);

// conv_grad_depthwise.c: one channel in and out a group.
BASE_NODISCARD enum base_status eng_conv_prepare_grad_depthwise(const struct eng_prepare *ctx,
                                                                const struct eng_command *command,
                                                                const struct eng_conv_shape *shape,
                                                                struct eng_step *out_step);

#endif
