// A lowering without a session: a graph of values and no file, inputs bound by hand, programs run
// command by command on the reference backend.
#ifndef LOWER_RIG_H
#define LOWER_RIG_H

#include "test_kit.h"

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/buffer.h"
#include "lower/lower.h"

#define RIG_VALUES 64u

struct rig {
    struct base_arena arena;
    struct eng_program program;
    struct eng_value values[RIG_VALUES];
    struct eng_graph graph;
    struct eng_lower_options options;
    struct eng_lower *lower;
    struct base_error error;
    uint32_t runs; // programs run for lowering
};

// Runs every command of a program; data[] holds INPUT and PARAM tensors already.
static inline enum base_status rig_execute(const struct eng_program *program, void **data,
                                           struct base_arena *arena, struct base_error *error)
{
    struct eng_prepare prepare = {.arena = arena, .error = error};
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        const struct eng_tensor *tensor = &program->tensors[i];
        if (tensor->kind == ENG_CONST) {
            memcpy(&data[i], &tensor->data, sizeof(data[i]));
        } else if (tensor->kind == ENG_TEMP && tensor->alias == ENG_NONE) {
            data[i] = base_arena_alloc(arena, eng_desc_bytes(&tensor->desc) + 1);
            assert_non_null(data[i]);
            memset(data[i], 0x5a, eng_desc_bytes(&tensor->desc));
        }
    }
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        uint32_t alias = program->tensors[i].alias;
        if (alias != ENG_NONE) {
            assert_int_equal(program->tensors[alias].alias, ENG_NONE);
            data[i] = data[alias];
        }
    }
    for (uint32_t i = 0; i < program->command_count; i++) {
        struct eng_step step = {0};
        BASE_TRY(eng_ref_prepare(&prepare, program, &program->commands[i], &step));
        void *scratch = base_arena_alloc(arena, step.scratch_bytes + 64);
        assert_non_null(scratch);
        scratch = (void *)(((uintptr_t)scratch + 63) / 64 * 64);
        const struct eng_run run = {.data = data, .scratch = scratch, .error = error};
        BASE_TRY(step.run(&step, &run));
    }
    return BASE_OK;
}

static inline enum base_status rig_runner(void *ctx, struct eng_program *program,
                                          const struct eng_contents *wanted,
                                          struct base_error *error)
{
    struct rig *rig = ctx;
    rig->runs++;
    void **data = base_arena_zalloc(wanted->arena, (program->tensor_count + 1) * sizeof(void *));
    assert_non_null(data);
    BASE_TRY(eng_program_validate(program, error));
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        assert_true(program->tensors[i].kind == ENG_CONST || program->tensors[i].kind == ENG_TEMP);
    }
    BASE_TRY(rig_execute(program, data, wanted->arena, error));
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint32_t tensor = wanted->tensors[i];
        wanted->arrays[i] = (struct eng_array){program->tensors[tensor].desc, data[tensor]};
    }
    return BASE_OK;
}

static inline void rig_restart(struct rig *rig)
{
    eng_program_init(&rig->program, &rig->arena);
    rig->lower = eng_lower_new(&rig->arena, &rig->program, &rig->graph, &rig->options, &rig->error);
    assert_non_null(rig->lower);
}

static inline void rig_init(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    base_arena_init(&rig->arena, base_alloc_heap(), 1 << 16, 0);
    for (uint32_t i = 0; i < RIG_VALUES; i++) {
        rig->values[i] = (struct eng_value){.name = "value", .producer = ENG_NONE};
    }
    rig->graph =
        (struct eng_graph){.name = "rig", .values = rig->values, .value_count = RIG_VALUES};
    rig->options = (struct eng_lower_options){.runner_ctx = rig, .run_program = rig_runner};
    rig_restart(rig);
}

static inline void rig_done(struct rig *rig)
{
    base_arena_done(&rig->arena);
}

#define rig_ok(rig, expression)                                                                    \
    do {                                                                                           \
        enum base_status rig_status_ = (expression);                                               \
        if (rig_status_ != BASE_OK) {                                                              \
            fail_msg("%s: %s: %s", #expression, base_status_name(rig_status_), (rig)->error.text); \
        }                                                                                          \
    } while (0)

static inline struct eng_desc rig_desc(enum eng_dtype dtype, uint32_t rank, const int64_t *dims)
{
    struct eng_desc desc = {.dtype = dtype, .rank = rank};
    memcpy(desc.dims, dims, rank * sizeof(int64_t));
    return desc;
}

static inline uint32_t rig_input(struct rig *rig, uint32_t value, enum eng_dtype dtype,
                                 uint32_t rank, const int64_t *dims)
{
    const struct eng_desc desc = rig_desc(dtype, rank, dims);
    uint32_t tensor;
    rig_ok(rig, eng_lower_bind(rig->lower, value, &desc, ENG_PLAIN, NULL, &tensor));
    return tensor;
}

// Number of commands of a kind.
static inline uint32_t rig_count(const struct rig *rig, enum eng_atomic op)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->program.command_count; i++) {
        count += rig->program.commands[i].op == op;
    }
    return count;
}

static inline void rig_print(const struct rig *rig)
{
    struct base_buffer text;
    base_buffer_init(&text, base_alloc_heap(), 0);
    if (eng_program_dump(&rig->program, &text) == BASE_OK && text.size > 0) {
        printf("%s", (const char *)text.data);
    }
    base_buffer_done(&text);
}

#endif
