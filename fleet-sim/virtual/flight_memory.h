// Memory of a run's flights: large pages, in each as many flights as there is room for, and beside
// each flight the first chunk of its arena. Thousands are under way at once, and each is touched
// from end to end by two threads in turn: what that costs is mostly finding the pages.
//
// A flight is made once and used again by the link that had it made, until all go together. Any
// thread has them made.
#ifndef SIM_FLIGHT_MEMORY_H
#define SIM_FLIGHT_MEMORY_H

#include "virtual/flight.h"

#include <pthread.h>

struct sim_flight_block;

struct sim_flight_memory {
    pthread_mutex_t lock;
    struct sim_flight_block *blocks; // the newest first
    uint32_t made;                   // in that one
};

void sim_flight_memory_init(struct sim_flight_memory *memory);
// All zero but for the arena, which is empty. NULL: no memory.
struct sim_flight *sim_flight_make(struct sim_flight_memory *memory);
// Every flight with its arena and the blob of its answer. Once.
void sim_flight_memory_done(struct sim_flight_memory *memory);

#endif
