// Without a terminal there is a line every two seconds of the reader's time, however fast the
// devices' time goes.
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_seconds_of_the_reader)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
