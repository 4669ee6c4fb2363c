// Device or cloud, for one input: does the device's result stand, or is the cloud's model asked?
// Pure: facts in, a decision with its reason out. The rule is a task's configuration, which a stage
// of its release carries; the threshold is what `walle fallback threshold` chose (fallback.h).
//
// The order of the questions is the order of the reasons: a result that is confident enough stands
// whatever else holds, and of what speaks against the cloud the first is told.
#ifndef POL_FALLBACK_DECIDE_H
#define POL_FALLBACK_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#define POL_BATTERY_UNKNOWN UINT32_MAX

// X(name, word, what it means)
#define POL_FALLBACK_MAP(X)                                                                        \
    X(CLOUD, "unsure", "the device's model is not confident enough")                               \
    X(CONFIDENT, "confident", "the device's result stands by its confidence")                      \
    X(DENIED, "not_allowed", "this device makes no calls")                                         \
    X(OFFLINE, "offline", "no gateway answers")                                                    \
    X(METERED, "metered", "the network costs money, and the rule does not pay")                    \
    X(BATTERY, "battery", "less battery than the rule asks for")                                   \
    X(COST, "cost", "what the cloud may cost is spent")                                            \
    X(QUOTA, "quota", "the device's calls are used up")                                            \
    X(BUSY, "busy", "too many calls wait")                                                         \
    X(SLOW, "slow", "the cloud takes longer than the rule waits")

enum pol_fallback_reason {
#define POL_FALLBACK_ENUM(name, word, text) POL_FALLBACK_##name,
    POL_FALLBACK_MAP(POL_FALLBACK_ENUM)
#undef POL_FALLBACK_ENUM
        POL_FALLBACK_REASON_COUNT
};

struct pol_fallback_rule {
    uint32_t threshold_ppm;   // from here on the device's result stands; POL_FALLBACK_ALWAYS: never
    uint32_t latency_ms;      // that an answer may take; 0: whatever it takes
    uint32_t battery_min_pct; // below, nothing is sent; 0: whatever there is
    bool metered;             // may calls go where the network costs money?
    uint64_t cost_max;        // in the task's own unit, over its own span; 0: no bound
};

// What is known of the way to the cloud.
enum pol_fallback_way {
    POL_WAY_OPEN,
    POL_WAY_DENIED,
    POL_WAY_OFFLINE,
    POL_WAY_QUOTA,
    POL_WAY_BUSY,
};

struct pol_fallback_facts {
    uint32_t confidence_ppm; // above 1,000,000 counts as that
    enum pol_fallback_way way;
    uint32_t
        expected_us; // that calls of the model take; 0: not known, which does not hold one back
    uint32_t battery_pct; // POL_BATTERY_UNKNOWN does not hold one back
    bool metered;         // the network is
    uint64_t cost_spent;
};

// POL_FALLBACK_CLOUD: ask the cloud; any other: the device's result stands, for that reason.
enum pol_fallback_reason pol_fallback_decide(const struct pol_fallback_rule *rule,
                                             const struct pol_fallback_facts *facts);
const char *pol_fallback_word(enum pol_fallback_reason reason); // "confident"

#endif
