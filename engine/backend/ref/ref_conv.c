// Convolutions, their transposes and gradients, 1 to 3 spatial dimensions, both layouts. Reference
// kernels: found by ref_prepare.c on the planning thread, run on the session's thread. All five
// commands are one walk over the pairs of positions that a tap of the kernel joins, so that
// padding, stride and dilation are written once. It takes what the fast convolutions
// (cpu/conv_prepare.c) leave: other layouts, types and paddings.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "base/check.h"

#include <string.h>

// A convolution joins a large tensor (x of CONV) and a small one (its output): large position =
// small position * stride + kernel position * dilation - pad_begin. w is [small channels, large
// channels / groups, kernel...] for all five commands:
//   CONV               small from large        CONV_GRAD_INPUT, CONV_TRANSPOSE  large from small
//   CONV_GRAD_WEIGHT   w from both
// The first two gather: for each output position, the weights of one group lie in scratch as
// doubles, [kernel][source channel][result channel], so that the innermost loop runs over result
// channels.

// One side: the tensor, its channels per group, and where its elements lie.
struct side {
    enum eng_dtype dtype;
    void *data;
    int64_t channels; // of one group
    int64_t dims[ENG_SPATIAL_MAX];
    int64_t batch_stride, channel_stride, stride[ENG_SPATIAL_MAX];
};

struct conv {
    const struct eng_step *step;
    const struct eng_run *run;
    const struct eng_conv *shape;
    struct side large, small;
    enum eng_dtype w_dtype;
    void *w;
    int64_t batch, taps; // taps: positions of the kernel
};

static struct side side_of(const struct eng_tensor *tensor, void *data, int64_t groups)
{
    int64_t strides[ENG_RANK_MAX] = {0};
    eng_layout_strides(&tensor->desc, tensor->layout, strides);
    base_assert(groups > 0 && tensor->desc.rank >= 3 && tensor->desc.rank <= ENG_SPATIAL_MAX + 2);
    struct side side = {.dtype = tensor->desc.dtype,
                        .data = data,
                        .channels = tensor->desc.dims[1] / groups,
                        .batch_stride = strides[0],
                        .channel_stride = strides[1]};
    for (uint32_t d = 0; d + 2 < tensor->desc.rank; d++) {
        side.dims[d] = tensor->desc.dims[d + 2];
        side.stride[d] = strides[d + 2];
    }
    return side;
}

// Splits a flat position into coordinates of the first `rank` dims, last one fastest.
static void unflatten(int64_t flat, const int64_t *dims, uint32_t rank, int64_t *out)
{
    base_assert(flat >= 0 && rank <= ENG_SPATIAL_MAX);
    for (uint32_t d = rank; d-- > 0;) {
        out[d] = flat % dims[d];
        flat /= dims[d];
    }
}

static int64_t positions(const struct side *side, uint32_t rank)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < rank; d++) {
        count *= side->dims[d];
    }
    return count;
}

static int64_t offset_at(const struct side *side, const int64_t *at, uint32_t rank)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < rank; d++) {
        offset += at[d] * side->stride[d];
    }
    return offset;
}

// Offset of the element of the large side under `tap` of small position `at`; false in the padding.
static bool large_under(const struct conv *conv, const int64_t *at, const int64_t *tap,
                        int64_t *out)
{
    const struct eng_conv *s = conv->shape;
    int64_t offset = 0;
    for (uint32_t d = 0; d < s->spatial; d++) {
        int64_t place = at[d] * s->stride[d] + tap[d] * s->dilation[d] - s->pad_begin[d];
        if (place < 0 || place >= conv->large.dims[d]) {
            return false;
        }
        offset += place * conv->large.stride[d];
    }
    *out = offset;
    return true;
}

// Offset of the element of the small side whose `tap` is the large position `at`; false: none.
static bool small_over(const struct conv *conv, const int64_t *at, const int64_t *tap, int64_t *out)
{
    const struct eng_conv *s = conv->shape;
    int64_t offset = 0;
    for (uint32_t d = 0; d < s->spatial; d++) {
        int64_t place = at[d] + s->pad_begin[d] - tap[d] * s->dilation[d];
        if (place < 0 || place % s->stride[d] != 0 || place / s->stride[d] >= conv->small.dims[d]) {
            return false;
        }
        offset += place / s->stride[d] * conv->small.stride[d];
    }
    *out = offset;
    return true;
}

// --- one side from the other ------------------------------------------------------------------

// Weights of a group as [tap][source channel][result channel].
static void load_weights(const struct conv *conv, int64_t group, bool small_result, double *weights)
{
    int64_t m_count = conv->small.channels, c_count = conv->large.channels;
    for (int64_t m = 0; m < m_count; m++) {
        for (int64_t ch = 0; ch < c_count; ch++) {
            int64_t from = ((group * m_count + m) * c_count + ch) * conv->taps;
            for (int64_t tap = 0; tap < conv->taps; tap++) {
                int64_t to = small_result ? (tap * c_count + ch) * m_count + m
                                          : (tap * m_count + m) * c_count + ch;
                weights[to] = eng_ref_load(conv->w_dtype, conv->w, from + tap);
            }
        }
    }
}

// sums[result channel] += source element * weights, over the source channels of one position.
static void add_tap(const struct side *source, int64_t from, const double *weights, double *sums,
                    int64_t result_channels)
{
    for (int64_t s = 0; s < source->channels; s++) {
        double x = eng_ref_load(source->dtype, source->data, from + s * source->channel_stride);
        const double *row = weights + s * result_channels;
        for (int64_t r = 0; r < result_channels; r++) {
            sums[r] += x * row[r];
        }
    }
}

static void store_sums(const struct conv *conv, const struct side *result, int64_t to,
                       int64_t first_channel, const double *sums)
{
    const struct eng_epilogue *epilogue = &conv->shape->epilogue;
    base_assert(to >= 0 && first_channel % result->channels == 0);
    bool has_epilogue =
        conv->step->command->op == ENG_OP_CONV || conv->step->command->op == ENG_OP_CONV_TRANSPOSE;
    for (int64_t r = 0; r < result->channels; r++) {
        int64_t index = to + r * result->channel_stride;
        double value = sums[r];
        if (has_epilogue) {
            struct eng_ref_place place = {.channel = first_channel + r, .index = index};
            value = eng_ref_epilogue(conv->step, conv->run, epilogue, value, place);
        }
        eng_ref_store(result->dtype, result->data, index, value);
    }
}

static void convolve_group(const struct conv *conv, int64_t group, bool small_result)
{
    const struct side *result = small_result ? &conv->small : &conv->large;
    const struct side *source = small_result ? &conv->large : &conv->small;
    uint32_t rank = conv->shape->spatial;
    base_assert(group >= 0 && group < conv->shape->groups);
    int64_t matrix = result->channels * source->channels;
    double *weights = conv->run->scratch, *sums = weights + conv->taps * matrix;
    int64_t count = positions(result, rank);
    if (result->channels == 0) {
        return; // no sums to hold, and no scratch for them
    }
    load_weights(conv, group, small_result, weights);
    for (int64_t p = 0; p < conv->batch * count; p++) {
        int64_t at[ENG_SPATIAL_MAX] = {0}, tap_at[ENG_SPATIAL_MAX] = {0}, n = p / count;
        unflatten(p % count, result->dims, rank, at);
        memset(sums, 0, (size_t)result->channels * sizeof(double));
        for (int64_t tap = 0; tap < conv->taps; tap++) {
            int64_t from = 0;
            unflatten(tap, conv->shape->kernel, rank, tap_at);
            if (small_result ? large_under(conv, at, tap_at, &from)
                             : small_over(conv, at, tap_at, &from)) {
                from +=
                    n * source->batch_stride + group * source->channels * source->channel_stride;
                add_tap(source, from, weights + tap * matrix, sums, result->channels);
            }
        }
        store_sums(conv, result,
                   n * result->batch_stride + group * result->channels * result->channel_stride +
                       offset_at(result, at, rank),
                   group * result->channels, sums);
    }
}

// --- weights from both sides ------------------------------------------------------------------

static void add_outer(const struct conv *conv, int64_t large_at, int64_t small_at, double *sums)
{
    for (int64_t m = 0; m < conv->small.channels; m++) {
        double dy = eng_ref_load(conv->small.dtype, conv->small.data,
                                 small_at + m * conv->small.channel_stride);
        for (int64_t ch = 0; ch < conv->large.channels; ch++) {
            sums[m * conv->large.channels + ch] +=
                dy * eng_ref_load(conv->large.dtype, conv->large.data,
                                  large_at + ch * conv->large.channel_stride);
        }
    }
}

static void weight_gradient(const struct conv *conv, int64_t group, int64_t tap)
{
    uint32_t rank = conv->shape->spatial;
    base_assert(group < conv->shape->groups && tap < conv->taps);
    double *sums = conv->run->scratch;
    int64_t matrix = conv->small.channels * conv->large.channels,
            count = positions(&conv->small, rank);
    int64_t tap_at[ENG_SPATIAL_MAX] = {0}, at[ENG_SPATIAL_MAX] = {0};
    unflatten(tap, conv->shape->kernel, rank, tap_at);
    memset(sums, 0, (size_t)matrix * sizeof(double));
    for (int64_t p = 0; p < conv->batch * count; p++) {
        int64_t n = p / count, large_at = 0;
        unflatten(p % count, conv->small.dims, rank, at);
        if (large_under(conv, at, tap_at, &large_at)) {
            large_at += n * conv->large.batch_stride +
                        group * conv->large.channels * conv->large.channel_stride;
            add_outer(conv, large_at,
                      n * conv->small.batch_stride +
                          group * conv->small.channels * conv->small.channel_stride +
                          offset_at(&conv->small, at, rank),
                      sums);
        }
    }
    for (int64_t i = 0; i < matrix; i++) {
        eng_ref_store(conv->w_dtype, conv->w, (group * matrix + i) * conv->taps + tap, sums[i]);
    }
}

// --- commands ---------------------------------------------------------------------------------

static struct conv conv_of(const struct eng_step *step, const struct eng_run *run, uint32_t large,
                           uint32_t small, uint32_t weights)
{
    const struct eng_conv *shape = &step->command->u.conv;
    struct conv c = {
        .step = step,
        .run = run,
        .shape = shape,
        .large = side_of(eng_ref_tensor(step, large), run->data[large], shape->groups),
        .small = side_of(eng_ref_tensor(step, small), run->data[small], shape->groups),
        .w_dtype = eng_ref_tensor(step, weights)->desc.dtype,
        .w = run->data[weights],
        .batch = eng_ref_tensor(step, small)->desc.dims[0],
        .taps = 1,
    };
    for (uint32_t d = 0; d < shape->spatial; d++) {
        c.taps *= shape->kernel[d];
    }
    return c;
}

static enum base_status run_conv(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_command *command = step->command;
    struct conv c = conv_of(step, run, command->inputs[0], command->outputs[0], command->inputs[1]);
    for (int64_t group = 0; group < c.shape->groups; group++) {
        convolve_group(&c, group, true);
    }
    return BASE_OK;
}

// CONV_TRANSPOSE (x, w) and CONV_GRAD_INPUT (dy, w).
static enum base_status run_conv_transpose(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_command *command = step->command;
    struct conv c = conv_of(step, run, command->outputs[0], command->inputs[0], command->inputs[1]);
    for (int64_t group = 0; group < c.shape->groups; group++) {
        convolve_group(&c, group, false);
    }
    return BASE_OK;
}

static enum base_status run_grad_weight(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_command *command = step->command;
    struct conv c = conv_of(step, run, command->inputs[0], command->inputs[1], command->outputs[0]);
    for (int64_t group = 0; group < c.shape->groups; group++) {
        for (int64_t tap = 0; tap < c.taps; tap++) {
            weight_gradient(&c, group, tap);
        }
    }
    return BASE_OK;
}

// The weights of one group and a row of sums, as doubles. GRAD_WEIGHT's w is its output.
static enum base_status setup_conv(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_command *command = step->command;
    const struct eng_conv *conv = &command->u.conv;
    bool is_weight = command->op == ENG_OP_CONV_GRAD_WEIGHT;
    const struct eng_desc *w =
        &(is_weight ? eng_ref_out_tensor(step, 0) : eng_ref_in_tensor(step, 1))->desc;
    if (conv->spatial < 1 || conv->spatial > ENG_SPATIAL_MAX || w->rank != conv->spatial + 2 ||
        conv->groups < 1) {
        return eng_ref_refuse(ctx, step, "1 to 3 spatial dimensions");
    }
    return eng_ref_scratch(step, eng_desc_count(w) / conv->groups + w->dims[0] + w->dims[1],
                           sizeof(double));
}

const struct eng_ref_kernel eng_ref_conv[] = {
    {ENG_OP_CONV, ENG_REF_NUMBERS, run_conv, setup_conv},
    {ENG_OP_CONV_TRANSPOSE, ENG_REF_NUMBERS, run_conv_transpose, setup_conv},
    {ENG_OP_CONV_GRAD_INPUT, ENG_REF_FLOATS, run_conv_transpose, setup_conv},
    {ENG_OP_CONV_GRAD_WEIGHT, ENG_REF_FLOATS, run_grad_weight, setup_conv},
    {.run = NULL},
};
