// A device that changes its attributes at each check-in brings a few blocks an hour into the pool
// that all devices share, keeps the last of them, and takes no place from others.
#include "core_rig.h"

#include "svc/device/touches.h"
#include "svc/plan/attr_pool.h"
#include "svc/rollout/device_views.h"
#include "test_kit.h"

#define FICKLE 7
#define OTHER  9
#define HOUR_S 3600

static void checkin(struct rig *rig, uint64_t id, uint32_t number)
{
    char text[32];
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    snprintf(text, sizeof(text), "os%u", (unsigned)number);
    rig_device_init(&device, id);
    rig_device_attr(&device, "os", text);
    assert_true(rig_checkin(rig, &device, true, &exchange, &offers) < 300);
    rig_exchange_done(&exchange);
}

static void expect_os(struct rig *rig, uint64_t id, const char *os)
{
    struct gw_device_view device;
    gw_worker_flush_touches(rig->worker.worker);
    rig_settle(rig);
    assert_int_equal(gw_device_get(rig->core, id, &device), BASE_OK);
    assert_int_equal(device.attrs.count, 1);
    assert_true(base_str_equal(device.attrs.items[0].text, base_str_of(os)));
}

static void a_device_brings_few(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig.certified = true;
    rig_start(&rig);
    for (uint32_t i = 0; i < 100; i++) {
        checkin(&rig, FICKLE, i);
    }
    assert_int_equal(gw_attr_pool_count(rig.core->pool), GW_ATTR_POOL_EACH_MAX);
    expect_os(&rig, FICKLE, "os31");
    checkin(&rig, OTHER, 1000);
    expect_os(&rig, OTHER, "os1000");
    checkin(&rig, FICKLE, 1000); // what somebody else brought it may have
    expect_os(&rig, FICKLE, "os1000");
    rig_advance_s(&rig, HOUR_S);
    checkin(&rig, FICKLE, 2000);
    expect_os(&rig, FICKLE, "os2000");
    assert_int_equal(gw_attr_pool_count(rig.core->pool), GW_ATTR_POOL_EACH_MAX + 2);
    rig_stop(&rig); // from the store all come back
    rig_start(&rig);
    assert_int_equal(gw_attr_pool_count(rig.core->pool), 2);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_device_brings_few)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
