// Life of the tunnel, whether there is room for more, and figures. gw_tunnel_new and _free on the
// main thread, called by gateway_main.c; sessions ask for room, on their workers' threads; figures
// and the log are for the operator API and /metrics, on any.
#include "tunnel/gw_tunnel.h"

#include "tunnel/mark/checkpoint.h"
#include "tunnel/gw_tunnel_private.h"
#include "tunnel/tunnel_worker.h"
#include "tunnel/keeper.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

uint64_t gw_tunnel_now_us(const struct gw_tunnel *tunnel)
{
    return tunnel->clock.mono_us(tunnel->clock.ctx);
}

static void take_options(struct gw_tunnel *tunnel, const struct gw_tunnel_options *options)
{
    tunnel->clock = options->clock;
    tunnel->log_port = options->log;
    tunnel->credit_bytes =
        options->credit_bytes != 0 ? options->credit_bytes : GW_TUNNEL_CREDIT_BYTES;
    if (tunnel->credit_bytes < WIRE_TUNNEL_FIRST_CREDIT) {
        tunnel->credit_bytes = WIRE_TUNNEL_FIRST_CREDIT;
    }
    if (tunnel->credit_bytes > WIRE_TUNNEL_CREDIT_MAX) {
        tunnel->credit_bytes = WIRE_TUNNEL_CREDIT_MAX;
    }
    base_assert(tunnel->credit_bytes >= WIRE_TUNNEL_FIRST_CREDIT);
    base_assert(tunnel->credit_bytes <= WIRE_TUNNEL_CREDIT_MAX);
    tunnel->memory_max =
        options->memory_bytes != 0 ? options->memory_bytes : GW_TUNNEL_MEMORY_BYTES;
    gw_thin_init(&tunnel->thin, tunnel->memory_max, options->thin_percent);
    tunnel->rate =
        options->device_batches_per_s != 0 ? options->device_batches_per_s : GW_TUNNEL_RATE;
    tunnel->retain_bytes = options->retain_bytes;
    tunnel->refuse_unknown = options->refuse_unknown;
    tunnel->unproven_max = UINT64_MAX; // another sink has bounds of its own
    tunnel->disk = (struct gw_disk_guard){
        .keep_free = options->keep_free_bytes != 0 ? options->keep_free_bytes : GW_DISK_KEEP_FREE,
        .log = options->log,
        .ctx = options->disk_ctx,
        .changed = options->disk_changed,
    };
}

static enum base_status start_keeper(struct gw_tunnel *tunnel,
                                     const struct gw_tunnel_options *options, uint64_t position,
                                     struct base_error *error)
{
    base_assert(tunnel->keeper == NULL);
    const struct gw_keeper_options keeper = {
        .dir = options->dir,
        .log = tunnel->log,
        .dicts = tunnel->dicts,
        .marks = tunnel->marks,
        .retain_bytes = tunnel->retain_bytes,
        .disk = options->dir != NULL ? &tunnel->disk : NULL,
        .segment_bytes = options->segment_bytes,
        .position = position,
        .log_port = options->log,
        .unproven_expire_s = options->unproven_expire_s != 0 ? options->unproven_expire_s
                                                             : GW_TUNNEL_UNPROVEN_EXPIRE_S,
        .look_us = options->keeper_look_us,
        .clock = options->clock,
    };
    return gw_keeper_start(&keeper, &tunnel->keeper, error);
}

// How much the log may have, and unproven devices of that in a day.
static void bound_log(struct gw_tunnel *tunnel, const struct gw_tunnel_options *options)
{
    struct gw_segment_stats stats;
    uint32_t percent =
        options->unproven_percent != 0 ? options->unproven_percent : GW_TUNNEL_UNPROVEN_PERCENT;
    gw_segment_log_stats(tunnel->log, &stats);
    base_assert(stats.end >= stats.first);
    gw_disk_guard_watch(&tunnel->disk, options->dir);
    if (tunnel->retain_bytes == 0) {
        tunnel->retain_bytes = gw_disk_guard_share(&tunnel->disk, stats.end - stats.first);
        base_log_info(tunnel->log_port, "tunnel",
                      "the segment log may have %llu MiB, %u %% of what is free; set "
                      "tunnel.retain_bytes for another bound",
                      (unsigned long long)(tunnel->retain_bytes >> 20), GW_RETAIN_SHARE_PERCENT);
    }
    tunnel->unproven_max =
        percent >= 100 ? UINT64_MAX : tunnel->retain_bytes / 100 * (uint64_t)percent;
}

static enum base_status open_log(struct gw_tunnel *tunnel, const struct gw_tunnel_options *options,
                                 struct base_error *error)
{
    base_assert(tunnel->log == NULL && tunnel->marks != NULL); // the log is read back into them
    uint64_t position = 0;
    if (options->dir == NULL) {
        tunnel->sink = options->sink;
        return start_keeper(tunnel, options, position, error);
    }
    const struct gw_segment_options segments = {
        .dir = options->dir,
        .segment_bytes = options->segment_bytes,
        .commit_delay_us = options->commit_delay_us,
        .queue_bytes = 2 * tunnel->memory_max,
        .clock = options->clock,
        .log = options->log,
    };
    BASE_TRY(gw_segment_log_open(&segments, &tunnel->log, error));
    tunnel->sink = gw_segment_log_port(tunnel->log);
    bound_log(tunnel, options);
    const struct gw_recovery recovery = {
        .dir = options->dir,
        .log = tunnel->log,
        .marks = tunnel->marks,
        .log_port = options->log,
    };
    BASE_TRY(gw_checkpoint_recover(&recovery, &position, error));
    return start_keeper(tunnel, options, position, error);
}

static enum base_status make_tables(struct gw_tunnel *tunnel,
                                    const struct gw_tunnel_options *options)
{
    BASE_TRY(gw_marks_new(&options->hash_key, &tunnel->marks));
    if (options->unproven_marks != 0) {
        gw_marks_bound(tunnel->marks, options->unproven_marks);
    }
    BASE_TRY(gw_tunnel_partials_new(&tunnel->partials));
    BASE_TRY(gw_uploads_new(&options->hash_key, &tunnel->uploads));
    BASE_TRY(gw_device_rates_new(&options->hash_key, &tunnel->rates));
    return gw_dict_shelf_new(&options->dicts, &tunnel->dicts);
}

enum base_status gw_tunnel_new(const struct gw_tunnel_options *options, struct gw_tunnel **out,
                               struct base_error *error)
{
    struct gw_tunnel *tunnel = calloc(1, sizeof(*tunnel));
    if (tunnel == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the tunnel");
    }
    pthread_mutex_init(&tunnel->workers_lock, NULL);
    take_options(tunnel, options);
    enum base_status status = make_tables(tunnel, options);
    if (status != BASE_OK) {
        (void)base_error_set(error, status, "no memory for the tunnel");
    } else {
        status = open_log(tunnel, options, error);
    }
    if (status != BASE_OK) {
        gw_tunnel_free(tunnel);
        return status;
    }
    *out = tunnel;
    return BASE_OK;
}

void gw_tunnel_free(struct gw_tunnel *tunnel)
{
    if (tunnel == NULL) {
        return;
    }
    // What the log writes after the last checkpoint is read back at the next start.
    gw_keeper_stop(tunnel->keeper);
    gw_segment_log_close(tunnel->log);
    gw_tunnel_partials_free(tunnel->partials);
    gw_marks_free(tunnel->marks);
    gw_uploads_free(tunnel->uploads);
    gw_device_rates_free(tunnel->rates);
    gw_dict_shelf_free(tunnel->dicts);
    while (tunnel->workers != NULL) {
        struct gw_tunnel_worker *worker = tunnel->workers;
        tunnel->workers = worker->next;
        base_check(worker->sessions == NULL);
        gw_tunnel_worker_destroy(worker);
    }
    pthread_mutex_destroy(&tunnel->workers_lock);
    free(tunnel);
}

// ---- Room

bool gw_tunnel_has_room(struct gw_tunnel *tunnel, bool unproven, uint32_t bytes)
{
    enum gw_disk_level level = gw_disk_guard_level(&tunnel->disk);
    if (!unproven) {
        return level != GW_DISK_NO_DEVICES;
    }
    uint64_t day = gw_tunnel_now_us(tunnel) / GW_TUNNEL_DAY_US;
    if (atomic_exchange_explicit(&tunnel->unproven_day, day, memory_order_relaxed) != day) {
        atomic_store_explicit(&tunnel->unproven_bytes, 0, memory_order_relaxed);
    }
    uint64_t used = atomic_load_explicit(&tunnel->unproven_bytes, memory_order_relaxed);
    if (level != GW_DISK_FINE || bytes > tunnel->unproven_max ||
        used > tunnel->unproven_max - bytes) {
        return false;
    }
    atomic_fetch_add_explicit(&tunnel->unproven_bytes, bytes, memory_order_relaxed);
    return true;
}

bool gw_tunnel_is_crowded(const struct gw_tunnel *tunnel)
{
    return atomic_load_explicit(&tunnel->memory, memory_order_relaxed) > tunnel->memory_max;
}

// ---- Introspection

void gw_tunnel_stats(struct gw_tunnel *tunnel, struct gw_tunnel_stats *out)
{
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&tunnel->workers_lock);
    for (struct gw_tunnel_worker *worker = tunnel->workers; worker != NULL; worker = worker->next) {
#define ADD(name, help)                                                                            \
    out->name += atomic_load_explicit(&worker->counters.name, memory_order_relaxed);
        GW_TUNNEL_COUNTERS(ADD)
#undef ADD
        out->sessions += atomic_load_explicit(&worker->counters.sessions, memory_order_relaxed);
        uint64_t step = atomic_load_explicit(&worker->counters.thin_step, memory_order_relaxed);
        out->thin_step = step > out->thin_step ? step : out->thin_step;
    }
    pthread_mutex_unlock(&tunnel->workers_lock);
    base_assert(out->thin_step <= GW_THIN_STEPS);
    out->memory_bytes = atomic_load_explicit(&tunnel->memory, memory_order_relaxed);
    out->failed = atomic_load_explicit(&tunnel->failed, memory_order_relaxed);
    struct gw_marks_stats marks;
    gw_marks_stats(tunnel->marks, &marks);
    out->marks = marks.marks;
    out->asides = marks.asides;
    out->unproven_marks = marks.unproven;
    out->expired_marks = marks.expired;
    out->mark_bytes = marks.bytes;
    out->probes_long = marks.probes_long;
    out->retain_bytes = tunnel->retain_bytes;
    out->unproven_max = tunnel->unproven_max;
    out->disk_free = atomic_load_explicit(&tunnel->disk.free_bytes, memory_order_relaxed);
    if (tunnel->log != NULL) {
        gw_segment_log_stats(tunnel->log, &out->segments);
    }
}

struct gw_segment_log *gw_tunnel_log(struct gw_tunnel *tunnel)
{
    return tunnel->log;
}

struct gw_uploads *gw_tunnel_uploads(struct gw_tunnel *tunnel)
{
    return tunnel->uploads;
}

const struct gw_zstd_dict *gw_tunnel_zstd_dict(struct gw_tunnel *tunnel, uint32_t id)
{
    bool asked;
    const struct gw_zstd_dict *dict = gw_dict_shelf_find(tunnel->dicts, id, &asked);
    if (asked) {
        gw_keeper_wake(tunnel->keeper);
    }
    return dict;
}

const struct gw_zstd_dict *gw_tunnel_dict_wait(struct gw_tunnel *tunnel, uint32_t id)
{
    bool asked;
    const struct gw_zstd_dict *dict = gw_dict_shelf_find(tunnel->dicts, id, &asked);
    if (dict == NULL) {
        gw_dict_shelf_fetch(tunnel->dicts);
        dict = gw_dict_shelf_find(tunnel->dicts, id, &asked);
    }
    return dict;
}

enum base_status gw_tunnel_declare(struct gw_tunnel *tunnel, const struct gw_upload *upload,
                                   struct base_error *error)
{
    return gw_uploads_declare(tunnel->uploads, upload, error);
}

bool gw_tunnel_high_water(struct gw_tunnel *tunnel, const struct gw_mark_key *key,
                          uint64_t *out_high_water, uint64_t *out_hash)
{
    struct gw_mark_shard *shard = gw_marks_lock(tunnel->marks, key->device);
    const struct gw_mark *mark = gw_mark_find(shard, key->device, key->class_id, key->epoch);
    if (mark != NULL) {
        *out_high_water = mark->high_water;
        *out_hash = mark->hash;
    }
    gw_marks_unlock(shard);
    return mark != NULL;
}

bool gw_tunnel_validate(struct gw_tunnel *tunnel)
{
    return gw_marks_validate(tunnel->marks);
}
