// A device's record that cannot be read begins anew, and is counted as that; what had moved out of
// it before joins it again, so that nobody is counted twice for it.
#include "core_rig.h"

#include "svc/device/device_record.h"
#include "svc/device/past_outcomes.h"
#include "packed_rows.h"
#include "test_kit.h"

#include <lmdb.h>

#include "base/os/lmdb_pages.h"

#define DEVICE 2u
#define FIRST  100u
#define PAST   3u // rollouts more than a record holds
#define ALL    (GW_DEVICE_OUTCOMES_MAX + PAST)

static const enum wire_outcome_kind ran[] = {WIRE_OUTCOME_ACTIVATED, WIRE_OUTCOME_RAN};

static uint64_t succeeded(struct rig *rig, uint64_t rollout)
{
    struct gw_rollout_view view;
    rig_view(rig, rollout, &view);
    return view.counts.succeeded;
}

static void report(struct rig *rig, uint64_t rollout, uint64_t seq)
{
    struct gw_rollout_view view;
    struct rig_device device;
    rig_view(rig, rollout, &view);
    rig_device_init(&device, DEVICE);
    device.seq = seq;
    assert_int_equal(rig_report(rig, &device, &view, ran, 2), 204);
}

static void begin(struct rig *rig)
{
    struct wire_sha256 v1;
    char name[32];
    rig_init(rig);
    rig->only_proven = true;
    rig_start(rig);
    rig->certified = true;
    for (uint32_t i = 0; i < ALL; i++) {
        snprintf(name, sizeof(name), "task-%u", i);
        rig_baseline(rig, name, FIRST + i, NULL, NULL, &v1);
        report(rig, FIRST + i, 1 + 2 * i);
        rig_advance_s(rig, 2);
    }
    assert_int_equal(rig_past_rows(rig), PAST);
}

static enum base_status put_short(struct gw_store_txn *txn, struct gw_store_op *op)
{
    (void)op;
    struct gw_key key = gw_key_u64(DEVICE);
    return gw_store_txn_put(txn, GW_TABLE_DEVICES, &key, "\xff", 1);
}

// Its checksum holds, and it says nothing.
static void make_nonsense(struct rig *rig)
{
    struct gw_store_op op = {.apply = put_short};
    assert_int_equal(gw_store_submit_wait(rig->core->store, &op), BASE_OK);
    rig_stop(rig);
}

// Its checksum does not hold.
static void flip_bit(struct rig *rig)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi devices;
    char path[96];
    uint8_t bytes[PACKED_VALUE_MAX];
    rig_stop(rig);
    snprintf(path, sizeof(path), "%s/store.mdb", rig->dir);
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, BASE_PAGES_TABLES_MAX), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, gw_table_name(GW_TABLE_DEVICES), 0, &devices), 0);
    struct packed_record record = packed_record_of(txn, devices, DEVICE);
    MDB_val value = packed_value_of(txn, devices, &record, bytes);
    assert_true(record.size > 20);
    bytes[record.at + 8] ^= 1;
    packed_value_put(txn, devices, &record, value);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

static void check(void (*damage)(struct rig *rig))
{
    struct rig rig;
    begin(&rig);
    damage(&rig);
    rig_start(&rig);
    rig.certified = true;
    for (uint32_t i = 0; i < ALL; i++) { // what is not in its record is known
        assert_int_equal(succeeded(&rig, FIRST + i), i < PAST ? 1 : 0);
    }
    uint64_t corrupt = rig.core->reports.records_corrupt;
    report(&rig, FIRST, 1000);
    report(&rig, FIRST + ALL - 1, 1002);
    assert_int_equal(rig.core->reports.records_corrupt, corrupt + 1);
    assert_int_equal(rig_past_rows(&rig), 0);
    for (int restart = 0; restart < 2; restart++) {
        for (uint32_t i = 0; i < ALL; i++) {
            assert_int_equal(succeeded(&rig, FIRST + i), i < PAST || i == ALL - 1 ? 1 : 0);
        }
        rig_stop(&rig);
        rig_start(&rig);
    }
    rig_done(&rig);
}

// ---- Rows of past outcomes

static const struct gw_record_outcome outcome = {
    .rollout_id = 8, .offered_s = 5, .updated_s = 6, .bits = GW_OUTCOME_OFFERED, .last_kind = 1};

static void test_what_is_no_past_outcome(void **state)
{
    (void)state;
    uint8_t row[1 + GW_RECORD_OUTCOME_BYTES_MAX + 1] = {0};
    struct base_writer writer;
    struct gw_record_outcome back;
    const struct gw_key key = gw_key_u64_u64(DEVICE, 8);
    const struct gw_key other = gw_key_u64_u64(DEVICE, 9);
    const struct base_span its = {key.bytes, key.size};
    uint64_t device = 0;
    base_writer_init(&writer, row, sizeof(row));
    base_writer_u8(&writer, 1);
    gw_record_outcome_write(&writer, &outcome);
    size_t size = base_writer_size(&writer);
    assert_int_equal(gw_past_decode(its, (struct base_span){row, size}, &device, &back), BASE_OK);
    assert_int_equal(device, DEVICE);
    assert_int_equal(back.rollout_id, 8);
    assert_int_equal(back.updated_s, 6);
    assert_int_equal(gw_past_decode((struct base_span){other.bytes, other.size},
                                    (struct base_span){row, size}, &device, &back),
                     BASE_ERR_CORRUPT);
    for (size_t cut = 0; cut <= size + 1; cut++) { // and one byte more
        assert_int_equal(gw_past_decode(its, (struct base_span){row, cut}, &device, &back),
                         cut == size ? BASE_OK : BASE_ERR_CORRUPT);
    }
    row[0] = 2;
    assert_int_equal(gw_past_decode(its, (struct base_span){row, size}, &device, &back),
                     BASE_ERR_CORRUPT);
}

static bool sum_rollouts(void *ctx, const struct gw_record_outcome *one)
{
    *(uint64_t *)ctx = *(uint64_t *)ctx * 100 + one->rollout_id;
    return true;
}

// A damaged row between two of a device, and another device behind it.
static enum base_status put_rows(struct gw_store_txn *txn, struct gw_store_op *op)
{
    (void)op;
    struct gw_key damaged = gw_key_u64_u64(DEVICE, 9);
    struct gw_record_outcome one = outcome;
    uint64_t seen = 0;
    assert_int_equal(gw_past_put(txn, DEVICE, &one), BASE_OK);
    assert_int_equal(gw_store_txn_put(txn, GW_TABLE_PAST, &damaged, "\xff", 1), BASE_OK);
    one.rollout_id = 10;
    assert_int_equal(gw_past_put(txn, DEVICE, &one), BASE_OK);
    one.rollout_id = 11;
    assert_int_equal(gw_past_put(txn, DEVICE + 1, &one), BASE_OK);
    assert_int_equal(gw_past_each(txn, DEVICE, sum_rollouts, &seen), BASE_OK);
    assert_int_equal(seen, 810); // 8, then 10
    assert_int_equal(gw_past_get(txn, DEVICE, 9, &one), BASE_ERR_NOT_FOUND);
    assert_int_equal(gw_past_get(txn, DEVICE, 10, &one), BASE_OK);
    assert_int_equal(gw_past_get(txn, DEVICE, 11, &one), BASE_ERR_NOT_FOUND);
    return BASE_OK;
}

static void test_past_outcomes_of_one_device(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_store_op op = {.apply = put_rows};
    rig_init(&rig);
    rig_start(&rig);
    assert_int_equal(gw_store_submit_wait(rig.core->store, &op), BASE_OK);
    rig_done(&rig);
}

static void test_one_that_says_nothing(void **state)
{
    (void)state;
    check(make_nonsense);
}

static void test_one_with_a_flipped_bit(void **state)
{
    (void)state;
    check(flip_bit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_past_outcome),
        cmocka_unit_test(test_past_outcomes_of_one_device),
        cmocka_unit_test(test_one_that_says_nothing),
        cmocka_unit_test(test_one_with_a_flipped_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
