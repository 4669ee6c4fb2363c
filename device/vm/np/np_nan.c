// Reductions that pass over what is no number, and those that weigh: nansum and its like, average.
// Arguments, types of results and what an empty or a wholly NaN row gives are NumPy's. Whole
// numbers have no NaN, so of them these are the plain reductions. Called by scripts, on the VM's
// thread.
#include "vm/np/np_calls.h"
#include "vm/np/np_fold.h"
#include "vm/np/np_math.h"

#include <math.h>

// A bool for each element: whether it is NaN. Of reals.
static struct np_array *nan_of(const struct np_array *from)
{
    struct np_array *made = dev_np_room(NP_BOOL, from->rank, from->dims);
    const struct np_array *walked[] = {made, from};
    dev_np_walk(walked, 2, dev_np_unary_loop(NP_ISNAN, from->type));
    return made;
}

// Puts `value` where the mask says; `to` was made here.
static void put(struct np_array *to, const struct np_array *mask, double value)
{
    struct np_array *number = dev_np_new(to->type, 0, NULL);
    dev_np_set(to->type, number->data, mp_obj_new_float((mp_float_t)value));
    struct np_array wide = dev_np_stretched(number, to->rank, to->dims);
    const struct np_array *walked[] = {to, &wide, mask};
    dev_np_walk(walked, 3, dev_np_choose_loop(to->type));
}

// The folding with `value` in place of each NaN, in a copy.
static struct np_folding without(const struct np_folding *folding, double value)
{
    struct np_folding made = *folding;
    if (dev_np_is_real(folding->from->type)) {
        struct np_array *copy = dev_np_cast(folding->from, folding->from->type);
        put(copy, nan_of(copy), value);
        made.from = copy;
    }
    return made;
}

static mp_obj_t nansum(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct np_folding folding = dev_np_folding_typed(count, args, named);
    folding = without(&folding, 0);
    return dev_np_folded(&folding, NP_SUM);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_nansum_obj, 1, nansum);

static mp_obj_t nanprod(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct np_folding folding = dev_np_folding_typed(count, args, named);
    folding = without(&folding, 1);
    return dev_np_folded(&folding, NP_PRODUCT);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_nanprod_obj, 1, nanprod);

static mp_obj_t nanmin(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct np_folding folding = dev_np_folding_plain(count, args, named);
    return dev_np_folded(&folding, NP_LEAST_NUMBER);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_nanmin_obj, 1, nanmin);

static mp_obj_t nanmax(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct np_folding folding = dev_np_folding_plain(count, args, named);
    return dev_np_folded(&folding, NP_LARGEST_NUMBER);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_nanmax_obj, 1, nanmax);

// The place of the least or the largest that is a number; a row of NaN alone has none.
static mp_obj_t place(size_t count, const mp_obj_t *args, mp_map_t *named, bool is_largest)
{
    struct np_folding folding = dev_np_folding_plain(count, args, named);
    if (dev_np_is_real(folding.from->type)) {
        struct np_array *none = dev_np_reduce(NP_ALL, nan_of(folding.from), folding.axes);
        if (dev_np_any(MP_OBJ_FROM_PTR(none)) == mp_const_true) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: a slice of NaN alone"));
        }
    }
    folding = without(&folding, is_largest ? -(double)INFINITY : (double)INFINITY);
    return dev_np_folded_places(&folding, is_largest);
}

static mp_obj_t nanargmin(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return place(count, args, named, false);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_nanargmin_obj, 1, nanargmin);

static mp_obj_t nanargmax(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return place(count, args, named, true);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_nanargmax_obj, 1, nanargmax);

// --- means of the numbers

// How many numbers each result is made of; dense.
static const int64_t *counts_of(const struct np_array *nan, uint32_t axes)
{
    struct np_array *numbers = dev_np_new(NP_BOOL, nan->rank, nan->dims);
    const struct np_array *walked[] = {numbers, nan};
    dev_np_walk(walked, 2, dev_np_unary_loop(NP_LOGICAL_NOT, NP_BOOL));
    return (const int64_t *)(const void *)dev_np_reduce(NP_SUM, numbers, axes)->data;
}

// made[i] /= counts[i] - ddof, NaN where that is not above 0. `made` is dense, of reals.
static void divide(struct np_array *made, const int64_t *counts, double ddof)
{
    dev_np_pay(made->size);
    for (size_t i = 0; i < made->size; i++) {
        double by = (double)counts[i] - ddof;
        by = by > 0 ? by : (double)NAN;
        if (made->type == NP_F32) {
            ((float *)(void *)made->data)[i] /= (float)by;
        } else {
            ((double *)(void *)made->data)[i] /= by;
        }
    }
}

static mp_obj_t nanmean(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct np_folding folding = dev_np_folding_typed(count, args, named);
    if (!dev_np_is_real(folding.from->type)) {
        return dev_np_folding_given(&folding, dev_np_mean_of(folding.from, folding.axes));
    }
    const int64_t *counts = counts_of(nan_of(folding.from), folding.axes);
    struct np_folding filled = without(&folding, 0);
    struct np_array *made = dev_np_reduce(NP_SUM, filled.from, filled.axes);
    divide(made, counts, 0);
    return dev_np_folding_given(&folding, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_nanmean_obj, 1, nanmean);

// The mean of the squares of the differences from the mean, of what is a number.
static struct np_array *variance_of(const struct np_folding *folding, double ddof)
{
    if (!dev_np_is_real(folding->from->type)) {
        return dev_np_variance_of(folding->from, folding->axes, ddof);
    }
    struct np_array *nan = nan_of(folding->from);
    const int64_t *counts = counts_of(nan, folding->axes);
    struct np_folding filled = without(folding, 0);
    struct np_array *mean = dev_np_reduce(NP_SUM, filled.from, filled.axes);
    divide(mean, counts, 0);
    struct np_array *apart = dev_np_new(mean->type, filled.from->rank, filled.from->dims);
    struct np_array wide = dev_np_stretched(mean, apart->rank, apart->dims);
    const struct np_array *subtracted[] = {apart, filled.from, &wide};
    dev_np_walk(subtracted, 3, dev_np_binary_loop(NP_SUBTRACT, apart->type));
    const struct np_array *squared[] = {apart, apart};
    dev_np_walk(squared, 2, dev_np_unary_loop(NP_SQUARE, apart->type));
    put(apart, nan, 0);
    struct np_array *made = dev_np_reduce(NP_SUM, apart, folding->axes);
    divide(made, counts, ddof);
    return made;
}

static mp_obj_t spread(size_t count, const mp_obj_t *args, mp_map_t *named, bool is_root)
{
    double ddof;
    struct np_folding folding = dev_np_folding_spread(count, args, named, &ddof);
    struct np_array *made = variance_of(&folding, ddof);
    if (is_root) {
        const struct np_array *walked[] = {made, made};
        dev_np_walk(walked, 2, dev_np_unary_loop(NP_SQRT, made->type));
    }
    return dev_np_folding_given(&folding, made);
}

static mp_obj_t nanvar(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return spread(count, args, named, false);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_nanvar_obj, 1, nanvar);

static mp_obj_t nanstd(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return spread(count, args, named, true);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_nanstd_obj, 1, nanstd);

// --- average

// The weights in the shape of the array: as they are, or along the one dimension that was named.
static struct np_array weights_of(const struct np_folding *folding, const struct np_array *weights,
                                  bool has_axis)
{
    const struct np_array *from = folding->from;
    bool is_alike = weights->rank == from->rank;
    for (uint32_t d = 0; is_alike && d < from->rank; d++) {
        is_alike = weights->dims[d] == from->dims[d];
    }
    if (is_alike) {
        return *weights;
    }
    if (!has_axis || weights->rank != 1) {
        mp_raise_TypeError(MP_ERROR_TEXT(
            "walle.np: weights of another shape are of one dimension, along an axis"));
    }
    uint32_t axis = 0;
    while (axis + 1 < from->rank && (folding->axes >> axis & 1) == 0) {
        axis++;
    }
    if (from->rank == 0 || weights->dims[0] != from->dims[axis] || folding->axes != 1U << axis) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: the length of the weights is not the axis's"));
    }
    struct np_array wide = *weights;
    wide.rank = from->rank;
    wide.size = from->size;
    for (uint32_t d = 0; d < from->rank; d++) {
        wide.dims[d] = from->dims[d];
        wide.steps[d] = d == axis ? weights->steps[0] : 0;
    }
    return wide;
}

// to = to `function` by, element by element; reals of one type.
static void apply(enum np_binary function, struct np_array *to, const struct np_array *by)
{
    const struct np_array *walked[] = {to, to, by};
    dev_np_walk(walked, 3, dev_np_binary_loop(function, to->type));
}

// The weighted mean; the sums of the weights in its shape.
static struct np_array *weighted(const struct np_folding *folding, const struct np_array *weights,
                                 struct np_array **out_scale)
{
    enum np_type type = dev_np_promote(folding->from->type, weights->type);
    if (!dev_np_is_real(folding->from->type)) {
        type = NP_F64;
    }
    struct np_array *each = dev_np_cast(weights, type);
    struct np_array *scale = dev_np_reduce(NP_SUM, each, folding->axes);
    struct np_array *none = dev_np_new(NP_BOOL, scale->rank, scale->dims);
    const struct np_array *compared[] = {none, scale};
    dev_np_walk(compared, 2, dev_np_unary_loop(NP_LOGICAL_NOT, type));
    if (dev_np_any(MP_OBJ_FROM_PTR(none)) == mp_const_true) {
        mp_raise_msg(&mp_type_ZeroDivisionError, MP_ERROR_TEXT("walle.np: weights sum to zero"));
    }
    apply(NP_MULTIPLY, each, dev_np_cast(folding->from, type));
    struct np_array *made = dev_np_reduce(NP_SUM, each, folding->axes);
    apply(NP_DIVIDE, made, scale);
    *out_scale = scale;
    return made;
}

// average(a, axis=None, weights=None, returned=False, *, keepdims=False)
static mp_obj_t average(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, AXIS, WEIGHTS, RETURNED, KEEPDIMS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_weights, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_returned, MP_ARG_BOOL, {.u_bool = false}},
        {MP_QSTR_keepdims, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = false}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct np_folding folding = {.from = dev_np_of(values[A].u_obj),
                                 .keeps = values[KEEPDIMS].u_bool};
    mp_obj_t axis = values[AXIS].u_obj;
    folding.axes = dev_np_axes(axis, folding.from->rank);
    struct np_array *made = NULL;
    struct np_array *scale = NULL;
    if (values[WEIGHTS].u_obj == mp_const_none) {
        made = dev_np_mean_of(folding.from, folding.axes);
        scale = dev_np_new(made->type, made->rank, made->dims);
        double number = dev_np_folded_count(folding.from, folding.axes);
        struct np_array one = {.type = NP_F64, .size = 1, .data = (uint8_t *)&number};
        dev_np_fill(scale, &one);
    } else {
        struct np_array weights =
            weights_of(&folding, dev_np_of(values[WEIGHTS].u_obj), axis != mp_const_none);
        made = weighted(&folding, &weights, &scale);
    }
    mp_obj_t results[] = {dev_np_folding_given(&folding, made),
                          dev_np_folding_given(&folding, scale)};
    return values[RETURNED].u_bool ? mp_obj_new_tuple(2, results) : results[0];
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_average_obj, 1, average);
