// Damaged rows of packed device records: they are left out, and no older row comes back, not over
// restarts, compaction and salvage. And stores of older schemas, with a damaged record in them.
#include "packed_rig.h"
#include "packed_rows.h"

#include "base/record_seal.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum place { PLACE_KEY, PLACE_ID, PLACE_BYTES, PLACE_SEAL, PLACE_BYTES_AND_SUM, PLACE_COUNT };

// One bit of the newest record of an id, in the table itself, or of the key of its block; or one of
// its bytes and one of what the ids of its block come to, so that it may be of the id beside it.
static void damage_newest(struct gw_store *store, uint64_t id, enum place place)
{
    MDB_txn *txn;
    uint8_t bytes[PACKED_VALUE_MAX];
    MDB_dbi rows = store->tables[GW_TABLE_DEVICES];
    assert_int_equal(mdb_txn_begin(store->env, NULL, 0, &txn), 0);
    struct packed_record record = packed_record_of(txn, rows, id);
    MDB_val v = packed_value_of(txn, rows, &record, bytes);
    MDB_val k = {record.key.size, record.key.bytes};
    assert_true(record.size > 16 + 12);
    const size_t at[PLACE_COUNT] = {0, record.at + record.size - 12, record.at + 9,
                                    record.at + record.size - 1, record.at + 9};
    if (place == PLACE_KEY) {
        assert_int_equal(mdb_del(txn, rows, &k, NULL), 0);
        record.key.bytes[4] ^= 1; // of the number
    } else {
        bytes[at[place]] ^= 1;
    }
    if (place == PLACE_BYTES_AND_SUM) {
        bytes[bytes[16] > 1 ? 8 : 0] ^= 1; // of one record, or of the second of all
    }
    packed_value_put(txn, rows, &record, v);
    assert_int_equal(mdb_txn_commit(txn), 0);
}

// Much is written beside 10 to 13, so that their blocks are moved.
static struct gw_store *write_beside(struct gw_store *store, uint64_t *versions)
{
    for (uint64_t turn = 0; turn < 300; turn++) {
        struct group group = {.count = PUTS_MAX};
        for (uint32_t i = 0; i < PUTS_MAX; i++) {
            const uint64_t id = 100 + i; // 13 lies as quiet as 12
            group.changes[i] = (struct change){id, turn * PUTS_MAX + i + 1};
            versions[id] = group.changes[i].version;
        }
        assert_int_equal(write_group(store, &group), BASE_OK);
        if (turn % 100 == 50) {
            gw_store_close(store);
            store = open_store(0, 0, true);
        }
        assert_int_equal(version_in(store, 12), 0);
    }
    return store;
}

// 10 to 13 three times, alone or in a block of all, with a newest record of 12 that is damaged.
static struct gw_store *make_damaged(enum place place, bool together, uint64_t *versions)
{
    struct gw_store *store = open_store(0, 0, true);
    memset(versions, 0, IDS * sizeof(*versions));
    for (uint64_t version = 1; version <= 3; version++) {
        struct group group = {.count = 0};
        for (uint64_t id = 13; id >= 10; id--) {
            group.changes[group.count++] = (struct change){id, versions[id] = version};
            if (!together || id == 10) {
                assert_int_equal(write_group(store, &group), BASE_OK);
                group.count = 0;
            }
        }
    }
    damage_newest(store, 12, place);
    gw_store_close(store);
    for (uint64_t id = 10; id < 14; id++) {
        const bool lost = id == 12 || (together && place == PLACE_KEY) ||
                          (id == 13 && place == PLACE_BYTES_AND_SUM); // it may be of that one
        versions[id] = lost ? 0 : versions[id];
    }
    return open_store(0, 0, true);
}

// The record is left out, and none of before comes back: not by id, not in walks, not over
// restarts, not when blocks before its went. Its neighbour, whose id is one bit away, is as it was,
// unless the record may be of it as well.
static void test_damaged_newest_row(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    for (unsigned trial = 0; trial < 2 * PLACE_COUNT; trial++) {
        assert_int_equal(make_dir(NULL), 0);
        struct gw_store *store = make_damaged((enum place)(trial / 2), trial % 2 != 0, versions);
        assert_true(gw_store_check(store, say, NULL) > 0);
        for (uint64_t id = 10; id < 14; id++) {
            assert_int_equal(version_in(store, id), versions[id]);
        }
        struct gw_store_stats stats;
        gw_store_stats(store, &stats);
        assert_true(stats.damaged > 0);
        store = write_beside(store, versions);
        for (uint64_t id = 10; id < 14; id++) {
            assert_int_equal(version_in(store, id), versions[id]);
        }
        for (uint64_t id = 10; id < 14; id++) { // begins anew
            if (versions[id] == 0) {
                assert_int_equal(write_one(store, id, versions[id] = 99), BASE_OK);
            }
        }
        check_all(store, versions);
        gw_store_close(store);
        store = open_store(0, 0, true);
        check_all(store, versions);
        gw_store_close(store);
        assert_int_equal(remove_dir(NULL), 0);
    }
}

// A damaged key that lies behind all others, by its version or as the highest number: what comes
// later is written all the same, a check tells of it and salvage leaves it behind.
static void test_key_behind_all_others(void **state)
{
    (void)state;
    for (int highest = 0; highest < 2; highest++) {
        static uint64_t versions[IDS];
        struct base_error error = {0};
        uint64_t copied = 0;
        assert_int_equal(make_dir(NULL), 0);
        struct gw_store *store = open_store(0, 0, true);
        memset(versions, 0, sizeof(versions));
        for (uint64_t id = 10; id < 14; id++) {
            assert_int_equal(write_one(store, id, versions[id] = 1), BASE_OK);
        }
        MDB_txn *txn;
        struct gw_key key =
            gw_block_key(highest != 0 ? GW_BLOCK_NUMBER_MAX + 1 : GW_BLOCK_NUMBER_MAX / 2);
        MDB_val k = {key.size, key.bytes};
        MDB_val v = {3, (void *)(uintptr_t) "odd"};
        key.bytes[0] = highest != 0 ? key.bytes[0] : 0x41;
        assert_int_equal(mdb_txn_begin(store->env, NULL, 0, &txn), 0);
        assert_int_equal(mdb_put(txn, store->tables[GW_TABLE_DEVICES], &k, &v, 0), 0);
        assert_int_equal(mdb_txn_commit(txn), 0);
        gw_store_close(store);
        store = open_store(0, 0, true);
        for (uint64_t id = 10; id < 18; id++) {
            assert_int_equal(write_one(store, id, versions[id] = 2), BASE_OK);
        }
        assert_true(gw_store_check(store, say, NULL) > 0);
        gw_store_close(store);
        assert_int_equal(gw_store_salvage(dir, say, NULL, &copied, &error), BASE_OK);
        store = open_store(0, 0, true);
        assert_int_equal(gw_store_check(store, say, NULL), 0);
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

// What salvage leaves behind does not come back as it was before, and deleted ones stay so. A block
// under a key that lost a bit is known by its seals.
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
    gw_store_close(store);
    struct base_error error = {0};
    uint64_t copied = 0;
    unsigned told = 0;
    assert_int_equal(gw_store_salvage(dir, count_texts, &told, &copied, &error), BASE_OK);
    assert_int_equal(told, 2);
    assert_int_equal(copied, 8);
    store = open_store(0, 0, true);
    check_all(store, versions);
    assert_int_equal(gw_store_check(store, say, NULL), 0);
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
    for (uint8_t schema = GW_STORE_SCHEMA_UNSEALED; schema <= GW_STORE_SCHEMA_LOOSE; schema++) {
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
        char path[96];
        char before[96];
        snprintf(path, sizeof(path), "%s/store.mdb", dir);
        snprintf(before, sizeof(before), "%s/store.mdb.before-%u", dir, GW_STORE_SCHEMA);
        const struct gw_store_options writes = {.dir = dir, .no_thread = true};
        assert_int_equal(mkdir(before, 0700), 0); // nothing is rewritten that cannot be kept
        assert_int_not_equal(gw_store_open(&writes, &store, &error), BASE_OK);
        assert_non_null(strstr(error.text, before));
        assert_int_equal(gw_store_open(&look, &store, &error), BASE_ERR_UNSUPPORTED);
        assert_int_equal(rmdir(before), 0);
        for (int turn = 0; turn < 3; turn++) {
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
            assert_int_equal(access(before, F_OK), 0);
            if (turn == 0) { // the file of before is whole, and rewritten once more
                assert_int_equal(rename(before, path), 0);
                assert_int_equal(gw_store_open(&look, &store, &error), BASE_ERR_UNSUPPORTED);
            }
        }
        store = open_store(0, 0, true);
        assert_int_equal(write_one(store, 7, versions[7] = 5), BASE_OK);
        check_all(store, versions);
        assert_int_equal(gw_store_check(store, say, NULL), 0);
        gw_store_close(store);
        assert_int_equal(remove_dir(NULL), 0);
    }
}

// The number that stands in the file; it becomes another one, with the bits of `flips` flipped.
static uint8_t change_schema(uint8_t next, const uint8_t flips[1 + BASE_SEAL_BYTES])
{
    struct gw_key key = gw_key_text(GW_STORE_SCHEMA_KEY);
    uint8_t value[1 + BASE_SEAL_BYTES] = {next};
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi meta;
    MDB_val k = {key.size, key.bytes};
    MDB_val v;
    char path[96];
    snprintf(path, sizeof(path), "%s/store.mdb", dir);
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, 8), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "meta", 0, &meta), 0);
    assert_int_equal(mdb_get(txn, meta, &k, &v), 0);
    assert_int_equal(v.mv_size, sizeof(value));
    uint8_t schema = *(const uint8_t *)v.mv_data;
    base_record_seal("meta", (struct base_span){key.bytes, key.size}, (struct base_span){value, 1},
                     value + 1);
    for (size_t i = 0; i < sizeof(value); i++) {
        value[i] ^= flips[i];
    }
    v = (MDB_val){sizeof(value), value};
    assert_int_equal(mdb_put(txn, meta, &k, &v, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    return schema;
}

static uint8_t schema_on_disk(uint8_t next)
{
    static const uint8_t none[1 + BASE_SEAL_BYTES];
    return change_schema(next, none);
}

static void assert_damaged(void)
{
    for (int writes = 0; writes < 2; writes++) {
        const struct gw_store_options options = {
            .dir = dir, .read_only = writes == 0, .no_thread = true};
        struct gw_store *store = NULL;
        struct base_error error = {0};
        assert_int_equal(gw_store_open(&options, &store, &error), BASE_ERR_CORRUPT);
        assert_non_null(strstr(error.text, "restore a copy"));
        assert_non_null(strstr(error.text, "salvage --help`"));
    }
}

static void assert_salvaged(const uint64_t *versions, uint64_t records, unsigned left_behind)
{
    struct base_error error = {0};
    uint64_t copied = 0;
    unsigned told = 0;
    assert_int_equal(gw_store_salvage(dir, count_texts, &told, &copied, &error), BASE_OK);
    assert_int_equal(told, left_behind);
    assert_int_equal(copied, records);
    struct gw_store *store = open_store(0, 0, true);
    check_all(store, versions);
    assert_int_equal(gw_store_check(store, say, NULL), 0);
    gw_store_close(store);
}

// What neither records nor sums tell is no store to work with: it is not opened, and salvage saves
// the other blocks.
static void test_block_that_nobody_knows(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    uint8_t bytes[PACKED_VALUE_MAX];
    struct gw_store *store = open_store(0, 0, true);
    memset(versions, 0, sizeof(versions));
    for (uint64_t first = 0; first < 128; first += PUTS_MAX) {
        struct group group = {.count = PUTS_MAX};
        for (uint32_t i = 0; i < PUTS_MAX; i++) {
            group.changes[i] = (struct change){first + i, versions[first + i] = 1};
        }
        assert_int_equal(write_group(store, &group), BASE_OK);
    }
    MDB_txn *txn;
    struct gw_key key = gw_block_key(2);
    MDB_val k = {key.size, key.bytes};
    MDB_val v;
    struct gw_block_view view;
    struct gw_block_room room;
    assert_int_equal(mdb_txn_begin(store->env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_get(txn, store->tables[GW_TABLE_DEVICES], &k, &v), 0);
    assert_true(gw_block_open(k, v, &view));
    assert_true(view.count > 8);
    for (uint32_t i = 0; i < view.count; i++) {
        versions[gw_block_get(&view, i, &room).id] = 0;
    }
    memcpy(bytes, v.mv_data, v.mv_size);
    memset(bytes + 200, 0, 1500);
    v.mv_data = bytes;
    assert_int_equal(mdb_put(txn, store->tables[GW_TABLE_DEVICES], &k, &v, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    gw_store_close(store);
    for (int writes = 0; writes < 2; writes++) {
        const struct gw_store_options options = {
            .dir = dir, .read_only = writes == 0, .no_thread = true};
        struct base_error error = {0};
        assert_int_equal(gw_store_open(&options, &store, &error), BASE_ERR_CORRUPT);
        assert_non_null(strstr(error.text, "salvage --help`"));
    }
    assert_salvaged(versions, 128 - view.count, 1);
}

// Some records, some of them deleted.
static void make_store(uint64_t *versions)
{
    struct gw_store *store = open_store(0, 0, true);
    memset(versions, 0, IDS * sizeof(*versions));
    for (uint64_t version = 1; version <= 2; version++) {
        struct group group = {.count = 20};
        for (uint32_t i = 0; i < group.count; i++) {
            versions[i] = version == 2 && i % 5 == 4 ? 0 : version;
            group.changes[i] = (struct change){i, versions[i]};
        }
        assert_int_equal(write_group(store, &group), BASE_OK);
    }
    gw_store_close(store);
}

// A damaged number is not acted upon, whatever it has become: the file stays as it is, and salvage
// saves every record of it.
static void test_each_bit_of_the_number(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    for (uint32_t bit = 0; bit < 8 * (1 + BASE_SEAL_BYTES); bit++) {
        uint8_t flips[1 + BASE_SEAL_BYTES] = {0};
        flips[bit / 8] = (uint8_t)(1u << bit % 8);
        assert_int_equal(make_dir(NULL), 0);
        make_store(versions);
        (void)change_schema(GW_STORE_SCHEMA, flips);
        assert_damaged();
        assert_int_equal(schema_on_disk(GW_STORE_SCHEMA), GW_STORE_SCHEMA ^ flips[0]);
        struct gw_store *store = open_store(0, 0, true); // put right it is the store it was
        check_all(store, versions);
        gw_store_close(store);
        (void)change_schema(GW_STORE_SCHEMA, flips);
        assert_salvaged(versions, 16, 1);
        assert_int_equal(schema_on_disk(GW_STORE_SCHEMA), GW_STORE_SCHEMA);
        assert_int_equal(remove_dir(NULL), 0);
    }
}

// Of an older store too: what its device records are shows in their keys.
static void test_the_number_of_an_older_store(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    uint8_t flips[1 + BASE_SEAL_BYTES] = {1};
    assert_int_equal(make_dir(NULL), 0);
    make_older(GW_STORE_SCHEMA_LOOSE);
    for (uint64_t id = 0; id < IDS; id++) {
        versions[id] = id == 7 ? 0 : 100 + id;
    }
    assert_int_equal(change_schema(GW_STORE_SCHEMA_LOOSE, flips), GW_STORE_SCHEMA_LOOSE);
    assert_damaged();
    assert_salvaged(versions, IDS, 2); // the rollout instead of the damaged one
    assert_int_equal(remove_dir(NULL), 0);
}

// Rows of now are never taken for records of before, also where the number says so.
static void test_rows_under_an_older_number(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    assert_int_equal(make_dir(NULL), 0);
    make_store(versions);
    assert_int_equal(schema_on_disk(GW_STORE_SCHEMA_LOOSE), GW_STORE_SCHEMA);
    const struct gw_store_options options = {.dir = dir, .no_thread = true};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_ERR_CORRUPT);
    assert_non_null(strstr(error.text, "salvage --help`"));
    assert_int_equal(schema_on_disk(GW_STORE_SCHEMA), GW_STORE_SCHEMA_LOOSE);
    store = open_store(0, 0, true);
    check_all(store, versions);
    assert_int_equal(gw_store_check(store, say, NULL), 0);
    gw_store_close(store);
    assert_int_equal(remove_dir(NULL), 0);
}

// ---- Rows of their own

// A row as stores of schema 5 and 6 have them, damaged at a byte of it, which may be of its id in
// the key; no version: it ends the record.
static void put_row(MDB_txn *txn, MDB_dbi rows, uint64_t row, struct change change, int damage)
{
    uint8_t bytes[VALUE_MAX + 8 + BASE_SEAL_BYTES];
    struct gw_key key = gw_key_u64_u64(row, change.id);
    size_t size = change.version != 0 ? fill(change.id, change.version, bytes) : 0;
    for (unsigned i = 0; i < 8; i++) {
        bytes[size++] = (uint8_t)(change.id >> (56 - 8 * i));
    }
    base_record_seal("devices", (struct base_span){key.bytes, key.size},
                     (struct base_span){bytes, size}, bytes + size);
    MDB_val k = {key.size, key.bytes};
    MDB_val v = {size + BASE_SEAL_BYTES, bytes};
    if (damage > 0) {
        bytes[damage] ^= 1;
    } else if (damage < 0) {
        key.bytes[16] ^= 64;
    }
    assert_int_equal(mdb_put(txn, rows, &k, &v, 0), 0);
}

// A store of such rows: of 30 devices twice, one of them ended, and one damaged in its bytes and
// one in its key, both of whose older rows must not come back.
static void make_rows(uint8_t schema, uint64_t *versions)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi rows;
    char path[96];
    uint64_t row = 0;
    memset(versions, 0, IDS * sizeof(*versions));
    gw_store_close(open_store(0, 0, true));
    assert_int_equal(schema_on_disk(schema), GW_STORE_SCHEMA);
    snprintf(path, sizeof(path), "%s/store.mdb", dir);
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, 64), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "devices", 0, &rows), 0);
    for (uint64_t version = 1; version <= 2; version++) {
        for (uint64_t id = 0; id < 30; id++) {
            const uint64_t now = version == 2 && id == 7 ? 0 : version;
            const int damage = version == 1 ? 0 : id == 11 ? 9 : id == 12 ? -1 : 0;
            put_row(txn, rows, ++row, (struct change){id, now}, damage);
            versions[id] = damage != 0 ? 0 : now;
        }
    }
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

// They become blocks, each device's last row of them; what was damaged stays so.
static void test_rows_become_blocks(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    for (uint8_t schema = GW_STORE_SCHEMA_WIDE; schema <= GW_STORE_SCHEMA_ROWS; schema++) {
        const struct gw_store_options look = {.dir = dir, .read_only = true};
        struct gw_store *store = NULL;
        struct base_error error = {0};
        char before[96];
        assert_int_equal(make_dir(NULL), 0);
        make_rows(schema, versions);
        assert_int_equal(gw_store_open(&look, &store, &error), BASE_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.text, "a gateway rewrites it"));
        store = open_store(0, 0, true);
        for (int turn = 0; turn < 2; turn++) {
            for (uint64_t id = 0; id < IDS; id++) {
                assert_int_equal(version_in(store, id), versions[id]);
            }
            assert_int_equal(gw_store_check(store, say, NULL), 2);
            assert_int_equal(records_in(store), 29); // none for the one that was ended
            gw_store_close(store);
            store = open_store(0, 0, true);
        }
        snprintf(before, sizeof(before), "%s/store.mdb.before-%u", dir, GW_STORE_SCHEMA);
        assert_int_equal(access(before, F_OK), 0);
        assert_int_equal(write_one(store, 11, versions[11] = 5), BASE_OK);
        assert_int_equal(write_one(store, 12, versions[12] = 5), BASE_OK);
        check_all(store, versions);
        assert_int_equal(gw_store_check(store, say, NULL), 0);
        gw_store_close(store);
        assert_int_equal(schema_on_disk(GW_STORE_SCHEMA + 1), GW_STORE_SCHEMA);
        assert_int_equal(gw_store_open(&look, &store, &error), BASE_ERR_UNSUPPORTED);
        assert_int_equal(remove_dir(NULL), 0);
    }
}

// Salvage of such a store leaves the damaged ones behind and brings nothing back.
static void test_rows_are_salvaged(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    assert_int_equal(make_dir(NULL), 0);
    make_rows(GW_STORE_SCHEMA_ROWS, versions);
    assert_salvaged(versions, 27, 2);
    assert_int_equal(remove_dir(NULL), 0);
}

// ---- A process that is killed

#define KILL_IDS   40u
#define KILL_TURNS 8u

static void group_of_turn(uint64_t turn, struct group *out)
{
    *out = (struct group){.count = PUTS_MAX};
    for (uint32_t i = 0; i < PUTS_MAX; i++) {
        uint64_t id = (turn * 7 + i * 3) % KILL_IDS;
        out->changes[i] = (struct change){id, (turn + i) % 11 == 0 ? 0 : turn * PUTS_MAX + i};
    }
}

// Writes groups from a turn on and says each that is durable, until it is killed.
static void write_until_killed(uint64_t turn, int out)
{
    struct gw_store *store = open_store(0, 0, true);
    for (;; turn++) {
        struct group group;
        group_of_turn(turn, &group);
        if (write_group(store, &group) != BASE_OK || write(out, &turn, sizeof(turn)) < 0) {
            _exit(1);
        }
    }
}

// The last turn that it said.
static uint64_t kill_after(uint64_t turn, uint64_t groups)
{
    int ends[2];
    uint64_t last = 0;
    uint64_t said;
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        write_until_killed(turn, ends[1]);
    }
    close(ends[1]);
    for (; groups > 0 && read(ends[0], &said, sizeof(said)) == sizeof(said); groups--) {
        last = said;
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    while (read(ends[0], &said, sizeof(said)) == sizeof(said)) {
        last = said;
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return last;
}

static void add_turn(uint64_t turn, uint64_t *versions)
{
    struct group group;
    group_of_turn(turn, &group);
    for (uint32_t i = 0; i < PUTS_MAX; i++) {
        versions[group.changes[i].id] = group.changes[i].version;
    }
}

// Is the turn after `versions` there, durable and not said any more?
static bool has_next(struct gw_store *store, uint64_t turn, const uint64_t *versions)
{
    static uint64_t next[IDS];
    uint64_t id = 0;
    memcpy(next, versions, sizeof(next));
    add_turn(turn, next);
    while (next[id] == versions[id]) {
        id++;
    }
    return version_in(store, id) == next[id];
}

// While rows are removed and moved: what was said is there, with the group under way or without it.
static void test_killed_while_it_compacts(void **state)
{
    (void)state;
    static uint64_t versions[IDS];
    struct base_prng prng;
    uint64_t turn = 1;
    test_seed(&prng);
    memset(versions, 0, sizeof(versions));
    for (uint32_t i = 0; i < KILL_TURNS; i++) {
        uint64_t last = kill_after(turn, 30 + base_prng_below(&prng, 60));
        assert_true(last >= turn);
        for (; turn <= last; turn++) {
            add_turn(turn, versions);
        }
        struct gw_store *store = open_store(0, 0, true);
        if (has_next(store, turn, versions)) {
            add_turn(turn++, versions);
        }
        check_all(store, versions);
        assert_int_equal(gw_store_check(store, say, NULL), 0);
        assert_true(records_in(store) < 4096);
        gw_store_close(store);
    }
    assert_true(turn * KILL_IDS > 10000); // more rows than are ever kept
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_newest_row),
        cmocka_unit_test(test_key_behind_all_others),
        cmocka_unit_test_setup_teardown(test_block_that_nobody_knows, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_killed_while_it_compacts, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_salvage_brings_nothing_back, make_dir, remove_dir),
        cmocka_unit_test(test_older_schemas_are_rewritten),
        cmocka_unit_test(test_rows_become_blocks),
        cmocka_unit_test(test_rows_are_salvaged),
        cmocka_unit_test(test_each_bit_of_the_number),
        cmocka_unit_test(test_the_number_of_an_older_store),
        cmocka_unit_test(test_rows_under_an_older_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
