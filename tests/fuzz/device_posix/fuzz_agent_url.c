// Fuzz target of the addresses an agent is given (--gateway, --mirror): what is taken has a host
// that is one and a port, fits its room, and written out again is the same address.
#include "agent/agent_url.h"

#include "base/check.h"
#include "fuzz_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_TEXT_MAX 16 // of the scheme and port beside the host

static void read_back(const struct posix_mirror *mirror)
{
    char text[AGENT_URL_HOST_MAX + PORT_TEXT_MAX];
    char host[AGENT_URL_HOST_MAX];
    struct posix_mirror again;
    (void)snprintf(text, sizeof(text), "%s://%.*s:%u", mirror->tls ? "https" : "http",
                   (int)mirror->host.size, mirror->host.data, mirror->port);
    base_check(agent_url_parse(text, host, &again) == NULL);
    base_check(base_str_equal(again.host, mirror->host));
    base_check(again.port == mirror->port && again.tls == mirror->tls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char host[AGENT_URL_HOST_MAX];
    struct posix_mirror mirror = {0};
    char *text = calloc(1, size + 1);
    base_check(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    if (agent_url_parse(text, host, &mirror) == NULL) {
        base_check(mirror.port != 0);
        base_check(mirror.host.data == host);
        base_check(mirror.host.size > 0 && mirror.host.size < AGENT_URL_HOST_MAX);
        for (size_t i = 0; i < mirror.host.size; i++) {
            unsigned char c = (unsigned char)host[i];
            base_check(c > ' ' && c < 0x7f && strchr("/?#@\\\"<>", c) == NULL);
        }
        read_back(&mirror);
    }
    free(text);
    return 0;
}
