// The attribute block: order, codes, limits, one encoding per set.
#include "wire_damage.h"
#include "wire_samples.h"

static size_t write_attrs(struct wire_attrs *attrs, uint8_t out[WIRE_ATTRS_BYTES_MAX],
                          enum base_status wanted)
{
    struct base_writer writer;
    base_writer_init(&writer, out, WIRE_ATTRS_BYTES_MAX);
    wire_attrs_write(&writer, attrs);
    assert_int_equal(writer.status, wanted);
    return base_writer_size(&writer);
}

static void bytes_are_as_documented(void **state)
{
    (void)state;
    struct wire_attrs attrs = {
        .items = {{.name = BASE_STR("os"), .type = WIRE_ATTR_STRING, .text = BASE_STR("linux")},
                  {.name = BASE_STR("beta"), .type = WIRE_ATTR_BOOLEAN, .integer = 1},
                  {.name = BASE_STR("ram_mb"), .type = WIRE_ATTR_INTEGER, .integer = 512}},
        .count = 3,
    };
    static const uint8_t wanted[] = {3, 0,   4,   'b', 'e', 't', 'a', 2, 1,    6,   0,
                                     5, 'l', 'i', 'n', 'u', 'x', 8,   1, 0x80, 0x08};
    uint8_t bytes[WIRE_ATTRS_BYTES_MAX];
    size_t size = write_attrs(&attrs, bytes, BASE_OK);
    assert_int_equal(size, sizeof wanted);
    assert_memory_equal(bytes, wanted, sizeof wanted);
    assert_true(base_str_equal(attrs.items[0].name, BASE_STR("beta"))); // sorted in place

    struct wire_attrs back;
    assert_int_equal(wire_attrs_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.count, 3);
    assert_true(base_str_equal(back.items[1].name, BASE_STR("os")));
    assert_true(base_str_equal(back.items[1].text, BASE_STR("linux")));
    assert_true(back.items[0].integer == 1 && back.items[2].integer == 512);
    uint8_t empty[] = {0};
    assert_int_equal(wire_attrs_parse(empty, 1, &back), BASE_OK);
    assert_int_equal(back.count, 0);
}

static void well_known_codes_are_pinned_and_ordered(void **state)
{
    (void)state;
#define ROW(code, name) {code, name},
    static const struct {
        uint8_t code;
        const char *name;
    } rows[] = {WIRE_ATTR_CODES(ROW)};
#undef ROW
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct wire_attrs attrs = {
            .items = {{.name = base_str_of(rows[i].name), .type = WIRE_ATTR_BOOLEAN}}, .count = 1};
        uint8_t bytes[WIRE_ATTRS_BYTES_MAX];
        assert_int_equal(write_attrs(&attrs, bytes, BASE_OK), 4);
        assert_int_equal(rows[i].code, i + 1);
        assert_int_equal(bytes[1], rows[i].code);
        assert_true(i == 0 || strcmp(rows[i - 1].name, rows[i].name) < 0);
    }
}

static void bad_attributes_are_not_written(void **state)
{
    (void)state;
    char name_33[34] = "abcdefghijklmnopqrstuvwxyzabcdefg";
    char text_65[66];
    memset(text_65, 'x', 65);
    text_65[65] = '\0';
    static const char *const names[] = {"", "A", "a-b", "1a", "_a", ".a", "a b", "\xc3\xa4"};
    uint8_t bytes[WIRE_ATTRS_BYTES_MAX];
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct wire_attrs attrs = {.items = {{.name = base_str_of(names[i])}}, .count = 1};
        (void)write_attrs(&attrs, bytes, BASE_ERR_INVALID);
    }
    struct wire_attrs attrs = {.items = {{.name = base_str_of(name_33)}}, .count = 1};
    (void)write_attrs(&attrs, bytes, BASE_ERR_INVALID);
    attrs.items[0].name = (struct base_str){name_33, 32};
    (void)write_attrs(&attrs, bytes, BASE_OK);
    attrs.items[0].text = base_str_of(text_65);
    (void)write_attrs(&attrs, bytes, BASE_ERR_TOO_LARGE);
    attrs.items[0].text.size = 64;
    (void)write_attrs(&attrs, bytes, BASE_OK);
    attrs.items[0].text = BASE_STR("tab\there");
    (void)write_attrs(&attrs, bytes, BASE_ERR_INVALID);
    attrs.items[0].text = BASE_STR("fine");
    attrs.items[0].type = WIRE_ATTR_TYPE_COUNT;
    (void)write_attrs(&attrs, bytes, BASE_ERR_INVALID);
    attrs.items[0].type = WIRE_ATTR_STRING;
    attrs.items[1] = attrs.items[0];
    attrs.count = 2;
    (void)write_attrs(&attrs, bytes, BASE_ERR_INVALID); // doubled
    attrs.count = WIRE_ATTRS_MAX + 1;
    (void)write_attrs(&attrs, bytes, BASE_ERR_TOO_LARGE);
}

static void too_many_bytes_are_not_written(void **state)
{
    (void)state;
    static struct wire_sample_attrs sample;
    struct base_prng prng;
    test_seed(&prng);
    wire_sample_attrs(&prng, &sample, 20);
    char text[64];
    memset(text, 'x', sizeof text);
    for (uint32_t i = 0; i < 20; i++) {
        sample.attrs.items[i].type = WIRE_ATTR_STRING;
        sample.attrs.items[i].text = (struct base_str){text, sizeof text};
    }
    uint8_t bytes[4096];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof bytes);
    wire_attrs_write(&writer, &sample.attrs);
    assert_int_equal(writer.status, BASE_ERR_TOO_LARGE);
    struct wire_attrs out;
    assert_int_equal(wire_attrs_parse(bytes, WIRE_ATTRS_BYTES_MAX + 1, &out), BASE_ERR_TOO_LARGE);
}

// A block may have exactly WIRE_ATTRS_BYTES_MAX bytes: 1 for the count, seven attributes of 70
// (code, size, name, type, size, text), and one that fills the rest.
static void a_block_may_be_full(void **state)
{
    (void)state;
    char text[64];
    memset(text, 'x', sizeof text);
    static const char *const names[] = {"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"};
    struct wire_attrs attrs = {.count = 8};
    for (size_t i = 0; i < 8; i++) {
        attrs.items[i] = (struct wire_attr){
            .name = base_str_of(names[i]), .type = WIRE_ATTR_STRING, .text = {text, 64}};
    }
    uint8_t bytes[WIRE_ATTRS_BYTES_MAX];
    attrs.items[7].text.size = WIRE_ATTRS_BYTES_MAX - 1 - 7 * 70 - 6;
    assert_int_equal(write_attrs(&attrs, bytes, BASE_OK), WIRE_ATTRS_BYTES_MAX);
    struct wire_attrs back;
    assert_int_equal(wire_attrs_parse(bytes, sizeof bytes, &back), BASE_OK);
    struct wire_profile profile = {.attrs = bytes, .attrs_bytes = sizeof bytes};
    uint8_t out[1024];
    size_t size = 0;
    assert_int_equal(wire_profile_encode(&profile, NULL, out, sizeof out, &size), BASE_OK);
    assert_int_equal(wire_check_profile(out, size), BASE_OK);
}

static void other_encodings_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint8_t bytes[12];
        enum base_status status;
    } rows[] = {
        {0, {0}, BASE_ERR_TRUNCATED},
        {1, {33}, BASE_ERR_TOO_LARGE},                               // too many
        {6, {1, 0, 2, 'o', 's', 2}, BASE_ERR_INVALID},               // a known name spelled out
        {4, {1, 11, 2, 1}, BASE_ERR_INVALID},                        // unknown code
        {4, {1, 6, 3, 0}, BASE_ERR_INVALID},                         // unknown type
        {4, {1, 6, 2, 2}, BASE_ERR_INVALID},                         // neither true nor false
        {7, {2, 6, 2, 1, 6, 2, 1}, BASE_ERR_INVALID},                // doubled
        {7, {2, 8, 2, 1, 6, 2, 1}, BASE_ERR_INVALID},                // descending
        {5, {1, 6, 0, 0x81, 0}, BASE_ERR_INVALID},                   // long varint
        {4, {1, 6, 0, 65}, BASE_ERR_TOO_LARGE},                      // string over the limit
        {4, {1, 0, 33, 'a'}, BASE_ERR_TOO_LARGE},                    // name over the limit
        {5, {1, 0, 0, 2, 1}, BASE_ERR_INVALID},                      // empty name
        {6, {1, 6, 0, 2, 0xc0, 0x80}, BASE_ERR_INVALID},             // overlong UTF-8
        {7, {1, 6, 0, 3, 0xed, 0xa0, 0x80}, BASE_ERR_INVALID},       // surrogate
        {8, {1, 6, 0, 4, 0xf4, 0x90, 0x80, 0x80}, BASE_ERR_INVALID}, // past U+10FFFF
        {8, {1, 6, 0, 4, 0xf0, 0x8f, 0xbf, 0xbf}, BASE_ERR_INVALID}, // overlong, four bytes
        {6, {1, 6, 0, 2, 0xc2, 0x85}, BASE_ERR_INVALID},             // control character U+0085
        {5, {1, 6, 0, 1, 0xe2}, BASE_ERR_INVALID},                   // cut sequence
        {5, {1, 6, 0, 1, 0x7f}, BASE_ERR_INVALID},                   // delete
        {8, {1, 6, 0, 4, 0xf4, 0x8f, 0xbf, 0xbf}, BASE_OK},          // U+10FFFF itself
        {6, {1, 6, 0, 2, 0xc3, 0xa4}, BASE_OK},
        {6, {1, 6, 0, 2, 0xc2, 0xa0}, BASE_OK},                // first behind the controls
        {6, {1, 6, 0, 2, 0xc2, 0x9f}, BASE_ERR_INVALID},       // the last of them
        {7, {1, 6, 0, 3, 0xed, 0x9f, 0xbf}, BASE_OK},          // before the surrogates
        {7, {1, 6, 0, 3, 0xed, 0xbf, 0xbf}, BASE_ERR_INVALID}, // the last surrogate
        {7, {1, 6, 0, 3, 0xee, 0x80, 0x80}, BASE_OK},          // behind them
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct wire_attrs out;
        enum base_status status = wire_attrs_parse(rows[i].bytes, rows[i].size, &out);
        if (status != rows[i].status) {
            fail_msg("row %zu: %s, wanted %s", i, base_status_name(status),
                     base_status_name(rows[i].status));
        }
    }
}

static void random_sets_round_trip_and_survive_damage(void **state)
{
    (void)state;
    static struct wire_sample_attrs sample;
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t count = 0; count <= WIRE_ATTRS_MAX; count++) {
        wire_sample_attrs(&prng, &sample, count);
        uint8_t bytes[WIRE_ATTRS_BYTES_MAX];
        size_t size = write_attrs(&sample.attrs, bytes, BASE_OK);
        struct wire_attrs back;
        assert_int_equal(wire_attrs_parse(bytes, size, &back), BASE_OK);
        assert_int_equal(back.count, count);
        for (uint32_t i = 0; i < count; i++) {
            const struct wire_attr *a = &sample.attrs.items[i];
            assert_true(base_str_equal(a->name, back.items[i].name));
            assert_int_equal(a->type, back.items[i].type);
            assert_true(base_str_equal(a->text, back.items[i].text));
            assert_true(a->integer == back.items[i].integer);
        }
        if (count % 5 == 1) {
            wire_damage(&prng, bytes, size, wire_check_attrs);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_documented),
        cmocka_unit_test(well_known_codes_are_pinned_and_ordered),
        cmocka_unit_test(bad_attributes_are_not_written),
        cmocka_unit_test(too_many_bytes_are_not_written),
        cmocka_unit_test(a_block_may_be_full),
        cmocka_unit_test(other_encodings_are_refused),
        cmocka_unit_test(random_sets_round_trip_and_survive_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
