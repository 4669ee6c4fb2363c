// Takes proxy.upstream apart and looks its host up. Called where a worker is made, and where
// settings are checked, on the main thread. Those are proxy.c and server.c. It is the only look-up
// of a name in the gateway, and one that may take long; so it is never done for a request. The
// first address that is found is taken.
#include "http/parse/upstream_address.h"

#include "base/str.h"

#include <netdb.h>
#include <string.h>

#define SCHEME "http://"

enum base_status gw_upstream_resolve(const char *url, struct gw_upstream_address *out,
                                     struct base_error *error)
{
    struct base_str text = base_str_of(url);
    size_t skipped = sizeof(SCHEME) - 1;
    if (!base_str_starts(text, BASE_STR(SCHEME)) || text.size - skipped >= GW_UPSTREAM_HOST_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "proxy.upstream: '%.80s' is not http://HOST:PORT", url);
    }
    memcpy(out->host, url + skipped, text.size - skipped + 1);
    size_t host_size = strlen(out->host);
    if (host_size > 0 && out->host[host_size - 1] == '/') {
        out->host[--host_size] = '\0';
    }
    char name[GW_UPSTREAM_HOST_MAX];
    memcpy(name, out->host, host_size + 1);
    char *port = strrchr(name, ':');
    if (port != NULL) {
        *port++ = '\0';
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int rv = name[0] != '\0' && strchr(name, '/') == NULL
                 ? getaddrinfo(name, port != NULL ? port : "80", &hints, &found)
                 : EAI_NONAME;
    if (rv != 0) {
        return base_error_set(error, BASE_ERR_INVALID, "proxy.upstream: '%.80s': %s", url,
                              gai_strerror(rv));
    }
    memcpy(&out->at, found->ai_addr, found->ai_addrlen);
    out->size = found->ai_addrlen;
    freeaddrinfo(found);
    return BASE_OK;
}
