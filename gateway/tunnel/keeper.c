// The keeper's thread. What it writes is a convenience: after a crash the log alone says what is
// durable. gw_tunnel.c starts, wakes and stops it. A look comes every `look_us` or when it is
// woken, and does a bounded part: some shards of the marks, one checkpoint, the segments that are
// too old. The last look is on the thread that stops it.
#include "tunnel/keeper.h"

#include "base/check.h"
#include "store/bell.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct gw_keeper {
    struct gw_keeper_options options;
    char *dir;
    uint64_t before; // position of the checkpoint before the newest
    uint64_t period; // whose marks were looked at
    uint32_t shard;  // that is looked at next; GW_MARK_SHARDS: all were
    struct gw_bell bell;
    pthread_t thread;
    _Atomic bool stopping;
};

// The time in periods of half of what an unproven device's marks live.
static uint64_t period_of(const struct gw_keeper_options *options)
{
    uint64_t half_s = (options->unproven_expire_s + 1) / 2;
    return options->clock.wall_us(options->clock.ctx) / 1000000u / (half_s > 0 ? half_s : 1);
}

// Once in a period every shard is looked at, some in each look.
static void expire_marks(struct gw_keeper *keeper)
{
    struct gw_marks *marks = keeper->options.marks;
    uint64_t period = period_of(&keeper->options);
    base_assert(keeper->shard <= GW_MARK_SHARDS);
    if (period != keeper->period) {
        keeper->period = period;
        keeper->shard = 0;
        gw_marks_set_period(marks, period);
    }
    for (uint32_t i = 0; i < GW_KEEPER_SHARDS && keeper->shard < GW_MARK_SHARDS; i++) {
        struct gw_mark_shard *shard = gw_marks_lock_index(marks, keeper->shard++);
        (void)gw_mark_expire(shard);
        gw_marks_unlock(shard);
    }
}

static void step(struct gw_keeper *keeper, bool last)
{
    struct gw_keeper_options *options = &keeper->options;
    struct gw_segment_stats stats;
    gw_dict_shelf_fetch(options->dicts);
    expire_marks(keeper);
    if (options->disk != NULL) {
        gw_disk_guard_look(options->disk);
    }
    if (options->log == NULL) {
        return;
    }
    gw_segment_log_stats(options->log, &stats);
    uint64_t grown = stats.landed - options->position;
    if (grown >= options->segment_bytes * GW_KEEPER_SEGMENTS || (last && grown > 0)) {
        enum base_status status = gw_checkpoint_write(keeper->dir, options->marks, stats.landed);
        if (status != BASE_OK) {
            base_log_warn(options->log_port, "tunnel", "checkpoint cannot be written: %s",
                          base_status_text(status));
            return;
        }
        base_assert(keeper->before <= options->position);
        keeper->before = options->position;
        options->position = stats.landed;
    }
    if (options->retain_bytes > 0) {
        // Segments that the older checkpoint would need stay.
        (void)gw_segment_log_retain(options->log, options->retain_bytes, keeper->before);
    }
}

static void *keeper_main(void *arg)
{
    struct gw_keeper *keeper = arg;
    while (!atomic_load_explicit(&keeper->stopping, memory_order_acquire)) {
        (void)gw_bell_wait(&keeper->bell, keeper->options.look_us);
        step(keeper, false);
    }
    return NULL;
}

static void destroy(struct gw_keeper *keeper)
{
    gw_bell_done(&keeper->bell);
    free(keeper->dir);
    free(keeper);
}

enum base_status gw_keeper_start(const struct gw_keeper_options *options, struct gw_keeper **out,
                                 struct base_error *error)
{
    base_assert(options->log == NULL || options->dir != NULL); // checkpoints lie beside the log
    struct gw_keeper *keeper = calloc(1, sizeof(*keeper));
    if (keeper == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the keeper");
    }
    keeper->options = *options;
    keeper->period = period_of(options);
    gw_marks_set_period(options->marks, keeper->period); // before the first session
    keeper->dir = strdup(options->dir != NULL ? options->dir : "");
    if (keeper->options.segment_bytes == 0) {
        keeper->options.segment_bytes = GW_SEGMENT_BYTES;
    }
    if (keeper->options.look_us == 0) {
        keeper->options.look_us = GW_KEEPER_LOOK_US;
    }
    struct gw_segment_stats stats = {.end = UINT64_MAX};
    if (options->log != NULL) {
        gw_segment_log_stats(options->log, &stats);
    }
    if (keeper->options.position > stats.end) {
        keeper->options.position = stats.end; // the log was lost
    }
    gw_bell_init(&keeper->bell);
    if (keeper->dir == NULL || pthread_create(&keeper->thread, NULL, keeper_main, keeper) != 0) {
        destroy(keeper);
        return base_error_set(error, BASE_ERR_NOMEM, "no thread for the keeper");
    }
    *out = keeper;
    return BASE_OK;
}

void gw_keeper_wake(struct gw_keeper *keeper)
{
    gw_bell_ring(&keeper->bell);
}

void gw_keeper_stop(struct gw_keeper *keeper)
{
    if (keeper == NULL) {
        return;
    }
    atomic_store_explicit(&keeper->stopping, true, memory_order_release);
    gw_bell_ring(&keeper->bell);
    pthread_join(keeper->thread, NULL);
    step(keeper, true);
    destroy(keeper);
}
