// Spectra and windows. A discrete Fourier transform is a product with a constant matrix; windows
// and mel filters are constants.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/move_kit.h"

#include "base/check.h"

#include <math.h>

// Most elements of a window, a filter bank or a transform's matrix: computed while planning.
#define SIGNAL_ELEMENTS_MAX ((int64_t)1 << 25)
#define TAU                 6.283185307179586476925286766559

// A constant of real type `desc->dtype` from doubles.
static enum base_status const_reals(struct eng_lower *lower, const struct eng_node *node,
                                    const struct eng_desc *desc, const double *values,
                                    uint32_t *out)
{
    struct eng_desc wide = *desc;
    uint32_t tensor = ENG_NONE;
    wide.dtype = ENG_F64;
    if (desc->dtype == ENG_STRING || desc->dtype == ENG_C64 || desc->dtype == ENG_C128 ||
        desc->dtype == ENG_UNDEFINED) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "a result of type %s is not defined",
                              eng_dtype_name(desc->dtype));
    }
    if (desc->dtype != ENG_F32) {
        BASE_TRY(eng_lower_const(lower, &wide, values, &tensor));
        return eng_emit_cast(lower, tensor, desc->dtype, out);
    }
    int64_t count = eng_desc_count(desc);
    base_assert(count <= SIGNAL_ELEMENTS_MAX);
    float *narrow = eng_lower_alloc(lower, (size_t)count * sizeof(*narrow) + 1);
    if (narrow == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        narrow[i] = (float)values[i];
    }
    return eng_lower_const(lower, desc, narrow, out);
}

static double *alloc_reals(struct eng_lower *lower, int64_t count)
{
    return eng_lower_alloc(lower, (size_t)count * sizeof(double) + 1);
}

static enum base_status output_dtype(struct eng_lower *lower, const struct eng_node *node,
                                     enum eng_dtype *out)
{
    int64_t dtype = eng_node_int(node, "output_datatype", ENG_F32);
    if (dtype <= ENG_UNDEFINED || dtype >= ENG_DTYPE_COUNT) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "output_datatype %lld is not a type",
                              (long long)dtype);
    }
    *out = (enum eng_dtype)dtype;
    return BASE_OK;
}

// --- windows

// a0 + a1 cos(x) + a2 cos(2x) over one period, or over size - 1 steps when not periodic.
static enum base_status window(struct eng_lower *lower, const struct eng_node *node, double a0,
                               double a1, double a2)
{
    int64_t size = 0;
    uint32_t out = ENG_NONE;
    struct eng_desc desc = {.rank = 1};
    BASE_TRY(eng_input_int(lower, node, 0, &size));
    BASE_TRY(output_dtype(lower, node, &desc.dtype));
    if (size < 0 || size > SIGNAL_ELEMENTS_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "a window of %lld elements",
                              (long long)size);
    }
    desc.dims[0] = size;
    int64_t steps = eng_node_int(node, "periodic", 1) != 0 ? size : size - 1;
    base_assert(steps >= 0 || size == 0);
    double *values = alloc_reals(lower, size);
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < size; i++) {
        double x = TAU * (double)i / (double)steps;
        values[i] = steps == 0 ? 1 : a0 + a1 * cos(x) + a2 * cos(2 * x);
    }
    BASE_TRY(const_reals(lower, node, &desc, values, &out));
    return eng_lower_output(lower, node, 0, out);
}

static enum base_status lower_hann(struct eng_lower *lower, const struct eng_node *node)
{
    return window(lower, node, 0.5, -0.5, 0);
}

static enum base_status lower_hamming(struct eng_lower *lower, const struct eng_node *node)
{
    return window(lower, node, 25.0 / 46, 25.0 / 46 - 1, 0);
}

static enum base_status lower_blackman(struct eng_lower *lower, const struct eng_node *node)
{
    return window(lower, node, 0.42, -0.5, 0.08);
}

// --- mel filters

struct mel {
    int64_t bins, dft_length, rate; // filters, length of the transform, samples a second
    double low, high;               // hertz
};

static double mel_of(double hertz)
{
    return 2595 * log10(1 + hertz / 700);
}

// Number of the spectrum's bin in which edge `i` of the filters lies.
static int64_t mel_edge(const struct mel *mel, int64_t index)
{
    double low = mel_of(mel->low);
    double step = (mel_of(mel->high) - low) / (double)(mel->bins + 2);
    double hertz = 700 * (pow(10, (low + (double)index * step) / 2595) - 1);
    return (int64_t)floor((double)(mel->dft_length + 1) * hertz / (double)mel->rate);
}

// Triangle i rises from edge i to edge i + 1 and falls to edge i + 2.
static void mel_fill(const struct mel *mel, int64_t rows, double *values)
{
    base_assert(rows == mel->dft_length / 2 + 1);
    for (int64_t i = 0; i < mel->bins; i++) {
        int64_t left = mel_edge(mel, i);
        int64_t center = mel_edge(mel, i + 1);
        int64_t right = mel_edge(mel, i + 2);
        for (int64_t j = left < 0 ? 0 : left; j < rows && (j < right || j <= center); j++) {
            double rise = center == left ? 1 : (double)(j - left) / (double)(center - left);
            double fall = right == center ? 1 : (double)(right - j) / (double)(right - center);
            values[j * mel->bins + i] = j < center || center == right ? rise : fall;
        }
    }
}

static enum base_status lower_mel(struct eng_lower *lower, const struct eng_node *node)
{
    struct mel mel = {0};
    struct eng_desc desc = {.rank = 2};
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_input_int(lower, node, 0, &mel.bins));
    BASE_TRY(eng_input_int(lower, node, 1, &mel.dft_length));
    BASE_TRY(eng_input_int(lower, node, 2, &mel.rate));
    BASE_TRY(eng_lower_input(lower, node, 3, &tensor));
    BASE_TRY(eng_lower_scalar(lower, node, tensor, &mel.low));
    BASE_TRY(eng_lower_input(lower, node, 4, &tensor));
    BASE_TRY(eng_lower_scalar(lower, node, tensor, &mel.high));
    BASE_TRY(output_dtype(lower, node, &desc.dtype));
    int64_t rows = mel.dft_length / 2 + 1;
    if (mel.bins < 1 || mel.dft_length < 1 || mel.rate < 1 || mel.bins > SIGNAL_ELEMENTS_MAX ||
        rows > SIGNAL_ELEMENTS_MAX / mel.bins || !(mel.low >= 0 && mel.high >= mel.low) ||
        !(mel.high <= (double)mel.rate)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "%lld bins of a transform of %lld at rate %lld, %g to %g hertz",
                              (long long)mel.bins, (long long)mel.dft_length, (long long)mel.rate,
                              mel.low, mel.high);
    }
    base_assert(rows >= 1 && rows * mel.bins <= SIGNAL_ELEMENTS_MAX);
    desc.dims[0] = rows;
    desc.dims[1] = mel.bins;
    double *values = alloc_reals(lower, rows * mel.bins);
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < rows * mel.bins; i++) {
        values[i] = 0;
    }
    mel_fill(&mel, rows, values);
    uint32_t out = ENG_NONE;
    BASE_TRY(const_reals(lower, node, &desc, values, &out));
    return eng_lower_output(lower, node, 0, out);
}

// --- transforms

struct dft {
    int64_t length;  // of the transform
    int64_t results; // kept of it
    int64_t parts;   // 1: real input, 2: real and imaginary
    bool inverse;
};

// The matrix [length * parts, results * 2] that transforms rows of interleaved parts.
static enum base_status dft_matrix(struct eng_lower *lower, const struct eng_node *node,
                                   const struct dft *dft, enum eng_dtype dtype, uint32_t *out)
{
    base_assert(dft->parts == 1 || dft->parts == 2);
    base_assert(dft->results <= dft->length);
    int64_t rows = dft->length * dft->parts;
    int64_t columns = dft->results * 2;
    if (columns > 0 && rows > SIGNAL_ELEMENTS_MAX / columns) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "a transform of length %lld",
                              (long long)dft->length);
    }
    double *values = alloc_reals(lower, rows * columns);
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    double scale = dft->inverse ? 1 / (double)dft->length : 1;
    for (int64_t n = 0; n < dft->length; n++) {
        for (int64_t k = 0; k < dft->results; k++) {
            // The product is taken modulo the length first: exact however long.
            double x = TAU * (double)(n * k % dft->length) / (double)dft->length;
            double real = scale * cos(x);
            double imaginary = scale * (dft->inverse ? sin(x) : -sin(x));
            double *row = values + n * dft->parts * columns + 2 * k;
            row[0] = real;
            row[1] = imaginary;
            if (dft->parts == 2) {
                row[columns] = -imaginary;
                row[columns + 1] = real;
            }
        }
    }
    struct eng_desc desc = eng_desc_of(dtype, (int64_t[]){rows, columns}, 2);
    return const_reals(lower, node, &desc, values, out);
}

// The input [..., n, parts] with n >= 1 to [..., results, 2]; zero-padded or cut to the length.
static enum base_status emit_dft(struct eng_lower *lower, const struct eng_node *node,
                                 const struct dft *dft, uint32_t input, uint32_t *out)
{
    uint32_t matrix = ENG_NONE;
    BASE_TRY(eng_lower_plain(lower, input, &input));
    struct eng_desc in = *eng_lower_desc(lower, input);
    base_assert(in.rank >= 2 && in.dims[in.rank - 1] == dft->parts);
    uint32_t axis = in.rank - 2;
    int64_t outer = eng_dims_product(in.dims, 0, axis);
    struct eng_desc desc = in;
    desc.dims[axis] = dft->length;
    if (in.dims[axis] != dft->length) {
        struct eng_map map = {.source = input, .rank = 2};
        struct eng_maps maps = {.l = lower};
        int64_t kept = in.dims[axis] < dft->length ? in.dims[axis] : dft->length;
        map.size[0] = outer;
        map.src_stride[0] = in.dims[axis] * dft->parts;
        map.dst_stride[0] = dft->length * dft->parts;
        map.size[1] = kept * dft->parts;
        map.src_stride[1] = 1;
        map.dst_stride[1] = 1;
        BASE_TRY(eng_desc_allow(lower, node, &desc));
        BASE_TRY(eng_maps_add(&maps, &map));
        BASE_TRY(eng_maps_finish(&maps, &desc, &input));
    }
    struct eng_desc flat = eng_desc_of(in.dtype, (int64_t[]){outer, dft->length * dft->parts}, 2);
    BASE_TRY(dft_matrix(lower, node, dft, in.dtype, &matrix));
    BASE_TRY(eng_lower_reshape(lower, input, &flat, &input));
    BASE_TRY(eng_emit_matmul(lower, (struct eng_factor){.tensor = input},
                             (struct eng_factor){.tensor = matrix}, 1, &input));
    desc.dims[axis] = dft->results;
    desc.dims[axis + 1] = 2;
    return eng_lower_reshape(lower, input, &desc, out);
}

static enum base_status check_signal(struct eng_lower *lower, const struct eng_node *node,
                                     const struct eng_desc *in, uint32_t rank_min)
{
    bool is_real = in->dtype == ENG_F32 || in->dtype == ENG_F64 || in->dtype == ENG_F16 ||
                   in->dtype == ENG_BF16;
    if (!is_real || in->rank < rank_min ||
        (in->dims[in->rank - 1] != 1 && in->dims[in->rank - 1] != 2)) {
        char text[72];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %s is no signal [..., 1 or 2]",
                              eng_desc_text(in, text, sizeof(text)));
    }
    return BASE_OK;
}

// The axis is an attribute (1 by default), since opset 20 an input (the last before the parts).
static enum base_status dft_axis(struct eng_lower *lower, const struct eng_node *node,
                                 uint32_t rank, uint32_t *out)
{
    int64_t axis = node->opset < 20 ? eng_node_int(node, "axis", 1) : -2;
    if (node->opset >= 20 && eng_lower_has(lower, node, 2)) {
        BASE_TRY(eng_input_int(lower, node, 2, &axis));
    }
    return eng_lower_axis(lower, node, axis, rank, out);
}

static enum base_status lower_dft(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t axis = 0;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    struct eng_desc in = *eng_lower_desc(lower, x);
    BASE_TRY(check_signal(lower, node, &in, 2));
    BASE_TRY(dft_axis(lower, node, in.rank, &axis));
    struct dft dft = {.parts = in.dims[in.rank - 1],
                      .length = in.dims[axis],
                      .inverse = eng_node_int(node, "inverse", 0) != 0};
    if (eng_lower_has(lower, node, 1)) {
        BASE_TRY(eng_input_int(lower, node, 1, &dft.length));
    }
    bool onesided = eng_node_int(node, "onesided", 0) != 0;
    if (axis == in.rank - 1 || dft.length < 1 || dft.length > SIGNAL_ELEMENTS_MAX ||
        (onesided && dft.inverse)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "axis %u, length %lld, onesided %d, inverse %d", axis,
                              (long long)dft.length, onesided, dft.inverse);
    }
    dft.results = onesided ? dft.length / 2 + 1 : dft.length;
    // The transformed axis goes right before the parts, and back.
    base_assert(in.rank >= 2 && axis <= in.rank - 2);
    uint32_t perm[ENG_RANK_MAX];
    for (uint32_t d = 0; d < in.rank; d++) {
        perm[d] = d;
    }
    perm[axis] = in.rank - 2;
    perm[in.rank - 2] = axis;
    BASE_TRY(eng_lower_transpose(lower, x, perm, &x));
    BASE_TRY(emit_dft(lower, node, &dft, x, &x));
    BASE_TRY(eng_lower_transpose(lower, x, perm, &x));
    return eng_lower_output(lower, node, 0, x);
}

// Overlapping frames of a signal [batch, n, parts] as a virtual tensor [batch, frames, length,
// parts].
static enum base_status take_frames(struct eng_lower *lower, uint32_t input, int64_t step,
                                    const struct eng_desc *desc, uint32_t *out)
{
    const struct eng_desc in = *eng_lower_desc(lower, input);
    base_assert(in.rank == 3 && desc->rank == 4);
    struct eng_map map;
    struct eng_maps maps = {.l = lower};
    eng_map_init(&map, input, desc);
    map.src_stride[0] = in.dims[1] * in.dims[2];
    map.src_stride[1] = step * in.dims[2];
    map.src_stride[2] = in.dims[2];
    map.src_stride[3] = 1;
    BASE_TRY(eng_maps_add(&maps, &map));
    return eng_maps_finish(&maps, desc, out);
}

static enum base_status lower_stft(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t window = ENG_NONE;
    int64_t step = 0;
    struct eng_desc in;
    BASE_TRY(eng_input_plain(lower, node, 0, &x, &in));
    BASE_TRY(check_signal(lower, node, &in, 3));
    BASE_TRY(eng_input_int(lower, node, 1, &step));
    BASE_TRY(eng_lower_optional(lower, node, 2, &window));
    struct dft dft = {.parts = in.dims[2], .length = in.dims[1]};
    if (window != ENG_NONE) {
        const struct eng_desc *shape = eng_lower_desc(lower, window);
        dft.length = shape->rank == 1 && shape->dtype == in.dtype ? shape->dims[0] : 0;
    }
    if (eng_lower_has(lower, node, 3)) {
        int64_t given = 0;
        BASE_TRY(eng_input_int(lower, node, 3, &given));
        dft.length = window == ENG_NONE || given == dft.length ? given : 0;
    }
    if (in.rank != 3 || step < 1 || step > ENG_ELEMENTS_MAX || dft.length < 1 ||
        dft.length > in.dims[1]) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "frames of %lld in steps of %lld over a signal of %lld",
                              (long long)dft.length, (long long)step, (long long)in.dims[1]);
    }
    bool onesided = eng_node_int(node, "onesided", 1) != 0;
    dft.results = onesided ? dft.length / 2 + 1 : dft.length;
    int64_t frames = 1 + (in.dims[1] - dft.length) / step;
    base_assert(frames >= 1 && (frames - 1) * step + dft.length <= in.dims[1]);
    struct eng_desc desc =
        eng_desc_of(in.dtype, (int64_t[]){in.dims[0], frames, dft.length, in.dims[2]}, 4);
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    BASE_TRY(take_frames(lower, x, step, &desc, &x));
    if (window != ENG_NONE) {
        struct eng_desc wide = eng_desc_of(in.dtype, (int64_t[]){dft.length, 1}, 2);
        BASE_TRY(eng_lower_reshape(lower, window, &wide, &window));
        BASE_TRY(eng_emit_binary(lower, ENG_MUL, x, window, &x));
    }
    BASE_TRY(emit_dft(lower, node, &dft, x, &x));
    return eng_lower_output(lower, node, 0, x);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("HannWindow", 17, ENG_OPSET_MAX, COMPOSITE, lower_hann),
    ENG_OP_ROW("HammingWindow", 17, ENG_OPSET_MAX, COMPOSITE, lower_hamming),
    ENG_OP_ROW("BlackmanWindow", 17, ENG_OPSET_MAX, COMPOSITE, lower_blackman),
    ENG_OP_ROW("MelWeightMatrix", 17, ENG_OPSET_MAX, COMPOSITE, lower_mel),
    ENG_OP_ROW("DFT", 17, ENG_OPSET_MAX, COMPOSITE, lower_dft),
    ENG_OP_ROW("STFT", 17, ENG_OPSET_MAX, COMPOSITE, lower_stft),
};
const struct eng_op_table eng_ops_signal = ENG_OP_TABLE(rows);
