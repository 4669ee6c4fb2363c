// The core's time: what the guard over the wall clock says, to workers and to everybody else. The
// functions that tell the time are any thread's, the rest the control thread's: it asks the guard
// at each tick, and everybody reads what it said last.
#include "svc/core_clock.h"

#include "svc/control.h"
#include "svc/core_private.h"

#include <stdlib.h>

#define SECOND_US 1000000u

// ---- Any thread

static uint64_t told(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

uint64_t gw_core_now_us(const struct gw_core *core)
{
    uint64_t floor_us = told(&core->time.floor_us);
    uint64_t time_us = told(&core->time.offset_us) + core->clock.mono_us(core->clock.ctx);
    return time_us > floor_us ? time_us : floor_us;
}

uint32_t gw_core_now_s(const struct gw_core *core)
{
    return (uint32_t)(gw_core_now_us(core) / SECOND_US);
}

uint64_t gw_core_sure_us(const struct gw_core *core)
{
    uint64_t stood_us = told(&core->time.stood_us);
    return stood_us > 0 ? stood_us : gw_core_now_us(core);
}

uint32_t gw_core_sure_s(const struct gw_core *core)
{
    return (uint32_t)(gw_core_sure_us(core) / SECOND_US);
}

// What the writer is at is heard of in a second that begins after it said since when it is.
uint32_t gw_core_heard_s(const struct gw_core *core)
{
    uint32_t now_s = gw_core_sure_s(core);
    uint32_t since_s = atomic_load(&core->reports.since_s);
    uint32_t first_s = since_s < now_s ? since_s : now_s;
    return first_s > 0 ? first_s - 1 : 0;
}

// ---- Control thread

struct gw_clock_look gw_core_clock_look(const struct gw_core *core)
{
    return (struct gw_clock_look){.wall_us = core->clock.wall_us(core->clock.ctx),
                                  .steady_us = core->clock.mono_us(core->clock.ctx)};
}

void gw_core_clock_tell(struct gw_core *core)
{
    struct gw_core_clock *time = &core->time;
    const struct gw_clock_guard *guard = &time->guard;
    bool sure = guard->doubt == GW_CLOCK_SURE;
    uint64_t stood_us = guard->sure_us > 0 ? guard->sure_us : 1;
    atomic_store_explicit(&time->floor_us, guard->floor_us, memory_order_relaxed);
    atomic_store_explicit(&time->offset_us, guard->offset_us, memory_order_relaxed);
    atomic_store_explicit(&time->stood_us, sure ? 0 : stood_us, memory_order_relaxed);
    atomic_store_explicit(&time->doubt, (int)guard->doubt, memory_order_relaxed);
    atomic_store_explicit(&time->apart_s, (uint64_t)llabs(guard->ahead_us / (int64_t)SECOND_US),
                          memory_order_relaxed);
}

void gw_core_clock_init(struct gw_core *core)
{
    struct gw_clock_look now = gw_core_clock_look(core);
    core->time.seed = now.wall_us ^ now.steady_us;
    gw_clock_guard_begin(&core->time.guard, &now, 0, 0);
    gw_core_clock_tell(core);
}

void gw_clock_view(struct gw_core *core, struct gw_clock_view *out)
{
    *out = (struct gw_clock_view){
        .doubt = core->time.guard.doubt,
        .wall_us = core->clock.wall_us(core->clock.ctx),
        .time_us = gw_core_now_us(core),
        .sure_us = gw_core_sure_us(core),
    };
}

enum base_status gw_clock_check(struct gw_core *core, const char *what, struct base_error *error)
{
    if (core->time.guard.doubt == GW_CLOCK_SURE) {
        return BASE_OK;
    }
    return base_error_set(error, BASE_ERR_CONFLICT,
                          "%s: the gateway's clock is in doubt (%s): set it right, or 'walle clock "
                          "accept'",
                          what, gw_clock_doubt_name(core->time.guard.doubt));
}
