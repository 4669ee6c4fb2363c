// Questions about boxes and views: what order do they read a tensor in, and how do they look over
// other dims. Pure; the passes ask.
#ifndef ENG_PROGRAM_BOX_VIEW_H
#define ENG_PROGRAM_BOX_VIEW_H

#include "program/program.h"

int64_t eng_box_count(const struct eng_box *box);
// Element i of the box is element i of the tensor.
bool eng_view_is_dense(const struct eng_box *box, const struct eng_view *view);
// The same element everywhere.
bool eng_view_is_one(const struct eng_box *box, const struct eng_view *view);
// Element i of the box is element (i / inner) % channels of the tensor.
bool eng_view_is_channel(const struct eng_box *box, const struct eng_view *view, int64_t channels,
                         int64_t inner);
// Strides of the view over `rank` dims of other sizes with the same product, in the same row-major
// order. False when they cannot be told by one stride a dim.
bool eng_view_split(const struct eng_box *box, const struct eng_view *view, uint32_t rank,
                    const int64_t *sizes, int64_t *out_strides);
// The coarsest box both can be split into. False: none of ENG_RANK_MAX dims, or other counts.
bool eng_box_refine(const struct eng_box *left, const struct eng_box *right, struct eng_box *out);
// Drops dims of size 1 and joins neighbours that every view steps through evenly.
void eng_box_collapse(struct eng_box *box, struct eng_view *views, uint32_t count);

#endif
