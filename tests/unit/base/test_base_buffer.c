// Buffer: growth, limit, NUL behind the content, stealing, and every allocation failing in turn.
#include "test_kit.h"

#include "base/buffer.h"

static void content_is_what_was_added(void **state)
{
    (void)state;
    struct test_alloc heap;
    test_alloc_init(&heap, SIZE_MAX);
    struct base_buffer buffer;
    base_buffer_init(&buffer, &heap.port, 0);
    assert_null(buffer.data);
    for (unsigned i = 0; i < 3000; i++) {
        uint8_t byte = (uint8_t)i;
        assert_int_equal(base_buffer_add(&buffer, &byte, 1), BASE_OK);
        assert_int_equal(buffer.data[buffer.size], 0);
    }
    assert_int_equal(buffer.size, 3000);
    for (unsigned i = 0; i < 3000; i++) {
        assert_int_equal(buffer.data[i], (uint8_t)i);
    }
    assert_true(heap.calls < 12); // grows by doubling
    base_buffer_clear(&buffer);
    assert_int_equal(buffer.size, 0);
    assert_int_equal(buffer.data[0], 0);
    assert_int_equal(base_buffer_printf(&buffer, "%d-%s", 42, "x"), BASE_OK);
    assert_int_equal(base_buffer_printf(&buffer, "%s", ""), BASE_OK);
    assert_string_equal((char *)buffer.data, "42-x");
    base_buffer_done(&buffer);
    base_buffer_done(&buffer);
    base_buffer_done(NULL);
    assert_int_equal(heap.live, 0);
}

static void empty_additions_are_fine(void **state)
{
    (void)state;
    struct test_alloc heap;
    test_alloc_init(&heap, SIZE_MAX);
    struct base_buffer buffer;
    base_buffer_init(&buffer, &heap.port, 4);
    base_buffer_clear(&buffer);
    assert_int_equal(base_buffer_add(&buffer, NULL, 0), BASE_OK);
    assert_int_equal(buffer.size, 0);
    base_buffer_done(&buffer);
}

static void limit_holds_and_failure_changes_nothing(void **state)
{
    (void)state;
    struct test_alloc heap;
    test_alloc_init(&heap, SIZE_MAX);
    struct base_buffer buffer;
    base_buffer_init(&buffer, &heap.port, 5);
    assert_int_equal(base_buffer_add(&buffer, "abcd", 4), BASE_OK);
    assert_int_equal(base_buffer_add(&buffer, "ef", 2), BASE_ERR_LIMIT);
    assert_int_equal(base_buffer_printf(&buffer, "%s", "ef"), BASE_ERR_LIMIT);
    assert_int_equal(base_buffer_add(&buffer, "x", SIZE_MAX), BASE_ERR_LIMIT);
    assert_string_equal((char *)buffer.data, "abcd");
    assert_int_equal(base_buffer_printf(&buffer, "%c", 'e'), BASE_OK);
    assert_string_equal((char *)buffer.data, "abcde");
    assert_int_equal(buffer.size, 5);
    base_buffer_done(&buffer);

    base_buffer_init(&buffer, &heap.port, 0);
    assert_int_equal(base_buffer_add(&buffer, "x", 1), BASE_OK);
    assert_int_equal(base_buffer_add(&buffer, "x", SIZE_MAX), BASE_ERR_LIMIT);
    assert_int_equal(base_buffer_add(&buffer, "x", SIZE_MAX - 1), BASE_ERR_LIMIT);
    base_buffer_done(&buffer);
    assert_int_equal(heap.live, 0);
}

static void stealing_leaves_an_empty_buffer(void **state)
{
    (void)state;
    struct test_alloc heap;
    test_alloc_init(&heap, SIZE_MAX);
    struct base_buffer buffer;
    base_buffer_init(&buffer, &heap.port, 0);
    size_t size = 9;
    assert_null(base_buffer_steal(&buffer, &size));
    assert_int_equal(size, 0);
    assert_int_equal(base_buffer_printf(&buffer, "kept"), BASE_OK);
    uint8_t *stolen = base_buffer_steal(&buffer, &size);
    assert_int_equal(size, 4);
    assert_int_equal(base_buffer_printf(&buffer, "new"), BASE_OK);
    assert_string_equal((char *)stolen, "kept");
    assert_string_equal((char *)buffer.data, "new");
    heap.port.release(heap.port.ctx, stolen);
    base_buffer_done(&buffer);
    assert_int_equal(heap.live, 0);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    static const char piece[] = "twenty-four characters: ";
    bool succeeded = false;
    for (size_t allowed = 0; !succeeded; allowed++) {
        assert_true(allowed < 20);
        struct test_alloc heap;
        test_alloc_init(&heap, allowed);
        struct base_buffer buffer;
        base_buffer_init(&buffer, &heap.port, 0);
        succeeded = true;
        for (unsigned i = 0; i < 40; i++) {
            size_t before = buffer.size;
            enum base_status status = i % 2 == 0 ? base_buffer_add(&buffer, piece, sizeof piece - 1)
                                                 : base_buffer_printf(&buffer, "%s%u", piece, i);
            if (status != BASE_OK) {
                assert_int_equal(status, BASE_ERR_NOMEM);
                assert_int_equal(buffer.size, before);
                succeeded = false;
            }
        }
        assert_true(buffer.data == NULL || buffer.data[buffer.size] == 0);
        base_buffer_done(&buffer);
        assert_int_equal(heap.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_is_what_was_added),
        cmocka_unit_test(empty_additions_are_fine),
        cmocka_unit_test(limit_holds_and_failure_changes_nothing),
        cmocka_unit_test(stealing_leaves_an_empty_buffer),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
