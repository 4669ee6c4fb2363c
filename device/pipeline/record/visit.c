// Page visits. Called by recorder.c on the runtime's thread, once for each event in its order, so
// that a visit's number is part of what is stored of the event. A linear search: at most
// DEV_VISITS_MAX are open, and one more closes the oldest. An exit without its enter belongs to no
// visit; the rules are in event.h.
#include "pipeline/record/visit.h"

#include "base/check.h"

#include <string.h>

void dev_visits_init(struct dev_visits *visits, uint32_t next)
{
    memset(visits, 0, sizeof(*visits));
    visits->next = next;
}

// Index of the open visit; `count` when there is none. There is at most one, because ENTER ends the
// one before.
static uint32_t find(const struct dev_visits *visits, uint64_t page_hash, uint32_t instance)
{
    uint32_t i = 0;
    while (i < visits->count &&
           (visits->open[i].page_hash != page_hash || visits->open[i].instance != instance)) {
        i++;
    }
    return i;
}

static void end(struct dev_visits *visits, uint32_t index, enum dev_visit_end why,
                struct dev_visit_step *out)
{
    base_assert(index < visits->count && !out->ends);
    out->ends = true;
    out->why = why;
    out->ended = visits->open[index];
    visits->ended[why]++;
    visits->count--;
    memmove(&visits->open[index], &visits->open[index + 1],
            (visits->count - index) * sizeof(visits->open[0]));
}

static void enter(struct dev_visits *visits, const struct dev_event *event,
                  struct dev_visit_step *out)
{
    uint32_t index = find(visits, event->page_hash, event->instance);
    if (index < visits->count) {
        end(visits, index, DEV_VISIT_REENTER, out);
    } else if (visits->count == DEV_VISITS_MAX) {
        end(visits, 0, DEV_VISIT_OVERFLOW, out);
    }
    if (visits->next == 0) { // all numbers are used up
        return;
    }
    out->visit = visits->next;
    visits->next++; // 0 after the last
    base_assert(visits->count < DEV_VISITS_MAX);
    visits->open[visits->count++] = (struct dev_visit){
        .number = out->visit,
        .instance = event->instance,
        .page_hash = event->page_hash,
        .enter_seq = event->seq,
    };
}

void dev_visits_step(struct dev_visits *visits, const struct dev_event *event,
                     struct dev_visit_step *out)
{
    enum dev_event_kind kind = event->kind;
    base_assert(kind >= DEV_EVENT_ENTER && kind < DEV_EVENT_KIND_END);
    *out = (struct dev_visit_step){0};
    if (kind == DEV_EVENT_ENTER) {
        enter(visits, event, out);
        return;
    }
    uint32_t index = find(visits, event->page_hash, event->instance);
    if (index < visits->count) {
        out->visit = visits->open[index].number;
    }
    if (kind == DEV_EVENT_EXIT && index < visits->count) {
        end(visits, index, DEV_VISIT_EXIT, out);
    } else if (kind == DEV_EVENT_EXIT) {
        visits->unmatched++;
    }
}

bool dev_visits_validate(const struct dev_visits *visits)
{
    bool fine = visits->count <= DEV_VISITS_MAX;
    for (uint32_t i = 0; fine && i < visits->count; i++) {
        const struct dev_visit *visit = &visits->open[i];
        fine = visit->number != 0 && (visits->next == 0 || visit->number < visits->next) &&
               (i == 0 || visits->open[i - 1].number < visit->number) &&
               find(visits, visit->page_hash, visit->instance) == i;
    }
    return fine;
}
