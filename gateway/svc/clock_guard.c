// The wall clock compared with a steady one; clock_guard.h says by which rules. Pure. The control
// thread calls it through core_clock.c. What it needs of the past it gets as numbers, so tests let
// years pass. Time never goes back here: a wall clock that is behind slows it, one that jumps puts
// it in doubt.
#include "svc/clock_guard.h"

static uint64_t distance(int64_t ahead_us)
{
    return ahead_us < 0 ? (uint64_t)0 - (uint64_t)ahead_us : (uint64_t)ahead_us;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t gw_clock_guard_time_us(const struct gw_clock_guard *guard, uint64_t steady_us)
{
    uint64_t time_us = guard->offset_us + steady_us;
    return time_us > guard->floor_us ? time_us : guard->floor_us;
}

uint64_t gw_clock_guard_sure_us(const struct gw_clock_guard *guard, uint64_t steady_us)
{
    return guard->doubt != GW_CLOCK_SURE ? guard->sure_us
                                         : gw_clock_guard_time_us(guard, steady_us);
}

// Why the wall clock is not believed as it is now.
static enum gw_clock_doubt reason(const struct gw_clock_guard *guard)
{
    return guard->ahead_us >= 0                   ? GW_CLOCK_AHEAD
           : guard->last.wall_us < guard->born_us ? GW_CLOCK_UNSET
                                                  : GW_CLOCK_BEHIND;
}

static void doubt(struct gw_clock_guard *guard, uint64_t ahead_max_us)
{
    guard->doubt = reason(guard);
    guard->sure_us = gw_clock_guard_time_us(guard, guard->last.steady_us);
    guard->ahead_max_us = ahead_max_us;
}

// From now on the time is the wall clock's.
static void follow(struct gw_clock_guard *guard)
{
    guard->offset_us = guard->last.wall_us - guard->last.steady_us;
    guard->floor_us = 0;
    guard->doubt = GW_CLOCK_SURE;
    guard->allowance_us = GW_CLOCK_STEP_MAX_US;
    guard->ahead_us = 0;
}

static int64_t ahead_of(const struct gw_clock_guard *guard)
{
    return (int64_t)(guard->last.wall_us - gw_clock_guard_time_us(guard, guard->last.steady_us));
}

void gw_clock_guard_begin(struct gw_clock_guard *guard, const struct gw_clock_look *now,
                          uint64_t recorded_us, uint64_t born_us)
{
    *guard = (struct gw_clock_guard){.last = *now, .born_us = born_us};
    uint64_t least_us = recorded_us > born_us ? recorded_us : born_us;
    if (now->wall_us >= least_us - sooner(least_us, GW_CLOCK_STEP_MAX_US) &&
        (recorded_us == 0 || now->wall_us <= recorded_us + GW_CLOCK_AWAY_MAX_US)) {
        follow(guard);
        return;
    }
    guard->offset_us = least_us - now->steady_us;
    guard->ahead_us = ahead_of(guard);
    doubt(guard, recorded_us > 0 ? GW_CLOCK_AWAY_MAX_US : INT64_MAX);
}

void gw_clock_guard_still_ahead(struct gw_clock_guard *guard, uint64_t recorded_us,
                                uint64_t doubted_us)
{
    uint64_t right_us = doubted_us - sooner(doubted_us, GW_CLOCK_STEP_MAX_US);
    if (guard->doubt != GW_CLOCK_SURE || guard->last.wall_us < right_us ||
        right_us <= recorded_us) {
        return;
    }
    guard->offset_us = recorded_us - guard->last.steady_us;
    guard->ahead_us = ahead_of(guard);
    doubt(guard, right_us - recorded_us);
}

// A correction within the allowance. Time neither goes back nor leaps, for whoever waits by it has
// waited no longer: it goes at half its pace, or a little faster, until it is where the wall clock
// is.
static void correct(struct gw_clock_guard *guard, uint64_t passed_us)
{
    uint64_t by_us = distance(guard->ahead_us);
    if (guard->ahead_us < 0) {
        by_us = sooner(by_us, passed_us / 2);
        guard->floor_us = gw_clock_guard_time_us(guard, guard->last.steady_us);
        guard->offset_us -= by_us;
    } else {
        by_us = sooner(by_us, passed_us / GW_CLOCK_HASTE);
        guard->offset_us += by_us;
    }
    guard->allowance_us -= by_us;
}

// In doubt: is the wall clock back where it should be, or wrong in another way? A doubt that began
// at the start takes what may have passed while nothing ran. One that began since takes no more
// than corrections had left, and gives nothing back: else a clock would get anywhere by steps of
// which each is small.
static bool come_back(struct gw_clock_guard *guard)
{
    uint64_t off_us = distance(guard->ahead_us);
    bool since = guard->ahead_max_us == 0;
    uint64_t most_us = since                 ? guard->allowance_us
                       : guard->ahead_us < 0 ? GW_CLOCK_STEP_MAX_US
                                             : guard->ahead_max_us;
    if (off_us > most_us) {
        enum gw_clock_doubt before = guard->doubt;
        guard->doubt = reason(guard);
        return guard->doubt != before;
    }
    if (since) {
        guard->doubt = GW_CLOCK_SURE; // what is left is a correction
    } else {
        follow(guard);
    }
    return true;
}

bool gw_clock_guard_look(struct gw_clock_guard *guard, const struct gw_clock_look *now)
{
    uint64_t passed_us =
        now->steady_us > guard->last.steady_us ? now->steady_us - guard->last.steady_us : 0;
    guard->last = *now;
    guard->ahead_us = ahead_of(guard);
    uint64_t refill_us = passed_us / GW_CLOCK_DRIFT;
    guard->allowance_us = refill_us < GW_CLOCK_STEP_MAX_US - guard->allowance_us
                              ? guard->allowance_us + refill_us
                              : GW_CLOCK_STEP_MAX_US;
    if (guard->doubt != GW_CLOCK_SURE) {
        return come_back(guard);
    }
    if (distance(guard->ahead_us) > guard->allowance_us) {
        doubt(guard, 0);
        return true;
    }
    correct(guard, passed_us);
    return false;
}

int64_t gw_clock_guard_accept(struct gw_clock_guard *guard, const struct gw_clock_look *now)
{
    guard->last = *now;
    int64_t moved_us = ahead_of(guard);
    follow(guard);
    return moved_us;
}

const char *gw_clock_doubt_name(enum gw_clock_doubt why)
{
    static const char *const names[GW_CLOCK_DOUBT_COUNT] = {"sure", "ahead", "behind", "unset"};
    return (unsigned)why < GW_CLOCK_DOUBT_COUNT ? names[why] : "sure";
}
