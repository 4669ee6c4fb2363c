// The inner loops of products and convolutions, one table per instruction set.
//
// A tile kernel computes `mr` rows by up to NR*2 columns and keeps all sums in registers. Rows of A
// lie `lda` floats apart; along K they are made of segments (the taps of a convolution: runs of `k`
// contiguous floats, each at its own offset), so that a convolution over channels-last pixels is a
// product without a copy. B is packed: panels of `width` columns, [K][width], padded with zeroes.
//
// Everything here is stateless and may be called from any thread.
#ifndef ENG_CPU_GEMM_KERNELS_H
#define ENG_CPU_GEMM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What is done in registers before a tile is stored; the others are a second pass (act_rows).
enum eng_gemm_act {
    ENG_GEMM_ACT_NONE,
    ENG_GEMM_ACT_CLIP,       // min(max(x, alpha), beta); RELU is 0, inf
    ENG_GEMM_ACT_LEAKY,      // x < 0 ? alpha x : x
    ENG_GEMM_ACT_HARD_SWISH, // x clip(alpha x + beta, 0, 1)
    ENG_GEMM_ACT_SIGMOID,    // from here on: act_rows
    ENG_GEMM_ACT_TANH,
    ENG_GEMM_ACT_GELU,
    ENG_GEMM_ACT_GELU_TANH,
};

struct eng_gemm_tile {
    const float *a;          // first row, first segment's base
    size_t lda;              // floats from row to row
    const int64_t *segments; // offsets from `a`; segment_count of them
    uint32_t segment_count;
    uint32_t k;      // floats of one segment
    const float *b;  // [segment_count * k][width] of the first panel
    size_t b_next;   // floats to the next panel (nv 4 reads two)
    float *c;        // first row, first column
    size_t ldc;      // floats from row to row
    uint32_t rows;   // rows stored
    uint32_t n;      // columns stored, in (vl * (nv - 1), vl * nv]
    bool accumulate; // adds to what C holds
    bool far;        // C is too large for the caches near the processor
    bool finish;     // residual and activation below apply
    enum eng_gemm_act act;
    const float *bias;     // of the first column: where sums start that C does not hold; NULL: at 0
    const float *residual; // as c; NULL: none
    size_t ldr;
    float alpha, beta;
};
typedef void (*eng_gemm_tile_fn)(const struct eng_gemm_tile *tile);

// c[i][n] = sum over k of a[k * a_step + i] * b[k * b_step + n]: rows of A side by side, as pixels
// of channels are. A is made of segments as above; B goes on from one to the next.
struct eng_gemm_turned {
    const float *a; // first row
    size_t a_step;
    const int64_t *segments;
    uint32_t segment_count, k; // k: steps of one segment
    const float *b;            // first column
    size_t b_step;
    float *c;
    size_t ldc;
    uint32_t n; // columns, in (vl * (nv - 1), vl * nv]
    bool accumulate;
};
typedef void (*eng_gemm_turned_fn)(const struct eng_gemm_turned *tile);

#define ENG_GEMM_MR_MAX 32
#define ENG_GEMM_NV_MAX 4

// A few neighbouring output pixels of a depthwise convolution, channels [0, channels). The taps
// listed are those that lie inside the image for at least one of the pixels; bit i of `inside` says
// that tap does for pixel i.
#define ENG_DW_TAPS_MAX   64
#define ENG_DW_PIXELS_MAX 8
struct eng_dw_block {
    uint32_t tap_count;
    uint32_t all;                     // `inside` of a tap that lies inside for every pixel
    const float *in[ENG_DW_TAPS_MAX]; // of the first pixel; may lie outside when its bit is not set
    const float *weights[ENG_DW_TAPS_MAX];
    uint8_t inside[ENG_DW_TAPS_MAX];
    // Taps come in threes of one row, a step from each other; at most the first of a three lies
    // outside for the first pixel, and the third for the last one.
    bool chained;
    size_t step;                  // floats from one pixel's input to the next's
    size_t channels;              // of this block
    size_t out_step;              // floats from one output pixel to the next
    const float *bias, *residual; // residual as out; NULL: none
    float *out;
    enum eng_gemm_act act;
    float alpha, beta;
};
typedef void (*eng_dw_block_fn)(const struct eng_dw_block *block);

// A strip of neighbouring output pixels down `rows` rows of a depthwise convolution of 3 x 3 taps,
// stride 1.
#define ENG_DW_STRIP_ROWS_MAX 30
struct eng_dw_strip {
    const float *in[ENG_DW_STRIP_ROWS_MAX + 2]; // rows from the first tap's on, at the first tap of
                                                // the first pixel; NULL: outside the image
    uint32_t rows;
    bool left, right;     // the first tap of the first pixel, the last of the last one lie outside
    const float *weights; // [9][channels]
    size_t step;          // floats from one input pixel to the next
    size_t channels;
    size_t out_step, out_row;     // floats from one output pixel, row to the next
    const float *bias, *residual; // residual as out; NULL: none
    float *out;
    enum eng_gemm_act act;
    float alpha, beta;
};
typedef void (*eng_dw_strip_fn)(const struct eng_dw_strip *strip);

// Winograd transforms over channels. Input: one tile of t*t pixels (t = unit + 2), rows `row`
// floats apart, pixels `pixel` floats apart; output element e of the tile at out + e * plane, as
// floats, or as bfloat16 in a table that holds pairs.
struct eng_wino_tile {
    const float *in;
    size_t row, pixel;
    float *out;
    size_t plane;
    size_t channels;
    size_t zeroes; // channels behind those, and behind their last vector, to be written as zeroes
};
// Output: products m + e * plane -> unit*unit pixels, of which rows x cols are stored.
struct eng_wino_store {
    const float *in;
    size_t plane;
    float *out;
    size_t row, pixel;
    uint32_t rows, cols;
    size_t channels;
    const float *bias, *residual; // residual as out; NULL: none
    enum eng_gemm_act act;
    float alpha, beta;
};
// Gradient of the output: rows x cols of 4 x 4 pixels (the others zero) -> out + e * plane, whole
// vectors.
struct eng_wino_spread {
    const float *in;
    size_t row, pixel;
    uint32_t rows, cols;
    float *out;
    size_t plane;
    size_t channels;
};
typedef void (*eng_wino_tile_fn)(const struct eng_wino_tile *tile);
typedef void (*eng_wino_store_fn)(const struct eng_wino_store *tile);

struct eng_gemm_kernels {
    const char *name;
    uint32_t vl;                                       // floats of a vector
    uint32_t nr;                                       // columns of a full panel: 2 * vl
    uint8_t mr_max[ENG_GEMM_NV_MAX + 1];               // by vectors a row: 1, 2 and 4; 0: none
    const eng_gemm_tile_fn *tile[ENG_GEMM_NV_MAX + 1]; // tile[nv][mr - 1]
    const eng_gemm_turned_fn *turned[3];               // likewise, nv 1 and 2, mr_max[2] rows each
    // 0: operands hold floats. Else they hold pairs of bfloat16 along K, K a multiple of so many
    // pairs; products use such a table, and Winograd's between the transforms.
    uint32_t pair_step;
    // NULL, or called by each thread before its first tile of an execution and after its last one:
    // registers that have to be set up, and that callers of the engine may use between executions.
    void (*enter)(void);
    void (*leave)(void);
    // Activation over rows x n at c, rows ldc apart: the ones not done in registers.
    void (*act_rows)(float *out, size_t rows, size_t ldc, size_t count, enum eng_gemm_act act);
    const eng_dw_block_fn *dw_block; // [pixels - 1]
    const eng_dw_strip_fn *dw_strip; // [pixels - 1]; NULL: blocks are faster
    eng_wino_tile_fn wino_in[7];     // by unit: 2, 4, 6
    eng_wino_store_fn wino_out[7];
    // Of F(4 x 4), for kernels that change and for their gradient: vl kernels, taps [9][vl], to
    // elements `plane` floats apart; back; and an output tile's gradient to elements.
    void (*wino_kernels)(const float *taps, float *out, size_t plane);
    void (*wino_kernels_back)(const float *in, size_t plane, float *taps);
    void (*wino_spread)(const struct eng_wino_spread *spread);
};

extern const struct eng_gemm_kernels eng_gemm_generic;
#if defined(__x86_64__)
extern const struct eng_gemm_kernels eng_gemm_avx2;
extern const struct eng_gemm_kernels eng_gemm_avx512;
extern const struct eng_gemm_kernels eng_gemm_bf16; // needs AVX512_BF16
extern const struct eng_gemm_kernels eng_gemm_amx;  // needs AMX tiles, granted; and the above
// To the nearest bfloat16, ties to even; needs AVX512_BF16.
void eng_gemm_to_bf16(const float *from, size_t count, uint16_t *to);
// Pixels to be written as bfloat16.
struct eng_gemm_pixels {
    const float *from;
    size_t count;
    size_t step;     // floats from one pixel to the next
    size_t channels; // of each
    size_t pitch;    // numbers from one pixel to the next as written; at least `channels`
};
// The same for pixels; zeroes behind the channels.
void eng_gemm_pixels_to_bf16(const struct eng_gemm_pixels *pixels, uint16_t *to);
// The activations of tables of pairs.
void eng_gemm_act_rows_bf16(float *out, size_t rows, size_t ldc, size_t count,
                            enum eng_gemm_act act);
// Input transforms of tables of pairs.
void eng_wino_in2_bf16(const struct eng_wino_tile *tile);
void eng_wino_in4_bf16(const struct eng_wino_tile *tile);
#endif

#endif
