// The image of a task's store: what is put is found, in order, within its limits; every damage of a
// byte is refused or gives an image that can be gone through. And a declaration with a store.
#include "wire_damage.h"

#include "wire/declaration.h"
#include "wire/store/store_image.h"

#include <stdio.h>

static uint8_t bytes[WIRE_STORE_IMAGE_MAX];

static struct base_span span_of(const char *text)
{
    return (struct base_span){(const uint8_t *)text, strlen(text)};
}

static void values_are(const struct wire_store *store, const char *want)
{
    char got[256] = "";
    struct wire_store_entry entry;
    for (size_t at = 0; wire_store_next(store, &at, &entry);) {
        size_t used = strlen(got);
        (void)snprintf(got + used, sizeof(got) - used, "%.*s=%.*s ", (int)entry.key.size,
                       entry.key.data, (int)entry.value.size, (const char *)entry.value.data);
    }
    assert_string_equal(got, want);
}

static void puts_finds_and_removes(void **state)
{
    (void)state;
    struct wire_store store;
    struct base_span value;
    wire_store_init(&store, bytes, 0x1122334455667788);
    assert_int_equal(wire_store_put(&store, BASE_STR("b"), span_of("two"), 1024), BASE_OK);
    assert_int_equal(wire_store_put(&store, BASE_STR("bb"), span_of(""), 1024), BASE_OK);
    assert_int_equal(wire_store_put(&store, BASE_STR("a"), span_of("one"), 1024), BASE_OK);
    assert_int_equal(wire_store_put(&store, BASE_STR("b"), span_of("twenty"), 1024), BASE_OK);
    values_are(&store, "a=one b=twenty bb= ");
    assert_int_equal(store.used, 4 + 7 + 2);
    assert_int_equal(wire_store_find(&store, BASE_STR("b"), &value), BASE_OK);
    assert_int_equal(value.size, 6);
    assert_int_equal(wire_store_find(&store, BASE_STR("c"), &value), BASE_ERR_NOT_FOUND);
    struct wire_store again;
    assert_int_equal(wire_store_parse(bytes, store.size, &again), BASE_OK);
    assert_true(again.tag == 0x1122334455667788 && again.keys == 3 && again.used == store.used);
    assert_true(wire_store_remove(&store, BASE_STR("b")));
    assert_false(wire_store_remove(&store, BASE_STR("b")));
    values_are(&store, "a=one bb= ");
    assert_int_equal(wire_store_parse(bytes, store.size, &again), BASE_OK);
}

// What does not fit changes nothing.
static void keeps_to_its_limits(void **state)
{
    (void)state;
    static uint8_t large[WIRE_STORE_QUOTA_KIB_MAX * 1024];
    struct wire_store store;
    char key[WIRE_STORE_KEY_MAX + 2];
    wire_store_init(&store, bytes, 0);
    assert_int_equal(wire_store_put(&store, BASE_STR("a"), span_of("123"), 4), BASE_OK);
    assert_int_equal(wire_store_put(&store, BASE_STR("a"), span_of("1234"), 4), BASE_ERR_FULL);
    assert_int_equal(wire_store_put(&store, BASE_STR("b"), span_of(""), 4), BASE_ERR_FULL);
    values_are(&store, "a=123 ");
    assert_int_equal(wire_store_put(&store, BASE_STR(""), span_of(""), 4), BASE_ERR_INVALID);
    memset(key, 'k', sizeof(key));
    assert_int_equal(
        wire_store_put(&store, (struct base_str){key, WIRE_STORE_KEY_MAX + 1}, span_of(""), 1024),
        BASE_ERR_INVALID);
    wire_store_init(&store, bytes, 0);
    for (uint32_t i = 0; i < WIRE_STORE_KEYS_MAX; i++) {
        (void)snprintf(key, sizeof(key), "%u", i);
        assert_int_equal(wire_store_put(&store, base_str_of(key), span_of(""), 65536), BASE_OK);
    }
    assert_int_equal(wire_store_put(&store, BASE_STR("one more"), span_of(""), 65536),
                     BASE_ERR_LIMIT);
    assert_int_equal(wire_store_put(&store, BASE_STR("0"), span_of("x"), 65536), BASE_OK);
    // As large as one may be: many keys, and one of them has all that is left.
    size_t left = sizeof(large) - (store.used - 1);
    assert_int_equal(
        wire_store_put(&store, BASE_STR("0"), (struct base_span){large, left + 1}, sizeof(large)),
        BASE_ERR_FULL);
    assert_int_equal(
        wire_store_put(&store, BASE_STR("0"), (struct base_span){large, left}, sizeof(large)),
        BASE_OK);
    assert_int_equal(store.used, sizeof(large));
    assert_true(store.size <= WIRE_STORE_IMAGE_MAX);
    struct wire_store again;
    assert_int_equal(wire_store_parse(bytes, store.size, &again), BASE_OK);
    assert_int_equal(again.keys, WIRE_STORE_KEYS_MAX);
}

static void damage_is_refused_or_harmless(void **state)
{
    (void)state;
    uint8_t whole[64];
    struct wire_store store;
    wire_store_init(&store, whole, 3);
    // `whole` has room for these.
    assert_int_equal(wire_store_put(&store, BASE_STR("a"), span_of("one"), 32), BASE_OK);
    assert_int_equal(wire_store_put(&store, BASE_STR("b"), span_of("two"), 32), BASE_OK);
    size_t size = store.size;
    for (size_t cut = 0; cut < size; cut++) {
        enum base_status status = wire_store_parse(whole, cut, &store);
        assert_true(status != BASE_OK || cut == WIRE_STORE_HEAD_BYTES || cut == size - 6);
    }
    for (size_t at = 0; at < size * 8; at++) {
        uint8_t damaged[64];
        struct wire_store_entry entry;
        memcpy(damaged, whole, size);
        damaged[at / 8] ^= (uint8_t)(1 << at % 8);
        if (wire_store_parse(damaged, size, &store) == BASE_OK) {
            uint32_t keys = 0;
            for (size_t from = 0; wire_store_next(&store, &from, &entry);) {
                keys++;
            }
            assert_int_equal(keys, store.keys);
        }
    }
    static const char twice[] = "\x01\0\0\0\0\0\0\0\0\x01"
                                "a\0\x01"
                                "a";
    memcpy(whole, twice, sizeof(twice));
    assert_int_equal(wire_store_parse(whole, sizeof(twice), &store), BASE_ERR_INVALID);
    memcpy(whole, "\x02\0\0\0\0\0\0\0\0", 9);
    assert_int_equal(wire_store_parse(whole, 9, &store), BASE_ERR_UNSUPPORTED);
}

// A version without a store has the bytes that it had before there were any.
static void a_declaration_with_a_store(void **state)
{
    (void)state;
    uint8_t plain[128];
    uint8_t out[128];
    size_t plain_size = 0;
    size_t size = 0;
    struct wire_declaration back;
    struct wire_declaration declaration = {.result_upload = WIRE_DECLARATION_NO_UPLOAD,
                                           .leaves = BASE_STR("leaves")};
    assert_int_equal(wire_declaration_encode(&declaration, plain, sizeof(plain), &plain_size),
                     BASE_OK);
    assert_int_equal(plain[0], WIRE_DECLARATION_LEAVES);
    declaration.store_kib = 64;
    declaration.store_keep = WIRE_STORE_A_VERSION;
    assert_int_equal(wire_declaration_encode(&declaration, out, sizeof(out), &size), BASE_OK);
    assert_int_equal(out[0], WIRE_DECLARATION_STORE);
    assert_int_equal(size, plain_size + 2);
    assert_memory_equal(out + 1, plain + 1, plain_size - 1);
    assert_int_equal(wire_declaration_parse(out, size, &back), BASE_OK);
    assert_int_equal(back.store_kib, 64);
    assert_int_equal(back.store_keep, WIRE_STORE_A_VERSION);
    assert_true(base_str_equal(back.leaves, BASE_STR("leaves")));
    out[size - 1] = WIRE_STORE_KEEP_END;
    assert_int_equal(wire_declaration_parse(out, size, &back), BASE_ERR_INVALID);
    out[size - 2] = 0;
    assert_int_equal(wire_declaration_parse(out, size, &back), BASE_ERR_INVALID);
    out[size - 2] = WIRE_STORE_QUOTA_KIB_MAX + 1;
    assert_int_equal(wire_declaration_parse(out, size, &back), BASE_ERR_INVALID);
    declaration.store_kib = WIRE_STORE_QUOTA_KIB_MAX + 1;
    assert_int_equal(wire_declaration_encode(&declaration, out, sizeof(out), &size),
                     BASE_ERR_TOO_LARGE);
    declaration.store_kib = 0;
    assert_int_equal(wire_declaration_encode(&declaration, out, sizeof(out), &size),
                     BASE_ERR_INVALID);
    declaration =
        (struct wire_declaration){.result_upload = WIRE_DECLARATION_NO_UPLOAD, .store_kib = 1};
    assert_int_equal(wire_declaration_encode(&declaration, out, sizeof(out), &size), BASE_OK);
    assert_int_equal(wire_declaration_parse(out, size, &back), BASE_OK);
    assert_int_equal(back.leaves.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_finds_and_removes),
        cmocka_unit_test(keeps_to_its_limits),
        cmocka_unit_test(damage_is_refused_or_harmless),
        cmocka_unit_test(a_declaration_with_a_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
