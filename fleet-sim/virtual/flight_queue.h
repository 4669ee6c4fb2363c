// Flights in the order in which they arrive: by time, then shard, device and number in a row, so
// that the order does not depend on who put them in first. A binary heap. One thread.
#ifndef SIM_FLIGHT_QUEUE_H
#define SIM_FLIGHT_QUEUE_H

#include "base/status.h"
#include "virtual/flight.h"

#define SIM_FLIGHTS_MAX (1u << 24) // in one queue

struct sim_flight_queue {
    struct sim_flight **items;
    uint32_t count;
    uint32_t capacity;
};

// A zeroed queue is empty.
void sim_flight_queue_done(struct sim_flight_queue *queue); // flights stay whose they are
// NOMEM; FULL past SIM_FLIGHTS_MAX.
BASE_NODISCARD enum base_status sim_flight_queue_add(struct sim_flight_queue *queue,
                                                     struct sim_flight *flight);
// The first one; NULL: there is none.
struct sim_flight *sim_flight_queue_peek(const struct sim_flight_queue *queue);
struct sim_flight *sim_flight_queue_take(struct sim_flight_queue *queue);
// When the first one arrives; UINT64_MAX: there is none.
uint64_t sim_flight_queue_due_us(const struct sim_flight_queue *queue);
// Does `a` come before `b`?
bool sim_when_before(const struct sim_when *a, const struct sim_when *b);

#endif
