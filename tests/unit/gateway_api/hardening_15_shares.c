// What all tenants share is not one tenant's to use up: its share of tokens and tasks, told by
// name; the others and the gateway's own have room all the while.
#include "api_kit.h"

#include "svc/access/operators_private.h"

struct bearer {
    char text[80];
    char id[WIRE_DEVICE_HEX + 1];
};

static struct bearer tenant_new(struct api_kit *kit, const char *name)
{
    struct bearer out;
    char body[64];
    snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/tenants", body, 201));
    kit->tenant = name;
    json_t *token =
        api_call(kit, GW_METHOD_POST, "/api/v1/tokens", "{\"name\":\"a\",\"role\":\"admin\"}", 201);
    kit->tenant = NULL;
    snprintf(out.text, sizeof(out.text), "Bearer %s", api_text(token, "secret"));
    snprintf(out.id, sizeof(out.id), "%s", api_text(token, "id"));
    json_decref(token);
    return out;
}

static void test_the_rule(void **state)
{
    static const struct {
        uint16_t tenant;
        uint32_t all;
        uint32_t own;
        enum base_status status;
    } cases[] = {
        {0, 0, 0, BASE_OK},
        {0, 99, 99, BASE_OK}, // of who runs the gateway: all of them
        {0, 99, 1, BASE_OK},
        {0, 100, 1, BASE_ERR_LIMIT},
        {GW_TENANT_EVERY, 99, 99, BASE_OK},
        {1, 0, 0, BASE_OK},
        {1, 49, 49, BASE_OK},
        {1, 50, 50, BASE_ERR_CONFLICT},
        {2, 50, 0, BASE_OK},
        {2, 74, 24, BASE_OK},
        {2, 75, 25, BASE_ERR_CONFLICT},
        {3, 99, 0, BASE_OK}, // the last place is for who has none
        {3, 99, 1, BASE_ERR_CONFLICT},
        {3, 100, 0, BASE_ERR_LIMIT},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); ++i) {
        struct base_error error = {0};
        struct gw_tenant_holding holding = {.tenant = cases[i].tenant,
                                            .what = "rollouts",
                                            .max = 100,
                                            .all = cases[i].all,
                                            .own = cases[i].own};
        enum base_status status = gw_tenant_may_add(&holding, &error);
        if (status != cases[i].status) {
            fail_msg("case %zu: status %d, expected %d", i, status, cases[i].status);
        }
        assert_true((status == BASE_OK) == (error.text[0] == '\0'));
    }
}

// In memory alone: thousands of commits would take a minute.
static void fill_tokens(struct api_kit *kit, uint16_t tenant, uint32_t count)
{
    struct gw_operators *operators = kit->core->operators;
    for (uint32_t i = 0; i < count; ++i) {
        struct gw_token *token = calloc(1, sizeof(*token));
        assert_non_null(token);
        token->view.id = operators->tokens[operators->token_count - 1]->view.id + 1;
        token->view.tenant = tenant;
        token->view.role = GW_ROLE_VIEWER;
        operators->tokens[operators->token_count++] = token;
    }
}

static void test_tokens(void **state)
{
    static const char body[] = "{\"name\":\"x\",\"role\":\"viewer\"}";
    static const char path[] = "/api/v1/tokens";
    struct api_kit kit;
    char revoke[96];

    (void)state;
    api_kit_init(&kit);
    struct bearer one = tenant_new(&kit, "one");
    struct bearer two = tenant_new(&kit, "two"); // id 2
    kit.bearer = two.text;
    json_t *token = api_call(&kit, GW_METHOD_POST, path, body, 201);
    uint32_t others = kit.core->operators->token_count - 2;
    uint32_t share = (GW_TOKENS_MAX - others + 1) / 2;
    fill_tokens(&kit, 2, share - 3);
    json_decref(api_call(&kit, GW_METHOD_POST, path, body, 201)); // the last of its share
    api_refused(&kit, GW_METHOD_POST, path, body, 409, "the tenant has 20");
    api_refused(&kit, GW_METHOD_POST, path, body, 409, "tokens, the most it may have");
    // What it revoked makes room for its own.
    snprintf(revoke, sizeof(revoke), "/api/v1/tokens/%s/revoke", api_text(token, "id"));
    json_decref(api_call(&kit, GW_METHOD_POST, revoke, "{}", 200));
    json_decref(api_call(&kit, GW_METHOD_POST, path, body, 201));
    api_refused(&kit, GW_METHOD_POST, path, body, 409, "tokens, the most it may have");
    kit.bearer = one.text;
    json_decref(api_call(&kit, GW_METHOD_POST, path, body, 201));
    kit.bearer = NULL;
    json_decref(api_call(&kit, GW_METHOD_POST, path, body, 201));
    // Full of others', it is full.
    fill_tokens(&kit, 0, GW_TOKENS_MAX - kit.core->operators->token_count);
    kit.bearer = one.text;
    api_refused(&kit, GW_METHOD_POST, path, body, 503, "there are 4096 tokens");
    json_decref(token);
    api_kit_done(&kit);
}

static void fill_tasks(struct api_kit *kit, uint16_t tenant, uint32_t count)
{
    struct gw_catalog *catalog = &kit->core->catalog;
    uint32_t all = catalog->task_count + count;
    struct gw_task **grown = realloc(catalog->tasks, all * sizeof(*grown));
    assert_non_null(grown);
    catalog->tasks = grown;
    catalog->task_capacity = all;
    for (uint64_t id = UINT64_MAX - count + 1; catalog->task_count < all; ++id) {
        struct gw_task *task = calloc(1, sizeof(*task));
        assert_non_null(task);
        task->task_id = id; // behind all that names give, as far as this test is concerned
        task->tenant = tenant;
        task->slot = catalog->slot_count++;
        catalog->tasks[catalog->task_count++] = task;
    }
}

static void test_tasks(void **state)
{
    static const char path[] = "/api/v1/tasks";
    struct api_kit kit;

    (void)state;
    api_kit_init(&kit);
    struct bearer one = tenant_new(&kit, "one");
    struct bearer two = tenant_new(&kit, "two");
    fill_tasks(&kit, 2, GW_TASKS_MAX / 2 - 1);
    kit.bearer = two.text;
    json_decref(api_call(&kit, GW_METHOD_POST, path, "{\"name\":\"two/a\"}", 201));
    api_refused(&kit, GW_METHOD_POST, path, "{\"name\":\"two/b\"}", 409,
                "the tenant has 5000 tasks, the most it may have: half of what the other tenants "
                "leave of 10000");
    json_decref(api_call(&kit, GW_METHOD_POST, path, "{\"name\":\"two/a\"}", 200)); // its own
    kit.bearer = one.text;
    json_decref(api_call(&kit, GW_METHOD_POST, path, "{\"name\":\"one/a\"}", 201));
    kit.bearer = NULL;
    json_decref(api_call(&kit, GW_METHOD_POST, path, "{\"name\":\"a\"}", 201));
    api_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rule),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
