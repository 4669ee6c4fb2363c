// What is sound in itself but in the wrong place: two values that changed their keys or tables, two
// keys that changed their places in a page, a separator that parts its children elsewhere, a table
// that counts other records than it has. Each is found before anybody is answered from it.
#include "store/store.h"

#include "base/os/lmdb_pages.h"
#include "base/record_seal.h"
#include "packed_rows.h"
#include "test_kit.h"

#include <lmdb.h>
#include <stdio.h>
#include <unistd.h>

#define DEVICES    3000u
#define ROLLOUTS   8u
#define LONG_BYTES 20000u // on pages of its own
#define PAGE       4096u
#define HEAD       16u
#define META_TREES (HEAD + 24u)
#define TREE_BYTES 48u
#define FLAG_LEAF  2u

static char dir[64];
static char path[96];
static uint8_t *image; // of the sound file
static uint8_t *copy;
static size_t image_bytes;

// ---- The sound store

static enum base_status fill(struct gw_store_txn *txn, struct gw_store_op *op)
{
    static uint8_t value[LONG_BYTES];
    (void)op;
    for (uint64_t id = 0; id < DEVICES + ROLLOUTS; id++) {
        bool device = id < DEVICES;
        struct gw_key key = gw_key_u64(device ? id : id - DEVICES);
        memset(value, (int)(id % 251), sizeof(value));
        BASE_TRY(gw_store_txn_put(txn, device ? GW_TABLE_DEVICES : GW_TABLE_ROLLOUTS, &key, value,
                                  device ? 40 : LONG_BYTES));
    }
    return BASE_OK;
}

static struct gw_store *open_store(void)
{
    const struct gw_store_options options = {
        .dir = dir, .map_bytes_first = 8 << 20, .map_bytes_max = 64 << 20, .commit_delay_us = 1};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    if (gw_store_open(&options, &store, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return store;
}

static void write_file(const uint8_t *bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, image_bytes, file), image_bytes);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    (void)state;
    struct gw_store_op op = {.apply = fill};
    snprintf(dir, sizeof(dir), "/tmp/walle-places-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/store.mdb", dir);
    struct gw_store *store = open_store();
    assert_int_equal(gw_store_submit_wait(store, &op), BASE_OK);
    gw_store_close(store);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    image_bytes = (size_t)ftell(file);
    rewind(file);
    image = malloc(image_bytes);
    copy = malloc(image_bytes);
    assert_int_equal(fread(image, 1, image_bytes, file), image_bytes);
    fclose(file);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    free(image);
    free(copy);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

// ---- Values

static void value_put(MDB_txn *txn, MDB_dbi table, struct gw_key key, MDB_val value)
{
    MDB_val k = {key.size, key.bytes};
    assert_int_equal(mdb_put(txn, table, &k, &value, 0), 0);
}

// Devices 5 and 95 have each other's record, rollout 3 has the value of device 3's block.
static void values_exchange(void)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi devices;
    MDB_dbi rollouts;
    uint8_t bytes[2][PACKED_VALUE_MAX];
    uint8_t fifth[128];
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, BASE_PAGES_TABLES_MAX), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, gw_table_name(GW_TABLE_DEVICES), 0, &devices), 0);
    assert_int_equal(mdb_dbi_open(txn, gw_table_name(GW_TABLE_ROLLOUTS), 0, &rollouts), 0);
    struct packed_record places[2] = {packed_record_of(txn, devices, 5),
                                      packed_record_of(txn, devices, 95)};
    MDB_val values[2];
    for (int i = 0; i < 2; i++) {
        values[i] = packed_value_of(txn, devices, &places[i], bytes[i]);
    }
    assert_int_equal(places[0].size, places[1].size);
    assert_memory_not_equal(places[0].key.bytes, places[1].key.bytes, places[0].key.size);
    memcpy(fifth, bytes[0] + places[0].at, places[0].size);
    memcpy(bytes[0] + places[0].at, bytes[1] + places[1].at, places[1].size);
    memcpy(bytes[1] + places[1].at, fifth, places[0].size);
    for (int i = 0; i < 2; i++) {
        packed_value_put(txn, devices, &places[i], values[i]);
    }
    struct packed_record third = packed_record_of(txn, devices, 3);
    value_put(txn, rollouts, gw_key_u64(3), packed_value_of(txn, devices, &third, bytes[0]));
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

// ---- Groups

struct look_op {
    struct gw_store_op op; // first
    uint64_t rollout;
    enum base_status done;
};

// Writes a device, then looks at a rollout.
static enum base_status look(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct look_op *one = (struct look_op *)self;
    struct gw_key device = gw_key_u64(2 * DEVICES + one->rollout);
    struct gw_key rollout = gw_key_u64(one->rollout);
    struct base_span value;
    BASE_TRY(gw_store_txn_put(txn, GW_TABLE_DEVICES, &device, "abc", 3));
    return gw_store_txn_get(txn, GW_TABLE_ROLLOUTS, &rollout, &value);
}

static void note_done(struct gw_store_op *self, enum base_status status)
{
    ((struct look_op *)self)->done = status;
}

static enum base_status read_one(struct gw_store *store, enum gw_table table, uint64_t id)
{
    struct gw_store_read *read;
    struct gw_key key = gw_key_u64(id);
    assert_int_equal(gw_store_read_begin(store, &read), BASE_OK);
    struct base_span value;
    enum base_status status = gw_store_read_get(read, table, &key, &value);
    gw_store_read_end(read);
    return status;
}

// One request that meets a damaged row fails; who was written with it does not.
static void a_damaged_row_fails_its_operation_alone(void **state)
{
    (void)state;
    struct look_op looks[ROLLOUTS + 1] = {{.rollout = 0}};
    const struct gw_store_options options = {
        .dir = dir, .map_bytes_first = 8 << 20, .map_bytes_max = 64 << 20, .no_thread = true};
    struct gw_store *store = NULL;
    struct gw_store_stats stats;
    struct base_error error = {0};
    write_file(image);
    values_exchange();
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);
    for (uint64_t i = 0; i < TEST_COUNT(looks); i++) {
        looks[i] = (struct look_op){.op = {.apply = look, .done = note_done, .sort_key = i},
                                    .rollout = i,
                                    .done = BASE_ERR_BUSY};
        assert_int_equal(gw_store_submit(store, &looks[i].op), BASE_OK);
    }
    assert_true(gw_store_step(store));
    for (uint64_t i = 0; i < TEST_COUNT(looks); i++) {
        enum base_status wanted = i == 3          ? BASE_ERR_CORRUPT
                                  : i == ROLLOUTS ? BASE_ERR_NOT_FOUND // its own, as ever
                                                  : BASE_OK;
        assert_int_equal(looks[i].done, wanted);
        assert_int_equal(read_one(store, GW_TABLE_DEVICES, 2 * DEVICES + i),
                         i == 3 ? BASE_ERR_NOT_FOUND : BASE_OK);
    }
    gw_store_stats(store, &stats);
    assert_int_equal(stats.failed_groups, 0);
    gw_store_close(store);
}

static void values_under_other_keys(void **state)
{
    (void)state;
    struct gw_store_stats stats;
    struct base_error error = {0};
    uint64_t copied = 0;
    write_file(image);
    values_exchange();
    struct gw_store *store = open_store();
    assert_int_equal(read_one(store, GW_TABLE_DEVICES, 3), BASE_OK);
    assert_int_equal(read_one(store, GW_TABLE_DEVICES, 5), BASE_ERR_NOT_FOUND);
    assert_int_equal(read_one(store, GW_TABLE_DEVICES, 95), BASE_ERR_NOT_FOUND);
    assert_int_equal(read_one(store, GW_TABLE_ROLLOUTS, 3), BASE_ERR_CORRUPT);
    assert_int_equal(read_one(store, GW_TABLE_ROLLOUTS, 4), BASE_OK);
    gw_store_stats(store, &stats);
    assert_int_equal(stats.damaged, 3);
    gw_store_close(store);
    assert_int_equal(gw_store_salvage(dir, NULL, NULL, &copied, &error), BASE_OK);
    assert_int_equal(copied, DEVICES + ROLLOUTS - 3);
}

// Table, key and bytes: each is in the seal, and where one ends and the next begins.
static void seals(void **state)
{
    (void)state;
    static const struct {
        const char *table, *key, *bytes;
    } others[] = {{"two", "key", "bytes"}, {"one", "kez", "bytes"}, {"one", "key", "bytez"},
                  {"onek", "ey", "bytes"}, {"one", "keyb", "ytes"}, {"", "key", "bytes"},
                  {"one", "", "bytes"}};
    uint8_t sealed[5 + BASE_SEAL_BYTES] = "bytes";
    struct base_span out;
    const struct base_span key = {(const uint8_t *)"key", 3};
    base_record_seal("one", key, (struct base_span){sealed, 5}, sealed + 5);
    assert_int_equal(
        base_record_unseal("one", key, (struct base_span){sealed, sizeof(sealed)}, &out), BASE_OK);
    assert_int_equal(out.size, 5);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        uint8_t other[8 + BASE_SEAL_BYTES];
        size_t size = strlen(others[i].bytes);
        memcpy(other, others[i].bytes, size);
        memcpy(other + size, sealed + 5, BASE_SEAL_BYTES);
        assert_int_equal(base_record_unseal(others[i].table,
                                            (struct base_span){(const uint8_t *)others[i].key,
                                                               strlen(others[i].key)},
                                            (struct base_span){other, size + BASE_SEAL_BYTES},
                                            &out),
                         BASE_ERR_CORRUPT);
    }
    assert_int_equal(base_record_unseal("one", key, (struct base_span){sealed, 7}, &out),
                     BASE_ERR_CORRUPT);
}

// ---- Pages

static uint16_t u16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint8_t *node_at(uint8_t *page, uint32_t index)
{
    return page + u16(page + HEAD + 2 * index);
}

static uint32_t node_count(const uint8_t *page)
{
    return (u16(page + 12) - HEAD) / 2u;
}

// What the newest state says of a table: depth, counts, root (struct MDB_db of LMDB).
static uint8_t *tree_of(const char *table)
{
    uint64_t txn[2];
    for (uint32_t i = 0; i < 2; i++) {
        txn[i] = u64(copy + i * PAGE + META_TREES + 2 * TREE_BYTES + 8);
    }
    uint8_t *meta = copy + (txn[1] > txn[0] ? PAGE : 0);
    uint8_t *page = copy + u64(meta + META_TREES + TREE_BYTES + 40) * PAGE;
    assert_true((u16(page + 10) & FLAG_LEAF) != 0);
    for (uint32_t i = 0; i < node_count(page); i++) {
        uint8_t *node = node_at(page, i);
        if (u16(node + 6) == strlen(table) && memcmp(node + 8, table, strlen(table)) == 0) {
            return node + 8 + strlen(table);
        }
    }
    fail_msg("no table %s", table);
    return NULL;
}

static uint8_t *root_of(const char *table)
{
    uint8_t *tree = tree_of(table);
    assert_int_equal(u16(tree + 6), 2); // a branch over leaves
    return copy + u64(tree + 40) * PAGE;
}

static uint8_t *leaf_of(const char *table, uint32_t index)
{
    const uint8_t *node = node_at(root_of(table), index);
    uint64_t page = u16(node) | (uint64_t)u16(node + 2) << 16 | (uint64_t)u16(node + 4) << 32;
    return copy + page * PAGE;
}

static void exchange(uint8_t *page, uint32_t one, uint32_t other)
{
    uint8_t *a = page + HEAD + 2 * one;
    uint8_t *b = page + HEAD + 2 * other;
    uint8_t kept[2] = {a[0], a[1]};
    memcpy(a, b, 2);
    memcpy(b, kept, 2);
}

static void keys_exchanged(void)
{
    exchange(leaf_of("devices", 3), 0, 1);
}

static void key_twice(void)
{
    uint8_t *leaf = leaf_of("devices", 3);
    memcpy(node_at(leaf, 1) + 8, node_at(leaf, 0) + 8, u16(node_at(leaf, 0) + 6));
}

static void children_exchanged(void)
{
    exchange(root_of("devices"), 2, 3);
}

// The byte of a block's number from its end, in a node's key. They are big-endian: blocks move by
// as much.
static uint8_t *number_end(uint8_t *page, uint32_t index, uint32_t from_end)
{
    uint8_t *node = node_at(page, index);
    return node + 8 + u16(node + 6) - from_end;
}

static void separator_above_its_child(void)
{
    ++*number_end(root_of("devices"), 2, 1);
}

static void separator_below_the_last_key(void)
{
    --*number_end(root_of("devices"), 2, 1); // it is the last of the page before then
}

static void last_key_above_the_next_page(void)
{
    uint8_t *leaf = leaf_of("devices", 3);
    ++*number_end(leaf, node_count(leaf) - 1, 2);
}

static void count_up(const char *table, size_t offset)
{
    uint8_t *at = tree_of(table) + offset;
    uint64_t count = u64(at) + 1;
    memcpy(at, &count, sizeof(count));
}

static void branches_more(void)
{
    count_up("devices", 8);
}

static void leaves_more(void)
{
    count_up("devices", 16);
}

static void long_pages_more(void)
{
    count_up("rollouts", 24);
}

static void records_more(void)
{
    count_up("devices", 32);
}

static void nothing(void)
{
}

static void pages_out_of_place(void **state)
{
    (void)state;
    static const struct {
        void (*damage)(void);
        const char *says; // NULL: it is sound
    } cases[] = {
        {nothing, NULL},
        {keys_exchanged, "devices: a key is out of order"},
        {key_twice, "devices: a key is out of order"},
        {children_exchanged, "devices: a branch is out of order"},
        {separator_above_its_child, "devices: a key is out of order"},
        {separator_below_the_last_key, "devices: a branch is out of order"},
        {last_key_above_the_next_page, "devices: a branch is out of order"},
        {records_more, "devices: 82 records, but 83 are counted"},
        {branches_more, "devices: 1 branches, but 2 are counted"},
        {leaves_more, "leaves, but"},
        {long_pages_more, "pages of long records, but"},
    };
    static const struct base_pages_visitor nobody = {NULL, NULL, NULL};
    const struct base_pages_file file = {.path = path, .name = "store.mdb"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct base_error error = {.status = BASE_OK};
        memcpy(copy, image, image_bytes);
        cases[i].damage();
        write_file(copy);
        enum base_status status = base_pages_walk(&file, &nobody, &error);
        if (status != (cases[i].says == NULL ? BASE_OK : BASE_ERR_CORRUPT) ||
            (cases[i].says != NULL && strstr(error.text, cases[i].says) == NULL)) {
            fail_msg("case %zu: %s, '%s'", i, base_status_name(status), error.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_under_other_keys),
        cmocka_unit_test(a_damaged_row_fails_its_operation_alone),
        cmocka_unit_test(seals),
        cmocka_unit_test(pages_out_of_place),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
