// How fast a stage makes offers, and when: rate with ramp, cap on devices under way, maintenance
// windows, retries per class of failure. Pure; time and counts are parameters.
#ifndef POL_PACE_H
#define POL_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define POL_WINDOWS_MAX        4u
#define POL_RETRIES_MAX        10u
#define POL_PACE_UNLIMITED     UINT64_MAX
#define POL_WINDOW_MINUTES_MAX (24u * 60)

// ---- Rate

struct pol_pace {
    uint32_t per_minute;     // offers a minute; 0: as fast as devices come
    uint32_t factor_percent; // the rate grows by this every `step`; 0 or 100: constant
    uint64_t step;           // devices
    bool by_success;         // ... that succeeded; otherwise that were offered it
    uint32_t max_per_minute; // 0: no bound on the ramp
    uint64_t in_flight_max;  // offered and not done; 0: no cap
};

// Kept by the caller between grants; zero at the opening of a stage.
struct pol_pace_state {
    uint64_t updated_us;
    uint64_t credit; // offers saved up, in millionths
};

bool pol_pace_check(const struct pol_pace *pace);
// Offers a minute now: per_minute * (factor / 100) ^ floor(devices / step), at most max_per_minute.
uint64_t pol_pace_rate(const struct pol_pace *pace, uint64_t offered, uint64_t succeeded);
// What a grant goes by.
struct pol_pace_counts {
    uint64_t unused; // of the last grant
    uint64_t offered, succeeded;
    uint64_t in_flight; // offered and not done
};
// Offers that may be made until the next call. `unused` of the last grant come back. A second's
// worth at most is saved up (but always one offer). POL_PACE_UNLIMITED: no bound at all.
uint64_t pol_pace_grant(const struct pol_pace *pace, struct pol_pace_state *state,
                        struct pol_pace_counts counts, uint64_t now_us);

// ---- Maintenance windows

struct pol_window {
    uint8_t weekdays;   // bit 0 Monday ... bit 6 Sunday; the day on which the window begins
    uint16_t start_min; // minutes after midnight
    uint16_t minutes;   // 1..1440; may reach into the next day
    bool device_time;   // the clock is the device's (its offset from UTC), otherwise UTC
};

bool pol_window_check(const struct pol_window *window);
// Seconds until one of the windows is open; 0: one is, or there are none. `now_s` is Unix time,
// `offset_min` what the device's clock is ahead of UTC.
uint32_t pol_windows_wait_s(const struct pol_window *windows, uint32_t count, uint64_t now_s,
                            int32_t offset_min);

// ---- Retries

enum pol_failure {
    POL_FAILURE_VERIFY,
    POL_FAILURE_DOWNLOAD,
    POL_FAILURE_LOAD,
    POL_FAILURE_EXCEPTION,
    POL_FAILURE_TIMEOUT,
    POL_FAILURE_MEMORY,
    POL_FAILURE_CRASH,
    POL_FAILURE_OUTPUT,
    POL_FAILURE_COUNT
};

const char *pol_failure_name(enum pol_failure failure);

#endif
