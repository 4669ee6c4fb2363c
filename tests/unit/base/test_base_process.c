// What a program says of its output when it ends: output that is lost is a failure of its own, and
// other statuses stay what they are.
#include "base/os/process_start.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LOST 9

// The status of a program that writes to `path` as standard output and ends with `status`.
static int ends(const char *path, bool flushed, int status)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = open(path, O_WRONLY);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) {
            _exit(99);
        }
        base_process_start(LOST);
        (void)printf("text\n");
        if (flushed) {
            (void)fflush(stdout); // what is lost is lost before the end
        }
        exit(status);
    }
    int got = 0;
    assert_int_equal(waitpid(child, &got, 0), child);
    assert_true(WIFEXITED(got));
    return WEXITSTATUS(got);
}

static void test_lost_output(void **state)
{
    static const struct {
        const char *path;
        bool flushed;
        int status;
        int ends;
    } cases[] = {
        {"/dev/null", false, 0, 0},    {"/dev/null", true, 0, 0},    {"/dev/null", true, 7, 7},
        {"/dev/full", false, 0, LOST}, {"/dev/full", true, 0, LOST}, {"/dev/full", false, 1, 1},
        {"/dev/full", true, 7, 7},
    };
    (void)state;
    (void)fflush(stdout); // or the children write it too
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status = ends(cases[i].path, cases[i].flushed, cases[i].status);
        if (status != cases[i].ends) {
            fail_msg("case %zu: ends with %d, not %d", i, status, cases[i].ends);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lost_output)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
