// What a device stores damaged while nobody used it, its two records and the LMDB file of its
// pipeline: bits flipped, ranges zeroed, the end cut off. In a child process each: all is opened,
// read whole, written, opened again. No process dies by a signal, the device always starts, and
// what is read is what was put, or is not there; of the two records one is always there.
// Files of earlier releases are read, and made anew at the first start.
#include "posix/store/posix_storage.h"
#include "posix/store/posix_kv.h"

#include "base/prng.h"
#include "base/record_seal.h"
#include "test_kit.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <lmdb.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROWS         1200u
#define ROWS_AT_ONCE 100u
#define LONG_ROWS    8u
#define LONG_BYTES   9000u
#define STATE_BYTES  3000u
#define SAVES        20u
#define TRIALS       160u
#define SEED         20261122u
#define CHILD_WHOLE  10 // all that was put is there
#define CHILD_LESS   11 // some of it
#define CHILD_WRONG  12

enum file { STATE, BEFORE, PIPELINE, FILE_COUNT };

static const char *const folders[FILE_COUNT] = {"state", "state", "pipeline"};
static const char *const names[FILE_COUNT] = {"even", "odd", "data.mdb"}; // SAVES is even

static char root[64];
static uint8_t *images[FILE_COUNT];
static size_t image_bytes[FILE_COUNT];

static size_t value_of(uint32_t row, uint8_t *out)
{
    size_t size = row < LONG_ROWS ? LONG_BYTES : row % 90;
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)(row * 31 + i);
    }
    return size;
}

static uint32_t key_of(uint32_t row, uint8_t out[4])
{
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(row >> (24 - 8 * i));
    }
    return 4;
}

static void state_of(uint32_t save, uint8_t *out)
{
    for (size_t i = 0; i < STATE_BYTES; i++) {
        out[i] = (uint8_t)(save * 7 + i);
    }
}

// Every `step`th row, ROWS_AT_ONCE of them in a commit.
static enum base_status put_rows(const struct dev_kv_port *port, uint32_t from, uint32_t to,
                                 uint32_t step, bool remove)
{
    static uint8_t values[ROWS_AT_ONCE][LONG_BYTES];
    static uint8_t keys[ROWS_AT_ONCE][4];
    struct dev_kv_change changes[ROWS_AT_ONCE];
    uint32_t count = 0;
    for (uint32_t row = from; row < to; row += step) {
        struct dev_kv_change *change = &changes[count];
        *change = (struct dev_kv_change){.space = (enum dev_space)(row % DEV_SPACE_COUNT),
                                         .key = keys[count]};
        change->key_size = key_of(row, keys[count]);
        change->value_size = (uint32_t)value_of(row, values[count]);
        change->value = remove ? NULL : values[count];
        count++;
        if (count == ROWS_AT_ONCE || row + step >= to) {
            enum base_status status = port->commit(port->ctx, changes, count);
            if (status != BASE_OK) {
                return status;
            }
            count = 0;
        }
    }
    return BASE_OK;
}

static enum base_status open_both(const char *dir, struct posix_storage **storage,
                                  struct posix_kv **kv)
{
    const struct posix_kv_options options = {.dir = dir};
    struct base_error error = {0};
    enum base_status status = posix_storage_new(dir, NULL, storage, &error);
    return status == BASE_OK ? posix_kv_new(&options, kv, &error) : status;
}

static void path_in(const char *dir, enum file file, char out[160])
{
    (void)snprintf(out, 160, "%s/%s/%s", dir, folders[file], names[file]);
}

static void read_image(enum file file)
{
    char path[160];
    struct stat about;
    path_in(root, file, path);
    assert_int_equal(stat(path, &about), 0);
    image_bytes[file] = (size_t)about.st_size;
    images[file] = malloc(image_bytes[file]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, images[file], image_bytes[file]), (ssize_t)image_bytes[file]);
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    struct posix_storage *storage = NULL;
    struct posix_kv *kv = NULL;
    static uint8_t bytes[STATE_BYTES];
    (void)snprintf(root, sizeof(root), "/tmp/walle-device-damage-XXXXXX");
    assert_non_null(mkdtemp(root));
    assert_int_equal(open_both(root, &storage, &kv), BASE_OK);
    struct dev_storage_port table = posix_storage_table(storage);
    struct dev_kv_port port = posix_kv_port(kv);
    for (uint32_t i = 0; i < SAVES; i++) {
        state_of(i, bytes);
        assert_int_equal(table.state_save(table.ctx, bytes, STATE_BYTES), BASE_OK);
    }
    assert_int_equal(put_rows(&port, 0, ROWS + 300, 1, false), BASE_OK);
    // Free pages, pages half full.
    assert_int_equal(put_rows(&port, ROWS, ROWS + 300, 1, true), BASE_OK);
    posix_kv_free(kv);
    posix_storage_free(storage);
    read_image(STATE);
    read_image(BEFORE);
    read_image(PIPELINE);
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    for (int file = 0; file < FILE_COUNT; file++) {
        free(images[file]);
    }
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

// ---- What a child does

struct seen {
    uint32_t count;
    bool wrong;
};

static bool look(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                 size_t value_size)
{
    static uint8_t expected[LONG_BYTES];
    struct seen *seen = ctx;
    uint32_t row = 0;
    for (size_t i = 0; i < key_size; i++) {
        row = row << 8 | key[i];
    }
    bool right = key_size == 4 && row < ROWS && value_of(row, expected) == value_size &&
                 (value_size == 0 || memcmp(value, expected, value_size) == 0);
    seen->wrong = seen->wrong || !right;
    seen->count++;
    return true;
}

static bool get_all(const struct dev_kv_port *port, struct seen *seen)
{
    static uint8_t value[LONG_BYTES];
    uint8_t key[4];
    for (uint32_t row = 0; row < ROWS; row++) {
        size_t size = 0;
        uint32_t key_size = key_of(row, key);
        const struct dev_kv_key of = {(enum dev_space)(row % DEV_SPACE_COUNT), key, key_size};
        enum base_status status = port->get(port->ctx, of, value, sizeof(value), &size);
        if (status == BASE_OK) {
            (void)look(seen, key, key_size, value, size);
        } else if (status != BASE_ERR_NOT_FOUND) {
            return false;
        }
    }
    return !seen->wrong;
}

// The newest record, or the one before it where the newest is, or may be, lost; *out_whole: the
// newest. False: another one, or none.
static bool read_state(const struct dev_storage_port *table, bool *out_whole)
{
    static uint8_t bytes[STATE_BYTES + 1];
    static uint8_t newest[STATE_BYTES];
    static uint8_t older[STATE_BYTES];
    size_t size = 0;
    enum base_status status = table->state_load(table->ctx, bytes, sizeof(bytes), &size);
    state_of(SAVES - 1, newest);
    state_of(SAVES - 2, older);
    *out_whole = status == BASE_OK;
    if (status == BASE_ERR_CORRUPT) {
        status = table->state_before(table->ctx, bytes, sizeof(bytes), &size);
    }
    return status == BASE_OK && size == STATE_BYTES &&
           (memcmp(bytes, newest, size) == 0 || (!*out_whole && memcmp(bytes, older, size) == 0));
}

static int read_both(const struct dev_storage_port *table, const struct dev_kv_port *port)
{
    struct seen got = {0};
    struct seen scanned = {0};
    bool whole = false;
    if (!read_state(table, &whole)) {
        return CHILD_WRONG;
    }
    bool right = get_all(port, &got);
    for (int space = 0; space < DEV_SPACE_COUNT; space++) {
        const struct dev_kv_range all = {.space = (enum dev_space)space};
        right = port->scan(port->ctx, &all, look, &scanned) == BASE_OK && right;
    }
    if (!right || scanned.wrong || got.count != scanned.count) {
        return CHILD_WRONG;
    }
    return whole && got.count == ROWS ? CHILD_WHOLE : CHILD_LESS;
}

static bool write_both(const struct dev_storage_port *table, const struct dev_kv_port *port)
{
    static uint8_t bytes[STATE_BYTES];
    state_of(SAVES - 1, bytes);
    return table->state_save(table->ctx, bytes, STATE_BYTES) == BASE_OK &&
           put_rows(port, 0, ROWS, 12, false) == BASE_OK &&
           put_rows(port, 4, ROWS, 12, true) == BASE_OK;
}

static int use(const char *dir)
{
    int outcome = CHILD_WRONG;
    for (int round = 0; round < 2; round++) {
        struct posix_storage *storage = NULL;
        struct posix_kv *kv = NULL;
        if (open_both(dir, &storage, &kv) != BASE_OK) {
            return CHILD_WRONG;
        }
        struct dev_storage_port table = posix_storage_table(storage);
        struct dev_kv_port port = posix_kv_port(kv);
        int now = read_both(&table, &port);
        outcome = round == 0 || now == CHILD_WRONG ? now : outcome;
        if (round == 0 && !write_both(&table, &port)) {
            outcome = CHILD_WRONG;
        }
        posix_kv_free(kv);
        posix_storage_free(storage);
        if (outcome == CHILD_WRONG) {
            return outcome;
        }
    }
    return outcome;
}

static int in_child(const char *dir)
{
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(use(dir));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void write_file(const char *dir, enum file file, const uint8_t *bytes, size_t size)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, folders[file]);
    (void)mkdir(path, 0700);
    path_in(dir, file, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

// The outcome with these bytes in place of one file, the other sound.
static int try_bytes(enum file file, const uint8_t *bytes, size_t size)
{
    char dir[96];
    (void)snprintf(dir, sizeof(dir), "%s/trial", root);
    (void)mkdir(dir, 0700);
    for (int other = 0; other < FILE_COUNT; other++) {
        write_file(dir, (enum file)other, images[other], image_bytes[other]);
    }
    write_file(dir, file, bytes, size);
    int outcome = in_child(dir);
    assert_int_equal(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    return outcome;
}

static void check_outcome(int outcome, enum file file, const char *what, size_t at,
                          unsigned counts[2])
{
    if (outcome != CHILD_WHOLE && outcome != CHILD_LESS) {
        fail_msg("%s, %s at %zu: %s %d", folders[file], what, at,
                 outcome < 0 ? "died by signal" : "outcome", outcome < 0 ? -outcome : outcome);
    }
    counts[outcome == CHILD_WHOLE]++;
}

static void test_flipped_bits(void **state)
{
    (void)state;
    struct base_prng prng;
    unsigned counts[2] = {0};
    base_prng_seed(&prng, SEED);
    for (unsigned i = 0; i < TRIALS; i++) {
        enum file file = i % 4 == 0 ? (i % 8 == 0 ? STATE : BEFORE) : PIPELINE;
        size_t at = (size_t)base_prng_below(&prng, image_bytes[file]);
        at = i % 3 == 0 ? at % 8192 : i % 3 == 1 ? (at & ~(size_t)4095) + at % 48 : at;
        uint8_t bit = (uint8_t)(1u << base_prng_below(&prng, 8));
        images[file][at] ^= bit;
        check_outcome(try_bytes(file, images[file], image_bytes[file]), file, "a flipped bit", at,
                      counts);
        images[file][at] ^= bit;
    }
    print_message("%u with less, %u whole\n", counts[0], counts[1]);
    assert_true(counts[0] > 0 && counts[1] > 0);
}

static void test_zeroed_and_cut(void **state)
{
    (void)state;
    struct base_prng prng;
    unsigned counts[2] = {0};
    base_prng_seed(&prng, SEED + 1);
    for (unsigned i = 0; i < TRIALS / 2; i++) {
        enum file file = i % 2 == 0 ? (i % 4 == 0 ? STATE : BEFORE) : PIPELINE;
        size_t at = (size_t)base_prng_below(&prng, image_bytes[file]);
        size_t size = (size_t)base_prng_below(&prng, i % 4 < 2 ? 64 : 20000) + 1;
        size = size < image_bytes[file] - at ? size : image_bytes[file] - at;
        uint8_t *copy = malloc(image_bytes[file]);
        memcpy(copy, images[file], image_bytes[file]);
        memset(copy + at, i % 8 > 5 ? 0xff : 0, size);
        check_outcome(try_bytes(file, copy, image_bytes[file]), file, "a zeroed range", at, counts);
        check_outcome(try_bytes(file, images[file], at), file, "cut", at, counts);
        free(copy);
    }
    for (int file = 0; file < FILE_COUNT; file++) {
        check_outcome(try_bytes((enum file)file, images[file], 0), (enum file)file, "cut", 0,
                      counts);
    }
    assert_int_equal(try_bytes(STATE, images[STATE], image_bytes[STATE]), CHILD_WHOLE);
}

// ---- Files without seals

static void put_bare(MDB_txn *txn, MDB_dbi dbi, const void *key, size_t key_size, const void *bytes,
                     size_t size)
{
    MDB_val at = {key_size, (void *)(uintptr_t)key};
    MDB_val value = {size, (void *)(uintptr_t)bytes};
    assert_int_equal(mdb_put(txn, dbi, &at, &value, 0), 0);
}

static void make_bare(const char *dir, enum file file, bool sealed)
{
    static uint8_t value[LONG_BYTES];
    char path[160];
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    MDB_dbi dbi;
    (void)snprintf(path, sizeof(path), "%s/%s", dir, folders[file]);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_mapsize(env, 4 << 20), 0);
    assert_int_equal(mdb_env_open(env, path, 0, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
    if (file == STATE) {
        static const struct base_span key = {(const uint8_t *)"state/2", 7};
        const struct base_span bytes = {value, STATE_BYTES};
        state_of(SAVES - 1, value);
        base_record_seal("state", key, bytes, value + STATE_BYTES);
        put_bare(txn, dbi, sealed ? "state/2" : "state/1", 7, value,
                 STATE_BYTES + (sealed ? BASE_SEAL_BYTES : 0));
    }
    for (uint32_t row = 0; row < ROWS && file == PIPELINE; row++) {
        uint8_t key[5] = {(uint8_t)(row % DEV_SPACE_COUNT)};
        (void)key_of(row, key + 1);
        put_bare(txn, dbi, key, sizeof(key), value, value_of(row, value));
    }
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

// The record in LMDB, and values without seals; once the device has saved, the old files are gone.
static void test_files_of_earlier_releases(void **state)
{
    (void)state;
    char dir[96];
    char path[160];
    struct stat info;
    for (int sealed = 0; sealed < 2; sealed++) {
        (void)snprintf(dir, sizeof(dir), "%s/bare", root);
        assert_int_equal(mkdir(dir, 0700), 0);
        make_bare(dir, STATE, sealed == 1);
        make_bare(dir, PIPELINE, false);
        assert_int_equal(in_child(dir), CHILD_WHOLE);
        (void)snprintf(path, sizeof(path), "%s/state/data.mdb", dir);
        assert_int_equal(stat(path, &info), -1);
        assert_int_equal(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
}

// A device that has saved once, and one whose newest record is gone altogether.
static void test_missing_records(void **state)
{
    (void)state;
    unsigned counts[2] = {0};
    char dir[96];
    char path[160];
    (void)snprintf(dir, sizeof(dir), "%s/missing", root);
    for (int file = STATE; file <= BEFORE; file++) {
        assert_int_equal(mkdir(dir, 0700), 0);
        for (int other = 0; other < FILE_COUNT; other++) {
            write_file(dir, (enum file)other, images[other], image_bytes[other]);
        }
        path_in(dir, (enum file)file, path);
        assert_int_equal(unlink(path), 0);
        check_outcome(in_child(dir), (enum file)file, "missing", 0, counts);
        assert_int_equal(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_zeroed_and_cut),
        cmocka_unit_test(test_files_of_earlier_releases),
        cmocka_unit_test(test_missing_records),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
