// Tokens as they are stored, and whose they are.
#include "test_kit.h"

#include "svc/access/operators.h"

static bool same(const char *a, const char *b)
{
    return gw_same_person(base_str_of(a), base_str_of(b));
}

// A person is the same in any case of all letters, and however blanks are set; no other is.
static void one_person_in_any_case(void **state)
{
    (void)state;
    assert_true(same("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"));
    for (char c = 'A'; c <= 'Z'; c++) {
        char upper[] = {'l', c, '\0'};
        char lower[] = {'l', (char)(c - 'A' + 'a'), '\0'};
        assert_true(same(upper, lower));
    }
    assert_true(same(" Ana\tMaria ", "anamaria"));
    assert_false(same("ana", "anna") || same("ana", "an") || same("", "z") || same("@", "`") ||
                 same("[", "{"));
}

static void scopes_end_at_a_slash(void **state)
{
    (void)state;
    struct gw_actor actor = {.scope_count = 2, .scopes = {"shop", "re*"}};
    assert_true(gw_actor_covers(&actor, BASE_STR("shop/score")));
    assert_true(gw_actor_covers(&actor, BASE_STR("shop")));
    assert_true(gw_actor_covers(&actor, BASE_STR("red/one")));
    assert_false(gw_actor_covers(&actor, BASE_STR("shopping/score")));
    assert_false(gw_actor_covers(&actor, BASE_STR("a/shop")));
    actor.scope_count = 0;
    assert_true(gw_actor_covers(&actor, BASE_STR("a/shop")));
}

static void a_row_is_read_as_written(void **state)
{
    (void)state;
    uint8_t row[GW_TOKEN_ROW_MAX];
    for (int owned = 0; owned < 2; owned++) {
        struct gw_token token = {.view = {.role = GW_ROLE_APPROVER,
                                          .tenant = 3,
                                          .created_s = 1,
                                          .expires_s = 2,
                                          .revoked_s = 3,
                                          .last_used_s = 4,
                                          .created_by = 5,
                                          .uses = 6,
                                          .uses_max = 7,
                                          .revision = 8,
                                          .scope_count = 1}};
        struct gw_token back;
        token.hash.bytes[31] = 9;
        (void)snprintf(token.view.name, sizeof(token.view.name), "ana");
        (void)snprintf(token.view.scopes[0], sizeof(token.view.scopes[0]), "shop*");
        (void)snprintf(token.view.owner, sizeof(token.view.owner), "%s", owned ? "Ben" : "");
        size_t size = gw_token_encode(&token, row);
        assert_int_equal(gw_token_decode(row, size, &back), BASE_OK);
        token.stored_used_s = 4;
        assert_memory_equal(&back.hash, &token.hash, sizeof(token.hash));
        assert_true(back.view.role == token.view.role && back.view.tenant == 3 &&
                    back.view.created_s == 1 && back.view.expires_s == 2 &&
                    back.view.revoked_s == 3 && back.view.last_used_s == 4 &&
                    back.view.created_by == 5 && back.view.uses == 6 && back.view.uses_max == 7 &&
                    back.view.revision == 8 && back.stored_used_s == 4);
        assert_string_equal(back.view.name, "ana");
        assert_string_equal(back.view.scopes[0], "shop*");
        assert_string_equal(back.view.owner, token.view.owner);
        for (size_t cut = 0; cut < size; cut++) {
            assert_int_equal(gw_token_decode(row, cut, &back), BASE_ERR_CORRUPT);
        }
        row[0] = 3;
        assert_int_equal(gw_token_decode(row, size, &back), BASE_ERR_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_person_in_any_case),
        cmocka_unit_test(scopes_end_at_a_slash),
        cmocka_unit_test(a_row_is_read_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
