// Back-off with decorrelated jitter: each wait is drawn between the base and three times the last
// wait, up to a cap. A fleet that failed together does not come back together.
#ifndef DEV_BACKOFF_H
#define DEV_BACKOFF_H

#include <stdint.h>

#define DEV_BACKOFF_RETRY_AFTER_MAX_S 86400 // longer wishes of a server are cut to this

struct dev_backoff {
    uint32_t base_ms; // > 0
    uint32_t cap_ms;  // >= base_ms
    uint32_t last_ms; // 0: no failure since the last success
};

void dev_backoff_init(struct dev_backoff *backoff, uint32_t base_ms, uint32_t cap_ms);
// After a success the peer made durable or complete; a mere connection is none.
void dev_backoff_reset(struct dev_backoff *backoff);
// Milliseconds to wait after a failure. `random`: 64 uniform bits. With `retry_after_s` > 0 the
// wait is never shorter than that; the jitter comes on top.
uint32_t dev_backoff_next(struct dev_backoff *backoff, uint64_t random, uint32_t retry_after_s);

#endif
