// The loops of functions of one operand, one for each type that has them. Rows whose elements lie
// next to one another have a loop of their own that the compiler makes wide. Called through
// dev_np_walk, on the VM's thread; nothing here raises or allocates.
#include "vm/np/np_loops.h"

#include "vm/np/loops/np_vector.h"
#include "vm/np/np_wide.h"

#include <math.h>

#define UNARY(name, T, R, made)                                                                    \
    static void name(uint8_t *const *at, const int64_t *steps, size_t count)                       \
    {                                                                                              \
        if (steps[0] == (int64_t)sizeof(R) && steps[1] == (int64_t)sizeof(T)) {                    \
            R *to = (R *)(void *)at[0];                                                            \
            const T *from = (const T *)(const void *)at[1];                                        \
            for (size_t i = 0; i < count; i++) {                                                   \
                const T a = from[i];                                                               \
                to[i] = made;                                                                      \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        uint8_t *to = at[0];                                                                       \
        const uint8_t *from = at[1];                                                               \
        for (size_t i = 0; i < count; i++) {                                                       \
            const T a = *(const T *)(const void *)from;                                            \
            *(R *)(void *)to = made;                                                               \
            to += steps[0];                                                                        \
            from += steps[1];                                                                      \
        }                                                                                          \
    }

// A block at a time: first all by `made`, which the compiler makes wide; then those that are not
// near, by the C library.
#define VECTOR_BLOCK 256
#define VECTOR(name, T, near, made, far)                                                           \
    static void name(uint8_t *const *at, const int64_t *steps, size_t count)                       \
    {                                                                                              \
        uint8_t *to = at[0];                                                                       \
        const uint8_t *from = at[1];                                                               \
        const bool is_dense = steps[0] == (int64_t)sizeof(T) && steps[1] == (int64_t)sizeof(T);    \
        for (size_t done = 0; done < count; done += VECTOR_BLOCK) {                                \
            double given[VECTOR_BLOCK];                                                            \
            double results[VECTOR_BLOCK];                                                          \
            size_t now = count - done < VECTOR_BLOCK ? count - done : VECTOR_BLOCK;                \
            const T *row = (const T *)(const void *)from;                                          \
            for (size_t i = 0; is_dense && i < now; i++) {                                         \
                given[i] = (double)row[i];                                                         \
            }                                                                                      \
            for (size_t i = 0; !is_dense && i < now; i++) {                                        \
                given[i] = (double)*(const T *)(const void *)(from + (int64_t)i * steps[1]);       \
            }                                                                                      \
            from += (int64_t)now * steps[1];                                                       \
            uint64_t is_far = 0;                                                                   \
            for (size_t i = 0; i < now; i++) {                                                     \
                const double a = given[i];                                                         \
                results[i] = made;                                                                 \
                is_far |= near ? 0 : 1;                                                            \
            }                                                                                      \
            for (size_t i = 0; is_far != 0 && i < now; i++) {                                      \
                const double a = given[i];                                                         \
                results[i] = near ? results[i] : (double)far;                                      \
            }                                                                                      \
            T *made_row = (T *)(void *)to;                                                         \
            for (size_t i = 0; is_dense && i < now; i++) {                                         \
                made_row[i] = (T)results[i];                                                       \
            }                                                                                      \
            for (size_t i = 0; !is_dense && i < now; i++) {                                        \
                *(T *)(void *)(to + (int64_t)i * steps[0]) = (T)results[i];                        \
            }                                                                                      \
            to += (int64_t)now * steps[0];                                                         \
        }                                                                                          \
    }

#define WHOLE(n, T, W, absolute, sign)                                                             \
    UNARY(n##_negative, T, T, (T)(0 - (W)a))                                                       \
    UNARY(n##_absolute, T, T, absolute)                                                            \
    UNARY(n##_sign, T, T, sign)                                                                    \
    UNARY(n##_square, T, T, (T)((W)a * (W)a))                                                      \
    UNARY(n##_invert, T, T, (T) ~(W)a)                                                             \
    UNARY(n##_positive, T, T, a)                                                                   \
    UNARY(n##_reciprocal, T, T, (T)((absolute) == 1 ? (sign) : 0))                                 \
    UNARY(n##_not, T, uint8_t, a == 0)
#define REAL(n, T, S, SHORT)                                                                       \
    UNARY(n##_negative, T, T, -a)                                                                  \
    UNARY(n##_absolute, T, T, fabs##S(a))                                                          \
    UNARY(n##_sign, T, T, a > 0 ? (T)1 : a < 0 ? (T)-1 : a == 0 ? (T)0 : a)                        \
    UNARY(n##_square, T, T, a *a)                                                                  \
    UNARY(n##_rint, T, T, rint##S(a))                                                              \
    UNARY(n##_floor, T, T, floor##S(a))                                                            \
    UNARY(n##_ceil, T, T, ceil##S(a))                                                              \
    UNARY(n##_trunc, T, T, trunc##S(a))                                                            \
    UNARY(n##_reciprocal, T, T, 1 / a)                                                             \
    UNARY(n##_sqrt, T, T, sqrt##S(a))                                                              \
    UNARY(n##_cbrt, T, T, cbrt##S(a))                                                              \
    VECTOR(n##_exp, T, np_exp_is_near(a), np_exp##SHORT(a), exp##S((T)a))                          \
    UNARY(n##_exp2, T, T, exp2##S(a))                                                              \
    UNARY(n##_expm1, T, T, expm1##S(a))                                                            \
    VECTOR(n##_log, T, np_log_is_near(a), np_log##SHORT(a), log##S((T)a))                          \
    UNARY(n##_log2, T, T, log2##S(a))                                                              \
    UNARY(n##_log10, T, T, log10##S(a))                                                            \
    UNARY(n##_log1p, T, T, log1p##S(a))                                                            \
    VECTOR(n##_sin, T, np_turn_is_near(a), np_turned##SHORT(a, 0), sin##S((T)a))                   \
    VECTOR(n##_cos, T, np_turn_is_near(a), np_turned##SHORT(a, 1), cos##S((T)a))                   \
    UNARY(n##_tan, T, T, tan##S(a))                                                                \
    UNARY(n##_arcsin, T, T, asin##S(a))                                                            \
    UNARY(n##_arccos, T, T, acos##S(a))                                                            \
    UNARY(n##_arctan, T, T, atan##S(a))                                                            \
    UNARY(n##_sinh, T, T, sinh##S(a))                                                              \
    UNARY(n##_cosh, T, T, cosh##S(a))                                                              \
    UNARY(n##_arcsinh, T, T, asinh##S(a))                                                          \
    UNARY(n##_arccosh, T, T, acosh##S(a))                                                          \
    UNARY(n##_arctanh, T, T, atanh##S(a))                                                          \
    UNARY(n##_positive, T, T, a)                                                                   \
    UNARY(n##_fraction, T, T, copysign##S(isinf(a) ? (T)0 : a - trunc##S(a), a))                   \
    UNARY(n##_sinc, T, T, a == 0 ? (T)1 : sin##S((T)M_PI * a) / ((T)M_PI * a))                     \
    UNARY(n##_isnan, T, uint8_t, a != a)                                                           \
    UNARY(n##_isinf, T, uint8_t, isinf(a) != 0)                                                    \
    UNARY(n##_isfinite, T, uint8_t, isfinite(a) != 0)                                              \
    UNARY(n##_signbit, T, uint8_t, signbit(a) != 0)                                                \
    UNARY(n##_not, T, uint8_t, a == 0)

WHOLE(u8, uint8_t, uint32_t, a, (uint8_t)(a != 0))
WHOLE(i32, int32_t, uint32_t, (int32_t)(a < 0 ? 0 - (uint32_t)a : (uint32_t)a), (a > 0) - (a < 0))
WHOLE(i64, int64_t, uint64_t, (int64_t)(a < 0 ? 0 - (uint64_t)a : (uint64_t)a), (a > 0) - (a < 0))
WHOLE(u64, uint64_t, uint64_t, a, a != 0)
REAL(f32, float, f, _short)
VECTOR(f32_tanh, float, np_tanh_is_near(a), np_tanh(a), tanhf((float)a))
UNARY(f64_tanh, double, double, tanh(a))
REAL(f64, double, , )
UNARY(bool_not, uint8_t, uint8_t, a == 0)
UNARY(bool_same, uint8_t, uint8_t, a)

#define EVERY_TYPE(name, of_bool)                                                                  \
    {                                                                                              \
        of_bool, u8_##name, i32_##name, i64_##name, u64_##name, f32_##name, f64_##name             \
    }
#define REAL_TYPES(name)                                                                           \
    {                                                                                              \
        [NP_F32] = f32_##name, [NP_F64] = f64_##name                                               \
    }

static np_loop *const loops[NP_UNARIES][NP_TYPES] = {
    [NP_NEGATIVE] = EVERY_TYPE(negative, NULL),
    [NP_ABSOLUTE] = EVERY_TYPE(absolute, bool_same),
    [NP_SIGN] = EVERY_TYPE(sign, NULL),
    [NP_SQUARE] = EVERY_TYPE(square, NULL),
    [NP_INVERT] = {bool_not, u8_invert, i32_invert, i64_invert, u64_invert, NULL, NULL},
    [NP_POSITIVE] = EVERY_TYPE(positive, NULL),
    [NP_RINT] = REAL_TYPES(rint),
    [NP_FLOOR] = REAL_TYPES(floor),
    [NP_CEIL] = REAL_TYPES(ceil),
    [NP_TRUNC] = REAL_TYPES(trunc),
    [NP_RECIPROCAL] = EVERY_TYPE(reciprocal, NULL),
    [NP_SQRT] = REAL_TYPES(sqrt),
    [NP_CBRT] = REAL_TYPES(cbrt),
    [NP_EXP] = REAL_TYPES(exp),
    [NP_EXP2] = REAL_TYPES(exp2),
    [NP_EXPM1] = REAL_TYPES(expm1),
    [NP_LOG] = REAL_TYPES(log),
    [NP_LOG2] = REAL_TYPES(log2),
    [NP_LOG10] = REAL_TYPES(log10),
    [NP_LOG1P] = REAL_TYPES(log1p),
    [NP_SIN] = REAL_TYPES(sin),
    [NP_COS] = REAL_TYPES(cos),
    [NP_TAN] = REAL_TYPES(tan),
    [NP_ARCSIN] = REAL_TYPES(arcsin),
    [NP_ARCCOS] = REAL_TYPES(arccos),
    [NP_ARCTAN] = REAL_TYPES(arctan),
    [NP_SINH] = REAL_TYPES(sinh),
    [NP_COSH] = REAL_TYPES(cosh),
    [NP_TANH] = REAL_TYPES(tanh),
    [NP_ARCSINH] = REAL_TYPES(arcsinh),
    [NP_ARCCOSH] = REAL_TYPES(arccosh),
    [NP_ARCTANH] = REAL_TYPES(arctanh),
    [NP_FABS] = REAL_TYPES(absolute),
    [NP_FRACTION] = REAL_TYPES(fraction),
    [NP_SINC] = REAL_TYPES(sinc),
    [NP_ISNAN] = REAL_TYPES(isnan),
    [NP_ISINF] = REAL_TYPES(isinf),
    [NP_ISFINITE] = REAL_TYPES(isfinite),
    [NP_SIGNBIT] = REAL_TYPES(signbit),
    [NP_LOGICAL_NOT] = EVERY_TYPE(not, bool_not),
};

np_loop *NP_COMPILED(dev_np_unary)(enum np_unary function, enum np_type type)
{
    return loops[function][type];
}
