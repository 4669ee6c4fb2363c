// Patterns as text: the normal form, where errors are, and that printing and parsing agree.
#include "test_kit.h"

#include "trigger_rig.h"

static void check(const char *text, const char *expected)
{
    struct dev_pattern pattern;
    struct base_error error = {0};
    char *copy = (char *)test_exact(text, strlen(text));
    struct base_str given = {copy, strlen(text)};
    char out[DEV_PATTERN_PRINTED_MAX + 1];
    size_t size = 0;
    if (dev_pattern_parse(given, &pattern, &error) != BASE_OK) {
        snprintf(out, sizeof out, "%u:%u %s: %s", error.line, error.column,
                 base_status_name(error.status), error.text);
    } else {
        assert_int_equal(dev_pattern_print(&pattern, out, DEV_PATTERN_PRINTED_MAX, &size), BASE_OK);
        out[size] = '\0';
        for (size_t i = 0; i < size; i++) {
            size_t used;
            char less[DEV_PATTERN_PRINTED_MAX];
            assert_int_equal(dev_pattern_print(&pattern, less, i, &used), BASE_ERR_TOO_LARGE);
        }
    }
    assert_string_equal(out, expected);
    free(copy);
}

static void normal_forms(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"enter(home) * click(home, \"buy\") within 30s",
         "enter(\"home\") * click(\"home\", item=\"buy\") within 30s"},
        {"exposure(item=*)", "exposure(item=*)"},
        {"exposure(*, *)", "exposure(item=*)"},
        {"click(page=*)", "click"},
        {"click()", "click"},
        {"* * click * *", "click"},
        {"click * ? * ? exit", "click ? ? * exit"},
        {"click *{1,3} ? exit", "click ? ? *{0,2} exit"},
        {"click *{1,3} * exit", "click ? * exit"},
        {"click *{2,2} exit", "click ? ? exit"},
        {"click *{0,0} exit", "click exit"},
        {"*{1,3} click *{1,3}", "? click ?"},
        {"? * click ? *", "? click ?"},
        {"? ? every-event", "? ? every-event"},
        {"click every-event each", "click"},
        {"click cooldown 90s within 3600000ms page reset",
         "click within 1h page cooldown 90s reset"},
        {"click max 5 / day once per visit", "click max 5/day once per visit"},
        {"click * exit or  timeout within 60s reset page",
         "click * exit within 1m page reset or timeout"},
        {"click(b == \"x\", a >= 1.50, b == \"x\", a >= 2, ok != true)",
         "click(a >= 2, a >= 1.5, b == \"x\", ok != true)"},
        {"click(a<-0.070)", "click(a < -0.07)"},
        {"click(a == 10.0)", "click(a == 10)"},
        {"custom:share(detail) custom", "custom:share(\"detail\") custom"},
        {"any(item='say \"hi\"')", "any(item='say \"hi\"')"},
        {"any(item=\"it's\")", "any(item=\"it's\")"},
        {"click same(item) * exit same(item)", "click same(item) * exit same(item)"},
        {"click(item=x) same ( item)", "1:15 INVALID: expected same(item)"},
        {"click not exit(home) before next click", "click not exit(\"home\") before next click"},
        {"click * not exit before next * click", "click not exit before next click"},
        {"click\n * exit(\n b )", "click * exit(\"b\")"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        check(cases[i][0], cases[i][1]);
    }
}

static void errors_have_places(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"click(", "1:7 INVALID: expected a text or *"},
        {"click(home", "1:11 INVALID: expected , or )"},
        {"click(home home)", "1:12 INVALID: expected , or )"},
        {"click(a, b, c)", "1:13 INVALID: the item is given twice"},
        {"click(a, page=b)", "1:10 INVALID: the page is given twice"},
        {"click(size=3)", "1:7 INVALID: expected page= or item=; a test of an attribute has =="},
        {"click(a == )", "1:12 INVALID: expected a number, text or truth value"},
        {"click(a == 1.)", "1:12 INVALID: expected a number, text or truth value"},
        {"click(a == 1234567890123456)", "1:12 TOO_LARGE: a number has over 15 digits"},
        {"click(a > true)", "1:11 INVALID: truth values have no order"},
        {"click(A == 1)", "1:7 INVALID: an attribute's name is [a-z][a-z0-9_.]*, at most 32 bytes"},
        {"click(\"x)", "1:7 INVALID: text without its closing quote"},
        {"click(\"\")", "1:7 INVALID: a page has 1 to 64 bytes"},
        {"click(\"\xc3\xbc\", \"\x01\")", "1:13 INVALID: control character in a text"},
        {"custom:Share",
         "1:8 INVALID: a custom event's name is [a-z][a-z0-9_.]*, at most 32 bytes"},
        {"click\n  tap", "2:3 INVALID: expected a step (enter, scroll, exposure, click, exit, "
                         "custom, any, ?, *) or a clause"},
        {"click page tap", "1:12 INVALID: expected a clause or the end"},
        {"click page page", "1:12 INVALID: a clause is given twice"},
        {"click within 8d", "1:14 TOO_LARGE: within is above 7d"},
        {"click within 0s", "1:14 INVALID: within of nothing"},
        {"click within 5", "1:14 INVALID: within ends with ms, s, m, h or d"},
        {"click within s", "1:14 INVALID: expected a number: within"},
        {"click cooldown 99999999999s", "1:16 TOO_LARGE: cooldown is above 4294967295"},
        {"click max 0/day", "1:11 INVALID: expected: max N/day, N at least 1"},
        {"click max 5/hour", "1:11 INVALID: expected: max N/day, N at least 1"},
        {"click max 10001/day", "1:11 TOO_LARGE: n of max n/day is above 10000"},
        {"click once per day", "1:19 INVALID: expected: once per visit"},
        {"click *{2,1} exit", "1:9 INVALID: m is above n in *{m,n}"},
        {"click *{1,9} exit", "1:11 TOO_LARGE: n of *{m,n} is above 8"},
        {"click *{1 exit", "1:11 INVALID: expected , in *{m,n}"},
        {"click *{0,5} *{0,5} exit", "1:7 TOO_LARGE: a gap varies by over 8 events"},
        {"click *{0,8} exit *{0,8} click",
         "1:1 TOO_LARGE: the *{m,n} can be chosen in over 64 ways"},
        {"not click before next exit", "1:1 INVALID: not .. before next follows a step"},
        {"click not exit", "1:15 INVALID: expected: not STEP before next"},
        {"click not exit before next", "1:7 INVALID: not .. before next has no next"},
        {"click ? not exit before next click",
         "1:7 INVALID: a gap with not .. before next holds nothing else"},
        {"click not exit before next not scroll before next click",
         "1:28 INVALID: one not .. before next to a gap"},
        {"click not exit same(item) before next click same(item) exit same(item)",
         "1:7 INVALID: same(item) of a not needs a step with same(item) before it"},
        {"click same(item)", "1:1 INVALID: same(item) stands at two steps at least"},
        {"any", "1:1 INVALID: any() without a condition is every event: write ?"},
        {"? ? within 3s every-event", "1:1 INVALID: within needs a step that is not ?"},
        {"click * exit or timeout", "1:1 INVALID: or timeout needs within"},
        {"click within 3s or timeout", "1:1 INVALID: or timeout needs a second step"},
        {"click * exit within 3s or time", "1:31 INVALID: expected: or timeout"},
        {"click exit within 3s cooldown 1s or timeout",
         "1:1 INVALID: or timeout stands beside no cooldown, max or once per visit"},
        {"click exit within 3s or timeout or timeout", "1:33 INVALID: a clause is given twice"},
        {"click * * * * * * * ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? ? exit",
         "1:1 TOO_LARGE: 34 steps in normal form, at most 32"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        check(cases[i][0], cases[i][1]);
    }
    char text[DEV_PATTERN_TEXT_MAX + 2];
    memset(text, ' ', sizeof text);
    text[sizeof text - 1] = '\0';
    memcpy(text, "click", 5);
    check(text, "1:1025 TOO_LARGE: a pattern has at most 1024 bytes");
    text[DEV_PATTERN_TEXT_MAX] = '\0';
    check(text, "click");
}

static void random_patterns_print_their_normal_form(void **state)
{
    (void)state;
    static const struct oracle_mix mix = {
        .steps_max = 6, .kinds = 3, .pages = 3, .items = 3, .wild = 30, .gaps = 60, .extras = 40};
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t i = 0; i < 20000; i++) {
        struct oracle_pattern random;
        char text[RIG_TEXT_MAX];
        oracle_random(&prng, &mix, &random);
        oracle_print(&random, text);
        char printed[2][DEV_PATTERN_PRINTED_MAX];
        size_t sizes[2] = {0};
        struct dev_pattern pattern;
        struct base_str given = base_str_of(text);
        for (uint32_t k = 0; k < 2; k++) {
            struct base_error error = {0};
            enum base_status status = dev_pattern_parse(given, &pattern, &error);
            if (status != BASE_OK) {
                print_error("[%.*s] %s\n", (int)given.size, given.data, error.text);
            }
            assert_int_equal(status, BASE_OK);
            assert_int_equal(
                dev_pattern_print(&pattern, printed[k], DEV_PATTERN_PRINTED_MAX, &sizes[k]),
                BASE_OK);
            given = (struct base_str){printed[k], sizes[k]};
        }
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(printed[0], printed[1], sizes[0]);
        assert_int_equal(pattern.step_count, random.count);
        assert_int_equal(pattern.tail, random.tail);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_forms),
        cmocka_unit_test(errors_have_places),
        cmocka_unit_test(random_patterns_print_their_normal_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
