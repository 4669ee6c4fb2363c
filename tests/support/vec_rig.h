// One command on the fast backend against the reference backend: every instruction set this
// processor has, with one thread and with several.
#ifndef VEC_RIG_H
#define VEC_RIG_H

#include "ref_rig.h"

#include "backend/cpu/kernel/isa.h"

#define VEC_THREADS 3

static inline float *vec_floats(struct base_prng *prng, int64_t count, float scale)
{
    float *data = malloc((size_t)(count > 0 ? count : 1) * sizeof(float));
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        data[i] = scale * (float)(2 * base_prng_unit(prng) - 1);
    }
    return data;
}

// A float tensor of random numbers.
static inline uint32_t vec_random(struct ref_rig *rig, struct base_prng *prng,
                                  enum eng_layout layout, uint32_t rank, const int64_t *dims,
                                  float scale)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < rank; d++) {
        count *= dims[d];
    }
    float *data = vec_floats(prng, count, scale);
    uint32_t tensor = rig_tensor(rig, layout, ENG_F32, rank, dims, data);
    free(data);
    return tensor;
}

static inline void vec_compare_output(const struct eng_desc *desc, const void *found,
                                      const void *expected, float tolerance, const char *what)
{
    int64_t count = eng_desc_count(desc);
    if (desc->dtype != ENG_F32) {
        size_t size = eng_dtype_bytes(desc->dtype);
        for (int64_t i = 0; i < count; i++) {
            if (memcmp((const uint8_t *)found + (size_t)i * size,
                       (const uint8_t *)expected + (size_t)i * size, size) != 0) {
                fail_msg("%s: element %lld of %lld differs", what, (long long)i, (long long)count);
            }
        }
        return;
    }
    const float *f = found;
    const float *e = expected;
    for (int64_t i = 0; i < count; i++) {
        bool same = f[i] == e[i] || (isnan(f[i]) && isnan(e[i])) ||
                    fabsf(f[i] - e[i]) <= tolerance * (1.0f + fabsf(e[i]));
        if (!same) {
            fail_msg("%s: element %lld of %lld: found %.9g, expected %.9g", what, (long long)i,
                     (long long)count, (double)f[i], (double)e[i]);
        }
    }
}

static inline enum base_status vec_run(struct ref_rig *rig, const struct eng_command *command,
                                       const char *isa, struct eng_pool *pool, bool *out_taken)
{
    struct eng_prepare prepare = {
        .arena = &rig->arena, .error = &rig->error, .pool = pool, .kernels = eng_kernels_find(isa)};
    struct eng_step step = {0};
    enum base_status status = eng_cpu_prepare(&prepare, &rig->program, command, &step);
    *out_taken = status != BASE_ERR_UNSUPPORTED;
    if (status != BASE_OK) {
        return status;
    }
    assert_non_null(step.kernel);
    void *scratch = NULL;
    assert_int_equal(posix_memalign(&scratch, 64, step.scratch_bytes + 1), 0);
    struct eng_run run = {
        .data = rig->data, .pool = pool, .scratch = scratch, .error = &rig->error};
    status = step.run(&step, &run);
    free(scratch);
    return status;
}

// Preparing with every allocation failing in turn gives NOMEM, then succeeds.
static inline void vec_check_memory(struct ref_rig *rig, const struct eng_command *command)
{
    enum base_status status = BASE_ERR_NOMEM;
    for (size_t allowed = 0; status != BASE_OK; allowed++) {
        struct test_alloc alloc;
        struct base_arena arena;
        struct eng_step step = {0};
        assert_true(allowed < 50);
        test_alloc_init(&alloc, allowed);
        base_arena_init(&arena, &alloc.port, 1, 0); // every piece is an allocation of its own
        struct eng_prepare prepare = {.arena = &arena, .kernels = eng_kernels_find(NULL)};
        status = eng_cpu_prepare(&prepare, &rig->program, command, &step);
        assert_true(status == BASE_OK || status == BASE_ERR_NOMEM);
        base_arena_done(&arena);
        assert_int_equal(alloc.live, 0);
    }
}

// Runs `command` everywhere and compares all outputs. False: the fast backend refuses it (with
// every instruction set).
static inline bool vec_check(struct ref_rig *rig, const struct eng_command *command,
                             float tolerance)
{
    static struct eng_pool *pool;
    void *expected[RIG_TENSORS_MAX] = {0};
    bool all_taken = true;
    bool any_taken = false;
    if (pool == NULL) {
        assert_int_equal(eng_pool_new(VEC_THREADS, &pool), BASE_OK);
    }
    enum base_status wanted = rig_run(rig, command);
    for (uint32_t i = 0; i < command->output_count; i++) {
        if (command->outputs[i] != ENG_NONE) {
            size_t bytes = eng_desc_bytes(&rig->program.tensors[command->outputs[i]].desc);
            expected[i] = malloc(bytes + 1);
            assert_non_null(expected[i]);
            memcpy(expected[i], rig->data[command->outputs[i]], bytes);
        }
    }
    for (int isa = 0; isa < 2 * ENG_ISA_COUNT; isa++) {
        const char *name = eng_isa_name((enum eng_isa)(isa / 2));
        if (!eng_isa_has((enum eng_isa)(isa / 2))) {
            continue;
        }
        for (uint32_t i = 0; i < command->output_count; i++) {
            if (command->outputs[i] != ENG_NONE) {
                memset(rig->data[command->outputs[i]], 0x5a,
                       eng_desc_bytes(&rig->program.tensors[command->outputs[i]].desc));
            }
        }
        bool taken = false;
        enum base_status status = vec_run(rig, command, name, isa % 2 == 0 ? NULL : pool, &taken);
        all_taken = all_taken && taken;
        any_taken = any_taken || taken;
        if (!taken) {
            continue;
        }
        assert_int_equal(status, wanted);
        for (uint32_t i = 0; i < command->output_count && status == BASE_OK; i++) {
            if (command->outputs[i] != ENG_NONE) {
                vec_compare_output(&rig->program.tensors[command->outputs[i]].desc,
                                   rig->data[command->outputs[i]], expected[i], tolerance, name);
            }
        }
    }
    for (uint32_t i = 0; i < command->output_count; i++) {
        free(expected[i]);
    }
    assert_int_equal(all_taken, any_taken);
    if (all_taken) {
        vec_check_memory(rig, command);
    }
    return all_taken;
}

#endif
