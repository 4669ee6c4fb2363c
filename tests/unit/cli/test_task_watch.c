// A watched folder: what counts as a save and what does not, and that a wait ends when the folder
// is the same for two looks. Time is the test's: nanosleep is a step of a script here.
#include "folder_kit.h"

#include "cli/task/task_watch.h"

#include <fcntl.h>
#include <time.h>

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);

static void (*const *script)(void); // what happens in each pause; NULL: nothing more
static uint32_t pauses;

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
    (void)left;
    assert_int_equal(pause->tv_nsec, TASK_WATCH_MS * 1000000L);
    pauses++;
    assert_true(pauses < 100); // else it waits for ever
    if (script != NULL && *script != NULL) {
        (*script++)();
    }
    return 0;
}

static uint64_t stamp(void)
{
    return task_watch_stamp(folder_kit);
}

static void at_time(const char *name, long nanoseconds)
{
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000, .tv_nsec = nanoseconds}};
    assert_int_equal(utimensat(AT_FDCWD, folder_path(name), times, AT_SYMLINK_NOFOLLOW), 0);
}

static void a_folder(void)
{
    folder_text("task.json", "{}");
    folder_make("lib");
    folder_text("lib/tools.py", "x = 1\n");
    at_time("task.json", 0);
    at_time("lib/tools.py", 0);
}

static void test_what_is_a_save(void **state)
{
    (void)state;
    a_folder();
    uint64_t before = stamp();
    assert_int_not_equal(before, 0);
    assert_int_equal(stamp(), before); // looking changes nothing

    at_time("lib/tools.py", 1); // a nanosecond later, of the same size
    uint64_t touched = stamp();
    assert_int_not_equal(touched, before);
    at_time("lib/tools.py", 0);
    assert_int_equal(stamp(), before);

    folder_text("lib/tools.py", "x = 10\n"); // another size at the same time
    at_time("lib/tools.py", 0);
    assert_int_not_equal(stamp(), before);
    folder_text("lib/tools.py", "x = 1\n");
    at_time("lib/tools.py", 0);
    assert_int_equal(stamp(), before);

    folder_text("lib/more.py", "");
    assert_int_not_equal(stamp(), before);
    assert_int_equal(unlink(folder_path("lib/more.py")), 0);
    assert_int_equal(stamp(), before);

    assert_int_equal(rename(folder_path("lib/tools.py"), folder_path("lib/tool.py")), 0);
    assert_int_not_equal(stamp(), before);
}

// Editors and version control keep theirs beside: names that begin with a dot, whole folders too.
// A link is not followed, and a pipe not opened.
static void test_what_is_none(void **state)
{
    (void)state;
    a_folder();
    uint64_t before = stamp();
    folder_text(".task.json.swp", "half");
    folder_make(".git");
    folder_text(".git/index", "1");
    assert_int_equal(symlink("task.json", folder_path("link")), 0);
    assert_int_equal(mkfifo(folder_path("pipe"), 0600), 0);
    assert_int_equal(stamp(), before);
}

static void test_folders_that_cannot_be_read(void **state)
{
    (void)state;
    char longer[5000];
    assert_int_equal(task_watch_stamp(folder_path("none")), 0);
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(task_watch_stamp(longer), 0);
}

static void nothing(void)
{
}

static void save_one(void)
{
    folder_text("task.json", "{ }");
}

static void save_two(void)
{
    folder_text("task.json", "{  }");
}

static void undo(void)
{
    folder_text("task.json", "{}");
    at_time("task.json", 0);
}

// Looks behind the pauses see: the same; the first save; the second; the second again.
static void test_a_wait_ends_when_all_is_saved(void **state)
{
    (void)state;
    static void (*const steps[])(void) = {nothing, save_one, save_two, NULL};
    a_folder();
    uint64_t before = stamp();
    script = steps;
    pauses = 0;
    uint64_t now = task_watch_wait(folder_kit, before);
    assert_int_equal(pauses, 4);
    assert_int_not_equal(now, before);
    assert_int_equal(now, stamp());
}

// What is as it was again is no save, and the wait goes on.
static void test_what_was_undone_is_no_save(void **state)
{
    (void)state;
    static void (*const steps[])(void) = {save_one, undo, nothing, nothing, save_two, NULL};
    a_folder();
    uint64_t before = stamp();
    script = steps;
    pauses = 0;
    assert_int_not_equal(task_watch_wait(folder_kit, before), before);
    assert_int_equal(pauses, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_a_save, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_none, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_folders_that_cannot_be_read, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_a_wait_ends_when_all_is_saved, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_what_was_undone_is_no_save, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
