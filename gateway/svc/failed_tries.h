// How many wrong secrets an address has shown lately: so many at once, then one every so often.
//
// Only failures come here, after the secret was looked at: whoever shows a good one never does, and
// nobody's failures are another's. An address is its 32 bits (IPv4) or its network of 64 (IPv6).
// The table has sets of GW_TRIES_WAYS places each, found by a keyed hash; the address is compared
// in full. When all places of a set are taken, the one that has the most tries left is forgotten,
// so many addresses are needed to make one's failures forgotten, and each has its own tries anyway.
//
// SHARED: the caller's mutex guards it (svc/operators_private.h).
#ifndef GW_FAILED_TRIES_H
#define GW_FAILED_TRIES_H

#include "base/keyed_hash.h"
#include "policy/ratelimit.h"

#define GW_TRIES_SETS 512u // a power of two
#define GW_TRIES_WAYS 8u

struct gw_failed_try {
    uint64_t peer;
    bool used;
    struct pol_ratelimit left;
};

struct gw_failed_tries {
    struct base_hash_key key;
    struct gw_failed_try places[GW_TRIES_SETS][GW_TRIES_WAYS];
};

// Takes a try of this address. False: none was left.
bool gw_failed_tries_take(struct gw_failed_tries *tries, uint64_t peer, uint64_t now_us);

#endif
