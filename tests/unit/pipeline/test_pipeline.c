// The data pipeline as a whole, over a store in memory: what is declared decides, matches start
// tasks with the right events, results become features and uploads, and a kill at any commit loses
// no start and repeats none that was over.
#include "test_kit.h"

#include "base/alloc.h"
#include "mem/mem_kv.h"
#include "tunnel/tunnel.h"
#include "pipeline/pipeline.h"
#include "pipeline/sequence.h"
#include "pipeline/timeouts.h"
#include "wire/event_block.h"

#define MS            UINT64_C(1000)
#define S             (1000 * MS)
#define TASK          "shop/page-view"
#define OTHER         "shop/likes"
#define SEEN_MAX      512
#define COLLECT_SMALL (24 * 1024)

struct seen_start {
    uint64_t token;
    uint64_t task_id;
    uint32_t events;
    uint64_t first_seq;
    uint64_t last_seq;
    int64_t price_sum;
    bool timed_out;
};

struct rig {
    struct mem_kv kv;
    struct dev_kv_port port;
    void *memory[4];
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    struct dev_feature_store *features;
    struct dev_pipeline *pipeline;
    uint64_t now_us;
    uint64_t wall_ms;
    // The runtime, played by the test.
    enum base_status start_status;
    struct seen_start running; // token 0: none
    struct seen_start starts[SEEN_MAX];
    uint32_t start_count;
    uint32_t uploads;
    char upload[64];
    uint8_t upload_class;
    uint64_t dropped;
    uint8_t dropped_class;
    uint32_t matches; // that were told
    uint64_t matched_task;
    uint32_t matched_trigger;
    // What the app said.
    uint64_t recorded;
};

static struct rig rig;

// ---- The runtime's side

static void input_read(const struct dev_pipeline_start *start, struct seen_start *out)
{
    static struct wire_event_block block;
    struct base_reader reader;
    base_reader_init(&reader, start->events, start->events_bytes);
    while (base_reader_left(&reader) > 0) {
        uint64_t size = base_reader_varint(&reader);
        if (size == 0) {
            out->timed_out = base_reader_varint(&reader) == 0 || out->timed_out;
            continue;
        }
        const uint8_t *bytes = base_reader_bytes(&reader, (size_t)size);
        struct wire_event event;
        assert_non_null(bytes);
        assert_int_equal(wire_event_block_parse(bytes, (size_t)size, &block), BASE_OK);
        while (wire_event_block_next(&block, &event)) {
            struct dev_event view = {.attrs = event.attrs,
                                     .attrs_bytes = event.attrs_bytes,
                                     .attr_count = event.attr_count};
            struct dev_event_attr price;
            assert_true(out->events == 0 || event.seq > out->last_seq);
            out->first_seq = out->events == 0 ? event.seq : out->first_seq;
            out->last_seq = event.seq;
            out->events++;
            if (dev_event_attr(&view, BASE_STR("price"), &price) == BASE_OK) {
                out->price_sum += price.integer;
            }
        }
    }
}

static enum base_status start_task(void *ctx, const struct dev_pipeline_start *start)
{
    (void)ctx;
    if (rig.start_status != BASE_OK) {
        return rig.start_status;
    }
    assert_true(rig.running.token == 0);
    struct seen_start seen = {.token = start->token, .task_id = start->task_id};
    input_read(start, &seen);
    rig.running = seen;
    assert_true(rig.start_count < SEEN_MAX);
    rig.starts[rig.start_count++] = seen;
    return BASE_OK;
}

static enum base_status upload(void *ctx, uint64_t now_us, const struct dev_pipeline_upload *upload)
{
    (void)ctx;
    (void)now_us;
    assert_true(upload->size < sizeof(rig.upload));
    memcpy(rig.upload, upload->bytes, upload->size);
    rig.upload[upload->size] = '\0';
    rig.upload_class = upload->upload->class_id;
    rig.uploads++;
    return BASE_OK;
}

static void dropped(void *ctx, uint64_t now_us, const struct dev_pipeline_dropped *dropped)
{
    (void)ctx;
    (void)now_us;
    rig.dropped += dropped->count;
    rig.dropped_class = dropped->class_id;
}

static void on_match(void *ctx, uint64_t task_id, uint32_t trigger)
{
    (void)ctx;
    rig.matches++;
    rig.matched_task = task_id;
    rig.matched_trigger = trigger;
}

// The run under way ends with these.
static void run_ends(bool ok, const char *result, const struct dev_effect *effects, uint32_t count)
{
    struct dev_pipeline_end end = {
        .ok = ok, .result = base_str_of(result), .effects = effects, .effect_count = count};
    uint64_t token = rig.running.token;
    assert_true(token != 0);
    rig.running.token = 0;
    dev_pipeline_on_end(rig.pipeline, rig.now_us, rig.wall_ms, 0, token, &end);
    dev_pipeline_on_free(rig.pipeline, token);
}

// ---- Life

static void *block(uint32_t index, size_t size)
{
    assert_true(size > 0);
    rig.memory[index] = aligned_alloc(16, (size + 15) / 16 * 16);
    assert_non_null(rig.memory[index]);
    memset(rig.memory[index], 0xa5, size);
    return rig.memory[index];
}

static enum base_status boot(void)
{
    dev_pipeline_done(rig.pipeline);
    rig.pipeline = NULL;
    for (uint32_t i = 0; i < 4; i++) {
        free(rig.memory[i]);
    }
    rig.port = mem_kv_port(&rig.kv);
    size_t size = dev_collect_bytes();
    assert_int_equal(dev_collect_init(block(0, size), size, &rig.port, &rig.collect), BASE_OK);
    struct dev_recorder_options recorder = {.entropy = 11, .boot_id = 3, .collect = rig.collect};
    size = dev_recorder_bytes(&recorder);
    assert_int_equal(dev_recorder_init(block(1, size), size, &recorder, &rig.recorder), BASE_OK);
    size = dev_feature_store_bytes();
    assert_int_equal(dev_feature_store_init(block(2, size), size, rig.collect, &rig.features),
                     BASE_OK);
    struct dev_pipeline_options options = {
        .collect = rig.collect,
        .features = rig.features,
        .recorder = rig.recorder,
        .memory = base_alloc_heap(),
        .ports = {.start = start_task, .upload = upload, .on_match = on_match, .dropped = dropped}};
    size = dev_pipeline_bytes(&options);
    assert_int_equal(dev_pipeline_init(block(3, size), size, &options, &rig.pipeline), BASE_OK);
    rig.running.token = 0;
    return dev_pipeline_boot(rig.pipeline, rig.now_us, rig.wall_ms);
}

static int setup(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof(rig));
    mem_kv_init(&rig.kv);
    rig.now_us = 5 * S;
    rig.wall_ms = 1700000000000;
    assert_int_equal(boot(), BASE_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dev_pipeline_done(rig.pipeline);
    for (uint32_t i = 0; i < 4; i++) {
        free(rig.memory[i]);
    }
    mem_kv_done(&rig.kv);
    return 0;
}

struct declared {
    const char *name;
    const char *trigger;
    enum wire_declared_events events;
    uint32_t events_max;
    uint32_t events_s;
};

static void declare(const struct declared *from, uint32_t count)
{
    static uint8_t bytes[4][1024];
    struct dev_pipeline_task tasks[4];
    for (uint32_t i = 0; i < count; i++) {
        struct wire_declaration declaration = {
            .trigger_count = 1,
            .triggers = {base_str_of(from[i].trigger)},
            .events = from[i].events,
            .events_max = from[i].events_max,
            .events_s = from[i].events_s,
            .attribute_count = 1,
            .attributes = {BASE_STR("price")},
            .upload_count = 1,
            .uploads = {{.name = BASE_STR("views"), .class_id = 1, .schema_version = 1}},
            .result_upload = 0,
        };
        size_t size = 0;
        assert_int_equal(wire_declaration_encode(&declaration, bytes[i], sizeof(bytes[i]), &size),
                         BASE_OK);
        tasks[i] = (struct dev_pipeline_task){.task_id = wire_task_id(base_str_of(from[i].name)),
                                              .name = base_str_of(from[i].name),
                                              .declaration = {(const char *)bytes[i], size}};
    }
    assert_int_equal(dev_pipeline_declare(rig.pipeline, rig.now_us, tasks, count), BASE_OK);
}

static const struct declared visits = {TASK, "enter(item) * exit(item) page", WIRE_EVENTS_VISIT, 0,
                                       0};

static void record(enum dev_event_kind kind, const char *page, int64_t price)
{
    struct dev_event_attr attrs[] = {
        {.name = BASE_STR("price"), .type = DEV_ATTR_INTEGER, .integer = price},
        {.name = BASE_STR("secret"), .type = DEV_ATTR_STRING, .text = BASE_STR("nobody asked")}};
    struct dev_recording recording = {.kind = kind,
                                      .page = base_str_of(page),
                                      .wall_ms = rig.wall_ms,
                                      .mono_us = rig.now_us,
                                      .attrs = attrs,
                                      .attr_count = 2};
    assert_int_equal(dev_record(rig.recorder, &recording), BASE_OK);
    rig.recorded++;
}

static void step(void)
{
    rig.now_us += 10 * MS;
    rig.wall_ms += 10;
    (void)dev_pipeline_step(rig.pipeline, rig.now_us, rig.wall_ms);
    if (!rig.kv.killed) {
        assert_true(dev_pipeline_validate(rig.pipeline));
    }
}

// A visit of three events besides enter and exit; each costs 1, 2, 3.
static void visit_page(const char *page)
{
    record(DEV_EVENT_ENTER, page, 0);
    for (int64_t i = 1; i <= 3; i++) {
        record(DEV_EVENT_CLICK, page, i);
    }
    record(DEV_EVENT_EXIT, page, 0);
}

static struct dev_pipeline_stats stats(void)
{
    struct dev_pipeline_stats out;
    dev_pipeline_stats(rig.pipeline, &out);
    return out;
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

static void pass(uint64_t time_ms)
{
    rig.now_us += time_ms * MS;
    rig.wall_ms += time_ms;
}

static void killed_at_rest(const struct declared *from)
{
    assert_int_equal(dev_pipeline_flush(rig.pipeline, rig.now_us), BASE_OK);
    assert_int_equal(boot(), BASE_OK);
    declare(from, 1);
}

// A start that is pending when the device dies times out in the next life, by what was left of its
// time, with its own event; once its run ended no later life knows it.
static void test_what_is_pending_survives_a_kill(void **state)
{
    (void)state;
    static const enum wire_declared_events takes[] = {WIRE_EVENTS_MATCHED, WIRE_EVENTS_VISIT};
    for (size_t i = 0; i < TEST_COUNT(takes); i++) {
        struct declared left = basket;
        left.events = takes[i];
        rig.start_count = 0;
        declare(&left, 1);
        record(DEV_EVENT_CLICK, "cart", 7);
        step();
        pass(500);
        killed_at_rest(&left);
        assert_int_equal(stats().pending, 1);
        assert_int_equal(dev_pipeline_flush(rig.pipeline, rig.now_us), BASE_OK); // all is stored
        pass(400);
        step();
        assert_int_equal(rig.start_count, 0);
        pass(100);
        step();
        assert_int_equal(rig.start_count, 1);
        assert_true(rig.running.timed_out);
        assert_int_equal(rig.running.events, 1);
        assert_int_equal(rig.running.price_sum, 7);
        run_ends(true, "", NULL, 0);
        step();
        killed_at_rest(&left);
        assert_int_equal(stats().pending, 0);
        step();
        pass(2000);
        step();
        assert_int_equal(rig.start_count, 1);
    }
}

// Time-outs start the task whose trigger asks, whatever others ask for, and are told as matches.
static void test_whose_time_is_over(void **state)
{
    (void)state;
#define LONG "a-page-with-quite-a-long-name-of-its-own-"
    static const struct declared tasks[] = {
        {"shop/a", "click(" LONG "a) * exit within 1s or timeout", WIRE_EVENTS_MATCHED, 0, 0},
        {"shop/b", "click(" LONG "b) * exit within 4s or timeout", WIRE_EVENTS_MATCHED, 0, 0},
        {"shop/c", "click(" LONG "c) * exit within 2s or timeout", WIRE_EVENTS_NONE, 0, 0}};
    static const struct {
        const char *name;
        int64_t price; // of its start; 0: it is given no events
    } order[] = {{"shop/a", 4}, {"shop/c", 0}, {"shop/b", 1}};
    declare(tasks, 3);
    record(DEV_EVENT_CLICK, LONG "b", 1);
    record(DEV_EVENT_CLICK, LONG "c", 2);
    record(DEV_EVENT_CLICK, LONG "a", 4);
    step();
    assert_int_equal(stats().pending, 3);
    pass(5000);
    for (uint32_t i = 0; i < 3; i++) {
        step();
        assert_int_equal(rig.start_count, i + 1);
        assert_true(rig.running.task_id == wire_task_id(base_str_of(order[i].name)));
        assert_true(rig.running.timed_out);
        assert_int_equal(rig.running.price_sum, order[i].price);
        run_ends(true, "", NULL, 0);
    }
    assert_int_equal(rig.matches, 3);
    assert_true(rig.matched_task == wire_task_id(BASE_STR("shop/b")));
    assert_int_equal(rig.matched_trigger, 0);
}

// More starts than wait: the one that gives way is told as a match that found no place.
static void test_a_start_that_gives_way_is_told(void **state)
{
    (void)state;
    declare(&basket, 1);
    for (uint32_t i = 0; i < DEV_TIMEOUTS_MAX + 3; i++) {
        record(DEV_EVENT_CLICK, "cart", i);
    }
    step();
    assert_int_equal(stats().pending, DEV_TIMEOUTS_MAX);
    assert_int_equal(stats().matches, 3);
    assert_int_equal(stats().starts_dropped, 3);
    assert_int_equal(rig.dropped, 3);
    assert_int_equal(rig.dropped_class, 1);
}

// No start is over while events that came in its time are still to be looked at.
static void test_a_match_that_waits_in_the_ring(void **state)
{
    (void)state;
    static const struct declared all = {TASK, "click(cart) * exit(cart) within 1s or timeout",
                                        WIRE_EVENTS_TIME, 0, 60};
    declare(&all, 1);
    record(DEV_EVENT_CLICK, "cart", 1);
    step();
    struct dev_recording other = {.kind = DEV_EVENT_CLICK,
                                  .page = BASE_STR("home"),
                                  .wall_ms = rig.wall_ms,
                                  .mono_us = rig.now_us};
    for (uint32_t i = 0; i < DEV_PIPELINE_DRAIN_MAX; i++) {
        assert_int_equal(dev_record(rig.recorder, &other), BASE_OK);
    }
    record(DEV_EVENT_EXIT, "cart", 0);
    pass(3000);
    step();
    step();
    assert_int_equal(stats().timed_out, 0);
    assert_int_equal(rig.start_count, 1);
    assert_false(rig.running.timed_out);
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
        cmocka_unit_test_setup_teardown(test_bad_tasks_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kill_at_every_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_times_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_pending_survives_a_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whose_time_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_start_that_gives_way_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_match_that_waits_in_the_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_kill_during_a_run_starts_it_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_store_that_fails_loses_no_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
