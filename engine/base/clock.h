// The real clocks. Only programs, ports and tools call these; cores get a struct base_clock_port.
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/ports.h"

uint64_t base_clock_mono_us(void);
uint64_t base_clock_wall_us(void);
// The two above as a port. Static, never freed.
const struct base_clock_port *base_clock_real(void);
// The same, but its monotonic clock goes on while the machine sleeps, so that a wall clock that is
// right afterwards did not jump. Static, never freed.
const struct base_clock_port *base_clock_through_sleep(void);

#endif
