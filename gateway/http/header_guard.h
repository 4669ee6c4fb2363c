// What header blocks of a connection may cost. A block is paid for by its bytes on the wire, but
// may name one large field of the dynamic table again with every byte (RFC 7541, 7.3): what it
// decodes to is bounded here.
//
// - Above the header limit the stream is answered 431.
// - Above GW_HEADER_STOP_FACTOR times the limit decoding stops at once: nghttp2 is paused in the
//   middle of the block, the answer is written and the stream reset, and what is left of the block
//   only keeps the table in step, which costs what its bytes on the wire cost.
// - A connection with many such blocks is ended (ENHANCE_YOUR_CALM).
// - Large fields within the limit are paid from a budget of the peer's address; what is above it
//   waits.
//
// Part of a connection; its worker's thread.
#ifndef GW_HTTP_HEADER_GUARD_H
#define GW_HTTP_HEADER_GUARD_H

#include "policy/ratelimit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gw_conn;
struct gw_http_worker;

#define GW_HEADER_STOP_FACTOR    4u
#define GW_HEADER_REFUSALS       32u   // blocks above the limit at once, then one a second
#define GW_HEADER_STOP_REFUSALS  8u    // what a stopped block counts
#define GW_HEADER_FIELD_OVERHEAD 32u   // RFC 9113, 6.5.2: what a field counts besides its bytes
#define GW_HEADER_FIELD_FREE     512u  // fields up to this size cost no more than their request
#define GW_HEADER_PAY_BYTES      8192u // large fields are paid for in steps of at least this
#define GW_HEADER_READ_BYTES     2048u // what a connection is read at once that brings such fields
#define GW_HEADER_PAUSE_MS_MAX   5000u // then it asks again

enum gw_header_verdict {
    GW_HEADER_TAKE,
    GW_HEADER_SKIP, // of a block that is over its limit: not to be looked at
    GW_HEADER_STOP, // nghttp2 is to be paused: gw_header_guard_stop comes next
    GW_HEADER_DROP, // the stream is to be given up without an answer
    GW_HEADER_VERDICT_COUNT
};

struct gw_header_guard {
    uint32_t block_bytes; // decoded of this block
    uint32_t block_limit; // what a block may decode to
    int32_t stream;       // whose block it is
    uint32_t unpaid;      // bytes of large fields
    bool refused;         // this block is over the limit
    bool stopped;         // ... and decoding has stopped
    bool dropped;         // ... but its stream could not be closed yet
    bool paused;          // nghttp2 has been paused for it
    bool heavy;           // brought large fields: is read in small pieces
    struct pol_ratelimit refusals;
};

void gw_header_guard_init(struct gw_header_guard *guard, uint64_t now_us);
// A block begins.
void gw_header_guard_begin(struct gw_conn *conn, int32_t stream);
// A decoded field, valid or not, that gw_header_guard_light did not count. May terminate the
// connection.
enum gw_header_verdict gw_header_guard_field(struct gw_conn *conn, size_t name_bytes,
                                             size_t value_bytes);

// Counts the field of a block that gives no concern, which nearly all are. False: it was not
// counted, ask gw_header_guard_field.
static inline bool gw_header_guard_light(struct gw_header_guard *guard, size_t bytes)
{
    bool light = bytes <= GW_HEADER_FIELD_FREE && !guard->stopped &&
                 guard->block_bytes + bytes + GW_HEADER_FIELD_OVERHEAD <= guard->block_limit;
    guard->block_bytes += light ? (uint32_t)bytes + GW_HEADER_FIELD_OVERHEAD : 0;
    return light;
}

// nghttp2 is paused at a field: answers the stream, or resets it. What there is to write goes out
// now, so that nghttp2 has closed the stream when it goes on.
void gw_header_guard_stop(struct gw_conn *conn);
// Pays for large fields: for how many milliseconds the connection is to be read no more; 0: on.
uint64_t gw_header_guard_pay(struct gw_conn *conn);

#endif
