// The counts of body_budget.h. Called by every worker for bodies of requests and for answers of the
// upstream that wait for their reader. Those are stream_body.c and proxy.c. Any thread: one mutex,
// taken for some additions and never across a system call. LIMIT means that the actor itself holds
// too much, BUSY that all together do: the first is answered 429, the second 503.
#include "http/memory/body_budget.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>

struct gw_body_budget {
    pthread_mutex_t mutex;
    uint64_t total[GW_BUDGET_PLACE_COUNT];
    uint64_t strangers[GW_BUDGET_PLACE_COUNT];
    struct gw_actor_table *actors; // counts by place
};
_Static_assert(GW_BUDGET_PLACE_COUNT == GW_ACTOR_COUNTS, "a count for each place");

enum base_status gw_body_budget_new(struct gw_body_budget **out_budget)
{
    struct gw_body_budget *budget = calloc(1, sizeof(*budget));
    if (budget == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (gw_actor_table_new(&budget->actors) != BASE_OK) {
        free(budget);
        return BASE_ERR_NOMEM;
    }
    if (pthread_mutex_init(&budget->mutex, NULL) != 0) {
        gw_actor_table_free(budget->actors);
        free(budget);
        return BASE_ERR_NOMEM;
    }
    *out_budget = budget;
    return BASE_OK;
}

void gw_body_budget_free(struct gw_body_budget *budget)
{
    if (budget != NULL) {
        pthread_mutex_destroy(&budget->mutex);
        gw_actor_table_free(budget->actors);
        free(budget);
    }
}

static bool fits(uint64_t held, uint64_t bytes, uint64_t limit)
{
    return bytes <= limit && held <= limit - bytes;
}

enum base_status gw_body_budget_take(struct gw_body_budget *budget,
                                     const struct gw_actor_key *actor, enum gw_budget_place place,
                                     const struct gw_budget_limits *limits, uint64_t bytes)
{
    bool stranger = actor->kind == GW_ACTOR_STRANGER;
    uint64_t part = limits->strangers / GW_BUDGET_STRANGER_PART;
    uint64_t own = stranger && part < limits->actor ? part : limits->actor;
    enum base_status status = BASE_OK;
    pthread_mutex_lock(&budget->mutex);
    if (!fits(gw_actor_table_get(budget->actors, actor, place), bytes, own)) {
        status = BASE_ERR_LIMIT;
    } else if (!fits(budget->total[place], bytes, limits->total) ||
               (stranger && !fits(budget->strangers[place], bytes, limits->strangers))) {
        status = BASE_ERR_BUSY;
    } else {
        status = gw_actor_table_add(budget->actors, actor, place, bytes);
    }
    if (status == BASE_OK) {
        budget->total[place] += bytes;
        budget->strangers[place] += stranger ? bytes : 0;
    }
    pthread_mutex_unlock(&budget->mutex);
    return status;
}

void gw_body_budget_give(struct gw_body_budget *budget, const struct gw_actor_key *actor,
                         enum gw_budget_place place, uint64_t bytes)
{
    uint64_t of_strangers = actor->kind == GW_ACTOR_STRANGER ? bytes : 0;
    pthread_mutex_lock(&budget->mutex);
    base_check(budget->total[place] >= bytes);
    base_check(budget->strangers[place] >= of_strangers);
    budget->total[place] -= bytes;
    budget->strangers[place] -= of_strangers;
    gw_actor_table_sub(budget->actors, actor, place, bytes);
    pthread_mutex_unlock(&budget->mutex);
}

uint64_t gw_body_budget_held(struct gw_body_budget *budget, enum gw_budget_place place)
{
    pthread_mutex_lock(&budget->mutex);
    uint64_t held = budget->total[place];
    pthread_mutex_unlock(&budget->mutex);
    return held;
}
