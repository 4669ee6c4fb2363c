// The models of a process and the sessions that wait for work. Called by script VMs on their own
// threads (vm/vm_nn.c); one mutex guards the lists. Loading, planning, running and freeing happen
// outside of it.
#include "model/model_store.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COPY_BYTES ((size_t)4 << 20) // of a file between two looks at the limits
#define WAIT_US    20000u            // for another's load between two looks at them

enum model_state { MODEL_LOADING, MODEL_READY, MODEL_FAILED };

// A session that waits.
struct idle {
    struct idle *next;
    struct eng_session *session;
    size_t memory_bytes_max;
    uint64_t key;
    bool apart;
    uint64_t used; // tick
    size_t bytes;
};

struct dev_model {
    struct dev_model_store *store;
    struct wire_sha256 digest;
    const uint8_t *bytes; // the store's copy; set before READY, read only after
    size_t size;
    struct eng_model *engine; // as bytes
    // Under the store's lock.
    struct dev_model *next;
    enum model_state state;
    enum base_status failure; // of FAILED
    struct base_error error;  // "
    uint32_t refs;
    uint64_t used; // tick
    size_t packed_bytes;
    struct idle *idle;
};

struct dev_model_store {
    size_t bytes_max;
    struct dev_model_hasher hasher; // sha256 NULL: files are not hashed
    pthread_mutex_t lock;           // guards what follows
    pthread_cond_t changed;
    struct dev_model *models;
    uint64_t tick;
    struct dev_model_store_stats stats;
};

// What was taken out of the lists and is freed without the lock.
struct doomed {
    struct dev_model *models;
    struct idle *idle;
};

enum base_status dev_model_store_new(size_t bytes_max, struct dev_model_store **out_store)
{
    struct dev_model_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return BASE_ERR_NOMEM;
    }
    store->bytes_max = bytes_max != 0 ? bytes_max : DEV_MODEL_STORE_BYTES;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); // the clock of limits
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *out_store = store;
    return BASE_OK;
}

void dev_model_store_prove(struct dev_model_store *store, const struct dev_model_hasher *hasher)
{
    base_assert(store->models == NULL); // not in use yet
    store->hasher = *hasher;
}

static void idle_free(struct idle *idle)
{
    while (idle != NULL) {
        struct idle *next = idle->next;
        eng_session_free(idle->session);
        free(idle);
        idle = next;
    }
}

static void model_free(struct dev_model *model)
{
    idle_free(model->idle);
    eng_model_unref(model->engine);
    free((void *)(uintptr_t)model->bytes);
    free(model);
}

static void doomed_free(struct doomed *doomed)
{
    idle_free(doomed->idle);
    while (doomed->models != NULL) {
        struct dev_model *next = doomed->models->next;
        model_free(doomed->models);
        doomed->models = next;
    }
}

void dev_model_store_free(struct dev_model_store *store)
{
    if (store == NULL) {
        return;
    }
    struct doomed doomed = {.models = store->models};
    for (const struct dev_model *model = store->models; model != NULL; model = model->next) {
        base_check(model->refs == 0);
    }
    doomed_free(&doomed);
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

// --- room; with the lock held --------------------------------------------------------------------

static void idle_remove(struct dev_model_store *store, struct idle **at, struct doomed *doomed)
{
    struct idle *idle = *at;
    base_assert(store->stats.idle > 0 && store->stats.bytes >= idle->bytes);
    *at = idle->next;
    idle->next = doomed->idle;
    doomed->idle = idle;
    store->stats.idle--;
    store->stats.bytes -= idle->bytes;
}

static void model_remove(struct dev_model_store *store, struct dev_model **at,
                         struct doomed *doomed)
{
    struct dev_model *model = *at;
    base_assert(model->refs == 0 && model->state == MODEL_READY);
    while (model->idle != NULL) {
        idle_remove(store, &model->idle, doomed);
    }
    *at = model->next;
    model->next = doomed->models;
    doomed->models = model;
    base_assert(store->stats.models > 0);
    base_assert(store->stats.bytes >= model->size + model->packed_bytes);
    store->stats.models--;
    store->stats.bytes -= model->size + model->packed_bytes;
}

// The waiting session used longest ago; NULL: none waits.
static struct idle **oldest_idle(struct dev_model_store *store)
{
    struct idle **oldest = NULL;
    for (struct dev_model *model = store->models; model != NULL; model = model->next) {
        for (struct idle **at = &model->idle; *at != NULL; at = &(*at)->next) {
            if (oldest == NULL || (*at)->used < (*oldest)->used) {
                oldest = at;
            }
        }
    }
    return oldest;
}

// The model nobody holds that was used longest ago; NULL: there is none.
static struct dev_model **oldest_model(struct dev_model_store *store)
{
    struct dev_model **oldest = NULL;
    for (struct dev_model **at = &store->models; *at != NULL; at = &(*at)->next) {
        if ((*at)->refs == 0 && (oldest == NULL || (*at)->used < (*oldest)->used)) {
            oldest = at;
        }
    }
    return oldest;
}

// Lets go of what was used longest ago until at most `most` bytes are left. False: more is in use.
static bool shrink(struct dev_model_store *store, size_t most, struct doomed *doomed)
{
    while (store->stats.bytes > most) {
        struct idle **idle = oldest_idle(store);
        struct dev_model **model = oldest_model(store);
        if (idle == NULL && model == NULL) {
            return false;
        }
        if (model == NULL || (idle != NULL && (*idle)->used < (*model)->used)) {
            store->stats.sessions_gone++;
            idle_remove(store, idle, doomed);
        } else {
            store->stats.models_gone++;
            model_remove(store, model, doomed);
        }
    }
    return true;
}

// The same until `bytes` more fit.
static bool room_make(struct dev_model_store *store, size_t bytes, struct doomed *doomed)
{
    return bytes <= store->bytes_max && shrink(store, store->bytes_max - bytes, doomed);
}

void dev_model_store_trim(struct dev_model_store *store, size_t bytes_max)
{
    struct doomed doomed = {0};
    pthread_mutex_lock(&store->lock);
    (void)shrink(store, bytes_max, &doomed);
    pthread_mutex_unlock(&store->lock);
    doomed_free(&doomed);
}

// --- models --------------------------------------------------------------------------------------

static struct dev_model *model_find(struct dev_model_store *store, const struct wire_sha256 *digest)
{
    struct dev_model *model = store->models;
    while (model != NULL && !wire_sha256_equal(&model->digest, digest)) {
        model = model->next;
    }
    return model;
}

// With the lock held: one reference less; what failed to load goes with its last.
static void ref_drop(struct dev_model_store *store, struct dev_model *model, struct doomed *doomed)
{
    base_check(model->refs > 0);
    base_assert(model->state != MODEL_LOADING || model->refs > 1); // who loads it holds it
    model->refs--;
    store->stats.held -= model->refs == 0 && model->state == MODEL_READY;
    if (model->refs == 0 && model->state == MODEL_FAILED) {
        model->next = doomed->models;
        doomed->models = model;
    }
}

bool dev_model_may_go_on(const struct eng_run_options *limits)
{
    if (limits == NULL) {
        return true;
    }
    bool stopped = limits->stop != NULL && atomic_load_explicit(limits->stop, memory_order_relaxed);
    return !stopped && (limits->deadline_us == 0 || base_clock_mono_us() < limits->deadline_us);
}

static enum base_status ended(struct base_error *error)
{
    return base_error_set(error, BASE_ERR_TIMEOUT, "loading the model was ended");
}

// Is the copy of a file what its digest says?
static enum base_status prove(const struct dev_model *model, const struct eng_run_options *limits,
                              struct base_error *error)
{
    const struct dev_model_hasher *hasher = &model->store->hasher;
    struct wire_sha256 digest;
    if (hasher->sha256 == NULL) {
        return BASE_OK;
    }
    if (!hasher->sha256(hasher->ctx, dev_model_bytes(model), limits, &digest)) {
        return ended(error);
    }
    return wire_sha256_equal(&digest, &model->digest)
               ? BASE_OK
               : base_error_set(error, BASE_ERR_HASH, "the model's file is damaged");
}

// Reads the file; without the lock.
static enum base_status model_load(struct dev_model *model, const struct dev_model_file *file,
                                   struct base_error *error)
{
    const struct eng_model_options options = {.limits = file->limits};
    base_assert(model->bytes == NULL && model->engine == NULL);
    uint8_t *copy = malloc(model->size > 0 ? model->size : 1);
    if (copy == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    model->bytes = copy;
    for (size_t at = 0; at < model->size; at += COPY_BYTES) {
        const size_t left = model->size - at;
        if (!dev_model_may_go_on(file->limits)) {
            return ended(error);
        }
        memcpy(copy + at, (const uint8_t *)file->bytes + at, left < COPY_BYTES ? left : COPY_BYTES);
    }
    BASE_TRY(prove(model, file->limits, error));
    return eng_model_load_memory(copy, model->size, &options, &model->engine, error);
}

// A new model in the list, LOADING, with the caller's reference and its bytes counted.
static enum base_status model_add(struct dev_model_store *store, const struct dev_model_file *file,
                                  struct doomed *doomed, struct dev_model **out_model,
                                  struct base_error *error)
{
    size_t size = file->size;
    base_assert(model_find(store, file->digest) == NULL);
    if (size > store->bytes_max) {
        return base_error_set(error, BASE_ERR_TOO_LARGE,
                              "a model of %zu bytes, and the device keeps at most %zu", size,
                              store->bytes_max);
    }
    if (!room_make(store, size, doomed)) {
        return base_error_set(error, BASE_ERR_LIMIT, "models in use leave no room for %zu bytes",
                              size);
    }
    struct dev_model *model = calloc(1, sizeof(*model));
    if (model == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    *model = (struct dev_model){.store = store,
                                .digest = *file->digest,
                                .size = size,
                                .next = store->models,
                                .state = MODEL_LOADING,
                                .refs = 1};
    store->models = model;
    store->stats.models++;
    store->stats.bytes += size;
    store->stats.loads++;
    *out_model = model;
    return BASE_OK;
}

// With the lock held: the end of a load. A failed one leaves the list; those who wait for it hold
// it still.
static void load_end(struct dev_model_store *store, struct dev_model *model,
                     enum base_status status, const struct base_error *error)
{
    base_assert(model->state == MODEL_LOADING && model->refs > 0);
    if (status == BASE_OK) {
        model->state = MODEL_READY;
        store->stats.held++;
    } else {
        struct dev_model **at = &store->models;
        while (*at != model) {
            at = &(*at)->next;
        }
        *at = model->next;
        store->stats.models--;
        store->stats.bytes -= model->size;
        if (status == BASE_ERR_HASH) {
            store->stats.damaged++;
            store->stats.last_damaged = model->digest;
        }
        model->state = MODEL_FAILED;
        model->failure = status;
        model->error = *error;
    }
    pthread_cond_broadcast(&store->changed);
}

// With the lock held: until the load of another is over. TIMEOUT: one's own limits ended the wait.
static enum base_status load_wait(struct dev_model_store *store, const struct dev_model *model,
                                  const struct eng_run_options *limits, struct base_error *error)
{
    base_assert(model->refs > 0);
    while (model->state == MODEL_LOADING) {
        if (limits == NULL) {
            pthread_cond_wait(&store->changed, &store->lock);
            continue;
        }
        if (!dev_model_may_go_on(limits)) {
            return ended(error);
        }
        const uint64_t until_us = base_clock_mono_us() + WAIT_US;
        const struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                                       .tv_nsec = (long)(until_us % 1000000) * 1000};
        (void)pthread_cond_timedwait(&store->changed, &store->lock, &until);
    }
    return BASE_OK;
}

static enum base_status get_once(struct dev_model_store *store, const struct dev_model_file *file,
                                 struct dev_model **out_model, struct base_error *error)
{
    struct doomed doomed = {0};
    enum base_status status = BASE_OK;
    pthread_mutex_lock(&store->lock);
    struct dev_model *model = model_find(store, file->digest);
    if (model != NULL) {
        store->stats.held += model->refs == 0;
        model->refs++;
        status = load_wait(store, model, file->limits, error);
    } else {
        status = model_add(store, file, &doomed, &model, error);
        if (status == BASE_OK) {
            pthread_mutex_unlock(&store->lock);
            status = model_load(model, file, error);
            pthread_mutex_lock(&store->lock);
            load_end(store, model, status, error);
        }
    }
    if (model != NULL && model->state == MODEL_FAILED) {
        status = model->failure;
        *error = model->error;
        ref_drop(store, model, &doomed);
    } else if (model != NULL && model->state == MODEL_LOADING) {
        ref_drop(store, model, &doomed); // one's own limits ended the wait
    } else if (status == BASE_OK) {
        base_assert(model->state == MODEL_READY);
        model->used = ++store->tick;
        *out_model = model;
    }
    pthread_mutex_unlock(&store->lock);
    doomed_free(&doomed);
    return status;
}

enum base_status dev_model_store_get(struct dev_model_store *store,
                                     const struct dev_model_file *file,
                                     struct dev_model **out_model, struct base_error *error)
{
    struct base_error local = {0};
    enum base_status status = BASE_ERR_TIMEOUT;
    error = error != NULL ? error : &local;
    do {
        status = get_once(store, file, out_model, error);
    } while (status == BASE_ERR_TIMEOUT && dev_model_may_go_on(file->limits)); // another's ended
    return status;
}

void dev_model_unref(struct dev_model *model)
{
    if (model == NULL) {
        return;
    }
    struct doomed doomed = {0};
    struct dev_model_store *store = model->store;
    pthread_mutex_lock(&store->lock);
    model->used = ++store->tick;
    ref_drop(store, model, &doomed);
    (void)room_make(store, 0, &doomed); // packed weights may have gone over while it was held
    pthread_mutex_unlock(&store->lock);
    doomed_free(&doomed);
}

const struct eng_model *dev_model_engine(const struct dev_model *model)
{
    return model->engine;
}

struct base_span dev_model_bytes(const struct dev_model *model)
{
    return (struct base_span){model->bytes, model->size};
}

// --- sessions ------------------------------------------------------------------------------------

uint64_t dev_model_shapes_key(const struct eng_array *inputs, size_t count,
                              const struct dev_model_plan *plan)
{
    uint64_t key = plan->one_piece ? base_hash64_seed("one", 3, 0) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct eng_desc *desc = &inputs[i].desc;
        base_assert(desc->rank <= ENG_RANK_MAX);
        uint32_t kind[2] = {desc->dtype, desc->rank};
        key = base_hash64_seed(kind, sizeof(kind), key);
        key = base_hash64_seed(desc->dims, desc->rank * sizeof(int64_t), key);
    }
    for (size_t i = 0; i < plan->value_count; i++) {
        key = base_hash64_seed(plan->values[i], strlen(plan->values[i]) + 1, key);
    }
    return key;
}

// With the lock held: a waiting session of this plan leaves the list; NULL: there is none.
static struct idle *idle_take(struct dev_model *model, const struct dev_model_plan *plan)
{
    for (struct idle **at = &model->idle; *at != NULL; at = &(*at)->next) {
        struct idle *idle = *at;
        if (idle->memory_bytes_max == plan->memory_bytes_max && idle->key == plan->key) {
            *at = idle->next;
            base_assert(model->store->stats.idle > 0);
            model->store->stats.idle--;
            model->store->stats.bytes -= idle->bytes;
            return idle;
        }
    }
    return NULL;
}

// A session on the model's graph, or on one of its own where nothing is folded.
static enum base_status session_new(const struct dev_model *model, struct dev_model_plan *plan,
                                    struct eng_session **out_session, struct base_error *error)
{
    const struct eng_session_options options = {.threads = 1,
                                                .no_search = true,
                                                .one_piece = plan->one_piece,
                                                .values = plan->values,
                                                .value_count = (uint32_t)plan->value_count,
                                                .memory_bytes_max = plan->memory_bytes_max};
    base_assert(plan->value_count <= ENG_ASKED_MAX);
    enum base_status status = eng_session_new(model->engine, &options, out_session, error);
    plan->apart = status == BASE_ERR_CONFLICT;
    if (!plan->apart) {
        return status;
    }
    const struct eng_model_options loading = {.keep_batch_norm = true, .limits = plan->limits};
    struct eng_model *whole = NULL;
    BASE_TRY(eng_model_load_memory(model->bytes, model->size, &loading, &whole, error));
    status = eng_session_new(whole, &options, out_session, error);
    eng_model_unref(whole); // the session has its own reference
    return status;
}

enum base_status dev_model_session_take(struct dev_model *model, struct dev_model_plan *plan,
                                        struct eng_session **out_session, struct base_error *error)
{
    struct dev_model_store *store = model->store;
    pthread_mutex_lock(&store->lock);
    base_assert(model->refs > 0 && model->state == MODEL_READY);
    model->used = ++store->tick;
    struct idle *idle = idle_take(model, plan);
    store->stats.sessions += idle == NULL;
    pthread_mutex_unlock(&store->lock);
    if (idle != NULL) {
        *out_session = idle->session;
        plan->apart = idle->apart;
        free(idle);
        return BASE_OK;
    }
    return session_new(model, plan, out_session, error);
}

// The weights a model packed count with it from now on.
static void packed_note(struct dev_model_store *store, struct dev_model *model, size_t bytes)
{
    if (bytes > model->packed_bytes) {
        store->stats.bytes += bytes - model->packed_bytes;
        model->packed_bytes = bytes;
    }
}

void dev_model_session_give(struct dev_model *model, struct eng_session *session,
                            const struct dev_model_plan *plan, bool reusable)
{
    struct dev_model_store *store = model->store;
    struct doomed doomed = {0};
    struct eng_session_stats stats;
    eng_session_stats(session, &stats);
    reusable = reusable && stats.segment_count == 1 && !stats.by_contents;
    struct idle *idle = reusable ? malloc(sizeof(*idle)) : NULL;
    if (idle == NULL) {
        eng_session_free(session);
    }
    pthread_mutex_lock(&store->lock);
    if (!plan->apart) {
        packed_note(store, model, stats.packed_bytes);
    }
    if (idle != NULL) {
        *idle = (struct idle){.next = model->idle,
                              .session = session,
                              .memory_bytes_max = plan->memory_bytes_max,
                              .key = plan->key,
                              .apart = plan->apart,
                              .used = ++store->tick,
                              .bytes = stats.arena_bytes + stats.plan_bytes +
                                       (plan->apart ? stats.packed_bytes : 0)};
        model->idle = idle;
        store->stats.idle++;
        store->stats.bytes += idle->bytes;
    }
    if (store->stats.idle > DEV_MODEL_IDLE_MAX) {
        store->stats.sessions_gone++;
        idle_remove(store, oldest_idle(store), &doomed);
    }
    base_assert(store->stats.idle <= DEV_MODEL_IDLE_MAX); // one came, one went
    (void)room_make(store, 0, &doomed);
    pthread_mutex_unlock(&store->lock);
    doomed_free(&doomed);
}

// --- looking inside ------------------------------------------------------------------------------

void dev_model_store_stats(struct dev_model_store *store, struct dev_model_store_stats *out_stats)
{
    pthread_mutex_lock(&store->lock);
    *out_stats = store->stats;
    pthread_mutex_unlock(&store->lock);
}

enum base_status dev_model_store_validate(struct dev_model_store *store)
{
    struct dev_model_store_stats found = {0};
    pthread_mutex_lock(&store->lock);
    for (const struct dev_model *model = store->models; model != NULL; model = model->next) {
        found.models++;
        found.held += model->refs > 0 && model->state == MODEL_READY;
        found.bytes += model->size + model->packed_bytes;
        for (const struct idle *idle = model->idle; idle != NULL; idle = idle->next) {
            found.idle++;
            found.bytes += idle->bytes;
        }
    }
    const struct dev_model_store_stats *said = &store->stats;
    bool same = found.models == said->models && found.held == said->held &&
                found.bytes == said->bytes && found.idle == said->idle &&
                said->idle <= DEV_MODEL_IDLE_MAX;
    pthread_mutex_unlock(&store->lock);
    return same ? BASE_OK : BASE_ERR_INVALID;
}
