// Weights, and second operands of products, in panels: what gemm_run.h's tiles read. Called on the
// planning thread for constants (conv_direct.c, conv_chain.c, gemm_prepare.c), on the pool's
// threads for operands that change from run to run. A panel is `width` columns, padded with zeroes,
// so that tiles need no case for the last one; strided sources are read four columns at a time, to
// use each line of the cache while it is there. Panels do not overlap, so threads share them
// freely.
#include "backend/cpu/gemm/gemm_run.h"

#include "base/check.h"

#include <string.h>

size_t eng_gemm_packed_floats(const struct eng_gemm_kernels *kernels, int64_t depth,
                              int64_t columns)
{
    const int64_t width = (columns + kernels->vl - 1) / kernels->vl * kernels->vl;
    return (size_t)(depth * width);
}

// A run of the last dim of K in one panel.
struct strip {
    const float *from; // its first element in the panel's first column
    int64_t stride, k; // of neighbours along K; how many
    int64_t columns;   // that there are
    int64_t width;     // of the panel: zeroes behind the last column
};

// Rows of n contiguous elements: copied.
static void pack_rows(const struct eng_gemm_source *gemm_source, const struct strip *strip,
                      float *out)
{
    const float *from = strip->from;
    const int64_t stride = strip->stride, k = strip->k;
    const int64_t columns = strip->columns, width = strip->width;
    for (int64_t i = 0; i < k; i++, from += stride, out += width) {
        if (gemm_source->scale == 1.0f && columns == width) {
            memcpy(out, from, (size_t)width * sizeof(float));
            continue;
        }
        for (int64_t j = 0; j < columns; j++) {
            out[j] = from[j] * gemm_source->scale;
        }
        for (int64_t j = columns; j < width; j++) {
            out[j] = 0.0f;
        }
    }
}

// Any strides, four columns at a time so that each line read is used while it is there.
static void pack_strided(const struct eng_gemm_source *gemm_source, const struct strip *strip,
                         float *out)
{
    base_assert(strip->columns <= strip->width);
    const float *from = strip->from;
    const int64_t stride = strip->stride, k = strip->k;
    const int64_t columns = strip->columns, width = strip->width;
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4) {
        const float *p0 = from + j * gemm_source->stride_n, *p1 = p0 + gemm_source->stride_n,
                    *p2 = p1 + gemm_source->stride_n, *p3 = p2 + gemm_source->stride_n;
        for (int64_t i = 0; i < k; i++) {
            float *to = out + i * width + j;
            to[0] = p0[i * stride] * gemm_source->scale;
            to[1] = p1[i * stride] * gemm_source->scale;
            to[2] = p2[i * stride] * gemm_source->scale;
            to[3] = p3[i * stride] * gemm_source->scale;
        }
    }
    for (; j < width; j++) {
        for (int64_t i = 0; i < k; i++) {
            out[i * width + j] =
                j < columns ? from[j * gemm_source->stride_n + i * stride] * gemm_source->scale
                            : 0.0f;
        }
    }
}

static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Pairs along K, zeroes behind the last element; out: [pairs][width][2].
static void pack_pairs(const struct eng_gemm_source *gemm_source, const struct strip *strip,
                       int64_t pairs, uint16_t *out)
{
    const float *from = strip->from;
    const int64_t stride = strip->stride, k = strip->k;
    const int64_t columns = strip->columns, width = strip->width;
    base_assert(2 * pairs >= k);
    memset(out, 0, (size_t)(pairs * width) * 2 * sizeof(*out));
    if (gemm_source->stride_n == 1) {
        for (int64_t i = 0; i < k; i++) {
            for (int64_t j = 0; j < columns; j++) {
                out[(i / 2 * width + j) * 2 + i % 2] =
                    to_bf16(from[i * stride + j] * gemm_source->scale);
            }
        }
        return;
    }
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < k; i++) {
            out[(i / 2 * width + j) * 2 + i % 2] =
                to_bf16(from[i * stride + j * gemm_source->stride_n] * gemm_source->scale);
        }
    }
}

static void pack_panel(const struct eng_gemm_kernels *kernels,
                       const struct eng_gemm_source *gemm_source, int64_t panel, float *out)
{
    const int64_t column = panel * kernels->nr, left = gemm_source->n - column;
    const int64_t columns = left < kernels->nr ? left : kernels->nr;
    const int64_t width = (columns + kernels->vl - 1) / kernels->vl * kernels->vl;
    const uint32_t last = gemm_source->dim_count - 1;
    base_assert(columns > 0 && gemm_source->data != NULL);
    int64_t outer = 1;
    for (uint32_t d = 0; d < last; d++) {
        outer *= gemm_source->dims[d];
    }
    const int64_t k = gemm_source->dims[last];
    for (int64_t o = 0; o < outer; o++) {
        const float *from = gemm_source->data + column * gemm_source->stride_n;
        int64_t rest = o;
        for (uint32_t d = last; d-- > 0;) {
            from += rest % gemm_source->dims[d] * gemm_source->strides[d];
            rest /= gemm_source->dims[d];
        }
        const struct strip strip = {from, gemm_source->strides[last], k, columns, width};
        if (kernels->pair_step > 0) {
            const int64_t pairs = eng_gemm_pairs(kernels, k);
            pack_pairs(gemm_source, &strip, pairs, (uint16_t *)(void *)out);
            out += pairs * width;
            continue;
        }
        if (gemm_source->stride_n == 1) {
            pack_rows(gemm_source, &strip, out);
        } else {
            pack_strided(gemm_source, &strip, out);
        }
        out += k * width;
    }
}

void eng_gemm_pack_panels(const struct eng_gemm_kernels *kernels,
                          const struct eng_gemm_source *source, int64_t begin, int64_t end,
                          float *out)
{
    base_assert(source->dim_count > 0 && source->dim_count <= ENG_GEMM_K_DIMS);
    base_assert(begin >= 0 && end <= eng_gemm_panels(kernels, source->n));
    const int64_t last = source->dims[source->dim_count - 1];
    int64_t k = kernels->pair_step > 0 ? eng_gemm_pairs(kernels, last) : last;
    for (uint32_t d = 0; d + 1 < source->dim_count; d++) {
        k *= source->dims[d];
    }
    for (int64_t panel = begin; panel < end; panel++) {
        pack_panel(kernels, source, panel, out + panel * kernels->nr * k);
    }
}

void eng_gemm_pack(const struct eng_gemm_kernels *kernels, const struct eng_gemm_source *source,
                   float *out)
{
    eng_gemm_pack_panels(kernels, source, 0, eng_gemm_panels(kernels, source->n), out);
}
