// One command at a time on the reference backend: tensors from literals, run, compare. Buffers have
// exactly the size of their tensors, so that a sanitizer sees the first element past the end.
#ifndef REF_RIG_H
#define REF_RIG_H

#include "test_kit.h"

#include "backend/backend.h"
#include "base/alloc.h"
#include "model/graph.h"

#include <math.h>

#define RIG_TENSORS_MAX 16

struct ref_rig {
    struct base_arena arena;
    struct eng_program program;
    void *data[RIG_TENSORS_MAX];
    struct base_error error;
    const struct eng_watch *watch;
};

#define DIMS(...)                                                                                  \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), ((const int64_t[]){__VA_ARGS__})
#define F32(...) ((const float[]){__VA_ARGS__})
#define I64(...) ((const int64_t[]){__VA_ARGS__})
#define I32(...) ((const int32_t[]){__VA_ARGS__})
#define U8(...)  ((const uint8_t[]){__VA_ARGS__})
#define IDS(...)                                                                                   \
    (uint32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / 4), ((const uint32_t[]){__VA_ARGS__})
#define NO_EPILOGUE ((struct eng_epilogue){.bias = ENG_NONE, .residual = ENG_NONE})

static inline void rig_init(struct ref_rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    base_arena_init(&rig->arena, base_alloc_heap(), 0, 0);
    eng_program_init(&rig->program, &rig->arena);
}

static inline void rig_done(struct ref_rig *rig)
{
    for (size_t i = 0; i < RIG_TENSORS_MAX; i++) {
        free(rig->data[i]);
    }
    base_arena_done(&rig->arena);
}

// A tensor with contents (NULL: 0x5a everywhere).
static inline uint32_t rig_tensor(struct ref_rig *rig, enum eng_layout layout, enum eng_dtype dtype,
                                  uint32_t rank, const int64_t *dims, const void *contents)
{
    struct eng_desc desc = {.dtype = dtype, .rank = rank};
    uint32_t number = 0;
    memcpy(desc.dims, dims, rank * sizeof(int64_t));
    assert_int_equal(eng_program_tensor(&rig->program, contents != NULL ? ENG_INPUT : ENG_TEMP,
                                        layout, &desc, &number),
                     BASE_OK);
    assert_true(number < RIG_TENSORS_MAX);
    size_t bytes = eng_desc_bytes(&desc);
    rig->data[number] = malloc(bytes == 0 ? 1 : bytes);
    assert_non_null(rig->data[number]);
    if (bytes > 0 && contents != NULL) {
        memcpy(rig->data[number], contents, bytes);
    } else if (bytes > 0) {
        memset(rig->data[number], 0x5a, bytes);
    }
    return number;
}

static inline uint32_t rig_in(struct ref_rig *rig, enum eng_dtype dtype, uint32_t rank,
                              const int64_t *dims, const void *contents)
{
    return rig_tensor(rig, ENG_PLAIN, dtype, rank, dims, contents);
}
static inline uint32_t rig_out(struct ref_rig *rig, enum eng_dtype dtype, uint32_t rank,
                               const int64_t *dims)
{
    return rig_tensor(rig, ENG_PLAIN, dtype, rank, dims, NULL);
}

static inline struct eng_command *rig_command(struct ref_rig *rig, enum eng_atomic op,
                                              uint32_t input_count, const uint32_t *inputs,
                                              uint32_t output_count, const uint32_t *outputs)
{
    struct eng_command *command = NULL;
    assert_int_equal(eng_program_command(&rig->program, op, input_count, output_count, &command),
                     BASE_OK);
    memcpy(command->inputs, inputs, input_count * sizeof(uint32_t));
    memcpy(command->outputs, outputs, output_count * sizeof(uint32_t));
    return command;
}

// A box over the output, and views that broadcast each input's dims against it (numpy's rule).
static inline void rig_broadcast(struct ref_rig *rig, struct eng_command *command)
{
    const struct eng_desc *out = &rig->program.tensors[command->outputs[0]].desc;
    command->box.rank = out->rank;
    memcpy(command->box.size, out->dims, sizeof(out->dims));
    for (uint32_t v = 0; v < command->input_count; v++) {
        const struct eng_desc *in = &rig->program.tensors[command->inputs[v]].desc;
        int64_t stride = 1;
        for (uint32_t d = in->rank; d-- > 0;) {
            uint32_t place = d + out->rank - in->rank;
            command->views[v].stride[place] = in->dims[d] == 1 ? 0 : stride;
            stride *= in->dims[d];
        }
    }
}

static inline enum base_status rig_run(struct ref_rig *rig, const struct eng_command *command)
{
    struct eng_prepare prepare = {.arena = &rig->arena, .error = &rig->error};
    struct eng_step step = {0};
    enum base_status status = eng_ref_prepare(&prepare, &rig->program, command, &step);
    if (status != BASE_OK) {
        return status;
    }
    struct eng_run run = {.data = rig->data,
                          .scratch = malloc(step.scratch_bytes == 0 ? 1 : step.scratch_bytes),
                          .watch = rig->watch,
                          .error = &rig->error};
    assert_non_null(run.scratch);
    status = step.run(&step, &run);
    free(run.scratch);
    return status;
}

static inline void rig_expect_f32(const struct ref_rig *rig, uint32_t tensor, const float *expected,
                                  size_t count, float tolerance)
{
    assert_int_equal(eng_desc_count(&rig->program.tensors[tensor].desc), count);
    const float *found = rig->data[tensor];
    for (size_t i = 0; i < count; i++) {
        bool is_same = (isnan(found[i]) && isnan(expected[i])) || found[i] == expected[i] ||
                       fabsf(found[i] - expected[i]) <= tolerance * (1 + fabsf(expected[i]));
        if (!is_same) {
            print_error("element %zu: found %.9g, expected %.9g\n", i, (double)found[i],
                        (double)expected[i]);
        }
        assert_true(is_same);
    }
}
#define EXPECT_F32(rig, tensor, ...)                                                               \
    rig_expect_f32((rig), (tensor), F32(__VA_ARGS__), sizeof(F32(__VA_ARGS__)) / sizeof(float),    \
                   1e-6F)

static inline void rig_expect_ints(const struct ref_rig *rig, uint32_t tensor,
                                   const int64_t *expected, size_t count)
{
    const struct eng_desc *desc = &rig->program.tensors[tensor].desc;
    assert_int_equal(eng_desc_count(desc), count);
    for (size_t i = 0; i < count; i++) {
        int64_t found = 0;
        const uint8_t *at = (const uint8_t *)rig->data[tensor] + i * eng_dtype_bytes(desc->dtype);
        bool is_signed = desc->dtype == ENG_I8 || desc->dtype == ENG_I16 || desc->dtype == ENG_I32;
        memcpy(&found, at, eng_dtype_bytes(desc->dtype));
        if (is_signed) {
            unsigned shift = 64 - 8 * (unsigned)eng_dtype_bytes(desc->dtype);
            found = (int64_t)((uint64_t)found << shift) >> shift;
        }
        if (found != expected[i]) {
            print_error("element %zu: found %lld, expected %lld\n", i, (long long)found,
                        (long long)expected[i]);
        }
        assert_true(found == expected[i]);
    }
}
#define EXPECT_INTS(rig, tensor, ...)                                                              \
    rig_expect_ints((rig), (tensor), I64(__VA_ARGS__), sizeof(I64(__VA_ARGS__)) / sizeof(int64_t))

static inline void rig_random_f32(struct base_prng *prng, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (float)(2 * base_prng_unit(prng) - 1);
    }
}

#endif
