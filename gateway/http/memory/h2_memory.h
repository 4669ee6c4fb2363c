// Memory under nghttp2, one per worker: what makes an idle connection cheap.
//
// - nghttp2 gives every session a 16 KB frame buffer that holds something only while frames are
//   being written out. All sessions of a worker share one such buffer; a session that must stop in
//   the middle of writing (its socket is full) has the content saved (park) and put back (unpark).
// - The stream table of a session is 4 KB and almost empty. It gets a page of its own, which is
//   given back to the kernel when it holds only zeros (gw_h2_memory_trim), so that nothing is seen
//   of it from above.
// - Small blocks are kept for reuse: nghttp2 asks for a dozen with each stream.
// - The ring of the header compressor is used by a server only for what it indexes, and it does not
//   on most connections (stream_reply.c); those lie together, so that their pages are not touched.
//
// One owner, one thread.
#ifndef GW_H2_MEMORY_H
#define GW_H2_MEMORY_H

#include "base/status.h"
#include "base/os/block_pool.h"

#include <nghttp2/nghttp2.h>
#include <stdint.h>

#define GW_H2_FRAME_BUFFER_BYTES (20 * 1024)

// Blocks of one size from one reserved range; the free list lies outside the blocks.
struct gw_h2_range {
    uint8_t *start;
    size_t block_bytes;
    uint32_t count;  // blocks in the range
    uint32_t fresh;  // blocks never handed out: fresh..count-1
    uint32_t *freed; // stack of block numbers handed back
    uint32_t freed_count;
};

struct gw_h2_memory {
    nghttp2_mem mem; // to give to nghttp2
    uint8_t *frame_buffer;
    struct gw_h2_range tables;
    struct gw_h2_range rings;
    struct base_block_pool blocks;
    uintptr_t low; // both ranges, and perhaps more, lie in [low, low + span)
    uintptr_t span;
    bool creating; // inside gw_h2_memory_session_new
    bool frame_buffer_given;
    bool ring_given;
    void *table_given;
};

// What a session holds of the memory above.
struct gw_h2_lease {
    void *table;  // page of the stream table, NULL when it came from elsewhere
    void *parked; // saved frame buffer of a session stopped in the middle, else NULL
    bool shares;  // writes through the shared frame buffer
};

// What nghttp2 wants for a session.
struct gw_h2_session_make {
    const nghttp2_session_callbacks *callbacks;
    const nghttp2_option *option;
    void *user;
};
// NOMEM. `sessions_max` sizes the reserved ranges; more sessions work, from the heap.
BASE_NODISCARD enum base_status gw_h2_memory_init(struct gw_h2_memory *memory,
                                                  uint32_t sessions_max);
// Every session must be gone. Accepts a zeroed struct.
void gw_h2_memory_done(struct gw_h2_memory *memory);
// A server session on this memory. NOMEM.
BASE_NODISCARD enum base_status gw_h2_memory_session_new(struct gw_h2_memory *memory,
                                                         const struct gw_h2_session_make *make,
                                                         nghttp2_session **out_session,
                                                         struct gw_h2_lease *out_lease);
// After nghttp2_session_del.
void gw_h2_memory_session_ended(struct gw_h2_memory *memory, struct gw_h2_lease *lease);
// Around a stop of nghttp2_session_mem_send before it said 0. NOMEM: the session cannot go on.
BASE_NODISCARD enum base_status gw_h2_memory_park(struct gw_h2_memory *memory,
                                                  struct gw_h2_lease *lease);
void gw_h2_memory_unpark(struct gw_h2_memory *memory, struct gw_h2_lease *lease);
// The session is idle: returns pages that hold only zeros.
void gw_h2_memory_trim(struct gw_h2_lease *lease);

#endif
