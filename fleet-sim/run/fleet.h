// A run of the fleet: options, shards and what they publish.
//
// Lifetimes. run > shard (one thread, one event loop, a share of the devices) > awake device (a
// slot with the runtime's memory, from wake to sleep or kill). A dormant device is one record, its
// ledger entry, and the bytes its runtime saved; every wake is a boot from those bytes.
//
// Threads. A shard's structures belong to its thread, or in virtual time to the one that has taken
// the shard up (virtual/windows.h); it publishes copies of its counters once a
// second through its mailbox. The coordinator (main thread) reads mailboxes while the run lasts and
// everything after the threads have ended. Time comes from one clock port, random numbers from
// counter-based draws: a shard does not care whether time is real.
#ifndef SIM_FLEET_H
#define SIM_FLEET_H

#include "base/error.h"
#include "base/ports.h"
#include "base/prng.h"
#include "digest/run_digest.h"
#include "device/device.h"
#include "faults/faults.h"
#include "given/sim_given.h"
#include "memory/runtime_rooms.h"
#include "model/bad_release.h"
#include "model/facts.h"
#include "model/ledger.h"
#include "model/sim_options.h"
#include "model/population.h"
#include "model/root_chain.h"
#include "model/wheel.h"
#include "ports/sim_credentials.h"
#include "ports/sim_crypto.h"
#include "ports/sim_links.h"
#include "ports/sim_local.h"
#include "ports/sim_storage.h"
#include "ports/sim_task.h"
#include "report/latencies.h"

#include "wire/trust/run_evidence.h"
#include <pthread.h>
#include <stdatomic.h>

#define SIM_THREADS_MAX        32
#define SIM_EXCHANGES_MAX      6     // of one device at once
#define SIM_TIMEOUT_DEFAULT_MS 30000 // of a request, as the runtime's
#define SIM_AWAKE_TOLD_BYTES   7424u // of a slot, with its runtime's parts: an answer touches them
#define SIM_JOB_FILES_MAX      (WIRE_MANIFEST_FILES_MAX + WIRE_EXCLUSIVE_FILES_MAX)
#define SIM_CONTENT_MIB_MAX    1024  // SIM_STORE_BYTES_MAX
#define SIM_TASKS_AWAKE_MAX    10000 // awake devices; of more each holds SIM_TASKS_MANY
#define SIM_TASKS_MANY         2     // a place for a task costs every one of a million
#define SIM_UNANSWERED_S       30    // without any answer since the start: no gateway is there
#define SIM_CLOCK_OFF_DAYS     400
#define SIM_CLOCK_OFF_DAYS_MAX 20000
#define SIM_RESULT_BYTES_MAX   512 // a million awake devices must fit
#define SIM_CRASH_LIMIT_KILLS                                                                      \
    8 // starts that end in a kill before a version is given up, with --kills
#define SIM_TURNS_MAX      64 // ticks and runs of one device before others get their turn
#define SIM_WAKES_PER_TURN 256
#define SIM_TOLD_PER_TURN  256 // with hints: what came for more than these is read after them
#define SIM_PAGE_BYTES     4096
// A slot, and all those of a run, up to which they lie in large pages.
#define SIM_LARGE_SLOT_BYTES  ((size_t)32 << 10)
#define SIM_LARGE_SLOTS_BYTES ((size_t)2 << 30)
#define SIM_LISTENING_BYTES   1100 // of a device on its hint stream: the stream, its folded runtime
#define SIM_ROOMS_WARM        8192 // runtimes of a shard that are not folded, with hints, at most
#define SIM_ROOMS_PART        8    // ... one of so many devices
#define SIM_ROOMS_LEAST       4    // ... and at least
#define SIM_ROOMS_RESTING     4    // of them one in so many may be of a device that only listens
#define SIM_FOLDED_TASK_BYTES 400  // of a task beyond the first in a folded runtime
#define SIM_RUNS_AT_ONCE      8u   // of a device at once
#define SIM_RUN_US_MIN        400  // of a run in virtual time
#define SIM_RUN_US_SPREAD     1200
#define SIM_BUSINESS_MIN      0.01 // requests of each device a minute
#define SIM_BUSINESS_MAX      6000
#define SIM_META_BYTES_EXPECTED                                                                    \
    512 // of a timestamp; the root at a rotation is a little more, and may touch a page more

struct event_base;
struct event;
struct sim_active;
struct sim_behaving;
struct sim_enrolling;
struct sim_sessions;
struct sim_bytes_lines;
struct sim_core_tunnel;
struct sim_tale;

// What a shard has published; guarded by `lock`.
struct sim_mailbox {
    uint64_t task_id; // followed; 0: none yet
    pthread_mutex_t lock;
    struct sim_counters counters;
    struct base_hist lag_us;     // since the coordinator looked last
    struct base_hist checkin_us; // of every check-in: the later ones of a wake from their request
};

// A dormant device, together with its ledger entry and what it saved. Options that few runs have
// keep theirs in arrays of their own.
struct sim_device {
    struct sim_wheel_node node; // first: see wheel.h
    struct sim_disk disk;
    union {
        uint32_t intended_ms; // of a dormant one: when it should wake, or should have woken
        uint32_t slot;        // of an awake one (sim_shard_awake)
    };
    uint32_t wakes : 21;
    uint32_t awake : 1;
    uint32_t failed_wakes : 4; // that ended with a request in vain, one after the other
    uint32_t enrol_tries : 4;  // in vain, one after the other
    uint32_t enrol_anew : 1;   // the gateway does not take its credential (any more)
    uint32_t rebooting : 1;    // was killed and starts again soon
};
_Static_assert(sizeof(struct sim_device) <= 28, "there are millions of them");

// When a device's app asks for something.
struct sim_business_turn {
    uint32_t due_ms;
    uint32_t count; // times it was drawn
};

// A run whose end is told later than its script was at its end: a device that has several at once
// (--runs), or an injected delay.
struct sim_run {
    struct sim_task_end *end; // a copy; NULL: none
    uint32_t run;             // the runtime's name for it
    uint32_t due_ms;
    uint8_t version;
    bool followed; // it is of the task that the ledger follows
};

struct sim_awake {
    struct sim_awake *next; // in the free list or a line
    struct sim_shard *shard;
    struct dev_runtime *runtime; // NULL while it is folded
    void *room; // what the runtime is in; NULL: it is folded, or begins behind this
    struct sim_folded *folded;
    struct sim_awake *warm_before; // of those that have a room, the one heard of before this one
    struct sim_awake *warm_next;
    uint32_t device;
    bool ready;          // it is in a line
    bool under_way;      // it waits for an answer
    bool real;           // everything for real, nothing shared
    bool checked_in;     // the first check-in of this wake was answered
    bool failing;        // its last request came to nothing
    uint8_t runs_asked;  // in the tick that was: jobs of the shard
    uint8_t runs_late;   // of `runs`, under way
    uint32_t kill_after; // ticks until it is killed; 0: it is not
    uint64_t id;
    uint64_t index;        // in the population
    uint64_t clock_off_us; // added to the wall clock, modulo 2^64
    uint64_t intended_us;
    uint64_t due_us;      // what its timer was set to
    uint64_t activations; // as observed last
    uint64_t again;
    uint64_t withdrawals;
    uint64_t rollbacks;
    uint64_t refused;
    uint64_t refused_metadata;
    uint64_t leases_lost;
    uint64_t kills;
    uint32_t blobs;      // requests of content in this wake
    uint32_t tasks_seen; // it held so many when its room was looked at
    uint64_t offer_hash; // of the release statement whose signatures it verified last
    uint32_t offer_keys; // ... which keys of its root they are by: bit i is key i
    struct sim_traits traits;
    struct sim_run runs[SIM_RUNS_AT_ONCE];
    struct sim_storage storage;
    struct base_prng prng;
    struct dev_ports ports;
    struct sim_enrolling *enrolling; // until it has a credential, in place of `runtime`
    struct sim_active *active;       // its data pipeline, while a session lasts; NULL otherwise
    struct dev_hash_state shadow;    // of a real device: the shared computation beside the real one
    const struct dev_hash_state *shadow_of;
    struct sim_faulty faulty;
    struct sim_own_link own_link;
    struct sim_exchange exchanges[SIM_EXCHANGES_MAX];
};

// Awake devices, one after the other through `next`.
struct sim_line {
    struct sim_awake *first; // NULL: nobody is in it
    struct sim_awake *last;
};

// A job that a runtime has just asked for. Those of one runtime are enough for a shard: they are
// run before anybody else is ticked.
struct sim_job {
    uint32_t run; // 0: it was cancelled
    struct dev_task_job job;
    struct wire_manifest manifest;
    struct wire_attrs attrs;
    struct dev_task_file files[SIM_JOB_FILES_MAX];
};

struct sim_seen_version {
    struct wire_sha256 manifest;
    uint8_t number;
    bool described;
};

// What shards share and write they write in the order of their numbers, so that the order does not
// depend on threads. In real time nobody waits: `wait` is NULL.
struct sim_order {
    void *ctx;
    void (*wait)(void *ctx, uint32_t shard);
};

// A release statement some device of the shard verified a signature of.
struct sim_statement {
    uint64_t hash;   // of the signed bytes
    uint8_t version; // SIM_VERSION_NONE: no INSTALL, or not of the task followed
    uint8_t reach;   // enum sim_reach
    bool brought;    // its rollout offered a device a version it did not run
    struct sim_signers signers;
};

struct sim_shard {
    const struct sim_options *options;
    struct sim_population population;
    struct base_clock_port clock;
    bool virtual_time;    // `clock` stands still until somebody moves it
    uint64_t moment_us;   // when it was read last: in real time what clocks of devices say
    uint64_t wall_off_us; // ... to the wall clock, modulo 2^64
    uint64_t start_us;
    uint64_t end_us; // when the shard ended
    uint32_t number;
    uint32_t first; // index of its first device in the fleet
    uint32_t count;
    uint32_t shards; // of the run
    struct sim_device *devices;
    struct sim_business_turn *business; // of each; NULL: apps ask for nothing
    struct sim_wheel wheel;
    struct sim_ledger ledger;
    struct sim_facts facts;
    struct sim_versions *versions;
    struct sim_order order;
    struct sim_recorder recorder; // takes events in virtual time
    struct sim_tale *tale;        // of one device of the run, of this shard or another; NULL: none
    struct sim_seen_version seen[SIM_VERSIONS_MAX];
    uint32_t seen_count;
    struct sim_statement statements[SIM_GRANTS_MAX]; // a ring of those seen last
    uint32_t statement_count;
    struct sim_root_chain roots;
    struct wire_root born_root; // its first one, which devices are born with
    uint32_t roots_looked;      // content of the store that was looked at for roots
    struct sim_store *store;
    struct dev_crypto_port real_crypto;
    struct sim_crypto crypto;
    struct sim_runner runner;
    const struct sim_given *given; // that apps hand to tasks, of the whole fleet; NULL: nothing
    struct sim_job jobs[SIM_RUNS_AT_ONCE];
    struct sim_job *job;  // of them, the one at hand
    struct dev_ride ride; // of the business request that is being made
    struct h2_tls *tls;
    struct sim_links *links;
    struct sim_local local;
    struct sim_behaving *behaving;       // NULL: nobody behaves
    struct sim_core_tunnel *tunnel;      // of its streams in virtual time, the run's; else NULL
    struct sim_bytes_lines *bytes;       // of its devices that speak them, likewise; else NULL
    struct sim_exclusive exclusive;      // of the simulate stage
    struct sim_credentials *credentials; // of the whole fleet; NULL: there are none
    struct sim_transport transport;
    struct sim_faults faults; // between the transport and the devices
    struct event_base *base;
    struct event *timer;
    // Awake devices.
    char *slots;
    void *slots_memory; // what `slots` lies in, at the first page; NULL: in large pages
    size_t slot_bytes;
    size_t runtime_bytes;
    uint32_t awake_max;
    uint32_t awake_count;
    uint32_t awake_most;          // at once, so far
    uint32_t rebooting;           // killed devices that start again soon
    struct sim_rooms rooms;       // of runtimes, with hints: who only listens needs none
    struct sim_awake *warm_first; // of those that have one, by when they were heard of
    struct sim_awake *warm_last;
    struct sim_awake *free_slots;
    struct sim_line ready; // to have their turn: who was told something or goes on
    struct sim_line due;   // ... in real time after those: who had only to wait until now
    uint32_t under_way;    // devices
    uint32_t told;         // that something came for, in this turn of the loop
    // Wakes that found no slot, in order, linked through the wheel nodes.
    uint32_t waiting_first;
    uint32_t waiting_last;
    uint32_t arrived; // devices that came online
    uint64_t arrivals_start_us;
    uint64_t blocked_us; // last time an arrival found no slot
    struct sim_latencies latencies;
    struct base_hist window_lag_us;
    struct base_hist window_checkin_us;
    struct sim_mailbox mailbox;
    uint64_t publish_us;
    pthread_t thread;
    atomic_bool stop;
    atomic_bool done;
    enum base_status status; // of setting up
};

// Bytes of an awake device that its places for tasks beyond the first take.
size_t sim_task_places_bytes(const struct sim_options *options);
// Bytes of an awake device's slot for these options; 0 when the configuration is invalid.
size_t sim_awake_bytes(const struct sim_options *options, size_t *out_runtime_bytes);
// ... and those of them that memory is spent on. Under a root the last WIRE_META_BYTES_MAX bytes of
// a runtime are for metadata that come whole; slots then begin at pages, so that the pages
// which ordinary metadata do not reach are never touched. Few small ones lie in large pages, whole.
size_t sim_awake_used_bytes(const struct sim_options *options);
bool sim_slots_are_large(const struct sim_options *options);
// With hints: of the rooms of those heard of lately, of the whole run; else 0.
size_t sim_rooms_used_bytes(const struct sim_options *options);
// The runtime configuration of every device, without id and attributes.
void sim_device_config(const struct sim_options *options, struct dev_config *out);

// Which of the fleet's devices a shard has.
struct sim_share {
    uint32_t number; // of the shard
    uint32_t first;  // index of its first device
    uint32_t count;
    const struct base_clock_port *clock; // virtual; NULL: real time
    struct sim_shared_verify *verify;    // likewise, of all shards
};

// Shard: set up on the coordinator's thread, run on its own, torn down after it ended.
BASE_NODISCARD enum base_status sim_shard_init(struct sim_shard *shard,
                                               const struct sim_share *share,
                                               const struct sim_options *options,
                                               struct sim_versions *versions);
void sim_shard_done(struct sim_shard *shard);
void sim_shard_run(struct sim_shard *shard); // until stop, or all devices are done when local
// The same by hand, for a loop that moves the time itself: once, then turn by turn, then once. A
// turn does what is due and returns when the next one is.
void sim_shard_begin(struct sim_shard *shard);
uint64_t sim_shard_turn(struct sim_shard *shard);
void sim_shard_end(struct sim_shard *shard);
// Counters into the mailbox: by itself in real time, by who moves the time in virtual time.
void sim_shard_publish(struct sim_shard *shard);
// Something happened that the digest of a run in virtual time is of. `index` is the device's in the
// population.
void sim_shard_note(struct sim_shard *shard, uint64_t index, enum sim_event_kind kind,
                    uint64_t value);
// Before something is written that shards share.
void sim_shard_in_order(const struct sim_shard *shard);
// Index in the population of a shard's device: its number in the fleet, or the first one of its
// own series that `where` holds for.
uint64_t sim_shard_index(const struct sim_shard *shard, uint32_t device);
uint32_t sim_shard_ms(const struct sim_shard *shard, uint64_t now_us);
// The time, and that of its devices until this is called again. A device asks a hundred times for
// what a moment decides, and nothing of that waits.
static inline uint64_t sim_shard_now(struct sim_shard *shard)
{
    shard->moment_us = shard->clock.mono_us(shard->clock.ctx);
    return shard->moment_us;
}

// NULL: the device is dormant.
struct sim_awake *sim_shard_awake(const struct sim_shard *shard, uint32_t device);

// One device (fleet_device.c).
// False when no slot is free.
bool sim_device_wake(struct sim_shard *shard, uint32_t device, uint64_t intended_us,
                     uint64_t now_us);
void sim_device_timer(struct sim_shard *shard, uint32_t device, uint64_t now_us);
void sim_device_turn(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us);
void sim_device_drop(struct sim_shard *shard, struct sim_awake *awake);
// Of a device that has nothing to do: does it stay awake; when it wakes if it sleeps, where
// `next_us` is when its runtime has something to do (rooms/device_sleep.c).
bool sim_device_stays(const struct sim_shard *shard, const struct sim_awake *awake);
uint32_t sim_device_sleeps_until_ms(struct sim_shard *shard, struct sim_awake *awake,
                                    uint64_t next_us);
// A request without an answer of use, counted once, however it ends.
void sim_request_in_vain(struct sim_exchange *exchange);
void sim_request_answered(struct sim_exchange *exchange, int status);
// ... where no answer had come: of every request of a device whose process dies.
void sim_requests_cut(struct sim_awake *awake);
bool sim_requests_wait(const struct sim_awake *awake); // for an answer that ends
void sim_device_ready(struct sim_shard *shard, struct sim_awake *awake);
// A check-in of this wake was answered.
// `asked_us`: when the request that stands for it began.
void sim_device_checked_in(struct sim_shard *shard, struct sim_awake *awake, uint64_t asked_us,
                           uint64_t now_us);
struct sim_transport_events sim_device_events(struct sim_shard *shard);
// The virtual process dies: what was not saved or sealed is lost, and it starts again a little
// later.
void sim_device_kill(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us);
// device_rooms.c: where the runtime of an awake device lies. With hints everybody stays awake, and
// all but those heard of lately are folded up (memory/runtime_rooms.h).
void *sim_device_memory(struct sim_awake *awake);
void sim_device_unfold(struct sim_awake *awake); // before anything is asked of its runtime or told
// It has had its turn. Who only listens until then is folded while its runtime is in the caches, so
// that rooms are left to those who wait for answers.
void sim_device_rest(struct sim_awake *awake, uint64_t until_us);
void sim_device_vacate(struct sim_awake *awake);
uint32_t sim_rooms_warm(uint32_t devices); // of a shard with so many: rooms it may use
// fleet_exclusive.c.
void sim_exclusive_done(struct sim_exclusive *exclusive);
// fleet_ports.c: the port table of an awake device.
void sim_awake_ports(struct sim_awake *awake);
// runs/device_runs.c: the runs of its tasks.
struct dev_task_port sim_runs_port(struct sim_awake *awake);
// Scripts are run as soon as the runtime has asked for them. False: the device was killed by one.
bool sim_runs_play(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us);
uint32_t sim_runs_due_ms(const struct sim_awake *awake); // when the next end is told; or WHEEL_NONE
void sim_runs_tell(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us); // ... it is
bool sim_runs_have_room(const struct sim_awake *awake); // may another one begin?
void sim_runs_drop(struct sim_awake *awake);            // nobody hears of those under way
// fleet_statement.c: what signatures permit. A device verified `key`'s signature of `message`.
void sim_statement_verified(struct sim_awake *awake, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                            const uint8_t *message, size_t size);
// The chain begins with the root of the options. The codes of sim_root_chain_begin.
BASE_NODISCARD enum base_status sim_roots_begin(struct sim_shard *shard);
// Roots that came into the store since.
void sim_roots_look(struct sim_shard *shard);
uint8_t sim_shard_version(struct sim_shard *shard, const struct wire_sha256 *manifest);
void sim_shard_describe(struct sim_shard *shard, uint8_t version,
                        const struct wire_manifest *manifest);
// fleet_facts.c: where a device's doings meet what the simulator noted of it (model/facts.h).
BASE_NODISCARD enum base_status sim_fleet_facts_init(struct sim_shard *shard);
// It has booted. What it lost with its storage is not held against it.
void sim_fleet_facts_woke(struct sim_awake *awake);
// It goes to sleep in order.
void sim_fleet_facts_sleeps(struct sim_awake *awake);
// An exchange is over: answered with what is of use, or not.
void sim_fleet_facts_heard(struct sim_awake *awake, const struct sim_exchange *exchange, bool good);
// Versions moved: its counters before, now, and whether another one is active of the task followed.
void sim_fleet_facts_moved(struct sim_awake *awake, const struct dev_stats *stats,
                           uint8_t active_before);

#endif
