// Who has how much of a worker's upstream: connections, and places in the queue for one. A client
// is a device or operator that proved itself, else an address. A client has a share, and so have
// all strangers together: the rest is kept for who proved itself.
//
// A connection that its client spent (reset in the middle of a message) is no stranger's any more,
// and in the client's share until it is forgotten. One thread.
#ifndef GW_PROXY_SHARES_H
#define GW_PROXY_SHARES_H

#include "http/guard/actor_table.h"

#include <stdbool.h>

enum gw_proxy_share { GW_SHARE_CONNECTION, GW_SHARE_PLACE, GW_SHARE_COUNT };

struct gw_share_limits {
    uint64_t client;
    uint64_t strangers; // all of them
};

struct gw_proxy_shares {
    struct gw_actor_table *clients;
    uint64_t strangers[GW_SHARE_COUNT];
    const struct gw_share_limits *limits; // of each; the owner's
};

// `limits`: GW_SHARE_COUNT of them, which stay with the caller and may change. NOMEM.
BASE_NODISCARD enum base_status gw_proxy_shares_init(struct gw_proxy_shares *shares,
                                                     const struct gw_share_limits *limits);
void gw_proxy_shares_free(struct gw_proxy_shares *shares); // accepts what init did not make

// OK; LIMIT: the client has its share; BUSY: the strangers have theirs.
enum base_status gw_proxy_share_check(const struct gw_proxy_shares *shares,
                                      const struct gw_actor_key *client, enum gw_proxy_share share);
// Takes one, whatever the limits are. NOMEM: nothing was taken.
BASE_NODISCARD enum base_status gw_proxy_share_take(struct gw_proxy_shares *shares,
                                                    const struct gw_actor_key *client,
                                                    enum gw_proxy_share share);
// Gives back what was taken.
void gw_proxy_share_give(struct gw_proxy_shares *shares, const struct gw_actor_key *client,
                         enum gw_proxy_share share);
// A connection is spent; later it is forgotten.
void gw_proxy_share_spend(struct gw_proxy_shares *shares, const struct gw_actor_key *client);
void gw_proxy_share_forget(struct gw_proxy_shares *shares, const struct gw_actor_key *client);

#endif
