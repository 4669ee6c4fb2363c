// The heap of flights under way. core_gateway.c has one of requests, on the coordinator's thread;
// each core_link.c has one of answers, on the thread that runs its shard. Delays differ from
// message to message, so who was sent later may arrive earlier.
#include "virtual/flight_queue.h"

#include "base/check.h"

#include <stdlib.h>

#define CAPACITY_FIRST 64u

bool sim_when_before(const struct sim_when *a, const struct sim_when *b)
{
    if (a->due_us != b->due_us) {
        return a->due_us < b->due_us;
    }
    if (a->shard != b->shard) {
        return a->shard < b->shard;
    }
    return a->device != b->device ? a->device < b->device : a->sequence < b->sequence;
}

void sim_flight_queue_done(struct sim_flight_queue *queue)
{
    free(queue->items);
    *queue = (struct sim_flight_queue){0};
}

static enum base_status grow(struct sim_flight_queue *queue)
{
    uint32_t capacity = queue->capacity > 0 ? queue->capacity * 2 : CAPACITY_FIRST;
    if (capacity > SIM_FLIGHTS_MAX) {
        return BASE_ERR_FULL;
    }
    struct sim_flight **items = realloc(queue->items, sizeof(struct sim_flight *) * capacity);
    if (items == NULL) {
        return BASE_ERR_NOMEM;
    }
    queue->items = items;
    queue->capacity = capacity;
    return BASE_OK;
}

static void swap(struct sim_flight_queue *queue, uint32_t a, uint32_t b)
{
    struct sim_flight *held = queue->items[a];
    queue->items[a] = queue->items[b];
    queue->items[b] = held;
}

static bool before(const struct sim_flight_queue *queue, uint32_t a, uint32_t b)
{
    return sim_when_before(&queue->items[a]->when, &queue->items[b]->when);
}

enum base_status sim_flight_queue_add(struct sim_flight_queue *queue, struct sim_flight *flight)
{
    if (queue->count == queue->capacity) {
        BASE_TRY(grow(queue));
    }
    uint32_t at = queue->count++;
    queue->items[at] = flight;
    while (at > 0 && before(queue, at, (at - 1) / 2)) {
        swap(queue, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
    return BASE_OK;
}

struct sim_flight *sim_flight_queue_peek(const struct sim_flight_queue *queue)
{
    return queue->count > 0 ? queue->items[0] : NULL;
}

struct sim_flight *sim_flight_queue_take(struct sim_flight_queue *queue)
{
    base_assert(queue->count > 0);
    struct sim_flight *first = queue->items[0];
    queue->items[0] = queue->items[--queue->count];
    uint32_t at = 0;
    for (;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++) {
            least = child < queue->count && before(queue, child, least) ? child : least;
        }
        if (least == at) {
            return first;
        }
        swap(queue, at, least);
        at = least;
    }
}

uint64_t sim_flight_queue_due_us(const struct sim_flight_queue *queue)
{
    return queue->count > 0 ? queue->items[0]->when.due_us : UINT64_MAX;
}
