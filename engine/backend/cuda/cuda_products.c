// Products and convolutions for the CUDA kernels: float32, either layout, 1 to 3 spatial
// dimensions (those that are not there get size 1). Called by cuda_prepare.c on the planning
// thread.
#include "backend/cuda/cuda_describe.h"

#include "base/check.h"

// Of a grid of blocks in its second and third dimension.
#define GRID_MAX  65535
#define TILE_SIZE 64 // of kernels/cuda_products.cu

// The place of a tensor among the inputs, which the kernel knows it by. False: it is not there.
static bool place_of(const struct eng_command *command, uint32_t tensor, uint32_t *out)
{
    *out = ENG_NONE;
    for (uint32_t i = 0; i < command->input_count && tensor != ENG_NONE; i++) {
        if (command->inputs[i] == tensor) {
            *out = i;
        }
    }
    return tensor == ENG_NONE || *out != ENG_NONE;
}

static bool describe_finish(const struct eng_command *command, const struct eng_epilogue *epilogue,
                            struct eng_cuda_finish *out)
{
    _Static_assert(ENG_NONE == UINT32_MAX, "the kernels compare with that");
    *out = (struct eng_cuda_finish){
        .has_activation = epilogue->has_activation,
        .activation = {epilogue->activation, epilogue->alpha, epilogue->beta}};
    return place_of(command, epilogue->bias, &out->bias) &&
           place_of(command, epilogue->residual, &out->residual);
}

static bool describe_matmul(const struct eng_command *command, struct eng_cuda_wish *wish)
{
    const uint32_t batch_rank = command->u.matmul.batch_rank;
    base_assert(command->box.rank == batch_rank + 3);
    struct eng_cuda_matmul *out = &wish->params.matmul;
    *out = (struct eng_cuda_matmul){.batches = 1,
                                    .rows = command->box.size[batch_rank],
                                    .columns = command->box.size[batch_rank + 1],
                                    .depth = command->box.size[batch_rank + 2],
                                    .batch_rank = batch_rank,
                                    .a = command->views[0],
                                    .b = command->views[1],
                                    .alpha = command->u.matmul.alpha};
    for (uint32_t d = 0; d < batch_rank; d++) {
        out->batch_size[d] = command->box.size[d];
        out->batches *= command->box.size[d];
    }
    wish->kernel = ENG_CUDA_MATMUL;
    return out->batches <= GRID_MAX && out->columns <= (int64_t)GRID_MAX * TILE_SIZE &&
           describe_finish(command, &command->u.matmul.epilogue, &out->finish);
}

static struct eng_cuda_side side_of(const struct eng_tensor *tensor, int64_t groups)
{
    int64_t strides[ENG_RANK_MAX] = {0};
    eng_layout_strides(&tensor->desc, tensor->layout, strides);
    base_assert(groups > 0 && tensor->desc.rank >= 3 && tensor->desc.rank <= ENG_SPATIAL_MAX + 2);
    struct eng_cuda_side side = {.channels = tensor->desc.dims[1] / groups,
                                 .dims = {1, 1, 1},
                                 .batch_stride = strides[0],
                                 .channel_stride = strides[1]};
    for (uint32_t d = 0; d + 2 < tensor->desc.rank; d++) {
        side.dims[d] = tensor->desc.dims[d + 2];
        side.stride[d] = strides[d + 2];
    }
    return side;
}

static bool describe_conv(const struct eng_program *program, const struct eng_command *command,
                          struct eng_cuda_wish *wish)
{
    const struct eng_conv *conv = &command->u.conv;
    const struct eng_tensor *x = eng_cuda_tensor(program, command->inputs[0]);
    const struct eng_tensor *y = eng_cuda_tensor(program, command->outputs[0]);
    if (conv->spatial < 1 || conv->spatial > ENG_SPATIAL_MAX || conv->groups < 1) {
        return false;
    }
    struct eng_cuda_conv *out = &wish->params.conv;
    base_assert(y->desc.rank == conv->spatial + 2 && x->desc.rank == y->desc.rank);
    *out = (struct eng_cuda_conv){.batch = y->desc.dims[0],
                                  .groups = conv->groups,
                                  .taps = 1,
                                  .x = side_of(x, conv->groups),
                                  .y = side_of(y, conv->groups)};
    for (uint32_t d = 0; d < ENG_SPATIAL_MAX; d++) {
        const bool is_there = d < conv->spatial;
        out->kernel[d] = is_there ? conv->kernel[d] : 1;
        out->stride[d] = is_there ? conv->stride[d] : 1;
        out->dilation[d] = is_there ? conv->dilation[d] : 1;
        out->pad[d] = is_there ? conv->pad_begin[d] : 0;
        out->taps *= out->kernel[d];
    }
    const bool is_transposed = command->op == ENG_OP_CONV_TRANSPOSE;
    const bool is_depthwise = out->x.channels == 1 && conv->groups > 1;
    wish->kernel = is_transposed  ? ENG_CUDA_TRANSPOSED
                   : is_depthwise ? ENG_CUDA_DEPTHWISE
                                  : ENG_CUDA_CONV;
    return conv->groups <= GRID_MAX && out->y.channels <= (int64_t)GRID_MAX * TILE_SIZE &&
           describe_finish(command, &conv->epilogue, &out->finish);
}

bool eng_cuda_describe_product(const struct eng_program *program, const struct eng_command *command,
                               struct eng_cuda_wish *wish)
{
    if (!eng_cuda_is_f32(program, command)) {
        return false;
    }
    return command->op == ENG_OP_MATMUL ? describe_matmul(command, wish)
                                        : describe_conv(program, command, wish);
}
