// The PROXY protocol's header, versions 1 and 2 (haproxy.org, proxy-protocol.txt): what a trusted
// balancer says in front of a connection's bytes of whom it carries. Pure; untrusted input.
#ifndef GW_HTTP_PROXY_HEADER_H
#define GW_HTTP_PROXY_HEADER_H

#include "base/status.h"
#include "http/guard/peer_table.h"

#define GW_PROXY_HEADER_MAX 536u // version 2's least that everybody takes, with room for few TLVs
#define GW_PROXY_V1_MAX     107u // version 1, with its line end

struct gw_proxy_header {
    bool has_client; // else: the balancer's own connection, or one it knows nothing of
    struct gw_peer_address client;
};

// OK: a header of *out_size bytes. BUSY: all of it belongs to a header, more must come. INVALID.
BASE_NODISCARD enum base_status gw_proxy_header_parse(const uint8_t *bytes, size_t size,
                                                      struct gw_proxy_header *out,
                                                      size_t *out_size);

#endif
