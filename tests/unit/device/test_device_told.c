// What of a run's end leaves with reports: of a version that declares what leaves only the place of
// a failure, whatever words a script finds; and that something was refused, counted.
#include "device_rig.h"

#include "base/hash.h"
#include "wire/leaves/leaves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK   "demo/score"
#define SECRET "s3cr3t-of-a-person"

static struct rig rig;

// A declaration that lets nothing go but what failures may say; leaves NULL: undeclared.
static void declare(const struct wire_leaves *leaves)
{
    static uint8_t inner[64];
    static uint8_t bytes[128];
    struct wire_declaration declaration = {.result_upload = WIRE_DECLARATION_NO_UPLOAD};
    size_t size = 0;
    if (leaves != NULL) {
        assert_int_equal(wire_leaves_encode(leaves, inner, sizeof(inner), &size), BASE_OK);
        declaration.leaves = (struct base_str){(const char *)inner, size};
    }
    assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof(bytes), &size), BASE_OK);
    rig.declaration = (const char *)bytes;
    rig.declaration_bytes = size;
}

static const struct wire_leaves quiet = {.errors = WIRE_LEAVES_PLACE};
static const struct wire_leaves words = {.errors = WIRE_LEAVES_WORDS};

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static void install(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {
        .task = TASK, .version = version, .counter = counter, .rollout_id = counter};
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_offer_none(&rig);
}

static const struct rig_outcome *told(enum wire_outcome_kind kind)
{
    for (uint32_t i = 0; i < rig.ledger_count; i++) {
        if (rig.ledger[i].outcome.kind == kind) {
            return &rig.ledger[i];
        }
    }
    return NULL;
}

// How the failure of a version with these leaves is reported.
static const struct rig_outcome *failure_of(const struct wire_leaves *leaves,
                                            const struct dev_task_place *place,
                                            enum wire_outcome_kind ends)
{
    rig_init(&rig);
    declare(leaves);
    rig_version_add(&rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig.versions[0].ends = ends;
    rig.versions[0].failure = "ValueError: " SECRET " (main.py:3)";
    rig.versions[0].place = *place;
    rig_boot(&rig);
    install(0, 1);
    const struct rig_outcome *failed = told(ends);
    assert_non_null(failed);
    return failed;
}

static void only_the_place_of_a_failure_leaves(void **state)
{
    (void)state;
    static const struct {
        struct dev_task_place place;
        enum wire_outcome_kind ends;
        const char *told;
    } cases[] = {
        {{.type = "ValueError", .file = "main.py", .line = 3},
         WIRE_OUTCOME_FAIL_EXCEPTION,
         "ValueError (main.py:3)"},
        {{.type = SECRET, .file = "main.py", .line = 3}, // a class that the script made
         WIRE_OUTCOME_FAIL_EXCEPTION,
         "Exception (main.py:3)"},
        {{.type = "ValueError", .file = SECRET ".py", .line = 3}, // no file of the version
         WIRE_OUTCOME_FAIL_EXCEPTION,
         "ValueError"},
        {{.type = "ValueError", .file = "main." SECRET, .line = 3}, // one, with other words behind
         WIRE_OUTCOME_FAIL_EXCEPTION,
         "ValueError (main.py:3)"},
        {{.type = "ValueError", .file = "main", .line = 3},
         WIRE_OUTCOME_FAIL_EXCEPTION,
         "ValueError (main.py:3)"},
        {{.type = "ValueError", .file = "main.py", .line = 4000000000u},
         WIRE_OUTCOME_FAIL_EXCEPTION,
         "ValueError"},
        {{.type = "", .file = "main.py", .line = 3},
         WIRE_OUTCOME_FAIL_TIMEOUT,
         "fail_timeout (main.py:3)"},
        {{.type = "", .file = ""}, WIRE_OUTCOME_FAIL_LOAD, "fail_load"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct rig_outcome *failed = failure_of(&quiet, &cases[i].place, cases[i].ends);
        assert_string_equal(failed->detail, cases[i].told);
        assert_true(failed->outcome.fingerprint ==
                    base_hash64(cases[i].told, strlen(cases[i].told)));
        (void)teardown(NULL);
    }
}

static void words_leave_where_they_may(void **state)
{
    (void)state;
    const struct dev_task_place place = {.type = "ValueError", .file = "main.py", .line = 3};
    const struct dev_task_place own = {.of_port = true};
    const char *whole = "ValueError: " SECRET " (main.py:3)";
    const struct rig_outcome *failed = failure_of(NULL, &place, WIRE_OUTCOME_FAIL_EXCEPTION);
    assert_string_equal(failed->detail, whole);
    assert_true(failed->outcome.fingerprint == 77);
    (void)teardown(NULL);
    failed = failure_of(&words, &place, WIRE_OUTCOME_FAIL_EXCEPTION);
    assert_string_equal(failed->detail, whole);
    (void)teardown(NULL);
    // The port's own words, of a process that died: no script made them.
    failed = failure_of(&quiet, &own, WIRE_OUTCOME_FAIL_CRASH);
    assert_string_equal(failed->detail, whole);
}

static void on_result(void *app, struct base_str task, const struct dev_task_end *end)
{
    (void)app;
    (void)task;
    (void)end;
    dev_run_refused(rig.runtime, 3); // as the pipeline says it
}

// Where it is required, a version that does not say what may leave is not for the device, until it
// is required no more.
static void what_may_leave_is_required(void **state)
{
    (void)state;
    rig_init(&rig);
    rig.config.leaves_required = true;
    rig_version_add(&rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    declare(&quiet);
    rig_version_add(&rig, TASK, 1, 200, WIRE_RUNTIME_ABI, 0);
    rig_boot(&rig);
    install(0, 1);
    const struct rig_outcome *refused = told(WIRE_OUTCOME_NOT_APPLICABLE);
    assert_non_null(refused);
    assert_non_null(strstr(refused->detail, "does not say what may leave"));
    assert_null(told(WIRE_OUTCOME_RAN));
    install(1, 2);
    assert_int_equal(rig_active(&rig, TASK), 1);
    assert_non_null(told(WIRE_OUTCOME_RAN));
    rig.config.leaves_required = false;
    rig_kill(&rig);
    rig_boot(&rig);
    install(0, 3);
    assert_int_equal(rig_active(&rig, TASK), 0);
}

static void refusals_are_counted(void **state)
{
    (void)state;
    rig_init(&rig);
    declare(&quiet);
    rig_version_add(&rig, TASK, 1, 100, WIRE_RUNTIME_ABI, 0);
    rig.versions[0].refused = 2; // as the VM says it
    rig.ports.on_result = on_result;
    rig_boot(&rig);
    install(0, 1);
    const struct rig_outcome *ran = told(WIRE_OUTCOME_RAN);
    assert_non_null(ran);
    assert_int_equal(ran->outcome.figures.privacy_refusals, 5);
    dev_run_refused(rig.runtime, 7); // of no run
    rig.ports.on_result = NULL;
}

// `of_active`, `of_shadow`: which of the two says what may leave; NULL: undeclared.
static const struct rig_outcome *difference_of(const struct wire_leaves *of_active,
                                               const struct wire_leaves *of_shadow)
{
    rig_init(&rig);
    declare(of_active);
    rig_version_add(&rig, TASK, 2, 3000, WIRE_RUNTIME_ABI, 60);
    declare(of_shadow);
    rig_version_add(&rig, TASK, 3, 4000, WIRE_RUNTIME_ABI, 60);
    rig.versions[0].result = "{\"" SECRET "\":1}";
    rig.versions[1].result = "{\"" SECRET "\":4711}";
    rig_boot(&rig);
    install(0, 1);
    struct rig_statement statement = {
        .task = TASK, .version = 1, .counter = 2, .floor = 1, .rollout_id = 9, .shadow = true};
    rig_offer(&rig, &statement);
    rig_checkin(&rig);
    rig_offer_none(&rig);
    rig.run_on = true;
    rig_run(&rig, 10 * 60 * UINT64_C(1000000));
    rig_checkin(&rig);
    const struct rig_outcome *failed = told(WIRE_OUTCOME_FAIL_DIFFERENT);
    assert_non_null(failed);
    return failed;
}

static void what_differs_in_a_shadow_is_not_told(void **state)
{
    (void)state;
    const char *plain = "the result is not the active version's";
    const struct rig_outcome *failed = difference_of(NULL, NULL);
    assert_non_null(strstr(failed->detail, "4711")); // so it would be
    (void)teardown(NULL);
    assert_string_equal(difference_of(NULL, &quiet)->detail, plain);
    (void)teardown(NULL);
    failed = difference_of(&quiet, NULL);
    assert_string_equal(failed->detail, plain);
    assert_true(failed->outcome.fingerprint != 0);
    (void)teardown(NULL);
    failed = difference_of(&words, &words);
    assert_non_null(strstr(failed->detail, "4711"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_place_of_a_failure_leaves),
        cmocka_unit_test_teardown(words_leave_where_they_may, teardown),
        cmocka_unit_test_teardown(refusals_are_counted, teardown),
        cmocka_unit_test_teardown(what_may_leave_is_required, teardown),
        cmocka_unit_test_teardown(what_differs_in_a_shadow_is_not_told, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
