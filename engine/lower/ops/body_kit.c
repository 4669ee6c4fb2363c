// Running a subgraph again and again: shared by Loop and Scan (ops_control.c), on the planning
// thread. Iterations are lowered in place until they come to ENG_UNROLL_NODES_MAX nodes, then each
// is a call on known contents: so a short loop fuses with what is around it, and a long one does
// not make a program as long as its run. Outputs of iterations are piled up and joined in groups of
// STACK_GROUP, to keep the number of regions of one join bounded.
#include "lower/ops/body_kit.h"

#include "base/check.h"

#include <string.h>

// Pieces joined at once: what is larger is joined in groups, each made real.
#define STACK_GROUP 2048u

enum base_status eng_body_init(struct eng_body *body, struct eng_lower *lower,
                               const struct eng_node *node, uint32_t inputs, uint32_t outputs)
{
    base_assert(outputs <= inputs); // the first of them go in again
    memset(body, 0, sizeof(*body));
    body->l = lower;
    body->node = node;
    body->graph = eng_node_graph(node, "body");
    if (body->graph == NULL) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "it has no body");
    }
    if (body->graph->input_count != inputs || body->graph->output_count < outputs) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "its body has %u inputs and %u outputs, %u and at least %u wanted",
                              body->graph->input_count, body->graph->output_count, inputs, outputs);
    }
    body->in = eng_lower_alloc(lower, (inputs + (size_t)1) * sizeof(*body->in));
    body->out =
        eng_lower_alloc(lower, (body->graph->output_count + (size_t)1) * sizeof(*body->out));
    if (body->in == NULL || body->out == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(body->in, 0, (inputs + (size_t)1) * sizeof(*body->in));
    return BASE_OK;
}

// Asks for the contents of every tensor of a slot; notes in *busy that some are not known.
static enum base_status know_slot(struct eng_lower *lower, const struct eng_slot *slot, bool *busy)
{
    uint32_t count = slot->type == ENG_VALUE_SEQUENCE ? slot->item_count
                     : slot->type == ENG_VALUE_TENSOR ? 1
                                                      : 0;
    for (uint32_t i = 0; i < count; i++) {
        struct eng_array array;
        enum base_status status = eng_lower_content(
            lower, slot->type == ENG_VALUE_TENSOR ? slot->tensor : slot->items[i], &array);
        if (status == BASE_ERR_BUSY) {
            *busy = true;
            continue;
        }
        BASE_TRY(status);
    }
    return BASE_OK;
}

enum base_status eng_body_step(struct eng_body *body)
{
    body->spent += body->graph->node_count + (uint64_t)1;
    if (body->spent <= ENG_UNROLL_NODES_MAX) {
        return eng_lower_inline(body->l, body->node, body->graph, body->in, body->out);
    }
    bool busy = false;
    for (uint32_t i = 0; i < body->graph->input_count; i++) {
        BASE_TRY(know_slot(body->l, &body->in[i], &busy));
    }
    if (busy) {
        return BASE_ERR_BUSY;
    }
    return eng_lower_call(body->l, body->node, body->graph, body->in, body->out);
}

enum base_status eng_pile_add(struct eng_body *body, struct eng_pile *pile, uint32_t tensor)
{
    base_assert(pile->count <= pile->capacity);
    if (pile->count == pile->capacity) {
        uint32_t capacity = pile->capacity == 0 ? 16 : 2 * pile->capacity;
        uint32_t *grown = eng_lower_alloc(body->l, capacity * sizeof(*grown));
        if (grown == NULL) {
            return BASE_ERR_NOMEM;
        }
        if (pile->count > 0) {
            memcpy(grown, pile->items, pile->count * sizeof(*grown));
        }
        pile->items = grown;
        pile->capacity = capacity;
    }
    pile->items[pile->count++] = tensor;
    return BASE_OK;
}

enum base_status eng_take_item(struct eng_lower *lower, uint32_t tensor, uint32_t axis,
                               int64_t index, uint32_t *out)
{
    struct eng_desc desc = *eng_lower_desc(lower, tensor);
    base_assert(axis < desc.rank);
    base_assert(index >= 0 && index < desc.dims[axis]);
    struct eng_slice slice = eng_slice_whole(&desc);
    slice.start[axis] = index;
    slice.size[axis] = 1;
    uint32_t part = ENG_NONE;
    BASE_TRY(eng_lower_slice(lower, tensor, &slice, &part));
    desc.rank--;
    memmove(desc.dims + axis, desc.dims + axis + 1, (desc.rank - axis) * sizeof(desc.dims[0]));
    return eng_lower_reshape(lower, part, &desc, out);
}

// Replaces every STACK_GROUP pieces by their join, made real.
static enum base_status join_groups(struct eng_lower *lower, uint32_t *pieces, uint32_t *count,
                                    uint32_t axis)
{
    base_assert(*count > STACK_GROUP);
    uint32_t kept = 0;
    for (uint32_t at = 0; at < *count; at += STACK_GROUP) {
        uint32_t size = *count - at < STACK_GROUP ? *count - at : STACK_GROUP;
        uint32_t joined = ENG_NONE;
        BASE_TRY(eng_lower_concat(lower, pieces + at, size, axis, &joined));
        BASE_TRY(eng_lower_real(lower, joined, &pieces[kept]));
        kept++;
    }
    base_assert(kept < *count);
    *count = kept;
    return BASE_OK;
}

enum base_status eng_stack_items(struct eng_lower *lower, const struct eng_node *node,
                                 const struct eng_pile *pile, uint32_t axis, uint32_t *out)
{
    const uint32_t *items = pile->items;
    uint32_t count = pile->count;
    base_assert(count > 0);
    struct eng_desc first = *eng_lower_desc(lower, items[0]);
    base_assert(axis <= first.rank);
    struct eng_desc wide = first;
    wide.rank++;
    if (wide.rank > ENG_RANK_MAX) {
        return eng_desc_allow(lower, node, &wide);
    }
    memmove(wide.dims + axis + 1, wide.dims + axis, (first.rank - axis) * sizeof(wide.dims[0]));
    wide.dims[axis] = count;
    BASE_TRY(eng_desc_allow(lower, node, &wide));
    wide.dims[axis] = 1;
    uint32_t *pieces = eng_lower_alloc(lower, count * sizeof(*pieces));
    if (pieces == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct eng_desc next = *eng_lower_desc(lower, items[i]);
        if (!eng_desc_equal(&next, &first)) {
            char a[64];
            char b[64];
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "iterations give results of different shapes: %s and %s",
                                  eng_desc_text(&first, a, sizeof(a)),
                                  eng_desc_text(&next, b, sizeof(b)));
        }
        BASE_TRY(eng_lower_reshape(lower, items[i], &wide, &pieces[i]));
    }
    while (count > STACK_GROUP) {
        BASE_TRY(join_groups(lower, pieces, &count, axis));
    }
    return eng_lower_concat(lower, pieces, count, axis, out);
}

// What the body declares of an output, with 0 for dimensions it leaves open.
static enum base_status empty_stack(struct eng_body *body, uint32_t output, int64_t axis,
                                    uint32_t *out)
{
    base_assert(output < body->graph->output_count);
    const struct eng_value *value = &body->graph->values[body->graph->outputs[output]];
    struct eng_desc desc = {.dtype = value->desc.dtype, .rank = 1};
    if (desc.dtype == ENG_UNDEFINED) {
        return eng_lower_fail(body->l, body->node, BASE_ERR_INVALID,
                              "no iteration, and the body does not declare the type of output %u",
                              output);
    }
    if (value->has_shape) {
        desc.rank = value->desc.rank + 1;
        if (desc.rank > ENG_RANK_MAX) {
            return eng_desc_allow(body->l, body->node, &desc);
        }
        uint32_t at = 0;
        BASE_TRY(eng_lower_axis(body->l, body->node, axis, desc.rank, &at));
        for (uint32_t d = 0; d < desc.rank; d++) {
            int64_t dim = d == at ? 0 : value->desc.dims[d < at ? d : d - 1];
            desc.dims[d] = dim < 0 ? 0 : dim;
        }
    }
    static const uint64_t nothing[2] = {0};
    return eng_lower_const(body->l, &desc, nothing, out);
}

void eng_pile_reverse(struct eng_pile *pile)
{
    for (uint32_t i = 0; i < pile->count / 2; i++) {
        uint32_t swap = pile->items[i];
        pile->items[i] = pile->items[pile->count - 1 - i];
        pile->items[pile->count - 1 - i] = swap;
    }
}

enum base_status eng_pile_stack(struct eng_body *body, const struct eng_pile *pile, uint32_t output,
                                int64_t axis, uint32_t *out)
{
    base_assert(output < body->graph->output_count);
    if (pile->count == 0) {
        return empty_stack(body, output, axis, out);
    }
    uint32_t at = 0;
    uint32_t rank = eng_lower_desc(body->l, pile->items[0])->rank;
    BASE_TRY(eng_lower_axis(body->l, body->node, axis, rank + 1, &at));
    return eng_stack_items(body->l, body->node, pile, at, out);
}
