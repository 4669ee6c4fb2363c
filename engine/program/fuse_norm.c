// Layer normalisation as exporters spell it out, recognised from its last command backwards:
//
//   m = mean(x)   v = mean(square of (x - m))   then either
//   y = (x - m) / sqrt(v + epsilon) [* scale [+ bias]]                     or
//   k = scale / sqrt(v + epsilon),  y = x * k + (bias - m * k)
//
// with the square as x * x, pow(x, 2) or squared difference, and the division in any of its
// spellings. Only what is read backwards is checked: a value in between that somebody else reads
// as well stays where it is. Called by fuse.c on the planning thread.
#include "program/box_view.h"
#include "base/check.h"
#include "program/fuse.h"
#include "program/fuse_index.h"

#define ROW_MIN 2 // elements: shorter rows are no normalisation

// What has been recognised so far.
struct norm {
    const struct eng_fuse *fuse;
    int64_t groups, n;
    uint32_t x, mean; // tensors that own the bytes
    uint32_t scale, bias;
    float epsilon;
};

static uint32_t root_of(const struct norm *norm, const struct eng_command *command, uint32_t input)
{
    base_assert(input < command->input_count);
    return eng_fuse_root(norm->fuse, command->inputs[input]);
}

static struct eng_command *maker(const struct norm *norm, uint32_t tensor)
{
    return eng_fuse_producer(norm->fuse, tensor);
}

// How a BINARY over [groups, n] reads an operand.
static bool reads_all(const struct norm *norm, const struct eng_command *command, uint32_t input)
{
    return eng_view_is_dense(&command->box, &command->views[input]) &&
           eng_box_count(&command->box) == norm->groups * norm->n;
}

static bool reads_by_row(const struct norm *norm, const struct eng_command *command, uint32_t input)
{
    return eng_fuse_count(norm->fuse, command->inputs[input]) == norm->groups &&
           eng_box_count(&command->box) == norm->groups * norm->n &&
           eng_view_is_channel(&command->box, &command->views[input], norm->groups, norm->n);
}

static bool reads_by_column(const struct norm *norm, const struct eng_command *command,
                            uint32_t input)
{
    return eng_fuse_count(norm->fuse, command->inputs[input]) == norm->n &&
           eng_box_count(&command->box) == norm->groups * norm->n &&
           eng_view_is_channel(&command->box, &command->views[input], norm->n, 1);
}

static bool is_mean(const struct norm *norm, const struct eng_command *command)
{
    return command != NULL && command->op == ENG_OP_REDUCE &&
           command->u.reduce.fn == ENG_REDUCE_MEAN && command->u.reduce.inner == 1 &&
           eng_fuse_is_f32(norm->fuse, command->inputs[0]);
}

// x - mean(x) over rows.
static bool match_centred(struct norm *norm, const struct eng_command *sub)
{
    if (!reads_all(norm, sub, 0) || !reads_by_row(norm, sub, 1)) {
        return false;
    }
    uint32_t x = root_of(norm, sub, 0), mean = root_of(norm, sub, 1);
    const struct eng_command *reduce = maker(norm, mean);
    if (!is_mean(norm, reduce) || reduce->u.reduce.outer != norm->groups ||
        reduce->u.reduce.n != norm->n || root_of(norm, reduce, 0) != x ||
        (norm->x != ENG_NONE && (norm->x != x || norm->mean != mean))) {
        return false;
    }
    norm->x = x;
    norm->mean = mean;
    return true;
}

static bool match_difference(struct norm *norm, uint32_t tensor)
{
    const struct eng_command *sub = maker(norm, tensor);
    return eng_fuse_is_binary(norm->fuse, sub, ENG_SUB) && match_centred(norm, sub);
}

// The square of x - mean(x).
static bool match_square(struct norm *norm, uint32_t tensor)
{
    const struct eng_command *c = maker(norm, tensor);
    float exponent;
    if (eng_fuse_is_unary(norm->fuse, c, ENG_SQUARE)) {
        return match_difference(norm, root_of(norm, c, 0));
    }
    if (eng_fuse_is_binary(norm->fuse, c, ENG_SQUARED_DIFF)) {
        return match_centred(norm, c);
    }
    if (eng_fuse_is_binary(norm->fuse, c, ENG_MUL)) {
        return root_of(norm, c, 0) == root_of(norm, c, 1) && reads_all(norm, c, 0) &&
               reads_all(norm, c, 1) && match_difference(norm, root_of(norm, c, 0));
    }
    return eng_fuse_is_binary(norm->fuse, c, ENG_POW) && reads_all(norm, c, 0) &&
           eng_fuse_constant(norm->fuse, c, 1, &exponent) && exponent == 2.0F &&
           match_difference(norm, root_of(norm, c, 0));
}

// mean(square) + epsilon; sets groups and n.
static bool match_variance(struct norm *norm, uint32_t tensor)
{
    const struct eng_command *add = maker(norm, tensor);
    if (!eng_fuse_is_binary(norm->fuse, add, ENG_ADD)) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const struct eng_command *mean = maker(norm, root_of(norm, add, i));
        if (!eng_fuse_constant(norm->fuse, add, 1 - i, &norm->epsilon) || !is_mean(norm, mean) ||
            !eng_view_is_dense(&add->box, &add->views[i])) {
            continue;
        }
        norm->groups = mean->u.reduce.outer;
        norm->n = mean->u.reduce.n;
        return norm->n >= ROW_MIN && eng_box_count(&add->box) == norm->groups &&
               norm->epsilon >= 0 && match_square(norm, root_of(norm, mean, 0));
    }
    return false;
}

static bool has_exponent(const struct norm *norm, const struct eng_command *pow, float wanted)
{
    float exponent;
    return eng_fuse_is_binary(norm->fuse, pow, ENG_POW) &&
           eng_view_is_dense(&pow->box, &pow->views[0]) &&
           eng_fuse_constant(norm->fuse, pow, 1, &exponent) && exponent == wanted;
}

// sqrt(variance + epsilon).
static bool match_deviation(struct norm *norm, uint32_t tensor)
{
    const struct eng_command *c = maker(norm, tensor);
    return (eng_fuse_is_unary(norm->fuse, c, ENG_SQRT) || has_exponent(norm, c, 0.5F)) &&
           match_variance(norm, root_of(norm, c, 0));
}

// 1 / sqrt(variance + epsilon).
static bool match_inverse(struct norm *norm, uint32_t tensor)
{
    const struct eng_command *c = maker(norm, tensor);
    float one;
    if (eng_fuse_is_unary(norm->fuse, c, ENG_RSQRT) || has_exponent(norm, c, -0.5F)) {
        return match_variance(norm, root_of(norm, c, 0));
    }
    if (eng_fuse_is_unary(norm->fuse, c, ENG_RECIPROCAL)) {
        return match_deviation(norm, root_of(norm, c, 0));
    }
    return eng_fuse_is_binary(norm->fuse, c, ENG_DIV) &&
           eng_fuse_constant(norm->fuse, c, 0, &one) && one == 1.0F &&
           eng_view_is_dense(&c->box, &c->views[1]) && match_deviation(norm, root_of(norm, c, 1));
}

// (x - m) / deviation, or times its inverse.
static bool match_normalised(struct norm *norm, uint32_t tensor)
{
    const struct eng_command *c = maker(norm, tensor);
    if (eng_fuse_is_binary(norm->fuse, c, ENG_DIV)) {
        return match_deviation(norm, root_of(norm, c, 1)) && reads_all(norm, c, 0) &&
               reads_by_row(norm, c, 1) && match_difference(norm, root_of(norm, c, 0));
    }
    if (!eng_fuse_is_binary(norm->fuse, c, ENG_MUL)) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct norm tried = *norm;
        if (match_inverse(&tried, root_of(norm, c, 1 - i)) && reads_all(&tried, c, i) &&
            reads_by_row(&tried, c, 1 - i) && match_difference(&tried, root_of(norm, c, i))) {
            *norm = tried;
            return true;
        }
    }
    return false;
}

// normalised * scale.
static bool match_scaled(struct norm *norm, uint32_t tensor)
{
    const struct eng_command *c = maker(norm, tensor);
    if (!eng_fuse_is_binary(norm->fuse, c, ENG_MUL)) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct norm tried = *norm;
        if (match_normalised(&tried, root_of(norm, c, i)) && reads_all(&tried, c, i) &&
            reads_by_column(&tried, c, 1 - i)) {
            tried.scale = c->inputs[1 - i];
            *norm = tried;
            return true;
        }
    }
    return false;
}

// k = inverse deviation of each row * scale of each column.
static bool match_factor(struct norm *norm, uint32_t tensor)
{
    const struct eng_command *c = maker(norm, tensor);
    if (!eng_fuse_is_binary(norm->fuse, c, ENG_MUL)) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct norm tried = *norm;
        if (match_inverse(&tried, root_of(norm, c, i)) && reads_by_row(&tried, c, i) &&
            reads_by_column(&tried, c, 1 - i)) {
            tried.scale = c->inputs[1 - i];
            *norm = tried;
            return true;
        }
    }
    return false;
}

// The product of k and x (by element) or of k and the mean (by row); tells k.
static bool match_product(const struct norm *norm, const struct eng_command *command,
                          uint32_t other, uint32_t *out_k)
{
    if (!eng_fuse_is_binary(norm->fuse, command, ENG_MUL)) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        bool fits = other == norm->x ? reads_all(norm, command, i) : reads_by_row(norm, command, i);
        if (root_of(norm, command, i) == other && fits && reads_all(norm, command, 1 - i)) {
            *out_k = root_of(norm, command, 1 - i);
            return true;
        }
    }
    return false;
}

// x * k + (bias - mean * k), given the sum's operands.
static bool match_affine(struct norm *norm, const struct eng_command *add, uint32_t product)
{
    base_assert(product < 2);
    const struct eng_command *xk = maker(norm, root_of(norm, add, product));
    const struct eng_command *rest = maker(norm, root_of(norm, add, 1 - product));
    if (!eng_fuse_is_binary(norm->fuse, xk, ENG_MUL) ||
        !eng_fuse_is_binary(norm->fuse, rest, ENG_SUB)) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct norm tried = *norm;
        uint32_t k = root_of(norm, xk, i), same = ENG_NONE;
        if (match_factor(&tried, k) && match_product(&tried, xk, tried.x, &same) && same == k &&
            match_product(&tried, maker(norm, root_of(norm, rest, 1)), tried.mean, &same) &&
            same == k && reads_all(&tried, add, product) && reads_all(&tried, add, 1 - product) &&
            reads_all(&tried, rest, 1) && reads_by_column(&tried, rest, 0)) {
            tried.bias = rest->inputs[0];
            *norm = tried;
            return true;
        }
    }
    return false;
}

// A whole normalisation that ends in this command, the longest form first.
static bool match_norm(struct norm *norm, const struct eng_command *last)
{
    uint32_t tensor = last->outputs[0];
    if (eng_fuse_is_binary(norm->fuse, last, ENG_ADD)) {
        for (uint32_t i = 0; i < 2; i++) {
            struct norm tried = *norm;
            if (match_affine(&tried, last, i)) {
                *norm = tried;
                return true;
            }
            if (match_scaled(&tried, root_of(norm, last, i)) && reads_all(&tried, last, i) &&
                reads_by_column(&tried, last, 1 - i)) {
                tried.bias = last->inputs[1 - i];
                *norm = tried;
                return true;
            }
        }
        return false;
    }
    return match_scaled(norm, tensor) || match_normalised(norm, tensor);
}

static bool replace_with_norm(struct eng_fuse *fuse, uint32_t at, const struct norm *norm)
{
    base_assert(norm->x != ENG_NONE);
    base_assert(norm->n >= ROW_MIN);
    struct base_arena *arena = fuse->program->arena;
    uint32_t *inputs = base_arena_alloc(arena, 3 * sizeof(*inputs));
    if (inputs == NULL) {
        return false;
    }
    inputs[0] = norm->x;
    inputs[1] = norm->scale;
    inputs[2] = norm->bias;
    const struct eng_command made = {
        .op = ENG_OP_NORM,
        .node = fuse->program->commands[at].node,
        .input_count = 3,
        .inputs = inputs,
        .u.norm = {.groups = norm->groups,
                   .n = norm->n,
                   .scale_inner = 1,
                   .scale_count = norm->n,
                   .epsilon = norm->epsilon},
    };
    eng_fuse_replace(fuse, at, &made);
    return true;
}

enum base_status eng_fuse_norms(struct eng_fuse *fuse)
{
    for (uint32_t c = fuse->program->command_count; c > 0; c--) {
        const struct eng_command *command = &fuse->program->commands[c - 1];
        if (fuse->gone[c - 1] || command->op != ENG_OP_BINARY) {
            continue;
        }
        struct norm found = {
            .fuse = fuse, .x = ENG_NONE, .mean = ENG_NONE, .scale = ENG_NONE, .bias = ENG_NONE};
        if (match_norm(&found, command) && !replace_with_norm(fuse, c - 1, &found)) {
            return BASE_ERR_NOMEM;
        }
    }
    return BASE_OK;
}
