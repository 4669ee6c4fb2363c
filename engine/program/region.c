// Bounds, canonical form and plain application of regions. Called by lowering (emit_views.c,
// lower_virtual.c), region_merge.c and the checker, on the planning thread; pure. In canonical form
// dims of size 1 are gone, destinations ascend, and dims that are one run are joined, so that what
// is compared or hashed is the move and not its spelling. A region that has more dims than a
// command's can carry is unrolled over its smallest ones.
#include "program/region.h"

#include "base/check.h"

#include <string.h>

void eng_wide_of(const struct eng_region *region, struct eng_wide *out)
{
    base_assert(region->rank <= ENG_REGION_RANK_MAX);
    out->source = region->source;
    out->rank = region->rank;
    out->accumulate = region->accumulate;
    out->src_offset = region->src_offset;
    out->dst_offset = region->dst_offset;
    for (uint32_t d = 0; d < region->rank; d++) {
        out->dims[d] =
            (struct eng_wide_dim){region->size[d], region->src_stride[d], region->dst_stride[d]};
    }
}

bool eng_wide_canonical(struct eng_wide *wide)
{
    base_assert(wide->rank <= ENG_WIDE_RANK_MAX);
    struct eng_wide_dim kept[ENG_WIDE_RANK_MAX];
    uint32_t rank = 0;
    for (uint32_t d = 0; d < wide->rank; d++) {
        struct eng_wide_dim dim = wide->dims[d];
        if (dim.size <= 0) {
            return false;
        }
        if (dim.size == 1) {
            continue;
        }
        if (dim.dst < 0) {
            wide->dst_offset += (dim.size - 1) * dim.dst;
            wide->src_offset += (dim.size - 1) * dim.src;
            dim.dst = -dim.dst;
            dim.src = -dim.src;
        }
        uint32_t at = rank++;
        for (; at > 0 && kept[at - 1].dst < dim.dst; at--) {
            kept[at] = kept[at - 1];
        }
        kept[at] = dim;
    }
    uint32_t fused = 0;
    for (uint32_t d = 0; d < rank; d++) {
        struct eng_wide_dim *last = fused > 0 ? &wide->dims[fused - 1] : NULL;
        if (last != NULL && last->dst == kept[d].dst * kept[d].size &&
            last->src == kept[d].src * kept[d].size) {
            *last = (struct eng_wide_dim){last->size * kept[d].size, kept[d].src, kept[d].dst};
        } else {
            wide->dims[fused++] = kept[d];
        }
    }
    wide->rank = fused;
    return true;
}

int64_t eng_wide_volume(const struct eng_wide *wide)
{
    base_assert(wide->rank <= ENG_WIDE_RANK_MAX);
    int64_t volume = 1;
    for (uint32_t d = 0; d < wide->rank; d++) {
        volume *= wide->dims[d].size;
    }
    return volume;
}

// Marks the smallest dims beyond what a region carries; returns the product of their sizes.
static int64_t unrolled_dims(const struct eng_wide *wide, bool unrolled[ENG_WIDE_RANK_MAX])
{
    memset(unrolled, 0, ENG_WIDE_RANK_MAX * sizeof(bool));
    int64_t product = 1;
    for (uint32_t left = wide->rank; left > ENG_REGION_RANK_MAX; left--) {
        uint32_t smallest = ENG_WIDE_RANK_MAX;
        for (uint32_t d = 0; d < wide->rank; d++) {
            if (!unrolled[d] &&
                (smallest == ENG_WIDE_RANK_MAX || wide->dims[d].size < wide->dims[smallest].size)) {
                smallest = d;
            }
        }
        base_assert(smallest < wide->rank && wide->dims[smallest].size > 0);
        unrolled[smallest] = true;
        if (wide->dims[smallest].size > ENG_UNROLL_MAX / product) {
            return INT64_MAX;
        }
        product *= wide->dims[smallest].size;
    }
    return product;
}

int64_t eng_wide_region_count(const struct eng_wide *wide)
{
    bool unrolled[ENG_WIDE_RANK_MAX];
    return unrolled_dims(wide, unrolled);
}

void eng_wide_regions(const struct eng_wide *wide, struct eng_region *out)
{
    bool unrolled[ENG_WIDE_RANK_MAX];
    int64_t count = unrolled_dims(wide, unrolled);
    base_check(count <= ENG_UNROLL_MAX);
    for (int64_t i = 0; i < count; i++) {
        struct eng_region *region = &out[i];
        memset(region, 0, sizeof(*region)); // padding too: regions are hashed as bytes
        region->source = wide->source;
        region->accumulate = wide->accumulate;
        region->src_offset = wide->src_offset;
        region->dst_offset = wide->dst_offset;
        int64_t rest = i;
        for (uint32_t d = 0; d < wide->rank; d++) {
            const struct eng_wide_dim *dim = &wide->dims[d];
            if (unrolled[d]) {
                region->src_offset += rest % dim->size * dim->src;
                region->dst_offset += rest % dim->size * dim->dst;
                rest /= dim->size;
                continue;
            }
            base_assert(region->rank < ENG_REGION_RANK_MAX);
            region->size[region->rank] = dim->size;
            region->src_stride[region->rank] = dim->src;
            region->dst_stride[region->rank++] = dim->dst;
        }
    }
}

// Adds the reach of one dim to a range of addresses.
static bool reach(int64_t size, int64_t stride, int64_t *min, int64_t *max)
{
    int64_t span;
    if (size < 1 || __builtin_mul_overflow(size - 1, stride, &span)) {
        return false;
    }
    int64_t *end = span < 0 ? min : max;
    return !__builtin_add_overflow(*end, span, end);
}

bool eng_wide_span(const struct eng_wide *wide, struct eng_region_span *out)
{
    base_assert(wide->rank <= ENG_WIDE_RANK_MAX);
    struct eng_region_span span = {wide->src_offset, wide->src_offset, wide->dst_offset,
                                   wide->dst_offset};
    int64_t volume = 1;
    for (uint32_t d = 0; d < wide->rank; d++) {
        const struct eng_wide_dim *dim = &wide->dims[d];
        if (!reach(dim->size, dim->src, &span.src_min, &span.src_max) ||
            !reach(dim->size, dim->dst, &span.dst_min, &span.dst_max) ||
            __builtin_mul_overflow(volume, dim->size, &volume)) {
            return false;
        }
    }
    *out = span;
    return true;
}

bool eng_region_fits(const struct eng_region *region, int64_t src_count, int64_t dst_count)
{
    if (region->rank > ENG_REGION_RANK_MAX) {
        return false;
    }
    for (uint32_t d = 0; d < region->rank; d++) {
        if (region->size[d] == 0) {
            return true;
        }
    }
    struct eng_wide wide;
    eng_wide_of(region, &wide);
    struct eng_region_span span;
    return eng_wide_span(&wide, &span) && span.src_min >= 0 && span.src_max < src_count &&
           span.dst_min >= 0 && span.dst_max < dst_count;
}

bool eng_region_is_identity(const struct eng_region *region, int64_t count)
{
    base_assert(region->rank <= ENG_REGION_RANK_MAX);
    if (region->src_offset != 0 || region->dst_offset != 0 || region->accumulate) {
        return false;
    }
    if (region->rank == 0) {
        return count == 1;
    }
    return region->rank == 1 && region->size[0] == count && region->src_stride[0] == 1 &&
           region->dst_stride[0] == 1;
}

// The innermost dim of a region: `count` elements, and how many bytes apart they are.
struct row {
    int64_t count, src_step, dst_step;
    size_t bytes; // of an element
};

static void move_row(const struct row *row, const char *from, char *to)
{
    const int64_t count = row->count, src_step = row->src_step, dst_step = row->dst_step;
    const size_t bytes = row->bytes;
    if (src_step == (int64_t)bytes && dst_step == (int64_t)bytes) {
        memcpy(to, from, (size_t)count * bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + i * dst_step, from + i * src_step, bytes);
    }
}

void eng_region_move(const struct eng_region *region, size_t bytes, const void *source,
                     void *destination)
{
    base_assert(region->rank <= ENG_REGION_RANK_MAX);
    base_assert(!region->accumulate);
    int64_t unit = (int64_t)bytes;
    uint32_t rank = region->rank;
    int64_t at[ENG_REGION_RANK_MAX] = {0};
    for (uint32_t d = 0; d < rank; d++) {
        if (region->size[d] == 0) {
            return;
        }
    }
    const struct row row = {.count = rank == 0 ? 1 : region->size[rank - 1],
                            .src_step = rank == 0 ? 0 : region->src_stride[rank - 1] * unit,
                            .dst_step = rank == 0 ? 0 : region->dst_stride[rank - 1] * unit,
                            .bytes = bytes};
    int64_t src = region->src_offset;
    int64_t dst = region->dst_offset;
    for (;;) {
        move_row(&row, (const char *)source + src * unit, (char *)destination + dst * unit);
        uint32_t d = rank < 2 ? 0 : rank - 1;
        for (; d > 0; d--) {
            src += region->src_stride[d - 1];
            dst += region->dst_stride[d - 1];
            if (++at[d - 1] < region->size[d - 1]) {
                break;
            }
            src -= region->src_stride[d - 1] * region->size[d - 1];
            dst -= region->dst_stride[d - 1] * region->size[d - 1];
            at[d - 1] = 0;
        }
        if (d == 0) {
            return;
        }
    }
}
