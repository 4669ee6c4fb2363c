// Device records packed by recency, beside a plain array that says the same: after every group,
// over restarts, while rows are removed and moved, after groups that failed, and while others read.
#include "store/store_private.h"

#include "base/record_seal.h"
#include "failing_heap.h"
#include "test_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define IDS        600u
#define VALUE_MAX  300u
#define PUTS_MAX   64u
#define READERS    2u
#define READ_IDS   200u
#define READ_TURNS 1000u

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/walle-packed-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static struct gw_store *open_store(uint64_t first, uint64_t max, bool no_thread)
{
    const struct gw_store_options options = {.dir = dir,
                                             .map_bytes_first = first,
                                             .map_bytes_max = max,
                                             .commit_delay_us = 1,
                                             .no_thread = no_thread};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    if (gw_store_open(&options, &store, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return store;
}

// ---- What is written: ids with versions; a version makes size and bytes, 0 is no record

struct change {
    uint64_t id;
    uint64_t version;
};

struct group {
    struct gw_store_op op;
    struct change changes[PUTS_MAX];
    uint32_t count;
    int fault; // it ends with
    uint32_t applied;
};

static size_t fill(uint64_t id, uint64_t version, uint8_t *out)
{
    size_t size = 16 + (size_t)((id * 7 + version * 13) % (VALUE_MAX - 16));
    memcpy(out, &id, 8);
    memcpy(out + 8, &version, 8);
    memset(out + 16, (int)((id + version) & 0xff), size - 16);
    return size;
}

// The version of a record, all of it looked at.
static uint64_t version_of(uint64_t id, struct base_span value)
{
    uint8_t expected[VALUE_MAX];
    uint64_t version = 0;
    assert_true(value.size >= 16);
    memcpy(&version, value.data + 8, 8);
    assert_int_equal(fill(id, version, expected), value.size);
    assert_memory_equal(expected, value.data, value.size);
    return version;
}

static enum base_status apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct group *group = (struct group *)self;
    group->applied++;
    for (uint32_t i = 0; i < group->count; i++) {
        uint8_t bytes[VALUE_MAX];
        const struct change *change = &group->changes[i];
        struct gw_key key = gw_key_u64(change->id);
        size_t size = fill(change->id, change->version, bytes);
        if (change->version == 0) {
            BASE_TRY(gw_store_txn_delete(txn, GW_TABLE_DEVICES, &key));
        } else {
            BASE_TRY(gw_store_txn_put(txn, GW_TABLE_DEVICES, &key, bytes, size));
        }
        struct base_span value; // what was written is seen at once
        enum base_status status = gw_store_txn_get(txn, GW_TABLE_DEVICES, &key, &value);
        assert_int_equal(status, change->version == 0 ? BASE_ERR_NOT_FOUND : BASE_OK);
        assert_true(change->version == 0 || version_of(change->id, value) == change->version);
    }
    if (group->fault != 0) {
        txn->fault = group->fault;
    }
    return BASE_OK;
}

static enum base_status write_group(struct gw_store *store, struct group *group)
{
    group->op.apply = apply;
    return gw_store_submit_wait(store, &group->op);
}

static enum base_status write_one(struct gw_store *store, uint64_t id, uint64_t version)
{
    struct group group = {.changes = {{id, version}}, .count = 1};
    return write_group(store, &group);
}

// ---- What is read

static enum base_status read_version(struct gw_store *store, uint64_t id, uint64_t *out)
{
    struct gw_store_read *read = NULL;
    struct gw_key key = gw_key_u64(id);
    struct base_span value;
    *out = 0;
    assert_int_equal(gw_store_read_begin(store, &read), BASE_OK);
    enum base_status status = gw_store_read_get(read, GW_TABLE_DEVICES, &key, &value);
    if (status == BASE_OK) {
        *out = version_of(id, value);
    }
    gw_store_read_end(read);
    return status;
}

static uint64_t version_in(struct gw_store *store, uint64_t id)
{
    uint64_t version;
    enum base_status status = read_version(store, id, &version);
    assert_true(status == BASE_OK || status == BASE_ERR_NOT_FOUND);
    return version;
}

struct walk {
    uint64_t versions[IDS];
    uint64_t count;
    uint64_t last;
    bool ordered;
};

static bool see(void *ctx, struct base_span key, struct base_span value)
{
    struct walk *walk = ctx;
    uint64_t id;
    assert_int_equal(key.size, 9);
    assert_true(gw_key_read_u64(key.data, key.size, 0, &id));
    assert_true(id < IDS);
    assert_true(!walk->ordered || walk->count == 0 || id > walk->last);
    assert_int_equal(walk->versions[id], 0); // once
    walk->versions[id] = version_of(id, value);
    walk->last = id;
    walk->count++;
    return true;
}

static void check_all(struct gw_store *store, const uint64_t *versions)
{
    static struct walk walks[2];
    struct gw_store_read *read = NULL;
    struct gw_key from = gw_key_u64(0);
    uint64_t live = 0;
    memset(walks, 0, sizeof(walks));
    walks[0].ordered = true;
    for (uint64_t id = 0; id < IDS; id++) {
        assert_int_equal(version_in(store, id), versions[id]);
        live += versions[id] != 0;
    }
    assert_int_equal(gw_store_read_begin(store, &read), BASE_OK);
    assert_int_equal(gw_store_read_scan(read, GW_TABLE_DEVICES, &from, see, &walks[0]), BASE_OK);
    assert_int_equal(gw_store_read_all(read, GW_TABLE_DEVICES, see, &walks[1]), BASE_OK);
    assert_int_equal(gw_store_read_count(read, GW_TABLE_DEVICES), live);
    gw_store_read_end(read);
    assert_memory_equal(walks[0].versions, versions, sizeof(walks[0].versions));
    assert_memory_equal(walks[1].versions, versions, sizeof(walks[1].versions));
}

static uint64_t rows_in(struct gw_store *store)
{
    MDB_txn *txn;
    MDB_stat stat;
    assert_int_equal(mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn), 0);
    assert_int_equal(mdb_stat(txn, store->tables[GW_TABLE_DEVICES], &stat), 0);
    mdb_txn_abort(txn);
    return stat.ms_entries;
}

static void say(void *ctx, const char *text)
{
    (void)ctx;
    print_message("  %s\n", text);
}

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
        assert_int_equal(rows_in(store), 4); // the dead ones lie there yet, and an end
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
        uint64_t rows = rows_in(store);
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

// ---- Damage

enum place { PLACE_KEY, PLACE_ID, PLACE_BYTES, PLACE_SEAL, PLACE_COUNT };

// One bit of the newest row of an id, in the table itself.
static void damage_newest(struct gw_store *store, uint64_t id, enum place place)
{
    MDB_txn *txn;
    uint8_t bytes[VALUE_MAX + 16];
    MDB_val v;
    MDB_dbi rows = store->tables[GW_TABLE_DEVICES];
    struct gw_key key =
        gw_packed_key((struct gw_packed_place){gw_packed_row_of(&store->packed, id), id});
    MDB_val k = {key.size, key.bytes};
    assert_int_equal(mdb_txn_begin(store->env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_get(txn, rows, &k, &v), 0);
    assert_true(v.mv_size > 16 && v.mv_size <= sizeof(bytes));
    memcpy(bytes, v.mv_data, v.mv_size);
    v.mv_data = bytes;
    size_t at[PLACE_COUNT] = {0, v.mv_size - 9, 9, v.mv_size - 1};
    if (place == PLACE_KEY) {
        assert_int_equal(mdb_del(txn, rows, &k, NULL), 0);
        key.bytes[16] ^= 1; // of the id
    } else {
        bytes[at[place]] ^= 1;
    }
    assert_int_equal(mdb_put(txn, rows, &k, &v, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
}

// The record is left out, and none of before comes back: not by id, not in walks, not over
// restarts, not when rows before it went. Its neighbour, whose id is one bit away, is as it was.
static void test_damaged_newest_row(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    for (enum place place = PLACE_KEY; place < PLACE_COUNT; place++) {
        assert_int_equal(make_dir(NULL), 0);
        struct gw_store *store = open_store(0, 0, true);
        memset(versions, 0, sizeof(versions));
        for (uint64_t version = 1; version <= 3; version++) {
            for (uint64_t id = 10; id < 14; id++) {
                assert_int_equal(write_one(store, id, versions[id] = version), BASE_OK);
            }
        }
        damage_newest(store, 12, place);
        gw_store_close(store);
        versions[12] = 0;
        store = open_store(0, 0, true);
        assert_true(gw_store_check(store, say, NULL) > 0);
        for (uint64_t id = 10; id < 14; id++) {
            assert_int_equal(version_in(store, id), versions[id]);
        }
        struct gw_store_stats stats;
        gw_store_stats(store, &stats);
        assert_true(stats.damaged > 0);
        // Much is written beside it, so that rows are removed and moved.
        for (uint64_t turn = 0; turn < 300; turn++) {
            struct group group = {.count = PUTS_MAX};
            for (uint32_t i = 0; i < PUTS_MAX; i++) {
                group.changes[i] = (struct change){13, versions[13] = turn * PUTS_MAX + i + 1};
                group.changes[i].id = i % 2 == 0 ? 13 : 11;
                versions[group.changes[i].id] = group.changes[i].version;
            }
            assert_int_equal(write_group(store, &group), BASE_OK);
            if (turn % 100 == 50) {
                gw_store_close(store);
                store = open_store(0, 0, true);
            }
            assert_int_equal(version_in(store, 12), 0);
        }
        versions[13] = version_in(store, 13);
        for (uint64_t id = 10; id < 14; id++) {
            assert_int_equal(version_in(store, id), versions[id]);
        }
        assert_int_equal(write_one(store, 12, versions[12] = 99), BASE_OK); // begins anew
        check_all(store, versions);
        gw_store_close(store);
        store = open_store(0, 0, true);
        check_all(store, versions);
        gw_store_close(store);
        assert_int_equal(remove_dir(NULL), 0);
    }
}

static void count_texts(void *ctx, const char *text)
{
    say(NULL, text);
    (*(unsigned *)ctx)++;
}

// What salvage leaves behind does not come back as it was before, and deleted ones stay so.
static void test_salvage_brings_nothing_back(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    struct gw_store *store = open_store(0, 0, true);
    memset(versions, 0, sizeof(versions));
    for (uint64_t version = 1; version <= 3; version++) {
        for (uint64_t id = 10; id < 20; id++) {
            versions[id] = id == 15 && version == 3 ? 0 : version;
            assert_int_equal(write_one(store, id, versions[id]), BASE_OK);
        }
    }
    damage_newest(store, 12, PLACE_BYTES);
    damage_newest(store, 16, PLACE_KEY);
    versions[12] = 0;
    versions[16] = 0;
    gw_store_close(store);
    struct base_error error = {0};
    uint64_t copied = 0;
    unsigned told = 0;
    assert_int_equal(gw_store_salvage(dir, count_texts, &told, &copied, &error), BASE_OK);
    assert_int_equal(told, 2);
    assert_int_equal(copied, 7);
    store = open_store(0, 0, true);
    check_all(store, versions);
    assert_int_equal(gw_store_check(store, say, NULL), 0);
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

// ---- Older schemas

static void put_older(MDB_txn *txn, MDB_dbi dbi, const char *table, uint64_t id, bool sealed)
{
    uint8_t bytes[VALUE_MAX + BASE_SEAL_BYTES];
    struct gw_key key = gw_key_u64(id);
    size_t size = fill(id, 100 + id, bytes);
    MDB_val k = {key.size, key.bytes};
    MDB_val v = {size + (sealed ? BASE_SEAL_BYTES : 0), bytes};
    base_record_seal(table, (struct base_span){key.bytes, key.size},
                     (struct base_span){bytes, size}, bytes + size);
    bytes[9] ^= sealed && id == 7; // one that is damaged
    assert_int_equal(mdb_put(txn, dbi, &k, &v, 0), 0);
}

// As a gateway of before wrote it: records of devices under their ids, here with a damaged one.
static void make_older(uint8_t schema)
{
    bool sealed = schema > GW_STORE_SCHEMA_UNSEALED;
    uint8_t value[1 + BASE_SEAL_BYTES] = {schema};
    char path[96];
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi tables[3];
    struct gw_key key = gw_key_text(GW_STORE_SCHEMA_KEY);
    MDB_val k = {key.size, key.bytes};
    MDB_val v = {sealed ? sizeof(value) : 1, value};
    snprintf(path, sizeof(path), "%s/store.mdb", dir);
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, 8), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "meta", MDB_CREATE, &tables[0]), 0);
    assert_int_equal(mdb_dbi_open(txn, "devices", MDB_CREATE, &tables[1]), 0);
    assert_int_equal(mdb_dbi_open(txn, "rollouts", MDB_CREATE, &tables[2]), 0);
    base_record_seal("meta", (struct base_span){key.bytes, key.size}, (struct base_span){value, 1},
                     value + 1);
    assert_int_equal(mdb_put(txn, tables[0], &k, &v, 0), 0);
    for (uint64_t id = 0; id < IDS; id++) {
        put_older(txn, tables[1], "devices", id, sealed);
    }
    put_older(txn, tables[2], "rollouts", 3, sealed);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

static void test_older_schemas_are_rewritten(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    for (uint8_t schema = GW_STORE_SCHEMA_UNSEALED; schema < GW_STORE_SCHEMA; schema++) {
        bool damaged = schema != GW_STORE_SCHEMA_UNSEALED;
        assert_int_equal(make_dir(NULL), 0);
        make_older(schema);
        const struct gw_store_options look = {.dir = dir, .read_only = true};
        struct gw_store *store = NULL;
        struct base_error error = {0};
        assert_int_equal(gw_store_open(&look, &store, &error), BASE_ERR_UNSUPPORTED);
        for (uint64_t id = 0; id < IDS; id++) {
            versions[id] = damaged && id == 7 ? 0 : 100 + id;
        }
        for (int turn = 0; turn < 2; turn++) {
            struct gw_store_read *read;
            struct gw_key key = gw_key_u64(3);
            struct base_span value;
            store = open_store(0, 0, true);
            for (uint64_t id = 0; id < IDS; id++) {
                assert_int_equal(version_in(store, id), versions[id]);
            }
            assert_int_equal(gw_store_check(store, say, NULL), damaged); // damaged it stays
            assert_int_equal(gw_store_read_begin(store, &read), BASE_OK);
            assert_int_equal(gw_store_read_get(read, GW_TABLE_ROLLOUTS, &key, &value), BASE_OK);
            assert_int_equal(version_of(3, value), 103);
            assert_int_equal(gw_store_read_count(read, GW_TABLE_DEVICES), IDS);
            gw_store_read_end(read);
            gw_store_close(store);
        }
        store = open_store(0, 0, true);
        assert_int_equal(write_one(store, 7, versions[7] = 5), BASE_OK);
        check_all(store, versions);
        assert_int_equal(gw_store_check(store, say, NULL), 0);
        gw_store_close(store);
        assert_int_equal(remove_dir(NULL), 0);
    }
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
        cmocka_unit_test_setup_teardown(test_random_against_an_array, make_dir, remove_dir),
        cmocka_unit_test(test_damaged_newest_row),
        cmocka_unit_test_setup_teardown(test_salvage_brings_nothing_back, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_scans_in_order, make_dir, remove_dir),
        cmocka_unit_test(test_older_schemas_are_rewritten),
        cmocka_unit_test_setup_teardown(test_each_allocation_fails, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_opening_without_memory, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_readers_beside_the_writer, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
