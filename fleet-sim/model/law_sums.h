// What the law of the tunnel comes to over a whole run (run/fleet_settle.h says what the law is).
#ifndef SIM_LAW_SUMS_H
#define SIM_LAW_SUMS_H

#include "wire/tunnel_frame.h"

struct sim_law_class {
    uint64_t offered;  // to the tunnel, counted by the simulator
    uint64_t produced; // of them, those the device knows of at the end
    uint64_t durable;
    uint64_t queued;
    uint64_t lost;
    uint64_t lost_by[WIRE_TUNNEL_LOSS_END];
    uint64_t gone; // with a kill, before they were stored
};

struct sim_law {
    struct sim_law_class classes[WIRE_TUNNEL_CLASSES];
    uint64_t devices;
    uint64_t checked; // pairs of device and class
    uint64_t broken;
    uint64_t stored_bytes; // in the stores of all devices
    bool told;             // the gateway's side was in this process: it says what it took
    uint64_t taken;        // records, each durable there once
};

#endif
