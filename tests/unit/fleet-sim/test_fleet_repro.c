// The line that repeats a run: a shell reads the same words from it, it is taken apart again, and
// what would not be whole is not kept.
#include "test_kit.h"

#include "model/repro_line.h"

static void words_come_back(void **state)
{
    (void)state;
    static const char *const words[] = {
        "walle-fleet-sim", "run",      "--bad", "os == \"ios\" => crash @ 5%", "it's", "",
        "a\\b$c`d",        "--out=x y"};
    char line[SIM_REPRO_BYTES_MAX];
    static struct sim_repro repro;
    sim_repro_write((int)TEST_COUNT(words), (char *const *)(uintptr_t)words, line);
    assert_int_equal(sim_repro_read(line, &repro), BASE_OK);
    assert_int_equal(repro.count, TEST_COUNT(words));
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        assert_string_equal(repro.words[i], words[i]);
    }
    assert_null(repro.words[repro.count]);
    assert_int_equal(repro.folder[0], '/');
}

static void a_shell_reads_the_same(void **state)
{
    (void)state;
    static const char *const words[] = {"x", "it's", "$HOME `id` \"q\" \\ *", "a&&b;c|d", ""};
    char line[SIM_REPRO_BYTES_MAX];
    char command[SIM_REPRO_BYTES_MAX + 64];
    char got[512];
    sim_repro_write((int)TEST_COUNT(words), (char *const *)(uintptr_t)words, line);
    char *program = strstr(line, "walle-fleet-sim");
    assert_non_null(program);
    (void)snprintf(command, sizeof(command), "printf '<%%s>'%s",
                   program + strlen("walle-fleet-sim"));
    FILE *shell = popen(command, "r");
    assert_non_null(shell);
    size_t size = fread(got, 1, sizeof(got) - 1, shell);
    got[size] = '\0';
    assert_int_equal(pclose(shell), 0);
    assert_string_equal(got, "<it's><$HOME `id` \"q\" \\ *><a&&b;c|d><>");
}

static void words_alone_are_quoted_alike(void **state)
{
    (void)state;
    static const char *const words[] = {"run", "--out", "it's here", "os == \"a\"", "~", NULL};
    char line[64];
    sim_repro_words(words, line, sizeof(line));
    assert_string_equal(line, "run --out 'it'\\''s here' 'os == \"a\"' '~'");
    sim_repro_words(words, line, strlen("run --out"));
    assert_string_equal(line, "");
}

static void what_is_no_line_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "walle-fleet-sim run",
                                        "cd /x && walle-fleet-sim",
                                        "cd /x && rm -rf run",
                                        "cd /x ; walle-fleet-sim run",
                                        "cd /x && walle-fleet-sim run 'open"};
    static struct sim_repro repro;
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        if (sim_repro_read(lines[i], &repro) != BASE_ERR_INVALID) {
            fail_msg("'%s' was taken", lines[i]);
        }
    }
    static char many[SIM_REPRO_WORDS_MAX * 2 + 64];
    size_t at = (size_t)snprintf(many, sizeof(many), "cd /x && walle-fleet-sim");
    for (uint32_t i = 0; i < SIM_REPRO_WORDS_MAX - 1; i++) {
        at += (size_t)snprintf(many + at, sizeof(many) - at, " a");
    }
    assert_int_equal(sim_repro_read(many, &repro), BASE_OK);
    (void)snprintf(many + at, sizeof(many) - at, " a");
    assert_int_equal(sim_repro_read(many, &repro), BASE_ERR_INVALID);
}

static void half_a_line_is_none(void **state)
{
    (void)state;
    static char word[SIM_REPRO_BYTES_MAX];
    char line[SIM_REPRO_BYTES_MAX];
    const char *words[] = {"x", word};
    memset(word, 'a', sizeof(word) - 1);
    sim_repro_write(2, (char *const *)(uintptr_t)words, line);
    assert_string_equal(line, "");
    memset(word, '\'', sizeof(word) - 1); // four bytes each
    word[SIM_REPRO_BYTES_MAX / 4] = '\0';
    sim_repro_write(2, (char *const *)(uintptr_t)words, line);
    assert_string_equal(line, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_come_back),
        cmocka_unit_test(a_shell_reads_the_same),
        cmocka_unit_test(words_alone_are_quoted_alike),
        cmocka_unit_test(what_is_no_line_is_refused),
        cmocka_unit_test(half_a_line_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
