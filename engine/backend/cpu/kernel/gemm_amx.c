// Products of bfloat16 pairs in AMX tiles: 32 x 32 of C in four tiles, two of A, two of B. Operands
// have the form of gemm_bf16.c; K is padded to whole tiles (16 pairs) by whoever packs and fills.
// Called through eng_gemm_amx from any thread, between enter and leave.
//
// isa.c has asked the operating system for the tile registers before this table is used. Other code
// on a thread may use them too, so their configuration is made anew for each execution, and given
// back, which also spares the operating system saving eight KiB with each change of threads.
#include "backend/cpu/kernel/gemm_kernels.h"

#include "base/check.h"

#include <immintrin.h>
#include <string.h>

#define SIDE      16 // rows of a tile, and pairs or floats of its rows
#define ROW_BYTES 64

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "as the instruction reads it");

// Constant and not filled in a function: a compiler that takes the instruction to read the first
// eight bytes only drops stores to the others.
#define FOUR(x)  x, x, x, x
#define EIGHT(x) FOUR(x), FOUR(x)
static const struct tile_config whole_tiles = {
    .palette = 1, .row_bytes = {EIGHT(ROW_BYTES)}, .rows = {EIGHT(SIDE)}};

static void enter(void)
{
    _tile_loadconfig(&whole_tiles);
}

static void leave(void)
{
    _tile_release();
}

// Sums of up to 32 rows and 32 columns. Tiles 0-3: C; 4, 5: A; 6, 7: B. Rows of A beyond the last
// one are read (fill leaves room) and come to nothing.
static void multiply(const struct eng_gemm_tile *gemm_tile, bool tall,
                     float sums[2 * SIDE][2 * SIDE])
{
    base_assert(tall == (gemm_tile->rows > SIDE));
    const size_t a_bytes = gemm_tile->lda * sizeof(float),
                 width = gemm_tile->n > SIDE ? 2 * SIDE : SIDE;
    const size_t b_bytes = width * sizeof(float), c_bytes = 2 * SIDE * sizeof(float);
    const float *b = gemm_tile->b;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (uint32_t segment = 0; segment < gemm_tile->segment_count; segment++) {
        const float *a = gemm_tile->a + gemm_tile->segments[segment];
        for (uint32_t k = 0; k < gemm_tile->k; k += SIDE, b += SIDE * width) {
            _tile_loadd(4, a + k, a_bytes);
            _tile_loadd(6, b, b_bytes);
            _tile_dpbf16ps(0, 4, 6);
            if (tall) {
                _tile_loadd(5, a + SIDE * gemm_tile->lda + k, a_bytes);
                _tile_dpbf16ps(2, 5, 6);
            }
            if (width > SIDE) {
                _tile_loadd(7, b + SIDE, b_bytes);
                _tile_dpbf16ps(1, 4, 7);
                if (tall) {
                    _tile_dpbf16ps(3, 5, 7);
                }
            }
        }
    }
    _tile_stored(0, &sums[0][0], c_bytes);
    _tile_stored(1, &sums[0][SIDE], c_bytes);
    _tile_stored(2, &sums[SIDE][0], c_bytes);
    _tile_stored(3, &sums[SIDE][SIDE], c_bytes);
}

static __m512 activate(const struct eng_gemm_tile *gemm_tile, __m512 value)
{
    const __m512 low = _mm512_set1_ps(gemm_tile->alpha), high = _mm512_set1_ps(gemm_tile->beta);
    const __m512 zero = _mm512_setzero_ps(), one = _mm512_set1_ps(1.0f);
    switch (gemm_tile->act) {
    case ENG_GEMM_ACT_CLIP:
        return _mm512_min_ps(high, _mm512_max_ps(low, value));
    case ENG_GEMM_ACT_LEAKY:
        return _mm512_fmadd_ps(low, _mm512_min_ps(zero, value), _mm512_max_ps(zero, value));
    case ENG_GEMM_ACT_HARD_SWISH: {
        const __m512 gate = _mm512_max_ps(zero, _mm512_fmadd_ps(low, value, high));
        return _mm512_mul_ps(value, _mm512_min_ps(one, gate));
    }
    default:
        return value;
    }
}

static void tile_rows(const struct eng_gemm_tile *gemm_tile)
{
    base_assert(gemm_tile->rows > 0 && gemm_tile->rows <= 2 * SIDE);
    base_assert(gemm_tile->n > 0 && gemm_tile->n <= 2 * SIDE && gemm_tile->k % SIDE == 0);
    _Alignas(64) float sums[2 * SIDE][2 * SIDE];
    multiply(gemm_tile, gemm_tile->rows > SIDE, sums);
    for (uint32_t r = 0; r < gemm_tile->rows; r++) {
        for (uint32_t j = 0; j < gemm_tile->n; j += SIDE) {
            const uint32_t left = gemm_tile->n - j < SIDE ? gemm_tile->n - j : SIDE;
            const __mmask16 mask = (__mmask16)(0xffffu >> (SIDE - left));
            float *c = gemm_tile->c + r * gemm_tile->ldc + j;
            __m512 x = _mm512_load_ps(&sums[r][j]);
            if (gemm_tile->accumulate) {
                x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, c));
            }
            if (gemm_tile->finish) {
                if (gemm_tile->bias != NULL) {
                    x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, gemm_tile->bias + j));
                }
                if (gemm_tile->residual != NULL) {
                    const float *from = gemm_tile->residual + r * gemm_tile->ldr + j;
                    x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, from));
                }
                x = activate(gemm_tile, x);
            }
            _mm512_mask_storeu_ps(c, mask, x);
        }
    }
}

static const eng_gemm_tile_fn tiles[ENG_GEMM_MR_MAX] = {EIGHT(tile_rows), EIGHT(tile_rows),
                                                        EIGHT(tile_rows), EIGHT(tile_rows)};

const struct eng_gemm_kernels eng_gemm_amx = {
    .name = "amx",
    .vl = SIDE,
    .nr = 2 * SIDE,
    .mr_max = {0, 2 * SIDE, 2 * SIDE, 0, 0},
    .tile = {NULL, tiles, tiles},
    .enter = enter,
    .leave = leave,
    .act_rows = eng_gemm_act_rows_bf16,
    .wino_in = {[2] = eng_wino_in2_bf16, [4] = eng_wino_in4_bf16},
    .pair_step = SIDE,
};
