// The blocked loops around the tile kernels. Planned on the planning thread by those that prepare
// products and convolutions (gemm_prepare.c, conv_direct.c, conv_chain.c, conv_grad_input.c),
// executed by their steps on the pool's threads; both work on structs the caller owns, so there is
// no state here. A plan says how the loops are cut: bands of rows, blocks of K, splits of columns,
// from the sizes of the caches and the number of threads. Other files fill rows and pack operands;
// the sums are the tables'.
#include "backend/cpu/gemm/gemm_run.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

#define L1_PANEL_BYTES          65536
#define L2_BAND_BYTES           600000
#define L2_RESULT_BYTES         500000
#define LONG_ROW_BLOCK          512 // floats of K, where blocks of it are the outer loop
#define BANDS_OF_WHOLE_ROWS_MAX 2
#define COLLIDING_FLOATS        1024    // rows this far apart share sets of the caches
#define ROWS_FOR_PEAK           8       // fewer wait for each other's sums
#define SMALL_FLOPS             1000000 // below it, waking another thread costs more than it brings

void eng_gemm_plan_act(struct eng_gemm_plan *plan, const struct eng_epilogue *epilogue)
{
    plan->act = plan->act_after = ENG_GEMM_ACT_NONE;
    plan->alpha = epilogue->alpha;
    plan->beta = epilogue->beta;
    if (!epilogue->has_activation) {
        return;
    }
    switch (epilogue->activation) {
    case ENG_RELU:
        plan->act = ENG_GEMM_ACT_CLIP;
        plan->alpha = 0.0f;
        plan->beta = INFINITY;
        break;
    case ENG_CLIP:
        plan->act = ENG_GEMM_ACT_CLIP;
        break;
    case ENG_LEAKY_RELU:
        plan->act = ENG_GEMM_ACT_LEAKY;
        break;
    case ENG_HARD_SWISH:
        plan->act = ENG_GEMM_ACT_HARD_SWISH;
        plan->alpha = 1.0f / 6.0f;
        plan->beta = 0.5f;
        break;
    case ENG_SIGMOID:
        plan->act_after = ENG_GEMM_ACT_SIGMOID;
        break;
    case ENG_TANH:
        plan->act_after = ENG_GEMM_ACT_TANH;
        break;
    case ENG_GELU:
        plan->act_after = ENG_GEMM_ACT_GELU;
        break;
    default:
        base_assert(epilogue->activation == ENG_GELU_TANH);
        plan->act_after = ENG_GEMM_ACT_GELU_TANH;
        break;
    }
}

static int64_t min_i64(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

static int64_t div_up(int64_t left, int64_t right)
{
    return (left + right - 1) / right;
}

// The height of tiles that does `count` rows in the least time, the last tile being what is left:
// 49 rows are 13 + 13 + 13 + 10 rather than 14 + 14 + 14 + 7, 256 are 19 of 13 and 9.
static int64_t tile_height(const struct eng_gemm_kernels *kernels, int64_t count)
{
    const int64_t mr = kernels->mr_max[2];
    base_assert(mr > 0 && count > 0);
    int64_t best = div_up(count, div_up(count, mr)), least = INT64_MAX;
    for (int64_t height = mr; height >= mr - mr / 4 && kernels->pair_step <= 1; height--) {
        const int64_t tiles = div_up(count, height), last = count - (tiles - 1) * height;
        const int64_t time = (tiles - 1) * height + (last < ROWS_FOR_PEAK ? ROWS_FOR_PEAK : last);
        if (tiles > 1 && time < least) {
            least = time;
            best = height;
        }
    }
    return best;
}

void eng_gemm_plan_rows(struct eng_gemm_plan *plan, int64_t count)
{
    plan->width = count > 0 ? tile_height(plan->kernels, count) : 1;
    plan->rows = div_up(count, plan->width);
    plan->row_limit = count;
    plan->a_row = plan->width * plan->lda;
    plan->c_row = plan->width * plan->ldc;
}

// Bands and splits: enough items for an even share, without bands so thin that panels are read for
// nothing.
static int64_t share(struct eng_gemm_plan *plan, uint32_t threads, int64_t band)
{
    const int64_t panels = eng_gemm_panels(plan->kernels, plan->n) * plan->groups;
    const int64_t wanted = (int64_t)threads * 4;
    const bool by_rows = plan->tuning != ENG_TUNING_COLUMNS;
    const int64_t thin =
        plan->tuning == ENG_TUNING_ROWS ? 1 : min_i64(plan->rows, div_up(24, plan->width));
    while (by_rows && plan->images * div_up(plan->rows, band) < wanted && band > thin) {
        band = band / 2 < thin ? thin : band / 2;
    }
    const int64_t items = plan->images * div_up(plan->rows, band);
    if (items < wanted && plan->tuning != ENG_TUNING_ROWS) {
        plan->splits = (uint32_t)min_i64(panels, div_up(wanted, items));
    }
    return band;
}

// Floats of K in a block.
static uint32_t block_of_k(const struct eng_gemm_plan *plan)
{
    uint32_t kc = (uint32_t)(L1_PANEL_BYTES / sizeof(float) / plan->kernels->nr);
    if (plan->ldc % COLLIDING_FLOATS == 0) {
        kc *= 2; // partial sums would push each other out of the cache
    }
    if (plan->band_rows * plan->tiles < 3 || plan->kernels->pair_step > 1) {
        return UINT32_MAX; // too few tiles to read a panel again
    }
    switch (plan->tuning) {
    case ENG_TUNING_K_HALF:
        return kc / 2;
    case ENG_TUNING_K_DOUBLE:
        return kc * 2;
    case ENG_TUNING_K_WHOLE:
        return UINT32_MAX;
    default:
        return kc;
    }
}

// Rows of A whose `row_floats` fit into so many bytes.
static int64_t rows_within(const struct eng_gemm_plan *plan, size_t bytes, size_t row_floats)
{
    const size_t rows = bytes / sizeof(float) / (row_floats > 0 ? row_floats : 1);
    return rows < 1 ? 1 : min_i64((int64_t)rows, plan->rows);
}

// Whether rows are so long that bands of whole ones would read B many times.
static bool has_long_rows(const struct eng_gemm_plan *plan, int64_t band)
{
    return plan->fill == NULL && plan->segment_count == 1 && plan->groups == 1 &&
           plan->k > LONG_ROW_BLOCK && plan->tuning != ENG_TUNING_K_WHOLE &&
           div_up(plan->rows, band) > BANDS_OF_WHOLE_ROWS_MAX;
}

void eng_gemm_plan_block(struct eng_gemm_plan *plan, uint32_t threads, size_t fill_row_floats)
{
    const struct eng_gemm_kernels *kernels = plan->kernels;
    const int64_t k = (int64_t)plan->segment_count * plan->k;
    const int64_t mr = kernels->mr_max[2];
    base_assert(plan->rows > 0 && plan->width > 0 && threads > 0);
    plan->tiles = (uint32_t)div_up(plan->width, mr);
    plan->tile_rows = (uint32_t)div_up(plan->width, plan->tiles);
    const size_t row_floats =
        fill_row_floats > 0 ? fill_row_floats : (size_t)(plan->width * plan->k);
    const size_t band_bytes = plan->tuning == ENG_TUNING_BAND_HALF     ? L2_BAND_BYTES / 2
                              : plan->tuning == ENG_TUNING_BAND_DOUBLE ? L2_BAND_BYTES * 2
                                                                       : L2_BAND_BYTES;
    int64_t band = rows_within(plan, band_bytes, row_floats);
    const double flops = 2.0 * (double)plan->images * (double)plan->row_limit * (double)k *
                         (double)(plan->n * plan->groups);
    if (has_long_rows(plan, band)) {
        plan->k_outside = true;
        band = rows_within(plan, band_bytes, (size_t)plan->width * LONG_ROW_BLOCK);
    }
    plan->splits = 1;
    if (threads > 1 && flops >= SMALL_FLOPS) {
        band = share(plan, threads, band);
    }
    plan->bands = div_up(plan->rows, band);
    plan->band_rows = div_up(plan->rows, plan->bands);
    plan->bands = div_up(plan->rows, plan->band_rows);
    base_assert(plan->tile_rows <= mr && (plan->bands - 1) * plan->band_rows < plan->rows);
    plan->kc = block_of_k(plan);
    plan->far = (double)plan->images * (double)plan->row_limit * (double)plan->ldc * sizeof(float) >
                L2_RESULT_BYTES;
}

// One panel of columns over the tiles of a band, for one block of K.
struct block {
    int64_t row, rows; // the band
    const float *a;    // its first row
    float *c;
    const float *bias, *residual;
    uint32_t k, k_end; // of each segment
    bool whole;        // no blocks of K: C may not hold partial sums, the residual lies there
};

static void run_tiles(const struct eng_gemm_plan *plan, const struct block *block,
                      struct eng_gemm_tile *tile, uint32_t nv)
{
    const eng_gemm_tile_fn *fns = plan->kernels->tile[nv];
    for (int64_t r = 0; r < block->rows; r++) {
        const int64_t left = plan->row_limit - (block->row + r) * plan->width;
        const int64_t width = min_i64(plan->width, left);
        for (int64_t x = 0; x < width; x += plan->tile_rows) {
            const int64_t count = min_i64(plan->tile_rows, width - x);
            const int64_t out = r * plan->c_row + x * plan->ldc;
            tile->a = block->a + r * plan->a_row + x * plan->lda;
            tile->c = block->c + out;
            tile->rows = (uint32_t)count;
            tile->residual = block->residual != NULL ? block->residual + out : NULL;
            fns[count - 1](tile);
            if (tile->finish && plan->act_after != ENG_GEMM_ACT_NONE) {
                plan->kernels->act_rows(tile->c, (size_t)count, tile->ldc, tile->n,
                                        plan->act_after);
            }
        }
    }
}

// Floats of K in a block of a segment, for parts of equal length.
static uint32_t part_of_k(const struct eng_gemm_plan *plan, bool whole)
{
    const uint32_t parts = whole || plan->k <= plan->kc ? 1 : (plan->k - 1) / plan->kc + 1;
    return (plan->k + parts - 1) / parts;
}

// The block's range of K for one panel: in blocks of whole segments when they are short, of parts
// of one when they are long. Sums wait in C between blocks.
static void run_panel(const struct eng_gemm_plan *plan, const struct block *block,
                      const float *right, uint32_t count)
{
    const uint32_t vl = plan->kernels->vl;
    const uint32_t nv = (count + vl - 1) / vl;
    base_assert(nv <= ENG_GEMM_NV_MAX);
    base_assert(plan->tile_rows <= plan->kernels->mr_max[nv]); // a kernel of so many rows
    const uint32_t width = (nv > 2 ? 2 : nv) * vl;
    struct eng_gemm_tile tile = {
        .lda = (size_t)plan->lda,
        .ldc = (size_t)plan->ldc,
        .ldr = (size_t)plan->ldc,
        .n = count,
        .b_next = (size_t)plan->segment_count * plan->k * width,
        .act = plan->act,
        .alpha = plan->alpha,
        .beta = plan->beta,
        .bias = block->bias,
        .far = plan->far,
    };
    const uint32_t kc = block->whole ? UINT32_MAX : plan->kc;
    const uint32_t part = part_of_k(plan, block->whole);
    const uint32_t together = part < plan->k ? 1 : kc / (plan->k > 0 ? plan->k : 1);
    struct block now = *block;
    for (uint32_t segment = 0; segment < plan->segment_count; segment += tile.segment_count) {
        const uint32_t left = plan->segment_count - segment;
        tile.segment_count = left < together ? left : together;
        tile.segments = plan->segments + segment;
        for (uint32_t k = block->k; k < block->k_end; k += part) {
            tile.k = block->k_end - k < part ? block->k_end - k : part;
            tile.b = right + ((size_t)segment * plan->k + k) * width;
            tile.accumulate = segment > 0 || k > 0;
            tile.finish = left == tile.segment_count && k + tile.k == plan->k;
            now.a = block->a + k;
            run_tiles(plan, &now, &tile, nv);
        }
    }
}

// The block's rows and range of K for panels [first, last).
static void run_panels(const struct eng_gemm_run *run, struct block *block, int64_t image,
                       int64_t first, int64_t last)
{
    const struct eng_gemm_plan *plan = run->plan;
    const struct eng_gemm_kernels *kernels = plan->kernels;
    const struct block rows = *block;
    base_assert(block->k < block->k_end && block->k_end <= plan->k);
    const float *b = run->b + (plan->b_offsets != NULL ? plan->b_offsets[image] : 0);
    const int64_t panels = eng_gemm_panels(kernels, plan->n);
    const int64_t k = (int64_t)plan->segment_count * plan->k;
    const size_t group_floats = eng_gemm_packed_floats(kernels, k, plan->n);
    const int64_t out = image * plan->c_image + rows.row * plan->c_row;
    for (int64_t unit = first, step; unit < last; unit += step) {
        const int64_t group = unit / panels, panel = unit % panels;
        const int64_t column = panel * kernels->nr;
        const int64_t channel = group * plan->n + column;
        int64_t n = min_i64(kernels->nr, plan->n - column);
        step = 1;
        // Few rows: two panels at once, so that enough sums are under way.
        if (plan->tile_rows <= kernels->mr_max[4] && unit + 1 < last &&
            plan->n - column > 3 * (int64_t)kernels->vl) {
            n = min_i64(2 * (int64_t)kernels->nr, plan->n - column);
            step = 2;
        }
        block->a = rows.a + group * plan->a_group;
        block->c = run->c + out + channel;
        block->bias = run->bias != NULL ? run->bias + channel : NULL;
        block->residual = run->residual != NULL ? run->residual + out + channel : NULL;
        run_panel(plan, block, b + (size_t)group * group_floats + (size_t)(column * k),
                  (uint32_t)n);
    }
    *block = rows;
}

// Panels [first, last) of a band.
static void run_band(const struct eng_gemm_run *run, const struct eng_gemm_band *band,
                     int64_t first, int64_t last, uint32_t worker)
{
    const struct eng_gemm_plan *plan = run->plan;
    const int64_t image = band->image;
    struct block block = {.row = band->row, .rows = band->rows, .whole = run->residual == run->c};
    base_assert(image < plan->images && band->rows > 0 && band->row + band->rows <= plan->rows);
    base_assert(plan->fill == NULL || plan->fill_floats == 0 || run->scratch != NULL);
    if (plan->fill != NULL) {
        float *buffer = run->scratch + (size_t)worker * plan->fill_floats;
        plan->fill(plan->fill_ctx, run->a, band, buffer);
        block.a = buffer;
    } else {
        block.a = run->a +
                  (plan->a_offsets != NULL ? plan->a_offsets[image] : image * plan->a_image) +
                  block.row * plan->a_row;
    }
    const uint32_t part = plan->k_outside ? part_of_k(plan, block.whole) : plan->k;
    for (uint32_t k = 0; k < plan->k; k += part) {
        block.k = k;
        block.k_end = plan->k - k < part ? plan->k : k + part;
        run_panels(run, &block, image, first, last);
    }
}

static void run_items(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    const struct eng_gemm_run *run = ctx;
    const struct eng_gemm_plan *plan = run->plan;
    const int64_t panels = eng_gemm_panels(plan->kernels, plan->n) * plan->groups;
    if (plan->kernels->enter != NULL) {
        plan->kernels->enter();
    }
    for (int64_t item = begin; item < end; item++) {
        const int64_t split = item % plan->splits, number = item / plan->splits;
        const int64_t row = number % plan->bands * plan->band_rows;
        const struct eng_gemm_band band = {.image = number / plan->bands,
                                           .row = row,
                                           .rows = min_i64(plan->band_rows, plan->rows - row)};
        run_band(run, &band, split * panels / plan->splits, (split + 1) * panels / plan->splits,
                 worker);
    }
    if (plan->kernels->leave != NULL) {
        plan->kernels->leave();
    }
}

void eng_gemm_execute(const struct eng_gemm_run *run, struct eng_pool *pool)
{
    const struct eng_gemm_plan *plan = run->plan;
    const int64_t items = plan->images * plan->bands * plan->splits;
    base_assert(plan->tile_rows > 0 && plan->kc > 0); // cut
    if (items <= 1) {
        run_items((void *)(uintptr_t)run, 0, items, 0);
        return;
    }
    eng_pool_for(pool, items, 1, run_items, (void *)(uintptr_t)run);
}
