// Coarse timers for many connections: a hashed wheel. Adding, moving and removing cost O(1); a
// timer fires in the first advance at or after its time, at most one slot late.
//
// One owner, one thread. Time is a parameter, in milliseconds, and must not go backwards.
#ifndef GW_TIMER_WHEEL_H
#define GW_TIMER_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#define GW_WHEEL_SLOTS   512u
#define GW_WHEEL_SLOT_MS 128u // the wheel turns once in 65 seconds; later timers stay a round more

struct gw_timer {
    struct gw_timer *next;
    struct gw_timer **prev; // NULL while not in a wheel
    uint64_t due_ms;
};

struct gw_wheel {
    struct gw_timer *slots[GW_WHEEL_SLOTS];
    uint64_t slot_at; // slots before this one (counted since time 0) have been looked at
};

void gw_wheel_init(struct gw_wheel *wheel, uint64_t now_ms);
// Sets or moves the timer.
void gw_wheel_set(struct gw_wheel *wheel, struct gw_timer *timer, uint64_t due_ms);
void gw_wheel_remove(struct gw_timer *timer);
// Takes every due timer out and calls `fire` for it, which may set, remove and free any timer.
void gw_wheel_advance(struct gw_wheel *wheel, uint64_t now_ms,
                      void (*fire)(void *ctx, struct gw_timer *timer), void *ctx);

static inline bool gw_timer_is_set(const struct gw_timer *timer)
{
    return timer->prev != 0;
}

#endif
