// Connections of a shard to the gateway: carriers, each shared by many devices as HTTP/2 streams,
// and dedicated ones, each for one device with a handshake of its own.
//
// Carriers are connected at the start and again, with back-off, whenever they die. Dedicated
// connections are opened when their device first needs them, and opened anew when they are gone.
// While a connection cannot be had, starts fail, and the device's own back-off does the rest. On
// loopback every connection comes from a source address of its own, so that limits per address and
// the range of ports do not bite. One thread, the shard's.
#ifndef SIM_SIM_LINKS_H
#define SIM_SIM_LINKS_H

#include "base/ports.h"
#include "h2/h2_client.h"
#include "ports/sim_transport.h"

#include <stdint.h>

#define SIM_LINK_BACKOFF_MS_MIN 100
#define SIM_LINK_BACKOFF_MS_MAX 5000

struct event_base;

struct sim_links_options {
    struct event_base *base;
    const struct base_alloc_port *alloc;
    struct base_clock_port clock;
    struct base_str host;
    uint16_t port;
    struct h2_tls *tls;       // NULL: clear
    struct base_str own_host; // of dedicated connections
    uint16_t own_port;
    struct h2_tls *own_tls;
    uint32_t carriers;
    uint32_t dedicated;    // devices 0 .. dedicated-1 of the shard
    uint32_t first_source; // number of this shard's first source address
    uint64_t seed;
    struct base_str enrol_token; // shown by enrolments; valid as long as the links
    struct sim_transport_events events;
};

struct sim_links;

// Starts connecting the carriers. NOMEM.
BASE_NODISCARD enum base_status sim_links_new(const struct sim_links_options *options,
                                              struct sim_links **out_links);
// Ends what is under way with CLOSED. Accepts NULL.
void sim_links_free(struct sim_links *links);
struct sim_transport sim_links_transport(struct sim_links *links);
// Frees dead connections and reconnects what is due; returns the time of the next call.
uint64_t sim_links_tick(struct sim_links *links, uint64_t now_us);
// What the last connection that failed came to, "127.0.0.1:8080: Connection refused"; NULL: none
// did.
const char *sim_links_fault(const struct sim_links *links);
uint32_t sim_links_up(const struct sim_links *links);
// Connections that were tried, and never came up.
uint32_t sim_links_never_up(const struct sim_links *links);
uint64_t sim_links_reconnects(const struct sim_links *links);
// Carriers that are connected; the run starts when all are, or after a while.
uint32_t sim_links_carriers_up(const struct sim_links *links);

#endif
