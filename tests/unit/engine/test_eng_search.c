// The search: what is measured, what is taken, what is remembered. Times come from a table and a
// manual clock, so that every run is the same.
#include "search/search.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct bench {
    uint64_t now_us;
    double us[ENG_SEARCH_CANDIDATES_MAX]; // by parameter a; negative: refused
    uint32_t calls;
};

static uint64_t bench_now(void *ctx)
{
    return ((struct bench *)ctx)->now_us;
}

static enum base_status measure(void *ctx, const struct eng_candidate *candidate, double *out_us)
{
    struct bench *bench = ctx;
    bench->calls++;
    if (bench->us[candidate->a] < 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    bench->now_us += 1000;
    *out_us = bench->us[candidate->a];
    return BASE_OK;
}

static struct eng_search *new_search(struct bench *bench, struct base_clock_port *clock,
                                     const char *path, uint32_t threads)
{
    *clock = (struct base_clock_port){.ctx = bench, .mono_us = bench_now, .wall_us = bench_now};
    struct eng_search_options options = {
        .clock = clock, .isa = "test", .threads = threads, .path = path};
    struct eng_search *search = NULL;
    assert_int_equal(eng_search_new(&options, &search), BASE_OK);
    return search;
}

static const struct eng_candidate three[] = {
    {.name = "direct", .a = 0, .cost_us = 100, .fixed = true},
    {.name = "winograd4", .a = 1, .cost_us = 60},
    {.name = "hopeless", .a = 2, .cost_us = 500},
};

static void takes_the_fastest_measured(void **state)
{
    (void)state;
    struct bench bench = {.us = {40, 50, 1}};
    struct base_clock_port clock;
    struct eng_search *search = new_search(&bench, &clock, NULL, 1);
    size_t index = 9;
    assert_int_equal(eng_search_choose(search, "conv a", three, 3, measure, &bench, &index),
                     BASE_OK);
    assert_int_equal(index, 0);       // measured better than its estimate said
    assert_int_equal(bench.calls, 2); // the hopeless one was not tried
    assert_int_equal(eng_search_choose(search, "conv a", three, 3, measure, &bench, &index),
                     BASE_OK);
    assert_int_equal(bench.calls, 2); // known now
    assert_int_equal(eng_search_spent_us(search), 2000);
    eng_search_free(search);
}

static void refused_candidates_are_left_out(void **state)
{
    (void)state;
    struct bench bench = {.us = {40, -1, 1}};
    struct base_clock_port clock;
    struct eng_search *search = new_search(&bench, &clock, NULL, 1);
    size_t index = 9;
    assert_int_equal(eng_search_choose(search, "p", three, 3, measure, &bench, &index), BASE_OK);
    assert_int_equal(index, 0);
    bench.us[0] = -1;
    assert_int_equal(eng_search_choose(search, "q", three, 2, measure, &bench, &index),
                     BASE_ERR_UNSUPPORTED);
    assert_int_equal(eng_search_choose(search, "q", three, 0, measure, &bench, &index),
                     BASE_ERR_INVALID);
    eng_search_free(search);
}

static void a_spent_budget_leaves_the_model_to_decide(void **state)
{
    (void)state;
    struct bench bench = {.us = {40, 50, 1}};
    struct base_clock_port clock;
    struct eng_search *search = new_search(&bench, &clock, NULL, 1);
    char key[32];
    size_t index = 9;
    uint32_t problems = 0;
    do {
        snprintf(key, sizeof key, "p%u", problems++);
        assert_int_equal(eng_search_choose(search, key, three, 3, measure, &bench, &index),
                         BASE_OK);
    } while (index == 0 && problems < 1000);
    assert_int_equal(index, 1); // the cheapest by estimate
    assert_true(eng_search_spent_us(search) >= ENG_SEARCH_BUDGET_US);
    assert_true(eng_search_spent_us(search) < ENG_SEARCH_BUDGET_US + 3000);
    uint32_t calls = bench.calls;
    eng_search_begin(
        search); // a new plan may measure again what was only estimated... under a new key
    assert_int_equal(eng_search_choose(search, "fresh", three, 3, measure, &bench, &index),
                     BASE_OK);
    assert_int_equal(bench.calls, calls + 2);
    eng_search_free(search);
}

static void choices_survive_in_the_file(void **state)
{
    (void)state;
    char path[] = "/tmp/walle-search-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct bench bench = {.us = {40, 50, 1}};
    struct base_clock_port clock;
    struct eng_search *search = new_search(&bench, &clock, path, 1);
    size_t index;
    assert_int_equal(eng_search_choose(search, "conv a", three, 3, measure, &bench, &index),
                     BASE_OK);
    assert_int_equal(eng_search_save(search), BASE_OK);
    eng_search_free(search);

    search = new_search(&bench, &clock, path, 1);
    index = 9;
    assert_int_equal(eng_search_choose(search, "conv a", three, 3, measure, &bench, &index),
                     BASE_OK);
    assert_int_equal(index, 0);
    assert_int_equal(bench.calls, 2);
    // Other candidates than remembered: measured anew.
    assert_int_equal(eng_search_choose(search, "conv a", three + 1, 1, measure, &bench, &index),
                     BASE_OK);
    assert_int_equal(index, 0);
    eng_search_free(search);

    // Another number of threads is another machine.
    search = new_search(&bench, &clock, path, 2);
    assert_int_equal(eng_search_choose(search, "conv a", three, 3, measure, &bench, &index),
                     BASE_OK);
    assert_int_equal(bench.calls, 4);
    eng_search_free(search);
    unlink(path);
}

static void a_damaged_file_is_no_trouble(void **state)
{
    (void)state;
    char path[] = "/tmp/walle-search-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char junk[] = "\n\t\t\t\t\t\nconv a\tdirect\t4294967296\t0\t-1\t1\n";
    assert_int_equal(write(fd, junk, sizeof junk - 1), sizeof junk - 1);
    close(fd);
    struct bench bench = {.us = {40, 50, 1}};
    struct base_clock_port clock;
    struct eng_search *search = new_search(&bench, &clock, path, 1);
    size_t index;
    assert_int_equal(eng_search_choose(search, "conv a", three, 3, measure, &bench, &index),
                     BASE_OK);
    assert_int_equal(bench.calls, 2);
    eng_search_free(search);
    unlink(path);
}

static void explain_names_what_was_saved(void **state)
{
    (void)state;
    struct bench bench = {.us = {80, 50, 1}};
    struct base_clock_port clock;
    struct eng_search *search = new_search(&bench, &clock, NULL, 1);
    size_t index;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(eng_search_choose(search, "conv a", three, 3, measure, &bench, &index),
                         BASE_OK);
    }
    struct base_buffer text;
    base_buffer_init(&text, base_alloc_heap(), 0);
    assert_int_equal(eng_search_explain(search, &text), BASE_OK);
    assert_non_null(strstr((const char *)text.data, "conv a  x3"));
    assert_non_null(
        strstr((const char *)text.data, "150.0 us chosen, 240.0 us fixed choice (90.0 saved)"));
    base_buffer_done(&text);
    eng_search_free(search);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_fastest_measured),
        cmocka_unit_test(refused_candidates_are_left_out),
        cmocka_unit_test(a_spent_budget_leaves_the_model_to_decide),
        cmocka_unit_test(choices_survive_in_the_file),
        cmocka_unit_test(a_damaged_file_is_no_trouble),
        cmocka_unit_test(explain_names_what_was_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
