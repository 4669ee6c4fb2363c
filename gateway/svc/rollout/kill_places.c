// Who has a place on the kill list, which holds GW_KILLS_MAX versions for all tenants, and in the
// timestamp, which tells devices of fewer. director.c asks which ones the timestamp tells;
// director_trust.c asks whose an entry is, and who makes room when the list is full. Control
// thread. It decides from the list, the catalog and the logs, and changes none of them. The rules
// stand below: they are about tenants that share one place and must not take it from each other.
#include "svc/rollout/kill_places.h"

#include "svc/core_private.h"
#include "svc/rollout/rollout_state.h"

#include <stdlib.h>
#include <string.h>

// Devices are told of killed versions that a rollout here offered: nothing else can run on one, for
// it takes what a release key signed and a snapshot lists, which is what this gateway was given,
// and what is killed is not let in. (Who has all online keys can sign another list as well.) Of
// more than a timestamp holds each tenant has its first, then each its second, and so on. Within a
// tenant, and among tenants when the last places are fewer than they are, first what a snapshot may
// still list, for it is what an order can name, then what was killed last. A device that has one of
// the rest is ordered off it at its next check-in, which is when it would have been told.
//
// On a list that is full the tenant with the most entries makes room: with a version that was never
// offered, else with the oldest whose rollouts are back. A version with a completed rollout keeps
// its entry, for without it that would be a baseline again; entries of no tenant, which operators
// of all tenants made, are theirs to take off.

// What is known of one entry of the kill list.
struct place {
    uint32_t kill; // index
    uint16_t tenant;
    bool offered;  // a rollout brought it to a stage that devices are in
    bool listed;   // a snapshot may list it
    bool complete; // a rollout of it completed, and is not taken back
    bool open;     // a rollout of it is not closed
    uint32_t rank; // among those of its tenant
    uint64_t time_us;
};

// Could a device have it from this rollout?
static bool was_offered(struct gw_core *core, struct gw_rollout *rollout)
{
    const struct pol_rollout *state = &rollout->state;
    bool reached = false;
    for (uint32_t i = 0; i <= state->stage_index && i < rollout->release->stage_count; i++) {
        reached = reached || rollout->release->stages[i].kind != POL_STAGE_SIMULATE;
    }
    return reached && gw_rollout_was_started(core, rollout);
}

static void place_see(struct gw_core *core, struct gw_rollout *rollout, struct place *place)
{
    const struct gw_release *release = rollout->release;
    bool closed = gw_rollout_is_closed(rollout);
    bool draft = rollout->state.state == POL_ROLLOUT_DRAFT;
    place->tenant = rollout->task->tenant;
    place->offered = place->offered || was_offered(core, rollout);
    place->complete = place->complete || rollout->state.state == POL_ROLLOUT_COMPLETED;
    place->open = place->open || !closed;
    place->listed = place->listed || (!closed && !draft) ||
                    release->release_counter == rollout->task->release_counter;
}

// One for each entry of the list, to free().
static enum base_status find_places(struct gw_core *core, struct place **out)
{
    const struct gw_director *director = &core->director;
    struct place *places = calloc((size_t)director->kill_count + 1, sizeof(*places));
    if (places == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < director->kill_count; i++) {
        places[i].kill = i;
        places[i].tenant = GW_TENANT_EVERY;
        places[i].time_us = director->kills[i].time_us;
    }
    for (uint32_t i = 0; i < core->catalog.rollout_count; i++) {
        struct gw_rollout *rollout = core->catalog.rollouts[i];
        const struct gw_kill *kill = gw_director_kill(director, &rollout->release->manifest);
        if (kill != NULL) {
            place_see(core, rollout, &places[kill - director->kills]);
        }
    }
    *out = places;
    return BASE_OK;
}

// ---- In the timestamp

static int compare_need(const struct place *x, const struct place *y)
{
    if (x->listed != y->listed) {
        return x->listed ? -1 : 1;
    }
    if (x->time_us != y->time_us) {
        return x->time_us > y->time_us ? -1 : 1;
    }
    return x->kill < y->kill ? -1 : x->kill > y->kill;
}

static int compare_in_tenant(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    return x->tenant != y->tenant ? (x->tenant < y->tenant ? -1 : 1) : compare_need(x, y);
}

static int compare_in_turn(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : compare_need(x, y);
}

static int compare_sha256(const void *a, const void *b)
{
    const struct wire_sha256 *x = a;
    const struct wire_sha256 *y = b;
    return memcmp(x->bytes, y->bytes, WIRE_SHA256_BYTES);
}

// One of each tenant, then another of each, and so on.
static void order_in_turn(struct place *places, uint32_t count)
{
    qsort(places, count, sizeof(*places), compare_in_tenant);
    for (uint32_t i = 1; i < count; i++) {
        bool same = places[i].tenant == places[i - 1].tenant;
        places[i].rank = same ? places[i - 1].rank + 1 : 0;
    }
    qsort(places, count, sizeof(*places), compare_in_turn);
}

enum base_status gw_kill_places_tell(struct gw_core *core, struct gw_told_kills *out)
{
    struct gw_director *director = &core->director;
    struct place *places = NULL;
    BASE_TRY(find_places(core, &places));
    uint32_t count = 0;
    for (uint32_t i = 0; i < director->kill_count; i++) {
        director->kills[i].told = GW_KILL_UNNEEDED;
        if (places[i].offered) {
            places[count++] = places[i];
        }
    }
    if (count > WIRE_TIMESTAMP_KILLS_MAX) {
        order_in_turn(places, count);
    }
    out->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct gw_kill *kill = &director->kills[places[i].kill];
        bool fits = out->count < WIRE_TIMESTAMP_KILLS_MAX;
        kill->told = fits ? GW_KILL_TOLD : GW_KILL_UNTOLD;
        if (fits) {
            out->items[out->count++] = kill->manifest;
        }
    }
    free(places);
    qsort(out->items, out->count, sizeof(out->items[0]), compare_sha256);
    return BASE_OK;
}

// ---- On the list

uint16_t gw_kill_places_owner(const struct gw_core *core, const struct wire_sha256 *manifest)
{
    for (uint32_t i = 0; i < core->catalog.rollout_count; i++) {
        const struct gw_rollout *rollout = core->catalog.rollouts[i];
        if (wire_sha256_equal(&rollout->release->manifest, manifest)) {
            return rollout->task->tenant;
        }
    }
    return GW_TENANT_EVERY;
}

// How little an entry is needed; the least gives way first.
static int need_of(const struct place *place)
{
    return !place->offered ? 0 : place->open ? 2 : 1;
}

static const struct place *least_needed(const struct place *places, uint32_t count, uint16_t tenant)
{
    const struct place *least = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct place *place = &places[i];
        if (place->tenant != tenant || place->complete) {
            continue;
        }
        bool less = least == NULL || need_of(place) < need_of(least) ||
                    (need_of(place) == need_of(least) && place->time_us < least->time_us);
        least = less ? place : least;
    }
    return least;
}

enum base_status gw_kill_places_yield(struct gw_core *core, uint16_t asker, struct gw_kill *out,
                                      struct base_error *error)
{
    const struct gw_director *director = &core->director;
    uint32_t counts[GW_TENANTS_MAX] = {0};
    struct place *places = NULL;
    uint16_t most = 0;
    BASE_TRY(find_places(core, &places));
    for (uint32_t i = 0; i < director->kill_count; i++) {
        if (places[i].tenant < GW_TENANTS_MAX) {
            counts[places[i].tenant]++;
        }
    }
    for (uint16_t i = 1; i < GW_TENANTS_MAX; i++) {
        most = counts[i] > counts[most] ? i : most;
    }
    uint32_t have = asker < GW_TENANTS_MAX ? counts[asker] : 0;
    const struct place *least =
        counts[most] > have + 1 ? least_needed(places, director->kill_count, most) : NULL;
    if (least != NULL) {
        *out = director->kills[least->kill];
    }
    free(places);
    if (least == NULL) {
        return base_error_set(error, BASE_ERR_LIMIT,
                              "the kill list holds %u versions, the most it may, %u of them this "
                              "tenant's: an operator of all tenants has to take one off",
                              GW_KILLS_MAX, have);
    }
    return BASE_OK;
}
