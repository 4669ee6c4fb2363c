// Records begin when a device shows who it is or a report of it is durable; those of devices that
// never did are budgeted and end; what they counted stays; proven ones are kept.
#include "core_rig.h"

#include "svc/device/touches.h"
#include "svc/access/credentials.h"
#include "svc/device/device_table.h"
#include "svc/device/strangers.h"
#include "svc/plan/attr_pool.h"
#include "svc/rollout/device_views.h"
#include "test_kit.h"

#define ROLLOUT 0x77
#define DAY_S   86400u

static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1000000, 0, 0};
static const enum wire_outcome_kind ran[] = {WIRE_OUTCOME_ACTIVATED, WIRE_OUTCOME_RAN};

static void begin(struct rig *rig, struct gw_rollout_view *view)
{
    struct wire_sha256 v1;
    struct base_error error = {0};
    rig_version(rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(rig, ROLLOUT, "t", &v1, NULL, NULL, &full, 1, view, &error),
                     BASE_OK);
    rig_command(rig, ROLLOUT, POL_COMMAND_START, view);
}

static int checkin(struct rig *rig, uint64_t id, const char *os, uint32_t *out_offers)
{
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_device_init(&device, id);
    rig_device_attr(&device, "os", os);
    int status = rig_checkin(rig, &device, true, &exchange, &offers);
    if (out_offers != NULL) {
        *out_offers = offers.count;
    }
    rig_exchange_done(&exchange);
    return status;
}

static int report(struct rig *rig, uint64_t id, const struct gw_rollout_view *view)
{
    struct rig_device device;
    rig_device_init(&device, id);
    return rig_report(rig, &device, view, ran, 2);
}

static bool on_disk(struct rig *rig, uint64_t id)
{
    struct gw_store_read *read;
    struct base_span value;
    struct gw_key key = gw_key_u64(id);
    assert_int_equal(gw_store_read_begin(rig->core->store, &read), BASE_OK);
    enum base_status status = gw_store_read_get(read, GW_TABLE_DEVICES, &key, &value);
    gw_store_read_end(read);
    return status == BASE_OK;
}

static uint64_t devices(struct rig *rig)
{
    gw_worker_flush_touches(rig->worker.worker);
    rig_settle(rig);
    assert_true(gw_device_table_validate(rig->core->table));
    return gw_device_table_count(rig->core->table);
}

// Strangers are offered what their attributes say and leave nothing: no record, no attributes.
static void test_strangers_leave_nothing(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    char os[16];
    uint32_t offers = 0;
    rig_init(&rig);
    rig.only_proven = true;
    rig_start(&rig);
    begin(&rig, &view);
    for (uint64_t id = 1; id <= 2000; id++) {
        snprintf(os, sizeof(os), "os%u", (unsigned)id);
        assert_int_equal(checkin(&rig, id, os, &offers), 200);
        assert_int_equal(offers, 1);
    }
    assert_int_equal(devices(&rig), 0);
    assert_int_equal(gw_attr_pool_count(rig.core->pool), 0);
    // A report begins a record, a certificate does.
    assert_int_equal(report(&rig, 5, &view), 204);
    assert_int_equal(devices(&rig), 1);
    rig.certified = true;
    assert_int_equal(checkin(&rig, 6, "linux", NULL), 200);
    rig.certified = false;
    assert_int_equal(devices(&rig), 2);
    assert_int_equal(gw_device_table_unproven(rig.core->table), 1);
    assert_true(on_disk(&rig, 5) && on_disk(&rig, 6));
    // It is known from now on: seen, with its attributes.
    struct gw_device_view device;
    assert_int_equal(checkin(&rig, 5, "android", NULL), 200);
    assert_int_equal(devices(&rig), 2);
    assert_int_equal(gw_device_get(rig.core, 5, &device), BASE_OK);
    assert_int_equal(device.attrs.count, 1);
    rig_stop(&rig);
    rig_start(&rig);
    assert_int_equal(devices(&rig), 2);
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

// A rollout that trusts the unproven is for fleets without credentials: check-ins begin records.
static void test_trusted_fleets_are_known(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    rig_init(&rig);
    rig_start(&rig);
    begin(&rig, &view);
    for (uint64_t id = 1; id <= 100; id++) {
        assert_int_equal(checkin(&rig, id, "android", NULL), 200);
    }
    assert_int_equal(devices(&rig), 100);
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.offered, 100);
    rig_done(&rig);
}

static int report_from(struct rig *rig, uint64_t id, uint64_t peer)
{
    rig->peer = peer;
    struct gw_rollout_view view;
    rig_view(rig, ROLLOUT, &view);
    int status = report(rig, id, &view);
    rig->peer = 0;
    return status;
}

static void test_budgets(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct gw_strangers_stats stats;
    rig_init(&rig);
    rig.only_proven = true;
    rig.unproven_records = 30;
    rig.unproven_per_address = 10;
    rig_start(&rig);
    begin(&rig, &view);
    for (uint64_t id = 1; id <= 20; id++) {
        assert_int_equal(report_from(&rig, id, 1), id <= 10 ? 204 : 429);
    }
    assert_int_equal(report_from(&rig, 3, 1), 204); // a record there is goes on
    // Another address has its own, until all are used up.
    for (uint64_t id = 101; id <= 110; id++) {
        assert_int_equal(report_from(&rig, id, 2), 204);
        assert_int_equal(report_from(&rig, id + 100, 3), 204);
    }
    assert_int_equal(report_from(&rig, 999, 4), 429);
    assert_int_equal(devices(&rig), 30);
    gw_strangers_stats(rig.core->strangers, &stats);
    assert_int_equal(stats.refused, 11);
    // Who shows a certificate needs no budget, and gives its own back.
    rig.certified = true;
    assert_int_equal(report_from(&rig, 1000, 1), 204);
    assert_int_equal(report_from(&rig, 3, 1), 204);
    rig.certified = false;
    assert_int_equal(gw_device_table_unproven(rig.core->table), 29);
    assert_int_equal(report_from(&rig, 999, 4), 204);
    rig_done(&rig);
}

static void test_expiry(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct gw_rollout_view after;
    struct gw_strangers_stats stats;
    rig_init(&rig);
    rig.only_proven = true;
    rig_start(&rig);
    begin(&rig, &view);
    for (uint64_t id = 1; id <= 300; id++) {
        assert_int_equal(report(&rig, id, &view), 204);
    }
    rig.certified = true;
    for (uint64_t id = 301; id <= 310; id++) {
        assert_int_equal(report(&rig, id, &view), 204);
    }
    rig.certified = false;
    rig_advance_s(&rig, 29 * DAY_S);
    assert_int_equal(devices(&rig), 310);
    assert_int_equal(checkin(&rig, 7, "linux", NULL), 200); // a sign of life
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.unproven, 300);
    rig_advance_s(&rig, 2 * DAY_S);
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS; i++) {
        (void)gw_core_tick(rig.core); // a slice each
    }
    assert_int_equal(devices(&rig), 11);
    assert_false(on_disk(&rig, 1));
    assert_true(on_disk(&rig, 7) && on_disk(&rig, 301));
    gw_strangers_stats(rig.core->strangers, &stats);
    assert_int_equal(stats.expired, 299);
    // What they counted stays counted, over a restart too.
    rig_view(&rig, ROLLOUT, &after);
    assert_int_equal(after.counts.unproven, 300);
    assert_int_equal(after.counts.succeeded, 10);
    rig_stop(&rig);
    rig_start(&rig);
    assert_int_equal(devices(&rig), 11);
    rig_view(&rig, ROLLOUT, &after);
    assert_int_equal(after.counts.unproven, 300);
    assert_int_equal(after.counts.succeeded, 10);
    // One that ended begins anew, in the place of another.
    assert_int_equal(report(&rig, 1, &view), 204);
    assert_int_equal(devices(&rig), 12);
    rig_done(&rig);
}

// What left its record because that was full ends with it, counted; its neighbours' stays.
static void test_past_outcomes_expire_with_their_record(void **state)
{
    (void)state;
    const uint32_t rollouts = GW_DEVICE_OUTCOMES_MAX + 3;
    struct rig rig;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    char name[32];
    rig_init(&rig);
    rig.only_proven = true;
    rig_start(&rig);
    for (uint32_t i = 0; i < rollouts; i++) {
        snprintf(name, sizeof(name), "task-%u", i);
        rig_baseline(&rig, name, 100 + i, NULL, NULL, &v1);
        rig_view(&rig, 100 + i, &view);
        for (uint64_t id = 1; id <= 3; id++) {
            rig.certified = id == 2;
            struct rig_device device;
            rig_device_init(&device, id);
            device.seq = 1 + 2 * i;
            assert_int_equal(rig_report(&rig, &device, &view, ran, 2), 204);
        }
        rig.certified = false;
        rig_advance_s(&rig, 2);
    }
    assert_int_equal(rig_past_rows(&rig), 9);
    rig_advance_s(&rig, 31 * DAY_S);
    assert_int_equal(devices(&rig), 1);
    assert_int_equal(rig_past_rows(&rig), 3);
    for (int restart = 0; restart < 2; restart++) {
        for (uint32_t i = 0; i < rollouts; i++) {
            rig_view(&rig, 100 + i, &view);
            assert_int_equal(view.counts.succeeded, 1);
            assert_int_equal(view.counts.unproven, 2);
        }
        rig_stop(&rig);
        rig_start(&rig);
    }
    rig_done(&rig);
}

// A device that is known by a credential is kept, whether or not it ever showed it; so is one that
// was revoked, and is ended when its credential is forgotten.
static void test_known_ones_do_not_expire(void **state)
{
    (void)state;
    static const enum gw_credential_state states[] = {
        GW_CREDENTIAL_NONE, GW_CREDENTIAL_PENDING, GW_CREDENTIAL_TOKEN, GW_CREDENTIAL_CERTIFICATE,
        GW_CREDENTIAL_REVOKED};
    const uint64_t count = sizeof(states) / sizeof(states[0]);
    struct rig rig;
    struct gw_rollout_view view;
    struct gw_credential credential = {.state = GW_CREDENTIAL_NONE};
    rig_init(&rig);
    rig.only_proven = true;
    rig_start(&rig);
    begin(&rig, &view);
    for (uint64_t id = 1; id <= count; id++) {
        assert_int_equal(report(&rig, id, &view), 204);
    }
    for (uint64_t id = 2; id <= count; id++) {
        credential.state = states[id - 1];
        assert_true(gw_credentials_set(rig.core->credentials, id, &credential));
    }
    rig_advance_s(&rig, 31 * DAY_S);
    assert_int_equal(devices(&rig), count - 1);
    for (uint64_t id = 1; id <= count; id++) {
        assert_int_equal(on_disk(&rig, id), id > 1);
    }
    credential.state = GW_CREDENTIAL_NONE;
    assert_true(gw_credentials_set(rig.core->credentials, 2, &credential));
    assert_int_equal(devices(&rig), count - 2);
    assert_false(on_disk(&rig, 2));
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_leave_nothing),
        cmocka_unit_test(test_trusted_fleets_are_known),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_past_outcomes_expire_with_their_record),
        cmocka_unit_test(test_known_ones_do_not_expire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
