// Buckets: which share of a fleet a device belongs to in one rollout.
//
// bucket = hash(device id, rollout salt) mod 10000. Uniform, sticky (raising a percentage never
// evicts a device) and independent between rollouts (another salt picks other early devices). The
// device computes its own bucket with this same function and refuses a release beyond its signed
// max_bucket.
#ifndef POL_BUCKET_H
#define POL_BUCKET_H

#include <stdint.h>

#define POL_BUCKET_COUNT 10000u

// 0..9999. The function is part of the protocol: pinned by test vectors, never changed.
uint16_t pol_bucket(uint64_t device_id, uint64_t salt);

// The same in two steps, for many devices of one rollout:
// pol_bucket(d, s) == pol_bucket_mixed(d, pol_salt_mix(s)).
uint64_t pol_salt_mix(uint64_t salt);
uint16_t pol_bucket_mixed(uint64_t device_id, uint64_t salt_mix);

#endif
