// Types of elements: their names, what two of them are computed in, and conversions between them
// and the numbers of a script. Called by all of walle.np, on the VM's thread. Where NumPy has a
// type between two of ours (int16 for a uint8 and -1) the next larger one is taken.
#include "vm/np/np.h"

#include "vm/vm_nn.h"

#include "py/objint.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const struct {
    enum eng_dtype dtype;
    uint8_t bytes;
    qstr name;
} types[NP_TYPES] = {
    [NP_BOOL] = {ENG_BOOL, 1, MP_QSTR_bool},  [NP_U8] = {ENG_U8, 1, MP_QSTR_uint8},
    [NP_I32] = {ENG_I32, 4, MP_QSTR_int32},   [NP_I64] = {ENG_I64, 8, MP_QSTR_int64},
    [NP_U64] = {ENG_U64, 8, MP_QSTR_uint64},  [NP_F32] = {ENG_F32, 4, MP_QSTR_float32},
    [NP_F64] = {ENG_F64, 8, MP_QSTR_float64},
};

size_t dev_np_item(enum np_type type)
{
    return types[type].bytes;
}

const char *dev_np_type_name(enum np_type type)
{
    return qstr_str(types[type].name);
}

bool dev_np_is_real(enum np_type type)
{
    return type >= NP_F32;
}

enum eng_dtype dev_np_dtype(enum np_type type)
{
    return types[type].dtype;
}

enum np_type dev_np_type_of(enum eng_dtype dtype)
{
    uint32_t type = 0;
    while (type < NP_TYPES && types[type].dtype != dtype) {
        type++;
    }
    return (enum np_type)type;
}

enum np_type dev_np_type_parse(mp_obj_t dtype)
{
    if (dtype == MP_OBJ_FROM_PTR(&mp_type_float)) {
        return NP_F64;
    }
    if (dtype == MP_OBJ_FROM_PTR(&mp_type_int)) {
        return NP_I64;
    }
    if (dtype == MP_OBJ_FROM_PTR(&mp_type_bool)) {
        return NP_BOOL;
    }
    if (mp_obj_is_str(dtype)) {
        const char *name = mp_obj_str_get_str(dtype);
        for (uint32_t i = 0; i < NP_TYPES; i++) {
            if (strcmp(name, dev_np_type_name((enum np_type)i)) == 0) {
                return (enum np_type)i;
            }
        }
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.np: no data type '%s'"), name);
    }
    mp_raise_TypeError(MP_ERROR_TEXT("walle.np: a data type is a name, bool, int or float"));
}

// --- which type

enum np_type dev_np_promote(enum np_type left, enum np_type right)
{
    enum np_type low = left < right ? left : right;
    enum np_type high = left < right ? right : left;
    bool is_wide = low == NP_I32 || low == NP_I64 || low == NP_U64;
    if (high == NP_F32 && is_wide) {
        return NP_F64;
    }
    return high == NP_U64 && (low == NP_I32 || low == NP_I64) ? NP_F64 : high;
}

static bool is_u64(mp_obj_t value)
{
    return mp_obj_equal(mp_obj_new_int_from_ull((uint64_t)mp_obj_int_get_truncated(value)), value);
}

static bool is_i64(mp_obj_t value)
{
    return mp_obj_equal(mp_obj_new_int_from_ll((int64_t)mp_obj_int_get_truncated(value)), value);
}

enum np_type dev_np_number_type(mp_obj_t value)
{
    if (mp_obj_is_bool(value)) {
        return NP_BOOL;
    }
    if (mp_obj_is_exact_type(value, &mp_type_float)) {
        return NP_F64;
    }
    if (!mp_obj_is_int(value)) {
        return NP_TYPES;
    }
    if (mp_obj_is_small_int(value) || is_i64(value)) {
        return NP_I64;
    }
    if (is_u64(value)) {
        return NP_U64;
    }
    mp_raise_msg(&mp_type_OverflowError, MP_ERROR_TEXT("walle.np: an int of more than 64 bits"));
}

// bool, whole, real: the kind of a number gives way only to its own or a higher one.
static int kind_of(enum np_type type)
{
    return type == NP_BOOL ? 0 : type < NP_F32 ? 1 : 2;
}

static int64_t i64_at(const struct np_array *number)
{
    int64_t value = 0;
    if (number->type == NP_BOOL || number->type == NP_U8) {
        return *number->data;
    }
    if (number->type == NP_I32) {
        int32_t narrow;
        memcpy(&narrow, number->data, sizeof(narrow));
        return narrow;
    }
    memcpy(&value, number->data, sizeof(value));
    return value;
}

static double f64_at(const struct np_array *number)
{
    float narrow;
    double value;
    if (number->type == NP_F32) {
        memcpy(&narrow, number->data, sizeof(narrow));
        return (double)narrow;
    }
    memcpy(&value, number->data, sizeof(value));
    return value;
}

// An array of type `with` and a whole number of this value.
static enum np_type with_whole(enum np_type with, const struct np_array *number)
{
    int64_t value = i64_at(number);
    if (number->type == NP_U64 && value < 0) { // over the range of int64
        return dev_np_promote(with, NP_U64);
    }
    if (with == NP_F32) { // as wide as what holds 16 bits
        return value >= INT16_MIN && value <= UINT16_MAX ? NP_F32 : NP_F64;
    }
    if (value >= 0 && (value <= UINT8_MAX || with == NP_U64)) {
        return dev_np_promote(with, NP_U8);
    }
    return dev_np_promote(with, value >= INT32_MIN && value <= INT32_MAX ? NP_I32 : NP_I64);
}

static enum np_type with_number(enum np_type with, const struct np_array *number)
{
    if (kind_of(number->type) > kind_of(with)) {
        return dev_np_promote(with, number->type);
    }
    if (number->type == NP_BOOL || with == NP_F64) {
        return with;
    }
    if (kind_of(number->type) == 1) {
        return with_whole(with, number);
    }
    double value = f64_at(number);
    return isfinite(value) && fabs(value) > (double)FLT_MAX ? NP_F64 : with;
}

enum np_type dev_np_common(const struct np_array *left, const struct np_array *right)
{
    if (left->rank > 0 && right->rank == 0) {
        return with_number(left->type, right);
    }
    if (right->rank > 0 && left->rank == 0) {
        return with_number(right->type, left);
    }
    return dev_np_promote(left->type, right->type);
}

// --- numbers

mp_obj_t dev_np_get(enum np_type type, const void *at)
{
    return dev_vm_element_get(types[type].dtype, at);
}

void dev_np_set(enum np_type type, void *at, mp_obj_t value)
{
    if (!dev_np_is_real(type) && type != NP_BOOL && mp_obj_is_exact_type(value, &mp_type_float)) {
        mp_float_t real = mp_obj_get_float(value);
        if (isnan(real)) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: cannot convert float NaN to integer"));
        }
        value = mp_obj_new_int_from_float(real); // towards zero
    }
    dev_vm_element_set(types[type].dtype, at, value);
}
