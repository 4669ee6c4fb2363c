// What a device believes of the time: each source wrong in turn, and rules that hold whatever was
// said in whatever order.
#include "core/base/device_time.h"

#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define DAY    UINT64_C(86400)
#define NOW    (UINT64_C(1700000000))
#define BORN   (NOW - 400 * DAY)
#define ROOT   (NOW - 90 * DAY)
#define TRIALS 20000

static struct dev_time_now at(uint64_t own_s)
{
    return (struct dev_time_now){.own_s = own_s, .mono_us = 5000000};
}

static struct dev_time born(uint64_t own_s)
{
    struct dev_time time = {0};
    struct dev_time_now now = at(own_s);
    dev_time_boot(&time, BORN, &now);
    time.root_s = ROOT;
    return time;
}

static uint64_t used(const struct dev_time *time, uint64_t own_s)
{
    struct dev_time_now now = at(own_s);
    return dev_time_bracket(time, &now).used_s;
}

static void online(struct dev_time *time, uint64_t issued_s, uint64_t own_s)
{
    struct dev_time_now now = at(own_s);
    (void)dev_time_online(time, issued_s, ROOT, &now);
}

static void offline(struct dev_time *time, uint64_t issued_s, uint64_t own_s)
{
    struct dev_time_now now = at(own_s);
    dev_time_offline(time, issued_s, &now);
}

// One source lies at a time: {own, gateway, signer} and the time that comes of it.
static void test_one_source_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t own_s, online_s, offline_s, used_s;
    } cases[] = {
        {"all agree", NOW, NOW, NOW - DAY, NOW},
        {"gateway 300 days ahead", NOW, NOW + 300 * DAY, NOW - DAY, NOW + DAY},
        {"gateway in 1970", NOW, 0, NOW - DAY, NOW},
        {"gateway a year behind", NOW, NOW - 365 * DAY, NOW - DAY, NOW},
        {"signer 300 days ahead", NOW, NOW, NOW + 300 * DAY, NOW},
        {"own clock never set", 0, NOW, NOW - DAY, NOW},
        {"own clock never set, signer ahead", 0, NOW, NOW + 300 * DAY, NOW},
        {"own clock below the root", ROOT - 2 * DAY, NOW, NOW - DAY, NOW},
        {"own clock years ahead", NOW + 1000 * DAY, NOW, NOW - DAY, NOW + 1000 * DAY},
        {"no word at all, never set", 0, 0, 0, ROOT},
        {"an hour apart", NOW - 3600, NOW, NOW - DAY, NOW},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dev_time time = born(cases[i].own_s);
        online(&time, cases[i].online_s, cases[i].own_s);
        offline(&time, cases[i].offline_s, cases[i].own_s);
        uint64_t got = used(&time, cases[i].own_s);
        if (got != cases[i].used_s) {
            fail_msg("%s: %llu, not %llu", cases[i].name, (unsigned long long)got,
                     (unsigned long long)cases[i].used_s);
        }
    }
}

// The gateway's word is the last one, so a lie ends with the next answer, whatever the own clock.
static void test_a_lie_of_the_gateway_ends(void **state)
{
    (void)state;
    static const uint64_t owns[] = {0, NOW, NOW - 10 * DAY, ROOT - 5 * DAY};
    for (size_t i = 0; i < sizeof(owns) / sizeof(owns[0]); i++) {
        struct dev_time honest = born(owns[i]);
        struct dev_time lied = honest;
        online(&lied, NOW + 300 * DAY, owns[i]);
        online(&lied, NOW, owns[i]);
        online(&honest, NOW, owns[i]);
        assert_memory_equal(&lied, &honest, sizeof(lied));
    }
}

// A floor learned while the own clock was of no use is given up when that is set and the gateway
// agrees; and by nobody alone.
static void test_two_against_one(void **state)
{
    (void)state;
    struct dev_time time = born(0);
    offline(&time, NOW + 300 * DAY, 0);
    assert_int_equal(used(&time, NOW), NOW + 300 * DAY);
    struct dev_time gateway = time;
    online(&gateway, NOW, 0); // the gateway alone
    assert_int_equal(used(&gateway, 0), NOW + 300 * DAY);
    struct dev_time apart = time;
    online(&apart, NOW - 30 * DAY, NOW); // they do not agree
    assert_int_equal(used(&apart, NOW), NOW + 300 * DAY);
    online(&time, NOW + 60, NOW);
    assert_int_equal(used(&time, NOW), NOW + 60);
    // Not behind the root, nor the program.
    struct dev_time old = born(0);
    offline(&old, NOW, 0);
    online(&old, ROOT - 3 * DAY, ROOT - 3 * DAY);
    assert_int_equal(used(&old, ROOT - 3 * DAY), NOW);
}

// Without a root there is no gateway's word: a newer statement is the second witness.
static void test_a_newer_statement(void **state)
{
    (void)state;
    struct dev_time time = born(0);
    time.root_s = 0;
    offline(&time, NOW + 300 * DAY, 0);
    struct dev_time_now now = at(NOW);
    dev_time_newer(&time, NOW - 40 * DAY, NOW - 10 * DAY, &now); // has run out
    assert_int_equal(used(&time, NOW), NOW + 300 * DAY);
    dev_time_newer(&time, NOW + 2 * DAY, NOW + 30 * DAY, &now); // not begun
    assert_int_equal(used(&time, NOW), NOW + 300 * DAY);
    dev_time_newer(&time, NOW - DAY, NOW + 29 * DAY, &now);
    assert_int_equal(used(&time, NOW), NOW);
}

static void test_it_goes_on_and_over_a_reboot(void **state)
{
    (void)state;
    struct dev_time time = born(0);
    online(&time, NOW, 0);
    struct dev_time_now hour = {.own_s = 3600, .mono_us = 5000000 + 3600u * 1000000u};
    assert_int_equal(dev_time_bracket(&time, &hour).used_s, NOW + 3600);
    struct dev_time stored = {.offline_s = dev_time_offline_now(&time, &hour),
                              .online_s = dev_time_said(&time, &hour)};
    struct dev_time_now again = {.own_s = 0, .mono_us = 77};
    dev_time_boot(&stored, BORN, &again);
    assert_int_equal(dev_time_bracket(&stored, &again).used_s, NOW + 3600);
}

// A lease given under a lie is seen to be one.
static void test_what_is_taken_back_is_told(void **state)
{
    (void)state;
    struct dev_time time = born(NOW);
    struct dev_time_now now = at(NOW);
    assert_false(dev_time_online(&time, NOW + 300 * DAY, ROOT, &now));
    assert_int_equal(dev_time_latest(&time, &now), NOW + 300 * DAY);
    assert_true(dev_time_online(&time, NOW, ROOT, &now));
    assert_int_equal(dev_time_latest(&time, &now), NOW);
    // A clock set back by two days: what was said and passed still counts.
    now.own_s -= 2 * DAY;
    assert_int_equal(dev_time_latest(&time, &now), NOW);
}

static void test_root_voids_all(void **state)
{
    (void)state;
    struct dev_time time = born(0);
    offline(&time, NOW + 300 * DAY, 0);
    online(&time, NOW + 300 * DAY, 0);
    dev_time_root(&time, NOW);
    assert_int_equal(used(&time, 0), NOW);
}

static uint64_t any_time(struct base_prng *prng)
{
    static const uint64_t edges[] = {0, 1, BORN, ROOT, NOW, UINT64_MAX, UINT64_MAX - DAY};
    return base_prng_below(prng, 4) == 0
               ? edges[base_prng_below(prng, sizeof(edges) / sizeof(edges[0]))]
               : NOW - 500 * DAY + base_prng_below(prng, 1000 * DAY);
}

// Whatever anybody said: the three stand in order, the floor is one that was signed, and a clock
// that counts is followed to a day.
static void check(const struct dev_time *time, const struct dev_time_now *now, uint64_t seed)
{
    struct dev_time_bracket bracket = dev_time_bracket(time, now);
    bool ordered = bracket.not_before_s <= bracket.used_s && bracket.used_s <= bracket.not_after_s;
    bool dated = bracket.not_before_s >= time->born_s && bracket.not_before_s >= time->root_s;
    uint64_t most = now->own_s > UINT64_MAX - DAY ? UINT64_MAX : now->own_s + DAY;
    bool near = !bracket.own_counts || (bracket.used_s >= now->own_s && bracket.used_s <= most);
    bool latest = dev_time_latest(time, now) >= bracket.used_s;
    if (!ordered || !dated || !near || !latest) {
        fail_msg("seed %llu: own %llu, floor %llu, used %llu, at most %llu",
                 (unsigned long long)seed, (unsigned long long)now->own_s,
                 (unsigned long long)bracket.not_before_s, (unsigned long long)bracket.used_s,
                 (unsigned long long)bracket.not_after_s);
    }
}

static void test_rules_hold(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct base_prng prng;
        base_prng_seed(&prng, seed);
        struct dev_time_now now = {.own_s = any_time(&prng), .mono_us = base_prng_below(&prng, 9)};
        struct dev_time time = {.offline_s = any_time(&prng), .online_s = any_time(&prng)};
        dev_time_boot(&time, BORN, &now);
        for (int i = 0; i < 12; i++) {
            uint64_t said = any_time(&prng);
            switch (base_prng_below(&prng, 5)) {
            case 0:
                dev_time_offline(&time, said, &now);
                break;
            case 1:
                (void)dev_time_online(&time, said, ROOT, &now);
                break;
            case 2:
                dev_time_newer(&time, said, any_time(&prng), &now);
                break;
            case 3:
                now.own_s = any_time(&prng);
                break;
            default:
                now.mono_us += base_prng_below(&prng, DAY * 1000000);
                break;
            }
            check(&time, &now, seed);
        }
        // Clock and gateway right: so is the device, whatever was before.
        now.own_s = NOW;
        (void)dev_time_online(&time, NOW, ROOT, &now);
        uint64_t right = dev_time_bracket(&time, &now).used_s;
        if (right < NOW || right > NOW + DAY) {
            fail_msg("seed %llu: not recovered: %llu", (unsigned long long)seed,
                     (unsigned long long)right);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_source_is_wrong),
        cmocka_unit_test(test_a_lie_of_the_gateway_ends),
        cmocka_unit_test(test_two_against_one),
        cmocka_unit_test(test_a_newer_statement),
        cmocka_unit_test(test_it_goes_on_and_over_a_reboot),
        cmocka_unit_test(test_what_is_taken_back_is_told),
        cmocka_unit_test(test_root_voids_all),
        cmocka_unit_test(test_rules_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
