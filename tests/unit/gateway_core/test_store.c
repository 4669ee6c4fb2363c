// The store: groups, growth, full maps, blobs on disk, locks, schema.
#include "store/store.h"

#include "base/record_seal.h"

#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/walle-store-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static struct gw_store *open_store(uint64_t first, uint64_t max)
{
    struct gw_store_options options = {
        .dir = dir, .map_bytes_first = first, .map_bytes_max = max, .commit_delay_us = 1};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);
    return store;
}

struct put {
    struct gw_store_op op;
    uint64_t id;
    size_t size;
    enum base_status refuse; // apply says so before its first put
};

static enum base_status put_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct put *put = (struct put *)self;
    static _Thread_local uint8_t value[4096];
    if (put->refuse != BASE_OK) {
        return put->refuse;
    }
    memset(value, (int)(put->id & 0xff), put->size);
    struct gw_key key = gw_key_u64(put->id);
    return gw_store_txn_put(txn, GW_TABLE_DEVICES, &key, value, put->size);
}

static enum base_status put_wait(struct gw_store *store, uint64_t id, size_t size)
{
    struct put put = {.id = id, .size = size};
    put.op.apply = put_apply;
    put.op.sort_key = id;
    return gw_store_submit_wait(store, &put.op);
}

static bool has(struct gw_store *store, uint64_t id, size_t size)
{
    struct gw_store_read *read;
    struct base_span value;
    struct gw_key key = gw_key_u64(id);
    assert_int_equal(gw_store_read_begin(store, &read), BASE_OK);
    enum base_status status = gw_store_read_get(read, GW_TABLE_DEVICES, &key, &value);
    bool there = status == BASE_OK && value.size == size && value.data[0] == (uint8_t)id;
    gw_store_read_end(read);
    return there;
}

static void test_put_get_restart(void **state)
{
    (void)state;
    struct gw_store *store = open_store(0, 0);
    for (uint64_t i = 1; i <= 50; i++) {
        assert_int_equal(put_wait(store, i, 100), BASE_OK);
    }
    assert_true(has(store, 50, 100));
    assert_false(has(store, 51, 100));
    gw_store_close(store);
    store = open_store(0, 0);
    assert_true(has(store, 1, 100));
    assert_int_equal(gw_store_check(store, NULL, NULL), 0);
    gw_store_close(store);
}

static void test_map_grows_under_readers(void **state)
{
    (void)state;
    struct gw_store *store = open_store(256 * 1024, 64u << 20);
    for (uint64_t i = 1; i <= 2000; i++) {
        assert_int_equal(put_wait(store, i, 3000), BASE_OK);
        assert_true(has(store, i, 3000));
    }
    struct gw_store_stats stats;
    gw_store_stats(store, &stats);
    assert_true(stats.growths >= 4);
    assert_true(stats.map_bytes > 4u << 20);
    for (uint64_t i = 1; i <= 2000; i++) {
        assert_true(has(store, i, 3000));
    }
    gw_store_close(store);
}

static void test_full_map_is_an_error_and_nothing_else(void **state)
{
    (void)state;
    struct gw_store *store = open_store(256 * 1024, 512 * 1024);
    uint64_t i = 1;
    enum base_status status = BASE_OK;
    while (status == BASE_OK && i < 10000) {
        status = put_wait(store, i, 3000);
        i += status == BASE_OK;
    }
    assert_int_equal(status, BASE_ERR_FULL);
    assert_true(i > 20);
    assert_true(has(store, i - 1, 3000));
    assert_false(has(store, i, 3000));
    assert_int_equal(put_wait(store, i, 3000), BASE_ERR_FULL);
    gw_store_close(store);
    // With more room it goes on.
    store = open_store(0, 0);
    assert_true(has(store, i - 1, 3000));
    assert_int_equal(put_wait(store, i, 3000), BASE_OK);
    assert_int_equal(gw_store_check(store, NULL, NULL), 0);
    gw_store_close(store);
}

// A disk without room, by a limit on the size of files: writes past it fail as a full disk's do.
static void test_full_disk(void **state)
{
    (void)state;
    struct gw_store *store = open_store(64u << 20, 64u << 20);
    struct rlimit limit;
    struct rlimit small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 1u << 20;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    uint64_t i = 1;
    enum base_status status = BASE_OK;
    while (status == BASE_OK && i < 10000) {
        status = put_wait(store, i, 3000);
        i += status == BASE_OK;
    }
    uint8_t *large = calloc(1, 2u << 20);
    assert_non_null(large);
    struct wire_sha256 digest;
    bool created;
    gw_sha256(large, 2u << 20, &digest);
    enum base_status blob_status = gw_store_blob_put(store, &digest, large, 2u << 20, &created);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, BASE_ERR_FULL);
    assert_int_equal(blob_status, BASE_ERR_FULL);
    assert_true(i > 20);
    // There is room again: it goes on where it was.
    assert_true(has(store, i - 1, 3000));
    assert_false(has(store, i, 3000));
    assert_int_equal(put_wait(store, i, 3000), BASE_OK);
    assert_int_equal(gw_store_blob_put(store, &digest, large, 2u << 20, &created), BASE_OK);
    free(large);
    gw_store_close(store);
    store = open_store(0, 0);
    assert_true(has(store, i, 3000));
    assert_int_equal(gw_store_check(store, NULL, NULL), 0);
    gw_store_close(store);
}

// ---- Many threads

struct poster {
    struct gw_store *store;
    uint64_t base;
    struct put puts[500];
};

static _Atomic uint32_t done_ok;
static _Atomic uint32_t done_refused;
static _Atomic uint32_t done_other;

static void count_done(struct gw_store_op *self, enum base_status status)
{
    (void)self;
    if (status == BASE_OK) {
        done_ok++;
    } else if (status == BASE_ERR_CONFLICT) {
        done_refused++;
    } else {
        done_other++;
    }
}

static void *post_many(void *arg)
{
    struct poster *poster = arg;
    for (uint32_t i = 0; i < 500; i++) {
        struct put *put = &poster->puts[i];
        memset(put, 0, sizeof(*put));
        put->op.apply = put_apply;
        put->op.done = count_done;
        put->id = poster->base + i;
        put->op.sort_key = put->id;
        put->size = 64;
        put->refuse = i % 10 == 3 ? BASE_ERR_CONFLICT : BASE_OK;
        while (gw_store_submit(poster->store, &put->op) == BASE_ERR_BUSY) {
            usleep(100);
        }
        if (i % 50 == 0) {
            (void)has(poster->store, put->id, 64);
        }
    }
    return NULL;
}

static void test_groups_and_refusals(void **state)
{
    (void)state;
    struct gw_store *store = open_store(128 * 1024, 0);
    pthread_t threads[4];
    static struct poster posters[4];
    done_ok = 0;
    done_refused = 0;
    done_other = 0;
    for (uint64_t i = 0; i < 4; i++) {
        posters[i].store = store;
        posters[i].base = 1 + i * 1000;
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    gw_store_close(store); // commits what was accepted
    assert_int_equal(done_ok, 4 * 450);
    assert_int_equal(done_refused, 4 * 50); // one that refuses does not harm its group
    assert_int_equal(done_other, 0);
    store = open_store(0, 0);
    for (uint64_t i = 0; i < 4; i++) {
        for (uint64_t k = 0; k < 500; k++) {
            assert_int_equal(has(store, 1 + i * 1000 + k, 64), k % 10 != 3);
        }
    }
    gw_store_close(store);
}

struct follower {
    struct put put; // first
    struct gw_store *store;
    struct follower *next; // posted by the writer when this one is done
    sem_t *done;
};

static void follower_done(struct gw_store_op *self, enum base_status status)
{
    struct follower *follower = (struct follower *)self;
    assert_int_equal(status, BASE_OK);
    if (follower->next != NULL) {
        assert_int_equal(gw_store_submit(follower->store, &follower->next->put.op), BASE_OK);
    }
    sem_post(follower->done);
}

// What comes while a group is written waits for company as what comes to a writer that sleeps.
static void test_company_is_waited_for_behind_a_group(void **state)
{
    (void)state;
    struct gw_store_options options = {.dir = dir,
                                       .commit_delay_us = UINT32_MAX}; // more than an hour
    struct gw_store *store = NULL;
    struct base_error error = {0};
    struct gw_store_stats before;
    struct gw_store_stats after;
    sem_t done;
    assert_int_equal(sem_init(&done, 0, 0), 0);
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);
    struct follower three[3];
    for (uint64_t i = 0; i < 3; i++) {
        three[i] = (struct follower){.put = {.id = 1 + i, .size = 100}, .store = store};
        three[i].done = &done;
        three[i].put.op.apply = put_apply;
        three[i].put.op.done = follower_done;
    }
    three[0].put.op.urgent = true;
    three[0].next = &three[1];
    gw_store_stats(store, &before);
    assert_int_equal(gw_store_submit(store, &three[0].put.op), BASE_OK);
    assert_int_equal(sem_wait(&done), 0);
    assert_int_equal(gw_store_submit(store, &three[2].put.op), BASE_OK);
    assert_int_equal(put_wait(store, 4, 100), BASE_OK); // urgent: they all go
    gw_store_stats(store, &after);
    assert_int_equal(after.operations - before.operations, 4);
    assert_int_equal(after.commits - before.commits, 2);
    gw_store_close(store);
    sem_destroy(&done);
}

// ---- Blobs

// One thread: nothing is written before somebody asks for it, and closing does.
static void test_without_a_thread(void **state)
{
    (void)state;
    struct gw_store_options options = {.dir = dir, .no_thread = true};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    struct put puts[3] = {{.id = 1, .size = 100}, {.id = 2, .size = 100}, {.id = 4, .size = 100}};
    done_ok = 0;
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);
    for (uint32_t i = 0; i < 3; i++) {
        puts[i].op.apply = put_apply;
        puts[i].op.done = count_done;
    }
    assert_false(gw_store_step(store));
    assert_int_equal(gw_store_submit(store, &puts[0].op), BASE_OK);
    assert_false(has(store, 1, 100));
    assert_true(gw_store_step(store));
    assert_true(has(store, 1, 100) && done_ok == 1);
    assert_false(gw_store_step(store));
    assert_int_equal(gw_store_submit(store, &puts[1].op), BASE_OK);
    assert_int_equal(put_wait(store, 3, 100), BASE_OK); // with what came before
    assert_true(has(store, 2, 100) && has(store, 3, 100) && done_ok == 2);
    assert_int_equal(gw_store_submit(store, &puts[2].op), BASE_OK);
    gw_store_close(store);
    assert_int_equal(done_ok, 3);
    store = open_store(0, 0);
    assert_true(has(store, 4, 100));
    assert_false(gw_store_step(store)); // its writer's
    gw_store_close(store);
}

static void test_blobs(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, 1000, GW_STORE_BLOB_INLINE, GW_STORE_BLOB_INLINE + 1, 3 * 1024 * 1024};
    struct gw_store *store = open_store(0, 0);
    struct wire_sha256 digests[6];
    for (size_t i = 0; i < 6; i++) {
        uint8_t *bytes = malloc(sizes[i] + 1);
        struct gw_store_bytes loaded;
        bool created;
        uint64_t size;
        assert_non_null(bytes);
        memset(bytes, (int)i + 1, sizes[i] + 1);
        gw_sha256(bytes, sizes[i], &digests[i]);
        assert_int_equal(gw_store_blob_load(store, &digests[i], &loaded), BASE_ERR_NOT_FOUND);
        assert_int_equal(gw_store_blob_put(store, &digests[i], bytes, sizes[i], &created), BASE_OK);
        assert_true(created);
        assert_int_equal(gw_store_blob_put(store, &digests[i], bytes, sizes[i], &created), BASE_OK);
        assert_false(created);
        assert_int_equal(gw_store_blob_load(store, &digests[i], &loaded), BASE_OK);
        assert_int_equal(loaded.size, sizes[i]);
        assert_memory_equal(loaded.data, bytes, sizes[i]);
        assert_int_equal(loaded.map != NULL, sizes[i] > GW_STORE_BLOB_INLINE);
        gw_store_bytes_done(&loaded);
        assert_int_equal(gw_store_blob_stat(store, &digests[i], &size), BASE_OK);
        assert_int_equal(size, sizes[i]);
        free(bytes);
    }
    assert_int_equal(gw_store_check(store, NULL, NULL), 0);
    // A damaged file is found.
    char hex[WIRE_SHA256_HEX + 1];
    char path[256];
    wire_sha256_hex(&digests[5], hex);
    snprintf(path, sizeof(path), "%s/blobs/%.2s/%s", dir, hex, hex);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "x", 1, 1000), 1);
    close(fd);
    assert_int_equal(gw_store_check(store, NULL, NULL), 1);
    assert_int_equal(truncate(path, 5), 0);
    struct gw_store_bytes loaded;
    assert_int_equal(gw_store_blob_load(store, &digests[5], &loaded), BASE_ERR_CORRUPT);
    gw_store_close(store);
}

#define LARGE ((size_t)1 << 20)

// Content of that byte alone.
static struct wire_sha256 put_held(struct gw_store *store, uint32_t holder, int byte, size_t size)
{
    static uint8_t bytes[LARGE];
    bool created = false;
    struct gw_store_item item = {.bytes = bytes, .size = size};
    memset(bytes, byte, size);
    gw_sha256(bytes, size, &item.digest);
    assert_int_equal(holder == GW_STORE_NOBODY
                         ? gw_store_blob_put(store, &item.digest, bytes, size, &created)
                         : gw_store_blob_put_exclusive(store, holder, &item, &created),
                     BASE_OK);
    assert_true(created);
    return item.digest;
}

static bool on_disk(const struct wire_sha256 *digest)
{
    char hex[WIRE_SHA256_HEX + 1];
    char path[256];
    wire_sha256_hex(digest, hex);
    snprintf(path, sizeof(path), "%s/blobs/%.2s/%s", dir, hex, hex);
    return access(path, F_OK) == 0;
}

static bool count_held(void *ctx, const struct wire_sha256 *digest)
{
    (void)digest;
    (*(uint32_t *)ctx)++;
    return true;
}

static uint32_t held_by(struct gw_store *store, uint32_t holder)
{
    uint32_t count = 0;
    assert_int_equal(gw_store_blobs_held(store, holder, count_held, &count), BASE_OK);
    return count;
}

static void test_a_blob_goes_with_its_last_holder(void **state)
{
    (void)state;
    struct gw_store *store = open_store(0, 0);
    static const size_t sizes[] = {100, LARGE};
    static const uint32_t holders[] = {0, 5, 0x10000, UINT32_MAX - 1};
    uint64_t size;
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < 4; k++) { // and what the others have of other content is no matter
            (void)put_held(store, holders[k], 10 + i * 4 + (int)k, sizes[i]);
        }
        struct wire_sha256 digest = put_held(store, holders[0], 1 + i, sizes[i]);
        for (size_t k = 1; k < 4; k++) {
            (void)put_held(store, holders[k], 1 + i, sizes[i]);
        }
        for (size_t k = 4; k-- > 0;) {
            assert_int_equal(gw_store_blob_stat(store, &digest, &size), BASE_OK);
            assert_int_equal(on_disk(&digest), i);
            assert_int_equal(gw_store_blob_drop(store, holders[k], &digest), BASE_OK);
            assert_int_equal(gw_store_blob_drop(store, holders[k], &digest), BASE_ERR_NOT_FOUND);
            assert_int_equal(held_by(store, holders[k]), i + 1);
        }
        assert_int_equal(gw_store_blob_stat(store, &digest, &size), BASE_ERR_NOT_FOUND);
        assert_false(on_disk(&digest));
        (void)put_held(store, 5, 1 + i, sizes[i]); // it may come back
        (void)put_held(store, GW_STORE_NOBODY, 1 + i, sizes[i]);
        assert_int_equal(gw_store_blob_drop(store, 5, &digest), BASE_OK);
        assert_int_equal(gw_store_blob_stat(store, &digest, &size), BASE_OK); // everybody's
        assert_int_equal(on_disk(&digest), i);
    }
    assert_int_equal(gw_store_check(store, NULL, NULL), 0);
    gw_store_close(store);
}

struct unrow {
    struct gw_store_op op;
    struct gw_key key;
};

static enum base_status unrow_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    return gw_store_txn_delete(txn, GW_TABLE_BLOBS, &((struct unrow *)self)->key);
}

// A kill after the row went and before the file did.
static void test_a_drop_is_ended_by_another(void **state)
{
    (void)state;
    struct gw_store *store = open_store(0, 0);
    struct wire_sha256 digest = put_held(store, 7, 1, LARGE);
    struct unrow unrow = {.op.apply = unrow_apply, .key = gw_key_sha(&digest)};
    assert_int_equal(gw_store_submit_wait(store, &unrow.op), BASE_OK);
    gw_store_close(store);
    store = open_store(0, 0);
    assert_int_equal(gw_store_check(store, NULL, NULL), 0);
    assert_int_equal(held_by(store, 7), 1);
    assert_int_equal(gw_store_blob_drop(store, 7, &digest), BASE_OK);
    assert_int_equal(held_by(store, 7), 0);
    assert_false(on_disk(&digest));
    gw_store_close(store);
}

static void test_leftovers_are_removed(void **state)
{
    (void)state;
    gw_store_close(open_store(0, 0));
    char path[128];
    snprintf(path, sizeof(path), "%s/tmp/half", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    gw_store_close(open_store(0, 0));
    assert_int_equal(access(path, F_OK), -1);
}

static void test_one_process_at_a_time(void **state)
{
    (void)state;
    struct gw_store *store = open_store(0, 0);
    struct gw_store_options options = {.dir = dir};
    struct gw_store *second = NULL;
    struct base_error error = {0};
    assert_int_equal(gw_store_open(&options, &second, &error), BASE_ERR_BUSY);
    assert_non_null(strstr(error.text, dir));
    gw_store_close(store);
    store = open_store(0, 0);
    gw_store_close(store);
}

// Opens the store's file as another version of the program would.
static MDB_env *open_raw(const char *table, MDB_txn **out_txn, MDB_dbi *out_dbi)
{
    MDB_env *env;
    char path[128];
    snprintf(path, sizeof(path), "%s/store.mdb", dir);
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, GW_TABLE_COUNT), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, out_txn), 0);
    assert_int_equal(mdb_dbi_open(*out_txn, table, 0, out_dbi), 0);
    return env;
}

// A store from before there was such a table can be looked at, without a change to it.
static void test_younger_table_is_empty(void **state)
{
    (void)state;
    struct gw_store *store = open_store(0, 0);
    assert_int_equal(put_wait(store, 1, 100), BASE_OK);
    gw_store_close(store);
    MDB_txn *txn;
    MDB_dbi past;
    MDB_env *env = open_raw(gw_table_name(GW_TABLE_PAST), &txn, &past);
    assert_int_equal(mdb_drop(txn, past, 1), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    struct gw_store_options options = {.dir = dir, .read_only = true};
    struct base_error error = {0};
    struct gw_store_read *read;
    struct base_span value;
    struct gw_key key = gw_key_u64(1);
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);
    assert_true(has(store, 1, 100));
    assert_int_equal(gw_store_check(store, NULL, NULL), 0);
    assert_int_equal(gw_store_read_begin(store, &read), BASE_OK);
    assert_int_equal(gw_store_read_count(read, GW_TABLE_PAST), 0);
    assert_int_equal(gw_store_read_get(read, GW_TABLE_PAST, &key, &value), BASE_ERR_NOT_FOUND);
    assert_int_equal(gw_store_read_scan(read, GW_TABLE_PAST, &key, NULL, NULL), BASE_OK);
    gw_store_read_end(read);
    gw_store_close(store);
    gw_store_close(open_store(0, 0)); // which makes it
}

struct scan {
    struct gw_store_op op;
    uint64_t ids[8];
    uint32_t count;
    uint32_t limit;
};

static bool scan_visit(void *ctx, struct base_span key, struct base_span value)
{
    struct scan *scan = ctx;
    assert_int_equal(value.size, 100);
    assert_true(gw_key_read_u64(key.data, key.size, 0, &scan->ids[scan->count]));
    return ++scan->count < scan->limit;
}

static enum base_status scan_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    uint8_t value[100] = {0};
    struct gw_key key = gw_key_u64(3);
    BASE_TRY(gw_store_txn_put(txn, GW_TABLE_DEVICES, &key, value, sizeof(value)));
    return gw_store_txn_scan(txn, GW_TABLE_DEVICES, &key, scan_visit, self);
}

// A scan within a write sees what the write did, from its key on, until it is told to end.
static void test_scan_within_a_write(void **state)
{
    (void)state;
    static const uint64_t all[] = {3, 4, 6};
    struct gw_store *store = open_store(0, 0);
    assert_int_equal(put_wait(store, 2, 100), BASE_OK);
    assert_int_equal(put_wait(store, 4, 100), BASE_OK);
    assert_int_equal(put_wait(store, 6, 100), BASE_OK);
    for (uint32_t limit = 1; limit <= 4; limit++) {
        struct scan scan = {.op = {.apply = scan_apply}, .limit = limit};
        assert_int_equal(gw_store_submit_wait(store, &scan.op), BASE_OK);
        assert_int_equal(scan.count, limit < 3 ? limit : 3);
        assert_memory_equal(scan.ids, all, scan.count * sizeof(all[0]));
    }
    gw_store_close(store);
}

// Writes a schema number that this program does not know, as a later version would.
static void test_other_schema_is_refused(void **state)
{
    (void)state;
    gw_store_close(open_store(0, 0));
    MDB_txn *txn;
    MDB_dbi meta;
    MDB_env *env = open_raw("meta", &txn, &meta);
    struct gw_key key = gw_key_text("schema");
    uint8_t value[1 + BASE_SEAL_BYTES] = {GW_STORE_SCHEMA + 1};
    base_record_seal("meta", (struct base_span){key.bytes, key.size}, (struct base_span){value, 1},
                     value + 1);
    MDB_val k = {key.size, key.bytes};
    MDB_val v = {sizeof(value), value};
    assert_int_equal(mdb_put(txn, meta, &k, &v, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    struct gw_store_options options = {.dir = dir};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_ERR_UNSUPPORTED);
    char wanted[32];
    (void)snprintf(wanted, sizeof(wanted), "schema %u", GW_STORE_SCHEMA + 1);
    assert_non_null(strstr(error.text, wanted));
}

static void test_bad_directories(void **state)
{
    (void)state;
    static const char *const dirs[] = {"", "/proc/nothing/here", "/dev/null/x"};
    for (size_t i = 0; i < 3; i++) {
        struct gw_store_options options = {.dir = dirs[i]};
        struct gw_store *store = NULL;
        struct base_error error = {0};
        assert_int_not_equal(gw_store_open(&options, &store, &error), BASE_OK);
        assert_true(error.text[0] != 0);
    }
}

static void test_compact(void **state)
{
    (void)state;
    struct gw_store *store = open_store(0, 0);
    for (uint64_t i = 1; i <= 200; i++) {
        assert_int_equal(put_wait(store, i, 1000), BASE_OK);
    }
    char into[128];
    struct base_error error = {0};
    snprintf(into, sizeof(into), "%s/copy", dir);
    assert_int_equal(mkdir(into, 0700), 0);
    char copy[160];
    snprintf(copy, sizeof(copy), "%s/other", into);
    assert_int_equal(gw_store_compact(store, copy, &error), BASE_ERR_IO);
    int other = open(copy, O_WRONLY | O_CREAT, 0600); // whatever it is
    assert_true(other >= 0);
    assert_int_equal(close(other), 0);
    assert_int_equal(gw_store_compact(store, into, &error), BASE_ERR_EXISTS);
    assert_non_null(strstr(error.text, "is not empty, it has other: compact writes into an empty"));
    assert_int_equal(unlink(copy), 0);
    assert_int_equal(gw_store_compact(store, into, &error), BASE_OK);
    assert_int_equal(gw_store_compact(store, into, &error), BASE_ERR_EXISTS);
    struct stat about;
    snprintf(copy, sizeof(copy), "%s/store.mdb", into);
    assert_int_equal(stat(copy, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    gw_store_close(store);
    struct gw_store_options options = {.dir = into, .read_only = true};
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);
    assert_true(has(store, 200, 1000));
    struct put put = {.id = 1, .size = 1};
    put.op.apply = put_apply;
    assert_int_equal(gw_store_submit_wait(store, &put.op), BASE_ERR_CLOSED);
    gw_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_get_restart, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_map_grows_under_readers, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_full_map_is_an_error_and_nothing_else, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(test_full_disk, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_groups_and_refusals, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_company_is_waited_for_behind_a_group, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(test_without_a_thread, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_blobs, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_a_blob_goes_with_its_last_holder, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(test_a_drop_is_ended_by_another, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_leftovers_are_removed, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_one_process_at_a_time, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_other_schema_is_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_younger_table_is_empty, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_scan_within_a_write, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_bad_directories, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_compact, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
