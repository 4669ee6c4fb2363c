// Weaves: rasters whose regions put rows of one width together from strided pieces, as
// concatenating or interleaving along the last dimension does. Called by move_raster.c: asked on
// the planning thread whether the regions are a weave, run on the pool's threads by rows. A row is
// then written once, vector by vector, by a list of operations made ahead, instead of once for each
// region. At most ENG_VEC_WEAVE_SOURCES_MAX regions, and a table with a kernel for it; others stay
// moves of their own.
#include "backend/cpu/move/move_run.h"

#include "base/check.h"

#include <string.h>

// One region as rows: `n` elements side by side in the source row go to columns first, first +
// step, ... of the output row.
struct strand {
    int64_t rows, n;
    int64_t src_row, dst_row; // strides
    int64_t first, step;
};

// A region of rank 2 as it stands; one of rank 1 is cut into rows of the given width.
static bool strand_of(const struct eng_region *region, int64_t dst_row, int64_t dst,
                      struct strand *out)
{
    int64_t first = region->dst_offset - dst;
    if (region->rank == 2 && region->src_stride[1] == 1 && region->dst_stride[0] == dst_row) {
        *out = (struct strand){region->size[0],       region->size[1], region->src_stride[0],
                               region->dst_stride[0], first,           region->dst_stride[1]};
    } else if (region->rank == 1 && region->dst_stride[0] == dst_row) { // one column
        *out = (struct strand){region->size[0], 1, region->src_stride[0], dst_row, first, 1};
    } else if (region->rank == 1 && region->src_stride[0] == 1 && region->dst_stride[0] > 0 &&
               dst_row % region->dst_stride[0] == 0) {
        int64_t n = dst_row / region->dst_stride[0];
        if (region->size[0] % n != 0) {
            return false;
        }
        *out = (struct strand){region->size[0] / n, n, n, dst_row, first, region->dst_stride[0]};
    } else {
        return false;
    }
    return out->step >= 1 && out->first >= 0 && out->first + (out->n - 1) * out->step < dst_row;
}

static bool find_strands(const struct eng_region *regions, uint32_t count, int64_t *out_dst,
                         struct strand *strands)
{
    int64_t dst_row = 0;
    int64_t dst = INT64_MAX;
    int64_t covered = 0;
    if (count < 2 || count > ENG_VEC_WEAVE_SOURCES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        dst = regions[i].dst_offset < dst ? regions[i].dst_offset : dst;
        dst_row = regions[i].rank == 2 && dst_row == 0 ? regions[i].dst_stride[0] : dst_row;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (dst_row <= 0 || dst_row > INT32_MAX ||
            !strand_of(&regions[i], dst_row, dst, &strands[i]) ||
            strands[i].rows != strands[0].rows) {
            return false;
        }
        covered += strands[i].n;
    }
    base_assert(covered <= dst_row); // regions are disjoint
    *out_dst = dst;
    return covered == dst_row; // regions are disjoint: every column has its source
}

// The operation that brings a strand's elements into columns [column, column + lanes), if any.
static bool make_op(const struct strand *strand, int32_t source, int64_t column, int64_t lanes,
                    struct eng_vec_weave_op *op)
{
    base_assert(strand->step > 0 && lanes > 0);
    int64_t begin = column - strand->first;
    int64_t i = begin <= 0 ? 0 : (begin + strand->step - 1) / strand->step;
    int64_t start = i;
    *op = (struct eng_vec_weave_op){.source = source, .offset = (int32_t)start};
    memset(op->index, 0xff, sizeof op->index);
    for (; i < strand->n && strand->first + i * strand->step < column + lanes; i++) {
        op->index[strand->first + i * strand->step - column] = (int32_t)(i - start);
    }
    op->count = (int32_t)(i - start);
    return op->count > 0;
}

enum base_status eng_move_weave_init(struct base_arena *arena,
                                     const struct eng_vec_kernels *kernels,
                                     const struct eng_region *regions, uint32_t count,
                                     struct eng_move_weave *out)
{
    struct strand strands[ENG_VEC_WEAVE_SOURCES_MAX];
    struct eng_move_weave w = {.source_count = count};
    if (kernels->weave == NULL || !find_strands(regions, count, &w.dst, strands)) {
        return BASE_ERR_UNSUPPORTED;
    }
    w.row_count = strands[0].rows;
    w.rows.columns = w.rows.out_stride = strands[0].dst_row;
    int64_t lanes = kernels->lanes;
    size_t vectors = (size_t)((w.rows.columns + lanes - 1) / lanes);
    struct eng_vec_weave_op *ops = base_arena_alloc(arena, vectors * count * sizeof *ops);
    uint32_t *first = base_arena_alloc(arena, (vectors + 1) * sizeof *first);
    if (ops == NULL || first == NULL) {
        return BASE_ERR_NOMEM;
    }
    uint32_t made = 0;
    for (size_t j = 0; j < vectors; j++) {
        first[j] = made;
        for (uint32_t i = 0; i < count; i++) {
            made += make_op(&strands[i], (int32_t)i, (int64_t)j * lanes, lanes, &ops[made]);
        }
    }
    first[vectors] = made;
    base_assert(made <= vectors * count && made > 0);
    for (uint32_t i = 0; i < count; i++) {
        w.tensors[i] = regions[i].source;
        w.offsets[i] = regions[i].src_offset;
        w.rows.strides[i] = strands[i].src_row;
    }
    w.rows.ops = ops;
    w.rows.first = first;
    *out = w;
    return BASE_OK;
}

void eng_move_weave_run(const struct eng_move_weave *weave, const struct eng_move_data *data,
                        int64_t begin, int64_t end)
{
    base_assert(begin >= 0 && begin < end && end <= weave->row_count);
    const float *sources[ENG_VEC_WEAVE_SOURCES_MAX];
    for (uint32_t i = 0; i < weave->source_count; i++) {
        sources[i] = (const float *)data->tensors[weave->tensors[i]] + weave->offsets[i] +
                     begin * weave->rows.strides[i];
    }
    data->kernels->weave(&weave->rows, sources,
                         (float *)data->out + weave->dst + begin * weave->rows.out_stride,
                         end - begin);
}
