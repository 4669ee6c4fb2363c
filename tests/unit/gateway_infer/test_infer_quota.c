// Quotas of tenants in calls and bytes of a minute, by a clock of the test.
#include "onnx_kit.h"

#include "infer/tenant_quota.h"

#define SECOND UINT64_C(1000000)

static enum base_status take(struct gw_tenant_quota *quota, uint16_t tenant, uint64_t bytes,
                             uint64_t now_us, uint32_t *out_retry_s, struct base_error *error)
{
    *out_retry_s = 0;
    *error = (struct base_error){0};
    const struct gw_tenant_call call = {tenant, bytes};
    return gw_tenant_quota_take(quota, &call, now_us, out_retry_s, error);
}

static void test_quota(void **state)
{
    struct gw_tenant_quota *quota = gw_tenant_quota_new(&(struct gw_tenant_quota_limits){6, 6000});
    struct base_error error;
    uint32_t retry_s;
    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(take(quota, 1, 10, SECOND, &retry_s, &error), BASE_OK);
    }
    assert_int_equal(take(quota, 1, 10, SECOND, &retry_s, &error), BASE_ERR_LIMIT);
    assert_string_equal(error.text, "the tenant had its 6 calls of a minute");
    assert_int_equal(retry_s, 11); // 10 s, and the part of one that rounds up
    assert_int_equal(take(quota, 2, 10, SECOND, &retry_s, &error), BASE_OK); // another one's
    assert_int_equal(take(quota, GW_TENANT_QUOTA_NONE, 10, SECOND, &retry_s, &error), BASE_OK);
    assert_int_equal(take(quota, 1, 10, 10 * SECOND, &retry_s, &error), BASE_ERR_LIMIT);
    assert_int_equal(take(quota, 1, 10, 11 * SECOND, &retry_s, &error), BASE_OK);
    assert_int_equal(take(quota, 1, 10, 11 * SECOND, &retry_s, &error), BASE_ERR_LIMIT);
    assert_int_equal(take(quota, 2, 5990, SECOND, &retry_s, &error), BASE_OK);
    assert_int_equal(take(quota, 2, 100, SECOND, &retry_s, &error), BASE_ERR_LIMIT);
    assert_string_equal(error.text, "the tenant had its 6000 bytes of calls of a minute");
    assert_int_equal(retry_s, 2);
    assert_int_equal(take(quota, 2, 100, 2 * SECOND, &retry_s, &error), BASE_OK);
    assert_int_equal(take(quota, 3, 6001, SECOND, &retry_s, &error), BASE_ERR_TOO_LARGE);
    assert_string_equal(error.text, "the tenant may send 6000 bytes of calls in a minute");
    assert_int_equal(take(quota, 3, 6000, SECOND, &retry_s, &error), BASE_OK);
    gw_tenant_quota_free(quota);
}

// What is refused for its bytes costs no call, and a limit of 0 is none.
static void test_what_costs_nothing(void **state)
{
    struct gw_tenant_quota *quota = gw_tenant_quota_new(&(struct gw_tenant_quota_limits){2, 100});
    struct base_error error;
    uint32_t retry_s;
    (void)state;
    assert_int_equal(take(quota, 1, 60, 0, &retry_s, &error), BASE_OK);
    assert_int_equal(take(quota, 1, 60, 0, &retry_s, &error), BASE_ERR_LIMIT);
    assert_int_equal(take(quota, 1, 40, 0, &retry_s, &error), BASE_OK);
    gw_tenant_quota_free(quota);
    quota = gw_tenant_quota_new(&(struct gw_tenant_quota_limits){0, 0});
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(take(quota, 1, UINT64_MAX, 0, &retry_s, &error), BASE_OK);
    }
    gw_tenant_quota_free(quota);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_what_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
