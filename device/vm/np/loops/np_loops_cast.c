// The loops of conversions from one type of elements to another, and of filling: rows whose
// elements lie next to one another, or that repeat one element, have a loop of their own that the
// compiler makes wide. Called through dev_np_walk, on the VM's thread; nothing here raises or
// allocates.
#include "vm/np/np_loops.h"

#include "vm/np/np_wide.h"

// As C converts, where that says what comes out; else the least number

static inline int64_t i64_from(double value)
{
    return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

static inline uint64_t u64_from(double value)
{
    return value >= 0x1p63 && value < 0x1p64 ? (uint64_t)value : (uint64_t)i64_from(value);
}

static inline int32_t i32_from(double value)
{
    return value > -0x1p31 - 1 && value < 0x1p31 ? (int32_t)value : INT32_MIN;
}

#define CAST(name, TO, FROM, made)                                                                 \
    static void name(uint8_t *const *at, const int64_t *steps, size_t count)                       \
    {                                                                                              \
        uint8_t *to = at[0];                                                                       \
        const uint8_t *from = at[1];                                                               \
        if (steps[0] == (int64_t)sizeof(TO) && steps[1] == (int64_t)sizeof(FROM)) {                \
            for (size_t i = 0; i < count; i++) {                                                   \
                const FROM value = ((const FROM *)(const void *)from)[i];                          \
                ((TO *)(void *)to)[i] = made;                                                      \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        if (steps[0] == (int64_t)sizeof(TO) && steps[1] == 0) {                                    \
            const FROM value = *(const FROM *)(const void *)from;                                  \
            const TO same = made;                                                                  \
            for (size_t i = 0; i < count; i++) {                                                   \
                ((TO *)(void *)to)[i] = same;                                                      \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                       \
            const FROM value = *(const FROM *)(const void *)from;                                  \
            *(TO *)(void *)to = made;                                                              \
            to += steps[0];                                                                        \
            from += steps[1];                                                                      \
        }                                                                                          \
    }
#define CASTS(name, FROM, W8, W32, W64, WU64)                                                      \
    CAST(name##_bool, uint8_t, FROM, (uint8_t)(value != 0))                                        \
    CAST(name##_u8, uint8_t, FROM, (uint8_t)W8(value))                                             \
    CAST(name##_i32, int32_t, FROM, (int32_t)W32(value))                                           \
    CAST(name##_i64, int64_t, FROM, (int64_t)W64(value))                                           \
    CAST(name##_u64, uint64_t, FROM, (uint64_t)WU64(value))                                        \
    CAST(name##_f32, float, FROM, (float)value)                                                    \
    CAST(name##_f64, double, FROM, (double)value)

CASTS(from_u8, uint8_t, , , , )
CASTS(from_i32, int32_t, , , , )
CASTS(from_i64, int64_t, , , , )
CASTS(from_u64, uint64_t, , , , )
CASTS(from_f32, float, i64_from, i32_from, i64_from, u64_from)
CASTS(from_f64, double, i64_from, i32_from, i64_from, u64_from)

#define ROW(name)                                                                                  \
    {                                                                                              \
        name##_bool, name##_u8, name##_i32, name##_i64, name##_u64, name##_f32, name##_f64         \
    }
static np_loop *const casts[NP_TYPES][NP_TYPES] = {
    ROW(from_u8),  ROW(from_u8),  ROW(from_i32), ROW(from_i64),
    ROW(from_u64), ROW(from_f32), ROW(from_f64),
};

np_loop *NP_COMPILED(dev_np_casting)(enum np_type to, enum np_type from)
{
    return casts[from][to];
}
