// Rates, windows, and the names of failures. Called by the gateway's control thread (grants,
// svc/rollout/rollout_control.c), by its workers (windows, svc/device/offer_gate.c), and by the API
// and rollout.c, which check what was written down; pure, the state of a grant is the caller's.
// Credit is counted in millionths of an offer, so slow rates lose nothing between ticks, and at
// most a second's worth is saved up: after a pause no burst follows.
#include "policy/pace.h"

#include "policy/stat/assert.h"

#define MICRO          1000000u
#define MINUTE_US      60000000u
#define DAY_MIN        1440u
#define WEEK_MIN       (7u * DAY_MIN)
#define EPOCH_WEEKDAY  3u // 1 January 1970 was a Thursday
#define RATE_MAX       100000000u
#define RAMP_STEPS_MAX 64u

bool pol_pace_check(const struct pol_pace *pace)
{
    bool ramps = pace->factor_percent > 100;
    if (pace->factor_percent != 0 && (pace->factor_percent < 100 || pace->factor_percent > 1000)) {
        return false;
    }
    if (ramps && (pace->step == 0 || pace->per_minute == 0)) {
        return false;
    }
    return pace->per_minute <= RATE_MAX && pace->max_per_minute <= RATE_MAX;
}

uint64_t pol_pace_rate(const struct pol_pace *pace, uint64_t offered, uint64_t succeeded)
{
    uint64_t most = pace->max_per_minute > 0 ? pace->max_per_minute : RATE_MAX;
    uint64_t rate = pace->per_minute;
    if (pace->factor_percent > 100 && pace->step > 0) {
        uint64_t steps = (pace->by_success ? succeeded : offered) / pace->step;
        steps = steps < RAMP_STEPS_MAX ? steps : RAMP_STEPS_MAX;
        for (uint64_t i = 0; i < steps && rate < most; i++) {
            rate = rate * pace->factor_percent / 100;
        }
    }
    return rate < most ? rate : most;
}

static uint64_t rate_grant(const struct pol_pace *pace, struct pol_pace_state *state,
                           struct pol_pace_counts counts, uint64_t now_us)
{
    uint64_t rate = pol_pace_rate(pace, counts.offered, counts.succeeded);
    uint64_t full = rate * MICRO / 60; // a second's worth
    full = full > MICRO ? full : MICRO;
    uint64_t elapsed_us =
        state->updated_us > 0 && now_us > state->updated_us ? now_us - state->updated_us : 0;
    elapsed_us = elapsed_us < MINUTE_US ? elapsed_us : MINUTE_US;
    // What was granted and not used comes back.
    state->credit +=
        rate * elapsed_us / 60 + (counts.unused < RATE_MAX ? counts.unused * MICRO : full);
    if (state->credit > full) {
        state->credit = full;
    }
    pol_assert(state->credit <= full);
    uint64_t whole = state->credit / MICRO;
    state->credit -= whole * MICRO;
    return whole;
}

uint64_t pol_pace_grant(const struct pol_pace *pace, struct pol_pace_state *state,
                        struct pol_pace_counts counts, uint64_t now_us)
{
    uint64_t room = POL_PACE_UNLIMITED;
    if (pace->in_flight_max > 0) {
        room = counts.in_flight < pace->in_flight_max ? pace->in_flight_max - counts.in_flight : 0;
    }
    uint64_t grant = room;
    if (pace->per_minute > 0) {
        grant = rate_grant(pace, state, counts, now_us);
        if (grant > room) { // what the cap keeps back is not lost
            state->credit += (grant - room) * MICRO;
            grant = room;
        }
    }
    pol_assert(grant <= room);
    state->updated_us = now_us;
    return grant;
}

// ---- Windows

bool pol_window_check(const struct pol_window *window)
{
    return window->weekdays > 0 && window->weekdays < 128 && window->start_min < DAY_MIN &&
           window->minutes >= 1 && window->minutes <= POL_WINDOW_MINUTES_MAX;
}

// Minutes from Monday 00:00 of the clock.
static uint32_t week_minute(uint64_t now_s, int32_t offset_min)
{
    int64_t minutes = (int64_t)(now_s / 60 % WEEK_MIN) + EPOCH_WEEKDAY * DAY_MIN + offset_min;
    minutes %= (int64_t)WEEK_MIN;
    return (uint32_t)(minutes < 0 ? minutes + (int64_t)WEEK_MIN : minutes);
}

static uint32_t window_wait_s(const struct pol_window *window, uint64_t now_s, int32_t offset_min)
{
    uint32_t now_min = week_minute(now_s, window->device_time ? offset_min : 0);
    pol_assert(now_min < WEEK_MIN);
    pol_assert(window->start_min < DAY_MIN); // pol_window_check saw it
    uint32_t shortest = UINT32_MAX;
    for (uint32_t day = 0; day < 7; day++) {
        if ((window->weekdays >> day & 1) == 0) {
            continue;
        }
        uint32_t start = day * DAY_MIN + window->start_min;
        uint32_t since = (now_min + WEEK_MIN - start) % WEEK_MIN;
        if (since < window->minutes) {
            return 0;
        }
        uint32_t wait_s = (WEEK_MIN - since) * 60 - (uint32_t)(now_s % 60);
        shortest = wait_s < shortest ? wait_s : shortest;
    }
    return shortest;
}

uint32_t pol_windows_wait_s(const struct pol_window *windows, uint32_t count, uint64_t now_s,
                            int32_t offset_min)
{
    uint32_t shortest = count == 0 ? 0 : UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t wait_s = window_wait_s(&windows[i], now_s, offset_min);
        shortest = wait_s < shortest ? wait_s : shortest;
    }
    return shortest;
}

// ---- Names

const char *pol_failure_name(enum pol_failure failure)
{
    pol_assert((unsigned)failure <= POL_FAILURE_COUNT);
    switch (failure) {
    case POL_FAILURE_VERIFY:
        return "verify";
    case POL_FAILURE_DOWNLOAD:
        return "download";
    case POL_FAILURE_LOAD:
        return "load";
    case POL_FAILURE_EXCEPTION:
        return "exception";
    case POL_FAILURE_TIMEOUT:
        return "timeout";
    case POL_FAILURE_MEMORY:
        return "memory";
    case POL_FAILURE_CRASH:
        return "crash";
    case POL_FAILURE_OUTPUT:
        return "output";
    case POL_FAILURE_COUNT:
        break;
    }
    return "unknown";
}
