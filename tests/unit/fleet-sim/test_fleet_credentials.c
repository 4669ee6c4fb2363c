// The file of a fleet's credentials: kept over runs, whatever a kill leaves, one run at a time, and
// nobody's record overwritten. And the options that name it.
#include "test_kit.h"

#include "ports/sim_credentials.h"
#include "command/fleet_options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD(device) (SIM_CREDENTIALS_HEADER_BYTES + (device)*SIM_CREDENTIAL_RECORD_BYTES)

static char folder[] = "/tmp/walle-credentials-XXXXXX";
static char path[sizeof(folder) + 16];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/walle-credentials-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/file", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static struct sim_credentials *open_for(uint32_t devices)
{
    struct base_error error = {.text = ""};
    struct sim_credentials *credentials = NULL;
    if (sim_credentials_open(path, devices, &credentials, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return credentials;
}

static void expect(const struct sim_credentials *credentials, uint32_t device, uint64_t id,
                   const char *wanted)
{
    struct base_str text = sim_credentials_get(credentials, device, id);
    if (!base_str_equal(text, base_str_of(wanted))) {
        fail_msg("device %u: '%.*s', not '%s'", device, (int)text.size, text.data, wanted);
    }
}

static void overwrite(size_t at, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, (off_t)at), size);
    close(fd);
}

static void test_kept_over_runs_and_growth(void **state)
{
    (void)state;
    char longest[WIRE_CREDENTIAL_MAX + 1];
    memset(longest, 'L', WIRE_CREDENTIAL_MAX);
    longest[WIRE_CREDENTIAL_MAX] = '\0';
    struct sim_credentials *credentials = open_for(2);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(about.st_size, RECORD(2));
    expect(credentials, 0, 11, "");
    assert_int_equal(sim_credentials_put(credentials, 0, 11, BASE_STR("wdt_one")), BASE_OK);
    assert_int_equal(sim_credentials_put(credentials, 1, 22, base_str_of(longest)), BASE_OK);
    assert_int_equal(sim_credentials_put(credentials, 2, 33, BASE_STR("wdt")), BASE_ERR_INVALID);
    sim_credentials_close(credentials);

    credentials = open_for(5);
    expect(credentials, 0, 11, "wdt_one");
    expect(credentials, 1, 22, longest);
    expect(credentials, 4, 22, "");
    assert_int_equal(sim_credentials_put(credentials, 4, 55, BASE_STR("five")), BASE_OK);
    assert_int_equal(sim_credentials_put(credentials, 0, 11, BASE_STR("again")), BASE_OK);
    sim_credentials_close(credentials);

    credentials = open_for(1); // a smaller fleet loses nothing of the larger one
    expect(credentials, 0, 11, "again");
    expect(credentials, 1, 22, "");
    assert_int_equal(sim_credentials_owner(credentials, 1), 0);
    sim_credentials_close(credentials);
    credentials = open_for(5);
    expect(credentials, 4, 55, "five");
    sim_credentials_close(credentials);
    sim_credentials_close(NULL);
}

// A fleet that no other program meets: the same seed enrols with the same keys, and no file is
// made.
static void test_in_memory(void **state)
{
    (void)state;
    struct base_error error = {.text = ""};
    struct sim_credentials *fleets[3] = {0};
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(sim_credentials_in_memory(3, 7 + i / 2, &fleets[i], &error), BASE_OK);
    }
    const uint8_t *secret = sim_credentials_secret(fleets[0]);
    assert_memory_equal(secret, sim_credentials_secret(fleets[1]), SIM_CREDENTIALS_SECRET_BYTES);
    assert_memory_not_equal(secret, sim_credentials_secret(fleets[2]),
                            SIM_CREDENTIALS_SECRET_BYTES);
    expect(fleets[0], 2, 11, "");
    assert_int_equal(sim_credentials_put(fleets[0], 2, 11, BASE_STR("wdt_one")), BASE_OK);
    assert_int_equal(sim_credentials_put(fleets[0], 3, 12, BASE_STR("wdt_one")), BASE_ERR_INVALID);
    expect(fleets[0], 2, 11, "wdt_one");
    expect(fleets[1], 2, 11, "");
    for (uint64_t i = 0; i < 3; i++) {
        sim_credentials_close(fleets[i]);
    }
    assert_int_equal(access(path, F_OK), -1);
}

// Keys of enrolments are made of a file's secret: its own, and the same in every run.
static void test_a_file_has_a_secret(void **state)
{
    (void)state;
    uint8_t first[SIM_CREDENTIALS_SECRET_BYTES];
    for (int run = 0; run < 2; run++) {
        struct sim_credentials *credentials = open_for(1);
        assert_non_null(sim_credentials_secret(credentials));
        if (run == 0) {
            memcpy(first, sim_credentials_secret(credentials), sizeof(first));
        }
        assert_memory_equal(sim_credentials_secret(credentials), first, sizeof(first));
        sim_credentials_close(credentials);
    }
    assert_int_equal(unlink(path), 0);
    struct sim_credentials *other = open_for(1);
    assert_memory_not_equal(sim_credentials_secret(other), first, sizeof(first));
    sim_credentials_close(other);
}

// A file of version 1 keeps what it holds, and has none.
static void test_a_file_of_before(void **state)
{
    (void)state;
    uint8_t record[SIM_CREDENTIAL_RECORD_BYTES] = "wdt_before";
    record[WIRE_CREDENTIAL_MAX] = 7;
    overwrite(0, "WSIMCRED\1\0\0\0\0\0\0\0", 16);
    overwrite(16, record, sizeof(record));
    for (int run = 0; run < 2; run++) {
        struct sim_credentials *credentials = open_for(2);
        assert_null(sim_credentials_secret(credentials));
        expect(credentials, 0, 7, "wdt_before");
        expect(credentials, 1, 8, run == 0 ? "" : "wdt_since");
        assert_int_equal(sim_credentials_put(credentials, 1, 8, BASE_STR("wdt_since")), BASE_OK);
        sim_credentials_close(credentials);
    }
}

static void test_nobodys_record_is_overwritten(void **state)
{
    (void)state;
    struct sim_credentials *credentials = open_for(1);
    assert_int_equal(sim_credentials_put(credentials, 0, 0, BASE_STR("x")), BASE_ERR_INVALID);
    assert_int_equal(sim_credentials_put(credentials, 0, 1, BASE_STR("")), BASE_ERR_INVALID);
    assert_int_equal(sim_credentials_put(credentials, 0, 1, BASE_STR("a b")), BASE_ERR_INVALID);
    assert_int_equal(sim_credentials_put(credentials, 0, 1, BASE_STR("mine")), BASE_OK);
    assert_int_equal(sim_credentials_put(credentials, 0, 2, BASE_STR("his")), BASE_ERR_CONFLICT);
    expect(credentials, 0, 1, "mine");
    expect(credentials, 0, 2, "");
    assert_int_equal(sim_credentials_owner(credentials, 0), 1);
    sim_credentials_close(credentials);
}

// What a kill in the middle of a put leaves is a record of nobody; damage is no credential.
static void test_torn_and_damaged_records(void **state)
{
    (void)state;
    struct sim_credentials *credentials = open_for(3);
    assert_int_equal(sim_credentials_put(credentials, 1, 5, BASE_STR("wdt_five")), BASE_OK);
    sim_credentials_close(credentials);
    overwrite(RECORD(0), "wdt_torn", 8);
    overwrite(RECORD(1) + 20, "x", 1);
    overwrite(RECORD(2), "a b", 3);
    overwrite(RECORD(2) + WIRE_CREDENTIAL_MAX, "\7", 1);
    credentials = open_for(3);
    assert_int_equal(sim_credentials_owner(credentials, 0), 0);
    expect(credentials, 0, 0, "");
    assert_int_equal(sim_credentials_owner(credentials, 1), 5);
    expect(credentials, 1, 5, "");
    expect(credentials, 2, 7, "");
    assert_int_equal(sim_credentials_put(credentials, 0, 4, BASE_STR("w")), BASE_OK);
    assert_int_equal(sim_credentials_put(credentials, 1, 5, BASE_STR("wdt")), BASE_OK);
    expect(credentials, 0, 4, "w");
    expect(credentials, 1, 5, "wdt");
    sim_credentials_close(credentials);
}

static void test_one_run_at_a_time(void **state)
{
    (void)state;
    struct base_error error = {.text = ""};
    struct sim_credentials *other = NULL;
    struct sim_credentials *credentials = open_for(1);
    assert_int_equal(sim_credentials_open(path, 1, &other, &error), BASE_ERR_BUSY);
    assert_non_null(strstr(error.text, "another run has it"));
    sim_credentials_close(credentials);
    sim_credentials_close(open_for(1));
}

static void test_what_is_no_such_file(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } bad[] = {
        {"W", 1},
        {"WSIMCRED\1\0\0\0\0\0\0", 15},
        {"WSIMCRED\2\0\0\0\0\0\0\0", 16},
        {"WSIMCRED\3\0\0\0\0\0\0\0", 16},
        {"WSIMCRED\1\0\0\0\0\0\0\1", 16},
        {"wsimcred\1\0\0\0\0\0\0\0", 16},
        {"WSIMCRED\1\0\0\0\0\0\0\0x", 17},
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        struct base_error error = {.text = ""};
        struct sim_credentials *credentials = NULL;
        struct stat about;
        overwrite(0, bad[i].bytes, bad[i].size);
        enum base_status status = sim_credentials_open(path, 4, &credentials, &error);
        if (status != BASE_ERR_CORRUPT || strstr(error.text, "not credentials") == NULL) {
            fail_msg("case %zu: %d %s", i, (int)status, error.text);
        }
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_size, bad[i].size); // it was not touched
        assert_int_equal(unlink(path), 0);
    }
    struct base_error error = {.text = ""};
    struct sim_credentials *credentials = NULL;
    assert_int_equal(sim_credentials_open("/nowhere/at/all", 4, &credentials, &error),
                     BASE_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "/nowhere/at/all: No such file"));
}

static void parse(const char *const *words, int count, struct sim_options *out, const char *said)
{
    static char copies[12][200];
    char *argv[12];
    struct base_error error = {.text = ""};
    for (int i = 0; i < count; i++) {
        (void)snprintf(copies[i], sizeof(copies[i]), "%s", words[i]);
        argv[i] = copies[i];
    }
    enum base_status status = sim_options_parse(count, argv, out, &error);
    if ((status == BASE_OK) != (said[0] == '\0') || strstr(error.text, said) == NULL) {
        fail_msg("%s %s: '%s', not '%s'", words[1], words[2], error.text, said);
    }
}

static void test_options(void **state)
{
    (void)state;
    static struct sim_options options;
    static const char key[] = "0000000000000000000000000000000000000000000000000000000000000000";
    const char *run[] = {"walle-fleet-sim", "run", "--gateway",      "http://127.0.0.1:1",
                         "--trust",         key,   "--enroll-token", path,
                         "--out",           "o"};
    overwrite(0, " \n", 2);
    parse(run, 10, &options, "no token in ");
    overwrite(0, "wet_abc\nmore", 12);
    parse(run, 10, &options, "");
    assert_string_equal(options.enrol_token, "wet_abc");
    assert_string_equal(options.credentials, "o/credentials");
    run[8] = "--credentials";
    parse(run, 10, &options, "");
    assert_string_equal(options.credentials, "o");
    run[7] = "/nowhere";
    parse(run, 10, &options, "--enroll-token: /nowhere: No such file");
    const char *simulate[] = {"walle-fleet-sim", "simulate", "--task", "t", "--credentials", "c"};
    parse(simulate, 6, &options, "--credentials is for run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept_over_runs_and_growth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_file_has_a_secret, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_file_of_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobodys_record_is_overwritten, setup, teardown),
        cmocka_unit_test_setup_teardown(test_torn_and_damaged_records, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_run_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_such_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
