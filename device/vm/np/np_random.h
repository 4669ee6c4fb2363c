// walle.np.random: the functions of its table that lie in another file than the table, and what the
// files share.
#ifndef DEV_NP_RANDOM_H
#define DEV_NP_RANDOM_H

#include "vm/np/np.h"

// --- np_random.c
struct np_array *dev_np_sized(enum np_type type, mp_obj_t size); // None: without dimensions

// --- np_random_whole.c
// randint(low, high=None, size=None, dtype=int)
extern const mp_obj_fun_builtin_var_t dev_np_randint_obj;
extern const mp_obj_fun_builtin_fixed_t dev_np_shuffle_obj, dev_np_permutation_obj;
// choice(a, size=None, replace=True, p=None)
extern const mp_obj_fun_builtin_var_t dev_np_choice_obj;

#endif
