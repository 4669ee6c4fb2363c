// What tasks keep, in the pipeline: saved with the end of the start that made it, whole or not at
// all wherever the process is killed; refused where the version declares none or it is too large;
// gone with its task.
#include "pipeline_rig.h"

#include "pipeline/storage/task_store.h"

static uint32_t store_kib;

static void declare_store(enum wire_store_keep keep)
{
    static uint8_t bytes[256];
    const struct wire_declaration declaration = {
        .trigger_count = 1,
        .triggers = {BASE_STR("exit(item)")},
        .events = WIRE_EVENTS_MATCHED,
        .result_upload = WIRE_DECLARATION_NO_UPLOAD,
        .store_kib = store_kib,
        .store_keep = keep,
    };
    size_t size = 0;
    assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof(bytes), &size), BASE_OK);
    const struct dev_pipeline_task task = {.task_id = wire_task_id(BASE_STR(TASK)),
                                           .name = BASE_STR(TASK),
                                           .declaration = {(const char *)bytes, size}};
    assert_int_equal(dev_pipeline_declare(rig.pipeline, rig.now_us, &task, 1), BASE_OK);
}

static const struct dev_task_store_of *of_task(void)
{
    static struct dev_task_store_of of;
    of = (struct dev_task_store_of){.task_id = wire_task_id(BASE_STR(TASK))};
    return &of;
}

// The number that is kept under "n"; 0: none. With `padding` bytes beside it.
static uint32_t kept(size_t *out_padding)
{
    static uint8_t bytes[WIRE_STORE_IMAGE_MAX];
    struct wire_store store;
    struct base_span value = {NULL, 0};
    size_t size = 0;
    assert_int_equal(dev_task_store_load(rig.collect, of_task(), bytes, &size), BASE_OK);
    assert_int_equal(wire_store_parse(bytes, size, &store), BASE_OK);
    if (out_padding != NULL) {
        *out_padding =
            wire_store_find(&store, BASE_STR("padding"), &value) == BASE_OK ? value.size : 0;
    }
    return wire_store_find(&store, BASE_STR("n"), &value) == BASE_OK ? value.data[0] : 0;
}

static struct dev_effect image_of(uint32_t n, size_t padding)
{
    static uint8_t bytes[WIRE_STORE_IMAGE_MAX];
    static const uint8_t zeros[WIRE_STORE_QUOTA_KIB_MAX * 1024];
    struct wire_store store;
    const uint8_t number = (uint8_t)n;
    wire_store_init(&store, bytes, 0);
    if (n > 0) {
        assert_int_equal(
            wire_store_put(&store, BASE_STR("n"), (struct base_span){&number, 1}, 65536), BASE_OK);
    }
    if (padding > 0) {
        assert_int_equal(
            wire_store_put(&store, BASE_STR("padding"), (struct base_span){zeros, padding}, 65536),
            BASE_OK);
    }
    return (struct dev_effect){
        .kind = DEV_EFFECT_SAVE, .format = WIRE_RECORD_BYTES, .bytes = bytes, .size = store.size};
}

static void visit_item(void)
{
    record(DEV_EVENT_ENTER, "item", 0);
    record(DEV_EVENT_EXIT, "item", 0);
    step();
}

static int begin(void **state)
{
    store_kib = 64;
    return setup(state);
}

static void is_kept_across_a_boot(void **state)
{
    (void)state;
    static const size_t paddings[] = {0, 1000, 20000, 60000};
    for (uint32_t i = 0; i < TEST_COUNT(paddings); i++) {
        size_t padding = 0;
        declare_store(WIRE_STORE_VERSIONS);
        visit_item();
        const struct dev_effect effect = image_of(i + 1, paddings[i]);
        run_ends(true, "", &effect, 1);
        assert_int_equal(kept(&padding), i + 1); // also while it waits
        assert_int_equal(padding, paddings[i]);
        step();
        assert_int_equal(boot(), BASE_OK);
        assert_int_equal(kept(&padding), i + 1);
        assert_int_equal(padding, paddings[i]);
        assert_int_equal(stats().starts_again, 0); // the start went with it
    }
    declare_store(WIRE_STORE_VERSIONS);
    visit_item();
    const struct dev_effect nothing = image_of(0, 0);
    run_ends(true, "", &nothing, 1);
    step();
    assert_int_equal(kept(NULL), 0);
}

static void a_failed_run_changes_nothing(void **state)
{
    (void)state;
    declare_store(WIRE_STORE_VERSIONS);
    visit_item();
    struct dev_effect effect = image_of(1, 0);
    run_ends(true, "", &effect, 1);
    step();
    visit_item();
    effect = image_of(2, 0);
    run_ends(false, "", &effect, 1);
    step();
    assert_int_equal(kept(NULL), 1);
}

// The process is killed at each commit, before it took effect and after. A run adds one to the
// number; each match counts once, whatever happens.
static void counts_once_wherever_it_is_killed(void **state)
{
    static const size_t paddings[] = {0, 40000};
    uint32_t kills = 0;
    store_kib = 64;
    for (uint32_t i = 0; i < TEST_COUNT(paddings) * 2 * 24; i++) {
        size_t padding = paddings[i % TEST_COUNT(paddings)];
        bool applied = i / TEST_COUNT(paddings) % 2 == 1;
        assert_int_equal(setup(state), 0);
        declare_store(WIRE_STORE_VERSIONS);
        rig.kv.kill_at = rig.kv.commits + 1 + i / (2 * TEST_COUNT(paddings));
        rig.kv.kill_applied = applied;
        visit_item();
        for (uint32_t turn = 0; turn < 12; turn++) {
            if (rig.kv.killed) {
                kills++;
                mem_kv_revive(&rig.kv);
                assert_int_equal(boot(), BASE_OK);
                declare_store(WIRE_STORE_VERSIONS);
            } else if (rig.running.token != 0) {
                const struct dev_effect effect = image_of(kept(NULL) + 1, padding);
                run_ends(true, "", &effect, 1);
            }
            step();
        }
        assert_false(rig.kv.killed);
        uint32_t found = kept(NULL);
        bool seen = found > 0; // the match itself can be lost with its event
        if (found > 1 || (!seen && i / (2 * TEST_COUNT(paddings)) > 3)) {
            fail_msg("kill %u: %u", i, found);
        }
        assert_int_equal(teardown(state), 0);
    }
    assert_true(kills > 8);
    assert_int_equal(setup(state), 0);
}

static void what_is_not_declared_is_refused(void **state)
{
    (void)state;
    struct dev_effect effect = image_of(1, 3000);
    store_kib = 2;
    declare_store(WIRE_STORE_VERSIONS);
    visit_item();
    run_ends(true, "", &effect, 1);
    step();
    assert_int_equal(stats().stores_refused, 1); // over its quota
    effect.size--;
    visit_item();
    run_ends(true, "", &effect, 1);
    step();
    assert_int_equal(stats().stores_refused, 2); // damaged
    static const struct declared none = {TASK, "exit(item)", WIRE_EVENTS_MATCHED, 0, 0};
    declare(&none, 1);
    effect = image_of(1, 0);
    visit_item();
    run_ends(true, "", &effect, 1);
    step();
    assert_int_equal(stats().stores_refused, 3); // there is none
    assert_int_equal(stats().stores, 0);
    assert_int_equal(kept(NULL), 0);
    assert_int_equal(dev_pipeline_flush(rig.pipeline, rig.now_us), BASE_OK);
    assert_int_equal(boot(), BASE_OK);
    assert_int_equal(stats().starts_again, 0); // the starts are over all the same
}

// An update lowered the quota below what is there: what makes it smaller is kept, though it is
// still above; what does not is refused.
static void a_lowered_quota_lets_it_shrink(void **state)
{
    (void)state;
    static const struct {
        uint32_t n;
        size_t padding;
        bool kept;
    } ends[] = {{1, 8000, true},  {2, 9000, false}, {3, 8000, false}, {4, 5000, true},
                {5, 5001, false}, {6, 100, true},   {7, 2000, true},  {8, 5000, false}};
    uint32_t last = 0;
    size_t padding = 0;
    for (uint32_t i = 0; i < TEST_COUNT(ends); i++) {
        store_kib = i == 0 ? 64 : 2;
        declare_store(WIRE_STORE_VERSIONS);
        visit_item();
        const struct dev_effect effect = image_of(ends[i].n, ends[i].padding);
        run_ends(true, "", &effect, 1);
        step();
        last = ends[i].kept ? ends[i].n : last;
        assert_int_equal(kept(&padding), last);
    }
    assert_int_equal(stats().stores_refused, 4);
    // What another version kept is no measure for one that does not share.
    store_kib = 64;
    declare_store(WIRE_STORE_A_VERSION);
    struct dev_effect effect = image_of(20, 8000);
    wire_store_tag((uint8_t *)(uintptr_t)effect.bytes, effect.size, 7);
    visit_item();
    run_ends(true, "", &effect, 1);
    store_kib = 2;
    declare_store(WIRE_STORE_A_VERSION);
    effect = image_of(21, 5000);
    wire_store_tag((uint8_t *)(uintptr_t)effect.bytes, effect.size, 8);
    visit_item();
    run_ends(true, "", &effect, 1);
    assert_int_equal(kept(&padding), 20);
}

// A version's own store is nothing to another version, until that keeps something itself.
static void versions_that_do_not_share(void **state)
{
    (void)state;
    static uint8_t bytes[WIRE_STORE_IMAGE_MAX];
    struct dev_task_store_of of = {
        .task_id = wire_task_id(BASE_STR(TASK)), .per_version = true, .version = 7};
    struct wire_store store;
    size_t size = 0;
    const uint8_t one = 1;
    assert_int_equal(dev_task_store_load(rig.collect, &of, bytes, &size), BASE_OK);
    assert_int_equal(wire_store_parse(bytes, size, &store), BASE_OK);
    assert_int_equal(store.tag, 7);
    assert_int_equal(wire_store_put(&store, BASE_STR("n"), (struct base_span){&one, 1}, 1024),
                     BASE_OK);
    assert_int_equal(dev_task_store_save(rig.collect, rig.now_us, of.task_id, &store), BASE_OK);
    of.version = 8;
    assert_int_equal(dev_task_store_load(rig.collect, &of, bytes, &size), BASE_OK);
    assert_int_equal(wire_store_parse(bytes, size, &store), BASE_OK);
    assert_int_equal(store.keys, 0);
    of.version = 7; // back to it: it is still there
    assert_int_equal(dev_task_store_load(rig.collect, &of, bytes, &size), BASE_OK);
    assert_int_equal(wire_store_parse(bytes, size, &store), BASE_OK);
    assert_int_equal(store.keys, 1);
    of.per_version = false; // and a version that shares finds what is there
    assert_int_equal(kept(NULL), 1);
}

static void goes_with_its_task(void **state)
{
    (void)state;
    const uint64_t here = wire_task_id(BASE_STR(TASK));
    const uint64_t other = wire_task_id(BASE_STR(OTHER));
    const uint64_t both[] = {other, here};
    declare_store(WIRE_STORE_VERSIONS);
    visit_item();
    const struct dev_effect effect = image_of(5, 0);
    run_ends(true, "", &effect, 1);
    step();
    dev_pipeline_tasks_keep(rig.pipeline, rig.now_us, both, 2);
    step();
    assert_int_equal(kept(NULL), 5);
    dev_pipeline_tasks_keep(rig.pipeline, rig.now_us, &other, 1);
    step();
    assert_int_equal(kept(NULL), 0);
    // Where nobody keeps anything the storage is not even asked.
    uint64_t scans = rig.kv.scans;
    dev_pipeline_tasks_keep(rig.pipeline, rig.now_us, &other, 1);
    dev_pipeline_tasks_keep(rig.pipeline, rig.now_us, both, 2);
    assert_int_equal(rig.kv.scans, scans);
}

// A store that was damaged on the disk is an empty one.
static void damage_loses_the_store_alone(void **state)
{
    (void)state;
    declare_store(WIRE_STORE_VERSIONS);
    visit_item();
    const struct dev_effect effect = image_of(5, 0);
    run_ends(true, "", &effect, 1);
    step();
    uint8_t key[13] = "store";
    uint64_t id = wire_task_id(BASE_STR(TASK));
    for (unsigned i = 0; i < 8; i++) {
        key[5 + i] = (uint8_t)(id >> (56 - 8 * i));
    }
    assert_int_equal(mem_kv_damage(&rig.kv, DEV_SPACE_STATE, key, sizeof(key), 0), BASE_OK);
    assert_int_equal(boot(), BASE_OK);
    assert_int_equal(kept(NULL), 0);
    rig.kv.read_status = BASE_ERR_IO;
    static uint8_t bytes[WIRE_STORE_IMAGE_MAX];
    size_t size = 0;
    assert_int_equal(dev_task_store_load(rig.collect, of_task(), bytes, &size), BASE_ERR_IO);
    rig.kv.read_status = BASE_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(is_kept_across_a_boot, begin, teardown),
        cmocka_unit_test_setup_teardown(a_failed_run_changes_nothing, begin, teardown),
        cmocka_unit_test_setup_teardown(counts_once_wherever_it_is_killed, NULL, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_declared_is_refused, begin, teardown),
        cmocka_unit_test_setup_teardown(a_lowered_quota_lets_it_shrink, begin, teardown),
        cmocka_unit_test_setup_teardown(versions_that_do_not_share, begin, teardown),
        cmocka_unit_test_setup_teardown(goes_with_its_task, begin, teardown),
        cmocka_unit_test_setup_teardown(damage_loses_the_store_alone, begin, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
