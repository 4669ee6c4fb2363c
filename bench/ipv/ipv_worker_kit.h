// What the programs of the worked example share: arguments, times of visits, their percentiles.
#ifndef IPV_WORKER_KIT_H
#define IPV_WORKER_KIT_H

#include "ipv_feature.h"
#include "ipv_world.h"
#include "pipeline/record/recorder.h"

#define IPV_PARTITION_DEVICES 4 // whose logs are one partition; an empty line ends it

struct ipv_span {
    uint64_t seed;
    uint64_t first; // device
    uint64_t devices;
    uint32_t sessions; // per device
};

// Four arguments: SEED FIRST DEVICES SESSIONS.
bool ipv_span_parse(struct ipv_span *span, char **arguments);
// Ends the program with `what` on stderr unless `holds`.
void ipv_need(bool holds, const char *what);
uint64_t ipv_now_ns(void);

struct ipv_samples {
    uint64_t *ns;
    size_t count, capacity;
};

struct ipv_times {
    struct ipv_samples visit; // all of a visit's events, EXIT and feature included
    struct ipv_samples exit;  // from EXIT to feature
    struct ipv_samples event; // any event
    uint64_t events;
    uint64_t events_of_features;
    uint64_t feature_bytes;
};

void ipv_samples_add(struct ipv_samples *samples, uint64_t ns);
// Adds `took` to the visit of `event` (a table of sums by visit number); when `done`, keeps it.
void ipv_times_event(struct ipv_times *times, uint64_t *visit_ns, size_t visits,
                     const struct dev_event *event, uint64_t took, bool done);
// JSON on stdout, without newline.
void ipv_times_print(struct ipv_times *times);
void ipv_times_done(struct ipv_times *times);
// Leaves an event the attributes the feature uses, encoded into `buffer` (DEV_EVENT_ATTRS_BYTES):
// what a recorder keeps when the feature's task alone is live.
void ipv_cut_down(const struct ipv_device *device, struct dev_event *event, uint8_t *buffer);
// The event as the app records it, with all its attributes.
struct dev_recording ipv_recording(const struct ipv_device *device, const struct dev_event *event);

#endif
