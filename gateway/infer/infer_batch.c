// Queues and batches as infer_batch.h says. Called by infer_service.c and infer_run.c with the
// service's lock held, on whichever thread has it; by tests with a clock of their own. Lists are
// linked both ways, since a call whose caller is gone leaves from the middle.
#include "infer/infer_batch.h"

#include "base/check.h"
#include "base/ckd.h"

#include <stdbool.h>

void gw_infer_queue_put(struct gw_infer_queue *queue, struct gw_infer_wait *wait)
{
    uint32_t at = wait->priority;
    base_check(at < GW_INFER_PRIORITIES);
    wait->next = NULL;
    wait->prev = queue->last[at];
    if (wait->prev != NULL) {
        wait->prev->next = wait;
    } else {
        queue->first[at] = wait;
    }
    queue->last[at] = wait;
    queue->count++;
    queue->rows[at] += wait->rows;
}

void gw_infer_queue_remove(struct gw_infer_queue *queue, struct gw_infer_wait *wait)
{
    uint32_t at = wait->priority;
    base_check(queue->count > 0 && queue->rows[at] >= wait->rows);
    *(wait->prev != NULL ? &wait->prev->next : &queue->first[at]) = wait->next;
    *(wait->next != NULL ? &wait->next->prev : &queue->last[at]) = wait->prev;
    wait->next = NULL;
    wait->prev = NULL;
    queue->count--;
    queue->rows[at] -= wait->rows;
}

static struct gw_infer_wait *first_of(const struct gw_infer_queue *queue)
{
    for (uint32_t at = 0; at < GW_INFER_PRIORITIES; at++) {
        if (queue->first[at] != NULL) {
            return queue->first[at];
        }
    }
    return NULL;
}

// The one behind it in the order in which they go; NULL: it is the last.
static struct gw_infer_wait *after(const struct gw_infer_queue *queue,
                                   const struct gw_infer_wait *wait)
{
    struct gw_infer_wait *next = wait->next;
    for (uint32_t at = wait->priority + 1; next == NULL && at < GW_INFER_PRIORITIES; at++) {
        next = queue->first[at];
    }
    return next;
}

// Those that go together with `head`, which is the first of them; how many. *out_full: no more rows
// would fit. A call without rows, or with more than a batch has, goes alone.
static uint32_t gather(const struct gw_infer_queue *queue, struct gw_infer_wait *head,
                       uint32_t rows_max, struct gw_infer_wait **out, bool *out_full)
{
    uint32_t count = 0;
    uint32_t rows = 0;
    *out_full = false;
    for (struct gw_infer_wait *wait = head; wait != NULL && !*out_full; wait = after(queue, wait)) {
        if (wait->shape != head->shape) {
            continue;
        }
        if (count > 0 && (wait->rows == 0 || wait->rows > rows_max - rows)) {
            *out_full = true; // it is the first of the next one
            break;
        }
        out[count++] = wait;
        rows += wait->rows;
        *out_full = rows == 0 || rows >= rows_max || count == GW_INFER_BATCH_MAX;
    }
    return count;
}

// The rows with which a batch of that shape is full.
static uint32_t rows_enough(const struct gw_infer_batch_rules *rules, uint64_t shape)
{
    return rules->costs != NULL ? gw_infer_cost_rows(rules->costs, shape, rules->rows_max)
                                : rules->rows_max;
}

// How many of these calls, one at least, go together at the least cost of a row.
static uint32_t trim(const struct gw_infer_batch_rules *rules, struct gw_infer_wait *const *calls,
                     uint32_t count)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        rows += calls[i]->rows;
    }
    if (rules->costs == NULL || count == 1) {
        return count;
    }
    uint32_t wanted = gw_infer_cost_rows(rules->costs, calls[0]->shape, rows);
    while (count > 1 && rows > wanted) {
        rows -= calls[--count]->rows;
    }
    return count;
}

uint32_t gw_infer_batch_take(struct gw_infer_queue *queue, const struct gw_infer_batch_rules *rules,
                             uint64_t now_us, struct gw_infer_wait *out[GW_INFER_BATCH_MAX],
                             uint64_t *out_look_us)
{
    struct gw_infer_wait *head = first_of(queue);
    bool full = false;
    *out_look_us = UINT64_MAX;
    if (head == NULL) {
        return 0;
    }
    uint32_t count = gather(queue, head, rows_enough(rules, head->shape), out, &full);
    uint64_t due_us = base_sat_add_u64(head->arrived_us, rules->delay_us);
    if (!full && due_us > now_us) {
        *out_look_us = due_us;
        return 0;
    }
    count = trim(rules, out, count);
    for (uint32_t i = 0; i < count; i++) {
        gw_infer_queue_remove(queue, out[i]);
    }
    return count;
}

uint64_t gw_infer_expected_us(const struct gw_infer_queue *queue,
                              const struct gw_infer_batch_rules *rules,
                              const struct gw_infer_pace *pace, uint32_t priority)
{
    uint64_t rows = 0;
    base_check(pace->instances > 0 && rules->rows_max > 0);
    for (uint32_t at = 0; at <= priority; at++) {
        rows += queue->rows[at];
    }
    uint32_t together = rows_enough(rules, pace->shape);
    uint64_t batches = (rows + together - 1) / together + pace->running;
    uint64_t rounds = batches / pace->instances + 1; // the last one is its own
    uint64_t us = 0;
    return __builtin_mul_overflow(rounds, pace->batch_us, &us) ? UINT64_MAX : us;
}

uint32_t gw_infer_plan_rows(uint32_t rows, uint32_t rows_max)
{
    uint32_t planned = 1;
    while (planned < rows) {
        planned *= 2;
    }
    return planned < rows_max ? planned : rows > rows_max ? rows : rows_max;
}
