// The posix port's storage: what is read does not change, room is kept and given back, a save that
// cannot be made leaves the record before, and every allocation fails once.
#include "posix/store/posix_storage.h"
#include "posix/run/posix_memfd.h"

#include "failing_heap.h"
#include "test_kit.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOB_BYTES      300000u
#define ALLOCATIONS_MAX 200u

static char dir[64];
static uint8_t content[BLOB_BYTES];
static struct wire_sha256 name;

static struct wire_sha256 digest_of(const uint8_t *bytes, size_t size)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    struct wire_sha256 digest;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    return digest;
}

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(content); i++) {
        content[i] = (uint8_t)(i * 7 + i / 251);
    }
    name = digest_of(content, sizeof(content));
    (void)snprintf(dir, sizeof(dir), "/tmp/walle-storage-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct posix_storage *open_storage(void)
{
    struct posix_storage *storage = NULL;
    struct base_error error = {0};
    if (posix_storage_new(dir, NULL, &storage, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return storage;
}

static void path_of(const char *folder, char out[200])
{
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(&name, hex);
    (void)snprintf(out, 200, "%s/%s/%s", dir, folder, hex);
}

static void put_blob(const struct dev_storage_port *port)
{
    assert_int_equal(port->blob_append(port->ctx, &name, 0, content, sizeof(content)), BASE_OK);
    assert_int_equal(port->blob_seal(port->ctx, &name), BASE_OK);
}

static void test_what_is_loaded_does_not_change(void **state)
{
    (void)state;
    struct posix_storage *storage = open_storage();
    struct dev_storage_port port = posix_storage_table(storage);
    const uint8_t *bytes = NULL;
    size_t size = 0;
    char path[200];
    assert_int_equal(port.blob_load(port.ctx, &name, &bytes, &size), BASE_ERR_NOT_FOUND);
    put_blob(&port);
    assert_int_equal(port.blob_load(port.ctx, &name, &bytes, &size), BASE_OK);
    path_of("blobs", path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "changed", 7, 100), 7);
    assert_int_equal(ftruncate(fd, 50), 0);
    (void)close(fd);
    assert_int_equal(size, sizeof(content));
    assert_memory_equal(bytes, content, size);
    port.blob_unmap(port.ctx, &name, bytes, size);
    posix_storage_free(storage);
}

static long blocks_of(const char *folder)
{
    struct stat info;
    char path[200];
    path_of(folder, path);
    return stat(path, &info) == 0 ? (long)info.st_blocks : -1;
}

static void test_room_is_kept_and_given_back(void **state)
{
    (void)state;
    struct posix_storage *storage = open_storage();
    struct dev_storage_port port = posix_storage_table(storage);
    uint64_t space = 0;
    uint64_t have = 1;
    bool sealed = true;
    assert_int_equal(port.space(port.ctx, &space), BASE_OK);
    assert_true(space > 0);
    assert_int_equal(port.blob_reserve(port.ctx, &name, sizeof(content)), BASE_OK);
    assert_int_equal(port.blob_stat(port.ctx, &name, &have, &sealed), BASE_OK);
    assert_int_equal(have, 0);
    assert_false(sealed);
    assert_true(blocks_of("partial") * 512 >= (long)sizeof(content));
    assert_int_equal(port.blob_reserve(port.ctx, &name, 0), BASE_OK);
    assert_int_equal(blocks_of("partial"), -1);
    assert_int_equal(port.blob_reserve(port.ctx, &name, sizeof(content)), BASE_OK);
    assert_int_equal(port.blob_append(port.ctx, &name, 0, content, 5000), BASE_OK);
    assert_int_equal(port.blob_reserve(port.ctx, &name, 0), BASE_OK);
    assert_true(blocks_of("partial") * 512 < (long)sizeof(content) / 2);
    assert_int_equal(port.blob_stat(port.ctx, &name, &have, &sealed), BASE_OK);
    assert_int_equal(have, 5000);
    assert_int_equal(port.blob_reserve(port.ctx, &name, UINT64_C(1) << 62), BASE_ERR_FULL);
    posix_storage_free(storage);
}

static void expect_state(const struct dev_storage_port *port, const char *text)
{
    uint8_t bytes[64];
    size_t size = 0;
    assert_int_equal(port->state_load(port->ctx, bytes, sizeof(bytes), &size), BASE_OK);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
}

static void save(const struct dev_storage_port *port, const char *text, enum base_status status)
{
    assert_int_equal(port->state_save(port->ctx, (const uint8_t *)text, strlen(text)), status);
}

// The folder of the record is gone under the device: the save says so, nothing else happens.
static void test_a_save_that_fails(void **state)
{
    (void)state;
    struct posix_storage *storage = open_storage();
    struct dev_storage_port port = posix_storage_table(storage);
    char path[200];
    char moved[200];
    (void)snprintf(path, sizeof(path), "%s/state/new", dir);
    save(&port, "one", BASE_OK);
    save(&port, "two", BASE_OK);
    assert_int_equal(mkdir(path, 0700), 0); // in the way of the next one
    (void)snprintf(moved, sizeof(moved), "%s/full", path);
    assert_int_equal(mkdir(moved, 0700), 0);
    assert_true(port.state_save(port.ctx, (const uint8_t *)"x", 1) != BASE_OK);
    expect_state(&port, "two");
    assert_int_equal(rmdir(moved), 0);
    assert_int_equal(rmdir(path), 0);
    save(&port, "three", BASE_OK);
    posix_storage_free(storage);
    storage = open_storage();
    port = posix_storage_table(storage);
    expect_state(&port, "three");
    posix_storage_free(storage);
}

// True: nothing failed.
static bool try_once(size_t allowed)
{
    struct posix_storage *storage = NULL;
    struct base_error error = {0};
    struct posix_memfd_pool pool;
    struct dev_vm_model model = {.name = BASE_STR("m"), .bytes = content, .size = BLOB_BYTES};
    const struct dev_vm_job job = {.models = &model, .model_count = 1};
    const uint8_t *bytes = NULL;
    size_t size = 0;
    uint64_t memfd_bytes = 0;
    uint32_t damaged = 0;
    int fd = -1;
    model.digest = name;
    posix_memfd_pool_init(&pool);
    failing_heap_arm(allowed, true);
    enum base_status opened = posix_storage_new(dir, NULL, &storage, &error);
    enum base_status loaded = BASE_OK;
    if (opened == BASE_OK) {
        struct dev_storage_port port = posix_storage_table(storage);
        loaded = port.blob_load(port.ctx, &name, &bytes, &size);
        if (loaded == BASE_OK) {
            port.blob_unmap(port.ctx, &name, bytes, size);
        }
    }
    enum base_status copied = posix_memfd_models(&pool, &job, &fd, &memfd_bytes, &damaged);
    bool failed = failing_heap_has_failed();
    (void)failing_heap_disarm();
    posix_memfd_pool_done(&pool);
    posix_storage_free(storage);
    assert_true(opened == BASE_OK || opened == BASE_ERR_NOMEM);
    assert_true(loaded == BASE_OK || loaded == BASE_ERR_NOMEM);
    assert_true(copied == BASE_OK || copied == BASE_ERR_NOMEM);
    assert_int_equal(failed, opened != BASE_OK || loaded != BASE_OK || copied != BASE_OK);
    return !failed;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    struct posix_storage *storage = open_storage();
    struct dev_storage_port port = posix_storage_table(storage);
    put_blob(&port);
    posix_storage_free(storage);
    bool good = false;
    for (size_t allowed = 0; !good; allowed++) {
        assert_true(allowed < ALLOCATIONS_MAX);
        long before = failing_heap_live();
        good = try_once(allowed);
        assert_int_equal(failing_heap_live(), before);
    }
}

// A model that is not what its digest says is named, and no file of it is kept.
static void test_a_damaged_model_is_not_copied(void **state)
{
    (void)state;
    struct posix_memfd_pool pool;
    struct dev_vm_model models[3] = {
        {.name = BASE_STR("a"), .bytes = content, .size = 1000},
        {.name = BASE_STR("empty"), .bytes = content, .size = 0},
        {.name = BASE_STR("b"), .bytes = content + 1000, .size = BLOB_BYTES - 1000},
    };
    const struct dev_vm_job job = {.models = models, .model_count = 3};
    uint64_t bytes = 0;
    uint32_t damaged = 99;
    int fd = -1;
    for (int i = 0; i < 3; i++) {
        models[i].digest = digest_of(models[i].bytes, models[i].size);
    }
    posix_memfd_pool_init(&pool);
    content[BLOB_BYTES - 1] ^= 1;
    assert_int_equal(posix_memfd_models(&pool, &job, &fd, &bytes, &damaged), BASE_ERR_HASH);
    assert_int_equal(damaged, 2);
    content[BLOB_BYTES - 1] ^= 1;
    content[3] ^= 1;
    assert_int_equal(posix_memfd_models(&pool, &job, &fd, &bytes, &damaged), BASE_ERR_HASH);
    assert_int_equal(damaged, 0);
    content[3] ^= 1;
    assert_int_equal(posix_memfd_models(&pool, &job, &fd, &bytes, &damaged), BASE_OK);
    content[3] ^= 1; // the copy is what counts
    int again = -1;
    assert_int_equal(posix_memfd_models(&pool, &job, &again, &bytes, &damaged), BASE_OK);
    assert_int_equal(again, fd);
    uint8_t first[4];
    assert_int_equal(pread(fd, first, sizeof(first), 0), (ssize_t)sizeof(first));
    assert_int_equal(first[3], content[3] ^ 1);
    posix_memfd_pool_done(&pool);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_what_is_loaded_does_not_change),
        CASE(test_room_is_kept_and_given_back),
        CASE(test_a_save_that_fails),
        CASE(test_every_allocation_fails_once),
        CASE(test_a_damaged_model_is_not_copied),
    };
#undef CASE
    return cmocka_run_group_tests(tests, NULL, NULL);
}
