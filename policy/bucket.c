// The bucket of a device in one rollout. Gateway, device and simulator call this same function.
//
// The salt is mixed before it meets the id, so that salts that differ in one bit place devices
// independently; the reduction keeps the high half of a product, which needs no division.
#include "policy/bucket.h"

// Finaliser with full avalanche (the constants are those of SplitMix64). It is repeated here
// because policy uses no other module.
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t pol_salt_mix(uint64_t salt)
{
    return mix(salt);
}

uint16_t pol_bucket_mixed(uint64_t device_id, uint64_t salt_mix)
{
    uint64_t hash = mix(device_id ^ salt_mix);
    return (uint16_t)((unsigned __int128)hash * POL_BUCKET_COUNT >> 64);
}

uint16_t pol_bucket(uint64_t device_id, uint64_t salt)
{
    return pol_bucket_mixed(device_id, mix(salt));
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
