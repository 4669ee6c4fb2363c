// The inside of a device runtime, shared by the files of device/core.
//
//   runtime.c         life: init, boot, tick, stop; what may be done when
//   part.h            doors of a part, and what parts tell each other
//   runtime_views.c   what may be seen of a runtime
//   record_save.c     the stored record: when it is read and stored
//   device_state.c    ... and what is in it
//   device_offer.c    may this statement be followed? (signatures, counter, stage, expiry)
//   refusals.c        those that were refused
//   device_slots.c    active and kept version of a task: activate, fall back, revert, remove,
//   collect device_pull.c     brings the content of an accepted version, resuming what is there
//   pull_answer.c     what comes of its requests
//   pull_space.c      room for what it brings
//   device_delta.c    brings a file as the difference to the one that runs
//   device_repair.c   proves stored content, and has what is damaged brought again
//   device_exclusive.c  files for this device or its user alone
//   device_run.c      runs what is due
//   device_trigger.c  runs that behaviour started
//   device_again.c    versions that are activated once more: marks
//   device_shadow.c   versions that run beside the active one, for comparison
//   result_digest.c   what a result says, whatever the order of its keys
//   result_compare.c  do two results agree within tolerances, and where do they differ?
//   result_syntax.c   JSON as results have it
//   device_control.c  check-ins and reports
//   device_hints.c    the hint stream
//   device_trust.c    brings roots, timestamp and snapshots
//   trust_store.c     which of them are believed, and where they lie
//   trust_judge.c     does a release agree with the director and the snapshot?
//   device_lease.c    versions that run on a lease, and versions that must stop
//   device_past.c     what is remembered of tasks that were stopped
//
// One rule holds them together: the runtime acts on nothing that is not stored. Whoever changes
// what must survive a kill sets `dirty`; while it is set no report leaves, no pull and no run
// starts, and nothing is deleted. dev_flush stores the record and clears it.
#ifndef DEV_RUNTIME_H
#define DEV_RUNTIME_H

#include "core/backoff.h"
#include "core/device_past.h"
#include "core/device_time.h"
#include "core/offers_stream.h"
#include "core/outcome_queue.h"
#include "core/part.h"
#include "core/refusals.h"
#include "core/result_compare.h"
#include "core/sse.h"
#include "core/update_state.h"
#include "device/device.h"
#include "device/port.h"
#include "wire/trust/meta.h"
#include "wire/trust/personal.h"
#include "wire/profile.h"
#include "wire/trust/root.h"
#include "wire/trust/statement.h"

#define DEV_PULL_ATTEMPTS_MAX  8 // without progress, then the pull is given up until offered again
#define DEV_PULL_GAIN_BYTES    256 // that were never here before: progress
#define DEV_PULL_CORRUPT_MAX   2   // whole downloads with a wrong hash, then likewise
#define DEV_REPAIRS_MAX        3   // of a version without a good run, then it is refused
#define DEV_REPAIR_RETRY_US    (600 * 1000000ull)   // when damaged content could not be brought
#define DEV_CHECK_EVERY_US     (86400 * 1000000ull) // all content is hashed again this often
#define DEV_DELTA_BYTES_MIN    128                  // smaller files come whole
#define DEV_DELTA_ATTEMPTS_MAX 3             // without a byte of a delta, then the file comes whole
#define DEV_HASH_SLICE_BYTES   (1024 * 1024) // of a partial blob hashed again in one tick
#define DEV_RUN_RETRY_US       (1000 * 1000ull) // when the task port was busy
#define DEV_SAVE_RETRY_BASE_MS 200
#define DEV_SAVE_RETRY_CAP_MS  60000
#define DEV_REPORT_LATEST_US   (60 * 1000000ull) // outcomes that wait for a run's end wait this long
#define DEV_RUN_FILES_MAX      (WIRE_MANIFEST_FILES_MAX + WIRE_PERSONAL_FILES_MAX)
#define DEV_CRASHES_MAX        200
#define DEV_HINTS_CATCH_UP_US  (10 * 1000000ull) // spread of the check-ins after a stream came back
#define DEV_TICK_PASSES        16                // of work in one tick, then others get their turn
#define DEV_ROOT_STEPS_MAX     256 // of the root chain in one cycle; the next cycle goes on
#define DEV_CROSSED_MAX        6   // times in one cycle that what came crossed what was published
#define DEV_TRUST_LOOK_US      (60 * 1000000ull) // between two looks for keys that are not known
#define DEV_RATE_WINDOW_BYTES  4096 // fewer in one request timeout: the download is given up

// Comparisons of a shadow with the active version: so many; of a task that runs only once so many
// as it takes to judge the time, which a single run says too little about.
#define DEV_SHADOW_RUNS          20
#define DEV_SHADOW_TIMED_RUNS    5
#define DEV_SHADOW_REFERENCES    10    // runs of the active version for it since boot
#define DEV_SHADOW_SLOW_US       2000  // less more time a run is never slow
#define DEV_SHADOW_HEAVY_BYTES   16384 // less more memory is never heavy
#define DEV_RESULT_BYTES_DEFAULT 4096  // longest result of an active version that is kept

enum dev_control_kind {
    DEV_CONTROL_NONE,
    DEV_CONTROL_CHECKIN,
    DEV_CONTROL_REPORT,
    DEV_CONTROL_RIDE, // on a request of the app's: a check-in, and perhaps a report
};

enum dev_pull_phase {
    DEV_PULL_IDLE,
    DEV_PULL_PICK,   // find the next blob that is missing
    DEV_PULL_REHASH, // hash what is there of it
    DEV_PULL_ASK,    // request the rest
    DEV_PULL_BODY,   // response under way
    DEV_PULL_DECODE, // make the blob from a delta
};

// What the pull brings now.
enum dev_pull_kind {
    DEV_PULL_SHARED,
    DEV_PULL_PROOF,    // which exclusive files there are for this device
    DEV_PULL_PERSONAL, // their manifest, or one of them
};

// Whose content the pull brings: that of the accepted version, or what is damaged of the others.
enum dev_pull_copy {
    DEV_COPY_ACCEPTED,
    DEV_COPY_ACTIVE,
    DEV_COPY_KEPT,
};

// Bits of dev_task.unproven and .damaged.
#define DEV_UNPROVEN_ACTIVE 1u
#define DEV_UNPROVEN_KEPT   2u

// The run of the active version that its shadow is compared with.
struct dev_beside {
    uint64_t digest; // of the result
    uint64_t duration_us;
    uint64_t run_index;
    uint32_t heap_peak_bytes;
};

// The result itself, for as long as the comparison takes; of one shadow at a time.
struct dev_kept_result {
    char *bytes; // behind the tasks in the caller's memory
    uint32_t capacity;
    uint32_t size;
    uint64_t shadow_id; // whose comparison it is for; 0: none
};

// A mark that was followed, or is to be.
struct dev_again {
    uint64_t rollout_id; // 0: none
    uint8_t attempt;
};

// What the device holds of one task, or of its shadow: that is a task of the same name with an id
// of its own, whose active version is the shadow. All but the members behind the name is stored.
struct dev_task {
    uint64_t id;
    uint64_t floor;              // no release below it is followed: of what ran well here
    uint64_t active_floor;       // that the statement of `active` names; the task's once that ran
    uint64_t accepted_floor;     // likewise of `accepted`
    struct wire_sha256 active;   // runs
    struct wire_sha256 kept;     // last good one beside it
    struct wire_sha256 accepted; // named by the last accepted statement
    // By which statement each of the three is here, and the one of the highest counter ever.
    struct dev_approval active_by;
    struct dev_approval kept_by;
    struct dev_approval accepted_by;
    struct dev_approval newest;
    struct wire_sha256 newest_manifest;
    // Personal manifests of the three; zero: no exclusive files. The last one is known once
    // accepted_asked is set, which is only while it is pulled.
    struct wire_sha256 active_personal;
    struct wire_sha256 kept_personal;
    struct wire_sha256 accepted_personal;
    uint64_t active_rollout;
    uint64_t kept_rollout;
    uint64_t blocked; // version id this device refuses, because it failed here last; those before
                      // it are among the refusals
    uint64_t last_run_s;
    uint32_t accepted_bytes; // of the manifest
    uint32_t accepted_personal_bytes;
    bool accepted_asked;
    uint32_t every_s;       // of the active version
    uint32_t runs;          // of the active version since its activation
    uint8_t state;          // enum dev_update_state
    uint8_t accepted_stage; // stage kind of the accepted statement
    bool leased;            // the accepted version runs only while lease_until_s is ahead
    bool triggered;         // behaviour starts the active version too
    uint64_t lease_until_s;
    uint64_t listed;             // highest counter a snapshot listed for the task
    struct dev_again again;      // the last mark that was followed
    struct dev_again again_next; // is followed when the content of the active version is proven
    bool placebo;    // ... was of the active version: what comes of it is told for that rollout
    uint8_t crashes; // of the active version on trial
    bool running;    // a run on trial was started and has not ended
    bool failure_reported; // of the pull of the accepted version
    bool offered;          // by the check-in under way; not stored
    bool moved;            // another version came into place since that began; not stored
    bool shadow;           // stored with the next five
    uint16_t slow_percent; // of the shadow's statement
    uint16_t memory_percent;
    uint64_t shadow_us; // time of all its runs
    uint64_t beside_us; // ... and of those beside them
    struct wire_tolerances tolerances;
    uint8_t name_size;
    char name[WIRE_TASK_NAME_MAX];
    uint8_t references; // runs of the active version for this shadow alone
    bool reference;     // the run that is due is one of these
    bool over;          // this shadow is to be dropped
    bool leftover; // content of a pull that was given up is there, for when it is offered again
    uint64_t run_due_us;   // UINT64_MAX: not due
    uint64_t failure_mark; // of the last failure reported for the active version; 0: none
    struct dev_beside beside;
    // Content (device_repair.c).
    uint8_t unproven;       // versions whose content is to be hashed again
    uint8_t damaged;        // ... is known to be: if it is the active one, it does not run
    uint8_t repairs;        // of the active version since a run of it was good
    uint8_t renewed;        // times since boot it was mended or activated again, modulo 256
    uint32_t damage_mark;   // of the file told last; 0: none
    uint64_t repair_due_us; // not before
};

struct dev_settings {
    uint64_t device_id;
    uint32_t trusted_key_count;
    uint32_t signature_threshold;
    const uint8_t *root; // NULL: trusted_keys count
    size_t root_bytes;
    uint32_t mirrors;
    uint32_t tasks_max;
    uint32_t outcomes_max;
    uint32_t result_bytes_max;
    uint32_t checkin_interval_s;
    bool own_pace; // that is not to be changed
    uint32_t checkin_spread_s;
    uint32_t backoff_base_ms;
    uint32_t backoff_cap_ms;
    uint64_t request_timeout_us;
    uint64_t report_delay_us;
    uint64_t born_s;
    uint32_t crash_limit;
    uint32_t ride_wait_s;
    bool hints;
    char device_hex[WIRE_DEVICE_HEX + 1];
    uint8_t trusted_keys[DEV_TRUSTED_KEYS_MAX][WIRE_PUBLIC_KEY_BYTES];
};

// The check-in or report under way, and when the next ones are due.
struct dev_control {
    uint64_t checkin_due_us;
    uint64_t report_due_us;  // UINT64_MAX: nothing to report
    uint64_t not_before_us;  // back-off
    uint64_t quiet_until_us; // what is due waits for a ride until then
    uint64_t deadline_us;
    uint64_t reported_seq; // last number in the report under way
    uint32_t exchange;     // 0: none
    uint32_t retry_after_s;
    int status; // 0: no head yet
    uint8_t kind;
    bool pairs_sent;
    bool pairs_wanted;
    bool more_offers;    // check in again when the pulls are done
    bool ride_reports;   // the ride under way has a report
    uint64_t ride_token; // ... and is answered under this
    bool checkin_first;  // the last report failed: it must not keep the device from checking in
    // A check-in asked for while one was under way, so long after its end; UINT32_MAX: none.
    uint32_t again_ms;
    struct dev_backoff backoff;
    struct dev_offers_stream offers;
};

// The difference that brings the blob of the pull.
struct dev_delta {
    struct wire_sha256 dictionary; // zero: the blob comes whole
    struct wire_sha256 name;       // under which the difference is stored
    struct wire_sha256 given_up;   // blob that no delta could make
    uint64_t have;                 // bytes stored of it
    void *decoder;                 // NULL: not decoding; otherwise the two are mapped
    const uint8_t *old_bytes;
    size_t old_size;
    const uint8_t *bytes;
    size_t size;
    uint8_t codings; // DEV_DELTA_*: there is memory for these
    bool asked;      // by the request under way
    bool body;       // the response under way is a delta
};

struct dev_pull {
    struct dev_delta delta;
    struct dev_hash_state hash;
    struct wire_sha256 blob;
    struct wire_sha256 root; // of the tree of exclusive files
    uint8_t proof[WIRE_PROOF_BYTES_MAX];
    uint32_t proof_bytes;
    uint64_t version;  // id of the one that is brought
    uint64_t expected; // bytes of the blob
    uint64_t have;     // of these stored
    uint64_t hashed;
    uint64_t reached; // most that was ever stored of the blob, or of its delta
    uint64_t not_before_us;
    uint64_t deadline_us; // an exchange has brought DEV_RATE_WINDOW_BYTES more by then
    uint32_t exchange;
    uint32_t task;   // index
    uint32_t file;   // files before this one are complete
    uint32_t window; // bytes since the deadline was moved
    uint32_t source; // where content is asked for: one on with each failure
    uint32_t retry_after_s;
    int status;
    uint16_t gained;  // bytes beyond `reached` since the last progress, DEV_PULL_GAIN_BYTES at most
    uint8_t attempts; // since the last progress
    uint8_t corrupt;  // whole downloads that were worthless
    uint8_t phase;
    uint8_t kind;  // enum dev_pull_kind
    uint8_t copy;  // enum dev_pull_copy
    bool any_size; // the blob's size is not known; `expected` is the most it may have
    bool proving;  // the sealed blob is hashed again
    bool fresh;    // the blob was sealed by this pull
    bool reserved; // room for all of it
    bool required; // the version is not for a device without exclusive files
    bool refused;  // the response under way is of no use
    struct dev_backoff backoff;
};

struct dev_run {
    struct wire_sha256 version;
    const uint8_t *manifest; // mapped
    size_t manifest_bytes;
    struct wire_sha256 personal;
    const uint8_t *personal_manifest; // mapped; NULL: no exclusive files
    size_t personal_bytes;
    uint64_t rollout;
    uint64_t started_us;
    uint32_t run; // 0: none
    uint32_t task;
    bool reference; // for a shadow alone: nobody is told
    bool triggered; // with the input of runtime->triggered
};

enum dev_triggered_phase {
    DEV_TRIGGERED_NONE,
    DEV_TRIGGERED_WAITING,
    DEV_TRIGGERED_RUNNING,
    DEV_TRIGGERED_BESIDE, // the run ended; its shadow gets the same input
};

// The one run that behaviour asks for.
struct dev_triggered {
    struct dev_run_input input;
    uint64_t task_id;
    uint64_t not_before_us;
    enum dev_triggered_phase phase;
};

struct dev_hints {
    uint64_t due_us;
    uint32_t exchange;
    bool accepted; // status 200
    bool missed;   // there was a stream before, so hints may have been missed
    struct dev_backoff backoff;
    struct dev_sse sse;
};

enum dev_trust_phase {
    DEV_TRUST_IDLE,
    DEV_TRUST_ROOT, // asks for the next root until there is none
    DEV_TRUST_TIMESTAMP,
    DEV_TRUST_SNAPSHOT,
};

// What only a device with a root needs: behind the tasks in the caller's memory.
struct dev_trust_work {
    struct wire_director director;
    uint8_t buffer[WIRE_META_BYTES_MAX];
};

struct dev_trust {
    // Stored.
    uint64_t root_version;
    uint64_t timestamp_version; // 0: none
    uint64_t timestamp_expires_s;
    uint64_t order;               // of the last director's answer that was followed
    struct wire_sha256 root;      // blob of the newest root; zero: the one of the settings
    struct wire_sha256 timestamp; // blob; zero: none
    // Not stored.
    struct dev_trust_work *work; // NULL without a root
    struct dev_hash_state hash;  // of the snapshot under way
    struct wire_sha256 snapshot; // under way
    uint64_t snapshot_bytes;
    uint64_t deadline_us;
    uint64_t not_before_us;
    uint64_t look_not_before_us; // for a newer root, for a signature's sake
    size_t fill;
    size_t window; // bytes since the deadline was moved
    uint32_t exchange;
    uint32_t steps;   // of the root chain in this cycle
    uint32_t crossed; // times in this cycle that what came was older, or not what was just named
    int status;
    uint8_t phase;
    bool wanted;      // a cycle is to be done
    bool lost;        // `root` is named, and not here: it is brought first, by its hash
    bool late;        // a timestamp or snapshot had run out, and none was taken since
    bool overdue;     // the answer under way came under a root that ran out
    bool changed;     // something new came in this cycle: check in again
    bool misdirected; // it began with one that does not: what follows is not looked at
    bool directed;    // the answer under way began with a director's answer that holds
    bool asked;       // a nonce is out
    uint8_t nonce[WIRE_NONCE_BYTES];
    uint8_t scenario_size; // whose snapshot is missing; 0: none
    char scenario[WIRE_SCENARIO_MAX];
    uint64_t untaken; // hash of the scenario whose snapshot was refused last; 0: none
    struct dev_backoff backoff;
};

struct dev_runtime {
    const struct dev_ports *ports;
    struct dev_settings settings;
    struct dev_stats stats;
    struct dev_task *tasks; // tasks_max of them
    struct dev_past *past;  // likewise
    struct dev_kept_result kept_result;
    struct dev_outcome_queue outcomes;
    uint8_t *attrs; // encoded
    uint32_t attrs_bytes;
    uint32_t task_count;
    uint32_t past_count;
    uint32_t epoch; // 0: not drawn yet
    uint32_t next_exchange;
    uint32_t next_run;
    struct dev_time time;
    struct dev_refusals refusals;
    uint32_t told_interval_s; // between check-ins, by the gateway; 0: not yet
    uint64_t save_not_before_us;
    struct dev_backoff save_backoff;
    bool booted;
    bool dirty;
    bool unsaved;          // the last save failed
    bool garbage;          // stored: blobs may be there that no slot names
    bool collect_due;      // not stored: try to collect them now
    bool past_due;         // not stored: a task may be over
    uint64_t check_due_us; // all content is unproven from then on
    struct dev_control control;
    struct dev_pull pull;
    struct dev_run run;
    struct dev_triggered triggered;
    struct dev_hints hints;
    struct dev_trust trust;
};

// A manifest on the stack while its bytes are mapped.
struct dev_manifest {
    struct wire_sha256 name;
    const uint8_t *bytes;
    size_t size;
    struct wire_manifest parsed;
};

// A personal manifest likewise; `bytes` NULL: there is none, and no file in it.
struct dev_personal {
    struct wire_sha256 name;
    const uint8_t *bytes;
    size_t size;
    struct wire_personal parsed;
};

// ---- runtime.c
uint64_t dev_now_us(const struct dev_runtime *runtime);
struct dev_time_now dev_clocks(const struct dev_runtime *runtime);
// Seconds since 1970 that expiry is judged by (core/device_time.h).
uint64_t dev_wall_s(const struct dev_runtime *runtime);
uint64_t dev_random(struct dev_runtime *runtime);
uint64_t dev_random_below_us(struct dev_runtime *runtime, uint64_t span_us);
uint32_t dev_exchange_new(struct dev_runtime *runtime);
// Stores the record when `dirty`. False: it is still to be stored, and nothing may be acted upon.
bool dev_flush(struct dev_runtime *runtime, uint64_t now_us);
// Blobs may have become useless: collect them when all is stored.
void dev_garbage_made(struct dev_runtime *runtime);
struct dev_task *dev_task_find(struct dev_runtime *runtime, uint64_t task_id);
struct base_str dev_task_name(const struct dev_task *task);

// ---- record_save.c
// At boot: reads the record, or the one before it. Codes: the storage port's.
BASE_NODISCARD enum base_status dev_record_restore(struct dev_runtime *runtime);
// Stores it when something changed.
extern const struct dev_part dev_record_part;

// ---- device_state.c
#define DEV_STATE_TASK_MAX                                                                         \
    (1 + WIRE_TASK_NAME_MAX + 21 * 10 + 7 * WIRE_SHA256_BYTES + 9 + 5 + 3 * 9 + 19 +               \
     WIRE_TOLERANCES_BYTES_MAX)
#define DEV_STATE_SAVE_MAX                                                                         \
    (256 + DEV_REFUSALS_BYTES_MAX + DEV_TASKS_MAX * (DEV_STATE_TASK_MAX + DEV_PAST_BYTES_MAX) +    \
     WIRE_REPORT_MAX * DEV_OUTCOME_ENTRY_COMMON + DEV_OUTCOME_ENTRY_MAX)
BASE_NODISCARD enum base_status dev_state_encode(const struct dev_runtime *runtime, uint8_t *out,
                                                 size_t capacity, size_t *out_size);
// Fills tasks, outcomes and the rest of the stored members. CORRUPT leaves the runtime's stored
// members in an undefined state.
BASE_NODISCARD enum base_status dev_state_decode(struct dev_runtime *runtime, const uint8_t *bytes,
                                                 size_t size);
// Invariants of one task's record; for the decoder and dev_validate.
bool dev_task_valid(const struct dev_task *task);

// ---- device_offer.c
// Judges one envelope and, when it may be followed, notes what to do in the task's record. Refusals
// are reported once.
// With WIRE_OFFER_FLAG_RETRY among the answer's `flags` a version that failed here may be tried
// again. `asked`: it came in the answer to a check-in; what leads back or stops comes in no other
// way, and elsewhere only makes the device check in.
void dev_offer_take(struct dev_runtime *runtime, const uint8_t *envelope, size_t size,
                    uint8_t flags, bool asked);
// An order is refused: reported once. `outcome` names what it is about; kind, code and detail are
// filled in.
void dev_offer_refuse(struct dev_runtime *runtime, uint64_t mark, enum base_status status,
                      struct wire_outcome *outcome);
// A check-in begins: nothing has been offered by it.
void dev_offers_none(struct dev_runtime *runtime);
// A check-in was answered in full. An offer stands as long as check-ins repeat it: what is being
// pulled for an INSTALL that was not offered again is given up; where one came into place while the
// answer was under way, the device asks again. With WIRE_OFFER_FLAG_SHADOWS among `flags` the
// shadows that were not offered are over.
void dev_offers_withdrawn(struct dev_runtime *runtime, uint8_t flags);

// ---- device_slots.c
BASE_NODISCARD enum base_status dev_manifest_open(struct dev_runtime *runtime,
                                                  const struct wire_sha256 *name,
                                                  struct dev_manifest *out);
void dev_manifest_close(struct dev_runtime *runtime, struct dev_manifest *manifest);
// Applies `event`; CONFLICT when the machine does not allow it, and nothing changed.
BASE_NODISCARD enum base_status dev_slot_event(struct dev_task *task, enum dev_update_event event);
// The active version ran well: the floor that its statement names is the task's.
void dev_slot_ran(struct dev_task *task);
void dev_slot_activate(struct dev_runtime *runtime, struct dev_task *task,
                       const struct wire_manifest *manifest);
// The version failed here, and is refused from now on, as is what failed before it.
void dev_slot_block(struct dev_runtime *runtime, struct dev_task *task, uint64_t version_id);
bool dev_slot_blocks(const struct dev_runtime *runtime, const struct dev_task *task,
                     uint64_t version_id);
void dev_slot_unblock(struct dev_runtime *runtime, struct dev_task *task, uint64_t version_id);
// Back to the kept version, or to none. False: nothing is active.
bool dev_slot_fall_back(struct dev_runtime *runtime, struct dev_task *task);
// The active version failed here: refuse it from now on and go back to the kept one, or to none.
void dev_slot_give_up(struct dev_runtime *runtime, struct dev_task *task);
// The mark `again_next` is followed: the active version, whose content was just proven, goes
// through what dev_slot_activate begins.
void dev_slot_again(struct dev_runtime *runtime, struct dev_task *task,
                    const struct wire_manifest *manifest);
// The active version failed on trial: given up, unless a mark put it there; then it stays.
void dev_slot_failed(struct dev_runtime *runtime, struct dev_task *task);
// The last mark is of no effect any more: the active version is what it was before.
void dev_slot_stand(struct dev_task *task);
// Does what was accepted lead back from the active version, to an older release?
bool dev_slot_leads_back(const struct dev_task *task);
// The kept version runs again, as ordered.
void dev_slot_revert(struct dev_runtime *runtime, struct dev_task *task);
// Nothing of the task runs or is kept any more, as ordered.
void dev_slot_remove(struct dev_runtime *runtime, struct dev_task *task);
// The active version may not run any more, for `why`: back to the kept one, or to none. It is not
// blocked.
void dev_slot_withdraw(struct dev_runtime *runtime, struct dev_task *task, enum base_status why);
// Nothing is accepted any more: it was stopped.
void dev_slot_forget_accepted(struct dev_runtime *runtime, struct dev_task *task);
// The task gives its place back.
void dev_task_drop(struct dev_runtime *runtime, struct dev_task *task);
void dev_slot_forget_kept(struct dev_runtime *runtime, struct dev_task *task);
// Nothing is active any more, and nothing is said about it.
void dev_slot_empty(struct dev_runtime *runtime, struct dev_task *task);
// What was accepted is not to be brought any more.
void dev_slot_abandon(struct dev_runtime *runtime, struct dev_task *task);
// A shadow failed here, and is not tried again.
void dev_slot_fail_shadow(struct dev_runtime *runtime, struct dev_task *shadow);

// ---- device_collect.c
extern const struct dev_part dev_collect_part;
// A check-in was answered in full: content of pulls that were given up, and whose version was not
// offered again, is collected.
void dev_collect_leftovers(struct dev_runtime *runtime);

// ---- device_pull.c
extern const struct dev_part dev_pull_part;
void dev_pull_stop(struct dev_runtime *runtime);
bool dev_pull_is_due(const struct dev_runtime *runtime, uint64_t now_us);
bool dev_pull_is_idle(const struct dev_runtime *runtime);
bool dev_pull_valid(const struct dev_runtime *runtime); // for dev_validate

// ---- device_repair.c
// A file of a version (`copy`) of `task` is not what it should be: reported once. The active
// version does not run until its content is whole again.
void dev_damage_found(struct dev_runtime *runtime, struct dev_task *task, enum dev_pull_copy copy,
                      struct base_str file);
// Likewise of signed metadata, which nothing is followed without.
void dev_meta_damaged(struct dev_runtime *runtime, const char *what);
// Is any of a version's content to be proven, or brought again? The pull asks; *out_due_us: when.
bool dev_repair_wanted(const struct dev_task *task, enum dev_pull_copy copy, uint64_t *out_due_us);
const struct wire_sha256 *dev_copy_version(const struct dev_task *task, enum dev_pull_copy copy);
// The version's content was proven, or brought; or it could not be brought.
void dev_repair_done(struct dev_runtime *runtime, struct dev_task *task, enum dev_pull_copy copy);
void dev_repair_failed(struct dev_runtime *runtime, struct dev_task *task, enum dev_pull_copy copy);
// At boot, and once a day: the content of all versions is to be proven.
extern const struct dev_part dev_check_part;

// ---- device_exclusive.c
// The personal manifest `name`; a zero one gives none. NOT_FOUND: it is not here, or not whole;
// the input codes: malformed.
BASE_NODISCARD enum base_status dev_personal_open(struct dev_runtime *runtime,
                                                  const struct wire_sha256 *name,
                                                  struct dev_personal *out);
void dev_personal_close(struct dev_runtime *runtime, struct dev_personal *personal);
// The pull asks next which personal manifest this device gets in the tree of `manifest`.
void dev_proof_ask(struct dev_runtime *runtime, const struct wire_manifest *manifest);
void dev_proof_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);
// The answer came whole: the task knows its personal manifest, when it leads to the root. HASH,
// TARGET (somebody else's leaf), INVALID and other input codes.
BASE_NODISCARD enum base_status dev_proof_take(struct dev_runtime *runtime);
// The question is answered with no; or it is to be asked again.
void dev_proof_none(struct dev_runtime *runtime);
void dev_proof_forget(struct dev_runtime *runtime);

// ---- device_delta.c
bool dev_delta_in_use(const struct dev_pull *pull);
// Looks for a dictionary for the blob that was just picked. May move the pull to DECODE, when the
// whole difference is here already.
void dev_delta_choose(struct dev_runtime *runtime, const struct wire_manifest_file *file);
// Is it a coding of deltas that the request under way listed?
bool dev_delta_asked(const struct dev_pull *pull, enum dev_encoding encoding);
// The head of a delta, as asked for. False: of no use.
bool dev_delta_head(struct dev_runtime *runtime, const struct dev_response_head *head);
BASE_NODISCARD enum base_status dev_delta_body(struct dev_runtime *runtime, const uint8_t *bytes,
                                               size_t size);
// One slice into the blob. CORRUPT and the port's errors: this delta does not make it.
BASE_NODISCARD enum base_status dev_delta_decode(struct dev_runtime *runtime, bool *out_end);
void dev_delta_close(struct dev_runtime *runtime);   // unmaps; what is stored stays
void dev_delta_give_up(struct dev_runtime *runtime); // the blob comes whole from now on
void dev_delta_drop(struct dev_runtime *runtime);    // it did its work, or is not needed

// ---- device_run.c
extern const struct dev_part dev_run_part;
bool dev_run_is_busy(const struct dev_runtime *runtime);
// The version that runs, or ran last.
const struct wire_sha256 *dev_run_version(const struct dev_runtime *runtime);
bool dev_run_valid(const struct dev_runtime *runtime); // for dev_validate

BASE_NODISCARD enum base_status dev_run_start(struct dev_runtime *runtime, struct dev_task *task);
// The mark of a run on trial is on disk; otherwise it must not start yet.
bool dev_run_marked(struct dev_runtime *runtime, struct dev_task *task, uint64_t now_us);
// The version could not even be started. *out_end is what that came to; false: try again at
// task->run_due_us.
bool dev_run_start_failed(struct dev_runtime *runtime, struct dev_task *task,
                          enum base_status status, uint64_t now_us, struct dev_task_end *out_end);

// ---- device_trigger.c
extern const struct dev_part dev_triggered_part;
// A run with the input ended, or was stopped.
void dev_triggered_end(struct dev_runtime *runtime, const struct dev_task *task,
                       const struct dev_task_end *end);
void dev_triggered_stopped(struct dev_runtime *runtime);
// Does a run of `task` that starts now get the input?
bool dev_triggered_for(const struct dev_runtime *runtime, const struct dev_task *task);
const struct dev_run_input *dev_triggered_input(const struct dev_runtime *runtime);
bool dev_triggered_is_busy(const struct dev_runtime *runtime);

// ---- device_again.c
// The marks of a check-in's answer, after its offers. `all`: the answer was complete, so a mark
// that it does not repeat was withdrawn.
void dev_again_take(struct dev_runtime *runtime, const struct wire_again *marks, uint32_t count,
                    bool all);
// Is there one among the marks that would be followed?
bool dev_again_news(struct dev_runtime *runtime, const struct wire_again *marks, uint32_t count);
// For which rollout the outcomes of the active version are told.
uint64_t dev_told_rollout(const struct dev_task *task);

// ---- device_shadow.c
// The shadow of a task, or the task of a shadow; NULL: there is none.
struct dev_task *dev_shadow_other(struct dev_runtime *runtime, const struct dev_task *task);
// May a verified shadow statement be followed? NOT_FOUND: nothing runs that it could run beside;
// EXISTS: the device went further than that already.
BASE_NODISCARD enum base_status dev_shadow_admit(const struct dev_runtime *runtime,
                                                 const struct wire_release *release);
void dev_shadow_follow(struct dev_runtime *runtime, struct dev_task *shadow,
                       const struct wire_release *release, bool is_new, bool retry);
// A run of the active version of `task` ended: its shadow runs next, to be compared with it.
void dev_shadow_beside(struct dev_runtime *runtime, const struct dev_task *task,
                       const struct dev_task_end *end);
// A run of the shadow ended.
void dev_shadow_judge(struct dev_runtime *runtime, struct dev_task *shadow,
                      const struct dev_task_end *end);
// Drops what is over and makes runs due that only shadows need.
extern const struct dev_part dev_shadow_part;

// ---- result_digest.c
// Equal for results that say the same: members of objects in any order, spaces ignored. A text
// that is no JSON, or nested too deep, is taken byte by byte. Numbers are compared as written.
uint64_t dev_result_digest(struct base_str json);

// ---- device_control.c
// A check-in at `due_us` or before. One under way may have been answered too early for what this is
// about: then it is another one.
void dev_checkin_by(struct dev_runtime *runtime, uint64_t due_us);
// As soon as may be; a ride that is expected is waited for.
void dev_checkin_soon(struct dev_runtime *runtime);
// Begins a check-in: its profile is in `text`, its question, on a device with a root, in `nonce`
// (else empty). TOO_LARGE: nothing has begun.
BASE_NODISCARD enum base_status dev_checkin_begin(struct dev_runtime *runtime, char *text,
                                                  size_t capacity, size_t *out_size,
                                                  char nonce[WIRE_ASK_TEXT + 1]);
// Encodes the oldest outcomes that fit `capacity`, and notes which. NOT_FOUND: there is none;
// TOO_LARGE; other codes: the oldest can never be sent.
BASE_NODISCARD enum base_status dev_report_encode(struct dev_runtime *runtime, uint8_t *out,
                                                  size_t capacity, size_t *out_size);
// The report that was encoded last is durable; or the gateway will never take it.
void dev_report_done(struct dev_runtime *runtime);
void dev_report_refused(struct dev_runtime *runtime);
extern const struct dev_part dev_control_part;
// ---- device_ride.c
// From now on what is due waits for a ride, so long as settings say.
void dev_ride_expect(struct dev_runtime *runtime);
void dev_control_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);
void dev_control_end(struct dev_runtime *runtime, enum base_status status);
bool dev_control_is_busy(const struct dev_runtime *runtime);

// ---- outbox.c
// Queues an outcome for the next report.
void dev_outcome(struct dev_runtime *runtime, const struct wire_outcome *outcome);

// ---- trust_store.c: what the record holds of it; `ordered`: with the last order
void dev_trust_write(const struct dev_runtime *runtime, struct base_writer *writer);
void dev_trust_read(struct dev_runtime *runtime, struct base_reader *reader, bool ordered);

// ---- device_trust.c: the cycle root, timestamp, snapshot; on devices with a root
extern const struct dev_part dev_trust_part;
bool dev_trust_is_rooted(const struct dev_runtime *runtime); // it has a root, so all below applies
bool dev_trust_is_busy(const struct dev_runtime *runtime);
// The director's answer that came last.
const struct wire_director *dev_trust_answer(const struct dev_runtime *runtime);
// Asks for a cycle when the timestamp ran out. Called after a check-in.
void dev_trust_age(struct dev_runtime *runtime);
// Is it a refusal for the time alone? Then device, gateway or signer has a wrong clock, or somebody
// holds back what is newer.
bool dev_trust_is_late(enum base_status status);
// A statement's signatures did not verify. True: its keys may be those of a newer root, which is
// brought first, and then the device asks again. Once per statement, and seldom.
bool dev_trust_looks(struct dev_runtime *runtime, uint64_t mark);
// Something signed was refused: counted, logged, and reported once.
void dev_trust_refused(struct dev_runtime *runtime, const char *what, enum base_status status);

// ---- trust_judge.c
// Draws the nonce of a check-in and writes the header's value.
void dev_trust_ask(struct dev_runtime *runtime, char text[WIRE_ASK_TEXT + 1]);
// The first envelope of an answer: a director's answer to the question that is out.
void dev_trust_director(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);
// May a release be followed, as far as director, timestamp and snapshot go? BUSY: metadata is to
// be brought first, then the device asks again.
BASE_NODISCARD enum base_status dev_trust_release(struct dev_runtime *runtime,
                                                  const struct wire_release *release);
// May a STOP be followed, as far as the director goes? BUSY: its answer was refused already.
BASE_NODISCARD enum base_status dev_trust_names_stop(const struct dev_runtime *runtime,
                                                     uint64_t task_id);
// May a mark for `task` be followed, as far as director, timestamp and snapshot go? As above.
BASE_NODISCARD enum base_status dev_trust_again(struct dev_runtime *runtime,
                                                const struct dev_task *task,
                                                const struct wire_again *mark);
// Something of the director's answer is followed: its order was the last one.
void dev_trust_followed(struct dev_runtime *runtime);
// Signatures of a release alone.
BASE_NODISCARD enum base_status dev_trust_signatures(struct dev_runtime *runtime,
                                                     const struct wire_envelope *envelope,
                                                     const struct wire_release *release);

// ---- device_lease.c
// The statement a task follows: does its version run on a lease, and how long?
void dev_lease_grant(struct dev_runtime *runtime, struct dev_task *task,
                     const struct wire_release *release);
// Likewise of a mark that is followed: the lease of its active version, if it has one.
void dev_lease_again(struct dev_runtime *runtime, struct dev_task *task);
extern const struct dev_part dev_lease_part;
// When a check-in is due that renews the leases; UINT64_MAX: there is none.
uint64_t dev_lease_renew_us(const struct dev_runtime *runtime);
bool dev_lease_any(const struct dev_runtime *runtime);

// ---- device_hints.c
extern const struct dev_part dev_hints_part;

#endif
