// Status codes, rich errors, checked arithmetic, and the two tiers of assertion.
#include "test_kit.h"

#include "base/check.h"
#include "base/ckd.h"
#include "base/os/errno_status.h"
#include "base/error.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

struct row {
    enum base_status status;
    const char *name;
    bool input;
    bool trust;
    bool resource;
    bool environment;
};

static const struct row rows[] = {
    {BASE_OK, "OK", false, false, false, false},
    {BASE_ERR_INVALID, "INVALID", true, false, false, false},
    {BASE_ERR_OVERFLOW, "OVERFLOW", true, false, false, false},
    {BASE_ERR_SIGNATURE, "SIGNATURE", false, true, false, false},
    {BASE_ERR_DENIED, "DENIED", false, true, false, false},
    {BASE_ERR_NOMEM, "NOMEM", false, false, true, false},
    {BASE_ERR_BUSY, "BUSY", false, false, true, false},
    {BASE_ERR_IO, "IO", false, false, false, true},
    {BASE_ERR_CORRUPT, "CORRUPT", false, false, false, true},
    {BASE_ERR_BUG, "BUG", false, false, false, false},
};

static void classes_follow_from_the_code(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        assert_string_equal(base_status_name(row->status), row->name);
        assert_int_equal(base_status_is_input(row->status), row->input);
        assert_int_equal(base_status_is_trust(row->status), row->trust);
        assert_int_equal(base_status_is_resource(row->status), row->resource);
        assert_int_equal(base_status_is_environment(row->status), row->environment);
    }
}

static void every_status_has_a_text(void **state)
{
    (void)state;
#define CHECK(name, value, text)                                                                   \
    assert_string_equal(base_status_text(BASE_ERR_##name), text);                                  \
    assert_string_equal(base_status_name(BASE_ERR_##name), #name);
    BASE_STATUS_MAP(CHECK)
#undef CHECK
    assert_string_equal(base_status_text((enum base_status)(-12345)), "unknown status");
    assert_string_equal(base_status_name((enum base_status)(-12345)), "UNKNOWN");
}

static enum base_status tries(enum base_status status)
{
    BASE_TRY(status);
    return BASE_ERR_BUG;
}

static void try_returns_what_failed(void **state)
{
    (void)state;
    assert_int_equal(tries(BASE_ERR_IO), BASE_ERR_IO);
    assert_int_equal(tries(BASE_OK), BASE_ERR_BUG);
}

static void errors_are_cut_not_overrun(void **state)
{
    (void)state;
    struct base_error error = {.line = 7};
    assert_int_equal(base_error_set(&error, BASE_ERR_INVALID, "%s is %d", "x", 3),
                     BASE_ERR_INVALID);
    assert_int_equal(error.status, BASE_ERR_INVALID);
    assert_string_equal(error.text, "x is 3");
    assert_int_equal(error.line, 0);

    char longer[2 * BASE_ERROR_TEXT_MAX];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    (void)base_error_set(&error, BASE_ERR_IO, "%s", longer);
    assert_int_equal(strlen(error.text), BASE_ERROR_TEXT_MAX - 1);
    assert_int_equal(base_error_set(NULL, BASE_ERR_IO, "%s", longer), BASE_ERR_IO);
}

static void errors_of_the_system(void **state)
{
    (void)state;
    static const struct {
        int error;
        enum base_status want;
    } cases[] = {{ENOENT, BASE_ERR_NOT_FOUND},
                 {ENOSPC, BASE_ERR_FULL},
                 {EDQUOT, BASE_ERR_FULL},
                 {EFBIG, BASE_ERR_FULL},
                 {ENOMEM, BASE_ERR_NOMEM},
                 {EACCES, BASE_ERR_IO},
                 {EIO, BASE_ERR_IO}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_int_equal(base_status_of_errno(cases[i].error), cases[i].want);
    }
}

static void checked_arithmetic(void **state)
{
    (void)state;
    size_t out = 1;
    assert_true(base_ckd_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_false(base_ckd_add(SIZE_MAX, 1, &out));
    assert_true(base_ckd_mul(SIZE_MAX / 2, 2, &out));
    assert_true(out == SIZE_MAX - 1);
    assert_false(base_ckd_mul(SIZE_MAX / 2, 3, &out));
    uint64_t out64 = 0;
    assert_true(base_ckd_add_u64(UINT64_MAX - 2, 2, &out64));
    assert_true(out64 == UINT64_MAX);
    assert_false(base_ckd_add_u64(UINT64_MAX, 1, &out64));
    assert_true(base_sat_add_u64(5, 6) == 11);
    assert_true(base_sat_add_u64(UINT64_MAX - 1, 5) == UINT64_MAX);
}

static void a_failed_check_ends_the_process(void **state)
{
    (void)state;
    base_check(1 + 1 == 2);
    base_assert(1 + 1 == 2);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        base_check(1 + 1 == 3);
        _exit(0);
    }
    (void)close(ends[1]);
    char text[512] = {0};
    ssize_t size = read(ends[0], text, sizeof text - 1);
    assert_true(size > 0);
    (void)close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_non_null(strstr(text, "test_base_status.c"));
    assert_non_null(strstr(text, "check failed: 1 + 1 == 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_follow_from_the_code),
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(try_returns_what_failed),
        cmocka_unit_test(errors_are_cut_not_overrun),
        cmocka_unit_test(errors_of_the_system),
        cmocka_unit_test(checked_arithmetic),
        cmocka_unit_test(a_failed_check_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
