// The loops of functions of two operands, one for each type that has them. Rows whose elements lie
// next to one another have a loop of their own that the compiler makes wide. Whole numbers wrap, as
// NumPy's do; what C does not define (a division by zero, a shift by too much) is what NumPy says.
// Called through dev_np_walk, on the VM's thread; nothing here raises or allocates.
#include "vm/np/np_loops.h"

#include "vm/np/loops/np_vector.h"
#include "vm/np/np_wide.h"

#include <math.h>

#define BINARY(name, T, R, made)                                                                   \
    static void name(uint8_t *const *at, const int64_t *steps, size_t count)                       \
    {                                                                                              \
        const int64_t size = (int64_t)sizeof(T);                                                   \
        if (steps[0] == (int64_t)sizeof(R) && steps[1] == size && steps[2] == size) {              \
            R *to = (R *)(void *)at[0];                                                            \
            const T *left = (const T *)(const void *)at[1];                                        \
            const T *right = (const T *)(const void *)at[2];                                       \
            for (size_t i = 0; i < count; i++) {                                                   \
                const T a = left[i];                                                               \
                const T b = right[i];                                                              \
                to[i] = made;                                                                      \
            }                                                                                      \
        } else if (steps[0] == (int64_t)sizeof(R) && steps[1] == size && steps[2] == 0) {          \
            R *to = (R *)(void *)at[0];                                                            \
            const T *left = (const T *)(const void *)at[1];                                        \
            const T b = *(const T *)(const void *)at[2];                                           \
            for (size_t i = 0; i < count; i++) {                                                   \
                const T a = left[i];                                                               \
                to[i] = made;                                                                      \
            }                                                                                      \
        } else if (steps[0] == (int64_t)sizeof(R) && steps[1] == 0 && steps[2] == size) {          \
            R *to = (R *)(void *)at[0];                                                            \
            const T a = *(const T *)(const void *)at[1];                                           \
            const T *right = (const T *)(const void *)at[2];                                       \
            for (size_t i = 0; i < count; i++) {                                                   \
                const T b = right[i];                                                              \
                to[i] = made;                                                                      \
            }                                                                                      \
        } else {                                                                                   \
            uint8_t *to = at[0];                                                                   \
            const uint8_t *left = at[1];                                                           \
            const uint8_t *right = at[2];                                                          \
            for (size_t i = 0; i < count; i++) {                                                   \
                const T a = *(const T *)(const void *)left;                                        \
                const T b = *(const T *)(const void *)right;                                       \
                *(R *)(void *)to = made;                                                           \
                to += steps[0];                                                                    \
                left += steps[1];                                                                  \
                right += steps[2];                                                                 \
            }                                                                                      \
        }                                                                                          \
    }

// --- what C leaves open

// Of numbers below 2^51 the quotient of the doubles, cut off, is that of the numbers: it is never
// rounded up to a whole one. That is several times as quick as dividing whole numbers.
static inline bool is_near_i32(int32_t value)
{
    (void)value;
    return true;
}

static inline bool is_near_i64(int64_t value)
{
    return (uint64_t)value + ((uint64_t)1 << 51) < (uint64_t)1 << 52;
}

#define FLOOR_OF(name, T, U)                                                                       \
    static inline T cut_off_##name(T a, T b)                                                       \
    {                                                                                              \
        return is_near_##name(a) && is_near_##name(b) ? (T)((double)a / (double)b) : (T)(a / b);   \
    }                                                                                              \
    static inline T floor_##name(T a, T b)                                                         \
    {                                                                                              \
        const T by = b == 0 || b == -1 ? 1 : b;                                                    \
        const T whole = cut_off_##name(a, by);                                                     \
        const T left = (T)(a - whole * by);                                                        \
        const T made = (T)(whole - (left != 0 && (left < 0) != (by < 0) ? 1 : 0));                 \
        return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : made;                                        \
    }                                                                                              \
    static inline T modulo_##name(T a, T b)                                                        \
    {                                                                                              \
        const T by = b == 0 || b == -1 ? 1 : b;                                                    \
        const T left = (T)(a - cut_off_##name(a, by) * by);                                        \
        return (T)(left != 0 && (left < 0) != (by < 0) ? left + by : left);                        \
    }                                                                                              \
    static inline T cut_##name(T a, T b)                                                           \
    {                                                                                              \
        return (T)(b == 0 || b == -1 ? 0 : a % b);                                                 \
    }
FLOOR_OF(i32, int32_t, uint32_t)
FLOOR_OF(i64, int64_t, uint64_t)

#define FLOOR_OF_REAL(name, T, S)                                                                  \
    static inline T modulo_##name(T a, T b)                                                        \
    {                                                                                              \
        T left = fmod##S(a, b);                                                                    \
        if (b == 0 || isnan(left)) {                                                               \
            return left;                                                                           \
        }                                                                                          \
        if (left == 0) {                                                                           \
            return copysign##S((T)0, b);                                                           \
        }                                                                                          \
        return (left < 0) != (b < 0) ? left + b : left;                                            \
    }                                                                                              \
    static inline T floor_##name(T a, T b)                                                         \
    {                                                                                              \
        if (b == 0) {                                                                              \
            return a / b;                                                                          \
        }                                                                                          \
        T left = fmod##S(a, b);                                                                    \
        T whole = (a - left) / b;                                                                  \
        if (left != 0 && (b < 0) != (left < 0)) {                                                  \
            whole -= 1;                                                                            \
        }                                                                                          \
        if (whole == 0) {                                                                          \
            return copysign##S((T)0, a / b);                                                       \
        }                                                                                          \
        T down = floor##S(whole);                                                                  \
        return whole - down > (T)0.5 ? down + 1 : down;                                            \
    }
FLOOR_OF_REAL(f32, float, f)
FLOOR_OF_REAL(f64, double, )

// By squaring; negative exponents were refused.
static inline uint64_t power_of(uint64_t base, uint64_t exponent)
{
    uint64_t made = 1;
    for (; exponent > 0; exponent >>= 1) {
        made = exponent & 1 ? made * base : made;
        base *= base;
    }
    return made;
}

#define LOGADDEXP(name, T, S, exp_of, log_of, one)                                                 \
    static inline T name(T a, T b)                                                                 \
    {                                                                                              \
        if (a == b) {                                                                              \
            return a + one;                                                                        \
        }                                                                                          \
        T more = a > b ? a : b;                                                                    \
        T less = a > b ? b : a;                                                                    \
        return isnan(a) || isnan(b) ? a + b : more + log_of(exp_of(less - more));                  \
    }
#define log2p1(x)  (log1p(x) * M_LOG2E)
#define log2p1f(x) (log1pf(x) * (float)M_LOG2E)
LOGADDEXP(logaddexp_f32, float, f, expf, log1pf, (float)M_LN2)
LOGADDEXP(logaddexp_f64, double, , exp, log1p, M_LN2)
LOGADDEXP(logaddexp2_f32, float, f, exp2f, log2p1f, 1)
LOGADDEXP(logaddexp2_f64, double, , exp2, log2p1, 1)

// An exponent beyond what an int holds is as good as the largest that it does.
#define exponent_of(b) ((int)((b) < -100000 ? -100000 : (b) > 100000 ? 100000 : (b)))

// --- by type

// W is unsigned, so that what is too large wraps; B: bits of T.
#define WHOLE(n, T, W, B, floor_divide, remainder, cut)                                            \
    BINARY(n##_add, T, T, (T)((W)a + (W)b))                                                        \
    BINARY(n##_subtract, T, T, (T)((W)a - (W)b))                                                   \
    BINARY(n##_multiply, T, T, (T)((W)a * (W)b))                                                   \
    BINARY(n##_floor_divide, T, T, floor_divide)                                                   \
    BINARY(n##_remainder, T, T, remainder)                                                         \
    BINARY(n##_fmod, T, T, cut)                                                                    \
    BINARY(n##_power, T, T, (T)power_of((uint64_t)a, (uint64_t)b))                                 \
    BINARY(n##_minimum, T, T, a < b ? a : b)                                                       \
    BINARY(n##_maximum, T, T, a > b ? a : b)                                                       \
    BINARY(n##_and, T, T, (T)(a & b))                                                              \
    BINARY(n##_or, T, T, (T)(a | b))                                                               \
    BINARY(n##_xor, T, T, (T)(a ^ b))                                                              \
    BINARY(n##_left, T, T, (T)((uint64_t)b < B ? (T)((W)a << b) : (T)0))                           \
    BINARY(n##_right, T, T, (T)((uint64_t)b < B ? (T)(a >> b) : (T)(a < 0 ? -1 : 0)))              \
    COMPARED(n, T)
#define COMPARED(n, T)                                                                             \
    BINARY(n##_equal, T, uint8_t, a == b)                                                          \
    BINARY(n##_not_equal, T, uint8_t, a != b)                                                      \
    BINARY(n##_less, T, uint8_t, a < b)                                                            \
    BINARY(n##_less_equal, T, uint8_t, a <= b)                                                     \
    BINARY(n##_logical_and, T, uint8_t, a != 0 && b != 0)                                          \
    BINARY(n##_logical_or, T, uint8_t, a != 0 || b != 0)                                           \
    BINARY(n##_logical_xor, T, uint8_t, (a != 0) != (b != 0))
#define REAL(n, T, S)                                                                              \
    BINARY(n##_add, T, T, a + b)                                                                   \
    BINARY(n##_subtract, T, T, a - b)                                                              \
    BINARY(n##_multiply, T, T, a *b)                                                               \
    BINARY(n##_divide, T, T, a / b)                                                                \
    BINARY(n##_floor_divide, T, T, floor_##n(a, b))                                                \
    BINARY(n##_remainder, T, T, modulo_##n(a, b))                                                  \
    BINARY(n##_fmod, T, T, fmod##S(a, b))                                                          \
    BINARY(n##_minimum, T, T, a < b || a != a ? a : b)                                             \
    BINARY(n##_maximum, T, T, a > b || a != a ? a : b)                                             \
    BINARY(n##_fmin, T, T, a < b || b != b ? a : b)                                                \
    BINARY(n##_fmax, T, T, a > b || b != b ? a : b)                                                \
    BINARY(n##_arctan2, T, T, atan2##S(a, b))                                                      \
    BINARY(n##_hypot, T, T, hypot##S(a, b))                                                        \
    BINARY(n##_copysign, T, T, copysign##S(a, b))                                                  \
    BINARY(n##_logaddexp, T, T, logaddexp_##n(a, b))                                               \
    BINARY(n##_logaddexp2, T, T, logaddexp2_##n(a, b))                                             \
    BINARY(n##_ldexp, T, T, ldexp##S(a, exponent_of(b)))                                           \
    COMPARED(n, T)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits" // what is less than 0 among the unsigned
WHOLE(u8, uint8_t, uint32_t, 8, (uint8_t)(b == 0 ? 0 : a / b), (uint8_t)(b == 0 ? 0 : a % b),
      (uint8_t)(b == 0 ? 0 : a % b))
WHOLE(i32, int32_t, uint32_t, 32, floor_i32(a, b), modulo_i32(a, b), cut_i32(a, b))
WHOLE(i64, int64_t, uint64_t, 64, floor_i64(a, b), modulo_i64(a, b), cut_i64(a, b))
WHOLE(u64, uint64_t, uint64_t, 64, b == 0 ? 0 : a / b, b == 0 ? 0 : a % b, b == 0 ? 0 : a % b)
#pragma GCC diagnostic pop
REAL(f32, float, f)
REAL(f64, double, )
BINARY(f64_power, double, double, pow(a, b))

// Powers of float32 by way of float64, a block at a time; those that are not near by the C library.
#define POWER_BLOCK 256
static void f32_power(uint8_t *const *at, const int64_t *steps, size_t count)
{
    uint8_t *to = at[0];
    const uint8_t *left = at[1];
    const uint8_t *right = at[2];
    const bool is_usual = steps[0] == 4 && steps[1] == 4 && steps[2] == 0; // by a number
    for (size_t done = 0; done < count; done += POWER_BLOCK) {
        double bases[POWER_BLOCK];
        double exponents[POWER_BLOCK];
        double made[POWER_BLOCK];
        uint64_t is_far = 0;
        size_t now = count - done < POWER_BLOCK ? count - done : POWER_BLOCK;
        const float *row = (const float *)(const void *)left;
        const double same = (double)*(const float *)(const void *)right;
        for (size_t i = 0; is_usual && i < now; i++) {
            bases[i] = (double)row[i];
            exponents[i] = same;
        }
        for (size_t i = 0; !is_usual && i < now; i++) {
            bases[i] = (double)*(const float *)(const void *)(left + (int64_t)i * steps[1]);
            exponents[i] = (double)*(const float *)(const void *)(right + (int64_t)i * steps[2]);
        }
        left += (int64_t)now * steps[1];
        right += (int64_t)now * steps[2];
        for (size_t i = 0; i < now; i++) {
            const double way = exponents[i] * np_log(bases[i]);
            const bool is_near = np_log_is_near(bases[i]) & (fabs(way) < 80);
            const double power = np_exp_short(way);
            made[i] = is_near ? power : (double)NAN;
            is_far |= is_near ? 0 : 1;
        }
        for (size_t i = 0; is_far != 0 && i < now; i++) {
            made[i] =
                made[i] == made[i] ? made[i] : (double)powf((float)bases[i], (float)exponents[i]);
        }
        float *made_row = (float *)(void *)to;
        for (size_t i = 0; is_usual && i < now; i++) {
            made_row[i] = (float)made[i];
        }
        for (size_t i = 0; !is_usual && i < now; i++) {
            *(float *)(void *)(to + (int64_t)i * steps[0]) = (float)made[i];
        }
        to += (int64_t)now * steps[0];
    }
}

#define EVERY_TYPE(name, of_bool)                                                                  \
    {                                                                                              \
        of_bool, u8_##name, i32_##name, i64_##name, u64_##name, f32_##name, f64_##name             \
    }
#define WHOLE_TYPES(name, of_bool)                                                                 \
    {                                                                                              \
        of_bool, u8_##name, i32_##name, i64_##name, u64_##name, NULL, NULL                         \
    }
#define REAL_TYPES(name)                                                                           \
    {                                                                                              \
        [NP_F32] = f32_##name, [NP_F64] = f64_##name                                               \
    }
// fmin and fmax are minimum and maximum where there are no NaN.
#define FAR_TYPES(name, plain)                                                                     \
    {                                                                                              \
        u8_##plain, u8_##plain, i32_##plain, i64_##plain, u64_##plain, f32_##name, f64_##name      \
    }

// A bool is a byte, 0 or 1: its sum is "or", its product "and".
static np_loop *const loops[NP_BINARIES][NP_TYPES] = {
    [NP_ADD] = EVERY_TYPE(add, u8_or),
    [NP_SUBTRACT] = EVERY_TYPE(subtract, NULL),
    [NP_MULTIPLY] = EVERY_TYPE(multiply, u8_and),
    [NP_DIVIDE] = REAL_TYPES(divide),
    [NP_FLOOR_DIVIDE] = EVERY_TYPE(floor_divide, NULL),
    [NP_REMAINDER] = EVERY_TYPE(remainder, NULL),
    [NP_FMOD] = EVERY_TYPE(fmod, NULL),
    [NP_POWER] = {NULL, u8_power, i32_power, i64_power, u64_power, f32_power, f64_power},
    [NP_MINIMUM] = EVERY_TYPE(minimum, u8_and),
    [NP_MAXIMUM] = EVERY_TYPE(maximum, u8_or),
    [NP_FMIN] = FAR_TYPES(fmin, minimum),
    [NP_FMAX] = FAR_TYPES(fmax, maximum),
    [NP_BIT_AND] = WHOLE_TYPES(and, u8_and),
    [NP_BIT_OR] = WHOLE_TYPES(or, u8_or),
    [NP_BIT_XOR] = WHOLE_TYPES(xor, u8_xor),
    [NP_SHIFT_LEFT] = WHOLE_TYPES(left, NULL),
    [NP_SHIFT_RIGHT] = WHOLE_TYPES(right, NULL),
    [NP_ARCTAN2] = REAL_TYPES(arctan2),
    [NP_HYPOT] = REAL_TYPES(hypot),
    [NP_COPYSIGN] = REAL_TYPES(copysign),
    [NP_LOGADDEXP] = REAL_TYPES(logaddexp),
    [NP_LOGADDEXP2] = REAL_TYPES(logaddexp2),
    [NP_LDEXP] = REAL_TYPES(ldexp),
    [NP_FLOAT_POWER] = {[NP_F64] = f64_power},
    [NP_EQUAL] = EVERY_TYPE(equal, u8_equal),
    [NP_NOT_EQUAL] = EVERY_TYPE(not_equal, u8_not_equal),
    [NP_LESS] = EVERY_TYPE(less, u8_less),
    [NP_LESS_EQUAL] = EVERY_TYPE(less_equal, u8_less_equal),
    [NP_LOGICAL_AND] = EVERY_TYPE(logical_and, u8_logical_and),
    [NP_LOGICAL_OR] = EVERY_TYPE(logical_or, u8_logical_or),
    [NP_LOGICAL_XOR] = EVERY_TYPE(logical_xor, u8_logical_xor),
};

np_loop *NP_COMPILED(dev_np_binary)(enum np_binary function, enum np_type type)
{
    return loops[function][type];
}

// --- where: what the third operand, a bool, is true for becomes the second

#define CHOOSE(name, T)                                                                            \
    static void name(uint8_t *const *at, const int64_t *steps, size_t count)                       \
    {                                                                                              \
        uint8_t *to = at[0];                                                                       \
        const uint8_t *from = at[1];                                                               \
        const uint8_t *mask = at[2];                                                               \
        if (steps[0] == (int64_t)sizeof(T) && steps[1] == (int64_t)sizeof(T) && steps[2] == 1) {   \
            T *made = (T *)(void *)to;                                                             \
            const T *given = (const T *)(const void *)from;                                        \
            for (size_t i = 0; i < count; i++) {                                                   \
                const T kept = made[i];                                                            \
                const T other = given[i];                                                          \
                made[i] = mask[i] != 0 ? other : kept;                                             \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                       \
            if (*mask != 0) {                                                                      \
                *(T *)(void *)to = *(const T *)(const void *)from;                                 \
            }                                                                                      \
            to += steps[0];                                                                        \
            from += steps[1];                                                                      \
            mask += steps[2];                                                                      \
        }                                                                                          \
    }
CHOOSE(choose_8, uint8_t)
CHOOSE(choose_32, uint32_t)
CHOOSE(choose_64, uint64_t)

np_loop *NP_COMPILED(dev_np_choose)(enum np_type type)
{
    size_t item = dev_np_item(type);
    return item == 1 ? choose_8 : item == 4 ? choose_32 : choose_64;
}
