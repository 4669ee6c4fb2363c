// Bytecode of virtual devices is checked once per content: what has passed, what has not, and what
// only says that it is such content.
#include "test_kit.h"

#include "base/error.h"
#include "device/device.h"
#include "ports/sim_task.h"

#include <stdlib.h>

#define FILES 2

static struct test_alloc alloc;
static struct sim_store *store;
static struct sim_runner runner;
static struct wire_manifest manifest;
static struct dev_task_file files[FILES];
static uint8_t *owned[FILES];

static void name_of(const uint8_t *bytes, size_t size, struct wire_sha256 *out)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, out);
}

// The file is content of the store, as on a device that shares.
static void share(uint32_t at, const uint8_t *bytes, size_t size)
{
    const struct sim_blob *blob = NULL;
    struct wire_sha256 name;
    name_of(bytes, size, &name);
    assert_int_equal(sim_store_add(store, &name, bytes, size, &blob), BASE_OK);
    files[at].bytes = blob->bytes;
    files[at].size = size;
    files[at].digest = name;
}

static void compile(uint32_t at, const char *file_name, const char *source)
{
    size_t size = 0;
    struct base_error error = {0};
    assert_int_equal(
        dev_vm_compile(base_str_of(source), base_str_of(file_name), &owned[at], &size, &error),
        BASE_OK);
    files[at] = (struct dev_task_file){.kind = WIRE_FILE_SCRIPT};
    share(at, owned[at], size);
}

static enum wire_outcome_kind run(bool real)
{
    const struct wire_attrs attrs = {0};
    const struct sim_run_data data = {.real = real};
    struct dev_task_job job = {
        .attrs = &attrs, .manifest = &manifest, .files = files, .file_count = FILES};
    struct sim_task_end end;
    sim_runner_run(&runner, &job, &data, &end);
    return end.end.outcome;
}

static void expect(uint64_t made, uint64_t shared, uint64_t compared, uint64_t mismatches)
{
    assert_int_equal(runner.checks.made, made);
    assert_int_equal(runner.checks.shared, shared);
    assert_int_equal(runner.checks.compared, compared);
    assert_int_equal(runner.checks.mismatches, mismatches);
}

static void content_is_checked_once(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(run(false), WIRE_OUTCOME_RAN);
        expect(2, 2 * (uint64_t)i, 0, 0);
    }
}

// A device that shares nothing has its own bytes; both answers are compared.
static void a_real_device_checks_and_compares(void **state)
{
    (void)state;
    static uint8_t own[1024];
    assert_int_equal(run(true), WIRE_OUTCOME_RAN);
    expect(2, 0, 0, 0); // nothing was known
    assert_true(files[0].size <= sizeof(own));
    memcpy(own, files[0].bytes, files[0].size);
    files[0].bytes = own;
    assert_int_equal(run(true), WIRE_OUTCOME_RAN);
    expect(4, 0, 2, 0);
}

// Whatever does not pass is checked each time it comes.
static void damaged_content_never_passes(void **state)
{
    (void)state;
    static uint8_t damaged[1024];
    size_t size = files[1].size;
    assert_true(size <= sizeof(damaged));
    memcpy(damaged, files[1].bytes, size);
    damaged[1]++; // of another version
    share(1, damaged, size);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(run(false), WIRE_OUTCOME_FAIL_LOAD);
        expect(2 + i, i, 0, 0);
    }
    // Known as good by mistake: a real device finds that out.
    memset(runner.checks.passed, 0xff, sizeof(runner.checks.passed));
    assert_int_equal(run(true), WIRE_OUTCOME_FAIL_LOAD);
    expect(5, 1, 2, 1);
}

// Bytes that have the digest of good content in their manifest and are others.
static void a_digest_is_no_proof(void **state)
{
    (void)state;
    static uint8_t other[1024];
    assert_int_equal(run(false), WIRE_OUTCOME_RAN);
    memcpy(other, files[1].bytes, files[1].size);
    other[1]++;
    files[1].bytes = other;
    assert_int_equal(run(false), WIRE_OUTCOME_FAIL_LOAD);
    expect(3, 1, 0, 0);
    assert_int_equal(run(true), WIRE_OUTCOME_FAIL_LOAD);
    expect(5, 1, 1, 0);
}

static int setup(void **state)
{
    (void)state;
    test_alloc_init(&alloc, SIZE_MAX);
    assert_int_equal(sim_store_new(&alloc.port, dev_crypto_openssl(), &store), BASE_OK);
    sim_runner_init(&runner, store);
    manifest.entry = BASE_STR("main");
    compile(0, "main.py", "import other\n");
    compile(1, "other.py", "x = 1\n");
    files[0].name = BASE_STR("main.mpy");
    files[1].name = BASE_STR("other.mpy");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_runner_done(&runner);
    sim_store_free(store);
    for (uint32_t i = 0; i < FILES; i++) {
        free(owned[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(content_is_checked_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_real_device_checks_and_compares, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_content_never_passes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_digest_is_no_proof, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
