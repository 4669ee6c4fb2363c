// Addresses of a gateway or mirror as operators write them: https://HOST[:PORT].
#ifndef AGENT_URL_H
#define AGENT_URL_H

#include "posix/posix_port.h"

#define AGENT_URL_HOST_MAX 200 // characters, with the byte behind them

// The host is copied into `host_out`, which *out borrows. NULL, or what is wrong, as words behind
// the text.
const char *agent_url_parse(const char *text, char host_out[AGENT_URL_HOST_MAX],
                            struct posix_mirror *out);

#endif
