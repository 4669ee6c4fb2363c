// The core itself: what its parts have in common, and where each part is. Only files of gateway/svc
// and what looks inside it (tests, bench) include this.
//
// Who owns what
//   settings, store, table, tally, pool, blobs   set up once, thread-safe by themselves
//   catalog, director, watch, flush, answers     the control thread
//   workers, plan, meta                          workers_lock
//   struct gw_worker                             its worker's thread, but for its inbox
#ifndef GW_CORE_PRIVATE_H
#define GW_CORE_PRIVATE_H

#include "base/keyed_hash.h"
#include "base/log.h"
#include "store/store.h"
#include "svc/core_clock.h"
#include "svc/core_hooks.h"
#include "svc/core_settings.h"
#include "svc/report_counters.h"
#include "svc/rollout_counters.h"

#include <pthread.h>

struct gw_core {
    struct base_clock_port clock;
    const struct base_log *log;
    struct base_random_port random; // strong; `next` NULL: none
    struct base_hash_key hash_key;  // of every table that strangers fill; drawn at start
    struct gw_core_clock time;
    struct gw_core_settings set;
    struct gw_core_hooks hooks;

    struct gw_store *store;
    struct gw_device_table *table;
    struct gw_attr_pool *pool;
    struct gw_tally *tally;
    struct gw_blob_cache *blobs;
    struct gw_operators *operators;
    struct gw_logins *logins;
    struct gw_credentials *credentials;
    struct gw_strangers *strangers;
    struct gw_faults *faults;
    struct gw_flush *flush;
    struct gw_audit *audit;
    struct gw_answers *answers;
    struct gw_catalog *catalog;
    struct gw_director *director;
    struct gw_watch *watch;
    struct gw_way_back *way_back;
    struct gw_set_costs *set_costs;
    struct gw_rollout_figures *figures;
    struct gw_threads *threads;

    pthread_mutex_t workers_lock;
    struct gw_worker *workers[GW_WORKERS_MAX];
    uint32_t worker_count;
    struct gw_worker *zombies; // freed with a message under way
    struct gw_plan *plan;      // the newest
    struct gw_meta *meta;      // the newest; NULL: none

    struct gw_report_counters reports;
    struct gw_rollout_counters ends;
    _Atomic uint64_t revocations;     // of devices, since the start
    _Atomic uint64_t access_failures; // wrong or missing tokens
    _Atomic uint64_t requests;        // of the operator API, for their ids
};

#endif
