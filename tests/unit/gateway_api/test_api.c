// The operator API over a real core in a scratch folder: every resource, the errors, paging, a
// rollout from its creation to its end, and what survives a restart.
#include "api_kit.h"

#include "api/api_views.h"
#include "svc/device/devices.h"

#include "base/cursor.h"

#include <signal.h>
#include <sys/resource.h>

static const char stages[] =
    "[{\"name\":\"simulate\",\"kind\":\"simulate\",\"percent\":100,\"max_failure\":0.1,\"min_"
    "sample\":10},"
    "{\"name\":\"gray\",\"kind\":\"gray\",\"percent\":1,\"max_failure\":0.1,\"min_sample\":10},"
    "{\"name\":\"full\",\"kind\":\"full\",\"percent\":100,\"max_failure\":0.1,\"min_sample\":10}]";

static struct rollout_draft draft_of(const char *task, uint64_t id, uint64_t counter)
{
    return (struct rollout_draft){.task = task,
                                  .id = id,
                                  .salt = 0x5a17u,
                                  .release_counter = counter,
                                  .issued_s = base_clock_wall_us() / 1000000,
                                  .expires_s = base_clock_wall_us() / 1000000 + 86400};
}

static void test_routes_and_errors(void **state)
{
    static const struct {
        enum gw_method method;
        const char *path;
        const char *body;
        int status;
        const char *says;
    } cases[] = {
        {GW_METHOD_GET, "/api/v1/", NULL, 404, "no such resource"},
        {GW_METHOD_GET, "/api/v1/nothing", NULL, 404, "no such resource"},
        {GW_METHOD_GET, "/api/v1/tasks/a/b/c/d/e/f/g", NULL, 404, "no such resource"},
        {GW_METHOD_GET, "/api/v1/tasks/%zz", NULL, 404, "no such resource"},
        {GW_METHOD_GET, "/api/v1/tasks/%00", NULL, 404, "no such resource"},
        {GW_METHOD_GET, "/api/v1/tasks/%2", NULL, 404, "no such resource"},
        {GW_METHOD_DELETE, "/api/v1/tasks", NULL, 405, "GET, POST"},
        {GW_METHOD_POST, "/api/v1/devices", "{}", 405, "GET"},
        {GW_METHOD_GET, "/api/v1/blobs/00", NULL, 405, "PUT"},
        {GW_METHOD_PUT, "/api/v1/blobs/00", "x", 400, "SHA-256"},
        {GW_METHOD_GET, "/api/v1/tasks/none", NULL, 404, "no such task"},
        {GW_METHOD_GET, "/api/v1/tasks/none/versions", NULL, 404, "no such task"},
        {GW_METHOD_POST, "/api/v1/tasks", "", 400, "line 1"},
        {GW_METHOD_POST, "/api/v1/tasks", "{\n \"name\" 1}", 400, "line 2, column"},
        {GW_METHOD_POST, "/api/v1/tasks", "{}", 400, "name: missing"},
        {GW_METHOD_POST, "/api/v1/tasks", "{\"name\":1}", 400, "name: not a text"},
        {GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"A b\"}", 400, "name: it has a character"},
        {GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"a\",\"x\":1}", 400, "x: unknown field"},
        {GW_METHOD_GET, "/api/v1/tasks?limit=0", NULL, 400, "limit is 1 to 500"},
        {GW_METHOD_GET, "/api/v1/tasks?limit=501", NULL, 400, "limit is 1 to 500"},
        {GW_METHOD_GET, "/api/v1/tasks?after=xyz", NULL, 400, "after is 16"},
        {GW_METHOD_GET, "/api/v1/tasks?page=2", NULL, 400,
         "unknown parameter 'page': the parameters are limit and after"},
        {GW_METHOD_GET, "/api/v1/tasks/a?limit=1", NULL, 400,
         "unknown parameter 'limit': this resource takes no parameters"},
        {GW_METHOD_GET, "/api/v1/rollouts?x", NULL, 400, "unknown parameter 'x': the parameters"},
        {GW_METHOD_GET, "/api/v1/devices/count?zzz=1", NULL, 400, "unknown parameter 'zzz': this"},
        {GW_METHOD_GET, "/api/v1/rollouts/1", NULL, 400, "16 lower-case hex"},
        {GW_METHOD_GET, "/api/v1/rollouts/0000000000000001", NULL, 404, "no such rollout"},
        {GW_METHOD_GET, "/api/v1/rollouts/0000000000000001/log", NULL, 404, "no such rollout"},
        {GW_METHOD_POST, "/api/v1/rollouts/0000000000000001/start", NULL, 404, "rollout"},
        {GW_METHOD_POST, "/api/v1/rollouts/0000000000000001/explode", "{}", 404,
         "no such resource"},
        {GW_METHOD_POST, "/api/v1/rollouts/0000000000000001/pause", "{\"accept_risk\":true}", 400,
         "only resume"},
        {GW_METHOD_POST, "/api/v1/rollouts/0000000000000001/resume", "{\"accept_risk\":true}", 400,
         "reason: accept_risk needs one"},
        {GW_METHOD_POST, "/api/v1/rollouts/0000000000000001/simulation", "{}", 400,
         "completed: missing"},
        {GW_METHOD_POST, "/api/v1/rollouts/0000000000000001/simulation",
         "{\"completed\":1,\"failed\":2}", 400, "failed: more than completed"},
        {GW_METHOD_POST, "/api/v1/rollouts/0000000000000001/simulation",
         "{\"completed\":2,\"failed\":1}", 400, "evidence: missing; numbers alone need override"},
        {GW_METHOD_POST, "/api/v1/rollouts/0000000000000001/simulation",
         "{\"completed\":2,\"failed\":1,\"override\":true}", 400, "reason: override needs one"},
        {GW_METHOD_POST, "/api/v1/rollouts/0000000000000001/simulation", "{\"evidence\":\"?\"}",
         400, "evidence: not base64url"},
        {GW_METHOD_POST, "/api/v1/rollouts/0000000000000001/simulation",
         "{\"evidence\":\"\",\"completed\":1}", 400, "completed"},
        {GW_METHOD_POST, "/api/v1/rollouts", "{}", 400, "id: missing"},
        {GW_METHOD_GET, "/api/v1/devices/0000000000000001", NULL, 404, "no such device"},
    };
    struct api_kit kit;

    (void)state;
    api_kit_init(&kit);
    for (size_t i = 0; i < TEST_COUNT(cases); ++i) {
        api_refused(&kit, cases[i].method, cases[i].path, cases[i].body, cases[i].status,
                    cases[i].says);
    }
    api_kit_done(&kit);
}

static void test_post_needs_the_json_type(void **state)
{
    struct api_kit kit;
    struct base_arena arena;

    (void)state;
    api_kit_init(&kit);
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    struct api_answer answer = {.exchange = {.arena = &arena, .finish = api_kit_finish}};
    answer.exchange.owner = &answer;
    answer.exchange.request =
        (struct gw_request){.method = GW_METHOD_POST,
                            .path = BASE_STR("/api/v1/tasks"),
                            .body = (const uint8_t *)"{\"name\":\"a\"}",
                            .body_bytes = 12,
                            .content_type = BASE_STR("text/plain"),
                            .authorization = BASE_STR("Bearer " API_KIT_ADMIN)};
    gw_core_handle(kit.worker, &answer.exchange);
    for (unsigned i = 0; !answer.finished && i < API_KIT_STEPS_MAX; ++i) { // it is noted first
        (void)gw_core_tick(kit.core);
        api_kit_drain(&kit);
    }
    assert_true(answer.finished);
    assert_int_equal(answer.exchange.reply.status, 415);
    base_arena_done(&arena);
    api_kit_done(&kit);
}

static void test_blobs(void **state)
{
    struct api_kit kit;
    struct wire_sha256 digest;
    char path[128];
    char hex[WIRE_SHA256_HEX + 1];

    (void)state;
    api_kit_init(&kit);
    api_put_blob(&kit, "content", 7, 201, &digest);
    api_put_blob(&kit, "content", 7, 200, &digest);
    wire_sha256_hex(&digest, hex);
    snprintf(path, sizeof(path), "/api/v1/blobs/%s", hex);
    api_refused(&kit, GW_METHOD_PUT, path, "other content", 422, "");
    api_kit_done(&kit);
}

static void test_tasks_and_versions(void **state)
{
    struct api_kit kit;
    struct rollout_draft draft = draft_of("shop", 1, 1);
    uint8_t bytes[1024];
    char text[128];
    char hex[WIRE_SHA256_HEX + 1];
    char script_hex[WIRE_SHA256_HEX + 1];
    struct wire_sha256 manifest;
    struct wire_sha256 script;
    struct wire_sha256 digest;

    (void)state;
    api_kit_init(&kit);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"a/b\"}", 201));
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"a/b\"}", 200));
    json_t *task = api_call(&kit, GW_METHOD_GET, "/api/v1/tasks/a%2Fb", NULL, 200);
    assert_string_equal(api_text(task, "name"), "a/b");
    assert_int_equal(json_integer_value(json_object_get(task, "release_counter")), 0);
    assert_true(json_is_null(json_object_get(task, "baseline")));
    assert_true(json_is_null(json_object_get(task, "open_rollout")));
    json_decref(task);

    // Missing blobs are listed: first the manifest, then its file.
    size_t size = api_manifest("a/b", "1.2.3", "x", bytes, sizeof(bytes), &manifest, &script);
    wire_sha256_hex(&manifest, hex);
    wire_sha256_hex(&script, script_hex);
    snprintf(text, sizeof(text), "{\"manifest\":\"%s\"}", hex);
    json_t *problem = api_call(&kit, GW_METHOD_POST, "/api/v1/tasks/a%2Fb/versions", text, 409);
    assert_int_equal(json_array_size(json_object_get(problem, "missing")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(problem, "missing"), 0)),
                        hex);
    json_decref(problem);
    api_put_blob(&kit, bytes, size, 201, &digest);
    problem = api_call(&kit, GW_METHOD_POST, "/api/v1/tasks/a%2Fb/versions", text, 409);
    assert_string_equal(json_string_value(json_array_get(json_object_get(problem, "missing"), 0)),
                        script_hex);
    json_decref(problem);
    api_put_blob(&kit, "x", 1, 201, &digest);
    json_t *version = api_call(&kit, GW_METHOD_POST, "/api/v1/tasks/a%2Fb/versions", text, 201);
    assert_string_equal(api_text(version, "manifest"), hex);
    assert_string_equal(api_text(version, "version"), "1.2.3");
    assert_int_equal(json_integer_value(json_object_get(version, "manifest_bytes")), size);
    assert_int_equal(json_integer_value(json_object_get(version, "files")), 1);
    json_decref(version);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks/a%2Fb/versions", text, 200));
    // Of another task: refused.
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", "{\"name\":\"other\"}", 201));
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks/other/versions", text, 400));

    for (int i = 0; i < 20; ++i) {
        snprintf(text, sizeof(text), "9.0.%d", i);
        api_version(&kit, "shop", text, &draft);
    }
    char path[256] = "/api/v1/tasks/shop/versions?limit=7";
    unsigned seen = 0;
    for (;;) {
        json_t *page = api_call(&kit, GW_METHOD_GET, path, NULL, 200);
        seen += (unsigned)json_array_size(json_object_get(page, "items"));
        const char *next = json_string_value(json_object_get(page, "next"));
        if (next == NULL) {
            json_decref(page);
            break;
        }
        snprintf(path, sizeof(path), "/api/v1/tasks/shop/versions?limit=7&after=%s", next);
        json_decref(page);
        assert_true(seen <= 20);
    }
    assert_int_equal(seen, 20);
    api_kit_done(&kit);
}

static void test_task_pages(void **state)
{
    struct api_kit kit;
    char text[64];
    char path[128];
    unsigned seen = 0;
    bool found[40] = {false};

    (void)state;
    api_kit_init(&kit);
    for (int i = 0; i < 40; ++i) {
        snprintf(text, sizeof(text), "{\"name\":\"task-%02d\"}", i);
        json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/tasks", text, 201));
    }
    snprintf(path, sizeof(path), "/api/v1/tasks?limit=17");
    for (;;) {
        json_t *page = api_call(&kit, GW_METHOD_GET, path, NULL, 200);
        size_t index;
        json_t *item;
        json_array_foreach(json_object_get(page, "items"), index, item)
        {
            const char *name = api_text(item, "name");
            int number = (name[5] - '0') * 10 + (name[6] - '0');
            assert_in_range(number, 0, 39);
            assert_false(found[number]);
            found[number] = true;
            seen++;
        }
        assert_true(index <= 17);
        const char *next = json_string_value(json_object_get(page, "next"));
        if (next == NULL) {
            json_decref(page);
            break;
        }
        snprintf(path, sizeof(path), "/api/v1/tasks?limit=17&after=%s", next);
        json_decref(page);
    }
    assert_int_equal(seen, 40);
    api_kit_done(&kit);
}

static void expect_state(struct api_kit *kit, const char *path, const char *state_name,
                         const char *stage)
{
    json_t *rollout = api_call(kit, GW_METHOD_GET, path, NULL, 200);
    assert_string_equal(api_text(rollout, "state"), state_name);
    if (stage != NULL) {
        assert_string_equal(api_text(json_object_get(rollout, "stage"), "name"), stage);
    }
    json_decref(rollout);
}

static void tick_until(struct api_kit *kit, const char *path, const char *stage)
{
    for (unsigned i = 0; i < API_KIT_STEPS_MAX; ++i) {
        (void)gw_core_tick(kit->core);
        api_kit_drain(kit);
        json_t *rollout = api_call(kit, GW_METHOD_GET, path, NULL, 200);
        bool there = strcmp(api_text(json_object_get(rollout, "stage"), "name"), stage) == 0;
        json_decref(rollout);
        if (there) {
            return;
        }
    }
    fail_msg("stage %s was never reached", stage);
}

// A second open rollout of the task, more important and an arm of an experiment.
static const char typed[] = "{\"completed\":50,\"failed\":1,\"override\":true,"
                            "\"reason\":\"a bench\",\"by\":\"ana\"}";

// Typed numbers count once somebody else says so; until then the page shows who typed them and why.
static void approve_typed(struct api_kit *kit, const char *path)
{
    char longer[128];
    json_t *rollout = api_call(kit, GW_METHOD_GET, path, NULL, 200);
    const json_t *simulation = json_object_get(rollout, "simulation");
    assert_string_equal(api_text(simulation, "source"), "override_pending");
    assert_string_equal(api_text(simulation, "by"), "admin");
    assert_string_equal(api_text(simulation, "reason"), "a bench");
    assert_true(json_is_null(json_object_get(simulation, "approved_by")));
    json_decref(rollout);
    expect_state(kit, path, "running", "simulate");
    snprintf(longer, sizeof(longer), "%s/approve", path);
    json_decref(api_call(kit, GW_METHOD_POST, longer, "{\"by\":\"bo\"}", 409));
    const char *admin = kit->bearer;
    char bo[80];
    json_t *token = api_call(kit, GW_METHOD_POST, "/api/v1/tokens",
                             "{\"name\":\"bo\",\"role\":\"approver\"}", 201);
    snprintf(bo, sizeof(bo), "Bearer %s", api_text(token, "secret"));
    json_decref(token);
    kit->bearer = bo;
    rollout = api_call(kit, GW_METHOD_POST, longer, "{}", 200);
    kit->bearer = admin;
    simulation = json_object_get(rollout, "simulation");
    assert_string_equal(api_text(simulation, "source"), "override");
    assert_string_equal(api_text(simulation, "approved_by"), "bo");
    json_decref(rollout);
}

static void second_rollout_is_open_too(struct api_kit *kit, const struct rollout_draft *draft)
{
    struct rollout_draft second = *draft;

    second.id = 0x12;
    second.release_counter = 3;
    second.priority = 3;
    second.arm_salt = 0x77;
    second.arm_to = 2500;
    char *text = api_rollout_text(kit, &second, stages);
    json_t *rollout = api_call(kit, GW_METHOD_POST, "/api/v1/rollouts", text, 201);
    assert_int_equal(json_integer_value(json_object_get(rollout, "priority")), 3);
    json_t *arm = json_object_get(rollout, "arm");
    assert_string_equal(api_text(arm, "salt"), "0000000000000077");
    assert_true(json_number_value(json_object_get(arm, "to")) == 25.0);
    json_decref(rollout);
    json_t *task = api_call(kit, GW_METHOD_GET, "/api/v1/tasks/shop", NULL, 200);
    const json_t *open = json_object_get(task, "open_rollouts");
    assert_int_equal(json_array_size(open), 2);
    assert_string_equal(json_string_value(json_array_get(open, 0)), "0000000000000012");
    json_decref(task);
    json_decref(api_call(kit, GW_METHOD_POST, "/api/v1/rollouts/0000000000000012/abort",
                         "{\"reason\":\"not yet\"}", 200));
    free(text);
}

static void test_rollout_life(void **state)
{
    struct api_kit kit;
    struct rollout_draft draft = draft_of("shop", 0x11, 1);
    const char *path = "/api/v1/rollouts/0000000000000011";
    char longer[128];

    (void)state;
    api_kit_init(&kit);
    api_version(&kit, "shop", "1.0.0", &draft);
    char *text = api_rollout_text(&kit, &draft, stages);
    json_t *rollout = api_call(&kit, GW_METHOD_POST, "/api/v1/rollouts", text, 201);
    assert_string_equal(api_text(rollout, "id"), "0000000000000011");
    assert_string_equal(api_text(rollout, "state"), "draft");
    assert_string_equal(api_text(rollout, "version"), "1.0.0");
    assert_int_equal(json_array_size(json_object_get(rollout, "stages")), 3);
    json_t *gray = json_array_get(json_object_get(rollout, "stages"), 1);
    assert_string_equal(api_text(gray, "kind"), "gray");
    assert_true(json_number_value(json_object_get(gray, "percent")) == 1.0);
    assert_true(json_number_value(json_object_get(gray, "max_failure")) == 0.1);
    json_decref(rollout);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/rollouts", text, 409));
    free(text);

    second_rollout_is_open_too(&kit, &draft);
    snprintf(longer, sizeof(longer), "%s/start", path);
    json_decref(api_call(&kit, GW_METHOD_POST, longer, "{\"by\":\"me\",\"reason\":\"go\"}", 200));
    expect_state(&kit, path, "running", "simulate");
    json_decref(api_call(&kit, GW_METHOD_POST, longer, NULL, 409));
    snprintf(longer, sizeof(longer), "%s/simulation", path);
    json_decref(api_call(&kit, GW_METHOD_POST, longer, "{\"completed\":50,\"failed\":1}", 400));
    json_decref(api_call(&kit, GW_METHOD_POST, longer, typed, 200));
    approve_typed(&kit, path);
    tick_until(&kit, path, "gray");
    json_decref(api_call(&kit, GW_METHOD_POST, longer, typed, 409));
    snprintf(longer, sizeof(longer), "%s/pause", path);
    json_decref(api_call(&kit, GW_METHOD_POST, longer, "{\"reason\":\"look\"}", 200));
    expect_state(&kit, path, "paused", "gray");
    snprintf(longer, sizeof(longer), "%s/resume", path);
    json_decref(api_call(&kit, GW_METHOD_POST, longer, "{}", 200));
    snprintf(longer, sizeof(longer), "%s/promote", path);
    json_decref(api_call(&kit, GW_METHOD_POST, longer, "{}", 200));
    expect_state(&kit, path, "running", "full");

    // What was acknowledged is there after a restart.
    api_kit_close(&kit);
    api_kit_open(&kit);
    expect_state(&kit, path, "running", "full");
    json_t *task = api_call(&kit, GW_METHOD_GET, "/api/v1/tasks/shop", NULL, 200);
    assert_string_equal(api_text(task, "open_rollout"), "0000000000000011");
    json_decref(task);

    snprintf(longer, sizeof(longer), "%s/log?limit=3", path);
    json_t *log = api_call(&kit, GW_METHOD_GET, longer, NULL, 200);
    json_t *lines = json_object_get(log, "items");
    assert_int_equal(json_array_size(lines), 3);
    assert_string_equal(api_text(json_array_get(lines, 0), "kind"), "created");
    assert_string_equal(api_text(json_array_get(lines, 1), "what"), "start");
    assert_string_equal(api_text(json_array_get(lines, 1), "by"), "me");
    assert_string_equal(api_text(json_array_get(lines, 1), "comment"), "go");
    assert_int_equal(json_integer_value(json_object_get(log, "next")), 3);
    json_decref(log);
    snprintf(longer, sizeof(longer), "%s/abort", path);
    json_decref(api_call(&kit, GW_METHOD_POST, longer, "{\"reason\":\"enough\"}", 200));
    json_t *page = api_call(&kit, GW_METHOD_GET, "/api/v1/rollouts", NULL, 200);
    assert_int_equal(json_array_size(json_object_get(page, "items")), 2);
    json_decref(page);
    api_kit_done(&kit);
}

static void test_preview(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"{\"target\":\"os == \"}", "target: line 1, column 7"},
        {"{\"stages\":[{\"kind\":\"gray\"}]}", "stages[0].percent: missing"},
        {"{\"stages\":[{\"kind\":\"grey\"}]}", "stages[0].kind: 'grey'"},
        {"{\"stages\":[{\"kind\":\"full\",\"audience\":\"a in 3..1\"}]}",
         "stages[0].audience: line 1, column 6"},
        {"{\"salt\":\"x\"}", "salt: not 16"},
        {"{\"arm\":{}}", "arm.salt: missing"},
        {"{\"tasks\":\"t\"}", "tasks: unknown field"},
        {"{\"priority\":1001}", "priority:"},
    };
    struct api_kit kit;

    api_kit_init(&kit);
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        json_t *problem =
            api_call(&kit, GW_METHOD_POST, "/api/v1/rollouts/preview", bad[i][0], 400);
        if (strstr(api_text(problem, "detail"), bad[i][1]) == NULL) {
            fail_msg("%s: %s", bad[i][0], api_text(problem, "detail"));
        }
        json_decref(problem);
    }
    json_t *preview = api_call(&kit, GW_METHOD_POST, "/api/v1/rollouts/preview",
                               "{\"target\":\"os == \\\"ios\\\"\",\"salt\":\"0000000000000011\","
                               "\"task\":\"nobody/knows\",\"priority\":1000,\"stages\":["
                               "{\"kind\":\"gray\",\"percent\":1},{\"kind\":\"full\"}]}",
                               200);
    assert_int_equal(json_integer_value(json_object_get(preview, "devices")), 0);
    assert_int_equal(json_integer_value(json_object_get(preview, "elsewhere")), 0);
    assert_int_equal(json_array_size(json_object_get(preview, "stages")), 2);
    assert_true(json_is_true(json_object_get(preview, "exact")));
    assert_int_equal(json_object_size(json_object_get(preview, "segments")), 6);
    json_decref(preview);
    api_kit_done(&kit);
}

static void test_failed_simulation_stops(void **state)
{
    struct api_kit kit;
    struct rollout_draft draft = draft_of("shop", 0x21, 1);
    const char *path = "/api/v1/rollouts/0000000000000021";
    char longer[128];

    (void)state;
    api_kit_init(&kit);
    api_version(&kit, "shop", "1.0.0", &draft);
    char *text = api_rollout_text(&kit, &draft, stages);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/rollouts", text, 201));
    free(text);
    snprintf(longer, sizeof(longer), "%s/start", path);
    json_decref(api_call(&kit, GW_METHOD_POST, longer, NULL, 200));
    snprintf(longer, sizeof(longer), "%s/simulation", path);
    json_decref(api_call(&kit, GW_METHOD_POST, longer,
                         "{\"completed\":50,\"failed\":40,\"override\":true,"
                         "\"reason\":\"a bench\",\"by\":\"ana\"}",
                         200));
    approve_typed(&kit, path);
    for (unsigned i = 0; i < 1000; ++i) {
        (void)gw_core_tick(kit.core);
        api_kit_drain(&kit);
    }
    json_t *rollout = api_call(&kit, GW_METHOD_GET, path, NULL, 200);
    const char *name = api_text(rollout, "state");
    assert_true(strcmp(name, "rolling_back") == 0 || strcmp(name, "rolled_back") == 0);
    assert_string_equal(api_text(rollout, "verdict"), "fail");
    assert_true(json_number_value(json_object_get(rollout, "failure_ratio")) == 0.8);
    assert_string_equal(api_text(rollout, "failure_of"), "completed");
    json_decref(rollout);
    api_kit_done(&kit);
}

// The largest target there may be is no matter of memory: it is taken, or refused for its size.
static void test_largest_target(void **state)
{
    struct api_kit kit;
    struct rollout_draft draft = draft_of("shop", 0x51, 1);
    struct api_answer answer;

    (void)state;
    api_kit_init(&kit);
    api_version(&kit, "shop", "1.0.0", &draft);
    char *text = api_rollout_text(&kit, &draft, stages);
    json_t *body = json_loads(text, 0, NULL);
    json_t *values = json_array();
    for (int i = 0; i < 256; ++i) {
        json_array_append_new(values, json_integer(i));
    }
    for (int i = 0; i < 32; ++i) {
        json_array_append_new(
            json_object_get(body, "target"),
            json_pack("{s:s, s:s, s:O}", "attr", "ram_mb", "op", "in", "value", values));
    }
    json_decref(values);
    char *large = json_dumps(body, JSON_COMPACT);
    api_send(&kit, GW_METHOD_POST, "/api/v1/rollouts", large, strlen(large), &answer);
    if (answer.status != 201 && answer.status != 413) {
        fail_msg("status %d: %.*s", answer.status, (int)answer.exchange.reply.body_bytes,
                 (const char *)answer.exchange.reply.body);
    }
    api_answer_done(&answer);
    free(large);
    free(text);
    json_decref(body);
    api_kit_done(&kit);
}

// A body whose statements do not agree with it is refused, with the stage's place.
static void test_statements_must_agree(void **state)
{
    struct api_kit kit;
    struct rollout_draft draft = draft_of("shop", 0x31, 1);

    (void)state;
    api_kit_init(&kit);
    api_version(&kit, "shop", "1.0.0", &draft);
    char *text = api_rollout_text(&kit, &draft, stages);
    static const struct {
        const char *from;
        const char *to;
    } changes[] = {
        {"\"release_counter\":1", "\"release_counter\":2"},
        {"\"salt\":\"0000000000005a17\"", "\"salt\":\"0000000000005a18\""},
        {"\"id\":\"0000000000000031\"", "\"id\":\"0000000000000032\""},
        {"\"percent\":1,", "\"percent\":2,"},
    };
    for (size_t i = 0; i < TEST_COUNT(changes); ++i) {
        char *copy = strdup(text);
        char *at = strstr(copy, changes[i].from);
        if (at == NULL) {
            fail_msg("case %zu: '%s' is not in the body %s", i, changes[i].from, text);
        }
        memcpy(at, changes[i].to, strlen(changes[i].to));
        json_t *problem = api_call(&kit, GW_METHOD_POST, "/api/v1/rollouts", copy, 400);
        assert_true(api_text(problem, "detail")[0] != '\0');
        json_decref(problem);
        free(copy);
    }
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/rollouts", text, 201));
    free(text);
    api_kit_done(&kit);
}

// Each allocation of the JSON library fails in turn: the answer is the whole one or a 503, and
// nothing leaks (the address sanitizer's business).
static size_t json_allowed;

static void *json_limited_malloc(size_t size)
{
    if (json_allowed == 0) {
        return NULL;
    }
    json_allowed -= json_allowed != SIZE_MAX ? 1 : 0;
    return malloc(size);
}

static void fail_each_allocation(struct api_kit *kit, const char *path)
{
    struct api_answer whole;
    size_t failures = 0;

    api_send(kit, GW_METHOD_GET, path, NULL, 0, &whole);
    assert_int_equal(whole.status, 200);
    for (size_t allowed = 0; allowed < 5000; ++allowed) {
        struct api_answer answer;
        json_allowed = allowed;
        json_set_alloc_funcs(json_limited_malloc, free);
        api_send(kit, GW_METHOD_GET, path, NULL, 0, &answer);
        json_set_alloc_funcs(malloc, free);
        int status = answer.status;
        if (status == 200) {
            assert_int_equal(answer.exchange.reply.body_bytes, whole.exchange.reply.body_bytes);
            assert_memory_equal(answer.exchange.reply.body, whole.exchange.reply.body,
                                whole.exchange.reply.body_bytes);
        } else {
            assert_int_equal(status, 503);
            failures++;
        }
        api_answer_done(&answer);
        if (status == 200) {
            api_answer_done(&whole);
            assert_true(failures > 0);
            return;
        }
    }
    fail_msg("%s: never answered", path);
}

static void test_json_out_of_memory(void **state)
{
    struct api_kit kit;
    struct rollout_draft draft = draft_of("shop", 0x41, 1);

    (void)state;
    api_kit_init(&kit);
    api_version(&kit, "shop", "1.0.0", &draft);
    char *text = api_rollout_text(&kit, &draft, stages);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/rollouts", text, 201));
    free(text);
    fail_each_allocation(&kit, "/api/v1/rollouts/0000000000000041");
    fail_each_allocation(&kit, "/api/v1/rollouts");
    fail_each_allocation(&kit, "/api/v1/rollouts/0000000000000041/log");
    fail_each_allocation(&kit, "/api/v1/tasks");
    fail_each_allocation(&kit, "/api/v1/tasks/shop/versions");
    api_kit_done(&kit);
}

static void test_console(void **state)
{
    struct api_kit kit;
    struct api_answer answer;
    bool policy = false;

    (void)state;
    api_kit_init(&kit);
    memset(&answer, 0, sizeof(answer));
    base_arena_init(&answer.arena, base_alloc_heap(), 0, 0);
    answer.exchange =
        (struct gw_exchange){.arena = &answer.arena, .owner = &answer, .finish = api_kit_finish};
    answer.exchange.request.path = BASE_STR("/");
    gw_core_handle(kit.worker, &answer.exchange);
    assert_true(answer.finished);
    const struct gw_reply *reply = &answer.exchange.reply;
    assert_int_equal(reply->status, 200);
    assert_memory_equal(reply->body, "<!doctype html>", 15);
    for (uint32_t i = 0; i < reply->header_count; ++i) {
        policy = policy ||
                 (base_str_equal(reply->headers[i].name, BASE_STR("content-security-policy")) &&
                  base_str_starts(reply->headers[i].value, BASE_STR("default-src 'none'")));
    }
    assert_true(policy);
    assert_null(memmem(reply->body, reply->body_bytes, "http://", 7));
    assert_null(memmem(reply->body, reply->body_bytes, "https://", 8));
    base_arena_done(&answer.arena);
    api_kit_done(&kit);
}

// Cut off anywhere, it kills nothing.
static void test_half_a_kill_kills_nothing(void **state)
{
    struct api_kit kit;
    char body[160];
    char half[160];
    char lift[96];
    (void)state;
    (void)snprintf(lift, sizeof(lift), "/api/v1/kills/%064d/lift", 7);
    api_kit_init(&kit);
    size_t size =
        (size_t)snprintf(body, sizeof(body), "{\"reason\":\"leaks\",\"manifest\":\"%064d\"}", 7);
    for (size_t i = 0; i < size; i++) {
        memcpy(half, body, i);
        half[i] = '\0';
        json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/kills", half, 400));
    }
    json_decref(api_call(&kit, GW_METHOD_POST, lift, "{\"reason\":\"none\"}", 404));
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/kills", body, 201));
    json_decref(api_call(&kit, GW_METHOD_POST, lift, "{\"reason\":\"none\"}", 200));
    api_kit_done(&kit);
}

// A device numbers its reports as it likes; JSON's whole numbers have a sign.
static void test_the_largest_report_number(void **state)
{
    static struct gw_device_view view;
    (void)state;
    view.report_seq = UINT64_MAX;
    json_t *shown = gw_view_device(&view);
    assert_true(json_integer_value(json_object_get(shown, "report_seq")) == INT64_MAX);
    json_decref(shown);
    view.report_seq = INT64_MAX - 1;
    shown = gw_view_device(&view);
    assert_true(json_integer_value(json_object_get(shown, "report_seq")) == INT64_MAX - 1);
    json_decref(shown);
}

// What could not be stored says so, and what it was.
static void test_a_pack_without_room(void **state)
{
    struct api_kit kit;
    struct base_writer writer;
    struct api_answer answer;
    struct rlimit before;
    static uint8_t blob[200000];
    static uint8_t pack[sizeof(blob) + 4];

    (void)state;
    api_kit_init(&kit);
    base_writer_init(&writer, pack, sizeof(pack));
    base_writer_u32(&writer, sizeof(blob));
    base_writer_bytes(&writer, blob, sizeof(blob));
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    api_send(&kit, GW_METHOD_PUT, "/api/v1/exclusive", pack, base_writer_size(&writer), &answer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(answer.status, 507);
    assert_string_equal(api_text(answer.json, "detail"),
                        "pack: its 1 blobs were not stored: storage full");
    api_answer_done(&answer);
    api_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes_and_errors),
        cmocka_unit_test(test_post_needs_the_json_type),
        cmocka_unit_test(test_half_a_kill_kills_nothing),
        cmocka_unit_test(test_blobs),
        cmocka_unit_test(test_a_pack_without_room),
        cmocka_unit_test(test_tasks_and_versions),
        cmocka_unit_test(test_task_pages),
        cmocka_unit_test(test_rollout_life),
        cmocka_unit_test(test_preview),
        cmocka_unit_test(test_failed_simulation_stops),
        cmocka_unit_test(test_statements_must_agree),
        cmocka_unit_test(test_largest_target),
        cmocka_unit_test(test_json_out_of_memory),
        cmocka_unit_test(test_console),
        cmocka_unit_test(test_the_largest_report_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
