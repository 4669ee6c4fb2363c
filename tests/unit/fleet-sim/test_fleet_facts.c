// What is noted of devices: floors, storms of requests, and activations of what was active.
#include "test_kit.h"

#include "model/facts.h"

#define DEVICES 3u

struct rig {
    struct test_alloc alloc;
    struct sim_facts facts;
    struct sim_counters counters;
};

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){0};
    test_alloc_init(&rig->alloc, SIZE_MAX);
    assert_int_equal(sim_facts_init(&rig->facts, &rig->alloc.port, DEVICES), BASE_OK);
}

static void rig_done(struct rig *rig)
{
    sim_facts_done(&rig->facts);
    assert_int_equal(rig->alloc.live, 0);
}

static void wake(struct rig *rig, uint64_t floor, uint8_t active)
{
    const struct sim_having having = {floor, active};
    sim_facts_woke(&rig->facts, &rig->counters, 0, &having);
}

static void what_was_there_has_to_be_there(void **state)
{
    (void)state;
    struct rig rig;
    const struct sim_having having = {7, 2};
    rig_init(&rig);
    wake(&rig, 0, 0); // nothing is known of it
    assert_int_equal(rig.counters.kept_compared, 0);
    sim_facts_slept(&rig.facts, 0, &having);
    wake(&rig, 7, 2);
    wake(&rig, 9, 2);
    assert_int_equal(rig.counters.kept_compared, 2);
    assert_int_equal(rig.counters.kept_lost, 0);
    wake(&rig, 6, 2);
    assert_int_equal(rig.counters.kept_lost, 1);
    wake(&rig, 7, 0);
    assert_int_equal(rig.counters.kept_lost, 2);
    sim_facts_forget(&rig.facts, 0); // its storage was cleared
    wake(&rig, 0, 0);
    sim_facts_slept(&rig.facts, 0, &having);
    sim_facts_died(&rig.facts, 0);
    wake(&rig, 0, 0);
    assert_int_equal(rig.counters.kept_lost, 2);
    rig_done(&rig);
}

static void load(struct rig *rig, struct base_str record, bool excused)
{
    const struct base_span bytes = {(const uint8_t *)record.data, record.size};
    sim_facts_loaded(&rig->facts, &rig->counters, 0, bytes, excused);
}

// A kill takes what was not saved: what was saved has to be there.
static void what_was_saved_outlives_a_kill(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    load(&rig, BASE_STR(""), false); // a fresh device
    assert_int_equal(rig.counters.kept_compared, 0);
    sim_facts_saved(&rig.facts, 0, (struct base_span){(const uint8_t *)"one", 3});
    sim_facts_died(&rig.facts, 0);
    load(&rig, BASE_STR("one"), false);
    assert_int_equal(rig.counters.kept_compared, 1);
    assert_int_equal(rig.counters.kept_lost, 0);
    sim_facts_saved(&rig.facts, 0, (struct base_span){(const uint8_t *)"two", 3});
    sim_facts_forget(&rig.facts, 0); // of another failure of storage, that takes nothing
    sim_facts_died(&rig.facts, 0);
    load(&rig, BASE_STR("one"), false);
    assert_int_equal(rig.counters.kept_lost, 1);
    load(&rig, BASE_STR("one"), false); // counted once
    assert_int_equal(rig.counters.kept_lost, 1);
    load(&rig, BASE_STR(""), false);
    assert_int_equal(rig.counters.kept_lost, 2);
    rig_done(&rig);
}

static void what_a_fault_took_is_not_missed(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    sim_facts_saved(&rig.facts, 0, (struct base_span){(const uint8_t *)"two", 3});
    load(&rig, BASE_STR("one"), true); // a backup
    load(&rig, BASE_STR("one"), false);
    load(&rig, BASE_STR(""), true); // cleared
    load(&rig, BASE_STR(""), false);
    assert_int_equal(rig.counters.kept_compared, 1);
    assert_int_equal(rig.counters.kept_lost, 0);
    rig_done(&rig);
}

static void asked_in_vain(struct rig *rig, uint32_t device, uint32_t times, uint64_t at_us)
{
    for (uint32_t i = 0; i < times; i++) {
        sim_facts_failed(&rig->facts, &rig->counters, device, at_us);
    }
}

static void a_storm_is_one_device_within_one_minute(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    asked_in_vain(&rig, 0, SIM_FAILED_A_MINUTE_MAX, 59999999);
    asked_in_vain(&rig, 0, SIM_FAILED_A_MINUTE_MAX, 60000000); // the next minute
    asked_in_vain(&rig, 1, SIM_FAILED_A_MINUTE_MAX, 60000000); // another device
    sim_facts_died(&rig.facts, 1);
    asked_in_vain(&rig, 1, SIM_FAILED_A_MINUTE_MAX, 60000000); // its process began anew
    assert_int_equal(rig.counters.stormed, 0);
    asked_in_vain(&rig, 0, 1, 60000000);
    assert_int_equal(rig.counters.stormed, 1);
    asked_in_vain(&rig, 0, 100000, 60000000); // counted once
    assert_int_equal(rig.counters.stormed, 1);
    rig_done(&rig);
}

// Whatever came of them.
static void asking_is_a_storm_too(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    for (uint32_t minute = 0; minute < 3; minute++) {
        for (uint32_t i = 0; i < SIM_ASKED_A_MINUTE_MAX; i++) {
            sim_facts_asked(&rig.facts, &rig.counters, 0, minute * UINT64_C(60000000));
        }
    }
    assert_int_equal(rig.counters.stormed, 0);
    sim_facts_asked(&rig.facts, &rig.counters, 0, 2 * UINT64_C(60000000));
    assert_int_equal(rig.counters.stormed, 1);
    asked_in_vain(&rig, 0, SIM_FAILED_A_MINUTE_MAX + 1, 2 * UINT64_C(60000000)); // the same device
    assert_int_equal(rig.counters.stormed, 1);
    rig_done(&rig);
}

// What is installed anew is not asked for what it had.
static void what_begins_anew_has_nothing_to_keep(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    sim_facts_saved(&rig.facts, 0, (struct base_span){(const uint8_t *)"one", 3});
    sim_facts_anew(&rig.facts, 0);
    load(&rig, BASE_STR(""), false);
    assert_int_equal(rig.counters.kept_lost, 0);
    rig_done(&rig);
}

static void an_activation_needs_a_reason(void **state)
{
    (void)state;
    static const struct {
        struct sim_moves moves;
        bool twice;
    } cases[] = {
        {{.activations = 0, .changed = false, .had = true}, false},
        {{.activations = 1, .changed = true, .had = false}, false}, // its first version
        {{.activations = 1, .changed = true, .had = true}, false},
        {{.activations = 1, .changed = false, .had = true}, true},
        {{.activations = 2, .changed = true, .had = false}, true},
        {{.activations = 1, .back = 1, .changed = false, .had = true}, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (sim_moves_twice(&cases[i].moves) != cases[i].twice) {
            fail_msg("case %zu", i);
        }
    }
}

static void no_memory(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct sim_facts facts = {0};
    test_alloc_init(&alloc, 0);
    assert_int_equal(sim_facts_init(&facts, &alloc.port, DEVICES), BASE_ERR_NOMEM);
    struct sim_counters counters = {0};
    sim_facts_failed(&facts, &counters, 0, 0); // of a fleet that is too large, too
    const struct sim_having having = {1, 1};
    sim_facts_slept(&facts, 0, &having);
    sim_facts_woke(&facts, &counters, 0, &having);
    assert_int_equal(counters.kept_compared, 0);
    sim_facts_done(&facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_there_has_to_be_there),
        cmocka_unit_test(what_was_saved_outlives_a_kill),
        cmocka_unit_test(what_a_fault_took_is_not_missed),
        cmocka_unit_test(a_storm_is_one_device_within_one_minute),
        cmocka_unit_test(asking_is_a_storm_too),
        cmocka_unit_test(what_begins_anew_has_nothing_to_keep),
        cmocka_unit_test(an_activation_needs_a_reason),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
