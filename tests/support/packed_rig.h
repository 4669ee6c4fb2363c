// Device records for tests of the packed table: ids with versions, written in groups and read back.
#ifndef PACKED_RIG_H
#define PACKED_RIG_H

#include "store/store_private.h"

#include "base/check.h"
#include "test_kit.h"

#include <unistd.h>

#define IDS       600u
#define VALUE_MAX 300u
#define PUTS_MAX  64u

static char dir[64];

static inline int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/walle-packed-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static inline int remove_dir(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static inline struct gw_store *open_store(uint64_t first, uint64_t max, bool no_thread)
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

static inline size_t fill(uint64_t id, uint64_t version, uint8_t *out)
{
    size_t size = 16 + (size_t)((id * 7 + version * 13) % (VALUE_MAX - 16));
    memcpy(out, &id, 8);
    memcpy(out + 8, &version, 8);
    memset(out + 16, (int)((id + version) & 0xff), size - 16);
    return size;
}

// The version of a record, all of it looked at.
static inline uint64_t version_of(uint64_t id, struct base_span value)
{
    uint8_t expected[VALUE_MAX];
    uint64_t version = 0;
    assert_true(value.size >= 16);
    memcpy(&version, value.data + 8, 8);
    assert_int_equal(fill(id, version, expected), value.size);
    assert_memory_equal(expected, value.data, value.size);
    return version;
}

static inline enum base_status apply(struct gw_store_txn *txn, struct gw_store_op *self)
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

static inline enum base_status write_group(struct gw_store *store, struct group *group)
{
    group->op.apply = apply;
    return gw_store_submit_wait(store, &group->op);
}

static inline enum base_status write_one(struct gw_store *store, uint64_t id, uint64_t version)
{
    struct group group = {.changes = {{id, version}}, .count = 1};
    return write_group(store, &group);
}

// ---- What is read

static inline enum base_status read_version(struct gw_store *store, uint64_t id, uint64_t *out)
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

static inline uint64_t version_in(struct gw_store *store, uint64_t id)
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

static inline bool see(void *ctx, struct base_span key, struct base_span value)
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

static inline void check_all(struct gw_store *store, const uint64_t *versions)
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

// Records in the table, dead ones and ends among them, by the counts of its blocks.
static inline uint64_t records_in(struct gw_store *store)
{
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_val k;
    MDB_val v;
    uint64_t count = 0;
    assert_int_equal(mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn), 0);
    assert_int_equal(mdb_cursor_open(txn, store->tables[GW_TABLE_DEVICES], &cursor), 0);
    while (mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) {
        struct gw_block_view view;
        assert_true(gw_block_open(k, v, &view));
        assert_true(view.whole && gw_block_ids_right(&view));
        count += view.count;
    }
    mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    assert_int_equal(count, store->packed.records);
    return count;
}

static inline void say(void *ctx, const char *text)
{
    (void)ctx;
    print_message("  %s\n", text);
}

#endif
