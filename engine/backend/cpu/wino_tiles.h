// The tiles of Winograd's F(unit x unit, 3 x 3) over a batch of images: where each lies, and its
// way into elements and out of them. Shared by the convolutions with constant weights (conv_wino.c)
// and those of training (conv_wino_live.c, conv_grad_wino.c). Called on the pool's threads.
#ifndef ENG_CPU_WINO_TILES_H
#define ENG_CPU_WINO_TILES_H

#include "backend/cpu/conv_shape.h"
#include "backend/cpu/gemm/gemm_run.h"

// Of training.
#define ENG_WINO_UNIT     4
#define ENG_WINO_SIZE     6
#define ENG_WINO_ELEMENTS 36

#define ENG_WINO_PAD 16 // floats: planes must not share sets of the cache

struct eng_wino_tiles {
    const struct eng_gemm_kernels *kernels;
    struct eng_conv_shape shape;
    uint32_t unit, size;             // 2 or 4; unit + 2
    int64_t tiles_y, tiles_x, count; // of an image; of all
    int64_t pitch;                   // floats, or pairs, of a transformed pixel
    int64_t zeroes;                  // channels behind its last vector
};

// Pixels of whole vectors of channels, without zeroes behind them.
void eng_wino_tiles_init(struct eng_wino_tiles *tiles, const struct eng_gemm_kernels *kernels,
                         const struct eng_conv_shape *shape, uint32_t unit);
struct eng_wino_place {
    int64_t image, y, x; // of a tile's first output pixel
};
struct eng_wino_place eng_wino_place_of(const struct eng_wino_tiles *tiles, int64_t tile);
// Where transformed tiles go: element e of tile i at out + e * plane + i * pitch.
struct eng_wino_elements {
    float *out;
    size_t plane;
    float *edge; // room for eng_wino_edge_floats, for a tile that leaves the image
};
// Transforms `count` tiles of x from `tile` on.
void eng_wino_tiles_in(const struct eng_wino_tiles *tiles, const float *input, int64_t tile,
                       int64_t count, const struct eng_wino_elements *elements);
size_t eng_wino_edge_floats(const struct eng_wino_tiles *tiles);

// What is multiplied between the transforms, element by element: tiles with one panel of output
// channels.
struct eng_wino_product {
    const float *v; // tiles, as eng_wino_tiles_in leaves them
    const float *u; // transformed kernels of the panel
    float *m;       // as eng_wino_tiles_out takes them
};

// Products of tiles with one panel of output channels: element e of tile i at in + e * plane +
// i * kernels->nr.
struct eng_wino_sums {
    const struct eng_gemm_kernels *kernels;
    const struct eng_gemm_plan *act; // its activation fields
    const float *in;
    size_t plane;
    float *y;                     // of the whole batch
    const float *bias, *residual; // NULL: none
    int64_t column, channels;     // of the panel
};
// Transforms `count` tiles from `tile` on back into pixels of y, and activates them.
void eng_wino_tiles_out(const struct eng_wino_tiles *tiles, const struct eng_wino_sums *sums,
                        int64_t tile, int64_t count);
// Whether kernels that are transformed anew in each run are worth it.
bool eng_wino_pays(const struct eng_conv_shape *shape);

#endif
