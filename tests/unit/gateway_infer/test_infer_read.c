// Calls that the service's threads read before they are queued: others pass them, and whoever goes,
// is late or sends nonsense ends as any other call does.
#include "infer_kit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "infer/infer_private.h"

#include <pthread.h>
#include <semaphore.h>

struct world {
    struct infer_kit kit;
    struct gw_infer_service *service;
};

struct ask {
    struct gw_infer_ticket ticket; // first
    struct base_arena arena;
    struct gw_infer_call call;
    struct gw_infer_tensor input;
    float x[3];
    enum base_status reads; // what reading it says
    sem_t begun;            // reading it has
    sem_t hold;             // reading it waits for this
    sem_t over;
};

static void begin(struct world *world, uint32_t threads)
{
    struct base_error error = {0};
    infer_kit_begin(&world->kit);
    infer_kit_add(&world->kit, "m", "1", NULL);
    const struct gw_infer_options options = {.models_dir = world->kit.dir, .threads = threads};
    assert_int_equal(gw_infer_service_new(&options, &world->service, &error), BASE_OK);
}

static void end(struct world *world)
{
    gw_infer_service_free(world->service);
    infer_kit_end(&world->kit);
}

static void done(struct gw_infer_ticket *ticket)
{
    sem_post(&((struct ask *)ticket)->over);
}

static enum base_status read_held(struct gw_infer_ticket *ticket)
{
    struct ask *ask = (struct ask *)ticket;
    sem_post(&ask->begun);
    sem_wait(&ask->hold);
    if (ask->reads != BASE_OK) {
        return base_error_set(&ticket->error, ask->reads, "nonsense");
    }
    ask->call = (struct gw_infer_call){.model = BASE_STR("m"),
                                       .priority = GW_INFER_PRIORITY_USUAL,
                                       .inputs = &ask->input,
                                       .input_count = 1};
    return BASE_OK;
}

static struct ask *ask_new(bool large)
{
    struct ask *ask = calloc(1, sizeof(*ask));
    assert_non_null(ask);
    base_arena_init(&ask->arena, base_alloc_heap(), 0, (size_t)1 << 20);
    ask->input = (struct gw_infer_tensor){.name = BASE_STR("x"),
                                          .desc = {ENG_F32, 2, {1, 3}},
                                          .data = ask->x,
                                          .bytes = sizeof(ask->x)};
    ask->ticket = (struct gw_infer_ticket){
        .call = &ask->call, .arena = &ask->arena, .done = done, .read = large ? read_held : NULL};
    sem_init(&ask->begun, 0, 0);
    sem_init(&ask->hold, 0, 0);
    sem_init(&ask->over, 0, 0);
    if (!large) {
        sem_post(&ask->hold);
        assert_int_equal(read_held(&ask->ticket), BASE_OK);
    }
    return ask;
}

static struct ask *submit(struct world *world, bool large)
{
    struct ask *ask = ask_new(large);
    gw_infer_submit(world->service, &ask->ticket);
    return ask;
}

static enum gw_infer_ticket_state state_of(struct world *world, const struct ask *ask)
{
    pthread_mutex_lock(&world->service->lock);
    enum gw_infer_ticket_state state = ask->ticket.state;
    pthread_mutex_unlock(&world->service->lock);
    return state;
}

// Waits for its end, which has this status.
static void check_end(struct ask *ask, enum base_status status)
{
    sem_wait(&ask->over);
    assert_int_equal(ask->ticket.status, status);
    assert_int_equal(sem_trywait(&ask->over), -1); // once
    if (status == BASE_OK) {
        const float *y = ask->ticket.result.outputs[0].data;
        assert_float_equal(y[0], 1, 0);
        assert_float_equal(y[1], 0, 0);
        assert_float_equal(y[2], 3, 0);
    }
    base_arena_done(&ask->arena);
    free(ask);
}

// While one is read, and another one waits to be, a call that needs no reading is answered.
static void test_others_pass(void **state)
{
    struct world world;
    (void)state;
    begin(&world, 2);
    struct ask *reading = submit(&world, true);
    sem_wait(&reading->begun);
    struct ask *unread = submit(&world, true);
    check_end(submit(&world, false), BASE_OK);
    assert_int_equal(state_of(&world, reading), GW_INFER_READING);
    assert_int_equal(state_of(&world, unread), GW_INFER_UNREAD); // one thread is left for others
    sem_post(&reading->hold);
    sem_post(&unread->hold);
    check_end(reading, BASE_OK);
    check_end(unread, BASE_OK);
    end(&world);
}

static void test_ends_before_it_runs(void **state)
{
    struct world world;
    (void)state;
    begin(&world, 1);
    struct ask *reading = submit(&world, true);
    sem_wait(&reading->begun);
    struct ask *gone = submit(&world, true);
    struct ask *late = ask_new(true);
    late->ticket.deadline_us = base_clock_mono_us() + 1;
    gw_infer_submit(world.service, &late->ticket);
    check_end(late, BASE_ERR_TIMEOUT);
    gw_infer_cancel(world.service, &gone->ticket);
    check_end(gone, BASE_ERR_CLOSED);
    gw_infer_cancel(world.service, &reading->ticket);
    assert_int_equal(state_of(&world, reading), GW_INFER_READING); // its memory is in use
    struct ask *wrong = submit(&world, true);
    wrong->reads = BASE_ERR_TRUNCATED;
    sem_post(&reading->hold);
    check_end(reading, BASE_ERR_CLOSED);
    sem_post(&wrong->hold);
    check_end(wrong, BASE_ERR_TRUNCATED);
    check_end(submit(&world, false), BASE_OK);
    assert_int_equal(world.service->ticket_count, 0);
    end(&world);
}

static void test_too_many(void **state)
{
    struct world world;
    struct ask *asks[GW_INFER_UNREAD_MAX];
    (void)state;
    begin(&world, 1);
    struct ask *reading = submit(&world, true);
    sem_wait(&reading->begun);
    for (uint32_t i = 0; i < GW_INFER_UNREAD_MAX; i++) {
        asks[i] = submit(&world, true);
        sem_post(&asks[i]->hold);
    }
    struct ask *refused = submit(&world, true);
    assert_int_equal(refused->ticket.retry_after_s, 1);
    assert_string_equal(refused->ticket.error.text, "too many large calls wait");
    check_end(refused, BASE_ERR_LIMIT);
    sem_post(&reading->hold);
    check_end(reading, BASE_OK);
    for (uint32_t i = 0; i < GW_INFER_UNREAD_MAX; i++) {
        check_end(asks[i], BASE_OK);
    }
    end(&world);
}

static void *free_service(void *service)
{
    gw_infer_service_free(service);
    return NULL;
}

// The end of the service waits for what is being read, and for nothing else.
static void test_the_end(void **state)
{
    struct world world;
    pthread_t thread;
    (void)state;
    begin(&world, 1);
    struct ask *reading = submit(&world, true);
    sem_wait(&reading->begun);
    struct ask *unread = submit(&world, true);
    gw_infer_service_drain(world.service);
    check_end(submit(&world, true), BASE_ERR_BUSY);
    assert_int_equal(pthread_create(&thread, NULL, free_service, world.service), 0);
    check_end(unread, BASE_ERR_CLOSED);
    sem_post(&reading->hold);
    check_end(reading, BASE_ERR_CLOSED);
    pthread_join(thread, NULL);
    infer_kit_end(&world.kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_pass),
        cmocka_unit_test(test_ends_before_it_runs),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
