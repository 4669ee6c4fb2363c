// Records of the tunnel over the operator API: pages that go on, filters, tenants and scenarios
// kept apart, places that are none, and the uploads with their counts.
#include "api_kit.h"

#include "tunnel_rig.h"

#include <sched.h>

static bool swallow(void *ctx, const uint8_t *bytes, size_t size)
{
    (void)ctx;
    (void)bytes;
    (void)size;
    return true;
}

static void end(void *ctx, bool reset)
{
    (void)ctx;
    (void)reset;
}

static void post(void *ctx, struct gw_message *message)
{
    (void)ctx;
    (void)message; // nobody reads acknowledgements here
}

// `count` batches of two records, and a LOSS, from a device of a tenant; durable when it returns.
static void upload(struct api_kit *kit, uint64_t id, uint32_t tenant, uint32_t count)
{
    struct gw_tunnel_worker *worker;
    struct gw_session *session;
    struct tunnel_rig_device device;
    uint8_t frame[4096];
    uint8_t payload[1024];
    uint64_t high_water = 0;
    uint64_t hash;
    const struct gw_session_port port = {.write = swallow, .end = end};
    assert_int_equal(gw_tunnel_worker_new(kit->tunnel, NULL, post, &worker), BASE_OK);
    assert_int_equal(gw_session_open(worker, id, tenant, &port, &session), BASE_OK);
    tunnel_rig_device(&device, id, 1, 9);
    assert_int_equal(gw_session_receive(session, frame, tunnel_rig_hello(&device, frame)), BASE_OK);
    for (uint32_t i = 0; i < count; i++) {
        size_t size = tunnel_rig_payload(2, 40, id + i, payload, sizeof(payload));
        size = tunnel_rig_batch(&device, payload, size, 2, frame, sizeof(frame));
        assert_int_equal(gw_session_receive(session, frame, size), BASE_OK);
    }
    size_t size = tunnel_rig_loss(&device, 1, 5, WIRE_TUNNEL_LOSS_QUOTA, frame);
    assert_int_equal(gw_session_receive(session, frame, size), BASE_OK);
    while (
        !gw_tunnel_high_water(kit->tunnel, &(struct gw_mark_key){id, 1, 9}, &high_water, &hash) ||
        high_water < count + 1) {
        sched_yield();
    }
    gw_session_close(session);
    gw_tunnel_worker_free(worker);
}

static uint32_t walk(struct api_kit *kit, const char *filter, uint32_t limit, uint32_t *out_lost)
{
    char place[64] = "";
    uint32_t count = 0;
    bool more = true;
    *out_lost = 0;
    while (more) {
        char path[256];
        size_t index;
        json_t *item;
        snprintf(path, sizeof(path), "/api/v1/tunnel/records?limit=%u%s%s%s", limit, filter,
                 place[0] != '\0' ? "&after=" : "", place);
        json_t *page = api_call(kit, GW_METHOD_GET, path, NULL, 200);
        assert_true(json_array_size(json_object_get(page, "items")) <= limit);
        json_array_foreach(json_object_get(page, "items"), index, item)
        {
            json_t *lost = json_object_get(item, "lost");
            *out_lost += (uint32_t)json_integer_value(lost);
            count += lost == NULL;
            if (lost == NULL) {
                assert_string_equal(api_text(item, "task"), "shop.ipv");
                assert_string_equal(api_text(item, "format"), "json");
                assert_int_equal(strlen(json_string_value(json_object_get(item, "record"))), 38);
            } else {
                assert_string_equal(api_text(item, "reason"), "quota");
            }
        }
        more = json_is_true(json_object_get(page, "more"));
        snprintf(place, sizeof(place), "%s", api_text(page, "next"));
        json_decref(page);
    }
    return count;
}

static void test_records(void **state)
{
    (void)state;
    struct api_kit kit;
    uint32_t lost;
    api_kit_init(&kit);
    assert_int_equal(walk(&kit, "", 10, &lost), 0);
    upload(&kit, 0x11, 0, 5);
    upload(&kit, 0x22, 1, 4); // another tenant's
    upload(&kit, 0x33, 0, 3);
    for (uint32_t limit = 1; limit < 20; limit += 3) {
        assert_int_equal(walk(&kit, "", limit, &lost), 16);
        assert_int_equal(lost, 10);
    }
    assert_int_equal(walk(&kit, "&device=0000000000000033", 4, &lost), 6);
    assert_int_equal(lost, 5);
    assert_int_equal(walk(&kit, "&device=0000000000000022", 4, &lost), 0);
    assert_int_equal(walk(&kit, "&task=shop.ipv", 4, &lost), 16);
    assert_int_equal(lost, 0);
    assert_int_equal(walk(&kit, "&task=other", 4, &lost), 0);
    static const char *const bad[] = {"?limit=0",
                                      "?limit=1001",
                                      "?after=7",
                                      "?after=0000000000000001.0",
                                      "?after=ffffffffffffffff.0",
                                      "?after=0000000000000000.99999",
                                      "?device=xyz",
                                      "?other=1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char path[128];
        struct api_answer answer;
        snprintf(path, sizeof(path), "/api/v1/tunnel/records%s", bad[i]);
        api_send(&kit, GW_METHOD_GET, path, NULL, 0, &answer);
        if (answer.status != 400 && answer.status != 404) {
            fail_msg("%s: %d", bad[i], answer.status);
        }
        api_answer_done(&answer);
    }
    api_kit_done(&kit);
}

static void test_uploads(void **state)
{
    (void)state;
    struct api_kit kit;
    struct base_error error = {0};
    const struct wire_upload_key key = {BASE_STR("shop.ipv"), BASE_STR("feature"), 1};
    api_kit_init(&kit);
    assert_int_equal(
        gw_tunnel_declare(
            kit.tunnel,
            &(struct gw_upload){0, key, 1, BASE_STR("{\"type\":\"string\",\"max\":64}")}, &error),
        BASE_OK);
    upload(&kit, 0x11, 0, 5);
    json_t *root = api_call(&kit, GW_METHOD_GET, "/api/v1/tunnel", NULL, 200);
    const json_t *item = json_array_get(json_object_get(root, "uploads"), 0);
    assert_string_equal(api_text(item, "upload"), "feature");
    assert_int_equal(json_integer_value(json_object_get(item, "records")), 10);
    assert_int_equal(json_integer_value(json_object_get(item, "rejected")), 0);
    assert_true(json_is_true(json_object_get(item, "schema")));
    json_decref(root);
    struct api_answer answer;
    api_send(&kit, GW_METHOD_GET, "/metrics", NULL, 0, &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(memmem(answer.exchange.reply.body, answer.exchange.reply.body_bytes,
                           "walle_tunnel_records_total 10\n", 30));
    api_answer_done(&answer);
    api_kit_done(&kit);
}

static const json_t *refused_at(json_t *root, size_t at)
{
    const json_t *item = json_array_get(json_object_get(root, "uploads"), 0);
    return json_array_get(json_object_get(item, "refused"), at);
}

// Whether a viewer of that scope is shown refused records.
static bool is_shown_to(struct api_kit *kit, const char *scope)
{
    char body[128];
    char bearer[128];
    snprintf(body, sizeof(body), "{\"name\":\"v\",\"role\":\"viewer\",\"scopes\":[\"%s\"]}", scope);
    json_t *token = api_call(kit, GW_METHOD_POST, "/api/v1/tokens", body, 201);
    snprintf(bearer, sizeof(bearer), "Bearer %s", api_text(token, "secret"));
    json_decref(token);
    const char *admin = kit->bearer;
    kit->bearer = bearer;
    json_t *root = api_call(kit, GW_METHOD_GET, "/api/v1/tunnel", NULL, 200);
    bool shown = refused_at(root, 0) != NULL;
    json_decref(root);
    kit->bearer = admin;
    return shown;
}

// What was refused last is shown, newest first, with who sent it and why, to who may read it.
static void test_refused_records_are_shown(void **state)
{
    (void)state;
    struct api_kit kit;
    struct base_error error = {0};
    const struct wire_upload_key key = {BASE_STR("shop.ipv"), BASE_STR("feature"), 1};
    api_kit_init(&kit);
    assert_int_equal(
        gw_tunnel_declare(
            kit.tunnel, &(struct gw_upload){0, key, 1, BASE_STR("{\"type\":\"integer\"}")}, &error),
        BASE_OK);
    json_t *root = api_call(&kit, GW_METHOD_GET, "/api/v1/tunnel", NULL, 200);
    assert_null(refused_at(root, 0));
    json_decref(root);
    struct gw_upload_entry *found = gw_uploads_find(gw_tunnel_uploads(kit.tunnel), &key);
    for (uint32_t i = 0; i < GW_REFUSED_KEPT + 2; i++) {
        const struct gw_refused_record like = {.device = 0x11 + i,
                                               .received_ms = 5,
                                               .status = BASE_ERR_INVALID,
                                               .format = WIRE_RECORD_JSON};
        char text[GW_REFUSED_BYTES + 8];
        memset(text, 'x', sizeof(text));
        memcpy(text + GW_REFUSED_BYTES - 1, "\xc3\xb6", 2); // cut within
        gw_refused_keep(&found->refused, &like, (const uint8_t *)text,
                        i % 2 == 0 ? 9 : sizeof(text));
    }
    root = api_call(&kit, GW_METHOD_GET, "/api/v1/tunnel", NULL, 200);
    for (uint32_t i = 0; i < GW_REFUSED_KEPT; i++) {
        const json_t *item = refused_at(root, i);
        char device[17];
        snprintf(device, sizeof(device), "%016x", 0x11 + GW_REFUSED_KEPT + 1 - i);
        assert_string_equal(api_text(item, "device"), device);
        assert_string_equal(api_text(item, "reason"), base_status_text(BASE_ERR_INVALID));
        bool is_small = (GW_REFUSED_KEPT + 1 - i) % 2 == 0;
        assert_int_equal(json_integer_value(json_object_get(item, "bytes")),
                         is_small ? 9 : GW_REFUSED_BYTES + 8);
        assert_int_equal(strlen(api_text(item, "record")), is_small ? 9 : GW_REFUSED_BYTES - 1);
    }
    assert_null(refused_at(root, GW_REFUSED_KEPT));
    json_decref(root);
    assert_true(is_shown_to(&kit, "shop.ipv"));
    assert_false(is_shown_to(&kit, "ads"));
    api_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_uploads),
        cmocka_unit_test(test_refused_records_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
