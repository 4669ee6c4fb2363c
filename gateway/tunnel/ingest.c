// Life of the ingest, whether there is room for more, and figures. gw_ingest_new and _free on the
// main thread, called by gateway_main.c; sessions ask for room, on their workers' threads; figures
// and the log are for the operator API and /metrics, on any.
#include "tunnel/ingest.h"

#include "tunnel/mark/checkpoint.h"
#include "tunnel/ingest_private.h"
#include "tunnel/ingest_worker.h"
#include "tunnel/keeper.h"

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
    base_assert(ingest->credit_bytes >= WIRE_TUNNEL_FIRST_CREDIT);
    base_assert(ingest->credit_bytes <= WIRE_TUNNEL_CREDIT_MAX);
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
    base_assert(ingest->keeper == NULL);
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
    base_assert(stats.end >= stats.first);
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
    const struct gw_recovery recovery = {
        .dir = options->dir,
        .log = ingest->log,
        .marks = ingest->marks,
        .log_port = options->log,
    };
    BASE_TRY(gw_checkpoint_recover(&recovery, &position, error));
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
        gw_ingest_worker_destroy(worker);
    }
    pthread_mutex_destroy(&ingest->workers_lock);
    free(ingest);
}

// ---- Room

bool gw_ingest_has_room(struct gw_ingest *ingest, bool unproven, uint32_t bytes)
{
    enum gw_disk_level level = gw_disk_guard_level(&ingest->disk);
    if (!unproven) {
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

enum base_status gw_ingest_declare(struct gw_ingest *ingest, const struct gw_upload *upload,
                                   struct base_error *error)
{
    return gw_topics_declare(ingest->topics, upload, error);
}

bool gw_ingest_high_water(struct gw_ingest *ingest, const struct gw_mark_key *key,
                          uint64_t *out_high_water, uint64_t *out_hash)
{
    struct gw_mark_shard *shard = gw_marks_lock(ingest->marks, key->device);
    const struct gw_mark *mark = gw_mark_find(shard, key->device, key->class_id, key->epoch);
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
