// From an outcome's figures to the policy's gate of decisions between device and cloud. Called by
// report_intake.c on the writer's thread, for updated devices and for control alike. The device
// goes on with its version: it has done what the version's rule says, and whether that rule may
// stay is the rollout's to decide.
#include "svc/device/cloud_gate.h"

#include "wire/cloud/cloud_counts.h"

#define FINGERPRINT UINT64_C(0x636c6f7564000000) // "cloud": and the fault

static const char *const details[POL_FALLBACK_FAULT_COUNT] = {
    [POL_FALLBACK_FINE] = "",
    [POL_FALLBACK_SENDS] = "more of its decisions go to the cloud than the stage's max_sent",
    [POL_FALLBACK_DIFFERS] = "fewer of the cloud's answers are its own than the stage's min_agreed",
    [POL_FALLBACK_LATER] =
        "more than 5 % of the cloud's answers take over the stage's max_cloud_ms",
};

void gw_cloud_judge(const struct pol_fallback_limits *limits, const struct wire_outcome *said,
                    struct wire_outcome *out)
{
    struct wire_cloud_counts counts;
    *out = *said;
    if (said->kind != WIRE_OUTCOME_RAN || !wire_cloud_figures_get(&said->figures, &counts)) {
        return;
    }
    const struct pol_fallback_seen seen = {
        .asked = counts.asked,
        .sent = counts.sent,
        .answered = counts.answered,
        .differed = counts.differed,
        .late = wire_cloud_later(&counts, limits->late_ms),
    };
    enum pol_fallback_fault fault = pol_fallback_judge(limits, &seen);
    if (fault != POL_FALLBACK_FINE) {
        out->kind = WIRE_OUTCOME_FAIL_CLOUD;
        out->detail = base_str_of(details[fault]);
        out->fingerprint = FINGERPRINT + fault;
    }
}
