// What the headers of a request of the device protocol are (docs/PROTOCOL.md), and what a class of
// the tunnel is worth on a connection: for the agent's connection and for the simulator's.
#ifndef POSIX_REQUEST_H
#define POSIX_REQUEST_H

#include "device/port.h"
#include "h2/h2_client.h"
#include "wire/tunnel_frame.h"

#define POSIX_REQUEST_HEADERS_MAX 8  // of what the request itself says
#define POSIX_RANGE_MAX           40 // "bytes=N-"
#define POSIX_DICTIONARY_TEXT     (BASE_B64_ENCODED(WIRE_SHA256_BYTES) + 3)

// Texts that headers point into; lives until the request is handed to the connection.
struct posix_request_text {
    char range[POSIX_RANGE_MAX];
    char dictionary[POSIX_DICTIONARY_TEXT];
};

// Adds what the request itself says: profile, nonce, where a download goes on, what a delta may be
// made from. Who asks (walle-device, walle-credential) is the caller's. `out` has
// room for POSIX_REQUEST_HEADERS_MAX. Returns how many.
uint32_t posix_request_headers(const struct dev_request *request, struct posix_request_text *text,
                               struct h2_header *out);

// What a class's stream is worth: to the gateway in the terms of RFC 9218, for what is sent as a
// weight.
struct posix_tunnel_rank {
    struct base_str priority;
    uint16_t weight;
};
struct posix_tunnel_rank posix_tunnel_rank(uint8_t class_id);

#endif
