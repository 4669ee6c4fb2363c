// Finds frame headers in a byte stream, ahead of nghttp2: so that a rule nghttp2 has no callback
// for can be applied at the boundary of a frame. Knows nothing of what the frames mean.
#ifndef GW_HTTP_FRAME_SCAN_H
#define GW_HTTP_FRAME_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_FRAME_HEAD_BYTES    9u
#define GW_FRAME_PREFACE_BYTES 24u // of a client, before its first frame (RFC 9113, 3.4)

struct gw_frame_scan {
    uint32_t left; // bytes to skip: preface, then payloads
    uint8_t head_bytes;
    uint8_t head[GW_FRAME_HEAD_BYTES];
};

struct gw_frame_head {
    uint32_t payload_bytes;
    uint8_t type;
    uint8_t flags;
    int32_t stream;
};

void gw_frame_scan_init(struct gw_frame_scan *scan);
// Goes on from bytes[*at]. True: a frame header is complete and *at is behind it. False: all bytes
// were seen.
bool gw_frame_scan_next(struct gw_frame_scan *scan, const uint8_t *bytes, size_t size, size_t *at,
                        struct gw_frame_head *out);

#endif
