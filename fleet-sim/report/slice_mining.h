// Predicate mining: which slice of the population do the failures come from?
//
// Conditions are `attribute == value`, and `<` and `>=` at every boundary of ordered attributes.
// Slices of one and two conditions are searched completely; a third one is added to the best pair
// when it tells the failures apart clearly better. A slice is scored by the harmonic mean of
// support (share of all failures inside it) and precision (failures among its devices); of equal
// scores the shorter slice wins. No slice is named on a handful of failures, nor when none tells
// failures apart better than the whole fleet does.
#ifndef SIM_SLICE_MINING_H
#define SIM_SLICE_MINING_H

#include "base/ports.h"
#include "base/status.h"
#include "model/population.h"

#define SIM_SLICE_CONDS_MAX 3
#define SIM_SLICE_TEXT_MAX  200
#define SIM_SLICE_FAILED_MIN                                                                       \
    10 // failing devices, in the slice and so in all; with fewer none is named

enum sim_slice_op {
    SIM_SLICE_EQ,
    SIM_SLICE_LT,
    SIM_SLICE_GE,
};

struct sim_slice_cond {
    enum sim_trait trait;
    enum sim_slice_op op;
    uint8_t value;
};

struct sim_slice {
    struct sim_slice_cond conds[SIM_SLICE_CONDS_MAX];
    uint32_t cond_count; // 0: no slice was found
    const struct sim_people *people;
    uint64_t devices; // in the slice
    uint64_t failed;  // of them
    uint64_t failed_total;
    uint64_t devices_total;
};

// Devices and failures per attribute value.
struct sim_cohort {
    uint64_t devices;
    uint64_t failed;
};

struct sim_mining;

// NOMEM.
BASE_NODISCARD enum base_status sim_mining_new(const struct base_alloc_port *alloc,
                                               const struct sim_people *people,
                                               struct sim_mining **out_mining);
void sim_mining_free(struct sim_mining *mining);
// One device that ran the version; `failed`: a run of it ended in a failure.
void sim_mining_add(struct sim_mining *mining, const struct sim_traits *traits, bool failed);
// The best slice; cond_count 0 without failures, with too few, or when nothing tells them apart.
void sim_mining_best(struct sim_mining *mining, struct sim_slice *out);
const struct sim_cohort *sim_mining_cohort(const struct sim_mining *mining, enum sim_trait trait,
                                           uint32_t value);
bool sim_slice_match(const struct sim_slice *slice, const struct sim_traits *traits);
// Why there is no slice although devices failed; NULL when there is one, or nothing failed.
const char *sim_slice_none(const struct sim_slice *slice);
// "os_version < 12 && app_version >= 9.2"
void sim_slice_text(const struct sim_slice *slice, char out[SIM_SLICE_TEXT_MAX]);
double sim_slice_precision(const struct sim_slice *slice);
double sim_slice_support(const struct sim_slice *slice);
// Wilson score interval at 95 % for `failed` of `total`.
void sim_wilson(uint64_t failed, uint64_t total, double *out_low, double *out_high);

#endif
