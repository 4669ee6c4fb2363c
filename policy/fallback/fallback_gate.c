// The gate of decisions between device and cloud: is a device beyond its stage's limits? Asked by
// the gateway for each report that tells such counts (svc/device/cloud_gate.c), on the writer's
// thread. Pure; any thread. Each question is one-sided and has its own level.
#include "policy/fallback/fallback_gate.h"

#include "policy/stat/assert.h"
#include "policy/stat/binomial.h"

#define PPM 1000000u

// Is it shown that more than `most` of the total are so? Never of all.
static bool more(uint32_t events, uint32_t total, double most)
{
    pol_assert(events <= total);
    return events > 0 && most < 1 && (double)events > most * total &&
           pol_binomial_at_least(events, total, most) <= POL_FALLBACK_LEVEL;
}

bool pol_fallback_limits_check(const struct pol_fallback_limits *limits)
{
    return limits->min_kept_ppm <= PPM && limits->min_agreed_ppm <= PPM &&
           limits->late_ms <= POL_FALLBACK_MS_MAX;
}

enum pol_fallback_fault pol_fallback_judge(const struct pol_fallback_limits *limits,
                                           const struct pol_fallback_seen *seen)
{
    pol_assert(pol_fallback_limits_check(limits));
    if (more(seen->sent, seen->asked, (double)(PPM - limits->min_kept_ppm) / PPM)) {
        return POL_FALLBACK_SENDS;
    }
    if (more(seen->differed, seen->answered, (double)(PPM - limits->min_agreed_ppm) / PPM)) {
        return POL_FALLBACK_DIFFERS;
    }
    return limits->late_ms > 0 && more(seen->late, seen->answered, POL_FALLBACK_LATE)
               ? POL_FALLBACK_LATER
               : POL_FALLBACK_FINE;
}
