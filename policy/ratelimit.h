// Token bucket with time as a parameter: for resets, connections, requests, offers.
#ifndef POL_RATELIMIT_H
#define POL_RATELIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct pol_ratelimit_config {
    uint64_t burst;       // tokens when full
    uint64_t refill;      // tokens added ...
    uint64_t interval_us; // ... every interval, in proportion
};

struct pol_ratelimit {
    uint64_t tokens;
    uint64_t updated_us;
    uint64_t remainder; // fraction of a token carried, in units of 1/interval_us
};

void pol_ratelimit_init(struct pol_ratelimit *limit, const struct pol_ratelimit_config *config,
                        uint64_t now_us);
// Takes `count` tokens if they are there. Time that goes backwards adds nothing; sums saturate.
// What is granted is exact while (refill + 1) * interval_us is below 2^64, and never more.
bool pol_ratelimit_take(struct pol_ratelimit *limit, const struct pol_ratelimit_config *config,
                        uint64_t count, uint64_t now_us);

#endif
