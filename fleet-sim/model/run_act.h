// What is done to a run in virtual time at a second of it.
//
//   act := second " " deed
//   deed := pause | resume | promote | abort | kill     an operator's word on the run's rollout
//         | calm                                        no fault happens from then on
//         | "fault " fault                              one that begins then (model/fault_rule.h)
// What happens before that second is what happens without it.
#ifndef SIM_RUN_ACT_H
#define SIM_RUN_ACT_H

#include "model/fault_rule.h"

#define SIM_ACTS_MAX     8
#define SIM_ACT_AT_MAX   1000000u // as --duration
#define SIM_ACT_WORD_MAX 8

// An operator's word; the others are in the plan of faults.
struct sim_act {
    uint32_t at_s;
    char word[SIM_ACT_WORD_MAX]; // as the gateway's API has it
};

struct sim_acts {
    struct sim_act list[SIM_ACTS_MAX];
    uint32_t count;
};

// Adds one, to the acts or to the plan. INVALID with what is wrong with it in `error`, LIMIT.
BASE_NODISCARD enum base_status sim_act_add(struct sim_acts *acts, struct sim_fault_plan *plan,
                                            struct base_str text, struct base_error *error);

#endif
