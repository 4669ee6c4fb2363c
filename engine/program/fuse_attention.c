// softmax(scale * Q K^T + mask) V written out as commands, recognised from its second product
// backwards, and the transposition behind it that merges heads. Called by fuse.c on the planning
// thread.
#include "program/box_view.h"
#include "base/check.h"
#include "program/fuse.h"
#include "program/fuse_index.h"

#include <string.h>

enum { HEAD_DIMS = 2 }; // batch and head

struct attention {
    const struct eng_fuse *fuse;
    const struct eng_command *first;  // Q K^T
    const struct eng_command *second; // P V
    float scale;
    uint32_t mask;
    int64_t sizes[6]; // B, H, S, T, D, E
    struct eng_view views[4];
};

static bool has_epilogue(const struct eng_command *command)
{
    const struct eng_epilogue *epilogue = &command->u.matmul.epilogue;
    return epilogue->bias != ENG_NONE || epilogue->residual != ENG_NONE || epilogue->has_activation;
}

static bool is_product(const struct attention *attention, const struct eng_command *command)
{
    return command != NULL && command->op == ENG_OP_MATMUL && !has_epilogue(command) &&
           eng_fuse_is_f32(attention->fuse, command->inputs[0]) &&
           eng_fuse_is_f32(attention->fuse, command->inputs[1]);
}

// The batch dims of a product, as a box.
static struct eng_box batch_of(const struct eng_command *command)
{
    base_assert(command->u.matmul.batch_rank + 3 == command->box.rank);
    struct eng_box box = command->box;
    box.rank = command->u.matmul.batch_rank;
    return box;
}

// Batch and head of the result: the finer of what the two products have, at most two dims.
static bool set_heads(struct attention *attention)
{
    struct eng_box first = batch_of(attention->first), second = batch_of(attention->second), both;
    if (!eng_box_refine(&first, &second, &both) || both.rank > HEAD_DIMS) {
        return false;
    }
    attention->sizes[0] = both.rank == HEAD_DIMS ? both.size[0] : 1;
    attention->sizes[1] = both.rank == 0 ? 1 : both.size[both.rank - 1];
    return true;
}

// An operand of a product, and which of the dims m, n, k are its rows and columns.
struct operand {
    const struct eng_command *product;
    uint32_t input, row, column;
};

// The product's view of it as (B, H, row, column) strides.
static bool view_heads(const struct attention *attention, struct operand operand,
                       struct eng_view *out)
{
    const struct eng_box batch = batch_of(operand.product);
    const struct eng_view *view = &operand.product->views[operand.input];
    base_assert(operand.row < 3 && operand.column < 3 && operand.row != operand.column);
    *out = (struct eng_view){.offset = view->offset};
    out->stride[2] = view->stride[batch.rank + operand.row];
    out->stride[3] = view->stride[batch.rank + operand.column];
    return eng_view_split(&batch, view, HEAD_DIMS, attention->sizes, out->stride);
}

// The tensor is the only thing made of `tensor`, so that it need not exist.
static bool is_only_step(const struct attention *attention, uint32_t tensor)
{
    return eng_fuse_only_reader(attention->fuse, tensor) != ENG_NONE;
}

// scores * factor or scores / divisor: takes the factor and goes on to the scores.
static bool match_scale(struct attention *attention, uint32_t *tensor)
{
    const struct eng_command *c = eng_fuse_producer(attention->fuse, *tensor);
    float value;
    bool divides = eng_fuse_is_binary(attention->fuse, c, ENG_DIV);
    if (!divides && !eng_fuse_is_binary(attention->fuse, c, ENG_MUL)) {
        return false;
    }
    for (uint32_t i = 0; i < (divides ? 1U : 2U); i++) {
        if (eng_fuse_constant(attention->fuse, c, 1 - i, &value) && value != 0 &&
            eng_view_is_dense(&c->box, &c->views[i]) && is_only_step(attention, c->inputs[i])) {
            attention->scale *= divides ? 1 / value : value;
            *tensor = eng_fuse_root(attention->fuse, c->inputs[i]);
            return true;
        }
    }
    return false;
}

static bool match_first(struct attention *attention, uint32_t tensor)
{
    attention->first = eng_fuse_producer(attention->fuse, tensor);
    return is_product(attention, attention->first);
}

// scores + mask, with the mask broadcast in any way that strides can say.
static bool match_mask(struct attention *attention, uint32_t tensor)
{
    const struct eng_command *add = eng_fuse_producer(attention->fuse, tensor);
    if (!eng_fuse_is_binary(attention->fuse, add, ENG_ADD)) {
        return false;
    }
    base_assert(add->input_count == 2);
    for (uint32_t i = 0; i < 2; i++) {
        struct attention tried = *attention;
        uint32_t scores = eng_fuse_root(attention->fuse, add->inputs[i]);
        if (!eng_view_is_dense(&add->box, &add->views[i]) || !is_only_step(attention, scores)) {
            continue;
        }
        while (match_scale(&tried, &scores)) {
        }
        if (match_first(&tried, scores) && set_heads(&tried)) {
            tried.sizes[2] = tried.first->box.size[tried.first->u.matmul.batch_rank];
            tried.sizes[3] = tried.first->box.size[tried.first->u.matmul.batch_rank + 1];
            tried.views[3] = (struct eng_view){.offset = add->views[1 - i].offset};
            if (eng_view_split(&add->box, &add->views[1 - i], 4, tried.sizes,
                               tried.views[3].stride)) {
                tried.mask = add->inputs[1 - i];
                *attention = tried;
                return true;
            }
        }
    }
    return false;
}

static bool match_scores(struct attention *attention, uint32_t tensor)
{
    if (match_mask(attention, tensor)) {
        return true;
    }
    while (match_scale(attention, &tensor)) {
    }
    return match_first(attention, tensor) && set_heads(attention);
}

// The kernels read rows: innermost strides of 1.
static bool has_rows(const struct attention *attention)
{
    return (attention->views[0].stride[3] == 1 || attention->sizes[4] == 1) &&
           (attention->views[1].stride[3] == 1 || attention->sizes[4] == 1) &&
           (attention->views[2].stride[3] == 1 || attention->sizes[5] == 1);
}

static bool match_attention(struct attention *attention)
{
    const struct eng_command *second = attention->second;
    const struct eng_command *softmax = eng_fuse_producer(attention->fuse, second->inputs[0]);
    if (softmax == NULL || softmax->op != ENG_OP_SOFTMAX || softmax->u.softmax.log ||
        softmax->u.softmax.inner != 1 || !is_only_step(attention, second->inputs[0]) ||
        !is_only_step(attention, softmax->inputs[0]) ||
        !match_scores(attention, softmax->inputs[0])) {
        return false;
    }
    base_assert(attention->first->op == ENG_OP_MATMUL && second->op == ENG_OP_MATMUL);
    uint32_t m = attention->first->u.matmul.batch_rank, n = second->u.matmul.batch_rank;
    attention->scale *= attention->first->u.matmul.alpha;
    const int64_t *one = &attention->first->box.size[m], *two = &second->box.size[n];
    attention->sizes[2] = one[0];
    attention->sizes[3] = one[1];
    attention->sizes[4] = one[2];
    attention->sizes[5] = two[1];
    const struct operand queries = {attention->first, 0, 0, 2}, keys = {attention->first, 1, 1, 2};
    const struct operand values = {second, 1, 2, 1}, weights = {second, 0, 0, 2};
    struct eng_view p;
    const int64_t heads[2] = {one[0] * one[1], one[1]};
    return second->u.matmul.alpha == 1 && two[0] == one[0] && two[2] == one[1] &&
           softmax->u.softmax.n == one[1] && view_heads(attention, queries, &attention->views[0]) &&
           view_heads(attention, keys, &attention->views[1]) &&
           view_heads(attention, values, &attention->views[2]) &&
           view_heads(attention, weights, &p) && p.offset == 0 &&
           (p.stride[3] == 1 || one[1] == 1) && (p.stride[2] == heads[1] || one[0] == 1) &&
           (p.stride[1] == heads[0] || attention->sizes[1] == 1) &&
           (p.stride[0] == heads[0] * attention->sizes[1] || attention->sizes[0] == 1) &&
           has_rows(attention);
}

// Strides of the result over (B, H, S, E) when it is written densely.
static struct eng_view dense_result(const struct attention *attention)
{
    return (struct eng_view){
        .stride = {attention->sizes[1] * attention->sizes[2] * attention->sizes[5],
                   attention->sizes[2] * attention->sizes[5], attention->sizes[5], 1}};
}

// A raster that only permutes the whole result: where its elements go. False: it does more.
static bool match_permutation(const struct attention *attention, const struct eng_command *raster,
                              struct eng_view *out)
{
    if (raster->op != ENG_OP_RASTER || raster->u.raster.count != 1 || raster->input_count != 1) {
        return false;
    }
    const struct eng_region *region = raster->u.raster.regions;
    int64_t count =
        attention->sizes[0] * attention->sizes[1] * attention->sizes[2] * attention->sizes[5];
    if (region->src_offset != 0 || region->dst_offset != 0 || region->accumulate ||
        eng_fuse_count(attention->fuse, raster->outputs[0]) != count) {
        return false;
    }
    // The region's dims in the order of the source: they must walk it densely.
    struct eng_box box = {.rank = region->rank};
    struct eng_view source = {0}, target = {0};
    bool used[ENG_REGION_RANK_MAX] = {false};
    for (uint32_t d = 0; d < region->rank; d++) {
        uint32_t best = ENG_REGION_RANK_MAX;
        for (uint32_t i = 0; i < region->rank; i++) {
            if (!used[i] &&
                (best == ENG_REGION_RANK_MAX || region->src_stride[i] > region->src_stride[best])) {
                best = i;
            }
        }
        base_assert(best < region->rank);
        used[best] = true;
        box.size[d] = region->size[best];
        source.stride[d] = region->src_stride[best];
        target.stride[d] = region->dst_stride[best];
    }
    const int64_t sizes[4] = {attention->sizes[0], attention->sizes[1], attention->sizes[2],
                              attention->sizes[5]};
    *out = (struct eng_view){0};
    return eng_box_count(&box) == count && eng_view_is_dense(&box, &source) &&
           eng_view_split(&box, &target, 4, sizes, out->stride) &&
           (out->stride[3] == 1 || sizes[3] == 1);
}

static enum base_status replace_with_attention(struct eng_fuse *fuse, uint32_t at,
                                               const struct attention *attention)
{
    base_assert(attention->first != NULL);
    base_assert(attention->second != NULL);
    struct eng_command command = {
        .op = ENG_OP_ATTENTION,
        .node = attention->second->node,
        .input_count = 4,
        .box = {.rank = 6},
        .u.attention = {.scale = attention->scale, .out_view = dense_result(attention)},
    };
    command.inputs = base_arena_alloc(fuse->program->arena, 4 * sizeof(uint32_t));
    if (command.inputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(command.box.size, attention->sizes, sizeof(attention->sizes));
    memcpy(command.views, attention->views, sizeof(attention->views));
    command.inputs[0] = attention->first->inputs[0];
    command.inputs[1] = attention->first->inputs[1];
    command.inputs[2] = attention->second->inputs[1];
    command.inputs[3] = attention->mask;
    uint32_t next = eng_fuse_only_reader(fuse, attention->second->outputs[0]);
    struct eng_view moved;
    if (next != ENG_NONE && next > at &&
        match_permutation(attention, &fuse->program->commands[next], &moved)) {
        command.u.attention.out_view = moved;
        at = next;
    }
    eng_fuse_replace(fuse, at, &command);
    return BASE_OK;
}

enum base_status eng_fuse_attention(struct eng_fuse *fuse)
{
    for (uint32_t c = 0; c < fuse->program->command_count; c++) {
        struct attention found = {
            .fuse = fuse, .second = &fuse->program->commands[c], .scale = 1, .mask = ENG_NONE};
        if (!fuse->gone[c] && is_product(&found, found.second) && match_attention(&found)) {
            BASE_TRY(replace_with_attention(fuse, c, &found));
        }
    }
    return BASE_OK;
}
