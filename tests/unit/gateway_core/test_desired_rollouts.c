// What devices run after rollouts of one task overlapped, completed in another order than they were
// approved, or ended below full: always what policy/desired.h says of the record.
#include "test_kit.h"

#include "core_rig.h"
#include "policy/bucket.h"
#include "svc/why.h"

#define TASK    "shop/score"
#define DEVICES 40u

static struct rig rig;
static struct rig_device devices[DEVICES];

static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0};
static const struct rig_stage half = {"half", POL_STAGE_GRAY, 5000, NULL, NULL, 1, 1000000, 0};

static void open_all(void)
{
    rig_init(&rig);
    rig_start(&rig);
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_init(&devices[i], 0x1000 + i);
        rig_device_attr(&devices[i], "os", i % 2 == 0 ? "a" : "b");
    }
}

// A started rollout of a version of its own; the version's id.
static uint64_t start(uint64_t id, const char *version, const char *os,
                      const struct rig_stage *stage)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_version(&rig, TASK, version, &manifest);
    enum base_status status = rig_rollout(&rig, id, TASK, &manifest, os != NULL ? "os" : NULL, os,
                                          stage, 1, &view, &error);
    if (status != BASE_OK) {
        fail_msg("%s: %s", version, error.text);
    }
    rig_command(&rig, id, POL_COMMAND_START, NULL);
    return wire_version_id(&manifest);
}

// Everybody checks in until nothing is offered any more.
static void settle(void)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        for (uint32_t round = 0;; round++) {
            struct rig_exchange exchange;
            struct wire_offers offers;
            int status = rig_checkin(&rig, &devices[i], true, &exchange, &offers);
            uint32_t taken = status == 200 ? rig_device_take(&devices[i], &offers) : 0;
            rig_exchange_done(&exchange);
            assert_true(round < 8);
            if (taken == 0) {
                break;
            }
        }
    }
}

static uint64_t runs(uint32_t i)
{
    return rig_device_task(&devices[i], TASK)->version_id;
}

static void expect_all(uint64_t version)
{
    settle();
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_true(runs(i) == version);
    }
}

static void approved_last_is_the_baseline(void **state)
{
    (void)state;
    open_all();
    (void)start(1, "1.0.0", NULL, &full);
    uint64_t younger = start(2, "2.0.0", NULL, &full);
    rig_command(&rig, 2, POL_COMMAND_PROMOTE, NULL);
    rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL); // completes after the one approved after it
    expect_all(younger);
    rig_stop(&rig);
    rig_start(&rig);
    expect_all(younger);
    rig_done(&rig);
}

static void below_full_is_for_its_share(void **state)
{
    (void)state;
    open_all();
    uint64_t old = start(1, "1.0.0", NULL, &full);
    rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL);
    expect_all(old);
    uint64_t new = start(2, "2.0.0", NULL, &half);
    rig_command(&rig, 2, POL_COMMAND_PROMOTE, NULL);
    settle();
    uint32_t on_new = 0;
    struct gw_rollout_view view;
    rig_view(&rig, 2, &view);
    for (uint32_t i = 0; i < DEVICES; i++) {
        bool inside = pol_bucket(devices[i].id, view.salt) < 5000;
        assert_true(runs(i) == (inside ? new : old));
        on_new += inside;
    }
    assert_true(on_new > 0 && on_new < DEVICES);
    rig_done(&rig);
}

static void a_target_has_its_own_baseline(void **state)
{
    (void)state;
    open_all();
    uint64_t all = start(1, "1.0.0", NULL, &full);
    rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL);
    uint64_t some = start(2, "2.0.0", "a", &full);
    rig_command(&rig, 2, POL_COMMAND_PROMOTE, NULL);
    settle();
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_true(runs(i) == (i % 2 == 0 ? some : all));
    }
    rig_done(&rig);
}

static void why_names_the_paused_rollout(void **state)
{
    (void)state;
    struct gw_why_view why;
    struct base_error error = {0};
    open_all();
    uint64_t first = start(1, "1.0.0", NULL, &full);
    rig_command(&rig, 1, POL_COMMAND_PROMOTE, NULL);
    (void)start(2, "2.0.0", NULL, &full);
    rig.priority = 10;
    (void)start(3, "3.0.0", NULL, &full);
    rig_command(&rig, 3, POL_COMMAND_PAUSE, NULL);
    expect_all(first);
    assert_int_equal(gw_device_why(rig.core, devices[0].id, BASE_STR(TASK), &why, &error), BASE_OK);
    assert_true(why.should_version_id == first);
    assert_true(why.should_rollout == 1);
    assert_string_equal(why.why, "the rollout that it follows is paused, so the baseline runs");
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(approved_last_is_the_baseline),
        cmocka_unit_test(below_full_is_for_its_share),
        cmocka_unit_test(a_target_has_its_own_baseline),
        cmocka_unit_test(why_names_the_paused_rollout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
