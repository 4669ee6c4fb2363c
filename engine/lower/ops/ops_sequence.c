// Sequences and optionals: slots that list tensors. Nothing is computed; only positions are looked
// at.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/move_kit.h"

#include "base/check.h"

#include <string.h>

// Most tensors in one sequence.
#define SEQUENCE_ITEMS_MAX 65536u

// Input i, which must be a sequence.
static enum base_status input_sequence(struct eng_lower *lower, const struct eng_node *node,
                                       uint32_t input, struct eng_slot *out)
{
    BASE_TRY(eng_lower_slot(lower, node, input, out));
    if (out->type != ENG_VALUE_SEQUENCE) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u is not a sequence", input);
    }
    return BASE_OK;
}

static struct eng_slot sequence_of(const uint32_t *items, uint32_t count, enum eng_dtype dtype)
{
    return (struct eng_slot){.type = ENG_VALUE_SEQUENCE,
                             .tensor = ENG_NONE,
                             .item_count = count,
                             .items = items,
                             .dtype = dtype};
}

// Binds output 0 to a sequence.
static enum base_status output_sequence(struct eng_lower *lower, const struct eng_node *node,
                                        const uint32_t *items, uint32_t count, enum eng_dtype dtype)
{
    const struct eng_slot slot = sequence_of(items, count, dtype);
    return eng_lower_output_slot(lower, node, 0, &slot);
}

static uint32_t *alloc_items(struct eng_lower *lower, uint32_t count)
{
    return eng_lower_alloc(lower, ((size_t)count + 1) * sizeof(uint32_t));
}

// Position `at` in a sequence of `count`, from the end when negative, as one of `places`; ENG_NONE:
// there is no such place.
static uint32_t place_of(int64_t at, uint32_t count, uint32_t places)
{
    base_assert(places == count || places == count + 1);
    int64_t index = at < 0 ? at + (int64_t)count : at;
    return index < 0 || index >= (int64_t)places ? ENG_NONE : (uint32_t)index;
}

static enum base_status no_place(struct eng_lower *lower, const struct eng_node *node, int64_t at,
                                 uint32_t count)
{
    return eng_lower_fail(lower, node, BASE_ERR_INVALID, "position %lld in a sequence of %u",
                          (long long)at, count);
}

// Input `input` as the number of one of `count` items.
static enum base_status position(struct eng_lower *lower, const struct eng_node *node,
                                 uint32_t input, uint32_t count, uint32_t *out)
{
    int64_t at = 0;
    BASE_TRY(eng_input_int(lower, node, input, &at));
    *out = place_of(at, count, count);
    return *out == ENG_NONE ? no_place(lower, node, at, count) : BASE_OK;
}

static enum base_status lower_construct(struct eng_lower *lower, const struct eng_node *node)
{
    if (node->input_count == 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "it has no input");
    }
    uint32_t *items = alloc_items(lower, node->input_count);
    if (items == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum eng_dtype dtype = ENG_UNDEFINED;
    for (uint32_t i = 0; i < node->input_count; i++) {
        BASE_TRY(eng_lower_input(lower, node, i, &items[i]));
        enum eng_dtype next = eng_lower_desc(lower, items[i])->dtype;
        if (i > 0 && next != dtype) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "items are %s and %s",
                                  eng_dtype_name(dtype), eng_dtype_name(next));
        }
        dtype = next;
    }
    return output_sequence(lower, node, items, node->input_count, dtype);
}

static enum base_status lower_empty(struct eng_lower *lower, const struct eng_node *node)
{
    int64_t dtype = eng_node_int(node, "dtype", ENG_F32);
    if (dtype <= ENG_UNDEFINED || dtype >= ENG_DTYPE_COUNT) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "dtype %lld is not a type",
                              (long long)dtype);
    }
    return output_sequence(lower, node, NULL, 0, (enum eng_dtype)dtype);
}

static enum base_status lower_insert(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_slot slot;
    uint32_t tensor = ENG_NONE;
    BASE_TRY(input_sequence(lower, node, 0, &slot));
    BASE_TRY(eng_lower_input(lower, node, 1, &tensor));
    uint32_t at = slot.item_count;
    if (eng_lower_has(lower, node, 2)) {
        int64_t given = 0;
        BASE_TRY(eng_input_int(lower, node, 2, &given));
        at = place_of(given, slot.item_count, slot.item_count + 1);
        if (at == ENG_NONE) {
            return no_place(lower, node, given, slot.item_count);
        }
    }
    base_assert(at <= slot.item_count);
    enum eng_dtype dtype = eng_lower_desc(lower, tensor)->dtype;
    if (slot.dtype != ENG_UNDEFINED && slot.dtype != dtype) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%s into a sequence of %s",
                              eng_dtype_name(dtype), eng_dtype_name(slot.dtype));
    }
    if (slot.item_count >= SEQUENCE_ITEMS_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_LIMIT, "a sequence of more than %u tensors",
                              SEQUENCE_ITEMS_MAX);
    }
    uint32_t *items = alloc_items(lower, slot.item_count + 1);
    if (items == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i <= slot.item_count; i++) {
        items[i] = i < at ? slot.items[i] : i == at ? tensor : slot.items[i - 1];
    }
    return output_sequence(lower, node, items, slot.item_count + 1, dtype);
}

static enum base_status lower_erase(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_slot slot;
    BASE_TRY(input_sequence(lower, node, 0, &slot));
    uint32_t at = slot.item_count - 1;
    if (slot.item_count == 0 || eng_lower_has(lower, node, 1)) {
        BASE_TRY(position(lower, node, 1, slot.item_count, &at));
    }
    uint32_t *items = alloc_items(lower, slot.item_count);
    if (items == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i + 1 < slot.item_count; i++) {
        items[i] = slot.items[i < at ? i : i + 1];
    }
    return output_sequence(lower, node, items, slot.item_count - 1, slot.dtype);
}

static enum base_status lower_at(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_slot slot;
    uint32_t at = 0;
    BASE_TRY(input_sequence(lower, node, 0, &slot));
    BASE_TRY(position(lower, node, 1, slot.item_count, &at));
    return eng_lower_output(lower, node, 0, slot.items[at]);
}

static enum base_status lower_length(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_slot slot;
    uint32_t out = ENG_NONE;
    BASE_TRY(input_sequence(lower, node, 0, &slot));
    BASE_TRY(eng_const_int(lower, slot.item_count, &out));
    return eng_lower_output(lower, node, 0, out);
}

// --- between tensors and sequences

// Sizes of the parts of SplitToSequence along a dimension of `dim`: one size repeated, or a list.
static enum base_status split_parts(struct eng_lower *lower, const struct eng_node *node,
                                    int64_t dim, int64_t **out, uint32_t *out_count)
{
    const int64_t *given = NULL;
    uint32_t given_count = 0;
    int64_t size = 1;
    bool is_list = false;
    if (eng_lower_has(lower, node, 1)) {
        uint32_t tensor = ENG_NONE;
        BASE_TRY(eng_lower_input(lower, node, 1, &tensor));
        BASE_TRY(eng_lower_ints(lower, node, tensor, &given, &given_count));
        is_list = eng_lower_desc(lower, tensor)->rank > 0;
        base_assert(is_list || given_count == 1);
        size = is_list ? 1 : given[0];
    }
    if (size < 1) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "parts of %lld", (long long)size);
    }
    int64_t count = is_list ? (int64_t)given_count : dim / size + (dim % size != 0);
    if (count > SEQUENCE_ITEMS_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_LIMIT, "a sequence of more than %u tensors",
                              SEQUENCE_ITEMS_MAX);
    }
    int64_t *parts = eng_lower_alloc(lower, (size_t)count * sizeof(*parts) + 1);
    if (parts == NULL) {
        return BASE_ERR_NOMEM;
    }
    int64_t rest = dim;
    for (int64_t i = 0; i < count; i++) {
        parts[i] = is_list ? given[i] : size < rest ? size : rest;
        if (parts[i] < 0 || parts[i] > rest) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "part %lld of %lld does not fit",
                                  (long long)i, (long long)parts[i]);
        }
        rest -= parts[i];
    }
    if (rest != 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "parts leave %lld of %lld",
                              (long long)rest, (long long)dim);
    }
    *out = parts;
    *out_count = (uint32_t)count;
    return BASE_OK;
}

static enum base_status lower_split_to_sequence(struct eng_lower *lower,
                                                const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t axis = 0;
    uint32_t count = 0;
    int64_t *parts = NULL;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    struct eng_desc in = *eng_lower_desc(lower, x);
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 0), in.rank, &axis));
    BASE_TRY(split_parts(lower, node, in.dims[axis], &parts, &count));
    uint32_t *items = alloc_items(lower, count);
    if (items == NULL) {
        return BASE_ERR_NOMEM;
    }
    bool drop = !eng_lower_has(lower, node, 1) && eng_node_int(node, "keepdims", 1) == 0;
    struct eng_slice part = eng_slice_whole(&in);
    for (uint32_t i = 0; i < count; i++) {
        struct eng_desc desc = in;
        desc.dims[axis] = parts[i];
        part.size[axis] = parts[i];
        BASE_TRY(eng_lower_slice(lower, x, &part, &items[i]));
        part.start[axis] += parts[i];
        if (drop) {
            desc.rank--;
            memmove(desc.dims + axis, desc.dims + axis + 1,
                    (desc.rank - axis) * sizeof(desc.dims[0]));
            BASE_TRY(eng_lower_reshape(lower, items[i], &desc, &items[i]));
        }
    }
    base_assert(part.start[axis] == in.dims[axis]);
    return output_sequence(lower, node, items, count, in.dtype);
}

// Item with a dimension of 1 put in at `axis`.
static enum base_status widen(struct eng_lower *lower, uint32_t axis, uint32_t *tensor)
{
    struct eng_desc desc = *eng_lower_desc(lower, *tensor);
    base_assert(axis <= desc.rank && desc.rank < ENG_RANK_MAX);
    memmove(desc.dims + axis + 1, desc.dims + axis, (desc.rank - axis) * sizeof(desc.dims[0]));
    desc.dims[axis] = 1;
    desc.rank++;
    return eng_lower_reshape(lower, *tensor, &desc, tensor);
}

static enum base_status lower_concat_from_sequence(struct eng_lower *lower,
                                                   const struct eng_node *node)
{
    struct eng_slot slot;
    BASE_TRY(input_sequence(lower, node, 0, &slot));
    if (slot.item_count == 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "the sequence is empty");
    }
    bool is_new = eng_node_int(node, "new_axis", 0) != 0;
    struct eng_desc first = *eng_lower_desc(lower, slot.items[0]);
    struct eng_desc desc = first;
    uint32_t axis = 0;
    desc.rank += is_new ? 1 : 0;
    if (desc.rank > ENG_RANK_MAX) {
        return eng_desc_allow(lower, node, &desc);
    }
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 0), desc.rank, &axis));
    uint32_t *items = alloc_items(lower, slot.item_count);
    if (items == NULL) {
        return BASE_ERR_NOMEM;
    }
    int64_t total = 0;
    for (uint32_t i = 0; i < slot.item_count; i++) {
        items[i] = slot.items[i];
        struct eng_desc next = *eng_lower_desc(lower, items[i]);
        for (uint32_t d = 0; d < next.rank && d < first.rank; d++) {
            if (next.dims[d] != first.dims[d] && (is_new || d != axis)) {
                next.rank = ENG_RANK_MAX + 1;
            }
        }
        if (next.rank != first.rank || next.dtype != first.dtype) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "item %u does not fit the first",
                                  i);
        }
        if (is_new) {
            BASE_TRY(widen(lower, axis, &items[i]));
        }
        desc = *eng_lower_desc(lower, items[i]);
        total += desc.dims[axis];
    }
    desc.dims[axis] = total;
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_concat(lower, items, slot.item_count, axis, &out));
    base_assert(eng_desc_equal(eng_lower_desc(lower, out), &desc));
    return eng_lower_output(lower, node, 0, out);
}

// --- SequenceMap

// The body's inputs for item `at`: that item of sequences, tensors as they are.
static enum base_status map_inputs(struct eng_lower *lower, const struct eng_node *node,
                                   uint32_t at, uint32_t count, struct eng_slot *inputs)
{
    base_assert(at < count);
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct eng_slot slot;
        BASE_TRY(eng_lower_slot(lower, node, i, &slot));
        if (slot.type == ENG_VALUE_SEQUENCE) {
            if (slot.item_count != count) {
                return eng_lower_fail(lower, node, BASE_ERR_INVALID, "sequences of %u and %u items",
                                      count, slot.item_count);
            }
            slot = (struct eng_slot){
                .type = ENG_VALUE_TENSOR, .tensor = slot.items[at], .dtype = slot.dtype};
        }
        inputs[i] = slot;
    }
    return BASE_OK;
}

// Element type of an output that got no item: what the body declares.
static enum eng_dtype declared_dtype(const struct eng_graph *body, uint32_t output)
{
    base_assert(output < body->output_count);
    return body->values[body->outputs[output]].desc.dtype;
}

static enum base_status lower_map(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_slot slot;
    const struct eng_graph *body = eng_node_graph(node, "body");
    BASE_TRY(input_sequence(lower, node, 0, &slot));
    base_assert(slot.item_count == 0 || slot.items != NULL);
    if (body == NULL || body->input_count != node->input_count ||
        body->output_count < node->output_count) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "its body does not fit its inputs");
    }
    size_t outputs = body->output_count;
    struct eng_slot *in = eng_lower_alloc(lower, (node->input_count + 1) * sizeof(*in));
    struct eng_slot *results = eng_lower_alloc(lower, (outputs + 1) * sizeof(*results));
    uint32_t **items = eng_lower_alloc(lower, (outputs + 1) * sizeof(*items));
    if (in == NULL || results == NULL || items == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t o = 0; o < outputs; o++) {
        items[o] = alloc_items(lower, slot.item_count);
        if (items[o] == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    for (uint32_t i = 0; i < slot.item_count; i++) {
        BASE_TRY(map_inputs(lower, node, i, slot.item_count, in));
        BASE_TRY(eng_lower_inline(lower, node, body, in, results));
        for (uint32_t o = 0; o < outputs; o++) {
            if (results[o].type != ENG_VALUE_TENSOR) {
                return eng_lower_fail(lower, node, BASE_ERR_INVALID, "its body gives no tensor");
            }
            items[o][i] = results[o].tensor;
        }
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        enum eng_dtype dtype = slot.item_count > 0 ? eng_lower_desc(lower, items[o][0])->dtype
                                                   : declared_dtype(body, o);
        const struct eng_slot mapped = sequence_of(items[o], slot.item_count, dtype);
        BASE_TRY(eng_lower_output_slot(lower, node, o, &mapped));
    }
    return BASE_OK;
}

// --- optionals

static enum base_status lower_optional(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_slot slot = {.type = ENG_VALUE_OPTIONAL, .tensor = ENG_NONE};
    if (eng_lower_has(lower, node, 0)) {
        BASE_TRY(eng_lower_slot(lower, node, 0, &slot));
    }
    return eng_lower_output_slot(lower, node, 0, &slot);
}

static enum base_status lower_has_element(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_slot slot = {.type = ENG_VALUE_OPTIONAL};
    struct eng_desc desc = {.dtype = ENG_BOOL};
    uint32_t out = ENG_NONE;
    if (eng_lower_has(lower, node, 0)) {
        BASE_TRY(eng_lower_slot(lower, node, 0, &slot));
    }
    uint8_t has = slot.type != ENG_VALUE_OPTIONAL;
    BASE_TRY(eng_lower_const(lower, &desc, &has, &out));
    return eng_lower_output(lower, node, 0, out);
}

static enum base_status lower_get_element(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_slot slot;
    BASE_TRY(eng_lower_slot(lower, node, 0, &slot));
    if (slot.type == ENG_VALUE_OPTIONAL) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "the optional is empty");
    }
    return eng_lower_output_slot(lower, node, 0, &slot);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("SequenceConstruct", 11, ENG_OPSET_MAX, TRANSFORM, lower_construct),
    ENG_OP_ROW("SequenceEmpty", 11, ENG_OPSET_MAX, TRANSFORM, lower_empty),
    ENG_OP_ROW("SequenceInsert", 11, ENG_OPSET_MAX, TRANSFORM, lower_insert),
    ENG_OP_ROW("SequenceErase", 11, ENG_OPSET_MAX, TRANSFORM, lower_erase),
    ENG_OP_ROW("SequenceAt", 11, ENG_OPSET_MAX, TRANSFORM, lower_at),
    ENG_OP_ROW("SequenceLength", 11, ENG_OPSET_MAX, TRANSFORM, lower_length),
    ENG_OP_ROW("SplitToSequence", 11, ENG_OPSET_MAX, TRANSFORM, lower_split_to_sequence),
    ENG_OP_ROW("ConcatFromSequence", 11, ENG_OPSET_MAX, TRANSFORM, lower_concat_from_sequence),
    ENG_OP_ROW("SequenceMap", 17, ENG_OPSET_MAX, CONTROL, lower_map),
    ENG_OP_ROW("Optional", 15, ENG_OPSET_MAX, TRANSFORM, lower_optional),
    ENG_OP_ROW("OptionalHasElement", 15, ENG_OPSET_MAX, TRANSFORM, lower_has_element),
    ENG_OP_ROW("OptionalGetElement", 15, ENG_OPSET_MAX, TRANSFORM, lower_get_element),
};
const struct eng_op_table eng_ops_sequence = ENG_OP_TABLE(rows);
