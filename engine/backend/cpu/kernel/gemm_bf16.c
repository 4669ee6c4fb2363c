// Products of bfloat16 pairs with sums in float32 (AVX512_BF16): the tiles of gemm_avx512.c with
// two steps of K in each product. A row of A and a packed column hold pairs where the others hold
// floats, so that everything else counts pairs. Called through eng_gemm_bf16 from any thread.
#include "backend/cpu/kernel/gemm_kernels.h"

#include "base/check.h"

#include <immintrin.h>
#include <string.h>

#define V                  __m512
#define V_LANES            16u
#define V_ZERO()           _mm512_setzero_ps()
#define V_SET1(x)          _mm512_set1_ps(x)
#define V_LOAD(p)          _mm512_loadu_ps(p)
#define V_STORE(p, x)      _mm512_storeu_ps(p, x)
#define V_FMA(a, b, c)     _mm512_fmadd_ps(a, b, c)
#define V_DOT(a, b, c)     _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#define V_ADD(a, b)        _mm512_add_ps(a, b)
#define V_SUB(a, b)        _mm512_sub_ps(a, b)
#define V_MUL(a, b)        _mm512_mul_ps(a, b)
#define V_MIN(a, b)        _mm512_min_ps(a, b)
#define V_MAX(a, b)        _mm512_max_ps(a, b)
#define M                  __mmask16
#define M_TAIL(n)          ((__mmask16)(0xffffu >> (16u - (n))))
#define V_LOAD_M(p, m)     _mm512_maskz_loadu_ps(m, p)
#define V_STORE_M(p, m, x) _mm512_mask_storeu_ps(p, m, x)

#include "backend/cpu/kernel/gemm_template.h"

#define WINO_IN_ONLY
#define WINO_PUT(line, c, x)                                                                       \
    _mm256_storeu_si256((__m256i *)(void *)((uint16_t *)(void *)(line) + (c)),                     \
                        (__m256i)_mm512_cvtneps_pbh(x))

#include "backend/cpu/kernel/wino_template.h"

GEMM_UPTO_14(GEMM_TILE_FN, 1)
GEMM_UPTO_14(GEMM_TILE_FN, 2)
GEMM_UPTO_4(GEMM_TILE_FN, 4)

static const eng_gemm_tile_fn tiles1[] = {GEMM_UPTO_14(GEMM_TILE_NAME, 1)};
static const eng_gemm_tile_fn tiles2[] = {GEMM_UPTO_14(GEMM_TILE_NAME, 2)};
static const eng_gemm_tile_fn tiles4[] = {GEMM_UPTO_4(GEMM_TILE_NAME, 4)};

void eng_gemm_to_bf16(const float *from, size_t count, uint16_t *to)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        _mm256_storeu_si256((__m256i *)(void *)(to + i),
                            (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + i)));
    }
    if (i < count) {
        const __mmask16 tail = M_TAIL((uint32_t)(count - i));
        _mm256_mask_storeu_epi16(
            to + i, tail, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(tail, from + i)));
    }
}

// Pixels of three channels without anything between them, four at a time: the stems of networks.
static size_t stem_pixels(const float *from, size_t pixels, uint16_t *to)
{
    const __m256i places = _mm256_setr_epi16(0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 9, 10, 11, 0);
    size_t i = 0;
    for (; i + 4 <= pixels; i += 4) {
        const __m256i four =
            (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(0x0fff, from + i * 3));
        _mm256_storeu_si256((__m256i *)(void *)(to + i * 4),
                            _mm256_maskz_permutexvar_epi16(0x7777, places, four));
    }
    return i;
}

// One pixel: whole vectors are stored as far as its pitch goes.
static void put_pixel(const float *from, size_t channels, size_t pitch, uint16_t *to)
{
    for (size_t c = 0; c < pitch; c += V_LANES) {
        const size_t in = channels > c ? channels - c : 0, out = pitch - c;
        const __m512 x = in >= V_LANES ? _mm512_loadu_ps(from + c)
                         : in > 0      ? _mm512_maskz_loadu_ps(M_TAIL((uint32_t)in), from + c)
                                       : _mm512_setzero_ps();
        const __m256i half = (__m256i)_mm512_cvtneps_pbh(x);
        if (out >= V_LANES) {
            _mm256_storeu_si256((__m256i *)(void *)(to + c), half);
        } else {
            _mm256_mask_storeu_epi16(to + c, M_TAIL((uint32_t)out), half);
        }
    }
}

void eng_gemm_pixels_to_bf16(const struct eng_gemm_pixels *pixels, uint16_t *to)
{
    const float *from = pixels->from;
    const size_t count = pixels->count, step = pixels->step;
    const size_t channels = pixels->channels, pitch = pixels->pitch;
    base_assert(pitch >= channels && channels > 0);
    if (step == channels && pitch == channels) {
        eng_gemm_to_bf16(from, count * channels, to);
        return;
    }
    size_t i = step == 3 && channels == 3 && pitch == 4 ? stem_pixels(from, count, to) : 0;
    for (; i < count; i++) {
        put_pixel(from + i * step, channels, pitch, to + i * pitch);
    }
}

static void put_zeroes(const struct eng_wino_tile *tile, size_t elements)
{
    base_assert(tile->plane > 0);
    const size_t vectors = (tile->channels + V_LANES - 1) / V_LANES * V_LANES;
    for (size_t e = 0; tile->zeroes > 0 && e < elements; e++) {
        uint16_t *line = (uint16_t *)(void *)(tile->out + e * tile->plane);
        memset(line + vectors, 0, tile->zeroes * sizeof(*line));
    }
}

void eng_wino_in2_bf16(const struct eng_wino_tile *tile)
{
    wino_in2(tile);
    put_zeroes(tile, 16);
}

void eng_wino_in4_bf16(const struct eng_wino_tile *tile)
{
    wino_in4(tile);
    put_zeroes(tile, 36);
}

// e^x within 1e-4 of itself: no less than what follows keeps.
static inline __m512 short_exp(__m512 value)
{
    __m512 t = _mm512_mul_ps(value, _mm512_set1_ps(1.44269504f));
    // The order keeps NaN: both return the second when either is one.
    t = _mm512_min_ps(_mm512_set1_ps(127.0f), _mm512_max_ps(_mm512_set1_ps(-127.0f), t));
    const __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 r = _mm512_sub_ps(t, n); // 2^r by a polynomial, |r| <= 1/2
    __m512 p = _mm512_fmadd_ps(r, _mm512_set1_ps(0.05508877f), _mm512_set1_ps(0.24260466f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.69327628f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.9999289f));
    return _mm512_scalef_ps(p, n);
}

// x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), x the value, with a quotient of 14 bits.
static inline __m512 short_gelu_tanh(__m512 value)
{
    const __m512 square = _mm512_mul_ps(value, value);
    const __m512 u = _mm512_fmadd_ps(square, _mm512_set1_ps(-0.044715f * 1.5957691216f),
                                     _mm512_set1_ps(-1.5957691216f));
    const __m512 e = short_exp(_mm512_mul_ps(value, u));
    return _mm512_mul_ps(value, _mm512_rcp14_ps(_mm512_add_ps(e, _mm512_set1_ps(1.0f))));
}

void eng_gemm_act_rows_bf16(float *out, size_t rows, size_t ldc, size_t count,
                            enum eng_gemm_act act)
{
    base_assert(act != ENG_GEMM_ACT_NONE && (rows <= 1 || ldc >= count));
    if (act != ENG_GEMM_ACT_GELU_TANH) {
        eng_gemm_avx512.act_rows(out, rows, ldc, count, act);
        return;
    }
    for (size_t r = 0; r < rows; r++, out += ldc) {
        size_t i = 0;
        for (; i + V_LANES <= count; i += V_LANES) {
            V_STORE(out + i, short_gelu_tanh(V_LOAD(out + i)));
        }
        if (i < count) {
            const M tail = M_TAIL((uint32_t)(count - i));
            V_STORE_M(out + i, tail, short_gelu_tanh(V_LOAD_M(out + i, tail)));
        }
    }
}

const struct eng_gemm_kernels eng_gemm_bf16 = {
    .name = "bf16",
    .vl = V_LANES,
    .nr = 2 * V_LANES,
    .mr_max = {0, 14, 14, 0, 4},
    .tile = {NULL, tiles1, tiles2, NULL, tiles4},
    .act_rows = eng_gemm_act_rows_bf16,
    .wino_in = {[2] = eng_wino_in2_bf16, [4] = eng_wino_in4_bf16},
    .pair_step = 1,
};
