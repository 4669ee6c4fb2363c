// walle.np: the loops behind element-wise functions, by function and type.
#ifndef DEV_NP_LOOPS_H
#define DEV_NP_LOOPS_H

#include "vm/np/np.h"

// Of two operands.
enum np_binary {
    NP_ADD,
    NP_SUBTRACT,
    NP_MULTIPLY,
    NP_DIVIDE,
    NP_FLOOR_DIVIDE,
    NP_REMAINDER,
    NP_POWER,
    NP_MINIMUM,
    NP_MAXIMUM,
    NP_FMIN,
    NP_FMAX,
    NP_FMOD,
    NP_BIT_AND,
    NP_BIT_OR,
    NP_BIT_XOR,
    NP_SHIFT_LEFT,
    NP_SHIFT_RIGHT,
    NP_ARCTAN2,
    NP_HYPOT,
    NP_COPYSIGN,
    NP_LOGADDEXP,
    NP_LOGADDEXP2,
    NP_LDEXP,       // the second operand is whole, and given as the first's type
    NP_FLOAT_POWER, // in float64
    NP_EQUAL,       // from here on the result is bool
    NP_NOT_EQUAL,
    NP_LESS,
    NP_LESS_EQUAL,
    NP_GREATER,
    NP_GREATER_EQUAL,
    NP_LOGICAL_AND,
    NP_LOGICAL_OR,
    NP_LOGICAL_XOR,
    NP_BINARIES
};

// Of one operand.
enum np_unary {
    NP_NEGATIVE,
    NP_ABSOLUTE,
    NP_SIGN,
    NP_SQUARE,
    NP_INVERT,
    NP_POSITIVE,
    NP_RINT, // from here on of reals
    NP_FLOOR,
    NP_CEIL,
    NP_TRUNC,
    NP_RECIPROCAL,
    NP_SQRT,
    NP_CBRT,
    NP_EXP,
    NP_EXP2,
    NP_EXPM1,
    NP_LOG,
    NP_LOG2,
    NP_LOG10,
    NP_LOG1P,
    NP_SIN,
    NP_COS,
    NP_TAN,
    NP_ARCSIN,
    NP_ARCCOS,
    NP_ARCTAN,
    NP_SINH,
    NP_COSH,
    NP_TANH,
    NP_ARCSINH,
    NP_ARCCOSH,
    NP_ARCTANH,
    NP_FABS,
    NP_FRACTION, // what trunc cuts off
    NP_SINC,     // whole numbers in float64
    NP_ISNAN,    // from here on the result is bool
    NP_ISINF,
    NP_ISFINITE,
    NP_SIGNBIT,
    NP_LOGICAL_NOT, // of every type
    NP_UNARIES
};

// at[0] is the result, at[1] and at[2] the operands, all of `type` (the result of a comparison is
// bool). at[0] may be at[1]: a function of two then folds into it. NULL: not of this type.
np_loop *dev_np_binary_loop(enum np_binary function, enum np_type type);
np_loop *dev_np_unary_loop(enum np_unary function, enum np_type type);
// at[0] becomes at[1] where at[2], a bool, is true. Never NULL.
np_loop *dev_np_choose_loop(enum np_type type);

// --- by what the processor has (np_wide.c chooses)
np_loop *dev_np_binary_plain(enum np_binary function, enum np_type type);
np_loop *dev_np_binary_wide(enum np_binary function, enum np_type type);
np_loop *dev_np_unary_plain(enum np_unary function, enum np_type type);
np_loop *dev_np_unary_wide(enum np_unary function, enum np_type type);
np_loop *dev_np_unary_wider(enum np_unary function, enum np_type type); // AVX-512
np_loop *dev_np_choose_plain(enum np_type type);
np_loop *dev_np_choose_wide(enum np_type type);
np_loop *dev_np_casting_plain(enum np_type to, enum np_type from); // of dev_np_cast_loop
np_loop *dev_np_casting_wide(enum np_type to, enum np_type from);

#endif
