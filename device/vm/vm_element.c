// Elements of tensors and the numbers they are in a script. Called by vm_tensor.c, and by vm_nn.c
// for the names of types, on the VM's thread. One element at a time, by type: whole numbers of up
// to 64 bits with a range check that raises, reals through the engine's own conversions. Types that
// scripts have no numbers of (strings, complex ones) have no name here, which is how the rest of
// walle.nn knows.
#include "vm/vm_nn.h"

#include "base/str.h"

#include "py/objint.h"
#include "py/runtime.h"

#include <math.h>
#include <string.h>

// By dtype; NULL: scripts have no numbers of it.
static const char *const names[ENG_DTYPE_COUNT] = {
    [ENG_F32] = "float32", [ENG_F64] = "float64", [ENG_F16] = "float16", [ENG_BF16] = "bfloat16",
    [ENG_I8] = "int8",     [ENG_I16] = "int16",   [ENG_I32] = "int32",   [ENG_I64] = "int64",
    [ENG_U8] = "uint8",    [ENG_U16] = "uint16",  [ENG_U32] = "uint32",  [ENG_U64] = "uint64",
    [ENG_BOOL] = "bool",
};

bool dev_vm_dtype_ok(enum eng_dtype dtype)
{
    return (unsigned)dtype < ENG_DTYPE_COUNT && names[dtype] != NULL;
}

const char *dev_vm_dtype_name(enum eng_dtype dtype)
{
    return dev_vm_dtype_ok(dtype) ? names[dtype] : eng_dtype_name(dtype);
}

enum eng_dtype dev_vm_dtype_parse(mp_obj_t name)
{
    size_t size;
    const char *text = mp_obj_str_get_data(name, &size);
    for (size_t i = 0; i < ENG_DTYPE_COUNT; i++) {
        if (names[i] != NULL &&
            base_str_equal(base_str_of(names[i]), (struct base_str){text, size})) {
            return (enum eng_dtype)i;
        }
    }
    mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.nn: no type \"%s\""), text);
}

enum eng_dtype dev_vm_dtype_of_code(char typecode)
{
    _Static_assert(sizeof(long) == 8 && sizeof(int) == 4, "arrays hold these");
    switch (typecode) {
    case 'b':
        return ENG_I8;
    case 'B':
        return ENG_U8;
    case 'h':
        return ENG_I16;
    case 'H':
        return ENG_U16;
    case 'i':
        return ENG_I32;
    case 'I':
        return ENG_U32;
    case 'l':
    case 'q':
        return ENG_I64;
    case 'L':
    case 'Q':
        return ENG_U64;
    case 'f':
        return ENG_F32;
    case 'd':
        return ENG_F64;
    default:
        return ENG_UNDEFINED;
    }
}

bool dev_vm_is_number(mp_obj_t value)
{
    return mp_obj_is_int(value) || mp_obj_is_bool(value) ||
           mp_obj_is_exact_type(value, &mp_type_float);
}

// --- writing

static _Noreturn void raise_type(enum eng_dtype dtype, mp_obj_t value)
{
    mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.nn: %s of a %s"), names[dtype],
                      mp_obj_get_type_str(value));
}

static _Noreturn void raise_range(enum eng_dtype dtype)
{
    mp_raise_msg_varg(&mp_type_OverflowError, MP_ERROR_TEXT("walle.nn: out of the range of %s"),
                      names[dtype]);
}

// The bits of a whole number that fits 64 of them, with or without sign.
static uint64_t whole_of(enum eng_dtype dtype, mp_obj_t value, bool is_signed)
{
    if (mp_obj_is_bool(value)) {
        return value == mp_const_true;
    }
    if (!mp_obj_is_int(value)) {
        raise_type(dtype, value);
    }
    uint64_t bits = (uint64_t)mp_obj_int_get_truncated(value);
    if (mp_obj_is_small_int(value)) {
        if (!is_signed && (int64_t)bits < 0) {
            raise_range(dtype);
        }
        return bits;
    }
    mp_obj_t same =
        is_signed ? mp_obj_new_int_from_ll((int64_t)bits) : mp_obj_new_int_from_ull(bits);
    if (!mp_obj_equal(same, value)) {
        raise_range(dtype);
    }
    return bits;
}

static void real_set(enum eng_dtype dtype, void *at, mp_obj_t value)
{
    if (!dev_vm_is_number(value)) {
        raise_type(dtype, value);
    }
    double real = mp_obj_get_float(value);
    float single = (float)real;
    uint16_t half = 0;
    switch (dtype) {
    case ENG_F64:
        memcpy(at, &real, sizeof(real));
        return;
    case ENG_F16:
        half = eng_f16_from_f32(single);
        memcpy(at, &half, sizeof(half));
        return;
    case ENG_BF16:
        half = eng_bf16_from_f32(single);
        memcpy(at, &half, sizeof(half));
        return;
    default:
        memcpy(at, &single, sizeof(single));
        return;
    }
}

// Little-endian: the low bytes of a number come first.
static void whole_set(enum eng_dtype dtype, void *at, mp_obj_t value)
{
    size_t bytes = eng_dtype_bytes(dtype);
    bool is_signed = dtype == ENG_I8 || dtype == ENG_I16 || dtype == ENG_I32 || dtype == ENG_I64;
    uint64_t number = whole_of(dtype, value, is_signed);
    if (bytes < sizeof(number)) {
        int64_t high = (int64_t)(UINT64_MAX >> (64 - 8 * bytes + (is_signed ? 1 : 0)));
        int64_t low = is_signed ? -high - 1 : 0;
        if ((int64_t)number < low || (int64_t)number > high) {
            raise_range(dtype);
        }
    }
    memcpy(at, &number, bytes);
}

void dev_vm_element_set(enum eng_dtype dtype, void *at, mp_obj_t value)
{
    switch (dtype) {
    case ENG_F32:
    case ENG_F64:
    case ENG_F16:
    case ENG_BF16:
        real_set(dtype, at, value);
        return;
    case ENG_BOOL:
        if (!dev_vm_is_number(value)) {
            raise_type(dtype, value);
        }
        *(uint8_t *)at = mp_obj_is_true(value) ? 1 : 0;
        return;
    default:
        whole_set(dtype, at, value);
        return;
    }
}

// --- reading

static double real_get(enum eng_dtype dtype, const void *at)
{
    double real = 0;
    float single = 0;
    uint16_t half = 0;
    switch (dtype) {
    case ENG_F64:
        memcpy(&real, at, sizeof(real));
        return real;
    case ENG_F16:
        memcpy(&half, at, sizeof(half));
        return (double)eng_f16_to_f32(half);
    case ENG_BF16:
        memcpy(&half, at, sizeof(half));
        return (double)eng_bf16_to_f32(half);
    default:
        memcpy(&single, at, sizeof(single));
        return (double)single;
    }
}

static int64_t signed_get(enum eng_dtype dtype, const void *at)
{
    int8_t i8 = 0;
    int16_t i16 = 0;
    int32_t i32 = 0;
    int64_t i64 = 0;
    switch (dtype) {
    case ENG_I8:
        memcpy(&i8, at, sizeof(i8));
        return i8;
    case ENG_I16:
        memcpy(&i16, at, sizeof(i16));
        return i16;
    case ENG_I32:
        memcpy(&i32, at, sizeof(i32));
        return i32;
    default:
        memcpy(&i64, at, sizeof(i64));
        return i64;
    }
}

static uint64_t unsigned_get(enum eng_dtype dtype, const void *at)
{
    uint64_t number = 0;
    memcpy(&number, at, eng_dtype_bytes(dtype));
    return number;
}

enum number_kind { NUMBER_REAL, NUMBER_SIGNED, NUMBER_UNSIGNED };

static enum number_kind kind_of(enum eng_dtype dtype)
{
    switch (dtype) {
    case ENG_F32:
    case ENG_F64:
    case ENG_F16:
    case ENG_BF16:
        return NUMBER_REAL;
    case ENG_I8:
    case ENG_I16:
    case ENG_I32:
    case ENG_I64:
        return NUMBER_SIGNED;
    default:
        return NUMBER_UNSIGNED;
    }
}

bool dev_vm_dtype_is_whole(enum eng_dtype dtype)
{
    return kind_of(dtype) != NUMBER_REAL && dtype != ENG_BOOL;
}

mp_obj_t dev_vm_element_get(enum eng_dtype dtype, const void *at)
{
    switch (kind_of(dtype)) {
    case NUMBER_REAL:
        return mp_obj_new_float(real_get(dtype, at));
    case NUMBER_SIGNED:
        return mp_obj_new_int_from_ll(signed_get(dtype, at));
    default:
        break;
    }
    if (dtype == ENG_BOOL) {
        return mp_obj_new_bool(*(const uint8_t *)at != 0);
    }
    return mp_obj_new_int_from_ull(unsigned_get(dtype, at));
}

// Whether the element at `a` is larger than the one at `b`.
static bool is_larger(enum eng_dtype dtype, const uint8_t *a, const uint8_t *b)
{
    switch (kind_of(dtype)) {
    case NUMBER_REAL: {
        double x = real_get(dtype, a);
        double y = real_get(dtype, b);
        return x > y || (isnan(x) && !isnan(y));
    }
    case NUMBER_SIGNED:
        return signed_get(dtype, a) > signed_get(dtype, b);
    default:
        return unsigned_get(dtype, a) > unsigned_get(dtype, b);
    }
}

size_t dev_vm_element_largest(enum eng_dtype dtype, const void *data, size_t count)
{
    size_t bytes = eng_dtype_bytes(dtype);
    const uint8_t *elements = data;
    size_t largest = 0;
    for (size_t i = 1; i < count; i++) {
        if (is_larger(dtype, elements + i * bytes, elements + largest * bytes)) {
            largest = i;
        }
    }
    return largest;
}
