// Gradient of 3 x 3 kernels with stride 1 by Winograd's F(4 x 4) backwards: tiles of x and of dy
// are transformed, multiplied element by element of the tile as products over tiles, and the sums
// are transformed to nine taps. Where a block of transformed tiles holds all there are, some output
// channels at a time go from products to taps while they are in the cache; else sums of all are
// kept from block to block. Prepared on the planning thread, run by the session's and the pool's.
#include "backend/cpu/conv_grad.h"

#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/kernel/kernels.h"
#include "backend/cpu/wino_tiles.h"
#include "base/check.h"

#include <string.h>

#define BLOCK_BYTES    (8 << 20)    // of a block's transformed tiles, of x and dy together
#define NEAR_BYTES     (1 << 20)    // the same where all sums stay in the second-level cache
#define NEAR_SUM_BYTES (640 << 10)  // which these do
#define CHUNK_BYTES    (2400 << 10) // of the sums of some output channels
#define TAPS           9
#define LANES_MAX      16
#define STORE_CHANNELS 8 // input channels whose taps are stored together
#define TILE_GRAIN     8

struct grad {
    struct eng_wino_tiles tiles; // of x
    uint32_t x, dy, dw;
    int64_t block, blocks; // tiles
    int64_t chunk, chunks; // output channels
    int64_t row_max;       // rows of a tile of the product, which are input channels
    size_t x_plane, dy_plane, sum_plane;
    size_t x_floats, dy_floats, sum_floats, edge_floats; // sum_floats: of one chunk
};

struct grad_run {
    const struct grad *g;
    const float *x, *dy;
    float *dw;
    float *moved_x, *moved_dy, *sums, *edges;
    int64_t first, count; // tiles of the block
};

static int64_t min_i64(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

// --- tiles ------------------------------------------------------------------------------------

// One tile of dy, panel by panel of output channels.
static void spread_tile(const struct grad_run *run, int64_t index)
{
    const struct grad *g = run->g;
    const struct eng_conv_shape *s = &g->tiles.shape;
    const int64_t m = s->out_channels, nr = g->tiles.kernels->nr;
    base_assert(index < run->count && run->count <= g->block);
    const struct eng_wino_place at = eng_wino_place_of(&g->tiles, run->first + index);
    struct eng_wino_spread spread = {
        .row = (size_t)(s->out[2] * m),
        .pixel = (size_t)m,
        .rows = (uint32_t)min_i64(s->out[1] - at.y, ENG_WINO_UNIT),
        .cols = (uint32_t)min_i64(s->out[2] - at.x, ENG_WINO_UNIT),
        .plane = g->dy_plane,
    };
    const float *dy = run->dy + ((at.image * s->out[1] + at.y) * s->out[2] + at.x) * m;
    for (int64_t column = 0; column < m; column += nr) {
        spread.in = dy + column;
        spread.out = run->moved_dy + column * g->block + index * nr;
        spread.channels = (size_t)min_i64(m - column, nr);
        g->tiles.kernels->wino_spread(&spread);
    }
}

static void move_tiles(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct grad_run *r = ctx;
    const struct grad *g = r->g;
    base_assert(begin < end && end <= r->count);
    const struct eng_wino_elements elements = {r->moved_x + begin * g->tiles.pitch, g->x_plane,
                                               r->edges + worker * g->edge_floats};
    eng_wino_tiles_in(&g->tiles, r->x, r->first + begin, end - begin, &elements);
    for (int64_t i = begin; i < end; i++) {
        spread_tile(r, i);
    }
}

// --- products ---------------------------------------------------------------------------------

// One element's product for one chunk: sums [input channel][output channel of the chunk].
static void multiply(const struct grad_run *run, int64_t chunk, int64_t element, float *sums)
{
    static const int64_t no_offset[1] = {0};
    const struct grad *g = run->g;
    const struct eng_gemm_kernels *kernels = g->tiles.kernels;
    const int64_t c = g->tiles.shape.in_channels, nr = kernels->nr, vl = kernels->vl;
    const int64_t from = chunk * g->chunk;
    base_assert(chunk < g->chunks && element < ENG_WINO_ELEMENTS);
    const int64_t end = min_i64(from + g->chunk, g->tiles.shape.out_channels);
    struct eng_gemm_turned tile = {.a_step = (size_t)g->tiles.pitch,
                                   .segments = no_offset,
                                   .segment_count = 1,
                                   .k = (uint32_t)run->count,
                                   .b_step = (size_t)nr,
                                   .ldc = (size_t)g->chunk,
                                   .accumulate = run->first > 0};
    for (int64_t column = from; column < end; column += nr) {
        tile.b = run->moved_dy + (size_t)element * g->dy_plane + column * g->block;
        tile.n = (uint32_t)min_i64(end - column, nr);
        const eng_gemm_turned_fn *fns = kernels->turned[(tile.n + vl - 1) / vl];
        for (int64_t row = 0; row < c; row += g->row_max) {
            tile.a = run->moved_x + (size_t)element * g->x_plane + row;
            tile.c = sums + (size_t)element * g->sum_plane + row * g->chunk + (column - from);
            fns[min_i64(c - row, g->row_max) - 1](&tile);
        }
    }
}

// A chunk's sums to dw [m][c][tap].
static void store(const struct grad_run *run, int64_t chunk, const float *sums)
{
    const struct grad *g = run->g;
    const struct eng_gemm_kernels *kernels = g->tiles.kernels;
    const int64_t c = g->tiles.shape.in_channels, vl = kernels->vl;
    const int64_t from = chunk * g->chunk;
    const int64_t count = min_i64(g->tiles.shape.out_channels - from, g->chunk);
    base_assert(count > 0 && vl <= LANES_MAX && g->chunk % vl == 0);
    float taps[STORE_CHANNELS * TAPS * LANES_MAX];
    for (int64_t j = 0; j < count; j += vl) {
        for (int64_t i = 0; i < c; i += STORE_CHANNELS) {
            const int64_t rows = min_i64(c - i, STORE_CHANNELS);
            for (int64_t k = 0; k < rows; k++) {
                kernels->wino_kernels_back(sums + (i + k) * g->chunk + j, g->sum_plane,
                                           taps + k * TAPS * vl);
            }
            for (int64_t l = 0; l < min_i64(count - j, vl); l++) {
                float *to = run->dw + ((from + j + l) * c + i) * TAPS;
                for (int64_t t = 0; t < rows * TAPS; t++) {
                    to[t] = taps[t * vl + l];
                }
            }
        }
    }
}

// One block: from products to taps, chunk by chunk in a thread's own memory.
static void run_chunks(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct grad_run *r = ctx;
    base_assert(r->g->blocks == 1); // nothing is kept for another block
    float *sums = r->sums + worker * r->g->sum_floats;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        for (int64_t e = 0; e < ENG_WINO_ELEMENTS; e++) {
            multiply(r, chunk, e, sums);
        }
        store(r, chunk, sums);
    }
}

// Several blocks: items are chunks by elements.
static void add_elements(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    for (int64_t i = begin; i < end; i++) {
        const int64_t chunk = i / ENG_WINO_ELEMENTS;
        multiply(r, chunk, i % ENG_WINO_ELEMENTS, r->sums + (size_t)chunk * r->g->sum_floats);
    }
}

static void store_chunks(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct grad_run *r = ctx;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        store(r, chunk, r->sums + (size_t)chunk * r->g->sum_floats);
    }
}

static enum base_status run_grad(const struct eng_step *step, const struct eng_run *run)
{
    const struct grad *g = step->state;
    struct grad_run r = {.g = g,
                         .x = run->data[g->x],
                         .dy = run->data[g->dy],
                         .dw = run->data[g->dw],
                         .moved_x = run->scratch};
    r.moved_dy = r.moved_x + g->x_floats;
    r.edges = r.moved_dy + g->dy_floats;
    r.sums = r.edges + g->edge_floats * eng_pool_threads(run->pool);
    for (int64_t block = 0; block < g->blocks; block++) {
        r.first = block * g->block;
        r.count = min_i64(g->tiles.count - r.first, g->block);
        base_assert(r.count > 0);
        eng_pool_for(run->pool, r.count, TILE_GRAIN, move_tiles, &r);
        if (g->blocks == 1) {
            eng_pool_for(run->pool, g->chunks, 1, run_chunks, &r);
        } else {
            eng_pool_for(run->pool, g->chunks * ENG_WINO_ELEMENTS, 1, add_elements, &r);
        }
    }
    if (g->blocks > 1) {
        eng_pool_for(run->pool, g->chunks, 1, store_chunks, &r);
    }
    return BASE_OK;
}

// --- planning ---------------------------------------------------------------------------------

static void plan(struct grad *grad, uint32_t threads)
{
    const struct eng_gemm_kernels *kernels = grad->tiles.kernels;
    const int64_t c = grad->tiles.shape.in_channels, m = grad->tiles.shape.out_channels;
    const int64_t nr = kernels->nr, panels = eng_gemm_panels(kernels, m);
    const int64_t tile_bytes =
        ENG_WINO_ELEMENTS * (grad->tiles.pitch + panels * nr) * (int64_t)sizeof(float);
    const int64_t all_sums = ENG_WINO_ELEMENTS * c * panels * nr * (int64_t)sizeof(float);
    const int64_t bytes = all_sums <= NEAR_SUM_BYTES ? NEAR_BYTES : BLOCK_BYTES;
    const int64_t most = bytes / tile_bytes > 1 ? bytes / tile_bytes : 1;
    grad->blocks = (grad->tiles.count + most - 1) / most;
    grad->block = (grad->tiles.count + grad->blocks - 1) / grad->blocks;
    grad->blocks = (grad->tiles.count + grad->block - 1) / grad->block;
    const int64_t column_bytes = ENG_WINO_ELEMENTS * c * (int64_t)sizeof(float);
    grad->chunk = CHUNK_BYTES / column_bytes / nr;
    grad->chunk = grad->chunk < 1 ? 1 : min_i64(grad->chunk, panels);
    while (grad->chunk > 1 && threads > 1 &&
           (panels + grad->chunk - 1) / grad->chunk < 2 * (int64_t)threads) {
        grad->chunk--;
    }
    grad->chunk *= nr;
    grad->chunks = (m + grad->chunk - 1) / grad->chunk;
    const int64_t rows = kernels->mr_max[2], row_tiles = (c + rows - 1) / rows;
    grad->row_max = (c + row_tiles - 1) / row_tiles;
    base_assert(grad->row_max > 0 && grad->row_max <= rows);
    grad->x_plane = (size_t)(grad->block * grad->tiles.pitch + ENG_WINO_PAD);
    grad->dy_plane = (size_t)(grad->block * panels * nr + ENG_WINO_PAD);
    grad->sum_plane = (size_t)(c * grad->chunk + ENG_WINO_PAD);
    grad->x_floats = ENG_WINO_ELEMENTS * grad->x_plane;
    grad->dy_floats = ENG_WINO_ELEMENTS * grad->dy_plane;
    grad->sum_floats = ENG_WINO_ELEMENTS * grad->sum_plane;
    grad->edge_floats = eng_wino_edge_floats(&grad->tiles);
}

enum base_status eng_conv_prepare_grad_wino(const struct eng_prepare *ctx,
                                            const struct eng_command *command,
                                            const struct eng_conv_shape *shape,
                                            struct eng_step *out_step)
{
    if (!eng_wino_pays(shape) || ctx->kernels->gemm->vl > LANES_MAX) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct grad *g = base_arena_zalloc(ctx->arena, sizeof(*g));
    if (g == NULL) {
        return BASE_ERR_NOMEM;
    }
    const uint32_t threads = eng_pool_threads(ctx->pool);
    eng_wino_tiles_init(&g->tiles, ctx->kernels->gemm, shape, ENG_WINO_UNIT);
    g->x = command->inputs[0];
    g->dy = command->inputs[1];
    g->dw = command->outputs[0];
    plan(g, threads);
    base_assert(g->blocks * g->block >= g->tiles.count);
    const size_t sums = g->sum_floats * (g->blocks > 1 ? (size_t)g->chunks : threads);
    out_step->scratch_bytes =
        (g->x_floats + g->dy_floats + g->edge_floats * threads + sums) * sizeof(float);
    out_step->state = g;
    out_step->run = run_grad;
    out_step->kernel = "conv_grad_weight.winograd4";
    return BASE_OK;
}
