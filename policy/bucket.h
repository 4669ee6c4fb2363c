// Buckets: which share of a fleet a device belongs to in one rollout.
//
// bucket = hash(device id, rollout salt) mod 10000. Uniform, sticky (raising a percentage never
// evicts a device) and independent between rollouts (another salt picks other early devices). The
// device computes its own bucket with this same function and refuses a release beyond its signed
// max_bucket.
#ifndef POL_BUCKET_H
#define POL_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#define POL_BUCKET_COUNT 10000u

// Finaliser with full avalanche (the constants are those of SplitMix64). It is repeated here
// because policy uses no other module.
static inline uint64_t pol_bucket_hash(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// 0..9999. The function is part of the protocol: pinned by test vectors, never changed.
uint16_t pol_bucket(uint64_t device_id, uint64_t salt);

// The same in two steps, for many devices of one rollout:
// pol_bucket(d, s) == pol_bucket_mixed(d, pol_salt_mix(s)).
uint64_t pol_salt_mix(uint64_t salt);
static inline uint16_t pol_bucket_mixed(uint64_t device_id, uint64_t salt_mix)
{
    uint64_t hash = pol_bucket_hash(device_id ^ salt_mix);
    return (uint16_t)((unsigned __int128)hash * POL_BUCKET_COUNT >> 64);
}

// Arms of an experiment: its devices are split by a second bucket, of the experiment's own salt, so
// that an arm is independent of the stage a device enters in and stays the same while stages widen.
// A release for an arm is for the devices with from <= bucket < to; what no arm covers is the
// holdout.
struct pol_arm {
    uint64_t salt;
    uint16_t from;
    uint16_t to; // 0: no arm, everybody
};
// No arm (all zero), or a salt that is neither 0 nor the rollout's, and from < to <= 10000.
bool pol_arm_check(const struct pol_arm *arm, uint64_t rollout_salt);
bool pol_arm_has(const struct pol_arm *arm, uint64_t device_id);

#endif
