// Winograd convolution F(2 x 2) and F(4 x 4) of 3 x 3 kernels with stride 1: tiles of the image are
// transformed, multiplied element by element of the tile as products over channels, and transformed
// back. A block of tiles, transformed and multiplied, stays in the second-level cache.
//
// A thread takes a block of tiles and a range of output channels. Prepared on the planning thread,
// run by the session's and the pool's.
#include "backend/cpu/conv_ops.h"

#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/gemm/gemm_weights.h"
#include "backend/cpu/wino_tiles.h"
#include "base/check.h"
#include "model/graph.h"

#include <string.h>

#define BLOCK_BYTES  524288 // of a block's transformed input and products together
#define ELEMENTS_MAX 36     // of a tile

struct wino {
    // Of the transforms, and of the products between them: the same, or those of bfloat16 pairs.
    const struct eng_gemm_kernels *kernels, *products;
    struct eng_wino_tiles tiles; // transformed by `products`
    struct eng_gemm_plan act;    // only its activation fields
    uint32_t x, w, y, bias, residual;
    int64_t block, blocks, splits, mr; // tiles of a block; ranges of panels
    int64_t depth;                     // of the products: channels, or pairs of them
    size_t in_plane, out_plane, in_floats, out_floats, edge_floats;
    const float *packed, *weights; // by panel, by element: [channels][columns of the panel]
};

// Kernel transforms: rows of G for the points of wino_template.h.
static const double g2[4][3] = {{-1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
// 1 / N times 1, p, p^2: N = 1 at 0, -3/2 at sqrt(1/2), 6 at sqrt(2).
#define A (0.70710678118654752440)
#define B (1.41421356237309504880)
static const double g4[6][3] = {{1, 0, 0},
                                {-2.0 / 3, -2.0 / 3 * A, -1.0 / 3},
                                {-2.0 / 3, 2.0 / 3 * A, -1.0 / 3},
                                {1.0 / 6, B / 6, 1.0 / 3},
                                {1.0 / 6, -B / 6, 1.0 / 3},
                                {0, 0, 1}};
#undef A
#undef B

bool eng_conv_fits_wino(const struct eng_conv_shape *shape)
{
    return !shape->exact && shape->groups == 1 && shape->kernel[0] == 1 && shape->in[0] == 1 &&
           shape->out[0] == 1 && shape->pad[0] == 0 && shape->kernel[1] == 3 &&
           shape->kernel[2] == 3 && shape->stride[1] == 1 && shape->stride[2] == 1 &&
           shape->dilation[1] == 1 && shape->dilation[2] == 1;
}

typedef float lanes __attribute__((vector_size(16)));
#define LANES 4

// G g G^T of four output channels' kernels at once.
static void transform_kernels(const double (*kernel)[3], uint32_t size, const lanes weights[9],
                              lanes out[ELEMENTS_MAX])
{
    lanes half[6][3];
    for (uint32_t i = 0; i < size; i++) {
        const float a = (float)kernel[i][0], b = (float)kernel[i][1], c = (float)kernel[i][2];
        for (uint32_t x = 0; x < 3; x++) {
            half[i][x] = a * weights[x] + b * weights[3 + x] + c * weights[6 + x];
        }
    }
    for (uint32_t j = 0; j < size; j++) {
        const float a = (float)kernel[j][0], b = (float)kernel[j][1], c = (float)kernel[j][2];
        for (uint32_t i = 0; i < size; i++) {
            out[i * size + j] = a * half[i][0] + b * half[i][1] + c * half[i][2];
        }
    }
}

// The elements of one input channel for LANES output channels from `column` on; zeroes where there
// are none.
static void transform_at(const struct wino *wino, int64_t channel, int64_t column,
                         lanes values[ELEMENTS_MAX])
{
    const int64_t c = wino->tiles.shape.in_channels, left = wino->tiles.shape.out_channels - column;
    lanes taps[9];
    memset(taps, 0, sizeof(taps));
    for (int64_t l = 0; channel < c && l < LANES && l < left; l++) {
        const float *w = wino->weights + ((column + l) * c + channel) * 9;
        for (int t = 0; t < 9; t++) {
            taps[t][l] = w[t];
        }
    }
    transform_kernels(wino->tiles.unit == 2 ? g2 : g4, wino->tiles.size, taps, values);
}

typedef uint32_t words __attribute__((vector_size(16)));

// To the nearest bfloat16, ties to even, in the upper halves; weights that are no number stay none.
static words rounded(lanes values)
{
    const words bits = (words)values;
    const words up = bits + 0x7fffu + (bits >> 16 & 1u);
    const words is_nan = (words)((bits & 0x7fffffffu) > 0x7f800000u);
    return ((up & ~is_nan) | ((bits | 0x400000u) & is_nan)) & 0xffff0000u;
}

// For each panel of output channels, in the order of their use, the elements' operands: rows of one
// channel, or of a pair of them.
static void pack_weights(void *ctx, void *out)
{
    const struct wino *d = ctx;
    const int64_t m = d->tiles.shape.out_channels, nr = d->kernels->nr, vl = d->kernels->vl;
    const int64_t elements = (int64_t)d->tiles.size * d->tiles.size;
    const bool pairs = d->products->pair_step > 0;
    base_assert(vl % LANES == 0 && elements <= ELEMENTS_MAX);
    float *to = out;
    lanes values[ELEMENTS_MAX], seconds[ELEMENTS_MAX];
    for (int64_t panel = 0; panel < m; panel += nr) {
        const int64_t left = m - panel < nr ? m - panel : nr;
        const int64_t width = (left + vl - 1) / vl * vl;
        for (int64_t at = 0; at < d->depth * width; at += LANES) {
            const int64_t i = at / width, column = panel + at % width;
            transform_at(d, pairs ? 2 * i : i, column, values);
            if (pairs) {
                transform_at(d, 2 * i + 1, column, seconds);
            }
            float *first = to + panel * elements * d->depth + at;
            for (int64_t e = 0; e < elements; e++) {
                if (pairs) {
                    values[e] = (lanes)(rounded(values[e]) >> 16 | rounded(seconds[e]));
                }
                memcpy(first + e * d->depth * width, &values[e], sizeof(values[e]));
            }
        }
    }
}

struct wino_run {
    const struct wino *d;
    const float *x, *u, *bias, *residual;
    float *y, *scratch;
};

// Products of all elements of the tiles with one panel of `channels` output channels.
static void multiply(const struct wino *wino, const struct eng_wino_product *product, int64_t count,
                     int64_t channels)
{
    static const int64_t no_offset[1] = {0};
    const float *v = product->v, *u = product->u;
    float *m = product->m;
    base_assert(count > 0 && count <= wino->block && channels > 0 && channels <= wino->kernels->nr);
    const int64_t vl = wino->kernels->vl;
    const uint32_t nv = (uint32_t)((channels + vl - 1) / vl);
    const size_t floats = (size_t)(nv * vl * wino->depth);
    struct eng_gemm_tile tile = {
        .lda = (size_t)wino->tiles.pitch,
        .segments = no_offset,
        .segment_count = 1,
        .k = (uint32_t)wino->depth,
        .ldc = wino->kernels->nr,
        .n = (uint32_t)channels,
    };
    for (uint32_t e = 0; e < wino->tiles.size * wino->tiles.size; e++) {
        tile.b = u + e * floats;
        for (int64_t i = 0; i < count; i += wino->mr) {
            const int64_t left = count - i < wino->mr ? count - i : wino->mr;
            tile.a = v + e * wino->in_plane + (size_t)(i * wino->tiles.pitch);
            tile.c = m + e * wino->out_plane + (size_t)i * tile.ldc;
            tile.rows = (uint32_t)left;
            wino->products->tile[nv][left - 1](&tile);
        }
    }
}

static void run_block(const struct wino_run *wino_run, int64_t block, int64_t split, float *scratch)
{
    const struct wino *d = wino_run->d;
    const int64_t nr = d->kernels->nr, channels = d->tiles.shape.out_channels;
    const int64_t panels = eng_gemm_panels(d->kernels, channels);
    const int64_t tile = block * d->block;
    const int64_t count = d->tiles.count - tile < d->block ? d->tiles.count - tile : d->block;
    base_assert(count > 0);
    base_assert(split < d->splits);
    const int64_t per_column = (int64_t)d->tiles.size * d->tiles.size * d->depth;
    float *v = scratch, *m = v + d->in_floats, *edge = m + d->out_floats;
    const int64_t end = (split + 1) * panels / d->splits;
    const struct eng_wino_elements elements = {v, d->in_plane, edge};
    eng_wino_tiles_in(&d->tiles, wino_run->x, tile, count, &elements);
    for (int64_t panel = split * panels / d->splits; panel < end; panel++) {
        const int64_t column = panel * nr;
        const int64_t n = channels - column < nr ? channels - column : nr;
        const struct eng_wino_product product = {v, wino_run->u + column * per_column, m};
        multiply(d, &product, count, n);
        const struct eng_wino_sums sums = {.kernels = d->kernels,
                                           .act = &d->act,
                                           .in = m,
                                           .plane = d->out_plane,
                                           .y = wino_run->y,
                                           .bias = wino_run->bias,
                                           .residual = wino_run->residual,
                                           .column = column,
                                           .channels = n};
        eng_wino_tiles_out(&d->tiles, &sums, tile, count);
    }
}

static void run_items(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct wino_run *r = ctx;
    const struct wino *d = r->d;
    float *scratch = r->scratch + worker * (d->in_floats + d->out_floats + d->edge_floats);
    if (d->products->enter != NULL) {
        d->products->enter();
    }
    for (int64_t item = begin; item < end; item++) {
        run_block(r, item / d->splits, item % d->splits, scratch);
    }
    if (d->products->leave != NULL) {
        d->products->leave();
    }
}

static enum base_status run_wino(const struct eng_step *step, const struct eng_run *run)
{
    const struct wino *d = step->state;
    struct wino_run r = {
        .d = d,
        .x = run->data[d->x],
        .u = d->packed,
        .bias = eng_run_data(run, d->bias),
        .residual = eng_run_data(run, d->residual),
        .y = run->data[d->y],
        .scratch = run->scratch,
    };
    eng_pool_for(run->pool, d->blocks * d->splits, 1, run_items, &r);
    return BASE_OK;
}

// Rows of the products: whole vectors of channels, or of pairs of them.
static void plan_depth(struct wino *wino)
{
    const int64_t c = wino->tiles.shape.in_channels, written = wino->tiles.pitch;
    wino->depth = c;
    if (wino->products->pair_step > 0) {
        wino->depth = eng_gemm_pairs(wino->products, c);
        wino->tiles.zeroes = 2 * wino->depth > written ? 2 * wino->depth - written : 0;
        wino->tiles.pitch = (written + wino->tiles.zeroes) / 2;
    }
}

static void plan_blocks(struct wino *wino, uint32_t threads)
{
    const int64_t elements = (int64_t)wino->tiles.size * wino->tiles.size;
    const int64_t mr = wino->products->mr_max[2];
    const int64_t panels = eng_gemm_panels(wino->kernels, wino->tiles.shape.out_channels);
    // Blocks of a few tiles' rows of the product, so that each panel of weights is used again.
    int64_t block = BLOCK_BYTES / (int64_t)sizeof(float) /
                    (elements * (wino->tiles.pitch + wino->kernels->nr)) / mr * mr;
    block = block < mr ? mr : block;
    block = block > 6 * mr ? 6 * mr : block;
    int64_t blocks = (wino->tiles.count + block - 1) / block;
    if (threads > 1 && blocks < threads * 2) {
        const int64_t wanted = (wino->tiles.count + mr - 1) / mr;
        blocks = wanted < (int64_t)threads * 2 ? wanted : (int64_t)threads * 2;
    }
    base_assert(blocks > 0);
    block = (wino->tiles.count + blocks - 1) / blocks;
    wino->block = block;
    wino->blocks = (wino->tiles.count + block - 1) / block;
    wino->splits = 1;
    if (threads > 1 && wino->blocks < threads * 2) {
        wino->splits = panels < threads ? panels : threads;
    }
    const int64_t rows = (block + mr - 1) / mr;
    wino->mr = (block + rows - 1) / rows;
    wino->in_plane = (size_t)(block * wino->tiles.pitch + ENG_WINO_PAD);
    wino->out_plane = (size_t)(block * wino->kernels->nr + ENG_WINO_PAD);
    wino->in_floats = (size_t)elements * wino->in_plane;
    if (wino->products->pair_step > 1) { // whole tiles are read
        wino->in_floats += (size_t)(mr * wino->tiles.pitch);
    }
    wino->out_floats = (size_t)elements * wino->out_plane;
    wino->edge_floats = eng_wino_edge_floats(&wino->tiles);
}

enum base_status eng_conv_prepare_wino(const struct eng_conv_job *job,
                                       const struct eng_gemm_kernels *products, uint32_t unit,
                                       struct eng_step *out_step)
{
    base_assert(unit == 2 || unit == 4);
    const struct eng_prepare *ctx = job->ctx;
    const struct eng_command *command = job->command;
    const struct eng_tensor *w = &job->program->tensors[command->inputs[1]];
    const struct eng_conv_shape *s = &job->shape;
    if (!eng_conv_fits_wino(s) || w->kind != ENG_CONST || products->wino_in[unit] == NULL) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct wino *d = base_arena_zalloc(ctx->arena, sizeof(*d));
    if (d == NULL) {
        return BASE_ERR_NOMEM;
    }
    d->kernels = ctx->kernels->gemm;
    base_assert(d->kernels->nr == products->nr); // panels of both are the same columns
    d->products = products;
    eng_wino_tiles_init(&d->tiles, products, s, unit);
    d->x = command->inputs[0];
    d->w = command->inputs[1];
    d->y = command->outputs[0];
    d->bias = command->u.conv.epilogue.bias;
    d->residual = command->u.conv.epilogue.residual;
    eng_gemm_plan_act(&d->act, &command->u.conv.epilogue);
    plan_depth(d);
    plan_blocks(d, eng_pool_threads(ctx->pool));
    d->weights = w->data;
    const int64_t params[4] = {s->in_channels, s->out_channels, products->nr, products->pair_step};
    const struct eng_weights_form form = {ENG_PACK_WINO + unit, params, sizeof(params)};
    const struct eng_pack_content content = {
        d->tiles.size * d->tiles.size * sizeof(float) *
            eng_gemm_packed_floats(products, d->depth, s->out_channels),
        pack_weights, d};
    const void *packed;
    BASE_TRY(eng_weights_pack(ctx, w, &form, &content, &packed));
    d->packed = packed;
    out_step->loose = ENG_LOOSE_WEIGHTS;
    out_step->scratch_bytes = (d->in_floats + d->out_floats + d->edge_floats) * sizeof(float) *
                              eng_pool_threads(ctx->pool);
    out_step->state = d;
    out_step->run = run_wino;
    const bool pairs = products->pair_step > 0;
    out_step->kernel = unit == 2 ? (pairs ? "conv.winograd2.bf16" : "conv.winograd2")
                                 : (pairs ? "conv.winograd4.bf16" : "conv.winograd4");
    return BASE_OK;
}
