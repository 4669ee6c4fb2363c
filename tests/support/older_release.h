// Release payloads as they were signed before they had a floor, made from today's.
#ifndef OLDER_RELEASE_H
#define OLDER_RELEASE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OLDER_FLOOR_BYTES 8

// Kind 5 becomes 1, kind 6 becomes 4, and the floor, behind name and counter, goes. Returns the
// size, OLDER_FLOOR_BYTES less; `out` may be `payload`, which is such a payload.
static inline size_t older_release(const uint8_t *payload, size_t size, uint8_t *out)
{
    size_t before = 1 + 1 + (size_t)payload[1] + 8;
    size_t after = before + OLDER_FLOOR_BYTES;
    uint8_t kind = payload[0] == 6 ? 4 : 1;
    memmove(out, payload, before);
    memmove(out + before, payload + after, size - after);
    out[0] = kind;
    return size - OLDER_FLOOR_BYTES;
}

#endif
