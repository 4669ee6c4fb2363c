// Composition of two regions over the tensor between them. Called by lowering (lower_virtual.c,
// emit_views.c) on the planning thread; pure, and knows nothing of programs.
//
// When no set of levels fits, the answer is that the two cannot be composed, and the tensor between
// them is made real: never a wrong move, at worst one more. Work and results are bounded by the
// caller (ENG_MERGE_PAIRS_MAX, ENG_MERGE_REGIONS_MAX).
#include "program/region_merge.h"

#include "base/check.h"

#include <string.h>

// Addresses of the tensor in between are written in a mixed radix whose levels are strides, each a
// multiple of the next. Every dim of either side moves the coordinate of one level by a constant
// factor; a dim that runs past its level is split by an integer factor and the rest moves one level
// up. On every level both sides are then arithmetic progressions, and composing is intersecting
// them: outer's dims are clipped and thinned, and their source strides become inner's.
//
// Which strides make good levels depends on the regions, so a few sets are tried: what inner writes
// with, the same and what outer reads with, and the extents of inner's dims instead of its strides
// (for interleaved regions).

#define LEVELS_MAX (2 * ENG_WIDE_RANK_MAX)

struct level {
    int64_t step;               // stride of this level
    int64_t range;              // coordinates below this; INT64_MAX on the top level
    int64_t outer_at, inner_at; // first coordinates
    int64_t inner_size;         // 1: inner does not step here
    int64_t inner_factor;       // coordinates per step of inner
    int64_t inner_src;          // source stride of that step
};
struct grid {
    uint32_t count; // from the largest step to the smallest
    struct level levels[LEVELS_MAX];
};
// One dim of outer, or of inner, while it is worked on.
struct piece {
    uint32_t level; // LEVELS_MAX: reads one place (stride 0)
    int64_t factor; // coordinates of the level per step
    int64_t size;
    int64_t other; // stride on the other side: destination of outer, source of inner
};
struct pieces {
    uint32_t count;
    struct piece items[ENG_WIDE_RANK_MAX];
};
enum grid_kind { GRID_INNER, GRID_BOTH, GRID_EXTENTS, GRID_EXTENTS_BOTH, GRID_KIND_COUNT };

static bool add_step(struct grid *grid, int64_t step)
{
    base_assert(step > 0);
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

static bool add_steps(struct grid *grid, const struct eng_wide *outer, const struct eng_wide *inner,
                      enum grid_kind kind)
{
    base_assert((unsigned)kind < GRID_KIND_COUNT);
    bool extents = kind == GRID_EXTENTS || kind == GRID_EXTENTS_BOTH;
    grid->count = 0;
    for (uint32_t d = 0; d < inner->rank; d++) {
        int64_t step = inner->dims[d].dst;
        if (step <= 0) {
            return false;
        }
        // The extent of the largest dim is no level: nothing lies above it.
        if (extents && (d == 0 || __builtin_mul_overflow(step, inner->dims[d].size, &step))) {
            continue;
        }
        if (!add_step(grid, step)) {
            return false;
        }
    }
    for (uint32_t d = 0; (kind == GRID_BOTH || kind == GRID_EXTENTS_BOTH) && d < outer->rank; d++) {
        if (outer->dims[d].src != 0 && !add_step(grid, outer->dims[d].src)) {
            return false;
        }
    }
    return (grid->count > 0 && !extents) || add_step(grid, 1);
}

// Builds the levels. False: the strides do not divide each other.
static bool build_grid(struct grid *grid, const struct eng_wide *outer,
                       const struct eng_wide *inner, enum grid_kind kind)
{
    if (!add_steps(grid, outer, inner, kind)) {
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

// Gives a dim the coarsest level that divides its stride.
static bool place(const struct grid *grid, int64_t stride, int64_t size, int64_t other,
                  struct pieces *pieces)
{
    base_assert(pieces->count < ENG_WIDE_RANK_MAX);
    struct piece *piece = &pieces->items[pieces->count++];
    *piece = (struct piece){LEVELS_MAX, 0, size, other};
    if (stride == 0) {
        return true;
    }
    uint32_t at = 0;
    while (at < grid->count && stride % grid->levels[at].step != 0) {
        at++;
    }
    if (at == grid->count) {
        return false;
    }
    piece->level = at;
    piece->factor = stride / grid->levels[at].step;
    return true;
}

// Splits what runs past its level, from the finest level up; false when a level still overflows.
static bool split(const struct grid *grid, bool outer, struct pieces *pieces)
{
    for (uint32_t at = grid->count; at-- > 1;) {
        const struct level *level = &grid->levels[at];
        int64_t last = outer ? level->outer_at : level->inner_at;
        uint32_t count = pieces->count;
        for (uint32_t p = 0; p < count; p++) {
            struct piece *piece = &pieces->items[p];
            if (piece->level != at) {
                continue;
            }
            base_assert(piece->factor > 0);
            int64_t period = level->range / piece->factor;
            if (period > 0 && piece->size > period && level->range % piece->factor == 0 &&
                piece->size % period == 0 && pieces->count < ENG_WIDE_RANK_MAX) {
                pieces->items[pieces->count++] =
                    (struct piece){at - 1, 1, piece->size / period, piece->other * period};
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

static bool place_inner(struct grid *grid, const struct eng_wide *inner)
{
    struct pieces pieces = {.count = 0};
    for (uint32_t d = 0; d < inner->rank; d++) {
        if (!place(grid, inner->dims[d].dst, inner->dims[d].size, inner->dims[d].src, &pieces)) {
            return false;
        }
    }
    if (!split(grid, false, &pieces)) {
        return false;
    }
    for (uint32_t at = 0; at < grid->count; at++) {
        grid->levels[at].inner_size = 1;
        grid->levels[at].inner_factor = 1;
        grid->levels[at].inner_src = 0;
    }
    for (uint32_t p = 0; p < pieces.count; p++) {
        const struct piece *piece = &pieces.items[p];
        base_assert(piece->level < grid->count);
        struct level *level = &grid->levels[piece->level];
        if (piece->size == 1) {
            continue;
        }
        if (level->inner_size > 1) {
            return false;
        }
        level->inner_size = piece->size;
        level->inner_factor = piece->factor;
        level->inner_src = piece->other;
    }
    return true;
}

static int64_t floor_div(int64_t left, int64_t right)
{
    base_assert(right > 0);
    return left / right - (left % right < 0 ? 1 : 0);
}

// The smallest i >= 0 with (first + i * factor) a multiple of `modulus`, and how far to the next
// one. False: there is none. By the extended Euclidean algorithm.
static bool meet(int64_t first, int64_t factor, int64_t modulus, int64_t *out_i, int64_t *out_next)
{
    base_assert(factor > 0);
    base_assert(modulus > 0);
    int64_t a = factor;
    int64_t b = modulus;
    int64_t x = 1; // a == x * factor (mod modulus)
    int64_t y = 0;
    while (b != 0) {
        int64_t quotient = a / b;
        int64_t rest = a - quotient * b;
        int64_t z = x - quotient * y;
        a = b;
        b = rest;
        x = y;
        y = z;
    }
    if (first % a != 0) {
        return false;
    }
    *out_next = modulus / a;
    int64_t inverse = (x % *out_next + *out_next) % *out_next;
    int64_t missing = (-(first / a) % *out_next + *out_next) % *out_next;
    *out_i = (int64_t)((__int128)inverse * missing % *out_next);
    return true;
}

// Intersects one dim of outer with inner on its level.
static enum eng_merge clip_piece(const struct level *level, struct piece *piece,
                                 struct eng_wide *out)
{
    int64_t low = level->inner_at;
    int64_t high = low + (level->inner_size - 1) * level->inner_factor;
    int64_t begin;
    int64_t every;
    if (!meet(level->outer_at - low, piece->factor, level->inner_factor, &begin, &every)) {
        return ENG_MERGE_EMPTY;
    }
    base_assert(begin >= 0 && every > 0);
    int64_t from = floor_div(low - level->outer_at + piece->factor - 1, piece->factor);
    if (from > begin) {
        begin += (from - begin + every - 1) / every * every;
    }
    int64_t end = floor_div(high - level->outer_at, piece->factor);
    end = end < piece->size - 1 ? end : piece->size - 1;
    if (begin > end) {
        return ENG_MERGE_EMPTY;
    }
    int64_t first = level->outer_at + begin * piece->factor;
    out->dst_offset += begin * piece->other;
    out->src_offset += (first - low) / level->inner_factor * level->inner_src;
    piece->size = (end - begin) / every + 1;
    if (piece->size == 1) {
        piece->factor = 0; // a step of nothing, however long
        return ENG_MERGE_DONE;
    }
    piece->other *= every;
    piece->factor = piece->factor * every / level->inner_factor * level->inner_src;
    return ENG_MERGE_DONE;
}

// Intersects the two sides on one level. Afterwards `factor` of a piece is its source stride.
static enum eng_merge clip_level(const struct level *level, uint32_t at, struct pieces *pieces,
                                 struct eng_wide *out)
{
    base_assert(level->inner_factor > 0 && level->inner_size > 0);
    int64_t low = level->inner_at;
    int64_t high = low + (level->inner_size - 1) * level->inner_factor;
    int64_t first = level->outer_at;
    int64_t last = first;
    struct piece *only = NULL;
    uint32_t stepping = 0;
    bool aligned = true;
    for (uint32_t p = 0; p < pieces->count; p++) {
        struct piece *piece = &pieces->items[p];
        if (piece->level == at && piece->size > 1) {
            only = piece;
            stepping++;
            last += (piece->size - 1) * piece->factor;
            aligned = aligned && piece->factor % level->inner_factor == 0;
        }
    }
    if (first > high || last < low) {
        return ENG_MERGE_EMPTY;
    }
    if (aligned && (first - low) % level->inner_factor != 0) {
        return ENG_MERGE_EMPTY;
    }
    if (stepping == 1) {
        return clip_piece(level, only, out);
    }
    if (first < low || last > high || !aligned) {
        return ENG_MERGE_NO;
    }
    out->src_offset += (first - low) / level->inner_factor * level->inner_src;
    for (uint32_t p = 0; p < pieces->count; p++) {
        struct piece *piece = &pieces->items[p];
        if (piece->level == at && piece->size > 1) {
            piece->factor = piece->factor / level->inner_factor * level->inner_src;
        }
    }
    return ENG_MERGE_DONE;
}

static enum eng_merge merge_on_grid(const struct eng_wide *outer, const struct eng_wide *inner,
                                    enum grid_kind kind, struct eng_wide *out)
{
    base_assert(outer->rank <= ENG_WIDE_RANK_MAX);
    base_assert(inner->rank <= ENG_WIDE_RANK_MAX);
    struct grid grid;
    struct pieces pieces = {.count = 0};
    if (!build_grid(&grid, outer, inner, kind) || !place_inner(&grid, inner)) {
        return ENG_MERGE_NO;
    }
    for (uint32_t d = 0; d < outer->rank; d++) {
        if (!place(&grid, outer->dims[d].src, outer->dims[d].size, outer->dims[d].dst, &pieces)) {
            return ENG_MERGE_NO;
        }
    }
    base_assert(grid.count > 0 && grid.count <= LEVELS_MAX);
    int64_t unit = grid.levels[grid.count - 1].step;
    if (outer->src_offset % unit != inner->dst_offset % unit) {
        return ENG_MERGE_EMPTY; // interleaved: never the same element
    }
    if (!split(&grid, true, &pieces)) {
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
        int64_t src = piece->level == LEVELS_MAX ? 0 : piece->factor;
        out->dims[p] = (struct eng_wide_dim){piece->size, src, piece->other};
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
    enum eng_merge verdict = ENG_MERGE_NO;
    for (int kind = 0; verdict == ENG_MERGE_NO && kind < GRID_KIND_COUNT; kind++) {
        verdict = merge_on_grid(&facing, inner, (enum grid_kind)kind, out);
    }
    return verdict;
}
