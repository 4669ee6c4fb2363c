// Cohorts: devices with the same attributes, as one worker sees them.
//
// What a device should have depends on its attributes (the same for a whole cohort) and on its
// bucket in rollouts that are open to a share only. A cohort keeps the digest of everything that
// does not depend on the bucket, and the short list of what does. It belongs to one worker, is
// found by the hash of the raw attribute block, and is computed again when the plan changed.
#ifndef GW_COHORT_H
#define GW_COHORT_H

#include "svc/plan.h"
#include "wire/attrs.h"

#define GW_COHORTS_MAX 65536u // of one worker; the unused go when it is full
#define GW_COHORT_NONE UINT32_MAX

// A rollout open to a share of the cohort.
struct gw_partial {
    uint64_t salt;
    uint64_t delta; // to the digest when the device is in: new term - old term
    uint32_t task_index;
    uint16_t limit; // in when bucket < limit
};

enum gw_relevance {
    GW_RELEVANT_BASELINE = 1, // the baseline's target matches
    GW_RELEVANT_ALL = 2,      // the open rollout admits the whole cohort
    GW_RELEVANT_SHARE = 4,    // ... a share of it: see partials
};

struct gw_cohort {
    uint64_t hash;
    uint8_t *attrs; // raw block
    uint32_t attrs_size;
    uint32_t attrs_id;   // in the process-wide pool
    uint32_t pins;       // hint streams that refer to it
    uint32_t index;      // its own number
    uint16_t tenant;     // of its devices
    uint64_t generation; // of the plan it was computed from
    uint64_t digest;     // of what every device of it should have
    uint32_t signature;  // of all that decides what its devices are offered: for settled devices
    uint32_t partial_count;
    uint32_t relevant_count;
    struct gw_partial *partials;
    uint32_t *relevant; // task_index << 3 | enum gw_relevance, ascending
};

struct gw_cohorts {
    struct gw_cohort **items;
    uint32_t capacity;
    uint32_t used; // items[0..used) are set or NULL (freed)
    uint32_t count;
    uint32_t *slots; // open addressing over indices, GW_COHORT_NONE: empty
    uint32_t slot_mask;
    uint32_t free_hint;
    uint64_t compiled; // statistics
    uint64_t flushed;
};

// Attributes in the shape the policy wants, borrowed from the block.
struct gw_attrs_view {
    struct wire_attrs wire;
    struct pol_attr items[WIRE_ATTRS_MAX];
    struct pol_attrs attrs;
};
BASE_NODISCARD enum base_status gw_attrs_view(const uint8_t *block, size_t size,
                                              struct gw_attrs_view *out);

void gw_cohorts_init(struct gw_cohorts *cohorts);
void gw_cohorts_done(struct gw_cohorts *cohorts);
// The cohort of an attribute block in a tenant, up to date with `plan`, valid until the next find.
// *out_created true when it was not known before (its attrs_id is then the caller's to set).
// INVALID: malformed attributes; NOMEM.
BASE_NODISCARD enum base_status gw_cohorts_find(struct gw_cohorts *cohorts,
                                                const struct gw_plan *plan, uint16_t tenant,
                                                const uint8_t *block, size_t size,
                                                struct gw_cohort **out_cohort, bool *out_created);
// Brings a cohort found by index up to date. NULL when there is none.
struct gw_cohort *gw_cohorts_at(struct gw_cohorts *cohorts, const struct gw_plan *plan,
                                uint32_t index);

// The digest a device of the cohort should have: the hot path's one sum.
uint64_t gw_cohort_expected(const struct gw_cohort *cohort, uint64_t device_id);
// The limit of the open rollout of one relevant entry: 0, a share, or POL_BUCKET_COUNT for all.
uint16_t gw_cohort_limit(const struct gw_cohort *cohort, uint32_t relevant);

#endif
