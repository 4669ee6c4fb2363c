// The index of a plan over anchors: which tasks can concern a device with these attributes.
//
// A release whose target needs an attribute to be one of a few values (pol_target_anchor) is found
// under each of them; all others are candidates for everybody. Keys are 64-bit hashes: a collision
// costs an evaluation, never an answer. Immutable, counted, shared by the plans that follow one
// another until their changes are too many.
#ifndef GW_PLAN_INDEX_H
#define GW_PLAN_INDEX_H

#include "svc/plan/plan.h"

// A list of slots, owned by the caller, kept for the next look-up.
struct gw_slots {
    uint32_t *items;
    uint32_t count;
    uint32_t capacity;
};

BASE_NODISCARD enum base_status gw_plan_index_new(const struct gw_plan *plan,
                                                  struct gw_plan_index **out_index);
struct gw_plan_index *gw_plan_index_ref(struct gw_plan_index *index);
void gw_plan_index_unref(struct gw_plan_index *index); // accepts NULL
uint64_t gw_plan_index_generation(const struct gw_plan_index *index);
// Every task that may match a device with these attributes, as of the index's generation: slots by
// ascending task id, each once. NOMEM.
BASE_NODISCARD enum base_status gw_plan_index_find(const struct gw_plan_index *index,
                                                   const struct pol_attrs *attrs,
                                                   struct gw_slots *out);
BASE_NODISCARD enum base_status gw_slots_add(struct gw_slots *slots, uint32_t slot);
void gw_slots_done(struct gw_slots *slots);

#endif
