// The device runtime's ports: everything it may do to the outside world. Implementations: `posix`
// (sockets, TLS, LMDB), `mem` (tests), `sim` (the fleet simulator).
//
// Contract, in words that may not be softened: 0 (BASE_OK) from a start means "under way, the
// callback will come, exactly once, never from inside the start call"; a negative status means "not
// started, no callback". A disconnect is never reported as success. Callbacks arrive on the
// runtime's own thread.
#ifndef DEVICE_PORT_H
#define DEVICE_PORT_H

#include "base/log.h"
#include "base/ports.h"
#include "base/str.h"
#include "device/blobs.h"
#include "device/device.h"
#include "wire/cloud/cloud_counts.h"
#include "wire/manifest.h"
#include "wire/trust/root.h"

BASE_C_BEGIN

// ---- HTTP exchanges: request out, head / body / end back in
// -------------------------------------------------------

enum dev_method {
    DEV_METHOD_GET,
    DEV_METHOD_POST,
};

struct dev_request {
    enum dev_method method;
    struct base_str path;    // "/v1/checkin"
    struct base_str device;  // header walle-device
    struct base_str profile; // header walle-profile; empty: none
    struct base_str nonce;   // header walle-nonce; empty: none
    uint32_t source;         // of a blob: whole failures so far; a port with mirrors goes round
    uint64_t range_from;     // > 0: "range: bytes=N-"
    // Not NULL: "accept-encoding" with `delta_codings` and "available-dictionary" with this digest
    // (RFC 9842).
    const struct wire_sha256 *dictionary;
    uint32_t delta_codings; // DEV_DELTA_* or'ed
    const uint8_t *body;    // POST; copied by the port before start returns
    size_t body_bytes;
    bool stream;                     // long-lived response (hint stream): no response timeout
    struct base_str content_type;    // of the body; empty: none is said
    struct base_str idempotency_key; // header idempotency-key; empty: none
    bool urgent;                     // header priority, "u=0": in front of the others
};

// Codings of deltas.
#define DEV_DELTA_DCZ    0x1u // "dcz"
#define DEV_DELTA_PIECES 0x2u // "wdelta" (wire/delta_piece.h)

enum dev_encoding {
    DEV_ENCODING_IDENTITY,
    DEV_ENCODING_DCZ,
    DEV_ENCODING_PIECES,
    DEV_ENCODING_OTHER,
};

struct dev_response_head {
    int status;
    enum dev_encoding encoding;
    uint64_t content_bytes; // of this response; UINT64_MAX: not said
    uint64_t range_from;    // from content-range; 0 otherwise
    uint32_t retry_after_s; // 0: none
    struct base_str reason; // walle-reason; empty: none; valid during the call
};

struct dev_http_port {
    void *ctx;
    // Starts an exchange named `exchange` (unique per runtime). Strings are valid during the call.
    enum base_status (*start)(void *ctx, uint32_t exchange, const struct dev_request *request);
    // No callback comes after cancel returns.
    void (*cancel)(void *ctx, uint32_t exchange);
};

// Called by the transport. Unknown exchanges are ignored. `status` of end: OK when the response was
// complete.
void dev_on_head(struct dev_runtime *runtime, uint32_t exchange,
                 const struct dev_response_head *head);
void dev_on_body(struct dev_runtime *runtime, uint32_t exchange, const uint8_t *bytes, size_t size);
void dev_on_end(struct dev_runtime *runtime, uint32_t exchange, enum base_status status);

// ---- Storage
// ------------------------------------------------------------------------------------------------------

// Small state is one record, replaced atomically: after a crash it is either the old or the new
// one. Blobs are named by SHA-256, written front to back, and are complete only after seal. Errors:
// IO, FULL, CORRUPT, NOT_FOUND.
struct dev_storage_port {
    void *ctx;
    // What was sealed cannot change, nor be lost: the runtime does not hash it again. A disk is not
    // like that.
    bool steady;
    // TOO_LARGE when the record does not fit; NOT_FOUND on a fresh device.
    enum base_status (*state_load)(void *ctx, uint8_t *out, size_t capacity, size_t *out_size);
    enum base_status (*state_save)(void *ctx, const uint8_t *bytes, size_t size); // durable on OK
    // Bytes present and whether sealed. NOT_FOUND: nothing there.
    enum base_status (*blob_stat)(void *ctx, const struct wire_sha256 *name, uint64_t *out_bytes,
                                  bool *out_sealed);
    // Appends at `offset`, which must be the present size; the first append, of 0 bytes too, makes
    // the blob. Not durable before seal.
    enum base_status (*blob_append)(void *ctx, const struct wire_sha256 *name, uint64_t offset,
                                    const uint8_t *bytes, size_t size);
    enum base_status (*blob_seal)(void *ctx, const struct wire_sha256 *name); // durable on OK
    // Bytes that content may still take. May be NULL (not known).
    enum base_status (*space)(void *ctx, uint64_t *out_bytes);
    // Keeps room for a blob of `bytes` that is still to be brought, wholly or from where it is; 0
    // gives back what is not used. FULL: there is not so much. May be NULL (room is found, or not,
    // by blob_append).
    enum base_status (*blob_reserve)(void *ctx, const struct wire_sha256 *name, uint64_t bytes);
    // The record saved before the one state_load gives, for when that one is damaged. The codes of
    // state_load. May be NULL (there is none).
    enum base_status (*state_before)(void *ctx, uint8_t *out, size_t capacity, size_t *out_size);
    // Borrowed bytes of a blob (sealed or partial) until blob_unmap. They may change while mapped,
    // when somebody changes what is stored.
    enum base_status (*blob_map)(void *ctx, const struct wire_sha256 *name,
                                 const uint8_t **out_bytes, size_t *out_size);
    // As blob_map, of a sealed blob, in memory that nothing outside this process changes. CORRUPT:
    // it cannot be read any more. May be NULL (bytes that blob_map gives do not change).
    enum base_status (*blob_load)(void *ctx, const struct wire_sha256 *name,
                                  const uint8_t **out_bytes, size_t *out_size);
    // Undoes one blob_map or blob_load of `name`. `bytes` is what map gave, or NULL when the caller
    // did not keep it: a runtime keeps no table of the files of a run.
    void (*blob_unmap)(void *ctx, const struct wire_sha256 *name, const uint8_t *bytes,
                       size_t size);
    enum base_status (*blob_delete)(void *ctx, const struct wire_sha256 *name);
    // Calls `visit` for every blob present, which does not change anything; for garbage collection.
    // May be NULL (no collection).
    enum base_status (*blob_each)(void *ctx,
                                  void (*visit)(void *visit_ctx, const struct wire_sha256 *name),
                                  void *visit_ctx);
};

// ---- Cryptography
// -------------------------------------------------------------------------------------------------

struct dev_hash_state {
    uint64_t opaque[24]; // storage for a streaming SHA-256 in the port's own form
};

struct dev_crypto_port {
    void *ctx;
    // `expected` is a hint: the digest the caller hopes for. The result must not depend on it.
    void (*hash_begin)(void *ctx, struct dev_hash_state *state, const struct wire_sha256 *expected);
    void (*hash_update)(void *ctx, struct dev_hash_state *state, const uint8_t *bytes, size_t size);
    void (*hash_end)(void *ctx, struct dev_hash_state *state, struct wire_sha256 *out_digest);
    // Ed25519. OK or SIGNATURE.
    enum base_status (*verify)(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                               const uint8_t *message, size_t size,
                               const uint8_t signature[WIRE_SIGNATURE_BYTES]);
};

// The port as wire/trust/root.h wants it; it must outlive what is returned.
struct wire_verifier dev_crypto_verifier(const struct dev_crypto_port *crypto);

// The OpenSSL implementation (device/port/crypto). Static, stateless, thread-safe.
const struct dev_crypto_port *dev_crypto_openssl(void);

// ---- Deltas
// -------------------------------------------------------------------------------------------------------

// A stored delta and the blob it is a difference to; both stay mapped until end.
struct dev_delta_input {
    struct wire_sha256 dictionary; // of the old bytes
    const uint8_t *old_bytes;
    size_t old_size;
    const uint8_t *bytes;
    size_t size;
    uint64_t expected;   // bytes that should come out
    uint64_t memory_max; // of the port
};

#define DEV_DELTA_MEMORY_BYTES (130ull * 1024 * 1024) // any window RFC 9842 allows

// A device without it (begin NULL) brings every file whole.
struct dev_delta_port {
    uint64_t memory_max; // bytes of the heap a decoder may take
    // Codings of a delta between two such files there is memory for; 0: it has to come whole.
    uint32_t (*codings)(const struct dev_delta_port *port, uint64_t old_bytes, uint64_t new_bytes);
    // INVALID: no delta; HASH: of another dictionary; LIMIT: needs more than memory_max; CORRUPT,
    // NOMEM.
    enum base_status (*begin)(const struct dev_delta_input *input, void **out_decoder);
    // Some more bytes, valid until the next call; none: the end. CORRUPT.
    enum base_status (*next)(void *decoder, const uint8_t **out_bytes, size_t *out_size);
    void (*end)(void *decoder);
};

// The zstd implementation (device/port/delta).
struct dev_delta_port dev_delta_zstd(uint64_t memory_max);

// ---- Task runs
// ----------------------------------------------------------------------------------------------------

struct dev_task_file {
    enum wire_file_kind kind;
    struct base_str name;
    const uint8_t *bytes; // until the run's end was reported
    size_t size;
    struct wire_sha256 digest;
    bool proven; // the bytes have the digest, and do not change (dev_task_port.proves_models); not
                 // of a data file that is larger than the run's heap: no script can have it
};

// What a run was started with besides the clock: behaviour (dev_run_triggered).
struct dev_run_input {
    uint64_t token; // names the start; the same after a restart of the process
    const uint8_t
        *events; // a block of events (wire/event_block.h); the caller's, see on_input_free
    size_t events_bytes;
};

// The structures of a job are valid during the start call only: the port copies what it needs. What
// their texts and `bytes` point to (the manifest and the files) stays mapped until the run's end
// was reported or the run was cancelled; the texts of `attrs` live as long as the runtime.
struct dev_task_job {
    uint64_t device_id;
    const struct wire_attrs *attrs;
    const struct wire_manifest *manifest;
    struct wire_sha256 version;
    const struct dev_task_file *files;
    uint32_t file_count;
    uint64_t run_index; // 0 for the first run of this version on this device since activation; of a
                        // shadow that of the run it is compared with
    bool shadow;        // runs beside the active version: its result is compared, and discarded
    bool reference;     // ... and it is the active version itself, once more, to compare with
    const struct dev_run_input *input; // NULL: none. What it points to lives as long as the files
    const struct dev_blob_set *blobs;  // NULL: none. Likewise, with all it points to
};

// Of a version that does not say.
#define DEV_RUN_HEAP_KIB_DEFAULT 256
#define DEV_RUN_TIME_MS_DEFAULT  1000
#define DEV_RUN_BESIDE_BYTES     (1280 * 1024) // that a run needs beside its heap and its models

struct dev_effect;

// Where a run failed, and as what, apart from what the script made of it in words.
struct dev_task_place {
    // `detail` is of the port's own words, as that of each FAIL_INTEGRITY is; false: a script may
    // have made some of it.
    bool of_port;
    char type[48]; // "ValueError"; empty: no exception
    char file[64]; // "features.py"; empty: not known
    uint32_t line;
};

// Where the time of a run went: what it did before it first called a model, from there to the end
// of its last such call, and behind it. They add up to its duration; all 0: not known.
struct dev_task_phases {
    uint64_t prepare_us; // of a run that calls none: all of it
    uint64_t model_us;
    uint64_t finish_us;
};

struct dev_task_end {
    enum wire_outcome_kind outcome; // RAN or a FAIL_*
    uint64_t duration_us;
    uint64_t fingerprint;
    struct base_str detail;   // "ValueError: bad price (features.py:41)"; valid during the call
    struct base_str result;   // JSON text the script gave; valid during the call
    uint32_t heap_peak_bytes; // most memory the script held; 0: not known
    uint64_t left_out;        // by its joins and windows: events too late, keys and events that had
                              // to go for others
    uint32_t refused;         // times it tried to let go what its declaration does not let leave
    struct wire_cloud_counts cloud; // what it decided between device and cloud
    struct dev_task_place place;    // of a failure
    // What the script stored and sent (pipeline/pipeline.h); valid during the call.
    const struct dev_effect *effects;
    uint32_t effect_count;
    struct dev_task_phases phases; // of duration_us
};

struct dev_task_port {
    void *ctx;
    // As many runs at once as dev_config.runs_max says. BUSY, NOMEM, LIMIT: tried again later;
    // other codes: the version cannot run here.
    enum base_status (*start)(void *ctx, uint32_t run, const struct dev_task_job *job);
    void (*cancel)(
        void *ctx,
        uint32_t run); // returns when the job's memory is no longer used; no callback follows
    // The port copies models before it uses them, and hashes the copy: one that has not its digest
    // ends the run as FAIL_INTEGRITY, with the file's name as detail. Otherwise the runtime reads
    // and hashes models, too, at every start.
    bool proves_models;
};

void dev_on_task_end(struct dev_runtime *runtime, uint32_t run, const struct dev_task_end *end);

// ---- The table
// ----------------------------------------------------------------------------------------------------

struct dev_ports {
    struct base_clock_port clock;
    struct base_random_port random;
    struct dev_http_port http;
    struct dev_storage_port storage;
    struct dev_crypto_port crypto;
    struct dev_task_port task;
    struct dev_delta_port delta;
    struct dev_blob_port blobs; // what the app hands to runs; zero: nothing
    const struct base_log *log; // NULL: silence
    void *app;                  // for `on_result`
    // A run ended: for the embedding app. May be NULL. The view is valid during the call.
    void (*on_result)(void *app, struct base_str task, const struct dev_task_end *end);
    // A file of a task, or what keeps a device's trust (`task` empty), was found damaged. It is not
    // used; it is brought again. May be NULL.
    void (*on_damage)(void *app, struct base_str task, struct base_str file);
    // The state could not be stored, so nothing goes on but attempts to store it, at longer and
    // longer waits: told once. BASE_OK: it was stored after all. May be NULL.
    void (*on_unsaved)(void *app, enum base_status status);
    // What dev_run_triggered accepted has run (`end` NULL: it could not, the task is gone): once
    // per token, unless the runtime is stopped before. May be NULL.
    void (*on_triggered)(void *app, uint64_t token, const struct dev_task_end *end);
    // The bytes of the input are not needed any more, and the next may be given. May be NULL.
    void (*on_input_free)(void *app, uint64_t token);
};

BASE_C_END

#endif
