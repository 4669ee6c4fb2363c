// walle.np: the loops of reductions.
#ifndef DEV_NP_FOLD_H
#define DEV_NP_FOLD_H

#include "vm/np/np.h"

enum np_fold {
    NP_SUM,
    NP_PRODUCT,
    NP_LEAST,
    NP_LARGEST,
    NP_LEAST_NUMBER, // of reals: a NaN is passed over
    NP_LARGEST_NUMBER,
    NP_ANY,
    NP_ALL,
    NP_REAL_SUM, // in float64 for whole numbers, which a mean is made of
    NP_FOLDS
};

// at[0] is the result so far, of dev_np_fold_type, and at[1] elements of `type`. Never NULL.
np_loop *dev_np_fold_loop(enum np_fold fold, enum np_type type);
enum np_type dev_np_fold_type(enum np_fold fold, enum np_type type);

// Index of the least or the largest of `count` > 0 elements, the first of equals; the first NaN.
typedef size_t np_place(const uint8_t *from, int64_t step, size_t count);
np_place *dev_np_place(bool is_largest, enum np_type type);

// --- by what the processor has (np_wide.c chooses)
np_loop *dev_np_fold_plain(enum np_fold fold, enum np_type type);
np_loop *dev_np_fold_wide(enum np_fold fold, enum np_type type);
np_place *dev_np_places_plain(bool is_largest, enum np_type type);
np_place *dev_np_places_wide(bool is_largest, enum np_type type);

// --- np_reduce.c
// Folds the dimensions whose bit is set in `axes`; they stay, with one element. NULL where there is
// nothing to fold and no value to begin with.
struct np_array *dev_np_reduce(enum np_fold fold, const struct np_array *from, uint32_t axes);

// What a script said: which dimensions, and whether they stay.
struct np_folding {
    const struct np_array *from;
    uint32_t axes; // a bit for each
    bool keeps;
};
// Of the arguments (a, axis=None, dtype=None, out=None, keepdims=False), without dtype, and with
// ddof=0 before keepdims. They raise what is wrong with them.
struct np_folding dev_np_folding_typed(size_t count, const mp_obj_t *args, mp_map_t *named);
struct np_folding dev_np_folding_plain(size_t count, const mp_obj_t *args, mp_map_t *named);
struct np_folding dev_np_folding_spread(size_t count, const mp_obj_t *args, mp_map_t *named,
                                        double *out_ddof);
// The result as the script wants it: without the dimensions that were folded, or with.
mp_obj_t dev_np_folding_given(const struct np_folding *folding, struct np_array *made);
mp_obj_t dev_np_folded(const struct np_folding *folding, enum np_fold fold); // raises for nothing
mp_obj_t dev_np_folded_places(const struct np_folding *folding, bool is_largest);
struct np_array *dev_np_mean_of(const struct np_array *from, uint32_t axes);
struct np_array *dev_np_variance_of(const struct np_array *from, uint32_t axes, double ddof);
// How many elements come to one result.
double dev_np_folded_count(const struct np_array *from, uint32_t axes);

#endif
