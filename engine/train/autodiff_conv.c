// Gradients of convolutions. Called by the walk.
//
// They are made of what backends are fast at. By the input: a convolution of dy with the weights
// turned round (dy spread out first where the stride is above 1). By the weights: the windows of x
// laid out as rows, and products; of depthwise ones, sums of elementwise products. What does not
// fit (more padding than the kernel reaches, PLAIN layout) are the commands CONV_GRAD_INPUT and
// CONV_GRAD_WEIGHT.
#include "train/autodiff_rules.h"

#include "base/check.h"

#include <string.h>

#define TAPS_MAX 512 // positions of a kernel; beyond, the commands

// CONV or one of its gradients: its two inputs, its output.
static enum base_status emit_conv(struct eng_ad *ad, enum eng_atomic op,
                                  const struct eng_conv *conv, const uint32_t *inputs,
                                  uint32_t output)
{
    struct eng_command *made = NULL;
    base_assert(op == ENG_OP_CONV || op == ENG_OP_CONV_GRAD_INPUT || op == ENG_OP_CONV_GRAD_WEIGHT);
    BASE_TRY(ad_command(ad, op, &(struct ad_ports){inputs, 2, output}, &made));
    made->u.conv = *conv;
    made->u.conv.epilogue = (struct eng_epilogue){.bias = ENG_NONE, .residual = ENG_NONE};
    return BASE_OK;
}

static enum base_status check_epilogue(struct eng_ad *ad, const struct eng_command *command,
                                       uint32_t dy)
{
    const struct eng_epilogue *epilogue = &command->u.conv.epilogue;
    const struct eng_tensor *y = ad_tensor(ad, dy);
    int64_t batch = y->desc.dims[0], channels = y->desc.dims[1];
    int64_t count = eng_desc_count(&y->desc);
    if (epilogue->has_activation || epilogue->residual != ENG_NONE) {
        return ad_refuse(ad, command, "fused");
    }
    if (count == 0) {
        return BASE_OK;
    }
    int64_t area = count / batch / channels;
    bool is_last = y->layout == ENG_CHANNELS_LAST;
    struct eng_box box = {.rank = 3,
                          .size = {is_last ? batch * area : batch, channels, is_last ? 1 : area}};
    return ad_give_bias(ad, epilogue->bias, dy, &box);
}

static int64_t taps_of(const struct eng_conv *conv)
{
    int64_t taps = 1;
    for (uint32_t s = 0; s < conv->spatial; s++) {
        taps *= conv->kernel[s];
    }
    return taps;
}

// What moves elements of one tensor.
struct move {
    uint32_t source;
    const struct eng_region *regions; // of that source; copied
    uint32_t count;                   // 0: only padding is seen
    bool zero_fill;                   // they leave some of the output out
};

static enum base_status raster(struct eng_ad *ad, const struct move *move, uint32_t output)
{
    struct eng_command *command = NULL;
    base_assert(move->count == 0 || move->regions[0].source == move->source);
    struct eng_region *kept =
        base_arena_copy(ad->program->arena, move->regions, move->count * sizeof(*kept));
    if (kept == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(ad_command(ad, ENG_OP_RASTER, &(struct ad_ports){&move->source, 1, output}, &command));
    command->u.raster.regions = kept;
    command->u.raster.count = move->count;
    command->u.raster.zero_fill = move->zero_fill;
    return BASE_OK;
}

// What fast backends have kernels for: gradients by the input, and by the weights.
static bool has_kernel(const struct eng_ad *ad, const struct eng_conv *conv, uint32_t input)
{
    return ad_tensor(ad, input)->layout != ENG_CHANNELS_LAST ||
           (conv->groups == 1 && conv->spatial <= 2);
}
static bool has_weights_kernel(const struct eng_ad *ad, const struct eng_conv *conv, uint32_t input,
                               int64_t out_channels)
{
    bool is_depthwise =
        conv->groups == out_channels && conv->groups == ad_tensor(ad, input)->desc.dims[1];
    return has_kernel(ad, conv, input) || (is_depthwise && conv->spatial <= 2);
}

// --- by the input -----------------------------------------------------------------------------

// weights [groups, m, c, k...] as [groups, c, m, k... backwards].
static enum base_status turn_weights(struct eng_ad *ad, uint32_t weights, int64_t groups,
                                     uint32_t *out)
{
    struct eng_desc desc = ad_tensor(ad, weights)->desc;
    int64_t m = desc.dims[0] / groups, c = desc.dims[1], taps = 1;
    base_assert(m * groups == desc.dims[0]);
    for (uint32_t d = 2; d < desc.rank; d++) {
        taps *= desc.dims[d];
    }
    desc.dims[0] = groups * c;
    desc.dims[1] = m;
    struct eng_region region = {.source = weights,
                                .rank = 4,
                                .src_offset = taps - 1,
                                .size = {groups, c, m, taps},
                                .src_stride = {m * c * taps, taps, c * taps, -1},
                                .dst_stride = {m * c * taps, m * taps, taps, 1}};
    BASE_TRY(eng_program_tensor(ad->program, ENG_TEMP, ENG_PLAIN, &desc, out));
    return raster(ad, &(struct move){weights, &region, 1, false}, *out);
}

// The elements of `from` at every stride-th place of a tensor of `dims`, zeros between.
static enum base_status spread(struct eng_ad *ad, uint32_t from, const int64_t *stride,
                               const int64_t *dims, uint32_t *out)
{
    struct eng_tensor tensor = *ad_tensor(ad, from);
    struct eng_region region = {.source = from, .rank = tensor.desc.rank};
    int64_t near[ENG_RANK_MAX], wide[ENG_RANK_MAX];
    eng_layout_strides(&tensor.desc, tensor.layout, near);
    memcpy(region.size, tensor.desc.dims, sizeof(region.size));
    memcpy(tensor.desc.dims + 2, dims, (tensor.desc.rank - 2) * sizeof(int64_t));
    eng_layout_strides(&tensor.desc, tensor.layout, wide);
    for (uint32_t d = 0; d < tensor.desc.rank; d++) {
        region.src_stride[d] = near[d];
        region.dst_stride[d] = d < 2 ? wide[d] : wide[d] * stride[d - 2];
    }
    BASE_TRY(eng_program_tensor(ad->program, ENG_TEMP, tensor.layout, &tensor.desc, out));
    return raster(ad, &(struct move){from, &region, 1, true}, *out);
}

// Of inputs x and w, into a tensor of `desc` in the layout of x.
static enum base_status plain_conv(struct eng_ad *ad, const struct eng_conv *conv,
                                   const uint32_t *inputs, const struct eng_desc *desc,
                                   uint32_t *out)
{
    enum eng_layout layout = ad_tensor(ad, inputs[0])->layout;
    BASE_TRY(eng_program_tensor(ad->program, ENG_TEMP, layout, desc, out));
    return emit_conv(ad, ENG_OP_CONV, conv, inputs, *out);
}

// Kernels of one element: products first, then spread out. Padding would have been of no use.
static enum base_status pointwise_input(struct eng_ad *ad, const struct eng_command *command,
                                        uint32_t turned, uint32_t dy, uint32_t *out)
{
    const struct eng_conv *conv = &command->u.conv;
    const struct eng_desc x = ad_tensor(ad, command->inputs[0])->desc;
    const uint32_t inputs[2] = {dy, turned};
    struct eng_desc desc = ad_tensor(ad, dy)->desc;
    struct eng_conv inner = *conv;
    bool is_strided = false;
    base_assert(taps_of(conv) == 1 && desc.rank == conv->spatial + 2);
    desc.dims[1] = x.dims[1];
    for (uint32_t s = 0; s < conv->spatial; s++) {
        is_strided = is_strided || desc.dims[s + 2] != x.dims[s + 2];
        inner.stride[s] = 1;
    }
    BASE_TRY(plain_conv(ad, &inner, inputs, &desc, out));
    return is_strided ? spread(ad, *out, conv->stride, x.dims + 2, out) : BASE_OK;
}

// The padding that makes the convolution of the spread dy give back the size of input; false when
// one side of it is negative.
static bool turned_padding(const struct eng_conv *conv, const struct eng_desc *input,
                           const int64_t *dims, struct eng_conv *out)
{
    *out = *conv;
    for (uint32_t s = 0; s < conv->spatial; s++) {
        int64_t reach = (conv->kernel[s] - 1) * conv->dilation[s];
        out->stride[s] = 1;
        out->pad_begin[s] = reach - conv->pad_begin[s];
        out->pad_end[s] = input->dims[s + 2] + reach - dims[s] - out->pad_begin[s];
        if (out->pad_begin[s] < 0 || out->pad_end[s] < 0) {
            return false;
        }
    }
    return true;
}

static bool has_padding(const struct eng_conv *conv)
{
    for (uint32_t s = 0; s < conv->spatial; s++) {
        if (conv->pad_begin[s] != 0 || conv->pad_end[s] != 0) {
            return true;
        }
    }
    return false;
}

static enum base_status by_input(struct eng_ad *ad, const struct eng_command *command, uint32_t dy,
                                 uint32_t *out)
{
    const struct eng_conv *conv = &command->u.conv;
    uint32_t x = command->inputs[0], w = command->inputs[1], inputs[2] = {dy, w};
    struct eng_desc desc = ad_tensor(ad, x)->desc;
    struct eng_conv inner;
    base_assert(ad_tensor(ad, dy)->desc.rank == conv->spatial + 2);
    int64_t dims[ENG_SPATIAL_MAX] = {0};
    bool is_strided = false;
    for (uint32_t s = 0; s < conv->spatial; s++) {
        int64_t size = ad_tensor(ad, dy)->desc.dims[s + 2];
        dims[s] = size > 0 ? (size - 1) * conv->stride[s] + 1 : 0;
        is_strided = is_strided || dims[s] != size;
    }
    bool is_point = taps_of(conv) == 1 && !has_padding(conv);
    if (eng_desc_count(&ad_tensor(ad, dy)->desc) == 0 || has_kernel(ad, conv, x) ||
        (!is_point && !turned_padding(conv, &desc, dims, &inner))) {
        BASE_TRY(ad_like(ad, x, out));
        return emit_conv(ad, ENG_OP_CONV_GRAD_INPUT, conv, inputs, *out);
    }
    BASE_TRY(turn_weights(ad, w, conv->groups, &inputs[1]));
    if (is_point) {
        return pointwise_input(ad, command, inputs[1], dy, out);
    }
    if (is_strided) {
        BASE_TRY(spread(ad, dy, conv->stride, dims, &inputs[0]));
    }
    return plain_conv(ad, &inner, inputs, &desc, out);
}

// --- by the weights ---------------------------------------------------------------------------

// Elements of x under one tap, over all small positions: [positions, taps, C]. False: none.
static bool tap_region(const struct eng_conv *conv, const struct eng_tensor *input,
                       const struct eng_desc *output, int64_t tap, struct eng_region *region)
{
    base_assert(input->desc.rank == conv->spatial + 2);
    base_assert(tap < taps_of(conv));
    int64_t strides[ENG_RANK_MAX], channels = input->desc.dims[1], left = tap;
    int64_t row = taps_of(conv) * channels;
    uint32_t spatial = conv->spatial, last = spatial + 1;
    eng_layout_strides(&input->desc, input->layout, strides);
    *region = (struct eng_region){.rank = spatial + 2, .dst_offset = tap * channels};
    region->size[last] = channels;
    region->src_stride[last] = strides[1];
    region->dst_stride[last] = 1;
    for (uint32_t s = spatial; s-- > 0;) {
        int64_t at = left % conv->kernel[s] * conv->dilation[s] - conv->pad_begin[s];
        int64_t step = conv->stride[s], first = at < 0 ? (-at + step - 1) / step : 0;
        int64_t room = input->desc.dims[s + 2] - 1 - at;
        int64_t end = room < 0 ? 0 : room / step + 1;
        left /= conv->kernel[s];
        end = end < output->dims[s + 2] ? end : output->dims[s + 2];
        if (end <= first) {
            return false;
        }
        region->size[s + 1] = end - first;
        region->src_stride[s + 1] = step * strides[s + 2];
        region->dst_stride[s + 1] = row;
        region->src_offset += (at + first * step) * strides[s + 2];
        region->dst_offset += first * row;
        row *= output->dims[s + 2];
    }
    region->size[0] = input->desc.dims[0];
    region->src_stride[0] = strides[0];
    region->dst_stride[0] = row;
    return true;
}

// The windows of x as rows: [batch * positions, taps * C].
static enum base_status lay_windows(struct eng_ad *ad, const struct eng_conv *conv, uint32_t input,
                                    const struct eng_desc *output, uint32_t *out)
{
    int64_t taps = taps_of(conv);
    base_assert(taps <= TAPS_MAX && output->dims[1] > 0);
    struct eng_region *regions =
        base_arena_alloc(ad->program->arena, (size_t)taps * sizeof(*regions));
    struct eng_tensor tensor = *ad_tensor(ad, input);
    int64_t rows = eng_desc_count(output) / output->dims[1], covered = 0;
    uint32_t count = 0;
    if (regions == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t tap = 0; tap < taps; tap++) {
        if (tap_region(conv, &tensor, output, tap, &regions[count])) {
            int64_t volume = 1;
            for (uint32_t d = 0; d < regions[count].rank; d++) {
                volume *= regions[count].size[d];
            }
            regions[count++].source = input;
            covered += volume;
        }
    }
    int64_t total = rows * taps * tensor.desc.dims[1];
    base_assert(covered <= total); // a tap has its own elements of every row
    BASE_TRY(ad_flat(ad, tensor.desc.dtype, total, out));
    return raster(ad, &(struct move){input, regions, count, covered < total}, *out);
}

// Of the weights a gradient is made for.
struct weights_shape {
    uint32_t w;                       // those weights
    int64_t groups, m, c, taps, rows; // m, c: channels of a group; rows: batch * positions
};

// [groups, taps, m, c] as the weights lie, [groups, m, c, taps]; strides of the former in that
// order.
static enum base_status taps_last(struct eng_ad *ad, const struct weights_shape *shape,
                                  uint32_t from, const int64_t *strides, uint32_t *out)
{
    int64_t m = shape->m, c = shape->c, taps = shape->taps;
    struct eng_region region = {.source = from,
                                .rank = 4,
                                .size = {shape->groups, taps, m, c},
                                .dst_stride = {m * c * taps, 1, c * taps, taps}};
    base_assert(ad_count(ad, shape->w) == shape->groups * m * c * taps);
    memcpy(region.src_stride, strides, 4 * sizeof(int64_t));
    BASE_TRY(ad_like(ad, shape->w, out));
    return raster(ad, &(struct move){from, &region, 1, false}, *out);
}

// dw [groups, m, taps, c] = dy^T [groups, m, rows] windows [rows, taps, groups, c]: one product
// over all taps without groups, else one for each group and tap.
static enum base_status by_products(struct eng_ad *ad, const struct weights_shape *weights_shape,
                                    uint32_t dy, uint32_t windows, uint32_t *out)
{
    const uint32_t inputs[2] = {dy, windows};
    int64_t m = weights_shape->m * weights_shape->groups,
            row = weights_shape->taps * weights_shape->c * weights_shape->groups;
    struct eng_command *matmul = NULL;
    bool is_one = weights_shape->groups == 1;
    base_assert(ad_count(ad, dy) == weights_shape->rows * m);
    base_assert(ad_count(ad, windows) == weights_shape->rows * row);
    BASE_TRY(ad_flat(ad, ad_tensor(ad, dy)->desc.dtype, m * weights_shape->c * weights_shape->taps,
                     out));
    BASE_TRY(ad_command(ad, ENG_OP_MATMUL, &(struct ad_ports){inputs, 2, *out}, &matmul));
    matmul->u.matmul =
        (struct eng_matmul){.alpha = 1, .epilogue = {.bias = ENG_NONE, .residual = ENG_NONE}};
    if (is_one) {
        matmul->box = (struct eng_box){.rank = 3, .size = {m, row, weights_shape->rows}};
        matmul->views[0] = (struct eng_view){.stride = {1, 0, m}};
        matmul->views[1] = (struct eng_view){.stride = {0, 1, row}};
    } else {
        matmul->u.matmul.batch_rank = 2;
        matmul->box =
            (struct eng_box){.rank = 5,
                             .size = {weights_shape->groups, weights_shape->taps, weights_shape->m,
                                      weights_shape->c, weights_shape->rows}};
        matmul->views[0] = (struct eng_view){.stride = {weights_shape->m, 0, 1, 0, m}};
        matmul->views[1] = (struct eng_view){
            .stride = {weights_shape->c, weights_shape->groups * weights_shape->c, 0, 1, row}};
    }
    const int64_t joined[4] = {0, weights_shape->c, weights_shape->taps * weights_shape->c, 1};
    const int64_t parted[4] = {weights_shape->taps * weights_shape->m * weights_shape->c,
                               weights_shape->m * weights_shape->c, weights_shape->c, 1};
    return weights_shape->taps > 1
               ? taps_last(ad, weights_shape, *out, is_one ? joined : parted, out)
               : BASE_OK;
}

// One channel in and out of each group: dw [taps, channels] = sum over rows of dy * windows.
static enum base_status by_sums(struct eng_ad *ad, const struct weights_shape *weights_shape,
                                uint32_t dy, uint32_t windows, uint32_t *out)
{
    base_assert(weights_shape->m == 1 && weights_shape->c == 1);
    struct eng_box box = {
        .rank = 3, .size = {weights_shape->rows, weights_shape->taps, weights_shape->groups}};
    struct eng_view across = {.stride = {weights_shape->groups, 0, 1}};
    enum eng_dtype dtype = ad_tensor(ad, dy)->desc.dtype;
    const int64_t strides[4] = {1, weights_shape->groups, 1, 1};
    struct ad_expr e;
    ad_expr_init(&e, &box);
    uint8_t window = ad_load_dense(&e, windows);
    (void)ad_binary(&e, ENG_MUL, window, ad_load(&e, dy, &across));
    BASE_TRY(ad_expr_emit(ad, &e, dtype, out));
    const struct eng_reduce rows = {ENG_REDUCE_SUM, 1, weights_shape->rows,
                                    weights_shape->taps * weights_shape->groups};
    BASE_TRY(ad_reduce(ad, *out, &rows, out));
    return weights_shape->taps > 1 ? taps_last(ad, weights_shape, *out, strides, out) : BASE_OK;
}

static enum base_status by_weights(struct eng_ad *ad, const struct eng_command *command,
                                   uint32_t dy, uint32_t *out)
{
    const struct eng_conv *conv = &command->u.conv;
    uint32_t x = command->inputs[0], w = command->inputs[1], windows = x;
    struct eng_desc y = ad_tensor(ad, dy)->desc;
    struct weights_shape s = {.w = w,
                              .groups = conv->groups,
                              .m = y.dims[1] / conv->groups,
                              .c = ad_tensor(ad, x)->desc.dims[1] / conv->groups,
                              .taps = taps_of(conv)};
    base_assert(ad_count(ad, w) == y.dims[1] * s.c * s.taps);
    if (s.taps > TAPS_MAX || eng_desc_count(&y) == 0 ||
        has_weights_kernel(ad, conv, x, y.dims[1])) {
        const uint32_t inputs[2] = {x, dy};
        BASE_TRY(ad_like(ad, w, out));
        return emit_conv(ad, ENG_OP_CONV_GRAD_WEIGHT, conv, inputs, *out);
    }
    s.rows = eng_desc_count(&y) / y.dims[1];
    if (s.taps > 1 || has_padding(conv) || s.rows * s.c * s.groups != ad_count(ad, x)) {
        BASE_TRY(lay_windows(ad, conv, x, &y, &windows));
    }
    bool is_depthwise = s.groups > 1 && s.m == 1 && s.c == 1;
    return is_depthwise ? by_sums(ad, &s, dy, windows, out) : by_products(ad, &s, dy, windows, out);
}

// --- rules ------------------------------------------------------------------------------------

enum base_status ad_rule_conv(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    uint32_t x = command->inputs[0], w = command->inputs[1], gradient = ENG_NONE;
    BASE_TRY(check_epilogue(ad, command, dy));
    if (ad_needs(ad, command, 0)) {
        BASE_TRY(by_input(ad, command, dy, &gradient));
        BASE_TRY(ad_give(ad, x, gradient));
    }
    if (ad_needs(ad, command, 1)) {
        BASE_TRY(by_weights(ad, command, dy, &gradient));
        BASE_TRY(ad_give(ad, w, gradient));
    }
    return BASE_OK;
}

// A transposed convolution is the gradient of a convolution by its input, whose gradient again is
// that convolution: dx = CONV(dy, w); and w joins dy (the large side) and x (the small one).
enum base_status ad_rule_conv_transpose(struct eng_ad *ad, const struct eng_command *command,
                                        uint32_t dy)
{
    uint32_t x = command->inputs[0], w = command->inputs[1], gradient = ENG_NONE;
    const uint32_t by_x[2] = {dy, w}, by_w[2] = {dy, x};
    BASE_TRY(check_epilogue(ad, command, dy));
    if (ad_needs(ad, command, 0)) {
        BASE_TRY(ad_like(ad, x, &gradient));
        BASE_TRY(emit_conv(ad, ENG_OP_CONV, &command->u.conv, by_x, gradient));
        BASE_TRY(ad_give(ad, x, gradient));
    }
    if (ad_needs(ad, command, 1)) {
        BASE_TRY(ad_like(ad, w, &gradient));
        BASE_TRY(emit_conv(ad, ENG_OP_CONV_GRAD_WEIGHT, &command->u.conv, by_w, gradient));
        BASE_TRY(ad_give(ad, w, gradient));
    }
    return BASE_OK;
}
