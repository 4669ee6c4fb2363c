// The shape of a pool as its forward and its gradient walk it: three spatial dims (missing ones are
// 1, in front), windows by dim.
#ifndef ENG_CPU_VEC_POOL_H
#define ENG_CPU_VEC_POOL_H

#include "backend/backend.h"

struct eng_vec_window;

// Which input positions a window of one dim covers: `count` from `first` on, dilation apart;
// `padded` counts positions within the padded extent.
struct eng_pool_span {
    int64_t first, count, padded;
};

struct eng_pool_shape {
    int64_t batch, channels, window; // window: positions of one
    int64_t in[ENG_SPATIAL_MAX], out[ENG_SPATIAL_MAX];
    int64_t dilation[ENG_SPATIAL_MAX];
    struct eng_pool_span *spans[ENG_SPATIAL_MAX]; // by output position
    bool count_include_pad;
};

// UNSUPPORTED: not float32, not channels-last, empty, or LP. The spans lie in ctx's arena.
BASE_NODISCARD enum base_status eng_pool_shape_of(const struct eng_prepare *ctx,
                                                  const struct eng_pool *pool,
                                                  const struct eng_tensor *input,
                                                  const struct eng_tensor *output,
                                                  struct eng_pool_shape *out_shape);
// What the windows of output row `row` (of all images and planes) share, and the offset of their
// first line in x; then what is the window's own at `column`. x is the caller's to set.
void eng_pool_row_window(const struct eng_pool_shape *shape, int64_t row, int64_t *out_offset,
                         struct eng_vec_window *out_window);
void eng_pool_column_window(const struct eng_pool_shape *shape, int64_t row, int64_t column,
                            struct eng_vec_window *window);

#endif
