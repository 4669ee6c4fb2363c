// Hyperscan's streaming mode as the peer of bench/trigger_worker.c: expressions over the encoded
// events of a session, which is fed event by event; what was fed is not scanned again.
//
// One thread. Built where libhyperscan is.
#ifndef TRIGGER_HYPERSCAN_H
#define TRIGGER_HYPERSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trigger_stream;

// Compiles the expressions; NULL: one of them is refused, or there is no memory.
struct trigger_stream *trigger_stream_new(const char *const *expressions, uint32_t count);
void trigger_stream_free(struct trigger_stream *stream); // accepts NULL
// Forgets what was fed.
bool trigger_stream_reset(struct trigger_stream *stream);
// Feeds `size` more bytes. *out_found: the expressions, by number, of which a match ends in them,
// valid until the next call; false: it failed.
bool trigger_stream_feed(struct trigger_stream *stream, const char *bytes, size_t size,
                         const uint32_t **out_found, uint32_t *out_count);
size_t trigger_stream_set_bytes(const struct trigger_stream *stream);
size_t trigger_stream_state_bytes(const struct trigger_stream *stream); // scratch is shared

#endif
