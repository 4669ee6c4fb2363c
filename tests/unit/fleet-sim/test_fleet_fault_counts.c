// What faults are said to have done: a fault counts where it happens, and what is only drawn, or
// has nothing to change, is none.
#include "test_kit.h"

#include "device/device.h"
#include "faults/faults.h"

#include <stdlib.h>

#define START_US UINT64_C(5000000000)
#define WALL_US  UINT64_C(1790000000000000)

struct rig {
    struct test_alloc alloc;
    struct sim_fault_plan *plan;
    uint64_t now_us;
    struct sim_faults faults;
    struct sim_transport transport;
    struct sim_transport_events events;
    struct sim_store *store;
    struct sim_disk disk;
    struct sim_storage storage;
    struct sim_faulty faulty;
    struct dev_ports ports;
    struct sim_exchange exchanges[2];
    uint32_t wakes;
    struct sim_exchange *twin; // what reached the gateway last
    uint32_t started;          // requests that reached the gateway
    uint32_t heads;            // of answers that the device heard
    uint32_t ended;            // answers that it heard to their end
    char heard[16];            // body of the last one
    char asked[64];            // what reached the gateway last: path, body, credential
};

// ---- The world around

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
    struct rig *rig = ctx;
    rig->started++;
    (void)snprintf(rig->asked, sizeof(rig->asked), "%.*s %.*s %.*s", (int)request->path.size,
                   request->path.data, (int)request->body_bytes,
                   request->body_bytes > 0 ? (const char *)request->body : "",
                   (int)exchange->credential.size,
                   exchange->credential.size > 0 ? exchange->credential.data : "");
    rig->twin = exchange;
    return BASE_OK;
}

static void inner_cancel(void *ctx, struct sim_exchange *exchange)
{
    (void)ctx, (void)exchange;
}

static void on_head(void *ctx, struct sim_exchange *exchange, const struct dev_response_head *head)
{
    (void)exchange, (void)head;
    ((struct rig *)ctx)->heads++;
}

static void on_body(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes, size_t size)
{
    struct rig *rig = ctx;
    (void)exchange;
    (void)snprintf(rig->heard, sizeof(rig->heard), "%.*s", (int)size, (const char *)bytes);
}

static void on_end(void *ctx, struct sim_exchange *exchange, enum base_status status)
{
    (void)exchange, (void)status;
    ((struct rig *)ctx)->ended++;
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
    assert_int_equal(sim_store_new(&rig->alloc.port, dev_crypto_openssl(), &rig->store), BASE_OK);
    rig->storage =
        (struct sim_storage){.store = rig->store, .disk = &rig->disk, .alloc = &rig->alloc.port};
    const struct sim_faults_options options = {.plan = rig->plan,
                                               .alloc = &rig->alloc.port,
                                               .clock = {.ctx = rig, .mono_us = mono},
                                               .start_us = START_US,
                                               .seed = 7,
                                               .devices = 1,
                                               .faulty_of = faulty_of,
                                               .again = no_more};
    const struct sim_transport_events events = {
        .ctx = rig, .head = on_head, .body = on_body, .end = on_end};
    sim_faults_init(&rig->faults, &options);
    rig->transport =
        (struct sim_transport){.ctx = rig, .start = inner_start, .cancel = inner_cancel};
    rig->events = sim_faults_events(&rig->faults, &events);
    assert_int_equal(sim_faults_wrap(&rig->faults, &rig->transport), BASE_OK);
}

static void rig_done(struct rig *rig)
{
    sim_faults_drop(&rig->faulty);
    sim_faults_done(&rig->faults);
    sim_disk_done(&rig->disk, rig->store, &rig->alloc.port);
    sim_store_free(rig->store);
    free(rig->plan);
    assert_int_equal(rig->alloc.live, 0);
}

static void wake(struct rig *rig)
{
    static const struct sim_traits traits;
    const struct sim_faults_waker waker = {.index = 3,
                                           .wakes = rig->wakes++,
                                           .traits = &traits,
                                           .disk = &rig->storage,
                                           .exchanges = rig->exchanges,
                                           .exchange_count = 2};
    rig->ports.storage = sim_storage_port(&rig->storage);
    sim_faults_wake(&rig->faults, &waker, &rig->faulty, &rig->ports);
}

static enum base_status save(struct rig *rig)
{
    const struct dev_storage_port *storage = &rig->ports.storage;
    return storage->state_save(storage->ctx, (const uint8_t *)"state", 5);
}

static enum base_status append(struct rig *rig, const struct wire_sha256 *name, size_t size)
{
    static const uint8_t bytes[4096];
    const struct dev_storage_port *storage = &rig->ports.storage;
    assert_in_range(size, 0, sizeof(bytes));
    return storage->blob_append(storage->ctx, name, 0, bytes, size);
}

static uint64_t wall(struct rig *rig)
{
    return sim_faults_wall_us(&rig->faulty, WALL_US);
}

static void asks(struct rig *rig, uint32_t number)
{
    const struct dev_request request = {.path = BASE_STR("/v1/checkin")};
    struct sim_exchange *exchange = &rig->exchanges[number];
    *exchange = (struct sim_exchange){.owner = rig, .kind = SIM_EXCHANGE_CHECKIN, .open = true};
    assert_int_equal(rig->transport.start(rig->transport.ctx, exchange, &request), BASE_OK);
}

static void answers(struct rig *rig, const char *body)
{
    const struct dev_response_head head = {.status = 200, .content_bytes = strlen(body)};
    rig->events.head(rig->events.ctx, &rig->exchanges[0], &head);
    rig->events.body(rig->events.ctx, &rig->exchanges[0], (const uint8_t *)body, strlen(body));
    rig->events.end(rig->events.ctx, &rig->exchanges[0], BASE_OK);
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

// ---- Of a wake

static const char *const of_wakes[] = {"process:kill 10000",
                                       "process:loop 5",
                                       "storage:full 10000",
                                       "storage:read-only",
                                       "storage:torn",
                                       "storage:backup",
                                       "storage:clear",
                                       "clock:offset",
                                       "clock:step",
                                       "clock:unset",
                                       "clock:drift",
                                       "device:cpu",
                                       "device:disk",
                                       "network:mtu",
                                       "network:dns",
                                       "network:replay",
                                       NULL};

static void what_is_only_drawn_is_none(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, of_wakes, 0);
    for (uint32_t i = 0; i < 20; i++) {
        wake(&rig);
        sim_faults_killed(&rig.faulty); // with nothing that could be torn
        sim_faults_drop(&rig.faulty);
    }
    assert_int_equal(sum(&rig), 0);
    rig_done(&rig);
}

static void nothing_happens_after_the_end(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, of_wakes, 1);
    rig.now_us += 1000000;
    for (uint32_t i = 0; i < 20; i++) {
        wake(&rig);
        assert_false(rig.faulty.never_set);
        assert_int_equal(rig.faulty.times, 1);
        assert_int_equal(rig.faulty.room, UINT64_MAX);
        assert_int_equal(save(&rig), BASE_OK);
        assert_int_equal(wall(&rig), WALL_US);
        assert_int_equal(sim_faults_run_us(&rig.faulty, 10), 10);
        sim_faults_drop(&rig.faulty);
    }
    assert_int_equal(sum(&rig), 0);
    rig_done(&rig);
}

static void a_kill_is_one_death(void **state)
{
    (void)state;
    static const char *const rules[][2] = {{"process:kill 1", NULL}, {"process:loop 1", NULL}};
    static const enum sim_fault_kind kinds[] = {SIM_FAULT_KILL, SIM_FAULT_LOOP};
    for (uint32_t k = 0; k < 2; k++) {
        struct rig rig;
        rig_init(&rig, rules[k], 0);
        for (uint32_t i = 1; i <= 5; i++) {
            wake(&rig);
            for (uint32_t call = 0; call < 10; call++) {
                (void)save(&rig);
            }
            assert_true(rig.faulty.dead);
            assert_int_equal(save(&rig), BASE_ERR_IO);
            expect(&rig, kinds[k], i);
        }
        rig_done(&rig);
    }
}

static void a_write_that_fails_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *rules[2];
        enum sim_fault_kind kind;
        enum base_status first;
        enum base_status then;
        uint64_t hits; // of three writes
    } cases[] = {
        {{"storage:error"}, SIM_FAULT_ERROR, BASE_ERR_IO, BASE_ERR_IO, 3},
        {{"storage:read-only"}, SIM_FAULT_READONLY, BASE_ERR_IO, BASE_ERR_IO, 1},
        {{"storage:full 1"}, SIM_FAULT_FULL, BASE_ERR_FULL, BASE_ERR_FULL, 1},
        {{"storage:full 2"}, SIM_FAULT_FULL, BASE_OK, BASE_ERR_FULL, 1},
        {{"storage:full 4"}, SIM_FAULT_FULL, BASE_OK, BASE_OK, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        rig_init(&rig, cases[i].rules, 0);
        wake(&rig);
        assert_int_equal(save(&rig), cases[i].first);
        assert_int_equal(save(&rig), cases[i].then);
        assert_int_equal(save(&rig), cases[i].then);
        expect(&rig, cases[i].kind, cases[i].hits);
        rig_done(&rig);
    }
}

static void a_small_disk_is_met_when_it_is_full(void **state)
{
    (void)state;
    static const char *const rules[] = {"device:disk 1", NULL};
    const struct wire_sha256 names[] = {{{1}}, {{2}}};
    struct rig rig;
    rig_init(&rig, rules, 0);
    wake(&rig);
    assert_int_equal(append(&rig, &names[0], 1000), BASE_OK);
    expect(&rig, SIM_FAULT_DISK, 0);
    assert_int_equal(append(&rig, &names[1], 1000), BASE_ERR_FULL);
    assert_int_equal(append(&rig, &names[1], 1000), BASE_ERR_FULL);
    expect(&rig, SIM_FAULT_DISK, 1);
    rig_done(&rig);
}

static void what_was_there_is_torn_or_gone(void **state)
{
    (void)state;
    static const char *const torn[] = {"storage:torn", NULL};
    static const char *const clear[] = {"storage:clear", NULL};
    const struct wire_sha256 name = {{1}};
    struct rig rig;
    rig_init(&rig, torn, 0);
    wake(&rig);
    assert_int_equal(append(&rig, &name, 100), BASE_OK);
    sim_faults_killed(&rig.faulty);
    expect(&rig, SIM_FAULT_TORN, 1);
    rig_done(&rig);
    rig_init(&rig, clear, 0);
    wake(&rig);
    assert_int_equal(save(&rig), BASE_OK);
    wake(&rig);
    wake(&rig); // it is gone by now
    expect(&rig, SIM_FAULT_CLEAR, 1);
    rig_done(&rig);
}

static void a_clock_is_wrong_when_it_is_read(void **state)
{
    (void)state;
    static const char *const drift[] = {"clock:drift 1000", NULL};
    static const char *const unset[] = {"clock:unset", "clock:offset", NULL};
    static const char *const offset[] = {"clock:offset", NULL};
    struct rig rig;
    rig_init(&rig, drift, 0);
    wake(&rig);
    assert_int_equal(wall(&rig), WALL_US); // the run begins
    expect(&rig, SIM_FAULT_DRIFT, 0);
    rig.now_us += 1000000000;
    assert_int_not_equal(wall(&rig), WALL_US);
    assert_int_not_equal(wall(&rig), WALL_US);
    expect(&rig, SIM_FAULT_DRIFT, 1);
    rig_done(&rig);
    rig_init(&rig, unset, 0);
    wake(&rig);
    assert_int_equal(wall(&rig), START_US);
    expect(&rig, SIM_FAULT_UNSET, 1); // what it is off by does not matter then
    rig_done(&rig);
    rig_init(&rig, offset, 0);
    for (uint32_t i = 1; i <= 3; i++) {
        wake(&rig);
        assert_int_not_equal(wall(&rig), WALL_US);
        expect(&rig, SIM_FAULT_OFFSET, i);
    }
    rig_done(&rig);
}

static void a_processor_is_slow_when_something_runs(void **state)
{
    (void)state;
    static const char *const rules[] = {"device:cpu 4", NULL};
    struct rig rig;
    rig_init(&rig, rules, 0);
    wake(&rig);
    expect(&rig, SIM_FAULT_CPU, 0);
    assert_int_equal(sim_faults_run_us(&rig.faulty, 10), 40);
    assert_int_equal(sim_faults_run_us(&rig.faulty, 10), 40);
    expect(&rig, SIM_FAULT_CPU, 1);
    rig_done(&rig);
}

// ---- Of an exchange

static void an_answer_with_nothing_to_spoil_is_whole(void **state)
{
    (void)state;
    static const struct {
        const char *rules[2];
        enum sim_fault_kind kind;
        uint64_t empty; // hits after an answer without a body, which is the device's first
        uint64_t full;  // ... and after one with a body
    } cases[] = {
        {{"network:corrupt"}, SIM_FAULT_CORRUPT, 0, 1},
        {{"network:truncate"}, SIM_FAULT_TRUNCATE, 0, 1},
        {{"gateway:slow 1"}, SIM_FAULT_SLOW, 1, 2},
        {{"gateway:again"}, SIM_FAULT_AGAIN, 1, 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        rig_init(&rig, cases[i].rules, 0);
        wake(&rig);
        asks(&rig, 0);
        expect(&rig, cases[i].kind, 0); // nothing has come yet
        answers(&rig, "");
        expect(&rig, cases[i].kind, cases[i].empty);
        sim_faults_turn(&rig.faults, rig.now_us + 1000000);
        asks(&rig, 0);
        answers(&rig, "body");
        expect(&rig, cases[i].kind, cases[i].full);
        sim_faults_turn(&rig.faults, rig.now_us + 1000000);
        assert_int_equal(rig.ended, 2);
        rig_done(&rig);
    }
}

static void an_exchange_of_an_outage_is_of_nothing_else(void **state)
{
    (void)state;
    static const char *const rules[] = {"network:loss", "network:reset", "gateway:503",
                                        "network:outage 60", NULL};
    struct rig rig;
    rig_init(&rig, rules, 0);
    wake(&rig);
    for (uint32_t i = 1; i <= 5; i++) {
        asks(&rig, 0);
        expect(&rig, SIM_FAULT_OUTAGE, i);
        sim_faults_turn(&rig.faults, rig.now_us + 1000000);
    }
    assert_int_equal(rig.started, 0);
    assert_int_equal(rig.ended, 5);
    rig_done(&rig);
}

static void a_window_of_silence_is_one(void **state)
{
    (void)state;
    static const char *const rules[] = {"network:half-open 60", NULL};
    struct rig rig;
    rig_init(&rig, rules, 0);
    wake(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        asks(&rig, i);
        expect(&rig, SIM_FAULT_HALF_OPEN, 1);
    }
    assert_int_equal(rig.started, 0);
    rig_done(&rig);
}

// The gateway does what it was asked, and the device hears none of it.
static void a_window_in_which_no_answer_comes_back_is_one(void **state)
{
    (void)state;
    static const char *const rules[] = {"network:one-way 60", NULL};
    struct rig rig;
    rig_init(&rig, rules, 0);
    wake(&rig);
    for (uint32_t i = 0; i < 4; i++) {
        asks(&rig, 0);
        answers(&rig, "done");
        expect(&rig, SIM_FAULT_ONE_WAY, 1 + i / 2);
        assert_int_equal(rig.started, i + 1);
        sim_faults_turn(&rig.faults, rig.now_us);
        assert_int_equal(rig.heads + rig.ended, 0);
        rig.transport.cancel(rig.transport.ctx, &rig.exchanges[0]);
        rig.now_us += i == 0 ? 59999999u : 1u;
    }
    rig_done(&rig);
}

static void a_handover_ends_what_is_under_way(void **state)
{
    (void)state;
    static const char *const rules[] = {"network:handover", NULL};
    struct rig rig;
    rig_init(&rig, rules, 0);
    wake(&rig);
    asks(&rig, 0);
    expect(&rig, SIM_FAULT_HANDOVER, 0); // there was nothing else
    asks(&rig, 1);
    expect(&rig, SIM_FAULT_HANDOVER, 1);
    assert_int_equal(rig.started, 2);
    rig_done(&rig);
}

static void an_answer_of_before_needs_one(void **state)
{
    (void)state;
    static const char *const rules[] = {"gateway:stale", NULL};
    struct rig rig;
    rig_init(&rig, rules, 0);
    wake(&rig);
    for (uint32_t i = 0; i < 8; i++) {
        asks(&rig, 0);
        answers(&rig, i == 0 ? "first" : "later");
        expect(&rig, SIM_FAULT_STALE, i);
        assert_string_equal(rig.heard, "first");
    }
    rig_done(&rig);
}

// ---- What came later

static void hears(struct rig *rig, uint32_t number, enum base_status status)
{
    const struct dev_response_head head = {.status = 200};
    rig->events.head(rig->events.ctx, &rig->exchanges[number], &head);
    rig->events.end(rig->events.ctx, &rig->exchanges[number], status);
}

static void listens(struct rig *rig, uint32_t number)
{
    const struct dev_request request = {.path = BASE_STR("/v1/hints"), .stream = true};
    struct sim_exchange *exchange = &rig->exchanges[number];
    *exchange = (struct sim_exchange){.owner = rig, .kind = SIM_EXCHANGE_HINTS, .open = true};
    assert_int_equal(rig->transport.start(rig->transport.ctx, exchange, &request), BASE_OK);
}

static void a_name_is_asked_for_without_a_connection(void **state)
{
    (void)state;
    static const char *const rules[] = {"network:dns 10", NULL};
    struct rig rig;
    rig_init(&rig, rules, 0);
    wake(&rig);
    for (uint32_t i = 1; i <= 3; i++) {
        asks(&rig, 0);
        expect(&rig, SIM_FAULT_DNS, i);
        sim_faults_turn(&rig.faults, rig.now_us += 1000000);
        assert_int_equal(rig.ended, i);
    }
    assert_int_equal(rig.started, 0);
    listens(&rig, 1); // a stream that is there is a connection
    hears(&rig, 1, BASE_OK);
    asks(&rig, 0);
    assert_int_equal(rig.started, 2);
    expect(&rig, SIM_FAULT_DNS, 3);
    hears(&rig, 0, BASE_ERR_IO); // ... until it ends
    asks(&rig, 0);
    assert_int_equal(rig.started, 2);
    expect(&rig, SIM_FAULT_DNS, 4);
    rig_done(&rig);
}

static void what_is_too_large_for_the_path_does_not_arrive(void **state)
{
    (void)state;
    static const char *const rules[] = {"network:mtu 8", NULL};
    const struct dev_request large = {
        .path = BASE_STR("/v1/report"), .body = (const uint8_t *)"nine byte", .body_bytes = 9};
    struct rig rig;
    rig_init(&rig, rules, 0);
    wake(&rig);
    asks(&rig, 0);
    answers(&rig, "8 bytes.");
    assert_string_equal(rig.heard, "8 bytes.");
    expect(&rig, SIM_FAULT_MTU, 0);
    asks(&rig, 0);
    answers(&rig, "9 bytes..");
    expect(&rig, SIM_FAULT_MTU, 1);
    assert_int_equal(rig.heads, 2);
    assert_int_equal(rig.ended, 1); // nobody says that the rest will not come
    assert_string_equal(rig.heard, "8 bytes.");
    rig.transport.cancel(rig.transport.ctx, &rig.exchanges[0]);
    assert_int_equal(rig.started, 2);
    struct sim_exchange *exchange = &rig.exchanges[0];
    *exchange = (struct sim_exchange){.owner = &rig, .kind = SIM_EXCHANGE_REPORT, .open = true};
    assert_int_equal(rig.transport.start(rig.transport.ctx, exchange, &large), BASE_OK);
    expect(&rig, SIM_FAULT_MTU, 2);
    assert_int_equal(rig.started, 2);
    rig_done(&rig);
}

// Asks in words that are gone when they come once more.
static enum base_status asks_in_passing(struct rig *rig, enum sim_exchange_kind kind)
{
    char path[16] = "/v1/report";
    char body[8] = "body";
    char credential[8] = "shown";
    const struct dev_request request = {.method = DEV_METHOD_POST,
                                        .path = {path, strlen(path)},
                                        .body = (const uint8_t *)body,
                                        .body_bytes = strlen(body)};
    rig->exchanges[0] = (struct sim_exchange){
        .owner = rig, .kind = kind, .open = true, .credential = {credential, strlen(credential)}};
    enum base_status status =
        rig->transport.start(rig->transport.ctx, &rig->exchanges[0], &request);
    rig->exchanges[0].credential = (struct base_str){NULL, 0};
    memset(path, 'x', sizeof(path));
    memset(body, 'x', sizeof(body));
    memset(credential, 'x', sizeof(credential));
    return status;
}

static void a_request_comes_once_more_later(void **state)
{
    (void)state;
    static const char *const rules[] = {"network:replay 60", NULL};
    struct rig rig;
    rig_init(&rig, rules, 100);
    wake(&rig);
    assert_int_equal(asks_in_passing(&rig, SIM_EXCHANGE_REPORT), BASE_OK);
    assert_ptr_equal(rig.twin, &rig.exchanges[0]); // what is first is the device's own
    hears(&rig, 0, BASE_OK);
    assert_int_equal(rig.ended, 1);
    expect(&rig, SIM_FAULT_REPLAY, 0);
    assert_in_range(sim_faults_due_us(&rig.faults), rig.now_us + 1, rig.now_us + 60000000);
    rig.asked[0] = '\0';
    sim_faults_turn(&rig.faults, rig.now_us += 60000000);
    expect(&rig, SIM_FAULT_REPLAY, 1);
    assert_int_equal(rig.started, 2);
    assert_string_equal(rig.asked, "/v1/report body shown");
    assert_ptr_not_equal(rig.twin, &rig.exchanges[0]);
    const struct dev_response_head head = {.status = 200};
    rig.events.head(rig.events.ctx, rig.twin, &head);
    rig.events.end(rig.events.ctx, rig.twin, BASE_OK);
    assert_int_equal(rig.ended, 1); // nobody waits for what it is answered
    // An enrolment does not, and nothing does when faults are over.
    assert_int_equal(asks_in_passing(&rig, SIM_EXCHANGE_ENROL), BASE_OK);
    assert_int_equal(sim_faults_due_us(&rig.faults), UINT64_MAX);
    assert_int_equal(asks_in_passing(&rig, SIM_EXCHANGE_REPORT), BASE_OK);
    assert_int_equal(rig.started, 4);
    sim_faults_turn(&rig.faults, rig.now_us += 60000000);
    assert_int_equal(rig.started, 4);
    expect(&rig, SIM_FAULT_REPLAY, 1);
    rig_done(&rig);
}

static void without_memory_it_comes_once(void **state)
{
    (void)state;
    static const char *const rules[] = {"network:replay 60", NULL};
    uint32_t twice = 0;
    for (size_t n = 0; n < 4; n++) {
        struct rig rig;
        rig_init(&rig, rules, 0);
        wake(&rig);
        rig.alloc.allowed = n;
        assert_int_equal(asks_in_passing(&rig, SIM_EXCHANGE_REPORT), BASE_OK);
        rig.alloc.allowed = SIZE_MAX;
        sim_faults_turn(&rig.faults, rig.now_us += 60000000);
        assert_in_range(rig.started, 1, 2);
        twice += rig.started - 1;
        rig_done(&rig);
    }
    assert_int_equal(twice, 1); // with what is held, its copy and the heap
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_only_drawn_is_none),
        cmocka_unit_test(nothing_happens_after_the_end),
        cmocka_unit_test(a_kill_is_one_death),
        cmocka_unit_test(a_write_that_fails_is_counted),
        cmocka_unit_test(a_small_disk_is_met_when_it_is_full),
        cmocka_unit_test(what_was_there_is_torn_or_gone),
        cmocka_unit_test(a_clock_is_wrong_when_it_is_read),
        cmocka_unit_test(a_processor_is_slow_when_something_runs),
        cmocka_unit_test(an_answer_with_nothing_to_spoil_is_whole),
        cmocka_unit_test(an_exchange_of_an_outage_is_of_nothing_else),
        cmocka_unit_test(a_window_of_silence_is_one),
        cmocka_unit_test(a_window_in_which_no_answer_comes_back_is_one),
        cmocka_unit_test(a_handover_ends_what_is_under_way),
        cmocka_unit_test(an_answer_of_before_needs_one),
        cmocka_unit_test(a_name_is_asked_for_without_a_connection),
        cmocka_unit_test(what_is_too_large_for_the_path_does_not_arrive),
        cmocka_unit_test(a_request_comes_once_more_later),
        cmocka_unit_test(without_memory_it_comes_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
