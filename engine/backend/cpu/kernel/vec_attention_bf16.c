// Attention on bfloat16 pairs or tiles (vec_attention_low.h). Called by vec_attention.c: the plan
// on the planning thread, packing and rows on the pool's, each worker in memory of its own. Its
// name gives it the flags of AVX512_BF16 (engine/CMakeLists.txt), so vec_attention.c asks for it
// only where such a table of products is in use. Scores and values are products of that table;
// exponentials between them are float32.
#include "backend/cpu/kernel/vec_attention_low.h"

#include "base/check.h"

#include <immintrin.h>
#include <string.h>

#define LANES      16
#define PANEL      32 // columns of a panel of the tables
#define PAD_FLOATS 16 // rows must not share sets of the cache

static int64_t round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

static int64_t pairs_of(const struct eng_gemm_kernels *products, int64_t count)
{
    return round_up((count + 1) / 2, products->pair_step);
}

bool eng_attention_low_plan(struct eng_attention_low *low)
{
    const int64_t mr = low->products->mr_max[2], most = (int64_t)1 << 30;
    base_assert(low->products->pair_step > 0); // a table of pairs
    base_assert(low->t > 0 && low->d > 0 && low->e > 0);
    if (low->t > most || low->d > most || low->e > most) {
        return false;
    }
    low->d_pairs = pairs_of(low->products, low->d);
    low->t_pairs = pairs_of(low->products, low->t);
    low->q_pitch = round_up(low->d_pairs, PAD_FLOATS) + PAD_FLOATS;
    low->p_pitch = round_up(low->t_pairs, PAD_FLOATS) + PAD_FLOATS;
    low->stride = round_up(low->t, PANEL);
    low->block_rows = 2 * mr;
    const int64_t sizes[] = {low->d_pairs * low->stride,     low->t_pairs * round_up(low->e, LANES),
                             low->block_rows * low->stride,  low->block_rows * low->q_pitch,
                             low->block_rows * low->p_pitch, PANEL * low->d_pairs};
    int64_t *const places[] = {&low->keys,    &low->values,  &low->scores,
                               &low->queries, &low->weights, &low->words};
    low->floats = 0;
    for (int i = 0; i < 6; i++) {
        *places[i] = low->floats;
        low->floats += round_up(sizes[i], PAD_FLOATS); // each below 2^62: factors are below 2^31
        if (low->floats > most) {
            return false;
        }
    }
    return true;
}

// Keys: pairs along their length lie in memory as they are wanted, so panels are words turned over.
static void pack_keys(const struct eng_attention_low *low, const float *from, int64_t stride,
                      float *words, float *out)
{
    for (int64_t c = 0; c < low->t; c += PANEL, out += low->d_pairs * PANEL) {
        const int64_t count = low->t - c < PANEL ? low->t - c : PANEL;
        if (count < PANEL) {
            memset(out, 0, (size_t)(low->d_pairs * PANEL) * sizeof(float));
        }
        const struct eng_gemm_pixels keys = {.from = from + c * stride,
                                             .count = (size_t)count,
                                             .step = (size_t)stride,
                                             .channels = (size_t)low->d,
                                             .pitch = (size_t)low->d_pairs * 2};
        eng_gemm_pixels_to_bf16(&keys, (uint16_t *)(void *)words);
        low->kernels->transpose(words, low->d_pairs, out, PANEL, count, low->d_pairs);
    }
}

// Two rows of values become one of pairs; NULL: zeroes.
static void pack_pair(const float *even, const float *odd, int64_t columns, int64_t width,
                      float *out)
{
    for (int64_t j = 0; j < width; j += LANES) {
        const int64_t left = columns - j < LANES ? columns - j : LANES;
        const __mmask16 mask = left > 0 ? (__mmask16)(0xffffu >> (LANES - left)) : 0;
        const __mmask16 first = even != NULL ? mask : 0, second = odd != NULL ? mask : 0;
        const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(
            first != 0 ? _mm512_maskz_loadu_ps(first, even + j) : _mm512_setzero_ps()));
        const __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(
            second != 0 ? _mm512_maskz_loadu_ps(second, odd + j) : _mm512_setzero_ps()));
        _mm512_storeu_si512(out + j, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
}

static void pack_values(const struct eng_attention_low *low, const float *values, int64_t stride,
                        float *out)
{
    for (int64_t c = 0; c < low->e; c += PANEL) {
        const int64_t columns = low->e - c < PANEL ? low->e - c : PANEL;
        const int64_t width = round_up(columns, LANES);
        for (int64_t p = 0; p < low->t_pairs; p++, out += width) {
            const float *even = values + 2 * p * stride + c;
            pack_pair(2 * p < low->t ? even : NULL, 2 * p + 1 < low->t ? even + stride : NULL,
                      columns, width, out);
        }
    }
}

void eng_attention_low_pack(const struct eng_attention_low *low,
                            const struct eng_attention_head *head, float *memory)
{
    base_assert(low->floats > 0); // planned
    pack_keys(low, head->k, head->k_stride, memory + low->words, memory + low->keys);
    pack_values(low, head->v, head->v_stride, memory + low->values);
}

// Exponentials, normalised, as pairs; zeroes behind them.
static void put_weights(const float *scores, int64_t count, float factor, int64_t pairs, float *out)
{
    uint16_t *to = (uint16_t *)(void *)out;
    base_assert(count <= 2 * pairs);
    const __m512 f = _mm512_set1_ps(factor);
    for (int64_t i = 0; i < round_up(2 * pairs, LANES); i += LANES) {
        const int64_t left = count - i < LANES ? count - i : LANES;
        const __mmask16 mask = left > 0 ? (__mmask16)(0xffffu >> (LANES - left)) : 0;
        const __m512 x = mask != 0 ? _mm512_maskz_loadu_ps(mask, scores + i) : _mm512_setzero_ps();
        _mm256_storeu_si256((__m256i *)(void *)(to + i),
                            (__m256i)_mm512_cvtneps_pbh(_mm512_mul_ps(x, f)));
    }
}

// C = A B.
struct product {
    const float *a; // rows of pairs, lda apart
    int64_t lda, rows, pairs;
    const float *b; // panels
    int64_t columns;
    float *c; // rows of `columns` floats, ldc apart
    int64_t ldc;
};

// In tiles of about equal height.
static void multiply(const struct eng_gemm_kernels *products, const struct product *product)
{
    static const int64_t no_offset[1] = {0};
    const float *a = product->a, *b = product->b;
    float *c = product->c;
    const int64_t lda = product->lda, ldc = product->ldc, pairs = product->pairs;
    const int64_t rows = product->rows, columns = product->columns;
    base_assert(rows > 0 && lda >= pairs);
    base_assert(pairs % products->pair_step == 0);
    const int64_t mr = products->mr_max[2], tiles = (rows + mr - 1) / mr;
    const int64_t height = (rows + tiles - 1) / tiles;
    struct eng_gemm_tile tile = {.lda = (size_t)lda,
                                 .segments = no_offset,
                                 .segment_count = 1,
                                 .k = (uint32_t)pairs,
                                 .ldc = (size_t)ldc};
    for (int64_t column = 0; column < columns; column += PANEL) {
        const int64_t n = columns - column < PANEL ? columns - column : PANEL;
        tile.n = (uint32_t)n;
        tile.b = b + column * pairs;
        for (int64_t row = 0; row < rows; row += height) {
            tile.rows = (uint32_t)(rows - row < height ? rows - row : height);
            tile.a = a + row * lda;
            tile.c = c + row * ldc + column;
            products->tile[n > LANES ? 2 : 1][tile.rows - 1](&tile);
        }
    }
}

void eng_attention_low_rows(const struct eng_attention_low *low,
                            const struct eng_vec_attention *vec_attention, float *memory)
{
    float *scores = memory + low->scores, *queries = memory + low->queries;
    float *weights = memory + low->weights;
    base_assert(vec_attention->rows > 0 && vec_attention->rows <= low->block_rows);
    const struct eng_gemm_pixels rows = {.from = vec_attention->q,
                                         .count = (size_t)vec_attention->rows,
                                         .step = (size_t)vec_attention->q_stride,
                                         .channels = (size_t)low->d,
                                         .pitch = (size_t)low->q_pitch * 2};
    eng_gemm_pixels_to_bf16(&rows, (uint16_t *)(void *)queries);
    const struct product by_keys = {.a = queries,
                                    .lda = low->q_pitch,
                                    .rows = vec_attention->rows,
                                    .pairs = low->d_pairs,
                                    .b = memory + low->keys,
                                    .columns = low->stride,
                                    .c = scores,
                                    .ldc = low->stride};
    multiply(low->products, &by_keys);
    for (int64_t r = 0; r < vec_attention->rows; r++) {
        float *s = scores + r * low->stride;
        const float *mask = vec_attention->mask == NULL
                                ? NULL
                                : vec_attention->mask + r * vec_attention->mask_row_stride;
        const float factor = low->kernels->attention_softmax(
            s, low->t, vec_attention->scale, mask, mask == NULL ? 0 : vec_attention->mask_stride);
        put_weights(s, low->t, factor, low->t_pairs, weights + r * low->p_pitch);
    }
    const struct product by_values = {.a = weights,
                                      .lda = low->p_pitch,
                                      .rows = vec_attention->rows,
                                      .pairs = low->t_pairs,
                                      .b = memory + low->values,
                                      .columns = low->e,
                                      .c = vec_attention->out,
                                      .ldc = vec_attention->out_stride};
    multiply(low->products, &by_values);
}
