// The limits of one run, and what its commands cost. Called by the run loop (session/exec.c), by
// folding (fold.c), by planning (segment_run.c) and by the one kernel that may take long by itself
// (ref_vision.c), on the session's thread. Work is counted from shapes, not from time: elements
// touched or multiplied, which is what a script's budget is charged, however busy the machine. Sums
// saturate. The flag that stops a run may be set by any thread.
#include "backend/run_watch.h"

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "model/graph.h"

#include <stdatomic.h>

enum base_status eng_watch_look(const struct eng_watch *watch, struct base_error *error)
{
    if (watch == NULL) {
        return BASE_OK;
    }
    if (watch->stop != NULL && atomic_load_explicit(watch->stop, memory_order_relaxed)) {
        return base_error_set(error, BASE_ERR_TIMEOUT, "the run was stopped");
    }
    if (watch->deadline_us != 0 && base_clock_mono_us() >= watch->deadline_us) {
        return base_error_set(error, BASE_ERR_TIMEOUT, "the deadline passed");
    }
    return BASE_OK;
}

enum base_status eng_watch_spend(struct eng_watch *watch, uint64_t work, struct base_error *error)
{
    if (watch == NULL) {
        return BASE_OK;
    }
    BASE_TRY(eng_watch_look(watch, error));
    const uint64_t most = watch->work_max != 0 ? watch->work_max : UINT64_MAX;
    if (watch->work > most || work > most - watch->work) {
        return base_error_set(error, BASE_ERR_TIMEOUT, "more than the %llu units of work allowed",
                              (unsigned long long)watch->work_max);
    }
    watch->work += work;
    return BASE_OK;
}

// --- work ----------------------------------------------------------------------------------------

static uint64_t product(uint64_t left, uint64_t right)
{
    uint64_t result = 0;
    return __builtin_mul_overflow(left, right, &result) ? UINT64_MAX : result;
}

static uint64_t elements(const struct eng_program *program, uint32_t tensor)
{
    return tensor != ENG_NONE ? (uint64_t)eng_desc_count(&program->tensors[tensor].desc) : 0;
}

static uint64_t box_work(const struct eng_box *box)
{
    uint64_t work = 1;
    for (uint32_t d = 0; d < box->rank; d++) {
        work = product(work, (uint64_t)box->size[d]);
    }
    return work;
}

// Of one channel of the result: the weights it is made with.
static uint64_t weights_of_channel(const struct eng_program *program, uint32_t weights)
{
    const struct eng_desc *desc = &program->tensors[weights].desc;
    uint64_t channels = desc->rank > 0 && desc->dims[0] > 0 ? (uint64_t)desc->dims[0] : 1;
    return elements(program, weights) / channels;
}

static uint64_t conv_work(const struct eng_program *program, const struct eng_command *conv)
{
    return product(elements(program, conv->outputs[0]),
                   weights_of_channel(program, conv->inputs[1]));
}

// What its convolutions would cost one after the other.
static uint64_t chain_work(const struct eng_program *program, const struct eng_conv_chain *chain)
{
    uint64_t work = 0;
    for (uint32_t i = 0; i < chain->count; i++) {
        work = base_sat_add_u64(work, conv_work(program, &chain->convs[i]));
    }
    return work;
}

static uint64_t all_elements(const struct eng_program *program, const struct eng_command *command)
{
    uint64_t work = 0;
    for (uint32_t i = 0; i < command->input_count; i++) {
        work = base_sat_add_u64(work, elements(program, command->inputs[i]));
    }
    for (uint32_t i = 0; i < command->output_count; i++) {
        work = base_sat_add_u64(work, elements(program, command->outputs[i]));
    }
    return work;
}

static uint64_t raster_work(const struct eng_command *command)
{
    uint64_t work = 0;
    for (uint32_t r = 0; r < command->u.raster.count; r++) {
        const struct eng_region *region = &command->u.raster.regions[r];
        uint64_t moved = 2;
        for (uint32_t d = 0; d < region->rank; d++) {
            moved = product(moved, (uint64_t)region->size[d]);
        }
        work = base_sat_add_u64(work, moved);
    }
    return work;
}

static uint64_t pool_work(const struct eng_program *program, const struct eng_command *command)
{
    uint64_t window = 1;
    for (uint32_t d = 0; d < command->u.pool.spatial; d++) {
        window = product(window, (uint64_t)command->u.pool.kernel[d]);
    }
    return product(elements(program, command->outputs[0]), base_sat_add_u64(window, 1));
}

static uint64_t work_of(const struct eng_program *program, const struct eng_command *command)
{
    switch (command->op) {
    case ENG_OP_MATMUL:
        return box_work(&command->box);
    case ENG_OP_CONV:
        return conv_work(program, command);
    case ENG_OP_CONV_CHAIN:
        return chain_work(program, command->u.chain);
    case ENG_OP_CONV_TRANSPOSE: // each element of the input meets its channel's weights
        return product(elements(program, command->inputs[0]),
                       weights_of_channel(program, command->inputs[1]));
    case ENG_OP_CONV_GRAD_INPUT:
        return product(elements(program, command->inputs[0]),
                       weights_of_channel(program, command->inputs[1]));
    case ENG_OP_CONV_GRAD_WEIGHT:
        return product(elements(program, command->inputs[1]),
                       weights_of_channel(program, command->outputs[0]));
    case ENG_OP_ATTENTION: { // the box is B, H, S, T, D, E
        const int64_t *size = command->box.size;
        base_assert(command->box.rank == 6);
        uint64_t pairs = product(product((uint64_t)size[0], (uint64_t)size[1]),
                                 product((uint64_t)size[2], (uint64_t)size[3]));
        return product(pairs, base_sat_add_u64((uint64_t)size[4], (uint64_t)size[5]));
    }
    case ENG_OP_RASTER:
        return raster_work(command);
    case ENG_OP_POOL:
        return pool_work(program, command);
    case ENG_OP_EXPR:
        return product(base_sat_add_u64(command->u.expr->op_count, command->u.expr->load_count),
                       elements(program, command->outputs[0]));
    default:
        return all_elements(program, command);
    }
}

uint64_t eng_command_work(const struct eng_program *program, const struct eng_command *command)
{
    uint64_t work = work_of(program, command);
    return work > 0 ? work : 1;
}
