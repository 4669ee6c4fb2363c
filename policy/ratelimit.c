// Token bucket. The gateway keeps one per connection and per address, the simulator one per
// generator; each is used by one thread, and time comes in as a parameter.
//
// Tokens are whole numbers and the fraction is carried exactly, so calling often or seldom makes no
// difference to what is granted in the end. Products that 64 bits do not hold count as the greatest
// number that they do.
#include "policy/ratelimit.h"

#include "policy/stat/assert.h"

void pol_ratelimit_init(struct pol_ratelimit *limit, const struct pol_ratelimit_config *config,
                        uint64_t now_us)
{
    *limit = (struct pol_ratelimit){.tokens = config->burst, .updated_us = now_us, .remainder = 0};
}

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t multiply_saturated(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static void refill(struct pol_ratelimit *limit, const struct pol_ratelimit_config *config,
                   uint64_t now_us)
{
    if (now_us > limit->updated_us && config->interval_us > 0) {
        uint64_t elapsed_us = now_us - limit->updated_us;
        limit->updated_us = now_us;
        if (limit->remainder >= config->interval_us) {
            limit->remainder = 0; // the configuration changed
        }
        uint64_t whole = multiply_saturated(elapsed_us / config->interval_us, config->refill);
        uint64_t part = multiply_saturated(elapsed_us % config->interval_us, config->refill);
        part = add_saturated(part, limit->remainder);
        limit->remainder = part % config->interval_us;
        limit->tokens =
            add_saturated(limit->tokens, add_saturated(whole, part / config->interval_us));
    }
    if (limit->tokens >= config->burst) {
        limit->tokens = config->burst;
        limit->remainder = 0; // a full bucket does not save up
    }
}

bool pol_ratelimit_take(struct pol_ratelimit *limit, const struct pol_ratelimit_config *config,
                        uint64_t count, uint64_t now_us)
{
    refill(limit, config, now_us);
    pol_assert(limit->tokens <= config->burst);
    if (limit->tokens < count) {
        return false;
    }
    limit->tokens -= count;
    return true;
}
