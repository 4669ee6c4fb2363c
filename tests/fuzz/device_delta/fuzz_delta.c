// Any bytes as a delta. The first byte says how they are taken: even, as a stream from its magic
// on; odd, as the pieces within a sound frame, which no mutation of a packed one would reach. No
// crash, nothing read past the old content or the input, and no more memory than allowed.
#include "fuzz_target.h"

#include "device/port.h"
#include "wire/delta_piece.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define OLD_BYTES  5000u
#define MEMORY_MAX (16u * 1024 * 1024)
#define MADE_MAX   (32u * 1024 * 1024) // a small frame may unpack to much: no further

static uint8_t *packed(const uint8_t *data, size_t size, size_t *out_size)
{
    size_t room = ZSTD_compressBound(size);
    uint8_t *out = malloc(WIRE_DELTA_HEAD_BYTES + room);
    base_check(out != NULL);
    memset(out, 0, WIRE_DELTA_HEAD_BYTES);
    memcpy(out, WIRE_DELTA_MAGIC, WIRE_DELTA_MAGIC_BYTES);
    size_t wrote = ZSTD_compress(out + WIRE_DELTA_HEAD_BYTES, room, data, size, 1);
    base_check(!ZSTD_isError(wrote));
    *out_size = WIRE_DELTA_HEAD_BYTES + wrote;
    return out;
}

static void decode(const uint8_t *old, const uint8_t *delta, size_t size)
{
    struct dev_delta_port port = dev_delta_zstd(MEMORY_MAX);
    struct dev_delta_input input = {.old_bytes = old,
                                    .old_size = OLD_BYTES,
                                    .bytes = delta,
                                    .size = size,
                                    .expected = OLD_BYTES,
                                    .memory_max = port.memory_max};
    void *decoder = NULL;
    if (port.begin(&input, &decoder) != BASE_OK) {
        return;
    }
    size_t made = 0;
    uint64_t sum = 0;
    const uint8_t *bytes = NULL;
    size_t count = 0;
    while (made < MADE_MAX && port.next(decoder, &bytes, &count) == BASE_OK && count > 0) {
        for (size_t i = 0; i < count; i++) {
            sum += bytes[i];
        }
        made += count;
    }
    base_check(sum <= UINT64_C(255) * made);
    port.end(decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *old = malloc(OLD_BYTES);
    if (old == NULL || size == 0) {
        free(old);
        return 0;
    }
    for (size_t i = 0; i < OLD_BYTES; i++) {
        old[i] = (uint8_t)(i * 37 + (i >> 5));
    }
    size_t delta_size = size - 1;
    uint8_t *delta = data[0] % 2 == 0 ? malloc(size) : packed(data + 1, size - 1, &delta_size);
    if (delta != NULL) {
        if (data[0] % 2 == 0) {
            memcpy(delta, data + 1, size - 1);
        }
        decode(old, delta, delta_size);
    }
    free(delta);
    free(old);
    return 0;
}
