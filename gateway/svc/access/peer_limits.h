// A budget for each address: so much at once, then so much every so often.
//
// Of wrong secrets an address shows (only failures come here, after the secret was looked at), and
// of records of unproven devices it begins. An address is its 32 bits (IPv4) or its network of 64
// (IPv6). The table has sets of GW_PEER_WAYS places each, found by a keyed hash; the address is
// compared in full. When all places of a set are taken, the one that has the most left is
// forgotten, so many addresses are needed to make one's use forgotten, and each has its own anyway.
//
// SHARED: any thread; one mutex.
#ifndef GW_PEER_LIMITS_H
#define GW_PEER_LIMITS_H

#include "base/keyed_hash.h"
#include "base/status.h"
#include "policy/ratelimit.h"

#define GW_PEER_SETS 512u // a power of two
#define GW_PEER_WAYS 8u

struct gw_peer_limits;

// Copies both. NOMEM.
BASE_NODISCARD enum base_status gw_peer_limits_new(const struct base_hash_key *key,
                                                   const struct pol_ratelimit_config *config,
                                                   struct gw_peer_limits **out);
void gw_peer_limits_free(struct gw_peer_limits *limits); // accepts NULL
// Takes one of this address. False: nothing was left.
bool gw_peer_limits_take(struct gw_peer_limits *limits, uint64_t peer, uint64_t now_us);

#endif
