// How a latency is printed. run_summary.c and run/live_view.c call it, on the coordinator's thread,
// and it is apart from both so that the two say the same number the same way. What is shorter than
// the last digit is said to be so, and not shown as a zero. Pure.
#include "report/latency_text.h"

#include <stdio.h>

#define SHORT_US 100u // a tenth of a millisecond, the last digit there is

const char *sim_latency_text(uint64_t latency_us, char out[SIM_LATENCY_TEXT_MAX])
{
    if (latency_us == 0) {
        (void)snprintf(out, SIM_LATENCY_TEXT_MAX, "none");
    } else if (latency_us < SHORT_US) {
        (void)snprintf(out, SIM_LATENCY_TEXT_MAX, "under 0.1 ms");
    } else {
        (void)snprintf(out, SIM_LATENCY_TEXT_MAX, "%.1f ms", (double)latency_us / 1000);
    }
    return out;
}
