// Bytes on their way out: put behind in pieces, taken in front. There is memory only while
// something waits, so thousands of idle streams cost their small structs. How much may wait is the
// owner's to say. However small the pieces, bytes are moved a bounded number of times each. One
// owner, one thread; zero is an empty one.
#ifndef BASE_FIFO_H
#define BASE_FIFO_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define BASE_FIFO_BYTES_MAX (1u << 30)

struct base_fifo {
    uint8_t *bytes;    // NULL: nothing waits
    uint32_t at;       // of the first that waits
    uint32_t end;      // behind the last
    uint32_t capacity; // of `bytes`
};

size_t base_fifo_size(const struct base_fifo *fifo);
// Behind what waits. The first memory is `first_bytes` or more, then it doubles. NOMEM, TOO_LARGE:
// over BASE_FIFO_BYTES_MAX would wait; then nothing changed.
BASE_NODISCARD enum base_status base_fifo_put(struct base_fifo *fifo, const void *bytes,
                                              size_t size, size_t first_bytes);
// At most `size` from the front into `out`; how many. The memory goes with the last one.
size_t base_fifo_take(struct base_fifo *fifo, void *out, size_t size);
// All that waits, in place: until the next put, take, drop or done. NULL: nothing waits.
const uint8_t *base_fifo_front(const struct base_fifo *fifo);
// Forgets `size` bytes in front, at most what waits. What is left stays where it is.
void base_fifo_drop(struct base_fifo *fifo, size_t size);
void base_fifo_done(struct base_fifo *fifo); // what waits is forgotten; leaves an empty one

#endif
