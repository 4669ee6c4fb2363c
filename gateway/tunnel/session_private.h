// A session as its own files see it, and the worker that serves it. Nobody else includes this. What
// the files offer each other is in the headers that bear their names.
#ifndef GW_SESSION_PRIVATE_H
#define GW_SESSION_PRIVATE_H

#include "tunnel/device_rate.h"
#include "tunnel/tunnel_batch.h"
#include "tunnel/gw_tunnel_private.h"
#include "tunnel/tunnel_worker.h"
#include "tunnel/mark/mark_lane.h"

struct gw_session_class {
    struct gw_session *session;
    struct gw_lane *lane;
    uint8_t class_id;
    bool forked;         // FORK was sent: what comes is dropped
    uint32_t sample_ppm; // the device was asked to keep
    uint64_t acked;
    uint64_t refused_at; // the batch refused last, in order
    uint64_t looked_end; // batches behind it were looked at up to here; 0: none was refused
    // Credit, from the beginning of the stream.
    uint64_t used_bytes;
    uint64_t used_records;
    uint64_t granted_bytes;
    uint64_t granted_records;
    uint64_t dropped_bytes; // not written, so free again
    uint64_t dropped_records;
    uint64_t landed_bytes; // came back from the sink; by the shard's mutex
    uint64_t landed_records;
    struct gw_tunnel_batch *partial; // its chunks are coming
    uint32_t partial_got;
};

enum gw_session_state {
    GW_SESSION_START,   // wants HELLO
    GW_SESSION_WAITING, // HELLO came; something of it is on its way to disk
    GW_SESSION_OPEN,
    GW_SESSION_ENDED, // waits for gw_session_close
    GW_SESSION_STATE_COUNT
};

enum gw_session_flag { // set by other threads
    GW_SESSION_SUPERSEDED = 1,
    GW_SESSION_FAILED = 2,
};

struct gw_session {
    struct gw_tunnel_worker *worker;
    struct gw_session_port port;
    uint64_t device;
    uint64_t device_ms;
    uint32_t tenant;
    enum gw_session_state state;
    _Atomic unsigned flags;
    struct gw_session *queue_next; // inbox; by its lock
    struct gw_session **queue_prev;
    struct gw_session *next; // of the worker
    struct gw_session **prev;
    uint8_t *input; // bytes not looked at
    uint32_t input_size;
    uint32_t input_capacity;
    uint32_t class_count;
    uint32_t strikes;
    struct gw_device_rate *rate;
    uint64_t throttled_us;
    uint64_t thinned_us; // when a sample was asked for; 0: never
    bool thinned;        // it stands
    uint32_t dict;       // told to the device
    bool starving;       // got no credit for want of memory
    bool single_reject;  // the device wants to hear of one record at a time
    struct gw_session_class *classes;
    struct wire_tunnel_hello_class *hello; // until welcomed
};

#endif
