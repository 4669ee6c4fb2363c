// Lists of rollouts: the newest first, whatever their ids, page by page, filtered.
#include "core_rig.h"

#include "svc/view/rollout_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define ROLLOUTS 7u

static const struct rig_stage full[] = {{"full", POL_STAGE_FULL, 10000, NULL, NULL, 5, 100000, 0}};
// In the order in which they were made; the last two in one moment.
static const uint64_t ids[ROLLOUTS] = {0x50, 0x9000000000000001, 0x10, 0x51, 0x99, 0x20, 0x30};
static const uint64_t newest[ROLLOUTS] = {0x30, 0x20, 0x99, 0x51, 0x10, 0x9000000000000001, 0x50};

static struct rig rig;

static int open_rig(void **state)
{
    (void)state;
    struct wire_sha256 version;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    rig_version(&rig, "a", "1.0.0", &version);
    for (uint32_t i = 0; i < ROLLOUTS; i++) {
        rig_advance_s(&rig, i + 1 < ROLLOUTS ? 1 : 0);
        assert_int_equal(
            rig_rollout(&rig, ids[i], "a", &version, NULL, NULL, full, 1, &view, &error), BASE_OK);
    }
    rig_command(&rig, 0x99, POL_COMMAND_START, NULL);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static void expect(const struct gw_rollout_ask *ask, const uint64_t *wanted, uint32_t count,
                   bool more)
{
    struct gw_rollout_page page;
    assert_int_equal(gw_rollout_page(rig.core, ask, &page), BASE_OK);
    assert_int_equal(page.count, count);
    assert_int_equal(page.more, more);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(page.ids[i], wanted[i]);
    }
}

static void test_newest_first_in_pages_of_any_size(void **state)
{
    (void)state;
    for (uint32_t limit = 1; limit <= ROLLOUTS + 1; limit++) {
        struct gw_rollout_ask ask = {.limit = limit};
        for (uint32_t at = 0; at < ROLLOUTS; at += limit) {
            uint32_t left = ROLLOUTS - at;
            expect(&ask, &newest[at], left < limit ? left : limit, left > limit);
            ask.after = newest[at + limit <= ROLLOUTS ? at + limit - 1 : ROLLOUTS - 1];
        }
        expect(&ask, NULL, 0, false);
    }
    const struct gw_rollout_ask nobodys = {.limit = 3, .after = 0x77};
    struct gw_rollout_page page;
    assert_int_equal(gw_rollout_page(rig.core, &nobodys, &page), BASE_ERR_NOT_FOUND);
}

static bool sees_none(void *ctx, uint16_t tenant, struct base_str task)
{
    (void)ctx;
    (void)tenant;
    (void)task;
    return false;
}

static void test_filters(void **state)
{
    (void)state;
    static const uint64_t started[] = {0x99};
    static const uint64_t fifties[] = {0x51, 0x50};
    static const uint64_t high[] = {0x9000000000000001};
    struct gw_rollout_ask ask = {.limit = 10, .has_state = true, .state = POL_ROLLOUT_RUNNING};
    expect(&ask, started, 1, false);
    ask = (struct gw_rollout_ask){.limit = 10, .id_from = 0x50, .id_to = 0x5f};
    expect(&ask, fifties, 2, false);
    ask = (struct gw_rollout_ask){
        .limit = 10, .id_from = 0x9000000000000000, .id_to = 0x9fffffffffffffff};
    expect(&ask, high, 1, false);
    ask = (struct gw_rollout_ask){.limit = 10, .task = BASE_STR("b")};
    expect(&ask, NULL, 0, false);
    ask = (struct gw_rollout_ask){.limit = 10, .sees = sees_none};
    expect(&ask, NULL, 0, false);
    ask.after = 0x50; // what it may not see is not there
    struct gw_rollout_page page;
    assert_int_equal(gw_rollout_page(rig.core, &ask, &page), BASE_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_newest_first_in_pages_of_any_size, open_rig,
                                        close_rig),
        cmocka_unit_test_setup_teardown(test_filters, open_rig, close_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
