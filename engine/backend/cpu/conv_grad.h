// What the gradients of convolutions share. Nobody outside conv_grad*.c includes this.
#ifndef ENG_CPU_CONV_GRAD_H
#define ENG_CPU_CONV_GRAD_H

#include "backend/backend.h"
#include "backend/cpu/conv_shape.h"

// Output channels whose weights are stored together: a line of the sums.
#define ENG_GRAD_STORE_CHANNELS 16

#endif
