// The queue of a model's version and the choice of its next batch. Pure: no thread, no clock, no
// memory of its own; the service calls it with its lock held.
//
// A batch is of one shape: calls whose inputs are equal but for the first dimension, whose rows are
// put behind one another. It begins with the first call of the best priority, and takes others of
// its shape, by priority, then by arrival. A full batch goes at once; one that is not waits for
// more until its first call is `delay_us` old. A call of no rows, or of more than a batch may have,
// is a batch of its own. Where costs of runs are known, a batch has no more rows than pay: it is
// full with fewer, and takes only so many of those that wait.
#ifndef GW_INFER_BATCH_H
#define GW_INFER_BATCH_H

#include "infer/infer_call.h"
#include "infer/infer_cost.h"

#define GW_INFER_BATCH_MAX 128u // rows, and calls, of one batch

// A call that waits; part of what the caller owns.
struct gw_infer_wait {
    struct gw_infer_wait *next;
    struct gw_infer_wait *prev;
    uint64_t shape;       // a hash: equal ones may be in one batch
    uint64_t arrived_us;  // monotonic
    uint64_t deadline_us; // the same; UINT64_MAX: none
    uint32_t rows;        // 1 of a model whose calls are never put together
    uint32_t priority;    // below GW_INFER_PRIORITIES
};

// Zeroed: empty.
struct gw_infer_queue {
    struct gw_infer_wait *first[GW_INFER_PRIORITIES];
    struct gw_infer_wait *last[GW_INFER_PRIORITIES];
    uint32_t count;
    uint64_t rows[GW_INFER_PRIORITIES];
};

void gw_infer_queue_put(struct gw_infer_queue *queue, struct gw_infer_wait *wait);
void gw_infer_queue_remove(struct gw_infer_queue *queue, struct gw_infer_wait *wait);

struct gw_infer_batch_rules {
    uint32_t rows_max; // 1: calls are never put together
    uint32_t delay_us;
    const struct gw_infer_costs *costs; // NULL: as many go together as may
};

// Takes the next batch out of the queue into `out`; how many calls. 0: none goes now, and
// *out_look_us is when one will, UINT64_MAX: nothing waits.
uint32_t gw_infer_batch_take(struct gw_infer_queue *queue, const struct gw_infer_batch_rules *rules,
                             uint64_t now_us, struct gw_infer_wait *out[GW_INFER_BATCH_MAX],
                             uint64_t *out_look_us);

// What is known of a version when a call comes.
struct gw_infer_pace {
    uint64_t batch_us;  // of a batch, lately; 0: not known
    uint64_t shape;     // of that
    uint32_t instances; // that run batches
    uint32_t running;   // of these, now
};
// How long a call of this priority would wait for its run, and run, by what stands before it.
uint64_t gw_infer_expected_us(const struct gw_infer_queue *queue,
                              const struct gw_infer_batch_rules *rules,
                              const struct gw_infer_pace *pace, uint32_t priority);

// Rows, 1 to rows_max, that a batch is planned for: the next power of two, so that a model has few
// plans.
uint32_t gw_infer_plan_rows(uint32_t rows, uint32_t rows_max);

#endif
