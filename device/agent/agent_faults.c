// A device that is refused, or waits, says so and for what. Called by device_agent.c after each
// tick of the runtime, on the loop's thread. Works on what dev_stats counts alone: a refusal is
// said once for each status, a request without a good answer once for each failure, with the time
// until the device asks again.
#include "agent_faults.h"

static const char *unknown_text(const struct agent_faults *faults)
{
    if (!faults->has_credential) {
        return "it does not take this device for the one it says it is; without a credential it "
               "has to enrol";
    }
    return faults->can_enrol ? "it does not take this device's credential (any more), which then "
                               "enrols anew"
                             : "it does not take this device's credential (any more): an operator "
                               "resets it, and --enroll-token FILE enrols it anew";
}

// The gateway does not know this device, or no more. Said once; it is asked again later, since the
// device may be made known again.
static void note_refusal(struct agent_faults *faults, int status, const struct base_log *log)
{
    if (status != 0 && status != faults->refused_status) {
        base_log_error(log, "device", "the gateway answers %d: %s", status,
                       status == 401 ? unknown_text(faults) : "this device was revoked");
    }
    faults->refused_status = status;
}

void agent_faults_note(struct agent_faults *faults, const struct dev_stats *stats,
                       const struct base_log *log)
{
    const char *what = stats->failed_report ? "report" : "check-in";
    double wait_s = stats->failed_wait_ms / 1000.0;
    note_refusal(faults, stats->refused_status, log);
    if (stats->failed_requests == faults->failed_requests) {
        return;
    }
    faults->failed_requests = stats->failed_requests;
    if (stats->failed_status != 0) {
        base_log_warn(log, "device", "the gateway answered a %s with %d; asks again in %.1f s",
                      what, stats->failed_status, wait_s);
    } else {
        base_log_info(log, "device", "a %s got no answer; asks again in %.1f s", what, wait_s);
    }
}
