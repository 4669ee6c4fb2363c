// Reads the settings that say whom to believe: listen.proxy_protocol, listen.proxy_from and
// listen.trusted_hops. server.c asks first, on the main thread, so that a wrong setting is said
// before anything is changed; each worker then reads its own copy.
#include "http/config/http_trust.h"

#include <string.h>

static enum base_status read_list(const char *name, const char *text, struct gw_address_set *out,
                                  struct base_error *error)
{
    struct base_error why = {0};
    enum base_status status = gw_address_set_parse(base_str_of(text), out, &why);
    return status == BASE_OK ? BASE_OK : base_error_set(error, status, "%s: %s", name, why.text);
}

enum base_status gw_trust_read(const struct gw_http_config *config, struct gw_trust *out,
                               struct base_error *error)
{
    struct gw_trust trust = {.proxy_protocol = strcmp(config->proxy_protocol, "on") == 0};
    if (!trust.proxy_protocol && strcmp(config->proxy_protocol, "off") != 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "listen.proxy_protocol: '%.40s' is neither on nor off",
                              config->proxy_protocol);
    }
    BASE_TRY(read_list("listen.proxy_from", config->proxy_from, &trust.proxies, error));
    BASE_TRY(read_list("listen.trusted_hops", config->trusted_hops, &trust.hops, error));
    if (trust.proxy_protocol && trust.proxies.count == 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "listen.proxy_protocol is on, and listen.proxy_from names nobody");
    }
    *out = trust;
    return BASE_OK;
}
