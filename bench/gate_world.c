// The event calendar of one simulated rollout. Called by gate_play.c and gate_ours.c, one world for
// each rule; one thread.
#include "gate_world.h"

#include <stdlib.h>
#include <string.h>

enum event_kind {
    EVENT_CHECKIN, // the device asks, and may be offered something
    EVENT_START,   // a pushed update reaches a device that was switched off
    EVENT_REPORT,  // of the first run
    EVENT_TIMEOUT, // no report in time
    EVENT_KIND_COUNT
};

#define EVENTS_PER_DEVICE 10u
#define QUEUES_PER_DEVICE 2u // as control, and for the update
#define NO_EVENT          UINT32_MAX

struct event {
    uint32_t next;
    uint32_t device;
    uint8_t kind;
    uint8_t stage;
};

struct state {
    bool updated; // was offered the update
    bool asked;   // was offered anything
    bool settled; // reported, or timed out
    uint8_t stage;
    float seen_s; // offered, or reported
    float gone_s;
};

struct waiting {
    uint32_t device;
    uint8_t stage;
};

struct gate_calendar {
    uint32_t heads[GATE_STEPS];
    struct event *events;
    uint32_t event_count;
    uint32_t event_max;
    struct state *states;
    struct waiting *queue; // devices that wait for an offer, in order
    uint32_t queue_head;
    uint32_t queue_tail;
    uint32_t queue_max;
    uint32_t device_max;
};

bool gate_world_init(struct gate_world *world, uint32_t devices_max)
{
    *world = (struct gate_world){.fleet = NULL};
    struct gate_calendar *calendar = calloc(1, sizeof(*calendar));
    world->calendar = calendar;
    if (calendar == NULL) {
        return false;
    }
    calendar->device_max = devices_max;
    calendar->event_max = devices_max * EVENTS_PER_DEVICE;
    calendar->queue_max = devices_max * QUEUES_PER_DEVICE * GATE_STAGES;
    calendar->events = calloc(calendar->event_max, sizeof(*calendar->events));
    calendar->states = calloc(devices_max, sizeof(*calendar->states));
    calendar->queue = calloc(calendar->queue_max, sizeof(*calendar->queue));
    return calendar->events != NULL && calendar->states != NULL && calendar->queue != NULL;
}

void gate_world_done(struct gate_world *world)
{
    if (world->calendar != NULL) {
        free(world->calendar->events);
        free(world->calendar->states);
        free(world->calendar->queue);
        free(world->calendar);
    }
    *world = (struct gate_world){.fleet = NULL};
}

void gate_world_reset(struct gate_world *world, const struct gate_fleet *fleet,
                      const struct gate_settings *settings)
{
    struct gate_calendar *calendar = world->calendar;
    *world = (struct gate_world){
        .fleet = fleet, .settings = *settings, .alone_price = 1, .calendar = calendar};
    for (uint32_t i = 0; i < GATE_STEPS; i++) {
        calendar->heads[i] = NO_EVENT;
    }
    memset(calendar->states, 0, calendar->device_max * sizeof(*calendar->states));
    calendar->event_count = 0;
    calendar->queue_head = 0;
    calendar->queue_tail = 0;
}

// ---- Calendar ----

static void schedule(struct gate_world *world, double at_s, uint32_t device, enum event_kind kind,
                     uint32_t stage)
{
    struct gate_calendar *calendar = world->calendar;
    double step = at_s / GATE_STEP_S;
    if (step >= GATE_STEPS || calendar->event_count >= calendar->event_max) {
        return;
    }
    uint32_t slot = (uint32_t)step > world->step ? (uint32_t)step : world->step + 1;
    if (slot >= GATE_STEPS) {
        return;
    }
    calendar->events[calendar->event_count] = (struct event){.next = calendar->heads[slot],
                                                             .device = device,
                                                             .kind = (uint8_t)kind,
                                                             .stage = (uint8_t)stage};
    calendar->heads[slot] = calendar->event_count++;
}

// The next check-in at or after `from_s`; GATE_NEVER_S when the device is gone by then.
static double next_checkin(const struct gate_device *device, double from_s)
{
    double from = from_s > device->present_s ? from_s : device->present_s;
    double rounds = (from - device->phase_s) / GATE_CHECKIN_S;
    double whole = (double)(int64_t)rounds;
    whole += rounds > whole ? 1 : 0;
    double at = device->phase_s + whole * GATE_CHECKIN_S;
    return at < device->vanish_s ? at : (double)GATE_NEVER_S;
}

double gate_world_seen_s(const struct gate_world *world, uint32_t index)
{
    const struct gate_device *device = &world->fleet->devices[index];
    const struct state *state = &world->calendar->states[index];
    double now = gate_world_now_s(world);
    double until = now < state->gone_s ? now : state->gone_s;
    double rounds = (until - device->phase_s) / GATE_CHECKIN_S;
    double checkin = device->phase_s + (double)(int64_t)rounds * GATE_CHECKIN_S;
    return rounds > 0 && checkin > state->seen_s ? checkin : state->seen_s;
}

// ---- Stages ----

static void enqueue(struct gate_world *world, uint32_t device, uint32_t stage)
{
    struct gate_calendar *calendar = world->calendar;
    if (calendar->queue_tail < calendar->queue_max) {
        calendar->queue[calendar->queue_tail++] =
            (struct waiting){.device = device, .stage = (uint8_t)stage};
    }
}

void gate_world_open(struct gate_world *world, uint32_t to, uint32_t control)
{
    uint32_t index = world->stage_count++;
    struct gate_stage_tally *stage = &world->stages[index];
    double now = gate_world_now_s(world);
    const struct gate_fleet *fleet = world->fleet;
    stage->from = index > 0 ? world->stages[index - 1].to : 0;
    stage->to = to;
    world->control_to = control < fleet->count - to ? to + control : fleet->count;
    for (uint32_t i = stage->from; i < world->control_to; i++) {
        if (world->settings.pushed) {
            enqueue(world, i, index);
        } else {
            schedule(world, next_checkin(&fleet->devices[i], now), i, EVENT_CHECKIN, index);
        }
    }
}

// ---- What happens to devices ----

static void tell(const struct gate_world *world, const struct gate_news *news)
{
    if (world->settings.heard != NULL) {
        world->settings.heard(world->settings.ctx, news);
    }
}

// What it was offered starts on a device.
static void start(struct gate_world *world, uint32_t index, uint32_t stage)
{
    const struct gate_device *device = &world->fleet->devices[index];
    struct state *state = &world->calendar->states[index];
    double now = gate_world_now_s(world);
    double active = now + device->install_s;
    double report = active + device->report_s;
    double gone = state->updated ? active + device->death_s : device->vanish_s;
    gone = gone < device->vanish_s ? gone : device->vanish_s;
    state->gone_s = (float)gone;
    bool exposed = state->updated && gate_exposes(world->fleet, device);
    world->exposed += exposed;
    world->harmed += exposed && gate_harms(device);
    if (report < gone) {
        schedule(world, report, index, EVENT_REPORT, stage);
    }
    if (report >= gone || report > now + world->settings.timeout_s) {
        schedule(world, now + world->settings.timeout_s, index, EVENT_TIMEOUT, stage);
    }
}

// What is offered to a device whose turn it is. False: nothing.
static bool find_offer(const struct gate_world *world, const struct waiting *waiting,
                       struct gate_news *out)
{
    uint32_t newest = world->stage_count - 1;
    bool late = waiting->stage < newest;
    const struct gate_stage_tally *own = &world->stages[waiting->stage];
    bool compares = world->control_to > world->stages[newest].to;
    bool updated = waiting->device < own->to;
    *out = (struct gate_news){.what = GATE_OFFERED,
                              .device = waiting->device,
                              .stage = world->settings.heard != NULL ? newest : waiting->stage,
                              .control = !updated,
                              .alone = late || !compares};
    bool taken = world->calendar->states[waiting->device].updated;
    return !world->held_slices[world->fleet->devices[waiting->device].slice] && !taken &&
           (updated || !late);
}

// Returns how many offers it counts for.
static uint32_t offer(struct gate_world *world, const struct waiting *waiting)
{
    const struct gate_device *device = &world->fleet->devices[waiting->device];
    struct state *state = &world->calendar->states[waiting->device];
    struct gate_news news;
    if (!find_offer(world, waiting, &news)) {
        return 0;
    }
    *state = (struct state){.updated = !news.control,
                            .asked = true,
                            .stage = (uint8_t)news.stage,
                            .seen_s = (float)gate_world_now_s(world)};
    world->stages[news.stage].offered += !news.control;
    tell(world, &news);
    if (world->settings.pushed && device->present_s > gate_world_now_s(world)) {
        schedule(world, device->present_s, waiting->device, EVENT_START, news.stage);
    } else {
        start(world, waiting->device, news.stage);
    }
    return news.alone ? world->alone_price : 1;
}

static void report(struct gate_world *world, uint32_t index, struct state *state)
{
    const struct gate_device *device = &world->fleet->devices[index];
    struct gate_stage_tally *tally = &world->stages[state->stage];
    bool fails = state->updated ? device->fails_after : device->fails_before;
    state->seen_s = (float)gate_world_now_s(world);
    tally->completed += state->updated;
    tally->failed += state->updated && fails;
    const struct gate_news news = {.what = fails ? GATE_FAILED : GATE_SUCCEEDED,
                                   .device = index,
                                   .stage = state->stage,
                                   .control = !state->updated};
    tell(world, &news);
}

static void happen(struct gate_world *world, const struct event *event)
{
    struct state *state = &world->calendar->states[event->device];
    bool current = state->asked && state->stage == event->stage && !state->settled;
    switch ((enum event_kind)event->kind) {
    case EVENT_CHECKIN:
        enqueue(world, event->device, event->stage);
        break;
    case EVENT_START:
        start(world, event->device, event->stage);
        break;
    case EVENT_REPORT:
        if (current) {
            state->settled = true;
            report(world, event->device, state);
        }
        break;
    case EVENT_TIMEOUT:
        if (current && state->updated) {
            state->settled =
                world->settings.heard == NULL; // who hears of reports says for how long
            world->stages[state->stage].timed_out++;
        }
        break;
    case EVENT_KIND_COUNT:
        break;
    }
}

void gate_world_step(struct gate_world *world, uint64_t offers)
{
    struct gate_calendar *calendar = world->calendar;
    world->step++;
    // Events of this step schedule later ones only.
    for (uint32_t i = calendar->heads[world->step]; i != NO_EVENT; i = calendar->events[i].next) {
        happen(world, &calendar->events[i]);
    }
    uint64_t used = world->owed;
    while (used < offers && calendar->queue_head < calendar->queue_tail) {
        used += offer(world, &calendar->queue[calendar->queue_head++]);
    }
    world->owed = used > offers ? used - offers : 0;
}

void gate_world_flood(struct gate_world *world)
{
    for (uint32_t i = 0; i < world->fleet->count; i++) {
        const struct gate_device *device = &world->fleet->devices[i];
        bool left = !world->calendar->states[i].updated && !world->held_slices[device->slice];
        bool exposed = left && gate_exposes(world->fleet, device);
        world->exposed += exposed;
        world->harmed += exposed && gate_harms(device);
    }
}
