// The word of rides: what one side writes the other reads, and nothing that is nearly that.
#include "test_kit.h"

#include "wire/ride_token.h"

#define SAYS(answer, word) wire_ride_says(base_str_of(answer), 0xa1, base_str_of(word))

static void what_is_written_is_read(void **state)
{
    static const uint64_t tokens[] = {0, 0xa1, UINT64_MAX};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char text[WIRE_RIDE_TEXT + 1];
        char answer[WIRE_RIDE_ANSWER_MAX];
        struct base_str token;
        wire_ride_text(tokens[i], text);
        assert_int_equal(wire_ride_token(base_str_of(text), &token), BASE_OK);
        size_t size = wire_ride_answer(token, BASE_STR("checkin, refused"), answer);
        assert_int_equal(size, WIRE_RIDE_ANSWER_MAX);
        struct base_str said = {answer, size};
        assert_true(wire_ride_says(said, tokens[i], BASE_STR("checkin")));
        assert_true(wire_ride_says(said, tokens[i], BASE_STR("refused")));
        assert_false(wire_ride_says(said, tokens[i], BASE_STR("report")));
        assert_false(wire_ride_says(said, tokens[i] ^ 1, BASE_STR("checkin")));
    }
}

static void what_is_no_request(void **state)
{
    static const char *const texts[] = {"",
                                        "1",
                                        "1 ",
                                        "2 00000000000000a1",
                                        "1 00000000000000A1",
                                        "1 0000000000000a1",
                                        "1 00000000000000a10",
                                        "1  0000000000000a1",
                                        " 1 0000000000000a1",
                                        "1 00000000000000g1"};
    struct base_str token;
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(wire_ride_token(base_str_of(texts[i]), &token), BASE_ERR_INVALID);
    }
}

static void what_says_nothing(void **state)
{
    (void)state;
    assert_true(SAYS("00000000000000a1 checkin", "checkin"));
    assert_true(SAYS("00000000000000a1 x, checkin", "checkin"));
    assert_false(SAYS("", "checkin"));
    assert_false(SAYS("checkin", "checkin"));
    assert_false(SAYS("00000000000000a1", "checkin"));
    assert_false(SAYS("00000000000000a1 ", "checkin"));
    assert_false(SAYS("00000000000000a1 checkins", "checkin"));
    assert_false(SAYS("00000000000000a1checkin", "checkin"));
    assert_false(SAYS("00000000000000a1,checkin", "checkin"));
    assert_false(SAYS("00000000000000A1 checkin", "checkin"));
    assert_false(SAYS("00000000000000a2 checkin", "checkin"));
    assert_false(SAYS(" 00000000000000a1 checkin", "checkin"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_no_request),
        cmocka_unit_test(what_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
