// Picking a page of rollouts. The catalog holds them by id; a page is the newest of those behind
// the page before, found in one walk. Control thread; see rollout_page.h. That is api_rollouts.c.
// The walk inserts into one page of GW_PAGE_MAX at most, so no order of all rollouts has to be
// kept. A rollout is newer by its time of creation, then by its id.
#include "svc/view/rollout_page.h"

#include "svc/core_private.h"

#include <string.h>

struct place {
    uint64_t created_us;
    uint64_t id;
};

static struct place place_of(const struct gw_rollout *rollout)
{
    return (struct place){rollout->created_us, rollout->release->id};
}

static bool is_newer(struct place a, struct place b)
{
    return a.created_us != b.created_us ? a.created_us > b.created_us : a.id > b.id;
}

static bool is_asked(const struct gw_rollout_ask *ask, const struct gw_rollout *rollout)
{
    struct base_str task = base_str_of(rollout->task->name);
    uint64_t id = rollout->release->id;
    return id >= ask->id_from && (ask->id_to == 0 || id <= ask->id_to) &&
           (!ask->has_state || rollout->state.state == ask->state) &&
           (ask->task.size == 0 || base_str_equal(ask->task, task)) &&
           (ask->sees == NULL || ask->sees(ask->ctx, rollout->task->tenant, task));
}

// The newest so far, one more than the page has, so that it is known whether there are others.
struct picked {
    uint32_t count;
    uint32_t room;
    struct place places[GW_PAGE_MAX + 1];
};

static void pick(struct picked *picked, struct place place)
{
    uint32_t low = 0;
    uint32_t high = picked->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (is_newer(place, picked->places[middle])) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if (low == picked->room) {
        return;
    }
    picked->count += picked->count < picked->room ? 1 : 0;
    memmove(&picked->places[low + 1], &picked->places[low],
            (picked->count - 1 - low) * sizeof(picked->places[0]));
    picked->places[low] = place;
}

enum base_status gw_rollout_page(struct gw_core *core, const struct gw_rollout_ask *ask,
                                 struct gw_rollout_page *out)
{
    const struct gw_catalog *catalog = &core->catalog;
    uint32_t limit = ask->limit < GW_PAGE_MAX ? ask->limit : GW_PAGE_MAX;
    struct picked picked = {.room = limit + 1};
    struct place after = {UINT64_MAX, UINT64_MAX};
    if (ask->after != 0) {
        const struct gw_rollout *last = gw_catalog_find_rollout(core, ask->after);
        bool sees = last != NULL && (ask->sees == NULL || ask->sees(ask->ctx, last->task->tenant,
                                                                    base_str_of(last->task->name)));
        if (!sees) {
            return BASE_ERR_NOT_FOUND;
        }
        after = place_of(last);
    }
    for (uint32_t i = 0; i < catalog->rollout_count; i++) {
        struct place place = place_of(catalog->rollouts[i]);
        if (is_newer(after, place) && is_asked(ask, catalog->rollouts[i])) {
            pick(&picked, place);
        }
    }
    out->more = picked.count > limit;
    out->count = out->more ? limit : picked.count;
    for (uint32_t i = 0; i < out->count; i++) {
        out->ids[i] = picked.places[i].id;
    }
    return BASE_OK;
}

const struct pol_target *gw_rollout_target(struct gw_core *core, uint64_t id)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    return rollout != NULL ? &rollout->release->target : NULL;
}

const struct pol_target *gw_rollout_audience(struct gw_core *core, uint64_t id, uint32_t stage)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    return rollout != NULL && stage < rollout->release->stage_count
               ? &rollout->release->stages[stage].audience
               : NULL;
}
