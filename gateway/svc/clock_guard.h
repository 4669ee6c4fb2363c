// The gateway's time: its wall clock, as far as that can be believed.
//
// What the gateway signs leads devices in time, and what it judges waits for time, so a wall clock
// that jumps must lead neither. It is compared with a steady clock, which no operator and no NTP
// sets, and at the start with the last time that was recorded. Corrections count: up to
// GW_CLOCK_STEP_MAX_US at once, and one part in GW_CLOCK_DRIFT of the time that passes. They are
// not taken in one step, which would be the end of what is waited for seconds: the time goes faster
// by one part in GW_CLOCK_HASTE, or at half its pace, until it is the wall clock's. More is a jump:
// the time is in doubt. It goes on by the steady clock then, but is not to be signed:
// gw_clock_guard_sure_us stands still at the last time that was sure. The doubt ends when the wall
// clock comes back to where it should be, or when an operator accepts it.
//
// Pure; one thread. Microseconds, wall clock since 1970. Clocks may have any value: differences are
// taken modulo 2^64. Nothing fails.
#ifndef GW_CLOCK_GUARD_H
#define GW_CLOCK_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#define GW_CLOCK_STEP_MAX_US UINT64_C(300000000) // 5 minutes
#define GW_CLOCK_DRIFT       100u                // corrections: at most 36 s an hour
#define GW_CLOCK_HASTE       8u                  // 5 minutes are made up in 40
#define GW_CLOCK_AWAY_MAX_US                                                                       \
    UINT64_C(2592000000000) // not running for so long, 30 days, is plausible

enum gw_clock_doubt {
    GW_CLOCK_SURE,
    GW_CLOCK_AHEAD,  // the wall clock jumped forward
    GW_CLOCK_BEHIND, // ... or back
    GW_CLOCK_UNSET,  // it is behind the program's own date
    GW_CLOCK_DOUBT_COUNT
};

// Both clocks at one instant.
struct gw_clock_look {
    uint64_t wall_us;
    uint64_t steady_us;
};

struct gw_clock_guard {
    enum gw_clock_doubt doubt;
    uint64_t offset_us;    // time minus steady clock
    uint64_t floor_us;     // no time below it was told
    uint64_t sure_us;      // in doubt: the last time that was sure
    uint64_t allowance_us; // of corrections that are left
    uint64_t
        ahead_max_us; // in doubt since the start: how far ahead a wall clock may be that ends it
    int64_t ahead_us; // wall clock before the time, at the last look
    uint64_t born_us; // when the program was built; 0: not known
    struct gw_clock_look last;
};

// A process starts. `recorded_us`: the last time that was recorded, 0: none is; `born_us`: when the
// program was built, 0: not known.
void gw_clock_guard_begin(struct gw_clock_guard *guard, const struct gw_clock_look *now,
                          uint64_t recorded_us, uint64_t born_us);
// Behind gw_clock_guard_begin: the process before this one had seen the wall clock jump forward,
// and last at `doubted_us`. Unless it shows an earlier time now, nobody has set it right: the time
// is in doubt again, from `recorded_us` on.
void gw_clock_guard_still_ahead(struct gw_clock_guard *guard, uint64_t recorded_us,
                                uint64_t doubted_us);
// Several times a minute. True: a doubt began, ended, or has another reason: the wall clock turned
// again.
bool gw_clock_guard_look(struct gw_clock_guard *guard, const struct gw_clock_look *now);
// The wall clock is right, whatever it says. Returns by how much the time moved.
int64_t gw_clock_guard_accept(struct gw_clock_guard *guard, const struct gw_clock_look *now);
// The time. It does not go back but when a wall clock behind it is accepted, or ends a doubt.
uint64_t gw_clock_guard_time_us(const struct gw_clock_guard *guard, uint64_t steady_us);
// ... as far as it may be signed.
uint64_t gw_clock_guard_sure_us(const struct gw_clock_guard *guard, uint64_t steady_us);
const char *gw_clock_doubt_name(enum gw_clock_doubt doubt); // static: "sure", "ahead", ...

#endif
