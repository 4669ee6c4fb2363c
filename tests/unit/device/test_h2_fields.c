// Which fields of requests a connection puts into its compression table: none before it is busy,
// then the first value of a name until another one comes, no secrets, nothing long.
#include "h2/h2_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void make_busy(struct h2_fields *fields)
{
    memset(fields, 0, sizeof(*fields));
    for (int i = 0; i < H2_FIELDS_BUSY; i++) {
        h2_fields_request(fields);
    }
}

static bool indexed(struct h2_fields *fields, const char *name, const char *value)
{
    return h2_fields_index(fields, base_str_of(name), base_str_of(value));
}

static void test_a_quiet_connection_keeps_nothing(void **state)
{
    (void)state;
    struct h2_fields fields = {0};
    for (int i = 1; i < H2_FIELDS_BUSY; i++) {
        h2_fields_request(&fields);
        assert_false(indexed(&fields, "walle-device", "00000000000004d2"));
    }
    assert_int_equal(fields.count, 0);
    h2_fields_request(&fields);
    assert_true(indexed(&fields, "walle-device", "00000000000004d2"));
}

static void test_what_stays_is_said_in_short(void **state)
{
    (void)state;
    struct h2_fields fields;
    make_busy(&fields);
    for (int i = 0; i < 5; i++) {
        assert_true(indexed(&fields, "walle-device", "00000000000004d2"));
        assert_true(indexed(&fields, "walle-profile", "AAAA"));
    }
    assert_int_equal(fields.count, 2);
}

static void test_what_varies_goes_beside(void **state)
{
    (void)state;
    struct h2_fields fields;
    make_busy(&fields);
    assert_true(indexed(&fields, "walle-device", "00000000000004d2"));
    assert_true(indexed(&fields, "walle-profile", "AAAA"));
    assert_false(indexed(&fields, "walle-device", "00000000000004d3"));
    assert_false(indexed(&fields, "walle-device", "00000000000004d3"));
    assert_false(indexed(&fields, "walle-device", "00000000000004d2")); // also the first one again
    assert_true(indexed(&fields, "walle-profile", "AAAA"));
    assert_int_equal(fields.count, 2);
}

static void test_secrets_never(void **state)
{
    (void)state;
    static const char *const names[] = {"walle-credential", "authorization", "walle-enroll-key"};
    struct h2_fields fields;
    make_busy(&fields);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_false(indexed(&fields, names[i], "wdc_abc"));
        assert_false(indexed(&fields, names[i], "wdc_abc"));
    }
    assert_int_equal(fields.count, 0);
}

static void test_long_values_never(void **state)
{
    (void)state;
    char text[H2_FIELDS_VALUE_MAX + 2];
    struct h2_fields fields;
    make_busy(&fields);
    memset(text, 'x', sizeof(text));
    text[H2_FIELDS_VALUE_MAX + 1] = '\0';
    assert_false(indexed(&fields, "walle-report", text));
    text[H2_FIELDS_VALUE_MAX] = '\0';
    assert_true(indexed(&fields, "walle-report", text));
}

static void test_names_are_bounded(void **state)
{
    (void)state;
    struct h2_fields fields;
    make_busy(&fields);
    for (int i = 0; i < 3 * H2_FIELDS_NAMES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "name-%d", i);
        assert_int_equal(indexed(&fields, name, "v"), i < H2_FIELDS_NAMES_MAX);
    }
    assert_true(indexed(&fields, "name-0", "v"));
    assert_int_equal(fields.count, H2_FIELDS_NAMES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_quiet_connection_keeps_nothing),
        cmocka_unit_test(test_what_stays_is_said_in_short),
        cmocka_unit_test(test_what_varies_goes_beside),
        cmocka_unit_test(test_secrets_never),
        cmocka_unit_test(test_long_values_never),
        cmocka_unit_test(test_names_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
