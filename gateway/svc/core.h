// The gateway's core: check-in, offers, blobs, hints, reports, rollouts and the operator API,
// without sockets.
//
// Threads. A `gw_core` is shared by all workers of a process. Each worker has a `gw_worker`: its
// own read view (an immutable plan of what every device should have, a cohort cache, counters) used
// by one thread only. Mutations and rollout decisions happen on the control thread; durable writes
// on the store's writer thread, which commits in groups. Results come back to the worker by message
// through the `post` port; nothing here blocks a worker.
//
// Lifetimes. process > worker > exchange. The plan a worker holds is replaced by message; an
// exchange never keeps a pointer into it across an asynchronous step.
#ifndef GW_CORE_H
#define GW_CORE_H

#include "base/error.h"
#include "base/hist.h"
#include "base/log.h"
#include "base/ports.h"
#include "svc/exchange.h"
#include "svc/signer.h"

struct gw_core;
struct gw_worker;

#define GW_WORKERS_MAX 64

// A message: `run(message)` is called once on the thread of the worker it was posted to. Intrusive;
// the poster fills it, the runner frees it.
struct gw_message {
    struct gw_message *next;
    void (*run)(struct gw_message *self);
};

// Keeps the text of the first tokens where whoever set this gateway up finds it.
struct gw_first_token {
    void *ctx;
    // `admin`: the token opens the operator API; else devices enrol with it. Before the token opens
    // anything. A failure ends the start.
    enum base_status (*keep)(void *ctx, bool admin, const char *text, struct base_error *error);
};

// Who may read /metrics without an operator's token.
enum gw_metrics_access {
    GW_METRICS_LOOPBACK, // who is on this machine
    GW_METRICS_OPEN,     // everybody
    GW_METRICS_TOKEN,    // nobody
    GW_METRICS_COUNT
};

#define GW_EVIDENCE_KEYS_MAX 4u

struct gw_core_options {
    const char *dir;             // data directory; created when absent
    uint64_t map_bytes_max;      // upper bound of the store's growth; 0 takes 64 GiB
    uint32_t commit_delay_us;    // how long the writer waits to gather a group; 0 takes 2,000
    uint32_t tick_ms;            // rollout controller; 0 takes 500
    uint32_t checkin_interval_s; // told to devices; 0 takes 300
    uint32_t hint_spread_ms;     // devices spread their check-in after a hint; 0: at once
    uint32_t hint_rate_per_s;    // hinted devices come no faster than this, in all; 0: all at once
    uint32_t retry_after_s;      // with 429 and 503; 0 takes 5
    bool control_thread;         // false: the caller drives gw_core_tick itself (simulator, tests)
    bool no_writer_thread;       // ... and gw_core_write: the core has one thread, the caller's
    bool lean_store;             // as gw_store_options.lean
    struct base_str
        admin_token; // bearer token for /api/v1; empty: stored ones alone, or a first one
    enum gw_metrics_access metrics_access;
    bool device_auth_required;  // devices need a credential or a client certificate
    bool leaves_required;       // versions have to declare what leaves devices (wire/leaves)
    uint32_t enroll_rate_per_s; // enrolments; 0 takes 5,000
    // Records of devices that never showed who they are (svc/device/strangers.h); 0 takes
    // 1,000,000, 20,000 and 2,592,000.
    uint32_t unproven_records;
    uint32_t unproven_per_address;
    uint32_t unproven_expire_s;
    struct base_random_port random;      // unpredictable; `next` NULL: no token can be made
    struct gw_first_token first_token;   // `keep` NULL: none is made
    struct base_str ddi_token;           // GatewayToken of hawkBit's device API; empty: it is off
    const struct gw_signer_port *signer; // online keys; must outlive the core. NULL: no roles
    // Who may sign evidence of simulations where no root is served: GW_EVIDENCE_KEYS_MAX at most.
    const uint8_t (*evidence_keys)[WIRE_PUBLIC_KEY_BYTES];
    uint32_t evidence_key_count;
    uint32_t timestamp_life_s;    // 0 takes 86,400
    uint32_t lease_s;             // in beta and gray stages; 0 takes 900
    struct base_clock_port clock; // mono_us goes on while the machine sleeps, where it can
    uint64_t born_s;              // when the program was built; 0: not known
    const struct base_log *log;
};

// Opens the store, loads releases and devices, starts the writer (and control) thread. On failure
// `error` says what and where. The options' strings are copied.
BASE_NODISCARD enum base_status gw_core_new(const struct gw_core_options *options,
                                            struct gw_core **out_core, struct base_error *error);
// Workers must be gone. Commits what was accepted, closes the store. Accepts NULL.
void gw_core_free(struct gw_core *core);

// One rollout-controller step, when control_thread is false. Returns true when something changed.
bool gw_core_tick(struct gw_core *core);
// Commits what reports wait for, when no_writer_thread is set. Returns true when something did.
bool gw_core_write(struct gw_core *core);

// `post` hands a message to the worker's thread; it is called from any thread, must not fail and
// not block.
BASE_NODISCARD enum base_status gw_worker_new(struct gw_core *core, void *post_ctx,
                                              void (*post)(void *post_ctx,
                                                           struct gw_message *message),
                                              struct gw_worker **out_worker);
// No exchange of this worker may be unfinished, no message pending.
void gw_worker_free(struct gw_worker *worker);

// Answers one request (see exchange.h) by its route (svc/route.h). Called on the worker's thread;
// `finish` may run before it returns.
void gw_core_handle(struct gw_worker *worker, struct gw_exchange *exchange);

// The transport answered by itself, before the core could: what failed is noted
// (svc/device/device_faults.h).
void gw_core_refused(struct gw_worker *worker, const struct gw_exchange *exchange);

// Value for `walle-offer` on a proxied business response to a request that carried walle-device and
// walle-profile: base64url text in the arena, empty when there is no news. Fast path, no I/O.
struct base_str gw_worker_offer_header(struct gw_worker *worker, struct base_arena *arena,
                                       const struct gw_request *request);

// Does this proxied request stand for a check-in (docs/PROTOCOL.md, "Push, then pull")?
bool gw_request_rides(const struct gw_request *request);
// The answer to it: what POST /v1/checkin would answer, as far as it fits a header, as base64url
// text in the arena; empty: nothing to do. False: none is made now, or who asks was not let in.
BASE_NODISCARD bool gw_worker_ride_answer(struct gw_worker *worker, struct base_arena *arena,
                                          const struct gw_request *request,
                                          struct base_str *out_offer);
// Takes the report it brings (request.report) and finishes the exchange as that of a POST
// /v1/report: 204 when all of it is durable.
void gw_worker_ride_report(struct gw_worker *worker, struct gw_exchange *exchange);

// ---- Hint streams
// -------------------------------------------------------------------------------------------------

// What the core keeps of one open hint stream; embedded by the transport in its stream, 48 bytes or
// less.
struct gw_hint {
    struct gw_hint *next;
    struct gw_hint **prev;
    uint64_t device_id;
    uint64_t digest; // of the profile the device had when it subscribed, or was last hinted about
    uint64_t signature; // its cohort's when it was last considered; 0: not yet
    uint32_t cohort;    // worker-local cohort index
    uint32_t plan_seen; // plan generation already hinted
};

// Called by the core on the worker's thread when this stream should be told something now: `text`
// is a complete server-sent event, valid during the call. False: the transport could not take it
// (buffer full); the core tries again later. The stream must not be unsubscribed during the call.
typedef bool (*gw_hint_fn)(void *ctx, struct gw_hint *hint, struct base_str text);

// Called by the core on the worker's thread when this stream has to end (its device was revoked):
// it closes after what is pending, later than the call.
typedef void (*gw_hint_end_fn)(void *ctx, struct gw_hint *hint);

// The transport registers its writer, and what ends a stream, once per worker.
void gw_worker_on_hint(struct gw_worker *worker, gw_hint_fn write, gw_hint_end_fn end, void *ctx);
// After a GW_REPLY_STREAM reply the transport subscribes the stream, and unsubscribes it when it
// closes.
void gw_worker_subscribe(struct gw_worker *worker, const struct gw_exchange *exchange,
                         struct gw_hint *hint);
void gw_worker_unsubscribe(struct gw_worker *worker, struct gw_hint *hint);
uint64_t gw_worker_hint_count(const struct gw_worker *worker);

// ---- Alarm

// Called by the core on the worker's thread: gw_worker_alarm is to be called there once after so
// long, or a little later. It asks again only after that.
typedef void (*gw_alarm_fn)(void *ctx, uint32_t after_us);

// The transport registers its alarm, once per worker; without one the core waits for nothing that
// it could do at once.
void gw_worker_on_alarm(struct gw_worker *worker, gw_alarm_fn set, void *ctx);
void gw_worker_alarm(struct gw_worker *worker);

// ---- Tunnel streams, which the core only watches
// -------------------------------------------------------------------------------------------------

// What the core keeps of one open tunnel stream; embedded by the transport in its stream.
struct gw_tunnel_watch {
    struct gw_tunnel_watch *next;
    struct gw_tunnel_watch **prev;
    uint64_t device_id;
};

// Called by the core on the worker's thread when this stream has to end, later than the call: its
// device was revoked.
typedef void (*gw_tunnel_end_fn)(void *ctx, struct gw_tunnel_watch *watch);

void gw_worker_on_tunnel_end(struct gw_worker *worker, gw_tunnel_end_fn end, void *ctx);
// After a GW_REPLY_DUPLEX reply the transport has the stream watched, until it closes.
void gw_worker_watch_tunnel(struct gw_worker *worker, uint64_t device_id,
                            struct gw_tunnel_watch *watch);
void gw_worker_unwatch_tunnel(struct gw_worker *worker, struct gw_tunnel_watch *watch);

// ---- Blobs for the transport
// ----------------------------------------------------------------------------------------

// Bytes of a blob reply from absolute offset `at` (within blob_from .. blob_from+blob_bytes):
// borrowed until the blob is released (immutable content, memory or file mapping). NULL past the
// end.
const uint8_t *gw_blob_bytes(const struct gw_blob *blob, uint64_t at, size_t *out_size);
void gw_blob_release(struct gw_blob *blob); // any thread; accepts NULL

// ---- Introspection
// --------------------------------------------------------------------------------------------------

// Transport figures the core shows in /metrics; each worker writes its own, the reader sums
// (relaxed atomics).
struct gw_transport_stats {
    uint64_t connections_open;
    uint64_t connections_total;
    uint64_t streams_open;
    uint64_t requests_total;
    uint64_t rejected_total;        // by a limit
    uint64_t header_blocks_stopped; // decoded to far more than the limit
    uint64_t header_pauses;         // connections not read for a while: too many large fields
    uint64_t connects_refused;      // by the rates of an address
    uint64_t unread_closed;         // connections closed because their peer did not read
    uint64_t socket_bytes;          // in the kernel, of connections with something under way
    uint64_t shed_strangers;        // connections closed by the overload manager
    uint64_t shed_idle;
    uint64_t overload_level; // of the first worker alone, as the two below
    uint64_t overload_bytes;
    uint64_t overload_limit_bytes;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t tls_handshakes;
    uint64_t tls_resumed;
    uint64_t tls_early; // brought early data that was accepted
    // Connections that carry tunnel streams, by how their first HELLO came.
    uint64_t tunnels_new;     // behind a whole handshake, or in clear text
    uint64_t tunnels_resumed; // behind a resumed one
    uint64_t tunnels_early;   // in early data
};
struct gw_transport_stats *gw_worker_transport_stats(struct gw_worker *worker);
void gw_worker_latency(struct gw_worker *worker,
                       uint64_t latency_us); // request received to reply handed over
// When the newest root of devices runs out, in Unix seconds; 0: there is none. Any thread.
#define GW_ROOT_WARN_S (30u * 86400u) // a root that expires within is to be warned about
uint64_t gw_core_root_expires_s(const struct gw_core *core);
// Readiness for /readyz: false while draining.
// How full the disk is: below the floor devices write nothing more, near it strangers do not; what
// is left is the operators'. Any thread.
enum gw_disk_level { GW_DISK_FINE, GW_DISK_NO_STRANGERS, GW_DISK_NO_DEVICES };
void gw_core_set_disk(struct gw_core *core, enum gw_disk_level level);

// Devices whose interval is the gateway's are told at their next check-in. 0 takes 300. Any thread.
void gw_core_set_checkin_interval(struct gw_core *core, uint32_t interval_s);
void gw_core_set_ready(struct gw_core *core, bool ready);

#endif
