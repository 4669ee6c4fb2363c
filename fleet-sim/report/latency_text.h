// A latency as the summary and the live view print it: "12.5 ms", never a zero for what was short.
#ifndef SIM_LATENCY_TEXT_H
#define SIM_LATENCY_TEXT_H

#include <stdint.h>

#define SIM_LATENCY_TEXT_MAX 32u // characters, with the byte behind them

// Microseconds, in `out`, which is returned: "none" for 0, which no measured one is.
const char *sim_latency_text(uint64_t latency_us, char out[SIM_LATENCY_TEXT_MAX]);

#endif
