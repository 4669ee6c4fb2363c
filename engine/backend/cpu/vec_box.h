// How elementwise steps walk their box: in tiles of output elements, each either a piece of one row
// or several whole rows of the innermost dimension. Decided once when a step is prepared.
#ifndef ENG_CPU_VEC_BOX_H
#define ENG_CPU_VEC_BOX_H

#include "backend/backend.h"

#define ENG_VEC_TILE 1024 // elements; what lies in buffers of this size stays in the first cache

enum eng_vec_access {
    ENG_VEC_DENSE, // as the output lies
    ENG_VEC_VALUE, // one value for the whole tile
    ENG_VEC_RUN,   // one row at a time: elements side by side
    ENG_VEC_ROW,   // the same row again and again, several to a tile: copied out once
    ENG_VEC_GATHER // copied out tile by tile
};

struct eng_vec_operand {
    enum eng_vec_access access;
    uint32_t input; // tensor
    uint32_t bytes; // of an element: 1 or 4
    int64_t offset; // elements
    int64_t stride[ENG_RANK_MAX];
    uint32_t slot; // scratch buffer of ROW and GATHER
};

struct eng_vec_box {
    uint32_t rank; // collapsed; at least 1
    int64_t size[ENG_RANK_MAX];
    int64_t count;         // elements
    int64_t inner, rows;   // innermost dimension, product of the others
    int64_t tile;          // most elements of a tile
    int64_t rows_per_tile; // 0: a tile is a piece of one row
    int64_t pieces;        // of a row, when it is
    int64_t tiles;
};

// Where one tile lies.
struct eng_vec_tile {
    int64_t out, count;          // output elements [out, out + count)
    int64_t row, row_count;      // rows it covers
    int64_t column;              // first element within the row
    int64_t index[ENG_RANK_MAX]; // of the first row
};

// Collapses the command's box as far as `count` operands allow, fills the operands from its inputs
// and views, and chooses tiles: of up to `tile` elements, more when nothing is copied and nothing
// else needs buffers, as the results within an EXPR do. UNSUPPORTED: empty, or too large.
BASE_NODISCARD enum base_status eng_vec_box_init(struct eng_vec_box *box,
                                                 const struct eng_program *program,
                                                 const struct eng_command *command,
                                                 struct eng_vec_operand *operands, uint32_t count);
void eng_vec_box_tile(const struct eng_vec_box *box, int64_t number, struct eng_vec_tile *out);
// Whether the operand is one value per tile.
bool eng_vec_operand_is_value(const struct eng_vec_operand *operand);
// Whether it needs its scratch slot.
bool eng_vec_operand_is_copied(const struct eng_vec_operand *operand);
// Where the operand's elements of a tile lie; GATHER copies them to `slot` first, ROW expects them
// there (eng_vec_operand_rows, once per worker).
const void *eng_vec_operand_at(const struct eng_vec_operand *operand, const struct eng_vec_box *box,
                               const struct eng_vec_tile *tile, const void *base, void *slot);
void eng_vec_operand_rows(const struct eng_vec_operand *operand, const struct eng_vec_box *box,
                          const void *base, void *slot);

#endif
