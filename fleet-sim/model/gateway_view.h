// What the gateway says about a run (run/gateway_watch.c asks it): its load, and the rollout.
#ifndef SIM_GATEWAY_VIEW_H
#define SIM_GATEWAY_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_GATEWAY_UNKNOWN (-1.0)
#define SIM_WATCH_TEXT      64

// What the gateway said about itself; SIM_GATEWAY_UNKNOWN where it did not.
struct sim_gateway_load {
    double requests_total;
    double connections;
    double streams;
    double rss_bytes;
    double cpu_seconds;
};

struct sim_watch_view {
    bool known;
    bool denied;  // the gateway wants a token that may look
    bool missing; // it has no rollout of the id that was asked for
    uint64_t rollout;
    char task[SIM_WATCH_TEXT];
    char version[SIM_WATCH_TEXT];
    char state[SIM_WATCH_TEXT];
    char stage[SIM_WATCH_TEXT];
    char verdict[SIM_WATCH_TEXT];
    char reason[160];
    double percent;
    double failure_ratio;
    uint64_t offered;
    uint64_t succeeded;
    uint64_t failed;
    uint64_t rolled_back;
    uint64_t on_version;
    struct sim_gateway_load load;
};

#endif
