// Arena: alignment, limits, cleanups, reset, and every allocation failing in turn.
#include "test_kit.h"

#include "base/alloc.h"
#include "base/arena.h"

static void memory_is_aligned_and_apart(void **state)
{
    (void)state;
    struct test_alloc heap;
    test_alloc_init(&heap, SIZE_MAX);
    struct base_arena arena;
    base_arena_init(&arena, &heap.port, 256, 0);
    assert_int_equal(heap.calls, 0);
    struct base_prng prng;
    test_seed(&prng);
    uint8_t *blocks[400];
    size_t sizes[400];
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
        // Now and then larger than a chunk, so that outsized chunks mix with ordinary ones.
        sizes[i] = (size_t)base_prng_below(&prng, i % 7 == 0 ? 1000 : 60);
        blocks[i] = base_arena_alloc(&arena, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], (int)(i & 0xff), sizes[i]);
    }
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
        for (size_t j = 0; j < sizes[i]; j++) {
            assert_int_equal(blocks[i][j], i & 0xff);
        }
    }
    base_arena_done(&arena);
    assert_int_equal(heap.live, 0);
}

static void copies_and_zeros(void **state)
{
    (void)state;
    struct test_alloc heap;
    test_alloc_init(&heap, SIZE_MAX);
    struct base_arena arena;
    base_arena_init(&arena, &heap.port, 0, 0);
    const uint8_t *zeros = base_arena_zalloc(&arena, 100);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(zeros[i], 0);
    }
    assert_string_equal(base_arena_text(&arena, "hello world", 5), "hello");
    assert_string_equal(base_arena_text(&arena, NULL, 0), "");
    const char *copy = base_arena_copy(&arena, "abc", 3);
    assert_memory_equal(copy, "abc", 3);
    assert_non_null(base_arena_copy(&arena, NULL, 0));
    assert_non_null(base_arena_alloc(&arena, 0));
    base_arena_done(&arena);
    assert_int_equal(heap.live, 0);
}

static void limit_and_absurd_sizes_give_null(void **state)
{
    (void)state;
    struct test_alloc heap;
    test_alloc_init(&heap, SIZE_MAX);
    struct base_arena arena;
    base_arena_init(&arena, &heap.port, 64, 128);
    assert_non_null(base_arena_alloc(&arena, 100)); // 112 with rounding
    assert_null(base_arena_alloc(&arena, 17));
    assert_non_null(base_arena_alloc(&arena, 16));
    assert_int_equal(arena.used_bytes, 128);
    assert_null(base_arena_alloc(&arena, 1));
    assert_null(base_arena_zalloc(&arena, 1));
    assert_null(base_arena_text(&arena, "x", 1));
    assert_null(base_arena_copy(&arena, "x", 1));
    base_arena_done(&arena);

    base_arena_init(&arena, &heap.port, 64, 0);
    size_t calls = heap.calls;
    assert_null(base_arena_alloc(&arena, SIZE_MAX));
    assert_null(base_arena_alloc(&arena, SIZE_MAX - 15));
    assert_null(base_arena_alloc(&arena, SIZE_MAX - 40));
    assert_null(base_arena_text(&arena, "x", SIZE_MAX));
    assert_int_equal(heap.calls, calls);
    base_arena_done(&arena);
    assert_int_equal(heap.live, 0);
}

struct trail {
    int order[4];
    int count;
};

struct mark {
    struct trail *trail;
    int number;
};

static void leave_mark(void *ctx)
{
    struct mark *mark = ctx;
    mark->trail->order[mark->trail->count++] = mark->number;
}

static void cleanups_run_backwards_once(void **state)
{
    (void)state;
    struct test_alloc heap;
    test_alloc_init(&heap, SIZE_MAX);
    struct base_arena arena;
    base_arena_init(&arena, &heap.port, 0, 0);
    struct trail trail = {.count = 0};
    for (int i = 0; i < 3; i++) {
        // The mark lives in the arena: a cleanup may still use its memory.
        struct mark *mark = base_arena_alloc(&arena, sizeof *mark);
        *mark = (struct mark){.trail = &trail, .number = i};
        assert_int_equal(base_arena_on_done(&arena, leave_mark, mark), BASE_OK);
    }
    base_arena_reset(&arena);
    assert_int_equal(trail.count, 3);
    assert_int_equal(trail.order[0], 2);
    assert_int_equal(trail.order[2], 0);
    base_arena_done(&arena);
    assert_int_equal(trail.count, 3);
    base_arena_done(&arena);
    assert_int_equal(heap.live, 0);
}

static void reset_keeps_one_ordinary_chunk(void **state)
{
    (void)state;
    struct test_alloc heap;
    test_alloc_init(&heap, SIZE_MAX);
    struct base_arena arena;
    base_arena_init(&arena, &heap.port, 128, 0);
    for (int i = 0; i < 10; i++) {
        assert_non_null(base_arena_alloc(&arena, 100));
        assert_non_null(base_arena_alloc(&arena, 1000));
    }
    base_arena_reset(&arena);
    assert_int_equal(heap.live, 1);
    assert_int_equal(arena.used_bytes, 0);
    size_t calls = heap.calls;
    assert_non_null(base_arena_alloc(&arena, 128));
    assert_int_equal(heap.calls, calls);
    base_arena_reset(&arena);
    assert_non_null(base_arena_alloc(&arena, 128));
    assert_int_equal(heap.calls, calls);
    base_arena_done(&arena);

    base_arena_init(&arena, &heap.port, 128, 0);
    assert_non_null(base_arena_alloc(&arena, 1000));
    base_arena_reset(&arena); // an outsized chunk alone is not kept
    assert_int_equal(heap.live, 0);
    base_arena_done(&arena);
}

static void zeroed_and_null_arenas_are_done_at_once(void **state)
{
    (void)state;
    struct base_arena arena;
    memset(&arena, 0, sizeof arena);
    base_arena_done(&arena);
    base_arena_done(NULL);
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_non_null(base_arena_alloc(&arena, 10));
    base_arena_done(&arena);
}

// A fixed sequence of uses; true when all of it had memory.
static bool use_arena(struct base_arena *arena, struct trail *trail)
{
    struct mark *mark = base_arena_zalloc(arena, sizeof *mark);
    if (mark == NULL) {
        return false;
    }
    *mark = (struct mark){.trail = trail, .number = 1};
    if (base_arena_on_done(arena, leave_mark, mark) != BASE_OK) {
        return false;
    }
    bool all = base_arena_alloc(arena, 40) != NULL;
    all = base_arena_text(arena, "some text that is copied", 24) != NULL && all;
    all = base_arena_copy(arena, "0123456789", 10) != NULL && all;
    all = base_arena_alloc(arena, 500) != NULL && all;
    return base_arena_alloc(arena, 60) != NULL && all;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    bool succeeded = false;
    for (size_t allowed = 0; !succeeded; allowed++) {
        assert_true(allowed < 50);
        struct test_alloc heap;
        test_alloc_init(&heap, allowed);
        struct base_arena arena;
        struct trail trail = {.count = 0};
        base_arena_init(&arena, &heap.port, 64, 0);
        succeeded = use_arena(&arena, &trail);
        if (allowed == 0) {
            assert_false(succeeded);
            assert_int_equal(base_arena_on_done(&arena, leave_mark, NULL), BASE_ERR_NOMEM);
        }
        base_arena_done(&arena);
        assert_true(trail.count == 1 || !succeeded);
        assert_int_equal(heap.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_aligned_and_apart),
        cmocka_unit_test(copies_and_zeros),
        cmocka_unit_test(limit_and_absurd_sizes_give_null),
        cmocka_unit_test(cleanups_run_backwards_once),
        cmocka_unit_test(reset_keeps_one_ordinary_chunk),
        cmocka_unit_test(zeroed_and_null_arenas_are_done_at_once),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
