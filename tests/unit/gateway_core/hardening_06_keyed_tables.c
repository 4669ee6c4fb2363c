// Ids that all meet in one place under the mix that tables used to have, and under any other that
// is known: in a keyed table they lie as scattered as random ones. The same ids go into the
// devices, the credentials, and a core that is stopped and loads them again.
#include "core_rig.h"

#include "test_kit.h"
#include "svc/access/credentials.h"
#include "svc/device/device_table.h"

#define CHOSEN 12000u

static const struct base_hash_key key = {0x1234567890abcdef, 0xfedcba0987654321};

static uint64_t undo_shift(uint64_t x, int shift)
{
    uint64_t y = x;
    for (int done = shift; done < 64; done += shift) {
        y = x ^ (y >> shift);
    }
    return y;
}

// The id that base_mix64 takes to `place`: what a stranger computes.
static uint64_t chosen(uint64_t place)
{
    uint64_t x = undo_shift(place, 31) * UINT64_C(0x319642b2d24d8ec3);
    x = undo_shift(x, 27) * UINT64_C(0x96de1b173f119089);
    return undo_shift(x, 30) - UINT64_C(0x9e3779b97f4a7c15);
}

// One shard (top bits 0), one place in it (low bits 0), at any size the table can have.
static uint64_t chosen_id(uint32_t i)
{
    return chosen((uint64_t)(i + 1) << 32 & (UINT64_MAX >> 6));
}

static bool open_all(void *ctx, uint32_t rollout)
{
    (void)ctx;
    (void)rollout;
    return true;
}

static void test_devices(void **state)
{
    (void)state;
    struct gw_device_table *table = NULL;
    assert_int_equal(base_mix64(chosen_id(4)), UINT64_C(5) << 32);
    assert_int_equal(gw_device_table_new(open_all, NULL, &key, &table), BASE_OK);
    for (uint32_t i = 0; i < CHOSEN; i++) {
        struct gw_device_snapshot device = {.device_id = chosen_id(i), .last_seen_s = 1000};
        assert_int_equal(gw_device_table_load(table, &device), BASE_OK);
    }
    assert_int_equal(gw_device_table_count(table), CHOSEN);
    assert_true(gw_device_table_validate(table));
    assert_int_equal(gw_device_table_probes_long(table), 0);
    gw_device_table_free(table);
}

static void test_credentials(void **state)
{
    (void)state;
    struct gw_credentials *credentials = NULL;
    struct gw_credential one = {.state = GW_CREDENTIAL_TOKEN, .tenant = 3};
    assert_int_equal(gw_credentials_new(&key, &credentials), BASE_OK);
    for (uint32_t i = 0; i < CHOSEN; i++) {
        assert_true(gw_credentials_set(credentials, chosen_id(i), &one));
    }
    assert_int_equal(gw_credentials_count(credentials), CHOSEN);
    for (uint32_t i = 0; i < CHOSEN; i++) {
        assert_int_equal(gw_credentials_tenant(credentials, chosen_id(i)), 3);
    }
    assert_int_equal(gw_credentials_probes_long(credentials), 0);
    gw_credentials_free(credentials);
}

// Two cores draw two keys: where a device lies in one says nothing of the other.
static void test_key_is_the_process_own(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    struct base_hash_key first = rig.core->hash_key;
    assert_true(first.k0 != 0 && first.k1 != 0);
    rig_stop(&rig);
    rig_start(&rig);
    assert_true(rig.core->hash_key.k0 != first.k0 && rig.core->hash_key.k1 != first.k1);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_key_is_the_process_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
