// walle.np.linalg: the functions of its table that lie in other files than the table.
#ifndef DEV_NP_LINALG_H
#define DEV_NP_LINALG_H

#include "vm/np/np.h"

// --- np_norm.c
extern const mp_obj_fun_builtin_var_t
    dev_np_norm_obj; // norm(x, ord=None, axis=None, keepdims=False)

// --- np_svd.c
extern const mp_obj_fun_builtin_var_t dev_np_svd_obj, // svd(a, full_matrices=True, compute_uv=True)
    dev_np_matrix_rank_obj,                           // matrix_rank(A, tol=None)
    dev_np_pinv_obj,                                  // pinv(a, rcond=1e-15)
    dev_np_lstsq_obj,                                 // lstsq(a, b, rcond=-1)
    dev_np_eigh_obj,                                  // eigh(a, UPLO='L')
    dev_np_eigvalsh_obj;                              // eigvalsh(a, UPLO='L')

#endif
