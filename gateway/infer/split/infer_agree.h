// Is the answer of a shadow the one that the caller got? Pure; any thread.
#ifndef GW_INFER_AGREE_H
#define GW_INFER_AGREE_H

#include "engine/tensor.h"

#include <stdbool.h>

// Zeroed: numbers must be equal.
struct gw_infer_agree {
    double absolute; // numbers may be so far apart, and
    double relative; // ... by so much of the larger of the two
    bool argmax;     // instead: in each row of the last dimension the largest is at the same place
};

// Same type and shape, and elements that agree. A NaN agrees with a NaN, text and truth values with
// what is equal, whole numbers as others do. With `argmax`: of tensors of numbers with a dimension;
// others are compared as without it.
bool gw_infer_agrees(const struct gw_infer_agree *rule, const struct eng_array *one,
                     const struct eng_array *other);

#endif
