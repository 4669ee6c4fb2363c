// Compression dictionaries of the tunnel: zstd dictionaries that are released like any file of a
// task. A version whose manifest has a DATA file named WIRE_TUNNEL_DICT_FILE brings one; devices
// that run the version may compress with it, and a gateway knows it from the moment the version was
// pushed, for good: what a released dictionary made can always be read.
#ifndef WIRE_TUNNEL_DICT_H
#define WIRE_TUNNEL_DICT_H

#include "wire/digest.h"

#define WIRE_TUNNEL_DICT_FILE      "tunnel.dict"
#define WIRE_TUNNEL_DICT_BYTES_MIN 256
#define WIRE_TUNNEL_DICT_BYTES_MAX (64 * 1024) // `walle tunnel train` makes 32 KB

// A dictionary's name in HELLO and BATCH: the first 4 bytes of its SHA-256, little-endian. 0 means
// "none", so content whose id would be 0 is no dictionary.
static inline uint32_t wire_tunnel_dict_id(const struct wire_sha256 *digest)
{
    return (uint32_t)digest->bytes[0] | (uint32_t)digest->bytes[1] << 8 |
           (uint32_t)digest->bytes[2] << 16 | (uint32_t)digest->bytes[3] << 24;
}

// Whether it may be one, by size and magic number (RFC 8878, section 5).
static inline bool wire_tunnel_dict_ok(const uint8_t *bytes, size_t size)
{
    static const uint8_t magic[] = {0x37, 0xA4, 0x30, 0xEC};
    return size >= WIRE_TUNNEL_DICT_BYTES_MIN && size <= WIRE_TUNNEL_DICT_BYTES_MAX &&
           bytes[0] == magic[0] && bytes[1] == magic[1] && bytes[2] == magic[2] &&
           bytes[3] == magic[3];
}

#endif
