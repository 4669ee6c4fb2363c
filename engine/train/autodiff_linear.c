// Gradients of products and pools. Called by the walk (autodiff.c) through its table, on the
// trainer's thread while it plans. The gradient of either operand of a product is a product again,
// of dy and the other operand, with strides chosen so that it comes out in the order in which the
// operand lies: nothing is transposed. A pool's gradient is the command POOL_GRAD, which has
// kernels of its own.
#include "train/autodiff_rules.h"

#include "base/check.h"

#include <string.h>

// --- products ---------------------------------------------------------------------------------

// C[b, m, n] = alpha sum_k A[b, m, k] B[b, k, n]. The gradient of either operand is a product of dy
// and the other one, made in the order of dims in which the operand lies in memory.

struct operand {
    uint32_t tensor;
    struct eng_view view; // over batch..., then the two dims of its own
    int64_t offset, first, second;
};

// out[b, p, q] = alpha sum_r left[b, p, r] right[b, r, q].
struct product {
    uint32_t batch_rank;
    int64_t batch[ENG_RANK_MAX];
    float alpha;
    int64_t p, q, r;
    struct operand left, right; // strides of p, r and of r, q
};

static enum base_status emit_product(struct eng_ad *ad, const struct product *product,
                                     enum eng_dtype dtype, uint32_t *out)
{
    const struct operand *left = &product->left, *right = &product->right;
    uint32_t inputs[2] = {left->tensor, right->tensor}, batch = product->batch_rank;
    struct eng_box box = {.rank = batch + 3};
    struct eng_command *matmul = NULL;
    base_assert(batch + 3 <= ENG_RANK_MAX);
    memcpy(box.size, product->batch, batch * sizeof(int64_t));
    box.size[batch] = product->p;
    box.size[batch + 1] = product->q;
    box.size[batch + 2] = product->r;
    BASE_TRY(ad_flat(ad, dtype, ad_volume(&box) / (product->r > 0 ? product->r : 1), out));
    BASE_TRY(ad_command(ad, ENG_OP_MATMUL, &(struct ad_ports){inputs, 2, *out}, &matmul));
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
        .alpha = product->alpha,
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

// The product as [q, p]: out[b, q, p] = alpha sum_r right[b, r, q] left[b, p, r].
static struct product turned(const struct product *product)
{
    struct product t = *product;
    t.p = product->q;
    t.q = product->p;
    t.left = flipped(&product->right);
    t.right = flipped(&product->left);
    return t;
}

// Gives the product to an operand that lies as [p, q] with the strides of `own`.
static enum base_status give_product(struct eng_ad *ad, const struct product *product,
                                     const struct operand *own)
{
    uint32_t batch = product->batch_rank, gradient = ENG_NONE;
    // q is the slow dim: make [q, p]
    bool swaps = own->first < own->second && product->p > 1 && product->q > 1;
    const struct product made = swaps ? turned(product) : *product;
    enum eng_dtype dtype = ad_tensor(ad, own->tensor)->desc.dtype;
    struct eng_box box = {.rank = batch + 2};
    struct eng_view view = own->view;
    BASE_TRY(emit_product(ad, &made, dtype, &gradient));
    memcpy(box.size, product->batch, batch * sizeof(int64_t));
    box.size[batch] = made.p;
    box.size[batch + 1] = made.q;
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
    struct product by_a = {.batch_rank = batch, .alpha = matmul->alpha, .p = m, .q = k, .r = n};
    struct product by_b = {.batch_rank = batch, .alpha = matmul->alpha, .p = k, .q = n, .r = m};
    memcpy(by_a.batch, size, batch * sizeof(int64_t));
    memcpy(by_b.batch, size, batch * sizeof(int64_t));
    struct operand a = {command->inputs[0], command->views[0], 0, sa[batch], sa[batch + 2]};
    struct operand b = {command->inputs[1], command->views[1], 0, sb[batch + 2], sb[batch + 1]};
    struct operand y = {.tensor = dy, .first = n, .second = 1};
    for (uint32_t d = batch; d-- > 0;) {
        y.view.stride[d] = step;
        step *= size[d];
        rows *= size[d];
    }
    base_assert(command->box.rank == batch + 3);
    base_assert(rows * n == ad_count(ad, dy));
    if (matmul->epilogue.has_activation || matmul->epilogue.residual != ENG_NONE) {
        return ad_refuse(ad, command, "fused");
    }
    const struct eng_box columns = {.rank = 3, .size = {rows, n, 1}};
    BASE_TRY(ad_give_bias(ad, matmul->epilogue.bias, dy, &columns));
    by_a.left = by_b.right = y;
    by_a.right = flipped(&b);
    by_b.left = flipped(&a);
    if (ad_needs(ad, command, 0)) { // [m, k] = dy [m, n] B^T [n, k]
        BASE_TRY(give_product(ad, &by_a, &a));
    }
    if (ad_needs(ad, command, 1)) { // [k, n] = A^T [k, m] dy [m, n]
        BASE_TRY(give_product(ad, &by_b, &b));
    }
    return BASE_OK;
}

// --- pools --------------------------------------------------------------------------------------

enum base_status ad_rule_pool(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    uint32_t inputs[2] = {command->inputs[0], dy}, dx = ENG_NONE;
    struct eng_command *made = NULL;
    BASE_TRY(ad_like(ad, command->inputs[0], &dx));
    BASE_TRY(ad_command(ad, ENG_OP_POOL_GRAD, &(struct ad_ports){inputs, 2, dx}, &made));
    made->u.pool = command->u.pool;
    return ad_give(ad, command->inputs[0], dx);
}
