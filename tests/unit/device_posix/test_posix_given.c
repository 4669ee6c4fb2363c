// What runs were given of their stores is kept until their shadows ran: the last of each task,
// found by the run alone that had it. Whose store a run leaves is said by the agent, whatever the
// task's process wrote in it. And which of the app's blobs is a run's input.
#include "test_kit.h"

#include "posix/run/posix_given.h"
#include "posix/run/posix_run_io.h"

static struct posix_given *given_of(uint8_t byte, size_t size)
{
    struct posix_given *given = posix_given_new();
    assert_non_null(given);
    memset(given->image, byte, size);
    given->size = size;
    return given;
}

static void check_given(const struct posix_given_list *list, uint64_t task_id, uint64_t run_index,
                        uint8_t byte)
{
    const struct posix_given *given = posix_given_find(list, task_id, run_index);
    assert_non_null(given);
    assert_int_equal(given->image[0], byte);
    assert_int_equal(given->image[given->size - 1], byte);
}

static void the_last_run_of_each_task(void **state)
{
    (void)state;
    struct posix_given_list list = {0};
    assert_null(posix_given_find(&list, 1, 0));
    posix_given_put(&list, 1, 0, NULL);
    posix_given_put(&list, 1, 0, given_of(10, WIRE_STORE_IMAGE_MAX));
    posix_given_put(&list, 2, 0, given_of(20, WIRE_STORE_HEAD_BYTES));
    posix_given_put(&list, 3, 5, given_of(30, 100));
    check_given(&list, 1, 0, 10);
    check_given(&list, 2, 0, 20);
    check_given(&list, 3, 5, 30);
    assert_null(posix_given_find(&list, 3, 0));
    posix_given_put(&list, 2, 1, given_of(21, 50));
    assert_null(posix_given_find(&list, 2, 0));
    check_given(&list, 2, 1, 21);
    posix_given_put(&list, 2, 2, NULL); // it did not look, so what is there is what it found
    assert_null(posix_given_find(&list, 2, 1));
    check_given(&list, 1, 0, 10);
    check_given(&list, 3, 5, 30);
    posix_given_done(&list);
    assert_null(posix_given_find(&list, 1, 0));
}

static uint64_t tag_of(uint8_t *bytes, size_t size)
{
    struct wire_store store;
    assert_int_equal(wire_store_parse(bytes, size, &store), BASE_OK);
    return store.tag;
}

static void the_agent_says_whose_it_is(void **state)
{
    (void)state;
    static uint8_t image[WIRE_STORE_IMAGE_MAX];
    uint8_t feature[WIRE_STORE_HEAD_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const uint8_t before[WIRE_STORE_HEAD_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct wire_store store;
    wire_store_init(&store, image, 99); // another version's
    assert_int_equal(wire_store_put(&store, BASE_STR("n"), (struct base_span){before, 3}, 1024),
                     BASE_OK);
    struct dev_effect effects[2] = {
        {.kind = DEV_EFFECT_FEATURE, .bytes = feature, .size = sizeof(feature)},
        {.kind = DEV_EFFECT_SAVE, .bytes = image, .size = store.size},
    };
    const struct posix_run_effects run = {.effects = effects, .count = 2};
    struct dev_task_store_of of = {.task_id = 1, .per_version = true, .version = 7};
    posix_run_effects_tag(&run, &of);
    assert_true(tag_of(image, store.size) == 7);
    of.per_version = false;
    posix_run_effects_tag(&run, &of);
    assert_true(tag_of(image, store.size) == 0);
    assert_memory_equal(feature, before, sizeof(before));
    effects[1] =
        (struct dev_effect){.kind = DEV_EFFECT_SAVE, .bytes = feature, .size = sizeof(feature) - 1};
    posix_run_effects_tag(&run, &of); // no image: it is refused where it would be kept
    assert_memory_equal(feature, before, sizeof(before));
}

static void the_input_is_the_blob_called_so(void **state)
{
    (void)state;
    static const uint8_t bytes[DEV_BLOB_INPUT_MAX + 1] = "1";
    const struct {
        struct base_str name;
        size_t size;
        size_t found;
    } cases[] = {
        {BASE_STR("input"), 1, 1},
        {BASE_STR("input"), DEV_BLOB_INPUT_MAX, DEV_BLOB_INPUT_MAX},
        {BASE_STR("input"), DEV_BLOB_INPUT_MAX + 1, 0},
        {BASE_STR("inputs"), 1, 0},
        {BASE_STR("camera"), 1, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct dev_vm_bytes blobs[] = {
            {.name = BASE_STR("other"), .bytes = bytes, .size = 2},
            {.name = cases[i].name, .bytes = bytes, .size = cases[i].size}};
        assert_int_equal(posix_run_input(blobs, 2).size, cases[i].found);
        assert_int_equal(posix_run_input(blobs, 1).size, 0);
    }
    assert_int_equal(posix_run_input(NULL, 0).size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_run_of_each_task),
        cmocka_unit_test(the_agent_says_whose_it_is),
        cmocka_unit_test(the_input_is_the_blob_called_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
