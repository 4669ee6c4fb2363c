// Pad in all its modes as regions. Constant zeros are what a virtual tensor leaves unwritten, other
// constants are slabs read with stride 0 from one element, edge and reflect are slabs read with
// strides 0 and -1, wrap with stride 1.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/move_kit.h"

#include "base/check.h"

#include <string.h>

enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

// Part of one dimension of the result: `count` places from `to` on read from `from` in steps.
struct pad_piece {
    int64_t to, from, step, count;
};
#define PAD_PIECES_MAX 64 // of one dimension: reflections of reflections, repeats included
struct pad_axis {
    struct pad_piece pieces[PAD_PIECES_MAX];
    uint32_t count;
};

struct pad_args {
    enum pad_mode mode;
    int64_t begin[ENG_RANK_MAX], end[ENG_RANK_MAX]; // negative: cut
    uint32_t value;                                 // one element, ENG_NONE: zero
};

static enum base_status pad_value(struct eng_lower *lower, const struct eng_node *node,
                                  const struct eng_desc *in, struct pad_args *args)
{
    args->value = ENG_NONE;
    if (args->mode != PAD_CONSTANT) {
        return BASE_OK;
    }
    if (!eng_lower_has(lower, node, 2)) {
        float value = eng_node_float(node, "value", 0);
        return value == 0 ? BASE_OK
                          : eng_lower_const_f32(lower, in->dtype, (double)value, &args->value);
    }
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 2, &tensor));
    struct eng_desc desc = *eng_lower_desc(lower, tensor);
    if (desc.dtype != in->dtype || eng_desc_count(&desc) != 1) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "constant_value must be one %s",
                              eng_dtype_name(in->dtype));
    }
    if (eng_lower_is_known(lower, tensor)) {
        struct eng_array array;
        static const uint8_t zeros[16] = {0};
        base_assert(eng_dtype_bytes(in->dtype) <= sizeof(zeros));
        BASE_TRY(eng_lower_content(lower, tensor, &array));
        if (in->dtype != ENG_STRING && memcmp(array.data, zeros, eng_dtype_bytes(in->dtype)) == 0) {
            return BASE_OK;
        }
    }
    return eng_lower_plain(lower, tensor, &args->value);
}

// Pads of the axes that input 3 names; of all axes when it is not there.
static enum base_status pad_sizes(struct eng_lower *lower, const struct eng_node *node,
                                  const struct eng_desc *in, struct pad_args *args)
{
    struct eng_ints pads;
    const int64_t *axes = NULL;
    uint32_t axis_count = in->rank;
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_lower_ints_of(lower, node, 1, node->opset < 2 ? "paddings" : "pads", &pads));
    BASE_TRY(eng_lower_optional(lower, node, 3, &tensor));
    if (tensor != ENG_NONE) {
        BASE_TRY(eng_lower_ints(lower, node, tensor, &axes, &axis_count));
    }
    if (pads.count != 2 * (uint64_t)axis_count) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%u pads for %u %s", pads.count,
                              axis_count, axes != NULL ? "axes" : "dimensions");
    }
    base_assert(pads.values != NULL || axis_count == 0);
    bool seen[ENG_RANK_MAX] = {false};
    for (uint32_t i = 0; i < axis_count; i++) {
        uint32_t d = 0;
        BASE_TRY(eng_lower_axis(lower, node, axes != NULL ? axes[i] : (int64_t)i, in->rank, &d));
        args->begin[d] = pads.values[i];
        args->end[d] = pads.values[axis_count + i];
        if (seen[d]) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "axis %u is given twice", d);
        }
        if (args->begin[d] < -ENG_ELEMENTS_MAX || args->begin[d] > ENG_ELEMENTS_MAX ||
            args->end[d] < -ENG_ELEMENTS_MAX || args->end[d] > ENG_ELEMENTS_MAX) {
            return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "pads of axis %u: %lld and %lld",
                                  d, (long long)args->begin[d], (long long)args->end[d]);
        }
        seen[d] = true;
    }
    return BASE_OK;
}

static enum base_status pad_args(struct eng_lower *lower, const struct eng_node *node,
                                 const struct eng_desc *in, struct pad_args *args)
{
    struct eng_string mode = eng_node_string(node, "mode", "constant");
    if (eng_string_is(mode, "constant")) {
        args->mode = PAD_CONSTANT;
    } else if (eng_string_is(mode, "reflect")) {
        args->mode = PAD_REFLECT;
    } else if (eng_string_is(mode, "edge")) {
        args->mode = PAD_EDGE;
    } else if (eng_string_is(mode, "wrap") && node->opset >= 19) {
        args->mode = PAD_WRAP;
    } else {
        return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED, "mode '%.*s' is not known",
                              (int)(mode.size > 32 ? 32 : mode.size), mode.at);
    }
    BASE_TRY(pad_sizes(lower, node, in, args));
    return pad_value(lower, node, in, args);
}

// Places [to, to + count) of the result, before or after the middle. `at` is where the first of
// them would lie among the source places kept (negative: before them).
struct pad_gap {
    int64_t at, to, count;
};

// What lies in a gap when reading mirrors at both ends of what is kept, the first piece.
static enum base_status reflect_pieces(struct pad_axis *axis, struct pad_gap gap)
{
    const int64_t n = axis->pieces[0].count;
    const int64_t first = axis->pieces[0].from;
    base_assert(axis->count >= 1 && n > 1);
    int64_t period = 2 * (n - 1);
    while (gap.count > 0) {
        if (axis->count == PAD_PIECES_MAX) {
            return BASE_ERR_LIMIT;
        }
        int64_t phase = ((gap.at % period) + period) % period;
        bool up = phase < n - 1;
        // Going up from `phase` to n-2, or down from n-1 to 1: turning points end the piece.
        int64_t run = up ? n - 1 - phase : period - phase;
        run = run < gap.count ? run : gap.count;
        axis->pieces[axis->count++] =
            (struct pad_piece){gap.to, first + (up ? phase : period - phase), up ? 1 : -1, run};
        gap.at += run;
        gap.to += run;
        gap.count -= run;
    }
    return BASE_OK;
}

// The same when reading begins anew at each end.
static enum base_status wrap_pieces(struct pad_axis *axis, struct pad_gap gap)
{
    const int64_t n = axis->pieces[0].count;
    const int64_t first = axis->pieces[0].from;
    base_assert(axis->count >= 1 && n > 0);
    while (gap.count > 0) {
        if (axis->count == PAD_PIECES_MAX) {
            return BASE_ERR_LIMIT;
        }
        int64_t phase = ((gap.at % n) + n) % n;
        int64_t run = n - phase < gap.count ? n - phase : gap.count;
        axis->pieces[axis->count++] = (struct pad_piece){gap.to, first + phase, 1, run};
        gap.at += run;
        gap.to += run;
        gap.count -= run;
    }
    return BASE_OK;
}

// Pieces of one dimension outside the middle; the middle is the first piece.
static enum base_status pad_pieces(enum pad_mode mode, int64_t dim, int64_t begin, int64_t end,
                                   struct pad_axis *axis)
{
    int64_t cut = begin < 0 ? -begin : 0;
    int64_t kept = dim - cut - (end < 0 ? -end : 0);
    int64_t before = begin > 0 ? begin : 0;
    int64_t after = end > 0 ? end : 0;
    base_assert(kept >= 0);
    axis->pieces[0] = (struct pad_piece){before, cut, 1, kept};
    axis->count = 1;
    if (mode == PAD_CONSTANT || (before == 0 && after == 0)) {
        return BASE_OK;
    }
    const struct pad_gap front = {.at = -before, .to = 0, .count = before};
    const struct pad_gap back = {.at = kept, .to = before + kept, .count = after};
    if (mode == PAD_REFLECT && kept > 1) {
        BASE_TRY(reflect_pieces(axis, front));
        return reflect_pieces(axis, back);
    }
    if (mode == PAD_WRAP) { // of at least one element: pad_axes
        BASE_TRY(wrap_pieces(axis, front));
        return wrap_pieces(axis, back);
    }
    axis->pieces[1] = (struct pad_piece){0, cut, 0, before};
    axis->pieces[2] = (struct pad_piece){before + kept, cut + kept - 1, 0, after};
    axis->count = 3;
    return BASE_OK;
}

// The product of all dimensions' pieces, each combination one region.
static enum base_status add_pieces(struct eng_maps *maps, uint32_t input, const struct eng_desc *in,
                                   const struct eng_desc *out, const struct pad_axis *axes)
{
    base_assert(in->rank == out->rank);
    int64_t from[ENG_RANK_MAX];
    int64_t to[ENG_RANK_MAX];
    eng_layout_strides(in, ENG_PLAIN, from);
    eng_layout_strides(out, ENG_PLAIN, to);
    uint32_t at[ENG_RANK_MAX] = {0};
    while (true) {
        struct eng_map map = {.source = input, .rank = in->rank};
        for (uint32_t d = 0; d < in->rank; d++) {
            const struct pad_piece *piece = &axes[d].pieces[at[d]];
            map.src_offset += piece->from * from[d];
            map.dst_offset += piece->to * to[d];
            map.size[d] = piece->count;
            map.src_stride[d] = piece->step * from[d];
            map.dst_stride[d] = to[d];
        }
        BASE_TRY(eng_maps_add(maps, &map));
        uint32_t d = in->rank;
        while (d > 0 && ++at[d - 1] == axes[d - 1].count) {
            at[--d] = 0;
        }
        if (d == 0) {
            return BASE_OK;
        }
    }
}

// Slabs of the constant around the middle: before and after it in dimension d, within the middle
// of the dimensions before d, over everything in those behind.
static enum base_status add_slabs(struct eng_maps *maps, uint32_t value, const struct eng_desc *out,
                                  const struct pad_axis *axes)
{
    base_assert(eng_desc_count(eng_lower_desc(maps->l, value)) == 1);
    struct eng_map map;
    eng_map_init(&map, value, out);
    memset(map.src_stride, 0, sizeof(map.src_stride));
    for (uint32_t d = 0; d < out->rank; d++) {
        const struct pad_piece *middle = &axes[d].pieces[0];
        int64_t corner = map.dst_offset;
        int64_t behind = middle->to + middle->count;
        map.size[d] = middle->to;
        BASE_TRY(eng_maps_add(maps, &map));
        map.size[d] = out->dims[d] - behind;
        map.dst_offset = corner + behind * map.dst_stride[d];
        BASE_TRY(eng_maps_add(maps, &map));
        map.size[d] = middle->count;
        map.dst_offset = corner + middle->to * map.dst_stride[d];
    }
    return BASE_OK;
}

// Pieces of all dims; `desc`, the input's, becomes the result's.
static enum base_status pad_axes(struct eng_lower *lower, const struct eng_node *node,
                                 const struct pad_args *args, struct pad_axis *axes,
                                 struct eng_desc *desc)
{
    for (uint32_t d = 0; d < desc->rank; d++) {
        const int64_t dim = desc->dims[d];
        int64_t begin = args->begin[d];
        int64_t end = args->end[d];
        int64_t kept = dim + (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
        desc->dims[d] = dim + begin + end;
        if (kept < 0 || (kept == 0 && args->mode != PAD_CONSTANT && (begin > 0 || end > 0))) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "axis %u: pads %lld and %lld leave nothing of dimension %lld", d,
                                  (long long)begin, (long long)end, (long long)dim);
        }
        if (pad_pieces(args->mode, dim, begin, end, &axes[d]) != BASE_OK) {
            return eng_lower_fail(lower, node, BASE_ERR_LIMIT,
                                  "axis %u: dimension %lld is repeated more than %d times", d,
                                  (long long)dim, PAD_PIECES_MAX);
        }
    }
    return eng_desc_allow(lower, node, desc);
}

static enum base_status lower_pad(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t out = ENG_NONE;
    struct eng_desc in;
    struct pad_args args = {0};
    BASE_TRY(eng_input_plain(lower, node, 0, &x, &in));
    BASE_TRY(pad_args(lower, node, &in, &args));
    base_assert(args.value == ENG_NONE || args.mode == PAD_CONSTANT);
    struct pad_axis *axes = eng_lower_alloc(lower, ENG_RANK_MAX * sizeof(*axes));
    if (axes == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct eng_desc desc = in;
    BASE_TRY(pad_axes(lower, node, &args, axes, &desc));
    struct eng_maps maps = {.l = lower};
    enum base_status status = add_pieces(&maps, x, &in, &desc, axes);
    if (status == BASE_OK && args.value != ENG_NONE) {
        status = add_slabs(&maps, args.value, &desc, axes);
    }
    if (status == BASE_ERR_LIMIT) {
        return eng_lower_fail(lower, node, status, "more than %u pieces", ENG_REGIONS_MAX);
    }
    BASE_TRY(status);
    BASE_TRY(eng_maps_finish(&maps, &desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("Pad", 1, ENG_OPSET_MAX, TRANSFORM, lower_pad),
};
const struct eng_op_table eng_ops_pad = ENG_OP_TABLE(rows);
