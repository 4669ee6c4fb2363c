// A store whose file was damaged while nobody used it: bits flipped, ranges zeroed, the end cut
// off. In a child process each: it is opened, read whole, written and checked. Whatever was done to
// the file, no process dies by a signal, every record that is returned is what was put, and what is
// missing was said to be damaged.
#include "store/store.h"

#include "base/prng.h"
#include "base/str.h"

#include <fcntl.h>
#include <inttypes.h>
#include <lmdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DEVICES       3000u
#define ROLLOUTS      64u
#define LONG_BYTES    20000u // on pages of its own
#define TRIALS        240u
#define SEED_DEFAULT  20261122u
#define CHILD_REFUSED 10 // the store was not opened, with a text
#define CHILD_RIGHT   11 // all that was read was right
#define CHILD_WRONG   12

static char root[64];
static uint8_t *image; // of the sound file
static size_t image_bytes;

static size_t size_of(uint64_t id)
{
    return 20 + id % 90;
}

static void fill(uint64_t id, uint8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)(id * 31 + i);
    }
}

struct change {
    struct gw_store_op op;
    enum gw_table table;
    uint64_t from;
    uint64_t to;
    size_t size; // 0: by id
    bool remove;
};

static enum base_status apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    static _Thread_local uint8_t value[LONG_BYTES];
    const struct change *change = (const struct change *)self;
    for (uint64_t id = change->from; id < change->to; id++) {
        struct gw_key key = gw_key_u64(id);
        size_t size = change->size != 0 ? change->size : size_of(id);
        fill(id, value, size);
        enum base_status status = change->remove
                                      ? gw_store_txn_delete(txn, change->table, &key)
                                      : gw_store_txn_put(txn, change->table, &key, value, size);
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

static enum base_status change_store(struct gw_store *store, enum gw_table table, uint64_t from,
                                     uint64_t to, size_t size, bool remove)
{
    struct change change = {.table = table, .from = from, .to = to, .size = size, .remove = remove};
    change.op.apply = apply;
    return gw_store_submit_wait(store, &change.op);
}

static enum base_status open_dir(const char *dir, struct gw_store **out, struct base_error *error)
{
    struct gw_store_options options = {
        .dir = dir, .map_bytes_first = 8 << 20, .map_bytes_max = 64 << 20, .commit_delay_us = 1};
    return gw_store_open(&options, out, error);
}

static void path_in(const char *dir, const char *name, char out[160])
{
    snprintf(out, 160, "%s/%s", dir, name);
}

static void write_file(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void read_image(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    image_bytes = (size_t)about.st_size;
    image = malloc(image_bytes);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(image, 1, image_bytes, file), image_bytes);
    fclose(file);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/walle-damage-XXXXXX");
    assert_non_null(mkdtemp(root));
    struct gw_store *store = NULL;
    struct base_error error = {0};
    assert_int_equal(open_dir(root, &store, &error), BASE_OK);
    assert_int_equal(change_store(store, GW_TABLE_DEVICES, 0, DEVICES + 500, 0, false), BASE_OK);
    assert_int_equal(change_store(store, GW_TABLE_ROLLOUTS, 0, ROLLOUTS, LONG_BYTES, false),
                     BASE_OK);
    // Free pages and pages half full, as a store in use has them.
    assert_int_equal(change_store(store, GW_TABLE_DEVICES, DEVICES, DEVICES + 500, 0, true),
                     BASE_OK);
    assert_int_equal(change_store(store, GW_TABLE_ROLLOUTS, 8, 16, LONG_BYTES, true), BASE_OK);
    assert_int_equal(change_store(store, GW_TABLE_ROLLOUTS, 8, 16, LONG_BYTES, false), BASE_OK);
    gw_store_close(store);
    char path[160];
    path_in(root, "store.mdb", path);
    read_image(path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(image);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

// ---- What a child does with a damaged store

struct seen {
    uint64_t count;
    size_t long_bytes;
    bool wrong;
};

static bool look(void *ctx, struct base_span key, struct base_span value)
{
    static uint8_t expected[LONG_BYTES];
    struct seen *seen = ctx;
    uint64_t id = 0;
    if (!gw_key_read_u64(key.data, key.size, 0, &id)) {
        seen->wrong = true;
        return true;
    }
    size_t size = seen->long_bytes != 0 ? seen->long_bytes : size_of(id);
    fill(id, expected, size);
    seen->wrong = seen->wrong || value.size != size || memcmp(value.data, expected, size) != 0;
    seen->count++;
    return true;
}

static enum base_status read_table(struct gw_store *store, enum gw_table table, struct seen *seen)
{
    struct gw_store_read *read;
    struct gw_key from = {.bytes = {0}, .size = 1};
    enum base_status status = gw_store_read_begin(store, &read);
    if (status == BASE_OK) {
        status = gw_store_read_scan(read, table, &from, look, seen);
        gw_store_read_end(read);
    }
    return status;
}

static int use_store(const char *dir)
{
    struct gw_store *store = NULL;
    struct base_error error = {0};
    if (open_dir(dir, &store, &error) != BASE_OK) {
        return error.text[0] != '\0' ? CHILD_REFUSED : CHILD_WRONG;
    }
    struct seen devices = {0};
    struct seen rollouts = {.long_bytes = LONG_BYTES};
    enum base_status devices_status = read_table(store, GW_TABLE_DEVICES, &devices);
    enum base_status rollouts_status = read_table(store, GW_TABLE_ROLLOUTS, &rollouts);
    struct gw_store_stats stats;
    gw_store_stats(store, &stats);
    bool right = !devices.wrong && !rollouts.wrong && devices_status == BASE_OK;
    right = right && (rollouts_status == BASE_OK ? rollouts.count == ROLLOUTS : stats.damaged > 0);
    right = right && (devices.count == DEVICES || devices.count + stats.damaged >= DEVICES);
    // Writing takes free pages and merges others.
    (void)change_store(store, GW_TABLE_DEVICES, DEVICES, DEVICES + 200, 0, false);
    (void)change_store(store, GW_TABLE_DEVICES, 0, 1000, 0, true);
    (void)change_store(store, GW_TABLE_ROLLOUTS, 0, 16, LONG_BYTES, true);
    (void)gw_store_check(store, NULL, NULL);
    gw_store_close(store);
    return right ? CHILD_RIGHT : CHILD_WRONG;
}

static int in_child(const char *dir)
{
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(use_store(dir));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// The outcome of a store with these bytes.
static int try_bytes(const uint8_t *bytes, size_t size)
{
    char dir[96];
    char path[160];
    snprintf(dir, sizeof(dir), "%s/trial", root);
    (void)mkdir(dir, 0700);
    path_in(dir, "store.mdb", path);
    write_file(path, bytes, size);
    int outcome = in_child(dir);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    return outcome;
}

static uint64_t seed_of_run(void)
{
    const char *text = getenv("WALLE_TEST_SEED");
    uint64_t seed = SEED_DEFAULT;
    if (text != NULL) {
        assert_int_equal(base_str_u64(base_str_of(text), &seed), BASE_OK);
    }
    print_message("seed %" PRIu64 "\n", seed);
    return seed;
}

static void check_outcome(int outcome, const char *what, size_t at, unsigned counts[2])
{
    if (outcome != CHILD_REFUSED && outcome != CHILD_RIGHT) {
        fail_msg("%s at %zu: %s %d", what, at, outcome < 0 ? "died by signal" : "outcome",
                 outcome < 0 ? -outcome : outcome);
    }
    counts[outcome == CHILD_RIGHT]++;
}

static void flipped_bits(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, seed_of_run());
    unsigned counts[2] = {0};
    for (unsigned i = 0; i < TRIALS; i++) {
        // Every third trial in the first pages and every third in page heads, where most depends on
        // it.
        size_t at = (size_t)base_prng_below(&prng, image_bytes);
        at = i % 3 == 0 ? at % 8192 : i % 3 == 1 ? (at & ~(size_t)4095) + at % 48 : at;
        uint8_t bit = (uint8_t)(1u << base_prng_below(&prng, 8));
        image[at] ^= bit;
        check_outcome(try_bytes(image, image_bytes), "a flipped bit", at, counts);
        image[at] ^= bit;
    }
    print_message("%u refused, %u right\n", counts[0], counts[1]);
    assert_true(counts[0] > 0 && counts[1] > 0);
}

static void zeroed_ranges(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, seed_of_run() + 1);
    unsigned counts[2] = {0};
    uint8_t *copy = malloc(image_bytes);
    for (unsigned i = 0; i < TRIALS / 4; i++) {
        size_t at = (size_t)base_prng_below(&prng, image_bytes);
        size_t size = (size_t)base_prng_below(&prng, i % 2 == 0 ? 64 : 20000) + 1;
        size = size < image_bytes - at ? size : image_bytes - at;
        memcpy(copy, image, image_bytes);
        memset(copy + at, i % 4 == 3 ? 0xff : 0, size);
        check_outcome(try_bytes(copy, image_bytes), "a zeroed range", at, counts);
    }
    free(copy);
}

static void cut_files(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, seed_of_run() + 2);
    unsigned counts[2] = {0};
    static const size_t sizes[] = {0, 1, 15, 16, 151, 152, 4095, 4096, 4097, 8191, 8192};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_outcome(try_bytes(image, sizes[i]), "cut", sizes[i], counts);
    }
    assert_int_equal(counts[1], 0); // an empty file is no new store
    for (unsigned i = 0; i < TRIALS / 8; i++) {
        size_t size = (size_t)base_prng_below(&prng, image_bytes);
        check_outcome(try_bytes(image, size), "cut", size, counts);
    }
    uint8_t *zeros = calloc(image_bytes, 1);
    assert_int_equal(try_bytes(zeros, image_bytes), CHILD_REFUSED);
    free(zeros);
    assert_int_equal(try_bytes(image, image_bytes), CHILD_RIGHT);
}

// ---- One record

static uint8_t *find_bytes(const uint8_t *bytes, size_t size)
{
    return memmem(image, image_bytes, bytes, size);
}

static uint64_t damaged_of(const char *dir, enum base_status *out_status)
{
    struct gw_store *store = NULL;
    struct base_error error = {0};
    struct gw_store_stats stats;
    assert_int_equal(open_dir(dir, &store, &error), BASE_OK);
    struct seen seen = {.long_bytes = LONG_BYTES};
    *out_status = read_table(store, GW_TABLE_ROLLOUTS, &seen);
    assert_false(seen.wrong);
    gw_store_stats(store, &stats);
    gw_store_close(store);
    return stats.damaged;
}

static void count_texts(void *ctx, const char *text)
{
    print_message("  %s\n", text);
    (*(unsigned *)ctx)++;
}

// A bit of one rollout's value: the table says so, the rest is read; salvage leaves that one
// behind.
static void one_record(void **state)
{
    (void)state;
    static uint8_t value[LONG_BYTES];
    char dir[96];
    char path[160];
    snprintf(dir, sizeof(dir), "%s/one", root);
    assert_int_equal(mkdir(dir, 0700), 0);
    path_in(dir, "store.mdb", path);
    fill(40, value, sizeof(value));
    uint8_t *at = find_bytes(value, sizeof(value));
    assert_non_null(at);
    at[10000] ^= 4;
    write_file(path, image, image_bytes);
    at[10000] ^= 4;

    enum base_status status = BASE_OK;
    assert_int_equal(damaged_of(dir, &status), 1);
    assert_int_equal(status, BASE_ERR_CORRUPT);

    struct base_error error = {0};
    uint64_t copied = 0;
    unsigned told = 0;
    assert_int_equal(gw_store_salvage(dir, count_texts, &told, &copied, &error), BASE_OK);
    assert_int_equal(told, 1);
    assert_int_equal(copied, DEVICES + ROLLOUTS - 1);
    assert_int_equal(damaged_of(dir, &status), 0);
    assert_int_equal(status, BASE_OK);
    assert_int_equal(gw_store_salvage(dir, count_texts, &told, &copied, &error), BASE_ERR_EXISTS);
}

// A whole page of a table's tree is gone: salvage goes around it.
static void one_page(void **state)
{
    (void)state;
    char dir[96];
    char path[160];
    uint8_t record[160];
    snprintf(dir, sizeof(dir), "%s/page", root);
    assert_int_equal(mkdir(dir, 0700), 0);
    path_in(dir, "store.mdb", path);
    // Behind the bytes its id stands.
    const uint64_t id = 1500;
    const size_t size = size_of(id) + sizeof(id);
    fill(id, record, size_of(id));
    memcpy(record + size_of(id), &id, sizeof(id));
    uint8_t *copy = malloc(image_bytes);
    memcpy(copy, image, image_bytes);
    uint8_t *at;
    while ((at = memmem(copy, image_bytes, record, size)) != NULL) {
        memset(copy + ((size_t)(at - copy) & ~(size_t)4095), 0,
               4096); // older states of the page too
    }
    write_file(path, copy, image_bytes);
    free(copy);

    struct gw_store *store = NULL;
    struct base_error error = {0};
    assert_int_equal(open_dir(dir, &store, &error), BASE_ERR_CORRUPT);
    assert_non_null(strstr(error.text, "devices"));
    assert_non_null(strstr(error.text, "salvage"));
    uint64_t copied = 0;
    unsigned told = 0;
    assert_int_equal(gw_store_salvage(dir, count_texts, &told, &copied, &error), BASE_OK);
    assert_true(told > 0);
    assert_in_range(copied, DEVICES + ROLLOUTS - 80, DEVICES + ROLLOUTS - 1);
    enum base_status status = BASE_OK;
    assert_int_equal(damaged_of(dir, &status), 0);
}

// What is no file is an error, and nobody waits for it.
static void no_file(void **state)
{
    (void)state;
    char dir[96];
    char path[160];
    snprintf(dir, sizeof(dir), "%s/pipe", root);
    assert_int_equal(mkdir(dir, 0700), 0);
    path_in(dir, "store.mdb", path);
    for (int turn = 0; turn < 2; turn++) {
        struct gw_store *store = NULL;
        struct base_error error = {0};
        uint64_t copied = 0;
        assert_int_equal(turn == 0 ? mkfifo(path, 0600) : mkdir(path, 0700), 0);
        assert_int_equal(open_dir(dir, &store, &error), BASE_ERR_INVALID);
        assert_non_null(strstr(error.text, "no regular file"));
        assert_int_equal(gw_store_salvage(dir, NULL, NULL, &copied, &error), BASE_ERR_INVALID);
        assert_int_equal(remove(path), 0);
    }
}

// ---- A store from before seals

static void make_unsealed(const char *path, uint8_t schema)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi meta;
    MDB_dbi devices;
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, 8), 0);
    assert_int_equal(mdb_env_set_mapsize(env, 32 << 20), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "meta", MDB_CREATE, &meta), 0);
    assert_int_equal(mdb_dbi_open(txn, "devices", MDB_CREATE, &devices), 0);
    struct gw_key key = gw_key_text("schema");
    MDB_val k = {key.size, key.bytes};
    MDB_val v = {1, &schema};
    assert_int_equal(mdb_put(txn, meta, &k, &v, 0), 0);
    for (uint64_t id = 0; id < DEVICES; id++) {
        uint8_t value[128];
        fill(id, value, size_of(id));
        key = gw_key_u64(id);
        k = (MDB_val){key.size, key.bytes};
        v = (MDB_val){size_of(id), value};
        assert_int_equal(mdb_put(txn, devices, &k, &v, 0), 0);
    }
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

static void last_schema(void **state)
{
    (void)state;
    char dir[96];
    char path[160];
    char rest[160];
    snprintf(dir, sizeof(dir), "%s/old", root);
    assert_int_equal(mkdir(dir, 0700), 0);
    path_in(dir, "store.mdb", path);
    path_in(dir, "store.mdb.new", rest);
    make_unsealed(path, 3);
    write_file(rest, image, 5000); // of an upgrade that was killed
    for (int turn = 0; turn < 2; turn++) {
        struct gw_store *store = NULL;
        struct base_error error = {0};
        struct seen seen = {0};
        assert_int_equal(open_dir(dir, &store, &error), BASE_OK);
        assert_int_equal(read_table(store, GW_TABLE_DEVICES, &seen), BASE_OK);
        assert_int_equal(seen.count, DEVICES);
        assert_false(seen.wrong);
        assert_int_equal(gw_store_check(store, NULL, NULL), 0);
        gw_store_close(store);
        assert_int_not_equal(access(rest, F_OK), 0);
    }
    // A schema nobody knows, and those whose number has a seal.
    for (uint8_t schema = 1; schema < 78; schema++) {
        struct gw_store *store = NULL;
        struct base_error error = {0};
        if (schema == 3) {
            continue;
        }
        (void)unlink(path);
        make_unsealed(path, schema);
        assert_int_equal(open_dir(dir, &store, &error),
                         schema < 3 ? BASE_ERR_UNSUPPORTED : BASE_ERR_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flipped_bits), cmocka_unit_test(zeroed_ranges),
        cmocka_unit_test(cut_files),    cmocka_unit_test(one_record),
        cmocka_unit_test(one_page),     cmocka_unit_test(no_file),
        cmocka_unit_test(last_schema),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
