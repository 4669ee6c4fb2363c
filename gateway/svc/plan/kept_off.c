// Segments that are kept off a rollout: quarantine.c (control thread) says which, cohort_compile.c
// asks on workers' threads, watch.c and plan_of_catalog.c on the control thread. A reader may see
// some of what is being set and not the rest: it reads again with the plan that has the signature.
#include "svc/plan/kept_off.h"

#include "base/check.h"
#include "svc/plan/fleet_segment.h"

void gw_kept_off_set(struct gw_kept_off *kept_off, const struct pol_held *held)
{
    base_assert(held->count <= GW_QUARANTINE_MAX);
    for (uint32_t i = 0; i < GW_QUARANTINE_MAX; i++) {
        uint64_t segment = i < held->count ? held->names[i] : 0;
        atomic_store_explicit(&kept_off->segments[i], segment, memory_order_relaxed);
    }
}

bool gw_kept_off_has(const struct gw_kept_off *kept_off, const struct pol_attrs *attrs)
{
    uint64_t segment = 0;
    for (uint32_t i = 0; i < GW_QUARANTINE_MAX; i++) {
        uint64_t out = atomic_load_explicit(&kept_off->segments[i], memory_order_relaxed);
        if (out == 0) {
            return false; // they are kept without gaps
        }
        segment = segment != 0 ? segment : gw_segment_of(attrs, NULL);
        if (out == segment) {
            return true;
        }
    }
    return false;
}

uint64_t gw_kept_off_signature(const struct gw_kept_off *kept_off)
{
    uint64_t signature = 0;
    for (uint32_t i = 0; i < GW_QUARANTINE_MAX; i++) {
        uint64_t out = atomic_load_explicit(&kept_off->segments[i], memory_order_relaxed);
        signature = out != 0 ? signature * 31 + out : signature;
    }
    return signature;
}
