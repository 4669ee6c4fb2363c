// Timer wheel of a worker: deadlines of its connections and of its upstream exchanges. Called on
// the worker's thread; knows no clock. worker.c advances it with the time it has, conn.c and
// conn_deadlines.c set and remove. A timer fires at most one slot late and never early. Those that
// are due are moved to a list of their own first, so firing one may set or remove any other.
#include "http/loop/timer_wheel.h"

#include "base/check.h"

#include <stddef.h>
#include <string.h>

void gw_wheel_init(struct gw_wheel *wheel, uint64_t now_ms)
{
    memset(wheel, 0, sizeof(*wheel));
    wheel->slot_at = now_ms / GW_WHEEL_SLOT_MS;
}

static void link_first(struct gw_timer **list, struct gw_timer *timer)
{
    timer->next = *list;
    timer->prev = list;
    if (timer->next != NULL) {
        timer->next->prev = &timer->next;
    }
    *list = timer;
}

void gw_wheel_remove(struct gw_timer *timer)
{
    if (timer->prev == NULL) {
        return;
    }
    *timer->prev = timer->next;
    if (timer->next != NULL) {
        timer->next->prev = timer->prev;
    }
    timer->next = NULL;
    timer->prev = NULL;
}

void gw_wheel_set(struct gw_wheel *wheel, struct gw_timer *timer, uint64_t due_ms)
{
    gw_wheel_remove(timer);
    timer->due_ms = due_ms;
    // Rounded up, so that a slot is only looked at when all of it is due.
    uint64_t slot = due_ms / GW_WHEEL_SLOT_MS + 1;
    if (slot < wheel->slot_at) {
        slot = wheel->slot_at;
    }
    link_first(&wheel->slots[slot % GW_WHEEL_SLOTS], timer);
}

// The due timers of one slot are moved to a list of their own first: `fire` may then do what it
// likes with timers, those of this list included.
static void fire_slot(struct gw_wheel *wheel, uint64_t slot, uint64_t now_ms,
                      void (*fire)(void *ctx, struct gw_timer *timer), void *ctx)
{
    struct gw_timer *due = NULL;
    struct gw_timer *timer = wheel->slots[slot % GW_WHEEL_SLOTS];
    while (timer != NULL) {
        struct gw_timer *next = timer->next;
        if (timer->due_ms <= now_ms) {
            gw_wheel_remove(timer);
            link_first(&due, timer);
        }
        timer = next;
    }
    while (due != NULL) {
        timer = due;
        gw_wheel_remove(timer);
        fire(ctx, timer);
    }
}

void gw_wheel_advance(struct gw_wheel *wheel, uint64_t now_ms,
                      void (*fire)(void *ctx, struct gw_timer *timer), void *ctx)
{
    uint64_t now_slot = now_ms / GW_WHEEL_SLOT_MS;
    base_assert(now_slot + 1 >= wheel->slot_at);
    uint64_t first = wheel->slot_at;
    if (now_slot - first >= GW_WHEEL_SLOTS && now_slot > first) {
        first = now_slot - GW_WHEEL_SLOTS + 1; // after a long pause one round sees every timer
    }
    for (uint64_t slot = first; slot <= now_slot; slot++) {
        wheel->slot_at = slot + 1;
        fire_slot(wheel, slot, now_ms, fire, ctx);
    }
}
