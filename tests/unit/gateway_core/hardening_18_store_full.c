// A store without room: whoever posts is told, and the log says it once when it begins and once
// when it is over.
#include "store/store.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUE_BYTES 3000u
#define LARGE_BYTES 100000u // pages of their own, written at once
#define PUTS        40u     // that find no room, in groups of their own

struct lines {
    unsigned begins;
    unsigned ends;
    bool named;
};

static void keep(void *ctx, enum base_log_level level, const char *area, const char *text)
{
    struct lines *lines = ctx;
    (void)area;
    if (strstr(text, "has no room") != NULL) {
        lines->begins++;
        lines->named = level == BASE_LOG_ERROR && strstr(text, "store.mdb") != NULL;
    }
    lines->ends += strstr(text, "has room again") != NULL;
}

struct put {
    struct gw_store_op op;
    uint64_t id;
    size_t size;
};

static enum base_status apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    static uint8_t value[LARGE_BYTES];
    const struct put *put = (const struct put *)self;
    struct gw_key key = gw_key_u64(put->id);
    return gw_store_txn_put(txn, GW_TABLE_DEVICES, &key, value, put->size);
}

static enum base_status put_size(struct gw_store *store, uint64_t id, size_t size)
{
    struct put put = {.id = id, .size = size};
    put.op.apply = apply;
    return gw_store_submit_wait(store, &put.op);
}

static enum base_status put_wait(struct gw_store *store, uint64_t id)
{
    return put_size(store, id, VALUE_BYTES);
}

static bool is_full(struct gw_store *store)
{
    struct gw_store_stats stats;
    gw_store_stats(store, &stats);
    return stats.full;
}

static void test_full(void **state)
{
    (void)state;
    char dir[64] = "/tmp/walle-full-XXXXXX";
    char command[96];
    struct lines lines = {0};
    const struct base_log log = {.ctx = &lines, .level = BASE_LOG_INFO, .write = keep};
    assert_non_null(mkdtemp(dir));
    struct gw_store_options options = {.dir = dir, .commit_delay_us = 1, .log = &log};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);

    (void)signal(SIGXFSZ, SIG_IGN); // then a file at its limit is EFBIG, as a full disk is ENOSPC
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 256 * 1024, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    uint64_t id = 0;
    while (put_wait(store, id) == BASE_OK) {
        id++;
    }
    enum base_status status = BASE_OK;
    for (unsigned i = 0; i < PUTS; i++) {
        status = put_wait(store, id);
        if (status != BASE_ERR_FULL) {
            break;
        }
    }
    bool full = is_full(store);
    struct lines then = lines;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0); // before cmocka may write again
    assert_int_equal(status, BASE_ERR_FULL);
    assert_true(full);
    assert_int_equal(then.begins, 1);
    assert_true(then.named);
    assert_int_equal(then.ends, 0);

    assert_int_equal(put_wait(store, id), BASE_OK);
    assert_int_equal(put_wait(store, id + 1), BASE_OK);
    assert_false(is_full(store));
    assert_int_equal(lines.begins, 1);
    assert_int_equal(lines.ends, 1);

    // Full and not in turns, it counts each time and is said once in a while.
    for (unsigned i = 0; i < PUTS; i++) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        status = put_size(store, id + 2, LARGE_BYTES);
        full = is_full(store);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, BASE_ERR_FULL);
        assert_true(full);
        assert_int_equal(put_wait(store, id), BASE_OK);
        assert_false(is_full(store));
    }
    assert_int_equal(lines.begins, 1);
    assert_int_equal(lines.ends, 1);
    gw_store_close(store);
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

// A write that the end of the disk cuts short is one that found no room, though LMDB says EIO: from
// the first on. `limit`: of the file, within a page and at the end of one.
static void check_cut_short(rlim_t limit)
{
    char dir[64] = "/tmp/walle-full-XXXXXX";
    char command[96];
    assert_non_null(mkdtemp(dir));
    struct gw_store_options options = {.dir = dir, .commit_delay_us = 1};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);
    (void)signal(SIGXFSZ, SIG_IGN);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = limit, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    uint64_t id = 0;
    enum base_status status = BASE_OK;
    while (status == BASE_OK) {
        status = put_size(store, id++, LARGE_BYTES);
    }
    bool full = is_full(store);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_ERR_FULL);
    assert_true(full);
    assert_true(id > 1);
    assert_int_equal(put_size(store, id, LARGE_BYTES), BASE_OK);
    gw_store_close(store);
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);
    gw_store_close(store);
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void test_cut_short(void **state)
{
    (void)state;
    check_cut_short(512u * 1024);
    check_cut_short(512u * 1024 + 1000);
}

// A new store is written beside its place first: what is in the way there is named, and stays.
static void what_is_in_the_way_is_named(void **state)
{
    (void)state;
    char dir[64] = "/tmp/walle-full-XXXXXX";
    char path[96];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/store.mdb.new", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    struct gw_store_options options = {.dir = dir, .commit_delay_us = 1};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    assert_int_not_equal(gw_store_open(&options, &store, &error), BASE_OK);
    if (strstr(error.text, "/store.mdb.new: ") == NULL) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(rmdir(path), 0); // a folder still
    char command[96];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_the_way_is_named),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
