// The data pipeline as a whole, over a store in memory: what is declared decides, matches start
// tasks with the right events, results become features and uploads, and a kill at any commit loses
// no start and repeats none that was over.
#include "pipeline_rig.h"

static const struct declared visits = {TASK, "enter(item) * exit(item) page", WIRE_EVENTS_VISIT, 0,
                                       0};

// A visit of three events besides enter and exit; each costs 1, 2, 3.
static void visit_page(const char *page)
{
    record(DEV_EVENT_ENTER, page, 0);
    for (int64_t i = 1; i <= 3; i++) {
        record(DEV_EVENT_CLICK, page, i);
    }
    record(DEV_EVENT_EXIT, page, 0);
}

// ---- Tests

static void test_a_visit_starts_its_task(void **state)
{
    (void)state;
    declare(&visits, 1);
    record(DEV_EVENT_CLICK, "home", 100);
    visit_page("item");
    step();
    assert_int_equal(rig.start_count, 1);
    assert_int_equal(rig.running.events, 5);
    assert_int_equal(rig.running.price_sum, 6);
    assert_true(rig.running.task_id == wire_task_id(BASE_STR(TASK)));
    static const uint8_t value[] = "0.5";
    struct dev_effect effects[] = {
        {.kind = DEV_EFFECT_FEATURE,
         .name = BASE_STR("interest"),
         .key = BASE_STR("i-1"),
         .bytes = value,
         .size = 3},
        {.kind = DEV_EFFECT_UPLOAD,
         .name = BASE_STR("raw"),
         .bytes = value,
         .size = 3}, // not declared
    };
    run_ends(true, "{\"views\":1}", effects, 2);
    step();
    assert_int_equal(rig.uploads, 1);
    assert_string_equal(rig.upload, "{\"views\":1}");
    assert_int_equal(rig.upload_class, 1);
    assert_int_equal(stats().uploads_refused, 1);
    assert_int_equal(stats().features, 1);
    assert_int_equal(stats().waiting, 0);
    visit_page("home"); // another page
    step();
    assert_int_equal(rig.start_count, 1);
}

// "visit" of an event that belongs to no visit: that event, not all others without one.
static void test_an_event_without_a_visit_comes_alone(void **state)
{
    (void)state;
    static const struct declared loose = {TASK, "click(home, price > 50)", WIRE_EVENTS_VISIT, 0, 0};
    declare(&loose, 1);
    record(DEV_EVENT_CLICK, "home", 60);
    step();
    run_ends(true, "", NULL, 0);
    step();
    record(DEV_EVENT_CLICK, "home", 2);
    record(DEV_EVENT_CLICK, "home", 100);
    step();
    assert_int_equal(rig.start_count, 2);
    assert_int_equal(rig.running.events, 1);
    assert_int_equal(rig.running.price_sum, 100);
}

static void test_a_failed_run_gives_nothing(void **state)
{
    (void)state;
    declare(&visits, 1);
    visit_page("item");
    step();
    run_ends(false, "{\"views\":1}", NULL, 0);
    step();
    assert_int_equal(rig.uploads, 0);
    assert_int_equal(stats().waiting, 0); // the runtime reports it; it is not run again
}

static void test_what_a_run_gets(void **state)
{
    (void)state;
    static const struct {
        struct declared declared;
        uint32_t events;
        int64_t price_sum;
    } cases[] = {
        {{TASK, "enter(item) * exit(item) page", WIRE_EVENTS_NONE, 0, 0}, 0, 0},
        {{TASK, "enter(item) * click(item, price >= 3) page", WIRE_EVENTS_MATCHED, 0, 0}, 2, 3},
        {{TASK, "enter(item) * exit(item) page", WIRE_EVENTS_VISIT, 0, 0}, 5, 6},
        {{TASK, "enter(item) * exit(item) page", WIRE_EVENTS_VISIT, 2, 0}, 2, 3},
        {{TASK, "enter(item) * exit(item) page", WIRE_EVENTS_TIME, 0, 60}, 6, 106},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        (void)teardown(NULL);
        (void)setup(NULL);
        declare(&cases[i].declared, 1);
        record(DEV_EVENT_CLICK, "home", 1000);
        step();
        rig.now_us += 100 * S;
        rig.wall_ms += 100000;
        record(DEV_EVENT_CLICK, "home", 100);
        visit_page("item");
        step();
        print_message("case %zu\n", i);
        assert_int_equal(rig.start_count, 1);
        assert_int_equal(rig.running.events, cases[i].events);
        assert_int_equal(rig.running.price_sum, cases[i].price_sum);
    }
}

static void test_starts_wait_their_turn(void **state)
{
    (void)state;
    declare(&visits, 1);
    rig.start_status = BASE_ERR_BUSY;
    for (uint32_t i = 0; i < DEV_PIPELINE_STARTS_MAX + 2; i++) {
        visit_page("item");
        step();
    }
    assert_int_equal(stats().waiting, DEV_PIPELINE_STARTS_MAX);
    assert_int_equal(stats().starts_dropped, 2);
    assert_int_equal(rig.dropped, 2); // told, in the class of what a run would have sent
    assert_int_equal(rig.dropped_class, 1);
    rig.start_status = BASE_OK;
    for (uint32_t i = 0; i < DEV_PIPELINE_STARTS_MAX; i++) {
        step();
        assert_int_equal(rig.start_count, i + 1);
        assert_int_equal(rig.running.events, 5);
        run_ends(true, "", NULL, 0);
    }
    step();
    assert_int_equal(stats().waiting, 0);
}

static void test_nobody_else_is_recorded(void **state)
{
    (void)state;
    struct declared likes = {OTHER, "custom:like(item)", WIRE_EVENTS_NONE, 0, 0};
    declare(&likes, 1);
    visit_page("item");
    visit_page("home");
    step();
    struct dev_recorder_stats recorder;
    dev_recorder_stats(rig.recorder, &recorder);
    assert_int_equal(recorder.recorded, 10);
    assert_int_equal(recorder.kept, 4); // ENTER and EXIT make visits
}

static void test_a_change_of_tasks_keeps_what_matched(void **state)
{
    (void)state;
    declare(&visits, 1);
    record(DEV_EVENT_ENTER, "item", 0);
    step();
    struct declared both[] = {visits, {OTHER, "click(item, price > 2)", WIRE_EVENTS_MATCHED, 0, 0}};
    declare(both, 2);
    record(DEV_EVENT_EXIT, "item", 0);
    step();
    assert_int_equal(rig.start_count, 1);
    assert_int_equal(rig.running.events, 2);
    run_ends(true, "", NULL, 0);
    record(DEV_EVENT_ENTER, "item", 0);
    step();
    declare(&both[1], 1); // the task that was half way is gone
    record(DEV_EVENT_EXIT, "item", 0);
    step();
    assert_int_equal(rig.start_count, 1);
}

static void test_a_task_that_goes_takes_its_starts(void **state)
{
    (void)state;
    declare(&visits, 1);
    rig.start_status = BASE_ERR_BUSY;
    visit_page("item");
    step();
    declare(NULL, 0);
    rig.start_status = BASE_OK;
    step();
    step();
    assert_int_equal(rig.start_count, 0);
    assert_int_equal(stats().starts_lost, 1);
    assert_int_equal(stats().waiting, 0);
}

// A run that the runtime gave up has no effects; it is counted as lost, and the next one goes.
static void test_a_run_that_was_given_up_is_lost(void **state)
{
    (void)state;
    declare(&visits, 1);
    visit_page("item");
    visit_page("item");
    step();
    uint64_t token = rig.running.token;
    assert_true(token != 0);
    rig.running.token = 0;
    dev_pipeline_on_end(rig.pipeline, rig.now_us, rig.wall_ms, (struct dev_pipeline_run){token, 0},
                        NULL);
    dev_pipeline_on_free(rig.pipeline, token);
    step();
    assert_int_equal(stats().starts_lost, 1);
    assert_int_equal(rig.uploads, 0);
    assert_int_equal(rig.start_count, 2);
}

// One step takes all that are lost: who comes behind them waits for none of them.
static void test_starts_of_unknown_tasks_do_not_wait_for_each_other(void **state)
{
    (void)state;
    declare(&visits, 1);
    rig.start_status = BASE_ERR_BUSY;
    for (int i = 0; i < 3; i++) {
        visit_page("item");
    }
    step();
    rig.start_status = BASE_ERR_NOT_FOUND;
    step();
    assert_int_equal(stats().starts_lost, 3);
    step();
    assert_int_equal(stats().waiting, 0);
}

// What a run brings is of the time of its start, whenever it ends; a token that nobody was given
// brings nothing, whatever task it names.
static void test_effects_are_of_the_start(void **state)
{
    (void)state;
    declare(&visits, 1);
    visit_page("item");
    uint64_t matched_ms = rig.wall_ms;
    step();
    const struct dev_pipeline_end end = {.ok = true, .result = BASE_STR("{\"views\":2}")};
    dev_pipeline_on_end(rig.pipeline, rig.now_us, rig.wall_ms,
                        (struct dev_pipeline_run){12345, rig.running.task_id}, &end);
    assert_int_equal(rig.uploads, 0);
    rig.wall_ms += 60000;
    rig.now_us += 60 * S;
    run_ends(true, "{\"views\":1}", NULL, 0);
    assert_int_equal(rig.uploads, 1);
    assert_in_range(rig.upload_ms, matched_ms - 1000, matched_ms);
}

static void test_bad_tasks_are_left_out(void **state)
{
    (void)state;
    struct declared some[] = {{OTHER, "enter(", WIRE_EVENTS_NONE, 0, 0}, visits};
    declare(some, 2);
    assert_int_equal(stats().tasks, 1);
    assert_int_equal(stats().tasks_refused, 1);
    visit_page("item");
    step();
    assert_int_equal(rig.start_count, 1);
    struct dev_pipeline_task damaged = {
        .task_id = 5, .name = BASE_STR("x"), .declaration = BASE_STR("\x01\xff\xff\xff")};
    run_ends(true, "", NULL, 0);
    assert_int_equal(dev_pipeline_declare(rig.pipeline, rig.now_us, &damaged, 1), BASE_OK);
    assert_int_equal(stats().tasks, 0);
}

// ---- Kills

// What the test knows of each match: by its token.
struct fate {
    uint64_t token;
    bool over; // its end was durable
};

struct kill_run {
    struct fate fates[SEEN_MAX];
    uint32_t count;
    uint32_t ended; // the run that ended last and is not known to be durable: index + 1
    uint64_t mark;  // changes of collect then
};

static struct fate *fate_of(struct kill_run *run, uint64_t token)
{
    for (uint32_t i = 0; i < run->count; i++) {
        if (run->fates[i].token == token) {
            return &run->fates[i];
        }
    }
    run->fates[run->count] = (struct fate){.token = token};
    return &run->fates[run->count++];
}

static void follow(struct kill_run *run)
{
    if (!rig.kv.killed && run->ended != 0 && dev_pipeline_is_idle(rig.pipeline)) {
        run->fates[run->ended - 1].over = true;
        run->ended = 0;
    }
    if (rig.running.token != 0) {
        struct fate *fate = fate_of(run, rig.running.token);
        assert_false(fate->over); // it was over, and came again
        run->ended = (uint32_t)(fate - run->fates) + 1;
        run_ends(true, "1", NULL, 0);
    }
}

static void steps_follow(struct kill_run *run)
{
    for (int i = 0; i < 6 && !rig.kv.killed; i++) {
        step();
        follow(run);
    }
}

// Something that ends with one start.
struct scene {
    const struct declared *task;
    void (*play)(struct kill_run *run);
};

static void scene_visit(struct kill_run *run)
{
    visit_page("item");
    steps_follow(run);
}

// Left alone for longer than its time.
static void scene_abandoned(struct kill_run *run)
{
    record(DEV_EVENT_CLICK, "cart", 1);
    steps_follow(run);
    if (!rig.kv.killed) {
        rig.now_us += 2 * S;
        rig.wall_ms += 2000;
        steps_follow(run);
    }
}

static const struct declared basket = {TASK, "click(cart) * exit(cart) within 1s or timeout",
                                       WIRE_EVENTS_MATCHED, 0, 0};
static const struct scene scenes[] = {{&visits, scene_visit}, {&basket, scene_abandoned}};

static void live(struct kill_run *run, const struct scene *scene, uint32_t times)
{
    for (; times > 0 && !rig.kv.killed; times--) {
        scene->play(run);
    }
}

// One life with a kill at commit `at`, then lives without.
static uint32_t kill_once(const struct scene *scene, uint64_t at, bool applied, bool *out_killed)
{
    struct kill_run run = {0};
    (void)setup(NULL);
    declare(scene->task, 1);
    rig.kv.kill_at = rig.kv.commits + at;
    rig.kv.kill_applied = applied;
    live(&run, scene, 4);
    *out_killed = rig.kv.killed;
    mem_kv_revive(&rig.kv);
    run.ended = 0;
    rig.now_us += 2 * S;
    rig.wall_ms += 2000;
    assert_int_equal(boot(), BASE_OK);
    declare(scene->task, 1);
    for (int i = 0; i < 8; i++) {
        step();
        follow(&run);
    }
    live(&run, scene, 2);
    assert_int_equal(stats().pending, 0);
    assert_int_equal(stats().waiting, 0);
    uint32_t matches = run.count;
    (void)teardown(NULL);
    return matches;
}

static void test_kill_at_every_commit(void **state)
{
    (void)state;
    (void)teardown(NULL);
    for (int which = 0; which < 4; which++) {
        uint64_t at = 1;
        for (bool killed = true; killed; at++) {
            uint32_t matches = kill_once(&scenes[which / 2], at, which % 2 != 0, &killed);
            // Two after the kill, and before it those whose visit had reached the store.
            assert_true(matches >= 2 && matches <= 6);
            assert_true(killed || matches == 6);
        }
        print_message("%u commits\n", (unsigned)at - 2);
        assert_true(at > 8);
    }
    (void)setup(NULL);
}

// A start that is over, one that a match ended, one whose time-out came after the kill.
static void test_what_times_out(void **state)
{
    (void)state;
    declare(&basket, 1);
    record(DEV_EVENT_CLICK, "cart", 1);
    step();
    record(DEV_EVENT_CLICK, "cart", 2);
    record(DEV_EVENT_EXIT, "cart", 0);
    step();
    assert_int_equal(rig.start_count, 1);
    assert_false(rig.starts[0].timed_out);
    assert_int_equal(rig.starts[0].price_sum, 2); // the latest start, and its end
    run_ends(true, "", NULL, 0);
    record(DEV_EVENT_CLICK, "cart", 3);
    step();
    assert_int_equal(stats().pending, 1);
    assert_true(dev_pipeline_timeout_due(rig.pipeline) <= rig.now_us + S + MS);
    uint64_t due_us = dev_pipeline_timeout_due(rig.pipeline);
    assert_true(dev_pipeline_step(rig.pipeline, rig.now_us, rig.wall_ms) <= due_us);
    rig.start_status = BASE_ERR_BUSY; // it is stored, and waits
    rig.now_us = due_us;
    rig.wall_ms += S / MS + 1;
    step();
    assert_int_equal(stats().timed_out, 1);
    assert_int_equal(stats().waiting, 1);
    rig.now_us += S;
    assert_int_equal(dev_collect_flush(rig.collect, rig.now_us), BASE_OK);
    assert_int_equal(boot(), BASE_OK);
    rig.start_status = BASE_OK;
    declare(&basket, 1);
    step();
    assert_int_equal(rig.start_count, 2);
    assert_true(rig.starts[1].timed_out);
    assert_int_equal(rig.starts[1].events, 1);
    assert_int_equal(rig.starts[1].price_sum, 3);
    assert_int_equal(stats().pending, 0);
    run_ends(true, "", NULL, 0);
    // A version that does not ask leaves nothing pending.
    record(DEV_EVENT_CLICK, "cart", 4);
    step();
    assert_int_equal(stats().pending, 1);
    declare(&visits, 1);
    assert_int_equal(stats().pending, 0);
}

// The store has the start, the runtime never said that it ended.
static void test_a_kill_during_a_run_starts_it_again(void **state)
{
    (void)state;
    declare(&visits, 1);
    visit_page("item");
    step();
    struct seen_start before = rig.running;
    rig.now_us += S;
    assert_int_equal(boot(), BASE_OK);
    step();
    assert_int_equal(rig.start_count, 1); // which tasks there are is not known yet
    declare(&visits, 1);
    step();
    assert_int_equal(rig.start_count, 2);
    assert_true(rig.running.token == before.token);
    assert_int_equal(rig.running.events, 5); // from the store now
    assert_int_equal(rig.running.price_sum, 6);
    assert_int_equal(stats().starts_again, 1);
}

static void test_a_store_that_fails_loses_no_start(void **state)
{
    (void)state;
    declare(&visits, 1);
    rig.kv.fail_from = rig.kv.commits + 1;
    visit_page("item");
    for (int i = 0; i < 5; i++) {
        step();
    }
    assert_true(rig.start_count <= 1);
    rig.kv.fail_from = 0;
    for (int i = 0; i < 100 && rig.start_count == 0; i++) {
        rig.now_us += S;
        step();
    }
    assert_int_equal(rig.start_count, 1);
    run_ends(true, "", NULL, 0);
    rig.now_us += 60 * S;
    step();
    assert_int_equal(stats().waiting, 0);
}

// What a phone holds for this: 100 patterns, everything with its defaults.
static void test_memory(void **state)
{
    (void)state;
    static char texts[16 * 7][64];
    static uint8_t bytes[DEV_PIPELINE_TASKS_MAX][1024];
    struct dev_pipeline_task many[DEV_PIPELINE_TASKS_MAX];
    uint32_t patterns = 0;
    for (uint32_t i = 0; i < DEV_PIPELINE_TASKS_MAX; i++) {
        struct wire_declaration declaration = {.result_upload = WIRE_DECLARATION_NO_UPLOAD,
                                               .events = WIRE_EVENTS_MATCHED};
        size_t size = 0;
        while (declaration.trigger_count < 7 && patterns < 100) {
            int length = snprintf(texts[patterns], sizeof(texts[0]),
                                  "enter(page%u) * click(page%u) ? exit(page%u)", patterns,
                                  patterns % 9, patterns);
            declaration.triggers[declaration.trigger_count++] =
                (struct base_str){texts[patterns++], (size_t)length};
        }
        assert_int_equal(wire_declaration_encode(&declaration, bytes[i], sizeof(bytes[i]), &size),
                         BASE_OK);
        many[i] = (struct dev_pipeline_task){
            .task_id = i + 1, .name = BASE_STR("t"), .declaration = {(const char *)bytes[i], size}};
    }
    assert_int_equal(dev_pipeline_declare(rig.pipeline, rig.now_us, many, DEV_PIPELINE_TASKS_MAX),
                     BASE_OK);
    assert_int_equal(stats().tasks, DEV_PIPELINE_TASKS_MAX);
    assert_int_equal(stats().patterns, 100);
    // The smallest of each: a phone that has little. With the defaults it is more, see
    // docs/PIPELINE.md.
    struct dev_recorder_options recorder = {.collect = rig.collect,
                                            .ring_bytes = DEV_RECORDER_RING_BYTES_MIN};
    struct dev_pipeline_options options = {.collect = rig.collect,
                                           .features = rig.features,
                                           .recorder = rig.recorder,
                                           .memory = base_alloc_heap(),
                                           .sequence_bytes = DEV_SEQUENCE_RING_BYTES_MIN,
                                           .ports = {.start = start_task}};
    struct dev_tunnel_config tunnel = {.batch_bytes_max = 8 * 1024, .open_bytes = 2 * 1024};
    size_t parts[] = {COLLECT_SMALL,
                      dev_recorder_bytes(&recorder),
                      dev_feature_store_bytes(),
                      dev_pipeline_bytes(&options),
                      stats().trigger_bytes,
                      dev_tunnel_bytes(&tunnel)};
    size_t total = 0;
    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        total += parts[i];
    }
    print_message("collect %zu, recorder %zu, features %zu, pipeline %zu, 100 patterns %zu, tunnel "
                  "%zu: %zu bytes\n",
                  parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], total);
    assert_true(parts[4] <= 32 * 1024);
    assert_true(total <= 256 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_visit_starts_its_task, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_event_without_a_visit_comes_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_failed_run_gives_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_a_run_gets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_starts_wait_their_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_else_is_recorded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_change_of_tasks_keeps_what_matched, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_task_that_goes_takes_its_starts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_run_that_was_given_up_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_starts_of_unknown_tasks_do_not_wait_for_each_other,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_effects_are_of_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_tasks_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kill_at_every_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_times_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_kill_during_a_run_starts_it_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_store_that_fails_loses_no_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
