// The checker of programs: what program.h promises, verified. Called in debug builds by sessions
// (session/segment.c) and the trainer (train/train_plan.c) after the passes, on the planning
// thread, and by tests. Lowering, passes and gradients all write programs and backends believe them
// without a look, so this is where a fault of one shows as its own: the first command that breaks a
// promise is named. Linear in the program.
#include "program/program.h"

#include "base/check.h"
#include "model/graph.h"
#include "program/region.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const struct eng_program *program;
    bool *written; // by tensor: a command before this one, or nobody has to, wrote it
    struct base_error *error;
    const struct eng_command *command;
    uint32_t index;
};

BASE_PRINTF(2, 3)
static enum base_status refuse(const struct check *check, const char *format, ...)
{
    char text[BASE_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (check->command == NULL) {
        return base_error_set(check->error, BASE_ERR_INVALID, "tensor %" PRIu32 ": %s",
                              check->index, text);
    }
    return base_error_set(check->error, BASE_ERR_INVALID, "command %" PRIu32 " (%s): %s",
                          check->index, eng_atomic_text(check->command->op), text);
}

static const struct eng_tensor *tensor_at(const struct check *check, uint32_t number)
{
    base_assert(number < check->program->tensor_count);
    return &check->program->tensors[number];
}

static int64_t count_of(const struct check *check, uint32_t number)
{
    return eng_desc_count(&tensor_at(check, number)->desc);
}

// --- tensors

static enum base_status check_regions(const struct check *check, const struct eng_region *regions,
                                      uint32_t count, const struct eng_desc *desc)
{
    int64_t to = eng_desc_count(desc);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t source = regions[i].source;
        if (source >= check->program->tensor_count ||
            tensor_at(check, source)->kind == ENG_VIRTUAL) {
            return refuse(check, "region %" PRIu32 " reads no real tensor", i);
        }
        if (tensor_at(check, source)->desc.dtype != desc->dtype) {
            return refuse(check, "region %" PRIu32 " reads another type", i);
        }
        if (!eng_region_fits(&regions[i], count_of(check, source), to)) {
            return refuse(check, "region %" PRIu32 " leaves its tensors", i);
        }
    }
    return BASE_OK;
}

static enum base_status check_alias(const struct check *check, const struct eng_tensor *tensor)
{
    if (tensor->kind != ENG_TEMP || tensor->alias >= check->program->tensor_count) {
        return refuse(check, "an alias has to be a TEMP of some tensor");
    }
    const struct eng_tensor *root = tensor_at(check, tensor->alias);
    if (root->alias != ENG_NONE || root->kind == ENG_VIRTUAL ||
        root->desc.dtype != tensor->desc.dtype ||
        eng_desc_count(&root->desc) != eng_desc_count(&tensor->desc)) {
        return refuse(check, "the alias of tensor %" PRIu32 " does not fit it", tensor->alias);
    }
    return BASE_OK;
}

static enum base_status check_tensor(const struct check *check, const struct eng_tensor *tensor)
{
    int64_t count;
    if ((unsigned)tensor->kind > ENG_VIRTUAL || eng_dtype_bytes(tensor->desc.dtype) == 0 ||
        eng_desc_check(&tensor->desc, &count) != BASE_OK) {
        return refuse(check, "not a tensor");
    }
    if (tensor->layout == ENG_CHANNELS_LAST && (tensor->desc.rank < 3 || tensor->desc.rank > 5)) {
        return refuse(check, "channels-last at rank %" PRIu32, tensor->desc.rank);
    }
    if (tensor->kind == ENG_CONST && tensor->data == NULL && count > 0) {
        return refuse(check, "a constant without elements");
    }
    if (tensor->kind == ENG_VIRTUAL) {
        return check_regions(check, tensor->regions, tensor->region_count, &tensor->desc);
    }
    return tensor->alias == ENG_NONE ? BASE_OK : check_alias(check, tensor);
}

// --- ports of commands

static enum base_status check_ports(const struct check *check)
{
    const struct eng_command *command = check->command;
    for (uint32_t i = 0; i < command->input_count; i++) {
        uint32_t input = command->inputs[i];
        if (input == ENG_NONE) {
            continue;
        }
        if (input >= check->program->tensor_count || tensor_at(check, input)->kind == ENG_VIRTUAL) {
            return refuse(check, "input %" PRIu32 " is no real tensor", i);
        }
        uint32_t alias = tensor_at(check, input)->alias;
        base_assert(alias == ENG_NONE || alias < check->program->tensor_count); // check_alias
        if (!check->written[alias == ENG_NONE ? input : alias]) {
            return refuse(check, "input %" PRIu32 " is not computed before", i);
        }
    }
    for (uint32_t i = 0; i < command->output_count; i++) {
        uint32_t output = command->outputs[i];
        if (output == ENG_NONE) {
            continue;
        }
        if (output >= check->program->tensor_count || tensor_at(check, output)->kind != ENG_TEMP ||
            tensor_at(check, output)->alias != ENG_NONE || check->written[output]) {
            return refuse(check, "output %" PRIu32 " is not a TEMP to be written once", i);
        }
    }
    if (command->output_count == 0 || command->outputs[0] == ENG_NONE) {
        return refuse(check, "without output");
    }
    return BASE_OK;
}

static bool has_input(const struct eng_command *command, uint32_t tensor)
{
    for (uint32_t i = 0; i < command->input_count; i++) {
        if (command->inputs[i] == tensor) {
            return true;
        }
    }
    return false;
}

static enum base_status check_epilogue(const struct check *check,
                                       const struct eng_epilogue *epilogue)
{
    if ((epilogue->bias != ENG_NONE && !has_input(check->command, epilogue->bias)) ||
        (epilogue->residual != ENG_NONE && !has_input(check->command, epilogue->residual))) {
        return refuse(check, "bias or residual is not among the inputs");
    }
    return BASE_OK;
}

// --- parameters

// View v stays within input v over the dims of the box.
static enum base_status check_views(const struct check *check, uint32_t views)
{
    base_assert(views <= ENG_COMMAND_VIEWS_MAX);
    const struct eng_command *command = check->command;
    if (command->box.rank > ENG_RANK_MAX || command->input_count < views) {
        return refuse(check, "a box of %" PRIu32 " dims", command->box.rank);
    }
    struct eng_wide wide = {.rank = command->box.rank};
    for (uint32_t d = 0; d < command->box.rank; d++) {
        if (command->box.size[d] == 0) {
            return BASE_OK;
        }
        wide.dims[d].size = command->box.size[d];
    }
    for (uint32_t v = 0; v < views; v++) {
        if (command->inputs[v] == ENG_NONE) {
            continue;
        }
        struct eng_region_span span;
        wide.src_offset = command->views[v].offset;
        for (uint32_t d = 0; d < command->box.rank; d++) {
            wide.dims[d].src = command->views[v].stride[d];
        }
        if (!eng_wide_span(&wide, &span) || span.src_min < 0 ||
            span.src_max >= count_of(check, command->inputs[v])) {
            return refuse(check, "view %" PRIu32 " leaves its tensor", v);
        }
    }
    return BASE_OK;
}

static enum base_status check_elementwise(const struct check *check, uint32_t views)
{
    BASE_TRY(check_views(check, views));
    int64_t count = 1;
    for (uint32_t d = 0; d < check->command->box.rank; d++) {
        count *= check->command->box.size[d];
    }
    if (count != count_of(check, check->command->outputs[0])) {
        return refuse(check, "the box is not the output's size");
    }
    return BASE_OK;
}

static enum base_status check_count(const struct check *check, uint32_t tensor, int64_t expected)
{
    if (tensor == ENG_NONE || count_of(check, tensor) != expected) {
        return refuse(check, "a tensor of other than %" PRId64 " elements", expected);
    }
    return BASE_OK;
}

static enum base_status check_same_count(const struct check *check)
{
    if (check->command->input_count == 0 || check->command->inputs[0] == ENG_NONE) {
        return refuse(check, "without input");
    }
    return check_count(check, check->command->inputs[0],
                       count_of(check, check->command->outputs[0]));
}

static enum base_status check_matmul(const struct check *check)
{
    const struct eng_command *command = check->command;
    if (command->box.rank != command->u.matmul.batch_rank + 3) {
        return refuse(check, "%" PRIu32 " batch dims in a box of %" PRIu32,
                      command->u.matmul.batch_rank, command->box.rank);
    }
    int64_t count = 1;
    for (uint32_t d = 0; d + 1 < command->box.rank; d++) {
        count *= command->box.size[d];
    }
    BASE_TRY(check_count(check, command->outputs[0], count));
    BASE_TRY(check_epilogue(check, &command->u.matmul.epilogue));
    return check_views(check, 2);
}

static enum base_status check_conv(const struct check *check)
{
    const struct eng_command *command = check->command;
    const struct eng_conv *conv = &command->u.conv;
    if (command->input_count < 2 || command->inputs[0] == ENG_NONE ||
        command->inputs[1] == ENG_NONE || conv->spatial < 1 || conv->spatial > ENG_SPATIAL_MAX ||
        conv->groups < 1) {
        return refuse(check, "no convolution");
    }
    const struct eng_tensor *x = tensor_at(check, command->inputs[0]);
    const struct eng_tensor *y = tensor_at(check, command->outputs[0]);
    if (x->desc.rank != conv->spatial + 2 || y->desc.rank != x->desc.rank ||
        x->layout != y->layout || tensor_at(check, command->inputs[1])->layout != ENG_PLAIN) {
        return refuse(check, "input and output differ in rank or layout");
    }
    return check_epilogue(check, &conv->epilogue);
}

// Each convolution reads the result of the one before, and the command's ports are theirs.
static enum base_status check_chain(const struct check *check)
{
    base_assert(check->command->output_count > 0); // check_ports
    const struct eng_conv_chain *chain = check->command->u.chain;
    if (chain == NULL || chain->count < 2 || chain->count > ENG_CHAIN_MAX) {
        return refuse(check, "no chain");
    }
    for (uint32_t i = 0; i < chain->count; i++) {
        struct check one = *check;
        one.command = &chain->convs[i];
        const uint32_t before = i == 0 ? check->command->inputs[0] : one.command[-1].outputs[0];
        const bool is_last = i + 1 == chain->count;
        if (one.command->op != ENG_OP_CONV || one.command->output_count != 1 ||
            one.command->outputs[0] >= check->program->tensor_count) {
            return refuse(check, "a chain of other than convolutions");
        }
        if (one.command->input_count < 2 || one.command->inputs[0] != before ||
            (is_last && one.command->outputs[0] != check->command->outputs[0])) {
            return refuse(check, "convolutions of a chain do not follow each other");
        }
        for (uint32_t p = 1; p < one.command->input_count; p++) {
            if (!has_input(check->command, one.command->inputs[p])) {
                return refuse(check, "a chain reads what is not an input");
            }
        }
        BASE_TRY(check_conv(&one));
    }
    return BASE_OK;
}

static enum base_status check_raster(const struct check *check)
{
    const struct eng_command *command = check->command;
    for (uint32_t i = 0; i < command->u.raster.count; i++) {
        if (!has_input(command, command->u.raster.regions[i].source)) {
            return refuse(check, "region %" PRIu32 " reads what is not an input", i);
        }
    }
    return check_regions(check, command->u.raster.regions, command->u.raster.count,
                         &tensor_at(check, command->outputs[0])->desc);
}

// The coordinates behind the indices (input 1) are the last input.
static enum base_status check_coords(const struct check *check, const struct eng_coords *coords)
{
    const struct eng_command *command = check->command;
    if (coords->depth == 0) {
        return BASE_OK;
    }
    const uint32_t last = command->input_count - 1;
    if (command->input_count < 3 || coords->depth > ENG_RANK_MAX ||
        command->inputs[last] == ENG_NONE || command->inputs[1] == ENG_NONE ||
        tensor_at(check, command->inputs[last])->desc.dtype != ENG_I64) {
        return refuse(check, "no coordinates");
    }
    const struct eng_tensor *rows = tensor_at(check, command->inputs[1]);
    return check_count(check, command->inputs[last], eng_desc_count(&rows->desc) * coords->depth);
}

static enum base_status check_two_views(const struct check *check)
{
    return check_elementwise(check, 2);
}

static enum base_status check_three_views(const struct check *check)
{
    return check_elementwise(check, 3);
}

static enum base_status check_expr(const struct check *check)
{
    const struct eng_expr *expr = check->command->u.expr;
    if (expr == NULL || expr->load_count > ENG_EXPR_LOADS_MAX ||
        expr->op_count > ENG_EXPR_OPS_MAX || expr->op_count == 0) {
        return refuse(check, "no expression");
    }
    return check_elementwise(check, expr->load_count);
}

static uint32_t first_input(const struct eng_command *command)
{
    return command->input_count > 0 ? command->inputs[0] : ENG_NONE;
}

static enum base_status check_reduce(const struct check *check)
{
    const struct eng_reduce *reduce = &check->command->u.reduce;
    BASE_TRY(
        check_count(check, first_input(check->command), reduce->outer * reduce->n * reduce->inner));
    return check_count(check, check->command->outputs[0], reduce->outer * reduce->inner);
}

static enum base_status check_softmax(const struct check *check)
{
    const struct eng_softmax *softmax = &check->command->u.softmax;
    BASE_TRY(check_count(check, first_input(check->command),
                         softmax->outer * softmax->n * softmax->inner));
    return check_same_count(check);
}

static enum base_status check_norm(const struct check *check)
{
    const struct eng_norm *norm = &check->command->u.norm;
    BASE_TRY(check_count(check, first_input(check->command), norm->groups * norm->n));
    return check_same_count(check);
}

static enum base_status check_attention(const struct check *check)
{
    return check->command->box.rank == 6 ? BASE_OK : refuse(check, "a box of other than 6 dims");
}

static enum base_status check_scatter(const struct check *check)
{
    return check_coords(check, &check->command->u.scatter.coords);
}

static enum base_status check_gather(const struct check *check)
{
    const struct eng_gather *gather = &check->command->u.gather;
    BASE_TRY(check_coords(check, &gather->coords));
    return gather->elementwise ? BASE_OK
                               : check_count(check, first_input(check->command),
                                             gather->outer * gather->n * gather->inner);
}

static enum base_status check_nothing(const struct check *check)
{
    (void)check;
    return BASE_OK;
}

// By command, as program.h lists them.
static enum base_status (*const parameter_checks[])(const struct check *check) = {
#define PARAMETER_CHECK(NAME, name, checked, shown) [ENG_OP_##NAME] = check_##checked,
    ENG_ATOMIC_MAP(PARAMETER_CHECK)
#undef PARAMETER_CHECK
};

static enum base_status check_parameters(const struct check *check)
{
    base_assert((unsigned)check->command->op < ENG_OP_COUNT);
    return parameter_checks[check->command->op](check);
}

enum base_status eng_program_validate(const struct eng_program *program, struct base_error *error)
{
    base_assert(program->tensor_count <= program->tensor_capacity);
    base_assert(program->command_count <= program->command_capacity);
    struct check check = {.program = program, .error = error};
    check.written = calloc((size_t)program->tensor_count + 1, sizeof(bool));
    if (check.written == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; status == BASE_OK && i < program->tensor_count; i++) {
        check.index = i;
        check.written[i] = program->tensors[i].kind < ENG_TEMP;
        status = check_tensor(&check, &program->tensors[i]);
    }
    for (uint32_t i = 0; status == BASE_OK && i < program->command_count; i++) {
        check.index = i;
        check.command = &program->commands[i];
        if ((unsigned)check.command->op >= ENG_OP_COUNT) {
            status = refuse(&check, "no such command");
        }
        status = status == BASE_OK ? check_ports(&check) : status;
        status = status == BASE_OK ? check_parameters(&check) : status;
        for (uint32_t o = 0; status == BASE_OK && o < check.command->output_count; o++) {
            if (check.command->outputs[o] != ENG_NONE) {
                check.written[check.command->outputs[o]] = true;
            }
        }
    }
    free(check.written);
    return status;
}
