// Commits that fail, as on a disk that cannot write: nothing of the group is there, in the store or
// in the index of its packed rows, and what failed is said as what it was.
#include "packed_rig.h"

#include "store/store_packed.h"

#include <errno.h>

int __real_mdb_txn_commit(MDB_txn *txn);
int __wrap_mdb_txn_commit(MDB_txn *txn);

static int fail_with; // of every commit; 0: none fails

int __wrap_mdb_txn_commit(MDB_txn *txn)
{
    if (fail_with != 0) {
        mdb_txn_abort(txn); // as a commit that fails does
        return fail_with;
    }
    return __real_mdb_txn_commit(txn);
}

static void test_a_group_that_is_not_committed_leaves_nothing(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    struct gw_store *store = open_store(0, 0, true);
    memset(versions, 0, sizeof(versions));
    for (uint64_t id = 0; id < 100; id++) {
        assert_int_equal(write_one(store, id, versions[id] = 1), BASE_OK);
    }
    for (int turn = 0; turn < 3; turn++) {
        struct group group = {.changes = {{3, 7}, {4, 0}, {200, 7}, {5, 8}, {5, 9}}, .count = 5};
        fail_with = EIO;
        enum base_status status = write_group(store, &group);
        fail_with = 0;
        assert_int_equal(status, BASE_ERR_IO);
        check_all(store, versions);
        assert_int_equal(write_one(store, 6, versions[6] = 2 + (uint64_t)turn), BASE_OK);
        check_all(store, versions);
        assert_int_equal(gw_store_check(store, say, NULL), 0);
    }
    gw_store_close(store);
    store = open_store(0, 0, true);
    check_all(store, versions);
    gw_store_close(store);
}

// Room is made by writing, too: a disk that cannot write is no map that is full.
static void test_making_room_fails_as_what_it_was(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    struct gw_store *store = open_store(512 * 1024, 512 * 1024, true);
    memset(versions, 0, sizeof(versions));
    for (uint64_t turn = 0; turn < 600; turn++) {
        uint64_t id = turn % 300;
        assert_int_equal(write_one(store, id, versions[id] = turn + 1), BASE_OK);
    }
    fail_with = EIO;
    int rc = gw_packed_reclaim(store);
    fail_with = 0;
    assert_int_equal(rc, EIO);
    check_all(store, versions);
    assert_int_equal(gw_store_check(store, say, NULL), 0);
    gw_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_group_that_is_not_committed_leaves_nothing, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(test_making_room_fails_as_what_it_was, make_dir,
                                        remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
