// Raster: moves elements region by region, of any type. Reference kernel: found by ref_prepare.c on
// the planning thread, runs on the session's thread. A region whose destination stands still along
// a dimension sums, in floats only, and clears its elements first unless it is to add to them; all
// others move elements by their size, whatever their type. cpu/move_raster.c does the same with the
// moves of cpu/move_run.c.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "base/check.h"

#include <string.h>

struct walk {
    const struct eng_region *region;
    const void *source;
    void *out;
    enum eng_dtype dtype;
    size_t bytes;
};

// Positive sizes only. Calls move or add for each innermost row.
static void walk_rows(const struct walk *walk,
                      void (*row)(const struct walk *walk, int64_t to, int64_t from, int64_t count))
{
    const struct eng_region *r = walk->region;
    int64_t index[ENG_REGION_RANK_MAX] = {0}, to = r->dst_offset, from = r->src_offset, rows = 1;
    uint32_t outer = r->rank > 0 ? r->rank - 1 : 0;
    base_assert(r->rank <= ENG_REGION_RANK_MAX);
    for (uint32_t d = 0; d < outer; d++) {
        rows *= r->size[d];
    }
    for (int64_t i = 0; i < rows; i++) {
        row(walk, to, from, r->rank > 0 ? r->size[outer] : 1);
        for (uint32_t d = outer; d-- > 0;) {
            to += r->dst_stride[d];
            from += r->src_stride[d];
            if (++index[d] < r->size[d]) {
                break;
            }
            to -= r->dst_stride[d] * r->size[d];
            from -= r->src_stride[d] * r->size[d];
            index[d] = 0;
        }
    }
}

static int64_t inner_stride(const struct eng_region *region, const int64_t *strides)
{
    return region->rank > 0 ? strides[region->rank - 1] : 1;
}

#define MOVE_AS(type)                                                                              \
    do {                                                                                           \
        type *out = (type *)walk->out + to;                                                        \
        const type *in = (const type *)walk->source + from;                                        \
        for (int64_t i = 0; i < count; i++) {                                                      \
            out[i * dst] = in[i * src];                                                            \
        }                                                                                          \
    } while (0)

struct pair {
    uint64_t low, high;
};

static void move_row(const struct walk *walk, int64_t to, int64_t from, int64_t count)
{
    int64_t dst = inner_stride(walk->region, walk->region->dst_stride);
    int64_t src = inner_stride(walk->region, walk->region->src_stride);
    if (dst == 1 && src == 1) {
        memcpy((uint8_t *)walk->out + (size_t)to * walk->bytes,
               (const uint8_t *)walk->source + (size_t)from * walk->bytes,
               (size_t)count * walk->bytes);
        return;
    }
    switch (walk->bytes) {
    case 1:
        MOVE_AS(uint8_t);
        break;
    case 2:
        MOVE_AS(uint16_t);
        break;
    case 4:
        MOVE_AS(uint32_t);
        break;
    case 8:
        MOVE_AS(uint64_t);
        break;
    default: // strings and C128
        base_assert(walk->bytes == sizeof(struct pair));
        MOVE_AS(struct pair);
        break;
    }
}

static void add_row(const struct walk *walk, int64_t to, int64_t from, int64_t count)
{
    base_assert(eng_ref_is(walk->dtype, ENG_REF_FLOATS));
    int64_t dst = inner_stride(walk->region, walk->region->dst_stride);
    int64_t src = inner_stride(walk->region, walk->region->src_stride);
    for (int64_t i = 0; i < count; i++) {
        double sum = eng_ref_load(walk->dtype, walk->out, to + i * dst) +
                     eng_ref_load(walk->dtype, walk->source, from + i * src);
        eng_ref_store(walk->dtype, walk->out, to + i * dst, sum);
    }
}

static void zero_row(const struct walk *walk, int64_t to, int64_t from, int64_t count)
{
    (void)from;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = to + i * inner_stride(walk->region, walk->region->dst_stride);
        memset((uint8_t *)walk->out + (size_t)at * walk->bytes, 0, walk->bytes);
    }
}

static bool is_sum(const struct eng_region *region)
{
    for (uint32_t d = 0; d < region->rank; d++) {
        if (region->dst_stride[d] == 0 && region->size[d] > 1) {
            return true;
        }
    }
    return false;
}

static bool is_empty(const struct eng_region *region)
{
    for (uint32_t d = 0; d < region->rank; d++) {
        if (region->size[d] == 0) {
            return true;
        }
    }
    return false;
}

static enum base_status run_raster(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_command *command = step->command;
    const struct eng_desc *desc = &eng_ref_out_tensor(step, 0)->desc;
    struct walk w = {.out = eng_ref_out(step, run, 0),
                     .dtype = desc->dtype,
                     .bytes = eng_dtype_bytes(desc->dtype)};
    if (command->u.raster.zero_fill && eng_desc_bytes(desc) > 0) {
        memset(w.out, 0, eng_desc_bytes(desc));
    }
    for (uint32_t i = 0; i < command->u.raster.count; i++) {
        w.region = &command->u.raster.regions[i];
        if (is_empty(w.region)) {
            continue;
        }
        w.source = run->data[w.region->source];
        base_assert(eng_dtype_bytes(eng_ref_tensor(step, w.region->source)->desc.dtype) == w.bytes);
        bool sums = is_sum(w.region);
        if (sums && !w.region->accumulate) {
            walk_rows(&w, zero_row);
        }
        walk_rows(&w, sums || w.region->accumulate ? add_row : move_row);
    }
    return BASE_OK;
}

// By output type: a raster of nothing but zeros has no source.
static enum base_status setup_raster(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_command *command = step->command;
    enum eng_dtype dtype = eng_ref_out_type(step, 0);
    for (uint32_t i = 0; i < command->u.raster.count; i++) {
        const struct eng_region *region = &command->u.raster.regions[i];
        if (region->rank > ENG_REGION_RANK_MAX ||
            eng_ref_tensor(step, region->source)->desc.dtype != dtype) {
            return eng_ref_refuse(ctx, step, "a region of another type or rank");
        }
        if ((region->accumulate || is_sum(region)) && !eng_ref_is(dtype, ENG_REF_FLOATS)) {
            return eng_ref_refuse(ctx, step, "sums of elements that are not floats");
        }
    }
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_raster[] = {
    {ENG_OP_RASTER, ENG_REF_ALL, run_raster, setup_raster},
    {.run = NULL},
};
