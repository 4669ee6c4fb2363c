// Pools and resizes for the CUDA kernels: float32, 1 to 3 spatial dimensions of a pool. Indices of
// maxima and antialias are left to the host. Dimensions that are not there get size 1. Called by
// cuda_prepare.c on the planning thread.
#include "backend/cuda/cuda_describe.h"

#include "base/check.h"

#include <math.h>

static struct eng_cuda_side side_of(const struct eng_tensor *tensor)
{
    int64_t strides[ENG_RANK_MAX] = {0};
    eng_layout_strides(&tensor->desc, tensor->layout, strides);
    base_assert(tensor->desc.rank >= 3 && tensor->desc.rank <= ENG_SPATIAL_MAX + 2);
    struct eng_cuda_side side = {.channels = tensor->desc.dims[1],
                                 .dims = {1, 1, 1},
                                 .batch_stride = strides[0],
                                 .channel_stride = strides[1]};
    for (uint32_t d = 0; d + 2 < tensor->desc.rank; d++) {
        side.dims[d] = tensor->desc.dims[d + 2];
        side.stride[d] = strides[d + 2];
    }
    return side;
}

static bool describe_pool(const struct eng_program *program, const struct eng_command *command,
                          struct eng_cuda_wish *wish)
{
    const struct eng_pool *pool = &command->u.pool;
    const struct eng_tensor *y = eng_cuda_tensor(program, command->outputs[0]);
    if (pool->spatial < 1 || pool->spatial > ENG_SPATIAL_MAX ||
        (command->output_count > 1 && command->outputs[1] != ENG_NONE)) {
        return false;
    }
    struct eng_cuda_pool *out = &wish->params.pool;
    base_assert(y->desc.rank == pool->spatial + 2);
    *out = (struct eng_cuda_pool){.count = eng_desc_count(&y->desc),
                                  .fn = pool->fn,
                                  .count_include_pad = pool->count_include_pad,
                                  .p = (float)pool->p,
                                  .x = side_of(eng_cuda_tensor(program, command->inputs[0])),
                                  .y = side_of(y)};
    for (uint32_t d = 0; d < ENG_SPATIAL_MAX; d++) {
        const bool is_there = d < pool->spatial;
        out->kernel[d] = is_there ? pool->kernel[d] : 1;
        out->stride[d] = is_there ? pool->stride[d] : 1;
        out->dilation[d] = is_there ? pool->dilation[d] : 1;
        out->pad[d] = is_there ? pool->pad_begin[d] : 0;
        out->pad_end[d] = is_there ? pool->pad_end[d] : 0;
    }
    wish->kernel = ENG_CUDA_POOL;
    return true;
}

// As axis_of in backend/ref/ref_resize.c: a scale that came from sizes is taken at full precision.
static struct eng_cuda_axis axis_of(const struct eng_resize *resize, uint32_t dim, int64_t in,
                                    int64_t out)
{
    const double exact = (double)out / (double)in, scale = (double)resize->scale[dim];
    struct eng_cuda_axis axis = {.in = in,
                                 .out = out,
                                 .roi_begin = (double)resize->roi_begin[dim],
                                 .roi_end = (double)resize->roi_end[dim]};
    axis.scale = scale <= 0 || fabs(scale - exact) < 1e-6 * exact ? exact : scale;
    axis.resized = axis.scale * (double)in;
    axis.is_identity = in == out && axis.scale == 1 && resize->coord != ENG_COORD_TF_CROP &&
                       resize->coord != ENG_COORD_TF_HALF_PIXEL;
    return axis;
}

static bool describe_resize(const struct eng_program *program, const struct eng_command *command,
                            struct eng_cuda_wish *wish)
{
    const struct eng_resize *resize = command->u.resize;
    const struct eng_desc *in = &eng_cuda_tensor(program, command->inputs[0])->desc;
    const struct eng_desc *out = &eng_cuda_tensor(program, command->outputs[0])->desc;
    if (resize->antialias || in->rank != out->rank || eng_desc_count(in) == 0) {
        return false;
    }
    wish->kernel = ENG_CUDA_RESIZE;
    wish->params.resize = (struct eng_cuda_resize){.count = eng_desc_count(out),
                                                   .rank = in->rank,
                                                   .fn = resize->fn,
                                                   .coord = resize->coord,
                                                   .round = resize->round,
                                                   .cubic_a = resize->cubic_a,
                                                   .extrapolation = resize->extrapolation,
                                                   .exclude_outside = resize->exclude_outside};
    for (uint32_t d = 0; d < in->rank; d++) {
        wish->params.resize.axes[d] = axis_of(resize, d, in->dims[d], out->dims[d]);
    }
    return true;
}

bool eng_cuda_describe_window(const struct eng_program *program, const struct eng_command *command,
                              struct eng_cuda_wish *wish)
{
    if (!eng_cuda_is_f32(program, command)) {
        return false;
    }
    base_assert(command->op == ENG_OP_POOL || command->op == ENG_OP_RESIZE);
    return command->op == ENG_OP_POOL ? describe_pool(program, command, wish)
                                      : describe_resize(program, command, wish);
}
