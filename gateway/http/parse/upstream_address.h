// Where the proxy sends what it forwards: the setting proxy.upstream, taken apart and looked up.
#ifndef GW_UPSTREAM_ADDRESS_H
#define GW_UPSTREAM_ADDRESS_H

#include "base/error.h"

#include <sys/socket.h>

#define GW_UPSTREAM_HOST_MAX 256

struct gw_upstream_address {
    char host[GW_UPSTREAM_HOST_MAX]; // "HOST[:PORT]", as requests name it
    struct sockaddr_storage at;
    socklen_t size;
};

// "http://HOST[:PORT]"; waits for the system's look-up of the name. INVALID with the URL and why.
BASE_NODISCARD enum base_status
gw_upstream_resolve(const char *url, struct gw_upstream_address *out, struct base_error *error);

#endif
