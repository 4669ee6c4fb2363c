// What publishing says of a set of versions, against what a device does with it: a set that is said
// to be affordable is taken whole, and of any other something is left out and told.
#include "test_kit.h"

#include "base/alloc.h"
#include "base/prng.h"
#include "mem/mem_kv.h"
#include "pipeline/declaration_check.h"
#include "pipeline/pipeline.h"

#define SETS      300
#define TASKS_MAX 20

struct rig {
    struct mem_kv kv;
    struct dev_kv_port port;
    void *memory[4];
    struct dev_recorder *recorder;
    struct dev_pipeline *pipeline;
    uint32_t told;
    uint64_t told_last;
    char told_why[160];
};

static struct rig rig;
static struct base_prng prng;
static uint32_t asked[TASKS_MAX]; // patterns of each version that ask for their time-outs
static uint8_t bytes[TASKS_MAX][16 * 1024];
static struct dev_declared_task declared[TASKS_MAX];
static struct dev_pipeline_task tasks[TASKS_MAX];

static enum base_status start_task(void *ctx, const struct dev_pipeline_start *start)
{
    (void)ctx;
    (void)start;
    return BASE_ERR_BUSY;
}

static void left_out(void *ctx, uint64_t task_id, const char *why)
{
    (void)ctx;
    rig.told++;
    rig.told_last = task_id;
    (void)snprintf(rig.told_why, sizeof(rig.told_why), "%s", why);
}

static void *block(uint32_t index, size_t size)
{
    rig.memory[index] = aligned_alloc(16, (size + 15) / 16 * 16);
    assert_non_null(rig.memory[index]);
    return rig.memory[index];
}

static int setup(void **state)
{
    (void)state;
    struct dev_collect *collect;
    struct dev_feature_store *features;
    memset(&rig, 0, sizeof(rig));
    mem_kv_init(&rig.kv);
    rig.port = mem_kv_port(&rig.kv);
    size_t size = dev_collect_bytes();
    assert_int_equal(dev_collect_init(block(0, size), size, &rig.port, &collect), BASE_OK);
    struct dev_recorder_options recorder = {.entropy = 11, .boot_id = 3, .collect = collect};
    size = dev_recorder_bytes(&recorder);
    assert_int_equal(dev_recorder_init(block(1, size), size, &recorder, &rig.recorder), BASE_OK);
    size = dev_feature_store_bytes();
    assert_int_equal(dev_feature_store_init(block(2, size), size, collect, &features), BASE_OK);
    struct dev_pipeline_options options = {.collect = collect,
                                           .features = features,
                                           .recorder = rig.recorder,
                                           .memory = base_alloc_heap(),
                                           .ports = {.start = start_task, .left_out = left_out}};
    size = dev_pipeline_bytes(&options);
    assert_int_equal(dev_pipeline_init(block(3, size), size, &options, &rig.pipeline), BASE_OK);
    return dev_pipeline_boot(rig.pipeline, 1000000, UINT64_C(1700000000000)) == BASE_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    dev_pipeline_done(rig.pipeline);
    for (uint32_t i = 0; i < 4; i++) {
        free(rig.memory[i]);
    }
    mem_kv_done(&rig.kv);
    return 0;
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)(base_prng_next(&prng) % n);
}

// A pattern with numbers drawn in the places of '#'.
static struct base_str draw_pattern(char *out, size_t capacity, bool *out_asks)
{
    static const char *const forms[] = {
        "enter(p#) * click(p#, \"i#\")",
        "exposure(p#) same(item) * click(p#, item=*) same(item) * exit(p#)",
        "enter(p#) ? ? click(p#) * exit(p#) page",
        "scroll(p#) ? click(p#) *{1,3} exposure(p#) * exit(p#) within 30s",
        "click(p#) not exit before next enter(p#) * click(p#) cooldown 1m max 5/day",
        "click(p#, price > #) * exit(p#) within 9s or timeout",
    };
    uint32_t which = below(TEST_COUNT(forms));
    const char *form = forms[which];
    *out_asks = which == TEST_COUNT(forms) - 1;
    size_t size = 0;
    for (; *form != '\0'; form++) {
        size += (size_t)(*form == '#' ? snprintf(out + size, capacity - size, "%u", below(40))
                                      : snprintf(out + size, capacity - size, "%c", *form));
    }
    return (struct base_str){out, size};
}

// A version of `patterns` triggers out of a small world, so that they share steps and cost; with
// `padding` bytes of schema.
static void make(uint32_t at, uint32_t patterns, size_t padding)
{
    static char texts[WIRE_DECLARATION_TRIGGERS_MAX][160];
    static char schema[WIRE_DECLARATION_SCHEMA_MAX];
    static char names[TASKS_MAX][32];
    struct wire_declaration declaration = {.events = WIRE_EVENTS_MATCHED,
                                           .result_upload = WIRE_DECLARATION_NO_UPLOAD};
    asked[at] = 0;
    for (uint32_t i = 0; i < patterns; i++) {
        bool asks = false;
        declaration.triggers[declaration.trigger_count++] =
            draw_pattern(texts[i], sizeof(texts[i]), &asks);
        asked[at] += asks;
    }
    memset(schema, ' ', sizeof(schema));
    memcpy(schema, "{}", 2);
    if (padding > 0) {
        declaration.uploads[declaration.upload_count++] = (struct wire_upload){
            .name = BASE_STR("u"), .class_id = 2, .schema_version = 1, .schema = {schema, padding}};
    }
    size_t size = 0;
    assert_int_equal(wire_declaration_encode(&declaration, bytes[at], sizeof(bytes[at]), &size),
                     BASE_OK);
    (void)snprintf(names[at], sizeof(names[at]), "shop/t%u", at);
    declared[at] = (struct dev_declared_task){.name = base_str_of(names[at]),
                                              .declaration = {(const char *)bytes[at], size}};
    tasks[at] = (struct dev_pipeline_task){
        .task_id = at + 1, .name = declared[at].name, .declaration = declared[at].declaration};
}

static uint64_t refused(void)
{
    struct dev_pipeline_stats stats;
    dev_pipeline_stats(rig.pipeline, &stats);
    return stats.tasks_refused;
}

// True: affordable. The device is asked as well and must agree.
static bool compare(uint32_t count, struct dev_declaration_cost *out, uint32_t seed)
{
    struct base_error error = {0};
    if (dev_declaration_cost(declared, count, base_alloc_heap(), out, &error) != BASE_OK) {
        fail_msg("set %u: %s", seed, error.text);
    }
    bool affordable = dev_declaration_afford(out, &error) == BASE_OK;
    uint64_t before = refused();
    uint32_t told = rig.told;
    assert_int_equal(dev_pipeline_declare(rig.pipeline, 2000000, tasks, count), BASE_OK);
    uint64_t left = refused() - before;
    struct dev_pipeline_stats stats;
    dev_pipeline_stats(rig.pipeline, &stats);
    // Where hashes fall decides how large tables are: publishing takes the worst case.
    bool by_luck = left == 0 && strstr(error.text, "bytes of compiled triggers") != NULL;
    if ((affordable != (left == 0) && !by_luck) || rig.told - told != left) {
        fail_msg("set %u: %s (%s), the device left out %llu, told of %u: %s", seed,
                 affordable ? "affordable" : "too much", error.text, (unsigned long long)left,
                 rig.told - told, rig.told_why);
    }
    uint32_t openings = 0; // a device compiles them beside what was written
    for (uint32_t i = 0; i < count; i++) {
        openings += asked[i];
    }
    if (left == 0 &&
        (stats.patterns != out->patterns + openings || stats.trigger_bytes > out->trigger_bytes ||
         stats.trigger_bytes < out->trigger_bytes / 2)) {
        fail_msg("set %u: %u patterns of %llu bytes were said, there are %u of %zu", seed,
                 out->patterns + openings, (unsigned long long)out->trigger_bytes, stats.patterns,
                 stats.trigger_bytes);
    }
    return affordable;
}

static void test_random_sets(void **state)
{
    (void)state;
    uint32_t affordable = 0;
    for (uint32_t seed = 1; seed <= SETS; seed++) {
        struct dev_declaration_cost cost;
        base_prng_seed(&prng, seed);
        uint32_t count = 1 + below(seed % 3 == 0 ? TASKS_MAX : 6);
        uint32_t most = 1 + below(WIRE_DECLARATION_TRIGGERS_MAX);
        for (uint32_t i = 0; i < count; i++) {
            make(i, below(most + 1), below(4) == 0 ? 2 + below(2000) : 2);
        }
        affordable += compare(count, &cost, seed);
    }
    print_message("%u of %u sets are affordable\n", affordable, SETS);
    assert_in_range(affordable, SETS / 10, SETS * 9 / 10);
}

// Each part of the budget by itself, with its name and both numbers.
static void test_each_bound(void **state)
{
    (void)state;
    struct dev_declaration_cost cost = {0};
    struct base_error error = {0};
    const struct {
        struct dev_declaration_cost cost;
        const char *text;
    } cases[] = {
        {{.tasks = 17}, "17 tasks that declare something, a device has 16"},
        {{.declaration_bytes = 8193}, "8193 bytes of declarations, a device has 8192"},
        {{.scratch_bytes = 524289}, "524289 bytes to compile triggers, a device has 524288"},
        {{.work = 4097}, "4097 steps an event, a device has 4096"},
        {{.trigger_bytes = 65537}, "65537 bytes of compiled triggers, a device has 65536"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_int_equal(dev_declaration_afford(&cases[i].cost, &error), BASE_ERR_LIMIT);
        assert_string_equal(error.text, cases[i].text);
    }
    assert_int_equal(dev_declaration_afford(&cost, &error), BASE_OK);
    assert_int_equal(dev_declaration_share_ppm(&(struct dev_declaration_cost){
                         .tasks = 1, .work = 1024, .trigger_bytes = 32768}),
                     500000);
    assert_int_equal(dev_declaration_share_ppm(&(struct dev_declaration_cost){
                         .tasks = 1, .work = 1, .scratch_bytes = 5243}),
                     10000); // that it is one task is no share
    // More than 16 tasks are added up one by one.
    base_prng_seed(&prng, 5);
    for (uint32_t i = 0; i < 17; i++) {
        make(i, 1, 0);
    }
    assert_false(compare(17, &cost, 0));
    assert_int_equal(cost.tasks, 17);
    assert_int_equal(cost.patterns, 17);
    assert_true(rig.told > 0);
}

// Who declares nothing takes nobody's place, however early it comes.
static void test_silent_tasks_come_last(void **state)
{
    (void)state;
    struct dev_declaration_cost cost;
    struct dev_pipeline_task many[TASKS_MAX];
    base_prng_seed(&prng, 9);
    make(0, 2, 0);
    for (uint32_t i = 0; i < TASKS_MAX; i++) {
        many[i] = (struct dev_pipeline_task){.task_id = 100 + i, .name = BASE_STR("quiet")};
    }
    many[TASKS_MAX - 1] = tasks[0];
    assert_true(compare(1, &cost, 0));
    assert_int_equal(dev_pipeline_declare(rig.pipeline, 3000000, many, TASKS_MAX), BASE_OK);
    struct dev_pipeline_stats stats;
    dev_pipeline_stats(rig.pipeline, &stats);
    assert_int_equal(stats.patterns, 2 + asked[0]);
    assert_int_equal(stats.tasks, DEV_PIPELINE_TASKS_MAX);
    assert_true(rig.told_last >= 100);
}

// Of one version alone: what it costs is the compiler's, opening included, and the certificate says
// as much; what a device could not compile is refused when it is made.
static void test_one_version(void **state)
{
    (void)state;
    const struct base_str asks = BASE_STR("click(p) * exit(p) within 9s or timeout");
    const struct dev_trigger_source sources[] = {{.key = 1, .pattern = asks},
                                                 {.key = 2, .pattern = BASE_STR("click(\"p\")")}};
    const struct dev_trigger_sources set = {sources, 2};
    struct wire_declaration declaration = {.trigger_count = 1,
                                           .triggers = {asks},
                                           .events = WIRE_EVENTS_MATCHED,
                                           .result_upload = WIRE_DECLARATION_NO_UPLOAD};
    struct dev_declaration_cost cost;
    struct dev_trigger_certificate certificate;
    struct base_error error = {0};
    size_t scratch = 0;
    size_t size = 0;
    assert_int_equal(wire_declaration_encode(&declaration, bytes[0], sizeof(bytes[0]), &size),
                     BASE_OK);
    declared[0] = (struct dev_declared_task){.name = BASE_STR("shop/t"),
                                             .declaration = {(const char *)bytes[0], size}};
    assert_int_equal(dev_declaration_cost(declared, 1, base_alloc_heap(), &cost, &error), BASE_OK);
    assert_int_equal(dev_declaration_certify(&declaration, base_alloc_heap(), &certificate),
                     BASE_OK);
    assert_int_equal(certificate.sources, 2);
    assert_int_equal(cost.patterns, 1); // that somebody wrote
    assert_int_equal(cost.work, certificate.work);
    assert_int_equal(cost.trigger_bytes, dev_declaration_trigger_bytes(&certificate));
    assert_int_equal(dev_trigger_scratch_bytes(&set, &scratch, NULL), BASE_OK);
    assert_int_equal(cost.scratch_bytes, scratch);
    assert_int_equal(dev_declaration_check(&declaration, base_alloc_heap(), &error), BASE_OK);
    uint32_t refused_alone = 0;
    for (uint32_t seed = 1; seed <= SETS / 10; seed++) {
        base_prng_seed(&prng, seed);
        make(0, WIRE_DECLARATION_TRIGGERS_MAX, 0);
        assert_int_equal(wire_declaration_parse((const uint8_t *)declared[0].declaration.data,
                                                declared[0].declaration.size, &declaration),
                         BASE_OK);
        enum base_status status = dev_declaration_check(&declaration, base_alloc_heap(), &error);
        assert_int_equal(status == BASE_OK, compare(1, &cost, seed));
        refused_alone += status != BASE_OK;
    }
    print_message("%u of %u versions are too much alone\n", refused_alone, SETS / 10);
}

// What is wrong is named with its task; nothing leaks when memory ends.
static uint32_t allocations_left;

static void *count_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return allocations_left > 0 && allocations_left-- > 0 ? malloc(size) : NULL;
}

static void count_release(void *ctx, void *memory)
{
    (void)ctx;
    free(memory);
}

static void test_failures(void **state)
{
    (void)state;
    static const struct base_alloc_port memory = {.alloc = count_alloc, .release = count_release};
    struct dev_declaration_cost cost = {.tasks = 77};
    struct base_error error = {0};
    base_prng_seed(&prng, 3);
    make(0, 3, 0);
    make(1, 3, 0);
    for (uint32_t n = 0; n < 3; n++) {
        allocations_left = n;
        assert_int_equal(dev_declaration_cost(declared, 2, &memory, &cost, &error), BASE_ERR_NOMEM);
        assert_int_equal(cost.tasks, 77);
    }
    allocations_left = 3;
    assert_int_equal(dev_declaration_cost(declared, 2, &memory, &cost, &error), BASE_OK);
    declared[1].declaration = BASE_STR("\x01\xff\xff\xff");
    assert_true(dev_declaration_cost(declared, 2, base_alloc_heap(), &cost, &error) < 0);
    assert_non_null(strstr(error.text, "shop/t1: declaration"));
    struct wire_declaration wrong = {.trigger_count = 1,
                                     .triggers = {BASE_STR("enter(")},
                                     .result_upload = WIRE_DECLARATION_NO_UPLOAD};
    size_t size = 0;
    assert_int_equal(wire_declaration_encode(&wrong, bytes[1], sizeof(bytes[1]), &size), BASE_OK);
    declared[1].declaration = (struct base_str){(const char *)bytes[1], size};
    assert_int_equal(dev_declaration_cost(declared, 2, base_alloc_heap(), &cost, &error),
                     BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "shop/t1: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_sets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silent_tasks_come_last, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
