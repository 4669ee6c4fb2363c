// Plans the copies of a program on a device, and runs it. A tensor is good on the host, on the
// device, or on both; a step needs its inputs good on its side, and leaves its outputs good on that
// side alone. Copies go by way of pinned memory, each by a place of its own. A plan without steps
// of the host is recorded in its second run and replayed from then on. Called by exec.c: planning
// on the planning thread, running on the session's; running allocates nothing but that recording.
// Aliases are followed to the tensor that owns the bytes.
#include "session/exec_device.h"

#include "backend/run_device.h"
#include "backend/device_weights.h"
#include "base/carve.h"
#include "base/check.h"
#include "base/clock.h"

#include <string.h>

#define ON_HOST   1u
#define ON_DEVICE 2u

// More than that is copied from where it lies.
#define STAGING_BYTES_MAX ((size_t)256 << 20)
#define STAGING_ALIGN     64u

struct copy {
    uint32_t tensor; // owns its bytes
    bool is_upload;
    size_t bytes, staged; // staged: offset in the pinned memory
};

struct eng_exec_device {
    struct eng_device *device;
    void **data; // by tensor, of the device
    void *buffer;
    void *scratch; // of one step at a time
    size_t bytes;  // of the buffer, the scratch and constants
    uint32_t left; // steps of the host
    struct copy *copies;
    uint32_t copy_count;
    uint32_t *before; // by step, one more for the end: copies [before[i], before[i + 1])
    void **constants; // of this plan alone
    uint32_t constant_count;
    uint8_t *staging; // pinned; NULL: too much
    bool is_known;    // it ran once: the backend has chosen and made what it needs
    bool is_refused;  // recording failed
    struct eng_recording *recording;
    uint64_t replays;
};

struct planning {
    struct eng_exec *exec;
    const struct eng_prepare *ctx;
    struct eng_exec_device *on;
    uint8_t *good; // by tensor
    uint32_t capacity;
};

static uint32_t owner_of(const struct eng_program *program, uint32_t tensor)
{
    const uint32_t alias = program->tensors[tensor].alias;
    base_assert(alias == ENG_NONE || program->tensors[alias].alias == ENG_NONE);
    return alias != ENG_NONE ? alias : tensor;
}

// --- places --------------------------------------------------------------------------------------

static enum base_status new_constant(struct planning *plan, const struct eng_tensor *tensor,
                                     void **out)
{
    struct eng_exec_device *on = plan->on;
    const size_t bytes = eng_desc_bytes(&tensor->desc);
    BASE_TRY(on->device->memory->allocate(on->device, bytes, out, plan->ctx->error));
    on->constants[on->constant_count++] = *out;
    on->bytes += bytes;
    return on->device->memory->upload(on->device, *out, tensor->data, bytes, plan->ctx->error);
}

// Room for a tensor that a step of the device reads or writes.
static enum base_status place_one(struct planning *plan, uint32_t number)
{
    struct eng_exec_device *on = plan->on;
    const uint32_t owner = owner_of(plan->exec->program, number);
    const struct eng_tensor *tensor = &plan->exec->program->tensors[owner];
    void **at = &on->data[owner];
    if (*at == NULL && tensor->kind == ENG_CONST) {
        BASE_TRY(tensor->identity != NULL
                     ? eng_device_weights_get(plan->ctx->weights, tensor, at, plan->ctx->error)
                     : new_constant(plan, tensor, at));
        plan->good[owner] |= ON_DEVICE;
    } else if (*at == NULL && (tensor->kind == ENG_INPUT || tensor->kind == ENG_PARAM)) {
        BASE_TRY(on->device->memory->allocate(on->device, eng_desc_bytes(&tensor->desc), at,
                                              plan->ctx->error));
        on->constants[on->constant_count++] = *at;
        on->bytes += eng_desc_bytes(&tensor->desc);
    } else if (*at == NULL) {
        const uint8_t *host = plan->exec->data[owner]; // the same place in both buffers
        base_assert(host != NULL && host >= plan->exec->buffer);
        *at = (uint8_t *)on->buffer + (host - plan->exec->buffer);
    }
    on->data[number] = *at;
    return BASE_OK;
}

static enum base_status place_step(struct planning *plan, const struct eng_command *command)
{
    for (uint32_t i = 0; i < command->input_count; i++) {
        if (command->inputs[i] != ENG_NONE) {
            BASE_TRY(place_one(plan, command->inputs[i]));
        }
    }
    for (uint32_t i = 0; i < command->output_count; i++) {
        if (command->outputs[i] != ENG_NONE) {
            BASE_TRY(place_one(plan, command->outputs[i]));
        }
    }
    return BASE_OK;
}

// --- copies --------------------------------------------------------------------------------------

static void want(struct planning *plan, uint32_t tensor, uint8_t side)
{
    const uint32_t owner = owner_of(plan->exec->program, tensor);
    struct eng_exec_device *on = plan->on;
    if ((plan->good[owner] & side) != 0) {
        return;
    }
    base_assert(plan->good[owner] != 0 && on->copy_count < plan->capacity);
    base_assert(on->data[owner] != NULL); // whoever wrote it there, or reads it there now
    on->copies[on->copy_count++] =
        (struct copy){.tensor = owner,
                      .is_upload = side == ON_DEVICE,
                      .bytes = eng_desc_bytes(&plan->exec->program->tensors[owner].desc)};
    plan->good[owner] |= side;
}

static void plan_step(struct planning *plan, uint32_t index)
{
    const struct eng_step *step = &plan->exec->steps[index];
    const struct eng_command *command = step->command;
    const uint8_t side = step->on_device ? ON_DEVICE : ON_HOST;
    plan->on->before[index] = plan->on->copy_count;
    for (uint32_t i = 0; i < command->input_count; i++) {
        if (command->inputs[i] != ENG_NONE) {
            want(plan, command->inputs[i], side);
        }
    }
    for (uint32_t i = 0; i < command->output_count; i++) {
        if (command->outputs[i] != ENG_NONE) {
            plan->good[owner_of(plan->exec->program, command->outputs[i])] = side;
        }
    }
    plan->on->left += !step->on_device;
}

static void plan_copies(struct planning *plan)
{
    const struct eng_program *program = plan->exec->program;
    struct eng_exec_device *on = plan->on;
    const uint32_t count = plan->exec->step_count;
    for (uint32_t i = 0; i < count; i++) {
        plan_step(plan, i);
    }
    on->before[count] = on->copy_count;
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        if (program->tensors[t].is_output && plan->good[owner_of(program, t)] != 0) {
            want(plan, t, ON_HOST);
        }
    }
    on->before[count + 1] = on->copy_count;
}

// --- making --------------------------------------------------------------------------------------

static enum base_status make_lists(struct planning *plan)
{
    const struct eng_exec *exec = plan->exec;
    struct base_arena *arena = plan->ctx->arena;
    struct eng_exec_device *on = plan->on;
    const uint32_t tensors = exec->program->tensor_count;
    base_assert(on->data == NULL && exec->step_count == exec->program->command_count);
    plan->capacity = tensors; // the outputs
    for (uint32_t i = 0; i < exec->step_count; i++) {
        plan->capacity += exec->steps[i].command->input_count;
    }
    on->data = base_arena_zalloc(arena, (tensors + 1u) * sizeof *on->data);
    on->constants = base_arena_zalloc(arena, (tensors + 1u) * sizeof *on->constants);
    on->before = base_arena_zalloc(arena, (exec->step_count + 2u) * sizeof *on->before);
    on->copies = base_arena_zalloc(arena, (plan->capacity + 1u) * sizeof *on->copies);
    plan->good = base_arena_zalloc(arena, tensors + 1u);
    if (on->data == NULL || on->constants == NULL || on->before == NULL || on->copies == NULL ||
        plan->good == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t t = 0; t < tensors; t++) {
        const enum eng_tensor_kind kind = exec->program->tensors[t].kind;
        plan->good[t] = kind == ENG_CONST || kind == ENG_INPUT || kind == ENG_PARAM ? ON_HOST : 0;
    }
    return BASE_OK;
}

// What its steps need beside their operands.
static enum base_status make_scratch(struct planning *plan)
{
    const struct eng_exec *exec = plan->exec;
    struct eng_exec_device *on = plan->on;
    const size_t limit = eng_exec_buffer_limit(plan->ctx);
    size_t bytes = 0;
    for (uint32_t i = 0; i < exec->step_count; i++) {
        if (exec->steps[i].on_device && exec->steps[i].scratch_bytes > bytes) {
            bytes = exec->steps[i].scratch_bytes;
        }
    }
    if (bytes > limit) {
        return base_error_set(plan->ctx->error, BASE_ERR_TOO_LARGE,
                              "a step needs %zu bytes of the device beside the activations, more "
                              "than %zu",
                              bytes, limit);
    }
    base_assert(on->scratch == NULL);
    on->bytes += bytes;
    return bytes == 0
               ? BASE_OK
               : on->device->memory->allocate(on->device, bytes, &on->scratch, plan->ctx->error);
}

static enum base_status make_staging(struct planning *plan)
{
    struct eng_exec_device *on = plan->on;
    size_t bytes = 0;
    void *at = NULL;
    for (uint32_t i = 0; i < on->copy_count; i++) {
        base_assert(bytes % STAGING_ALIGN == 0);
        on->copies[i].staged = bytes;
        if (on->copies[i].bytes > STAGING_BYTES_MAX - bytes) {
            return BASE_OK;
        }
        bytes += base_aligned(on->copies[i].bytes, STAGING_ALIGN);
    }
    if (bytes > 0) {
        BASE_TRY(on->device->memory->allocate_host(on->device, bytes, &at, plan->ctx->error));
    }
    on->staging = at;
    return BASE_OK;
}

enum base_status eng_exec_device_init(struct eng_exec *exec, const struct eng_prepare *ctx)
{
    base_assert(ctx->device != NULL && ctx->weights != NULL && exec->device == NULL);
    struct eng_exec_device *on = base_arena_zalloc(ctx->arena, sizeof *on);
    if (on == NULL) {
        return BASE_ERR_NOMEM;
    }
    on->device = ctx->device;
    base_assert(exec->data != NULL && exec->buffer != NULL); // the host's places are known
    exec->device = on;                                       // freed with it from here on
    struct planning plan = {.exec = exec, .ctx = ctx, .on = on};
    uint32_t command = 0;
    BASE_TRY(make_lists(&plan));
    BASE_TRY(on->device->memory->allocate(on->device, exec->buffer_bytes, &on->buffer, ctx->error));
    on->bytes += exec->buffer_bytes;
    BASE_TRY(make_scratch(&plan));
    for (uint32_t i = 0; i < exec->step_count; i++) {
        if (exec->steps[i].on_device) {
            BASE_TRY(place_step(&plan, exec->steps[i].command));
        }
    }
    plan_copies(&plan);
    BASE_TRY(make_staging(&plan));
    return on->device->memory->sync(on->device, exec->program, &command, ctx->error);
}

void eng_exec_device_done(struct eng_exec_device *device)
{
    if (device == NULL) {
        return;
    }
    const struct eng_memory *memory = device->device->memory;
    memory->release(device->device, device->buffer);
    memory->release(device->device, device->scratch);
    memory->release_host(device->device, device->staging);
    memory->forget(device->device, device->recording);
    for (uint32_t i = 0; i < device->constant_count; i++) {
        memory->release(device->device, device->constants[i]);
    }
}

size_t eng_exec_device_bytes(const struct eng_exec_device *device)
{
    return device != NULL ? device->bytes : 0;
}

uint32_t eng_exec_device_left(const struct eng_exec_device *device)
{
    return device != NULL ? device->left : 0;
}

uint64_t eng_exec_device_replays(const struct eng_exec_device *device)
{
    return device != NULL ? device->replays : 0;
}

// --- running -------------------------------------------------------------------------------------

// Begins the copies in front of a step; those from the host are staged first.
static enum base_status copy_before(const struct eng_exec *exec, uint32_t step,
                                    const struct eng_run *host)
{
    const struct eng_exec_device *on = exec->device;
    const struct eng_memory *memory = on->device->memory;
    for (uint32_t i = on->before[step]; i < on->before[step + 1]; i++) {
        const struct copy *copy = &on->copies[i];
        void *here = host->data[copy->tensor], *there = on->data[copy->tensor];
        if (on->staging != NULL) {
            void *staged = on->staging + copy->staged;
            if (copy->is_upload && copy->bytes > 0) {
                memcpy(staged, here, copy->bytes);
            }
            here = staged;
        }
        BASE_TRY(copy->is_upload
                     ? memory->upload(on->device, there, here, copy->bytes, host->error)
                     : memory->download(on->device, here, there, copy->bytes, host->error));
    }
    return BASE_OK;
}

// Brings what was downloaded in front of a step to its place, once it has been waited for.
static void place_downloads(const struct eng_exec *exec, uint32_t step, const struct eng_run *host)
{
    const struct eng_exec_device *on = exec->device;
    for (uint32_t i = on->before[step]; i < on->before[step + 1] && on->staging != NULL; i++) {
        const struct copy *copy = &on->copies[i];
        if (!copy->is_upload && copy->bytes > 0) {
            memcpy(host->data[copy->tensor], on->staging + copy->staged, copy->bytes);
        }
    }
}

// Waits for the device. What a step met there is told as that step's failure.
static enum base_status wait_for(const struct eng_exec *exec, const struct eng_exec_run *run,
                                 struct base_error *error)
{
    uint32_t command = UINT32_MAX;
    enum base_status status =
        exec->device->device->memory->sync(exec->device->device, exec->program, &command, error);
    return status == BASE_OK || command >= exec->step_count
               ? status
               : eng_exec_name_failure(&exec->steps[command], run, status);
}

static enum base_status run_step(const struct eng_exec *exec, const struct eng_exec_run *run,
                                 const struct eng_run *host, uint32_t index)
{
    const struct eng_step *step = &exec->steps[index];
    struct eng_run there = *host;
    there.data = exec->device->data;
    there.device = exec->device->device;
    there.scratch = exec->device->scratch;
    BASE_TRY(copy_before(exec, index, host));
    if (!step->on_device) {
        BASE_TRY(wait_for(exec, run, host->error));
        place_downloads(exec, index, host);
    }
    enum base_status status = eng_step_run(step, step->on_device ? &there : host);
    if (status != BASE_OK) {
        return eng_exec_name_failure(step, run, status);
    }
    return run->events != NULL ? wait_for(exec, run, host->error) : BASE_OK;
}

static enum base_status run_steps(const struct eng_exec *exec, const struct eng_exec_run *run,
                                  const struct eng_run *host)
{
    for (uint32_t i = 0; i < exec->step_count; i++) {
        BASE_TRY(eng_watch_spend(run->watch, exec->steps[i].work, run->error));
        const uint64_t begin_us = run->events != NULL ? base_clock_mono_us() : 0;
        BASE_TRY(run_step(exec, run, host, i));
        if (run->events != NULL) {
            run->events[i] = (struct eng_event){begin_us, base_clock_mono_us() - begin_us};
        }
    }
    return copy_before(exec, exec->step_count, host);
}

// --- recorded runs -------------------------------------------------------------------------------

// A failure is none of the run's, which goes on step by step.
static void record(const struct eng_exec *exec, const struct eng_exec_run *run,
                   const struct eng_run *host)
{
    struct eng_exec_device *on = exec->device;
    const struct eng_memory *memory = on->device->memory;
    struct base_error error = {0};
    struct eng_exec_run quiet = *run;
    struct eng_run here = *host;
    quiet.error = here.error = &error;
    quiet.watch = NULL; // nothing is done yet
    base_assert(on->recording == NULL);
    on->is_refused = true;
    if (memory->record(on->device, &error) != BASE_OK) {
        return;
    }
    enum base_status status = run_steps(exec, &quiet, &here);
    struct eng_recording *recording = NULL;
    if (memory->recorded(on->device, &recording, &error) != BASE_OK) {
        return;
    }
    if (status != BASE_OK) {
        memory->forget(on->device, recording);
        return;
    }
    on->recording = recording;
    on->is_refused = false;
}

static bool is_recorded(const struct eng_exec *exec, const struct eng_exec_run *run,
                        const struct eng_run *host)
{
    struct eng_exec_device *on = exec->device;
    if (on->left > 0 || on->staging == NULL || on->is_refused || run->events != NULL) {
        return false;
    }
    if (on->recording == NULL && on->is_known) {
        record(exec, run, host);
    }
    return on->recording != NULL;
}

static enum base_status replay(const struct eng_exec *exec, const struct eng_exec_run *run,
                               const struct eng_run *host)
{
    struct eng_exec_device *on = exec->device;
    for (uint32_t i = 0; i < exec->step_count; i++) {
        BASE_TRY(eng_watch_spend(run->watch, exec->steps[i].work, run->error));
    }
    for (uint32_t i = 0; i < on->copy_count; i++) {
        const struct copy *copy = &on->copies[i];
        if (copy->is_upload && copy->bytes > 0) {
            memcpy(on->staging + copy->staged, host->data[copy->tensor], copy->bytes);
        }
    }
    on->replays++;
    return on->device->memory->replay(on->device, on->recording, host->error);
}

enum base_status eng_exec_device_run(const struct eng_exec *exec, const struct eng_exec_run *run,
                                     const struct eng_run *host)
{
    enum base_status status =
        is_recorded(exec, run, host) ? replay(exec, run, host) : run_steps(exec, run, host);
    // Also after a failure: copies that were begun end, and the next run finds no old fault.
    struct base_error later = {0};
    enum base_status end = wait_for(exec, run, status == BASE_OK ? host->error : &later);
    if (status == BASE_OK && end == BASE_OK) {
        place_downloads(exec, exec->step_count, host);
        exec->device->is_known = true;
    }
    return status != BASE_OK ? status : end;
}
