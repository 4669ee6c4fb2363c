// The scheduler beside an oracle that does as the header says in the plainest way: a line of
// moments in place of ends that are compared, all sets of runs in place of a search. All cases of
// three runs and few values, and many of more; then an hour of 64 tasks.
#include "test_kit.h"

#include "core/sched/run_sched.h"

#define RUNS_MAX 12u
#define HORIZON  64u // moments that the oracle looks ahead

struct world {
    struct dev_sched sched;
    struct dev_sched_run memory[RUNS_MAX * 2];
};

static struct world world;

// ---- The oracle

static bool goes_ahead(const struct dev_sched_run *a, const struct dev_sched_run *b)
{
    const uint64_t left[3] = {a->want.priority, a->want.deadline_us, a->number};
    const uint64_t right[3] = {b->want.priority, b->want.deadline_us, b->number};
    for (size_t i = 0; i < 3; i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i];
        }
    }
    return false;
}

static uint32_t together(const struct dev_sched_run *run)
{
    return run->want.at_once == 0 ? 1 : run->want.at_once;
}

// Does `run` fit beside the runs of a set of bits?
static bool fits(const struct dev_sched *sched, const struct dev_sched_run *run, uint32_t set)
{
    uint64_t bytes = run->want.memory_bytes;
    uint32_t places = 1;
    uint32_t family = 1;
    uint32_t family_max = together(run);
    for (uint32_t i = 0; i < sched->count; i++) {
        const struct dev_sched_run *by = &sched->line[i];
        if ((set >> i & 1) == 0) {
            continue;
        }
        bytes += by->want.memory_bytes;
        places++;
        if (by->want.task_id == run->want.task_id) {
            family++;
            family_max = together(by) < family_max ? together(by) : family_max;
        }
    }
    return bytes <= sched->limits.budget_bytes && places <= sched->limits.places &&
           family <= family_max;
}

// What is still under way so many moments from now, if `other` (NULL: none) starts now.
static uint32_t under_way(const struct dev_sched *sched, const struct dev_sched_run *other,
                          uint64_t now_us, uint32_t moment)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < sched->count; i++) {
        const struct dev_sched_run *by = &sched->line[i];
        uint64_t begun_us = by == other ? now_us : by->started_us;
        bool lasts = begun_us + by->want.time_us > now_us + moment || moment == 0;
        set |= (by->running || by == other) && lasts ? 1u << i : 0;
    }
    return set;
}

static uint32_t first_class(const struct dev_sched *sched, bool first)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < sched->count; i++) {
        set |= (sched->line[i].want.priority == 0) == first ? 1u << i : 0;
    }
    return set;
}

// The first moment from now at which it fits.
static uint32_t first_moment(const struct dev_sched *sched, const struct dev_sched_run *run,
                             const struct dev_sched_run *other, uint64_t now_us)
{
    for (uint32_t moment = 0; moment < HORIZON; moment++) {
        uint32_t set = under_way(sched, other, now_us, moment);
        if (run->want.priority == 0) { // but `other` counts, whatever it is
            uint32_t other_bit = other != NULL ? 1u << (other - sched->line) : 0;
            set &= first_class(sched, true) | other_bit;
        }
        if (fits(sched, run, set)) {
            return moment;
        }
    }
    fail_msg("a run fits at no moment");
    return HORIZON;
}

static bool eligible(const struct dev_sched *sched, const struct dev_sched_run *run)
{
    return run->want.memory_bytes <= sched->limits.budget_bytes &&
           (run->want.background || !sched->background);
}

static bool harms(const struct dev_sched *sched, const struct dev_sched_run *run,
                  const struct dev_sched_run *ahead, uint64_t now_us)
{
    uint32_t without = first_moment(sched, ahead, NULL, now_us);
    uint32_t with = first_moment(sched, ahead, run, now_us);
    bool in_time = ahead->want.deadline_us != DEV_SCHED_NEVER &&
                   now_us + with + ahead->want.time_us <= ahead->want.deadline_us;
    return with > without && !in_time;
}

static uint32_t running_set(const struct dev_sched *sched)
{
    return under_way(sched, NULL, 0, 0);
}

// The runs of lower priority than `run` that are under way.
static uint32_t lower_set(const struct dev_sched *sched, const struct dev_sched_run *run)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < sched->count; i++) {
        set |= sched->line[i].want.priority > run->want.priority ? 1u << i : 0;
    }
    return set & running_set(sched);
}

// Is `stopped` one of a set of lower priority that gives `run` room, of which none can be spared?
static bool helps(const struct dev_sched *sched, const struct dev_sched_run *run, uint32_t stopped)
{
    uint32_t running = running_set(sched);
    uint32_t lower = lower_set(sched, run);
    for (uint32_t set = lower; set != 0; set = (set - 1) & lower) {
        bool least = (set >> stopped & 1) != 0 && fits(sched, run, running & ~set);
        for (uint32_t i = 0; i < sched->count && least; i++) {
            least = (set >> i & 1) == 0 || !fits(sched, run, running & ~(set & ~(1u << i)));
        }
        if (least) {
            return true;
        }
    }
    return false;
}

static bool forced(const struct dev_sched *sched)
{
    uint64_t bytes = 0;
    bool any = false;
    for (uint32_t i = 0; i < sched->count; i++) {
        const struct dev_sched_run *run = &sched->line[i];
        bytes += run->running ? run->want.memory_bytes : 0;
        any = any || (run->running && !eligible(sched, run));
    }
    return any || bytes > sched->limits.budget_bytes;
}

struct verdict {
    enum dev_sched_deed deed;
    uint32_t index; // of the run that starts, or that others have to stop for
};

static struct verdict oracle(const struct dev_sched *sched, uint64_t now_us)
{
    uint32_t ahead[RUNS_MAX * 2];
    uint32_t count = 0;
    for (uint32_t i = 0; i < sched->count && count < DEV_SCHED_PASSED_MAX; i++) {
        const struct dev_sched_run *run = &sched->line[i];
        assert_true(i == 0 || goes_ahead(run - 1, run));
        if (run->running || !eligible(sched, run)) {
            continue;
        }
        bool goes = first_moment(sched, run, NULL, now_us) == 0;
        bool waits = !goes;
        for (uint32_t j = 0; j < count && goes; j++) {
            goes = !harms(sched, run, &sched->line[ahead[j]], now_us);
        }
        if (goes && fits(sched, run, running_set(sched))) {
            return (struct verdict){DEV_SCHED_START, i};
        }
        bool presses = waits && run->want.deadline_us > now_us &&
                       run->want.deadline_us != DEV_SCHED_NEVER &&
                       now_us + run->want.time_us >= run->want.deadline_us;
        if ((goes || presses) && fits(sched, run, running_set(sched) & ~lower_set(sched, run))) {
            return (struct verdict){DEV_SCHED_STOP, i};
        }
        ahead[count++] = i;
    }
    return (struct verdict){DEV_SCHED_NOTHING, 0};
}

// ---- Both beside each other

// The deed is the one that has to be; all of a moment.
static void deeds_checked(uint64_t now_us)
{
    struct dev_sched *sched = &world.sched;
    for (uint32_t deeds = 0;; deeds++) {
        const struct dev_sched before = *sched;
        struct dev_sched_run copy[RUNS_MAX * 2];
        memcpy(copy, world.memory, sizeof(copy));
        struct dev_sched then = before;
        then.line = copy;
        struct dev_sched_run out = {.number = 0};
        enum dev_sched_deed deed = dev_sched_next(sched, now_us, &out);
        assert_true(deeds < 4 * RUNS_MAX); // it comes to an end
        if (forced(&then)) {
            assert_int_equal(deed, DEV_SCHED_STOP);
            continue;
        }
        struct verdict verdict = oracle(&then, now_us);
        assert_int_equal(deed, verdict.deed);
        assert_true(dev_sched_validate(sched));
        if (deed == DEV_SCHED_NOTHING) {
            return;
        }
        if (deed == DEV_SCHED_START) {
            assert_int_equal(out.want.key, copy[verdict.index].want.key);
            continue;
        }
        const struct dev_sched_run *stopped = dev_sched_find(sched, out.want.key);
        assert_non_null(stopped); // it stays where it was: the index holds
        assert_true(helps(&then, &copy[verdict.index], (uint32_t)(stopped - sched->line)));
    }
}

static void within_limits(const struct dev_sched *sched)
{
    uint64_t bytes = 0;
    uint32_t running = 0;
    for (uint32_t i = 0; i < sched->count; i++) {
        const struct dev_sched_run *run = &sched->line[i];
        bytes += run->running ? run->want.memory_bytes : 0;
        running += run->running ? 1 : 0;
    }
    assert_true(bytes <= sched->limits.budget_bytes);
    assert_true(running <= sched->limits.places);
    assert_true(bytes == sched->used_bytes && running == sched->running);
}

// What is over at `now_us`, by the time it said less `early`.
static void ends_come(uint64_t now_us, uint64_t early)
{
    for (uint32_t i = 0; i < world.sched.count;) {
        const struct dev_sched_run *run = &world.sched.line[i];
        uint64_t time_us = run->want.time_us > early ? run->want.time_us - early : 1;
        if (run->running && now_us >= run->started_us + time_us) {
            assert_true(dev_sched_end(&world.sched, run->want.key, now_us));
        } else {
            i++;
        }
    }
}

static void small(uint32_t places, uint64_t budget)
{
    const struct dev_sched_limits limits = {
        .places = places, .budget_bytes = budget, .waiting_max = RUNS_MAX};
    assert_true(dev_sched_bytes(&limits) <= sizeof(world.memory));
    dev_sched_init(&world.sched, &limits, world.memory);
}

// A run from a number, of few values each.
static struct dev_sched_want drawn(uint64_t draw, uint64_t key, uint64_t now_us)
{
    static const uint64_t deadlines[] = {DEV_SCHED_NEVER, 5};
    struct dev_sched_want want = {.key = key};
    want.priority = (uint8_t)(draw % 3);
    want.memory_bytes = 1 + draw / 3 % 2;
    want.time_us = draw / 6 % 2 == 0 ? 1 : 3;
    want.deadline_us = deadlines[draw / 12 % 2];
    want.deadline_us += want.deadline_us != DEV_SCHED_NEVER ? now_us : 0;
    want.task_id = draw / 24 % 2 == 0 ? key : 99;
    return want;
}
#define DRAWS 48u

static void each_case_of_three(void **state)
{
    (void)state;
    uint64_t stops = 0;
    for (uint32_t number = 0; number < DRAWS * DRAWS * DRAWS; number++) {
        const uint32_t draws[3] = {number % DRAWS, number / DRAWS % DRAWS, number / DRAWS / DRAWS};
        small(2, 3);
        for (uint64_t now_us = 0; now_us < 12; now_us++) {
            ends_come(now_us, number % 2);
            if (now_us < 3) {
                struct dev_sched_want want = drawn(draws[now_us], now_us + 1, now_us);
                assert_int_equal(dev_sched_offer(&world.sched, &want, now_us), DEV_SCHED_ACCEPTED);
            }
            deeds_checked(now_us);
            within_limits(&world.sched);
        }
        assert_int_equal(world.sched.count, 0); // all of them ran
        assert_int_equal(world.sched.stats.ended, 3);
        stops += world.sched.stats.cut;
    }
    assert_true(stops > 1000); // the cases are of use
}

static struct dev_sched_want any(struct base_prng *prng, uint64_t key, uint64_t now_us)
{
    struct dev_sched_want want = {.key = key, .deadline_us = DEV_SCHED_NEVER};
    want.task_id = base_prng_below(prng, 6);
    want.priority = (uint8_t)base_prng_below(prng, DEV_SCHED_PRIORITY_MAX + 1);
    want.memory_bytes = 1 + base_prng_below(prng, 6);
    want.time_us = 1 + base_prng_below(prng, 6);
    want.at_once = (uint8_t)base_prng_below(prng, 4);
    want.background = base_prng_below(prng, 3) == 0;
    if (base_prng_below(prng, 2) == 0) {
        want.deadline_us = now_us + want.time_us + base_prng_below(prng, 10);
    }
    return want;
}

static void anything(struct base_prng *prng, uint64_t now_us, uint64_t *key)
{
    struct dev_sched *sched = &world.sched;
    uint64_t other = *key > 0 ? *key - base_prng_below(prng, *key < 8 ? *key : 8) : 0;
    switch (base_prng_below(prng, 12)) {
    case 0:
        (void)dev_sched_cancel(sched, other);
        break;
    case 1:
        (void)dev_sched_back(sched, other);
        break;
    case 2:
        dev_sched_background(sched, base_prng_below(prng, 3) == 0);
        break;
    case 3:
        dev_sched_budget(sched, 3 + base_prng_below(prng, 10));
        break;
    default:
        if (sched->count < RUNS_MAX) {
            struct dev_sched_want want = any(prng, ++*key, now_us);
            enum dev_sched_answer answer = dev_sched_offer(sched, &want, now_us);
            assert_true(answer == DEV_SCHED_ACCEPTED || answer == DEV_SCHED_TOO_LARGE);
        }
        break;
    }
}

static void many_of_more(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct base_prng prng;
        uint64_t key = 0;
        base_prng_seed(&prng, seed);
        small(1 + (uint32_t)base_prng_below(&prng, 4), 6 + base_prng_below(&prng, 6));
        for (uint64_t now_us = 0; now_us < 120; now_us++) {
            ends_come(now_us, base_prng_below(&prng, 3));
            anything(&prng, now_us, &key);
            deeds_checked(now_us);
            within_limits(&world.sched);
        }
    }
}

// ---- An hour of 64 tasks

#define TASKS  64u
#define HOUR   3600000u // moments of 1 ms
#define PLACES 4u
#define BUDGET 200u // MiB

struct task {
    struct dev_sched_want want;
    uint64_t every;
    uint64_t next;
};

struct hour {
    uint64_t starts; // a hash of when each run of priority 0 began
    uint64_t ended[DEV_SCHED_PRIORITY_MAX + 1];
    uint64_t late[DEV_SCHED_PRIORITY_MAX + 1];
    uint64_t cut;
    uint64_t most_bytes;
};

static struct dev_sched_run hour_memory[PLACES + TASKS];

// Light, middle and heavy ones of each priority.
static void tasks_make(struct task tasks[TASKS], uint32_t count)
{
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    for (uint32_t i = 0; i < TASKS; i++) {
        uint32_t weight = i / 4 % 3;
        uint64_t every = 1000 + base_prng_below(&prng, 4000) + weight * 6000;
        tasks[i] = (struct task){.every = every, .next = base_prng_below(&prng, every)};
        tasks[i].want = (struct dev_sched_want){
            .task_id = i,
            .time_us = 20 + base_prng_below(&prng, 40) + weight * (weight * 400ull),
            .memory_bytes = 2 + base_prng_below(&prng, 8) + weight * 30,
            .priority = (uint8_t)(i % 4),
        };
        tasks[i].next = i < count || tasks[i].want.priority == 0 ? tasks[i].next : HOUR;
    }
}

// What the run takes: by its task and its number, the same whenever it begins.
static uint64_t takes(const struct dev_sched_run *run)
{
    uint64_t draw = base_mix64(run->want.key);
    return 1 + draw % run->want.time_us;
}

static void hour_starts(struct dev_sched *sched, uint64_t now, struct hour *hour)
{
    struct dev_sched_run run;
    enum dev_sched_deed deed = dev_sched_next(sched, now, &run);
    for (; deed != DEV_SCHED_NOTHING; deed = dev_sched_next(sched, now, &run)) {
        if (run.want.priority == 0) {
            assert_int_equal(deed, DEV_SCHED_START); // nothing stops it
            hour->starts = base_mix64(hour->starts ^ base_mix64(run.want.key) ^ now);
        }
    }
    hour->cut = sched->stats.cut;
    hour->most_bytes = sched->stats.most_bytes;
}

static void hour_ends(struct dev_sched *sched, uint64_t now, struct hour *hour)
{
    for (uint32_t i = 0; i < sched->count;) {
        const struct dev_sched_run run = sched->line[i];
        if (!run.running || now < run.started_us + takes(&run)) {
            i++;
            continue;
        }
        assert_true(dev_sched_end(sched, run.want.key, now));
        hour->ended[run.want.priority]++;
        hour->late[run.want.priority] += now > run.want.deadline_us ? 1 : 0;
    }
}

// The first `count` tasks, and all of priority 0.
static void play(uint32_t count, struct hour *hour)
{
    struct dev_sched sched;
    static struct task tasks[TASKS];
    const struct dev_sched_limits limits = {
        .places = PLACES, .budget_bytes = BUDGET, .waiting_max = TASKS, .task_waiting_max = 1};
    assert_true(dev_sched_bytes(&limits) <= sizeof(hour_memory));
    dev_sched_init(&sched, &limits, hour_memory);
    tasks_make(tasks, count);
    memset(hour, 0, sizeof(*hour));
    for (uint64_t now = 0; now < HOUR; now++) {
        hour_ends(&sched, now, hour);
        for (uint32_t i = 0; i < TASKS; i++) {
            if (now < tasks[i].next) {
                continue;
            }
            struct dev_sched_want want = tasks[i].want;
            want.key = (uint64_t)i << 32 | now;
            want.deadline_us = now + tasks[i].every;
            (void)dev_sched_offer(&sched, &want, now); // its last one may still wait
            tasks[i].next += tasks[i].every;
        }
        hour_starts(&sched, now, hour);
    }
    assert_true(dev_sched_validate(&sched));
}

static void an_hour_of_64_tasks(void **state)
{
    (void)state;
    struct hour alone;
    struct hour all;
    play(0, &alone);
    play(TASKS, &all);
    assert_true(all.starts == alone.starts); // no run of priority 0 began a moment later
    assert_int_equal(all.ended[0], alone.ended[0]);
    assert_int_equal(all.late[0], 0);
    assert_true(all.most_bytes <= BUDGET && all.most_bytes > BUDGET / 2);
    assert_true(all.ended[0] > 1000 && all.ended[1] > 1000 && all.ended[2] > 1000);
    assert_true(all.cut > 0 && alone.cut == 0);
    print_message("ended %llu %llu %llu %llu, late %llu %llu %llu %llu, cut %llu, most %llu MiB\n",
                  (unsigned long long)all.ended[0], (unsigned long long)all.ended[1],
                  (unsigned long long)all.ended[2], (unsigned long long)all.ended[3],
                  (unsigned long long)all.late[0], (unsigned long long)all.late[1],
                  (unsigned long long)all.late[2], (unsigned long long)all.late[3],
                  (unsigned long long)all.cut, (unsigned long long)all.most_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case_of_three),
        cmocka_unit_test(many_of_more),
        cmocka_unit_test(an_hour_of_64_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
