// The walk over a graph's nodes: bindings of values, undoing what a node emitted before it had to
// stop, and the entry points of the session. On the planning thread.
//
// A node that stops with BUSY leaves no trace but the list of tensors whose contents it wants.
// Those are tensors of before the node: what it computes from them on the way is computed again,
// and folded, when they are known.
#include "lower/lower_state.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const uint64_t no_elements[2]; // address of tensors without elements

enum base_status eng_lower_grow(struct eng_lower *lower, void **items, uint32_t count,
                                uint32_t *capacity, size_t item_bytes)
{
    base_assert(count <= *capacity);
    base_assert(item_bytes > 0);
    if (count < *capacity) {
        return BASE_OK;
    }
    if (*capacity > UINT32_MAX / 4) {
        return BASE_ERR_LIMIT;
    }
    uint32_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *grown = base_arena_alloc(lower->arena, (size_t)wanted * item_bytes);
    if (grown == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (count > 0) {
        memcpy(grown, *items, (size_t)count * item_bytes);
    }
    *items = grown;
    *capacity = wanted;
    return BASE_OK;
}

enum base_status eng_list_add(struct eng_lower *lower, struct eng_list *list, uint32_t item)
{
    void *items = list->items;
    BASE_TRY(eng_lower_grow(lower, &items, list->count, &list->capacity, sizeof(uint32_t)));
    list->items = items;
    list->items[list->count++] = item;
    return BASE_OK;
}

// --- changes and undo

enum base_status eng_lower_change(struct eng_lower *lower, enum eng_change_kind kind,
                                  uint32_t index, struct eng_scope *scope)
{
    base_assert(kind == ENG_CHANGE_SLOT ? scope != NULL : index < lower->program->tensor_count);
    void *items = lower->changes;
    BASE_TRY(eng_lower_grow(lower, &items, lower->change_count, &lower->change_capacity,
                            sizeof(struct eng_change)));
    lower->changes = items;
    lower->changes[lower->change_count++] = (struct eng_change){kind, index, scope};
    return BASE_OK;
}

struct eng_mark eng_lower_mark(const struct eng_lower *lower)
{
    return (struct eng_mark){lower->program->tensor_count, lower->program->command_count,
                             lower->change_count, lower->merge_count};
}

void eng_lower_undo(struct eng_lower *lower, const struct eng_mark *mark)
{
    base_assert(mark->tensors <= lower->program->tensor_count);
    base_assert(mark->commands <= lower->program->command_count);
    base_assert(mark->changes <= lower->change_count);
    while (lower->change_count > mark->changes) {
        const struct eng_change *change = &lower->changes[--lower->change_count];
        switch (change->kind) {
        case ENG_CHANGE_REAL:
            lower->notes[change->index].real = ENG_NONE;
            break;
        case ENG_CHANGE_PLAIN:
            lower->notes[change->index].plain = ENG_NONE;
            break;
        case ENG_CHANGE_LAST:
            lower->notes[change->index].last = ENG_NONE;
            break;
        case ENG_CHANGE_SLOT:
            change->scope->slots[change->index] = (struct eng_slot){.type = ENG_VALUE_UNKNOWN};
            break;
        }
    }
    while (lower->merge_count > mark->merges) {
        const struct eng_merge_entry *entry = &lower->merges[--lower->merge_count];
        lower->merge_buckets[entry->hash % ENG_MERGE_BUCKETS] = entry->next;
    }
    lower->program->tensor_count = mark->tensors;
    lower->program->command_count = mark->commands;
}

// --- tensors

enum base_status eng_lower_tensor(struct eng_lower *lower, enum eng_tensor_kind kind,
                                  enum eng_layout layout, const struct eng_desc *desc,
                                  uint32_t *out)
{
    int64_t count;
    enum base_status status = eng_desc_check(desc, &count);
    if (status != BASE_OK) {
        char text[96];
        return eng_lower_fail(lower, lower->node, status, "a tensor of shape %s is not possible",
                              eng_desc_text(desc, text, sizeof(text)));
    }
    void *items = lower->notes;
    BASE_TRY(eng_lower_grow(lower, &items, lower->program->tensor_count, &lower->note_capacity,
                            sizeof(struct eng_note)));
    lower->notes = items;
    BASE_TRY(eng_program_tensor(lower->program, kind, layout, desc, out));
    lower->notes[*out] = (struct eng_note){
        .producer = ENG_NONE, .real = ENG_NONE, .plain = ENG_NONE, .last = ENG_NONE};
    return BASE_OK;
}

enum base_status eng_lower_known(struct eng_lower *lower, const struct eng_desc *desc,
                                 const void *data, const void *identity, uint32_t *out)
{
    BASE_TRY(eng_lower_tensor(lower, ENG_CONST, ENG_PLAIN, desc, out));
    struct eng_tensor *tensor = tensor_of(lower, *out);
    tensor->data = data == NULL ? no_elements : data;
    tensor->identity = identity;
    lower->notes[*out].content = tensor->data;
    lower->notes[*out].foldable = true;
    return BASE_OK;
}

// --- bindings

static bool is_float(enum eng_dtype dtype)
{
    return dtype == ENG_F32 || dtype == ENG_F64 || dtype == ENG_F16 || dtype == ENG_BF16;
}

static enum base_status bind_initializer(struct eng_lower *lower, struct eng_scope *scope,
                                         uint32_t value)
{
    base_assert(scope->graph->values[value].is_initializer);
    const struct eng_value *info = &scope->graph->values[value];
    const bool *fixed = scope == &lower->root ? lower->options->fixed : NULL;
    uint32_t tensor;
    if (lower->options->params && is_float(info->desc.dtype) && !(fixed != NULL && fixed[value])) {
        BASE_TRY(eng_lower_tensor(lower, ENG_PARAM, ENG_PLAIN, &info->desc, &tensor));
        lower->notes[tensor].content = info->data;
    } else {
        BASE_TRY(eng_lower_known(lower, &info->desc, info->data, info->data, &tensor));
    }
    tensor_of(lower, tensor)->value = scope == &lower->root ? value : ENG_NONE;
    const struct eng_slot slot = {
        .type = ENG_VALUE_TENSOR, .tensor = tensor, .dtype = info->desc.dtype};
    return eng_lower_set(lower, scope, value, &slot);
}

enum base_status eng_lower_find(struct eng_lower *lower, struct eng_scope *scope, uint32_t value,
                                struct eng_slot **out)
{
    *out = NULL;
    if (value >= scope->graph->value_count) {
        return BASE_OK;
    }
    struct eng_slot *slot = &scope->slots[value];
    if (slot->type == ENG_VALUE_UNKNOWN && scope->graph->values[value].is_initializer) {
        BASE_TRY(bind_initializer(lower, scope, value));
    }
    *out = slot->type == ENG_VALUE_UNKNOWN ? NULL : slot;
    return BASE_OK;
}

enum base_status eng_lower_set(struct eng_lower *lower, struct eng_scope *scope, uint32_t value,
                               const struct eng_slot *slot)
{
    if (value >= scope->graph->value_count) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_INVALID, "there is no value %" PRIu32,
                              value);
    }
    BASE_TRY(eng_lower_change(lower, ENG_CHANGE_SLOT, value, scope));
    scope->slots[value] = *slot;
    return BASE_OK;
}

struct eng_lower *eng_lower_new(struct base_arena *arena, struct eng_program *program,
                                const struct eng_graph *graph,
                                const struct eng_lower_options *options, struct base_error *error)
{
    struct eng_lower *l = base_arena_zalloc(arena, sizeof(*l));
    if (l == NULL) {
        return NULL;
    }
    l->arena = arena;
    l->program = program;
    l->options = options;
    l->error = error;
    l->root.graph = graph;
    l->scope = &l->root;
    l->node_index = ENG_NONE;
    size_t slots = (size_t)graph->value_count * sizeof(struct eng_slot);
    l->root.slots = base_arena_zalloc(arena, slots == 0 ? 1 : slots);
    l->merge_buckets = base_arena_alloc(arena, ENG_MERGE_BUCKETS * sizeof(uint32_t));
    if (l->root.slots == NULL || l->merge_buckets == NULL) {
        return NULL;
    }
    memset(l->merge_buckets, 0xff, ENG_MERGE_BUCKETS * sizeof(uint32_t));
    return l;
}

enum base_status eng_lower_bind(struct eng_lower *lower, uint32_t value,
                                const struct eng_desc *desc, const void *known,
                                uint32_t *out_tensor)
{
    uint32_t tensor;
    if (known != NULL) {
        const struct eng_value *info =
            value < lower->root.graph->value_count ? &lower->root.graph->values[value] : NULL;
        bool own = info != NULL && info->is_initializer && info->data == known;
        BASE_TRY(eng_lower_known(lower, desc, known, own ? known : NULL, &tensor));
    } else {
        BASE_TRY(eng_lower_tensor(lower, ENG_INPUT, ENG_PLAIN, desc, &tensor));
    }
    tensor_of(lower, tensor)->value = value;
    const struct eng_slot slot = {.type = ENG_VALUE_TENSOR, .tensor = tensor, .dtype = desc->dtype};
    BASE_TRY(eng_lower_set(lower, &lower->root, value, &slot));
    *out_tensor = tensor;
    return BASE_OK;
}

enum base_status eng_lower_bind_slot(struct eng_lower *lower, uint32_t value,
                                     const struct eng_slot *slot)
{
    struct eng_slot copy = *slot;
    if (slot->type == ENG_VALUE_SEQUENCE && slot->item_count > 0) {
        copy.items =
            base_arena_copy(lower->arena, slot->items, slot->item_count * sizeof(uint32_t));
        if (copy.items == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    return eng_lower_set(lower, &lower->root, value, &copy);
}

const struct eng_slot *eng_lower_value(const struct eng_lower *lower, uint32_t value)
{
    if (value >= lower->root.graph->value_count ||
        lower->root.slots[value].type == ENG_VALUE_UNKNOWN) {
        return NULL;
    }
    return &lower->root.slots[value];
}

// --- nodes

static enum base_status check_outputs(struct eng_lower *lower, const struct eng_node *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint32_t value = node->outputs[i];
        if (value != ENG_NONE && lower->scope->slots[value].type == ENG_VALUE_UNKNOWN) {
            return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED,
                                  "output %" PRIu32 " is not computed", i);
        }
    }
    return BASE_OK;
}

enum base_status eng_lower_node(struct eng_lower *lower, const struct eng_node *node)
{
    base_assert(lower->scope != NULL);
    const struct eng_node *outer = lower->node;
    struct eng_mark before = eng_lower_mark(lower);
    lower->node = node;
    enum base_status status = eng_look(&lower->options->look, lower->error);
    if (status == BASE_OK && node->impl == NULL) {
        status = eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED, "no such operator");
    } else if (status == BASE_OK) {
        status = node->impl->lower(lower, node);
    }
    if (status == BASE_OK) {
        status = check_outputs(lower, node);
    }
    if (status == BASE_OK && !lower->closed) {
        status = eng_lower_fold(lower, node, &before);
    }
    if (status != BASE_OK && status != BASE_ERR_BUSY && lower->error != NULL &&
        lower->error->status == BASE_OK) {
        status = eng_lower_fail(lower, node, status, "%s", base_status_text(status));
    }
    lower->node = outer;
    return status;
}

// With keep_values every output is there as a PLAIN tensor that survives.
static enum base_status keep_outputs(struct eng_lower *lower, const struct eng_node *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint32_t value = node->outputs[i];
        if (value == ENG_NONE || lower->root.slots[value].type != ENG_VALUE_TENSOR) {
            continue;
        }
        uint32_t tensor;
        BASE_TRY(eng_lower_as(lower, lower->root.slots[value].tensor, ENG_PLAIN, false, &tensor));
        tensor_of(lower, tensor)->is_output = true;
    }
    return BASE_OK;
}

static void name_outputs(struct eng_lower *lower, const struct eng_node *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint32_t value = node->outputs[i];
        if (value != ENG_NONE && lower->root.slots[value].type == ENG_VALUE_TENSOR) {
            struct eng_tensor *tensor = tensor_of(lower, lower->root.slots[value].tensor);
            tensor->value = tensor->value == ENG_NONE ? value : tensor->value;
        }
    }
}

// --- stopping for contents

// Whether a tensor is `leaf` or moves elements of it.
static bool reads(const struct eng_lower *lower, uint32_t tensor, uint32_t leaf)
{
    base_assert(tensor < lower->program->tensor_count);
    const struct eng_tensor *t = tensor_of(lower, tensor);
    for (uint32_t i = 0; t->kind == ENG_VIRTUAL && i < t->region_count; i++) {
        if (t->regions[i].source == leaf) {
            return true;
        }
    }
    return tensor == leaf || t->alias == leaf;
}

// Lists the unknown tensors of one value that read any of `leaves`.
static enum base_status want_value(struct eng_lower *lower, uint32_t value,
                                   const struct eng_list *leaves)
{
    if (value >= lower->root.graph->value_count) {
        return BASE_OK;
    }
    const struct eng_slot *slot = &lower->root.slots[value];
    uint32_t count = slot->type == ENG_VALUE_TENSOR     ? 1
                     : slot->type == ENG_VALUE_SEQUENCE ? slot->item_count
                                                        : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tensor = slot->type == ENG_VALUE_TENSOR ? slot->tensor : slot->items[i];
        for (uint32_t k = 0; k < leaves->count; k++) {
            if (!lower->notes[tensor].foldable && reads(lower, tensor, leaves->items[k])) {
                BASE_TRY(eng_lower_want(lower, tensor));
                break;
            }
        }
    }
    return BASE_OK;
}

// What the node wants was found by following what it emitted back to tensors of before it, through
// virtual tensors to their sources. The session knows values: wanted is what the node was given.
static enum base_status name_wanted(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_list leaves = lower->wanted;
    lower->wanted = (struct eng_list){0};
    for (uint32_t i = 0; i < node->input_count; i++) {
        BASE_TRY(want_value(lower, node->inputs[i], &leaves));
    }
    for (uint32_t i = 0; i < node->attr_count; i++) {
        if (node->attrs[i].kind != ENG_ATTR_GRAPH) {
            continue;
        }
        const struct eng_graph *graph = node->attrs[i].u.graph;
        for (uint32_t c = 0; c < graph->capture_count; c++) {
            BASE_TRY(want_value(lower, graph->captures[c].outer, &leaves));
        }
    }
    if (lower->wanted.count == 0) {
        lower->wanted = leaves;
    }
    return BASE_OK;
}

// Values and sequences bound to one tensor are bound to another.
static enum base_status rebind(struct eng_lower *lower, uint32_t old, uint32_t now)
{
    base_assert(old != now);
    for (uint32_t v = 0; v < lower->root.graph->value_count; v++) {
        struct eng_slot *slot = &lower->root.slots[v];
        if (slot->type == ENG_VALUE_TENSOR && slot->tensor == old) {
            slot->tensor = now;
        } else if (slot->type == ENG_VALUE_SEQUENCE && slot->item_count > 0) {
            uint32_t *items =
                base_arena_copy(lower->arena, slot->items, slot->item_count * sizeof(uint32_t));
            if (items == NULL) {
                return BASE_ERR_NOMEM;
            }
            for (uint32_t k = 0; k < slot->item_count; k++) {
                items[k] = items[k] == old ? now : items[k];
            }
            slot->items = items;
        }
    }
    return BASE_OK;
}

// The wanted tensors as the session can supply them: real and PLAIN.
static enum base_status prepare_wanted(struct eng_lower *lower, const struct eng_node *node)
{
    BASE_TRY(name_wanted(lower, node));
    for (uint32_t i = 0; i < lower->wanted.count; i++) {
        uint32_t old = lower->wanted.items[i];
        uint32_t now;
        BASE_TRY(eng_lower_as(lower, old, ENG_PLAIN, false, &now));
        lower->wanted.items[i] = now;
        if (now != old) {
            BASE_TRY(rebind(lower, old, now));
        }
    }
    return BASE_OK;
}

static enum base_status touch_outputs(struct eng_lower *lower)
{
    for (uint32_t i = 0; i < lower->root.graph->output_count; i++) {
        struct eng_slot *slot;
        BASE_TRY(eng_lower_find(lower, &lower->root, lower->root.graph->outputs[i], &slot));
        if (slot == NULL) {
            return eng_lower_fail(lower, NULL, BASE_ERR_INVALID,
                                  "graph output %" PRIu32 " is computed by no node", i);
        }
    }
    return BASE_OK;
}

enum base_status eng_lower_run(struct eng_lower *lower, uint32_t first, uint32_t *out_next)
{
    const struct eng_graph *graph = lower->root.graph;
    base_assert(first <= graph->node_count);
    base_assert(lower->scope == &lower->root && lower->node == NULL);
    if (lower->error != NULL) {
        lower->error->status = BASE_OK;
    }
    for (uint32_t i = first; i < graph->node_count; i++) {
        lower->change_count = 0;
        lower->wanted.count = 0;
        lower->node_index = i;
        lower->top = eng_lower_mark(lower);
        enum base_status status = eng_lower_node(lower, &graph->nodes[i]);
        if (status == BASE_ERR_BUSY) {
            eng_lower_undo(lower, &lower->top);
            BASE_TRY(prepare_wanted(lower, &graph->nodes[i]));
            *out_next = i;
            return BASE_ERR_BUSY;
        }
        BASE_TRY(status);
        name_outputs(lower, &graph->nodes[i]);
        if (lower->options->keep_values) {
            BASE_TRY(keep_outputs(lower, &graph->nodes[i]));
        }
    }
    lower->change_count = 0;
    BASE_TRY(touch_outputs(lower));
    *out_next = graph->node_count;
    return BASE_OK;
}

const uint32_t *eng_lower_wanted(const struct eng_lower *lower, uint32_t *out_count)
{
    *out_count = lower->wanted.count;
    return lower->wanted.items;
}
