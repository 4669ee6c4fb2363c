// docs/openapi.json is what the gateway answers: every field of an answer stands in the schema of
// its operation, with its type. A field that is added without it fails here.
#include "api_kit.h"

#include "api/api_call.h"

#define DEPTH_MAX 24

static const char stages[] =
    "[{\"name\":\"simulate\",\"kind\":\"simulate\",\"max_failure\":0.1,\"min_sample\":5},"
    "{\"name\":\"shadow\",\"kind\":\"shadow\",\"percent\":1,\"max_failure\":0.1,\"min_sample\":1,"
    "\"max_slowdown\":2,\"tolerance\":{\"relative\":0.1,\"fields\":{\"id\":{}}}},"
    "{\"name\":\"beta\",\"kind\":\"beta\",\"percent\":100,\"max_failure\":0.1,\"min_sample\":1,"
    "\"rule\":\"sequential\",\"max_rise\":0.02,\"retries\":{\"download\":2},"
    "\"rate\":{\"per_minute\":5,\"factor\":2,\"step\":10},"
    "\"windows\":[{\"start\":\"00:00\",\"minutes\":60,\"days\":[\"mon\"]}]},"
    "{\"name\":\"gray\",\"kind\":\"gray\",\"percent\":20,\"max_failure\":0.1,\"min_sample\":1,"
    "\"rule\":\"logrank\",\"max_rise\":0.02},"
    "{\"name\":\"full\",\"kind\":\"full\",\"percent\":100,\"max_failure\":0.1,\"min_sample\":1}]";

static unsigned lacks; // what was found

struct checked {
    const json_t *document;
    char path[256]; // of the answer and the place in it
};

static const json_t *resolved(const struct checked *checked, const json_t *schema)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref == NULL) {
        return schema;
    }
    const char *name = strrchr(ref, '/') + 1;
    const json_t *found = json_object_get(
        json_object_get(json_object_get(checked->document, "components"), "schemas"), name);
    if (found == NULL) {
        fail_msg("%s: no schema %s", checked->path, ref);
    }
    return found;
}

static bool is_of_type(const json_t *value, const char *type)
{
    return (strcmp(type, "object") == 0 && json_is_object(value)) ||
           (strcmp(type, "array") == 0 && json_is_array(value)) ||
           (strcmp(type, "string") == 0 && json_is_string(value)) ||
           (strcmp(type, "integer") == 0 && json_is_integer(value)) ||
           (strcmp(type, "number") == 0 && json_is_number(value)) ||
           (strcmp(type, "boolean") == 0 && json_is_boolean(value)) ||
           (strcmp(type, "null") == 0 && json_is_null(value));
}

static bool fits_type(const json_t *value, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    bool fits = type == NULL;
    size_t index;
    json_t *item;
    if (json_is_string(type)) {
        return is_of_type(value, json_string_value(type));
    }
    json_array_foreach((json_t *)(uintptr_t)type, index, item)
    {
        fits = fits || is_of_type(value, json_string_value(item));
    }
    return fits;
}

// The schema of a member; NULL: the document does not know it.
static const json_t *schema_of(const struct checked *checked, const json_t *schema, const char *key)
{
    size_t index;
    json_t *part;
    const json_t *found = json_object_get(json_object_get(schema, "properties"), key);
    json_array_foreach(json_object_get(schema, "allOf"), index, part)
    {
        const json_t *whole = resolved(checked, part);
        found = found != NULL ? found : schema_of(checked, whole, key);
    }
    return found != NULL ? found : json_object_get(schema, "additionalProperties");
}

static void check(struct checked *checked, const json_t *schema, const json_t *value, int depth)
{
    const size_t size = strlen(checked->path);
    const char *key;
    size_t index;
    json_t *item;
    schema = resolved(checked, schema);
    assert_true(depth < DEPTH_MAX);
    if (json_is_true(schema)) {
        return; // anything
    }
    if (!fits_type(value, schema)) {
        print_error("openapi.json: %s: another type\n", checked->path);
        lacks++;
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        const json_t *member = schema_of(checked, schema, key);
        snprintf(checked->path + size, sizeof(checked->path) - size, ".%s", key);
        if (member == NULL) {
            print_error("openapi.json lacks %s\n", checked->path);
            lacks++;
        } else {
            check(checked, member, item, depth + 1);
        }
        checked->path[size] = '\0';
    }
    json_array_foreach((json_t *)(uintptr_t)value, index, item)
    {
        const json_t *items = json_object_get(schema, "items");
        snprintf(checked->path + size, sizeof(checked->path) - size, "[%zu]", index);
        if (items == NULL) {
            print_error("openapi.json says nothing of %s\n", checked->path);
            lacks++;
        } else {
            check(checked, items, item, depth + 1);
        }
        checked->path[size] = '\0';
    }
}

// Sends a request, and holds its answer against the operation at `described`.
static void hold(struct api_kit *kit, const json_t *document, enum gw_method method,
                 const char *path, const char *described, const char *body, int status)
{
    struct checked checked = {.document = document};
    char code[8];
    const json_t *operation =
        json_object_get(json_object_get(json_object_get(document, "paths"), described),
                        method == GW_METHOD_GET ? "get" : "post");
    snprintf(code, sizeof(code), "%d", status);
    const json_t *response = json_object_get(json_object_get(operation, "responses"), code);
    const json_t *content =
        json_object_get(json_object_get(response, "content"), "application/json");
    const json_t *schema = json_object_get(content, "schema");
    json_t *answer = api_call(kit, method, path, body, status);
    snprintf(checked.path, sizeof(checked.path), "%s %d", described, status);
    if (schema == NULL) {
        print_error("openapi.json: %s: no schema\n", checked.path);
        lacks++;
    } else {
        check(&checked, schema, answer, 0);
    }
    json_decref(answer);
}

#define ONE "/api/v1/rollouts/0000000000000011"
#define OF  "/rollouts/{id}"

// What can be asked without a name: lists, and what is of the gateway.
static void hold_plain(struct api_kit *kit, const json_t *document)
{
    size_t count = 0;
    const struct gw_api_route *routes = gw_api_routes(&count);
    for (size_t i = 0; i < count; i++) {
        char path[64];
        char described[64];
        if (routes[i].method != GW_METHOD_GET || strchr(routes[i].pattern, '*') != NULL ||
            strcmp(routes[i].pattern, "openapi.json") == 0) {
            continue;
        }
        snprintf(path, sizeof(path), "/api/v1/%s", routes[i].pattern);
        snprintf(described, sizeof(described), "/%s", routes[i].pattern);
        hold(kit, document, GW_METHOD_GET, path, described, NULL, 200);
    }
}

static void hold_kills(struct api_kit *kit, const json_t *document, const char *hex)
{
    char body[160];
    char path[128];
    snprintf(body, sizeof(body), "{\"manifest\":\"%s\",\"reason\":\"leaks\"}", hex);
    hold(kit, document, GW_METHOD_POST, "/api/v1/kills", "/kills", body, 201);
    hold(kit, document, GW_METHOD_POST, "/api/v1/kills", "/kills", body, 200);
    hold(kit, document, GW_METHOD_GET, "/api/v1/kills", "/kills", NULL, 200);
    hold(kit, document, GW_METHOD_GET, ONE, OF, NULL, 200);
    hold(kit, document, GW_METHOD_GET, ONE "/log", OF "/log", NULL, 200);
    snprintf(path, sizeof(path), "/api/v1/kills/%s/lift", hex);
    hold(kit, document, GW_METHOD_POST, path, "/kills/{manifest}/lift", "{\"reason\":\"no leak\"}",
         200);
}

static void hold_rollout(struct api_kit *kit, const json_t *document)
{
    hold(kit, document, GW_METHOD_POST, ONE "/check", OF "/check", "{}", 200);
    hold(kit, document, GW_METHOD_POST, ONE "/start", OF "/start", "{}", 200);
    hold(kit, document, GW_METHOD_POST, ONE "/simulation", OF "/simulation",
         "{\"completed\":50,\"failed\":0,\"override\":true,\"reason\":\"a bench\",\"by\":\"ana\"}",
         200);
    json_t *token = api_call(kit, GW_METHOD_POST, "/api/v1/tokens",
                             "{\"name\":\"bo\",\"role\":\"approver\"}", 201);
    char bo[96];
    snprintf(bo, sizeof(bo), "Bearer %s", api_text(token, "secret"));
    json_decref(token);
    kit->bearer = bo;
    hold(kit, document, GW_METHOD_POST, ONE "/approve", OF "/approve", "{}", 200);
    kit->bearer = NULL;
    for (unsigned stage = 1; stage < 5;
         stage++) { // each of them open once; the last is guarded then
        for (unsigned i = 0; i < 5; i++) {
            (void)gw_core_tick(kit->core);
            api_kit_drain(kit);
        }
        hold(kit, document, GW_METHOD_GET, ONE, OF, NULL, 200);
        hold(kit, document, GW_METHOD_GET, ONE "/log", OF "/log", NULL, 200);
        hold(kit, document, GW_METHOD_POST, ONE "/promote", OF "/promote", "{}", 200);
    }
    hold(kit, document, GW_METHOD_GET, ONE, OF, NULL, 200);
}

static void test_answers_are_as_described(void **state)
{
    struct api_kit kit;
    uint64_t now_s = base_clock_wall_us() / 1000000;
    struct rollout_draft draft = {.task = "shop",
                                  .id = 0x11,
                                  .salt = 1,
                                  .release_counter = 1,
                                  .arm_salt = 7,
                                  .arm_to = 5000,
                                  .issued_s = now_s,
                                  .expires_s = now_s + 86400};
    char hex[WIRE_SHA256_HEX + 1];
    char cost[192];
    (void)state;
    api_kit_init(&kit);
    json_t *document = api_call(&kit, GW_METHOD_GET, "/api/v1/openapi.json", NULL, 200);
    api_version(&kit, "shop", "1.0.0", &draft);
    wire_sha256_hex(&draft.manifest, hex);
    char *text = api_rollout_text(&kit, &draft, stages);
    hold(&kit, document, GW_METHOD_POST, "/api/v1/rollouts/check", "/rollouts/check", text, 200);
    hold(&kit, document, GW_METHOD_POST, "/api/v1/rollouts", "/rollouts", text, 201);
    free(text);
    hold_rollout(&kit, document);
    hold(&kit, document, GW_METHOD_GET, "/api/v1/tasks/shop", "/tasks/{task}", NULL, 200);
    snprintf(cost, sizeof(cost), "{\"task\":\"shop\",\"manifest\":\"%s\"}", hex);
    hold(&kit, document, GW_METHOD_POST, "/api/v1/rollouts/cost", "/rollouts/cost", cost, 200);
    hold(&kit, document, GW_METHOD_POST, "/api/v1/rollouts/preview", "/rollouts/preview",
         "{\"target\":\"os == \\\"x\\\"\"}", 200);
    hold_plain(&kit, document);
    hold_kills(&kit, document, hex);
    assert_int_equal(lacks, 0);
    json_decref(document);
    api_kit_done(&kit);
}

// The description served describes exactly the routes there are, each with its role.
static void test_openapi_is_true(void **state)
{
    struct api_kit kit;
    size_t count = 0;
    unsigned described = 0;
    const struct gw_api_route *routes = gw_api_routes(&count);

    (void)state;
    api_kit_init(&kit);
    json_t *document = api_call(&kit, GW_METHOD_GET, "/api/v1/openapi.json", NULL, 200);
    assert_string_equal(api_text(document, "openapi"), "3.1.0");
    const char *path;
    json_t *item;
    json_object_foreach(json_object_get(document, "paths"), path, item)
    {
        const char *method;
        json_t *operation;
        json_object_foreach(item, method, operation)
        {
            char pattern[128];
            size_t size = 0;
            const struct gw_api_route *route = NULL;
            // "/tasks/{task}" is the pattern "tasks/\*".
            for (const char *at = path + 1; *at != '\0' && size + 1 < sizeof(pattern); ++at) {
                bool variable = *at == '{';
                pattern[size++] = variable ? '*' : *at;
                at = variable ? strchr(at, '}') : at;
            }
            pattern[size] = '\0';
            enum gw_method wanted = strcmp(method, "get") == 0   ? GW_METHOD_GET
                                    : strcmp(method, "put") == 0 ? GW_METHOD_PUT
                                                                 : GW_METHOD_POST;
            for (size_t i = 0; i < count; ++i) {
                bool same = routes[i].method == wanted && strcmp(routes[i].pattern, pattern) == 0;
                route = same ? &routes[i] : route;
            }
            if (route == NULL) {
                fail_msg("openapi.json: %s %s: no such route", method, path);
                continue;
            }
            if (strcmp(api_text(operation, "x-walle-role"), gw_role_name(route->role)) != 0) {
                fail_msg("openapi.json: %s %s: role %s, the route has %s", method, path,
                         api_text(operation, "x-walle-role"), gw_role_name(route->role));
            }
            assert_true(strlen(api_text(operation, "summary")) > 0);
            assert_non_null(json_object_get(json_object_get(operation, "responses"), "default"));
            described++;
        }
    }
    assert_int_equal(described, count);
    json_decref(document);
    api_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_as_described),
        cmocka_unit_test(test_openapi_is_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
