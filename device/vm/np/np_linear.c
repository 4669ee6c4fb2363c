// Products of vectors and matrices, in the type of the operands: by tiles where both are matrices
// of some size, else row by row. What is multiplied lies densely, or is copied so that it does. The
// loops are those of np_product.h. Called by scripts, on the VM's thread.
#include "vm/np/np_calls.h"
#include "vm/np/np_math.h"
#include "vm/np/np_product.h"

#include <string.h>

#define TILES_FROM 8 // columns and depth from which packing is worth it

// Dense matrices of one type: to[rows, columns] += left[rows, inner] right[inner, columns].
struct product {
    enum np_type type;
    size_t rows;
    size_t inner;
    size_t columns;
};

// What was gone through and not paid for; raises where the budget is used up.
static void owe(size_t *owed, size_t elements)
{
    *owed += elements;
    if (*owed >= NP_CHUNK) {
        dev_np_pay(*owed);
        *owed = 0;
    }
}

// A row of the result is the sum of the right operand's rows, each times a number.
static void multiply_rows(const struct product *product, uint8_t *to, const uint8_t *left,
                          const uint8_t *right)
{
    size_t item = dev_np_item(product->type);
    np_axpy *axpy = dev_np_axpy_loop(product->type);
    size_t owed = 0;
    for (size_t i = 0; i < product->rows; i++) {
        for (size_t k = 0; k < product->inner; k++) {
            axpy(to, left, right + k * product->columns * item, product->columns);
            left += item;
            owe(&owed, product->columns + 1);
        }
        to += product->columns * item;
    }
    dev_np_pay(owed);
}

// The right operand is one column.
static void multiply_column(const struct product *product, uint8_t *to, const uint8_t *left,
                            const uint8_t *right)
{
    size_t item = dev_np_item(product->type);
    np_dot *dot = dev_np_dot_loop(product->type);
    size_t owed = 0;
    for (size_t i = 0; i < product->rows; i++) {
        for (size_t done = 0; done < product->inner; done += NP_CHUNK) {
            size_t left_over = product->inner - done;
            size_t now = left_over < NP_CHUNK ? left_over : NP_CHUNK;
            dot(to, left, right + done * item, now);
            left += now * item;
            owe(&owed, now + 1);
        }
        to += item;
    }
    dev_np_pay(owed);
}

// Columns of the right operand are packed, some rows of them at a time, and all rows of the left
// gone through with each panel.
static void multiply_tiles(const struct product *product, uint8_t *to, const uint8_t *left,
                           const uint8_t *right)
{
    _Alignas(NP_PANEL_BYTES) uint8_t packed[NP_PANEL_DEPTH * NP_PANEL_BYTES];
    size_t item = dev_np_item(product->type);
    size_t wide = NP_PANEL_BYTES / item;
    size_t rows = NP_CHUNK / (NP_PANEL_DEPTH * wide);
    np_tiles *tiles = dev_np_tiles_loop(product->type);
    size_t owed = 0;
    struct np_tile tile = {
        .packed = packed, .to_step = product->columns * item, .left_step = product->inner * item};
    for (size_t k = 0; k < product->inner; k += NP_PANEL_DEPTH) {
        tile.depth = product->inner - k < NP_PANEL_DEPTH ? product->inner - k : NP_PANEL_DEPTH;
        for (size_t j = 0; j < product->columns; j += wide) {
            tile.columns = product->columns - j < wide ? product->columns - j : wide;
            memset(packed, 0, tile.columns < wide ? sizeof(packed) : 0);
            for (size_t d = 0; d < tile.depth; d++) {
                memcpy(packed + d * NP_PANEL_BYTES, right + ((k + d) * product->columns + j) * item,
                       tile.columns * item);
            }
            for (size_t i = 0; i < product->rows; i += rows) {
                tile.rows = product->rows - i < rows ? product->rows - i : rows;
                tile.to = to + (i * product->columns + j) * item;
                tile.left = left + (i * product->inner + k) * item;
                tiles(&tile);
                owe(&owed, tile.rows * tile.depth * tile.columns);
            }
        }
    }
    dev_np_pay(owed);
}

static void multiply(const struct product *product, uint8_t *to, const uint8_t *left,
                     const uint8_t *right)
{
    if (product->columns == 1) {
        multiply_column(product, to, left, right);
    } else if (dev_np_is_real(product->type) && product->rows >= NP_TILE_ROWS &&
               product->inner >= TILES_FROM && product->columns >= TILES_FROM) {
        multiply_tiles(product, to, left, right);
    } else {
        multiply_rows(product, to, left, right);
    }
}

static const struct np_array *dense_of(const struct np_array *array, enum np_type type)
{
    return array->type == type ? dev_np_dense(array) : dev_np_cast(array, type);
}

static _Noreturn void raise_sizes(void)
{
    mp_raise_ValueError(MP_ERROR_TEXT("walle.np: the sizes of the inner dimensions differ"));
}

// Matrices in the last two dimensions, stacks of them in those before.
static struct np_array *stacks(const struct np_array *left, const struct np_array *right)
{
    enum np_type type = dev_np_promote(left->type, right->type);
    struct product product = {type, (size_t)left->dims[left->rank - 2],
                              (size_t)left->dims[left->rank - 1],
                              (size_t)right->dims[right->rank - 1]};
    if (right->dims[right->rank - 2] != left->dims[left->rank - 1]) {
        raise_sizes();
    }
    struct np_array heads[2] = {*left, *right}; // the stacks alone
    const struct np_array *both[] = {&heads[0], &heads[1]};
    struct np_array shape;
    heads[0].rank -= 2;
    heads[1].rank -= 2;
    dev_np_broadcast_dims(both, 2, &shape);
    int64_t dims[3][NP_RANK];
    uint32_t rank = shape.rank + 2;
    for (uint32_t i = 0; i < 3; i++) {
        memcpy(dims[i], shape.dims, shape.rank * sizeof(int64_t));
        dims[i][shape.rank] = i == 1 ? (int64_t)product.inner : (int64_t)product.rows;
        dims[i][shape.rank + 1] = i == 0 ? (int64_t)product.inner : (int64_t)product.columns;
    }
    struct np_array wide_left = dev_np_stretched(left, rank, dims[0]);
    struct np_array wide_right = dev_np_stretched(right, rank, dims[1]);
    struct np_array *made = dev_np_new(type, rank, dims[2]);
    const struct np_array *dense_left = dense_of(&wide_left, type);
    const struct np_array *dense_right = dense_of(&wide_right, type);
    size_t item = dev_np_item(type);
    size_t one = product.rows * product.columns;
    for (size_t i = 0; one > 0 && i < made->size / one; i++) {
        multiply(&product, made->data + i * one * item,
                 dense_left->data + i * product.rows * product.inner * item,
                 dense_right->data + i * product.inner * product.columns * item);
        dev_vm_step();
    }
    return made;
}

static void dim_drop(struct np_array *array, uint32_t axis)
{
    uint32_t behind = array->rank - axis - 1;
    memmove(array->dims + axis, array->dims + axis + 1, behind * sizeof(int64_t));
    memmove(array->steps + axis, array->steps + axis + 1, behind * sizeof(int64_t));
    array->rank--;
}

mp_obj_t dev_np_matmul(mp_obj_t left_object, mp_obj_t right_object)
{
    const struct np_array *left = dev_np_of(left_object);
    const struct np_array *right = dev_np_of(right_object);
    if (left->rank == 0 || right->rank == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: matmul is not of numbers"));
    }
    bool is_row = left->rank == 1;
    bool is_column = right->rank == 1;
    struct np_array *made = stacks(is_row ? dev_np_expanded(left, 0) : left,
                                   is_column ? dev_np_expanded(right, 1) : right);
    if (is_column) {
        dim_drop(made, made->rank - 1);
    }
    if (is_row) {
        dim_drop(made, made->rank - (is_column ? 1 : 2));
    }
    return dev_np_result(made);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_matmul_obj, dev_np_matmul);

static struct np_array *as_matrix(const struct np_array *array, int64_t rows, int64_t columns)
{
    struct np_array *matrix = dev_np_view(dev_np_dense(array));
    int64_t item = (int64_t)dev_np_item(array->type);
    matrix->rank = 2;
    matrix->dims[0] = rows;
    matrix->dims[1] = columns;
    matrix->steps[0] = columns * item;
    matrix->steps[1] = item;
    return matrix;
}

// Sums over the last dimension of the left and one of the right, whose others come behind.
static mp_obj_t contracted(const struct np_array *left, const struct np_array *right, uint32_t axis)
{
    int64_t inner = left->dims[left->rank - 1];
    int64_t dims[2 * NP_RANK];
    uint32_t rank = left->rank - 1;
    if (right->dims[axis] != inner) {
        raise_sizes();
    }
    memcpy(dims, left->dims, rank * sizeof(int64_t));
    struct np_array *moved = dev_np_view(right); // its summed dimension first
    uint32_t next = 1;
    moved->dims[0] = right->dims[axis];
    moved->steps[0] = right->steps[axis];
    for (uint32_t d = 0; d < right->rank; d++) {
        if (d != axis) {
            moved->dims[next] = right->dims[d];
            moved->steps[next++] = right->steps[d];
            dims[rank++] = right->dims[d];
        }
    }
    if (rank > NP_RANK) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: the result has too many dimensions"));
    }
    int64_t rows = 1;
    int64_t columns = 1;
    for (uint32_t d = 0; d < rank; d++) {
        *(d < left->rank - 1 ? &rows : &columns) *= dims[d];
    }
    struct np_array *made = stacks(as_matrix(left, rows, inner), as_matrix(moved, inner, columns));
    struct np_array *shaped = dev_np_new(made->type, rank, dims);
    memcpy(shaped->data, made->data, made->size * dev_np_item(made->type));
    return dev_np_result(shaped);
}

// dot(a, b)
static mp_obj_t dot(mp_obj_t a, mp_obj_t b)
{
    const struct np_array *left = dev_np_of(a);
    const struct np_array *right = dev_np_of(b);
    if (left->rank == 0 || right->rank == 0) {
        return dev_np_binary(NP_MULTIPLY, a, b, MP_OBJ_NULL);
    }
    return contracted(left, right, right->rank > 1 ? right->rank - 2 : 0);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_dot_obj, dot);

// inner(a, b): over the last dimension of both
static mp_obj_t inner(mp_obj_t a, mp_obj_t b)
{
    const struct np_array *left = dev_np_of(a);
    const struct np_array *right = dev_np_of(b);
    if (left->rank == 0 || right->rank == 0) {
        return dev_np_binary(NP_MULTIPLY, a, b, MP_OBJ_NULL);
    }
    return contracted(left, right, right->rank - 1);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_inner_obj, inner);

// vdot(a, b): of all elements
static mp_obj_t vdot(mp_obj_t a, mp_obj_t b)
{
    return contracted(dev_np_flat(dev_np_of(a)), dev_np_flat(dev_np_of(b)), 0);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_vdot_obj, vdot);

// outer(a, b): each element of one times each of the other
static mp_obj_t outer(mp_obj_t a, mp_obj_t b)
{
    const struct np_array *column = dev_np_expanded(dev_np_flat(dev_np_of(a)), 1);
    return dev_np_binary(NP_MULTIPLY, MP_OBJ_FROM_PTR(column),
                         MP_OBJ_FROM_PTR(dev_np_flat(dev_np_of(b))), MP_OBJ_NULL);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_outer_obj, outer);
