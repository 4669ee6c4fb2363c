// Point 17: text from outside as it is shown, and the guard of standard output.
#include "test_kit.h"

#include "base/text/terminal.h"
#include "base/visible.h"

#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_MAX 65536u

static void texts(void **state)
{
    (void)state;
    static const struct {
        struct base_str text;
        const char *shown;
    } rows[] = {
        {BASE_STR(""), ""},
        {BASE_STR("plain ~ text"), "plain ~ text"},
        {BASE_STR("gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x98\x80"),
         "gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x98\x80"},
        {BASE_STR("\x1b]0;t\x07"), "\\u001b]0;t\\u0007"},
        {BASE_STR("a\nb\tc\rd"), "a\\u000ab\\u0009c\\u000dd"},
        {BASE_STR("\0"), "\\u0000"},
        {BASE_STR("\x7f"), "\\u007f"},
        {BASE_STR("\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0"), "\\u0080\\u009b\\u009f\xc2\xa0"},
        {BASE_STR("\xe2\x80\xae\xe2\x80\xaa\xe2\x80\xaf"), "\\u202e\\u202a\xe2\x80\xaf"},
        {BASE_STR("\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xb0"), "\\u2066\\u2069\xe2\x81\xb0"},
        // What has no width, or no shape.
        {BASE_STR("a\xe2\x80\x8b\xe2\x80\x8c\xe2\x80\x8d"), "a\\u200b\\u200c\\u200d"},
        {BASE_STR("\xef\xbb\xbf\xc2\xad\xe2\x81\xa0\xe2\x81\xa4"), "\\ufeff\\u00ad\\u2060\\u2064"},
        {BASE_STR("\xcd\x8f\xe3\x85\xa4\xef\xb8\x8f"), "\\u034f\\u3164\\ufe0f"},
        {BASE_STR("\xf3\xa0\x81\x81"), "\\udb40\\udc41"}, // a tag: two surrogates, as in JSON
        {BASE_STR("\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c"), "\\u200e\\u200f\\u061c"},
        {BASE_STR("\xe2\x80\xa8\xe2\x80\xa9"), "\\u2028\\u2029"},
        {BASE_STR("\xff\x80"), "\\xff\\x80"},
        {BASE_STR("\xc0\x9b"), "\\xc0\\x9b"},                   // overlong
        {BASE_STR("\xe0\x80\x9b"), "\\xe0\\x80\\x9b"},          // overlong
        {BASE_STR("\xed\xa0\x80"), "\\xed\\xa0\\x80"},          // a surrogate
        {BASE_STR("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"}, // past U+10FFFF
        {BASE_STR("\xe2\x82"), "\\xe2\\x82"},                   // cut
        {BASE_STR("\xe2\x82\x1b"), "\\xe2\\x82\\u001b"},
        {BASE_STR("\x9b"), "\\x9b"}, // the C1 of eight-bit terminals
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        char shown[256];
        size_t size = base_visible_text(rows[i].text, shown, sizeof shown);
        assert_string_equal(shown, rows[i].shown);
        assert_int_equal(size, strlen(rows[i].shown));
        bool same = size == rows[i].text.size && memcmp(shown, rows[i].text.data, size) == 0;
        assert_int_equal(base_visible_is(rows[i].text), same);
    }
}

static void cuts_between_characters(void **state)
{
    (void)state;
    char shown[8];
    assert_int_equal(base_visible_text(BASE_STR("ab\x1b\x1b"), shown, 8), 2);
    assert_string_equal(shown, "ab");
    assert_int_equal(base_visible_text(BASE_STR("a\x1b\x1b"), shown, 8), 7);
    assert_string_equal(shown, "a\\u001b");
    assert_int_equal(base_visible_text(BASE_STR("a"), shown, 1), 0);
    assert_string_equal(shown, "");
}

// What is shown of any bytes is UTF-8 without effects, and showing it again changes nothing.
static void any_bytes_are_harmless(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 17);
    for (unsigned round = 0; round < 20000; round++) {
        char bytes[24];
        char shown[sizeof bytes * BASE_VISIBLE_MAX + 1];
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = (char)base_prng_next(&prng);
        }
        size_t size =
            base_visible_text((struct base_str){bytes, sizeof bytes}, shown, sizeof shown);
        assert_true(base_visible_is((struct base_str){shown, size}));
        for (size_t i = 0; i < size; i++) {
            assert_true((unsigned char)shown[i] >= 0x20 && shown[i] != 0x7f);
        }
    }
}

// Runs `print` with a guarded standard output and error in a child; returns what arrived.
static size_t guarded(void (*print)(void), char out[OUTPUT_MAX])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    (void)fflush(stdout);
    (void)fflush(stderr);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        base_terminal_guard();
        print();
        (void)fflush(stdout);
        (void)fflush(stderr);
        _exit(0);
    }
    (void)close(ends[1]);
    size_t size = 0;
    for (ssize_t step = 1; step > 0; size += step > 0 ? (size_t)step : 0) {
        step = read(ends[0], out + size, OUTPUT_MAX - 1 - size);
    }
    (void)close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    out[size] = '\0';
    return size;
}

static void print_some(void)
{
    printf("a\t%s\n", "\x1b[2J");
    (void)fflush(stdout);
    (void)fputs("b \xc2", stdout); // a character in two pieces, with an effect
    (void)fflush(stdout);
    (void)fputs("\x9b \xe2\x82", stdout);
    (void)fflush(stdout);
    (void)fputs("\xac\n", stdout); // ... and without
    base_terminal_control(stdout, "\x1b[K");
    base_terminal_text(stdout, BASE_STR("one\ntwo\n"));
    (void)fputs("\n", stdout);
    (void)fflush(stdout);
    fprintf(stderr, "%c\n", 27);
    perror("\x1b");
}

static void the_guard_shows_what_is_printed(void **state)
{
    (void)state;
    char out[OUTPUT_MAX];
    (void)guarded(print_some, out);
    const char *expected =
        "a\t\\u001b[2J\nb \\u009b \xe2\x82\xac\n\x1b[Kone\\u000atwo\\u000a\n\\u001b\n"
        "\\u001b: ";
    assert_memory_equal(out, expected, strlen(expected));
}

static void print_much(void)
{
    for (unsigned i = 0; i < 2000; i++) {
        (void)fputs("\x1b\xe2\x82\xac", stdout); // so that chunks end everywhere
    }
}

static void long_output_arrives_whole(void **state)
{
    (void)state;
    char out[OUTPUT_MAX];
    assert_int_equal(guarded(print_much, out), 2000 * 9);
    for (unsigned i = 0; i < 2000; i++) {
        assert_memory_equal(out + 9 * (size_t)i, "\\u001b\xe2\x82\xac", 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(cuts_between_characters),
        cmocka_unit_test(any_bytes_are_harmless),
        cmocka_unit_test(the_guard_shows_what_is_printed),
        cmocka_unit_test(long_output_arrives_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
