// A device with a root: what it believes and what it refuses, leases and kills, and that a kill of
// the process or a failing store at any call leaves it with the old or the new belief, whole.
#include "role_rig.h"

#include "core/base/runtime.h"
#include "core/trust/trust_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK       "demo/score"
#define CALLS_MAX  600
#define STAGE_GRAY 2
#define STAGE_FULL 3

static struct role_rig roles;
static struct rig *rig = &roles.rig;

static void begin(uint32_t lease_max_s)
{
    role_rig_init(&roles, lease_max_s);
    rig_version_add(rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(rig, TASK, 2, 200, WIRE_RUNTIME_ABI, 0);
    rig_version_add(rig, TASK, 1, 300, WIRE_RUNTIME_ABI, 0);
}

static int teardown(void **state)
{
    (void)state;
    role_rig_done(&roles);
    return 0;
}

static void release(uint32_t version, uint64_t counter, uint8_t stage)
{
    struct rig_statement statement = {.task = TASK,
                                      .version = version,
                                      .counter = counter,
                                      .rollout_id = counter,
                                      .stage = stage};
    role_release(&roles, &statement);
}

static const struct dev_stats *stats(void)
{
    static struct dev_stats now;
    dev_stats(rig->runtime, &now);
    return &now;
}

// The last outcome carries this status.
static void expect_code(enum base_status status)
{
    assert_true(rig->ledger_count > 0);
    const struct rig_outcome *last = &rig->ledger[rig->ledger_count - 1];
    if (last->outcome.fingerprint != (uint64_t)(-(int64_t)status)) {
        fail_msg("'%s' (%llu), not %s", last->detail, (unsigned long long)last->outcome.fingerprint,
                 base_status_name(status));
    }
}

// ---- Releases

static void test_install_needs_metadata_first(void **state)
{
    (void)state;
    begin(0);
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->checkins, 1);       // the answer waits for the metadata
    assert_int_equal(roles.meta_requests, 1); // all of it comes in one answer
    assert_int_equal(stats()->refused_offers, 0);
    release(1, 2, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig_kept(rig, TASK), 0);
    assert_int_equal(mem_blob_count(&rig->port), 2 + 3 + 2); // versions, timestamp, snapshot
}

// A shadow passes the same checks under its own id, has no lease, and goes when it is killed.
static void test_shadow_by_roles(void **state)
{
    (void)state;
    begin(3600);
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    struct rig_statement statement = {
        .task = TASK, .version = 1, .counter = 2, .rollout_id = 2, .shadow = true};
    role_release(&roles, &statement);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_SHADOW_AGREED), 1);
    assert_int_equal(stats()->refused_offers, 0);
    assert_int_equal(roles.asked_for_lease, 0);
    uint32_t blobs = mem_blob_count(&rig->port);
    roles.timestamp.kills[0] = rig->versions[1].manifest;
    roles.timestamp.kill_count = 1;
    role_publish(&roles, false);
    rig_checkin(rig); // it is said again, and the newer timestamp with it
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(mem_blob_count(&rig->port), blobs - 3); // manifest and two files
}

static void test_lost_connections_cost_time_only(void **state)
{
    (void)state;
    begin(0);
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    roles.meta_failures = 6;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(roles.meta_requests, 6 + 1);
    assert_int_equal(stats()->refused_metadata, 0);
}

static void test_not_listed_is_mixed(void **state)
{
    (void)state;
    begin(0);
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    roles.entries[0].manifest = rig->versions[1].manifest; // the snapshot names another version
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), -1);
    expect_code(BASE_ERR_MIXED);
}

static void test_no_scenario_is_mixed(void **state)
{
    (void)state;
    begin(0);
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    roles.no_scenario = true;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), -1);
    expect_code(BASE_ERR_MIXED);
}

static void test_one_signer_is_for_few_devices(void **state)
{
    (void)state;
    begin(0);
    rig_boot(rig);
    struct rig_statement statement = {
        .task = TASK, .counter = 1, .rollout_id = 1, .stage = STAGE_GRAY, .signers = 1};
    role_release(&roles, &statement);
    rig_checkin(rig);
    expect_code(BASE_ERR_THRESHOLD);
    assert_int_equal(rig_active(rig, TASK), -1);
}

// ---- Metadata that goes back, was changed, or ran out

static void expect_refused(enum base_status status)
{
    uint64_t before = stats()->refused_metadata;
    uint32_t runs = rig->versions[1].runs;
    rig_checkin(rig);
    assert_true(stats()->refused_metadata > before);
    expect_code(status);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->versions[1].runs, runs);
}

static void settled(void)
{
    begin(0);
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    release(1, 2, STAGE_FULL);
}

static void test_timestamp_goes_back(void **state)
{
    (void)state;
    settled();
    roles.directed_version = 99;
    roles.timestamp.version = 1;
    expect_refused(BASE_ERR_ROLLBACK);
}

static void test_timestamp_ran_out(void **state)
{
    (void)state;
    settled();
    roles.timestamp.issued_s -= 2 * 86400;
    roles.timestamp.expires_s = roles.timestamp.issued_s + 86400;
    expect_refused(BASE_ERR_FROZEN);
}

static void test_timestamp_by_another_key(void **state)
{
    (void)state;
    settled();
    roles.meta_by = ROLE_KEY_ONLINE2;
    expect_refused(BASE_ERR_SIGNATURE);
}

static void test_scenario_vanishes(void **state)
{
    (void)state;
    settled();
    roles.no_scenario = true;
    expect_refused(BASE_ERR_ROLLBACK);
}

static void test_snapshot_was_changed(void **state)
{
    (void)state;
    settled();
    roles.other_bytes = true;
    expect_refused(BASE_ERR_HASH);
}

static void test_snapshot_of_another_version(void **state)
{
    (void)state;
    settled();
    roles.said_version = 77;
    expect_refused(BASE_ERR_MIXED);
}

static void test_snapshot_forgets_a_task(void **state)
{
    (void)state;
    settled();
    roles.entries[0] = roles.entries[1];
    roles.entries[0].task_id++; // the task of this device is gone
    roles.entry_count = 1;
    expect_refused(BASE_ERR_ROLLBACK);
}

static void test_a_frozen_device_takes_nothing_and_runs_on(void **state)
{
    (void)state;
    settled();
    rig_offer_none(rig);
    mem_clock_advance(&rig->port, 2 * 86400 * 1000000ull);
    roles.meta_failures = 1000000; // nothing new comes
    struct rig_statement statement = {.task = TASK,
                                      .version = 1,
                                      .counter = 2,
                                      .rollout_id = 2,
                                      .stage = STAGE_FULL,
                                      .signers = 3};
    rig_offer(rig, &statement);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    roles.meta_failures = 0;
    role_publish(&roles, false);
    rig_run(rig, 3600 * 1000000ull);
    assert_int_equal(rig_active(rig, TASK), 1);
}

// ---- Roots

static void test_long_chain(void **state)
{
    (void)state;
    begin(0);
    rig_boot(rig);
    while (roles.root_count < ROLE_ROOTS_MAX) {
        role_root_add(&roles, ROLE_KEY_ONLINE, 0);
    }
    release(0, 1, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig->runtime->trust->root_version, ROLE_ROOTS_MAX);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_true(mem_blob_count(&rig->port) <= 2 + 3); // one root is kept
    rig_kill(rig);
    rig_boot(rig);
    assert_int_equal(rig->runtime->trust->root_version, ROLE_ROOTS_MAX);
}

static void test_new_online_keys_forget_a_forged_future(void **state)
{
    (void)state;
    settled();
    uint64_t now_s = rig->port.clock.wall_us / 1000000;
    roles.timestamp.version = (UINT64_C(1) << 53) - 1; // by a thief of the online key
    roles.timestamp.issued_s = now_s + 300u * 86400;
    roles.timestamp.expires_s = now_s + 301u * 86400;
    rig_checkin(rig);
    assert_true(rig->runtime->trust->timestamp_version == (UINT64_C(1) << 53) - 1);
    assert_true(dev_wall_s(rig->runtime) <= now_s + 86400); // its own clock is right
    // The true gateway again, with keys that the thief does not have.
    roles.timestamp.version = 50;
    role_root_add(&roles, ROLE_KEY_ONLINE2, 0);
    role_publish(&roles, true);
    release(2, 3, STAGE_FULL);
    rig_checkin(rig);
    rig_checkin(rig);
    assert_int_equal(rig->runtime->trust->root_version, 2);
    assert_true(dev_wall_s(rig->runtime) < now_s + 86400);
    assert_int_equal(rig_active(rig, TASK), 2);
}

// The next root names another key in place of the first.
static void exchange_release_keys(void)
{
    EVP_PKEY *key = rig->keys[0];
    rig->keys[0] = rig->keys[2];
    rig->keys[2] = key;
    role_root_add(&roles, ROLE_KEY_ONLINE, 0);
}

// A statement by keys that the device does not know yet: it looks for the root that names them
// before it refuses anything.
static void test_new_release_keys_are_looked_for(void **state)
{
    (void)state;
    begin(0);
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    exchange_release_keys();
    release(1, 2, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(stats()->root_version, 2);
    assert_int_equal(stats()->refused_offers, 0);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_VERIFY), 0);
}

// By keys that no root names: one look for each statement, however often it is offered, and after
// a look none for some time.
static void test_unknown_release_keys_are_looked_for_once(void **state)
{
    (void)state;
    begin(0);
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    rig_checkin(rig);
    struct rig_statement bad = {.task = TASK,
                                .version = 1,
                                .counter = 2,
                                .rollout_id = 2,
                                .stage = STAGE_FULL,
                                .signers = 1u << 2};
    rig_offer(rig, &bad);
    uint32_t requests = roles.meta_requests;
    rig_checkin(rig);
    assert_int_equal(roles.meta_requests, requests + 1); // no newer root, and the timestamp
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_VERIFY), 1);
    expect_code(BASE_ERR_SIGNATURE);
    requests = roles.meta_requests;
    mem_clock_advance(&rig->port, 2 * DEV_TRUST_LOOK_US);
    rig_checkin(rig);
    assert_int_equal(roles.meta_requests, requests);
    for (uint64_t counter = 3; counter < 6; counter++) {
        bad.counter = counter;
        rig_offer(rig, &bad);
        rig_checkin(rig);
        assert_int_equal(roles.meta_requests, requests + 1); // that of the first one
    }
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_VERIFY), 4);
    assert_int_equal(rig_active(rig, TASK), 0);
}

static void test_root_with_the_same_online_keys_forgets_nothing(void **state)
{
    (void)state;
    settled();
    rig_checkin(rig);
    uint64_t version = rig->runtime->trust->timestamp_version;
    role_root_add(&roles, ROLE_KEY_ONLINE, 0);
    release(2, 3, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig->runtime->trust->root_version, 2);
    assert_int_equal(rig->runtime->trust->timestamp_version, version + 1);
    assert_int_equal(rig_active(rig, TASK), 2);
}

// Each stored blob in turn, root, timestamp and snapshot among them, while the device runs and
// between two boots: nothing is refused for it, the next release is followed, and the root in force
// is the same one.
static void test_damaged_metadata_comes_again(void **state)
{
    (void)state;
    uint32_t told = 0;
    for (uint32_t at = 0; at < 32; at++) {
        settled();
        role_root_add(&roles, ROLE_KEY_ONLINE, 0);
        release(2, 3, STAGE_FULL);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), 2);
        struct mem_blob *blob = &rig->port.storage.blobs[at / 2];
        if (blob->used) {
            blob->bytes[blob->size / 3] ^= 2;
        }
        if (at % 2 == 1) {
            rig_kill(rig);
            rig_boot(rig);
        }
        uint32_t refused = rig_count(rig, WIRE_OUTCOME_FAIL_VERIFY);
        release(1, 4, STAGE_FULL);
        rig_checkin(rig);
        rig_checkin(rig);
        rig_checkin(rig);
        if (rig_active(rig, TASK) != 1) {
            fail_msg("blob %u: active %d", at / 2, rig_active(rig, TASK));
        }
        assert_int_equal(rig->runtime->trust->root_version, 2);
        assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_VERIFY), refused);
        assert_int_equal(rig_count(rig, WIRE_OUTCOME_NOT_APPLICABLE), 0);
        assert_false(rig->ran_unverified);
        const struct rig_outcome *last = rig_last(rig, WIRE_OUTCOME_FAIL_INTEGRITY);
        told += last != NULL && last->outcome.task_id == 0;
        role_rig_done(&roles);
    }
    print_message("%u told of metadata\n", told);
    assert_true(told >= 4);
    begin(0);
    rig_boot(rig);
}

static void test_damaged_root_is_no_device(void **state)
{
    (void)state;
    begin(0);
    uint8_t damaged[1024];
    memcpy(damaged, roles.roots[0].bytes, roles.roots[0].size);
    rig->config.root = damaged;
    size_t size = dev_runtime_bytes(&rig->config);
    struct dev_runtime *runtime = NULL;
    void *memory = aligned_alloc(16, (size + 15) / 16 * 16);
    for (size_t i = 0; i < roles.roots[0].size; i += 7) {
        damaged[i] ^= 4;
        assert_int_not_equal(dev_init(memory, size, &rig->config, &rig->ports, &runtime), BASE_OK);
        damaged[i] ^= 4;
    }
    assert_int_equal(dev_init(memory, size, &rig->config, &rig->ports, &runtime), BASE_OK);
    free(memory);
    rig->config.root = roles.roots[0].bytes;
    rig_boot(rig);
}

// Who starts many runtimes opens their root once: none of them looks at the bytes again.
static void test_an_opened_root_is_not_verified_again(void **state)
{
    (void)state;
    static const uint8_t no_root[] = {0};
    struct wire_root opened;
    begin(0);
    struct wire_verifier verifier = dev_crypto_verifier(&rig->ports.crypto);
    assert_int_equal(wire_root_open(roles.roots[0].bytes, roles.roots[0].size, &verifier, &opened),
                     BASE_OK);
    rig->config.root = no_root;
    rig->config.root_bytes = sizeof(no_root);
    rig->config.root_opened = &opened;
    rig_boot(rig);
    assert_int_equal(stats()->root_version, opened.version);
    release(0, 1, STAGE_FULL);
    rig_checkin(rig);
    release(1, 2, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    rig->config.root_opened = NULL;
}

// ---- Leases

static void gray(void)
{
    begin(600);
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    rig_checkin(rig);
    release(1, 2, STAGE_GRAY);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    rig->run_on = true;
}

static void test_lease_is_renewed(void **state)
{
    (void)state;
    gray();
    rig_run(rig, 6 * 600 * 1000000ull);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_true(roles.asked_for_lease >= 6);
    assert_int_equal(stats()->leases_lost, 0);
}

static void test_no_renewal_goes_back(void **state)
{
    (void)state;
    gray();
    uint64_t until_s = rig->runtime->tasks[0].lease.until_s;
    uint32_t blobs = rig->blob_requests;
    rig->checkin_status = 503;
    uint64_t left_us = until_s * 1000000 - rig->port.clock.wall_us;
    rig_run(rig, left_us - 1000000);
    assert_int_equal(rig_active(rig, TASK), 1);
    rig_run(rig, 1000000);
    assert_int_equal(rig_active(rig, TASK), 0); // to the second
    assert_int_equal(rig->blob_requests, blobs);
    assert_int_equal(stats()->leases_lost, 1);
    rig_run(rig, 600 * 1000000ull);
    expect_code(BASE_ERR_LEASE);
    assert_int_equal(rig->ledger[rig->ledger_count - 1].outcome.kind, WIRE_OUTCOME_ROLLED_BACK);
    rig->checkin_status = 0; // the gateway is back, and still offers it
    rig_run(rig, 600 * 1000000ull);
    assert_int_equal(rig_active(rig, TASK), 1);
}

// A clock set back does not prolong it, and a reboot does not forget it.
static void test_clock_does_not_prolong_a_lease(void **state)
{
    (void)state;
    gray();
    rig->checkin_status = 503;
    rig_run(rig, 300 * 1000000ull);
    rig->port.clock.wall_us -= 86400 * 1000000ull;
    rig_run(rig, 299 * 1000000ull);
    assert_int_equal(rig_active(rig, TASK), 1);
    rig->runtime->dirty = true; // what passed is in the next record
    rig_run(rig, 1);
    rig_kill(rig);
    rig_boot(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    rig_run(rig, 3 * 1000000ull);
    assert_int_equal(rig_active(rig, TASK), 0);
}

static void test_reboot_after_the_end(void **state)
{
    (void)state;
    gray();
    rig_kill(rig);
    rig->port.clock.wall_us += 3600 * 1000000ull;
    rig->checkin_status = 503;
    rig_boot(rig);
    rig_run(rig, 1);
    assert_int_equal(rig_active(rig, TASK), 0);
}

static void test_a_run_under_way_ends_with_the_lease(void **state)
{
    (void)state;
    gray();
    rig->hold_runs = true;
    rig->checkin_status = 503;
    rig->runtime->tasks[0].runs.due_us = 0;
    rig_run(rig, 100 * 1000000ull);
    assert_int_not_equal(rig->port.task.current.run, 0);
    rig_run(rig, 600 * 1000000ull);
    assert_true(rig->port.task.cancelled > 0);
    assert_int_equal(rig_active(rig, TASK), 0);
    rig->hold_runs = false;
}

static void test_no_lease_given_is_no_version(void **state)
{
    (void)state;
    begin(600);
    roles.lease_s = 0;
    rig_boot(rig);
    release(0, 1, STAGE_GRAY);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), -1);
    assert_int_equal(rig->versions[0].runs, 0);
    assert_in_range(rig->checkins, 1, 601); // ten minutes: once a second, not as fast as it goes
}

static void test_stage_full_ends_the_lease(void **state)
{
    (void)state;
    gray();
    struct rig_statement statement = {.task = TASK,
                                      .version = 1,
                                      .counter = 2,
                                      .rollout_id = 2,
                                      .stage = STAGE_FULL,
                                      .signers = 3};
    rig_offer(rig, &statement);
    rig_run(rig, 400 * 1000000ull);
    rig->checkin_status = 503;
    rig_run(rig, 3600 * 1000000ull);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig->versions[1].runs, 1); // and it was no news
}

// ---- Kills

static void kill_version(uint32_t version)
{
    roles.timestamp.kills[0] = rig->versions[version].manifest;
    roles.timestamp.kill_count = 1;
    role_publish(&roles, false);
}

static void test_killed_version_goes_back(void **state)
{
    (void)state;
    settled();
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    kill_version(1);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig_kept(rig, TASK), -1);
    assert_int_equal(stats()->kills, 1);
    rig_checkin(rig); // offered again, and refused
    expect_code(BASE_ERR_KILLED);
    assert_int_equal(rig_active(rig, TASK), 0);
}

static void test_killed_kept_version_is_no_way_back(void **state)
{
    (void)state;
    settled();
    rig_checkin(rig);
    kill_version(0);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig_kept(rig, TASK), -1);
}

static void test_killed_during_a_run_and_nothing_kept(void **state)
{
    (void)state;
    begin(0);
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    rig->hold_runs = true;
    rig_checkin(rig);
    assert_int_not_equal(rig->port.task.current.run, 0);
    kill_version(0);
    rig_offer_none(rig);
    rig_checkin(rig);
    rig->hold_runs = false;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), -1);
    assert_int_equal(rig->versions[0].runs, 0);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_REMOVED), 1);
    rig_kill(rig);
    rig_boot(rig);
    assert_int_equal(rig_active(rig, TASK), -1);
}

// ---- A kill of the process, or a failing store, at any call

static void story(void)
{
    role_root_add(&roles, ROLE_KEY_ONLINE2, 600);
    release(1, 2, STAGE_GRAY);
}

// `apart`: the gateway is asked for root, timestamp and snapshot one by one.
static void prepare(bool apart)
{
    begin(600);
    roles.apart = apart;
    rig_boot(rig);
    release(0, 1, STAGE_FULL);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    story();
}

static void check_end(const char *what, uint64_t n)
{
    const struct dev_trust *trust = rig->runtime->trust;
    if (rig_active(rig, TASK) != 1 || trust->root_version != 2 ||
        trust->timestamp_version != roles.timestamp.version || rig->ran_unverified) {
        fail_msg("%s %llu: active %d, root %llu, timestamp %llu", what, (unsigned long long)n,
                 rig_active(rig, TASK), (unsigned long long)trust->root_version,
                 (unsigned long long)trust->timestamp_version);
    }
    rig_kill(rig);
    rig_boot(rig);
    rig_checkin(rig);
    assert_int_equal(mem_blob_count(&rig->port), 2 + 3 + 3); // versions, root, timestamp, snapshot
}

static void killed_anywhere(bool apart)
{
    uint64_t n = 1;
    for (; n < CALLS_MAX; n++) {
        prepare(apart);
        rig->port.kill_at = rig->port.calls + n;
        rig_checkin(rig);
        bool killed = rig->port.killed;
        rig_kill(rig);
        rig->port.kill_at = 0;
        rig_boot(rig);
        assert_true(rig->runtime->trust->root_version >= 1);
        rig_checkin(rig);
        rig_checkin(rig);
        check_end("killed at call", n);
        if (!killed) {
            break;
        }
        role_rig_done(&roles);
    }
    assert_true(n > 20 && n < CALLS_MAX);
}

static void test_killed_anywhere(void **state)
{
    (void)state;
    killed_anywhere(true);
    role_rig_done(&roles);
    killed_anywhere(false);
}

static void store_fails_anywhere(bool apart)
{
    for (uint64_t n = 1; n < 60; n++) {
        prepare(apart);
        rig->port.storage.fail_at = rig->port.storage.operations + n;
        rig->port.storage.fail_status = BASE_ERR_IO;
        rig_checkin(rig);
        rig_checkin(rig);
        rig_checkin(rig);
        check_end("store failed at operation", n);
        if (n + 1 < 60) {
            role_rig_done(&roles);
        }
    }
}

static void test_store_fails_anywhere(void **state)
{
    (void)state;
    store_fails_anywhere(true);
    role_rig_done(&roles);
    store_fails_anywhere(false);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_install_needs_metadata_first),
        CASE(test_shadow_by_roles),
        CASE(test_lost_connections_cost_time_only),
        CASE(test_not_listed_is_mixed),
        CASE(test_no_scenario_is_mixed),
        CASE(test_one_signer_is_for_few_devices),
        CASE(test_timestamp_goes_back),
        CASE(test_timestamp_ran_out),
        CASE(test_timestamp_by_another_key),
        CASE(test_scenario_vanishes),
        CASE(test_snapshot_was_changed),
        CASE(test_snapshot_of_another_version),
        CASE(test_snapshot_forgets_a_task),
        CASE(test_a_frozen_device_takes_nothing_and_runs_on),
        CASE(test_long_chain),
        CASE(test_new_online_keys_forget_a_forged_future),
        CASE(test_new_release_keys_are_looked_for),
        CASE(test_unknown_release_keys_are_looked_for_once),
        CASE(test_root_with_the_same_online_keys_forgets_nothing),
        CASE(test_damaged_metadata_comes_again),
        CASE(test_damaged_root_is_no_device),
        CASE(test_an_opened_root_is_not_verified_again),
        CASE(test_lease_is_renewed),
        CASE(test_no_renewal_goes_back),
        CASE(test_clock_does_not_prolong_a_lease),
        CASE(test_reboot_after_the_end),
        CASE(test_a_run_under_way_ends_with_the_lease),
        CASE(test_no_lease_given_is_no_version),
        CASE(test_stage_full_ends_the_lease),
        CASE(test_killed_version_goes_back),
        CASE(test_killed_kept_version_is_no_way_back),
        CASE(test_killed_during_a_run_and_nothing_kept),
        CASE(test_killed_anywhere),
        CASE(test_store_fails_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
