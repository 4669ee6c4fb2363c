// How many calls of models, and how many bytes of them, each tenant may make in a minute: two token
// buckets for each, as full as a minute fills them. Who proves nothing, and who acts in no tenant,
// share one bucket. One for all workers, any thread; time is a parameter.
#ifndef GW_TENANT_QUOTA_H
#define GW_TENANT_QUOTA_H

#include "base/error.h"

#include <stdint.h>

#define GW_TENANT_QUOTA_NONE UINT16_MAX // of a call that is no tenant's

struct gw_tenant_quota;

struct gw_tenant_quota_limits {
    uint64_t calls_per_minute; // 0: as many as come
    uint64_t bytes_per_minute; // of bodies; 0: as many as come
};

// NULL: no memory.
struct gw_tenant_quota *gw_tenant_quota_new(const struct gw_tenant_quota_limits *limits);
void gw_tenant_quota_free(struct gw_tenant_quota *quota); // accepts NULL
// A call, as far as it counts.
struct gw_tenant_call {
    uint16_t tenant;
    uint64_t bytes; // of its body
};

// Takes one call. LIMIT: the tenant had its calls, or its bytes, of the
// last minute: the error says which, and *out_retry_after_s when there are enough again. TOO_LARGE:
// a minute has fewer bytes. Then nothing is taken.
BASE_NODISCARD enum base_status gw_tenant_quota_take(struct gw_tenant_quota *quota,
                                                     const struct gw_tenant_call *call,
                                                     uint64_t now_us, uint32_t *out_retry_after_s,
                                                     struct base_error *error);

#endif
