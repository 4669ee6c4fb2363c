// Enrolments: layout, limits, damage.
#include "wire_damage.h"
#include "wire_samples.h"

#include "wire/enrolment.h"

static void bytes_are_as_documented(void **state)
{
    (void)state;
    static const uint8_t wanted[] = {1, 0xd2, 4, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c'};
    struct wire_enrolment enrolment = {.device_id = 0x4d2, .credential = BASE_STR("abc")};
    uint8_t bytes[WIRE_ENROLMENT_BYTES_MAX];
    size_t size = 0;
    assert_int_equal(wire_enrolment_encode(&enrolment, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    assert_int_equal(wire_enrolment_encode(&enrolment, bytes, size - 1, &size), BASE_ERR_TOO_LARGE);
    struct wire_enrolment back;
    assert_int_equal(wire_enrolment_parse(wanted, sizeof wanted, &back), BASE_OK);
    assert_true(back.device_id == 0x4d2);
    assert_int_equal(back.credential.size, 3);
}

static void limits_hold(void **state)
{
    (void)state;
    char text[WIRE_CREDENTIAL_MAX + 1];
    uint8_t bytes[WIRE_ENROLMENT_BYTES_MAX + 1];
    size_t size = 0;
    memset(text, '~', sizeof text);
    struct wire_enrolment enrolment = {.credential = {text, WIRE_CREDENTIAL_MAX}};
    assert_int_equal(wire_enrolment_encode(&enrolment, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, WIRE_ENROLMENT_BYTES_MAX);
    assert_int_equal(wire_check_enrolment(bytes, size), BASE_OK);
    enrolment.credential.size = sizeof text;
    assert_int_equal(wire_enrolment_encode(&enrolment, bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID);
    enrolment.credential.size = 0;
    assert_int_equal(wire_enrolment_encode(&enrolment, bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID);
    static const char bad[] = {' ', '\n', '\0', 0x7f, (char)0x80};
    for (size_t i = 0; i < sizeof bad; i++) {
        enrolment.credential = (struct base_str){&bad[i], 1};
        assert_int_equal(wire_enrolment_encode(&enrolment, bytes, sizeof bytes, &size),
                         BASE_ERR_INVALID);
    }
}

static void damage_is_refused_or_read(void **state)
{
    (void)state;
    uint8_t bytes[WIRE_ENROLMENT_BYTES_MAX];
    size_t size = 0;
    struct wire_enrolment enrolment = {.device_id = 1, .credential = BASE_STR("wdt_secret")};
    assert_int_equal(wire_enrolment_encode(&enrolment, bytes, sizeof bytes, &size), BASE_OK);
    struct base_prng prng;
    test_seed(&prng);
    wire_damage(&prng, bytes, size, wire_check_enrolment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_documented),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(damage_is_refused_or_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
