// Growing byte buffer with a named limit; growth is checked before it happens.
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "base/ports.h"
#include "base/status.h"

#include <stdarg.h>
#include <stdint.h>

struct base_buffer {
    const struct base_alloc_port *alloc;
    uint8_t *data; // NUL behind `size` is always kept once data is not NULL
    size_t size;
    size_t capacity;
    size_t limit_bytes; // 0: none
};

void base_buffer_init(struct base_buffer *buffer, const struct base_alloc_port *alloc,
                      size_t limit_bytes);
void base_buffer_done(struct base_buffer *buffer);
void base_buffer_clear(struct base_buffer *buffer); // keeps the memory
// NOMEM or LIMIT; on failure the buffer is as before.
BASE_NODISCARD enum base_status base_buffer_add(struct base_buffer *buffer, const void *bytes,
                                                size_t size);
BASE_NODISCARD enum base_status base_buffer_printf(struct base_buffer *buffer, const char *format,
                                                   ...) BASE_PRINTF(2, 3);
// Hands the bytes to the caller (free with the same port) and leaves the buffer empty.
uint8_t *base_buffer_steal(struct base_buffer *buffer, size_t *out_size);

#endif
