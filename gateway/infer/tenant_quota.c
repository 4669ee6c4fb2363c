// The buckets of tenant_quota.h, in a table by tenant under one lock that is held for a few sums.
// The doors of the service ask (rest/infer_http.c, grpc/infer_grpc.c) when a call's body is there,
// on a worker's thread, so a call is counted once, whatever becomes of it.
#include "infer/tenant_quota.h"

#include "base/check.h"
#include "policy/ratelimit.h"
#include "svc/access/operators.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define MINUTE_US UINT64_C(60000000)
#define SECOND_US UINT64_C(1000000)
#define PLACES    (GW_TENANTS_MAX + 1) // the last one is of those that are in none

struct bucket {
    struct pol_ratelimit calls;
    struct pol_ratelimit bytes;
    bool begun;
};

struct gw_tenant_quota {
    pthread_mutex_t lock;
    struct pol_ratelimit_config calls; // burst 0: no limit
    struct pol_ratelimit_config bytes;
    struct bucket buckets[PLACES];
};

static struct pol_ratelimit_config config_of(uint64_t per_minute)
{
    return (struct pol_ratelimit_config){per_minute, per_minute, MINUTE_US};
}

struct gw_tenant_quota *gw_tenant_quota_new(const struct gw_tenant_quota_limits *limits)
{
    struct gw_tenant_quota *quota = calloc(1, sizeof(*quota));
    if (quota == NULL) {
        return NULL;
    }
    pthread_mutex_init(&quota->lock, NULL);
    quota->calls = config_of(limits->calls_per_minute);
    quota->bytes = config_of(limits->bytes_per_minute);
    return quota;
}

void gw_tenant_quota_free(struct gw_tenant_quota *quota)
{
    if (quota != NULL) {
        pthread_mutex_destroy(&quota->lock);
        free(quota);
    }
}

// Are there so many? None are taken but those that time has added.
static bool has(struct pol_ratelimit *limit, const struct pol_ratelimit_config *config,
                uint64_t count, uint64_t now_us)
{
    return config->burst == 0 ||
           (pol_ratelimit_take(limit, config, 0, now_us) && limit->tokens >= count);
}

// Until there are so many.
static uint32_t wait_s(const struct pol_ratelimit *limit, const struct pol_ratelimit_config *config,
                       uint64_t count)
{
    base_assert(count > limit->tokens && config->refill > 0);
    uint64_t us =
        (uint64_t)((double)(count - limit->tokens) / (double)config->refill * (double)MINUTE_US);
    return (uint32_t)(us / SECOND_US + 1);
}

// With the lock.
static enum base_status take(struct gw_tenant_quota *quota, struct bucket *bucket, uint64_t bytes,
                             uint64_t now_us, uint32_t *out_retry_after_s)
{
    if (!has(&bucket->calls, &quota->calls, 1, now_us)) {
        *out_retry_after_s = wait_s(&bucket->calls, &quota->calls, 1);
        return BASE_ERR_LIMIT;
    }
    if (!has(&bucket->bytes, &quota->bytes, bytes, now_us)) {
        *out_retry_after_s = wait_s(&bucket->bytes, &quota->bytes, bytes);
        return BASE_ERR_FULL; // of the two the second
    }
    bucket->calls.tokens -= quota->calls.burst > 0 ? 1 : 0;
    bucket->bytes.tokens -= quota->bytes.burst > 0 ? bytes : 0;
    return BASE_OK;
}

enum base_status gw_tenant_quota_take(struct gw_tenant_quota *quota,
                                      const struct gw_tenant_call *call, uint64_t now_us,
                                      uint32_t *out_retry_after_s, struct base_error *error)
{
    uint64_t bytes = call->bytes;
    uint16_t tenant = call->tenant;
    struct bucket *bucket = &quota->buckets[tenant < GW_TENANTS_MAX ? tenant : PLACES - 1];
    if (quota->bytes.burst > 0 && bytes > quota->bytes.burst) {
        return base_error_set(error, BASE_ERR_TOO_LARGE,
                              "the tenant may send %llu bytes of calls in a minute",
                              (unsigned long long)quota->bytes.burst);
    }
    pthread_mutex_lock(&quota->lock);
    if (!bucket->begun) {
        pol_ratelimit_init(&bucket->calls, &quota->calls, now_us);
        pol_ratelimit_init(&bucket->bytes, &quota->bytes, now_us);
        bucket->begun = true;
    }
    enum base_status status = take(quota, bucket, bytes, now_us, out_retry_after_s);
    pthread_mutex_unlock(&quota->lock);
    return status == BASE_OK ? BASE_OK
           : status == BASE_ERR_LIMIT
               ? base_error_set(error, BASE_ERR_LIMIT, "the tenant had its %llu calls of a minute",
                                (unsigned long long)quota->calls.burst)
               : base_error_set(error, BASE_ERR_LIMIT,
                                "the tenant had its %llu bytes of calls of a minute",
                                (unsigned long long)quota->bytes.burst);
}
