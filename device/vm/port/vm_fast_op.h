// Operators of two numbers or names, as the interpreter's loop does them without a call
// (patch_speed.py puts this into py/vm.c). What is not done here gives MP_OBJ_NULL, and nothing was
// counted; what is, comes to the same and is counted the same as in mp_binary_op. Included where
// MicroPython's own headers were.
#ifndef DEV_VM_FAST_OP_H
#define DEV_VM_FAST_OP_H

#include "py/runtime.h"
#include "py/smallint.h"

// As py/objfloat.c lays it out.
struct dev_fast_float {
    mp_obj_base_t base;
    mp_float_t value;
};

// What is counted here is counted as of any comparison.
static inline mp_obj_t dev_fast_compare(unsigned op, mp_int_t left, mp_int_t right)
{
    switch (op) {
    case MP_BINARY_OP_LESS:
        return mp_obj_new_bool(left < right);
    case MP_BINARY_OP_MORE:
        return mp_obj_new_bool(left > right);
    case MP_BINARY_OP_LESS_EQUAL:
        return mp_obj_new_bool(left <= right);
    case MP_BINARY_OP_MORE_EQUAL:
        return mp_obj_new_bool(left >= right);
    case MP_BINARY_OP_EQUAL:
        dev_vm_step();
        return mp_obj_new_bool(left == right);
    case MP_BINARY_OP_NOT_EQUAL:
        dev_vm_step();
        return mp_obj_new_bool(left != right);
    default:
        return MP_OBJ_NULL;
    }
}

// Two small whole numbers.
static inline mp_obj_t dev_fast_ints(unsigned op, mp_int_t left, mp_int_t right)
{
    mp_int_t value = 0;
    // Division rounds down, and by the processor's short one where it can.
    bool is_short = left >= 0 && right > 0 && (uint64_t)(left | right) >> 32 == 0;
    switch (op) {
    case MP_BINARY_OP_ADD:
    case MP_BINARY_OP_INPLACE_ADD:
        value = left + right;
        break;
    case MP_BINARY_OP_SUBTRACT:
    case MP_BINARY_OP_INPLACE_SUBTRACT:
        value = left - right;
        break;
    case MP_BINARY_OP_MULTIPLY:
    case MP_BINARY_OP_INPLACE_MULTIPLY:
        if (__builtin_mul_overflow(left, right, &value)) {
            return MP_OBJ_NULL;
        }
        break;
    case MP_BINARY_OP_FLOOR_DIVIDE:
    case MP_BINARY_OP_INPLACE_FLOOR_DIVIDE:
        return is_short ? MP_OBJ_NEW_SMALL_INT((uint32_t)left / (uint32_t)right) : MP_OBJ_NULL;
    case MP_BINARY_OP_MODULO:
    case MP_BINARY_OP_INPLACE_MODULO:
        return is_short ? MP_OBJ_NEW_SMALL_INT((uint32_t)left % (uint32_t)right) : MP_OBJ_NULL;
    case MP_BINARY_OP_AND:
    case MP_BINARY_OP_INPLACE_AND:
        return MP_OBJ_NEW_SMALL_INT(left & right);
    case MP_BINARY_OP_RSHIFT:
    case MP_BINARY_OP_INPLACE_RSHIFT:
        return (mp_uint_t)right < 63 ? MP_OBJ_NEW_SMALL_INT(left >> right) : MP_OBJ_NULL;
    default:
        return dev_fast_compare(op, left, right);
    }
    return MP_SMALL_INT_FITS(value) ? MP_OBJ_NEW_SMALL_INT(value) : MP_OBJ_NULL;
}

static inline bool dev_fast_double(mp_obj_t from, mp_float_t *out)
{
    if (mp_obj_is_small_int(from)) {
        *out = (mp_float_t)MP_OBJ_SMALL_INT_VALUE(from);
        return true;
    }
    if (!mp_obj_is_exact_type(from, &mp_type_float)) {
        return false;
    }
    *out = ((const struct dev_fast_float *)MP_OBJ_TO_PTR(from))->value;
    return true;
}

static inline mp_obj_t dev_fast_floats(unsigned op, mp_float_t left, mp_float_t right)
{
    switch (op) {
    case MP_BINARY_OP_ADD:
    case MP_BINARY_OP_INPLACE_ADD:
        return mp_obj_new_float(left + right);
    case MP_BINARY_OP_SUBTRACT:
    case MP_BINARY_OP_INPLACE_SUBTRACT:
        return mp_obj_new_float(left - right);
    case MP_BINARY_OP_MULTIPLY:
    case MP_BINARY_OP_INPLACE_MULTIPLY:
        return mp_obj_new_float(left * right);
    case MP_BINARY_OP_TRUE_DIVIDE:
    case MP_BINARY_OP_INPLACE_TRUE_DIVIDE:
        return right != 0 ? mp_obj_new_float(left / right) : MP_OBJ_NULL;
    case MP_BINARY_OP_LESS:
        return mp_obj_new_bool(left < right);
    case MP_BINARY_OP_MORE:
        return mp_obj_new_bool(left > right);
    case MP_BINARY_OP_LESS_EQUAL:
        return mp_obj_new_bool(left <= right);
    case MP_BINARY_OP_MORE_EQUAL:
        return mp_obj_new_bool(left >= right);
    default:
        return MP_OBJ_NULL;
    }
}

static inline mp_obj_t dev_fast_binary(unsigned op, mp_obj_t left, mp_obj_t right)
{
    mp_float_t a = 0;
    mp_float_t b = 0;
    if (mp_obj_is_small_int(left) && mp_obj_is_small_int(right)) {
        return dev_fast_ints(op, MP_OBJ_SMALL_INT_VALUE(left), MP_OBJ_SMALL_INT_VALUE(right));
    }
    if (op == MP_BINARY_OP_IS) {
        return mp_obj_new_bool(left == right);
    }
    if (mp_obj_is_qstr(left) && mp_obj_is_qstr(right)) {
        return op == MP_BINARY_OP_EQUAL || op == MP_BINARY_OP_NOT_EQUAL
                   ? dev_fast_compare(op, (mp_int_t)left, (mp_int_t)right)
                   : MP_OBJ_NULL;
    }
    return dev_fast_double(left, &a) && dev_fast_double(right, &b) ? dev_fast_floats(op, a, b)
                                                                   : MP_OBJ_NULL;
}

#endif
