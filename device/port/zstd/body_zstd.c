// Bodies of calls of models in the cloud, compressed by the fastest level, for a device's battery
// pays for both. Called by posix_cloud.c on the task worker's thread. What saves less than a tenth
// goes as it is: numbers of a camera or a layer often do not compress at all, which zstd finds out
// soon.
#include "zstd/body_zstd.h"

#include <zstd.h>

#define LEVEL 1

bool dev_body_pack(const uint8_t *bytes, size_t size, uint8_t *out, size_t *out_size)
{
    if (size < DEV_BODY_PACK_MIN) {
        return false;
    }
    // Too small a room is how "does not save a tenth" shows.
    size_t wrote = ZSTD_compress(out, size - size / 10, bytes, size, LEVEL);
    if (ZSTD_isError(wrote)) {
        return false;
    }
    *out_size = wrote;
    return true;
}
