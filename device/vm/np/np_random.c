// The module `walle.np.random`: what NumPy's functions of the same names draw after the same seed.
// Numbers are drawn in the order of the result's elements. Called by scripts through the module's
// table, on the VM's thread.
#include "vm/np/np_random.h"

#include "vm/np/np_calls.h"
#include "vm/np/np_draws.h"
#include "vm/np/np_math.h"

#include "py/objmodule.h"

#include <math.h>
#include <string.h>

// --- seed(seed=None)

static _Noreturn void raise_seed(void)
{
    mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: a seed is between 0 and 2**32 - 1"));
}

static void seeds_take(struct np_draws *draws, mp_obj_t object, const struct np_array *given)
{
    if (given->size == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: a seed must not be empty"));
    }
    if (given->rank > 1) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: a seed has one dimension"));
    }
    struct np_array *seeds = dev_np_new(NP_F32, 1, (int64_t[]){(int64_t)given->size});
    const struct np_array *wide = dev_np_cast(given, NP_I64);
    uint32_t *words = (uint32_t *)(void *)seeds->data;
    const int64_t *values = (const int64_t *)(const void *)wide->data;
    for (size_t i = 0; i < given->size; i++) {
        if (values[i] < 0 || values[i] > UINT32_MAX) {
            raise_seed();
        }
        words[i] = (uint32_t)values[i];
    }
    bool is_one = mp_obj_is_exact_type(object, &dev_np_array_type) && given->size == 1;
    if (given->rank == 0 || is_one) {
        dev_np_draws_seed(draws, words[0]);
    } else {
        dev_np_draws_seed_many(draws, words, given->size);
    }
}

static mp_obj_t seed(size_t count, const mp_obj_t *args)
{
    struct np_draws *draws = dev_np_draws_held();
    if (count == 0 || args[0] == mp_const_none) {
        draws->is_seeded = false;
        return mp_const_none;
    }
    const struct np_array *given = dev_np_of(args[0]);
    if (given->type == NP_U64 && given->rank == 0 && mp_obj_is_int(args[0])) {
        raise_seed();
    }
    if (given->type == NP_U64 || (dev_np_is_real(given->type) && given->size > 0)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np.random: a seed is of whole numbers"));
    }
    seeds_take(draws, args[0], given);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(seed_obj, 0, 1, seed);

// --- reals: at[0] is the result, at[1] where numbers begin, at[2] how far they reach

#define DRAW_LOOP(name, drawn)                                                                     \
    static void name(uint8_t *const *at, const int64_t *steps, size_t count)                       \
    {                                                                                              \
        struct np_draws *draws = dev_np_draws();                                                   \
        for (size_t i = 0; i < count; i++) {                                                       \
            int64_t index = (int64_t)i;                                                            \
            double from = *(const double *)(const void *)(at[1] + index * steps[1]);               \
            double by = *(const double *)(const void *)(at[2] + index * steps[2]);                 \
            *(double *)(void *)(at[0] + index * steps[0]) = drawn;                                 \
        }                                                                                          \
    }
DRAW_LOOP(uniform_loop, from + by * dev_np_draw_unit(draws))
DRAW_LOOP(normal_loop, from + by * dev_np_draw_normal(draws))
DRAW_LOOP(exponential_loop, from + by * -log(1.0 - dev_np_draw_unit(draws)))

struct np_array *dev_np_sized(enum np_type type, mp_obj_t size)
{
    int64_t dims[NP_RANK];
    return size == mp_const_none ? dev_np_new(type, 0, NULL)
                                 : dev_np_new(type, dev_np_shape(size, dims), dims);
}

static mp_obj_t drawn(np_loop *loop, mp_obj_t from_object, mp_obj_t by_object, mp_obj_t size)
{
    const struct np_array *from = dev_np_of_type(from_object, NP_F64);
    const struct np_array *by = dev_np_of_type(by_object, NP_F64);
    const struct np_array *both[] = {from, by};
    struct np_array shape;
    dev_np_broadcast_dims(both, 2, &shape);
    struct np_array *made = size == mp_const_none ? dev_np_new(NP_F64, shape.rank, shape.dims)
                                                  : dev_np_sized(NP_F64, size);
    struct np_array wide_from = dev_np_stretched(from, made->rank, made->dims);
    struct np_array wide_by = dev_np_stretched(by, made->rank, made->dims);
    const struct np_array *walked[] = {made, &wide_from, &wide_by};
    (void)dev_np_draws();
    dev_np_walk(walked, 3, loop);
    return dev_np_result(made);
}

// Between 0 and 1, or normal, of this size.
static mp_obj_t plain(np_loop *loop, mp_obj_t size)
{
    return drawn(loop, MP_OBJ_NEW_SMALL_INT(0), MP_OBJ_NEW_SMALL_INT(1), size);
}

// Sizes as arguments of their own; none: one number.
static mp_obj_t size_of(size_t count, const mp_obj_t *args)
{
    return count == 0 ? mp_const_none : mp_obj_new_tuple(count, args);
}

static mp_obj_t units(size_t count, const mp_obj_t *args)
{
    return plain(uniform_loop, size_of(count, args));
}
static MP_DEFINE_CONST_FUN_OBJ_VAR(units_obj, 0, units);

static mp_obj_t normals(size_t count, const mp_obj_t *args)
{
    return plain(normal_loop, size_of(count, args));
}
static MP_DEFINE_CONST_FUN_OBJ_VAR(normals_obj, 0, normals);

static mp_obj_t size_argument(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    static const mp_arg_t allowed[] = {{MP_QSTR_size, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}}};
    mp_arg_val_t value;
    mp_arg_parse_all(count, args, named, 1, allowed, &value);
    return value.u_obj;
}

static mp_obj_t random_sample(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return plain(uniform_loop, size_argument(count, args, named));
}
static MP_DEFINE_CONST_FUN_OBJ_KW(random_sample_obj, 0, random_sample);

static mp_obj_t standard_normal(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return plain(normal_loop, size_argument(count, args, named));
}
static MP_DEFINE_CONST_FUN_OBJ_KW(standard_normal_obj, 0, standard_normal);

static bool every(const struct np_array *values, bool (*is_good)(double value))
{
    const struct np_array *dense = dev_np_dense(values);
    const double *at = (const double *)(const void *)dense->data;
    dev_np_pay(dense->size);
    for (size_t i = 0; i < dense->size; i++) {
        if (!is_good(at[i])) {
            return false;
        }
    }
    return true;
}

static bool is_finite(double value)
{
    return isfinite(value) != 0;
}

static bool is_scale(double value)
{
    return isnan(value) || !signbit(value);
}

static mp_obj_t scale_of(mp_obj_t scale)
{
    const struct np_array *scales = dev_np_of_type(scale, NP_F64);
    if (!every(scales, is_scale)) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.random: scale < 0"));
    }
    return MP_OBJ_FROM_PTR(scales);
}

// uniform(low=0.0, high=1.0, size=None)
static mp_obj_t uniform(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { LOW, HIGH, SIZE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_low, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_high, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(1)}},
        {MP_QSTR_size, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    mp_obj_t low = MP_OBJ_FROM_PTR(dev_np_of_type(values[LOW].u_obj, NP_F64));
    mp_obj_t high = MP_OBJ_FROM_PTR(dev_np_of_type(values[HIGH].u_obj, NP_F64));
    mp_obj_t range = dev_np_binary(NP_SUBTRACT, high, low, MP_OBJ_NULL);
    if (!every(dev_np_of_type(range, NP_F64), is_finite)) {
        mp_raise_msg(&mp_type_OverflowError,
                     MP_ERROR_TEXT("walle.np.random: the range is not finite"));
    }
    return drawn(uniform_loop, low, range, values[SIZE].u_obj);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(uniform_obj, 0, uniform);

// normal(loc=0.0, scale=1.0, size=None)
static mp_obj_t normal(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { LOC, SCALE, SIZE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_loc, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_scale, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(1)}},
        {MP_QSTR_size, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    return drawn(normal_loop, values[LOC].u_obj, scale_of(values[SCALE].u_obj), values[SIZE].u_obj);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(normal_obj, 0, normal);

// exponential(scale=1.0, size=None)
static mp_obj_t exponential(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SCALE, SIZE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_scale, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(1)}},
        {MP_QSTR_size, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    return drawn(exponential_loop, MP_OBJ_NEW_SMALL_INT(0), scale_of(values[SCALE].u_obj),
                 values[SIZE].u_obj);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(exponential_obj, 0, exponential);

static const mp_rom_map_elem_t globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_random)},
    {MP_ROM_QSTR(MP_QSTR_choice), MP_ROM_PTR(&dev_np_choice_obj)},
    {MP_ROM_QSTR(MP_QSTR_exponential), MP_ROM_PTR(&exponential_obj)},
    {MP_ROM_QSTR(MP_QSTR_normal), MP_ROM_PTR(&normal_obj)},
    {MP_ROM_QSTR(MP_QSTR_permutation), MP_ROM_PTR(&dev_np_permutation_obj)},
    {MP_ROM_QSTR(MP_QSTR_rand), MP_ROM_PTR(&units_obj)},
    {MP_ROM_QSTR(MP_QSTR_randint), MP_ROM_PTR(&dev_np_randint_obj)},
    {MP_ROM_QSTR(MP_QSTR_randn), MP_ROM_PTR(&normals_obj)},
    {MP_ROM_QSTR(MP_QSTR_random), MP_ROM_PTR(&random_sample_obj)},
    {MP_ROM_QSTR(MP_QSTR_random_sample), MP_ROM_PTR(&random_sample_obj)},
    {MP_ROM_QSTR(MP_QSTR_seed), MP_ROM_PTR(&seed_obj)},
    {MP_ROM_QSTR(MP_QSTR_shuffle), MP_ROM_PTR(&dev_np_shuffle_obj)},
    {MP_ROM_QSTR(MP_QSTR_standard_normal), MP_ROM_PTR(&standard_normal_obj)},
    {MP_ROM_QSTR(MP_QSTR_uniform), MP_ROM_PTR(&uniform_obj)},
};
static MP_DEFINE_CONST_DICT(globals, globals_table);

const mp_obj_module_t dev_np_module_random = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&globals,
};
