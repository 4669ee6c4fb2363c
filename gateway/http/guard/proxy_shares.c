// Counts by client in a table, and two numbers for all strangers. What is given back was taken:
// checked, since a count below zero would keep everybody out. Called by proxy.c on the worker's
// thread.
#include "http/guard/proxy_shares.h"

#include "base/check.h"

#include <stddef.h>

static bool is_stranger(const struct gw_actor_key *client)
{
    return client->kind == GW_ACTOR_STRANGER;
}

enum base_status gw_proxy_shares_init(struct gw_proxy_shares *shares,
                                      const struct gw_share_limits *limits)
{
    *shares = (struct gw_proxy_shares){.limits = limits};
    return gw_actor_table_new(&shares->clients);
}

void gw_proxy_shares_free(struct gw_proxy_shares *shares)
{
    gw_actor_table_free(shares->clients);
    shares->clients = NULL;
}

enum base_status gw_proxy_share_check(const struct gw_proxy_shares *shares,
                                      const struct gw_actor_key *client, enum gw_proxy_share share)
{
    const struct gw_share_limits *limits = &shares->limits[share];
    if (gw_actor_table_get(shares->clients, client, share) >= limits->client) {
        return BASE_ERR_LIMIT;
    }
    return is_stranger(client) && shares->strangers[share] >= limits->strangers ? BASE_ERR_BUSY
                                                                                : BASE_OK;
}

enum base_status gw_proxy_share_take(struct gw_proxy_shares *shares,
                                     const struct gw_actor_key *client, enum gw_proxy_share share)
{
    BASE_TRY(gw_actor_table_add(shares->clients, client, share, 1));
    shares->strangers[share] += is_stranger(client);
    return BASE_OK;
}

static void leave(struct gw_proxy_shares *shares, const struct gw_actor_key *client,
                  enum gw_proxy_share share)
{
    base_check(!is_stranger(client) || shares->strangers[share] > 0);
    shares->strangers[share] -= is_stranger(client);
}

void gw_proxy_share_give(struct gw_proxy_shares *shares, const struct gw_actor_key *client,
                         enum gw_proxy_share share)
{
    leave(shares, client, share);
    gw_actor_table_sub(shares->clients, client, share, 1);
}

void gw_proxy_share_spend(struct gw_proxy_shares *shares, const struct gw_actor_key *client)
{
    leave(shares, client, GW_SHARE_CONNECTION);
}

void gw_proxy_share_forget(struct gw_proxy_shares *shares, const struct gw_actor_key *client)
{
    gw_actor_table_sub(shares->clients, client, GW_SHARE_CONNECTION, 1);
}
