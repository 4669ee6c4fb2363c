// Where batches end: the seam between sessions and what keeps batches. The segment log
// (tunnel/segment/segment_log.h) is the embedded sink.
//
// A batch belongs to the sink from submit until it calls `done`, once, later, from the sink's own
// thread: with OK only when the batch is durable. Batches of one device are answered in the order
// they were submitted. When a batch fails, all that were submitted after it and before its `done`
// came back fail too, so that what is durable of a device has no gaps.
#ifndef GW_SINK_H
#define GW_SINK_H

#include "base/status.h"
#include "wire/tunnel_frame.h"

struct gw_sink_batch {
    struct gw_sink_batch *next; // the sink's while it holds it
    uint64_t device;
    uint64_t received_ms; // wall clock of the gateway
    uint64_t device_ms;   // the device's at HELLO
    uint32_t tenant;
    bool is_loss;
    struct wire_tunnel_loss_frame loss;
    // `bytes`, sent_bytes of them: the whole payload as sent, owned by the batch.
    struct wire_tunnel_batch batch;
    void (*done)(struct gw_sink_batch *self, enum base_status status);
};

struct gw_sink_port {
    void *ctx;
    // BUSY, FULL, CLOSED: not taken, `done` will not be called.
    enum base_status (*submit)(void *ctx, struct gw_sink_batch *batch);
};

#endif
