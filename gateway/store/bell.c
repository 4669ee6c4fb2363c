// The bell of bell.h: a condition variable on the system's monotonic clock. Real time, because it
// bounds how long a thread of this process sleeps; nothing that is decided depends on it. Used by
// the store's writer and the control thread.
#include "store/bell.h"

#include "base/ckd.h"
#include "base/clock.h"

#include <time.h>

#define US_PER_S UINT64_C(1000000)

void gw_bell_init(struct gw_bell *bell)
{
    pthread_mutex_init(&bell->lock, NULL);
    pthread_cond_init(&bell->cond, NULL);
    bell->rung = false;
}

void gw_bell_done(struct gw_bell *bell)
{
    pthread_cond_destroy(&bell->cond);
    pthread_mutex_destroy(&bell->lock);
}

void gw_bell_ring(struct gw_bell *bell)
{
    pthread_mutex_lock(&bell->lock);
    bell->rung = true;
    pthread_cond_signal(&bell->cond);
    pthread_mutex_unlock(&bell->lock);
}

static struct timespec deadline_after(uint64_t timeout_us)
{
    uint64_t until_us = base_sat_add_u64(base_clock_mono_us(), timeout_us);
    return (struct timespec){.tv_sec = (time_t)(until_us / US_PER_S),
                             .tv_nsec = (long)(until_us % US_PER_S * 1000u)};
}

bool gw_bell_wait(struct gw_bell *bell, uint64_t timeout_us)
{
    pthread_mutex_lock(&bell->lock);
    if (timeout_us == UINT64_MAX) {
        while (!bell->rung) {
            pthread_cond_wait(&bell->cond, &bell->lock);
        }
    } else {
        struct timespec deadline = deadline_after(timeout_us);
        int rc = 0;
        while (!bell->rung && rc == 0) {
            rc = pthread_cond_clockwait(&bell->cond, &bell->lock, CLOCK_MONOTONIC, &deadline);
        }
    }
    bool rung = bell->rung;
    bell->rung = false;
    pthread_mutex_unlock(&bell->lock);
    return rung;
}
