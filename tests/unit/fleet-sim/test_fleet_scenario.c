// Scenario files: what a file says is what the command line would have, what the command line gives
// wins, and a wrong line is named with its number.
#include "test_kit.h"

#include "command/fleet_options.h"

#include <unistd.h>

static char path[] = "/tmp/walle-scenario-XXXXXX";
static const char *const always[] = {"walle-fleet-sim",
                                     "run",
                                     "--gateway",
                                     "http://127.0.0.1:1",
                                     "--trust",
                                     "00000000000000000000000000000000"
                                     "00000000000000000000000000000000",
                                     "--scenario",
                                     path};

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

// Parses with these words behind the usual ones.
static enum base_status parse(const char *const *more, struct sim_options *out,
                              struct base_error *error)
{
    static char copies[20][200];
    char *argv[20];
    int count = 0;
    for (size_t i = 0; i < TEST_COUNT(always); i++, count++) {
        (void)snprintf(copies[count], sizeof(copies[0]), "%s", always[i]);
        argv[count] = copies[count];
    }
    for (; *more != NULL; more++, count++) {
        (void)snprintf(copies[count], sizeof(copies[0]), "%s", *more);
        argv[count] = copies[count];
    }
    return sim_options_parse(count, argv, out, error);
}

static void options_come_from_the_file(void **state)
{
    (void)state;
    static struct sim_options options;
    struct base_error error = {.text = ""};
    write_file(
        "# words\n\ndevices = 2200 # scaled\n  seed=7\narrivals = points:420=7,1140=22\n"
        "bad = os == \"ios\" => crash @ 10%\nbad-version = 1.0.0\nthreshold = runs>0\n"
        "threshold = failed_share<=1%\nhints = yes\nno-live = no\nwhere = os != \"harmony\"");
    if (parse((const char *const[]){NULL}, &options, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(options.devices, 2200);
    assert_int_equal(options.seed, 7);
    assert_non_null(options.arrivals);
    assert_int_equal(options.bad.rule_count, 1);
    assert_int_equal(options.threshold_count, 2);
    assert_true(options.hints);
    assert_true(options.live);
    assert_true(options.where.cond_count > 0);
    sim_options_done(&options);
}

static void the_command_line_wins(void **state)
{
    (void)state;
    static struct sim_options options;
    struct base_error error = {.text = ""};
    write_file("devices = 10\nthreshold = runs>0\nthreshold = failed_share<=1%\n"
               "arrivals = steady:5\nhints = yes\n");
    const char *const more[] = {"-n",   "30", "--threshold=runs>5", "--arrival-rate", "77.5",
                                "--hi", NULL};
    if (parse(more, &options, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(options.devices, 30);
    assert_int_equal(options.threshold_count, 1);
    assert_null(options.arrivals);
    assert_true(options.arrival_rate > 77 && options.arrival_rate < 78);
    assert_true(options.hints);
    sim_options_done(&options);
}

static void wrong_lines_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *said;
    } table[] = {
        {"# words\n\ndevises = 3\n", ":3: a line is `name = value`"},
        {"devices = 3\nseed 4\n", ":2: a line is `name = value`"},
        {"scenario = other\n", ":1: a line is"},
        {"\ndevices = many\n", ":2: --devices many: a number from 1 to"},
        {"hints = maybe\n", ":1: yes or no is expected"},
        {"max-failure = 1%\n", ":1: --max-failure is for simulate"},
        {"arrivals = ramp:1\n", "--arrivals: ramp:A:B:S is expected"},
        {"where = os ==\n", ":1: --where, column"},
        {"links = near\n", ":1: --links near: constant or network is expected"},
        {"links = network\n", "--links network is for virtual time"},
        {"devices =\n", ":1: --devices : a number"},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        static struct sim_options options;
        struct base_error error = {.text = ""};
        write_file(table[i].text);
        enum base_status status = parse((const char *const[]){NULL}, &options, &error);
        if (status != BASE_ERR_INVALID || strstr(error.text, table[i].said) == NULL) {
            fail_msg("case %zu: '%s', not '%s'", i, error.text, table[i].said);
        }
        sim_options_done(&options);
    }
}

static void a_file_that_is_not_there(void **state)
{
    (void)state;
    static struct sim_options options;
    struct base_error error = {.text = ""};
    assert_int_equal(unlink(path), 0);
    assert_int_equal(parse((const char *const[]){NULL}, &options, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "--scenario /tmp/walle-scenario-"));
    assert_non_null(strstr(error.text, "No such file"));
    sim_options_done(&options);
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_come_from_the_file),
        cmocka_unit_test(the_command_line_wins),
        cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test(a_file_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
