// What a swarm keeps of its seeds, read back where it goes on: all of it, of the same swarm alone.
#include "test_kit.h"

#include "model/sim_exit.h"
#include "swarm/sim_case.h"
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
    (void)json_array_append_new(rig->kept.runs,
                                json_pack("{s:i, s:i, s:s, s:n, s:[s], s:s}", "seed", 8, "exit", 1,
                                          "broken", "once", "nothing_because", "faults",
                                          "device-kill=0.1", "repeat", "run --seed 8"));
    (void)json_array_append_new(rig->kept.runs,
                                json_pack("{s:i, s:i, s:n, s:s, s:[], s:s}", "seed", 10, "exit", 9,
                                          "broken", "nothing_because", "nobody came", "faults",
                                          "repeat", "run --seed 10"));
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

// `member` of the root, or of the run `at` where there is one, becomes `json`; "": is left out.
static void change(const struct rig *rig, int at, const char *member, const char *json)
{
    json_t *root = json_load_file(rig->path, 0, NULL);
    json_t *value = json[0] != '\0' ? json_loads(json, JSON_DECODE_ANY, NULL) : NULL;
    json_t *in = at < 0 ? root : json_array_get(json_object_get(root, "runs"), (size_t)at);
    assert_non_null(in);
    assert_true(json[0] == '\0' || value != NULL);
    assert_non_null(json_object_get(in, member));
    if (value != NULL) {
        assert_int_equal(json_object_set_new(in, member, value), 0);
    } else {
        assert_int_equal(json_object_del(in, member), 0);
    }
    assert_int_equal(json_dump_file(root, rig->path, 0), 0);
    json_decref(root);
}

// What is written, but for one member. Runs: 0 failed, 1 tried nothing.
static void what_no_swarm_writes_is_refused(void **state)
{
    struct rig *rig = *state;
    static const struct {
        int at;
        const char *member;
        const char *json; // "": without it
        enum base_status status;
    } cases[] = {
        {-1, "took_s", "3", BASE_OK},
        {0, "faults", "[]", BASE_OK},
        {0, "exit", "-1", BASE_OK},
        {-1, "runs", "", BASE_ERR_CORRUPT},
        {-1, "runs", "{}", BASE_ERR_CORRUPT},
        {-1, "runs", "[]", BASE_ERR_CORRUPT},
        {-1, "runs", "[8]", BASE_ERR_CORRUPT},
        {-1, "runs", "[{\"seed\": 7}]", BASE_ERR_CORRUPT},
        {-1, "compared", "", BASE_ERR_CORRUPT},
        {-1, "compared", "{}", BASE_ERR_CORRUPT},
        {-1, "compared", "{\"once\": 2}", BASE_ERR_CORRUPT},
        {-1, "took_s", "", BASE_ERR_CORRUPT},
        {-1, "took_s", "-1", BASE_ERR_CORRUPT},
        {-1, "took_s", "\"2\"", BASE_ERR_CORRUPT},
        {-1, "devices", "", BASE_ERR_CORRUPT},
        {-1, "devices", "21", BASE_ERR_CORRUPT},
        {-1, "seeds", "", BASE_ERR_CORRUPT},
        {-1, "seeds", "3", BASE_ERR_CORRUPT},
        {-1, "wanted", "", BASE_ERR_CORRUPT},
        {-1, "wanted", "1", BASE_ERR_CORRUPT},
        {-1, "failed", "", BASE_ERR_CORRUPT},
        {-1, "failed", "0", BASE_ERR_CORRUPT},
        {-1, "nothing", "", BASE_ERR_CORRUPT},
        {-1, "nothing", "2", BASE_ERR_CORRUPT},
        {-1, "over_before", "", BASE_ERR_CORRUPT},
        {-1, "over_before", "1", BASE_ERR_CORRUPT},
        {-1, "of", "", BASE_ERR_EXISTS},
        {0, "seed", "", BASE_ERR_CORRUPT},
        {0, "seed", "\"8\"", BASE_ERR_CORRUPT},
        {0, "seed", "10", BASE_ERR_EXISTS}, // twice
        {0, "seed", "6", BASE_ERR_EXISTS},
        {0, "seed", "11", BASE_ERR_EXISTS},
        {0, "seed", "-9223372036854775808", BASE_ERR_EXISTS},
        {0, "exit", "", BASE_ERR_CORRUPT},
        {0, "exit", "\"1\"", BASE_ERR_CORRUPT},
        {0, "exit", "256", BASE_ERR_CORRUPT},
        {0, "exit", "-2", BASE_ERR_CORRUPT},
        {0, "broken", "", BASE_ERR_CORRUPT},
        {0, "broken", "5", BASE_ERR_CORRUPT},
        {0, "broken", "\"\"", BASE_ERR_CORRUPT},
        {0, "broken", "null", BASE_ERR_CORRUPT},     // its line is told yet
        {1, "broken", "\"once\"", BASE_ERR_CORRUPT}, // it tried nothing
        {0, "nothing_because", "", BASE_ERR_CORRUPT},
        {1, "nothing_because", "null", BASE_ERR_CORRUPT},
        {1, "nothing_because", "true", BASE_ERR_CORRUPT},
        {0, "faults", "", BASE_ERR_CORRUPT},
        {0, "faults", "{}", BASE_ERR_CORRUPT},
        {0, "faults", "[1]", BASE_ERR_CORRUPT},
        {0, "repeat", "", BASE_ERR_CORRUPT},
        {0, "repeat", "null", BASE_ERR_CORRUPT},
        {0, "repeat", "1", BASE_ERR_CORRUPT},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        write_two(rig);
        change(rig, cases[i].at, cases[i].member, cases[i].json);
        enum base_status status = read_back(rig);
        if (status != cases[i].status) {
            fail_msg("%d %s %s: %s %s", cases[i].at, cases[i].member, cases[i].json,
                     base_status_name(status), rig->error.text);
        }
    }
}

static void counts_of_invariants_are_of_the_seeds(void **state)
{
    struct rig *rig = *state;
    static const int wrong[] = {3, -1};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        write_two(rig);
        json_t *root = json_load_file(rig->path, 0, NULL);
        (void)json_object_set_new(json_object_get(root, "compared"), "once",
                                  json_integer(wrong[i]));
        assert_int_equal(json_dump_file(root, rig->path, 0), 0);
        json_decref(root);
        assert_int_equal(read_back(rig), BASE_ERR_CORRUPT);
    }
}

// Cut off, or something else: no member of it is taken.
static void a_file_that_is_cut_is_refused(void **state)
{
    struct rig *rig = *state;
    static const char *const texts[] = {"", "{", "[]", "7", "{\"runs\": []"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        FILE *file = fopen(rig->path, "we");
        assert_non_null(file);
        (void)fputs(texts[i], file);
        assert_int_equal(fclose(file), 0);
        begin(rig);
        assert_int_equal(read_back(rig), BASE_ERR_CORRUPT);
    }
}

// A seed that held, too, is written whole.
static void a_seed_that_held_is_taken(void **state)
{
    struct rig *rig = *state;
    begin(rig);
    rig->kept.ended = 1;
    (void)json_array_append_new(
        rig->kept.runs, json_pack("{s:i, s:i, s:n, s:n, s:[s], s:n}", "seed", 9, "exit", 0,
                                  "broken", "nothing_because", "faults", "reset=0.2", "repeat"));
    assert_int_equal(sim_swarm_kept_write(&rig->options, &rig->kept, &rig->error), BASE_OK);
    begin(rig);
    assert_int_equal(read_back(rig), BASE_OK);
    assert_int_equal(rig->kept.ended, 1);
    assert_int_equal(rig->kept.failed, 0);
    assert_true(rig->done[2]);
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

static void read_case(const struct rig *rig, const char *oracles, struct sim_case_end *out)
{
    struct sim_child child = {0};
    char path[SIM_CHILD_FOLDER_MAX + 16];
    (void)snprintf(child.folder, sizeof(child.folder), "%s", rig->options.out);
    (void)snprintf(path, sizeof(path), "%s/run.json", child.folder);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "{\"oracles\": [%s]}", oracles) > 0);
    assert_int_equal(fclose(file), 0);
    sim_case_read(&child, SIM_EXIT_FAILED << 8, out); // as waitpid has it
    assert_int_equal(unlink(path), 0);
}

// The one that broke it, of the invariant that is told; where none is named, none is.
static void a_device_that_broke_it_is_read(void **state)
{
    const struct rig *rig = *state;
    struct sim_case_end end;
    read_case(rig,
              "{\"name\": \"once\", \"holds\": true, \"device\": null}, "
              "{\"name\": \"ended\", \"holds\": false, \"device\": 421}",
              &end);
    assert_string_equal(end.broken, "ended");
    assert_string_equal(end.device, "421");
    read_case(rig,
              "{\"name\": \"back\", \"holds\": false, \"device\": null}, "
              "{\"name\": \"ended\", \"holds\": false, \"device\": 421}",
              &end);
    assert_string_equal(end.broken, "back");
    assert_string_equal(end.device, "");
    read_case(rig, "{\"name\": \"ended\", \"holds\": false}", &end); // of a version before
    assert_string_equal(end.device, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_there_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(another_swarm_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(what_no_swarm_writes_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(counts_of_invariants_are_of_the_seeds, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_cut_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_seed_that_held_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_device_that_broke_it_is_read, setup, teardown),
        cmocka_unit_test(pace_is_told_where_it_takes_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
