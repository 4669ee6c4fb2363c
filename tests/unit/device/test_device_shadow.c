// A version beside the active one: it runs after it on the same input, is compared, and touches
// nothing.
#include "device_rig.h"

#include "base/prng.h"
#include "core/base/runtime.h"
#include "core/run/result_digest.h"
#include "core/run/run_parts.h"
#include "wire/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK             "demo/score"
#define ROLLOUT          9
#define EVERY_S          60
#define RIG_RESULT_BYTES 4096 // what a runtime keeps when not told otherwise

static struct rig rig;

// Version 0 active with runs every `every_s`, version 1 to be its shadow, version 2 for later.
static void begin(uint32_t every_s)
{
    rig_init(&rig);
    rig_version_add(&rig, TASK, 2, 3000, WIRE_RUNTIME_ABI, every_s);
    rig_version_add(&rig, TASK, 3, 4000, WIRE_RUNTIME_ABI, every_s);
    rig_version_add(&rig, TASK, 2, 1000, WIRE_RUNTIME_ABI, every_s);
    rig.versions[0].result = "{\"a\": 1, \"b\": [1, 2]}";
    rig.versions[1].result = "{\"b\":[1,2],\"a\":1}";
    rig_boot(&rig);
    struct rig_statement install = {.task = TASK, .version = 0, .counter = 1, .rollout_id = 3};
    rig_offer(&rig, &install);
    rig_checkin(&rig);
    rig_offer_none(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0);
}

static struct rig_statement shadow_statement(uint64_t counter)
{
    return (struct rig_statement){.task = TASK,
                                  .version = 1,
                                  .counter = counter,
                                  .floor = counter - 1,
                                  .rollout_id = ROLLOUT,
                                  .shadow = true,
                                  .slow_percent = 150,
                                  .memory_percent = 150};
}

static void offer_shadow(uint64_t counter)
{
    struct rig_statement statement = shadow_statement(counter);
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_offer_none(&rig);
}

static void run_for(uint32_t runs)
{
    rig.run_on = true;
    rig_run(&rig, (uint64_t)runs * EVERY_S * 1000000);
    rig.run_on = false;
}

static bool shadow_view(struct dev_task_view *out)
{
    for (uint32_t i = 0; dev_task_view(rig.runtime, i, out) == BASE_OK; i++) {
        if (out->shadow) {
            return true;
        }
    }
    return false;
}

// The pair of the shadow in the profile the device sends; false: it speaks of none.
static bool shadow_pair(struct wire_profile_pair *out)
{
    char text[1024];
    uint8_t bytes[1024];
    size_t size = 0;
    struct wire_profile profile;
    struct base_reader reader;
    assert_int_equal(dev_profile_header(rig.runtime, text, sizeof(text), &size), BASE_OK);
    assert_int_equal(base_b64_decode((struct base_str){text, size}, bytes, sizeof(bytes), &size),
                     BASE_OK);
    assert_int_equal(wire_profile_parse(bytes, size, &profile), BASE_OK);
    base_reader_init(&reader, profile.pairs, profile.pairs_bytes);
    for (uint32_t i = 0; i < profile.task_count; i++) {
        assert_int_equal(wire_profile_pair_next(&profile, &reader, out), BASE_OK);
        if (out->task_id == wire_shadow_task_id(wire_task_id(BASE_STR(TASK)))) {
            return true;
        }
    }
    return false;
}

static void check_untouched(void)
{
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_kept(&rig, TASK), -1);
    assert_false(rig.ran_unverified);
    for (uint32_t i = 0; i < rig.ledger_count; i++) {
        const struct wire_outcome *outcome = &rig.ledger[i].outcome;
        bool of_shadow = outcome->rollout_id == ROLLOUT;
        assert_int_equal(of_shadow,
                         outcome->task_id == wire_shadow_task_id(wire_task_id(BASE_STR(TASK))));
        assert_false(of_shadow && outcome->kind == WIRE_OUTCOME_ACTIVATED);
        assert_false(of_shadow && outcome->kind == WIRE_OUTCOME_RAN);
    }
}

static void test_agreement(void **state)
{
    (void)state;
    begin(EVERY_S);
    offer_shadow(2);
    struct wire_profile_pair pair;
    assert_true(shadow_pair(&pair));
    assert_int_equal(pair.version_id, wire_version_id(&rig.versions[1].manifest));
    assert_int_equal(pair.floor, 1);
    assert_true(rig.versions[1].runs <= rig.versions[0].runs); // only beside a run
    run_for(30);
    check_untouched();
    assert_int_equal(rig.versions[1].runs, DEV_SHADOW_RUNS);
    assert_int_equal(rig.versions[1].shadow_runs, DEV_SHADOW_RUNS);
    assert_true(rig.versions[0].runs > DEV_SHADOW_RUNS);
    assert_int_equal(rig.versions[0].shadow_runs, 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_SHADOW_AGREED), 1);
    assert_true(shadow_pair(&pair)); // it stays until the gateway says that it is over
    assert_int_equal(pair.version_id, wire_version_id(&rig.versions[1].manifest));
    rig_done(&rig);
}

static void expect_failure(enum wire_outcome_kind kind, uint32_t runs)
{
    begin(EVERY_S);
    rig.versions[0].duration_us = 10000;
    rig.versions[1].duration_us = kind == WIRE_OUTCOME_FAIL_SLOW ? 16000 : 14000;
    rig.versions[0].heap_peak_bytes = 100000;
    rig.versions[1].heap_peak_bytes = kind == WIRE_OUTCOME_FAIL_HEAVY ? 150001 : 150000;
    if (kind == WIRE_OUTCOME_FAIL_DIFFERENT) {
        rig.versions[1].result = "{\"b\":[2,1],\"a\":1}";
    } else if (kind == WIRE_OUTCOME_FAIL_EXCEPTION) {
        rig.versions[1].ends = kind;
    }
    offer_shadow(2);
    run_for(30);
    check_untouched();
    if (rig_count(&rig, kind) != 1 || rig.versions[1].runs != runs) {
        fail_msg("%s: reported %u times after %u runs", wire_outcome_name(kind),
                 rig_count(&rig, kind), rig.versions[1].runs);
    }
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_SHADOW_AGREED), 0);
    assert_int_equal(rig_last(&rig, kind)->outcome.rollout_id, ROLLOUT);
    assert_true(rig_last(&rig, kind)->outcome.fingerprint != 0);
    struct wire_profile_pair pair;
    assert_true(shadow_pair(&pair));
    assert_int_equal(pair.version_id, 0);
    assert_int_equal(pair.blocked_version_id, wire_version_id(&rig.versions[1].manifest));
    offer_shadow(2); // the same statement again: it failed here
    run_for(5);
    assert_int_equal(rig.versions[1].runs, runs);
    rig_done(&rig);
}

// Runs a shadow beside results with these tolerances; true: it agrees.
static bool agrees_within(const char *active, const char *shadow, struct wire_tolerances within)
{
    begin(EVERY_S);
    rig.versions[0].result = active;
    rig.versions[1].result = shadow;
    struct rig_statement statement = shadow_statement(2);
    statement.slow_percent = 0;
    statement.tolerances = within;
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_offer_none(&rig);
    run_for(2);
    rig_kill(&rig); // the tolerances are in the record
    rig_boot(&rig);
    run_for(3);
    check_untouched();
    bool agreed = rig_count(&rig, WIRE_OUTCOME_SHADOW_AGREED) == 1;
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DIFFERENT), agreed ? 0 : 1);
    assert_true(!agreed || rig.versions[1].runs > 3);
    return agreed;
}

static uint64_t expect_difference(const char *active, const char *shadow,
                                  struct wire_tolerances within, const char *text)
{
    assert_false(agrees_within(active, shadow, within));
    const struct rig_outcome *last = rig_last(&rig, WIRE_OUTCOME_FAIL_DIFFERENT);
    assert_string_equal(last->detail, text);
    uint64_t fingerprint = last->outcome.fingerprint;
    rig_done(&rig);
    return fingerprint;
}

static void test_tolerance(void **state)
{
    (void)state;
    const struct wire_tolerances none = {0};
    const struct wire_tolerances close = {.count = 1, .items = {{.relative = 1e-6}}};
    const char *active = "{\"scores\": [0.1, 0.31], \"name\": \"Ann\"}";
    const char *near = "{\"name\": \"Ann\", \"scores\": [0.1, 0.31000001]}";
    const char *far = "{\"scores\": [0.1, 0.341], \"name\": \"Ann\"}";
    assert_true(agrees_within(active, near, close));
    rig_done(&rig);
    uint64_t second = expect_difference(active, far, close, "differs at .scores[1]: 0.31 vs 0.341");
    uint64_t first = expect_difference(active, "{\"scores\": [0.9, 0.31], \"name\": \"Ann\"}",
                                       close, "differs at .scores[0]: 0.1 vs 0.9");
    assert_true(first == second); // one cluster, whatever the element and its values
    uint64_t name = expect_difference(active, "{\"scores\": [0.1, 0.31], \"name\": \"Bob\"}", close,
                                      "differs at .name: a text vs another text");
    assert_true(first != name);
    // Exact is what goes without saying, and says where, too.
    (void)expect_difference(active, near, none, "differs at .scores[1]: 0.31 vs 0.31000001");
}

// What the device does not keep must be the same.
static void test_tolerance_of_a_long_result(void **state)
{
    (void)state;
    const struct wire_tolerances close = {.count = 1, .items = {{.absolute = 1}}};
    static char active[RIG_RESULT_BYTES + 64];
    static char shadow[RIG_RESULT_BYTES + 64];
    for (int over = 0; over < 2; over++) {
        size_t size = RIG_RESULT_BYTES + (size_t)over;
        memset(active, ' ', size);
        active[0] = '1';
        active[size] = '\0';
        memcpy(shadow, active, size + 1);
        shadow[0] = '2';
        assert_int_equal(agrees_within(active, shadow, close), over == 0);
        if (over == 1) {
            assert_string_equal(rig_last(&rig, WIRE_OUTCOME_FAIL_DIFFERENT)->detail,
                                "the result is not the active version's");
        }
        rig_done(&rig);
    }
}

// Two tasks that are due together have one place for a result: each shadow comes right after its
// task, and both are compared as often as one alone.
static void test_two_shadows_with_tolerances(void **state)
{
    (void)state;
    static const char *const names[] = {"demo/one", "demo/two"};
    struct rig_statement statement = {0};
    rig_init(&rig);
    for (uint32_t i = 0; i < 4; i++) {
        rig_version_add(&rig, names[i / 2], 1, 1000, WIRE_RUNTIME_ABI, EVERY_S);
        rig.versions[i].result = i % 2 == 0 ? "[0.5, 7]" : "[0.500001, 7]";
    }
    rig_boot(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        statement.task = names[i];
        statement.version = 2 * i;
        statement.counter = 1;
        statement.rollout_id = 3 + i;
        rig_offer(&rig, &statement);
        rig_checkin(&rig);
    }
    rig_offer_none(&rig);
    statement.shadow = true;
    statement.tolerances = (struct wire_tolerances){.count = 1, .items = {{.absolute = 0.001}}};
    for (uint32_t i = 0; i < 2; i++) {
        statement.task = names[i];
        statement.version = 2 * i + 1;
        statement.counter = 2;
        statement.rollout_id = ROLLOUT + i;
        rig_offer(&rig, &statement);
        rig_checkin(&rig);
    }
    rig_offer_none(&rig);
    run_for(DEV_SHADOW_RUNS + 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_DIFFERENT), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_SHADOW_AGREED), 2);
    assert_int_equal(rig.versions[1].runs, DEV_SHADOW_RUNS);
    assert_int_equal(rig.versions[3].runs, DEV_SHADOW_RUNS);
    rig_done(&rig);
}

static void test_failures(void **state)
{
    (void)state;
    expect_failure(WIRE_OUTCOME_FAIL_DIFFERENT, 1);
    expect_failure(WIRE_OUTCOME_FAIL_EXCEPTION, 1);
    expect_failure(WIRE_OUTCOME_FAIL_HEAVY, 1);
    expect_failure(WIRE_OUTCOME_FAIL_SLOW, DEV_SHADOW_TIMED_RUNS);
}

static uint32_t told;
static void count_result(void *app, struct base_str task, const struct dev_task_end *end)
{
    (void)app;
    (void)task;
    (void)end;
    told++;
}

// A task that runs once: the active version runs again for the comparison, and nobody is told.
static void test_task_without_interval(void **state)
{
    (void)state;
    begin(0);
    told = 0;
    rig.ports.on_result = count_result;
    uint32_t outcomes = rig.ledger_count;
    offer_shadow(2);
    run_for(5);
    check_untouched();
    assert_int_equal(rig.versions[1].runs, DEV_SHADOW_TIMED_RUNS);
    assert_int_equal(rig.versions[0].shadow_runs, DEV_SHADOW_TIMED_RUNS);
    assert_int_equal(rig.versions[0].runs, DEV_SHADOW_TIMED_RUNS + 1);
    assert_int_equal(told, 0);
    assert_int_equal(rig.ledger_count, outcomes + 2); // downloaded, agreed
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_SHADOW_AGREED), 1);
    rig_done(&rig);
}

// An active version that fails gives nothing to compare with.
static void test_active_version_fails(void **state)
{
    (void)state;
    begin(0);
    offer_shadow(2);
    rig_kill(&rig); // its comparisons are cut off, or not
    rig.versions[0].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    rig_boot(&rig);
    run_for(5);
    assert_true(rig.versions[0].shadow_runs <= DEV_SHADOW_REFERENCES + DEV_SHADOW_TIMED_RUNS);
    assert_int_equal(rig_active(&rig, TASK), 0);
    rig_done(&rig);
}

static void test_nothing_to_run_beside(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_version_add(&rig, TASK, 2, 3000, WIRE_RUNTIME_ABI, EVERY_S);
    rig_version_add(&rig, TASK, 2, 3000, WIRE_RUNTIME_ABI, EVERY_S);
    rig_boot(&rig);
    offer_shadow(2);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_NOT_APPLICABLE), 1);
    assert_int_equal(rig_last(&rig, WIRE_OUTCOME_NOT_APPLICABLE)->outcome.task_id,
                     wire_shadow_task_id(wire_task_id(BASE_STR(TASK))));
    assert_int_equal(dev_task_count(rig.runtime), 0);
    assert_int_equal(mem_blob_count(&rig.port), 0);
    rig_done(&rig);
}

static void test_over_when_the_gateway_says_so(void **state)
{
    (void)state;
    begin(EVERY_S);
    offer_shadow(2);
    run_for(3);
    rig_checkin(&rig); // an answer without offers alone means nothing
    struct dev_task_view view;
    assert_true(shadow_view(&view));
    struct rig_statement statement = shadow_statement(2);
    rig_offer(&rig, &statement);
    rig.offer_flags = WIRE_OFFER_FLAG_SHADOWS;
    rig_checkin(&rig);
    assert_true(shadow_view(&view)); // offered again: it is not the one that is over
    rig_offer_none(&rig);
    rig_checkin(&rig);
    assert_false(shadow_view(&view));
    struct wire_profile_pair pair;
    assert_false(shadow_pair(&pair));
    rig.offer_flags = 0;
    rig_checkin(&rig);
    uint32_t runs = rig.versions[1].runs;
    run_for(3);
    check_untouched();
    assert_int_equal(rig.versions[1].runs, runs);
    assert_int_equal(mem_blob_count(&rig.port), 3);
    rig_done(&rig);
}

// The stage passed: the same version is installed, without a download, and its shadow is gone.
static void test_installed_after_the_shadow(void **state)
{
    (void)state;
    begin(EVERY_S);
    offer_shadow(2);
    run_for(2);
    uint32_t requests = rig.blob_requests;
    struct rig_statement install = shadow_statement(2);
    install.shadow = false;
    install.slow_percent = 0;
    install.memory_percent = 0;
    rig_offer(&rig, &install);
    rig_checkin(&rig);
    rig_offer_none(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig_kept(&rig, TASK), 0);
    assert_int_equal(rig.blob_requests, requests);
    struct dev_task_view view;
    assert_false(shadow_view(&view));
    offer_shadow(2); // late: the device is past it
    assert_false(shadow_view(&view));
    assert_int_equal(rig_active(&rig, TASK), 1);
    rig_done(&rig);
}

static void test_newer_shadow_replaces(void **state)
{
    (void)state;
    begin(EVERY_S);
    offer_shadow(2);
    run_for(2);
    struct rig_statement statement = shadow_statement(4);
    statement.version = 2;
    rig.versions[2].result = rig.versions[0].result;
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_offer_none(&rig);
    uint32_t runs = rig.versions[1].runs;
    run_for(2);
    assert_int_equal(rig.versions[1].runs, runs);
    assert_true(rig.versions[2].runs > 0);
    offer_shadow(2); // below the floor of what it followed
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_NOT_APPLICABLE), 1);
    rig_done(&rig);
}

// A shadow that takes the process down is not started again.
static void test_crash(void **state)
{
    (void)state;
    begin(EVERY_S);
    offer_shadow(2);
    rig.hold_shadows = true;
    run_for(2);
    assert_true(rig.port.task.current.run != 0 && rig.port.task.current.shadow);
    rig_kill(&rig);
    rig.hold_shadows = false;
    rig_boot(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_CRASH), 1);
    check_untouched();
    uint32_t runs = rig.versions[1].runs;
    run_for(3);
    assert_int_equal(rig.versions[1].runs, runs);
    rig_done(&rig);
}

// ---- Digests of results

struct same {
    const char *a;
    const char *b;
    bool same;
};

static void test_digest(void **state)
{
    (void)state;
    static const struct same cases[] = {
        {"{\"a\":1,\"b\":2}", "{ \"b\": 2, \"a\": 1 }", true},
        {"[1,2]", "[2,1]", false},
        {"[1,2]", "[ 1 , 2 ]", true},
        {"{\"a\":1}", "{\"a\":2}", false},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"{\"a\":{\"x\":[1,{\"k\":null,\"l\":true}]}}",
         "{\"a\":{\"x\":[1,{\"l\":true,\"k\":null}]}}", true},
        {"{\"a\":1,\"b\":2}", "{\"a\":2,\"b\":1}", false},
        {"[]", "{}", false},
        {"[[]]", "[]", false},
        {"", "null", false},
        {"\"a\"", "a", false},
        {"\"a\\\"b\"", "\"a\\\"b\"", true},
        {"\"a,b\"", "\"a\" ,\"b\"", false},
        {"1", "1 2", false},
        {"[1,2", "[1,2]", false},
        {"{\"a\"}", "{\"a\":null}", false},
        {"{1:2}", "{\"1\":2}", false},
        {"[1]]", "[1]", false},
        {"[1}", "[1]", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool same = dev_result_digest(base_str_of(cases[i].a)) ==
                    dev_result_digest(base_str_of(cases[i].b));
        if (same != cases[i].same) {
            fail_msg("%s and %s: same %d", cases[i].a, cases[i].b, same);
        }
    }
}

// Objects with their members shuffled, at every level, against the same with one value changed.
static size_t write_value(struct base_prng *prng, char *out, size_t room, int depth, int change)
{
    int size = 0;
    uint32_t kind = depth > 3 ? 2 : (uint32_t)base_prng_below(prng, 3);
    if (kind == 2 || room < 300) {
        return (size_t)snprintf(out, room, "%d", (int)base_prng_below(prng, 50) + change * 100);
    }
    uint32_t count = 1 + (uint32_t)base_prng_below(prng, 4);
    out[size++] = kind == 0 ? '{' : '[';
    for (uint32_t i = 0; i < count; i++) {
        size += snprintf(out + size, room - (size_t)size, i > 0 ? ", " : "");
        if (kind == 0) {
            size += snprintf(out + size, room - (size_t)size, "\"k%u\": ", i);
        }
        size += (int)write_value(prng, out + size, room - (size_t)size - 100, depth + 1,
                                 i == 0 ? change : 0);
    }
    out[size++] = kind == 0 ? '}' : ']';
    out[size] = '\0';
    return (size_t)size;
}

static void test_digest_of_damaged_texts(void **state)
{
    (void)state;
    const uint64_t seed = 20261121;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    for (int round = 0; round < 2000; round++) {
        char text[4096];
        char other[4096];
        struct base_prng again = prng;
        size_t size = write_value(&prng, text, sizeof(text), 0, 0);
        size_t other_size = write_value(&again, other, sizeof(other), 0, 1);
        assert_int_equal(dev_result_digest((struct base_str){text, size}),
                         dev_result_digest((struct base_str){text, size}));
        assert_true(dev_result_digest((struct base_str){text, size}) !=
                    dev_result_digest((struct base_str){other, other_size}));
        // Any bytes at all: no crash, and cut texts are not the whole.
        uint64_t whole = dev_result_digest((struct base_str){text, size});
        size_t cut = base_prng_below(&prng, size);
        if (size > 2 && cut + 1 < size) {
            assert_true(dev_result_digest((struct base_str){text, cut}) != whole);
        }
        text[base_prng_below(&prng, size)] = (char)base_prng_next(&prng);
        (void)dev_result_digest((struct base_str){text, size});
    }
    char deep[200];
    memset(deep, '[', sizeof(deep));
    (void)dev_result_digest((struct base_str){deep, sizeof(deep)});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agreement),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_tolerance),
        cmocka_unit_test(test_two_shadows_with_tolerances),
        cmocka_unit_test(test_tolerance_of_a_long_result),
        cmocka_unit_test(test_task_without_interval),
        cmocka_unit_test(test_active_version_fails),
        cmocka_unit_test(test_nothing_to_run_beside),
        cmocka_unit_test(test_over_when_the_gateway_says_so),
        cmocka_unit_test(test_installed_after_the_shadow),
        cmocka_unit_test(test_newer_shadow_replaces),
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_digest_of_damaged_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
