// Compression of whole blobs. Control thread.
#include "svc/blob_zstd.h"

#include <stdlib.h>
#include <zstd.h>

#define LEVEL 6 // once per blob and process, sent many times

enum base_status gw_zstd_compress(const uint8_t *bytes, size_t size, uint8_t **out_bytes,
                                  size_t *out_size)
{
    size_t worth = size - size / 10;
    uint8_t *out = malloc(worth > 0 ? worth : 1);
    if (out == NULL) {
        return BASE_ERR_NOMEM;
    }
    // Too small a buffer is how "does not save a tenth" shows.
    size_t wrote = ZSTD_compress(out, worth, bytes, size, LEVEL);
    if (ZSTD_isError(wrote)) {
        free(out);
        return BASE_ERR_UNSUPPORTED;
    }
    uint8_t *fitted = realloc(out, wrote > 0 ? wrote : 1);
    *out_bytes = fitted != NULL ? fitted : out;
    *out_size = wrote;
    return BASE_OK;
}
