// What a swarm keeps of its seeds, read back where it goes on: all of it, of the same swarm alone.
#include "test_kit.h"

#include "swarm/swarm_kept.h"

#include <unistd.h>

#define SEEDS 4

struct rig {
    struct sim_swarm_options options;
    struct sim_swarm_kept kept;
    bool done[SEEDS];
    struct base_error error;
    char path[SIM_TEXT_MAX + 16];
};

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    rig->options = (struct sim_swarm_options){.devices = 20,
                                              .seeds = SEEDS,
                                              .first_seed = 7,
                                              .duration_s = 1200,
                                              .until_s = 300,
                                              .resume = true,
                                              .rate = "10000",
                                              .out = "swarm_kept_XXXXXX"};
    assert_non_null(mkdtemp(rig->options.out));
    (void)snprintf(rig->path, sizeof(rig->path), "%s/swarm.json", rig->options.out);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    (void)unlink(rig->path);
    assert_int_equal(rmdir(rig->options.out), 0);
    json_decref(rig->kept.runs);
    free(rig);
    return 0;
}

static void begin(struct rig *rig)
{
    json_decref(rig->kept.runs);
    memset(rig->done, 0, sizeof(rig->done));
    rig->kept = (struct sim_swarm_kept){.clean = "00ff", .runs = json_array()};
}

// Seeds 8, which failed, and 10, which tried nothing, ended.
static void write_two(struct rig *rig)
{
    begin(rig);
    rig->kept.ended = 2;
    rig->kept.failed = 1;
    rig->kept.nothing = 1;
    rig->kept.took_s = 2.5;
    rig->kept.compared[SIM_ORACLE_ONCE] = 2;
    rig->kept.compared[SIM_ORACLE_BACK] = 1;
    (void)json_array_append_new(rig->kept.runs, json_pack("{s:i, s:i, s:s, s:n}", "seed", 8, "exit",
                                                          1, "broken", "once", "nothing_because"));
    (void)json_array_append_new(rig->kept.runs,
                                json_pack("{s:i, s:i, s:n, s:s}", "seed", 10, "exit", 9, "broken",
                                          "nothing_because", "nobody came"));
    assert_int_equal(sim_swarm_kept_write(&rig->options, &rig->kept, &rig->error), BASE_OK);
    begin(rig);
}

static enum base_status read_back(struct rig *rig)
{
    return sim_swarm_kept_read(&rig->options, &rig->kept, rig->done, &rig->error);
}

static void what_was_written_is_read(void **state)
{
    struct rig *rig = *state;
    write_two(rig);
    assert_int_equal(read_back(rig), BASE_OK);
    assert_int_equal(rig->kept.ended, 2);
    assert_int_equal(rig->kept.failed, 1);
    assert_int_equal(rig->kept.nothing, 1);
    assert_int_equal(rig->kept.nothing_exit, 9);
    assert_true(rig->kept.took_s == 2.5);
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        uint32_t expected = i == SIM_ORACLE_ONCE ? 2 : i == SIM_ORACLE_BACK;
        assert_int_equal(rig->kept.compared[i], expected);
    }
    assert_int_equal(json_array_size(rig->kept.runs), 2);
    static const bool done[SEEDS] = {false, true, false, true};
    assert_memory_equal(rig->done, done, sizeof(done));
}

static void nothing_there_is_none(void **state)
{
    struct rig *rig = *state;
    begin(rig);
    assert_int_equal(read_back(rig), BASE_OK);
    assert_int_equal(rig->kept.ended, 0);
}

static void another_swarm_is_refused(void **state)
{
    struct rig *rig = *state;
    static const struct {
        const char *said;
        size_t offset; // of a number of the options
    } others[] = {
        {"--devices: 20", offsetof(struct sim_swarm_options, devices)},
        {"--first-seed: 7", offsetof(struct sim_swarm_options, first_seed)},
        {"--faults-until: 300", offsetof(struct sim_swarm_options, until_s)},
        {"--duration: 1200", offsetof(struct sim_swarm_options, duration_s)},
    };
    write_two(rig);
    for (size_t i = 0; i < TEST_COUNT(others); i++) {
        uint32_t *number = (uint32_t *)(void *)((char *)&rig->options + others[i].offset);
        *number += 1;
        assert_int_equal(read_back(rig), BASE_ERR_EXISTS);
        assert_non_null(strstr(rig->error.text, others[i].said));
        *number -= 1;
    }
    (void)snprintf(rig->options.version, sizeof(rig->options.version), "1.0.0");
    assert_int_equal(read_back(rig), BASE_ERR_EXISTS);
    assert_non_null(strstr(rig->error.text, "--bad-version: \"\""));
    rig->options.version[0] = '\0';
    (void)snprintf(rig->options.rate, sizeof(rig->options.rate), "5");
    assert_int_equal(read_back(rig), BASE_ERR_EXISTS);
    assert_non_null(strstr(rig->error.text, "--arrival-rate: \"10000\""));
    (void)snprintf(rig->options.rate, sizeof(rig->options.rate), "10000");
    (void)snprintf(rig->kept.clean, sizeof(rig->kept.clean), "00fe");
    assert_int_equal(read_back(rig), BASE_ERR_EXISTS);
    assert_non_null(strstr(rig->error.text, "of another folder, root or program"));
    begin(rig);
    rig->options.seeds = 3; // without seed 10
    assert_int_equal(read_back(rig), BASE_ERR_EXISTS);
    assert_non_null(strstr(rig->error.text, "has seed 10"));
}

static void what_no_swarm_writes_is_refused(void **state)
{
    struct rig *rig = *state;
    static const char of[] = "\"of\": {\"devices\": 20, \"first-seed\": 7, \"faults-until\": 300, "
                             "\"duration\": 1200, \"arrival-rate\": \"10000\", "
                             "\"bad-version\": \"\", \"clean\": \"00ff\"}";
    static const struct {
        const char *runs;
        const char *rest;
        enum base_status status;
    } cases[] = {
        {"[{\"seed\": 8, \"exit\": 0}]", "\"compared\": {\"once\": 1}}", BASE_OK},
        {"[{\"seed\": 8, \"exit\": 0}]", "\"compared\": {\"once\": 2}}", BASE_ERR_CORRUPT},
        {"[{\"seed\": 8, \"exit\": 0}]", "\"compared\": {\"once\": -1}}", BASE_ERR_CORRUPT},
        {"[{\"seed\": 8, \"exit\": 0}]", "", BASE_ERR_CORRUPT}, // cut
        {"[{\"seed\": \"8\"}]", "\"compared\": {}}", BASE_ERR_CORRUPT},
        {"[8]", "\"compared\": {}}", BASE_ERR_CORRUPT},
        {"[{\"seed\": 8}, {\"seed\": 8}]", "\"compared\": {}}", BASE_ERR_EXISTS},
        {"[{\"seed\": 6}]", "\"compared\": {}}", BASE_ERR_EXISTS},
        {"[{\"seed\": 11}]", "\"compared\": {}}", BASE_ERR_EXISTS},
        {"[{\"seed\": -9223372036854775808}]", "\"compared\": {}}", BASE_ERR_EXISTS},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        FILE *file = fopen(rig->path, "we");
        assert_non_null(file);
        (void)fprintf(file, "{%s, \"runs\": %s, %s", of, cases[i].runs, cases[i].rest);
        assert_int_equal(fclose(file), 0);
        begin(rig);
        enum base_status status = read_back(rig);
        if (status != cases[i].status) {
            fail_msg("%s %s: %s", cases[i].runs, cases[i].rest, base_status_name(status));
        }
    }
}

static void pace_is_told_where_it_takes_long(void **state)
{
    (void)state;
    static const struct {
        uint32_t ended;
        uint32_t left;
        double took_s;
        const char *said;
    } cases[] = {
        {0, 1000, 100, ""},
        {1, 10, 5.9, ""},
        {1, 10, 6, "; 10.0 a minute, about 1 minutes more"},
        {100, 900, 400, "; 15.0 a minute, about 60 minutes more"},
        {100, 900, 2000, "; 3.0 a minute, about 5.0 hours more"},
        {1000, 0, 4000, ""},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char text[SIM_SWARM_PACE_MAX];
        sim_swarm_pace(cases[i].ended, cases[i].left, cases[i].took_s, text);
        assert_string_equal(text, cases[i].said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_there_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(another_swarm_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(what_no_swarm_writes_is_refused, setup, teardown),
        cmocka_unit_test(pace_is_told_where_it_takes_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
