// How fast an address may do what costs us: open connections, shake hands, have large header fields
// decoded. Over all workers, and remembered after its connections are gone. An IPv6 address counts
// with its /64, of which one host can have all. Safe to call from any thread (one mutex).
//
// Each rate is a token bucket kept as the time at which the address has paid for everything it had.
// The table has a fixed number of places, found by a keyed hash; a newcomer takes the place that
// owes least, so what is forgotten is what has been paid, unless very many addresses owe at once.
#ifndef GW_PEER_RATES_H
#define GW_PEER_RATES_H

#include "http/guard/peer_table.h"

#define GW_PEER_RATES_PLACES 65536u

enum gw_peer_rate {
    GW_PEER_CONNECTS,
    GW_PEER_HANDSHAKES,
    GW_PEER_HEADER_BYTES,
    GW_PEER_RATE_COUNT
};

struct gw_peer_rate_limit {
    uint64_t per_s; // 0: no limit
    uint64_t burst; // at once, after a silence
};

// So many of a rate, under its limit.
struct gw_peer_use {
    enum gw_peer_rate rate;
    struct gw_peer_rate_limit limit;
    uint64_t count;
};

struct gw_peer_rates;

// `places`: a power of two, at least 4. NOMEM, INVALID.
BASE_NODISCARD enum base_status gw_peer_rates_new(uint32_t places,
                                                  struct gw_peer_rates **out_rates);
void gw_peer_rates_free(struct gw_peer_rates *rates); // accepts NULL
// Takes `use->count` of the address's, or nothing when it has not that many: then false.
BASE_NODISCARD bool gw_peer_rates_take(struct gw_peer_rates *rates,
                                       const struct gw_peer_address *address,
                                       const struct gw_peer_use *use, uint64_t now_us);
// For what was done already: takes it in any case, and returns for how many microseconds the
// address should do no more of it; 0: it may go on.
uint64_t gw_peer_rates_spend(struct gw_peer_rates *rates, const struct gw_peer_address *address,
                             const struct gw_peer_use *use, uint64_t now_us);

#endif
