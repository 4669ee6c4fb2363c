// walle.store in a file: from one command to the next, whole or as it was; what is no store is
// refused by name, and a run that keeps nothing writes nothing.
#include "folder_kit.h"

#include "failing_heap.h"

#include "cli/task/task_store_file.h"

static struct task_store_file file; // large
static struct base_error error;

static enum base_status opened(void)
{
    memset(&file, 0, sizeof(file));
    error = (struct base_error){.status = BASE_OK};
    return task_store_file_open(folder_path("store"), &file, &error);
}

// The image of a store with one key.
static size_t image_of(uint8_t *bytes, const char *value)
{
    struct wire_store store;
    wire_store_init(&store, bytes, 0);
    assert_int_equal(wire_store_put(&store, BASE_STR("key"),
                                    (struct base_span){(const uint8_t *)value, strlen(value)},
                                    WIRE_STORE_QUOTA_KIB_MAX * 1024),
                     BASE_OK);
    return store.size;
}

static enum base_status ran_with(const struct dev_vm_effect *effects, uint32_t count)
{
    const struct dev_vm_result result = {.effects = effects, .effect_count = count};
    return task_store_file_ran(&file, &result, &error);
}

static enum base_status kept(const char *value)
{
    static uint8_t bytes[WIRE_STORE_IMAGE_MAX];
    const struct dev_vm_effect effects[] = {
        {.kind = DEV_VM_EFFECT_UPLOAD, .name = BASE_STR("out"), .bytes = bytes, .size = 1},
        {.kind = DEV_VM_EFFECT_SAVE, .bytes = bytes, .size = (uint32_t)image_of(bytes, value)},
    };
    return ran_with(effects, TEST_COUNT(effects));
}

struct row {
    uint32_t rows;
    uint8_t image[WIRE_STORE_IMAGE_MAX];
    size_t size;
};

static bool visit(void *ctx, struct base_str key, uint64_t time_ms, const uint8_t *value,
                  size_t size)
{
    struct row *row = ctx;
    assert_int_equal(key.size, 0);
    assert_int_equal(time_ms, 0);
    assert_true(size <= sizeof(row->image));
    memcpy(row->image, value, size);
    row->size = size;
    row->rows++;
    return true;
}

static enum base_status asked(const char *feature, struct row *out)
{
    const struct dev_vm_data_port port = task_store_file_port(&file);
    const struct dev_vm_query query = {.feature = base_str_of(feature)};
    memset(out, 0, sizeof(*out));
    return port.query(port.ctx, &query, visit, out);
}

// What a script would find under "key"; NULL: nothing.
static void holds(const char *value)
{
    static struct row row;
    struct wire_store store;
    struct base_span found;
    if (value == NULL) {
        assert_int_equal(asked("", &row), BASE_ERR_NOT_FOUND);
        assert_int_equal(row.rows, 0);
        return;
    }
    assert_int_equal(asked("", &row), BASE_OK);
    assert_int_equal(row.rows, 1);
    assert_int_equal(wire_store_parse(row.image, row.size, &store), BASE_OK);
    assert_int_equal(wire_store_find(&store, BASE_STR("key"), &found), BASE_OK);
    assert_int_equal(found.size, strlen(value));
    assert_memory_equal(found.data, value, strlen(value));
}

static void test_from_one_command_to_the_next(void **state)
{
    (void)state;
    static struct row row;
    assert_int_equal(opened(), BASE_OK); // there is none yet
    assert_int_equal(file.size, 0);
    holds(NULL);
    assert_int_not_equal(access(folder_path("store"), F_OK), 0); // and opening makes none
    assert_int_equal(kept("one"), BASE_OK);
    holds("one"); // the next run of this command
    assert_int_equal(opened(), BASE_OK);
    holds("one"); // the next command
    assert_int_equal(kept("two"), BASE_OK);
    assert_int_equal(opened(), BASE_OK);
    holds("two");
    assert_int_equal(asked("feature", &row), BASE_ERR_NOT_FOUND); // no stored features
    assert_int_equal(row.rows, 0);
}

static void test_a_run_that_keeps_nothing(void **state)
{
    (void)state;
    static const uint8_t more[WIRE_STORE_IMAGE_MAX + 1];
    const struct dev_vm_effect others[] = {
        {.kind = DEV_VM_EFFECT_UPLOAD, .name = BASE_STR("out"), .bytes = more, .size = 9},
        {.kind = DEV_VM_EFFECT_SAVE, .bytes = more, .size = sizeof(more)}, // no image is so large
    };
    assert_int_equal(opened(), BASE_OK);
    assert_int_equal(ran_with(NULL, 0), BASE_OK);
    assert_int_not_equal(access(folder_path("store"), F_OK), 0);
    assert_int_equal(kept("one"), BASE_OK);
    assert_int_equal(ran_with(others, TEST_COUNT(others)), BASE_OK);
    assert_int_equal(opened(), BASE_OK);
    holds("one");
}

static void refused(enum base_status wanted, const char *words)
{
    enum base_status status = opened();
    assert_int_equal(status, wanted);
    assert_int_equal(file.size, 0);
    if (strstr(error.text, folder_path("store")) == NULL || strstr(error.text, words) == NULL) {
        fail_msg("no '%s': %s", words, error.text);
    }
}

static void test_what_is_no_store(void **state)
{
    (void)state;
    static uint8_t bytes[WIRE_STORE_IMAGE_MAX + 1];
    folder_text("store", "");
    assert_int_equal(opened(), BASE_OK); // an empty file is a store without keys
    holds(NULL);
    folder_text("store", "something else altogether");
    refused(BASE_ERR_INVALID, "is no store that walle task run --store wrote");
    size_t size = image_of(bytes, "value");
    for (size_t cut = 1; cut < size; cut++) { // behind the head: a store without keys
        folder_write("store", bytes, cut);
        if (cut != WIRE_STORE_HEAD_BYTES) {
            refused(BASE_ERR_INVALID, "is no store");
        }
    }
    folder_write("store", bytes, sizeof(bytes));
    refused(BASE_ERR_TOO_LARGE, "more than");
    assert_int_equal(unlink(folder_path("store")), 0);
    folder_make("store");
    refused(BASE_ERR_INVALID, "a folder");
}

static void test_a_file_that_cannot_be_written(void **state)
{
    (void)state;
    memset(&file, 0, sizeof(file));
    assert_int_equal(task_store_file_open(folder_path("none/store"), &file, &error), BASE_OK);
    assert_int_not_equal(kept("one"), BASE_OK);
    if (strstr(error.text, "none/store") == NULL) {
        fail_msg("the file is not named: %s", error.text);
    }
}

static void test_without_memory(void **state)
{
    (void)state;
    assert_int_equal(opened(), BASE_OK);
    assert_int_equal(kept("one"), BASE_OK);
    long live = failing_heap_live();
    enum base_status status = BASE_ERR_NOMEM;
    size_t nth = 0;
    for (; status != BASE_OK; nth++) {
        failing_heap_arm(nth, false);
        status = opened();
        (void)failing_heap_disarm();
        assert_true(status == BASE_OK || status == BASE_ERR_NOMEM);
        assert_int_equal(failing_heap_live(), live);
    }
    assert_true(nth > 1);
    holds("one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_from_one_command_to_the_next, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_a_run_that_keeps_nothing, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_store, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_a_file_that_cannot_be_written, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
