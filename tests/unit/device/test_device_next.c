// All metadata that comes next in one answer, to a request for it or to the check-in that found it
// missing: what a device makes of it however it is cut, that it judges what comes so as it judges
// what comes apart, and that it asks where it must.
#include "role_rig.h"

#include "core/base/runtime.h"
#include "core/trust/trust_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TASK       "demo/score"
#define STAGE_FULL 3
#define SECOND_US  1000000ull

static struct role_rig roles;
static struct rig *rig = &roles.rig;
static bool brings; // what comes next comes with the answers to check-ins

static int teardown(void **state)
{
    (void)state;
    brings = false;
    role_rig_done(&roles);
    return 0;
}

static void release(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {.task = TASK,
                                      .version = version,
                                      .counter = counter,
                                      .rollout_id = counter,
                                      .stage = STAGE_FULL};
    role_release(&roles, &statement);
}

static const struct dev_stats *stats(void)
{
    static struct dev_stats now;
    dev_stats(rig->runtime, &now);
    return &now;
}

// The device has the first version; the second is released.
static void settled(void)
{
    role_rig_init(&roles, 0);
    roles.brings = brings;
    rig_version_add(rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(rig, TASK, 2, 200, WIRE_RUNTIME_ABI, 0);
    rig_boot(rig);
    release(0, 1);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    release(1, 2);
    roles.meta_requests = 0;
    roles.brought = 0;
    rig->checkins = 0;
}

static void expect_taken(uint32_t requests)
{
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(stats()->refused_metadata, 0);
    assert_int_equal(roles.meta_requests, requests);
    assert_int_equal(rig->runtime->trust->phase, DEV_TRUST_IDLE);
    role_rig_done(&roles);
    settled();
}

// Refused with this status, nothing of it ran, and the true answer is taken afterwards.
static void expect_refused(enum base_status status)
{
    uint64_t before = stats()->refused_metadata;
    rig_checkin(rig);
    assert_true(stats()->refused_metadata > before);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->versions[1].runs, 0);
    const struct rig_outcome *last = &rig->ledger[rig->ledger_count - 1];
    if (last->outcome.fingerprint != (uint64_t)(-(int64_t)status)) {
        fail_msg("'%s' (%llu), not %s", last->detail, (unsigned long long)last->outcome.fingerprint,
                 base_status_name(status));
    }
    assert_int_equal(rig->runtime->trust->phase, DEV_TRUST_IDLE);
    roles.next_lie = NULL;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    role_rig_done(&roles);
    settled();
}

static size_t timestamp_end(const uint8_t *bytes)
{
    return WIRE_NEXT_HEAD_BYTES + wire_next_timestamp_bytes(bytes);
}

// ---- How it comes

static void test_one_request_however_it_is_cut(void **state)
{
    (void)state;
    settled();
    expect_taken(1);
    roles.next_in_bytes = true;
    expect_taken(1);
    roles.apart = true; // a gateway from before: no such question, no root, timestamp, snapshot
    expect_taken(4);
}

// Whoever refuses the question otherwise knows it, so it is asked again, later. Asked apart, all of
// it would be taken at once.
static void test_other_refusals_are_asked_again(void **state)
{
    static const int statuses[] = {400, 403, 429, 500, 503};
    (void)state;
    settled();
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        roles.next_status = statuses[i];
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), 0);
        assert_int_equal(rig->runtime->trust->phase, DEV_TRUST_NEXT);
        assert_true(roles.meta_requests > 1);
        roles.next_status = 0;
        roles.meta_requests = 0;
        expect_taken(1);
    }
}

// So many new roots take as many requests, and one more.
static void test_roots_come_by_the_same_question(void **state)
{
    (void)state;
    settled();
    for (uint32_t count = 1; count <= 3; count++) {
        for (uint32_t i = 0; i < count; i++) {
            role_root_add(&roles, ROLE_KEY_ONLINE, 0);
        }
        roles.next_in_bytes = count == 2;
        rig_checkin(rig);
        assert_int_equal(rig->runtime->trust->root_version, 1 + count);
        expect_taken(count + 1);
    }
}

// Nothing is asked for but the timestamp when nothing but that is old.
static size_t count_bytes(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity)
{
    (void)rig_roles;
    (void)capacity;
    assert_int_equal(size, timestamp_end(bytes));
    return size;
}

static void test_timestamp_alone(void **state)
{
    (void)state;
    settled();
    expect_taken(1);
    rig_checkin(rig);
    roles.meta_requests = 0;
    mem_clock_advance(&rig->port, 2 * 86400 * SECOND_US);
    role_publish(&roles, false);
    rig_offer_none(rig);
    roles.next_lie = count_bytes;
    uint32_t cancelled = rig->port.http.cancelled;
    rig_checkin(rig);
    assert_int_equal(roles.meta_requests, 1);
    assert_int_equal(rig->port.http.cancelled, cancelled);
    assert_true(rig->runtime->trust->timestamp_version == roles.timestamp.version);
    assert_int_equal(rig->runtime->trust->phase, DEV_TRUST_IDLE);
}

// A snapshot that is here is not waited for.
static size_t endless_snapshot(struct role_rig *rig_roles, uint8_t *bytes, size_t size,
                               size_t capacity)
{
    (void)rig_roles;
    memset(bytes + size, 'x', capacity - size);
    return capacity;
}

static void test_snapshot_that_is_here(void **state)
{
    (void)state;
    settled();
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    role_publish(&roles, false); // the same snapshot
    struct rig_statement again = {.task = TASK,
                                  .version = 0,
                                  .counter = 3,
                                  .rollout_id = 3,
                                  .stage = STAGE_FULL,
                                  .signers = 3};
    rig_offer(rig, &again);
    roles.next_lie = endless_snapshot;
    roles.next_in_bytes = true;
    uint32_t cancelled = rig->port.http.cancelled;
    roles.meta_requests = 0;
    rig_checkin(rig);
    assert_int_equal(roles.meta_requests, 1);
    assert_int_equal(rig->port.http.cancelled, cancelled + 1);
    assert_true(rig->runtime->trust->timestamp_version == roles.timestamp.version);
    assert_int_equal(rig->runtime->trust->phase, DEV_TRUST_IDLE);
}

// ---- Attacks

static size_t flip_timestamp(struct role_rig *rig_roles, uint8_t *bytes, size_t size,
                             size_t capacity)
{
    (void)rig_roles;
    (void)capacity;
    bytes[timestamp_end(bytes) - 1] ^= 1; // of its signature
    return size;
}

static size_t cut_in_timestamp(struct role_rig *rig_roles, uint8_t *bytes, size_t size,
                               size_t capacity)
{
    (void)rig_roles;
    (void)size;
    (void)capacity;
    return timestamp_end(bytes) - 1;
}

static size_t cut_in_head(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity)
{
    (void)rig_roles;
    (void)bytes;
    (void)size;
    (void)capacity;
    return WIRE_NEXT_HEAD_BYTES - 1;
}

static size_t nothing(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity)
{
    (void)rig_roles;
    (void)bytes;
    (void)size;
    (void)capacity;
    return 0;
}

static size_t no_timestamp(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity)
{
    (void)rig_roles;
    (void)size;
    (void)capacity;
    wire_next_head(0, bytes);
    return WIRE_NEXT_HEAD_BYTES;
}

static size_t large_timestamp(struct role_rig *rig_roles, uint8_t *bytes, size_t size,
                              size_t capacity)
{
    (void)rig_roles;
    (void)size;
    bytes[1] = (uint8_t)(WIRE_META_BYTES_MAX + 1);
    bytes[2] = (uint8_t)((WIRE_META_BYTES_MAX + 1) >> 8);
    return capacity;
}

static size_t endless_root(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity)
{
    (void)rig_roles;
    (void)size;
    memset(bytes, 'W', capacity);
    return capacity;
}

static size_t no_root(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity)
{
    (void)rig_roles;
    (void)capacity;
    memset(bytes, 'W', size);
    return size;
}

static void test_lies_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t (*lie)(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity);
        enum base_status status;
    } cases[] = {
        {flip_timestamp, BASE_ERR_SIGNATURE}, {cut_in_timestamp, BASE_ERR_TRUNCATED},
        {cut_in_head, BASE_ERR_TRUNCATED},    {nothing, BASE_ERR_TRUNCATED},
        {no_timestamp, BASE_ERR_TRUNCATED},   {large_timestamp, BASE_ERR_TOO_LARGE},
        {endless_root, BASE_ERR_TOO_LARGE},   {no_root, BASE_ERR_UNSUPPORTED},
    };
    settled();
    for (size_t i = 0; i < 2 * (sizeof(cases) / sizeof(cases[0])); i++) {
        roles.next_lie = cases[i / 2].lie;
        roles.next_in_bytes = i % 2 == 1;
        expect_refused(cases[i / 2].status);
    }
}

// ---- The snapshot behind it is not what was named: it is asked for apart

static size_t flip_snapshot(struct role_rig *rig_roles, uint8_t *bytes, size_t size,
                            size_t capacity)
{
    (void)rig_roles;
    (void)capacity;
    bytes[size - 1] ^= 1;
    return size;
}

static size_t cut_snapshot(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity)
{
    (void)rig_roles;
    (void)bytes;
    (void)capacity;
    return size - 1;
}

static size_t no_snapshot(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity)
{
    (void)rig_roles;
    (void)size;
    (void)capacity;
    return timestamp_end(bytes);
}

static size_t longer_snapshot(struct role_rig *rig_roles, uint8_t *bytes, size_t size,
                              size_t capacity)
{
    (void)rig_roles;
    (void)capacity;
    bytes[size] = 0;
    return size + 1;
}

static void test_another_snapshot_is_asked_for_apart(void **state)
{
    (void)state;
    static size_t (*const lies[])(struct role_rig *, uint8_t *, size_t, size_t) = {
        flip_snapshot, cut_snapshot, no_snapshot, longer_snapshot, endless_snapshot};
    settled();
    for (size_t i = 0; i < 2 * (sizeof(lies) / sizeof(lies[0])); i++) {
        roles.next_lie = lies[i / 2];
        roles.next_in_bytes = i % 2 == 1;
        expect_taken(3); // the timestamp once more, and the snapshot
    }
}

// ---- It breaks off

static void test_a_lost_connection_costs_time_only(void **state)
{
    (void)state;
    static size_t (*const lies[])(struct role_rig *, uint8_t *, size_t, size_t) = {
        nothing, cut_in_head, cut_in_timestamp, no_snapshot, cut_snapshot};
    settled();
    for (size_t i = 0; i < 2 * (sizeof(lies) / sizeof(lies[0])); i++) {
        bool hangs = i % 2 == 1; // until the deadline
        roles.next_lie = lies[i / 2];
        roles.next_hangs = hangs;
        roles.next_cut = !hangs;
        dev_checkin_now(rig->runtime);
        rig_run(rig, hangs ? SECOND_US : 0);
        assert_int_equal(rig_active(rig, TASK), 0);
        roles.next_lie = NULL;
        roles.next_hangs = false;
        roles.next_cut = false;
        rig_run(rig, 600 * SECOND_US);
        assert_int_equal(rig_active(rig, TASK), 1);
        assert_int_equal(stats()->refused_metadata, 0);
        assert_int_equal(roles.meta_requests, 2);
        role_rig_done(&roles);
        settled();
    }
}

// ---- With the answer to a check-in

static void expect_brought(uint32_t requests)
{
    dev_checkin_now(rig->runtime);
    rig_run(rig, 60 * SECOND_US);
    assert_int_equal(roles.brought, 1);
    assert_int_equal(rig->checkins, 1); // nothing was asked twice
    assert_int_equal(rig->runtime->trust->order, 2);
    expect_taken(requests);
}

static void test_no_request_however_it_is_cut(void **state)
{
    static const size_t steps[] = {0, 1, 7, 100, 1000};
    (void)state;
    brings = true;
    settled();
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        rig->checkin_step = steps[i];
        expect_brought(0);
    }
}

// A device of a gateway that brings nothing asks, as does one whose metadata is too large for that.
static void test_what_is_not_brought_is_asked_for(void **state)
{
    (void)state;
    settled();
    expect_taken(1);
    roles.brings = false;
    expect_taken(1);
}

static void test_first_of_the_new_roots_is_brought(void **state)
{
    (void)state;
    brings = true;
    settled();
    for (uint32_t count = 1; count <= 3; count++) {
        for (uint32_t i = 0; i < count; i++) {
            role_root_add(&roles, ROLE_KEY_ONLINE, 0);
        }
        rig_checkin(rig);
        assert_int_equal(rig->runtime->trust->root_version, 1 + count);
        expect_taken(count); // the others, and what is behind them
    }
}

// The director's answer does not hold under the root in force, and brings the one it does.
static void test_root_of_other_keys_is_brought(void **state)
{
    (void)state;
    brings = true;
    settled();
    role_root_add(&roles, ROLE_KEY_ONLINE2, 0);
    rig_checkin(rig);
    assert_int_equal(rig->runtime->trust->root_version, 2);
    assert_int_equal(roles.meta_requests, 2); // what is behind it, and then the snapshot
    assert_int_equal(rig_active(rig, TASK), 1);
}

// A root is taken by who misses nothing else.
static void test_root_alone(void **state)
{
    (void)state;
    brings = true;
    settled();
    rig_checkin(rig);
    role_root_add(&roles, ROLE_KEY_ONLINE, 0);
    rig_checkin(rig);
    assert_int_equal(rig->runtime->trust->root_version, 2);
    assert_int_equal(rig->runtime->trust->phase, DEV_TRUST_IDLE);
    assert_int_equal(stats()->refused_metadata, 0);
}

static void test_brought_lies_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t (*lie)(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity);
        enum base_status status;
    } cases[] = {
        {flip_timestamp, BASE_ERR_SIGNATURE},  {cut_in_timestamp, BASE_ERR_TRUNCATED},
        {cut_in_head, BASE_ERR_TRUNCATED},     {no_timestamp, BASE_ERR_TRUNCATED},
        {large_timestamp, BASE_ERR_TOO_LARGE}, {no_root, BASE_ERR_UNSUPPORTED},
    };
    brings = true;
    settled();
    for (size_t i = 0; i < 2 * (sizeof(cases) / sizeof(cases[0])); i++) {
        roles.next_lie = cases[i / 2].lie;
        rig->checkin_step = i % 2;
        expect_refused(cases[i / 2].status);
    }
}

// What is wrong with the snapshot costs what it costs in an answer to a request.
static void test_another_snapshot_is_not_taken(void **state)
{
    (void)state;
    static const struct {
        size_t (*lie)(struct role_rig *rig_roles, uint8_t *bytes, size_t size, size_t capacity);
        uint32_t requests;
    } cases[] = {
        {flip_snapshot, 2},    {cut_snapshot, 2}, {longer_snapshot, 2},
        {endless_snapshot, 2}, {no_snapshot, 1}, // it is missing, and no more
    };
    brings = true;
    settled();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        roles.next_lie = cases[i].lie;
        expect_brought(cases[i].requests);
    }
}

// A worker that is behind: timestamp and snapshot are asked for apart.
static void test_older_timestamp_is_brought(void **state)
{
    (void)state;
    brings = true;
    settled();
    roles.older_timestamps = 1;
    expect_brought(2);
    roles.older_timestamps = 100;
    rig_checkin(rig);
    assert_true(stats()->refused_metadata > 0);
    assert_int_equal(stats()->refused_metadata_why, BASE_ERR_ROLLBACK);
    assert_int_equal(rig_active(rig, TASK), 0);
    roles.older_timestamps = 0;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
}

// Nothing is taken of an answer that is not whole, wherever it breaks off; the device asks.
static void test_an_answer_that_breaks_off(void **state)
{
    (void)state;
    brings = true;
    settled();
    uint64_t version = rig->runtime->trust->timestamp_version;
    for (size_t cut = 1; cut < 700; cut += 33) {
        rig->checkin_cut = cut;
        rig->checkin_step = cut % 2;
        roles.meta_failures = 1; // it asks at once
        dev_checkin_now(rig->runtime);
        rig_run(rig, 0);
        assert_int_equal(roles.brought, 1);
        assert_true(rig->runtime->trust->timestamp_version == version);
        assert_int_equal(rig_active(rig, TASK), 0);
        rig->checkin_cut = 0;
        roles.brings = false;
        rig_run(rig, 600 * SECOND_US);
        assert_int_equal(rig_active(rig, TASK), 1);
        assert_in_range(roles.meta_requests, 1, 2);
        assert_int_equal(stats()->refused_metadata, 0);
        role_rig_done(&roles);
        settled();
    }
}

// The snapshot is missing still when the next question goes out: nothing of the first answer is
// followed, and what comes with the second is left to the request under way.
static void test_another_question_meanwhile(void **state)
{
    (void)state;
    brings = true;
    settled();
    roles.next_lie = no_snapshot;
    roles.meta_failures = 1;
    dev_checkin_now(rig->runtime);
    rig_run(rig, 0);
    assert_int_equal(roles.meta_requests, 1);
    assert_int_equal(rig->runtime->trust->phase, DEV_TRUST_SNAPSHOT);
    assert_int_equal(rig_active(rig, TASK), 0);
    rig_offer_none(rig); // it was withdrawn
    dev_checkin_now(rig->runtime);
    rig_run(rig, 60 * SECOND_US);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->runtime->trust->phase, DEV_TRUST_IDLE);
    assert_int_equal(stats()->refused_offers + stats()->refused_metadata, 0);
}

// A restart in the middle of the answer, and behind the timestamp.
static void test_a_restart_meanwhile(void **state)
{
    (void)state;
    brings = true;
    settled();
    roles.next_lie = no_snapshot;
    roles.meta_failures = 1;
    dev_checkin_now(rig->runtime);
    rig_run(rig, 0);
    assert_int_equal(rig->runtime->trust->phase, DEV_TRUST_SNAPSHOT);
    rig_kill(rig);
    rig_boot(rig);
    assert_int_equal(rig->runtime->trust->phase, DEV_TRUST_IDLE);
    roles.next_lie = NULL;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(stats()->refused_metadata, 0);
}

// What nobody asked for: an answer whose director's answer does not hold brings nothing.
static void test_nothing_is_brought_by_an_answer_that_fails(void **state)
{
    (void)state;
    brings = true;
    settled();
    uint64_t version = rig->runtime->trust->timestamp_version;
    roles.order_off = 1;
    rig_checkin(rig);
    assert_true(rig->runtime->trust->timestamp_version == version);
    assert_int_equal(roles.meta_requests, 0);
    assert_int_equal(rig_active(rig, TASK), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_one_request_however_it_is_cut),
        CASE(test_other_refusals_are_asked_again),
        CASE(test_roots_come_by_the_same_question),
        CASE(test_timestamp_alone),
        CASE(test_snapshot_that_is_here),
        CASE(test_lies_are_refused),
        CASE(test_another_snapshot_is_asked_for_apart),
        CASE(test_a_lost_connection_costs_time_only),
        CASE(test_no_request_however_it_is_cut),
        CASE(test_what_is_not_brought_is_asked_for),
        CASE(test_first_of_the_new_roots_is_brought),
        CASE(test_root_of_other_keys_is_brought),
        CASE(test_root_alone),
        CASE(test_brought_lies_are_refused),
        CASE(test_another_snapshot_is_not_taken),
        CASE(test_older_timestamp_is_brought),
        CASE(test_an_answer_that_breaks_off),
        CASE(test_another_question_meanwhile),
        CASE(test_a_restart_meanwhile),
        CASE(test_nothing_is_brought_by_an_answer_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
