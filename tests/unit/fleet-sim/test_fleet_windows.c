// What a run in virtual time on several threads stands on: one order of all messages, windows whose
// tasks run once each, and one memo of signatures for all shards.
#include "test_kit.h"

#include "model/zero_pages.h"
#include "ports/shared_verify.h"
#include "virtual/flight_memory.h"
#include "virtual/flight_queue.h"
#include "virtual/windows.h"

#include <sched.h>
#include <stdatomic.h>

#define FLIGHTS 500u
#define MADE    1000u // more than there is room for in a large page
#define TASKS   64u
#define WINDOWS 400u

static void flights_come_out_in_order(void **state)
{
    (void)state;
    static struct sim_flight flights[FLIGHTS];
    struct sim_flight_queue queue = {0};
    struct base_prng prng;
    test_seed(&prng);
    assert_true(sim_flight_queue_due_us(&queue) == UINT64_MAX);
    for (uint32_t i = 0; i < FLIGHTS; i++) {
        // Few values each, so that every part of the order decides somewhere.
        flights[i].when = (struct sim_when){
            .due_us = base_prng_below(&prng, 5),
            .shard = (uint32_t)base_prng_below(&prng, 3),
            .device = (uint32_t)base_prng_below(&prng, 4),
            .sequence = i * 7919 % FLIGHTS,
        };
        assert_int_equal(sim_flight_queue_add(&queue, &flights[i]), BASE_OK);
    }
    const struct sim_flight *last = NULL;
    for (uint32_t i = 0; i < FLIGHTS; i++) {
        uint64_t due_us = sim_flight_queue_due_us(&queue);
        const struct sim_flight *flight = sim_flight_queue_take(&queue);
        assert_int_equal(flight->when.due_us, due_us);
        assert_true(last == NULL || sim_when_before(&last->when, &flight->when));
        assert_true(last == NULL || !sim_when_before(&flight->when, &last->when));
        last = flight;
    }
    assert_true(sim_flight_queue_due_us(&queue) == UINT64_MAX);
    sim_flight_queue_done(&queue);
}

// More than one page of them, each with an arena that works past its first chunk. That all of it
// goes is the address sanitizer's to say.
static void flights_are_made_by_the_page(void **state)
{
    (void)state;
    static const struct sim_flight zeroed;
    static struct sim_flight *made[MADE];
    struct sim_flight_memory memory;
    sim_flight_memory_init(&memory);
    for (uint32_t i = 0; i < MADE; i++) {
        struct sim_flight *flight = sim_flight_make(&memory);
        assert_non_null(flight);
        assert_memory_equal(&flight->when, &zeroed.when, sizeof(zeroed.when));
        assert_memory_equal(&flight->exchange, &zeroed.exchange, sizeof(zeroed.exchange));
        char *first = base_arena_alloc(&flight->arena, 3000);
        char *second = base_arena_alloc(&flight->arena, 3000);
        char *large = base_arena_alloc(&flight->arena, 100000);
        assert_true(first != NULL && second != NULL && large != NULL);
        assert_true((uintptr_t)first / SIM_LARGE_PAGE_BYTES ==
                    (uintptr_t)flight / SIM_LARGE_PAGE_BYTES);
        assert_true((uintptr_t)second / SIM_LARGE_PAGE_BYTES !=
                    (uintptr_t)flight / SIM_LARGE_PAGE_BYTES);
        memset(first, (int)i, 3000);
        memset(second, (int)i, 3000);
        memset(large, (int)i, 100000);
        memset(&flight->exchange.request, (int)i, sizeof(flight->exchange.request));
        made[i] = flight;
        if (i % 3 == 0) { // it came back, and is used again
            base_arena_reset(&flight->arena);
            assert_non_null(base_arena_alloc(&flight->arena, 5000));
        }
    }
    for (uint32_t i = 0; i < MADE; i++) { // nobody wrote over another
        const uint8_t *bytes = (const uint8_t *)&made[i]->exchange.request;
        for (size_t at = 0; at < sizeof(made[i]->exchange.request); at++) {
            assert_int_equal(bytes[at], (uint8_t)i);
        }
    }
    sim_flight_memory_done(&memory);
    assert_null(memory.blocks);
}

static void large_pages_begin_at_their_size(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, SIM_LARGE_PAGE_BYTES, SIM_LARGE_PAGE_BYTES + 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *pages = sim_large_pages_new(sizes[i]);
        assert_non_null(pages);
        assert_int_equal((uintptr_t)pages % SIM_LARGE_PAGE_BYTES, 0);
        for (size_t at = 0; at < sizes[i]; at += 512) {
            assert_int_equal(pages[at], 0);
            pages[at] = 1;
        }
        sim_large_pages_free(pages, sizes[i]);
    }
    assert_null(sim_large_pages_new(SIZE_MAX));
    assert_null(sim_large_pages_new(SIZE_MAX - SIM_LARGE_PAGE_BYTES));
    sim_large_pages_free(NULL, 1);
}

static void a_post_is_taken_whole(void **state)
{
    (void)state;
    static struct sim_flight flights[FLIGHTS];
    struct sim_flight_queue queue = {0};
    struct sim_post post;
    sim_post_init(&post);
    for (uint32_t round = 0; round < 2; round++) {
        assert_true(post.due_us == UINT64_MAX);
        for (uint32_t i = 0; i < FLIGHTS; i++) {
            flights[i].when = (struct sim_when){.due_us = 10 + i * 7919 % FLIGHTS};
            assert_int_equal(sim_post_add(&post, &flights[i]), BASE_OK);
        }
        assert_int_equal(post.due_us, 10);
        assert_int_equal(sim_post_take(&post, &queue), BASE_OK);
        assert_int_equal(post.sent.count, 0);
        for (uint32_t i = 0; i < FLIGHTS; i++) {
            assert_int_equal(sim_flight_queue_take(&queue)->when.due_us, 10 + i);
        }
    }
    sim_post_done(&post);
    sim_flight_queue_done(&queue);
}

static void each_part_of_the_order_decides(void **state)
{
    (void)state;
    const struct sim_when first = {.due_us = 2, .shard = 2, .device = 2, .sequence = 2};
    const struct sim_when later[] = {
        {.due_us = 3, .shard = 1, .device = 1, .sequence = 1},
        {.due_us = 2, .shard = 3, .device = 1, .sequence = 1},
        {.due_us = 2, .shard = 2, .device = 3, .sequence = 1},
        {.due_us = 2, .shard = 2, .device = 2, .sequence = 3},
    };
    for (uint32_t i = 0; i < TEST_COUNT(later); i++) {
        assert_true(sim_when_before(&first, &later[i]));
        assert_false(sim_when_before(&later[i], &first));
    }
}

// ---- Windows

struct windowed {
    struct sim_windows *windows;
    uint32_t threads;
    uint32_t first;        // windows begun
    uint32_t runs[TASKS];  // of each task
    uint32_t order[TASKS]; // of tasks, as they came to what they share
    uint32_t count;
    atomic_uint inside;
};

static void run_task(void *ctx, uint32_t worker, uint32_t task)
{
    struct windowed *all = ctx;
    assert_true(worker < all->threads);
    all->runs[task]++;
    if (task % 3 != 0) {
        return; // it writes nothing that they share
    }
    for (uint32_t i = 0; task % 2 == 0 && i < 20; i++) {
        (void)sched_yield(); // the ones behind it come first
    }
    sim_windows_in_order(all->windows, task);
    assert_int_equal(atomic_fetch_add(&all->inside, 1), 0);
    all->order[all->count++] = task;
    atomic_fetch_sub(&all->inside, 1);
}

static void run_first(void *ctx)
{
    ((struct windowed *)ctx)->first++;
}

static void tasks_run_once_and_write_in_order(void **state)
{
    (void)state;
    const uint32_t threads[] = {1, 2, 5};
    for (uint32_t t = 0; t < TEST_COUNT(threads); t++) {
        struct windowed all = {.threads = threads[t]};
        const struct sim_windows_options options = {
            .threads = threads[t], .ctx = &all, .run = run_task, .first = run_first};
        uint32_t tasks[TASKS];
        uint32_t wanted[TASKS] = {0};
        assert_int_equal(sim_windows_new(&options, &all.windows), BASE_OK);
        for (uint32_t w = 0; w < WINDOWS; w++) {
            uint32_t count = 0;
            for (uint32_t i = 0; i < TASKS; i++) {
                if (w % 7 != 6 && (w + i) % (1 + w % 5) == 0) { // all, some, none
                    tasks[count++] = i;
                    wanted[i]++;
                }
            }
            all.count = 0;
            sim_windows_run(all.windows, tasks, count);
            assert_int_equal(all.first, w + 1);
            assert_memory_equal(all.runs, wanted, sizeof(wanted));
            for (uint32_t i = 1; i < all.count; i++) {
                assert_true(all.order[i - 1] < all.order[i]);
            }
        }
        sim_windows_free(all.windows);
    }
    sim_windows_free(NULL);
}

// ---- The memo

struct asked {
    struct sim_shared_verify *memo;
    struct dev_crypto_port real;
    atomic_uint checks; // made for real
    atomic_uint told;   // made for real, as the memo said
};

static enum base_status odd_only(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                 const uint8_t *message, size_t size,
                                 const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    (void)key, (void)signature, (void)size;
    atomic_fetch_add(&((struct asked *)ctx)->checks, 1);
    return message[0] % 2 == 1 ? BASE_OK : BASE_ERR_SIGNATURE;
}

static void ask(struct asked *asked, uint8_t key_byte, uint8_t message_byte)
{
    const uint8_t key[WIRE_PUBLIC_KEY_BYTES] = {key_byte};
    const uint8_t message[3] = {message_byte, 1, 2};
    const uint8_t signature[WIRE_SIGNATURE_BYTES] = {9};
    // Hashes that meet: equality is that of all bytes.
    const struct sim_verify_question question = {key, message, sizeof(message), signature,
                                                 message_byte % 4};
    bool real = false;
    enum base_status wanted = message_byte % 2 == 1 ? BASE_OK : BASE_ERR_SIGNATURE;
    assert_int_equal(sim_shared_verify_ask(asked->memo, &asked->real, &question, &real), wanted);
    atomic_fetch_add(&asked->told, real);
}

static void ask_all(void *ctx, uint32_t worker, uint32_t task)
{
    (void)worker, (void)task;
    for (uint32_t i = 0; i < 100; i++) {
        ask(ctx, (uint8_t)(i % 3), (uint8_t)i);
    }
}

static void ask_none(void *ctx)
{
    (void)ctx;
}

static void each_signature_is_checked_once(void **state)
{
    (void)state;
    struct asked asked = {.real = {.ctx = &asked, .verify = odd_only}};
    const struct sim_windows_options options = {
        .threads = 4, .ctx = &asked, .run = ask_all, .first = ask_none};
    struct sim_windows *windows;
    uint32_t tasks[TASKS];
    for (uint32_t i = 0; i < TASKS; i++) {
        tasks[i] = i;
    }
    assert_int_equal(sim_shared_verify_new(&asked.memo), BASE_OK);
    assert_int_equal(sim_windows_new(&options, &windows), BASE_OK);
    sim_windows_run(windows, tasks, TASKS);
    assert_int_equal(asked.checks, 100);
    assert_int_equal(asked.told, 100);
    sim_windows_free(windows);
    sim_shared_verify_free(asked.memo);
    sim_shared_verify_free(NULL);
}

static void what_is_not_asked_goes_in_time(void **state)
{
    (void)state;
    struct asked asked = {.real = {.ctx = &asked, .verify = odd_only}};
    assert_int_equal(sim_shared_verify_new(&asked.memo), BASE_OK);
    for (uint32_t i = 0; i < SIM_SHARED_VERIFY_AGES; i++) {
        ask(&asked, (uint8_t)(i / 256), (uint8_t)i);
    }
    uint32_t checks = asked.checks;
    assert_int_equal(checks, SIM_SHARED_VERIFY_AGES);
    sim_shared_verify_age(asked.memo); // these are those of before now
    ask(&asked, 0, 0);
    assert_int_equal(asked.checks, checks);
    for (uint32_t i = 0; i < SIM_SHARED_VERIFY_AGES; i++) {
        ask(&asked, (uint8_t)(100 + i / 256), (uint8_t)i);
    }
    sim_shared_verify_age(asked.memo);
    checks = asked.checks;
    ask(&asked, 0, 0);
    assert_int_equal(asked.checks, checks + 1);
    sim_shared_verify_free(asked.memo);
}

// What was signed here is not verified; the same signature under another text or by another key is.
static void what_is_noted_is_not_checked(void **state)
{
    (void)state;
    struct asked asked = {.real = {.ctx = &asked, .verify = odd_only}};
    const uint8_t key[WIRE_PUBLIC_KEY_BYTES] = {7};
    const uint8_t message[3] = {5, 1, 2};
    const uint8_t signature[WIRE_SIGNATURE_BYTES] = {9};
    const struct sim_verify_question question = {key, message, sizeof(message), signature, 5 % 4};
    assert_int_equal(sim_shared_verify_new(&asked.memo), BASE_OK);
    sim_shared_verify_note(asked.memo, &question);
    sim_shared_verify_note(asked.memo, &question);
    ask(&asked, 7, 5);
    assert_int_equal(asked.checks, 0);
    ask(&asked, 7, 1);
    ask(&asked, 8, 5);
    ask(&asked, 7, 9);
    assert_int_equal(asked.checks, 3);
    assert_int_equal(asked.told, 3);
    sim_shared_verify_free(asked.memo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flights_come_out_in_order),
        cmocka_unit_test(flights_are_made_by_the_page),
        cmocka_unit_test(large_pages_begin_at_their_size),
        cmocka_unit_test(a_post_is_taken_whole),
        cmocka_unit_test(each_part_of_the_order_decides),
        cmocka_unit_test(tasks_run_once_and_write_in_order),
        cmocka_unit_test(each_signature_is_checked_once),
        cmocka_unit_test(what_is_not_asked_goes_in_time),
        cmocka_unit_test(what_is_noted_is_not_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
