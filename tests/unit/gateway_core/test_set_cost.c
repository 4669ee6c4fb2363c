// What a phone could hold of all releases together: what is added up, what is refused, and what an
// operator may accept.
#include "core_rig.h"

#include "base/alloc.h"
#include "pipeline/pipeline.h"
#include "svc/rollout/set_cost.h"
#include "wire/declaration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OPEN_FIRST   0x100u
#define TEST_SEED    20261123u
#define TEST_SYSTEMS 5u

static struct rig rig;
static struct gw_set_cost cost;
static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0};

static int setup(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof(rig));
    rig_init(&rig);
    rig_start(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

// Versions made from now on declare so many triggers; 0: nothing.
static void declare(uint32_t triggers)
{
    static char texts[WIRE_DECLARATION_TRIGGERS_MAX][64];
    static uint8_t bytes[4096];
    struct wire_declaration declaration = {.events = WIRE_EVENTS_MATCHED,
                                           .result_upload = WIRE_DECLARATION_NO_UPLOAD};
    size_t size = 0;
    for (uint32_t i = 0; i < triggers; i++) {
        int length =
            snprintf(texts[i], sizeof(texts[i]), "enter(p%u) * click(p%u) ? exit(p%u)", i, i, i);
        declaration.triggers[declaration.trigger_count++] =
            (struct base_str){texts[i], (size_t)length};
    }
    if (triggers > 0) {
        assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof(bytes), &size),
                         BASE_OK);
    }
    rig.declaration = (struct base_str){(const char *)bytes, size};
}

static const char *name_of(uint32_t number)
{
    static char name[32];
    (void)snprintf(name, sizeof(name), "shop/t%u", number);
    return name;
}

// A rollout of a new version of task `number`, for devices with this os (NULL: all).
static enum base_status release(uint32_t number, const char *version, uint64_t id, const char *os,
                                struct base_error *error)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    rig_version(&rig, name_of(number), version, &manifest);
    return rig_rollout(&rig, id, name_of(number), &manifest, os != NULL ? "os" : NULL, os, &full, 1,
                       &view, error);
}

static void release_many(uint32_t count, const char *os)
{
    struct base_error error = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (release(i, "1.0.0", OPEN_FIRST + i, os, &error) != BASE_OK) {
            fail_msg("%u: %s", i, error.text);
        }
    }
}

// What a version with these triggers would come to, in task `number` for this os.
static void ask(uint32_t number, const char *os, uint32_t triggers)
{
    struct wire_sha256 manifest;
    struct base_error error = {0};
    struct pol_value value = {.type = POL_TYPE_STRING};
    struct pol_cond cond = {
        .attr = {"os", 2}, .op = POL_OP_EQ, .operands = &value, .operand_count = 1};
    if (os != NULL) {
        value.text = (struct pol_text){os, (uint32_t)strlen(os)};
    }
    declare(triggers);
    rig_version(&rig, name_of(number), "9.9.9", &manifest);
    const struct gw_set_cost_spec spec = {
        .task = base_str_of(name_of(number)),
        .manifest = manifest,
        .target = {.conds = os != NULL ? &cond : NULL, .cond_count = os != NULL ? 1 : 0}};
    if (gw_set_cost_find(rig.core, &spec, &cost, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
}

static void test_too_many_tasks_are_refused(void **state)
{
    (void)state;
    struct base_error error = {0};
    declare(1);
    release_many(DEV_PIPELINE_TASKS_MAX, NULL);
    assert_int_equal(release(50, "1.0.0", 0x50, NULL, &error), BASE_ERR_CONFLICT);
    assert_non_null(strstr(error.text, "cost: shop/t50, shop/t0"));
    assert_non_null(strstr(error.text, "more together: 17 tasks that declare something"));
    // Not there: nothing was made.
    struct gw_rollout_view view;
    assert_int_equal(gw_rollout_get(rig.core, 0x50, &view), BASE_ERR_NOT_FOUND);
    // Who declares nothing costs nothing.
    declare(0);
    assert_int_equal(release(51, "1.0.0", 0x51, NULL, &error), BASE_OK);
    // A restart changes nothing about it.
    rig_stop(&rig);
    rig_start(&rig);
    declare(1);
    assert_int_equal(release(52, "1.0.0", 0x52, NULL, &error), BASE_ERR_CONFLICT);
    rig.accept_cost = true;
    assert_int_equal(release(52, "1.0.0", 0x52, NULL, &error), BASE_OK);
}

static void test_who_is_counted(void **state)
{
    (void)state;
    struct base_error error = {0};
    declare(1);
    release_many(3, "ios");
    ask(50, NULL, 1);
    assert_int_equal(cost.sum.tasks, 4);
    assert_int_equal(cost.listed, 4);
    assert_string_equal(cost.tasks[0].task, "shop/t50");
    assert_int_equal(cost.tasks[0].rollout, 0);
    assert_true(cost.fits && cost.declares);
    assert_string_equal(cost.why, "");
    ask(50, "ios", 1);
    assert_int_equal(cost.sum.tasks, 4);
    ask(50, "android", 1); // on no device together
    assert_int_equal(cost.sum.tasks, 1);
    ask(1, NULL, 1); // a task is on a device once
    assert_int_equal(cost.sum.tasks, 3);
    ask(50, NULL, 0);
    assert_false(cost.declares);
    assert_true(cost.fits);
    assert_int_equal(cost.listed, 0);
    // Of a task with two open rollouts the dearer version.
    declare(5);
    assert_int_equal(release(1, "2.0.0", 0x901, "ios", &error), BASE_OK);
    ask(50, NULL, 1);
    assert_int_equal(cost.sum.tasks, 4);
    assert_int_equal(cost.sum.patterns, 1 + 1 + 5 + 1);
    assert_int_equal(cost.tasks[1].rollout, 0x901);
    // What was taken back is nowhere, what completed is everywhere.
    rig_command(&rig, 0x901, POL_COMMAND_START, NULL);
    rig_command(&rig, 0x901, POL_COMMAND_ABORT, NULL);
    rig_command(&rig, OPEN_FIRST, POL_COMMAND_START, NULL);
    rig_command(&rig, OPEN_FIRST, POL_COMMAND_PROMOTE, NULL);
    rig_settle(&rig);
    ask(50, NULL, 1);
    assert_int_equal(cost.sum.tasks, 4);
    assert_int_equal(cost.sum.patterns, 4);
    // Another tenant's devices are others.
    rig.tenant = 3;
    ask(60, NULL, 1);
    assert_int_equal(cost.sum.tasks, 1);
    rig.tenant = 0;
    // A version nobody knows.
    struct gw_set_cost_spec spec = {.task = BASE_STR("shop/t1")};
    assert_int_equal(gw_set_cost_find(rig.core, &spec, &cost, &error), BASE_ERR_NOT_FOUND);
    spec.task = BASE_STR("shop/none");
    assert_int_equal(gw_set_cost_find(rig.core, &spec, &cost, &error), BASE_ERR_NOT_FOUND);
}

// A device has one value of an attribute: releases for different ones are never added up.
static void test_others_that_exclude_each_other(void **state)
{
    (void)state;
    struct base_error error = {0};
    declare(1);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(release(i, "1.0.0", OPEN_FIRST + i, i < 10 ? "ios" : "android", &error),
                         BASE_OK);
    }
    ask(50, NULL, 1); // 21 in all, 11 on either
    assert_true(cost.fits);
    assert_int_equal(cost.sum.tasks, 11);
    assert_int_equal(cost.listed, 11);
    assert_string_equal(cost.tasks[0].task, "shop/t50");
    ask(50, "ios", 1);
    assert_int_equal(cost.sum.tasks, 11);
    ask(50, "web", 1);
    assert_int_equal(cost.sum.tasks, 1);
    // Those for everybody are on both.
    for (uint32_t i = 20; i < 25; i++) {
        assert_int_equal(release(i, "1.0.0", OPEN_FIRST + i, NULL, &error), BASE_OK);
    }
    ask(50, NULL, 1);
    assert_true(cost.fits);
    assert_int_equal(cost.sum.tasks, 16);
    // A task that is on both in different versions: the dearer one here is not the dearer one
    // there.
    declare(9);
    assert_int_equal(release(20, "2.0.0", 0x901, "android", &error), BASE_OK);
    ask(50, NULL, 1);
    assert_int_equal(cost.sum.patterns, 15 + 9);
    ask(50, "ios", 1);
    assert_int_equal(cost.sum.patterns, 16);
    // One more on one side: then all are told, for each of them may be the one to go.
    declare(1);
    rig.accept_cost = true;
    assert_int_equal(release(26, "1.0.0", 0x902, "ios", &error), BASE_OK);
    ask(50, NULL, 1);
    assert_false(cost.fits);
    assert_int_equal(cost.sum.tasks, 27);
    ask(50, "android", 1);
    assert_true(cost.fits);
}

// Against every device there could be: what fits is what each of them can hold.
static void test_every_device_there_could_be(void **state)
{
    (void)state;
    static const char *const systems[] = {NULL, "ios", "android", "web", "tv"};
    struct base_error error = {0};
    struct base_prng prng;
    uint32_t on[TEST_SYSTEMS] = {0}; // tasks on a device with this one; [0]: with another
    uint32_t fitted = 0;
    print_message("seed %u\n", TEST_SEED);
    base_prng_seed(&prng, TEST_SEED);
    rig.accept_cost = true;
    for (uint32_t i = 0; i < 44; i++) {
        uint32_t os = (uint32_t)base_prng_below(&prng, i % 4 == 0 ? TEST_SYSTEMS : 4);
        declare(1);
        assert_int_equal(release(i, "1.0.0", OPEN_FIRST + i, systems[os], &error), BASE_OK);
        for (uint32_t k = 0; k < TEST_SYSTEMS; k++) {
            on[k] += os == 0 || os == k ? 1 : 0;
        }
        for (uint32_t k = 0; k < TEST_SYSTEMS; k++) {
            uint32_t most = on[k];
            for (uint32_t other = 0; k == 0 && other < TEST_SYSTEMS; other++) {
                most = on[other] > most ? on[other] : most;
            }
            ask(50, systems[k], 1);
            if (cost.fits != (most + 1 <= DEV_PIPELINE_TASKS_MAX)) {
                fail_msg("%u tasks, %s: %u on a device, fits %d", i + 1, k > 0 ? systems[k] : "all",
                         most + 1, cost.fits);
            }
            fitted += cost.fits ? 1 : 0;
        }
    }
    assert_in_range(fitted, 50, 200);
}

// The sum is one certificate: patterns that are shared cost once.
static void test_the_sum_is_the_device_s(void **state)
{
    (void)state;
    struct dev_declaration_cost alone;
    struct base_error error = {0};
    declare(10);
    release_many(4, NULL);
    ask(50, NULL, 10);
    alone = cost.tasks[0].cost;
    assert_int_equal(cost.sum.patterns, 50);
    assert_int_equal(cost.sum.declaration_bytes, 5 * alone.declaration_bytes);
    assert_true(cost.sum.work >= alone.work && cost.sum.work < 5 * alone.work);
    assert_true(cost.sum.trigger_bytes < 5 * alone.trigger_bytes);
    struct dev_declared_task tasks[5];
    for (uint32_t i = 0; i < 5; i++) {
        tasks[i] = (struct dev_declared_task){BASE_STR("t"), rig.declaration};
    }
    struct dev_declaration_cost whole;
    assert_int_equal(dev_declaration_cost(tasks, 5, base_alloc_heap(), &whole, &error), BASE_OK);
    assert_memory_equal(&whole, &cost.sum, sizeof(whole));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_too_many_tasks_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_is_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_that_exclude_each_other, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_device_there_could_be, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_sum_is_the_device_s, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
