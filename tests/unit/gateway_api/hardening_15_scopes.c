// What a token with scenarios may not: change what is of no single scenario, end or see tokens of
// more than its own, read in the audit log or in the kill list what others' scenarios did.
#include "api_kit.h"

#define DEVICE "00000000000000ee"
#define DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

struct bearer {
    char text[80];
    char id[WIRE_DEVICE_HEX + 1];
};

static struct bearer token_of(struct api_kit *kit, const char *role, const char *more)
{
    struct bearer out;
    char body[256];
    snprintf(body, sizeof(body), "{\"name\":\"%s\",\"role\":\"%s\"%s}", role, role, more);
    json_t *token = api_call(kit, GW_METHOD_POST, "/api/v1/tokens", body, 201);
    snprintf(out.text, sizeof(out.text), "Bearer %s", api_text(token, "secret"));
    snprintf(out.id, sizeof(out.id), "%s", api_text(token, "id"));
    json_decref(token);
    return out;
}

// Has an item of this list the value?
static bool lists(struct api_kit *kit, const char *path, const char *member, const char *value)
{
    size_t index;
    json_t *item;
    bool found = false;
    json_t *page = api_call(kit, GW_METHOD_GET, path, NULL, 200);
    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        found = found || strcmp(api_text(item, member), value) == 0;
    }
    json_decref(page);
    return found;
}

// Even an operator of all tenants: what is of all scenarios is of more than its own.
static void test_what_is_of_no_scenario(void **state)
{
    static const struct {
        enum gw_method method;
        const char *path;
        const char *body;
    } changes[] = {
        {GW_METHOD_PUT, "/api/v1/devices/" DEVICE "/user", "{\"user\":\"ann\"}"},
        {GW_METHOD_POST, "/api/v1/devices/" DEVICE "/revoke", "{}"},
        {GW_METHOD_POST, "/api/v1/devices/" DEVICE "/reset", "{}"},
        {GW_METHOD_POST, "/api/v1/tenants", "{\"name\":\"acme\"}"},
        {GW_METHOD_PUT, "/api/v1/trust/root", "x"},
        {GW_METHOD_POST, "/api/v1/clock/accept", "{\"reason\":\"right\"}"},
        {GW_METHOD_POST, "/api/v1/kills", "{\"manifest\":\"" DIGEST "\",\"reason\":\"bad\"}"},
        {GW_METHOD_POST, "/api/v1/kills/" DIGEST "/lift", "{\"reason\":\"bad\"}"},
        {GW_METHOD_POST, "/api/v1/tokens", "{\"name\":\"e\",\"role\":\"enrol\"}"},
    };
    struct api_kit kit;

    (void)state;
    api_kit_init(&kit);
    struct bearer scoped = token_of(&kit, "admin", ",\"scopes\":[\"evil\"],\"tenant\":\"*\"");
    kit.bearer = scoped.text;
    for (size_t i = 0; i < TEST_COUNT(changes); ++i) {
        api_refused(&kit, changes[i].method, changes[i].path, changes[i].body, 403,
                    "needs a token without scopes");
    }
    kit.bearer = NULL;
    json_decref(api_call(&kit, changes[0].method, changes[0].path, changes[0].body, 200));
    api_kit_done(&kit);
}

static void test_tokens_of_others(void **state)
{
    struct api_kit kit;
    char path[64];

    (void)state;
    api_kit_init(&kit);
    struct bearer boss = token_of(&kit, "admin", "");
    struct bearer more = token_of(&kit, "viewer", ",\"scopes\":[\"evil\",\"shop\"]");
    struct bearer wide = token_of(&kit, "viewer", ",\"scopes\":[\"evil*\"]");
    struct bearer enrol = token_of(&kit, "enrol", "");
    struct bearer scoped = token_of(&kit, "admin", ",\"scopes\":[\"evil\"]");
    const char *others[] = {boss.id, more.id, wide.id, enrol.id};
    kit.bearer = scoped.text;
    for (size_t i = 0; i < TEST_COUNT(others); ++i) {
        assert_false(lists(&kit, "/api/v1/tokens", "id", others[i]));
        snprintf(path, sizeof(path), "/api/v1/tokens/%s", others[i]);
        api_refused(&kit, GW_METHOD_GET, path, NULL, 404, "no such token");
        snprintf(path, sizeof(path), "/api/v1/tokens/%s/revoke", others[i]);
        api_refused(&kit, GW_METHOD_POST, path, "{}", 404, "no such token");
    }
    assert_true(lists(&kit, "/api/v1/tokens", "id", scoped.id));
    struct bearer own = token_of(&kit, "viewer", ",\"scopes\":[\"evil\"]");
    assert_true(lists(&kit, "/api/v1/tokens", "id", own.id));
    snprintf(path, sizeof(path), "/api/v1/tokens/%s/revoke", own.id);
    json_decref(api_call(&kit, GW_METHOD_POST, path, "{}", 200));
    kit.bearer = boss.text; // still good, and sees all
    for (size_t i = 0; i < TEST_COUNT(others); ++i) {
        assert_true(lists(&kit, "/api/v1/tokens", "id", others[i]));
    }
    api_kit_done(&kit);
}

static void test_audit_of_others(void **state)
{
    static const struct {
        const char *path;
        const char *body;
        int status;
        bool seen;
    } cases[] = {
        {"/api/v1/tasks", "{\"name\":\"shop/a\"}", 201, false},
        {"/api/v1/tasks", "{\"name\":\"evil/a\"}", 201, true},
        {"/api/v1/tasks/shop%2Fa/versions", "{\"manifest\":\"" DIGEST "\"}", 409, false},
        {"/api/v1/tasks/evil%2Fa/versions", "{\"manifest\":\"" DIGEST "\"}", 409, true},
        {"/api/v1/tokens", "{\"name\":\"a\",\"role\":\"viewer\"}", 201, false},
        {"/api/v1/devices/" DEVICE "/revoke", "{}", 200, false},
        {"/api/v1/tasks/evil/versions", "{\"manifest\":\"" DIGEST "\"}", 404, true},
    };
    struct api_kit kit;
    size_t index;
    json_t *item;
    char body[128];

    (void)state;
    api_kit_init(&kit);
    struct bearer scoped = token_of(&kit, "admin", ",\"scopes\":[\"evil\"]"); // entry 1
    for (size_t i = 0; i < TEST_COUNT(cases); ++i) {
        json_decref(api_call(&kit, GW_METHOD_POST, cases[i].path, cases[i].body, cases[i].status));
    }
    kit.bearer = scoped.text; // its own deed, though of no scenario
    snprintf(body, sizeof(body), "{\"user\":\"ann\"}");
    json_decref(api_call(&kit, GW_METHOD_PUT, "/api/v1/devices/" DEVICE "/user", body, 403));
    json_t *page = api_call(&kit, GW_METHOD_GET, "/api/v1/audit?limit=500", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "items")), TEST_COUNT(cases) + 2);
    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        bool seen = index == TEST_COUNT(cases) + 1 || (index > 0 && cases[index - 1].seen);
        if (json_is_string(json_object_get(item, "entry")) != seen) {
            fail_msg("entry %zu: %s", index + 1, seen ? "not shown" : "shown");
        }
        assert_int_equal(strlen(api_text(item, "entry_sha256")), WIRE_SHA256_HEX);
    }
    json_decref(page);
    api_kit_done(&kit);
}

static void test_rollouts_and_kills_of_others(void **state)
{
    static const char stages[] = "[{\"name\":\"full\",\"kind\":\"full\",\"percent\":100,\"max_"
                                 "failure\":0.1,\"min_sample\":1}]";
    static const char *const scenarios[] = {"evil", "shop"};
    uint64_t now_s = base_clock_wall_us() / 1000000;
    struct api_kit kit;
    char hex[2][WIRE_SHA256_HEX + 1];
    char path[96];

    (void)state;
    api_kit_init(&kit);
    for (uint64_t i = 0; i < 2; ++i) {
        struct rollout_draft draft = {.task = scenarios[i],
                                      .id = 0x11 + i,
                                      .salt = 1,
                                      .release_counter = 1,
                                      .issued_s = now_s,
                                      .expires_s = now_s + 86400};
        api_version(&kit, scenarios[i], "1.0.0", &draft);
        wire_sha256_hex(&draft.manifest, hex[i]);
        char *body = api_rollout_text(&kit, &draft, stages);
        json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/rollouts", body, 201));
        free(body);
        snprintf(path, sizeof(path), "/api/v1/rollouts/%016llx/kill", (unsigned long long)draft.id);
        json_decref(api_call(&kit, GW_METHOD_POST, path, "{\"reason\":\"leaks\"}", 200));
    }
    struct bearer scoped = token_of(&kit, "admin", ",\"scopes\":[\"evil\"]");
    kit.bearer = scoped.text;
    assert_true(lists(&kit, "/api/v1/kills", "manifest", hex[0]));
    assert_false(lists(&kit, "/api/v1/kills", "manifest", hex[1]));
    json_t *page = api_call(&kit, GW_METHOD_GET, "/api/v1/audit?limit=500", NULL, 200);
    char *text = json_dumps(page, JSON_COMPACT);
    assert_non_null(strstr(text, "/api/v1/rollouts/0000000000000011/kill"));
    assert_null(strstr(text, "/api/v1/rollouts/0000000000000012/kill"));
    assert_null(strstr(text, "shop"));
    free(text);
    json_decref(page);
    api_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_of_no_scenario),
        cmocka_unit_test(test_tokens_of_others),
        cmocka_unit_test(test_audit_of_others),
        cmocka_unit_test(test_rollouts_and_kills_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
