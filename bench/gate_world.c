// The event calendar of one simulated rollout. Called by gate_play.c, one world for each rule; one
// thread.
#include "gate_world.h"

#include <stdlib.h>
#include <string.h>

enum event_kind {
    EVENT_CHECKIN,        // the device asks, and may be offered the update
    EVENT_START,          // a pushed update reaches a device that was switched off
    EVENT_REPORT,         // of the first run
    EVENT_TIMEOUT,        // no report in time
    EVENT_GONE,           // an updated device stops checking in
    EVENT_SILENT,         // ... and is found silent
    EVENT_CONTROL_DRAW,   // a control device checks in
    EVENT_CONTROL_REPORT, // ... and completes
    EVENT_CONTROL_GONE,
    EVENT_CONTROL_SILENT,
    EVENT_KIND_COUNT
};

#define EVENTS_PER_DEVICE 10u
#define NO_EVENT          UINT32_MAX

struct event {
    uint32_t next;
    uint32_t device;
    uint8_t kind;
    uint8_t stage;
};

struct state {
    bool offered;
    bool reported;
};

struct gate_calendar {
    uint32_t heads[GATE_STEPS];
    struct event *events;
    uint32_t event_count;
    uint32_t event_max;
    struct state *states;
    uint32_t *queue; // devices that wait for an offer, in order
    uint8_t *queue_stage;
    uint32_t queue_head;
    uint32_t queue_tail;
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
    calendar->events = calloc(calendar->event_max, sizeof(*calendar->events));
    calendar->states = calloc(devices_max, sizeof(*calendar->states));
    calendar->queue = calloc(devices_max, sizeof(*calendar->queue));
    calendar->queue_stage = calloc(devices_max, sizeof(*calendar->queue_stage));
    return calendar->events != NULL && calendar->states != NULL && calendar->queue != NULL &&
           calendar->queue_stage != NULL;
}

void gate_world_done(struct gate_world *world)
{
    if (world->calendar != NULL) {
        free(world->calendar->events);
        free(world->calendar->states);
        free(world->calendar->queue);
        free(world->calendar->queue_stage);
        free(world->calendar);
    }
    *world = (struct gate_world){.fleet = NULL};
}

void gate_world_reset(struct gate_world *world, const struct gate_fleet *fleet,
                      const struct gate_settings *settings)
{
    struct gate_calendar *calendar = world->calendar;
    *world = (struct gate_world){.fleet = fleet, .settings = *settings, .calendar = calendar};
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

// ---- Stages ----

static void enqueue(struct gate_world *world, uint32_t device, uint32_t stage)
{
    struct gate_calendar *calendar = world->calendar;
    calendar->queue[calendar->queue_tail] = device;
    calendar->queue_stage[calendar->queue_tail++] = (uint8_t)stage;
}

void gate_world_open(struct gate_world *world, uint32_t to)
{
    uint32_t index = world->stage_count++;
    struct gate_stage_tally *stage = &world->stages[index];
    double now = gate_world_now_s(world);
    const struct gate_fleet *fleet = world->fleet;
    stage->from = index > 0 ? world->stages[index - 1].to : 0;
    stage->to = to;
    for (uint32_t i = stage->from; i < to; i++) {
        if (world->settings.pushed) {
            enqueue(world, i, index);
        } else {
            schedule(world, next_checkin(&fleet->devices[i], now), i, EVENT_CHECKIN, index);
        }
    }
    world->unsettled += to - stage->from;
    double band = (to - stage->from) * world->settings.control_ratio;
    for (uint32_t i = to; i < fleet->count && i - to < band; i++) {
        schedule(world, next_checkin(&fleet->devices[i], now), i, EVENT_CONTROL_DRAW, index);
    }
}

// ---- What happens to devices ----

// The update starts on a device.
static void start(struct gate_world *world, uint32_t index, uint32_t stage)
{
    const struct gate_device *device = &world->fleet->devices[index];
    double now = gate_world_now_s(world);
    double active = now + device->install_s;
    double report = active + device->report_s;
    double gone = active + device->death_s;
    gone = gone < device->vanish_s ? gone : device->vanish_s;
    bool exposed = gate_exposes(world->fleet, device);
    world->exposed += exposed;
    world->harmed += exposed && gate_harms(device);
    if (report < gone) {
        schedule(world, report, index, EVENT_REPORT, stage);
    }
    if (report >= gone || report > now + world->settings.timeout_s) {
        schedule(world, now + world->settings.timeout_s, index, EVENT_TIMEOUT, stage);
    }
    if (report < gone && !device->fails_after) {
        schedule(world, gone, index, EVENT_GONE, stage);
        schedule(world, gone + (double)GATE_SILENCE_S, index, EVENT_SILENT, stage);
    }
}

static void offer(struct gate_world *world, uint32_t index, uint32_t stage)
{
    struct state *state = &world->calendar->states[index];
    const struct gate_device *device = &world->fleet->devices[index];
    struct gate_stage_tally *tally = &world->stages[stage];
    if (world->held_slices[device->slice]) {
        world->unsettled--;
        return;
    }
    state->offered = true;
    tally->offered++;
    if (world->settings.pushed && device->present_s > gate_world_now_s(world)) {
        schedule(world, device->present_s, index, EVENT_START, stage);
    } else {
        start(world, index, stage);
    }
}

static void happen_updated(struct gate_world *world, const struct event *event)
{
    struct gate_stage_tally *tally = &world->stages[event->stage];
    struct state *state = &world->calendar->states[event->device];
    const struct gate_device *device = &world->fleet->devices[event->device];
    uint32_t *slice = tally->slice_updated[device->slice];
    switch ((enum event_kind)event->kind) {
    case EVENT_REPORT:
        if (state->reported) {
            break;
        }
        state->reported = true;
        world->unsettled--;
        tally->updated.completed++;
        tally->updated.failed += device->fails_after;
        tally->updated.watched += !device->fails_after;
        slice[0]++;
        slice[1] += device->fails_after;
        break;
    case EVENT_TIMEOUT:
        if (!state->reported) {
            state->reported = true;
            world->unsettled--;
            tally->timed_out++;
            slice[0]++;
            slice[1]++;
        }
        break;
    case EVENT_GONE:
        tally->updated.watched -= state->reported && tally->updated.watched > 0;
        break;
    case EVENT_SILENT:
        tally->updated.silent++;
        break;
    default:
        break;
    }
}

static void happen_control(struct gate_world *world, const struct event *event)
{
    struct gate_stage_tally *tally = &world->stages[event->stage];
    struct state *state = &world->calendar->states[event->device];
    const struct gate_device *device = &world->fleet->devices[event->device];
    uint32_t *slice = tally->slice_control[device->slice];
    double now = gate_world_now_s(world);
    if (event->kind == EVENT_CONTROL_DRAW) {
        if (!state->offered) {
            tally->control.watched++;
            double report = now + device->install_s + device->report_s;
            schedule(world, report, event->device, EVENT_CONTROL_REPORT, event->stage);
            schedule(world, device->vanish_s, event->device, EVENT_CONTROL_GONE, event->stage);
            schedule(world, device->vanish_s + GATE_SILENCE_S, event->device, EVENT_CONTROL_SILENT,
                     event->stage);
        }
        return;
    }
    // A device that was admitted meanwhile belongs to the control of an earlier stage only, which
    // nobody asks any more.
    if (state->offered) {
        return;
    }
    if (event->kind == EVENT_CONTROL_REPORT && now < device->vanish_s) {
        tally->control.completed++;
        tally->control.failed += device->fails_before;
        slice[0]++;
        slice[1] += device->fails_before;
    } else if (event->kind == EVENT_CONTROL_GONE) {
        tally->control.watched--;
    } else if (event->kind == EVENT_CONTROL_SILENT) {
        tally->control.silent++;
    }
}

static void happen(struct gate_world *world, const struct event *event)
{
    switch ((enum event_kind)event->kind) {
    case EVENT_CHECKIN:
        enqueue(world, event->device, event->stage);
        break;
    case EVENT_START:
        start(world, event->device, event->stage);
        break;
    case EVENT_REPORT:
    case EVENT_TIMEOUT:
    case EVENT_GONE:
    case EVENT_SILENT:
        happen_updated(world, event);
        break;
    case EVENT_CONTROL_DRAW:
    case EVENT_CONTROL_REPORT:
    case EVENT_CONTROL_GONE:
    case EVENT_CONTROL_SILENT:
        happen_control(world, event);
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
    for (; offers > 0 && calendar->queue_head < calendar->queue_tail; offers--) {
        uint32_t at = calendar->queue_head++;
        offer(world, calendar->queue[at], calendar->queue_stage[at]);
    }
    for (uint32_t i = 0; i < world->stage_count; i++) {
        struct gate_stage_tally *tally = &world->stages[i];
        tally->updated.observed_s += (uint64_t)tally->updated.watched * GATE_STEP_S;
        tally->control.observed_s += (uint64_t)tally->control.watched * GATE_STEP_S;
    }
}

void gate_world_flood(struct gate_world *world)
{
    for (uint32_t i = 0; i < world->fleet->count; i++) {
        const struct gate_device *device = &world->fleet->devices[i];
        bool left = !world->calendar->states[i].offered && !world->held_slices[device->slice];
        bool exposed = left && gate_exposes(world->fleet, device);
        world->exposed += exposed;
        world->harmed += exposed && gate_harms(device);
    }
}
