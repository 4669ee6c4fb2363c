// What the gateway did not take of a device, told in the agent's log. One thread.
#ifndef AGENT_FAULTS_H
#define AGENT_FAULTS_H

#include "base/log.h"
#include "device/device.h"

// Who speaks, and what the log has told; zeroed at first.
struct agent_faults {
    bool has_credential;
    bool can_enrol;     // it has a token to do so
    int refused_status; // 0: not refused
    uint64_t failed_requests;
    uint64_t refused_offers;
    uint64_t refused_metadata;
};

// Looks at the runtime's figures after a tick, and says what is new.
void agent_faults_note(struct agent_faults *faults, const struct dev_stats *stats,
                       const struct base_log *log);

#endif
