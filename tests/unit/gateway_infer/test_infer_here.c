// A short call with nothing beside it is run by its caller's thread; anything else is left to the
// service's threads. What was measured is set by hand, so no test depends on a time.
#include "infer_ask.h"

#include "core_rig.h"

#include "base/clock.h"
#include "infer/infer_exchange.h"

#include <semaphore.h>

static struct gw_infer_version *version_of(struct world *world, const char *model)
{
    pthread_mutex_lock(&world->service->lock);
    struct gw_infer_version *version =
        gw_infer_find(world->service, base_str_of(model), BASE_STR(""), NULL);
    pthread_mutex_unlock(&world->service->lock);
    assert_non_null(version);
    return version;
}

// So long ran each plan of the model, and the last run on a caller's thread was long ago.
static void measured(struct world *world, const char *model, uint64_t run_us)
{
    struct gw_infer_version *version = version_of(world, model);
    while (figures_of(world, model).running > 0) {
        usleep(100); // the thread that ran the last one has to say so
    }
    pthread_mutex_lock(&world->service->lock);
    for (struct gw_infer_session *at = version->idle; at != NULL; at = at->next) {
        at->run_us = run_us;
    }
    world->service->here_us = 0;
    world->service->stop_here_us = UINT64_C(60000000);
    pthread_mutex_unlock(&world->service->lock);
}

static void check_where(struct world *world, struct ask *ask, bool here)
{
    pthread_mutex_lock(&world->seen.lock);
    uint32_t before = world->seen.done;
    pthread_mutex_unlock(&world->seen.lock);
    gw_infer_submit(world->service, &ask->ticket);
    if (here) {
        assert_int_not_equal(place_of(ask), 0); // it returned with the answer
    }
    wait_for(&world->seen, before + 1);
    assert_int_equal(ask->ticket.here, here);
    check_relu(ask);
    ask_free(ask);
}

static void test_where_a_call_runs(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_add(&world.kit, "waits", "1", NULL);
    infer_kit_text(&world.kit, "waits/model.conf", "max_batch = 4\nbatch_delay_us = 1");
    infer_kit_add(&world.kit, "rows", "1", NULL);
    infer_kit_text(&world.kit, "rows/model.conf", "max_batch = 4");
    start(&world, 1);
    check_where(&world, ask_new(&world, "m", 1), false); // nothing is known of it
    measured(&world, "m", 10);
    check_where(&world, ask_new(&world, "m", 1), true);
    measured(&world, "m", GW_INFER_RUN_HERE_US);
    check_where(&world, ask_new(&world, "m", 1), true);
    measured(&world, "m", GW_INFER_RUN_HERE_US + 1);
    check_where(&world, ask_new(&world, "m", 1), false);
    measured(&world, "m", 10);
    check_where(&world, ask_new(&world, "m", 2), false); // no plan for two rows
    measured(&world, "waits", 10);
    check_where(&world, ask_new(&world, "waits", 1), false); // for others to come
    measured(&world, "rows", 10);
    check_where(&world, ask_new(&world, "rows", 1), true);
    assert_int_equal(figures_of(&world, "m").calls, 5);
    assert_int_equal(figures_of(&world, "m").batches, 5);
    assert_int_equal(figures_of(&world, "m").running, 0);
    end(&world);
}

// A thread that just ran one has its other connections to look at first.
static void test_others_have_their_turn(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    measured(&world, "m", 100);
    pthread_mutex_lock(&world.service->lock);
    world.service->here_us = base_clock_mono_us() + 1000000;
    pthread_mutex_unlock(&world.service->lock);
    check_where(&world, ask_new(&world, "m", 1), false);
    measured(&world, "m", 100);
    check_where(&world, ask_new(&world, "m", 1), true);
    assert_int_not_equal(world.service->here_us, 0);
    end(&world);
}

// With anything under way, a call takes its turn in the queue.
static void test_not_beside_another(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "gate");
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 2);
    measured(&world, "m", 10);
    struct ask *gate = ask_new(&world, "gate", 1);
    gw_infer_submit(world.service, &gate->ticket);
    wait_until_runs(&world, "gate");
    check_where(&world, ask_new(&world, "m", 1), false);
    gw_infer_cancel(world.service, &gate->ticket);
    wait_for(&world.seen, 2);
    ask_free(gate);
    end(&world);
}

// What it is refused with is the same, and is there at once as well.
static void test_refused_here(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    struct ask *ask = ask_new(&world, "m", 1);
    ask->input.name = BASE_STR("z");
    gw_infer_submit(world.service, &ask->ticket);
    assert_int_equal(place_of(ask), 1);
    assert_true(ask->ticket.here);
    assert_int_equal(ask->ticket.status, BASE_ERR_INVALID);
    ask_free(ask);
    end(&world);
}

// ---- A call that ends while its caller's thread runs it

// An exchange whose end another thread tells last of all: when the call's begin has returned.
struct late {
    struct rig rig;
    struct rig_exchange exchange;
    struct gw_infer_exchange *self;
    const struct gw_infer_call *call;
    struct gw_infer_service *service;
    pthread_t worker;
    sem_t returned;
    void (*done)(struct gw_infer_ticket *ticket);
    bool elsewhere;
    _Atomic bool told;
};
static struct late *late; // the hooks have no other way to it

static enum base_status late_read(struct gw_infer_exchange *self, struct base_error *error)
{
    (void)error;
    self->call = *late->call;
    return BASE_OK;
}

static enum base_status late_write(struct gw_infer_exchange *self)
{
    (void)self;
    return BASE_OK;
}

static void late_reply(struct gw_infer_exchange *self)
{
    self->exchange->reply.status = self->ticket.status == BASE_ERR_TIMEOUT ? 504 : 500;
}

static void late_done(struct gw_infer_ticket *ticket)
{
    if (pthread_equal(pthread_self(), late->worker) == 0) {
        late->elsewhere = true;
        sem_wait(&late->returned);
    }
    late->done(ticket);
    late->told = true;
}

// Its deadline has passed, as the keeper sees it, as soon as it runs. The run itself knows of none,
// so that it is the keeper that ends it.
static void *pass_deadline(void *arg)
{
    struct gw_infer_service *service = late->service;
    struct gw_infer_ticket *ticket = &late->self->ticket;
    bool runs = false;
    (void)arg;
    while (!runs) {
        pthread_mutex_lock(&service->lock);
        runs = service->tickets == ticket && ticket->state == GW_INFER_RUNNING;
        if (runs) { // before it is listed it is its submit's alone
            ticket->wait.deadline_us = 1;
            pthread_cond_signal(&service->watch);
        }
        pthread_mutex_unlock(&service->lock);
        usleep(100);
    }
    return NULL;
}

// One run on this thread that is too long: the exchange ends though its begin saw no end of it.
static void end_late(struct world *world, const struct ask *ask)
{
    static const struct gw_infer_protocol protocol = {late_read, late_write, late_reply};
    pthread_t passer;
    *late = (struct late){.call = &ask->call, .service = world->service, .worker = pthread_self()};
    sem_init(&late->returned, 0, 0);
    rig_init(&late->rig);
    rig_start(&late->rig);
    rig_exchange_init(&late->exchange, GW_METHOD_POST, "/v2/models/gate/infer");
    const struct gw_head nobody = {.proof = GW_PROOF_NONE};
    late->self = gw_infer_exchange_new(world->service, late->rig.worker.worker,
                                       &late->exchange.exchange, &nobody, &protocol);
    assert_non_null(late->self);
    late->done = late->self->ticket.done;
    late->self->ticket.done = late_done;
    assert_int_equal(pthread_create(&passer, NULL, pass_deadline, NULL), 0);
    gw_infer_exchange_begin(late->self, GW_INFER_TIMEOUT_US_MAX);
    sem_post(&late->returned);
    pthread_join(passer, NULL);
    while (!late->told) {
        usleep(100);
    }
    (void)rig_pump(&late->rig);
    assert_true(late->elsewhere);
    assert_true(late->exchange.finished);
    assert_int_equal(late->exchange.exchange.reply.status, 504);
    rig_exchange_done(&late->exchange);
    rig_done(&late->rig);
    sem_destroy(&late->returned);
}

static void test_ended_by_another_thread(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    add_endless(&world.kit, "gate");
    start(&world, 1);
    struct ask *gate = ask_new(&world, "gate", 1);
    gw_infer_submit(world.service, &gate->ticket);
    wait_until_runs(&world, "gate");
    gw_infer_cancel(world.service, &gate->ticket); // its session stays, with the shape
    measured(&world, "gate", 10);
    late = calloc(1, sizeof(*late));
    assert_non_null(late);
    end_late(&world, gate);
    assert_int_equal(figures_of(&world, "gate").timed_out, 1);
    assert_int_equal(version_of(&world, "gate")->idle->run_us,
                     0); // nothing is known of it any more
    free(late);
    ask_free(gate);
    end(&world);
}

// ---- What is never run there, or not to its end

// The first call, which no plan is there for, and another one.
static void check_never_here(struct world *world, const char *model, struct ask *first,
                             struct ask *second)
{
    struct ask *asks[2] = {first, second};
    for (uint32_t i = 0; i < 2; i++) {
        (void)ask_one(world, asks[i]);
        assert_int_equal(asks[i]->ticket.status, BASE_OK);
        assert_false(asks[i]->ticket.here);
        measured(world, model, 10);
        ask_free(asks[i]);
    }
}

static struct ask *text_ask(struct world *world)
{
    static struct eng_string texts[3] = {{"a", 1}, {"b", 1}, {"c", 1}};
    struct ask *ask = ask_new(world, "texts", 1);
    ask->input.desc.dtype = ENG_STRING;
    ask->input.data = texts;
    ask->input.bytes = sizeof(texts);
    return ask;
}

// A run that costs what a tensor holds may be a thousand times as long as the last one.
static void test_never_by_contents(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 3);
    onnx_node(kit, "NonZero", "x", "y");
    onnx_output(kit, "y", ENG_I64, 2, -2);
    infer_kit_add(&world.kit, "where", "1", onnx_finish(kit, 13));
    kit = onnx_begin();
    onnx_input(kit, "x", ENG_STRING, -1, 3);
    onnx_node(kit, "Identity", "x", "y");
    onnx_output(kit, "y", ENG_STRING, -1, 3);
    infer_kit_add(&world.kit, "texts", "1", onnx_finish(kit, 13));
    start(&world, 1);
    check_never_here(&world, "where", ask_new(&world, "where", 1), ask_new(&world, "where", 1));
    check_never_here(&world, "texts", text_ask(&world), text_ask(&world));
    end(&world);
}

// One that was thought to be short, and is not, is run by a thread of the service from its start.
static void test_stopped_here(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    check_where(&world, ask_new(&world, "m", 1), false);
    measured(&world, "m", 10);
    pthread_mutex_lock(&world.service->lock);
    world.service->stop_here_us = 0;
    pthread_mutex_unlock(&world.service->lock);
    struct ask *ask = ask_one(&world, ask_new(&world, "m", 1));
    assert_false(ask->ticket.here);
    check_relu(ask);
    ask_free(ask);
    assert_true(world.service->here_us > 0); // it was tried
    measured(&world, "m", 10);
    check_where(&world, ask_new(&world, "m", 1), true);
    assert_int_equal(figures_of(&world, "m").calls, 3);
    assert_int_equal(figures_of(&world, "m").timed_out, 0);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_a_call_runs),
        cmocka_unit_test(test_others_have_their_turn),
        cmocka_unit_test(test_not_beside_another),
        cmocka_unit_test(test_refused_here),
        cmocka_unit_test(test_ended_by_another_thread),
        cmocka_unit_test(test_never_by_contents),
        cmocka_unit_test(test_stopped_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
