// The time of the core: a time line that goes back only when an operator accepts a wall clock that
// is behind, and continues over a restart; in doubt, it stands still for what is signed or judged.
// What tells it is called by anybody, the rest at start and by the control thread.
#ifndef GW_CORE_CLOCK_H
#define GW_CORE_CLOCK_H

#include "base/status.h"
#include "svc/clock_guard.h"

#include <stdatomic.h>

struct gw_core;

// The guard is the control thread's; the rest is what it says, for everybody: relaxed.
struct gw_core_clock {
    struct gw_clock_guard guard;
    uint64_t recorded_us; // on disk; 0: nothing is
    uint32_t accepted_s;  // since when it is as somebody last accepted it; 0: nobody did
    uint64_t seed;        // of request numbers
    _Atomic uint64_t offset_us;
    _Atomic uint64_t floor_us;
    _Atomic uint64_t stood_us; // in doubt: the last time that was sure; 0: no doubt
    _Atomic int doubt;         // enum gw_clock_doubt
    _Atomic uint64_t doubts;
    _Atomic uint64_t apart_s; // wall clock and time
};

// Microseconds that go back only when an operator accepts a wall clock that is behind, and continue
// over a restart: the time line of offers and last_seen, in doubt by the steady clock.
uint64_t gw_core_now_us(const struct gw_core *core);
uint32_t gw_core_now_s(const struct gw_core *core);
// The same as far as it may be signed or judged by: it stands still while the time is in doubt.
uint64_t gw_core_sure_us(const struct gw_core *core);
uint32_t gw_core_sure_s(const struct gw_core *core);
// All reports of this second and those before have been counted; Unix seconds, at most the last
// one.
uint32_t gw_core_heard_s(const struct gw_core *core);
// At start: first from the clock alone, then from what the store has. `born_s`: when the program
// was built; 0: not known.
struct gw_clock_look gw_core_clock_look(const struct gw_core *core);
// Control thread: what the guard says now is everybody's.
void gw_core_clock_tell(struct gw_core *core);
void gw_core_clock_init(struct gw_core *core);
BASE_NODISCARD enum base_status gw_core_clock_begin(struct gw_core *core, uint64_t born_s);
// At each tick: looks at the clocks, records the time now and then.
void gw_core_clock_step(struct gw_core *core);

#endif
