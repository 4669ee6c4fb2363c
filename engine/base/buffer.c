// Growing byte buffer: doubles its memory, never past its limit.
//
// All sizes go through checked arithmetic before memory moves, so a failed call leaves the buffer
// as it was. One owner, one thread.
#include "base/buffer.h"

#include "base/check.h"
#include "base/ckd.h"

#include <stdio.h>
#include <string.h>

#define CAPACITY_MIN 64u

void base_buffer_init(struct base_buffer *buffer, const struct base_alloc_port *alloc,
                      size_t limit_bytes)
{
    *buffer = (struct base_buffer){.alloc = alloc, .limit_bytes = limit_bytes};
}

void base_buffer_done(struct base_buffer *buffer)
{
    if (buffer == NULL) {
        return;
    }
    if (buffer->data != NULL) {
        buffer->alloc->release(buffer->alloc->ctx, buffer->data);
    }
    buffer->data = NULL;
    buffer->size = 0;
    buffer->capacity = 0;
}

void base_buffer_clear(struct base_buffer *buffer)
{
    buffer->size = 0;
    if (buffer->data != NULL) {
        buffer->data[0] = 0;
    }
}

// Makes room for `size` more bytes and a NUL.
static enum base_status reserve(struct base_buffer *buffer, size_t size)
{
    size_t total;
    base_assert(buffer->data == NULL || buffer->size < buffer->capacity); // a NUL is behind them
    if (!base_ckd_add(buffer->size, size, &total)) {
        return BASE_ERR_LIMIT;
    }
    if (buffer->limit_bytes != 0 && total > buffer->limit_bytes) {
        return BASE_ERR_LIMIT;
    }
    size_t needed;
    if (!base_ckd_add(total, 1, &needed)) {
        return BASE_ERR_LIMIT;
    }
    if (needed <= buffer->capacity) {
        return BASE_OK;
    }
    size_t capacity;
    if (!base_ckd_mul(buffer->capacity, 2, &capacity) || capacity < needed) {
        capacity = needed;
    }
    if (capacity < CAPACITY_MIN) {
        capacity = CAPACITY_MIN;
    }
    uint8_t *data = buffer->alloc->alloc(buffer->alloc->ctx, capacity);
    if (data == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (buffer->size > 0) {
        memcpy(data, buffer->data, buffer->size);
    }
    data[buffer->size] = 0;
    if (buffer->data != NULL) {
        buffer->alloc->release(buffer->alloc->ctx, buffer->data);
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return BASE_OK;
}

enum base_status base_buffer_add(struct base_buffer *buffer, const void *bytes, size_t size)
{
    BASE_TRY(reserve(buffer, size));
    base_check(buffer->size + size < buffer->capacity);
    if (size > 0) {
        memcpy(buffer->data + buffer->size, bytes, size);
    }
    buffer->size += size;
    buffer->data[buffer->size] = 0;
    return BASE_OK;
}

enum base_status base_buffer_printf(struct base_buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0) {
        return BASE_ERR_INVALID;
    }
    BASE_TRY(reserve(buffer, (size_t)size));
    va_start(args, format);
    (void)vsnprintf((char *)buffer->data + buffer->size, (size_t)size + 1, format, args);
    va_end(args);
    buffer->size += (size_t)size;
    base_assert(buffer->size < buffer->capacity && buffer->data[buffer->size] == 0);
    return BASE_OK;
}

uint8_t *base_buffer_steal(struct base_buffer *buffer, size_t *out_size)
{
    uint8_t *data = buffer->data;
    *out_size = buffer->size;
    buffer->data = NULL;
    buffer->size = 0;
    buffer->capacity = 0;
    return data;
}
