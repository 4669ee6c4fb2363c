// The dry run beside a count device by device, and beside what devices are then offered.
#include "core_rig.h"

#include "base/prng.h"
#include "policy/expr.h"
#include "svc/device/preview.h"
#include "svc/device/touches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define FLEET 3000u

static const char *const os_names[] = {"android", "ios", "linux"};

static void make_device(struct rig_device *device, uint32_t i)
{
    static char models[FLEET][12];
    static char versions[8][8] = {"8.1", "9.2", "9.10", "10.0", "8.9", "9.0", "9.9", "11.0"};
    rig_device_init(device, base_mix64(50000 + i));
    rig_device_attr(device, "app_version", versions[i % 8]);
    rig_device_attr(device, "channel", i % 10 == 0 ? "beta" : "stable");
    snprintf(models[i], sizeof(models[i]), "m-%u", i % 40);
    rig_device_attr(device, "model", models[i]);
    if (i % 7 != 0) {
        rig_device_attr(device, "os", os_names[i % 3]);
    }
}

static struct pol_target compile(const char *text, void *memory, size_t capacity)
{
    struct pol_target target = {0};
    struct pol_expr_error error = {0};
    size_t bytes;
    if (!pol_expr_compile((struct pol_text){text, (uint32_t)strlen(text)},
                          (struct pol_expr_space){memory, capacity}, &target.expr, &bytes,
                          &error)) {
        fail_msg("%s: %s", text, error.message);
    }
    return target;
}

static void start_fleet(struct rig *rig)
{
    rig_init(rig);
    rig->certified = true; // of strangers nothing is remembered
    rig_start(rig);
    for (uint32_t i = 0; i < FLEET; i++) {
        struct rig_device device;
        struct rig_exchange exchange;
        struct wire_offers offers;
        make_device(&device, i);
        (void)rig_checkin(rig, &device, true, &exchange, &offers);
        rig_exchange_done(&exchange);
    }
    gw_worker_flush_touches(rig->worker.worker);
}

static void check_segments(const struct gw_preview *seen, uint64_t matched, uint64_t android)
{
    const struct gw_preview_attr *os = &seen->attrs[0];
    assert_string_equal(os->name, "os");
    assert_int_equal(os->count, 3);
    assert_int_equal(os->without_matched, 0);
    for (uint32_t i = 0; i < os->count; i++) {
        bool is_ios = strcmp(os->values[i].value, "ios") == 0;
        bool is_android = strcmp(os->values[i].value, "android") == 0;
        assert_int_equal(os->values[i].matched, is_ios       ? 0
                                                : is_android ? android
                                                             : matched - android);
    }
    const struct gw_preview_attr *model = &seen->attrs[1];
    assert_int_equal(model->count, GW_PREVIEW_VALUES);
    uint64_t models = model->other_matched;
    for (uint32_t i = 0; i < model->count; i++) {
        models += model->values[i].matched;
        assert_true(i == 0 || model->values[i - 1].matched >= model->values[i].matched);
    }
    assert_int_equal(models, matched);
    assert_int_equal(seen->attrs[4].without_matched, matched); // nobody has a region
}

static void counts_are_exact(void **state)
{
    (void)state;
    static uint64_t memory[2][512];
    struct rig rig;
    struct gw_preview seen;
    start_fleet(&rig);
    const struct pol_stage stages[] = {
        {.kind = POL_STAGE_SIMULATE, .max_bucket = 10000},
        {.kind = POL_STAGE_BETA,
         .max_bucket = 10000,
         .audience = compile("channel == \"beta\"", memory[1], sizeof(memory[1]))},
        {.kind = POL_STAGE_GRAY, .max_bucket = 1000},
        {.kind = POL_STAGE_FULL, .max_bucket = 10000},
    };
    struct gw_preview_spec spec = {
        .target = compile("app_version >= 9.2 && os != \"ios\"", memory[0], sizeof(memory[0])),
        .stages = stages,
        .stage_count = 4,
        .salt = 4711,
    };
    assert_int_equal(gw_preview_run(rig.core, &spec, &seen), BASE_OK);
    uint64_t matched = 0;
    uint64_t enter[4] = {0};
    uint64_t old = 0;
    uint64_t ios = 0;
    uint64_t unknown = 0;
    uint64_t android = 0;
    for (uint32_t i = 0; i < FLEET; i++) {
        bool version_ok = i % 8 != 0 && i % 8 != 4 && i % 8 != 5;
        bool has_os = i % 7 != 0;
        uint16_t bucket = pol_bucket(base_mix64(50000 + i), 4711);
        old += !version_ok;
        ios += version_ok && has_os && i % 3 == 1;
        unknown += version_ok && !has_os;
        if (!version_ok || !has_os || i % 3 == 1) {
            continue;
        }
        matched++;
        android += i % 3 == 0;
        enter[i % 10 == 0 ? 1 : bucket < 1000 ? 2 : 3]++;
    }
    assert_int_equal(seen.devices, FLEET);
    assert_int_equal(seen.matched, matched);
    assert_int_equal(seen.outside_arm, 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(seen.stages[i].devices, enter[i]);
    }
    assert_int_equal(seen.stages[2].total, enter[1] + enter[2]);
    assert_int_equal(seen.stages[3].total, matched);

    check_segments(&seen, matched, android);
    assert_int_equal(seen.reason_count, 3);
    for (uint32_t i = 0; i < seen.reason_count; i++) {
        const struct gw_preview_reason *reason = &seen.reasons[i];
        bool version = strcmp(reason->text, "app_version >= 9.2") == 0;
        assert_true(version || strcmp(reason->text, "os != \"ios\"") == 0);
        uint64_t wanted = version ? old : reason->reason == POL_REASON_EXPR_UNKNOWN ? unknown : ios;
        assert_int_equal(reason->devices, wanted);
    }
    rig_done(&rig);
}

// What was promised is what is offered: the same target, stage, salt and arm.
static void offers_are_what_was_promised(void **state)
{
    (void)state;
    static uint64_t memory[512];
    static const char target[] = "os in [\"android\", \"linux\"]";
    static const struct rig_stage half[] = {
        {"half", POL_STAGE_GRAY, 5000, NULL, NULL, 1000000, 1000000, 0},
    };
    struct rig rig;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct gw_preview seen;
    struct base_error error = {0};
    start_fleet(&rig);
    rig_version(&rig, "t", "1.0.0", &manifest);
    rig.arm = (struct pol_arm){99, 0, 4000};
    assert_int_equal(rig_rollout(&rig, 1, "t", &manifest, target, NULL, half, 1, &view, &error),
                     BASE_OK);
    const struct pol_stage stage = {.kind = POL_STAGE_GRAY, .max_bucket = 5000};
    struct gw_preview_spec spec = {.target = compile(target, memory, sizeof(memory)),
                                   .stages = &stage,
                                   .stage_count = 1,
                                   .salt = view.salt,
                                   .arm = rig.arm};
    assert_int_equal(gw_preview_run(rig.core, &spec, &seen), BASE_OK);
    rig_command(&rig, 1, POL_COMMAND_START, NULL);
    uint64_t offered = 0;
    for (uint32_t i = 0; i < FLEET; i++) {
        struct rig_device device;
        struct rig_exchange exchange;
        struct wire_offers offers;
        make_device(&device, i);
        (void)rig_checkin(&rig, &device, true, &exchange, &offers);
        offered += offers.count;
        rig_exchange_done(&exchange);
    }
    print_message("%u promised\n", (unsigned)seen.stages[0].devices);
    assert_true(offered > 100);
    assert_int_equal(seen.stages[0].devices, offered);
    assert_true(seen.outside_arm > seen.matched);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_exact),
        cmocka_unit_test(offers_are_what_was_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
