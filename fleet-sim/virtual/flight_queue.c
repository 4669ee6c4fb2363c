// The heap of flights under way. core_gateway.c has one of requests, on the coordinator's thread;
// each core_link.c has one of answers, on the thread that runs its shard. Delays differ from
// message to message, so who was sent later may arrive earlier.
#include "virtual/flight_queue.h"

#include "base/check.h"

#include <stdlib.h>

#define CAPACITY_FIRST 64u
#define LINE_BYTES     64u   // of a cache
#define FLIGHT_BYTES   1536u // a flight, and what its arena gives first, which lies behind it
#define FETCHED_AHEAD  3u    // the first in the heap and its children

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
    struct sim_flight_item *items = realloc(queue->items, sizeof(*items) * capacity);
    if (items == NULL) {
        return BASE_ERR_NOMEM;
    }
    queue->items = items;
    queue->capacity = capacity;
    return BASE_OK;
}

static enum base_status add(struct sim_flight_queue *queue, const struct sim_flight_item *item)
{
    if (queue->count == queue->capacity) {
        BASE_TRY(grow(queue));
    }
    uint32_t at = queue->count++;
    while (at > 0 && sim_when_before(&item->when, &queue->items[(at - 1) / 2].when)) {
        queue->items[at] = queue->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->items[at] = *item;
    return BASE_OK;
}

enum base_status sim_flight_queue_add(struct sim_flight_queue *queue, struct sim_flight *flight)
{
    const struct sim_flight_item item = {flight->when, flight};
    return add(queue, &item);
}

// The child of a place that comes first; `count`: it has none.
static uint32_t first_child(const struct sim_flight_queue *queue, uint32_t at)
{
    uint32_t left = 2 * at + 1;
    if (left >= queue->count) {
        return queue->count;
    }
    bool right = left + 1 < queue->count &&
                 sim_when_before(&queue->items[left + 1].when, &queue->items[left].when);
    return left + right;
}

void sim_flight_fetch(const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE_BYTES) {
        __builtin_prefetch((const void *)((uintptr_t)from + at), 1, 2);
    }
}

// The next one whole; of those that may be behind it what says whose they are.
static void fetch_next(const struct sim_flight_queue *queue)
{
    for (uint32_t i = 0; i < FETCHED_AHEAD && i < queue->count; i++) {
        sim_flight_fetch(queue->items[i].flight, i == 0 ? FLIGHT_BYTES : LINE_BYTES);
    }
}

struct sim_flight *sim_flight_queue_take(struct sim_flight_queue *queue)
{
    base_assert(queue->count > 0);
    struct sim_flight *first = queue->items[0].flight;
    const struct sim_flight_item last = queue->items[--queue->count];
    uint32_t at = 0;
    uint32_t child = first_child(queue, at);
    while (child < queue->count && sim_when_before(&queue->items[child].when, &last.when)) {
        queue->items[at] = queue->items[child];
        at = child;
        child = first_child(queue, at);
    }
    queue->items[at] = last;
    fetch_next(queue);
    return first;
}

struct sim_flight *sim_flight_queue_first(const struct sim_flight_queue *queue)
{
    return queue->count > 0 ? queue->items[0].flight : NULL;
}

uint64_t sim_flight_queue_due_us(const struct sim_flight_queue *queue)
{
    return queue->count > 0 ? queue->items[0].when.due_us : UINT64_MAX;
}

void sim_post_init(struct sim_post *post)
{
    *post = (struct sim_post){.due_us = UINT64_MAX};
}

void sim_post_done(struct sim_post *post)
{
    sim_flight_queue_done(&post->sent);
}

enum base_status sim_post_add(struct sim_post *post, struct sim_flight *flight)
{
    if (post->sent.count == post->sent.capacity) {
        BASE_TRY(grow(&post->sent));
    }
    post->sent.items[post->sent.count++] = (struct sim_flight_item){flight->when, flight};
    post->due_us = flight->when.due_us < post->due_us ? flight->when.due_us : post->due_us;
    return BASE_OK;
}

enum base_status sim_post_take(struct sim_post *post, struct sim_flight_queue *queue)
{
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; i < post->sent.count && status == BASE_OK; i++) {
        status = add(queue, &post->sent.items[i]);
    }
    post->sent.count = 0;
    post->due_us = UINT64_MAX;
    return status;
}
