// Boxes and views behind the fusion passes (fuse_*.c) and plan_memory.c; on the planning thread.
// Pure questions: is a view dense, one value, one a channel; how does it look over other dims. Two
// commands may be fused when one's box can be refined until the other's views fit it, so the passes
// decide and the arithmetic of dims and strides is all here.
#include "program/box_view.h"

#include "base/check.h"

int64_t eng_box_count(const struct eng_box *box)
{
    base_assert(box->rank <= ENG_RANK_MAX);
    int64_t count = 1;
    for (uint32_t d = 0; d < box->rank; d++) {
        count *= box->size[d];
    }
    return count;
}

bool eng_view_is_dense(const struct eng_box *box, const struct eng_view *view)
{
    base_assert(box->rank <= ENG_RANK_MAX);
    int64_t step = 1;
    for (uint32_t d = box->rank; d > 0; d--) {
        if (box->size[d - 1] != 1 && view->stride[d - 1] != step) {
            return false;
        }
        step *= box->size[d - 1];
    }
    return view->offset == 0;
}

bool eng_view_is_one(const struct eng_box *box, const struct eng_view *view)
{
    base_assert(box->rank <= ENG_RANK_MAX);
    for (uint32_t d = 0; d < box->rank; d++) {
        if (box->size[d] != 1 && view->stride[d] != 0) {
            return false;
        }
    }
    return true;
}

bool eng_view_is_channel(const struct eng_box *box, const struct eng_view *view, int64_t channels,
                         int64_t inner)
{
    base_assert(box->rank <= ENG_RANK_MAX);
    int64_t position = 1; // elements of the box inside the dim looked at
    for (uint32_t d = box->rank; d > 0; d--) {
        int64_t size = box->size[d - 1], wanted = 0;
        if (size == 1) {
            continue;
        }
        if (size <= 0) {
            return false;
        }
        if (position < inner) {
            if (inner % position != 0 || (inner / position) % size != 0) {
                return false; // the dim crosses from inside a channel to the next one
            }
        } else if (position < inner * channels) {
            if (position % inner != 0 || (inner * channels / position) % size != 0) {
                return false;
            }
            wanted = position / inner;
        }
        if (view->stride[d - 1] != wanted) {
            return false;
        }
        position *= size;
    }
    return view->offset == 0 && position >= inner * channels && position % (inner * channels) == 0;
}

bool eng_view_split(const struct eng_box *box, const struct eng_view *view, uint32_t rank,
                    const int64_t *sizes, int64_t *out_strides)
{
    base_assert(box->rank <= ENG_RANK_MAX);
    base_assert(rank <= ENG_RANK_MAX);
    uint32_t from = box->rank;  // dims of the box not used up
    int64_t left = 1, step = 0; // what is left of the last one taken
    for (uint32_t d = rank; d > 0; d--) {
        int64_t wanted = sizes[d - 1];
        out_strides[d - 1] = 0;
        if (wanted == 1) {
            continue;
        }
        if (wanted <= 0) {
            return false;
        }
        while (left % wanted != 0 || left == 1) {
            while (from > 0 && box->size[from - 1] == 1) {
                from--;
            }
            if (from == 0 || (left != 1 && view->stride[from - 1] != step * left)) {
                return false;
            }
            if (left == 1) {
                step = view->stride[from - 1];
            } else if (wanted % left != 0) {
                return false;
            }
            left *= box->size[--from];
            if (left > ENG_ELEMENTS_MAX) {
                return false;
            }
        }
        out_strides[d - 1] = step;
        left /= wanted;
        step *= wanted;
    }
    while (from > 0 && box->size[from - 1] == 1) {
        from--;
    }
    return from == 0 && left == 1;
}

bool eng_box_refine(const struct eng_box *left, const struct eng_box *right, struct eng_box *out)
{
    base_assert(left->rank <= ENG_RANK_MAX && right->rank <= ENG_RANK_MAX);
    int64_t reversed[ENG_RANK_MAX];
    uint32_t rank = 0, i = left->rank, j = right->rank;
    int64_t left_a = 1, left_b = 1;
    for (;;) {
        while (left_a == 1 && i > 0) {
            left_a = left->size[--i];
        }
        while (left_b == 1 && j > 0) {
            left_b = right->size[--j];
        }
        if (left_a == 1 && left_b == 1) {
            break;
        }
        int64_t part = left_a < left_b ? left_a : left_b;
        if (part <= 1 || left_a % part != 0 || left_b % part != 0 || rank == ENG_RANK_MAX) {
            return false;
        }
        reversed[rank++] = part;
        left_a /= part;
        left_b /= part;
    }
    *out = (struct eng_box){.rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        out->size[d] = reversed[rank - 1 - d];
    }
    return true;
}

static bool steps_evenly(const struct eng_view *view, uint32_t outer, uint32_t inner, int64_t size)
{
    return view->stride[outer] == view->stride[inner] * size;
}

void eng_box_collapse(struct eng_box *box, struct eng_view *views, uint32_t count)
{
    base_assert(box->rank <= ENG_RANK_MAX);
    uint32_t kept = 0;
    for (uint32_t d = 0; d < box->rank; d++) {
        if (box->size[d] == 1) {
            continue;
        }
        bool joins = kept > 0;
        for (uint32_t v = 0; v < count && joins; v++) {
            joins = steps_evenly(&views[v], kept - 1, d, box->size[d]);
        }
        uint32_t to = joins ? kept - 1 : kept++;
        base_assert(to <= d);
        box->size[to] = joins ? box->size[to] * box->size[d] : box->size[d];
        for (uint32_t v = 0; v < count; v++) {
            views[v].stride[to] = views[v].stride[d];
        }
    }
    for (uint32_t v = 0; v < count; v++) {
        for (uint32_t d = kept; d < ENG_RANK_MAX; d++) {
            views[v].stride[d] = 0;
        }
    }
    for (uint32_t d = kept; d < ENG_RANK_MAX; d++) {
        box->size[d] = 0;
    }
    box->rank = kept;
}
