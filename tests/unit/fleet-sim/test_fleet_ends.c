// The end of a rollout that completed: who came to its release, who holds a reason against it, and
// who is astray.
#include "test_kit.h"

#include "model/end_states.h"

#define DEVICES 8u

struct rig {
    struct test_alloc alloc;
    struct sim_versions versions;
    struct sim_ledger ledger;
    uint8_t old;
    uint8_t release;
};

static void rig_init(struct rig *rig)
{
    const struct wire_sha256 one = {{1}};
    const struct wire_sha256 two = {{2}};
    test_alloc_init(&rig->alloc, SIZE_MAX);
    sim_versions_init(&rig->versions);
    rig->old = sim_versions_intern(&rig->versions, &one);
    rig->release = sim_versions_intern(&rig->versions, &two);
    assert_int_equal(sim_ledger_init(&rig->ledger, &rig->alloc.port, &rig->versions, DEVICES),
                     BASE_OK);
}

static void rig_done(struct rig *rig)
{
    sim_ledger_done(&rig->ledger);
    sim_versions_done(&rig->versions);
    assert_int_equal(rig->alloc.live, 0);
}

// A device came online, and has a version active.
static void comes(struct rig *rig, uint32_t device, uint8_t version)
{
    rig->ledger.entries[device].arrived = true;
    sim_ledger_offered(&rig->ledger, device, rig->release, 10);
    if (version != SIM_VERSION_NONE) {
        sim_ledger_active(&rig->ledger, device, version, false, 20);
    }
}

static void runs(struct rig *rig, uint32_t device, uint8_t version, enum wire_outcome_kind outcome)
{
    const struct sim_run_end end = {version, outcome, BASE_STR("")};
    comes(rig, device, version);
    sim_ledger_run_started(&rig->ledger, device, version, true, true);
    sim_ledger_run_ended(&rig->ledger, device, &end, 30);
}

static void count(const struct rig *rig, struct sim_ends *out)
{
    const struct sim_ledger *ledgers[] = {&rig->ledger};
    sim_ends_count(ledgers, 1, out);
}

static void who_has_no_reason_is_astray(void **state)
{
    (void)state;
    struct rig rig;
    struct sim_ends ends;
    rig_init(&rig);
    comes(&rig, 0, SIM_VERSION_NONE); // it was told, and did nothing
    comes(&rig, 1, rig.release);      // active, and never run well
    runs(&rig, 2, rig.old, WIRE_OUTCOME_RAN);
    count(&rig, &ends);
    assert_int_equal(ends.devices, 3);
    assert_int_equal(ends.astray[rig.release], 3);
    assert_int_equal(ends.astray[rig.old], 2);
    assert_int_equal(ends.on[rig.release], 1);
    assert_int_equal(ends.on[rig.old], 1);
    assert_int_equal(ends.on[SIM_VERSION_NONE], 1);
    rig_done(&rig);
}

static void who_has_one_is_where_it_should_be(void **state)
{
    (void)state;
    struct rig rig;
    struct sim_ends ends;
    rig_init(&rig);
    runs(&rig, 0, rig.release, WIRE_OUTCOME_RAN);
    runs(&rig, 1, rig.release, WIRE_OUTCOME_FAIL_CRASH);
    sim_ledger_active(&rig.ledger, 1, rig.old, false, 40);
    comes(&rig, 2, SIM_VERSION_NONE); // no place
    sim_ledger_room(&rig.ledger, 2, true);
    comes(&rig, 3, rig.old); // it refuses the release
    sim_ledger_blocked(&rig.ledger, 3, rig.release);
    count(&rig, &ends);
    assert_int_equal(ends.devices, 4);
    assert_int_equal(ends.astray[rig.release], 0);
    sim_ledger_blocked(&rig.ledger, 3, rig.old); // another one
    count(&rig, &ends);
    assert_int_equal(ends.astray[rig.release], 1);
    rig_done(&rig);
}

// Good on the device once, and off it since.
static void who_left_it_is_astray(void **state)
{
    (void)state;
    struct rig rig;
    struct sim_ends ends;
    rig_init(&rig);
    runs(&rig, 0, rig.release, WIRE_OUTCOME_RAN);
    sim_ledger_active(&rig.ledger, 0, rig.old, false, 40);
    count(&rig, &ends);
    assert_int_equal(ends.astray[rig.release], 1);
    rig_done(&rig);
}

static void who_never_came_is_not_counted(void **state)
{
    (void)state;
    struct rig rig;
    struct sim_ends ends;
    rig_init(&rig);
    comes(&rig, 0, rig.old);
    rig.ledger.entries[0].arrived = false;
    count(&rig, &ends);
    assert_int_equal(ends.devices, 0);
    assert_int_equal(ends.astray[rig.release], 0);
    assert_int_equal(ends.on[rig.old], 0);
    rig_done(&rig);
}

// Shards are counted together.
static void all_shards_count(void **state)
{
    (void)state;
    struct rig rigs[2];
    struct sim_ends ends;
    for (uint32_t i = 0; i < 2; i++) {
        rig_init(&rigs[i]);
        comes(&rigs[i], i, rigs[i].old);
    }
    const struct sim_ledger *ledgers[] = {&rigs[0].ledger, &rigs[1].ledger};
    sim_ends_count(ledgers, 2, &ends);
    assert_int_equal(ends.devices, 2);
    assert_int_equal(ends.astray[rigs[0].release], 2);
    assert_int_equal(ends.astray_first[rigs[0].release], 0);
    rigs[0].ledger.entries[0].arrived = false; // the second ledger's is the only one
    sim_ends_count(ledgers, 2, &ends);
    assert_int_equal(ends.astray[rigs[0].release], 1);
    assert_int_equal(ends.astray_first[rigs[0].release], rigs[0].ledger.count + 1);
    assert_int_equal(ends.on_first[rigs[0].old], rigs[0].ledger.count + 1);
    rig_done(&rigs[0]);
    rig_done(&rigs[1]);
}

// Completed: those that are not on it. Rolled back: those that are. In between nobody can be.
static void how_a_rollout_ended_says_who_is_astray(void **state)
{
    (void)state;
    struct rig rig;
    struct sim_ends ends;
    struct sim_astray astray;
    rig_init(&rig);
    runs(&rig, 0, rig.release, WIRE_OUTCOME_RAN);
    runs(&rig, 1, rig.release, WIRE_OUTCOME_RAN);
    runs(&rig, 2, rig.old, WIRE_OUTCOME_RAN);
    count(&rig, &ends);
    assert_true(sim_ends_astray(&ends, "completed", rig.release, &astray));
    assert_int_equal(astray.count, 1);
    assert_int_equal(astray.first, 2);
    assert_true(sim_ends_astray(&ends, "rolled_back", rig.release, &astray));
    assert_int_equal(astray.count, 2);
    assert_int_equal(astray.first, 0);
    static const char *const others[] = {"running", "rolling_back", "paused", "guarding", ""};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(sim_ends_astray(&ends, others[i], rig.release, &astray));
    }
    assert_false(sim_ends_astray(&ends, "completed", SIM_VERSION_NONE, &astray));
    assert_int_equal(astray.count, 2); // as it was
    rig_done(&rig);
}

// Looks a minute apart, from second 100 on; somebody is away at one of them.
static void all_are_at_rest_when_they_stayed(void **state)
{
    (void)state;
    struct sim_rest rest = sim_rest_from(100);
    assert_false(sim_rest_due(&rest, 99));
    for (double now_s = 100; now_s < 100 + SIM_REST_S; now_s += SIM_REST_LOOK_S) {
        assert_true(sim_rest_due(&rest, now_s));
        assert_false(sim_rest_look(&rest, now_s, true));
        assert_false(sim_rest_due(&rest, now_s + SIM_REST_LOOK_S - 1));
    }
    assert_false(sim_rest_look(&rest, 100 + SIM_REST_S, false));
    for (double after_s = SIM_REST_LOOK_S; after_s <= SIM_REST_S; after_s += SIM_REST_LOOK_S) {
        bool all = sim_rest_look(&rest, 100 + SIM_REST_S + after_s, true);
        assert_int_equal(all, after_s >= SIM_REST_S);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_no_reason_is_astray),
        cmocka_unit_test(who_has_one_is_where_it_should_be),
        cmocka_unit_test(who_left_it_is_astray),
        cmocka_unit_test(who_never_came_is_not_counted),
        cmocka_unit_test(all_shards_count),
        cmocka_unit_test(how_a_rollout_ended_says_who_is_astray),
        cmocka_unit_test(all_are_at_rest_when_they_stayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
