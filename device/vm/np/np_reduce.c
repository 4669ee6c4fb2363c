// Reductions: of all elements or along dimensions. Arguments, defaults, types of results and what
// an empty array gives are NumPy's. Called by scripts, as functions of the module and as methods,
// on the VM's thread.
#include "vm/np/np_fold.h"

#include "vm/np/np_calls.h"
#include "vm/np/np_lanes.h"
#include "vm/np/np_math.h"

#include <float.h>
#include <math.h>
#include <string.h>

uint32_t dev_np_axes(mp_obj_t axis, uint32_t rank)
{
    if (axis == mp_const_none) {
        return (1U << rank) - 1;
    }
    size_t count = 1;
    mp_obj_t *items = &axis;
    if (!mp_obj_is_int(axis)) {
        mp_obj_get_array(axis, &count, &items);
    }
    uint32_t axes = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bit = 1U << dev_np_axis(mp_obj_get_int(items[i]), rank);
        if ((axes & bit) != 0) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: duplicate value in axis"));
        }
        axes |= bit;
    }
    return axes;
}

// What a fold begins with.
static void begin(enum np_fold fold, struct np_array *to)
{
    bool is_high = fold == NP_LEAST || fold == NP_LEAST_NUMBER;
    bool is_extreme = fold >= NP_LEAST && fold <= NP_LARGEST_NUMBER;
    union {
        uint8_t u8;
        int32_t i32;
        int64_t i64;
        uint64_t u64;
        float f32;
        double f64;
    } value = {.u64 = 0};
    if (fold == NP_PRODUCT || fold == NP_ALL) {
        dev_np_set(to->type, &value, MP_OBJ_NEW_SMALL_INT(1));
    } else if (dev_np_is_real(to->type) && is_extreme && fold >= NP_LEAST_NUMBER) {
        dev_np_set(to->type, &value, mp_obj_new_float((mp_float_t)NAN));
    } else if (is_extreme) {
        switch (to->type) {
        case NP_I32:
            value.i32 = is_high ? INT32_MAX : INT32_MIN;
            break;
        case NP_I64:
            value.i64 = is_high ? INT64_MAX : INT64_MIN;
            break;
        case NP_F32:
            value.f32 = is_high ? INFINITY : -INFINITY;
            break;
        case NP_F64:
            value.f64 = is_high ? (double)INFINITY : -(double)INFINITY;
            break;
        default: // unsigned
            value.u64 = !is_high ? 0 : to->type == NP_BOOL ? 1 : UINT64_MAX;
            break;
        }
    } else {
        return; // zeros, as it was made
    }
    struct np_array one = {.type = to->type, .size = 1, .data = (uint8_t *)&value};
    dev_np_fill(to, &one);
}

struct np_array *dev_np_reduce(enum np_fold fold, const struct np_array *from, uint32_t axes)
{
    int64_t dims[NP_RANK];
    size_t folded = 1;
    for (uint32_t d = 0; d < from->rank; d++) {
        bool is_folded = (axes >> d & 1) != 0;
        dims[d] = is_folded ? 1 : from->dims[d];
        folded *= is_folded ? (size_t)from->dims[d] : 1;
    }
    if (folded == 0 && fold >= NP_LEAST && fold <= NP_LARGEST_NUMBER) {
        return NULL;
    }
    struct np_array *made = dev_np_new(dev_np_fold_type(fold, from->type), from->rank, dims);
    begin(fold, made);
    struct np_array wide = dev_np_stretched(made, from->rank, from->dims);
    const struct np_array *walked[] = {&wide, from};
    if (from->size > 0) {
        dev_np_walk(walked, 2, dev_np_fold_loop(fold, from->type));
    }
    return made;
}

mp_obj_t dev_np_folding_given(const struct np_folding *folding, struct np_array *made)
{
    if (!folding->keeps) {
        uint32_t rank = 0;
        for (uint32_t d = 0; d < folding->from->rank; d++) {
            if ((folding->axes >> d & 1) == 0) {
                made->dims[rank] = made->dims[d];
                made->steps[rank++] = made->steps[d];
            }
        }
        made->rank = rank;
    }
    return dev_np_result(made);
}

static void no_out(mp_obj_t out)
{
    if (out != mp_const_none) {
        mp_raise_NotImplementedError(MP_ERROR_TEXT("walle.np: out is not supported here"));
    }
}

// (a, axis=None, dtype=None, out=None, keepdims=False)
struct np_folding dev_np_folding_typed(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, AXIS, DTYPE, OUT, KEEPDIMS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_out, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_keepdims, MP_ARG_BOOL, {.u_bool = false}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    no_out(values[OUT].u_obj);
    struct np_folding folding = {.keeps = values[KEEPDIMS].u_bool};
    folding.from = dev_np_of(values[A].u_obj);
    if (values[DTYPE].u_obj != mp_const_none) {
        folding.from =
            dev_np_of_type(MP_OBJ_FROM_PTR(folding.from), dev_np_type_parse(values[DTYPE].u_obj));
    }
    folding.axes = dev_np_axes(values[AXIS].u_obj, folding.from->rank);
    return folding;
}

// (a, axis=None, out=None, keepdims=False)
struct np_folding dev_np_folding_plain(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, AXIS, OUT, KEEPDIMS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_out, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_keepdims, MP_ARG_BOOL, {.u_bool = false}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    no_out(values[OUT].u_obj);
    struct np_folding folding = {.keeps = values[KEEPDIMS].u_bool};
    folding.from = dev_np_of(values[A].u_obj);
    folding.axes = dev_np_axes(values[AXIS].u_obj, folding.from->rank);
    return folding;
}

mp_obj_t dev_np_folded(const struct np_folding *folding, enum np_fold fold)
{
    struct np_array *made = dev_np_reduce(fold, folding->from, folding->axes);
    if (made == NULL) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: no elements have no minimum and no maximum"));
    }
    return dev_np_folding_given(folding, made);
}

#define FOLD_FUNCTION(name, arguments, fold)                                                       \
    static mp_obj_t name(size_t count, const mp_obj_t *args, mp_map_t *named)                      \
    {                                                                                              \
        struct np_folding folding = arguments(count, args, named);                                 \
        return dev_np_folded(&folding, fold);                                                      \
    }                                                                                              \
    MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_##name##_obj, 1, name)

FOLD_FUNCTION(sum, dev_np_folding_typed, NP_SUM);
FOLD_FUNCTION(prod, dev_np_folding_typed, NP_PRODUCT);
FOLD_FUNCTION(min, dev_np_folding_plain, NP_LEAST);
FOLD_FUNCTION(max, dev_np_folding_plain, NP_LARGEST);
FOLD_FUNCTION(any, dev_np_folding_plain, NP_ANY);
FOLD_FUNCTION(all, dev_np_folding_plain, NP_ALL);

mp_obj_t dev_np_any(mp_obj_t values)
{
    const struct np_array *from = dev_np_of(values);
    struct np_array *made = dev_np_reduce(NP_ANY, from, dev_np_axes(mp_const_none, from->rank));
    return dev_np_get(NP_BOOL, made->data);
}

// --- mean and what is made of it

double dev_np_folded_count(const struct np_array *from, uint32_t axes)
{
    double made = 1;
    for (uint32_t d = 0; d < from->rank; d++) {
        made *= (axes >> d & 1) != 0 ? (double)from->dims[d] : 1;
    }
    return made;
}

// made /= by, in place: reals that were made here
static void divide(struct np_array *made, double by)
{
    struct np_array number = {.type = NP_F64, .size = 1, .data = (uint8_t *)&by};
    struct np_array *narrow = dev_np_cast(&number, made->type);
    struct np_array wide = dev_np_stretched(narrow, made->rank, made->dims);
    const struct np_array *walked[] = {made, made, &wide};
    dev_np_walk(walked, 3, dev_np_binary_loop(NP_DIVIDE, made->type));
}

struct np_array *dev_np_mean_of(const struct np_array *from, uint32_t axes)
{
    struct np_array *made = dev_np_reduce(NP_REAL_SUM, from, axes);
    divide(made, dev_np_folded_count(from, axes));
    return made;
}

static mp_obj_t mean(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct np_folding folding = dev_np_folding_typed(count, args, named);
    return dev_np_folding_given(&folding, dev_np_mean_of(folding.from, folding.axes));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_mean_obj, 1, mean);

// The mean of the squares of the differences from the mean.
struct np_array *dev_np_variance_of(const struct np_array *from, uint32_t axes, double ddof)
{
    struct np_array *mean = dev_np_mean_of(from, axes);
    if (from->type != mean->type) {
        from = dev_np_cast(from, mean->type);
    }
    struct np_array *apart = dev_np_room(mean->type, from->rank, from->dims);
    struct np_array wide = dev_np_stretched(mean, from->rank, from->dims);
    const struct np_array *subtracted[] = {apart, from, &wide};
    dev_np_walk(subtracted, 3, dev_np_binary_loop(NP_SUBTRACT, mean->type));
    const struct np_array *squared[] = {apart, apart};
    dev_np_walk(squared, 2, dev_np_unary_loop(NP_SQUARE, mean->type));
    struct np_array *made = dev_np_reduce(NP_SUM, apart, axes);
    divide(made, fmax(dev_np_folded_count(from, axes) - ddof, 0));
    return made;
}

struct np_folding dev_np_folding_spread(size_t count, const mp_obj_t *args, mp_map_t *named,
                                        double *out_ddof)
{
    enum { A, AXIS, DTYPE, OUT, DDOF, KEEPDIMS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_out, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_ddof, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_keepdims, MP_ARG_BOOL, {.u_bool = false}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    no_out(values[OUT].u_obj);
    struct np_folding folding = {.keeps = values[KEEPDIMS].u_bool};
    folding.from = dev_np_of(values[A].u_obj);
    if (values[DTYPE].u_obj != mp_const_none) {
        folding.from =
            dev_np_of_type(MP_OBJ_FROM_PTR(folding.from), dev_np_type_parse(values[DTYPE].u_obj));
    }
    folding.axes = dev_np_axes(values[AXIS].u_obj, folding.from->rank);
    *out_ddof = mp_obj_get_float(values[DDOF].u_obj);
    return folding;
}

static mp_obj_t spread(size_t count, const mp_obj_t *args, mp_map_t *named, bool is_root)
{
    double ddof;
    struct np_folding folding = dev_np_folding_spread(count, args, named, &ddof);
    struct np_array *made = dev_np_variance_of(folding.from, folding.axes, ddof);
    if (is_root) {
        const struct np_array *walked[] = {made, made};
        dev_np_walk(walked, 2, dev_np_unary_loop(NP_SQRT, made->type));
    }
    return dev_np_folding_given(&folding, made);
}

static mp_obj_t var(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return spread(count, args, named, false);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_var_obj, 1, var);

static mp_obj_t std(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return spread(count, args, named, true);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_std_obj, 1, std);

// ptp(a, axis=None, out=None, keepdims=False): from the least to the largest
static mp_obj_t ptp(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct np_folding folding = dev_np_folding_plain(count, args, named);
    mp_obj_t largest = dev_np_folded(&folding, NP_LARGEST);
    return dev_np_binary(NP_SUBTRACT, largest, dev_np_folded(&folding, NP_LEAST), MP_OBJ_NULL);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_ptp_obj, 1, ptp);

// count_nonzero(a, axis=None, keepdims=False)
static mp_obj_t count_nonzero(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, AXIS, KEEPDIMS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_keepdims, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = false}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct np_folding folding = {.from = dev_np_of_type(values[A].u_obj, NP_BOOL),
                                 .keeps = values[KEEPDIMS].u_bool};
    folding.axes = dev_np_axes(values[AXIS].u_obj, folding.from->rank);
    return dev_np_folded(&folding, NP_SUM);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_count_nonzero_obj, 1, count_nonzero);

// --- where the least and the largest are

struct placing {
    np_place *place;
    size_t length;
};

static void place_each(const struct np_lane *lane)
{
    const struct placing *placing = lane->ctx;
    int64_t place = (int64_t)placing->place(lane->at[1], lane->steps[1], placing->length);
    memcpy(lane->at[0], &place, sizeof(place));
}

mp_obj_t dev_np_folded_places(const struct np_folding *folding, bool is_largest)
{
    const struct np_array *from = folding->from;
    bool is_flat = folding->axes == (1U << from->rank) - 1 && from->rank != 1;
    uint32_t axis = 0;
    if (is_flat) {
        struct np_array *flat = dev_np_view(dev_np_dense(from));
        flat->rank = 1;
        flat->dims[0] = (int64_t)flat->size;
        flat->steps[0] = (int64_t)dev_np_item(flat->type);
        from = flat;
    } else {
        while ((folding->axes >> axis & 1) == 0) {
            axis++;
        }
    }
    if (from->dims[axis] == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: argmin and argmax of no elements"));
    }
    int64_t dims[NP_RANK];
    memcpy(dims, from->dims, sizeof(dims));
    dims[axis] = 1;
    struct np_array *made = dev_np_room(NP_I64, from->rank, dims);
    struct placing placing = {dev_np_place(is_largest, from->type), (size_t)from->dims[axis]};
    const struct np_array *both[] = {made, from};
    const struct np_lanes lanes = {2, axis, placing.length, &placing};
    dev_np_lanes(both, &lanes, place_each);
    if (is_flat) {
        made->rank = folding->from->rank;
        for (uint32_t d = 0; d < made->rank; d++) {
            made->dims[d] = 1;
            made->steps[d] = 0;
        }
    }
    return dev_np_folding_given(folding, made);
}

static mp_obj_t argmax(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct np_folding folding = dev_np_folding_plain(count, args, named);
    return dev_np_folded_places(&folding, true);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_argmax_obj, 1, argmax);

static mp_obj_t argmin(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct np_folding folding = dev_np_folding_plain(count, args, named);
    return dev_np_folded_places(&folding, false);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_argmin_obj, 1, argmin);

// --- running sums and products

struct running {
    np_loop *loop;
    size_t length;
    size_t item;
};

static void running_each(const struct np_lane *lane)
{
    const struct running *running = lane->ctx;
    if (running->length == 0) {
        return;
    }
    memcpy(lane->at[0], lane->at[1], running->item);
    uint8_t *at[] = {lane->at[0] + lane->steps[0], lane->at[0], lane->at[1] + lane->steps[1]};
    const int64_t steps[] = {lane->steps[0], lane->steps[0], lane->steps[1]};
    if (running->length > 1) {
        running->loop(at, steps, running->length - 1);
    }
}

// (a, axis=None, dtype=None)
static mp_obj_t running(size_t count, const mp_obj_t *args, mp_map_t *named, enum np_fold fold)
{
    enum { A, AXIS, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *from = dev_np_of(values[A].u_obj);
    enum np_type type = values[DTYPE].u_obj == mp_const_none
                            ? dev_np_fold_type(fold, from->type)
                            : dev_np_type_parse(values[DTYPE].u_obj);
    from = from->type == type ? from : dev_np_cast(from, type);
    int32_t axis = 0;
    if (values[AXIS].u_obj == mp_const_none) {
        struct np_array *flat = dev_np_view(dev_np_dense(from));
        flat->rank = 1;
        flat->dims[0] = (int64_t)flat->size;
        flat->steps[0] = (int64_t)dev_np_item(type);
        from = flat;
    } else {
        axis = dev_np_axis(mp_obj_get_int(values[AXIS].u_obj), from->rank);
    }
    struct np_array *made = dev_np_room(type, from->rank, from->dims);
    struct running one = {dev_np_binary_loop(fold == NP_SUM ? NP_ADD : NP_MULTIPLY, type),
                          (size_t)from->dims[axis], dev_np_item(type)};
    const struct np_array *both[] = {made, from};
    const struct np_lanes lanes = {2, (uint32_t)axis, one.length, &one};
    dev_np_lanes(both, &lanes, running_each);
    return MP_OBJ_FROM_PTR(made);
}

static mp_obj_t cumsum(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return running(count, args, named, NP_SUM);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_cumsum_obj, 1, cumsum);

static mp_obj_t cumprod(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return running(count, args, named, NP_PRODUCT);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_cumprod_obj, 1, cumprod);
