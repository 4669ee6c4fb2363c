// The tunnel's door: each record of a run is held against what its version lets leave, whatever its
// process let through, and so many a day, also across a kill.
#include "pipeline_rig.h"

#include "wire/leaves/leaves.h"
#include "wire/leaves/leaves_ledger.h"

static uint32_t per_day;

static void declare_leaves(void)
{
    static uint8_t inner[256];
    static uint8_t bytes[512];
    const struct wire_leaves leaves = {
        .upload_count = 1,
        .uploads =
            {{.name = BASE_STR("views"), .bytes_max = 32, .per_day = per_day, .field_count = 1}},
        .field_count = 1,
        .fields = {{BASE_STR("views"), WIRE_LEAVES_INTEGER, 0}},
    };
    size_t size = 0;
    assert_int_equal(wire_leaves_encode(&leaves, inner, sizeof(inner), &size), BASE_OK);
    struct wire_declaration declaration = {
        .trigger_count = 1,
        .triggers = {BASE_STR("exit(item)")},
        .events = WIRE_EVENTS_MATCHED,
        .upload_count = 2,
        .uploads = {{.name = BASE_STR("views"), .class_id = 1},
                    {.name = BASE_STR("other"), .class_id = 1}},
        .result_upload = 0,
        .leaves = {(const char *)inner, size},
    };
    assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof(bytes), &size), BASE_OK);
    const struct dev_pipeline_task task = {.task_id = wire_task_id(BASE_STR(TASK)),
                                           .name = BASE_STR(TASK),
                                           .declaration = {(const char *)bytes, size}};
    assert_int_equal(dev_pipeline_declare(rig.pipeline, rig.now_us, &task, 1), BASE_OK);
}

// A run that gives these.
static void run_gives(const char *result, const struct dev_effect *effects, uint32_t count)
{
    record(DEV_EVENT_ENTER, "item", 0);
    record(DEV_EVENT_EXIT, "item", 0);
    step();
    run_ends(true, result, effects, count);
    step();
}

static int begin(void **state)
{
    per_day = 0;
    return setup(state);
}

static struct dev_effect effect_of(const char *name, const char *text,
                                   enum wire_record_format format)
{
    return (struct dev_effect){.kind = DEV_EFFECT_UPLOAD,
                               .name = base_str_of(name),
                               .format = format,
                               .bytes = (const uint8_t *)text,
                               .size = strlen(text)};
}

static void only_what_is_declared_passes(void **state)
{
    (void)state;
    const struct dev_effect effects[] = {
        effect_of("views", "{\"views\":2}", WIRE_RECORD_JSON),
        effect_of("views", "{\"user\":\"anna\"}", WIRE_RECORD_JSON),
        effect_of("views", "anna", WIRE_RECORD_BYTES),
        effect_of("views", "anna", WIRE_RECORD_EVENTS),
        effect_of("other", "{\"views\":2}", WIRE_RECORD_JSON),
        effect_of("anna", "{\"views\":2}", WIRE_RECORD_JSON),
        effect_of("views", "{\"views\":2,\"views\":22222222222222222}", WIRE_RECORD_JSON),
    };
    declare_leaves();
    run_gives("{\"user\":\"anna\"}", effects, TEST_COUNT(effects));
    assert_int_equal(rig.uploads, 1);
    assert_string_equal(rig.upload, "{\"views\":2}");
    assert_int_equal(stats().uploads, 1);
    assert_int_equal(stats().privacy_refusals, TEST_COUNT(effects)); // the result, too
    assert_int_equal(stats().uploads_refused, TEST_COUNT(effects));
    run_gives("{\"views\":3}", NULL, 0);
    assert_string_equal(rig.upload, "{\"views\":3}");
}

static void undeclared_passes_unless_it_must_not(void **state)
{
    (void)state;
    static const struct declared undeclared = {TASK, "exit(item)", WIRE_EVENTS_MATCHED, 0, 0};
    declare(&undeclared, 1);
    run_gives("{\"user\":\"anna\"}", NULL, 0);
    assert_int_equal(rig.uploads, 1);
    assert_int_equal(stats().privacy_refusals, 0);
    rig.leaves_required = true;
    assert_int_equal(boot(), BASE_OK);
    declare(&undeclared, 1);
    run_gives("{\"user\":\"anna\"}", NULL, 0);
    assert_int_equal(rig.uploads, 1);
    assert_int_equal(stats().privacy_refusals, 1);
}

static void so_many_a_day(void **state)
{
    (void)state;
    per_day = 2;
    declare_leaves();
    for (uint32_t i = 0; i < 3; i++) {
        run_gives("{\"views\":1}", NULL, 0);
    }
    assert_int_equal(rig.uploads, 2);
    assert_int_equal(stats().privacy_refusals, 1);
    assert_int_equal(dev_pipeline_flush(rig.pipeline, rig.now_us), BASE_OK);
    assert_int_equal(boot(), BASE_OK);
    declare_leaves();
    run_gives("{\"views\":1}", NULL, 0);
    assert_int_equal(rig.uploads, 2); // it is remembered
    rig.wall_ms += WIRE_LEAVES_DAY_MS;
    run_gives("{\"views\":1}", NULL, 0);
    assert_int_equal(rig.uploads, 3); // tomorrow
}

// A version whose leaves cannot be read takes no part, as one whose declaration cannot.
static void damaged_leaves_let_nothing_go(void **state)
{
    (void)state;
    static uint8_t bytes[64];
    const struct wire_declaration declaration = {
        .upload_count = 1,
        .uploads = {{.name = BASE_STR("views"), .class_id = 1}},
        .result_upload = 0,
        .leaves = BASE_STR("\x01\x00\x63"),
    };
    size_t size = 0;
    assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof(bytes), &size), BASE_OK);
    const struct dev_pipeline_task task = {
        .task_id = 7, .name = BASE_STR(TASK), .declaration = {(const char *)bytes, size}};
    assert_int_equal(dev_pipeline_declare(rig.pipeline, rig.now_us, &task, 1), BASE_OK);
    assert_int_equal(stats().tasks_refused, 1);
    const struct dev_pipeline_end end = {.ok = true, .result = BASE_STR("{\"views\":1}")};
    dev_pipeline_on_end(rig.pipeline, rig.now_us, rig.wall_ms,
                        (struct dev_pipeline_run){.task_id = 7}, &end);
    assert_int_equal(rig.uploads, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_what_is_declared_passes, begin, teardown),
        cmocka_unit_test_setup_teardown(undeclared_passes_unless_it_must_not, begin, teardown),
        cmocka_unit_test_setup_teardown(so_many_a_day, begin, teardown),
        cmocka_unit_test_setup_teardown(damaged_leaves_let_nothing_go, begin, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
