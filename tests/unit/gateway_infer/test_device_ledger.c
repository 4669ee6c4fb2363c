// What devices used and were answered: charged once whatever is repeated, given back when nothing
// ran, quotas at their bounds, and more devices, keys and answers than there is room for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "infer/device_ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY       "0123456789abcdef0123456789abcdef"
#define OTHER_KEY "0123456789abcdef0123456789abcde0"
#define THIRD_KEY "0000000000000000000000000000000f"
#define NOW       1000000u

static const struct base_hash_key hash_key = {1, 2};

static struct gw_device_ledger *ledger_of(uint64_t calls, uint64_t bytes)
{
    const struct gw_device_quota quota = {calls, bytes};
    struct gw_device_ledger *ledger = NULL;
    assert_int_equal(gw_device_ledger_new(&quota, &hash_key, &ledger), BASE_OK);
    return ledger;
}

static struct gw_device_charge charge_of(uint64_t device, const char *key)
{
    return (struct gw_device_charge){
        .device = device, .tenant = 1, .key = base_str_of(key), .mark = 7, .bytes = 100};
}

static struct gw_device_charge lets(struct gw_device_ledger *ledger, struct gw_device_charge charge,
                                    uint64_t now_us, enum gw_device_let want)
{
    uint32_t retry_after_s = 99;
    assert_int_equal(gw_device_ledger_charge(ledger, &charge, now_us, &retry_after_s), want);
    assert_int_equal(retry_after_s > 0, want == GW_DEVICE_OVER);
    assert_int_equal(charge.taken, want == GW_DEVICE_CHARGED);
    return charge;
}

// A call that is let in, and whose answer is not kept.
static void runs(struct gw_device_ledger *ledger, struct gw_device_charge charge, uint64_t now_us,
                 enum gw_device_let want)
{
    charge = lets(ledger, charge, now_us, want);
    gw_device_ledger_end(ledger, &charge);
}

static void test_charged_once(void **state)
{
    (void)state;
    struct gw_device_ledger *ledger = ledger_of(2, 0);
    uint8_t out[64];
    const struct gw_device_charge charge = lets(ledger, charge_of(5, KEY), NOW, GW_DEVICE_CHARGED);
    for (int i = 0; i < 10; i++) {
        lets(ledger, charge, NOW, GW_DEVICE_UNDER_WAY);
    }
    assert_int_equal(gw_device_ledger_kept(ledger, &charge, out, sizeof(out)), 0);
    gw_device_ledger_keep(ledger, &charge, (const uint8_t *)"answer", 6);
    lets(ledger, charge, NOW, GW_DEVICE_KEPT);
    gw_device_ledger_end(ledger, &charge);
    lets(ledger, charge, NOW, GW_DEVICE_KEPT);
    assert_int_equal(gw_device_ledger_kept(ledger, &charge, out, sizeof(out)), 6);
    assert_memory_equal(out, "answer", 6);
    // Another's key, of a device, of a tenant, of who shows less, is another call.
    struct gw_device_charge other = charge_of(6, KEY);
    assert_int_equal(gw_device_ledger_kept(ledger, &other, out, sizeof(out)), 0);
    lets(ledger, other, NOW, GW_DEVICE_CHARGED);
    other = charge;
    other.tenant = 2;
    lets(ledger, other, NOW, GW_DEVICE_CHARGED);
    other = charge;
    other.shown = GW_DEVICE_SHOWN_NAME;
    assert_int_equal(gw_device_ledger_kept(ledger, &other, out, sizeof(out)), 0);
    lets(ledger, other, NOW, GW_DEVICE_CHARGED);
    // One of two is used, whatever was repeated.
    lets(ledger, charge_of(5, OTHER_KEY), NOW, GW_DEVICE_CHARGED);
    lets(ledger, charge_of(5, THIRD_KEY), NOW, GW_DEVICE_OVER);
    lets(ledger, charge, NOW, GW_DEVICE_KEPT); // over its quota, what it has paid for is answered
    struct gw_device_figures figures;
    gw_device_ledger_figures(ledger, &figures);
    assert_int_equal(figures.let[GW_DEVICE_CHARGED], 5);
    assert_int_equal(figures.let[GW_DEVICE_REPEATED], 0);
    assert_int_equal(figures.let[GW_DEVICE_KEPT], 3);
    assert_int_equal(figures.let[GW_DEVICE_OVER], 1);
    assert_int_equal(figures.let[GW_DEVICE_UNDER_WAY], 10);
    gw_device_ledger_free(ledger);
}

// One key whose answers are too large to keep runs as often as its quota, and the repeats that it
// has, let it.
static void test_a_key_is_no_free_ride(void **state)
{
    (void)state;
    struct gw_device_ledger *ledger = ledger_of(3, 0);
    runs(ledger, charge_of(5, KEY), NOW, GW_DEVICE_CHARGED);
    for (uint32_t i = 0; i < GW_DEVICE_REPEATS_MAX; i++) {
        const struct gw_device_charge repeat =
            lets(ledger, charge_of(5, KEY), NOW, GW_DEVICE_REPEATED);
        lets(ledger, charge_of(5, KEY), NOW, GW_DEVICE_UNDER_WAY); // of the repeat, too
        gw_device_ledger_end(ledger, &repeat);
    }
    runs(ledger, charge_of(5, KEY), NOW, GW_DEVICE_CHARGED);
    runs(ledger, charge_of(5, KEY), NOW, GW_DEVICE_CHARGED);
    lets(ledger, charge_of(5, KEY), NOW, GW_DEVICE_OVER);
    gw_device_ledger_free(ledger);
}

// A key is of what it asked: neither runs something else uncharged, nor answers for it.
static void test_a_key_asks_the_same(void **state)
{
    (void)state;
    struct gw_device_ledger *ledger = ledger_of(0, 0);
    uint8_t out[64];
    struct gw_device_charge other = charge_of(5, KEY);
    other.mark++;
    const struct gw_device_charge charge = lets(ledger, charge_of(5, KEY), NOW, GW_DEVICE_CHARGED);
    lets(ledger, other, NOW, GW_DEVICE_OTHER);
    gw_device_ledger_keep(ledger, &charge, (const uint8_t *)"answer", 6);
    gw_device_ledger_end(ledger, &charge);
    lets(ledger, other, NOW, GW_DEVICE_OTHER);
    assert_int_equal(gw_device_ledger_kept(ledger, &other, out, sizeof(out)), 0);
    lets(ledger, other, NOW + GW_DEVICE_KEY_US, GW_DEVICE_CHARGED);
    // The run that the key was of changes nothing of the one that it is of.
    gw_device_ledger_keep(ledger, &charge, (const uint8_t *)"answer", 6);
    gw_device_ledger_end(ledger, &charge);
    lets(ledger, other, NOW + GW_DEVICE_KEY_US, GW_DEVICE_UNDER_WAY);
    gw_device_ledger_free(ledger);
}

// Each part of a call makes another mark, and so does where one ends and the next begins.
static void test_marks(void **state)
{
    (void)state;
    const struct gw_device_asked asked[] = {
        {BASE_STR("t"), BASE_STR("ab"), BASE_STR("c"), BASE_STR("body")},
        {BASE_STR("u"), BASE_STR("ab"), BASE_STR("c"), BASE_STR("body")},
        {BASE_STR("t"), BASE_STR("a"), BASE_STR("bc"), BASE_STR("body")},
        {BASE_STR("t"), BASE_STR("ab"), BASE_STR(""), BASE_STR("cbody")},
        {BASE_STR("t"), BASE_STR("ab"), BASE_STR("c"), BASE_STR("bodz")},
    };
    const size_t count = sizeof(asked) / sizeof(asked[0]);
    struct gw_device_ledger *ledger = ledger_of(0, 0);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(gw_device_ledger_mark(ledger, &asked[i]) ==
                                 gw_device_ledger_mark(ledger, &asked[k]),
                             i == k);
        }
    }
    gw_device_ledger_free(ledger);
}

static void test_given_back(void **state)
{
    (void)state;
    struct gw_device_ledger *ledger = ledger_of(1, 100);
    for (int i = 0; i < 5; i++) {
        const struct gw_device_charge charge =
            lets(ledger, charge_of(5, KEY), NOW, GW_DEVICE_CHARGED);
        gw_device_ledger_refund(ledger, &charge);
    }
    lets(ledger, charge_of(5, KEY), NOW, GW_DEVICE_CHARGED);
    lets(ledger, charge_of(5, OTHER_KEY), NOW, GW_DEVICE_OVER);
    // What was not there cannot be given back, and a quota is never more than full.
    struct gw_device_charge stranger = charge_of(77, KEY);
    gw_device_ledger_refund(ledger, &stranger);
    stranger = lets(ledger, stranger, NOW, GW_DEVICE_CHARGED);
    gw_device_ledger_refund(ledger, &stranger);
    gw_device_ledger_refund(ledger, &stranger);
    lets(ledger, stranger, NOW, GW_DEVICE_CHARGED);
    lets(ledger, charge_of(77, OTHER_KEY), NOW, GW_DEVICE_OVER);
    gw_device_ledger_free(ledger);
}

// A repeat that did not run gives nothing back, for it was not charged; it may come again.
static void test_a_repeat_gives_nothing_back(void **state)
{
    (void)state;
    struct gw_device_ledger *ledger = ledger_of(2, 0);
    runs(ledger, charge_of(5, KEY), NOW, GW_DEVICE_CHARGED);
    for (int i = 0; i < 5; i++) {
        const struct gw_device_charge repeat =
            lets(ledger, charge_of(5, KEY), NOW, GW_DEVICE_REPEATED);
        gw_device_ledger_refund(ledger, &repeat);
    }
    struct gw_device_figures figures;
    gw_device_ledger_figures(ledger, &figures);
    assert_int_equal(figures.given_back, 0);
    runs(ledger, charge_of(5, OTHER_KEY), NOW, GW_DEVICE_CHARGED);
    lets(ledger, charge_of(5, THIRD_KEY), NOW, GW_DEVICE_OVER);
    gw_device_ledger_free(ledger);
}

// Who shows no more than a name has a quota of its own, and not the one of the device it names.
static void test_names_are_not_devices(void **state)
{
    (void)state;
    struct gw_device_ledger *ledger = ledger_of(1, 0);
    struct gw_device_charge charge = charge_of(5, "");
    charge.shown = GW_DEVICE_SHOWN_NAME;
    lets(ledger, charge, NOW, GW_DEVICE_CHARGED);
    lets(ledger, charge, NOW, GW_DEVICE_OVER);
    charge.shown = GW_DEVICE_SHOWN_TOKEN;
    lets(ledger, charge, NOW, GW_DEVICE_CHARGED);
    charge.shown = GW_DEVICE_SHOWN_ITSELF;
    lets(ledger, charge, NOW, GW_DEVICE_CHARGED);
    // What is given back goes to the one that was charged.
    charge.taken = true;
    charge.shown = GW_DEVICE_SHOWN_NAME;
    gw_device_ledger_refund(ledger, &charge);
    charge.shown = GW_DEVICE_SHOWN_ITSELF;
    lets(ledger, charge, NOW, GW_DEVICE_OVER);
    gw_device_ledger_free(ledger);
}

static void test_bounds_of_quotas(void **state)
{
    (void)state;
    struct gw_device_ledger *ledger = ledger_of(60, 250);
    uint32_t retry_after_s = 0;
    struct gw_device_charge charge = charge_of(5, "");
    lets(ledger, charge, NOW, GW_DEVICE_CHARGED);
    lets(ledger, charge, NOW, GW_DEVICE_CHARGED);
    assert_int_equal(gw_device_ledger_charge(ledger, &charge, NOW, &retry_after_s), GW_DEVICE_OVER);
    assert_int_equal(retry_after_s, 12); // 50 bytes lack, of 250 in a minute
    lets(ledger, charge, NOW + 11999999, GW_DEVICE_OVER);
    lets(ledger, charge, NOW + 12000000, GW_DEVICE_CHARGED);
    // A call that can never be paid for waits for the longest.
    charge.bytes = 251;
    assert_int_equal(gw_device_ledger_charge(ledger, &charge, NOW, &retry_after_s), GW_DEVICE_OVER);
    assert_int_equal(retry_after_s, 60);
    gw_device_ledger_free(ledger);
    ledger = ledger_of(0, 0);
    for (int i = 0; i < 10000; i++) {
        lets(ledger, charge_of(5, ""), NOW, GW_DEVICE_CHARGED);
    }
    gw_device_ledger_free(ledger);
}

static void test_keys(void **state)
{
    (void)state;
    struct gw_device_ledger *ledger = ledger_of(0, 0);
    // Known for its time, and not after it.
    runs(ledger, charge_of(5, KEY), NOW, GW_DEVICE_CHARGED);
    runs(ledger, charge_of(5, KEY), NOW + GW_DEVICE_KEY_US - 1, GW_DEVICE_REPEATED);
    runs(ledger, charge_of(5, KEY), NOW + GW_DEVICE_KEY_US, GW_DEVICE_CHARGED);
    // What is no key is not known.
    static const char *const bad[] = {"", "0123", "0123456789ABCDEF0123456789abcdef",
                                      "0123456789abcdef0123456789abcdeg",
                                      "0123456789abcdef0123456789abcdef0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        lets(ledger, charge_of(5, bad[i]), NOW, GW_DEVICE_CHARGED);
        lets(ledger, charge_of(5, bad[i]), NOW, GW_DEVICE_CHARGED);
    }
    gw_device_ledger_free(ledger);
}

// Ten times as many as there is room for: the memory stays bounded, the newest are known.
static void test_more_than_there_is_room_for(void **state)
{
    (void)state;
    struct gw_device_ledger *ledger = ledger_of(1000, 0);
    static uint8_t answer[GW_DEVICE_ANSWER_MAX];
    static uint8_t out[GW_DEVICE_ANSWER_MAX];
    char key[33];
    struct gw_device_charge charge = charge_of(0, key);
    uint32_t kept = 0;
    for (uint64_t i = 0; i < 10 * GW_DEVICE_KEYS_MAX; i++) {
        (void)snprintf(key, sizeof(key), "%032llx", (unsigned long long)i);
        charge = charge_of(i, key);
        charge = lets(ledger, charge, NOW + i, GW_DEVICE_CHARGED);
        if (i % 100 == 0) {
            gw_device_ledger_keep(ledger, &charge, answer, sizeof(answer));
            kept++;
            assert_int_equal(gw_device_ledger_kept(ledger, &charge, out, sizeof(out)),
                             sizeof(answer));
        }
    }
    assert_true(kept * sizeof(answer) > 2 * GW_DEVICE_ANSWERS_BYTES);
    uint32_t there = 0;
    for (uint64_t i = 0; i < 10 * GW_DEVICE_KEYS_MAX; i += 100) {
        (void)snprintf(key, sizeof(key), "%032llx", (unsigned long long)i);
        charge = charge_of(i, key);
        there += gw_device_ledger_kept(ledger, &charge, out, sizeof(out)) > 0;
    }
    assert_in_range(there, 1, GW_DEVICE_ANSWERS_BYTES / sizeof(answer));
    // One that is too large is not kept.
    gw_device_ledger_keep(ledger, &charge, answer, GW_DEVICE_ANSWER_MAX + 1);
    gw_device_ledger_free(ledger);
    gw_device_ledger_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_charged_once),
        cmocka_unit_test(test_a_key_is_no_free_ride),
        cmocka_unit_test(test_a_key_asks_the_same),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_given_back),
        cmocka_unit_test(test_a_repeat_gives_nothing_back),
        cmocka_unit_test(test_names_are_not_devices),
        cmocka_unit_test(test_bounds_of_quotas),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_more_than_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
