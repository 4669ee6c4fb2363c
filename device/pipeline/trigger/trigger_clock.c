// The engine's clock: sums of what passed between consecutive events, in one boot by the monotonic
// clock, across boots by the wall clock. It never goes back. Times in states are its low 32 bits of
// milliseconds; a sweep every few days keeps them from wrapping. Called by the engine.
#include "pipeline/trigger/trigger_engine.h"

#include "base/check.h"
#include "base/ckd.h"

#define SWEEP_MS (1u << 29)

// The start, or a time that is TRIG_LONG_AGO before `now` if it was longer ago by `now`.
static uint32_t kept(uint32_t start, uint32_t before, uint64_t passed_ms, uint32_t now)
{
    uint64_t age = (uint64_t)(before - start) + passed_ms;
    return age > TRIG_LONG_AGO ? now - TRIG_LONG_AGO : start;
}

// Starts are rewritten for a clock that shows `before`, then `now` when `passed_ms` have passed.
static void sweep(struct dev_trigger_engine *engine, uint32_t before, uint64_t passed_ms,
                  uint32_t now, bool policies)
{
    for (uint32_t i = 0; i < engine->sticky_count; i++) {
        struct trig_state *state = &engine->states[engine->sticky[i]];
        state->start = kept(state->start, before, passed_ms, now);
    }
    for (uint32_t i = engine->key_newest; i != 0; i = engine->keys[i - 1].age_next) {
        struct trig_key *key = &engine->keys[i - 1];
        key->start = kept(key->start, before, passed_ms, now);
    }
    for (uint32_t i = 0; i < engine->live_count; i++) {
        engine->live[i].start = kept(engine->live[i].start, before, passed_ms, now);
    }
    for (uint32_t i = 0; i < engine->keyed_live_count; i++) {
        engine->keyed_live[i].start = kept(engine->keyed_live[i].start, before, passed_ms, now);
    }
    for (uint32_t i = 0; policies && i < engine->set->counts.policies; i++) {
        struct trig_policy_state *state = &engine->policies[i];
        state->last_ms = kept(state->last_ms, before, passed_ms, now);
        state->day_ms = kept(state->day_ms, before, passed_ms, now);
    }
}

// What passed since the last event, and whether that is known at all.
static bool passed(struct trig_clock *clock, const struct dev_event *event, uint64_t *out_us)
{
    *out_us = 0;
    if (event->boot != clock->boot) {
        if (event->wall_ms < clock->wall_ms) {
            return false;
        }
        uint64_t wall = event->wall_ms - clock->wall_ms;
        *out_us = wall > UINT64_MAX / 1000 ? UINT64_MAX : wall * 1000;
        return true;
    }
    if (event->mono_us >= clock->mono_us) {
        *out_us = event->mono_us - clock->mono_us;
        return true;
    }
    return clock->mono_us - event->mono_us <= (uint64_t)DEV_TRIGGER_SKEW_MS * 1000;
}

void trig_clock_advance(struct dev_trigger_engine *engine, const struct dev_event *event)
{
    struct trig_clock *clock = &engine->clock;
    uint32_t before = trig_now(engine);
    uint64_t us = 0;
    bool known = !clock->running || passed(clock, event, &us);
    bool skewed =
        clock->running && known && event->boot == clock->boot && event->mono_us < clock->mono_us;
    if (clock->running) {
        uint64_t after = base_sat_add_u64(clock->us, us);
        base_assert(after >= clock->us); // it never goes back
        uint64_t passed_ms = after / 1000 - clock->us / 1000;
        if (passed_ms + (before - clock->swept_ms) >= SWEEP_MS) {
            sweep(engine, before, passed_ms, before + (uint32_t)passed_ms, true);
            clock->swept_ms = before + (uint32_t)passed_ms;
        }
        clock->us = after;
    }
    if (!known) {
        engine->stats.clock_backwards++;
        sweep(engine, before, UINT32_MAX, before, false); // whatever began is over
    }
    clock->running = true;
    clock->boot = event->boot;
    clock->wall_ms = event->wall_ms;
    clock->mono_us = skewed ? clock->mono_us : event->mono_us;
}
