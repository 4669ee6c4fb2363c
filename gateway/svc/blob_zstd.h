// The gateway's one door to zstd.
#ifndef GW_BLOB_ZSTD_H
#define GW_BLOB_ZSTD_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

// Compresses into a new heap block (free()). UNSUPPORTED when it would not save at least a tenth.
BASE_NODISCARD enum base_status gw_zstd_compress(const uint8_t *bytes, size_t size,
                                                 uint8_t **out_bytes, size_t *out_size);

#endif
