// What a phone would have to hold at once: the triggers and declarations of a version, together
// with those of all other releases of its tenant that may meet it on one device.
//
// A device leaves out what is too much for it (device/pipeline/pipeline.h) and says so; by then it
// is too late to choose. So a rollout whose version would bring the sum over the budget is refused
// when it is made, unless the operator accepts it with a reason.
//
// Counted with it is one version of every other task: of its open rollouts and its baseline the one
// that takes most of the budget, of those whose target does not rule out (pol_targets_meet) the
// target of the new one. When that is too much, it is looked whether those others rule out each
// other by one attribute, as releases for one of several systems do: a device has one value of it,
// so what every value's releases and those for all values come to has to fit, and no more. Where
// they exclude each other by several attributes only together, more is counted than any device
// holds.
//
// Control thread. What versions declare is read from the store once and kept; the least there is is
// kept of those that declare nothing.
#ifndef GW_SET_COST_H
#define GW_SET_COST_H

#include "base/error.h"
#include "base/str.h"
#include "pipeline/declaration_check.h"
#include "policy/target.h"
#include "svc/rollout/catalog.h"

#define GW_SET_COST_TASKS       32u  // named one by one; the rest is counted
#define GW_SET_COST_ATTRS       4u   // by which it is looked whether others exclude each other
#define GW_SET_COST_WORLDS      32u  // values of one; an attribute with more is none
#define GW_SET_COST_SPLIT_TASKS 256u // of more tasks the sum is what counts
#define GW_SET_COST_KEPT        (16u * 1024 * 1024) // bytes of declarations in memory, then read anew

struct gw_core;
struct gw_set_costs; // what is kept

// Borrowed during the call.
struct gw_set_cost_spec {
    struct base_str task;
    struct wire_sha256 manifest;
    struct pol_target target;
};

struct gw_set_cost_task {
    char task[WIRE_TASK_NAME_MAX + 1];
    uint64_t rollout; // 0: the version that is asked about
    struct wire_sha256 manifest;
    struct dev_declaration_cost cost; // alone
};

struct gw_set_cost {
    bool declares;                                    // the version does; else nothing was counted
    bool fits;                                        // a device can hold all of it
    uint32_t listed;                                  // the version itself first
    struct gw_set_cost_task tasks[GW_SET_COST_TASKS]; // by the share of the budget they take
    struct dev_declaration_cost sum;                  // sum.tasks may be more than are listed
    char why[BASE_ERROR_TEXT_MAX];                    // what is crossed; empty: it fits
};

BASE_NODISCARD enum base_status gw_set_costs_new(struct gw_set_costs **out);
void gw_set_costs_free(struct gw_set_costs *costs); // accepts NULL

// NOT_FOUND: no such task or version; NOMEM, IO, CORRUPT.
BASE_NODISCARD enum base_status gw_set_cost_find(struct gw_core *core,
                                                 const struct gw_set_cost_spec *spec,
                                                 struct gw_set_cost *out, struct base_error *error);
// One sentence: who is in it, what is crossed. For errors and logs.
void gw_set_cost_text(const struct gw_set_cost *cost, char out[BASE_ERROR_TEXT_MAX]);

#endif
