// Check-ins and reports that the gateway did not take: answered with 413, 429 or 5xx. Each is
// counted, the first of an interval is in the log, and of the devices that were last answered so it
// is known what and when, for `why`. So is what a device did not believe of the gateway: metadata
// and orders that it refused, which belong to no rollout.
//
// SHARED MUTABLE STATE. One mutex, taken for such answers alone; workers note, anybody asks.
#ifndef GW_DEVICE_FAULTS_H
#define GW_DEVICE_FAULTS_H

#include "base/status.h"
#include "svc/exchange.h"

#include <stdbool.h>

#define GW_FAULTS_MAX       1024u // devices whose last one is remembered; then the older gives way
#define GW_FAULT_DETAIL_MAX 120u
#define GW_FAULT_LOG_S      60u // a line in the log for each kind of request and answer

enum gw_fault_what {
    GW_FAULT_NONE,
    GW_FAULT_CHECKIN,
    GW_FAULT_REPORT,
    GW_FAULT_WHAT_COUNT,                     // of what is counted
    GW_FAULT_DISBELIEF = GW_FAULT_WHAT_COUNT // the device's, of what it was told
};

struct gw_core;
struct gw_faults;

struct gw_fault {
    uint64_t device_id;
    uint32_t at_s;
    int status; // 0 of a disbelief
    enum gw_fault_what what;
    char detail[GW_FAULT_DETAIL_MAX + 1]; // as the answer, or the device, said it; visible
};

BASE_NODISCARD enum base_status gw_faults_new(struct gw_faults **out_faults);
void gw_faults_free(struct gw_faults *faults); // accepts NULL
// What an answered request was, and its reply. Remembered of a device is what it showed to be its
// own request, or, of one that never showed who it is, any.
void gw_faults_note(struct gw_core *core, enum gw_fault_what what,
                    const struct gw_exchange *exchange);
// What a device that showed who it is, or never did, reported of no rollout. Any thread.
void gw_faults_disbelief(struct gw_core *core, uint64_t device_id, struct base_str detail);
// False: none is remembered.
bool gw_faults_last(struct gw_core *core, uint64_t device_id, struct gw_fault *out);
// For /metrics: the i-th count with its labels. False: past the last.
bool gw_faults_count(const struct gw_core *core, uint32_t i, enum gw_fault_what *out_what,
                     const char **out_status, uint64_t *out_count);
const char *gw_fault_what_name(enum gw_fault_what what); // "check-in", "report", "refusal"

#endif
