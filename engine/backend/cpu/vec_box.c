// Tiles of elementwise steps: collapsing the box, choosing how each operand is read, and reading
// it. Called by vec_expr.c: preparing on the planning thread, the rest on the pool's threads, which
// share the prepared struct and never write it. An operand is read where it lies when its rows are
// contiguous, is one value, or is copied into the tile; which it is, is decided once, so that
// running asks nothing per element.
#include "backend/cpu/vec_box.h"

#include "base/check.h"

#include <string.h>

#define TILE_LARGE (16 * ENG_VEC_TILE) // when nothing is copied

static bool merges(const struct eng_vec_box *box, uint32_t dim,
                   const struct eng_vec_operand *operands, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (operands[i].stride[dim] != operands[i].stride[dim + 1] * box->size[dim + 1]) {
            return false;
        }
    }
    return true;
}

static void remove_dim(struct eng_vec_box *box, uint32_t dim, struct eng_vec_operand *operands,
                       uint32_t count)
{
    base_assert(dim < box->rank && box->rank > 1);
    box->rank--;
    for (uint32_t k = dim; k < box->rank; k++) {
        box->size[k] = box->size[k + 1];
        for (uint32_t i = 0; i < count; i++) {
            operands[i].stride[k] = operands[i].stride[k + 1];
        }
    }
}

static void collapse(struct eng_vec_box *box, struct eng_vec_operand *operands, uint32_t count)
{
    for (uint32_t d = box->rank; d-- > 0;) {
        if (box->size[d] == 1 && box->rank > 1) {
            remove_dim(box, d, operands, count);
        }
    }
    for (uint32_t d = box->rank; d-- > 1;) {
        if (merges(box, d - 1, operands, count)) {
            box->size[d - 1] *= box->size[d];
            for (uint32_t i = 0; i < count; i++) {
                operands[i].stride[d - 1] = operands[i].stride[d];
            }
            remove_dim(box, d, operands, count);
        }
    }
}

static bool is_dense(const struct eng_vec_box *box, const struct eng_vec_operand *operand)
{
    int64_t stride = 1;
    for (uint32_t d = box->rank; d-- > 0;) {
        if (operand->stride[d] != stride && box->size[d] != 1) {
            return false;
        }
        stride *= box->size[d];
    }
    return true;
}

static bool is_constant(const struct eng_vec_box *box, const struct eng_vec_operand *operand,
                        uint32_t dims)
{
    for (uint32_t d = 0; d < dims; d++) {
        if (operand->stride[d] != 0 && box->size[d] != 1) {
            return false;
        }
    }
    return true;
}

static enum eng_vec_access choose(const struct eng_vec_box *box,
                                  const struct eng_vec_operand *operand)
{
    uint32_t last = box->rank - 1;
    if (is_dense(box, operand)) {
        return ENG_VEC_DENSE;
    }
    if (is_constant(box, operand, box->rank)) {
        return ENG_VEC_VALUE;
    }
    if (box->rows_per_tile != 0) {
        return is_constant(box, operand, last) ? ENG_VEC_ROW : ENG_VEC_GATHER;
    }
    switch (operand->stride[last]) {
    case 0:
        return ENG_VEC_VALUE;
    case 1:
        return ENG_VEC_RUN;
    default:
        return ENG_VEC_GATHER;
    }
}

static void choose_tiles(struct eng_vec_box *box, const struct eng_vec_operand *operands,
                         uint32_t count, bool plain)
{
    for (uint32_t i = 0; i < count; i++) {
        plain = plain && (is_dense(box, &operands[i]) || is_constant(box, &operands[i], box->rank));
    }
    base_assert(box->rank > 0 && box->count > 0);
    box->tile = plain ? TILE_LARGE : ENG_VEC_TILE;
    box->inner = box->size[box->rank - 1];
    box->rows = box->count / box->inner;
    box->rows_per_tile = 0;
    if (box->rows > 1 && box->inner * 2 <= box->tile) {
        box->rows_per_tile = box->tile / box->inner;
        box->tiles = (box->rows + box->rows_per_tile - 1) / box->rows_per_tile;
    } else {
        box->pieces = (box->inner + box->tile - 1) / box->tile;
        box->tiles = box->rows * box->pieces;
    }
}

enum base_status eng_vec_box_init(struct eng_vec_box *box, const struct eng_program *program,
                                  const struct eng_command *command,
                                  struct eng_vec_operand *operands, uint32_t count)
{
    base_assert(command->box.rank <= ENG_RANK_MAX && count <= command->input_count);
    *box = (struct eng_vec_box){.rank = command->box.rank, .count = 1};
    for (uint32_t d = 0; d < box->rank; d++) {
        box->size[d] = command->box.size[d];
        if (box->size[d] <= 0 || __builtin_mul_overflow(box->count, box->size[d], &box->count)) {
            return BASE_ERR_UNSUPPORTED;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct eng_tensor *tensor = &program->tensors[command->inputs[i]];
        base_assert(eng_dtype_bytes(tensor->desc.dtype) == 1 ||
                    eng_dtype_bytes(tensor->desc.dtype) == sizeof(float));
        operands[i] = (struct eng_vec_operand){
            .input = command->inputs[i],
            .bytes = (uint32_t)eng_dtype_bytes(tensor->desc.dtype),
            .offset = command->views[i].offset,
        };
        memcpy(operands[i].stride, command->views[i].stride, sizeof operands[i].stride);
    }
    if (box->rank == 0) {
        box->rank = 1;
        box->size[0] = 1;
    }
    collapse(box, operands, count);
    choose_tiles(box, operands, count, command->op != ENG_OP_EXPR);
    for (uint32_t i = 0; i < count; i++) {
        operands[i].access = choose(box, &operands[i]);
    }
    return BASE_OK;
}

void eng_vec_box_tile(const struct eng_vec_box *box, int64_t number, struct eng_vec_tile *out)
{
    base_assert(number >= 0 && number < box->tiles);
    int64_t row = number;
    out->column = 0;
    if (box->rows_per_tile != 0) {
        row = number * box->rows_per_tile;
        out->row_count =
            box->rows - row < box->rows_per_tile ? box->rows - row : box->rows_per_tile;
        out->count = out->row_count * box->inner;
    } else {
        if (box->pieces > 1) {
            row = number / box->pieces;
            out->column = (number - row * box->pieces) * box->tile;
        }
        int64_t left = box->inner - out->column;
        out->row_count = 1;
        out->count = left < box->tile ? left : box->tile;
    }
    out->row = row;
    out->out = row * box->inner + out->column;
    for (uint32_t d = box->rank - 1; d-- > 0;) {
        out->index[d] = row % box->size[d];
        row /= box->size[d];
    }
}

bool eng_vec_operand_is_value(const struct eng_vec_operand *operand)
{
    return operand->access == ENG_VEC_VALUE;
}

bool eng_vec_operand_is_copied(const struct eng_vec_operand *operand)
{
    return operand->access == ENG_VEC_ROW || operand->access == ENG_VEC_GATHER;
}

#define COPY_BLOCK 16 // a constant number of steps becomes vectors

static void copy_floats(const float *from, int64_t stride, float *to, int64_t count)
{
    int64_t i = 0;
    if (stride == 1) {
        memcpy(to, from, (size_t)count * sizeof(float));
        return;
    }
    if (stride == 0) {
        float value = *from;
        for (; i + COPY_BLOCK <= count; i += COPY_BLOCK) {
            for (int64_t j = 0; j < COPY_BLOCK; j++) {
                to[i + j] = value;
            }
        }
    }
    for (; i < count; i++) {
        to[i] = from[i * stride];
    }
}

// count elements, `stride` apart, to where they lie side by side.
static void copy_run(const struct eng_vec_operand *operand, const void *source, int64_t stride,
                     void *target, int64_t count)
{
    if (operand->bytes == sizeof(float)) {
        copy_floats(source, stride, target, count);
        return;
    }
    const uint8_t *from = source;
    uint8_t *to = target;
    for (int64_t i = 0; i < count; i++) {
        to[i] = from[i * stride];
    }
}

// Offset of the row at `index`.
static int64_t row_offset(const struct eng_vec_operand *operand, const struct eng_vec_box *box,
                          const int64_t *index)
{
    int64_t at = operand->offset;
    for (uint32_t d = 0; d + 1 < box->rank; d++) {
        at += index[d] * operand->stride[d];
    }
    return at;
}

static void gather_rows(const struct eng_vec_operand *operand, const struct eng_vec_box *box,
                        const struct eng_vec_tile *tile, const void *base, void *slot)
{
    base_assert(tile->count <= ENG_VEC_TILE); // as many as a slot holds
    uint32_t last = box->rank - 1;
    int64_t index[ENG_RANK_MAX];
    memcpy(index, tile->index, sizeof index);
    int64_t at = row_offset(operand, box, index);
    int64_t stride = operand->stride[last], bytes = operand->bytes;
    const uint8_t *from = base;
    uint8_t *to = slot;
    if (box->rows_per_tile == 0) {
        copy_run(operand, from + (at + tile->column * stride) * bytes, stride, to, tile->count);
        return;
    }
    for (int64_t r = 0; r < tile->row_count; r++) {
        copy_run(operand, from + at * bytes, stride, to + r * box->inner * bytes, box->inner);
        for (uint32_t d = last; d-- > 0;) {
            at += operand->stride[d];
            if (++index[d] < box->size[d]) {
                break;
            }
            at -= operand->stride[d] * box->size[d];
            index[d] = 0;
        }
    }
}

const void *eng_vec_operand_at(const struct eng_vec_operand *operand, const struct eng_vec_box *box,
                               const struct eng_vec_tile *tile, const void *base, void *slot)
{
    int64_t at = 0;
    switch (operand->access) {
    case ENG_VEC_DENSE:
        at = operand->offset + tile->out;
        break;
    case ENG_VEC_VALUE:
        at = row_offset(operand, box, tile->index);
        break;
    case ENG_VEC_RUN:
        at = row_offset(operand, box, tile->index) + tile->column;
        break;
    case ENG_VEC_GATHER:
        gather_rows(operand, box, tile, base, slot);
        return slot;
    case ENG_VEC_ROW:
        return slot;
    }
    return (const uint8_t *)base + at * (int64_t)operand->bytes;
}

void eng_vec_operand_rows(const struct eng_vec_operand *operand, const struct eng_vec_box *box,
                          const void *base, void *slot)
{
    base_assert(operand->access == ENG_VEC_ROW && box->rows_per_tile > 0);
    const int64_t stride = operand->stride[box->rank - 1], bytes = operand->bytes;
    const uint8_t *from = (const uint8_t *)base + operand->offset * bytes;
    uint8_t *to = slot;
    for (int64_t r = 0; r < box->rows_per_tile; r++) {
        copy_run(operand, from, stride, to + r * box->inner * bytes, box->inner);
    }
}
