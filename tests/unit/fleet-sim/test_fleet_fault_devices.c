// What faults make of the device itself: how fast its scripts are, what memory they get, when its
// process is taken, and when its timers go off. Time is moved by hand.
#include "test_kit.h"

#include "faults/faults.h"

#include <stdlib.h>

#define START_US UINT64_C(5000000000)

struct rig {
    struct sim_fault_plan *plan;
    struct test_alloc alloc;
    uint64_t now_us;
    struct sim_faults faults;
    struct sim_transport transport;
    struct sim_disk disk;
    struct sim_storage storage;
    struct sim_faulty faulty;
    struct dev_ports ports;
    struct sim_exchange exchange;
    uint32_t started; // requests that reached the gateway
};

static uint64_t mono(void *ctx)
{
    return ((struct rig *)ctx)->now_us;
}

static struct sim_faulty *faulty_of(const struct sim_exchange *exchange)
{
    return &((struct rig *)exchange->owner)->faulty;
}

static void no_more(const struct sim_exchange *exchange, const struct sim_answer *answer)
{
    (void)exchange, (void)answer;
}

static enum base_status inner_start(void *ctx, struct sim_exchange *exchange,
                                    const struct dev_request *request)
{
    (void)exchange, (void)request;
    ((struct rig *)ctx)->started++;
    return BASE_OK;
}

static void rig_init(struct rig *rig, const char *const *rules, uint32_t until_s)
{
    struct base_error error = {0};
    *rig = (struct rig){.now_us = START_US};
    test_alloc_init(&rig->alloc, SIZE_MAX);
    rig->plan = calloc(1, sizeof(*rig->plan));
    assert_non_null(rig->plan);
    for (uint32_t i = 0; rules[i] != NULL; i++) {
        char rule[96];
        (void)snprintf(rule, sizeof(rule), "%s%s", rules[i],
                       strchr(rules[i], '@') == NULL ? " @ 100%" : "");
        assert_int_equal(sim_fault_add(rig->plan, base_str_of(rule), &error), BASE_OK);
    }
    rig->plan->until_s = until_s;
    rig->storage.disk = &rig->disk;
    const struct sim_faults_options options = {.plan = rig->plan,
                                               .alloc = &rig->alloc.port,
                                               .clock = {.ctx = rig, .mono_us = mono},
                                               .start_us = START_US,
                                               .seed = 7,
                                               .devices = 1,
                                               .faulty_of = faulty_of,
                                               .again = no_more};
    const struct sim_transport_events events = {.ctx = rig};
    sim_faults_init(&rig->faults, &options);
    rig->transport = (struct sim_transport){.ctx = rig, .start = inner_start};
    (void)sim_faults_events(&rig->faults, &events);
    assert_int_equal(sim_faults_wrap(&rig->faults, &rig->transport), BASE_OK);
}

static void rig_done(struct rig *rig)
{
    sim_faults_drop(&rig->faulty);
    sim_faults_done(&rig->faults);
    free(rig->plan);
    assert_int_equal(rig->alloc.live, 0);
}

static void wake(struct rig *rig)
{
    static const struct sim_traits traits;
    const struct sim_faults_waker waker = {.index = 3,
                                           .traits = &traits,
                                           .disk = &rig->storage,
                                           .exchanges = &rig->exchange,
                                           .exchange_count = 1};
    sim_faults_wake(&rig->faults, &waker, &rig->faulty, &rig->ports);
}

static enum base_status asks(struct rig *rig, enum sim_exchange_kind kind)
{
    const struct dev_request request = {.path = BASE_STR("/v1/checkin")};
    rig->exchange = (struct sim_exchange){.owner = rig, .kind = kind};
    return rig->transport.start(rig->transport.ctx, &rig->exchange, &request);
}

static uint64_t sum(const struct rig *rig)
{
    uint64_t hits = 0;
    for (uint32_t k = 0; k < SIM_FAULT_KIND_COUNT; k++) {
        hits += rig->faults.hits[k];
    }
    return hits;
}

static void expect(const struct rig *rig, enum sim_fault_kind kind, uint64_t hits)
{
    if (rig->faults.hits[kind] != hits || sum(rig) != hits) {
        fail_msg("%s: %llu of %llu, not %llu", sim_fault_about(kind)->name,
                 (unsigned long long)rig->faults.hits[kind], (unsigned long long)sum(rig),
                 (unsigned long long)hits);
    }
}

static void a_script_is_slower_while_it_is_hot(void **state)
{
    (void)state;
    static const char *const always[] = {"device:throttle 8", NULL};
    static const char *const often[] = {"device:throttle 8 @ 50%", NULL};
    struct rig rig;
    rig_init(&rig, always, 0);
    wake(&rig);
    assert_int_equal(sim_faults_slower(&rig.faulty), 8);
    assert_int_equal(sim_faults_slower(&rig.faulty), 8);
    expect(&rig, SIM_FAULT_THROTTLE, 2);
    rig_done(&rig);
    rig_init(&rig, often, 0);
    wake(&rig);
    uint32_t hot = 0;
    uint32_t changes = 0;
    uint32_t before = 0;
    for (uint32_t i = 0; i < 1200; i++, rig.now_us += 20000000) { // 200 windows of six
        uint32_t slower = sim_faults_slower(&rig.faulty);
        assert_true(slower == 1 || slower == 8);
        hot += slower == 8;
        changes += i > 0 && slower != before;
        before = slower;
    }
    assert_in_range(hot, 450, 750);
    assert_in_range(changes, 60, 140);
    expect(&rig, SIM_FAULT_THROTTLE, hot);
    rig_done(&rig);
}

static void a_script_gets_what_memory_there_is(void **state)
{
    (void)state;
    static const char *const rules[] = {"device:memory 128", NULL};
    struct rig rig;
    rig_init(&rig, rules, 0);
    wake(&rig);
    assert_false(sim_faults_heap_refused(&rig.faulty, 128));
    expect(&rig, SIM_FAULT_MEMORY, 0);
    assert_true(sim_faults_heap_refused(&rig.faulty, 129));
    assert_true(sim_faults_heap_refused(&rig.faulty, 0)); // the default is more
    expect(&rig, SIM_FAULT_MEMORY, 2);
    rig_done(&rig);
}

static void a_process_that_runs_a_script_is_taken(void **state)
{
    (void)state;
    static const char *const rules[] = {"device:killer @ 20%", NULL};
    struct rig rig;
    uint32_t killed = 0;
    rig_init(&rig, rules, 0);
    wake(&rig);
    assert_true(sim_fault_plan_kills(rig.plan));
    for (uint32_t i = 0; i < 1000; i++) {
        killed += sim_faults_run_killed(&rig.faulty);
    }
    assert_in_range(killed, 150, 250);
    expect(&rig, SIM_FAULT_KILLER, killed);
    rig_done(&rig);
}

static void a_saved_battery_has_no_requests_and_no_wakes(void **state)
{
    (void)state;
    static const char *const rules[] = {"device:saver 600", NULL};
    struct rig rig;
    rig_init(&rig, rules, 3000);
    wake(&rig);
    assert_int_equal(asks(&rig, SIM_EXCHANGE_CHECKIN), BASE_ERR_BUSY);
    assert_int_equal(asks(&rig, SIM_EXCHANGE_ENROL), BASE_OK); // its user has just opened it
    assert_int_equal(rig.started, 1);
    assert_int_equal(sim_faults_slower(&rig.faulty), 2);
    uint64_t due_us = rig.now_us + 700000000;
    uint64_t wakes_us = sim_faults_timer_us(&rig.faulty, due_us, true);
    assert_in_range(wakes_us, due_us + 1, due_us + 600000000);
    assert_int_equal(sim_faults_timer_us(&rig.faulty, wakes_us - 1, true), wakes_us);
    assert_int_equal(sim_faults_timer_us(&rig.faulty, due_us, false), due_us); // who is awake is
    expect(&rig, SIM_FAULT_SAVER, 1);
    rig.now_us = START_US + 3000000000; // it is over
    assert_int_equal(asks(&rig, SIM_EXCHANGE_CHECKIN), BASE_OK);
    assert_int_equal(rig.started, 2);
    assert_int_equal(sim_faults_slower(&rig.faulty), 1);
    rig_done(&rig);
}

static void timers_of_who_dozes_wait_for_the_maintenance(void **state)
{
    (void)state;
    static const char *const rules[] = {"device:doze 900", NULL};
    const uint64_t second = 1000000;
    struct rig rig;
    uint32_t late = 0;
    uint32_t at_once = 0;
    rig_init(&rig, rules, 9000);
    wake(&rig);
    uint64_t due_us = rig.now_us;
    assert_int_equal(sim_faults_timer_us(&rig.faulty, due_us, false), due_us);
    assert_int_equal(sim_faults_timer_us(&rig.faulty, UINT64_MAX, false), UINT64_MAX);
    expect(&rig, SIM_FAULT_DOZE, 0);
    for (uint32_t i = 1; i <= 1800; i++) { // two windows
        due_us = rig.now_us + i * second;
        uint64_t at_us = sim_faults_timer_us(&rig.faulty, due_us, i % 2 == 0);
        assert_in_range(at_us, due_us, due_us + 870 * second);
        late += at_us > due_us;
        at_once += at_us == due_us;
        // Where it goes off, another would at once.
        assert_int_equal(sim_faults_timer_us(&rig.faulty, at_us, true), at_us);
    }
    assert_int_equal(late, 1740);
    assert_int_equal(at_once, 60); // 30 seconds in each
    expect(&rig, SIM_FAULT_DOZE, 1);
    // No timer waits beyond the end of all faults.
    uint64_t end_us = START_US + 9000 * second;
    for (uint32_t i = 1; i <= 900; i++) {
        uint64_t at_us = sim_faults_timer_us(&rig.faulty, end_us - i * second, true);
        assert_in_range(at_us, end_us - i * second, end_us);
    }
    assert_int_equal(sim_faults_timer_us(&rig.faulty, end_us + 1, true), end_us + 1);
    rig_done(&rig);
}

static void nothing_of_it_happens_after_the_end(void **state)
{
    (void)state;
    static const char *const rules[] = {"device:throttle", "device:memory 1", "device:killer",
                                        "device:saver",    "device:doze",     NULL};
    struct rig rig;
    rig_init(&rig, rules, 1);
    rig.now_us += 1000000;
    wake(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(asks(&rig, SIM_EXCHANGE_CHECKIN), BASE_OK);
        assert_int_equal(sim_faults_slower(&rig.faulty), 1);
        assert_false(sim_faults_heap_refused(&rig.faulty, 0));
        assert_false(sim_faults_run_killed(&rig.faulty));
        assert_int_equal(sim_faults_timer_us(&rig.faulty, rig.now_us + i, true), rig.now_us + i);
    }
    assert_int_equal(rig.started, 3);
    assert_int_equal(sum(&rig), 0);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_script_is_slower_while_it_is_hot),
        cmocka_unit_test(a_script_gets_what_memory_there_is),
        cmocka_unit_test(a_process_that_runs_a_script_is_taken),
        cmocka_unit_test(a_saved_battery_has_no_requests_and_no_wakes),
        cmocka_unit_test(timers_of_who_dozes_wait_for_the_maintenance),
        cmocka_unit_test(nothing_of_it_happens_after_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
