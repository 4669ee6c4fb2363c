// A device that is refused, or waits, says so and for what. Called by device_agent.c after each
// tick of the runtime, on the loop's thread. Works on what dev_stats counts alone: a refusal is
// said once for each status, a request without a good answer once for each failure, with the time
// until the device asks again, and metadata that is not believed each time (agent_quiet.c holds
// back what is said again).
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

// Signed by others: the root, or the key, or the gateway is not the device's.
static bool is_foreign(enum base_status why)
{
    return why == BASE_ERR_SIGNATURE || why == BASE_ERR_THRESHOLD || why == BASE_ERR_ROOT;
}

static const char *hint_of(enum base_status why)
{
    if (is_foreign(why)) {
        return "; was it started with the --root or --trust of another gateway? It needs this "
               "one's, and a --dir of its own";
    }
    return why == BASE_ERR_EXPIRED || why == BASE_ERR_FROZEN
               ? "; the gateway has no newer one, or this device's clock is ahead"
               : "";
}

// Without metadata a device takes no release. An offer may be refused in the course of things; one
// that others have signed never is.
static void note_trust(struct agent_faults *faults, const struct dev_stats *stats,
                       const struct base_log *log)
{
    enum base_status why = (enum base_status)stats->refused_offer_why;
    if (stats->refused_offers != faults->refused_offers && is_foreign(why)) {
        base_log_warn(log, "device", "what the gateway offers is not believed: %s; it is not run%s",
                      base_status_text(why), hint_of(why));
    }
    why = (enum base_status)stats->refused_metadata_why;
    if (stats->refused_metadata != faults->refused_metadata) {
        base_log_warn(log, "device",
                      "the gateway's metadata is not believed: %s; no release is taken by it%s",
                      base_status_text(why), hint_of(why));
    }
    faults->refused_offers = stats->refused_offers;
    faults->refused_metadata = stats->refused_metadata;
}

void agent_faults_note(struct agent_faults *faults, const struct dev_stats *stats,
                       const struct base_log *log)
{
    const char *what = stats->failed_report ? "report" : "check-in";
    double wait_s = stats->failed_wait_ms / 1000.0;
    note_refusal(faults, stats->refused_status, log);
    note_trust(faults, stats, log);
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
