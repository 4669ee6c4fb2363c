// The module `walle.np.fft`. There are no complex arrays: complex numbers are arrays of reals with
// one more dimension at the end, of size 2: the real and the imaginary part. `pairs` says whether
// an argument is such an array; axes are counted without that dimension. Called by scripts through
// the module's table, on the VM's thread.
#include "vm/np/np_calls.h"
#include "vm/np/np_fourier.h"
#include "vm/np/np_index.h"
#include "vm/np/np_lanes.h"
#include "vm/np/np_matrix.h"

#include "py/objmodule.h"

#include <math.h>
#include <string.h>

// One transform along an axis, as a lane needs to know it.
struct passage {
    struct np_fourier fourier;
    double *row;       // its numbers, in pairs
    size_t taken;      // numbers read of a lane; zeros are put behind them
    size_t given;      // numbers written
    int64_t pair_step; // from a real part that is read to its imaginary part; 0: there is none
    bool is_inverse;
    bool of_half;  // what is read is the first half of numbers that are conjugates in the second
    bool to_reals; // imaginary parts are not written
    double scale;
};

static void lane_read(const struct passage *passage, const uint8_t *from, int64_t step)
{
    double *row = passage->row;
    memset(row, 0, passage->fourier.size * 2 * sizeof(double));
    for (size_t k = 0; k < passage->taken; k++) {
        const uint8_t *at = from + (int64_t)k * step;
        memcpy(row + 2 * k, at, sizeof(double));
        if (passage->pair_step != 0) {
            memcpy(row + 2 * k + 1, at + passage->pair_step, sizeof(double));
        }
    }
}

static void second_half_make(const struct passage *passage)
{
    double *row = passage->row;
    size_t count = passage->fourier.size;
    row[1] = 0;
    if (count % 2 == 0) {
        row[count + 1] = 0; // the imaginary part of the number in the middle
    }
    for (size_t k = 1; k < (count + 1) / 2; k++) {
        row[2 * (count - k)] = row[2 * k];
        row[2 * (count - k) + 1] = -row[2 * k + 1];
    }
}

// The first array is the result, the second what is transformed.
static void lane_pass(const struct np_lane *lane)
{
    struct passage *passage = lane->ctx;
    const double *row = passage->row;
    lane_read(passage, lane->at[1], lane->steps[1]);
    if (passage->of_half) {
        second_half_make(passage);
    }
    dev_np_fourier(&passage->fourier, passage->row, passage->is_inverse);
    for (size_t k = 0; k < passage->given; k++) {
        double *to = (double *)(void *)(lane->at[0] + (int64_t)k * lane->steps[0]);
        to[0] = row[2 * k] * passage->scale;
        if (!passage->to_reals) {
            to[1] = row[2 * k + 1] * passage->scale;
        }
    }
}

// --- arguments

enum kind { FFT, IFFT, RFFT, IRFFT };

static uint32_t axis_of(mp_int_t axis, uint32_t rank)
{
    mp_int_t counted = axis < 0 ? axis + (mp_int_t)rank : axis;
    if (counted < 0 || counted >= (mp_int_t)rank) {
        mp_raise_msg(&mp_type_IndexError, MP_ERROR_TEXT("walle.np.fft: no such axis"));
    }
    return (uint32_t)counted;
}

// Float64, its last dimension taken off where that is pairs.
static struct np_array of_script(mp_obj_t a, bool pairs)
{
    struct np_array array = *dev_np_of_type(a, NP_F64);
    if (pairs && (array.rank == 0 || array.dims[array.rank - 1] != 2)) {
        mp_raise_ValueError(
            MP_ERROR_TEXT("walle.np.fft: pairs have 2 elements in the last dimension"));
    }
    array.rank -= pairs ? 1 : 0;
    return array;
}

static double scale_of(mp_obj_t norm, size_t count, bool is_inverse)
{
    const char *name = norm == mp_const_none ? "backward" : mp_obj_str_get_str(norm);
    if (strcmp(name, "ortho") == 0) {
        return 1 / sqrt((double)count);
    }
    bool is_forward = strcmp(name, "forward") == 0;
    if (!is_forward && strcmp(name, "backward") != 0) {
        mp_raise_ValueError(
            MP_ERROR_TEXT("walle.np.fft: norm is 'backward', 'ortho' or 'forward'"));
    }
    return is_forward != is_inverse ? 1 / (double)count : 1;
}

// What a script asks of one axis.
struct asked {
    enum kind kind;
    bool pairs;
    mp_int_t count; // points; -1: as many as there are
    mp_int_t axis;
    mp_obj_t norm;
};

static size_t count_of(const struct asked *asked, int64_t there)
{
    mp_int_t count = asked->count;
    if (count == -1) {
        count = asked->kind == IRFFT ? 2 * (there - 1) : there;
    }
    if (count < 1) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.np.fft: a transform of %d points"), (int)count);
    }
    return (size_t)count;
}

static struct np_array *passed(const struct asked *asked, const struct np_array *from)
{
    // As in NumPy the axis is looked at first where it says how many points there are.
    int64_t there = asked->count == -1 ? from->dims[axis_of(asked->axis, from->rank)] : 0;
    size_t count = count_of(asked, there);
    struct passage passage = {.is_inverse = asked->kind == IFFT || asked->kind == IRFFT,
                              .of_half = asked->kind == IRFFT,
                              .to_reals = asked->kind == IRFFT,
                              .pair_step = asked->pairs ? from->steps[from->rank] : 0};
    passage.scale = scale_of(asked->norm, count, passage.is_inverse);
    uint32_t axis = axis_of(asked->axis, from->rank);
    size_t read = asked->kind == IRFFT ? count / 2 + 1 : count;
    passage.taken = read < (size_t)from->dims[axis] ? read : (size_t)from->dims[axis];
    passage.given = asked->kind == RFFT ? count / 2 + 1 : count;
    uint32_t rank = from->rank + (passage.to_reals ? 0 : 1);
    if (rank > NP_RANK) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.fft: no room for the dimension of pairs"));
    }
    int64_t dims[NP_RANK + 1];
    memcpy(dims, from->dims, from->rank * sizeof(int64_t));
    dims[axis] = (int64_t)passage.given;
    dims[from->rank] = 2;
    struct np_array *made = dev_np_new(NP_F64, rank, dims);
    if (count == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.fft: a transform of 0 points"));
    }
    dev_np_fourier_make(&passage.fourier, count);
    passage.row = dev_np_reals(dev_np_new(NP_F64, 1, (int64_t[]){2 * (int64_t)count}));
    struct np_array to = *made;
    to.rank = from->rank;
    const struct np_array *both[] = {&to, from};
    const struct np_lanes lanes = {2, axis, 2 * count, &passage};
    dev_np_lanes(both, &lanes, lane_pass);
    return made;
}

static mp_obj_t transformed(enum kind kind, size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, N, AXIS, NORM, PAIRS, ARGUMENTS };
    const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_n, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_INT, {.u_int = -1}},
        {MP_QSTR_norm, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_pairs, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = kind == IFFT || kind == IRFFT}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    mp_obj_t points = values[N].u_obj;
    struct asked asked = {.kind = kind,
                          .pairs = values[PAIRS].u_bool,
                          .count = -1,
                          .axis = values[AXIS].u_int,
                          .norm = values[NORM].u_obj};
    if (kind == RFFT && asked.pairs) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np.fft: rfft is of reals"));
    }
    if (points != mp_const_none) {
        mp_int_t given = mp_obj_get_int(points);
        asked.count = given < 1 ? 0 : given;
    }
    struct np_array from = of_script(values[A].u_obj, asked.pairs);
    return MP_OBJ_FROM_PTR(passed(&asked, &from));
}

#define TRANSFORM(name, kind)                                                                      \
    static mp_obj_t name(size_t count, const mp_obj_t *args, mp_map_t *named)                      \
    {                                                                                              \
        return transformed(kind, count, args, named);                                              \
    }                                                                                              \
    static MP_DEFINE_CONST_FUN_OBJ_KW(name##_obj, 1, name)
TRANSFORM(fft, FFT);
TRANSFORM(ifft, IFFT);
TRANSFORM(rfft, RFFT);
TRANSFORM(irfft, IRFFT);

// --- two dimensions, one after the other

static mp_obj_t transformed_twice(enum kind kind, size_t count, const mp_obj_t *args,
                                  mp_map_t *named)
{
    enum { A, S, AXES, NORM, PAIRS, ARGUMENTS };
    const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_s, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axes, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_norm, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_pairs, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = kind == IFFT}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    mp_int_t axes[2] = {-2, -1};
    mp_int_t sizes[2] = {-1, -1};
    mp_obj_t *items;
    for (size_t which = S; which <= AXES; which++) {
        if (values[which].u_obj != mp_const_none) {
            mp_obj_get_array_fixed_n(values[which].u_obj, 2, &items);
            mp_int_t *to = which == S ? sizes : axes;
            to[0] = mp_obj_get_int(items[0]);
            to[1] = mp_obj_get_int(items[1]);
        }
    }
    struct asked asked = {kind, values[PAIRS].u_bool, sizes[1], axes[1], values[NORM].u_obj};
    struct np_array from = of_script(values[A].u_obj, asked.pairs);
    (void)axis_of(axes[0], from.rank);
    struct np_array *half = passed(&asked, &from);
    struct np_array view = *half;
    view.rank--;
    struct asked second = {kind, true, sizes[0], axes[0], values[NORM].u_obj};
    return MP_OBJ_FROM_PTR(passed(&second, &view));
}

static mp_obj_t fft2(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return transformed_twice(FFT, count, args, named);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(fft2_obj, 1, fft2);

static mp_obj_t ifft2(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return transformed_twice(IFFT, count, args, named);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(ifft2_obj, 1, ifft2);

// --- frequencies and their order

static struct np_array *frequencies(size_t count, const mp_obj_t *args, mp_map_t *named,
                                    bool is_half)
{
    enum { N, D, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_n, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_d, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(1)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    if (!mp_obj_is_int(values[N].u_obj)) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.fft: n is a whole number"));
    }
    int64_t points = mp_obj_get_int(values[N].u_obj);
    double step = (double)points * (double)mp_obj_get_float(values[D].u_obj);
    if (step == 0) {
        mp_raise_msg(&mp_type_ZeroDivisionError, MP_ERROR_TEXT("walle.np.fft: n * d is 0"));
    }
    int64_t size = is_half ? points / 2 + 1 : points;
    struct np_array *made = dev_np_new(NP_F64, 1, &size);
    double *at = (double *)(void *)made->data;
    double unit = 1.0 / step;
    for (int64_t i = 0; i < size; i++) {
        at[i] = (double)(is_half || i < (points + 1) / 2 ? i : i - points) * unit;
    }
    dev_np_pay((size_t)size);
    return made;
}

static mp_obj_t fftfreq(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return MP_OBJ_FROM_PTR(frequencies(count, args, named, false));
}
static MP_DEFINE_CONST_FUN_OBJ_KW(fftfreq_obj, 1, fftfreq);

static mp_obj_t rfftfreq(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return MP_OBJ_FROM_PTR(frequencies(count, args, named, true));
}
static MP_DEFINE_CONST_FUN_OBJ_KW(rfftfreq_obj, 1, rfftfreq);

// Axes as a script names them, counted from the first; None: all. Gives how many they are.
static size_t axes_take(mp_obj_t axes, uint32_t rank, mp_obj_t out_axes[NP_RANK])
{
    size_t count = axes == mp_const_none ? rank : 1;
    mp_obj_t *items = &axes;
    if (axes != mp_const_none && !mp_obj_is_int(axes)) {
        mp_obj_get_array(axes, &count, &items);
    }
    if (count > NP_RANK) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.fft: more axes than dimensions"));
    }
    for (size_t i = 0; i < count; i++) {
        mp_int_t axis = axes == mp_const_none ? (mp_int_t)i : mp_obj_get_int(items[i]);
        out_axes[i] = MP_OBJ_NEW_SMALL_INT(axis_of(axis, rank));
    }
    return count;
}

// Rolls axes by half their length: frequency 0 comes to the middle, or goes back.
static mp_obj_t shifted(size_t count, const mp_obj_t *args, mp_map_t *named, bool is_back)
{
    enum { X, AXES, PAIRS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_x, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axes, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_pairs, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = false}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *from = dev_np_of(values[X].u_obj);
    uint32_t rank = from->rank;
    if (values[PAIRS].u_bool && (rank == 0 || from->dims[rank - 1] != 2)) {
        mp_raise_ValueError(
            MP_ERROR_TEXT("walle.np.fft: pairs have 2 elements in the last dimension"));
    }
    rank -= values[PAIRS].u_bool ? 1 : 0;
    mp_obj_t by[NP_RANK];
    mp_obj_t which[NP_RANK];
    size_t rolled = axes_take(values[AXES].u_obj, rank, which);
    for (size_t i = 0; i < rolled; i++) {
        int64_t half = from->dims[MP_OBJ_SMALL_INT_VALUE(which[i])] / 2;
        by[i] = mp_obj_new_int_from_ll(is_back ? -half : half);
    }
    mp_obj_t given[] = {MP_OBJ_FROM_PTR(from), mp_obj_new_tuple(rolled, by),
                        mp_obj_new_tuple(rolled, which)};
    return mp_call_function_n_kw(MP_OBJ_FROM_PTR(&dev_np_roll_obj), 3, 0, given);
}

static mp_obj_t fftshift(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return shifted(count, args, named, false);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(fftshift_obj, 1, fftshift);

static mp_obj_t ifftshift(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return shifted(count, args, named, true);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(ifftshift_obj, 1, ifftshift);

static const mp_rom_map_elem_t globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_fft)},
    {MP_ROM_QSTR(MP_QSTR_fft), MP_ROM_PTR(&fft_obj)},
    {MP_ROM_QSTR(MP_QSTR_fft2), MP_ROM_PTR(&fft2_obj)},
    {MP_ROM_QSTR(MP_QSTR_fftfreq), MP_ROM_PTR(&fftfreq_obj)},
    {MP_ROM_QSTR(MP_QSTR_fftshift), MP_ROM_PTR(&fftshift_obj)},
    {MP_ROM_QSTR(MP_QSTR_ifft), MP_ROM_PTR(&ifft_obj)},
    {MP_ROM_QSTR(MP_QSTR_ifft2), MP_ROM_PTR(&ifft2_obj)},
    {MP_ROM_QSTR(MP_QSTR_ifftshift), MP_ROM_PTR(&ifftshift_obj)},
    {MP_ROM_QSTR(MP_QSTR_irfft), MP_ROM_PTR(&irfft_obj)},
    {MP_ROM_QSTR(MP_QSTR_rfft), MP_ROM_PTR(&rfft_obj)},
    {MP_ROM_QSTR(MP_QSTR_rfftfreq), MP_ROM_PTR(&rfftfreq_obj)},
};
static MP_DEFINE_CONST_DICT(globals, globals_table);

const mp_obj_module_t dev_np_module_fft = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&globals,
};
