// walle.np: the functions that its table and the table of an array's methods name, by file; and
// what these files use of one another.
#ifndef DEV_NP_CALLS_H
#define DEV_NP_CALLS_H

#include "vm/np/np.h"

// --- np_shape.c
struct np_array *dev_np_flat(const struct np_array *array); // of one dimension, shared where dense
struct np_array *dev_np_expanded(const struct np_array *array, uint32_t axis); // one of size 1 more
mp_obj_t dev_np_transposed(const struct np_array *array);
// --- np_reduce.c
uint32_t dev_np_axes(mp_obj_t axis, uint32_t rank); // a bit for each; None: all

// --- np_make.c
// `size` reals from first to last, which is the last of them where it is an end; raises for size <
// 0
struct np_array *dev_np_line(double first, double last, int64_t size, bool has_end);

// --- np_grid.c
extern const mp_obj_fun_builtin_fixed_t dev_np_unravel_index_obj;
extern const mp_obj_fun_builtin_var_t dev_np_logspace_obj, dev_np_geomspace_obj,
    dev_np_meshgrid_obj, dev_np_broadcast_arrays_obj, dev_np_array_equal_obj;
// --- np_join.c
extern const mp_obj_fun_builtin_fixed_t dev_np_vstack_obj, dev_np_hstack_obj, dev_np_dstack_obj,
    dev_np_column_stack_obj, dev_np_vsplit_obj, dev_np_hsplit_obj, dev_np_dsplit_obj;
extern const mp_obj_fun_builtin_var_t dev_np_concatenate_obj, dev_np_stack_obj, dev_np_split_obj,
    dev_np_array_split_obj;
// --- np_linear.c
extern const mp_obj_fun_builtin_fixed_t dev_np_matmul_obj, dev_np_dot_obj, dev_np_inner_obj,
    dev_np_vdot_obj, dev_np_outer_obj;
// --- np_make.c
extern const mp_obj_fun_builtin_fixed_t dev_np_copy_obj;
extern const mp_obj_fun_builtin_var_t dev_np_asarray_obj, dev_np_astype_obj, dev_np_zeros_obj,
    dev_np_ones_obj, dev_np_full_obj, dev_np_zeros_like_obj, dev_np_ones_like_obj,
    dev_np_full_like_obj, dev_np_arange_obj, dev_np_linspace_obj, dev_np_eye_obj,
    dev_np_identity_obj, dev_np_asfarray_obj;
// --- np_move.c
extern const mp_obj_fun_builtin_fixed_t dev_np_tile_obj, dev_np_nonzero_obj, dev_np_flatnonzero_obj,
    dev_np_argwhere_obj, dev_np_repmat_obj;
extern const mp_obj_fun_builtin_var_t dev_np_repeat_obj, dev_np_roll_obj, dev_np_pad_obj,
    dev_np_take_obj, dev_np_where_obj, dev_np_clip_obj;
// --- np_nan.c
extern const mp_obj_fun_builtin_var_t dev_np_nansum_obj, dev_np_nanprod_obj, dev_np_nanmin_obj,
    dev_np_nanmax_obj, dev_np_nanargmin_obj, dev_np_nanargmax_obj, dev_np_nanmean_obj,
    dev_np_nanvar_obj, dev_np_nanstd_obj, dev_np_average_obj;
// --- np_object.c
extern const mp_obj_fun_builtin_fixed_t dev_np_item_obj;
// --- np_reduce.c
extern const mp_obj_fun_builtin_var_t dev_np_mean_obj, dev_np_var_obj, dev_np_std_obj,
    dev_np_ptp_obj, dev_np_count_nonzero_obj, dev_np_argmax_obj, dev_np_argmin_obj,
    dev_np_cumsum_obj, dev_np_cumprod_obj, dev_np_sum_obj, dev_np_prod_obj, dev_np_min_obj,
    dev_np_max_obj, dev_np_any_obj, dev_np_all_obj;
// --- np_round.c
extern const mp_obj_fun_builtin_fixed_t dev_np_divmod_obj, dev_np_modf_obj;
extern const mp_obj_fun_builtin_var_t dev_np_around_obj;
// --- np_shape.c
extern const mp_obj_fun_builtin_fixed_t dev_np_reshape_obj, dev_np_ravel_obj, dev_np_flatten_obj,
    dev_np_swapaxes_obj, dev_np_moveaxis_obj, dev_np_expand_dims_obj, dev_np_broadcast_to_obj,
    dev_np_atleast_1d_obj, dev_np_atleast_2d_obj, dev_np_atleast_3d_obj, dev_np_shape_obj,
    dev_np_size_obj, dev_np_ndim_obj;
extern const mp_obj_fun_builtin_var_t dev_np_reshape_method_obj, dev_np_transpose_obj,
    dev_np_transpose_method_obj, dev_np_squeeze_obj, dev_np_flip_obj, dev_np_rollaxis_obj;
// --- np_sort.c
extern const mp_obj_fun_builtin_fixed_t dev_np_msort_obj;
extern const mp_obj_fun_builtin_var_t dev_np_sort_obj, dev_np_sort_method_obj, dev_np_argsort_obj,
    dev_np_lexsort_obj, dev_np_searchsorted_obj, dev_np_unique_obj;

#endif
