// Gradients of commands over the middle of [outer, n, inner]: reductions, softmax, cumulative sums;
// and of normalisation. Called by the walk (autodiff.c) through its table, on the trainer's thread
// while it plans. What the forward command did not keep is computed again (a normalisation without
// scale and bias), rather than kept for every step of a run. Equal extremes share a gradient
// evenly.
#include "train/autodiff_rules.h"

#include "base/check.h"

// [outer, count, inner], and how a tensor [outer, inner] is read over it.
static struct eng_box box_of(int64_t outer, int64_t count, int64_t inner)
{
    return (struct eng_box){.rank = 3, .size = {outer, count, inner}};
}
static struct eng_view across(int64_t inner)
{
    return (struct eng_view){.stride = {inner, 0, 1}};
}

// --- reduce -----------------------------------------------------------------------------------

// 1 where the input is the extreme, the output. That is a copy of one of them, so they are equal to
// the bit.
static uint8_t is_extreme(struct ad_expr *expr, uint8_t value, uint8_t output)
{
    uint8_t distance = ad_unary(expr, ENG_ABS, ad_binary(expr, ENG_SUB, value, output));
    return ad_plus(expr, ad_unary(expr, ENG_NEG, ad_unary(expr, ENG_SIGN, distance)), 1);
}

// Equal extremes share: dx = dy / how many there are.
static enum base_status extreme_gradient(struct eng_ad *ad, const struct eng_command *command,
                                         uint32_t dy, uint32_t *out)
{
    const struct eng_reduce *r = &command->u.reduce;
    struct eng_box box = box_of(r->outer, r->n, r->inner);
    struct eng_view short_view = across(r->inner);
    enum eng_dtype dtype = ad_tensor(ad, dy)->desc.dtype;
    uint32_t mask = ENG_NONE, ties = ENG_NONE;
    struct ad_expr e;
    ad_expr_init(&e, &box);
    uint8_t x = ad_load_dense(&e, command->inputs[0]);
    uint8_t y = ad_load(&e, command->outputs[0], &short_view);
    (void)is_extreme(&e, x, y);
    BASE_TRY(ad_expr_emit(ad, &e, dtype, &mask));
    const struct eng_reduce sum = {ENG_REDUCE_SUM, r->outer, r->n, r->inner};
    BASE_TRY(ad_reduce(ad, mask, &sum, &ties));
    ad_expr_init(&e, &box);
    uint8_t chosen = ad_load_dense(&e, mask), count = ad_load(&e, ties, &short_view);
    uint8_t in_dy = ad_load(&e, dy, &short_view);
    (void)ad_binary(&e, ENG_DIV, ad_binary(&e, ENG_MUL, chosen, in_dy), count);
    return ad_expr_emit(ad, &e, dtype, out);
}

// dx over [outer, n, inner] from the registers; the last instruction is the result.
static void reduce_gradient(struct ad_expr *expr, const struct eng_reduce *reduce, uint8_t value,
                            uint8_t output, uint8_t dy)
{
    switch (reduce->fn) {
    case ENG_REDUCE_SUM:
        (void)ad_times(expr, dy, 1);
        break;
    case ENG_REDUCE_MEAN:
        (void)ad_times(expr, dy, 1 / (double)reduce->n);
        break;
    case ENG_REDUCE_PROD: // undefined where x is 0
        (void)ad_binary(expr, ENG_MUL, dy, ad_binary(expr, ENG_DIV, output, value));
        break;
    case ENG_REDUCE_SUM_SQUARE:
        (void)ad_binary(expr, ENG_MUL, dy, ad_times(expr, value, 2));
        break;
    case ENG_REDUCE_L1:
        (void)ad_binary(expr, ENG_MUL, dy, ad_unary(expr, ENG_SIGN, value));
        break;
    case ENG_REDUCE_L2:
        (void)ad_binary(expr, ENG_MUL, dy, ad_binary(expr, ENG_DIV, value, output));
        break;
    case ENG_REDUCE_LOG_SUM:
        (void)ad_binary(expr, ENG_MUL, dy,
                        ad_unary(expr, ENG_EXP, ad_unary(expr, ENG_NEG, output)));
        break;
    default: // LOG_SUM_EXP
        base_assert(reduce->fn == ENG_REDUCE_LOG_SUM_EXP);
        (void)ad_binary(expr, ENG_MUL, dy,
                        ad_unary(expr, ENG_EXP, ad_binary(expr, ENG_SUB, value, output)));
        break;
    }
}

enum base_status ad_rule_reduce(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_reduce *r = &command->u.reduce;
    struct eng_box box = box_of(r->outer, r->n, r->inner);
    struct eng_view short_view = across(r->inner);
    uint32_t dx = ENG_NONE;
    struct ad_expr e;
    if (r->fn == ENG_REDUCE_MAX || r->fn == ENG_REDUCE_MIN) {
        BASE_TRY(extreme_gradient(ad, command, dy, &dx));
        return ad_give(ad, command->inputs[0], dx);
    }
    ad_expr_init(&e, &box);
    uint8_t x = ad_load_dense(&e, command->inputs[0]);
    uint8_t y = ad_load(&e, command->outputs[0], &short_view);
    reduce_gradient(&e, r, x, y, ad_load(&e, dy, &short_view));
    BASE_TRY(ad_expr_emit(ad, &e, ad_tensor(ad, dy)->desc.dtype, &dx));
    return ad_give(ad, command->inputs[0], dx);
}

// --- cumulative sums --------------------------------------------------------------------------

enum base_status ad_rule_cumsum(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    uint32_t dx = ENG_NONE;
    struct eng_command *cumsum = NULL;
    BASE_TRY(ad_like(ad, command->inputs[0], &dx));
    BASE_TRY(ad_command(ad, ENG_OP_CUMSUM, &(struct ad_ports){&dy, 1, dx}, &cumsum));
    cumsum->u.cumsum = command->u.cumsum;
    cumsum->u.cumsum.reverse = !command->u.cumsum.reverse;
    return ad_give(ad, command->inputs[0], dx);
}

// --- softmax ----------------------------------------------------------------------------------

// dx = y (dy - sum y dy), of the logarithm dx = dy - exp(y) sum dy.
enum base_status ad_rule_softmax(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_softmax *s = &command->u.softmax;
    struct eng_box box = box_of(s->outer, s->n, s->inner);
    struct eng_view short_view = across(s->inner);
    enum eng_dtype dtype = ad_tensor(ad, dy)->desc.dtype;
    uint32_t product = dy, sum = ENG_NONE, dx = ENG_NONE, y = command->outputs[0];
    base_assert(ad_volume(&box) == ad_count(ad, dy));
    struct ad_expr e;
    if (!s->log) {
        ad_expr_init(&e, &box);
        uint8_t in_y = ad_load_dense(&e, y);
        (void)ad_binary(&e, ENG_MUL, in_y, ad_load_dense(&e, dy));
        BASE_TRY(ad_expr_emit(ad, &e, dtype, &product));
    }
    const struct eng_reduce over_n = {ENG_REDUCE_SUM, s->outer, s->n, s->inner};
    BASE_TRY(ad_reduce(ad, product, &over_n, &sum));
    ad_expr_init(&e, &box);
    uint8_t in_y = ad_load_dense(&e, y), in_dy = ad_load_dense(&e, dy);
    uint8_t in_sum = ad_load(&e, sum, &short_view);
    if (s->log) {
        (void)ad_binary(&e, ENG_SUB, in_dy,
                        ad_binary(&e, ENG_MUL, ad_unary(&e, ENG_EXP, in_y), in_sum));
    } else {
        (void)ad_binary(&e, ENG_MUL, in_y, ad_binary(&e, ENG_SUB, in_dy, in_sum));
    }
    BASE_TRY(ad_expr_emit(ad, &e, dtype, &dx));
    return ad_give(ad, command->inputs[0], dx);
}

// --- normalisation ----------------------------------------------------------------------------

struct norm_parts {
    uint32_t normal, inverse; // (x - mean) / deviation, [groups]: 1 / deviation
    struct eng_box box;       // [groups, n], cut so that scale is a view of it
    struct eng_view scale;
};

static enum base_status split_box(struct eng_ad *ad, const struct eng_command *command,
                                  struct norm_parts *out)
{
    const struct eng_norm *norm = &command->u.norm;
    base_assert(norm->groups * norm->n == ad_count(ad, command->inputs[0]));
    bool has_scale = command->input_count > 1 && command->inputs[1] != ENG_NONE;
    bool has_bias = command->input_count > 2 && command->inputs[2] != ENG_NONE;
    out->scale = (struct eng_view){0};
    out->box = (struct eng_box){.rank = 2, .size = {norm->groups, norm->n}};
    if (!has_scale && !has_bias) {
        return BASE_OK;
    }
    if (norm->scale_per_group) {
        int64_t count = norm->scale_count < norm->groups ? norm->scale_count : norm->groups;
        if (norm->groups % count != 0) {
            return ad_refuse(ad, command, "groups are no multiple of the scales");
        }
        out->box = (struct eng_box){.rank = 3, .size = {norm->groups / count, count, norm->n}};
        out->scale.stride[1] = 1;
        return BASE_OK;
    }
    int64_t cycle = norm->scale_inner * norm->scale_count;
    if (norm->n % cycle != 0) {
        return ad_refuse(ad, command, "rows are no multiple of the scales");
    }
    out->box = (struct eng_box){
        .rank = 4, .size = {norm->groups, norm->n / cycle, norm->scale_count, norm->scale_inner}};
    out->scale.stride[2] = 1;
    return BASE_OK;
}

// The forward command again without scale and bias, for what it does not keep.
static enum base_status normalise_again(struct eng_ad *ad, const struct eng_command *command,
                                        struct norm_parts *out)
{
    const struct eng_norm *norm = &command->u.norm;
    enum eng_dtype dtype = ad_tensor(ad, command->inputs[0])->desc.dtype;
    struct eng_command *again = NULL;
    uint32_t mean = ENG_NONE;
    BASE_TRY(ad_like(ad, command->inputs[0], &out->normal));
    BASE_TRY(ad_flat(ad, dtype, norm->groups, &mean));
    BASE_TRY(ad_flat(ad, dtype, norm->groups, &out->inverse));
    BASE_TRY(eng_program_command(ad->program, ENG_OP_NORM, 3, 3, &again));
    again->inputs[0] = command->inputs[0];
    again->outputs[0] = out->normal;
    again->outputs[1] = mean;
    again->outputs[2] = out->inverse;
    again->u.norm = *norm;
    return split_box(ad, command, out);
}

// a * b, both dense over `box`.
static enum base_status product(struct eng_ad *ad, const struct eng_box *box, uint32_t left,
                                uint32_t right, uint32_t *out)
{
    struct ad_expr e;
    base_assert(ad_count(ad, left) == ad_volume(box) && ad_count(ad, right) == ad_volume(box));
    ad_expr_init(&e, box);
    uint8_t first = ad_load_dense(&e, left);
    (void)ad_binary(&e, ENG_MUL, first, ad_load_dense(&e, right));
    return ad_expr_emit(ad, &e, ad_tensor(ad, left)->desc.dtype, out);
}

// upstream * scale.
static enum base_status scaled(struct eng_ad *ad, const struct norm_parts *parts, uint32_t upstream,
                               uint32_t scale, uint32_t *out)
{
    struct ad_expr e;
    base_assert(ad_count(ad, upstream) == ad_volume(&parts->box));
    ad_expr_init(&e, &parts->box);
    uint8_t first = ad_load_dense(&e, upstream);
    (void)ad_binary(&e, ENG_MUL, first, ad_load(&e, scale, &parts->scale));
    return ad_expr_emit(ad, &e, ad_tensor(ad, upstream)->desc.dtype, out);
}

// dx = inverse (d - mean(d) - normal mean(d normal)), d = dy scale, `upstream`; without mean(d)
// for rms.
static enum base_status norm_input_gradient(struct eng_ad *ad, const struct eng_command *command,
                                            const struct norm_parts *parts, uint32_t upstream)
{
    const struct eng_norm *norm = &command->u.norm;
    struct eng_box box = {.rank = 2, .size = {norm->groups, norm->n}};
    struct eng_view group = {.stride = {1, 0}};
    uint32_t pulled = ENG_NONE, mean_d = ENG_NONE, mean_pulled = ENG_NONE, dx = ENG_NONE;
    struct ad_expr e;
    const struct eng_reduce mean = {ENG_REDUCE_MEAN, norm->groups, norm->n, 1};
    BASE_TRY(product(ad, &box, upstream, parts->normal, &pulled));
    BASE_TRY(ad_reduce(ad, pulled, &mean, &mean_pulled));
    BASE_TRY(ad_reduce(ad, upstream, &mean, &mean_d));
    ad_expr_init(&e, &box);
    uint8_t in_d = ad_load_dense(&e, upstream), normal = ad_load_dense(&e, parts->normal);
    uint8_t inverse = ad_load(&e, parts->inverse, &group);
    uint8_t pull = ad_load(&e, mean_pulled, &group), shift = ad_load(&e, mean_d, &group);
    uint8_t rest = norm->rms ? in_d : ad_binary(&e, ENG_SUB, in_d, shift);
    rest = ad_binary(&e, ENG_SUB, rest, ad_binary(&e, ENG_MUL, normal, pull));
    (void)ad_binary(&e, ENG_MUL, rest, inverse);
    BASE_TRY(ad_expr_emit(ad, &e, ad_tensor(ad, upstream)->desc.dtype, &dx));
    return ad_give(ad, command->inputs[0], dx);
}

enum base_status ad_rule_norm(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    struct norm_parts parts = {0};
    uint32_t d = dy, d_scale = ENG_NONE;
    base_assert(ad_count(ad, dy) == ad_count(ad, command->inputs[0]));
    if (ad_count(ad, dy) == 0) {
        return BASE_OK; // of no groups, or of empty ones: what is given on would be none
    }
    BASE_TRY(normalise_again(ad, command, &parts));
    if (ad_needs(ad, command, 1)) {
        BASE_TRY(product(ad, &parts.box, dy, parts.normal, &d_scale));
        BASE_TRY(ad_give_view(ad, command->inputs[1], d_scale, &parts.box, &parts.scale));
    }
    if (ad_needs(ad, command, 2)) {
        BASE_TRY(ad_give_view(ad, command->inputs[2], dy, &parts.box, &parts.scale));
    }
    if (!ad_needs(ad, command, 0)) {
        return BASE_OK;
    }
    if (command->input_count > 1 && command->inputs[1] != ENG_NONE) {
        BASE_TRY(scaled(ad, &parts, dy, command->inputs[1], &d));
    }
    return norm_input_gradient(ad, command, &parts, d);
}
