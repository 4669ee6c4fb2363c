// Emits of commands that read strided operands: elementwise of several operands, and products of
// matrices. Called by handlers.
//
// A virtual operand of one region is read where its source lies instead of being made real, as long
// as rows stay contiguous (or broadcast). An elementwise operand is a region over the output's
// elements in memory order; the box is the coarsest one all operands' regions share.
#include "lower/lower_state.h"

#include "base/check.h"
#include "program/region_merge.h"

#include <stdlib.h>
#include <string.h>

// --- elementwise

#define OPERANDS_MAX   3u
#define BOUNDARIES_MAX (OPERANDS_MAX * ENG_WIDE_RANK_MAX * 2 + 2)

struct target {
    struct eng_desc desc;
    enum eng_layout layout;
    int64_t count;
};

static bool full_shape(const struct eng_desc *desc, const struct target *to)
{
    return desc->rank == to->desc.rank &&
           memcmp(desc->dims, to->desc.dims, desc->rank * sizeof(int64_t)) == 0;
}

// How `tensor`, broadcast, is read in the order of the target's elements; source is the tensor.
static void broadcast_region(const struct eng_lower *lower, uint32_t tensor,
                             const struct target *to, struct eng_wide *out)
{
    base_assert(tensor_of(lower, tensor)->desc.rank <= to->desc.rank);
    const struct eng_tensor *t = tensor_of(lower, tensor);
    int64_t src[ENG_RANK_MAX];
    int64_t dst[ENG_RANK_MAX];
    eng_layout_strides(&t->desc, t->layout, src);
    eng_layout_strides(&to->desc, to->layout, dst);
    uint32_t skip = to->desc.rank - t->desc.rank;
    *out = (struct eng_wide){.source = tensor, .rank = to->desc.rank};
    for (uint32_t d = 0; d < to->desc.rank; d++) {
        bool stays = d < skip || t->desc.dims[d - skip] == 1;
        out->dims[d] = (struct eng_wide_dim){to->desc.dims[d], stays ? 0 : src[d - skip], dst[d]};
    }
}

static bool reads_rows(const struct eng_wide *wide)
{
    return wide->rank == 0 || wide->dims[wide->rank - 1].src == 1 ||
           wide->dims[wide->rank - 1].src == 0;
}

// The region of one operand; absorbs a virtual tensor when that is possible and allowed.
static enum base_status operand(struct eng_lower *lower, uint32_t tensor, const struct target *to,
                                bool absorb, struct eng_wide *out)
{
    const struct eng_tensor *t = tensor_of(lower, tensor);
    struct eng_wide outer;
    if (t->kind == ENG_VIRTUAL && absorb && t->region_count == 1 && !t->zero_fill) {
        struct eng_wide inner;
        broadcast_region(lower, tensor, to, &outer);
        eng_wide_of(&t->regions[0], &inner);
        if (!inner.accumulate && eng_region_merge(&outer, &inner, out) == ENG_MERGE_DONE &&
            eng_wide_volume(out) == to->count && reads_rows(out)) {
            return BASE_OK;
        }
    }
    uint32_t real;
    enum eng_layout layout = full_shape(&t->desc, to) ? to->layout : t->layout;
    BASE_TRY(eng_lower_as(lower, tensor, layout, false, &real));
    broadcast_region(lower, real, to, out);
    out->source = tensor_of(lower, real)->alias == ENG_NONE ? real : tensor_of(lower, real)->alias;
    (void)eng_wide_canonical(out);
    return BASE_OK;
}

static int by_size(const void *left, const void *right)
{
    int64_t x = *(const int64_t *)left;
    int64_t y = *(const int64_t *)right;
    return x < y ? 1 : x > y ? -1 : 0;
}

// The coarsest box whose dims lie within one dim of every operand. False: there is none, or it has
// too many dims.
static bool common_box(const struct eng_wide *operands, uint32_t count, int64_t elements,
                       struct eng_box *out)
{
    base_assert(count <= OPERANDS_MAX);
    int64_t bounds[BOUNDARIES_MAX];
    size_t bound_count = 0;
    bounds[bound_count++] = elements;
    bounds[bound_count++] = 1;
    for (uint32_t o = 0; o < count; o++) {
        for (uint32_t d = 0; d < operands[o].rank; d++) {
            bounds[bound_count++] = operands[o].dims[d].dst;
            bounds[bound_count++] = operands[o].dims[d].dst * operands[o].dims[d].size;
        }
    }
    qsort(bounds, bound_count, sizeof(int64_t), by_size);
    out->rank = 0;
    for (size_t i = 1; i < bound_count; i++) {
        if (bounds[i] == bounds[i - 1]) {
            continue;
        }
        if (bounds[i - 1] % bounds[i] != 0 || out->rank == ENG_RANK_MAX) {
            return false;
        }
        out->size[out->rank++] = bounds[i - 1] / bounds[i];
    }
    return true;
}

static void view_of(const struct eng_wide *operand, const struct eng_box *box, struct eng_view *out)
{
    memset(out, 0, sizeof(*out));
    out->offset = operand->src_offset;
    int64_t step = 1;
    for (uint32_t i = box->rank; i-- > 0;) {
        for (uint32_t d = 0; d < operand->rank; d++) {
            const struct eng_wide_dim *dim = &operand->dims[d];
            if (dim->dst <= step && step < dim->dst * dim->size) {
                out->stride[i] = dim->src * (step / dim->dst);
            }
        }
        step *= box->size[i];
    }
}

// Emits `command`, whose inputs are operands as handlers have them and whose parameters are set.
static enum base_status emit_views(struct eng_lower *lower, struct eng_command *command,
                                   const struct target *to, uint32_t *out)
{
    const uint32_t count = command->input_count;
    base_assert(count <= OPERANDS_MAX);
    struct eng_wide operands[OPERANDS_MAX];
    uint32_t sources[OPERANDS_MAX];
    command->box = (struct eng_box){.rank = 1, .size = {0}};
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            BASE_TRY(operand(lower, command->inputs[i], to, pass == 0, &operands[i]));
            sources[i] = operands[i].source;
        }
        if (to->count == 0 || common_box(operands, count, to->count, &command->box)) {
            break;
        }
        base_check(pass == 0); // dims of real operands are dims of the result
    }
    BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, to->layout, &to->desc, out));
    for (uint32_t i = 0; to->count > 0 && i < count; i++) {
        view_of(&operands[i], &command->box, &command->views[i]);
    }
    command->inputs = sources;
    command->outputs = out;
    command->output_count = 1;
    return eng_emit_command(lower, command);
}

// Shape, count and layout of an elementwise result.
static enum base_status target_of(struct eng_lower *lower, const uint32_t *tensors, uint32_t count,
                                  struct target *out)
{
    BASE_TRY(eng_lower_broadcast(lower, lower->node, tensors, count, &out->desc));
    enum base_status status = eng_desc_check(&out->desc, &out->count);
    if (status != BASE_OK) {
        return eng_lower_fail(lower, lower->node, status, "too large a result");
    }
    out->layout = ENG_PLAIN;
    for (uint32_t i = 0; i < count; i++) {
        if (full_shape(eng_lower_desc(lower, tensors[i]), out) &&
            eng_lower_natural(lower, tensors[i]) == ENG_CHANNELS_LAST) {
            out->layout = ENG_CHANNELS_LAST;
        }
    }
    return BASE_OK;
}

enum base_status eng_emit_binary(struct eng_lower *lower, enum eng_binary_fn fn, uint32_t left,
                                 uint32_t right, uint32_t *out)
{
    base_assert((unsigned)fn < ENG_BINARY_COUNT);
    uint32_t tensors[2] = {left, right};
    struct target to;
    if (eng_lower_desc(lower, left)->dtype != eng_lower_desc(lower, right)->dtype) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID, "operands of types %s and %s",
                              eng_dtype_name(eng_lower_desc(lower, left)->dtype),
                              eng_dtype_name(eng_lower_desc(lower, right)->dtype));
    }
    BASE_TRY(target_of(lower, tensors, 2, &to));
    if (fn >= ENG_EQUAL && fn <= ENG_GREATER_EQUAL) {
        to.desc.dtype = ENG_BOOL;
    }
    struct eng_command command = {
        .op = ENG_OP_BINARY, .inputs = tensors, .input_count = 2, .u.binary.fn = fn};
    return emit_views(lower, &command, &to, out);
}

enum base_status eng_emit_select(struct eng_lower *lower, uint32_t cond, uint32_t left,
                                 uint32_t right, uint32_t *out)
{
    uint32_t tensors[3] = {cond, left, right};
    struct target to;
    if (eng_lower_desc(lower, cond)->dtype != ENG_BOOL ||
        eng_lower_desc(lower, left)->dtype != eng_lower_desc(lower, right)->dtype) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID,
                              "a choice by %s between %s and %s",
                              eng_dtype_name(eng_lower_desc(lower, cond)->dtype),
                              eng_dtype_name(eng_lower_desc(lower, left)->dtype),
                              eng_dtype_name(eng_lower_desc(lower, right)->dtype));
    }
    BASE_TRY(target_of(lower, tensors, 3, &to));
    to.desc.dtype = eng_lower_desc(lower, left)->dtype;
    struct eng_command command = {.op = ENG_OP_SELECT, .inputs = tensors, .input_count = 3};
    return emit_views(lower, &command, &to, out);
}

// --- products

struct matrix {
    uint32_t tensor;
    int64_t offset;
    uint32_t batch_rank;
    int64_t batch[ENG_RANK_MAX]; // strides of the dims before the last two
    int64_t sizes[ENG_RANK_MAX];
    int64_t rows, cols; // sizes, after transposing
    int64_t row_stride, col_stride;
};

// Stride of a dim of a virtual tensor in its source: `step` is the dim's own stride.
static bool source_stride(const struct eng_region *region, int64_t step, int64_t size, int64_t *out)
{
    *out = 0;
    if (size == 1) {
        return true;
    }
    for (uint32_t d = 0; d < region->rank; d++) {
        int64_t unit = region->dst_stride[d];
        if (unit <= step && step % unit == 0 && step * size <= unit * region->size[d]) {
            *out = region->src_stride[d] * (step / unit);
            return true;
        }
    }
    return false;
}

// Whether a virtual tensor can be read in place, and how.
static bool strides_in_source(const struct eng_tensor *tensor, int64_t strides[ENG_RANK_MAX])
{
    base_assert(tensor->desc.rank >= 2);
    if (tensor->region_count != 1 || tensor->zero_fill || tensor->regions[0].accumulate) {
        return false;
    }
    int64_t own[ENG_RANK_MAX];
    eng_layout_strides(&tensor->desc, ENG_PLAIN, own);
    for (uint32_t d = 0; d < tensor->desc.rank; d++) {
        if (!source_stride(&tensor->regions[0], own[d], tensor->desc.dims[d], &strides[d]) ||
            strides[d] < 0) {
            return false;
        }
    }
    uint32_t rank = tensor->desc.rank;
    bool row = tensor->desc.dims[rank - 2] == 1 || strides[rank - 2] == 1;
    bool col = tensor->desc.dims[rank - 1] == 1 || strides[rank - 1] == 1;
    bool spread = (tensor->desc.dims[rank - 2] > 1 && strides[rank - 2] == 0) ||
                  (tensor->desc.dims[rank - 1] > 1 && strides[rank - 1] == 0);
    return (row || col) && !spread;
}

static enum base_status matrix_of(struct eng_lower *lower, struct eng_factor factor, bool in_place,
                                  struct matrix *out)
{
    uint32_t plain;
    BASE_TRY(eng_lower_plain(lower, factor.tensor, &plain));
    int64_t strides[ENG_RANK_MAX];
    const struct eng_tensor *t = tensor_of(lower, plain);
    *out = (struct matrix){.tensor = plain};
    if (t->kind == ENG_VIRTUAL && in_place && strides_in_source(t, strides)) {
        out->tensor = t->regions[0].source;
        out->offset = t->regions[0].src_offset;
    } else {
        BASE_TRY(eng_lower_as(lower, plain, ENG_PLAIN, true, &out->tensor));
        t = tensor_of(lower, plain);
        eng_layout_strides(&t->desc, ENG_PLAIN, strides);
    }
    base_assert(t->desc.rank >= 2);
    uint32_t last = t->desc.rank - 1;
    uint32_t row = factor.transposed ? last : last - 1;
    uint32_t col = factor.transposed ? last - 1 : last;
    out->batch_rank = t->desc.rank - 2;
    memcpy(out->sizes, t->desc.dims, out->batch_rank * sizeof(int64_t));
    memcpy(out->batch, strides, out->batch_rank * sizeof(int64_t));
    out->rows = t->desc.dims[row];
    out->cols = t->desc.dims[col];
    out->row_stride = strides[row];
    out->col_stride = strides[col];
    return BASE_OK;
}

struct batch_dim {
    int64_t size, a, b;
};

static int64_t batch_stride(const struct matrix *matrix, uint32_t rank, uint32_t dim)
{
    base_assert(rank >= matrix->batch_rank);
    uint32_t skip = rank - matrix->batch_rank;
    return dim < skip || matrix->sizes[dim - skip] == 1 ? 0 : matrix->batch[dim - skip];
}

// Batch dims of the result that remain: those of size 1 are dropped, neighbours both operands step
// through evenly are fused, and the last ones become rows of A where B does not depend on them.
static uint32_t batch_dims(const struct eng_desc *desc, struct matrix *left,
                           const struct matrix *right, struct batch_dim dims[ENG_RANK_MAX])
{
    base_assert(desc->rank >= 2);
    uint32_t rank = desc->rank - 2;
    uint32_t count = 0;
    for (uint32_t d = 0; d < rank; d++) {
        const struct batch_dim dim = {desc->dims[d], batch_stride(left, rank, d),
                                      batch_stride(right, rank, d)};
        struct batch_dim *last = count > 0 ? &dims[count - 1] : NULL;
        if (dim.size == 1) {
            continue;
        }
        if (last != NULL && last->a == dim.a * dim.size && last->b == dim.b * dim.size) {
            *last = (struct batch_dim){last->size * dim.size, dim.a, dim.b};
        } else {
            dims[count++] = dim;
        }
    }
    while (count > 0 && dims[count - 1].b == 0 &&
           (left->rows == 1 || dims[count - 1].a == left->rows * left->row_stride)) {
        left->row_stride = left->rows == 1 ? dims[count - 1].a : left->row_stride;
        left->rows *= dims[count - 1].size;
        count--;
    }
    return count;
}

static enum base_status matmul_desc(struct eng_lower *lower, struct eng_factor left,
                                    struct eng_factor right, struct eng_desc *out)
{
    const struct eng_desc *da = eng_lower_desc(lower, left.tensor);
    const struct eng_desc *db = eng_lower_desc(lower, right.tensor);
    char text[2][64];
    uint32_t rank = da->rank > db->rank ? da->rank : db->rank;
    base_assert(rank <= ENG_RANK_MAX);
    bool fits = da->rank >= 2 && db->rank >= 2 && da->dtype == db->dtype;
    *out = (struct eng_desc){.dtype = da->dtype, .rank = rank};
    for (uint32_t d = 0; fits && d + 2 < rank; d++) {
        int64_t x = d + da->rank < rank ? 1 : da->dims[d + da->rank - rank];
        int64_t y = d + db->rank < rank ? 1 : db->dims[d + db->rank - rank];
        fits = x == y || x == 1 || y == 1;
        out->dims[d] = x == 1 ? y : x;
    }
    if (fits) {
        int64_t ka = da->dims[da->rank - (left.transposed ? 2 : 1)];
        int64_t kb = db->dims[db->rank - (right.transposed ? 1 : 2)];
        out->dims[rank - 2] = da->dims[da->rank - (left.transposed ? 1 : 2)];
        out->dims[rank - 1] = db->dims[db->rank - (right.transposed ? 2 : 1)];
        fits = ka == kb;
    }
    if (!fits) {
        return eng_lower_fail(
            lower, lower->node, BASE_ERR_INVALID, "no product of %s%s and %s%s",
            eng_desc_text(da, text[0], sizeof(text[0])), left.transposed ? " transposed" : "",
            eng_desc_text(db, text[1], sizeof(text[1])), right.transposed ? " transposed" : "");
    }
    return BASE_OK;
}

// A factor over all batch dims of the result, dense, so that they fuse.
static enum base_status spread(struct eng_lower *lower, struct eng_factor factor,
                               const struct eng_desc *out, struct matrix *matrix)
{
    struct eng_desc desc = *out;
    const struct eng_desc *own = eng_lower_desc(lower, factor.tensor);
    memcpy(&desc.dims[desc.rank - 2], &own->dims[own->rank - 2], 2 * sizeof(int64_t));
    BASE_TRY(eng_lower_expand(lower, factor.tensor, &desc, &factor.tensor));
    return matrix_of(lower, factor, false, matrix);
}

// Box and views of the product: `batch` dims that both step through, rows, columns, sum.
static void product_views(const struct matrix *left, const struct matrix *right,
                          const struct batch_dim *dims, uint32_t batch, struct eng_command *command)
{
    base_assert(batch <= ENG_RANK_MAX - 3);
    base_assert(left->cols == right->rows);
    command->box.rank = batch + 3;
    for (uint32_t d = 0; d < batch; d++) {
        command->box.size[d] = dims[d].size;
        command->views[0].stride[d] = dims[d].a;
        command->views[1].stride[d] = dims[d].b;
    }
    command->box.size[batch] = left->rows;
    command->box.size[batch + 1] = right->cols;
    command->box.size[batch + 2] = left->cols;
    command->views[0].offset = left->offset;
    command->views[0].stride[batch] = left->row_stride;
    command->views[0].stride[batch + 2] = left->col_stride;
    command->views[1].offset = right->offset;
    command->views[1].stride[batch + 1] = right->col_stride;
    command->views[1].stride[batch + 2] = right->row_stride;
}

enum base_status eng_emit_matmul(struct eng_lower *lower, struct eng_factor left,
                                 struct eng_factor right, float alpha, uint32_t *out)
{
    struct eng_desc desc;
    BASE_TRY(matmul_desc(lower, left, right, &desc));
    struct matrix ma;
    struct matrix mb;
    BASE_TRY(matrix_of(lower, left, true, &ma));
    BASE_TRY(matrix_of(lower, right, true, &mb));
    base_assert(mb.cols == desc.dims[desc.rank - 1]);
    struct batch_dim dims[ENG_RANK_MAX];
    uint32_t batch = batch_dims(&desc, &ma, &mb, dims);
    if (batch > ENG_RANK_MAX - 3) {
        BASE_TRY(spread(lower, left, &desc, &ma));
        BASE_TRY(spread(lower, right, &desc, &mb));
        batch = batch_dims(&desc, &ma, &mb, dims);
    }
    uint32_t inputs[2] = {ma.tensor, mb.tensor};
    struct eng_command command = {
        .op = ENG_OP_MATMUL,
        .inputs = inputs,
        .input_count = 2,
        .outputs = out,
        .output_count = 1,
        .u.matmul = {.batch_rank = batch,
                     .alpha = alpha,
                     .epilogue = {.bias = ENG_NONE, .residual = ENG_NONE}},
    };
    product_views(&ma, &mb, dims, batch, &command);
    BASE_TRY(eng_lower_tensor(lower, ENG_TEMP, ENG_PLAIN, &desc, out));
    return eng_emit_command(lower, &command);
}
