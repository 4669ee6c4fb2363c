// Who may do what over the operator API: every route with every role, scenario and tenant against a
// matrix written here; tokens and their limits; what one tenant sees of another: nothing.
#include "api_kit.h"

#include "api/api_call.h"

// What the matrix says of a route. A route that is not in it fails the test, unless it is a plain
// question: a GET of no name and about nobody's, of which docs/openapi.json says the role.
struct expectation {
    const char *route; // "GET tasks/*"
    enum gw_role role;
    // How a request outside scenario or tenant ends, with the role being enough.
    int outside_scenario; // 0: scenarios do not matter; negative: so with any, whichever
    int outside_tenant;   // 0: there is nothing of a tenant in the request
    const char *path;     // of something of tenant "default", scenario "shop"
    const char *body;
};

#define ROLLOUT "00000000000000aa"
#define REASON  "{\"reason\":\"r\"}"
#define DEVICE  "0000000000000042"

static const char digest[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static const struct expectation matrix[] = {
    {"PUT blobs/*", GW_ROLE_RELEASER, 0, 0, "blobs/DIGEST", ""},
    {"PUT exclusive", GW_ROLE_RELEASER, 0, 0, "exclusive", "\1"},
    {"PUT exclusive/*", GW_ROLE_RELEASER, 0, 0, "exclusive/DIGEST", ""},
    {"GET exclusive/*", GW_ROLE_RELEASER, 0, 0, "exclusive/DIGEST", NULL},
    {"POST tasks", GW_ROLE_RELEASER, 403, 409, "tasks", "{\"name\":\"shop/view\"}"},
    {"GET tasks/*", GW_ROLE_VIEWER, 404, 404, "tasks/shop%2Fview", NULL},
    {"POST tasks/*/versions", GW_ROLE_RELEASER, 404, 404, "tasks/shop%2Fview/versions",
     "{\"manifest\":\"DIGEST\"}"},
    {"GET tasks/*/versions", GW_ROLE_VIEWER, 404, 404, "tasks/shop%2Fview/versions", NULL},
    {"GET tasks/*/versions/*", GW_ROLE_VIEWER, 404, 404, "tasks/shop%2Fview/versions/DIGEST", NULL},
    {"POST rollouts", GW_ROLE_RELEASER, 404, 404, "rollouts", "ROLLOUT"},
    {"POST rollouts/check", GW_ROLE_RELEASER, 404, 404, "rollouts/check", "ROLLOUT"},
    {"POST rollouts/cost", GW_ROLE_VIEWER, 404, 404, "rollouts/cost",
     "{\"task\":\"shop/view\",\"manifest\":\"DIGEST\"}"},
    {"POST rollouts/preview", GW_ROLE_VIEWER, 0, 0, "rollouts/preview", "{}"},
    {"GET rollouts/*", GW_ROLE_VIEWER, 404, 404, "rollouts/" ROLLOUT, NULL},
    {"GET rollouts/*/log", GW_ROLE_VIEWER, 404, 404, "rollouts/" ROLLOUT "/log", NULL},
    {"POST rollouts/*/simulation", GW_ROLE_RELEASER, 404, 404, "rollouts/" ROLLOUT "/simulation",
     "{\"completed\":1,\"failed\":0,\"override\":true,\"reason\":\"why\"}"},
    {"POST rollouts/*/start", GW_ROLE_RELEASER, 404, 404, "rollouts/" ROLLOUT "/start", "{}"},
    {"POST rollouts/*/check", GW_ROLE_RELEASER, 404, 404, "rollouts/" ROLLOUT "/check", "{}"},
    {"POST rollouts/*/pause", GW_ROLE_RELEASER, 404, 404, "rollouts/" ROLLOUT "/pause", "{}"},
    {"POST rollouts/*/resume", GW_ROLE_RELEASER, 404, 404, "rollouts/" ROLLOUT "/resume", "{}"},
    {"POST rollouts/*/promote", GW_ROLE_RELEASER, 404, 404, "rollouts/" ROLLOUT "/promote", "{}"},
    {"POST rollouts/*/abort", GW_ROLE_RELEASER, 404, 404, "rollouts/" ROLLOUT "/abort", REASON},
    {"POST rollouts/*/approve", GW_ROLE_APPROVER, 404, 404, "rollouts/" ROLLOUT "/approve", "{}"},
    {"POST rollouts/*/undo", GW_ROLE_RELEASER, 404, 404, "rollouts/" ROLLOUT "/undo", REASON},
    {"POST rollouts/*/kill", GW_ROLE_RELEASER, 404, 404, "rollouts/" ROLLOUT "/kill", REASON},
    {"POST rollouts/*/lift", GW_ROLE_RELEASER, 404, 404, "rollouts/" ROLLOUT "/lift",
     "{\"segment\":\"os=x\"}"},
    {"PUT trust/root", GW_ROLE_ADMIN, 403, 403, "trust/root", "x"},
    {"POST kills", GW_ROLE_ADMIN, 403, 403, "kills",
     "{\"manifest\":\"DIGEST\",\"reason\":\"bad\"}"},
    {"POST kills/*/lift", GW_ROLE_ADMIN, 403, 403, "kills/DIGEST/lift", "{\"reason\":\"bad\"}"},
    {"POST clock/accept", GW_ROLE_ADMIN, 403, 403, "clock/accept", "{\"reason\":\"right\"}"},
    {"GET devices/*", GW_ROLE_VIEWER, 0, 404, "devices/" DEVICE, NULL},
    {"GET devices/*/why", GW_ROLE_VIEWER, 404, 404, "devices/" DEVICE "/why?task=shop%2Fview",
     NULL},
    {"PUT devices/*/user", GW_ROLE_RELEASER, -403, 404, "devices/" DEVICE "/user",
     "{\"user\":\"ana\"}"},
    {"POST devices/*/revoke", GW_ROLE_ADMIN, -403, 404, "devices/" DEVICE "/revoke", "{}"},
    {"POST devices/*/reset", GW_ROLE_ADMIN, -403, 404, "devices/" DEVICE "/reset", "{}"},
    {"POST tokens", GW_ROLE_ADMIN, 403, 0, "tokens", "{\"name\":\"x\",\"role\":\"viewer\"}"},
    {"GET tokens/*", GW_ROLE_ADMIN, -404, 404, "tokens/TOKEN", NULL},
    {"POST tokens/*/revoke", GW_ROLE_ADMIN, -404, 404, "tokens/TOKEN/revoke", "{}"},
    {"POST tenants", GW_ROLE_ADMIN, 403, 403, "tenants", "{\"name\":\"new\"}"},
    {"POST console/code", GW_ROLE_VIEWER, 0, 0, "console/code", "{}"},
    {"POST console/session", GW_ROLE_VIEWER, 0, 0, "console/session", "{}"},
};

#define ROWS_MAX (TEST_COUNT(matrix) + 32)

// The matrix, and a row for each plain question.
struct rows {
    struct expectation of[ROWS_MAX];
    char names[ROWS_MAX][64]; // "GET tasks"
    size_t count;
};

static const char *name_of(const struct gw_api_route *route, char out[64])
{
    static const char *const names[] = {
        [GW_METHOD_GET] = "GET", [GW_METHOD_POST] = "POST", [GW_METHOD_PUT] = "PUT"};
    snprintf(out, 64, "%s %s", names[route->method], route->pattern);
    return out;
}

static bool is_plain(const struct gw_api_route *route)
{
    return route->method == GW_METHOD_GET && route->subject == GW_API_NOTHING &&
           strchr(route->pattern, '*') == NULL;
}

static void rows_init(struct api_kit *kit, struct rows *rows)
{
    size_t count = 0;
    const struct gw_api_route *routes = gw_api_routes(&count);
    json_t *document = api_call(kit, GW_METHOD_GET, "/api/v1/openapi.json", NULL, 200);
    memcpy(rows->of, matrix, sizeof(matrix));
    rows->count = TEST_COUNT(matrix);
    for (size_t i = 0; i < count; ++i) {
        if (!is_plain(&routes[i])) {
            continue;
        }
        assert_true(rows->count < ROWS_MAX);
        char path[64];
        snprintf(path, sizeof(path), "/%s", routes[i].pattern);
        const json_t *item = json_object_get(json_object_get(document, "paths"), path);
        const json_t *operation = json_object_get(item, "get");
        if (operation == NULL) {
            fail_msg("openapi.json lacks GET %s", path);
        }
        rows->of[rows->count] = (struct expectation){
            .route = name_of(&routes[i], rows->names[rows->count]),
            .role = gw_role_of(base_str_of(api_text(operation, "x-walle-role"))),
            .path = routes[i].pattern};
        rows->count++;
    }
    json_decref(document);
}

static const char stages[] =
    "[{\"name\":\"full\",\"kind\":\"full\",\"percent\":100,\"max_failure\":0.1,\"min_sample\":1}]";

struct bearer {
    char text[80]; // "Bearer wat_..."
    char id[WIRE_DEVICE_HEX + 1];
};

// A token of the tenant the kit's requests name.
static struct bearer token_of(struct api_kit *kit, const char *role, const char *scopes,
                              const char *more)
{
    struct bearer out;
    char body[256];
    snprintf(body, sizeof(body), "{\"name\":\"ana\",\"role\":\"%s\",\"scopes\":[%s]%s}", role,
             scopes, more);
    json_t *token = api_call(kit, GW_METHOD_POST, "/api/v1/tokens", body, 201);
    const char *secret = api_text(token, "secret");
    assert_int_equal(strlen(secret), GW_SECRET_TEXT_BYTES);
    snprintf(out.text, sizeof(out.text), "Bearer %s", secret);
    snprintf(out.id, sizeof(out.id), "%s", api_text(token, "id"));
    json_decref(token);
    return out;
}

struct world {
    struct api_kit kit;
    char *rollout; // body of one for shop/view
    char hex[WIRE_SHA256_HEX + 1];
    char token[WIRE_DEVICE_HEX + 1]; // a token of tenant default
};

static void world_init(struct world *world)
{
    struct api_kit *kit = &world->kit;
    struct rollout_draft draft = {.task = "shop/view",
                                  .id = 0xaa,
                                  .salt = 1,
                                  .release_counter = 1,
                                  .issued_s = base_clock_wall_us() / 1000000,
                                  .expires_s = base_clock_wall_us() / 1000000 + 86400};
    memset(world, 0, sizeof(*world));
    api_kit_init(kit);
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"shop/view\"}", 201));
    struct wire_sha256 script;
    struct wire_sha256 blob;
    uint8_t bytes[1024];
    size_t size = api_manifest("shop/view", "1.0.0", "script", bytes, sizeof(bytes),
                               &draft.manifest, &script);
    api_put_blob(kit, "script", 6, 201, &blob);
    api_put_blob(kit, bytes, size, 201, &blob);
    draft.manifest_bytes = size;
    wire_sha256_hex(&draft.manifest, world->hex);
    char body[128];
    snprintf(body, sizeof(body), "{\"manifest\":\"%s\"}", world->hex);
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/tasks/shop%2Fview/versions", body, 201));
    world->rollout = api_rollout_text(kit, &draft, stages);
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/rollouts", world->rollout, 201));
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/tenants", "{\"name\":\"acme\"}", 201));
    struct bearer victim = token_of(kit, "viewer", "", "");
    snprintf(world->token, sizeof(world->token), "%s", victim.id);
}

static void world_done(struct world *world)
{
    free(world->rollout);
    api_kit_done(&world->kit);
}

// `text` with the words in capitals filled in; free() it.
static char *fill(const struct world *world, const char *text)
{
    static const struct {
        const char *word;
        size_t offset;
    } words[] = {{"DIGEST", offsetof(struct world, hex)}, {"TOKEN", offsetof(struct world, token)}};
    if (strcmp(text, "ROLLOUT") == 0) {
        return strdup(world->rollout);
    }
    for (size_t i = 0; i < TEST_COUNT(words); ++i) {
        const char *at = strstr(text, words[i].word);
        if (at != NULL) {
            const char *value = (const char *)world + words[i].offset;
            size_t size = strlen(text) + strlen(value) + 1;
            char *out = malloc(size);
            assert_non_null(out);
            snprintf(out, size, "%.*s%s%s", (int)(at - text), text, value,
                     at + strlen(words[i].word));
            return out;
        }
    }
    return strdup(text);
}

static enum gw_method method_of(const char *route)
{
    return strncmp(route, "GET ", 4) == 0   ? GW_METHOD_GET
           : strncmp(route, "PUT ", 4) == 0 ? GW_METHOD_PUT
                                            : GW_METHOD_POST;
}

static int status_of(struct world *world, const struct expectation *row)
{
    struct api_answer answer;
    char path[512];
    char *tail = fill(world, row->path);
    char *body = row->body != NULL ? fill(world, row->body) : NULL;
    if (strstr(row->route, "blobs/*") != NULL || strstr(row->route, "exclusive/*") != NULL) {
        snprintf(path, sizeof(path), "/api/v1/%.*s%s", (int)strcspn(tail, "/") + 1, tail, digest);
    } else {
        snprintf(path, sizeof(path), "/api/v1/%s", tail);
    }
    api_send(&world->kit, method_of(row->route), path, body, body != NULL ? strlen(body) : 0,
             &answer);
    int status = answer.status;
    api_answer_done(&answer);
    free(tail);
    free(body);
    return status;
}

static void expect(const struct expectation *row, const char *who, int status, bool ok)
{
    if (!ok) {
        fail_msg("%s as %s: status %d", row->route, who, status);
    }
}

static bool is_let_in(int status)
{
    return status != 401 && status != 403 && status != 404;
}

// Exactly the program's routes are known, with their roles.
static void test_matrix_is_whole(void **state)
{
    size_t count = 0;
    const struct gw_api_route *routes = gw_api_routes(&count);
    struct rows rows;
    struct api_kit kit;

    (void)state;
    api_kit_init(&kit);
    rows_init(&kit, &rows);
    for (size_t i = 0; i < count; ++i) {
        char route[64];
        const struct expectation *row = NULL;
        (void)name_of(&routes[i], route);
        for (size_t k = 0; k < rows.count; ++k) {
            row = strcmp(rows.of[k].route, route) == 0 ? &rows.of[k] : row;
        }
        if (row == NULL) {
            fail_msg("%s: a route that the matrix of roles does not know", route);
            continue;
        }
        if (row->role != routes[i].role) {
            fail_msg("%s: role %s, the matrix says %s", route, gw_role_name(routes[i].role),
                     gw_role_name(row->role));
        }
        // What touches a task says whose it is.
        bool tasks = strncmp(routes[i].pattern, "tasks/*", 7) == 0 ||
                     strncmp(routes[i].pattern, "rollouts/*", 10) == 0;
        assert_true(!tasks || routes[i].subject != GW_API_NOTHING);
    }
    assert_int_equal(count, rows.count);
    api_kit_done(&kit);
}

static void test_every_route_with_every_role(void **state)
{
    static const char *const roles[] = {"viewer", "releaser", "approver", "admin"};
    static const struct {
        const char *scopes;
        bool covers;
    } scopes[] = {{"", true},
                  {"\"shop\"", true},
                  {"\"sh*\",\"zoo\"", true},
                  {"\"zoo\"", false},
                  {"\"shopping\",\"sho\"", false}};
    struct world world;
    struct rows rows;
    unsigned tried = 0;

    (void)state;
    world_init(&world);
    rows_init(&world.kit, &rows);
    for (size_t tenant = 0; tenant < 2; ++tenant) {
        for (size_t r = 0; r < TEST_COUNT(roles); ++r) {
            for (size_t s = 0; s < TEST_COUNT(scopes); ++s) {
                world.kit.bearer = NULL;
                world.kit.tenant = tenant == 0 ? NULL : "acme";
                struct bearer bearer = token_of(&world.kit, roles[r], scopes[s].scopes, "");
                world.kit.bearer = bearer.text;
                world.kit.tenant = NULL;
                enum gw_role role = gw_role_of(base_str_of(roles[r]));
                for (size_t i = 0; i < rows.count; ++i) {
                    const struct expectation *row = &rows.of[i];
                    char who[128];
                    snprintf(who, sizeof(who), "%s of %s in [%s]", roles[r],
                             tenant == 0 ? "default" : "acme", scopes[s].scopes);
                    int status = status_of(&world, row);
                    tried++;
                    if (role < row->role) {
                        expect(row, who, status, status == 403);
                    } else if (row->outside_scenario == 403 && row->outside_tenant == 403) {
                        // For operators of all tenants alone.
                        expect(row, who, status, status == 403);
                    } else if (strcmp(row->route, "POST tokens") == 0) {
                        // A new token without scenarios is more than one with some may give.
                        expect(row, who, status, status == (s == 0 ? 201 : 403));
                    } else if (!scopes[s].covers && row->outside_scenario > 0) {
                        expect(row, who, status, status == row->outside_scenario);
                    } else if (tenant == 1 && row->outside_tenant != 0) {
                        expect(row, who, status, status == row->outside_tenant);
                    } else if (s != 0 && row->outside_scenario < 0) {
                        expect(row, who, status, status == -row->outside_scenario);
                    } else if (strstr(row->route, "/reset") == NULL &&
                               strstr(row->route, "/lift") == NULL &&
                               strncmp(row->route, "GET devices/*", 13) != 0) {
                        expect(row, who, status, is_let_in(status));
                    }
                }
            }
        }
    }
    assert_int_equal(tried, 2 * TEST_COUNT(roles) * TEST_COUNT(scopes) * rows.count);
    world_done(&world);
}

static void test_no_token_and_wrong_ones(void **state)
{
    static const char *const wrong[] = {
        "",
        "Bearer ",
        "Bearer x",
        "Basic eHg6eHg=",
        "Bearer wat_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "Bearer wet_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "bearer secret",
        "Bearer secret ",
        "Bearer secre",
    };
    struct api_kit kit;

    (void)state;
    api_kit_init(&kit);
    for (size_t i = 0; i < TEST_COUNT(wrong); ++i) {
        kit.bearer = wrong[i];
        api_refused(&kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 401, "bearer token");
        api_refused(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"a\"}", 401, "bearer token");
    }
    kit.bearer = "Bearer secret";
    json_decref(api_call(&kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 200));
    api_kit_done(&kit);
}

static void test_guessing_is_slowed_down(void **state)
{
    struct api_kit kit;
    struct api_answer answer;
    unsigned refused = 0;
    unsigned limited = 0;

    (void)state;
    api_kit_init(&kit);
    for (unsigned i = 0; i < 3 * GW_ACCESS_BURST; ++i) {
        kit.bearer = "Bearer guess";
        api_send(&kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 0, &answer);
        refused += answer.status == 401;
        limited += answer.status == 429;
        api_answer_done(&answer);
    }
    assert_in_range(refused, GW_ACCESS_BURST, GW_ACCESS_BURST + 2);
    assert_int_equal(refused + limited, 3 * GW_ACCESS_BURST);
    // The right one passes all the same: what others try costs its owner nothing.
    kit.bearer = "Bearer secret";
    json_decref(api_call(&kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 200));
    api_kit_done(&kit);
}

static void test_expiry_and_revocation(void **state)
{
    struct api_kit kit;
    char path[64];

    (void)state;
    api_kit_init(&kit);
    struct bearer ana = token_of(&kit, "viewer", "", ",\"expires_in_s\":3600");
    struct bearer bob = token_of(&kit, "admin", "", "");
    kit.bearer = ana.text;
    json_decref(api_call(&kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 200));
    kit.clock_ahead_us = UINT64_C(3000) * 1000000; // not the last second: the machine may be slow
    json_decref(api_call(&kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 200));
    kit.clock_ahead_us = UINT64_C(3600) * 1000000;
    api_refused(&kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 401, "bearer token");
    kit.bearer = bob.text;
    json_t *token = api_call(&kit, GW_METHOD_GET, "/api/v1/whoami", NULL, 200);
    assert_string_equal(api_text(token, "name"), "ana");
    assert_string_equal(api_text(token, "role"), "admin");
    json_decref(token);
    snprintf(path, sizeof(path), "/api/v1/tokens/%s/revoke", bob.id);
    token = api_call(&kit, GW_METHOD_POST, path, "{}", 200);
    assert_true(json_is_integer(json_object_get(token, "revoked_s")));
    json_decref(token);
    api_refused(&kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 401, "bearer token");
    // Neither comes back with a restart.
    api_kit_close(&kit);
    api_kit_open(&kit);
    api_refused(&kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 401, "bearer token");
    kit.bearer = NULL;
    json_t *page = api_call(&kit, GW_METHOD_GET, "/api/v1/tokens", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 2);
    json_decref(page);
    api_kit_done(&kit);
}

static void test_token_bodies(void **state)
{
    static const struct {
        const char *body;
        int status;
        const char *says;
    } cases[] = {
        {"{}", 400, "name: missing"},
        {"{\"name\":\"a\"}", 400, "role: missing"},
        {"{\"name\":\"a\",\"role\":\"god\"}", 400, "role: enrol, viewer"},
        {"{\"name\":\"\",\"role\":\"viewer\"}", 400, "name: 1 to 64"},
        {"{\"name\":\"a\\u00e4\",\"role\":\"viewer\"}", 400, "name: 1 to 64"},
        {"{\"name\":\"a\",\"role\":\"viewer\",\"x\":1}", 400, "x: unknown field"},
        {"{\"name\":\"a\",\"role\":\"viewer\",\"scopes\":[\"a/b\"]}", 400, "scopes[0]"},
        {"{\"name\":\"a\",\"role\":\"viewer\",\"scopes\":[\"ok\",\"\"]}", 400, "scopes[1]"},
        {"{\"name\":\"a\",\"role\":\"viewer\",\"scopes\":[1]}", 400, "scopes[0]"},
        {"{\"name\":\"a\",\"role\":\"viewer\",\"uses_max\":1}", 400, "uses_max"},
        {"{\"name\":\"a\",\"role\":\"enrol\",\"scopes\":[\"a\"]}", 400, "scopes"},
        {"{\"name\":\"a\",\"role\":\"enrol\",\"tenant\":\"*\"}", 403, "devices belong to one"},
        {"{\"name\":\"a\",\"role\":\"viewer\",\"tenant\":\"acme\"}", 400, "walle-tenant"},
        {"{\"name\":\"a\",\"role\":\"viewer\",\"expires_in_s\":-1}", 400, "expires_in_s"},
    };
    struct api_kit kit;

    (void)state;
    api_kit_init(&kit);
    for (size_t i = 0; i < TEST_COUNT(cases); ++i) {
        api_refused(&kit, GW_METHOD_POST, "/api/v1/tokens", cases[i].body, cases[i].status,
                    cases[i].says);
    }
    // Nobody gives away more than they have.
    struct bearer scoped = token_of(&kit, "admin", "\"shop*\"", "");
    kit.bearer = scoped.text;
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tokens", "{\"name\":\"a\",\"role\":\"viewer\"}", 403,
                "scopes");
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tokens",
                "{\"name\":\"a\",\"role\":\"viewer\",\"scopes\":[\"sho*\"]}", 403, "scopes");
    api_refused(&kit, GW_METHOD_POST, "/api/v1/tokens",
                "{\"name\":\"a\",\"role\":\"viewer\",\"tenant\":\"*\",\"scopes\":[\"shop\"]}", 403,
                "tenant");
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tokens",
                         "{\"name\":\"a\",\"role\":\"viewer\",\"scopes\":[\"shop-2\"]}", 201));
    api_kit_done(&kit);
}

static size_t kills_seen(struct api_kit *kit)
{
    json_t *trust = api_call(kit, GW_METHOD_GET, "/api/v1/trust", NULL, 200);
    json_t *kills = api_call(kit, GW_METHOD_GET, "/api/v1/kills", NULL, 200);
    size_t count = json_array_size(json_object_get(trust, "kills"));
    assert_int_equal(json_array_size(json_object_get(kills, "items")), count); // one rule
    json_decref(trust);
    json_decref(kills);
    return count;
}

// A token is told of its own tenant's kills; who operates all tenants, of all.
static void test_kills_of_others_are_not_told(void **state)
{
    struct world world;
    struct api_kit *kit = &world.kit;

    (void)state;
    world_init(&world);
    const char *admin = kit->bearer;
    struct bearer shop = token_of(kit, "viewer", "", "");
    kit->tenant = "acme";
    struct bearer acme = token_of(kit, "admin", "", "");
    kit->tenant = NULL;
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/rollouts/00000000000000aa/kill",
                         "{\"reason\":\"bad\",\"by\":\"ana\"}", 200));
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/kills",
                         "{\"reason\":\"nobody's\",\"by\":\"ana\",\"manifest\":\""
                         "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}",
                         201));
    assert_int_equal(kills_seen(kit), 2);
    kit->tenant = "acme"; // an operator of all, who acts there
    assert_int_equal(kills_seen(kit), 2);
    kit->tenant = NULL;
    kit->bearer = shop.text;
    assert_int_equal(kills_seen(kit), 1);
    kit->bearer = acme.text;
    assert_int_equal(kills_seen(kit), 0);
    kit->bearer = admin;
    world_done(&world);
}

// Two tenants with a task, a token and nothing in common.
static void test_tenants_see_nothing_of_each_other(void **state)
{
    static const char *const lists[] = {"/api/v1/tasks", "/api/v1/rollouts", "/api/v1/devices"};
    struct world world;
    struct api_kit *kit = &world.kit;

    (void)state;
    world_init(&world);
    kit->tenant = "acme";
    struct bearer acme = token_of(kit, "admin", "", "");
    kit->tenant = NULL;
    kit->bearer = acme.text;
    for (size_t i = 0; i < TEST_COUNT(lists); ++i) {
        json_t *page = api_call(kit, GW_METHOD_GET, lists[i], NULL, 200);
        assert_int_equal(json_array_size(json_object_get(page, "items")), 0);
        assert_true(json_is_null(json_object_get(page, "next")));
        json_decref(page);
    }
    json_t *page = api_call(kit, GW_METHOD_GET, "/api/v1/tokens", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1); // its own
    json_decref(page);
    page = api_call(kit, GW_METHOD_GET, "/api/v1/tenants", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    assert_string_equal(api_text(json_array_get(json_object_get(page, "items"), 0), "name"),
                        "acme");
    json_decref(page);
    // A name that is taken is taken, but nothing of what has it is told.
    api_refused(kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"shop/view\"}", 409, "taken");
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"acme/view\"}", 201));
    // Naming another tenant does not help, naming one's own is fine.
    kit->tenant = "default";
    api_refused(kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 404, "no such tenant");
    kit->tenant = "nowhere";
    api_refused(kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 404, "no such tenant");
    kit->tenant = "acme";
    page = api_call(kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    json_decref(page);
    // The audit log shows the other tenant's entries as hashes alone.
    page = api_call(kit, GW_METHOD_GET, "/api/v1/audit?limit=500", NULL, 200);
    size_t index;
    json_t *item;
    unsigned own = 0;
    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        own += json_is_string(json_object_get(item, "entry"));
        assert_int_equal(json_integer_value(json_object_get(item, "seq")), index + 1);
    }
    assert_true(own >= 3 && own < index);
    json_decref(page);
    // It survives a restart.
    api_kit_close(kit);
    api_kit_open(kit);
    page = api_call(kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 1);
    json_decref(page);
    kit->tenant = NULL;
    kit->bearer = NULL;
    page = api_call(kit, GW_METHOD_GET, "/api/v1/tasks", NULL, 200);
    assert_string_equal(api_text(json_array_get(json_object_get(page, "items"), 0), "name"),
                        "shop/view");
    json_decref(page);
    world_done(&world);
}

// Lists of a token with scenarios: pages of what it may see, whatever lies between.
static void test_lists_are_filtered(void **state)
{
    struct api_kit kit;
    char body[64];

    (void)state;
    api_kit_init(&kit);
    for (unsigned i = 0; i < 60; ++i) {
        snprintf(body, sizeof(body), "{\"name\":\"%s/t%u\"}", i % 3 == 0 ? "shop" : "zoo", i);
        json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", body, 201));
    }
    struct bearer shop = token_of(&kit, "viewer", "\"shop\"", "");
    kit.bearer = shop.text;
    char path[96] = "/api/v1/tasks?limit=7";
    unsigned seen = 0;
    for (unsigned page_count = 0; page_count < 10; ++page_count) {
        json_t *page = api_call(&kit, GW_METHOD_GET, path, NULL, 200);
        size_t index;
        json_t *item;
        json_array_foreach(json_object_get(page, "items"), index, item)
        {
            assert_memory_equal(api_text(item, "name"), "shop/", 5);
            seen++;
        }
        const char *next = api_text(page, "next");
        bool more = next[0] != '\0';
        snprintf(path, sizeof(path), "/api/v1/tasks?limit=7&after=%s", next);
        json_decref(page);
        if (!more) {
            break;
        }
    }
    assert_int_equal(seen, 20);
    api_kit_done(&kit);
}

// Four eyes: who made a rollout may not approve it, not even with another token of theirs; somebody
// else with the role may, somebody without it may not. What the body says of who it is counts for
// nothing.
static void test_approval_needs_another_person(void **state)
{
    static const char waits[] = "[{\"name\":\"full\",\"kind\":\"full\",\"percent\":100,\"max_"
                                "failure\":0.1,\"min_sample\":1,\"approval\":true}]";
    struct world world;
    struct api_kit *kit = &world.kit;
    struct rollout_draft draft = {.task = "other",
                                  .id = 0xbb,
                                  .salt = 1,
                                  .release_counter = 1,
                                  .issued_s = base_clock_wall_us() / 1000000,
                                  .expires_s = base_clock_wall_us() / 1000000 + 86400};

    (void)state;
    world_init(&world);
    api_version(kit, "other", "1.0.0", &draft);
    char *body = api_rollout_text(kit, &draft, waits);
    struct bearer ana = token_of(kit, "approver", "", "");
    struct bearer again = token_of(kit, "admin", "\"other\"", "");
    json_t *other = api_call(kit, GW_METHOD_POST, "/api/v1/tokens",
                             "{\"name\":\"bob\",\"role\":\"approver\"}", 201);
    json_t *weak = api_call(kit, GW_METHOD_POST, "/api/v1/tokens",
                            "{\"name\":\"eve\",\"role\":\"releaser\"}", 201);
    char bob[80];
    char eve[80];
    snprintf(bob, sizeof(bob), "Bearer %s", api_text(other, "secret"));
    snprintf(eve, sizeof(eve), "Bearer %s", api_text(weak, "secret"));
    const char *admin = kit->bearer;
    kit->bearer = ana.text;
    json_t *rollout = api_call(kit, GW_METHOD_POST, "/api/v1/rollouts", body, 201);
    assert_string_equal(api_text(rollout, "created_by"), "ana");
    json_decref(rollout);
    rollout = api_call(kit, GW_METHOD_POST, "/api/v1/rollouts/00000000000000bb/start", "{}", 200);
    assert_string_equal(api_text(rollout, "state"), "waiting_approval");
    json_decref(rollout);
    static const char approve[] = "/api/v1/rollouts/00000000000000bb/approve";
    api_refused(kit, GW_METHOD_POST, approve, "{}", 409, "another person");
    api_refused(kit, GW_METHOD_POST, approve, "{\"by\":\"bob\"}", 409, "another person");
    kit->bearer = again.text;
    api_refused(kit, GW_METHOD_POST, approve, "{}", 409, "another person");
    kit->bearer = eve;
    api_refused(kit, GW_METHOD_POST, approve, "{}", 403, "approver");
    static const char *const same[] = {
        "{\"name\":\"Ana\",\"role\":\"approver\"}",
        "{\"name\":\" ANA \",\"role\":\"admin\"}",
        "{\"name\":\"carla\",\"owner\":\"Ana\",\"role\":\"approver\"}",
    };
    for (size_t i = 0; i < TEST_COUNT(same); i++) {
        char text[80];
        kit->bearer = admin;
        json_t *token = api_call(kit, GW_METHOD_POST, "/api/v1/tokens", same[i], 201);
        snprintf(text, sizeof(text), "Bearer %s", api_text(token, "secret"));
        kit->bearer = text;
        api_refused(kit, GW_METHOD_POST, approve, "{}", 409, "another person");
        json_decref(token);
    }
    kit->bearer = bob;
    rollout = api_call(kit, GW_METHOD_POST, approve, "{}", 200);
    assert_string_equal(api_text(rollout, "state"), "running");
    json_decref(rollout);
    free(body);
    json_decref(other);
    json_decref(weak);
    world_done(&world);
}

// The configured token is one person under all the names it gives.
static void test_admin_is_one_person(void **state)
{
    static const char waits[] = "[{\"name\":\"full\",\"kind\":\"full\",\"percent\":100,\"max_"
                                "failure\":0.1,\"min_sample\":1,\"approval\":true}]";
    static const char approve[] = "/api/v1/rollouts/00000000000000bc/approve";
    struct world world;
    struct api_kit *kit = &world.kit;
    struct rollout_draft draft = {.task = "other",
                                  .id = 0xbc,
                                  .salt = 1,
                                  .release_counter = 1,
                                  .issued_s = base_clock_wall_us() / 1000000,
                                  .expires_s = base_clock_wall_us() / 1000000 + 86400};

    (void)state;
    world_init(&world);
    api_version(kit, "other", "1.0.0", &draft);
    char *body = api_rollout_text(kit, &draft, waits);
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/rollouts", body, 201));
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/rollouts/00000000000000bc/start",
                         "{\"by\":\"ana\"}", 200));
    api_refused(kit, GW_METHOD_POST, approve, "{}", 409, "another person");
    api_refused(kit, GW_METHOD_POST, approve, "{\"by\":\"bob\"}", 409, "another person");
    struct bearer ana = token_of(kit, "approver", "", "");
    kit->bearer = ana.text;
    json_t *rollout = api_call(kit, GW_METHOD_POST, approve, "{}", 200);
    assert_string_equal(api_text(rollout, "state"), "running");
    assert_string_equal(api_text(rollout, "created_by"), "admin");
    json_decref(rollout);
    free(body);
    world_done(&world);
}

// A token from before there were owners is its name's, and its row stays as it was.
static void test_tokens_without_owners(void **state)
{
    static struct gw_token token = {.view = {.role = GW_ROLE_RELEASER, .name = "ana"}};
    static struct gw_token back;
    static const char *const others[] = {"an", "anna", "", "ana1"};
    uint8_t row[GW_TOKEN_ROW_MAX];

    (void)state;
    size_t size = gw_token_encode(&token, row);
    assert_int_equal(row[0], 1);
    assert_int_equal(gw_token_decode(row, size, &back), BASE_OK);
    assert_string_equal(back.view.owner, "");
    memcpy(token.view.owner, "Ana B", sizeof("Ana B"));
    size_t with = gw_token_encode(&token, row);
    assert_int_equal(row[0], 2);
    assert_int_equal(gw_token_decode(row, with, &back), BASE_OK);
    assert_string_equal(back.view.owner, "Ana B");
    for (size_t cut = 0; cut < with; cut++) {
        assert_int_not_equal(gw_token_decode(row, cut, &back), BASE_OK);
    }
    row[0] = 1; // and nothing behind it
    assert_int_not_equal(gw_token_decode(row, with, &back), BASE_OK);
    assert_true(gw_same_person(BASE_STR(" A na"), BASE_STR("aNA\t")));
    for (size_t i = 0; i < TEST_COUNT(others); i++) {
        assert_false(gw_same_person(BASE_STR("ana"), base_str_of(others[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix_is_whole),
        cmocka_unit_test(test_every_route_with_every_role),
        cmocka_unit_test(test_no_token_and_wrong_ones),
        cmocka_unit_test(test_guessing_is_slowed_down),
        cmocka_unit_test(test_expiry_and_revocation),
        cmocka_unit_test(test_token_bodies),
        cmocka_unit_test(test_kills_of_others_are_not_told),
        cmocka_unit_test(test_tenants_see_nothing_of_each_other),
        cmocka_unit_test(test_lists_are_filtered),
        cmocka_unit_test(test_approval_needs_another_person),
        cmocka_unit_test(test_admin_is_one_person),
        cmocka_unit_test(test_tokens_without_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
