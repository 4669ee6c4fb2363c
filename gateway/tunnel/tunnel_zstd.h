// The tunnel's door to zstd: decompression of batches. A worker has one context and one buffer.
#ifndef GW_TUNNEL_ZSTD_H
#define GW_TUNNEL_ZSTD_H

#include "base/span.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct gw_tunnel_zstd;
struct gw_zstd_dict; // a dictionary, ready for use; shared by workers, immutable

BASE_NODISCARD enum base_status gw_tunnel_zstd_new(struct gw_tunnel_zstd **out);
void gw_tunnel_zstd_free(struct gw_tunnel_zstd *zstd); // accepts NULL
// NULL: no memory, or no dictionary.
struct gw_zstd_dict *gw_zstd_dict_new(const uint8_t *bytes, size_t size);
void gw_zstd_dict_free(struct gw_zstd_dict *dict); // accepts NULL

// Decompresses one frame into the worker's buffer, borrowed until the next call. The frame must say
// itself that it holds `raw_bytes`; nothing is allocated beyond that. `dict` NULL: none.
// CORRUPT, TOO_LARGE (the frame says another size, or none), NOMEM.
BASE_NODISCARD enum base_status gw_tunnel_zstd_open(struct gw_tunnel_zstd *zstd,
                                                    const struct gw_zstd_dict *dict,
                                                    struct base_span frame, uint32_t raw_bytes,
                                                    const uint8_t **out);

#endif
