// A whole run in one process, on one thread and on two: the same devices, the same failures, the
// same numbers; and a shard by hand, whose crowd does not keep it from its sockets. Also run under
// the thread sanitizer.
#include "test_kit.h"

#include "base/clock.h"
#include "device/device.h"
#include "command/fleet_options.h"
#include "run/fleet_run.h"
#include "vm/vm.h"
#include "wire/manifest.h"

#include <ftw.h>
#include <jansson.h>
#include <unistd.h>

static char folder[] = "/tmp/walle-threads-XXXXXX";

static struct wire_sha256 hash(const uint8_t *bytes, size_t size)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    struct wire_sha256 digest;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    return digest;
}

static void write_file(const char *name, const uint8_t *bytes, size_t size)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int build_version(void **state)
{
    (void)state;
    uint8_t *mpy = NULL;
    size_t size = 0;
    struct base_error error = {0};
    assert_non_null(mkdtemp(folder));
    assert_int_equal(dev_vm_compile(BASE_STR("total = sum([i * i for i in range(20)])\n"),
                                    BASE_STR("main.py"), &mpy, &size, &error),
                     BASE_OK);
    static struct wire_manifest manifest;
    manifest = (struct wire_manifest){.task_name = BASE_STR("probe"),
                                      .version = BASE_STR("1.0.0"),
                                      .runtime_abi = WIRE_RUNTIME_ABI,
                                      .entry = BASE_STR("main"),
                                      .file_count = 1};
    manifest.files[0] = (struct wire_manifest_file){.kind = WIRE_FILE_SCRIPT,
                                                    .name = BASE_STR("main.mpy"),
                                                    .bytes = size,
                                                    .digest = hash(mpy, size)};
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(&manifest.files[0].digest, hex);
    write_file(hex, mpy, size);
    free(mpy);
    static uint8_t bytes[WIRE_MANIFEST_BYTES_MAX];
    size_t encoded = 0;
    assert_int_equal(wire_manifest_encode(&manifest, bytes, sizeof(bytes), &encoded), BASE_OK);
    write_file("manifest", bytes, encoded);
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static int remove_all(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

// Runs and returns run.json.
static json_t *simulate(const char *threads, const char *kills, int expected)
{
    static struct sim_options options;
    static const volatile sig_atomic_t never = 0;
    char manifest[300];
    char out[300];
    struct base_error error = {0};
    (void)snprintf(manifest, sizeof(manifest), "%s/manifest", folder);
    (void)snprintf(out, sizeof(out), "%s/out", folder);
    char *words[] = {"walle-fleet-sim",
                     "simulate",
                     "--manifest",
                     manifest,
                     "--blobs",
                     folder,
                     "--devices",
                     "300",
                     "--threads",
                     (char *)threads,
                     "--kills",
                     (char *)kills,
                     "--bad",
                     "os == ios => exception @ 50%",
                     "--max-failure",
                     "50%",
                     "--real-every",
                     "10",
                     "--no-live",
                     "--out",
                     out,
                     NULL};
    enum base_status status =
        sim_options_parse((int)TEST_COUNT(words) - 1, words, &options, &error);
    if (status != BASE_OK) {
        fail_msg("%s", error.text);
    }
    FILE *log = tmpfile();
    assert_non_null(log);
    assert_int_equal(sim_fleet_run(&options, &never, log), expected);
    (void)fclose(log);
    char path[320];
    json_error_t where;
    (void)snprintf(path, sizeof(path), "%s/run.json", out);
    json_t *root = json_load_file(path, 0, &where);
    assert_non_null(root);
    return root;
}

static json_int_t number(const json_t *root, const char *name)
{
    return json_integer_value(json_object_get(root, name));
}

static void threads_do_not_change_the_result(void **state)
{
    (void)state;
    json_t *one = simulate("1", "0", SIM_EXIT_OK);
    json_t *two = simulate("2", "0", SIM_EXIT_OK);
    assert_int_equal(number(one, "completed"), 300);
    assert_int_equal(number(two, "completed"), 300);
    assert_true(number(one, "failed") > 20);
    assert_int_equal(number(one, "failed"), number(two, "failed"));
    assert_true(
        json_equal(json_object_get(one, "failing_slice"), json_object_get(two, "failing_slice")));
    assert_true(json_equal(json_object_get(one, "versions"), json_object_get(two, "versions")));
    json_decref(one);
    json_decref(two);
}

static void kills_on_two_threads(void **state)
{
    (void)state;
    json_t *root = simulate("2", "30%", SIM_EXIT_OK);
    assert_int_equal(number(root, "completed"), 300);
    assert_true(number(json_object_get(root, "totals"), "crashes") > 10);
    json_decref(root);
}

// A clock that a look at it moves by a millisecond.
static uint64_t looks = 0;

static uint64_t look_us(void *ctx)
{
    (void)ctx;
    return ++looks * 1000;
}

static uint32_t count_line(const struct sim_line *line)
{
    uint32_t count = 0;
    for (const struct sim_awake *awake = line->first; awake != NULL; awake = awake->next) {
        count++;
    }
    return count;
}

// The time of everybody who is awake and not ready has come: who was told something goes before
// them, though not for good.
static void the_due_come_after_the_told(struct sim_shard *shard)
{
    for (uint32_t i = 0; i < shard->arrived; i++) {
        const struct sim_awake *awake = sim_shard_awake(shard, i);
        if (awake != NULL && !awake->ready) {
            sim_device_timer(shard, i, looks * 1000);
        }
    }
    uint32_t due = count_line(&shard->due);
    assert_in_range(due, 10, 50);
    (void)sim_shard_turn(shard);
    assert_in_range(count_line(&shard->due), due - 5, due - 1);
    assert_true(shard->ready.first != NULL); // not all of the told came before them
}

// With hints nobody begins while as many are at work as may be awake. Who waits then is late.
static void the_due_wait_for_those_at_work(struct sim_shard *shard, struct sim_options *options)
{
    uint32_t due = count_line(&shard->due);
    uint32_t under_way = shard->under_way;
    uint32_t awake_max = options->awake_max;
    uint64_t late = shard->latencies.lag_us.count;
    assert_in_range(under_way, 2, shard->arrived);
    options->hints = true;
    options->awake_max = 1;
    (void)sim_shard_turn(shard);
    assert_int_equal(count_line(&shard->due), due);
    assert_int_equal(shard->latencies.lag_us.count, late);
    // The time limit of one that enrols is no beginning.
    struct sim_awake *enrols = shard->due.first;
    shard->due.first = enrols->next;
    enrols->ready = false;
    enrols->enrolling = (struct sim_enrolling *)(void *)shard;
    sim_device_timer(shard, enrols->device, looks * 1000);
    assert_ptr_equal(shard->ready.last, enrols);
    enrols->enrolling = NULL;
    due--;
    options->awake_max = shard->arrived + 1;
    (void)sim_shard_turn(shard);
    assert_in_range(count_line(&shard->due), due - 5, due - 1);
    assert_int_equal(shard->latencies.lag_us.count, late + due - count_line(&shard->due));
    options->hints = false;
    options->awake_max = awake_max;
}

// A crowd that is ready at once is served in parts: sockets and figures have their turn in between,
// and everybody comes to the end.
static void a_crowd_is_served_in_parts(void **state)
{
    (void)state;
    static struct sim_options options;
    static struct sim_versions versions;
    static struct sim_shard shard;
    const struct base_clock_port clock = {.mono_us = look_us,
                                          .wall_us = base_clock_real()->wall_us};
    const struct sim_share share = {.count = 300, .clock = &clock};
    struct base_error error = {0};
    char manifest[300];
    (void)snprintf(manifest, sizeof(manifest), "%s/manifest", folder);
    char *words[] = {"walle-fleet-sim", "simulate", "--manifest", manifest, "--blobs", folder,
                     "--devices",       "300",      NULL};
    assert_int_equal(sim_options_parse((int)TEST_COUNT(words) - 1, words, &options, &error),
                     BASE_OK);
    sim_versions_init(&versions);
    assert_int_equal(sim_shard_init(&shard, &share, &options, &versions), BASE_OK);
    assert_int_equal(sim_local_load(&shard, &options, &error), BASE_OK);
    shard.virtual_time = false;
    sim_shard_begin(&shard);
    looks += 1000; // everybody is due
    uint64_t due_us = sim_shard_turn(&shard);
    assert_int_equal(shard.arrived, SIM_WAKES_PER_TURN);
    assert_in_range(count_line(&shard.ready), SIM_WAKES_PER_TURN - 50, SIM_WAKES_PER_TURN - 1);
    assert_true(due_us <= looks * 1000); // the next turn is due: no waiting for sockets
    assert_int_equal(shard.mailbox.counters.arrived, SIM_WAKES_PER_TURN);
    the_due_come_after_the_told(&shard);
    the_due_wait_for_those_at_work(&shard, &options);
    uint32_t turns = 2;
    for (; turns < 10000 && (shard.arrived < 300 || shard.awake_count > 0); turns++) {
        (void)sim_shard_turn(&shard);
    }
    assert_in_range(turns, 20, 9999);
    assert_int_equal(shard.ledger.counters.runs, 300);
    sim_shard_end(&shard);
    sim_shard_done(&shard);
    sim_versions_done(&versions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_is_served_in_parts),
        cmocka_unit_test(threads_do_not_change_the_result),
        cmocka_unit_test(kills_on_two_threads),
    };
    return cmocka_run_group_tests(tests, build_version, remove_all);
}
