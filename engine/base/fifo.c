// The buffer behind open bodies of HTTP/2 streams, the client's (device/port/h2) and the gateway's,
// and behind what the gateway reads and answers in HTTP/1.1.
// Called on the thread of their connection.
#include "base/fifo.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define WAITING_TO_TAKEN 4 // bytes are moved for each that was taken, at most

size_t base_fifo_size(const struct base_fifo *fifo)
{
    return fifo->end - fifo->at;
}

// Room for `size` more, behind what waits. What was taken makes room first, if it is enough to pay
// for moving the rest.
static enum base_status make_room(struct base_fifo *fifo, size_t size, size_t first_bytes)
{
    size_t waiting = base_fifo_size(fifo);
    base_assert(waiting + size <= BASE_FIFO_BYTES_MAX); // so that doubling comes to an end
    if (size <= fifo->capacity - fifo->end) {
        return BASE_OK;
    }
    if (waiting + size <= fifo->capacity && fifo->at >= waiting / WAITING_TO_TAKEN) {
        memmove(fifo->bytes, fifo->bytes + fifo->at, waiting);
        fifo->at = 0;
        fifo->end = (uint32_t)waiting;
        return BASE_OK;
    }
    size_t capacity = fifo->capacity > 0 ? (size_t)fifo->capacity * 2 : first_bytes;
    capacity = capacity > 0 ? capacity : 1;
    while (capacity < waiting + size) {
        capacity *= 2;
    }
    uint8_t *grown = malloc(capacity);
    if (grown == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (waiting > 0) {
        memcpy(grown, fifo->bytes + fifo->at, waiting);
    }
    free(fifo->bytes);
    *fifo = (struct base_fifo){
        .bytes = grown, .end = (uint32_t)waiting, .capacity = (uint32_t)capacity};
    return BASE_OK;
}

enum base_status base_fifo_put(struct base_fifo *fifo, const void *bytes, size_t size,
                               size_t first_bytes)
{
    base_assert(fifo->at <= fifo->end && fifo->end <= fifo->capacity);
    if (size > BASE_FIFO_BYTES_MAX - base_fifo_size(fifo) || first_bytes > BASE_FIFO_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (size == 0) {
        return BASE_OK;
    }
    BASE_TRY(make_room(fifo, size, first_bytes));
    memcpy(fifo->bytes + fifo->end, bytes, size);
    fifo->end += (uint32_t)size;
    return BASE_OK;
}

size_t base_fifo_take(struct base_fifo *fifo, void *out, size_t size)
{
    size_t waiting = base_fifo_size(fifo);
    size = size < waiting ? size : waiting;
    if (size > 0) {
        memcpy(out, fifo->bytes + fifo->at, size);
    }
    base_fifo_drop(fifo, size);
    return size;
}

const uint8_t *base_fifo_front(const struct base_fifo *fifo)
{
    return fifo->bytes != NULL ? fifo->bytes + fifo->at : NULL;
}

void base_fifo_drop(struct base_fifo *fifo, size_t size)
{
    base_assert(size <= base_fifo_size(fifo));
    fifo->at += (uint32_t)size;
    if (fifo->at == fifo->end) {
        base_fifo_done(fifo);
    }
}

void base_fifo_done(struct base_fifo *fifo)
{
    free(fifo->bytes);
    *fifo = (struct base_fifo){.bytes = NULL};
}
