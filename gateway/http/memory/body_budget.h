// How many bytes of bodies are held, by whom and in all: in memory and in files. One for the whole
// process, so that many workers do not make the limits larger. Safe to call from any thread (one
// mutex, taken once or twice a body).
//
// Three limits, each for every place. `total`: of all together. `strangers`: of those together who
// proved nothing; so they never take what devices and operators need. `actor`: of one. One
// stranger's address gets a GW_BUDGET_STRANGER_PARTth of the strangers' share at most.
#ifndef GW_BODY_BUDGET_H
#define GW_BODY_BUDGET_H

#include "http/guard/actor_table.h"

#define GW_BUDGET_STRANGER_PART 8u
// What is counted at once of a body in files: large steps, so that there are never many small ones.
#define GW_BUDGET_FILES_STEP UINT64_C(1048576)
#define GW_BUDGET_CALLS_STEP UINT64_C(65536)
// The least that settings may leave to one: a body before it goes on in a file and what waits of
// the upstream's answer to it; one step of a file.
#define GW_BUDGET_MEMORY_MIN UINT64_C(393216)
#define GW_BUDGET_FILES_MIN  GW_BUDGET_FILES_STEP

struct gw_body_budget;

enum gw_budget_place {
    GW_BUDGET_MEMORY,
    GW_BUDGET_FILES,
    GW_BUDGET_CALLS,   // what bodies of calls of models have in memory beyond GW_SPOOL_MEMORY_MAX
    GW_BUDGET_ANSWERS, // answers to such calls that wait for their readers
    GW_BUDGET_PLACE_COUNT
};

struct gw_budget_limits {
    uint64_t total;
    uint64_t strangers;
    uint64_t actor;
};

BASE_NODISCARD enum base_status gw_body_budget_new(struct gw_body_budget **out_budget); // NOMEM
void gw_body_budget_free(struct gw_body_budget *budget); // accepts NULL
// Counts `bytes` more. LIMIT: the actor has what one may have. BUSY: the others have it all, for
// now. NOMEM. Nothing is counted then.
BASE_NODISCARD enum base_status gw_body_budget_take(struct gw_body_budget *budget,
                                                    const struct gw_actor_key *actor,
                                                    enum gw_budget_place place,
                                                    const struct gw_budget_limits *limits,
                                                    uint64_t bytes);
// Gives back what was taken.
void gw_body_budget_give(struct gw_body_budget *budget, const struct gw_actor_key *actor,
                         enum gw_budget_place place, uint64_t bytes);
uint64_t gw_body_budget_held(struct gw_body_budget *budget, enum gw_budget_place place);

#endif
