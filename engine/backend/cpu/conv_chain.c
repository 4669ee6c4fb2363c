// Chains of convolutions: single pixels, depthwise, single pixels. A thread takes some rows of an
// image and goes through them in bands: what the first convolution makes lies in a ring of rows,
// what the depthwise one makes of it in a second buffer, and both stay in the second-level cache.
// Rows that two threads' bands read are made by both. Prepared on the planning thread, run by the
// session's and the pool's.
#include "backend/cpu/conv_ops.h"

#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/gemm/gemm_weights.h"
#include "base/check.h"
#include "base/ckd.h"

#define BAND_BYTES       400000 // of both buffers together
#define ITEM_ROWS_MIN    7      // fewer are not worth making the rows around them twice
#define ITEMS_PER_THREAD 2
#define COLLIDING_FLOATS 512 // pixels this far apart share sets of the first-level cache
#define PITCH_PAD_FLOATS 16
#define FAR_RESULT_BYTES 500000

// A convolution of single pixels: a product.
struct point {
    struct eng_gemm_plan plan; // of no rows yet
    const float *packed;
    uint32_t bias, residual;
};

struct chain {
    const struct eng_gemm_kernels *kernels;
    struct eng_conv_shape shape; // of the depthwise one
    struct eng_gemm_plan act;    // its activation
    const float *weights;        // packed
    uint32_t bias, residual;
    bool has_before, has_behind;
    struct point before, behind;
    uint32_t x, y;
    int64_t x_channels, y_channels;
    int64_t ring, band;        // rows of input kept; of output at a time
    int64_t x_pitch, y_pitch;  // floats of a pixel between
    int64_t items;             // of an image
    size_t x_floats, y_floats; // buffers of a worker
};

struct chain_run {
    const struct chain *c;
    const float *x, *before_bias, *bias, *behind_bias, *residual;
    float *y, *scratch;
};

static int64_t min_i64(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

static int64_t max_i64(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

// Input rows [*first, *end) of an image that output rows [begin, end) read.
static void rows_read(const struct eng_conv_shape *shape, int64_t begin, int64_t end,
                      int64_t *out_first, int64_t *out_end)
{
    const int64_t reach = (shape->kernel[1] - 1) * shape->dilation[1] + 1;
    *out_first = min_i64(max_i64(begin * shape->stride[1] - shape->pad[1], 0), shape->in[1]);
    *out_end = min_i64((end - 1) * shape->stride[1] - shape->pad[1] + reach, shape->in[1]);
}

static void multiply(const struct point *point, struct eng_gemm_run *run, int64_t pixels)
{
    struct eng_gemm_plan plan = point->plan;
    const bool far = plan.far;
    eng_gemm_plan_rows(&plan, pixels);
    eng_gemm_plan_block(&plan, 1, 0);
    plan.far = far;
    run->plan = &plan;
    run->b = point->packed;
    eng_gemm_execute(run, NULL);
}

// Makes input rows [first, end) of an image in the ring.
static void make_rows(const struct chain_run *chain_run, int64_t image, int64_t first, int64_t end,
                      float *ring)
{
    const struct chain *c = chain_run->c;
    const struct eng_conv_shape *s = &c->shape;
    base_assert(c->has_before && end - first <= c->ring); // none of them overwrites another
    for (int64_t row = image * s->in[1] + first, left = end - first; left > 0;) {
        const int64_t at = row % c->ring, count = min_i64(left, c->ring - at);
        struct eng_gemm_run run = {
            .a = chain_run->x + row * s->in[2] * c->x_channels,
            .c = ring + at * s->in[2] * c->x_pitch,
            .bias = chain_run->before_bias,
        };
        multiply(&c->before, &run, count * s->in[2]);
        row += count;
        left -= count;
    }
}

// Output rows [begin, end) of an image, a band at a time. `ring`: both buffers of a worker.
static void run_image_rows(const struct chain_run *chain_run, int64_t image, int64_t begin,
                           int64_t end, float *ring)
{
    const struct chain *c = chain_run->c;
    float *between = ring + c->x_floats;
    const struct eng_conv_shape *s = &c->shape;
    const int64_t row_pixels = s->out[2];
    struct eng_dw_rows rows = {
        .kernels = c->kernels,
        .shape = s,
        .act = &c->act,
        .x = c->has_before ? ring : chain_run->x,
        .ring = c->has_before ? c->ring : s->batch * s->in[1],
        .x_pitch = c->x_pitch,
        .y_pitch = c->y_pitch,
        .weights = c->weights,
        .bias = chain_run->bias,
        .residual = c->has_behind ? NULL : chain_run->residual,
        .y = c->has_behind ? between : chain_run->y,
    };
    for (int64_t y = begin, made = 0; y < end; y += c->band) {
        const int64_t last = min_i64(y + c->band, end), row = image * s->out[1] + y;
        int64_t need, need_end;
        rows_read(s, y, last, &need, &need_end);
        base_assert(!c->has_before || need_end - need <= c->ring);
        if (c->has_before) {
            make_rows(chain_run, image, max_i64(need, made), need_end, ring);
            made = max_i64(made, need_end);
        }
        rows.first = c->has_behind ? row : 0;
        eng_conv_dw_rows(&rows, row, row + last - y);
        if (c->has_behind) {
            const int64_t out = row * row_pixels * c->y_channels;
            struct eng_gemm_run run = {
                .a = between,
                .c = chain_run->y + out,
                .bias = chain_run->behind_bias,
                .residual = chain_run->residual != NULL ? chain_run->residual + out : NULL,
            };
            multiply(&c->behind, &run, (last - y) * row_pixels);
        }
    }
}

static void run_items(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct chain_run *r = ctx;
    const struct chain *c = r->c;
    float *ring = r->scratch + worker * (c->x_floats + c->y_floats);
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / c->items, part = item % c->items, rows = c->shape.out[1];
        run_image_rows(r, image, rows * part / c->items, rows * (part + 1) / c->items, ring);
    }
}

static enum base_status run_chain(const struct eng_step *step, const struct eng_run *run)
{
    const struct chain *c = step->state;
    struct chain_run r = {
        .c = c,
        .x = run->data[c->x],
        .before_bias = c->has_before ? eng_run_data(run, c->before.bias) : NULL,
        .bias = eng_run_data(run, c->bias),
        .behind_bias = c->has_behind ? eng_run_data(run, c->behind.bias) : NULL,
        .residual = eng_run_data(run, c->has_behind ? c->behind.residual : c->residual),
        .y = run->data[c->y],
        .scratch = run->scratch,
    };
    eng_pool_for(run->pool, c->shape.batch * c->items, 1, run_items, &r);
    return BASE_OK;
}

// --- preparing -----------------------------------------------------------------------------------

struct pack {
    const struct eng_gemm_kernels *kernels;
    struct eng_gemm_source source;
};

static void pack_point(void *ctx, void *out)
{
    const struct pack *pack = ctx;
    eng_gemm_pack(pack->kernels, &pack->source, out);
}

static enum base_status prepare_point(const struct eng_prepare *ctx,
                                      const struct eng_program *program,
                                      const struct eng_command *command, struct point *point)
{
    static const int64_t no_offset[1] = {0};
    struct eng_conv_shape s;
    BASE_TRY(eng_conv_shape_of(program, command, &s));
    base_assert(eng_conv_taps(&s) == 1);
    base_assert(s.groups == 1);
    struct eng_gemm_plan *plan = &point->plan;
    plan->kernels = ctx->kernels->gemm;
    plan->images = plan->groups = 1;
    plan->segments = no_offset;
    plan->segment_count = 1;
    plan->k = (uint32_t)s.in_channels;
    plan->n = s.out_channels;
    plan->lda = s.in_channels;
    plan->ldc = s.out_channels;
    eng_gemm_plan_act(plan, &command->u.conv.epilogue);
    point->bias = command->u.conv.epilogue.bias;
    point->residual = command->u.conv.epilogue.residual;
    const struct eng_tensor *w = &program->tensors[command->inputs[1]];
    // The same form as conv_direct.c's: one packing of a weight serves both.
    const int64_t params[5] = {s.out_channels, s.in_channels, 1, 1, 0};
    struct pack pack = {plan->kernels,
                        {.data = w->data,
                         .n = s.out_channels,
                         .stride_n = s.in_channels,
                         .dim_count = 2,
                         .dims = {1, s.in_channels},
                         .strides = {1, 1},
                         .scale = 1.0f}};
    const struct eng_weights_form form = {ENG_PACK_PANELS + plan->kernels->nr, params,
                                          sizeof(params)};
    const size_t floats = eng_gemm_packed_floats(plan->kernels, s.in_channels, s.out_channels);
    const struct eng_pack_content content = {floats * sizeof(float), pack_point, &pack};
    const void *packed;
    BASE_TRY(eng_weights_pack(ctx, w, &form, &content, &packed));
    point->packed = packed;
    return BASE_OK;
}

static int64_t pitch_of(int64_t channels)
{
    return channels % COLLIDING_FLOATS == 0 ? channels + PITCH_PAD_FLOATS : channels;
}

// Bands, and the buffers they need.
static enum base_status plan_bands(struct chain *chain, uint32_t threads, size_t *out_bytes)
{
    const struct eng_conv_shape *s = &chain->shape;
    const int64_t reach = (s->kernel[1] - 1) * s->dilation[1] + 1;
    chain->items = 1;
    if (threads > 1) {
        const int64_t wanted = ((int64_t)threads * ITEMS_PER_THREAD + s->batch - 1) / s->batch;
        chain->items = max_i64(min_i64(wanted, s->out[1] / ITEM_ROWS_MIN), 1);
    }
    const int64_t rows = (s->out[1] + chain->items - 1) / chain->items;
    size_t x_row = 0, y_row = 0, bytes;
    if ((chain->has_before && !base_ckd_mul((size_t)s->in[2], (size_t)chain->x_pitch, &x_row)) ||
        (chain->has_behind && !base_ckd_mul((size_t)s->out[2], (size_t)chain->y_pitch, &y_row))) {
        return BASE_ERR_UNSUPPORTED;
    }
    chain->band = rows;
    for (;; chain->band--) {
        chain->ring = min_i64((chain->band - 1) * s->stride[1] + reach, s->in[1]);
        if (!base_ckd_mul((size_t)chain->ring, x_row, &chain->x_floats) ||
            !base_ckd_mul((size_t)chain->band, y_row, &chain->y_floats) ||
            !base_ckd_add(chain->x_floats, chain->y_floats, &bytes) ||
            !base_ckd_mul(bytes, sizeof(float) * threads, &bytes)) {
            return BASE_ERR_UNSUPPORTED;
        }
        if (bytes / threads <= BAND_BYTES || chain->band == 1) {
            break;
        }
    }
    base_assert(rows > 0 && chain->band > 0);
    const int64_t bands = (rows + chain->band - 1) / chain->band;
    chain->band = (rows + bands - 1) / bands;
    *out_bytes = bytes;
    return BASE_OK;
}

// Which of its inputs a chain packs and does not read: the weights.
static uint32_t packed_inputs(const struct eng_conv_chain *chain)
{
    uint32_t loose = 0, at = 1;
    for (uint32_t i = 0; i < chain->count; i++) {
        loose |= 1u << at;
        at += chain->convs[i].input_count - 1;
    }
    return loose;
}

static enum base_status prepare_depthwise(const struct eng_prepare *ctx,
                                          const struct eng_program *program,
                                          const struct eng_command *command, struct chain *chain)
{
    BASE_TRY(eng_conv_shape_of(program, command, &chain->shape));
    if (!eng_conv_is_depthwise(&chain->shape)) {
        return BASE_ERR_UNSUPPORTED;
    }
    chain->bias = command->u.conv.epilogue.bias;
    chain->residual = command->u.conv.epilogue.residual;
    eng_gemm_plan_act(&chain->act, &command->u.conv.epilogue);
    return eng_conv_pack_depthwise(ctx, &chain->shape, &program->tensors[command->inputs[1]],
                                   &chain->weights);
}

// Where the depthwise one stands in a chain.
static uint32_t depthwise_of(const struct eng_conv_chain *chain)
{
    return chain->convs[0].u.conv.groups > 1 ? 0 : 1;
}

enum base_status eng_cpu_prepare_conv_chain(const struct eng_prepare *ctx,
                                            const struct eng_program *program,
                                            const struct eng_command *command,
                                            struct eng_step *out_step)
{
    const struct eng_conv_chain *chain = command->u.chain;
    const uint32_t at = depthwise_of(chain);
    base_assert(chain->count > 1 && chain->count <= ENG_CHAIN_MAX && at < chain->count);
    struct chain *c = base_arena_zalloc(ctx->arena, sizeof(*c));
    if (c == NULL) {
        return BASE_ERR_NOMEM;
    }
    c->kernels = ctx->kernels->gemm;
    c->has_before = at > 0;
    c->has_behind = at + 1 < chain->count;
    BASE_TRY(prepare_depthwise(ctx, program, &chain->convs[at], c));
    const struct eng_conv_shape *s = &c->shape;
    c->x = command->inputs[0];
    c->y = command->outputs[0];
    c->x_channels = c->x_pitch = c->y_channels = c->y_pitch = s->in_channels;
    if (c->has_before) {
        BASE_TRY(prepare_point(ctx, program, &chain->convs[0], &c->before));
        c->x_channels = c->before.plan.k;
        c->x_pitch = c->before.plan.ldc = pitch_of(s->in_channels);
    }
    if (c->has_behind) {
        BASE_TRY(prepare_point(ctx, program, &chain->convs[at + 1], &c->behind));
        c->y_channels = c->behind.plan.n;
        c->y_pitch = c->behind.plan.lda = pitch_of(s->in_channels);
        c->behind.plan.far =
            s->batch * s->out[1] * s->out[2] * c->y_channels * (int64_t)sizeof(float) >
            FAR_RESULT_BYTES;
    }
    BASE_TRY(plan_bands(c, eng_pool_threads(ctx->pool), &out_step->scratch_bytes));
    out_step->state = c;
    out_step->run = run_chain;
    out_step->loose = packed_inputs(chain);
    out_step->kernel = "conv.chain";
    return BASE_OK;
}
