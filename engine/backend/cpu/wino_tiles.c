// The tiles of Winograd's convolutions: where each lies in its image, its way into elements, and
// whether tiles pay at all for a shape. Called by conv_wino.c, conv_wino_live.c and
// conv_grad_wino.c: planned on the planning thread, run on the pool's. A tile that leaves the image
// is first copied with zeroes around it into the caller's memory (eng_wino_edge_floats), so that
// the transforms themselves know no edges.
#include "backend/cpu/wino_tiles.h"

#include "backend/cpu/conv_ops.h"
#include "base/check.h"

#include <string.h>

// In products of floats: transforming an element of a tile, and a kernel both ways.
#define TILE_COST   10.0
#define KERNEL_COST 400.0
#define WORTH       0.9 // of the direct way's cost

void eng_wino_tiles_init(struct eng_wino_tiles *tiles, const struct eng_gemm_kernels *kernels,
                         const struct eng_conv_shape *shape, uint32_t unit)
{
    const int64_t vl = kernels->vl;
    base_assert(unit == 2 || unit == 4);
    base_assert(eng_conv_fits_wino(shape));
    *tiles = (struct eng_wino_tiles){
        .kernels = kernels,
        .shape = *shape,
        .unit = unit,
        .size = unit + 2,
        .tiles_y = (shape->out[1] + unit - 1) / unit,
        .tiles_x = (shape->out[2] + unit - 1) / unit,
        .pitch = (shape->in_channels + vl - 1) / vl * vl,
    };
    tiles->count = shape->batch * tiles->tiles_y * tiles->tiles_x;
}

struct eng_wino_place eng_wino_place_of(const struct eng_wino_tiles *tiles, int64_t tile)
{
    const int64_t per_image = tiles->tiles_y * tiles->tiles_x, at = tile % per_image;
    return (struct eng_wino_place){tile / per_image, at / tiles->tiles_x * tiles->unit,
                                   at % tiles->tiles_x * tiles->unit};
}

size_t eng_wino_edge_floats(const struct eng_wino_tiles *tiles)
{
    const size_t floats = (size_t)tiles->size * tiles->size * (size_t)tiles->shape.in_channels;
    return (floats + ENG_WINO_PAD) / ENG_WINO_PAD * ENG_WINO_PAD;
}

// A tile that leaves the image, with zeroes where it does.
static void copy_edge(const struct eng_wino_tiles *tiles, const float *image, int64_t output,
                      int64_t value, float *edge)
{
    const struct eng_conv_shape *s = &tiles->shape;
    const int64_t c = s->in_channels, size = tiles->size;
    const int64_t first = value < 0 ? -value : 0;
    const int64_t last = s->in[2] - value < size ? s->in[2] - value : size;
    memset(edge, 0, (size_t)(size * size * c) * sizeof(float));
    for (int64_t r = 0; r < size; r++) {
        if (output + r >= 0 && output + r < s->in[1] && first < last) {
            memcpy(edge + (r * size + first) * c,
                   image + ((output + r) * s->in[2] + value + first) * c,
                   (size_t)((last - first) * c) * sizeof(float));
        }
    }
}

void eng_wino_tiles_in(const struct eng_wino_tiles *tiles, const float *input, int64_t tile,
                       int64_t count, const struct eng_wino_elements *elements)
{
    const struct eng_conv_shape *s = &tiles->shape;
    float *out = elements->out, *edge = elements->edge;
    base_assert(tile >= 0 && count > 0 && tile + count <= tiles->count);
    const int64_t c = s->in_channels, size = tiles->size;
    for (int64_t i = 0; i < count; i++) {
        const struct eng_wino_place at = eng_wino_place_of(tiles, tile + i);
        const float *image = input + at.image * s->in[1] * s->in[2] * c;
        const int64_t row = at.y - s->pad[1], column = at.x - s->pad[2];
        struct eng_wino_tile t = {.pixel = (size_t)c,
                                  .out = out + i * tiles->pitch,
                                  .plane = elements->plane,
                                  .channels = (size_t)c,
                                  .zeroes = (size_t)tiles->zeroes};
        if (row < 0 || column < 0 || row + size > s->in[1] || column + size > s->in[2]) {
            copy_edge(tiles, image, row, column, edge);
            t.in = edge;
            t.row = (size_t)(size * c);
        } else {
            t.in = image + (row * s->in[2] + column) * c;
            t.row = (size_t)(s->in[2] * c);
        }
        tiles->kernels->wino_in[tiles->unit](&t);
    }
}

void eng_wino_tiles_out(const struct eng_wino_tiles *tiles, const struct eng_wino_sums *sums,
                        int64_t tile, int64_t count)
{
    const struct eng_conv_shape *s = &tiles->shape;
    const struct eng_gemm_plan *act = sums->act;
    const int64_t unit = tiles->unit;
    base_assert(tile >= 0 && tile + count <= tiles->count);
    base_assert(sums->column + sums->channels <= s->out_channels);
    for (int64_t i = 0; i < count; i++) {
        const struct eng_wino_place at = eng_wino_place_of(tiles, tile + i);
        const int64_t out =
            ((at.image * s->out[1] + at.y) * s->out[2] + at.x) * s->out_channels + sums->column;
        const int64_t rows = s->out[1] - at.y, cols = s->out[2] - at.x;
        const struct eng_wino_store t = {
            .in = sums->in + i * sums->kernels->nr,
            .plane = sums->plane,
            .out = sums->y + out,
            .row = (size_t)(s->out[2] * s->out_channels),
            .pixel = (size_t)s->out_channels,
            .rows = (uint32_t)(rows < unit ? rows : unit),
            .cols = (uint32_t)(cols < unit ? cols : unit),
            .channels = (size_t)sums->channels,
            .bias = sums->bias != NULL ? sums->bias + sums->column : NULL,
            .residual = sums->residual != NULL ? sums->residual + out : NULL,
            .act = act->act,
            .alpha = act->alpha,
            .beta = act->beta,
        };
        sums->kernels->wino_out[unit](&t);
        for (uint32_t y = 0; act->act_after != ENG_GEMM_ACT_NONE && y < t.rows; y++) {
            sums->kernels->act_rows(t.out + y * t.row, t.cols, t.pixel, t.channels, act->act_after);
        }
    }
}

bool eng_wino_pays(const struct eng_conv_shape *shape)
{
    if (!eng_conv_fits_wino(shape)) {
        return false;
    }
    const double c = (double)shape->in_channels, m = (double)shape->out_channels;
    const double pixels = (double)(shape->batch * shape->out[1] * shape->out[2]);
    const int64_t tiles_y = (shape->out[1] + ENG_WINO_UNIT - 1) / ENG_WINO_UNIT;
    const int64_t tiles_x = (shape->out[2] + ENG_WINO_UNIT - 1) / ENG_WINO_UNIT;
    const double elements = ENG_WINO_ELEMENTS * (double)(shape->batch * tiles_y * tiles_x);
    return elements * c * m + TILE_COST * elements * (c + m) + KERNEL_COST * c * m <
           WORTH * 9 * pixels * c * m;
}
