// The rollout body: what is accepted arrives as it was said; what is not is named by its path.
#include "test_kit.h"

#include "api/rollout_body.h"
#include "api/tolerance_body.h"
#include "policy/expr.h"
#include "base/alloc.h"

#include <jansson.h>

#define MANIFEST "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"
#define HEAD                                                                                       \
    "{\"id\":\"00c0ffee00c0ffee\",\"task\":\"shop/ipv\",\"manifest\":\"" MANIFEST                  \
    "\",\"salt\":\"fedcba9876543210\",\"release_counter\":7,"

static const char good[] = HEAD
    "\"target\":[{\"attr\":\"os\",\"op\":\"==\",\"value\":\"android\"},"
    "{\"attr\":\"os_version\",\"op\":\">=\",\"value\":\"11.2\",\"type\":\"version\"},"
    "{\"attr\":\"ram_mb\",\"op\":\"in\",\"value\":[2048,4096]},"
    "{\"attr\":\"region\",\"op\":\"present\"}],"
    "\"stages\":[{\"name\":\"simulate\",\"kind\":\"simulate\",\"max_failure\":0},"
    "{\"name\":\"gray\",\"kind\":\"gray\",\"percent\":0.01,\"max_failure\":0.025,\"min_sample\":30,"
    "\"min_dwell_s\":1.5,\"statement\":\"AAEC_-8\","
    "\"audience\":[{\"attr\":\"rooted\",\"op\":\"!=\",\"value\":true}]},"
    "{\"name\":\"full\",\"kind\":\"full\",\"max_failure\":1,\"statement\":\"_w\"}],"
    "\"execution_timeout_s\":60,\"by\":\"me\",\"reason\":\"because\"}";

static enum base_status parse(struct base_arena *arena, const char *text,
                              struct gw_rollout_body *out, struct base_error *error)
{
    size_t size = strlen(text);
    uint8_t *exact = test_exact(text, size);
    memset(error, 0, sizeof(*error));
    enum base_status status = gw_rollout_body_parse(exact, size, arena, out, error);
    free(exact);
    return status;
}

static void test_good_body(void **state)
{
    struct base_arena arena;
    struct gw_rollout_body body;
    struct base_error error;

    (void)state;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    if (parse(&arena, good, &body, &error) != BASE_OK) {
        fail_msg("refused: %s", error.text);
    }
    const struct gw_rollout_spec *spec = &body.spec;
    assert_true(spec->id == 0x00c0ffee00c0ffeeu && spec->salt == 0xfedcba9876543210u);
    assert_true(spec->release_counter == 7 && spec->execution_timeout_s == 60);
    assert_true(base_str_equal(spec->task, BASE_STR("shop/ipv")));
    assert_int_equal(spec->manifest.bytes[31], 0x5a);
    assert_int_equal(spec->target.cond_count, 4);
    assert_int_equal(spec->target.conds[1].op, POL_OP_GE);
    assert_int_equal(spec->target.conds[1].operands[0].type, POL_TYPE_VERSION);
    assert_int_equal(spec->target.conds[1].operands[0].version.numbers[1], 2);
    assert_int_equal(spec->target.conds[2].operand_count, 2);
    assert_true(spec->target.conds[2].operands[1].integer == 4096);
    assert_int_equal(spec->target.conds[3].operand_count, 0);
    assert_int_equal(spec->stage_count, 3);
    assert_null(spec->stages[0].statement);
    const struct gw_stage_spec *gray = &spec->stages[1];
    assert_int_equal(gray->stage.kind, POL_STAGE_GRAY);
    assert_int_equal(gray->stage.max_bucket, 1);
    assert_int_equal(gray->stage.gate.max_failure_ppm, 25000);
    assert_int_equal(gray->stage.gate.min_sample, 30);
    assert_true(gray->stage.gate.min_dwell_us == 1500000);
    assert_int_equal(gray->stage.audience.cond_count, 1);
    assert_int_equal(gray->statement_bytes, 5);
    assert_int_equal(gray->statement[4], 0xef);
    assert_int_equal(spec->stages[2].stage.max_bucket, 10000);
    assert_int_equal(gray->stage.gate.min_answered_ppm, 900000); // where nothing is said
    assert_int_equal(gray->stage.guard_s, 0);
    assert_int_equal(spec->stages[2].stage.guard_s, 86400);
    assert_int_equal(spec->stages[2].stage.on_fail, POL_ON_FAIL_ROLL_BACK);
    assert_int_equal(spec->stages[2].stage.on_pass, POL_ON_PASS_ADVANCE);
    assert_true(base_str_equal(body.who.by, BASE_STR("me")));
    base_arena_done(&arena);
}

#define STAGES                                                                                     \
    "\"stages\":[{\"name\":\"full\",\"kind\":\"full\",\"max_failure\":0,\"statement\":\"_w\"}]"
#define STAGE(text) HEAD "\"stages\":[{" text "}]}"
#define COND(text)  HEAD STAGES ",\"target\":[{" text "}]}"
#define EXPR(text)  HEAD STAGES ",\"target\":\"" text "\"}"

#define SHADOW(text)                                                                               \
    STAGE(                                                                                         \
        "\"name\":\"a\",\"kind\":\"shadow\",\"percent\":1,\"max_failure\":0,\"statement\":\"_w\"," \
        "\"tolerance\":" text)

static const struct {
    const char *text;
    const char *says;
} bad[] = {
    {"", "line 1"},
    {"{\n  \"id\": 00\n}", "line 2, column"},
    {"[]", "not an object"},
    {"{\"id\":\"1\",\"id\":\"2\"}", "duplicate"},
    {HEAD STAGES ",\"surprise\":1}", "surprise: unknown field"},
    {"{\"id\":\"0000000000000000\"}", "id: not 16"},
    {"{\"id\":\"00C0FFEE00C0FFEE\"}", "id: not 16"},
    {"{}", "id: missing"},
    {HEAD "\"stages\":[]}", "stages: empty"},
    {HEAD "\"stages\":{}}", "stages: not a list"},
    {HEAD "\"stages\":[1]}", "stages[0]: not an object"},
    {STAGE("\"kind\":\"full\""), "stages[0].name: missing"},
    {STAGE("\"name\":\"a\",\"kind\":\"all\""), "stages[0].kind: 'all'"},
    {STAGE("\"name\":\"a\",\"kind\":\"gray\",\"max_failure\":0"), "stages[0].percent: missing"},
    {STAGE("\"name\":\"a\",\"kind\":\"gray\",\"percent\":0,\"max_failure\":0"),
     "stages[0].percent"},
    {STAGE("\"name\":\"a\",\"kind\":\"gray\",\"percent\":100.1,\"max_failure\":0"),
     "stages[0].percent"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\""), "stages[0].max_failure: missing"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":1.5"), "stages[0].max_failure"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":0"), "stages[0].statement: missing"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":0,\"statement\":\"a+b\""),
     "stages[0].statement: not base64url"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":0,\"min_sample\":-1"),
     "stages[0].min_sample"},
    {COND("\"attr\":\"os\",\"op\":\"~\",\"value\":1"), "target[0].op: '~'"},
    {COND("\"attr\":\"os\",\"op\":\"==\""), "target[0].value: missing"},
    {COND("\"attr\":\"os\",\"op\":\"==\",\"value\":[1]"), "target[0].value: in and not_in"},
    {COND("\"attr\":\"os\",\"op\":\"in\",\"value\":[]"), "target[0].value: 0 items"},
    {COND("\"attr\":\"os\",\"op\":\"==\",\"value\":1.5"), "target[0].value: not a text"},
    {COND("\"attr\":\"os\",\"op\":\"==\",\"value\":1,\"type\":\"version\""),
     "target[0].value: does not fit"},
    {COND("\"attr\":\"os\",\"op\":\"==\",\"value\":\"x y\",\"type\":\"version\""),
     "is not a version"},
    {COND("\"attr\":\"os\",\"op\":\"absent\",\"value\":1"), "target[0].value: present and absent"},
    {COND("\"attr\":\"\",\"op\":\"==\",\"value\":1"), "target[0].attr: empty"},
    {COND("\"attr\":\"os\",\"op\":\"<\",\"value\":true"), "target[0]:"},
    {COND("\"attr\":\"os\",\"op\":\"==\",\"value\":1,\"extra\":1"), "target[0].extra: unknown"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":0,\"statement\":\"_w\",\"on_fail\":"
           "\"x\""),
     "stages[0].on_fail: 'x' is neither"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":0,\"statement\":\"_w\",\"on_pass\":"
           "\"x\""),
     "stages[0].on_pass: 'x' is neither"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":0,\"min_answered\":1.1"),
     "stages[0].min_answered"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":0,\"guard_s\":2592001"),
     "stages[0].guard_s"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":0,\"window_s\":2592001"),
     "stages[0].window_s"},
    {HEAD "\"stages\":[{\"name\":\"a\",\"kind\":\"simulate\",\"max_failure\":0,\"guard_s\":5},"
          "{\"name\":\"b\",\"kind\":\"full\",\"max_failure\":0,\"statement\":\"_w\"}]}",
     "stages[0].guard_s: for the last stage only"},
    {HEAD STAGES ",\"priority\":1001}", "priority"},
    {HEAD STAGES ",\"priority\":-1}", "priority"},
    {HEAD STAGES ",\"arm\":5}", "arm: not an object"},
    {HEAD STAGES ",\"arm\":{\"salt\":\"00000000000000aa\",\"from\":0}}", "arm.to: missing"},
    {HEAD STAGES ",\"arm\":{\"salt\":\"00000000000000aa\",\"from\":50,\"to\":50}}",
     "arm.to: not above from"},
    {HEAD STAGES ",\"arm\":{\"salt\":\"aa\",\"from\":0,\"to\":50}}", "arm.salt: not 16"},
    {HEAD STAGES ",\"arm\":{\"salt\":\"00000000000000aa\",\"from\":0,\"to\":50,\"x\":1}}",
     "arm.x: unknown"},
    {EXPR("os == "), "target: line 1, column 7: expected a literal after '=='"},
    {EXPR("beta &&\\n  os = 1"), "target: line 2, column 6: '==' is meant"},
    {EXPR(""), "target: line 1, column 1: expected an attribute"},
    {STAGE("\"name\":\"a\",\"kind\":\"beta\",\"max_failure\":0,\"audience\":\"a in [1,true]\""),
     "stages[0].audience: line 1, column 9: the literals of a set have one type"},
    {HEAD STAGES ",\"target\":5}", "target: neither an expression nor a list of conditions"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":0,\"statement\":\"_w\","
           "\"tolerance\":{\"absolute\":1}"),
     "stages[0].tolerance: for a shadow stage only"},
    {STAGE("\"name\":\"a\",\"kind\":\"full\",\"max_failure\":0,\"statement\":\"_w\",\"rule\":"
           "\"logrank\",\"max_rise\":0.1,\"retries\":{\"download\":1}"),
     "stages[0].retries.download: the rule logrank"},
    {SHADOW("1e-6"), "stages[0].tolerance: not an object"},
    {SHADOW("{\"absolut\":1}"), "stages[0].tolerance.absolut: unknown field"},
    {SHADOW("{\"absolute\":-1}"), "stages[0].tolerance.absolute"},
    {SHADOW("{\"relative\":1.1}"), "stages[0].tolerance.relative"},
    {SHADOW("{\"fields\":[]}"), "stages[0].tolerance.fields: not an object"},
    {SHADOW("{\"fields\":{\"a\":1}}"), "stages[0].tolerance.fields.a: not an object"},
    {SHADOW("{\"fields\":{\"a\":{\"x\":1}}}"), "stages[0].tolerance.fields.a.x: unknown field"},
    {SHADOW("{\"fields\":{\"\":{}}}"), "stages[0].tolerance.fields"},
    {SHADOW("{\"fields\":{\"abcdefghijklmnopqrstuvwxy\":{}}}"), "1 to 24 bytes"},
    {SHADOW("{\"relative\":1,\"fields\":{\"a\":{},\"b\":{},\"c\":{},\"d\":{}}}"), "4 names"},
    {SHADOW("{\"fields\":{\"a\\\"b\":{}}}"), "no quote"},
    {"{\"a\":[[[[[[[[[[[[[[]]]]]]]]]]]]]]}", "nested levels"},
};

// Said in any order, it is kept in one, and shown as it was said.
static void test_tolerances_both_ways(void **state)
{
    (void)state;
    struct base_arena arena;
    struct gw_rollout_body body;
    struct base_error error = {0};
    static const char said[] = SHADOW("{\"fields\":{\"s\":{\"absolute\":0.1},\"id\":{}},"
                                      "\"relative\":1e-6}");
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    if (parse(&arena, said, &body, &error) != BASE_OK) {
        fail_msg("refused: %s", error.text);
    }
    const struct pol_stage *stage = &body.spec.stages[0].stage;
    assert_int_equal(stage->tolerance_count, 3);
    assert_int_equal(stage->tolerances[0].field_size, 0);
    assert_true(stage->tolerances[0].relative == 1e-6 && stage->tolerances[0].absolute == 0);
    assert_memory_equal(stage->tolerances[1].field, "id", 2);
    assert_true(stage->tolerances[2].field_size == 1 && stage->tolerances[2].absolute == 0.1);
    json_t *view = gw_tolerance_view(stage);
    json_t *expected = json_pack("{s:f, s:f, s:{s:{s:f, s:f}, s:{s:f, s:f}}}", "absolute", 0.0,
                                 "relative", 1e-6, "fields", "id", "absolute", 0.0, "relative", 0.0,
                                 "s", "absolute", 0.1, "relative", 0.0);
    assert_true(json_equal(view, expected));
    json_decref(view);
    json_decref(expected);
    assert_int_equal(parse(&arena, SHADOW("{\"absolute\":0,\"fields\":{}}"), &body, &error),
                     BASE_OK);
    assert_int_equal(body.spec.stages[0].stage.tolerance_count, 0);
    view = gw_tolerance_view(&body.spec.stages[0].stage);
    assert_true(json_is_null(view));
    json_decref(view);
    base_arena_done(&arena);
}

static void test_expressions_are_compiled(void **state)
{
    (void)state;
    struct base_arena arena;
    struct gw_rollout_body body;
    struct base_error error = {0};
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(parse(&arena, EXPR("os == \\\"ios\\\" && user.age in 18..30"), &body, &error),
                     BASE_OK);
    const struct pol_target *target = &body.spec.target;
    assert_int_equal(target->cond_count, 0);
    assert_non_null(target->expr);
    struct pol_text text = pol_expr_text(target->expr);
    assert_int_equal(text.size, strlen("os == \"ios\" && user.age in 18..30"));
    struct pol_attr items[] = {
        {{"os", 2}, {.type = POL_TYPE_STRING, .text = {"ios", 3}}},
        {{"user.age", 8}, {.type = POL_TYPE_INTEGER, .integer = 30}},
    };
    struct pol_attrs attrs = {items, 2};
    assert_true(pol_target_match(target, &attrs).matched);
    items[1].value.integer = 31;
    assert_int_equal(pol_target_match(target, &attrs).reason, POL_REASON_EXPR_FALSE);
    base_arena_done(&arena);
}

static void test_an_expression_has_its_limit(void **state)
{
    (void)state;
    struct base_arena arena;
    struct gw_rollout_body body;
    struct base_error error = {0};
    static char text[POL_EXPR_TEXT_MAX + 512];
    int head = snprintf(text, sizeof(text), "%s", HEAD STAGES ",\"target\":\"");
    memset(text + head, ' ', POL_EXPR_TEXT_MAX);
    memcpy(text + head + POL_EXPR_TEXT_MAX, "a\"}", 4);
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(parse(&arena, text, &body, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "at most 4096 bytes"));
    memcpy(text + head + POL_EXPR_TEXT_MAX - 1, "a\"}", 4);
    assert_int_equal(parse(&arena, text, &body, &error), BASE_OK);
    base_arena_done(&arena);
}

static void test_bad_bodies_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(bad); ++i) {
        struct base_arena arena;
        struct gw_rollout_body body;
        struct base_error error;
        base_arena_init(&arena, base_alloc_heap(), 0, 0);
        enum base_status status = parse(&arena, bad[i].text, &body, &error);
        if (!base_status_is_input(status) || strcasestr(error.text, bad[i].says) == NULL) {
            fail_msg("case %zu (%s): status %d, text '%s', expected '%s'", i, bad[i].text, status,
                     error.text, bad[i].says);
        }
        base_arena_done(&arena);
    }
}

static void test_limits(void **state)
{
    struct base_arena arena;
    struct gw_rollout_body body;
    struct base_error error;
    size_t size = 300 * 1024;
    uint8_t *large = malloc(size);

    (void)state;
    assert_non_null(large);
    memset(large, ' ', size);
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(gw_rollout_body_parse(large, size, &arena, &body, &error), BASE_ERR_TOO_LARGE);
    assert_non_null(strstr(error.text, "262144"));
    free(large);

    char text[8192];
    int at = snprintf(text, sizeof(text), "%s\"stages\":[", HEAD);
    for (int i = 0; i < 17; ++i) {
        at += snprintf(text + at, sizeof(text) - (size_t)at, "%s{}", i > 0 ? "," : "");
    }
    snprintf(text + at, sizeof(text) - (size_t)at, "]}");
    assert_int_equal(parse(&arena, text, &body, &error), BASE_ERR_TOO_LARGE);
    assert_non_null(strstr(error.text, "stages: 17 items; at most 16"));
    base_arena_done(&arena);
}

// Each allocation of the arena fails in turn: a clean NOMEM, nothing leaked.
static void test_failing_allocations(void **state)
{
    size_t calls = SIZE_MAX;

    (void)state;
    for (size_t allowed = 0; allowed < calls; ++allowed) {
        struct test_alloc alloc;
        struct base_arena arena;
        struct gw_rollout_body body;
        struct base_error error;
        test_alloc_init(&alloc, allowed);
        base_arena_init(&arena, &alloc.port, 256, 0);
        enum base_status status = parse(&arena, good, &body, &error);
        if (status == BASE_OK) {
            calls = alloc.calls;
        } else {
            assert_int_equal(status, BASE_ERR_NOMEM);
        }
        base_arena_done(&arena);
        assert_int_equal(alloc.live, 0);
        assert_true(allowed < 1000);
    }
}

// The same for the JSON library's own memory.
static size_t json_allowed;

static void *json_limited_malloc(size_t size)
{
    if (json_allowed == 0) {
        return NULL;
    }
    json_allowed--;
    return malloc(size);
}

static void test_failing_json_allocations(void **state)
{
    (void)state;
    for (size_t allowed = 0; allowed < 2000; ++allowed) {
        struct base_arena arena;
        struct gw_rollout_body body;
        struct base_error error;
        base_arena_init(&arena, base_alloc_heap(), 0, 0);
        json_allowed = allowed;
        json_set_alloc_funcs(json_limited_malloc, free);
        enum base_status status = parse(&arena, good, &body, &error);
        json_set_alloc_funcs(malloc, free);
        base_arena_done(&arena);
        if (status == BASE_OK) {
            assert_true(allowed > 10);
            return;
        }
        // The library tells some of them as syntax errors; what counts is that each is refused.
        if (error.text[0] == '\0') {
            fail_msg("allocation %zu: status %d without a text", allowed, status);
        }
    }
    fail_msg("never parsed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_body),
        cmocka_unit_test(test_tolerances_both_ways),
        cmocka_unit_test(test_expressions_are_compiled),
        cmocka_unit_test(test_an_expression_has_its_limit),
        cmocka_unit_test(test_bad_bodies_are_named),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_failing_json_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
