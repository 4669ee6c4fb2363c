// Contents: what tensors hold, found out while lowering. Constants are read, moves of constants are
// made on the spot, and whatever else depends on constants alone is cut out of the program and run
// by the session's runner.
#include "lower/lower_state.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

bool eng_lower_is_known(const struct eng_lower *lower, uint32_t tensor)
{
    base_assert(tensor < lower->program->tensor_count);
    const struct eng_note *note = &lower->notes[tensor];
    return note->foldable && (note->content != NULL || lower->options->run_program != NULL ||
                              tensor_of(lower, tensor)->kind == ENG_VIRTUAL);
}

// --- cutting out what some tensors depend on

// Visits a tensor of the walk once. Commands found are listed, perhaps more than once.
static enum base_status visit(struct eng_lower *lower, uint32_t tensor, struct eng_list *seen,
                              struct eng_list *commands)
{
    base_assert(tensor < lower->program->tensor_count);
    struct eng_note *note = &lower->notes[tensor];
    if (note->stamp == lower->stamp) {
        return BASE_OK;
    }
    note->stamp = lower->stamp;
    BASE_TRY(eng_list_add(lower, seen, tensor));
    const struct eng_tensor *t = tensor_of(lower, tensor);
    if (note->content != NULL || t->kind == ENG_CONST) {
        return BASE_OK;
    }
    if (t->alias != ENG_NONE) {
        return eng_list_add(lower, &lower->work, t->alias);
    }
    if (note->producer == ENG_NONE) {
        return BASE_ERR_BUG; // not foldable after all
    }
    BASE_TRY(eng_list_add(lower, commands, note->producer));
    const struct eng_command *command = &lower->program->commands[note->producer];
    for (uint32_t i = 0; i < command->input_count; i++) {
        if (command->inputs[i] != ENG_NONE) {
            BASE_TRY(eng_list_add(lower, &lower->work, command->inputs[i]));
        }
    }
    for (uint32_t i = 0; i < command->output_count; i++) {
        if (command->outputs[i] != ENG_NONE) {
            BASE_TRY(eng_list_add(lower, &lower->work, command->outputs[i]));
        }
    }
    return BASE_OK;
}

static int by_number(const void *left, const void *right)
{
    uint32_t x = *(const uint32_t *)left;
    uint32_t y = *(const uint32_t *)right;
    return x < y ? -1 : x > y;
}

static enum base_status copy_tensors(struct eng_lower *lower, const struct eng_list *seen,
                                     struct eng_program *part)
{
    for (uint32_t i = 0; i < seen->count; i++) {
        uint32_t number = seen->items[i];
        const struct eng_tensor *from = tensor_of(lower, number);
        uint32_t copy;
        BASE_TRY(eng_program_tensor(part, from->kind, from->layout, &from->desc, &copy));
        struct eng_tensor *to = &part->tensors[copy];
        const struct eng_note *note = &lower->notes[number];
        to->data = from->data;
        to->identity = from->identity;
        to->alias = from->alias;
        if (from->kind != ENG_CONST && note->content != NULL) {
            to->kind = ENG_CONST;
            to->layout = ENG_PLAIN;
            to->data = note->content;
            to->alias = ENG_NONE;
        }
        lower->notes[number].mapped = copy;
    }
    for (uint32_t i = 0; i < part->tensor_count; i++) {
        uint32_t *alias = &part->tensors[i].alias;
        base_assert(*alias == ENG_NONE || lower->notes[*alias].stamp == lower->stamp);
        *alias = *alias == ENG_NONE ? ENG_NONE : lower->notes[*alias].mapped;
    }
    return BASE_OK;
}

static uint32_t mapped(const struct eng_lower *lower, uint32_t tensor)
{
    base_assert(tensor == ENG_NONE || lower->notes[tensor].stamp == lower->stamp);
    return tensor == ENG_NONE ? ENG_NONE : lower->notes[tensor].mapped;
}

static void map_epilogue(const struct eng_lower *lower, struct eng_epilogue *epilogue)
{
    epilogue->bias = mapped(lower, epilogue->bias);
    epilogue->residual = mapped(lower, epilogue->residual);
}

static enum base_status copy_command(struct eng_lower *lower, const struct eng_command *from,
                                     struct eng_program *part)
{
    base_assert(from->op != ENG_OP_CONV_CHAIN); // made by fusion alone, and has tensors within
    struct eng_command *to;
    BASE_TRY(eng_program_command(part, from->op, from->input_count, from->output_count, &to));
    uint32_t *inputs = to->inputs;
    uint32_t *outputs = to->outputs;
    *to = *from;
    to->inputs = inputs;
    to->outputs = outputs;
    for (uint32_t i = 0; i < from->input_count; i++) {
        inputs[i] = mapped(lower, from->inputs[i]);
    }
    for (uint32_t i = 0; i < from->output_count; i++) {
        outputs[i] = mapped(lower, from->outputs[i]);
    }
    if (from->op == ENG_OP_CONV || from->op == ENG_OP_CONV_TRANSPOSE) {
        map_epilogue(lower, &to->u.conv.epilogue);
    } else if (from->op == ENG_OP_MATMUL) {
        map_epilogue(lower, &to->u.matmul.epilogue);
    } else if (from->op == ENG_OP_RASTER && from->u.raster.count > 0) {
        size_t bytes = from->u.raster.count * sizeof(struct eng_region);
        struct eng_region *regions = base_arena_copy(part->arena, from->u.raster.regions, bytes);
        if (regions == NULL) {
            return BASE_ERR_NOMEM;
        }
        for (uint32_t i = 0; i < from->u.raster.count; i++) {
            regions[i].source = mapped(lower, regions[i].source);
        }
        to->u.raster.regions = regions;
    }
    return BASE_OK;
}

// Builds the part of the program that computes `roots`; their numbers in it replace them.
static enum base_status cut_out(struct eng_lower *lower, uint32_t *roots, uint32_t count,
                                struct eng_program *part)
{
    base_assert(count > 0);
    struct eng_list seen = {0};
    struct eng_list commands = {0};
    lower->stamp++;
    lower->work.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(eng_list_add(lower, &lower->work, roots[i]));
    }
    while (lower->work.count > 0) {
        BASE_TRY(visit(lower, lower->work.items[--lower->work.count], &seen, &commands));
    }
    BASE_TRY(copy_tensors(lower, &seen, part));
    if (commands.count > 1) {
        qsort(commands.items, commands.count, sizeof(uint32_t), by_number);
    }
    for (uint32_t i = 0; i < commands.count; i++) {
        if (i == 0 || commands.items[i] != commands.items[i - 1]) {
            BASE_TRY(copy_command(lower, &lower->program->commands[commands.items[i]], part));
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        roots[i] = lower->notes[roots[i]].mapped;
        part->tensors[roots[i]].is_output = true;
    }
    return BASE_OK;
}

enum base_status eng_lower_evaluate(struct eng_lower *lower, const uint32_t *tensors,
                                    uint32_t count, struct eng_array *out)
{
    if (lower->options->run_program == NULL) {
        return eng_lower_fail(lower, lower->node, BASE_ERR_UNSUPPORTED,
                              "contents cannot be computed here");
    }
    struct base_arena scratch;
    base_arena_init(&scratch, lower->arena->alloc, 0, 0);
    struct eng_program part;
    eng_program_init(&part, &scratch);
    enum base_status status = BASE_ERR_NOMEM;
    uint32_t *roots = base_arena_alloc(&scratch, (size_t)count * sizeof(uint32_t) + 1);
    if (roots != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            base_assert(tensor_of(lower, tensors[i])->layout == ENG_PLAIN);
            base_assert(tensor_of(lower, tensors[i])->kind != ENG_VIRTUAL);
            uint32_t alias = tensor_of(lower, tensors[i])->alias;
            roots[i] = alias == ENG_NONE ? tensors[i] : alias;
        }
        status = cut_out(lower, roots, count, &part);
    }
    if (status == BASE_OK) {
        const struct eng_contents wanted = {roots, count, out, lower->arena};
        status =
            lower->options->run_program(lower->options->runner_ctx, &part, &wanted, lower->error);
    }
    base_arena_done(&scratch);
    for (uint32_t i = 0; status == BASE_OK && i < count; i++) {
        out[i].desc = *eng_lower_desc(lower, tensors[i]);
    }
    return status;
}

// --- contents

enum base_status eng_lower_want(struct eng_lower *lower, uint32_t tensor)
{
    base_assert(tensor < lower->program->tensor_count);
    for (uint32_t i = 0; i < lower->wanted.count; i++) {
        if (lower->wanted.items[i] == tensor) {
            return BASE_OK;
        }
    }
    return lower->wanted.count >= ENG_WANTED_MAX ? BASE_ERR_LIMIT
                                                 : eng_list_add(lower, &lower->wanted, tensor);
}

// Lists the tensors of before the node that `tensor` depends on and that are not known.
static enum base_status want(struct eng_lower *lower, uint32_t tensor, bool *out_any)
{
    *out_any = false;
    lower->stamp++;
    lower->work.count = 0;
    BASE_TRY(eng_list_add(lower, &lower->work, tensor));
    while (lower->work.count > 0) {
        uint32_t at = lower->work.items[--lower->work.count];
        struct eng_note *note = &lower->notes[at];
        if (note->foldable || note->stamp == lower->stamp) {
            continue;
        }
        note->stamp = lower->stamp;
        const struct eng_tensor *t = tensor_of(lower, at);
        base_assert(note->producer == ENG_NONE || note->producer < lower->program->command_count);
        if (at < lower->top.tensors) {
            BASE_TRY(eng_lower_want(lower, at));
            *out_any = true;
        } else if (t->kind == ENG_VIRTUAL) {
            for (uint32_t i = 0; i < t->region_count; i++) {
                BASE_TRY(eng_list_add(lower, &lower->work, t->regions[i].source));
            }
        } else if (t->alias != ENG_NONE) {
            BASE_TRY(eng_list_add(lower, &lower->work, t->alias));
        } else if (note->producer != ENG_NONE) {
            const struct eng_command *command = &lower->program->commands[note->producer];
            for (uint32_t i = 0; i < command->input_count; i++) {
                if (command->inputs[i] != ENG_NONE) {
                    BASE_TRY(eng_list_add(lower, &lower->work, command->inputs[i]));
                }
            }
        }
    }
    return BASE_OK;
}

enum base_status eng_lower_content(struct eng_lower *lower, uint32_t tensor, struct eng_array *out)
{
    base_assert(tensor < lower->program->tensor_count);
    if (lower->notes[tensor].content == NULL) {
        if (!lower->notes[tensor].foldable) {
            bool any;
            BASE_TRY(want(lower, tensor, &any));
            if (any) {
                return BASE_ERR_BUSY;
            }
            // Nothing but random numbers stands in the way: they are drawn now.
        }
        uint32_t real;
        BASE_TRY(eng_lower_as(lower, tensor, ENG_PLAIN, false, &real));
        if (lower->notes[real].content == NULL) {
            struct eng_array array;
            BASE_TRY(eng_lower_evaluate(lower, &real, 1, &array));
            lower->notes[real].content = array.data;
            lower->notes[real].foldable = true;
        }
        lower->notes[tensor].content = lower->notes[real].content;
    }
    *out = (struct eng_array){.desc = *eng_lower_desc(lower, tensor)};
    memcpy(&out->data, &lower->notes[tensor].content, sizeof(out->data)); // read, never written
    return BASE_OK;
}

// --- after a node

struct folded {
    uint32_t value;
    uint32_t tensor; // PLAIN and real
    struct eng_desc desc;
    const void *data;
    const void *identity;
};

// Outputs worth folding; *all says whether nothing else is left of the node.
static enum base_status pick_outputs(struct eng_lower *lower, const struct eng_node *node,
                                     struct folded *picks, uint32_t *out_count, bool *all)
{
    size_t total = 0;
    uint32_t count = 0;
    *all = true;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == ENG_NONE) {
            continue;
        }
        const struct eng_slot *slot = &lower->scope->slots[node->outputs[i]];
        if (slot->type != ENG_VALUE_TENSOR || !lower->notes[slot->tensor].foldable) {
            *all = false;
            continue;
        }
        const struct eng_tensor *tensor = tensor_of(lower, slot->tensor);
        size_t bytes = eng_desc_bytes(&tensor->desc);
        bool is_virtual = tensor->kind == ENG_VIRTUAL;
        bool runs = tensor->kind == ENG_TEMP && lower->notes[slot->tensor].content == NULL;
        total += runs ? bytes : 0;
        if (bytes > (is_virtual ? ENG_FOLD_VIRTUAL_MAX : ENG_FOLD_BYTES_MAX) ||
            total > ENG_FOLD_BYTES_MAX || (runs && lower->options->run_program == NULL)) {
            *all = false;
            continue;
        }
        base_assert(count <= i); // there is room for one each
        picks[count++] = (struct folded){.value = node->outputs[i], .tensor = slot->tensor};
    }
    *out_count = count;
    return BASE_OK;
}

// Fills in the contents of every pick, in one run for those that need one.
static enum base_status evaluate_picks(struct eng_lower *lower, struct folded *picks,
                                       uint32_t count)
{
    base_assert(count > 0);
    uint32_t *tensors = base_arena_alloc(lower->arena, count * sizeof(uint32_t));
    struct eng_array *arrays = base_arena_alloc(lower->arena, count * sizeof(struct eng_array));
    if (tensors == NULL || arrays == NULL) {
        return BASE_ERR_NOMEM;
    }
    uint32_t run = 0;
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(eng_lower_as(lower, picks[i].tensor, ENG_PLAIN, false, &picks[i].tensor));
        if (lower->notes[picks[i].tensor].content == NULL) {
            tensors[run++] = picks[i].tensor;
        }
    }
    if (run > 0) {
        BASE_TRY(eng_lower_evaluate(lower, tensors, run, arrays));
    }
    for (uint32_t i = 0; i < run; i++) {
        lower->notes[tensors[i]].content = arrays[i].data;
    }
    for (uint32_t i = 0; i < count; i++) {
        picks[i].desc = *eng_lower_desc(lower, picks[i].tensor);
        picks[i].data = lower->notes[picks[i].tensor].content;
        picks[i].identity = tensor_of(lower, picks[i].tensor)->identity;
    }
    return BASE_OK;
}

enum base_status eng_lower_fold(struct eng_lower *lower, const struct eng_node *node,
                                const struct eng_mark *before)
{
    base_assert(before->tensors <= lower->program->tensor_count);
    bool any = false;
    for (uint32_t i = 0; i < node->output_count && !any; i++) {
        const struct eng_slot *slot =
            node->outputs[i] == ENG_NONE ? NULL : &lower->scope->slots[node->outputs[i]];
        any = slot != NULL && slot->type == ENG_VALUE_TENSOR &&
              lower->notes[slot->tensor].foldable &&
              tensor_of(lower, slot->tensor)->kind != ENG_CONST;
    }
    if (!any) {
        return BASE_OK;
    }
    struct folded *picks =
        base_arena_alloc(lower->arena, node->output_count * sizeof(struct folded));
    if (picks == NULL) {
        return BASE_ERR_NOMEM;
    }
    uint32_t count;
    bool all;
    BASE_TRY(pick_outputs(lower, node, picks, &count, &all));
    if (count == 0) {
        return BASE_OK;
    }
    BASE_TRY(evaluate_picks(lower, picks, count));
    if (all) {
        eng_lower_undo(lower, before);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tensor = picks[i].tensor;
        if (tensor >= lower->program->tensor_count || tensor_of(lower, tensor)->kind != ENG_CONST ||
            all) {
            BASE_TRY(
                eng_lower_known(lower, &picks[i].desc, picks[i].data, picks[i].identity, &tensor));
        }
        const struct eng_slot slot = {
            .type = ENG_VALUE_TENSOR, .tensor = tensor, .dtype = picks[i].desc.dtype};
        BASE_TRY(eng_lower_set(lower, lower->scope, picks[i].value, &slot));
    }
    return BASE_OK;
}
