// A bell: one thread sleeps until another rings or a time has passed. The only place where the
// gateway's own threads wait.
#ifndef GW_BELL_H
#define GW_BELL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct gw_bell {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool rung;
};

void gw_bell_init(struct gw_bell *bell);
void gw_bell_done(struct gw_bell *bell);
// Any thread; wakes the sleeper now, or the next time it wants to sleep.
void gw_bell_ring(struct gw_bell *bell);
// Sleeps until rung or `timeout_us` passed (UINT64_MAX: no limit). True when it was rung.
bool gw_bell_wait(struct gw_bell *bell, uint64_t timeout_us);

#endif
