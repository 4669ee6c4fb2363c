// Who may bring early data: every ClientHello once, for as long as it could be played back,
// whatever the order and the number; checked against a list of all that was ever said.
#include "http/guard/early_guard.h"

#include "test_kit.h"

#include <pthread.h>

#define STEPS   200000
#define THREADS 4
#define EACH    20000

static void random_of(uint64_t number, uint8_t out[GW_EARLY_RANDOM_BYTES])
{
    struct base_prng prng;
    base_prng_seed(&prng, number);
    for (size_t i = 0; i < GW_EARLY_RANDOM_BYTES; i++) {
        out[i] = (uint8_t)base_prng_next(&prng);
    }
}

static bool first(struct gw_early_guard *guard, uint64_t number, uint64_t now_ms)
{
    uint8_t random[GW_EARLY_RANDOM_BYTES];
    random_of(number, random);
    return gw_early_guard_first(guard, random, now_ms);
}

static void test_once(void **state)
{
    (void)state;
    struct gw_early_guard *guard;
    assert_int_equal(gw_early_guard_new(1000, 1000, &guard), BASE_OK);
    assert_true(first(guard, 1, 1000));
    assert_false(first(guard, 1, 1000));
    assert_true(first(guard, 2, 1000));
    assert_false(first(guard, 1, 1000 + GW_EARLY_WINDOW_MS - 1));
    assert_false(first(guard, 1, 1000 + GW_EARLY_WINDOW_MS)); // the window before is still known
    assert_false(first(guard, 2, 1000 + GW_EARLY_WINDOW_MS));
    gw_early_guard_free(guard);
    gw_early_guard_free(NULL);
}

static void test_quiet_at_first(void **state)
{
    (void)state;
    struct gw_early_guard *guard;
    assert_int_equal(gw_early_guard_new(5000, 5000 + GW_EARLY_WINDOW_MS, &guard), BASE_OK);
    assert_false(first(guard, 1, 5000));
    assert_false(first(guard, 2, 5000 + GW_EARLY_WINDOW_MS - 1));
    assert_true(first(guard, 3, 5000 + GW_EARLY_WINDOW_MS));
    gw_early_guard_free(guard);
}

static void test_full_means_no(void **state)
{
    (void)state;
    struct gw_early_guard *guard;
    uint64_t number = 0;
    assert_int_equal(gw_early_guard_new(0, 0, &guard), BASE_OK);
    while (first(guard, number, 1)) {
        number++;
    }
    assert_int_equal(number, GW_EARLY_SLOTS / 2);
    assert_false(first(guard, number + 1, 1));
    assert_false(first(guard, 0, 1));
    assert_true(first(guard, number + 1, GW_EARLY_WINDOW_MS)); // a new window has room
    assert_false(first(guard, 0, GW_EARLY_WINDOW_MS));
    gw_early_guard_free(guard);
}

// Whatever is said within a window of when it was first said is refused; what is said for the first
// time is taken.
static void test_against_a_list(void **state)
{
    (void)state;
    static uint64_t said_ms[STEPS]; // by number; 0: never
    struct gw_early_guard *guard;
    struct base_prng prng;
    uint64_t now_ms = 1;
    uint64_t fresh = 0;
    uint64_t replays = 0;
    base_prng_seed(&prng, 20261121);
    print_message("seed 20261121\n");
    assert_int_equal(gw_early_guard_new(now_ms, now_ms, &guard), BASE_OK);
    for (int i = 0; i < STEPS; i++) {
        now_ms += base_prng_next(&prng) % 4;
        now_ms += base_prng_next(&prng) % 20000 == 0 ? 3 * GW_EARLY_WINDOW_MS : 0;
        bool again = fresh > 0 && base_prng_next(&prng) % 3 == 0;
        uint64_t number = again ? base_prng_next(&prng) % fresh : fresh;
        bool taken = first(guard, number, now_ms);
        bool must_not = again && now_ms - said_ms[number] <= GW_EARLY_WINDOW_MS;
        if ((must_not && taken) || (!again && !taken)) {
            fail_msg("step %d: number %llu, taken %d", i, (unsigned long long)number, taken);
        }
        replays += must_not ? 1 : 0;
        said_ms[number] = taken ? now_ms : said_ms[number];
        fresh += again ? 0 : 1;
    }
    assert_true(replays > STEPS / 50);
    gw_early_guard_free(guard);
}

struct worker {
    struct gw_early_guard *guard;
    pthread_t thread;
    uint64_t taken;
};

static void *run(void *ctx)
{
    struct worker *worker = ctx;
    for (uint64_t i = 0; i < EACH; i++) {
        worker->taken += first(worker->guard, i, 1) ? 1 : 0;
    }
    return NULL;
}

static void test_from_many_threads(void **state)
{
    (void)state;
    struct worker workers[THREADS] = {0};
    struct gw_early_guard *guard;
    uint64_t taken = 0;
    assert_int_equal(gw_early_guard_new(0, 0, &guard), BASE_OK);
    for (int i = 0; i < THREADS; i++) {
        workers[i].guard = guard;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        taken += workers[i].taken;
    }
    assert_int_equal(taken, EACH); // each by one of them
    gw_early_guard_free(guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_quiet_at_first),
        cmocka_unit_test(test_full_means_no),
        cmocka_unit_test(test_against_a_list),
        cmocka_unit_test(test_from_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
