// Cohorts: devices with the same attributes, as one worker sees them.
//
// What a device should have depends on its attributes (the same for a whole cohort) and on its
// bucket in rollouts that are open to a share only. A cohort keeps the tasks that concern it, the
// digest of everything that does not depend on the bucket, and the list of what does. It belongs to
// one worker and is found by the hash of the raw attribute block. When the plan changed, only the
// tasks that changed since are computed again; a new cohort asks the plan's index which tasks can
// concern it.
#ifndef GW_COHORT_H
#define GW_COHORT_H

#include "base/keyed_hash.h"
#include "base/span.h"
#include "svc/plan/plan_index.h"
#include "wire/attrs.h"

#define GW_COHORTS_MAX       65536u // of one worker; the unused go when it is full
#define GW_COHORTS_BYTES_MAX (512u * 1024 * 1024)
#define GW_COHORT_NONE       UINT32_MAX
#define GW_COHORTS_CHUNK                                                                           \
    64u // heads of one allocation: together, so that a look-up stays on few pages
#define GW_COHORT_ATTRS_INLINE 120u
// Cohorts that hint streams of unproven devices alone may hold; of more such, streams are told of
// every plan.
#define GW_COHORTS_STRANGE (GW_COHORTS_MAX / 2)

// A claim on a part of the cohort. Those of one task are a group: the device follows the first open
// rollout whose arm it is in; when it is not in that one's share, the first base that has it.
struct gw_partial {
    uint64_t salt_mix;         // pol_salt_mix of its salt
    uint64_t delta;            // to the digest when the device is in: new term - old term
    const struct pol_arm *arm; // the release's; NULL: no arm
    uint16_t limit;            // in when bucket < limit
    uint16_t control;          // control of a trial when limit <= bucket < control
    bool base;                 // completed
    bool last;                 // of its group
    bool alone;                // in its group, and without an arm
};

// A claim of a task on the cohort: an open rollout that targets it, or a base that lets at least a
// part of it in. Those of one task are in the order of their numbers, without those that no device
// of the cohort would come to; the first has term and signature of the task.
struct gw_cohort_task {
    uint64_t task_id;
    uint64_t term;        // in the cohort's digest
    uint64_t signature;   // in the cohort's signature
    uint32_t slot;        // in the plan
    uint16_t limit;       // of the claim: 0: nobody yet, POL_BUCKET_COUNT: all
    uint8_t claim;        // its number in the plan's task
    bool quarantined : 1; // kept off the rollout
    bool paused : 1;      // that rollout is
};

struct gw_cohort {
    uint64_t hash;
    uint8_t *attrs; // raw block, in `inline_attrs` when it fits
    uint32_t attrs_size;
    uint32_t attrs_id;   // in the process-wide pool
    uint32_t pins;       // hint streams that refer to it
    uint32_t index;      // its own number
    bool strange;        // pinned first by an unproven device
    uint16_t tenant;     // of its devices
    uint64_t generation; // of the plan it was computed from; 0: none
    uint64_t digest;     // of what every device of it should have
    uint64_t signature;  // of all that decides what its devices are offered: for settled devices
    uint64_t tasks_signature;
    bool paused; // a rollout that it follows is
    bool trial;  // ... has a trial that devices of it may be control in
    uint32_t task_count;
    uint32_t task_capacity;
    struct gw_cohort_task *tasks; // by ascending task id
    uint32_t partial_count;
    uint32_t partial_capacity;
    struct gw_partial *partials;
    uint8_t inline_attrs[GW_COHORT_ATTRS_INLINE];
};

struct gw_cohorts {
    struct gw_cohort **chunks; // of GW_COHORTS_CHUNK
    uint32_t chunk_count;
    struct gw_cohort **items; // into the chunks
    uint32_t capacity;
    uint32_t used; // items[0..used) are set or NULL (freed)
    uint32_t count;
    uint32_t *slots; // open addressing over indices, GW_COHORT_NONE: empty
    uint32_t slot_mask;
    uint32_t free_hint;
    uint32_t strange;           // cohorts that are
    struct base_hash_key key;   // strangers choose attributes
    uint64_t bytes;             // of all cohorts
    struct gw_slots candidates; // scratch
    // statistics
    uint64_t compiled;  // whole cohorts
    uint64_t evaluated; // tasks
    uint64_t flushed;
    uint64_t probes_long; // look-ups that went past BASE_PROBE_LONG places
};

// Attributes in the shape the policy wants, borrowed from the block.
struct gw_attrs_view {
    struct wire_attrs wire;
    struct pol_attr items[WIRE_ATTRS_MAX];
    struct pol_attrs attrs;
};
BASE_NODISCARD enum base_status gw_attrs_view(const uint8_t *block, size_t size,
                                              struct gw_attrs_view *out);

// The key is copied. NOMEM.
BASE_NODISCARD enum base_status gw_cohorts_new(const struct base_hash_key *key,
                                               struct gw_cohorts **out_cohorts);
void gw_cohorts_free(struct gw_cohorts *cohorts); // accepts NULL
// By what a cohort is found.
struct gw_cohort_name {
    uint16_t tenant;        // of its devices
    struct base_span attrs; // their raw block
};
// The cohort of that name, up to date with `plan`, valid until the next find.
// *out_created true when it was not known before (its attrs_id is then the caller's to set).
// INVALID: malformed attributes; NOMEM.
BASE_NODISCARD enum base_status gw_cohorts_find(struct gw_cohorts *cohorts,
                                                const struct gw_plan *plan,
                                                const struct gw_cohort_name *name,
                                                struct gw_cohort **out_cohort, bool *out_created);
// A hint stream refers to the cohort from now on. False: no more cohorts may be held for unproven
// devices.
bool gw_cohorts_pin(struct gw_cohorts *cohorts, struct gw_cohort *cohort, bool proven);
void gw_cohorts_unpin(struct gw_cohorts *cohorts, uint32_t index); // GW_COHORT_NONE: nothing
// Brings a cohort found by index up to date. NULL when there is none.
struct gw_cohort *gw_cohorts_at(struct gw_cohorts *cohorts, const struct gw_plan *plan,
                                uint32_t index);

// The digest a device of the cohort should have: a sum over the partials.
uint64_t gw_cohort_expected(const struct gw_cohort *cohort, uint64_t device_id);
// May the device be drawn as control of a trial? Asked only where `trial` is set.
bool gw_cohort_draws(const struct gw_cohort *cohort, uint64_t device_id);
// ---- cohort_compile.c: bringing a cohort up to date with a plan. NOMEM, INVALID (attributes); the
// cohort is then computed from nothing next time.
BASE_NODISCARD enum base_status
gw_cohort_refresh(struct gw_cohorts *cohorts, struct gw_cohort *cohort, const struct gw_plan *plan);
uint64_t gw_cohort_bytes(const struct gw_cohort *cohort);
// The buckets of its open claim that the trial of its newest stage is about, for devices with these
// attributes. False: they are in none.
bool gw_cohort_trial(const struct gw_plan_open *open, const struct pol_attrs *attrs,
                     struct pol_trial_span *out);
// What one claim means for devices with these attributes: limit, quarantined and paused of
// *out_entry. False: the release does not target them (a base's last audience included).
bool gw_cohort_claim(const struct gw_plan_task *task, uint8_t number, const struct pol_attrs *attrs,
                     struct gw_cohort_task *out_entry);

#endif
