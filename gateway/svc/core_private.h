// What the files of the gateway's core share: the process-wide core, the control thread's state and
// the worker. Only gateway/svc/*.c include this.
//
// Who owns what
//   options, store, table, tally, pool, blob cache   set up once, thread-safe by themselves
//   tasks, rollouts, plan generation                  the control thread
//   workers list, current plan                        workers_lock
//   struct gw_worker                                  its worker's thread, but for its inbox
#ifndef GW_CORE_PRIVATE_H
#define GW_CORE_PRIVATE_H

#include "base/keyed_hash.h"
#include "store/bell.h"
#include "store/store.h"
#include "svc/access/answers.h"
#include "svc/plan/attr_pool.h"
#include "svc/access/audit.h"
#include "svc/plan/cohort.h"
#include "svc/call_queue.h"
#include "svc/control.h"
#include "svc/access/credentials.h"
#include "svc/device/device_faults.h"
#include "svc/device/device_table.h"
#include "svc/device/devices.h"
#include "svc/access/operators.h"
#include "svc/trust/director.h"
#include "svc/plan/plan.h"
#include "svc/reply.h"
#include "svc/rollout/rollouts.h"
#include "svc/rollout/set_cost.h"
#include "svc/device/strangers.h"
#include "svc/tally/tally.h"
#include "svc/tunnel_seam.h"

#include <pthread.h>
#include <stdatomic.h>

#define GW_TOUCHES_MAX    256u
#define GW_HINT_SLICE     2000u // streams looked at before other work of the worker gets its turn
#define GW_FLUSH_BATCH    4096u // devices of one background write
#define GW_LATENCY_BOUNDS 14u
#define GW_WATCH_ROLLOUTS 64u      // open rollouts of one walk over the devices
#define GW_WATCH_BATCH    64u      // devices looked at with a shard's mutex held
#define GW_WATCH_WORK     1000000u // device-rollout pairs looked at in one tick

// ---- Control-owned

// What a look at a stage's segments depends on: unchanged, it would see the same.
struct gw_segments_asked {
    uint64_t succeeded;
    uint64_t failed;
    struct pol_sample control;
    struct pol_trial trial; // with LOGRANK
};

// How far the offers of a rollout to devices of one standing are.
struct gw_rollout_pace {
    struct pol_pace_state state;
    bool begun;       // the next two are set
    uint64_t made;    // of the release's offers when pacing began in this process
    uint64_t offered; // ... and what the tally had then
};

// Of a rollout that goes back, or is back: how far had it come? Found when it is asked.
enum gw_rollout_start {
    GW_START_UNKNOWN,
    GW_START_NEVER,  // a draft
    GW_START_STAGES, // in a stage
    GW_START_FULL,   // complete, or guarded: a baseline
};

// Of a rollout that goes back (way_back.h).
struct gw_spared {
    uint64_t since_us;   // of the way back that was looked at
    uint64_t signature;  // of the plan's task then
    uint64_t on_version; // counted on the version when the pass began
    uint64_t devices;    // ... of them, and not waited for
};

struct gw_rollout {
    struct gw_release *release;
    struct gw_task *task;
    struct pol_rollout state; // times are gw_core_now_us
    enum pol_verdict verdict;
    enum pol_reason reason;
    enum pol_reason cause; // see struct gw_rollout_view
    uint32_t failure_ppm;
    uint64_t created_us;
    uint64_t rollback_since_us; // 0: never rolled back
    uint64_t closed_us;         // completed or rolled back; 0: open
    bool accept_empty;          // its start need not reach a known device
    struct gw_simulation simulation;
    uint64_t log_seq; // of the last line
    uint64_t revision;
    char created_by[GW_LOG_BY_MAX + 1];
    struct pol_hazard control_hazard; // of the control cohorts of the stages before
    struct pol_test_report shown;
    struct pol_counts observed; // logged last
    uint64_t observed_us;
    enum pol_verdict observed_verdict;
    enum pol_reason observed_reason;
    uint32_t quarantine_count;
    struct gw_quarantined quarantine[GW_QUARANTINE_MAX];
    struct pol_held lifted;                  // out of quarantine, in the stage that is open
    struct gw_segments_asked segments_asked; // when they were last looked at
    uint64_t segments_logged; // failures in the last look that was logged; 0: none of this stage
    struct gw_rollout_pace paces[GW_STANDING_COUNT];
    int64_t moved_s; // of its trial's time (svc/tally/trial_blocks.h)
    bool halted;     // it has to go back, but that could not be stored yet: no new offers
    bool late_said;  // that it fails although it is completed (late_failures.h)
    struct gw_spared spared;
    uint64_t spared_on_version;  // counted on it at the last tick; way_back.c's
    enum gw_rollout_start start; // rollout_state.c's
};

struct gw_task {
    uint64_t task_id;
    uint32_t slot;        // in plans: the number of slots there were when it came
    uint32_t shadow_slot; // ... of its shadows; 0: it never had one
    char name[WIRE_TASK_NAME_MAX + 1];
    uint16_t tenant;
    uint64_t created_s;
    uint64_t release_counter;
    uint32_t base_count;
    struct gw_rollout *bases[GW_TASK_BASES_MAX]; // completed; approved last first
    struct gw_rollout *taken_back;               // of those, the one approved last; NULL: none
    uint32_t open_count;
    struct gw_rollout *open[GW_PLAN_OPEN_MAX]; // not closed; highest priority first, then the older
};

// Both arrays by ascending id.
struct gw_catalog {
    struct gw_task **tasks;
    uint32_t task_count;
    uint32_t task_capacity;
    uint32_t slot_count; // of plans
    struct gw_rollout **rollouts;
    uint32_t rollout_count;
    uint32_t rollout_capacity;
};

struct gw_control {
    struct gw_call_queue queue;
    pthread_t thread;
    bool started;
    struct gw_device_snapshot *flush; // GW_FLUSH_BATCH
    struct gw_tally_change *changes;  // of a flush
    uint32_t flushed_s;               // what was marked before this second is in the store
    uint64_t next_tick_us;
};

struct gw_background {
    struct gw_core *core;
    struct gw_call_queue queue;
    pthread_t thread;
    bool started;
};

struct gw_blob_cache;
struct gw_checkin;
struct gw_watch;
struct gw_way_back;
struct gw_silence_clock;

// The time of the core (core_clock.c). The guard is the control thread's; the rest is what it says,
// for everybody: relaxed.
struct gw_core_clock {
    struct gw_clock_guard guard;
    uint64_t recorded_us; // on disk; 0: nothing is
    uint32_t accepted_s;  // since when it is as somebody last accepted it; 0: nobody did
    uint64_t seed;        // of request numbers
    _Atomic uint64_t offset_us;
    _Atomic uint64_t floor_us;
    _Atomic uint64_t stood_us; // in doubt: the last time that was sure; 0: no doubt
    _Atomic int doubt;         // enum gw_clock_doubt
    _Atomic uint64_t doubts;
    _Atomic uint64_t apart_s; // wall clock and time
};

struct gw_core {
    struct base_clock_port clock;
    const struct base_log *log;
    struct gw_core_clock time;
    uint32_t tick_ms;
    _Atomic uint32_t checkin_interval_s; // a reload changes it
    uint32_t hint_spread_ms;
    uint32_t hint_rate_per_s;
    uint32_t retry_after_s;
    bool control_thread;
    char *admin_token;
    size_t admin_token_bytes;
    enum gw_metrics_access metrics_access;
    bool device_auth_required;
    uint32_t enroll_rate_per_s;
    struct base_random_port random; // strong; `next` NULL: none
    struct base_hash_key hash_key;  // of every table that strangers fill; drawn at start
    char *ddi_token;
    size_t ddi_token_bytes;
    struct gw_tunnel_seam tunnel; // ingest NULL: none
    gw_api_fn api;
    gw_api_head_fn api_head;
    gw_ddi_fn ddi; // NULL: its paths belong to the upstream
    gw_ddi_head_fn ddi_head;
    _Atomic bool ready;
    _Atomic int disk; // enum gw_disk_level

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
    struct gw_audit *audit;     // the control thread's
    struct gw_answers *answers; // the control thread's
    struct gw_watch *watch;
    struct gw_way_back *way_back;
    struct gw_set_costs *set_costs; // the control thread's
    struct gw_rollout_figures *figures;
    struct gw_control control;
    struct gw_background background;
    struct gw_background deltas;
    struct gw_catalog catalog;
    struct gw_director director;
    uint32_t evidence_key_count; // of settings; for a gateway that serves no root
    uint8_t evidence_keys[GW_EVIDENCE_KEYS_MAX][WIRE_PUBLIC_KEY_BYTES];

    pthread_mutex_t workers_lock;
    struct gw_worker *workers[GW_WORKERS_MAX];
    uint32_t worker_count;
    struct gw_worker *zombies; // freed with a message under way
    struct gw_plan *plan;      // the newest
    struct gw_meta *meta;      // the newest; NULL: none

    // Reports that the writer is at: how many, since when (UINT32_MAX: none).
    uint32_t reports_open; // the writer thread's
    _Atomic uint32_t reports_since_s;
    _Atomic uint64_t reports_outcomes;
    _Atomic uint64_t reports_repeated;
    _Atomic uint64_t reports_gaps;
    _Atomic uint64_t reports_unknown;
    _Atomic uint64_t reports_unoffered; // of devices that no stage lets in
    _Atomic uint64_t reports_unproven;  // outcomes that no gate counts
    _Atomic uint64_t records_corrupt;
    _Atomic uint64_t decisions;
    _Atomic uint64_t revocations;     // of devices, since the start
    _Atomic uint64_t access_failures; // wrong or missing tokens
    _Atomic uint64_t requests;        // of the operator API, for their ids
    _Atomic uint64_t disk_refused;    // reports and enrolments, for want of disk
    _Atomic uint64_t pages;           // somebody must look
    _Atomic uint64_t rollouts_completed;
    _Atomic uint64_t rollouts_rolled_back; // began to go back
    _Atomic uint64_t rollouts_held;        // failed, and wait for a person
    _Atomic uint64_t guards_over;          // completed although devices were outstanding
    _Atomic uint64_t rollouts_late;        // completed, and failing now
    uint64_t late_looked_us;               // when they were last looked for
};

// Microseconds that go back only when an operator accepts a wall clock that is behind, and continue
// over a restart: the time line of offers and last_seen, in doubt by the steady clock.
uint64_t gw_core_now_us(const struct gw_core *core);
uint32_t gw_core_now_s(const struct gw_core *core);
// The same as far as it may be signed or judged by: it stands still while the time is in doubt.
uint64_t gw_core_sure_us(const struct gw_core *core);
uint32_t gw_core_sure_s(const struct gw_core *core);
// All reports of this second and those before have been counted; Unix seconds, at most the last
// one.
uint32_t gw_core_heard_s(const struct gw_core *core);
// At start: first from the clock alone, then from what the store has. `born_s`: when the program
// was built; 0: not known.
void gw_core_clock_init(struct gw_core *core);
BASE_NODISCARD enum base_status gw_core_clock_begin(struct gw_core *core, uint64_t born_s);
// At each tick: looks at the clocks, records the time now and then.
void gw_core_clock_step(struct gw_core *core);
// The time moved by so much: a trial's time goes on as if it had not. In memory alone, at once;
// gw_rollout_move stores it.
void gw_rollout_time_moved(struct gw_core *core, struct gw_rollout *rollout, int64_t by_us);
// A rollout's times when the time moved by so much, as if it had not. The store's codes.
BASE_NODISCARD enum base_status gw_rollout_move(struct gw_core *core, struct gw_rollout *rollout,
                                                int64_t by_us);
// May what a device sends be stored? Counts when not.
bool gw_core_has_disk(struct gw_core *core, bool proven);

// ---- Worker

// Written by the worker, read by anybody: relaxed.
struct gw_worker_stats {
    _Atomic uint64_t checkins;
    _Atomic uint64_t checkins_current; // answered from the digest alone
    _Atomic uint64_t checkins_settled; // nothing to offer, known from the last time or just now
    _Atomic uint64_t checkins_asked;   // for pairs
    _Atomic uint64_t checkins_offered;
    _Atomic uint64_t checkins_held;  // by a rate, a cap or a window
    _Atomic uint64_t checkins_paced; // told the interval
    _Atomic uint64_t checkins_bad;
    _Atomic uint64_t rides; // check-ins answered on proxied requests
    _Atomic uint64_t offers;
    _Atomic uint64_t offers_ran_out;      // not made, for the statement is not valid any more
    _Atomic uint64_t offers_refused;      // ... for the device refuses it
    _Atomic uint64_t offers_without_room; // ... for the device holds no more tasks
    _Atomic uint64_t reports;
    _Atomic uint64_t reports_bad;
    _Atomic uint64_t blobs;
    _Atomic uint64_t exclusives;
    _Atomic uint64_t exclusives_refused; // no credential, or nothing there for this device
    _Atomic uint64_t hints_sent;
    _Atomic uint64_t hint_streams;
    _Atomic uint64_t tunnel_streams;
    _Atomic uint64_t cohorts;
    _Atomic uint64_t cohort_probes_long;
    _Atomic uint64_t touches_waiting;
    _Atomic uint64_t latency[GW_LATENCY_BOUNDS + 1];
    _Atomic uint64_t latency_sum_us;
};

struct gw_worker {
    struct gw_core *core;
    struct gw_worker *next_zombie;
    void *post_ctx;
    void (*post)(void *post_ctx, struct gw_message *message);

    // The inbox: control fills it, `wake` tells the worker.
    pthread_mutex_t inbox_lock;
    struct gw_message wake;
    bool wake_pending;
    bool dead;
    struct gw_plan *next_plan;
    struct gw_meta *next_meta;
    struct gw_meta *meta; // what the director publishes; NULL: nothing

    struct gw_plan *plan;
    struct gw_cohorts cohorts;
    struct gw_device_touch touches[GW_TOUCHES_MAX];
    uint32_t touch_count;

    gw_hint_fn hint_write;
    gw_hint_end_fn hint_end;
    void *hint_ctx;
    struct gw_hint *hints;
    struct gw_hint *walk_at; // next stream of the walk under way
    bool walking;
    bool plan_is_everywhere;     // no worker has an older one
    _Atomic uint64_t plan_taken; // generation of `plan`, for the other workers
    bool walk_again;             // a stream with news could not be told
    bool walk_revoked;           // this walk ends the streams of revoked devices
    uint64_t revocations_seen;   // of the core's
    uint64_t hint_count;
    gw_tunnel_end_fn tunnel_end;
    void *tunnel_ctx;
    struct gw_tunnel_watch *tunnels;
    struct gw_tunnel_watch *tunnel_at; // next of the walk for revoked devices
    uint64_t tunnel_count;
    uint64_t hint_place_ns; // monotonic time the next hinted device may come
    uint32_t hint_peers;    // workers that share the rate

    struct gw_worker_stats stats;
    struct gw_transport_stats transport;
};

// Adds by the only writer: no locked instruction.
static inline void gw_count(_Atomic uint64_t *counter, uint64_t add)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
                          memory_order_relaxed);
}

// Any thread: have the worker look at its inbox, flush its touches, and go on walking.
void gw_worker_wake(struct gw_worker *worker);
void gw_worker_flush_touches(struct gw_worker *worker);
void gw_worker_touch(struct gw_worker *worker, const struct gw_checkin *checkin, uint32_t now_s);
// The worker has a new plan: wakes the others when it was the last, who may wait for it.
void gw_hints_plan_taken(struct gw_worker *worker);
// Walks the hint streams slice by slice; wakes the worker again when there is more.
void gw_hints_plan_changed(struct gw_worker *worker);
void gw_hints_walk(struct gw_worker *worker);
// tunnel_admit.c: devices were revoked; walks a slice of the tunnel streams.
void gw_tunnels_revoked(struct gw_worker *worker);
void gw_tunnels_walk(struct gw_worker *worker);

// ---- Handlers, each on the worker's thread

void gw_checkin_handle(struct gw_worker *worker, struct gw_exchange *exchange);
void gw_report_handle(struct gw_worker *worker, struct gw_exchange *exchange);
void gw_push_handle(struct gw_worker *worker, struct gw_exchange *exchange);
void gw_tunnel_handle(struct gw_worker *worker, struct gw_exchange *exchange);
void gw_metrics_handle(struct gw_worker *worker, struct gw_exchange *exchange);
void gw_meta_handle(struct gw_worker *worker, struct gw_exchange *exchange);

// ---- Control

enum base_status gw_control_start(struct gw_core *core, struct base_error *error);
void gw_control_stop(struct gw_core *core);
bool gw_control_step(struct gw_core *core);
BASE_NODISCARD enum base_status gw_background_start(struct gw_core *core, struct base_error *error);
void gw_background_stop(struct gw_core *core);
bool gw_background_step(struct gw_core *core); // runs what waits, when there is no thread for it
// ---- plan_of_catalog.c: the plan that follows core->plan. NULL: no memory, or (*out_changed
// false) nothing changed.
struct gw_plan *gw_plan_of_catalog(struct gw_core *core, bool *out_changed);
void gw_core_publish(struct gw_core *core); // builds a plan from the catalog, hands it out

// ---- Catalog and rollouts: the control thread's

enum base_status gw_catalog_load(struct gw_core *core, struct base_error *error);
void gw_catalog_done(struct gw_core *core);
struct gw_task *gw_catalog_find_task(struct gw_core *core, uint64_t task_id);
struct gw_rollout *gw_catalog_find_rollout(struct gw_core *core, uint64_t id);
enum base_status gw_catalog_insert_rollout(struct gw_core *core, struct gw_rollout *rollout);
void gw_catalog_remove_rollout(struct gw_core *core, struct gw_rollout *rollout);
// Among its completed and guarded rollouts; of more than fit, those approved last stay.
void gw_task_base(struct gw_task *task, struct gw_rollout *rollout);
// Those that may be what a device should be on: approved last first, without the killed, down to
// the fourth version that is for everybody. Returns how many.
uint32_t gw_task_live_bases(const struct gw_core *core, const struct gw_task *task,
                            struct gw_rollout *out[GW_PLAN_BASES_MAX]);
// Is a base that was approved later everybody's, so that nobody is offered this one any more?
bool gw_task_is_superseded(const struct gw_core *core, const struct gw_task *task,
                           const struct gw_rollout *base);
// The completed rollout that was approved last, of a killed version too; NULL: none.
struct gw_rollout *gw_task_completed_last(const struct gw_task *task);
// Of those whose version is not killed; NULL: none.
struct gw_rollout *gw_task_baseline(const struct gw_core *core, const struct gw_task *task);
// Was a rollout of it started, or ended?
bool gw_task_is_begun(const struct gw_task *task);
// In its place among the open ones; false when there are GW_PLAN_OPEN_MAX that do not go back.
bool gw_task_open(struct gw_task *task, struct gw_rollout *rollout);
size_t gw_task_encode(const struct gw_task *task, uint8_t *out, size_t capacity);
bool gw_rollouts_tick(struct gw_core *core);
enum base_status gw_rollouts_load(struct gw_core *core, struct base_error *error);

// ---- The walk over all devices: the control thread's

enum base_status gw_watch_new(struct gw_core *core, struct gw_watch **out);
void gw_watch_free(struct gw_watch *watch);       // accepts NULL
void gw_watch_step(struct gw_watch *watch);       // at each tick
void gw_watch_time_moved(struct gw_watch *watch); // another time was accepted
// By which silence is told; lives as long as the walk.
const struct gw_silence_clock *gw_watch_clock(const struct gw_watch *watch);

// ---- Devices

enum base_status gw_devices_load(struct gw_core *core, struct base_error *error);
// Writes dirty devices to the store and waits. Returns how many.
uint32_t gw_devices_flush(struct gw_core *core);

// ---- Blobs

enum base_status gw_blob_cache_new(struct gw_core *core, struct gw_blob_cache **out_cache);
void gw_blob_cache_free(struct gw_blob_cache *cache);
struct gw_blob_cache_stats {
    uint64_t bytes;
    uint64_t entries;
    uint64_t hits;
    uint64_t misses;
};
void gw_blob_cache_stats(struct gw_blob_cache *cache, struct gw_blob_cache_stats *out);

#endif
