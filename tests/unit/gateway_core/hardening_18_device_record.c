// A device's record that cannot be read begins anew, and is counted as that; what had moved out of
// it before joins it again, so that nobody is counted twice for it.
#include "core_rig.h"

#include "svc/device/device_record.h"
#include "test_kit.h"

#include <lmdb.h>

#include "base/lmdb_pages.h"

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
    MDB_val value;
    char path[96];
    struct gw_key key = gw_key_u64(DEVICE);
    MDB_val k = {key.size, key.bytes};
    uint8_t bytes[2048];
    rig_stop(rig);
    snprintf(path, sizeof(path), "%s/store.mdb", rig->dir);
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, BASE_PAGES_TABLES_MAX), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, gw_table_name(GW_TABLE_DEVICES), 0, &devices), 0);
    assert_int_equal(mdb_get(txn, devices, &k, &value), 0);
    assert_true(value.mv_size > 20 && value.mv_size <= sizeof(bytes));
    memcpy(bytes, value.mv_data, value.mv_size);
    bytes[20] ^= 1;
    value.mv_data = bytes;
    assert_int_equal(mdb_put(txn, devices, &k, &value, 0), 0);
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
        cmocka_unit_test(test_one_that_says_nothing),
        cmocka_unit_test(test_one_with_a_flipped_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
