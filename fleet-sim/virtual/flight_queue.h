// Flights in the order in which they arrive: by time, then shard, device and number in a row, so
// that the order does not depend on who put them in first: a binary heap. And posts, in which they
// change hands between two windows.
//
// Both keep the time beside the flight, which is not looked at until it is taken: who takes it is
// often another processor than who made it. One thread at a time.
#ifndef SIM_FLIGHT_QUEUE_H
#define SIM_FLIGHT_QUEUE_H

#include "base/status.h"
#include "virtual/flight.h"

#define SIM_FLIGHTS_MAX (1u << 24) // in one queue

struct sim_flight_item {
    struct sim_when when; // a copy of the flight's
    struct sim_flight *flight;
};

struct sim_flight_queue {
    struct sim_flight_item *items;
    uint32_t count;
    uint32_t capacity;
};

// What was sent in a window, in the order in which it was.
struct sim_post {
    struct sim_flight_queue sent; // not in the order of a heap
    uint64_t due_us;              // of the one that arrives first; UINT64_MAX: there is none
};

// A zeroed queue is empty.
void sim_flight_queue_done(struct sim_flight_queue *queue); // flights stay whose they are
// NOMEM; FULL past SIM_FLIGHTS_MAX.
BASE_NODISCARD enum base_status sim_flight_queue_add(struct sim_flight_queue *queue,
                                                     struct sim_flight *flight);
// The first one, of at least one. The memory of those behind it is fetched.
struct sim_flight *sim_flight_queue_take(struct sim_flight_queue *queue);
// It stays; NULL: there is none.
struct sim_flight *sim_flight_queue_first(const struct sim_flight_queue *queue);
// Has memory brought into the caches; whatever `from` is, nothing else happens.
void sim_flight_fetch(const void *from, size_t bytes);
// When the first one arrives; UINT64_MAX: there is none.
uint64_t sim_flight_queue_due_us(const struct sim_flight_queue *queue);
void sim_post_init(struct sim_post *post);
void sim_post_done(struct sim_post *post);
// NOMEM, FULL, as above.
BASE_NODISCARD enum base_status sim_post_add(struct sim_post *post, struct sim_flight *flight);
// Moves all of it into the queue, and leaves the post empty. NOMEM, FULL: some are in neither.
BASE_NODISCARD enum base_status sim_post_take(struct sim_post *post,
                                              struct sim_flight_queue *queue);
// Does `a` come before `b`?
bool sim_when_before(const struct sim_when *a, const struct sim_when *b);

#endif
