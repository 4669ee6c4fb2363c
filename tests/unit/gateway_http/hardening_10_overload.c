// The overload manager's rule with numbers for memory and time: when levels begin and end, who goes
// at which, how much; and the rule for peers that take too little of what is sent to them.
#include "http/config/http_config.h"
#include "http/config/http_limits.h"
#include "http/memory/machine_memory.h"
#include "http/memory/overload.h"
#include "http/send_guard.h"

#include "test_kit.h"

static const struct gw_overload_bytes limits = {.process = 1000, .sockets = 500};

static enum gw_overload_level level_at(struct gw_overload_rule *rule, uint64_t process,
                                       uint64_t sockets, uint64_t now_ms)
{
    enum gw_overload_level before = rule->level;
    const struct gw_overload_bytes used = {process, sockets};
    bool changed = gw_overload_step(rule, &used, &limits, now_ms);
    assert_int_equal(changed, before != rule->level);
    return rule->level;
}

static void test_levels_rise_at_once(void **state)
{
    (void)state;
    static const struct {
        uint64_t process;
        uint64_t sockets;
        enum gw_overload_level level;
    } cases[] = {
        {0, 0, GW_OVERLOAD_CALM},       {799, 399, GW_OVERLOAD_CALM},
        {800, 0, GW_OVERLOAD_RAISED},   {0, 400, GW_OVERLOAD_RAISED},
        {899, 449, GW_OVERLOAD_RAISED}, {0, 450, GW_OVERLOAD_HIGH},
        {999, 0, GW_OVERLOAD_HIGH},     {1000, 0, GW_OVERLOAD_CRITICAL},
        {0, 500, GW_OVERLOAD_CRITICAL}, {UINT64_MAX, 0, GW_OVERLOAD_CRITICAL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gw_overload_rule rule = {0};
        assert_int_equal(level_at(&rule, cases[i].process, cases[i].sockets, 5), cases[i].level);
    }
    const struct gw_overload_bytes none = {0};
    const struct gw_overload_bytes used = {UINT64_MAX, UINT64_MAX};
    assert_int_equal(gw_overload_percent(&used, &none), 0); // no limit
}

static void test_levels_fall_by_steps(void **state)
{
    (void)state;
    struct gw_overload_rule rule = {0};
    assert_int_equal(level_at(&rule, 1000, 0, 10000), GW_OVERLOAD_CRITICAL);
    assert_int_equal(level_at(&rule, 0, 0, 10999), GW_OVERLOAD_CRITICAL);   // not yet
    assert_int_equal(level_at(&rule, 900, 0, 11000), GW_OVERLOAD_CRITICAL); // not low enough
    assert_int_equal(level_at(&rule, 899, 0, 11000), GW_OVERLOAD_HIGH);
    assert_int_equal(level_at(&rule, 0, 0, 11001), GW_OVERLOAD_HIGH);
    assert_int_equal(level_at(&rule, 1000, 0, 11002), GW_OVERLOAD_CRITICAL); // up at once
    assert_int_equal(level_at(&rule, 0, 0, 12002), GW_OVERLOAD_HIGH);
    assert_int_equal(level_at(&rule, 0, 0, 13002), GW_OVERLOAD_RAISED);
    assert_int_equal(level_at(&rule, 700, 0, 14002), GW_OVERLOAD_RAISED);
    assert_int_equal(level_at(&rule, 699, 0, 14002), GW_OVERLOAD_CALM);
    assert_int_equal(level_at(&rule, 0, 0, 20000), GW_OVERLOAD_CALM);
}

static void test_who_goes_when(void **state)
{
    (void)state;
    assert_int_equal(gw_overload_class_of(false, true, GW_SHED_HOLDS_BYTES),
                     GW_SHED_HOLDING_STRANGER);
    assert_int_equal(gw_overload_class_of(false, false, GW_SHED_HOLDS_BYTES - 1), GW_SHED_STRANGER);
    assert_int_equal(gw_overload_class_of(true, true, UINT64_MAX), GW_SHED_IDLE);
    assert_int_equal(gw_overload_class_of(true, false, UINT64_MAX), GW_SHED_NEVER);
    static const uint32_t classes_of_level[GW_OVERLOAD_LEVEL_COUNT] = {
        [GW_OVERLOAD_CALM] = 0,
        [GW_OVERLOAD_RAISED] = 1,
        [GW_OVERLOAD_HIGH] = 2,
        [GW_OVERLOAD_CRITICAL] = 3,
    };
    for (uint32_t level = 0; level < GW_OVERLOAD_LEVEL_COUNT; level++) {
        assert_string_not_equal(gw_overload_level_name(level), "?");
        for (uint32_t kind = 0; kind < GW_SHED_CLASS_COUNT; kind++) {
            assert_int_equal(gw_overload_sheds(level, kind), kind < classes_of_level[level]);
        }
    }
}

static void test_how_much_goes(void **state)
{
    (void)state;
    static const struct gw_overload_bytes large = {.process = 10000, .sockets = 1000};
    const struct gw_overload_bytes used = {.process = 8000, .sockets = 900};
    const struct gw_overload_bytes little = {.process = 7000, .sockets = 700};
    assert_int_equal(gw_overload_excess(&used, &large), 1000);
    assert_int_equal(gw_overload_excess(&little, &large), 0);
}

static void test_shared_state(void **state)
{
    (void)state;
    struct base_log log = {0};
    struct gw_overload *overload = NULL;
    assert_int_equal(gw_overload_new(&log, &overload), BASE_OK);
    struct gw_overload_bytes most = gw_overload_limits(overload);
    assert_in_range(most.process, UINT64_C(1) << 20, UINT64_MAX / 2);
    assert_in_range(most.sockets, UINT64_C(1) << 20, most.process);
    gw_overload_limit(overload, most.process, 1000);
    gw_overload_sockets(overload, 0, 990);
    gw_overload_measure(overload, 1000);
    assert_int_equal(gw_overload_now(overload), GW_OVERLOAD_HIGH);
    assert_int_equal(gw_overload_too_much(overload), 290);
    assert_true(gw_overload_used(overload).process > 0); // this program's
    assert_true(gw_machine_memory_own() > 0);
    gw_overload_sockets(overload, 990, 10);
    gw_overload_measure(overload, 1100); // too soon to look again
    assert_int_equal(gw_overload_now(overload), GW_OVERLOAD_HIGH);
    gw_overload_measure(overload, 2000);
    gw_overload_measure(overload, 3000);
    assert_int_equal(gw_overload_now(overload), GW_OVERLOAD_CALM);
    gw_overload_free(overload);
    gw_overload_measure(NULL, 0);
    gw_overload_sockets(NULL, 0, 1);
    assert_int_equal(gw_overload_now(NULL), GW_OVERLOAD_CALM);
}

static void test_peers_must_take_something(void **state)
{
    (void)state;
    const struct gw_limits rule = {.write_ms = 30000, .reply_rate_bytes = 512}; // 15,360 in 30 s
    struct gw_send_guard guard = {0};
    struct gw_send_state socket_state = {.arrived_bytes = 0, .waiting_bytes = 100000};
    assert_false(gw_send_guard_step(&guard, &socket_state, &rule, 1000));
    socket_state.arrived_bytes = 15359; // not enough, not yet late
    assert_false(gw_send_guard_step(&guard, &socket_state, &rule, 31000));
    assert_true(gw_send_guard_step(&guard, &socket_state, &rule, 31001));
    socket_state.arrived_bytes = 15360;
    assert_false(gw_send_guard_step(&guard, &socket_state, &rule, 31001)); // from here anew
    assert_false(gw_send_guard_step(&guard, &socket_state, &rule, 61001));
    assert_true(gw_send_guard_step(&guard, &socket_state, &rule, 61002));
    // Of a little that waits all must go, and no rate still means something.
    const struct gw_limits none = {.write_ms = 1000};
    guard = (struct gw_send_guard){0};
    socket_state = (struct gw_send_state){.arrived_bytes = 7, .waiting_bytes = 10};
    assert_false(gw_send_guard_step(&guard, &socket_state, &rule, 0));
    assert_int_equal(guard.goal_bytes, 10);
    guard = (struct gw_send_guard){0};
    assert_false(gw_send_guard_step(&guard, &socket_state, &none, 0));
    assert_true(gw_send_guard_step(&guard, &socket_state, &none, 1001));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_rise_at_once),
        cmocka_unit_test(test_levels_fall_by_steps),
        cmocka_unit_test(test_who_goes_when),
        cmocka_unit_test(test_how_much_goes),
        cmocka_unit_test(test_shared_state),
        cmocka_unit_test(test_peers_must_take_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
