// Prepares a candidate for a command in memory of its own, runs it on made-up operands and takes
// its time. Called by the search through conv_search.c and gemm_choose.c, on the planning thread;
// the steps measured run on the session's pool.
#include "backend/cpu/gemm/step_trial.h"

#include "backend/pack.h"
#include "base/alloc.h"
#include "base/carve.h"
#include "base/check.h"
#include "base/clock.h"
#include "model/graph.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_CHUNK_BYTES (1u << 20)
#define ALIGNMENT         64u
#define MEASURE_RUNS      3     // the best counts
#define MEASURE_US_MIN    100u  // short ones are repeated until one figure covers this much
#define MEASURE_US_MAX    3000u // of one candidate, once it has a figure
#define MEASURE_REPEATS   64u
#define SAMPLE_VALUE      0.01F // no denormals, no infinities

static bool is_borrowed(const struct eng_trial *trial, uint32_t tensor)
{
    return tensor == trial->command->inputs[1] && trial->program->tensors[tensor].kind == ENG_CONST;
}

static size_t operand_bytes(const struct eng_trial *trial, uint32_t tensor)
{
    const size_t bytes = eng_desc_bytes(&trial->program->tensors[tensor].desc);
    return (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
}

// An operand a run reads or writes, as a buffer of its own; constant weights, which are packed or
// only read, stay where they are.
static enum base_status place_operand(struct eng_trial *trial, uint32_t tensor)
{
    const struct eng_tensor *t = tensor != ENG_NONE ? &trial->program->tensors[tensor] : NULL;
    if (t == NULL || trial->data[tensor] != NULL) {
        return BASE_OK;
    }
    if (is_borrowed(trial, tensor)) {
        trial->data[tensor] = (void *)(uintptr_t)t->data;
        return BASE_OK;
    }
    const size_t bytes = operand_bytes(trial, tensor);
    base_assert(bytes >= eng_desc_bytes(&t->desc));
    base_assert(bytes % ALIGNMENT == 0);
    float *buffer = aligned_alloc(ALIGNMENT, bytes);
    if (buffer == NULL) {
        return BASE_ERR_NOMEM;
    }
    trial->data[tensor] = buffer;
    if (t->kind == ENG_CONST) {
        memcpy(buffer, t->data, eng_desc_bytes(&t->desc));
        return BASE_OK;
    }
    for (size_t i = 0; i < bytes / sizeof *buffer; i++) {
        buffer[i] = SAMPLE_VALUE;
    }
    return BASE_OK;
}

static bool is_too_large(const struct eng_trial *trial)
{
    const struct eng_command *command = trial->command;
    size_t total = operand_bytes(trial, command->outputs[0]);
    for (uint32_t i = 0; i < command->input_count; i++) {
        const uint32_t tensor = command->inputs[i];
        if (tensor != ENG_NONE && !is_borrowed(trial, tensor)) {
            total += operand_bytes(trial, tensor);
        }
        if (total > ENG_TRIAL_BYTES_MAX) {
            return true;
        }
    }
    return false;
}

static enum base_status place_operands(struct eng_trial *trial)
{
    const struct eng_command *command = trial->command;
    if (trial->data != NULL) {
        return BASE_OK;
    }
    if (is_too_large(trial)) {
        return BASE_ERR_UNSUPPORTED;
    }
    trial->data = calloc(trial->program->tensor_count, sizeof *trial->data);
    if (trial->data == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(eng_pack_cache_new(&trial->packs));
    for (uint32_t i = 0; i < command->input_count; i++) {
        BASE_TRY(place_operand(trial, command->inputs[i]));
    }
    return place_operand(trial, command->outputs[0]);
}

static void free_operand(struct eng_trial *trial, uint32_t tensor)
{
    if (tensor != ENG_NONE && !is_borrowed(trial, tensor)) {
        free(trial->data[tensor]);
    }
    if (tensor != ENG_NONE) {
        trial->data[tensor] = NULL;
    }
}

void eng_trial_done(struct eng_trial *trial)
{
    const struct eng_command *command = trial->command;
    for (uint32_t i = 0; trial->data != NULL && i < command->input_count; i++) {
        free_operand(trial, command->inputs[i]);
    }
    if (trial->data != NULL) {
        free_operand(trial, command->outputs[0]);
    }
    free(trial->data);
    trial->data = NULL;
    eng_pack_cache_free(trial->packs);
    trial->packs = NULL;
}

// One figure: `repeats` runs, each of them followed by a look at the clock.
static enum base_status time_once(const struct eng_step *step, const struct eng_run *run,
                                  uint32_t repeats, uint64_t deadline_us, double *out_us)
{
    base_assert(repeats > 0 && repeats <= MEASURE_REPEATS);
    const uint64_t begin = base_clock_mono_us();
    for (uint32_t r = 0; r < repeats; r++) {
        BASE_TRY(eng_step_run(step, run));
        if (r + 1 < repeats && base_clock_mono_us() >= deadline_us) {
            return BASE_ERR_TIMEOUT;
        }
    }
    *out_us = (double)(base_clock_mono_us() - begin) / repeats;
    return BASE_OK;
}

// Best of a few figures of a prepared step; the first run warms up, and says how often to repeat.
static enum base_status time_step(const struct eng_step *step, const struct eng_run *run,
                                  uint64_t deadline_us, double *out_us)
{
    _Static_assert((MEASURE_REPEATS & (MEASURE_REPEATS - 1)) == 0, "doubling ends there");
    double us = 0;
    double best = 0;
    uint32_t repeats = 1;
    BASE_TRY(time_once(step, run, 1, deadline_us, &us));
    while (us * repeats < MEASURE_US_MIN && repeats < MEASURE_REPEATS) {
        repeats *= 2;
    }
    const uint64_t begin = base_clock_mono_us();
    for (int i = 0; i < MEASURE_RUNS; i++) {
        const uint64_t now = base_clock_mono_us();
        if (now >= deadline_us || (i > 0 && now - begin >= MEASURE_US_MAX)) {
            break;
        }
        if (time_once(step, run, repeats, deadline_us, &us) != BASE_OK) {
            break;
        }
        best = best <= 0 || us < best ? us : best;
    }
    *out_us = best;
    return best > 0 ? BASE_OK : BASE_ERR_TIMEOUT;
}

static enum base_status measure_in(struct eng_trial *trial, const struct eng_prepare *prepare,
                                   const struct eng_candidate *candidate, uint64_t deadline_us,
                                   double *out_us)
{
    struct eng_step step = {.program = trial->program, .command = trial->command};
    BASE_TRY(trial->prepare(trial, prepare, candidate, &step));
    step.program = trial->program;
    step.command = trial->command;
    void *scratch = NULL;
    if (step.scratch_bytes > 0) {
        scratch = aligned_alloc(ALIGNMENT, base_aligned(step.scratch_bytes, ALIGNMENT));
        if (scratch == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    const struct eng_run run = {.data = trial->data, .pool = trial->ctx->pool, .scratch = scratch};
    enum base_status status = base_clock_mono_us() < deadline_us
                                  ? time_step(&step, &run, deadline_us, out_us)
                                  : BASE_ERR_TIMEOUT;
    free(scratch);
    return status;
}

enum base_status eng_trial_measure(void *ctx, const struct eng_candidate *candidate,
                                   uint64_t deadline_us, double *out_us)
{
    struct eng_trial *trial = ctx;
    base_assert((trial->data == NULL) == (trial->packs == NULL));
    // A warm-up and one run must fit: half a candidate tells nothing.
    if ((double)base_clock_mono_us() + 2 * candidate->cost_us > (double)deadline_us) {
        return BASE_ERR_TIMEOUT;
    }
    BASE_TRY(place_operands(trial));
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), ARENA_CHUNK_BYTES, 0);
    struct eng_prepare prepare = *trial->ctx;
    prepare.arena = &arena;
    prepare.packs = trial->packs;
    prepare.model = NULL;
    enum base_status status = measure_in(trial, &prepare, candidate, deadline_us, out_us);
    base_arena_done(&arena);
    return status;
}
