// Log port: levels, escaping, cutting, and whole lines on standard error from many threads.
#include "test_kit.h"

#include "base/log.h"

#include <pthread.h>
#include <unistd.h>

struct seen {
    unsigned count;
    enum base_log_level level;
    char area[32];
    char text[2048];
};

static void remember(void *ctx, enum base_log_level level, const char *area, const char *text)
{
    struct seen *seen = ctx;
    seen->count++;
    seen->level = level;
    (void)snprintf(seen->area, sizeof seen->area, "%s", area);
    (void)snprintf(seen->text, sizeof seen->text, "%s", text);
}

static void levels_filter(void **state)
{
    (void)state;
    struct seen seen = {.count = 0};
    struct base_log log = {.ctx = &seen, .level = BASE_LOG_WARN, .write = remember};
    base_log_error(&log, "net", "lost %d", 3);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.level, BASE_LOG_ERROR);
    assert_string_equal(seen.area, "net");
    assert_string_equal(seen.text, "lost 3");
    base_log_warn(&log, "net", "x");
    base_log_info(&log, "net", "x");
    base_log_debug(&log, "net", "x");
    assert_int_equal(seen.count, 2);
    log.level = BASE_LOG_DEBUG;
    base_log_debug(&log, "net", "x");
    assert_int_equal(seen.count, 3);
    base_log_error(NULL, "net", "nobody hears this");
}

static void control_characters_are_escaped(void **state)
{
    (void)state;
    struct seen seen = {.count = 0};
    struct base_log log = {.ctx = &seen, .level = BASE_LOG_INFO, .write = remember};
    base_log_info(&log, "a", "one\ntwo\x1b[0m\x7f \xc3\xa4");
    assert_string_equal(seen.text, "one\\u000atwo\\u001b[0m\\u007f \xc3\xa4");
}

// No value ends before the quote behind it, wherever it is cut.
static void quoted_values_stay_in_their_quotes(void **state)
{
    (void)state;
    char out[64];
    assert_string_equal(base_log_quoted("ana\" role=admin x=\"", out, sizeof out),
                        "ana\\\" role=admin x=\\\"");
    assert_string_equal(base_log_quoted("a\\\"b", out, sizeof out), "a\\\\\\\"b");
    assert_string_equal(base_log_quoted("abc\"d", out, 5), "abc");
    assert_string_equal(base_log_quoted("abc\"d", out, 6), "abc\\\"");
    assert_string_equal(base_log_quoted("abc", out, 1), "");
    assert_string_equal(base_log_quoted(NULL, out, sizeof out), "");
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    struct seen seen = {.count = 0};
    struct base_log log = {.ctx = &seen, .level = BASE_LOG_INFO, .write = remember};
    char text[3000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    base_log_info(&log, "a", "%s", text);
    assert_int_equal(strlen(seen.text), 1000);
    memset(text, '\n', sizeof text - 1);
    base_log_info(&log, "a", "%s", text);
    assert_int_equal(strlen(seen.text), 996); // whole escapes: a multiple of six
}

static void level_names(void **state)
{
    (void)state;
    static const char *const names[BASE_LOG_LEVEL_COUNT] = {"error", "warn", "info", "debug"};
    for (unsigned i = 0; i < BASE_LOG_LEVEL_COUNT; i++) {
        enum base_log_level level = BASE_LOG_LEVEL_COUNT;
        assert_int_equal(base_log_level_parse(names[i], &level), BASE_OK);
        assert_int_equal(level, i);
    }
    enum base_log_level level;
    assert_int_equal(base_log_level_parse("Info", &level), BASE_ERR_INVALID);
    assert_int_equal(base_log_level_parse("", &level), BASE_ERR_INVALID);
    assert_int_equal(base_log_level_parse(NULL, &level), BASE_ERR_INVALID);
}

#define THREADS 4
#define LINES   100

static void *write_lines(void *ctx)
{
    const struct base_log *log = ctx;
    for (unsigned i = 0; i < LINES; i++) {
        base_log_info(log, "thread", "line %u of a thread", i);
    }
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    struct base_log log;
    base_log_stderr(&log, BASE_LOG_INFO);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &log), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    rewind(file);
    char line[256];
    unsigned count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        // 2026-11-21T02:51:00.123Z INFO thread: line 7 of a thread
        assert_int_equal(line[10], 'T');
        assert_memory_equal(line + 23, "Z INFO thread: line ", 20);
        assert_non_null(strstr(line, " of a thread\n"));
        count++;
    }
    assert_int_equal(count, THREADS * LINES);
    (void)fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_filter),
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(quoted_values_stay_in_their_quotes),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(level_names),
        cmocka_unit_test(lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
