// The ledger: what really happened on every virtual device, written by the simulator as it happens,
// never taken from what devices reported. The oracles at the end are computed from it.
//
// One ledger per shard, owned by the shard's thread while the run lasts and read by the coordinator
// afterwards. The counters beside it are what the live view and the timeline show; the shard
// publishes copies of them once a second.
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

#include "base/hist.h"
#include "base/ports.h"
#include "behaviour/behaviour_tally.h"
#include "model/cloud_sums.h"
#include "model/failures.h"
#include "model/versions.h"
#include "wire/report.h"

#define SIM_NARROW_VERSIONS 8u // of these masks lie in the entry
#define SIM_VERSION_BITS    6u
#define SIM_AFTER_BITS      21u // 35 minutes
#define SIM_OUTCOME_BITS    5u  // of enum wire_outcome_kind
#define SIM_ACTIVATION_BITS 15u

_Static_assert(SIM_VERSIONS_MAX <= 1u << SIM_VERSION_BITS, "any number of a version is kept");

// Milliseconds since the start of the run, of the version offered last; 0: not yet.
struct sim_ledger_times {
    uint32_t offered_ms;
    uint32_t downloaded_ms;
    uint32_t activated_ms;
    uint32_t ran_ms;
};

// What the ledger keeps of a device. When things happened says sim_ledger_times, what it ran
// sim_ledger_masks: few devices take so long, and few runs meet so many versions, that all of them
// are needed.
struct sim_ledger_entry {
    uint64_t downloaded_after : SIM_AFTER_BITS; // it was offered, in ms, 1 added; 0: not yet
    uint64_t activated_after : SIM_AFTER_BITS;
    uint64_t ran_after : SIM_AFTER_BITS;
    uint64_t late : 1; // its times have no place here
    uint32_t offered_ms;
    uint32_t ran_narrow : SIM_NARROW_VERSIONS; // the masks, of the first versions
    uint32_t good_narrow : SIM_NARROW_VERSIONS;
    uint32_t failed_narrow : SIM_NARROW_VERSIONS;
    uint32_t root : 8; // version of the root it believes in, at most 255; 0: a pinned key
    uint32_t offered : SIM_VERSION_BITS;  // version offered last
    uint32_t active : SIM_VERSION_BITS;   // version active now
    uint32_t previous : SIM_VERSION_BITS; // version active before the present one
    uint32_t before : SIM_VERSION_BITS;   // version active before the first bad one it ran
    uint32_t outcome : SIM_OUTCOME_BITS;  // enum wire_outcome_kind of the last run of `active`
    uint32_t arrived : 1;                 // came online at least once
    uint32_t wild : 1;                    // something unverified or not permitted ran
    uint32_t no_room : 1; // it holds as many tasks as it can, and not the one followed
    uint32_t blocked : SIM_VERSION_BITS; // version that it refuses since it failed there, the last
    uint32_t marked : SIM_VERSION_BITS;  // `active`, when it was activated once more since it came
    uint32_t failed_as : SIM_OUTCOME_BITS; // of the first failure of the version that failed last
    uint32_t activations : SIM_ACTIVATION_BITS; // the last bits of how many there were
};
_Static_assert(sizeof(struct sim_ledger_entry) <= 24, "there are millions of them");

// Bit v stands for version number v.
struct sim_ledger_masks {
    uint64_t ran;    // it was started at least once
    uint64_t good;   // a run of it came to a good end
    uint64_t failed; // a run of it ended in a failure
};

struct sim_version_counters {
    uint64_t offered;
    uint64_t downloaded;
    uint64_t activated;
    uint64_t ran;         // devices that ran it to a good end at least once
    uint64_t failed;      // devices on which a run of it failed
    uint64_t rolled_back; // activations undone
    int64_t current;      // devices on which it is active and has run
};

#define SIM_REQUEST_KINDS 9 // SIM_EXCHANGE_KIND_COUNT

struct sim_counters {
    uint64_t arrived;
    uint64_t awake; // devices in memory now
    uint64_t wakes;
    uint64_t skipped; // wakes put off because every awake slot was taken
    uint64_t checkins;
    uint64_t requests;
    uint64_t requests_of[SIM_REQUEST_KINDS]; // ... by enum sim_exchange_kind
    uint64_t business;                       // ... of apps, to their service behind the gateway
    uint64_t business_served;                // ... of these, with an answer below 500
    uint64_t business_failed;                // ... without one, or with one of 500 and above
    uint64_t rides;                          // check-ins answered on these; among `checkins`
    uint64_t ride_reports;                   // reports taken along that are durable
    uint64_t own_checkins;                   // requests of the runtimes' own
    uint64_t own_reports;
    uint64_t pulls;   // of content and metadata
    uint64_t answers; // of any status
    uint64_t request_errors;
    uint64_t response_bytes;
    uint64_t runs;
    uint64_t run_failures;
    uint64_t exclusive_runs;  // with exclusive files
    uint64_t enrolled;        // credentials the gateway gave
    uint64_t unenrolled;      // devices that came up and have none so far; of now
    uint64_t enrol_refused;   // enrolments it refused
    uint64_t enrolled_before; // ... because it knows the device: another run enrolled it
    uint64_t known_refused;   // devices of an id of their own that it refused so at first
    uint64_t unauthorized; // other requests it refused: who asks may not, or did not show who it is
    uint64_t crashes;      // virtual processes killed
    uint64_t reinstalls;   // devices that lost all they had stored
    uint64_t activations;
    uint64_t marked;      // ... of what was active already: for the control of a rollout
    uint64_t marked_lost; // oracle: a device gave up what it only activated once more
    uint64_t rollbacks;
    uint64_t refused_offers;
    uint64_t refused_metadata; // roots, timestamps, snapshots and director's answers
    uint64_t leases_lost;
    uint64_t kills;   // active versions stopped by the kill list
    uint64_t no_room; // devices that hold as many tasks as they can, and not the one followed
    uint64_t links_up;
    uint64_t links_never_up; // tried, and never up
    uint64_t reconnects;
    uint64_t exposed;          // devices that ever ran a bad version
    uint64_t unverified_runs;  // oracle: must stay 0
    uint64_t unpermitted_runs; // oracle: must stay 0
    uint64_t bad_seals;        // oracle: content sealed that does not match its name
    uint64_t memo_mismatches;  // oracle: shared work disagreed with real work
    uint64_t boot_failures;    // oracle: a recovery that failed, or would have
    uint64_t states_checked;   // saved states that were looked at again
    uint64_t state_mismatches; // ... and would not have come back; among boot_failures
    uint64_t twice_active;     // oracle: an activation of what was active, or a second active one
    uint64_t once_compared;    // activations of devices with one task, which it looks at
    uint64_t kept_lost;        // oracle: a device woke without what it saved, or slept with
    uint64_t kept_compared;
    uint64_t stormed;       // oracle: devices that asked in vain too often within a minute
    uint64_t marks_fetched; // oracle: a control brought content
    uint64_t marks_alone;   // controls that followed a mark in a wake without any other activation
    uint64_t resumed_bytes;
    uint64_t shared_hash_bytes;
    uint64_t real_hash_bytes;
    uint64_t shared_signatures; // checks of one that was checked before
    uint64_t real_signatures;
    uint64_t shared_checks; // of bytecode that was checked before
    uint64_t real_checks;
    uint64_t shared_runs;   // of tasks, made by another device with the same files
    uint64_t real_devices;  // devices that came online and do everything for real
    uint64_t real_compared; // hashes, signatures, checks of bytecode and runs made both ways
    struct sim_version_counters version[SIM_VERSIONS_MAX];
    struct sim_behaviour_sums behaviour;
    struct sim_cloud_sums cloud; // calls of models there
};

struct sim_ledger {
    const struct base_alloc_port *alloc;
    struct sim_versions *versions;
    struct sim_ledger_entry *entries;
    struct sim_ledger_masks *wide; // of the versions that entries have no place for
    bool widened;                  // something stands in `wide`: else it is never looked at
    struct sim_ledger_times *late; // of devices whose entries have no place for them
    uint32_t count;
    uint64_t bad_mask; // versions declared bad, by number
    uint64_t task_id;  // the task followed; 0: the first one that is offered
    struct sim_counters counters;
    struct sim_failures failures;     // of the versions followed
    struct base_hist offer_to_run_us; // first offer to the end of the first good run
};

BASE_NODISCARD enum base_status sim_ledger_init(struct sim_ledger *ledger,
                                                const struct base_alloc_port *alloc,
                                                struct sim_versions *versions, uint32_t count);
void sim_ledger_done(struct sim_ledger *ledger);
struct sim_ledger_times sim_ledger_times(const struct sim_ledger *ledger, uint32_t device);
struct sim_ledger_masks sim_ledger_masks(const struct sim_ledger *ledger, uint32_t device);

// The device's crypto port verified a statement for it.
void sim_ledger_offered(struct sim_ledger *ledger, uint32_t device, uint8_t version,
                        uint32_t now_ms);
// Everything the offered version needs is on the device. Counted once an offer.
void sim_ledger_downloaded(struct sim_ledger *ledger, uint32_t device, uint32_t now_ms);
// What the runtime has active now; called when it may have changed. `back`: it left the version
// before because that was taken back, though for one that it had never run.
void sim_ledger_active(struct sim_ledger *ledger, uint32_t device, uint8_t version, bool back,
                       uint32_t now_ms);
// The device activated versions, `again` of them for the control of a rollout; of the task
// followed, `version` is active and its last activation was such a one (SIM_VERSION_NONE: it was
// not).
void sim_ledger_activated(struct sim_ledger *ledger, uint32_t device, uint64_t activations,
                          uint64_t again, uint8_t version);
// The device refuses this version from now on, for it failed there. Called before the version that
// takes its place is told.
void sim_ledger_blocked(struct sim_ledger *ledger, uint32_t device, uint8_t version);
// The root the device believes in now.
void sim_ledger_root(struct sim_ledger *ledger, uint32_t device, uint64_t version);
// Has the device no place for the task followed?
void sim_ledger_room(struct sim_ledger *ledger, uint32_t device, bool no_room);
// A task run begins (`verified`, `permitted`: found by the simulator itself), then ends, with
// `detail` for words. A crash has no end but `outcome` FAIL_CRASH.
void sim_ledger_run_started(struct sim_ledger *ledger, uint32_t device, uint8_t version,
                            bool verified, bool permitted);
struct sim_run_end {
    uint8_t version;
    enum wire_outcome_kind outcome;
    struct base_str detail;
};
void sim_ledger_run_ended(struct sim_ledger *ledger, uint32_t device, const struct sim_run_end *end,
                          uint32_t now_ms);

// A request of this kind (enum sim_exchange_kind) was made.
void sim_counters_request(struct sim_counters *counters, uint32_t kind);
void sim_counters_merge(struct sim_counters *into, const struct sim_counters *from);

// Oracles: each says whether it holds, with the numbers it was computed from.
enum sim_oracle {
    SIM_ORACLE_VERIFIED,  // nothing unverified ran
    SIM_ORACLE_PERMITTED, // nothing outside its signed stage ran
    SIM_ORACLE_SEALED,    // nothing was sealed under a wrong name
    SIM_ORACLE_EXACT,     // shared work agreed with real work
    SIM_ORACLE_RECOVERED, // every wake recovered
    SIM_ORACLE_BACK,      // every device that ran a bad version is on another one again
    SIM_ORACLE_STOOD,     // no device gave up what it only activated once more
    SIM_ORACLE_EXPOSURE,  // no more devices than allowed ever ran a bad version
    SIM_ORACLE_LAW,       // every record offered to a tunnel is accounted for
    SIM_ORACLE_ONCE,      // one active version of a task, activated once
    SIM_ORACLE_KEPT,      // what a device had it still has after a sleep
    SIM_ORACLE_CALM,      // no device asked in a storm
    SIM_ORACLE_CONTROL,   // who runs again what it has brings nothing
    SIM_ORACLE_ENDED,     // after the faults everybody came to where it should be
    SIM_ORACLE_BYTES,     // what real bytes say is what the model hands over
    SIM_ORACLE_COUNT
};

struct sim_oracle_result {
    bool checked; // false: does not apply to this run
    bool holds;
    uint64_t violations;
    uint64_t population;
    bool names_device; // where it can: one that broke it,
    uint64_t device;   // by its index in the population, as `replay --device` takes it
};

struct sim_verdict {
    struct sim_oracle_result oracle[SIM_ORACLE_COUNT];
    uint64_t exposed;
    uint64_t still_bad;      // exposed devices on a bad version at the end
    uint64_t back_as_before; // exposed devices on the very version they came from
    uint64_t none_before;    // exposed devices that came from none
    bool holds;
};

const char *sim_oracle_name(enum sim_oracle oracle);
const char *sim_oracle_text(enum sim_oracle oracle);
// Why an oracle compared nothing: "no task ran"; NULL: it compared something.
const char *sim_oracle_nothing(enum sim_oracle oracle, const struct sim_oracle_result *result);
// Computes the oracles over all ledgers. `released`: the bad versions came from a gateway, so their
// devices have to be back. `max_exposed_ppm` UINT32_MAX: no limit on exposure.
void sim_ledger_judge(const struct sim_ledger *const *ledgers, uint32_t ledger_count, bool released,
                      uint32_t max_exposed_ppm, struct sim_verdict *out);
// After it: what became of devices once nothing went wrong any more, of those that came online.
void sim_ledger_judge_ends(struct sim_verdict *verdict, uint64_t astray, uint64_t devices);
// After it: what the tunnel's law came to, in a run in which devices behaved.
void sim_ledger_judge_law(struct sim_verdict *verdict, uint64_t broken, uint64_t checked);
// After it: requests and answers of devices that speak real bytes, of so many, which are not what
// the model has; `device`, by its index, is one of them.
void sim_ledger_judge_bytes(struct sim_verdict *verdict, uint64_t mismatches, uint64_t answers,
                            uint64_t device);

#endif
