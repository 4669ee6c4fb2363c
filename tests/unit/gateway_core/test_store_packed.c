// Device records packed by recency, beside a plain array that says the same: after every group,
// over restarts, while rows are removed and moved, after groups that failed, and while others read.
#include "packed_rig.h"

#include "failing_heap.h"

#include <pthread.h>
#include <stdatomic.h>

#define READERS    2u
#define READ_IDS   200u
#define READ_TURNS 1000u

// ---- Tests

static void test_put_replace_delete_restart(void **state)
{
    (void)state;
    struct gw_store *store = open_store(0, 0, true);
    assert_int_equal(write_one(store, 3, 1), BASE_OK);
    assert_int_equal(write_one(store, 3, 2), BASE_OK);
    assert_int_equal(write_one(store, 4, 1), BASE_OK);
    assert_int_equal(write_one(store, 4, 0), BASE_OK);
    assert_int_equal(write_one(store, 5, 0), BASE_OK); // there was none
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(version_in(store, 3), 2);
        assert_int_equal(version_in(store, 4), 0);
        assert_int_equal(records_in(store), 4); // the dead ones lie there yet, and an end
        assert_int_equal(gw_store_check(store, say, NULL), 0);
        gw_store_close(store);
        store = open_store(0, 0, true);
    }
    struct group group = {.changes = {{4, 5}, {4, 6}, {4, 0}, {4, 7}, {6, 1}, {6, 0}}, .count = 6};
    assert_int_equal(write_group(store, &group), BASE_OK);
    gw_store_close(store);
    store = open_store(0, 0, true);
    assert_int_equal(version_in(store, 4), 7);
    assert_int_equal(version_in(store, 6), 0);
    assert_int_equal(gw_store_check(store, say, NULL), 0);
    gw_store_close(store);
}

static void test_group_that_fails_leaves_nothing(void **state)
{
    (void)state;
    struct gw_store *store = open_store(0, 0, true);
    static uint64_t versions[IDS];
    assert_int_equal(write_one(store, 3, versions[3] = 1), BASE_OK);
    struct group bad = {.changes = {{3, 2}, {4, 2}, {3, 0}}, .count = 3, .fault = MDB_PANIC};
    assert_int_equal(write_group(store, &bad), BASE_ERR_CORRUPT);
    check_all(store, versions);
    assert_int_equal(write_one(store, 4, versions[4] = 3), BASE_OK);
    check_all(store, versions);
    gw_store_close(store);
    store = open_store(0, 0, true);
    check_all(store, versions);
    gw_store_close(store);
}

// Applied twice and more, it is there once.
static void test_map_grows_within_a_group(void **state)
{
    (void)state;
    struct gw_store *store = open_store(256 * 1024, 64 << 20, true);
    static uint64_t versions[IDS];
    uint32_t most = 0;
    memset(versions, 0, sizeof(versions));
    for (uint64_t turn = 0; turn < 400; turn++) {
        struct group group = {.count = PUTS_MAX};
        for (uint32_t i = 0; i < PUTS_MAX; i++) {
            uint64_t id = (turn * PUTS_MAX + i) % IDS;
            group.changes[i] = (struct change){id, versions[id] = turn + 1};
        }
        assert_int_equal(write_group(store, &group), BASE_OK);
        most = group.applied > most ? group.applied : most;
    }
    assert_true(most > 1);
    check_all(store, versions);
    assert_int_equal(gw_store_check(store, say, NULL), 0);
    gw_store_close(store);
}

// A store that is full of dead rows has room: as a record that is replaced had where it lay.
static void test_full_map_gives_dead_rows_back(void **state)
{
    (void)state;
    struct gw_store *store = open_store(512 * 1024, 512 * 1024, true);
    static uint64_t versions[IDS];
    memset(versions, 0, sizeof(versions));
    for (uint64_t turn = 0; turn < 6000; turn++) {
        uint64_t id = turn % 300;
        assert_int_equal(write_one(store, id, versions[id] = turn + 1), BASE_OK);
    }
    check_all(store, versions);
    assert_int_equal(gw_store_check(store, say, NULL), 0);
    gw_store_close(store);
}

// Devices that are quiet lie in front of dead rows, in a map that cannot grow: those are moved in
// time, since a full map has no page left to move them to.
static void test_quiet_devices_in_a_small_map(void **state)
{
    (void)state;
    const uint64_t map = 8u << 20;
    const uint64_t quiet = 20000;
    const uint64_t busy = 1000;
    struct gw_store *store = open_store(map, map, true);
    for (uint64_t id = 0; id < quiet;) {
        struct group group = {.count = 0};
        for (; group.count < PUTS_MAX && id < quiet; group.count++, id++) {
            group.changes[group.count] = (struct change){busy + id, 1};
        }
        assert_int_equal(write_group(store, &group), BASE_OK);
    }
    for (uint64_t turn = 1; turn <= 2000; turn++) {
        struct group group = {.count = PUTS_MAX};
        for (uint32_t i = 0; i < group.count; i++) {
            group.changes[i] = (struct change){(turn * PUTS_MAX + i) % busy, turn};
        }
        assert_int_equal(write_group(store, &group), BASE_OK);
    }
    for (uint64_t id = 0; id < quiet; id += 7) {
        assert_int_equal(version_in(store, busy + id), 1);
    }
    assert_int_equal(gw_store_check(store, say, NULL), 0);
    gw_store_close(store);
}

// Where room is dear, a quarter of the rows that count is dead at most, whatever is written.
static void test_lean_store_keeps_few_dead_rows(void **state)
{
    (void)state;
    const uint64_t devices = 20000;
    const struct gw_store_options options = {
        .dir = dir, .commit_delay_us = 1, .no_thread = true, .lean = true};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);
    uint64_t most = 0;
    for (uint64_t at = 0; at < 4 * devices; at += PUTS_MAX) {
        struct group group = {.count = PUTS_MAX};
        for (uint32_t i = 0; i < group.count; i++) {
            uint64_t turn = (at + i) / devices + 1;
            group.changes[i] = (struct change){(at + i) * 7919 % devices, turn};
        }
        assert_int_equal(write_group(store, &group), BASE_OK);
        uint64_t rows = at >= devices ? records_in(store) : 0;
        most = rows > most ? rows : most;
    }
    print_message("%llu rows at most of %llu devices\n", (unsigned long long)most,
                  (unsigned long long)devices);
    // A pass moves up to 4096 rows, which are gone where they lay with the next one.
    assert_in_range(most, devices, devices * 5 / 4 + 4096);
    assert_int_equal(gw_store_check(store, say, NULL), 0);
    gw_store_close(store);
}

// Random groups, a tenth of them bad, and restarts. Few devices write much more than others, so
// that rows are moved, too.
static void test_random_against_an_array(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    static uint64_t next[IDS];
    struct base_prng prng;
    uint64_t written = 0;
    uint64_t rows_most = 0;
    test_seed(&prng);
    memset(versions, 0, sizeof(versions));
    struct gw_store *store = open_store(0, 0, true);
    for (uint64_t turn = 1; turn <= 1500; turn++) {
        struct group group = {.count = 1 + (uint32_t)base_prng_below(&prng, PUTS_MAX)};
        uint64_t among = base_prng_below(&prng, 8) == 0 ? IDS : 20;
        bool bad = base_prng_below(&prng, 10) == 0;
        memcpy(next, versions, sizeof(next));
        for (uint32_t i = 0; i < group.count; i++) {
            uint64_t id = base_prng_below(&prng, among);
            next[id] = base_prng_below(&prng, 6) == 0 ? 0 : turn * PUTS_MAX + i;
            group.changes[i] = (struct change){id, next[id]};
        }
        group.fault = bad ? MDB_PANIC : 0;
        assert_int_equal(write_group(store, &group), bad ? BASE_ERR_CORRUPT : BASE_OK);
        if (!bad) {
            memcpy(versions, next, sizeof(versions));
            written += group.count;
        }
        uint64_t rows = records_in(store);
        rows_most = rows > rows_most ? rows : rows_most;
        if (turn % 50 == 0) {
            check_all(store, versions);
        }
        if (base_prng_below(&prng, 100) == 0) {
            assert_int_equal(gw_store_check(store, say, NULL), 0);
            gw_store_close(store);
            store = open_store(0, 0, true);
            check_all(store, versions);
        }
    }
    print_message("%llu writes, at most %llu rows\n", (unsigned long long)written,
                  (unsigned long long)rows_most);
    assert_true(written > 20 * rows_most / 2); // most of it was removed again
    assert_true(rows_most < 4 * IDS + 4096);
    gw_store_close(store);
}

// ---- The order of ids

#define MANY 9000u // more than are kept unsorted

// Far apart, in no order, the greatest of all among them.
static uint64_t far_id(uint64_t n)
{
    return n == 0 ? UINT64_MAX : base_mix64(n);
}

struct ordered {
    struct gw_store_op op;
    uint64_t from;
    uint64_t last;
    uint64_t count;
    uint64_t limit;
    uint64_t put; // written before the scan, when it is not 0
};

static bool see_in_order(void *ctx, struct base_span key, struct base_span value)
{
    struct ordered *ordered = ctx;
    uint64_t id = 0;
    assert_true(gw_key_read_u64(key.data, key.size, 0, &id));
    assert_true(ordered->count == 0 ? id >= ordered->from : id > ordered->last);
    assert_true(version_of(id, value) > 0);
    ordered->last = id;
    return ++ordered->count < ordered->limit;
}

static enum base_status scan_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct ordered *ordered = (struct ordered *)self;
    struct gw_key from = gw_key_u64(ordered->from);
    uint8_t bytes[VALUE_MAX];
    ordered->count = 0;
    if (ordered->put != 0) {
        struct gw_key key = gw_key_u64(ordered->put);
        size_t size = fill(ordered->put, 1, bytes);
        BASE_TRY(gw_store_txn_put(txn, GW_TABLE_DEVICES, &key, bytes, size));
    }
    return gw_store_txn_scan(txn, GW_TABLE_DEVICES, &from, see_in_order, ordered);
}

static void check_order(struct gw_store *store, uint64_t from, uint64_t limit, uint64_t wanted)
{
    struct gw_store_read *read;
    struct gw_key key = gw_key_u64(from);
    struct ordered ordered = {.op = {.apply = scan_apply}, .from = from, .limit = limit};
    assert_int_equal(gw_store_read_begin(store, &read), BASE_OK);
    assert_int_equal(gw_store_read_scan(read, GW_TABLE_DEVICES, &key, see_in_order, &ordered),
                     BASE_OK);
    gw_store_read_end(read);
    assert_int_equal(ordered.count, wanted);
    assert_int_equal(gw_store_submit_wait(store, &ordered.op), BASE_OK); // in a write as well
    assert_int_equal(ordered.count, wanted);
}

static void test_scans_in_order(void **state)
{
    (void)state;
    struct gw_store *store = open_store(0, 0, true);
    check_order(store, 0, UINT64_MAX, 0);
    for (uint64_t n = 0; n < MANY; n += PUTS_MAX) {
        struct group group = {.count = PUTS_MAX};
        for (uint32_t i = 0; i < PUTS_MAX; i++) {
            group.changes[i] = (struct change){far_id(n + i), 1};
        }
        assert_int_equal(write_group(store, &group), BASE_OK);
    }
    const uint64_t all = (MANY + PUTS_MAX - 1) / PUTS_MAX * PUTS_MAX;
    uint64_t upper = 0;
    uint64_t third = 0;
    for (uint64_t n = 0; n < all; n++) {
        upper += far_id(n) >= UINT64_MAX / 2;
        third += n % 3 != 0 && far_id(n) >= UINT64_MAX / 2;
    }
    for (int turn = 0; turn < 2; turn++) {
        check_order(store, 0, UINT64_MAX, all);
        check_order(store, UINT64_MAX / 2, UINT64_MAX, upper);
        check_order(store, 0, 1000, 1000);
        check_order(store, UINT64_MAX, UINT64_MAX, 1);
        gw_store_close(store);
        store = open_store(0, 0, true);
    }
    for (uint64_t n = 0; n < all; n += 3) { // every third goes
        assert_int_equal(write_one(store, far_id(n), 0), BASE_OK);
    }
    check_order(store, UINT64_MAX / 2, UINT64_MAX, third);
    assert_int_equal(write_one(store, far_id(3), 2), BASE_OK); // and one comes back, once
    check_order(store, far_id(3), 1, 1);
    struct ordered within = {
        .op = {.apply = scan_apply}, .from = 5, .limit = 1, .put = 5}; // it was far from others
    assert_int_equal(gw_store_submit_wait(store, &within.op), BASE_OK);
    assert_int_equal(within.last, 5);
    gw_store_close(store);
}

// ---- Memory

// Each allocation fails in turn: the group fails whole or is there whole, and the next one works.
static void test_each_allocation_fails(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    struct gw_store *store = open_store(0, 0, true);
    memset(versions, 0, sizeof(versions));
    bool done = false;
    for (size_t allowed = 0; !done; allowed++) {
        struct group group = {.op = {.apply = apply}, .count = PUTS_MAX};
        for (uint32_t i = 0; i < PUTS_MAX; i++) {
            group.changes[i] = (struct change){(allowed * PUTS_MAX + i) % IDS, allowed + 1};
        }
        failing_heap_arm(allowed, false);
        enum base_status status = gw_store_submit_wait(store, &group.op);
        (void)failing_heap_disarm();
        done = !failing_heap_has_failed();
        assert_true(status == BASE_OK || status == BASE_ERR_NOMEM);
        for (uint32_t i = 0; status == BASE_OK && i < PUTS_MAX; i++) {
            versions[group.changes[i].id] = allowed + 1;
        }
        check_all(store, versions);
        assert_true(allowed < 100);
    }
    gw_store_close(store);
}

static void test_opening_without_memory(void **state)
{
    (void)state;
    gw_store_close(open_store(0, 0, true));
    const struct gw_store_options options = {.dir = dir, .no_thread = true};
    long live = failing_heap_live();
    bool done = false;
    struct gw_store *store = open_store(0, 0, true);
    assert_int_equal(write_one(store, 1, 1), BASE_OK);
    gw_store_close(store);
    for (size_t allowed = 0; !done; allowed++) {
        struct base_error error = {0};
        store = NULL;
        failing_heap_arm(allowed, false);
        enum base_status status = gw_store_open(&options, &store, &error);
        (void)failing_heap_disarm();
        done = !failing_heap_has_failed();
        assert_int_equal(status == BASE_OK, done);
        gw_store_close(store);
        assert_int_equal(failing_heap_live(), live);
        assert_true(allowed < 200);
    }
}

// ---- Readers beside the writer

struct readers {
    struct gw_store *store;
    atomic_bool stop;
    atomic_uint_fast64_t reads;
};

struct crowd {
    uint64_t versions[READ_IDS]; // as seen last: none goes back
    uint64_t count;
};

static bool see_newer(void *ctx, struct base_span key, struct base_span value)
{
    struct crowd *crowd = ctx;
    uint64_t id = 0;
    bool known = gw_key_read_u64(key.data, key.size, 0, &id) && id < READ_IDS;
    uint64_t version = known ? version_of(id, value) : 0;
    if (!known || version < crowd->versions[id]) {
        abort(); // assertions are of the main thread
    }
    crowd->versions[id] = version;
    crowd->count++;
    return true;
}

static void *read_on(void *arg)
{
    struct readers *readers = arg;
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    struct gw_key from = gw_key_u64(0);
    while (crowd != NULL && !atomic_load(&readers->stop)) {
        struct gw_store_read *read = NULL;
        struct base_span values[READ_IDS];
        if (gw_store_read_begin(readers->store, &read) != BASE_OK) {
            abort();
        }
        for (uint64_t id = 0; id < READ_IDS; id++) {
            struct gw_key key = gw_key_u64(id);
            if (gw_store_read_get(read, GW_TABLE_DEVICES, &key, &values[id]) != BASE_OK) {
                abort();
            }
        }
        for (uint64_t id = 0; id < READ_IDS; id++) { // all of them are there until the end
            struct gw_key key = gw_key_u64(id);
            (void)see_newer(crowd, (struct base_span){key.bytes, key.size}, values[id]);
        }
        crowd->count = 0;
        if (gw_store_read_scan(read, GW_TABLE_DEVICES, &from, see_newer, crowd) != BASE_OK ||
            crowd->count != READ_IDS) {
            abort();
        }
        gw_store_read_end(read);
        atomic_fetch_add(&readers->reads, 1);
    }
    free(crowd);
    return NULL;
}

// Every record is replaced all the time, rows are removed and moved: who reads finds
// each device once, never an older record than before.
static void test_readers_beside_the_writer(void **state)
{
    (void)state;
    static struct readers readers;
    pthread_t threads[READERS];
    readers.store = open_store(0, 0, false); // a map does not grow while somebody always reads
    for (uint64_t id = 0; id < READ_IDS; id++) {
        assert_int_equal(write_one(readers.store, id, 1), BASE_OK);
    }
    for (uint32_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &readers), 0);
    }
    uint64_t turn = 2;
    for (; turn < READ_TURNS || atomic_load(&readers.reads) < 10; turn++) {
        struct group group = {.count = 20};
        for (uint32_t i = 0; i < group.count; i++) {
            uint64_t id = i % 4 == 0 ? (turn + i) % READ_IDS : (turn * 7 + i) % 40;
            group.changes[i] = (struct change){id, turn};
        }
        assert_int_equal(write_group(readers.store, &group), BASE_OK);
    }
    atomic_store(&readers.stop, true);
    for (uint32_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    print_message("%llu rounds of reading\n", (unsigned long long)atomic_load(&readers.reads));
    assert_int_equal(gw_store_check(readers.store, say, NULL), 0);
    gw_store_close(readers.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_replace_delete_restart, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_group_that_fails_leaves_nothing, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_map_grows_within_a_group, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_full_map_gives_dead_rows_back, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_lean_store_keeps_few_dead_rows, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_quiet_devices_in_a_small_map, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_random_against_an_array, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_scans_in_order, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_each_allocation_fails, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_opening_without_memory, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_readers_beside_the_writer, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
