// Files as bytes for tasks: which texts are options, which files of a folder have a turn, that a
// set is whole or not at all within its limits, and that nothing is kept of what failed.
#include "folder_kit.h"

#include "failing_heap.h"

#include "blobs/blob_files.h"

#define MIB ((size_t)1 << 20)

static struct blob_files files;
static struct base_error error;

static enum base_status add(const char *name, const char *path)
{
    char text[1200];
    (void)snprintf(text, sizeof(text), "%s=%s", name, folder_path(path));
    error = (struct base_error){.status = BASE_OK};
    return blob_files_add(&files, text, &error);
}

static void says(const char *words)
{
    if (strstr(error.text, words) == NULL) {
        fail_msg("no '%s': %s", words, error.text);
    }
}

static int start(void **state)
{
    memset(&files, 0, sizeof(files));
    return folder_setup(state);
}

static int finish(void **state)
{
    blob_files_done(&files);
    return folder_teardown(state);
}

// What the blob `index` of a turn holds.
static void turn_holds(uint64_t turn, uint32_t index, const char *name, const char *text)
{
    struct dev_blob_set *set = NULL;
    assert_int_equal(blob_files_read(&files, turn, &set, &error), BASE_OK);
    assert_int_equal(set->count, files.count);
    const struct dev_blob *blob = &set->blobs[index];
    assert_true(base_str_equal(blob->name, base_str_of(name)));
    assert_int_equal(blob->size, strlen(text));
    assert_memory_equal(blob->bytes, text, strlen(text));
    blob_files_free(set);
}

static void test_what_is_an_option(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",        "camera",   "=file",   "camera=",  "Camera=file",
        "1a=file", "a b=file", "_a=file", "a/b=file", "abcdefghijklmnopqrstuvwxyz0123456=file",
    };
    folder_text("one", "1");
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_int_equal(blob_files_add(&files, bad[i], &error), BASE_ERR_INVALID);
        says("is not NAME=PATH with a name as " BLOB_FILES_FORM);
    }
    char text[BLOB_FILES_PATH_MAX + 8] = "a=/";
    memset(text + 3, 'x', sizeof(text) - 4);
    assert_int_equal(blob_files_add(&files, text, &error), BASE_ERR_INVALID);
    assert_int_equal(files.count, 0);
    assert_int_equal(add("a-b_c.9", "one"), BASE_OK);
    assert_int_equal(add("abcdefghijklmnopqrstuvwxyz012345", "one"), BASE_OK);
    assert_int_equal(add("a-b_c.9", "one"), BASE_ERR_INVALID);
    says("'a-b_c.9' is there twice");
    assert_int_equal(add("a-b_c", "one"), BASE_OK); // a beginning of another one
    assert_int_equal(files.count, 3);
    assert_int_equal(files.turns, 1);
}

static void test_as_many_names_as_there_may_be(void **state)
{
    (void)state;
    char name[8];
    folder_text("one", "1");
    for (unsigned i = 0; i < DEV_BLOBS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i);
        assert_int_equal(add(name, "one"), BASE_OK);
    }
    assert_int_equal(add("more", "one"), BASE_ERR_TOO_LARGE);
    says("more than 16 names");
    turn_holds(0, DEV_BLOBS_MAX - 1, "n15", "1");
}

static void test_what_is_at_the_path(void **state)
{
    (void)state;
    assert_int_equal(add("a", "none"), BASE_ERR_NOT_FOUND);
    says("none");
    assert_int_equal(mkfifo(folder_path("pipe"), 0600), 0);
    assert_int_equal(add("a", "pipe"), BASE_ERR_INVALID);
    says("a named pipe");
    folder_make("empty");
    folder_text("empty/.hidden", "no");
    folder_make("empty/below");
    assert_int_equal(add("a", "empty"), BASE_ERR_INVALID);
    says("no file in it");
    assert_int_equal(files.count, 0);
    folder_text("file", "");
    assert_int_equal(add("a", "file"), BASE_OK);
    turn_holds(0, 0, "a", ""); // of no bytes, and there
    assert_int_equal(unlink(folder_path("file")), 0);
    struct dev_blob_set *set = NULL;
    assert_int_equal(blob_files_read(&files, 0, &set, &error), BASE_ERR_NOT_FOUND);
    assert_null(set);
}

// In the order of their names, whatever the folder's own is, round and round, beside a file that is
// the same in each turn.
static void test_the_turns_of_a_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"c", "a", "b10", "b2"};
    static const char *const order[] = {"a", "b10", "b2", "c"};
    folder_make("frames");
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "frames/%s", names[i]);
        folder_text(path, names[i]);
    }
    folder_text("frames/.DS_Store", "no");
    folder_make("frames/below");
    folder_text("still", "same");
    assert_int_equal(add("still", "still"), BASE_OK);
    assert_int_equal(files.turns, 1);
    assert_int_equal(add("camera", "frames"), BASE_OK);
    assert_int_equal(files.turns, TEST_COUNT(order));
    for (uint64_t turn = 0; turn < 9; turn++) {
        turn_holds(turn, 1, "camera", order[turn % TEST_COUNT(order)]);
        turn_holds(turn, 0, "still", "same");
    }
    turn_holds(UINT64_MAX, 1, "camera", order[UINT64_MAX % TEST_COUNT(order)]);
}

static void test_a_folder_of_too_many(void **state)
{
    (void)state;
    char path[32];
    folder_make("frames");
    for (unsigned i = 0; i < BLOB_FILES_FOLDER_MAX; i++) {
        (void)snprintf(path, sizeof(path), "frames/%04u", i);
        folder_text(path, "");
    }
    assert_int_equal(add("a", "frames"), BASE_OK);
    assert_int_equal(files.turns, BLOB_FILES_FOLDER_MAX);
    folder_text("frames/more", "");
    assert_int_equal(add("b", "frames"), BASE_ERR_TOO_LARGE);
    says("more than 1024 files");
    assert_int_equal(files.count, 1);
}

static void hole(const char *name, size_t size)
{
    folder_text(name, "");
    assert_int_equal(truncate(folder_path(name), (off_t)size), 0);
}

static void test_a_set_has_its_size(void **state)
{
    (void)state;
    struct dev_blob_set *set = NULL;
    hole("half", DEV_BLOBS_BYTES_MAX / 2);
    hole("other", DEV_BLOBS_BYTES_MAX / 2);
    assert_int_equal(add("a", "half"), BASE_OK);
    assert_int_equal(add("b", "other"), BASE_OK);
    assert_int_equal(blob_files_read(&files, 0, &set, &error), BASE_OK);
    assert_int_equal(set->blobs[1].size, DEV_BLOBS_BYTES_MAX / 2);
    blob_files_free(set);
    set = NULL;
    hole("other", DEV_BLOBS_BYTES_MAX / 2 + 1);
    assert_int_equal(blob_files_read(&files, 0, &set, &error), BASE_ERR_TOO_LARGE);
    assert_null(set);
    says("other: with the others more than 64 MiB");
    assert_int_equal(DEV_BLOBS_BYTES_MAX, 64 * MIB);
}

static void test_several_in_a_text(void **state)
{
    (void)state;
    char text[1200];
    folder_text("one", "1");
    folder_text("two", "2");
    (void)snprintf(text, sizeof(text), "a=%s,b=%s", folder_path("one"), folder_path("two"));
    assert_int_equal(blob_files_add_all(&files, text, ',', &error), BASE_OK);
    assert_int_equal(files.count, 2);
    turn_holds(0, 1, "b", "2");
    assert_int_equal(blob_files_add_all(&files, "", ',', &error), BASE_OK);
    (void)snprintf(text, sizeof(text), "c=%s,,d=%s", folder_path("one"), folder_path("two"));
    assert_int_equal(blob_files_add_all(&files, text, ',', &error), BASE_ERR_INVALID);
    assert_int_equal(files.count, 3); // up to the one that is none
    char *longer = malloc(8192);
    assert_non_null(longer);
    memset(longer, 'x', 8191);
    memcpy(longer, "e=/", 3);
    longer[8191] = '\0';
    assert_int_equal(blob_files_add_all(&files, longer, ',', &error), BASE_ERR_INVALID);
    free(longer);
}

static void test_without_memory(void **state)
{
    (void)state;
    folder_make("frames");
    folder_text("frames/a", "first");
    folder_text("frames/b", "second");
    folder_text("one", "1");
    long live = failing_heap_live();
    enum base_status status = BASE_ERR_NOMEM;
    size_t nth = 0;
    for (; status != BASE_OK; nth++) {
        failing_heap_arm(nth, false);
        status = add("camera", "frames");
        (void)failing_heap_disarm();
        assert_true(status == BASE_OK || status == BASE_ERR_NOMEM);
        assert_true(status == BASE_OK || failing_heap_live() == live);
    }
    assert_int_equal(nth, 5); // the source, the list, two names; then it is there
    assert_int_equal(add("one", "one"), BASE_OK);
    live = failing_heap_live();
    status = BASE_ERR_NOMEM;
    for (nth = 0; status != BASE_OK; nth++) {
        struct dev_blob_set *set = NULL;
        failing_heap_arm(nth, false);
        status = blob_files_read(&files, 1, &set, &error);
        (void)failing_heap_disarm();
        assert_true((status == BASE_OK) == (set != NULL));
        assert_true(status == BASE_OK || status == BASE_ERR_NOMEM);
        blob_files_free(set);
        assert_int_equal(failing_heap_live(), live);
    }
    assert_int_equal(nth, 4); // the set, two files
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_an_option, start, finish),
        cmocka_unit_test_setup_teardown(test_as_many_names_as_there_may_be, start, finish),
        cmocka_unit_test_setup_teardown(test_what_is_at_the_path, start, finish),
        cmocka_unit_test_setup_teardown(test_the_turns_of_a_folder, start, finish),
        cmocka_unit_test_setup_teardown(test_a_folder_of_too_many, start, finish),
        cmocka_unit_test_setup_teardown(test_a_set_has_its_size, start, finish),
        cmocka_unit_test_setup_teardown(test_several_in_a_text, start, finish),
        cmocka_unit_test_setup_teardown(test_without_memory, start, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
