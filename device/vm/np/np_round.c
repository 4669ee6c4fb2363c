// Rounding to a number of digits, and functions of elements that give two results. What they are
// made of are the functions of np_math.h, so types, shapes and errors are as there. Called by
// scripts, on the VM's thread.
#include "vm/np/np_calls.h"
#include "vm/np/np_math.h"

#include <math.h>

static mp_obj_t put_out(mp_obj_t made, mp_obj_t out)
{
    if (out == mp_const_none) {
        return made;
    }
    const struct np_array *from = dev_np_of(made);
    dev_np_fill(dev_np_out(out, from->type, from), from);
    return out;
}

// Of whole numbers only digits before the point change: in float64, and back.
static mp_obj_t rounded(mp_obj_t a, mp_int_t decimals)
{
    const struct np_array *from = dev_np_of(a);
    bool is_whole = from->type != NP_BOOL && !dev_np_is_real(from->type);
    if (is_whole && decimals >= 0) {
        return dev_np_result(dev_np_cast(from, from->type));
    }
    if (decimals == 0) {
        return dev_np_unary(NP_RINT, a, MP_OBJ_NULL);
    }
    if (from->type == NP_BOOL) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: bool has no digits to round to"));
    }
    bool is_up = decimals > 0;
    mp_obj_t by = mp_obj_new_float(pow(10, fabs((double)decimals)));
    mp_obj_t made = dev_np_binary(is_up ? NP_MULTIPLY : NP_DIVIDE, a, by, MP_OBJ_NULL);
    made = dev_np_unary(NP_RINT, made, MP_OBJ_NULL);
    made = dev_np_binary(is_up ? NP_DIVIDE : NP_MULTIPLY, made, by, MP_OBJ_NULL);
    return is_whole ? dev_np_result(dev_np_of_type(made, from->type)) : made;
}

// around(a, decimals=0, out=None)
static mp_obj_t around(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, DECIMALS, OUT, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_decimals, MP_ARG_INT, {.u_int = 0}},
        {MP_QSTR_out, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    return put_out(rounded(values[A].u_obj, values[DECIMALS].u_int), values[OUT].u_obj);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_around_obj, 1, around);

// divmod(x1, x2): (x1 // x2, x1 % x2)
static mp_obj_t divmod(mp_obj_t left, mp_obj_t right)
{
    mp_obj_t made[] = {dev_np_binary(NP_FLOOR_DIVIDE, left, right, MP_OBJ_NULL),
                       dev_np_binary(NP_REMAINDER, left, right, MP_OBJ_NULL)};
    return mp_obj_new_tuple(2, made);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_divmod_obj, divmod);

// modf(x): (what is behind the point, what is before it)
static mp_obj_t modf_of(mp_obj_t value)
{
    mp_obj_t made[] = {dev_np_unary(NP_FRACTION, value, MP_OBJ_NULL),
                       dev_np_unary(NP_TRUNC, value, MP_OBJ_NULL)};
    return mp_obj_new_tuple(2, made);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_modf_obj, modf_of);
