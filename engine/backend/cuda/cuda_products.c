// Products and convolutions for the CUDA kernels: float32, either layout, 1 to 3 spatial
// dimensions (those that are not there get size 1). Products whose operands lie as cuBLASLt wants
// them, and convolutions of one group, channels last, are described for it too: a convolution as a
// product of pixels, with its windows laid out where it has any. Called by cuda_prepare.c on the
// planning thread.
#include "backend/cuda/cuda_describe.h"

#include "base/check.h"

// Of a grid of blocks in its second and third dimension.
#define GRID_MAX  65535
#define TILE_SIZE 64 // of kernels/cuda_products.cu

// Of windows laid out at a time: they are read again while they are in the GPU's cache.
#define UNFOLD_BYTES ((int64_t)32 << 20)
#define UNFOLD_STEP  64 // pixels
#define LOW_DEPTH    16 // shorter sums are not worth rounding

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

// --- for cuBLASLt --------------------------------------------------------------------------------

// One operand: elements along the depth are `along` apart, rows (or columns) `across`. False: it
// would have to be copied.
static bool describe_operand(const int64_t (*size)[2], int64_t across, int64_t along,
                             struct eng_cuda_operand *out)
{
    const int64_t count = (*size)[0], depth = (*size)[1];
    if ((along == 1 || depth == 1) && (across >= depth || count == 1)) {
        out->is_long = true;
        out->step = count == 1 ? depth : across;
        return true;
    }
    out->is_long = false;
    out->step = depth == 1 ? count : along;
    return (across == 1 || count == 1) && (along >= count || depth == 1);
}

// Batches as one dimension, which goes into the rows where the right operand is the same for all.
static bool describe_batches(const struct eng_cuda_matmul *matmul, struct eng_cuda_gemm *out)
{
    int64_t a = 0, b = 0, inner = 1; // inner: batches in the dimensions behind
    base_assert(matmul->batch_rank <= ENG_RANK_MAX);
    for (uint32_t d = matmul->batch_rank; d-- > 0;) {
        const int64_t a_stride = matmul->a.stride[d], b_stride = matmul->b.stride[d];
        if (matmul->batch_size[d] == 1) {
            continue;
        }
        if (inner == 1) {
            a = a_stride;
            b = b_stride;
        } else if (a_stride != a * inner || b_stride != b * inner) {
            return false;
        }
        inner *= matmul->batch_size[d];
    }
    out->a.batch = a;
    out->b.batch = b;
    if (inner > 1 && b == 0 && out->a.is_long && a == out->rows * out->a.step) {
        out->rows *= inner;
        out->batches = 1;
        out->a.batch = 0;
    }
    return a >= 0 && b >= 0;
}

static void describe_gemm(const struct eng_cuda_matmul *matmul, struct eng_cuda_gemm *out)
{
    const uint32_t rank = matmul->batch_rank;
    const struct eng_view *a = &matmul->a, *b = &matmul->b;
    *out = (struct eng_cuda_gemm){.batches = matmul->batches,
                                  .rows = matmul->rows,
                                  .columns = matmul->columns,
                                  .depth = matmul->depth,
                                  .alpha = matmul->alpha};
    out->is_there = out->batches > 0 && out->rows > 0 && out->columns > 0 && out->depth > 0 &&
                    describe_operand(&(const int64_t[2]){out->rows, out->depth}, a->stride[rank],
                                     a->stride[rank + 2], &out->a) &&
                    describe_operand(&(const int64_t[2]){out->columns, out->depth},
                                     b->stride[rank + 1], b->stride[rank + 2], &out->b) &&
                    describe_batches(matmul, out);
}

// Whether pixels lie side by side with all their channels.
static bool is_dense(const struct eng_cuda_side *side)
{
    int64_t step = side->channels;
    for (uint32_t d = ENG_SPATIAL_MAX; d-- > 0;) {
        if (side->dims[d] != 1 && side->stride[d] != step) {
            return false;
        }
        step *= side->dims[d];
    }
    return side->channel_stride == 1 && side->batch_stride == step;
}

static bool is_single_pixels(const struct eng_cuda_conv *conv)
{
    bool is_same = conv->taps == 1 && is_dense(&conv->x);
    for (uint32_t d = 0; d < ENG_SPATIAL_MAX; d++) {
        is_same = is_same && conv->stride[d] == 1 && conv->pad[d] == 0 &&
                  conv->x.dims[d] == conv->y.dims[d];
    }
    return is_same;
}

static void describe_pixels(struct eng_cuda_conv *conv, bool is_exact)
{
    const int64_t rows = conv->batch * conv->y.dims[0] * conv->y.dims[1] * conv->y.dims[2];
    const int64_t depth = conv->x.channels * conv->taps;
    conv->gemm = (struct eng_cuda_gemm){.batches = 1,
                                        .rows = rows,
                                        .columns = conv->y.channels,
                                        .depth = depth,
                                        .a = {.is_long = true, .step = depth},
                                        .b = {.is_long = true, .step = depth},
                                        .alpha = 1};
    // Bytes without their zero point are at most 255: bfloat16 has all of them.
    conv->gemm.is_low = is_exact;
    conv->gemm.is_there =
        conv->groups == 1 && is_dense(&conv->y) && rows > 0 && depth > 0 && conv->y.channels > 0;
    if (conv->gemm.is_there && !is_single_pixels(conv)) {
        const int64_t most = UNFOLD_BYTES / (depth * (int64_t)sizeof(float));
        const int64_t whole = most / UNFOLD_STEP * UNFOLD_STEP;
        conv->unfold_rows = rows < whole ? rows : whole < UNFOLD_STEP ? UNFOLD_STEP : whole;
    }
}

static struct eng_cuda_gemm *gemm_of(struct eng_cuda_wish *wish)
{
    struct eng_cuda_gemm *gemm = wish->kernel == ENG_CUDA_MATMUL ? &wish->params.matmul.gemm
                                 : wish->kernel == ENG_CUDA_CONV ? &wish->params.conv.gemm
                                                                 : NULL;
    return gemm != NULL && gemm->is_there ? gemm : NULL;
}

void eng_cuda_lower_precision(struct eng_cuda_wish *wish)
{
    struct eng_cuda_gemm *gemm = gemm_of(wish);
    if (gemm != NULL) {
        gemm->is_low = gemm->is_low || gemm->depth >= LOW_DEPTH;
    }
}

size_t eng_cuda_scratch_bytes(struct eng_cuda_wish *wish)
{
    const struct eng_cuda_gemm *gemm = gemm_of(wish);
    if (gemm == NULL) {
        return 0;
    }
    const int64_t unfold_rows = wish->kernel == ENG_CUDA_CONV ? wish->params.conv.unfold_rows : 0;
    const int64_t left = unfold_rows > 0 ? unfold_rows * gemm->depth
                         : gemm->is_low  ? eng_cuda_gemm_left(gemm)
                                         : 0;
    const int64_t right = gemm->is_low ? eng_cuda_gemm_right(gemm) : 0;
    return (size_t)(eng_cuda_gemm_bytes(left, gemm->is_low) +
                    eng_cuda_gemm_bytes(right, gemm->is_low));
}

// --- commands ------------------------------------------------------------------------------------

static bool describe_matmul(const struct eng_command *command, bool is_int,
                            struct eng_cuda_wish *wish)
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
    if (is_int) {
        out->is_int = true;
    } else {
        describe_gemm(out, &out->gemm);
    }
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
    if (wish->kernel == ENG_CUDA_CONV) {
        describe_pixels(out, conv->exact);
    }
    return conv->groups <= GRID_MAX && out->y.channels <= (int64_t)GRID_MAX * TILE_SIZE &&
           describe_finish(command, &conv->epilogue, &out->finish);
}

// A product of I32 that nothing is done to.
static bool is_int_product(const struct eng_program *program, const struct eng_command *command)
{
    const struct eng_epilogue *epilogue = &command->u.matmul.epilogue;
    return command->op == ENG_OP_MATMUL && command->u.matmul.alpha == 1 &&
           epilogue->bias == ENG_NONE && epilogue->residual == ENG_NONE &&
           !epilogue->has_activation && eng_cuda_type(program, command->inputs[0]) == ENG_I32 &&
           eng_cuda_type(program, command->inputs[1]) == ENG_I32 &&
           eng_cuda_type(program, command->outputs[0]) == ENG_I32;
}

bool eng_cuda_describe_product(const struct eng_program *program, const struct eng_command *command,
                               struct eng_cuda_wish *wish)
{
    const bool is_int = is_int_product(program, command);
    if (!is_int && !eng_cuda_is_f32(program, command)) {
        return false;
    }
    return command->op == ENG_OP_MATMUL ? describe_matmul(command, is_int, wish)
                                        : describe_conv(program, command, wish);
}
