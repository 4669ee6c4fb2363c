// Moves: what the regions of a raster become when it is prepared. Each move is a number of units
// (positions of its outer dims, or pieces of one long run) that may be done in any order by any
// worker.
#ifndef ENG_CPU_MOVE_RUN_H
#define ENG_CPU_MOVE_RUN_H

#include "backend/cpu/kernel/vec_kernels.h"

enum eng_move_kind {
    ENG_MOVE_COPY,      // n elements side by side on both sides
    ENG_MOVE_FILL,      // one element n times, side by side
    ENG_MOVE_TRANSPOSE, // m rows of n elements side by side, to n rows of m side by side
    ENG_MOVE_ZIP2,      // n pairs from two runs
    ENG_MOVE_ZIP3,      // n triples from three runs, `step` apart
    ENG_MOVE_STRIDED    // m x n elements, strides on both sides
};

// A region with its dims merged and sorted. Offsets and strides count elements of `bytes`.
struct eng_move {
    enum eng_move_kind kind;
    uint32_t rank; // outer dims
    uint32_t source, source2;
    uint32_t bytes; // of an element, which may be several of the tensor's
    int64_t src, dst, src2;
    int64_t size[ENG_REGION_RANK_MAX];
    int64_t src_stride[ENG_REGION_RANK_MAX], src2_stride[ENG_REGION_RANK_MAX];
    int64_t dst_stride[ENG_REGION_RANK_MAX];
    // The innermost one or two dims: what a unit is.
    int64_t n, n_src, n_dst;
    int64_t m, m_src, m_dst;
    int64_t pieces, piece; // of n, when it is cut
    int64_t first_unit, units;
    bool gaps; // the only move: units also clear what lies before them, the last one what follows
};

// A raster whose regions together fill rows of one width: see struct eng_vec_weave.
struct eng_move_weave {
    struct eng_vec_weave rows;
    int64_t row_count;
    int64_t dst;
    uint32_t source_count;
    uint32_t tensors[ENG_VEC_WEAVE_SOURCES_MAX];
    int64_t offsets[ENG_VEC_WEAVE_SOURCES_MAX];
};

// What a run of a raster works on.
struct eng_move_data {
    const struct eng_vec_kernels *kernels;
    void *const *tensors; // by number: what moves read
    void *out;
    int64_t elements; // of the output, as moves count them: where the last gap ends
};

// Makes a weave of normalised regions (rank 1 or 2). UNSUPPORTED: they are not one; NOMEM.
BASE_NODISCARD enum base_status eng_move_weave_init(struct base_arena *arena,
                                                    const struct eng_vec_kernels *kernels,
                                                    const struct eng_region *regions,
                                                    uint32_t count, struct eng_move_weave *out);
// Rows [begin, end).
void eng_move_weave_run(const struct eng_move_weave *weave, const struct eng_move_data *data,
                        int64_t begin, int64_t end);

// Does units [begin, end) of a move, counted from its first.
void eng_move_run(const struct eng_move *move, const struct eng_move_data *data, int64_t begin,
                  int64_t end);

#endif
