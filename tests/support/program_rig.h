// Programs written by hand and run on the reference backend, for the tests of the passes: a build
// function is called twice, one program is optimised, and both must give the same numbers.
#ifndef PROGRAM_RIG_H
#define PROGRAM_RIG_H

#include "test_kit.h"

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/buffer.h"
#include "model/graph.h"
#include "program/box_view.h"
#include "program/fuse.h"

#include <math.h>

#define PR_DIMS(...)                                                                               \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), ((const int64_t[]){__VA_ARGS__})
#define PR_TENSORS_MAX 512u

struct program_rig {
    struct base_arena arena;
    struct eng_program program;
    uint32_t outputs[4];
    uint32_t output_count;
    void *data[PR_TENSORS_MAX];
};

static inline void pr_init(struct program_rig *rig)
{
    *rig = (struct program_rig){0};
    base_arena_init(&rig->arena, base_alloc_heap(), 0, 0);
    eng_program_init(&rig->program, &rig->arena);
}

static inline void pr_done(struct program_rig *rig)
{
    base_arena_done(&rig->arena);
}

static inline uint32_t pr_tensor(struct program_rig *rig, enum eng_tensor_kind kind,
                                 enum eng_layout layout, uint32_t rank, const int64_t *dims)
{
    struct eng_desc desc = {.dtype = ENG_F32, .rank = rank};
    uint32_t out;
    memcpy(desc.dims, dims, rank * sizeof(int64_t));
    assert_int_equal(eng_program_tensor(&rig->program, kind, layout, &desc, &out), BASE_OK);
    assert_in_range(out, 0, PR_TENSORS_MAX - 1);
    return out;
}

static inline uint32_t pr_input(struct program_rig *rig, uint32_t rank, const int64_t *dims)
{
    return pr_tensor(rig, ENG_INPUT, ENG_PLAIN, rank, dims);
}

// A constant of pseudo-random numbers in (0.5, 1.5) that depend on its number alone.
static inline uint32_t pr_const(struct program_rig *rig, uint32_t rank, const int64_t *dims)
{
    uint32_t tensor = pr_tensor(rig, ENG_CONST, ENG_PLAIN, rank, dims);
    int64_t count = eng_desc_count(&rig->program.tensors[tensor].desc);
    float *data = base_arena_alloc(&rig->arena, (size_t)count * sizeof(float) + 4);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        data[i] = 0.5F + (float)(base_mix64((uint64_t)i * 977 + tensor) >> 40) / (float)(1 << 24);
    }
    rig->program.tensors[tensor].data = data;
    return tensor;
}

static inline uint32_t pr_scalar(struct program_rig *rig, float value)
{
    uint32_t tensor = pr_const(rig, PR_DIMS(1));
    float *data = base_arena_copy(&rig->arena, &value, sizeof(value));
    assert_non_null(data);
    rig->program.tensors[tensor].data = data;
    return tensor;
}

static inline struct eng_command *pr_command(struct program_rig *rig, enum eng_atomic op,
                                             uint32_t count, const uint32_t *inputs,
                                             uint32_t output)
{
    struct eng_command *command;
    assert_int_equal(eng_program_command(&rig->program, op, count, 1, &command), BASE_OK);
    memcpy(command->inputs, inputs, count * sizeof(uint32_t));
    command->outputs[0] = output;
    return command;
}

static inline const struct eng_desc *pr_desc(const struct program_rig *rig, uint32_t tensor)
{
    return &rig->program.tensors[tensor].desc;
}

static inline uint32_t pr_like(struct program_rig *rig, uint32_t tensor)
{
    struct eng_tensor like = rig->program.tensors[tensor];
    return pr_tensor(rig, ENG_TEMP, like.layout, like.desc.rank, like.desc.dims);
}

static inline uint32_t pr_alias(struct program_rig *rig, uint32_t of, uint32_t rank,
                                const int64_t *dims)
{
    uint32_t tensor = pr_tensor(rig, ENG_TEMP, ENG_PLAIN, rank, dims);
    rig->program.tensors[tensor].alias = of;
    return tensor;
}

static inline uint32_t pr_unary(struct program_rig *rig, enum eng_unary_fn fn, uint32_t x)
{
    uint32_t y = pr_like(rig, x);
    struct eng_command *command = pr_command(rig, ENG_OP_UNARY, 1, &x, y);
    command->u.unary = (struct eng_unary){.fn = fn, .alpha = 0.1F, .beta = 0.9F};
    return y;
}

// Numpy broadcasting of PLAIN tensors; a CHANNELS_LAST one only with its like or a scalar or, as
// [channels], with its last physical dim.
static inline uint32_t pr_binary(struct program_rig *rig, enum eng_binary_fn fn, uint32_t a,
                                 uint32_t b)
{
    const uint32_t inputs[2] = {a, b};
    uint32_t big = eng_desc_count(pr_desc(rig, a)) >= eng_desc_count(pr_desc(rig, b)) ? a : b;
    struct eng_tensor like = rig->program.tensors[big];
    int64_t dims[ENG_RANK_MAX] = {0};
    uint32_t rank = 0;
    for (uint32_t i = 0; i < 2; i++) {
        rank = pr_desc(rig, inputs[i])->rank > rank ? pr_desc(rig, inputs[i])->rank : rank;
    }
    if (like.layout == ENG_CHANNELS_LAST) {
        rank = like.desc.rank;
        dims[0] = like.desc.dims[0];
        for (uint32_t d = 2; d < rank; d++) {
            dims[d - 1] = like.desc.dims[d];
        }
        dims[rank - 1] = like.desc.dims[1];
    } else {
        for (uint32_t i = 0; i < 2; i++) {
            const struct eng_desc *desc = pr_desc(rig, inputs[i]);
            for (uint32_t d = 0; d < desc->rank; d++) {
                int64_t *dim = &dims[rank - desc->rank + d];
                *dim = desc->dims[d] > *dim ? desc->dims[d] : *dim;
            }
        }
    }
    uint32_t y = like.layout == ENG_CHANNELS_LAST ? pr_like(rig, big)
                                                  : pr_tensor(rig, ENG_TEMP, ENG_PLAIN, rank, dims);
    struct eng_command *command = pr_command(rig, ENG_OP_BINARY, 2, inputs, y);
    command->u.binary.fn = fn;
    command->box.rank = rank;
    memcpy(command->box.size, dims, sizeof(dims));
    for (uint32_t i = 0; i < 2; i++) {
        const struct eng_tensor *t = &rig->program.tensors[inputs[i]];
        int64_t step = 1, sizes[ENG_RANK_MAX];
        uint32_t own = t->desc.rank;
        memcpy(sizes, t->desc.dims, sizeof(sizes));
        if (t->layout == ENG_CHANNELS_LAST) {
            memcpy(sizes, dims, sizeof(sizes));
        }
        for (uint32_t d = own; d > 0; d--) {
            command->views[i].stride[rank - own + d - 1] = sizes[d - 1] == 1 ? 0 : step;
            step *= sizes[d - 1];
        }
    }
    eng_box_collapse(&command->box, command->views, 2);
    return y;
}

// [..., m, k] x [k, n] (one matrix for the whole batch) or [..., k, n].
static inline uint32_t pr_matmul(struct program_rig *rig, uint32_t a, uint32_t b)
{
    const uint32_t inputs[2] = {a, b};
    struct eng_desc x = *pr_desc(rig, a), w = *pr_desc(rig, b), out = x;
    out.dims[x.rank - 1] = w.dims[w.rank - 1];
    uint32_t y = pr_tensor(rig, ENG_TEMP, ENG_PLAIN, out.rank, out.dims);
    struct eng_command *command = pr_command(rig, ENG_OP_MATMUL, 2, inputs, y);
    uint32_t batch = x.rank - 2;
    int64_t m = x.dims[batch], k = x.dims[batch + 1], n = w.dims[w.rank - 1];
    command->u.matmul = (struct eng_matmul){
        .batch_rank = batch, .alpha = 1, .epilogue = {.bias = ENG_NONE, .residual = ENG_NONE}};
    command->box.rank = x.rank + 1;
    int64_t step_a = m * k, step_b = k * n;
    for (uint32_t d = batch; d > 0; d--) {
        command->box.size[d - 1] = x.dims[d - 1];
        command->views[0].stride[d - 1] = step_a;
        command->views[1].stride[d - 1] = w.rank > 2 ? step_b : 0;
        step_a *= x.dims[d - 1];
        step_b *= x.dims[d - 1];
    }
    const int64_t sizes[3] = {m, n, k}, of_a[3] = {k, 0, 1}, of_b[3] = {0, 1, n};
    memcpy(&command->box.size[batch], sizes, sizeof(sizes));
    memcpy(&command->views[0].stride[batch], of_a, sizeof(of_a));
    memcpy(&command->views[1].stride[batch], of_b, sizeof(of_b));
    return y;
}

// Over the last dim of a PLAIN tensor, which stays as 1.
static inline uint32_t pr_mean(struct program_rig *rig, uint32_t x)
{
    struct eng_desc desc = *pr_desc(rig, x);
    int64_t n = desc.dims[desc.rank - 1], count = eng_desc_count(&desc);
    desc.dims[desc.rank - 1] = 1;
    uint32_t y = pr_tensor(rig, ENG_TEMP, ENG_PLAIN, desc.rank, desc.dims);
    struct eng_command *command = pr_command(rig, ENG_OP_REDUCE, 1, &x, y);
    command->u.reduce = (struct eng_reduce){ENG_REDUCE_MEAN, count / n, n, 1};
    return y;
}

static inline uint32_t pr_softmax(struct program_rig *rig, uint32_t x)
{
    uint32_t y = pr_like(rig, x);
    const struct eng_desc *desc = pr_desc(rig, x);
    int64_t n = desc->dims[desc->rank - 1];
    struct eng_command *command = pr_command(rig, ENG_OP_SOFTMAX, 1, &x, y);
    command->u.softmax =
        (struct eng_softmax){.outer = eng_desc_count(desc) / n, .n = n, .inner = 1};
    return y;
}

static inline void pr_output(struct program_rig *rig, uint32_t tensor)
{
    rig->program.tensors[tensor].is_output = true;
    rig->outputs[rig->output_count++] = tensor;
}

// Inputs get numbers in (-2, 2) that depend on the tensor's number alone.
static inline void pr_fill(struct program_rig *rig, uint32_t tensor)
{
    int64_t count = eng_desc_count(pr_desc(rig, tensor));
    float *data = base_arena_alloc(&rig->arena, (size_t)count * sizeof(float) + 4);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = base_mix64(((uint64_t)tensor << 32) + (uint64_t)i) >> 40;
        data[i] = -2 + 4 * (float)bits / (float)(1 << 24);
    }
    rig->data[tensor] = data;
}

static inline void pr_place(struct program_rig *rig)
{
    for (uint32_t t = 0; t < rig->program.tensor_count; t++) {
        struct eng_tensor *tensor = &rig->program.tensors[t];
        if (tensor->kind == ENG_CONST) {
            memcpy(&rig->data[t], &tensor->data, sizeof(void *));
        } else if (tensor->kind == ENG_INPUT) {
            pr_fill(rig, t);
        } else if (tensor->alias == ENG_NONE) {
            size_t bytes = eng_desc_bytes(&tensor->desc);
            rig->data[t] = base_arena_alloc(&rig->arena, bytes + 4);
            assert_non_null(rig->data[t]);
            memset(rig->data[t], 0x5a, bytes);
        }
    }
    for (uint32_t t = 0; t < rig->program.tensor_count; t++) {
        uint32_t alias = rig->program.tensors[t].alias;
        rig->data[t] = alias == ENG_NONE ? rig->data[t] : rig->data[alias];
    }
}

static inline void pr_run(struct program_rig *rig)
{
    struct base_error error = {0};
    if (eng_program_validate(&rig->program, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    struct eng_prepare prepare = {.arena = &rig->arena, .error = &error};
    for (uint32_t c = 0; c < rig->program.command_count; c++) {
        struct eng_step step = {0};
        struct eng_command *command = &rig->program.commands[c];
        if (eng_ref_prepare(&prepare, &rig->program, command, &step) != BASE_OK) {
            fail_msg("%s", error.text);
        }
        step.program = &rig->program;
        step.command = command;
        void *scratch = aligned_alloc(64, (step.scratch_bytes + 127) / 64 * 64);
        assert_non_null(scratch);
        const struct eng_run run = {.data = rig->data, .scratch = scratch, .error = &error};
        assert_int_equal(step.run(&step, &run), BASE_OK);
        free(scratch);
    }
}

static inline uint32_t pr_count_op(const struct program_rig *rig, enum eng_atomic op)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < rig->program.command_count; c++) {
        count += rig->program.commands[c].op == op ? 1 : 0;
    }
    return count;
}

static inline void pr_dump(const struct program_rig *rig)
{
    struct base_buffer text;
    base_buffer_init(&text, base_alloc_heap(), 0);
    if (eng_program_dump(&rig->program, &text) == BASE_OK && text.data != NULL) {
        print_message("%s", (const char *)text.data);
    }
    base_buffer_done(&text);
}

typedef void (*pr_build_fn)(struct program_rig *rig);

// Builds twice, optimises `rig`, runs both and compares all outputs. pr_done(rig) afterwards.
static inline void pr_check(struct program_rig *rig, pr_build_fn build)
{
    struct program_rig plain;
    pr_init(&plain);
    pr_init(rig);
    build(&plain);
    build(rig);
    assert_int_equal(eng_program_optimise(&rig->program, NULL, NULL), BASE_OK);
    pr_place(&plain);
    pr_place(rig);
    pr_run(&plain);
    pr_run(rig);
    for (uint32_t i = 0; i < plain.output_count; i++) {
        const float *a = plain.data[plain.outputs[i]], *b = rig->data[rig->outputs[i]];
        for (int64_t e = 0; e < eng_desc_count(pr_desc(&plain, plain.outputs[i])); e++) {
            if (!(fabsf(a[e] - b[e]) <= 2e-5F * (1 + fabsf(a[e])))) {
                pr_dump(rig);
                fail_msg("output %u, element %lld: %g, not %g", i, (long long)e, (double)b[e],
                         (double)a[e]);
            }
        }
    }
    pr_done(&plain);
}

#endif
