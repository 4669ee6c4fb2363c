// The error of rounded weights that all rows share (gemm_mean.h): packed on the planning thread by
// gemm_prepare.c, added up by the session's thread and its pool before each product. Its name gives
// it the flags of AVX512_BF16 (engine/CMakeLists.txt), so it runs with the bfloat16 tables alone.
// Sums go over fixed chunks of columns in a fixed order: the correction is the same for any number
// of threads.
#include "backend/cpu/gemm/gemm_mean.h"

#include "backend/cpu/gemm/gemm_weights.h"
#include "base/check.h"
#include "base/ckd.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define LANES        16
#define PANEL        64 // columns: a cache line of steps a row
#define VECTORS      (PANEL / LANES)
#define SAMPLE_MAX   64  // rows looked at, spread evenly; more know hardly more of the mean
#define CHUNK        256 // columns summed up at a time
#define PANELS_GRAIN 4
#define LONGEST      16.0f // energy of a row, in those of an average one
#define SHORTEST     0.25f // energy of a row, in that of the mean
#define STEPS_MAX    127.0f
#define TOGETHER     4    // rows of D, and elements of the mean, in one product of bytes
#define STEP_NONE    128  // steps are kept as unsigned bytes, this much too large
#define NOT_FINITE   0x99 // classes: both infinities, both kinds of NaN

struct eng_gemm_mean {
    int64_t rows, k, n, a_stride;
    int64_t panels, chunks, sampled, fours;
    const float *scales;  // [panels * PANEL]
    const uint8_t *steps; // [panels][fours][PANEL][TOGETHER]
};

// --- packing -------------------------------------------------------------------------------------

struct packing {
    const struct eng_gemm_source *source;
    int64_t panels;
};

static __m512 load_weights(const struct packing *packing, int64_t depth, int64_t column,
                           int64_t count)
{
    const struct eng_gemm_source *s = packing->source;
    const float *from = s->data + depth * s->strides[0] + column * s->stride_n;
    if (s->stride_n == 1) {
        return _mm512_maskz_loadu_ps((__mmask16)(0xffffu >> (LANES - count)), from);
    }
    float values[LANES] = {0};
    for (int64_t j = 0; j < count; j++) {
        values[j] = from[j * s->stride_n];
    }
    return _mm512_loadu_ps(values);
}

// What rounding takes from (up to) 16 weights of row `depth`; 0 where there are none.
static __m512 residues(const struct packing *packing, int64_t depth, int64_t column)
{
    int64_t count = packing->source->n - column;
    if (count <= 0) {
        return _mm512_setzero_ps();
    }
    count = count < LANES ? count : LANES;
    const __m512 scale = _mm512_set1_ps(packing->source->scale);
    const __m512 value = _mm512_mul_ps(load_weights(packing, depth, column, count), scale);
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    const __m512 kept =
        _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32((int)0xffff0000u)));
    const __m512 rest = _mm512_sub_ps(value, kept);
    return _mm512_maskz_mov_ps((__mmask16)~_mm512_fpclass_ps_mask(rest, NOT_FINITE), rest);
}

// Four rows of steps for 16 columns, as bytes side by side.
static __m512i pack_four(const struct packing *packing, int64_t depth, int64_t column,
                         __m512 inverse)
{
    __m512i bytes = _mm512_setzero_si512();
    for (int64_t i = 0; i < TOGETHER; i++) {
        __m512i step = _mm512_set1_epi32(STEP_NONE);
        if (depth + i < packing->source->dims[0]) {
            const __m512 x = _mm512_mul_ps(residues(packing, depth + i, column), inverse);
            step = _mm512_add_epi32(step, _mm512_cvtps_epi32(x)); // from 1 to 255
        }
        bytes = _mm512_or_si512(bytes, _mm512_sllv_epi32(step, _mm512_set1_epi32((int)i * 8)));
    }
    return bytes;
}

static void pack_panel(const struct packing *packing, int64_t panel, float *scales, uint8_t *steps)
{
    const int64_t k_count = packing->source->dims[0];
    for (int64_t v = 0; v < VECTORS; v++) {
        const int64_t column = panel * PANEL + v * LANES;
        __m512 most = _mm512_setzero_ps();
        for (int64_t k = 0; k < k_count; k++) {
            most = _mm512_max_ps(most, _mm512_abs_ps(residues(packing, k, column)));
        }
        const __m512 scale = _mm512_div_ps(most, _mm512_set1_ps(STEPS_MAX));
        // Columns whose residues are next to nothing keep none.
        const __mmask16 some = _mm512_cmp_ps_mask(scale, _mm512_set1_ps(__FLT_MIN__), _CMP_GE_OQ);
        const __m512 inverse = _mm512_maskz_div_ps(some, _mm512_set1_ps(1.0f), scale);
        _mm512_storeu_ps(scales + v * LANES, _mm512_maskz_mov_ps(some, scale));
        for (int64_t k = 0; k < k_count; k += TOGETHER) {
            _mm512_storeu_si512(steps + k * PANEL + v * LANES * TOGETHER,
                                pack_four(packing, k, column, inverse));
        }
    }
}

static void pack(void *ctx, void *out)
{
    const struct packing *p = ctx;
    float *scales = out;
    uint8_t *steps = (uint8_t *)(void *)(scales + p->panels * PANEL);
    const int64_t rows = (p->source->dims[0] + TOGETHER - 1) / TOGETHER * TOGETHER;
    for (int64_t panel = 0; panel < p->panels; panel++) {
        pack_panel(p, panel, scales + panel * PANEL, steps + panel * rows * PANEL);
    }
}

enum base_status eng_gemm_mean_new(const struct eng_prepare *prepare,
                                   const struct eng_tensor *weights,
                                   const struct eng_gemm_source *source,
                                   const struct eng_gemm_rows *rows,
                                   const struct eng_gemm_mean **out)
{
    const int64_t offset = source->data - (const float *)weights->data;
    base_assert(source->dim_count == 1 && source->dims[0] > 0 && source->n > 0);
    base_assert(offset >= 0);
    base_assert(rows->count > 0 && rows->stride >= 0);
    struct eng_gemm_mean *mean = base_arena_zalloc(prepare->arena, sizeof *mean);
    if (mean == NULL) {
        return BASE_ERR_NOMEM;
    }
    *mean = (struct eng_gemm_mean){
        .rows = rows->count,
        .k = source->dims[0],
        .n = source->n,
        .a_stride = rows->stride,
        .panels = (source->n + PANEL - 1) / PANEL,
        .chunks = (source->dims[0] + CHUNK - 1) / CHUNK,
        .fours = (source->dims[0] + TOGETHER - 1) / TOGETHER,
        .sampled = rows->count < SAMPLE_MAX ? rows->count : SAMPLE_MAX,
    };
    const struct {
        int64_t offset, n, k, stride_n, stride_k;
        double scale;
    } params = {offset,           source->n,          source->dims[0],
                source->stride_n, source->strides[0], (double)source->scale};
    const size_t columns = (size_t)mean->panels * PANEL;
    size_t bytes;
    if (!base_ckd_mul(columns, (size_t)mean->fours * TOGETHER + sizeof(float), &bytes)) {
        return BASE_ERR_NOMEM;
    }
    struct packing packing = {.source = source, .panels = mean->panels};
    const struct eng_weights_form form = {ENG_PACK_RESIDUE, &params, sizeof params};
    const struct eng_pack_content content = {bytes, pack, &packing};
    const void *packed;
    BASE_TRY(eng_weights_pack(prepare, weights, &form, &content, &packed));
    mean->scales = packed;
    mean->steps = (const uint8_t *)(const void *)(mean->scales + columns);
    *out = mean;
    return BASE_OK;
}

// --- running -------------------------------------------------------------------------------------

struct mean_run {
    const struct eng_gemm_mean *mean;
    const float *a, *bias;
    float *energies; // [chunks][SAMPLE_MAX]: of the rows sampled, in the columns of one chunk
    float *sums;     // [k]; becomes the mean
    int8_t *bytes;   // [fours][TOGETHER]: the mean in steps of `step`
    float step;
    int32_t bytes_sum;
    float *out; // the bias, corrected
};

static size_t lines(int64_t floats)
{
    return (size_t)(floats + LANES - 1) / LANES * LANES;
}

size_t eng_gemm_mean_floats(const struct eng_gemm_mean *mean)
{
    return (size_t)mean->chunks * SAMPLE_MAX + lines(mean->k) + (size_t)mean->panels * PANEL +
           lines(mean->fours);
}

static const float *sampled_row(const struct mean_run *run, int64_t index)
{
    const struct eng_gemm_mean *mean = run->mean;
    return run->a + index * mean->rows / mean->sampled * mean->a_stride;
}

// A whole chunk of columns: sums stay in registers.
static void sum_chunk(const struct mean_run *run, int64_t first, float *energies)
{
    __m512 sums[CHUNK / LANES];
    for (int v = 0; v < CHUNK / LANES; v++) {
        sums[v] = _mm512_setzero_ps();
    }
    for (int64_t i = 0; i < run->mean->sampled; i++) {
        const float *row = sampled_row(run, i) + first;
        __m512 energy[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
#pragma GCC unroll 16
        for (int v = 0; v < CHUNK / LANES; v++) {
            const __m512 x = _mm512_loadu_ps(row + v * LANES);
            sums[v] = _mm512_add_ps(sums[v], x);
            energy[v % 2] = _mm512_fmadd_ps(x, x, energy[v % 2]);
        }
        energies[i] = _mm512_reduce_add_ps(_mm512_add_ps(energy[0], energy[1]));
    }
    for (int v = 0; v < CHUNK / LANES; v++) {
        _mm512_storeu_ps(run->sums + first + v * LANES, sums[v]);
    }
}

// The columns behind the last whole chunk.
static void sum_rest(const struct mean_run *run, int64_t first, float *energies)
{
    for (int64_t i = 0; i < run->mean->sampled; i++) {
        energies[i] = 0;
    }
    for (int64_t k = first; k < run->mean->k; k += LANES) {
        const int64_t left = run->mean->k - k;
        const __mmask16 mask = left >= LANES ? 0xffff : (__mmask16)(0xffffu >> (LANES - left));
        __m512 sum = _mm512_setzero_ps();
        for (int64_t i = 0; i < run->mean->sampled; i++) {
            const __m512 x = _mm512_maskz_loadu_ps(mask, sampled_row(run, i) + k);
            sum = _mm512_add_ps(sum, x);
            energies[i] += _mm512_reduce_add_ps(_mm512_mul_ps(x, x));
        }
        _mm512_mask_storeu_ps(run->sums + k, mask, sum);
    }
}

static void sum_chunks(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct mean_run *run = ctx;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t first = chunk * CHUNK;
        float *energies = run->energies + chunk * SAMPLE_MAX;
        if (first + CHUNK <= run->mean->k) {
            sum_chunk(run, first, energies);
        } else {
            sum_rest(run, first, energies);
        }
    }
}

// Turns the sums into the mean; whether it says something about each row.
static bool find_mean(const struct mean_run *run)
{
    const struct eng_gemm_mean *mean = run->mean;
    const float share = 1.0f / (float)mean->sampled;
    float least = INFINITY, most = 0, all = 0, own = 0;
    for (int64_t i = 0; i < mean->sampled; i++) {
        float energy = 0;
        for (int64_t chunk = 0; chunk < mean->chunks; chunk++) {
            energy += run->energies[chunk * SAMPLE_MAX + i];
        }
        least = energy < least ? energy : least;
        most = energy > most ? energy : most;
        all += energy; // not finite when one is not
    }
    for (int64_t k = 0; k < mean->k; k++) {
        run->sums[k] *= share;
        own += run->sums[k] * run->sums[k];
    }
    return isfinite(all) && isfinite(own) && most <= LONGEST * share * all &&
           least >= SHORTEST * own;
}

// The mean in eight bits, too: what that takes from it is a hundredth of a small correction.
static void round_mean(struct mean_run *run)
{
    const struct eng_gemm_mean *mean = run->mean;
    float most = 0;
    for (int64_t k = 0; k < mean->k; k++) {
        most = fmaxf(most, fabsf(run->sums[k]));
    }
    run->step = most / STEPS_MAX;
    const float inverse = run->step >= __FLT_MIN__ ? 1.0f / run->step : 0.0f;
    run->bytes_sum = 0;
    for (int64_t k = 0; k < mean->fours * TOGETHER; k++) {
        run->bytes[k] = k < mean->k ? (int8_t)lrintf(run->sums[k] * inverse) : 0;
        run->bytes_sum += run->bytes[k];
    }
}

// Mean times D, for one panel of columns after the other.
static void correct(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    base_assert((end - 1) * PANEL < ((const struct mean_run *)ctx)->mean->n); // a panel has columns
    (void)worker;
    const struct mean_run *run = ctx;
    const struct eng_gemm_mean *mean = run->mean;
    for (int64_t panel = begin; panel < end; panel++) {
        const uint8_t *steps = mean->steps + panel * mean->fours * TOGETHER * PANEL;
        __m512i sums[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
            sums[v] = _mm512_set1_epi32(-STEP_NONE * run->bytes_sum);
        }
        for (int64_t k = 0; k < mean->fours; k++, steps += TOGETHER * PANEL) {
            int32_t four;
            memcpy(&four, run->bytes + k * TOGETHER, sizeof(four));
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++) {
                const __m512i step = _mm512_loadu_si512(steps + v * LANES * TOGETHER);
                sums[v] = _mm512_dpbusd_epi32(sums[v], step, _mm512_set1_epi32(four));
            }
        }
        for (int v = 0; v < VECTORS; v++) {
            const int64_t column = panel * PANEL + v * LANES;
            const int64_t left = mean->n - column;
            const __mmask16 mask = left >= LANES ? 0xffff
                                   : left > 0    ? (__mmask16)(0xffffu >> (LANES - left))
                                                 : 0;
            const __m512 bias = run->bias != NULL && mask != 0
                                    ? _mm512_maskz_loadu_ps(mask, run->bias + column)
                                    : _mm512_setzero_ps();
            const __m512 scale =
                _mm512_mul_ps(_mm512_loadu_ps(mean->scales + column), _mm512_set1_ps(run->step));
            _mm512_storeu_ps(run->out + column,
                             _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[v]), scale, bias));
        }
    }
}

const float *eng_gemm_mean_bias(const struct eng_gemm_mean *mean, const float *values,
                                const float *bias, float *scratch, struct eng_pool *pool)
{
    struct mean_run run = {
        .mean = mean,
        .a = values,
        .bias = bias,
        .energies = scratch,
        .sums = scratch + mean->chunks * SAMPLE_MAX,
    };
    run.out = run.sums + lines(mean->k);
    run.bytes = (int8_t *)(void *)(run.out + mean->panels * PANEL);
    eng_pool_for(pool, mean->chunks, 1, sum_chunks, &run);
    if (!find_mean(&run)) {
        return bias;
    }
    round_mean(&run);
    eng_pool_for(pool, mean->panels, PANELS_GRAIN, correct, &run);
    return run.out;
}
