// Compression of a request's body: one zstd frame, without a dictionary. No state; any thread.
#ifndef BODY_ZSTD_H
#define BODY_ZSTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEV_BODY_PACK_MIN 512u // shorter bodies go as they are

// Into `out`, which has room for `size` bytes. False: it would not save a tenth, or there is no
// memory for it.
bool dev_body_pack(const uint8_t *bytes, size_t size, uint8_t *out, size_t *out_size);

#endif
