// Decorrelated jitter, after the AWS architecture blog's comparison of back-off schemes.
//
// Called by the runtime when a request failed. Pure: the random number is an argument.
#include "core/base/backoff.h"

#include "base/check.h"

void dev_backoff_init(struct dev_backoff *backoff, uint32_t base_ms, uint32_t cap_ms)
{
    backoff->base_ms = base_ms > 0 ? base_ms : 1;
    backoff->cap_ms = cap_ms > backoff->base_ms ? cap_ms : backoff->base_ms;
    backoff->last_ms = 0;
}

void dev_backoff_reset(struct dev_backoff *backoff)
{
    backoff->last_ms = 0;
}

uint32_t dev_backoff_next(struct dev_backoff *backoff, uint64_t random, uint32_t retry_after_s)
{
    uint64_t low = backoff->base_ms;
    uint64_t high = 3 * (uint64_t)(backoff->last_ms > low ? backoff->last_ms : low);
    if (high > backoff->cap_ms) {
        high = backoff->cap_ms;
    }
    base_assert(low <= high);
    uint64_t wait_ms = low + random % (high - low + 1); // the bias of 2^64 mod span is nothing
    backoff->last_ms = (uint32_t)wait_ms;
    if (retry_after_s == 0) {
        return (uint32_t)wait_ms;
    }
    if (retry_after_s > DEV_BACKOFF_RETRY_AFTER_MAX_S) {
        retry_after_s = DEV_BACKOFF_RETRY_AFTER_MAX_S;
    }
    return retry_after_s * 1000 + (uint32_t)wait_ms;
}
