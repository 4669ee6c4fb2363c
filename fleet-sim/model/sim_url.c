// Reads an address of a gateway: scheme, host and port, nothing behind them. Called by
// command/fleet_options.c on the main thread, before the run. No name is looked up here, and
// nothing is connected.
#include "model/sim_url.h"

#include <string.h>

enum base_status sim_url_parse(struct base_str text, char host[SIM_TEXT_MAX], uint16_t *out_port,
                               bool *out_tls)
{
    bool tls = base_str_starts(text, BASE_STR("https://"));
    if (!tls && !base_str_starts(text, BASE_STR("http://"))) {
        return BASE_ERR_INVALID;
    }
    size_t skip = tls ? 8 : 7;
    text.data += skip;
    text.size -= skip;
    if (text.size > 0 && text.data[text.size - 1] == '/') {
        text.size--;
    }
    const char *colon = text.size > 0 ? memrchr(text.data, ':', text.size) : NULL;
    uint64_t port = 0;
    size_t host_size = colon != NULL ? (size_t)(colon - text.data) : 0;
    if (host_size == 0 || host_size >= 128 ||
        base_str_u64((struct base_str){colon + 1, text.size - host_size - 1}, &port) != BASE_OK ||
        port == 0 || port > 65535) {
        return BASE_ERR_INVALID;
    }
    memcpy(host, text.data, host_size);
    host[host_size] = 0;
    *out_port = (uint16_t)port;
    *out_tls = tls;
    return BASE_OK;
}
