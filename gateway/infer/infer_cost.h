// What runs of a version cost by how many rows they have, and so how many rows are best put
// together. Where a run of eight rows takes as long as eight of one, a batch only makes its calls
// wait for one another; where it is cheaper by the row, it pays. Nobody can say that beforehand of
// a model on a machine, so it is measured while calls are served. Pure: no clock, no memory of its
// own. The service adds what it measured and asks with its lock held.
//
// Sizes are those that are planned: 1, 2, 4 and so on, the last one rows_max. Shapes are told
// apart, as a long sequence costs more than a short one. A size is judged from its eighth run on;
// until then it is tried, the largest first. Every 64th run is of the size below or above the best
// one, so that what is known stays true.
#ifndef GW_INFER_COST_H
#define GW_INFER_COST_H

#include <stdint.h>

#define GW_INFER_COST_SIZES  8u // 1 to GW_INFER_BATCH_MAX rows
#define GW_INFER_COST_SHAPES 4u // of a version; of more, those that ran last
#define GW_INFER_COST_TRIALS 8u
#define GW_INFER_COST_TURN   64u

struct gw_infer_cost {
    uint64_t shape;
    uint64_t used_at; // in the order of runs; 0: it is free
    uint64_t runs_all;
    uint64_t us[GW_INFER_COST_SIZES]; // of a run: falls by half of what it is faster, rises slowly
    uint32_t runs[GW_INFER_COST_SIZES];
};

// Zeroed: nothing is known.
struct gw_infer_costs {
    struct gw_infer_cost shapes[GW_INFER_COST_SHAPES];
    uint64_t uses;
};

// A run that was planned for `rows`, 1 to 2^(GW_INFER_COST_SIZES - 1), took so long.
void gw_infer_cost_add(struct gw_infer_costs *costs, uint64_t shape, uint32_t rows, uint64_t us);
// Of `rows` that wait, how many go together next: the least number whose cost by the row is no more
// than a twentieth above the best one's.
uint32_t gw_infer_cost_rows(const struct gw_infer_costs *costs, uint64_t shape, uint32_t rows);

#endif
