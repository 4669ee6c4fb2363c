// Stored content that is damaged: it is never run, told once, brought again while the version stays
// where it is; whatever the file, the version, the moment.
#include "device_rig.h"
#include "exclusive_rig.h"

#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK    "demo/score"
#define EVERY_S 60
#define CHANGES 400
#define DAY_US  (86400 * 1000000ull)

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_version_add(&rig, TASK, 3, 3000, WIRE_RUNTIME_ABI, EVERY_S);
    rig_version_add(&rig, TASK, 3, 4000, WIRE_RUNTIME_ABI, EVERY_S);
    rig_version_add(&rig, TASK, 2, 2000, WIRE_RUNTIME_ABI, EVERY_S);
    rig_boot(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_false(rig.ran_unverified);
    rig_done(&rig);
    return 0;
}

static void offer(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {.task = TASK,
                                      .version = version,
                                      .counter = counter,
                                      .rollout_id = 0x100 + counter,
                                      .salt = counter};
    rig_offer(&rig, &statement);
}

// The rollout is over: from then on nothing is offered.
static void install(uint32_t version, uint64_t counter)
{
    offer(version, counter);
    rig_checkin(&rig);
    rig_offer_none(&rig);
    assert_int_equal(rig_active(&rig, TASK), (int)version);
}

static struct mem_blob *blob_of(uint32_t version, uint32_t file)
{
    const struct rig_version *of = &rig.versions[version];
    struct mem_blob *blob =
        mem_blob_find(&rig.port, file < of->file_count ? &of->files[file].digest : &of->manifest);
    assert_non_null(blob);
    return blob;
}

static void flip(uint32_t version, uint32_t file)
{
    blob_of(version, file)->bytes[7] ^= 0x10;
}

static bool whole(uint32_t version)
{
    const struct rig_version *of = &rig.versions[version];
    for (uint32_t i = 0; i < of->file_count; i++) {
        const struct mem_blob *blob = mem_blob_find(&rig.port, &of->files[i].digest);
        if (blob == NULL || !blob->sealed || blob->size != of->files[i].size ||
            memcmp(blob->bytes, of->files[i].bytes, blob->size) != 0) {
            return false;
        }
    }
    const struct mem_blob *blob = mem_blob_find(&rig.port, &of->manifest);
    return blob != NULL && blob->sealed && blob->size == of->size &&
           memcmp(blob->bytes, of->bytes, blob->size) == 0;
}

static void run_due(void)
{
    mem_clock_advance(&rig.port, (EVERY_S + 1) * 1000000ull);
    rig_checkin(&rig);
}

// Each file of the active version in turn, the manifest last.
static void test_damaged_content_is_not_run(void **state)
{
    (void)state;
    install(0, 1);
    for (uint32_t file = 0; file <= rig.versions[0].file_count; file++) {
        uint32_t runs = rig.versions[0].runs;
        uint32_t told = rig_count(&rig, WIRE_OUTCOME_FAIL_INTEGRITY);
        flip(0, file);
        run_due();
        assert_false(rig.ran_unverified);
        assert_true(rig.versions[0].runs > runs); // mended, and ran
        assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_INTEGRITY), told + 1);
        assert_true(whole(0));
        assert_int_equal(rig_active(&rig, TASK), 0);
    }
    const struct rig_outcome *last = rig_last(&rig, WIRE_OUTCOME_FAIL_INTEGRITY);
    assert_string_equal(last->detail, "manifest: stored content is damaged");
    assert_int_equal(last->outcome.rollout_id, 0x101);
    assert_int_equal(last->outcome.version_id, wire_version_id(&rig.versions[0].manifest));
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ACTIVATED), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_LOAD), 0);
}

// The way back is looked after while nobody needs it: at boot and once a day.
static void test_the_kept_version_is_checked(void **state)
{
    (void)state;
    install(0, 1);
    install(1, 2);
    assert_int_equal(rig_kept(&rig, TASK), 0);
    for (uint32_t file = 0; file <= rig.versions[0].file_count; file++) {
        flip(0, file);
        if (file % 2 == 0) {
            rig_kill(&rig);
            rig_boot(&rig);
            rig_checkin(&rig);
        } else {
            mem_clock_advance(&rig.port, DAY_US);
            rig_checkin(&rig);
        }
        assert_true(whole(0));
        assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_INTEGRITY), file + 1);
    }
    assert_int_equal(rig_kept(&rig, TASK), 0);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig_last(&rig, WIRE_OUTCOME_FAIL_INTEGRITY)->outcome.rollout_id, 0x101);
}

// A file without its middle, one without its end, one that is gone.
static void test_lost_content(void **state)
{
    (void)state;
    install(0, 1);
    struct mem_blob *blob = blob_of(0, 0);
    blob->size -= 5;
    run_due();
    assert_true(whole(0));
    blob = blob_of(0, 1);
    free(blob->bytes);
    memset(blob, 0, sizeof(*blob));
    run_due();
    assert_true(whole(0));
    blob = blob_of(0, rig.versions[0].file_count);
    free(blob->bytes);
    memset(blob, 0, sizeof(*blob));
    run_due();
    assert_true(whole(0));
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_INTEGRITY), 3);
    assert_int_equal(rig_active(&rig, TASK), 0);
}

static struct wire_sha256 grown; // its blob is said to be that large, and must not be read
#define GROWN_BYTES (UINT64_C(3) << 30)
static struct dev_storage_port sound;

static enum base_status stat_grown(void *ctx, const struct wire_sha256 *name, uint64_t *out_bytes,
                                   bool *out_sealed)
{
    enum base_status status = sound.blob_stat(ctx, name, out_bytes, out_sealed);
    if (status == BASE_OK && wire_sha256_equal(name, &grown)) {
        *out_bytes = GROWN_BYTES;
    }
    return status;
}

static enum base_status map_grown(void *ctx, const struct wire_sha256 *name,
                                  const uint8_t **out_bytes, size_t *out_size)
{
    assert_false(wire_sha256_equal(name, &grown));
    return sound.blob_map(ctx, name, out_bytes, out_size);
}

static enum base_status delete_grown(void *ctx, const struct wire_sha256 *name)
{
    grown = wire_sha256_equal(name, &grown) ? (struct wire_sha256){{0}} : grown;
    return sound.blob_delete(ctx, name);
}

// A manifest that somebody made larger than any may be is not read into memory, but brought again.
static void test_content_that_grew_is_not_read(void **state)
{
    (void)state;
    install(0, 1);
    sound = rig.ports.storage;
    rig.ports.storage.blob_stat = stat_grown;
    rig.ports.storage.blob_map = map_grown;
    rig.ports.storage.blob_delete = delete_grown;
    grown = rig.versions[0].manifest;
    run_due();
    assert_true(wire_sha256_is_zero(&grown));
    assert_true(whole(0));
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_INTEGRITY), 1);
    assert_int_equal(rig_active(&rig, TASK), 0);
    rig.ports.storage = sound;
}

// On trial: the mark of a run that never began is no crash, and the version is not given up.
static void test_on_trial(void **state)
{
    (void)state;
    install(0, 1);
    rig.port.task.refuse = BASE_ERR_BUSY; // the run of the new version waits
    offer(1, 2);
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 5 * 1000000ull);
    assert_int_equal(rig_active(&rig, TASK), 1);
    flip(1, 0);
    rig.port.task.refuse = BASE_OK;
    rig_run(&rig, 1000000ull);
    rig_kill(&rig); // in the middle of the repair, or after it
    rig_boot(&rig);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_CRASH), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 0);
    assert_true(rig.versions[1].runs > 0);
}

// Where content cannot be brought the kept version takes over; without one the device asks again.
static void test_content_that_is_not_to_be_had(void **state)
{
    (void)state;
    install(0, 1);
    flip(0, 0);
    rig.blob_status = 404;
    rig.run_on = true;
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 4 * 3600 * 1000000ull);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_INTEGRITY), 1);
    rig.blob_status = 0;
    rig_run(&rig, 3600 * 1000000ull);
    assert_true(whole(0));
    rig.run_on = false;
    install(1, 2);
    flip(1, 0);
    rig.blob_status = 404;
    rig.run_on = true;
    rig_run(&rig, 4 * 3600 * 1000000ull);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 1);
    rig.blob_status = 0;
    rig.run_on = false;
    offer(1, 2); // it is not refused: the content was lost here
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

// A storage that keeps nothing whole: after a few repairs the version is refused, not fetched for
// ever.
static void test_storage_that_spoils_everything(void **state)
{
    (void)state;
    install(0, 1);
    install(1, 2);
    for (int i = 0; i < 40 && rig_active(&rig, TASK) == 1; i++) {
        rig.hold_runs = true;
        mem_clock_advance(&rig.port, (EVERY_S + 1) * 1000000ull);
        dev_checkin_now(rig.runtime);
        for (int step = 0; step < 50 && rig.port.task.current.run == 0; step++) {
            rig_run(&rig, 1000000ull);
        }
        uint32_t run = rig.port.task.current.run;
        assert_true(run != 0);
        rig.port.task.current.run = 0; // the port finds that the copy it made is damaged
        const struct dev_task_end end = {.outcome = WIRE_OUTCOME_FAIL_INTEGRITY,
                                         .detail = BASE_STR("file0")};
        dev_on_task_end(rig.runtime, run, &end);
    }
    rig.hold_runs = false;
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0);
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_ROLLED_BACK), 1);
    offer(1, 2);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 0); // refused until something else is signed
}

// A newer version goes before the repair, and ends it.
static void test_a_newer_version_overtakes(void **state)
{
    (void)state;
    install(0, 1);
    flip(0, 1);
    mem_clock_advance(&rig.port, (EVERY_S + 1) * 1000000ull);
    rig.stall_bodies = 1;
    dev_checkin_now(rig.runtime);
    rig_run(&rig, 1000000ull);
    offer(1, 2);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_true(whole(1));
    rig_run(&rig, 600 * 1000000ull);
    assert_int_equal(rig_kept(&rig, TASK), 0);
    assert_true(whole(0));
}

// The newest record is damaged: the device goes on from the one before, under another epoch, for
// the numbers of what it told since are used. Without both the gateway brings everything again.
static void test_damaged_state(void **state)
{
    (void)state;
    install(0, 1);
    install(1, 2);
    struct mem_storage *storage = &rig.port.storage;
    for (int lost = 0; lost < 2; lost++) {
        uint32_t epoch = rig.ledger[rig.ledger_count - 1].epoch;
        uint32_t ran = rig_count(&rig, WIRE_OUTCOME_RAN);
        rig_kill(&rig);
        storage->state[storage->state_bytes / 2] ^= 1;
        storage->before[9] ^= lost == 1 ? 1 : 0;
        rig_boot(&rig);
        assert_int_equal(rig_active(&rig, TASK), lost == 0 ? 1 : -1);
        offer(1, 2);
        rig_checkin(&rig);
        rig_offer_none(&rig);
        assert_int_equal(rig_active(&rig, TASK), 1);
        offer(2, 3);
        rig_checkin(&rig);
        assert_int_equal(rig_active(&rig, TASK), 2);
        assert_true(rig_count(&rig, WIRE_OUTCOME_RAN) > ran);
        assert_true(rig.ledger[rig.ledger_count - 1].epoch != epoch);
        rig_offer_none(&rig);
        install(1, 4);
    }
}

static struct {
    int failed;
    int stored;
} unsaved;

static void on_unsaved(void *app, enum base_status status)
{
    (void)app;
    *(status == BASE_OK ? &unsaved.stored : &unsaved.failed) += 1;
}

// A store that refuses for an hour is told of once, and tried at longer and longer waits.
static void test_state_that_cannot_be_stored(void **state)
{
    (void)state;
    struct mem_storage *storage = &rig.port.storage;
    install(0, 1);
    rig.ports.on_unsaved = on_unsaved;
    storage->fail_status = BASE_ERR_FULL;
    storage->fail_from = storage->operations + 1;
    uint64_t before = storage->operations;
    offer(1, 2);
    dev_checkin_now(rig.runtime);
    rig.run_on = true;
    rig_run(&rig, 3600 * 1000000ull);
    assert_int_equal(unsaved.failed, 1);
    assert_int_equal(unsaved.stored, 0);
    assert_true(storage->operations - before < 600);
    storage->fail_from = 0;
    rig_run(&rig, 600 * 1000000ull);
    rig.run_on = false;
    assert_int_equal(unsaved.failed, 1);
    assert_int_equal(unsaved.stored, 1);
    rig_checkin(&rig);
    assert_int_equal(rig_active(&rig, TASK), 1);
}

// Any byte of any blob, at any moment: nothing unproven runs, all is whole in the end.
static void test_random_changes(void **state)
{
    (void)state;
    struct base_prng prng;
    uint64_t seed = base_entropy_u64();
    print_message("seed %llu\n", (unsigned long long)seed);
    base_prng_seed(&prng, seed);
    install(0, 1);
    install(1, 2);
    for (uint32_t i = 0; i < CHANGES; i++) {
        uint32_t version = (uint32_t)base_prng_below(&prng, 2);
        uint32_t file = (uint32_t)base_prng_below(&prng, rig.versions[version].file_count + 1);
        struct mem_blob *blob = blob_of(version, file);
        blob->bytes[base_prng_below(&prng, blob->size)] ^=
            (uint8_t)(1u << base_prng_below(&prng, 8));
        if (base_prng_below(&prng, 2) == 0) {
            rig_kill(&rig);
            rig_boot(&rig);
        } else {
            mem_clock_advance(&rig.port, DAY_US);
        }
        rig_checkin(&rig);
        assert_false(rig.ran_unverified);
        if (!whole(0) || !whole(1)) {
            fail_msg("change %u of version %u, file %u is not mended", i, version, file);
        }
        assert_int_equal(rig_active(&rig, TASK), 1);
        assert_int_equal(rig_kept(&rig, TASK), 0);
    }
    assert_int_equal(rig_count(&rig, WIRE_OUTCOME_FAIL_INTEGRITY), CHANGES);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_damaged_content_is_not_run),
        CASE(test_the_kept_version_is_checked),
        CASE(test_lost_content),
        CASE(test_content_that_grew_is_not_read),
        CASE(test_on_trial),
        CASE(test_content_that_is_not_to_be_had),
        CASE(test_storage_that_spoils_everything),
        CASE(test_a_newer_version_overtakes),
        CASE(test_damaged_state),
        CASE(test_state_that_cannot_be_stored),
        CASE(test_random_changes),
    };
#undef CASE
    return cmocka_run_group_tests(tests, NULL, NULL);
}
