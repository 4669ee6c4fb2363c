// Orders: a signed statement is an approval, and the director says which approved version runs,
// forwards or back. What leads back needs no newer signature and does not run out; what is not
// approved, below the floor, or said by anybody else changes nothing.
#include "orders_kit.h"

#include "core/trust/trust_parts.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 600

static int setup(void **state)
{
    (void)state;
    role_rig_init(&roles, 0);
    rig_version_add(rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(rig, TASK, 2, 200, WIRE_RUNTIME_ABI, 0);
    rig_version_add(rig, TASK, 1, 300, WIRE_RUNTIME_ABI, 0);
    return 0;
}

// A device on version 1 that keeps version 0.
static void begin(void)
{
    rig_boot(rig);
    install(0);
    install(1);
    assert_int_equal(rig_kept(rig, TASK), 0);
}

static uint64_t orders(void)
{
    return rig->runtime->trust->order;
}

static void expect_code(enum base_status status, int active)
{
    assert_true(rig->ledger_count > 0);
    const struct rig_outcome *last = &rig->ledger[rig->ledger_count - 1];
    if (last->outcome.fingerprint != (uint64_t)(-(int64_t)status)) {
        fail_msg("'%s' (%llu), not %s", last->detail, (unsigned long long)last->outcome.fingerprint,
                 base_status_name(status));
    }
    assert_int_equal(rig_active(rig, TASK), active);
}

// ---- Back and forth

static void test_back_to_what_is_kept(void **state)
{
    (void)state;
    begin();
    uint32_t requests = rig->blob_requests;
    uint32_t runs = rig_count(rig, WIRE_OUTCOME_RAN);
    uint64_t before = orders();
    order(0);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->blob_requests, requests);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_ROLLED_BACK), 1);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ROLLED_BACK)->outcome.rollout_id, 0x11);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_RAN), runs); // it proved itself before
    assert_true(orders() == before + 1);
    uint32_t ledger = rig->ledger_count;
    order(0); // the same again is no news
    assert_int_equal(rig->ledger_count, ledger);
    assert_true(orders() == before + 1);
    restart();
    order(0);
    assert_int_equal(rig->ledger_count, ledger);
    assert_true(orders() == before + 1);
}

static void test_back_to_what_is_gone_and_forwards(void **state)
{
    (void)state;
    begin();
    install(2);
    order(0);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ROLLED_BACK)->outcome.rollout_id, 0x12);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_ACTIVATED), 4); // it may be an open rollout's
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ACTIVATED)->outcome.rollout_id, 0x10);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_RAN)->outcome.rollout_id, 0x10);
    order(1); // forwards, to an approval that is older than the newest one
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_ACTIVATED), 5);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ACTIVATED)->outcome.rollout_id, 0x11);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_ROLLED_BACK), 1);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_VERIFY), 0);
}

// Back to the version that is kept, which another rollout has now: it is entered, without a
// download.
static void test_back_into_another_rollout(void **state)
{
    (void)state;
    rig_boot(rig);
    install(0);
    struct rig_statement newer = approval(1);
    newer.counter = 9;
    role_release(&roles, &newer);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    uint32_t requests = rig->blob_requests;
    struct rig_statement between = approval(0);
    between.counter = 5;
    between.rollout_id = 0x55;
    role_release(&roles, &between);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig->blob_requests, requests);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ROLLED_BACK)->outcome.rollout_id, 0x11);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ACTIVATED)->outcome.rollout_id, 0x55);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_RAN)->outcome.rollout_id, 0x55);
}

// The version stays; it counts for the rollout that it leaves no more, and for the other again.
static void test_back_to_an_older_approval_of_the_same_version(void **state)
{
    (void)state;
    rig_boot(rig);
    install(0);
    struct rig_statement again = approval(0);
    again.counter = 7;
    again.rollout_id = 0x77;
    role_release(&roles, &again);
    rig_checkin(rig);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ACTIVATED)->outcome.rollout_id, 0x77);
    uint32_t ran = rig->versions[0].runs;
    order(0);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ROLLED_BACK)->outcome.rollout_id, 0x77);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ACTIVATED)->outcome.rollout_id, 0x10);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_RAN)->outcome.rollout_id, 0x10);
    assert_int_equal(rig->versions[0].runs, ran + 1);
}

static void test_what_failed_here_is_not_tried_by_an_order_back(void **state)
{
    (void)state;
    rig->versions[1].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    rig_boot(rig);
    install(0);
    struct rig_statement bad = approval(1);
    role_release(&roles, &bad);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    install(2);
    uint32_t failed = rig->versions[1].runs;
    order(1);
    assert_int_equal(rig_active(rig, TASK), 2);
    assert_int_equal(rig->versions[1].runs, failed);
    rig->offer_flags = WIRE_OFFER_FLAG_RETRY;
    order(1);
    assert_int_equal(rig->versions[1].runs, failed + 1);
}

// ---- Time

static void test_the_way_back_does_not_run_out(void **state)
{
    (void)state;
    rig_boot(rig);
    uint64_t now_s = rig->port.clock.wall_us / 1000000;
    struct rig_statement first = approval(0);
    first.issued_s = now_s;
    first.expires_s = now_s + 60;
    role_release(&roles, &first);
    rig_checkin(rig);
    install(1);
    mem_clock_advance(&rig->port, 3600 * 1000000ull);
    rig_offer(rig, &first);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    struct rig_statement newest = approval(2);
    newest.issued_s = now_s;
    newest.expires_s = now_s + 60;
    role_release(&roles, &newest);
    rig_checkin(rig);
    expect_code(BASE_ERR_EXPIRED, 0);
}

// ---- What no order can do

static void test_below_the_floor(void **state)
{
    (void)state;
    rig_boot(rig);
    install(0);
    install(1);
    struct rig_statement third = approval(2);
    third.floor = 2;
    role_release(&roles, &third);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 2);
    order(0);
    expect_code(BASE_ERR_ROLLBACK, 2);
    order(1);
    assert_int_equal(rig_active(rig, TASK), 1);
    restart(); // the floor stays, though what raised it is gone
    order(0);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_NOT_APPLICABLE), 1);
    assert_true(rig->runtime->tasks[0].slots.floor == 2);
}

static void test_other_content_under_a_known_counter(void **state)
{
    (void)state;
    begin();
    struct rig_statement other = approval(2);
    other.counter = 2; // the active one's
    rig_offer(rig, &other);
    rig_checkin(rig);
    expect_code(BASE_ERR_ROLLBACK, 1);
    other.counter = 1; // the kept one's
    rig_offer(rig, &other);
    rig_checkin(rig);
    expect_code(BASE_ERR_ROLLBACK, 1);
    order(0);
    other.counter = 2; // the newest one's, though an older one is followed
    other.max_bucket = 9999;
    rig_offer(rig, &other);
    rig_checkin(rig);
    expect_code(BASE_ERR_ROLLBACK, 0);
    other = approval(1);
    other.rollout_id = 0x99;
    rig_offer(rig, &other);
    rig_checkin(rig);
    expect_code(BASE_ERR_ROLLBACK, 0);
    assert_int_equal(rig->versions[2].runs, 0);
}

static void test_killed_or_not_approved(void **state)
{
    (void)state;
    begin();
    install(2);
    struct rig_statement unsigned_enough = approval(0);
    unsigned_enough.signers = 1; // one key for all devices
    rig_offer(rig, &unsigned_enough);
    rig_checkin(rig);
    expect_code(BASE_ERR_THRESHOLD, 2);
    unsigned_enough.signers = 1u << 2; // none of the keys
    rig_offer(rig, &unsigned_enough);
    rig_checkin(rig);
    expect_code(BASE_ERR_SIGNATURE, 2);
    roles.unnamed = true;
    order(0);
    expect_code(BASE_ERR_DIRECTOR, 2);
    roles.unnamed = false;
    roles.timestamp.kills[0] = rig->versions[0].manifest;
    roles.timestamp.kill_count = 1;
    role_publish(&roles, false);
    struct rig_statement killed = approval(0);
    killed.max_bucket = 9999; // other bytes than before: reported
    rig_offer(rig, &killed);
    rig_checkin(rig);
    expect_code(BASE_ERR_KILLED, 2);
}

static void test_beyond_the_share(void **state)
{
    (void)state;
    begin();
    struct rig_statement narrow = approval(0);
    narrow.salt = 7;
    narrow.max_bucket = 1;
    rig_offer(rig, &narrow);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_NOT_APPLICABLE), 1);
}

// ---- Orders of the director

static void test_an_order_repeated_or_skipped(void **state)
{
    (void)state;
    begin();
    uint64_t before = orders();
    static const uint64_t off[] = {UINT64_MAX, 1, 1000}; // the last one again, or one to come
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        roles.order_off = off[i];
        order(0);
        expect_code(BASE_ERR_FRESHNESS, 1);
        assert_true(orders() == before);
    }
    roles.order_off = 0;
    order(0);
    assert_int_equal(rig_active(rig, TASK), 0);
}

// A device that was restored from a copy is behind, or a gateway is: the device tells its number.
static void test_a_restored_device(void **state)
{
    (void)state;
    static struct mem_storage copy;
    begin();
    memcpy(copy.state, rig->port.storage.state, rig->port.storage.state_bytes);
    copy.state_bytes = rig->port.storage.state_bytes;
    uint64_t before = orders();
    order(0);
    order(1);
    assert_true(orders() == before + 2);
    rig_kill(rig);
    memcpy(rig->port.storage.state, copy.state, copy.state_bytes);
    rig->port.storage.state_bytes = copy.state_bytes;
    rig_boot(rig);
    assert_true(orders() == before);
    order(0);
    assert_int_equal(rig_active(rig, TASK), 0);
    rig->runtime->trust->order = 1u << 20; // far ahead
    order(1);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_true(orders() == (1u << 20) + 1);
}

// ---- STOP

static void test_stop(void **state)
{
    (void)state;
    begin();
    roles.unnamed = true;
    rig_offer_stop(rig, TASK);
    rig_checkin(rig);
    expect_code(BASE_ERR_DIRECTOR, 1);
    roles.unnamed = false;
    uint64_t before = orders();
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), -1);
    assert_int_equal(rig_kept(rig, TASK), -1);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_REMOVED), 1);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_REMOVED)->outcome.rollout_id, 0x11);
    assert_true(orders() == before + 1);
    rig_checkin(rig); // again: nothing is left to stop
    rig_offer_stop(rig, "demo/unknown");
    rig_checkin(rig);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_REMOVED), 1);
    assert_true(orders() == before + 1);
    restart();
    assert_int_equal(rig_active(rig, TASK), -1);
    order(1); // and what was approved may run again
    assert_int_equal(rig_active(rig, TASK), 1);
}

static void test_stop_ends_a_pull(void **state)
{
    (void)state;
    begin();
    rig->stall_bodies = 1;
    struct rig_statement next = approval(2);
    role_release(&roles, &next);
    dev_checkin_now(rig->runtime);
    rig_run(rig, 2000000);
    rig_offer_stop(rig, TASK);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), -1);
    assert_int_equal(rig->versions[2].runs, 0);
    assert_true(mem_blob_count(&rig->port) <= 2); // timestamp and snapshot
}

// Without a root the gateway itself, asked over TLS, gives the orders; what comes on the way of
// somebody else's answer only makes the device ask.
static void test_pinned_keys(void **state)
{
    (void)state;
    static struct rig pinned;
    rig_init(&pinned);
    rig_version_add(&pinned, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig_version_add(&pinned, TASK, 1, 200, WIRE_RUNTIME_ABI, 0);
    rig_boot(&pinned);
    struct rig_statement statement = approval(0);
    rig_offer(&pinned, &statement);
    rig_checkin(&pinned);
    statement = approval(1);
    rig_offer(&pinned, &statement);
    rig_checkin(&pinned);
    assert_int_equal(rig_active(&pinned, TASK), 1);
    statement = approval(0);
    for (int stop = 0; stop < 2; stop++) {
        if (stop) {
            rig_offer_stop(&pinned, TASK);
        } else {
            rig_offer(&pinned, &statement);
        }
        struct wire_offers offers = {.count = 1};
        offers.items[0].envelope = pinned.offers[0].bytes;
        offers.items[0].envelope_bytes = pinned.offers[0].size;
        uint8_t bytes[2000];
        char text[3000];
        size_t size = 0;
        assert_int_equal(wire_offers_encode(&offers, bytes, sizeof(bytes), &size), BASE_OK);
        struct base_str header = {text, base_b64_encode(bytes, size, text)};
        int active = rig_active(&pinned, TASK);
        pinned.checkin_status = 503;
        assert_int_equal(dev_on_offer_header(pinned.runtime, header), BASE_OK);
        pinned.checkins = 0;
        rig_run(&pinned, 60 * 1000000ull);
        assert_true(pinned.checkins > 0);
        assert_int_equal(rig_active(&pinned, TASK), active);
        pinned.checkin_status = 0;
        rig_checkin(&pinned); // and the gateway says so itself
        assert_int_equal(rig_active(&pinned, TASK), stop ? -1 : 0);
    }
    assert_int_equal(rig_count(&pinned, WIRE_OUTCOME_FAIL_VERIFY), 0);
    rig_done(&pinned);
}

// ---- A shadow does not stand in the way of newer snapshots

static void test_snapshots_beside_a_shadow(void **state)
{
    (void)state;
    rig_boot(rig);
    install(0);
    struct rig_statement shadow = approval(1);
    shadow.shadow = true;
    role_release(&roles, &shadow);
    rig_checkin(rig);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_SHADOW_AGREED), 1);
    install(2); // needs the snapshot that came after
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_VERIFY), 0);
}

// ---- Kills of the process

static void give_order(bool stop)
{
    struct rig_statement back = approval(0);
    if (stop) {
        rig_offer_stop(rig, TASK);
    } else {
        rig_offer(rig, &back);
    }
}

static void killed_anywhere(bool stop)
{
    uint64_t n = 1;
    bool killed = true;
    for (; killed && n < CALLS_MAX; n++) {
        (void)setup(NULL);
        begin();
        install(2); // so that version 0 is to be brought
        uint64_t before = orders();
        give_order(stop);
        rig->port.kill_at = rig->port.calls + n;
        rig_checkin(rig);
        killed = rig->port.killed;
        rig_kill(rig);
        rig->port.kill_at = 0;
        rig_boot(rig);
        bool followed = rig->runtime->tasks[0].offer.accepted_by.counter == 1 ||
                        (stop && rig_active(rig, TASK) == -1);
        assert_true(orders() == before + (followed ? 1 : 0)); // both are there, or neither
        rig_checkin(rig);
        rig_checkin(rig);
        assert_int_equal(rig_active(rig, TASK), stop ? -1 : 0);
        assert_true(orders() == before + 1);
        role_rig_done(&roles);
    }
    assert_true(n > 10 && n < CALLS_MAX);
}

static void test_killed_anywhere(void **state)
{
    (void)state;
    killed_anywhere(false);
    killed_anywhere(true);
}

// ---- The record of before

#define KIND_INSTALL 1
#define KIND_REVERT  2 // go back: an order of its own, signed
#define KIND_REMOVE  3 // end the task, likewise

static void write_zeros(struct base_writer *writer, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        base_writer_u8(writer, 0);
    }
}

static void write_head(struct base_writer *writer, char version)
{
    base_writer_bytes(writer, "WLD", 3);
    base_writer_u8(writer, (uint8_t)version);
    base_writer_u32(writer, 5);
    write_zeros(writer, 8 + 8 + 1 + 8 * DEV_REFUSED_BEFORE);
    write_zeros(writer, 1 + WIRE_SHA256_BYTES + 2 + WIRE_SHA256_BYTES); // no root, no timestamp
    write_zeros(writer, version >= '8' ? 1 : 0);                        // order
    base_writer_varint(writer, 1);
    base_writer_u8(writer, sizeof(TASK) - 1);
    base_writer_bytes(writer, TASK, sizeof(TASK) - 1);
}

static size_t write_tail(struct base_writer *writer, const uint8_t *out)
{
    base_writer_u64(writer, 1); // no outcomes
    write_zeros(writer, 2);
    base_writer_u64(writer, base_hash64(out, base_writer_size(writer)));
    assert_int_equal(writer->status, BASE_OK);
    return base_writer_size(writer);
}

static void boot_with(size_t state_bytes)
{
    struct mem_storage *storage = &rig->port.storage;
    storage->state_bytes = state_bytes;
    storage->has_state = true;
    rig_boot(rig);
    assert_int_equal(rig->runtime->task_count, 1);
}

// As the format before wrote it: a task that runs version 0 and keeps version 1.
static size_t older_record(uint8_t kind, uint8_t *out, size_t capacity)
{
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    write_head(&writer, '7');
    base_writer_u8(&writer, DEV_UPDATE_SETTLED);
    base_writer_u8(&writer, 4 + 8 + 16);
    base_writer_u8(&writer, kind);
    base_writer_u8(&writer, STAGE_FULL);
    base_writer_u8(&writer, 0);
    base_writer_varint(&writer, 0);
    base_writer_varint(&writer, 0);
    base_writer_varint(&writer, 9); // the counter
    base_writer_u64(&writer, 0);
    for (uint32_t i = 0; i < 4; i++) {
        base_writer_u8(&writer, 0);
    }
    for (uint32_t i = 0; i < 3; i++) { // active, kept, accepted
        base_writer_bytes(&writer, rig->versions[i % 2].manifest.bytes, WIRE_SHA256_BYTES);
        base_writer_u64(&writer, 0x20 + i);
    }
    base_writer_varint(&writer, rig->versions[0].size);
    return write_tail(&writer, out);
}

static void test_older_record(void **state)
{
    (void)state;
    struct mem_storage *storage = &rig->port.storage;
    boot_with(older_record(KIND_INSTALL, storage->state, sizeof(storage->state)));
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig_kept(rig, TASK), 1);
    const struct dev_task *task = &rig->runtime->tasks[0];
    assert_true(task->slots.floor == 0 && orders() == 0);
    assert_true(task->offer.newest.counter == 9 && task->offer.newest.rollout_id == 0x22);
    assert_true(task->offer.accepted_by.counter == 9 && task->slots.active.by.counter == 9);
    assert_true(task->slots.kept.by.counter == 0);
    assert_true(wire_sha256_equal(&task->offer.newest_manifest, &rig->versions[0].manifest));
    rig->runtime->dirty = true;
    rig_run(rig, 1);
    restart();
    assert_int_equal(storage->state[3], 'C');
    assert_true(rig->runtime->tasks[0].offer.newest.rollout_id == 0x22);
    rig_kill(rig); // an order that led back approved nothing
    boot_with(older_record(KIND_REVERT, storage->state, sizeof(storage->state)));
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_true(rig->runtime->tasks[0].offer.accepted_by.counter == 9);
    assert_true(rig->runtime->tasks[0].slots.active.by.counter == 0);
}

static char logged[1024];

static void keep_log(void *ctx, enum base_log_level level, const char *area, const char *text)
{
    (void)ctx;
    (void)level;
    (void)area;
    size_t used = strlen(logged);
    (void)snprintf(logged + used, sizeof(logged) - used, "%s\n", text);
}

static const struct base_log log_port = {.level = BASE_LOG_DEBUG, .write = keep_log};

// A record whose last statement is an order of counter 3, which led to version 0 or ended the task;
// what is active was approved before.
static size_t ordered_record(uint8_t kind, enum dev_update_state state, uint32_t active,
                             uint8_t *out, size_t capacity)
{
    struct base_writer writer;
    bool has_active = dev_update_has_active(state);
    base_writer_init(&writer, out, capacity);
    write_head(&writer, '8');
    base_writer_u8(&writer, (uint8_t)state);
    base_writer_u8(&writer, (uint8_t)((has_active ? 4 : 0) + (kind == KIND_REVERT ? 16 : 0)));
    base_writer_u8(&writer, STAGE_FULL);
    write_zeros(&writer, 4);      // crashes, lease, listed, floor
    for (int i = 0; i < 2; i++) { // newest and accepted
        base_writer_varint(&writer, 3);
        base_writer_u64(&writer, 0x11);
        base_writer_u8(&writer, kind);
        if (i == 0 && kind == KIND_REVERT) {
            base_writer_bytes(&writer, rig->versions[0].manifest.bytes, WIRE_SHA256_BYTES);
        } else if (i == 0) {
            write_zeros(&writer, WIRE_SHA256_BYTES);
        }
    }
    base_writer_varint(&writer, has_active ? active + 1 : 0);
    if (has_active) {
        base_writer_u64(&writer, 0x10 + active);
        base_writer_u8(&writer, KIND_INSTALL);
    }
    write_zeros(&writer, 1 + 8 + 3 + 1); // kept, blocked, runs, exclusive
    if (has_active) {
        base_writer_bytes(&writer, rig->versions[active].manifest.bytes, WIRE_SHA256_BYTES);
        base_writer_u64(&writer, 0x10 + active);
    }
    if (kind == KIND_REVERT) {
        base_writer_bytes(&writer, rig->versions[0].manifest.bytes, WIRE_SHA256_BYTES);
        base_writer_varint(&writer, rig->versions[0].size);
    }
    return write_tail(&writer, out);
}

// Statements that were orders are no more; a device that followed one goes on from where it is.
static void test_record_after_a_signed_order(void **state)
{
    (void)state;
    static const struct {
        uint8_t kind;
        enum dev_update_state state;
        uint32_t active;
        enum dev_update_state now;
    } rows[] = {
        {KIND_REVERT, DEV_UPDATE_SETTLED_PULL, 1, DEV_UPDATE_SETTLED},
        {KIND_REVERT, DEV_UPDATE_SETTLED, 0, DEV_UPDATE_SETTLED},
        {KIND_REMOVE, DEV_UPDATE_EMPTY, 0, DEV_UPDATE_EMPTY},
    };
    struct mem_storage *storage = &rig->port.storage;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)setup(NULL);
        bool active = dev_update_has_active(rows[i].now);
        boot_with(ordered_record(rows[i].kind, rows[i].state, rows[i].active, storage->state,
                                 sizeof(storage->state)));
        const struct dev_task *task = &rig->runtime->tasks[0];
        assert_int_equal(task->slots.state, rows[i].now);
        assert_int_equal(rig_active(rig, TASK), active ? (int)rows[i].active : -1);
        assert_true(task->offer.newest.counter == 3 && task->offer.accepted_by.counter == 3);
        assert_true(task->slots.active.by.counter == (active ? rows[i].active + 1 : 0));
        uint32_t next = active ? 1 - rows[i].active : 0;
        struct rig_statement way_back = approval(0); // still listed: the newest that was
        way_back.counter = 3;
        role_release(&roles, &way_back);
        install(next); // what was approved runs, forwards or back
        assert_int_equal(rig_count(rig, WIRE_OUTCOME_ROLLED_BACK), next < rows[i].active ? 1 : 0);
        restart();
        assert_int_equal(rig_active(rig, TASK), (int)next);
        assert_true(rig->runtime->tasks[0].offer.newest.counter == 3);
        if (i + 1 < sizeof(rows) / sizeof(rows[0])) {
            role_rig_done(&roles);
        }
    }
}

// One that comes now is refused, and the log says of which kind it is.
static void test_a_signed_order_is_not_known(void **state)
{
    (void)state;
    rig->ports.log = &log_port;
    begin();
    struct dev_stats before;
    struct dev_stats after;
    uint32_t ledger = rig->ledger_count;
    for (uint8_t kind = KIND_REVERT; kind <= KIND_REMOVE; kind++) {
        struct rig_statement statement = approval(0);
        statement.counter = 9;
        statement.of_kind = kind;
        dev_stats(rig->runtime, &before);
        rig_offer(rig, &statement);
        logged[0] = '\0';
        rig_checkin(rig);
        dev_stats(rig->runtime, &after);
        assert_int_equal(after.refused_offers, before.refused_offers + 1);
        assert_int_equal(rig->ledger_count, ledger); // nothing to name it by
        assert_int_equal(rig_active(rig, TASK), 1);
        char text[64];
        (void)snprintf(text, sizeof(text), "release of kind %u: not known", kind);
        assert_non_null(strstr(logged, text));
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_back_to_what_is_kept),
        CASE(test_back_to_what_is_gone_and_forwards),
        CASE(test_back_into_another_rollout),
        CASE(test_back_to_an_older_approval_of_the_same_version),
        CASE(test_what_failed_here_is_not_tried_by_an_order_back),
        CASE(test_the_way_back_does_not_run_out),
        CASE(test_below_the_floor),
        CASE(test_other_content_under_a_known_counter),
        CASE(test_killed_or_not_approved),
        CASE(test_beyond_the_share),
        CASE(test_an_order_repeated_or_skipped),
        CASE(test_a_restored_device),
        CASE(test_stop),
        CASE(test_stop_ends_a_pull),
        CASE(test_pinned_keys),
        CASE(test_snapshots_beside_a_shadow),
        cmocka_unit_test(test_killed_anywhere),
        CASE(test_older_record),
        cmocka_unit_test_teardown(test_record_after_a_signed_order, teardown),
        CASE(test_a_signed_order_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
