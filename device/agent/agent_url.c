// Takes an address of --gateway or --mirror apart: scheme, host, port (8443 where none is given).
// Called by device_agent.c while it reads its arguments, on its main thread. A path, a user or a
// blank is refused and not skipped: the host is looked up, and shown as who answers.
#include "agent_url.h"

#include <string.h>

#define DEFAULT_PORT 8443

// A path, a user or a blank is no part of a name that is looked up and shown as who answers.
static bool is_host(struct base_str host)
{
    for (size_t i = 0; i < host.size; i++) {
        unsigned char c = (unsigned char)host.data[i];
        if (c <= ' ' || c >= 0x7f || strchr("/?#@\\\"<>", c) != NULL) {
            return false;
        }
    }
    return host.size > 0 && host.size < AGENT_URL_HOST_MAX;
}

const char *agent_url_parse(const char *text, char host_out[AGENT_URL_HOST_MAX],
                            struct posix_mirror *out)
{
    const struct base_str https = BASE_STR("https://");
    const struct base_str http = BASE_STR("http://");
    struct base_str url = base_str_of(text);
    bool tls = base_str_starts(url, https);
    if (!tls && !base_str_starts(url, http)) {
        return "must start with https:// or http://";
    }
    size_t skip = tls ? https.size : http.size;
    struct base_str host = {url.data + skip, url.size - skip};
    if (host.size > 0 && host.data[host.size - 1] == '/') {
        host.size--;
    }
    const char *colon = host.size > 0 ? memrchr(host.data, ':', host.size) : NULL;
    uint64_t port = DEFAULT_PORT;
    if (colon != NULL) {
        size_t size = (size_t)(colon - host.data);
        struct base_str digits = {colon + 1, host.size - size - 1};
        if (base_str_u64(digits, &port) != BASE_OK || port == 0 || port > UINT16_MAX) {
            return "has no valid port";
        }
        host.size = size;
    }
    if (!is_host(host)) {
        return "has no valid host";
    }
    memcpy(host_out, host.data, host.size);
    *out = (struct posix_mirror){.host = {host_out, host.size}, .port = (uint16_t)port, .tls = tls};
    return NULL;
}
