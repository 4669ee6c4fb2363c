// Whom a rollout can reach: what is refused before any offer, what is said, and the way out.
#include "core_rig.h"

#include "base/prng.h"
#include "policy/expr.h"
#include "svc/device/preview.h"
#include "svc/device/touches.h"
#include "svc/device/device_table.h"
#include "svc/rollout/catalog_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK "shop/score"

static const struct rig_stage full[] = {{"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 0, 0}};

static void come(struct rig *rig, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct rig_device device;
        struct rig_exchange exchange;
        struct wire_offers offers;
        rig_device_init(&device, base_mix64(i + 1));
        rig_device_attr(&device, "app_version", "9.2");
        rig_device_attr(&device, "os", i % 2 == 0 ? "android" : "ios");
        rig_device_attr(&device, "region", "eu");
        if (i + 1 == count) { // the last device alone tells it
            rig_device_attr(&device, "user.tier", "gold");
        }
        (void)rig_checkin(rig, &device, true, &exchange, &offers);
        rig_exchange_done(&exchange);
    }
    gw_worker_flush_touches(rig->worker.worker);
}

static void open_rig(struct rig *rig, uint32_t count)
{
    rig_init(rig);
    rig->certified = true; // of strangers nothing is remembered
    rig->only_reaching = true;
    rig_start(rig);
    come(rig, count);
}

static enum base_status make(struct rig *rig, uint64_t id, const char *target,
                             const struct rig_stage *stages, struct base_error *error)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    char version[24];
    *error = (struct base_error){0};
    snprintf(version, sizeof(version), "1.0.%u", (unsigned)id);
    rig_version(rig, TASK, version, &manifest);
    return rig_rollout(rig, id, TASK, &manifest, target, NULL, stages, 1, &view, error);
}

static void expect_refused(struct rig *rig, const char *target, const struct rig_stage *stages,
                           const char *text)
{
    struct gw_rollout_view view;
    struct base_error error;
    assert_int_equal(make(rig, 0xbad, target, stages, &error), BASE_ERR_CONFLICT);
    if (strstr(error.text, text) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, text);
    }
    assert_int_equal(gw_rollout_get(rig->core, 0xbad, &view), BASE_ERR_NOT_FOUND);
}

static void test_what_reaches_nobody_is_refused(void **state)
{
    (void)state;
    struct rig rig;
    struct base_error error;
    static const struct rig_stage beta[] = {
        {"beta", POL_STAGE_BETA, 10000, "chanel", "beta", 1, 0, 0}};
    open_rig(&rig, 300);
    expect_refused(&rig, "app_version >= 10.0", full, "target: none of 300 known devices matches");
    expect_refused(&rig, "regoin == \"eu\"", full,
                   "target: no known device has attribute regoin; did you mean region?");
    expect_refused(&rig, "ap_versoin >= 9.2", full, "did you mean app_version?");
    expect_refused(&rig, "has(sauna)", full,
                   "target: no known device has attribute sauna; mend it, or add --accept-empty");
    expect_refused(&rig, "region == \"eu\" || user.teir == \"gold\"", full,
                   "no known device has attribute user.teir; did you mean user.tier?");
    // What is usual is proposed though no device told it; a swap of neighbours is one step.
    expect_refused(
        &rig, NULL, beta,
        "stage 1: audience: no known device has attribute chanel; did you mean channel?");
    assert_int_equal(make(&rig, 1, "user.tier == \"gold\"", full, &error), BASE_OK);
    assert_int_equal(make(&rig, 2, NULL, full, &error), BASE_OK);
    rig_command(&rig, 2, POL_COMMAND_START, NULL);
    rig_done(&rig);
}

// A device that never showed who it is, known by a report of another task; it has the attribute.
static void stranger_comes(struct rig *rig, const char *attr)
{
    static const enum wire_outcome_kind ran[] = {WIRE_OUTCOME_ACTIVATED, WIRE_OUTCOME_RAN};
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig->only_reaching = false;
    rig_version(rig, "t", "1.0.0", &manifest);
    assert_int_equal(rig_rollout(rig, 0x77, "t", &manifest, NULL, NULL, full, 1, &view, &error),
                     BASE_OK);
    rig_command(rig, 0x77, POL_COMMAND_START, &view);
    rig->only_reaching = true;
    rig->certified = false;
    rig_device_init(&device, 0x5742);
    assert_int_equal(rig_report(rig, &device, &view, ran, 2), 204);
    rig_device_attr(&device, attr, "eu");
    (void)rig_checkin(rig, &device, true, &exchange, &offers);
    rig_exchange_done(&exchange);
    gw_worker_flush_touches(rig->worker.worker);
    assert_int_equal(gw_device_table_unproven(rig->core->table), 1);
}

// One that anybody can make up stands for no typing error, unless the rollout trusts such devices,
// or there are no others.
static void test_strangers_do_not_count(void **state)
{
    (void)state;
    struct rig rig;
    struct base_error error;
    for (int alone = 0; alone < 2; alone++) {
        open_rig(&rig, alone == 0 ? 5 : 0);
        rig.only_proven = true;
        stranger_comes(&rig, "regoin");
        if (alone == 0) {
            expect_refused(&rig, "regoin == \"eu\"", full,
                           "no known device (of those that showed who they are) has attribute "
                           "regoin; did you mean region?");
            expect_refused(&rig, "os == \"sailfish\"", full,
                           "none of 5 known devices (of those that showed who they are)");
            rig.only_proven = false;
        }
        assert_int_equal(make(&rig, 1, "regoin == \"eu\"", full, &error), BASE_OK);
        rig_done(&rig);
    }
}

static void test_nobody_is_known(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, 0);
    expect_refused(&rig, NULL, full, "target: no device is known yet");
    expect_refused(&rig, "os == \"android\"", full, "target: no device is known yet");
    rig_done(&rig);
}

// What was accepted once holds over a restart, and stands in the log.
static void test_accepted(void **state)
{
    (void)state;
    struct rig rig;
    struct base_error error;
    struct gw_rollout_log_view line;
    struct gw_rollout_view view;
    struct gw_page page = {.limit = 1};
    open_rig(&rig, 0);
    rig.only_reaching = false;
    assert_int_equal(make(&rig, 1, "os == \"android\"", full, &error), BASE_OK);
    rig_stop(&rig);
    rig_start(&rig);
    rig_command(&rig, 1, POL_COMMAND_START, &view);
    assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
    assert_int_equal(gw_rollout_log(rig.core, 1, 0, &line, &page), BASE_OK);
    assert_int_equal(page.count, 1);
    assert_non_null(strstr(line.comment, "may reach no known device: test"));
    rig_done(&rig);
}

// Devices that went between the making and the start: the start asks again.
static void test_start_asks_again(void **state)
{
    (void)state;
    struct rig rig;
    struct base_error error;
    struct gw_rollout_who who = {.by = BASE_STR("rig")};
    open_rig(&rig, 4);
    assert_int_equal(make(&rig, 1, NULL, full, &error), BASE_OK);
    rig_stop(&rig);
    // The same store, its devices gone.
    struct gw_rollout *rollout;
    rig_start(&rig);
    rollout = gw_catalog_find_rollout(rig.core, 1);
    assert_non_null(rollout);
    gw_device_table_free(rig.core->table);
    assert_int_equal(gw_device_table_new(NULL, NULL, &rig.core->hash_key, &rig.core->table),
                     BASE_OK);
    assert_int_equal(gw_rollout_command(rig.core, 1, POL_COMMAND_START, &who, &error),
                     BASE_ERR_CONFLICT);
    assert_non_null(strstr(error.text, "no device is known yet"));
    assert_int_equal(rollout->state.state, POL_ROLLOUT_DRAFT);
    who.accept_empty = true;
    assert_int_equal(gw_rollout_command(rig.core, 1, POL_COMMAND_START, &who, &error), BASE_OK);
    rig_done(&rig);
}

static void test_preview_says_it(void **state)
{
    (void)state;
    struct rig rig;
    static _Alignas(8) uint8_t program[4096];
    struct pol_expr_error wrong;
    struct gw_preview_spec spec = {0};
    struct gw_preview *seen = calloc(1, sizeof(*seen));
    const char *text = "regoin == \"eu\" && os == \"ios\"";
    size_t bytes;
    assert_non_null(seen);
    open_rig(&rig, 20);
    assert_true(pol_expr_compile((struct pol_text){text, (uint32_t)strlen(text)},
                                 (struct pol_expr_space){program, sizeof(program)},
                                 &spec.target.expr, &bytes, &wrong));
    assert_int_equal(gw_preview_run(rig.core, &spec, seen), BASE_OK);
    assert_int_equal(seen->matched, 0);
    assert_int_equal(seen->unknown_count, 1);
    assert_int_equal(seen->unknown[0].stage, 0);
    assert_string_equal(seen->unknown[0].attr, "regoin");
    assert_string_equal(seen->unknown[0].like, "region");
    free(seen);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_reaches_nobody_is_refused),
        cmocka_unit_test(test_strangers_do_not_count),
        cmocka_unit_test(test_nobody_is_known),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_start_asks_again),
        cmocka_unit_test(test_preview_says_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
