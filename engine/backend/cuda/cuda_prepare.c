// Steps of the device "cuda": which family describes a command, and how a step starts its kernels.
// A step is one kernel, but for rasters: one for each region, behind one that fills with zeroes.
// Preparing is called on the planning thread, steps run on the session's; nothing waits here.
#include "backend/cuda/cuda_device.h"

#include "backend/cuda/cuda_describe.h"
#include "base/check.h"
#include "model/graph.h"

#include <string.h>

// More regions than that are left to the host, where they cost less than as many kernels.
#define REGIONS_MAX 64u

struct launch {
    uint32_t source; // a region's; ENG_NONE: the inputs are the command's
    struct eng_cuda_wish wish;
};
struct launches {
    uint32_t count;
    struct launch list[];
};

static const eng_cuda_describe_fn describes[ENG_OP_COUNT] = {
    [ENG_OP_UNARY] = eng_cuda_describe_elementwise,
    [ENG_OP_BINARY] = eng_cuda_describe_elementwise,
    [ENG_OP_SELECT] = eng_cuda_describe_elementwise,
    [ENG_OP_CAST] = eng_cuda_describe_elementwise,
    [ENG_OP_EXPR] = eng_cuda_describe_elementwise,
    [ENG_OP_REDUCE] = eng_cuda_describe_rows,
    [ENG_OP_ARG_REDUCE] = eng_cuda_describe_rows,
    [ENG_OP_SOFTMAX] = eng_cuda_describe_rows,
    [ENG_OP_NORM] = eng_cuda_describe_rows,
    [ENG_OP_ATTENTION] = eng_cuda_describe_rows,
    [ENG_OP_TOPK] = eng_cuda_describe_rows,
    [ENG_OP_CUMSUM] = eng_cuda_describe_rows,
    [ENG_OP_MATMUL] = eng_cuda_describe_product,
    [ENG_OP_CONV] = eng_cuda_describe_product,
    [ENG_OP_CONV_TRANSPOSE] = eng_cuda_describe_product,
    [ENG_OP_POOL] = eng_cuda_describe_window,
    [ENG_OP_RESIZE] = eng_cuda_describe_window,
    [ENG_OP_GATHER] = eng_cuda_describe_index,
    [ENG_OP_SCATTER] = eng_cuda_describe_index,
    [ENG_OP_ONE_HOT] = eng_cuda_describe_index,
};

#define CUDA_NAME(NAME, name) "cuda." #name,
static const char *const kernel_names[] = {ENG_CUDA_KERNELS(CUDA_NAME)};
#undef CUDA_NAME

bool eng_cuda_takes(enum eng_atomic op)
{
    return op == ENG_OP_RASTER || describes[op] != NULL;
}

static enum base_status start(const struct eng_step *step, const struct eng_run *run,
                              const struct launch *launch)
{
    const struct eng_command *command = step->command;
    const struct eng_cuda_device *cuda = (const struct eng_cuda_device *)run->device;
    struct eng_cuda_buffers buffers = {.fault = cuda->faults, .scratch = run->scratch};
    base_assert(launch->source != ENG_NONE || command->input_count <= ENG_CUDA_INPUTS_MAX);
    for (uint32_t i = 0; i < command->input_count && launch->source == ENG_NONE; i++) {
        buffers.in[i] = eng_run_data(run, command->inputs[i]);
    }
    if (launch->source != ENG_NONE) {
        buffers.in[0] = eng_run_data(run, launch->source);
    }
    for (uint32_t i = 0; i < command->output_count; i++) {
        buffers.out[i] = eng_run_data(run, command->outputs[i]);
    }
    const char *wrong =
        cuda->port->launch(cuda->stream, launch->wish.kernel, &buffers, &launch->wish.params);
    return wrong == NULL ? BASE_OK
                         : base_error_set(run->error, BASE_ERR_IO, "%s: %s", step->kernel, wrong);
}

static enum base_status run_launches(const struct eng_step *step, const struct eng_run *run)
{
    const struct launches *launches = step->state;
    for (uint32_t i = 0; i < launches->count; i++) {
        BASE_TRY(start(step, run, &launches->list[i]));
    }
    return BASE_OK;
}

static struct launches *new_launches(const struct eng_prepare *ctx, uint32_t count)
{
    return base_arena_zalloc(ctx->arena,
                             sizeof(struct launches) + (count + 1u) * sizeof(struct launch));
}

// --- rasters -------------------------------------------------------------------------------------

// A region that sums is a gradient's.
static bool takes_region(const struct eng_region *region)
{
    for (uint32_t d = 0; d < region->rank; d++) {
        if (region->dst_stride[d] == 0 && region->size[d] > 1) {
            return false;
        }
    }
    return !region->accumulate;
}

static void describe_region(const struct eng_region *region, uint32_t bytes, struct launch *out)
{
    out->source = region->source;
    out->wish.kernel = ENG_CUDA_MOVE;
    out->wish.params.move = (struct eng_cuda_move){.region = *region, .count = 1, .bytes = bytes};
    for (uint32_t d = 0; d < region->rank; d++) {
        out->wish.params.move.count *= region->size[d];
    }
}

static enum base_status prepare_raster(const struct eng_prepare *ctx,
                                       const struct eng_program *program,
                                       const struct eng_command *command, struct eng_step *out_step)
{
    const struct eng_desc *desc = &program->tensors[command->outputs[0]].desc;
    const uint32_t count = command->u.raster.count;
    bool is_taken = count <= REGIONS_MAX && desc->dtype != ENG_STRING;
    for (uint32_t i = 0; i < count && is_taken; i++) {
        is_taken = takes_region(&command->u.raster.regions[i]);
    }
    if (!is_taken) {
        return BASE_ERR_UNSUPPORTED;
    }
    struct launches *launches = new_launches(ctx, count + 1);
    if (launches == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (command->u.raster.zero_fill) {
        struct launch *fill = &launches->list[launches->count++];
        fill->source = ENG_NONE;
        fill->wish.kernel = ENG_CUDA_FILL;
        fill->wish.params.fill.bytes = (int64_t)eng_desc_bytes(desc);
    }
    for (uint32_t i = 0; i < count; i++) {
        describe_region(&command->u.raster.regions[i], (uint32_t)eng_dtype_bytes(desc->dtype),
                        &launches->list[launches->count++]);
    }
    base_assert(launches->count <= count + 1); // what there is room for
    out_step->state = launches;
    out_step->kernel = "cuda.raster";
    return BASE_OK;
}

// --- all others ----------------------------------------------------------------------------------

static enum base_status prepare_one(const struct eng_prepare *ctx,
                                    const struct eng_program *program,
                                    const struct eng_command *command, struct eng_step *out_step)
{
    struct eng_cuda_wish wish;
    memset(&wish, 0, sizeof wish);
    if (describes[command->op] == NULL || command->input_count > ENG_CUDA_INPUTS_MAX ||
        command->output_count > ENG_CUDA_OUTPUTS_MAX ||
        !describes[command->op](program, command, &wish)) {
        return BASE_ERR_UNSUPPORTED;
    }
    base_assert(wish.kernel < ENG_CUDA_KERNEL_COUNT);
    if (ctx->precision == ENG_PRECISION_LOW) {
        eng_cuda_lower_precision(&wish);
    }
    struct launches *launches = new_launches(ctx, 1);
    if (launches == NULL) {
        return BASE_ERR_NOMEM;
    }
    launches->count = 1;
    launches->list[0] = (struct launch){.source = ENG_NONE, .wish = wish};
    out_step->state = launches;
    out_step->kernel = kernel_names[wish.kernel];
    out_step->scratch_bytes = eng_cuda_scratch_bytes(&wish);
    return BASE_OK;
}

enum base_status eng_cuda_prepare(const struct eng_prepare *ctx, const struct eng_program *program,
                                  const struct eng_command *command, struct eng_step *out_step)
{
    struct eng_step step = {.run = run_launches,
                            .loose = UINT32_MAX, // bytes are copied to the device
                            .on_device = true};
    BASE_TRY(command->op == ENG_OP_RASTER ? prepare_raster(ctx, program, command, &step)
                                          : prepare_one(ctx, program, command, &step));
    *out_step = step;
    return BASE_OK;
}
