// Life of the ingest and of its workers, batches coming back from the sink, and messages between
// threads. gw_ingest_new and _free on the main thread, worker functions on the worker's, `landed`
// on the sink's thread.
#include "tunnel/ingest.h"

#include "tunnel/checkpoint.h"
#include "tunnel/keeper.h"
#include "tunnel/session_private.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

uint64_t gw_ingest_now_us(const struct gw_ingest *ingest)
{
    return ingest->clock.mono_us(ingest->clock.ctx);
}

static void take_options(struct gw_ingest *ingest, const struct gw_ingest_options *options)
{
    ingest->clock = options->clock;
    ingest->log_port = options->log;
    ingest->credit_bytes =
        options->credit_bytes != 0 ? options->credit_bytes : GW_INGEST_CREDIT_BYTES;
    if (ingest->credit_bytes < WIRE_TUNNEL_FIRST_CREDIT) {
        ingest->credit_bytes = WIRE_TUNNEL_FIRST_CREDIT;
    }
    if (ingest->credit_bytes > WIRE_TUNNEL_CREDIT_MAX) {
        ingest->credit_bytes = WIRE_TUNNEL_CREDIT_MAX;
    }
    ingest->memory_max =
        options->memory_bytes != 0 ? options->memory_bytes : GW_INGEST_MEMORY_BYTES;
    gw_thin_init(&ingest->thin, ingest->memory_max, options->thin_percent);
    ingest->rate =
        options->device_batches_per_s != 0 ? options->device_batches_per_s : GW_INGEST_RATE;
    ingest->retain_bytes = options->retain_bytes;
    ingest->refuse_unknown = options->refuse_unknown;
    ingest->unproven_max = UINT64_MAX; // another sink has bounds of its own
    ingest->disk = (struct gw_disk_guard){
        .keep_free = options->keep_free_bytes != 0 ? options->keep_free_bytes : GW_DISK_KEEP_FREE,
        .log = options->log,
        .ctx = options->disk_ctx,
        .changed = options->disk_changed,
    };
}

static enum base_status start_keeper(struct gw_ingest *ingest,
                                     const struct gw_ingest_options *options, uint64_t position,
                                     struct base_error *error)
{
    const struct gw_keeper_options keeper = {
        .dir = options->dir,
        .log = ingest->log,
        .dicts = ingest->dicts,
        .marks = ingest->marks,
        .retain_bytes = ingest->retain_bytes,
        .disk = options->dir != NULL ? &ingest->disk : NULL,
        .segment_bytes = options->segment_bytes,
        .position = position,
        .log_port = options->log,
        .unproven_expire_s = options->unproven_expire_s != 0 ? options->unproven_expire_s
                                                             : GW_INGEST_UNPROVEN_EXPIRE_S,
        .look_us = options->keeper_look_us,
        .clock = options->clock,
    };
    return gw_keeper_start(&keeper, &ingest->keeper, error);
}

// How much the log may have, and unproven devices of that in a day.
static void bound_log(struct gw_ingest *ingest, const struct gw_ingest_options *options)
{
    struct gw_segment_stats stats;
    uint32_t percent =
        options->unproven_percent != 0 ? options->unproven_percent : GW_INGEST_UNPROVEN_PERCENT;
    gw_segment_log_stats(ingest->log, &stats);
    gw_disk_guard_watch(&ingest->disk, options->dir);
    if (ingest->retain_bytes == 0) {
        ingest->retain_bytes = gw_disk_guard_share(&ingest->disk, stats.end - stats.first);
        base_log_info(ingest->log_port, "tunnel",
                      "the segment log may have %llu MiB, %u %% of what is free; set "
                      "tunnel.retain_bytes for another bound",
                      (unsigned long long)(ingest->retain_bytes >> 20), GW_RETAIN_SHARE_PERCENT);
    }
    ingest->unproven_max =
        percent >= 100 ? UINT64_MAX : ingest->retain_bytes / 100 * (uint64_t)percent;
}

static enum base_status open_log(struct gw_ingest *ingest, const struct gw_ingest_options *options,
                                 struct base_error *error)
{
    uint64_t position = 0;
    if (options->dir == NULL) {
        ingest->sink = options->sink;
        return start_keeper(ingest, options, position, error);
    }
    const struct gw_segment_options segments = {
        .dir = options->dir,
        .segment_bytes = options->segment_bytes,
        .commit_delay_us = options->commit_delay_us,
        .queue_bytes = 2 * ingest->memory_max,
        .clock = options->clock,
        .log = options->log,
    };
    BASE_TRY(gw_segment_log_open(&segments, &ingest->log, error));
    ingest->sink = gw_segment_log_port(ingest->log);
    bound_log(ingest, options);
    BASE_TRY(gw_checkpoint_recover(options->dir, ingest->log, ingest->marks, options->log,
                                   &position, error));
    return start_keeper(ingest, options, position, error);
}

static enum base_status make_tables(struct gw_ingest *ingest,
                                    const struct gw_ingest_options *options)
{
    BASE_TRY(gw_marks_new(&options->hash_key, &ingest->marks));
    if (options->unproven_marks != 0) {
        gw_marks_bound(ingest->marks, options->unproven_marks);
    }
    BASE_TRY(gw_tunnel_partials_new(&ingest->partials));
    BASE_TRY(gw_topics_new(&options->hash_key, &ingest->topics));
    BASE_TRY(gw_device_rates_new(&options->hash_key, &ingest->rates));
    return gw_dict_shelf_new(&options->dicts, &ingest->dicts);
}

enum base_status gw_ingest_new(const struct gw_ingest_options *options, struct gw_ingest **out,
                               struct base_error *error)
{
    struct gw_ingest *ingest = calloc(1, sizeof(*ingest));
    if (ingest == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the tunnel");
    }
    pthread_mutex_init(&ingest->workers_lock, NULL);
    take_options(ingest, options);
    enum base_status status = make_tables(ingest, options);
    if (status != BASE_OK) {
        (void)base_error_set(error, status, "no memory for the tunnel");
    } else {
        status = open_log(ingest, options, error);
    }
    if (status != BASE_OK) {
        gw_ingest_free(ingest);
        return status;
    }
    *out = ingest;
    return BASE_OK;
}

static void destroy_worker(struct gw_ingest_worker *worker)
{
    gw_tunnel_zstd_free(worker->zstd);
    pthread_mutex_destroy(&worker->inbox_lock);
    free(worker);
}

void gw_ingest_free(struct gw_ingest *ingest)
{
    if (ingest == NULL) {
        return;
    }
    // What the log writes after the last checkpoint is read back at the next start.
    gw_keeper_stop(ingest->keeper);
    gw_segment_log_close(ingest->log);
    gw_tunnel_partials_free(ingest->partials);
    gw_marks_free(ingest->marks);
    gw_topics_free(ingest->topics);
    gw_device_rates_free(ingest->rates);
    gw_dict_shelf_free(ingest->dicts);
    while (ingest->workers != NULL) {
        struct gw_ingest_worker *worker = ingest->workers;
        ingest->workers = worker->next;
        base_check(worker->sessions == NULL);
        destroy_worker(worker);
    }
    pthread_mutex_destroy(&ingest->workers_lock);
    free(ingest);
}

// ---- Workers

static void run_wake(struct gw_message *message)
{
    struct gw_ingest_worker *worker = (struct gw_ingest_worker *)message;
    pthread_mutex_lock(&worker->inbox_lock);
    worker->wake_pending = false;
    bool dead = worker->dead;
    pthread_mutex_unlock(&worker->inbox_lock);
    if (!dead) {
        gw_ingest_worker_flush(worker);
    }
}

enum base_status gw_ingest_worker_new(struct gw_ingest *ingest, void *post_ctx,
                                      void (*post)(void *post_ctx, struct gw_message *message),
                                      struct gw_ingest_worker **out)
{
    struct gw_ingest_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return BASE_ERR_NOMEM;
    }
    worker->wake.run = run_wake;
    worker->ingest = ingest;
    worker->post_ctx = post_ctx;
    worker->post = post;
    pthread_mutex_init(&worker->inbox_lock, NULL);
    enum base_status status = gw_tunnel_zstd_new(&worker->zstd);
    if (status != BASE_OK) {
        destroy_worker(worker);
        return status;
    }
    pthread_mutex_lock(&ingest->workers_lock);
    worker->next = ingest->workers;
    ingest->workers = worker;
    pthread_mutex_unlock(&ingest->workers_lock);
    *out = worker;
    return BASE_OK;
}

// Its counters stay, and its memory: a message may be pending. gw_ingest_free has the rest.
void gw_ingest_worker_free(struct gw_ingest_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    base_check(worker->sessions == NULL);
    pthread_mutex_lock(&worker->inbox_lock);
    worker->dead = true;
    pthread_mutex_unlock(&worker->inbox_lock);
    gw_tunnel_zstd_free(worker->zstd);
    worker->zstd = NULL;
}

void gw_session_notify(struct gw_session *session, unsigned flags, bool wake)
{
    struct gw_ingest_worker *worker = session->worker;
    if (flags != 0) {
        atomic_fetch_or_explicit(&session->flags, flags, memory_order_relaxed);
    }
    pthread_mutex_lock(&worker->inbox_lock);
    if (session->queue_prev == NULL) {
        session->queue_next = worker->inbox;
        session->queue_prev = &worker->inbox;
        if (worker->inbox != NULL) {
            worker->inbox->queue_prev = &session->queue_next;
        }
        worker->inbox = session;
    }
    bool post = wake && !worker->wake_pending && !worker->dead;
    worker->wake_pending = worker->wake_pending || post;
    pthread_mutex_unlock(&worker->inbox_lock);
    if (post) {
        worker->post(worker->post_ctx, &worker->wake);
    }
}

static void wake_worker(struct gw_ingest_worker *worker)
{
    pthread_mutex_lock(&worker->inbox_lock);
    bool post = !worker->wake_pending && !worker->dead;
    worker->wake_pending = worker->wake_pending || post;
    pthread_mutex_unlock(&worker->inbox_lock);
    if (post) {
        worker->post(worker->post_ctx, &worker->wake);
    }
}

static struct gw_session *pop_inbox(struct gw_ingest_worker *worker)
{
    pthread_mutex_lock(&worker->inbox_lock);
    struct gw_session *session = worker->inbox;
    if (session != NULL) {
        worker->inbox = session->queue_next;
        if (worker->inbox != NULL) {
            worker->inbox->queue_prev = &worker->inbox;
        }
        session->queue_prev = NULL;
    }
    pthread_mutex_unlock(&worker->inbox_lock);
    return session;
}

static void serve(struct gw_session *session)
{
    unsigned flags = atomic_exchange_explicit(&session->flags, 0, memory_order_relaxed);
    if (session->state == GW_SESSION_ENDED) {
        return;
    }
    if ((flags & GW_SESSION_SUPERSEDED) != 0) {
        gw_count(&session->worker->counters.superseded_total, 1);
        gw_session_away(session, GW_INGEST_SUPERSEDED_MS, GW_INGEST_SUPERSEDED_SPREAD_MS);
        return;
    }
    if ((flags & GW_SESSION_FAILED) != 0) {
        gw_session_away(session, GW_INGEST_AWAY_MS, GW_INGEST_AWAY_SPREAD_MS);
        return;
    }
    if (session->state == GW_SESSION_WAITING) {
        gw_session_try_welcome(session);
    }
    if (session->state == GW_SESSION_OPEN && session->input_size > 0 &&
        gw_session_process(session) != BASE_OK) {
        session->port.end(session->port.ctx, true);
    }
    if (session->state == GW_SESSION_OPEN) {
        gw_session_settle(session);
    }
}

// Memory is back: who got no credit for want of it gets it now.
static void feed_starving(struct gw_ingest_worker *worker)
{
    worker->starving = false;
    for (struct gw_session *session = worker->sessions; session != NULL; session = session->next) {
        if (session->starving && session->state == GW_SESSION_OPEN) {
            session->starving = false;
            gw_session_settle(session);
        }
    }
}

// Fewer are asked to thin, or less: told at once, so that nothing is lost for nothing.
static void lift_samples(struct gw_ingest_worker *worker)
{
    worker->thinned = false;
    for (struct gw_session *session = worker->sessions; session != NULL; session = session->next) {
        if (session->thinned) {
            gw_session_thin(session);
            worker->thinned = worker->thinned || session->thinned;
        }
    }
}

void gw_ingest_worker_flush(struct gw_ingest_worker *worker)
{
    worker->turn_bytes = 0;
    if (gw_worker_thin_step(worker) && worker->thinned) {
        lift_samples(worker);
    }
    if (worker->starving && !gw_ingest_is_crowded(worker->ingest)) {
        feed_starving(worker);
    }
    // What comes back on the list meanwhile is for the next turn: it was told of by a message.
    pthread_mutex_lock(&worker->inbox_lock);
    uint32_t count = 0;
    for (struct gw_session *at = worker->inbox; at != NULL; at = at->queue_next) {
        count++;
    }
    pthread_mutex_unlock(&worker->inbox_lock);
    for (uint32_t i = 0; i < count; i++) {
        struct gw_session *session = pop_inbox(worker);
        if (session == NULL) {
            break;
        }
        serve(session);
    }
}

void gw_ingest_worker_drain(struct gw_ingest_worker *worker, uint32_t reconnect_after_ms,
                            uint32_t spread_ms)
{
    for (struct gw_session *session = worker->sessions; session != NULL; session = session->next) {
        if (session->state != GW_SESSION_ENDED) {
            gw_session_settle(session);
            gw_session_away(session, reconnect_after_ms, spread_ms);
        }
    }
}

// ---- Batches

// From the sink's thread: what became of a batch goes into its mark, and to the session that owns
// the lane now.
static void landed(struct gw_sink_batch *self, enum base_status status)
{
    struct gw_ingest_batch *batch = (struct gw_ingest_batch *)self;
    struct gw_ingest *ingest = batch->ingest;
    bool ok = status == BASE_OK;
    struct gw_mark_shard *shard = gw_marks_lock(ingest->marks, self->device);
    struct gw_lane *lane = batch->lane;
    gw_lane_landed(shard, lane, &batch->id, self->tenant, ok);
    struct gw_session_class *owner = lane->owner;
    if (owner != NULL) {
        if (!self->is_loss && batch->owners == lane->owners) {
            owner->landed_bytes += self->batch.sent_bytes;
            owner->landed_records += self->batch.count;
        }
        gw_session_notify(owner->session, !ok ? GW_SESSION_FAILED : 0, true);
    }
    gw_lane_release(shard, lane);
    gw_marks_unlock(shard);
    if (!ok) {
        atomic_fetch_add_explicit(&ingest->failed, 1, memory_order_relaxed);
    }
    gw_ingest_batch_free(batch);
}

struct gw_ingest_batch *gw_ingest_batch_new(struct gw_session *session, uint32_t payload_bytes)
{
    struct gw_ingest *ingest = session->worker->ingest;
    uint32_t bytes = (uint32_t)sizeof(struct gw_ingest_batch) + payload_bytes;
    struct gw_ingest_batch *batch = malloc(bytes);
    if (batch == NULL) {
        return NULL;
    }
    memset(batch, 0, sizeof(*batch));
    batch->ingest = ingest;
    batch->memory = bytes;
    batch->sink.device = session->device;
    batch->sink.tenant = session->tenant;
    batch->sink.device_ms = session->device_ms;
    batch->sink.done = landed;
    atomic_fetch_add_explicit(&ingest->memory, bytes, memory_order_relaxed);
    return batch;
}

bool gw_ingest_has_room(struct gw_ingest *ingest, const struct gw_session *session, uint32_t bytes)
{
    enum gw_disk_level level = gw_disk_guard_level(&ingest->disk);
    if (!session->port.unproven) {
        return level != GW_DISK_NO_DEVICES;
    }
    uint64_t day = gw_ingest_now_us(ingest) / GW_INGEST_DAY_US;
    if (atomic_exchange_explicit(&ingest->unproven_day, day, memory_order_relaxed) != day) {
        atomic_store_explicit(&ingest->unproven_bytes, 0, memory_order_relaxed);
    }
    uint64_t used = atomic_load_explicit(&ingest->unproven_bytes, memory_order_relaxed);
    if (level != GW_DISK_FINE || bytes > ingest->unproven_max ||
        used > ingest->unproven_max - bytes) {
        return false;
    }
    atomic_fetch_add_explicit(&ingest->unproven_bytes, bytes, memory_order_relaxed);
    return true;
}

bool gw_ingest_is_crowded(const struct gw_ingest *ingest)
{
    return atomic_load_explicit(&ingest->memory, memory_order_relaxed) > ingest->memory_max;
}

static void wake_workers(struct gw_ingest *ingest)
{
    pthread_mutex_lock(&ingest->workers_lock);
    for (struct gw_ingest_worker *worker = ingest->workers; worker != NULL; worker = worker->next) {
        wake_worker(worker);
    }
    pthread_mutex_unlock(&ingest->workers_lock);
}

// True: with this there was just enough again.
static bool release_memory(struct gw_ingest_batch *batch)
{
    struct gw_ingest *ingest = batch->ingest;
    uint64_t before =
        atomic_fetch_sub_explicit(&ingest->memory, batch->memory, memory_order_relaxed);
    bool crossed = before > ingest->memory_max && before - batch->memory <= ingest->memory_max;
    free(batch);
    return crossed;
}

void gw_ingest_batch_free(struct gw_ingest_batch *batch)
{
    if (batch != NULL) {
        struct gw_ingest *ingest = batch->ingest;
        if (release_memory(batch)) {
            wake_workers(ingest);
        }
    }
}

// ---- Introspection

void gw_ingest_stats(struct gw_ingest *ingest, struct gw_ingest_stats *out)
{
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&ingest->workers_lock);
    for (struct gw_ingest_worker *worker = ingest->workers; worker != NULL; worker = worker->next) {
#define ADD(name, help)                                                                            \
    out->name += atomic_load_explicit(&worker->counters.name, memory_order_relaxed);
        GW_INGEST_COUNTERS(ADD)
#undef ADD
        out->sessions += atomic_load_explicit(&worker->counters.sessions, memory_order_relaxed);
        uint64_t step = atomic_load_explicit(&worker->counters.thin_step, memory_order_relaxed);
        out->thin_step = step > out->thin_step ? step : out->thin_step;
    }
    pthread_mutex_unlock(&ingest->workers_lock);
    out->memory_bytes = atomic_load_explicit(&ingest->memory, memory_order_relaxed);
    out->failed = atomic_load_explicit(&ingest->failed, memory_order_relaxed);
    struct gw_marks_stats marks;
    gw_marks_stats(ingest->marks, &marks);
    out->marks = marks.marks;
    out->asides = marks.asides;
    out->unproven_marks = marks.unproven;
    out->expired_marks = marks.expired;
    out->mark_bytes = marks.bytes;
    out->probes_long = marks.probes_long;
    out->retain_bytes = ingest->retain_bytes;
    out->unproven_max = ingest->unproven_max;
    out->disk_free = atomic_load_explicit(&ingest->disk.free_bytes, memory_order_relaxed);
    if (ingest->log != NULL) {
        gw_segment_log_stats(ingest->log, &out->segments);
    }
}

struct gw_segment_log *gw_ingest_log(struct gw_ingest *ingest)
{
    return ingest->log;
}

struct gw_topics *gw_ingest_topics(struct gw_ingest *ingest)
{
    return ingest->topics;
}

const struct gw_zstd_dict *gw_ingest_dict(struct gw_ingest *ingest, uint32_t id)
{
    bool asked;
    const struct gw_zstd_dict *dict = gw_dict_shelf_find(ingest->dicts, id, &asked);
    if (asked) {
        gw_keeper_wake(ingest->keeper);
    }
    return dict;
}

const struct gw_zstd_dict *gw_ingest_dict_wait(struct gw_ingest *ingest, uint32_t id)
{
    bool asked;
    const struct gw_zstd_dict *dict = gw_dict_shelf_find(ingest->dicts, id, &asked);
    if (dict == NULL) {
        gw_dict_shelf_fetch(ingest->dicts);
        dict = gw_dict_shelf_find(ingest->dicts, id, &asked);
    }
    return dict;
}

enum base_status gw_ingest_declare(struct gw_ingest *ingest, uint32_t tenant,
                                   const struct wire_topic *topic, uint8_t class_id,
                                   struct base_str schema, struct base_error *error)
{
    return gw_topics_declare(ingest->topics, tenant, topic, class_id, schema, error);
}

bool gw_ingest_high_water(struct gw_ingest *ingest, uint64_t device, uint8_t class_id,
                          uint32_t epoch, uint64_t *out_high_water, uint64_t *out_hash)
{
    struct gw_mark_shard *shard = gw_marks_lock(ingest->marks, device);
    const struct gw_mark *mark = gw_mark_find(shard, device, class_id, epoch);
    if (mark != NULL) {
        *out_high_water = mark->high_water;
        *out_hash = mark->hash;
    }
    gw_marks_unlock(shard);
    return mark != NULL;
}

bool gw_ingest_validate(struct gw_ingest *ingest)
{
    return gw_marks_validate(ingest->marks);
}
