// Without a terminal there is a line every two seconds of the reader's time, however fast the
// devices' time goes. Who was given no credential is not online.
#include "test_kit.h"

#include "run/live_view.h"

#include <stdlib.h>
#include <string.h>

static uint64_t now_us;

static uint64_t reader_us(void *ctx)
{
    (void)ctx;
    return now_us;
}

// Lines of `rows` rows, one a second of the devices' time and one every `step_us` of the reader's.
static uint32_t lines_of(uint32_t rows, uint64_t step_us)
{
    static const struct base_clock_port clock = {.mono_us = reader_us};
    static struct sim_versions versions;
    static struct sim_options options = {.devices = 10};
    static struct sim_row row;
    struct sim_live live;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    sim_versions_init(&versions);
    sim_live_init(&live, file, false, &clock);
    for (uint32_t i = 0; i < rows; i++) {
        now_us = 5000000 + i * step_us;
        row.t_s = i;
        sim_live_draw(&live, &options, &row, NULL, &versions);
    }
    sim_live_done(&live);
    sim_versions_done(&versions);
    (void)fclose(file);
    uint32_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    free(text);
    return lines;
}

static void lines_are_seconds_of_the_reader(void **state)
{
    (void)state;
    assert_int_equal(lines_of(9, 1000000), 5);  // both times go alike
    assert_int_equal(lines_of(3600, 1000), 2);  // an hour in 3.6 s
    assert_int_equal(lines_of(100, 0), 1);      // in no time at all: the first
    assert_int_equal(lines_of(4, 10000000), 4); // a line a row at most
}

static void who_has_no_credential_is_not_online(void **state)
{
    (void)state;
    static const struct base_clock_port clock = {.mono_us = reader_us};
    static struct sim_versions versions;
    static struct sim_options options = {.devices = 10};
    const struct sim_row rows[] = {{.t_s = 1, .arrived = 6, .unenrolled = 3, .checkins = 9},
                                   {.t_s = 3, .arrived = 6, .unenrolled = 6}};
    static const char *const said[] = {"1 s: online 3, awake", "3 s: none online, up 6, awake"};
    sim_versions_init(&versions);
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct sim_live live;
        char *text = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&text, &size);
        assert_non_null(file);
        sim_live_init(&live, file, false, &clock);
        sim_live_draw(&live, &options, &rows[i], NULL, &versions);
        sim_live_done(&live);
        (void)fclose(file);
        if (strstr(text, said[i]) == NULL) {
            fail_msg("'%s' and not '%s'", text, said[i]);
        }
        free(text);
    }
    sim_versions_done(&versions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_seconds_of_the_reader),
                                       cmocka_unit_test(who_has_no_credential_is_not_online)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
