// A store's file with bytes of it changed: the walk ends with a text or says that nothing is wrong,
// and then LMDB reads all of it without leaving its map.
//
//   input := u8 flags (1: a store with tables, else a plain one; 2: the file is cut),
//            [u8 pages that stay,] changes, each u8 page, u16 offset in it, u8 size, bytes
//
// The file is made once, by LMDB: leaves, branches, values of several pages, free pages.
#include "fuzz_target.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/os/lmdb_pages.h"

#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE      4096u
#define PAGES_MAX 128u
#define MAP_BYTES (PAGE * 1024u)
#define RECORDS   160u
#define LARGE     9000u // bytes of a value that has pages of its own
#define TABLES    2

static char dir[] = "/tmp/walle-fuzz-pages-XXXXXX";
static char path[64];

static struct {
    uint8_t bytes[PAGE * PAGES_MAX];
    size_t size;
} made[2];

static void folder_remove(void)
{
    (void)unlink(path);
    (void)rmdir(dir);
}

static MDB_env *env_open(unsigned flags)
{
    MDB_env *env = NULL;
    base_check(mdb_env_create(&env) == 0 && mdb_env_set_maxdbs(env, 8) == 0 &&
               mdb_env_set_mapsize(env, MAP_BYTES) == 0);
    if (mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC | flags, 0600) != 0) {
        mdb_env_close(env);
        return NULL;
    }
    return env;
}

// Puts some, and takes some away again, so that there are free pages.
static void fill(MDB_env *env, bool tables, bool take)
{
    static const char *const names[TABLES] = {"first", "second"};
    static uint8_t value[LARGE];
    MDB_txn *txn = NULL;
    base_check(mdb_txn_begin(env, NULL, 0, &txn) == 0);
    for (int table = 0; table < (tables ? TABLES : 1); table++) {
        MDB_dbi dbi;
        base_check(mdb_dbi_open(txn, tables ? names[table] : NULL, tables ? MDB_CREATE : 0, &dbi) ==
                   0);
        for (uint32_t i = 0; i < RECORDS; i++) {
            uint32_t name = i * 2654435761u;
            MDB_val key = {sizeof(name), &name};
            MDB_val data = {i % 40 == 0 ? LARGE : 60 + i, value};
            base_check(!take ? mdb_put(txn, dbi, &key, &data, 0) == 0
                             : i % 3 != 0 || mdb_del(txn, dbi, &key, NULL) == 0);
        }
    }
    base_check(mdb_txn_commit(txn) == 0);
}

static void make(bool tables)
{
    (void)unlink(path);
    MDB_env *env = env_open(0);
    base_check(env != NULL);
    fill(env, tables, false);
    fill(env, tables, true);
    base_check(mdb_env_sync(env, 1) == 0);
    mdb_env_close(env);
    FILE *file = fopen(path, "rb");
    base_check(file != NULL);
    made[tables].size = fread(made[tables].bytes, 1, sizeof(made[tables].bytes), file);
    base_check(made[tables].size % PAGE == 0 && made[tables].size < sizeof(made[tables].bytes));
    fclose(file);
}

static void begin(void)
{
    if (path[0] != '\0') {
        return;
    }
    base_check(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof(path), "%s/data.mdb", dir);
    make(false);
    make(true);
    base_check(atexit(folder_remove) == 0);
}

static void put_file(const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    base_check(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static uint64_t sum;

static void add(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) {
        sum += at[i];
    }
}

static void table_read(MDB_txn *txn, MDB_dbi dbi)
{
    MDB_cursor *cursor = NULL;
    MDB_val key;
    MDB_val value;
    base_check(mdb_cursor_open(txn, dbi, &cursor) == 0);
    while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
        add(key.mv_data, key.mv_size);
        add(value.mv_data, value.mv_size);
    }
    mdb_cursor_close(cursor);
}

// What the walk found whole.
static void read_all(bool tables)
{
    static const char *const names[TABLES] = {"first", "second"};
    MDB_env *env = env_open(MDB_RDONLY);
    MDB_txn *txn = NULL;
    if (env == NULL) {
        return;
    }
    base_check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn) == 0);
    for (int table = 0; table < (tables ? TABLES : 1); table++) {
        MDB_dbi dbi;
        if (mdb_dbi_open(txn, tables ? names[table] : NULL, 0, &dbi) == 0) {
            table_read(txn, dbi);
        }
    }
    mdb_txn_abort(txn);
    mdb_env_close(env);
}

static void on_record(void *ctx, const char *table, struct base_span key, struct base_span value)
{
    (void)ctx;
    add(table, strlen(table));
    add(key.data, key.size);
    add(value.data, value.size);
}

static void on_bad(void *ctx, const char *text)
{
    ++*(uint32_t *)ctx;
    base_check(text[0] != '\0' && strlen(text) < BASE_PAGES_TEXT_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[PAGE * PAGES_MAX];
    static const struct base_pages_visitor nobody = {NULL, NULL, NULL};
    struct base_error error = {0};
    struct base_reader reader;
    uint32_t bad = 0;
    begin();
    base_reader_init(&reader, data, size);
    uint8_t flags = base_reader_u8(&reader);
    bool tables = (flags & 1u) != 0;
    size_t whole = made[tables].size;
    memcpy(bytes, made[tables].bytes, whole);
    size_t kept = (flags & 2u) != 0 ? base_reader_u8(&reader) * (size_t)PAGE : whole;
    while (base_reader_left(&reader) > 0) {
        size_t at = base_reader_u8(&reader) * (size_t)PAGE + base_reader_u16(&reader) % PAGE;
        size_t count = base_reader_u8(&reader);
        const uint8_t *change = base_reader_bytes(&reader, count);
        if (change == NULL) {
            break;
        }
        memcpy(bytes + at % whole, change, count < whole - at % whole ? count : whole - at % whole);
    }
    put_file(bytes, kept < whole ? kept : whole);
    const struct base_pages_file file = {.path = path, .name = "store", .plain = !tables};
    const struct base_pages_visitor all = {on_record, on_bad, &bad};
    enum base_status strict = base_pages_walk(&file, &nobody, &error);
    base_check(strict == BASE_OK || error.text[0] != '\0');
    enum base_status lenient = base_pages_walk(&file, &all, &error);
    base_check((strict == BASE_OK) == (lenient == BASE_OK));
    if (strict == BASE_OK) {
        base_check(bad == 0);
        read_all(tables);
    }
    return 0;
}
