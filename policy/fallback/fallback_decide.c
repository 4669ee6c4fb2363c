// The decision between a device's own result and the cloud's model, in the order that the header
// tells. Called by scripts through walle.cloud.decide (vm_decide.c), on the VM's thread; pure, any
// thread. Everything that is not known lets a call go: what then goes wrong the call itself says.
#include "policy/fallback/fallback_decide.h"

#include "policy/fallback/fallback.h"
#include "policy/stat/assert.h"

#define PPM 1000000u

static const char *const words[] = {
#define POL_FALLBACK_WORD(name, word, text) word,
    POL_FALLBACK_MAP(POL_FALLBACK_WORD)
#undef POL_FALLBACK_WORD
};

// The device's result stands; never above every confidence.
static bool stands(const struct pol_fallback_rule *rule, uint32_t confidence_ppm)
{
    uint32_t confidence = confidence_ppm < PPM ? confidence_ppm : PPM;
    return rule->threshold_ppm < POL_FALLBACK_ALWAYS && confidence >= rule->threshold_ppm;
}

static bool too_slow(const struct pol_fallback_rule *rule, uint32_t expected_us)
{
    return rule->latency_ms > 0 && expected_us > rule->latency_ms * UINT64_C(1000);
}

enum pol_fallback_reason pol_fallback_decide(const struct pol_fallback_rule *rule,
                                             const struct pol_fallback_facts *facts)
{
    pol_assert(rule->battery_min_pct <= 100);
    if (stands(rule, facts->confidence_ppm)) {
        return POL_FALLBACK_CONFIDENT;
    }
    if (facts->way == POL_WAY_DENIED) {
        return POL_FALLBACK_DENIED;
    }
    if (facts->way == POL_WAY_OFFLINE) {
        return POL_FALLBACK_OFFLINE;
    }
    if (facts->metered && !rule->metered) {
        return POL_FALLBACK_METERED;
    }
    if (facts->battery_pct != POL_BATTERY_UNKNOWN && facts->battery_pct < rule->battery_min_pct) {
        return POL_FALLBACK_BATTERY;
    }
    if (rule->cost_max > 0 && facts->cost_spent >= rule->cost_max) {
        return POL_FALLBACK_COST;
    }
    if (facts->way == POL_WAY_QUOTA) {
        return POL_FALLBACK_QUOTA;
    }
    if (facts->way == POL_WAY_BUSY) {
        return POL_FALLBACK_BUSY;
    }
    return too_slow(rule, facts->expected_us) ? POL_FALLBACK_SLOW : POL_FALLBACK_CLOUD;
}

const char *pol_fallback_word(enum pol_fallback_reason reason)
{
    return (unsigned)reason < POL_FALLBACK_REASON_COUNT ? words[reason] : "";
}
