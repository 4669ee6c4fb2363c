// The walk over all devices sees each of them once, however many a shard has, counts it where it is
// meant, and each open rollout has its turn, however many there are.
#include "conduct_kit.h"

#include "svc/access/credentials.h"
#include "svc/device/device_table.h"
#include "svc/rollout/watch.h"

#define CROWD (2 * GW_WATCH_BATCH * GW_DEVICE_TABLE_SHARDS) // every shard has several batches
#define MANY  (GW_WATCH_ROLLOUTS + 6)
#define FEW   5u
#define KNOWN 60u // devices that show who they are
#define GONE  20u // that are revoked

static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 500000, 0};

// `count` devices come from the one with this number on.
static void crowd_comes(struct rig *rig, uint64_t from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct rig_device device;
        rig_device_init(&device, base_mix64(from + i));
        rig_device_attr(&device, "os", "android");
        (void)come(rig, &device, 0, NULL, 0, NULL);
    }
}

static void start(struct rig *rig, uint64_t id, const char *task, const char *os)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_version(rig, task, "1.0.0", &manifest);
    enum base_status status = rig_rollout(rig, id, task, &manifest, os != NULL ? "os" : NULL, os,
                                          &full, 1, &view, &error);
    if (status != BASE_OK) {
        fail_msg("%s: %s", task, error.text);
    }
    rig_command(rig, id, POL_COMMAND_START, &view);
}

static void each_device_is_seen_once(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, NULL);
    start(&rig, 0x21, "shop/score", NULL);
    crowd_comes(&rig, 1, CROWD);
    for (uint32_t i = 0; i < 2; i++) { // the next walk sees as many
        rig_settle(&rig);
        rig_view(&rig, 0x21, &view);
        assert_int_equal(view.stages[0].counts.eligible, CROWD);
        assert_int_equal(view.stages[0].counts.online, CROWD);
    }
    rig_done(&rig);
}

// Who is of another sort, in another arm, or another tenant's, is not of a rollout.
static void others_are_not_counted(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    const struct pol_arm arm = {77, 2000, 5000};
    uint32_t in_arm = 0;
    open_rig(&rig, NULL);
    start(&rig, 1, "shop/some", "android");
    rig.arm = arm;
    start(&rig, 2, "shop/arm", NULL);
    rig.arm = (struct pol_arm){0};
    rig.tenant = 3;
    start(&rig, 3, "shop/theirs", NULL);
    for (uint32_t i = 0; i < DEVICES; i++) {
        in_arm += pol_arm_has(&arm, devices[i].id);
        (void)come(&rig, &devices[i], 0, NULL, 0, NULL);
    }
    rig_settle(&rig);
    assert_in_range(in_arm, 30, 90);
    const uint32_t wanted[] = {DEVICES / 2, in_arm, 0};
    for (uint32_t i = 0; i < 3; i++) {
        rig_view(&rig, 1 + i, &view);
        print_message("rollout %u\n", 1 + i);
        assert_int_equal(view.stages[0].counts.eligible, wanted[i]);
    }
    rig_done(&rig);
}

// Control is drawn from those whom the rollout is for, in the band behind the stage's buckets.
static void control_is_of_those_it_is_for(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    uint32_t beside = 0;
    open_rig(&rig, compared);
    rig_version(&rig, "shop/score", "1.0.0", &manifest);
    assert_int_equal(rig_rollout(&rig, 0x41, "shop/score", &manifest, "os", "android", gray_full, 2,
                                 &view, &error),
                     BASE_OK);
    rig_command(&rig, 0x41, POL_COMMAND_START, &view);
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint16_t bucket = pol_bucket(devices[i].id, view.salt);
        beside += i % 2 == 0 && bucket >= 2000 && bucket < 6000;
        (void)come(&rig, &devices[i], 0, NULL, 0, NULL);
    }
    for (uint32_t i = 0; i < 2; i++) { // once each, in whatever many walks
        rig_settle(&rig);
        rig_view(&rig, 0x41, &view);
        assert_int_equal(view.stages[0].counts.control, beside);
    }
    rig_done(&rig);
}

static void one_comes(struct rig *rig, const struct gw_rollout_view *view, uint16_t bucket)
{
    struct rig_device device;
    uint64_t number = 1;
    while (pol_bucket(base_mix64(number), view->salt) != bucket) {
        number++;
    }
    rig_device_init(&device, base_mix64(number));
    rig_device_attr(&device, "os", "android");
    (void)come(rig, &device, 0, NULL, 0, NULL);
}

// The stage has the buckets below 2000, its control those from there to below 6000, of devices that
// came while it was open.
static void bands_end_where_they_say(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    open_rig(&rig, compared);
    rig.certified = true; // of strangers nothing is remembered
    rig_version(&rig, "shop/score", "1.0.0", &manifest);
    assert_int_equal(
        rig_rollout(&rig, 0x51, "shop/score", &manifest, NULL, NULL, gray_full, 2, &view, &error),
        BASE_OK);
    one_comes(&rig, &view, 3000); // and not again
    rig_advance_s(&rig, 10);
    rig_command(&rig, 0x51, POL_COMMAND_START, &view);
    static const struct {
        uint16_t bucket;
        uint32_t eligible, control;
    } rows[] = {{1999, 1, 0}, {2000, 1, 1}, {5999, 1, 2}, {6000, 1, 2}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        one_comes(&rig, &view, rows[i].bucket);
        rig_settle(&rig); // it is found
        rig_settle(&rig); // ... and counted
        rig_view(&rig, 0x51, &view);
        print_message("bucket %u\n", rows[i].bucket);
        assert_int_equal(view.stages[0].counts.eligible, rows[i].eligible);
        assert_int_equal(view.stages[0].counts.control, rows[i].control);
    }
    rig_done(&rig);
}

// A walk takes GW_WATCH_ROLLOUTS along; those behind them are the next one's, and then it is the
// first ones' turn again.
static void rollouts_take_turns(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_rig(&rig, NULL);
    for (uint32_t i = 0; i < MANY; i++) {
        char task[32];
        (void)snprintf(task, sizeof(task), "shop/task%u", i);
        start(&rig, 1 + i, task, NULL);
    }
    for (uint32_t round = 1; round <= 2; round++) {
        crowd_comes(&rig, 1 + (uint64_t)round * FEW, FEW);
        for (uint32_t i = 0; i < 4; i++) {
            rig_settle(&rig);
        }
        for (uint32_t i = 0; i < MANY; i++) {
            rig_view(&rig, 1 + i, &view);
            if (view.stages[0].counts.eligible != round * FEW) {
                fail_msg("round %u: rollout %u has %llu devices", round, i,
                         (unsigned long long)view.stages[0].counts.eligible);
            }
        }
    }
    rig_done(&rig);
}

// Who has not shown who it is counts where a rollout trusts it, and only there; who was revoked
// counts nowhere, whether it was proven or not.
static void whom_a_rollout_trusts_is_counted(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    const struct gw_credential revoked = {.state = GW_CREDENTIAL_REVOKED};
    open_rig(&rig, NULL);
    start(&rig, 1, "shop/trusts", NULL);
    rig.only_proven = true;
    start(&rig, 2, "shop/asks", NULL);
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig.certified = i < KNOWN;
        (void)come(&rig, &devices[i], 0, NULL, 0, NULL);
    }
    for (uint32_t gone = 0; gone <= GONE; gone += GONE) {
        for (uint32_t i = 0; i < gone; i++) { // half of them were proven
            uint32_t n = i % 2 == 0 ? i : KNOWN + i;
            assert_true(gw_credentials_set(rig.core->credentials, devices[n].id, &revoked));
        }
        rig_settle(&rig);
        rig_settle(&rig);
        rig_view(&rig, 1, &view);
        assert_int_equal(view.stages[0].counts.eligible, DEVICES - gone);
        rig_view(&rig, 2, &view);
        assert_int_equal(view.stages[0].counts.eligible, KNOWN - gone / 2);
    }
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_device_is_seen_once),
        cmocka_unit_test(others_are_not_counted),
        cmocka_unit_test(control_is_of_those_it_is_for),
        cmocka_unit_test(bands_end_where_they_say),
        cmocka_unit_test(rollouts_take_turns),
        cmocka_unit_test(whom_a_rollout_trusts_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
