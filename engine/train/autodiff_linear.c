// Gradients of products and pools. Called by the walk (autodiff.c) through its table, on the
// trainer's thread while it plans. The gradient of either operand of a product is a product again,
// of dy and the other operand, with strides chosen so that it comes out in the order in which the
// operand lies: nothing is transposed. A pool's gradient is the command POOL_GRAD, which has
// kernels of its own.
#include "train/autodiff_rules.h"

#include <string.h>

// --- products ---------------------------------------------------------------------------------

// C[b, m, n] = alpha sum_k A[b, m, k] B[b, k, n]. The gradient of either operand is a product of dy
// and the other one, made in the order of dims in which the operand lies in memory.

struct operand {
    uint32_t tensor;
    struct eng_view view; // over batch..., then the two dims of its own
    int64_t offset, first, second;
};

struct product {
    uint32_t batch_rank;
    int64_t batch[ENG_RANK_MAX];
    float alpha;
};

// out[b, p, q] = alpha sum_r left[b, p, r] right[b, r, q]; strides of p, r and r, q.
static enum base_status emit_product(struct eng_ad *ad, const struct product *shape,
                                     const struct operand *left, const struct operand *right,
                                     const int64_t *pqr, enum eng_dtype dtype, uint32_t *out)
{
    uint32_t inputs[2] = {left->tensor, right->tensor}, batch = shape->batch_rank;
    struct eng_box box = {.rank = batch + 3};
    struct eng_command *matmul = NULL;
    memcpy(box.size, shape->batch, batch * sizeof(int64_t));
    memcpy(box.size + batch, pqr, 3 * sizeof(int64_t));
    BASE_TRY(ad_flat(ad, dtype, ad_volume(&box) / (pqr[2] > 0 ? pqr[2] : 1), out));
    BASE_TRY(ad_command(ad, ENG_OP_MATMUL, inputs, 2, *out, &matmul));
    matmul->box = box;
    matmul->views[0] = left->view;
    matmul->views[0].stride[batch] = left->first;
    matmul->views[0].stride[batch + 1] = 0;
    matmul->views[0].stride[batch + 2] = left->second;
    matmul->views[1] = right->view;
    matmul->views[1].stride[batch] = 0;
    matmul->views[1].stride[batch + 1] = right->second;
    matmul->views[1].stride[batch + 2] = right->first;
    matmul->u.matmul = (struct eng_matmul){
        .batch_rank = batch,
        .alpha = shape->alpha,
        .epilogue = {.bias = ENG_NONE, .residual = ENG_NONE},
    };
    return BASE_OK;
}

static struct operand flipped(const struct operand *operand)
{
    struct operand f = *operand;
    f.first = operand->second;
    f.second = operand->first;
    return f;
}

// Gradient of an operand that lies as [p, q] with the strides of `own`: left [p, r], right [r, q].
static enum base_status give_product(struct eng_ad *ad, const struct product *shape,
                                     const struct operand *own, const struct operand *left,
                                     const struct operand *right, int64_t p, int64_t q, int64_t r)
{
    uint32_t batch = shape->batch_rank, gradient = ENG_NONE;
    bool swaps = own->first < own->second && p > 1 && q > 1; // q is the slow dim: make [q, p]
    struct operand l = swaps ? flipped(right) : *left, m = swaps ? flipped(left) : *right;
    int64_t pqr[3] = {swaps ? q : p, swaps ? p : q, r};
    enum eng_dtype dtype = ad_tensor(ad, own->tensor)->desc.dtype;
    struct eng_box box = {.rank = batch + 2};
    struct eng_view view = own->view;
    BASE_TRY(emit_product(ad, shape, &l, &m, pqr, dtype, &gradient));
    memcpy(box.size, shape->batch, batch * sizeof(int64_t));
    box.size[batch] = pqr[0];
    box.size[batch + 1] = pqr[1];
    view.stride[batch] = swaps ? own->second : own->first;
    view.stride[batch + 1] = swaps ? own->first : own->second;
    view.stride[batch + 2] = 0;
    return ad_give_view(ad, own->tensor, gradient, &box, &view);
}

enum base_status ad_rule_matmul(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_matmul *matmul = &command->u.matmul;
    uint32_t batch = matmul->batch_rank;
    const int64_t *size = command->box.size, *sa = command->views[0].stride,
                  *sb = command->views[1].stride;
    int64_t m = size[batch], n = size[batch + 1], k = size[batch + 2], step = m * n, rows = m;
    struct product shape = {.batch_rank = batch, .alpha = matmul->alpha};
    memcpy(shape.batch, size, batch * sizeof(int64_t));
    struct operand a = {command->inputs[0], command->views[0], 0, sa[batch], sa[batch + 2]};
    struct operand b = {command->inputs[1], command->views[1], 0, sb[batch + 2], sb[batch + 1]};
    struct operand y = {.tensor = dy, .first = n, .second = 1};
    for (uint32_t d = batch; d-- > 0;) {
        y.view.stride[d] = step;
        step *= size[d];
        rows *= size[d];
    }
    if (matmul->epilogue.has_activation || matmul->epilogue.residual != ENG_NONE) {
        return ad_refuse(ad, command, "fused");
    }
    BASE_TRY(ad_give_bias(ad, matmul->epilogue.bias, dy, rows, n, 1));
    struct operand a_t = flipped(&a), b_t = flipped(&b);
    if (ad_needs(ad, command, 0)) { // [m, k] = dy [m, n] B^T [n, k]
        BASE_TRY(give_product(ad, &shape, &a, &y, &b_t, m, k, n));
    }
    if (ad_needs(ad, command, 1)) { // [k, n] = A^T [k, m] dy [m, n]
        BASE_TRY(give_product(ad, &shape, &b, &a_t, &y, k, n, m));
    }
    return BASE_OK;
}

// --- pools --------------------------------------------------------------------------------------

enum base_status ad_rule_pool(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    uint32_t inputs[2] = {command->inputs[0], dy}, dx = ENG_NONE;
    struct eng_command *made = NULL;
    BASE_TRY(ad_like(ad, command->inputs[0], &dx));
    BASE_TRY(ad_command(ad, ENG_OP_POOL_GRAD, inputs, 2, dx, &made));
    made->u.pool = command->u.pool;
    return ad_give(ad, command->inputs[0], dx);
}
