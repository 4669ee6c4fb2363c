// Containers and texts of programs. Called by lowering, the passes and tests, on the planning
// thread.
//
// Tensors and commands are arrays in the program's arena; growing one leaves the old array behind
// in the arena, which costs at most as much again.
#include "program/program.h"

#include "base/check.h"
#include "model/graph.h"

#include <string.h>

static const char *const atomic_texts[] = {
#define ENG_ATOMIC_TEXT(NAME, name, checked, shown) #name,
    ENG_ATOMIC_MAP(ENG_ATOMIC_TEXT)
#undef ENG_ATOMIC_TEXT
};

static const char *const unary_texts[ENG_UNARY_COUNT] = {
    [ENG_ABS] = "abs",
    [ENG_NEG] = "neg",
    [ENG_SIGN] = "sign",
    [ENG_CEIL] = "ceil",
    [ENG_FLOOR] = "floor",
    [ENG_ROUND] = "round",
    [ENG_SQRT] = "sqrt",
    [ENG_RSQRT] = "rsqrt",
    [ENG_RECIPROCAL] = "reciprocal",
    [ENG_SQUARE] = "square",
    [ENG_EXP] = "exp",
    [ENG_LOG] = "log",
    [ENG_SIN] = "sin",
    [ENG_COS] = "cos",
    [ENG_TAN] = "tan",
    [ENG_ASIN] = "asin",
    [ENG_ACOS] = "acos",
    [ENG_ATAN] = "atan",
    [ENG_SINH] = "sinh",
    [ENG_COSH] = "cosh",
    [ENG_TANH] = "tanh",
    [ENG_ASINH] = "asinh",
    [ENG_ACOSH] = "acosh",
    [ENG_ATANH] = "atanh",
    [ENG_ERF] = "erf",
    [ENG_SIGMOID] = "sigmoid",
    [ENG_RELU] = "relu",
    [ENG_LEAKY_RELU] = "leaky_relu",
    [ENG_ELU] = "elu",
    [ENG_SELU] = "selu",
    [ENG_CELU] = "celu",
    [ENG_SOFTPLUS] = "softplus",
    [ENG_SOFTSIGN] = "softsign",
    [ENG_HARD_SIGMOID] = "hard_sigmoid",
    [ENG_HARD_SWISH] = "hard_swish",
    [ENG_CLIP] = "clip",
    [ENG_THRESHOLDED_RELU] = "thresholded_relu",
    [ENG_GELU] = "gelu",
    [ENG_GELU_TANH] = "gelu_tanh",
    [ENG_SHRINK] = "shrink",
    [ENG_NOT] = "not",
    [ENG_IS_NAN] = "is_nan",
    [ENG_IS_INF] = "is_inf",
    [ENG_BIT_NOT] = "bit_not",
};

static const char *const binary_texts[ENG_BINARY_COUNT] = {
    [ENG_ADD] = "add",
    [ENG_SUB] = "sub",
    [ENG_MUL] = "mul",
    [ENG_DIV] = "div",
    [ENG_POW] = "pow",
    [ENG_MOD] = "mod",
    [ENG_FMOD] = "fmod",
    [ENG_MIN] = "min",
    [ENG_MAX] = "max",
    [ENG_EQUAL] = "equal",
    [ENG_LESS] = "less",
    [ENG_LESS_EQUAL] = "less_equal",
    [ENG_GREATER] = "greater",
    [ENG_GREATER_EQUAL] = "greater_equal",
    [ENG_AND] = "and",
    [ENG_OR] = "or",
    [ENG_XOR] = "xor",
    [ENG_SHIFT_LEFT] = "shift_left",
    [ENG_SHIFT_RIGHT] = "shift_right",
    [ENG_PRELU] = "prelu",
    [ENG_SQUARED_DIFF] = "squared_diff",
};

static const char *const reduce_texts[ENG_REDUCE_COUNT] = {
    [ENG_REDUCE_SUM] = "sum",         [ENG_REDUCE_MEAN] = "mean",
    [ENG_REDUCE_MAX] = "max",         [ENG_REDUCE_MIN] = "min",
    [ENG_REDUCE_PROD] = "prod",       [ENG_REDUCE_SUM_SQUARE] = "sum_square",
    [ENG_REDUCE_L1] = "l1",           [ENG_REDUCE_L2] = "l2",
    [ENG_REDUCE_LOG_SUM] = "log_sum", [ENG_REDUCE_LOG_SUM_EXP] = "log_sum_exp",
};

_Static_assert(ENG_OP_COUNT - 1 <= 61, "at most 61 atomic commands");

const char *eng_atomic_text(enum eng_atomic op)
{
    return (unsigned)op < ENG_OP_COUNT ? atomic_texts[op] : "unknown";
}

const char *eng_unary_text(enum eng_unary_fn fn)
{
    return (unsigned)fn < ENG_UNARY_COUNT ? unary_texts[fn] : "unknown";
}

const char *eng_binary_text(enum eng_binary_fn fn)
{
    return (unsigned)fn < ENG_BINARY_COUNT ? binary_texts[fn] : "unknown";
}

const char *eng_reduce_text(enum eng_reduce_fn fn)
{
    return (unsigned)fn < ENG_REDUCE_COUNT ? reduce_texts[fn] : "unknown";
}

void eng_program_init(struct eng_program *program, struct base_arena *arena)
{
    base_assert(arena != NULL);
    *program = (struct eng_program){.arena = arena};
}

// An array that grows in an arena.
struct array {
    void *items;
    uint32_t count, capacity, limit; // items; limit: at most so many
    size_t item_bytes;
};

// Makes room for one more item: doubles from 64, up to the limit.
static enum base_status grow(struct base_arena *arena, struct array *array)
{
    base_assert(array->count <= array->capacity);
    base_assert(array->item_bytes > 0);
    if (array->count < array->capacity) {
        return BASE_OK;
    }
    if (array->count >= array->limit) {
        return BASE_ERR_LIMIT;
    }
    uint32_t wanted = array->capacity == 0                 ? 64
                      : array->capacity > array->limit / 2 ? array->limit
                                                           : array->capacity * 2;
    void *grown = base_arena_alloc(arena, (size_t)wanted * array->item_bytes);
    if (grown == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (array->count > 0) {
        memcpy(grown, array->items, (size_t)array->count * array->item_bytes);
    }
    array->items = grown;
    array->capacity = wanted;
    return BASE_OK;
}

enum base_status eng_program_tensor(struct eng_program *program, enum eng_tensor_kind kind,
                                    enum eng_layout layout, const struct eng_desc *desc,
                                    uint32_t *out)
{
    base_assert((unsigned)kind <= ENG_VIRTUAL);
    base_assert(desc->rank <= ENG_RANK_MAX);
    struct array array = {program->tensors, program->tensor_count, program->tensor_capacity,
                          ENG_TENSORS_MAX, sizeof(struct eng_tensor)};
    BASE_TRY(grow(program->arena, &array));
    program->tensors = array.items;
    program->tensor_capacity = array.capacity;
    program->tensors[program->tensor_count] = (struct eng_tensor){
        .desc = *desc, .layout = layout, .kind = kind, .alias = ENG_NONE, .value = ENG_NONE};
    *out = program->tensor_count++;
    return BASE_OK;
}

enum base_status eng_program_command(struct eng_program *program, enum eng_atomic op,
                                     uint32_t input_count, uint32_t output_count,
                                     struct eng_command **out)
{
    base_assert((unsigned)op < ENG_OP_COUNT);
    struct array array = {program->commands, program->command_count, program->command_capacity,
                          ENG_COMMANDS_MAX, sizeof(struct eng_command)};
    BASE_TRY(grow(program->arena, &array));
    program->commands = array.items;
    program->command_capacity = array.capacity;
    size_t ports = (size_t)input_count + output_count;
    uint32_t *numbers = base_arena_alloc(program->arena, ports * sizeof(uint32_t));
    if (numbers == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(numbers, 0xff, ports * sizeof(uint32_t)); // ENG_NONE each
    struct eng_command *command = &program->commands[program->command_count++];
    memset(command, 0, sizeof(*command));
    command->op = op;
    command->node = ENG_NONE;
    command->input_count = input_count;
    command->output_count = output_count;
    command->inputs = numbers;
    command->outputs = numbers + input_count;
    *out = command;
    return BASE_OK;
}

void eng_layout_strides(const struct eng_desc *desc, enum eng_layout layout,
                        int64_t strides[ENG_RANK_MAX])
{
    base_assert(desc->rank <= ENG_RANK_MAX);
    int64_t step = 1;
    if (layout == ENG_CHANNELS_LAST && desc->rank >= 3) {
        strides[1] = 1;
        step = desc->dims[1];
        for (uint32_t d = desc->rank; d-- > 2;) {
            strides[d] = step;
            step *= desc->dims[d];
        }
        strides[0] = step;
        return;
    }
    for (uint32_t d = desc->rank; d-- > 0;) {
        strides[d] = step;
        step *= desc->dims[d];
    }
}
