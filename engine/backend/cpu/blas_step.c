// Steps that hand products to OpenBLAS. Bias and residual go into C first and the product is added;
// the activation is a pass over what was just written. Prepared on the planning thread; each of the
// session's threads takes some rows or columns of the result and calls the library for them.
#include "backend/cpu/blas_step.h"

#include "backend/cpu/blas.h"
#include "backend/cpu/gemm/gemm_run.h"
#include "base/check.h"

#include <string.h>

#define IMAGES_MAX      4096 // products of one command; each is a call
#define ROWS_PER_CALL   64   // fewer are not worth a thread
#define COLUMNS_AT_ONCE 64

struct blas_step {
    const struct eng_blas *blas;
    const struct eng_gemm_kernels *kernels;
    struct eng_blas_product shape; // of one image, without operands
    struct eng_gemm_plan act;      // the activation, as the own product has it
    uint32_t a, b, c, bias, residual;
    int64_t images;
    int64_t *a_offsets, *b_offsets;
    bool by_columns;
    int64_t parts; // of an image's rows or columns
};

struct blas_run {
    const struct blas_step *d;
    const float *a, *b, *bias, *residual;
    float *c;
};

bool eng_blas_allowed(const struct eng_prepare *ctx)
{
    const struct eng_kernels *best = eng_kernels_find(NULL);
    return ctx->precision == ENG_PRECISION_HIGH && ctx->kernels != NULL && best != NULL &&
           ctx->kernels->gemm == best->gemm;
}

// --- one piece of the result ---------------------------------------------------------------------

// Bias and residual of rows x count at element `at` of C, in `column`; false when there are none
// and C is not to be read.
static bool begin_rows(const struct blas_run *blas_run, int64_t at, int64_t column, int rows,
                       int count)
{
    float *c = blas_run->c + at;
    const int64_t ldc = blas_run->d->shape.ldc;
    base_assert(column + count <= ldc && (at - column) % ldc == 0);
    if (blas_run->bias == NULL && blas_run->residual == NULL) {
        return false;
    }
    for (int i = 0; i < rows; i++) {
        float *to = c + i * ldc;
        const float *add = blas_run->bias != NULL ? blas_run->bias + column : NULL;
        const float *from = blas_run->residual != NULL ? blas_run->residual + at + i * ldc : NULL;
        if (from == NULL) {
            memcpy(to, add, (size_t)count * sizeof *to);
        } else if (add == NULL) {
            memmove(to, from, (size_t)count * sizeof *to);
        } else {
            for (int j = 0; j < count; j++) {
                to[j] = from[j] + add[j];
            }
        }
    }
    return true;
}

static void clip_row(float *input, int count, float low, float high)
{
    for (int j = 0; j < count; j++) { // in this order NaN stays
        const float above = input[j] < low ? low : input[j];
        input[j] = above > high ? high : above;
    }
}

static void leaky_row(float *input, int count, float slope)
{
    for (int j = 0; j < count; j++) {
        input[j] = input[j] < 0 ? input[j] * slope : input[j];
    }
}

static void hard_swish_row(float *input, int count, float alpha, float beta)
{
    for (int j = 0; j < count; j++) {
        float gate = alpha * input[j] + beta;
        gate = gate < 0 ? 0 : gate > 1 ? 1 : gate;
        input[j] *= gate;
    }
}

static void finish_rows(const struct blas_step *blas_step, float *out, int rows, int count)
{
    const struct eng_gemm_plan *act = &blas_step->act;
    for (int i = 0; i < rows && act->act != ENG_GEMM_ACT_NONE; i++) {
        float *x = out + (int64_t)i * blas_step->shape.ldc;
        if (act->act == ENG_GEMM_ACT_CLIP) {
            clip_row(x, count, act->alpha, act->beta);
        } else if (act->act == ENG_GEMM_ACT_LEAKY) {
            leaky_row(x, count, act->alpha);
        } else {
            hard_swish_row(x, count, act->alpha, act->beta);
        }
    }
    if (act->act_after != ENG_GEMM_ACT_NONE) {
        blas_step->kernels->act_rows(out, (size_t)rows, (size_t)blas_step->shape.ldc, (size_t)count,
                                     act->act_after);
    }
}

static void run_part(const struct blas_run *blas_run, int64_t image, int64_t part)
{
    const struct blas_step *d = blas_run->d;
    base_assert(image < d->images && part < d->parts);
    struct eng_blas_product p = d->shape;
    const int64_t whole = d->by_columns ? p.n : p.m;
    const int64_t begin = part * whole / d->parts;
    const int count = (int)((part + 1) * whole / d->parts - begin);
    const int64_t row = d->by_columns ? 0 : begin;
    const int64_t column = d->by_columns ? begin : 0;
    p.m = d->by_columns ? p.m : count;
    p.n = d->by_columns ? count : p.n;
    p.a = blas_run->a + d->a_offsets[image] + row * (p.trans_a ? 1 : p.lda);
    p.b = blas_run->b + d->b_offsets[image] + column * (p.trans_b ? p.ldb : 1);
    const int64_t at = image * d->shape.m * (int64_t)p.ldc + row * p.ldc + column;
    p.c = blas_run->c + at;
    p.beta = begin_rows(blas_run, at, column, p.m, p.n) ? 1.0F : 0.0F;
    eng_blas_sgemm(d->blas, &p);
    finish_rows(d, p.c, p.m, p.n);
}

static void run_parts(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct blas_run *r = ctx;
    for (int64_t item = begin; item < end; item++) {
        run_part(r, item / r->d->parts, item % r->d->parts);
    }
}

static enum base_status run_blas(const struct eng_step *step, const struct eng_run *run)
{
    const struct blas_step *d = step->state;
    struct blas_run r = {.d = d,
                         .a = run->data[d->a],
                         .b = run->data[d->b],
                         .c = run->data[d->c],
                         .bias = eng_run_data(run, d->bias),
                         .residual = eng_run_data(run, d->residual)};
    eng_pool_for(run->pool, d->images * d->parts, 1, run_parts, &r);
    return BASE_OK;
}

// --- preparing -----------------------------------------------------------------------------------

// An operand as it lies; strides count floats.
struct operand {
    int64_t rows, columns;
    int64_t row_stride, column_stride;
};

// Its strides as BLAS wants them: one of them 1, the other at least the length of what it steps
// over. A dimension of size 1 may have any stride.
static bool lead(const struct operand *operand, bool *out_trans, int *out_ld)
{
    const int64_t rows = operand->rows, columns = operand->columns;
    const int64_t row_stride = operand->row_stride, column_stride = operand->column_stride;
    base_assert(rows > 0 && columns > 0);
    const bool row_major = column_stride == 1 || columns == 1;
    const bool column_major = row_stride == 1 || rows == 1;
    int64_t ld;
    if (row_major && (rows == 1 || row_stride >= columns)) {
        *out_trans = false;
        ld = rows == 1 ? columns : row_stride;
    } else if (column_major && (columns == 1 || column_stride >= rows)) {
        *out_trans = true;
        ld = columns == 1 ? rows : column_stride;
    } else {
        return false;
    }
    ld = ld < 1 ? 1 : ld;
    *out_ld = (int)ld;
    return ld <= ENG_BLAS_DIM_MAX;
}

static void set_parts(struct blas_step *blas_step, const struct eng_prepare *ctx)
{
    const int64_t threads = eng_pool_threads(ctx->pool);
    base_assert(blas_step->images > 0 && blas_step->shape.m > 0 && blas_step->shape.n > 0);
    const int64_t m = blas_step->shape.m, n = blas_step->shape.n;
    blas_step->parts = 1;
    if (threads == 1 || blas_step->images >= threads) {
        return;
    }
    // Rows, when there are enough of them: columns would have each thread read all of A.
    blas_step->by_columns = m < threads * ROWS_PER_CALL && n > m;
    const int64_t most = blas_step->by_columns ? n / COLUMNS_AT_ONCE : m / (ROWS_PER_CALL / 4);
    blas_step->parts = most < 1 ? 1 : most < threads ? most : threads;
}

static enum base_status finish_prepare(struct blas_step *blas_step, const struct eng_prepare *ctx,
                                       const struct eng_epilogue *epilogue,
                                       struct eng_step *out_step)
{
    blas_step->blas = eng_blas_get();
    if (blas_step->blas == NULL) {
        return BASE_ERR_UNSUPPORTED;
    }
    blas_step->kernels = ctx->kernels->gemm;
    blas_step->bias = epilogue->bias;
    blas_step->residual = epilogue->residual;
    eng_gemm_plan_act(&blas_step->act, epilogue);
    set_parts(blas_step, ctx);
    out_step->state = blas_step;
    out_step->run = run_blas;
    return BASE_OK;
}

static bool is_plain_float(const struct eng_program *program, uint32_t tensor)
{
    return tensor == ENG_NONE || program->tensors[tensor].desc.dtype == ENG_F32;
}

static enum base_status unfold(struct blas_step *blas_step, const struct eng_prepare *ctx,
                               const struct eng_command *command)
{
    base_assert(command->box.rank == command->u.matmul.batch_rank + 3);
    const uint32_t batch = command->u.matmul.batch_rank;
    blas_step->images = 1;
    for (uint32_t i = 0; i < batch; i++) {
        if (command->box.size[i] > IMAGES_MAX || blas_step->images > IMAGES_MAX) {
            return BASE_ERR_UNSUPPORTED;
        }
        blas_step->images *= command->box.size[i];
    }
    if (blas_step->images > IMAGES_MAX) {
        return BASE_ERR_UNSUPPORTED;
    }
    const size_t bytes = (size_t)blas_step->images * sizeof(int64_t);
    blas_step->a_offsets = base_arena_alloc(ctx->arena, bytes);
    blas_step->b_offsets = base_arena_alloc(ctx->arena, bytes);
    if (blas_step->a_offsets == NULL || blas_step->b_offsets == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t image = 0; image < blas_step->images; image++) {
        int64_t rest = image;
        blas_step->a_offsets[image] = command->views[0].offset;
        blas_step->b_offsets[image] = command->views[1].offset;
        for (uint32_t i = batch; i-- > 0;) {
            const int64_t index = rest % command->box.size[i];
            rest /= command->box.size[i];
            blas_step->a_offsets[image] += index * command->views[0].stride[i];
            blas_step->b_offsets[image] += index * command->views[1].stride[i];
        }
    }
    return BASE_OK;
}

// Batch dims that go on where A's rows end are rows of one product, when one B serves them all.
static int64_t fold_rows(struct blas_step *blas_step, const struct eng_command *command)
{
    const uint32_t rank = command->u.matmul.batch_rank;
    const int64_t rows = command->box.size[rank];
    const int64_t step = rows * command->views[0].stride[rank];
    for (int64_t i = 1; i < blas_step->images; i++) {
        if (blas_step->b_offsets[i] != blas_step->b_offsets[0] ||
            blas_step->a_offsets[i] - blas_step->a_offsets[i - 1] != step) {
            return rows;
        }
    }
    const int64_t all = rows * blas_step->images;
    if (all <= ENG_BLAS_DIM_MAX) {
        blas_step->images = 1;
        return all;
    }
    return rows;
}

enum base_status eng_blas_prepare_product(const struct eng_prepare *ctx,
                                          const struct eng_program *program,
                                          const struct eng_command *command,
                                          struct eng_step *out_step)
{
    const struct eng_epilogue *epilogue = &command->u.matmul.epilogue;
    const uint32_t rank = command->u.matmul.batch_rank;
    const int64_t *size = &command->box.size[rank]; // m, n, k
    if (!eng_blas_allowed(ctx) || !is_plain_float(program, command->inputs[0]) ||
        !is_plain_float(program, command->inputs[1]) || !is_plain_float(program, epilogue->bias) ||
        !is_plain_float(program, epilogue->residual)) {
        return BASE_ERR_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < command->box.rank; i++) {
        if (command->box.size[i] <= 0 || command->box.size[i] > ENG_BLAS_DIM_MAX) {
            return BASE_ERR_UNSUPPORTED;
        }
    }
    struct blas_step *d = base_arena_zalloc(ctx->arena, sizeof(*d));
    if (d == NULL) {
        return BASE_ERR_NOMEM;
    }
    d->a = command->inputs[0];
    d->b = command->inputs[1];
    d->c = command->outputs[0];
    BASE_TRY(unfold(d, ctx, command));
    const int64_t rows = fold_rows(d, command);
    base_assert(rows == size[0] || d->images == 1); // folded into one
    d->shape = (struct eng_blas_product){.m = (int)rows,
                                         .n = (int)size[1],
                                         .k = (int)size[2],
                                         .ldc = (int)size[1],
                                         .alpha = command->u.matmul.alpha};
    const int64_t *sa = &command->views[0].stride[rank], *sb = &command->views[1].stride[rank];
    const struct operand a = {rows, size[2], sa[0], sa[2]}, b = {size[2], size[1], sb[2], sb[1]};
    if (!lead(&a, &d->shape.trans_a, &d->shape.lda) ||
        !lead(&b, &d->shape.trans_b, &d->shape.ldb)) {
        return BASE_ERR_UNSUPPORTED;
    }
    BASE_TRY(finish_prepare(d, ctx, epilogue, out_step));
    out_step->kernel = "matmul.blas";
    return BASE_OK;
}

bool eng_blas_fits_conv(const struct eng_conv_shape *shape)
{
    const int64_t pixels = shape->batch * shape->out[0] * shape->out[1] * shape->out[2];
    return eng_conv_taps(shape) == 1 && !shape->padded && shape->groups == 1 &&
           shape->stride[0] * shape->stride[1] * shape->stride[2] == 1 &&
           pixels <= ENG_BLAS_DIM_MAX && shape->in_channels <= ENG_BLAS_DIM_MAX &&
           shape->out_channels <= ENG_BLAS_DIM_MAX;
}

enum base_status eng_blas_prepare_conv(const struct eng_conv_job *job, struct eng_step *out_step)
{
    const struct eng_prepare *ctx = job->ctx;
    const struct eng_conv_shape *s = &job->shape;
    if (!eng_blas_allowed(ctx) || !eng_blas_fits_conv(s)) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct blas_step *d = base_arena_zalloc(ctx->arena, sizeof(*d));
    if (d == NULL) {
        return BASE_ERR_NOMEM;
    }
    d->a_offsets = d->b_offsets = base_arena_zalloc(ctx->arena, sizeof(int64_t));
    if (d->a_offsets == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_assert(s->out[0] == s->in[0] && s->out[1] == s->in[1]);
    base_assert(s->out[2] == s->in[2]); // pixels of x are rows of A
    d->images = 1;
    d->a = job->command->inputs[0];
    d->b = job->command->inputs[1];
    d->c = job->command->outputs[0];
    // Weights lie [out][in].
    d->shape = (struct eng_blas_product){.trans_b = true,
                                         .m = (int)(s->batch * s->out[0] * s->out[1] * s->out[2]),
                                         .n = (int)s->out_channels,
                                         .k = (int)s->in_channels,
                                         .lda = (int)s->in_channels,
                                         .ldb = (int)s->in_channels,
                                         .ldc = (int)s->out_channels,
                                         .alpha = 1.0F};
    BASE_TRY(finish_prepare(d, ctx, &job->command->u.conv.epilogue, out_step));
    out_step->kernel = "conv.blas";
    return BASE_OK;
}
