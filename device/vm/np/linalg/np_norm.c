// walle.np.linalg.norm: of vectors along an axis, of matrices in two. Which order means what, and
// what is refused, is as in NumPy. Called by scripts through the module's table, on the VM's
// thread.
#include "vm/np/np_calls.h"
#include "vm/np/np_fold.h"
#include "vm/np/linalg/np_linalg.h"
#include "vm/np/np_math.h"
#include "vm/np/np_matrix.h"

#include <math.h>
#include <string.h>

// What a script asks for.
struct norm {
    const struct np_array *x; // float64
    uint32_t axes[2];
    uint32_t axis_count;
    bool is_text;   // the order is `text`, not `order`
    bool is_absent; // the order is None
    const char *text;
    double order;
};

static uint32_t bit_of(uint32_t axis)
{
    return 1U << axis;
}

static const struct np_array *absolute(const struct np_array *x)
{
    return dev_np_of(dev_np_unary(NP_ABSOLUTE, MP_OBJ_FROM_PTR(x), MP_OBJ_NULL));
}

// The axes stay, with one element.
static struct np_array *fold(enum np_fold which, const struct np_array *x, uint32_t axes)
{
    struct np_array *made = dev_np_reduce(which, x, axes);
    if (made == NULL) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.linalg: no elements have no largest"));
    }
    return made;
}

static const struct np_array *raised(const struct np_array *x, double power)
{
    mp_obj_t by = mp_obj_new_float((mp_float_t)power);
    return dev_np_of_type(dev_np_binary(NP_POWER, MP_OBJ_FROM_PTR(x), by, MP_OBJ_NULL), NP_F64);
}

static const struct np_array *euclidean(const struct np_array *x, uint32_t axes)
{
    mp_obj_t squares = dev_np_unary(NP_SQUARE, MP_OBJ_FROM_PTR(x), MP_OBJ_NULL);
    struct np_array *sum = fold(NP_SUM, dev_np_of(squares), axes);
    return dev_np_of(dev_np_unary(NP_SQRT, MP_OBJ_FROM_PTR(sum), MP_OBJ_NULL));
}

static const struct np_array *of_vectors(const struct norm *norm)
{
    uint32_t axes = bit_of(norm->axes[0]);
    if (norm->is_text) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.np.linalg: vectors have no norm of order '%s'"),
                          norm->text);
    }
    if (norm->is_absent || norm->order == 2) {
        return euclidean(norm->x, axes);
    }
    if (isinf(norm->order)) {
        return fold(norm->order > 0 ? NP_LARGEST : NP_LEAST, absolute(norm->x), axes);
    }
    if (norm->order == 0) {
        mp_obj_t is_other = dev_np_binary(NP_NOT_EQUAL, MP_OBJ_FROM_PTR(norm->x),
                                          MP_OBJ_NEW_SMALL_INT(0), MP_OBJ_NULL);
        return dev_np_cast(fold(NP_SUM, dev_np_of(is_other), axes), NP_F64);
    }
    if (norm->order == 1) {
        return fold(NP_SUM, absolute(norm->x), axes);
    }
    const struct np_array *sum = fold(NP_SUM, raised(absolute(norm->x), norm->order), axes);
    return raised(sum, 1 / norm->order);
}

// Singular values, folded; the axes are put last first.
static const struct np_array *of_values(const struct norm *norm, enum np_fold which)
{
    const struct np_array *x = norm->x;
    struct np_array turned = *x;
    int64_t dims[NP_RANK];
    uint32_t next = 0;
    for (uint32_t d = 0; d < x->rank; d++) {
        bool is_last = d == norm->axes[0] || d == norm->axes[1];
        dims[d] = is_last ? 1 : x->dims[d];
        if (!is_last) {
            turned.dims[next] = x->dims[d];
            turned.steps[next++] = x->steps[d];
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        turned.dims[next] = x->dims[norm->axes[i]];
        turned.steps[next++] = x->steps[norm->axes[i]];
    }
    struct np_matrices matrices = dev_np_matrices(MP_OBJ_FROM_PTR(dev_np_view(&turned)), false);
    struct np_array *values = dev_np_singular_values(&matrices);
    struct np_array *folded = fold(which, values, bit_of(values->rank - 1));
    struct np_array *made = dev_np_new(NP_F64, x->rank, dims);
    memcpy(made->data, folded->data, made->size * sizeof(double));
    return made;
}

static const struct np_array *of_matrices(const struct norm *norm)
{
    uint32_t rows = bit_of(norm->axes[0]);
    uint32_t columns = bit_of(norm->axes[1]);
    if (norm->axes[0] == norm->axes[1]) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.linalg: duplicate axes"));
    }
    if (norm->is_text && strcmp(norm->text, "nuc") == 0) {
        return of_values(norm, NP_SUM);
    }
    bool is_plain =
        norm->is_absent ||
        (norm->is_text && (strcmp(norm->text, "fro") == 0 || strcmp(norm->text, "f") == 0));
    if (is_plain) {
        return euclidean(norm->x, rows | columns);
    }
    double size = norm->is_text ? 0 : fabs(norm->order);
    enum np_fold which = norm->order > 0 ? NP_LARGEST : NP_LEAST;
    if (size == 2) {
        return of_values(norm, which);
    }
    if (size == 1) {
        return fold(which, fold(NP_SUM, absolute(norm->x), rows), columns);
    }
    if (isinf(size)) {
        return fold(which, fold(NP_SUM, absolute(norm->x), columns), rows);
    }
    mp_raise_ValueError(MP_ERROR_TEXT("walle.np.linalg: matrices have no norm of this order"));
}

static void order_take(struct norm *norm, mp_obj_t order)
{
    norm->is_absent = order == mp_const_none;
    norm->is_text = mp_obj_is_str(order);
    norm->text = norm->is_text ? mp_obj_str_get_str(order) : "";
    norm->order = norm->is_absent || norm->is_text ? 0 : (double)mp_obj_get_float(order);
}

static void axes_take(struct norm *norm, mp_obj_t axis)
{
    size_t count = 1;
    mp_obj_t *items = &axis;
    if (axis == mp_const_none) {
        norm->axis_count = norm->x->rank;
        norm->axes[0] = 0;
        norm->axes[1] = 1;
    } else {
        if (!mp_obj_is_int(axis)) {
            mp_obj_get_array(axis, &count, &items);
        }
        norm->axis_count = count > 2 ? 3 : (uint32_t)count;
        for (uint32_t i = 0; i < norm->axis_count && i < 2; i++) {
            norm->axes[i] = (uint32_t)dev_np_axis(mp_obj_get_int(items[i]), norm->x->rank);
        }
    }
    if (norm->axis_count != 1 && norm->axis_count != 2) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.linalg: norms are of 1 or 2 dimensions"));
    }
}

// Without the dimensions that were folded, in the type of what came.
static mp_obj_t given(const struct np_array *made, uint32_t axes, enum np_type type)
{
    struct np_array *shown = dev_np_view(type == NP_F32 ? dev_np_cast(made, NP_F32) : made);
    uint32_t rank = 0;
    for (uint32_t d = 0; d < shown->rank; d++) {
        if ((axes >> d & 1) == 0) {
            shown->dims[rank] = shown->dims[d];
            shown->steps[rank++] = shown->steps[d];
        }
    }
    shown->rank = rank;
    return dev_np_result(shown);
}

static mp_obj_t norm_call(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { X, ORD, AXIS, KEEPDIMS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_x, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_ord, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_keepdims, MP_ARG_BOOL, {.u_bool = false}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *from = dev_np_of(values[X].u_obj);
    struct norm norm = {.x = dev_np_of_type(MP_OBJ_FROM_PTR(from), NP_F64)};
    order_take(&norm, values[ORD].u_obj);
    uint32_t every = (1U << norm.x->rank) - 1;
    uint32_t axes = every;
    const struct np_array *made;
    if (values[AXIS].u_obj == mp_const_none && norm.is_absent) {
        made = euclidean(norm.x, every);
    } else {
        axes_take(&norm, values[AXIS].u_obj);
        axes = bit_of(norm.axes[0]) | (norm.axis_count == 2 ? bit_of(norm.axes[1]) : 0);
        made = norm.axis_count == 1 ? of_vectors(&norm) : of_matrices(&norm);
    }
    return given(made, values[KEEPDIMS].u_bool ? 0 : axes, from->type);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_norm_obj, 1, norm_call);
