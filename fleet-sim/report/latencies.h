// Latencies of one second, or of the whole run.
#ifndef SIM_LATENCIES_H
#define SIM_LATENCIES_H

#include "base/hist.h"
#include "ports/sim_transport.h"

struct sim_latencies {
    struct base_hist lag_us;     // wake later than intended
    struct base_hist checkin_us; // intended wake to the answer of its check-in
    struct base_hist request_us[SIM_EXCHANGE_KIND_COUNT]; // handed to the transport to its end
};

#endif
