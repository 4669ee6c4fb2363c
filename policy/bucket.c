// The bucket of a device in one rollout. Gateway, device and simulator call this same function.
//
// The salt is mixed before it meets the id, so that salts that differ in one bit place devices
// independently; the reduction keeps the high half of a product, which needs no division.
#include "policy/bucket.h"

uint64_t pol_salt_mix(uint64_t salt)
{
    return pol_bucket_hash(salt);
}

uint16_t pol_bucket(uint64_t device_id, uint64_t salt)
{
    return pol_bucket_mixed(device_id, pol_salt_mix(salt));
}

bool pol_arm_check(const struct pol_arm *arm, uint64_t rollout_salt)
{
    if (arm->to == 0) {
        return arm->from == 0 && arm->salt == 0;
    }
    return arm->salt != 0 && arm->salt != rollout_salt && arm->from < arm->to &&
           arm->to <= POL_BUCKET_COUNT;
}

bool pol_arm_has(const struct pol_arm *arm, uint64_t device_id)
{
    if (arm->to == 0) {
        return true;
    }
    uint16_t bucket = pol_bucket(device_id, arm->salt);
    return bucket >= arm->from && bucket < arm->to;
}
