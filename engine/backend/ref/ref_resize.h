// How one dimension is resized: for the reference kernel, and for gradients, which need the same
// weights the other way round.
#ifndef ENG_REF_RESIZE_H
#define ENG_REF_RESIZE_H

#include "program/program.h"

#define ENG_RESIZE_TAPS_MAX 4

// Which elements of a row make one element of the resized row.
struct eng_resize_taps {
    bool is_outside; // TF_CROP: the extrapolation value instead
    int count;
    int64_t at[ENG_RESIZE_TAPS_MAX];
    double weight[ENG_RESIZE_TAPS_MAX];
};

// Element `index` of dimension `dim`, `in` elements (at least 1) resized to `out`.
struct eng_resize_taps eng_resize_taps_of(const struct eng_resize *resize, uint32_t dim, int64_t in,
                                          int64_t out, int64_t index);
// Whether the dimension stays as it is.
bool eng_resize_is_identity(const struct eng_resize *resize, uint32_t dim, int64_t in, int64_t out);

#endif
