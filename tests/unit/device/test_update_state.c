// The update state machine, exhaustively: every event in every state, against the rules in words
// rather than against the table.
#include "core/base/update_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct aspects {
    bool active;
    bool trial;
    bool pull;
};

static struct aspects aspects_of(enum dev_update_state state)
{
    return (struct aspects){dev_update_has_active(state), dev_update_on_trial(state),
                            dev_update_is_pulling(state)};
}

// What each event needs and does, in terms of the three aspects. False: not allowed.
static bool rule(enum dev_update_event event, struct aspects *a)
{
    struct aspects before = *a;
    switch (event) {
    case DEV_UPDATE_ON_ACCEPT:
        a->pull = true;
        return true;
    case DEV_UPDATE_ON_ABANDON:
        a->pull = false;
        return before.pull;
    case DEV_UPDATE_ON_ACTIVATE:
        *a = (struct aspects){true, true, false};
        return before.pull;
    case DEV_UPDATE_ON_PASS:
    case DEV_UPDATE_ON_FALL_BACK:
        a->trial = false;
        return before.active;
    case DEV_UPDATE_ON_FALL_EMPTY:
        a->active = false;
        a->trial = false;
        return before.active;
    case DEV_UPDATE_ON_AGAIN:
        a->trial = true;
        return before.active && !before.pull;
    case DEV_UPDATE_ON_STAND:
        a->trial = false;
        return before.trial;
    case DEV_UPDATE_ON_REVERT:
        *a = (struct aspects){true, false, false};
        return before.active;
    case DEV_UPDATE_ON_REMOVE:
        *a = (struct aspects){false, false, false};
        return true;
    case DEV_UPDATE_EVENT_COUNT:
        break;
    }
    return false;
}

static void test_every_event_in_every_state(void **state)
{
    (void)state;
    int allowed = 0;
    for (int s = 0; s < DEV_UPDATE_STATE_COUNT; s++) {
        for (int e = 0; e < DEV_UPDATE_EVENT_COUNT; e++) {
            struct aspects expected = aspects_of((enum dev_update_state)s);
            bool may = rule((enum dev_update_event)e, &expected);
            enum dev_update_state next = DEV_UPDATE_STATE_COUNT;
            enum base_status status =
                dev_update_next((enum dev_update_state)s, (enum dev_update_event)e, &next);
            assert_int_equal(status, may ? BASE_OK : BASE_ERR_CONFLICT);
            if (!may) {
                assert_int_equal(next, DEV_UPDATE_STATE_COUNT); // untouched
                continue;
            }
            allowed++;
            struct aspects got = aspects_of(next);
            assert_int_equal(got.active, expected.active);
            assert_int_equal(got.trial, expected.trial);
            assert_int_equal(got.pull, expected.pull);
        }
    }
    assert_int_equal(allowed, 6 + 3 + 3 + 4 + 4 + 4 + 2 + 2 + 4 + 6);
}

static void test_states_are_told_apart_by_their_aspects(void **state)
{
    (void)state;
    for (int s = 0; s < DEV_UPDATE_STATE_COUNT; s++) {
        struct aspects a = aspects_of((enum dev_update_state)s);
        assert_true(a.active || !a.trial); // what is not active is not on trial
        for (int t = 0; t < s; t++) {
            struct aspects b = aspects_of((enum dev_update_state)t);
            assert_true(a.active != b.active || a.trial != b.trial || a.pull != b.pull);
        }
    }
}

static void test_out_of_range(void **state)
{
    (void)state;
    enum dev_update_state next = DEV_UPDATE_EMPTY;
    assert_int_equal(dev_update_next((enum dev_update_state)99, DEV_UPDATE_ON_ACCEPT, &next),
                     BASE_ERR_INVALID);
    assert_int_equal(dev_update_next((enum dev_update_state) - 1, DEV_UPDATE_ON_ACCEPT, &next),
                     BASE_ERR_INVALID);
    assert_int_equal(dev_update_next(DEV_UPDATE_EMPTY, DEV_UPDATE_EVENT_COUNT, &next),
                     BASE_ERR_INVALID);
    assert_false(dev_update_has_active((enum dev_update_state)99));
    assert_string_equal(dev_update_state_name((enum dev_update_state)99), "unknown state");
}

static void test_names_are_distinct(void **state)
{
    (void)state;
    for (int s = 0; s < DEV_UPDATE_STATE_COUNT; s++) {
        for (int t = 0; t < s; t++) {
            assert_string_not_equal(dev_update_state_name((enum dev_update_state)s),
                                    dev_update_state_name((enum dev_update_state)t));
        }
    }
}

// From everywhere, REMOVE and one install lead to a settled version: there is no trap.
static void test_no_state_is_a_trap(void **state)
{
    (void)state;
    static const enum dev_update_event way[] = {DEV_UPDATE_ON_REMOVE, DEV_UPDATE_ON_ACCEPT,
                                                DEV_UPDATE_ON_ACTIVATE, DEV_UPDATE_ON_PASS};
    for (int s = 0; s < DEV_UPDATE_STATE_COUNT; s++) {
        enum dev_update_state now = (enum dev_update_state)s;
        for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
            assert_int_equal(dev_update_next(now, way[i], &now), BASE_OK);
        }
        assert_int_equal(now, DEV_UPDATE_SETTLED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_event_in_every_state),
        cmocka_unit_test(test_states_are_told_apart_by_their_aspects),
        cmocka_unit_test(test_out_of_range),
        cmocka_unit_test(test_names_are_distinct),
        cmocka_unit_test(test_no_state_is_a_trap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
