// The workers' bell: who rings is heard, however many ring at once and while the loop looks; the
// loop is woken once for all of them, and others on it get their turn beside those who never stop.
#include "test_kit.h"

#include "posix/run/posix_bell.h"

#include <event2/event.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define RINGERS 4u
#define RINGS   20000u

struct ringer {
    pthread_t thread;
    struct posix_bell *bell;
    atomic_uint said;
    unsigned heard;
};

static struct event_base *base;
static struct posix_bell bell;
static struct ringer ringers[RINGERS];
static unsigned looks;
static unsigned timers;

static void *rings(void *arg)
{
    struct ringer *ringer = arg;
    for (unsigned i = 0; i < RINGS; i++) {
        (void)atomic_fetch_add(&ringer->said, 1);
        posix_bell_ring(ringer->bell);
        if (i % 64 == 0) {
            (void)sched_yield(); // the loop is asleep now and then
        }
    }
    return NULL;
}

static void hears(void *ctx)
{
    assert_ptr_equal(ctx, &bell);
    looks++;
    for (unsigned i = 0; i < RINGERS; i++) {
        ringers[i].heard = atomic_load(&ringers[i].said);
    }
}

static bool all_heard(void)
{
    bool all = true;
    for (unsigned i = 0; i < RINGERS; i++) {
        all = all && ringers[i].heard == RINGS;
    }
    return all;
}

// The last ring of each is heard, too: nobody sees a loop awake that has looked already.
static void everybody_is_heard(void **state)
{
    (void)state;
    looks = 0;
    assert_int_equal(posix_bell_open(&bell, base, hears, &bell), BASE_OK);
    for (unsigned i = 0; i < RINGERS; i++) {
        ringers[i].bell = &bell;
        ringers[i].heard = 0;
        atomic_init(&ringers[i].said, 0);
        assert_int_equal(pthread_create(&ringers[i].thread, NULL, rings, &ringers[i]), 0);
    }
    while (!all_heard()) {
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    for (unsigned i = 0; i < RINGERS; i++) {
        assert_int_equal(pthread_join(ringers[i].thread, NULL), 0);
    }
    assert_in_range(looks, 1, RINGERS * RINGS);
    posix_bell_close(&bell);
}

static void counts(void *ctx)
{
    (void)ctx;
    looks++;
}

static void once_for_all(void **state)
{
    uint64_t count = 0;
    (void)state;
    looks = 0;
    assert_int_equal(posix_bell_open(&bell, base, counts, NULL), BASE_OK);
    for (unsigned i = 0; i < 100; i++) {
        posix_bell_ring(&bell);
    }
    assert_int_equal(read(bell.fd, &count, sizeof(count)), sizeof(count));
    assert_int_equal(count, 1); // one wake-up
    atomic_store(&bell.awake, false);
    posix_bell_ring(&bell);
    assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    assert_int_equal(looks, 1);
    assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 0);
    assert_int_equal(looks, 1);
    posix_bell_close(&bell);
}

static void rings_on(void *ctx)
{
    (void)ctx;
    looks++;
    posix_bell_ring(&bell);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    timers++;
}

// Word that comes while the loop looks is heard in the same turn, but not for ever.
static void others_have_their_turn(void **state)
{
    const struct timeval at_once = {.tv_usec = 1};
    struct event *timer = evtimer_new(base, on_timer, NULL);
    (void)state;
    looks = 0;
    timers = 0;
    assert_non_null(timer);
    assert_int_equal(posix_bell_open(&bell, base, rings_on, NULL), BASE_OK);
    posix_bell_ring(&bell);
    assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    assert_in_range(looks, 2, 1000);
    assert_int_equal(event_add(timer, &at_once), 0);
    for (unsigned turn = 0; turn < 10000000 && timers == 0; turn++) { // libevent's clock is coarse
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    assert_int_equal(timers, 1);
    posix_bell_close(&bell);
    event_free(timer);
}

static void closed_twice(void **state)
{
    struct posix_bell never = {.fd = 0};
    (void)state;
    posix_bell_close(&never); // never opened: descriptor 0 is somebody else's
    assert_int_equal(posix_bell_open(&bell, base, counts, NULL), BASE_OK);
    posix_bell_close(&bell);
    posix_bell_close(&bell);
}

static int setup(void **state)
{
    (void)state;
    base = event_base_new();
    return base != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    event_base_free(base);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_is_heard),
        cmocka_unit_test(once_for_all),
        cmocka_unit_test(others_have_their_turn),
        cmocka_unit_test(closed_twice),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
