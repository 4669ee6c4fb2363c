// What a kill of a version leaves behind for people: lines in the logs of its rollouts, an entry of
// the audit log that names it, who it was, and what comes back when it ends.
#include "api_kit.h"

#include "svc/rollout/kill_rollouts.h"

static const char stages[] = "[{\"name\":\"full\",\"kind\":\"full\",\"percent\":100,\"max_"
                             "failure\":0.1,\"min_sample\":5,\"guard_s\":0}]";

struct released {
    struct api_kit kit;
    struct rollout_draft draft;
    char hex[WIRE_SHA256_HEX + 1];
};

static void make_rollout(struct released *released, uint64_t id)
{
    char path[128];
    released->draft.id = id;
    released->draft.release_counter++;
    char *text = api_rollout_text(&released->kit, &released->draft, stages);
    json_decref(api_call(&released->kit, GW_METHOD_POST, "/api/v1/rollouts", text, 201));
    free(text);
    snprintf(path, sizeof(path), "/api/v1/rollouts/%016llx/start", (unsigned long long)id);
    json_decref(api_call(&released->kit, GW_METHOD_POST, path, "{}", 200));
}

// Rollout 11 completed, 12 is open.
static void released_init(struct released *released)
{
    const char *promote = "/api/v1/rollouts/0000000000000011/promote";
    uint64_t now_s = base_clock_wall_us() / 1000000;
    memset(released, 0, sizeof(*released));
    api_kit_init(&released->kit);
    released->draft = (struct rollout_draft){
        .task = "shop", .salt = 1, .issued_s = now_s, .expires_s = now_s + 86400};
    api_version(&released->kit, "shop", "1.0.0", &released->draft);
    wire_sha256_hex(&released->draft.manifest, released->hex);
    make_rollout(released, 0x11);
    json_decref(api_call(&released->kit, GW_METHOD_POST, promote, "{}", 200));
    make_rollout(released, 0x12);
}

static json_t *change(struct released *released, const char *tail, const char *hex, int status)
{
    char path[160];
    char body[256];
    bool lift = tail[0] != '\0';
    snprintf(path, sizeof(path), "/api/v1/kills%s%s%s", lift ? "/" : "", lift ? hex : "", tail);
    snprintf(body, sizeof(body), "{\"reason\":\"leaks\",\"by\":\"root\"%s%s%s}",
             lift ? "" : ",\"manifest\":\"", lift ? "" : hex, lift ? "" : "\"");
    return api_call(&released->kit, GW_METHOD_POST, path, body, status);
}

// The last line of a rollout's log with this kind; a new reference.
static json_t *last_line(struct released *released, const char *id, const char *kind)
{
    char path[128];
    size_t index;
    json_t *item;
    json_t *found = NULL;
    snprintf(path, sizeof(path), "/api/v1/rollouts/%s/log?limit=500", id);
    json_t *log = api_call(&released->kit, GW_METHOD_GET, path, NULL, 200);
    json_array_foreach(json_object_get(log, "items"), index, item)
    {
        found = strcmp(api_text(item, "kind"), kind) == 0 ? item : found;
    }
    json_incref(found);
    json_decref(log);
    return found;
}

static void expect_line(struct released *released, const char *id, const char *what)
{
    json_t *line = last_line(released, id, "kill");
    assert_non_null(line);
    assert_string_equal(api_text(line, "what"), what);
    assert_string_equal(api_text(line, "comment"), "leaks");
    json_decref(line);
}

static void test_logs_of_its_rollouts_say_it(void **state)
{
    struct released released;
    (void)state;
    released_init(&released);
    json_decref(change(&released, "", released.hex, 201));
    expect_line(&released, "0000000000000011", "kill");
    expect_line(&released, "0000000000000012", "kill");
    json_t *rollout =
        api_call(&released.kit, GW_METHOD_GET, "/api/v1/rollouts/0000000000000011", NULL, 200);
    assert_string_equal(api_text(rollout, "state"), "completed");
    assert_string_equal(api_text(rollout, "verdict"), "no_data");
    assert_string_equal(api_text(rollout, "reason"), "killed");
    json_decref(rollout);
    json_decref(change(&released, "", released.hex, 200)); // again: no second line
    json_t *line = last_line(&released, "0000000000000011", "kill");
    json_int_t seq = json_integer_value(json_object_get(line, "seq"));
    json_decref(line);
    json_decref(change(&released, "/lift", released.hex, 200));
    expect_line(&released, "0000000000000011", "unkill");
    line = last_line(&released, "0000000000000011", "kill");
    assert_int_equal(json_integer_value(json_object_get(line, "seq")), seq + 1);
    json_decref(line);
    rollout =
        api_call(&released.kit, GW_METHOD_GET, "/api/v1/rollouts/0000000000000011", NULL, 200);
    assert_string_not_equal(api_text(rollout, "reason"), "killed");
    json_decref(rollout);
    api_kit_done(&released.kit);
}

// The last entry of the audit log; to decref.
static json_t *last_entry(struct released *released)
{
    json_t *page = api_call(&released->kit, GW_METHOD_GET, "/api/v1/audit?limit=500", NULL, 200);
    const json_t *items = json_object_get(page, "items");
    const json_t *last = json_array_get(items, json_array_size(items) - 1);
    json_t *entry = json_loads(api_text(last, "entry"), 0, NULL);
    json_decref(page);
    assert_non_null(entry);
    return entry;
}

static void test_the_audit_log_names_the_version(void **state)
{
    static const char *const tails[] = {"", "/lift"};
    struct released released;
    (void)state;
    released_init(&released);
    for (size_t i = 0; i < TEST_COUNT(tails); i++) {
        json_decref(change(&released, tails[i], released.hex, i == 0 ? 201 : 200));
        json_t *entry = last_entry(&released);
        const json_t *before = json_object_get(entry, "before");
        const json_t *after = json_object_get(entry, "after");
        assert_string_equal(api_text(before, "manifest"), released.hex);
        assert_string_equal(api_text(after, "manifest"), released.hex);
        assert_string_equal(api_text(after, "task"), "shop");
        assert_string_equal(api_text(after, "version"), "1.0.0");
        assert_int_equal(json_is_true(json_object_get(before, "killed")), i == 1);
        assert_int_equal(json_is_true(json_object_get(after, "killed")), i == 0);
        json_decref(entry);
    }
    api_kit_done(&released.kit);
}

// Not what somebody typed, unless they are asked apart.
static void test_by_is_who_the_token_is(void **state)
{
    struct released released;
    char bearer[96];
    (void)state;
    released_init(&released);
    json_decref(change(&released, "", released.hex, 201));
    json_t *page = api_call(&released.kit, GW_METHOD_GET, "/api/v1/kills", NULL, 200);
    assert_string_equal(api_text(json_array_get(json_object_get(page, "items"), 0), "by"),
                        "admin (root)");
    json_decref(page);
    json_decref(change(&released, "/lift", released.hex, 200));
    json_t *token =
        api_call(&released.kit, GW_METHOD_POST, "/api/v1/tokens",
                 "{\"name\":\"ci\",\"owner\":\"ana\",\"role\":\"admin\",\"tenant\":\"*\"}", 201);
    snprintf(bearer, sizeof(bearer), "Bearer %s", api_text(token, "secret"));
    json_decref(token);
    released.kit.bearer = bearer;
    json_decref(change(&released, "", released.hex, 201));
    page = api_call(&released.kit, GW_METHOD_GET, "/api/v1/kills", NULL, 200);
    assert_string_equal(api_text(json_array_get(json_object_get(page, "items"), 0), "by"),
                        "ana (ci)");
    json_decref(page);
    released.kit.bearer = NULL;
    api_kit_done(&released.kit);
}

static void expect_no_line(struct released *released, const char *id)
{
    json_t *line = last_line(released, id, "kill");
    if (line != NULL) {
        fail_msg("rollout %s has a line: %s", id, api_text(line, "what"));
    }
}

static void command(struct released *released, const char *id, const char *what)
{
    char path[96];
    snprintf(path, sizeof(path), "/api/v1/rollouts/%s/%s", id, what);
    json_decref(api_call(&released->kit, GW_METHOD_POST, path, "{\"reason\":\"fails\"}", 200));
}

// What takes away a version that was everybody's says why, and is not done without; a rollout that
// is under way is stopped at once.
static void test_no_kill_and_no_undo_without_a_reason(void **state)
{
    static const char *const silent[] = {"{}", "{\"by\":\"ana\"}", "{\"reason\":\"\"}",
                                         "{\"reason\":\" \\t\"}"};
    static const char *const paths[] = {"/api/v1/rollouts/0000000000000011/undo",
                                        "/api/v1/rollouts/0000000000000011/kill"};
    struct released released;
    (void)state;
    released_init(&released);
    for (size_t i = 0; i < 2 * sizeof(silent) / sizeof(silent[0]); i++) {
        json_t *problem = api_call(&released.kit, GW_METHOD_POST, paths[i % 2], silent[i / 2], 400);
        assert_memory_equal(api_text(problem, "detail"), "reason: ", 8);
        json_decref(problem);
    }
    expect_no_line(&released, "0000000000000011");
    json_t *rollout =
        api_call(&released.kit, GW_METHOD_GET, "/api/v1/rollouts/0000000000000011", NULL, 200);
    assert_string_equal(api_text(rollout, "state"), "completed");
    json_decref(rollout);
    json_decref(api_call(&released.kit, GW_METHOD_POST, "/api/v1/rollouts/0000000000000012/abort",
                         "{\"reason\":\"enough\"}", 200));
    api_kit_done(&released.kit);
}

// No line for a rollout that goes back already, nor for the end of what a later release is in the
// place of.
static void test_only_what_it_concerns_has_a_line(void **state)
{
    struct released released;
    char first[WIRE_SHA256_HEX + 1];
    (void)state;
    released_init(&released);
    command(&released, "0000000000000012", "abort");
    make_rollout(&released, 0x13); // of the same version, and completed after 11
    command(&released, "0000000000000013", "promote");
    json_decref(change(&released, "", released.hex, 201));
    expect_no_line(&released, "0000000000000012");
    expect_line(&released, "0000000000000011", "kill");
    expect_line(&released, "0000000000000013", "kill");
    json_t *back = change(&released, "/lift", released.hex, 200);
    assert_int_equal(json_integer_value(json_object_get(back, "rollout_count")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(back, "rollouts"), 0)),
                        "0000000000000013");
    json_decref(back);
    expect_line(&released, "0000000000000011", "kill"); // 13 is in its place
    expect_line(&released, "0000000000000013", "unkill");
    expect_no_line(&released, "0000000000000012");
    // Of a version that was never complete nothing comes back.
    api_version(&released.kit, "shop", "2.0.0", &released.draft);
    wire_sha256_hex(&released.draft.manifest, first);
    command(&released, "0000000000000011", "undo");
    command(&released, "0000000000000013", "undo");
    make_rollout(&released, 0x14);
    json_decref(change(&released, "", first, 201));
    back = change(&released, "/lift", first, 200);
    assert_int_equal(json_integer_value(json_object_get(back, "rollout_count")), 0);
    json_decref(back);
    expect_line(&released, "0000000000000014", "kill");
    api_kit_done(&released.kit);
}

// Half a name is somebody else's: what does not fit beside the person is left out.
static void test_no_name_is_cut(void **state)
{
    static const char person[] = "ana";
    char by[GW_TRUST_BY_MAX + 1];
    char name[GW_TRUST_BY_MAX + 1];
    char expected[GW_TRUST_BY_MAX + 1];
    size_t fits = GW_TRUST_BY_MAX - strlen(person) - strlen(" ()");
    (void)state;
    memset(name, 'n', sizeof(name));
    struct gw_rollout_who who = {.person = base_str_of(person), .by = {name, fits}};
    gw_kill_by(&who, by);
    (void)snprintf(expected, sizeof(expected), "%s (%.*s)", person, (int)fits, name);
    assert_string_equal(by, expected);
    assert_int_equal(strlen(by), GW_TRUST_BY_MAX);
    who.by.size++;
    gw_kill_by(&who, by);
    assert_string_equal(by, person);
    who.by = who.person;
    gw_kill_by(&who, by);
    assert_string_equal(by, person);
}

static void test_an_unknown_version_is_told_apart(void **state)
{
    static const char nobodys[] =
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    struct released released;
    (void)state;
    released_init(&released);
    json_t *kill = change(&released, "", nobodys, 201);
    assert_true(json_is_null(json_object_get(kill, "task")));
    assert_int_equal(json_integer_value(json_object_get(kill, "rollout_count")), 0);
    json_decref(kill);
    kill = change(&released, "", released.hex, 201);
    assert_string_equal(api_text(kill, "task"), "shop");
    assert_int_equal(json_integer_value(json_object_get(kill, "rollout_count")), 2);
    json_decref(kill);
    json_t *back = change(&released, "/lift", released.hex, 200);
    assert_int_equal(json_integer_value(json_object_get(back, "rollout_count")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(back, "rollouts"), 0)),
                        "0000000000000011");
    assert_true(json_is_integer(json_object_get(back, "devices")));
    json_decref(back);
    api_kit_done(&released.kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logs_of_its_rollouts_say_it),
        cmocka_unit_test(test_the_audit_log_names_the_version),
        cmocka_unit_test(test_by_is_who_the_token_is),
        cmocka_unit_test(test_only_what_it_concerns_has_a_line),
        cmocka_unit_test(test_no_kill_and_no_undo_without_a_reason),
        cmocka_unit_test(test_no_name_is_cut),
        cmocka_unit_test(test_an_unknown_version_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
