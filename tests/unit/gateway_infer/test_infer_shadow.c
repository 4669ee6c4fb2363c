// A candidate beside the version that serves: who is answered by which, what is counted, and
// shadows, whose answers nobody gets and which are the first to go when others have work.
#include "infer_ask.h"

#include "infer/infer_arm.h"
#include "infer/infer_shelf.h"

#define ALL 10000u // POL_BUCKET_COUNT

// y = relu(x + w) with other weights than the kit's.
static const struct onnx_part *other_relu(void)
{
    static const float w[3] = {2, -2, 3};
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 3);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(3), w, sizeof(w));
    onnx_node(kit, "Add", "x w", "s");
    onnx_node(kit, "Relu", "s", "y");
    onnx_output(kit, "y", ENG_F32, -1, 3);
    return onnx_finish(kit, 13);
}

static void begin_two_as(struct world *world, const struct onnx_part *candidate, uint32_t threads,
                         const char *settings)
{
    begin(world);
    infer_kit_add(&world->kit, "m", "2", candidate);
    infer_kit_add(&world->kit, "m", "1", NULL);
    infer_kit_text(&world->kit, "m/model.conf", settings);
    start(world, threads);
    const struct gw_infer_call first = {.model = BASE_STR("m"), .version = BASE_STR("1")};
    struct base_error error = {0};
    assert_int_equal(gw_infer_serve(world->service, &first, &error), BASE_OK);
}

static void begin_two(struct world *world, const struct onnx_part *candidate, uint32_t threads)
{
    begin_two_as(world, candidate, threads, "versions = all\n");
}

static void try_two(struct world *world, uint16_t share, uint16_t shadow)
{
    const struct gw_infer_trial_wish wish = {.candidate = BASE_STR("2"),
                                             .split = {.salt = 9, share, shadow}};
    assert_int_equal(gw_infer_trial_set(world->service, BASE_STR("m"), &wish), BASE_OK);
}

static struct gw_infer_trial *seen_of(struct world *world)
{
    struct gw_infer_trial *trial = calloc(1, sizeof(*trial));
    assert_true(gw_infer_trial_read(world->service, BASE_STR("m"), trial));
    return trial;
}

// Until so many shadows have ended, however.
static struct gw_infer_trial *shadows_of(struct world *world, uint64_t count)
{
    for (;;) {
        struct gw_infer_trial *trial = seen_of(world);
        if (trial->agreed + trial->differed + trial->shadows_failed + trial->dropped >= count) {
            return trial;
        }
        free(trial);
        usleep(200);
    }
}

static bool by_version(const struct ask *ask, const char *version)
{
    return base_str_equal(ask->ticket.result.version, base_str_of(version));
}

// One caller stays on one version however often it calls, and about as many as the share says are
// on the candidate; who names a version is in no arm.
static void test_callers(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 2);
    try_two(&world, ALL / 4, 0);
    uint32_t taken = 0;
    for (uint64_t caller = 1; caller <= 400; caller++) {
        bool first = false;
        for (uint32_t turn = 0; turn < 3; turn++) {
            struct ask *ask = ask_new(&world, "m", 1);
            ask->ticket.caller = caller;
            ask->call.id = base_str_of(turn == 0 ? "a" : "b"); // of the call, not of the caller
            (void)ask_one(&world, ask);
            bool candidate = by_version(ask, "2");
            assert_true(candidate || by_version(ask, "1"));
            first = turn == 0 ? candidate : first;
            assert_int_equal(candidate, first);
            ask_free(ask);
        }
        taken += first;
    }
    assert_in_range(taken, 60, 140); // of 400 a quarter, six deviations
    struct ask *named = ask_new(&world, "m", 1);
    named->call.version = BASE_STR("2");
    ask_free(ask_one(&world, named));
    struct gw_infer_trial *trial = seen_of(&world);
    assert_int_equal(trial->candidate.calls, 3 * taken);
    assert_int_equal(trial->serving.calls, 3 * (400 - taken));
    assert_int_equal(trial->candidate.failed + trial->serving.failed, 0);
    assert_int_equal(trial->serving.us.count, trial->serving.calls);
    free(trial);
    end(&world);
}

// Without a caller its call's id, without an id the connection.
static void test_who_a_caller_is(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 1);
    try_two(&world, ALL / 2, 0);
    for (uint32_t kind = 0; kind < 2; kind++) {
        uint32_t taken = 0;
        for (uint32_t i = 0; i < 200; i++) {
            char id[16];
            struct ask *ask = ask_new(&world, "m", 1);
            snprintf(id, sizeof(id), "call-%u", i);
            ask->ticket.peer = kind == 0 ? 5 : i;
            ask->call.id = kind == 0 ? base_str_of(id) : BASE_STR("");
            taken += by_version(ask_one(&world, ask), "2");
            ask_free(ask);
        }
        assert_in_range(taken, 50, 150);
    }
    end(&world);
}

// A new trial begins with nothing; without one every call is the serving version's.
static void test_trials_begin_and_end(void **state)
{
    struct world world;
    struct gw_infer_trial trial;
    (void)state;
    begin_two(&world, NULL, 1);
    try_two(&world, ALL, 0);
    ask_free(ask_one(&world, ask_new(&world, "m", 1)));
    try_two(&world, ALL, 0);
    struct gw_infer_trial *seen = seen_of(&world);
    assert_int_equal(seen->candidate.calls, 0);
    free(seen);
    const struct gw_infer_trial_wish none = {.split = {.share = ALL}};
    assert_int_equal(gw_infer_trial_set(world.service, BASE_STR("m"), &none), BASE_OK);
    assert_false(gw_infer_trial_read(world.service, BASE_STR("m"), &trial));
    struct ask *ask = ask_one(&world, ask_new(&world, "m", 1));
    assert_true(by_version(ask, "1"));
    ask_free(ask);
    assert_int_equal(gw_infer_trial_set(world.service, BASE_STR("n"), &none), BASE_ERR_NOT_FOUND);
    end(&world);
}

static void shadow_once(struct world *world, uint32_t count)
{
    for (uint32_t i = 1; i <= count; i++) {
        struct ask *ask = ask_one(world, ask_new(world, "m", 1 + i % 3));
        assert_true(by_version(ask, "1"));
        check_relu(ask);
        ask_free(ask);
        free(shadows_of(world, i));
    }
}

static void test_shadows_agree(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 2);
    try_two(&world, 0, ALL);
    shadow_once(&world, 20);
    struct gw_infer_trial *trial = seen_of(&world);
    assert_int_equal(trial->agreed, 20);
    assert_int_equal(trial->shadow_us.count, 20);
    assert_int_equal(trial->serving.calls, 20);
    assert_int_equal(trial->candidate.calls, 0); // a shadow is no call
    free(trial);
    assert_int_equal(figures_of(&world, "m").calls, 20); // of the version that is first: 1
    end(&world);
}

static void test_shadows_differ(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, other_relu(), 2);
    try_two(&world, 0, ALL);
    shadow_once(&world, 20);
    struct gw_infer_trial *trial = seen_of(&world);
    assert_int_equal(trial->differed, 20);
    assert_int_equal(trial->agreed, 0);
    free(trial);
    end(&world);
}

// Half of the calls, whoever calls.
static void test_a_share_of_shadows(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 4);
    try_two(&world, 0, ALL / 2);
    for (uint32_t i = 0; i < 400; i++) {
        ask_free(ask_one(&world, ask_new(&world, "m", 1)));
    }
    struct gw_infer_trial *trial = shadows_of(&world, 120);
    assert_int_equal(trial->serving.calls, 400);
    assert_in_range(trial->agreed + trial->dropped, 120, 260);
    assert_int_equal(trial->differed + trial->shadows_failed, 0);
    free(trial);
    end(&world); // ends what is left of them
}

// The only thread has a shadow that never ends by itself: the next call ends it.
static void test_a_call_ends_a_shadow(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "m"); // version 1
    infer_kit_add(&world.kit, "m", "2", NULL);
    infer_kit_text(&world.kit, "m/model.conf", "versions = all\n");
    start(&world, 1);
    const struct gw_infer_trial_wish wish = {.candidate = BASE_STR("1"), .split = {.shadow = ALL}};
    assert_int_equal(gw_infer_trial_set(world.service, BASE_STR("m"), &wish), BASE_OK);
    for (uint64_t ended = 0; ended < 10;) {
        struct ask *ask = ask_one(&world, ask_new(&world, "m", 1));
        assert_true(by_version(ask, "2"));
        check_relu(ask);
        ask_free(ask);
        struct gw_infer_trial *trial = seen_of(&world);
        ended = trial->dropped;
        assert_int_equal(trial->agreed + trial->differed + trial->shadows_failed, 0);
        free(trial);
    }
    end(&world); // ends the last one
}

// While calls wait there are no shadows.
static void test_no_shadow_under_load(void **state)
{
    struct world world;
    struct ask *asks[8];
    (void)state;
    begin_two(&world, NULL, 1);
    add_endless(&world.kit, "gate");
    assert_int_equal(gw_infer_load(world.service, BASE_STR("gate"), NULL), BASE_OK);
    try_two(&world, 0, ALL);
    struct ask *gate = ask_new(&world, "gate", 1);
    gw_infer_submit(world.service, &gate->ticket);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        asks[i] = ask_new(&world, "m", 1 + i % 2); // two shapes: no batch in any case
        gw_infer_submit(world.service, &asks[i]->ticket);
    }
    gw_infer_cancel(world.service, &gate->ticket);
    wait_for(&world.seen, TEST_COUNT(asks) + 1);
    struct gw_infer_trial *trial = shadows_of(&world, TEST_COUNT(asks));
    assert_in_range(trial->dropped, TEST_COUNT(asks) - 1, TEST_COUNT(asks));
    free(trial);
    for (uint32_t i = 0; i < TEST_COUNT(asks); i++) {
        check_relu(asks[i]);
        ask_free(asks[i]);
    }
    ask_free(gate);
    end(&world);
}

// y = x + x, of four columns: it refuses what the serving version takes, and the other way.
static const struct onnx_part *of_four(void)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 4);
    onnx_node(kit, "Add", "x x", "y");
    onnx_output(kit, "y", ENG_F32, -1, 4);
    return onnx_finish(kit, 13);
}

static struct ask *ask_columns(struct world *world, int64_t columns)
{
    struct ask *ask = ask_new(world, "m", 1);
    ask->input.desc.dims[1] = columns;
    ask->input.bytes = (size_t)columns * sizeof(float);
    return ask;
}

// Whose caller is wrong counts nowhere, whichever version answers; that the candidate refuses what
// the serving version takes is seen.
static void test_faults_of_callers(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, of_four(), 1);
    for (uint32_t tried = 0; tried < 2; tried++) {
        try_two(&world, tried ? ALL : 0, 0);
        for (int64_t columns = 2; columns <= 5; columns++) {
            struct ask *ask = ask_one(&world, ask_columns(&world, columns));
            assert_int_equal(ask->ticket.status == BASE_OK, columns == (tried ? 4 : 3));
            ask_free(ask);
        }
        struct gw_infer_trial *trial = seen_of(&world);
        const struct gw_infer_seen *seen = tried ? &trial->candidate : &trial->serving;
        assert_int_equal(seen->calls, tried ? 2 : 1); // [1, 4] and [1, 3]; [1, 3]
        assert_int_equal(seen->failed, tried);
        free(trial);
    }
    end(&world);
}

static void try_each(struct world *world, uint16_t share, uint16_t shadow, uint32_t per_caller)
{
    const struct gw_infer_trial_wish wish = {
        .candidate = BASE_STR("2"), .split = {.salt = 9, share, shadow}, .per_caller = per_caller};
    assert_int_equal(gw_infer_trial_set(world->service, BASE_STR("m"), &wish), BASE_OK);
}

// However many keys somebody calls by.
static void test_one_caller_counts_so_often(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 1);
    try_each(&world, ALL / 2, 0, 5);
    for (uint32_t i = 0; i < 200; i++) {
        struct ask *ask = ask_new(&world, "m", 1);
        ask->ticket.caller = 1 + i;
        ask->ticket.who = i % 100 == 99 ? 8 : 7;
        ask_free(ask_one(&world, ask));
    }
    struct gw_infer_trial *trial = seen_of(&world);
    assert_int_equal(trial->serving.calls + trial->candidate.calls, 12);
    assert_int_equal(trial->serving.most.good, 5);
    assert_int_equal(trial->candidate.most.good, 5);
    assert_int_equal(trial->uncounted, 188);
    free(trial);
    try_each(&world, 0, ALL, 5);
    for (uint32_t i = 0; i < 20; i++) {
        struct ask *ask = ask_new(&world, "m", 1);
        ask->ticket.who = 7;
        ask_free(ask_one(&world, ask));
        for (;;) { // one shadow at a time
            trial = seen_of(&world);
            uint64_t ended = trial->agreed + trial->dropped;
            free(trial);
            if (ended >= (i < 5 ? i + 1 : 5)) {
                break;
            }
            usleep(200);
        }
    }
    trial = seen_of(&world);
    assert_true(trial->agreed <= 5 && trial->shadows_most.good == trial->agreed);
    assert_int_equal(trial->serving.calls, 5);
    free(trial);
    end(&world);
}

// A call with less time than the serving version's runs take, or than is known of it, fails itself.
static void test_hasty_callers(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "m"); // version 1
    infer_kit_add(&world.kit, "m", "2", NULL);
    infer_kit_text(&world.kit, "m/model.conf", "versions = all\n");
    start(&world, 1);
    for (uint32_t known = 0; known < 2; known++) {
        const struct gw_infer_trial_wish wish = {.candidate = BASE_STR("1"), // the endless one
                                                 .split = {.share = ALL}};
        assert_int_equal(gw_infer_trial_set(world.service, BASE_STR("m"), &wish), BASE_OK);
        pthread_mutex_lock(&world.service->lock);
        struct gw_infer_model *model = gw_infer_model_find(world.service, BASE_STR("m"));
        for (uint32_t i = 0; known && i < GW_INFER_P99_CALLS_LEAST; i++) {
            base_hist_add(&model->candidate.trial->serving.us, 40000);
        }
        pthread_mutex_unlock(&world.service->lock);
        for (uint32_t patient = 0; patient <= known; patient++) {
            struct ask *ask = ask_new(&world, "m", 1);
            ask->call.timeout_us = patient ? 60000 : 20000;
            ask_free(ask_one(&world, ask));
            struct gw_infer_trial *trial = seen_of(&world);
            assert_int_equal(trial->candidate.calls, patient);
            assert_int_equal(trial->candidate.failed, patient);
            free(trial);
        }
    }
    end(&world);
}

// A candidate that is unloaded meanwhile is no reason to fail a call.
static void test_no_candidate(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 1);
    const struct gw_infer_trial_wish wish = {.candidate = BASE_STR("3"),
                                             .split = {.share = ALL, .shadow = ALL}};
    assert_int_equal(gw_infer_trial_set(world.service, BASE_STR("m"), &wish), BASE_OK);
    struct ask *ask = ask_one(&world, ask_new(&world, "m", 1));
    assert_true(by_version(ask, "1"));
    ask_free(ask);
    end(&world);
}

// ---- With an instance that is kept from running, by hand: what waits for it waits

static struct gw_infer_version *version_of(struct world *world, const char *text)
{
    struct gw_infer_version *version =
        gw_infer_find(world->service, BASE_STR("m"), base_str_of(text), NULL);
    assert_non_null(version);
    return version;
}

// When the run of the last answer is over.
static void hold(struct world *world, const char *text)
{
    bool held = false;
    while (!held) {
        pthread_mutex_lock(&world->service->lock);
        struct gw_infer_version *version = version_of(world, text);
        held = version->running == 0;
        version->running += held ? version->instances : 0;
        pthread_mutex_unlock(&world->service->lock);
        usleep(held ? 0 : 100);
    }
}

static void let_go(struct world *world, const char *text)
{
    pthread_mutex_lock(&world->service->lock);
    struct gw_infer_version *version = version_of(world, text);
    version->running -= version->instances;
    pthread_cond_broadcast(&world->service->work);
    pthread_mutex_unlock(&world->service->lock);
}

static uint32_t shadows_under_way(struct world *world)
{
    pthread_mutex_lock(&world->service->lock);
    uint32_t count = world->service->shadow_count;
    pthread_mutex_unlock(&world->service->lock);
    return count;
}

// Those that wait, which from now on wait as long as they have to.
static uint32_t shadows_waiting(struct world *world)
{
    uint32_t count = 0;
    pthread_mutex_lock(&world->service->lock);
    for (struct gw_infer_ticket *at = world->service->tickets; at != NULL; at = at->next) {
        bool waits = at->arm == GW_INFER_ARM_SHADOW && at->state == GW_INFER_WAITING;
        at->wait.deadline_us = waits ? UINT64_MAX : at->wait.deadline_us;
        count += waits;
    }
    pthread_mutex_unlock(&world->service->lock);
    return count;
}

// A call whose shadow waits then, or was dropped.
static void shadow_waits(struct world *world, uint32_t waiting, uint64_t dropped)
{
    ask_free(ask_one(world, ask_new(world, "m", 1)));
    for (bool there = false; !there; usleep(there ? 0 : 100)) {
        struct gw_infer_trial *trial = seen_of(world);
        uint32_t now = shadows_waiting(world);
        assert_true(now <= waiting);
        there = now == waiting && trial->dropped == dropped &&
                figures_of(world, "m").running == 0; // else the next call would end shadows
        assert_true(trial->dropped <= dropped);
        free(trial);
    }
}

// So many wait at once; what they wait for comes, and each is run.
static void test_so_many_shadows_wait(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 2 * GW_INFER_SHADOWS_MAX);
    try_two(&world, 0, ALL);
    hold(&world, "2");
    for (uint32_t i = 1; i <= GW_INFER_SHADOWS_MAX; i++) {
        shadow_waits(&world, i, 0);
    }
    shadow_waits(&world, GW_INFER_SHADOWS_MAX, 1);
    let_go(&world, "2");
    struct gw_infer_trial *trial = shadows_of(&world, GW_INFER_SHADOWS_MAX + 1);
    assert_int_equal(trial->agreed, GW_INFER_SHADOWS_MAX);
    assert_int_equal(trial->dropped, 1);
    free(trial);
    end(&world);
}

// What a shadow copies, inputs and outputs, has a limit to the byte.
static void test_large_calls_have_no_shadow(void **state)
{
    const size_t row = 3 * sizeof(float);
    const uint32_t most = (uint32_t)(GW_INFER_SHADOW_BYTES_MAX / (2 * row)); // and as many outputs
    struct world world;
    (void)state;
    begin_two(&world, NULL, 2);
    try_two(&world, 0, ALL);
    float *x = calloc(most + 1, row);
    assert_non_null(x);
    for (uint32_t more = 0; more < 2; more++) {
        struct ask *ask = ask_new(&world, "m", most + more);
        ask->input.data = x;
        (void)ask_one(&world, ask);
        assert_int_equal(ask->ticket.status, BASE_OK);
        ask_free(ask);
        struct gw_infer_trial *trial = shadows_of(&world, 1 + more);
        assert_int_equal(trial->agreed, 1);
        assert_int_equal(trial->dropped, more);
        free(trial);
    }
    assert_int_equal(shadows_under_way(&world), 0);
    free(x);
    end(&world);
}

// A call of the candidate itself needs the instance, however many threads are free.
static void test_a_call_needs_the_instance(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 4);
    try_two(&world, 0, ALL);
    hold(&world, "2");
    shadow_waits(&world, 1, 0);
    struct ask *named = ask_new(&world, "m", 1);
    named->call.version = BASE_STR("2");
    gw_infer_submit(world.service, &named->ticket);
    struct gw_infer_trial *trial = seen_of(&world);
    assert_int_equal(trial->dropped, 1);
    free(trial);
    let_go(&world, "2");
    wait_for(&world.seen, 2);
    check_relu(named);
    ask_free(named);
    end(&world);
}

// A shadow waits for more rows, and a call of its version comes that would make the batch full: it
// ends no shadow, as a thread and an instance are free, and each has a run of its own.
static void test_no_batch_with_a_shadow(void **state)
{
    struct world world;
    (void)state;
    begin_two_as(&world, NULL, 4, "versions = all\nmax_batch = 2\nbatch_delay_us = 300000\n");
    try_two(&world, 0, ALL);
    shadow_waits(&world, 1, 0);
    struct ask *named = ask_new(&world, "m", 1);
    named->call.version = BASE_STR("2");
    ask_free(ask_one(&world, named));
    struct gw_infer_trial *trial = shadows_of(&world, 1);
    assert_int_equal(trial->agreed, 1);
    free(trial);
    pthread_mutex_lock(&world.service->lock);
    const struct gw_infer_figures figures = version_of(&world, "2")->figures;
    pthread_mutex_unlock(&world.service->lock);
    assert_int_equal(figures.calls, 1);
    assert_int_equal(figures.batches, 2);
    end(&world);
}

// ---- What is counted nowhere

// Calls and shadows that were under way when another trial began.
static void test_trials_of_before(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 2);
    for (uint32_t tried = 0; tried < 2; tried++) {
        const char *version = tried ? "2" : "1";
        try_two(&world, tried ? ALL : 0, 0);
        hold(&world, version);
        struct ask *ask = ask_new(&world, "m", 1);
        gw_infer_submit(world.service, &ask->ticket);
        try_two(&world, tried ? ALL : 0, 0);
        let_go(&world, version);
        wait_for(&world.seen, tried + 1);
        assert_int_equal(ask->ticket.status, BASE_OK);
        ask_free(ask);
        struct gw_infer_trial *trial = seen_of(&world);
        assert_int_equal(trial->candidate.calls + trial->serving.calls, 0);
        free(trial);
    }
    try_two(&world, 0, ALL);
    hold(&world, "2");
    shadow_waits(&world, 1, 0);
    try_two(&world, 0, ALL);
    let_go(&world, "2");
    while (shadows_under_way(&world) > 0) {
        usleep(100);
    }
    struct gw_infer_trial *trial = seen_of(&world);
    assert_int_equal(trial->agreed + trial->dropped, 0);
    free(trial);
    end(&world);
}

// Calls whose caller goes, and those that come when the service is about to end.
static void test_calls_that_nobody_failed(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 2);
    for (uint32_t tried = 0; tried < 2; tried++) {
        const char *version = tried ? "2" : "1";
        try_two(&world, tried ? ALL : 0, 0);
        hold(&world, version);
        struct ask *ask = ask_new(&world, "m", 1);
        gw_infer_submit(world.service, &ask->ticket);
        gw_infer_cancel(world.service, &ask->ticket);
        assert_int_equal(ask->ticket.status, BASE_ERR_CLOSED);
        ask_free(ask);
        let_go(&world, version);
        struct gw_infer_trial *trial = seen_of(&world);
        assert_int_equal(trial->candidate.calls + trial->serving.calls, 0);
        free(trial);
    }
    gw_infer_service_drain(world.service);
    struct ask *late = ask_one(&world, ask_new(&world, "m", 1));
    assert_int_equal(late->ticket.status, BASE_ERR_BUSY);
    ask_free(late);
    struct gw_infer_trial *trial = seen_of(&world);
    assert_int_equal(trial->candidate.calls, 0);
    free(trial);
    end(&world);
}

// A shadow counts for the caller of its call: what another one counted is not in its way.
static void test_whose_a_shadow_is(void **state)
{
    struct world world;
    (void)state;
    begin_two(&world, NULL, 2);
    try_each(&world, 0, ALL, 1);
    for (uint64_t who = 7; who < 10; who++) {
        struct ask *ask = ask_new(&world, "m", 1);
        ask->ticket.who = who;
        ask_free(ask_one(&world, ask));
        while (shadows_under_way(&world) > 0) {
            usleep(100);
        }
    }
    struct gw_infer_trial *trial = seen_of(&world);
    assert_int_equal(trial->agreed, 3);
    assert_int_equal(trial->uncounted, 0);
    assert_int_equal(trial->shadows_most.good, 1);
    free(trial);
    end(&world);
}

// ---- What belongs to a release is measured: it is run, and by a thread of the service

static struct ask *ask_again(struct world *world)
{
    while (figures_of(world, "m").running > 0) {
        usleep(100);
    }
    pthread_mutex_lock(&world->service->lock);
    for (const char *text = "1"; text != NULL; text = *text == '1' ? "2" : NULL) {
        struct gw_infer_session *idle = version_of(world, text)->idle;
        for (; idle != NULL; idle = idle->next) {
            idle->run_us = 10; // short enough for a caller's thread
        }
    }
    world->service->here_us = 0;
    world->service->stop_here_us = UINT64_C(60000000);
    pthread_mutex_unlock(&world->service->lock);
    return ask_one(world, ask_new(world, "m", 1));
}

static void test_arms_are_measured(void **state)
{
    for (uint32_t cached = 0; cached < 2; cached++) {
        struct world world;
        (void)state;
        begin_two_as(&world, NULL, 1,
                     cached ? "versions = all\ncache_bytes = 65536\n" : "versions = all\n");
        ask_free(ask_again(&world)); // plans, and is kept
        struct ask *ask = ask_again(&world);
        assert_true(ask->ticket.here); // of no release
        ask_free(ask);
        assert_int_equal(figures_of(&world, "m").cache_hits, cached);
        for (uint32_t tried = 0; tried < 2; tried++) {
            try_two(&world, tried ? ALL : 0, 0);
            for (uint32_t i = 0; i < 3; i++) {
                ask = ask_again(&world);
                assert_true(by_version(ask, tried ? "2" : "1"));
                assert_false(ask->ticket.here);
                ask_free(ask);
            }
            struct gw_infer_trial *trial = seen_of(&world);
            const struct gw_infer_seen *seen = tried ? &trial->candidate : &trial->serving;
            assert_int_equal(seen->us.count, 3);
            free(trial);
        }
        assert_int_equal(figures_of(&world, "m").cache_hits, cached);
        end(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callers),
        cmocka_unit_test(test_who_a_caller_is),
        cmocka_unit_test(test_trials_begin_and_end),
        cmocka_unit_test(test_shadows_agree),
        cmocka_unit_test(test_shadows_differ),
        cmocka_unit_test(test_a_share_of_shadows),
        cmocka_unit_test(test_a_call_ends_a_shadow),
        cmocka_unit_test(test_no_shadow_under_load),
        cmocka_unit_test(test_no_candidate),
        cmocka_unit_test(test_faults_of_callers),
        cmocka_unit_test(test_one_caller_counts_so_often),
        cmocka_unit_test(test_hasty_callers),
        cmocka_unit_test(test_so_many_shadows_wait),
        cmocka_unit_test(test_large_calls_have_no_shadow),
        cmocka_unit_test(test_a_call_needs_the_instance),
        cmocka_unit_test(test_no_batch_with_a_shadow),
        cmocka_unit_test(test_trials_of_before),
        cmocka_unit_test(test_calls_that_nobody_failed),
        cmocka_unit_test(test_whose_a_shadow_is),
        cmocka_unit_test(test_arms_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
