// The digest of a run in virtual time: each event counts, and its place; where two runs part; and a
// file that comes back as it was, or is refused.
#include "test_kit.h"

#include "digest/run_digest.h"

#include "base/os/output_file.h"

#include <stdlib.h>
#include <unistd.h>

#define LINES 3u

static char folder[] = "/tmp/walle-digest-XXXXXX";

struct play {
    struct sim_recorder recorders[LINES];
    struct sim_recorder *list[LINES];
    struct sim_digest digest;
};

static void play_begin(struct play *play)
{
    *play = (struct play){0};
    for (uint32_t i = 0; i < LINES; i++) {
        play->list[i] = &play->recorders[i];
        sim_recorder_begin(play->list[i], 1000);
    }
}

static void happen(struct play *play, uint32_t line, uint64_t at_us, const struct sim_event *event)
{
    sim_recorder_take(play->list[line], 1000 + at_us, event);
}

static void play_end(struct play *play)
{
    assert_int_equal(sim_digest_make(play->list, LINES, &play->digest), BASE_OK);
}

static void play_done(struct play *play)
{
    sim_digest_done(&play->digest);
    for (uint32_t i = 0; i < LINES; i++) {
        sim_recorder_done(play->list[i]);
    }
}

// A run that two others may differ from, in an event of line 1 at 2.5 s, its moment or its absence.
static void play_it(struct play *play, const struct sim_event *event, uint64_t at_us, bool missing)
{
    play_begin(play);
    happen(play, 0, 10, &(struct sim_event){.index = 4, .kind = SIM_EVENT_WAKE});
    happen(play, 1, 2400000, &(struct sim_event){.index = 5, .kind = SIM_EVENT_WAKE, .value = 1});
    if (!missing) {
        happen(play, 1, at_us, event);
    }
    happen(play, 2, 2999999, &(struct sim_event){.index = 6, .kind = SIM_EVENT_HANDLED});
    happen(play, 2, 4000000, &(struct sim_event){.index = 6, .kind = SIM_EVENT_REPLIED});
    play_end(play);
}

static void every_part_of_an_event_counts(void **state)
{
    (void)state;
    const struct sim_event event = {.index = 5, .kind = SIM_EVENT_RUN, .value = 3};
    const struct {
        struct sim_event event;
        uint64_t at_us;
        bool missing;
    } others[] = {
        {{.index = 6, .kind = SIM_EVENT_RUN, .value = 3}, 2500000, false},
        {{.index = 5, .kind = SIM_EVENT_ANSWER, .value = 3}, 2500000, false},
        {{.index = 5, .kind = SIM_EVENT_RUN, .value = 4}, 2500000, false},
        {{.index = 5, .kind = SIM_EVENT_RUN, .value = 3}, 2500001, false},
        {{.index = 5, .kind = SIM_EVENT_RUN, .value = 3}, 2500000, true},
    };
    struct play first;
    struct play same;
    char roots[2][SIM_DIGEST_HEX + 1];
    uint32_t line = 9;
    uint32_t second = 9;
    play_it(&first, &event, 2500000, false);
    play_it(&same, &event, 2500000, false);
    assert_int_equal(first.digest.seconds, 5);
    sim_digest_root(&first.digest, roots[0]);
    sim_digest_root(&same.digest, roots[1]);
    assert_string_equal(roots[0], roots[1]);
    assert_false(sim_digest_part(&first.digest, &same.digest, &line, &second));
    for (uint32_t i = 0; i < TEST_COUNT(others); i++) {
        struct play other;
        play_it(&other, &others[i].event, others[i].at_us, others[i].missing);
        sim_digest_root(&other.digest, roots[1]);
        assert_string_not_equal(roots[0], roots[1]);
        assert_true(sim_digest_part(&first.digest, &other.digest, &line, &second));
        assert_int_equal(line, 1);
        assert_int_equal(second, 2);
        play_done(&other);
    }
    play_done(&first);
    play_done(&same);
}

static void the_order_of_events_counts(void **state)
{
    (void)state;
    struct play plays[2];
    const struct sim_event events[2] = {{.index = 1, .kind = SIM_EVENT_WAKE},
                                        {.index = 2, .kind = SIM_EVENT_WAKE}};
    char roots[2][SIM_DIGEST_HEX + 1];
    for (uint32_t i = 0; i < 2; i++) {
        play_begin(&plays[i]);
        happen(&plays[i], 0, 5, &events[i]);
        happen(&plays[i], 0, 5, &events[1 - i]);
        play_end(&plays[i]);
        sim_digest_root(&plays[i].digest, roots[i]);
    }
    assert_string_not_equal(roots[0], roots[1]);
    play_done(&plays[0]);
    play_done(&plays[1]);
}

static void one_that_is_shorter_parts_where_it_ends(void **state)
{
    (void)state;
    struct play plays[2];
    uint32_t line = 9;
    uint32_t second = 9;
    const struct sim_event event = {.index = 1, .kind = SIM_EVENT_WAKE};
    for (uint32_t i = 0; i < 2; i++) {
        play_begin(&plays[i]);
        happen(&plays[i], 0, 5, &event);
    }
    happen(&plays[1], 2, 70000000, &event);
    play_end(&plays[0]);
    play_end(&plays[1]);
    assert_int_equal(plays[0].digest.seconds, 1);
    assert_int_equal(plays[1].digest.seconds, 71);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(sim_digest_part(&plays[i].digest, &plays[1 - i].digest, &line, &second));
        assert_int_equal(line, 2);
        assert_int_equal(second, 70);
    }
    play_done(&plays[0]);
    play_done(&plays[1]);
}

// The root depends on every leaf, however many there are.
static void every_leaf_counts(void **state)
{
    (void)state;
    for (uint32_t seconds = 1; seconds <= 9; seconds++) {
        struct sim_leaf leaves[9 * LINES] = {0};
        const struct sim_digest digest = {.lines = LINES, .seconds = seconds, .leaves = leaves};
        char before[SIM_DIGEST_HEX + 1];
        char after[SIM_DIGEST_HEX + 1];
        sim_digest_root(&digest, before);
        for (uint32_t i = 0; i < seconds * LINES; i++) {
            leaves[i].words[i % 2] = 1;
            sim_digest_root(&digest, after);
            assert_string_not_equal(before, after);
            memcpy(before, after, sizeof(before));
        }
    }
}

// The same leaves of more lines, or of more seconds, are another run's.
static void the_shape_counts(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{1, 6}, {2, 3}, {3, 2}, {6, 1}, {1, 1}, {1, 0}, {2, 0}};
    struct sim_leaf leaves[6] = {{{0, 0}}, {{3, 4}}}; // one that is nothing is no leaf less
    char roots[TEST_COUNT(shapes)][SIM_DIGEST_HEX + 1];
    for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
        const struct sim_digest digest = {
            .lines = shapes[i][0], .seconds = shapes[i][1], .leaves = leaves};
        sim_digest_root(&digest, roots[i]);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(roots[i], roots[k]);
        }
    }
}

// Nothing happened, and that comes back from a file too; of more lines it is another nothing.
static void a_run_of_no_seconds_has_one(void **state)
{
    (void)state;
    struct play play;
    struct sim_digest fewer;
    struct sim_digest back;
    struct base_error error = {0};
    char roots[3][SIM_DIGEST_HEX + 1];
    char path[100];
    uint32_t line = 9;
    uint32_t second = 9;
    play_begin(&play);
    play_end(&play);
    assert_int_equal(play.digest.seconds, 0);
    assert_int_equal(sim_digest_make(play.list, LINES - 1, &fewer), BASE_OK);
    assert_int_equal(sim_digest_write(&play.digest, folder, &error), BASE_OK);
    assert_int_equal(sim_digest_read(folder, &back, &error), BASE_OK);
    assert_int_equal(back.lines, LINES);
    assert_false(sim_digest_part(&play.digest, &back, &line, &second));
    sim_digest_root(&play.digest, roots[0]);
    sim_digest_root(&back, roots[1]);
    sim_digest_root(&fewer, roots[2]);
    assert_string_equal(roots[0], roots[1]);
    assert_string_not_equal(roots[0], roots[2]);
    sim_digest_done(&back);
    sim_digest_done(&fewer);
    play_done(&play);
    (void)snprintf(path, sizeof(path), "%s/" SIM_DIGEST_FILE, folder);
    assert_int_equal(unlink(path), 0);
}

static void a_run_of_too_many_seconds_has_none(void **state)
{
    (void)state;
    struct play play;
    const struct sim_event event = {.kind = SIM_EVENT_WAKE};
    play_begin(&play);
    happen(&play, 0, SIM_DIGEST_SECONDS_MAX * UINT64_C(1000000), &event);
    assert_int_equal(sim_digest_make(play.list, LINES, &play.digest), BASE_ERR_LIMIT);
    play_done(&play);
}

static void a_second_is_traced(void **state)
{
    (void)state;
    struct play play;
    char text[200] = "";
    const struct sim_event event = {.index = 7, .kind = SIM_EVENT_SAVED, .value = 255};
    play_begin(&play);
    play.list[1]->trace = tmpfile();
    play.list[1]->second = 3;
    happen(&play, 1, 2999999, &event);
    happen(&play, 1, 3000001, &event);
    happen(&play, 1, 4000000, &event);
    rewind(play.list[1]->trace);
    size_t size = fread(text, 1, sizeof(text) - 1, play.list[1]->trace);
    assert_int_equal(fclose(play.list[1]->trace), 0);
    text[size] = '\0';
    assert_string_equal(text, "3.000001 device 7 saved ff\n");
    play_done(&play);
}

static void files_come_back(void **state)
{
    (void)state;
    const struct sim_event event = {.index = 5, .kind = SIM_EVENT_RUN, .value = 3};
    struct play play;
    struct sim_digest back;
    struct base_error error = {0};
    char path[100];
    char roots[2][SIM_DIGEST_HEX + 1];
    play_it(&play, &event, 2500000, false);
    assert_int_equal(sim_digest_write(&play.digest, folder, &error), BASE_OK);
    assert_int_equal(sim_digest_read(folder, &back, &error), BASE_OK);
    sim_digest_root(&play.digest, roots[0]);
    sim_digest_root(&back, roots[1]);
    assert_string_equal(roots[0], roots[1]);
    sim_digest_done(&back);
    play_done(&play);
    (void)snprintf(path, sizeof(path), "%s/" SIM_DIGEST_FILE, folder);
    // A byte short, a byte of each number of the header changed: none of them is a digest.
    uint8_t bytes[24 + 5 * LINES * 16];
    FILE *file = fopen(path, "re");
    assert_int_equal(fread(bytes, 1, sizeof(bytes), file), sizeof(bytes));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(base_output_write(path, bytes, sizeof(bytes) - 1, &error), BASE_OK);
    assert_int_equal(sim_digest_read(folder, &back, &error), BASE_ERR_CORRUPT);
    for (uint32_t at = 0; at < 24; at++) {
        bytes[at] ^= 0x40;
        assert_int_equal(base_output_write(path, bytes, sizeof(bytes), &error), BASE_OK);
        assert_int_equal(sim_digest_read(folder, &back, &error), BASE_ERR_CORRUPT);
        bytes[at] ^= 0x40;
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sim_digest_read(folder, &back, &error), BASE_ERR_NOT_FOUND);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_of_an_event_counts),
        cmocka_unit_test(the_order_of_events_counts),
        cmocka_unit_test(one_that_is_shorter_parts_where_it_ends),
        cmocka_unit_test(every_leaf_counts),
        cmocka_unit_test(the_shape_counts),
        cmocka_unit_test(a_run_of_no_seconds_has_one),
        cmocka_unit_test(a_run_of_too_many_seconds_has_none),
        cmocka_unit_test(a_second_is_traced),
        cmocka_unit_test(files_come_back),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
