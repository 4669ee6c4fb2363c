// Token bucket. The gateway keeps one per connection and per address, the simulator one per
// generator; each is used by one thread, and time comes in as a parameter.
//
// Tokens are whole numbers and the fraction is carried exactly, so calling often or seldom makes no
// difference to what is granted in the end.
#include "policy/ratelimit.h"

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

// (part * factor + *remainder) / divisor with part and *remainder below divisor, exact although the
// product may need 128 bits; *remainder takes the rest. The division of 128 bits would call into
// the compiler's library, which policy does not use.
static uint64_t scale(uint64_t part, uint64_t factor, uint64_t divisor, uint64_t *remainder)
{
    uint64_t sum;
    if (!__builtin_mul_overflow(part, factor, &sum) &&
        !__builtin_add_overflow(sum, *remainder, &sum)) {
        *remainder = sum % divisor;
        return sum / divisor;
    }
    uint64_t quotient = 0;
    uint64_t rest = 0;
    for (int bit = 63; bit >= 0; bit--) {
        quotient *= 2;
        bool doubled_over = rest >= divisor - rest;
        rest = doubled_over ? rest - (divisor - rest) : rest * 2;
        quotient += doubled_over;
        if ((factor >> bit & 1) != 0) {
            bool added_over = part >= divisor - rest;
            rest = added_over ? part - (divisor - rest) : rest + part;
            quotient += added_over;
        }
    }
    bool carried_over = *remainder >= divisor - rest;
    *remainder = carried_over ? *remainder - (divisor - rest) : *remainder + rest;
    return quotient + carried_over;
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
        uint64_t part = scale(elapsed_us % config->interval_us, config->refill, config->interval_us,
                              &limit->remainder);
        limit->tokens = add_saturated(limit->tokens, add_saturated(whole, part));
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
    if (limit->tokens < count) {
        return false;
    }
    limit->tokens -= count;
    return true;
}
