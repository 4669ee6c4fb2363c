// Which of the tasks that are new to a device it is offered: the best, as many as it has room for.
// Pure, one pass with insertion, since the room is small. checkin_answer.c calls on the worker's
// thread, why.c asks for the same order on the control thread, so that an explanation cannot differ
// from an answer. See offer_room.h.
#include "svc/plan/offer_room.h"

#include <string.h>

void gw_offer_room_init(struct gw_offer_room *room, uint32_t tasks_max, uint32_t held)
{
    uint32_t most = tasks_max != 0 ? tasks_max : WIRE_PROFILE_TASKS_MAX;
    room->room = most > held ? most - held : 0;
    room->count = 0;
    room->left_out = 0;
}

bool gw_offer_before(const struct gw_release *a, const struct gw_release *b)
{
    if (a->priority != b->priority) {
        return a->priority > b->priority;
    }
    if (a->approved_s != b->approved_s) {
        return a->approved_s < b->approved_s;
    }
    return a->task_id < b->task_id;
}

void gw_offer_room_add(struct gw_offer_room *room, const struct gw_plan_task *task,
                       const struct gw_want *want)
{
    uint32_t at = room->count;
    while (at > 0 && gw_offer_before(want->release, room->items[at - 1].want.release)) {
        at--;
    }
    bool full = room->count == room->room;
    room->left_out += full ? 1 : 0;
    if (at == room->room) {
        return;
    }
    uint32_t kept = full ? room->count - 1 : room->count; // the last one gives way
    memmove(&room->items[at + 1], &room->items[at], (kept - at) * sizeof(room->items[0]));
    room->items[at] = (struct gw_offer_candidate){task, *want};
    room->count = kept + 1;
}
