// The search: what is measured, what is taken, what is remembered. Times come from a table and a
// manual clock, so that every run is the same.
#include "search/search.h"

#include "base/alloc.h"
#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct bench {
    uint64_t now_us;
    double us[ENG_SEARCH_CANDIDATES_MAX]; // by parameter a; negative: refused
    double drift; // added with each call: a machine that does not measure the same twice
    enum eng_search_kind kind;
    uint32_t calls;
};

static uint64_t bench_now(void *ctx)
{
    return ((struct bench *)ctx)->now_us;
}

static enum base_status measure(void *ctx, const struct eng_candidate *candidate,
                                uint64_t deadline_us, double *out_us)
{
    struct bench *bench = ctx;
    bench->calls++;
    if (bench->us[candidate->a] < 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    if (bench->now_us + 1000 > deadline_us) { // no time for a whole measurement
        bench->now_us = deadline_us;
        return BASE_ERR_TIMEOUT;
    }
    bench->now_us += 1000;
    *out_us = bench->us[candidate->a] + bench->drift * bench->calls;
    return BASE_OK;
}

static enum base_status choose(struct eng_search *search, const char *problem,
                               const struct eng_candidate *candidates, size_t count,
                               struct bench *bench, size_t *out_index)
{
    const struct eng_search_query query = {.problem = problem,
                                           .candidates = candidates,
                                           .count = count,
                                           .measure = measure,
                                           .ctx = bench,
                                           .kind = bench->kind};
    return eng_search_choose(search, &query, out_index);
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
    assert_int_equal(choose(search, "conv a", three, 3, &bench, &index), BASE_OK);
    assert_int_equal(index, 0);       // measured better than its estimate said
    assert_int_equal(bench.calls, 2); // the hopeless one was not tried
    assert_int_equal(choose(search, "conv a", three, 3, &bench, &index), BASE_OK);
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
    assert_int_equal(choose(search, "p", three, 3, &bench, &index), BASE_OK);
    assert_int_equal(index, 0);
    bench.us[0] = -1;
    assert_int_equal(choose(search, "q", three, 2, &bench, &index), BASE_ERR_UNSUPPORTED);
    assert_int_equal(choose(search, "q", three, 0, &bench, &index), BASE_ERR_INVALID);
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
        assert_int_equal(choose(search, key, three, 3, &bench, &index), BASE_OK);
    } while (index == 0 && problems < 1000);
    assert_int_equal(index, 1);                                          // the cheapest by estimate
    assert_int_equal(eng_search_spent_us(search), ENG_SEARCH_BUDGET_US); // and not a bit more
    uint32_t calls = bench.calls;
    eng_search_begin(
        search); // a new plan may measure again what was only estimated... under a new key
    assert_int_equal(choose(search, "fresh", three, 3, &bench, &index), BASE_OK);
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
    assert_int_equal(choose(search, "conv a", three, 3, &bench, &index), BASE_OK);
    assert_int_equal(eng_search_save(search), BASE_OK);
    eng_search_free(search);

    search = new_search(&bench, &clock, path, 1);
    index = 9;
    assert_int_equal(choose(search, "conv a", three, 3, &bench, &index), BASE_OK);
    assert_int_equal(index, 0);
    assert_int_equal(bench.calls, 2);
    // Other candidates than remembered: measured anew.
    assert_int_equal(choose(search, "conv a", three + 1, 1, &bench, &index), BASE_OK);
    assert_int_equal(index, 0);
    eng_search_free(search);

    // Another number of threads is another machine.
    search = new_search(&bench, &clock, path, 2);
    assert_int_equal(choose(search, "conv a", three, 3, &bench, &index), BASE_OK);
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
    assert_int_equal(choose(search, "conv a", three, 3, &bench, &index), BASE_OK);
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
        assert_int_equal(choose(search, "conv a", three, 3, &bench, &index), BASE_OK);
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

static const struct eng_candidate variants[] = {
    {.name = "usual", .a = 0, .cost_us = 100, .fixed = true},
    {.name = "rows", .a = 1, .cost_us = 90},
    {.name = "columns", .a = 2, .cost_us = 110},
};

static void a_narrow_win_must_repeat_itself(void **state)
{
    (void)state;
    static const struct {
        double usual, rows, columns, drift;
        uint32_t calls; // three, and two more to confirm a win
        size_t index;
    } cases[] = {
        {100, 99, 100, 0, 3, 0},  // within the noise: the fixed choice
        {100, 90, 100, 0, 5, 1},  // a win, and again
        {100, 20, 100, 0, 5, 1},  // even a clear one is confirmed
        {100, 20, 100, 10, 5, 0}, // the fixed choice's figures drift apart
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench bench = {.us = {cases[i].usual, cases[i].rows, cases[i].columns},
                              .drift = cases[i].drift,
                              .kind = ENG_SEARCH_VARIANT};
        struct base_clock_port clock;
        struct eng_search *search = new_search(&bench, &clock, NULL, 1);
        size_t index = 9;
        assert_int_equal(choose(search, "cut", variants, 3, &bench, &index), BASE_OK);
        print_message("case %zu: chose %zu after %u measurements\n", i, index, bench.calls);
        assert_int_equal(index, cases[i].index);
        assert_int_equal(bench.calls, cases[i].calls);
        eng_search_free(search);
    }
}

static void variants_have_a_share_and_are_remembered_unmeasured(void **state)
{
    (void)state;
    char path[] = "/tmp/walle-search-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct bench bench = {.us = {100, 99, 100}, .kind = ENG_SEARCH_VARIANT};
    struct base_clock_port clock;
    struct eng_search *search = new_search(&bench, &clock, path, 1);
    enum { PROBLEMS = 100 };
    char key[32];
    size_t index = 9;
    for (int i = 0; i < PROBLEMS; i++) {
        snprintf(key, sizeof key, "cut %d", i);
        assert_int_equal(choose(search, key, variants, 3, &bench, &index), BASE_OK);
        assert_int_equal(index, 0);
    }
    assert_int_equal(eng_search_spent_us(search), ENG_SEARCH_EXTRAS_US);
    // Algorithms still have the rest of the budget.
    bench.kind = ENG_SEARCH_ALGORITHM;
    const uint32_t calls = bench.calls;
    assert_int_equal(choose(search, "conv", three, 3, &bench, &index), BASE_OK);
    assert_true(bench.calls > calls);
    assert_int_equal(eng_search_save(search), BASE_OK);
    eng_search_free(search);

    bench.kind = ENG_SEARCH_VARIANT;
    bench.calls = 0;
    search = new_search(&bench, &clock, path, 1);
    for (int i = 0; i < PROBLEMS; i++) {
        snprintf(key, sizeof key, "cut %d", i);
        assert_int_equal(choose(search, key, variants, 3, &bench, &index), BASE_OK);
        assert_int_equal(index, 0);
    }
    assert_int_equal(bench.calls, 0); // all of them remembered, measured or not
    eng_search_free(search);
    unlink(path);
}

static void what_is_only_measured_is_never_estimated(void **state)
{
    (void)state;
    static const struct eng_candidate candidates[] = {
        {.name = "blas", .a = 1, .cost_us = 10, .measured_only = true},
        {.name = "own", .a = 0, .cost_us = 100, .fixed = true},
    };
    struct bench bench = {.us = {40, 20}};
    struct base_clock_port clock;
    struct eng_search *search = new_search(&bench, &clock, NULL, 1);
    size_t index = 9;
    const struct eng_search_query unmeasured = {
        .problem = "p", .candidates = candidates, .count = 2};
    assert_int_equal(eng_search_choose(search, &unmeasured, &index), BASE_OK);
    assert_int_equal(index, 1);
    assert_int_equal(choose(search, "q", candidates, 2, &bench, &index), BASE_OK);
    assert_int_equal(index, 0); // measured, and faster
    eng_search_free(search);
}

// Neither waited for nor written over; the search goes on without what it would have remembered.
static void a_pipe_in_the_files_place_is_left_alone(void **state)
{
    (void)state;
    char folder[] = "/tmp/walle-search-XXXXXX";
    char path[64];
    struct stat about;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/cache", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    struct bench bench = {.us = {100, 50, 100}};
    struct base_clock_port clock;
    struct eng_search *search = new_search(&bench, &clock, path, 1);
    size_t index = 9;
    assert_int_equal(choose(search, "conv", three, 3, &bench, &index), BASE_OK);
    assert_int_equal(index, 1);
    assert_int_not_equal(eng_search_save(search), BASE_OK);
    eng_search_free(search);
    assert_int_equal(lstat(path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    unlink(path);
    rmdir(folder);
}

static void a_choice_that_is_gone_is_made_anew(void **state)
{
    (void)state;
    char path[] = "/tmp/walle-search-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    static const struct eng_candidate candidates[] = {
        {.name = "own", .a = 0, .cost_us = 30, .fixed = true},
        {.name = "blas", .a = 1, .cost_us = 30, .measured_only = true},
    };
    struct bench bench = {.us = {40, 20}, .kind = ENG_SEARCH_EXTRA};
    struct base_clock_port clock;
    size_t index = 9;
    struct eng_search *search = new_search(&bench, &clock, path, 1);
    assert_int_equal(choose(search, "p", candidates, 2, &bench, &index), BASE_OK);
    assert_int_equal(index, 1);
    assert_int_equal(eng_search_save(search), BASE_OK);
    eng_search_free(search);
    search = new_search(&bench, &clock, path, 1);
    assert_int_equal(choose(search, "p", candidates, 1, &bench, &index), BASE_OK);
    assert_int_equal(index, 0);
    eng_search_free(search);
    unlink(path);
}

static double two_us(void *ctx)
{
    ++*(int *)ctx;
    return 2;
}

static double some_flops(void *ctx, uint64_t rounds)
{
    struct bench *bench = ctx;
    bench->now_us += 600;
    return (double)rounds * 1e6;
}

static double no_flops(void *ctx, uint64_t rounds)
{
    (void)ctx, (void)rounds;
    return 0;
}

static void rates_come_back_from_the_file(void **state)
{
    (void)state;
    char path[] = "/tmp/walle-search-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct bench bench = {.us = {40, 50, 1}};
    struct base_clock_port clock = {.ctx = &bench, .mono_us = bench_now, .wall_us = bench_now};
    const struct eng_rate_source sources[] = {
        {.name = "fast", .flops = some_flops, .ctx = &bench},
        {.name = "absent", .flops = no_flops},
    };
    int wakes = 0;
    const struct eng_search_options options = {.clock = &clock,
                                               .isa = "test",
                                               .threads = 2,
                                               .path = path,
                                               .sources = sources,
                                               .source_count = 2,
                                               .wake = two_us,
                                               .wake_ctx = &wakes};
    double flops[2];
    for (int i = 0; i < 2; i++) {
        struct eng_search *search = NULL;
        assert_int_equal(eng_search_new(&options, &search), BASE_OK);
        assert_int_equal(eng_search_machine_known(search) != NULL, i == 1);
        flops[i] = eng_search_flops(search, "fast");
        assert_true(eng_search_flops(search, "absent") == flops[i]); // the first one stands in
        assert_true(eng_search_wake_us(search) == 2);
        assert_int_equal(wakes, 1); // the second one read it
        assert_int_equal(eng_search_save(search), BASE_OK);
        eng_search_free(search);
    }
    assert_true(flops[0] > 0 && flops[0] / flops[1] < 1.01 && flops[1] / flops[0] < 1.01);
    unlink(path);
}

static double slow_flops(void *ctx, uint64_t rounds)
{
    struct bench *bench = ctx;
    bench->now_us += ENG_CALIBRATE_MAX_US + 100000; // a busy machine: one figure takes this long
    return (double)rounds * 1e6;
}

static void slow_calibration_comes_off_the_budget(void **state)
{
    (void)state;
    struct bench bench = {.us = {40, 50, 1}};
    struct base_clock_port clock = {.ctx = &bench, .mono_us = bench_now, .wall_us = bench_now};
    const struct eng_rate_source source = {.name = "slow", .flops = slow_flops, .ctx = &bench};
    const struct eng_search_options options = {
        .clock = &clock, .isa = "test", .threads = 1, .sources = &source, .source_count = 1};
    struct eng_search *search = NULL;
    assert_int_equal(eng_search_new(&options, &search), BASE_OK);
    eng_search_begin(search);
    assert_true(eng_search_flops(search, "slow") > 0);
    char key[32];
    size_t index;
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "p%d", i);
        assert_int_equal(choose(search, key, three, 3, &bench, &index), BASE_OK);
    }
    assert_int_equal(eng_search_spent_us(search), ENG_SEARCH_BUDGET_US - 100000);
    assert_int_equal(bench.now_us, ENG_CALIBRATE_MAX_US + ENG_SEARCH_BUDGET_US);
    eng_search_free(search);
}

static void write_file(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

// Whatever the file holds, the search works and stays within its limits.
static void no_file_does_harm(void **state)
{
    (void)state;
    char path[] = "/tmp/walle-search-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct bench bench = {.us = {40, 50, 1}};
    struct base_clock_port clock;
    size_t index;
    struct eng_search *search = new_search(&bench, &clock, path, 1);
    assert_int_equal(choose(search, "conv a", three, 3, &bench, &index), BASE_OK);
    assert_int_equal(choose(search, "conv b", three, 3, &bench, &index), BASE_OK);
    assert_int_equal(eng_search_save(search), BASE_OK);
    eng_search_free(search);
    char good[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const size_t size = fread(good, 1, sizeof good, file);
    fclose(file);
    assert_in_range(size, 1, sizeof good - 1);

    const uint64_t seed = 0x5eac;
    print_message("seed %#llx\n", (unsigned long long)seed);
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    for (int round = 0; round < 400; round++) {
        char bad[sizeof good];
        memcpy(bad, good, size);
        const size_t cut = round % 4 == 0 ? base_prng_below(&prng, size) : size;
        for (uint64_t flips = base_prng_below(&prng, 8); flips > 0; flips--) {
            static const char bytes[] = "\t\n\0009-r\xff";
            bad[base_prng_below(&prng, size)] = bytes[base_prng_below(&prng, sizeof bytes - 1)];
        }
        write_file(path, bad, cut);
        search = new_search(&bench, &clock, path, 1);
        assert_int_equal(choose(search, "conv a", three, 3, &bench, &index), BASE_OK);
        assert_in_range(index, 0, 2);
        assert_int_equal(choose(search, "conv b", three, 3, &bench, &index), BASE_OK);
        assert_in_range(index, 0, 2);
        struct base_buffer text;
        base_buffer_init(&text, base_alloc_heap(), 0);
        assert_int_equal(eng_search_explain(search, &text), BASE_OK);
        base_buffer_done(&text);
        eng_search_free(search);
    }
    unlink(path);
}

static void the_graph_is_explained(void **state)
{
    (void)state;
    struct bench bench = {.us = {0}};
    struct base_clock_port clock;
    struct eng_search *search = new_search(&bench, &clock, NULL, 1);
    const struct eng_graph_cost rows[] = {
        {.backend = "wide", .compute_us = 10, .copies_us = 2, .total_us = 12},
        {.backend = "ref", .compute_us = 100, .copies_us = 20, .total_us = 120},
    };
    eng_search_note_graph(search, rows, 2, 0, "the least");
    struct base_buffer text;
    base_buffer_init(&text, base_alloc_heap(), 0);
    assert_int_equal(eng_search_explain(search, &text), BASE_OK);
    assert_non_null(strstr((const char *)text.data, "* wide"));
    assert_non_null(
        strstr((const char *)text.data, "backend wide: the least (108.0 us less than the worst)"));
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
        cmocka_unit_test(a_narrow_win_must_repeat_itself),
        cmocka_unit_test(variants_have_a_share_and_are_remembered_unmeasured),
        cmocka_unit_test(what_is_only_measured_is_never_estimated),
        cmocka_unit_test(a_pipe_in_the_files_place_is_left_alone),
        cmocka_unit_test(a_choice_that_is_gone_is_made_anew),
        cmocka_unit_test(rates_come_back_from_the_file),
        cmocka_unit_test(slow_calibration_comes_off_the_budget),
        cmocka_unit_test(no_file_does_harm),
        cmocka_unit_test(the_graph_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
