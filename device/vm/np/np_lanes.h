// walle.np: going through arrays along one of their dimensions.
#ifndef DEV_NP_LANES_H
#define DEV_NP_LANES_H

#include "vm/np/np.h"

// One lane of each array: where it begins and the step to its next element, in bytes.
struct np_lane {
    uint8_t *at[NP_OPERANDS];
    int64_t steps[NP_OPERANDS];
    void *ctx;
};

struct np_lanes {
    uint32_t count; // of arrays
    uint32_t axis;
    size_t work; // what one lane costs, in elements
    void *ctx;
};

// Calls `each` for every lane along an axis. The arrays have the same dimensions but for that one.
void dev_np_lanes(const struct np_array *const *arrays, const struct np_lanes *lanes,
                  void (*each)(const struct np_lane *lane));

#endif
