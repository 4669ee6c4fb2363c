// W3C Trace Context: what is a trace, what is none, and what is said of the answer.
#include "test_kit.h"

#include "infer/trace/trace_context.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"

static void test_read(void **state)
{
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"00-" TRACE "-" SPAN "-01", true},
        {"00-" TRACE "-" SPAN "-00", true},
        {"cc-" TRACE "-" SPAN "-09", true},
        {"cc-" TRACE "-" SPAN "-01-what-comes", true},
        {"cc-" TRACE "-" SPAN "-01what", false},
        {"00-" TRACE "-" SPAN "-01-", false},
        {"ff-" TRACE "-" SPAN "-01", false},
        {"00-" TRACE "-" SPAN "-1", false},
        {"00-" TRACE "-" SPAN "_01", false},
        {"00_" TRACE "-" SPAN "-01", false},
        {"00-" TRACE "_" SPAN "-01", false},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01", false},
        {"00-00000000000000000000000000000000-" SPAN "-01", false},
        {"00-" TRACE "-0000000000000000-01", false},
        {"00-" TRACE "-" SPAN "-0g", false},
        {"", false},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct gw_trace_context context = {.flags = 0xee};
        bool good = gw_trace_context_read(base_str_of(cases[i].text), &context) == BASE_OK;
        if (good != cases[i].good) {
            fail_msg("%s: %d", cases[i].text, good);
        }
        if (good) {
            assert_string_equal(context.trace, TRACE);
            assert_string_equal(context.span, SPAN);
        } else {
            assert_int_equal(context.flags, 0xee); // nothing was written
        }
    }
}

static void test_write(void **state)
{
    struct gw_trace_context context;
    char text[GW_TRACE_PARENT_BYTES + 1];
    (void)state;
    assert_int_equal(gw_trace_context_read(BASE_STR("cc-" TRACE "-" SPAN "-09"), &context),
                     BASE_OK);
    gw_trace_context_write(&context, 0x1234, text);
    assert_string_equal(text, "00-" TRACE "-0000000000001234-01"); // of the flags what 00 knows
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
