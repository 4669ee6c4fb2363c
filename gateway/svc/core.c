// Life of the core and of its workers, and how plans reach them. gw_core_new and _free run on the
// program's main thread, worker functions on the worker's, gw_core_publish on the control thread.
// gateway_main.c makes the core; http/worker.c makes a gw_worker before its thread starts and frees
// it when that has ended. A new plan is left in the worker's inbox with one wake-up, however many
// plans come meanwhile: the worker takes the newest. A worker that is freed while a wake-up is
// under way stays in memory until the core goes.
#include "svc/core.h"

#include "svc/device/causes.h"
#include "svc/device/touches.h"
#include "svc/access/console_login.h"
#include "svc/core_private.h"
#include "svc/rollout/rollout_figures.h"
#include "svc/rollout/way_back.h"
#include "svc/access/answers.h"
#include "svc/trust/answer_batch.h"
#include "svc/access/audit.h"
#include "svc/content/blob_cache.h"
#include "svc/control_thread.h"
#include "svc/device/device_faults.h"
#include "svc/device/devices_store.h"
#include "svc/device/hints.h"
#include "svc/device/strangers.h"
#include "svc/plan/attr_pool.h"
#include "svc/rollout/catalog_private.h"
#include "svc/rollout/publish.h"
#include "svc/rollout/set_cost.h"
#include "svc/rollout/watch.h"
#include "svc/tally/tally.h"
#include "svc/trust/director_private.h"
#include "svc/tunnel_admit.h"
#include "svc/core_worker.h"
#include "svc/device/device_table.h"
#include "svc/plan/cohort.h"
#include "svc/plan/plan.h"
#include "svc/rollout/kill_commands.h"
#include "svc/rollout/kill_places.h"
#include "svc/view/release_list.h"

#include "base/prng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t gw_core_request_id(struct gw_core *core)
{
    uint64_t number = atomic_fetch_add_explicit(&core->requests, 1, memory_order_relaxed);
    return base_mix64(core->time.seed ^ core->clock.mono_us(core->clock.ctx) ^ number << 44);
}

uint64_t gw_core_root_expires_s(const struct gw_core *core)
{
    return atomic_load_explicit(&core->director->root_expires_seen, memory_order_relaxed);
}

static bool tally_is_open(void *ctx, uint32_t rollout)
{
    return gw_tally_is_open(ctx, rollout);
}

static enum base_status take_options(struct gw_core *core, const struct gw_core_options *options)
{
    core->clock = options->clock;
    core->log = options->log;
    core->random = options->random;
    core->hash_key = base_hash_key_draw(&core->random);
    gw_core_clock_init(core);
    BASE_TRY(gw_core_settings_take(&core->set, options));
    static const struct gw_director_sources sources = {
        .list = gw_release_list, .tell = gw_kill_places_tell, .changed = gw_core_publish};
    BASE_TRY(gw_director_new(options, &sources, &core->director));
    return gw_catalog_new(&core->catalog);
}

static enum base_status open_core(struct gw_core *core, const struct gw_core_options *options,
                                  struct base_error *error)
{
    BASE_TRY(take_options(core, options));
    struct gw_store_options store = {
        .dir = options->dir,
        .map_bytes_max = options->map_bytes_max,
        .commit_delay_us = options->commit_delay_us,
        .no_thread = options->no_writer_thread,
        .lean = options->lean_store,
        .hash_key = core->hash_key,
        .log = options->log,
    };
    BASE_TRY(gw_store_open(&store, &core->store, error));
    BASE_TRY(gw_core_clock_begin(core, options->born_s));
    BASE_TRY(gw_tally_new(&core->hash_key, &core->tally));
    gw_tally_tick(core->tally, gw_core_sure_s(core));
    gw_tally_time_moved(core->tally, core->time.accepted_s);
    BASE_TRY(gw_attr_pool_new(&core->hash_key, &core->pool));
    BASE_TRY(gw_device_table_new(tally_is_open, core->tally, &core->hash_key, &core->table));
    BASE_TRY(gw_blob_cache_new(core, &core->blobs));
    BASE_TRY(gw_operators_new(&core->hash_key, &core->operators));
    BASE_TRY(gw_logins_new(&core->logins));
    BASE_TRY(gw_credentials_new(&core->hash_key, &core->credentials));
    BASE_TRY(gw_strangers_new(options, &core->hash_key, &core->strangers));
    BASE_TRY(gw_faults_new(&core->faults));
    BASE_TRY(gw_audit_new(&core->audit));
    BASE_TRY(gw_answers_new(&core->answers));
    BASE_TRY(gw_set_costs_new(&core->set_costs));
    BASE_TRY(gw_flush_new(&core->flush));
    BASE_TRY(gw_operators_load(core, error));
    BASE_TRY(gw_credentials_load(core, error));
    BASE_TRY(gw_answers_load(core, error));
    BASE_TRY(gw_audit_load(core, error));
    BASE_TRY(gw_watch_new(core, &core->watch));
    BASE_TRY(gw_way_back_new(core, &core->way_back));
    BASE_TRY(gw_catalog_load(core, error));
    BASE_TRY(gw_rollouts_load(core, error));
    BASE_TRY(gw_causes_load(core, error));
    BASE_TRY(gw_devices_load(core, error));
    BASE_TRY(gw_director_load(core, error));
    gw_trust_finish_kills(core);
    gw_core_publish(core);
    if (core->plan == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(gw_operators_first(core, &options->first_token, error));
    BASE_TRY(gw_background_start(core, error));
    return gw_control_start(core, error);
}

enum base_status gw_core_new(const struct gw_core_options *options, struct gw_core **out_core,
                             struct base_error *error)
{
    struct base_error unused;
    struct base_error *say = error != NULL ? error : &unused;
    memset(say, 0, sizeof(*say));
    struct gw_core *core = calloc(1, sizeof(*core));
    if (core == NULL) {
        return base_error_set(say, BASE_ERR_NOMEM, "no memory for the core");
    }
    pthread_mutex_init(&core->workers_lock, NULL);
    atomic_init(&core->set.ready, true);
    atomic_init(&core->reports.since_s, UINT32_MAX);
    enum base_status status = gw_threads_new(&core->threads);
    if (status == BASE_OK) {
        status = gw_rollout_figures_new(&core->figures);
    }
    if (status == BASE_OK) {
        status = open_core(core, options, say);
    }
    if (status != BASE_OK) {
        if (say->text[0] == 0) {
            (void)base_error_set(say, status, "cannot start the core: %s",
                                 base_status_text(status));
        }
        gw_core_free(core);
        return status;
    }
    *out_core = core;
    return BASE_OK;
}

static void destroy_worker(struct gw_worker *worker)
{
    gw_plan_unref(worker->plan);
    gw_plan_unref(worker->next_plan);
    gw_meta_unref(worker->meta);
    gw_meta_unref(worker->next_meta);
    gw_cohorts_free(worker->cohorts);
    gw_touches_free(worker->touches);
    gw_answer_batch_free(worker->answers);
    pthread_mutex_destroy(&worker->inbox_lock);
    free(worker);
}

void gw_core_free(struct gw_core *core)
{
    if (core == NULL) {
        return;
    }
    if (core->threads != NULL) {
        gw_background_stop(core);
        gw_control_stop(core);
    }
    gw_store_close(core->store);
    while (core->zombies != NULL) {
        struct gw_worker *worker = core->zombies;
        core->zombies = worker->next_zombie;
        destroy_worker(worker);
    }
    gw_plan_unref(core->plan);
    gw_meta_unref(core->meta);
    gw_director_free(core->director);
    gw_catalog_free(core->catalog);
    gw_way_back_free(core->way_back);
    gw_watch_free(core->watch);
    gw_blob_cache_free(core->blobs);
    gw_operators_free(core->operators);
    gw_logins_free(core->logins);
    gw_credentials_free(core->credentials);
    gw_strangers_free(core->strangers);
    gw_faults_free(core->faults);
    gw_audit_free(core->audit);
    gw_answers_free(core->answers);
    gw_rollout_figures_free(core->figures);
    gw_set_costs_free(core->set_costs);
    gw_device_table_free(core->table);
    gw_attr_pool_free(core->pool);
    gw_tally_free(core->tally);
    gw_flush_free(core->flush);
    gw_threads_free(core->threads);
    pthread_mutex_destroy(&core->workers_lock);
    gw_core_settings_done(&core->set);
    free(core);
}

bool gw_core_tick(struct gw_core *core)
{
    return gw_control_step(core);
}

bool gw_core_write(struct gw_core *core)
{
    return gw_store_step(core->store);
}

// ---- Workers

static void run_wake(struct gw_message *message)
{
    struct gw_worker *worker =
        (struct gw_worker *)((char *)message - offsetof(struct gw_worker, wake));
    pthread_mutex_lock(&worker->inbox_lock);
    worker->wake_pending = false;
    bool dead = worker->dead;
    struct gw_plan *plan = worker->next_plan;
    struct gw_meta *meta = worker->next_meta;
    worker->next_plan = NULL;
    worker->next_meta = NULL;
    pthread_mutex_unlock(&worker->inbox_lock);
    if (dead) {
        gw_plan_unref(plan);
        gw_meta_unref(meta);
        return; // gw_core_free has the rest
    }
    gw_worker_flush_touches(worker);
    if (meta != NULL) {
        gw_meta_unref(worker->meta);
        worker->meta = meta;
    }
    if (plan != NULL) {
        gw_plan_unref(worker->plan);
        worker->plan = plan;
        gw_hints_plan_taken(worker);
        gw_hints_plan_changed(worker);
    }
    uint64_t revocations = atomic_load_explicit(&worker->core->revocations, memory_order_acquire);
    if (revocations != worker->revocations_seen) {
        worker->revocations_seen = revocations;
        worker->walk_revoked = true;
        gw_hints_plan_changed(worker);
        gw_tunnels_revoked(worker);
    }
    gw_hints_walk(worker);
    gw_tunnels_walk(worker);
}

// What parts keep with a worker; what was made is freed with it.
static enum base_status new_parts(struct gw_worker *worker)
{
    BASE_TRY(gw_cohorts_new(&worker->core->hash_key, &worker->cohorts));
    BASE_TRY(gw_touches_new(&worker->touches));
    return gw_answer_batch_new(&worker->answers);
}

enum base_status gw_worker_new(struct gw_core *core, void *post_ctx,
                               void (*post)(void *post_ctx, struct gw_message *message),
                               struct gw_worker **out_worker)
{
    struct gw_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return BASE_ERR_NOMEM;
    }
    worker->core = core;
    worker->post_ctx = post_ctx;
    worker->post = post;
    worker->wake.run = run_wake;
    pthread_mutex_init(&worker->inbox_lock, NULL);
    gw_worker_on_hint(worker, NULL, NULL, NULL);
    enum base_status status = new_parts(worker);
    worker->revocations_seen = atomic_load_explicit(&core->revocations, memory_order_acquire);
    pthread_mutex_lock(&core->workers_lock);
    bool room = core->worker_count < GW_WORKERS_MAX;
    if (room && status == BASE_OK) {
        worker->plan = gw_plan_ref(core->plan);
        atomic_init(&worker->plan_taken, worker->plan->generation);
        worker->meta = gw_meta_ref(core->meta);
        core->workers[core->worker_count++] = worker;
    }
    pthread_mutex_unlock(&core->workers_lock);
    if (!room || status != BASE_OK) {
        destroy_worker(worker);
        return room ? status : BASE_ERR_LIMIT;
    }
    *out_worker = worker;
    return BASE_OK;
}

void gw_worker_free(struct gw_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    struct gw_core *core = worker->core;
    gw_worker_flush_touches(worker);
    pthread_mutex_lock(&core->workers_lock);
    for (uint32_t i = 0; i < core->worker_count; i++) {
        if (core->workers[i] == worker) {
            core->workers[i] = core->workers[--core->worker_count];
            break;
        }
    }
    // After this nothing is posted any more. A wake-up that is under way may still run, so the
    // worker's memory stays until the core goes.
    pthread_mutex_lock(&worker->inbox_lock);
    worker->dead = true;
    bool pending = worker->wake_pending;
    pthread_mutex_unlock(&worker->inbox_lock);
    if (pending) {
        worker->next_zombie = core->zombies;
        core->zombies = worker;
    }
    pthread_mutex_unlock(&core->workers_lock);
    if (!pending) {
        destroy_worker(worker);
    }
}
