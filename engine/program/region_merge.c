// Composition of two regions over the tensor between them. Called by lowering on the planning
// thread; knows nothing of programs.
//
// Addresses of the tensor in between are written in a mixed radix whose levels are strides, each a
// multiple of the next: the strides inner writes with, and, when that is not enough, the strides
// outer reads with as well. A dim that runs past its level is split by an integer factor and the
// rest moves one level up. On every level both sides are then intervals, and composing is
// intersecting them: outer's dims are clipped, and their source strides become inner's.
#include "program/region_merge.h"

#include "base/check.h"

#include <string.h>

#define LEVELS_MAX (2 * ENG_WIDE_RANK_MAX)

struct level {
    int64_t step;               // stride of this level
    int64_t range;              // coordinates below this; INT64_MAX on the top level
    int64_t outer_at, inner_at; // first coordinates
    int64_t inner_size;         // 0: inner does not step here (one coordinate)
    int64_t inner_src;          // source stride of inner's step
};
struct grid {
    uint32_t count; // from the largest step to the smallest
    struct level levels[LEVELS_MAX];
};
// One dim of outer while it is worked on.
struct piece {
    uint32_t level; // LEVELS_MAX: reads one place (stride 0)
    int64_t factor; // coordinates of the level per step
    int64_t size, dst;
};
struct pieces {
    uint32_t count;
    struct piece items[ENG_WIDE_RANK_MAX];
};

static bool add_step(struct grid *grid, int64_t step)
{
    uint32_t at = 0;
    while (at < grid->count && grid->levels[at].step > step) {
        at++;
    }
    if (at < grid->count && grid->levels[at].step == step) {
        return true;
    }
    if (grid->count == LEVELS_MAX) {
        return false;
    }
    memmove(&grid->levels[at + 1], &grid->levels[at], (grid->count - at) * sizeof(struct level));
    grid->levels[at] = (struct level){.step = step};
    grid->count++;
    return true;
}

// Builds the levels. False: the strides do not divide each other.
static bool build_grid(struct grid *grid, const struct eng_wide *outer,
                       const struct eng_wide *inner, bool with_outer)
{
    grid->count = 0;
    for (uint32_t d = 0; d < inner->rank; d++) {
        if (inner->dims[d].dst <= 0 || !add_step(grid, inner->dims[d].dst)) {
            return false;
        }
    }
    for (uint32_t d = 0; with_outer && d < outer->rank; d++) {
        if (outer->dims[d].src != 0 && !add_step(grid, outer->dims[d].src)) {
            return false;
        }
    }
    if (grid->count == 0 && !add_step(grid, 1)) {
        return false;
    }
    for (uint32_t i = 0; i < grid->count; i++) {
        struct level *level = &grid->levels[i];
        level->range = INT64_MAX;
        if (i > 0) {
            if (grid->levels[i - 1].step % level->step != 0) {
                return false;
            }
            level->range = grid->levels[i - 1].step / level->step;
        }
        int64_t outer_at = outer->src_offset / level->step;
        int64_t inner_at = inner->dst_offset / level->step;
        level->outer_at = i > 0 ? outer_at % level->range : outer_at;
        level->inner_at = i > 0 ? inner_at % level->range : inner_at;
    }
    return true;
}

static bool place_inner(struct grid *grid, const struct eng_wide *inner)
{
    for (uint32_t d = 0; d < inner->rank; d++) {
        uint32_t at = 0;
        while (grid->levels[at].step != inner->dims[d].dst) {
            at++;
        }
        int64_t size = inner->dims[d].size;
        int64_t src = inner->dims[d].src;
        for (;; at--) {
            struct level *level = &grid->levels[at];
            if (level->inner_size != 0) {
                return false;
            }
            level->inner_src = src;
            if (size <= level->range - level->inner_at) {
                level->inner_size = size;
                break;
            }
            if (level->inner_at != 0 || size % level->range != 0) {
                return false;
            }
            level->inner_size = level->range;
            size /= level->range;
            src *= level->range;
        }
    }
    return true;
}

// Gives each dim of outer its level.
static bool place_outer(const struct grid *grid, const struct eng_wide *outer,
                        struct pieces *pieces)
{
    pieces->count = 0;
    for (uint32_t d = 0; d < outer->rank; d++) {
        const struct eng_wide_dim *dim = &outer->dims[d];
        struct piece *piece = &pieces->items[pieces->count++];
        *piece = (struct piece){LEVELS_MAX, 0, dim->size, dim->dst};
        if (dim->src == 0) {
            continue;
        }
        uint32_t at = 0;
        while (at < grid->count && dim->src % grid->levels[at].step != 0) {
            at++;
        }
        if (at == grid->count) {
            return false;
        }
        piece->level = at;
        piece->factor = dim->src / grid->levels[at].step;
    }
    return true;
}

// Splits what runs past its level, from the finest level up; false when a level still overflows.
static bool split_outer(const struct grid *grid, struct pieces *pieces)
{
    for (uint32_t at = grid->count; at-- > 1;) {
        const struct level *level = &grid->levels[at];
        int64_t last = level->outer_at;
        uint32_t count = pieces->count;
        for (uint32_t p = 0; p < count; p++) {
            struct piece *piece = &pieces->items[p];
            if (piece->level != at) {
                continue;
            }
            int64_t period = piece->factor > level->range ? 0 : level->range / piece->factor;
            if (piece->size > period && period > 0 && level->range % piece->factor == 0 &&
                piece->size % period == 0 && pieces->count < ENG_WIDE_RANK_MAX) {
                pieces->items[pieces->count++] =
                    (struct piece){at - 1, 1, piece->size / period, piece->dst * period};
                piece->size = period;
            }
            int64_t span;
            if (__builtin_mul_overflow(piece->size - 1, piece->factor, &span) ||
                __builtin_add_overflow(last, span, &last)) {
                return false;
            }
        }
        if (last >= level->range) {
            return false;
        }
    }
    return true;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0 ? 1 : 0);
}

// Intersects the two sides on one level.
static enum eng_merge clip_level(const struct level *level, uint32_t at, struct pieces *pieces,
                                 struct eng_wide *out)
{
    int64_t low = level->inner_at;
    int64_t high = low + (level->inner_size == 0 ? 0 : level->inner_size - 1);
    int64_t first = level->outer_at;
    int64_t last = first;
    struct piece *only = NULL;
    uint32_t stepping = 0;
    for (uint32_t p = 0; p < pieces->count; p++) {
        struct piece *piece = &pieces->items[p];
        if (piece->level == at && piece->size > 1) {
            only = piece;
            stepping++;
            last += (piece->size - 1) * piece->factor;
        }
    }
    if (first > high || last < low) {
        return ENG_MERGE_EMPTY;
    }
    if (first < low || last > high) {
        if (stepping != 1) {
            return ENG_MERGE_NO;
        }
        int64_t begin = first < low ? (low - first + only->factor - 1) / only->factor : 0;
        int64_t end = floor_div(high - first, only->factor);
        end = end < only->size - 1 ? end : only->size - 1;
        if (begin > end) {
            return ENG_MERGE_EMPTY;
        }
        only->size = end - begin + 1;
        out->dst_offset += begin * only->dst;
        first += begin * only->factor;
    }
    out->src_offset += (first - low) * level->inner_src;
    return ENG_MERGE_DONE;
}

static enum eng_merge merge_on_grid(const struct eng_wide *outer, const struct eng_wide *inner,
                                    bool with_outer, struct eng_wide *out)
{
    struct grid grid;
    struct pieces pieces;
    if (!build_grid(&grid, outer, inner, with_outer)) {
        return ENG_MERGE_NO;
    }
    int64_t unit = grid.levels[grid.count - 1].step;
    if (!place_inner(&grid, inner) || !place_outer(&grid, outer, &pieces)) {
        return ENG_MERGE_NO;
    }
    if (outer->src_offset % unit != inner->dst_offset % unit) {
        return ENG_MERGE_EMPTY; // interleaved: never the same element
    }
    if (!split_outer(&grid, &pieces)) {
        return ENG_MERGE_NO;
    }
    out->source = inner->source;
    out->accumulate = outer->accumulate;
    out->src_offset = inner->src_offset;
    out->dst_offset = outer->dst_offset;
    enum eng_merge verdict = ENG_MERGE_DONE;
    for (uint32_t at = 0; at < grid.count; at++) {
        enum eng_merge level = clip_level(&grid.levels[at], at, &pieces, out);
        if (level == ENG_MERGE_EMPTY) {
            return ENG_MERGE_EMPTY; // one level apart is enough
        }
        verdict = level == ENG_MERGE_NO ? ENG_MERGE_NO : verdict;
    }
    if (verdict != ENG_MERGE_DONE) {
        return verdict;
    }
    out->rank = pieces.count;
    for (uint32_t p = 0; p < pieces.count; p++) {
        const struct piece *piece = &pieces.items[p];
        int64_t src =
            piece->level == LEVELS_MAX ? 0 : grid.levels[piece->level].inner_src * piece->factor;
        out->dims[p] = (struct eng_wide_dim){piece->size, src, piece->dst};
    }
    return eng_wide_canonical(out) ? ENG_MERGE_DONE : ENG_MERGE_EMPTY;
}

// Makes source strides positive; destination strides may become negative.
static bool face_source(const struct eng_wide *outer, struct eng_wide *out)
{
    *out = *outer;
    if (!eng_wide_canonical(out)) {
        return false;
    }
    for (uint32_t d = 0; d < out->rank; d++) {
        struct eng_wide_dim *dim = &out->dims[d];
        if (dim->src < 0) {
            out->src_offset += (dim->size - 1) * dim->src;
            out->dst_offset += (dim->size - 1) * dim->dst;
            dim->src = -dim->src;
            dim->dst = -dim->dst;
        }
    }
    return true;
}

enum eng_merge eng_region_merge(const struct eng_wide *outer, const struct eng_wide *inner,
                                struct eng_wide *out)
{
    base_assert(!inner->accumulate);
    struct eng_wide facing;
    struct eng_region_span read;
    struct eng_region_span written;
    if (!face_source(outer, &facing)) {
        return ENG_MERGE_EMPTY;
    }
    if (!eng_wide_span(&facing, &read) || !eng_wide_span(inner, &written)) {
        return ENG_MERGE_NO;
    }
    if (read.src_min > written.dst_max || read.src_max < written.dst_min) {
        return ENG_MERGE_EMPTY;
    }
    bool plain = facing.rank == 0 ||
                 (facing.rank == 1 && facing.dims[0].src == 1 && facing.dims[0].dst == 1);
    if (plain && read.src_min <= written.dst_min && read.src_max >= written.dst_max) {
        // Outer only shifts addresses (a reshape, a part, a concatenation).
        *out = *inner;
        out->accumulate = outer->accumulate;
        out->dst_offset += facing.dst_offset - facing.src_offset;
        return ENG_MERGE_DONE;
    }
    enum eng_merge verdict = merge_on_grid(&facing, inner, false, out);
    return verdict == ENG_MERGE_NO ? merge_on_grid(&facing, inner, true, out) : verdict;
}
