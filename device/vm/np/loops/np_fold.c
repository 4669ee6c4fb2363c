// The loops of reductions: elements of one type folded into a result that may be of a wider one.
// Rows that fold into one element are summed in several parts at a time, so that they are quick
// and rounding does not grow with the length. Called through dev_np_walk, on the VM's thread.
#include "vm/np/np_fold.h"

#include "vm/np/np_wide.h"

#include <math.h>

#define PARTS       8
#define PLACE_BLOCK 512 // elements
#define FIRST_BLOCK 1024

// Folds row by row: `made` from the result so far `a` and an element `b`, both of type W.
#define FOLD(name, T, R, W, made)                                                                  \
    static void name(uint8_t *const *at, const int64_t *steps, size_t count)                       \
    {                                                                                              \
        uint8_t *to = at[0];                                                                       \
        const uint8_t *from = at[1];                                                               \
        if (steps[0] == 0) {                                                                       \
            W a = (W) * (R *)(void *)to;                                                           \
            for (size_t i = 0; i < count; i++) {                                                   \
                const W b = (W) * (const T *)(const void *)from;                                   \
                a = made;                                                                          \
                from += steps[1];                                                                  \
            }                                                                                      \
            *(R *)(void *)to = (R)a;                                                               \
            return;                                                                                \
        }                                                                                          \
        if (steps[0] == (int64_t)sizeof(R) && steps[1] == (int64_t)sizeof(T)) {                    \
            R *restrict made_row = (R *)(void *)to;                                                \
            const T *restrict row = (const T *)(const void *)from;                                 \
            for (size_t i = 0; i < count; i++) {                                                   \
                const W a = (W)made_row[i];                                                        \
                const W b = (W)row[i];                                                             \
                made_row[i] = (R)(made);                                                           \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                       \
            const W a = (W) * (R *)(void *)to;                                                     \
            const W b = (W) * (const T *)(const void *)from;                                       \
            *(R *)(void *)to = (R)(made);                                                          \
            to += steps[0];                                                                        \
            from += steps[1];                                                                      \
        }                                                                                          \
    }

// Sums of reals: a row that lies densely, in PARTS sums.
#define FOLD_SUM(name, T, R)                                                                       \
    FOLD(name##_rows, T, R, R, a + b)                                                              \
    static void name(uint8_t *const *at, const int64_t *steps, size_t count)                       \
    {                                                                                              \
        if (steps[0] != 0 || steps[1] != (int64_t)sizeof(T)) {                                     \
            name##_rows(at, steps, count);                                                         \
            return;                                                                                \
        }                                                                                          \
        const T *from = (const T *)(const void *)at[1];                                            \
        R parts[PARTS] = {0};                                                                      \
        size_t whole = count - count % PARTS;                                                      \
        for (size_t i = 0; i < whole; i += PARTS) {                                                \
            for (size_t k = 0; k < PARTS; k++) {                                                   \
                parts[k] += (R)from[i + k];                                                        \
            }                                                                                      \
        }                                                                                          \
        for (size_t i = whole; i < count; i++) {                                                   \
            parts[0] += (R)from[i];                                                                \
        }                                                                                          \
        *(R *)(void *)at[0] += ((parts[0] + parts[1]) + (parts[2] + parts[3])) +                   \
                               ((parts[4] + parts[5]) + (parts[6] + parts[7]));                    \
    }

// Extremes: a row that lies densely, in so many parts as fill several vectors.
#define FOLD_EXTREME(name, T, made)                                                                \
    FOLD(name##_rows, T, T, T, made)                                                               \
    static void name(uint8_t *const *at, const int64_t *steps, size_t count)                       \
    {                                                                                              \
        enum { LANES = 128 / sizeof(T) };                                                          \
        if (steps[0] != 0 || steps[1] != (int64_t)sizeof(T) || count < 2 * LANES) {                \
            name##_rows(at, steps, count);                                                         \
            return;                                                                                \
        }                                                                                          \
        const T *from = (const T *)(const void *)at[1];                                            \
        T parts[LANES];                                                                            \
        for (size_t k = 0; k < LANES; k++) {                                                       \
            parts[k] = from[k];                                                                    \
        }                                                                                          \
        size_t whole = count - count % LANES;                                                      \
        for (size_t i = LANES; i < whole; i += LANES) {                                            \
            for (size_t k = 0; k < LANES; k++) {                                                   \
                const T a = parts[k];                                                              \
                const T b = from[i + k];                                                           \
                parts[k] = made;                                                                   \
            }                                                                                      \
        }                                                                                          \
        T a = *(T *)(void *)at[0];                                                                 \
        for (size_t k = 0; k < LANES; k++) {                                                       \
            const T b = parts[k];                                                                  \
            a = made;                                                                              \
        }                                                                                          \
        for (size_t i = whole; i < count; i++) {                                                   \
            const T b = from[i];                                                                   \
            a = made;                                                                              \
        }                                                                                          \
        *(T *)(void *)at[0] = a;                                                                   \
    }

// any and all: of a row that lies densely, no block is looked at behind the one that decides.
#define FOLD_FIRST(name, T, made, decides, decided)                                                \
    FOLD(name##_rows, T, uint8_t, T, made)                                                         \
    static void name(uint8_t *const *at, const int64_t *steps, size_t count)                       \
    {                                                                                              \
        if (steps[0] != 0 || steps[1] != (int64_t)sizeof(T)) {                                     \
            name##_rows(at, steps, count);                                                         \
            return;                                                                                \
        }                                                                                          \
        const T *from = (const T *)(const void *)at[1];                                            \
        for (size_t done = 0; done < count && *at[0] != (decided); done += FIRST_BLOCK) {          \
            size_t now = count - done < FIRST_BLOCK ? count - done : FIRST_BLOCK;                  \
            uint8_t is_decided = 0;                                                                \
            for (size_t i = 0; i < now; i++) {                                                     \
                const T b = from[done + i];                                                        \
                is_decided |= (decides) ? 1 : 0;                                                   \
            }                                                                                      \
            *at[0] = is_decided != 0 ? (decided) : *at[0];                                         \
        }                                                                                          \
    }

#define WHOLE(n, T, R)                                                                             \
    FOLD(n##_sum, T, R, uint64_t, a + b)                                                           \
    FOLD(n##_product, T, R, uint64_t, a *b)                                                        \
    FOLD_EXTREME(n##_least, T, b < a ? b : a)                                                      \
    FOLD_EXTREME(n##_largest, T, b > a ? b : a)                                                    \
    FOLD_SUM(n##_real_sum, T, double)                                                              \
    FOLD_FIRST(n##_any, T, a != 0 || b != 0, b != 0, 1)                                            \
    FOLD_FIRST(n##_all, T, a != 0 && b != 0, b == 0, 0)
#define REAL(n, T)                                                                                 \
    FOLD_SUM(n##_sum, T, T)                                                                        \
    FOLD(n##_product, T, T, T, a *b)                                                               \
    FOLD_EXTREME(n##_least, T, (b < a) | (b != b) ? b : a)                                         \
    FOLD_EXTREME(n##_largest, T, (b > a) | (b != b) ? b : a)                                       \
    FOLD_EXTREME(n##_least_number, T, (b < a) | (a != a) ? b : a)                                  \
    FOLD_EXTREME(n##_largest_number, T, (b > a) | (a != a) ? b : a)                                \
    FOLD_FIRST(n##_any, T, a != 0 || b != 0, b != 0, 1)                                            \
    FOLD_FIRST(n##_all, T, a != 0 && b != 0, b == 0, 0)

WHOLE(bool, uint8_t, int64_t)
WHOLE(u8, uint8_t, uint64_t)
WHOLE(i32, int32_t, int64_t)
WHOLE(i64, int64_t, int64_t)
WHOLE(u64, uint64_t, uint64_t)
REAL(f32, float)
REAL(f64, double)

#define COUNT_LANES 32
_Static_assert(COUNT_LANES % 8 == 0, "lanes are whole words");

// How many are true: by lanes of bytes, which hold 255.
static void bool_count(uint8_t *const *at, const int64_t *steps, size_t count)
{
    if (steps[0] != 0 || steps[1] != 1) {
        bool_sum(at, steps, count);
        return;
    }
    const uint8_t *from = at[1];
    size_t done = 0;
    uint64_t sum = 0;
    while (count - done >= COUNT_LANES) {
        uint8_t parts[COUNT_LANES] = {0};
        for (size_t turn = 0; turn < 255 && count - done >= COUNT_LANES; turn++) {
            for (size_t k = 0; k < COUNT_LANES; k++) {
                parts[k] = (uint8_t)(parts[k] + from[done + k]);
            }
            done += COUNT_LANES;
        }
        for (size_t k = 0; k < COUNT_LANES; k++) {
            sum += parts[k];
        }
    }
    for (; done < count; done++) {
        sum += from[done];
    }
    *(int64_t *)(void *)at[0] += (int64_t)sum;
}

#define EVERY_TYPE(name)                                                                           \
    {                                                                                              \
        bool_##name, u8_##name, i32_##name, i64_##name, u64_##name, f32_##name, f64_##name         \
    }
static np_loop *const loops[NP_FOLDS][NP_TYPES] = {
    [NP_SUM] = {bool_count, u8_sum, i32_sum, i64_sum, u64_sum, f32_sum, f64_sum},
    [NP_PRODUCT] = EVERY_TYPE(product),
    [NP_LEAST] = EVERY_TYPE(least),
    [NP_LARGEST] = EVERY_TYPE(largest),
    [NP_LEAST_NUMBER] = {u8_least, u8_least, i32_least, i64_least, u64_least, f32_least_number,
                         f64_least_number},
    [NP_LARGEST_NUMBER] = {u8_largest, u8_largest, i32_largest, i64_largest, u64_largest,
                           f32_largest_number, f64_largest_number},
    [NP_ANY] = EVERY_TYPE(any),
    [NP_ALL] = EVERY_TYPE(all),
    [NP_REAL_SUM] = {bool_real_sum, u8_real_sum, i32_real_sum, i64_real_sum, u64_real_sum, f32_sum,
                     f64_sum},
};

np_loop *NP_COMPILED(dev_np_fold)(enum np_fold fold, enum np_type type)
{
    return loops[fold][type];
}

#if !defined(NP_WIDE)
enum np_type dev_np_fold_type(enum np_fold fold, enum np_type type)
{
    static const uint8_t wide[NP_TYPES] = {NP_I64, NP_U64, NP_I64, NP_I64, NP_U64, NP_F32, NP_F64};
    switch (fold) {
    case NP_SUM:
    case NP_PRODUCT:
        return (enum np_type)wide[type];
    case NP_REAL_SUM:
        return dev_np_is_real(type) ? type : NP_F64;
    case NP_ANY:
    case NP_ALL:
        return NP_BOOL;
    default:
        return type;
    }
}
#endif

// --- the first largest or least, a NaN before all else

// Rows that lie densely are first folded by blocks: what is looked for is in the last block that
// changed the result.
#define PLACE(name, T, better, folded)                                                             \
    static size_t name##_from(const uint8_t *from, int64_t step, size_t count)                     \
    {                                                                                              \
        size_t place = 0;                                                                          \
        T best = *(const T *)(const void *)from;                                                   \
        for (size_t i = 1; i < count && best == best; i++) {                                       \
            from += step;                                                                          \
            const T next = *(const T *)(const void *)from;                                         \
            if (better || next != next) {                                                          \
                best = next;                                                                       \
                place = i;                                                                         \
            }                                                                                      \
        }                                                                                          \
        return place;                                                                              \
    }                                                                                              \
    static size_t name(const uint8_t *from, int64_t step, size_t count)                            \
    {                                                                                              \
        if (step != (int64_t)sizeof(T)) {                                                          \
            return name##_from(from, step, count);                                                 \
        }                                                                                          \
        const int64_t steps[] = {0, step};                                                         \
        T best = *(const T *)(const void *)from;                                                   \
        size_t block = 0;                                                                          \
        for (size_t i = 0; i < count && best == best; i += PLACE_BLOCK) {                          \
            T next = best;                                                                         \
            uint8_t *at[] = {(uint8_t *)&next, (uint8_t *)(uintptr_t)from + i * sizeof(T)};        \
            folded(at, steps, count - i < PLACE_BLOCK ? count - i : PLACE_BLOCK);                  \
            block = next != best ? i : block;                                                      \
            best = next;                                                                           \
        }                                                                                          \
        size_t length = count - block < PLACE_BLOCK ? count - block : PLACE_BLOCK;                 \
        return block + name##_from(from + block * sizeof(T), step, length);                        \
    }
#define PLACE_PAIR(n, T)                                                                           \
    PLACE(n##_least_at, T, next < best, n##_least)                                                 \
    PLACE(n##_largest_at, T, next > best, n##_largest)
PLACE_PAIR(u8, uint8_t)
PLACE_PAIR(i32, int32_t)
PLACE_PAIR(i64, int64_t)
PLACE_PAIR(u64, uint64_t)
PLACE_PAIR(f32, float)
PLACE_PAIR(f64, double)

static np_place *const places[2][NP_TYPES] = {
    {u8_least_at, u8_least_at, i32_least_at, i64_least_at, u64_least_at, f32_least_at,
     f64_least_at},
    {u8_largest_at, u8_largest_at, i32_largest_at, i64_largest_at, u64_largest_at, f32_largest_at,
     f64_largest_at},
};

np_place *NP_COMPILED(dev_np_places)(bool is_largest, enum np_type type)
{
    return places[is_largest ? 1 : 0][type];
}
