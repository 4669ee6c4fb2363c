// Winograd convolution F(4 x 4) with kernels that change between runs: forward while training, and
// the gradient of the input, which is a convolution with the kernels turned round. The kernels are
// transformed in each run, all of them first and then block by block of tiles (few channels); or
// all tiles first and then panel by panel of output channels (many: the transformed kernels of all
// panels would not stay in the caches). Prepared on the planning thread, run by the session's and
// the pool's.
#include "backend/cpu/conv_grad.h"

#include "backend/cpu/gemm/gemm_run.h"
#include "backend/cpu/kernel/kernels.h"
#include "backend/cpu/wino_tiles.h"
#include "base/check.h"
#include "model/graph.h"

#include <string.h>

#define BLOCK_BYTES     524288 // of a block's transformed input and products together
#define NEAR_BYTES      655360 // transformed kernels that stay in the second-level cache
#define TAPS            9
#define LANES_MAX       16
#define KERNEL_CHANNELS 8 // input channels whose kernels are read together

struct live {
    struct eng_wino_tiles tiles;
    struct eng_gemm_plan act; // only its activation fields
    uint32_t x, w, y, bias, residual;
    bool is_turned;            // w [in][out][taps backwards]
    bool by_panels;            // all tiles first
    int64_t block, blocks, mr; // tiles of a block; of a tile of the product
    size_t in_plane, out_plane;
    size_t block_floats;  // a block's transformed input
    size_t thread_floats; // products, an edge tile, and what is the thread's else
    size_t kernel_floats; // of all panels
};

struct live_run {
    const struct live *d;
    const float *x, *w, *bias, *residual;
    float *y;
    float *shared;  // by_panels: the blocks; else the kernels
    float *threads; // thread_floats each
};

// --- kernels ----------------------------------------------------------------------------------

// Nine taps, or nine from the last to the first, each to its own vector.
static inline void put_taps(const float *from, bool is_turned, float *to, int64_t vl)
{
#pragma GCC unroll 9
    for (int64_t t = 0; t < TAPS; t++) {
        to[t * vl] = from[is_turned ? TAPS - 1 - t : t];
    }
}

// Kernels that are read together.
struct kernels {
    int64_t column, left; // vl output channels from `column` on, of which so many exist
    int64_t begin, end;   // input channels, at most KERNEL_CHANNELS
};

// As [channel][tap][vl].
static void read_kernels(const struct live_run *live_run, const struct kernels *kernels,
                         float *taps)
{
    const struct eng_conv_shape *s = &live_run->d->tiles.shape;
    const int64_t vl = live_run->d->tiles.kernels->vl;
    const int64_t column = kernels->column, left = kernels->left;
    const int64_t begin = kernels->begin, count = kernels->end - begin;
    for (int64_t l = 0; l < left; l++) {
        const float *w = live_run->w + ((column + l) * s->in_channels + begin) * TAPS;
        for (int64_t i = 0; i < count; i++) {
            put_taps(w + i * TAPS, false, taps + i * TAPS * vl + l, vl);
        }
    }
}

static void read_turned(const struct live_run *live_run, const struct kernels *kernels, float *taps)
{
    const struct eng_conv_shape *s = &live_run->d->tiles.shape;
    const int64_t vl = live_run->d->tiles.kernels->vl;
    const int64_t column = kernels->column, left = kernels->left, end = kernels->end;
    for (int64_t i = kernels->begin; i < end; i++, taps += TAPS * vl) {
        const float *w = live_run->w + (i * s->out_channels + column) * TAPS;
        for (int64_t l = 0; l < left; l++) {
            put_taps(w + l * TAPS, true, taps + l, vl);
        }
    }
}

// Floats of one element's kernels of a panel that has `width` columns.
static size_t kernel_plane(const struct live *live, int64_t width)
{
    return (size_t)(live->tiles.shape.in_channels * width + ENG_WINO_PAD);
}

// One panel's kernels, input channels [begin, end): [element][channel][columns of the panel].
static void transform_panel(const struct live_run *live_run, int64_t panel, int64_t begin,
                            int64_t end, float *out)
{
    const struct eng_gemm_kernels *kernels = live_run->d->tiles.kernels;
    const struct eng_conv_shape *s = &live_run->d->tiles.shape;
    const int64_t vl = kernels->vl;
    const int64_t column = panel * kernels->nr, rest = s->out_channels - column;
    const int64_t n = rest < kernels->nr ? rest : kernels->nr, width = (n + vl - 1) / vl * vl;
    base_assert(n > 0);
    base_assert(vl <= LANES_MAX);
    float taps[KERNEL_CHANNELS * TAPS * LANES_MAX] = {0};
    for (int64_t j = 0; j < n; j += vl) {
        const int64_t left = n - j < vl ? n - j : vl;
        if (left < vl) {
            memset(taps, 0, sizeof(taps));
        }
        for (int64_t i = begin; i < end; i += KERNEL_CHANNELS) {
            const int64_t last = end - i < KERNEL_CHANNELS ? end : i + KERNEL_CHANNELS;
            const struct kernels read = {column + j, left, i, last};
            (live_run->d->is_turned ? read_turned : read_kernels)(live_run, &read, taps);
            for (int64_t k = i; k < last; k++) {
                kernels->wino_kernels(taps + (k - i) * TAPS * vl, out + k * width + j,
                                      kernel_plane(live_run->d, width));
            }
        }
    }
}

// Items: panels by pieces of the input channels.
#define PIECE 32
static void transform_kernels(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct live_run *r = ctx;
    const struct live *d = r->d;
    const int64_t c = d->tiles.shape.in_channels, pieces = (c + PIECE - 1) / PIECE;
    const size_t panel_floats = ENG_WINO_ELEMENTS * kernel_plane(d, d->tiles.kernels->nr);
    for (int64_t i = begin; i < end; i++) {
        const int64_t from = i % pieces * PIECE, to = from + PIECE < c ? from + PIECE : c;
        transform_panel(r, i / pieces, from, to, r->shared + (size_t)(i / pieces) * panel_floats);
    }
}

// --- tiles ------------------------------------------------------------------------------------

static int64_t block_tiles(const struct live *live, int64_t block)
{
    const int64_t left = live->tiles.count - block * live->block;
    base_assert(left > 0);
    return left < live->block ? left : live->block;
}

// Products of all elements of a block's tiles with one panel of `channels` output channels.
static void multiply(const struct live *live, const struct eng_wino_product *product, int64_t count,
                     int64_t channels)
{
    static const int64_t no_offset[1] = {0};
    const float *v = product->v, *u = product->u;
    float *m = product->m;
    base_assert(count > 0 && count <= live->block && channels > 0 &&
                channels <= live->tiles.kernels->nr);
    const struct eng_gemm_kernels *kernels = live->tiles.kernels;
    const int64_t vl = kernels->vl, c = live->tiles.shape.in_channels;
    const uint32_t nv = (uint32_t)((channels + vl - 1) / vl);
    const size_t floats = kernel_plane(live, nv * vl);
    struct eng_gemm_tile tile = {.lda = (size_t)live->tiles.pitch,
                                 .segments = no_offset,
                                 .segment_count = 1,
                                 .k = (uint32_t)c,
                                 .ldc = kernels->nr,
                                 .n = (uint32_t)channels};
    for (uint32_t e = 0; e < ENG_WINO_ELEMENTS; e++) {
        tile.b = u + e * floats;
        for (int64_t i = 0; i < count; i += live->mr) {
            const int64_t left = count - i < live->mr ? count - i : live->mr;
            tile.a = v + e * live->in_plane + (size_t)(i * live->tiles.pitch);
            tile.c = m + e * live->out_plane + (size_t)i * tile.ldc;
            kernels->tile[nv][left - 1](&tile);
        }
    }
}

static void run_tiles(const struct live_run *live_run, int64_t block, int64_t panel,
                      const struct eng_wino_product *product)
{
    const struct live *d = live_run->d;
    const int64_t nr = d->tiles.kernels->nr, count = block_tiles(d, block);
    const int64_t column = panel * nr, left = d->tiles.shape.out_channels - column;
    const int64_t n = left < nr ? left : nr;
    multiply(d, product, count, n);
    const struct eng_wino_sums sums = {.kernels = d->tiles.kernels,
                                       .act = &d->act,
                                       .in = product->m,
                                       .plane = d->out_plane,
                                       .y = live_run->y,
                                       .bias = live_run->bias,
                                       .residual = live_run->residual,
                                       .column = column,
                                       .channels = n};
    eng_wino_tiles_out(&d->tiles, &sums, block * d->block, count);
}

static int64_t panel_count(const struct live *live)
{
    return eng_gemm_panels(live->tiles.kernels, live->tiles.shape.out_channels);
}

// A thread's memory: products, an edge tile, then a block (or a panel's kernels).
struct room {
    float *m, *edge, *own;
};

static struct room room_of(const struct live_run *live_run, uint32_t worker)
{
    float *m = live_run->threads + worker * live_run->d->thread_floats;
    float *edge = m + ENG_WINO_ELEMENTS * live_run->d->out_plane;
    return (struct room){m, edge, edge + eng_wino_edge_floats(&live_run->d->tiles)};
}

// --- two orders -------------------------------------------------------------------------------

// Block by block: its tiles, then every panel.
static void run_blocks(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct live_run *r = ctx;
    const struct live *d = r->d;
    const struct room room = room_of(r, worker);
    const size_t panel_floats = ENG_WINO_ELEMENTS * kernel_plane(d, d->tiles.kernels->nr);
    const struct eng_wino_elements elements = {room.own, d->in_plane, room.edge};
    struct eng_wino_product product = {.v = room.own, .m = room.m};
    base_assert(!d->by_panels);
    for (int64_t block = begin; block < end; block++) {
        eng_wino_tiles_in(&d->tiles, r->x, block * d->block, block_tiles(d, block), &elements);
        for (int64_t panel = 0; panel < panel_count(d); panel++) {
            product.u = r->shared + (size_t)panel * panel_floats;
            run_tiles(r, block, panel, &product);
        }
    }
}

static void transform_blocks(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct live_run *r = ctx;
    const struct live *d = r->d;
    for (int64_t block = begin; block < end; block++) {
        const struct eng_wino_elements elements = {r->shared + (size_t)block * d->block_floats,
                                                   d->in_plane, room_of(r, worker).edge};
        eng_wino_tiles_in(&d->tiles, r->x, block * d->block, block_tiles(d, block), &elements);
    }
}

// Panel by panel: its kernels, then every block.
static void run_panels(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct live_run *r = ctx;
    const struct live *d = r->d;
    const struct room room = room_of(r, worker);
    struct eng_wino_product product = {.u = room.own, .m = room.m};
    base_assert(d->by_panels);
    for (int64_t panel = begin; panel < end; panel++) {
        transform_panel(r, panel, 0, d->tiles.shape.in_channels, room.own);
        for (int64_t block = 0; block < d->blocks; block++) {
            product.v = r->shared + (size_t)block * d->block_floats;
            run_tiles(r, block, panel, &product);
        }
    }
}

static enum base_status run_live(const struct eng_step *step, const struct eng_run *run)
{
    const struct live *d = step->state;
    struct live_run r = {.d = d,
                         .x = run->data[d->x],
                         .w = run->data[d->w],
                         .bias = eng_run_data(run, d->bias),
                         .residual = eng_run_data(run, d->residual),
                         .y = run->data[d->y],
                         .shared = run->scratch};
    if (d->by_panels) {
        r.threads = r.shared + (size_t)d->blocks * d->block_floats;
        eng_pool_for(run->pool, d->blocks, 1, transform_blocks, &r);
        eng_pool_for(run->pool, panel_count(d), 1, run_panels, &r);
        return BASE_OK;
    }
    r.threads = r.shared + d->kernel_floats;
    const int64_t pieces = (d->tiles.shape.in_channels + PIECE - 1) / PIECE;
    eng_pool_for(run->pool, panel_count(d) * pieces, 1, transform_kernels, &r);
    eng_pool_for(run->pool, d->blocks, 1, run_blocks, &r);
    return BASE_OK;
}

// --- planning ---------------------------------------------------------------------------------

static void plan_blocks(struct live *live, uint32_t threads)
{
    const int64_t nr = live->tiles.kernels->nr;
    const int64_t mr = live->tiles.kernels->mr_max[2], count = live->tiles.count;
    int64_t block = BLOCK_BYTES / (int64_t)sizeof(float) /
                    (ENG_WINO_ELEMENTS * (live->tiles.pitch + nr)) / mr * mr;
    block = block < mr ? mr : block;
    block = block > 6 * mr ? 6 * mr : block;
    int64_t blocks = (count + block - 1) / block;
    const int64_t panels = panel_count(live);
    live->kernel_floats = (size_t)panels * ENG_WINO_ELEMENTS * kernel_plane(live, nr);
    // What is read from beyond the second-level cache: kernels by block, or tiles by panel.
    const int64_t tile_floats = ENG_WINO_ELEMENTS * live->tiles.pitch * count;
    live->by_panels = live->kernel_floats * sizeof(float) > NEAR_BYTES &&
                      tile_floats * (panels + 1) < (int64_t)live->kernel_floats * (blocks + 1) &&
                      panels >= (int64_t)threads;
    if (!live->by_panels && threads > 1 && blocks < threads * 2) {
        const int64_t most = (count + mr - 1) / mr;
        blocks = most < (int64_t)threads * 2 ? most : (int64_t)threads * 2;
    }
    live->block = (count + blocks - 1) / blocks;
    live->blocks = (count + live->block - 1) / live->block;
    const int64_t rows = (live->block + mr - 1) / mr;
    live->mr = (live->block + rows - 1) / rows;
    base_assert(live->blocks * live->block >= count);
    base_assert(live->mr <= mr);
    live->in_plane = (size_t)(live->block * live->tiles.pitch + ENG_WINO_PAD);
    live->out_plane = (size_t)(live->block * nr + ENG_WINO_PAD);
    live->block_floats = ENG_WINO_ELEMENTS * live->in_plane;
    live->thread_floats =
        ENG_WINO_ELEMENTS * live->out_plane + eng_wino_edge_floats(&live->tiles) +
        (live->by_panels ? ENG_WINO_ELEMENTS * kernel_plane(live, nr) : live->block_floats);
}

enum base_status eng_conv_prepare_live(const struct eng_prepare *ctx,
                                       const struct eng_command *command,
                                       const struct eng_conv_shape *shape, bool is_turned,
                                       struct eng_step *out_step)
{
    if (!eng_wino_pays(shape) || ctx->kernels->gemm->vl > LANES_MAX) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct live *d = base_arena_zalloc(ctx->arena, sizeof(*d));
    if (d == NULL) {
        return BASE_ERR_NOMEM;
    }
    const uint32_t threads = eng_pool_threads(ctx->pool);
    eng_wino_tiles_init(&d->tiles, ctx->kernels->gemm, shape, ENG_WINO_UNIT);
    d->is_turned = is_turned;
    d->x = command->inputs[0];
    d->w = command->inputs[1];
    d->y = command->outputs[0];
    d->bias = command->u.conv.epilogue.bias;
    d->residual = command->u.conv.epilogue.residual;
    eng_gemm_plan_act(&d->act, &command->u.conv.epilogue);
    plan_blocks(d, threads);
    base_assert(d->mr > 0);
    const size_t shared = d->by_panels ? (size_t)d->blocks * d->block_floats : d->kernel_floats;
    out_step->scratch_bytes = (shared + d->thread_floats * threads) * sizeof(float);
    out_step->state = d;
    out_step->run = run_live;
    out_step->kernel = is_turned ? "conv_grad_input.winograd4" : "conv.winograd4.live";
    return BASE_OK;
}
