// The gateway's side of the tunnel, without sockets: takes the frames of tunnel streams, drops what
// it has already, checks batches, hands them to a sink, and acknowledges them when they are
// durable.
//
// Threads. A `gw_ingest` is the process's. A `gw_ingest_worker` belongs to one worker thread and
// owns the sessions of its streams; nothing it does blocks. The sink has a writer thread, which
// writes and syncs batches in groups and posts the outcome back to the worker they came from.
//
// Exactness. Per device and class there is one gw_mark (epoch, high water, bitmap, chain): 24
// bytes. A batch is written at most once: while it is on its way to disk it is marked as under way,
// also when the same device comes back on another worker. Marks are part of what the sink's
// segments say, so after a crash they are rebuilt from the last checkpoint and the segments behind
// it: what was acknowledged is there, what was not may be sent again.
//
// Devices that reuse numbers (restored backup, clone) are answered FORK. Epochs of a device that
// were in use before keep their marks (in the store), so two clones that alternate stay exact.
#ifndef GW_INGEST_H
#define GW_INGEST_H

#include "base/error.h"
#include "base/log.h"
#include "base/ports.h"
#include "svc/core.h"
#include "wire/batch.h"
#include "wire/tunnel_frame.h"

struct gw_ingest;
struct gw_ingest_worker;
struct gw_session; // of one tunnel stream

// ---- Sink: where batches end. The segment log (tunnel/segment_log.h) is the embedded one.

struct gw_sink_batch {
    struct gw_sink_batch *next; // the sink's while it holds it
    uint64_t device;
    uint64_t received_ms; // wall clock of the gateway
    uint64_t device_ms;   // the device's at HELLO
    bool is_loss;
    struct wire_tunnel_loss_frame loss;
    struct wire_tunnel_batch
        batch; // `bytes` and part_bytes: the whole payload as sent, owned by the batch
    uint32_t tenant;
    void (*done)(struct gw_sink_batch *self,
                 enum base_status status); // on the sink's thread; OK: durable
};

struct gw_sink_port {
    void *ctx;
    // Takes the batch; `done` is called exactly once, later, in the order of submission per device.
    // BUSY: full, not taken.
    enum base_status (*submit)(void *ctx, struct gw_sink_batch *batch);
};

// ---- Life

struct gw_ingest_options {
    const char *dir;          // DATA/tunnel: segments and checkpoint
    uint32_t commit_delay_us; // how long a group gathers; 0: takes 1,000, at most 5,000
    uint64_t segment_bytes;   // 0 takes 64 MiB
    uint64_t retain_bytes;    // oldest segments go beyond; 0: keep all
    uint32_t credit_bytes;    // per class and stream; 0 takes 256 KiB
    uint64_t memory_bytes;    // batches in memory; beyond it credit is withheld; 0 takes 256 MiB
    uint32_t device_batches_per_s; // above: THROTTLE; 0 takes 200
    struct base_clock_port clock;
    const struct base_log *log;
};

// Opens the sink, rebuilds the marks, starts the writer. On failure `error` says what and where.
BASE_NODISCARD enum base_status gw_ingest_new(const struct gw_ingest_options *options,
                                              struct gw_ingest **out, struct base_error *error);
void gw_ingest_free(struct gw_ingest *ingest); // workers must be gone. Accepts NULL

// `post` as in svc/core.h.
BASE_NODISCARD enum base_status gw_ingest_worker_new(struct gw_ingest *ingest, void *post_ctx,
                                                     void (*post)(void *post_ctx,
                                                                  struct gw_message *message),
                                                     struct gw_ingest_worker **out);
void gw_ingest_worker_free(
    struct gw_ingest_worker *worker); // no session open; messages may be pending

// ---- Streams

// The transport's side of a session. `write` takes all the bytes (copied or queued) or, when it
// already holds more than it wants for a peer that does not read, returns false: the session is
// then closed by the ingest.
struct gw_session_port {
    void *ctx; // the transport's stream
    bool (*write)(void *ctx, const uint8_t *bytes, size_t size);
    void (*end)(void *ctx,
                bool reset); // finish the response after what is written; later than the call
};

// After the core accepted the exchange (GW_REPLY_DUPLEX): who the device is was checked there.
// NOMEM, LIMIT.
BASE_NODISCARD enum base_status gw_session_open(struct gw_ingest_worker *worker, uint64_t device,
                                                uint32_t tenant, const struct gw_session_port *port,
                                                struct gw_session **out);
// Bytes of the request body as they come; all of them are taken. Any negative status: the peer
// broke the protocol (logged, counted), the transport resets the stream.
BASE_NODISCARD enum base_status gw_session_receive(struct gw_session *session, const uint8_t *bytes,
                                                   size_t size);
// The stream is gone, or the request body ended. Batches under way still become durable. Accepts
// NULL.
void gw_session_close(struct gw_session *session);
// Tells every session of the worker to come back later (DRAIN).
void gw_ingest_worker_drain(struct gw_ingest_worker *worker, uint32_t reconnect_after_ms,
                            uint32_t spread_ms);
// Acknowledgements gather while input is handled; the transport calls this at the end of every
// event of its loop.
void gw_ingest_worker_flush(struct gw_ingest_worker *worker);

#endif
