// The loops of products: a row times a number, a row times a row, and tiles of a product of
// matrices, whose sums stay in registers while the depth is gone through. Compiled twice, as all
// loops are (np_wide.h); products and sums may be joined here, so the last bits differ between
// processors, as those of any BLAS do. Called by np_linear.c, on the VM's thread; nothing here
// raises or allocates.
#include "vm/np/np_product.h"

#include "vm/np/np_wide.h"

#include <string.h>

#define AXPY(name, T, made)                                                                        \
    static void name(uint8_t *to, const uint8_t *by, const uint8_t *from, size_t count)            \
    {                                                                                              \
        T *restrict c = (T *)(void *)to;                                                           \
        const T *restrict b = (const T *)(const void *)from;                                       \
        const T a = *(const T *)(const void *)by;                                                  \
        for (size_t i = 0; i < count; i++) {                                                       \
            c[i] = made;                                                                           \
        }                                                                                          \
    }
AXPY(axpy_bool, uint8_t, c[i] | (a & b[i]))
AXPY(axpy_u8, uint8_t, (uint8_t)(c[i] + (uint32_t)a * b[i]))
AXPY(axpy_i32, int32_t, (int32_t)((uint32_t)c[i] + (uint32_t)a * (uint32_t)b[i]))
AXPY(axpy_i64, int64_t, (int64_t)((uint64_t)c[i] + (uint64_t)a * (uint64_t)b[i]))
AXPY(axpy_u64, uint64_t, c[i] + a * b[i])
AXPY(axpy_f32, float, c[i] + a * b[i])
AXPY(axpy_f64, double, c[i] + a * b[i])

static np_axpy *const axpys[NP_TYPES] = {axpy_bool, axpy_u8,  axpy_i32, axpy_i64,
                                         axpy_u64,  axpy_f32, axpy_f64};

np_axpy *NP_COMPILED(dev_np_axpy)(enum np_type type)
{
    return axpys[type];
}

// --- a row times a row: whole numbers wrap, so W is unsigned; reals in parts, so that a sum does
// not wait for the one before

#define DOT(name, T, W, joined)                                                                    \
    static void name(uint8_t *to, const uint8_t *left, const uint8_t *right, size_t count)         \
    {                                                                                              \
        const T *a = (const T *)(const void *)left;                                                \
        const T *b = (const T *)(const void *)right;                                               \
        W sum = (W) * (T *)(void *)to;                                                             \
        for (size_t i = 0; i < count; i++) {                                                       \
            sum = joined;                                                                          \
        }                                                                                          \
        *(T *)(void *)to = (T)sum;                                                                 \
    }
DOT(dot_bool, uint8_t, uint8_t, (uint8_t)(sum | (a[i] & b[i])))
DOT(dot_u8, uint8_t, uint32_t, sum + (uint32_t)a[i] * b[i])
DOT(dot_i32, int32_t, uint32_t, sum + (uint32_t)a[i] * (uint32_t)b[i])
DOT(dot_i64, int64_t, uint64_t, sum + (uint64_t)a[i] * (uint64_t)b[i])
DOT(dot_u64, uint64_t, uint64_t, sum + a[i] * b[i])

// 32 bytes of elements, wherever they lie.
typedef float f32_lanes __attribute__((vector_size(32)));
typedef double f64_lanes __attribute__((vector_size(32)));
typedef float f32_apart __attribute__((vector_size(32), aligned(4), may_alias));
typedef double f64_apart __attribute__((vector_size(32), aligned(8), may_alias));

#define LANES(n, T, at) (*(const n##_apart *)(const void *)(at))
#define DOT_REAL(n, T)                                                                             \
    static void dot_##n(uint8_t *to, const uint8_t *left, const uint8_t *right, size_t count)      \
    {                                                                                              \
        enum { WIDE = 32 / sizeof(T) };                                                            \
        const T *a = (const T *)(const void *)left;                                                \
        const T *b = (const T *)(const void *)right;                                               \
        n##_lanes s0 = {0};                                                                        \
        n##_lanes s1 = {0};                                                                        \
        n##_lanes s2 = {0};                                                                        \
        n##_lanes s3 = {0};                                                                        \
        size_t i = 0;                                                                              \
        for (; i + 4 * WIDE <= count; i += 4 * WIDE) {                                             \
            s0 += LANES(n, T, a + i) * LANES(n, T, b + i);                                         \
            s1 += LANES(n, T, a + i + WIDE) * LANES(n, T, b + i + WIDE);                           \
            s2 += LANES(n, T, a + i + 2 * WIDE) * LANES(n, T, b + i + 2 * WIDE);                   \
            s3 += LANES(n, T, a + i + 3 * WIDE) * LANES(n, T, b + i + 3 * WIDE);                   \
        }                                                                                          \
        s0 = (s0 + s1) + (s2 + s3);                                                                \
        T sum = *(T *)(void *)to;                                                                  \
        for (size_t k = 0; k < WIDE; k++) {                                                        \
            sum += s0[k];                                                                          \
        }                                                                                          \
        for (; i < count; i++) {                                                                   \
            sum += a[i] * b[i];                                                                    \
        }                                                                                          \
        *(T *)(void *)to = sum;                                                                    \
    }
DOT_REAL(f32, float)
DOT_REAL(f64, double)

static np_dot *const dots[NP_TYPES] = {dot_bool, dot_u8,  dot_i32, dot_i64,
                                       dot_u64,  dot_f32, dot_f64};

np_dot *NP_COMPILED(dev_np_dot)(enum np_type type)
{
    return dots[type];
}

// --- tiles

#define TILE_ROW(n, r)                                                                             \
    n##_lanes s##r##a = {0};                                                                       \
    n##_lanes s##r##b = {0};
#define TILE_SUM(n, T, r)                                                                          \
    s##r##a += *(const T *)(const void *)(left + (r)*tile->left_step + k * sizeof(T)) * b0;        \
    s##r##b += *(const T *)(const void *)(left + (r)*tile->left_step + k * sizeof(T)) * b1;
#define TILE_STORE(n, T, r)                                                                        \
    if ((r) < rows) {                                                                              \
        n##_lanes both[2] = {s##r##a, s##r##b};                                                    \
        const T *sums = (const T *)(const void *)both;                                             \
        T *c = (T *)(void *)(to + (r)*tile->to_step);                                              \
        if (tile->columns == 2 * WIDE) {                                                           \
            *(n##_apart *)(void *)c += s##r##a;                                                    \
            *(n##_apart *)(void *)(c + WIDE) += s##r##b;                                           \
        } else {                                                                                   \
            for (size_t i = 0; i < tile->columns; i++) {                                           \
                c[i] += sums[i];                                                                   \
            }                                                                                      \
        }                                                                                          \
    }
#define TILES(n, T)                                                                                \
    static void one_##n(const struct np_tile *tile, uint8_t *to, const uint8_t *left)              \
    {                                                                                              \
        enum { WIDE = 32 / sizeof(T) };                                                            \
        const size_t rows = 1;                                                                     \
        TILE_ROW(n, 0)                                                                             \
        for (size_t k = 0; k < tile->depth; k++) {                                                 \
            const uint8_t *row = tile->packed + k * NP_PANEL_BYTES;                                \
            const n##_lanes b0 = *(const n##_lanes *)(const void *)row;                            \
            const n##_lanes b1 = *(const n##_lanes *)(const void *)(row + 32);                     \
            TILE_SUM(n, T, 0)                                                                      \
        }                                                                                          \
        TILE_STORE(n, T, 0)                                                                        \
    }                                                                                              \
    static void four_##n(const struct np_tile *tile, uint8_t *to, const uint8_t *left)             \
    {                                                                                              \
        enum { WIDE = 32 / sizeof(T) };                                                            \
        const size_t rows = NP_TILE_ROWS;                                                          \
        TILE_ROW(n, 0)                                                                             \
        TILE_ROW(n, 1)                                                                             \
        TILE_ROW(n, 2)                                                                             \
        TILE_ROW(n, 3)                                                                             \
        for (size_t k = 0; k < tile->depth; k++) {                                                 \
            const uint8_t *row = tile->packed + k * NP_PANEL_BYTES;                                \
            const n##_lanes b0 = *(const n##_lanes *)(const void *)row;                            \
            const n##_lanes b1 = *(const n##_lanes *)(const void *)(row + 32);                     \
            TILE_SUM(n, T, 0)                                                                      \
            TILE_SUM(n, T, 1)                                                                      \
            TILE_SUM(n, T, 2)                                                                      \
            TILE_SUM(n, T, 3)                                                                      \
        }                                                                                          \
        TILE_STORE(n, T, 0)                                                                        \
        TILE_STORE(n, T, 1)                                                                        \
        TILE_STORE(n, T, 2)                                                                        \
        TILE_STORE(n, T, 3)                                                                        \
    }                                                                                              \
    static void tiles_##n(const struct np_tile *tile)                                              \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; i + NP_TILE_ROWS <= tile->rows; i += NP_TILE_ROWS) {                                \
            four_##n(tile, tile->to + i * tile->to_step, tile->left + i * tile->left_step);        \
        }                                                                                          \
        for (; i < tile->rows; i++) {                                                              \
            one_##n(tile, tile->to + i * tile->to_step, tile->left + i * tile->left_step);         \
        }                                                                                          \
    }
TILES(f32, float)
TILES(f64, double)

np_tiles *NP_COMPILED(dev_np_tiles)(enum np_type type)
{
    return type == NP_F32 ? tiles_f32 : type == NP_F64 ? tiles_f64 : NULL;
}
