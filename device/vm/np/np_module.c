// The module `walle.np`: the table of its functions, which scripts look names up in on the VM's
// thread. Names that NumPy has and this module does not are in docs/NUMPY.md with the reason; a
// test holds both to this table.
#include "vm/np/np_calls.h"
#include "vm/np/np_math.h"
#include "vm/np/np_parts.h"

#include "py/objmodule.h"

#include <math.h>

#define FUNCTION(name, operands, which)                                                            \
    static const struct np_function name##_function = {{&dev_np_function_type}, operands, which};
FUNCTION(negative, 1, NP_NEGATIVE)
FUNCTION(absolute, 1, NP_ABSOLUTE)
FUNCTION(sign, 1, NP_SIGN)
FUNCTION(square, 1, NP_SQUARE)
FUNCTION(invert, 1, NP_INVERT)
FUNCTION(rint, 1, NP_RINT)
FUNCTION(floor, 1, NP_FLOOR)
FUNCTION(ceil, 1, NP_CEIL)
FUNCTION(trunc, 1, NP_TRUNC)
FUNCTION(reciprocal, 1, NP_RECIPROCAL)
FUNCTION(sqrt, 1, NP_SQRT)
FUNCTION(cbrt, 1, NP_CBRT)
FUNCTION(exp, 1, NP_EXP)
FUNCTION(exp2, 1, NP_EXP2)
FUNCTION(expm1, 1, NP_EXPM1)
FUNCTION(log, 1, NP_LOG)
FUNCTION(log2, 1, NP_LOG2)
FUNCTION(log10, 1, NP_LOG10)
FUNCTION(log1p, 1, NP_LOG1P)
FUNCTION(sin, 1, NP_SIN)
FUNCTION(cos, 1, NP_COS)
FUNCTION(tan, 1, NP_TAN)
FUNCTION(arcsin, 1, NP_ARCSIN)
FUNCTION(arccos, 1, NP_ARCCOS)
FUNCTION(arctan, 1, NP_ARCTAN)
FUNCTION(sinh, 1, NP_SINH)
FUNCTION(cosh, 1, NP_COSH)
FUNCTION(tanh, 1, NP_TANH)
FUNCTION(arcsinh, 1, NP_ARCSINH)
FUNCTION(arccosh, 1, NP_ARCCOSH)
FUNCTION(arctanh, 1, NP_ARCTANH)
FUNCTION(positive, 1, NP_POSITIVE)
FUNCTION(fabs, 1, NP_FABS)
FUNCTION(sinc, 1, NP_SINC)
FUNCTION(isnan, 1, NP_ISNAN)
FUNCTION(isinf, 1, NP_ISINF)
FUNCTION(isfinite, 1, NP_ISFINITE)
FUNCTION(signbit, 1, NP_SIGNBIT)
FUNCTION(logical_not, 1, NP_LOGICAL_NOT)
FUNCTION(add, 2, NP_ADD)
FUNCTION(subtract, 2, NP_SUBTRACT)
FUNCTION(multiply, 2, NP_MULTIPLY)
FUNCTION(divide, 2, NP_DIVIDE)
FUNCTION(floor_divide, 2, NP_FLOOR_DIVIDE)
FUNCTION(remainder, 2, NP_REMAINDER)
FUNCTION(power, 2, NP_POWER)
FUNCTION(minimum, 2, NP_MINIMUM)
FUNCTION(maximum, 2, NP_MAXIMUM)
FUNCTION(fmin, 2, NP_FMIN)
FUNCTION(fmax, 2, NP_FMAX)
FUNCTION(fmod, 2, NP_FMOD)
FUNCTION(bitwise_and, 2, NP_BIT_AND)
FUNCTION(bitwise_or, 2, NP_BIT_OR)
FUNCTION(bitwise_xor, 2, NP_BIT_XOR)
FUNCTION(left_shift, 2, NP_SHIFT_LEFT)
FUNCTION(right_shift, 2, NP_SHIFT_RIGHT)
FUNCTION(arctan2, 2, NP_ARCTAN2)
FUNCTION(hypot, 2, NP_HYPOT)
FUNCTION(copysign, 2, NP_COPYSIGN)
FUNCTION(logaddexp, 2, NP_LOGADDEXP)
FUNCTION(logaddexp2, 2, NP_LOGADDEXP2)
FUNCTION(ldexp, 2, NP_LDEXP)
FUNCTION(float_power, 2, NP_FLOAT_POWER)
FUNCTION(equal, 2, NP_EQUAL)
FUNCTION(not_equal, 2, NP_NOT_EQUAL)
FUNCTION(less, 2, NP_LESS)
FUNCTION(less_equal, 2, NP_LESS_EQUAL)
FUNCTION(greater, 2, NP_GREATER)
FUNCTION(greater_equal, 2, NP_GREATER_EQUAL)
FUNCTION(logical_and, 2, NP_LOGICAL_AND)
FUNCTION(logical_or, 2, NP_LOGICAL_OR)
FUNCTION(logical_xor, 2, NP_LOGICAL_XOR)

// Numbers of the table.
struct real {
    mp_obj_base_t base;
    mp_float_t value;
};
static const struct real pi_number = {{&mp_type_float}, M_PI};
static const struct real e_number = {{&mp_type_float}, M_E};
static const struct real inf_number = {{&mp_type_float}, (mp_float_t)INFINITY};
static const struct real nan_number = {{&mp_type_float}, (mp_float_t)NAN};

static const mp_rom_map_elem_t globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_np)},
    {MP_ROM_QSTR(MP_QSTR_abs), MP_ROM_PTR(&absolute_function)},
    {MP_ROM_QSTR(MP_QSTR_absolute), MP_ROM_PTR(&absolute_function)},
    {MP_ROM_QSTR(MP_QSTR_add), MP_ROM_PTR(&add_function)},
    {MP_ROM_QSTR(MP_QSTR_all), MP_ROM_PTR(&dev_np_all_obj)},
    {MP_ROM_QSTR(MP_QSTR_amax), MP_ROM_PTR(&dev_np_max_obj)},
    {MP_ROM_QSTR(MP_QSTR_amin), MP_ROM_PTR(&dev_np_min_obj)},
    {MP_ROM_QSTR(MP_QSTR_any), MP_ROM_PTR(&dev_np_any_obj)},
    {MP_ROM_QSTR(MP_QSTR_arange), MP_ROM_PTR(&dev_np_arange_obj)},
    {MP_ROM_QSTR(MP_QSTR_arccos), MP_ROM_PTR(&arccos_function)},
    {MP_ROM_QSTR(MP_QSTR_arccosh), MP_ROM_PTR(&arccosh_function)},
    {MP_ROM_QSTR(MP_QSTR_arcsin), MP_ROM_PTR(&arcsin_function)},
    {MP_ROM_QSTR(MP_QSTR_arcsinh), MP_ROM_PTR(&arcsinh_function)},
    {MP_ROM_QSTR(MP_QSTR_arctan), MP_ROM_PTR(&arctan_function)},
    {MP_ROM_QSTR(MP_QSTR_arctan2), MP_ROM_PTR(&arctan2_function)},
    {MP_ROM_QSTR(MP_QSTR_arctanh), MP_ROM_PTR(&arctanh_function)},
    {MP_ROM_QSTR(MP_QSTR_argmax), MP_ROM_PTR(&dev_np_argmax_obj)},
    {MP_ROM_QSTR(MP_QSTR_argmin), MP_ROM_PTR(&dev_np_argmin_obj)},
    {MP_ROM_QSTR(MP_QSTR_argsort), MP_ROM_PTR(&dev_np_argsort_obj)},
    {MP_ROM_QSTR(MP_QSTR_argwhere), MP_ROM_PTR(&dev_np_argwhere_obj)},
    {MP_ROM_QSTR(MP_QSTR_around), MP_ROM_PTR(&dev_np_around_obj)},
    {MP_ROM_QSTR(MP_QSTR_array), MP_ROM_PTR(&dev_np_array_obj)},
    {MP_ROM_QSTR(MP_QSTR_array_equal), MP_ROM_PTR(&dev_np_array_equal_obj)},
    {MP_ROM_QSTR(MP_QSTR_array_split), MP_ROM_PTR(&dev_np_array_split_obj)},
    {MP_ROM_QSTR(MP_QSTR_asarray), MP_ROM_PTR(&dev_np_asarray_obj)},
    {MP_ROM_QSTR(MP_QSTR_asfarray), MP_ROM_PTR(&dev_np_asfarray_obj)},
    {MP_ROM_QSTR(MP_QSTR_asscalar), MP_ROM_PTR(&dev_np_item_obj)},
    {MP_ROM_QSTR(MP_QSTR_atleast_1d), MP_ROM_PTR(&dev_np_atleast_1d_obj)},
    {MP_ROM_QSTR(MP_QSTR_atleast_2d), MP_ROM_PTR(&dev_np_atleast_2d_obj)},
    {MP_ROM_QSTR(MP_QSTR_atleast_3d), MP_ROM_PTR(&dev_np_atleast_3d_obj)},
    {MP_ROM_QSTR(MP_QSTR_average), MP_ROM_PTR(&dev_np_average_obj)},
    {MP_ROM_QSTR(MP_QSTR_bitwise_and), MP_ROM_PTR(&bitwise_and_function)},
    {MP_ROM_QSTR(MP_QSTR_bitwise_not), MP_ROM_PTR(&invert_function)},
    {MP_ROM_QSTR(MP_QSTR_bitwise_or), MP_ROM_PTR(&bitwise_or_function)},
    {MP_ROM_QSTR(MP_QSTR_bitwise_xor), MP_ROM_PTR(&bitwise_xor_function)},
    {MP_ROM_QSTR(MP_QSTR_broadcast_arrays), MP_ROM_PTR(&dev_np_broadcast_arrays_obj)},
    {MP_ROM_QSTR(MP_QSTR_broadcast_to), MP_ROM_PTR(&dev_np_broadcast_to_obj)},
    {MP_ROM_QSTR(MP_QSTR_cbrt), MP_ROM_PTR(&cbrt_function)},
    {MP_ROM_QSTR(MP_QSTR_ceil), MP_ROM_PTR(&ceil_function)},
    {MP_ROM_QSTR(MP_QSTR_clip), MP_ROM_PTR(&dev_np_clip_obj)},
    {MP_ROM_QSTR(MP_QSTR_column_stack), MP_ROM_PTR(&dev_np_column_stack_obj)},
    {MP_ROM_QSTR(MP_QSTR_concatenate), MP_ROM_PTR(&dev_np_concatenate_obj)},
    {MP_ROM_QSTR(MP_QSTR_copy), MP_ROM_PTR(&dev_np_copy_obj)},
    {MP_ROM_QSTR(MP_QSTR_copysign), MP_ROM_PTR(&copysign_function)},
    {MP_ROM_QSTR(MP_QSTR_cos), MP_ROM_PTR(&cos_function)},
    {MP_ROM_QSTR(MP_QSTR_cosh), MP_ROM_PTR(&cosh_function)},
    {MP_ROM_QSTR(MP_QSTR_count_nonzero), MP_ROM_PTR(&dev_np_count_nonzero_obj)},
    {MP_ROM_QSTR(MP_QSTR_cumprod), MP_ROM_PTR(&dev_np_cumprod_obj)},
    {MP_ROM_QSTR(MP_QSTR_cumsum), MP_ROM_PTR(&dev_np_cumsum_obj)},
    {MP_ROM_QSTR(MP_QSTR_divide), MP_ROM_PTR(&divide_function)},
    {MP_ROM_QSTR(MP_QSTR_divmod), MP_ROM_PTR(&dev_np_divmod_obj)},
    {MP_ROM_QSTR(MP_QSTR_dot), MP_ROM_PTR(&dev_np_dot_obj)},
    {MP_ROM_QSTR(MP_QSTR_dsplit), MP_ROM_PTR(&dev_np_dsplit_obj)},
    {MP_ROM_QSTR(MP_QSTR_dstack), MP_ROM_PTR(&dev_np_dstack_obj)},
    {MP_ROM_QSTR(MP_QSTR_empty), MP_ROM_PTR(&dev_np_zeros_obj)},
    {MP_ROM_QSTR(MP_QSTR_empty_like), MP_ROM_PTR(&dev_np_zeros_like_obj)},
    {MP_ROM_QSTR(MP_QSTR_equal), MP_ROM_PTR(&equal_function)},
    {MP_ROM_QSTR(MP_QSTR_exp), MP_ROM_PTR(&exp_function)},
    {MP_ROM_QSTR(MP_QSTR_exp2), MP_ROM_PTR(&exp2_function)},
    {MP_ROM_QSTR(MP_QSTR_expand_dims), MP_ROM_PTR(&dev_np_expand_dims_obj)},
    {MP_ROM_QSTR(MP_QSTR_expm1), MP_ROM_PTR(&expm1_function)},
    {MP_ROM_QSTR(MP_QSTR_eye), MP_ROM_PTR(&dev_np_eye_obj)},
    {MP_ROM_QSTR(MP_QSTR_fabs), MP_ROM_PTR(&fabs_function)},
    {MP_ROM_QSTR(MP_QSTR_fix), MP_ROM_PTR(&trunc_function)},
    {MP_ROM_QSTR(MP_QSTR_flatnonzero), MP_ROM_PTR(&dev_np_flatnonzero_obj)},
    {MP_ROM_QSTR(MP_QSTR_flip), MP_ROM_PTR(&dev_np_flip_obj)},
    {MP_ROM_QSTR(MP_QSTR_float_power), MP_ROM_PTR(&float_power_function)},
    {MP_ROM_QSTR(MP_QSTR_floor), MP_ROM_PTR(&floor_function)},
    {MP_ROM_QSTR(MP_QSTR_floor_divide), MP_ROM_PTR(&floor_divide_function)},
    {MP_ROM_QSTR(MP_QSTR_fmax), MP_ROM_PTR(&fmax_function)},
    {MP_ROM_QSTR(MP_QSTR_fmin), MP_ROM_PTR(&fmin_function)},
    {MP_ROM_QSTR(MP_QSTR_fmod), MP_ROM_PTR(&fmod_function)},
    {MP_ROM_QSTR(MP_QSTR_full), MP_ROM_PTR(&dev_np_full_obj)},
    {MP_ROM_QSTR(MP_QSTR_full_like), MP_ROM_PTR(&dev_np_full_like_obj)},
    {MP_ROM_QSTR(MP_QSTR_geomspace), MP_ROM_PTR(&dev_np_geomspace_obj)},
    {MP_ROM_QSTR(MP_QSTR_greater), MP_ROM_PTR(&greater_function)},
    {MP_ROM_QSTR(MP_QSTR_greater_equal), MP_ROM_PTR(&greater_equal_function)},
    {MP_ROM_QSTR(MP_QSTR_hsplit), MP_ROM_PTR(&dev_np_hsplit_obj)},
    {MP_ROM_QSTR(MP_QSTR_hstack), MP_ROM_PTR(&dev_np_hstack_obj)},
    {MP_ROM_QSTR(MP_QSTR_hypot), MP_ROM_PTR(&hypot_function)},
    {MP_ROM_QSTR(MP_QSTR_identity), MP_ROM_PTR(&dev_np_identity_obj)},
    {MP_ROM_QSTR(MP_QSTR_inner), MP_ROM_PTR(&dev_np_inner_obj)},
    {MP_ROM_QSTR(MP_QSTR_invert), MP_ROM_PTR(&invert_function)},
    {MP_ROM_QSTR(MP_QSTR_isfinite), MP_ROM_PTR(&isfinite_function)},
    {MP_ROM_QSTR(MP_QSTR_isinf), MP_ROM_PTR(&isinf_function)},
    {MP_ROM_QSTR(MP_QSTR_isnan), MP_ROM_PTR(&isnan_function)},
    {MP_ROM_QSTR(MP_QSTR_ldexp), MP_ROM_PTR(&ldexp_function)},
    {MP_ROM_QSTR(MP_QSTR_left_shift), MP_ROM_PTR(&left_shift_function)},
    {MP_ROM_QSTR(MP_QSTR_less), MP_ROM_PTR(&less_function)},
    {MP_ROM_QSTR(MP_QSTR_less_equal), MP_ROM_PTR(&less_equal_function)},
    {MP_ROM_QSTR(MP_QSTR_lexsort), MP_ROM_PTR(&dev_np_lexsort_obj)},
    {MP_ROM_QSTR(MP_QSTR_linspace), MP_ROM_PTR(&dev_np_linspace_obj)},
    {MP_ROM_QSTR(MP_QSTR_log), MP_ROM_PTR(&log_function)},
    {MP_ROM_QSTR(MP_QSTR_log10), MP_ROM_PTR(&log10_function)},
    {MP_ROM_QSTR(MP_QSTR_log1p), MP_ROM_PTR(&log1p_function)},
    {MP_ROM_QSTR(MP_QSTR_log2), MP_ROM_PTR(&log2_function)},
    {MP_ROM_QSTR(MP_QSTR_logaddexp), MP_ROM_PTR(&logaddexp_function)},
    {MP_ROM_QSTR(MP_QSTR_logaddexp2), MP_ROM_PTR(&logaddexp2_function)},
    {MP_ROM_QSTR(MP_QSTR_logical_and), MP_ROM_PTR(&logical_and_function)},
    {MP_ROM_QSTR(MP_QSTR_logical_not), MP_ROM_PTR(&logical_not_function)},
    {MP_ROM_QSTR(MP_QSTR_logical_or), MP_ROM_PTR(&logical_or_function)},
    {MP_ROM_QSTR(MP_QSTR_logical_xor), MP_ROM_PTR(&logical_xor_function)},
    {MP_ROM_QSTR(MP_QSTR_logspace), MP_ROM_PTR(&dev_np_logspace_obj)},
    {MP_ROM_QSTR(MP_QSTR_matmul), MP_ROM_PTR(&dev_np_matmul_obj)},
    {MP_ROM_QSTR(MP_QSTR_max), MP_ROM_PTR(&dev_np_max_obj)},
    {MP_ROM_QSTR(MP_QSTR_maximum), MP_ROM_PTR(&maximum_function)},
    {MP_ROM_QSTR(MP_QSTR_mean), MP_ROM_PTR(&dev_np_mean_obj)},
    {MP_ROM_QSTR(MP_QSTR_meshgrid), MP_ROM_PTR(&dev_np_meshgrid_obj)},
    {MP_ROM_QSTR(MP_QSTR_min), MP_ROM_PTR(&dev_np_min_obj)},
    {MP_ROM_QSTR(MP_QSTR_minimum), MP_ROM_PTR(&minimum_function)},
    {MP_ROM_QSTR(MP_QSTR_mod), MP_ROM_PTR(&remainder_function)},
    {MP_ROM_QSTR(MP_QSTR_modf), MP_ROM_PTR(&dev_np_modf_obj)},
    {MP_ROM_QSTR(MP_QSTR_moveaxis), MP_ROM_PTR(&dev_np_moveaxis_obj)},
    {MP_ROM_QSTR(MP_QSTR_msort), MP_ROM_PTR(&dev_np_msort_obj)},
    {MP_ROM_QSTR(MP_QSTR_multiply), MP_ROM_PTR(&multiply_function)},
    {MP_ROM_QSTR(MP_QSTR_nanargmax), MP_ROM_PTR(&dev_np_nanargmax_obj)},
    {MP_ROM_QSTR(MP_QSTR_nanargmin), MP_ROM_PTR(&dev_np_nanargmin_obj)},
    {MP_ROM_QSTR(MP_QSTR_nanmax), MP_ROM_PTR(&dev_np_nanmax_obj)},
    {MP_ROM_QSTR(MP_QSTR_nanmean), MP_ROM_PTR(&dev_np_nanmean_obj)},
    {MP_ROM_QSTR(MP_QSTR_nanmin), MP_ROM_PTR(&dev_np_nanmin_obj)},
    {MP_ROM_QSTR(MP_QSTR_nanprod), MP_ROM_PTR(&dev_np_nanprod_obj)},
    {MP_ROM_QSTR(MP_QSTR_nanstd), MP_ROM_PTR(&dev_np_nanstd_obj)},
    {MP_ROM_QSTR(MP_QSTR_nansum), MP_ROM_PTR(&dev_np_nansum_obj)},
    {MP_ROM_QSTR(MP_QSTR_nanvar), MP_ROM_PTR(&dev_np_nanvar_obj)},
    {MP_ROM_QSTR(MP_QSTR_ndarray), MP_ROM_PTR(&dev_np_array_type)},
    {MP_ROM_QSTR(MP_QSTR_ndim), MP_ROM_PTR(&dev_np_ndim_obj)},
    {MP_ROM_QSTR(MP_QSTR_negative), MP_ROM_PTR(&negative_function)},
    {MP_ROM_QSTR(MP_QSTR_nonzero), MP_ROM_PTR(&dev_np_nonzero_obj)},
    {MP_ROM_QSTR(MP_QSTR_not_equal), MP_ROM_PTR(&not_equal_function)},
    {MP_ROM_QSTR(MP_QSTR_ones), MP_ROM_PTR(&dev_np_ones_obj)},
    {MP_ROM_QSTR(MP_QSTR_ones_like), MP_ROM_PTR(&dev_np_ones_like_obj)},
    {MP_ROM_QSTR(MP_QSTR_outer), MP_ROM_PTR(&dev_np_outer_obj)},
    {MP_ROM_QSTR(MP_QSTR_pad), MP_ROM_PTR(&dev_np_pad_obj)},
    {MP_ROM_QSTR(MP_QSTR_positive), MP_ROM_PTR(&positive_function)},
    {MP_ROM_QSTR(MP_QSTR_power), MP_ROM_PTR(&power_function)},
    {MP_ROM_QSTR(MP_QSTR_prod), MP_ROM_PTR(&dev_np_prod_obj)},
    {MP_ROM_QSTR(MP_QSTR_ptp), MP_ROM_PTR(&dev_np_ptp_obj)},
    {MP_ROM_QSTR(MP_QSTR_ravel), MP_ROM_PTR(&dev_np_ravel_obj)},
    {MP_ROM_QSTR(MP_QSTR_reciprocal), MP_ROM_PTR(&reciprocal_function)},
    {MP_ROM_QSTR(MP_QSTR_remainder), MP_ROM_PTR(&remainder_function)},
    {MP_ROM_QSTR(MP_QSTR_repeat), MP_ROM_PTR(&dev_np_repeat_obj)},
    {MP_ROM_QSTR(MP_QSTR_repmat), MP_ROM_PTR(&dev_np_repmat_obj)},
    {MP_ROM_QSTR(MP_QSTR_reshape), MP_ROM_PTR(&dev_np_reshape_obj)},
    {MP_ROM_QSTR(MP_QSTR_right_shift), MP_ROM_PTR(&right_shift_function)},
    {MP_ROM_QSTR(MP_QSTR_rint), MP_ROM_PTR(&rint_function)},
    {MP_ROM_QSTR(MP_QSTR_roll), MP_ROM_PTR(&dev_np_roll_obj)},
    {MP_ROM_QSTR(MP_QSTR_rollaxis), MP_ROM_PTR(&dev_np_rollaxis_obj)},
    {MP_ROM_QSTR(MP_QSTR_round), MP_ROM_PTR(&dev_np_around_obj)},
    {MP_ROM_QSTR(MP_QSTR_round_), MP_ROM_PTR(&dev_np_around_obj)},
    {MP_ROM_QSTR(MP_QSTR_row_stack), MP_ROM_PTR(&dev_np_vstack_obj)},
    {MP_ROM_QSTR(MP_QSTR_searchsorted), MP_ROM_PTR(&dev_np_searchsorted_obj)},
    {MP_ROM_QSTR(MP_QSTR_shape), MP_ROM_PTR(&dev_np_shape_obj)},
    {MP_ROM_QSTR(MP_QSTR_sign), MP_ROM_PTR(&sign_function)},
    {MP_ROM_QSTR(MP_QSTR_signbit), MP_ROM_PTR(&signbit_function)},
    {MP_ROM_QSTR(MP_QSTR_sin), MP_ROM_PTR(&sin_function)},
    {MP_ROM_QSTR(MP_QSTR_sinc), MP_ROM_PTR(&sinc_function)},
    {MP_ROM_QSTR(MP_QSTR_sinh), MP_ROM_PTR(&sinh_function)},
    {MP_ROM_QSTR(MP_QSTR_size), MP_ROM_PTR(&dev_np_size_obj)},
    {MP_ROM_QSTR(MP_QSTR_sort), MP_ROM_PTR(&dev_np_sort_obj)},
    {MP_ROM_QSTR(MP_QSTR_split), MP_ROM_PTR(&dev_np_split_obj)},
    {MP_ROM_QSTR(MP_QSTR_sqrt), MP_ROM_PTR(&sqrt_function)},
    {MP_ROM_QSTR(MP_QSTR_square), MP_ROM_PTR(&square_function)},
    {MP_ROM_QSTR(MP_QSTR_squeeze), MP_ROM_PTR(&dev_np_squeeze_obj)},
    {MP_ROM_QSTR(MP_QSTR_stack), MP_ROM_PTR(&dev_np_stack_obj)},
    {MP_ROM_QSTR(MP_QSTR_std), MP_ROM_PTR(&dev_np_std_obj)},
    {MP_ROM_QSTR(MP_QSTR_subtract), MP_ROM_PTR(&subtract_function)},
    {MP_ROM_QSTR(MP_QSTR_sum), MP_ROM_PTR(&dev_np_sum_obj)},
    {MP_ROM_QSTR(MP_QSTR_swapaxes), MP_ROM_PTR(&dev_np_swapaxes_obj)},
    {MP_ROM_QSTR(MP_QSTR_take), MP_ROM_PTR(&dev_np_take_obj)},
    {MP_ROM_QSTR(MP_QSTR_tan), MP_ROM_PTR(&tan_function)},
    {MP_ROM_QSTR(MP_QSTR_tanh), MP_ROM_PTR(&tanh_function)},
    {MP_ROM_QSTR(MP_QSTR_tile), MP_ROM_PTR(&dev_np_tile_obj)},
    {MP_ROM_QSTR(MP_QSTR_transpose), MP_ROM_PTR(&dev_np_transpose_obj)},
    {MP_ROM_QSTR(MP_QSTR_true_divide), MP_ROM_PTR(&divide_function)},
    {MP_ROM_QSTR(MP_QSTR_trunc), MP_ROM_PTR(&trunc_function)},
    {MP_ROM_QSTR(MP_QSTR_unique), MP_ROM_PTR(&dev_np_unique_obj)},
    {MP_ROM_QSTR(MP_QSTR_unravel_index), MP_ROM_PTR(&dev_np_unravel_index_obj)},
    {MP_ROM_QSTR(MP_QSTR_var), MP_ROM_PTR(&dev_np_var_obj)},
    {MP_ROM_QSTR(MP_QSTR_vdot), MP_ROM_PTR(&dev_np_vdot_obj)},
    {MP_ROM_QSTR(MP_QSTR_vsplit), MP_ROM_PTR(&dev_np_vsplit_obj)},
    {MP_ROM_QSTR(MP_QSTR_vstack), MP_ROM_PTR(&dev_np_vstack_obj)},
    {MP_ROM_QSTR(MP_QSTR_where), MP_ROM_PTR(&dev_np_where_obj)},
    {MP_ROM_QSTR(MP_QSTR_zeros), MP_ROM_PTR(&dev_np_zeros_obj)},
    {MP_ROM_QSTR(MP_QSTR_zeros_like), MP_ROM_PTR(&dev_np_zeros_like_obj)},
    {MP_ROM_QSTR(MP_QSTR_fft), MP_ROM_PTR(&dev_np_module_fft)},
    {MP_ROM_QSTR(MP_QSTR_linalg), MP_ROM_PTR(&dev_np_module_linalg)},
    {MP_ROM_QSTR(MP_QSTR_random), MP_ROM_PTR(&dev_np_module_random)},
    {MP_ROM_QSTR(MP_QSTR_bool_), MP_ROM_QSTR(MP_QSTR_bool)},
    {MP_ROM_QSTR(MP_QSTR_uint8), MP_ROM_QSTR(MP_QSTR_uint8)},
    {MP_ROM_QSTR(MP_QSTR_int32), MP_ROM_QSTR(MP_QSTR_int32)},
    {MP_ROM_QSTR(MP_QSTR_int64), MP_ROM_QSTR(MP_QSTR_int64)},
    {MP_ROM_QSTR(MP_QSTR_uint64), MP_ROM_QSTR(MP_QSTR_uint64)},
    {MP_ROM_QSTR(MP_QSTR_float32), MP_ROM_QSTR(MP_QSTR_float32)},
    {MP_ROM_QSTR(MP_QSTR_float64), MP_ROM_QSTR(MP_QSTR_float64)},
    {MP_ROM_QSTR(MP_QSTR_newaxis), MP_ROM_NONE},
    {MP_ROM_QSTR(MP_QSTR_pi), MP_ROM_PTR(&pi_number)},
    {MP_ROM_QSTR(MP_QSTR_e), MP_ROM_PTR(&e_number)},
    {MP_ROM_QSTR(MP_QSTR_inf), MP_ROM_PTR(&inf_number)},
    {MP_ROM_QSTR(MP_QSTR_nan), MP_ROM_PTR(&nan_number)},
};
static MP_DEFINE_CONST_DICT(globals, globals_table);

const mp_obj_module_t dev_vm_module_np = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&globals,
};
