// The threads of the core: control, and two for work that costs CPU. `step` runs what waits where
// the core has no threads of its own.
#ifndef GW_CONTROL_THREAD_H
#define GW_CONTROL_THREAD_H

#include "base/error.h"
#include "svc/call_queue.h"

struct gw_background {
    struct gw_core *core;
    struct gw_call_queue queue;
    pthread_t thread;
    bool started;
};

struct gw_threads {
    struct gw_call_queue control;
    pthread_t thread; // control
    bool started;
    bool running; // the core is open: what is dirty at its end is written
    uint64_t next_tick_us;
    struct gw_background background;
    struct gw_background deltas;
};

BASE_NODISCARD enum base_status gw_threads_new(struct gw_threads **out_threads);
void gw_threads_free(struct gw_threads *threads); // stopped; accepts NULL
BASE_NODISCARD enum base_status gw_control_start(struct gw_core *core, struct base_error *error);
void gw_control_stop(struct gw_core *core);
bool gw_control_step(struct gw_core *core);
BASE_NODISCARD enum base_status gw_background_start(struct gw_core *core, struct base_error *error);
void gw_background_stop(struct gw_core *core);
bool gw_background_step(struct gw_core *core); // runs what waits, when there is no thread for it

#endif
