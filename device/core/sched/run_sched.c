// The scheduler of a device's runs. Called by the runs part of the device runtime on the runtime's
// thread, and by the simulator through it; pure. The runs lie in one array, in their order, so a
// walk from its front meets them as they should start; a walk is bounded by the array and by
// DEV_SCHED_PASSED_MAX, for each of those by the runs under way, twice. These lie near the front:
// who looks for them goes no further than the last of them.
#include "core/sched/run_sched.h"

#include "base/check.h"

#include <string.h>

// A run that waits ahead of others, and when it has room, as things stand.
struct passed {
    const struct dev_sched_run *run;
    uint64_t start_us;
};

static uint64_t plus(uint64_t at_us, uint64_t span_us)
{
    return at_us < DEV_SCHED_NEVER - span_us ? at_us + span_us : DEV_SCHED_NEVER;
}

static uint32_t places_of(const struct dev_sched_limits *limits)
{
    return limits->places > 0 ? limits->places : 1;
}

static uint32_t waiting_of(const struct dev_sched_limits *limits)
{
    return limits->waiting_max > 0 ? limits->waiting_max : DEV_SCHED_WAITING_DEFAULT;
}

static uint32_t at_once(const struct dev_sched_run *run)
{
    return run->want.at_once > 0 ? run->want.at_once : 1;
}

static uint64_t latest_start(const struct dev_sched_run *run)
{
    const struct dev_sched_want *want = &run->want;
    if (want->deadline_us == DEV_SCHED_NEVER) {
        return DEV_SCHED_NEVER;
    }
    return want->deadline_us > want->time_us ? want->deadline_us - want->time_us : 0;
}

// Does `a` go before `b`?
static bool before(const struct dev_sched_run *a, const struct dev_sched_run *b)
{
    if (a->want.priority != b->want.priority) {
        return a->want.priority < b->want.priority;
    }
    if (a->want.deadline_us != b->want.deadline_us) {
        return a->want.deadline_us < b->want.deadline_us;
    }
    return a->number < b->number;
}

static struct dev_sched_run *find(const struct dev_sched *sched, uint64_t key)
{
    for (uint32_t i = 0; i < sched->count; i++) {
        if (sched->line[i].want.key == key) {
            return &sched->line[i];
        }
    }
    return NULL;
}

// ---- Life

size_t dev_sched_bytes(const struct dev_sched_limits *limits)
{
    uint32_t places = places_of(limits);
    uint32_t waiting = waiting_of(limits);
    if (places > DEV_SCHED_PLACES_MAX || waiting > DEV_SCHED_WAITING_MAX) {
        return 0;
    }
    return ((size_t)places + waiting) * sizeof(struct dev_sched_run);
}

void dev_sched_init(struct dev_sched *sched, const struct dev_sched_limits *limits, void *memory)
{
    base_check(dev_sched_bytes(limits) > 0);
    *sched = (struct dev_sched){
        .line = memory,
        .limits =
            {
                .budget_bytes =
                    limits->budget_bytes > 0 ? limits->budget_bytes : DEV_SCHED_BUDGET_DEFAULT,
                .places = places_of(limits),
                .waiting_max = waiting_of(limits),
                .task_waiting_max =
                    limits->task_waiting_max > 0 ? limits->task_waiting_max : waiting_of(limits),
            },
    };
    sched->full_bytes = sched->limits.budget_bytes;
}

// ---- What comes and goes

static enum dev_sched_answer judge(const struct dev_sched *sched, const struct dev_sched_want *want,
                                   uint64_t now_us)
{
    uint32_t of_task = 0;
    for (uint32_t i = 0; i < sched->count; i++) {
        const struct dev_sched_run *run = &sched->line[i];
        of_task += !run->running && run->want.task_id == want->task_id ? 1 : 0;
    }
    if (find(sched, want->key) != NULL) {
        return DEV_SCHED_KNOWN;
    }
    if (want->priority > DEV_SCHED_PRIORITY_MAX) {
        return DEV_SCHED_BAD_PRIORITY;
    }
    if (want->memory_bytes > sched->limits.budget_bytes && want->memory_bytes > sched->full_bytes) {
        return DEV_SCHED_TOO_LARGE;
    }
    if (want->deadline_us != DEV_SCHED_NEVER && plus(now_us, want->time_us) > want->deadline_us) {
        return DEV_SCHED_TOO_LATE;
    }
    if (of_task >= sched->limits.task_waiting_max) {
        return DEV_SCHED_TASK_FULL;
    }
    return sched->count - sched->running < sched->limits.waiting_max ? DEV_SCHED_ACCEPTED
                                                                     : DEV_SCHED_FULL;
}

enum dev_sched_answer dev_sched_offer(struct dev_sched *sched, const struct dev_sched_want *want,
                                      uint64_t now_us)
{
    const struct dev_sched_run run = {.want = *want, .number = sched->next_number};
    enum dev_sched_answer answer = judge(sched, want, now_us);
    uint32_t at = 0;
    if (answer != DEV_SCHED_ACCEPTED) {
        sched->stats.refused[answer]++;
        return answer;
    }
    while (at < sched->count && before(&sched->line[at], &run)) {
        at++;
    }
    memmove(&sched->line[at + 1], &sched->line[at], (sched->count - at) * sizeof(run));
    sched->line[at] = run;
    sched->count++;
    sched->next_number++;
    uint32_t waiting = sched->count - sched->running;
    if (waiting > sched->stats.most_waiting) {
        sched->stats.most_waiting = waiting;
    }
    return DEV_SCHED_ACCEPTED;
}

static void starts(struct dev_sched *sched, struct dev_sched_run *run, uint64_t now_us)
{
    struct dev_sched_stats *stats = &sched->stats;
    base_assert(!run->running);
    run->running = true;
    run->started_us = now_us;
    sched->running++;
    sched->used_bytes += run->want.memory_bytes;
    stats->started++;
    stats->most_bytes =
        sched->used_bytes > stats->most_bytes ? sched->used_bytes : stats->most_bytes;
    stats->most_running =
        sched->running > stats->most_running ? sched->running : stats->most_running;
}

static void stops(struct dev_sched *sched, struct dev_sched_run *run)
{
    base_assert(run->running);
    run->running = false;
    run->started_us = 0;
    sched->running--;
    sched->used_bytes -= run->want.memory_bytes;
}

static void remove_run(struct dev_sched *sched, struct dev_sched_run *run)
{
    uint32_t at = (uint32_t)(run - sched->line);
    base_check(at < sched->count);
    sched->count--;
    memmove(run, run + 1, (sched->count - at) * sizeof(*run));
}

bool dev_sched_end(struct dev_sched *sched, uint64_t key, uint64_t now_us)
{
    struct dev_sched_run *run = find(sched, key);
    if (run == NULL || !run->running) {
        return false;
    }
    stops(sched, run);
    sched->stats.ended++;
    sched->stats.late += now_us > run->want.deadline_us ? 1 : 0;
    remove_run(sched, run);
    return true;
}

bool dev_sched_back(struct dev_sched *sched, uint64_t key)
{
    struct dev_sched_run *run = find(sched, key);
    if (run == NULL || !run->running) {
        return false;
    }
    stops(sched, run);
    return true;
}

bool dev_sched_cancel(struct dev_sched *sched, uint64_t key)
{
    struct dev_sched_run *run = find(sched, key);
    if (run == NULL) {
        return false;
    }
    if (run->running) {
        stops(sched, run);
    }
    remove_run(sched, run);
    return true;
}

void dev_sched_background(struct dev_sched *sched, bool background)
{
    sched->background = background;
}

void dev_sched_budget(struct dev_sched *sched, uint64_t budget_bytes)
{
    base_check(budget_bytes > 0);
    sched->limits.budget_bytes = budget_bytes;
}

// ---- Room

// May it run at all, as the app is now? One that may not does not stand in anybody's way.
static bool may_run(const struct dev_sched *sched, const struct dev_sched_run *run)
{
    return run->want.memory_bytes <= sched->limits.budget_bytes &&
           (run->want.background || !sched->background);
}

// When is it over? What takes longer than it said is taken to be over at any moment.
static uint64_t over_us(const struct dev_sched_run *run, uint64_t now_us)
{
    uint64_t over = plus(run->started_us, run->want.time_us);
    return over > now_us ? over : now_us;
}

// What takes room at a moment, as one run sees it.
struct taken {
    uint64_t bytes;
    uint32_t places;
    uint32_t alone; // of these places, with who goes alone
    uint32_t of_task;
    uint32_t of_task_max; // the fewest that one of the task says may run at once
};

static void take(struct taken *taken, const struct dev_sched_run *by,
                 const struct dev_sched_run *run)
{
    taken->bytes += by->want.memory_bytes;
    taken->places++;
    taken->alone += by->want.alone ? 1 : 0;
    if (by->want.task_id == run->want.task_id) {
        taken->of_task++;
        taken->of_task_max = at_once(by) < taken->of_task_max ? at_once(by) : taken->of_task_max;
    }
}

static bool room_beside(const struct dev_sched *sched, const struct taken *taken,
                        const struct dev_sched_run *run)
{
    bool beside = taken->places > 0;
    return !(beside && (run->want.alone || taken->alone > 0)) &&
           taken->places < sched->limits.places && taken->of_task < taken->of_task_max &&
           taken->bytes <= sched->limits.budget_bytes &&
           run->want.memory_bytes <= sched->limits.budget_bytes - taken->bytes;
}

// Has it room at `at_us`, when what is under way was over by then or not; `other` (NULL: none)
// starts now. A run that waits for none of lower priority looks at none that is under way.
static bool room_at(const struct dev_sched *sched, const struct dev_sched_run *run,
                    const struct dev_sched_run *other, uint64_t now_us, uint64_t at_us)
{
    struct taken taken = {.of_task_max = at_once(run)};
    bool at_now = at_us == now_us; // nothing that runs is over yet
    uint32_t left = sched->running;
    for (uint32_t i = 0; left > 0; i++) {
        const struct dev_sched_run *by = &sched->line[i];
        bool seen = run->want.priority > 0 || by->want.priority == 0;
        left -= by->running ? 1 : 0;
        if (by->running && seen && (at_now || over_us(by, now_us) > at_us)) {
            take(&taken, by, run);
        }
    }
    if (other != NULL && (at_now || plus(now_us, other->want.time_us) > at_us)) {
        take(&taken, other, run);
    }
    return room_beside(sched, &taken, run);
}

// With all that is under way.
static bool room_now(const struct dev_sched *sched, const struct dev_sched_run *run)
{
    struct taken taken = {.of_task_max = at_once(run)};
    uint32_t left = sched->running;
    for (uint32_t i = 0; left > 0; i++) {
        if (sched->line[i].running) {
            take(&taken, &sched->line[i], run);
            left--;
        }
    }
    return room_beside(sched, &taken, run);
}

// When has it room at the earliest? Room comes where something is over. What is over now without
// having said so counts as over a moment later.
static uint64_t start_us(const struct dev_sched *sched, const struct dev_sched_run *run,
                         const struct dev_sched_run *other, uint64_t now_us)
{
    uint64_t earliest = DEV_SCHED_NEVER;
    if (room_at(sched, run, other, now_us, now_us)) {
        return now_us;
    }
    uint32_t left = sched->running;
    bool last = false;
    for (uint32_t i = 0; !last; i++) {
        last = left == 0; // those under way are through: the other one
        const struct dev_sched_run *by = last ? other : &sched->line[i];
        if (by == NULL || (!last && !by->running)) {
            continue;
        }
        left -= last ? 0 : 1;
        uint64_t at_us = by == other ? plus(now_us, by->want.time_us) : over_us(by, now_us);
        at_us = at_us > now_us ? at_us : plus(now_us, 1);
        if (at_us < earliest && room_at(sched, run, other, now_us, at_us)) {
            earliest = at_us;
        }
    }
    return earliest;
}

// Does none of those ahead have room later for it, or too late, if `run` starts now?
static bool may_pass(const struct dev_sched *sched, const struct dev_sched_run *run,
                     const struct passed *passed, uint32_t count, uint64_t now_us)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t with_us = start_us(sched, passed[i].run, run, now_us);
        uint64_t latest_us = latest_start(passed[i].run);
        bool in_time = latest_us != DEV_SCHED_NEVER && with_us <= latest_us;
        if (with_us > passed[i].start_us && !in_time) {
            return false;
        }
    }
    return true;
}

// ---- What has to stop

// Of the lowest priority, of that what started last; of these the one that came last.
static bool stops_before(const struct dev_sched_run *a, const struct dev_sched_run *b)
{
    if (a->want.priority != b->want.priority) {
        return a->want.priority > b->want.priority;
    }
    return a->started_us != b->started_us ? a->started_us > b->started_us : a->number > b->number;
}

// The one to stop next behind `last` (NULL: the first); NULL: there is none.
static struct dev_sched_run *victim(const struct dev_sched *sched, const struct dev_sched_run *last)
{
    struct dev_sched_run *next = NULL;
    uint32_t left = sched->running;
    for (uint32_t i = 0; left > 0; i++) {
        struct dev_sched_run *run = &sched->line[i];
        left -= run->running ? 1 : 0;
        if (run->running && (last == NULL || stops_before(last, run)) &&
            (next == NULL || stops_before(run, next))) {
            next = run;
        }
    }
    return next;
}

static struct dev_sched_run *must_stop(const struct dev_sched *sched)
{
    for (struct dev_sched_run *run = victim(sched, NULL); run != NULL; run = victim(sched, run)) {
        if (!may_run(sched, run)) {
            return run;
        }
    }
    return sched->used_bytes > sched->limits.budget_bytes ? victim(sched, NULL) : NULL;
}

// Has `run` room when those under way of lower priority stop, but for those that stop behind `last`
// and for `spared` (NULL: none)?
static bool room_without(const struct dev_sched *sched, const struct dev_sched_run *run,
                         const struct dev_sched_run *last, const bool *spared)
{
    struct taken taken = {.of_task_max = at_once(run)};
    uint32_t left = sched->running;
    for (uint32_t i = 0; left > 0; i++) {
        const struct dev_sched_run *by = &sched->line[i];
        left -= by->running ? 1 : 0;
        bool stops = by->want.priority > run->want.priority && !spared[i] &&
                     (by == last || stops_before(by, last));
        if (by->running && !stops) {
            take(&taken, by, run);
        }
    }
    return room_beside(sched, &taken, run);
}

// The first of as few as give `run` room; NULL: none do.
static struct dev_sched_run *makes_room(const struct dev_sched *sched,
                                        const struct dev_sched_run *run)
{
    bool spared[DEV_SCHED_PLACES_MAX + DEV_SCHED_WAITING_MAX] = {false};
    struct dev_sched_run *order[DEV_SCHED_PLACES_MAX];
    struct dev_sched_run *last = victim(sched, NULL);
    uint32_t count = 0;
    while (last != NULL && last->want.priority > run->want.priority) {
        order[count++] = last;
        if (room_without(sched, run, last, spared)) {
            break;
        }
        last = victim(sched, last);
    }
    if (count == 0 || !room_without(sched, run, order[count - 1], spared)) {
        return NULL;
    }
    last = order[count - 1];
    for (uint32_t i = count - 1; i > 0; i--) { // what should go on most is spared first
        uint32_t at = (uint32_t)(order[i - 1] - sched->line);
        spared[at] = true;
        spared[at] = room_without(sched, run, last, spared);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!spared[order[i] - sched->line]) {
            return order[i];
        }
    }
    return NULL;
}

// ---- The next deed

static enum dev_sched_deed starts_now(struct dev_sched *sched, struct dev_sched_run *run,
                                      uint64_t now_us, struct dev_sched_run *out)
{
    starts(sched, run, now_us);
    *out = *run;
    return DEV_SCHED_START;
}

static enum dev_sched_deed stops_now(struct dev_sched *sched, struct dev_sched_run *run,
                                     struct dev_sched_run *out)
{
    stops(sched, run);
    run->cuts += run->cuts < UINT32_MAX ? 1 : 0;
    sched->stats.cut++;
    *out = *run;
    return DEV_SCHED_STOP;
}

// Must it start now, and would that help it?
static bool presses(const struct dev_sched_run *run, uint64_t now_us)
{
    return latest_start(run) <= now_us && now_us < run->want.deadline_us;
}

enum dev_sched_deed dev_sched_next(struct dev_sched *sched, uint64_t now_us,
                                   struct dev_sched_run *out)
{
    struct passed passed[DEV_SCHED_PASSED_MAX];
    uint32_t passed_count = 0;
    struct dev_sched_run *stop = must_stop(sched);
    if (stop != NULL) {
        return stops_now(sched, stop, out);
    }
    for (uint32_t i = 0; i < sched->count && passed_count < DEV_SCHED_PASSED_MAX; i++) {
        struct dev_sched_run *run = &sched->line[i];
        if (run->running || !may_run(sched, run)) {
            continue;
        }
        uint64_t room_us = start_us(sched, run, NULL, now_us);
        bool goes = room_us == now_us && may_pass(sched, run, passed, passed_count, now_us);
        if (goes && room_now(sched, run)) {
            return starts_now(sched, run, now_us, out);
        }
        stop = goes || (room_us > now_us && presses(run, now_us)) ? makes_room(sched, run) : NULL;
        if (stop != NULL) {
            return stops_now(sched, stop, out);
        }
        passed[passed_count++] = (struct passed){.run = run, .start_us = room_us};
    }
    return DEV_SCHED_NOTHING;
}

uint64_t dev_sched_due_us(const struct dev_sched *sched, uint64_t now_us)
{
    uint64_t due_us = DEV_SCHED_NEVER;
    for (uint32_t i = 0; i < sched->count; i++) {
        const struct dev_sched_run *run = &sched->line[i];
        uint64_t latest_us = latest_start(run);
        if (!run->running && latest_us > now_us && latest_us < due_us) {
            due_us = latest_us;
        }
    }
    return due_us;
}

// ---- Views

const struct dev_sched_run *dev_sched_find(const struct dev_sched *sched, uint64_t key)
{
    return find(sched, key);
}

const char *dev_sched_answer_text(enum dev_sched_answer answer)
{
    static const char *const texts[DEV_SCHED_ANSWER_COUNT] = {
        [DEV_SCHED_ACCEPTED] = "accepted",
        [DEV_SCHED_KNOWN] = "is here already",
        [DEV_SCHED_BAD_PRIORITY] = "has a priority that there is not",
        [DEV_SCHED_TOO_LARGE] = "needs more memory than all runs together may have",
        [DEV_SCHED_TOO_LATE] = "could not be over by its deadline",
        [DEV_SCHED_TASK_FULL] = "as many runs of its task wait as may",
        [DEV_SCHED_FULL] = "as many runs wait as may",
    };
    return answer < DEV_SCHED_ANSWER_COUNT ? texts[answer] : "?";
}

bool dev_sched_validate(const struct dev_sched *sched)
{
    const struct dev_sched_limits *limits = &sched->limits;
    uint64_t used = 0;
    uint32_t running = 0;
    uint32_t alone = 0;
    for (uint32_t i = 0; i < sched->count; i++) {
        const struct dev_sched_run *run = &sched->line[i];
        if ((i > 0 && !before(run - 1, run)) || run->number >= sched->next_number ||
            find(sched, run->want.key) != run || run->want.priority > DEV_SCHED_PRIORITY_MAX) {
            return false;
        }
        used += run->running ? run->want.memory_bytes : 0;
        running += run->running ? 1 : 0;
        alone += run->running && run->want.alone ? 1 : 0;
    }
    return (alone == 0 || running == 1) && used == sched->used_bytes && running == sched->running &&
           running <= limits->places && sched->count <= limits->places + limits->waiting_max;
}
