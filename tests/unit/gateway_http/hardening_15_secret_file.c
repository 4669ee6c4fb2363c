// Files of secrets: what is made replaces nothing, what is written replaces all at once, and what a
// path leads to is not followed.
#include "http/secret/secret_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define OLD "an old secret of somebody\n"
#define NEW "a new secret of the gateway\n"

static char dir[64];
static char path[128];
static char other[128];
static char temporary[160];

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/walle-secret-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        return 1;
    }
    snprintf(path, sizeof(path), "%s/secret", dir);
    snprintf(other, sizeof(other), "%s/other", dir);
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    (void)unlink(other);
    (void)unlink(temporary);
    return rmdir(dir);
}

static void put(const char *where, const char *text)
{
    FILE *file = fopen(where, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect(const char *where, const char *text)
{
    char got[64] = "";
    FILE *file = fopen(where, "r");
    assert_non_null(file);
    assert_non_null(fgets(got, sizeof(got), file));
    assert_int_equal(fclose(file), 0);
    assert_string_equal(got, text);
}

static void test_making_replaces_nothing(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct stat about;
    assert_int_equal(gw_secret_file_make(path, NEW, strlen(NEW), &error), BASE_OK);
    expect(path, NEW);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(about.st_nlink, 1);
    assert_int_equal(access(temporary, F_OK), -1);
    put(path, OLD);
    assert_int_equal(gw_secret_file_make(path, NEW, strlen(NEW), &error), BASE_ERR_IO);
    assert_non_null(strstr(error.text, "File exists"));
    expect(path, OLD);
    assert_int_equal(access(temporary, F_OK), -1);
}

static void test_links_are_not_followed(void **state)
{
    (void)state;
    struct base_error error = {0};
    put(other, OLD);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(symlink(other, temporary), 0);
    assert_int_equal(gw_secret_file_make(path, NEW, strlen(NEW), &error), BASE_ERR_IO);
    expect(other, OLD);
    assert_int_equal(symlink(other, temporary), 0);
    assert_int_equal(gw_secret_file_write(path, NEW, strlen(NEW), &error), BASE_OK);
    expect(other, OLD);
    expect(path, NEW);
    struct stat about;
    assert_int_equal(lstat(path, &about), 0);
    assert_true(S_ISREG(about.st_mode));
    // One that leads nowhere is in the way, too.
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(gw_secret_file_make(path, NEW, strlen(NEW), &error), BASE_ERR_IO);
    assert_int_equal(access(other, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_making_replaces_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
