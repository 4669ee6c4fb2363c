// What a device tells of its decisions between device and cloud, held against its stage's limits.
#ifndef GW_CLOUD_GATE_H
#define GW_CLOUD_GATE_H

#include "policy/fallback/fallback_gate.h"
#include "wire/outcome.h"

// What is said as it counts in a stage with these limits: as it was said, or, where a run ended
// well and its figures show a fault, as FAIL_CLOUD. Its detail is static then. Any thread.
void gw_cloud_judge(const struct pol_fallback_limits *limits, const struct wire_outcome *said,
                    struct wire_outcome *out);

#endif
