// The time a device believes; device_time.h says by which rules. Pure: the clocks come in as struct
// dev_time_now, which dev_clocks (runtime.c) fills. Called on the runtime's thread by those who
// learn a time (device_offer.c of releases, trust_judge.c of the director's answer, trust_store.c
// of roots), by those who ask for it (device_lease.c, and device_offer.c for expiry), and by
// device_state.c for what is stored. Sums and differences saturate, so that no signed number can
// wrap it.
#include "core/base/device_time.h"

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

// What was said at `at_us`, now.
static uint64_t carried(uint64_t said_s, uint64_t at_us, const struct dev_time_now *now)
{
    uint64_t passed_us = now->mono_us > at_us ? now->mono_us - at_us : 0;
    return said_s > 0 ? plus(said_s, passed_us / 1000000) : 0;
}

// Dates that do not move: nothing gives them up but another root.
static uint64_t dates(const struct dev_time *time)
{
    return later(time->born_s, time->root_s);
}

static bool agree(uint64_t a, uint64_t b)
{
    return later(a, b) - sooner(a, b) <= DEV_TIME_AHEAD_MAX_S;
}

uint64_t dev_time_offline_now(const struct dev_time *time, const struct dev_time_now *now)
{
    return carried(time->offline_s, time->offline_at_us, now);
}

uint64_t dev_time_said(const struct dev_time *time, const struct dev_time_now *now)
{
    return carried(time->online_s, time->online_at_us, now);
}

void dev_time_boot(struct dev_time *time, uint64_t born_s, const struct dev_time_now *now)
{
    time->born_s = born_s;
    time->root_s = 0;
    time->offline_at_us = now->mono_us;
    time->online_at_us = now->mono_us;
}

struct dev_time_bracket dev_time_bracket(const struct dev_time *time,
                                         const struct dev_time_now *now)
{
    uint64_t floor_s = later(dates(time), dev_time_offline_now(time, now));
    uint64_t said_s = dev_time_said(time, now);
    uint64_t bound_s = plus(now->own_s, DEV_TIME_AHEAD_MAX_S);
    struct dev_time_bracket out = {.not_before_s = floor_s, .own_counts = bound_s >= floor_s};
    if (out.own_counts) {
        out.used_s = later(later(now->own_s, floor_s), sooner(said_s, bound_s));
        out.not_after_s = later(bound_s, out.used_s);
    } else {
        out.used_s = later(floor_s, said_s);
        out.not_after_s = said_s > 0 ? plus(out.used_s, DEV_TIME_AHEAD_MAX_S) : UINT64_MAX;
    }
    return out;
}

void dev_time_offline(struct dev_time *time, uint64_t issued_s, const struct dev_time_now *now)
{
    struct dev_time_bracket bracket = dev_time_bracket(time, now);
    if (issued_s > dev_time_offline_now(time, now) && issued_s <= bracket.not_after_s) {
        time->offline_s = issued_s;
        time->offline_at_us = now->mono_us;
    }
}

void dev_time_newer(struct dev_time *time, uint64_t issued_s, uint64_t expires_s,
                    const struct dev_time_now *now)
{
    bool in_life = plus(now->own_s, DEV_TIME_AHEAD_MAX_S) >= later(issued_s, dates(time)) &&
                   now->own_s < expires_s;
    if (!dev_time_bracket(time, now).own_counts && in_life) {
        time->offline_s = issued_s;
        time->offline_at_us = now->mono_us;
    }
}

bool dev_time_online(struct dev_time *time, uint64_t issued_s, uint64_t root_s,
                     const struct dev_time_now *now)
{
    uint64_t before_s = dev_time_latest(time, now);
    time->root_s = root_s;
    time->online_s = issued_s;
    time->online_at_us = now->mono_us;
    bool own_dated = plus(now->own_s, DEV_TIME_AHEAD_MAX_S) >= dates(time);
    if (!dev_time_bracket(time, now).own_counts && own_dated && agree(now->own_s, issued_s)) {
        time->offline_s = 0; // two against one
    }
    return dev_time_latest(time, now) < before_s;
}

void dev_time_root(struct dev_time *time, uint64_t root_s)
{
    time->root_s = root_s;
    time->online_s = 0;
    time->offline_s = 0;
}

uint64_t dev_time_latest(const struct dev_time *time, const struct dev_time_now *now)
{
    return later(dev_time_bracket(time, now).used_s, dev_time_said(time, now));
}
