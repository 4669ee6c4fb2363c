// Events: kinds, the keyed hash, attributes there and back, and everything that is refused.
#include "test_kit.h"

#include "pipeline/record/event.h"
#include "pipeline/record/event_names.h"
#include "wire/event_attrs.h"
#include "wire/wiretext.h"

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

// A name that comes twice is found at any distance, also among names that share its mark.
static void names_that_come_twice_are_found(void **state)
{
    (void)state;
    uint8_t bytes[DEV_EVENT_ATTRS_BYTES];
    char names[DEV_EVENT_ATTRS_MAX][32];
    struct dev_event_attr attrs[DEV_EVENT_ATTRS_MAX];
    size_t size = 0;
    for (unsigned i = 0; i < TEST_COUNT(attrs); i++) { // the same ends and size: one mark
        int n = snprintf(names[i], sizeof(names[i]), "the_same%02uends_of_it", i);
        attrs[i] = (struct dev_event_attr){.name = {names[i], (size_t)n}, .type = DEV_ATTR_BOOLEAN};
        assert_int_equal(dev_event_mark(attrs[i].name), dev_event_mark(attrs[0].name));
    }
    assert_int_equal(dev_event_attrs_encode(attrs, 64, bytes, sizeof(bytes), &size), BASE_OK);
    for (unsigned length = 1; length <= DEV_EVENT_NAME_MAX; length++) {
        for (unsigned i = 0; i < TEST_COUNT(attrs); i++) {
            attrs[i].name = (struct base_str){names[i], (size_t)snprintf(names[i], 32, "n%u", i)};
        }
        char once[DEV_EVENT_NAME_MAX];
        char again[DEV_EVENT_NAME_MAX];
        memset(once, 'x', sizeof(once));
        memset(again, 'x', sizeof(again));
        unsigned first = length % 31;
        unsigned second = 63 - length % 32;
        attrs[first].name = (struct base_str){once, length};
        attrs[second].name = (struct base_str){again, length};
        assert_int_equal(dev_event_attrs_encode(attrs, 64, bytes, sizeof(bytes), &size),
                         BASE_ERR_INVALID);
        again[length / 2] = 'y';
        assert_int_equal(dev_event_attrs_encode(attrs, 64, bytes, sizeof(bytes), &size), BASE_OK);
    }
}

// Marks tell most names apart: what the gate of a recorder is for.
static void marks_are_spread(void **state)
{
    (void)state;
    struct dev_event_names names = {0};
    unsigned used = 0;
    for (unsigned i = 0; i < DEV_EVENT_MARKS; i++) {
        char name[16];
        int size = snprintf(name, sizeof(name), "%s%u", i % 2 == 0 ? "a" : "attribute_", i);
        uint32_t mark = dev_event_mark((struct base_str){name, (size_t)size});
        assert_true(mark < DEV_EVENT_MARKS);
        names.marks[mark / 64] |= UINT64_C(1) << mark % 64;
    }
    for (unsigned i = 0; i < DEV_EVENT_MARKS; i++) {
        used += (names.marks[i / 64] >> i % 64 & 1) != 0 ? 1 : 0;
    }
    print_message("%u marks of %u names\n", used, DEV_EVENT_MARKS);
    assert_true(used > DEV_EVENT_MARKS / 2); // 63 % of them by chance
}

// Byte by byte, as the rules are written down.
static bool name_fine(const char *name, size_t size)
{
    bool fine = size > 0 && size <= DEV_EVENT_NAME_MAX && name[0] >= 'a' && name[0] <= 'z';
    for (size_t i = 1; fine && i < size; i++) {
        char c = name[i];
        fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    }
    return fine;
}

// Every byte at every place of texts of every length up to four words, in memory that ends there.
static void texts_are_looked_at_to_the_last_byte(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 33; size++) {
        for (size_t at = 0; at < (size > 0 ? size : 1); at++) {
            for (unsigned byte = 0; byte < 256; byte++) {
                char text[40];
                memset(text, 'q', sizeof(text));
                text[at] = (char)byte;
                uint8_t *exact = test_exact((const uint8_t *)text, size);
                struct base_str given = {(const char *)exact, size};
                bool whole = size == 0 || byte < 0x80;
                bool shown = size == 0 || (byte >= 0x20 && byte < 0x7f);
                assert_int_equal(wire_text_utf8(given), whole);
                assert_int_equal(wire_text_printable(given), shown);
                assert_int_equal(wire_event_name_ok(given), name_fine((char *)exact, size));
                free(exact);
            }
        }
        for (size_t at = 0; at + 3 <= size; at++) { // a character of three bytes, whole and cut
            char text[40];
            memset(text, 'q', sizeof(text));
            memcpy(text + at, "\xe2\x82\xac", 3);
            struct base_str given = {text, size};
            assert_true(wire_text_printable(given));
            text[at + 2] = 'q';
            assert_false(wire_text_printable(given));
            assert_false(wire_text_utf8(given));
        }
    }
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
        cmocka_unit_test(names_that_come_twice_are_found),
        cmocka_unit_test(marks_are_spread),
        cmocka_unit_test(texts_are_looked_at_to_the_last_byte),
        cmocka_unit_test(damaged_bytes_are_refused_or_walked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
