// walle.np: functions of elements, as other files of the module use them.
#ifndef DEV_NP_MATH_H
#define DEV_NP_MATH_H

#include "vm/np/np_loops.h"

// A function of the module: its table holds constants of this type.
struct np_function {
    mp_obj_base_t base;
    uint8_t operands; // 1 or 2
    uint8_t which;    // enum np_unary or np_binary
};
extern const mp_obj_type_t dev_np_function_type;

// The function of operands that a script gave: arrays, numbers, lists. Into `out` where it is not
// MP_OBJ_NULL. Gives an array or, of no dimensions, a number. Raises TypeError and ValueError.
mp_obj_t dev_np_binary(enum np_binary function, mp_obj_t left, mp_obj_t right, mp_obj_t out);
mp_obj_t dev_np_unary(enum np_unary function, mp_obj_t value, mp_obj_t out);
// The array that a script said results go into; raises where they cannot.
struct np_array *dev_np_out(mp_obj_t out, enum np_type type, const struct np_array *shape);

// Slots of the array's type. MP_OBJ_NULL: not supported.
mp_obj_t dev_np_operator(mp_binary_op_t op, mp_obj_t left, mp_obj_t right);
mp_obj_t dev_np_unary_operator(mp_unary_op_t op, mp_obj_t self);

mp_obj_t dev_np_any(mp_obj_t values);                  // np_reduce.c
mp_obj_t dev_np_matmul(mp_obj_t left, mp_obj_t right); // np_linear.c

#endif
