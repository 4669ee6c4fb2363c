// A build beside what its folder holds: until it is put the earlier one is as it was, whatever
// happens; what is no plain file is not replaced, and links lead nowhere.
#include "folder_kit.h"

#include "cli/dry/build_stage.h"

#include <dirent.h>

static char build[96];

static void write_to(const char *folder, const char *name, const char *text)
{
    char path[1200];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void holds(const char *name, const char *text)
{
    char read[64] = "";
    char path[1200];
    (void)snprintf(path, sizeof(path), "%s/%s", build, name);
    FILE *file = fopen(path, "r");
    if (text == NULL) {
        assert_null(file);
        return;
    }
    assert_non_null(file);
    (void)fread(read, 1, sizeof(read) - 1, file);
    (void)fclose(file);
    assert_string_equal(read, text);
}

static uint32_t entries(const char *folder)
{
    uint32_t count = 0;
    DIR *look = opendir(folder);
    assert_non_null(look);
    for (const struct dirent *entry; (entry = readdir(look)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 ? 1 : 0;
    }
    (void)closedir(look);
    return count;
}

static void below(const char *folder, const char *name)
{
    char path[1200];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

// What a build writes, each file with `text`.
static void fill(const char *folder, const char *text)
{
    below(folder, "blobs");
    below(folder, "sources");
    below(folder, "sources/lib");
    write_to(folder, "blobs/one", text);
    write_to(folder, "sources/lib/tools.py", text);
    write_to(folder, "build.json", text);
    write_to(folder, "manifest", text);
}

static int setup(void **state)
{
    int status = folder_setup(state);
    (void)snprintf(build, sizeof(build), "%s", folder_path("build"));
    return status;
}

static struct build_stage opened(void)
{
    struct build_stage stage = {0};
    struct base_error error = {.status = BASE_OK};
    if (build_stage_open(&stage, build, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return stage;
}

static void put(const char *text)
{
    struct base_error error = {.status = BASE_OK};
    struct build_stage stage = opened();
    fill(stage.made, text);
    if (build_stage_put(&stage, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    build_stage_done(&stage);
}

static void test_it_takes_the_place_of_the_earlier_one(void **state)
{
    (void)state;
    put("first");
    assert_int_equal(entries(build), 4);
    holds("manifest", "first");
    write_to(build, "blobs/two", "of another version");
    put("second");
    assert_int_equal(entries(build), 4); // and nothing else
    holds("manifest", "second");
    holds("build.json", "second");
    holds("blobs/one", "second");
    holds("sources/lib/tools.py", "second");
    holds("blobs/two", "of another version");
}

static void test_what_is_not_put_is_gone(void **state)
{
    (void)state;
    struct build_stage stage = opened();
    fill(stage.made, "never");
    build_stage_done(&stage);
    assert_int_not_equal(access(build, F_OK), 0); // it was made for this
    put("first");
    stage = opened();
    fill(stage.made, "never");
    holds("manifest", "first");
    build_stage_done(&stage);
    build_stage_done(&stage); // twice is as once
    assert_int_equal(entries(build), 4);
    holds("manifest", "first");
    holds("sources/lib/tools.py", "first");
}

static void test_a_folder_of_somebody_stays(void **state)
{
    (void)state;
    assert_int_equal(mkdir(build, 0700), 0);
    struct build_stage stage = opened();
    build_stage_done(&stage);
    assert_int_equal(entries(build), 0);
    assert_int_equal(access(build, F_OK), 0);
}

// A put that fails anywhere leaves the manifest, which is moved last.
static void refused(const char *words)
{
    struct base_error error = {.status = BASE_OK};
    struct build_stage stage = opened();
    fill(stage.made, "second");
    assert_int_equal(build_stage_put(&stage, &error), BASE_ERR_INVALID);
    if (strstr(error.text, words) == NULL) {
        fail_msg("'%s' is not in: %s", words, error.text);
    }
    build_stage_done(&stage);
}

static void test_what_is_no_plain_file(void **state)
{
    (void)state;
    char path[128];
    put("first");
    (void)snprintf(path, sizeof(path), "%s/build.json", build);
    assert_int_equal(unlink(path), 0);
    folder_text("victim", "mine");
    assert_int_equal(symlink(folder_path("victim"), path), 0);
    refused("build.json: a symbolic link, not a regular file");
    holds("manifest", "first");
    holds("../victim", "mine");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    refused("build.json: a folder, not a regular file");
    holds("manifest", "first");
    assert_int_equal(rmdir(path), 0);
    put("second");
    holds("manifest", "second");
}

static void test_a_link_is_no_folder(void **state)
{
    (void)state;
    char path[128];
    assert_int_equal(mkdir(build, 0700), 0);
    assert_int_equal(mkdir(folder_path("victim"), 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/blobs", build);
    assert_int_equal(symlink(folder_path("victim"), path), 0);
    refused("blobs: is a symbolic link or a file");
    assert_int_equal(entries(folder_path("victim")), 0);
    holds("manifest", NULL);
}

static void test_no_folder_can_be_made(void **state)
{
    (void)state;
    struct base_error error = {.status = BASE_OK};
    struct build_stage stage = {0};
    char longer[CLI_PATH_MAX + 8];
    folder_text("build", "a file");
    assert_int_not_equal(build_stage_open(&stage, build, &error), BASE_OK);
    build_stage_done(&stage);
    holds("", NULL);
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(build_stage_open(&stage, longer, &error), BASE_ERR_TOO_LARGE);
    build_stage_done(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_takes_the_place_of_the_earlier_one, setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_put_is_gone, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_a_folder_of_somebody_stays, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_plain_file, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_a_link_is_no_folder, setup, folder_teardown),
        cmocka_unit_test_setup_teardown(test_no_folder_can_be_made, setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
