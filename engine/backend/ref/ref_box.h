// Walking over the boxes of the reference backend: row by row, the innermost dimension left to the
// caller.
#ifndef ENG_REF_BOX_H
#define ENG_REF_BOX_H

#include "program/scalar.h"

#include <stdint.h>

// One row of a box, innermost dimension: operand v starts at at[v] and advances by step[v]; the
// output's elements are out, out + 1, ...
typedef void (*eng_ref_row_fn)(void *ctx, int64_t out, const int64_t *at, const int64_t *step,
                               int64_t count);
void eng_ref_rows(const struct eng_box *box, const struct eng_view *views, uint32_t view_count,
                  eng_ref_row_fn row, void *ctx);

#endif
