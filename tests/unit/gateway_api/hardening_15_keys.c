// Answers kept for idempotency keys, between tenants: whatever one sends, none of another is
// forgotten before its time, and who is beyond its share is told so instead of being forgotten.
#include "api_kit.h"

#include "svc/access/answers.h"
#include "svc/access/operators.h"
#include "svc/core_private.h"

struct bearer {
    char text[80];
};

// Ids 1 and 2, in this order.
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
    json_decref(token);
    return out;
}

static struct gw_answer some_answer(uint32_t number, uint16_t tenant)
{
    struct gw_answer answer = {.status = 200, .tenant = tenant};
    memcpy(answer.key.bytes, &number, sizeof(number));
    return answer;
}

// As if the tenant had sent so many keys.
static void keep(struct api_kit *kit, uint16_t tenant, uint32_t count)
{
    static uint32_t number;
    for (uint32_t i = 0; i < count; ++i) {
        struct gw_answer answer = some_answer(++number, tenant);
        gw_answers_kept(kit->core, &answer);
    }
}

// Makes the task with the key; the status.
static int make(struct api_kit *kit, const struct bearer *bearer, const char *key, const char *name,
                uint64_t *out_retry_after_s)
{
    struct api_answer answer;
    char body[64];
    snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
    kit->bearer = bearer != NULL ? bearer->text : NULL;
    kit->key_header = key;
    api_send(kit, GW_METHOD_POST, "/api/v1/tasks", body, strlen(body), &answer);
    kit->key_header = NULL;
    kit->bearer = NULL;
    const struct gw_reply *reply = &answer.exchange.reply;
    *out_retry_after_s = 0;
    for (uint32_t i = 0; i < reply->header_count; ++i) {
        if (base_str_equal(reply->headers[i].name, BASE_STR("retry-after"))) {
            assert_int_equal(base_str_u64(reply->headers[i].value, out_retry_after_s), BASE_OK);
        }
    }
    int status = answer.status;
    api_answer_done(&answer);
    return status;
}

static void test_none_pushes_out_anothers(void **state)
{
    struct api_kit kit;
    uint64_t after_s = 0;

    (void)state;
    api_kit_init(&kit);
    struct bearer one = tenant_new(&kit, "one");
    struct bearer two = tenant_new(&kit, "two");
    assert_int_equal(make(&kit, &one, "k", "one/a", &after_s), 201);
    keep(&kit, 2, GW_ANSWERS_MAX / 2 - 2); // half of what others leave, less one
    assert_int_equal(make(&kit, &two, "last", "two/a", &after_s), 201);
    kit.clock_ahead_us = UINT64_C(1000) * 1000000;
    assert_int_equal(make(&kit, &two, "more", "two/b", &after_s), 429);
    assert_in_range(after_s, GW_ANSWER_KEEP_S - 1100, GW_ANSWER_KEEP_S - 900);
    assert_int_equal(make(&kit, &two, "more", "two/c", &after_s), 429); // not 422: none is kept
    assert_int_equal(make(&kit, &two, "last", "two/a", &after_s), 201); // again, and not done again
    assert_int_equal(make(&kit, &two, NULL, "two/b", &after_s), 201);   // without a key: done now
    // The others have theirs, and room.
    assert_int_equal(make(&kit, &one, "k", "one/a", &after_s), 201);
    assert_int_equal(make(&kit, &one, NULL, "one/a", &after_s), 200);
    assert_int_equal(make(&kit, &one, "k2", "one/b", &after_s), 201);
    assert_int_equal(make(&kit, NULL, "k", "d", &after_s), 201);
    // The gateway's own takes what is left, and then pushes out nobody either.
    keep(&kit, GW_TENANT_DEFAULT, GW_ANSWERS_MAX / 2 - 3);
    assert_int_equal(make(&kit, NULL, "k2", "d2", &after_s), 429);
    assert_true(after_s > 0);
    assert_int_equal(make(&kit, NULL, "k", "d", &after_s), 201);
    assert_int_equal(make(&kit, &one, "k", "one/a", &after_s), 201);
    // A day later all is free again.
    kit.clock_ahead_us = UINT64_C(1000000) * (GW_ANSWER_KEEP_S + 2000);
    for (unsigned i = 0; i < 6; ++i) {
        char key[8];
        snprintf(key, sizeof(key), "n%u", i);
        assert_int_equal(make(&kit, &two, key, "two/c", &after_s), i == 0 ? 201 : 200);
    }
    api_kit_done(&kit);
}

// The same key, a day later, while old ones wait to be dropped: its new answer stays.
static void test_a_key_used_anew(void **state)
{
    struct api_kit kit;
    uint64_t after_s = 0;

    (void)state;
    api_kit_init(&kit);
    keep(&kit, GW_TENANT_DEFAULT, 20);
    assert_int_equal(make(&kit, NULL, "k", "a", &after_s), 201);
    kit.clock_ahead_us = UINT64_C(1000000) * (GW_ANSWER_KEEP_S + 10);
    assert_int_equal(make(&kit, NULL, "k", "b", &after_s), 201);
    for (unsigned i = 0; i < 10; ++i) {
        char key[8];
        snprintf(key, sizeof(key), "n%u", i);
        assert_int_equal(make(&kit, NULL, key, "c", &after_s), i == 0 ? 201 : 200);
    }
    assert_int_equal(make(&kit, NULL, "k", "b", &after_s), 201); // by key: without it were 200
    api_kit_done(&kit);
}

static void test_rows_of_tenants(void **state)
{
    struct api_kit kit;
    struct gw_answer back;
    uint8_t row[256];
    size_t size = 0;
    uint64_t after_s = 0;

    (void)state;
    for (uint16_t tenant = 0; tenant < 3; ++tenant) {
        struct gw_answer answer = some_answer(1, tenant);
        answer.body = BASE_STR("{}");
        assert_int_equal(gw_answer_encode(&answer, row, sizeof(row), &size), BASE_OK);
        assert_int_equal(row[0], tenant == 0 ? 1 : 2); // as before tenants were written
        assert_int_equal(gw_answer_decode(row, size, &back), BASE_OK);
        assert_int_equal(back.tenant, tenant);
        for (size_t cut = 0; cut < size; ++cut) {
            assert_int_not_equal(gw_answer_decode(row, cut, &back), BASE_OK);
        }
    }
    // And over a restart.
    api_kit_init(&kit);
    struct bearer one = tenant_new(&kit, "one");
    assert_int_equal(make(&kit, &one, "k", "one/a", &after_s), 201);
    api_kit_close(&kit);
    api_kit_open(&kit);
    assert_int_equal(make(&kit, &one, "k", "one/a", &after_s), 201);
    keep(&kit, 1, GW_ANSWERS_MAX / 2 - 1);
    assert_int_equal(make(&kit, &one, "k2", "one/b", &after_s), 429);
    api_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none_pushes_out_anothers),
        cmocka_unit_test(test_a_key_used_anew),
        cmocka_unit_test(test_rows_of_tenants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
