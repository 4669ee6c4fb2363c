// Calls of models in the cloud: what the runtime keeps for them (device/cloud.h says what they do).
#ifndef DEV_CLOUD_PART_H
#define DEV_CLOUD_PART_H

#include "core/base/backoff.h"
#include "core/base/part.h"
#include "device/cloud.h"

#define DEV_CLOUD_DENIED_US   (60 * 1000000ull) // that a gateway's "no" stands
#define DEV_CLOUD_ESTIMATE_US (60 * 1000000ull) // that a time is remembered
#define DEV_CLOUD_WAIT_MAX_S  3600u             // of a gateway's wish to wait
#define DEV_CLOUD_AGAIN_US    10000ull          // until the connection is asked again for room
#define DEV_CLOUD_REPEAT_US   500000ull         // until a call that still runs is asked for again
#define DEV_CLOUD_DOWN_MS     1000u             // first pause after no gateway answered
#define DEV_CLOUD_DOWN_MAX_MS 60000u            // longest pause

// How long calls of a model take, from being sent to their answer.
struct dev_cloud_time {
    uint64_t model; // hash of its name; 0: free
    uint64_t measured_us;
    uint32_t took_us; // moving average
};

struct dev_cloud {
    struct dev_cloud_call *first; // by priority, then as they came; those under way among them
    uint32_t calls_max;           // of the configuration
    uint32_t calls;
    uint32_t under_way;
    bool down;              // no gateway answered the last request
    uint64_t down_until_us; // then one call finds out
    uint64_t refused_until_us;
    enum wire_cloud_why refused; // what the gateway said of all calls of this device
    uint64_t again_us;           // the transport had no room; 0: it had
    uint64_t answered;
    uint64_t not_answered;
    struct dev_backoff backoff;
    struct dev_cloud_time times[DEV_CLOUD_MODELS_MAX];
};

extern const struct dev_part dev_cloud_part;

#endif
