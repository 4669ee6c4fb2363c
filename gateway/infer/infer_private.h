// What the files of the service share: its state, and a version that is loaded. All of it is behind
// the service's lock but what says otherwise. Only gateway/infer/infer_*.c include this.
#ifndef GW_INFER_PRIVATE_H
#define GW_INFER_PRIVATE_H

#include "infer/infer_model.h"
#include "infer/infer_service.h"
#include "infer/infer_shelf.h"

#include <pthread.h>
#include <stdatomic.h>

struct gw_infer_shadow;

struct gw_infer_version {
    uint32_t refs; // its model's, one of each call, one of each batch
    struct gw_infer_version *next;
    struct gw_infer_version *next_dead;
    char name[GW_INFER_MODEL_NAME_MAX + 1]; // fixed, as the next seven
    char text[GW_INFER_VERSION_TEXT];
    struct eng_model *engine;
    uint64_t number; // of the text
    void *file;      // what the engine reads; NULL: a copy of its own
    bool shelved;    // of the shelf, not of the disk
    struct base_hash_key hash_key;
    bool by_rows;                      // rows of several calls may be put together
    struct gw_infer_batch_rules rules; // with `costs`, where calls are put together
    struct gw_infer_costs costs;
    uint32_t instances;
    uint32_t queue_max;
    struct gw_infer_cache *cache; // fixed, with a lock of its own; NULL: none
    struct gw_infer_queue queue;
    uint32_t running;
    uint32_t session_count;        // idle and at work
    struct gw_infer_session *idle; // used last first
    size_t idle_bytes;             // of these
    uint64_t batch_us;             // a moving mean
    uint64_t batch_shape;          // of the last one of it
    struct gw_infer_figures figures;
};

struct gw_infer_service {
    char *dir;
    uint32_t thread_count; // wanted; fixed
    uint32_t started_count;
    bool explicit_models;
    struct gw_infer_shelf shelf; // set once
    size_t session_bytes_max;
    size_t idle_bytes_max;
    struct base_hash_key hash_key;
    struct gw_tenant_quota *quota; // fixed, with a lock of its own
    _Atomic uint64_t span_count;   // without the lock
    const struct base_log *log;
    enum base_status (*read_call)(struct base_arena *arena, struct base_str body, size_t json_bytes,
                                  struct gw_infer_call *out, struct base_error *error); // fixed
    struct gw_device_ledger *ledger;
    pthread_t threads[GW_INFER_THREADS_MAX];
    pthread_t keeper;
    bool keeper_started;

    pthread_mutex_t load_lock; // one load or unload at a time; taken before `lock`
    pthread_mutex_t lock;
    pthread_cond_t work;  // for the threads that run
    pthread_cond_t watch; // for the keeper of deadlines
    uint64_t watch_us;    // when it looks next
    struct gw_infer_model *models[GW_INFER_MODELS_MAX];
    uint32_t model_count;
    struct gw_infer_version *versions; // that may have calls; who ran last is last
    struct gw_infer_ticket *tickets;   // not done
    uint32_t ticket_count;
    struct gw_infer_queue unread; // calls that are to be read
    uint32_t reading;             // threads that do
    uint64_t idle_puts;
    uint32_t shadow_count; // on their way
    uint32_t trial_count;  // models with a candidate
    uint64_t here_us;      // when a run on a caller's thread last ended
    uint64_t stop_here_us; // GW_INFER_STOP_HERE_US; fixed, but for tests
    bool draining;
    bool stopping;
};

// What has to be done when the lock is free again.
struct gw_infer_ends {
    struct gw_infer_ticket *tickets; // that are done
    struct gw_infer_version *dead;
    struct gw_infer_session *sessions; // that nobody keeps
    struct gw_infer_shadow *shadows;   // that begin
};

// With the lock: the ticket is done; it leaves its queue or its batch. An error without a text gets
// that of its status.
void gw_infer_end(struct gw_infer_service *service, struct gw_infer_ticket *ticket,
                  enum base_status status, struct gw_infer_ends *ends);
void gw_infer_version_drop(struct gw_infer_service *service, struct gw_infer_version *version,
                           struct gw_infer_ends *ends);
// With the lock, or of a version that nobody else has: its session is idle.
void gw_infer_idle_put(struct gw_infer_version *version, struct gw_infer_session *session);
// With the lock: while idle sessions hold too much, the ones unused longest are given up.
void gw_infer_idle_trim(struct gw_infer_service *service, struct gw_infer_ends *ends);
// Without it.
void gw_infer_ends_run(struct gw_infer_ends *ends);
void gw_infer_version_free(struct gw_infer_version *version);

// Is this what the model takes? Fills the ticket's inputs, outputs, rows and shape. Pure: nothing
// but the call and the model's ports is looked at. INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status gw_infer_check(const struct gw_infer_version *version,
                                               struct gw_infer_ticket *ticket);
// What plans and batches are told apart by: one more input's type and dimensions, without the rows
// where they may differ. Callers choose these, so the hash has a key.
uint64_t gw_infer_shape_of(const struct gw_infer_version *version, const struct eng_desc *desc,
                           uint64_t before);

// With the lock. NULL: `error` says what there is not. CONFLICT: it is there, but not loaded.
struct gw_infer_version *gw_infer_find(struct gw_infer_service *service, struct base_str model,
                                       struct base_str version, struct base_error *error);

#endif
