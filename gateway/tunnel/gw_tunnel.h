// The gateway's side of the tunnel, without sockets: takes the frames of tunnel streams, drops what
// it has already, checks batches, hands them to a sink, and acknowledges them when they are
// durable.
//
// Threads. A `gw_tunnel` is the process's. A `gw_tunnel_worker` belongs to one worker thread and
// owns the sessions of its streams; nothing it does blocks. The sink has a writer thread, which
// writes and syncs batches in groups and calls them back; the outcome reaches the session's worker
// by message. A keeper thread writes checkpoints and lets old segments go.
//
// Exactness. Per device, class and epoch there is one mark (tunnel/mark/marks.h): 24 bytes. Batches
// of a class are taken in order, by one session at a time: the newest that said HELLO. A session is
// welcomed when nothing of its classes is on its way to disk, so WELCOME tells all there is. A
// batch is therefore written at most once, and what is acknowledged was shown by this very device
// (tunnel/mark/mark_lane.h says what a fork is and when it is found). Marks are part of what the
// segments say: after a crash they are rebuilt from the last checkpoint and the segments behind it.
//
// What is bounded: bytes of a session by credit, batches of a device by a rate (device_rate.h),
// memory by a process-wide sum: as it fills, bulk classes are thinned (thinning.h), beyond it no
// credit is given and then streams are sent away (DRAIN); decompression by the declared size, which
// must be the zstd frame's own and at most WIRE_TUNNEL_RAW_MAX.
#ifndef GW_TUNNEL_H
#define GW_TUNNEL_H

#include "base/error.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/ports.h"
#include "svc/core.h"
#include "svc/tunnel_seam.h"
#include "tunnel/segment/segment_log.h"
#include "tunnel/dict_shelf.h"
#include "tunnel/mark/marks.h"
#include "tunnel/segment/sink.h"
#include "tunnel/uploads.h"
#include "wire/batch.h"
#include "wire/tunnel_frame.h"

#define GW_TUNNEL_CREDIT_BYTES   (256u * 1024)
#define GW_TUNNEL_CREDIT_RECORDS (4u * WIRE_TUNNEL_RECORDS_MAX)
#define GW_TUNNEL_MEMORY_BYTES   (UINT64_C(256) << 20)
#define GW_TUNNEL_RATE           200u               // batches a second and device
#define GW_TUNNEL_INPUT_MAX      (2u * 1024 * 1024) // bytes of a session that wait to be looked at
#define GW_TUNNEL_TURN_BYTES     (4u * 1024 * 1024) // decompressed between two flushes of a worker
#define GW_TUNNEL_AWAY_MS        1000u              // DRAIN of a stream whose batches failed
#define GW_TUNNEL_AWAY_SPREAD_MS 4000u
// DRAIN of a stream that a newer one of the device took over from: two copies of a device that are
// connected at once must not chase each other.
#define GW_TUNNEL_SUPERSEDED_MS        5000u
#define GW_TUNNEL_SUPERSEDED_SPREAD_MS 10000u
#define GW_TUNNEL_UNPROVEN_EXPIRE_S    2592000u // 30 days
#define GW_TUNNEL_UNPROVEN_PERCENT     10u      // of the log, unproven devices may write in a day
#define GW_TUNNEL_DAY_US               UINT64_C(86400000000)
#define GW_TUNNEL_NO_ROOM_MS           30000u // DRAIN of a stream for which there is no room
#define GW_TUNNEL_NO_ROOM_SPREAD_MS    60000u
#define GW_TUNNEL_STRIKES_MAX          64u // batches of a stream that cannot be read, then it ends

struct gw_tunnel;
struct gw_tunnel_worker;
struct gw_session; // of one tunnel stream

// ---- Life

struct gw_tunnel_options {
    const char *dir;          // DATA/tunnel: segments and checkpoint. NULL: `sink` is used
    struct gw_sink_port sink; // in place of the segment log, when dir is NULL; must outlive this
    uint32_t commit_delay_us; // how long a crowd gathers; 0: takes 1,000, at most 5,000
    uint64_t segment_bytes;   // 0 takes 64 MiB
    uint64_t retain_bytes; // oldest segments go beyond; 0: half of the disk that is free at start
    uint32_t unproven_percent;  // of that, unproven devices may write in a day; 0 takes 10
    uint64_t unproven_marks;    // of unproven devices (marks.h); 0 takes GW_MARKS_UNPROVEN
    uint32_t unproven_expire_s; // not heard of for so long, they end; 0 takes 30 days
    uint64_t keeper_look_us;    // between two looks of the keeper; 0 takes GW_KEEPER_LOOK_US
    uint64_t keep_free_bytes;   // of the disk (disk_guard.h); 0 takes 512 MiB
    uint32_t credit_bytes;      // per class and stream; 0 takes 256 KiB
    uint64_t memory_bytes;      // batches in memory; beyond it credit is withheld; 0 takes 256 MiB
    uint32_t thin_percent;      // of memory_bytes, where bulk classes are thinned first; 0 takes 50
    uint32_t device_batches_per_s; // of all a device's streams; above: THROTTLE; 0 takes 200
    bool refuse_unknown;           // uploads that no task declared are rejected
    void *disk_ctx;
    void (*disk_changed)(void *ctx, enum gw_disk_level level); // NULL: nobody else is told
    struct base_hash_key hash_key;                             // of the tables that strangers fill
    struct gw_dict_port dicts;                                 // `load` NULL: there are none
    struct base_clock_port clock;
    const struct base_log *log;
};

// Opens the sink, rebuilds the marks, starts the threads. On failure `error` says what and where.
BASE_NODISCARD enum base_status gw_tunnel_new(const struct gw_tunnel_options *options,
                                              struct gw_tunnel **out, struct base_error *error);
void gw_tunnel_free(struct gw_tunnel *tunnel); // workers must be gone. Accepts NULL

// `post` as in svc/core.h.
BASE_NODISCARD enum base_status gw_tunnel_worker_new(struct gw_tunnel *tunnel, void *post_ctx,
                                                     void (*post)(void *post_ctx,
                                                                  struct gw_message *message),
                                                     struct gw_tunnel_worker **out);
void gw_tunnel_worker_free(
    struct gw_tunnel_worker *worker); // no session open; messages may be pending

// What a task's version declares to upload (wire/declaration.h); from now on its records are
// checked against it. Any thread. As gw_uploads_declare.
BASE_NODISCARD enum base_status gw_tunnel_declare(struct gw_tunnel *tunnel,
                                                  const struct gw_upload *upload,
                                                  struct base_error *error);

// ---- Streams

// The transport's side of a session. `write` takes all the bytes (copied or queued) or, when it
// already holds more than it wants for a peer that does not read, returns false: the session is
// then ended by the tunnel.
struct gw_session_port {
    void *ctx; // the transport's stream
    bool (*write)(void *ctx, const uint8_t *bytes, size_t size);
    // Finish the response after what is written, later than the call. The transport then closes the
    // session with gw_session_close, as for every stream; until then what it receives is dropped.
    void (*end)(void *ctx, bool reset);
    bool unproven; // the device did not show who it is: what it sends has a budget
};

// After the core accepted the exchange (GW_REPLY_DUPLEX): who the device is was checked there.
// NOMEM, LIMIT.
BASE_NODISCARD enum base_status gw_session_open(struct gw_tunnel_worker *worker, uint64_t device,
                                                uint32_t tenant, const struct gw_session_port *port,
                                                struct gw_session **out);
// Bytes of the request body as they come; all of them are taken. Any negative status: the peer
// broke the protocol (logged, counted), the transport resets the stream.
BASE_NODISCARD enum base_status gw_session_receive(struct gw_session *session, const uint8_t *bytes,
                                                   size_t size);
// The stream is gone, or the request body ended. Batches under way still become durable. Accepts
// NULL.
void gw_session_close(struct gw_session *session);
// Tells every session of the worker to come back later (DRAIN), and ends them.
void gw_tunnel_worker_drain(struct gw_tunnel_worker *worker, uint32_t reconnect_after_ms,
                            uint32_t spread_ms);
// Acknowledgements gather while input is handled; the transport calls this at the end of every
// event of its loop.
void gw_tunnel_worker_flush(struct gw_tunnel_worker *worker);

// ---- Introspection

// X(name, help): counters of all workers
#define GW_TUNNEL_COUNTERS(X)                                                                      \
    X(sessions_total, "Tunnel streams that said HELLO.")                                           \
    X(batches_total, "Batches handed to the sink.")                                                \
    X(records_total, "Records in them.")                                                           \
    X(bytes_total, "Bytes of them, as sent.")                                                      \
    X(raw_bytes_total, "Bytes of them, uncompressed.")                                             \
    X(splits_total, "Batches given up for parts of them: nothing is lost.")                        \
    X(losses_total, "LOSS frames handed to the sink, splits apart.")                               \
    X(lost_records_total, "Records declared lost in them.")                                        \
    X(sampled_records_total, "Records of them that THROTTLE's sample left out.")                   \
    X(dropped_starts_total, "Of them, runs of tasks that devices had no place for.")               \
    X(known_total, "Batches that were there already.")                                             \
    X(gaps_total, "Batches behind a refused one.")                                                 \
    X(forks_total, "Forks answered.")                                                              \
    X(rejects_total, "Batches refused for their content.")                                         \
    X(needfulls_total, "Batches whose dictionary is not known.")                                   \
    X(throttles_total, "THROTTLE frames sent.")                                                    \
    X(thinned_total, "Streams asked for a sample of bulk classes, or for all again.")              \
    X(sent_away_total, "Streams told to come back later.")                                         \
    X(superseded_total, "Streams ended by a newer one of the device.")                             \
    X(violations_total, "Streams reset because the peer broke the protocol.")                      \
    X(schema_rejects_total, "Records that no schema allows, or that no task declared.")            \
    X(unknown_total, "Records refused because no task declared their upload.")                     \
    X(resumed_total, "Batches resumed within their chunks.")                                       \
    X(no_room_total, "Batches refused for want of disk, or of the unproven devices' share.")

struct gw_tunnel_stats {
#define GW_TUNNEL_FIELD(name, help) uint64_t name;
    GW_TUNNEL_COUNTERS(GW_TUNNEL_FIELD)
#undef GW_TUNNEL_FIELD
    uint64_t sessions;       // open
    uint64_t memory_bytes;   // of batches and input
    uint64_t thin_step;      // of the worker that thins most
    uint64_t marks;          // devices, classes and their newest epoch
    uint64_t asides;         // older epochs
    uint64_t unproven_marks; // of both, of devices that did not show who they are
    uint64_t expired_marks;
    uint64_t mark_bytes;
    uint64_t probes_long; // of the marks
    uint64_t failed;      // batches the sink gave back
    uint64_t retain_bytes;
    uint64_t unproven_max; // bytes a day; UINT64_MAX: no bound
    uint64_t disk_free;
    struct gw_segment_stats segments;
};
void gw_tunnel_stats(struct gw_tunnel *tunnel, struct gw_tunnel_stats *out); // any thread
// The log, for readers. NULL: another sink.
struct gw_segment_log *gw_tunnel_log(struct gw_tunnel *tunnel);
struct gw_uploads *gw_tunnel_uploads(struct gw_tunnel *tunnel);
// A dictionary, for readers of the log. NULL: not at hand; ask again in a while.
const struct gw_zstd_dict *gw_tunnel_zstd_dict(struct gw_tunnel *tunnel, uint32_t id);
// The same, and it is fetched here and now: for threads that may wait.
const struct gw_zstd_dict *gw_tunnel_dict_wait(struct gw_tunnel *tunnel, uint32_t id);
void gw_tunnel_figures(struct gw_tunnel *tunnel, gw_figure_fn add, void *ctx);
// What is durable of an epoch. False: nothing. Any thread.
bool gw_tunnel_high_water(struct gw_tunnel *tunnel, const struct gw_mark_key *key,
                          uint64_t *out_high_water, uint64_t *out_hash);
bool gw_tunnel_validate(struct gw_tunnel *tunnel); // any thread, slow

#endif
