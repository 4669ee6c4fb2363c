// The pipeline's store on LMDB against the one in memory, its growing map, a full map, damage, and
// collective storage on top of it across restarts.
#include "test_kit.h"

#include "mem/mem_kv.h"
#include "posix/store/posix_kv.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct rig {
    char dir[64];
    struct posix_kv *kv;
    struct dev_kv_port port;
    struct mem_kv mem;
    struct dev_kv_port oracle;
};

static void rig_open(struct rig *rig, uint64_t first, uint64_t last)
{
    const struct posix_kv_options options = {.dir = rig->dir, .map_first = first, .map_last = last};
    struct base_error error = {0};
    enum base_status status = posix_kv_new(&options, &rig->kv, &error);
    if (status != BASE_OK) {
        fail_msg("%s", error.text);
    }
    rig->port = posix_kv_port(rig->kv);
}

static void rig_init(struct rig *rig, uint64_t first, uint64_t last)
{
    *rig = (struct rig){.dir = "/tmp/walle-posix-kv-XXXXXX"};
    assert_non_null(mkdtemp(rig->dir));
    rig_open(rig, first, last);
    mem_kv_init(&rig->mem);
    rig->oracle = mem_kv_port(&rig->mem);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void rig_done(struct rig *rig)
{
    posix_kv_free(rig->kv);
    mem_kv_done(&rig->mem);
    assert_int_equal(nftw(rig->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

struct rows {
    uint8_t bytes[1 << 16];
    size_t size;
    uint32_t count;
    uint32_t stop_after;
};

static bool gather(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                   size_t value_size)
{
    struct rows *rows = ctx;
    assert_true(rows->size + key_size + value_size + 2 <= sizeof(rows->bytes));
    rows->bytes[rows->size++] = (uint8_t)key_size;
    memcpy(rows->bytes + rows->size, key, key_size);
    rows->size += key_size;
    rows->bytes[rows->size++] = (uint8_t)value_size;
    if (value_size > 0) {
        memcpy(rows->bytes + rows->size, value, value_size);
    }
    rows->size += value_size;
    rows->count++;
    return rows->count != rows->stop_after;
}

static uint32_t random_key(struct base_prng *prng, uint8_t *key)
{
    uint32_t size = 1 + (uint32_t)base_prng_below(prng, 3);
    for (uint32_t i = 0; i < size; i++) {
        static const uint8_t letters[] = {0, 1, 'a', 0xff};
        key[i] = letters[base_prng_below(prng, 4)];
    }
    return size;
}

static void compare_reads(struct rig *rig, struct base_prng *prng)
{
    static struct rows ours;
    static struct rows wanted;
    uint8_t prefix[4];
    uint8_t from[4];
    uint8_t got[256];
    uint8_t oracle[256];
    size_t got_size = 0;
    size_t oracle_size = 0;
    enum dev_space space = (enum dev_space)base_prng_below(prng, DEV_SPACE_COUNT);
    uint32_t prefix_size = base_prng_below(prng, 3) == 0 ? 0 : random_key(prng, prefix);
    uint32_t from_size = base_prng_below(prng, 3) == 0 ? 0 : random_key(prng, from);
    ours = (struct rows){.stop_after = (uint32_t)base_prng_below(prng, 5)};
    wanted = (struct rows){.stop_after = ours.stop_after};
    const struct dev_kv_range range = {space, prefix, prefix_size, from, from_size};
    assert_int_equal(rig->port.scan(rig->port.ctx, &range, gather, &ours), BASE_OK);
    assert_int_equal(rig->oracle.scan(rig->oracle.ctx, &range, gather, &wanted), BASE_OK);
    assert_int_equal(ours.count, wanted.count);
    assert_int_equal(ours.size, wanted.size);
    assert_memory_equal(ours.bytes, wanted.bytes, wanted.size);
    from_size = random_key(prng, from);
    size_t capacity = base_prng_below(prng, 2) == 0 ? 0 : sizeof(got);
    const struct dev_kv_key key = {space, from, from_size};
    enum base_status status = rig->port.get(rig->port.ctx, key, got, capacity, &got_size);
    assert_int_equal(status, rig->oracle.get(rig->oracle.ctx, key, oracle, capacity, &oracle_size));
    assert_int_equal(got_size, oracle_size);
    assert_true(status != BASE_OK || memcmp(got, oracle, got_size) == 0);
}

static void it_does_what_the_one_in_memory_does(void **state)
{
    (void)state;
    struct base_prng prng;
    struct rig rig;
    test_seed(&prng);
    rig_init(&rig, 0, 0);
    for (unsigned round = 0; round < 300; round++) {
        uint8_t keys[8][4];
        uint8_t value[200];
        struct dev_kv_change changes[8];
        uint32_t count = 0;
        memset(value, (int)round, sizeof(value));
        for (unsigned i = 0; i < 8; i++) {
            struct dev_kv_change change = {
                .space = (enum dev_space)base_prng_below(&prng, DEV_SPACE_COUNT),
                .key = keys[i],
                .key_size = random_key(&prng, keys[i]),
                .value = base_prng_below(&prng, 3) == 0 ? NULL : value,
            };
            change.value_size =
                change.value != NULL ? (uint32_t)base_prng_below(&prng, sizeof(value)) : 0;
            bool twice = false;
            for (uint32_t j = 0; j < count; j++) {
                twice = twice || (changes[j].space == change.space &&
                                  changes[j].key_size == change.key_size &&
                                  memcmp(changes[j].key, change.key, change.key_size) == 0);
            }
            if (!twice) {
                changes[count++] = change;
            }
        }
        assert_int_equal(rig.port.commit(rig.port.ctx, changes, count), BASE_OK);
        assert_int_equal(rig.oracle.commit(rig.oracle.ctx, changes, count), BASE_OK);
        for (unsigned i = 0; i < 10; i++) {
            compare_reads(&rig, &prng);
        }
        if (round % 50 == 49) {
            posix_kv_free(rig.kv);
            rig_open(&rig, 0, 0);
        }
    }
    rig_done(&rig);
}

static enum base_status put_large(struct rig *rig, uint32_t number)
{
    static uint8_t value[20000];
    memset(value, (int)number, sizeof(value));
    const struct dev_kv_change change = {
        .space = DEV_SPACE_QUEUE,
        .key = (const uint8_t *)&number,
        .key_size = sizeof(number),
        .value = value,
        .value_size = sizeof(value),
    };
    return rig->port.commit(rig->port.ctx, &change, 1);
}

static bool count_only(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                       size_t value_size)
{
    (void)key;
    (void)key_size;
    (void)value;
    uint32_t *count = ctx;
    *count += value_size == 20000 ? 1 : 0;
    return true;
}

static uint32_t count_large(struct rig *rig)
{
    uint32_t count = 0;
    const struct dev_kv_range all = {.space = DEV_SPACE_QUEUE};
    assert_int_equal(rig->port.scan(rig->port.ctx, &all, count_only, &count), BASE_OK);
    return count;
}

static void the_map_grows_and_then_is_full(void **state)
{
    (void)state;
    struct rig rig;
    uint32_t stored = 0;
    rig_init(&rig, 128 * 1024, 2 * 1024 * 1024);
    enum base_status status = put_large(&rig, 0);
    while (status == BASE_OK) {
        stored++;
        status = put_large(&rig, stored);
    }
    assert_int_equal(status, BASE_ERR_FULL);
    assert_true(stored > 80);
    assert_int_equal(count_large(&rig), stored);
    posix_kv_free(rig.kv); // a map larger than the first one is opened as it is
    rig_open(&rig, 128 * 1024, 2 * 1024 * 1024);
    assert_int_equal(count_large(&rig), stored);
    for (uint32_t i = 0; i < 20; i++) { // what was given back can be used again
        const struct dev_kv_change gone = {
            .space = DEV_SPACE_QUEUE, .key = (const uint8_t *)&i, .key_size = sizeof(i)};
        assert_int_equal(rig.port.commit(rig.port.ctx, &gone, 1), BASE_OK);
    }
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(put_large(&rig, 1000 + i), BASE_OK);
    }
    assert_int_equal(count_large(&rig), stored - 10);
    rig_done(&rig);
}

static void damage_is_set_aside(void **state)
{
    (void)state;
    struct rig rig;
    char path[128];
    rig_init(&rig, 0, 0);
    for (unsigned round = 0; round < 2; round++) { // the second time over an earlier damaged one
        assert_int_equal(put_large(&rig, 1), BASE_OK);
        posix_kv_free(rig.kv);
        (void)snprintf(path, sizeof(path), "%s/pipeline/data.mdb", rig.dir);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        static uint8_t noise[8192];
        memset(noise, 0x5a, sizeof(noise));
        assert_int_equal(pwrite(fd, noise, sizeof(noise), 0), sizeof(noise));
        assert_int_equal(close(fd), 0);
        rig_open(&rig, 0, 0);
        assert_int_equal(count_large(&rig), 0);
        (void)snprintf(path, sizeof(path), "%s/pipeline.damaged/data.mdb", rig.dir);
        assert_int_equal(access(path, F_OK), 0);
    }
    rig_done(&rig);
}

static void a_bad_folder_is_an_error_with_a_name(void **state)
{
    (void)state;
    const struct posix_kv_options options = {.dir = "/nonexistent/folder"};
    struct posix_kv *kv = NULL;
    struct base_error error = {0};
    assert_int_equal(posix_kv_new(&options, &kv, &error), BASE_ERR_NOT_FOUND);
    assert_null(kv);
    assert_non_null(strstr(error.text, "/nonexistent/folder"));
    posix_kv_free(NULL);
}

static void collective_storage_stands_on_it(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, 0, 0);
    void *memory = malloc(dev_collect_bytes());
    for (unsigned life = 0; life < 5; life++) {
        struct dev_collect *collect = NULL;
        assert_int_equal(dev_collect_init(memory, dev_collect_bytes(), &rig.port, &collect),
                         BASE_OK);
        assert_int_equal(dev_collect_boot(collect, 0), BASE_OK);
        assert_int_equal(dev_collect_usage(collect, DEV_SPACE_EVENTS), life * 100 * 9);
        for (uint32_t i = 0; i < 100; i++) {
            uint32_t key = life * 100 + i;
            static const uint8_t value[] = {'v', 'a', 'l', 'u', 'e'};
            assert_int_equal(
                dev_collect_put(collect, i,
                                (struct dev_kv_key){DEV_SPACE_EVENTS, &key, sizeof(key)},
                                (struct base_span){value, sizeof(value)}, false),
                BASE_OK);
            (void)dev_collect_step(collect, i);
        }
        assert_int_equal(dev_collect_flush(collect, 100), BASE_OK);
        struct dev_collect_stats stats;
        dev_collect_stats(collect, &stats);
        assert_int_equal(stats.commits, 2);
        posix_kv_free(rig.kv);
        rig_open(&rig, 0, 0);
    }
    free(memory);
    rig_done(&rig);
}

// What the end of the disk cuts short found no room, though LMDB says EIO.
static void a_full_disk_is_full(void **state)
{
    (void)state;
    static uint8_t value[50000];
    struct rig rig;
    struct rlimit before;
    rig_init(&rig, 0, 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 200000, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum base_status status = BASE_OK;
    uint8_t key = 0;
    for (; status == BASE_OK && key < 100; key++) {
        const struct dev_kv_change change = {
            .key = &key, .key_size = 1, .value = value, .value_size = sizeof(value)};
        status = rig.port.commit(rig.port.ctx, &change, 1);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_ERR_FULL);
    assert_true(key > 1);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_does_what_the_one_in_memory_does),
        cmocka_unit_test(the_map_grows_and_then_is_full),
        cmocka_unit_test(a_full_disk_is_full),
        cmocka_unit_test(damage_is_set_aside),
        cmocka_unit_test(a_bad_folder_is_an_error_with_a_name),
        cmocka_unit_test(collective_storage_stands_on_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
