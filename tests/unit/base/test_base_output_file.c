// Files that an operator names: whole or not at all, over nothing that is no file, into streams.
#include "base/os/output_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/walle-output-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/walle-output-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int take_down(void **state)
{
    (void)state;
    DIR *dir = opendir(folder);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
        (void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
    }
    (void)closedir(dir);
    return rmdir(folder);
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect(const char *name, const char *text)
{
    char got[64] = "";
    FILE *file = fopen(path_of(name), "r");
    assert_non_null(file);
    got[fread(got, 1, sizeof(got) - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(got, text);
}

static unsigned entries(void)
{
    unsigned count = 0;
    DIR *dir = opendir(folder);
    while (readdir(dir) != NULL) {
        count++;
    }
    (void)closedir(dir);
    return count - 2;
}

static enum base_status write_to(const char *path, const char *text, struct base_error *error)
{
    *error = (struct base_error){0};
    return base_output_write(path, text, strlen(text), error);
}

static void test_a_file_is_replaced(void **state)
{
    (void)state;
    struct base_error error;
    struct base_output_file out;
    assert_int_equal(write_to(path_of("new"), "one", &error), BASE_OK);
    expect("new", "one");
    assert_int_equal(write_to(path_of("new"), "", &error), BASE_OK);
    expect("new", "");
    put("old", "before");
    // Who has it open reads on what was there.
    int fd = open(path_of("old"), O_RDONLY);
    char text[16] = "";
    assert_int_equal(write_to(path_of("old"), "after", &error), BASE_OK);
    expect("old", "after");
    assert_int_equal(read(fd, text, sizeof(text)), 6);
    close(fd);
    // What the caller could not make leaves what was there.
    assert_int_equal(base_output_open(&out, path_of("old"), &error), BASE_OK);
    assert_true(fputs("half", out.file) >= 0);
    assert_int_equal(base_output_close(&out, BASE_ERR_CORRUPT, &error), BASE_ERR_CORRUPT);
    expect("old", "after");
    assert_int_equal(entries(), 2);
}

static void test_what_is_no_file_is_refused(void **state)
{
    (void)state;
    struct base_error error;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    put("elsewhere", "kept");
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    assert_int_equal(symlink("elsewhere", path_of("link")), 0);
    assert_int_equal(symlink("/dev/null", path_of("null")), 0);
    assert_int_equal(symlink("nowhere", path_of("dangling")), 0);
    static const struct {
        const char *name;
        const char *says;
    } rows[] = {{"folder", "a folder, not a regular file"},
                {"socket", "a socket, not a regular file"},
                {"link", "a symbolic link, not a regular file"},
                {"null", "a symbolic link, not a regular file"},
                {"dangling", "a symbolic link, not a regular file"},
                {"pipe", "a named pipe that nobody reads"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(write_to(path_of(rows[i].name), "x", &error), BASE_ERR_INVALID);
        assert_non_null(strstr(error.text, rows[i].says));
        assert_non_null(strstr(error.text, path_of(rows[i].name)));
    }
    expect("elsewhere", "kept");
    assert_int_equal(entries(), 7);
    assert_int_equal(write_to(path_of("none/x"), "x", &error), BASE_ERR_NOT_FOUND);
    assert_int_equal(write_to(path_of("elsewhere/x"), "x", &error), BASE_ERR_IO);
    close(fd);
}

static void test_streams_are_written_to(void **state)
{
    (void)state;
    struct base_error error;
    char text[16] = "";
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    int fd = open(path_of("pipe"), O_RDONLY | O_NONBLOCK);
    assert_int_equal(write_to(path_of("pipe"), "through", &error), BASE_OK);
    assert_int_equal(read(fd, text, sizeof(text)), 7);
    assert_string_equal(text, "through");
    close(fd);
    struct stat about;
    assert_int_equal(lstat(path_of("pipe"), &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    assert_int_equal(write_to("/dev/null", "away", &error), BASE_OK);
    assert_int_equal(write_to("/dev/full", "no room", &error), BASE_ERR_FULL);
    assert_non_null(strstr(error.text, "/dev/full: "));
    // What the system's names lead to: a pipe, and a file that was opened before.
    int ends[2];
    char name[32];
    assert_int_equal(pipe(ends), 0);
    (void)snprintf(name, sizeof(name), "/dev/fd/%d", ends[1]);
    assert_int_equal(write_to(name, "twice", &error), BASE_OK);
    assert_int_equal(read(ends[0], text, sizeof(text)), 5);
    close(ends[0]);
    close(ends[1]);
    fd = open(path_of("opened"), O_WRONLY | O_CREAT, 0600);
    (void)snprintf(name, sizeof(name), "/dev/fd/%d", fd);
    assert_int_equal(write_to(name, "thrice", &error), BASE_OK);
    close(fd);
    expect("opened", "thrice");
    assert_int_equal(entries(), 2);
}

static void test_a_path_that_is_too_long(void **state)
{
    (void)state;
    struct base_error error;
    char *path = malloc(BASE_OUTPUT_PATH_MAX + 1);
    assert_non_null(path);
    memset(path, '/', BASE_OUTPUT_PATH_MAX);
    (void)memcpy(path, folder, strlen(folder));
    memcpy(path + BASE_OUTPUT_PATH_MAX - 1, "x", 2);
    enum base_status status = write_to(path, "x", &error);
    assert_true(status == BASE_ERR_TOO_LARGE || status == BASE_ERR_IO);
    assert_int_equal(entries(), 0);
    free(path);
}

// What killed writers left goes, and nothing else that is called nearly so.
static void test_what_killed_writers_left(void **state)
{
    (void)state;
    const char *left[] = {"kept.walle-0123abcd.tmp", "kept.walle-ffffffff.tmp"};
    const char *others[] = {"kept",
                            "kept.walle-0123abcd.tm",
                            "kept.walle-0123abc.tmp",
                            "kept.walle-0123abcg.tmp",
                            "kept.walle-0123ABCD.tmp",
                            "kept.20261130.tmp",
                            "keptwalle-0123abcd.tmp",
                            "other.walle-0123abcd.tmp",
                            "kept.walle-0123abcd.tmp2"};
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        put(left[i], "half");
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        put(others[i], "whole");
    }
    base_output_sweep(path_of("kept"));
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        assert_int_equal(access(path_of(left[i]), F_OK), -1);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        expect(others[i], "whole");
    }
    base_output_sweep(path_of("nowhere/kept")); // no such folder
    put("kept.walle-01234567.tmp", "half");
    assert_int_equal(chdir(folder), 0);
    base_output_sweep("kept");
    assert_int_equal(access("kept.walle-01234567.tmp", F_OK), -1);
    assert_int_equal(chdir("/"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_file_is_replaced, set_up, take_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_file_is_refused, set_up, take_down),
        cmocka_unit_test_setup_teardown(test_streams_are_written_to, set_up, take_down),
        cmocka_unit_test_setup_teardown(test_a_path_that_is_too_long, set_up, take_down),
        cmocka_unit_test_setup_teardown(test_what_killed_writers_left, set_up, take_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
