// A blocked product over rows of an image-like operand: what matrix products and direct
// convolutions come down to.
//
// Rows of A are numbered image, row, position: `width` positions a row lie lda apart, rows a_row
// apart. One thread takes a band (some rows of one image) and a range of column panels; for each
// panel, and each block of K that fits the first-level cache with it, it runs the tiles of the
// band.
#ifndef ENG_CPU_GEMM_RUN_H
#define ENG_CPU_GEMM_RUN_H

#include "backend/backend.h"
#include "backend/cpu/kernel/gemm_kernels.h"

struct eng_gemm_run;
// What one thread takes of A at a time.
struct eng_gemm_band {
    int64_t image;
    int64_t row, rows; // the first of the image's, and how many
};
// Copies the band's rows into `buffer` in the form the plan's a_row, lda and segments describe:
// padding, or breaking strides that collide in the cache.
typedef void (*eng_gemm_fill_fn)(const void *ctx, const float *input,
                                 const struct eng_gemm_band *band, float *buffer);

struct eng_gemm_plan {
    const struct eng_gemm_kernels *kernels;
    int64_t images, rows, width;
    int64_t row_limit; // positions of one image that exist: rows * width, or less in the last row
    int64_t a_image, a_row, lda; // with fill: inside the buffer, a_image unused
    const int64_t *a_offsets;    // by image, instead of a_image
    const int64_t *segments;
    uint32_t segment_count, k;
    int64_t groups, a_group, n; // n: columns of one group
    const int64_t *b_offsets;   // by image: floats into the packed operand; NULL: one for all
    int64_t c_image, c_row, ldc;
    eng_gemm_fill_fn fill; // NULL: A is read where it lies
    const void *fill_ctx;
    size_t fill_floats; // of one band
    enum eng_tuning tuning;
    // blocking
    uint32_t tile_rows, tiles;        // positions of a tile, tiles of a row
    int64_t band_rows, bands;         // rows of a band, bands of an image
    uint32_t splits;                  // ranges of panels
    uint32_t kc;                      // floats of K in a block
    bool k_outside;                   // all panels for one block of K, then the next
    bool far;                         // C as a whole does not stay in the second-level cache
    enum eng_gemm_act act, act_after; // in registers; as a second pass
    float alpha, beta;
};

// Pointers of one run.
struct eng_gemm_run {
    const struct eng_gemm_plan *plan;
    const float *a, *b; // b packed
    float *c;
    const float *bias, *residual; // NULL: none
    float *scratch;               // fill_floats a worker
};

// Lays `count` plain rows, lda and ldc apart, out as rows of one tile each.
void eng_gemm_plan_rows(struct eng_gemm_plan *plan, int64_t count);
// Chooses tile, band, splits and kc for the shape already set, `threads` and `fill_row_floats`
// (floats a band's buffer grows by with each row; 0 without fill).
void eng_gemm_plan_block(struct eng_gemm_plan *plan, uint32_t threads, size_t fill_row_floats);
// Sets act and act_after from an epilogue.
void eng_gemm_plan_act(struct eng_gemm_plan *plan, const struct eng_epilogue *epilogue);
// The own product for a MATMUL command, cut as ctx->tuning says. UNSUPPORTED: not float32, or
// empty.
BASE_NODISCARD enum base_status eng_gemm_prepare_product(const struct eng_prepare *ctx,
                                                         const struct eng_program *program,
                                                         const struct eng_command *command,
                                                         struct eng_step *out_step);
// The plan alone, nothing packed, in ctx's arena: for estimates; not to be executed.
BASE_NODISCARD enum base_status eng_gemm_plan_product(const struct eng_prepare *ctx,
                                                      const struct eng_program *program,
                                                      const struct eng_command *command,
                                                      struct eng_gemm_plan *out_plan);
void eng_gemm_execute(const struct eng_gemm_run *run, struct eng_pool *pool);

// Floats of a packed [depth][columns] operand.
size_t eng_gemm_packed_floats(const struct eng_gemm_kernels *kernels, int64_t depth,
                              int64_t columns);
// How an operand to be packed is read: element (k, n) at n * stride_n + the mixed-radix offset of k
// over dims (last fastest).
#define ENG_GEMM_K_DIMS 4
struct eng_gemm_source {
    const float *data;
    int64_t n, stride_n;
    uint32_t dim_count;
    int64_t dims[ENG_GEMM_K_DIMS], strides[ENG_GEMM_K_DIMS];
    float scale;
};
// With a table that holds pairs, each run of the last dim is rounded up to whole pair steps.
void eng_gemm_pack(const struct eng_gemm_kernels *kernels, const struct eng_gemm_source *source,
                   float *out);
// Panels [begin, end) alone; panel p starts at out + p * k * nr.
void eng_gemm_pack_panels(const struct eng_gemm_kernels *kernels,
                          const struct eng_gemm_source *source, int64_t begin, int64_t end,
                          float *out);
// Pairs a run of `count` channels takes in a table that holds pairs.
static inline int64_t eng_gemm_pairs(const struct eng_gemm_kernels *kernels, int64_t count)
{
    const int64_t step = kernels->pair_step;
    return ((count + 1) / 2 + step - 1) / step * step;
}
// The table for products of bfloat16 where the session wants them and this processor has them.
const struct eng_gemm_kernels *eng_gemm_low_kernels(const struct eng_prepare *prepare);
static inline int64_t eng_gemm_panels(const struct eng_gemm_kernels *kernels, int64_t count)
{
    return (count + kernels->nr - 1) / kernels->nr;
}

#endif
