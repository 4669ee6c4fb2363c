// Whom the gateway believes what it says of others' addresses: read from the settings at start and
// on reload, asked by the listeners of each worker, which has a copy of its own.
#ifndef GW_HTTP_TRUST_H
#define GW_HTTP_TRUST_H

#include "base/error.h"
#include "http/config/http_config.h"
#include "http/guard/address_set.h"

#include <stdbool.h>

struct gw_trust {
    bool proxy_protocol;
    struct gw_address_set proxies;
    struct gw_address_set hops;
};

// Reads whom to trust; the error names the setting. INVALID.
BASE_NODISCARD enum base_status gw_trust_read(const struct gw_http_config *config,
                                              struct gw_trust *out, struct base_error *error);

#endif
