// Codes and sessions of the console by the clock: how long each is good, how many there are, and
// that the wall clock makes none good for longer.
#include "core_rig.h"

#include "svc/access/console_login.h"
#include "svc/core_private.h"
#include "test_kit.h"

#define ID UINT64_C(42)

static bool is_good(struct rig *rig, const char *text, bool code)
{
    uint64_t id = 0;
    bool found = gw_login_find(rig->core, base_str_of(text), code, &id);
    assert_int_equal(id, found ? ID : 0);
    return found;
}

static void make_code(struct rig *rig, char out[GW_SECRET_TEXT_BYTES + 1])
{
    assert_int_equal(gw_login_code(rig->core, ID, out), BASE_OK);
}

static void make_session(struct rig *rig, char out[GW_SECRET_TEXT_BYTES + 1])
{
    char code[GW_SECRET_TEXT_BYTES + 1];
    make_code(rig, code);
    assert_int_equal(gw_login_open(rig->core, base_str_of(code), out), BASE_OK);
}

static void test_how_long(void **state)
{
    (void)state;
    struct rig rig;
    char code[GW_SECRET_TEXT_BYTES + 1];
    char other[GW_SECRET_TEXT_BYTES + 1];
    char session[GW_SECRET_TEXT_BYTES + 1];
    rig_init(&rig);
    rig_start(&rig);
    rig_advance_s(&rig, 1000);
    make_code(&rig, code);
    make_code(&rig, other);
    rig_advance_s(&rig, GW_LOGIN_CODE_S - 1);
    assert_true(is_good(&rig, code, true));
    assert_false(is_good(&rig, code, false)); // a code is no session
    assert_int_equal(gw_login_open(rig.core, base_str_of(code), session), BASE_OK);
    assert_false(is_good(&rig, code, true));
    assert_true(is_good(&rig, session, false));
    assert_false(is_good(&rig, session, true));
    rig_advance_s(&rig, 1);
    assert_false(is_good(&rig, other, true));
    assert_int_equal(gw_login_open(rig.core, base_str_of(other), code), BASE_ERR_NOT_FOUND);
    rig_advance_s(&rig, GW_LOGIN_SESSION_S - 2);
    assert_true(is_good(&rig, session, false));
    rig.wall_us = 1; // somebody sets it back
    assert_true(is_good(&rig, session, false));
    rig_advance_s(&rig, 1);
    assert_false(is_good(&rig, session, false));
    rig_done(&rig);
}

static void test_how_many(void **state)
{
    (void)state;
    struct rig rig;
    static char codes[GW_LOGIN_CODES_EACH + 1][GW_SECRET_TEXT_BYTES + 1];
    static char sessions[GW_LOGIN_SESSIONS_EACH + 1][GW_SECRET_TEXT_BYTES + 1];
    rig_init(&rig);
    rig_start(&rig);
    for (uint32_t i = 0; i <= GW_LOGIN_SESSIONS_EACH; i++) {
        rig_advance_s(&rig, 1);
        make_session(&rig, sessions[i]);
    }
    for (uint32_t i = 0; i <= GW_LOGIN_SESSIONS_EACH; i++) {
        assert_int_equal(is_good(&rig, sessions[i], false), i > 0);
    }
    for (uint32_t i = 0; i <= GW_LOGIN_CODES_EACH; i++) {
        rig_advance_s(&rig, 1);
        make_code(&rig, codes[i]);
    }
    for (uint32_t i = 0; i <= GW_LOGIN_CODES_EACH; i++) {
        assert_int_equal(is_good(&rig, codes[i], true), i > 0);
    }
    rig_done(&rig);
}

static bool code_of(struct rig *rig, uint64_t id, char out[GW_SECRET_TEXT_BYTES + 1])
{
    enum base_status status = gw_login_code(rig->core, id, out);
    assert_true(status == BASE_OK || status == BASE_ERR_BUSY);
    return status == BASE_OK;
}

// Whatever others ask for, what an operator has stays good; only its own takes its places.
static void test_nobody_ends_another_login(void **state)
{
    (void)state;
    struct rig rig;
    char code[GW_SECRET_TEXT_BYTES + 1];
    char session[GW_SECRET_TEXT_BYTES + 1];
    char other[GW_SECRET_TEXT_BYTES + 1];
    char opened[GW_SECRET_TEXT_BYTES + 1];
    rig_init(&rig);
    rig_start(&rig);
    make_session(&rig, session);
    make_code(&rig, code);
    for (uint32_t i = 0; i < 4 * GW_LOGIN_CODES_EACH; i++) {
        assert_true(code_of(&rig, ID + 1, other)); // one token, again and again
    }
    assert_true(is_good(&rig, code, true));
    for (uint32_t i = 0; i < GW_LOGIN_CODES_MAX; i++) {
        (void)code_of(&rig, ID + 2 + i, other); // as many tokens as there are places
    }
    assert_false(code_of(&rig, ID + 2 + GW_LOGIN_CODES_MAX, other));
    assert_true(is_good(&rig, code, true));
    make_code(&rig, other); // in a place of its own
    assert_true(is_good(&rig, other, true));
    rig_advance_s(&rig, GW_LOGIN_CODE_S);
    for (uint32_t i = 0; i <= GW_LOGIN_SESSIONS_MAX; i++) {
        assert_true(code_of(&rig, ID + 1 + i, other));
        enum base_status status = gw_login_open(rig.core, base_str_of(other), opened);
        assert_int_equal(status, i < GW_LOGIN_SESSIONS_MAX - 1 ? BASE_OK : BASE_ERR_BUSY);
        rig_advance_s(&rig, i % GW_LOGIN_CODES_EACH == 0 ? GW_LOGIN_CODE_S : 0);
    }
    assert_true(is_good(&rig, session, false));
    rig_done(&rig);
}

static void test_what_is_none(void **state)
{
    (void)state;
    struct rig rig;
    static const char *const none[] = {"", "wlc_", "wcs_",
                                       "wlc_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                       "wcs_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    char out[GW_SECRET_TEXT_BYTES + 1];
    rig_init(&rig);
    rig_start(&rig);
    for (size_t i = 0; i < TEST_COUNT(none); i++) {
        assert_false(is_good(&rig, none[i], true));
        assert_false(is_good(&rig, none[i], false));
        assert_int_equal(gw_login_open(rig.core, base_str_of(none[i]), out), BASE_ERR_NOT_FOUND);
    }
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_how_long),
        cmocka_unit_test(test_how_many),
        cmocka_unit_test(test_nobody_ends_another_login),
        cmocka_unit_test(test_what_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
