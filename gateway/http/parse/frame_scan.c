// Frame headers in a connection's input; called by conn.c for every read, so it touches nine bytes
// a frame and skips the rest. Worker's thread. State is how many bytes of payload are still to be
// skipped and the part of a head that has come (RFC 9113, 4.1), so input may be cut anywhere. It
// begins by skipping the client's preface.
#include "http/parse/frame_scan.h"

#include <string.h>

void gw_frame_scan_init(struct gw_frame_scan *scan)
{
    *scan = (struct gw_frame_scan){.left = GW_FRAME_PREFACE_BYTES};
}

bool gw_frame_scan_next(struct gw_frame_scan *scan, const uint8_t *bytes, size_t size, size_t *at,
                        struct gw_frame_head *out)
{
    size_t have = size - *at;
    if (scan->left >= have) {
        scan->left -= (uint32_t)have;
        *at = size;
        return false;
    }
    *at += scan->left;
    scan->left = 0;
    size_t need = GW_FRAME_HEAD_BYTES - scan->head_bytes;
    size_t take = need < size - *at ? need : size - *at;
    memcpy(scan->head + scan->head_bytes, bytes + *at, take);
    scan->head_bytes = (uint8_t)(scan->head_bytes + take);
    *at += take;
    if (scan->head_bytes < GW_FRAME_HEAD_BYTES) {
        return false;
    }
    const uint8_t *head = scan->head;
    scan->head_bytes = 0;
    scan->left = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
    out->payload_bytes = scan->left;
    out->type = head[3];
    out->flags = head[4];
    out->stream = (int32_t)((uint32_t)(head[5] & 0x7f) << 24 | (uint32_t)head[6] << 16 |
                            (uint32_t)head[7] << 8 | head[8]);
    return true;
}
