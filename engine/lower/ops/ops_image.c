// Cropping and padding about the middle, columns put back to images, grids of affine maps.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/move_kit.h"

#include "base/check.h"

#include <string.h>

// Most numbers of an index list or a grid: computed while planning.
#define IMAGE_NUMBERS_MAX ((int64_t)1 << 25)
// Largest kernel, stride, dilation or pad: its product with a dimension stays within 63 bits.
#define COLUMN_MAX ((int64_t)1 << 20)

// --- CenterCropPad

// The middle of each axis is kept; what is missing around it is zero.
static enum base_status lower_center_crop_pad(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t tensor = ENG_NONE;
    uint32_t out = ENG_NONE;
    struct eng_desc in;
    const int64_t *sizes = NULL;
    uint32_t count = 0;
    uint32_t axis_count = 0;
    BASE_TRY(eng_input_plain(lower, node, 0, &x, &in));
    BASE_TRY(eng_lower_input(lower, node, 1, &tensor));
    BASE_TRY(eng_lower_ints(lower, node, tensor, &sizes, &count));
    const int64_t *axes = eng_node_ints(node, "axes", &axis_count);
    if (count != (axes != NULL ? axis_count : in.rank)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "shape has %u numbers for %u axes",
                              count, axes != NULL ? axis_count : in.rank);
    }
    struct eng_desc desc = in;
    bool seen[ENG_RANK_MAX] = {false};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d = 0;
        BASE_TRY(eng_lower_axis(lower, node, axes != NULL ? axes[i] : (int64_t)i, in.rank, &d));
        if (seen[d] || sizes[i] < 0) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "axis %u: size %lld%s", d,
                                  (long long)sizes[i], seen[d] ? ", given twice" : "");
        }
        seen[d] = true;
        desc.dims[d] = sizes[i];
    }
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    int64_t from[ENG_RANK_MAX];
    int64_t to[ENG_RANK_MAX];
    eng_layout_strides(&in, ENG_PLAIN, from);
    eng_layout_strides(&desc, ENG_PLAIN, to);
    struct eng_map map = {.source = x, .rank = in.rank};
    for (uint32_t d = 0; d < in.rank; d++) {
        int64_t more = desc.dims[d] - in.dims[d];
        map.size[d] = more < 0 ? desc.dims[d] : in.dims[d];
        base_assert(map.size[d] <= in.dims[d] && map.size[d] <= desc.dims[d]);
        map.src_stride[d] = from[d];
        map.dst_stride[d] = to[d];
        map.src_offset += more < 0 ? -more / 2 * from[d] : 0;
        map.dst_offset += more > 0 ? more / 2 * to[d] : 0;
    }
    struct eng_maps maps = {.l = lower};
    BASE_TRY(eng_maps_add(&maps, &map));
    BASE_TRY(eng_maps_finish(&maps, &desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

// --- Col2Im

struct columns {
    uint32_t spatial;
    int64_t image[ENG_RANK_MAX], kernel[ENG_RANK_MAX];
    int64_t stride[ENG_RANK_MAX], dilation[ENG_RANK_MAX];
    int64_t begin[ENG_RANK_MAX], padded[ENG_RANK_MAX]; // pads before; dims with both pads
    int64_t places[ENG_RANK_MAX];                      // windows along each dim
    int64_t kernel_count, place_count;
};

// An attribute of `count` numbers up to COLUMN_MAX. `numbers` holds what they are when it is not
// there, which is the least they may be, too.
static enum base_status column_attr(struct eng_lower *lower, const struct eng_node *node,
                                    const char *name, uint32_t count, int64_t *numbers)
{
    uint32_t given = 0;
    const int64_t *list = eng_node_ints(node, name, &given);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        int64_t least = numbers[i];
        if (given != count || list[i] < least || list[i] > COLUMN_MAX) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "attribute %s: %u numbers, %u wanted, from %lld to %lld", name,
                                  given, count, (long long)least, (long long)COLUMN_MAX);
        }
        numbers[i] = list[i];
    }
    return BASE_OK;
}

static enum base_status column_sizes(struct eng_lower *lower, const struct eng_node *node,
                                     uint32_t input, uint32_t count, int64_t *out)
{
    base_assert(count <= ENG_RANK_MAX);
    uint32_t tensor = ENG_NONE;
    const int64_t *list = NULL;
    uint32_t given = 0;
    BASE_TRY(eng_lower_input(lower, node, input, &tensor));
    BASE_TRY(eng_lower_ints(lower, node, tensor, &list, &given));
    for (uint32_t i = 0; i < given && given == count; i++) {
        out[i] = list[i];
        if (list[i] < 1 || list[i] > COLUMN_MAX) {
            given = UINT32_MAX;
        }
    }
    if (given != count) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input %u wants %u sizes from 1 to %lld", input, count,
                              (long long)COLUMN_MAX);
    }
    return BASE_OK;
}

static enum base_status columns_read(struct eng_lower *lower, const struct eng_node *node,
                                     struct columns *columns)
{
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 1, &tensor));
    int64_t spatial = eng_desc_count(eng_lower_desc(lower, tensor));
    if (spatial < 1 || spatial > ENG_RANK_MAX - 2) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "image_shape has %lld numbers",
                              (long long)spatial);
    }
    int64_t pads[2 * ENG_RANK_MAX] = {0};
    columns->spatial = (uint32_t)spatial;
    columns->kernel_count = 1;
    columns->place_count = 1;
    for (uint32_t d = 0; d < columns->spatial; d++) {
        columns->stride[d] = 1;
        columns->dilation[d] = 1;
    }
    BASE_TRY(column_sizes(lower, node, 1, columns->spatial, columns->image));
    BASE_TRY(column_sizes(lower, node, 2, columns->spatial, columns->kernel));
    BASE_TRY(column_attr(lower, node, "strides", columns->spatial, columns->stride));
    BASE_TRY(column_attr(lower, node, "dilations", columns->spatial, columns->dilation));
    BASE_TRY(column_attr(lower, node, "pads", 2 * columns->spatial, pads));
    for (uint32_t d = 0; d < columns->spatial; d++) {
        base_assert(columns->kernel_count >= 1 && columns->place_count >= 1); // divisors
        columns->begin[d] = pads[d];
        columns->padded[d] = columns->image[d] + pads[d] + pads[columns->spatial + d];
        int64_t room = columns->padded[d] - ((columns->kernel[d] - 1) * columns->dilation[d] + 1);
        columns->places[d] = room < 0 ? 0 : room / columns->stride[d] + 1;
        if (columns->kernel[d] > IMAGE_NUMBERS_MAX / columns->kernel_count ||
            columns->places[d] > IMAGE_NUMBERS_MAX / columns->place_count) {
            return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "too many places");
        }
        columns->kernel_count *= columns->kernel[d];
        columns->place_count *= columns->places[d];
        if (room < 0) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "a block of %lld in a padded image of %lld",
                                  (long long)columns->kernel[d], (long long)columns->padded[d]);
        }
    }
    return BASE_OK;
}

// For each element of the block, and each place of it: where in the padded image it goes.
static void columns_index(const struct columns *columns, int64_t *out)
{
    base_assert(columns->spatial >= 1 && columns->kernel_count >= 1);
    for (int64_t i = 0; i < columns->kernel_count * columns->place_count; i++) {
        int64_t element = i / columns->place_count;
        int64_t place = i % columns->place_count;
        int64_t stride = 1;
        out[i] = 0;
        for (uint32_t d = columns->spatial; d-- > 0;) {
            out[i] += stride * (place % columns->places[d] * columns->stride[d] +
                                element % columns->kernel[d] * columns->dilation[d]);
            place /= columns->places[d];
            element /= columns->kernel[d];
            stride *= columns->padded[d];
        }
    }
}

// updates [kernel, places, images] are added to zeros [padded image, images]; a row an index.
static enum base_status add_columns(struct eng_lower *lower, const struct eng_node *node,
                                    const struct columns *columns, uint32_t updates, uint32_t *out)
{
    int64_t count = columns->kernel_count * columns->place_count;
    base_assert(eng_lower_desc(lower, updates)->rank == 3);
    const int64_t images = eng_lower_desc(lower, updates)->dims[2];
    base_assert(count * images == eng_desc_count(eng_lower_desc(lower, updates)));
    struct eng_desc desc = {.dtype = eng_lower_desc(lower, updates)->dtype,
                            .rank = columns->spatial + 1};
    struct eng_desc list = eng_desc_of(ENG_I64, &count, 1);
    memcpy(desc.dims, columns->padded, columns->spatial * sizeof(desc.dims[0]));
    desc.dims[columns->spatial] = images;
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    int64_t *index = eng_lower_alloc(lower, (size_t)count * sizeof(*index));
    if (index == NULL) {
        return BASE_ERR_NOMEM;
    }
    columns_index(columns, index);
    uint32_t inputs[3] = {ENG_NONE, ENG_NONE, ENG_NONE};
    struct eng_desc rows = eng_desc_of(desc.dtype, (int64_t[]){count, images}, 2);
    BASE_TRY(eng_lower_virtual(lower, &desc, NULL, 0, &inputs[0]));
    BASE_TRY(eng_lower_const(lower, &list, index, &inputs[1]));
    BASE_TRY(eng_lower_reshape(lower, updates, &rows, &inputs[2]));
    const struct eng_command command = {
        .op = ENG_OP_SCATTER,
        .inputs = inputs,
        .input_count = 3,
        .output_count = 1,
        .u.scatter = {.fn = ENG_SCATTER_ADD,
                      .rows = eng_dims_product(columns->padded, 0, columns->spatial),
                      .count = count,
                      .inner = images},
    };
    return eng_emit(lower, &command, &desc, out);
}

static enum base_status lower_col2im(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    struct eng_desc in;
    struct columns c = {0};
    BASE_TRY(eng_input_plain(lower, node, 0, &x, &in));
    BASE_TRY(columns_read(lower, node, &c));
    if (in.rank != 3 || in.dims[1] % c.kernel_count != 0 || in.dims[2] != c.place_count ||
        c.kernel_count > IMAGE_NUMBERS_MAX / c.place_count || eng_desc_count(&in) == 0 ||
        in.dtype == ENG_STRING || in.dtype == ENG_BOOL) {
        char text[72];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input %s for blocks of %lld elements at %lld places",
                              eng_desc_text(&in, text, sizeof(text)), (long long)c.kernel_count,
                              (long long)c.place_count);
    }
    int64_t channels = in.dims[1] / c.kernel_count;
    int64_t images = in.dims[0] * channels;
    struct eng_desc split =
        eng_desc_of(in.dtype, (int64_t[]){images, c.kernel_count, c.place_count}, 3);
    static const uint32_t images_last[3] = {1, 2, 0};
    BASE_TRY(eng_lower_reshape(lower, x, &split, &x));
    BASE_TRY(eng_lower_transpose(lower, x, images_last, &x));
    BASE_TRY(add_columns(lower, node, &c, x, &x));
    uint32_t perm[ENG_RANK_MAX] = {c.spatial};
    struct eng_slice middle = {.step = {1}, .size = {images}};
    struct eng_desc desc =
        eng_desc_of(in.dtype, (int64_t[]){in.dims[0], channels, 0, 0, 0, 0, 0, 0}, 2);
    for (uint32_t d = 0; d < c.spatial; d++) {
        perm[d + 1] = d;
        middle.start[d + 1] = c.begin[d];
        middle.step[d + 1] = 1;
        middle.size[d + 1] = c.image[d];
        desc.dims[desc.rank++] = c.image[d];
    }
    base_assert(desc.rank == c.spatial + 2);
    BASE_TRY(eng_lower_transpose(lower, x, perm, &x));
    BASE_TRY(eng_lower_slice(lower, x, &middle, &x));
    return eng_output_reshaped(lower, node, x, &desc);
}

// --- AffineGrid

// Coordinates of places [count, spatial + 1] in -1..1: x, y (z), and 1.
static void grid_fill(const int64_t *dims, uint32_t spatial, bool align, double *out)
{
    base_assert(spatial == 2 || spatial == 3);
    int64_t count = eng_dims_product(dims, 0, spatial);
    for (int64_t i = 0; i < count; i++) {
        int64_t place = i;
        for (uint32_t d = spatial; d-- > 0;) {
            double n = (double)dims[d];
            double at = (double)(place % dims[d]);
            place /= dims[d];
            // The last dim is x, the first coordinate.
            out[i * (spatial + 1) + (spatial - 1 - d)] =
                align ? 2 * at / (n - 1) - 1 : (2 * at + 1) / n - 1;
        }
        out[i * (spatial + 1) + spatial] = 1;
    }
}

// Each place of the grid, as a row with a 1 behind it, times the transposed map.
static enum base_status lower_affine_grid(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t theta = ENG_NONE;
    uint32_t tensor = ENG_NONE;
    uint32_t grid = ENG_NONE;
    const int64_t *size = NULL;
    uint32_t count = 0;
    BASE_TRY(eng_lower_input(lower, node, 0, &theta));
    BASE_TRY(eng_lower_input(lower, node, 1, &tensor));
    BASE_TRY(eng_lower_ints(lower, node, tensor, &size, &count));
    struct eng_desc in = *eng_lower_desc(lower, theta);
    bool align = eng_node_int(node, "align_corners", 0) != 0;
    int64_t spatial = (int64_t)count - 2;
    bool fits =
        (spatial == 2 || spatial == 3) && in.rank == 3 && in.dims[0] == size[0] &&
        in.dims[1] == spatial && in.dims[2] == spatial + 1 &&
        (in.dtype == ENG_F32 || in.dtype == ENG_F64 || in.dtype == ENG_F16 || in.dtype == ENG_BF16);
    int64_t places = 1;
    for (uint32_t d = 2; fits && d < count; d++) {
        fits = size[d] > (align ? 1 : 0) && size[d] <= IMAGE_NUMBERS_MAX / 4 / places;
        places *= fits ? size[d] : 1;
    }
    if (!fits) {
        char text[72];
        return eng_lower_fail(
            lower, node, BASE_ERR_INVALID, "theta %s and a size of %u numbers%s do not make a grid",
            eng_desc_text(&in, text, sizeof(text)), count, align ? ", corners aligned," : "");
    }
    base_assert(places >= 1 && places <= IMAGE_NUMBERS_MAX / 4);
    struct eng_desc base = eng_desc_of(ENG_F64, (int64_t[]){places, spatial + 1}, 2);
    double *values = eng_lower_alloc(lower, (size_t)(places * (spatial + 1)) * sizeof(*values));
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    grid_fill(size + 2, (uint32_t)spatial, align, values);
    BASE_TRY(eng_lower_const(lower, &base, values, &grid));
    BASE_TRY(eng_emit_cast(lower, grid, in.dtype, &grid));
    BASE_TRY(eng_emit_matmul(lower, (struct eng_factor){.tensor = grid},
                             (struct eng_factor){theta, true}, 1, &grid));
    struct eng_desc desc = {.dtype = in.dtype, .rank = count, .dims = {in.dims[0]}};
    for (uint32_t d = 1; d + 1 < count; d++) {
        desc.dims[d] = size[d + 1];
    }
    desc.dims[count - 1] = spatial;
    return eng_output_reshaped(lower, node, grid, &desc);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("CenterCropPad", 18, ENG_OPSET_MAX, TRANSFORM, lower_center_crop_pad),
    ENG_OP_ROW("Col2Im", 18, ENG_OPSET_MAX, COMPOSITE, lower_col2im),
    ENG_OP_ROW("AffineGrid", 20, ENG_OPSET_MAX, COMPOSITE, lower_affine_grid),
};
const struct eng_op_table eng_ops_image = ENG_OP_TABLE(rows);
