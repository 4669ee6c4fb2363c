// The models of a process: each is loaded once, by the digest of its file, and shared by all script
// VMs; sessions that ran wait here for the next run of the same model, so that it need not plan.
//
// Lifetimes, longest first:
//   store     one a process. No model may be held when it is freed.
//   model     from dev_model_store_get to dev_model_unref. The store keeps a copy of the file: the
//             bytes a caller gives need to be there during the call only (those of a task's run are
//             unmapped when it ends).
//   session   from dev_model_session_take to dev_model_session_give: one caller's, on one thread.
//
// Bounds. Models with their packed weights and the sessions that wait are together within
// `bytes_max`. Who makes room goes first by when it was used last: waiting sessions, and models
// that nobody holds. Sessions at work are bounded by their users (`memory_bytes_max`, one a run).
//
// Threads: every function but free may be called from any thread. While one loads a model, others
// that ask for the same wait for it; for other models they do not.
//
// Isolation. A session is given on from task to task: everything in it is overwritten by the inputs
// of the next run, and nothing of it can be read before that run is over.
#ifndef DEV_MODEL_STORE_H
#define DEV_MODEL_STORE_H

#include "model/model_port.h"
#include "base/span.h"

#define DEV_MODEL_STORE_BYTES ((size_t)256 << 20) // default of bytes_max
#define DEV_MODEL_IDLE_MAX    8                   // sessions that wait, of all models

struct dev_model_store;

// Do the limits let a load go on? NULL: there are none.
bool dev_model_may_go_on(const struct eng_run_options *limits);

// `bytes_max` 0: DEV_MODEL_STORE_BYTES. NOMEM.
BASE_NODISCARD enum base_status dev_model_store_new(size_t bytes_max,
                                                    struct dev_model_store **out_store);
void dev_model_store_free(struct dev_model_store *store); // accepts NULL
// From now on the copy of a file is hashed before it is loaded: dev_model_store_get answers HASH
// for one that is not what its digest says. `hasher` is copied; what it points to must outlive the
// store. Called before the store is shared.
struct dev_model_hasher {
    void *ctx;
    // False: the limits (dev_model_may_go_on, asked between pieces) ended it.
    bool (*sha256)(void *ctx, struct base_span bytes, const struct eng_run_options *go_on,
                   struct wire_sha256 *out);
};
void dev_model_store_prove(struct dev_model_store *store, const struct dev_model_hasher *hasher);

// Lets go of what is not in use, as if this were the limit: for the time between runs, or when
// memory is scarce.
void dev_model_store_trim(struct dev_model_store *store, size_t bytes_max);

// As dev_model_port.get. TOO_LARGE: over bytes_max by itself. Who waits for another's load waits
// within its own limits, and loads itself where the other's ended.
BASE_NODISCARD enum base_status dev_model_store_get(struct dev_model_store *store,
                                                    const struct dev_model_file *file,
                                                    struct dev_model **out_model,
                                                    struct base_error *error);
void dev_model_unref(struct dev_model *model); // accepts NULL
// Borrowed as long as the reference.
const struct eng_model *dev_model_engine(const struct dev_model *model);
struct base_span dev_model_bytes(const struct dev_model *model); // the file
// Copies a result to where `place` says. Its codes.
BASE_NODISCARD enum base_status dev_model_result_copy(const struct dev_model_place *place,
                                                      size_t index, const struct eng_array *result,
                                                      struct base_error *error);

// What makes sessions alike.
struct dev_model_plan {
    size_t memory_bytes_max;   // as in struct eng_session_options
    uint64_t key;              // made from the inputs' types and shapes and what else is below
    const char *const *values; // as in struct eng_session_options
    size_t value_count;
    bool one_piece;                       // likewise
    bool apart;                           // filled in: the session has a graph of its own
    const struct eng_run_options *limits; // where the file must be read again; NULL: none
};

// A session with one thread and without search, so that results repeat themselves and no processor
// time goes into measuring: one that waits and was given with the same plan, or a new one. Where a
// value is asked for that was folded away, it has a graph of its own, in which nothing is. The
// codes of eng_session_new and of dev_model_port.get.
BASE_NODISCARD enum base_status dev_model_session_take(struct dev_model *model,
                                                       struct dev_model_plan *plan,
                                                       struct eng_session **out_session,
                                                       struct base_error *error);
// Takes the session back. It waits for the next run when it is `reusable` (its last run ended well)
// and its plan hangs on shapes alone: where contents decide, every run plans anew, so that its work
// does not hang on what ran before.
void dev_model_session_give(struct dev_model *model, struct eng_session *session,
                            const struct dev_model_plan *plan, bool reusable);
// A number of types and shapes and of names, for dev_model_plan.key.
uint64_t dev_model_shapes_key(const struct eng_array *inputs, size_t count,
                              const struct dev_model_plan *plan);

// One run of a session that the caller took: sets the inputs, runs, copies what is wanted. The
// codes of dev_model_port.call. `out_ran`: its plan is good for another run.
BASE_NODISCARD enum base_status dev_model_session_run(struct eng_session *session,
                                                      struct dev_model_call *call, bool *out_ran,
                                                      struct base_error *error);
// Plans it for these types and shapes. The codes of eng_session_prepare_within.
BASE_NODISCARD enum base_status dev_model_session_plan(struct eng_session *session,
                                                       const struct eng_array *inputs, size_t count,
                                                       const struct eng_run_options *limits,
                                                       struct base_error *error);
// As dev_model_port.call, on a session of the model.
BASE_NODISCARD enum base_status dev_model_run(struct dev_model *model, struct dev_model_call *call,
                                              struct base_error *error);
// Plans the model for the shapes it declares, 1 where it names no size, and leaves the session
// waiting for the first call with these. What cannot be planned without inputs is left for then: of
// a graph that contents cut, all but its first piece.
void dev_model_warm(struct dev_model *model, size_t memory_bytes_max);
// The store as script VMs are given it; it must outlive what is returned.
struct dev_model_port dev_model_store_port(struct dev_model_store *store);

struct dev_model_store_stats {
    uint32_t models;        // loaded now
    uint32_t held;          // of those, with references
    uint32_t idle;          // sessions that wait
    size_t bytes;           // against bytes_max
    uint64_t loads;         // files read since the store was made
    uint64_t sessions;      // sessions made
    uint64_t models_gone;   // models that made room
    uint64_t sessions_gone; // waiting sessions that made room
    uint64_t damaged;       // files that were not what their digest says
    struct wire_sha256 last_damaged;
};
void dev_model_store_stats(struct dev_model_store *store, struct dev_model_store_stats *out_stats);
// Adds up everything again; for tests. INVALID: the counts and the lists disagree.
BASE_NODISCARD enum base_status dev_model_store_validate(struct dev_model_store *store);

#endif
