// Sets of addresses as settings name them: "10.0.0.0/8, 192.0.2.7, 2001:db8::/32". Whom the gateway
// believes what it says of others' addresses: senders of the PROXY protocol, hops that add to
// x-forwarded-for. Plain memory: copied by value, read by any thread.
#ifndef GW_HTTP_ADDRESS_SET_H
#define GW_HTTP_ADDRESS_SET_H

#include "base/error.h"
#include "base/str.h"
#include "http/guard/peer_table.h"

#define GW_ADDRESS_SET_MAX    64u
#define GW_FORWARDED_HOPS_MAX 32u // looked at in one x-forwarded-for

struct gw_address_range {
    struct gw_peer_address network;
    uint8_t bits; // of the 128; an IPv4 address's first is the 97th
};

struct gw_address_set {
    struct gw_address_range ranges[GW_ADDRESS_SET_MAX];
    uint32_t count;
};

// One numeric address, without brackets or zone. INVALID.
BASE_NODISCARD enum base_status gw_address_parse(struct base_str text, struct gw_peer_address *out);
// INVALID with the entry and what is wrong with it; the empty text is the empty set.
BASE_NODISCARD enum base_status
gw_address_set_parse(struct base_str text, struct gw_address_set *out, struct base_error *error);
bool gw_address_set_has(const struct gw_address_set *set, const struct gw_peer_address *address);
// Who sent a request that came from `from`, one of `hops`, with this x-forwarded-for: the last
// address in it that is not a hop itself. What stands before that is what a stranger says. The last
// hop that is known when an entry is no address, or there are too many.
struct gw_peer_address gw_forwarded_client(const struct gw_address_set *hops,
                                           const struct gw_peer_address *from,
                                           struct base_str forwarded_for);

#endif
