// Decompression of tunnel batches. A context per worker, not per device: 96 KB would not scale to a
// stream each. Worker's thread; dictionaries are made on any. session_content.c and record_text.c
// decompress, dict_shelf.c makes dictionaries ready, fleet-sim's law of the tunnel opens what its
// sink was given. A frame may not give more than it said: the output has that size and no more.
#include "tunnel/tunnel_zstd.h"

#include "base/check.h"

#include <stdlib.h>
#include <zstd.h>

#define BUFFER_FIRST (64u * 1024)

struct gw_tunnel_zstd {
    ZSTD_DCtx *context;
    uint8_t *buffer;
    size_t capacity;
};

enum base_status gw_tunnel_zstd_new(struct gw_tunnel_zstd **out)
{
    struct gw_tunnel_zstd *zstd = calloc(1, sizeof(*zstd));
    if (zstd == NULL || (zstd->context = ZSTD_createDCtx()) == NULL) {
        free(zstd);
        return BASE_ERR_NOMEM;
    }
    *out = zstd;
    return BASE_OK;
}

void gw_tunnel_zstd_free(struct gw_tunnel_zstd *zstd)
{
    if (zstd != NULL) {
        ZSTD_freeDCtx(zstd->context);
        free(zstd->buffer);
        free(zstd);
    }
}

struct gw_zstd_dict *gw_zstd_dict_new(const uint8_t *bytes, size_t size)
{
    return (struct gw_zstd_dict *)ZSTD_createDDict(bytes, size);
}

void gw_zstd_dict_free(struct gw_zstd_dict *dict)
{
    ZSTD_freeDDict((ZSTD_DDict *)dict);
}

static bool make_room(struct gw_tunnel_zstd *zstd, size_t size)
{
    if (size <= zstd->capacity) {
        return true;
    }
    size_t capacity = zstd->capacity == 0 ? BUFFER_FIRST : zstd->capacity;
    while (capacity < size) {
        capacity *= 2;
    }
    uint8_t *buffer = malloc(capacity);
    if (buffer == NULL) {
        return false;
    }
    free(zstd->buffer);
    zstd->buffer = buffer;
    zstd->capacity = capacity;
    return true;
}

enum base_status gw_tunnel_zstd_open(struct gw_tunnel_zstd *zstd, const struct gw_zstd_dict *dict,
                                     struct base_span frame, uint32_t raw_bytes,
                                     const uint8_t **out)
{
    unsigned long long says = ZSTD_getFrameContentSize(frame.data, frame.size);
    if (says == ZSTD_CONTENTSIZE_ERROR) {
        return BASE_ERR_CORRUPT;
    }
    if (says != raw_bytes) {
        return BASE_ERR_TOO_LARGE;
    }
    if (!make_room(zstd, raw_bytes)) {
        return BASE_ERR_NOMEM;
    }
    base_assert(raw_bytes <= zstd->capacity);
    size_t got =
        dict != NULL
            ? ZSTD_decompress_usingDDict(zstd->context, zstd->buffer, raw_bytes, frame.data,
                                         frame.size, (const ZSTD_DDict *)dict)
            : ZSTD_decompressDCtx(zstd->context, zstd->buffer, raw_bytes, frame.data, frame.size);
    if (ZSTD_isError(got) || got != raw_bytes) {
        return BASE_ERR_CORRUPT;
    }
    *out = zstd->buffer;
    return BASE_OK;
}
