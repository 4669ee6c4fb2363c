// The ledger: counters follow what happened, and every oracle can fail.
#include "test_kit.h"

#include "base/prng.h"
#include "model/ledger.h"

#define DEVICES 10u

struct rig {
    struct test_alloc alloc;
    struct sim_versions versions;
    struct sim_ledger ledger;
    uint8_t good;
    uint8_t bad;
    uint64_t law_broken;
    uint64_t astray;
    uint64_t mismatches;
};

static void rig_init(struct rig *rig)
{
    struct wire_sha256 one = {{1}};
    struct wire_sha256 two = {{2}};
    test_alloc_init(&rig->alloc, SIZE_MAX);
    sim_versions_init(&rig->versions);
    rig->law_broken = 0;
    rig->astray = 0;
    rig->mismatches = 0;
    rig->good = sim_versions_intern(&rig->versions, &one);
    assert_true(sim_versions_mark_bad(&rig->versions, &two));
    rig->bad = sim_versions_intern(&rig->versions, &two);
    assert_int_not_equal(rig->good, rig->bad);
    assert_int_equal(sim_ledger_init(&rig->ledger, &rig->alloc.port, &rig->versions, DEVICES),
                     BASE_OK);
    rig->ledger.bad_mask = 1ull << rig->bad;
}

static void rig_done(struct rig *rig)
{
    sim_ledger_done(&rig->ledger);
    sim_versions_done(&rig->versions);
    assert_int_equal(rig->alloc.live, 0);
}

// A device takes a version and runs it.
static void release(struct rig *rig, uint32_t device, uint8_t version,
                    enum wire_outcome_kind outcome)
{
    sim_ledger_offered(&rig->ledger, device, version, 10);
    sim_ledger_downloaded(&rig->ledger, device, 20);
    sim_ledger_active(&rig->ledger, device, version, false, 30);
    sim_ledger_run_started(&rig->ledger, device, version, true, true);
    const struct sim_run_end end = {version, outcome, BASE_STR("")};
    sim_ledger_run_ended(&rig->ledger, device, &end, 40);
}

// However long a device takes, when things happened is known to the millisecond.
static void times_are_kept_whole(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 6);
    for (uint32_t turn = 0; turn < 300; turn++) {
        uint32_t at_ms[4]; // offered, downloaded, activated, ran
        uint32_t now_ms = (uint32_t)base_prng_below(&prng, 1u << (turn % 30));
        const uint32_t device = turn % DEVICES;
        struct rig rig;
        rig_init(&rig);
        for (uint32_t i = 0; i < 4; i++) {
            at_ms[i] = now_ms;
            now_ms += (uint32_t)base_prng_below(&prng, 1u << base_prng_below(&prng, 30));
        }
        sim_ledger_offered(&rig.ledger, device, rig.good, at_ms[0]);
        sim_ledger_downloaded(&rig.ledger, device, at_ms[1]);
        sim_ledger_active(&rig.ledger, device, rig.good, false, at_ms[2]);
        sim_ledger_run_started(&rig.ledger, device, rig.good, true, true);
        const struct sim_run_end end = {rig.good, WIRE_OUTCOME_RAN, BASE_STR("")};
        sim_ledger_run_ended(&rig.ledger, device, &end, at_ms[3]);
        struct sim_ledger_times times = sim_ledger_times(&rig.ledger, device);
        assert_int_equal(times.offered_ms, at_ms[0]);
        assert_int_equal(times.downloaded_ms, at_ms[1] > 0 ? at_ms[1] : 1); // 0: not yet
        assert_int_equal(times.activated_ms, at_ms[2] > 0 ? at_ms[2] : 1);
        assert_int_equal(times.ran_ms, at_ms[3] > 0 ? at_ms[3] : 1);
        sim_ledger_offered(&rig.ledger, device, rig.bad, now_ms);
        times = sim_ledger_times(&rig.ledger, device);
        assert_int_equal(times.offered_ms, now_ms);
        assert_int_equal(times.downloaded_ms | times.activated_ms | times.ran_ms, 0);
        rig_done(&rig);
    }
}

// A run is of one task: the first that any of its shards was offered.
static void all_follow_one_task(void **state)
{
    struct rig rig;
    (void)state;
    rig_init(&rig);
    assert_int_equal(sim_versions_follow(&rig.versions, 7), 7);
    assert_int_equal(sim_versions_follow(&rig.versions, 8), 7);
    assert_int_equal(sim_versions_follow(&rig.versions, 7), 7);
    rig_done(&rig);
}

static struct sim_verdict judge(const struct rig *rig, uint32_t max_exposed_ppm)
{
    struct sim_verdict verdict;
    const struct sim_ledger *ledgers[] = {&rig->ledger};
    sim_ledger_judge(ledgers, 1, true, max_exposed_ppm, &verdict);
    sim_ledger_judge_ends(&verdict, rig->astray, DEVICES);
    sim_ledger_judge_law(&verdict, rig->law_broken, DEVICES);
    sim_ledger_judge_bytes(&verdict, rig->mismatches, DEVICES, 4);
    assert_int_equal(verdict.oracle[SIM_ORACLE_BYTES].names_device, rig->mismatches > 0);
    return verdict;
}

static void counts_follow_devices(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        release(&rig, i, rig.good, WIRE_OUTCOME_RAN);
        release(&rig, i, rig.good, WIRE_OUTCOME_RAN); // offered again: counts once
    }
    const struct sim_version_counters *good = &rig.ledger.counters.version[rig.good];
    const struct sim_version_counters *bad = &rig.ledger.counters.version[rig.bad];
    assert_int_equal(good->offered, DEVICES);
    assert_int_equal(good->downloaded, DEVICES);
    assert_int_equal(good->activated, DEVICES);
    assert_int_equal(good->ran, DEVICES);
    assert_int_equal(good->current, DEVICES);
    assert_int_equal(rig.ledger.counters.runs, 2 * DEVICES);
    assert_int_equal(rig.ledger.offer_to_run_us.count, DEVICES);

    release(&rig, 0, rig.bad, WIRE_OUTCOME_FAIL_EXCEPTION);
    release(&rig, 1, rig.bad, WIRE_OUTCOME_RAN);
    assert_int_equal(bad->offered, 2);
    assert_int_equal(bad->failed, 1);
    assert_int_equal(bad->ran, 1);
    assert_int_equal(bad->current, 1);
    assert_int_equal(good->current, DEVICES - 2);
    assert_int_equal(rig.ledger.counters.exposed, 2);

    sim_ledger_active(&rig.ledger, 0, rig.good, false, 50);
    sim_ledger_active(&rig.ledger, 1, rig.good, false, 50);
    assert_int_equal(bad->rolled_back, 2);
    assert_int_equal(bad->current, 0);
    assert_int_equal(good->current, DEVICES);     // known to run there
    release(&rig, 0, rig.good, WIRE_OUTCOME_RAN); // ordered back, and run again: the same device
    assert_int_equal(good->ran, DEVICES);
    assert_int_equal(good->current, DEVICES);
    rig_done(&rig);
}

// A run may meet more versions than an entry has place for.
static void every_version_counts(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    uint64_t good = 0;
    uint64_t failed = 0;
    for (uint8_t version = 1; version < SIM_VERSIONS_MAX; version++) {
        bool fails = version % 3 == 0;
        release(&rig, 1, version, fails ? WIRE_OUTCOME_FAIL_EXCEPTION : WIRE_OUTCOME_RAN);
        good |= fails ? 0 : 1ull << version;
        failed |= fails ? 1ull << version : 0;
        const struct sim_ledger_masks masks = sim_ledger_masks(&rig.ledger, 1);
        assert_int_equal(masks.ran, good | failed);
        assert_int_equal(masks.good, good);
        assert_int_equal(masks.failed, failed);
        assert_int_equal(rig.ledger.counters.version[version].ran, !fails);
        assert_int_equal(rig.ledger.counters.version[version].failed, fails);
        release(&rig, 1, version, WIRE_OUTCOME_RAN); // counts once
        assert_int_equal(rig.ledger.counters.version[version].offered, 1);
        good |= 1ull << version;
    }
    assert_int_equal(sim_ledger_masks(&rig.ledger, 0).ran, 0);
    rig_done(&rig);
}

// A run of the version before may end after the next one is active: it says nothing of that one.
static void late_ends_are_of_the_version_before(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    release(&rig, 0, rig.good, WIRE_OUTCOME_RAN);
    sim_ledger_offered(&rig.ledger, 0, rig.bad, 50);
    sim_ledger_active(&rig.ledger, 0, rig.bad, false, 60);
    struct sim_run_end end = {rig.good, WIRE_OUTCOME_RAN, BASE_STR("")};
    sim_ledger_run_ended(&rig.ledger, 0, &end, 70);
    sim_ledger_run_started(&rig.ledger, 0, rig.bad, true, true);
    assert_int_equal(rig.ledger.counters.version[rig.bad].current, 0);
    end.version = rig.bad;
    sim_ledger_run_ended(&rig.ledger, 0, &end, 80);
    assert_int_equal(rig.ledger.counters.version[rig.bad].current, 1);
    assert_int_equal(rig.ledger.counters.version[rig.good].current, 0);
    rig_done(&rig);
}

// A release is taken back from devices that had nothing before: by an offer of another version,
// which is new to them, or by nothing at all. Neither is back on what it had.
static void who_had_none_before_is_not_back_on_it(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    release(&rig, 0, rig.bad, WIRE_OUTCOME_RAN);
    sim_ledger_offered(&rig.ledger, 0, rig.good, 50);
    sim_ledger_active(&rig.ledger, 0, rig.good, true, 60);
    release(&rig, 1, rig.bad, WIRE_OUTCOME_RAN);
    sim_ledger_active(&rig.ledger, 1, SIM_VERSION_NONE, false, 60);
    release(&rig, 2, rig.good, WIRE_OUTCOME_RAN);
    release(&rig, 2, rig.bad, WIRE_OUTCOME_RAN);
    sim_ledger_active(&rig.ledger, 2, rig.good, false, 60);
    release(&rig, 3, rig.bad, WIRE_OUTCOME_RAN); // an ordinary update follows
    release(&rig, 3, rig.good, WIRE_OUTCOME_RAN);
    struct sim_verdict verdict = judge(&rig, 1000000);
    assert_int_equal(rig.ledger.counters.version[rig.bad].rolled_back, 3);
    assert_int_equal(rig.ledger.counters.version[rig.good].activated, 3);
    assert_int_equal(verdict.exposed, 4);
    assert_int_equal(verdict.back_as_before, 1);
    assert_int_equal(verdict.none_before, 3);
    rig_done(&rig);
}

static void all_hold_when_all_is_well(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        release(&rig, i, rig.good, WIRE_OUTCOME_RAN);
    }
    release(&rig, 3, rig.bad, WIRE_OUTCOME_FAIL_EXCEPTION);
    sim_ledger_active(&rig.ledger, 3, rig.good, false, 50);
    struct sim_verdict verdict = judge(&rig, 100000);
    assert_true(verdict.holds);
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        assert_true(verdict.oracle[i].checked && verdict.oracle[i].holds);
        assert_true(strlen(sim_oracle_text((enum sim_oracle)i)) > 10);
    }
    assert_int_equal(verdict.exposed, 1);
    assert_int_equal(verdict.back_as_before, 1);
    assert_int_equal(verdict.still_bad, 0);
    rig_done(&rig);
}

static void break_it(struct rig *rig, enum sim_oracle oracle)
{
    switch (oracle) {
    case SIM_ORACLE_VERIFIED:
        sim_ledger_run_started(&rig->ledger, 0, rig->good, false, true);
        break;
    case SIM_ORACLE_PERMITTED:
        sim_ledger_run_started(&rig->ledger, 0, rig->good, true, false);
        break;
    case SIM_ORACLE_SEALED:
        rig->ledger.counters.bad_seals = 1;
        break;
    case SIM_ORACLE_EXACT:
        rig->ledger.counters.memo_mismatches = 1;
        break;
    case SIM_ORACLE_RECOVERED:
        rig->ledger.counters.boot_failures = 1;
        break;
    case SIM_ORACLE_BACK: // stays on the bad version
        release(rig, 0, rig->bad, WIRE_OUTCOME_RAN);
        break;
    case SIM_ORACLE_STOOD:
        sim_ledger_activated(&rig->ledger, 0, 1, 1, rig->good);
        sim_ledger_blocked(&rig->ledger, 0, rig->good);
        break;
    case SIM_ORACLE_LAW:
        rig->law_broken = 1;
        break;
    case SIM_ORACLE_ONCE:
        rig->ledger.counters.twice_active = 1;
        break;
    case SIM_ORACLE_KEPT:
        rig->ledger.counters.kept_lost = 1;
        break;
    case SIM_ORACLE_CALM:
        rig->ledger.counters.stormed = 1;
        break;
    case SIM_ORACLE_CONTROL:
        rig->ledger.counters.marks_fetched = 1;
        break;
    case SIM_ORACLE_ENDED:
        rig->astray = 1;
        break;
    case SIM_ORACLE_BYTES:
        rig->mismatches = 1;
        break;
    case SIM_ORACLE_EXPOSURE: // two of ten, one allowed; both are back
    default:
        for (uint32_t i = 0; i < 2; i++) {
            release(rig, i, rig->bad, WIRE_OUTCOME_RAN);
            sim_ledger_active(&rig->ledger, i, rig->good, false, 50);
        }
        break;
    }
}

static void each_can_fail(void **state)
{
    (void)state;
    for (uint32_t broken = 0; broken < SIM_ORACLE_COUNT; broken++) {
        struct rig rig;
        rig_init(&rig);
        for (uint32_t i = 0; i < DEVICES; i++) {
            release(&rig, i, rig.good, WIRE_OUTCOME_RAN);
        }
        break_it(&rig, (enum sim_oracle)broken);
        struct sim_verdict verdict = judge(&rig, 100000);
        assert_false(verdict.holds);
        for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
            if (verdict.oracle[i].holds == (i == broken)) {
                fail_msg("broke %s: %s %s", sim_oracle_name((enum sim_oracle)broken),
                         sim_oracle_name((enum sim_oracle)i),
                         verdict.oracle[i].holds ? "holds" : "is broken");
            }
        }
        assert_int_equal(verdict.oracle[broken].violations, 1);
        rig_done(&rig);
    }
}

// Activations on devices with several tasks are not looked at one by one.
static void what_is_not_looked_at_is_not_counted(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig.ledger.counters.activations = 5;
    struct sim_verdict verdict = judge(&rig, 100000);
    assert_non_null(sim_oracle_nothing(SIM_ORACLE_ONCE, &verdict.oracle[SIM_ORACLE_ONCE]));
    rig.ledger.counters.once_compared = 3;
    verdict = judge(&rig, 100000);
    assert_null(sim_oracle_nothing(SIM_ORACLE_ONCE, &verdict.oracle[SIM_ORACLE_ONCE]));
    assert_int_equal(verdict.oracle[SIM_ORACLE_ONCE].population, 3);
    rig_done(&rig);
}

// A version that is given up on a trial of its own is none of the marks' affairs.
static void only_what_was_marked_has_to_stand(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    release(&rig, 0, rig.good, WIRE_OUTCOME_RAN);
    sim_ledger_activated(&rig.ledger, 0, 2, 1, rig.good);
    assert_int_equal(rig.ledger.counters.activations, 2);
    assert_int_equal(rig.ledger.counters.marked, 1);
    assert_int_equal(rig.ledger.entries[0].activations, 2);
    sim_ledger_blocked(&rig.ledger, 0, SIM_VERSION_NONE);
    release(&rig, 0, rig.bad, WIRE_OUTCOME_FAIL_EXCEPTION);
    sim_ledger_blocked(&rig.ledger, 0, rig.bad);
    sim_ledger_active(&rig.ledger, 0, rig.good, false, 50);
    sim_ledger_blocked(&rig.ledger, 0, rig.good); // it has come anew since it was marked
    assert_int_equal(rig.ledger.counters.marked_lost, 0);
    assert_true(judge(&rig, 100000).oracle[SIM_ORACLE_STOOD].holds);
    rig_done(&rig);
}

static void what_does_not_apply_is_not_checked(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    release(&rig, 0, rig.bad, WIRE_OUTCOME_FAIL_CRASH);
    struct sim_verdict verdict;
    const struct sim_ledger *ledgers[] = {&rig.ledger};
    sim_ledger_judge(ledgers, 1, false, UINT32_MAX, &verdict); // in process: nobody rolls back
    assert_false(verdict.oracle[SIM_ORACLE_LAW].checked);      // and nobody behaved
    assert_false(verdict.oracle[SIM_ORACLE_BACK].checked);
    assert_false(verdict.oracle[SIM_ORACLE_EXPOSURE].checked);
    assert_true(verdict.holds);
    verdict = judge(&rig, UINT32_MAX);
    assert_true(verdict.oracle[SIM_ORACLE_BACK].checked);
    assert_false(verdict.oracle[SIM_ORACLE_EXPOSURE].checked);
    assert_false(verdict.holds);
    rig_done(&rig);
}

static void versions_have_names(void **state)
{
    (void)state;
    struct rig rig;
    char name[SIM_LABEL_MAX];
    rig_init(&rig);
    struct sim_version version = sim_versions_get(&rig.versions, rig.good);
    sim_version_name(&version, name);
    assert_string_equal(name, "01000000"); // until a device ran it
    sim_versions_describe(&rig.versions, rig.good, BASE_STR("ipv"), BASE_STR("1.2.3"));
    version = sim_versions_get(&rig.versions, rig.good);
    sim_version_name(&version, name);
    assert_string_equal(name, "1.2.3");
    assert_int_equal(sim_versions_find(&rig.versions, 0, BASE_STR("1.2.3")), rig.good);
    assert_int_equal(sim_versions_find(&rig.versions, 0, BASE_STR("0100")), rig.good);
    assert_int_equal(sim_versions_find(&rig.versions, 0, BASE_STR("ffff")), SIM_VERSION_NONE);
    rig_done(&rig);
}

static void permissions_are_the_signed_ones(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    struct wire_release release = {
        .task_name = BASE_STR("ipv"),
        .manifest = {{1}},
        .max_bucket = 1000, // a tenth
        .salt = 77,
    };
    assert_false(sim_versions_allowed(&rig.versions, rig.good, 1, false));
    assert_int_equal(sim_versions_grant(&rig.versions, &release, false), rig.good);
    uint32_t allowed = 0;
    for (uint64_t device = 0; device < 10000; device++) {
        allowed +=
            sim_versions_allowed(&rig.versions, rig.good, device * 0x9e3779b97f4a7c15u, false);
        assert_false(sim_versions_allowed(&rig.versions, rig.bad, device, false));
    }
    assert_in_range(allowed, 850, 1150);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_kept_whole),
        cmocka_unit_test(all_follow_one_task),
        cmocka_unit_test(counts_follow_devices),
        cmocka_unit_test(every_version_counts),
        cmocka_unit_test(late_ends_are_of_the_version_before),
        cmocka_unit_test(who_had_none_before_is_not_back_on_it),
        cmocka_unit_test(all_hold_when_all_is_well),
        cmocka_unit_test(each_can_fail),
        cmocka_unit_test(what_is_not_looked_at_is_not_counted),
        cmocka_unit_test(only_what_was_marked_has_to_stand),
        cmocka_unit_test(what_does_not_apply_is_not_checked),
        cmocka_unit_test(versions_have_names),
        cmocka_unit_test(permissions_are_the_signed_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
