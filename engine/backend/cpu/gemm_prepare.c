// Matrix products on the fast paths: which operand is packed when, batches, and steps. Prepare is
// called by gemm_choose.c on the planning thread, run by the session's thread, which spreads a step
// over the pool. The tables of kernels by instruction set are chosen here, too: isa.c asks once per
// process. Batches are folded into rows as far as one second operand serves them all, and equal
// operands of a batch are packed once.
#include "backend/cpu/cpu_ops.h"

#include "backend/cpu/gemm/gemm_mean.h"
#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/gemm/gemm_weights.h"
#include "base/check.h"
#include "model/graph.h"

#include <string.h>

#define BATCH_MAX        (1 << 20) // products of one command
#define COLLIDING_FLOATS 1024 // rows this many floats apart share sets of the first-level cache
#define FILL_PAD_FLOATS  16
#define LOW_K_MIN        16 // shorter sums are not worth the conversion
#define LOW_N_MIN        16 // fewer columns (scores, logits) take no time and mostly are results

const struct eng_gemm_kernels *eng_gemm_kernels_of(enum eng_isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case ENG_ISA_AVX2:
        return &eng_gemm_avx2;
    case ENG_ISA_AVX512:
    case ENG_ISA_AMX:
        return &eng_gemm_avx512;
#endif
    default:
        return &eng_gemm_generic;
    }
}

const struct eng_gemm_kernels *eng_gemm_low_kernels(const struct eng_prepare *prepare)
{
#if defined(__x86_64__)
    if (prepare->precision == ENG_PRECISION_LOW && prepare->kernels->gemm == &eng_gemm_avx512) {
        const struct eng_cpu *cpu = eng_cpu_detect();
        if (cpu->amx_bf16 && strcmp(prepare->kernels->name, eng_isa_name(ENG_ISA_AMX)) == 0) {
            return &eng_gemm_amx;
        }
        return cpu->avx512_bf16 ? &eng_gemm_bf16 : NULL;
    }
#else
    (void)prepare;
#endif
    return NULL;
}

// A product with its batch dims unfolded into offsets.
struct matmul {
    struct eng_gemm_plan plan;
    struct eng_gemm_source source; // of B; data is set by each run when B is not packed for good
    uint32_t a, b, c, bias, residual;
    int64_t a_stride_m, a_stride_k; // of the operand as it lies
    int64_t a_offset, b_offset;
    int64_t *a_offsets, *b_offsets;   // by image: what the plan points at
    int64_t *b_sources;               // packed per run: where each distinct B starts
    int64_t b_count;                  // distinct ones
    size_t b_floats;                  // of one, packed
    const float *packed;              // NULL: packed per run
    const struct eng_gemm_mean *mean; // NULL: weights are not rounded, or for too few rows
};

#if defined(__x86_64__)
static void fill_pairs(const struct matmul *matmul, const float *from, int64_t rows, float *buffer)
{
    const size_t k = (size_t)matmul->source.dims[0];
    base_assert((size_t)matmul->plan.k * 2 >= k && matmul->a_stride_k == 1);
    for (int64_t r = 0; r < rows; r++) {
        uint16_t *to = (uint16_t *)(void *)(buffer + r * matmul->plan.lda);
        eng_gemm_to_bf16(from + r * matmul->a_stride_m, k, to);
        memset(to + k, 0, ((size_t)matmul->plan.k * 2 - k) * sizeof(*to));
    }
}
#else
static void fill_pairs(const struct matmul *matmul, const float *from, int64_t rows, float *buffer)
{
    (void)matmul, (void)from, (void)rows, (void)buffer;
}
#endif

// Copies rows of A so that they neither collide in the cache nor lie with a stride along K.
static void fill_rows(const void *ctx, const float *input, const struct eng_gemm_band *band,
                      float *buffer)
{
    const struct matmul *m = ctx;
    const struct eng_gemm_plan *plan = &m->plan;
    const int64_t first = band->row * plan->width, wanted = band->rows * plan->width;
    const int64_t left = plan->row_limit - first, rows = wanted < left ? wanted : left;
    base_assert(rows > 0 && band->image < plan->images);
    const float *from = input + m->a_offsets[band->image] + first * m->a_stride_m;
    if (plan->kernels->pair_step > 0) {
        fill_pairs(m, from, rows, buffer);
        return;
    }
    if (m->a_stride_k == 1) {
        for (int64_t r = 0; r < rows; r++) {
            memcpy(buffer + r * plan->lda, from + r * m->a_stride_m, plan->k * sizeof(float));
        }
        return;
    }
    for (uint32_t k = 0; k < plan->k; k++) {
        for (int64_t r = 0; r < rows; r++) {
            buffer[r * plan->lda + k] = from[r * m->a_stride_m + k * m->a_stride_k];
        }
    }
}

static bool is_float(const struct eng_program *program, uint32_t tensor)
{
    return tensor == ENG_NONE || program->tensors[tensor].desc.dtype == ENG_F32;
}

static bool is_empty(const struct eng_box *box)
{
    for (uint32_t d = 0; d < box->rank; d++) {
        if (box->size[d] <= 0) {
            return true;
        }
    }
    return false;
}

// Folds batch dims into rows as far as one B serves them all and A's rows go on evenly.
static uint32_t fold_batch(const struct eng_command *command, int64_t *rows)
{
    uint32_t batch = command->u.matmul.batch_rank;
    const struct eng_view *a = &command->views[0], *b = &command->views[1];
    int64_t stride = a->stride[batch];
    base_assert(command->box.rank == batch + 3);
    *rows = command->box.size[batch];
    while (batch > 0 && (b->stride[batch - 1] == 0 || command->box.size[batch - 1] == 1) &&
           (a->stride[batch - 1] == stride * *rows || command->box.size[batch - 1] == 1)) {
        *rows *= command->box.size[batch - 1];
        batch--;
    }
    return batch;
}

// Offsets of A and B for each product of the batch; equal B are numbered once.
static enum base_status unfold_batch(const struct eng_prepare *ctx,
                                     const struct eng_command *command, uint32_t batch,
                                     struct matmul *matmul)
{
    const struct eng_view *a = &command->views[0], *b = &command->views[1];
    int64_t images = 1;
    matmul->b_count = 1;
    for (uint32_t d = 0; d < batch; d++) {
        images *= command->box.size[d];
        matmul->b_count *= b->stride[d] != 0 ? command->box.size[d] : 1;
        if (images > BATCH_MAX) {
            return BASE_ERR_UNSUPPORTED;
        }
    }
    const size_t bytes = (size_t)(images > 0 ? images : 1) * sizeof(int64_t);
    matmul->a_offsets = base_arena_alloc(ctx->arena, bytes);
    matmul->b_offsets = base_arena_alloc(ctx->arena, bytes);
    matmul->b_sources = base_arena_alloc(ctx->arena, bytes);
    if (matmul->a_offsets == NULL || matmul->b_offsets == NULL || matmul->b_sources == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t image = 0; image < images; image++) {
        int64_t rest = image, at_a = a->offset, at_b = b->offset, number = 0, radix = 1;
        for (uint32_t d = batch; d-- > 0;) {
            const int64_t i = rest % command->box.size[d];
            rest /= command->box.size[d];
            at_a += i * a->stride[d];
            at_b += i * b->stride[d];
            number += b->stride[d] != 0 ? i * radix : 0;
            radix *= b->stride[d] != 0 ? command->box.size[d] : 1;
        }
        base_assert(number < matmul->b_count);
        matmul->a_offsets[image] = at_a;
        matmul->b_offsets[image] = number * (int64_t)matmul->b_floats;
        matmul->b_sources[number] = at_b;
    }
    matmul->plan.images = images;
    return BASE_OK;
}

static void pack_one(const struct matmul *matmul, const float *right, int64_t number, float *out)
{
    base_assert(number < matmul->b_count);
    struct eng_gemm_source source = matmul->source;
    source.data = right + matmul->b_sources[number];
    eng_gemm_pack(matmul->plan.kernels, &source, out + (size_t)number * matmul->b_floats);
}

struct pack_ctx {
    const struct matmul *m;
    const float *b;
    float *out;
};

static void pack_all(void *ctx, void *out)
{
    const struct pack_ctx *pack = ctx;
    for (int64_t number = 0; number < pack->m->b_count; number++) {
        pack_one(pack->m, pack->b, number, out);
    }
}

// Panels of all distinct B are one range of work.
static void pack_some(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct pack_ctx *pack = ctx;
    const struct matmul *m = pack->m;
    const int64_t panels = eng_gemm_panels(m->plan.kernels, m->plan.n);
    for (int64_t i = begin; i < end; i++) {
        const int64_t number = i / panels, panel = i % panels;
        struct eng_gemm_source source = m->source;
        source.data = pack->b + m->b_sources[number];
        eng_gemm_pack_panels(m->plan.kernels, &source, panel, panel + 1,
                             pack->out + (size_t)number * m->b_floats);
    }
}

#if defined(__x86_64__)
// Rows that share one B get the error they share back; weights are rounded in these tables alone.
static enum base_status prepare_mean(const struct eng_prepare *ctx,
                                     const struct eng_program *program, int64_t rows,
                                     struct matmul *matmul)
{
    if (matmul->plan.kernels->pair_step == 0 || matmul->plan.images != 1 ||
        rows < ENG_GEMM_MEAN_ROWS_MIN) {
        return BASE_OK;
    }
    const struct eng_tensor *weights = &program->tensors[matmul->b];
    struct eng_gemm_source source = matmul->source;
    source.data = (const float *)weights->data + matmul->b_sources[0];
    const struct eng_gemm_rows a = {rows, matmul->a_stride_m};
    return eng_gemm_mean_new(ctx, weights, &source, &a, &matmul->mean);
}

static size_t mean_floats(const struct matmul *matmul)
{
    return matmul->mean != NULL ? eng_gemm_mean_floats(matmul->mean) : 0;
}

static const float *mean_bias(const struct matmul *matmul, const struct eng_run *run,
                              const float *bias, float *scratch)
{
    const float *a = (const float *)run->data[matmul->a] + matmul->a_offsets[0];
    return eng_gemm_mean_bias(matmul->mean, a, bias, scratch, run->pool);
}
#else
static enum base_status prepare_mean(const struct eng_prepare *ctx,
                                     const struct eng_program *program, int64_t rows,
                                     struct matmul *matmul)
{
    (void)ctx, (void)program, (void)rows, (void)matmul;
    return BASE_OK;
}

static size_t mean_floats(const struct matmul *matmul)
{
    (void)matmul;
    return 0;
}

static const float *mean_bias(const struct matmul *matmul, const struct eng_run *run,
                              const float *bias, float *scratch)
{
    (void)matmul, (void)run, (void)scratch;
    return bias;
}
#endif

static enum base_status run_matmul(const struct eng_step *step, const struct eng_run *run)
{
    base_assert(run->scratch != NULL || step->scratch_bytes == 0);
    const struct matmul *m = step->state;
    float *scratch = run->scratch;
    const float *packed = m->packed;
    const float *bias = eng_run_data(run, m->bias);
    if (m->mean != NULL) {
        bias = mean_bias(m, run, bias, scratch);
        scratch += mean_floats(m);
    }
    if (packed == NULL) {
        struct pack_ctx pack = {m, run->data[m->b], scratch};
        const int64_t panels = eng_gemm_panels(m->plan.kernels, m->plan.n);
        const size_t floats = (size_t)m->b_count * m->b_floats;
        eng_pool_for(run->pool, m->b_count * panels, floats < 65536 ? m->b_count * panels : 1,
                     pack_some, &pack);
        packed = scratch;
        scratch += floats;
    }
    const struct eng_gemm_run product = {
        .plan = &m->plan,
        .a = run->data[m->a],
        .b = packed,
        .c = run->data[m->c],
        .bias = bias,
        .residual = eng_run_data(run, m->residual),
        .scratch = scratch,
    };
    eng_gemm_execute(&product, run->pool);
    return BASE_OK;
}

static enum base_status pack_b(const struct eng_prepare *ctx, const struct eng_program *program,
                               struct matmul *matmul)
{
    base_assert(matmul->b_count > 0);
    const struct eng_tensor *b = &program->tensors[matmul->b];
    if (b->kind != ENG_CONST) {
        return BASE_OK;
    }
    const struct {
        int64_t first, last, n, k, stride_n, stride_k, count;
        float scale;
        uint32_t form;
    } params = {matmul->b_sources[0],
                matmul->b_sources[matmul->b_count - 1],
                matmul->source.n,
                matmul->source.dims[0],
                matmul->source.stride_n,
                matmul->source.strides[0],
                matmul->b_count,
                matmul->source.scale,
                matmul->plan.kernels->nr << 8 | matmul->plan.kernels->pair_step};
    struct pack_ctx pack = {.m = matmul, .b = b->data};
    const struct eng_weights_form form = {ENG_PACK_PANELS + matmul->plan.kernels->nr, &params,
                                          sizeof(params)};
    const struct eng_pack_content content = {
        (size_t)matmul->b_count * matmul->b_floats * sizeof(float), pack_all, &pack};
    const void *packed;
    BASE_TRY(eng_weights_pack(ctx, b, &form, &content, &packed));
    matmul->packed = packed;
    return BASE_OK;
}

static void plan_rows(struct matmul *matmul, int64_t rows, uint32_t threads)
{
    struct eng_gemm_plan *plan = &matmul->plan;
    const int64_t k = plan->k;
    base_assert(rows > 0 && k > 0);
    const bool collides = rows > 4 && k >= 256 && matmul->a_stride_m % COLLIDING_FLOATS == 0;
    const bool copies =
        plan->tuning == ENG_TUNING_COPY || (collides && plan->tuning != ENG_TUNING_PLACE);
    size_t row_floats = 0;
    plan->lda = matmul->a_stride_m;
    if ((matmul->a_stride_k != 1 && k > 1) || copies || plan->kernels->pair_step > 0) {
        plan->fill = fill_rows;
        plan->fill_ctx = matmul;
        plan->lda = (k + FILL_PAD_FLOATS - 1) / FILL_PAD_FLOATS * FILL_PAD_FLOATS + FILL_PAD_FLOATS;
    }
    eng_gemm_plan_rows(plan, rows);
    if (plan->fill != NULL) {
        row_floats = (size_t)plan->a_row;
    }
    eng_gemm_plan_block(plan, threads, row_floats);
    plan->fill_floats = (size_t)plan->band_rows * row_floats;
    if (plan->kernels->pair_step > 1) { // whole tiles are read
        plan->fill_floats += (size_t)(plan->kernels->mr_max[2] * plan->lda);
    }
}

// Whether the fast products take this command.
static bool is_supported(const struct eng_program *program, const struct eng_command *command)
{
    const struct eng_epilogue *epilogue = &command->u.matmul.epilogue;
    const int64_t k = command->box.size[command->u.matmul.batch_rank + 2];
    return is_float(program, command->inputs[0]) && is_float(program, command->inputs[1]) &&
           is_float(program, epilogue->bias) && is_float(program, epilogue->residual) &&
           k <= INT32_MAX && !is_empty(&command->box);
}

// Everything but the packed operand.
static enum base_status plan_product(const struct eng_prepare *ctx,
                                     const struct eng_program *program,
                                     const struct eng_command *command, struct matmul *matmul)
{
    base_assert(command->box.rank == command->u.matmul.batch_rank + 3);
    static const int64_t no_offset[1] = {0};
    const struct eng_matmul *params = &command->u.matmul;
    const uint32_t rank = params->batch_rank;
    const int64_t *size = &command->box.size[rank]; // m, n, k
    *matmul = (struct matmul){.a = command->inputs[0],
                              .b = command->inputs[1],
                              .c = command->outputs[0],
                              .bias = params->epilogue.bias,
                              .residual = params->epilogue.residual};
    struct eng_gemm_plan *plan = &matmul->plan;
    plan->kernels = ctx->kernels->gemm;
    plan->tuning = ctx->tuning;
    plan->k = (uint32_t)size[2];
    plan->n = size[1];
    plan->segments = no_offset;
    plan->segment_count = 1;
    plan->groups = 1;
    plan->ldc = plan->n;
    eng_gemm_plan_act(plan, &params->epilogue);
    matmul->a_stride_m = command->views[0].stride[rank];
    matmul->a_stride_k = command->views[0].stride[rank + 2];
    matmul->source = (struct eng_gemm_source){
        .n = plan->n,
        .stride_n = command->views[1].stride[rank + 1],
        .dim_count = 1,
        .dims = {size[2]},
        .strides = {command->views[1].stride[rank + 2]},
        .scale = params->alpha,
    };
    const struct eng_gemm_kernels *low = eng_gemm_low_kernels(ctx);
    if (low != NULL && program->tensors[matmul->b].kind == ENG_CONST && size[2] >= LOW_K_MIN &&
        size[1] >= LOW_N_MIN && matmul->a_stride_k == 1) {
        plan->kernels = low;
        plan->k = (uint32_t)eng_gemm_pairs(low, size[2]);
    }
    matmul->b_floats = eng_gemm_packed_floats(plan->kernels, plan->k, plan->n);
    int64_t rows;
    const uint32_t batch = fold_batch(command, &rows);
    BASE_TRY(unfold_batch(ctx, command, batch, matmul));
    plan->a_offsets = matmul->a_offsets;
    plan->b_offsets = matmul->b_offsets;
    plan->c_image = rows * plan->ldc;
    plan_rows(matmul, rows, eng_pool_threads(ctx->pool));
    return BASE_OK;
}

enum base_status eng_gemm_plan_product(const struct eng_prepare *ctx,
                                       const struct eng_program *program,
                                       const struct eng_command *command,
                                       struct eng_gemm_plan *out_plan)
{
    struct matmul m;
    if (!is_supported(program, command)) {
        return BASE_ERR_UNSUPPORTED;
    }
    BASE_TRY(plan_product(ctx, program, command, &m));
    *out_plan = m.plan;
    return BASE_OK;
}

enum base_status eng_gemm_prepare_product(const struct eng_prepare *ctx,
                                          const struct eng_program *program,
                                          const struct eng_command *command,
                                          struct eng_step *out_step)
{
    if (!is_supported(program, command)) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct matmul *m = base_arena_zalloc(ctx->arena, sizeof(*m));
    if (m == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(plan_product(ctx, program, command, m));
    BASE_TRY(pack_b(ctx, program, m));
    BASE_TRY(prepare_mean(ctx, program, m->plan.row_limit, m));
    const struct eng_gemm_plan *plan = &m->plan;
    base_assert(m->packed == NULL || program->tensors[m->b].kind == ENG_CONST);
    const size_t dynamic = m->packed == NULL ? (size_t)m->b_count * m->b_floats : 0;
    out_step->scratch_bytes =
        (dynamic + mean_floats(m) + plan->fill_floats * eng_pool_threads(ctx->pool)) *
        sizeof(float);
    out_step->state = m;
    out_step->run = run_matmul;
    out_step->loose = m->packed != NULL ? ENG_LOOSE_WEIGHTS : 0;
    out_step->kernel = plan->kernels->pair_step > 0 ? "matmul.bf16"
                       : m->packed != NULL          ? "matmul.packed"
                                                    : "matmul.dynamic";
    return BASE_OK;
}
