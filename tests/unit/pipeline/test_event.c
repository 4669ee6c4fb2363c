// Events: kinds, the keyed hash, attributes there and back, and everything that is refused.
#include "test_kit.h"

#include "pipeline/record/event.h"
#include "wire/event_attrs.h"

#include <math.h>

static struct base_str text_of(const char *text)
{
    return base_str_of(text);
}

static void kinds_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"enter", "scroll", "exposure", "click", "exit", "custom"};
    for (unsigned i = 0; i < TEST_COUNT(names); i++) {
        enum dev_event_kind kind = DEV_EVENT_KIND_END;
        assert_int_equal(dev_event_kind_parse(text_of(names[i]), &kind), BASE_OK);
        assert_int_equal(kind, DEV_EVENT_ENTER + i);
        assert_string_equal(dev_event_kind_name(kind), names[i]);
    }
    enum dev_event_kind kind = DEV_EVENT_CLICK;
    assert_int_equal(dev_event_kind_parse(text_of("tap"), &kind), BASE_ERR_NOT_FOUND);
    assert_int_equal(dev_event_kind_parse(text_of(""), &kind), BASE_ERR_NOT_FOUND);
    assert_int_equal(kind, DEV_EVENT_CLICK);
    assert_string_equal(dev_event_kind_name((enum dev_event_kind)0), "?");
    assert_string_equal(dev_event_kind_name(DEV_EVENT_KIND_END), "?");
}

static void the_hash_is_keyed_and_never_zero(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    assert_int_equal(dev_event_hash(7, BASE_STR("")), 0);
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t bytes = base_prng_next(&prng);
        struct base_str text = {(const char *)&bytes, 1 + (size_t)base_prng_below(&prng, 8)};
        uint64_t secret = base_prng_next(&prng);
        assert_true(dev_event_hash(secret, text) != 0);
        assert_true(dev_event_hash(secret, text) == dev_event_hash(secret, text));
        assert_true(dev_event_hash(secret, text) != dev_event_hash(secret + 1, text));
    }
}

static const struct dev_event_attr sample[] = {
    {.name = BASE_STR("title"),
     .type = DEV_ATTR_STRING,
     .text = BASE_STR("Gr\xc3\xbc\xc3\x9f\x65\n")},
    {.name = BASE_STR("price"), .type = DEV_ATTR_REAL, .real = -12.5},
    {.name = BASE_STR("a"), .type = DEV_ATTR_INTEGER, .integer = INT64_MIN},
    {.name = BASE_STR("b.c_9"), .type = DEV_ATTR_INTEGER, .integer = 300},
    {.name = BASE_STR("seen"), .type = DEV_ATTR_BOOLEAN, .integer = 1},
    {.name = BASE_STR("none"), .type = DEV_ATTR_STRING},
};

static void attributes_come_back(void **state)
{
    (void)state;
    uint8_t bytes[DEV_EVENT_ATTRS_BYTES];
    size_t size = 0;
    uint32_t count = TEST_COUNT(sample);
    assert_int_equal(dev_event_attrs_encode(sample, count, bytes, sizeof(bytes), &size), BASE_OK);
    static const uint8_t head[] = {5,   't',  'i',  't',  'l',  'e', 0,    8, 'G',
                                   'r', 0xc3, 0xbc, 0xc3, 0x9f, 'e', '\n', 5, 'p'};
    assert_memory_equal(bytes, head, sizeof(head));
    assert_int_equal(wire_event_attrs_check(bytes, size, count), BASE_OK);
    uint8_t *exact = test_exact(bytes, size);
    const struct dev_event event = {
        .attrs = exact, .attrs_bytes = (uint32_t)size, .attr_count = count};
    uint32_t at = 0;
    struct dev_event_attr attr;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(dev_event_attr_next(&event, &at, &attr));
        assert_true(base_str_equal(attr.name, sample[i].name));
        assert_int_equal(attr.type, sample[i].type);
        assert_true(base_str_equal(attr.text, sample[i].text));
        assert_true(attr.integer == sample[i].integer);
        assert_true(attr.real == sample[i].real);
    }
    assert_false(dev_event_attr_next(&event, &at, &attr));
    assert_int_equal(dev_event_attr(&event, BASE_STR("b.c_9"), &attr), BASE_OK);
    assert_true(attr.integer == 300);
    assert_int_equal(dev_event_attr(&event, BASE_STR("b"), &attr), BASE_ERR_NOT_FOUND);
    for (size_t room = 0; room < size; room++) {
        assert_int_equal(dev_event_attrs_encode(sample, count, bytes, room, &size),
                         BASE_ERR_TOO_LARGE);
    }
    free(exact);
}

static void bad_attributes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct dev_event_attr attr;
    } rows[] = {
        {"no name", {.type = DEV_ATTR_BOOLEAN}},
        {"upper case", {.name = BASE_STR("Price"), .type = DEV_ATTR_BOOLEAN}},
        {"digit first", {.name = BASE_STR("9a"), .type = DEV_ATTR_BOOLEAN}},
        {"dash", {.name = BASE_STR("a-b"), .type = DEV_ATTR_BOOLEAN}},
        {"33 bytes",
         {.name = BASE_STR("abcdefghijklmnopqrstuvwxyz0123456"), .type = DEV_ATTR_BOOLEAN}},
        {"boolean 2", {.name = BASE_STR("a"), .type = DEV_ATTR_BOOLEAN, .integer = 2}},
        {"no number", {.name = BASE_STR("a"), .type = DEV_ATTR_REAL, .real = NAN}},
        {"infinite", {.name = BASE_STR("a"), .type = DEV_ATTR_REAL, .real = -INFINITY}},
        {"type 4", {.name = BASE_STR("a"), .type = (enum dev_attr_type)4}},
        {"overlong",
         {.name = BASE_STR("a"), .type = DEV_ATTR_STRING, .text = BASE_STR("\xc0\x80")}},
        {"surrogate",
         {.name = BASE_STR("a"), .type = DEV_ATTR_STRING, .text = BASE_STR("\xed\xa0\x80")}},
    };
    uint8_t bytes[DEV_EVENT_ATTRS_BYTES];
    size_t size = 77;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        enum base_status got =
            dev_event_attrs_encode(&rows[i].attr, 1, bytes, sizeof(bytes), &size);
        if (got != BASE_ERR_INVALID) {
            fail_msg("%s: %s", rows[i].what, base_status_name(got));
        }
    }
    struct dev_event_attr twice[2] = {sample[3], sample[3]};
    assert_int_equal(dev_event_attrs_encode(twice, 2, bytes, sizeof(bytes), &size),
                     BASE_ERR_INVALID);
    struct dev_event_attr many[DEV_EVENT_ATTRS_MAX + 1];
    char names[DEV_EVENT_ATTRS_MAX + 1][8];
    for (unsigned i = 0; i < TEST_COUNT(many); i++) {
        int n = snprintf(names[i], sizeof(names[i]), "a%u", i);
        many[i] = (struct dev_event_attr){.name = {names[i], (size_t)n}, .type = DEV_ATTR_BOOLEAN};
    }
    assert_int_equal(dev_event_attrs_encode(many, TEST_COUNT(many), bytes, sizeof(bytes), &size),
                     BASE_ERR_TOO_LARGE);
    assert_int_equal(size, 77);
    assert_int_equal(dev_event_attrs_encode(many, 64, bytes, sizeof(bytes), &size), BASE_OK);
    static char text[DEV_EVENT_ATTRS_BYTES];
    memset(text, 'x', sizeof(text));
    struct dev_event_attr large = {
        .name = BASE_STR("a"), .type = DEV_ATTR_STRING, .text = {text, sizeof(text)}};
    assert_int_equal(dev_event_attrs_encode(&large, 1, bytes, sizeof(bytes), &size),
                     BASE_ERR_TOO_LARGE);
    large.text.size = DEV_EVENT_ATTRS_BYTES - 5; // name 2, type 1, size 2
    assert_int_equal(dev_event_attrs_encode(&large, 1, bytes, sizeof(bytes), &size), BASE_OK);
    assert_int_equal(size, DEV_EVENT_ATTRS_BYTES);
    assert_int_equal(wire_event_attrs_check(bytes, size, 1), BASE_OK);
}

// Whatever the check accepts can be walked to its end, with as many attributes as it said.
static void damaged_bytes_are_refused_or_walked(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    uint8_t good[DEV_EVENT_ATTRS_BYTES];
    size_t size = 0;
    uint32_t count = TEST_COUNT(sample);
    assert_int_equal(dev_event_attrs_encode(sample, count, good, sizeof(good), &size), BASE_OK);
    unsigned accepted = 0;
    for (unsigned round = 0; round < 50000; round++) {
        size_t cut = base_prng_below(&prng, 4) == 0 ? (size_t)base_prng_below(&prng, size) : size;
        uint8_t *bytes = test_exact(good, cut);
        for (unsigned change = 0; change < 2 && cut > 0; change++) {
            bytes[base_prng_below(&prng, cut)] = (uint8_t)base_prng_next(&prng);
        }
        uint32_t claimed = (uint32_t)base_prng_below(&prng, count + 2);
        if (wire_event_attrs_check(bytes, cut, claimed) == BASE_OK) {
            accepted++;
            const struct dev_event event = {
                .attrs = bytes, .attrs_bytes = (uint32_t)cut, .attr_count = claimed};
            uint32_t at = 0;
            uint32_t walked = 0;
            struct dev_event_attr attr;
            while (dev_event_attr_next(&event, &at, &attr)) {
                walked++;
            }
            assert_int_equal(walked, claimed);
            assert_int_equal(at, cut);
        }
        free(bytes);
    }
    assert_true(accepted > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(the_hash_is_keyed_and_never_zero),
        cmocka_unit_test(attributes_come_back),
        cmocka_unit_test(bad_attributes_are_refused),
        cmocka_unit_test(damaged_bytes_are_refused_or_walked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
