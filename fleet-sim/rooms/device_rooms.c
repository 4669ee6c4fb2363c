// Where the runtimes of a shard's awake devices lie, with hints: who was heard of lately has a
// room, everybody else's runtime is folded (memory/runtime_rooms.h). Called by fleet_device.c on
// the shard's thread, before anything is asked of a runtime or told, and when it has had its turn.
#include "run/fleet.h"

#include "base/check.h"

#define FOLDS_MAX      8     // runtimes that are folded where one comes
#define RESTING_US_MIN 50000 // who has something to do before keeps its room

// Of so many devices of a shard: a part, so that small fleets fold, too.
uint32_t sim_rooms_warm(uint32_t devices)
{
    uint32_t part = devices / SIM_ROOMS_PART;
    part = part < SIM_ROOMS_WARM ? part : SIM_ROOMS_WARM;
    return part > SIM_ROOMS_LEAST ? part : SIM_ROOMS_LEAST;
}

static void warm_link(struct sim_shard *shard, struct sim_awake *awake)
{
    awake->warm_before = shard->warm_last;
    awake->warm_next = NULL;
    if (shard->warm_last != NULL) {
        shard->warm_last->warm_next = awake;
    } else {
        shard->warm_first = awake;
    }
    shard->warm_last = awake;
}

static void warm_unlink(struct sim_shard *shard, struct sim_awake *awake)
{
    if (awake->warm_before != NULL) {
        awake->warm_before->warm_next = awake->warm_next;
    } else {
        shard->warm_first = awake->warm_next;
    }
    if (awake->warm_next != NULL) {
        awake->warm_next->warm_before = awake->warm_before;
    } else {
        shard->warm_last = awake->warm_before;
    }
}

// May its runtime be out of the way? Nobody else may know a place in it.
static bool is_apart(const struct sim_awake *awake)
{
    bool known = awake->active != NULL || awake->enrolling != NULL || awake->shadow_of != NULL;
    return awake->runtime != NULL && !known && awake->runs_asked == 0 && awake->runs_late == 0;
}

// Folds the runtime, which is not among the warm. False: it keeps its room.
static bool fold(struct sim_shard *shard, struct sim_awake *awake)
{
    if (is_apart(awake)) {
        base_check((void *)awake->runtime == awake->room); // it begins where its memory does
        struct base_span spans[DEV_STATE_SPANS_MAX];
        uint32_t count = dev_state_spans(awake->runtime, spans);
        awake->folded = sim_rooms_fold(&shard->rooms, awake->room, spans, count);
    }
    if (awake->folded == NULL) {
        return false;
    }
    awake->room = NULL;
    awake->runtime = NULL; // nobody finds it by mistake
    return true;
}

// Folds who was heard of longest ago, where rooms are many.
static void rooms_spare(struct sim_shard *shard)
{
    uint32_t warm = sim_rooms_warm(shard->count);
    for (uint32_t i = 0; i < FOLDS_MAX && shard->rooms.taken >= warm; i++) {
        struct sim_awake *awake = shard->warm_first;
        warm_unlink(shard, awake);
        if (!fold(shard, awake)) {
            warm_link(shard, awake);
        }
    }
}

void sim_device_rest(struct sim_awake *awake, uint64_t until_us)
{
    struct sim_shard *shard = awake->shard;
    uint32_t warm = sim_rooms_warm(shard->count);
    uint64_t now_us = sim_shard_now(shard);
    if (awake->room == NULL || shard->rooms.taken <= warm / SIM_ROOMS_RESTING ||
        until_us < now_us + RESTING_US_MIN || !dev_is_idle(awake->runtime)) {
        return;
    }
    warm_unlink(shard, awake);
    if (!fold(shard, awake)) {
        warm_link(shard, awake);
    }
}

void *sim_device_memory(struct sim_awake *awake)
{
    struct sim_shard *shard = awake->shard;
    if (!shard->options->hints) {
        return (char *)awake + ((sizeof(*awake) + 15) & ~(size_t)15);
    }
    base_assert(awake->folded == NULL);
    if (awake->room == NULL) {
        rooms_spare(shard);
        awake->room = sim_rooms_take(&shard->rooms);
        warm_link(shard, awake);
    }
    return awake->room;
}

void sim_device_unfold(struct sim_awake *awake)
{
    struct sim_shard *shard = awake->shard;
    if (awake->folded != NULL) {
        base_assert(awake->room == NULL && awake->runtime == NULL);
        rooms_spare(shard);
        awake->room = sim_rooms_unfold(&shard->rooms, awake->folded);
        awake->folded = NULL;
        awake->runtime = awake->room;
        warm_link(shard, awake);
    } else if (awake->room != NULL && awake->warm_next != NULL) {
        warm_unlink(shard, awake); // not to be folded itself
        rooms_spare(shard);
        warm_link(shard, awake);
    }
}

void sim_device_vacate(struct sim_awake *awake)
{
    struct sim_rooms *rooms = &awake->shard->rooms;
    if (awake->room != NULL) {
        warm_unlink(awake->shard, awake);
    }
    sim_rooms_put(rooms, awake->room);
    sim_rooms_forget(rooms, awake->folded);
    awake->room = NULL;
    awake->folded = NULL;
}
