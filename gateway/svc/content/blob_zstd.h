// The gateway's one door to zstd.
#ifndef GW_BLOB_ZSTD_H
#define GW_BLOB_ZSTD_H

#include "base/status.h"
#include "wire/digest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// RFC 9842, section 6: a dcz stream is this magic (a skippable frame's head), the SHA-256 of the
// dictionary, and a zstd frame made with it.
#define GW_DCZ_MAGIC      "\x5e\x2a\x4d\x18\x20\x00\x00\x00"
#define GW_DCZ_HEAD_BYTES (8 + WIRE_SHA256_BYTES)

// Compresses into a new heap block (free()). UNSUPPORTED when it would not save at least a tenth.
BASE_NODISCARD enum base_status gw_zstd_compress(const uint8_t *bytes, size_t size,
                                                 uint8_t **out_bytes, size_t *out_size);

// What a peer packed, at most `capacity` bytes of it. INVALID: no whole frame, or more than that.
BASE_NODISCARD enum base_status gw_zstd_unpack(const uint8_t *bytes, size_t size, uint8_t *out,
                                               size_t capacity, size_t *out_size);

struct gw_dictionary {
    struct wire_sha256 digest;
    const uint8_t *bytes;
    size_t size;
    // Asked now and then by what takes long: is nobody waiting any more? NULL: never.
    bool (*stopping)(void *ctx);
    void *ctx;
};

// The same with a dictionary, as a dcz stream. The result depends on the inputs alone, so that an
// interrupted download goes on after a restart of the gateway. A frame's window is the content,
// which keeps all of the dictionary in reach, where the RFC lets it be: at most 8 MiB or 1.25 times
// the dictionary, and 128 MiB; otherwise the largest power of two below.
BASE_NODISCARD enum base_status gw_dcz_compress(const struct gw_dictionary *dictionary,
                                                const uint8_t *bytes, size_t size,
                                                uint8_t **out_bytes, size_t *out_size);

// One frame of many parts into a buffer, with a window of 512 KiB.
struct gw_zstd_packer;
// NOMEM. `out` stays the caller's.
BASE_NODISCARD enum base_status gw_zstd_packer_new(uint8_t *out, size_t capacity,
                                                   struct gw_zstd_packer **out_packer);
void gw_zstd_packer_free(struct gw_zstd_packer *packer); // accepts NULL
// `ends`: what comes next is of another kind, so statistics begin anew. UNSUPPORTED: no room left.
BASE_NODISCARD enum base_status gw_zstd_packer_add(struct gw_zstd_packer *packer,
                                                   const uint8_t *bytes, size_t size, bool ends);
BASE_NODISCARD enum base_status gw_zstd_packer_end(struct gw_zstd_packer *packer, size_t *out_size);
// About the bytes these would take, alone, at most 64 KiB; nothing is added.
size_t gw_zstd_packer_try(struct gw_zstd_packer *packer, const uint8_t *bytes, size_t size);

// A heap block cut to what was used of it.
void gw_zstd_fit(uint8_t *bytes, size_t size, uint8_t **out_bytes, size_t *out_size);

#endif
