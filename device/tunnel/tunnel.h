// The device's side of the real-time tunnel: takes records, keeps them until the gateway has them
// durably, and says for each that was not delivered why. Frames and their meaning are in
// wire/tunnel_frame.h.
//
// Law: for every device, class and epoch, records produced = durable at the gateway + queued +
// declared lost. It holds at every moment and after a kill at every moment.
//
// Life of a record: dev_tunnel_offer puts it into the open batch of its class (memory); the batch
// is closed (numbered, put into the store through collect) when it is due; it is sent when it is
// durable here, the stream is there and credit allows; it is deleted in the same commit that stores
// the new tail, when the gateway acknowledged it as durable. A record of class 0 is in the store
// before dev_tunnel_step returns, of class 1 within DEV_TUNNEL_COALESCE_MS, of class 2 and 3 within
// DEV_TUNNEL_BATCH_AGE_MS + DEV_COLLECT_AGE_MS.
//
// What may be dropped: a batch the gateway may have (it was sent, and no WELCOME since then said
// that it is not there) is never turned into a LOSS. The store holds a bound on what may have been
// sent, written ahead of sending, so that this holds across a kill. WELCOME's and ACK's bitmap is
// not used: a batch beyond a gap cannot be compared with ours, and what was not compared is not
// taken for delivered.
//
// When a batch is due: class 0 at once; class 1 at once when the radio is on (something was sent or
// came within DEV_TUNNEL_RADIO_MS), otherwise after DEV_TUNNEL_COALESCE_MS; class 2 and 3 with 64
// records, 8 KB or 5 s, or beside any send of class 0 and 1; all classes when the app goes to the
// background.
//
// Order: class 0 before 1 before the rest; 2 and 3 weighted 4 to 1, but a class 3 that waited for
// 60 s goes first. Within a class oldest first. Class 1 has a freshness deadline: what
// is older becomes LOSS(expired).
//
// Memory is the caller's block; one thread; no clock but the arguments; no I/O but the ports.
#ifndef DEV_TUNNEL_H
#define DEV_TUNNEL_H

#include "base/log.h"
#include "base/ports.h"
#include "pipeline/storage/collect.h"
#include "wire/batch.h"
#include "wire/tunnel_frame.h"

#define DEV_TUNNEL_RADIO_MS         2000
#define DEV_TUNNEL_COALESCE_MS      50
#define DEV_TUNNEL_FRESH_MS         2000 // default deadline of class 1
#define DEV_TUNNEL_BATCH_RECORDS    64
#define DEV_TUNNEL_BATCH_BYTES      (8 * 1024) // then a batch of class 2 or 3 is closed
#define DEV_TUNNEL_BATCH_AGE_MS     5000
#define DEV_TUNNEL_BACKOFF_BASE_MS  1000
#define DEV_TUNNEL_BACKOFF_CAP_MS   (5 * 60 * 1000) // reset by a durable acknowledgement alone
#define DEV_TUNNEL_RETRY_MAX_S      86400 // longer wishes of a server (Retry-After) are cut to this
#define DEV_TUNNEL_AGING_MS         60000
#define DEV_TUNNEL_SILENCE_MS       30000 // nothing heard while something is due: the stream is given up
#define DEV_TUNNEL_UNMOVED_MS       60000 // or nothing acknowledged of what is under way
#define DEV_TUNNEL_QUARANTINE_MAX   16 // refused records kept for `walle-device tunnel quarantine`
#define DEV_TUNNEL_QUARANTINE_BYTES (4 * 1024)  // of a record in quarantine; the rest is cut off
#define DEV_TUNNEL_BATCH_MAX        (32 * 1024) // default of batch_bytes_max
#define DEV_TUNNEL_UPLOADS          8           // of an open batch
#define DEV_TUNNEL_ANSWER_MAX       512         // of a frame from the gateway
#define DEV_TUNNEL_SENDS_MAX        256         // frames sent in one step

// ---- Ports

// Two-way streams. Contract as in device/port.h: a start that returned OK is followed by exactly
// one dev_tunnel_on_closed, never from inside the call, unless it was cancelled.
struct dev_tunnel_transport {
    void *ctx;
    // Opens POST /v1/tunnel with HTTP priority for `class_id`. `early`: the first bytes (a HELLO)
    // may go as TLS early data: they are safe to be replayed.
    enum base_status (*open)(void *ctx, uint32_t stream, uint8_t class_id);
    // Takes all of `bytes` (copied) or nothing. BUSY: more than the transport wants to hold; it
    // calls dev_tunnel_on_writable later.
    enum base_status (*send)(void *ctx, uint32_t stream, const uint8_t *bytes, size_t size,
                             bool early);
    void (*close)(void *ctx, uint32_t stream); // no callback follows
};

// Compression: zstd with and without dictionaries (device/port/...).
struct dev_tunnel_compression {
    uint32_t dict; // 0: none
    const uint8_t *in;
    size_t in_size;
    uint8_t *out; // never overlaps `in`
    size_t capacity;
};
struct dev_tunnel_codec {
    void *ctx;
    // NOT_FOUND: no such dictionary. TOO_LARGE: does not fit in capacity. Other codes: sent plain.
    enum base_status (*compress)(void *ctx, const struct dev_tunnel_compression *what,
                                 size_t *out_size);
    uint32_t (*dicts)(void *ctx,
                      uint32_t out[WIRE_TUNNEL_DICTS_MAX]); // ids there are; newest first
};

struct dev_tunnel_ports {
    struct dev_collect *collect; // the store; outlives the tunnel
    struct base_random_port random;
    struct dev_tunnel_transport transport;
    struct dev_tunnel_codec codec; // compress NULL: plain
    const struct base_log *log;    // NULL: silence
};

// ---- Configuration and figures

struct dev_tunnel_config {
    uint64_t device_id;
    struct base_str app; // printable ASCII, up to WIRE_TUNNEL_TEXT_MAX; copied
    struct base_str os;
    uint32_t quota_bytes[WIRE_TUNNEL_CLASSES]; // 0 takes 256 KB, 1 MB, 6 MB, 1 MB
    uint32_t fresh_ms;                         // 0 takes DEV_TUNNEL_FRESH_MS
    uint8_t classes;                           // mask of those in use; 0: all. One stream each
    bool one_stream;                           // all classes over one stream
    // Memory, see dev_tunnel_bytes. Largest payload of a batch: 0 takes DEV_TUNNEL_BATCH_MAX, at
    // least 256, at most WIRE_TUNNEL_RAW_MAX; of an open batch: 0 takes DEV_TUNNEL_BATCH_BYTES.
    uint32_t batch_bytes_max;
    uint32_t open_bytes;
    uint32_t open_records; // 0 takes DEV_TUNNEL_BATCH_RECORDS
    uint32_t window;       // batches under way per class; 0 takes WIRE_TUNNEL_WINDOW
};

struct dev_tunnel_class_stats {
    uint64_t produced; // records, of all epochs
    uint64_t durable;
    uint64_t queued;                     // open batch and store
    uint64_t lost[WIRE_TUNNEL_LOSS_END]; // declared; SPLIT counts nothing
    uint64_t batches_sent;
    uint64_t batches_resent;
    uint64_t bytes_sent; // frames
    uint64_t raw_bytes;  // of the payloads sent
    uint32_t epoch;
    uint64_t next;
    uint64_t tail;
};

struct dev_tunnel_stats {
    struct dev_tunnel_class_stats classes[WIRE_TUNNEL_CLASSES];
    uint64_t connects;
    uint64_t forks;
    uint64_t rejects;
    uint64_t needfulls;
    uint64_t throttles;
    uint64_t bad_frames;
};

struct dev_tunnel;

// Two batches, and per class in use an open batch and the window.
size_t dev_tunnel_bytes(const struct dev_tunnel_config *config);
BASE_NODISCARD enum base_status dev_tunnel_init(void *memory, size_t memory_bytes,
                                                const struct dev_tunnel_config *config,
                                                const struct dev_tunnel_ports *ports,
                                                struct dev_tunnel **out);
// Reads back what is queued. A damaged or lost record opens a new epoch (returns OK).
BASE_NODISCARD enum base_status dev_tunnel_boot(struct dev_tunnel *tunnel, uint64_t now_us);

// ---- Records in

// OK: it is produced (counted) and accounted for from here on, also when a quota then drops it.
// *out_seq is its number in the epoch as it is now, UINT64_MAX when it was dropped at once;
// out_seq may be NULL. INVALID, TOO_LARGE: not produced.
BASE_NODISCARD enum base_status dev_tunnel_offer(struct dev_tunnel *tunnel, uint64_t now_us,
                                                 const struct wire_upload_record *record,
                                                 uint64_t *out_seq);
// The same as a port, for who makes records and knows no tunnel.
struct wire_upload_port dev_tunnel_uploads(struct dev_tunnel *tunnel);
// `count` records that were never made, for their task's run had no place to wait: produced, and
// declared lost (WIRE_TUNNEL_LOSS_STARTS). INVALID: no such class here.
BASE_NODISCARD enum base_status dev_tunnel_unmade(struct dev_tunnel *tunnel, uint8_t class_id,
                                                  uint64_t count);
// The app goes to the background: everything is due now.
void dev_tunnel_flush(struct dev_tunnel *tunnel, uint64_t now_us);
// The device's wall clock, for HELLO.
void dev_tunnel_set_wall(struct dev_tunnel *tunnel, uint64_t now_us, uint64_t wall_ms);
// The network came back, or the radio is on anyway: no back-off. What the gateway asked for
// (THROTTLE, DRAIN, retry-after) holds.
void dev_tunnel_wake(struct dev_tunnel *tunnel, uint64_t now_us);

// ---- Driving

// Does what is due; returns when to call again, UINT64_MAX: only after a callback. Calls
// dev_collect_step.
uint64_t dev_tunnel_step(struct dev_tunnel *tunnel, uint64_t now_us);
void dev_tunnel_on_open(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us); // 2xx came
void dev_tunnel_on_bytes(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                         const uint8_t *bytes, size_t size);
void dev_tunnel_on_writable(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us);
#define DEV_TUNNEL_STATUS_OPEN 200 // of the answer; another's body is prose, not frames
// How a stream ended that its transport closed with `status`: what the answer's HTTP status says
// (0: none came) when that is no tunnel; CLOSED for an end in order, since a stream has none of its
// own.
enum base_status dev_tunnel_ending(int http_status, enum base_status status);
// `status` from dev_tunnel_ending; `retry_after_s` of an answer that is no tunnel, 0: none.
void dev_tunnel_on_closed(struct dev_tunnel *tunnel, uint32_t stream, uint64_t now_us,
                          enum base_status status, uint32_t retry_after_s);

// Records the gateway refused, newest last: a payload of one record (wire/batch.h), cut off at
// DEV_TUNNEL_QUARANTINE_BYTES.
typedef bool (*dev_tunnel_quarantine_fn)(void *ctx, uint8_t class_id, enum base_status status,
                                         const uint8_t *payload, size_t size);
BASE_NODISCARD enum base_status dev_tunnel_quarantine(struct dev_tunnel *tunnel, uint64_t now_us,
                                                      dev_tunnel_quarantine_fn visit, void *ctx);

void dev_tunnel_stop(struct dev_tunnel *tunnel); // closes streams; what is queued stays stored
bool dev_tunnel_is_idle(const struct dev_tunnel *tunnel); // nothing queued, nothing under way
void dev_tunnel_stats(const struct dev_tunnel *tunnel, struct dev_tunnel_stats *out);
bool dev_tunnel_validate(const struct dev_tunnel *tunnel); // the law and every invariant

#endif
