// What the files of sessions and ingest share. Nobody else includes this.
//
// Locks, in the order they are taken: a shard of the marks, then a worker's inbox or the sink's
// queue. Nothing of the transport is called with a lock held.
#ifndef GW_SESSION_PRIVATE_H
#define GW_SESSION_PRIVATE_H

#include "tunnel/disk_guard.h"
#include "tunnel/ingest.h"
#include "tunnel/device_rate.h"
#include "tunnel/mark_lane.h"
#include "tunnel/thinning.h"
#include "tunnel/tunnel_partials.h"
#include "tunnel/tunnel_zstd.h"

#include <pthread.h>
#include <stdatomic.h>

// A batch in memory, from its first byte until the sink gives it back.
struct gw_ingest_batch {
    struct gw_sink_batch sink; // first: what the sink hands back
    struct gw_ingest *ingest;
    struct gw_lane *lane;
    struct gw_batch_id id;
    uint32_t memory; // bytes counted
    uint32_t owners; // the lane's when it was submitted: whose credit it used
    uint8_t bytes[];
};

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
    struct gw_ingest_batch *partial; // its chunks are coming
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
    struct gw_ingest_worker *worker;
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

struct gw_ingest_counters {
#define GW_INGEST_ATOMIC(name, help) _Atomic uint64_t name;
    GW_INGEST_COUNTERS(GW_INGEST_ATOMIC)
#undef GW_INGEST_ATOMIC
    _Atomic uint64_t sessions;
    _Atomic uint64_t thin_step;
};

struct gw_ingest_worker {
    struct gw_message wake; // first
    struct gw_ingest *ingest;
    void *post_ctx;
    void (*post)(void *post_ctx, struct gw_message *message);
    struct gw_session *sessions;
    struct gw_tunnel_zstd *zstd;
    bool starving;       // some session of its
    bool thinned;        // likewise
    uint32_t thin_step;  // thinning.h
    uint64_t thin_us;    // since when
    uint64_t turn_bytes; // decompressed since the last flush
    uint64_t log_us;     // of the second in which log_count lines were written
    uint32_t log_count;
    struct gw_ingest_counters counters;
    pthread_mutex_t inbox_lock;
    struct gw_session *inbox;
    bool wake_pending;
    bool dead;
    struct gw_ingest_worker *next; // of the ingest
};

struct gw_ingest {
    struct gw_marks *marks;
    struct gw_segment_log *log;
    struct gw_sink_port sink;
    struct gw_tunnel_partials *partials;
    struct gw_topics *topics;
    struct gw_device_rates *rates;
    struct gw_dict_shelf *dicts;
    bool refuse_unknown;
    struct base_clock_port clock;
    const struct base_log *log_port;
    uint32_t credit_bytes;
    uint32_t rate;
    uint64_t memory_max;
    struct gw_thin thin;
    uint64_t retain_bytes;
    uint64_t unproven_max; // bytes a day of devices that did not show who they are
    _Atomic uint64_t unproven_day;
    _Atomic uint64_t unproven_bytes; // of that day
    struct gw_disk_guard disk;
    _Atomic uint64_t memory;
    _Atomic uint64_t failed;
    pthread_mutex_t workers_lock;
    struct gw_ingest_worker *workers; // also those that are gone
    struct gw_keeper *keeper;
};

static inline void gw_count(_Atomic uint64_t *counter, uint64_t add)
{
    // One writer each: a plain add would do, were it not for readers.
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
                          memory_order_relaxed);
}

// ---- ingest.c
uint64_t gw_ingest_now_us(const struct gw_ingest *ingest);
// Puts the session on its worker's list and wakes the worker. With the shard's mutex held, or on
// the session's worker.
void gw_session_notify(struct gw_session *session, unsigned flags, bool wake);
bool gw_ingest_is_crowded(const struct gw_ingest *ingest);
// Is there room on the disk for what the session sends, and in its share of it? Takes of the share.
bool gw_ingest_has_room(struct gw_ingest *ingest, const struct gw_session *session, uint32_t bytes);
struct gw_ingest_batch *gw_ingest_batch_new(struct gw_session *session, uint32_t payload_bytes);
void gw_ingest_batch_free(struct gw_ingest_batch *batch); // accepts NULL

// ---- session_input.c: frames in
// Looks at what waits in `input`.
enum base_status gw_session_process(struct gw_session *session);
// The peer broke the protocol: counted, logged. Returns `status`.
// Hostile peers must not fill the log.
bool gw_session_may_log(struct gw_ingest_worker *worker);
enum base_status gw_session_violation(struct gw_session *session, enum base_status status,
                                      const char *what);
// session_batch.c
enum base_status gw_session_on_batch(struct gw_session *session, const uint8_t *payload,
                                     size_t size);
enum base_status gw_session_on_chunk(struct gw_session *session, const uint8_t *payload,
                                     size_t size);
enum base_status gw_session_on_loss(struct gw_session *session, const uint8_t *payload,
                                    size_t size);
// session_content.c
// Decompresses, verifies hash and form, checks records. Not OK: *out_reject is what the device is
// to hear, its status the one returned. `counts`: if it is good it is taken, and its records count.
enum base_status gw_session_check(struct gw_session_class *class,
                                  const struct wire_tunnel_batch *batch, bool counts,
                                  struct wire_tunnel_reject *out_reject);
// session_hello.c
enum base_status gw_session_on_hello(struct gw_session *session, const uint8_t *payload,
                                     size_t size);
void gw_session_try_welcome(struct gw_session *session);
void gw_session_detach(struct gw_session *session);

// ---- session_output.c: frames out
bool gw_session_send(struct gw_session *session, const uint8_t *bytes, size_t size);
void gw_session_fork(struct gw_session *session, struct gw_session_class *class,
                     const struct gw_mark *mark);
void gw_session_away(struct gw_session *session, uint32_t after_ms, uint32_t spread_ms);
void gw_session_throttle(struct gw_session *session, uint32_t not_before_ms, uint32_t spread_ms);
// Asks for the samples of the worker's step, where the device was not asked for them yet or might
// have forgotten.
void gw_session_thin(struct gw_session *session);
// The worker's step, brought up to date. True: it was lowered, and who was thinned is to be told.
bool gw_worker_thin_step(struct gw_ingest_worker *worker);
// ACK and CREDIT where they are due.
void gw_session_settle(struct gw_session *session);

#endif
