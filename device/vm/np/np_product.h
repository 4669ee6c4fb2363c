// walle.np: the loops behind products of vectors and matrices, by type.
#ifndef DEV_NP_PRODUCT_H
#define DEV_NP_PRODUCT_H

#include "vm/np/np.h"

#define NP_PANEL_BYTES 64  // of a packed row: 8 columns of float64, 16 of float32
#define NP_PANEL_DEPTH 128 // rows of a packed panel at most
#define NP_TILE_ROWS   4   // rows of the result that are computed together

// to += by * from, element by element; all of one type, from and to dense.
typedef void np_axpy(uint8_t *to, const uint8_t *by, const uint8_t *from, size_t count);
np_axpy *dev_np_axpy_loop(enum np_type type);
// The element `to` += the sum of left[i] * right[i]; both dense.
typedef void np_dot(uint8_t *to, const uint8_t *left, const uint8_t *right, size_t count);
np_dot *dev_np_dot_loop(enum np_type type);

// A part of a product of matrices: to[rows][columns] += left[rows][depth] packed[depth][columns].
// Rows of the result and of the left lie so many bytes apart; the panel is dense, NP_PANEL_BYTES a
// row, aligned to them, with zeros behind its columns.
struct np_tile {
    uint8_t *to;
    const uint8_t *left;
    const uint8_t *packed;
    size_t to_step;
    size_t left_step;
    size_t rows;
    size_t depth;   // at most NP_PANEL_DEPTH
    size_t columns; // at most what a packed row has
};
typedef void np_tiles(const struct np_tile *tile);
np_tiles *dev_np_tiles_loop(enum np_type type); // NULL: of reals alone

// --- by what the processor has (np_wide.c chooses)
np_axpy *dev_np_axpy_plain(enum np_type type);
np_axpy *dev_np_axpy_wide(enum np_type type);
np_dot *dev_np_dot_plain(enum np_type type);
np_dot *dev_np_dot_wide(enum np_type type);
np_tiles *dev_np_tiles_plain(enum np_type type);
np_tiles *dev_np_tiles_wide(enum np_type type);

#endif
