// Ready-made transforms: reshape, transpose, slice, concat, expand, as virtual tensors. Called by
// the handlers of lower/ops and by the emits, on the planning thread. None of them appends a
// command: each is regions over its operand (lower_virtual.c), so that a chain of them is composed
// to one move before anything runs. Shapes are checked here, and a refusal names the node that is
// being lowered.
#include "lower/lower_state.h"

#include "base/check.h"

#include <string.h>

enum base_status eng_lower_reshape(struct eng_lower *lower, uint32_t tensor,
                                   const struct eng_desc *desc, uint32_t *out)
{
    base_assert(tensor < lower->program->tensor_count);
    struct eng_desc shape = *desc;
    uint32_t plain;
    BASE_TRY(eng_lower_plain(lower, tensor, &plain));
    shape.dtype = eng_lower_desc(lower, plain)->dtype;
    int64_t count;
    enum base_status status = eng_desc_check(&shape, &count);
    if (status != BASE_OK || count != eng_desc_count(eng_lower_desc(lower, plain))) {
        char from[64];
        char to[64];
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID, "%s cannot be seen as %s",
                              eng_desc_text(eng_lower_desc(lower, plain), from, sizeof(from)),
                              eng_desc_text(&shape, to, sizeof(to)));
    }
    const struct eng_wide wide = {.source = plain, .rank = 1, .dims = {{count, 1, 1}}};
    return eng_lower_move(lower, &shape, ENG_PLAIN, &wide, out);
}

enum base_status eng_lower_transpose(struct eng_lower *lower, uint32_t tensor, const uint32_t *perm,
                                     uint32_t *out)
{
    base_assert(tensor < lower->program->tensor_count);
    uint32_t plain;
    BASE_TRY(eng_lower_plain(lower, tensor, &plain));
    const struct eng_desc from = *eng_lower_desc(lower, plain);
    struct eng_desc to = from;
    int64_t src[ENG_RANK_MAX];
    int64_t dst[ENG_RANK_MAX];
    uint32_t seen = 0;
    for (uint32_t d = 0; d < from.rank; d++) {
        if (perm[d] >= from.rank || (seen & 1u << perm[d]) != 0) {
            return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID,
                                  "not a permutation of %u dims", from.rank);
        }
        seen |= 1u << perm[d];
        to.dims[d] = from.dims[perm[d]];
    }
    eng_layout_strides(&from, ENG_PLAIN, src);
    eng_layout_strides(&to, ENG_PLAIN, dst);
    struct eng_wide wide = {.source = plain, .rank = from.rank};
    for (uint32_t d = 0; d < from.rank; d++) {
        wide.dims[d] = (struct eng_wide_dim){to.dims[d], src[perm[d]], dst[d]};
    }
    return eng_lower_move(lower, &to, ENG_PLAIN, &wide, out);
}

struct eng_slice eng_slice_whole(const struct eng_desc *desc)
{
    base_assert(desc->rank <= ENG_RANK_MAX);
    struct eng_slice slice = {.start = {0}};
    for (uint32_t d = 0; d < desc->rank; d++) {
        slice.step[d] = 1;
        slice.size[d] = desc->dims[d];
    }
    return slice;
}

// Whether all that is taken of dim `axis` lies within it.
static bool slice_fits(const struct eng_slice *slice, uint32_t axis, int64_t dim)
{
    int64_t start = slice->start[axis];
    int64_t size = slice->size[axis];
    int64_t last;
    return size == 0 || (size > 0 && start >= 0 && start < dim &&
                         !__builtin_mul_overflow(size - 1, slice->step[axis], &last) &&
                         !__builtin_add_overflow(last, start, &last) && last >= 0 && last < dim);
}

enum base_status eng_lower_slice(struct eng_lower *lower, uint32_t tensor,
                                 const struct eng_slice *slice, uint32_t *out)
{
    base_assert(tensor < lower->program->tensor_count);
    uint32_t plain;
    BASE_TRY(eng_lower_plain(lower, tensor, &plain));
    const struct eng_desc from = *eng_lower_desc(lower, plain);
    struct eng_desc to = from;
    int64_t src[ENG_RANK_MAX];
    int64_t dst[ENG_RANK_MAX];
    eng_layout_strides(&from, ENG_PLAIN, src);
    for (uint32_t d = 0; d < from.rank; d++) {
        if (!slice_fits(slice, d, from.dims[d])) {
            return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID,
                                  "a slice outside of axis %u", d);
        }
        to.dims[d] = slice->size[d];
    }
    eng_layout_strides(&to, ENG_PLAIN, dst);
    struct eng_wide wide = {.source = plain, .rank = from.rank};
    for (uint32_t d = 0; d < from.rank; d++) {
        int64_t step = to.dims[d] > 1 ? slice->step[d] * src[d] : 0;
        wide.dims[d] = (struct eng_wide_dim){to.dims[d], step, dst[d]};
        wide.src_offset += to.dims[d] > 0 ? slice->start[d] * src[d] : 0;
    }
    return eng_lower_move(lower, &to, ENG_PLAIN, &wide, out);
}

// Shape of a concatenation. INVALID: the parts do not fit each other.
static enum base_status concat_desc(struct eng_lower *lower, const uint32_t *tensors,
                                    uint32_t count, uint32_t axis, struct eng_desc *out)
{
    if (count == 0) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID, "nothing to concatenate");
    }
    struct eng_desc to = *eng_lower_desc(lower, tensors[0]);
    for (uint32_t i = 0; i < count; i++) {
        const struct eng_desc *from = eng_lower_desc(lower, tensors[i]);
        bool same = from->rank == to.rank && from->dtype == to.dtype && axis < to.rank;
        for (uint32_t d = 0; same && d < to.rank; d++) {
            same = d == axis || from->dims[d] == to.dims[d];
        }
        if (!same ||
            (i > 0 && __builtin_add_overflow(to.dims[axis], from->dims[axis], &to.dims[axis]))) {
            char text[64];
            return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID,
                                  "part %u of shape %s does not fit", i,
                                  eng_desc_text(from, text, sizeof(text)));
        }
    }
    base_assert(axis < to.rank);
    *out = to;
    return BASE_OK;
}

enum base_status eng_lower_concat(struct eng_lower *lower, const uint32_t *tensors, uint32_t count,
                                  uint32_t axis, uint32_t *out)
{
    struct eng_desc to;
    BASE_TRY(concat_desc(lower, tensors, count, axis, &to));
    uint32_t *plain = base_arena_alloc(lower->arena, count * sizeof(uint32_t));
    if (plain == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(eng_lower_plain(lower, tensors[i], &plain[i]));
    }
    struct eng_move move;
    BASE_TRY(eng_lower_begin(lower, &to, &move));
    int64_t src[ENG_RANK_MAX];
    int64_t dst[ENG_RANK_MAX];
    eng_layout_strides(&to, ENG_PLAIN, dst);
    int64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct eng_desc *from = eng_lower_desc(lower, plain[i]);
        struct eng_wide wide = {.source = plain[i], .rank = to.rank, .dst_offset = at * dst[axis]};
        eng_layout_strides(from, ENG_PLAIN, src);
        for (uint32_t d = 0; d < to.rank; d++) {
            wide.dims[d] = (struct eng_wide_dim){from->dims[d], src[d], dst[d]};
        }
        at += from->dims[axis];
        BASE_TRY(eng_lower_add(lower, &move, &wide));
    }
    base_assert(at == to.dims[axis]);
    return eng_lower_end(lower, &move, ENG_PLAIN, out);
}

enum base_status eng_lower_expand(struct eng_lower *lower, uint32_t tensor,
                                  const struct eng_desc *desc, uint32_t *out)
{
    base_assert(tensor < lower->program->tensor_count);
    uint32_t plain;
    BASE_TRY(eng_lower_plain(lower, tensor, &plain));
    const struct eng_desc from = *eng_lower_desc(lower, plain);
    struct eng_desc to = *desc;
    to.dtype = from.dtype;
    bool fits = from.rank <= to.rank && to.rank <= ENG_RANK_MAX;
    uint32_t skip = to.rank - from.rank;
    for (uint32_t d = 0; fits && d < from.rank; d++) {
        fits = from.dims[d] == 1 || from.dims[d] == to.dims[skip + d];
    }
    int64_t elements;
    if (!fits || eng_desc_check(&to, &elements) != BASE_OK) {
        char text[2][64];
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID, "%s does not expand to %s",
                              eng_desc_text(&from, text[0], sizeof(text[0])),
                              eng_desc_text(&to, text[1], sizeof(text[1])));
    }
    int64_t src[ENG_RANK_MAX];
    int64_t dst[ENG_RANK_MAX];
    eng_layout_strides(&from, ENG_PLAIN, src);
    eng_layout_strides(&to, ENG_PLAIN, dst);
    struct eng_wide wide = {.source = plain, .rank = to.rank};
    for (uint32_t d = 0; d < to.rank; d++) {
        bool stays = d < skip || from.dims[d - skip] == 1;
        wide.dims[d] = (struct eng_wide_dim){to.dims[d], stays ? 0 : src[d - skip], dst[d]};
    }
    return eng_lower_move(lower, &to, ENG_PLAIN, &wide, out);
}
