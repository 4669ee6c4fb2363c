// What each kind of outcome does to the bits of a device's record, from every state that matters.
#include "test_kit.h"

#include "svc/device/device_record.h"

#define BACK (GW_OUTCOME_ROLLED_BACK | GW_OUTCOME_WITHDRAWN)
#define GONE                                                                                       \
    (BACK | GW_OUTCOME_REMOVED | GW_OUTCOME_RETRY | GW_OUTCOME_RETRY_GIVEN | GW_OUTCOME_OFFERED)
#define ACTIVE (GW_OUTCOME_OFFERED | GW_OUTCOME_DOWNLOADED | GW_OUTCOME_ACTIVATED)

static unsigned step(unsigned bits, enum wire_outcome_kind kind, uint64_t fingerprint)
{
    struct wire_outcome said = {.kind = kind, .fingerprint = fingerprint};
    return gw_outcome_step((uint16_t)bits, &said);
}

// Each line is all that the kind sets; what was there before stays.
static void each_kind_sets_its_own(void **state)
{
    static const struct {
        enum wire_outcome_kind kind;
        unsigned sets;
    } lines[] = {
        {WIRE_OUTCOME_DOWNLOADED, GW_OUTCOME_DOWNLOADED},
        {WIRE_OUTCOME_ACTIVATED, GW_OUTCOME_DOWNLOADED | GW_OUTCOME_ACTIVATED},
        {WIRE_OUTCOME_RAN, GW_OUTCOME_RAN},
        {WIRE_OUTCOME_SHADOW_AGREED, GW_OUTCOME_DOWNLOADED | GW_OUTCOME_RAN | GW_OUTCOME_SHADOW},
        {WIRE_OUTCOME_ROLLED_BACK, GW_OUTCOME_ROLLED_BACK},
        {WIRE_OUTCOME_NOT_APPLICABLE, GW_OUTCOME_NOT_APPLICABLE},
        {WIRE_OUTCOME_REMOVED, GW_OUTCOME_REMOVED},
        {WIRE_OUTCOME_FAIL_LOAD, GW_OUTCOME_FAILED},
        {WIRE_OUTCOME_FAIL_EXCEPTION, GW_OUTCOME_FAILED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(step(0, lines[i].kind, 0), lines[i].sets | GW_OUTCOME_OFFERED);
        assert_int_equal(step(GW_OUTCOME_PROVEN | GW_OUTCOME_DRAWN, lines[i].kind, 0),
                         lines[i].sets | GW_OUTCOME_PROVEN | GW_OUTCOME_DRAWN | GW_OUTCOME_OFFERED);
    }
}

// A version that is active again is neither gone nor gone back from, nor does it try again.
static void active_again(void **state)
{
    (void)state;
    assert_int_equal(step(GONE, WIRE_OUTCOME_ACTIVATED, 0), ACTIVE);
    assert_int_equal(step(GONE | GW_OUTCOME_FAILED | GW_OUTCOME_RAN, WIRE_OUTCOME_ACTIVATED, 0),
                     ACTIVE | GW_OUTCOME_FAILED | GW_OUTCOME_RAN);
}

// With a cause it was withdrawn, and stays so until it is active again.
static void going_back(void **state)
{
    (void)state;
    unsigned back = step(ACTIVE, WIRE_OUTCOME_ROLLED_BACK, 7);
    assert_int_equal(back, ACTIVE | BACK);
    assert_int_equal(step(back, WIRE_OUTCOME_ROLLED_BACK, 0), ACTIVE | BACK);
    assert_int_equal(step(ACTIVE, WIRE_OUTCOME_ROLLED_BACK, 0), ACTIVE | GW_OUTCOME_ROLLED_BACK);
}

// Of control that was offered nothing only that it ran, and how, is taken.
static void control_only_runs(void **state)
{
    const unsigned control = GW_OUTCOME_CONTROL | GW_OUTCOME_DRAWN;
    (void)state;
    assert_int_equal(step(control, WIRE_OUTCOME_RAN, 0), control | GW_OUTCOME_RAN);
    assert_int_equal(step(control, WIRE_OUTCOME_FAIL_EXCEPTION, 0),
                     control | GW_OUTCOME_RAN | GW_OUTCOME_FAILED);
    assert_int_equal(step(control, WIRE_OUTCOME_ACTIVATED, 0), control);
    assert_int_equal(step(control, WIRE_OUTCOME_REMOVED, 0), control);
    // A placebo is an offer.
    assert_int_equal(step(control | GW_OUTCOME_OFFERED, WIRE_OUTCOME_ACTIVATED, 0),
                     control | ACTIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_sets_its_own),
        cmocka_unit_test(active_again),
        cmocka_unit_test(going_back),
        cmocka_unit_test(control_only_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
