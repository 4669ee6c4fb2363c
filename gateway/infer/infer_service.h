// The inference service: models of a repository on disk, queues in front of them, and threads that
// run batches. It knows no HTTP; rest/infer_http.c and the gRPC side are its callers.
//
// Lifetimes: service > model version (counted: a call keeps its own) > call. A version that is
// unloaded or replaced takes no new calls and goes with its last one.
//
// Threads: every function may be called from any thread. Nothing waits for a run but _free, and
// _submit for a short one (GW_INFER_RUN_HERE_US); _load reads and plans a model, so it is called
// where that may take its time.
#ifndef GW_INFER_SERVICE_H
#define GW_INFER_SERVICE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "engine/engine.h"
#include "infer/infer_batch.h"
#include "infer/infer_cache.h"
#include "infer/infer_call.h"
#include "infer/tenant_quota.h"

struct gw_infer_service;
struct gw_infer_batch;
struct gw_infer_model;
struct gw_infer_version;

#define GW_INFER_THREADS_MAX 64u
#define GW_INFER_CALLS_MAX   4096u // waiting and running, of all models
#define GW_INFER_UNREAD_MAX  256u  // of these, calls that the service is to read first
// What is read of a call's body and its answer, each tensor once.
#define GW_INFER_ARENA_MAX ((size_t)1 << 30)
// Outputs of one call; more is TOO_LARGE.
#define GW_INFER_OUTPUTS_MAX  ((size_t)256 << 20)
#define GW_INFER_SESSIONS_MAX 4u // of a version that wait with a plan, for each instance

struct gw_infer_options {
    const char *models_dir;   // DIR/MODEL/VERSION/model.onnx (infer_repository.h)
    uint32_t threads;         // that run models; 0: one per core
    bool explicit_models;     // none is loaded at the start, gw_infer_load does
    size_t session_bytes_max; // as eng_session_options.memory_bytes_max; a call over it fails
    size_t idle_bytes_max;    // of all sessions that wait with a plan; 0: no bound
    struct gw_tenant_quota_limits quota;
    struct base_hash_key hash_key; // of shapes, which callers choose
    uint64_t device_calls_per_min; // of each device; 0: no limit
    uint64_t device_bytes_per_min; // of bodies, likewise
    const struct base_log *log;
    // The protocol's JSON (codec/oip_json.h), of calls that are in a model's folder; NULL: those
    // are left alone.
    enum base_status (*read_call)(struct base_arena *arena, struct base_str body, size_t json_bytes,
                                  struct gw_infer_call *out, struct base_error *error);
};

// Loads the models (one that cannot be is told to the log and to gw_infer_index) and starts the
// threads. INVALID, NOT_FOUND, IO: the folder. NOMEM.
BASE_NODISCARD enum base_status gw_infer_service_new(const struct gw_infer_options *options,
                                                     struct gw_infer_service **out_service,
                                                     struct base_error *error);
// Nothing new is taken from now on: BUSY. What is there goes on.
void gw_infer_service_drain(struct gw_infer_service *service);
// Every call that is left ends with CLOSED. Joins the threads. Accepts NULL.
void gw_infer_service_free(struct gw_infer_service *service);

// ---- Calls

enum gw_infer_ticket_state {
    GW_INFER_NEW,
    GW_INFER_UNREAD,  // waits for a thread that reads it
    GW_INFER_READING, // a thread does
    GW_INFER_WAITING, // in its version's queue
    GW_INFER_HELD,    // a thread copies its inputs or its outputs
    GW_INFER_RUNNING, // nothing of it is needed: it may end before the batch does
    GW_INFER_DONE,
    GW_INFER_STATE_COUNT
};

// One call on its way. The caller fills the first part, zeroes the rest, and leaves everything
// alone (the arena and what the call points to as well) from the submit until `done`.
struct gw_infer_ticket {
    const struct gw_infer_call *call;
    struct base_arena *arena; // the result is put here
    uint64_t caller;      // who calls, for a release's share (gw_infer_caller); 0: by the call's id
    uint64_t peer;        // the same of the connection, where there is no id either
    uint64_t who;         // in a release it counts for: what it proved to be, else its address
    uint64_t deadline_us; // base_clock_mono_us; 0: that of the call alone
    void (*done)(struct gw_infer_ticket *self); // once, on any thread; the ticket is the caller's
    // Fills the call first, on a thread of the service, for one that takes long to read; its status
    // and the ticket's error are the answer when it fails. NULL: the call is filled already.
    enum base_status (*read)(struct gw_infer_ticket *self);

    // The answer. OK; INVALID: inputs that the model does not take; NOT_FOUND: no such model,
    // version or output; LIMIT: too many wait, or it would wait longer than it can (retry_after_s);
    // TIMEOUT; CLOSED: cancelled; BUSY: draining; TOO_LARGE, NOMEM; what `read` or the engine says.
    enum base_status status;
    struct base_error error;
    uint32_t retry_after_s;
    uint64_t queue_us; // it waited, of a call that was run
    uint64_t run_us;   // its batch ran
    struct gw_infer_result result;

    // Private to the service.
    struct gw_infer_wait wait;
    struct gw_infer_version *version;
    struct gw_infer_model *model; // of a release's arm, as the next two (infer_arm.h)
    uint32_t trial;
    uint32_t arm;
    uint64_t began_us; // its run, of one that has an arm
    struct gw_infer_batch *batch;
    struct gw_infer_ticket *next;
    struct gw_infer_ticket **prev;
    const struct gw_infer_tensor *inputs[GW_INFER_TENSORS_MAX]; // in the model's order
    uint8_t outputs[GW_INFER_TENSORS_MAX]; // the model's, as they are asked for
    size_t output_count;
    struct gw_infer_cache_key cache_key; // zero: its answer is not kept
    enum gw_infer_ticket_state state;
    bool cancelled;
    bool here; // `done` is called by the submit itself, on its thread; elsewhere it reads as false
};

// A call whose run takes no longer than this is run by the submit where nothing else is under way:
// waking a thread, and being woken by it, would take as long.
#define GW_INFER_RUN_HERE_US UINT64_C(200)
// One that takes longer than this after all is stopped between two steps, and queued.
#define GW_INFER_STOP_HERE_US UINT64_C(2000)

// Ends in one `done`, which may run before this returns: for what is refused at once, and for a
// call whose run is short when nothing else is under way.
void gw_infer_submit(struct gw_infer_service *service, struct gw_infer_ticket *ticket);
// Do calls of this model wait, so that a large one is worth looking at before all of it is there?
bool gw_infer_crowded(struct gw_infer_service *service, const struct gw_infer_call *named);
// Would a call of this model, priority and timeout be refused now, for those that wait before it?
// LIMIT: yes, which counts as a call that was refused; nothing is kept. What may still be wrong
// with it the submit says.
BASE_NODISCARD enum base_status gw_infer_foresee(struct gw_infer_service *service,
                                                 const struct gw_infer_call *call,
                                                 uint32_t *out_retry_after_s,
                                                 struct base_error *error);
// A call that could not be read, on the caller's thread: it counts for the version that it names,
// where there is one.
void gw_infer_misread(struct gw_infer_service *service, const struct gw_infer_call *call);
// A number for a span of a trace: not 0, and no other call's.
uint64_t gw_infer_span(struct gw_infer_service *service);
// Charges a tenant (its id, or GW_TENANT_QUOTA_NONE) for a call with a body of so many bytes, as
// gw_tenant_quota_take says.
BASE_NODISCARD enum base_status gw_infer_charge(struct gw_infer_service *service, uint16_t tenant,
                                                uint64_t bytes, uint32_t *out_retry_after_s,
                                                struct base_error *error);
// The caller is gone: `done` comes soon, or came already, perhaps before this returns. Not after
// it.
void gw_infer_cancel(struct gw_infer_service *service, struct gw_infer_ticket *ticket);

// What devices used and were answered (device_ledger.h), for device_call.c.
struct gw_device_ledger;
struct gw_device_ledger *gw_infer_ledger(struct gw_infer_service *service);

// ---- What there is. Names may be aliases; an empty version is the one that is served by default.

bool gw_infer_ready(struct gw_infer_service *service); // all models that were to be loaded are
bool gw_infer_model_ready(struct gw_infer_service *service, struct base_str model,
                          struct base_str version);

// All in the arena it was asked with.
struct gw_infer_metadata {
    struct base_str name;
    struct base_str *versions; // served, the highest first
    size_t version_count;
    struct eng_port_info *inputs; // -1: an open dimension
    size_t input_count;
    struct eng_port_info *outputs;
    size_t output_count;
};
// NOT_FOUND; CONFLICT: it is not loaded; NOMEM.
BASE_NODISCARD enum base_status gw_infer_metadata(struct gw_infer_service *service,
                                                  const struct gw_infer_call *named,
                                                  struct base_arena *arena,
                                                  struct gw_infer_metadata *out,
                                                  struct base_error *error);

struct gw_infer_figures {
    uint64_t calls;   // that ended well
    uint64_t failed;  // in the run
    uint64_t refused; // queue full, or too long a wait
    uint64_t timed_out;
    uint64_t cancelled;
    uint64_t invalid;    // malformed, or not what the model takes
    uint64_t rows;       // of calls that ended well
    uint64_t batches;    // that were run
    uint64_t queue_us;   // waited, of calls that were run
    uint64_t run_us;     // of batches
    uint64_t cache_hits; // calls that were answered from the cache; they ended well
    uint64_t cache_misses;
    uint64_t cache_bytes; // now
    uint32_t waiting;     // now
    uint32_t running;     // batches, now
};
// A version of a model, or a model that has none.
struct gw_infer_row {
    struct base_str name;
    struct base_str version; // empty: none is loaded
    struct base_str reason;  // why not; empty: it is
    bool ready;
    struct gw_infer_figures figures;
};
// Every version that is loaded and every model that was looked for; of `model` alone unless it is
// empty. NOT_FOUND: there is none of this name. NOMEM.
BASE_NODISCARD enum base_status gw_infer_rows(struct gw_infer_service *service,
                                              const struct gw_infer_call *named,
                                              struct base_arena *arena, struct gw_infer_row **out,
                                              size_t *out_count);

// Looks at the model's folder and loads what it should serve; what ran before goes on until that
// is done, and stays when it fails. NOT_FOUND, INVALID, LIMIT, and what the engine says.
BASE_NODISCARD enum base_status gw_infer_load(struct gw_infer_service *service,
                                              struct base_str model, struct base_error *error);
// NOT_FOUND: it is not loaded.
BASE_NODISCARD enum base_status gw_infer_unload(struct gw_infer_service *service,
                                                struct base_str model, struct base_error *error);

#endif
