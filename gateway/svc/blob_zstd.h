// The gateway's one door to zstd.
#ifndef GW_BLOB_ZSTD_H
#define GW_BLOB_ZSTD_H

#include "base/status.h"
#include "wire/digest.h"

#include <stddef.h>
#include <stdint.h>

// RFC 9842, section 6: a dcz stream is this magic (a skippable frame's head), the SHA-256 of the
// dictionary, and a zstd frame made with it.
#define GW_DCZ_MAGIC      "\x5e\x2a\x4d\x18\x20\x00\x00\x00"
#define GW_DCZ_HEAD_BYTES (8 + WIRE_SHA256_BYTES)

// Compresses into a new heap block (free()). UNSUPPORTED when it would not save at least a tenth.
BASE_NODISCARD enum base_status gw_zstd_compress(const uint8_t *bytes, size_t size,
                                                 uint8_t **out_bytes, size_t *out_size);

struct gw_dictionary {
    struct wire_sha256 digest;
    const uint8_t *bytes;
    size_t size;
};

// The same with a dictionary, as a dcz stream. The result depends on the inputs alone, so that an
// interrupted download goes on after a restart of the gateway. A frame's window is at most 8 MiB or
// 1.25 times the dictionary, and 128 MiB, as the RFC asks.
BASE_NODISCARD enum base_status gw_dcz_compress(const struct gw_dictionary *dictionary,
                                                const uint8_t *bytes, size_t size,
                                                uint8_t **out_bytes, size_t *out_size);

#endif
