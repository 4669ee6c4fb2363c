// A gateway core without sockets for tests: a store in a fresh folder, a clock that is set by hand,
// one worker whose messages wait in a queue until the test pumps them, and builders for everything
// a device or an operator sends.
#ifndef CORE_RIG_H
#define CORE_RIG_H

#include "base/prng.h"
#include "svc/core_private.h"
#include "svc/device/devices.h"
#include "svc/rollout/rollouts.h"
#include "svc/content/blob.h"
#include "wire/manifest.h"
#include "wire/trust/offer.h"
#include "wire/profile.h"
#include "wire/report.h"
#include "wire/trust/meta.h"

#include <pthread.h>

#define RIG_VERSIONS_MAX 8

struct rig_worker {
    pthread_mutex_t lock;
    struct gw_message *first;
    struct gw_message *last;
    struct gw_worker *worker;
};

struct rig {
    char dir[64];
    _Atomic uint64_t mono_us;
    _Atomic uint64_t wall_us;
    uint64_t expires_s; // of statements; 0: not soon
    uint64_t issued_s;  // ... 0: 1
    bool control_thread;
    bool keep_dir;
    uint64_t map_bytes_max;
    uint32_t commit_delay_us;
    uint32_t hint_spread_ms;
    uint32_t hint_rate_per_s;
    bool device_auth_required;
    uint32_t enroll_rate_per_s;
    uint32_t unproven_records;
    uint32_t unproven_per_address;
    uint64_t peer;          // whom reports come from
    uint16_t tenant;        // of the tasks that are made
    const char *credential; // shown with every check-in and report; NULL: none
    bool certified;         // ... each device shows a certificate of its own
    struct base_prng prng;
    const struct gw_signer_port *signer; // NULL: no roles
    char nonce[WIRE_ASK_TEXT_MAX + 1];   // sent with check-ins; "": none
    uint16_t priority;                   // of rollouts made from now on
    const uint64_t *floors;              // of the stages of rig_rollout; NULL: 0
    struct pol_arm arm;
    struct base_str declaration; // of versions made from now on
    bool only_reaching;          // of rollouts made from now on: refused when nobody is targeted
    bool accept_cost;            // ...
    uint64_t counter;            // ... of their statements; 0: the task's next
    uint64_t more_bytes;         // ... which say that the manifest has so many more
    bool only_proven;            // ... which otherwise trust devices without credentials
    // Changes how the stages of rig_rollout are conducted, when set.
    void (*conduct)(struct pol_stage *stage, uint32_t index);
    struct gw_core *core;
    struct rig_worker worker;
};

// Makes the folder; fields may be set before rig_start.
void rig_init(struct rig *rig);
void rig_start(struct rig *rig); // core and worker; fails the test when that fails
void rig_stop(struct rig *rig);  // the folder stays: start again to restart
void rig_done(struct rig *rig);  // stops and removes the folder
void rig_advance_s(struct rig *rig, uint64_t seconds);

void rig_worker_start(struct rig_worker *worker, struct gw_core *core);
void rig_worker_stop(struct rig_worker *worker);
bool rig_worker_pump(struct rig_worker *worker); // runs what is queued; false: nothing was
bool rig_pump(struct rig *rig);
// Ticks and pumps until neither does anything, at most 100 rounds.
void rig_settle(struct rig *rig);

// ---- Exchanges

struct rig_exchange {
    struct gw_exchange exchange; // first
    struct base_arena arena;
    _Atomic bool finished;
};
void rig_exchange_init(struct rig_exchange *exchange, enum gw_method method, const char *path);
void rig_exchange_done(struct rig_exchange *exchange);
// Handles it and pumps (ticking too when `rig` has no control thread) until it is finished.
void rig_run(struct rig *rig, struct rig_exchange *exchange);
struct base_str rig_header(const struct rig_exchange *exchange, const char *name);

// ---- What a device sends

struct rig_device {
    uint64_t id;
    struct wire_attrs attrs;
    uint32_t pair_count;
    struct wire_profile_pair pairs[40];
    uint32_t tasks_max; // 0: a device of before, which says nothing of what follows
    uint32_t interval_s;
    bool own_pace;
    bool marks; // it knows marks (wire/trust/again.h); tasks_max says something
    uint32_t refused_count;
    uint64_t refused[8];
    uint32_t epoch;
    uint64_t seq; // next
};
void rig_device_init(struct rig_device *device, uint64_t id);
void rig_device_attr(struct rig_device *device, const char *name, const char *text);
struct wire_profile_pair *rig_device_task(struct rig_device *device, const char *task);
uint64_t rig_device_digest(const struct rig_device *device);
// Texts of both headers; `text` holds WIRE_PROFILE_TEXT_MAX.
struct base_str rig_device_profile(const struct rig_device *device, bool pairs, char *text);

// One check-in: the status, and the offers (copied, envelopes borrowed from `exchange`).
int rig_checkin(struct rig *rig, const struct rig_device *device, bool pairs,
                struct rig_exchange *exchange, struct wire_offers *out);
// The release in the i-th offer.
void rig_offer_release(const struct wire_offers *offers, uint32_t i, struct wire_release *out);
// Is the i-th offer the order to run nothing of a task?
bool rig_offer_stops(const struct wire_offers *offers, uint32_t i, uint64_t *out_task_id);
// Takes every offer into the device's pairs, as a device would. Returns how many.
uint32_t rig_device_take(struct rig_device *device, const struct wire_offers *offers);

// Sends outcomes of a rollout; the status. Seqs continue.
int rig_report(struct rig *rig, struct rig_device *device, const struct gw_rollout_view *rollout,
               const enum wire_outcome_kind *kinds, uint32_t count);
int rig_send_report(struct rig *rig, const struct wire_report *report);

// ---- What an operator does, directly on the control functions

struct rig_stage {
    const char *name;
    enum pol_stage_kind kind;
    uint16_t max_bucket;
    // Audience: attr == value, without value an expression; NULL: everybody.
    const char *attr;
    const char *value;
    uint32_t min_sample;
    uint32_t max_failure_ppm;
    uint64_t min_dwell_us;
};

// Creates the task if need be, stores a manifest with one file and registers it.
void rig_version(struct rig *rig, const char *task, const char *version, struct wire_sha256 *out);
// Creates a rollout; `target_attr` NULL: everybody; `target_value` NULL: target_attr is a text of
// the targeting language.
enum base_status rig_rollout(struct rig *rig, uint64_t id, const char *task,
                             const struct wire_sha256 *manifest, const char *target_attr,
                             const char *target_value, const struct rig_stage *stages,
                             uint32_t stage_count, struct gw_rollout_view *out,
                             struct base_error *error);
// Numbers of a simulation: one person types them, another approves.
void rig_override(struct rig *rig, uint64_t id, uint64_t completed, uint64_t failed);
void rig_command(struct rig *rig, uint64_t id, enum pol_command command,
                 struct gw_rollout_view *out);
void rig_view(struct rig *rig, uint64_t id, struct gw_rollout_view *out);
// A task whose version is complete everywhere: created, started, one report, promoted.
void rig_baseline(struct rig *rig, const char *task, uint64_t id, const char *target_attr,
                  const char *target_value, struct wire_sha256 *out_manifest);
// Opens the hint stream of a device, with what it has.
void rig_subscribe(struct rig *rig, const struct rig_device *device, struct gw_hint *hint);
// ... whose stream another worker has.
void rig_subscribe_at(struct rig *rig, struct gw_worker *worker, const struct rig_device *device,
                      struct gw_hint *hint);
// How many outcomes left their device's record because that was full.
uint64_t rig_past_rows(struct rig *rig);
// Runs `check` on the stored truth: counters computed from a scan equal the tally.
void rig_expect_counts_from_disk(struct rig *rig);

#endif
